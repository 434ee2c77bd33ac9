//! Questions about a log. Answers are values that serialise to the JSON that tools rely on.

mod accuracy;
mod bisect;
mod blame;
mod bundle;
mod cause;
mod chain;
mod checkpoint;
mod compact;
mod context;
mod diff;
mod each;
mod export;
mod exported;
mod grep;
mod lanes;
mod laws;
mod lines;
mod lint;
mod page;
mod readable;
mod salvage;
mod select;
#[cfg(feature = "sign")]
mod signing;
mod simulate;
mod status;
mod totals;
mod trace;
mod verify;
mod walk;
mod why;
mod window;
mod words;

pub use accuracy::{Accuracy, Ratio};
pub use bisect::{Bisection, Verdict};
pub use blame::{Blame, blame};
pub use bundle::{BUNDLE_SCHEMA, bundle, is_bundle};
pub use cause::{Cause, ranges};
pub use chain::Payloads;
pub use checkpoint::{
    Breach, Checkpoint, Held, NOTES_BYTES_MAX, Note, NoteError, Signature, hold, read_notes,
};
pub use compact::{CompactError, compact};
pub use context::{Context, LOOK_BACK, Missing, context};
pub use diff::{Amount, Cache, Came, Diff, Formed, Gone, Side, diff};
pub use each::{Answer, verify_each};
pub use export::{ENTRY_SCHEMA, ExportError, entry_json, export, neutral_json, outcome, readable};
pub use exported::Exported;
pub use grep::{Excerpt, Found, Hit, Sight, Sought, grep};
pub use lanes::{
    AbsenceColumns, CallColumns, FormColumns, KINDS, Lanes, LifeColumns, MessageColumns,
    RefusalColumns, Sentence, VisitColumns, lanes,
};
pub use laws::{LAWS, Laws};
pub use lines::import_lines;
pub use lint::{Broken, Linted, lint};
pub use page::{PAGE_WORDS, PageOptions, Paged, page};
pub use salvage::{Trusted, trusted_prefix};
pub use select::{PREFIX_DIGITS_MIN, Place, SelectError, Selector, Span};
#[cfg(feature = "sign")]
pub use signing::{KeyError, PublicKey, SecretKey};
pub use simulate::{
    Alternative, Chain, Changed, How, LeftOut, OutOfSight, QuotesFound, Simulated, Story, simulate,
};
pub use status::{Category, Pressure, Status, status};
pub use totals::{Replaced, Stored, Totals, totals};
pub use verify::{Verified, Windows, verify};
pub use why::{FormOf, Moment, Refusals, Seen, Stay, StayEnd, Why, why};
pub use window::{ShownMessage, ShownWindow, Size, window};
pub use words::{Mark, Stretch, WordDiff, compare};
