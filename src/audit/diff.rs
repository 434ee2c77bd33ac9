//! `diff`: what changed between two windows, each change with the entry that made it. The windows may
//! be of one log, or of two that share a beginning.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use serde::Serialize;

use super::cause::Cause;
use super::select::Place;
use super::walk::walk;
use super::why::Moment;
use super::window::{Measured, MeasuredWindow, Read, Size, measured};
use super::words::{WordDiff, words};
use crate::engine::{Conversation, Error};
use crate::log::{Hash, Iteration, MessageId, Ranges, Seq};
use crate::window::Outline;

/// A window that is compared.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Side {
    /// The conversation's name.
    pub conversation: String,
    /// The entry after which the window stood so.
    pub at: Moment,
    /// The call that was sent it, where it was named by one.
    pub call: Option<Iteration>,
    /// Its digest.
    pub digest: Hash,
    /// How large it is.
    pub size: Size,
}

/// Messages that left, by one entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Gone {
    /// The messages, in the order of the window they were in.
    pub messages: Vec<Seq>,
    /// Their tokens, by that window's method.
    pub tokens: u64,
    /// The entry. Where the second window is the earlier one, it is the one that brought them in.
    pub by: Cause,
}

/// Messages that came, by one entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Came {
    /// The messages, in the order of the window they are in.
    pub messages: Vec<Seq>,
    /// Their tokens, by that window's method.
    pub tokens: u64,
    /// Of a claim: the exact messages it stands for.
    pub stands_for: Vec<Seq>,
    /// The same as ranges; not part of the JSON.
    #[serde(skip)]
    pub sources: Ranges,
    /// The entry. Where the second window is the earlier one, it is the one that let them leave.
    pub by: Cause,
}

/// A message that both windows hold with another content.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Formed {
    /// The message.
    pub message: Seq,
    /// The entries that gave the contents: before, after.
    pub form: (Seq, Seq),
    /// The tokens: before, after, each by its window's method.
    pub tokens: (u64, u64),
    /// The entry that put it in force, or, where the second window is the earlier one, that ended it.
    pub by: Cause,
}

/// A number of messages and their tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Amount {
    /// Messages.
    pub messages: u64,
    /// Tokens by the window's method.
    pub tokens: u64,
}

impl Amount {
    fn of<'a>(messages: impl IntoIterator<Item = &'a Measured>) -> Self {
        messages.into_iter().fold(Self::default(), |sum, m| Self {
            messages: sum.messages.saturating_add(1),
            tokens: sum.tokens.saturating_add(m.tokens),
        })
    }
}

/// What a provider's prompt cache makes of the second window, when it holds the first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Cache {
    /// The common beginning.
    pub prefix: Amount,
    /// What stands behind it in the second window and has to be read.
    pub read: Amount,
    /// Of that, what the first window held too, word for word: it is read again.
    pub again: Amount,
    /// Whether request settings differ. They stand before all messages, so that nothing is of use then.
    pub settings_differ: bool,
}

/// What changed between two windows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Diff {
    /// `ctxlog.diff/1`.
    pub schema: &'static str,
    /// The first window.
    pub from: Side,
    /// The second window.
    pub to: Side,
    /// Whether both windows are the same.
    pub same: bool,
    /// Tokens of the second less those of the first; absent where the methods differ.
    pub tokens: Option<i64>,
    /// What the first holds and the second does not.
    pub left: Vec<Gone>,
    /// What the second holds and the first does not.
    pub entered: Vec<Came>,
    /// What both hold with another content.
    pub formed: Vec<Formed>,
    /// What both hold alike, in the order of the second.
    pub stayed: Vec<Seq>,
    /// What a prompt cache makes of it.
    pub cache: Cache,
    /// The words of claims against what they stand for, and of contents against those before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub words: Option<Vec<WordDiff>>,
}

