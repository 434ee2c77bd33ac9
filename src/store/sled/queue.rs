//! What waits to be written: the ends of the logs as their appends see them, and the requests in
//! the order in which they were accepted.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::block::Prospect;
use super::frame::{Change, Span};
use super::keys;
use super::tail::{Singles, Tail};
use crate::log::{ConversationId, Head, Seq};
use crate::store::{Level, Listed, Name, StoreError};

/// The waiting bytes from which the writing thread writes without being asked.
const WAITING_BYTES: usize = 64 << 10;
/// The waiting bytes from which callers wait before they hand over more.
const WAITING_BYTES_MAX: usize = 2 << 20;
/// The bytes after which a group takes no further request.
const GROUP_BYTES: usize = 128 << 10;
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

/// Something to write that was accepted.
struct Request {
    number: u64,
    level: Level,
    bytes: usize,
    work: Work,
}

enum Work {
    /// Records that continue a log up to a head.
    Append(ConversationId, Span, Vec<Arc<[u8]>>),
    /// Values as they are; none where only a level is asked for.
    Changes(Vec<Change>),
}

/// What a group writes of a log.
pub(super) struct Growth {
    pub(super) conversation: ConversationId,
    /// The log before.
    pub(super) from: Option<Span>,
    /// The log with these records.
    pub(super) to: Span,
    pub(super) records: Vec<Arc<[u8]>>,
    /// The log's other records that are in no block; as they will be, once the group is built.
    pub(super) singles: Singles,
    pub(super) prospect: Prospect,
}

/// Requests that are written together.
pub(super) struct Group {
    /// The last request it takes.
    pub(super) number: u64,
    /// The highest level that one of them wants.
    pub(super) level: Level,
    pub(super) grown: Vec<Growth>,
    pub(super) changes: Vec<Change>,
    /// The keys of names that it gives.
    pub(super) names: Vec<Vec<u8>>,
}

/// How far requests have come, by number: what is up to it has come so far.
#[derive(Clone, Copy, Debug, Default)]
struct Reached {
    applied: u64,
    flushed: u64,
    synced: u64,
}

