//! A bundle: an export whose first line says what has to follow, so that whoever gets the file can
//! tell whether it came whole, and by which checks it held where it was written.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::engine::Conversation;
use crate::log::Head;

use super::export::{ExportError, export_to};
use super::verify::Verified;

/// The schema of a bundle's first line.
pub const BUNDLE_SCHEMA: &str = "ctxlog.bundle/1";

/// What a person who opens the file should know.
const READ_ME: [&str; 4] = [
    "One entry of a hash-chained log a line, in order, each with its stored bytes, its payloads with their salts, and its blobs.",
    "`ctxlog verify --bundle FILE` checks all of it against this line; `ctxlog import FILE` brings it into a store under the same id.",
    "What counts is `stored`, `payloads` and `blobs`. The other fields are for reading; `verify --bundle` holds them against those.",
    "The words of all messages are in it, except those that were redacted.",
];

/// What the line itself cannot show.
const UNWITNESSED: &str = "this line came with the log: whoever writes another log can write another \
                           line. Compare its head with one that is kept elsewhere";

/// What a bundle says it holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Claimed {
    schema: String,
    /// How many entries.
    pub(super) entries: u64,
    /// The newest of them.
    pub(super) head: Head,
    /// Which ctxlog wrote it.
    #[serde(default)]
    pub(super) ctxlog: String,
    /// Checkpoints of it that were kept elsewhere, as they were written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) checkpoint: Option<String>,
}

/// The first line of a bundle.
#[derive(Serialize)]
struct Bundle<'a> {
    #[serde(flatten)]
    claimed: Claimed,
    conversation: &'a str,
    id: String,
    read_me: [&'static str; 4],
    verified: Checked<'a>,
    not_covered: Vec<&'a str>,
}

/// What held when the bundle was written.
#[derive(Serialize)]
struct Checked<'a> {
    chain: &'a str,
    payloads: super::Payloads,
    windows: super::Windows,
    laws: &'a std::collections::BTreeMap<&'static str, String>,
}

/// Writes a conversation as a bundle, up to the head at which it was found to hang together, with
/// checkpoints of it that were kept elsewhere. Gives how many entries were written.
///
/// # Errors
/// When the log does not hang together or cannot be read, or the output cannot be written.
pub fn bundle(
    chat: &Conversation,
    verified: &Verified,
    checkpoint: Option<&str>,
    out: &mut dyn Write,
) -> Result<u64, ExportError> {
    let (true, Some(head)) = (verified.ok, verified.head) else {
        return Err(ExportError::Unsound);
    };
    let gaps = verified.not_covered.iter().map(String::as_str);
    let line = Bundle {
        claimed: Claimed {
            schema: BUNDLE_SCHEMA.to_owned(),
            entries: verified.entries,
            head,
            ctxlog: env!("CARGO_PKG_VERSION").to_owned(),
            checkpoint: checkpoint.map(str::to_owned),
        },
        conversation: chat.name(),
        id: chat.id().to_string(),
        read_me: READ_ME,
        verified: Checked {
            chain: &verified.chain,
            payloads: verified.payloads,
            windows: verified.windows,
            laws: &verified.laws,
        },
        not_covered: gaps.chain([UNWITNESSED]).collect(),
    };
    let line = serde_json::to_string(&line).map_err(io::Error::from)?;
    writeln!(out, "{line}")?;
    export_to(chat, head, out)
}

/// The claim of a line that begins a bundle; `None` where it begins none.
pub(super) fn claimed(line: &str) -> Option<Result<Claimed, String>> {
    if !is_bundle(line) {
        return None;
    }
    Some(serde_json::from_str(line).map_err(|e| e.to_string()))
}

/// Whether a line is the first of a bundle.
#[must_use]
pub fn is_bundle(line: &str) -> bool {
    #[derive(Deserialize)]
    struct Said {
        schema: String,
    }
    // Most lines are long entries: they are not parsed for this.
    line.contains(BUNDLE_SCHEMA)
        && serde_json::from_str::<Said>(line).is_ok_and(|said| said.schema == BUNDLE_SCHEMA)
}