/// Compares the windows at two places; with `with_words` also what claims and new contents say. All but
/// words is read from entries, sizes too: counted where each message of both windows carries its
/// count, else estimated.
///
/// # Errors
/// When a log or its words are damaged; `unsupported-entry` behind an unknown kind that changes
/// windows.
pub fn diff(
    (first, from): (&Conversation, Place),
    (second, to): (&Conversation, Place),
    with_words: bool,
) -> Result<Diff, Error> {
    let base = Base::of((first, from.seq), (second, to.seq))?;
    let mut before = Edge::read(first, from, &base)?;
    let mut after = Edge::read(second, to, &base)?;
    if before.window.is_estimate() != after.window.is_estimate() {
        before.window.estimate();
        after.window.estimate();
    }
    let shared = |id| base.shares(id);
    let (old, new) = (before.by_id(), after.by_id());
    let lost = ids_without(&before, &new, &shared);
    let found = ids_without(&after, &old, &shared);
    let changed: BTreeSet<MessageId> = old
        .iter()
        .filter(|(id, m)| shared(**id) && new.get(*id).is_some_and(|n| n.form() != m.form()))
        .map(|(id, _)| *id)
        .collect();
    let back = Trail::along(&base, &before, &found, &changed)?;
    let forth = Trail::along(&base, &after, &lost, &changed)?;
    let left = before.messages(&lost);
    let left = grouped(left, |m| before.gone_by(m, &base, &forth));
    let entered = after.messages(&found);
    let entered = grouped(entered, |m| after.gone_by(m, &base, &back));
    let formed = changed.iter().filter_map(|id| {
        let (old, new) = (old.get(id)?, new.get(id)?);
        let by = forth.formed.get(id).or_else(|| back.formed.get(id));
        Some(formed_by(&base, &after, old, new, by))
    });
    let formed = formed.collect::<Result<Vec<_>, _>>()?;
    let alike = |m: &&Measured| held_alike(&old, m, &shared);
    let stayed = after.window.messages.iter().filter(alike);
    let words = if with_words {
        let (old, new) = (&before.window.messages, &after.window.messages);
        Some(words((first, old), (second, new), &changed)?)
    } else {
        None
    };
    let cache = cache(&before, &after, &shared)?;
    let same = left.is_empty() && entered.is_empty() && formed.is_empty();
    Ok(Diff {
        schema: "ctxlog.diff/1",
        same,
        tokens: difference(&before.window.size, &after.window.size),
        left: left.into_iter().map(Group::gone).collect(),
        entered: entered.into_iter().map(Group::came).collect(),
        formed,
        stayed: stayed.map(|m| m.id().seq()).collect(),
        cache,
        words,
        from: before.side(),
        to: after.side(),
    })
}

/// Where the way from one window to the other turns: what both logs share, up to there.
struct Base {
    outline: Outline,
    /// The last entry that both logs share; `None` where they share none.
    shared: Option<Seq>,
    /// Whether there are two logs.
    two: bool,
}

impl Base {
    fn of(
        (first, from): (&Conversation, Seq),
        (second, to): (&Conversation, Seq),
    ) -> Result<Self, Error> {
        let end = from.min(to);
        let shared = if first.id() == second.id() {
            Some(from.max(to))
        } else {
            last_shared(first, second, from.max(to))?
        };
        let outline = match shared {
            Some(shared) => first.outline_after(end.min(shared))?,
            None => Outline::default(),
        };
        let two = first.id() != second.id();
        Ok(Self {
            outline,
            shared,
            two,
        })
    }

    /// A cause of one of two logs, with its name where the other has no such entry.
    fn whose(&self, mut cause: Cause, chat: &Conversation) -> Cause {
        if self.two && Some(cause.seq) > self.shared {
            cause.conversation = Some(chat.name().to_owned());
        }
        cause
    }

    /// Whether a message of this id is the same in both logs.
    fn shares(&self, id: MessageId) -> bool {
        Some(id.seq()) <= self.shared
    }

    fn holds(&self, id: MessageId) -> bool {
        self.shares(id) && self.outline.get(id).is_some()
    }
}

