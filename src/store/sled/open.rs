//! How a store is opened: sled started with care, and what it opened compared with what was
//! written.

use super::directory::{self, Directory};
use super::engine::{Engine, OpenFailure, damaged};
use super::tally::{self, Tally};
use super::writer::Shared;
use super::{check, frame, gap, journal, keys, mend, note, reserved, seal};
use crate::store::StoreError;
use std::path::Path;
use std::sync::Mutex;

/// The value of the `M` key.
const MADE: &[u8] = b"ctxlog 3";
/// The page cache of sled where it only looks into a copy, in bytes.
const COPY_CACHE_BYTES: u64 = 64 << 20;

/// Opens sled with the remedies against what it does to damaged files.
pub(super) fn engine(directory: &Directory, cache_bytes: u64) -> Result<Engine, StoreError> {
    let sled = directory.sled();
    let mut as_left = false;
    if sled.exists() {
        let holds = seal::holds(&sled)?;
        as_left = holds == Some(true);
        let suspicion = match holds {
            Some(false) => Some("sled's file is not as it was when the store was closed"),
            Some(true) => None,
            None => {
                cut_at_a_gap(directory)?;
                mend::torn(&sled)?.then_some("sled's file is damaged before its end")
            }
        };
        if let Some(what) = suspicion
            && !whole_in_a_copy(directory, |_| Ok(()), false)?
        {
            if !directory.was_never_a_store() {
                return Err(distrust(directory, what));
            }
            directory.set_sled_aside()?;
        }
        seal::lift(&sled)?;
    }
    directory::remove_half_snapshots(&sled)?;
    match Engine::open(&sled, cache_bytes) {
        Ok(engine) => return Ok(engine.known(as_left)),
        Err(OpenFailure::Other(error)) => return Err(error),
        Err(OpenFailure::Snapshot(_)) => directory.set_snapshots_aside(&sled)?,
    }
    match Engine::open(&sled, cache_bytes) {
        Ok(engine) => Ok(engine),
        Err(OpenFailure::Other(error)) => Err(error),
        // A kill while the store was made leaves files of sled that are half written, and nothing else.
        Err(OpenFailure::Snapshot(_)) if directory.was_never_a_store() => {
            directory.set_sled_aside()?;
            Engine::open(&sled, cache_bytes).map_err(|failure| match failure {
                OpenFailure::Other(error) => error,
                OpenFailure::Snapshot(reason) => distrust(directory, &reason),
            })
        }
        Err(OpenFailure::Snapshot(reason)) => {
            let what = format!("sled reads neither its snapshot nor its whole log ({reason})");
            Err(distrust(directory, &what))
        }
    }
}

/// Opens a copy of sled's files in the way that saves most of those that it can be opened in. Each
/// way has a copy of its own, since a failed open leaves zeroes behind. Says beside whether damaged
/// messages were passed over.
pub(super) fn salvaged(
    directory: &Directory,
    cache_bytes: u64,
) -> Result<(Engine, bool), StoreError> {
    let mut last = String::new();
    for (mended, with_snapshot) in [(true, true), (false, true), (true, false), (false, false)] {
        let copy = directory.copy_for_salvage()?;
        directory::remove_half_snapshots(&copy)?;
        if !with_snapshot {
            directory::remove_snapshots(&copy, |_| true)?;
        }
        let passed_over = mended && mend::mend(&copy)?;
        match Engine::open(&copy, cache_bytes) {
            Ok(engine) => {
                let _ = reserved::take_back(&engine); // else they are passed over
                return Ok((engine, passed_over));
            }
            Err(OpenFailure::Other(error)) => last = error.to_string(),
            Err(OpenFailure::Snapshot(reason)) => last = reason,
        }
    }
    directory.remove_salvage()?;
    Err(damaged(format!(
        "{}: sled cannot read its files ({last}). ctxlog removed nothing. Restore the store from an \
         export",
        directory.path().display()
    )))
}

/// Where a power cut left gaps in what was not synced: cuts the file where one begins, so that as
/// much as possible is kept and every value that is kept is whole. Where no cut does that without
/// what was synced, nothing is touched, and what is missing is told later.
fn cut_at_a_gap(directory: &Directory) -> Result<(), StoreError> {
    let sled = directory.sled();
    let gaps = gap::gaps(&sled)?;
    if gaps.is_empty() || whole_in_a_copy(directory, |_| Ok(()), true)? {
        return Ok(());
    }
    for from in gaps {
        if whole_in_a_copy(directory, |copy| gap::cut(copy, from), true)? {
            return gap::cut(&sled, from);
        }
    }
    Ok(())
}

