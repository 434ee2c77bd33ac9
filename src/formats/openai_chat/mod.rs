//! OpenAI Chat Completions: transcripts in, request bodies out.

mod message;
mod read;

pub use message::{read_message, write_message};
pub use read::read;

/// The format's name.
pub const FORMAT: &str = "openai-chat";
