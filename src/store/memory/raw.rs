//! The bytes behind a store in memory, for the test kit: what a medium may do to them without
//! being asked by a verb.

use super::{Batch, ConversationId, Entries, Hash, Log, MemoryStore, Seq, limits};

/// A stored thing that can be damaged.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Place {
    /// An entry's bytes.
    Entry(ConversationId, Seq),
    /// A payload's bytes.
    Payload(ConversationId, Seq, u32),
    /// A blob's bytes.
    Blob(ConversationId, Hash),
}

/// Which places are looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stored {
    Entries,
    Payloads,
    Blobs,
}

impl MemoryStore {
    /// Another store that holds the same now.
    pub(crate) fn copy(&self) -> Self {
        let state = self.state().clone();
        let copy = Self::new();
        *copy.state() = state;
        copy
    }

    /// Puts a batch where it belongs, whatever is there, its name and head record included. Without
    /// `back`, a head record that is newer stays.
    pub(crate) fn place(&self, batch: Batch, back: bool) {
        let Ok((_, newest)) = limits::validate(&batch) else {
            return;
        };
        let mut state = self.state();
        if let Some(name) = batch.birth {
            state.names.insert(name, batch.conversation);
        }
        let log = state.logs.entry(batch.conversation).or_insert_with(|| Log {
            head: newest,
            entries: Entries::default(),
        });
        if back || newest.seq > log.head.seq {
            log.head = newest;
        }
        let records = batch.records.into_iter();
        records.for_each(|record| log.entries.put(record));
    }

    /// Every stored thing of a kind that holds bytes, in order.
    pub(crate) fn stored(&self, kind: Stored) -> Vec<Place> {
        let state = self.state();
        if kind == Stored::Blobs {
            let filled = state.blobs.iter().filter(|(_, bytes)| !bytes.is_empty());
            return filled.map(|((id, at), _)| Place::Blob(*id, *at)).collect();
        }
        let logs = state.logs.iter();
        let entries = logs.flat_map(|(id, log)| log.entries.iter().map(move |e| (*id, e)));
        if kind == Stored::Entries {
            return entries
                .map(|(id, (seq, _))| Place::Entry(id, seq))
                .collect();
        }
        let payloads = entries.flat_map(|(id, (seq, entry))| {
            let all = (0_u32..).zip(&entry.payloads);
            let held = all.filter(|(_, p)| p.as_ref().is_some_and(|p| !p.bytes.is_empty()));
            held.map(move |(index, _)| Place::Payload(id, seq, index))
        });
        payloads.collect()
    }

    /// Changes the bytes at a place; says whether there were any.
    pub(crate) fn alter(&self, place: Place, change: &mut dyn FnMut(&mut Vec<u8>)) -> bool {
        let mut state = self.state();
        match place {
            Place::Entry(id, seq) => {
                let log = state.logs.get_mut(&id);
                let Some(entry) = log.and_then(|log| log.entries.get_mut(seq)) else {
                    return false;
                };
                let mut bytes = entry.bytes.to_vec();
                change(&mut bytes);
                entry.bytes = bytes.into();
                true
            }
            Place::Payload(id, seq, index) => match state.payload((id, seq, index)) {
                Some(Some(payload)) => {
                    change(&mut payload.bytes);
                    true
                }
                _ => false,
            },
            Place::Blob(id, address) => match state.blobs.get_mut(&(id, address)) {
                Some(bytes) => {
                    change(bytes);
                    true
                }
                None => false,
            },
        }
    }
}
