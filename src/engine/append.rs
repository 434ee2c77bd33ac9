//! Appending messages, reporting what came back, configuring.

use crate::log::{
    Appended, Body, Commitment, Configured, Door, Json, Key, Message, MessageId, Micros, Noted,
    OpenCalls, Part, PartBody, PartSkeleton, Provenance, RequestReason, Returned, Seq, Settings,
    Trigger, Usage, payload,
};
use crate::planted::{Bug, planted};
use crate::strategy::{Strategy, check_form};
use crate::tokens::Encoding;
use crate::window::{BindError, Binding, Projection};
use std::borrow::Cow;
use std::sync::Arc;

use super::call::{Ask, Looks, file_visits};
use super::content::Content;
use super::conversation::{Ack, Conversation, Work};
use super::due::none_starves;
use super::environment::Environment;
use super::error::{Error, Refusal};
use super::known::{State, named};
use super::recall::file_returns;
use super::stage::{Meta, Stage};

/// What may be said about a request beside its content.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// The head the caller decided on. Refused as `stale-head` when content, calls or edits came
    /// after it; what the engine filed itself (visits, usage, notes) does not matter.
    pub expected: Option<Seq>,
    /// An idempotency key: the same request under the same key is written once, for ever.
    pub key: Option<String>,
    /// Wall time, where it is not now.
    pub at: Option<Micros>,
    /// The message this one continues: a later block of the same model message.
    pub continues: Option<MessageId>,
    /// The message this one shared one source message with.
    pub same_source: Option<MessageId>,
    /// How the entry is known; `recorded` unless said otherwise.
    pub provenance: Option<Provenance>,
}

impl Conversation {
    /// Appends a message. A message that holds results and other content becomes two: results,
    /// then words.
    ///
    /// # Errors
    /// Refused as `empty-message`, `unknown-call` or `duplicate-result`; see [`Error`] for failures.
    pub fn append(&self, message: Message) -> Result<Ack, Error> {
        self.append_with(message, &Options::default())
    }

    /// Appends a message, with options.
    ///
    /// # Errors
    /// As [`Conversation::append`]; also `stale-head` and `idempotency-conflict`.
    pub fn append_with(&self, message: Message, options: &Options) -> Result<Ack, Error> {
        if message.parts.is_empty() && message.author == crate::log::Author::Person {
            let detail = "a person's message without parts says nothing";
            return Err(Error::refused(RequestReason::EmptyMessage, detail));
        }
        let mut state = self.lock_at(options.expected)?;
        if let Some(ack) = self.repeated(&state, &message, options)? {
            self.stands(&state)?;
            return Ok(ack);
        }
        self.accepts_head(&state, options.expected)?;
        let looks = state.chain.iter().any(|s| s.on_append());
        self.file(&mut state, |stage, work| {
            let meta = self.meta(options, None);
            let (first, last) =
                append_parts(stage, work, &message, options, &meta, &mut refuse_unbound)?;
            let provenance = options.provenance.unwrap_or(Provenance::Recorded);
            file_returns(stage, work, &message, provenance, &meta)?;
            if looks {
                let meta = Meta { key: None, ..meta };
                let looks = &mut Looks::default();
                let known = (Trigger::Append, provenance);
                file_visits(stage, work, known, &meta, &Ask::Nobody, looks)?;
            }
            Ok(self.acknowledged(first, last))
        })
    }

    pub(super) fn meta(&self, options: &Options, entries: Option<u32>) -> Meta {
        Meta {
            at: options.at.or_else(|| self.now()),
            by: self.store().by().clone(),
            provenance: options.provenance.unwrap_or(Provenance::Recorded),
            key: options.key.clone().map(|text| Key {
                text,
                entries: entries.unwrap_or(1),
            }),
        }
    }

    fn now(&self) -> Option<Micros> {
        if planted(Bug::ClockIsTheSystems) {
            return super::environment::System.now();
        }
        self.store().environment().now()
    }

    /// The engine's milder head rule.
    pub(super) fn accepts_head(&self, state: &State, expected: Option<Seq>) -> Result<(), Error> {
        let (Some(expected), Some(head)) = (expected, state.head) else {
            return Ok(());
        };
        if expected == head.seq {
            return Ok(());
        }
        let stale = || {
            let detail = format!("the request expects {expected}; the head is {}", head.seq);
            Error::refused(RequestReason::StaleHead, detail)
        };
        if expected > head.seq {
            return Err(stale());
        }
        let mut ours = true;
        self.store()
            .entries(self.id(), expected.next(), head.seq, &mut |sealed| {
                let entry = &sealed.entry;
                ours &= match &entry.body {
                    Body::Visited(_) | Body::Returned(_) | Body::Noted(_) => true,
                    Body::Edited(_) => entry.by.door == Door::Engine,
                    _ => false,
                };
                std::ops::ControlFlow::Continue(())
            })?;
        if ours { Ok(()) } else { Err(stale()) }
    }

