//! Entries and their one codec: a fixed envelope around a bincode body, then a checksum.
//!
//! ```text
//! offset size field
//!      0    4 magic "CTXL"
//!      4    1 format version (1)
//!      5    1 kind
//!      6    1 flags: 1 must-understand, 2 `at` is present
//!      7    1 provenance
//!      8   16 conversation id
//!     24    8 seq, u64 LE
//!     32    8 iteration, u64 LE
//!     40    8 at, i64 LE, microseconds since 1970 (0 where absent)
//!     48   32 prev: hash of the entry before
//!     80    4 body length n, u32 LE
//!     84    4 reserved, zero
//!     88    n body
//!   88+n    4 crc32c of the 88+n bytes before, u32 LE
//! ```
//!
//! The hash is blake3 in derive-key mode, context `ctxlog entry v1`, over the 88+n bytes. Nothing
//! outside this module calls bincode.

use std::cell::Cell;

use bincode::Options;
use serde::{Deserialize, Serialize};

use crate::planted::{Bug, planted};

use super::body::{Body, Door, Kind, Provenance};
use super::hashing::Derived;
use super::{ConversationId, Hash, Head, Iteration, Micros, Seq};

/// The first bytes of every entry.
pub const MAGIC: [u8; 4] = *b"CTXL";
/// The format version this code writes.
pub const FORMAT: u8 = 1;
/// Bytes before the body.
pub const ENVELOPE_BYTES: usize = 88;
/// Bytes after the body.
pub const CHECKSUM_BYTES: usize = 4;
/// The largest body, in bytes.
pub const BODY_BYTES_MAX: usize = 16 << 20;

/// Where the envelope says how long the body is.
const LENGTH_AT: usize = 80;
/// What most entries fit in.
const ENTRY_BYTES_USUAL: usize = 448;
/// How much room to encode in a thread keeps.
const ROOM_BYTES: usize = 256 << 10;
const ENTRY_CONTEXT: &str = "ctxlog entry v1";
const FLAG_MUST_UNDERSTAND: u8 = 1;
const FLAG_AT: u8 = 2;

/// Through which door something came, and in whose name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct By {
    /// The door.
    pub door: Door,
    /// The principal; empty where none is known.
    pub principal: String,
}

/// An idempotency key: the request it names wrote `entries` entries, this one first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Key {
    /// The caller's key.
    pub text: String,
    /// How many entries the request wrote.
    pub entries: u32,
}

/// An entry, decoded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The log.
    pub conversation: ConversationId,
    /// Its number.
    pub seq: Seq,
    /// 1 + the number of `called` entries before it: the first call that can see its effect.
    pub iteration: Iteration,
    /// Wall time as reported.
    pub at: Option<Micros>,
    /// The hash of the entry before.
    pub prev: Hash,
    /// How it is known.
    pub provenance: Provenance,
    /// Whether later windows need this entry understood.
    pub must_understand: bool,
    /// Who filed it.
    pub by: By,
    /// The request's idempotency key, on the first entry the request wrote.
    pub key: Option<Key>,
    /// What it records.
    pub body: Body,
}

/// An entry with its stored bytes and hash.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sealed {
    /// The entry.
    pub entry: Entry,
    /// Its hash.
    pub hash: Hash,
    /// Envelope, body, checksum.
    pub bytes: Vec<u8>,
}

impl Sealed {
    /// The head a log has when this is its newest entry.
    #[must_use]
    pub const fn head(&self) -> Head {
        Head {
            seq: self.entry.seq,
            hash: self.hash,
        }
    }
}

/// Bytes that are no entry, or an entry that cannot be written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// Fewer bytes than an envelope and a checksum, or than the envelope announces.
    #[error("the entry is cut short or has bytes too many")]
    Length,
    /// The first four bytes are wrong.
    #[error("the entry does not begin with its magic number")]
    Magic,
    /// A format version this code does not know.
    #[error("the entry has format {0}; this version reads format {FORMAT}")]
    Format(u8),
    /// The checksum is wrong.
    #[error("the entry's checksum is wrong")]
    Checksum,
    /// A field has a value it cannot have.
    #[error("the entry's {0} has a value it cannot have")]
    Field(&'static str),
    /// The body does not decode.
    #[error("the entry's body does not decode: {0}")]
    Body(String),
    /// What is to be encoded exceeds a limit.
    #[error("an entry or content of {bytes} bytes exceeds the limit of {limit}")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
}

