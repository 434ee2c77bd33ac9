//! What values hold. Every value ends with a crc32c over its key and its body, so that neither a
//! flipped bit nor a value under a wrong key goes unseen.

use super::keys;
use crate::log::{Hash, Head, Seq};
use crate::store::{Payload, Record};

/// The largest value. sled writes pages above 131,052 bytes to files it never syncs; its leaves
/// split by count, so only small values keep pages below that.
pub(super) const VALUE_BYTES_MAX: usize = 4096;
const CRC_BYTES: usize = 4;
const BODY_BYTES_MAX: usize = VALUE_BYTES_MAX - CRC_BYTES;
/// The longest content that fits one value, behind its mark.
const WHOLE_BYTES_MAX: usize = BODY_BYTES_MAX - 1;
/// The bytes of a longer content in its first value, behind mark, length and checksum.
const FIRST_BYTES: usize = BODY_BYTES_MAX - 9;

const WHOLE: u8 = 0;
const CHUNKED: u8 = 1;

/// A write: the key with its new value, or with none where it is removed.
pub(super) type Change = (Vec<u8>, Option<Vec<u8>>);

/// Adds the checksum.
pub(super) fn seal(key: &[u8], mut body: Vec<u8>) -> Vec<u8> {
    body.extend(checksum(key, &body).to_be_bytes());
    body
}

/// The body of a value whose checksum is right.
pub(super) fn unseal<'a>(key: &[u8], value: &'a [u8]) -> Option<&'a [u8]> {
    let (body, crc) = value.split_last_chunk::<CRC_BYTES>()?;
    (u32::from_be_bytes(*crc) == checksum(key, body)).then_some(body)
}

fn checksum(key: &[u8], body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), body)
}

fn put(key: Vec<u8>, body: Vec<u8>) -> Change {
    let value = seal(&key, body);
    (key, Some(value))
}

/// The values that hold a content under `base`, small enough for sled each.
pub(super) fn write_content(base: &[u8], content: &[u8], changes: &mut Vec<Change>) {
    if content.len() <= WHOLE_BYTES_MAX {
        let body = std::iter::once(WHOLE)
            .chain(content.iter().copied())
            .collect();
        return changes.push(put(base.to_vec(), body));
    }
    let (first, rest) = content
        .split_at_checked(FIRST_BYTES)
        .unwrap_or((content, &[]));
    let mut body = vec![CHUNKED];
    body.extend(length(content.len()).to_be_bytes());
    body.extend(crc32c::crc32c(content).to_be_bytes());
    body.extend(first);
    changes.push(put(base.to_vec(), body));
    for (number, chunk) in (1_u32..).zip(rest.chunks(BODY_BYTES_MAX)) {
        changes.push(put(keys::chunk(base, number), chunk.to_vec()));
    }
}

/// Lengths that come here were checked against limits far below 4 GiB.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// The first value of a content, read.
pub(super) enum First<'a> {
    /// The content.
    Whole(&'a [u8]),
    /// The content's beginning; `chunks` values follow.
    Chunked {
        start: &'a [u8],
        length: usize,
        crc: u32,
        chunks: u32,
    },
}

/// Reads the first value of a content; `None` where it is damaged.
pub(super) fn read_first<'a>(key: &[u8], value: &'a [u8]) -> Option<First<'a>> {
    let (mark, body) = unseal(key, value)?.split_first()?;
    match *mark {
        WHOLE => Some(First::Whole(body)),
        CHUNKED => {
            let (length, body) = body.split_first_chunk::<4>()?;
            let (crc, start) = body.split_first_chunk::<4>()?;
            let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
            let rest = length.checked_sub(start.len())?;
            let chunks = u32::try_from(rest.div_ceil(BODY_BYTES_MAX)).ok()?;
            Some(First::Chunked {
                start,
                length,
                crc: u32::from_be_bytes(*crc),
                chunks,
            })
        }
        _ => None,
    }
}

/// A log's span, as its `H` value holds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    /// Its first own entry; above zero in a fork.
    pub(super) first: Seq,
    /// Its newest.
    pub(super) head: Head,
}

pub(super) fn write_span(key: Vec<u8>, span: Span) -> Change {
    let mut body = span.first.0.to_be_bytes().to_vec();
    body.extend(span.head.seq.0.to_be_bytes());
    body.extend(span.head.hash.0);
    put(key, body)
}

pub(super) fn read_span(key: &[u8], value: &[u8]) -> Option<Span> {
    let (first, rest) = unseal(key, value)?.split_first_chunk::<8>()?;
    let (seq, hash) = rest.split_first_chunk::<8>()?;
    let head = Head {
        seq: Seq(u64::from_be_bytes(*seq)),
        hash: Hash(keys::array(hash)?),
    };
    let first = Seq(u64::from_be_bytes(*first));
    (first <= head.seq).then_some(Span { first, head })
}

/// Where a payload of an entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// Behind the entry, in the same value.
    Inline,
    /// Under its own key.
    Apart,
    /// Nowhere: salt and bytes were destroyed.
    Destroyed,
}

impl Place {
    const fn code(self) -> u8 {
        match self {
            Self::Inline => 0,
            Self::Apart => 1,
            Self::Destroyed => 2,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Inline),
            1 => Some(Self::Apart),
            2 => Some(Self::Destroyed),
            _ => None,
        }
    }
}

