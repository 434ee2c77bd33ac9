//! Payloads: the words. An entry commits to each by a salted digest; destroying salt and bytes
//! leaves every proof valid.
//!
//! A payload's first byte is its tag: 1 a message (bincode of the frozen wire structs here), 2 JSON
//! text, 3 a lineage's secret. Long strings of a message are blobs: the payload holds their address.

use std::borrow::Cow;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::body::Commitment;
use super::entry::{CodecError, decode, encode_tight};
use super::hashing::Derived;
use super::{
    Author, Block, BlockBody, Fields, Hash, Json, Media, Message, Part, PartBody, Role, Shape,
    Source,
};

const PAYLOAD_CONTEXT: &str = "ctxlog payload v1";
const TAG_MESSAGE: u8 = 1;
const TAG_TEXT: u8 = 2;
const TAG_SECRET: u8 = 3;

/// Strings of at least this many bytes are stored as blobs.
pub const BLOB_BYTES_MIN: usize = 64 << 10;
/// The largest payload, in bytes, blobs aside.
pub const PAYLOAD_BYTES_MAX: usize = 256 << 20;

/// The key of a lineage's blob addresses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u8; 32]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// The address of a blob in this lineage.
    #[must_use]
    pub fn address(&self, bytes: &[u8]) -> Hash {
        Hash(*blake3::keyed_hash(&self.0, bytes).as_bytes())
    }
}

/// What an entry commits to: salt, then bytes.
#[must_use]
pub fn commit(salt: &[u8; 32], bytes: &[u8]) -> Commitment {
    thread_local! {
        static HASHER: Derived = Derived::new(PAYLOAD_CONTEXT);
    }
    Commitment {
        digest: HASHER.with(|h| h.hash(&[salt, bytes])),
        bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
    }
}

/// A string of a message: inline, or a blob. Encoding and decoding borrow it.
#[derive(Serialize, Deserialize)]
enum Text<'a> {
    Inline(#[serde(borrow)] Cow<'a, str>),
    Blob { address: Hash, bytes: u64 },
}

#[derive(Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
enum BlockWire<'a> {
    Text(Text<'a>),
    Media(u8, Text<'a>),
    Opaque(#[serde(borrow)] Cow<'a, str>, Text<'a>),
}

type FieldsWire<'a> = Vec<(Cow<'a, str>, Text<'a>)>;

#[derive(Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
enum PartWire<'a> {
    Block(BlockWire<'a>),
    Reasoning {
        text: Text<'a>,
        signature: Option<Cow<'a, str>>,
        encrypted: Option<Text<'a>>,
    },
    Call {
        id: Option<Cow<'a, str>>,
        #[serde(borrow)]
        name: Cow<'a, str>,
        arguments: Text<'a>,
        native: Option<Cow<'a, str>>,
    },
    Result(ResultWire<'a>),
}

#[derive(Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct ResultWire<'a> {
    call: Option<Cow<'a, str>>,
    name: Option<Cow<'a, str>>,
    content: Vec<(BlockWire<'a>, FieldsWire<'a>)>,
    shape: u8,
    error: Option<bool>,
    interim: bool,
    native: Option<Cow<'a, str>>,
}

#[derive(Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct SourceWire<'a> {
    format: Cow<'a, str>,
    id: Option<Cow<'a, str>>,
    around: FieldsWire<'a>,
    verbatim: Option<Text<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct MessageWire<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    author: Author,
    parts: Vec<(PartWire<'a>, FieldsWire<'a>)>,
    shape: u8,
    extra: FieldsWire<'a>,
    source: Option<SourceWire<'a>>,
}

const fn shape_code(shape: Shape) -> u8 {
    match shape {
        Shape::Absent => 0,
        Shape::Null => 1,
        Shape::Text => 2,
        Shape::List => 3,
    }
}

const fn shape_of(code: u8) -> Option<Shape> {
    Some(match code {
        0 => Shape::Absent,
        1 => Shape::Null,
        2 => Shape::Text,
        3 => Shape::List,
        _ => return None,
    })
}

const fn media_code(media: Media) -> u8 {
    match media {
        Media::Image => 1,
        Media::Audio => 2,
        Media::Video => 3,
        Media::File => 4,
    }
}

const fn media_of(code: u8) -> Option<Media> {
    Some(match code {
        1 => Media::Image,
        2 => Media::Audio,
        3 => Media::Video,
        4 => Media::File,
        _ => return None,
    })
}

/// A payload's bytes with the blobs it refers to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Encoded {
    /// The payload's bytes.
    pub bytes: Vec<u8>,
    /// Blobs by address, to be stored before the entry.
    pub blobs: Vec<(Hash, Vec<u8>)>,
}

