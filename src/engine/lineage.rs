//! Forks made whole. A fork's log begins where it left its parent; what lies before is the parent's,
//! and is answered from there: entries, payloads and snapshots up to the fork point, blobs from the
//! root. Nothing is copied.
//!
//! The store below is asked first, as if there were no forks. Only where it has nothing to show is it
//! looked whether the log is one: a log that is no fork costs nothing more.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::log::{Body, ConversationId, ForkPoint, Hash, Head, Seq, entry};
use crate::planted::{Bug, planted};
use crate::store::{Backend, Batch, Level, Listed, Name, Payload, ShowRecord, StoreError};

use super::past::{SNAPSHOT, snapshot_at, snapshot_name};

/// So many pieces of lines, and first entries of logs, are remembered; beyond that they are read again.
const KNOWN_PIECES: usize = 4096;

/// A store in which the log of a fork begins with its root's first entry.
#[derive(Debug)]
pub(super) struct Lineage {
    below: Arc<dyn Backend>,
    /// The lines of forks. A birth never changes, so neither do they.
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    lines: BTreeMap<ConversationId, Arc<Line>>,
    pieces: usize,
    /// The first own entries of logs that are there.
    firsts: BTreeMap<ConversationId, Seq>,
}

/// What the log of a fork is made of: pieces of logs, the root's first, its own last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Line {
    pieces: Vec<Piece>,
}

/// The entries of one log from its first own one up to the first of the next piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Piece {
    owner: ConversationId,
    first: Seq,
}

impl Line {
    /// Whose entry stands at a place.
    pub(crate) fn owner(&self, seq: Seq) -> Option<ConversationId> {
        Some(self.pieces.get(self.at(seq)?)?.owner)
    }

    fn at(&self, seq: Seq) -> Option<usize> {
        let behind = self.pieces.partition_point(|piece| piece.first <= seq);
        behind.checked_sub(1)
    }

    /// Where the log left its parent.
    pub(crate) fn left(&self) -> Option<ForkPoint> {
        let own = self.pieces.len().checked_sub(1)?;
        let (parent, at) = self.piece(own.checked_sub(1)?)?;
        Some(ForkPoint {
            parent: parent.owner,
            at: at?,
        })
    }

    /// A piece and its last entry; the own piece of a log has none here.
    fn piece(&self, at: usize) -> Option<(Piece, Option<Seq>)> {
        let next = self.pieces.get(at.checked_add(1)?);
        let last = next.and_then(|next| next.first.0.checked_sub(1)).map(Seq);
        Some((*self.pieces.get(at)?, last))
    }

    /// The logs that share entries with this one, the root first, each with the last shared one.
    pub(crate) fn ancestors(&self) -> impl Iterator<Item = (ConversationId, Seq)> {
        let all = (0..self.pieces.len()).filter_map(|at| self.piece(at));
        all.filter_map(|(piece, last)| Some((piece.owner, last?)))
    }
}

impl Lineage {
    pub(super) fn new(below: Arc<dyn Backend>) -> Self {
        Self {
            below,
            known: Mutex::default(),
        }
    }

    /// The line of a fork; `None` of a log that is none, or is not there.
    pub(super) fn line(&self, id: ConversationId) -> Result<Option<Arc<Line>>, StoreError> {
        let Some(first) = self.first_own(id)?.filter(|first| *first > Seq(0)) else {
            return Ok(None);
        };
        let known = self.known_line(id);
        if known.is_some() {
            return Ok(known);
        }
        let mut pieces = vec![Piece { owner: id, first }];
        let mut young = pieces[..].first().copied();
        // The places only go down, so that this ends.
        while let Some(fork) = young.filter(|piece| piece.first > Seq(0)) {
            let ForkPoint { parent, at } = self.left(fork)?;
            let owner = parent;
            let first = self.first_own(parent)?.filter(|first| *first <= at);
            let lost = || damaged(parent, at, format!("{} was forked here", fork.owner));
            let piece = Piece {
                owner,
                first: first.ok_or_else(lost)?,
            };
            if let Some(known) = self.known_line(parent) {
                pieces.extend(known.pieces.iter().rev());
                break;
            }
            pieces.push(piece);
            young = Some(piece);
        }
        pieces.reverse();
        let line = Arc::new(Line { pieces });
        self.remember(id, &line);
        Ok(Some(line))
    }

    /// What the first own entry of a fork says.
    fn left(&self, fork: Piece) -> Result<ForkPoint, StoreError> {
        let (id, first) = (fork.owner, fork.first);
        let mut read = None;
        self.below.entries(id, first, first, &mut |_, bytes| {
            read = entry::decode_entry(bytes).ok();
            ControlFlow::Break(())
        })?;
        let point = read.and_then(|entry| match entry.body {
            Body::Opened(opened) => opened.fork,
            _ => None,
        });
        let point = point.filter(|point| point.at.0.checked_add(1) == Some(first.0));
        let reason = "it does not say where the fork left its parent";
        point.ok_or_else(|| damaged(id, first, reason.to_owned()))
    }

