//! OpenAI Responses: a conversation as items. Each item is a message; what the model wrote without
//! anything between (reasoning, words, calls) continues its first item.

mod item;
mod read;

pub use item::{read_item, write_item};
pub(crate) use read::{OpenAiResponses, tell};
pub use read::{read, usage};

/// The format's name.
pub const FORMAT: &str = "openai-responses";
