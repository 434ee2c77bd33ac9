//! The one thread that writes. It owns the heads, puts what waits into one batch, and tells each
//! caller when its level is reached.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::directory::Receipt;
use super::engine::{Engine, damaged};
use super::frame::{self, Change, Span};
use super::keys;
use super::tally::Tally;
use crate::log::{ConversationId, Head, Seq};
use crate::store::{Level, Name, StoreError};

/// The most requests that become one batch.
const GROUP_REQUESTS_MAX: usize = 256;
/// The bytes after which a group takes no further request.
const GROUP_BYTES: usize = 128 << 10;
/// The bytes after which what was applied is synced without being asked. sled takes what it flushed
/// for safe, and reuses the space of what that replaces: were much of it flushed and not synced, a
/// power cut could take the new place of something after the old one was overwritten. sled writes up
/// to six times what it is given, so that this is less than one of its segments.
const UNSYNCED_BYTES: usize = 64 << 10;
/// The longest that something applied waits for the disk. Below the half second that `Buffered`
/// promises, so that the sync itself has time.
const BUFFER_TIME: Duration = Duration::from_millis(300);
/// How many conversations' heads are kept in memory.
const HEADS_MAX: usize = 65_536;

/// Where the outcome of a request goes.
pub(super) type Reply = SyncSender<Result<(), StoreError>>;

/// Something to write.
pub(super) struct Request {
    /// The head that must be right before anything is written.
    pub(super) claim: Option<Claim>,
    /// What is written; none where only a level is asked for.
    pub(super) changes: Vec<Change>,
    /// When to answer.
    pub(super) level: Level,
    /// Whom to answer.
    pub(super) reply: Reply,
}

impl Request {
    fn bytes(&self) -> usize {
        self.changes.iter().fold(0, |sum, (key, value)| {
            let value = value.as_ref().map_or(0, Vec::len);
            sum.saturating_add(key.len()).saturating_add(value)
        })
    }
}

/// What an append moves a log from and to.
pub(super) struct Claim {
    pub(super) conversation: ConversationId,
    pub(super) expected: Option<Head>,
    pub(super) birth: Option<Name>,
    pub(super) first: Seq,
    pub(super) newest: Head,
}

/// What writer and readers share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Held while a group is applied; a check holds it to see no half of one.
    gate: Mutex<()>,
    /// The durable head of every log that has entries which are not yet durable.
    behind: Mutex<HashMap<ConversationId, Option<Head>>>,
    /// What failed: nothing is written any more.
    poisoned: OnceLock<String>,
}

impl Shared {
    pub(super) fn gate(&self) -> MutexGuard<'_, ()> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What failed, if a write has.
    pub(super) fn poisoned(&self) -> Option<String> {
        self.poisoned.get().cloned()
    }

    /// Ends all writing; gives what failed first.
    pub(super) fn poison(&self, error: &StoreError) -> String {
        self.poisoned.get_or_init(|| error.to_string()).clone()
    }

    /// While this is held, no log's head moves away from its durable one.
    pub(super) fn behind(&self) -> MutexGuard<'_, HashMap<ConversationId, Option<Head>>> {
        self.behind.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writing thread's state.
pub(super) struct Writer {
    engine: Arc<Engine>,
    shared: Arc<Shared>,
    heads: HashMap<ConversationId, Option<Span>>,
    /// As of the group that was last put together.
    tally: Tally,
    receipt: Receipt,
    /// Bytes applied since the last sync.
    unsynced_bytes: usize,
    /// When the oldest change was applied that is not synced.
    unsynced: Option<Instant>,
}

/// Requests of one group that were accepted.
#[derive(Default)]
struct Group {
    changes: Vec<Change>,
    waiting: Vec<(Level, Reply)>,
    refused: Vec<(Reply, StoreError)>,
    born: HashMap<Vec<u8>, ConversationId>,
    grown: HashSet<ConversationId>,
}

impl Writer {
    pub(super) fn new(
        engine: Arc<Engine>,
        shared: Arc<Shared>,
        tally: Tally,
        receipt: Receipt,
    ) -> Self {
        let heads = HashMap::new();
        Self {
            engine,
            shared,
            heads,
            tally,
            receipt,
            unsynced_bytes: 0,
            unsynced: None,
        }
    }

