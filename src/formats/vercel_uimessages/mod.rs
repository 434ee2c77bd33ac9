//! UI messages of the AI SDK: records of a list, or bare. A message of the assistant holds many steps:
//! each is a message of the model, with the results of its calls behind it.

mod message;
mod read;
mod repair;
mod write;

pub use message::{JSON_OUTPUT, write_message};
pub(crate) use read::VercelUiMessages;
pub(crate) use write::UiMessages;

/// The format's name.
pub const FORMAT: &str = "vercel-uimessages";
