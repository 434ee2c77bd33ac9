//! Namespaces: typed paths that keep owners apart.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::log::{ConversationId, RequestReason};
use crate::store::{Backend as _, Listed, Name};

use super::conversation::{Store, absent};
use super::error::{Error, Refusal};

/// The tenant of conversations whose caller names none.
const TENANT: &str = "default";
/// What parts the segments of a namespace as text, and what takes that meaning from it.
const PARTS: char = ':';
const ESCAPES: char = '\\';

/// A typed path: a tenant, which is never empty, and further segments, which may be.
///
/// Two namespaces are one where all their segments are equal. As text the segments are joined by
/// `:`, with `:` and `\` in them escaped by `\`; what [`fmt::Display`] writes, [`FromStr`] reads.
///
/// ```
/// use ctxlog::engine::Namespace;
///
/// let team = Namespace::new("acme")?.with("eu:west");
/// assert_eq!(team.to_string(), r"acme:eu\:west");
/// assert_eq!(r"acme:eu\:west".parse::<Namespace>()?, team);
/// assert!(team.is_within(&Namespace::new("acme")?));
/// # Ok::<(), ctxlog::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Namespace {
    tenant: String,
    segments: Vec<String>,
}

impl Default for Namespace {
    /// Where conversations are whose caller names no namespace.
    fn default() -> Self {
        Self {
            tenant: TENANT.to_owned(),
            segments: Vec::new(),
        }
    }
}

impl Namespace {
    /// The namespace of a tenant.
    ///
    /// # Errors
    /// `invalid-namespace` where the tenant is empty.
    pub fn new(tenant: impl Into<String>) -> Result<Self, Error> {
        let tenant = tenant.into();
        if tenant.is_empty() {
            return Err(invalid("its tenant is empty"));
        }
        Ok(Self {
            tenant,
            segments: Vec::new(),
        })
    }

    /// The namespace of this segment within it.
    #[must_use]
    pub fn with(mut self, segment: impl Into<String>) -> Self {
        self.segments.push(segment.into());
        self
    }

    /// The tenant.
    #[must_use]
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The further segments.
    #[must_use]
    pub fn segments(&self) -> &[String] {
        &self.segments
    }

    /// Whether it is this one or lies within it: of the same tenant, and its segments begin with all
    /// of the other's.
    #[must_use]
    pub fn is_within(&self, outer: &Self) -> bool {
        self.tenant == outer.tenant && self.segments.starts_with(&outer.segments)
    }

    /// The path as a store keeps it.
    pub(super) fn path(&self) -> Vec<String> {
        let segments = self.segments.iter().cloned();
        std::iter::once(self.tenant.clone())
            .chain(segments)
            .collect()
    }

    /// The namespace of a name in a store.
    ///
    /// # Errors
    /// `invalid-namespace` where it has no tenant.
    pub fn of(name: &Name) -> Result<Self, Error> {
        let Some((tenant, segments)) = name.namespace.split_first() else {
            return Err(invalid("it has no tenant"));
        };
        let mut namespace = Self::new(tenant.as_str())?;
        namespace.segments.extend_from_slice(segments);
        Ok(namespace)
    }
}

fn invalid(problem: &str) -> Error {
    let detail = format!("the namespace is not possible: {problem}");
    Refusal::new(RequestReason::InvalidNamespace, detail).into()
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escaped(&self.tenant))?;
        let mut segments = self.segments.iter();
        segments.try_for_each(|segment| write!(f, "{PARTS}{}", escaped(segment)))
    }
}

fn escaped(segment: &str) -> String {
    let escape = |c| (c == PARTS || c == ESCAPES).then_some(ESCAPES);
    let chars = segment.chars();
    chars
        .flat_map(|c| escape(c).into_iter().chain([c]))
        .collect()
}

impl FromStr for Namespace {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut path = vec![String::new()];
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            let c = match c {
                PARTS => {
                    path.push(String::new());
                    continue;
                }
                ESCAPES => match chars.next() {
                    Some(escaped @ (PARTS | ESCAPES)) => escaped,
                    Some(other) => return Err(invalid(&format!("'\\{other}' is no escape"))),
                    None => return Err(invalid("it ends in the middle of an escape")),
                },
                c => c,
            };
            if let Some(segment) = path.last_mut() {
                segment.push(c);
            }
        }
        let mut path = path.into_iter();
        let mut namespace = Self::new(path.next().unwrap_or_default())?;
        namespace.segments.extend(path);
        Ok(namespace)
    }
}

