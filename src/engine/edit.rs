//! Edits: bringing back what left, undoing a visit or an edit.

use std::collections::{BTreeMap, BTreeSet};

use crate::log::{
    Body, Change, EditAction, Edited, Json, Left, LeftReason, MessageId, Ranges, RequestReason,
    Seq, payload,
};
use crate::planted::{Bug, planted};
use crate::window::{Conservation, MessageState, Projection};

use super::append::Options;
use super::conversation::{Ack, Conversation, Work};
use super::error::{Error, Refusal};
use super::known::State;
use super::stage::{Meta, Stage};

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

    /// Keeps a message of the window, and so its group, from leaving until it is unpinned.
    ///
    /// # Errors
    /// `nothing-matches` when it is not in the window or is pinned already.
    pub fn pin(&self, message: MessageId) -> Result<Ack, Error> {
        let mut state = self.lock()?;
        let found = visible(&state.projection, message)?;
        if found.pinned {
            return Err(no_message(message, "is pinned already"));
        }
        let change = Change {
            pinned: state.projection.ranges([&message]),
            ..Change::default()
        };
        self.edit(&mut state, EditAction::Pin, change)
    }

    /// Ends a pin, also that of a message that was restored and that no call has seen yet.
    ///
    /// # Errors
    /// `nothing-matches` when it is not in the window or nothing pins it.
    pub fn unpin(&self, message: MessageId) -> Result<Ack, Error> {
        let mut state = self.lock()?;
        let found = visible(&state.projection, message)?;
        let now = state.projection.next_iteration();
        if !found.pinned && found.restored.is_none_or(|at| now > at) {
            return Err(no_message(message, "is not pinned"));
        }
        let change = Change {
            unpinned: state.projection.ranges([&message]),
            ..Change::default()
        };
        self.edit(&mut state, EditAction::Unpin, change)
    }

    fn edit(&self, state: &mut State, action: EditAction, change: Change) -> Result<Ack, Error> {
        self.file_edit(state, action, |_, _| Ok((change, None)))
    }

    /// Files an edit, with what was asked.
    pub(super) fn file_edit(
        &self,
        state: &mut State,
        action: EditAction,
        change: impl FnOnce(&mut Stage<'_>, &Work<'_>) -> Result<(Change, Option<Json>), Error>,
    ) -> Result<Ack, Error> {
        self.file(state, |stage, work| {
            let (change, rest) = change(stage, work)?;
            let meta = self.meta(&Options::default(), None);
            let seq = file_edited(stage, action, change, rest.as_ref(), meta)?;
            Ok(self.acknowledged(seq, seq))
        })
    }
}

/// Files an edit with what is said about it: what was asked, or what a source tells.
pub(super) fn file_edited(
    stage: &mut Stage<'_>,
    action: EditAction,
    change: Change,
    rest: Option<&Json>,
    meta: Meta,
) -> Result<Seq, Error> {
    let rest = rest
        .map(|r| stage.content(payload::encode_text(&r.0)))
        .transpose()?;
    let body = Edited {
        action,
        change,
        rest,
    };
    stage.file(Body::Edited(body), meta)
}

fn nothing(entry: Seq, why: &str) -> Error {
    Error::refused(RequestReason::NothingMatches, format!("{entry} {why}"))
}

fn no_message(id: MessageId, why: &str) -> Error {
    Error::refused(RequestReason::NothingMatches, format!("{id} {why}"))
}

pub(super) fn visible(state: &Projection, id: MessageId) -> Result<&MessageState, Error> {
    let message = state.message(id).filter(|m| m.visible());
    message.ok_or_else(|| no_message(id, "is not in the window"))
}

pub(super) fn restoring(state: &Projection, id: MessageId) -> Result<Change, Error> {
    let Some(message) = state.message(id) else {
        let detail = format!("there is no message {id}");
        return Err(Error::refused(RequestReason::NothingMatches, detail));
    };
    if message.visible() {
        let detail = format!("{id} is in the window");
        return Err(Error::refused(RequestReason::NothingMatches, detail));
    }
    if superseded(message) {
        return Err(outlived(state, message));
    }
    let mut entered = returning(state, &BTreeSet::from([id]), &BTreeSet::new())?;
    if planted(Bug::RestoreForgetsTheGroup) {
        entered.retain(|member| *member == id);
    }
    Ok(Change {
        entered: state.ranges(&entered),
        ..Change::default()
    })
}

/// A synthetic result that a real one superseded: it stays out when its group comes back.
fn superseded(message: &MessageState) -> bool {
    let end = message.absent().filter(|_| !message.visible());
    end.is_some_and(|a| a.reason == LeftReason::Superseded)
}