/// The last entry up to `most` that two logs share. Each entry names the one before, so that where
/// one is the same all before it are.
fn last_shared(
    first: &Conversation,
    second: &Conversation,
    most: Seq,
) -> Result<Option<Seq>, Error> {
    let heads = [first, second].map(Conversation::head);
    let [Some(one), Some(other)] =
        [heads[0].as_ref(), heads[1].as_ref()].map(|h| h.ok().copied().flatten())
    else {
        return Ok(None);
    };
    let same = |n: u64| -> Result<bool, Error> {
        let (a, b) = (hash_at(first, Seq(n))?, hash_at(second, Seq(n))?);
        Ok(a.is_some() && a == b)
    };
    // How many entries are shared lies between these.
    let (mut least, mut end) = (0_u64, one.seq.min(other.seq).min(most).0.saturating_add(1));
    while least < end {
        let middle = least.saturating_add(end.saturating_sub(least) / 2);
        if same(middle)? {
            least = middle.saturating_add(1);
        } else {
            end = middle;
        }
    }
    Ok(least.checked_sub(1).map(Seq))
}

fn hash_at(chat: &Conversation, seq: Seq) -> Result<Option<Hash>, Error> {
    let mut found = None;
    chat.store().entries(chat.id(), seq, seq, &mut |sealed| {
        found = Some(sealed.hash);
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// A window at one end of the way.
struct Edge<'a> {
    chat: &'a Conversation,
    place: Place,
    outline: Outline,
    window: MeasuredWindow,
}

impl<'a> Edge<'a> {
    fn read(chat: &'a Conversation, place: Place, base: &Base) -> Result<Self, Error> {
        let outline = if base.outline.at == Some(place.seq) {
            base.outline.clone()
        } else {
            chat.outline_after(place.seq)?
        };
        Ok(Self {
            chat,
            place,
            window: measured(chat, place, &outline, Read::Entries)?,
            outline,
        })
    }

    fn by_id(&self) -> BTreeMap<MessageId, &Measured> {
        let messages = self.window.messages.iter();
        messages.map(|m| (m.id(), m)).collect()
    }

    fn messages(&self, ids: &BTreeSet<MessageId>) -> Vec<&Measured> {
        let messages = self.window.messages.iter();
        messages.filter(|m| ids.contains(&m.id())).collect()
    }

    /// Why the other window does not hold a message of this one: on the way to the other it left, or
    /// it came on the way to this one.
    fn gone_by(&self, m: &Measured, base: &Base, other: &Trail) -> Cause {
        let id = m.id();
        if base.holds(id)
            && let Some(cause) = other.left.get(&id)
        {
            return cause.clone();
        }
        base.whose(m.entered_by.clone(), self.chat)
    }

    fn side(self) -> Side {
        Side {
            conversation: self.chat.name().to_owned(),
            at: self.window.at,
            call: self.place.call,
            digest: self.window.digest,
            size: self.window.size,
        }
    }
}

/// Whether the other window holds a message with the same content.
fn held_alike(
    other: &BTreeMap<MessageId, &Measured>,
    m: &Measured,
    shared: &dyn Fn(MessageId) -> bool,
) -> bool {
    shared(m.id()) && other.get(&m.id()).is_some_and(|o| o.form() == m.form())
}

fn ids_without(
    of: &Edge<'_>,
    other: &BTreeMap<MessageId, &Measured>,
    shared: &dyn Fn(MessageId) -> bool,
) -> BTreeSet<MessageId> {
    let ids = of.window.messages.iter().map(Measured::id);
    ids.filter(|id| !shared(*id) || !other.contains_key(id))
        .collect()
}

/// What happened on the way from the shared window to one of the two, to the messages that matter.
#[derive(Default)]
struct Trail {
    left: BTreeMap<MessageId, Cause>,
    formed: BTreeMap<MessageId, Cause>,
}

impl Trail {
    fn along(
        base: &Base,
        to: &Edge<'_>,
        leave: &BTreeSet<MessageId>,
        change: &BTreeSet<MessageId>,
    ) -> Result<Self, Error> {
        let mut trail = Self::default();
        let leave: BTreeSet<_> = leave.iter().filter(|id| base.holds(**id)).collect();
        // A content may go back to an earlier one at any entry, so these take the whole way.
        let forms = change.iter().any(|id| {
            let form = |outline: &Outline| outline.get(*id).map(|p| (p.form, p.payload));
            form(&base.outline) != form(&to.outline)
        });
        if leave.is_empty() && !forms {
            return Ok(trail);
        }
        let from = base.outline.at.unwrap_or_default();
        let touched = to.outline.touched.since(from);
        // After the last entry by which something came back, what left stays away.
        let last_back = touched.map(|touched| touched.last().copied().unwrap_or(from));
        walk(
            to.chat,
            base.outline.clone(),
            to.place.seq,
            &mut |entry, did, _| {
                for (id, cause) in did.left.iter().filter(|(id, _)| leave.contains(id)) {
                    trail.left.insert(*id, base.whose(cause.clone(), to.chat));
                }
                for id in &did.entered {
                    trail.left.remove(id);
                }
                for id in did.formed.iter().filter(|id| change.contains(id)) {
                    let cause = Cause::of_form(entry, *id);
                    trail.formed.insert(*id, base.whose(cause, to.chat));
                }
                let done = !forms
                    && trail.left.len() == leave.len()
                    && last_back.is_some_and(|last| last <= entry.seq);
                Ok(if done {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                })
            },
        )?;
        Ok(trail)
    }
}

/// Messages with the same cause.
struct Group<'a> {
    messages: Vec<&'a Measured>,
    by: Cause,
}

fn grouped<'a>(messages: Vec<&'a Measured>, cause: impl Fn(&Measured) -> Cause) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    let mut of: BTreeMap<Cause, usize> = BTreeMap::new();
    for message in messages {
        let by = cause(message);
        let at = *of.entry(by.clone()).or_insert(groups.len());
        match groups.get_mut(at) {
            Some(group) => group.messages.push(message),
            None => groups.push(Group {
                messages: vec![message],
                by,
            }),
        }
    }
    groups
}

