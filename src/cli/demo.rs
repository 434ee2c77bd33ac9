//! `demo`: a sample conversation, replayed through a strategy, and what that did to it.
//!
//! Nothing in the story is written down here but where to look: which messages left, what refused,
//! what the model saw and missed are read from the log like anybody else's.

mod text;

use std::path::Path;

use serde::Serialize;

use ctxlog::audit::{self, Status, Why};
use ctxlog::engine::{Conversation, Store};
use ctxlog::formats::{Transcript, input, openai_chat};
use ctxlog::log::{
    Author, Body, GroupReason, Iteration, Message, MessageId, Role, Seq, VisitOutcome, Visited,
};
use ctxlog::window::{MessageState, Projection, Window, estimate};
use ctxlog::{Error, strategy};

use super::Context;
use super::errors::Failure;
use super::stores;

/// A support agent of an outdoor shop, as OpenAI Chat messages.
const SAMPLE: &str = include_str!("demo.json");
/// What the sample is called in the store.
const NAME: &str = "demo/support-4411";
/// What it is replayed through.
const SPEC: &str = "token-budget:limit=8000,keep=6";
/// The detail of the lost result that a later answer would have needed.
const DETAIL: &str = "0917";
/// What that answer says instead.
const CLAIM: &str = "Visa card ending 2208";

/// Writes the sample, unless it is there, and tells its story.
pub fn run(cx: &mut Context) -> Result<u8, Failure> {
    let store = stores::created(cx)?;
    let name = cx.conversation.as_deref().unwrap_or(NAME);
    let mut tale = tell(&store, name)?;
    tale.next = next(cx, &store, &tale)?;
    if cx.json {
        cx.out.json(&tale)?;
        return Ok(0);
    }
    for line in text::lines(&tale, cx.look) {
        cx.out.line(&line)?;
    }
    Ok(0)
}

/// The story, as `--json` gives it.
#[derive(Serialize)]
struct Tale {
    schema: &'static str,
    conversation: String,
    strategy: &'static str,
    /// Entries written now.
    added: u64,
    status: Status,
    visits: Vec<Visit>,
    lost: Option<Lost>,
    /// Commands to try next.
    next: Vec<Vec<String>>,
}

/// What a visit did and what refused.
#[derive(Serialize)]
struct Visit {
    seq: Seq,
    iteration: Iteration,
    outcome: VisitOutcome,
    before: u64,
    after: u64,
    limit: u64,
    method: String,
    left: usize,
    refused: Vec<Refused>,
    /// The visit whose other refusals still hold.
    unchanged_since: Option<Seq>,
}

/// Messages that may not leave for one reason.
#[derive(Serialize)]
struct Refused {
    reason: GroupReason,
    sentence: &'static str,
    #[serde(serialize_with = "names")]
    messages: Vec<MessageId>,
}

/// The largest tool result that left.
#[derive(Serialize)]
struct Lost {
    what: Line,
    why: Why,
    /// The visit that let it go.
    visit: Visit,
    change: Change,
    mattered: Option<Mattered>,
}

/// A message in a few words.
#[derive(Serialize)]
struct Line {
    #[serde(serialize_with = "name")]
    message: MessageId,
    author: Author,
    tokens: u64,
    words: String,
}

/// What changed from the window of one call to that of the next.
#[derive(Serialize)]
struct Change {
    from: Side,
    to: Side,
    gone: Vec<Line>,
    new: Vec<Line>,
}

/// The window of a call.
#[derive(Serialize)]
struct Side {
    iteration: Iteration,
    messages: usize,
    digest: String,
}

/// The answer that would have needed what was lost.
#[derive(Serialize)]
struct Mattered {
    iteration: Iteration,
    question: Option<Line>,
    answer: Line,
    /// What the lost result says about it.
    known: String,
    detail: &'static str,
    /// The first later call that saw the detail again, and in which message.
    seen_again: Option<Again>,
}

