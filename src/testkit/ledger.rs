//! What was written and what was promised: a plain record beside a store that may fail, against
//! which is compared what survived.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use super::model::messages_of;
use super::world::Failure;
use crate::log::payload::{PayloadError, Secret};
use crate::log::{Body, ConversationId, Entry, Hash, Message, Seq, entry, payload};
use crate::store::{Backend, Level, Listed};
use crate::window::Projection;

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum End {
    /// It closed its store.
    Closed,
    /// It was killed.
    Killed,
    /// The power was cut.
    Cut,
}

/// One log as it was written.
#[derive(Debug)]
pub(super) struct Kept {
    pub listed: Listed,
    /// Hash of each entry and digest of the window after it, by seq.
    pub entries: Vec<(Hash, Hash)>,
    /// The same entries as they read.
    pub log: Vec<Entry>,
    /// The messages that each of them gave; none where its words were destroyed.
    pub words: Vec<Vec<Option<Message>>>,
    /// Payloads that it says were destroyed and that are not there.
    pub gone: BTreeSet<(u64, u32)>,
    /// Those that are there still.
    pub unfinished: BTreeSet<(u64, u32)>,
    secret: Option<Secret>,
    /// How many entries survive a power cut, and a kill.
    synced: usize,
    flushed: usize,
    fold: Projection,
    /// The idempotency keys it holds: each once.
    keys: BTreeSet<String>,
}

impl Kept {
    fn new(listed: Listed) -> Self {
        Self {
            listed,
            entries: Vec::new(),
            log: Vec::new(),
            words: Vec::new(),
            gone: BTreeSet::new(),
            unfinished: BTreeSet::new(),
            secret: None,
            synced: 0,
            flushed: 0,
            fold: Projection::default(),
            keys: BTreeSet::new(),
        }
    }

    /// How many entries must be there after an end of this kind.
    pub(super) fn promised(&self, end: End) -> usize {
        match end {
            End::Closed | End::Cut => self.synced,
            End::Killed => self.flushed.max(self.synced),
        }
    }

    fn promise(&mut self, level: Level, entries: usize) {
        let entries = entries.min(self.entries.len());
        match level {
            Level::Buffered => {}
            Level::Flushed => self.flushed = self.flushed.max(entries),
            Level::Synced => self.synced = self.synced.max(entries),
        }
    }

    /// The seq that its next entry gets.
    pub(super) fn next(&self) -> Seq {
        Seq(u64::try_from(self.entries.len()).unwrap_or(u64::MAX))
    }

    /// The digest of the window after as many entries.
    pub(super) fn digest(&self, entries: usize) -> Option<Hash> {
        let last = entries.checked_sub(1)?;
        self.entries.get(last).map(|(_, digest)| *digest)
    }

    /// Reads what is new.
    fn observe(&mut self, backend: &dyn Backend) -> Result<(), String> {
        let before = self.entries.len();
        let head = backend.head(self.listed.conversation);
        let head = head.map_err(|e| e.to_string())?;
        let head = head.ok_or("a listed log has no head")?;
        if head.seq.next() != self.next() {
            self.take(backend)?;
        }
        let newest = self.entries.last().map(|(hash, _)| *hash);
        if self.entries.len() < before || head.seq.next() != self.next() {
            return Err("it lost entries while it was open".to_owned());
        }
        if newest != Some(head.hash) {
            return Err(format!("{} was rewritten", head.seq));
        }
        self.destroyed(backend)
    }

    /// What of the words that it says were destroyed is there still.
    fn destroyed(&mut self, backend: &dyn Backend) -> Result<(), String> {
        (self.gone, self.unfinished) = (BTreeSet::new(), BTreeSet::new());
        for (by, said) in self.log.iter().filter_map(|e| match &e.body {
            Body::Redacted(said) => Some((e.seq, said)),
            _ => None,
        }) {
            for entry in self.log.iter().take_while(|e| e.seq < by) {
                for (index, _) in (0..).zip(entry.body.commitments()) {
                    let is_birth = matches!(entry.body, Body::Opened(_));
                    if is_birth || !said.names(entry.seq, index) {
                        continue;
                    }
                    let held = backend.payload(self.listed.conversation, entry.seq, index);
                    let held = held.map_err(|e| e.to_string())?.is_some();
                    let of = if held {
                        &mut self.unfinished
                    } else {
                        &mut self.gone
                    };
                    of.insert((entry.seq.0, index));
                }
            }
        }
        Ok(())
    }

    /// The logs that have its entries: where it is a fork, those it shares some with as well.
    pub(super) fn owners(&self) -> BTreeSet<ConversationId> {
        let own = [self.listed.conversation];
        let all = self.log.iter().map(|entry| entry.conversation);
        all.chain(own).collect()
    }

    fn take(&mut self, backend: &dyn Backend) -> Result<(), String> {
        let (id, from) = (self.listed.conversation, self.next());
        let mut broken = None;
        let read = backend.entries(
            id,
            from,
            Seq(u64::MAX),
            &mut |seq, bytes| match entry::open(bytes) {
                Ok(sealed) => {
                    if let Some(key) = &sealed.entry.key
                        && !self.keys.insert(key.text.clone())
                    {
                        broken = Some(format!("{seq} was written under a key that was used"));
                    }
                    self.fold.apply(&sealed.entry);
                    self.entries.push((sealed.hash, self.fold.digest()));
                    self.log.push(sealed.entry);
                    ControlFlow::Continue(())
                }
                Err(error) => {
                    broken = Some(format!("{seq} was written and cannot be read: {error}"));
                    ControlFlow::Break(())
                }
            },
        );
        broken.map_or(read.map_err(|e| e.to_string()), Err)?;
        for at in self.words.len()..self.log.len() {
            let words = self.words_of(backend, at).map_err(|e| e.to_string())?;
            self.words.push(words);
        }
        Ok(())
    }

