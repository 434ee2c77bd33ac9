//! Forks: a conversation that goes on from an earlier moment of another, which stays as it is.

use std::collections::BTreeMap;

use crate::log::{
    Appended, Author, Block, BlockBody, Body, By, Commitment, ConversationId, Entry, ForkPoint,
    Hash, Head, Identity, Iteration, Kind, Message, MessageId, Opened, Part, PartBody, PartKind,
    PartSkeleton, Provenance, Redacted, RequestReason, Role, Seq, Shape, Trigger, entry, payload,
};
use crate::planted::{Bug, planted};
use crate::store::{Backend as _, Batch, Name, Payload, Record};
use crate::window::{Outline, answered};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::call::{INTERRUPTED, engine};
use super::conversation::{Conversation, Store};
use super::environment::Environment;
use super::error::{Error, Refusal};
use super::lineage::Line;

/// A call that has no final result yet.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Open {
    label: Option<String>,
    name: String,
    /// The provider runs it, so nobody else may answer.
    native: bool,
}

/// Calls by their message and the part in it.
type Calls = BTreeMap<(Seq, u32), Open>;

impl Store {
    /// Whose entries a fork's log is made of; nothing where it is no fork.
    pub(crate) fn line(&self, id: ConversationId) -> Result<Option<Arc<Line>>, Error> {
        Ok(self.backend.line(id)?)
    }

    /// Whether an entry that was found in a log may stand there: it is the log's own, or of the log
    /// that this one shares the place with.
    pub(crate) fn belongs(&self, id: ConversationId, entry: &Entry) -> bool {
        entry.conversation == id
            || (self.backend.owner(id, entry.seq)).is_ok_and(|owner| owner == entry.conversation)
    }
}

