//! Bringing sled past damaged messages, in a copy that is opened for salvage.
//!
//! At open sled reads each segment that its snapshot does not wholly cover, message by message. At
//! the first damaged one it stops and zeroes all behind it, so that one flipped bit would cost a
//! small store everything. Here a damaged message is overwritten by one that sled skips: then only
//! what that message held is lost, and the checksums above name it.

use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::{keys, seal};
use crate::store::StoreError;

/// sled's kind of message that is passed over, and the highest of its kinds; 0 is damage.
const CANCELED: u8 = 1;
const KIND_MAX: u8 = 11;
/// The length of a message's checksum, and of the checksum with the kind.
const CRC_BYTES: usize = 4;
const KIND_END: usize = 5;

/// Overwrites the damaged messages of the file in the copied directory. Says whether there were any.
pub(super) fn mend(sled: &Path) -> Result<bool, StoreError> {
    walk(sled, true)
}

/// Whether whole messages follow a damaged one, so that sled would zero them. Changes nothing.
pub(super) fn torn(sled: &Path) -> Result<bool, StoreError> {
    walk(sled, false)
}

fn walk(sled: &Path, write: bool) -> Result<bool, StoreError> {
    let db = sled.join("db");
    if !db.exists() {
        return Ok(false); // a creation that was cut off
    }
    let walked = seal::snapshot(sled).and_then(|covered| walk_file(&db, covered, write));
    walked.map_err(|source| StoreError::Io {
        what: format!("looking for damage in {}", db.display()),
        source,
    })
}

fn walk_file(db: &Path, covered: u64, write: bool) -> std::io::Result<bool> {
    let mut file = OpenOptions::new().read(true).write(write).open(db)?;
    let (mut start, mut segment, mut found) = (0, Vec::new(), false);
    loop {
        segment.clear();
        file.seek(SeekFrom::Start(start))?;
        Read::by_ref(&mut file)
            .take(seal::SEGMENT_BYTES)
            .read_to_end(&mut segment)?;
        if segment.is_empty() {
            return Ok(found);
        }
        let place = seal::place(&segment).unwrap_or(0);
        let read_by_sled = place.saturating_add(seal::SEGMENT_BYTES) > covered;
        if read_by_sled && mend_segment(&mut segment, place.wrapping_div(seal::SEGMENT_BYTES)) {
            found = true;
            if write {
                file.seek(SeekFrom::Start(start))?;
                file.write_all(&segment)?;
            }
        }
        start = start.saturating_add(seal::SEGMENT_BYTES);
    }
}

/// Says whether anything was overwritten.
fn mend_segment(segment: &mut [u8], number: u64) -> bool {
    let mut at = usize::try_from(seal::HEADER_BYTES).unwrap_or(usize::MAX);
    let mut changed = false;
    loop {
        if let Some(length) = message(segment, at, number) {
            at = at.saturating_add(length);
            continue;
        }
        // Behind the last message there is none, and nothing to mend.
        let next = (at.saturating_add(1)..segment.len())
            .find(|next| message(segment, *next, number).is_some());
        let Some(next) = next else { return changed };
        let Some(gap) = segment.get_mut(at..next) else {
            return changed;
        };
        if !cancel(gap, number) {
            return changed;
        }
        (at, changed) = (next, true);
    }
}

/// The length of the whole message at `at`; `None` where there is none of this segment.
pub(super) fn message(segment: &[u8], at: usize, number: u64) -> Option<usize> {
    let bytes = segment.get(at..)?;
    let kind = *bytes.get(CRC_BYTES)?;
    if kind == 0 || kind > KIND_MAX {
        return None;
    }
    let (length, end) = read_number(bytes, KIND_END)?;
    let (segment_number, end) = read_number(bytes, end)?;
    if segment_number != number {
        return None;
    }
    let (_page, end) = read_number(bytes, end)?;
    let whole = end.checked_add(usize::try_from(length).ok()?)?;
    let body = bytes.get(end..whole)?;
    let written = u32::from_le_bytes(keys::array(bytes.get(..CRC_BYTES)?)?);
    (written == checksum(bytes.get(..end)?, body)?).then_some(whole)
}

/// Makes one message of the bytes, of the kind that sled passes over.
fn cancel(gap: &mut [u8], number: u64) -> bool {
    // The length is written before the rest of the head, and may take more or fewer bytes.
    let head = (0..=gap.len().min(32)).find_map(|size| {
        let body = u64::try_from(gap.len().checked_sub(size)?).ok()?;
        let mut head = vec![0; CRC_BYTES];
        head.push(CANCELED);
        push_number(&mut head, body);
        push_number(&mut head, number);
        push_number(&mut head, 0);
        (head.len() == size).then_some(head)
    });
    let Some(mut head) = head else { return false };
    let Some((place, body)) = gap.split_at_mut_checked(head.len()) else {
        return false;
    };
    let crc = checksum(&head, body).unwrap_or_default();
    head.iter_mut()
        .zip(crc.to_le_bytes())
        .for_each(|(to, from)| *to = from);
    place.copy_from_slice(&head);
    true
}

/// sled's checksum of a message: over its body, then its head without the checksum.
fn checksum(head: &[u8], body: &[u8]) -> Option<u32> {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(body);
    hasher.update(head.get(CRC_BYTES..)?);
    Some(!hasher.finalize())
}

/// A number in sled's writing of one to nine bytes, and where it ends.
fn read_number(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let first = u64::from(*bytes.get(at)?);
    let byte = |n: usize| bytes.get(at.checked_add(n)?).map(|b| u64::from(*b));
    let (value, size) = match first {
        0..=240 => (first, 1),
        241..=248 => {
            let high = first.checked_sub(241)?.checked_mul(256)?;
            (high.checked_add(240)?.checked_add(byte(1)?)?, 2)
        }
        249 => {
            let high = byte(1)?.checked_mul(256)?;
            (high.checked_add(2288)?.checked_add(byte(2)?)?, 3)
        }
        _ => {
            let count = usize::try_from(first.checked_sub(247)?).ok()?;
            let mut value: u64 = 0;
            for n in (1..=count).rev() {
                value = value.checked_mul(256)?.checked_add(byte(n)?)?;
            }
            (value, count.checked_add(1)?)
        }
    };
    Some((value, at.checked_add(size)?))
}

/// Writes a number so that sled reads it; the form of three bytes or more serves for all above 240.
fn push_number(to: &mut Vec<u8>, value: u64) {
    match u8::try_from(value) {
        Ok(small) if small <= 240 => to.push(small),
        _ => {
            let bytes = value.to_le_bytes();
            let count = bytes
                .iter()
                .rposition(|b| *b != 0)
                .map_or(1, |last| last.saturating_add(1))
                .max(3);
            to.push(247_u8.saturating_add(u8::try_from(count).unwrap_or(8)));
            to.extend(bytes.iter().take(count));
        }
    }
}
