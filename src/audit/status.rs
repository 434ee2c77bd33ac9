//! `status`: the window now by category, and what happened to the rest.

use std::collections::BTreeMap;

use serde::Serialize;

use super::accuracy::{Accuracy, accuracy};
use crate::engine::{Conversation, Error};
use crate::log::{
    Attempt, AttemptOutcome, Author, Body, ForkPoint, Head, Iteration, Reading, Role, Seq,
    Skeleton, VisitOutcome,
};
use crate::strategy::{option, parse};
use crate::window::{Measure, MessageState, Projection, overhead};

/// A share of the window.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Category {
    /// `system`, `person`, `model`, `tool`, `summary`, `notice` or `application`.
    pub name: &'static str,
    /// Messages.
    pub messages: u64,
    /// Tokens by the status's method.
    pub tokens: u64,
}

/// What a strategy's newest visit measured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Pressure {
    /// The strategy.
    pub strategy: String,
    /// The visit.
    pub seq: Seq,
    /// Its iteration.
    pub iteration: Iteration,
    /// The measure before.
    pub before: Reading,
    /// The measure after.
    pub after: Reading,
    /// The limit, in the same unit.
    pub limit: u64,
    /// By how much the measure was over the limit before.
    pub overflow: u64,
    /// How the visit ended.
    pub outcome: VisitOutcome,
    /// The place of the first item that it changed.
    pub first_changed: Option<Seq>,
    /// What that cost a prompt cache.
    pub invalidated: Option<Reading>,
}

/// A conversation at a glance.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Status {
    /// `ctxlog.status/1`.
    pub schema: &'static str,
    /// The conversation's name.
    pub conversation: String,
    /// The head.
    pub head: Option<Head>,
    /// Of a fork: the conversation it left, and the last entry that both share.
    pub fork: Option<ForkPoint>,
    /// The newest call; 0 before the first.
    pub iteration: Iteration,
    /// The strategies in force.
    pub strategies: Vec<String>,
    /// The smallest token limit among them.
    pub limit: Option<u64>,
    /// Tokens in the window.
    pub tokens: u64,
    /// How they were counted.
    pub method: String,
    /// Of those, what the request settings take: tool schemas, parameters.
    pub overhead: u64,
    /// Parts of the window that are not counted: pictures, sound, files.
    pub uncounted: u64,
    /// How near each method came to what was reported.
    pub accuracy: Vec<Accuracy>,
    /// Messages in the window.
    pub messages: u64,
    /// The window by category.
    pub categories: Vec<Category>,
    /// Messages ever logged.
    pub logged: u64,
    /// Messages that are gone.
    pub gone: u64,
    /// Messages that something stands for.
    pub covered: u64,
    /// Visits.
    pub visits: u64,
    /// What visits cost a prompt cache so far: a reading of each method.
    pub invalidated: Vec<Reading>,
    /// What the newest visit of each strategy in force measured against its limit.
    pub pressure: Vec<Pressure>,
    /// Refusals listed, by reason.
    pub refusals: BTreeMap<String, u64>,
    /// Of stays that ended: the shortest, the median and the longest, in calls that saw them.
    pub lifetimes: Option<(u64, u64, u64)>,
    /// Messages in the window after each call: how it grew.
    pub growth: Vec<u64>,
    /// The newest change of the window: the entry.
    pub last_change: Option<Seq>,
    /// What summaries took; absent where nobody was asked for one.
    pub summaries: Option<Summaries>,
}

/// What summaries took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Summaries {
    /// Questions to summarisers.
    pub attempts: u64,
    /// Those that came to a summary.
    pub ok: u64,
    /// Those whose cost was not reported.
    pub unreported: u64,
    /// Input tokens reported, cached ones included.
    pub input: u64,
    /// Output tokens reported.
    pub output: u64,
}

impl Summaries {
    fn add(&mut self, attempt: &Attempt) {
        if attempt.outcome == AttemptOutcome::Skipped {
            return; // nobody was asked
        }
        let more = |n: &mut u64, by: u64| *n = n.saturating_add(by);
        more(&mut self.attempts, 1);
        more(
            &mut self.ok,
            u64::from(attempt.outcome == AttemptOutcome::Ok),
        );
        more(&mut self.unreported, u64::from(attempt.usage.is_none()));
        let usage = attempt.usage.unwrap_or_default();
        more(&mut self.input, usage.total_input().unwrap_or(0));
        more(&mut self.output, usage.output.unwrap_or(0));
    }
}

/// Looks at a conversation.
///
/// # Errors
/// When the log has to be read again and cannot.
pub fn status(chat: &Conversation) -> Result<Status, Error> {
    let head = chat.head()?;
    let (status, newest) = chat.with_projection(|p| (of_projection(p), newest_visits(p)))?;
    let accuracy = accuracy(chat)?;
    let pressure = newest.into_iter().map(|seq| pressure(chat, seq));
    let pressure = pressure.collect::<Result<Vec<_>, _>>()?;
    Ok(Status {
        summaries: summaries(chat)?,
        conversation: chat.name().to_owned(),
        head,
        fork: chat.forked()?,
        accuracy,
        pressure: pressure.into_iter().flatten().collect(),
        ..status
    })
}

