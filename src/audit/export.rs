//! The log in its own format, both ways: JSON Lines with the stored bytes and the payloads with
//! their salts, enough to rebuild and verify the log elsewhere.

use std::collections::BTreeSet;
use std::io::Write;
use std::ops::ControlFlow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::{Adopted, Content, Conversation, Error, Store, intact};
use crate::log::{
    Body, Entry, Hash, Head, Message, PartBody, Seq, entry, entry::Sealed, payload, payload::Secret,
};
use crate::store::Payload;

use super::bundle::{self, Claimed};

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
    /// The log does not hang together, and is not given to others as one that does.
    #[error("the log does not hang together")]
    Unsound,
}

/// A payload in an export line.
#[derive(Serialize, Deserialize)]
struct PayloadLine {
    salt: String,
    bytes: String,
}

/// A blob in an export line, on the first entry that mentions it.
#[derive(Serialize, Deserialize)]
struct BlobLine {
    address: String,
    bytes: String,
}

/// What an import needs of a line; the readable fields beside it are for people.
#[derive(Deserialize)]
struct EntryLine {
    schema: String,
    hash: String,
    stored: String,
    payloads: Vec<Option<PayloadLine>>,
    #[serde(default)]
    blobs: Vec<BlobLine>,
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

/// Takes own lines back, under the same id: an absent log is created (named `name`, else as at its
/// birth), a common prefix is continued. Gives the conversation and how many entries were written.
/// Lines that begin with the line of a bundle have to be all that it says.
///
/// # Errors
/// `source-diverged` when the log holds something else; a line's error where it is no export.
pub fn import_lines(
    store: &Store,
    lines: &mut dyn Iterator<Item = Result<String, std::io::Error>>,
    name: Option<&str>,
) -> Result<(Conversation, u64), ExportError> {
    let mut adopted: Vec<Adopted> = Vec::new();
    let mut blobs = Blobs::default();
    let mut number: u64 = 0;
    let mut claim: Option<Claimed> = None;
    for line in lines {
        number = number.saturating_add(1);
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let damage = |what| ExportError::Line { line: number, what };
        if adopted.is_empty()
            && claim.is_none()
            && let Some(claimed) = bundle::claimed(&line)
        {
            claim = Some(claimed.map_err(damage)?);
            continue;
        }
        let read = read_line(&line).map_err(damage)?;
        blobs.take(&read).map_err(damage)?;
        if let Some(before) = adopted.last()
            && !continues(before, &read)
        {
            let what = "it does not continue the entry of the line before".to_owned();
            return Err(damage(what));
        }
        adopted.push(read);
    }
    if adopted.is_empty() {
        return Err(ExportError::Line {
            line: number,
            what: "there are no entries".to_owned(),
        });
    }
    if let Some(claim) = claim {
        whole(&claim, &adopted).map_err(|what| ExportError::Line { line: number, what })?;
    }
    Ok(store.adopt(adopted, name)?)
}

/// The entries of a bundle are all that its first line says there are.
fn whole(claim: &Claimed, adopted: &[Adopted]) -> Result<(), String> {
    let (wants, has) = (claim.entries, adopted.len());
    if u64::try_from(has) != Ok(wants) {
        return Err(format!("the bundle says {wants} entries and holds {has}"));
    }
    if adopted.last().map(|last| last.sealed.head()) != Some(claim.head) {
        return Err("the last entry is not the head that the bundle names".to_owned());
    }
    Ok(())
}

/// The blobs of an export so far, by the secret that the first entry of each log holds.
#[derive(Default)]
struct Blobs {
    secret: Option<Secret>,
    seen: BTreeSet<Hash>,
}

impl Blobs {
    /// Each blob must be what its address says, and each that is mentioned must have come.
    fn take(&mut self, read: &Adopted) -> Result<(), String> {
        let payloads = || read.payloads.iter().flatten();
        if matches!(read.sealed.entry.body, Body::Opened(_))
            && let Some(found) = payloads().next()
        {
            let secret = payload::decode_secret(&found.bytes);
            self.secret = Some(secret.map_err(|e| e.to_string())?);
        }
        for (address, bytes) in &read.blobs {
            if self
                .secret
                .is_none_or(|secret| secret.address(bytes) != *address)
            {
                return Err(format!(
                    "the blob {} does not match its address",
                    address.short()
                ));
            }
            self.seen.insert(*address);
        }
        for found in payloads() {
            let mentioned = payload::blobs_of(&found.bytes).map_err(|e| e.to_string())?;
            if let Some(missing) = mentioned
                .iter()
                .find(|address| !self.seen.contains(address))
            {
                return Err(format!(
                    "the blob {} is mentioned and missing",
                    missing.short()
                ));
            }
        }
        Ok(())
    }
}

fn continues(before: &Adopted, next: &Adopted) -> bool {
    let (head, entry) = (before.sealed.head(), &next.sealed.entry);
    entry.seq == head.seq.next() && entry.prev == head.hash
}

fn read_line(line: &str) -> Result<Adopted, String> {
    let line: EntryLine = serde_json::from_str(line).map_err(|e| e.to_string())?;
    if line.schema != ENTRY_SCHEMA {
        return Err(format!(
            "the schema is '{}', not '{ENTRY_SCHEMA}'",
            line.schema
        ));
    }
    let stored = decode64(&line.stored)?;
    let sealed = entry::open(&entry::with_checksum(&stored)).map_err(|e| e.to_string())?;
    if sealed.head().hash.to_string() != line.hash {
        return Err("the stored bytes do not have the hash that the line gives".to_owned());
    }
    let commitments = sealed.entry.body.commitments();
    if commitments.len() != line.payloads.len() {
        let (wants, has) = (commitments.len(), line.payloads.len());
        return Err(format!(
            "the entry commits to {wants} payloads, the line holds {has}"
        ));
    }
    let mut payloads = Vec::new();
    for (wanted, held) in commitments.iter().zip(&line.payloads) {
        let Some(held) = held else {
            payloads.push(None);
            continue;
        };
        let salt = decode64(&held.salt)?;
        let salt = salt
            .try_into()
            .map_err(|_| "a salt is not 32 bytes".to_owned())?;
        let found = Payload {
            salt,
            bytes: decode64(&held.bytes)?,
        };
        if payload::commit(&found.salt, &found.bytes) != *wanted {
            return Err("a payload does not match the entry's commitment".to_owned());
        }
        payloads.push(Some(found));
    }
    let mut blobs = Vec::new();
    for blob in &line.blobs {
        let address: Hash = blob
            .address
            .parse()
            .map_err(|_| "a blob's address is no hash")?;
        blobs.push((address, decode64(&blob.bytes)?));
    }
    Ok(Adopted {
        sealed,
        payloads,
        blobs,
    })
}

fn decode64(text: &str) -> Result<Vec<u8>, String> {
    STANDARD
        .decode(text)
        .map_err(|e| format!("not base64: {e}"))
}
