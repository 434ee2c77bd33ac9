//! Importing: a transcript's steps become entries; importing again adds only what is new.
//!
//! Step n is filed under the idempotency key `import:n`, so the log itself says how far an import
//! got and what it wrote; comparing needs no digest that would outlive a redaction. What the source
//! says about an edit (which results it cleared, what it left) is kept as the edit's `rest`, so
//! that it can be compared too. The note of an unfinished last record is told, and nothing is filed
//! for it: the record may read otherwise once it is complete.

mod begin;
mod compare;
mod repeated;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;

use crate::formats::{Begins, Link, PackedTranscript, Step, Transcript, json};
use crate::log::{
    Block, BlockBody, By, Change, Door, EditAction, Fields, Head, Iteration, Json, Key, Left,
    LeftReason, Message, MessageId, Micros, OpenCalls, PartBody, Provenance, RequestReason, Seq,
    StandIn, StandInKind, Trigger,
};
use crate::store::BLOB_BYTES_MAX;
use crate::strategy::Strategy;
use crate::window::{BindError, CLEARED, COMPACTED, MessageState};
use std::sync::Arc;

use self::begin::{Begun, Passed, begin};
use self::compare::was_simulated;
use super::append::{
    self, Options, file_noted, file_returned, file_settings, returned_words, store_content,
};
use super::call::{Ask, Draft, Looks, Pass, as_it_came, file_call, file_visits};
use super::conversation::{Conversation, Store, Work};
use super::edit::file_edited;
use super::error::{Error, Refusal};
use super::recall::file_returns;
use super::stage::{Meta, Stage};

/// Entries of one stored batch, and their bytes: large enough to be fast, small enough to bound
/// memory.
const BATCH_ENTRIES: usize = 256;
const BATCH_BYTES: usize = 1 << 20;

/// Something a person should be told about an import.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// Where: `file:line`, or the step.
    pub place: String,
    /// What.
    pub what: String,
}

/// What an import came to. Totals are of the whole log, `added` counts what was written now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Imported {
    /// The conversation's name.
    pub conversation: String,
    /// The source's format.
    pub format: &'static str,
    /// Messages in the log.
    pub messages: u64,
    /// Model calls in the log.
    pub iterations: u64,
    /// Entries in the log.
    pub entries: u64,
    /// Visits in the log.
    pub visits: u64,
    /// Stays in the window that ended without a stand-in.
    pub evicted: u64,
    /// Message refusals listed.
    pub refused: u64,
    /// Notes of the source.
    pub notes: u64,
    /// Calls now imported at which a summary was due and nobody was asked.
    pub due: Vec<Iteration>,
    /// What a person should be told.
    pub warnings: Vec<Warning>,
    /// Entries written now.
    pub added: u64,
    /// The head.
    pub head: Option<Head>,
}

