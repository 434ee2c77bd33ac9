//! `status`: the window now by category, and what happened to the rest.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::engine::{Conversation, Error};
use crate::log::{Author, Head, Iteration, Role, Skeleton};
use crate::window::{Measure, MessageState, Projection};

/// A share of the window.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Category {
    /// `system`, `person`, `model`, `tool`, `summary` or `application`.
    pub name: &'static str,
    /// Messages.
    pub messages: u64,
    /// Tokens by the status's method.
    pub tokens: u64,
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
    /// Refusals listed, by reason.
    pub refusals: BTreeMap<String, u64>,
    /// Of stays that ended: the shortest, the median and the longest, in calls that saw them.
    pub lifetimes: Option<(u64, u64, u64)>,
    /// Messages in the window after each call: how it grew.
    pub growth: Vec<u64>,
    /// The newest change of the window: the entry.
    pub last_change: Option<crate::log::Seq>,
}

/// Looks at a conversation.
///
/// # Errors
/// When the log has to be read again and cannot.
pub fn status(chat: &Conversation) -> Result<Status, Error> {
    let head = chat.head()?;
    chat.with_projection(|p| Status {
        conversation: chat.name().to_owned(),
        head,
        ..of_projection(p)
    })
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
        iteration: Iteration(count(p.sent().len())),
        strategies: p.chain().to_vec(),
        limit: token_limit(p.chain()),
        tokens: tokens.as_ref().map_or(0, |t| t.total),
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
        refusals: refusals(p),
        lifetimes: lifetimes(p),
        growth: p.sent().iter().map(|s| s.messages).collect(),
        last_change: absent().filter_map(|m| m.absent()).map(|a| a.by.seq).max(),
    }
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// What a message counts as in the picture of a window.
#[must_use]
fn category(p: &Projection, message: &MessageState) -> &'static str {
    if p.in_envelope(message) {
        return "system";
    }
    if message.stands_for.is_some() {
        return "summary";
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

fn token_limit(chain: &[String]) -> Option<u64> {
    let limits = chain
        .iter()
        .filter(|spec| spec.starts_with("token-budget:"));
    limits
        .filter_map(|spec| spec.split_once("limit=")?.1.split(',').next()?.parse().ok())
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
