//! The store's directory: whose it is, who has it open, and how it comes into being.
//!
//! | name | what it is |
//! | --- | --- |
//! | `CTXLOG` | says that the directory is ours and of which format; the last thing that creation writes, the first thing that opening reads |
//! | `CTXLOG.lock` | locked as long as a handle is open |
//! | `CTXLOG.new` | the coming `CTXLOG`; left over only where creation was cut off |
//! | `CTXLOG.synced` | the tally and the journal's newest group as of the last sync |
//! | `CTXLOG.journal` | what was accepted and is not in sled yet; gone while the store is closed |
//! | `CTXLOG.journal.new` | the coming journal |
//! | `CTXLOG.closed` | a checksum of sled's file, there while the store is closed |
//! | `CTXLOG.unchecked` | sled had to be opened without its snapshot and not every value was checked since |
//! | `sled/` | sled's own files |
//! | `blobs/` | blobs, each in a file of its own; made with the first |
//! | `set-aside-N/` | snapshots that sled could not read, or its files where making the store was cut off |
//! | `salvage/sled/` | a copy of `sled/`, there while the store is open for salvage |

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::tally::{Synced, Tally};
use crate::store::StoreError;

/// The format this code reads and writes.
pub(super) const FORMAT: u32 = 3;

const MARKER: &str = "CTXLOG";
const LOCK: &str = "CTXLOG.lock";
const NEW: &str = "CTXLOG.new";
const SYNCED: &str = "CTXLOG.synced";
const JOURNAL: &str = "CTXLOG.journal";
const UNCHECKED: &str = "CTXLOG.unchecked";
const SLED: &str = "sled";
const BLOBS: &str = "blobs";
const ASIDE: &str = "set-aside-";
const SALVAGE: &str = "salvage";

/// How long a lock may be held by nobody: a process that this one is just starting shares it
/// until it has become another program.
const LOCK_TIME: Duration = Duration::from_millis(250);

/// What a path holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Nothing at all.
    Absent,
    /// An empty directory, or a creation that was cut off.
    Unfinished,
    /// A store.
    Whole,
}

/// A locked directory; the lock goes when it is dropped.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    _lock: File,
}

/// Reads who a directory belongs to. Writes nothing.
pub(super) fn inspect(path: &Path) -> Result<State, StoreError> {
    match fs::metadata(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(State::Absent),
        Err(e) => return Err(io("reading", path, e)),
        Ok(found) if !found.is_dir() => return Err(foreign(path, "it is a file")),
        Ok(_) => {}
    }
    let marker = path.join(MARKER);
    match fs::read(&marker) {
        Ok(text) => read_marker(path, &text).map(|()| State::Whole),
        Err(e) if e.kind() == ErrorKind::NotFound => inspect_unmarked(path),
        Err(e) => Err(io("reading", &marker, e)),
    }
}

fn read_marker(path: &Path, text: &[u8]) -> Result<(), StoreError> {
    let format = std::str::from_utf8(text).ok().and_then(|text| {
        text.strip_prefix("ctxlog store\nformat ")?
            .lines()
            .next()?
            .parse::<u32>()
            .ok()
    });
    match format {
        Some(found) if found > FORMAT => Err(StoreError::Newer {
            path: path.to_owned(),
            found,
            supported: FORMAT,
        }),
        Some(found @ 1..FORMAT) => Err(StoreError::Older {
            path: path.to_owned(),
            found,
            supported: FORMAT,
        }),
        Some(FORMAT) if text == marker_text().as_bytes() => Ok(()),
        _ => Err(foreign(
            path,
            "its CTXLOG file is not one that ctxlog writes",
        )),
    }
}

fn marker_text() -> String {
    format!("ctxlog store\nformat {FORMAT}\n")
}

fn inspect_unmarked(path: &Path) -> Result<State, StoreError> {
    let (mut others, mut locked, mut sled) = (None, false, false);
    for found in fs::read_dir(path).map_err(|e| io("reading", path, e))? {
        let name = found.map_err(|e| io("reading", path, e))?.file_name();
        match name.to_str() {
            Some(LOCK) => locked = true,
            Some(SLED) => sled = true,
            Some(NEW | SYNCED | UNCHECKED) => {}
            Some(name) if name.starts_with(ASIDE) => {}
            _ => others = Some(name),
        }
    }
    match others {
        Some(name) => {
            let name = name.to_string_lossy();
            Err(foreign(
                path,
                &format!("it holds '{name}' and no CTXLOG file"),
            ))
        }
        // Ours alone is locked before anything else is made.
        None if sled && !locked => Err(foreign(path, "it holds 'sled' and no CTXLOG file")),
        None => Ok(State::Unfinished),
    }
}

