//! What was accepted: the ends of the logs as their appends see them, and the requests that are in
//! no file yet, in the order in which they were accepted.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::block::Prospect;
use super::frame::Span;
use super::keys;
use super::note::Append;
use super::tail::{Tail, Waiting};
use crate::log::{ConversationId, Head, Seq};
use crate::store::{Level, Listed, Name, StoreError};

/// The bytes outside the tree from which they are brought into it.
const SETTLE_BYTES: usize = 4 << 20;
/// The bytes outside the tree from which callers wait before they hand over more.
const UNSETTLED_BYTES_MAX: usize = 12 << 20;
/// The bytes after which a group takes no further request.
const GROUP_BYTES: usize = 256 << 10;
/// The longest that something waits for the disk. Below the half second that `Buffered` promises,
/// so that writing itself has time.
const BUFFER_TIME: Duration = Duration::from_millis(300);
/// How many logs' ends are kept in memory.
const TAILS_MAX: usize = 65_536;

/// What an append moves a log from and to.
pub(super) struct Claim {
    pub(super) conversation: ConversationId,
    pub(super) expected: Option<Head>,
    pub(super) birth: Option<Name>,
    pub(super) first: Seq,
    pub(super) newest: Head,
}

/// Something that was accepted: an append, or only the wish that what came before has a level.
struct Request {
    number: u64,
    level: Level,
    append: Option<Append>,
}

/// Requests that go to the journal together.
pub(super) struct Group {
    /// The last request it takes.
    pub(super) number: u64,
    /// The highest level that one of them wants.
    pub(super) level: Level,
    pub(super) appends: Vec<Append>,
}

/// What the tree is to take of a log.
pub(super) struct Growth {
    pub(super) conversation: ConversationId,
    /// The log as the tree has it.
    pub(super) from: Option<Span>,
    /// Its first own entry.
    pub(super) first: Seq,
    pub(super) waiting: Vec<Waiting>,
    pub(super) birth: Option<Vec<u8>>,
    pub(super) last: Option<Seq>,
    pub(super) prospect: Prospect,
}

/// What the tree is to take, all that was accepted.
pub(super) struct Load {
    /// The last request.
    number: u64,
    taken: Instant,
    pub(super) grown: Vec<Growth>,
    pub(super) derived: BTreeMap<Vec<u8>, Arc<[u8]>>,
}

/// What the tree took of a log.
#[derive(Clone)]
pub(super) struct Moved {
    pub(super) conversation: ConversationId,
    /// The log before.
    pub(super) from: Option<Span>,
    /// The log with it.
    pub(super) to: Span,
    /// How many records.
    pub(super) count: usize,
    pub(super) last: Option<Seq>,
    pub(super) prospect: Prospect,
}

/// How far requests have come, by number: what is up to it has come so far.
#[derive(Clone, Copy, Debug, Default)]
struct Reached {
    noted: u64,
    synced: u64,
    settled: u64,
}

/// What the writing thread has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Due {
    /// Bring everything into the tree.
    Settle,
    /// Bring everything to the disk, then.
    Note(Instant),
}

/// All that waits, and what is known of what was written.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) tails: HashMap<ConversationId, Tail>,
    requests: VecDeque<Request>,
    /// Names that are not yet in the tree, by their keys.
    born: HashMap<Vec<u8>, ConversationId>,
    /// Derived data that is not yet in the tree, by its keys.
    pub(super) derived: BTreeMap<Vec<u8>, Arc<[u8]>>,
    /// The heads that the journal's system has and its disk may not.
    unsynced: HashMap<ConversationId, Head>,
    /// The bytes of records, and of derived data, that are not in the tree.
    record_bytes: usize,
    derived_bytes: usize,
    /// When the oldest request was accepted of those that are in no file.
    waiting_since: Option<Instant>,
    /// When the oldest was noted of what is not synced.
    unsynced_since: Option<Instant>,
    /// The number of the newest request.
    newest: u64,
    reached: Reached,
    /// Whether somebody writes to the journal.
    pub(super) writing: bool,
    /// Whether the last handle is gone.
    pub(super) closing: bool,
    /// How many requests the last group took.
    pub(super) crowd: usize,
    /// When the writing thread will look by itself; `None`: not until it is called.
    pub(super) wakes: Option<Instant>,
    sleepers: Vec<Sleeper>,
}

