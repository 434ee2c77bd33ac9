//! Causes: the entry by which something in a window changed, as answers name it.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use serde::Serialize;

use super::export::outcome;
use crate::engine::{Conversation, Error};
use crate::log::{
    Body, Change, Entry, Iteration, LeftReason, MessageId, Provenance, Ranges, Seq, StandIn,
    StandInKind,
};
use crate::window::is_message;

/// The entry by which something changed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Cause {
    /// The entry.
    pub seq: Seq,
    /// Its iteration: the first call that could see the effect.
    pub iteration: Iteration,
    /// `append`, or what a visit or edit came to: `evict`, `replace`, `consolidate`, `restore`, ….
    pub kind: &'static str,
    /// Why, of what left and of a new form.
    pub reason: Option<LeftReason>,
    /// The strategy that decided it; absent for edits and messages.
    pub strategy: Option<String>,
    /// The door and, where known, the principal.
    pub by: String,
    /// Of what left: the message that stands for it.
    pub stand_in: Option<Seq>,
    /// Whether a source that was imported did it: known of what the source says, and not recorded
    /// when it happened.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inferred: bool,
    /// Where two conversations are compared: whose entry it is, unless both have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
}

impl Cause {
    /// What an entry is as a cause, without a reason.
    #[must_use]
    pub fn of(entry: &Entry) -> Self {
        let kind = match entry.body.kind() {
            Some(crate::log::Kind::Appended) => "append",
            Some(kind) => kind.name(),
            None => "unknown",
        };
        let by = &entry.by;
        let by = match by.principal.as_str() {
            "" => by.door.name().to_owned(),
            principal => format!("{} {principal}", by.door.name()),
        };
        Self {
            seq: entry.seq,
            iteration: entry.iteration,
            kind: outcome(&entry.body).unwrap_or(kind),
            reason: None,
            strategy: entry.body.visit().map(|v| v.strategy.clone()),
            by,
            stand_in: None,
            inferred: inferred(entry),
            conversation: None,
        }
    }

    /// Why a message left by an entry. `back` are the claims that came back with it: they cover their
    /// sources again.
    pub(super) fn of_leaving(entry: &Entry, id: MessageId, back: &[(MessageId, StandIn)]) -> Self {
        let (reason, stand_in) = match &entry.body {
            Body::Appended(_) => (Some(LeftReason::Superseded), Some(entry.seq)),
            body => match body.change() {
                Some(change) => leaving(entry.seq, change, id, back),
                None => (None, None),
            },
        };
        Self {
            reason,
            stand_in,
            conversation: None,
            ..Self::of(entry)
        }
    }

    /// Why a message has another content since an entry.
    pub(super) fn of_form(entry: &Entry, id: MessageId) -> Self {
        let forms = entry.body.change().map(|c| c.stand_ins.as_slice());
        let its = |s: &&StandIn| s.kind == StandInKind::Form && names(&s.sources, id);
        let form = forms.unwrap_or_default().iter().find(its);
        Self {
            // What goes back to an earlier content is replaced as well.
            reason: Some(form.map_or(LeftReason::Replaced, |s| s.reason)),
            ..Self::of(entry)
        }
    }
}

/// Whether an entry is an edit that was inferred. Messages of a source are as it has them.
pub(super) fn inferred(entry: &Entry) -> bool {
    entry.provenance == Provenance::Inferred && entry.body.change().is_some()
}

/// Whether ranges name a message; those of an entry that somebody wrote need not be in order.
pub(super) fn names(ranges: &Ranges, id: MessageId) -> bool {
    let it = id.seq();
    ranges
        .0
        .iter()
        .any(|(first, last)| *first <= it && it <= *last)
}

/// Further apart than so many entries, two messages are not looked between.
const APART: u64 = 64;

/// Messages as ranges, which name every message between their ends. What lies far apart stands apart
/// in any case, so that telling some messages costs about as much as reading them.
///
/// # Errors
/// When the log cannot be read.
pub fn ranges(chat: &Conversation, messages: &[Seq]) -> Result<Ranges, Error> {
    let wanted: BTreeSet<Seq> = messages.iter().copied().collect();
    let mut ranges: Vec<(Seq, Seq)> = Vec::new();
    let mut near = wanted.iter().copied().peekable();
    while let Some(first) = near.next() {
        let mut last = first;
        while let Some(next) = near.next_if(|s| s.0.saturating_sub(last.0) <= APART) {
            last = next;
        }
        if first == last {
            ranges.push((first, last));
            continue;
        }
        let mut follows = false;
        chat.store()
            .entries(chat.id(), first, last, &mut |sealed| {
                let seq = sealed.entry.seq;
                if wanted.contains(&seq) {
                    match ranges.last_mut().filter(|_| follows) {
                        Some(range) => range.1 = seq,
                        None => ranges.push((seq, seq)),
                    }
                    follows = true;
                } else if is_message(&sealed.entry.body) {
                    follows = false;
                }
                ControlFlow::Continue(())
            })?;
    }
    Ok(Ranges(ranges))
}

fn leaving(
    by: Seq,
    change: &Change,
    id: MessageId,
    back: &[(MessageId, StandIn)],
) -> (Option<LeftReason>, Option<Seq>) {
    if let Some(left) = change.left.iter().find(|l| names(&l.messages, id)) {
        return (Some(left.reason), None);
    }
    let claims = |s: &&StandIn| s.kind != StandInKind::Form && names(&s.sources, id);
    if let Some(claim) = change.stand_ins.iter().find(claims) {
        return (Some(claim.reason), Some(by));
    }
    let own = back.iter().find(|(_, claim)| names(&claim.sources, id));
    // What joined a source's group while the claim was away goes with it.
    match own.or_else(|| back.first()) {
        Some((message, claim)) => (Some(claim.reason), Some(message.seq())),
        None => (None, None),
    }
}

/// The claim that an entry introduced, where it did.
pub(super) fn claim_of(chat: &Conversation, id: MessageId) -> Result<Option<StandIn>, Error> {
    let entry = chat.entry(id.seq())?;
    let stand_ins = entry.body.change().map(|c| c.stand_ins.clone());
    let mut stand_ins = stand_ins.unwrap_or_default().into_iter();
    Ok(stand_ins.find(|s| s.kind == StandInKind::Claim))
}
