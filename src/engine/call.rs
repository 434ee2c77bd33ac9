//! Calling: strategies visit, then the call is filed, in one batch.

use crate::log::{
    Author, Body, Called, Hash, Iteration, Key, Message, Micros, OpenCalls, Part, PartBody,
    Provenance, RequestReason, Role, Seq, Shape, Trigger,
};
use crate::strategy::{Outlook, visit};
use crate::window::{CallInfo, Window};

use super::append::{Options, append_one};
use super::content::LoadedWindow;
use super::conversation::{Conversation, State, Work, counts};
use super::error::Error;
use super::stage::{Meta, Stage};

/// What a closed call's synthetic result says.
pub(super) const INTERRUPTED: &str = "[interrupted: no result was recorded for this call]";

/// A filed model call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// The `called` entry.
    pub id: Seq,
    /// Its number among the calls.
    pub iteration: Iteration,
    /// The window to send.
    pub window: Window,
    /// The visits filed with it.
    pub visits: Vec<Seq>,
    /// The synthetic results filed with it.
    pub closed: Vec<Seq>,
    /// Whether the idempotency key had been seen, so that nothing was written now.
    pub repeated: bool,
}

/// A call that is about to be filed.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub model: Option<String>,
    pub policy: OpenCalls,
    pub visits: bool,
    /// How visits are known.
    pub provenance: Provenance,
}

impl Conversation {
    /// Takes the window to send: open calls are closed (or refused), every strategy visits, and
    /// the call is filed.
    ///
    /// # Errors
    /// Refused as `open-calls` where that is configured, and as `policy-conflict` when a configured
    /// strategy is not known here.
    pub fn call(&self) -> Result<Call, Error> {
        self.call_with(&Options::default(), None)
    }

    /// Takes the window to send, with options and the model's name.
    ///
    /// # Errors
    /// As [`Conversation::call`].
    pub fn call_with(&self, options: &Options, model: Option<&str>) -> Result<Call, Error> {
        let mut state = self.lock()?;
        if let Some(call) = repeated_call(&state, options)? {
            return Ok(call);
        }
        self.accepts(&state, options)?;
        self.supply_counts(&mut state)?;
        let draft = Draft {
            model: model.map(str::to_owned),
            policy: state.projection.open_calls_policy(),
            visits: true,
            provenance: options.provenance.unwrap_or(Provenance::Recorded),
        };
        let mut filed = self.file(&mut state, |stage, work| {
            file_call(stage, work, &draft, &self.meta(options, None), None)
        })?;
        filed.window = state.projection.window();
        Ok(filed)
    }

    fn accepts(&self, state: &State, options: &Options) -> Result<(), Error> {
        if let (Some(expected), Some(head)) = (options.expected, state.head)
            && expected != head.seq
        {
            let detail = format!("the call expects {expected}; the head is {}", head.seq);
            return Err(Error::refused(RequestReason::StaleHead, detail));
        }
        if state.chain.len() != state.projection.chain().len() {
            let detail = format!(
                "'{}' is configured with [{}]; not all of them are known here",
                self.name(),
                state.projection.chain().join("; ")
            );
            return Err(Error::refused(RequestReason::PolicyConflict, detail));
        }
        Ok(())
    }

    /// Counts the tokens of messages that were logged before any strategy looked at tokens.
    pub(super) fn supply_counts(&self, state: &mut State) -> Result<(), Error> {
        if !state.chain.iter().any(|s| counts(s.as_ref())) {
            return Ok(());
        }
        let uncounted: Vec<_> = state.projection.uncounted().collect();
        for (id, form) in uncounted {
            let content = self.content_with(form.0, form.1, &state.secret)?;
            let words = content.into_message(Role::User, Author::Engine).words();
            if let Some(count) = crate::tokens::count(&words) {
                state.projection.supply_count(id, count);
            }
        }
        Ok(())
    }

    /// The window of a filed call with its words.
    ///
    /// # Errors
    /// When words are damaged or lost.
    pub fn loaded(&self, call: &Call) -> Result<LoadedWindow, Error> {
        self.load(call.window.clone())
    }
}

/// What a call's key wrote before: the call, its visits and synthetic results.
fn repeated_call(state: &State, options: &Options) -> Result<Option<Call>, Error> {
    let Some(key) = &options.key else {
        return Ok(None);
    };
    let Some((first, entries)) = state.projection.by_key(key) else {
        return Ok(None);
    };
    let last = Seq(first.0.saturating_add(u64::from(entries).saturating_sub(1)));
    let sent = state.projection.sent().iter().find(|s| s.fact.seq == last);
    let Some(sent) = sent else {
        let detail = format!("the key '{key}' wrote {first}, which is no call");
        return Err(Error::refused(RequestReason::IdempotencyConflict, detail));
    };
    let visits = state.projection.visits().iter().map(|v| v.fact.seq);
    Ok(Some(Call {
        id: last,
        iteration: sent.fact.iteration,
        window: state.projection.window_at(last),
        visits: visits.filter(|s| first <= *s && *s < last).collect(),
        closed: Vec::new(),
        repeated: true,
    }))
}

