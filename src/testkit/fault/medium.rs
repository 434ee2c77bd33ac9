//! The medium behind a store that fails on purpose, and the cache in front of it.

use std::collections::BTreeMap;

use super::{Delivery, Fault, Planned, Verb};
use crate::log::{ConversationId, Hash, Head, Seq};
use crate::store::{Backend, Batch, Level, MemoryStore, Place, StoreError, Stored};
use crate::testkit::random::Random;

/// Something to write.
#[derive(Clone, Debug)]
pub(super) enum Write {
    Batch(Batch),
    Destroy(ConversationId, Seq, u32),
    Blob(ConversationId, Hash, Vec<u8>),
    Swept(ConversationId, Vec<Hash>),
    Derived(ConversationId, String, Vec<u8>),
}

impl Write {
    const fn owner(&self) -> ConversationId {
        match self {
            Self::Batch(batch) => batch.conversation,
            Self::Destroy(id, ..) | Self::Blob(id, ..) => *id,
            Self::Swept(id, ..) | Self::Derived(id, ..) => *id,
        }
    }

    /// The first entry it is about.
    fn seq(&self) -> Option<Seq> {
        match self {
            Self::Batch(batch) => batch.records.first().map(|r| r.seq),
            Self::Destroy(_, seq, _) => Some(*seq),
            _ => None,
        }
    }