/// Encodes a message, moving long strings out as blobs of the lineage.
///
/// # Errors
/// When it exceeds [`PAYLOAD_BYTES_MAX`].
pub fn encode_message(message: &Message, secret: &Secret) -> Result<Encoded, CodecError> {
    let mut out = Blobs {
        secret: Some(secret),
        blobs: Vec::new(),
    };
    let wire = out.message(message);
    let bytes = encode_tight(&[TAG_MESSAGE], &wire, PAYLOAD_BYTES_MAX)?;
    Ok(Encoded {
        bytes,
        blobs: out.blobs,
    })
}

/// As in a payload, with all its words in place.
impl Serialize for Message {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut whole = Blobs {
            secret: None,
            blobs: Vec::new(),
        };
        whole.message(self).serialize(to)
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut whole = Joiner {
            secret: &Secret([0; 32]),
            fetch: &mut |_| Ok(None),
        };
        let wire = MessageWire::deserialize(from)?;
        whole.message(wire).map_err(D::Error::custom)
    }
}

/// Encodes JSON text.
#[must_use]
pub fn encode_text(text: &str) -> Vec<u8> {
    let mut bytes = vec![TAG_TEXT];
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// Encodes a lineage's secret.
#[must_use]
pub fn encode_secret(secret: &Secret) -> Vec<u8> {
    let mut bytes = vec![TAG_SECRET];
    bytes.extend_from_slice(&secret.0);
    bytes
}

/// Decodes JSON text.
///
/// # Errors
/// When the bytes are something else.
pub fn decode_text(bytes: &[u8]) -> Result<String, CodecError> {
    match bytes.split_first() {
        Some((&TAG_TEXT, text)) => {
            String::from_utf8(text.to_vec()).map_err(|_| CodecError::Field("text"))
        }
        _ => Err(CodecError::Field("payload tag")),
    }
}

/// Decodes a lineage's secret.
///
/// # Errors
/// When the bytes are something else.
pub fn decode_secret(bytes: &[u8]) -> Result<Secret, CodecError> {
    match bytes.split_first() {
        Some((&TAG_SECRET, rest)) => rest
            .try_into()
            .map(Secret)
            .map_err(|_| CodecError::Field("secret")),
        _ => Err(CodecError::Field("payload tag")),
    }
}

/// A failure while reading a message back.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadError {
    /// The bytes are no message.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The bytes are not those that the entry committed to.
    #[error("it is not what its entry committed to")]
    Mismatch,
    /// A blob is gone.
    #[error("the blob {} of {bytes} bytes is missing", .address.short())]
    MissingBlob {
        /// Its address.
        address: Hash,
        /// Its length.
        bytes: u64,
    },
    /// A blob is not what its address says.
    #[error("the blob {} does not match its address", .address.short())]
    DamagedBlob {
        /// Its address.
        address: Hash,
    },
    /// The store failed.
    #[error("{0}")]
    Store(String),
}

/// Finds blobs by address.
pub type Fetch<'a> = &'a mut dyn FnMut(Hash) -> Result<Option<Vec<u8>>, PayloadError>;

/// Decodes a message, fetching its blobs. Each blob is checked against the payload, which the
/// entry's commitment covers.
///
/// # Errors
/// When the bytes are no message or a blob is missing or damaged.
pub fn decode_message(
    bytes: &[u8],
    secret: &Secret,
    fetch: Fetch<'_>,
) -> Result<Message, PayloadError> {
    let Some((&TAG_MESSAGE, rest)) = bytes.split_first() else {
        return Err(CodecError::Field("payload tag").into());
    };
    let wire: MessageWire<'_> = decode(rest)?;
    Joiner { secret, fetch }.message(wire)
}

/// The addresses of the blobs a payload mentions.
///
/// # Errors
/// When the bytes are no message.
pub fn blobs_of(bytes: &[u8]) -> Result<Vec<Hash>, CodecError> {
    let Some((&TAG_MESSAGE, rest)) = bytes.split_first() else {
        return Ok(Vec::new());
    };
    let wire: MessageWire<'_> = decode(rest)?;
    let mut found = Vec::new();
    let secret = Secret([0; 32]);
    let mut fetch = |address: Hash| {
        found.push(address);
        Ok(None)
    };
    // Every lookup answers "missing"; the joiner is told to go on by treating it as empty.
    let mut joiner = Lenient(Joiner {
        secret: &secret,
        fetch: &mut fetch,
    });
    joiner.walk(&wire);
    Ok(found)
}

