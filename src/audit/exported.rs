//! The file of an export as a store that is read: each entry is found again by where its line begins, so
//! that a log of any length is verified and imported with a few lines in memory.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::engine::{Adopted, Entries, Error};
use crate::log::{Body, ConversationId, Hash, Head, Seq};
use crate::store::{
    Backend, Batch, Level, Listed, Name, Payload, PayloadRef, ShowRecord, StoreError,
};

use super::bundle::{self, Claimed};
use super::export::ExportError;
use super::lines::{Checker, read_line};
use super::readable::Readable;

/// Of so many entries the place of one is held.
const STRIDE: u64 = 32;

/// A log in a file of own lines, with those that a fork's lineage shares.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exported {
    path: PathBuf,
    most: usize,
    claim: Option<Claimed>,
    pieces: Vec<Piece>,
    /// Where every [`STRIDE`]th entry's line begins, and its number.
    places: Vec<(u64, u64)>,
    /// Where the line that brings a blob begins.
    blobs: BTreeMap<Hash, u64>,
}

/// The entries of one log in it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Piece {
    id: ConversationId,
    name: Name,
    first: Seq,
    head: Head,
}

/// A file that is read line by line.
struct Lines {
    input: BufReader<File>,
    at: u64,
    number: u64,
    most: usize,
}

impl Lines {
    fn open(path: &Path, at: u64, number: u64, most: usize) -> io::Result<Self> {
        let mut input = BufReader::with_capacity(1 << 16, File::open(path)?);
        input.seek(SeekFrom::Start(at))?;
        Ok(Self {
            input,
            at,
            number,
            most,
        })
    }

    /// The next line, with where it begins.
    fn next(&mut self) -> Result<Option<(u64, String)>, ExportError> {
        let (from, number) = (self.at, self.number.saturating_add(1));
        let most = u64::try_from(self.most).unwrap_or(u64::MAX);
        let mut bytes = Vec::new();
        let mut part = self.input.by_ref().take(most.saturating_add(1));
        let size = part.read_until(b'\n', &mut bytes)?;
        if size == 0 {
            return Ok(None);
        }
        if size > self.most {
            return Err(ExportError::TooLarge {
                line: number,
                limit: most,
            });
        }
        self.at = from.saturating_add(u64::try_from(size).unwrap_or(u64::MAX));
        self.number = number;
        let line = String::from_utf8(bytes).map_err(|_| damage(number, "not UTF-8"))?;
        Ok(Some((from, line)))
    }
}

fn damage(line: u64, what: impl Into<String>) -> ExportError {
    let what = what.into();
    ExportError::Line { line, what }
}

/// A log that is being read.
#[derive(Default)]
struct Reading {
    checker: Checker,
    pieces: Vec<Piece>,
    places: Vec<(u64, u64)>,
    blobs: BTreeMap<Hash, u64>,
}

impl Reading {
    fn take(&mut self, (at, line): (u64, &str), number: u64) -> Result<(), ExportError> {
        let taken = self
            .checker
            .take(line)
            .map_err(|what| damage(number, what))?;
        let Some(Adopted { sealed, blobs, .. }) = taken else {
            return Ok(());
        };
        let (entry, head) = (&sealed.entry, sealed.head());
        if self.checker.entries % STRIDE == 1 {
            self.places.push((at, number));
        }
        for (address, _) in blobs {
            self.blobs.entry(address).or_insert(at);
        }
        match (self.pieces.last_mut(), &entry.body) {
            (Some(piece), _) if piece.id == entry.conversation => piece.head = head,
            (_, Body::Opened(opened)) => self.pieces.push(Piece {
                id: entry.conversation,
                name: Name {
                    namespace: opened.namespace.clone(),
                    name: opened.name.clone(),
                },
                first: entry.seq,
                head,
            }),
            _ => return Err(damage(number, "the first entry of a log does not open it")),
        }
        Ok(())
    }

