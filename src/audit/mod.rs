//! Questions about a log. Answers are values that serialise to the JSON that tools rely on.

mod accuracy;
mod chain;
mod each;
mod export;
mod laws;
mod lint;
mod salvage;
mod select;
mod simulate;
mod status;
mod trace;
mod verify;
mod why;
mod window;

pub use accuracy::{Accuracy, Ratio};
pub use chain::Payloads;
pub use each::{Answer, verify_each};
pub use export::{
    ENTRY_SCHEMA, ExportError, entry_json, export, import_lines, neutral_json, outcome, readable,
};
pub use laws::{LAWS, Laws};
pub use lint::{Broken, Linted, lint};
pub use salvage::{Trusted, trusted_prefix};
pub use select::{PREFIX_DIGITS_MIN, Place, SelectError, Selector, Span};
pub use simulate::{
    Alternative, Chain, Changed, How, LeftOut, OutOfSight, QuotesFound, Simulated, Story, simulate,
};
pub use status::{Category, Pressure, Status, status};
pub use verify::{Verified, Windows, verify};
pub use why::{FormOf, Moment, Refusals, Seen, Stay, StayEnd, Why, why};
pub use window::{ShownMessage, ShownWindow, Size, window};
