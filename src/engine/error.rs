//! Failures, and requests that were not accepted.

use crate::log::{CodecError, ConversationId, RequestReason, Seq, payload::PayloadError};
use crate::store::StoreError;

/// A request that was not accepted. Nothing was logged.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{reason}: {detail}")]
pub struct Refusal {
    /// Why, by name.
    pub reason: RequestReason,
    /// What it is about: the thing and the place.
    pub detail: String,
    /// What to do about it.
    pub help: String,
}

impl Refusal {
    /// A refusal whose way out is the reason's own.
    #[must_use]
    pub fn new(reason: RequestReason, detail: impl Into<String>) -> Self {
        Self {
            reason,
            detail: detail.into(),
            help: reason.remedy().to_owned(),
        }
    }

    /// A refusal with a way out of its own.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = help.into();
        self
    }
}

/// Why something did not happen: the machine failed, or ([`Error::Refused`]) it worked and said no.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request was not accepted.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store failed.
    #[error(transparent)]
    Store(StoreError),
    /// Something could not be encoded.
    #[error(transparent)]
    Codec(CodecError),
    /// An entry's stored bytes are damaged.
    #[error("entry {seq} of {conversation} is damaged: {reason}")]
    DamagedEntry {
        /// The log.
        conversation: ConversationId,
        /// The entry.
        seq: Seq,
        /// What is wrong with it.
        reason: String,
    },
    /// A payload is damaged or lost.
    #[error("the payload of {seq} cannot be read: {source}")]
    Payload {
        /// The entry.
        seq: Seq,
        /// What is wrong with it.
        source: PayloadError,
    },
    /// A payload was destroyed by redaction.
    #[error("the content of m{} was redacted", .seq.0)]
    Redacted {
        /// The entry.
        seq: Seq,
    },
    /// The log holds an entry of an unknown kind that changes windows.
    #[error(
        "unsupported-entry: {seq} is of a kind this version does not know, so later windows cannot be shown"
    )]
    UnsupportedEntry {
        /// The entry.
        seq: Seq,
    },
    /// The system gave no randomness.
    #[error("no randomness for ids and salts: {0}")]
    Randomness(std::io::Error),
}

/// A busy store, a record over a limit and a head that moved are no failures: the store worked and
/// said no, and nothing was written.
impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let (reason, help) = match &error {
            StoreError::Busy { .. } => (
                RequestReason::StoreBusy,
                "wait for that process or close it; a store has one user at a time",
            ),
            StoreError::TooLarge { .. } => {
                (RequestReason::TooLarge, "split it; nothing was written")
            }
            StoreError::Stale { .. } => {
                (RequestReason::StaleHead, RequestReason::StaleHead.remedy())
            }
            _ => return Self::Store(error),
        };
        Refusal::new(reason, error.to_string())
            .with_help(help)
            .into()
    }
}

impl From<CodecError> for Error {
    fn from(error: CodecError) -> Self {
        match error {
            CodecError::TooLarge { .. } => {
                Self::refused(RequestReason::TooLarge, error.to_string())
            }
            other => Self::Codec(other),
        }
    }
}

impl Error {
    /// A refusal whose way out is the reason's own.
    #[must_use]
    pub fn refused(reason: RequestReason, detail: impl Into<String>) -> Self {
        Self::Refused(Refusal::new(reason, detail))
    }

    /// The refusal, if it is one.
    #[must_use]
    pub const fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}
