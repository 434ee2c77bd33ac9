//! One entry with its payloads, as bytes that are stored and packed together.
//!
//! Entry length, number of payloads, the size of each payload with its salt (0: destroyed), then
//! the entry, then the payloads one behind the other.

use super::frame::length;
use super::keys;
use crate::store::{Payload, PayloadRef, Record};

const NUMBER_BYTES: usize = 4;

/// The bytes of a record.
pub(super) fn encode(record: &Record) -> Vec<u8> {
    let payloads = || record.payloads.iter().map(Option::as_ref);
    let sizes = payloads().map(|payload| payload.map_or(0, size));
    let words = sizes.fold(0_usize, usize::saturating_add);
    let table = record.payloads.len().saturating_add(2);
    let table = table.saturating_mul(NUMBER_BYTES);
    let whole = table.saturating_add(record.entry.len());
    let mut bytes = Vec::with_capacity(whole.saturating_add(words));
    bytes.extend(length(record.entry.len()).to_be_bytes());
    bytes.extend(length(record.payloads.len()).to_be_bytes());
    for payload in payloads() {
        bytes.extend(length(payload.map_or(0, size)).to_be_bytes());
    }
    bytes.extend(&record.entry);
    for payload in payloads().flatten() {
        bytes.extend(payload.salt);
        bytes.extend(&payload.bytes);
    }
    bytes
}

fn size(payload: &Payload) -> usize {
    payload.bytes.len().saturating_add(payload.salt.len())
}

/// A record's bytes, taken apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Encoded<'a> {
    /// The entry as stored.
    pub(super) entry: &'a [u8],
    /// Per payload its size with the salt.
    table: &'a [u8],
    /// The payloads, one behind the other.
    payloads: &'a [u8],
}

/// What an entry has of a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Held<'a> {
    /// Salt and bytes.
    Whole(&'a [u8]),
    /// Nothing any more: salt and bytes were destroyed.
    Destroyed,
}

impl<'a> Encoded<'a> {
    /// Takes a record apart; `None` where its lengths contradict each other.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let (entry, rest) = bytes.split_first_chunk::<NUMBER_BYTES>()?;
        let (count, rest) = rest.split_first_chunk::<NUMBER_BYTES>()?;
        let count = usize::try_from(u32::from_be_bytes(*count)).ok()?;
        let (table, rest) = rest.split_at_checked(count.checked_mul(NUMBER_BYTES)?)?;
        let entry = usize::try_from(u32::from_be_bytes(*entry)).ok()?;
        let (entry, payloads) = rest.split_at_checked(entry)?;
        let record = Self {
            entry,
            table,
            payloads,
        };
        let used = record.sizes().try_fold(0_usize, usize::checked_add)?;
        (used == payloads.len()).then_some(record)
    }

    fn sizes(&self) -> impl Iterator<Item = usize> + use<'a> {
        let rows = self.table.chunks(NUMBER_BYTES);
        rows.filter_map(|row| usize::try_from(u32::from_be_bytes(keys::array(row)?)).ok())
    }

    /// A payload; `None` where the entry has none at this place.
    pub(super) fn payload(&self, index: u32) -> Option<Held<'a>> {
        let index = usize::try_from(index).ok()?;
        let size = self.sizes().nth(index)?;
        let start = self.sizes().take(index).fold(0, usize::saturating_add);
        match size {
            0 => Some(Held::Destroyed),
            size => self
                .payloads
                .get(start..start.saturating_add(size))
                .map(Held::Whole),
        }
    }

    /// The bytes of this record without the payload at `index`.
    pub(super) fn without(&self, index: u32) -> Vec<u8> {
        let mut bytes = length(self.entry.len()).to_be_bytes().to_vec();
        bytes.extend(length(self.sizes().count()).to_be_bytes());
        let kept = |number: u32| match self.payload(number) {
            Some(Held::Whole(payload)) if number != index => payload,
            _ => &[],
        };
        let all = || (0_u32..).zip(self.sizes()).map(|(number, _)| kept(number));
        all().for_each(|payload| bytes.extend(length(payload.len()).to_be_bytes()));
        bytes.extend(self.entry);
        all().for_each(|payload| bytes.extend(payload));
        bytes
    }
}

/// Salt and bytes apart again.
pub(super) fn read_payload(salted: &[u8]) -> Option<PayloadRef<'_>> {
    let (salt, bytes) = salted.split_first_chunk::<32>()?;
    Some(PayloadRef {
        salt: *salt,
        bytes: bytes.into(),
    })
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
            Some(Held::Whole(salted)) => {
                read_payload(salted).map(PayloadRef::into_owned).as_ref() == payload
            }
            Some(Held::Destroyed) => payload.is_none(),
        }
    }

    proptest! {
        #[test]
        fn a_record_is_read_back_from_its_bytes(given in records(), gone in 0_u32..6) {
            let bytes = encode(&given);
            let read = Encoded::read(&bytes).unwrap();
            let without = read.without(gone);
            let less = Encoded::read(&without).unwrap();
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
            if let Some(read) = Encoded::read(&bytes) {
                let _ = (read.payload(0), read.without(1));
            }
        }
    }
}
