//! The window: a pure projection of a log prefix. No clock, randomness, I/O, payload or strategy
//! code: decisions are in the log, so replay never needs the strategy that took them.

mod apply;
mod bind;
mod chosen;
mod claim;
mod consolidated;
mod group;
mod guard;
mod index;
mod keys;
mod measure;
mod ordered;
mod outline;
mod output;
mod passing;
mod recall;
mod snapshot;
mod state;
mod stretch;
mod view;

pub use apply::Fold;
pub use bind::{BindError, Binding, CallInfo};
pub use chosen::{Chosen, Selection, Skip, Unchosen};
pub use claim::Questions;
pub use consolidated::{CLEARED, COMPACTED, CONSOLIDATED, Consolidated};
pub use group::{Groups, grouped};
pub use guard::{Cut, Decision, Fate, GroupView, Keep, Notices, Order, Sizes, decide};
pub use measure::{
    COUNT, Comparison, ESTIMATE, Measure, NoReading, SCRIPT, TIKTOKEN, Tokens, Total, compare,
    count, estimate, media, overhead,
};
pub use outline::{Asked, Look, Outline, Placed, Step, Touched, answered, is_message};
pub use output::{Age, AgeUnit, OUTPUT_BYTES_MIN, Smaller, Wanted};
pub use passing::Passing;
pub use recall::{Memo, Verdict};
pub use snapshot::{Pace, Snapshot, Taken};
pub use state::{
    Conservation, Fact, Form, Life, LifeEnd, MessageState, Projection, RefusalSpan, ReturnInfo,
    Sent, VisitInfo,
};
pub use view::{Item, Window, digest_step};
