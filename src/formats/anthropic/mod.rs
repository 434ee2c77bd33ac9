//! Anthropic Messages: transcripts in, request bodies out.

mod message;
mod read;
mod repair;
mod write;

pub use message::{IN_SYSTEM_FIELD, read_message, read_system, write_message, write_part};
pub(crate) use read::Anthropic;
pub use read::{read, usage};
pub(crate) use write::Messages;

/// The format's name.
pub const FORMAT: &str = "anthropic";
