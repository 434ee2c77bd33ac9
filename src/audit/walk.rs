//! Going along a log from one window to a later one, entry by entry, by outlines: what each entry let
//! leave, brought in and gave another content. What is held meanwhile is one window.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::cause::{Cause, claim_of, names};
use crate::engine::{Conversation, Error, unchained};
use crate::log::{Body, Change, Entry, MessageId, Seq, StandInKind};
use crate::window::{Outline, Step, answered, is_message};

/// What an entry did to the window.
#[derive(Debug, Default)]
pub(super) struct Did {
    /// Messages that left, with the cause.
    pub left: Vec<(MessageId, Cause)>,
    /// Messages that came in: new ones, and those that came back.
    pub entered: Vec<MessageId>,
    /// Messages that stayed and have another content.
    pub formed: Vec<MessageId>,
}

/// Is shown an entry, what it did, and the window after it.
pub(super) type Show<'a> =
    &'a mut dyn FnMut(&Entry, &Did, &Outline) -> Result<ControlFlow<()>, Error>;

/// Shows each entry after the outline's own up to `to`, with what it did and the window after it. Gives
/// the window after the last one shown.
///
/// # Errors
/// When the log cannot be read, when it cannot be shown, and what `show` fails with.
pub(super) fn walk(
    chat: &Conversation,
    from: Outline,
    to: Seq,
    show: Show<'_>,
) -> Result<Outline, Error> {
    let first = from.at.map_or(Seq(0), Seq::next);
    let mut outline = from;
    if first > to {
        return Ok(outline);
    }
    let (mut failed, mut newest) = (None, None);
    // One entry more: it names the last one's hash.
    let until = to.next();
    chat.store()
        .entries(chat.id(), first, until, &mut |sealed| {
            let entry = &sealed.entry;
            if newest.is_some_and(|newest| newest != entry.prev) {
                failed = Some(unchained(chat.id(), entry.seq));
                return ControlFlow::Break(());
            }
            if entry.seq > to {
                return ControlFlow::Break(());
            }
            newest = Some(sealed.hash);
            let shown = step(chat, &mut outline, entry).and_then(|did| show(entry, &did, &outline));
            shown.unwrap_or_else(|error| {
                failed = Some(error);
                ControlFlow::Break(())
            })
        })?;
    failed.map_or(Ok(outline), Err)
}

/// Goes on by one entry.
fn step(chat: &Conversation, outline: &mut Outline, entry: &Entry) -> Result<Did, Error> {
    let may = touched(outline, entry);
    let before = match &may {
        May::All => outline.clone(),
        May::Some(_) => Outline::default(),
    };
    let mut look = |seq| chat.entry(seq).map(Some);
    let did = match (outline.apply(entry, &mut look)?, may) {
        (Step::Taken, May::Some(ids)) => {
            let still = |id: &MessageId| outline.get(*id).is_some();
            let left = ids.left.into_iter().filter(|id| !still(id)).collect();
            let formed = ids.formed.into_iter().filter(still).collect();
            let entered = Some(MessageId(entry.seq)).filter(still);
            (left, entered.into_iter().collect(), formed)
        }
        (step, _) => {
            // What came back is known to the whole fold; a snapshot stands right behind such an entry.
            if step == Step::Unclear {
                *outline = chat.outline_after(entry.seq)?;
            }
            compared(&before, outline)
        }
    };
    if let Some(seq) = outline.unsupported {
        return Err(Error::UnsupportedEntry { seq });
    }
    caused(chat, entry, did)
}

type Ids = Vec<MessageId>;

/// The messages that an entry may have changed.
enum May {
    /// These, and the one it introduced.
    Some(Named),
    /// Any: something comes back.
    All,
}

/// What an entry names that is in the window.
#[derive(Default)]
struct Named {
    left: Ids,
    formed: Ids,
}

fn touched(outline: &Outline, entry: &Entry) -> May {
    let mut named = Named::default();
    match &entry.body {
        Body::Appended(a) => {
            let calls = a.skeleton.parts.iter().filter_map(answered);
            let engine = calls.filter_map(|call| outline.stand_in_of(call));
            named.left.extend(engine.map(MessageId));
        }
        body => {
            if let Some(change) = body.change() {
                return touched_by(outline, change);
            }
        }
    }
    May::Some(named)
}

fn touched_by(outline: &Outline, change: &Change) -> May {
    let single = |sources: &[(Seq, Seq)]| match sources {
        [] => true,
        [(first, last)] => first == last,
        _ => false,
    };
    let forms = || {
        let forms = change.stand_ins.iter();
        forms.filter(|s| s.kind == StandInKind::Form)
    };
    let clear = change.entered.is_empty()
        && change.reverted.is_empty()
        && forms().all(|s| single(&s.sources.0));
    if !clear {
        return May::All;
    }
    let others = change.stand_ins.iter();
    let others = others.filter(|s| s.kind != StandInKind::Form);
    let left = change.left.iter().map(|l| &l.messages);
    let left = left.chain(others.map(|s| &s.sources));
    let ids = |ranges| outline.within(ranges).into_iter().map(MessageId);
    let left: BTreeSet<MessageId> = left.flat_map(ids).collect();
    May::Some(Named {
        left: left.into_iter().collect(),
        formed: forms().flat_map(|s| ids(&s.sources)).collect(),
    })
}

/// What left, entered and has another content between two windows.
fn compared(before: &Outline, after: &Outline) -> (Ids, Ids, Ids) {
    let (mut left, mut entered, mut formed) = (Vec::new(), Vec::new(), Vec::new());
    for old in before.items() {
        match after.get(old.id) {
            None => left.push(old.id),
            Some(new) if (new.form, new.payload) != (old.form, old.payload) => formed.push(old.id),
            Some(_) => {}
        }
    }
    for new in after.items() {
        if before.get(new.id).is_none() {
            entered.push(new.id);
        }
    }
    (left, entered, formed)
}

fn caused(
    chat: &Conversation,
    entry: &Entry,
    (left, entered, formed): (Ids, Ids, Ids),
) -> Result<Did, Error> {
    let mut back = Vec::new();
    if !left.is_empty()
        && let Some(change) = entry.body.change()
    {
        for id in entered.iter().filter(|id| names(&change.entered, **id)) {
            back.extend(claim_of(chat, *id)?.map(|claim| (*id, claim)));
        }
    }
    let caused = |id: MessageId| (id, Cause::of_leaving(entry, id, &back));
    Ok(Did {
        left: left.into_iter().map(caused).collect(),
        entered,
        formed,
    })
}

/// Whether an entry is a message that did not come into the window: what it answers was away.
pub(super) fn stays_out(entry: &Entry, outline: &Outline) -> bool {
    is_message(&entry.body) && outline.get(MessageId(entry.seq)).is_none()
}
