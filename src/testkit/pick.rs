//! What an operation of a script is done to: picks among what there is.

use std::ops::ControlFlow;

use super::script::{Op, Speaker};
use super::world::{Failure, Request, World};
use crate::engine::{Conversation, Error, Redact};
use crate::log::{Change, Message, MessageId, Part, Seq};

impl World {
    /// Makes the picks of an edit.
    pub(super) fn resolve_edit(&self, op: &Op) -> Result<Option<Request>, Failure> {
        Ok(match op {
            Op::Restore(n) => message_away(&self.chat, *n)?.map(Request::Restore),
            Op::Undo(n) => Some(Request::Undo(changing_entry(&self.chat, *n)?)),
            Op::Pin(n) => message_shown(&self.chat, *n, false)?.map(Request::Pin),
            Op::Unpin(n) => message_shown(&self.chat, *n, true)?.map(Request::Unpin),
            Op::Replace(what, words) => Some(Request::Replace(
                Box::new(what.clone()),
                Message::person(words.whole()),
            )),
            Op::Ask(what) => Some(Request::Ask(Box::new(what.clone()))),
            Op::Asked(n, words) => Some(Request::Asked(
                self.pick_ask(*n)?,
                Message::person(words.whole()),
            )),
            Op::Clear(which) if which.is_empty() => Some(Request::Clear(None)),
            Op::Clear(which) => {
                let shown = which.iter().map(|n| message_shown(&self.chat, *n, false));
                let shown: Vec<Option<MessageId>> = shown.collect::<Result<_, _>>()?;
                Some(Request::Clear(shown.into_iter().collect()))
            }
            Op::Recall(n) if n.is_multiple_of(11) => Some(Request::Recall(MessageId(Seq(0)))),
            Op::Recall(n) => message_away(&self.chat, *n)?.map(Request::Recall),
            Op::Refer(who, n) => Some(self.refer(*who, *n)?),
            Op::RedactAll => Some(Request::Redact(Redact::Conversation)),
            Op::Redact(n) if n.is_multiple_of(13) => {
                Some(Request::Redact(Redact::Message(MessageId(Seq(0)))))
            }
            Op::Redact(n) => {
                let picked = message_ever(&self.chat, *n)?;
                picked.map(|id| Request::Redact(Redact::Message(id)))
            }
            _ => None,
        })
    }

    fn refer(&self, who: Speaker, n: usize) -> Result<Request, Failure> {
        let named = |n| -> Result<String, Failure> {
            let picked = message_away(&self.chat, n)?;
            Ok(picked.map_or_else(|| "m0".to_owned(), |id| id.to_string()))
        };
        let (one, other) = (named(n)?, named(n.saturating_add(3))?);
        let words = format!("See {one}, and what ({other}) says; not m0{one} nor x{one}.");
        let (role, author) = who.role();
        let message = Message::new(role, author, vec![Part::text(words)]);
        Ok(Request::Append(message, Box::new(self.options())))
    }

    /// Mostly one that asks for a replacement, counted back from the newest; else any entry.
    fn pick_ask(&self, n: usize) -> Result<Seq, Failure> {
        let mut asks = self.entries()?;
        asks.retain(|e| e.body.change() == Some(&Change::default()) && e.body.visit().is_none());
        let nth = n.checked_rem(asks.len()).filter(|_| !n.is_multiple_of(7));
        match nth.and_then(|nth| asks.iter().rev().nth(nth)) {
            Some(entry) => Ok(entry.seq),
            None => Ok(self.back_from_head(n)?),
        }
    }
}

/// A message that was ever logged.
pub(super) fn message_ever(chat: &Conversation, n: usize) -> Result<Option<MessageId>, Error> {
    chat.with_projection(|p| {
        let among = p.messages();
        among.get(n.checked_rem(among.len())?).map(|m| m.id)
    })
}

/// A message that is away, where there is one.
pub(super) fn message_away(chat: &Conversation, n: usize) -> Result<Option<MessageId>, Error> {
    chat.with_projection(|p| {
        let ids = |away: bool| -> Vec<MessageId> {
            let messages = p.messages().iter().filter(|m| !away || !m.visible());
            messages.map(|m| m.id).collect()
        };
        let mut among = ids(true);
        if among.is_empty() || n.is_multiple_of(7) {
            among = ids(false);
        }
        among.get(n.checked_rem(among.len())?).copied()
    })
}

/// A message of the window; with `pinned` one that is pinned, where there is one.
pub(super) fn message_shown(
    chat: &Conversation,
    n: usize,
    pinned: bool,
) -> Result<Option<MessageId>, Error> {
    chat.with_projection(|p| {
        let ids = |pinned: bool| -> Vec<MessageId> {
            let messages = p.messages().iter().filter(|m| m.visible());
            messages
                .filter(|m| !pinned || m.pinned)
                .map(|m| m.id)
                .collect()
        };
        let mut among = ids(pinned);
        if among.is_empty() || n.is_multiple_of(7) {
            among = ids(false);
        }
        among.get(n.checked_rem(among.len())?).copied()
    })
}

/// Mostly one of what changed a window, counted back from the newest; else any entry.
pub(super) fn changing_entry(chat: &Conversation, n: usize) -> Result<Seq, Failure> {
    let head = chat.head()?.map_or(Seq(0), |head| head.seq);
    let mut changes = Vec::new();
    chat.store()
        .entries(chat.id(), Seq(0), head, &mut |sealed| {
            changes.extend(sealed.entry.body.change().map(|_| sealed.entry.seq));
            ControlFlow::Continue(())
        })?;
    let nth = n
        .checked_rem(changes.len())
        .filter(|_| !n.is_multiple_of(7));
    let back = |n: usize| {
        let n = u64::try_from(n).unwrap_or(0);
        let back = n.checked_rem(head.0.saturating_add(1)).unwrap_or(0);
        Seq(head.0.saturating_sub(back))
    };
    let picked = nth.and_then(|nth| changes.iter().rev().nth(nth));
    Ok(picked.copied().unwrap_or_else(|| back(n)))
}
