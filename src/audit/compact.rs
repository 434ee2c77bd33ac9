//! Logs written anew into another store, so that what was destroyed leaves the disk.
//!
//! Entries, payloads and blobs go over byte by byte, record by record; what a log's records do not
//! mention stays behind: destroyed payloads and their blobs, what the store had not yet reused, and
//! derived data, which comes again by itself.

use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;

use crate::engine::{Error, Store};
use crate::log::{Body, ConversationId, Entry, Hash, Head, Seq, entry, payload};
use crate::store::{
    Backend, Batch, Level, Listed, Name, Payload, PayloadAt, PayloadRef, Record, StoreError,
};

use super::chain::intact;

/// How much of a log is written at once.
const RECORDS_MAX: usize = 512;
const BYTES_MAX: usize = 4 << 20;
/// How many blobs are remembered as written; beyond that some are written again, which changes nothing.
const BLOBS_MAX: usize = 1 << 16;

/// Why logs could not be written anew. What was written until then is of no use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompactError {
    /// A store failed.
    #[error(transparent)]
    Engine(#[from] Error),
    /// A log is not whole, and a copy of it would hide that.
    #[error("'{name}' is damaged at {seq}: {what}")]
    Damaged {
        /// The log.
        name: String,
        /// The entry.
        seq: Seq,
        /// What is wrong.
        what: String,
    },
}

impl From<StoreError> for CompactError {
    fn from(error: StoreError) -> Self {
        Self::Engine(error.into())
    }
}

/// Writes all conversations of a store into another, which holds none: same ids, names and bytes of
/// entries, a fork after its parent. `progress` hears how many entries are done, and of how many.
/// Gives what was written; [`super::verify_each`] says whether it hangs together.
///
/// # Errors
/// When a log is damaged, when a blob or payload is lost, or when a store fails.
pub fn compact(
    from: &Store,
    into: &Store,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Vec<Listed>, CompactError> {
    let all = from.list()?;
    let mut total = 0_u64;
    for one in &all {
        total = total.saturating_add(own_entries(from.backend(), one.conversation)?);
    }
    let mut due: VecDeque<&Listed> = all.iter().collect();
    let mut written = BTreeSet::new();
    let mut done = 0;
    // A log whose parent is not there yet waits for another turn; when all wait, for none.
    let mut waited = 0;
    while let Some(listed) = due.pop_front() {
        let parents = (waited < due.len().saturating_add(1)).then_some(&written);
        let copy = Copying::new(from.backend(), into.backend(), listed, parents);
        if copy.run(&mut done, &mut |done| progress(done, total))? {
            written.insert(listed.conversation);
            waited = 0;
        } else {
            due.push_back(listed);
            waited = waited.saturating_add(1);
        }
    }
    into.backend().sync(Level::Synced)?;
    Ok(all)
}

/// How many entries a log has of its own: those of a fork's parent are the parent's.
fn own_entries(backend: &dyn Backend, id: ConversationId) -> Result<u64, StoreError> {
    let first = backend.first(id)?.unwrap_or(Seq(0));
    let end = backend
        .head(id)?
        .map_or(0, |head| head.seq.0.saturating_add(1));
    Ok(end.saturating_sub(first.0))
}

/// One log on its way.
struct Copying<'a> {
    from: &'a dyn Backend,
    into: &'a dyn Backend,
    id: ConversationId,
    name: &'a Name,
    /// The logs that are there already; `None` where it does not matter.
    parents: Option<&'a BTreeSet<ConversationId>>,
    /// The entry before, a fork's parent's included.
    before: Option<Head>,
    /// What the other store has of this log.
    written: Option<Head>,
    records: Vec<Record>,
    bytes: usize,
    blobs: BTreeSet<Hash>,
}

/// What reading a log came to, where it did not end by itself.
enum Stop {
    Waits,
    Failed(CompactError),
}

impl From<CompactError> for Stop {
    fn from(error: CompactError) -> Self {
        Self::Failed(error)
    }
}

impl<'a> Copying<'a> {
    fn new(
        from: &'a dyn Backend,
        into: &'a dyn Backend,
        listed: &'a Listed,
        parents: Option<&'a BTreeSet<ConversationId>>,
    ) -> Self {
        Self {
            from,
            into,
            id: listed.conversation,
            name: &listed.name,
            parents,
            before: None,
            written: None,
            records: Vec::new(),
            bytes: 0,
            blobs: BTreeSet::new(),
        }
    }

