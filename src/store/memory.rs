//! Logs in memory: for tests, and for what need not outlive the process.

#[cfg(feature = "testkit")]
mod raw;

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::limits::{self, BLOB_BYTES_MAX, DERIVED_BYTES_MAX, NAME_BYTES_MAX};
use super::{Backend, Batch, Level, Listed, Name, Payload, Record, StoreError};
use crate::log::{ConversationId, Hash, Head, Seq};
use crate::planted::{Bug, planted};

#[cfg(feature = "testkit")]
pub(crate) use self::raw::{Place, Stored};

/// A store in memory, gone with its last clone. It accepts and refuses exactly what
/// [`SledStore`](super::SledStore) does; every level is reached at once, as there is nothing to
/// survive.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
}

#[derive(Clone, Debug, Default)]
struct State {
    logs: BTreeMap<ConversationId, Log>,
    names: BTreeMap<Name, ConversationId>,
    blobs: BTreeMap<(ConversationId, Hash), Vec<u8>>,
    derived: BTreeMap<(ConversationId, String), Vec<u8>>,
}

#[derive(Clone, Debug)]
struct Log {
    head: Head,
    entries: Entries,
}

/// Entries by seq. They are dense, so a list holds them in half the room of a tree: only bytes that
/// were put here past [`Backend::append`] leave gaps.
#[derive(Clone, Debug, Default)]
struct Entries {
    first: Seq,
    /// Neither end is a gap.
    list: VecDeque<Option<Entry>>,
}

impl Entries {
    fn first(&self) -> Option<Seq> {
        (!self.list.is_empty()).then_some(self.first)
    }

    fn last(&self) -> Option<Seq> {
        let behind = u64::try_from(self.list.len().checked_sub(1)?).ok()?;
        Some(Seq(self.first.0.saturating_add(behind)))
    }

    fn at(&self, seq: Seq) -> Option<usize> {
        usize::try_from(seq.0.checked_sub(self.first.0)?).ok()
    }

    fn get(&self, seq: Seq) -> Option<&Entry> {
        self.list.get(self.at(seq)?)?.as_ref()
    }

    fn get_mut(&mut self, seq: Seq) -> Option<&mut Entry> {
        let at = self.at(seq)?;
        self.list.get_mut(at)?.as_mut()
    }

    fn iter(&self) -> impl Iterator<Item = (Seq, &Entry)> {
        let seqs = (self.first.0..).map(Seq);
        seqs.zip(&self.list)
            .filter_map(|(seq, entry)| Some((seq, entry.as_ref()?)))
    }

    fn put(&mut self, record: Record) {
        let entry = Entry {
            bytes: record.entry.into(),
            payloads: record.payloads,
        };
        let seq = record.seq;
        if self.list.is_empty() {
            self.first = seq;
        }
        while seq < self.first {
            self.list.push_front(None);
            self.first = Seq(self.first.0.saturating_sub(1));
        }
        while self.last().is_none_or(|last| last < seq) {
            self.list.push_back(None);
        }
        let at = self.at(seq);
        if let Some(place) = at.and_then(|at| self.list.get_mut(at)) {
            *place = Some(entry);
        }
    }
}

#[derive(Clone, Debug)]
struct Entry {
    bytes: Arc<[u8]>,
    /// `None`: destroyed.
    payloads: Vec<Option<Payload>>,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A panic of another thread leaves no half change: every change is one insertion.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    /// Where the entries and the head record contradict each other: nowhere, unless bytes were put
    /// here past [`Backend::append`].
    fn torn(&self) -> Option<(Seq, &'static str)> {
        let mut expected = self.entries.first()?;
        for (seq, _) in self.entries.iter() {
            if seq > self.head.seq {
                return Some((seq, "there is an entry beyond the head record"));
            }
            if seq != expected {
                return Some((expected, "the entry is missing"));
            }
            expected = seq.next();
        }
        (expected <= self.head.seq).then_some((expected, "the entry is missing"))
    }
}

impl Entry {
    /// Takes out what it committed to, which no redaction may do.
    fn forget(&mut self, held: &Payload) {
        let digest = crate::log::payload::commit(&held.salt, &held.bytes)
            .digest
            .0;
        let mut bytes = self.bytes.to_vec();
        let at = bytes.windows(digest.len()).position(|w| w == digest);
        let found = at.and_then(|at| bytes.get_mut(at..)?.get_mut(..digest.len()));
        found.into_iter().for_each(|found| found.fill(0));
        self.bytes = bytes.into();
    }
}

