//! `why`: when a message entered, which calls saw it, what removed it and for what reason, what
//! refused to let it go, what stands for it, and how to bring it back.

use serde::Serialize;

use crate::engine::{Conversation, Error};
use crate::log::{
    GroupReason, Iteration, LeftReason, MessageId, Micros, RequestReason, Seq, Trigger,
};
use crate::planted::{Bug, planted};
use crate::window::{
    Conservation, Fact, Form, Life, LifeEnd, MessageState, Projection, RefusalSpan,
};

use super::cause::inferred;
use super::trace::trace;

/// A place in a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Moment {
    /// The entry.
    pub seq: Seq,
    /// Its iteration.
    pub iteration: Iteration,
}

impl From<Fact> for Moment {
    fn from(fact: Fact) -> Self {
        Self {
            seq: fact.seq,
            iteration: fact.iteration,
        }
    }
}

/// A place in a log with its wall time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Timed {
    /// The entry.
    pub seq: Seq,
    /// Its iteration.
    pub iteration: Iteration,
    /// RFC 3339, where known.
    pub at: Option<String>,
}

impl From<Fact> for Timed {
    fn from(fact: Fact) -> Self {
        Self {
            seq: fact.seq,
            iteration: fact.iteration,
            at: fact.at.map(|t| t.to_string()),
        }
    }
}

/// How a stay ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct StayEnd {
    /// The entry that ended it.
    #[serde(flatten)]
    pub by: Timed,
    /// `evict`, `replace` or `consolidate`.
    pub kind: &'static str,
    /// Why.
    pub reason: LeftReason,
    /// The strategy that decided it; absent for edits.
    pub strategy: Option<String>,
    /// What made it look; absent for edits.
    pub trigger: Option<Trigger>,
    /// Whether a source that was imported did it: known of what the source says, and not recorded
    /// when it happened.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inferred: bool,
}

/// One stay in the window.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Stay {
    /// The entry that began it.
    pub entered: Timed,
    /// How it ended, if it had by then.
    pub left: Option<StayEnd>,
    /// Calls that saw it.
    pub calls: u64,
    /// Entries it lasted.
    pub entries: u64,
    /// Milliseconds of wall time it lasted, where known.
    pub wall_ms: Option<u64>,
    /// `ok`, `went-back` or `unknown`.
    pub clock: &'static str,
}

/// Which calls saw the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Seen {
    /// How many.
    pub calls: u64,
    /// The first of them.
    pub first_iteration: Option<Iteration>,
    /// The last of them.
    pub last_iteration: Option<Iteration>,
}

/// Calls after the message's logging that did not see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Missed {
    /// How many.
    pub calls: u64,
}

/// A run of equal refusals.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Refusals {
    /// Why the message's group might not leave.
    pub reason: GroupReason,
    /// The strategy that wanted it gone.
    pub strategy: String,
    /// The first visit that found it so.
    pub first: Moment,
    /// The last visit that found it so.
    pub last: Moment,
    /// How many visits did.
    pub visits: u64,
}

/// A content of the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct FormOf {
    /// The entry from which on it was in force.
    pub seq: Seq,
    /// Its iteration.
    pub iteration: Iteration,
    /// Why it replaced the one before; absent for the first.
    pub reason: Option<LeftReason>,
}

/// The answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Why {
    /// `ctxlog.why/1`.
    pub schema: &'static str,
    /// The message.
    pub message: String,
    /// The moment the question is about.
    pub at: Moment,
    /// `visible`, `evicted`, `covered` or `not-yet`.
    pub status: &'static str,
    /// Whether its words were destroyed.
    pub redacted: bool,
    /// Its contents.
    pub forms: Vec<FormOf>,
    /// Its stays in the window.
    pub lives: Vec<Stay>,
    /// Calls that saw it.
    pub seen_by: Seen,
    /// Calls since its logging that did not.
    pub missed_by: Missed,
    /// What stands for it.
    pub stands_for_it: Option<Seq>,
    /// What refused to let its group leave.
    pub refusals: Vec<Refusals>,
    /// The command that brings it back.
    pub restore: Option<Vec<String>>,
}

/// Answers for a message as of entry `n`.
///
/// # Errors
/// `nothing-matches` when it was never logged; `range-out-of-bounds` beyond the head.
pub fn why(chat: &Conversation, id: MessageId, n: Seq) -> Result<Why, Error> {
    let head = chat.head()?.map_or(Seq(0), |h| h.seq);
    if n > head {
        let detail = format!("{n} is beyond the head, {head}");
        return Err(Error::refused(RequestReason::RangeOutOfBounds, detail));
    }
    let story = match trace(chat, id, n)? {
        Some(story) => Some(story),
        None => chat.with_projection(|p| Some(Story::told(p, p.message(id)?, n)))?,
    };
    let mut story = story.ok_or_else(|| never_logged(chat, id))?;
    if planted(Bug::WhyEndsAtTheFork)
        && let Some(fork) = chat.forked()?
    {
        let ends = story.lives.iter_mut().filter_map(|l| l.life.left.as_mut());
        for end in ends.chain(story.end.as_mut()) {
            end.by.seq = end.by.seq.min(fork.at);
        }
    }
    let (given, payload) = story.form;
    let held = chat.store().backend().payload(chat.id(), given, payload)?;
    let mut why = story.answer(chat.name());
    why.redacted = held.is_none();
    for left in why.lives.iter_mut().filter_map(|stay| stay.left.as_mut()) {
        left.inferred = inferred(&chat.entry(left.by.seq)?);
    }
    Ok(why)
}

