//! The JSON that programs may rely on, field by field: an unknown or missing field is a failure.

#![allow(dead_code, reason = "that a field can be read is the test")]

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failed {
    pub error: FailedWith,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailedWith {
    pub code: String,
    pub message: String,
    pub help: String,
}

#[derive(Deserialize, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub struct Head {
    pub seq: u64,
    pub hash: String,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub struct Moment {
    pub seq: u64,
    pub iteration: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timed {
    pub seq: u64,
    pub iteration: u64,
    #[serde(deserialize_with = "present")]
    pub at: Option<String>,
}

/// A field that may be `null`, but not absent.
fn present<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(from)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Imported {
    pub schema: String,
    pub conversation: String,
    pub format: String,
    pub messages: u64,
    pub iterations: u64,
    pub entries: u64,
    pub visits: u64,
    pub evicted: u64,
    pub refused: u64,
    pub notes: u64,
    pub added: u64,
    pub head: Head,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    pub schema: String,
    pub conversation: String,
    pub at: Moment,
    pub digest: String,
    #[serde(deserialize_with = "present")]
    pub recorded_digest: Option<String>,
    pub size: Size,
    pub messages: Vec<Message>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Size {
    pub messages: u64,
    pub groups: u64,
    pub tokens: Tokens,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tokens {
    pub amount: u64,
    pub method: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    pub id: String,
    pub seq: u64,
    pub role: String,
    pub author: String,
    pub parts: Vec<Value>,
    pub entered: Moment,
    pub pinned: bool,
    pub form: u64,
    pub stands_for: Vec<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Why {
    pub schema: String,
    pub message: String,
    pub at: Moment,
    pub status: String,
    pub redacted: bool,
    pub forms: Vec<Form>,
    pub lives: Vec<Life>,
    pub seen_by: Seen,
    pub missed_by: Missed,
    #[serde(deserialize_with = "present")]
    pub stands_for_it: Option<u64>,
    pub refusals: Vec<Refusal>,
    #[serde(deserialize_with = "present")]
    pub restore: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Form {
    pub seq: u64,
    pub iteration: u64,
    #[serde(deserialize_with = "present")]
    pub reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Life {
    pub entered: Timed,
    #[serde(deserialize_with = "present")]
    pub left: Option<Left>,
    pub calls: u64,
    pub entries: u64,
    #[serde(deserialize_with = "present")]
    pub wall_ms: Option<u64>,
    pub clock: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Left {
    pub seq: u64,
    pub iteration: u64,
    #[serde(deserialize_with = "present")]
    pub at: Option<String>,
    pub kind: String,
    pub reason: String,
    #[serde(deserialize_with = "present")]
    pub strategy: Option<String>,
    #[serde(deserialize_with = "present")]
    pub trigger: Option<String>,
    /// Only where it was.
    #[serde(default)]
    pub inferred: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seen {
    pub calls: u64,
    #[serde(deserialize_with = "present")]
    pub first_iteration: Option<u64>,
    #[serde(deserialize_with = "present")]
    pub last_iteration: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Missed {
    pub calls: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    pub reason: String,
    pub strategy: String,
    pub first: Moment,
    pub last: Moment,
    pub visits: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub schema: String,
    pub seq: u64,
    pub hash: String,
    pub prev: String,
    pub kind: String,
    #[serde(deserialize_with = "present")]
    pub outcome: Option<String>,
    #[serde(deserialize_with = "present")]
    pub at: Option<String>,
    pub iteration: u64,
    pub by: By,
    pub provenance: String,
    pub body: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct By {
    pub door: String,
    pub principal: String,
}

/// The contract's fields, and beside them the conversation (a line each) with its head, the
/// problems in words, and what a source did that no law binds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verified {
    pub schema: String,
    pub conversation: String,
    pub ok: bool,
    pub entries: u64,
    pub chain: String,
    pub payloads: Payloads,
    pub windows: Windows,
    pub laws: BTreeMap<String, String>,
    #[serde(deserialize_with = "present")]
    pub checkpoint: Option<Held>,
    pub inferred_exceptions: u64,
    pub not_covered: Vec<String>,
    #[serde(deserialize_with = "present")]
    pub first_bad: Option<u64>,
    pub problems: Vec<String>,
    #[serde(deserialize_with = "present")]
    pub head: Option<Head>,
}

/// What a checkpoint says of a log.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    pub ok: bool,
    pub notes: u64,
    #[serde(deserialize_with = "present")]
    pub broken: Option<String>,
    pub entries: u64,
    pub after: u64,
    #[serde(deserialize_with = "present")]
    pub signed_by: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Payloads {
    pub intact: u64,
    pub redacted: u64,
    pub lost: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Windows {
    pub recorded: u64,
    pub inferred: u64,
    pub simulated: u64,
    pub equal: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Linted {
    pub schema: String,
    pub provider: String,
    pub ok: bool,
    pub problems: Vec<Problem>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    pub rule: String,
    pub message: String,
    #[serde(deserialize_with = "present")]
    pub seq: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Appended {
    pub schema: String,
    pub conversation: String,
    pub message: String,
    pub messages: Vec<String>,
    pub seq: u64,
    pub head: Head,
    pub repeated: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restored {
    pub schema: String,
    pub conversation: String,
    pub seq: u64,
    pub entered: Vec<String>,
    pub head: Head,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinDone {
    pub schema: String,
    pub conversation: String,
    pub seq: u64,
    pub message: String,
    pub pinned: bool,
    pub head: Head,
}

#[derive(Deserialize, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub struct Cause {
    pub seq: u64,
    pub iteration: u64,
    pub kind: String,
    #[serde(deserialize_with = "present")]
    pub reason: Option<String>,
    #[serde(deserialize_with = "present")]
    pub strategy: Option<String>,
    pub by: String,
    #[serde(deserialize_with = "present")]
    pub stand_in: Option<u64>,
    /// Only where it was.
    #[serde(default)]
    pub inferred: bool,
    /// Only between two conversations.
    pub conversation: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Diff {
    pub schema: String,
    pub from: Side,
    pub to: Side,
    pub same: bool,
    #[serde(deserialize_with = "present")]
    pub tokens: Option<i64>,
    pub left: Vec<Gone>,
    pub entered: Vec<Came>,
    pub formed: Vec<Formed>,
    pub stayed: Vec<u64>,
    pub cache: Cache,
    /// With `--words` alone.
    pub words: Option<Vec<WordDiff>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Side {
    pub conversation: String,
    pub at: Moment,
    #[serde(deserialize_with = "present")]
    pub call: Option<u64>,
    pub digest: String,
    pub size: Size,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gone {
    pub messages: Vec<u64>,
    pub tokens: u64,
    pub by: Cause,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Came {
    pub messages: Vec<u64>,
    pub tokens: u64,
    pub stands_for: Vec<u64>,
    pub by: Cause,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Formed {
    pub message: u64,
    pub form: (u64, u64),
    pub tokens: (u64, u64),
    pub by: Cause,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Amount {
    pub messages: u64,
    pub tokens: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    pub prefix: Amount,
    pub read: Amount,
    pub again: Amount,
    pub settings_differ: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WordDiff {
    pub message: u64,
    pub against: Vec<u64>,
    pub words: Vec<Stretch>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stretch {
    pub mark: String,
    pub text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    pub schema: String,
    pub message: String,
    #[serde(deserialize_with = "present")]
    pub produced_by: Option<Moment>,
    #[serde(deserialize_with = "present")]
    pub call: Option<Moment>,
    #[serde(deserialize_with = "present")]
    pub model: Option<String>,
    #[serde(deserialize_with = "present")]
    pub window: Option<Window>,
    pub missing: Vec<Missing>,
    pub looked_from: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Missing {
    pub messages: Vec<u64>,
    pub by: Cause,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hit {
    pub schema: String,
    pub message: String,
    pub entered: Moment,
    pub role: String,
    pub author: String,
    pub forms: Vec<u64>,
    pub excerpt: Excerpt,
    pub seen: Vec<Sight>,
    pub calls: u64,
    #[serde(deserialize_with = "present")]
    pub first_without: Option<u64>,
    pub visible: bool,
}

#[derive(Deserialize, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub struct Excerpt {
    pub before: String,
    pub found: String,
    pub after: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sight {
    pub first: u64,
    pub last: u64,
    #[serde(deserialize_with = "present")]
    pub ended: Option<Cause>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bisected {
    pub schema: String,
    pub conversation: String,
    pub good: u64,
    #[serde(deserialize_with = "present")]
    pub bad: Option<u64>,
    #[serde(deserialize_with = "present")]
    pub first_bad: Option<u64>,
    pub candidates: Vec<u64>,
    pub runs: Vec<Tested>,
    #[serde(deserialize_with = "present")]
    pub changes: Option<Diff>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tested {
    pub iteration: u64,
    pub verdict: String,
    pub exit: i32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blame {
    pub message: u64,
    pub entered: Cause,
    #[serde(deserialize_with = "present")]
    pub form: Option<Cause>,
    #[serde(deserialize_with = "present")]
    pub before: Option<Amount>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Totals {
    pub method: String,
    pub sent: Vec<u64>,
    #[serde(deserialize_with = "present")]
    pub median: Option<u64>,
    #[serde(deserialize_with = "present")]
    pub peak: Option<(u64, u64)>,
    pub evicted: Amount,
    pub stood_for: Amount,
    pub replaced: Replaced,
    pub restored: u64,
    pub always: u64,
    pub over_limit: u64,
    pub stored: Stored,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replaced {
    pub forms: u64,
    pub before: u64,
    pub after: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    pub entries: u64,
    pub entry_bytes: u64,
    pub payload_bytes: u64,
}
