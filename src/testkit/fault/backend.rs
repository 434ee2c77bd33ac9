//! The verbs of a store that fails on purpose.

use std::ops::ControlFlow;

use super::medium::Write;
use super::{FaultStore, Verb};
use crate::log::{ConversationId, Hash, Head, Seq};
use crate::store::{Backend, Batch, Level, Listed, MemoryStore, Name, Payload, StoreError};

impl FaultStore {
    fn read(&self, verb: Verb) -> Result<MemoryStore, StoreError> {
        self.medium().read(self.life, verb)
    }

    fn write<T>(
        &self,
        verb: Verb,
        write: Write,
        level: Level,
        apply: impl FnOnce(&MemoryStore, &Write) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.medium().write(self.life, (verb, write, level), apply)
    }
}

impl Backend for FaultStore {
    fn append(&self, batch: Batch, level: Level) -> Result<(), StoreError> {
        let apply = |view: &MemoryStore, write: &Write| match write {
            Write::Batch(batch) => view.append(batch.clone(), level),
            _ => Ok(()),
        };
        self.write(Verb::Append, Write::Batch(batch), level, apply)
    }

    fn head(&self, conversation: ConversationId) -> Result<Option<Head>, StoreError> {
        self.read(Verb::Head)?.head(conversation)
    }

    fn first(&self, conversation: ConversationId) -> Result<Option<Seq>, StoreError> {
        self.read(Verb::Head)?.first(conversation)
    }

    fn durable_head(&self, conversation: ConversationId) -> Result<Option<Head>, StoreError> {
        let mut medium = self.medium();
        medium.read(self.life, Verb::DurableHead)?;
        medium.durable_head(conversation)
    }

    fn entries(
        &self,
        conversation: ConversationId,
        from: Seq,
        to: Seq,
        show: &mut dyn FnMut(Seq, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        // The medium is not held while entries are shown: the caller may use the store.
        self.read(Verb::Entries)?
            .entries(conversation, from, to, show)
    }

    fn payload(
        &self,
        conversation: ConversationId,
        seq: Seq,
        index: u32,
    ) -> Result<Option<Payload>, StoreError> {
        self.read(Verb::Payload)?.payload(conversation, seq, index)
    }

    fn destroy_payload(
        &self,
        conversation: ConversationId,
        seq: Seq,
        index: u32,
        level: Level,
    ) -> Result<(), StoreError> {
        let write = Write::Destroy(conversation, seq, index);
        self.write(Verb::DestroyPayload, write, level, |view, _| {
            view.destroy_payload(conversation, seq, index, level)
        })
    }

    fn list(&self, prefix: &[String]) -> Result<Vec<Listed>, StoreError> {
        self.read(Verb::List)?.list(prefix)
    }

    fn find(&self, name: &Name) -> Result<Option<ConversationId>, StoreError> {
        self.read(Verb::Find)?.find(name)
    }

    fn put_blob(
        &self,
        lineage: ConversationId,
        address: Hash,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        let write = Write::Blob(lineage, address, bytes.to_vec());
        self.write(Verb::PutBlob, write, Level::Buffered, |view, _| {
            view.put_blob(lineage, address, bytes)
        })
    }

    fn blob(&self, lineage: ConversationId, address: Hash) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(Verb::Blob)?.blob(lineage, address)
    }

    fn sweep_blobs(
        &self,
        lineage: ConversationId,
        keep: &dyn Fn(&Hash) -> bool,
    ) -> Result<u64, StoreError> {
        let mut medium = self.medium();
        let gone = medium.swept(lineage, keep);
        let write = Write::Swept(lineage, gone);
        let call = (Verb::SweepBlobs, write, Level::Buffered);
        medium.write(self.life, call, |view, _| view.sweep_blobs(lineage, keep))
    }

    fn put_derived(
        &self,
        conversation: ConversationId,
        name: &str,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        let write = Write::Derived(conversation, name.to_owned(), bytes.to_vec());
        self.write(Verb::PutDerived, write, Level::Buffered, |view, _| {
            view.put_derived(conversation, name, bytes)
        })
    }

    fn derived(
        &self,
        conversation: ConversationId,
        name: &str,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(Verb::Derived)?.derived(conversation, name)
    }

    fn derived_before(
        &self,
        conversation: ConversationId,
        prefix: &str,
        name: &str,
    ) -> Result<Option<(String, Vec<u8>)>, StoreError> {
        self.read(Verb::DerivedBefore)?
            .derived_before(conversation, prefix, name)
    }

    fn sync(&self, level: Level) -> Result<(), StoreError> {
        self.medium().sync(self.life, level)
    }

    fn check(&self, conversation: Option<ConversationId>) -> Result<Vec<StoreError>, StoreError> {
        self.read(Verb::Check)?.check(conversation)
    }
}