/// What all summaries took, from the visits that asked for some.
fn summaries(chat: &Conversation) -> Result<Option<Summaries>, Error> {
    let asked: Vec<Seq> = chat.with_projection(|p| {
        let visits = p.visits().iter().filter(|v| v.attempted);
        visits.map(|v| v.fact.seq).collect()
    })?;
    let mut all = Summaries::default();
    for seq in asked {
        let entry = chat.entry(seq)?;
        let attempts = entry.body.visit().map(|v| v.attempts.as_slice());
        attempts.unwrap_or_default().iter().for_each(|a| all.add(a));
    }
    Ok((all.attempts > 0).then_some(all))
}

/// The newest visit of each strategy of the chain that ever visited.
fn newest_visits(p: &Projection) -> Vec<Seq> {
    let chain = p.chain().iter();
    let strategies = chain.filter_map(|spec| p.strategy_named(spec));
    let visits = strategies.filter_map(|s| p.newest_visit(s));
    visits.map(|v| v.fact.seq).collect()
}

fn pressure(chat: &Conversation, seq: Seq) -> Result<Option<Pressure>, Error> {
    let entry = chat.entry(seq)?;
    let Body::Visited(visit) = entry.body else {
        return Ok(None);
    };
    Ok(Some(Pressure {
        strategy: visit.strategy,
        seq,
        iteration: entry.iteration,
        overflow: visit.before.amount.saturating_sub(visit.limit),
        before: visit.before,
        after: visit.after,
        limit: visit.limit,
        outcome: visit.outcome,
        first_changed: visit.first_changed,
        invalidated: visit.invalidated,
    }))
}

fn of_projection(p: &Projection) -> Status {
    let window = p.window();
    let tokens = p.tokens(Measure::Tiktoken).ok();
    let sizes = tokens.as_ref().map_or(&[][..], |t| t.items.as_slice());
    let mut categories: BTreeMap<&'static str, (u64, u64)> = BTreeMap::new();
    for (item, size) in window.items.iter().zip(sizes) {
        let Some(message) = p.message(item.id) else {
            continue;
        };
        let slot = categories.entry(category(p, message)).or_default();
        *slot = (slot.0.saturating_add(1), slot.1.saturating_add(*size));
    }
    let absent = || p.messages().iter().filter(|m| !m.visible());
    let covered = absent()
        .filter(|m| m.absent().is_some_and(|a| a.stand_in.is_some()))
        .count();
    Status {
        schema: "ctxlog.status/1",
        conversation: String::new(),
        head: None,
        fork: None,
        iteration: Iteration(count(p.sent().len())),
        strategies: p.chain().to_vec(),
        limit: token_limit(p.chain()),
        tokens: tokens.as_ref().map_or(0, |t| t.total),
        uncounted: tokens.as_ref().map_or(0, |t| t.uncounted),
        overhead: tokens
            .as_ref()
            .map_or(0, |t| overhead(p.settings().map(|(_, s)| s), &t.method)),
        accuracy: Vec::new(),
        method: tokens.map(|t| t.method).unwrap_or_default(),
        messages: p.window_len(),
        categories: categories
            .into_iter()
            .map(|(name, (messages, tokens))| Category {
                name,
                messages,
                tokens,
            })
            .collect(),
        logged: count(p.messages().len()),
        gone: count(absent().count().saturating_sub(covered)),
        covered: count(covered),
        visits: count(p.visits().len()),
        invalidated: p.invalidated().to_vec(),
        pressure: Vec::new(),
        refusals: refusals(p),
        lifetimes: lifetimes(p),
        growth: p.sent().iter().map(|s| s.messages).collect(),
        summaries: None,
        last_change: absent().filter_map(|m| m.absent()).map(|a| a.by.seq).max(),
    }
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// What a message counts as in the picture of a window.
#[must_use]
pub(super) fn category(p: &Projection, message: &MessageState) -> &'static str {
    if p.in_envelope(message) {
        return "system";
    }
    if message.stands_for.is_some() {
        return "summary";
    }
    if message.notice {
        return "notice";
    }
    let tool = |s: &Skeleton| s.role == Role::Tool;
    match message.author() {
        Author::Person => "person",
        Author::Model => "model",
        Author::Tool => "tool",
        Author::Engine if message.skeleton().is_some_and(tool) => "tool",
        Author::Application | Author::Engine | Author::Strategy => "application",
    }
}

/// The least limit of the strategies that look at tokens.
pub(super) fn token_limit(chain: &[String]) -> Option<u64> {
    let by_tokens = |spec: &&String| parse(spec).is_ok_and(|s| s.measure().is_some());
    let limits = chain.iter().filter(by_tokens);
    limits
        .filter_map(|spec| option(spec, "limit")?.parse().ok())
        .min()
}

fn refusals(p: &Projection) -> BTreeMap<String, u64> {
    let mut out = BTreeMap::new();
    for span in p.messages().iter().flat_map(|m| &m.refusals) {
        let slot: &mut u64 = out.entry(span.reason.name().to_owned()).or_default();
        *slot = slot.saturating_add(1);
    }
    out
}

fn lifetimes(p: &Projection) -> Option<(u64, u64, u64)> {
    let last = Iteration(count(p.sent().len()));
    let ended = p
        .messages()
        .iter()
        .flat_map(|m| &m.lives)
        .filter(|l| l.left.is_some());
    let mut calls: Vec<u64> = ended.map(|l| l.calls(last)).collect();
    calls.sort_unstable();
    let median = *calls.get(calls.len() / 2)?;
    Some((*calls.first()?, median, *calls.last()?))
}
