//! What a handle knows of its log: the fold, and what that is worth.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::log::{
    Body, Commitment, ConversationId, Hash, Head, Seq, Unit, entry::Sealed, payload::Secret,
};
use crate::planted::{Bug, planted};
use crate::strategy::{self, Frame, Plan, SpecError, Strategy};
use crate::window::{Fold, Measure, Pace, Projection, Taken};

use super::conversation::{Store, absent};
use super::error::Error;

/// What a conversation knows of its log.
#[derive(Debug)]
pub(super) struct State {
    pub projection: Projection,
    pub head: Option<Head>,
    pub secret: Secret,
    pub chain: Vec<Arc<dyn Strategy>>,
    /// When the next snapshot is due.
    pub pace: Pace,
    pub fold: Known,
    /// The log went on, through another handle, while this one's fold was not held.
    pub behind: bool,
}

/// A strategy with its spec at hand: each look names it.
#[derive(Debug)]
struct Named {
    spec: String,
    strategy: Arc<dyn Strategy>,
}

/// A strategy that writes its spec once.
pub(super) fn named(strategy: Arc<dyn Strategy>) -> Arc<dyn Strategy> {
    let spec = strategy.spec();
    Arc::new(Named { spec, strategy })
}

impl Strategy for Named {
    fn spec(&self) -> String {
        self.spec.clone()
    }

    fn check(&self) -> Result<(), SpecError> {
        self.strategy.check()
    }

    fn measure(&self) -> Option<Measure> {
        self.strategy.measure()
    }

    fn on_append(&self) -> bool {
        self.strategy.on_append()
    }

    fn most_messages(&self) -> Option<u64> {
        self.strategy.most_messages()
    }

    fn returns(&self) -> bool {
        self.strategy.returns()
    }

    fn asks_every_group(&self) -> bool {
        self.strategy.asks_every_group()
    }

    fn unit(&self) -> Unit {
        self.strategy.unit()
    }

    fn plan(&self, frame: &Frame<'_>) -> Plan {
        self.strategy.plan(frame)
    }
}

/// What the fold is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Known {
    /// It is what the store holds, as far as this handle knows.
    Held,
    /// It was not read yet, or was given up. `head` is the newest entry this handle was shown.
    Unread,
    /// It may be ahead of the store, or behind it: read the log before using it.
    Doubtful,
}

impl State {
    /// Whether the fold may be used as it is.
    pub(super) fn is_held(&self) -> bool {
        self.fold == Known::Held
    }

    /// The fold is read again before it is used.
    pub(super) fn doubt(&mut self) {
        self.fold = Known::Doubtful;
    }

    pub(super) fn empty(secret: Secret, pace: Pace) -> Self {
        Self {
            projection: Projection::default(),
            head: None,
            secret,
            chain: Vec::new(),
            pace,
            fold: Known::Held,
            behind: false,
        }
    }

    /// Folds a whole log from the store, and keeps the snapshots that are due behind the newest.
    pub(super) fn read(store: &Store, id: ConversationId) -> Result<Self, Error> {
        let head = store.backend().head(id)?.ok_or_else(|| absent(id))?;
        let newest = store
            .snapshot_before(id, head.seq)
            .and_then(|s| s.outline.at);
        let mut taken = Vec::new();
        let folded = Folded::read(store, id, head.seq, &mut |snapshot| {
            if Some(snapshot.at) > newest {
                taken.push(snapshot);
            }
        })?;
        if folded.newest != Some(head) {
            return Err(Error::DamagedEntry {
                conversation: id,
                seq: folded.newest.map_or(Seq(0), |h| h.seq.next()),
                reason: format!("the chain ends before its head record, {}", head.seq),
            });
        }
        store.keep(id, &taken);
        let mut state = Self::empty(store.secret(id, folded.secret)?, folded.pace);
        state.projection = folded.projection;
        state.head = Some(head);
        state.resolve_chain();
        Ok(state)
    }

    /// About how many bytes of memory it takes.
    pub(super) fn bytes(&self) -> usize {
        self.projection.bytes().saturating_add(size_of::<Self>())
    }

    /// Strategies named by the log itself. One that this build does not know stays away: replay
    /// needs none, and a call says that it is missing.
    fn resolve_chain(&mut self) {
        let specs = self.projection.chain().to_vec();
        self.chain = specs
            .iter()
            .filter_map(|spec| strategy::parse(spec).ok().map(named))
            .collect();
    }
}

/// What the entries up to one said.
pub(super) struct Folded {
    pub projection: Projection,
    pub pace: Pace,
    /// The last entry that stands where it was found, behind the one before.
    pub newest: Option<Head>,
    /// What the first own entry says of the lineage's secret.
    pub secret: Option<(Seq, Commitment)>,
}

impl Folded {
    /// Folds the entries up to `to`, as far as they are a chain; shows every snapshot that is due.
    pub(super) fn read(
        store: &Store,
        id: ConversationId,
        to: Seq,
        take: &mut dyn FnMut(Taken),
    ) -> Result<Self, Error> {
        let head = store.backend().head(id)?;
        let (mut fold, mut pace) = (Fold::default(), store.pace().clone());
        let (mut newest, mut secret) = (None, None);
        store.entries(id, Seq(0), to, &mut |mut sealed| {
            if !(follows(newest, &sealed) && store.belongs(id, &sealed.entry)) {
                return ControlFlow::Break(());
            }
            if let Body::Opened(opened) = &sealed.entry.body {
                secret = Some((sealed.entry.seq, opened.secret));
            }
            let cut_off =
                Some(sealed.head()) == head && matches!(sealed.entry.body, Body::Visited(_));
            if !(planted(Bug::LastVisitIsNotRead) && cut_off) {
                fold.absorb(&mut sealed.entry);
            }
            let (bytes, p) = (sealed.bytes.len(), fold.so_far());
            if let Some(due) = pace.pass(&sealed.entry, sealed.hash, bytes, p) {
                take(due);
            }
            newest = Some(sealed.head());
            ControlFlow::Continue(())
        })?;
        Ok(Self {
            projection: fold.finish(),
            pace,
            newest,
            secret,
        })
    }
}

/// Whether an entry stands where it was found, behind the newest before it.
fn follows(newest: Option<Head>, sealed: &Sealed) -> bool {
    let (seq, prev) = newest.map_or((Seq(0), Hash::ZERO), |h| (h.seq.next(), h.hash));
    let entry = &sealed.entry;
    entry.seq == seq && entry.prev == prev
}