/// A call and the message that it saw something in.
#[derive(Serialize)]
struct Again {
    iteration: Iteration,
    #[serde(serialize_with = "name")]
    message: MessageId,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn name<S: serde::Serializer>(id: &MessageId, s: S) -> Result<S::Ok, S::Error> {
    s.collect_str(id)
}

fn names<S: serde::Serializer>(ids: &[MessageId], s: S) -> Result<S::Ok, S::Error> {
    s.collect_seq(ids.iter().map(ToString::to_string))
}

fn sample() -> Transcript {
    let pieces = input::pieces(SAMPLE.as_bytes(), "demo.json", input::RECORD_LIMIT);
    let read = openai_chat::read(pieces.filter_map(Result::ok));
    read.into_iter().next().unwrap_or_default()
}

fn tell(store: &Store, name: &str) -> Result<Tale, Failure> {
    let chain = vec![strategy::parse(SPEC)?];
    let imported = store.import(name, &sample(), chain, &mut |_| {})?;
    let chat = store.existing(name)?;
    let teller = Teller { chat: &chat };
    Ok(Tale {
        schema: "ctxlog.demo/1",
        conversation: chat.name().to_owned(),
        strategy: SPEC,
        added: imported.added,
        status: audit::status(&chat)?,
        visits: teller.visits()?,
        lost: teller.lost()?,
        next: Vec::new(),
    })
}

struct Teller<'a> {
    chat: &'a Conversation,
}

impl Teller<'_> {
    fn visits(&self) -> Result<Vec<Visit>, Error> {
        let visits = self.chat.with_projection(|p| {
            let facts = p.visits().iter().map(|v| v.fact.seq);
            facts.collect::<Vec<_>>()
        })?;
        let told = visits.into_iter().map(|seq| self.visit(seq));
        told.filter_map(Result::transpose).collect()
    }

    fn visit(&self, seq: Seq) -> Result<Option<Visit>, Error> {
        let entry = self.chat.entry(seq)?;
        let Body::Visited(visited) = entry.body else {
            return Ok(None);
        };
        self.chat
            .with_projection(|p| Some(visit(p, seq, entry.iteration, *visited)))
    }

    /// The largest tool result that a strategy let go.
    fn lost(&self) -> Result<Option<Lost>, Error> {
        let found = self.chat.with_projection(|p| {
            let gone = p.messages().iter().filter_map(|m| {
                let end = m.lives.first()?.left.as_ref()?;
                let tool = m.author() == Author::Tool && end.strategy.is_some();
                tool.then_some((tokens(m), m.id, end.by))
            });
            gone.max_by_key(|(size, id, _)| (*size, *id))
        })?;
        let Some((_, id, end)) = found else {
            return Ok(None);
        };
        let Some(visit) = self.visit(end.seq)? else {
            return Ok(None);
        };
        Ok(Some(Lost {
            what: self.line(id)?,
            why: self.chat.why(id)?,
            visit,
            change: self.change(end.iteration)?,
            mattered: self.mattered(id, end.seq)?,
        }))
    }

    /// What the window of a call has more and less than that of the call before.
    fn change(&self, to: Iteration) -> Result<Change, Error> {
        let from = Iteration(to.0.saturating_sub(1));
        let (before, after) = (self.chat.window_at(from)?, self.chat.window_at(to)?);
        let only = |a: &Window, b: &Window| {
            let ids = a.items.iter().map(|i| i.id).filter(|id| !b.contains(*id));
            ids.map(|id| self.line(id)).collect::<Result<Vec<_>, _>>()
        };
        Ok(Change {
            gone: only(&before, &after)?,
            new: only(&after, &before)?,
            from: side(from, &before),
            to: side(to, &after),
        })
    }

    /// The first answer after the loss that claims what the lost result contradicts.
    fn mattered(&self, lost: MessageId, left: Seq) -> Result<Option<Mattered>, Error> {
        let known = self.message(lost)?.words();
        let (mut question, mut answer, mut seen_again) = (None, None, None);
        for (id, author, iteration) in self.later(left)? {
            let words = self.message(id)?.words();
            match author {
                Author::Person if answer.is_none() => question = Some(id),
                Author::Model if answer.is_none() && words.contains(CLAIM) => {
                    answer = Some((id, Iteration(iteration.0.saturating_sub(1))));
                }
                _ => {}
            }
            if seen_again.is_none() && words.contains(DETAIL) {
                let message = id;
                seen_again = Some(Again { iteration, message });
            }
        }
        let Some((answer, iteration)) = answer else {
            return Ok(None);
        };
        Ok(Some(Mattered {
            iteration,
            question: question.map(|id| self.line(id)).transpose()?,
            answer: self.line(answer)?,
            known: around(&known, DETAIL),
            detail: DETAIL,
            seen_again,
        }))
    }

    /// The messages logged after an entry.
    fn later(&self, than: Seq) -> Result<Vec<(MessageId, Author, Iteration)>, Error> {
        self.chat.with_projection(|p| {
            let later = p.messages().iter().filter(|m| m.id.seq() > than);
            later
                .map(|m| (m.id, m.author(), m.logged.iteration))
                .collect()
        })
    }

    fn message(&self, id: MessageId) -> Result<Message, Error> {
        let head = self.chat.head()?.map_or(Seq(0), |h| h.seq);
        let content = self.chat.message_at(id, head)?;
        Ok(content.into_message(Role::User, Author::Engine))
    }

    fn line(&self, id: MessageId) -> Result<Line, Error> {
        let words = self.message(id)?.words();
        let known = self.chat.with_projection(|p| {
            let message = p.message(id)?;
            Some((message.author(), tokens(message)))
        })?;
        let (author, tokens) = known.unwrap_or((Author::Engine, 0));
        Ok(Line {
            message: id,
            author,
            tokens,
            words,
        })
    }
}

