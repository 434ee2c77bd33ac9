//! Checkpoints: commitments to a head that are kept elsewhere, and what they tell of a log.
//!
//! A note is three lines in the shape of C2SP tlog-checkpoint: an origin, a number of entries, the
//! hash of the last of them in base64. Where it is signed, an empty line and signatures follow, as in
//! C2SP signed-note. Several notes are parted by an empty line. There is one way to write a
//! checkpoint; whatever else stands in a note is an error, with its line.

use std::fmt;
use std::ops::ControlFlow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::engine::{Error, Store};
use crate::log::{ConversationId, Hash, Head, Seq, entry};
use crate::store::StoreError;

use super::verify::Verified;

/// What an origin begins with; the conversation's id follows.
const ORIGIN: &str = "ctxlog/";
/// What a signature's line begins with: an em dash.
const DASH: &str = "\u{2014} ";

/// How what is not covered begins where a log is held to no checkpoint.
pub(super) const NONE_KEPT: &str = "no checkpoint is kept elsewhere";

/// The largest file of notes that is read, in bytes.
pub const NOTES_BYTES_MAX: u64 = 16 << 20;
/// The longest line of a note, in bytes.
const LINE_BYTES_MAX: usize = 1_024;
/// The most signatures below a note.
const SIGNATURES_MAX: usize = 16;

/// A commitment to the first entries of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    conversation: ConversationId,
    head: Head,
}

impl Checkpoint {
    /// The commitment to all entries up to a head. `None` where its number is beyond counting.
    #[must_use]
    pub fn of(conversation: ConversationId, head: Head) -> Option<Self> {
        head.seq.0.checked_add(1)?;
        Some(Self { conversation, head })
    }

    /// Whose log.
    #[must_use]
    pub const fn conversation(&self) -> ConversationId {
        self.conversation
    }

    /// The last entry it covers.
    #[must_use]
    pub const fn head(&self) -> Head {
        self.head
    }

    /// How many entries it covers.
    #[must_use]
    pub const fn entries(&self) -> u64 {
        self.head.seq.0.saturating_add(1)
    }

    /// The first line of its note.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("{ORIGIN}{}", self.conversation)
    }
}

impl fmt::Display for Checkpoint {
    /// The three lines, which are what a signature is of.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hash = STANDARD.encode(self.head.hash.0);
        writeln!(f, "{}\n{}\n{hash}", self.origin(), self.entries())
    }
}

/// A signature below a note, as it stands there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    /// What the key is called.
    pub key: String,
    /// The first bytes of the key's hash, which tell keys of one name apart.
    pub id: [u8; 4],
    /// The signature itself.
    pub bytes: Vec<u8>,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [self.id.as_slice(), &self.bytes].concat();
        write!(f, "{DASH}{} {}", self.key, STANDARD.encode(all))
    }
}

/// A checkpoint with its signatures, none of which was checked by reading it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// What it commits to.
    pub checkpoint: Checkpoint,
    /// Who says so.
    pub signatures: Vec<Signature>,
    /// The line it begins in, from 1; 0 for one that was not read.
    pub line: usize,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.checkpoint)?;
        if !self.signatures.is_empty() {
            writeln!(f)?;
        }
        self.signatures.iter().try_for_each(|s| writeln!(f, "{s}"))
    }
}

/// A text that holds no checkpoints.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct NoteError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: &'static str,
}

/// Reads notes.
///
/// # Errors
/// Where a line is not what stands in a note, or there is none.
pub fn read_notes(text: &str) -> Result<Vec<Note>, NoteError> {
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > NOTES_BYTES_MAX {
        let what = "there are more than 16 MiB of notes";
        return Err(NoteError { line: 1, what });
    }
    let mut lines = Lines {
        rest: text.split('\n'),
        number: 0,
    };
    let mut notes: Vec<Note> = Vec::new();
    let mut blank = true;
    while let Some(line) = lines.next()? {
        let number = lines.number;
        let refuse = |what| Err(NoteError { line: number, what });
        if line.is_empty() {
            blank = true;
        } else if line.starts_with(DASH) {
            let Some(note) = notes.last_mut() else {
                return refuse("a signature stands below no checkpoint");
            };
            if note.signatures.is_empty() && !blank {
                return refuse("an empty line is missing above the signatures");
            }
            if !note.signatures.is_empty() && blank {
                return refuse("an empty line parts signatures of one checkpoint");
            }
            if note.signatures.len() >= SIGNATURES_MAX {
                return refuse("there are more than 16 signatures below one checkpoint");
            }
            blank = false;
            match signature(line) {
                Ok(signature) => note.signatures.push(signature),
                Err(what) => return refuse(what),
            }
        } else if !blank {
            return refuse("a checkpoint has three lines, and an empty one before the next");
        } else {
            blank = false;
            notes.push(note(line, &mut lines)?);
        }
    }
    if notes.is_empty() {
        let what = "there is no checkpoint";
        return Err(NoteError { line: 1, what });
    }
    Ok(notes)
}