/// A caller that waits.
struct Sleeper {
    /// For the request of this number; 0: for anything to happen.
    number: u64,
    /// To come to this level.
    level: Level,
    bell: Arc<Bell>,
}

/// Why a caller is woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ring {
    /// Its request has come to its level.
    Done,
    /// It is to look for itself.
    Look,
}

/// What a caller sleeps beside. It has a lock of its own, so that who is woken by the dozen does not
/// wait for the queue.
#[derive(Debug, Default)]
pub(super) struct Bell {
    rung: Mutex<Option<Ring>>,
    wakes: Condvar,
}

impl Bell {
    pub(super) fn ring(&self, ring: Ring) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = Some(ring);
        self.wakes.notify_one();
    }

    /// Sleeps until it is rung.
    pub(super) fn wait(&self) -> Ring {
        let mut rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(ring) = *rung {
                return ring;
            }
            rung = self
                .wakes
                .wait(rung)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue")
            .field("newest", &self.newest)
            .field("reached", &self.reached)
            .finish_non_exhaustive()
    }
}

impl Queue {
    /// Whether it takes no more for now.
    pub(super) fn is_full(&self) -> bool {
        self.unsettled_bytes() >= UNSETTLED_BYTES_MAX
    }

    fn unsettled_bytes(&self) -> usize {
        self.record_bytes.saturating_add(self.derived_bytes)
    }

    /// Moves the head of a log whose tail is known, or says why not. `named`: the key of the log's
    /// name and who has the name, where the log is to be born.
    pub(super) fn append(
        &mut self,
        claim: Claim,
        named: Option<(Vec<u8>, Option<ConversationId>)>,
        records: Vec<Arc<Vec<u8>>>,
        level: Level,
    ) -> Result<u64, StoreError> {
        let tail = self.tails.entry(claim.conversation).or_default();
        let head = tail.span.map(|span| span.head);
        if head != claim.expected {
            return Err(StoreError::Stale { head });
        }
        let name = match (&claim.birth, named) {
            (Some(name), Some((_, Some(conversation)))) => {
                let name = name.clone();
                return Err(StoreError::NameTaken { name, conversation });
            }
            (_, named) => named.map(|(key, _)| key),
        };
        let span = Span {
            first: tail.span.map_or(claim.first, |span| span.first),
            head: claim.newest,
        };
        let append = Append {
            conversation: claim.conversation,
            span,
            name,
            records,
        };
        self.grow(&append);
        Ok(self.push(level, Some(append)))
    }

    /// A log whose tail is known has these records from now on.
    fn grow(&mut self, append: &Append) {
        self.record_bytes = self.record_bytes.saturating_add(append.bytes());
        if let Some(name) = &append.name {
            self.born.insert(name.clone(), append.conversation);
        }
        let tail = self.tails.entry(append.conversation).or_default();
        tail.grow(append);
    }

    /// Takes what the journal has of a log, and the tree may have too; false where it does not
    /// continue the log.
    pub(super) fn restore(&mut self, mut append: Append) -> bool {
        let tail = self.tails.entry(append.conversation).or_default();
        let next = tail
            .span
            .map_or(append.span.first, |span| span.head.seq.next());
        let Some(first) = append.first() else {
            return false;
        };
        if append.span.head.seq < next {
            return true;
        }
        let Some(known) = next.0.checked_sub(first.0) else {
            return false;
        };
        let known = usize::try_from(known).unwrap_or(usize::MAX);
        append.records.drain(..known.min(append.records.len()));
        self.grow(&append);
        self.newest = self.newest.saturating_add(1);
        self.reached.noted = self.newest;
        self.reached.synced = self.newest;
        if let Some(tail) = self.tails.get_mut(&append.conversation) {
            tail.note(append.span);
            tail.synced(append.span.head);
        }
        true
    }

    /// Asks for a level of all that was accepted; gives the request's number.
    pub(super) fn ask(&mut self, level: Level) -> u64 {
        self.push(level, None)
    }

    fn push(&mut self, level: Level, append: Option<Append>) -> u64 {
        self.newest = self.newest.saturating_add(1);
        self.waiting_since.get_or_insert_with(Instant::now);
        self.requests.push_back(Request {
            number: self.newest,
            level,
            append,
        });
        self.newest
    }