fn tokens(message: &MessageState) -> u64 {
    message.skeleton().map_or(0, |s| {
        s.tokens.as_ref().map_or_else(|| estimate(s), |c| c.amount)
    })
}

fn side(iteration: Iteration, window: &Window) -> Side {
    Side {
        iteration,
        messages: window.items.len(),
        digest: window.digest.to_string(),
    }
}

fn visit(p: &Projection, seq: Seq, iteration: Iteration, visited: Visited) -> Visit {
    let refused = visited.refused.iter().map(|r| Refused {
        reason: r.reason,
        sentence: r.reason.sentence(),
        messages: p.ids_in(&r.messages),
    });
    let left = visited.change.left.iter();
    Visit {
        seq,
        iteration,
        outcome: visited.outcome,
        before: visited.before.amount,
        after: visited.after.amount,
        limit: visited.limit,
        left: left
            .map(|l| p.ids_in(&l.messages).len())
            .fold(0, usize::saturating_add),
        refused: refused.collect(),
        unchanged_since: visited.unchanged_since,
        method: visited.before.method.into_owned(),
    }
}

/// The JSON object around a detail: from the order it belongs to up to the order's terms.
fn around(text: &str, detail: &str) -> String {
    let Some((before, after)) = text.split_once(detail) else {
        return String::new();
    };
    let begin = before.rfind("{\"order\"").unwrap_or(0);
    let end = after.find("{\"order\"").unwrap_or(after.len());
    let (before, after) = (before.get(begin..), after.get(..end));
    let object = format!("{}{detail}{}", before.unwrap_or(""), after.unwrap_or(""));
    object.trim_end_matches(['\n', ',']).to_owned()
}

/// Three commands that work as they stand here.
fn next(cx: &Context, store: &Store, tale: &Tale) -> Result<Vec<Vec<String>>, Failure> {
    let lost = tale.lost.as_ref();
    let message = lost.map_or_else(|| "m3".to_owned(), |l| l.what.message.to_string());
    let mattered = lost.and_then(|l| l.mattered.as_ref());
    let at = mattered.map_or(Iteration(1), |m| m.iteration).to_string();
    let restore = match lost.map(|l| l.why.restore.is_some()) {
        Some(true) => vec!["restore", &message],
        _ => vec!["verify"],
    };
    let commands = [
        vec!["why", &message],
        vec!["window", "--at", &at, "--format", "openai-chat"],
        restore,
    ];
    let mut common = vec![program()];
    if !is_default(&cx.store) {
        common.extend(["--store".to_owned(), cx.store.display().to_string()]);
    }
    let mut name = Vec::new();
    if store.list()?.len() > 1 {
        name = vec!["-c".to_owned(), tale.conversation.clone()];
    }
    let whole = commands.map(|words| {
        let words = words.into_iter().map(str::to_owned);
        let argv = common.iter().cloned().chain(words);
        argv.chain(name.iter().cloned()).collect()
    });
    Ok(whole.into())
}

/// What this program was started as, where that is a path; else its name.
fn program() -> String {
    let started = std::env::args().next().unwrap_or_default();
    if started.contains(std::path::MAIN_SEPARATOR) {
        started
    } else {
        "ctxlog".to_owned()
    }
}

/// Whether commands find this store without being told.
fn is_default(store: &Path) -> bool {
    let default = std::env::var_os("CTXLOG_STORE").unwrap_or_else(|| ".ctxlog".into());
    store == Path::new(&default)
}

#[cfg(test)]
mod tests;
