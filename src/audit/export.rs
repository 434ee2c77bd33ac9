//! The log in its own format: JSON Lines with the stored bytes and the payloads with their salts,
//! enough to rebuild and verify the log elsewhere.

use std::io::Write;
use std::ops::ControlFlow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::{Content, Conversation, Error, intact};
use crate::log::{Body, Entry, Hash, Head, Message, PartBody, Seq, entry, entry::Sealed, payload};

/// A failure while writing or reading an export.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The engine or the store failed, or refused.
    #[error(transparent)]
    Engine(#[from] Error),
    /// Writing or reading failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// A line is not what an export holds.
    #[error("line {line}: {what}")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// A line has more bytes than it may have.
    #[error("line {line}: it has more than the limit of {limit} bytes")]
    TooLarge {
        /// Its number, from 1.
        line: u64,
        /// The limit.
        limit: u64,
    },
    /// The file is no export of ctxlog.
    #[error("it is no export of ctxlog")]
    Foreign,
    /// The log does not hang together, and is not given to others as one that does.
    #[error("the log does not hang together")]
    Unsound,
}

/// A payload in an export line.
#[derive(Serialize, Deserialize)]
pub(super) struct PayloadLine {
    pub(super) salt: String,
    pub(super) bytes: String,
}

/// A blob in an export line, on the first entry that mentions it.
#[derive(Serialize, Deserialize)]
pub(super) struct BlobLine {
    pub(super) address: String,
    pub(super) bytes: String,
}

/// The schema of an entry's line.
pub const ENTRY_SCHEMA: &str = "ctxlog.log/1";

/// An entry as `log`, `show` and `export` give it.
#[must_use]
pub fn entry_json(sealed: &Sealed) -> Value {
    let entry = &sealed.entry;
    let kind = entry.body.kind().map_or_else(
        || format!("unknown-{}", entry.body.code()),
        |k| k.name().to_owned(),
    );
    json!({
        "schema": ENTRY_SCHEMA,
        "seq": entry.seq,
        "hash": sealed.hash.to_string(),
        "prev": entry.prev.to_string(),
        "kind": kind,
        "outcome": outcome(&entry.body),
        "at": entry.at.map(|t| t.to_string()),
        "iteration": entry.iteration,
        "by": { "door": entry.by.door, "principal": entry.by.principal },
        "provenance": entry.provenance,
        "body": body_json(&entry.body),
    })
}

/// What a visit or an edit came to: `evict`, `replace`, `consolidate`, `refuse`, or an edit's own
/// action where it changed nothing of that kind.
#[must_use]
pub fn outcome(body: &Body) -> Option<&'static str> {
    let change = body.change()?;
    let has = |kind| change.stand_ins.iter().any(|s| s.kind == kind);
    Some(if has(crate::log::StandInKind::Claim) {
        "consolidate"
    } else if has(crate::log::StandInKind::Form) {
        "replace"
    } else if !change.left.is_empty() {
        "evict"
    } else {
        match body {
            Body::Edited(e) => e.action.name(),
            _ => "refuse",
        }
    })
}

fn body_json(body: &Body) -> Value {
    let value = match body {
        Body::Opened(b) => serde_json::to_value(b),
        Body::Configured(b) => serde_json::to_value(b),
        Body::Appended(b) => serde_json::to_value(b),
        Body::Called(b) => serde_json::to_value(b),
        Body::Returned(b) => serde_json::to_value(b),
        Body::Visited(b) => serde_json::to_value(b),
        Body::Edited(b) => serde_json::to_value(b),
        Body::Redacted(b) => serde_json::to_value(b),
        Body::Noted(b) => serde_json::to_value(b),
        Body::Unknown { kind, bytes } => {
            Ok(json!({ "kind": kind, "bytes": STANDARD.encode(bytes) }))
        }
    };
    value.unwrap_or(Value::Null)
}

