//! A visit: one look by a strategy that engaged, as the body of one entry.

use std::collections::{BTreeMap, BTreeSet};

use crate::log::{
    Change, GroupReason, Left, LeftReason, MessageId, Ranges, Reading, Refused, Seq, Trigger, Unit,
    VisitOutcome, Visited,
};
use crate::planted::{Bug, planted};
use crate::window::{Cut, Decision, Fate, Projection, VisitInfo, decide};

use super::{Frame, Plan, Strategy};

/// What a strategy's look came to.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::large_enum_variant, reason = "short-lived, one at a time")]
pub enum Outlook {
    /// It is not due.
    NotDue,
    /// It is due, but nothing is newly free to leave since a visit that freed nothing.
    StandsDown,
    /// It visited: the entry to file.
    Visit(Visited),
}

/// Lets a strategy look at the window now.
#[must_use]
pub fn visit(
    state: &Projection,
    strategy: &dyn Strategy,
    position: u32,
    trigger: Trigger,
) -> Outlook {
    let frame = Frame::new(state, strategy.measure());
    let look = Look {
        state,
        spec: strategy.spec(),
        position,
        trigger,
    };
    match strategy.plan(&frame) {
        Plan::NotDue => Outlook::NotDue,
        Plan::Unmeasurable(outcome) => look.unmeasurable(strategy.unit(), outcome),
        Plan::Due { before, limit, cut } => look.due(&frame, before, limit, &cut),
    }
}

struct Look<'a> {
    state: &'a Projection,
    spec: String,
    position: u32,
    trigger: Trigger,
}

impl Look<'_> {
    /// The strategy's previous visit.
    fn previous(&self) -> Option<&VisitInfo> {
        self.state
            .newest_visit(self.state.strategy_named(&self.spec)?)
    }

    /// The strategy's previous visit that asked the groups.
    fn asked_before(&self) -> Option<&VisitInfo> {
        let strategy = self.state.strategy_named(&self.spec)?;
        self.state
            .visit_of(strategy, self.state.visits_of(strategy).checked_sub(1)?)
    }

    fn unmeasurable(&self, unit: Unit, outcome: VisitOutcome) -> Outlook {
        if self.previous().is_some_and(|v| v.outcome == outcome) {
            return Outlook::StandsDown;
        }
        let nothing = Reading {
            unit,
            method: "none".to_owned(),
            amount: 0,
        };
        Outlook::Visit(Visited {
            before: nothing.clone(),
            after: nothing,
            outcome,
            ..self.blank()
        })
    }

    fn due(&self, frame: &Frame<'_>, before: Reading, limit: u64, cut: &Cut) -> Outlook {
        let decision = decide(self.state, frame.groups(), cut);
        let fruitless = |v: &VisitInfo| !v.freed && v.outcome.asked();
        let stands_down = !planted(Bug::NeverStandsDown);
        if stands_down && !decision.frees() && self.previous().is_some_and(fruitless) {
            return Outlook::StandsDown;
        }
        let (refused, released) = self.changed_refusals(frame, &decision);
        let left = self.left(frame, &decision);
        let met = decision.shortfall == 0;
        Outlook::Visit(Visited {
            after: Reading {
                amount: decision.after,
                ..before.clone()
            },
            before,
            limit,
            target: cut.target,
            outcome: if met {
                VisitOutcome::Done
            } else {
                VisitOutcome::Short
            },
            shortfall: (!met).then_some(decision.shortfall),
            refused,
            released,
            first_changed: self.first_changed(frame, &decision),
            change: Change {
                left,
                ..Change::default()
            },
            ..self.blank()
        })
    }

    fn blank(&self) -> Visited {
        let nothing = Reading {
            unit: Unit::Token,
            method: String::new(),
            amount: 0,
        };
        Visited {
            strategy: self.spec.clone(),
            position: self.position,
            base: self.state.head().map_or(Seq(0), |h| h.seq),
            trigger: self.trigger,
            before: nothing.clone(),
            limit: 0,
            target: 0,
            after: nothing,
            outcome: VisitOutcome::Done,
            shortfall: None,
            refused: Vec::new(),
            released: Ranges::default(),
            unchanged_since: self.asked_before().map(|v| v.fact.seq),
            first_changed: None,
            change: Change::default(),
        }
    }

    fn left(&self, frame: &Frame<'_>, decision: &Decision) -> Vec<Left> {
        let mut by_reason: BTreeMap<LeftReason, BTreeSet<MessageId>> = BTreeMap::new();
        let whole = if planted(Bug::GroupIsAPair) {
            2
        } else {
            usize::MAX
        };
        for (group, fate) in frame.groups().iter().zip(&decision.fates) {
            if let Fate::Leaves(reason) = fate {
                by_reason
                    .entry(*reason)
                    .or_default()
                    .extend(group.messages.iter().copied().take(whole));
            }
        }
        let ranges = |ids: &BTreeSet<MessageId>| self.state.ranges(ids);
        by_reason
            .iter()
            .map(|(r, ids)| Left {
                reason: *r,
                messages: ranges(ids),
            })
            .collect()
    }

    /// Of refusals, only what changed since the strategy's previous visit.
    fn changed_refusals(&self, frame: &Frame<'_>, decision: &Decision) -> (Vec<Refused>, Ranges) {
        let strategy = self.state.strategy_named(&self.spec);
        let standing = |id: MessageId| {
            let message = self.state.message(id)?;
            self.state.standing_refusal(strategy?, message)
        };
        let repeats = planted(Bug::EveryRefusalIsListedAgain);
        let mut refused: BTreeMap<GroupReason, BTreeSet<MessageId>> = BTreeMap::new();
        let mut released = BTreeSet::new();
        for (group, fate) in frame.groups().iter().zip(&decision.fates) {
            for &id in &group.messages {
                match (fate, standing(id)) {
                    (Fate::Refuses(reason), before) if before != Some(*reason) || repeats => {
                        refused.entry(*reason).or_default().insert(id);
                    }
                    (Fate::NotNeeded | Fate::Leaves(_), Some(_)) => {
                        released.insert(id);
                    }
                    _ => {}
                }
            }
        }
        let recorded = if planted(Bug::OneReasonIsRecorded) {
            1
        } else {
            usize::MAX
        };
        let refused = refused
            .iter()
            .take(recorded)
            .map(|(reason, ids)| Refused {
                reason: *reason,
                messages: self.state.ranges(ids),
            })
            .collect();
        (refused, self.state.ranges(&released))
    }

    fn first_changed(&self, frame: &Frame<'_>, decision: &Decision) -> Option<Seq> {
        let leaving = frame
            .groups()
            .iter()
            .zip(&decision.fates)
            .filter(|(_, fate)| matches!(fate, Fate::Leaves(_)));
        let first = leaving.filter_map(|(g, _)| g.messages.first().copied());
        let places = first
            .filter_map(|id| self.state.message(id))
            .map(|m| m.place);
        if planted(Bug::LastChangeIsNamedFirst) {
            return places.max();
        }
        places.min()
    }
}