    /// The messages that an entry gave.
    fn words_of(
        &mut self,
        backend: &dyn Backend,
        at: usize,
    ) -> Result<Vec<Option<Message>>, Failure> {
        let id = self.listed.conversation;
        if self.secret.is_none() {
            let held = backend
                .payload(id, Seq(0), 0)?
                .ok_or("a log without its secret")?;
            self.secret = Some(payload::decode_secret(&held.bytes)?);
        }
        let secret = self.secret.ok_or("a log without its secret")?;
        let entry = self.log.get(at).ok_or("no such entry")?;
        let mut words = Vec::new();
        for index in 0..messages_of(&entry.body) {
            let Some(held) = backend.payload(id, entry.seq, index)? else {
                words.push(None); // whether an entry says so is told by `verify`
                continue;
            };
            let mut fetch = |address| {
                let blob = backend.blob(id, address);
                blob.map_err(|e| PayloadError::Store(e.to_string()))
            };
            let read = payload::decode_message(&held.bytes, &secret, &mut fetch)?;
            words.push(Some(read));
        }
        Ok(words)
    }

    /// Forgets what did not survive.
    fn cut(&mut self, left: usize, backend: &dyn Backend) -> Result<(), String> {
        let kept = self.entries.len();
        self.entries.clear();
        self.log.clear();
        self.words.clear();
        self.fold = Projection::default();
        self.keys.clear();
        self.synced = self.synced.min(left);
        self.flushed = self.flushed.min(left);
        self.take(backend)?;
        if self.entries.len() == left.min(kept) {
            self.destroyed(backend)
        } else {
            Err(format!(
                "{left} entries were left and {} were read",
                self.entries.len()
            ))
        }
    }
}

/// Every log of a store as it was written.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub logs: BTreeMap<ConversationId, Kept>,
    /// Logs that are damaged; nothing is expected of them.
    given_up: BTreeSet<ConversationId>,
}

impl Ledger {
    /// Reads what is new. What was written before must still be there, under the same hash. An error
    /// names the log that it is about.
    pub(super) fn observe(
        &mut self,
        backend: &dyn Backend,
    ) -> Result<(), (Option<ConversationId>, String)> {
        let listed = backend.list(&[]).map_err(|e| (None, e.to_string()))?;
        for listed in listed {
            let id = listed.conversation;
            if !self.given_up.contains(&id) {
                let kept = self.logs.entry(id).or_insert_with(|| Kept::new(listed));
                kept.observe(backend).map_err(|what| (Some(id), what))?;
            }
        }
        Ok(())
    }

    /// An acknowledgement of this level covers everything that was written before it, in every log.
    pub(super) fn promise(&mut self, level: Level) {
        let all = self.logs.values_mut();
        all.for_each(|kept| kept.promise(level, usize::MAX));
    }

    /// An acknowledgement that wrote nothing speaks of its own log alone, and of what the handle
    /// knows of it: another one may have filed more since.
    pub(super) fn promise_of(&mut self, id: ConversationId, level: Level, head: Option<Seq>) {
        let known = head.map_or(0, |seq| seq.0.saturating_add(1));
        if let Some(kept) = self.logs.get_mut(&id) {
            kept.promise(level, usize::try_from(known).unwrap_or(usize::MAX));
        }
    }

    /// Expects nothing of a log any more.
    pub(super) fn give_up(&mut self, id: ConversationId) -> Option<Kept> {
        self.given_up.insert(id);
        self.logs.remove(&id)
    }

    /// A sync failed: the system may have thrown away what waited for it, flushed or not.
    pub(super) fn sync_failed(&mut self) {
        for kept in self.logs.values_mut() {
            kept.flushed = kept.flushed.min(kept.synced);
        }
    }

    /// What survived of a log: how many entries, all of which must be those that were written.
    pub(super) fn survived(
        &self,
        id: ConversationId,
        backend: &dyn Backend,
    ) -> Result<usize, String> {
        let Some(kept) = self.logs.get(&id) else {
            return Ok(0);
        };
        let (mut left, mut other) = (0_usize, None);
        let read = backend.entries(id, Seq(0), Seq(u64::MAX), &mut |seq, bytes| {
            let hash = entry::open(bytes).map(|sealed| sealed.hash).ok();
            if hash.is_none() || hash != kept.entries.get(left).map(|(hash, _)| *hash) {
                other = Some(format!("{seq} is not the entry that was written"));
                return ControlFlow::Break(());
            }
            left = left.saturating_add(1);
            ControlFlow::Continue(())
        });
        read.map_err(|e| e.to_string())?;
        other.map_or(Ok(left), Err)
    }

    /// The store was opened again: what survived is what counts from here on.
    pub(super) fn restart(&mut self, end: End, backend: &dyn Backend) -> Result<(), String> {
        let ids: Vec<ConversationId> = self.logs.keys().copied().collect();
        for id in ids {
            let left = self.survived(id, backend)?;
            if left == 0 {
                self.logs.remove(&id);
            } else if let Some(kept) = self.logs.get_mut(&id) {
                kept.cut(left, backend)?;
                // What a killed process left may sit in a cache still; a cut has emptied it.
                kept.flushed = left;
                if end == End::Cut {
                    kept.synced = left;
                }
            }
        }
        Ok(())
    }
}
