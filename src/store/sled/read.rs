//! Reading: what is under the keys, put together and checked.

use std::ops::{ControlFlow, RangeInclusive};
use std::sync::Arc;

use super::block::Block;
use super::blocks::Want;
use super::engine::{ContentError, Flaw, damaged};
use super::record::{self, Encoded, Held, Parts};
use super::tail::place;
use super::{SledStore, check, frame, keys, tally};
use crate::log::{ConversationId, Seq};
use crate::store::{Listed, Payload, PayloadRef, ShowRecord, StoreError};

impl SledStore {
    pub(super) fn read_entries(
        &self,
        conversation: ConversationId,
        from: Seq,
        to: Seq,
        show: &mut dyn FnMut(Seq, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let Some(span) = self.shared().span(conversation)? else {
            return Ok(());
        };
        let to = to.min(span.head.seq);
        if from < span.first || from > to {
            return Ok(());
        }
        let (mut next, mut in_block) = (from, false);
        while next <= to {
            // Most often one block follows another.
            let following = if in_block {
                self.following(conversation, next)?
            } else {
                None
            };
            let found = match following {
                Some(block) => Some(Found::Packed(block)),
                None => self.find_record(conversation, next, Want::Heads)?,
            };
            let missing = || place(conversation, Some(next), "the entry is missing".into());
            let found = found.ok_or_else(missing)?;
            in_block = matches!(found, Found::Packed(_));
            match show_from(&found, Want::Heads, next..=to, &mut |seq, record| {
                show(seq, record.entry)
            }) {
                Shown::All(behind) if behind > next => next = behind,
                Shown::All(_) => return Err(missing()),
                Shown::Told => return Ok(()),
                Shown::Flawed(seq) => {
                    return Err(place(conversation, Some(seq), CONTRADICTION.into()));
                }
            }
        }
        Ok(())
    }

    /// As [`Self::read_entries`], with payloads, and past the blocks that are kept: whoever reads a
    /// whole log needs no block twice.
    pub(super) fn read_records(
        &self,
        conversation: ConversationId,
        from: Seq,
        to: Seq,
        show: ShowRecord<'_>,
    ) -> Result<(), StoreError> {
        self.settle()?; // so that no block of it comes while it is read
        let Some(span) = self.shared().span(conversation)? else {
            return Ok(());
        };
        let to = to.min(span.head.seq);
        if from < span.first || from > to {
            return Ok(());
        }
        let mut packed = self
            .shared()
            .blocks
            .from(self.engine(), conversation, from)?;
        let mut next = from;
        while next <= to {
            let missing = || place(conversation, Some(next), "the entry is missing".into());
            let found = match packed.beginning(next)? {
                Some(block) => Found::Packed(block),
                None => {
                    let found = self.find_record(conversation, next, Want::Words)?;
                    found.ok_or_else(missing)?
                }
            };
            let shown = show_from(&found, Want::Words, next..=to, &mut |seq, record| {
                show(seq, record.entry, &|index| Ok(payload_of(record, index)))
            });
            if let Found::Packed(block) = found {
                packed.done_with(block);
            }
            match shown {
                Shown::All(behind) if behind > next => next = behind,
                Shown::All(_) => return Err(missing()),
                Shown::Told => return Ok(()),
                Shown::Flawed(seq) => {
                    return Err(place(conversation, Some(seq), CONTRADICTION.into()));
                }
            }
        }
        Ok(())
    }

    /// The heads of the block that begins with an entry.
    fn following(
        &self,
        conversation: ConversationId,
        first: Seq,
    ) -> Result<Option<Arc<Block>>, StoreError> {
        let blocks = &self.shared().blocks;
        match blocks.kept_holding(conversation, first, Want::Heads)? {
            None => blocks.beginning(self.engine(), conversation, first, Want::Heads),
            kept => Ok(kept),
        }
    }

    pub(super) fn read_payload(
        &self,
        conversation: ConversationId,
        seq: Seq,
        index: u32,
    ) -> Result<Option<Payload>, StoreError> {
        let Some(found) = self.find_record(conversation, seq, Want::Words)? else {
            return Ok(None);
        };
        let flawed = |flaw: Flaw| place(conversation, Some(seq), flaw.into());
        let record = found.record(seq, Want::Words);
        let record = record.unwrap_or(Err(CONTRADICTION)).map_err(flawed)?;
        let payload = payload_of(&record, index);
        Ok(payload.map(PayloadRef::into_owned))
    }

    /// The record of an entry, wherever it is: it is in the tree before it ceases to wait.
    fn find_record(
        &self,
        conversation: ConversationId,
        seq: Seq,
        want: Want,
    ) -> Result<Option<Found>, StoreError> {
        let shared = self.shared();
        if let Some(block) = shared.blocks.kept_holding(conversation, seq, want)? {
            return Ok(Some(Found::Packed(block)));
        }
        if let Some(record) = shared.queue().record(conversation, seq) {
            return Ok(Some(Found::Waiting(seq, record)));
        }
        let blocks = &shared.blocks;
        let block = blocks.holding(self.engine(), conversation, seq, want)?;
        Ok(block.map(Found::Packed))
    }

    pub(super) fn read_list(&self, prefix: &[String]) -> Result<Vec<Listed>, StoreError> {
        let prefix = keys::namespace(prefix);
        // Waiting before stored: a name leaves the one when it is in the other.
        let mut listed = self.shared().queue().born(&prefix);
        for found in self.engine().scan(&prefix, &keys::after(&prefix))? {
            let (key, value) = found?;
            let name = keys::read_name(&key)
                .ok_or_else(|| damaged("a name's key is not one that ctxlog writes".into()))?;
            let owner = frame::unseal(&key, &value)
                .and_then(keys::array)
                .map(ConversationId);
            let broken = || damaged(format!("the record of the name '{}' is damaged", name.name));
            let conversation = owner.ok_or_else(broken)?;
            listed.push(Listed { name, conversation });
        }
        listed.sort();
        listed.dedup();
        Ok(listed)
    }

    pub(super) fn read_derived(
        &self,
        conversation: ConversationId,
        name: &str,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let key = keys::derived(conversation, name);
        if let Some(bytes) = self.shared().queue().derived.get(&key) {
            return Ok(Some(bytes.to_vec()));
        }
        match self.engine().content(&key) {
            Ok(found) => Ok(found),
            // It may vanish at any time, and can be made again; `check` still reports it.
            Err(ContentError::Flawed(_)) => Ok(None),
            Err(ContentError::Store(error)) => Err(error),
        }
    }

    pub(super) fn read_derived_before(
        &self,
        conversation: ConversationId,
        prefix: &str,
        name: &str,
    ) -> Result<Option<(String, Vec<u8>)>, StoreError> {
        let from = keys::derived_of(conversation, prefix, name.len());
        let to = keys::after(&keys::derived(conversation, name));
        if from >= to {
            return Ok(None);
        }
        // What waits is newer than what is in the tree, and moves from the one to the other.
        let waiting = self
            .shared()
            .queue()
            .derived
            .range(from.clone()..to.clone())
            .next_back()
            .map(|(key, bytes)| (key.clone(), bytes.to_vec()));
        for found in self.engine().scan(&from, &to)?.backwards() {
            let (key, _) = found?;
            if waiting
                .as_ref()
                .is_some_and(|(newest, _)| newest[..] >= key[..])
            {
                break;
            }
            let Some((base, 0)) = keys::content(&key) else {
                continue; // read with the first chunk
            };
            let Some(name) = keys::derived_name(base) else {
                continue;
            };
            if let Some(bytes) = self.read_derived(conversation, name)? {
                return Ok(Some((name.to_owned(), bytes)));
            }
        }
        let named =
            |(key, bytes): (Vec<u8>, _)| Some((keys::derived_name(&key)?.to_owned(), bytes));
        Ok(waiting.and_then(named))
    }

    /// Has everything that was accepted in the tree, where it is written to.
    fn settle(&self) -> Result<(), StoreError> {
        if self.inner.salvage.is_some() || self.shared().poisoned().is_some() {
            return Ok(());
        }
        self.shared().settle()
    }

    pub(super) fn read_check_beside(&self, listed: &Listed) -> Result<Vec<StoreError>, StoreError> {
        let mut found = check::check_beside(self.engine(), self.shared().gate_of(), listed);
        found.extend(self.shared().media.strays(listed.conversation)?);
        Ok(found)
    }

    pub(super) fn read_check(
        &self,
        conversation: Option<ConversationId>,
    ) -> Result<Vec<StoreError>, StoreError> {
        self.settle()?; // so that it is all there to be looked at
        let mut found = check::check(self.engine(), self.shared().gate_of(), conversation);
        found.extend(self.shared().media.check(conversation)?);
        if conversation.is_none() {
            let synced = self.inner.directory.synced()?.map(|synced| synced.tally);
            let _gate = self.shared().gate();
            found.extend(tally::verify(self.engine(), synced).err());
            if self.inner.salvage.as_ref().is_some_and(|s| s.passed_over) {
                let what = "damaged parts of sled's file were passed over: what they held is \
                            missing, or as it was before";
                found.push(damaged(what.into()));
            }
            let journal = self.inner.salvage.as_ref().and_then(|s| s.journal.clone());
            found.extend(journal.map(damaged));
        }
        Ok(found)
    }
}

/// What came of showing the entries that were found in one place.
enum Shown {
    /// All of them were; this one is next.
    All(Seq),
    /// The last one, or it was told to stop.
    Told,
    /// This one cannot be read.
    Flawed(Seq),
}

fn show_from(
    found: &Found,
    want: Want,
    wanted: RangeInclusive<Seq>,
    show: &mut dyn FnMut(Seq, &Encoded<'_>) -> ControlFlow<()>,
) -> Shown {
    let (mut next, last) = wanted.into_inner();
    while let Some(record) = found.record(next, want) {
        let Ok(record) = record else {
            return Shown::Flawed(next);
        };
        if show(next, &record).is_break() || next >= last {
            return Shown::Told;
        }
        next = next.next();
    }
    Shown::All(next)
}

fn payload_of<'a>(record: &Encoded<'a>, index: u32) -> Option<PayloadRef<'a>> {
    match record.payload(index)? {
        Held::Destroyed => None,
        Held::Whole { salt, words } => Some(record::lent(salt, words)),
    }
}

const CONTRADICTION: &str = "the entry's lengths contradict each other";

/// Where a record was found.
enum Found {
    Waiting(Seq, Arc<Vec<u8>>),
    Packed(Arc<Block>),
}

impl Found {
    /// The record of an entry, where it is here as well, or that its lengths contradict each other. Who
    /// wants heads gets no payloads.
    fn record(&self, seq: Seq, want: Want) -> Option<Result<Encoded<'_>, Flaw>> {
        let read = match (self, want) {
            (Self::Waiting(own, _), _) if *own != seq => return None,
            (Self::Waiting(_, record), _) => Encoded::read(Parts::of(record)),
            (Self::Packed(block), Want::Heads) => {
                let (head, words_size) = block.head(seq)?;
                Encoded::read_head(head, words_size)
            }
            (Self::Packed(block), Want::Words) => Encoded::read(block.record(seq)?),
        };
        Some(read.ok_or(CONTRADICTION))
    }
}
