//! Messages of `LangChain` in their three spellings: `constructor` objects, `messages_to_dict`, and dumps of
//! the model; in records of a list, states of a graph, streams of states, or bare.
//!
//! A message whose id came before takes that one's place; a `remove` takes it away.

mod message;
mod read;
mod repair;
mod write;

pub use message::{INVALID, write_message};
pub(crate) use read::{LangChain, Read, message};
pub(crate) use write::Messages;

/// The format's name.
pub const FORMAT: &str = "langchain";
