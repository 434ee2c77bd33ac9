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
//! | transactions deadlock | not used: one group is written at a time, in one batch |
//! | a batch is written in two pieces, each waited for | what is waited for goes to a journal of our own |
//! | a leaf is written anew after ten changes | fences between what changes often and what is large; keys before their values |
//! | it grows with removals that are not flushed | groups are flushed here, never by its timer |
//! | its default cache is 1 GB | 64 MiB, or as asked |

mod block;
mod blocks;
mod check;
mod directory;
mod engine;
mod frame;
mod gap;
mod journal;
mod keys;
mod media;
mod mend;
mod note;
mod open;
mod queue;
mod read;
mod record;
mod reserved;
mod ring;
mod scan;
mod seal;
mod settle;
mod tail;
mod tally;
mod writer;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use self::block::Prospect;
use self::directory::{Directory, State};
use self::engine::{ContentError, Engine, damaged};
use self::journal::Journal;
use self::media::Media;
use self::queue::Claim;
use self::record::{Encoded, Held, Parts};
use self::settle::Rewrite;
use self::tail::place;
use self::tally::Synced;
use self::writer::Shared;
use super::limits::{self, BLOB_BYTES_MAX, DERIVED_BYTES_MAX, NAME_BYTES_MAX};
use super::{Backend, Batch, Level, Listed, Name, Payload, ShowRecord, StoreError};
use crate::log::{ConversationId, Hash, Head, Seq};

/// How a store in a directory is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SledOptions {
    /// The page cache of sled, in bytes; 64 MiB. sled keeps to it within a factor of about 1.2.
    pub cache_bytes: u64,
}

impl Default for SledOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 64 << 20,
        }
    }
}

impl SledOptions {
    /// For whoever reads logs through once, as `verify` does, and asks for nothing twice: a page cache
    /// of 16 MiB.
    #[must_use]
    pub fn for_one_pass() -> Self {
        Self::default().with_cache_bytes(16 << 20)
    }

    /// With a page cache of this size, in bytes.
    #[must_use]
    pub const fn with_cache_bytes(mut self, cache_bytes: u64) -> Self {
        self.cache_bytes = cache_bytes;
        self
    }
}

/// A store in a directory of this machine.
///
/// The directory holds a marker file `CTXLOG`, a lock file, `sled/` with sled's own files and
/// `blobs/` with large contents. Only one process, and in it one handle with its clones, has a store open at a time. Dropping the
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
    /// What is wrong with the journal.
    journal: Option<String>,
}

