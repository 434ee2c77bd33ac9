//! The half of `verify` that needs no fold: does each entry stand where it should, and are its words
//! what it committed to?
//!
//! A log is read by one thread and hashed by a second, so that whoever folds it waits for neither.
//! Only the first asks the store, and it reads to the log's end whatever the others find: what a
//! store is asked does not depend on which thread is faster.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender};

use serde::Serialize;

use crate::log::{
    Body, Commitment, ConversationId, Entry, Hash, Head, Kind, Seq, entry, payload, payload::Secret,
};
use crate::store::{Backend, Payload, StoreError};

/// How many entries are handed over at once, and the bytes from which fewer are.
const LOT: usize = 64;
const LOT_BYTES: usize = 128 << 10;

/// What became of payloads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Payloads {
    /// They match their commitment.
    pub intact: u64,
    /// They were destroyed on purpose.
    pub redacted: u64,
    /// They are damaged or lost.
    pub lost: u64,
}

impl Payloads {
    pub(super) const fn and(self, other: Self) -> Self {
        Self {
            intact: self.intact.saturating_add(other.intact),
            redacted: self.redacted.saturating_add(other.redacted),
            lost: self.lost.saturating_add(other.lost),
        }
    }
}

/// The place in a log's chain that is reached.
#[derive(Debug)]
pub(super) struct Chain {
    id: ConversationId,
    /// The newest entry that hangs together with those before it.
    pub(super) head: Option<Head>,
    /// The calls so far.
    calls: u64,
}

impl Chain {
    pub(super) const fn new(id: ConversationId) -> Self {
        Self {
            id,
            head: None,
            calls: 0,
        }
    }

    /// The number that is due.
    pub(super) fn next(&self) -> Seq {
        self.head.map_or(Seq(0), |h| h.seq.next())
    }

    /// Goes on to the entry found under a number, or says why it cannot stand there.
    pub(super) fn follow(&mut self, seq: Seq, entry: &Entry, hash: Hash) -> Result<(), &'static str> {
        let prev = self.head.map_or(Hash::ZERO, |h| h.hash);
        if entry.conversation != self.id {
            return Err("it belongs to another conversation");
        }
        if entry.seq != seq || seq != self.next() {
            return Err("it has another number than its place");
        }
        if entry.prev != prev {
            return Err("it does not continue the entry before");
        }
        if entry.iteration.0 != self.calls.saturating_add(1) {
            return Err("its iteration does not follow from the calls before it");
        }
        let opened = entry.body.kind() == Some(Kind::Opened);
        if opened != (seq == Seq(0)) {
            return Err("only the first entry, and it alone, opens a log");
        }
        if matches!(entry.body, Body::Called(_)) {
            self.calls = self.calls.saturating_add(1);
        }
        self.head = Some(Head { seq, hash });
        Ok(())
    }
}

/// Whether a payload is what an entry committed to.
pub(super) fn intact(payload: &Payload, committed: &Commitment) -> bool {
    payload::commit(&payload.salt, &payload.bytes) == *committed
}

/// An entry as the store has it, decoded.
pub(super) struct Read {
    seq: Seq,
    bytes: Vec<u8>,
    entry: Result<Entry, String>,
    words: Vec<Words>,
}

/// What the store has for a commitment.
struct Words {
    committed: Commitment,
    /// `None`: it was destroyed on purpose.
    found: Result<Option<Payload>, String>,
    /// What is wrong with its blobs.
    blobs: Option<String>,
}

/// An entry that was hashed.
pub(super) struct Link {
    pub(super) seq: Seq,
    pub(super) hash: Hash,
    pub(super) entry: Result<Entry, String>,
    pub(super) payloads: Payloads,
    /// What is wrong with its payloads.
    pub(super) lost: Vec<String>,
}