/// The content of an `L` key: entry length, number of payloads, per payload its place and size
/// (salt included), then the entry, then the payloads that lie inline.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    /// The entry as stored.
    pub(super) entry: &'a [u8],
    /// Per payload its place and its size with the salt.
    table: &'a [u8],
    /// The inline payloads, one behind the other.
    inline: &'a [u8],
}

const ROW_BYTES: usize = 5;

impl<'a> Frame<'a> {
    /// Reads a frame; `None` where its lengths contradict each other.
    pub(super) fn read(content: &'a [u8]) -> Option<Self> {
        let (entry_length, rest) = content.split_first_chunk::<4>()?;
        let (count, rest) = rest.split_first_chunk::<4>()?;
        let count = usize::try_from(u32::from_be_bytes(*count)).ok()?;
        let (table, rest) = rest.split_at_checked(count.checked_mul(ROW_BYTES)?)?;
        let entry_length = usize::try_from(u32::from_be_bytes(*entry_length)).ok()?;
        let (entry, inline) = rest.split_at_checked(entry_length)?;
        let frame = Self {
            entry,
            table,
            inline,
        };
        let used = frame.rows().try_fold(0_usize, |sum, row| match row? {
            (Place::Inline, size) => sum.checked_add(size),
            _ => Some(sum),
        })?;
        (used == inline.len()).then_some(frame)
    }

    fn rows(&self) -> impl Iterator<Item = Option<(Place, usize)>> {
        self.table.chunks(ROW_BYTES).map(|row| {
            let (place, size) = row.split_first()?;
            let size = u32::from_be_bytes(keys::array(size)?);
            Some((Place::from_code(*place)?, usize::try_from(size).ok()?))
        })
    }

    /// Place and size (with salt) of every payload.
    pub(super) fn places(&self) -> impl Iterator<Item = (Place, usize)> {
        self.rows().flatten()
    }

    /// Place, size and, where it lies here, the bytes of a payload.
    pub(super) fn payload(&self, index: u32) -> Option<(Place, usize, &'a [u8])> {
        let index = usize::try_from(index).ok()?;
        let (place, size) = self.places().nth(index)?;
        let before = self
            .places()
            .take(index)
            .filter(|(place, _)| *place == Place::Inline);
        let start = before.fold(0_usize, |sum, (_, size)| sum.saturating_add(size));
        let bytes = match place {
            Place::Inline => self.inline.get(start..start.saturating_add(size))?,
            _ => &[],
        };
        Some((place, size, bytes))
    }

    /// This frame without the payload at `index`, which leaves a row that says so.
    pub(super) fn without(&self, index: u32) -> Vec<u8> {
        let mut rows = Vec::new();
        for (number, (place, size)) in (0_u32..).zip(self.places()) {
            if number == index {
                rows.push((Place::Destroyed, 0, &[][..]));
            } else {
                let bytes = self.payload(number).map_or(&[][..], |(_, _, bytes)| bytes);
                rows.push((place, size, bytes));
            }
        }
        write_frame(self.entry, &rows)
    }
}

fn write_frame(entry: &[u8], rows: &[(Place, usize, &[u8])]) -> Vec<u8> {
    let mut content = length(entry.len()).to_be_bytes().to_vec();
    content.extend(length(rows.len()).to_be_bytes());
    for (place, size, _) in rows {
        content.push(place.code());
        content.extend(length(*size).to_be_bytes());
    }
    content.extend(entry);
    rows.iter().for_each(|(_, _, bytes)| content.extend(*bytes));
    content
}

/// The values of a record: payloads lie with the entry as long as one value holds them, which
/// saves a key each.
pub(super) fn write_record(
    conversation: crate::log::ConversationId,
    record: &Record,
    changes: &mut Vec<Change>,
) {
    let table = record.payloads.len().saturating_mul(ROW_BYTES);
    let used = record.entry.len().saturating_add(table).saturating_add(8);
    let mut room = WHOLE_BYTES_MAX.saturating_sub(used);
    let salted: Vec<Option<Vec<u8>>> = record
        .payloads
        .iter()
        .map(|p| p.as_ref().map(salted))
        .collect();
    let mut rows = Vec::with_capacity(salted.len());
    for (index, bytes) in (0_u32..).zip(&salted) {
        let Some(bytes) = bytes else {
            rows.push((Place::Destroyed, 0, &[][..]));
            continue;
        };
        if let Some(left) = room.checked_sub(bytes.len()) {
            room = left;
            rows.push((Place::Inline, bytes.len(), bytes.as_slice()));
        } else {
            write_content(
                &keys::payload(conversation, record.seq, index),
                bytes,
                changes,
            );
            rows.push((Place::Apart, bytes.len(), &[][..]));
        }
    }
    let frame = write_frame(&record.entry, &rows);
    write_content(&keys::entry(conversation, record.seq), &frame, changes);
}

fn salted(payload: &Payload) -> Vec<u8> {
    [&payload.salt[..], &payload.bytes].concat()
}

/// Salt and bytes apart again.
pub(super) fn read_payload(salted: &[u8]) -> Option<Payload> {
    let (salt, bytes) = salted.split_first_chunk::<32>()?;
    Some(Payload {
        salt: *salt,
        bytes: bytes.to_vec(),
    })
}