    /// Says whether the log went over; `false` where its parent has to go first.
    fn run(mut self, done: &mut u64, progress: &mut dyn FnMut(u64)) -> Result<bool, CompactError> {
        let Some(head) = self.from.head(self.id)? else {
            return Err(self.damaged(Seq(0), "it has no entries"));
        };
        let (from, id) = (self.from, self.id);
        let first = from.first(id)?.unwrap_or(Seq(0));
        // A fork's first entry has to continue the parent's entry that it left.
        let begin = Seq(first.0.saturating_sub(1));
        let mut stopped = None;
        from.records(id, begin, head.seq, &mut |seq, bytes, payload| match self
            .take(seq, bytes, payload)
        {
            Ok(()) => {
                *done = done.saturating_add(u64::from(seq >= first));
                progress(*done);
                ControlFlow::Continue(())
            }
            Err(stop) => {
                stopped = Some(stop);
                ControlFlow::Break(())
            }
        })?;
        match stopped {
            Some(Stop::Waits) => return Ok(false),
            Some(Stop::Failed(error)) => return Err(error),
            None => self.write()?,
        }
        if self.written == Some(head) {
            return Ok(true);
        }
        Err(self.damaged(head.seq, "the log does not end where its head record says"))
    }

    fn damaged(&self, seq: Seq, what: impl ToString) -> CompactError {
        let (name, what) = (self.name.name.clone(), what.to_string());
        CompactError::Damaged { name, seq, what }
    }

    fn take(&mut self, seq: Seq, bytes: &[u8], payload: PayloadAt<'_>) -> Result<(), Stop> {
        let sealed = entry::open(bytes).map_err(|error| self.damaged(seq, error))?;
        let follows = |before: Head| {
            before.seq.next() == sealed.entry.seq && before.hash == sealed.entry.prev
        };
        if sealed.entry.seq != seq || !self.before.is_none_or(follows) {
            return Err(self
                .damaged(seq, "it does not continue the entry before")
                .into());
        }
        self.before = Some(sealed.head());
        if sealed.entry.conversation != self.id {
            return Ok(()); // of a fork's parent, and there under its own id
        }
        if self.waits(&sealed.entry.body) {
            return Err(Stop::Waits);
        }
        let payloads = self.payloads(&sealed.entry, payload)?;
        let words = payloads.iter().flatten().map(|p| p.bytes.len());
        self.bytes = words.fold(self.bytes, usize::saturating_add);
        self.bytes = self.bytes.saturating_add(bytes.len());
        self.records.push(Record {
            seq,
            hash: sealed.hash,
            entry: sealed.bytes,
            payloads,
        });
        if self.records.len() >= RECORDS_MAX || self.bytes >= BYTES_MAX {
            self.write()?;
        }
        Ok(())
    }

    fn waits(&self, body: &Body) -> bool {
        let (Body::Opened(opened), Some(parents)) = (body, self.parents) else {
            return false;
        };
        let parent = opened.fork.as_ref().map(|fork| fork.parent);
        parent.is_some_and(|parent| !parents.contains(&parent))
    }

    fn payloads(
        &mut self,
        entry: &Entry,
        payload: PayloadAt<'_>,
    ) -> Result<Vec<Option<Payload>>, CompactError> {
        let mut payloads = Vec::new();
        for (index, committed) in (0_u32..).zip(entry.body.commitments()) {
            let found = payload(index)?.map(PayloadRef::into_owned);
            if let Some(found) = &found {
                if !intact(&found.salt, &found.bytes, &committed) {
                    let what = "a payload does not match the entry's commitment";
                    return Err(self.damaged(entry.seq, what));
                }
                self.blobs(entry.seq, &found.bytes)?;
            }
            payloads.push(found);
        }
        Ok(payloads)
    }

    fn blobs(&mut self, seq: Seq, bytes: &[u8]) -> Result<(), CompactError> {
        let addresses = payload::blobs_of(bytes).map_err(|error| self.damaged(seq, error))?;
        for address in addresses {
            if self.blobs.len() >= BLOBS_MAX {
                self.blobs.clear();
            }
            if !self.blobs.insert(address) {
                continue;
            }
            let Some(blob) = self.from.blob(self.id, address)? else {
                let what = format!("the blob {} is lost", address.short());
                return Err(self.damaged(seq, what));
            };
            self.into.put_blob(self.id, address, &blob)?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), CompactError> {
        let Some(last) = self.records.last() else {
            return Ok(());
        };
        let head = Head {
            seq: last.seq,
            hash: last.hash,
        };
        let batch = Batch {
            conversation: self.id,
            expected: self.written,
            birth: self.written.is_none().then(|| self.name.clone()),
            records: std::mem::take(&mut self.records),
        };
        // Nobody asks for these until all is there, and synced.
        self.into.append(batch, Level::Buffered)?;
        self.written = Some(head);
        self.bytes = 0;
        Ok(())
    }
}
