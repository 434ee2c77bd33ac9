//! OpenAI Chat Completions: transcripts in, request bodies out.

mod message;
mod read;
mod repair;
mod write;

pub use message::{read_message, write_message};
pub(crate) use read::{OpenAiChat, answer};
pub use read::{read, usage};
pub(crate) use repair::opener;
pub(crate) use write::write_messages;

/// The format's name.
pub const FORMAT: &str = "openai-chat";