    /// Takes derived data, for the tree to have after all that was accepted before.
    pub(super) fn derive(&mut self, key: Vec<u8>, bytes: &[u8]) {
        let before = self.derived.insert(key, bytes.into());
        let before = before.map_or(0, |before| before.len());
        let others = self.derived_bytes.saturating_sub(before);
        self.derived_bytes = others.saturating_add(bytes.len());
    }

    /// A record that is not in the tree.
    pub(super) fn record(&self, conversation: ConversationId, seq: Seq) -> Option<Arc<Vec<u8>>> {
        self.tails.get(&conversation)?.record(seq)
    }

    /// Names that are not yet in the tree, of those whose keys begin with `prefix`.
    pub(super) fn born(&self, prefix: &[u8]) -> Vec<Listed> {
        let inside = self.born.iter().filter(|(key, _)| key.starts_with(prefix));
        let listed = inside.filter_map(|(key, conversation)| {
            Some(Listed {
                name: keys::read_name(key)?,
                conversation: *conversation,
            })
        });
        listed.collect()
    }

    /// Who will have a name.
    pub(super) fn owner(&self, key: &[u8]) -> Option<ConversationId> {
        self.born.get(key).copied()
    }

    /// The number of the newest request that has come to a level.
    pub(super) fn reached(&self, level: Level) -> u64 {
        match level {
            Level::Buffered => self.newest,
            Level::Flushed => self.reached.noted,
            Level::Synced => self.reached.synced,
        }
    }

    /// The newest request up to which all is in the tree, on the disk.
    pub(super) fn settled(&self) -> u64 {
        self.reached.settled
    }

    /// Whether anything is outside the tree.
    pub(super) fn waits(&self) -> bool {
        !self.derived.is_empty() || self.reached.settled < self.newest
    }

    /// A bell that is rung when a request has come to a level; number 0: when anything happens.
    pub(super) fn bell(&mut self, number: u64, level: Level) -> Arc<Bell> {
        let bell = Arc::new(Bell::default());
        self.sleepers.push(Sleeper {
            number,
            level,
            bell: Arc::clone(&bell),
        });
        bell
    }

    /// The bells to ring: of those whose requests have come to their levels, and of no others. To be
    /// rung when the queue is let go.
    pub(super) fn awake(&mut self) -> Vec<Arc<Bell>> {
        let mut sleepers = std::mem::take(&mut self.sleepers);
        let done = |one: &mut Sleeper| self.reached(one.level) >= one.number;
        let awake = sleepers.extract_if(.., done).map(|one| one.bell).collect();
        self.sleepers = sleepers;
        awake
    }

    /// The bell of one whose request still waits, so that it writes.
    pub(super) fn successor(&mut self) -> Option<Arc<Bell>> {
        (!self.sleepers.is_empty()).then(|| self.sleepers.remove(0).bell)
    }

    /// How many requests wait.
    pub(super) fn length(&self) -> usize {
        self.requests.len()
    }

    /// What the writing thread has to do next.
    pub(super) fn due(&self) -> Option<Due> {
        if self.unsettled_bytes() >= SETTLE_BYTES {
            return Some(Due::Settle);
        }
        self.due_to_note().map(Due::Note)
    }

    /// When what waits has to go to the disk.
    pub(super) fn due_to_note(&self) -> Option<Instant> {
        let since = match (self.waiting_since, self.unsynced_since) {
            (Some(waiting), Some(unsynced)) => waiting.min(unsynced),
            (waiting, unsynced) => waiting.or(unsynced)?,
        };
        since.checked_add(BUFFER_TIME)
    }

    /// The oldest requests, up to a size.
    pub(super) fn take(&mut self) -> Group {
        let mut group = Group {
            number: self.reached.noted,
            level: Level::Buffered,
            appends: Vec::new(),
        };
        let (mut bytes, waited) = (0_usize, self.requests.len());
        while bytes < GROUP_BYTES {
            let Some(request) = self.requests.pop_front() else {
                break;
            };
            group.number = request.number;
            group.level = group.level.max(request.level);
            if let Some(append) = request.append {
                bytes = bytes.saturating_add(append.bytes());
                group.appends.push(append);
            }
        }
        self.crowd = waited.saturating_sub(self.requests.len());
        if self.requests.is_empty() {
            self.waiting_since = None;
        }
        group
    }

