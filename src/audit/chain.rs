//! The half of `verify` that needs no fold: does each entry stand where it should, and are its words
//! what it committed to?
//!
//! What is read goes on in lots, to whoever folds it in the same thread, or by way of one that hashes.
//! The store is asked by the reader alone, and it reads to the log's end whatever the others find: what
//! a store is asked does not depend on which thread is faster.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use serde::Serialize;

use crate::engine::{Error, Line, Store};
use crate::log::{
    Body, Commitment, ConversationId, Entry, ForkPoint, Hash, Head, Kind, Seq, entry, payload,
    payload::Secret,
};
use crate::store::{Backend, PayloadAt, PayloadRef, StoreError};

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
    /// Of a fork, whose entry stands where.
    line: Result<Option<Arc<Line>>, Error>,
    /// The newest entry that hangs together with those before it.
    pub(super) head: Option<Head>,
    /// The conversation that it is of.
    newest: Option<ConversationId>,
    /// The calls so far.
    calls: u64,
}

impl Chain {
    /// The chain of a log; of a fork as far as what it was forked from can be told.
    pub(super) fn of(store: &Store, id: ConversationId) -> Self {
        Self {
            id,
            line: store.line(id),
            newest: None,
            head: None,
            calls: 0,
        }
    }

    /// The number that is due.
    pub(super) fn next(&self) -> Seq {
        self.head.map_or(Seq(0), |h| h.seq.next())
    }

    /// Goes on to the entry found under a number, or says why it cannot stand there.
    pub(super) fn follow(
        &mut self,
        seq: Seq,
        entry: &Entry,
        hash: Hash,
    ) -> Result<(), &'static str> {
        let prev = self.head.map_or(Hash::ZERO, |h| h.hash);
        if !self.is_of_owner(seq, entry) {
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
        self.opens(entry)?;
        if matches!(entry.body, Body::Called(_)) {
            self.calls = self.calls.saturating_add(1);
        }
        self.head = Some(Head { seq, hash });
        self.newest = Some(entry.conversation);
        Ok(())
    }

    /// Whether an entry may be of its conversation. Where the line cannot be told, reading it fails and
    /// says where.
    fn is_of_owner(&self, seq: Seq, entry: &Entry) -> bool {
        match &self.line {
            Ok(line) => {
                let owner = line.as_ref().and_then(|line| line.owner(seq));
                entry.conversation == owner.unwrap_or(self.id)
            }
            Err(_) => true,
        }
    }

    /// A log is opened by its first entry and by none behind it. Where a fork begins, it says so.
    fn opens(&self, entry: &Entry) -> Result<(), &'static str> {
        let before = self.head.zip(self.newest);
        let before = before.map(|(head, parent)| ForkPoint {
            parent,
            at: head.seq,
        });
        let begins = self.newest != Some(entry.conversation);
        match &entry.body {
            Body::Opened(opened) if begins && opened.fork == before => Ok(()),
            Body::Opened(_) if begins => Err("it names another fork point than its own"),
            body if !begins && body.kind() != Some(Kind::Opened) => Ok(()),
            _ => Err("only the first entry, and it alone, opens a log"),
        }
    }
}

/// Whether a payload is what an entry committed to.
pub(super) fn intact(salt: &[u8; 32], bytes: &[u8], committed: &Commitment) -> bool {
    payload::commit(salt, bytes) == *committed
}

/// Entries with their payloads, from their reading to the fold. Lots go round, so that each thread
/// frees what it took: that is a quarter of the work.
#[derive(Default)]
pub(super) struct Lot {
    pub(super) links: Vec<Link>,
    words: Vec<Words>,
    /// The bytes of all of them.
    bytes: Vec<u8>,
}

/// An entry as the store has it.
pub(super) struct Link {
    pub(super) seq: Seq,
    pub(super) entry: Result<Entry, String>,
    /// Where its bytes and its words are in the lot.
    bytes: Range<usize>,
    words: Range<usize>,
    /// The rest is known when it was hashed.
    pub(super) hash: Hash,
    pub(super) payloads: Payloads,
    /// Payloads that are not there, by their index.
    pub(super) absent: Vec<u32>,
    /// What is wrong with its payloads.
    pub(super) lost: Vec<String>,
}

/// What the store has for a commitment.
struct Words {
    committed: Commitment,
    /// `None`: it was destroyed on purpose.
    found: Result<Option<Salted>, String>,
    /// What is wrong with its blobs.
    blobs: Option<String>,
}

/// A payload: its salt, and where its bytes are in the lot.
struct Salted {
    salt: [u8; 32],
    at: Range<usize>,
}

impl Lot {
    fn is_full(&self) -> bool {
        self.links.len() >= LOT || self.bytes.len() >= LOT_BYTES
    }

    fn clear(&mut self) {
        self.links.clear();
        self.words.clear();
        self.bytes.clear();
        self.bytes.shrink_to(2 * LOT_BYTES);
    }

    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        from..self.bytes.len()
    }

    /// Hashes what was read.
    pub(super) fn hash(&mut self) {
        let bytes = |range: &Range<usize>| self.bytes.get(range.clone()).unwrap_or_default();
        for link in &mut self.links {
            link.hash = entry::hash(bytes(&link.bytes));
            let words = self.words.get(link.words.clone());
            for (index, words) in (0_u32..).zip(words.into_iter().flatten()) {
                let state = words.state(bytes);
                link.count(index, state);
            }
        }
    }
}