impl State {
    /// The head of a log that hangs together at its end.
    fn head(&self, conversation: ConversationId) -> Result<Option<Head>, StoreError> {
        let Some(log) = self.logs.get(&conversation) else {
            return Ok(None);
        };
        let last = log.entries.last();
        if last == Some(log.head.seq) {
            return Ok(Some(log.head));
        }
        let (seq, reason) = log.torn().unwrap_or((log.head.seq, "the entry is missing"));
        Err(damaged(conversation, seq, reason))
    }

    fn entry(&self, conversation: ConversationId, seq: Seq) -> Option<&Entry> {
        self.logs.get(&conversation)?.entries.get(seq)
    }

    fn first(&self, conversation: ConversationId) -> Option<Seq> {
        let log = self.logs.get(&conversation)?;
        log.entries.first()
    }

    fn payload(&mut self, place: (ConversationId, Seq, u32)) -> Option<&mut Option<Payload>> {
        let (conversation, seq, index) = place;
        let is_root = |of| self.first(of) == Some(Seq(0));
        let log = if planted(Bug::LogsShareTheirPayloads) && is_root(conversation) {
            let logs = self.logs.iter_mut();
            let root = |log: &Log| log.entries.get(Seq(0)).is_some();
            logs.filter(|(_, log)| root(log) && log.entries.get(seq).is_some())
                .min_by_key(|(id, _)| **id)
                .map(|(_, log)| log)
        } else {
            self.logs.get_mut(&conversation)
        };
        let entry = log?.entries.get_mut(seq)?;
        entry.payloads.get_mut(usize::try_from(index).ok()?)
    }
}

impl Backend for MemoryStore {
    fn append(&self, batch: Batch, _level: Level) -> Result<(), StoreError> {
        let (_, newest) = limits::validate(&batch)?;
        let Batch {
            conversation,
            expected,
            birth,
            records,
        } = batch;
        let mut state = self.state();
        let head = state.head(conversation)?;
        if planted(Bug::StoreTakesNothing) {
            let reason = "nothing is taken".to_owned();
            return Err(StoreError::Malformed { reason });
        }
        if head != expected && !planted(Bug::TwoWritersWin) {
            return Err(StoreError::Stale { head });
        }
        if let Some(name) = birth {
            if let Some(&conversation) = state.names.get(&name) {
                return Err(StoreError::NameTaken { name, conversation });
            }
            state.names.insert(name, conversation);
        }
        let empty = || Log {
            head: newest,
            entries: Entries::default(),
        };
        let log = state.logs.entry(conversation).or_insert_with(empty);
        log.head = newest;
        records
            .into_iter()
            .for_each(|record| log.entries.put(record));
        Ok(())
    }

    fn head(&self, conversation: ConversationId) -> Result<Option<Head>, StoreError> {
        self.state().head(conversation)
    }

    fn first(&self, conversation: ConversationId) -> Result<Option<Seq>, StoreError> {
        Ok(self.state().first(conversation))
    }

    fn durable_head(&self, conversation: ConversationId) -> Result<Option<Head>, StoreError> {
        self.head(conversation)
    }

