//! Entries, their encoding and their hash chain. Pure: no clock, randomness or I/O.

pub mod body;
mod codes;
pub mod entry;
mod hashing;
mod ids;
mod message;
pub mod payload;
mod sets;
pub mod skeleton;

pub use body::{
    Appended, Attempt, Body, Called, Change, Commitment, Configured, Count, Door, EditAction,
    Edited, ForkPoint, Identity, Kind, Left, Noted, OpenCalls, Opened, PartKind, PartSkeleton,
    Provenance, Ranges, Reading, Redacted, Refused, RenderedBody, Returned, Settings, Skeleton,
    StandIn, StandInKind, Trigger, Unit, Usage, Visited,
};
pub use entry::{By, CodecError, Entry, Key, Sealed};
pub(crate) use hashing::Derived;
pub use ids::{ConversationId, Hash, Head, Iteration, MessageId, Micros, ParseHexError, Seq};
pub use message::{
    Author, Block, BlockBody, Fields, Json, Media, Message, Part, PartBody, Role, Shape, Source,
};
pub use sets::{AttemptOutcome, GroupReason, LeftReason, RequestReason, VisitOutcome};
