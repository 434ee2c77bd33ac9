//! What is seen of a message without reading its words: its skeleton and its sizes.

use super::body::{PartKind, PartSkeleton, Skeleton};
use super::payload::BLOB_BYTES_MIN;
use super::{BlockBody, Fields, Media, Message, PartBody, Seq};

/// The skeleton of a message. `answers` says, per part, which call a result binds to.
#[must_use]
pub fn skeleton(message: &Message, answers: &[Option<(Seq, u32)>]) -> Skeleton {
    let parts = message
        .parts
        .iter()
        .enumerate()
        .map(|(i, p)| part_skeleton(&p.body, answers.get(i).copied().flatten()))
        .collect();
    Skeleton {
        role: message.role.clone(),
        author: message.author,
        parts,
        utf16: message.words_utf16(),
        by_script: message.words_by_script(),
        tokens: None,
    }
}

fn part_skeleton(body: &PartBody, answers: Option<(Seq, u32)>) -> PartSkeleton {
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    let (kind, flags, name, label) = match body {
        PartBody::Block(block) => {
            let blank = matches!(block, BlockBody::Text(t) if t.trim().is_empty());
            (
                block_kind(block),
                flag(blank, PartSkeleton::BLANK),
                None,
                None,
            )
        }
        PartBody::Reasoning {
            signature,
            encrypted,
            ..
        } => {
            let signed = signature.is_some() || encrypted.is_some();
            (
                PartKind::Reasoning,
                flag(signed, PartSkeleton::SIGNED),
                None,
                None,
            )
        }
        PartBody::Call {
            id, name, native, ..
        } => {
            let flags = flag(native.is_some(), PartSkeleton::NATIVE);
            (PartKind::Call, flags, Some(name.clone()), id.clone())
        }
        PartBody::Result {
            call,
            name,
            error,
            interim,
            native,
            content,
            ..
        } => {
            let media = |b: &super::Block| matches!(b.body, BlockBody::Media(..));
            let flags = flag(*interim, PartSkeleton::INTERIM)
                | flag(*error == Some(true), PartSkeleton::ERROR)
                | flag(native.is_some(), PartSkeleton::NATIVE)
                | flag(content.iter().any(media), PartSkeleton::MEDIA);
            (PartKind::Result, flags, name.clone(), call.clone())
        }
    };
    PartSkeleton {
        kind,
        bytes: word_bytes(body),
        flags,
        name,
        label,
        answers,
    }
}

const fn block_kind(block: &BlockBody) -> PartKind {
    match block {
        BlockBody::Text(_) => PartKind::Text,
        BlockBody::Media(Media::Image, _) => PartKind::Image,
        BlockBody::Media(Media::Audio, _) => PartKind::Audio,
        BlockBody::Media(Media::Video, _) => PartKind::Video,
        BlockBody::Media(Media::File, _) => PartKind::File,
        BlockBody::Opaque(..) => PartKind::Opaque,
    }
}

fn word_bytes(body: &PartBody) -> u64 {
    let bytes = match body {
        PartBody::Block(b) => b.bytes(),
        PartBody::Reasoning {
            text, encrypted, ..
        } => text
            .len()
            .saturating_add(encrypted.as_ref().map_or(0, String::len)),
        PartBody::Call { arguments, .. } => arguments.len(),
        PartBody::Result { content, .. } => content
            .iter()
            .map(|b| b.body.bytes())
            .fold(0, usize::saturating_add),
    };
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// The longest string of a message, and what its payload holds inline, in bytes: what bounds its
/// blobs and its payload.
#[must_use]
pub fn extent(message: &Message) -> (usize, usize) {
    let mut extent = Extent::default();
    extent.fields(&message.extra);
    for part in &message.parts {
        extent.fields(&part.extra);
        extent.part(&part.body);
    }
    if let Some(source) = &message.source {
        extent.fields(&source.around);
        source.verbatim.iter().for_each(|j| extent.text(&j.0));
    }
    (extent.longest, extent.inline)
}

#[derive(Default)]
struct Extent {
    longest: usize,
    inline: usize,
}

impl Extent {
    fn text(&mut self, text: &str) {
        self.longest = self.longest.max(text.len());
        // A length, or a variant and an address, beside the bytes themselves.
        let inline = if text.len() < BLOB_BYTES_MIN {
            text.len()
        } else {
            0
        };
        self.inline = self.inline.saturating_add(inline).saturating_add(64);
    }

    fn fields(&mut self, fields: &Fields) {
        for (name, json) in fields {
            self.text(name);
            self.text(&json.0);
        }
    }

    fn block(&mut self, block: &BlockBody) {
        match block {
            BlockBody::Text(text) => self.text(text),
            BlockBody::Media(_, json) | BlockBody::Opaque(_, json) => self.text(&json.0),
        }
    }

    fn part(&mut self, part: &PartBody) {
        match part {
            PartBody::Block(block) => self.block(block),
            PartBody::Reasoning {
                text,
                signature,
                encrypted,
            } => {
                self.text(text);
                signature.iter().chain(encrypted).for_each(|t| self.text(t));
            }
            PartBody::Call {
                name, arguments, ..
            } => {
                self.text(name);
                self.text(arguments);
            }
            PartBody::Result { content, .. } => {
                for block in content {
                    self.block(&block.body);
                    self.fields(&block.extra);
                }
            }
        }
    }
}