/// All that waits, and what is known of what was written.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) tails: HashMap<ConversationId, Tail>,
    requests: VecDeque<Request>,
    /// Names that are not yet in the tree, by their keys.
    born: HashMap<Vec<u8>, ConversationId>,
    /// The durable head of every log of which more is in the tree.
    pub(super) behind: HashMap<ConversationId, Option<Head>>,
    bytes: usize,
    /// When the oldest request was accepted of those that wait.
    waiting_since: Option<Instant>,
    /// When the oldest change was applied that is not synced.
    unsynced_since: Option<Instant>,
    /// The number of the newest request.
    newest: u64,
    reached: Reached,
    /// Whether somebody writes.
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
        self.bytes >= WAITING_BYTES_MAX
    }

    /// Moves the head of a log whose tail is known, or says why not. `named`: the name's record and
    /// who has the name, where the log is to be born.
    pub(super) fn append(
        &mut self,
        claim: Claim,
        named: Option<(Change, Option<ConversationId>)>,
        records: Vec<Arc<[u8]>>,
        level: Level,
    ) -> Result<u64, StoreError> {
        let tail = self.tails.entry(claim.conversation).or_default();
        let head = tail.span.map(|span| span.head);
        if head != claim.expected {
            return Err(StoreError::Stale { head });
        }
        if let (Some(name), Some((_, Some(conversation)))) = (&claim.birth, &named) {
            let (name, conversation) = (name.clone(), *conversation);
            return Err(StoreError::NameTaken { name, conversation });
        }
        let span = Span {
            first: tail.span.map_or(claim.first, |span| span.first),
            head: claim.newest,
        };
        tail.span = Some(span);
        tail.waiting.extend(records.iter().cloned());
        let bytes = records
            .iter()
            .fold(0_usize, |n, r| n.saturating_add(r.len()));
        if let Some(((key, value), None)) = named {
            self.born.insert(key.clone(), claim.conversation);
            // Of no size, so that no group ends between the name and the log.
            self.push(Level::Buffered, 0, Work::Changes(vec![(key, value)]));
        }
        let work = Work::Append(claim.conversation, span, records);
        Ok(self.push(level, bytes, work))
    }

    /// Has values written; gives the request's number.
    pub(super) fn write(&mut self, changes: Vec<Change>, level: Level) -> u64 {
        let bytes = changes.iter().fold(0_usize, |n, (_, value)| {
            n.saturating_add(value.as_ref().map_or(0, Vec::len))
        });
        self.push(level, bytes, Work::Changes(changes))
    }

    fn push(&mut self, level: Level, bytes: usize, work: Work) -> u64 {
        self.newest = self.newest.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        self.waiting_since.get_or_insert_with(Instant::now);
        self.requests.push_back(Request {
            number: self.newest,
            level,
            bytes,
            work,
        });
        self.newest
    }

    /// A record that waits to be written.
    pub(super) fn record(&self, conversation: ConversationId, seq: Seq) -> Option<Arc<[u8]>> {
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
            Level::Buffered => self.reached.applied,
            Level::Flushed => self.reached.flushed,
            Level::Synced => self.reached.synced,
        }
    }

    /// Whether anything waits to be written.
    pub(super) fn waits(&self) -> bool {
        !self.requests.is_empty()
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

    /// When the writing thread has something to do.
    pub(super) fn due(&self) -> Option<Instant> {
        let since = match (self.waiting_since, self.unsynced_since) {
            (Some(waiting), Some(unsynced)) => waiting.min(unsynced),
            (waiting, unsynced) => waiting.or(unsynced)?,
        };
        let much = self.bytes >= WAITING_BYTES;
        let due = since.checked_add(BUFFER_TIME);
        if much { Some(since) } else { due }
    }

    /// Whether something has waited for so long that it must go to the disk.
    pub(super) fn is_late(&self) -> bool {
        let late = |since: Instant| since.elapsed() >= BUFFER_TIME;
        self.waiting_since.is_some_and(late) || self.unsynced_since.is_some_and(late)
    }

    /// The oldest requests, up to a size.
    pub(super) fn take(&mut self) -> Group {
        let mut group = Group {
            number: self.reached.applied,
            level: Level::Buffered,
            grown: Vec::new(),
            changes: Vec::new(),
            names: Vec::new(),
        };
        let mut places: HashMap<ConversationId, usize> = HashMap::new();
        let (mut bytes, waited) = (0_usize, self.requests.len());
        while bytes < GROUP_BYTES {
            let Some(request) = self.requests.pop_front() else {
                break;
            };
            bytes = bytes.saturating_add(request.bytes);
            group.number = request.number;
            group.level = group.level.max(request.level);
            match request.work {
                Work::Changes(changes) => {
                    let names = changes
                        .iter()
                        .filter(|(key, _)| self.born.contains_key(key));
                    group.names.extend(names.map(|(key, _)| key.clone()));
                    group.changes.extend(changes);
                }
                Work::Append(conversation, to, records) => {
                    let next = group.grown.len();
                    let place = *places.entry(conversation).or_insert(next);
                    match group.grown.get_mut(place) {
                        Some(growth) => {
                            growth.to = to;
                            growth.records.extend(records);
                        }
                        None => group.grown.push(self.growth(conversation, to, records)),
                    }
                }
            }
        }
        self.crowd = waited.saturating_sub(self.requests.len());
        self.bytes = self.bytes.saturating_sub(bytes);
        if self.requests.is_empty() {
            self.waiting_since = None;
        }
        group
    }

    fn growth(
        &mut self,
        conversation: ConversationId,
        to: Span,
        records: Vec<Arc<[u8]>>,
    ) -> Growth {
        let tail = self.tails.entry(conversation).or_default();
        let from = tail.written;
        // Before it is applied: a reader that finds no note may take the head for durable.
        let durable = from.map(|span| span.head);
        self.behind.entry(conversation).or_insert(durable);
        Growth {
            conversation,
            from,
            to,
            records,
            singles: tail.singles,
            prospect: tail.prospect,
        }
    }

    /// A group is in the tree.
    pub(super) fn applied(&mut self, group: Group) {
        for growth in group.grown {
            if let Some(tail) = self.tails.get_mut(&growth.conversation) {
                let count = growth.records.len().min(tail.waiting.len());
                tail.waiting.drain(..count);
                tail.written = Some(growth.to);
                tail.singles = growth.singles;
                tail.prospect = growth.prospect;
            }
        }
        for name in group.names {
            self.born.remove(&name);
        }
        self.reached.applied = group.number;
    }

    /// Something was applied.
    pub(super) fn changed(&mut self) {
        self.unsynced_since.get_or_insert_with(Instant::now);
    }

    /// What was applied was handed to the system.
    pub(super) fn flushed(&mut self) {
        self.reached.flushed = self.reached.applied;
    }

    /// What was applied is on the disk.
    pub(super) fn synced(&mut self) {
        self.flushed();
        self.reached.synced = self.reached.applied;
        self.unsynced_since = None;
        self.behind.clear();
    }

    /// A write failed: nothing that waits will be written, and nothing is known any more.
    pub(super) fn give_up(&mut self) {
        self.requests.clear();
        self.tails.clear();
        self.born.clear();
        self.bytes = 0;
        self.waiting_since = None;
        self.unsynced_since = None;
        for sleeper in self.sleepers.drain(..) {
            sleeper.bell.ring(Ring::Look);
        }
    }

    /// Makes room for another log's end. Only the ends go of which all is in the tree.
    pub(super) fn make_room(&mut self) {
        if self.tails.len() < TAILS_MAX {
            return;
        }
        let used: HashSet<ConversationId> = self.behind.keys().copied().collect();
        self.tails
            .retain(|id, tail| !tail.waiting.is_empty() || used.contains(id));
    }
}
