//! Logs in an embedded sled directory.
//!
//! sled 0.34 has faults that lose data; each has its remedy here:
//!
//! | fault | remedy |
//! | --- | --- |
//! | its flush does not reach the disk | the writer syncs `db` through a handle of its own |
//! | a kill while opening leaves half a snapshot, which the next open fails on | removed before every open |
//! | an unreadable snapshot | set aside, never deleted; then every value must be checked |
//! | large values go to files that are never synced | no value exceeds 4096 bytes |
//! | it panics where its files are damaged | every call is guarded; every value has a checksum |
//! | where it meets damage at open, it overwrites all that follows | a checksum left at close is compared before sled is started |
//! | a power cut leaves gaps in what was not synced, which it passes over | cut where the first of them begins |
//! | it silently drops a damaged page, or all that follows | logs are counted against their head records, and these against a tally |
//! | transactions deadlock | not used: one thread writes, one batch per group |
//! | its default cache is 1 GB | 64 MiB |

mod check;
mod directory;
mod engine;
mod frame;
mod gap;
mod keys;
mod mend;
mod open;
mod read;
mod seal;
mod tally;
mod writer;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use self::directory::{Directory, State};
use self::engine::{ContentError, Engine, damaged};
use self::frame::{Change, Frame, Place};
use self::tally::Tally;
use self::writer::{Claim, Request, Shared, Writer, place};
use super::limits::{self, BLOB_BYTES_MAX, DERIVED_BYTES_MAX, NAME_BYTES_MAX};
use super::{Backend, Batch, Level, Listed, Name, Payload, StoreError};
use crate::log::{ConversationId, Hash, Head, Seq};

/// How many requests may wait for the writer before callers wait to hand theirs over.
const WAITING_MAX: usize = 256;

/// A store in a directory of this machine.
///
/// The directory holds a marker file `CTXLOG`, a lock file and `sled/` with sled's own files. Only
/// one process, and in it one handle with its clones, has a store open at a time. Dropping the
/// last clone brings everything to the disk and closes the store.
///
/// Destroying a payload makes it unreadable through every interface. sled may keep its old bytes
/// in `sled/db` until it reuses their space; to be rid of them at once, write the logs into a new
/// directory and remove this one.
///
/// Where sled's files are damaged, sled panics and the panic is caught: its words then also appear
/// on stderr, unless the program has a panic hook of its own.
#[derive(Clone, Debug)]
pub struct SledStore {
    inner: Arc<Inner>,
}

/// How a copy was made readable.
#[derive(Debug)]
struct Salvage {
    /// Whether damaged parts of sled's file were passed over.
    passed_over: bool,
}

#[derive(Debug)]
struct Inner {
    requests: Option<SyncSender<Request>>,
    writer: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
    engine: Arc<Engine>,
    /// Held by whoever reads something in order to replace it (payloads, blobs, derived data).
    rewriting: Mutex<()>,
    /// Given when it was opened to save what can be read, and must not be written.
    salvage: Option<Salvage>,
    /// Last, so that the lock goes when all else is closed.
    directory: Directory,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join(); // it panics only by a bug; what it acknowledged is where it said
        }
        if self.salvage.is_some() {
            let _ = self.directory.remove_salvage(); // else the next salvage does it
        }
    }
}

