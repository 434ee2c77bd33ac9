//! Conversations held in memory within a budget.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::log::ConversationId;

/// What folds may take together unless said otherwise, in bytes.
const BUDGET: usize = 256 << 20;

/// What is held of one log.
pub(super) trait Held {
    /// What it takes of the budget.
    fn weight(&self) -> &Weight;
    /// Gives up what can be read again; what it was, or `None` while it is in use.
    fn give_up(&self) -> Option<Box<dyn Send>>;
    /// About how many bytes are left of it then.
    fn rest(&self) -> usize;
    /// Whether it can be made again from the store alone.
    fn renewable(&self) -> bool;
}

/// What all together take.
#[derive(Debug)]
struct Account {
    budget: AtomicUsize,
    bytes: AtomicUsize,
    /// Counts uses.
    uses: AtomicU64,
}

/// What one log takes of the budget, in bytes. It is given back when the last handle of the log goes, so
/// that what is held counts for as long as anyone holds it.
#[derive(Debug)]
pub(super) struct Weight {
    of: Arc<Account>,
    bytes: AtomicUsize,
    /// The newest use.
    used: AtomicU64,
}

impl Weight {
    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Differences are exact whoever sets it meanwhile, so the sum is.
    fn set(&self, bytes: usize) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        let more = bytes.wrapping_sub(before);
        self.of.bytes.fetch_add(more, Ordering::Relaxed);
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// What is held of all logs. Those that were not used for the longest time are given up when all
/// take more than the budget.
#[derive(Debug)]
pub(super) struct Memory<T> {
    account: Arc<Account>,
    of: Mutex<HashMap<ConversationId, Arc<T>>>,
}

impl<T> Default for Memory<T> {
    fn default() -> Self {
        let account = Account {
            budget: AtomicUsize::new(BUDGET),
            bytes: AtomicUsize::new(0),
            uses: AtomicU64::new(0),
        };
        Self {
            account: Arc::new(account),
            of: Mutex::default(),
        }
    }
}

impl<T> Memory<T> {
    /// The weight of a log of which nothing is held yet.
    pub(super) fn weight(&self) -> Weight {
        Weight {
            of: Arc::clone(&self.account),
            bytes: AtomicUsize::new(0),
            used: AtomicU64::new(0),
        }
    }

    pub(super) fn set_budget(&self, bytes: usize) {
        self.account.budget.store(bytes, Ordering::Relaxed);
    }

    fn budget(&self) -> usize {
        self.account.budget.load(Ordering::Relaxed)
    }

    /// How many bytes all take.
    pub(super) fn bytes(&self) -> usize {
        self.account.bytes.load(Ordering::Relaxed)
    }

    fn held(&self) -> MutexGuard<'_, HashMap<ConversationId, Arc<T>>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Held> Memory<T> {
    /// What is held of a log.
    pub(super) fn get(&self, id: ConversationId) -> Option<Arc<T>> {
        self.held().get(&id).map(Arc::clone)
    }

    /// Holds a log, unless it is held already; gives what is held.
    pub(super) fn share(&self, id: ConversationId, new: T) -> Arc<T> {
        let held = Arc::clone(self.held().entry(id).or_insert_with(|| Arc::new(new)));
        let bytes = held.weight().bytes().max(held.rest());
        self.used(id, &held, bytes);
        held
    }

    /// Notes a use of a log, and about how many bytes it takes now.
    pub(super) fn used(&self, id: ConversationId, held: &T, bytes: usize) {
        let weight = held.weight();
        let now = self.account.uses.fetch_add(1, Ordering::Relaxed);
        weight.used.store(now, Ordering::Relaxed);
        weight.set(bytes);
        if self.bytes() > self.budget() {
            self.shrink(id);
        }
    }

    pub(super) fn forget(&self, id: ConversationId) {
        let gone = self.held().remove(&id);
        drop(gone); // outside the lock: it may be large
    }

    /// Gives up the oldest, down to seven eighths of the budget, so that this is not done at each
    /// use.
    fn shrink(&self, but: ConversationId) {
        let target = self.budget().saturating_sub(self.budget() / 8);
        let mut given_up = Vec::new();
        let mut of = self.held();
        let others = of.iter().filter(|(id, _)| **id != but);
        let used = |held: &Arc<T>| held.weight().used.load(Ordering::Relaxed);
        let mut oldest: Vec<(u64, ConversationId)> = others.map(|(id, h)| (used(h), *id)).collect();
        oldest.sort_unstable();
        for (_, id) in oldest {
            if self.bytes() <= target {
                break;
            }
            let Some(held) = of.get(&id) else {
                continue;
            };
            let Some(fold) = held.give_up() else {
                continue;
            };
            given_up.push(fold);
            let left = held.rest().min(held.weight().bytes());
            held.weight().set(left);
            if Arc::strong_count(held) == 1 && held.renewable() {
                of.remove(&id);
            }
        }
        drop(of);
        drop(given_up); // outside the lock: it may be large
    }
}