#[derive(Debug)]
struct Inner {
    writer: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
    /// Held by whoever reads a blob in order to replace it.
    rewriting: Mutex<()>,
    /// Given when it was opened to save what can be read, and must not be written.
    salvage: Option<Salvage>,
    /// Last, so that the lock goes when all else is closed.
    directory: Directory,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.close();
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
    /// [`StoreError::Busy`], [`StoreError::NotAStore`], [`StoreError::Newer`],
    /// [`StoreError::Older`]: the directory was left untouched. [`StoreError::Damaged`] where sled
    /// cannot open its files, or opens them without something that was written; [`Self::salvage`]
    /// may still read the rest.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_with(path, SledOptions::default())
    }

    /// Opens the store at `path` with settings of one's own; makes one as [`Self::open`] does.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with(path: impl AsRef<Path>, options: SledOptions) -> Result<Self, StoreError> {
        Self::open_as(path.as_ref(), options, false)
    }

    /// Opens the store at `path`, which must exist.
    ///
    /// # Errors
    /// As [`Self::open`]; [`StoreError::NotAStore`] where there is none.
    pub fn open_existing(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::existing(path.as_ref(), SledOptions::default(), false)
    }

    /// Opens the store at `path`, which must exist, with settings of one's own.
    ///
    /// # Errors
    /// As [`Self::open_existing`].
    pub fn open_existing_with(
        path: impl AsRef<Path>,
        options: SledOptions,
    ) -> Result<Self, StoreError> {
        Self::existing(path.as_ref(), options, false)
    }

    /// Opens a damaged store to save what can be read. Works on a copy of sled's files, which
    /// needs as much space again and is removed with the last handle: the store itself stays as it
    /// is. [`Backend::check`] says what is wrong; every verb that writes is refused.
    ///
    /// # Errors
    /// As [`Self::open_existing`], but [`StoreError::Damaged`] only where nothing can be read.
    pub fn salvage(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::existing(path.as_ref(), SledOptions::default(), true)
    }

    fn existing(path: &Path, options: SledOptions, salvage: bool) -> Result<Self, StoreError> {
        match directory::inspect(path)? {
            State::Whole => Self::open_as(path, options, salvage),
            State::Absent | State::Unfinished => Err(directory::absent(path)),
        }
    }

    fn open_as(path: &Path, options: SledOptions, salvage: bool) -> Result<Self, StoreError> {
        directory::inspect(path)?;
        let directory = Directory::lock(path)?;
        // Again, since another process may have been here between the look and the lock.
        let state = directory::inspect(directory.path())?;
        Self::start(directory, state, options, salvage)
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

    fn start(
        directory: Directory,
        state: State,
        options: SledOptions,
        salvage: bool,
    ) -> Result<Self, StoreError> {
        if state == State::Whole && !directory.sled().join("db").exists() {
            return Err(open::distrust(&directory, "sled's files are gone"));
        }
        if salvage {
            return Self::salvaged(directory, options);
        }
        let engine = open::engine(&directory, options.cache_bytes)?;
        let tally = match state {
            State::Whole => open::verify(&engine, &directory)?,
            State::Absent | State::Unfinished => open::establish(&engine, &directory)?,
        };
        let synced = directory.synced()?.unwrap_or_default();
        let journal = Journal::new(directory.journal(), synced.group);
        let synced = Synced { tally, ..synced };
        let shared = share(engine, &directory, synced, Some(journal))?;
        open::recover(&shared, &directory)?;
        Self::run(shared, directory, None)
    }

    /// Opens a copy, with what the journal has as well.
    fn salvaged(directory: Directory, options: SledOptions) -> Result<Self, StoreError> {
        let (engine, passed_over) = open::salvaged(&directory, options.cache_bytes)?;
        let shared = share(engine, &directory, Synced::default(), None)?;
        let journal = open::restore(&shared, &directory)?;
        let salvage = Salvage {
            passed_over,
            journal,
        };
        Self::run(shared, directory, Some(salvage))
    }

    /// Starts the writing thread.
    fn run(
        shared: Shared,
        directory: Directory,
        salvage: Option<Salvage>,
    ) -> Result<Self, StoreError> {
        let shared = Arc::new(shared);
        let writer = spawn(Arc::clone(&shared))?;
        let inner = Inner {
            writer: Some(writer),
            shared,
            rewriting: Mutex::new(()),
            salvage,
            directory,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    fn shared(&self) -> &Shared {
        &self.inner.shared
    }

    fn engine(&self) -> &Engine {
        &self.inner.shared.engine
    }

    /// Refuses to write where the store is open only to be read.
    fn writable(&self) -> Result<(), StoreError> {
        match self.inner.salvage {
            Some(_) => Err(damaged(
                "the store is open for salvage, so nothing is written".into(),
            )),
            None => Ok(()),
        }
    }

    /// Rewrites the block that an entry lies in without one of the entry's payloads.
    /// Destroys those of the first of these payloads that lie in one block, by writing it anew. Gives
    /// the others, behind them.
    fn destroy<'a>(
        &self,
        conversation: ConversationId,
        places: &'a [(Seq, u32)],
    ) -> Result<&'a [(Seq, u32)], StoreError> {
        let (shared, engine) = (self.shared(), self.engine());
        let Some((seq, _)) = places.first().copied() else {
            return Ok(places);
        };
        let mut done = places.iter().take_while(|(at, _)| *at == seq).count();
        shared.rewrite(|codec| {
            let Some(block) =
                shared
                    .blocks
                    .holding(engine, conversation, seq, blocks::Want::Words)?
            else {
                return Ok(None);
            };
            let (first, count) = (block.first(), block.records().count());
            let end = first
                .0
                .saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
            let within = |(at, _): &&(Seq, u32)| (first.0..end).contains(&at.0);
            done = places.iter().take_while(within).count().max(done);
            let here = places.get(..done).unwrap_or_default();
            let mut new = BTreeMap::new();
            for (n, record) in (first.0..).zip(block.records()) {
                let of = here.iter().filter(|(at, _)| at.0 == n);
                let gone = of.map(|(_, index)| *index);
                new.extend(without(conversation, Seq(n), record, gone)?.map(|new| (n, new)));
            }
            if new.is_empty() {
                return Ok(None);
            }
            let numbers = (first.0..).zip(block.records());
            let records = numbers.map(|(n, old)| new.get(&n).map_or(old, |new| Parts::of(new)));
            let (content, _) = block::pack(records, &mut Prospect::default(), codec);
            let key = keys::block(conversation, first);
            let mut changes = engine.removals(&key)?;
            frame::write_content(&key, &content, &mut changes);
            let block = (conversation, first);
            Ok(Some(Rewrite { changes, block }))
        })?;
        Ok(places.get(done..).unwrap_or_default())
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

    /// What was found damaged, unless a write failed before.
    fn damage(
        &self,
        found: Result<Vec<StoreError>, StoreError>,
    ) -> Result<Vec<StoreError>, StoreError> {
        let found = self.trusted(found)?;
        match self.inner.shared.poisoned() {
            Some(reason) if !found.is_empty() => Err(StoreError::Poisoned { reason }),
            _ => Ok(found),
        }
    }

    /// Has a verb read something in order to replace it. One at a time, and never after a write
    /// failed: what is read then may be half of what was written.
    fn rewrite<T>(&self, verb: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.writable()?;
        self.shared().refused()?;
        let rewriting = &self.inner.rewriting;
        let _held = rewriting.lock().unwrap_or_else(PoisonError::into_inner);
        self.trusted(verb())
    }
}

/// A record without some of its payloads; `None` where there is nothing to destroy.
fn without(
    conversation: ConversationId,
    seq: Seq,
    record: Parts<'_>,
    gone: impl Iterator<Item = u32>,
) -> Result<Option<Vec<u8>>, StoreError> {
    let contradiction = || {
        let reason = "the entry's lengths contradict each other".to_owned();
        place(conversation, Some(seq), reason)
    };
    let mut new: Option<Vec<u8>> = None;
    for index in gone {
        let now = new.as_deref().map_or(record, Parts::of);
        let now = Encoded::read(now).ok_or_else(contradiction)?;
        if matches!(now.payload(index), Some(Held::Whole { .. })) {
            new = Some(now.without(index));
        }
    }
    Ok(new)
}

fn share(
    engine: Engine,
    directory: &Directory,
    synced: Synced,
    journal: Option<Journal>,
) -> Result<Shared, StoreError> {
    let media = Media::new(directory.blobs());
    let receipt = directory.receipt(synced)?;
    Ok(Shared::new(engine, media, synced.tally, receipt, journal))
}

fn spawn(shared: Arc<Shared>) -> Result<JoinHandle<()>, StoreError> {
    let builder = std::thread::Builder::new().name("ctxlog-writer".into());
    let spawned = builder.spawn(move || shared.run());
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
        self.writable()?;
        let encoded = records
            .iter()
            .map(|record| Arc::new(record::encode(record)));
        let encoded = encoded.collect();
        let claim = Claim {
            conversation,
            expected,
            birth,
            first,
            newest,
        };
        self.trusted(self.shared().append(claim, encoded, level))
    }

    fn head(&self, conversation: ConversationId) -> Result<Option<Head>, StoreError> {
        let span = self.trusted(self.shared().span(conversation))?;
        Ok(span.map(|span| span.head))
    }

    fn first(&self, conversation: ConversationId) -> Result<Option<Seq>, StoreError> {
        let span = self.trusted(self.shared().span(conversation))?;
        Ok(span.map(|span| span.first))
    }

    fn durable_head(&self, conversation: ConversationId) -> Result<Option<Head>, StoreError> {
        self.trusted(self.shared().durable(conversation))
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

    fn records(
        &self,
        conversation: ConversationId,
        from: Seq,
        to: Seq,
        show: ShowRecord<'_>,
    ) -> Result<(), StoreError> {
        self.trusted(self.read_records(conversation, from, to, show))
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
        _level: Level, // the tree is synced with every change
    ) -> Result<(), StoreError> {
        self.rewrite(|| self.destroy(conversation, &[(seq, index)]).map(drop))
    }

    fn destroy_payloads(
        &self,
        conversation: ConversationId,
        places: &[(Seq, u32)],
        _level: Level,
    ) -> Result<(), StoreError> {
        let mut left = places;
        while !left.is_empty() {
            left = self.rewrite(|| self.destroy(conversation, left))?;
        }
        Ok(())
    }

    fn list(&self, prefix: &[String]) -> Result<Vec<Listed>, StoreError> {
        self.trusted(self.read_list(prefix))
    }

    fn find(&self, name: &Name) -> Result<Option<ConversationId>, StoreError> {
        self.trusted(self.shared().find(&keys::name(name), name))
    }

    fn put_blob(
        &self,
        lineage: ConversationId,
        address: Hash,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        limits::within("a blob", bytes.len(), BLOB_BYTES_MAX)?;
        self.rewrite(|| self.shared().media.put(lineage, address, bytes))
    }

    fn blob(&self, lineage: ConversationId, address: Hash) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.shared().media.get(lineage, address);
        self.trusted(found.map_err(|e| at(lineage, None, &format!("the blob {address}"), e)))
    }

    fn sweep_blobs(
        &self,
        lineage: ConversationId,
        keep: &dyn Fn(&Hash) -> bool,
    ) -> Result<u64, StoreError> {
        self.rewrite(|| {
            let media = &self.shared().media;
            let mut gone = 0_u64;
            for address in media.addresses(lineage)? {
                if !keep(&address) {
                    media.remove(lineage, address)?;
                    gone = gone.saturating_add(1);
                }
            }
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
        self.writable()?;
        let key = keys::derived(conversation, name);
        self.trusted(self.shared().derive(key, bytes))
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
        self.writable()?;
        self.trusted(self.shared().sync(level))
    }

    fn check(&self, conversation: Option<ConversationId>) -> Result<Vec<StoreError>, StoreError> {
        self.damage(self.read_check(conversation))
    }

    fn check_beside(&self, listed: &Listed) -> Result<Vec<StoreError>, StoreError> {
        self.damage(self.read_check_beside(listed))
    }
}

#[cfg(test)]
mod tests;