struct Lines<'a> {
    rest: std::str::Split<'a, char>,
    number: usize,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Result<Option<&'a str>, NoteError> {
        let Some(line) = self.rest.next() else {
            return Ok(None);
        };
        self.number = self.number.saturating_add(1);
        if line.len() > LINE_BYTES_MAX {
            return Err(self.refuse("it is longer than any line of a checkpoint"));
        }
        if line.ends_with('\r') {
            return Err(self.refuse("it ends with a carriage return; a checkpoint's lines do not"));
        }
        Ok(Some(line))
    }

    fn needed(&mut self, missing: &'static str) -> Result<&'a str, NoteError> {
        let line = self.next()?.filter(|line| !line.is_empty());
        line.ok_or_else(|| self.refuse(missing))
    }

    const fn refuse(&self, what: &'static str) -> NoteError {
        let line = self.number;
        NoteError { line, what }
    }
}

fn note(origin: &str, lines: &mut Lines<'_>) -> Result<Note, NoteError> {
    let line = lines.number;
    let conversation = origin
        .strip_prefix(ORIGIN)
        .and_then(|id| id.parse::<ConversationId>().ok())
        // Which digits a checkpoint is written with is not a choice.
        .filter(|id| origin.strip_prefix(ORIGIN) == Some(id.to_string().as_str()))
        .ok_or_else(|| {
            lines.refuse("the origin is not 'ctxlog/' and a conversation's id of 32 digits")
        })?;
    let entries = lines.needed("the number of entries is missing")?;
    let seq = entries
        .parse::<u64>()
        .ok()
        .filter(|n| n.to_string() == entries)
        .and_then(|n| n.checked_sub(1))
        .ok_or_else(|| lines.refuse("the number of entries is not a whole number above 0"))?;
    let hash = lines.needed("the hash is missing")?;
    let hash = STANDARD
        .decode(hash)
        .ok()
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| lines.refuse("the hash is not 32 bytes in base64"))?;
    let head = Head {
        seq: Seq(seq),
        hash: Hash(hash),
    };
    Ok(Note {
        checkpoint: Checkpoint { conversation, head },
        signatures: Vec::new(),
        line,
    })
}

fn signature(line: &str) -> Result<Signature, &'static str> {
    let said = line.strip_prefix(DASH).unwrap_or(line);
    let (key, encoded) = said
        .split_once(' ')
        .filter(|(key, _)| is_key_name(key))
        .ok_or("a signature is a dash, a key's name and base64, parted by one space")?;
    let short = "the signature is not base64 of a key's four bytes and a signature";
    let all = STANDARD.decode(encoded).map_err(|_| short)?;
    let (id, bytes) = all.split_first_chunk::<4>().ok_or(short)?;
    if bytes.is_empty() {
        return Err(short);
    }
    Ok(Signature {
        key: key.to_owned(),
        id: *id,
        bytes: bytes.to_vec(),
    })
}

/// Whether a key may be called so.
pub(super) fn is_key_name(name: &str) -> bool {
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && c != '+';
    !name.is_empty() && name.len() <= 256 && name.chars().all(plain)
}

/// What came of holding a log to checkpoints, in `verify`'s answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Held {
    /// Whether the log is the one that all of them speak of.
    pub ok: bool,
    /// How many speak of it.
    pub notes: u64,
    /// The first that does not fit: `shortened`, `rewritten` or `split`.
    pub broken: Option<Breach>,
    /// How many entries the newest one covers that fits.
    pub entries: u64,
    /// How many entries came after those.
    pub after: u64,
    /// The key whose signature each of them carries; `None` where none was asked for.
    pub signed_by: Option<String>,
}

/// How a log is not the one that a checkpoint speaks of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Breach {
    /// The log has fewer entries.
    Shortened,
    /// The entry of that number is another one.
    Rewritten,
    /// Two checkpoints speak of two histories of one log.
    Split,
}

