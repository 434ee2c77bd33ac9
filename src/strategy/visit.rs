//! A visit: one look by a strategy that engaged, as the body of one entry.

use crate::log::{
    Change, Left, MessageId, Ranges, Reading, Refused, Seq, Trigger, Unit, VisitOutcome, Visited,
};
use crate::planted::{Bug, planted};
use crate::window::{Cut, Fate, Memo, Projection, Verdict, VisitInfo};

use super::{Frame, Plan, Strategy};

/// What a strategy's look came to.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::large_enum_variant, reason = "short-lived, one at a time")]
pub enum Outlook {
    /// It is not due.
    NotDue,
    /// It is due, but nothing is newly free to leave since a visit that freed nothing.
    StandsDown,
    /// It visited: the entry to file, and what the strategy's next visit may build on once it is
    /// filed ([`Projection::remember`]).
    Visit(Visited, Option<Memo>),
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
    let look = || Look {
        state,
        spec: strategy.spec(),
        position,
        trigger,
    };
    match strategy.plan(&frame) {
        Plan::NotDue => Outlook::NotDue,
        Plan::Unmeasurable(outcome) => look().unmeasurable(strategy.unit(), outcome),
        Plan::Due { before, limit, cut } => look().due(&frame, before, limit, &cut),
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

    fn unmeasurable(self, unit: Unit, outcome: VisitOutcome) -> Outlook {
        if self.previous().is_some_and(|v| v.outcome == outcome) {
            return Outlook::StandsDown;
        }
        let nothing = Reading {
            unit,
            method: "none".into(),
            amount: 0,
        };
        let visited = Visited {
            before: nothing.clone(),
            after: nothing,
            outcome,
            ..self.blank()
        };
        Outlook::Visit(visited, None)
    }

    fn due(self, frame: &Frame<'_>, before: Reading, limit: u64, cut: &Cut) -> Outlook {
        let decision = frame.decide(cut);
        let fruitless = |v: &VisitInfo| !v.freed && v.outcome.asked();
        let stands_down = !planted(Bug::NeverStandsDown);
        if stands_down && !decision.frees() && self.previous().is_some_and(fruitless) {
            return Outlook::StandsDown;
        }
        let strategy = self.state.strategy_named(&self.spec);
        let all = planted(Bug::EveryRefusalIsListedAgain);
        let before_this = self.asked_before().filter(|_| !all).map(|v| v.fact.seq);
        let verdicts = self.state.verdicts(&decision, strategy, before_this);
        let (refused, released) = self.changed_refusals(strategy, &verdicts);
        let memo = decision.memo(self.state);
        let met = decision.shortfall == 0;
        let visited = Visited {
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
            first_changed: first_changed(&verdicts),
            change: Change {
                left: self.left(&verdicts),
                ..Change::default()
            },
            ..self.blank()
        };
        Outlook::Visit(visited, memo)
    }

    fn blank(self) -> Visited {
        let nothing = Reading {
            unit: Unit::Token,
            method: "".into(),
            amount: 0,
        };
        Visited {
            unchanged_since: self.asked_before().map(|v| v.fact.seq),
            strategy: self.spec,
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
            first_changed: None,
            change: Change::default(),
        }
    }

    fn left(&self, verdicts: &[Verdict<'_>]) -> Vec<Left> {
        let whole = if planted(Bug::GroupIsAPair) {
            2
        } else {
            usize::MAX
        };
        let members = verdicts.iter().filter(|v| v.nth < whole);
        let leaving = members.filter_map(|v| match v.fate {
            Fate::Leaves(reason) => Some((reason, v.message.id)),
            _ => None,
        });
        let by_reason = self.by_reason(leaving.collect());
        by_reason
            .into_iter()
            .map(|(reason, messages)| Left { reason, messages })
            .collect()
    }

    /// The messages of each reason, as ranges.
    fn by_reason<R: Copy + Ord>(&self, mut ids: Vec<(R, MessageId)>) -> Vec<(R, Ranges)> {
        ids.sort_unstable();
        let reasons = ids.chunk_by(|a, b| a.0 == b.0);
        let ranges = |ids: &[(R, MessageId)]| self.state.ranges(ids.iter().map(|(_, id)| id));
        reasons
            .filter_map(|ids| Some((ids.first()?.0, ranges(ids))))
            .collect()
    }

    /// Of refusals, only what changed since the strategy's previous visit.
    fn changed_refusals(
        &self,
        strategy: Option<usize>,
        verdicts: &[Verdict<'_>],
    ) -> (Vec<Refused>, Ranges) {
        let repeats = planted(Bug::EveryRefusalIsListedAgain);
        let mut refused = Vec::new();
        let mut released = Vec::new();
        for Verdict { fate, message, .. } in verdicts {
            let standing = strategy.and_then(|s| self.state.standing_refusal(s, message));
            match (fate, standing) {
                (Fate::Refuses(reason), before) if before != Some(*reason) || repeats => {
                    refused.push((*reason, message.id));
                }
                (Fate::NotNeeded | Fate::Leaves(_), Some(_)) => released.push(message.id),
                _ => {}
            }
        }
        let recorded = if planted(Bug::OneReasonIsRecorded) {
            1
        } else {
            usize::MAX
        };
        let refused = self.by_reason(refused).into_iter().take(recorded);
        let refused = refused.map(|(reason, messages)| Refused { reason, messages });
        released.sort_unstable();
        (refused.collect(), self.state.ranges(&released))
    }
}

/// The place of the first message that leaves.
fn first_changed(verdicts: &[Verdict<'_>]) -> Option<Seq> {
    let leaving = (verdicts.iter()).filter(|v| matches!(v.fate, Fate::Leaves(_)));
    let places = leaving.map(|v| v.message.place);
    if planted(Bug::LastChangeIsNamedFirst) {
        return places.max();
    }
    places.min()
}