/// The groups of these messages, as far as they are not in the window. Refused when something that
/// is not itself undone now (`undone`) stands for one of them, or when a claim would come back
/// beside what it was made of.
fn returning(
    state: &Projection,
    ids: &BTreeSet<MessageId>,
    undone: &BTreeSet<MessageId>,
) -> Result<BTreeSet<MessageId>, Error> {
    let mut out = BTreeSet::new();
    for member in whole_groups(state, ids).filter(|m| !m.visible() && !superseded(m)) {
        let stand_in = member.absent().and_then(|a| a.stand_in);
        let in_the_way = stand_in.is_none_or(|s| !undone.contains(&s))
            && state.conservation(member.id) == Some(Conservation::Covered);
        if in_the_way {
            return Err(covered(member));
        }
        if let Some(undone) = undone_source(state, member, ids) {
            return Err(beside(member, undone));
        }
        out.insert(member.id);
    }
    Ok(out)
}

/// A claim that comes back covers its sources. Where one of them is a claim that is away while what
/// that one stood for is in the window, the summary would stand beside what it was made of. Gives
/// that one.
fn undone_source<'a>(
    state: &'a Projection,
    claim: &'a MessageState,
    returning: &BTreeSet<MessageId>,
) -> Option<&'a MessageState> {
    let sources = |m: &MessageState| state.ids_in(&m.sources).into_iter();
    let away = |id| {
        let message = state.message(id)?;
        let back = message.visible() || returning.contains(&id);
        (message.stands_for.is_some() && !back).then_some(message)
    };
    let visible = |id| state.message(id).is_some_and(MessageState::visible);
    let mut asked = BTreeSet::new();
    let mut claims: Vec<&MessageState> = sources(claim).filter_map(away).collect();
    while let Some(source) = claims.pop() {
        if sources(source).any(visible) {
            return Some(source);
        }
        if asked.insert(source.id) {
            claims.extend(sources(source).filter_map(away));
        }
    }
    None
}

fn whole_groups<'a>(
    state: &'a Projection,
    ids: &BTreeSet<MessageId>,
) -> impl Iterator<Item = &'a MessageState> {
    let members: BTreeSet<MessageId> = ids.iter().flat_map(|id| state.group_of(*id)).collect();
    members.into_iter().filter_map(|id| state.message(id))
}

fn covered(message: &MessageState) -> Error {
    let by = message.absent().map_or(Seq(0), |a| a.by.seq);
    let stand_in = message.absent().and_then(|a| a.stand_in);
    let what = stand_in.map_or_else(String::new, |s| format!("{s} "));
    let detail = format!("{what}stands for {} since {by}", message.id);
    let refusal = Refusal::new(RequestReason::RestoreConflict, detail);
    refusal
        .with_help(format!("undo that first: `ctxlog restore {by}`"))
        .into()
}

/// The newer result is what comes back, if it is away.
fn outlived(state: &Projection, message: &MessageState) -> Error {
    let newer = message.absent().and_then(|a| a.stand_in);
    let newer = newer.unwrap_or(message.id);
    let detail = format!(
        "{newer} is the real result that {} held the place of",
        message.id
    );
    let refusal = Refusal::new(RequestReason::RestoreConflict, detail);
    if state.message(newer).is_some_and(MessageState::visible) {
        return refusal
            .with_help(format!("{newer} is in the window"))
            .into();
    }
    refusal
        .with_help(format!("bring that back: `ctxlog restore {newer}`"))
        .into()
}

fn beside(claim: &MessageState, source: &MessageState) -> Error {
    let by = source.absent().map_or(Seq(0), |a| a.by.seq);
    let detail = format!(
        "{} stands for {}, and what that stood for is in the window since {by}",
        claim.id, source.id
    );
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
    let introduced = MessageId(entry);
    let pins = !change.pinned.is_empty() || !change.unpinned.is_empty();
    // What it introduced may have come back by itself.
    let back = state.message(introduced).is_some_and(MessageState::visible);
    if state.is_undone(entry) && !pins && !back {
        return Err(nothing(entry, "was undone already"));
    }
    let mut left: BTreeSet<MessageId> = BTreeSet::new();
    if let Some(claim) = state.message(introduced) {
        match claim.absent() {
            None => {
                left.insert(introduced);
            }
            Some(end) if end.stand_in.is_some() => return Err(conflict(entry, end.by.seq)),
            Some(_) => {}
        }
    }
    if !planted(Bug::UndoForgetsWhatEntered) {
        left.extend(entered_by(state, entry, change)?);
    }
    let took = |m: &&MessageState| {
        let end = m.absent();
        let by_it = end.is_some_and(|a| a.by.seq == entry || a.stand_in == Some(introduced));
        by_it && m.id != introduced && !superseded(m)
    };
    let taken: BTreeSet<MessageId> = state.messages().iter().filter(took).map(|m| m.id).collect();
    let undone = BTreeSet::from([introduced]);
    // What a claim that comes back covers by itself neither leaves nor enters by name.
    let claims = || taken.iter().filter_map(|id| state.message(*id));
    let sources: BTreeSet<MessageId> = claims()
        .filter(|m| m.stands_for.is_some())
        .flat_map(|m| state.ids_in(&m.sources))
        .collect();
    let covering: BTreeSet<MessageId> = whole_groups(state, &sources).map(|m| m.id).collect();
    let left: BTreeSet<MessageId> = whole_groups(state, &left)
        .filter(|m| m.visible() && !covering.contains(&m.id))
        .map(|m| m.id)
        .collect();
    let taken = taken.difference(&covering).copied().collect();
    let entered = returning(state, &taken, &left.union(&undone).copied().collect())?;
    let mut undo = Change {
        undoes: Some(entry),
        unpinned: among(state, &change.pinned, |m| m.pinned),
        pinned: among(state, &change.unpinned, |m| m.visible() && !m.pinned),
        entered: state.ranges(&entered),
        left: leaving(state, &left),
        ..Change::default()
    };
    for message in state.messages() {
        undo.reverted.extend(reverting(message, entry)?);
    }
    let pins = undo.pinned.is_empty() && undo.unpinned.is_empty();
    if undo.entered.is_empty() && undo.left.is_empty() && undo.reverted.is_empty() && pins {
        return Err(nothing(entry, "has nothing left to undo"));
    }
    Ok(undo)
}