/// Holds a verified log to the checkpoints of it: what does not fit becomes a problem of the answer,
/// and what they cannot show replaces that none is kept. Notes of other conversations are passed over;
/// where none is left, the answer stays as it is.
///
/// # Errors
/// When the store cannot be read.
pub fn hold(
    verified: &mut Verified,
    store: &Store,
    conversation: ConversationId,
    notes: &[Note],
    signed_by: Option<&str>,
) -> Result<(), Error> {
    let of = |n: &&Note| n.checkpoint.conversation == conversation;
    let mut kept: Vec<Head> = notes.iter().filter(of).map(|n| n.checkpoint.head).collect();
    if kept.is_empty() {
        return Ok(());
    }
    let notes = u64::try_from(kept.len()).unwrap_or(u64::MAX);
    kept.sort_by_key(|head| (head.seq, head.hash));
    kept.dedup();
    // Where the log ends goes by its head record: a chain that is broken is not a shorter one.
    let recorded = store.backend().head(conversation).ok().flatten();
    let judged = judge(store, conversation, recorded.or(verified.head), &kept)?;
    let newest = judged.iter().rev().find(|(_, breach)| breach.is_none());
    let entries = newest.map_or(0, |(head, _)| head.seq.0.saturating_add(1));
    let mut broken = None;
    for (head, breach) in &judged {
        let Some(breach) = *breach else { continue };
        broken = broken.or(Some(breach));
        verified.ok = false;
        verified.problems.push(sentence(*head, breach));
        let first = verified.first_bad.map_or(head.seq, |bad| bad.min(head.seq));
        verified.first_bad = Some(first);
    }
    let held = Held {
        ok: broken.is_none(),
        notes,
        broken,
        entries,
        after: verified.entries.saturating_sub(entries),
        signed_by: signed_by.map(str::to_owned),
    };
    // Where no checkpoint fits, none vouches for anything.
    if let Some((newest, _)) = newest {
        let uncovered = uncovered(*newest, &held);
        verified
            .not_covered
            .retain(|gap| !gap.starts_with(NONE_KEPT));
        verified.not_covered.insert(0, uncovered);
    }
    if signed_by.is_none() {
        let gap = "whether the checkpoint is the one that was kept: no public key was given, so no \
                   signature was checked";
        verified.not_covered.push(gap.to_owned());
    }
    verified.checkpoint = Some(held);
    Ok(())
}

/// Compares each checkpoint, in the order of their numbers, with the log.
fn judge(
    store: &Store,
    conversation: ConversationId,
    newest: Option<Head>,
    kept: &[Head],
) -> Result<Vec<(Head, Option<Breach>)>, Error> {
    let mut judged = Vec::new();
    for head in kept {
        let breach = if newest.is_none_or(|newest| head.seq > newest.seq) {
            Some(Breach::Shortened)
        } else if found(store, conversation, head.seq)? == Some(head.hash) {
            None
        } else {
            Some(Breach::Rewritten)
        };
        judged.push((*head, breach));
    }
    // One that fits speaks for all entries before it: an earlier one that does not is of another
    // history, and so is one of two that have the same number.
    let fits = judged.iter().filter(|(_, breach)| breach.is_none());
    let upto = fits.map(|(head, _)| head.seq).max();
    let mut before = None;
    for at in 0..judged.len() {
        let after = judged.get(at.saturating_add(1)).map(|(head, _)| head.seq);
        let Some((head, breach)) = judged.get_mut(at) else {
            break;
        };
        let seq = Some(head.seq);
        if breach.is_some() && (before == seq || after == seq || upto >= seq) {
            *breach = Some(Breach::Split);
        }
        before = seq;
    }
    Ok(judged)
}

/// The hash of the entry of this number.
fn found(store: &Store, id: ConversationId, seq: Seq) -> Result<Option<Hash>, Error> {
    let mut hash = None;
    let read = store.backend().entries(id, seq, seq, &mut |_, bytes| {
        hash = Some(entry::hash(bytes));
        ControlFlow::Break(())
    });
    match read {
        // What is damaged is no entry; the chain tells of it.
        Ok(()) | Err(StoreError::Damaged { .. }) => Ok(hash),
        Err(error) => Err(error.into()),
    }
}

fn sentence(head: Head, breach: Breach) -> String {
    let (seq, short) = (head.seq, head.hash.short());
    match breach {
        Breach::Shortened => format!(
            "shortened: a checkpoint speaks of {} entries, and {seq} is not there",
            head.seq.0.saturating_add(1)
        ),
        Breach::Rewritten => {
            format!("rewritten: a checkpoint has {short} for {seq}, which is another entry here")
        }
        Breach::Split => format!(
            "split history: a checkpoint has {short} for {seq}, and another checkpoint speaks of \
             another log up to there"
        ),
    }
}

fn uncovered(newest: Head, held: &Held) -> String {
    let seq = newest.seq;
    match held.after {
        0 => format!(
            "what may have come after {seq}, which the newest checkpoint covers: an entry that went \
             together with its head record leaves no trace"
        ),
        1 => format!(
            "the entry after {seq}, the last that the newest checkpoint covers: it could vanish or be \
             rewritten unseen"
        ),
        after => format!(
            "the {after} entries after {seq}, the last that the newest checkpoint covers: they could \
             vanish or be rewritten unseen"
        ),
    }
}