struct Lenient<'a>(Joiner<'a>);

impl Lenient<'_> {
    fn text(&mut self, text: &Text<'_>) {
        if let Text::Blob { address, .. } = text {
            // The answer is known to be "missing"; only the question matters.
            let _ = (self.0.fetch)(*address);
        }
    }

    fn fields(&mut self, fields: &FieldsWire<'_>) {
        fields.iter().for_each(|(_, text)| self.text(text));
    }

    fn block(&mut self, block: &BlockWire<'_>) {
        match block {
            BlockWire::Text(t) | BlockWire::Media(_, t) | BlockWire::Opaque(_, t) => self.text(t),
        }
    }

    fn walk(&mut self, wire: &MessageWire<'_>) {
        for (part, extra) in &wire.parts {
            self.fields(extra);
            match part {
                PartWire::Block(block) => self.block(block),
                PartWire::Reasoning {
                    text, encrypted, ..
                } => {
                    self.text(text);
                    encrypted.iter().for_each(|t| self.text(t));
                }
                PartWire::Call { arguments, .. } => self.text(arguments),
                PartWire::Result(result) => {
                    for (block, extra) in &result.content {
                        self.block(block);
                        self.fields(extra);
                    }
                }
            }
        }
        self.fields(&wire.extra);
        if let Some(source) = &wire.source {
            self.fields(&source.around);
            source.verbatim.iter().for_each(|t| self.text(t));
        }
    }
}

struct Blobs<'a> {
    /// Without one, no string is moved out.
    secret: Option<&'a Secret>,
    blobs: Vec<(Hash, Vec<u8>)>,
}

impl Blobs<'_> {
    fn text<'m>(&mut self, text: &'m str) -> Text<'m> {
        let Some(secret) = self.secret.filter(|_| text.len() >= BLOB_BYTES_MIN) else {
            return Text::Inline(text.into());
        };
        let address = secret.address(text.as_bytes());
        self.blobs.push((address, text.as_bytes().to_vec()));
        Text::Blob {
            address,
            bytes: u64::try_from(text.len()).unwrap_or(u64::MAX),
        }
    }

    fn fields<'m>(&mut self, fields: &'m Fields) -> FieldsWire<'m> {
        fields
            .iter()
            .map(|(name, json)| (name.into(), self.text(&json.0)))
            .collect()
    }

    fn block<'m>(&mut self, block: &'m BlockBody) -> BlockWire<'m> {
        match block {
            BlockBody::Text(text) => BlockWire::Text(self.text(text)),
            BlockBody::Media(media, json) => {
                BlockWire::Media(media_code(*media), self.text(&json.0))
            }
            BlockBody::Opaque(name, json) => BlockWire::Opaque(name.into(), self.text(&json.0)),
        }
    }

    fn part<'m>(&mut self, part: &'m PartBody) -> PartWire<'m> {
        match part {
            PartBody::Block(block) => PartWire::Block(self.block(block)),
            PartBody::Reasoning {
                text,
                signature,
                encrypted,
            } => PartWire::Reasoning {
                text: self.text(text),
                signature: signature.as_deref().map(Cow::from),
                encrypted: encrypted.as_deref().map(|t| self.text(t)),
            },
            PartBody::Call {
                id,
                name,
                arguments,
                native,
            } => PartWire::Call {
                id: id.as_deref().map(Cow::from),
                name: name.into(),
                arguments: self.text(arguments),
                native: native.as_deref().map(Cow::from),
            },
            PartBody::Result {
                call,
                name,
                content,
                shape,
                error,
                interim,
                native,
            } => {
                let content = content
                    .iter()
                    .map(|b| (self.block(&b.body), self.fields(&b.extra)))
                    .collect();
                PartWire::Result(ResultWire {
                    call: call.as_deref().map(Cow::from),
                    name: name.as_deref().map(Cow::from),
                    content,
                    shape: shape_code(*shape),
                    error: *error,
                    interim: *interim,
                    native: native.as_deref().map(Cow::from),
                })
            }
        }
    }

    fn message<'m>(&mut self, m: &'m Message) -> MessageWire<'m> {
        MessageWire {
            role: m.role.name().into(),
            author: m.author,
            parts: m
                .parts
                .iter()
                .map(|p| (self.part(&p.body), self.fields(&p.extra)))
                .collect(),
            shape: shape_code(m.shape),
            extra: self.fields(&m.extra),
            source: m.source.as_ref().map(|s| SourceWire {
                format: (&s.format).into(),
                id: s.id.as_deref().map(Cow::from),
                around: self.fields(&s.around),
                verbatim: s.verbatim.as_ref().map(|j| self.text(&j.0)),
            }),
        }
    }
}

