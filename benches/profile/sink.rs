//! A store that keeps heads alone: what is measured on it is the caller's side of a request.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard};

use ctxlog::log::{ConversationId, Hash, Head, Seq};
use ctxlog::store::{Backend, Batch, Level, Listed, Name, Payload, StoreError};

#[derive(Debug, Default)]
pub struct Sink {
    heads: Mutex<BTreeMap<ConversationId, Head>>,
}

impl Sink {
    fn heads(&self) -> MutexGuard<'_, BTreeMap<ConversationId, Head>> {
        self.heads.lock().expect("nobody panics with it")
    }
}

impl Backend for Sink {
    fn append(&self, batch: Batch, _: Level) -> Result<(), StoreError> {
        let last = batch.records.last().expect("a batch has records");
        let (seq, hash) = (last.seq, last.hash);
        let before = self.heads().insert(batch.conversation, Head { seq, hash });
        assert_eq!(before, batch.expected, "the head is another");
        Ok(())
    }

    fn head(&self, conversation: ConversationId) -> Result<Option<Head>, StoreError> {
        Ok(self.heads().get(&conversation).copied())
    }

    fn first(&self, conversation: ConversationId) -> Result<Option<Seq>, StoreError> {
        Ok(self.head(conversation)?.map(|_| Seq(0)))
    }

    fn durable_head(&self, conversation: ConversationId) -> Result<Option<Head>, StoreError> {
        self.head(conversation)
    }

    fn entries(
        &self,
        _: ConversationId,
        _: Seq,
        _: Seq,
        _: &mut dyn FnMut(Seq, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        Ok(())
    }

    fn payload(&self, _: ConversationId, _: Seq, _: u32) -> Result<Option<Payload>, StoreError> {
        Ok(None)
    }

    fn destroy_payload(
        &self,
        _: ConversationId,
        _: Seq,
        _: u32,
        _: Level,
    ) -> Result<(), StoreError> {
        Ok(())
    }

    fn list(&self, _: &[String]) -> Result<Vec<Listed>, StoreError> {
        Ok(Vec::new())
    }

    fn find(&self, _: &Name) -> Result<Option<ConversationId>, StoreError> {
        Ok(None)
    }

    fn put_blob(&self, _: ConversationId, _: Hash, _: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }

    fn blob(&self, _: ConversationId, _: Hash) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(None)
    }

    fn sweep_blobs(&self, _: ConversationId, _: &dyn Fn(&Hash) -> bool) -> Result<u64, StoreError> {
        Ok(0)
    }

    fn put_derived(&self, _: ConversationId, _: &str, _: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }

    fn derived(&self, _: ConversationId, _: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(None)
    }

    fn derived_before(
        &self,
        _: ConversationId,
        _: &str,
        _: &str,
    ) -> Result<Option<(String, Vec<u8>)>, StoreError> {
        Ok(None)
    }

    fn sync(&self, _: Level) -> Result<(), StoreError> {
        Ok(())
    }

    fn check(&self, _: Option<ConversationId>) -> Result<Vec<StoreError>, StoreError> {
        Ok(Vec::new())
    }
}