    /// The first own entry of a log: asked of every entry whose it is, and never another.
    fn first_own(&self, id: ConversationId) -> Result<Option<Seq>, StoreError> {
        if let Some(first) = self.known().firsts.get(&id) {
            return Ok(Some(*first));
        }
        let first = self.below.first(id)?;
        if let Some(first) = first {
            let firsts = &mut self.known().firsts;
            if firsts.len() >= KNOWN_PIECES {
                firsts.clear();
            }
            firsts.insert(id, first);
        }
        Ok(first)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known_line(&self, id: ConversationId) -> Option<Arc<Line>> {
        self.known().lines.get(&id).cloned()
    }

    fn remember(&self, id: ConversationId, line: &Arc<Line>) {
        let mut known = self.known();
        if known.pieces > KNOWN_PIECES {
            known.lines.clear();
            known.pieces = 0;
        }
        known.pieces = known.pieces.saturating_add(line.pieces.len());
        known.lines.insert(id, Arc::clone(line));
    }

    /// Whose entry stands at a place of a log.
    pub(super) fn owner(&self, id: ConversationId, seq: Seq) -> Result<ConversationId, StoreError> {
        if self.first_own(id)?.is_none_or(|first| first <= seq) {
            return Ok(id);
        }
        let line = self.line(id)?;
        Ok(line.and_then(|line| line.owner(seq)).unwrap_or(id))
    }

    /// The first log of a lineage.
    pub(super) fn root(&self, id: ConversationId) -> Result<ConversationId, StoreError> {
        let line = self.line(id)?;
        Ok(line.and_then(|line| line.owner(Seq(0))).unwrap_or(id))
    }

    /// Reads the entries `from..=to` of a fork from the logs they are of, one after the other. `read`
    /// shows those of one log, and says which number is next, or nothing where it was told to stop.
    fn along(
        &self,
        id: ConversationId,
        (from, to): (Seq, Seq),
        read: &mut dyn FnMut(ConversationId, Seq, Seq) -> Result<Option<Seq>, StoreError>,
    ) -> Result<(), StoreError> {
        let Some(line) = self.line(id)? else {
            return Ok(());
        };
        let own = line.pieces.len().saturating_sub(1);
        let Some(mut at) = line.at(from).filter(|at| *at < own) else {
            return Ok(());
        };
        let mut next = from;
        while let Some((piece, last)) = line.piece(at).filter(|(p, _)| p.first <= to) {
            let until = last.map_or(to, |last| last.min(to));
            let Some(reached) = read(piece.owner, next, until)? else {
                return Ok(());
            };
            if last.is_some() && reached <= until {
                let reason = format!("the entry is missing, and the fork {id} needs it");
                return Err(damaged(piece.owner, reached, reason));
            }
            next = reached;
            at = at.saturating_add(1);
        }
        Ok(())
    }
}

fn damaged(conversation: ConversationId, seq: Seq, reason: String) -> StoreError {
    StoreError::Damaged {
        conversation: Some(conversation),
        seq: Some(seq),
        reason,
    }
}

/// Which entries were shown.
struct Shown {
    next: Option<Seq>,
}

impl Shown {
    fn note(&mut self, seq: Seq, flow: ControlFlow<()>) -> ControlFlow<()> {
        self.next = flow.is_continue().then(|| seq.next());
        flow
    }
}

impl Backend for Lineage {
    fn append(&self, batch: Batch, level: Level) -> Result<(), StoreError> {
        self.below.append(batch, level)
    }

    fn head(&self, conversation: ConversationId) -> Result<Option<Head>, StoreError> {
        self.below.head(conversation)
    }

    fn first(&self, conversation: ConversationId) -> Result<Option<Seq>, StoreError> {
        self.below.first(conversation)
    }

    fn durable_head(&self, conversation: ConversationId) -> Result<Option<Head>, StoreError> {
        self.below.durable_head(conversation)
    }

