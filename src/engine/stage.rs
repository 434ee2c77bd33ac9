//! Staging: entries are sealed and folded one after the other, then stored as one batch.

use crate::log::{
    Body, By, Commitment, ConversationId, Entry, Head, Iteration, Key, Micros, Provenance, Sealed,
    Seq, entry, payload,
};
use crate::store::{Batch, Name, Payload, Record};
use crate::window::{Pace, Projection, Taken};

use super::environment::Environment;
use super::error::Error;

/// What goes around a body.
#[derive(Clone, Debug)]
pub(super) struct Meta {
    pub at: Option<Micros>,
    pub by: By,
    pub provenance: Provenance,
    pub key: Option<Key>,
}

/// Entries that are sealed and folded, but not stored yet.
#[derive(Debug)]
pub(super) struct Stage<'a> {
    conversation: ConversationId,
    environment: &'a dyn Environment,
    /// The fold, staged entries included.
    pub state: &'a mut Projection,
    expected: Option<Head>,
    head: Option<Head>,
    records: Vec<Record>,
    payloads: Vec<Option<Payload>>,
    bytes: usize,
    /// When the next snapshot is due, and those that were.
    pace: Option<&'a mut Pace>,
    taken: Vec<Taken>,
}

impl<'a> Stage<'a> {
    pub fn new(
        conversation: ConversationId,
        environment: &'a dyn Environment,
        state: &'a mut Projection,
        head: Option<Head>,
    ) -> Self {
        // Most requests file one entry with one content, and stores may keep both as they come.
        let (records, payloads) = (Vec::with_capacity(1), Vec::new());
        Self {
            conversation,
            environment,
            state,
            expected: head,
            head,
            records,
            payloads,
            bytes: 0,
            pace: None,
            taken: Vec::new(),
        }
    }

    /// Takes the snapshots that are due.
    pub fn with_pace(mut self, pace: &'a mut Pace) -> Self {
        self.pace = Some(pace);
        self
    }

    /// The snapshots that were due; they may be kept once the entries are stored.
    pub fn taken(&mut self) -> Vec<Taken> {
        std::mem::take(&mut self.taken)
    }

    /// The number that the next entry gets.
    pub fn next_seq(&self) -> Seq {
        self.head.map_or(Seq(0), |h| h.seq.next())
    }

    /// The iteration that the next entry belongs to.
    pub fn iteration(&self) -> Iteration {
        self.state.next_iteration()
    }

    /// Salts a content of the entry that is filed next, and commits to it.
    pub fn content(&mut self, bytes: Vec<u8>) -> Result<Commitment, Error> {
        let salt = self.environment.random().map_err(Error::Randomness)?;
        let commitment = payload::commit(&salt, &bytes);
        self.bytes = self.bytes.saturating_add(bytes.len());
        self.payloads.reserve_exact(1);
        self.payloads.push(Some(Payload { salt, bytes }));
        Ok(commitment)
    }

    /// Seals and folds an entry, with the contents committed to since the one before.
    pub fn file(&mut self, body: Body, meta: Meta) -> Result<Seq, Error> {
        let seq = self.next_seq();
        let must_understand = body.kind().is_none_or(crate::log::Kind::must_understand);
        let sealed = entry::seal(Entry {
            conversation: self.conversation,
            seq,
            iteration: self.iteration(),
            at: meta.at,
            prev: self.head.map_or(crate::log::Hash::ZERO, |h| h.hash),
            provenance: meta.provenance,
            must_understand,
            by: meta.by,
            key: meta.key,
            body,
        })?;
        self.push(sealed);
        Ok(seq)
    }

    fn push(&mut self, sealed: Sealed) {
        debug_assert_eq!(sealed.entry.body.commitments().len(), self.payloads.len());
        self.state.apply(&sealed.entry);
        if let Some(pace) = &mut self.pace {
            let (entry, bytes) = (&sealed.entry, sealed.bytes.len());
            let due = pace.pass(entry, sealed.hash, bytes, self.state);
            self.taken.extend(due);
        }
        self.head = Some(sealed.head());
        self.bytes = self.bytes.saturating_add(sealed.bytes.len());
        self.records.push(Record {
            seq: sealed.entry.seq,
            hash: sealed.hash,
            entry: sealed.bytes,
            payloads: std::mem::take(&mut self.payloads),
        });
    }

    /// Files an entry that was sealed elsewhere, with its payloads as far as they are there.
    pub fn adopt(&mut self, sealed: Sealed, payloads: Vec<Option<Payload>>) {
        self.payloads = payloads;
        self.push(sealed);
    }

    /// The payload of a staged entry.
    pub fn payload(&self, seq: Seq, index: u32) -> Option<&Payload> {
        let staged = self.records.iter().find(|r| r.seq == seq)?;
        staged.payloads.get(usize::try_from(index).ok()?)?.as_ref()
    }

    /// How many entries are staged, and how many bytes they hold.
    pub const fn size(&self) -> (usize, usize) {
        (self.records.len(), self.bytes)
    }

    /// The staged entries as one batch, and the head they lead to. `None` when nothing is staged.
    pub fn batch(self, birth: Option<Name>) -> Option<(Batch, Head)> {
        let head = self.head?;
        if self.records.is_empty() {
            return None;
        }
        let batch = Batch {
            conversation: self.conversation,
            expected: self.expected,
            birth,
            records: self.records,
        };
        Some((batch, head))
    }
}