/// Reads a log up to its head record and hands over what it finds, in order.
pub(super) struct Reader<'a> {
    backend: &'a dyn Backend,
    id: ConversationId,
    secret: Option<Secret>,
    lot: Vec<Read>,
    bytes: usize,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(backend: &'a dyn Backend, id: ConversationId) -> Self {
        Self {
            backend,
            id,
            secret: None,
            lot: Vec::new(),
            bytes: 0,
        }
    }

    /// Ends early where the store fails, and says how.
    pub(super) fn read(mut self, to: Seq, give: &SyncSender<Vec<Read>>) -> Result<(), StoreError> {
        let (backend, id) = (self.backend, self.id);
        let read = backend.records(id, Seq(0), to, &mut |seq, bytes, payload| {
            let read = self.record(seq, bytes, payload);
            self.lot.push(read);
            if self.lot.len() >= LOT || self.bytes >= LOT_BYTES {
                self.hand_over(give);
            }
            ControlFlow::Continue(())
        });
        self.hand_over(give);
        read
    }

    fn hand_over(&mut self, give: &SyncSender<Vec<Read>>) {
        self.bytes = 0;
        // Whoever no longer listens has ended by a panic, which tells more.
        let _ = give.send(std::mem::replace(&mut self.lot, Vec::with_capacity(LOT)));
    }

    fn record(
        &mut self,
        seq: Seq,
        bytes: &[u8],
        payload: &dyn Fn(u32) -> Result<Option<Payload>, StoreError>,
    ) -> Read {
        let entry = entry::decode_entry(bytes).map_err(|error| error.to_string());
        let commitments = entry.as_ref().map(|e| e.body.commitments());
        let mut words = Vec::new();
        for (index, committed) in (0_u32..).zip(commitments.unwrap_or_default()) {
            let found = payload(index).map_err(|error| error.to_string());
            let held = found.as_ref().ok().and_then(Option::as_ref);
            if seq == Seq(0) {
                self.secret = held.and_then(|p| payload::decode_secret(&p.bytes).ok());
            }
            let blobs = held.and_then(|p| self.blobs(&p.bytes).err());
            self.bytes = self.bytes.saturating_add(held.map_or(0, |p| p.bytes.len()));
            words.push(Words {
                committed,
                found,
                blobs,
            });
        }
        Read {
            seq,
            bytes: bytes.to_vec(),
            entry,
            words,
        }
    }

    /// Looks at the blobs a payload mentions.
    fn blobs(&self, bytes: &[u8]) -> Result<(), String> {
        let addresses = payload::blobs_of(bytes).map_err(|e| e.to_string())?;
        for address in addresses {
            let found = self.backend.blob(self.id, address);
            let short = address.short();
            match found.map_err(|e| e.to_string())? {
                Some(blob) if self.secret.is_some_and(|s| s.address(&blob) == address) => {}
                Some(_) => return Err(format!("the blob {short} does not match")),
                None => return Err(format!("the blob {short} is missing")),
            }
        }
        Ok(())
    }
}

/// Hashes what was read, and hands it on.
pub(super) fn hash(lots: &Receiver<Vec<Read>>, give: &SyncSender<Vec<Link>>) {
    for lot in lots {
        // As above.
        let _ = give.send(lot.into_iter().map(hashed).collect());
    }
}

fn hashed(read: Read) -> Link {
    let (mut payloads, mut lost) = (Payloads::default(), Vec::new());
    for words in read.words {
        let counter = match words.state() {
            Ok(true) => &mut payloads.intact,
            Ok(false) => &mut payloads.redacted,
            Err(what) => {
                lost.push(format!("the payload of {}: {what}", read.seq));
                &mut payloads.lost
            }
        };
        *counter = counter.saturating_add(1);
    }
    Link {
        seq: read.seq,
        hash: entry::hash(&read.bytes),
        entry: read.entry,
        payloads,
        lost,
    }
}

impl Words {
    /// Whether they are there, as committed to; they may have been destroyed on purpose.
    fn state(self) -> Result<bool, String> {
        let Some(payload) = self.found? else {
            return Ok(false);
        };
        if !intact(&payload, &self.committed) {
            return Err("does not match the entry's commitment".to_owned());
        }
        self.blobs.map_or(Ok(true), Err)
    }
}
