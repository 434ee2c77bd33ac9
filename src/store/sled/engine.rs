//! sled behind a guard. sled 0.34 panics where its files are damaged, and its flush does not reach
//! the disk; nothing above this file meets either.

use std::any::Any;
use std::fs::File;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use ::sled::IVec;

use super::frame::{self, Change, First};
use super::{keys, reserved, seal};
use crate::store::StoreError;

/// sled reclaims space only in the thread that this starts. Our writer does not wait for it.
const RECLAIM_EVERY_MS: u64 = 500;
/// How long to wait for sled's threads, which hold its lock, to end after the last handle.
const CLOSE_TIME: Duration = Duration::from_secs(5);

/// How sled's open failed.
pub(super) enum OpenFailure {
    /// Only its snapshot file is unreadable; without it sled reads its whole log.
    Snapshot(String),
    /// Anything else.
    Other(StoreError),
}

/// An open sled tree and our own handle of the file it lies in.
pub(super) struct Engine {
    tree: Option<::sled::Db>,
    file: File,
    dir: PathBuf,
    /// Whether everything is on the disk and nothing more will be written.
    settled: AtomicBool,
    /// Whether its files were, before it was opened, what the last close left.
    as_left: bool,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Opens or creates the tree in `dir`. The caller holds the store's own lock, so whoever holds
    /// sled's is a handle of ours whose threads are about to end.
    pub(super) fn open(dir: &Path, cache_bytes: u64) -> Result<Self, OpenFailure> {
        let patience = Instant::now();
        loop {
            match open_tree(dir, cache_bytes) {
                Err(Attempt::Locked) if patience.elapsed() < CLOSE_TIME => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(Attempt::Locked) => {
                    return Err(OpenFailure::Other(StoreError::Busy {
                        path: dir.to_owned(),
                    }));
                }
                Err(Attempt::Failed(failure)) => return Err(failure),
                Ok(tree) => {
                    let file = open_file(&dir.join("db")).map_err(OpenFailure::Other)?;
                    return {
                        let settled = AtomicBool::new(false);
                        Ok(Self {
                            tree: Some(tree),
                            file,
                            dir: dir.to_owned(),
                            settled,
                            as_left: false,
                        })
                    };
                }
            }
        }
    }

    /// Says whether its files were what the last close left.
    pub(super) const fn known(mut self, as_left: bool) -> Self {
        self.as_left = as_left;
        self
    }

    /// Whether its files were, before it was opened, what the last close left.
    pub(super) const fn as_left(&self) -> bool {
        self.as_left
    }

    fn tree(&self) -> Result<&::sled::Db, StoreError> {
        self.tree
            .as_ref()
            .ok_or_else(|| damaged("the tree is closed".into()))
    }

    /// The value of a key, checksum and all.
    pub(super) fn value(&self, key: &[u8]) -> Result<Option<IVec>, StoreError> {
        let tree = self.tree()?;
        guarded("reading", || tree.get(key))
    }

    /// The values of the keys from `from` up to but without `to`, in order. No snapshot: bound it
    /// by a head that was read first.
    pub(super) fn scan(&self, from: &[u8], to: &[u8]) -> Result<Scan, StoreError> {
        let tree = self.tree()?;
        let bounds = (Bound::Included(from.to_vec()), Bound::Excluded(to.to_vec()));
        let iter = guarded("scanning", || Ok(tree.range::<Vec<u8>, _>(bounds)))?;
        Ok(Scan { iter: Some(iter) })
    }

    /// The last of the keys from `from` up to but without `to`.
    pub(super) fn last_key(&self, from: &[u8], to: &[u8]) -> Result<Option<IVec>, StoreError> {
        let tree = self.tree()?;
        let bounds = (Bound::Included(from), Bound::Excluded(to));
        let last = || tree.range::<&[u8], _>(bounds).next_back().transpose();
        Ok(guarded("scanning", last)?.map(|(key, _)| key))
    }

    /// Removals of all values of the contents whose keys begin with `prefix`.
    pub(super) fn removals(&self, prefix: &[u8]) -> Result<Vec<Change>, StoreError> {
        let scan = self.scan(prefix, &keys::after(prefix))?;
        scan.map(|found| found.map(|(key, _)| (key.to_vec(), None)))
            .collect()
    }