fn unlimited() -> impl Options {
    bincode::DefaultOptions::new()
        .with_fixint_encoding()
        .with_little_endian()
        .with_no_limit()
        .reject_trailing_bytes()
}

/// Encodes a value the one way this crate does, behind what `out` holds.
///
/// # Errors
/// [`CodecError::TooLarge`] when it exceeds `limit` bytes.
pub(crate) fn encode_into<T: Serialize>(
    out: &mut Vec<u8>,
    value: &T,
    limit: usize,
) -> Result<(), CodecError> {
    let before = out.len();
    // The value is in memory already, so its size is compared when it is known.
    let encoded = unlimited().serialize_into(&mut *out, value);
    encoded.map_err(|e| CodecError::Body(e.to_string()))?;
    let bytes = out.len().saturating_sub(before);
    if bytes > limit {
        let wide = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        return Err(CodecError::TooLarge {
            bytes: wide(bytes),
            limit: wide(limit),
        });
    }
    Ok(())
}

/// The same behind `before`, in no more room than it needs: logs in memory keep these bytes.
pub(crate) fn encode_tight<T: Serialize>(
    before: &[u8],
    value: &T,
    limit: usize,
) -> Result<Vec<u8>, CodecError> {
    let mut room = ROOM.take();
    room.clear();
    room.extend_from_slice(before);
    encode_into(&mut room, value, limit)?;
    let bytes = room.as_slice().to_vec();
    if room.capacity() <= ROOM_BYTES {
        ROOM.set(room);
    }
    Ok(bytes)
}

thread_local! {
    static ROOM: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Decodes a value from exactly these bytes; never allocates more than a small multiple of them.
///
/// # Errors
/// When they are no such value.
pub(crate) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, CodecError> {
    let limit = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    unlimited()
        .with_limit(limit)
        .deserialize(bytes)
        .map_err(|e| CodecError::Body(e.to_string()))
}

/// What every body begins with.
#[derive(Serialize, Deserialize)]
struct Framed<By, Key, B> {
    by: By,
    key: Key,
    body: B,
}

/// Encodes the body behind the envelope. Of an unknown body the framing cannot be told apart, so all
/// of it was kept.
fn encode_body(out: &mut Vec<u8>, entry: &Entry) -> Result<(), CodecError> {
    macro_rules! framed {
        ($body:expr) => {{
            let (by, key, body) = (&entry.by, &entry.key, $body);
            encode_into(out, &Framed { by, key, body }, BODY_BYTES_MAX)
        }};
    }
    match &entry.body {
        Body::Opened(b) => framed!(b),
        Body::Configured(b) => framed!(b),
        Body::Appended(b) => framed!(b),
        Body::Called(b) => framed!(b),
        Body::Returned(b) => framed!(b),
        Body::Visited(b) => framed!(b),
        Body::Edited(b) => framed!(b),
        Body::Redacted(b) => framed!(b),
        Body::Noted(b) => framed!(b),
        Body::Unknown { bytes, .. } => {
            out.extend_from_slice(bytes);
            Ok(())
        }
    }
}

fn decode_body(kind: u8, bytes: &[u8]) -> Result<(By, Option<Key>, Body), CodecError> {
    macro_rules! framed {
        ($variant:ident) => {{
            let framed: Framed<By, Option<Key>, _> = decode(bytes)?;
            Ok((framed.by, framed.key, Body::$variant(framed.body)))
        }};
    }
    match Kind::from_code(kind) {
        Some(Kind::Opened) => framed!(Opened),
        Some(Kind::Configured) => framed!(Configured),
        Some(Kind::Appended) => framed!(Appended),
        Some(Kind::Called) => framed!(Called),
        Some(Kind::Returned) => framed!(Returned),
        Some(Kind::Visited) => framed!(Visited),
        Some(Kind::Edited) => framed!(Edited),
        Some(Kind::Redacted) => framed!(Redacted),
        Some(Kind::Noted) => framed!(Noted),
        _ => {
            let by = By {
                door: Door::Library,
                principal: String::new(),
            };
            Ok((
                by,
                None,
                Body::Unknown {
                    kind,
                    bytes: bytes.to_vec(),
                },
            ))
        }
    }
}

/// Writes an entry's stored bytes and computes its hash.
///
/// # Errors
/// [`CodecError::TooLarge`] when the body exceeds [`BODY_BYTES_MAX`].
pub fn seal(entry: Entry) -> Result<Sealed, CodecError> {
    let (hash, bytes) = store(&entry)?;
    Ok(Sealed { entry, hash, bytes })
}

/// An entry's hash and stored bytes.
pub(crate) fn store(entry: &Entry) -> Result<(Hash, Vec<u8>), CodecError> {
    let must = if entry.must_understand {
        FLAG_MUST_UNDERSTAND
    } else {
        0
    };
    let timed = if entry.at.is_some() { FLAG_AT } else { 0 };
    let mut bytes = Vec::with_capacity(ENTRY_BYTES_USUAL);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&[
        FORMAT,
        entry.body.code(),
        must | timed,
        entry.provenance.code(),
    ]);
    bytes.extend_from_slice(&entry.conversation.0);
    bytes.extend_from_slice(&entry.seq.0.to_le_bytes());
    bytes.extend_from_slice(&entry.iteration.0.to_le_bytes());
    bytes.extend_from_slice(&entry.at.map_or(0, |t| t.0).to_le_bytes());
    bytes.extend_from_slice(&entry.prev.0);
    // The body's length, known when it is there, and four reserved bytes.
    bytes.extend_from_slice(&[0; 8]);
    encode_body(&mut bytes, entry)?;
    let body = bytes.len().saturating_sub(ENVELOPE_BYTES);
    let too_large = || CodecError::TooLarge {
        bytes: u64::try_from(body).unwrap_or(u64::MAX),
        limit: u64::try_from(BODY_BYTES_MAX).unwrap_or(u64::MAX),
    };
    if body > BODY_BYTES_MAX {
        return Err(too_large());
    }
    let length = u32::try_from(body).map_err(|_| too_large())?;
    let place = bytes.get_mut(LENGTH_AT..).unwrap_or_default();
    place
        .iter_mut()
        .zip(length.to_le_bytes())
        .for_each(|(to, from)| *to = from);
    let hash = hash_of(&bytes);
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    Ok((hash, bytes))
}