    /// What it takes of a medium that fills up.
    fn bytes(&self) -> u64 {
        let bytes = match self {
            Self::Batch(batch) => batch.records.iter().fold(0_usize, |sum, record| {
                let payloads = record.payloads.iter().flatten();
                let words = payloads.fold(0_usize, |sum, p| sum.saturating_add(p.bytes.len()));
                sum.saturating_add(record.entry.len()).saturating_add(words)
            }),
            Self::Blob(_, _, bytes) | Self::Derived(_, _, bytes) => bytes.len(),
            Self::Destroy(..) => 1,
            Self::Swept(_, gone) => gone.len(),
        };
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Writes it into a store, whatever is there. The store has no limits of its own here: what
    /// exceeds them was refused before.
    fn onto(&self, store: &MemoryStore, back: bool) {
        let _ = match self {
            Self::Batch(batch) => {
                store.place(batch.clone(), back);
                Ok(())
            }
            Self::Destroy(id, seq, index) => {
                store.destroy_payload(*id, *seq, *index, Level::Synced)
            }
            Self::Blob(id, address, bytes) => store.put_blob(*id, *address, bytes),
            Self::Swept(id, gone) => store.sweep_blobs(*id, &|at| !gone.contains(at)).map(drop),
            Self::Derived(id, name, bytes) => store.put_derived(*id, name, bytes),
        };
    }

    /// Writes it with its last value cut in half. Derived data would be framed: a cut one is not
    /// there.
    fn torn_onto(&self, store: &MemoryStore) {
        let place = match self {
            Self::Batch(batch) => {
                let last = batch.records.last();
                last.map(|r| Place::Entry(batch.conversation, r.seq))
            }
            Self::Blob(id, address, _) => Some(Place::Blob(*id, *address)),
            _ => None,
        };
        if let Some(place) = place {
            self.onto(store, false);
            store.alter(place, &mut |bytes| bytes.truncate(bytes.len() / 2));
        }
    }

    /// The first entry behind what it is about: where a head record ends that it puts back.
    fn next(&self) -> Option<Seq> {
        match self {
            Self::Batch(batch) => batch.records.last().map(|r| r.seq.next()),
            _ => self.seq(),
        }
    }

    /// Where it is cut, if it is.
    fn torn_at(&self) -> Option<Seq> {
        match self {
            Self::Batch(batch) => batch.records.last().map(|r| r.seq),
            _ => self.seq(),
        }
    }
}

/// A write that is not on the medium yet.
#[derive(Clone, Debug)]
struct Waiting {
    write: Write,
    /// A fault of the medium that it meets on its way.
    fate: Option<Planned>,
    /// A later write of the same log is on the medium already.
    overtaken: bool,
    /// A process has seen what its fate leaves of it.
    seen: bool,
}

impl Waiting {
    fn is(&self, fault: Fault) -> bool {
        self.fate.is_some_and(|planned| planned.fault == fault)
    }
}

#[derive(Debug)]
pub(super) struct Medium {
    /// What a power cut leaves.
    durable: MemoryStore,
    /// What the process sees.
    view: MemoryStore,
    /// Oldest first.
    waiting: Vec<Waiting>,
    /// How many of those a killed process does not take along.
    flushed: usize,
    /// A write that arrives once more, after the next one.
    echo: Option<(Write, Planned)>,
    /// The durable head of every log with entries that nobody synced yet.
    behind: BTreeMap<ConversationId, Option<Head>>,
    /// The bytes that still fit.
    pub(super) space: Option<u64>,
    /// What filled the medium.
    filled: Option<Planned>,
    plans: Vec<Planned>,
    calls: BTreeMap<Verb, u64>,
    deliveries: Vec<Delivery>,
    poisoned: Option<&'static str>,
    life: u64,
    pub(super) background: u64,
    random: Random,
}

impl Medium {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            durable: MemoryStore::new(),
            view: MemoryStore::new(),
            waiting: Vec::new(),
            flushed: 0,
            echo: None,
            behind: BTreeMap::new(),
            space: None,
            filled: None,
            plans: Vec::new(),
            calls: BTreeMap::new(),
            deliveries: Vec::new(),
            poisoned: None,
            life: 0,
            background: 0,
            random: Random::new(seed),
        }
    }

    pub(super) const fn life(&self) -> u64 {
        self.life
    }

    pub(super) fn plan(&mut self, planned: Planned) {
        self.plans.push(planned);
    }

    pub(super) fn unplan(&mut self) -> usize {
        let filled = usize::from(self.filled.take().is_some());
        let echo = usize::from(self.echo.take().is_some());
        let plans = std::mem::take(&mut self.plans).len();
        plans.saturating_add(filled).saturating_add(echo)
    }

    pub(super) fn calls(&self, verb: Verb) -> u64 {
        self.calls.get(&verb).copied().unwrap_or_default()
    }

    pub(super) fn deliveries(&self) -> &[Delivery] {
        &self.deliveries
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn view(&self) -> MemoryStore {
        self.view.clone()
    }

    pub(super) fn durable_head(&self, id: ConversationId) -> Result<Option<Head>, StoreError> {
        match self.behind.get(&id) {
            Some(head) => Ok(*head),
            None => self.view.head(id),
        }
    }

    /// The blobs of a lineage that a sweep destroys.
    pub(super) fn swept(&self, lineage: ConversationId, keep: &dyn Fn(&Hash) -> bool) -> Vec<Hash> {
        let blobs = self.view.stored(Stored::Blobs);
        let gone = blobs.into_iter().filter_map(|place| match place {
            Place::Blob(id, address) if id == lineage && !keep(&address) => Some(address),
            _ => None,
        });
        gone.collect()
    }

    /// A call begins: a handle of an earlier life answers nothing. Gives the fault it meets.
    fn begin(&mut self, life: u64, verb: Verb) -> Result<Option<Planned>, StoreError> {
        if life != self.life {
            let reason = "the process that held this handle has ended".to_owned();
            return Err(StoreError::Poisoned { reason });
        }
        let call = self.calls.entry(verb).or_default();
        *call = call.saturating_add(1);
        let call = *call;
        let due = |p: &Planned| p.verb == verb && p.call <= call && p.fault.meets(verb);
        let at = self.plans.iter().position(due);
        let planned = at.map(|at| self.plans.remove(at));
        Ok(planned.and_then(|planned| self.rot(planned)))
    }

    fn deliver(&mut self, planned: Planned, write: Option<&Write>) {
        self.deliveries.push(Delivery {
            planned,
            conversation: write.map(Write::owner),
            seq: write.and_then(Write::seq),
        });
    }

    /// Gives back what is no rot; what cannot rot yet waits for the next call.
    fn rot(&mut self, planned: Planned) -> Option<Planned> {
        let kind = match planned.fault {
            Fault::RottenEntry => Stored::Entries,
            Fault::RottenPayload => Stored::Payloads,
            Fault::RottenBlob => Stored::Blobs,
            _ => return Some(planned),
        };
        let places = self.durable.stored(kind);
        let count = u64::try_from(places.len()).unwrap_or(u64::MAX);
        let at = planned.detail.checked_rem(count);
        let place = at.and_then(|at| places.get(usize::try_from(at).ok()?));
        let Some(place) = place.copied() else {
            self.plans.push(planned);
            return None;
        };
        let bit = planned.detail.checked_div(count).unwrap_or_default();
        self.durable.alter(place, &mut |bytes| flip(bytes, bit));
        self.view.alter(place, &mut |bytes| flip(bytes, bit));
        let (conversation, seq) = match place {
            Place::Entry(id, seq) | Place::Payload(id, seq, _) => (id, Some(seq)),
            Place::Blob(id, _) => (id, None),
        };
        self.deliveries.push(Delivery {
            planned,
            conversation: Some(conversation),
            seq,
        });
        None
    }

    /// What a reading verb reads.
    pub(super) fn read(&mut self, life: u64, verb: Verb) -> Result<MemoryStore, StoreError> {
        if let Some(planned) = self.begin(life, verb)? {
            self.deliver(planned, None);
            return Err(StoreError::Io {
                what: format!("reading ({})", verb.name()),
                source: std::io::Error::other("EIO, as planned"),
            });
        }
        Ok(self.view.clone())
    }

    /// Writes, and takes it to its level. `apply` does it to what the process sees, or refuses.
    pub(super) fn write<T>(
        &mut self,
        life: u64,
        (verb, write, level): (Verb, Write, Level),
        apply: impl FnOnce(&MemoryStore, &Write) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let fault = self.begin(life, verb)?;
        self.refuse(fault, &write)?;
        let id = write.owner();
        let before = match &write {
            Write::Batch(batch) => Some(batch.expected),
            _ => None,
        };
        let done = match apply(&self.view, &write) {
            Ok(done) => done,
            Err(error) => {
                self.plans.extend(fault);
                return Err(error);
            }
        };
        self.space = self.space.map(|s| s.saturating_sub(write.bytes()));
        if let Some(head) = before {
            self.behind.entry(id).or_insert(head);
        }
        let fate = fault.filter(|p| on_the_way(p.fault));
        self.waiting.push(Waiting {
            write: write.clone(),
            fate,
            overtaken: false,
            seen: false,
        });
        let fault = fault.filter(|p| !on_the_way(p.fault));
        match fault.filter(|p| p.fault == Fault::ErrorApplied) {
            Some(planned) => {
                self.deliver(planned, Some(&write));
                return Err(self.poison("an input/output error, as planned"));
            }
            None => self.reach(level, fault, Some(&write))?,
        }
        if self.random.percent(self.background) {
            let length = u64::try_from(self.waiting.len()).unwrap_or(u64::MAX);
            let some = self.random.below(length.saturating_add(1));
            self.settle(usize::try_from(some).unwrap_or_default(), false);
        }
        Ok(done)
    }

    /// What keeps a write from being done at all.
    fn refuse(&mut self, fault: Option<Planned>, write: &Write) -> Result<(), StoreError> {
        if let Some(reason) = self.poisoned {
            self.plans.extend(fault);
            return Err(poisoned(reason));
        }
        match fault {
            Some(planned) if planned.fault == Fault::ErrorNotApplied => {
                self.deliver(planned, Some(write));
                return Err(self.poison("an input/output error, as planned"));
            }
            Some(planned) if planned.fault == Fault::NoSpace => {
                self.space = Some(planned.detail);
                self.filled = Some(planned);
            }
            _ => {}
        }
        if self.space.is_some_and(|space| write.bytes() > space) {
            if let Some(planned) = self.filled.take() {
                self.deliver(planned, Some(write));
            }
            return Err(self.poison("no space is left, as planned"));
        }
        Ok(())
    }

    /// Brings everything to a level, because a verb asks for nothing else.
    pub(super) fn sync(&mut self, life: u64, level: Level) -> Result<(), StoreError> {
        let fault = self.begin(life, Verb::Sync)?;
        if let Some(reason) = self.poisoned {
            self.plans.extend(fault);
            return Err(poisoned(reason));
        }
        self.reach(level, fault, None)
    }

    fn reach(
        &mut self,
        level: Level,
        fault: Option<Planned>,
        write: Option<&Write>,
    ) -> Result<(), StoreError> {
        let told = level == Level::Synced && !self.waiting.is_empty();
        match fault {
            Some(planned) if told && planned.fault == Fault::SyncError => {
                self.deliver(planned, write);
                // The system calls the pages clean: they are never written.
                self.waiting.clear();
                self.flushed = 0;
                return Err(self.poison("the sync failed, as planned"));
            }
            Some(planned) if told && planned.fault == Fault::LostSync => {
                self.deliver(planned, write);
                self.flushed = self.waiting.len();
                self.behind.clear();
                return Ok(());
            }
            // Nothing waits, or nothing is synced: this call cannot meet it.
            Some(planned) if matches!(planned.fault, Fault::SyncError | Fault::LostSync) => {
                self.plans.push(planned);
            }
            _ => {}
        }
        match level {
            Level::Buffered => {}
            Level::Flushed => self.flushed = self.waiting.len(),
            Level::Synced => {
                self.settle(usize::MAX, true);
                self.behind.clear();
            }
        }
        Ok(())
    }

    fn poison(&mut self, reason: &'static str) -> StoreError {
        self.poisoned.get_or_insert(reason);
        StoreError::Indeterminate {
            reason: reason.to_owned(),
        }
    }

    /// Moves the oldest to the medium; late ones stay behind unless all have to be there.
    fn settle(&mut self, count: usize, all: bool) {
        let count = count.min(self.waiting.len());
        let rest = self.waiting.split_off(count);
        let mut late: Vec<Waiting> = Vec::new();
        for waiting in std::mem::take(&mut self.waiting) {
            if !all && waiting.is(Fault::LateWrite) {
                late.push(waiting);
            } else {
                overtake(&mut late, &waiting.write);
                self.arrive(waiting);
            }
        }
        self.flushed = late
            .len()
            .saturating_add(self.flushed.saturating_sub(count));
        late.extend(rest);
        self.waiting = late;
    }

    /// A write reaches the medium, or what its fate leaves of it.
    fn arrive(&mut self, waiting: Waiting) {
        self.meet(&waiting);
        let Waiting { write, fate, .. } = waiting;
        let before = self.echo.take();
        match fate {
            Some(planned) if planned.fault == Fault::LostWrite => {}
            Some(planned) if planned.fault == Fault::TornWrite => write.torn_onto(&self.durable),
            Some(planned) if planned.fault == Fault::TwiceWritten => {
                write.onto(&self.durable, false);
                self.echo = Some((write, planned));
            }
            _ => write.onto(&self.durable, false),
        }
        if let Some((earlier, planned)) = before {
            earlier.onto(&self.durable, true);
            self.deliveries.push(Delivery {
                planned,
                conversation: Some(earlier.owner()),
                seq: earlier.next(),
            });
        }
    }

    /// Counts a write that is lost or torn, once.
    fn meet(&mut self, waiting: &Waiting) {
        let Some(planned) = waiting.fate.filter(|_| !waiting.seen) else {
            return;
        };
        let seq = match planned.fault {
            Fault::LostWrite => waiting.write.seq(),
            Fault::TornWrite => waiting.write.torn_at(),
            _ => return,
        };
        self.deliveries.push(Delivery {
            planned,
            conversation: Some(waiting.write.owner()),
            seq,
        });
    }

    pub(super) fn kill(&mut self, keep: usize) {
        self.waiting.truncate(self.flushed.saturating_add(keep));
        self.flushed = self.waiting.len();
        self.restart();
    }

    pub(super) fn power_cut(&mut self, keep: usize) {
        self.settle(keep, false);
        // What is left is gone; where a later write of the same log is there, that is no tail.
        for gone in std::mem::take(&mut self.waiting) {
            if let Some(planned) = gone.fate.filter(|_| gone.overtaken) {
                self.deliver(planned, Some(&gone.write));
            }
        }
        self.restart();
    }

    pub(super) fn close(&mut self) {
        if self.poisoned.is_none() {
            self.settle(usize::MAX, true);
        }
        self.restart();
    }

    /// The next process sees what survived.
    fn restart(&mut self) {
        self.life = self.life.saturating_add(1);
        self.poisoned = None;
        self.echo = None;
        self.flushed = self.waiting.len();
        self.behind.clear();
        let view = self.durable.copy();
        let mut waiting = std::mem::take(&mut self.waiting);
        for waiting in &mut waiting {
            let id = waiting.write.owner();
            let head = self.durable.head(id).ok().flatten();
            self.behind.entry(id).or_insert(head);
            self.meet(waiting);
            waiting.seen = true;
            if waiting.is(Fault::TornWrite) {
                waiting.write.torn_onto(&view);
            } else if !waiting.is(Fault::LostWrite) {
                waiting.write.onto(&view, false);
            }
        }
        self.waiting = waiting;
        self.view = view;
    }
}

/// Whether a fault meets a write between its acknowledgement and the medium.
const fn on_the_way(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::LostWrite | Fault::TornWrite | Fault::LateWrite | Fault::TwiceWritten
    )
}

fn overtake(late: &mut [Waiting], by: &Write) {
    for waiting in late.iter_mut().filter(|w| w.write.owner() == by.owner()) {
        waiting.overtaken = true;
    }
}

fn poisoned(reason: &str) -> StoreError {
    StoreError::Poisoned {
        reason: reason.to_owned(),
    }
}

/// Flips a bit, counted round and round.
fn flip(bytes: &mut [u8], bit: u64) {
    let bits = u64::try_from(bytes.len())
        .unwrap_or(u64::MAX)
        .saturating_mul(8);
    let Some(bit) = bit.checked_rem(bits) else {
        return;
    };
    let at = usize::try_from(bit / 8).unwrap_or(usize::MAX);
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1_u8.rotate_left(u32::try_from(bit % 8).unwrap_or_default());
    }
}
