//! OpenAI Chat Completions: transcripts in, request bodies out.

mod message;
mod read;
mod repair;
mod write;

pub(crate) use message::write;
pub use message::{read_message, write_message};
pub(crate) use read::{OpenAiChat, answer};
pub use read::{read, usage};
pub(crate) use repair::{PairRules, opener, pair};
pub(crate) use write::{Chat, map_user_part, split_results, write_tools};

/// The format's name.
pub const FORMAT: &str = "openai-chat";