fn hash_of(hashed: &[u8]) -> Hash {
    thread_local! {
        static HASHER: Derived = Derived::new(ENTRY_CONTEXT);
    }
    let hash = |bytes: &[u8]| HASHER.with(|h| h.hash(&[bytes]));
    if planted(Bug::HashOmitsKind) {
        return hash(&without(hashed, 5..6));
    }
    if planted(Bug::HashOmitsParent) {
        return hash(&without(hashed, 48..80));
    }
    hash(hashed)
}

/// Bytes with a range of them blanked out, for the bugs that forget it.
fn without(bytes: &[u8], forgotten: std::ops::Range<usize>) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes
        .get_mut(forgotten)
        .into_iter()
        .flatten()
        .for_each(|byte| *byte = 0);
    bytes
}

/// An entry's envelope, checked, with its body undecoded.
struct Envelope<'a> {
    conversation: ConversationId,
    seq: Seq,
    iteration: Iteration,
    at: Option<Micros>,
    prev: Hash,
    provenance: Provenance,
    must_understand: bool,
    kind: u8,
    body: &'a [u8],
    hashed: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Checks come before decoding: length, magic, format, checksum, then the fields.
    fn read(bytes: &'a [u8]) -> Result<Self, CodecError> {
        let (envelope, rest) = bytes
            .split_at_checked(ENVELOPE_BYTES)
            .ok_or(CodecError::Length)?;
        let mut fields = Fields(envelope);
        if fields.take::<4>()? != MAGIC {
            return Err(CodecError::Magic);
        }
        let [format, kind, flags, provenance] = fields.take::<4>()?;
        if format != FORMAT {
            return Err(CodecError::Format(format));
        }
        let conversation = ConversationId(fields.take()?);
        let seq = Seq(u64::from_le_bytes(fields.take()?));
        let iteration = Iteration(u64::from_le_bytes(fields.take()?));
        let at = i64::from_le_bytes(fields.take()?);
        let prev = Hash(fields.take()?);
        let length = u32::from_le_bytes(fields.take()?);
        let reserved = fields.take::<4>()?;
        let length = usize::try_from(length).map_err(|_| CodecError::Length)?;
        if rest.len() != length.saturating_add(CHECKSUM_BYTES) || length > BODY_BYTES_MAX {
            return Err(CodecError::Length);
        }
        let hashed_bytes = bytes.len().saturating_sub(CHECKSUM_BYTES);
        let (hashed, checksum) = bytes
            .split_at_checked(hashed_bytes)
            .ok_or(CodecError::Length)?;
        if crc32c::crc32c(hashed).to_le_bytes().as_slice() != checksum {
            return Err(CodecError::Checksum);
        }
        let timed = flags & FLAG_AT != 0;
        if flags & !(FLAG_MUST_UNDERSTAND | FLAG_AT) != 0 || (!timed && at != 0) {
            return Err(CodecError::Field("flags"));
        }
        if reserved != [0; 4] {
            return Err(CodecError::Field("reserved bytes"));
        }
        Ok(Self {
            conversation,
            seq,
            iteration,
            at: timed.then_some(Micros(at)),
            prev,
            provenance: Provenance::from_code(provenance).ok_or(CodecError::Field("provenance"))?,
            must_understand: flags & FLAG_MUST_UNDERSTAND != 0,
            kind,
            body: rest.get(..length).ok_or(CodecError::Length)?,
            hashed,
        })
    }

    /// Decodes the body within its own length.
    fn entry(&self) -> Result<Entry, CodecError> {
        let (by, key, body) = decode_body(self.kind, self.body)?;
        Ok(Entry {
            conversation: self.conversation,
            seq: self.seq,
            iteration: self.iteration,
            at: self.at,
            prev: self.prev,
            provenance: self.provenance,
            must_understand: self.must_understand,
            by,
            key,
            body,
        })
    }
}

