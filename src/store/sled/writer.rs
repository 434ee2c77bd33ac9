//! Writing. Whoever waits for something to be durable and finds nobody writing to the journal does it,
//! for all that wait. A thread of the store's own brings it into sled's tree, and sees to what nobody
//! waits for in time.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use super::block::Codec;
use super::blocks::Blocks;
use super::directory::Receipt;
use super::engine::{Engine, damaged};
use super::frame::{self, Span};
use super::journal::{Body, Journal};
use super::keys;
use super::media::Media;
use super::note::Append;
use super::queue::{Claim, Due, Group, Queue, Ring};
use super::settle::{Rewrite, Settler};
use super::tail;
use super::tally::Tally;
use crate::log::{ConversationId, Head};
use crate::store::{Level, Name, StoreError};

/// What all that read and write share. Locks are taken in the order settler, noter, receipt; the queue
/// is held by who holds any of them, and by nobody for long.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) engine: Engine,
    pub(super) media: Media,
    pub(super) blocks: Blocks,
    queue: Mutex<Queue>,
    /// Tells the writing thread that there is something to do.
    work: Condvar,
    /// Who writes to the journal, one at a time; nobody where the store is only read.
    noter: Mutex<Option<Noter>>,
    /// Who writes to the tree, one at a time.
    settler: Mutex<Settler>,
    receipt: Mutex<Receipt>,
    /// Held by whoever makes a log's tail or gives a name, so that both are read from the tree once.
    loading: Mutex<()>,
    /// Held while a group is applied; who holds it sees no half of one.
    gate: Mutex<()>,
    /// What failed: nothing is written any more.
    poisoned: OnceLock<String>,
}

/// The journal, to be written.
#[derive(Debug)]
struct Noter {
    journal: Journal,
    body: Body,
}