impl SledStore {
    /// Opens the store at `path`; makes one where there is nothing, or an empty directory.
    ///
    /// # Errors
    /// [`StoreError::Busy`], [`StoreError::NotAStore`], [`StoreError::Newer`]: the directory was
    /// left untouched. [`StoreError::Damaged`] where sled cannot open its files, or opens them
    /// without something that was written; [`Self::salvage`] may still read the rest.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_as(path.as_ref(), false)
    }

    /// Opens the store at `path`, which must exist.
    ///
    /// # Errors
    /// As [`Self::open`]; [`StoreError::NotAStore`] where there is none.
    pub fn open_existing(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::existing(path.as_ref(), false)
    }

    /// Opens a damaged store to save what can be read. Works on a copy of sled's files, which
    /// needs as much space again and is removed with the last handle: the store itself stays as it
    /// is. [`Backend::check`] says what is wrong; every verb that writes is refused.
    ///
    /// # Errors
    /// As [`Self::open_existing`], but [`StoreError::Damaged`] only where nothing can be read.
    pub fn salvage(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::existing(path.as_ref(), true)
    }

    fn existing(path: &Path, salvage: bool) -> Result<Self, StoreError> {
        match directory::inspect(path)? {
            State::Whole => Self::open_as(path, salvage),
            State::Absent | State::Unfinished => Err(directory::absent(path)),
        }
    }

    fn open_as(path: &Path, salvage: bool) -> Result<Self, StoreError> {
        directory::inspect(path)?;
        let directory = Directory::lock(path)?;
        // Again, since another process may have been here between the look and the lock.
        let state = directory::inspect(directory.path())?;
        Self::start(directory, state, salvage)
    }

    /// The store's directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.inner.directory.path()
    }

    /// The directory of sled's own files. Never copy it while the store is open: the copy may open
    /// as an empty store.
    #[must_use]
    pub fn sled_dir(&self) -> PathBuf {
        self.inner.directory.sled()
    }

    fn start(directory: Directory, state: State, salvage: bool) -> Result<Self, StoreError> {
        if state == State::Whole && !directory.sled().join("db").exists() {
            return Err(open::distrust(&directory, "sled's files are gone"));
        }
        if salvage {
            let (engine, passed_over) = open::salvaged(&directory)?;
            let salvage = Some(Salvage { passed_over });
            return Self::run(Arc::new(engine), directory, Tally::default(), salvage);
        }
        let engine = Arc::new(open::engine(&directory)?);
        let tally = match state {
            State::Whole => open::verify(&engine, &directory)?,
            State::Absent | State::Unfinished => open::establish(&engine, &directory)?,
        };
        Self::run(engine, directory, tally, None)
    }

    /// Starts the writer.
    fn run(
        engine: Arc<Engine>,
        directory: Directory,
        tally: Tally,
        salvage: Option<Salvage>,
    ) -> Result<Self, StoreError> {
        let shared = Arc::new(Shared::default());
        let (requests, queue) = mpsc::sync_channel(WAITING_MAX);
        let (owned, seen) = (Arc::clone(&engine), Arc::clone(&shared));
        let writer = spawn(Writer::new(owned, seen, tally, directory.receipt()?), queue)?;
        let (requests, writer) = (Some(requests), Some(writer));
        let rewriting = Mutex::new(());
        let inner = Inner {
            requests,
            writer,
            shared,
            engine,
            rewriting,
            salvage,
            directory,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    /// Has the writer do something, and waits until its level is reached.
    fn write(
        &self,
        claim: Option<Claim>,
        changes: Vec<Change>,
        level: Level,
    ) -> Result<(), StoreError> {
        if self.inner.salvage.is_some() {
            return Err(damaged(
                "the store is open for salvage, so nothing is written".into(),
            ));
        }
        let (reply, outcome) = mpsc::sync_channel(1);
        let ended = "the writing thread has ended".to_owned();
        let request = Request {
            claim,
            changes,
            level,
            reply,
        };
        let requests = self.inner.requests.as_ref();
        if requests.is_none_or(|requests| requests.send(request).is_err()) {
            return Err(StoreError::Poisoned { reason: ended });
        }
        let outcome = outcome.recv();
        self.trusted(outcome.unwrap_or(Err(StoreError::Indeterminate { reason: ended })))
    }

    /// What was done, unless a write failed before: then sled may show half of it, and refuses what
    /// it can no longer put in order, so that an error says nothing about the disk. A write of
    /// sled's own threads that failed first shows in whatever is asked next, and ends writing too.
    fn trusted<T>(&self, done: Result<T, StoreError>) -> Result<T, StoreError> {
        let shared = &self.inner.shared;
        match done {
            Err(error @ StoreError::Io { .. }) => {
                let reason = shared.poison(&error);
                Err(StoreError::Poisoned { reason })
            }
            Err(error @ StoreError::Damaged { .. }) => {
                let poisoned = shared.poisoned();
                Err(poisoned.map_or(error, |reason| StoreError::Poisoned { reason }))
            }
            done => done,
        }
    }

    /// Has a verb read something in order to replace it. One at a time, and never after a write
    /// failed: what is read then may be half of what was written.
    fn rewrite<T>(&self, verb: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        if let Some(reason) = self.inner.shared.poisoned() {
            return Err(StoreError::Poisoned { reason });
        }
        let rewriting = &self.inner.rewriting;
        let _held = rewriting.lock().unwrap_or_else(PoisonError::into_inner);
        self.trusted(verb())
    }

    /// The content of an entry's key; `None` where there is no such entry.
    fn frame(&self, conversation: ConversationId, seq: Seq) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.engine().content(&keys::entry(conversation, seq));
        found.map_err(|error| at(conversation, Some(seq), "the entry", error))
    }

    /// Removals of all values of the contents whose keys begin with `prefix`.
    fn removals(&self, prefix: &[u8]) -> Result<Vec<Change>, StoreError> {
        let scan = self.engine().scan(prefix, &keys::after(prefix))?;
        scan.map(|found| found.map(|(key, _)| (key.to_vec(), None)))
            .collect()
    }
}

