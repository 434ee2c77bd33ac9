//! One entry with its payloads, as bytes that are stored and packed together.
//!
//! The head: entry length, number of payloads, the size of each payload with its salt (0: destroyed),
//! then the entry, then the salts. Behind it the words: the payloads one behind the other. In a block
//! the words of all its records lie apart from the heads, which are of hashes and shrink otherwise.

use super::frame::length;
use super::keys;
use crate::store::{Payload, PayloadRef, Record};

const NUMBER_BYTES: usize = 4;
const SALT_BYTES: usize = 32;

/// The bytes of a record: the length of its head, the head, the words.
pub(super) fn encode(record: &Record) -> Vec<u8> {
    join(&record.entry, &record.payloads)
}

fn join(entry: &[u8], payloads: &[Option<Payload>]) -> Vec<u8> {
    let held = || payloads.iter().flatten();
    let words = held().fold(0_usize, |n, one| n.saturating_add(one.bytes.len()));
    let table = payloads.len().saturating_add(2);
    let salts = held().count().saturating_mul(SALT_BYTES);
    let head = table.saturating_mul(NUMBER_BYTES).saturating_add(salts);
    let head = head.saturating_add(entry.len());
    let whole = head.saturating_add(words).saturating_add(NUMBER_BYTES);
    let mut bytes = Vec::with_capacity(whole);
    bytes.extend(length(head).to_be_bytes());
    bytes.extend(length(entry.len()).to_be_bytes());
    bytes.extend(length(payloads.len()).to_be_bytes());
    for payload in payloads {
        let size = payload.as_ref().map_or(0, size);
        bytes.extend(length(size).to_be_bytes());
    }
    bytes.extend(entry);
    held().for_each(|payload| bytes.extend(payload.salt));
    held().for_each(|payload| bytes.extend(&payload.bytes));
    bytes
}

fn size(payload: &Payload) -> usize {
    payload.bytes.len().saturating_add(SALT_BYTES)
}

/// A record's head and its words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Parts<'a> {
    pub(super) head: &'a [u8],
    pub(super) words: &'a [u8],
}

impl<'a> Parts<'a> {
    /// The parts of what [`encode`] gives; all of it is the head where it is something else.
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        let split = || {
            let (head, rest) = bytes.split_first_chunk::<NUMBER_BYTES>()?;
            let head = usize::try_from(u32::from_be_bytes(*head)).ok()?;
            rest.split_at_checked(head)
        };
        let (head, words) = split().unwrap_or((bytes, &[]));
        Self { head, words }
    }

    pub(super) fn len(&self) -> usize {
        self.head.len().saturating_add(self.words.len())
    }
}

/// A record's bytes, taken apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Encoded<'a> {
    /// The entry as stored.
    pub(super) entry: &'a [u8],
    /// Per payload its size with the salt.
    table: &'a [u8],
    /// The salts of those payloads that are there, one behind the other.
    salts: &'a [u8],
    /// Their words, likewise.
    words: &'a [u8],
}

/// What an entry has of a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Held<'a> {
    Whole {
        salt: &'a [u8; SALT_BYTES],
        words: &'a [u8],
    },
    /// Nothing any more: salt and words were destroyed.
    Destroyed,
}

impl<'a> Encoded<'a> {
    /// Takes a record apart; `None` where its lengths contradict each other.
    pub(super) fn read(Parts { head, words }: Parts<'a>) -> Option<Self> {
        let record = Self::read_head(head, words.len())?;
        Some(Self { words, ..record })
    }

    /// The same of a record whose words, so many bytes, are elsewhere: it gives no payloads.
    pub(super) fn read_head(head: &'a [u8], words_size: usize) -> Option<Self> {
        let (entry, rest) = head.split_first_chunk::<NUMBER_BYTES>()?;
        let (count, rest) = rest.split_first_chunk::<NUMBER_BYTES>()?;
        let count = usize::try_from(u32::from_be_bytes(*count)).ok()?;
        let (table, rest) = rest.split_at_checked(count.checked_mul(NUMBER_BYTES)?)?;
        let entry = usize::try_from(u32::from_be_bytes(*entry)).ok()?;
        let (entry, salts) = rest.split_at_checked(entry)?;
        let record = Self {
            entry,
            table,
            salts,
            words: &[],
        };
        let held = record.sizes().filter(|size| *size > 0);
        let (mut salted, mut spoken) = (0_usize, 0_usize);
        for size in held {
            salted = salted.checked_add(SALT_BYTES)?;
            spoken = spoken.checked_add(size.checked_sub(SALT_BYTES)?)?;
        }
        (salted == salts.len() && spoken == words_size).then_some(record)
    }

