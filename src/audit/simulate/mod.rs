//! `simulate`: what other strategies would have done to a recorded conversation.
//!
//! The log is told again as an importer's steps, and each alternative imports them into a memory of its
//! own: the replay is the engine's, and nothing is written to the store that is asked about. Second
//! orders are included (windows, notices, claims, what comes back); what the model would have answered
//! to another window is not, since nobody asks it.

mod measured;
mod quotes;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use self::quotes::Quotes;
use crate::engine::{CommandSummarizer, Conversation, Error, Retold, Store};
use crate::log::{Iteration, LeftReason, MessageId, Seq};
use crate::strategy::Strategy;
use crate::window::ESTIMATE;

/// The name of a replay in its memory.
const NAME: &str = "simulated";
/// What the conversation's own history is called.
const RECORDED: &str = "as recorded";

/// An alternative that is asked about.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    /// Its strategies, in order.
    pub strategies: Vec<Arc<dyn Strategy>>,
    /// Who writes its summaries. Without, none are made, and it is counted how often one was due.
    pub summarizer: Option<CommandSummarizer>,
}

/// The answer: alternatives side by side, the conversation's own history first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Simulated {
    /// `ctxlog.simulate/1`.
    pub schema: &'static str,
    /// The conversation's name.
    pub conversation: String,
    /// The newest entry that was replayed.
    pub at: Seq,
    /// Messages that were replayed.
    pub messages: u64,
    /// Model calls that were replayed.
    pub calls: u64,
    /// How tokens are counted, in every column. Strategies measure in their own way.
    pub method: &'static str,
    /// What a replay cannot say or did not apply.
    pub left_out: LeftOut,
    /// Quotes that were looked for, in any window.
    pub quotes: QuotesFound,
    /// The columns.
    pub alternatives: Vec<Alternative>,
}

/// What of the log no replay holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct LeftOut {
    /// Edits by hand (restored, pinned, cleared, replaced): noted, not applied.
    pub edits: u64,
    /// Usage that was reported later than the next call.
    pub late_usage: u64,
    /// Usage of calls that were sent less than all there was: it measures no other window.
    pub own_usage: u64,
    /// Messages whose words are redacted.
    pub redacted: u64,
    /// Entries of a kind that is not known here.
    pub unknown: u64,
}

/// How quotes were found. A text match is no proof that the model read it there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct QuotesFound {
    /// `text match, not proof`.
    pub label: &'static str,
    /// Model messages with a text that exactly one earlier message holds, counted once for each pair.
    pub found: u64,
    /// One in so many runs of words was held: 1 is all of them.
    pub sampled: u64,
}

/// One column.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Alternative {
    /// `as recorded`, or its strategies.
    pub name: String,
    /// Its strategies with their parameters resolved.
    pub strategies: Vec<String>,
    /// Tokens of each call's window, request settings included.
    pub tokens: Vec<u64>,
    /// The most of them.
    pub peak: u64,
    /// Their median.
    pub median: u64,
    /// Calls that were sent although a strategy's limit was exceeded still, by what its visit came to, or
    /// because a summary was due and nobody was asked.
    pub over_budget: u64,
    /// Visits of strategies.
    pub visits: u64,
    /// Messages that visits refused to let go, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Visits after which a prompt cache had to read a part of the window again.
    pub rereads: u64,
    /// Tokens that were to be read again, from the first changed item on.
    pub reread: u64,
    /// Summaries that stand for messages.
    pub summaries: u64,
    /// Calls at which a summary was due and nobody was asked; of the conversation's own history no entry
    /// says.
    pub summaries_due: Option<u64>,
    /// Attempts at a summary that came to nothing.
    pub summaries_failed: u64,
    /// The median of how many calls saw a message before it left.
    pub lifetime: Option<u64>,
    /// What left, or got another content, in order.
    pub changes: Vec<Changed>,
    /// Texts that a later answer quotes and that its call's window did not hold.
    pub out_of_sight: Vec<OutOfSight>,
    /// The story of each message, by its id in the conversation: of each piece, where an alternative
    /// splits it because it answers calls of which some had left. A piece that an alternative does not
    /// split off has none.
    #[serde(skip)]
    pub stories: BTreeMap<MessageId, Vec<Story>>,
}

