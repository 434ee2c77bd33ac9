//! Claude Code session files: one JSON object per line, in the order they were appended.
//!
//! * A line with a `message` is one message (results and words on one line: two). Assistant lines
//!   with one `message.id` are the blocks of one model message: the first is preceded by the call,
//!   the others continue it, also when results stand between.
//! * A line names the line before it, so a file is a tree. Where a person went back, the messages
//!   of the branch that was left are [`Step::Rewound`](super::Step::Rewound) when the new branch begins; what arrives
//!   later on the branch that was left leaves at once.
//! * A compaction summary is [`Step::Compacted`](super::Step::Compacted); a micro-compaction is [`Step::Cleared`](super::Step::Cleared).
//! * Sessions in one file, a session's sub-agents (`isSidechain`) and further roots that a person
//!   began are transcripts of their own. The main one has the session's id, the others
//!   `session#root`. A sub-agent with a file of its own names its session, and itself in place of
//!   the call that started it: that is the call whose result names the agent. A line that names no line
//!   before it joins the newest conversation of its session and kind.
//! * Everything else is noted: the client's own events as routine, damage with a warning. Notes
//!   without a session go to the first transcript.
//!
//! Order is file order; timestamps go backwards in real files.

mod branch;
mod conversation;
mod line;
mod session;

use std::io::{self, BufRead};

use memchr::memchr;

use self::session::Sessions;
use super::detect::{Reader, Sniff};
use super::input::{NOT_UTF_8, escape};
use super::{PackedTranscript, Transcript, UNFINISHED, json};
use crate::log::{Fields, Json, Message};

/// The format's name.
pub const FORMAT: &str = "claude-code";

/// The format.
pub(crate) struct ClaudeCode;

impl Reader for ClaudeCode {
    fn name(&self) -> &'static str {
        FORMAT
    }

    fn sniff(&self, record: &Fields) -> Sniff {
        let around = ["uuid", "sessionId", "leafUuid", "messageId", "parentUuid"];
        let has = |name: &str| json::field(record, name).is_some();
        Sniff::is(has("type") && around.iter().any(|name| has(name)))
    }

    fn read(
        &self,
        input: &mut dyn BufRead,
        name: &str,
        limit: usize,
    ) -> io::Result<Vec<Transcript>> {
        read(input, name, limit)
    }

    fn packed(
        &self,
        input: &mut dyn BufRead,
        name: &str,
        limit: usize,
    ) -> io::Result<Vec<PackedTranscript>> {
        packed(input, name, limit)
    }

    fn given(&self, messages: &[&Message]) -> Option<Json> {
        Some(super::anthropic::write_message(messages))
    }

    fn agents_of(&self, result: &Message) -> Vec<String> {
        let around = super::record::around(result);
        let result = json::field(&around, "toolUseResult").and_then(json::object);
        let agent = result.and_then(|result| json::text_field(&result, "agentId"));
        agent.into_iter().collect()
    }
}

/// Reads a session file called `name`, whose lines may have up to `limit` bytes
/// ([`RECORD_LIMIT`](super::input::RECORD_LIMIT) where the caller has no other wish).
///
/// Lines are read one by one, not as [`pieces`](super::input::pieces): so damage ends with its
/// line whatever follows, and the steps of a damaged file are prefix-stable too. Damage never
/// stops the reader; what cannot be read is noted with a warning.
///
/// # Errors
///
/// When `input` cannot be read.
pub fn read(input: impl BufRead, name: &str, limit: usize) -> io::Result<Vec<Transcript>> {
    let packed = packed(input, name, limit)?;
    Ok(packed.into_iter().map(Transcript::from).collect())
}

/// Packed as it is read: sessions are long.
fn packed(mut input: impl BufRead, name: &str, limit: usize) -> io::Result<Vec<PackedTranscript>> {
    let mut sessions = Sessions::new(name);
    let mut bytes = Vec::new();
    let mut number = 0_u64;
    loop {
        let line = next_line(&mut input, limit, &mut bytes)?;
        if line.size == 0 {
            return Ok(sessions.finish());
        }
        number = number.saturating_add(1);
        if line.size == bytes.len() {
            read_bytes(&mut sessions, number, &bytes);
        } else if line.ended {
            let what = format!(
                "a line of {} bytes exceeds the limit of {limit} bytes a record and was \
                 skipped; raise the limit (--max-record) to read it",
                line.size
            );
            sessions.damage(number, &what, None);
        } else {
            sessions.damage(number, UNFINISHED, None);
        }
    }
}