    fn sizes(&self) -> impl Iterator<Item = usize> + use<'a> {
        let rows = self.table.chunks(NUMBER_BYTES);
        rows.filter_map(|row| usize::try_from(u32::from_be_bytes(keys::array(row)?)).ok())
    }

    /// A payload; `None` where the entry has none at this place.
    pub(super) fn payload(&self, index: u32) -> Option<Held<'a>> {
        let index = usize::try_from(index).ok()?;
        self.payloads().nth(index)
    }

    fn payloads(&self) -> impl Iterator<Item = Held<'a>> + use<'a> {
        let (mut salts, mut words) = (self.salts, self.words);
        self.sizes().map_while(move |size| {
            let Some(size) = size.checked_sub(SALT_BYTES) else {
                return Some(Held::Destroyed);
            };
            let (salt, more) = salts.split_first_chunk::<SALT_BYTES>()?;
            let (own, rest) = words.split_at_checked(size)?;
            (salts, words) = (more, rest);
            Some(Held::Whole { salt, words: own })
        })
    }

    /// The record without the payload at `index`, as [`encode`] gives it.
    pub(super) fn without(&self, index: u32) -> Vec<u8> {
        let payloads = (0_u32..)
            .zip(self.payloads())
            .map(|(number, held)| match held {
                Held::Whole { salt, words } if number != index => {
                    Some(lent(salt, words).into_owned())
                }
                _ => None,
            });
        join(self.entry, &payloads.collect::<Vec<_>>())
    }
}

/// A payload, lent.
pub(super) fn lent<'a>(salt: &[u8; SALT_BYTES], words: &'a [u8]) -> PayloadRef<'a> {
    PayloadRef {
        salt: *salt,
        bytes: words.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Hash, Seq};
    use proptest::prelude::*;

    fn records() -> impl Strategy<Value = Record> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..40);
        let payload = bytes().prop_map(|bytes| Payload {
            salt: [7; 32],
            bytes,
        });
        let payloads = prop::collection::vec(prop::option::of(payload), 0..5);
        (bytes(), payloads).prop_map(|(entry, payloads)| Record {
            seq: Seq(1),
            hash: Hash([0; 32]),
            entry,
            payloads,
        })
    }

    /// Whether a record holds this at a place.
    fn holds(record: &Encoded<'_>, index: u32, payload: Option<&Payload>) -> bool {
        match record.payload(index) {
            None => false,
            Some(Held::Whole { salt, words }) => Some(&lent(salt, words).into_owned()) == payload,
            Some(Held::Destroyed) => payload.is_none(),
        }
    }

    proptest! {
        #[test]
        fn a_record_is_read_back_from_its_bytes(given in records(), gone in 0_u32..6) {
            let bytes = encode(&given);
            let read = Encoded::read(Parts::of(&bytes)).unwrap();
            let without = read.without(gone);
            let less = Encoded::read(Parts::of(&without)).unwrap();
            prop_assert_eq!(read.entry, &given.entry[..]);
            prop_assert_eq!(less.entry, &given.entry[..]);
            for (index, payload) in (0..).zip(&given.payloads) {
                prop_assert!(holds(&read, index, payload.as_ref()));
                prop_assert!(holds(&less, index, payload.as_ref().filter(|_| index != gone)));
            }
            prop_assert_eq!(read.payload(u32::try_from(given.payloads.len()).unwrap()), None);
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(0_u8..4, 0..60)) {
            if let Some(read) = Encoded::read(Parts::of(&bytes)) {
                let _ = (read.payload(0), read.without(1));
            }
        }
    }
}
