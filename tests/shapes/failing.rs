//! A store in memory whose writes fail while it is told so.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use ctxlog::log::{ConversationId, Hash, Head, Seq};
use ctxlog::store::{Backend, Batch, Level, Listed, MemoryStore, Name, Payload, StoreError};

#[derive(Debug, Default)]
pub struct Failing {
    store: MemoryStore,
    fails: AtomicBool,
}

impl Failing {
    /// Whether appends fail from here on.
    pub fn fail(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }

    fn allowed(&self) -> Result<(), StoreError> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(StoreError::Io {
                what: "writing".to_owned(),
                source: std::io::Error::other("the disk is gone"),
            });
        }
        Ok(())
    }
}

impl Backend for Failing {
    fn append(&self, batch: Batch, level: Level) -> Result<(), StoreError> {
        self.allowed()?;
        self.store.append(batch, level)
    }

    fn head(&self, of: ConversationId) -> Result<Option<Head>, StoreError> {
        self.store.head(of)
    }

    fn first(&self, of: ConversationId) -> Result<Option<Seq>, StoreError> {
        self.store.first(of)
    }

    fn durable_head(&self, of: ConversationId) -> Result<Option<Head>, StoreError> {
        self.store.durable_head(of)
    }

    fn entries(
        &self,
        of: ConversationId,
        from: Seq,
        to: Seq,
        show: &mut dyn FnMut(Seq, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.store.entries(of, from, to, show)
    }

    fn payload(
        &self,
        of: ConversationId,
        seq: Seq,
        index: u32,
    ) -> Result<Option<Payload>, StoreError> {
        self.store.payload(of, seq, index)
    }

    fn destroy_payload(
        &self,
        of: ConversationId,
        seq: Seq,
        index: u32,
        level: Level,
    ) -> Result<(), StoreError> {
        self.allowed()?;
        self.store.destroy_payload(of, seq, index, level)
    }

    fn list(&self, prefix: &[String]) -> Result<Vec<Listed>, StoreError> {
        self.store.list(prefix)
    }

    fn find(&self, name: &Name) -> Result<Option<ConversationId>, StoreError> {
        self.store.find(name)
    }

    fn put_blob(&self, of: ConversationId, at: Hash, bytes: &[u8]) -> Result<(), StoreError> {
        self.allowed()?;
        self.store.put_blob(of, at, bytes)
    }

    fn blob(&self, of: ConversationId, at: Hash) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.blob(of, at)
    }

    fn sweep_blobs(
        &self,
        of: ConversationId,
        keep: &dyn Fn(&Hash) -> bool,
    ) -> Result<u64, StoreError> {
        self.allowed()?;
        self.store.sweep_blobs(of, keep)
    }

    fn put_derived(&self, of: ConversationId, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.allowed()?;
        self.store.put_derived(of, name, bytes)
    }

    fn derived(&self, of: ConversationId, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.derived(of, name)
    }

    fn derived_before(
        &self,
        of: ConversationId,
        prefix: &str,
        name: &str,
    ) -> Result<Option<(String, Vec<u8>)>, StoreError> {
        self.store.derived_before(of, prefix, name)
    }

    fn sync(&self, level: Level) -> Result<(), StoreError> {
        self.allowed()?;
        self.store.sync(level)
    }

    fn check(&self, of: Option<ConversationId>) -> Result<Vec<StoreError>, StoreError> {
        self.store.check(of)
    }
}