impl Link {
    /// Counts a payload: whether it is there, as committed to, or was destroyed on purpose.
    fn count(&mut self, index: u32, state: Result<bool, String>) {
        let counter = match state {
            Ok(true) => &mut self.payloads.intact,
            Ok(false) => {
                self.absent.push(index);
                &mut self.payloads.redacted
            }
            Err(what) => {
                let seq = self.seq;
                self.lost.push(format!("the payload of {seq}: {what}"));
                &mut self.payloads.lost
            }
        };
        *counter = counter.saturating_add(1);
    }
}

impl Words {
    fn state<'a>(&self, bytes: impl Fn(&Range<usize>) -> &'a [u8]) -> Result<bool, String> {
        match &self.found {
            Err(what) => Err(what.clone()),
            Ok(None) => Ok(false),
            Ok(Some(found)) => {
                let blobs = self.blobs.clone().map_or(Ok(()), Err);
                judge(&found.salt, bytes(&found.at), &self.committed, blobs)
            }
        }
    }
}

/// Whether words are there as committed to, with their blobs.
fn judge(
    salt: &[u8; 32],
    bytes: &[u8],
    committed: &Commitment,
    blobs: Result<(), String>,
) -> Result<bool, String> {
    if intact(salt, bytes, committed) {
        blobs.map(|()| true)
    } else {
        Err("does not match the entry's commitment".to_owned())
    }
}

/// Reads a log up to its head record and hands over what it finds, in order.
pub(super) struct Reader<'a> {
    backend: &'a dyn Backend,
    id: ConversationId,
    secret: Option<Secret>,
    /// Whether to hash what is read where it lies, instead of copying it for somebody else to hash.
    hashes: bool,
    lot: Lot,
}

impl<'a> Reader<'a> {
    pub(super) fn new(backend: &'a dyn Backend, id: ConversationId, hashes: bool) -> Self {
        Self {
            backend,
            id,
            secret: None,
            hashes,
            lot: Lot::default(),
        }
    }

    /// Gives each full lot away, for one that was done with. Ends early where the store fails, and says
    /// how.
    pub(super) fn read(
        mut self,
        to: Seq,
        give: &mut dyn FnMut(Lot) -> Lot,
    ) -> Result<(), StoreError> {
        let (backend, id) = (self.backend, self.id);
        let read = backend.records(id, Seq(0), to, &mut |seq, bytes, payload| {
            self.record(seq, bytes, payload);
            if self.lot.is_full() {
                self.hand_over(give);
            }
            ControlFlow::Continue(())
        });
        self.hand_over(give);
        read
    }

    fn hand_over(&mut self, give: &mut dyn FnMut(Lot) -> Lot) {
        self.lot = give(std::mem::take(&mut self.lot));
        self.lot.clear();
    }

    fn record(&mut self, seq: Seq, bytes: &[u8], payload: PayloadAt<'_>) {
        let entry = entry::decode_entry(bytes).map_err(|error| error.to_string());
        let from = self.lot.words.len();
        let mut link = Link {
            seq,
            entry,
            bytes: 0..0,
            words: from..from,
            hash: Hash::ZERO,
            payloads: Payloads::default(),
            absent: Vec::new(),
            lost: Vec::new(),
        };
        let commitments = link.entry.as_ref().map(|e| e.body.commitments());
        for (index, committed) in (0_u32..).zip(commitments.unwrap_or_default()) {
            self.words(&mut link, (index, payload(index)), committed);
        }
        if self.hashes {
            link.hash = entry::hash(bytes);
        } else {
            link.bytes = self.lot.keep(bytes);
            link.words = from..self.lot.words.len();
        }
        self.lot.links.push(link);
    }

    fn words(
        &mut self,
        link: &mut Link,
        (index, found): (u32, Result<Option<PayloadRef<'_>>, StoreError>),
        committed: Commitment,
    ) {
        let mut blobs = Ok(());
        if let Ok(Some(found)) = &found {
            if matches!(&link.entry, Ok(entry) if matches!(entry.body, Body::Opened(_))) {
                self.secret = payload::decode_secret(&found.bytes).ok();
            }
            blobs = self.blobs(&found.bytes);
        }
        if self.hashes {
            let state = match found {
                Err(error) => Err(error.to_string()),
                Ok(None) => Ok(false),
                Ok(Some(PayloadRef { salt, bytes })) => judge(&salt, &bytes, &committed, blobs),
            };
            return link.count(index, state);
        }
        let keep = |PayloadRef { salt, bytes }: PayloadRef<'_>| Salted {
            salt,
            at: self.lot.keep(&bytes),
        };
        let found = found.map(|found| found.map(keep));
        self.lot.words.push(Words {
            committed,
            found: found.map_err(|error| error.to_string()),
            blobs: blobs.err(),
        });
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
