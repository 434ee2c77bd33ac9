//! Reading: what is under the keys, put together and checked.

use std::ops::ControlFlow;

use super::engine::{ContentError, damaged};
use super::frame::{self, First, Frame, Place};
use super::writer::{self, place};
use super::{SledStore, at, check, keys, tally};
use crate::log::{ConversationId, Seq};
use crate::store::{Listed, Payload, StoreError};

impl SledStore {
    pub(super) fn read_entries(
        &self,
        conversation: ConversationId,
        from: Seq,
        to: Seq,
        show: &mut dyn FnMut(Seq, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let Some(span) = writer::read_span(self.engine(), conversation)? else {
            return Ok(());
        };
        let to = to.min(span.head.seq);
        if from < span.first || from > to {
            return Ok(());
        }
        let missing = |seq| place(conversation, Some(seq), "the entry is missing".into());
        let end = keys::after(&keys::entry(conversation, to));
        let mut next = from;
        for found in self.engine().scan(&keys::entry(conversation, from), &end)? {
            let broken = |e| {
                at(
                    conversation,
                    Some(next),
                    "the entry",
                    ContentError::Store(e),
                )
            };
            let (key, value) = found.map_err(broken)?;
            match keys::content(&key) {
                Some((_, 0)) if keys::seq(&key) == Some(next) => {}
                Some((_, 1..)) => continue, // read with the first chunk
                _ => return Err(missing(next)),
            }
            if self
                .show(conversation, next, &key, &value, show)?
                .is_break()
            {
                return Ok(());
            }
            next = next.next();
        }
        if next <= to {
            Err(missing(next))
        } else {
            Ok(())
        }
    }

    pub(super) fn read_payload(
        &self,
        conversation: ConversationId,
        seq: Seq,
        index: u32,
    ) -> Result<Option<Payload>, StoreError> {
        let flawed = |flaw| {
            at(
                conversation,
                Some(seq),
                "the payload",
                ContentError::Flawed(flaw),
            )
        };
        loop {
            let Some(content) = self.frame(conversation, seq)? else {
                return Ok(None);
            };
            let frame = Frame::read(&content).ok_or_else(|| flawed("its entry is damaged"))?;
            let salted = match frame.payload(index) {
                None | Some((Place::Destroyed, ..)) => return Ok(None),
                Some((Place::Inline, _, bytes)) => bytes.to_vec(),
                Some((Place::Apart, size, _)) => {
                    match self
                        .engine()
                        .content(&keys::payload(conversation, seq, index))
                    {
                        Ok(Some(bytes)) if bytes.len() == size => bytes,
                        Err(ContentError::Store(error)) => return Err(error),
                        // Destroyed while it was read, unless the entry still says it is there.
                        _ if self.frame(conversation, seq)?.as_ref() != Some(&content) => continue,
                        _ => return Err(flawed("it is missing or its checksum does not match")),
                    }
                }
            };
            return frame::read_payload(&salted)
                .map(Some)
                .ok_or_else(|| flawed("it is cut short"));
        }
    }

    pub(super) fn read_list(&self, prefix: &[String]) -> Result<Vec<Listed>, StoreError> {
        let prefix = keys::namespace(prefix);
        let mut listed = Vec::new();
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
        Ok(listed)
    }

    pub(super) fn read_derived(
        &self,
        conversation: ConversationId,
        name: &str,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        match self.engine().content(&keys::derived(conversation, name)) {
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
        for found in self.engine().scan(&from, &to)?.backwards() {
            let (key, _) = found?;
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
        Ok(None)
    }

    pub(super) fn read_check(
        &self,
        conversation: Option<ConversationId>,
    ) -> Result<Vec<StoreError>, StoreError> {
        let mut found = check::check(self.engine(), &self.inner.shared, conversation);
        if conversation.is_none() {
            let synced = self.inner.directory.synced()?;
            let _gate = self.inner.shared.gate();
            found.extend(tally::verify(self.engine(), synced).err());
            if self.inner.salvage.as_ref().is_some_and(|s| s.passed_over) {
                let what = "damaged parts of sled's file were passed over: what they held is \
                            missing, or as it was before";
                found.push(damaged(what.into()));
            }
        }
        Ok(found)
    }

    /// Shows one entry, given the first value of its content.
    fn show(
        &self,
        conversation: ConversationId,
        seq: Seq,
        key: &[u8],
        value: &[u8],
        show: &mut dyn FnMut(Seq, &[u8]) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, StoreError> {
        let flawed = |flaw| {
            at(
                conversation,
                Some(seq),
                "the entry",
                ContentError::Flawed(flaw),
            )
        };
        let whole;
        let content = match frame::read_first(key, value) {
            None => return Err(flawed("its checksum does not match")),
            Some(First::Whole(content)) => content,
            Some(First::Chunked { .. }) => {
                let found = self.frame(conversation, seq)?;
                whole = found.ok_or_else(|| flawed("it is missing"))?;
                &whole
            }
        };
        let frame = Frame::read(content).ok_or_else(|| flawed("its lengths contradict"))?;
        Ok(show(seq, frame.entry))
    }
}
