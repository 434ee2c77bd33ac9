//! Selectors: how a person names a moment of a log, and spans of entries.
//!
//! | text | moment |
//! | --- | --- |
//! | `@`, `@-3` | the head, three entries before it |
//! | `it:27` | the window that call 27 was sent |
//! | `s:209` | after entry 209 |
//! | `m18` | after the entry that introduced the message |
//! | `e81d` | after the entry whose hash begins so (at least four digits) |
//!
//! Spans are `A..B` (both ends included, either may be left out), `it:10..20`, or one selector.

use std::fmt;
use std::ops::ControlFlow;
use std::str::FromStr;

use crate::engine::{Conversation, Error};
use crate::log::{Hash, Iteration, MessageId, RequestReason, Seq};
use crate::window::is_message;

/// The fewest hexadecimal digits that name an entry.
pub const PREFIX_DIGITS_MIN: usize = 4;
/// As many digits as a whole hash has.
const PREFIX_DIGITS_MAX: usize = 64;

/// The name of a moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Selector {
    /// The head, or so many entries before it.
    Head(u64),
    /// The window that a call was sent.
    Iteration(Iteration),
    /// After an entry.
    Entry(Seq),
    /// After the entry that introduced a message.
    Message(MessageId),
    /// After the entry whose hash begins with these lower-case digits.
    Prefix(String),
}

/// The name of a stretch of entries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Span {
    /// One entry; of an iteration all its entries.
    One(Selector),
    /// Both ends included; a missing one is the log's own end.
    Between(Option<Selector>, Option<Selector>),
}

/// A moment of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The entry after which it is.
    pub seq: Seq,
    /// The call whose window was asked for, where it was named by one.
    pub call: Option<Iteration>,
}

/// A selector that names nothing, or not one thing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// The text is no selector.
    #[error("'{text}' is no selector: {why}")]
    Syntax {
        /// The text.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Several entries' hashes begin so.
    #[error("several hashes begin with '{prefix}': {}", listed(.candidates))]
    Ambiguous {
        /// The digits.
        prefix: String,
        /// The entries.
        candidates: Vec<(Seq, Hash)>,
    },
    /// There is no such place, or the log cannot be read.
    #[error(transparent)]
    Engine(#[from] Error),
}

fn listed(candidates: &[(Seq, Hash)]) -> String {
    let one = |(seq, hash): &(Seq, Hash)| format!("{} ({seq})", hash.short());
    candidates.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn syntax(text: &str, why: &'static str) -> SelectError {
    let text = text.to_owned();
    SelectError::Syntax { text, why }
}

impl FromStr for Selector {
    type Err = SelectError;

    fn from_str(text: &str) -> Result<Self, SelectError> {
        let number = |digits: &str| {
            number(digits).ok_or_else(|| syntax(text, "a whole number has to follow"))
        };
        if text == "@" {
            return Ok(Self::Head(0));
        }
        if let Some(back) = text.strip_prefix("@-") {
            return number(back).map(Self::Head);
        }
        if let Some(digits) = text.strip_prefix("it:") {
            return match number(digits)? {
                0 => Err(syntax(text, "calls are counted from 1")),
                n => Ok(Self::Iteration(Iteration(n))),
            };
        }
        if let Some(digits) = text.strip_prefix("s:") {
            return number(digits).map(|n| Self::Entry(Seq(n)));
        }
        if let Some(digits) = text.strip_prefix('m') {
            return number(digits).map(|n| Self::Message(MessageId(Seq(n))));
        }
        prefix(text)
    }
}

fn prefix(text: &str) -> Result<Selector, SelectError> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(syntax(
            text,
            "there are @, @-3, it:27, s:209, m18 and hash prefixes",
        ));
    }
    match text.len() {
        PREFIX_DIGITS_MIN..=PREFIX_DIGITS_MAX => Ok(Selector::Prefix(text.to_ascii_lowercase())),
        0..PREFIX_DIGITS_MIN => Err(syntax(text, "a hash prefix has at least four digits")),
        _ => Err(syntax(text, "a hash has 64 digits")),
    }
}

/// A number of decimal digits alone, so that every moment has one spelling.
fn number(digits: &str) -> Option<u64> {
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten()
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Head(0) => f.write_str("@"),
            Self::Head(back) => write!(f, "@-{back}"),
            Self::Iteration(n) => n.fmt(f),
            Self::Entry(seq) => seq.fmt(f),
            Self::Message(id) => id.fmt(f),
            Self::Prefix(digits) => f.write_str(digits),
        }
    }
}

impl FromStr for Span {
    type Err = SelectError;

    fn from_str(text: &str) -> Result<Self, SelectError> {
        let Some((from, to)) = text.split_once("..") else {
            return text.parse().map(Self::One);
        };
        // `it:10..20` means `it:10..it:20`.
        let kind = ["it:", "s:", "m"]
            .into_iter()
            .find(|kind| from.starts_with(kind));
        let to = match kind {
            Some(kind) if number(to).is_some() => format!("{kind}{to}"),
            _ => to.to_owned(),
        };
        let end = |text: &str| (!text.is_empty()).then(|| text.parse()).transpose();
        Ok(Self::Between(end(from)?, end(&to)?))
    }
}