    /// A group was not written after all: it comes first again.
    pub(super) fn put_back(&mut self, group: Group) {
        let Group {
            number,
            level,
            appends,
        } = group;
        for append in appends.into_iter().rev() {
            self.requests.push_front(Request {
                number,
                level,
                append: Some(append),
            });
        }
        self.waiting_since.get_or_insert_with(Instant::now);
    }

    /// The journal's system has a group.
    pub(super) fn noted(&mut self, group: &Group) {
        for append in &group.appends {
            if let Some(tail) = self.tails.get_mut(&append.conversation) {
                tail.note(append.span);
            }
            self.unsynced.insert(append.conversation, append.span.head);
        }
        if !group.appends.is_empty() {
            self.unsynced_since.get_or_insert_with(Instant::now);
        }
        self.reached.noted = self.reached.noted.max(group.number);
    }

    /// What was noted is on the disk.
    pub(super) fn synced(&mut self) {
        for (conversation, head) in self.unsynced.drain() {
            if let Some(tail) = self.tails.get_mut(&conversation) {
                tail.synced(head);
            }
        }
        self.reached.synced = self.reached.noted;
        self.unsynced_since = None;
    }

    /// Everything that the tree has not got.
    pub(super) fn load(&self) -> Load {
        let waiting = self
            .tails
            .iter()
            .filter(|(_, tail)| !tail.waiting.is_empty());
        let grown = waiting.filter_map(|(conversation, tail)| {
            Some(Growth {
                conversation: *conversation,
                from: tail.written,
                first: tail.span?.first,
                waiting: tail.waiting.iter().cloned().collect(),
                birth: tail.birth.clone(),
                last: tail.last,
                prospect: tail.prospect,
            })
        });
        Load {
            number: self.newest,
            taken: Instant::now(),
            grown: grown.collect(),
            derived: self.derived.clone(),
        }
    }

    /// The tree has something of a log.
    pub(super) fn moved(&mut self, moved: &Moved) {
        let Some(tail) = self.tails.get_mut(&moved.conversation) else {
            return;
        };
        let count = moved.count.min(tail.waiting.len());
        let gone = tail.waiting.drain(..count);
        let bytes = gone.fold(0, |sum: usize, one| sum.saturating_add(one.record.len()));
        self.record_bytes = self.record_bytes.saturating_sub(bytes);
        tail.written = Some(moved.to);
        tail.note(moved.to);
        tail.last = moved.last;
        tail.prospect = moved.prospect;
        if let Some(name) = tail.birth.take() {
            self.born.remove(&name);
        }
    }

    /// The tree has a load, on the disk.
    pub(super) fn settle(&mut self, load: &Load) {
        for (key, bytes) in &load.derived {
            if self
                .derived
                .get(key)
                .is_some_and(|now| Arc::ptr_eq(now, bytes))
            {
                self.derived.remove(key);
                self.derived_bytes = self.derived_bytes.saturating_sub(bytes.len());
            }
        }
        for growth in &load.grown {
            if let Some(tail) = self.tails.get_mut(&growth.conversation)
                && let Some(written) = tail.written
            {
                tail.synced(written.head);
            }
        }
        let Reached {
            noted,
            synced,
            settled,
        } = &mut self.reached;
        if *noted <= load.number {
            self.unsynced_since = None;
        }
        for reached in [noted, synced, settled] {
            *reached = load.number.max(*reached);
        }
        let waits = |request: &Request| request.number > load.number;
        while self.requests.front().is_some_and(|request| !waits(request)) {
            self.requests.pop_front();
        }
        self.waiting_since = (!self.requests.is_empty()).then_some(load.taken);
    }

    /// A write failed: nothing that waits will be written, and nothing is known any more of what was
    /// not.
    pub(super) fn give_up(&mut self) {
        self.requests.clear();
        self.tails.values_mut().for_each(Tail::give_up);
        let tails = &self.tails;
        self.born
            .retain(|_, owner| tails.get(owner).is_some_and(|tail| tail.span.is_some()));
        self.derived.clear();
        self.waiting_since = None;
        self.unsynced_since = None;
        (self.record_bytes, self.derived_bytes) = (0, 0);
        for sleeper in self.sleepers.drain(..) {
            sleeper.bell.ring(Ring::Look);
        }
    }

    /// Makes room for another log's end. Only the ends go of which all is in the tree.
    pub(super) fn make_room(&mut self) {
        if self.tails.len() >= TAILS_MAX {
            self.tails.retain(|_, tail| !tail.waiting.is_empty());
        }
    }
}
