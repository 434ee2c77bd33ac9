//! Mistral chat: OpenAI chat with thinking as a block of content, documents by address, and an
//! answer that may go on from a `prefix`.

mod order;
mod read;
mod repair;
mod write;

pub(crate) use read::MistralChat;
pub use read::{read, read_message, write_message};
pub(crate) use write::ChatCompletion;

/// The format's name.
pub const FORMAT: &str = "mistral-chat";
