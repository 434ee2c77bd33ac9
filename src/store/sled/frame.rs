//! What values hold. Every value ends with a crc32c over its key and its body, so that neither a
//! flipped bit nor a value under a wrong key goes unseen.

use super::keys;
use crate::log::{Hash, Head, Seq};

/// The largest value. sled writes pages above 131,052 bytes to files it never syncs; its leaves
/// split by count, so only small values keep pages below that.
pub(super) const VALUE_BYTES_MAX: usize = 4096;
/// The bytes of the checksum, which is all there is of a value with an empty body.
pub(super) const CRC_BYTES: usize = 4;
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
        let mut body = Vec::with_capacity(content.len().saturating_add(1 + CRC_BYTES));
        body.push(WHOLE);
        body.extend_from_slice(content);
        return changes.push(put(base.to_vec(), body));
    }
    let (first, rest) = content
        .split_at_checked(FIRST_BYTES)
        .unwrap_or((content, &[]));
    let mut body = Vec::with_capacity(VALUE_BYTES_MAX);
    body.push(CHUNKED);
    body.extend(length(content.len()).to_be_bytes());
    body.extend(crc32c::crc32c(content).to_be_bytes());
    body.extend(first);
    changes.push(put(base.to_vec(), body));
    for (number, chunk) in (1_u32..).zip(rest.chunks(BODY_BYTES_MAX)) {
        let mut body = Vec::with_capacity(chunk.len().saturating_add(CRC_BYTES));
        body.extend_from_slice(chunk);
        changes.push(put(keys::chunk(base, number), body));
    }
}

/// Lengths that come here were checked against limits far below 4 GiB.
pub(super) fn length(bytes: usize) -> u32 {
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
