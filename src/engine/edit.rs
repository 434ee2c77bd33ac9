//! Edits: bringing back what left, undoing a visit or an edit.

use std::collections::BTreeSet;

use crate::log::{
    Body, Change, EditAction, Edited, Left, LeftReason, MessageId, RequestReason, Seq,
};
use crate::window::{Conservation, MessageState, Projection};

use super::append::Options;
use super::conversation::{Ack, Conversation};
use super::error::{Error, Refusal};

impl Conversation {
    /// Brings a message's group back at its place. It may not leave again before one call has seen
    /// it.
    ///
    /// # Errors
    /// `nothing-matches` when it is in the window or was never logged; `restore-conflict` when
    /// something stands for it, naming what to undo.
    pub fn restore(&self, message: MessageId) -> Result<Ack, Error> {
        let mut state = self.lock()?;
        let change = restoring(&state.projection, message)?;
        self.edit(&mut state, EditAction::Restore, change)
    }

    /// Undoes a visit or an edit.
    ///
    /// # Errors
    /// `nothing-matches` when the entry changed no window or was undone already;
    /// `restore-conflict` when a later live entry stands for what it introduced.
    pub fn undo(&self, entry: Seq) -> Result<Ack, Error> {
        let original = self.entry(entry)?;
        let mut state = self.lock()?;
        let change = original
            .body
            .change()
            .ok_or_else(|| nothing(entry, "is no visit or edit"))?;
        let change = undoing(&state.projection, entry, change)?;
        self.edit(&mut state, EditAction::Restore, change)
    }

    fn edit(
        &self,
        state: &mut super::conversation::State,
        action: EditAction,
        change: Change,
    ) -> Result<Ack, Error> {
        self.file(state, |stage, _| {
            let body = Edited {
                action,
                change,
                rest: None,
            };
            let seq = stage.file(Body::Edited(body), self.meta(&Options::default(), None))?;
            Ok(Ack {
                first: seq,
                last: seq,
                level: self.store().level(),
                repeated: false,
            })
        })
    }
}

fn nothing(entry: Seq, why: &str) -> Error {
    Error::refused(RequestReason::NothingMatches, format!("{entry} {why}"))
}

fn restoring(state: &Projection, id: MessageId) -> Result<Change, Error> {
    let Some(message) = state.message(id) else {
        let detail = format!("there is no message {id}");
        return Err(Error::refused(RequestReason::NothingMatches, detail));
    };
    if message.visible() {
        let detail = format!("{id} is in the window");
        return Err(Error::refused(RequestReason::NothingMatches, detail));
    }
    let members = state.group_of(id);
    let absent = || {
        members
            .iter()
            .filter_map(|m| state.message(*m))
            .filter(|m| !m.visible())
    };
    // A synthetic result that a real one superseded stays covered; any other stand-in is in the way.
    let superseded = |m: &MessageState| {
        m.id != id
            && m.absent
                .as_ref()
                .is_some_and(|a| a.reason == LeftReason::Superseded)
    };
    for member in absent().filter(|m| !superseded(m)) {
        if state.conservation(member.id) == Some(Conservation::Covered) {
            return Err(covered(member));
        }
    }
    let entered: BTreeSet<MessageId> = absent().filter(|m| !superseded(m)).map(|m| m.id).collect();
    Ok(Change {
        entered: state.ranges(&entered),
        ..Change::default()
    })
}

fn covered(message: &MessageState) -> Error {
    let by = message.absent.as_ref().map_or(Seq(0), |a| a.by.seq);
    let stand_in = message.absent.as_ref().and_then(|a| a.stand_in);
    let what = stand_in.map_or_else(String::new, |s| format!("{s} "));
    let detail = format!("{what}stands for {} since {by}", message.id);
    let refusal = Refusal::new(RequestReason::RestoreConflict, detail);
    refusal
        .with_help(format!("undo that first: `ctxlog restore {by}`"))
        .into()
}

fn conflict(entry: Seq, first: Seq) -> Error {
    let detail = format!("{first} stands for what {entry} introduced");
    let refusal = Refusal::new(RequestReason::RestoreConflict, detail);
    refusal
        .with_help(format!("undo that first: `ctxlog restore {first}`"))
        .into()
}

/// The change that gives back the window from before `entry`, as far as later entries allow.
fn undoing(state: &Projection, entry: Seq, change: &Change) -> Result<Change, Error> {
    let mut undo = Change {
        undoes: Some(entry),
        ..Change::default()
    };
    let mut entered: BTreeSet<MessageId> = BTreeSet::new();
    let mut left: BTreeSet<MessageId> = BTreeSet::new();
    let introduced = MessageId(entry);
    if let Some(claim) = state.message(introduced) {
        match claim.absent.as_ref() {
            None => {
                left.insert(introduced);
            }
            Some(end) if end.stand_in.is_some() => return Err(conflict(entry, end.by.seq)),
            Some(_) => {}
        }
    }
    for message in state.messages() {
        if message.absent.as_ref().is_some_and(|a| a.by.seq == entry) && message.id != introduced {
            entered.insert(message.id);
        }
    }
    for id in state.ids_in(&change.entered) {
        let life = state.message(id).and_then(|m| m.lives.last());
        if life.is_some_and(|l| l.left.is_none() && l.entered.seq == entry) {
            left.insert(id);
        }
    }
    // What a claim that comes back covers by itself neither leaves nor enters by name.
    let covering: BTreeSet<MessageId> = entered
        .iter()
        .filter_map(|id| state.message(*id))
        .filter(|m| m.stands_for.is_some())
        .flat_map(|m| state.ids_in(&m.sources))
        .collect();
    left.retain(|id| !covering.contains(id));
    entered.retain(|id| !covering.contains(id));
    for message in state.messages() {
        undo.reverted.extend(reverting(message, entry)?);
    }
    undo.unpinned = change.pinned.clone();
    undo.pinned = change.unpinned.clone();
    undo.entered = state.ranges(&entered);
    if !left.is_empty() {
        let messages = state.ranges(&left);
        undo.left = vec![Left {
            reason: LeftReason::Replaced,
            messages,
        }];
    }
    let pins = undo.pinned.is_empty() && undo.unpinned.is_empty();
    if undo.entered.is_empty() && undo.left.is_empty() && undo.reverted.is_empty() && pins {
        return Err(nothing(entry, "has nothing left to undo"));
    }
    Ok(undo)
}

/// A message whose content in force since `entry` goes back to the one before.
fn reverting(message: &MessageState, entry: Seq) -> Result<Option<(Seq, Seq)>, Error> {
    let Some(at) = message.forms.iter().position(|f| f.since.seq == entry) else {
        return Ok(None);
    };
    let Some(before) = at.checked_sub(1).and_then(|i| message.forms.get(i)) else {
        return Ok(None); // the message's first content: the entry introduced it
    };
    match message.forms.get(at.saturating_add(1)) {
        None => Ok(Some((message.id.seq(), before.given))),
        Some(later) => {
            // Undone already, by a later entry that put the earlier content back.
            let last = message.forms.last().map_or(before.given, |f| f.given);
            if last == before.given {
                Ok(None)
            } else {
                Err(conflict(entry, later.since.seq))
            }
        }
    }
}
