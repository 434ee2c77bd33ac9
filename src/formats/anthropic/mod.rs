//! Anthropic Messages: transcripts in, request bodies out.

mod message;

pub use message::{IN_SYSTEM_FIELD, read_message, read_system, write_message, write_part};