    fn entries(
        &self,
        conversation: ConversationId,
        from: Seq,
        to: Seq,
        show: &mut dyn FnMut(Seq, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let Some(head) = self.head(conversation)? else {
            return Ok(());
        };
        let first = self.state().first(conversation);
        if first.is_none_or(|first| from < first) {
            return Ok(());
        }
        let mut seq = from;
        while seq <= to.min(head.seq) {
            // Not locked while it is shown: the caller may use the store.
            let bytes = self
                .state()
                .entry(conversation, seq)
                .map(|entry| Arc::clone(&entry.bytes));
            let Some(bytes) = bytes else {
                return Err(damaged(conversation, seq, "the entry is missing"));
            };
            if show(seq, &bytes).is_break() || seq == seq.next() {
                break;
            }
            seq = seq.next();
        }
        Ok(())
    }

    fn payload(
        &self,
        conversation: ConversationId,
        seq: Seq,
        index: u32,
    ) -> Result<Option<Payload>, StoreError> {
        Ok(self
            .state()
            .payload((conversation, seq, index))
            .and_then(|payload| payload.clone()))
    }

    fn destroy_payload(
        &self,
        conversation: ConversationId,
        seq: Seq,
        index: u32,
        _level: Level,
    ) -> Result<(), StoreError> {
        let mut state = self.state();
        let held = state.payload((conversation, seq, index));
        let held = held.and_then(Option::take);
        if let Some(held) = held.filter(|_| planted(Bug::RedactionTakesTheHash)) {
            let log = state.logs.get_mut(&conversation);
            let entry = log.and_then(|log| log.entries.get_mut(seq));
            entry.into_iter().for_each(|entry| entry.forget(&held));
        }
        Ok(())
    }

    fn list(&self, prefix: &[String]) -> Result<Vec<Listed>, StoreError> {
        let state = self.state();
        let inside = state
            .names
            .iter()
            .filter(|(name, _)| name.namespace.starts_with(prefix));
        Ok(inside
            .map(|(name, &conversation)| Listed {
                name: name.clone(),
                conversation,
            })
            .collect())
    }

    fn find(&self, name: &Name) -> Result<Option<ConversationId>, StoreError> {
        Ok(self.state().names.get(name).copied())
    }

    fn put_blob(
        &self,
        lineage: ConversationId,
        address: Hash,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        limits::within("a blob", bytes.len(), BLOB_BYTES_MAX)?;
        self.state()
            .blobs
            .entry((lineage, address))
            .or_insert_with(|| bytes.to_vec());
        Ok(())
    }

    fn blob(&self, lineage: ConversationId, address: Hash) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.state().blobs.get(&(lineage, address)).cloned())
    }

    fn sweep_blobs(
        &self,
        lineage: ConversationId,
        keep: &dyn Fn(&Hash) -> bool,
    ) -> Result<u64, StoreError> {
        let blobs = &mut self.state().blobs;
        let mut gone = 0_u64;
        blobs.retain(|(owner, address), _| {
            let stays = *owner != lineage || keep(address);
            gone = gone.saturating_add(u64::from(!stays));
            stays
        });
        Ok(gone)
    }

    fn put_derived(
        &self,
        conversation: ConversationId,
        name: &str,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        limits::within("derived data", bytes.len(), DERIVED_BYTES_MAX)?;
        limits::within("the name of derived data", name.len(), NAME_BYTES_MAX)?;
        self.state()
            .derived
            .insert((conversation, name.to_owned()), bytes.to_vec());
        Ok(())
    }

    fn derived(
        &self,
        conversation: ConversationId,
        name: &str,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self
            .state()
            .derived
            .get(&(conversation, name.to_owned()))
            .cloned())
    }

    fn derived_before(
        &self,
        conversation: ConversationId,
        prefix: &str,
        name: &str,
    ) -> Result<Option<(String, Vec<u8>)>, StoreError> {
        let state = self.state();
        let ends = (conversation, prefix.to_owned())..=(conversation, name.to_owned());
        if ends.is_empty() {
            return Ok(None);
        }
        let mut named = state.derived.range(ends).rev();
        let found = named.find(|((_, n), _)| n.starts_with(prefix) && n.len() == name.len());
        Ok(found.map(|((_, name), bytes)| (name.clone(), bytes.clone())))
    }

    fn sync(&self, _level: Level) -> Result<(), StoreError> {
        Ok(())
    }

    /// Memory has no framing of its own that could differ from what it frames; what is left to
    /// compare is each head with its entries, and names with logs.
    fn check(&self, conversation: Option<ConversationId>) -> Result<Vec<StoreError>, StoreError> {
        let state = self.state();
        let asked = |id: &ConversationId| conversation.is_none_or(|only| only == *id);
        let mut found = Vec::new();
        for (id, log) in state.logs.iter().filter(|(id, _)| asked(id)) {
            if let Some((seq, reason)) = log.torn() {
                found.push(damaged(*id, seq, reason));
            }
            if !state.names.values().any(|owner| owner == id) {
                let reason = "no name leads to this conversation";
                found.push(damaged(*id, Seq(0), reason));
            }
        }
        for id in state.names.values().filter(|id| asked(id)) {
            if !state.logs.contains_key(id) {
                found.push(damaged(*id, Seq(0), "a name leads to no conversation"));
            }
        }
        Ok(found)
    }
}

fn damaged(conversation: ConversationId, seq: Seq, reason: &str) -> StoreError {
    StoreError::Damaged {
        conversation: Some(conversation),
        seq: Some(seq),
        reason: reason.to_owned(),
    }
}