impl Store {
    /// Imports a transcript under a name, replaying it through `chain` call by call where that is
    /// not empty. `progress` hears how many steps are done.
    ///
    /// # Errors
    /// `source-diverged` when the log holds an import of another beginning; `policy-conflict` when
    /// it was imported through other strategies, or through none.
    pub fn import(
        &self,
        name: &str,
        transcript: &Transcript,
        chain: Vec<Arc<dyn Strategy>>,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Imported, Error> {
        storable(transcript.steps.iter().map(Step::largest).max())?;
        let told = Told {
            format: transcript.format,
            begins: &transcript.begins,
            steps: &mut transcript.steps.iter().map(Cow::Borrowed),
        };
        self.import_told(&|_| None, name, told, chain, progress)
    }

    /// The same for one of several transcripts of a file: `named` tells what the conversation of
    /// another was called, by the transcript's id. A branch becomes a fork of that conversation, and
    /// what a tool call started names the call; without the other each begins by itself. Each step
    /// is let go once it is filed; packed ([`Format::packed`](crate::formats::Format::packed)), a long transcript takes little room
    /// beside its own log.
    ///
    /// # Errors
    /// As [`Store::import`].
    pub fn import_among(
        &self,
        named: &dyn Fn(&str) -> Option<String>,
        name: &str,
        transcript: impl Into<PackedTranscript>,
        chain: Vec<Arc<dyn Strategy>>,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Imported, Error> {
        let transcript = transcript.into();
        // Before anything is created: an import that cannot be stored leaves nothing behind.
        storable(Some(transcript.steps.largest()))?;
        let told = Told {
            format: transcript.format,
            begins: &transcript.begins,
            steps: &mut transcript.steps.into_steps().map(Cow::Owned),
        };
        self.import_told(named, name, told, chain, progress)
    }

    fn import_told(
        &self,
        named: &dyn Fn(&str) -> Option<String>,
        name: &str,
        mut told: Told<'_>,
        chain: Vec<Arc<dyn Strategy>>,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Imported, Error> {
        let format = told.format;
        let door = Store::clone(self)
            .with_door(Door::Import, self.by().principal.clone())
            .with_level(crate::store::Level::Buffered);
        let before = match door.backend().find(&door.full_name(name))? {
            Some(id) => door.backend().head(id)?,
            None => None,
        };
        let Begun {
            mut chat,
            first,
            passed,
            warning,
        } = begin(&door, named, name, &mut told)?;
        if !chain.is_empty() && was_simulated(&chat)? == Some(false) {
            let detail = format!("'{name}' was imported without strategies");
            let refusal = Refusal::new(RequestReason::PolicyConflict, detail);
            return Err(refusal
                .with_help("import it under another name to replay it through strategies")
                .into());
        }
        let known = !chat.with_projection(|p| p.chain().is_empty())?;
        if !chain.is_empty() || !known {
            let policy = if chain.is_empty() {
                OpenCalls::Keep
            } else {
                OpenCalls::Close
            };
            chat = chat.with_strategies(chain)?.with_open_calls(policy)?;
        }
        let mut steps = first.into_iter().map(Cow::Owned).chain(told.steps);
        let mut import = Import::new(&chat, format, &mut steps, passed)?;
        import.warnings.extend(warning);
        while import.some_steps()? {
            progress(import.next);
        }
        let (warnings, due, notes) = (import.warnings, import.due, import.notes);
        self.backend().sync(self.level())?;
        let head = chat.head()?;
        let entries = |h: Option<Head>| h.map_or(0, |h| h.seq.0.saturating_add(1));
        chat.with_projection(|p| Imported {
            conversation: name.to_owned(),
            format,
            messages: count(p.messages().len()),
            iterations: count(p.sent().len()),
            entries: entries(head),
            visits: count(p.visits().len()),
            evicted: p.evictions(),
            refused: p.refusals(),
            notes,
            due,
            warnings,
            added: entries(head).saturating_sub(entries(before)),
            head,
        })
    }
}

/// Refuses a transcript whose largest content no store takes.
fn storable(largest: Option<usize>) -> Result<(), Error> {
    let largest = largest.unwrap_or_default();
    // The rest of a payload is small beside its longest text.
    let limit = usize::try_from(BLOB_BYTES_MAX).unwrap_or(usize::MAX);
    if largest > limit.saturating_sub(limit / 16) {
        let detail = format!("a content of {largest} bytes; a store takes {limit} at most");
        return Err(Error::refused(RequestReason::TooLarge, detail));
    }
    Ok(())
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// What a transcript tells.
struct Told<'a> {
    format: &'static str,
    begins: &'a Begins,
    steps: Steps<'a, 'a>,
}

type Steps<'a, 's> = &'a mut (dyn Iterator<Item = Cow<'s, Step>> + 'a);

struct Import<'a, 's> {
    chat: &'a Conversation,
    format: &'static str,
    steps: Peekable<Steps<'a, 's>>,
    /// The number of the next step.
    next: usize,
    simulated: bool,
    /// The entry of each message step, in order.
    messages: Vec<Seq>,
    /// How many notes there were.
    notes: u64,
    /// Calls at which a summary was due and nobody was asked.
    due: Vec<Iteration>,
    warnings: Vec<Warning>,
}

/// What a step wrote.
struct Written {
    seq: Seq,
    is_message: bool,
}

impl<'a, 's> Import<'a, 's> {
    fn new(
        chat: &'a Conversation,
        format: &'static str,
        steps: Steps<'a, 's>,
        passed: Passed,
    ) -> Result<Self, Error> {
        let earlier = was_simulated(chat)?;
        let state = chat.lock()?;
        let simulated = earlier.unwrap_or_else(|| !state.projection.chain().is_empty());
        if state.chain.len() != state.projection.chain().len() {
            let detail = format!("a strategy of '{}' is not known here", chat.name());
            return Err(Error::refused(RequestReason::PolicyConflict, detail));
        }
        Ok(Self {
            chat,
            format,
            steps: steps.peekable(),
            next: passed.steps,
            simulated,
            messages: passed.messages,
            notes: 0,
            due: Vec::new(),
            warnings: Vec::new(),
        })
    }

    /// Imports steps until a batch is full; says whether there was any.
    fn some_steps(&mut self) -> Result<bool, Error> {
        if self.steps.peek().is_none() {
            return Ok(false);
        }
        let from = self.next;
        let mut state = self.chat.lock()?;
        while let Some(step) = self.steps.peek() {
            let filed = state.projection.by_key(&key(self.next));
            if filed.is_none() && !step.is_unfinished() {
                break;
            }
            let Some((n, step)) = self.take() else { break };
            match filed {
                _ if step.is_unfinished() => self.unfinished(&step),
                Some((first, entries)) => self.compare(&state, n, &step, first, entries)?,
                None => {}
            }
        }
        let chat = self.chat;
        chat.file(&mut state, |stage, work| {
            while let Some(step) = self.steps.peek() {
                if step.is_unfinished() || stage.state.by_key(&key(self.next)).is_some() {
                    break; // passed or compared in the next round
                }
                let Some((n, step)) = self.take() else { break };
                let written = self.step(stage, work, n, &step)?;
                if written.is_message {
                    self.messages.push(written.seq);
                }
                let (entries, bytes) = stage.size();
                if entries >= BATCH_ENTRIES || bytes >= BATCH_BYTES {
                    break;
                }
            }
            Ok(())
        })?;
        Ok(self.next > from)
    }

    /// The next step, with its number.
    fn take(&mut self) -> Option<(usize, Cow<'s, Step>)> {
        let (step, n) = (self.steps.next()?, self.next);
        self.next = n.saturating_add(1);
        let counts = matches!(*step, Step::Noted { .. }) && !step.is_unfinished();
        self.notes = self.notes.saturating_add(u64::from(counts));
        Some((n, step))
    }

    /// Tells of a record that is not complete; a later import continues with it.
    fn unfinished(&mut self, step: &Step) {
        if let Step::Noted { what, place, .. } = step {
            let what = format!("{what}; import again when it is complete");
            let place = place.clone();
            self.warnings.push(Warning { place, what });
        }
    }

    fn meta(&self, step: usize, at: Option<Micros>, provenance: Provenance) -> Meta {
        let by = By {
            door: Door::Import,
            principal: self.chat.store().by().principal.clone(),
        };
        Meta {
            at,
            by,
            provenance,
            key: Some(Key {
                text: key(step),
                entries: 1,
            }),
        }
    }

    /// How calls, visits and what they came to are known.
    const fn provenance(&self) -> Provenance {
        if self.simulated {
            Provenance::Simulated
        } else {
            Provenance::Inferred
        }
    }

    fn step(
        &mut self,
        stage: &mut Stage<'_>,
        work: &Work<'_>,
        n: usize,
        step: &Step,
    ) -> Result<Written, Error> {
        let inferred = |at: &Option<Micros>| self.meta(n, *at, Provenance::Inferred);
        let seq = match step {
            Step::Configured { model, settings } => {
                let meta = inferred(&None);
                self.configured(stage, model.as_deref(), settings, meta)?
            }
            Step::Message { message, at, link } => {
                let meta = inferred(at);
                let seq = self.message(stage, work, n, message, *link, meta)?;
                return Ok(Written {
                    seq,
                    is_message: true,
                });
            }
            Step::Called { model, at } => {
                let draft = Draft {
                    model: model.clone(),
                    profile: None,
                    policy: stage.state.open_calls_policy(),
                    visits: self.simulated,
                    provenance: self.provenance(),
                };
                let meta = self.meta(n, *at, self.provenance());
                self.called(stage, work, n, &draft, &meta)?
            }
            Step::Returned {
                usage,
                failure,
                rest,
                at,
            } => {
                let meta = self.meta(n, *at, self.provenance());
                let Some(call) = stage.state.sent().last().map(|s| s.fact.seq) else {
                    let what = "a return before any call";
                    return self.lost(stage, n, what).map(Written::other);
                };
                let rest = object(rest);
                file_returned(stage, call, *usage, failure.as_deref(), rest.as_ref(), meta)?
            }
            Step::Compacted { summary, rest, at } => {
                let meta = inferred(at);
                self.compacted(stage, work, summary, rest, meta)?
            }
            Step::Cleared { calls, marker, at } => {
                let meta = inferred(at);
                self.cleared(stage, work, calls, marker, meta)?
            }
            Step::Rewound { gone, at } => {
                let meta = inferred(at);
                self.rewound(stage, gone, meta)?
            }
            Step::Noted {
                what,
                place,
                content,
                at,
                warn,
            } => {
                if *warn {
                    self.warnings.push(Warning {
                        place: place.clone(),
                        what: what.clone(),
                    });
                }
                let meta = self.meta(n, *at, Provenance::Inferred);
                file_noted(stage, what, (place, *warn), content.as_ref(), meta)?
            }
        };
        Ok(Written::other(seq))
    }

    fn configured(
        &self,
        stage: &mut Stage<'_>,
        model: Option<&str>,
        settings: &Fields,
        meta: Meta,
    ) -> Result<Seq, Error> {
        let text = json::write_object(settings);
        file_settings(stage, self.format, model, &text, meta)
    }

    fn message(
        &mut self,
        stage: &mut Stage<'_>,
        work: &Work<'_>,
        n: usize,
        message: &Message,
        link: Link,
        meta: Meta,
    ) -> Result<Seq, Error> {
        let linked = |to: usize| self.messages.get(to).copied().map(MessageId);
        let (continues, same_source) = match link {
            Link::None => (None, None),
            Link::Continues(to) => (linked(to), None),
            Link::SameSource(to) => (None, linked(to)),
        };
        let options = Options {
            continues,
            same_source,
            ..Options::default()
        };
        let mut unbound = Vec::new();
        let filed = append::append_parts(stage, work, message, &options, &meta, &mut |e| {
            unbound.push(e);
            Ok(())
        })?;
        for error in unbound {
            self.unbound(n, filed.0, &error);
        }
        if self.simulated {
            let meta = Meta { key: None, ..meta };
            file_returns(stage, work, message, self.provenance(), &meta)?;
            let known = (Trigger::Append, self.provenance());
            let looks = &mut Looks::default();
            file_visits(stage, work, known, &meta, &Ask::Nobody, looks)?;
        }
        Ok(filed.0)
    }

    /// Files a call. Nobody else uses the conversation: summaries are asked for on the spot.
    fn called(
        &mut self,
        stage: &mut Stage<'_>,
        work: &Work<'_>,
        step: usize,
        draft: &Draft,
        meta: &Meta,
    ) -> Result<Seq, Error> {
        let summarizer = self.chat.store().summarizer();
        let mut pass = Pass {
            concluding: None,
            ask: summarizer.as_deref().map_or(Ask::Nobody, Ask::Now),
            looks: &mut Looks::default(),
            closed: &mut Vec::new(),
        };
        let Some(call) = file_call(stage, work, draft, meta, &mut pass)? else {
            let detail = "a summary was left for later";
            return Err(Error::refused(RequestReason::PolicyConflict, detail));
        };
        self.due.extend(call.due.then_some(call.iteration));
        let place = format!("step {step}");
        self.warnings
            .extend(call.failures.into_iter().map(|failure| Warning {
                place: place.clone(),
                what: format!("no summary: {failure}"),
            }));
        Ok(call.id)
    }

    fn unbound(&mut self, step: usize, seq: Seq, error: &BindError) {
        let place = format!("step {step}, m{}", seq.0);
        self.warnings.push(Warning {
            place,
            what: error.to_string(),
        });
    }

    /// The source replaced everything before by a summary.
    fn compacted(
        &mut self,
        stage: &mut Stage<'_>,
        work: &Work<'_>,
        summary: &Message,
        rest: &Fields,
        meta: Meta,
    ) -> Result<Seq, Error> {
        if self.simulated {
            let text = compacted_words(summary, rest);
            return file_noted(stage, COMPACTED, ("", false), Some(&text), meta);
        }
        let sources: BTreeSet<MessageId> = stage.state.outside_envelope().collect();
        let content = store_content(stage, work, summary)?;
        let stand_in = StandIn {
            kind: StandInKind::Claim,
            reason: LeftReason::Summarized,
            sources: stage.state.ranges(&sources),
            skeleton: append::skeleton(work, append::encoding(stage.state), summary, &Vec::new()),
            content,
        };
        let change = Change {
            stand_ins: vec![stand_in],
            ..Change::default()
        };
        file_edited(
            stage,
            EditAction::Replace,
            change,
            object(rest).as_ref(),
            meta,
        )
    }

    /// The source cleared results: each gets a new form.
    fn cleared(
        &mut self,
        stage: &mut Stage<'_>,
        work: &Work<'_>,
        calls: &[String],
        marker: &str,
        meta: Meta,
    ) -> Result<Seq, Error> {
        let words = cleared_words(calls, marker);
        if self.simulated {
            return file_noted(stage, CLEARED, ("", false), Some(&words), meta);
        }
        let mut targets: BTreeMap<Seq, BTreeSet<u32>> = BTreeMap::new();
        for call in calls {
            if let Some((message, part)) = stage.state.result_of_label(call) {
                targets.entry(message).or_default().insert(part);
            }
        }
        let mut stand_ins = Vec::new();
        for (seq, parts) in targets {
            stand_ins.extend(cleared_form(stage, work, seq, &parts, marker)?);
        }
        let change = Change {
            stand_ins,
            ..Change::default()
        };
        file_edited(stage, EditAction::Clear, change, Some(&words), meta)
    }

    /// The source went back: groups that are wholly off its path leave.
    fn rewound(&mut self, stage: &mut Stage<'_>, gone: &[usize], meta: Meta) -> Result<Seq, Error> {
        let words = rewound_words(gone);
        let gone: BTreeSet<MessageId> = gone
            .iter()
            .filter_map(|n| self.messages.get(*n))
            .map(|s| MessageId(*s))
            .collect();
        let state = &stage.state;
        let visible = |id: &MessageId| state.message(*id).is_some_and(MessageState::visible);
        let whole = |id: &MessageId| {
            state
                .group_of(*id)
                .iter()
                .filter(|m| visible(m))
                .all(|m| gone.contains(m))
        };
        let leaving: BTreeSet<MessageId> = gone
            .iter()
            .filter(|id| visible(id) && whole(id))
            .copied()
            .collect();
        let left = Left {
            reason: LeftReason::Cleared,
            messages: state.ranges(&leaving),
        };
        let left = if leaving.is_empty() {
            Vec::new()
        } else {
            vec![left]
        };
        let change = Change {
            left,
            ..Change::default()
        };
        file_edited(stage, EditAction::Clear, change, Some(&words), meta)
    }

    fn lost(&mut self, stage: &mut Stage<'_>, n: usize, what: &str) -> Result<Seq, Error> {
        let place = format!("step {n}");
        self.warnings.push(Warning {
            place: place.clone(),
            what: what.to_owned(),
        });
        let meta = self.meta(n, None, Provenance::Inferred);
        file_noted(stage, what, (&place, true), None, meta)
    }
}

/// A message with the words of a result cleared; `None` where it is not in the window.
fn cleared_form(
    stage: &mut Stage<'_>,
    work: &Work<'_>,
    seq: Seq,
    parts: &BTreeSet<u32>,
    marker: &str,
) -> Result<Option<StandIn>, Error> {
    let id = MessageId(seq);
    let Some(state) = stage.state.message(id).filter(|m| m.visible()) else {
        return Ok(None);
    };
    let Some(form) = state.form() else {
        return Ok(None);
    };
    let binding = form.skeleton.parts.iter().map(|p| p.answers).collect();
    // Cleared are the words as they came.
    let Some(mut message) = as_it_came(stage, work, id)? else {
        return Ok(None);
    };
    for (position, part) in (0_u32..).zip(message.parts.iter_mut()) {
        if parts.contains(&position)
            && let PartBody::Result { content, shape, .. } = &mut part.body
        {
            let body = BlockBody::Text(marker.to_owned());
            *content = vec![Block {
                body,
                extra: Fields::new(),
            }];
            *shape = crate::log::Shape::Text;
        }
    }
    if let Some(source) = &mut message.source {
        source.verbatim = None;
    }
    let content = store_content(stage, work, &message)?;
    Ok(Some(StandIn {
        kind: StandInKind::Form,
        reason: LeftReason::Cleared,
        sources: stage.state.ranges(&BTreeSet::from([id])),
        skeleton: append::skeleton(work, append::encoding(stage.state), &message, &binding),
        content,
    }))
}

impl Written {
    const fn other(seq: Seq) -> Self {
        Self {
            seq,
            is_message: false,
        }
    }
}

/// The key that a step is filed under.
pub(crate) fn key(step: usize) -> String {
    format!("import:{step}")
}

/// What is kept of a compaction that was not applied.
fn compacted_words(summary: &Message, rest: &Fields) -> Json {
    let words = serde_json::Value::from(summary.words());
    let rest = json::write_object(rest);
    Json(format!("{{\"summary\":{words},\"rest\":{}}}", rest.0))
}

/// What the source says about results it cleared.
fn cleared_words(calls: &[String], marker: &str) -> Json {
    let (calls, marker) = (serde_json::Value::from(calls), json::quoted(marker));
    Json(format!("{{\"calls\":{calls},\"marker\":{}}}", marker.0))
}

/// What the source says about messages that are no longer on its path: the numbers of their steps
/// among the message steps.
fn rewound_words(gone: &[usize]) -> Json {
    let gone: Vec<u64> = gone.iter().copied().map(count).collect();
    Json(format!("{{\"gone\":{}}}", serde_json::Value::from(gone)))
}

fn object(fields: &Fields) -> Option<Json> {
    (!fields.is_empty()).then(|| json::write_object(fields))
}
