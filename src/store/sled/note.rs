//! The body of a journal's group: what was accepted, log by log.
//!
//! One append after the other: conversation, first own entry of the log, seq and hash of the head that
//! it leads to, the key of the log's name where it is born (behind its length; 0: it is not), number
//! of records, then each record behind its length. The records are the last ones up to the head.

use std::sync::Arc;

use super::frame::{Span, length};
use super::keys;
use crate::log::{ConversationId, Hash, Head, Seq};

/// Records that continue a log, or begin it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Append {
    pub(super) conversation: ConversationId,
    /// The log with these records.
    pub(super) span: Span,
    /// The key of its name, where it is born with them.
    pub(super) name: Option<Vec<u8>>,
    pub(super) records: Vec<Arc<Vec<u8>>>,
}

impl Append {
    /// The entry of the first record; `None` where there are more records than entries.
    pub(super) fn first(&self) -> Option<Seq> {
        let count = u64::try_from(self.records.len()).ok()?;
        let behind = self.span.head.seq.0.checked_add(1)?;
        behind.checked_sub(count).map(Seq)
    }

    /// The bytes of its records.
    pub(super) fn bytes(&self) -> usize {
        let sizes = self.records.iter().map(|record| record.len());
        sizes.fold(0, usize::saturating_add)
    }

    pub(super) fn write(&self, to: &mut Vec<u8>) {
        to.extend(self.conversation.0);
        to.extend(self.span.first.0.to_be_bytes());
        to.extend(self.span.head.seq.0.to_be_bytes());
        to.extend(self.span.head.hash.0);
        let name = self.name.as_deref().unwrap_or_default();
        put(name, to);
        to.extend(length(self.records.len()).to_be_bytes());
        self.records.iter().for_each(|record| put(record, to));
    }
}

fn put(bytes: &[u8], to: &mut Vec<u8>) {
    to.extend(length(bytes.len()).to_be_bytes());
    to.extend_from_slice(bytes);
}

/// The appends of a group; `None` where its bytes are none.
pub(super) fn read(mut bytes: &[u8]) -> Option<Vec<Append>> {
    let mut appends = Vec::new();
    while !bytes.is_empty() {
        let conversation = ConversationId(take(&mut bytes)?);
        let first = Seq(u64::from_be_bytes(take(&mut bytes)?));
        let seq = Seq(u64::from_be_bytes(take(&mut bytes)?));
        let hash = Hash(take(&mut bytes)?);
        let name = get(&mut bytes)?;
        let count = u32::from_be_bytes(take(&mut bytes)?);
        let records = (0..count).map(|_| get(&mut bytes).map(|bytes| Arc::new(bytes.to_vec())));
        let records = records.collect::<Option<Vec<Arc<Vec<u8>>>>>()?;
        let append = Append {
            conversation,
            span: Span {
                first,
                head: Head { seq, hash },
            },
            name: (!name.is_empty()).then(|| name.to_vec()),
            records,
        };
        if append.first()? < first || append.records.is_empty() {
            return None;
        }
        appends.push(append);
    }
    Some(appends)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_at_checked(N)?;
    *bytes = rest;
    keys::array(taken)
}

fn get<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let size = u32::from_be_bytes(take(bytes)?);
    let (taken, rest) = bytes.split_at_checked(usize::try_from(size).ok()?)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn appends() -> impl Strategy<Value = Append> {
        let record = prop::collection::vec(any::<u8>(), 0..50).prop_map(Arc::new);
        let records = prop::collection::vec(record, 1..5);
        let name = prop::option::of(prop::collection::vec(any::<u8>(), 1..9));
        (any::<[u8; 16]>(), 0_u64..9, 0_u64..9, name, records).prop_map(
            |(id, first, more, name, records)| {
                let seq = Seq(first + more + records.len() as u64 - 1);
                let head = Head {
                    seq,
                    hash: Hash([5; 32]),
                };
                let span = Span {
                    first: Seq(first),
                    head,
                };
                Append {
                    conversation: ConversationId(id),
                    span,
                    name,
                    records,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn a_group_is_read_back_from_its_bytes_and_no_part_of_it_is(
            given in prop::collection::vec(appends(), 0..4), cut in any::<prop::sample::Index>()
        ) {
            let mut bytes = Vec::new();
            given.iter().for_each(|append| append.write(&mut bytes));
            prop_assert_eq!(read(&bytes), Some(given.clone()));
            if !bytes.is_empty() {
                let part = read(&bytes[..cut.index(bytes.len())]);
                prop_assert!(part.is_none_or(|part| part.len() < given.len()));
            }
        }

        #[test]
        fn no_bytes_make_the_reader_panic_or_take_memory(
            bytes in prop::collection::vec(any::<u8>(), 0..200)
        ) {
            let _ = read(&bytes);
        }
    }
}
