//! Conversations held in memory within a budget.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::log::ConversationId;

use super::budget::Budget;

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
            budget: AtomicUsize::new(Budget::default().held_bytes()),
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use proptest::prelude::*;

    use super::{Held, Memory, Weight};
    use crate::log::ConversationId;

    /// What is left of a log that was given up.
    const REST: usize = 3;

    #[derive(Debug)]
    struct Log {
        weight: Weight,
        size: Arc<AtomicUsize>,
        renewable: bool,
    }

    impl Drop for Log {
        fn drop(&mut self) {
            self.size.store(0, Ordering::Relaxed);
        }
    }

    impl Held for Log {
        fn weight(&self) -> &Weight {
            &self.weight
        }

        fn give_up(&self) -> Option<Box<dyn Send>> {
            self.size.store(REST, Ordering::Relaxed);
            Some(Box::new(()))
        }

        fn rest(&self) -> usize {
            REST
        }

        fn renewable(&self) -> bool {
            self.renewable
        }
    }

    #[derive(Clone, Debug)]
    enum Move {
        /// A log is used and has this size then; its handle is kept or not.
        Use(u8, usize, bool),
        LetGo(u8),
        Forget(u8),
    }

    fn moves() -> impl Strategy<Value = Vec<Move>> {
        let one = prop_oneof![
            8 => (0_u8..12, REST..200_usize, any::<bool>()).prop_map(|(n, size, keep)| Move::Use(n, size, keep)),
            2 => (0_u8..12).prop_map(Move::LetGo),
            1 => (0_u8..12).prop_map(Move::Forget),
        ];
        prop::collection::vec(one, 0..80)
    }

    proptest! {
        #[test]
        fn what_is_held_exceeds_the_budget_by_no_more_than_the_one_in_use(
            moves in moves(), budget in 0_usize..600
        ) {
            let memory = Memory::default();
            memory.set_budget(budget);
            let mut handles: Vec<(u8, Arc<Log>)> = Vec::new();
            let mut sizes: Vec<Arc<AtomicUsize>> = Vec::new();
            let mut in_use = 0;
            for step in moves {
                match step {
                    Move::Use(n, size, keep) => {
                        let id = ConversationId([n; 16]);
                        let new = Arc::new(AtomicUsize::new(REST));
                        sizes.push(Arc::clone(&new));
                        let log = Log { weight: memory.weight(), size: new, renewable: n % 3 > 0 };
                        let held = memory.share(id, log);
                        held.size.store(size, Ordering::Relaxed);
                        memory.used(id, &held, size);
                        in_use = size;
                        if keep {
                            handles.push((n, held));
                        }
                    }
                    Move::LetGo(n) => handles.retain(|(of, _)| *of != n),
                    Move::Forget(n) => memory.forget(ConversationId([n; 16])),
                }
                let real: usize = sizes.iter().map(|s| s.load(Ordering::Relaxed)).sum();
                prop_assert_eq!(memory.bytes(), real, "what is counted is what is there");
                // What somebody holds and nobody may give up: rests, and what was forgotten.
                let kept = handles.iter().map(|(_, log)| log);
                let forgotten = kept.filter(|log| {
                    let all = memory.held();
                    !all.values().any(|held| Arc::ptr_eq(held, log))
                });
                let mut seen: Vec<*const Log> = Vec::new();
                let mut out = 0;
                for log in forgotten {
                    if !seen.contains(&Arc::as_ptr(log)) {
                        seen.push(Arc::as_ptr(log));
                        out += log.size.load(Ordering::Relaxed);
                    }
                }
                let rests = REST * 12;
                prop_assert!(real <= budget + in_use + out + rests, "{real} of {budget}");
            }
        }
    }
}
