//! Where a power cut left a gap in sled's file, and cutting the file there.
//!
//! sled takes for safe what it has handed to the system, and says so in the segments that follow.
//! Safe is only what was synced; until then the system writes its pages in any order. After a power
//! cut a page may be missing, and read as it was before, while later ones are there. sled passes over
//! it and goes on with what follows, of which pieces are then missing: entries from the middle of a
//! log, or the root of its tree. All of that was never synced. So the file is cut where the gap
//! begins, as if the power had gone a moment earlier; but only where that leaves a store that is
//! whole, with all that was synced.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::{mend, seal};
use crate::store::StoreError;

/// Closer to its end a segment holds no further message.
const LAST_BYTES: u64 = 32;
/// Of so many segments the latest may not have been synced, and then some: the writer syncs before
/// sled fills one.
const UNSYNCED: u64 = 8;

/// So many of the newest segments are still in use, all of them.
const NEWEST: usize = 2;

/// A segment that sled will read.
struct Segment {
    /// Where it stands in sled's log.
    place: u64,
    /// Where its messages end, counted from its start.
    end: u64,
}

impl Segment {
    fn is_full(&self) -> bool {
        self.end.saturating_add(LAST_BYTES) > seal::SEGMENT_BYTES
    }
}

/// The places in sled's log, near its end, where it breaks off before later segments; the latest
/// first.
pub(super) fn gaps(sled: &Path) -> Result<Vec<u64>, StoreError> {
    let db = sled.join("db");
    if !db.exists() {
        return Ok(Vec::new()); // a creation that was cut off
    }
    let found = seal::snapshot(sled).and_then(|covered| find(&db, covered));
    found.map_err(|source| failed("looking for gaps in", &db, source))
}

fn failed(doing: &str, db: &Path, source: io::Error) -> StoreError {
    let what = format!("{doing} {}", db.display());
    StoreError::Io { what, source }
}

fn find(db: &Path, covered: u64) -> io::Result<Vec<u64>> {
    let (mut segments, mut absent) = (Vec::new(), false);
    each(&mut File::open(db)?, |_, bytes| {
        match place(bytes) {
            Some(place) if place.saturating_add(seal::SEGMENT_BYTES) > covered => {
                segments.push(segment(place, bytes));
            }
            Some(_) => {}
            None => absent |= bytes.iter().all(|byte| *byte == 0),
        }
        Ok(())
    })?;
    segments.sort_by_key(|segment| segment.place);
    let pairs = || segments.iter().zip(segments.iter().skip(1));
    // Old segments go when nothing of them is in use, so that a missing one is a sign of a gap only
    // where it would be one of the newest.
    let is_next = |segment: &Segment, later: &Segment| {
        later.place == segment.place.saturating_add(seal::SEGMENT_BYTES)
    };
    let signs = absent
        || pairs().any(|(segment, _)| !segment.is_full())
        || pairs()
            .rev()
            .take(NEWEST)
            .any(|(segment, later)| !is_next(segment, later));
    if !signs {
        return Ok(Vec::new());
    }
    let latest = segments.last().map_or(0, |segment| segment.place);
    let from = latest.saturating_sub(UNSYNCED.saturating_mul(seal::SEGMENT_BYTES));
    let mut gaps: Vec<u64> = pairs()
        .filter_map(|(segment, later)| {
            let next = segment.place.saturating_add(seal::SEGMENT_BYTES);
            let end = segment.place.saturating_add(segment.end);
            (!segment.is_full())
                .then_some(end)
                .or_else(|| (later.place != next).then_some(next))
        })
        .filter(|gap| *gap >= from.max(covered))
        .collect();
    gaps.reverse();
    Ok(gaps)
}

/// Where the segment stands; `None` where it is none.
fn place(segment: &[u8]) -> Option<u64> {
    seal::place(segment).filter(|place| place.is_multiple_of(seal::SEGMENT_BYTES))
}

fn segment(place: u64, bytes: &[u8]) -> Segment {
    let number = place.wrapping_div(seal::SEGMENT_BYTES);
    let mut end = usize::try_from(seal::HEADER_BYTES).unwrap_or(usize::MAX);
    while let Some(length) = mend::message(bytes, end, number) {
        end = end.saturating_add(length);
    }
    let end = u64::try_from(end).unwrap_or(u64::MAX);
    Segment { place, end }
}

/// Overwrites with zeroes what stands at this place of sled's log and later.
pub(super) fn cut(sled: &Path, from: u64) -> Result<(), StoreError> {
    let db = sled.join("db");
    let cut = || {
        let mut file = OpenOptions::new().read(true).write(true).open(&db)?;
        let mut blanks = Vec::new();
        each(&mut file, |start, bytes| {
            let keep = place(bytes).map_or(0, |place| from.saturating_sub(place));
            let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            if keep < length {
                blanks.push((start.saturating_add(keep), length.saturating_sub(keep)));
            }
            Ok(())
        })?;
        for (start, length) in blanks {
            file.seek(SeekFrom::Start(start))?;
            io::copy(&mut io::repeat(0).take(length), &mut file)?;
        }
        file.flush()?;
        file.sync_all()
    };
    cut().map_err(|source| failed("cutting", &db, source))
}

/// Shows each segment of the file with where it starts.
fn each(file: &mut File, mut show: impl FnMut(u64, &[u8]) -> io::Result<()>) -> io::Result<()> {
    let (mut start, mut segment) = (0, Vec::new());
    loop {
        segment.clear();
        file.seek(SeekFrom::Start(start))?;
        let mut one = Read::by_ref(file).take(seal::SEGMENT_BYTES);
        if one.read_to_end(&mut segment)? == 0 {
            return Ok(());
        }
        show(start, &segment)?;
        start = start.saturating_add(seal::SEGMENT_BYTES);
    }
}
