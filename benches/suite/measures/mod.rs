//! The measures, one file each; `big` and `long` make stores that several of them ask.

pub mod big;
mod buffered;
mod bytes;
mod import;
mod length;
pub mod long;
mod reach;
pub use reach::HISTORY;
mod synced;
mod travel;
mod verify;
mod wide;
mod window;
mod writers;

use super::setup::Setup;
use super::table::Table;

/// Something that is measured.
pub struct Measure {
    pub name: &'static str,
    pub what: &'static str,
    pub run: fn(&Setup, &mut Table),
}

/// All of them, in the order of the table.
pub const ALL: &[Measure] = &[
    Measure {
        name: "synced",
        what: "synced appends, one conversation, one at a time",
        run: synced::run,
    },
    Measure {
        name: "writers",
        what: "synced appends of 32 writers",
        run: writers::run,
    },
    Measure {
        name: "buffered",
        what: "buffered appends with a strategy's visit each",
        run: buffered::run,
    },
    Measure {
        name: "length",
        what: "append and visit in a long conversation, against a short one",
        run: length::run,
    },
    Measure {
        name: "window",
        what: "the window of a random call of a long conversation",
        run: window::run_windows,
    },
    Measure {
        name: "why",
        what: "why a random message of it is, or is not, in the window",
        run: window::run_why,
    },
    Measure {
        name: "travel",
        what: "a fork at a random place of it, and questions about what lies before",
        run: travel::run,
    },
    Measure {
        name: "wide",
        what: "windows of two thousand messages, and why of a message there",
        run: wide::run,
    },
    Measure {
        name: "verify",
        what: "verifying a large store, and the memory it takes",
        run: verify::run_verify,
    },
    Measure {
        name: "open",
        what: "opening a large store",
        run: verify::run_open,
    },
    Measure {
        name: "bytes",
        what: "bytes on disk per byte of content",
        run: bytes::run,
    },
    Measure {
        name: "memory",
        what: "memory with a large store open and its conversations touched",
        run: verify::run_memory,
    },
    Measure {
        name: "import",
        what: "sessions of an agent into a store in memory",
        run: import::run,
    },
    Measure {
        name: "reach",
        what: "what a call saw a quarter of the way back; a visit against trimming",
        run: reach::run,
    },
];
