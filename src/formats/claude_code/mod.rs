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
//!   `session#root`. A line that names no line before it joins the newest conversation of its
//!   session and kind.
//! * Everything else is noted: the client's own events as routine, damage with a warning. Notes
//!   without a session go to the first transcript.
//!
//! Order is file order; timestamps go backwards in real files.

mod branch;
mod conversation;
mod line;
mod session;

use std::io::{self, BufRead};

use self::session::Sessions;
use super::{Transcript, json};
use crate::log::{Fields, Json, Message};

/// The format's name.
pub const FORMAT: &str = "claude-code";

/// What a note calls a last line that is no JSON and has no end: its writer may still be at work,
/// and the line may read otherwise when the file has grown.
pub const UNFINISHED: &str = "not JSON; the file ends within this line";

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
pub fn read(mut input: impl BufRead, name: &str, limit: usize) -> io::Result<Vec<Transcript>> {
    let mut sessions = Sessions::new(name);
    let mut bytes = Vec::new();
    let mut number = 0_u64;
    loop {
        let size = next_line(&mut input, limit, &mut bytes)?;
        if size == 0 {
            return Ok(sessions.finish());
        }
        number = number.saturating_add(1);
        if size > bytes.len() {
            let what = format!(
                "a line of {size} bytes exceeds the limit of {limit} bytes a record and was \
                 skipped; raise the limit to read it"
            );
            sessions.damage(number, &what, None);
        } else {
            read_bytes(&mut sessions, number, &bytes);
        }
    }
}

/// Reads a line up to `limit` bytes (its end not counted) and passes the rest of a longer one;
/// returns its size, 0 at the end of the file.
fn next_line(input: &mut impl BufRead, limit: usize, line: &mut Vec<u8>) -> io::Result<usize> {
    line.clear();
    let mut size = 0_usize;
    loop {
        let seen = input.fill_buf()?;
        let end = seen.iter().position(|b| *b == b'\n');
        let take = end.map_or(seen.len(), |end| end.saturating_add(1));
        let chunk = seen.get(..take).unwrap_or_default();
        if size.saturating_add(chunk.trim_ascii_end().len()) <= limit && size == line.len() {
            line.extend_from_slice(chunk);
        }
        size = size.saturating_add(take);
        input.consume(take);
        if take == 0 || end.is_some() {
            return Ok(size);
        }
    }
}

fn read_bytes(sessions: &mut Sessions, number: u64, bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        let text = escape(bytes);
        return sessions.damage(
            number,
            "not UTF-8; bad bytes are written \\xNN",
            Some(&text),
        );
    };
    let mark = if number == 1 { "\u{feff}" } else { "" };
    let text = text.strip_prefix(mark).unwrap_or(text).trim();
    let depth = json::depth(text);
    if depth > json::MAX_DEPTH {
        let what = format!("nested {depth} deep; the limit is {}", json::MAX_DEPTH);
        return sessions.damage(number, &what, Some(text));
    }
    let (values, rest) = split(text);
    if values.len() > 1 {
        sessions.damage(
            number,
            "several JSON values on one line; each is read",
            None,
        );
    }
    for value in values {
        sessions.value(number, value);
    }
    if !rest.is_empty() {
        let is_whole = bytes.ends_with(b"\n");
        let what = if is_whole { "not JSON" } else { UNFINISHED };
        sessions.damage(number, what, Some(rest));
    }
}

/// The text with every byte that is no part of it written `\xNN`.
fn escape(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.trim_ascii_end().utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    out
}

/// The JSON values a line begins with, and what follows them.
fn split(text: &str) -> (Vec<Json>, &str) {
    let reader = serde_json::Deserializer::from_str(text);
    let mut values = reader.into_iter::<&serde_json::value::RawValue>();
    let mut out = Vec::new();
    let mut end = 0;
    while let Some(Ok(value)) = values.next() {
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