/// Reads stored bytes back, with their hash. Checks come before decoding: length, magic, format,
/// checksum, then the fields, then the body within its own length.
///
/// # Errors
/// What is wrong with the bytes. An unknown kind is no error: see [`Body::Unknown`].
pub fn open(bytes: &[u8]) -> Result<Sealed, CodecError> {
    let (entry, hash) = open_hashed(bytes)?;
    let bytes = bytes.to_vec();
    Ok(Sealed { entry, hash, bytes })
}

/// The same without a copy of the bytes.
pub(crate) fn open_hashed(bytes: &[u8]) -> Result<(Entry, Hash), CodecError> {
    let envelope = Envelope::read(bytes)?;
    Ok((envelope.entry()?, hash_of(envelope.hashed)))
}

/// An entry whose kind is wanted, without its hash; one of another kind is checked, not decoded.
pub(crate) fn open_if(
    bytes: &[u8],
    wanted: impl FnOnce(Option<Kind>) -> bool,
) -> Result<Option<Entry>, CodecError> {
    let envelope = Envelope::read(bytes)?;
    if !wanted(Kind::from_code(envelope.kind)) {
        return Ok(None);
    }
    envelope.entry().map(Some)
}

/// The same without hashing them.
pub(crate) fn decode_entry(bytes: &[u8]) -> Result<Entry, CodecError> {
    Envelope::read(bytes)?.entry()
}

/// The hash of an entry's stored bytes, whatever they are.
#[must_use]
pub fn hash(bytes: &[u8]) -> Hash {
    hash_of(hashed(bytes))
}

/// The hash of the entry before, as stored bytes name it; `None` where they are no entry. Nothing
/// else of them is checked.
#[must_use]
pub fn prev_of(bytes: &[u8]) -> Option<Hash> {
    let prev = bytes.get(48..80)?.try_into().ok()?;
    (bytes.get(..4)? == MAGIC).then_some(Hash(prev))
}

/// The bytes an entry's hash covers: all but the checksum.
#[must_use]
pub fn hashed(bytes: &[u8]) -> &[u8] {
    bytes
        .get(..bytes.len().saturating_sub(CHECKSUM_BYTES))
        .unwrap_or_default()
}

/// Puts the checksum back behind hashed bytes.
#[must_use]
pub fn with_checksum(hashed: &[u8]) -> Vec<u8> {
    let mut bytes = hashed.to_vec();
    bytes.extend_from_slice(&crc32c::crc32c(hashed).to_le_bytes());
    bytes
}

/// A cursor over fixed-size fields.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let (field, rest) = self.0.split_first_chunk::<N>().ok_or(CodecError::Length)?;
        self.0 = rest;
        Ok(*field)
    }
}
