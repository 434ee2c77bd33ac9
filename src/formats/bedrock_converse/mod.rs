//! Messages of Amazon Bedrock's Converse: recorded requests and answers, request bodies, answers and
//! bare messages.
//!
//! A block has one field, which says what it is. What that field holds beside what a message has a
//! place for is an extra of the block under the field's name. Tools that the model's own side runs name
//! a type.

mod message;
mod read;
mod repair;
mod write;

pub use message::write_message;
pub(crate) use read::BedrockConverse;
pub use read::JSON_BLOCK;
pub(crate) use write::Converse;

/// The format's name.
pub const FORMAT: &str = "bedrock-converse";
