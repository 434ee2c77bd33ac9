//! `context`: what the model saw when it wrote a message, and what it no longer saw.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde::Serialize;

use super::cause::Cause;
use super::select::Place;
use super::walk::{stays_out, walk};
use super::why::{Moment, never_logged, why};
use super::window::{Read, ShownWindow, window_of};
use crate::engine::{Conversation, Error};
use crate::log::{Appended, Body, Entry, Iteration, MessageId, Seq};
use crate::window::{Outline, is_message};

/// Entries before a call that are looked at for what had left, unless all are asked for.
pub const LOOK_BACK: u64 = 1 << 6;

/// Messages that a call no longer saw, by the entry that took them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Missing {
    /// The messages, in the order of the log.
    pub messages: Vec<Seq>,
    /// The entry.
    pub by: Cause,
}

/// What the model saw when it wrote a message.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Context {
    /// `ctxlog.context/1`.
    pub schema: &'static str,
    /// The message.
    pub message: String,
    /// The call that produced it; `None` where no call did.
    pub produced_by: Option<Moment>,
    /// The call that is told about: the one that produced it, else the first that saw it; `None`
    /// where none did.
    pub call: Option<Moment>,
    /// The model of that call.
    pub model: Option<String>,
    /// What that call was sent.
    pub window: Option<ShownWindow>,
    /// What had been logged by then and was not sent, newest cause last.
    pub missing: Vec<Missing>,
    /// The first entry that was looked at for it; what left before is not told.
    pub looked_from: Seq,
}

/// Answers for a message. Sizes are what the log says: counted where each message carries its count, else
/// estimated. With `whole` everything that had left is told, at the cost of reading the
/// log up to the call; else what left within the last [`LOOK_BACK`] entries before it.
///
/// # Errors
/// `nothing-matches` when it was never logged; when the log or its words are damaged.
pub fn context(chat: &Conversation, id: MessageId, whole: bool) -> Result<Context, Error> {
    let head = chat.head()?.map_or(Seq(0), |h| h.seq);
    if id.seq() > head {
        return Err(never_logged(chat, id));
    }
    let entry = chat.entry(id.seq())?;
    if !is_message(&entry.body) {
        return Err(never_logged(chat, id));
    }
    let produced = match &entry.body {
        Body::Appended(a) => a.produced_by,
        _ => None,
    };
    let back = if whole { u64::MAX } else { LOOK_BACK };
    let told = match produced {
        Some(call) => Some(Seen::by(chat, call, back)?),
        None => first_that_saw(chat, id, &entry, back)?,
    };
    let mut context = Context {
        schema: "ctxlog.context/1",
        message: id.to_string(),
        produced_by: None,
        call: None,
        model: None,
        window: None,
        missing: Vec::new(),
        looked_from: Seq(0),
    };
    let Some(seen) = told else {
        return Ok(context);
    };
    let call = seen.call;
    let called = chat.entry(call)?;
    let at = Moment {
        seq: call,
        iteration: called.iteration,
    };
    if let Body::Called(body) = called.body {
        context.model = body.model;
    }
    context.call = Some(at);
    context.produced_by = produced.map(|_| at);
    context.looked_from = seen.from;
    context.missing = seen.missing;
    let place = Place {
        seq: call,
        call: Some(at.iteration),
    };
    context.window = Some(window_of(chat, place, &seen.outline, Read::Words)?);
    Ok(context)
}

/// The first call whose window held a message that no call produced.
fn first_that_saw(
    chat: &Conversation,
    id: MessageId,
    entry: &Entry,
    back: u64,
) -> Result<Option<Seen>, Error> {
    if let Some(call) = chat.call_filed(entry.iteration)? {
        let seen = Seen::by(chat, call, back)?;
        if seen.outline.get(id).is_some() {
            return Ok(Some(seen));
        }
    }
    let head = chat.head()?.map_or(Seq(0), |h| h.seq);
    let first: Option<Iteration> = why(chat, id, head)?.seen_by.first_iteration;
    let call = match first {
        Some(first) => chat.call_filed(first)?,
        None => None,
    };
    call.map(|call| Seen::by(chat, call, back)).transpose()
}

/// What a call saw and what it no longer saw.
struct Seen {
    call: Seq,
    /// Its window.
    outline: Outline,
    /// The first entry that was looked at.
    from: Seq,
    /// What was in the window before that entry or came since, and is away.
    missing: Vec<Missing>,
}

impl Seen {
    /// Looks at so many entries before the call.
    fn by(chat: &Conversation, call: Seq, back: u64) -> Result<Self, Error> {
        let from = Seq(call.0.saturating_sub(back));
        let (missing, outline) = missing(chat, from.0.checked_sub(1).map(Seq), call)?;
        Ok(Self {
            call,
            outline,
            from,
            missing,
        })
    }
}

/// What is away after a call, of what was in the window after `from` or came since; and what is there.
fn missing(
    chat: &Conversation,
    from: Option<Seq>,
    call: Seq,
) -> Result<(Vec<Missing>, Outline), Error> {
    let outline = match from {
        Some(from) => chat.outline_after(from)?,
        None => Outline::default(),
    };
    let mut away: BTreeMap<MessageId, Cause> = BTreeMap::new();
    let outline = walk(chat, outline, call, &mut |entry, did, outline| {
        for id in &did.entered {
            away.remove(id);
        }
        for (id, cause) in &did.left {
            away.insert(*id, cause.clone());
        }
        if stays_out(entry, outline) {
            away.insert(MessageId(entry.seq), partners(entry, &away));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let mut by: BTreeMap<Cause, Vec<Seq>> = BTreeMap::new();
    for (id, cause) in away {
        by.entry(cause).or_default().push(id.seq());
    }
    let outline = if outline.at == Some(call) {
        outline
    } else {
        chat.outline_after(call)? // says what is missing
    };
    let missing = by
        .into_iter()
        .map(|(by, messages)| Missing { messages, by });
    Ok((missing.collect(), outline))
}

/// A message whose partner is away is so by the same entry.
fn partners(entry: &Entry, away: &BTreeMap<MessageId, Cause>) -> Cause {
    let cause = match &entry.body {
        Body::Appended(a) => ties(a).find_map(|seq| away.get(&MessageId(seq))).cloned(),
        _ => None,
    };
    cause.unwrap_or_else(|| Cause::of(entry))
}

fn ties(a: &Appended) -> impl Iterator<Item = Seq> + '_ {
    let answers = a.skeleton.parts.iter().filter_map(|p| p.answers);
    answers.map(|(seq, _)| seq).chain(a.continues)
}
