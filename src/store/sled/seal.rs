//! What tells, before sled is started, that its file is not as it was left.
//!
//! When sled opens its file it reads all that was written since its snapshot, and where it meets
//! damage it overwrites everything behind with zeroes. So a clean close leaves a checksum of just
//! what sled will read, and a file that does not match it is never handed to sled.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::thread;

use super::{frame, keys};
use crate::store::StoreError;

/// sled's unit of writing; fixed when a store is made, and never set by us.
pub(super) const SEGMENT_BYTES: u64 = 512 << 10;
/// A segment begins with a checksum, its place in the log (xored with the largest integer) and
/// the place up to which the log was safe.
pub(super) const HEADER_BYTES: u64 = 20;
const NAME: &str = "CTXLOG.closed";
/// So many threads read headers of a large file: a disk that has to be waited for answers many at once.
const READERS: u64 = 32;
/// As many segments are read by one thread at least.
const READER_SEGMENTS: u64 = 32;

fn path(sled: &Path) -> PathBuf {
    sled.with_file_name(NAME)
}

/// Leaves the checksum; for when sled is closed and all is on the disk.
pub(super) fn leave(sled: &Path) -> std::io::Result<()> {
    let body = checksum(sled)?.to_vec();
    fs::write(path(sled), frame::seal(NAME.as_bytes(), body))
}

/// Whether sled's file is as it was left; `None` where that is not known, as after a kill.
pub(super) fn holds(sled: &Path) -> Result<Option<bool>, StoreError> {
    let place = path(sled);
    let left = match fs::read(&place) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        left => left.map_err(|source| io("reading", &place, source))?,
    };
    let Some(body) = frame::unseal(NAME.as_bytes(), &left) else {
        return Ok(None);
    };
    let now = checksum(sled).map_err(|source| io("reading", sled, source))?;
    Ok(Some(keys::array(body) == Some(now)))
}

/// Takes the checksum away, for good, before anything is written.
pub(super) fn lift(sled: &Path) -> Result<(), StoreError> {
    let place = path(sled);
    match fs::remove_file(&place) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(source) => Err(io("removing", &place, source)),
        Ok(()) => sled.parent().map_or(Ok(()), super::directory::sync_dir),
    }
}

/// The length of sled's file and a crc32c over all segment headers and over every segment that is
/// not wholly covered by the snapshot.
fn checksum(sled: &Path) -> std::io::Result<[u8; 12]> {
    let covered = snapshot(sled)?;
    let path = sled.join("db");
    let length = fs::metadata(&path)?.len();
    let segments = length.div_ceil(SEGMENT_BYTES);
    let share = segments
        .div_ceil(READERS)
        .max(READER_SEGMENTS)
        .saturating_mul(SEGMENT_BYTES);
    let starts: Vec<u64> = (0..READERS)
        .map(|n| n.saturating_mul(share))
        .filter(|start| *start < length)
        .collect();
    let part = |start: u64| {
        checksum_of(
            &path,
            start..length.min(start.saturating_add(share)),
            covered,
        )
    };
    let parts: Vec<std::io::Result<(u32, usize)>> = thread::scope(|scope| {
        let (first, others) = starts.split_first().unzip();
        let others: Vec<_> = others
            .into_iter()
            .flatten()
            .map(|start| scope.spawn(|| part(*start)))
            .collect();
        let first = first.map(|start| part(*start));
        let joined = others.into_iter().map(|other| {
            let lost = |_| {
                Err(std::io::Error::other(
                    "a thread that reads sled's file failed",
                ))
            };
            other.join().unwrap_or_else(lost)
        });
        first.into_iter().chain(joined).collect()
    });
    let mut crc = 0;
    for part in parts {
        let (of_part, bytes) = part?;
        crc = crc32c::crc32c_combine(crc, of_part, bytes);
    }
    let mut sum = [0; 12];
    sum.iter_mut()
        .zip(length.to_be_bytes().into_iter().chain(crc.to_be_bytes()))
        .for_each(|(to, from)| *to = from);
    Ok(sum)
}

/// The checksum of a range of the file that begins with a segment, and over how many bytes it is.
fn checksum_of(path: &Path, range: Range<u64>, covered: u64) -> std::io::Result<(u32, usize)> {
    let mut file = File::open(path)?;
    let (mut crc, mut start, mut total, mut bytes) = (0, range.start, 0_usize, Vec::new());
    while start < range.end {
        bytes.clear();
        file.seek(SeekFrom::Start(start))?;
        Read::by_ref(&mut file)
            .take(HEADER_BYTES)
            .read_to_end(&mut bytes)?;
        if place(&bytes).is_none_or(|place| place.saturating_add(SEGMENT_BYTES) > covered) {
            let rest = SEGMENT_BYTES.saturating_sub(HEADER_BYTES);
            Read::by_ref(&mut file).take(rest).read_to_end(&mut bytes)?;
        }
        crc = crc32c::crc32c_append(crc, &bytes);
        total = total.saturating_add(bytes.len());
        start = start.saturating_add(SEGMENT_BYTES);
    }
    Ok((crc, total))
}

/// Where in the log a segment stands; `None` where its header does not say.
pub(super) fn place(header: &[u8]) -> Option<u64> {
    let place = u64::from_le_bytes(keys::array(header.get(4..12)?)?) ^ (u64::MAX >> 1);
    (place <= u64::MAX >> 1).then_some(place)
}

/// The place in the log up to which the newest snapshot covers it.
pub(super) fn snapshot(sled: &Path) -> std::io::Result<u64> {
    let mut newest = 0;
    for found in fs::read_dir(sled)? {
        let name = found?.file_name();
        let digits = name.to_str().and_then(|name| name.strip_prefix("snap."));
        let place = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        newest = newest.max(place.unwrap_or(0));
    }
    Ok(newest)
}

fn io(doing: &str, path: &Path, source: std::io::Error) -> StoreError {
    StoreError::Io {
        what: format!("{doing} {}", path.display()),
        source,
    }
}