    /// Serves until the last handle is gone, then brings everything to the disk.
    pub(super) fn run(mut self, requests: &Receiver<Request>) {
        loop {
            match self.wait(requests) {
                Ok(first) => {
                    let group = drain(first, requests);
                    self.serve(group);
                    self.sync_when_due();
                }
                Err(RecvTimeoutError::Timeout) => self.sync_when_due(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        // Nobody is left to tell of a failure; the tally tells at reopen.
        let synced = self.unsynced.is_none() || self.reach(Level::Synced).is_ok();
        if synced && self.shared.poisoned().is_none() {
            self.engine.settle();
        }
    }

    fn wait(&self, requests: &Receiver<Request>) -> Result<Request, RecvTimeoutError> {
        match self.unsynced {
            Some(since) => requests.recv_timeout(BUFFER_TIME.saturating_sub(since.elapsed())),
            None => requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    fn sync_when_due(&mut self) {
        if self
            .unsynced
            .is_some_and(|since| since.elapsed() >= BUFFER_TIME)
        {
            let _ = self.reach(Level::Synced); // a failure poisons; later callers are told
        }
    }

    fn serve(&mut self, requests: Vec<Request>) {
        if let Some(reason) = self.shared.poisoned() {
            for request in requests {
                let reason = reason.clone();
                answer(&request.reply, Err(StoreError::Poisoned { reason }));
            }
            return;
        }
        if self.heads.len() > HEADS_MAX {
            self.heads.clear();
        }
        let mut group = Group::default();
        let bytes = requests
            .iter()
            .fold(0_usize, |sum, r| sum.saturating_add(r.bytes()));
        for request in requests {
            self.admit(request, &mut group);
        }
        let applied = self.apply(std::mem::take(&mut group.changes), bytes);
        for (reply, error) in group.refused {
            answer(&reply, Err(error));
        }
        match applied {
            Ok(()) => self.settle(group.waiting),
            Err(reason) => fail(group.waiting, &reason),
        }
    }

    fn admit(&mut self, request: Request, group: &mut Group) {
        let Request {
            claim,
            changes,
            level,
            reply,
        } = request;
        match claim.map_or(Ok(()), |claim| self.claim(claim, group)) {
            Ok(()) => {
                group.changes.extend(changes);
                group.waiting.push((level, reply));
            }
            Err(error) => group.refused.push((reply, error)),
        }
    }

    /// Moves a head, or says why not.
    fn claim(&mut self, claim: Claim, group: &mut Group) -> Result<(), StoreError> {
        let Claim {
            conversation,
            expected,
            birth,
            first,
            newest,
        } = claim;
        let span = self.span(conversation)?;
        let head = span.map(|span| span.head);
        if head != expected {
            return Err(StoreError::Stale { head });
        }
        if let Some(name) = birth {
            self.christen(name, conversation, group)?;
        }
        let first = span.map_or(first, |span| span.first);
        let moved = Span {
            first,
            head: newest,
        };
        self.tally = self.tally.moved(conversation, span, moved);
        group
            .changes
            .push(frame::write_span(keys::head(conversation), moved));
        // Before it is applied: a reader that finds no note may take the head for durable.
        if group.grown.insert(conversation) {
            self.shared.behind().entry(conversation).or_insert(head);
        }
        self.heads.insert(conversation, Some(moved));
        Ok(())
    }

    fn christen(
        &self,
        name: Name,
        conversation: ConversationId,
        group: &mut Group,
    ) -> Result<(), StoreError> {
        let key = keys::name(&name);
        let taken = match group.born.get(&key) {
            Some(owner) => Some(*owner),
            None => find(&self.engine, &key, &name)?,
        };
        if let Some(conversation) = taken {
            return Err(StoreError::NameTaken { name, conversation });
        }
        let value = frame::seal(&key, conversation.0.to_vec());
        group.changes.push((key.clone(), Some(value)));
        group.born.insert(key, conversation);
        Ok(())
    }

    fn span(&mut self, conversation: ConversationId) -> Result<Option<Span>, StoreError> {
        if let Some(span) = self.heads.get(&conversation) {
            return Ok(*span);
        }
        let span = read_span(&self.engine, conversation)?;
        fits(&self.engine, conversation, span)?;
        self.heads.insert(conversation, span);
        Ok(span)
    }

    fn apply(&mut self, mut changes: Vec<Change>, bytes: usize) -> Result<(), String> {
        if changes.is_empty() {
            return Ok(());
        }
        self.tally = self.tally.counted();
        changes.push(self.tally.change());
        let applied = {
            let _gate = self.shared.gate();
            self.engine.apply(changes)
        };
        self.unsynced_bytes = self.unsynced_bytes.saturating_add(bytes);
        self.unsynced.get_or_insert_with(Instant::now);
        applied.map_err(|error| self.poison(&error))
    }

    /// Brings the group to the highest level any of it wants, once, and tells each its own.
    fn settle(&mut self, mut waiting: Vec<(Level, Reply)>) {
        let wanted = waiting
            .iter()
            .map(|(level, _)| *level)
            .max()
            .unwrap_or(Level::Buffered);
        tell(&mut waiting, Level::Buffered);
        let wanted = if self.unsynced_bytes >= UNSYNCED_BYTES {
            Level::Synced
        } else {
            wanted
        };
        for level in [Level::Flushed, Level::Synced] {
            if wanted < level {
                break;
            }
            match self.step(level) {
                Ok(()) => tell(&mut waiting, level),
                Err(reason) => return fail(waiting, &reason),
            }
        }
    }

    fn reach(&mut self, level: Level) -> Result<(), String> {
        [Level::Flushed, Level::Synced]
            .into_iter()
            .filter(|l| *l <= level)
            .try_for_each(|l| self.step(l))
    }

    /// From the level below to this one.
    fn step(&mut self, level: Level) -> Result<(), String> {
        let done = match level {
            Level::Buffered => Ok(()),
            Level::Flushed => self.engine.flush(),
            Level::Synced => self
                .engine
                .sync()
                .and_then(|()| self.receipt.write(self.tally)),
        };
        done.map_err(|error| self.poison(&error))?;
        match level {
            Level::Buffered | Level::Flushed => {}
            Level::Synced => {
                self.unsynced_bytes = 0;
                self.unsynced = None;
                self.shared.behind().clear();
            }
        }
        Ok(())
    }

    /// Never tries again: after a failed sync the system may call lost pages clean.
    fn poison(&mut self, error: &StoreError) -> String {
        self.unsynced = None;
        self.shared.poison(error)
    }
}

fn drain(first: Request, requests: &Receiver<Request>) -> Vec<Request> {
    let mut bytes = first.bytes();
    let mut group = vec![first];
    while group.len() < GROUP_REQUESTS_MAX && bytes < GROUP_BYTES {
        let Ok(request) = requests.try_recv() else {
            break;
        };
        bytes = bytes.saturating_add(request.bytes());
        group.push(request);
    }
    group
}

/// Answers everyone who wants no more than `level`.
fn tell(waiting: &mut Vec<(Level, Reply)>, level: Level) {
    for (_, reply) in waiting.extract_if(.., |(wanted, _)| *wanted <= level) {
        answer(&reply, Ok(()));
    }
}

fn fail(waiting: Vec<(Level, Reply)>, reason: &str) {
    for (_, reply) in waiting {
        answer(
            &reply,
            Err(StoreError::Indeterminate {
                reason: reason.to_owned(),
            }),
        );
    }
}

/// A caller that no longer waits is no failure.
fn answer(reply: &Reply, outcome: Result<(), StoreError>) {
    let _ = reply.try_send(outcome);
}

/// A log's span; damage where its value does not hold one.
pub(super) fn read_span(
    engine: &Engine,
    conversation: ConversationId,
) -> Result<Option<Span>, StoreError> {
    let key = keys::head(conversation);
    let Some(value) = engine.value(&key)? else {
        return Ok(None);
    };
    let span = frame::read_span(&key, &value);
    let reason = || "the head record is damaged".to_owned();
    span.map(Some)
        .ok_or_else(|| place(conversation, None, reason()))
}

/// Refuses to continue a log whose head record and last entry disagree.
fn fits(
    engine: &Engine,
    conversation: ConversationId,
    span: Option<Span>,
) -> Result<(), StoreError> {
    let from = match span {
        Some(span) => {
            let seq = span.head.seq;
            if engine.value(&keys::entry(conversation, seq))?.is_none() {
                let reason = "the head record names an entry that is missing".to_owned();
                return Err(place(conversation, Some(seq), reason));
            }
            keys::entry(conversation, seq.next())
        }
        None => keys::owned(keys::LOG, conversation),
    };
    let to = keys::after(&keys::owned(keys::LOG, conversation));
    match engine.scan(&from, &to)?.next().transpose()? {
        None => Ok(()),
        Some((key, _)) => {
            let reason = "there is an entry beyond the head record".to_owned();
            Err(place(conversation, keys::seq(&key), reason))
        }
    }
}

/// Damage at a place.
pub(super) fn place(conversation: ConversationId, seq: Option<Seq>, reason: String) -> StoreError {
    StoreError::Damaged {
        conversation: Some(conversation),
        seq,
        reason,
    }
}

/// Who has a name.
pub(super) fn find(
    engine: &Engine,
    key: &[u8],
    name: &Name,
) -> Result<Option<ConversationId>, StoreError> {
    let Some(value) = engine.value(key)? else {
        return Ok(None);
    };
    let owner = frame::unseal(key, &value)
        .and_then(keys::array)
        .map(ConversationId);
    let reason = || damaged(format!("the record of the name '{}' is damaged", name.name));
    owner.map(Some).ok_or_else(reason)
}
