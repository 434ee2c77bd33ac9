//! `why`: when a message entered, which calls saw it, what removed it and for what reason, what
//! refused to let it go, what stands for it, and how to bring it back.

use serde::Serialize;

use crate::engine::{Conversation, Error};
use crate::log::{
    GroupReason, Iteration, LeftReason, MessageId, Micros, RequestReason, Seq, Trigger,
};
use crate::planted::{Bug, planted};
use crate::window::{Conservation, Fact, Life, LifeEnd, MessageState, Projection, RefusalSpan};

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
    let answer = chat.with_projection(|p| {
        let message = p.message(id)?;
        let form = message.form().map(|f| (f.given, f.payload));
        Some((Question::new(p, message, n).answer(chat.name()), form))
    })?;
    let Some((mut why, form)) = answer else {
        let detail = format!("'{}' never logged a message {id}", chat.name());
        return Err(Error::refused(RequestReason::NothingMatches, detail));
    };
    if let Some((given, payload)) = form {
        why.redacted = chat
            .store()
            .backend()
            .payload(chat.id(), given, payload)?
            .is_none();
    }
    Ok(why)
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

struct Question<'a> {
    projection: &'a Projection,
    message: &'a MessageState,
    n: Seq,
    /// The iteration that an entry after `n` would belong to.
    next: Iteration,
}

impl<'a> Question<'a> {
    fn new(projection: &'a Projection, message: &'a MessageState, n: Seq) -> Self {
        let calls = projection.sent().partition_point(|s| s.fact.seq <= n);
        let next = Iteration(u64::try_from(calls).unwrap_or(u64::MAX).saturating_add(1));
        Self {
            projection,
            message,
            n,
            next,
        }
    }

    /// The part of the log that had happened by then.
    fn happened(&self, fact: Fact) -> bool {
        fact.seq <= self.n
    }

    fn answer(&self, name: &str) -> Why {
        let logged = self.happened(self.message.logged);
        let (status, end) = self.status();
        let stays = self.stays();
        let seen = self.seen();
        let after = self.next.0.saturating_sub(self.message.logged.iteration.0);
        let missed = if logged {
            after.saturating_sub(seen.calls)
        } else {
            0
        };
        Why {
            schema: "ctxlog.why/1",
            message: self.message.id.to_string(),
            at: Moment {
                seq: self.n,
                iteration: self.projection.iteration_of(self.n),
            },
            status,
            redacted: false,
            forms: self.forms(),
            lives: stays,
            seen_by: seen,
            missed_by: Missed { calls: missed },
            stands_for_it: end
                .filter(|_| status == "covered")
                .and_then(|e| e.stand_in)
                .map(MessageId::seq),
            refusals: self
                .message
                .refusals
                .iter()
                .filter_map(|r| self.refusals(r))
                .collect(),
            restore: self.restore(status, end, name),
        }
    }

    /// What became of it, and the end that says so.
    fn status(&self) -> (&'static str, Option<&LifeEnd>) {
        if !self.happened(self.message.logged) {
            return ("not-yet", None);
        }
        let end = self.message.absent_at(self.n);
        match self.projection.conservation_at(self.message.id, self.n) {
            Some(Conservation::Visible) => ("visible", None),
            Some(Conservation::Covered) => ("covered", end),
            Some(Conservation::Gone) | None => ("evicted", end),
        }
    }

    fn lives(&self) -> impl Iterator<Item = &'a Life> {
        let n = self.n;
        self.message
            .lives
            .iter()
            .filter(move |l| l.entered.seq <= n)
    }

    fn end_of(&self, life: &'a Life) -> Option<&'a LifeEnd> {
        life.left.as_ref().filter(|l| self.happened(l.by))
    }

    /// The calls of a stay: from its iteration up to, but without, this one.
    fn until(&self, life: &'a Life) -> Iteration {
        self.end_of(life).map_or(self.next, |l| l.by.iteration)
    }

    fn calls(&self, life: &'a Life) -> u64 {
        self.until(life).0.saturating_sub(life.entered.iteration.0)
    }

    fn stays(&self) -> Vec<Stay> {
        self.lives().map(|life| self.stay(life)).collect()
    }

    fn stay(&self, life: &'a Life) -> Stay {
        let end = self.end_of(life);
        let until = end.map_or(self.n, |l| l.by.seq);
        let from = if planted(Bug::LivesAreCountedFromLogging) {
            self.message.logged
        } else {
            life.entered
        };
        let (wall_ms, clock) = match end {
            None => (None, "unknown"),
            Some(end) => wall(life.entered.at, end.by.at),
        };
        Stay {
            entered: life.entered.into(),
            left: end.map(|end| self.stay_end(end)),
            calls: self.calls(life),
            entries: until.0.saturating_sub(from.seq.0),
            wall_ms,
            clock,
        }
    }

    fn stay_end(&self, end: &LifeEnd) -> StayEnd {
        let visits = self.projection.visits();
        let visit = visits
            .binary_search_by_key(&end.by.seq, |v| v.fact.seq)
            .ok();
        let strategy = end
            .strategy
            .and_then(|s| self.projection.strategies().get(s))
            .cloned();
        StayEnd {
            by: end.by.into(),
            kind: kind_of(end),
            reason: end.reason,
            strategy,
            trigger: visit.and_then(|v| visits.get(v)).map(|v| v.trigger),
        }
    }

    fn seen(&self) -> Seen {
        let mut calls: u64 = 0;
        let (mut first, mut last) = (None, None);
        for life in self.lives() {
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

    fn forms(&self) -> Vec<FormOf> {
        let forms = self.message.forms.iter().filter(|f| self.happened(f.since));
        forms
            .map(|f| FormOf {
                seq: f.since.seq,
                iteration: f.since.iteration,
                reason: f.reason,
            })
            .collect()
    }

    fn refusals(&self, span: &RefusalSpan) -> Option<Refusals> {
        let visit = |ordinal: usize| self.projection.visit_of(span.strategy, ordinal);
        let first = visit(span.first).filter(|v| self.happened(v.fact))?;
        let ended = span.last.filter(|_| !planted(Bug::WhyNamesTheNewestVisit));
        let happened = self.projection.visits_until(span.strategy, self.n);
        let last = happened.checked_sub(1)?.min(ended.unwrap_or(usize::MAX));
        let count = last.saturating_sub(span.first).saturating_add(1);
        Some(Refusals {
            reason: span.reason,
            strategy: self
                .projection
                .strategies()
                .get(span.strategy)
                .cloned()
                .unwrap_or_default(),
            first: first.fact.into(),
            last: visit(last)?.fact.into(),
            visits: u64::try_from(count).unwrap_or(u64::MAX),
        })
    }

    fn restore(&self, status: &str, end: Option<&LifeEnd>, name: &str) -> Option<Vec<String>> {
        let target = match status {
            "evicted" => self.message.id.to_string(),
            // The real result is what comes back, and only if it is away.
            "covered" if end?.reason == LeftReason::Superseded => {
                let newer = end?.stand_in?;
                let there = self.projection.message(newer)?.visible_at(self.n);
                (!there).then(|| newer.to_string())?
            }
            "covered" => end?.by.seq.to_string(),
            _ => return None,
        };
        Some(
            ["ctxlog", "restore", &target, "-c", name]
                .map(str::to_owned)
                .to_vec(),
        )
    }
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