    /// The content under a key, put together; none where the key is only ahead of it. Chunks may be
    /// rewritten while they are read, so a flaw counts only when the first value is still the one it
    /// was found under.
    pub(super) fn content(&self, base: &[u8]) -> Result<Option<Vec<u8>>, ContentError> {
        let first = || {
            let found = self.value(base);
            found.map(|found| found.filter(|value| !reserved::is(base, value)))
        };
        let Some(mut now) = first()? else {
            return Ok(None);
        };
        loop {
            let flaw = match self.assemble(base, &now)? {
                Ok(content) => return Ok(Some(content)),
                Err(flaw) => flaw,
            };
            match first()? {
                None => return Ok(None),
                Some(same) if same == now => return Err(ContentError::Flawed(flaw)),
                Some(newer) => now = newer,
            }
        }
    }

    fn assemble(&self, base: &[u8], first: &[u8]) -> Result<Result<Vec<u8>, Flaw>, StoreError> {
        let (start, length, crc, chunks) = match frame::read_first(base, first) {
            None => return Ok(Err("its checksum does not match")),
            Some(First::Whole(content)) => return Ok(Ok(content.to_vec())),
            Some(First::Chunked {
                start,
                length,
                crc,
                chunks,
            }) => (start, length, crc, chunks),
        };
        let mut content = start.to_vec();
        for number in 1..=chunks {
            let key = keys::chunk(base, number);
            let Some(value) = self.value(&key)? else {
                return Ok(Err("a chunk is missing"));
            };
            match frame::unseal(&key, &value) {
                Some(body) => content.extend(body),
                None => return Ok(Err("the checksum of a chunk does not match")),
            }
        }
        let whole = content.len() == length && crc32c::crc32c(&content) == crc;
        Ok(if whole {
            Ok(content)
        } else {
            Err("its chunks do not fit together")
        })
    }

    /// Applies all changes or none; readers see them at once, the disk does not.
    pub(super) fn apply(&self, changes: Vec<Change>) -> Result<(), StoreError> {
        let mut batch = ::sled::Batch::default();
        for (key, value) in changes {
            match value {
                Some(value) => batch.insert(key, value),
                None => batch.remove(key),
            }
        }
        let tree = self.tree()?;
        guarded("writing", || tree.apply_batch(batch))
    }

    /// Writes one value, behind all that was written before.
    pub(super) fn put(&self, key: &[u8], value: Vec<u8>) -> Result<(), StoreError> {
        let tree = self.tree()?;
        guarded("writing", || tree.insert(key, value).map(drop))
    }

