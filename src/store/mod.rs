//! Where logs live. The only layer that touches a disk.
//!
//! One trait with few verbs, shaped so that an embedded directory and a replicated log both fit.
//! A store moves bytes: it never decodes an entry's body, and it checks heads, not content.

mod limits;
mod memory;
mod sled;

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::path::PathBuf;

pub use self::limits::{
    BATCH_BYTES_MAX, BLOB_BYTES_MAX, DERIVED_BYTES_MAX, ENTRY_BYTES_MAX, NAME_BYTES_MAX,
    PAYLOAD_BYTES_MAX, PAYLOADS_MAX,
};
pub use self::memory::MemoryStore;
#[cfg(feature = "testkit")]
pub(crate) use self::memory::{Place, Stored};
pub use self::sled::{SledOptions, SledStore};

use crate::log::{ConversationId, Hash, Head, Seq};

/// How much an acknowledgement promises.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Level {
    /// Half a second of appends may be lost.
    Buffered,
    /// Survives a killed process.
    Flushed,
    /// Survives power loss.
    #[default]
    Synced,
}

/// The words of one content, with the salt its entry's commitment was computed with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Payload {
    /// Random; destroyed with the bytes.
    pub salt: [u8; 32],
    /// The encoded content.
    pub bytes: Vec<u8>,
}

/// One entry with the payloads it commits to, in the order in which its body lists them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The entry's number.
    pub seq: Seq,
    /// The entry's hash.
    pub hash: Hash,
    /// The entry as stored: envelope, body, checksum.
    pub entry: Vec<u8>,
    /// Its payloads; `None` for one that was destroyed before the entry came here.
    pub payloads: Vec<Option<Payload>>,
}

/// The typed path and the name a conversation is found by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Name {
    /// Tenant (never empty) and further segments.
    pub namespace: Vec<String>,
    /// The conversation's name within it.
    pub name: String,
}

/// Records that become part of a log together or not at all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    /// The log.
    pub conversation: ConversationId,
    /// The head the records continue; `None`: the conversation must not exist yet.
    pub expected: Option<Head>,
    /// The name to register, exactly where `expected` is `None`.
    pub birth: Option<Name>,
    /// At least one record, dense from the expected head.
    pub records: Vec<Record>,
}

/// A conversation as a listing shows it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Listed {
    /// Its name.
    pub name: Name,
    /// Its identity.
    pub conversation: ConversationId,
}

/// A failure of the machine, or a head that was not the expected one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The log's head is not the expected one. Nothing was written.
    #[error("the head is {}, not the expected one", .head.map_or_else(|| "absent".into(), |h| h.seq.to_string()))]
    Stale {
        /// The current head.
        head: Option<Head>,
    },
    /// A conversation of this name exists already. Nothing was written.
    #[error("a conversation named '{}' exists already", .name.name)]
    NameTaken {
        /// The name.
        name: Name,
        /// Who has it.
        conversation: ConversationId,
    },
    /// The store is open in another process (or in another handle of this one).
    #[error("the store at {} is open in another process", .path.display())]
    Busy {
        /// The store's directory.
        path: PathBuf,
    },
    /// The directory holds something else. It was left untouched.
    #[error("{} is not a ctxlog store: {reason}", .path.display())]
    NotAStore {
        /// The directory.
        path: PathBuf,
        /// What was found there.
        reason: String,
    },
    /// The directory was written by a newer ctxlog. It was left untouched.
    #[error("{} has store format {found}; this ctxlog reads up to {supported}", .path.display())]
    Newer {
        /// The directory.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The newest format known here.
        supported: u32,
    },
    /// The directory was written by an older ctxlog, in a format that is no longer read. It was left
    /// untouched.
    #[error(
        "{} has store format {found}; this ctxlog reads {supported}. Export its logs with the \
         ctxlog that wrote it (the last revision that reads format {found}) and import them into a \
         new store",
        .path.display()
    )]
    Older {
        /// The directory.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The format read here.
        supported: u32,
    },
    /// A batch contradicts itself. Nothing was written.
    #[error("the batch cannot be appended: {reason}")]
    Malformed {
        /// What is wrong with it.
        reason: String,
    },
    /// A record exceeds a limit. Nothing was written.
    #[error("{what} of {bytes} bytes exceeds the limit of {limit}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// Stored bytes are damaged. `seq` says where, if the place is known.
    #[error("damaged at {}: {reason}", .seq.map_or_else(|| "an unknown place".into(), |s| s.to_string()))]
    Damaged {
        /// The log.
        conversation: Option<ConversationId>,
        /// The entry.
        seq: Option<Seq>,
        /// What is wrong.
        reason: String,
    },
    /// The write may or may not have happened; the head decides it. The handle refuses further
    /// writes until the store is opened again.
    #[error("the outcome is unknown ({reason}); open the store again and compare its head")]
    Indeterminate {
        /// What failed.
        reason: String,
    },
    /// An earlier write failed; the handle refuses further writes until the store is opened again.
    #[error("an earlier write failed ({reason}); open the store again")]
    Poisoned {
        /// What failed then.
        reason: String,
    },
    /// The system refused.
    #[error("{what}: {source}")]
    Io {
        /// What was being done, and where.
        what: String,
        /// The system's words.
        source: std::io::Error,
    },
}