impl Store {
    /// A handle of the same store in which conversation names are those of a namespace: others it
    /// neither finds, lists nor reads.
    ///
    /// ```
    /// use ctxlog::engine::{Namespace, Store};
    ///
    /// let store = Store::in_memory();
    /// let acme = store.within(Namespace::new("acme")?);
    /// acme.conversation("support")?;
    /// let other = store.within(Namespace::new("other")?);
    /// assert!(other.existing("support").is_err());
    /// assert!(other.list()?.is_empty());
    /// # Ok::<(), ctxlog::Error>(())
    /// ```
    #[must_use]
    pub fn within(&self, namespace: Namespace) -> Self {
        let mut store = self.clone();
        store.scope = Some(namespace);
        store
    }

    /// The namespace of this handle's names.
    #[must_use]
    pub fn namespace(&self) -> Namespace {
        self.scope.clone().unwrap_or_default()
    }

    /// The conversations of a namespace and of those within it, sorted by name. Of what is not this
    /// handle's there are none.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn list_within(&self, namespace: &Namespace) -> Result<Vec<Listed>, Error> {
        let mut all = self.backend.list(&namespace.path())?;
        all.retain(|listed| self.is_ours(&listed.name));
        Ok(all)
    }

    /// The namespaces that hold conversations, among this one and those within it, sorted.
    ///
    /// # Errors
    /// As [`Store::list_within`].
    pub fn namespaces(&self, within: &Namespace) -> Result<Vec<Namespace>, Error> {
        let all = self.list_within(within)?;
        let all = all.iter().map(|listed| Namespace::of(&listed.name));
        let distinct = all.collect::<Result<BTreeSet<_>, _>>()?;
        Ok(distinct.into_iter().collect())
    }

    /// Whether this handle may know of a conversation of this name.
    pub(super) fn is_ours(&self, name: &Name) -> bool {
        let within = |scope: &Namespace| {
            Namespace::of(name).is_ok_and(|namespace| namespace.is_within(scope))
        };
        self.scope.as_ref().is_none_or(within)
    }

    /// A log of another namespace is not told from one that is not there.
    pub(super) fn may_know(&self, id: ConversationId) -> Result<(), Error> {
        let Some(scope) = &self.scope else {
            return Ok(());
        };
        let ours = match self.memory.get(id) {
            Some(inner) => self.is_ours(&inner.name),
            None => {
                let all = self.backend.list(&scope.path())?;
                all.iter().any(|listed| listed.conversation == id)
            }
        };
        if ours { Ok(()) } else { Err(absent(id)) }
    }

    /// A name from elsewhere, as it may be here: of this handle's namespace where it is of another.
    pub(super) fn own_name(&self, name: Name) -> Name {
        if self.is_ours(&name) {
            return name;
        }
        self.full_name(&name.name)
    }

    /// A conversation's name in this handle's namespace.
    pub(super) fn full_name(&self, name: &str) -> Name {
        Name {
            namespace: self.namespace().path(),
            name: name.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hostile() -> impl Strategy<Value = Namespace> {
        let text = || prop_oneof!["[:\\\\/a\\x00%]{0,4}", "\\PC{0,4}"];
        let path = prop::collection::vec(text(), 0..4);
        (text().prop_filter("empty", |t| !t.is_empty()), path)
            .prop_map(|(tenant, segments)| Namespace { tenant, segments })
    }

    proptest! {
        #[test]
        fn text_and_path_say_the_same(one in hostile(), other in hostile()) {
            prop_assert_eq!(one.to_string().parse::<Namespace>().unwrap(), one.clone());
            prop_assert_eq!(one == other, one.to_string() == other.to_string());
            let name = Name { namespace: one.path(), name: String::new() };
            prop_assert_eq!(Namespace::of(&name).unwrap(), one.clone());
            prop_assert!(one.is_within(&one) && one.clone().with("").is_within(&one));
            prop_assert!(!one.is_within(&one.clone().with("")));
        }
    }

    #[test]
    fn what_is_no_namespace_is_refused_by_name() {
        for text in ["", ":scope", "a\\", "a\\b", "a:b\\"] {
            let refused = text.parse::<Namespace>().unwrap_err();
            let reason = refused.refusal().unwrap().reason;
            assert_eq!(reason, RequestReason::InvalidNamespace, "{text}");
        }
        let empty = "acme:".parse::<Namespace>().unwrap();
        assert_eq!(empty.segments(), [""]);
        assert!("ab".parse::<Namespace>().unwrap() != "a:b".parse::<Namespace>().unwrap());
        assert!(
            !"ab"
                .parse::<Namespace>()
                .unwrap()
                .is_within(&"a".parse().unwrap())
        );
    }
}
