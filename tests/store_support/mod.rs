//! Batches, records and a reader for the tests of stores.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod directory;

use std::ops::ControlFlow;

use ctxlog::log::{ConversationId, Hash, Head, Seq};
use ctxlog::store::{Backend, Batch, Level, Name, Payload, PayloadRef, Record, StoreError};

pub fn id(number: u16) -> ConversationId {
    let mut bytes = [7; 16];
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    ConversationId(bytes)
}

pub fn name(namespace: &[&str], name: &str) -> Name {
    Name {
        namespace: namespace.iter().map(|s| (*s).to_owned()).collect(),
        name: name.to_owned(),
    }
}

/// An entry that can be verified without the log layer: it ends with a crc32c of the rest.
pub fn entry(seq: u64, size: usize, salt: u8) -> Vec<u8> {
    let mut bytes = seq.to_le_bytes().to_vec();
    bytes.extend((0..size).map(|i| (i as u8).wrapping_mul(31) ^ salt ^ (seq as u8)));
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

pub fn entry_is_whole(bytes: &[u8]) -> bool {
    let (body, crc) = bytes.split_at(bytes.len() - 4);
    crc32c::crc32c(body).to_le_bytes() == crc
}

pub fn payload(size: usize, salt: u8) -> Payload {
    Payload {
        salt: [salt; 32],
        bytes: (0..size)
            .map(|i| (i as u8) ^ salt ^ (i >> 8) as u8)
            .collect(),
    }
}

/// A payload that no compression makes smaller.
pub fn noise(size: usize, salt: u8) -> Payload {
    let mut bytes = vec![0; size];
    let mut source = blake3::Hasher::new().update(&[salt]).finalize_xof();
    source.fill(&mut bytes);
    Payload {
        salt: [salt; 32],
        bytes,
    }
}

/// A record whose entry has 100 bytes and whose payloads have the given sizes.
pub fn record(seq: u64, payloads: &[usize]) -> Record {
    let entry = entry(seq, 100, payloads.len() as u8);
    let hash = Hash(*blake3::hash(&entry).as_bytes());
    let payloads = payloads
        .iter()
        .map(|size| Some(payload(*size, seq as u8)))
        .collect();
    Record {
        seq: Seq(seq),
        hash,
        entry,
        payloads,
    }
}

pub fn head_of(record: &Record) -> Head {
    Head {
        seq: record.seq,
        hash: record.hash,
    }
}

pub fn birth(conversation: ConversationId, name: Name, records: Vec<Record>) -> Batch {
    Batch {
        conversation,
        expected: None,
        birth: Some(name),
        records,
    }
}

pub fn next(conversation: ConversationId, expected: Head, records: Vec<Record>) -> Batch {
    Batch {
        conversation,
        expected: Some(expected),
        birth: None,
        records,
    }
}

/// A conversation named `c<number>` in the namespace `t`, with `entries` small records.
pub fn conversation(store: &dyn Backend, number: u16, entries: u64) -> ConversationId {
    let records = (0..entries).map(|seq| record(seq, &[50])).collect();
    let name = name(&["t"], &format!("c{number}"));
    store
        .append(birth(id(number), name, records), Level::Synced)
        .unwrap();
    id(number)
}

/// The entries that a store shows.
pub fn read(
    store: &dyn Backend,
    conversation: ConversationId,
    from: u64,
    to: u64,
) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
    let mut shown = Vec::new();
    store.entries(conversation, Seq(from), Seq(to), &mut |seq, bytes| {
        shown.push((seq.0, bytes.to_vec()));
        ControlFlow::Continue(())
    })?;
    Ok(shown)
}

/// An entry's number and bytes, and its first payload.
pub type Whole = (u64, Vec<u8>, Option<Payload>);

/// The entries that a store shows with their first payloads.
pub fn read_records(
    store: &dyn Backend,
    conversation: ConversationId,
    from: u64,
    to: u64,
) -> Result<Vec<Whole>, StoreError> {
    let (mut shown, mut failed) = (Vec::new(), None);
    store.records(
        conversation,
        Seq(from),
        Seq(to),
        &mut |seq, bytes, payload| {
            match payload(0) {
                Ok(words) => shown.push((seq.0, bytes.to_vec(), words.map(PayloadRef::into_owned))),
                Err(error) => failed = Some(error),
            }
            ControlFlow::Continue(())
        },
    )?;
    failed.map_or(Ok(shown), Err)
}
