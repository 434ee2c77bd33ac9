//! Writing. Whoever waits for something to be written and finds nobody writing does it, for all that
//! wait; what nobody waits for is written by a thread of its own, in time.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use super::block::{self, Codec};
use super::blocks::Blocks;
use super::directory::Receipt;
use super::engine::{Engine, damaged};
use super::frame::{self, Change, Span};
use super::keys;
use super::media::Media;
use super::queue::{Claim, Group, Growth, Queue, Ring};
use super::tail::{self, Singles, Unpacked};
use super::tally::Tally;
use crate::log::{ConversationId, Head, Seq};
use crate::store::{Level, Name, StoreError};

/// The bytes after which what was applied is synced without being asked. sled takes what it flushed
/// for safe, and reuses the space of what that replaces: were much of it flushed and not synced, a
/// power cut could take the new place of something after the old one was overwritten. sled writes up
/// to six times what it is given, so that this is less than one of its segments.
const UNSYNCED_BYTES: usize = 64 << 10;
/// The records from which, and the bytes from which, those that are in no block are packed.
const SINGLES_MAX: usize = 64;
const SINGLES_BYTES: usize = 32 << 10;

/// What all that read and write share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) engine: Engine,
    pub(super) media: Media,
    pub(super) blocks: Blocks,
    queue: Mutex<Queue>,
    /// Tells the writing thread that there is something to do.
    work: Condvar,
    writer: Mutex<Writer>,
    /// Held by whoever makes a log's tail or gives a name, so that both are read from the tree once.
    loading: Mutex<()>,
    /// Held while a group is applied; who holds it sees no half of one, and nothing move.
    gate: Mutex<()>,
    /// What failed: nothing is written any more.
    poisoned: OnceLock<String>,
}

/// What is rewritten of a record.
#[derive(Default)]
pub(super) struct Rewrite {
    pub(super) changes: Vec<Change>,
    /// The block it lies in, by its first entry.
    pub(super) block: Option<(ConversationId, Seq)>,
}