impl Conversation {
    /// Where this conversation left another, if it is a fork. The log before that entry is that of
    /// the parent, and its own first entry follows it.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn forked(&self) -> Result<Option<ForkPoint>, Error> {
        let line = self.store().line(self.id())?;
        Ok(line.and_then(|line| line.left()))
    }

    /// The tool call that started this conversation, if it is a sub-agent's: conversation, message
    /// and part.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn started_by(&self) -> Result<Option<(ConversationId, Seq, u32)>, Error> {
        if self.head()?.is_none() {
            return Ok(None);
        }
        Ok(match self.entry(Seq(0))?.body {
            Body::Opened(opened) => opened.started_by,
            _ => None,
        })
    }

    /// A new conversation, in the same namespace, that shares this one's log up to entry `at` and
    /// goes on from there. Nothing is copied, and this one stays as it is: it costs the same at any
    /// length.
    ///
    /// # Errors
    /// `range-out-of-bounds` beyond the head; `fork-splits-pair` where a tool call has its result
    /// behind `at`; a failure where the name is taken.
    ///
    /// ```
    /// use ctxlog::engine::Store;
    /// use ctxlog::log::Message;
    ///
    /// let store = Store::in_memory();
    /// let chat = store.conversation("a")?;
    /// let question = chat.append(Message::person("How far is the moon?"))?;
    /// chat.append(Message::model("Quite far."))?;
    /// let other = chat.fork(question.last, "b")?;
    /// other.append(Message::model("About 384,400 km."))?;
    /// assert_eq!(other.window()?.items.len(), 2);
    /// assert_eq!(other.forked()?.map(|f| f.parent), Some(chat.id()));
    /// # Ok::<(), ctxlog::engine::Error>(())
    /// ```
    pub fn fork(&self, at: Seq, name: &str) -> Result<Self, Error> {
        self.forked_at(at, name, false)
    }

    /// The same; tool calls that have no result at `at` are answered in the fork, as `interrupted`.
    ///
    /// # Errors
    /// As [`Conversation::fork`]; `fork-splits-pair` only where the provider itself runs the call.
    pub fn fork_closing(&self, at: Seq, name: &str) -> Result<Self, Error> {
        self.forked_at(at, name, true)
    }

    /// The last entry before a call and the visits that were filed with it: where to fork so that the
    /// call is made anew. Results that the engine supplied for it stay.
    ///
    /// # Errors
    /// `range-out-of-bounds` when there was no such call.
    pub fn before_call(&self, iteration: Iteration) -> Result<Seq, Error> {
        let mut at = self.call_at(iteration)?;
        while let Some(before) = at.0.checked_sub(1).map(Seq) {
            at = before;
            match self.entry(at)?.body {
                Body::Visited(visit) if visit.trigger == Trigger::Call => {}
                _ => break,
            }
        }
        Ok(at)
    }

    fn forked_at(&self, at: Seq, name: &str, close: bool) -> Result<Self, Error> {
        let outline = self.outline_after(at)?;
        let open = self.open_calls_at(&outline)?;
        let refused: Calls = self.answered_behind(at, &open)?;
        let mut split = refused.iter().filter(|(_, call)| !close || call.native);
        if let Some(((message, _), call)) = split.next() {
            return Err(splits(at, MessageId(*message), call, close));
        }
        let store = self.store();
        let owner = store.backend.owner(self.id(), at)?;
        let name = Name {
            namespace: self.namespace()?.path(),
            name: name.to_owned(),
        };
        let id = store.new_id()?;
        let mut birth = Birth {
            environment: store.environment(),
            by: store.by(),
            id,
            head: self.head_at(at)?,
            iteration: Iteration(outline.calls.saturating_add(1)),
            records: Vec::new(),
        };
        let (secret, held) = self.inherited(at, &mut birth)?;
        let fork = ForkPoint { parent: owner, at };
        let opened = Opened {
            namespace: name.namespace.clone(),
            name: name.name.clone(),
            identity: Identity::Explicit,
            fork: Some(fork),
            started_by: None,
            secret,
        };
        birth.file(Body::Opened(opened), Provenance::Recorded, held)?;
        if let Some(gone) = self.gone_behind(at)? {
            birth.file(Body::Redacted(gone), Provenance::Recorded, None)?;
        }
        if close {
            for (key, call) in open.iter().filter(|(_, call)| !call.native) {
                self.interrupt(&mut birth, *key, call)?;
            }
        }
        self.is_kept(at)?;
        let batch = Batch {
            conversation: id,
            expected: None,
            birth: Some(name.clone()),
            records: birth.records,
        };
        store.backend.append(batch, store.level())?;
        store.load(id, name)
    }

    /// An entry of this log as a head: what follows it names its hash.
    fn head_at(&self, seq: Seq) -> Result<Head, Error> {
        let mut found = None;
        // A disk that does not read is no damage.
        self.store().entries(self.id(), seq, seq, &mut |sealed| {
            found = Some(sealed.head());
            ControlFlow::Break(())
        })?;
        found.ok_or_else(|| super::past::unchained(self.id(), seq))
    }

    /// The lineage's secret as the fork's own payload. Where it was redacted it stays so.
    fn inherited(
        &self,
        at: Seq,
        birth: &mut Birth<'_>,
    ) -> Result<(Commitment, Option<Payload>), Error> {
        let backend = &self.store().backend;
        let owner = backend.owner(self.id(), at)?;
        let first = backend.first(owner)?.unwrap_or(Seq(0));
        let Body::Opened(opened) = self.entry(first)?.body else {
            return Err(super::past::unchained(owner, first));
        };
        let held = backend.payload(owner, first, 0)?;
        let Some(held) = held else {
            return Ok((opened.secret, None));
        };
        super::content::intact(first, &held, &opened.secret)?;
        birth.content(held.bytes)
    }

    /// Brings what the fork shares to the level that its own entries are acknowledged at.
    fn is_kept(&self, at: Seq) -> Result<(), Error> {
        let backend = &self.store().backend;
        let line = backend.line(self.id())?;
        let shared = line.iter().flat_map(|line| line.ancestors());
        for (owner, last) in shared.chain([(self.id(), at)]) {
            let durable = backend.durable_head(owner)?.map(|head| head.seq);
            if durable < Some(last.min(at)) {
                return Ok(backend.sync(self.store().level())?);
            }
        }
        Ok(())
    }

    /// The calls of a window that have no final result.
    fn open_calls_at(&self, outline: &Outline) -> Result<Calls, Error> {
        let mut calls = Calls::new();
        let mut results = Vec::new();
        self.each_item(&outline.items(), &mut |placed, entries| {
            let first = entries.first(placed);
            let (skeleton, ..) = first.ok_or_else(|| entries.lost(placed.id.seq()))?;
            for (at, part) in (0_u32..).zip(&skeleton.parts) {
                if part.kind == PartKind::Call {
                    calls.insert((placed.id.seq(), at), open(part));
                }
                results.extend(answered(part));
            }
            Ok(())
        })?;
        for call in results {
            calls.remove(&call);
        }
        Ok(calls)
    }

    /// Those of these calls that the log answers behind an entry, as far as their messages were in
    /// the window then.
    fn answered_behind(&self, at: Seq, open: &Calls) -> Result<Calls, Error> {
        let mut found = Calls::new();
        let head = self.stored_head(at)?;
        if open.is_empty() || head <= at {
            return Ok(found);
        }
        // A call that still is in the window and open has no result, however long ago it was made.
        let now = self.outline_stored(head)?;
        let still = self.open_calls_at(&now)?;
        let mut asked = open.clone();
        asked.retain(|call, _| !still.contains_key(call));
        let kinds = [Kind::Appended, Kind::Visited, Kind::Edited];
        let wanted = |_, kind: Option<Kind>| kind.is_some_and(|kind| kinds.contains(&kind));
        let stretch = (at.next(), if asked.is_empty() { at } else { head });
        let store = self.store();
        store.entries_of(self.id(), stretch, &wanted, &mut |entry| {
            match &entry.body {
                Body::Appended(appended) => {
                    for call in appended.skeleton.parts.iter().filter_map(answered) {
                        found.extend(asked.remove(&call).map(|open| (call, open)));
                    }
                }
                body => asked.retain(|(message, _), _| !takes(body, *message)),
            }
            if asked.is_empty() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        Ok(found)
    }

    /// The head as the store has it: what another handle filed counts too.
    fn stored_head(&self, at: Seq) -> Result<Seq, Error> {
        let head = self.store().backend.head(self.id())?;
        Ok(head.map_or(at, |head| head.seq))
    }

    /// What the log says behind an entry of words up to it: that they were destroyed. A fork shares
    /// them, and has to say so itself.
    fn gone_behind(&self, at: Seq) -> Result<Option<Redacted>, Error> {
        let head = self.stored_head(at)?;
        let mut gone = Redacted {
            asked: None,
            up_to: None,
            payloads: Vec::new(),
        };
        // Each names the one before, so that it costs what was redacted and not what was said since.
        let mut newest = self.outline_stored(head)?.redacted;
        while let Some(seq) = newest.filter(|seq| *seq > at) {
            if let Body::Redacted(said) = self.entry(seq)?.body {
                gone.up_to = gone.up_to.max(said.up_to.map(|up_to| up_to.min(at)));
                gone.payloads.extend(said.payloads);
            }
            newest = match seq.0.checked_sub(1) {
                Some(before) => self.outline_stored(Seq(before))?.redacted,
                None => None,
            };
        }
        if planted(Bug::ForksForgetWhatWent) {
            return Ok(None);
        }
        let shared = |seq: Seq| seq <= at && Some(seq) > gone.up_to;
        gone.payloads.retain(|(seq, _)| shared(*seq));
        gone.payloads.sort_unstable();
        gone.payloads.dedup();
        let any = gone.up_to.is_some() || !gone.payloads.is_empty();
        Ok(any.then_some(gone))
    }

    /// Answers a call for the tool that did not.
    fn interrupt(&self, birth: &mut Birth<'_>, key: (Seq, u32), call: &Open) -> Result<(), Error> {
        let message = interrupted(call.label.clone(), call.name.clone());
        let encoded = payload::encode_message(&message, &self.secret()?)?;
        let (content, held) = birth.content(encoded.bytes)?;
        let appended = Appended {
            skeleton: crate::log::skeleton::skeleton(&message, &[Some(key)]),
            continues: None,
            same_source: None,
            produced_by: None,
            content,
        };
        birth.file(Body::Appended(appended), Provenance::Synthetic, held)
    }
}

/// Whether a visit or edit takes a message out of the window.
fn takes(body: &Body, message: Seq) -> bool {
    let id = MessageId(message);
    body.change().is_some_and(|change| {
        let left = change.left.iter().any(|left| left.messages.contains(id));
        left || change
            .stand_ins
            .iter()
            .any(|s| s.kind != crate::log::StandInKind::Form && s.sources.contains(id))
    })
}

fn open(part: &PartSkeleton) -> Open {
    Open {
        label: part.label.clone(),
        name: part.name.clone().unwrap_or_default(),
        native: part.is(PartSkeleton::NATIVE),
    }
}

/// A result that says that there is none.
pub(super) fn interrupted(label: Option<String>, name: String) -> Message {
    let block = Block {
        body: BlockBody::Text(INTERRUPTED.to_owned()),
        extra: Vec::new(),
    };
    let body = PartBody::Result {
        call: label,
        name: Some(name),
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
    Message::new(Role::Tool, Author::Engine, vec![part])
}

fn splits(at: Seq, message: MessageId, call: &Open, close: bool) -> Error {
    let name = &call.name;
    let detail =
        format!("after {at} the call of {name} in {message} has no result; it comes later");
    let refusal = Refusal::new(RequestReason::ForkSplitsPair, detail);
    let help = if close {
        "the provider runs that tool, so its result cannot be made up: fork elsewhere"
    } else {
        "fork elsewhere, or let such calls be answered as interrupted: --close"
    };
    refusal.with_help(help).into()
}

/// The first entries of a fork. They follow from a window, so they are sealed without a fold.
struct Birth<'a> {
    environment: &'a dyn Environment,
    by: &'a By,
    id: ConversationId,
    head: Head,
    iteration: Iteration,
    records: Vec<Record>,
}

impl Birth<'_> {
    /// Salts a content and commits to it.
    fn content(&mut self, bytes: Vec<u8>) -> Result<(Commitment, Option<Payload>), Error> {
        let salt = self.environment.salt().map_err(Error::Randomness)?;
        let commitment = payload::commit(&salt, &bytes);
        Ok((commitment, Some(Payload { salt, bytes })))
    }

    fn file(
        &mut self,
        body: Body,
        provenance: Provenance,
        held: Option<Payload>,
    ) -> Result<(), Error> {
        let by = match provenance {
            Provenance::Synthetic => engine(self.by),
            _ => self.by.clone(),
        };
        let seq = self.head.seq.next();
        let entry = Entry {
            conversation: self.id,
            seq,
            iteration: self.iteration,
            at: self.environment.now(),
            prev: self.head.hash,
            provenance,
            must_understand: body.kind().is_none_or(Kind::must_understand),
            by,
            key: None,
            body,
        };
        let (hash, bytes): (Hash, Vec<u8>) = entry::store(&entry)?;
        self.head = Head { seq, hash };
        self.records.push(Record {
            seq,
            hash,
            entry: bytes,
            payloads: vec![held],
        });
        Ok(())
    }
}
