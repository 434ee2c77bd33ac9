//! The laws that a log alone can show, checked while it is folded.

use std::collections::{BTreeMap, BTreeSet};

use crate::log::{
    Body, Change, Entry, MessageId, Provenance, Seq, StandInKind, VisitOutcome, Visited,
};
use crate::strategy;
use crate::window::{MessageState, Projection};

/// The laws checked, in the order shown.
pub const LAWS: &[&str] = &[
    "closure",
    "conservation",
    "envelope-and-request",
    "accounting",
    "lifetimes",
    "order",
];

/// For each law the first entry that breaks it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Laws {
    broken: BTreeMap<&'static str, Seq>,
    /// Entries by a source that took envelope or request: no law of ours.
    pub inferred_exceptions: u64,
}

impl Laws {
    /// The entry that first breaks a law.
    #[must_use]
    pub fn broken_at(&self, law: &str) -> Option<Seq> {
        self.broken.get(law).copied()
    }

    /// Whether all hold.
    #[must_use]
    pub fn hold(&self) -> bool {
        self.broken.is_empty()
    }

    fn breaks(&mut self, law: &'static str, at: Seq) {
        self.broken.entry(law).or_insert(at);
    }

    /// Looks at a fold before an entry is applied.
    pub fn before(&mut self, state: &Projection, entry: &Entry) {
        let Some(change) = entry.body.change() else {
            return;
        };
        let left = change.left.iter().map(|l| &l.messages);
        let mut leaving = left
            .chain(change.stand_ins.iter().map(|s| &s.sources))
            .flat_map(|ranges| state.messages_in(ranges));
        let holds = leaving.any(|m| m.visible() && (state.in_envelope(m) || state.in_request(m)));
        if !holds {
            return;
        }
        if entry.provenance == Provenance::Inferred {
            self.inferred_exceptions = self.inferred_exceptions.saturating_add(1);
        } else if matches!(entry.body, Body::Visited(_)) {
            self.breaks("envelope-and-request", entry.seq);
        }
    }

    /// Looks at a fold after an entry was applied. A message's skeleton is looked for in the fold.
    pub fn after(&mut self, state: &Projection, entry: &Entry) {
        match &entry.body {
            Body::Visited(visited) => {
                self.closure(state, entry.seq, &visited.change);
                self.accounting(state, entry.seq, visited);
            }
            Body::Edited(edited) => self.closure(state, entry.seq, &edited.change),
            Body::Appended(a) => {
                let id = MessageId(entry.seq);
                let skeleton = state.message(id).and_then(MessageState::skeleton);
                let parts = skeleton.map(|s| &s.parts);
                let edges = parts
                    .into_iter()
                    .flatten()
                    .filter_map(|p| p.answers)
                    .map(|(s, _)| s);
                // A message may only hang on earlier ones (a native result on its own message).
                if edges
                    .chain(a.continues)
                    .chain(a.same_source)
                    .any(|s| s > entry.seq)
                {
                    self.breaks("order", entry.seq);
                }
                self.group_closed(state, id, entry.seq);
            }
            _ => {}
        }
    }

    /// Looks at what a fold holds, at the log's end.
    pub fn at_end(&mut self, state: &Projection) {
        state.messages().iter().for_each(|m| self.forgotten(m));
    }

    /// Looks at a message that nothing later changes.
    pub fn forgotten(&mut self, message: &MessageState) {
        if !message.visible() && message.absent().is_none() {
            self.breaks("conservation", message.id.seq());
        }
        if !lives_in_order(message) {
            self.breaks("lifetimes", message.id.seq());
        }
    }

    /// Only groups that a change names can have been cut by it.
    fn closure(&mut self, state: &Projection, at: Seq, change: &Change) {
        let left = change.left.iter().map(|l| &l.messages);
        let covered = change.stand_ins.iter().map(|s| &s.sources);
        for ranges in left.chain(covered).chain([&change.entered]) {
            for message in state.messages_in(ranges) {
                self.group_closed(state, message.id, at);
            }
        }
    }

    /// For every group the window holds all of it or none; superseded results aside.
    fn group_closed(&mut self, state: &Projection, id: MessageId, at: Seq) {
        let (mut counted, mut visible) = (0_usize, 0_usize);
        for member in state.members(id).filter(|m| !superseded(m)) {
            counted = counted.saturating_add(1);
            visible = visible.saturating_add(usize::from(member.visible()));
        }
        if visible != 0 && visible != counted {
            self.breaks("closure", at);
        }
    }

    /// A visit that fell short refused everything that is left; one that is done met its target.
    fn accounting(&mut self, state: &Projection, at: Seq, visited: &Visited) {
        if visited.outcome != VisitOutcome::Short {
            if visited.outcome == VisitOutcome::Done && visited.after.amount > visited.target {
                self.breaks("accounting", at);
            }
            return;
        }
        let Some(strategy) = state.strategy_named(&visited.strategy) else {
            return;
        };
        let refused: BTreeSet<MessageId> = state.standing(strategy).map(|m| m.id).collect();
        if !asks_every_group(visited) {
            return;
        }
        let window = state.window();
        let own_notice = |id: MessageId| id.seq() == at;
        let mut ids = window.items.iter().map(|i| i.id);
        if ids.any(|id| !own_notice(id) && !refused.contains(&id)) {
            self.breaks("accounting", at);
        }
    }
}

/// Whether every group was in question at a visit. Of a strategy that is not known here its readings
/// say so, and what it did.
fn asks_every_group(visited: &Visited) -> bool {
    match strategy::parse(&visited.strategy) {
        Ok(strategy) => strategy.asks_every_group(),
        Err(_) => {
            let forms = visited.change.stand_ins.iter();
            let makes_forms = forms.map(|s| s.kind).any(|k| k == StandInKind::Form);
            !makes_forms && !visited.before.method.starts_with("count:")
        }
    }
}

fn superseded(message: &MessageState) -> bool {
    let reason = message.absent().map(|a| a.reason);
    !message.visible() && reason == Some(crate::log::LeftReason::Superseded)
}

/// Counted lifetimes are never negative: stays begin after the one before ended.
fn lives_in_order(message: &MessageState) -> bool {
    let mut from = message.logged.seq;
    message.lives.iter().all(|life| {
        let ordered = life.entered.seq >= from;
        let end = life.left.as_ref().map_or(life.entered, |l| l.by);
        let forward = end.seq >= life.entered.seq && end.iteration >= life.entered.iteration;
        from = end.seq;
        ordered && forward
    })
}