impl Directory {
    /// Makes the directory where there is none, and locks it.
    pub(super) fn lock(path: &Path) -> Result<Self, StoreError> {
        let made: Vec<&Path> = path.ancestors().take_while(|p| !p.exists()).collect();
        fs::create_dir_all(path).map_err(|e| io("creating", path, e))?;
        let file = path.join(LOCK);
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&file);
        let lock = lock.map_err(|e| io("opening", &file, e))?;
        let patience = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if patience.elapsed() < LOCK_TIME => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(TryLockError::WouldBlock) => return Err(busy(path)),
                Err(TryLockError::Error(e)) => return Err(io("locking", &file, e)),
            }
        }
        made.iter()
            .filter_map(|p| p.parent())
            .try_for_each(sync_dir)?;
        // sled finds its snapshots by comparing paths as text; give it one that cannot change.
        let path = fs::canonicalize(path).map_err(|e| io("reading", path, e))?;
        Ok(Self { path, _lock: lock })
    }

    /// The store's directory, absolute.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What was last synced; `None` where nothing can be said.
    pub(super) fn synced(&self) -> Result<Option<Synced>, StoreError> {
        let path = self.path.join(SYNCED);
        match fs::read(&path) {
            Ok(bytes) => Ok(Synced::unseal(SYNCED.as_bytes(), &bytes)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(io("reading", &path, e)),
        }
    }

    /// The file that tells what was last synced, to be written from now on.
    pub(super) fn receipt(&self, synced: Synced) -> Result<Receipt, StoreError> {
        let path = self.path.join(SYNCED);
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path);
        let file = file.map_err(|e| io("opening", &path, e))?;
        Ok(Receipt { file, path, synced })
    }

    /// Where the journal lies.
    pub(super) fn journal(&self) -> PathBuf {
        self.path.join(JOURNAL)
    }

    /// Where sled's own files lie.
    pub(super) fn sled(&self) -> PathBuf {
        self.path.join(SLED)
    }

    /// Where blobs lie.
    pub(super) fn blobs(&self) -> PathBuf {
        self.path.join(BLOBS)
    }

    /// Copies sled's files to where they can be opened, which changes them, without harm.
    pub(super) fn copy_for_salvage(&self) -> Result<PathBuf, StoreError> {
        self.remove_salvage()?;
        let copy = self.path.join(SALVAGE).join(SLED);
        let blobs = copy.join("blobs");
        fs::create_dir_all(&blobs).map_err(|e| io("creating", &blobs, e))?;
        let sled = self.sled();
        for found in fs::read_dir(&sled).map_err(|e| io("reading", &sled, e))? {
            let path = found.map_err(|e| io("reading", &sled, e))?.path();
            // Its settings can only be the ones that sled writes anew; a damaged file holds it up.
            if path.is_file() && path.file_name().is_some_and(|name| name != "conf") {
                let to = copy.join(path.file_name().unwrap_or_default());
                fs::copy(&path, to).map_err(|e| io("copying", &path, e))?;
            }
        }
        Ok(copy)
    }

    /// Removes what [`Self::copy_for_salvage`] made.
    pub(super) fn remove_salvage(&self) -> Result<(), StoreError> {
        let copy = self.path.join(SALVAGE);
        match fs::remove_dir_all(&copy) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(io("removing", &copy, e)),
            _ => Ok(()),
        }
    }

    /// Writes the marker, whole and last: until it is there, the directory is unfinished.
    pub(super) fn finish(&self) -> Result<(), StoreError> {
        let sled = self.sled();
        for file in ["conf", "db"] {
            let file = sled.join(file);
            let synced = File::open(&file).and_then(|f| f.sync_all());
            synced.map_err(|e| io("syncing", &file, e))?;
        }
        sync_dir(&sled)?;
        let new = self.path.join(NEW);
        let write = || -> std::io::Result<()> {
            let mut file = File::create(&new)?;
            file.write_all(marker_text().as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, self.path.join(MARKER))
        };
        write().map_err(|e| io("writing", &new, e))?;
        sync_dir(&self.path)
    }

    /// Moves all snapshots out of sled's way and remembers that every value must be checked:
    /// without a snapshot, sled drops a damaged page without a word.
    pub(super) fn set_snapshots_aside(&self, sled: &Path) -> Result<(), StoreError> {
        let note = self.path.join(UNCHECKED);
        let noted = File::create(&note).and_then(|f| f.sync_all());
        noted.map_err(|e| io("writing", &note, e))?;
        sync_dir(&self.path)?;
        let aside = self.new_aside()?;
        for path in snapshots(sled)? {
            let name = path.file_name().unwrap_or_default();
            fs::rename(&path, aside.join(name)).map_err(|e| io("moving", &path, e))?;
        }
        sync_dir(&aside)?;
        sync_dir(sled)?;
        sync_dir(&self.path)
    }

    /// Whether making the store was cut off before anything could be put into it.
    pub(super) fn was_never_a_store(&self) -> bool {
        ![MARKER, SYNCED]
            .iter()
            .any(|name| self.path.join(name).exists())
    }

    /// Moves sled's files out of the way, so that making the store begins anew: sled writes in several
    /// threads, and a kill can leave what came later without what came before.
    pub(super) fn set_sled_aside(&self) -> Result<(), StoreError> {
        let (sled, aside) = (self.sled(), self.new_aside()?);
        fs::rename(&sled, aside.join(SLED)).map_err(|e| io("moving", &sled, e))?;
        sync_dir(&aside)?;
        sync_dir(&self.path)
    }

    fn new_aside(&self) -> Result<PathBuf, StoreError> {
        let mut number = 1_u32;
        loop {
            let aside = self.path.join(format!("{ASIDE}{number}"));
            match fs::create_dir(&aside) {
                Ok(()) => return Ok(aside),
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                    number = number.saturating_add(1);
                }
                Err(e) => return Err(io("creating", &aside, e)),
            }
        }
    }

    /// Whether a full check is still owed.
    pub(super) fn unchecked(&self) -> bool {
        self.path.join(UNCHECKED).exists()
    }

    /// Forgets that a full check was owed.
    pub(super) fn checked(&self) -> Result<(), StoreError> {
        let note = self.path.join(UNCHECKED);
        match fs::remove_file(&note) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(io("removing", &note, e)),
            _ => sync_dir(&self.path),
        }
    }
}