    /// What an idempotency key wrote before, if it was this message.
    fn repeated(
        &self,
        state: &State,
        message: &Message,
        options: &Options,
    ) -> Result<Option<Ack>, Error> {
        let Some(key) = &options.key else {
            return Ok(None);
        };
        let Some((first, entries)) = state.projection.by_key(key) else {
            return Ok(None);
        };
        let last = Seq(first.0.saturating_add(u64::from(entries).saturating_sub(1)));
        if !self.holds(state, message, first, entries)? {
            let detail = format!("the key '{key}' wrote {first} with other content");
            return Err(Error::refused(RequestReason::IdempotencyConflict, detail));
        }
        Ok(Some(Ack {
            first,
            last,
            level: self.store().level(),
            repeated: true,
        }))
    }

    /// Whether `entries` entries from `first` on hold this message, in as many splits as it took. A
    /// redacted content cannot be compared any more and counts as equal.
    pub(super) fn holds(
        &self,
        state: &State,
        message: &Message,
        first: Seq,
        entries: u32,
    ) -> Result<bool, Error> {
        let mut stored = Vec::new();
        let mut seq = first;
        for _ in 0..entries {
            let given = state
                .projection
                .message(MessageId(seq))
                .map(|m| m.logged.seq);
            // What stands for others is given by an edit; its content is that entry's first.
            let Some(given) = given else { return Ok(false) };
            match self.content_with(given, 0, &state.secret)? {
                Content::Message(m) => stored.push(*m),
                Content::Redacted => return Ok(true),
            }
            seq = seq.next();
        }
        Ok(match stored.as_slice() {
            [one] => one == message,
            many => same_parts(many, message),
        })
    }

    /// Reports what came back from a call: usage as the provider gave it, or the failure.
    ///
    /// # Errors
    /// `nothing-matches` when `call` is no call.
    pub fn returned(&self, call: Seq, usage: Option<Usage>) -> Result<Ack, Error> {
        self.report(call, usage, None, None)
    }

    /// Reports what came back from a call, with a failure and other fields as JSON text.
    ///
    /// # Errors
    /// `nothing-matches` when `call` is no call.
    pub fn report(
        &self,
        call: Seq,
        usage: Option<Usage>,
        failure: Option<&str>,
        rest: Option<&Json>,
    ) -> Result<Ack, Error> {
        let mut state = self.lock()?;
        if state.projection.call_filed_as(call).is_none() {
            let detail = format!("{call} is no call of '{}'", self.name());
            return Err(Error::refused(RequestReason::NothingMatches, detail));
        }
        let options = Options::default();
        self.file(&mut state, |stage, _| {
            let meta = self.meta(&options, None);
            let seq = file_returned(stage, call, usage, failure, rest, meta)?;
            Ok(self.acknowledged(seq, seq))
        })
    }

    /// Sets the chain of strategies. Setting the same chain again writes nothing.
    ///
    /// # Errors
    /// `policy-conflict` when another chain is set already; `invalid-option` when a parameter is not
    /// possible, or a spec is not one line of moderate length.
    pub fn with_strategies(self, chain: Vec<Arc<dyn Strategy>>) -> Result<Self, Error> {
        for strategy in &chain {
            let impossible = |e: crate::strategy::SpecError| {
                Error::refused(RequestReason::InvalidOption, e.to_string())
            };
            strategy.check().map_err(impossible)?;
            check_form(&strategy.spec()).map_err(impossible)?;
        }
        {
            let mut state = self.lock()?;
            none_starves(&state, &chain)?;
            let specs: Vec<String> = chain.iter().map(|s| s.spec()).collect();
            let set = state.projection.chain().to_vec();
            let again = planted(Bug::SameStrategiesAreFiledAgain) && set == specs;
            if (set.is_empty() || again) && !specs.is_empty() {
                let configured = Configured {
                    strategies: Some(specs),
                    ..Configured::default()
                };
                self.configure(&mut state, configured, None)?;
            } else if set != specs {
                let detail = format!(
                    "'{}' has the strategies [{}]; [{}] cannot replace them",
                    self.name(),
                    set.join("; "),
                    specs.join("; ")
                );
                return Err(Error::refused(RequestReason::PolicyConflict, detail));
            } else if !set.is_empty() {
                self.stands(&state)?;
            }
            state.chain = chain.into_iter().map(named).collect();
        }
        Ok(self)
    }