/// Whether sled, given a copy of its file, finds all that was written: then a change of it was
/// sled's own (another program opened it), or spared what sled reads at open, and the file can be
/// opened. What single values hold is for [`check`] and the layers above, unless asked for.
fn whole_in_a_copy(
    directory: &Directory,
    prepare: impl FnOnce(&Path) -> Result<(), StoreError>,
    every_value: bool,
) -> Result<bool, StoreError> {
    let copy = directory.copy_for_salvage()?;
    directory::remove_half_snapshots(&copy)?;
    prepare(&copy)?;
    let whole = match Engine::open(&copy, COPY_CACHE_BYTES) {
        Ok(engine) => {
            tally::verify(&engine, tally_of(directory)?).is_ok()
                && reserved::take_back(&engine).is_ok()
                && engine
                    .value(&[keys::MADE])
                    .is_ok_and(|found| found.is_some())
                && (!every_value || check::check(&engine, &Mutex::default(), None).is_empty())
        }
        Err(_) => false,
    };
    directory.remove_salvage()?;
    Ok(whole)
}

/// Finishes creation.
pub(super) fn establish(engine: &Engine, directory: &Directory) -> Result<Tally, StoreError> {
    let tally = Tally::default();
    let made = frame::seal(&[keys::MADE], MADE.to_vec());
    let mut changes = vec![(vec![keys::MADE], Some(made)), tally.change()];
    changes.extend(keys::fences().map(|key| (key.to_vec(), Some(frame::seal(&key, Vec::new())))));
    engine.apply(changes)?;
    engine.sync()?;
    directory.finish()?;
    Ok(tally)
}

/// Makes sure that what was opened is what was written; checks every value where that is owed.
pub(super) fn verify(engine: &Engine, directory: &Directory) -> Result<Tally, StoreError> {
    let key = [keys::MADE];
    if engine
        .value(&key)?
        .is_none_or(|found| found != frame::seal(&key, MADE.to_vec()))
    {
        return Err(distrust(
            directory,
            "the record that every store begins with is missing",
        ));
    }
    // sled loses pages while it reads its file at open. Where that is as it was closed, none was lost,
    // and a store of many conversations opens without reading every head record.
    let synced = tally_of(directory)?;
    let tally = if engine.as_left() {
        tally::newest(engine, synced)
    } else {
        tally::verify(engine, synced)
    };
    let tally = tally.and_then(|tally| reserved::take_back(engine).map(|()| tally));
    let tally = tally.map_err(|error| match error {
        StoreError::Damaged { reason, .. } => distrust(directory, &reason),
        error => error,
    })?;
    if directory.unchecked() {
        let found = check::check(engine, &Mutex::default(), None);
        if let Some(first) = found.first() {
            let count = found.len();
            let what = format!(
                "sled lost its snapshot, and a check of every value found {count} faults, first: {first}"
            );
            return Err(distrust(directory, &what));
        }
        directory.checked()?;
    }
    directory::sync_dir(&directory.sled())?;
    Ok(tally)
}

/// The tally that was last synced.
fn tally_of(directory: &Directory) -> Result<Option<Tally>, StoreError> {
    Ok(directory.synced()?.map(|synced| synced.tally))
}

/// Brings into the tree what a crash left in the journal, and removes it.
pub(super) fn recover(shared: &Shared, directory: &Directory) -> Result<(), StoreError> {
    if let Some(what) = restore(shared, directory)? {
        return Err(distrust(directory, &what));
    }
    if directory.journal().exists() {
        shared.settle()?;
        shared.end_journal()?;
    }
    Ok(())
}

/// Takes what is in the journal. Says what is wrong with it.
pub(super) fn restore(
    shared: &Shared,
    directory: &Directory,
) -> Result<Option<String>, StoreError> {
    let synced = directory.synced()?.unwrap_or_default();
    let Some(left) = journal::read(&directory.journal(), synced.group)? else {
        let gone = "the journal is gone, with what was synced last";
        return Ok(synced.journal.then(|| gone.to_owned()));
    };
    let mut damage = left
        .damage
        .map(|what| format!("the journal is damaged: {what}"));
    for (number, body) in left.groups {
        let apart = match note::read(&body) {
            Some(appends) => shared.restore(appends)?,
            None => {
                damage.get_or_insert(format!("the journal's group {number} cannot be read"));
                continue;
            }
        };
        if let Some(conversation) = apart {
            let what = "does not follow what is in the store";
            damage.get_or_insert(format!("the journal's part of {conversation} {what}"));
        }
    }
    Ok(damage)
}

/// Refuses a store that sled opened and that is not what was written.
pub(super) fn distrust(directory: &Directory, what: &str) -> StoreError {
    damaged(format!(
        "{}: {what}. ctxlog removed nothing. Restore the store from an export, or run \
         `ctxlog verify --salvage` to save what can still be read",
        directory.path().display()
    ))
}