/// Who may write, one at a time.
struct Turn<'a> {
    shared: &'a Shared,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        queue.writing = false;
        let (awake, successor) = (queue.awake(), queue.successor());
        self.shared.call(&mut queue);
        drop(queue);
        awake.iter().for_each(|bell| bell.ring(Ring::Done));
        if let Some(bell) = successor {
            bell.ring(Ring::Look);
        }
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(engine: Engine, media: Media, tally: Tally, receipt: Receipt) -> Self {
        let writer = Writer {
            tally,
            written: tally,
            receipt,
            unsynced_bytes: 0,
            codec: Codec::default(),
        };
        Self {
            engine,
            media,
            blocks: Blocks::default(),
            queue: Mutex::default(),
            work: Condvar::new(),
            writer: Mutex::new(writer),
            loading: Mutex::default(),
            gate: Mutex::default(),
            poisoned: OnceLock::new(),
        }
    }

    pub(super) fn gate(&self) -> MutexGuard<'_, ()> {
        held(&self.gate)
    }

    /// The gate itself, for who holds it now and then.
    pub(super) fn gate_of(&self) -> &Mutex<()> {
        &self.gate
    }

    pub(super) fn queue(&self) -> MutexGuard<'_, Queue> {
        held(&self.queue)
    }

    /// What failed, if a write has.
    pub(super) fn poisoned(&self) -> Option<String> {
        self.poisoned.get().cloned()
    }

    pub(super) fn refused(&self) -> Result<(), StoreError> {
        match self.poisoned() {
            Some(reason) => Err(StoreError::Poisoned { reason }),
            None => Ok(()),
        }
    }

    /// Ends all writing; gives what failed first. Nothing is tried again: after a failed sync the
    /// system may call lost pages clean.
    pub(super) fn poison(&self, error: &StoreError) -> String {
        let reason = self.poisoned.get_or_init(|| error.to_string()).clone();
        self.queue().give_up();
        reason
    }

    /// The queue, once it takes something.
    fn open_queue(&self) -> Result<MutexGuard<'_, Queue>, StoreError> {
        let mut queue = self.queue();
        loop {
            self.refused()?;
            if !queue.is_full() {
                return Ok(queue);
            }
            queue = self.until_something_happens(queue);
        }
    }

    fn until_something_happens<'a>(
        &'a self,
        mut queue: MutexGuard<'a, Queue>,
    ) -> MutexGuard<'a, Queue> {
        let bell = queue.bell(0, Level::Buffered);
        drop(queue);
        bell.wait();
        self.queue()
    }

    /// Wakes those whose requests have come to their levels.
    fn ring(&self) {
        let awake = self.queue().awake();
        awake.iter().for_each(|bell| bell.ring(Ring::Done));
    }

    /// Calls the writing thread where it would look too late.
    fn call(&self, queue: &mut Queue) {
        let Some(due) = queue.due() else { return };
        if !queue.writing && queue.wakes.is_none_or(|wakes| wakes > due) {
            queue.wakes = Some(due);
            self.work.notify_one();
        }
    }

    /// Accepts records, and waits until their level is reached.
    pub(super) fn append(
        &self,
        claim: Claim,
        records: Vec<Arc<[u8]>>,
        level: Level,
    ) -> Result<(), StoreError> {
        let number = self.accept(claim, records, level)?;
        match level {
            Level::Buffered => Ok(()),
            Level::Flushed | Level::Synced => self.wait(number, level),
        }
    }

    fn accept(
        &self,
        claim: Claim,
        records: Vec<Arc<[u8]>>,
        level: Level,
    ) -> Result<u64, StoreError> {
        let mut queue = self.open_queue()?;
        if claim.birth.is_none() && queue.tails.contains_key(&claim.conversation) {
            let number = queue.append(claim, None, records, level)?;
            self.call(&mut queue);
            return Ok(number);
        }
        drop(queue);
        let _loading = held(&self.loading);
        let known = self.queue().tails.contains_key(&claim.conversation);
        let tail = if known {
            None
        } else {
            Some(tail::read(&self.engine, claim.conversation)?)
        };
        let named = match &claim.birth {
            Some(name) => {
                let key = keys::name(name);
                let owner = self.find(&key, name)?;
                let value = frame::seal(&key, claim.conversation.0.to_vec());
                Some(((key, Some(value)), owner))
            }
            None => None,
        };
        let mut queue = self.open_queue()?;
        if let Some(tail) = tail {
            queue.make_room();
            queue.tails.insert(claim.conversation, tail);
        }
        let number = queue.append(claim, named, records, level)?;
        self.call(&mut queue);
        Ok(number)
    }

    /// Has values written, and waits until their level is reached, which is at least that readers
    /// see them.
    pub(super) fn write(&self, changes: Vec<Change>, level: Level) -> Result<(), StoreError> {
        let number = self.open_queue()?.write(changes, level);
        self.wait(number, level)
    }

    fn wait(&self, number: u64, level: Level) -> Result<(), StoreError> {
        let mut queue = self.queue();
        loop {
            if queue.reached(level) >= number {
                return Ok(());
            }
            if let Some(reason) = self.poisoned() {
                return Err(StoreError::Indeterminate { reason });
            }
            if queue.writing {
                let bell = queue.bell(number, level);
                drop(queue);
                if bell.wait() == Ring::Done {
                    return Ok(());
                }
            } else {
                let crowd = queue.crowd;
                let turn = self.turn(queue);
                self.gather(crowd);
                let mut writer = held(&self.writer);
                let _ = writer.group(self, Level::Buffered); // a failure is seen above
                drop((writer, turn));
            }
            queue = self.queue();
        }
    }

    /// Lets those come who were in the last group and were only just told: as long as more come, but
    /// for no longer than they need to be scheduled. Else every other group takes half of them.
    fn gather(&self, crowd: usize) {
        if crowd < 2 {
            return;
        }
        let mut length = self.queue().length();
        while length < crowd {
            std::thread::yield_now();
            let now = self.queue().length();
            if now == length {
                return;
            }
            length = now;
        }
    }

    fn turn(&self, mut queue: MutexGuard<'_, Queue>) -> Turn<'_> {
        queue.writing = true;
        Turn { shared: self }
    }

    /// Has the values of a record rewritten. No group may move it meanwhile, so all that waits is
    /// written first.
    pub(super) fn rewrite(
        &self,
        level: Level,
        work: impl FnOnce(&mut Codec) -> Result<Rewrite, StoreError>,
    ) -> Result<(), StoreError> {
        let mut queue = self.queue();
        while queue.writing {
            queue = self.until_something_happens(queue);
        }
        let _turn = self.turn(queue);
        let mut writer = held(&self.writer);
        while self.queue().waits() {
            self.refused()?;
            let _ = writer.group(self, Level::Buffered); // a failure is seen by the next look
        }
        self.refused()?;
        let Rewrite { changes, block } = work(&mut writer.codec)?;
        let applied = writer.apply(self, changes);
        if let Some((conversation, first)) = block {
            self.blocks.forget(conversation, first);
        }
        let written = applied.and_then(|()| writer.reach(self, level));
        written.map_err(|error| StoreError::Indeterminate {
            reason: self.poison(&error),
        })
    }

    /// The writing thread: writes what is due until the last handle is gone, then the rest.
    pub(super) fn run(&self) {
        let mut queue = self.queue();
        while !queue.closing {
            let now = Instant::now();
            let due = queue.due().filter(|_| !queue.writing);
            queue.wakes = due;
            queue = match due.map(|due| due.saturating_duration_since(now)) {
                None => held_again(self.work.wait(queue)),
                Some(time) if !time.is_zero() => {
                    let woken = self.work.wait_timeout(queue, time);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    let late = queue.is_late();
                    let level = if late { Level::Synced } else { Level::Buffered };
                    let turn = self.turn(queue);
                    let _ = held(&self.writer).group(self, level); // a failure poisons
                    drop(turn);
                    self.queue()
                }
            };
        }
        drop(queue);
        self.finish();
    }

    /// Writes all that waits. Nobody is left to tell of a failure; the tally tells at reopen.
    fn finish(&self) {
        let mut writer = held(&self.writer);
        let due = || self.queue().due().is_some() && self.poisoned().is_none();
        while due() {
            let _ = writer.group(self, Level::Synced);
        }
        if self.poisoned().is_none() {
            self.engine.settle();
        }
    }

    /// Has the writing thread write the rest and end.
    pub(super) fn close(&self) {
        self.queue().closing = true;
        self.work.notify_one();
    }

    /// Where a log is, with what waits.
    pub(super) fn span(&self, conversation: ConversationId) -> Result<Option<Span>, StoreError> {
        if let Some(tail) = self.queue().tails.get(&conversation) {
            return Ok(tail.span);
        }
        tail::read_span(&self.engine, conversation)
    }

    /// A log's newest entry that is on the disk.
    pub(super) fn durable(&self, conversation: ConversationId) -> Result<Option<Head>, StoreError> {
        {
            let queue = self.queue();
            if let Some(head) = queue.behind.get(&conversation) {
                return Ok(*head);
            }
            if let Some(tail) = queue.tails.get(&conversation) {
                return Ok(tail.written.map(|span| span.head));
            }
        }
        Ok(tail::read_span(&self.engine, conversation)?.map(|span| span.head))
    }

    /// Who has a name.
    pub(super) fn find(
        &self,
        key: &[u8],
        name: &Name,
    ) -> Result<Option<ConversationId>, StoreError> {
        // Waiting before stored: it leaves the one when it is in the other.
        if let Some(owner) = self.queue().owner(key) {
            return Ok(Some(owner));
        }
        let Some(value) = self.engine.value(key)? else {
            return Ok(None);
        };
        let owner = frame::unseal(key, &value)
            .and_then(keys::array)
            .map(ConversationId);
        let reason = || damaged(format!("the record of the name '{}' is damaged", name.name));
        owner.map(Some).ok_or_else(reason)
    }
}

