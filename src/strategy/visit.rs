//! A visit: one look by a strategy that engaged, as the body of one entry.

use crate::log::{
    Change, Commitment, Hash, Left, Message, MessageId, Ranges, Reading, Refused, Seq, Skeleton,
    StandIn, StandInKind, Trigger, Unit, VisitOutcome, Visited,
};
use crate::planted::{Bug, planted};
use crate::window::{Cut, Decision, Fate, Memo, Notices, Projection, Verdict, VisitInfo};

use super::{Consolidation, Frame, Plan, Strategy, notice};

/// The commitment of a content that was not filed yet.
pub(super) const BLANK: Commitment = Commitment {
    digest: Hash::ZERO,
    bytes: 0,
};

/// How often a notice is written anew until there is room for it.
const NOTICE_TRIES: usize = 4;

/// Where the words of the window are read, and how contents are counted.
pub trait Words {
    /// The words of a message as it is now; `None` where they were redacted or cannot be read.
    fn message(&mut self, id: MessageId) -> Option<Message>;

    /// What is seen of a content without its words, counted as this conversation's messages are.
    /// `answers`: per part the call that it answers.
    fn skeleton(&self, message: &Message, answers: &[Option<(Seq, u32)>]) -> Skeleton;
}

/// A visit that is to be filed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Visit {
    /// The entry's body. The stand-ins' commitments are blank: whoever files it makes them.
    pub body: Visited,
    /// What the strategy's next visit may build on once this one is filed
    /// ([`Projection::remember`]).
    pub memo: Option<Memo>,
    /// The words of the stand-ins, in order.
    pub contents: Vec<Message>,
}

/// What a strategy's look came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outlook {
    /// It is not due.
    NotDue,
    /// It is due, but nothing is newly free to leave since a visit that freed nothing.
    StandsDown,
    /// It visited: the entry to file.
    Visit(Box<Visit>),
    /// It wants a summary: whom to ask is the engine's business, and what becomes of the answer that
    /// of [`super::conclude`].
    Consolidation(Box<Consolidation>),
}

/// Lets a strategy look at the window now.
#[must_use]
pub fn visit(
    state: &Projection,
    strategy: &dyn Strategy,
    position: u32,
    trigger: Trigger,
    words: &mut dyn Words,
) -> Outlook {
    let frame = Frame::new(state, strategy.measure());
    let look = || Look::new(state, strategy.spec(), position, trigger);
    let mut outlook = match strategy.plan(&frame) {
        Plan::NotDue => Outlook::NotDue,
        Plan::Unmeasurable(outcome) => look().unmeasurable(strategy.unit(), outcome),
        Plan::Due { before, limit, cut } => look().due(&frame, before, limit, &cut, words),
        Plan::Shrink {
            before,
            limit,
            shrink,
        } => look().shrinks(&frame, before, limit, &shrink, words),
        Plan::Consolidate {
            before,
            limit,
            cut,
            summary_max,
        } => look().consolidates(&frame, before, limit, &cut, summary_max),
    };
    if let Outlook::Visit(visit) = &mut outlook {
        let first = visit.body.first_changed;
        visit.body.invalidated = first.map(|place| state.invalidated_from(place));
    }
    outlook
}

/// Whether a visit asked and got nothing.
pub(super) const fn fruitless(visit: &VisitInfo) -> bool {
    !visit.freed && visit.outcome.asked()
}

pub(super) struct Look<'a> {
    pub state: &'a Projection,
    pub spec: String,
    pub position: u32,
    pub trigger: Trigger,
}

/// Of refusals, what changed since the strategy's previous visit.
pub(super) struct Told {
    pub refused: Vec<Refused>,
    pub released: Ranges,
    left: Vec<Left>,
    first_changed: Option<Seq>,
}

/// A decision with the notice of what leaves.
struct Decided {
    decision: Decision,
    stood_down: Ranges,
    notice: Option<(Message, Skeleton)>,
}

