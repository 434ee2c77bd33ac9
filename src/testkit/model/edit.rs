//! What brings messages back: restoring one, undoing a visit or an edit.

use std::collections::{BTreeMap, BTreeSet};

use super::decide::Model;
use super::fold::Message;
use crate::log::{
    Body, Change, EditAction, Edited, Left, LeftReason, MessageId, Ranges, RequestReason, Seq,
};

impl Model {
    /// Brings a message's group back at its place. There must be such a message, out of the window.
    /// What something stands for, a claim or a newer result of the same call, is in conflict with it.
    pub(super) fn restore(&mut self, id: u64) -> Result<(), RequestReason> {
        let message = self.now.get(id).ok_or(RequestReason::NothingMatches)?;
        if message.out.is_none() {
            return Err(RequestReason::NothingMatches);
        }
        if newer(message).is_some() {
            return Err(RequestReason::RestoreConflict);
        }
        let back = self.away(&BTreeSet::from([id]), &BTreeSet::new())?;
        let change = Change {
            entered: self.now.ranges(&back),
            ..Change::default()
        };
        self.edit(change);
        Ok(())
    }

    /// Gives back the window from before a visit or an edit, as far as later entries allow: what it
    /// let leave and is out by it comes back with its group; what it brought back and is there by it
    /// leaves again, with its group, each message for the reason it had left for. An entry that
    /// changed no window, or that is undone, or whose change nothing is left of, is no entry to undo.
    pub(super) fn undo(&mut self, entry: u64) -> Result<(), RequestReason> {
        let nothing = RequestReason::NothingMatches;
        let of = self.log.iter().find(|e| e.seq.0 == entry);
        let change = of.and_then(|e| e.body.change()).ok_or(nothing)?.clone();
        let pins = !change.pinned.is_empty() || !change.unpinned.is_empty();
        if pins {
            return self.undo_pins(entry, &change);
        }
        // What an entry introduced may have come back by itself.
        if self.undone(entry) && !self.now.window.contains(&entry) {
            return Err(nothing);
        }
        if self.outlived(entry, &change) {
            return Err(RequestReason::RestoreConflict);
        }
        let out_by = |m: &&Message| {
            let out = m.out.as_ref();
            out.is_some_and(|out| out.by == entry || out.stand_in == Some(entry))
        };
        let messages = self.now.messages.iter();
        let mut back: BTreeSet<u64> = messages
            .filter(out_by)
            .filter(|m| newer(m).is_none() && m.id != entry)
            .map(|m| m.id)
            .collect();
        // What a claim that comes back covers by itself is not named.
        let sources = back.iter().filter_map(|id| self.claims(*id)).flatten();
        let covers: BTreeSet<u64> = sources.flat_map(|id| self.now.group(*id)).collect();
        back.retain(|id| !covers.contains(id));
        let mut leaving: BTreeMap<LeftReason, BTreeSet<u64>> = BTreeMap::new();
        let groups = self.now.groups();
        for group in &groups {
            let brought = |id: &u64| {
                let there = self.now.get(*id);
                names(&change.entered, *id) && there.is_some_and(|m| m.entered == entry)
            };
            if !group.ids.iter().any(|id| brought(id) || *id == entry) {
                continue;
            }
            for id in group.ids.iter().filter(|id| !covers.contains(id)) {
                let claim = self.claims(*id).map(|_| LeftReason::Replaced);
                let reason = self.left_for(*id).or(claim).unwrap_or(LeftReason::Cleared);
                leaving.entry(reason).or_default().insert(*id);
            }
        }
        let mut undone: BTreeSet<u64> = leaving.values().flatten().copied().collect();
        undone.insert(entry);
        let entered = self.away(&back, &undone)?;
        let forms = self.now.messages.iter().map(|m| before(m, entry));
        let forms: Vec<_> = forms.collect::<Result<_, _>>()?;
        let reverted: Vec<(Seq, Seq)> = forms.into_iter().flatten().collect();
        if entered.is_empty() && leaving.is_empty() && reverted.is_empty() {
            return Err(nothing);
        }
        let left = leaving.iter().map(|(reason, ids)| Left {
            reason: *reason,
            messages: self.now.ranges(ids),
        });
        let change = Change {
            left: left.collect(),
            entered: self.now.ranges(&entered),
            reverted,
            undoes: Some(Seq(entry)),
            ..Change::default()
        };
        self.edit(change);
        Ok(())
    }