/// Removes half-written snapshots: sled would take one for a whole one and fail.
pub(super) fn remove_half_snapshots(sled: &Path) -> Result<(), StoreError> {
    remove_snapshots(sled, |path| {
        path.extension().is_some_and(|e| e == "generating")
    })
}

/// Removes snapshots; whole ones only from a copy.
pub(super) fn remove_snapshots(
    sled: &Path,
    which: impl Fn(&Path) -> bool,
) -> Result<(), StoreError> {
    for path in snapshots(sled)? {
        if which(&path) {
            fs::remove_file(&path).map_err(|e| io("removing", &path, e))?;
        }
    }
    Ok(())
}

/// sled's snapshot files, half-written ones too.
fn snapshots(sled: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let listed = match fs::read_dir(sled) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed.map_err(|e| io("reading", sled, e))?,
    };
    let mut found = Vec::new();
    for entry in listed {
        let path = entry.map_err(|e| io("reading", sled, e))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("snap.") {
            found.push(path);
        }
    }
    Ok(found)
}

/// Tells what was synced. Always written after the sync itself and never waited for: after power
/// loss it may be older than the files it tells of, but not newer.
#[derive(Debug)]
pub(super) struct Receipt {
    file: File,
    path: PathBuf,
    synced: Synced,
}

impl Receipt {
    /// sled's file is on the disk, with this tally.
    pub(super) fn tree(&mut self, tally: Tally) -> Result<(), StoreError> {
        self.synced.tally = tally;
        self.write()
    }

    /// The journal is on the disk, up to this group.
    pub(super) fn journal(&mut self, group: u64) -> Result<(), StoreError> {
        self.synced.group = group;
        self.synced.journal = true;
        self.write()
    }

    /// The journal is needed no more; waits until this is on the disk, so that nobody misses it.
    pub(super) fn no_journal(&mut self) -> Result<(), StoreError> {
        self.synced.journal = false;
        self.write()?;
        let synced = self.file.sync_data();
        synced.map_err(|e| io("syncing", &self.path, e))
    }

    fn write(&mut self) -> Result<(), StoreError> {
        let bytes = self.synced.seal(SYNCED.as_bytes());
        let written = self
            .file
            .rewind()
            .and_then(|()| self.file.write_all(&bytes));
        written.map_err(|e| io("writing", &self.path, e))
    }
}

/// Makes the names in a directory survive power loss.
pub(super) fn sync_dir(path: &Path) -> Result<(), StoreError> {
    if cfg!(not(unix)) {
        return Ok(()); // elsewhere a directory cannot be opened, and names need no sync
    }
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    let synced = File::open(path).and_then(|dir| dir.sync_all());
    synced.map_err(|e| io("syncing", path, e))
}

fn foreign(path: &Path, reason: &str) -> StoreError {
    StoreError::NotAStore {
        path: path.to_owned(),
        reason: reason.to_owned(),
    }
}

pub(super) fn absent(path: &Path) -> StoreError {
    foreign(path, "there is no store here")
}

fn busy(path: &Path) -> StoreError {
    StoreError::Busy {
        path: path.to_owned(),
    }
}

pub(super) fn io(doing: &str, path: &Path, source: std::io::Error) -> StoreError {
    StoreError::Io {
        what: format!("{doing} {}", path.display()),
        source,
    }
}