/// Who may write to the journal, one at a time.
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
    /// `journal`: `None` where the store is only read.
    pub(super) fn new(
        engine: Engine,
        media: Media,
        tally: Tally,
        receipt: Receipt,
        journal: Option<Journal>,
    ) -> Self {
        let noter = journal.map(|journal| Noter {
            journal,
            body: Body::default(),
        });
        Self {
            engine,
            media,
            blocks: Blocks::default(),
            queue: Mutex::default(),
            work: Condvar::new(),
            noter: Mutex::new(noter),
            settler: Mutex::new(Settler::new(tally)),
            receipt: Mutex::new(receipt),
            loading: Mutex::default(),
            gate: Mutex::default(),
            poisoned: OnceLock::new(),
        }
    }

    pub(super) fn receipt(&self) -> MutexGuard<'_, Receipt> {
        held(&self.receipt)
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
        let due = match queue.due() {
            None => return,
            Some(Due::Settle) => Instant::now(),
            Some(Due::Note(_)) if queue.writing => return,
            Some(Due::Note(due)) => due,
        };
        if queue.wakes.is_none_or(|wakes| wakes > due) {
            queue.wakes = Some(due);
            self.work.notify_one();
        }
    }

    /// Accepts records, and waits until their level is reached.
    pub(super) fn append(
        &self,
        claim: Claim,
        records: Vec<Arc<Vec<u8>>>,
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
        records: Vec<Arc<Vec<u8>>>,
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
                Some((key, owner))
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

    /// Waits until all that was accepted has come to a level.
    pub(super) fn sync(&self, level: Level) -> Result<(), StoreError> {
        self.refused()?;
        if level == Level::Buffered {
            return Ok(());
        }
        let number = self.queue().ask(level);
        self.wait(number, level)
    }

    /// Takes derived data, for readers to see at once.
    pub(super) fn derive(&self, key: Vec<u8>, bytes: &[u8]) -> Result<(), StoreError> {
        let mut queue = self.open_queue()?;
        queue.derive(key, bytes);
        self.call(&mut queue);
        Ok(())
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
                let _ = self.group(Level::Buffered); // a failure is seen above
                drop(turn);
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

    /// Writes the oldest of what waits to the journal and brings it to the level that it wants, or a
    /// higher one. For who has the turn. A failure poisons.
    fn group(&self, level: Level) -> Result<(), String> {
        let group = self.queue().take();
        let level = level.max(group.level);
        let written = || {
            while !self.write(&group)? {
                self.settle()?; // the journal is full of what is not in the tree
            }
            self.noted(&group, level)
        };
        written().map_err(|error| self.poison(&error))
    }

    /// The system has a group; brings it to a level.
    fn noted(&self, group: &Group, level: Level) -> Result<(), StoreError> {
        self.queue().noted(group);
        if level < Level::Synced {
            return Ok(());
        }
        self.ring(); // for whoever waits for less
        if let Some(Noter { journal, .. }) = held(&self.noter).as_mut() {
            journal.sync()?;
            self.receipt().journal(journal.synced())?;
        }
        self.queue().synced();
        Ok(())
    }

    /// Hands a group to the system; false where the journal has no room for it.
    fn write(&self, group: &Group) -> Result<bool, StoreError> {
        self.media.sync()?; // what is written now may mention what was put before
        if group.appends.is_empty() {
            return Ok(true);
        }
        let settled = self.queue().settled();
        let mut noter = held(&self.noter);
        let Some(Noter { journal, body }) = noter.as_mut() else {
            return Err(damaged("the store is open only to be read".into()));
        };
        let bytes = body.clear();
        group.appends.iter().for_each(|append| append.write(bytes));
        journal.write(body, group.number, settled)
    }

    /// Brings everything that was accepted into the tree, and this to the disk.
    pub(super) fn settle(&self) -> Result<(), StoreError> {
        self.refused()?;
        if !self.queue().waits() {
            return Ok(());
        }
        self.settle_as(&mut held(&self.settler))
    }

    /// The same for who writes the tree. Whoever waits for it, or for room, is told.
    fn settle_as(&self, settler: &mut Settler) -> Result<(), StoreError> {
        let settled = settler.settle(self);
        self.ring();
        settled
    }

    /// Writes to the journal what has waited long enough, for who writes the tree. Where it has no room
    /// the group waits on: it is about to be in the tree.
    pub(super) fn note_what_is_due(&self) {
        let queue = self.queue();
        let late = matches!(queue.due_to_note(), Some(due) if due <= Instant::now());
        if !late || queue.writing {
            return;
        }
        let _turn = self.turn(queue);
        let group = self.queue().take();
        let written = match self.write(&group) {
            Ok(false) => return self.queue().put_back(group),
            Ok(true) => self.noted(&group, Level::Synced),
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            self.poison(&error);
        }
    }

    /// As somebody does who writes the tree.
    #[cfg(test)]
    pub(super) fn note_beside_the_tree(&self) {
        let _settler = held(&self.settler);
        self.note_what_is_due();
    }

    /// Has a block rewritten, with all that was accepted before in the tree.
    pub(super) fn rewrite(
        &self,
        work: impl FnOnce(&mut Codec) -> Result<Option<Rewrite>, StoreError>,
    ) -> Result<(), StoreError> {
        self.refused()?;
        let mut settler = held(&self.settler);
        let indeterminate = |error| StoreError::Indeterminate {
            reason: self.poison(&error),
        };
        self.settle_as(&mut settler).map_err(indeterminate)?;
        match work(&mut settler.codec)? {
            Some(rewrite) => settler.rewrite(self, rewrite).map_err(indeterminate),
            None => Ok(()),
        }
    }

    /// The writing thread: does what is due until the last handle is gone, then the rest.
    pub(super) fn run(&self) {
        let is_read_only = held(&self.noter).is_none();
        let mut queue = self.queue();
        while !queue.closing {
            let due = queue.due().filter(|_| !is_read_only);
            let now = Instant::now();
            queue.wakes = None;
            queue = match due {
                Some(Due::Settle) => {
                    drop(queue);
                    self.settle_or_poison();
                    self.queue()
                }
                Some(Due::Note(due)) if !queue.writing && due <= now => {
                    let turn = self.turn(queue);
                    let _ = self.group(Level::Synced); // a failure poisons
                    drop(turn);
                    self.queue()
                }
                Some(Due::Note(due)) if !queue.writing => {
                    queue.wakes = Some(due);
                    let time = due.saturating_duration_since(now);
                    let woken = self.work.wait_timeout(queue, time);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                _ => held_again(self.work.wait(queue)),
            };
        }
        drop(queue);
        if !is_read_only {
            self.finish();
        }
    }

    fn settle_or_poison(&self) {
        if let Err(error) = self.settle() {
            self.poison(&error);
        }
    }

    /// Brings all that waits into the tree, and removes the journal. Nobody is left to tell of a
    /// failure; then the journal stays, and the next open reads it.
    fn finish(&self) {
        while self.poisoned().is_none() && self.queue().waits() {
            self.settle_or_poison();
        }
        if self.poisoned().is_none() && self.end_journal().is_ok() {
            self.engine.settle();
        }
    }

    /// Removes the journal: all that it holds is in the tree, on the disk.
    pub(super) fn end_journal(&self) -> Result<(), StoreError> {
        match held(&self.noter).as_mut() {
            None => Ok(()),
            Some(Noter { journal, .. }) => {
                self.receipt().no_journal()?;
                journal.remove()
            }
        }
    }

    /// Takes what a journal that was left behind has. Says of which log it has a part that does not
    /// follow what is there.
    pub(super) fn restore(
        &self,
        appends: Vec<Append>,
    ) -> Result<Option<ConversationId>, StoreError> {
        let mut apart = None;
        for append in appends {
            let id = append.conversation;
            if !self.queue().tails.contains_key(&id) {
                let tail = tail::read(&self.engine, id)?;
                self.queue().tails.insert(id, tail);
            }
            if !self.queue().restore(append) {
                apart = Some(id);
            }
        }
        Ok(apart)
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
        if let Some(tail) = self.queue().tails.get(&conversation) {
            return Ok(tail.durable);
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