impl Selector {
    /// The moment it names.
    ///
    /// # Errors
    /// When there is none (`range-out-of-bounds`, `nothing-matches`), or a hash prefix is not
    /// unique.
    pub fn resolve(&self, chat: &Conversation) -> Result<Place, SelectError> {
        let Self::Prefix(prefix) = self else {
            return Ok(self.place(chat)?);
        };
        let mut found = hashes(chat, prefix)?;
        match (found.pop(), found.is_empty()) {
            (Some((seq, _)), true) => Ok(Place { seq, call: None }),
            (Some(last), false) => {
                found.push(last);
                let prefix = prefix.clone();
                Err(SelectError::Ambiguous {
                    prefix,
                    candidates: found,
                })
            }
            (None, _) => {
                let detail = format!("no entry's hash begins with '{prefix}'");
                Err(Error::refused(RequestReason::NothingMatches, detail).into())
            }
        }
    }

    /// The moment it names, for every selector but a hash prefix.
    fn place(&self, chat: &Conversation) -> Result<Place, Error> {
        let head = chat.head()?.map_or(Seq(0), |h| h.seq);
        let beyond = |what: String| Error::refused(RequestReason::RangeOutOfBounds, what);
        let seq = match self {
            Self::Head(back) => match head.0.checked_sub(*back) {
                Some(seq) => Seq(seq),
                None => {
                    return Err(beyond(format!(
                        "{self} is before the log; the head is {head}"
                    )));
                }
            },
            Self::Iteration(n) => {
                let Some(seq) = chat.call_filed(*n)? else {
                    let calls = chat.calls()?;
                    return Err(beyond(format!("there is no call {n}; the log has {calls}")));
                };
                let call = Some(*n);
                return Ok(Place { seq, call });
            }
            Self::Entry(seq) if *seq > head => {
                return Err(beyond(format!("{seq} is beyond the head, {head}")));
            }
            Self::Entry(seq) => *seq,
            Self::Message(id) => {
                let seq = id.seq();
                if seq > head || !is_message(&chat.entry(seq)?.body) {
                    let detail = format!("there is no message {id}");
                    return Err(Error::refused(RequestReason::NothingMatches, detail));
                }
                seq
            }
            Self::Prefix(_) => head,
        };
        Ok(Place { seq, call: None })
    }

    /// The first and the last entry of what it names: of an iteration all its entries.
    fn ends(&self, chat: &Conversation) -> Result<(Seq, Seq), SelectError> {
        let Self::Iteration(n) = self else {
            let seq = self.resolve(chat)?.seq;
            return Ok((seq, seq));
        };
        iteration(chat, *n)?.ok_or_else(|| {
            let detail = format!("the log has no entries of {n}");
            Error::refused(RequestReason::RangeOutOfBounds, detail).into()
        })
    }
}

/// The entries of an iteration: after the call before, up to its call, or to the head where that
/// is still to come.
fn iteration(chat: &Conversation, n: Iteration) -> Result<Option<(Seq, Seq)>, Error> {
    let (Some(head), Some(before)) = (chat.head()?, n.0.checked_sub(1)) else {
        return Ok(None);
    };
    let first = match before {
        0 => Some(Seq(0)),
        before => chat.call_filed(Iteration(before))?.map(Seq::next),
    };
    let last = chat.call_filed(n)?.unwrap_or(head.seq);
    Ok(first
        .filter(|first| *first <= last)
        .map(|first| (first, last)))
}

fn hashes(chat: &Conversation, prefix: &str) -> Result<Vec<(Seq, Hash)>, Error> {
    let mut found = Vec::new();
    let head = chat.head()?.map_or(Seq(0), |h| h.seq);
    chat.store()
        .entries(chat.id(), Seq(0), head, &mut |sealed| {
            if sealed.hash.to_string().starts_with(prefix) {
                found.push((sealed.entry.seq, sealed.hash));
            }
            ControlFlow::Continue(())
        })?;
    Ok(found)
}