pub(super) fn never_logged(chat: &Conversation, id: MessageId) -> Error {
    let detail = format!("'{}' never logged a message {id}", chat.name());
    Error::refused(RequestReason::NothingMatches, detail)
}

impl Conversation {
    /// Why a message is, or is not, in the window now.
    ///
    /// # Errors
    /// `nothing-matches` when it was never logged.
    pub fn why(&self, message: MessageId) -> Result<Why, Error> {
        let head = self.head()?.map_or(Seq(0), |h| h.seq);
        why(self, message, head)
    }
}

/// A stay in the window.
pub(super) struct Lived {
    pub life: Life,
    /// The strategy that ended it.
    pub strategy: Option<String>,
    /// What made that look.
    pub trigger: Option<Trigger>,
}

/// Everything that had become of a message by entry `n`, from the fold or from its own entries.
pub(super) struct Story {
    pub id: MessageId,
    pub logged: Fact,
    pub at: Moment,
    /// The iteration that an entry after `n` would belong to.
    pub next: Iteration,
    /// What became of it; `None` before it was logged.
    pub fate: Option<Conservation>,
    /// How it left last, where it is away.
    pub end: Option<LifeEnd>,
    /// Whether what stands for it is in the window itself.
    pub stand_in_there: bool,
    /// Its contents by then.
    pub forms: Vec<FormOf>,
    /// Its stays by then; an end that was still to come is left out.
    pub lives: Vec<Lived>,
    pub refusals: Vec<Refusals>,
    /// The entry that gave its newest content of all, and the payload.
    pub form: (Seq, u32),
}

impl Story {
    /// By the fold.
    fn told(p: &Projection, message: &MessageState, n: Seq) -> Self {
        let calls = p.sent().partition_point(|s| s.fact.seq <= n);
        let end = message.absent_at(n).cloned();
        let stand_in = end.as_ref().and_then(|e| p.message(e.stand_in?));
        let lives = message.lives.iter().filter(|l| l.entered.seq <= n);
        let forms = message.forms.iter().filter(|f| f.since.seq <= n);
        let newest = message.form();
        let refusals = message.refusals.iter();
        Self {
            id: message.id,
            logged: message.logged,
            at: Moment {
                seq: n,
                iteration: p.iteration_of(n),
            },
            next: Iteration(u64::try_from(calls).unwrap_or(u64::MAX).saturating_add(1)),
            fate: (message.logged.seq <= n).then(|| {
                p.conservation_at(message.id, n)
                    .unwrap_or(Conservation::Gone)
            }),
            stand_in_there: stand_in.is_some_and(|m| m.visible_at(n)),
            end,
            forms: forms.map(FormOf::from).collect(),
            lives: lives.map(|life| Lived::told(p, life, n)).collect(),
            refusals: refusals.filter_map(|r| refused(p, r, n)).collect(),
            form: newest.map_or((message.id.seq(), 0), |f| (f.given, f.payload)),
        }
    }

    fn answer(&self, name: &str) -> Why {
        let seen = self.seen();
        let after = self.next.0.saturating_sub(self.logged.iteration.0);
        let missed = match self.fate {
            None => 0,
            Some(_) => after.saturating_sub(seen.calls),
        };
        let end = self.end.as_ref();
        let covered = self.fate == Some(Conservation::Covered);
        Why {
            schema: "ctxlog.why/1",
            message: self.id.to_string(),
            at: self.at,
            status: match self.fate {
                None => "not-yet",
                Some(Conservation::Visible) => "visible",
                Some(Conservation::Covered) => "covered",
                Some(Conservation::Gone) => "evicted",
            },
            redacted: false,
            forms: self.forms.clone(),
            lives: self.lives.iter().map(|lived| self.stay(lived)).collect(),
            seen_by: seen,
            missed_by: Missed { calls: missed },
            stands_for_it: end
                .filter(|_| covered)
                .and_then(|e| e.stand_in)
                .map(MessageId::seq),
            refusals: self.refusals.clone(),
            restore: self.restore(name),
        }
    }

    /// The calls of a stay: from its iteration up to, but without, this one.
    fn until(&self, life: &Life) -> Iteration {
        let left = life.left.as_ref();
        left.map_or(self.next, |l| l.by.iteration)
    }