    fn end(self, path: &Path, most: usize, number: u64) -> Result<Exported, ExportError> {
        self.checker.end().map_err(|what| damage(number, what))?;
        if self
            .pieces
            .first()
            .is_none_or(|piece| piece.first != Seq(0))
        {
            return Err(damage(number, "the first entry of the log is missing"));
        }
        Ok(Exported {
            path: path.to_owned(),
            most,
            claim: self.checker.claim,
            pieces: self.pieces,
            places: self.places,
            blobs: self.blobs,
        })
    }
}

impl Exported {
    /// Reads a file through: all logs in it, each entry checked by itself and against the one before.
    /// `most` is how many bytes a line may have; `progress` hears how many bytes of how many are read.
    ///
    /// # Errors
    /// [`ExportError::Foreign`] where the file is no export; a line's error where it is a damaged one.
    pub fn all(
        path: &Path,
        most: usize,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Vec<Self>, ExportError> {
        let total = std::fs::metadata(path)?.len();
        let mut lines = Lines::open(path, 0, 0, most)?;
        let (mut logs, mut reading) = (Vec::new(), Reading::default());
        loop {
            let next = match lines.next() {
                Err(ExportError::Line { .. }) if logs.is_empty() && reading.checker.is_empty() => {
                    return Err(ExportError::Foreign);
                }
                next => next?,
            };
            let Some((at, line)) = next else { break };
            progress(lines.at, total);
            let first = logs.is_empty() && reading.checker.is_empty() && !line.trim().is_empty();
            if first && !is_ours(&line) {
                return Err(ExportError::Foreign);
            }
            if reading.checker.entries > 0 && begins(&line) {
                let before = std::mem::take(&mut reading);
                logs.push(before.end(path, most, lines.number.saturating_sub(1))?);
            }
            reading.take((at, &line), lines.number)?;
        }
        if logs.is_empty() && reading.checker.is_empty() {
            return Err(ExportError::Foreign);
        }
        if !reading.checker.is_empty() {
            logs.push(reading.end(path, most, lines.number)?);
        }
        Ok(logs)
    }

    /// The log's name at its birth.
    #[must_use]
    pub fn birth_name(&self) -> &str {
        self.pieces.last().map_or("log", |piece| &piece.name.name)
    }

    /// The conversation it is of; others are what its lineage shares.
    #[must_use]
    pub fn conversation(&self) -> Option<ConversationId> {
        self.pieces.last().map(|piece| piece.id)
    }

    /// Whether its first line says what it holds.
    #[must_use]
    pub const fn is_bundle(&self) -> bool {
        self.claim.is_some()
    }

    /// The checkpoints that a bundle carries.
    #[must_use]
    pub fn carried(&self) -> Option<&str> {
        self.claim.as_ref()?.checkpoint.as_deref()
    }

    /// Holds the fields that are there to be read against the entries and words that count: gives what
    /// the first line is that says something else. `None` beside nothing: another version wrote them, or
    /// nothing says which.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn misread(&self) -> Result<Option<Option<String>>, ExportError> {
        let own = |claim: &Claimed| claim.ctxlog == env!("CARGO_PKG_VERSION");
        if !self.claim.as_ref().is_some_and(own) {
            return Ok(None);
        }
        let mut readable = Readable::default();
        let mut found = None;
        self.each_line((0, 0), &mut |number, line, read| {
            let blob = |address| self.blob_at(address);
            let wrong = readable.differs(line, &read, &blob);
            found = wrong.map(|what| format!("line {number}: {what}"));
            if found.is_some() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        Ok(Some(found))
    }

    /// Shows the entries of this log from a place on, until told to stop.
    fn each_line(
        &self,
        from: (u64, u64),
        show: &mut dyn FnMut(u64, &str, Adopted) -> ControlFlow<()>,
    ) -> Result<(), ExportError> {
        let (at, number) = match self.places.first() {
            Some(first) => *first.max(&from),
            None => return Ok(()),
        };
        let mut lines = Lines::open(&self.path, at, number.saturating_sub(1), self.most)?;
        let last = self.pieces.last().map(|piece| piece.head.seq);
        while let Some((_, line)) = lines.next()? {
            if line.trim().is_empty() {
                continue;
            }
            let read = read_line(&line).map_err(|what| damage(lines.number, what))?;
            let seq = read.sealed.entry.seq;
            if show(lines.number, &line, read).is_break() || Some(seq) >= last {
                break;
            }
        }
        Ok(())
    }

    /// The same for the entries from a number on.
    fn each_from(
        &self,
        from: Seq,
        show: &mut dyn FnMut(Adopted) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let place = usize::try_from(from.0.checked_div(STRIDE).unwrap_or(0)).ok();
        let Some(place) = place.and_then(|at| self.places.get(at)) else {
            return Ok(());
        };
        let read = self.each_line(*place, &mut |_, _, read| {
            if read.sealed.entry.seq < from {
                return ControlFlow::Continue(());
            }
            show(read)
        });
        read.map_err(|error| unreadable(&self.path, error))
    }

    fn piece(&self, id: ConversationId) -> Option<&Piece> {
        self.pieces.iter().find(|piece| piece.id == id)
    }

    fn blob_at(&self, address: Hash) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(at) = self.blobs.get(&address) else {
            return Ok(None);
        };
        let failed = |error| unreadable(&self.path, error);
        let mut lines =
            Lines::open(&self.path, *at, 0, self.most).map_err(|error| failed(error.into()))?;
        let Some((_, line)) = lines.next().map_err(failed)? else {
            return Ok(None);
        };
        let read = read_line(&line).map_err(|what| failed(damage(0, what)))?;
        let mut blobs = read.blobs.into_iter();
        Ok(blobs.find(|(of, _)| *of == address).map(|(_, bytes)| bytes))
    }
}

/// The file is another one than it was a moment ago, or cannot be read any more.
fn unreadable(path: &Path, error: ExportError) -> StoreError {
    let source = match error {
        ExportError::Io(source) => source,
        other => io::Error::other(other.to_string()),
    };
    let what = format!("reading {} again", path.display());
    StoreError::Io { what, source }
}

/// Whether a line is one of an export or a bundle at all.
fn is_ours(line: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Said {
        schema: String,
    }
    let said = serde_json::from_str::<Said>(line);
    let own = |schema: &str| schema == super::ENTRY_SCHEMA || schema == super::BUNDLE_SCHEMA;
    match said {
        Ok(said) => own(&said.schema),
        // A line that was cut off.
        Err(_) => line.contains(super::ENTRY_SCHEMA) || line.contains(super::BUNDLE_SCHEMA),
    }
}

/// Whether a line begins another log.
fn begins(line: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Numbered {
        seq: u64,
    }
    bundle::is_bundle(line) || serde_json::from_str::<Numbered>(line).is_ok_and(|n| n.seq == 0)
}

impl Entries for Exported {
    fn each(
        &self,
        show: &mut dyn FnMut(Cow<'_, Adopted>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut refused = Ok(());
        self.each_from(Seq(0), &mut |read| {
            refused = show(Cow::Owned(read));
            if refused.is_err() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        refused
    }
}

/// A file is read and not written.
fn read_only() -> StoreError {
    let source = io::Error::new(io::ErrorKind::Unsupported, "it is only read");
    let what = "writing to an export".to_owned();
    StoreError::Io { what, source }
}

impl Backend for Exported {
    fn append(&self, _: Batch, _: Level) -> Result<(), StoreError> {
        Err(read_only())
    }

    fn head(&self, conversation: ConversationId) -> Result<Option<Head>, StoreError> {
        Ok(self.piece(conversation).map(|piece| piece.head))
    }

    fn first(&self, conversation: ConversationId) -> Result<Option<Seq>, StoreError> {
        Ok(self.piece(conversation).map(|piece| piece.first))
    }

    fn durable_head(&self, conversation: ConversationId) -> Result<Option<Head>, StoreError> {
        self.head(conversation)
    }

    fn entries(
        &self,
        conversation: ConversationId,
        from: Seq,
        to: Seq,
        show: &mut dyn FnMut(Seq, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.records(conversation, from, to, &mut |seq, bytes, _| {
            show(seq, bytes)
        })
    }

    fn records(
        &self,
        conversation: ConversationId,
        from: Seq,
        to: Seq,
        show: ShowRecord<'_>,
    ) -> Result<(), StoreError> {
        let Some(piece) = self.piece(conversation) else {
            return Ok(());
        };
        if from < piece.first || from > piece.head.seq {
            return Ok(());
        }
        let to = to.min(piece.head.seq);
        self.each_from(from, &mut |read| {
            let seq = read.sealed.entry.seq;
            if seq > to {
                return ControlFlow::Break(());
            }
            let payload = |index: u32| {
                let found = usize::try_from(index).ok();
                let found = found.and_then(|index| read.payloads.get(index)?.as_ref());
                Ok(found.map(|found| PayloadRef {
                    salt: found.salt,
                    bytes: Cow::Borrowed(found.bytes.as_slice()),
                }))
            };
            show(seq, &read.sealed.bytes, &payload)
        })
    }

    fn payload(
        &self,
        conversation: ConversationId,
        seq: Seq,
        index: u32,
    ) -> Result<Option<Payload>, StoreError> {
        let mut found = None;
        self.records(conversation, seq, seq, &mut |_, _, payload| {
            found = Some(payload(index).map(|p| p.map(PayloadRef::into_owned)));
            ControlFlow::Break(())
        })?;
        found.unwrap_or(Ok(None))
    }

    fn destroy_payload(
        &self,
        _: ConversationId,
        _: Seq,
        _: u32,
        _: Level,
    ) -> Result<(), StoreError> {
        Err(read_only())
    }

    fn list(&self, prefix: &[String]) -> Result<Vec<Listed>, StoreError> {
        let pieces = self.pieces.iter();
        let of = pieces.filter(|piece| piece.name.namespace.starts_with(prefix));
        let mut listed: Vec<Listed> = of
            .map(|piece| Listed {
                name: piece.name.clone(),
                conversation: piece.id,
            })
            .collect();
        listed.sort();
        Ok(listed)
    }

    fn find(&self, name: &Name) -> Result<Option<ConversationId>, StoreError> {
        let found = self.pieces.iter().find(|piece| piece.name == *name);
        Ok(found.map(|piece| piece.id))
    }

    fn put_blob(&self, _: ConversationId, _: Hash, _: &[u8]) -> Result<(), StoreError> {
        Err(read_only())
    }

    fn blob(&self, _: ConversationId, address: Hash) -> Result<Option<Vec<u8>>, StoreError> {
        self.blob_at(address)
    }

    fn sweep_blobs(&self, _: ConversationId, _: &dyn Fn(&Hash) -> bool) -> Result<u64, StoreError> {
        Err(read_only())
    }

    fn put_derived(&self, _: ConversationId, _: &str, _: &[u8]) -> Result<(), StoreError> {
        Ok(()) // it may vanish at any time
    }

    fn derived(&self, _: ConversationId, _: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(None)
    }

    fn derived_before(
        &self,
        _: ConversationId,
        _: &str,
        _: &str,
    ) -> Result<Option<(String, Vec<u8>)>, StoreError> {
        Ok(None)
    }

    fn sync(&self, _: Level) -> Result<(), StoreError> {
        Ok(())
    }

    fn check(&self, _: Option<ConversationId>) -> Result<Vec<StoreError>, StoreError> {
        Ok(Vec::new()) // reading it tells all
    }
}