    /// Sets one strategy; see [`Conversation::with_strategies`].
    ///
    /// # Errors
    /// `policy-conflict` when another chain is set already.
    pub fn with_strategy(self, strategy: impl Strategy + 'static) -> Result<Self, Error> {
        self.with_strategies(vec![Arc::new(strategy)])
    }

    /// Sets what happens to open tool calls when a call is about to be filed.
    ///
    /// # Errors
    /// When the store fails.
    pub fn with_open_calls(self, policy: OpenCalls) -> Result<Self, Error> {
        {
            let mut state = self.lock()?;
            if state.projection.open_calls_policy() == policy {
                self.stands(&state)?;
            } else {
                let configured = Configured {
                    open_calls: Some(policy),
                    ..Configured::default()
                };
                self.configure(&mut state, configured, None)?;
            }
        }
        Ok(self)
    }

    /// Files the request settings in force from here on: everything of a request but its messages,
    /// as JSON text in the given format's terms. Equal settings are filed once.
    ///
    /// # Errors
    /// When the store fails.
    pub fn set_request(
        &self,
        format: &str,
        model: Option<&str>,
        settings: &Json,
    ) -> Result<(), Error> {
        let mut state = self.lock()?;
        if self.same_settings(&state, format, model, settings)? {
            return self.stands(&state);
        }
        let meta = self.meta(&Options::default(), None);
        self.file(&mut state, |stage, _| {
            file_settings(stage, format, model, settings, meta)?;
            Ok(())
        })
    }

    pub(super) fn same_settings(
        &self,
        state: &State,
        format: &str,
        model: Option<&str>,
        settings: &Json,
    ) -> Result<bool, Error> {
        let Some((seq, filed)) = state.projection.settings() else {
            return Ok(false);
        };
        if filed.format != format || filed.model.as_deref() != model {
            return Ok(false);
        }
        let stored = self.store().backend().payload(self.id(), *seq, 0)?;
        Ok(stored.is_some_and(|p| p.bytes == payload::encode_text(&settings.0)))
    }

    pub(super) fn configure(
        &self,
        state: &mut State,
        configured: Configured,
        key: Option<String>,
    ) -> Result<(), Error> {
        let options = Options {
            key,
            ..Options::default()
        };
        self.file(state, |stage, _| {
            stage.file(Body::Configured(configured), self.meta(&options, None))?;
            Ok(())
        })
    }

    /// Files a note.
    ///
    /// # Errors
    /// When the store fails.
    pub fn note(&self, what: &str, content: Option<&Json>) -> Result<Ack, Error> {
        let mut state = self.lock()?;
        let meta = self.meta(&Options::default(), None);
        self.file(&mut state, |stage, _| {
            let seq = file_noted(stage, what, ("", false), content, meta)?;
            Ok(self.acknowledged(seq, seq))
        })
    }
}

/// Files a note. `place`: where it was found, and whether a person should be told.
pub(super) fn file_noted(
    stage: &mut Stage<'_>,
    what: &str,
    (place, warn): (&str, bool),
    content: Option<&Json>,
    meta: Meta,
) -> Result<Seq, Error> {
    let content = content
        .map(|c| stage.content(payload::encode_text(&c.0)))
        .transpose()?;
    let noted = Noted {
        what: what.to_owned(),
        place: place.to_owned(),
        warn,
        content,
    };
    stage.file(Body::Noted(noted), meta)
}

pub(super) fn file_settings(
    stage: &mut Stage<'_>,
    format: &str,
    model: Option<&str>,
    settings: &Json,
    meta: Meta,
) -> Result<Seq, Error> {
    let content = stage.content(payload::encode_text(&settings.0))?;
    let settings = Settings {
        model: model.map(str::to_owned),
        format: format.to_owned(),
        content,
        overhead: Encoding::of(model).count(&settings.0),
    };
    let body = Configured {
        settings: Some(settings),
        ..Configured::default()
    };
    stage.file(Body::Configured(body), meta)
}