    /// Brings everything that was written to the disk: it survives power loss. Always asks the system,
    /// also when sled's flush found nothing to do: its own threads may have written without syncing.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        let tree = self.tree()?;
        guarded("flushing", || tree.flush())?;
        self.file.sync_data().map_err(|source| {
            let what = format!("syncing {}", self.dir.join("db").display());
            StoreError::Io { what, source }
        })
    }

    /// Says that everything is on the disk and nothing more will be written.
    pub(super) fn settle(&self) {
        self.settled.store(true, Ordering::Release);
    }

    /// Waits until nothing of sled has its file open any more: its pool may still be writing or
    /// cutting it after the tree is gone, and whatever does so shares sled's lock.
    fn left_alone(&self) -> bool {
        let patience = Instant::now();
        let Ok(file) = File::open(self.dir.join("db")) else {
            return false;
        };
        while file.try_lock().is_err() {
            if patience.elapsed() > CLOSE_TIME {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// The same engine with another file behind [`Self::sync`].
    #[cfg(test)]
    pub(super) fn with_sync_file(mut self, file: File) -> Self {
        self.file = file;
        self
    }
}

impl Drop for Engine {
    /// sled waits without end for its thread when that has panicked on a damaged page; we wait
    /// for a while.
    fn drop(&mut self) {
        let Some(tree) = self.tree.take() else { return };
        let (closed, wait) = mpsc::channel();
        let close = move || {
            let _ = catch_unwind(AssertUnwindSafe(|| drop(tree)));
            let _ = closed.send(());
        };
        let closing = std::thread::Builder::new()
            .name("ctxlog-close".into())
            .spawn(close);
        let closed = closing.is_ok() && wait.recv_timeout(CLOSE_TIME).is_ok() && self.left_alone();
        if closed && self.settled.load(Ordering::Acquire) {
            let _ = seal::leave(&self.dir); // without it the next open cannot compare; no more
        }
    }
}

/// What is wrong with a content.
pub(super) type Flaw = &'static str;

/// Why a content cannot be had.
#[derive(Debug)]
pub(super) enum ContentError {
    /// It is there and damaged.
    Flawed(Flaw),
    /// The tree cannot be read.
    Store(StoreError),
}

impl From<StoreError> for ContentError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Keys with their values, in order; ends at the first error.
pub(super) struct Scan {
    iter: Option<::sled::Iter>,
}

impl Scan {
    /// The same from the last to the first.
    pub(super) fn backwards(self) -> impl Iterator<Item = Result<(IVec, IVec), StoreError>> {
        let mut iter = self.iter;
        std::iter::from_fn(move || {
            let from = iter.as_mut()?;
            let next = guarded("scanning", || from.next_back().transpose()).transpose();
            if !matches!(next, Some(Ok(_))) {
                iter = None;
            }
            next
        })
    }
}

impl Iterator for Scan {
    type Item = Result<(IVec, IVec), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let iter = self.iter.as_mut()?;
        let next = guarded("scanning", || iter.next().transpose()).transpose();
        if !matches!(next, Some(Ok(_))) {
            self.iter = None;
        }
        next
    }
}

enum Attempt {
    Locked,
    Failed(OpenFailure),
}

fn open_tree(dir: &Path, cache_bytes: u64) -> Result<::sled::Db, Attempt> {
    let config = ::sled::Config::new()
        .path(dir)
        .cache_capacity(cache_bytes)
        .flush_every_ms(Some(RECLAIM_EVERY_MS))
        .mode(::sled::Mode::LowSpace);
    let failed = |reason: String| {
        let reason = format!(
            "sled cannot open {} ({reason}). Nothing in it was removed. Restore it from an \
             export, or run `ctxlog verify --salvage` to save what can still be read",
            dir.display()
        );
        Attempt::Failed(OpenFailure::Other(damaged(reason)))
    };
    match catch_unwind(AssertUnwindSafe(|| config.open())) {
        Ok(Ok(tree)) => Ok(tree),
        Ok(Err(::sled::Error::Io(e))) if e.to_string().contains("could not acquire lock") => {
            Err(Attempt::Locked)
        }
        Ok(Err(::sled::Error::Io(source))) => {
            let what = format!("opening {}", dir.display());
            Err(Attempt::Failed(OpenFailure::Other(StoreError::Io {
                what,
                source,
            })))
        }
        Ok(Err(e @ ::sled::Error::Corruption { at: None, .. })) => {
            Err(Attempt::Failed(OpenFailure::Snapshot(e.to_string())))
        }
        Ok(Err(e)) => Err(failed(e.to_string())),
        Err(panic) => Err(failed(words(panic.as_ref()))),
    }
}

fn open_file(path: &Path) -> Result<File, StoreError> {
    let opened = File::options().read(true).write(true).open(path);
    opened.map_err(|source| {
        let what = format!("opening {} to sync it", path.display());
        StoreError::Io { what, source }
    })
}

/// Damage at no place that can be named.
pub(super) fn damaged(reason: String) -> StoreError {
    StoreError::Damaged {
        conversation: None,
        seq: None,
        reason,
    }
}

pub(super) fn guarded<T>(
    what: &str,
    work: impl FnOnce() -> ::sled::Result<T>,
) -> Result<T, StoreError> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(::sled::Error::Io(source))) => Err(StoreError::Io {
            what: format!("{what} the store"),
            source,
        }),
        Ok(Err(error)) => Err(damaged(format!("sled failed while {what}: {error}"))),
        Err(panic) => {
            let words = words(panic.as_ref());
            Err(damaged(format!("sled panicked while {what}: {words}")))
        }
    }
}

/// What a panic said.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no words")
        .to_owned()
}