impl Span {
    /// The first and the last entry it names.
    ///
    /// # Errors
    /// As [`Selector::resolve`]; `range-inverted` where it ends before it begins.
    pub fn resolve(&self, chat: &Conversation) -> Result<(Seq, Seq), SelectError> {
        let (from, to) = match self {
            Self::One(one) => return one.ends(chat),
            Self::Between(from, to) => (from, to),
        };
        let head = chat.head()?.map_or(Seq(0), |h| h.seq);
        let first = from
            .as_ref()
            .map_or(Ok(Seq(0)), |s| s.ends(chat).map(|e| e.0))?;
        let last = to
            .as_ref()
            .map_or(Ok(head), |s| s.ends(chat).map(|e| e.1))?;
        if first > last {
            let detail = format!("the range begins at {first} and ends at {last}");
            return Err(Error::refused(RequestReason::RangeInverted, detail).into());
        }
        Ok((first, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_selector() -> impl Strategy<Value = Selector> {
        prop_oneof![
            any::<u64>().prop_map(Selector::Head),
            (1..=u64::MAX).prop_map(|n| Selector::Iteration(Iteration(n))),
            any::<u64>().prop_map(|n| Selector::Entry(Seq(n))),
            any::<u64>().prop_map(|n| Selector::Message(MessageId(Seq(n)))),
            "[0-9a-f]{4,64}".prop_map(Selector::Prefix),
        ]
    }

    proptest! {
        #[test]
        fn a_printed_selector_reads_back_as_itself(selector in any_selector()) {
            prop_assert_eq!(selector.to_string().parse::<Selector>().unwrap(), selector);
        }

        #[test]
        fn no_text_stops_the_parser(text in "\\PC*|[@itsm:.0-9a-f-]{0,12}") {
            let _ = text.parse::<Selector>();
            if let Ok(Span::One(one)) = text.parse::<Span>() {
                prop_assert_eq!(text.parse::<Selector>().unwrap(), one);
            }
        }

        #[test]
        fn a_span_of_two_selectors_has_them_as_its_ends(a in any_selector(), b in any_selector()) {
            let span: Span = format!("{a}..{b}").parse().unwrap();
            let short = matches!(&b, Selector::Prefix(d) if d.bytes().all(|c| c.is_ascii_digit()));
            // Bare digits after `it:` are a number, not a hash.
            if !short {
                prop_assert_eq!(span, Span::Between(Some(a), Some(b)));
            }
        }
    }

    #[test]
    fn what_is_no_selector_says_why() {
        for (text, why) in [
            ("", "there are @"),
            ("it:", "a whole number"),
            ("it:0", "from 1"),
            ("it:+1", "a whole number"),
            ("s:99999999999999999999", "a whole number"),
            ("@-", "a whole number"),
            ("mx", "a whole number"),
            ("abc", "at least four"),
            ("head", "there are @"),
        ] {
            let error = text.parse::<Selector>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_bare_number_ends_a_span_of_the_same_kind() {
        let span: Span = "it:10..20".parse().unwrap();
        let it = |n| Some(Selector::Iteration(Iteration(n)));
        assert_eq!(span, Span::Between(it(10), it(20)));
        assert_eq!(
            "..@".parse::<Span>().unwrap(),
            Span::Between(None, Some(Selector::Head(0)))
        );
    }

    #[test]
    fn selectors_name_places_of_a_log() {
        use crate::log::Message;
        let chat = crate::Store::in_memory().conversation("a").unwrap();
        let first = chat.append(Message::person("one")).unwrap(); // s:1
        chat.call().unwrap(); // s:2, it:1
        chat.append(Message::model("two")).unwrap(); // s:3
        chat.append(Message::person("three")).unwrap(); // s:4
        chat.call().unwrap(); // s:5, it:2
        let at = |text: &str| {
            text.parse::<Selector>()
                .unwrap()
                .resolve(&chat)
                .map(|p| p.seq.0)
        };
        assert_eq!(at("@").unwrap(), 5);
        assert_eq!(at("@-3").unwrap(), 2);
        assert_eq!(at("it:2").unwrap(), 5);
        assert_eq!(at("s:4").unwrap(), 4);
        assert_eq!(at(&first.message().to_string()).unwrap(), 1);
        assert_eq!(
            at(&chat.head().unwrap().unwrap().hash.to_string()).unwrap(),
            5
        );
        for missing in ["@-6", "it:3", "s:6", "m2", "m9"] {
            let refused = |e: &SelectError| matches!(e, SelectError::Engine(Error::Refused(_)));
            assert!(refused(&at(missing).unwrap_err()), "{missing}");
        }
        let span = |text: &str| text.parse::<Span>().unwrap().resolve(&chat);
        assert_eq!(span("it:1").unwrap(), (Seq(0), Seq(2)));
        assert_eq!(span("it:2").unwrap(), (Seq(3), Seq(5)));
        assert_eq!(span("it:1..2").unwrap(), (Seq(0), Seq(5)));
        assert_eq!(span("@-1..").unwrap(), (Seq(4), Seq(5)));
        assert_eq!(span("m1").unwrap(), (Seq(1), Seq(1)));
        assert!(span("it:3").is_err(), "nothing was filed after call 2");
        assert!(
            span("@..s:2")
                .unwrap_err()
                .to_string()
                .contains("range-inverted")
        );
    }

    #[test]
    fn a_hash_prefix_that_fits_several_entries_lists_them() {
        // Enough entries that two hashes share four digits is not certain; sharing is simulated by
        // asking for candidates of the shortest prefix directly.
        let chat = crate::Store::in_memory().conversation("a").unwrap();
        for n in 0..40 {
            chat.append(crate::log::Message::person(n.to_string()))
                .unwrap();
        }
        let all = hashes(&chat, "").unwrap();
        assert_eq!(all.len(), 41);
        let error = SelectError::Ambiguous {
            prefix: "ab".into(),
            candidates: all.clone(),
        };
        assert!(
            all.iter()
                .all(|(seq, _)| error.to_string().contains(&format!("({seq})")))
        );
    }
}
