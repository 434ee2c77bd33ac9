//! Git for context windows.
//!
//! Every message, eviction, replacement and consolidation of an LLM conversation is one immutable,
//! hash-chained [`log::Entry`]; the live window is a pure projection of that log. A strategy edits
//! the window, never the log.
//!
//! Layers, each using only those below it:
//!
//! * [`engine`]: conversations; where log, window and store meet
//! * [`formats`]: transcripts in, request bodies out
//! * [`audit`]: questions about a log (`why`, `verify`, `status`)
//! * [`strategy`]: proposals of what should leave; pure
//! * [`window`]: groups, guard, fold, lives, digest; pure
//! * [`log`]: entries, encoding, hash chain; pure
//! * [`store`]: the only layer that touches a disk

#![forbid(unsafe_code)]
#![deny(missing_docs, rustdoc::broken_intra_doc_links)]

pub mod audit;
pub mod engine;
pub mod formats;
pub mod log;
pub mod store;
pub mod strategy;
pub mod tokens;
pub mod window;