struct Joiner<'a> {
    secret: &'a Secret,
    fetch: Fetch<'a>,
}

impl Joiner<'_> {
    fn text(&mut self, text: Text<'_>) -> Result<String, PayloadError> {
        match text {
            Text::Inline(text) => Ok(text.into_owned()),
            Text::Blob { address, bytes } => {
                let found =
                    (self.fetch)(address)?.ok_or(PayloadError::MissingBlob { address, bytes })?;
                if self.secret.address(&found) != address {
                    return Err(PayloadError::DamagedBlob { address });
                }
                String::from_utf8(found).map_err(|_| PayloadError::DamagedBlob { address })
            }
        }
    }

    fn fields(&mut self, fields: FieldsWire<'_>) -> Result<Fields, PayloadError> {
        fields
            .into_iter()
            .map(|(name, text)| Ok((name.into_owned(), Json(self.text(text)?))))
            .collect()
    }

    fn block(&mut self, block: BlockWire<'_>) -> Result<BlockBody, PayloadError> {
        Ok(match block {
            BlockWire::Text(text) => BlockBody::Text(self.text(text)?),
            BlockWire::Media(code, text) => BlockBody::Media(
                media_of(code).ok_or(CodecError::Field("media"))?,
                Json(self.text(text)?),
            ),
            BlockWire::Opaque(name, text) => {
                BlockBody::Opaque(name.into_owned(), Json(self.text(text)?))
            }
        })
    }

    fn part(&mut self, part: PartWire<'_>) -> Result<PartBody, PayloadError> {
        Ok(match part {
            PartWire::Block(block) => PartBody::Block(self.block(block)?),
            PartWire::Reasoning {
                text,
                signature,
                encrypted,
            } => PartBody::Reasoning {
                text: self.text(text)?,
                signature: signature.map(Cow::into_owned),
                encrypted: encrypted.map(|t| self.text(t)).transpose()?,
            },
            PartWire::Call {
                id,
                name,
                arguments,
                native,
            } => PartBody::Call {
                id: id.map(Cow::into_owned),
                name: name.into_owned(),
                arguments: self.text(arguments)?,
                native: native.map(Cow::into_owned),
            },
            PartWire::Result(result) => self.result(result)?,
        })
    }

    fn result(&mut self, r: ResultWire<'_>) -> Result<PartBody, PayloadError> {
        let content = r
            .content
            .into_iter()
            .map(|(body, extra)| {
                Ok(Block {
                    body: self.block(body)?,
                    extra: self.fields(extra)?,
                })
            })
            .collect::<Result<_, PayloadError>>()?;
        Ok(PartBody::Result {
            call: r.call.map(Cow::into_owned),
            name: r.name.map(Cow::into_owned),
            content,
            shape: shape_of(r.shape).ok_or(CodecError::Field("shape"))?,
            error: r.error,
            interim: r.interim,
            native: r.native.map(Cow::into_owned),
        })
    }

    fn message(&mut self, m: MessageWire<'_>) -> Result<Message, PayloadError> {
        let parts = m
            .parts
            .into_iter()
            .map(|(body, extra)| {
                Ok(Part {
                    body: self.part(body)?,
                    extra: self.fields(extra)?,
                })
            })
            .collect::<Result<_, PayloadError>>()?;
        let source = match m.source {
            None => None,
            Some(s) => Some(Source {
                format: s.format.into_owned(),
                id: s.id.map(Cow::into_owned),
                around: self.fields(s.around)?,
                verbatim: s.verbatim.map(|t| self.text(t)).transpose()?.map(Json),
            }),
        };
        Ok(Message {
            role: Role::from_name(&m.role),
            author: m.author,
            parts,
            shape: shape_of(m.shape).ok_or(CodecError::Field("shape"))?,
            extra: self.fields(m.extra)?,
            source,
        })
    }
}
