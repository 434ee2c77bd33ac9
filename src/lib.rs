//! Git for context windows.
//!
//! Every message, eviction, replacement and consolidation of an LLM conversation is one immutable,
//! hash-chained [`log::Entry`]; the live window is a pure projection of that log. A strategy edits
//! the window, never the log.
//!
//! ```
//! use ctxlog::{Message, Part, Profile, Store, TokenBudget};
//!
//! # fn main() -> Result<(), ctxlog::Error> {
//! let store = Store::in_memory(); // or Store::open(".ctxlog")?
//! let chat = store
//!     .conversation("support/4411")?
//!     .with_strategy(TokenBudget::new(8_000).keep(6))?;
//! chat.append(Message::system("You are a support agent."))?;
//! let question = chat.append(Message::person("Where is order 4411?"))?.message();
//! let call = chat.call()?; // strategies visit, `called` is filed
//! let body = chat.render(&call.window, Profile::OpenAiChat)?.body; // exactly what to send
//! # assert!(body.contains("order 4411"));
//! chat.append(Message::calls(vec![Part::call("c1", "find_order", r#"{"id":4411}"#)]))?;
//! chat.append(Message::tool("c1", "shipped on Monday"))?;
//! chat.returned(call.id, None)?;
//! let story = chat.why(question)?; // lives, refusals, how to bring it back
//! assert_eq!(story.status, "visible");
//! let then = chat.window_at(call.iteration)?; // the exact window of that call, any time later
//! assert_eq!(then.digest, call.window.digest);
//! # Ok(())
//! # }
//! ```
//!
//! Layers, each using only those below it:
//!
//! * `testkit` (feature): the laws as property tests, for strategies of one's own and for ctxlog
//! * [`audit`]: questions about a log (`why`, `verify`, `status`)
//! * [`engine`]: conversations; where log, window and store meet
//! * [`formats`]: transcripts in, request bodies out; pure, over [`log`] alone
//! * [`store`]: the only layer that touches a disk; over [`log`] alone
//! * [`strategy`]: proposals of what should leave; pure
//! * [`window`]: groups, guard, fold, lives, digest; pure
//! * [`log`]: entries, encoding, hash chain; pure

#![forbid(unsafe_code)]
#![deny(missing_docs, rustdoc::broken_intra_doc_links)]
// A library that embeds in agents may not take them down: no panic, no silent overflow or cut.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::print_stdout,
        clippy::print_stderr
    )
)]

pub mod audit;
pub mod engine;
pub mod formats;
pub mod log;
pub mod planted;
pub mod store;
pub mod strategy;
#[cfg(feature = "testkit")]
pub mod testkit;
pub mod tokens;
pub mod window;

pub use engine::{Conversation, Error, Store};
pub use formats::Profile;
pub use log::{Iteration, Message, MessageId, Part, Seq};
pub use strategy::{
    Buffer, ClearToolResults, Expire, HeadTail, SlidingWindow, Strategy, TokenBudget,
    TruncateOutputs,
};

/// The README's example, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
