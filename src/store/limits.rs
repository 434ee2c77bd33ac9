//! What a store accepts: one place for the sizes and for the shape of a batch.

use super::{Batch, Name, StoreError};
use crate::log::{Head, Seq};

/// The largest stored entry, in bytes. The skeleton of a message is some hundred bytes.
pub const ENTRY_BYTES_MAX: u64 = 16 << 20;
/// The largest payload, in bytes, without its salt.
pub const PAYLOAD_BYTES_MAX: u64 = 64 << 20;
/// The largest blob, in bytes.
pub const BLOB_BYTES_MAX: u64 = 64 << 20;
/// The largest piece of derived data, in bytes.
pub const DERIVED_BYTES_MAX: u64 = 64 << 20;
/// The most that the entries and payloads of one batch may hold together, in bytes: a batch is
/// held in memory as a whole, more than once.
pub const BATCH_BYTES_MAX: u64 = 128 << 20;
/// The most payloads one entry may have.
pub const PAYLOADS_MAX: u64 = 65_536;
/// The most that namespace and name may hold together, in bytes, each segment counted with five
/// bytes more. Also the limit of a derived data's name.
pub const NAME_BYTES_MAX: u64 = 1024;

/// Refuses what exceeds a limit.
pub(super) fn within(what: &'static str, bytes: usize, limit: u64) -> Result<(), StoreError> {
    let bytes = length(bytes);
    if bytes > limit {
        Err(StoreError::TooLarge { what, bytes, limit })
    } else {
        Ok(())
    }
}

/// A length in memory as a number that does not depend on the machine.
fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Refuses a batch that contradicts itself or exceeds a limit; says which head it leads to.
pub(super) fn validate(batch: &Batch) -> Result<(Seq, Head), StoreError> {
    let malformed = |reason: &str| StoreError::Malformed {
        reason: reason.to_owned(),
    };
    let (Some(first), Some(last)) = (batch.records.first(), batch.records.last()) else {
        return Err(malformed("it has no records"));
    };
    match (&batch.expected, &batch.birth) {
        (None, None) => return Err(malformed("a new conversation needs a name")),
        (Some(_), Some(_)) => return Err(malformed("only a new conversation is given a name")),
        (None, Some(name)) => within("a name", name_bytes(name), NAME_BYTES_MAX)?,
        (Some(head), None) if head.seq.next() != first.seq || head.seq >= first.seq => {
            return Err(malformed(
                "its first record does not follow the expected head",
            ));
        }
        (Some(_), None) => {}
    }
    let pairs = batch.records.iter().zip(batch.records.iter().skip(1));
    if pairs
        .into_iter()
        .any(|(a, b)| a.seq.next() != b.seq || a.seq >= b.seq)
    {
        return Err(malformed("its records are not dense"));
    }
    sizes(batch)?;
    Ok((
        first.seq,
        Head {
            seq: last.seq,
            hash: last.hash,
        },
    ))
}

fn sizes(batch: &Batch) -> Result<(), StoreError> {
    let mut total = 0_usize;
    for record in &batch.records {
        within("an entry", record.entry.len(), ENTRY_BYTES_MAX)?;
        total = total.saturating_add(record.entry.len());
        let (count, limit) = (length(record.payloads.len()), PAYLOADS_MAX);
        if count > limit {
            let reason = format!("{} has {count} payloads, more than {limit}", record.seq);
            return Err(StoreError::Malformed { reason });
        }
        for payload in record.payloads.iter().flatten() {
            within("a payload", payload.bytes.len(), PAYLOAD_BYTES_MAX)?;
            total = total.saturating_add(payload.bytes.len());
        }
    }
    within("a batch", total, BATCH_BYTES_MAX)
}

/// The size of a name as its limit counts it: that of its key in a sled store.
pub(super) fn name_bytes(name: &Name) -> usize {
    let parts = name.namespace.iter().chain(std::iter::once(&name.name));
    parts.fold(0_usize, |sum, part| {
        sum.saturating_add(part.len()).saturating_add(5)
    })
}
