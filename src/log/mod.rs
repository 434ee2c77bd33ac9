//! Entries, their encoding and their hash chain. Pure: no clock, randomness or I/O.

mod ids;
mod message;
mod sets;

pub use ids::{ConversationId, Hash, Head, Iteration, MessageId, Micros, ParseHexError, Seq};
pub use message::{
    Author, Block, BlockBody, Fields, Json, Media, Message, Part, PartBody, Role, Shape, Source,
};
pub use sets::{GroupReason, LeftReason, RequestReason, VisitOutcome};