fn spawn(writer: Writer, queue: Receiver<Request>) -> Result<JoinHandle<()>, StoreError> {
    let builder = std::thread::Builder::new().name("ctxlog-writer".into());
    let spawned = builder.spawn(move || writer.run(&queue));
    spawned.map_err(|source| StoreError::Io {
        what: "starting the writer".into(),
        source,
    })
}

/// Places a content's damage.
fn at(
    conversation: ConversationId,
    seq: Option<Seq>,
    what: &str,
    error: ContentError,
) -> StoreError {
    match error {
        ContentError::Flawed(flaw) => place(conversation, seq, format!("{what}: {flaw}")),
        ContentError::Store(StoreError::Damaged {
            conversation: None,
            reason,
            ..
        }) => place(conversation, seq, reason),
        ContentError::Store(error) => error,
    }
}

impl Backend for SledStore {
    fn append(&self, batch: Batch, level: Level) -> Result<(), StoreError> {
        let (first, newest) = limits::validate(&batch)?;
        let Batch {
            conversation,
            expected,
            birth,
            records,
        } = batch;
        let mut changes = Vec::new();
        for record in &records {
            frame::write_record(conversation, record, &mut changes);
        }
        drop(records);
        self.write(
            Some(Claim {
                conversation,
                expected,
                birth,
                first,
                newest,
            }),
            changes,
            level,
        )
    }

    fn head(&self, conversation: ConversationId) -> Result<Option<Head>, StoreError> {
        let span = self.trusted(writer::read_span(self.engine(), conversation))?;
        Ok(span.map(|span| span.head))
    }

    fn durable_head(&self, conversation: ConversationId) -> Result<Option<Head>, StoreError> {
        let behind = self.inner.shared.behind();
        match behind.get(&conversation) {
            Some(head) => Ok(*head),
            None => self.head(conversation),
        }
    }