/// Writes a whole log as JSON Lines.
///
/// # Errors
/// When the log cannot be read or the output cannot be written.
pub fn export(chat: &Conversation, out: &mut dyn Write) -> Result<u64, ExportError> {
    match chat.head()? {
        Some(head) => export_to(chat, head, out),
        None => Ok(0),
    }
}

/// The same up to an entry.
pub(super) fn export_to(
    chat: &Conversation,
    head: Head,
    out: &mut dyn Write,
) -> Result<u64, ExportError> {
    let mut writer = Writer {
        chat,
        seen: std::collections::BTreeSet::new(),
    };
    let mut failed = None;
    let mut lines: u64 = 0;
    chat.store()
        .entries(chat.id(), Seq(0), head.seq, &mut |sealed| {
            let line = writer
                .line(&sealed)
                .and_then(|line| Ok(writeln!(out, "{line}")?));
            match line {
                Ok(()) => {
                    lines = lines.saturating_add(1);
                    ControlFlow::Continue(())
                }
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
    failed.map_or(Ok(lines), Err)
}

struct Writer<'a> {
    chat: &'a Conversation,
    seen: std::collections::BTreeSet<Hash>,
}

impl Writer<'_> {
    fn line(&mut self, sealed: &Sealed) -> Result<Value, ExportError> {
        let mut line = entry_json(sealed);
        let mut payloads = Vec::new();
        let mut blobs = Vec::new();
        let backend = self.chat.store().backend();
        for (index, to) in (0_u32..).zip(sealed.entry.body.commitments()) {
            let found = backend
                .payload(self.chat.id(), sealed.entry.seq, index)
                .map_err(Error::from)?;
            if let Some(found) = &found {
                intact(sealed.entry.seq, found, &to)?;
                self.blobs(&found.bytes, &mut blobs)?;
            }
            payloads.push(found.map(|p| PayloadLine {
                salt: STANDARD.encode(p.salt),
                bytes: STANDARD.encode(&p.bytes),
            }));
        }
        if let Some(fields) = line.as_object_mut() {
            let text = |v: Result<Value, serde_json::Error>| v.unwrap_or(Value::Null);
            if let Some(content) = readable(self.chat, &sealed.entry)? {
                fields.insert("content".to_owned(), content);
            }
            let stored = STANDARD.encode(entry::hashed(&sealed.bytes));
            fields.insert("stored".to_owned(), Value::from(stored));
            fields.insert("payloads".to_owned(), text(serde_json::to_value(&payloads)));
            fields.insert("blobs".to_owned(), text(serde_json::to_value(&blobs)));
        }
        Ok(line)
    }

    fn blobs(&mut self, bytes: &[u8], out: &mut Vec<BlobLine>) -> Result<(), ExportError> {
        for address in payload::blobs_of(bytes).map_err(Error::from)? {
            if !self.seen.insert(address) {
                continue;
            }
            let blob = self.chat.store().backend().blob(self.chat.id(), address);
            if let Some(blob) = blob.map_err(Error::from)? {
                out.push(BlobLine {
                    address: address.to_string(),
                    bytes: STANDARD.encode(blob),
                });
            }
        }
        Ok(())
    }
}

/// The words of an entry for people and tools: messages in neutral form with what their source
/// gave, settings, notes. Nothing an import reads.
///
/// # Errors
/// When words are damaged or lost.
pub fn readable(chat: &Conversation, entry: &Entry) -> Result<Option<Value>, Error> {
    Ok(match &entry.body {
        Body::Appended(_) => Some(message_json(chat, entry.seq, 0)?),
        Body::Visited(_) | Body::Edited(_) => {
            let stand_ins = entry.body.change().map_or(0, |c| c.stand_ins.len());
            let messages = (0_u32..)
                .take(stand_ins)
                .map(|index| message_json(chat, entry.seq, index))
                .collect::<Result<Vec<_>, _>>()?;
            (!messages.is_empty()).then_some(Value::from(messages))
        }
        Body::Configured(_) | Body::Returned(_) | Body::Noted(_) => {
            if entry.body.commitments().is_empty() {
                return Ok(None);
            }
            let text = chat.text(entry.seq, 0)?;
            // Kept text is JSON as a rule, and shown as a string where it is not.
            text.map(|t| serde_json::from_str(&t.0).unwrap_or(Value::from(t.0)))
        }
        _ => None,
    })
}

fn message_json(chat: &Conversation, seq: Seq, index: u32) -> Result<Value, Error> {
    Ok(match chat.content(seq, index)? {
        Content::Redacted => json!({ "redacted": true }),
        Content::Message(message) => {
            let mut value = neutral_json(&message);
            if let (Some(fields), Some(source)) = (value.as_object_mut(), &message.source) {
                let given = given(chat, seq, &message)?;
                let source =
                    json!({ "format": source.format, "uuid": source.id, "message": given });
                fields.insert("source".to_owned(), source);
            }
            value
        }
    })
}

/// The source message as it was given, joined again where it became two messages.
fn given(chat: &Conversation, seq: Seq, message: &Message) -> Result<Value, Error> {
    let whole = chat.with_projection(|p| {
        let first = p
            .message(crate::log::MessageId(seq))
            .and_then(|m| m.same_source);
        let first = first.unwrap_or(seq);
        let joined = p.messages().iter().filter(|m| m.same_source == Some(first));
        std::iter::once(first)
            .chain(joined.map(|m| m.id.seq()))
            .collect::<Vec<_>>()
    })?;
    let mut parts = Vec::new();
    for seq in whole.iter().filter(|_| whole.len() > 1) {
        if let Content::Message(message) = chat.content(*seq, 0)? {
            parts.push(*message);
        }
    }
    let parts: Vec<&Message> = if parts.is_empty() {
        vec![message]
    } else {
        parts.iter().collect()
    };
    let given = crate::formats::given(&parts);
    Ok(given
        .and_then(|j| serde_json::from_str(&j.0).ok())
        .unwrap_or(Value::Null))
}

/// A message in neutral form.
#[must_use]
pub fn neutral_json(message: &Message) -> Value {
    let parts: Vec<Value> = message.parts.iter().map(|p| part_json(&p.body)).collect();
    json!({ "role": message.role.name(), "author": message.author.name(), "parts": parts })
}

fn part_json(body: &PartBody) -> Value {
    let raw = |j: &crate::log::Json| {
        serde_json::from_str(&j.0).unwrap_or_else(|_| Value::from(j.0.clone()))
    };
    let block = |b: &crate::log::BlockBody| match b {
        crate::log::BlockBody::Text(text) => json!({ "type": "text", "text": text }),
        crate::log::BlockBody::Media(media, j) => {
            let kind = format!("{media:?}").to_lowercase();
            json!({ "type": kind, "block": raw(j) })
        }
        crate::log::BlockBody::Opaque(name, j) => {
            json!({ "type": "opaque", "name": name, "block": raw(j) })
        }
    };
    match body {
        PartBody::Block(b) => block(b),
        PartBody::Reasoning {
            text,
            signature,
            encrypted,
        } => json!({
            "type": "reasoning", "text": text, "signed": signature.is_some(),
            "encrypted": encrypted.is_some(),
        }),
        PartBody::Call {
            id,
            name,
            arguments,
            native,
        } => json!({
            "type": "call", "id": id, "name": name, "arguments": arguments, "native": native,
        }),
        PartBody::Result {
            call,
            name,
            content,
            error,
            interim,
            native,
            ..
        } => json!({
            "type": "result", "call": call, "name": name, "error": error, "interim": interim,
            "native": native,
            "content": content.iter().map(|b| block(&b.body)).collect::<Vec<_>>(),
        }),
    }
}
