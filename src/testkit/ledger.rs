//! What was written and what was promised: a plain record beside a store that may fail, against
//! which is compared what survived.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use crate::log::{ConversationId, Entry, Hash, Seq, entry};
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

    /// The seq that its next entry gets.
    pub(super) fn next(&self) -> Seq {
        Seq(u64::try_from(self.entries.len()).unwrap_or(u64::MAX))
    }

    /// The digest of the window after as many entries.
    pub(super) fn digest(&self, entries: usize) -> Option<Hash> {
        let last = entries.checked_sub(1)?;
        self.entries.get(last).map(|(_, digest)| *digest)
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
        broken.map_or(read.map_err(|e| e.to_string()), Err)
    }

    /// Forgets what did not survive.
    fn cut(&mut self, left: usize, backend: &dyn Backend) -> Result<(), String> {
        let kept = self.entries.len();
        self.entries.clear();
        self.log.clear();
        self.fold = Projection::default();
        self.keys.clear();
        self.synced = self.synced.min(left);
        self.flushed = self.flushed.min(left);
        self.take(backend)?;
        if self.entries.len() == left.min(kept) {
            Ok(())
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
    /// Reads what is new. What was written before must still be there, under the same hash.
    pub(super) fn observe(&mut self, backend: &dyn Backend) -> Result<(), String> {
        for listed in backend.list(&[]).map_err(|e| e.to_string())? {
            let id = listed.conversation;
            if self.given_up.contains(&id) {
                continue;
            }
            let kept = self.logs.entry(id).or_insert_with(|| Kept::new(listed));
            let before = kept.entries.len();
            let head = backend.head(id).map_err(|e| e.to_string())?;
            let known = kept.entries.last().map(|(hash, _)| *hash);
            match head {
                Some(head) if head.seq.next() == kept.next() => {
                    if Some(head.hash) != known {
                        return Err(format!("{} was rewritten", head.seq));
                    }
                }
                Some(_) => kept.take(backend)?,
                None => return Err("a listed log has no head".to_owned()),
            }
            if kept.entries.len() < before || head.map(|h| h.seq.next()) != Some(kept.next()) {
                return Err(format!(
                    "'{}' lost entries while it was open",
                    kept.listed.name.name
                ));
            }
        }
        Ok(())
    }

    /// An acknowledgement of this level covers everything that was written before it, in every log.
    pub(super) fn promise(&mut self, level: Level) {
        for kept in self.logs.values_mut() {
            let all = kept.entries.len();
            match level {
                Level::Buffered => {}
                Level::Flushed => kept.flushed = all,
                Level::Synced => kept.synced = all,
            }
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