    fn entries(
        &self,
        conversation: ConversationId,
        from: Seq,
        to: Seq,
        show: &mut dyn FnMut(Seq, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.trusted(self.read_entries(conversation, from, to, show))
    }

    fn payload(
        &self,
        conversation: ConversationId,
        seq: Seq,
        index: u32,
    ) -> Result<Option<Payload>, StoreError> {
        self.trusted(self.read_payload(conversation, seq, index))
    }

    fn destroy_payload(
        &self,
        conversation: ConversationId,
        seq: Seq,
        index: u32,
        level: Level,
    ) -> Result<(), StoreError> {
        self.rewrite(|| {
            let Some(content) = self.frame(conversation, seq)? else {
                return Ok(());
            };
            let reason = || "the entry's lengths contradict each other".to_owned();
            let frame = Frame::read(&content);
            let frame = frame.ok_or_else(|| place(conversation, Some(seq), reason()))?;
            match frame.payload(index) {
                None => return Ok(()),
                Some((Place::Destroyed, ..)) => return self.sync(level),
                Some(_) => {}
            }
            let mut changes = self.removals(&keys::payload(conversation, seq, index))?;
            frame::write_content(
                &keys::entry(conversation, seq),
                &frame.without(index),
                &mut changes,
            );
            self.write(None, changes, level)
        })
    }

    fn list(&self, prefix: &[String]) -> Result<Vec<Listed>, StoreError> {
        self.trusted(self.read_list(prefix))
    }

    fn find(&self, name: &Name) -> Result<Option<ConversationId>, StoreError> {
        self.trusted(writer::find(self.engine(), &keys::name(name), name))
    }

    fn put_blob(
        &self,
        lineage: ConversationId,
        address: Hash,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        limits::within("a blob", bytes.len(), BLOB_BYTES_MAX)?;
        self.rewrite(|| {
            let key = keys::blob(lineage, address);
            match self.engine().content(&key) {
                Ok(Some(_)) => return Ok(()),
                Ok(None) | Err(ContentError::Flawed(_)) => {} // a damaged one is made whole again
                Err(ContentError::Store(error)) => return Err(error),
            }
            let mut changes = Vec::new();
            frame::write_content(&key, bytes, &mut changes);
            self.write(None, changes, Level::Buffered)
        })
    }

    fn blob(&self, lineage: ConversationId, address: Hash) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.engine().content(&keys::blob(lineage, address));
        self.trusted(found.map_err(|e| at(lineage, None, &format!("the blob {address}"), e)))
    }

    fn sweep_blobs(
        &self,
        lineage: ConversationId,
        keep: &dyn Fn(&Hash) -> bool,
    ) -> Result<u64, StoreError> {
        self.rewrite(|| {
            let prefix = keys::owned(keys::BLOB, lineage);
            let (mut changes, mut gone) = (Vec::new(), 0_u64);
            for found in self.engine().scan(&prefix, &keys::after(&prefix))? {
                let (key, _) = found?;
                if keys::address(&key).is_some_and(|address| keep(&address)) {
                    continue;
                }
                if matches!(keys::content(&key), Some((_, 0))) {
                    gone = gone.saturating_add(1);
                }
                changes.push((key.to_vec(), None));
            }
            self.write(None, changes, Level::Buffered)?;
            Ok(gone)
        })
    }

    fn put_derived(
        &self,
        conversation: ConversationId,
        name: &str,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        limits::within("derived data", bytes.len(), DERIVED_BYTES_MAX)?;
        limits::within("the name of derived data", name.len(), NAME_BYTES_MAX)?;
        self.rewrite(|| {
            let key = keys::derived(conversation, name);
            let mut changes = self.removals(&key)?;
            frame::write_content(&key, bytes, &mut changes);
            self.write(None, changes, Level::Buffered)
        })
    }

    fn derived(
        &self,
        conversation: ConversationId,
        name: &str,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        self.trusted(self.read_derived(conversation, name))
    }

    fn derived_before(
        &self,
        conversation: ConversationId,
        prefix: &str,
        name: &str,
    ) -> Result<Option<(String, Vec<u8>)>, StoreError> {
        self.trusted(self.read_derived_before(conversation, prefix, name))
    }

    fn sync(&self, level: Level) -> Result<(), StoreError> {
        self.write(None, Vec::new(), level)
    }

    fn check(&self, conversation: Option<ConversationId>) -> Result<Vec<StoreError>, StoreError> {
        let found = self.trusted(self.read_check(conversation))?;
        match self.inner.shared.poisoned() {
            Some(reason) if !found.is_empty() => Err(StoreError::Poisoned { reason }),
            _ => Ok(found),
        }
    }
}

#[cfg(test)]
mod tests;