pub(super) fn file_returned(
    stage: &mut Stage<'_>,
    call: Seq,
    usage: Option<Usage>,
    failure: Option<&str>,
    rest: Option<&Json>,
    meta: Meta,
) -> Result<Seq, Error> {
    let words = returned_words(failure, rest);
    let rest = words
        .map(|w| stage.content(payload::encode_text(&w)))
        .transpose()?;
    let body = Returned {
        call,
        failed: failure.is_some(),
        usage,
        rest,
    };
    stage.file(Body::Returned(body), meta)
}

/// The payload of a `returned` entry: `{"failure": …, "rest": …}`; `None` when there is neither.
pub(super) fn returned_words(failure: Option<&str>, rest: Option<&Json>) -> Option<String> {
    let mut fields = Vec::new();
    if let Some(failure) = failure {
        fields.push(format!("\"failure\":{}", serde_json::Value::from(failure)));
    }
    if let Some(rest) = rest {
        fields.push(format!("\"rest\":{}", rest.0));
    }
    (!fields.is_empty()).then(|| format!("{{{}}}", fields.join(",")))
}

/// A message that holds client results and other content, as results (tool) then words; `None` where it
/// stays whole. Native results stand inside the model's own message and stay there.
fn split(message: &Message) -> Option<[Message; 2]> {
    let is_result = |p: &crate::log::Part| matches!(p.body, PartBody::Result { native: None, .. });
    let results = message.parts.iter().filter(|p| is_result(p)).count();
    if results == 0 || results == message.parts.len() {
        return None;
    }
    let (results, words) = message.parts.iter().cloned().partition(is_result);
    // As a reader parts them: both have the source's format, the first its text.
    let source = message.source.as_ref().map(|s| crate::log::Source {
        format: s.format.clone(),
        ..crate::log::Source::default()
    });
    let results = Message {
        role: crate::log::Role::Tool,
        author: crate::log::Author::Tool,
        parts: results,
        ..message.clone()
    };
    let words = Message {
        parts: words,
        source,
        ..message.clone()
    };
    Some([results, words])
}

fn holds_result(message: &Message) -> bool {
    let result = |p: &Part| matches!(p.body, PartBody::Result { .. });
    message.parts.iter().any(result)
}

/// Whether the parts of split messages are those of the whole, in any order between the splits.
pub(super) fn same_parts(split: &[Message], whole: &Message) -> bool {
    let parts: Vec<&Part> = split.iter().flat_map(|m| &m.parts).collect();
    parts.len() == whole.parts.len() && whole.parts.iter().all(|p| parts.contains(&p))
}

/// Files a message, as several entries where it has to be split; gives the first and the last.
pub(super) fn append_parts(
    stage: &mut Stage<'_>,
    work: &Work<'_>,
    message: &Message,
    options: &Options,
    meta: &Meta,
    unbound: OnUnbound<'_>,
) -> Result<(Seq, Seq), Error> {
    let split = split(message);
    if split.is_none() && !holds_result(message) {
        // Most messages: one entry, which answers nothing.
        let links = Links {
            continues: options.continues,
            same_source: options.same_source,
        };
        let meta = meta.first_of(1);
        let filed = append_bound(stage, work, message, &Vec::new(), links, meta)?;
        return Ok((filed, filed));
    }
    let whole = std::slice::from_ref(message);
    let parts = split.as_ref().map_or(whole, <[Message; 2]>::as_slice);
    let mut drafts = Vec::with_capacity(parts.len());
    for part in parts {
        let filed = u64::try_from(drafts.len()).unwrap_or(u64::MAX);
        let seq = Seq(stage.next_seq().0.saturating_add(filed));
        let (binding, errors) = stage.state.bind(part, seq);
        errors.into_iter().try_for_each(&mut *unbound)?;
        split_by_presence(stage.state, part, binding, &mut drafts);
    }
    let entries = u32::try_from(drafts.len()).unwrap_or(u32::MAX);
    let mut first: Option<Seq> = None;
    let mut last = stage.next_seq();
    for (part, binding) in drafts {
        let mut meta = meta.first_of(entries);
        meta.key = meta.key.filter(|_| first.is_none());
        let links = Links {
            continues: options.continues,
            same_source: first.map(MessageId).or(options.same_source),
        };
        last = append_bound(stage, work, &part, &binding, links, meta)?;
        first.get_or_insert(last);
    }
    Ok((first.unwrap_or(last), last))
}