/// A payload, lent where a store has it at hand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PayloadRef<'a> {
    /// Its salt.
    pub salt: [u8; 32],
    /// The encoded content.
    pub bytes: Cow<'a, [u8]>,
}

impl PayloadRef<'_> {
    /// The payload, kept.
    #[must_use]
    pub fn into_owned(self) -> Payload {
        Payload {
            salt: self.salt,
            bytes: self.bytes.into_owned(),
        }
    }
}

/// The payload at an index of the entry that is shown, as [`Backend::payload`] gives it.
pub type PayloadAt<'a> = &'a dyn Fn(u32) -> Result<Option<PayloadRef<'a>>, StoreError>;

/// Is shown the records of a log: number, stored bytes and payloads of an entry.
pub type ShowRecord<'a> = &'a mut dyn FnMut(Seq, &[u8], PayloadAt<'_>) -> ControlFlow<()>;

/// A place where logs live.
///
/// Every verb is synchronous; handles are shared between threads. A failed write or sync poisons
/// the handle: what the disk holds is then known only after opening it again.
pub trait Backend: Send + Sync + std::fmt::Debug {
    /// Appends a batch, whole or not at all, at the expected head.
    ///
    /// # Errors
    /// [`StoreError::Stale`] and [`StoreError::NameTaken`] when the world moved;
    /// [`StoreError::Indeterminate`] when the outcome is unknown.
    fn append(&self, batch: Batch, level: Level) -> Result<(), StoreError>;

    /// The newest entry of a log; never stale. `None` where there is no such conversation.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn head(&self, conversation: ConversationId) -> Result<Option<Head>, StoreError>;

    /// The number of a log's first entry here: 0, or that of the first own entry of a fork. `None`
    /// where there is no such conversation.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn first(&self, conversation: ConversationId) -> Result<Option<Seq>, StoreError>;

    /// The newest entry that is known to survive power loss.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn durable_head(&self, conversation: ConversationId) -> Result<Option<Head>, StoreError>;

    /// Shows the stored bytes of the entries `from..=to`, in order, until told to stop. Ends
    /// early, without error, at the first number that has no entry and should have none: one
    /// beyond the head, or before the first entry of a fork.
    ///
    /// # Errors
    /// When the store cannot be read, or [`StoreError::Damaged`] where bytes cannot be framed or
    /// an entry up to the head is missing.
    fn entries(
        &self,
        conversation: ConversationId,
        from: Seq,
        to: Seq,
        show: &mut dyn FnMut(Seq, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError>;

    /// As [`Backend::entries`], each entry with a way to its payloads, which lie beside it: reading a
    /// whole log costs one pass.
    ///
    /// # Errors
    /// As [`Backend::entries`].
    fn records(
        &self,
        conversation: ConversationId,
        from: Seq,
        to: Seq,
        show: ShowRecord<'_>,
    ) -> Result<(), StoreError> {
        self.entries(conversation, from, to, &mut |seq, bytes| {
            show(seq, bytes, &|index| {
                let found = self.payload(conversation, seq, index)?;
                Ok(found.map(|Payload { salt, bytes }| PayloadRef {
                    salt,
                    bytes: Cow::Owned(bytes),
                }))
            })
        })
    }

    /// The payload at `index` of an entry; `None` when it has none there or it was destroyed.
    ///
    /// # Errors
    /// When the store cannot be read, or [`StoreError::Damaged`] where bytes are missing.
    fn payload(
        &self,
        conversation: ConversationId,
        seq: Seq,
        index: u32,
    ) -> Result<Option<Payload>, StoreError>;

    /// Destroys a payload, salt and bytes. Destroying it again is no error.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn destroy_payload(
        &self,
        conversation: ConversationId,
        seq: Seq,
        index: u32,
        level: Level,
    ) -> Result<(), StoreError>;

    /// Destroys several payloads of a log, in the order of their entries: as [`Backend::destroy_payload`]
    /// for each, in as few writes as the store can.
    ///
    /// # Errors
    /// When the store cannot be written; some may be destroyed then.
    fn destroy_payloads(
        &self,
        conversation: ConversationId,
        places: &[(Seq, u32)],
        level: Level,
    ) -> Result<(), StoreError> {
        let mut each = places.iter();
        each.try_for_each(|(seq, index)| self.destroy_payload(conversation, *seq, *index, level))
    }

    /// All conversations whose namespace begins with `prefix`, sorted by name.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn list(&self, prefix: &[String]) -> Result<Vec<Listed>, StoreError>;

    /// The conversation of this name.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn find(&self, name: &Name) -> Result<Option<ConversationId>, StoreError>;

    /// Stores a blob of a lineage under its address; storing it again changes nothing.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn put_blob(
        &self,
        lineage: ConversationId,
        address: Hash,
        bytes: &[u8],
    ) -> Result<(), StoreError>;

    /// A blob of a lineage.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn blob(&self, lineage: ConversationId, address: Hash) -> Result<Option<Vec<u8>>, StoreError>;

    /// Destroys every blob of a lineage that `keep` does not want; says how many went.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn sweep_blobs(
        &self,
        lineage: ConversationId,
        keep: &dyn Fn(&Hash) -> bool,
    ) -> Result<u64, StoreError>;

    /// Keeps derived data of a conversation; it may vanish at any time.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn put_derived(
        &self,
        conversation: ConversationId,
        name: &str,
        bytes: &[u8],
    ) -> Result<(), StoreError>;

    /// Derived data of a conversation, if it is still there.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn derived(
        &self,
        conversation: ConversationId,
        name: &str,
    ) -> Result<Option<Vec<u8>>, StoreError>;

    /// The last derived data of a conversation, in the order of names, whose name begins with
    /// `prefix`, is as long as `name` and not after it: its name and its bytes. Damaged ones are
    /// passed over.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn derived_before(
        &self,
        conversation: ConversationId,
        prefix: &str,
        name: &str,
    ) -> Result<Option<(String, Vec<u8>)>, StoreError>;

    /// Brings everything acknowledged so far to the given level.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn sync(&self, level: Level) -> Result<(), StoreError>;

    /// Damage outside the entries' own bytes: head records, names, framing, orphaned values. Empty
    /// when all is well. Does not verify hashes; `audit::verify` does.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn check(&self, conversation: Option<ConversationId>) -> Result<Vec<StoreError>, StoreError>;

    /// What [`Backend::check`] says of one log, but for what reading all its records and the blobs
    /// they mention tells anyway.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn check_beside(&self, listed: &Listed) -> Result<Vec<StoreError>, StoreError> {
        self.check(Some(listed.conversation))
    }
}
