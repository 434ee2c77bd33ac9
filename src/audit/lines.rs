//! Lines of an export, read back: each is checked by itself and against the one before.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::engine::{Adopted, Conversation, Store};
use crate::log::{Body, Hash, Head, entry, payload, payload::Secret};
use crate::store::Payload;

use super::bundle::{self, Claimed};
use super::export::{BlobLine, ENTRY_SCHEMA, ExportError, PayloadLine};

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

/// Takes own lines back, under the same id: an absent log is created (named `name`, else as at its
/// birth), a common prefix is continued. Gives the conversation and how many entries were written.
/// Lines that begin with the line of a bundle have to be all that it says. All of them are held in
/// memory; of a file, [`super::Exported`] holds a few at a time.
///
/// # Errors
/// `source-diverged` when the log holds something else; a line's error where it is no export.
pub fn import_lines(
    store: &Store,
    lines: &mut dyn Iterator<Item = Result<String, std::io::Error>>,
    name: Option<&str>,
) -> Result<(Conversation, u64), ExportError> {
    let mut adopted: Vec<Adopted> = Vec::new();
    let mut checker = Checker::default();
    let mut number: u64 = 0;
    for line in lines {
        number = number.saturating_add(1);
        let taken = checker.take(&line?);
        let taken = taken.map_err(|what| ExportError::Line { line: number, what })?;
        adopted.extend(taken);
    }
    let ended = checker.end();
    ended.map_err(|what| ExportError::Line { line: number, what })?;
    Ok(store.adopt(adopted.as_slice(), name)?)
}

/// The lines of one log so far.
#[derive(Default)]
pub(super) struct Checker {
    pub(super) claim: Option<Claimed>,
    pub(super) head: Option<Head>,
    pub(super) entries: u64,
    blobs: Blobs,
}

impl Checker {
    /// Takes the next line. Gives the entry in it; there is none in an empty line, and in the first one of
    /// a bundle.
    pub(super) fn take(&mut self, line: &str) -> Result<Option<Adopted>, String> {
        if line.trim().is_empty() {
            return Ok(None);
        }
        if self.entries == 0
            && self.claim.is_none()
            && let Some(claimed) = bundle::claimed(line)
        {
            self.claim = Some(claimed?);
            return Ok(None);
        }
        let read = read_line(line)?;
        self.blobs.take(&read)?;
        if self.head.is_some_and(|head| !continues(head, &read)) {
            return Err("it does not continue the entry of the line before".to_owned());
        }
        self.head = Some(read.sealed.head());
        self.entries = self.entries.saturating_add(1);
        Ok(Some(read))
    }

    /// Whether anything came.
    pub(super) const fn is_empty(&self) -> bool {
        self.entries == 0 && self.claim.is_none()
    }

    /// The entries of a bundle are all that its first line says there are.
    pub(super) fn end(&self) -> Result<(), String> {
        if self.entries == 0 {
            return Err("there are no entries".to_owned());
        }
        let Some(claim) = &self.claim else {
            return Ok(());
        };
        let (wants, has) = (claim.entries, self.entries);
        if has != wants {
            return Err(format!("the bundle says {wants} entries and holds {has}"));
        }
        if self.head != Some(claim.head) {
            return Err("the last entry is not the head that the bundle names".to_owned());
        }
        Ok(())
    }
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

fn continues(head: Head, next: &Adopted) -> bool {
    let entry = &next.sealed.entry;
    entry.seq == head.seq.next() && entry.prev == head.hash
}

pub(super) fn read_line(line: &str) -> Result<Adopted, String> {
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