fn held_again<T>(woken: Result<T, PoisonError<T>>) -> T {
    woken.unwrap_or_else(PoisonError::into_inner)
}

fn is_head(key: &[u8]) -> bool {
    key.first() == Some(&keys::HEAD)
}

/// What only one thread at a time has.
#[derive(Debug)]
struct Writer {
    /// As of the group that is being put together.
    tally: Tally,
    /// As of the group that was last applied.
    written: Tally,
    receipt: Receipt,
    /// Bytes applied since the last sync.
    unsynced_bytes: usize,
    codec: Codec,
}

impl Writer {
    /// Writes the oldest of what waits and brings it to the level that it wants, or a higher one.
    /// A failure poisons.
    fn group(&mut self, shared: &Shared, level: Level) -> Result<(), String> {
        let group = shared.queue().take();
        let written = self.write(shared, group, level);
        written.map_err(|error| shared.poison(&error))
    }

    fn write(&mut self, shared: &Shared, mut group: Group, level: Level) -> Result<(), StoreError> {
        let mut changes = std::mem::take(&mut group.changes);
        for growth in &mut group.grown {
            self.grow(&shared.engine, growth, &mut changes)?;
        }
        let wanted = level.max(group.level);
        self.apply(shared, changes)?;
        shared.queue().applied(group);
        self.reach(shared, wanted)
    }

