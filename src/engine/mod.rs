//! Conversations: where log, window and store meet.
//!
//! The engine is synchronous, `Send + Sync`; from an async runtime call it through
//! `spawn_blocking` (or a thread of its own): an append whose future is dropped is whole or absent.

mod adopt;
mod append;
mod beside;
mod budget;
mod call;
mod consolidate;
mod content;
mod conversation;
mod due;
mod edit;
mod environment;
mod error;
mod fork;
mod import;
mod known;
mod lineage;
mod memory;
mod namespace;
mod past;
mod recall;
mod redact;
mod replace;
mod retell;
mod stage;
mod summarize_command;
mod summarizer;
mod views;
mod wordless;

pub use adopt::{Adopted, Entries};
pub use append::Options;
pub use budget::{Budget, TooSmall};
pub use call::{Call, Request};
pub use content::{Content, LoadedItem, LoadedWindow};
pub use conversation::{Ack, Conversation, Store};
pub use environment::{Environment, Seeded, System};
pub use error::{Error, Refusal};
pub(crate) use import::key as import_key;
pub use import::{Imported, Warning};
pub use namespace::Namespace;
pub use recall::{How, Recalled};
pub use redact::{Goes, LogRedaction, Redact, Redaction, Words};
pub use replace::Replacement;
pub use retell::Retold;
pub use summarize_command::CommandSummarizer;
pub use summarizer::{Asked, SummarizeError, Summarizer, Summary};
pub use views::{BufferMemory, ConsolidatingMemory, Remembered, SummaryMemory, SummaryPart};

pub(crate) use content::intact;
pub(crate) use lineage::Line;
pub(crate) use past::{ItemEntries, unchained};
