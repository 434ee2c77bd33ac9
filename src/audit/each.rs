//! `verify` of many logs: several at a time, the answers in the order of the logs.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use crate::engine::{Error, Store};
use crate::store::{Listed, StoreError};

use super::verify::{Hands, Verified, verify_by};

/// The most threads that verify: each holds a window, and more of them wait for the disk.
const THREADS_MAX: usize = 8;
/// How many logs may be begun, at most, behind one whose answer is not there yet.
const AHEAD: usize = 1_024;
/// How often progress is told of while no log is done.
const TELL: Duration = Duration::from_millis(100);

/// What came of verifying one log.
pub type Answer = Result<Verified, Error>;

/// Verifies conversations, each as [`super::verify`] does, and gives each answer to `done`, in the order
/// they are listed in, until it breaks off. `progress` hears how many entries are done, of all, and of
/// how many.
///
/// Threads take one log after the other, so that a store of many logs is verified with all of the
/// machine. A log that is a large part of the whole gets threads of its own beside.
///
/// # Errors
/// When no thread can be started. That a store cannot be read is in the answers.
pub fn verify_each(
    store: &Store,
    listed: &[Listed],
    progress: &mut dyn FnMut(u64, u64),
    done: &mut dyn FnMut(&Listed, Answer) -> ControlFlow<()>,
) -> Result<(), Error> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.min(THREADS_MAX).min(listed.len()).max(1);
    let lengths: Vec<u64> = listed.iter().map(|one| entries(store, one)).collect();
    let total = lengths
        .iter()
        .fold(0, |sum: u64, more| sum.saturating_add(*more));
    // Twice as many parts as threads: what is less than that is soon made up for.
    let parts = u64::try_from(threads.saturating_mul(2)).unwrap_or(u64::MAX);
    let work = Work {
        store,
        listed,
        large: total.checked_div(parts).unwrap_or(0),
        lengths,
        entries: AtomicU64::new(0),
        turn: Mutex::default(),
        moved: Condvar::new(),
    };
    thread::scope(|scope| {
        let (give, answers) = mpsc::channel();
        let _stop = Stop(&work);
        for _ in 0..threads {
            let (give, work) = (give.clone(), &work);
            let named = thread::Builder::new().name("ctxlog-verify".to_owned());
            let started = named.spawn_scoped(scope, move || work.go(&give));
            started.map_err(|source| StoreError::Io {
                what: "starting a thread to verify".into(),
                source,
            })?;
        }
        drop(give); // so that the answers end
        let mut waiting = BTreeMap::new();
        let mut due = listed.iter().enumerate().peekable();
        loop {
            match answers.recv_timeout(TELL) {
                Ok((index, answer)) => _ = waiting.insert(index, answer),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
            }
            progress(work.entries.load(Ordering::Relaxed).min(total), total);
            while let Some((index, one)) = due.peek().copied() {
                let Some(answer) = waiting.remove(&index) else {
                    break;
                };
                if done(one, answer).is_break() {
                    return Ok(());
                }
                due.next();
                work.turn().answered = index.saturating_add(1);
                work.moved.notify_all();
            }
        }
    })
}

/// How many entries a log says it has; none where it cannot be read, which is told when it is verified.
fn entries(store: &Store, listed: &Listed) -> u64 {
    let head = store.backend().head(listed.conversation).ok().flatten();
    head.map_or(0, |head| head.seq.0.saturating_add(1))
}

struct Work<'a> {
    store: &'a Store,
    listed: &'a [Listed],
    lengths: Vec<u64>,
    /// From how many entries on a log is a large part of the whole.
    large: u64,
    /// How many entries are done.
    entries: AtomicU64,
    turn: Mutex<Turn>,
    moved: Condvar,
}

/// Whose turn it is.
#[derive(Default)]
struct Turn {
    next: usize,
    /// How many answers were given.
    answered: usize,
    stopped: bool,
}

/// Whichever way its holder ends, no thread begins another log, or waits.
struct Stop<'a>(&'a Work<'a>);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.turn().stopped = true;
        self.0.moved.notify_all();
    }
}

impl Work<'_> {
    fn turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next log, once those before it are far enough.
    fn take(&self) -> Option<usize> {
        let far =
            |turn: &mut Turn| !turn.stopped && turn.next >= turn.answered.saturating_add(AHEAD);
        let turn = self.moved.wait_while(self.turn(), far);
        let mut turn = turn.unwrap_or_else(PoisonError::into_inner);
        if turn.stopped || turn.next >= self.listed.len() {
            return None;
        }
        let index = turn.next;
        turn.next = index.saturating_add(1);
        Some(index)
    }

    fn go(&self, give: &mpsc::Sender<(usize, Answer)>) {
        let panics = StopAtPanic(self);
        while let Some(index) = self.take() {
            let Some(listed) = self.listed.get(index) else {
                break;
            };
            let length = self.lengths.get(index).copied().unwrap_or(0);
            // Which is what a log of a usual length gets where there is but one thread, or one log.
            let hands = (length < self.large).then_some(Hands::One);
            let mut told = 0_u64;
            let answer = verify_by(hands, self.store, listed, &mut |at, _| {
                let more = at.saturating_add(1).saturating_sub(told);
                self.entries.fetch_add(more, Ordering::Relaxed);
                told = told.saturating_add(more);
            });
            if give.send((index, answer)).is_err() {
                break; // nobody wants more
            }
        }
        drop(panics);
    }
}

/// A panic ends the others as well: the answer that it owes is waited for by nobody.
struct StopAtPanic<'a>(&'a Work<'a>);

impl Drop for StopAtPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            drop(Stop(self.0));
        }
    }
}
