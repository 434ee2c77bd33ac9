//! OpenAI Responses: a conversation as items. Each item is a message; what the model wrote without
//! anything between (reasoning, words, calls) continues its first item.

mod answers;
mod item;
mod read;
mod repair;
mod write;

pub use item::{read_item, write_given, write_item};
pub(crate) use read::{OpenAiResponses, tell};
pub use read::{read, usage};
pub(crate) use write::Responses;

/// The format's name.
pub const FORMAT: &str = "openai-responses";