    fn calls(&self, life: &Life) -> u64 {
        self.until(life).0.saturating_sub(life.entered.iteration.0)
    }

    fn stay(&self, lived: &Lived) -> Stay {
        let life = &lived.life;
        let end = life.left.as_ref();
        let until = end.map_or(self.at.seq, |l| l.by.seq);
        let from = if planted(Bug::LivesAreCountedFromLogging) {
            self.logged
        } else {
            life.entered
        };
        let (wall_ms, clock) = match end {
            None => (None, "unknown"),
            Some(end) => wall(life.entered.at, end.by.at),
        };
        Stay {
            entered: life.entered.into(),
            left: end.map(|end| StayEnd {
                by: end.by.into(),
                kind: kind_of(end),
                reason: end.reason,
                strategy: lived.strategy.clone(),
                trigger: lived.trigger,
                inferred: false,
            }),
            calls: self.calls(life),
            entries: until.0.saturating_sub(from.seq.0),
            wall_ms,
            clock,
        }
    }

    fn seen(&self) -> Seen {
        let mut calls: u64 = 0;
        let (mut first, mut last) = (None, None);
        for life in self.lives.iter().map(|lived| &lived.life) {
            let seen = self.calls(life);
            if seen > 0 {
                calls = calls.saturating_add(seen);
                first = first.or(Some(life.entered.iteration));
                last = Some(Iteration(self.until(life).0.saturating_sub(1)));
            }
        }
        Seen {
            calls,
            first_iteration: first,
            last_iteration: last,
        }
    }

    fn restore(&self, name: &str) -> Option<Vec<String>> {
        let target = match self.fate? {
            Conservation::Visible => return None,
            Conservation::Gone => self.id.to_string(),
            Conservation::Covered => {
                let end = self.end.as_ref()?;
                match end.reason {
                    // The real result is what comes back, and only if it is away.
                    LeftReason::Superseded if self.stand_in_there => return None,
                    LeftReason::Superseded => end.stand_in?.to_string(),
                    _ => end.by.seq.to_string(),
                }
            }
        };
        Some(
            ["ctxlog", "restore", &target, "-c", name]
                .map(str::to_owned)
                .to_vec(),
        )
    }
}

impl Lived {
    fn told(p: &Projection, life: &Life, n: Seq) -> Self {
        let end = life.left.as_ref().filter(|l| l.by.seq <= n);
        let visits = p.visits();
        let by = end.map(|e| visits.binary_search_by_key(&e.by.seq, |v| v.fact.seq));
        let visit = by.and_then(Result::ok).and_then(|at| visits.get(at));
        let strategy = end.and_then(|e| p.strategies().get(e.strategy?));
        Self {
            life: Life {
                entered: life.entered,
                left: end.cloned(),
            },
            strategy: strategy.cloned(),
            trigger: visit.map(|v| v.trigger),
        }
    }
}

impl From<&Form> for FormOf {
    fn from(form: &Form) -> Self {
        Self {
            seq: form.since.seq,
            iteration: form.since.iteration,
            reason: form.reason,
        }
    }
}

fn refused(p: &Projection, span: &RefusalSpan, n: Seq) -> Option<Refusals> {
    let visit = |ordinal: usize| p.visit_of(span.strategy, ordinal);
    let first = visit(span.first).filter(|v| v.fact.seq <= n)?;
    let ended = span.last.filter(|_| !planted(Bug::WhyNamesTheNewestVisit));
    let happened = p.visits_until(span.strategy, n);
    let last = happened.checked_sub(1)?.min(ended.unwrap_or(usize::MAX));
    let count = last.saturating_sub(span.first).saturating_add(1);
    let strategy = p.strategies().get(span.strategy).cloned();
    Some(Refusals {
        reason: span.reason,
        strategy: strategy.unwrap_or_default(),
        first: first.fact.into(),
        last: visit(last)?.fact.into(),
        visits: u64::try_from(count).unwrap_or(u64::MAX),
    })
}

fn kind_of(end: &LifeEnd) -> &'static str {
    match end.reason {
        LeftReason::Summarized | LeftReason::Observed => "consolidate",
        LeftReason::Replaced | LeftReason::Superseded => "replace",
        _ => "evict",
    }
}

fn wall(from: Option<Micros>, to: Option<Micros>) -> (Option<u64>, &'static str) {
    match (from, to) {
        (Some(from), Some(to)) if planted(Bug::ClockNeverGoesBack) => {
            (Some(from.0.abs_diff(to.0) / 1_000), "ok")
        }
        (Some(from), Some(to)) => match u64::try_from(to.0.saturating_sub(from.0)) {
            Ok(micros) => (Some(micros / 1_000), "ok"),
            Err(_) => (None, "went-back"),
        },
        _ => (None, "unknown"),
    }
}