impl<'a> Look<'a> {
    pub(super) const fn new(
        state: &'a Projection,
        spec: String,
        position: u32,
        trigger: Trigger,
    ) -> Self {
        Self {
            state,
            spec,
            position,
            trigger,
        }
    }

    /// The head that it looks at.
    pub(super) fn base(&self) -> Seq {
        self.state.head().map_or(Seq(0), |h| h.seq)
    }

    pub(super) fn strategy(&self) -> Option<usize> {
        self.state.strategy_named(&self.spec)
    }

    /// The strategy's previous visit.
    pub(super) fn previous(&self) -> Option<&VisitInfo> {
        self.state.newest_visit(self.strategy()?)
    }

    /// The strategy's previous visit that asked the groups.
    fn asked_before(&self) -> Option<&VisitInfo> {
        let strategy = self.strategy()?;
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
        let body = Visited {
            before: nothing.clone(),
            after: nothing,
            outcome,
            ..self.blank()
        };
        filed(body, None, Vec::new())
    }

    fn due(
        self,
        frame: &Frame<'_>,
        before: Reading,
        limit: u64,
        cut: &Cut,
        words: &mut dyn Words,
    ) -> Outlook {
        let decided = self.decide(frame, &before, limit, cut, words);
        let decision = decided.decision;
        let stands_down = !planted(Bug::NeverStandsDown);
        if stands_down && !decision.frees() && self.previous().is_some_and(fruitless) {
            return Outlook::StandsDown;
        }
        let (contents, skeletons): (Vec<_>, Vec<_>) = decided.notice.into_iter().unzip();
        let after = decision.after;
        let shortfall = after.saturating_sub(cut.target);
        let told = self.told(&decision);
        let stand_in = |skeleton| StandIn {
            kind: StandInKind::Notice,
            reason: cut.reason,
            sources: Ranges::default(),
            skeleton,
            content: BLANK,
        };
        let body = Visited {
            after: Reading {
                amount: after,
                ..before.clone()
            },
            before,
            limit,
            target: cut.target,
            outcome: if shortfall == 0 {
                VisitOutcome::Done
            } else {
                VisitOutcome::Short
            },
            shortfall: (shortfall > 0).then_some(shortfall),
            refused: told.refused,
            released: told.released,
            stood_down: decided.stood_down,
            first_changed: told.first_changed,
            change: Change {
                left: told.left,
                stand_ins: skeletons.into_iter().map(stand_in).collect(),
                ..Change::default()
            },
            ..self.blank()
        };
        filed(body, decision.memo(self.state), contents)
    }

    /// Asks the guard: with pins, or without where they stand down.
    fn decide(
        &self,
        frame: &Frame<'_>,
        before: &Reading,
        limit: u64,
        cut: &Cut,
        words: &dyn Words,
    ) -> Decided {
        let decision = frame.decide(cut);
        let (cut, decision, stood_down) = self.without_pins(frame, limit, cut, decision);
        let noticed = self.noticed(frame, before, &cut, &decision, words);
        let (decision, notice) = match noticed {
            Some((decision, message, skeleton)) => (decision, Some((message, skeleton))),
            None => (decision, None),
        };
        Decided {
            decision,
            stood_down,
            notice,
        }
    }

    /// The decision that leaves room for a notice of what leaves, and lets the notice before go; and
    /// the notice. None where it would not be smaller than what leaves.
    fn noticed(
        &self,
        frame: &Frame<'_>,
        before: &Reading,
        cut: &Cut,
        decision: &Decision,
        words: &dyn Words,
    ) -> Option<(Decision, Message, Skeleton)> {
        let strategy = self.spec.split(':').next().unwrap_or_default();
        let writes = cut.notices != Notices::Ordinary;
        let write = |decision: &Decision| {
            let message = notice::write(self.state, decision, strategy).filter(|_| writes)?;
            let skeleton = words.skeleton(&message, &[]);
            Some((message, skeleton))
        };
        // Where tokens are measured the notice takes some; groups are counted without it.
        let takes = |skeleton: &Skeleton| match frame.tokens() {
            Ok(tokens) if before.unit == Unit::Token => tokens.size_of(skeleton),
            _ => 0,
        };
        let mut room = takes(&write(decision)?.1);
        // More may have to leave for it, and then it says more.
        for _ in 0..NOTICE_TRIES {
            let mut absorbing = frame.decide(&Cut {
                before: cut.before.saturating_add(room),
                notices: Notices::Absorbed,
                ..cut.clone()
            });
            let (message, skeleton) = write(&absorbing)?;
            let needs = takes(&skeleton);
            if needs > room {
                room = needs;
                continue;
            }
            absorbing.after = absorbing.after.saturating_sub(room.saturating_sub(needs));
            let smaller = needs == 0 || absorbing.after < cut.before;
            return smaller.then_some((absorbing, message, skeleton));
        }
        None
    }