    /// What an entry pinned and is pinned is pinned no more, and the other way round.
    fn undo_pins(&mut self, entry: u64, change: &Change) -> Result<(), RequestReason> {
        let of = |ranges: &Ranges, pinned: bool| -> BTreeSet<u64> {
            let now = self.now.messages.iter().filter(|m| m.out.is_none());
            let named = now.filter(|m| names(ranges, m.id) && m.pinned == pinned);
            named.map(|m| m.id).collect()
        };
        let (unpinned, pinned) = (of(&change.pinned, true), of(&change.unpinned, false));
        if unpinned.is_empty() && pinned.is_empty() {
            return Err(RequestReason::NothingMatches);
        }
        self.edit(Change {
            pinned: self.now.ranges(&pinned),
            unpinned: self.now.ranges(&unpinned),
            undoes: Some(Seq(entry)),
            ..Change::default()
        });
        Ok(())
    }

    /// A message of the window is pinned, or no longer; what was restored and not sent yet counts as
    /// pinned when that is taken away.
    pub(super) fn pin(&mut self, id: u64, pin: bool) -> Result<(), RequestReason> {
        let calls = self.now.calls.len();
        let message = self.now.get(id).filter(|m| m.out.is_none());
        let message = message.ok_or(RequestReason::NothingMatches)?;
        let held = message.pinned || (!pin && message.restored == Some(calls));
        if held == pin {
            return Err(RequestReason::NothingMatches);
        }
        let ids = self.now.ranges(&BTreeSet::from([id]));
        let (action, change) = if pin {
            let pinned = ids;
            (
                EditAction::Pin,
                Change {
                    pinned,
                    ..Change::default()
                },
            )
        } else {
            let unpinned = ids;
            (
                EditAction::Unpin,
                Change {
                    unpinned,
                    ..Change::default()
                },
            )
        };
        self.edit_as(action, change);
        Ok(())
    }

    fn edit(&mut self, change: Change) {
        self.edit_as(EditAction::Restore, change);
    }

    fn edit_as(&mut self, action: EditAction, change: Change) {
        let body = Body::Edited(Edited {
            action,
            change,
            rest: None,
        });
        self.file(body, None);
    }

    /// The messages of these ones' groups that are out of the window and would come back: all but
    /// synthetic results that real ones superseded. What something live stands for, other than what
    /// is undone now, cannot; nor can a claim beside what a claim among its sources was made of.
    pub(super) fn away(
        &self,
        ids: &BTreeSet<u64>,
        undone: &BTreeSet<u64>,
    ) -> Result<BTreeSet<u64>, RequestReason> {
        let members: BTreeSet<u64> = ids.iter().flat_map(|id| self.now.group(*id)).collect();
        let mut away = BTreeSet::new();
        for m in members.iter().filter_map(|id| self.now.get(*id)) {
            let Some(out) = m.out.as_ref().filter(|_| newer(m).is_none()) else {
                continue;
            };
            let by_undone = out.stand_in.is_some_and(|s| undone.contains(&s));
            let covered = self.now.fate(m.id) == Some("covered") && !by_undone;
            if covered || self.is_beside(m.id, ids) {
                return Err(RequestReason::RestoreConflict);
            }
            away.insert(m.id);
        }
        Ok(away)
    }