    /// Brings what was applied to a level.
    fn reach(&mut self, shared: &Shared, level: Level) -> Result<(), StoreError> {
        let much = self.unsynced_bytes >= UNSYNCED_BYTES;
        let level = if much { Level::Synced } else { level };
        if level >= Level::Flushed {
            shared.ring(); // for whoever waits for less
            shared.engine.flush()?;
            shared.queue().flushed();
        }
        if level >= Level::Synced {
            shared.ring();
            shared.media.sync()?;
            shared.engine.sync()?;
            self.receipt.write(self.tally)?;
            self.unsynced_bytes = 0;
            shared.queue().synced();
        }
        Ok(())
    }

    fn apply(&mut self, shared: &Shared, mut changes: Vec<Change>) -> Result<(), StoreError> {
        if changes.is_empty() {
            return Ok(());
        }
        shared.media.sync()?; // what is written now may mention what was put before
        let before = std::mem::replace(&mut self.written, self.tally.counted());
        self.tally = self.written;
        let alone = match changes.as_slice() {
            [(head, Some(_)), (record, Some(_))] if is_head(head) => {
                Some(self.tally.ahead(before, record))
            }
            _ => None,
        };
        let apart = alone.is_some();
        changes.push(alone.unwrap_or_else(|| self.tally.change()));
        let bytes = changes.iter().fold(0_usize, |sum, (key, value)| {
            let value = value.as_ref().map_or(0, Vec::len);
            sum.saturating_add(key.len()).saturating_add(value)
        });
        self.unsynced_bytes = self.unsynced_bytes.saturating_add(bytes);
        let applied = {
            let _gate = shared.gate();
            if apart {
                // Tally, record, head record: see `tally`.
                let mut each = changes.into_iter().rev();
                each.try_for_each(|change| shared.engine.put(change))
            } else {
                shared.engine.apply(changes)
            }
        };
        shared.queue().changed();
        applied
    }

    /// The values by which a log grows.
    fn grow(
        &mut self,
        engine: &Engine,
        growth: &mut Growth,
        changes: &mut Vec<Change>,
    ) -> Result<(), StoreError> {
        let (id, from, to) = (growth.conversation, growth.from, growth.to);
        self.tally = self.tally.moved(id, from, to);
        changes.push(frame::write_span(keys::head(id), to));
        let first = from.map_or(to.first, |span| span.head.seq.next());
        let bytes = growth
            .records
            .iter()
            .fold(growth.singles.bytes, |n, r| n.saturating_add(r.len()));
        let count = growth.singles.count.saturating_add(growth.records.len());
        let many = count >= SINGLES_MAX || bytes >= SINGLES_BYTES;
        // What would not shrink is put where it stays at once, and not written twice.
        let stays = growth.singles.count == 0 && growth.prospect.is_hopeless();
        if (many || stays) && !growth.singles.stuck {
            let singles = match tail::unpacked(engine, id, first, growth.singles.count) {
                Err(StoreError::Damaged { .. }) => None,
                read => read?,
            };
            match singles {
                Some(singles) => {
                    self.pack(growth, first, singles, changes);
                    return Ok(());
                }
                None => growth.singles.stuck = true,
            }
        }
        for (seq, record) in (first.0..).map(Seq).zip(&growth.records) {
            frame::write_content(&keys::entry(id, seq), record, changes);
        }
        growth.singles.count = count;
        growth.singles.bytes = bytes;
        Ok(())
    }

    /// Puts a log's singles and its new records into blocks.
    fn pack(
        &mut self,
        growth: &mut Growth,
        first: Seq,
        singles: Unpacked,
        changes: &mut Vec<Change>,
    ) {
        changes.extend(singles.keys.into_iter().map(|key| (key, None)));
        let new = growth.records.iter().map(|record| &record[..]);
        let records = singles.records.iter().map(Vec::as_slice).chain(new);
        let mut rest = records.clone();
        let before = u64::try_from(singles.records.len()).unwrap_or(u64::MAX);
        let mut seq = Seq(first.0.saturating_sub(before));
        for count in block::cut(records.map(<[u8]>::len)) {
            let part = rest.by_ref().take(count);
            let content = block::pack(part, &mut growth.prospect, &mut self.codec);
            frame::write_content(&keys::block(growth.conversation, seq), &content, changes);
            seq = Seq(seq
                .0
                .saturating_add(u64::try_from(count).unwrap_or(u64::MAX)));
        }
        growth.singles = Singles::default();
    }
}