    /// Pins stand down where they alone keep a visit from getting anywhere, and did so at the visit
    /// before: they never hold up two visits running. A strategy that asks everything got
    /// somewhere when anything left; one with a budget, when the window came within it.
    pub(super) fn without_pins(
        &self,
        frame: &Frame<'_>,
        limit: u64,
        cut: &Cut,
        decision: Decision,
    ) -> (Cut, Decision, Ranges) {
        let budget = !cut.ask_all;
        let got_nowhere = !decision.frees() || (budget && decision.after > limit);
        let pinned = decision.pinned_messages(self.state);
        if got_nowhere && self.held_up_before(&pinned, budget) {
            let without = Cut {
                pin_results: 0,
                ..cut.clone()
            };
            let free = frame.decide(&without);
            let leaving = |id: &MessageId| free.leaving(self.state).any(|(_, m)| m.id == *id);
            if pinned.iter().any(leaving) {
                return (without, free, self.state.ranges(&pinned));
            }
        }
        (cut.clone(), decision, Ranges::default())
    }

    /// Whether the visit before got nowhere either, while the results of some of these groups were
    /// pinned.
    pub(super) fn held_up_before(
        &self,
        pinned: &std::collections::BTreeSet<MessageId>,
        budget: bool,
    ) -> bool {
        let (Some(strategy), Some(before)) = (self.strategy(), self.asked_before()) else {
            return false;
        };
        let got_nowhere = !before.freed || (budget && before.over);
        let mut messages = pinned.iter().filter_map(|id| self.state.message(*id));
        let named = crate::log::GroupReason::LastToolResult;
        got_nowhere && messages.any(|m| self.state.standing_refusal(strategy, m) == Some(named))
    }

    /// A visit that says nothing yet.
    pub(super) fn blank(&self) -> Visited {
        let nothing = Reading {
            unit: Unit::Token,
            method: "".into(),
            amount: 0,
        };
        Visited {
            unchanged_since: self.asked_before().map(|v| v.fact.seq),
            strategy: self.spec.clone(),
            position: self.position,
            base: self.base(),
            trigger: self.trigger,
            before: nothing.clone(),
            limit: 0,
            target: 0,
            after: nothing,
            outcome: VisitOutcome::Done,
            shortfall: None,
            refused: Vec::new(),
            released: Ranges::default(),
            stood_down: Ranges::default(),
            first_changed: None,
            invalidated: None,
            attempts: Vec::new(),
            change: Change::default(),
        }
    }

    /// What a visit has to say of the groups.
    pub(super) fn told(&self, decision: &Decision) -> Told {
        let strategy = self.strategy();
        let all = planted(Bug::EveryRefusalIsListedAgain);
        let before_this = self.asked_before().filter(|_| !all).map(|v| v.fact.seq);
        let verdicts = self.state.verdicts(decision, strategy, before_this);
        let (refused, released) = self.changed_refusals(strategy, &verdicts);
        Told {
            refused,
            released,
            left: self.left(&verdicts),
            first_changed: first_changed(&verdicts),
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

pub(super) fn filed(body: Visited, memo: Option<Memo>, contents: Vec<Message>) -> Outlook {
    Outlook::Visit(Box::new(Visit {
        body,
        memo,
        contents,
    }))
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
