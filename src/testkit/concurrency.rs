//! Many writers and readers at once: nothing is lost, doubled or half read, and of those that expect
//! one head, one wins.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use super::{Figure, Trouble};
use crate::audit;
use crate::engine::{Content, Conversation, Error, Options, Store};
use crate::log::{Message, MessageId, RequestReason, Seq};
use crate::store::{Backend, Level, MemoryStore, SledStore};
use crate::strategy::SlidingWindow;

/// Logs that the writers of one handle share where they share several.
const LOGS: u64 = 4;
/// What the windows keep.
const KEEP: u64 = 5;
/// A writer calls after so many of its messages.
const CALL_EVERY: u64 = 3;
/// Handles that do not know of each other read a whole log again after each lost race, so each log
/// of theirs is short.
const SHORT: u64 = 20;
/// How long a reader waits after a read, so that it reads beside the writers and not instead of them.
const BREATH: Duration = Duration::from_millis(2);
/// How often all writers race for one head.
const RACES: u64 = 50;

/// How much is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Threads that write; a quarter as many read.
    pub writers: u64,
    /// Messages that each of them appends, in each arrangement.
    pub appends: u64,
}

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// Appends that were acknowledged.
    pub appends: u64,
    /// Appends that lost a race, were told `stale-head`, and were tried again or given up.
    pub stale: u64,
    /// Windows and whole logs that were read meanwhile.
    pub reads: u64,
    /// What is not as it should be, in words.
    pub problems: Vec<String>,
}

impl Found {
    /// Figure 9.
    #[must_use]
    pub fn figure(&self, plan: &Plan) -> Figure {
        let goal = format!(
            "{} writers x {} appends: nothing lost, doubled or half read; one winner per head",
            plan.writers, plan.appends
        );
        let mut value = format!(
            "{} appends, {} lost races, {} reads: {} faults",
            self.appends,
            self.stale,
            self.reads,
            self.problems.len()
        );
        if let Some(first) = self.problems.first() {
            value = format!("{value}; {first}");
        }
        let holds = self.problems.is_empty();
        Figure::new("9", "many writers and readers at once", goal, value, holds)
    }

    fn with(mut self, other: Self) -> Self {
        self.appends = self.appends.saturating_add(other.appends);
        self.stale = self.stale.saturating_add(other.stale);
        self.reads = self.reads.saturating_add(other.reads);
        self.problems.extend(other.problems);
        self
    }

    fn demand(&mut self, holds: bool, words: impl FnOnce() -> String) {
        if !holds {
            self.problems.push(words());
        }
    }
}

/// How the writers come to the logs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrangement {
    /// Through one handle, to several logs.
    SeveralLogs,
    /// Through one handle, to one log.
    OneLog,
    /// Each through a handle of its own, which does not know of the others, to one log.
    SeveralHandles,
}

impl Arrangement {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::SeveralLogs, Self::OneLog, Self::SeveralHandles];
}