/// How much of a line there was.
struct Extent {
    /// Its bytes, end included; 0 at the end of the file.
    size: usize,
    /// Whether it has an end.
    ended: bool,
}

/// Reads a line up to `limit` bytes (its end not counted) and passes the rest of a longer one.
fn next_line(input: &mut impl BufRead, limit: usize, line: &mut Vec<u8>) -> io::Result<Extent> {
    line.clear();
    let mut size = 0_usize;
    loop {
        let seen = input.fill_buf()?;
        let end = memchr(b'\n', seen);
        let take = end.map_or(seen.len(), |end| end.saturating_add(1));
        let chunk = seen.get(..take).unwrap_or_default();
        if size.saturating_add(chunk.trim_ascii_end().len()) <= limit && size == line.len() {
            line.extend_from_slice(chunk);
        }
        size = size.saturating_add(take);
        input.consume(take);
        if take == 0 || end.is_some() {
            let ended = end.is_some();
            return Ok(Extent { size, ended });
        }
    }
}

/// Reads one line. Without an end it may still grow: then it holds only values that have an end.
fn read_bytes(sessions: &mut Sessions, number: u64, bytes: &[u8]) {
    let whole = bytes.ends_with(b"\n");
    let named = |what| if whole { what } else { UNFINISHED };
    let Ok(text) = std::str::from_utf8(bytes) else {
        return sessions.damage(number, named(NOT_UTF_8), Some(&escape(bytes)));
    };
    let mark = if number == 1 { "\u{feff}" } else { "" };
    let text = text.strip_prefix(mark).unwrap_or(text).trim();
    let depth = json::depth(text);
    if depth > json::MAX_DEPTH {
        let what = format!("nested {depth} deep; the limit is {}", json::MAX_DEPTH);
        return sessions.damage(number, named(&what), Some(text));
    }
    if sessions.object(number, text) {
        return; // as most lines
    }
    let (values, rest) = split(text, whole);
    for (n, value) in values.into_iter().enumerate() {
        if n == 1 {
            let what = "several JSON values on one line; each is read";
            sessions.damage(number, what, None);
        }
        if !sessions.object(number, &value.0) {
            sessions.damage(number, "no JSON object", Some(&value.0));
        }
    }
    if !rest.is_empty() {
        sessions.damage(number, named("not JSON"), Some(rest));
    }
}

/// The JSON values a line begins with, and what follows them. In a line that may still grow, a
/// number or a word at its end is no value yet.
fn split(text: &str, whole: bool) -> (Vec<Json>, &str) {
    let reader = serde_json::Deserializer::from_str(text);
    let mut values = reader.into_iter::<&serde_json::value::RawValue>();
    let mut out = Vec::new();
    let mut end = 0;
    while let Some(Ok(value)) = values.next() {
        let has_end = value.get().ends_with(['}', ']', '"']);
        if !(whole || has_end) && values.byte_offset() == text.len() {
            break;
        }
        out.push(Json(value.get().to_owned()));
        end = values.byte_offset();
    }
    (out, text.get(end..).unwrap_or_default().trim())
}

/// Writes the line back that these messages were read from: the summary of a compaction, or the
/// messages of one line (the later ones share the first one's source). Equal as a JSON value.
///
/// `None` when the first message was not read from a session file.
#[must_use]
pub fn write_line(messages: &[&Message]) -> Option<Json> {
    let source = messages
        .first()?
        .source
        .as_ref()
        .filter(|s| s.format == FORMAT)?;
    let message = match &source.verbatim {
        Some(whole) => whole.clone(),
        None => super::anthropic::write_message(messages),
    };
    let mut fields: Fields = source.around.clone();
    fields.push(("message".to_owned(), message));
    Some(json::write_object(&fields))
}
