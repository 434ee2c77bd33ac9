//! A temporary copy of a store, for a directory that must not be touched.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::errors::Failure;
use super::progress::Progress;
use super::{Context, output, stores};

/// How often a copy is taken of a store that changes meanwhile.
const TAKES: u32 = 3;

/// A copy, removed when it is dropped.
pub struct Copy {
    path: PathBuf,
    /// What another process that had the store open means for the copy.
    pub live: Option<&'static str>,
}

impl Drop for Copy {
    fn drop(&mut self) {
        if fs::remove_dir_all(&self.path).is_err() {
            output::note(&format!("{} could not be removed", self.path.display()));
        }
    }
}

/// Says that a copy was taken of a store in use.
const OPEN: &str = "what another process, which had the store open while it was copied, wrote later or \
                    had not brought to the disk";
/// The same, of a store that was written to all the time.
const MOVING: &str = "a store at rest: another process wrote to it each time it was copied, so that what \
                      does not hang together here may do so there";

impl Copy {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Copies the store's files. Opens them for reading and nothing else: no lock is taken, nothing
    /// is written.
    pub fn of(cx: &Context, to: Option<&Path>) -> Result<Self, Failure> {
        let parent = to.map_or_else(std::env::temp_dir, Path::to_owned);
        if stores::is_within(&parent, &cx.store) {
            let message = format!("{} is in the store itself", parent.display());
            let help = "make the copy elsewhere: it would be copied as well";
            return Err(Failure::usage("invalid-option", message, help));
        }
        let before = listing(&cx.store)?;
        let bytes = before.iter().map(|f| f.bytes).fold(0, u64::saturating_add);
        let path = made(&parent)?;
        let mut copy = Self { path, live: None };
        if !cx.json {
            let (size, path) = (stores::bytes(bytes), copy.path.display());
            output::note(&format!("copying {size} to {path}"));
        }
        let open = is_open(&cx.store);
        for take in 1..=TAKES {
            let before = listing(&cx.store)?;
            let copied = copy.take(cx, &before);
            let still = listing(&cx.store)?;
            if before == still {
                copied?;
                copy.live = (open || is_open(&cx.store)).then_some(OPEN);
                break;
            }
            // A file that vanished while it was copied is told only where it always does.
            if take == TAKES {
                copied?;
                copy.live = Some(MOVING);
            }
        }
        Ok(copy)
    }

    fn take(&self, cx: &Context, files: &[Found]) -> Result<(), Failure> {
        let mut progress = Progress::new(cx.progress, "copying");
        let total = files.iter().map(|f| f.bytes).fold(0, u64::saturating_add);
        let mut done = 0_u64;
        for found in files {
            let (from, to) = (cx.store.join(&found.name), self.path.join(&found.name));
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent).map_err(|e| Failure::file("create", parent, &e))?;
            }
            let copied = File::open(&from).and_then(|mut from| {
                let mut to = File::create(&to)?;
                std::io::copy(&mut from, &mut to)
            });
            copied.map_err(|e| room(&self.path, total, &from, &e))?;
            done = done.saturating_add(found.bytes);
            progress.at(done, total);
        }
        Ok(())
    }
}

/// A directory of one's own, which nobody else reads.
fn made(parent: &Path) -> Result<PathBuf, Failure> {
    let own = std::process::id();
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let mut number = 0_u32;
    loop {
        let path = parent.join(format!("ctxlog-copy-{own}-{number}"));
        match builder.create(&path) {
            Ok(()) => return Ok(path),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && number < u32::MAX => {
                number = number.saturating_add(1);
            }
            Err(e) => return Err(Failure::file("create", &path, &e)),
        }
    }
}

fn room(copy: &Path, bytes: u64, from: &Path, error: &std::io::Error) -> Failure {
    let message = format!("cannot copy {}: {error}", from.display());
    let help = format!(
        "the copy takes {} in {}; --copy-to DIR puts it elsewhere",
        stores::bytes(bytes),
        copy.parent().unwrap_or(copy).display()
    );
    Failure::usage("io", message, help)
}

/// A file of a store, and when it was changed last.
#[derive(PartialEq, Eq)]
struct Found {
    name: PathBuf,
    bytes: u64,
    changed: Option<SystemTime>,
}

/// The store's files, but for copies that were made of it and snapshots that were set aside.
fn listing(store: &Path) -> Result<Vec<Found>, Failure> {
    let mut found = Vec::new();
    let mut due = vec![PathBuf::new()];
    while let Some(name) = due.pop() {
        let dir = store.join(&name);
        let failed = |e: std::io::Error| Failure::file("read", &dir, &e);
        for entry in fs::read_dir(&dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let aside = entry
                .file_name()
                .to_string_lossy()
                .starts_with("set-aside-");
            if name.as_os_str().is_empty() && (aside || entry.file_name() == "salvage") {
                continue;
            }
            let own = name.join(entry.file_name());
            let of = match entry.metadata() {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                of => of.map_err(failed)?,
            };
            if of.is_dir() {
                due.push(own);
            } else if of.is_file() {
                let (bytes, changed) = (of.len(), of.modified().ok());
                found.push(Found {
                    name: own,
                    bytes,
                    changed,
                });
            }
        }
    }
    // The journal before what it goes into: what is taken out of it meanwhile is there twice.
    found.sort_by_key(|f| (f.name.components().count(), f.name.clone()));
    Ok(found)
}

/// Whether somebody has the store open, asked in a way that keeps nobody out for longer than the
/// question takes.
fn is_open(store: &Path) -> bool {
    let Ok(file) = File::open(store.join("CTXLOG.lock")) else {
        return false;
    };
    let free = file.try_lock_shared().is_ok();
    let _ = file.unlock(); // closing it does so as well
    !free
}