/// Runs all arrangements, and races for one head, in memory and on a sled directory in `dir`.
/// `progress` hears how many of them are done, and of how many.
///
/// # Errors
/// When a request fails that has to be accepted.
pub fn concurrency(
    plan: &Plan,
    dir: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Found, Trouble> {
    let memory: Arc<dyn Backend> = Arc::new(MemoryStore::new());
    let sled: Arc<dyn Backend> = Arc::new(SledStore::open(dir.join("store"))?);
    let mut found = Found::default();
    let mut done = 0_u64;
    for backend in [memory, sled] {
        for arrangement in Arrangement::ALL {
            found = found.with(arrange(&backend, arrangement, plan)?);
            done = done.saturating_add(1);
            progress(done, 8);
        }
        found = found.with(race_for_heads(&backend, plan.writers)?);
        done = done.saturating_add(1);
        progress(done, 8);
        found.problems.extend(verify(&backend)?);
    }
    Ok(found)
}

fn on(backend: &Arc<dyn Backend>) -> Store {
    Store::on(Arc::clone(backend)).with_level(Level::Buffered)
}

/// Every log of the backend, through a handle that has seen none of it.
fn verify(backend: &Arc<dyn Backend>) -> Result<Vec<String>, Trouble> {
    let store = on(backend);
    let mut problems = Vec::new();
    for listed in store.list()? {
        let verified = audit::verify(&store, &listed, &mut |_, _| {})?;
        let name = listed.name.name;
        problems.extend(verified.problems.iter().map(|p| format!("'{name}': {p}")));
    }
    Ok(problems)
}

/// What one writer was acknowledged: log, message, words.
type Written = Vec<(String, MessageId, String)>;

/// Writes and reads in one arrangement, and looks whether all is there.
///
/// # Errors
/// When a request fails that has to be accepted.
pub fn arrange(
    backend: &Arc<dyn Backend>,
    arrangement: Arrangement,
    plan: &Plan,
) -> Result<Found, Trouble> {
    let shared = on(backend);
    let stop = AtomicBool::new(false);
    let log = |writer: u64, n: u64| match arrangement {
        Arrangement::SeveralLogs => format!("several-{}", writer % LOGS),
        Arrangement::OneLog => "one".to_owned(),
        Arrangement::SeveralHandles => format!("short-{}", n / SHORT),
    };
    // Made beforehand, so that no writer's first request is another's `configured`.
    for n in 0..plan.appends {
        for writer in 0..LOGS.min(plan.writers) {
            let name = log(writer, n);
            if shared.existing(&name).is_err() {
                shared
                    .conversation(&name)?
                    .with_strategy(SlidingWindow::new(KEEP))?;
            }
        }
    }
    let (written, mut found) = thread::scope(|scope| {
        let (stop, shared, log) = (&stop, &shared, &log);
        let readers: Vec<_> = (0..plan.writers.div_ceil(4))
            .map(|r| scope.spawn(move || read(backend, shared, &log(r, 0), r % 2 == 0, stop)))
            .collect();
        let writers: Vec<_> = (0..plan.writers)
            .map(|writer| {
                let own = match arrangement {
                    Arrangement::SeveralHandles => on(backend),
                    _ => shared.clone(),
                };
                scope.spawn(move || write(&own, writer, plan.appends, log))
            })
            .collect();
        let written = all(writers);
        stop.store(true, Ordering::Relaxed);
        let read = all(readers)?
            .into_iter()
            .fold(Found::default(), Found::with);
        Ok::<_, Trouble>((written?, read))
    })?;
    let mut wrote = Vec::new();
    for (one, stale) in written {
        found.stale = found.stale.saturating_add(stale);
        wrote.push(one);
    }
    look(&on(backend), &wrote, &mut found)?;
    Ok(found)
}

fn all<T>(threads: Vec<ScopedJoinHandle<'_, Result<T, Trouble>>>) -> Result<Vec<T>, Trouble> {
    let joined: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
    let died = |_| Trouble::harness("a thread died");
    joined.into_iter().map(|one| one.map_err(died)?).collect()
}

fn is_stale(error: &Error) -> bool {
    error
        .refusal()
        .is_some_and(|r| r.reason == RequestReason::StaleHead)
}

/// Asks until no other writer is faster; says how often one was.
fn insist<T>(stale: &mut u64, mut ask: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    loop {
        match ask() {
            Err(error) if is_stale(&error) => *stale = stale.saturating_add(1),
            answer => return answer,
        }
    }
}

/// Appends and calls; gives what was acknowledged, and how many races were lost.
fn write(
    store: &Store,
    writer: u64,
    appends: u64,
    log: &(impl Fn(u64, u64) -> String + Sync),
) -> Result<(Written, u64), Trouble> {
    let (mut written, mut stale) = (Vec::new(), 0);
    for n in 0..appends {
        let name = log(writer, n);
        let chat = store.existing(&name)?;
        let words = format!("writer {writer}, message {n}");
        // A model's words end the run, so that the window does not grow with the log.
        let message = if n % 2 == 0 {
            Message::person
        } else {
            Message::model
        };
        let ack = insist(&mut stale, || chat.append(message(words.clone())))?;
        if n % CALL_EVERY == 0 {
            let call = insist(&mut stale, || chat.call())?;
            // Others may have appended since: the window is the call's all the same.
            if chat.window_at(call.iteration)?.digest != call.window.digest {
                return Err(Trouble::harness(format!(
                    "{} has another window",
                    call.iteration
                )));
            }
        }
        written.push((name, ack.message(), words));
    }
    Ok((written, stale))
}

/// Reads until told to stop: through the shared handle each newest window has to be the one that its
/// call recorded; through a fresh one a whole log has to fold up to its head.
fn read(
    backend: &Arc<dyn Backend>,
    shared: &Store,
    log: &str,
    fresh: bool,
    stop: &AtomicBool,
) -> Result<Found, Trouble> {
    let mut found = Found::default();
    while !stop.load(Ordering::Relaxed) {
        let chat = if fresh {
            on(backend).existing(log)?
        } else {
            shared.existing(log)?
        };
        read_once(&chat, &mut found)?;
        found.reads = found.reads.saturating_add(1);
        thread::sleep(BREATH);
    }
    Ok(found)
}

fn read_once(chat: &Conversation, found: &mut Found) -> Result<(), Trouble> {
    let newest = chat.with_projection(|p| p.sent().last().cloned())?;
    let Some(sent) = newest else { return Ok(()) };
    let window = chat.window_after(sent.fact.seq)?;
    let name = chat.name();
    found.demand(window.digest == sent.window, || {
        format!("'{name}': {} was read with another window", sent.fact.seq)
    });
    if let Some(item) = window.items.first() {
        let seen = chat.why(item.id)?.seen_by.calls;
        found.demand(seen > 0, || {
            format!("'{name}': {} was in no call's window", item.id)
        });
    }
    Ok(())
}

/// Whether everything that was acknowledged is there, once, in its writer's order, as it was said.
fn look(store: &Store, wrote: &[Written], found: &mut Found) -> Result<(), Trouble> {
    let mut of_log: BTreeMap<&str, BTreeMap<MessageId, &str>> = BTreeMap::new();
    for one in wrote {
        let mut newest: BTreeMap<&str, MessageId> = BTreeMap::new();
        for (log, id, words) in one {
            found.appends = found.appends.saturating_add(1);
            let before = newest.insert(log, *id);
            found.demand(before < Some(*id), || {
                format!("'{log}': {id} is out of order")
            });
            let other = of_log.entry(log).or_default().insert(*id, words);
            found.demand(other.is_none(), || format!("'{log}': {id} was given twice"));
        }
    }
    for (log, messages) in of_log {
        let chat = store.existing(log)?;
        let logged: Vec<MessageId> =
            chat.with_projection(|p| p.messages().iter().map(|m| m.id).collect())?;
        found.demand(logged.iter().eq(messages.keys()), || {
            format!(
                "'{log}' holds {} messages, not {}",
                logged.len(),
                messages.len()
            )
        });
        for (id, words) in messages {
            let said = match chat.content(id.seq(), 0)? {
                Content::Message(message) => message.words(),
                Content::Redacted => String::new(),
            };
            found.demand(said == words, || format!("'{log}': {id} says '{said}'"));
        }
    }
    Ok(())
}

/// All writers expect one head, half of them through a handle of their own: one of them wins.
fn race_for_heads(backend: &Arc<dyn Backend>, writers: u64) -> Result<Found, Trouble> {
    let (shared, mut found) = (on(backend), Found::default());
    let chat = shared.conversation("race")?;
    let mut head = chat.append(Message::person("go"))?.last;
    for race in 0..RACES {
        let won: Vec<Option<Seq>> = thread::scope(|scope| {
            let racers = (0..writers).map(|writer| {
                let store = if writer % 2 == 0 {
                    shared.clone()
                } else {
                    on(backend)
                };
                scope.spawn(move || attempt(&store, head, writer))
            });
            let racers: Vec<_> = racers.collect();
            all(racers)
        })?;
        let winners: Vec<Seq> = won.iter().filter_map(|w| *w).collect();
        let losers = won.len().saturating_sub(winners.len());
        found.stale = found
            .stale
            .saturating_add(u64::try_from(losers).unwrap_or(u64::MAX));
        found.demand(winners == [head.next()], || {
            format!("race {race} for {head} was won by {winners:?}")
        });
        // What the shared handle knows may be behind a winner of another.
        let now = on(backend).existing("race")?;
        head = now.head()?.map_or(head, |h| h.seq);
        now.store()
            .entries(now.id(), head, head, &mut |_| ControlFlow::Continue(()))?;
    }
    Ok(found)
}

fn attempt(store: &Store, head: Seq, writer: u64) -> Result<Option<Seq>, Trouble> {
    let chat = store.existing("race")?;
    let options = Options {
        expected: Some(head),
        ..Options::default()
    };
    match chat.append_with(Message::person(format!("writer {writer}")), &options) {
        Ok(ack) => Ok(Some(ack.last)),
        Err(error) if is_stale(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