    /// What a claim stands for; a notice stands for nothing.
    pub(super) fn claims(&self, id: u64) -> Option<&Vec<u64>> {
        let message = self.now.get(id).filter(|m| !m.notice)?;
        message.sources.as_ref().map(|(sources, _)| sources)
    }

    /// Whether a claim that comes back would stand beside what it was made of: a claim among its
    /// sources, or among theirs, is away and stays so, while something it stood for is there.
    fn is_beside(&self, claim: u64, back: &BTreeSet<u64>) -> bool {
        let there = |id: &u64| self.now.window.contains(id);
        let sources = self.claims(claim).into_iter().flatten();
        let away = sources.filter(|id| !there(id) && !back.contains(id));
        let mut inner = away.filter_map(|id| Some((*id, self.claims(*id)?)));
        inner.any(|(id, sources)| sources.iter().any(there) || self.is_beside(id, back))
    }

    /// Whether something stands for what an entry introduced or brought back.
    fn outlived(&self, entry: u64, change: &Change) -> bool {
        let stood_for = |id: u64| {
            let out = self.now.get(id).and_then(|m| m.out.as_ref());
            out.is_some_and(|out| out.stand_in.is_some())
        };
        // What covers it as it did before the entry, which had taken that out, is no news.
        let as_before = |m: &Message| {
            let stand_in = m.out.as_ref().and_then(|out| out.stand_in);
            stand_in.is_some_and(|id| change.left.iter().any(|l| names(&l.messages, id)))
        };
        let brought = self.now.messages.iter().any(|m| {
            let here = names(&change.entered, m.id) && m.entered == entry && !as_before(m);
            here && newer(m).is_none() && self.now.fate(m.id) == Some("covered")
        });
        stood_for(entry) || brought
    }

    /// Whether an edit that is itself not undone undoes an entry.
    fn undone(&self, entry: u64) -> bool {
        let undoes = |b: &Body| b.change().is_some_and(|c| c.undoes == Some(Seq(entry)));
        let mut undoing = self.log.iter().filter(|e| undoes(&e.body));
        undoing.any(|e| !self.undone(e.seq.0))
    }

    /// Why a message had left before it came back; one that had not, as the first of its group did.
    fn left_for(&self, id: u64) -> Option<LeftReason> {
        let own = |id: u64| {
            let out = self.now.get(id)?.was_out.as_ref()?;
            out.stand_in.is_none().then_some(out.reason)
        };
        own(id).or_else(|| self.now.group(id).into_iter().find_map(own))
    }
}

/// The real result that superseded a synthetic one.
fn newer(message: &Message) -> Option<u64> {
    let out = message.out.as_ref()?;
    out.stand_in
        .filter(|_| out.reason == LeftReason::Superseded)
}

/// What a message said before an entry gave it another content, where that content is in force: the
/// pair that brings it back. One that a later entry changed once more conflicts; one that went back
/// before is not in force.
fn before(message: &Message, entry: u64) -> Result<Option<(Seq, Seq)>, RequestReason> {
    let Some(at) = message.forms.iter().position(|f| f.0 == entry) else {
        return Ok(None);
    };
    let Some(earlier) = at.checked_sub(1).and_then(|at| message.forms.get(at)) else {
        return Ok(None);
    };
    let own = message.forms.get(at).map(|f| f.1);
    let later = message.forms.iter().skip(at.saturating_add(1)).map(|f| f.1);
    let states = later.fold((true, false), |(there, above), given| {
        if Some(given) == own {
            (true, false)
        } else if given == earlier.1 {
            (false, false)
        } else {
            (there, above || there)
        }
    });
    match states {
        (_, true) => Err(RequestReason::RestoreConflict),
        (there, false) => Ok(there.then_some((Seq(message.id), Seq(earlier.1)))),
    }
}

fn names(ranges: &Ranges, id: u64) -> bool {
    ranges.contains(MessageId(Seq(id)))
}
