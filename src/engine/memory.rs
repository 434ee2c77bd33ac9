//! Conversations held in memory within a budget.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::log::ConversationId;

/// What folds may take together unless said otherwise, in bytes.
const BUDGET: usize = 256 << 20;

/// What is held of one log.
pub(super) trait Held {
    /// Gives up what can be read again; what it was, or `None` while it is in use.
    fn give_up(&self) -> Option<Box<dyn Send>>;
    /// About how many bytes are left of it then.
    fn rest(&self) -> usize;
    /// Whether it can be made again from the store alone.
    fn renewable(&self) -> bool;
}

/// What is held of all logs. Those that were not used for the longest time are given up when all
/// take more than the budget.
#[derive(Debug)]
pub(super) struct Memory<T>(Mutex<Slots<T>>);

#[derive(Debug)]
struct Slots<T> {
    of: HashMap<ConversationId, Slot<T>>,
    budget: usize,
    /// What all of them take, in bytes.
    bytes: usize,
    /// Counts uses.
    now: u64,
}

#[derive(Debug)]
struct Slot<T> {
    held: Arc<T>,
    bytes: usize,
    used: u64,
}

impl<T> Default for Memory<T> {
    fn default() -> Self {
        Self(Mutex::new(Slots {
            of: HashMap::new(),
            budget: BUDGET,
            bytes: 0,
            now: 0,
        }))
    }
}

impl<T: Held> Memory<T> {
    fn slots(&self) -> MutexGuard<'_, Slots<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_budget(&self, bytes: usize) {
        self.slots().budget = bytes;
    }

    /// What is held of a log.
    pub(super) fn get(&self, id: ConversationId) -> Option<Arc<T>> {
        self.slots().of.get(&id).map(|slot| Arc::clone(&slot.held))
    }

    /// Holds a log, unless it is held already; gives what is held.
    pub(super) fn share(&self, id: ConversationId, new: T) -> Arc<T> {
        let mut slots = self.slots();
        let slot = slots.of.entry(id).or_insert_with(|| Slot {
            held: Arc::new(new),
            bytes: 0,
            used: 0,
        });
        let held = Arc::clone(&slot.held);
        let bytes = slot.bytes.max(held.rest());
        let given_up = slots.used(id, bytes);
        drop(slots);
        drop(given_up); // outside the lock: it may be large
        held
    }

    /// Notes a use of a log, and about how many bytes it takes now.
    pub(super) fn used(&self, id: ConversationId, bytes: usize) {
        let given_up = self.slots().used(id, bytes);
        drop(given_up);
    }

    pub(super) fn forget(&self, id: ConversationId) {
        let mut slots = self.slots();
        let gone = slots.of.remove(&id);
        let bytes = gone.as_ref().map_or(0, |slot| slot.bytes);
        slots.bytes = slots.bytes.saturating_sub(bytes);
        drop(slots);
        drop(gone);
    }
}

impl<T: Held> Slots<T> {
    fn used(&mut self, id: ConversationId, bytes: usize) -> Vec<Box<dyn Send>> {
        self.now = self.now.saturating_add(1);
        let Some(slot) = self.of.get_mut(&id) else {
            return Vec::new(); // forgotten meanwhile
        };
        slot.used = self.now;
        let before = std::mem::replace(&mut slot.bytes, bytes);
        self.bytes = self.bytes.saturating_sub(before).saturating_add(bytes);
        if self.bytes > self.budget {
            self.shrink(id)
        } else {
            Vec::new()
        }
    }

    /// Gives up the oldest, down to seven eighths of the budget, so that this is not done at each
    /// use.
    fn shrink(&mut self, but: ConversationId) -> Vec<Box<dyn Send>> {
        let target = self.budget.saturating_sub(self.budget / 8);
        let others = self.of.iter().filter(|(id, _)| **id != but);
        let mut oldest: Vec<(u64, ConversationId)> = others.map(|(id, s)| (s.used, *id)).collect();
        oldest.sort_unstable();
        let mut given_up = Vec::new();
        for (_, id) in oldest {
            if self.bytes <= target {
                break;
            }
            let Some(slot) = self.of.get_mut(&id) else {
                continue;
            };
            let Some(fold) = slot.held.give_up() else {
                continue;
            };
            given_up.push(fold);
            let left = slot.held.rest();
            let freed = slot.bytes.saturating_sub(left);
            slot.bytes = left.min(slot.bytes);
            self.bytes = self.bytes.saturating_sub(freed);
            if Arc::strong_count(&slot.held) == 1 && slot.held.renewable() {
                self.bytes = self.bytes.saturating_sub(slot.bytes);
                self.of.remove(&id);
            }
        }
        given_up
    }
}