impl Alternative {
    /// How often a message of the conversation left its window.
    #[must_use]
    pub fn departures(&self) -> u64 {
        let left = self.changes.iter().filter(|c| c.how != How::Form);
        u64::try_from(left.count()).unwrap_or(u64::MAX)
    }
}

/// How a message changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// It left, and nothing stands for it.
    Left,
    /// It left, and a summary or newer result stands for it.
    Covered,
    /// It stays with another content.
    Form,
}

/// A change of one message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Changed {
    /// The message, as the conversation calls it.
    #[serde(serialize_with = "named")]
    pub message: MessageId,
    /// The first call that could see the change.
    pub iteration: Iteration,
    /// How.
    pub how: How,
    /// Why.
    pub reason: LeftReason,
}

/// What became of a message: its stays and its contents, by the calls that can see them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Story {
    /// From which call on it was there, and from which on not any more.
    pub stays: Vec<(Iteration, Option<(Iteration, LeftReason)>)>,
    /// From which call on it had another content, and why.
    pub forms: Vec<(Iteration, LeftReason)>,
}

/// A text that an answer quotes, which its call's window did not hold: a text match, not proof.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct OutOfSight {
    /// The answer.
    #[serde(serialize_with = "named")]
    pub answer: MessageId,
    /// The call it came from.
    pub iteration: Iteration,
    /// The message that holds the text.
    #[serde(serialize_with = "named")]
    pub message: MessageId,
    /// The text, or its beginning.
    pub text: String,
}

/// Replays a conversation through other chains of strategies. `progress` hears how many of how many
/// steps are done.
///
/// The words of the conversation are held once, and those of one replay at a time.
///
/// # Errors
/// When the log cannot be read; `invalid-option` when a chain is not possible.
pub fn simulate(
    chat: &Conversation,
    alternatives: &[Chain],
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Simulated, Error> {
    let told = chat.retell()?;
    let quotes = quotes::quotes(&told.transcript);
    let own = told.messages.iter().flatten().map(|seq| (*seq, *seq));
    let own = measured::Names::new(own.collect(), &told);
    let mut columns = vec![measured::column(chat, RECORDED, &own, &quotes)?];
    let steps = told.transcript.steps.len();
    for (n, chain) in alternatives.iter().enumerate() {
        let before = n.saturating_mul(steps);
        let total = count(alternatives.len().saturating_mul(steps));
        let mut done = |step: usize| progress(count(before.saturating_add(step)), total);
        columns.push(replayed(&told, chain, &quotes, &mut done)?);
    }
    let calls = columns.first().map_or(0, |c| c.tokens.len());
    Ok(Simulated {
        schema: "ctxlog.simulate/1",
        conversation: chat.name().to_owned(),
        at: chat.head()?.map_or(Seq(0), |h| h.seq),
        messages: count(told.messages.len()),
        calls: count(calls),
        method: ESTIMATE,
        left_out: LeftOut {
            edits: told.edits,
            late_usage: told.late_usage,
            own_usage: told.own_usage,
            redacted: count(told.redacted.len()),
            unknown: told.unknown,
        },
        quotes: QuotesFound {
            label: "text match, not proof",
            found: count(quotes.found.len()),
            sampled: quotes.sampled,
        },
        alternatives: columns,
    })
}

/// Imports the steps through a chain into a memory of its own.
fn replayed(
    told: &Retold,
    chain: &Chain,
    quotes: &Quotes,
    done: &mut dyn FnMut(usize),
) -> Result<Alternative, Error> {
    let mut store = Store::in_memory();
    if let Some(summarizer) = &chain.summarizer {
        store = store.with_summarizer(summarizer.clone());
    }
    let strategies = chain.strategies.clone();
    let imported = store.import(NAME, &told.transcript, strategies, done)?;
    let chat = store.existing(NAME)?;
    let specs: Vec<String> = chain.strategies.iter().map(|s| s.spec()).collect();
    let names = measured::Names::of_replay(&chat, told)?;
    let mut column = measured::column(&chat, &specs.join(" + "), &names, quotes)?;
    column.summaries_due = Some(count(imported.due.len()));
    column.over_budget = chat.with_projection(|p| measured::over_budget(p, &imported.due))?;
    Ok(column)
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
fn named<S: serde::Serializer>(id: &MessageId, s: S) -> Result<S::Ok, S::Error> {
    s.collect_str(id)
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}