/// Closes open calls, lets every strategy visit, files the call.
/// A key in `meta` goes on the first entry filed; `call_key` goes on the call itself.
pub(super) fn file_call(
    stage: &mut Stage<'_>,
    work: &Work<'_>,
    draft: &Draft,
    meta: &Meta,
    call_key: Option<Key>,
) -> Result<Call, Error> {
    let key = meta.key.clone();
    let meta = Meta {
        key: None,
        ..meta.clone()
    };
    // The key goes on the request's first entry, which is only known once all are drafted: count
    // them on a copy where there is a key (live calls), file them at once where there is none.
    let entries = match &key {
        None => 1,
        Some(_) => count_entries(stage, work, draft)?,
    };
    let mut keys = key.map(|k| Key { entries, ..k }).into_iter();
    let closed = close_open_calls(stage, work, draft, &meta, &mut keys)?;
    let visits = file_visits(stage, work, draft, &meta, &mut keys)?;
    let called = Called {
        window: stage.state.digest(),
        messages: stage.state.window_len(),
        settings: stage
            .state
            .settings()
            .map_or(Hash::ZERO, |(_, s)| s.content.digest),
        model: draft.model.clone(),
        body: None,
    };
    let iteration = stage.iteration();
    let meta = Meta {
        key: call_key.or(keys.next()),
        provenance: draft.provenance,
        ..meta
    };
    let id = stage.file(Body::Called(called), meta)?;
    let window = Window {
        at: Some(id),
        items: Vec::new(),
        digest: stage.state.digest(),
    };
    Ok(Call {
        id,
        iteration,
        window,
        visits,
        closed,
        repeated: false,
    })
}

/// How many entries the call would file.
fn count_entries(stage: &Stage<'_>, work: &Work<'_>, draft: &Draft) -> Result<u32, Error> {
    let environment = super::environment::Seeded::new(0, Micros(0));
    let mut state = stage.state.clone();
    let head = crate::log::Head {
        seq: Seq(stage.next_seq().0.saturating_sub(1)),
        hash: Hash::ZERO,
    };
    let mut trial = Stage::new(
        crate::log::ConversationId([0; 16]),
        &environment,
        &mut state,
        Some(head),
    );
    let by = crate::log::By {
        door: crate::log::Door::Engine,
        principal: String::new(),
    };
    let meta = Meta {
        at: None,
        by,
        provenance: Provenance::Synthetic,
        key: None,
    };
    let closed = close_open_calls(&mut trial, work, draft, &meta, &mut std::iter::empty())?;
    let visits = file_visits(&mut trial, work, draft, &meta, &mut std::iter::empty())?;
    let all = closed.len().saturating_add(visits.len()).saturating_add(1);
    Ok(u32::try_from(all).unwrap_or(u32::MAX))
}

type Keys<'a> = &'a mut dyn Iterator<Item = Key>;

fn file_visits(
    stage: &mut Stage<'_>,
    work: &Work<'_>,
    draft: &Draft,
    meta: &Meta,
    keys: Keys<'_>,
) -> Result<Vec<Seq>, Error> {
    let mut visits = Vec::new();
    if !draft.visits {
        return Ok(visits);
    }
    for (position, strategy) in (0_u32..).zip(work.chain) {
        if let Outlook::Visit(body) = visit(stage.state, strategy.as_ref(), position, Trigger::Call)
        {
            let by = crate::log::By {
                door: crate::log::Door::Engine,
                ..meta.by.clone()
            };
            let meta = Meta {
                by,
                key: keys.next(),
                provenance: draft.provenance,
                ..meta.clone()
            };
            visits.push(stage.file(Body::Visited(body), meta)?);
        }
    }
    Ok(visits)
}

/// Calls that have neither a final nor an interim result, and that a client has to answer.
fn unanswered(stage: &Stage<'_>) -> Vec<CallInfo> {
    let open = stage.state.open_calls();
    open.filter(|(_, c)| !c.native && !c.interim)
        .map(|(_, c)| c.clone())
        .collect()
}

fn close_open_calls(
    stage: &mut Stage<'_>,
    work: &Work<'_>,
    draft: &Draft,
    meta: &Meta,
    keys: Keys<'_>,
) -> Result<Vec<Seq>, Error> {
    let open = match draft.policy {
        OpenCalls::Keep => return Ok(Vec::new()),
        OpenCalls::Close | OpenCalls::Refuse => unanswered(stage),
    };
    if open.is_empty() {
        return Ok(Vec::new());
    }
    if draft.policy == OpenCalls::Refuse {
        let names: Vec<String> = open.iter().map(|c| c.name.clone()).collect();
        let detail = format!("{} without a result: {}", names.len(), names.join(", "));
        return Err(Error::refused(RequestReason::OpenCalls, detail));
    }
    // Newest first: that is the order in which equal ids bind.
    open.iter()
        .rev()
        .map(|call| close(stage, work, call, meta, keys))
        .collect()
}

fn close(
    stage: &mut Stage<'_>,
    work: &Work<'_>,
    call: &CallInfo,
    meta: &Meta,
    keys: Keys<'_>,
) -> Result<Seq, Error> {
    let block = crate::log::Block {
        body: crate::log::BlockBody::Text(INTERRUPTED.to_owned()),
        extra: Vec::new(),
    };
    let body = PartBody::Result {
        call: call.label.clone(),
        name: Some(call.name.clone()),
        content: vec![block],
        shape: Shape::Text,
        error: Some(true),
        interim: false,
        native: None,
    };
    let part = Part {
        body,
        extra: Vec::new(),
    };
    let message = Message::new(Role::Tool, Author::Engine, vec![part]);
    let by = crate::log::By {
        door: crate::log::Door::Engine,
        ..meta.by.clone()
    };
    let meta = Meta {
        by,
        key: keys.next(),
        provenance: Provenance::Synthetic,
        ..meta.clone()
    };
    append_one(
        stage,
        work,
        &message,
        &Options::default(),
        meta,
        &mut |_| Ok(()),
    )
}
