//! `compact`: all logs written anew, so that destroyed words leave the disk.

use std::cell::RefCell;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ctxlog::audit::{self, CompactError};
use ctxlog::engine::Store;
use ctxlog::store::{Listed, SledStore};
use serde::Serialize;

use crate::cli::errors::{Failure, INTEGRITY};
use crate::cli::human::number;
use crate::cli::progress::Progress;
use crate::cli::{Context, stores};

const COMPACT: &str = "\
EXAMPLES
  ctxlog compact --into .ctxlog.new
  mv .ctxlog .ctxlog.old && mv .ctxlog.new .ctxlog     then, once you looked at it, rm -r .ctxlog.old

Words that were destroyed cannot be asked for, but their bytes may lie in the store's files until their
space is used again. They are in no file of the new directory: same conversations, ids, names and
entries, so that every hash and every checkpoint still holds. Until it is whole and verified, the new
directory is called DIR.unfinished.";

#[derive(clap::Args, Debug)]
#[command(after_help = COMPACT)]
pub struct Args {
    /// The new store's directory, absent or empty
    #[arg(long, value_name = "DIR")]
    pub into: PathBuf,
}

/// What came of it, as `--json` gives it.
#[derive(Serialize)]
struct Done {
    schema: &'static str,
    from: String,
    into: String,
    conversations: usize,
    entries: u64,
    bytes_before: u64,
    bytes_after: u64,
}

pub fn run(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
    if cx.namespace.is_some() || cx.conversation.is_some() {
        let message = "a store is compacted whole";
        let help = "leave --conversation and --namespace out; `ctxlog export` writes one log";
        return Err(Failure::usage("invalid-option", message, help));
    }
    let (into, unfinished) = vacant(&args.into)?;
    if stores::is_within(&args.into, &cx.store) {
        let help = "name a directory beside the store: it is to take its place";
        let message = format!("{} is in the store itself", args.into.display());
        return Err(Failure::usage("invalid-option", message, help));
    }
    let bytes_before = stores::size(&cx.store);
    let old = stores::existing_for_one_pass(cx)?;
    let (conversations, entries) = write(cx, &old, &unfinished)?;
    drop(old);
    // An empty directory may be there, and is replaced.
    let _ = fs::remove_dir(&into);
    fs::rename(&unfinished, &into).map_err(|e| Failure::file("rename", &unfinished, &e))?;
    sync_parent(&into)?;
    let done = Done {
        schema: "ctxlog.compact/1",
        from: cx.store.display().to_string(),
        into: args.into.display().to_string(),
        conversations,
        entries,
        bytes_before,
        bytes_after: stores::size(&into),
    };
    tell(cx, &done)?;
    Ok(0)
}

/// Where the new store comes to lie, and where until it is whole.
fn vacant(dir: &Path) -> Result<(PathBuf, PathBuf), Failure> {
    let refuse = |dir: &Path, what: &str, help: &str| {
        let message = format!("{} {what}", dir.display());
        Failure::usage("not-empty", message, help)
    };
    // `DIR/` and `DIR` are the same.
    let into: PathBuf = dir.components().collect();
    if !stores::is_vacant(&into) {
        let help = "name a directory that is empty or not there; nothing was touched";
        return Err(refuse(&into, "is not an empty directory", help));
    }
    let Some(name) = into.file_name() else {
        let help = "name the new directory";
        return Err(refuse(&into, "is no name of a directory to be made", help));
    };
    let mut name = name.to_owned();
    name.push(".unfinished");
    let unfinished = into.with_file_name(name);
    if unfinished.exists() {
        let help =
            "an earlier `ctxlog compact` was cut off there, or is at work: remove it when none is";
        return Err(refuse(&unfinished, "is there already", help));
    }
    Ok((into, unfinished))
}

/// Writes and verifies the new store; removes it where that fails.
fn write(cx: &Context, old: &Store, path: &Path) -> Result<(usize, u64), Failure> {
    let written = write_and_verify(cx, old, path);
    if written.is_err() {
        let _ = fs::remove_dir_all(path);
    }
    written
}

fn write_and_verify(cx: &Context, old: &Store, path: &Path) -> Result<(usize, u64), Failure> {
    let new = Store::on(Arc::new(SledStore::open(path)?));
    let mut progress = Progress::new(cx.progress, "writing");
    let all = audit::compact(old, &new, &mut |done, total| progress.at(done, total));
    drop(progress);
    let all = all.map_err(failure)?;
    let entries = verified(cx, old, &new, &all)?;
    Ok((all.len(), entries))
}

/// The new logs hang together and end where the old ones do.
fn verified(cx: &Context, old: &Store, new: &Store, all: &[Listed]) -> Result<u64, Failure> {
    let progress = RefCell::new(Progress::new(cx.progress, "verifying"));
    let mut at = |done, total| progress.borrow_mut().at(done, total);
    let (mut entries, mut wrong) = (0_u64, None);
    audit::verify_each(new, all, &mut at, &mut |listed, answer| {
        let told = answer.map_err(Failure::from).and_then(|verified| {
            // A fork's parent counts its own.
            let first = new.backend().first(listed.conversation)?.map_or(0, |s| s.0);
            entries = entries.saturating_add(verified.entries.saturating_sub(first));
            let same = verified.head == old.backend().head(listed.conversation)?;
            let name = &listed.name.name;
            match verified.problems.first() {
                Some(problem) => Err(unsound(name, problem)),
                None if !same => Err(unsound(name, "it does not end where the old one does")),
                None => Ok(()),
            }
        });
        match told {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => {
                wrong = Some(failure);
                ControlFlow::Break(())
            }
        }
    })?;
    wrong.map_or(Ok(entries), Err)
}

fn unsound(name: &str, what: &str) -> Failure {
    let message = format!("'{name}' does not verify in the new store: {what}");
    let help =
        "the new directory was removed; the old store is as it was: `ctxlog verify` looks at it";
    Failure::new(INTEGRITY, "damaged", message, help)
}

fn failure(error: CompactError) -> Failure {
    let message = error.to_string();
    match error {
        CompactError::Engine(error) => error.into(),
        _ => {
            let help = "the new directory was removed; the old store is as it was: `ctxlog verify` \
                        looks at it, `ctxlog export --salvage` saves what is trusted";
            Failure::new(INTEGRITY, "damaged", message, help)
        }
    }
}

/// The new name survives a power cut.
fn sync_parent(path: &Path) -> Result<(), Failure> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    if cfg!(unix) {
        let synced = fs::File::open(parent).and_then(|dir| dir.sync_all());
        synced.map_err(|error| Failure::file("sync", parent, &error))?;
    }
    Ok(())
}

fn tell(cx: &mut Context, done: &Done) -> Result<(), Failure> {
    if cx.json {
        return cx.out.json(done);
    }
    let things = |n, what| crate::cli::human::things(n, what);
    let conversations = u64::try_from(done.conversations).unwrap_or(u64::MAX);
    let entries = number(done.entries);
    let counted = things(conversations, "conversation");
    cx.text(
        &format!("{counted}, {entries} entries, written anew and verified"),
        2,
    )?;
    let size = stores::bytes;
    cx.text(
        &format!("  before  {}   {}", size(done.bytes_before), done.from),
        2,
    )?;
    cx.text(
        &format!("  after   {}   {}", size(done.bytes_after), done.into),
        2,
    )?;
    let (from, into) = (&done.from, &done.into);
    cx.text(
        "the old store is still there, with what was destroyed in it. To swap them:",
        2,
    )?;
    cx.out.line(&format!(
        "  mv {from} {from}.old && mv {into} {from} && rm -r {from}.old"
    ))
}
