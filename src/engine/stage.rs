//! Staging: entries are sealed and folded one after the other, then stored as one batch.

use crate::log::{
    Body, By, Commitment, ConversationId, Entry, Hash, Head, Iteration, Key, Micros, Provenance,
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

impl Meta {
    /// The same for the first of so many entries.
    pub fn first_of(&self, entries: u32) -> Self {
        let mut meta = self.clone();
        meta.key = meta.key.map(|key| Key { entries, ..key });
        meta
    }
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
        let salt = self.environment.salt().map_err(Error::Randomness)?;
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
        let mut entry = Entry {
            conversation: self.conversation,
            seq,
            iteration: self.iteration(),
            at: meta.at,
            prev: self.head.map_or(Hash::ZERO, |h| h.hash),
            provenance: meta.provenance,
            must_understand,
            by: meta.by,
            key: meta.key,
            body,
        };
        let (hash, bytes) = entry::store(&entry)?;
        self.push(&mut entry, hash, bytes);
        Ok(seq)
    }

    /// Folds an entry, which is not needed any more then, and stages its bytes.
    fn push(&mut self, entry: &mut Entry, hash: Hash, bytes: Vec<u8>) {
        debug_assert_eq!(entry.body.commitments().len(), self.payloads.len());
        self.state.absorb(entry);
        if let Some(pace) = &mut self.pace {
            let due = pace.pass(entry, hash, bytes.len(), self.state);
            self.taken.extend(due);
        }
        let seq = entry.seq;
        self.head = Some(Head { seq, hash });
        self.bytes = self.bytes.saturating_add(bytes.len());
        self.records.push(Record {
            seq,
            hash,
            entry: bytes,
            payloads: std::mem::take(&mut self.payloads),
        });
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