    fn entries(
        &self,
        conversation: ConversationId,
        from: Seq,
        to: Seq,
        show: &mut dyn FnMut(Seq, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let mut some = false;
        self.below
            .entries(conversation, from, to, &mut |seq, bytes| {
                some = true;
                show(seq, bytes)
            })?;
        if some {
            return Ok(());
        }
        self.along(conversation, (from, to), &mut |owner, from, to| {
            let mut shown = Shown { next: Some(from) };
            self.below.entries(owner, from, to, &mut |seq, bytes| {
                shown.note(seq, show(seq, bytes))
            })?;
            Ok(shown.next)
        })
    }

    fn records(
        &self,
        conversation: ConversationId,
        from: Seq,
        to: Seq,
        show: ShowRecord<'_>,
    ) -> Result<(), StoreError> {
        let mut some = false;
        self.below
            .records(conversation, from, to, &mut |seq, bytes, payload| {
                some = true;
                show(seq, bytes, payload)
            })?;
        if some {
            return Ok(());
        }
        self.along(conversation, (from, to), &mut |owner, from, to| {
            let mut shown = Shown { next: Some(from) };
            self.below
                .records(owner, from, to, &mut |seq, bytes, payload| {
                    shown.note(seq, show(seq, bytes, payload))
                })?;
            Ok(shown.next)
        })
    }

    fn payload(
        &self,
        conversation: ConversationId,
        seq: Seq,
        index: u32,
    ) -> Result<Option<Payload>, StoreError> {
        let found = self.below.payload(conversation, seq, index)?;
        if found.is_some() {
            return Ok(found);
        }
        let owner = self.owner(conversation, seq)?;
        if owner == conversation {
            return Ok(None);
        }
        self.below.payload(owner, seq, index)
    }

    /// What is shared is destroyed for all who share it.
    fn destroy_payload(
        &self,
        conversation: ConversationId,
        seq: Seq,
        index: u32,
        level: Level,
    ) -> Result<(), StoreError> {
        let owner = self.owner(conversation, seq)?;
        self.below.destroy_payload(owner, seq, index, level)
    }

    fn destroy_payloads(
        &self,
        conversation: ConversationId,
        places: &[(Seq, u32)],
        level: Level,
    ) -> Result<(), StoreError> {
        let mut left = places;
        while let Some((seq, _)) = left.first() {
            let owner = self.owner(conversation, *seq)?;
            let mut run = 1;
            while let Some((next, _)) = left.get(run)
                && self.owner(conversation, *next)? == owner
            {
                run = run.saturating_add(1);
            }
            let (own, rest) = left.split_at(run);
            self.below.destroy_payloads(owner, own, level)?;
            left = rest;
        }
        Ok(())
    }

    fn list(&self, prefix: &[String]) -> Result<Vec<Listed>, StoreError> {
        self.below.list(prefix)
    }

    fn find(&self, name: &Name) -> Result<Option<ConversationId>, StoreError> {
        self.below.find(name)
    }

    fn put_blob(
        &self,
        lineage: ConversationId,
        address: Hash,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        self.below.put_blob(self.root(lineage)?, address, bytes)
    }

    fn blob(&self, lineage: ConversationId, address: Hash) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.below.blob(lineage, address)?;
        if found.is_some() {
            return Ok(found);
        }
        let root = self.root(lineage)?;
        if root == lineage {
            return Ok(None);
        }
        self.below.blob(root, address)
    }

    /// All logs of the lineage share their blobs: `keep` has to know what each of them mentions.
    fn sweep_blobs(
        &self,
        lineage: ConversationId,
        keep: &dyn Fn(&Hash) -> bool,
    ) -> Result<u64, StoreError> {
        self.below.sweep_blobs(self.root(lineage)?, keep)
    }

    /// A snapshot is kept with the log that its entry is of, so that all who share it find it.
    fn put_derived(
        &self,
        conversation: ConversationId,
        name: &str,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        let at = snapshot_at(name);
        let owner = at.map(|at| self.owner(conversation, at)).transpose()?;
        let owner = owner.unwrap_or(conversation);
        self.below.put_derived(owner, name, bytes)
    }

    fn derived(
        &self,
        conversation: ConversationId,
        name: &str,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let at = snapshot_at(name);
        let owner = at.map(|at| self.owner(conversation, at)).transpose()?;
        let owner = owner.unwrap_or(conversation);
        self.below.derived(owner, name)
    }

    /// Of snapshots, where the log has no own one: its parent's, up to the fork point.
    fn derived_before(
        &self,
        conversation: ConversationId,
        prefix: &str,
        name: &str,
    ) -> Result<Option<(String, Vec<u8>)>, StoreError> {
        let own = self.below.derived_before(conversation, prefix, name)?;
        if own.is_some() || prefix != SNAPSHOT {
            return Ok(own);
        }
        let Some(line) = self.line(conversation)? else {
            return Ok(None);
        };
        let ancestors: Vec<_> = line.ancestors().collect();
        for (owner, last) in ancestors.into_iter().rev() {
            let capped = snapshot_name(last);
            let name = if planted(Bug::SnapshotPastItsForkPoint) {
                name
            } else {
                name.min(capped.as_str())
            };
            let found = self.below.derived_before(owner, prefix, name)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn sync(&self, level: Level) -> Result<(), StoreError> {
        self.below.sync(level)
    }

    fn check(&self, conversation: Option<ConversationId>) -> Result<Vec<StoreError>, StoreError> {
        self.below.check(conversation)
    }

    fn check_beside(&self, listed: &Listed) -> Result<Vec<StoreError>, StoreError> {
        self.below.check_beside(listed)
    }
}