impl Group<'_> {
    fn gone(self) -> Gone {
        Gone {
            messages: self.messages.iter().map(|m| m.id().seq()).collect(),
            tokens: Amount::of(self.messages).tokens,
            by: self.by,
        }
    }

    fn came(self) -> Came {
        let stands_for = self.messages.iter().flat_map(|m| m.stands_for.clone());
        let claim = self.messages.iter().find(|m| !m.stands_for.is_empty());
        Came {
            stands_for: stands_for.collect(),
            sources: claim.map(|m| m.sources.clone()).unwrap_or_default(),
            messages: self.messages.iter().map(|m| m.id().seq()).collect(),
            tokens: Amount::of(self.messages).tokens,
            by: self.by,
        }
    }
}

fn formed_by(
    base: &Base,
    after: &Edge<'_>,
    old: &Measured,
    new: &Measured,
    by: Option<&Cause>,
) -> Result<Formed, Error> {
    let by = match by {
        Some(cause) => cause.clone(),
        // It came back so on both ways.
        None => {
            let cause = Cause::of_form(&after.chat.entry(new.form())?, new.id());
            base.whose(cause, after.chat)
        }
    };
    Ok(Formed {
        message: new.id().seq(),
        form: (old.form(), new.form()),
        tokens: (old.tokens, new.tokens),
        by,
    })
}

fn difference(before: &Size, after: &Size) -> Option<i64> {
    let signed = |n: u64| i64::try_from(n).ok();
    if before.tokens.method != after.tokens.method {
        return None;
    }
    signed(after.tokens.amount)?.checked_sub(signed(before.tokens.amount)?)
}

fn cache(
    before: &Edge<'_>,
    after: &Edge<'_>,
    shared: &dyn Fn(MessageId) -> bool,
) -> Result<Cache, Error> {
    let settings = |edge: &Edge<'_>| -> Result<_, Error> {
        let settings = edge.chat.settings_of(&edge.outline)?;
        Ok(settings.map(|(_, s)| s.content))
    };
    let same = |(old, new): &(&Measured, &Measured)| {
        shared(new.id()) && old.id() == new.id() && old.form() == new.form()
    };
    let pairs = before.window.messages.iter().zip(&after.window.messages);
    let prefix = pairs.take_while(same).count();
    let (first, rest) = after
        .window
        .messages
        .split_at_checked(prefix)
        .unwrap_or_default();
    let old = before.by_id();
    let again = rest.iter().filter(|m| held_alike(&old, m, shared));
    Ok(Cache {
        prefix: Amount::of(first),
        read: Amount::of(rest),
        again: Amount::of(again),
        settings_differ: settings(before)? != settings(after)?,
    })
}
