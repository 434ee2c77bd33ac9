//! Names of things: conversations, entries, messages, iterations, hashes, instants.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A conversation's identity: 16 bytes, chosen at birth, the same in every store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConversationId(pub [u8; 16]);

/// A blake3 hash: of an entry, a window or a payload commitment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// 32 zero bytes: the `prev` of a root's first entry, and the digest of an empty window.
    pub const ZERO: Self = Self([0; 32]);
}

/// The dense number of an entry within its conversation, from 0. Never reused.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct Seq(pub u64);

impl Seq {
    /// The number after this one; saturates, which no log can reach.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s:{}", self.0)
    }
}

/// A message's identity: the seq of the entry that introduced it, written `m18`.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct MessageId(pub Seq);

impl MessageId {
    /// The seq of the entry that introduced the message.
    #[must_use]
    pub const fn seq(self) -> Seq {
        self.0
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{}", self.0.0)
    }
}

/// The number of a model call within its conversation, from 1.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct Iteration(pub u64);

impl fmt::Display for Iteration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it:{}", self.0)
    }
}

/// A wall-clock instant as it was reported: microseconds since 1970-01-01T00:00:00Z. Never used
/// for order.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct Micros(pub i64);

impl fmt::Display for Micros {
    /// RFC 3339 in UTC; an instant outside the calendar's range is printed as `µs` since 1970.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match chrono::DateTime::from_timestamp_micros(self.0) {
            Some(t) => f.write_str(&t.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true)),
            None => write!(f, "{} µs", self.0),
        }
    }
}

impl Micros {
    /// Reads RFC 3339, or the same without a zone (taken as UTC). `None` when it is neither.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(t) = chrono::DateTime::parse_from_rfc3339(text) {
            return Some(Self(t.timestamp_micros()));
        }
        let naive = chrono::NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f").ok()?;
        Some(Self(naive.and_utc().timestamp_micros()))
    }
}

/// The newest entry of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Head {
    /// Its number.
    pub seq: Seq,
    /// Its hash.
    pub hash: Hash,
}

/// A text that should have been hexadecimal of a fixed length.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected {expected} hexadecimal digits")]
pub struct ParseHexError {
    expected: usize,
}

fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|b| write!(f, "{b:02x}"))
}

fn read_hex<const N: usize>(text: &str) -> Result<[u8; N], ParseHexError> {
    let expected = N.saturating_mul(2);
    let error = ParseHexError { expected };
    if text.len() != expected || !text.is_ascii() {
        return Err(error);
    }
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(text.as_bytes().chunks(2)) {
        let pair = std::str::from_utf8(pair).map_err(|_| error.clone())?;
        *byte = u8::from_str_radix(pair, 16).map_err(|_| error.clone())?;
    }
    Ok(out)
}

/// Bytes as little-endian words and back: a few words are encoded faster than many bytes, to the same
/// bytes.
fn words<const BYTES: usize, const WORDS: usize>(bytes: &[u8; BYTES]) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    let (chunks, _) = bytes.as_chunks::<8>();
    for (word, chunk) in words.iter_mut().zip(chunks) {
        *word = u64::from_le_bytes(*chunk);
    }
    words
}

fn bytes<const WORDS: usize, const BYTES: usize>(words: [u64; WORDS]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    let (chunks, _) = bytes.as_chunks_mut::<8>();
    for (chunk, word) in chunks.iter_mut().zip(words) {
        *chunk = word.to_le_bytes();
    }
    bytes
}

macro_rules! hex_text {
    ($name:ident, $n:literal, $words:literal) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_hex(&self.0, f)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_hex(&self.0, f)
            }
        }
        /// The stored bytes; in JSON hexadecimal digits.
        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                if s.is_human_readable() {
                    s.collect_str(self)
                } else {
                    words::<$n, $words>(&self.0).serialize(s)
                }
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                if d.is_human_readable() {
                    let text = String::deserialize(d)?;
                    text.parse().map_err(serde::de::Error::custom)
                } else {
                    <[u64; $words]>::deserialize(d).map(|words| Self(bytes(words)))
                }
            }
        }
        impl FromStr for $name {
            type Err = ParseHexError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                read_hex::<$n>(text).map(Self)
            }
        }
    };
}

hex_text!(ConversationId, 16, 2);
hex_text!(Hash, 32, 4);

impl Hash {
    /// The first eight hexadecimal digits, for people.
    #[must_use]
    pub fn short(&self) -> String {
        self.to_string().chars().take(8).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::{decode, encode_into};
    use super::{ConversationId, Hash};

    #[test]
    fn hashes_are_hexadecimal_in_json_and_bytes_elsewhere() {
        let hash = Hash([0xab; 32]);
        let json = serde_json::to_string(&hash).unwrap();
        assert_eq!(json, format!("\"{}\"", "ab".repeat(32)));
        assert_eq!(serde_json::from_str::<Hash>(&json).unwrap(), hash);
        assert!(serde_json::from_str::<Hash>("\"ab\"").is_err());
        let id = ConversationId([7; 16]);
        let mut encoded = Vec::new();
        encode_into(&mut encoded, &id, 99).unwrap();
        assert_eq!(encoded, [7; 16]);
        assert_eq!(decode::<ConversationId>(&[7; 16]).unwrap(), id);
    }
}