/// Results whose calls are in the window, and late ones whose calls are away, may not share a
/// message, nor may late ones of groups that left apart: a message enters and leaves whole. Which
/// call each answers was decided on the whole message and stays.
fn split_by_presence<'m>(
    state: &Projection,
    message: &'m Message,
    binding: Binding,
    drafts: &mut Vec<(Cow<'m, Message>, Binding)>,
) {
    if binding.iter().all(Option::is_none) {
        drafts.push((Cow::Borrowed(message), binding));
        return;
    }
    let away = |call: &Option<(Seq, u32)>| {
        let id = MessageId((*call)?.0);
        state.message(id).filter(|m| !m.visible())?;
        state.group_of(id).first().copied()
    };
    let mut places: Vec<Option<MessageId>> = Vec::new();
    let homes: Vec<Option<MessageId>> = binding.iter().map(away).collect();
    for home in &homes {
        if !places.contains(home) {
            places.push(*home);
        }
    }
    if places.len() < 2 || planted(Bug::LateResultsStayTogether) {
        drafts.push((Cow::Borrowed(message), binding));
        return;
    }
    let pick = |place: Option<MessageId>| {
        let of_place = |home: &&Option<MessageId>| **home == place;
        let parts = message.parts.iter().zip(&homes);
        let parts = parts.filter(|(_, home)| of_place(home));
        let answers = binding.iter().zip(&homes);
        let answers = answers.filter(|(_, home)| of_place(home));
        let part = Message {
            parts: parts.map(|(p, _)| p.clone()).collect(),
            ..message.clone()
        };
        (Cow::Owned(part), answers.map(|(a, _)| *a).collect())
    };
    drafts.extend(places.into_iter().map(pick));
}

/// What to do with result parts that cannot be bound.
pub(super) type OnUnbound<'a> = &'a mut dyn FnMut(BindError) -> Result<(), Error>;

fn refuse_unbound(error: BindError) -> Result<(), Error> {
    let reason = match error {
        BindError::Unknown { .. } => RequestReason::UnknownCall,
        BindError::Duplicate { .. } => RequestReason::DuplicateResult,
    };
    Err(Refusal::new(reason, error.to_string()).into())
}

/// Which messages one belongs with, beside what it answers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Links {
    /// The message it continues.
    pub continues: Option<MessageId>,
    /// The message it shared one source message with.
    pub same_source: Option<MessageId>,
}

/// Files one message whose results answer the calls that `binding` says.
pub(super) fn append_bound(
    stage: &mut Stage<'_>,
    work: &Work<'_>,
    message: &Message,
    binding: &Binding,
    links: Links,
    meta: Meta,
) -> Result<Seq, Error> {
    let content = store_content(stage, work, message)?;
    let skeleton = skeleton(work, encoding(stage.state), message, binding);
    let by_model = message.author == crate::log::Author::Model;
    let produced_by = match links.continues {
        Some(_) => None,
        None => stage
            .state
            .sent()
            .last()
            .filter(|_| by_model)
            .map(|s| s.fact.seq),
    };
    let body = Appended {
        skeleton,
        continues: links.continues.map(MessageId::seq),
        same_source: links.same_source.map(MessageId::seq),
        produced_by,
        content,
    };
    stage.file(Body::Appended(body), meta)
}

/// Stores a message's blobs, then salts its payload and commits to it.
pub(super) fn store_content(
    stage: &mut Stage<'_>,
    work: &Work<'_>,
    message: &Message,
) -> Result<Commitment, Error> {
    let encoded = payload::encode_message(message, &work.secret)?;
    for (address, bytes) in &encoded.blobs {
        work.store
            .backend()
            .put_blob(work.lineage, *address, bytes)?;
    }
    stage.content(encoded.bytes)
}

/// The encoding that tokens are counted by: that of the model the request settings name.
pub(super) fn encoding(state: &Projection) -> Encoding {
    Encoding::of(state.settings().and_then(|(_, s)| s.model.as_deref()))
}

/// The skeleton, with its tokens counted where a strategy of the chain looks at tokens.
pub(super) fn skeleton(
    work: &Work<'_>,
    encoding: Encoding,
    message: &Message,
    binding: &Binding,
) -> crate::log::Skeleton {
    let mut skeleton = crate::log::skeleton::skeleton(message, binding);
    if work.counts {
        skeleton.tokens = encoding.count(&message.words());
    }
    debug_assert!(
        skeleton
            .parts
            .iter()
            .all(|p| p.answers.is_none() || !p.is(PartSkeleton::BLANK))
    );
    skeleton
}