/// Those messages of some ranges of which something holds.
fn among(state: &Projection, ranges: &Ranges, holds: impl Fn(&MessageState) -> bool) -> Ranges {
    let mut ids = state.ids_in(ranges);
    ids.retain(|id| state.message(*id).is_some_and(&holds));
    state.ranges(&ids)
}

/// The messages that an entry brought into the window and that are there still.
fn entered_by(
    state: &Projection,
    entry: Seq,
    change: &Change,
) -> Result<BTreeSet<MessageId>, Error> {
    let mut out = BTreeSet::new();
    for message in state.ids_in(&change.entered) {
        let Some(message) = state.message(message) else {
            continue;
        };
        let life = message.lives.last().filter(|l| l.entered.seq == entry);
        match life.map(|l| &l.left) {
            Some(None) => {
                out.insert(message.id);
            }
            // What the entry itself had taken out and is back covers it as before: nothing to undo.
            Some(Some(end)) if end.stand_in.is_some_and(|s| took_out(change, s)) => {}
            Some(Some(end))
                if !superseded(message)
                    && state.conservation(message.id) == Some(Conservation::Covered) =>
            {
                return Err(conflict(entry, end.by.seq));
            }
            Some(Some(_)) | None => {}
        }
    }
    Ok(out)
}

fn took_out(change: &Change, id: MessageId) -> bool {
    change.left.iter().any(|left| left.messages.contains(id))
}

/// What leaves again leaves for the reason it had left for before, a message that had not with its
/// group; what an entry introduced leaves because its sources are back.
fn leaving(state: &Projection, ids: &BTreeSet<MessageId>) -> Vec<Left> {
    let mut by_reason: BTreeMap<LeftReason, BTreeSet<MessageId>> = BTreeMap::new();
    for id in ids {
        let message = state.message(*id);
        let group = || {
            let members = state.group_of(*id).into_iter();
            members.filter_map(|m| left_before(state.message(m)?))
        };
        let reason = match message.and_then(left_before).or_else(|| group().next()) {
            Some(reason) => reason,
            _ if message.is_some_and(|m| m.stands_for.is_some()) => LeftReason::Replaced,
            _ => LeftReason::Cleared,
        };
        by_reason.entry(reason).or_default().insert(*id);
    }
    by_reason
        .into_iter()
        .map(|(reason, ids)| Left {
            reason,
            messages: state.ranges(&ids),
        })
        .collect()
}

/// Why a message was out of the window before it came back last, where nothing stood for it.
fn left_before(message: &MessageState) -> Option<LeftReason> {
    let back = message.lives.last()?.entered.seq;
    let end = message.absent_at(Seq(back.0.checked_sub(1)?))?;
    end.stand_in.is_none().then_some(end.reason)
}

/// A message whose content goes back to the one before `entry` gave it another. The content of an
/// entry that was undone is not in force, whatever came since; where a later entry gave it one more,
/// that one has to be undone first.
fn reverting(message: &MessageState, entry: Seq) -> Result<Option<(Seq, Seq)>, Error> {
    let Some(at) = message.forms.iter().position(|f| f.since.seq == entry) else {
        return Ok(None);
    };
    let (before, later) = message.forms.split_at(at);
    let (Some(before), Some((own, later))) = (before.last(), later.split_first()) else {
        return Ok(None); // the message's first content: the entry introduced it
    };
    let (mut in_force, mut above) = (true, None);
    for form in later {
        if form.given == own.given {
            (in_force, above) = (true, None);
        } else if form.given == before.given {
            (in_force, above) = (false, None);
        } else if in_force {
            above = above.or(Some(form.since.seq));
        }
    }
    match above {
        Some(first) => Err(conflict(entry, first)),
        None => Ok(in_force.then_some((message.id.seq(), before.given))),
    }
}
