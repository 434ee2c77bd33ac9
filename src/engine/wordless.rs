//! A message whose words are gone, as its entry still tells of it: who spoke, which calls it made or
//! answered, how it hangs together, and how much it said.

use crate::log::{
    Appended, Block, BlockBody, Fields, Json, Media, Message, Part, PartBody, PartKind,
    PartSkeleton, Shape, Skeleton, skeleton,
};

/// What stands for words: as long as they were, four characters a token, and no word that anybody
/// could be thought to quote.
const FILLING: &str = "... ";
/// Fillings of three and two bytes that are one unit of UTF-16 each.
const WIDE: &str = "\u{2026}";
const MIDDLE: &str = "\u{b7}";
/// The same where nothing was said but white space.
const BLANK: [&str; 3] = [" ", "\u{3000}", "\u{a0}"];

/// The message of an entry without its words, in the same parts and of the same size.
pub(super) fn without_words(a: &Appended) -> Message {
    let narrow = message(&a.skeleton, 0, false);
    // Bytes of a signed reasoning may have been words or sealed: the size in UTF-16 tells.
    let sealed = units(&narrow) > a.skeleton.utf16 && has_signed(&a.skeleton);
    let narrow = if sealed {
        message(&a.skeleton, 0, true)
    } else {
        narrow
    };
    match units(&narrow).saturating_sub(a.skeleton.utf16) {
        0 => narrow,
        more => message(&a.skeleton, more, sealed),
    }
}

fn units(message: &Message) -> u64 {
    skeleton::skeleton(message, &[]).utf16
}

fn has_signed(skeleton: &Skeleton) -> bool {
    let mut parts = skeleton.parts.iter();
    parts.any(|p| p.kind == PartKind::Reasoning && p.is(PartSkeleton::SIGNED))
}

/// The parts, with so many units of UTF-16 fewer than bytes.
fn message(of: &Skeleton, fewer: u64, sealed: bool) -> Message {
    let mut fill = Filling { fewer };
    let parts = of.parts.iter().map(|p| Part {
        body: body(p, sealed, &mut fill),
        extra: Fields::new(),
    });
    Message::new(of.role.clone(), of.author, parts.collect())
}

fn body(p: &PartSkeleton, sealed: bool, fill: &mut Filling) -> PartBody {
    let native = || p.is(PartSkeleton::NATIVE).then(|| "redacted".to_owned());
    let media = |media| {
        // Its words are its kind's name, whatever its bytes.
        PartBody::Block(BlockBody::Media(media, Filling::hidden(p.bytes)))
    };
    match p.kind {
        PartKind::Text if p.is(PartSkeleton::BLANK) => {
            PartBody::Block(BlockBody::Text(fill.with(p.bytes, BLANK)))
        }
        PartKind::Text => PartBody::Block(BlockBody::Text(fill.text(p.bytes))),
        PartKind::Image => media(Media::Image),
        PartKind::Audio => media(Media::Audio),
        PartKind::Video => media(Media::Video),
        PartKind::File => media(Media::File),
        PartKind::Opaque => {
            PartBody::Block(BlockBody::Opaque("redacted".to_owned(), fill.json(p.bytes)))
        }
        PartKind::Reasoning => {
            let signed = p.is(PartSkeleton::SIGNED);
            let seals = sealed && signed;
            PartBody::Reasoning {
                text: fill.text(if seals { 0 } else { p.bytes }),
                signature: signed.then(String::new),
                encrypted: seals.then(|| ".".repeat(size(p.bytes))),
            }
        }
        PartKind::Call => PartBody::Call {
            id: p.label.clone(),
            name: p.name.clone().unwrap_or_default(),
            arguments: fill.json(p.bytes).0,
            native: native(),
        },
        PartKind::Result => PartBody::Result {
            call: p.label.clone(),
            name: p.name.clone(),
            content: result(p, fill),
            shape: Shape::List,
            error: p.is(PartSkeleton::ERROR).then_some(true),
            interim: p.is(PartSkeleton::INTERIM),
            native: native(),
        },
    }
}

fn result(p: &PartSkeleton, fill: &mut Filling) -> Vec<Block> {
    let block = |body| Block {
        body,
        extra: Fields::new(),
    };
    if p.is(PartSkeleton::NATIVE) {
        let whole = fill.json(p.bytes);
        return vec![block(BlockBody::Opaque("redacted".to_owned(), whole))];
    }
    if p.is(PartSkeleton::MEDIA) {
        let hidden = Filling::hidden(p.bytes);
        return vec![block(BlockBody::Media(Media::Image, hidden))];
    }
    vec![block(BlockBody::Text(fill.text(p.bytes)))]
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(0)
}

/// Gives fillings until it gave as many fewer units than bytes as the words had.
struct Filling {
    fewer: u64,
}

impl Filling {
    fn text(&mut self, bytes: u64) -> String {
        self.with(bytes, [FILLING, WIDE, MIDDLE])
    }

    fn with(&mut self, bytes: u64, [narrow, wide_one, middle_one]: [&str; 3]) -> String {
        let wide = (self.fewer / 2).min(bytes / 3);
        self.fewer = self.fewer.saturating_sub(wide.saturating_mul(2));
        let left = bytes.saturating_sub(wide.saturating_mul(3));
        let middle = u64::from(self.fewer == 1 && left >= 2);
        self.fewer = self.fewer.saturating_sub(middle);
        let left = left.saturating_sub(middle.saturating_mul(2));
        let mut text: String = narrow.chars().cycle().take(size(left)).collect();
        text.push_str(&middle_one.repeat(size(middle)));
        text.push_str(&wide_one.repeat(size(wide)));
        text
    }

    /// The same as a JSON string, where there is room for its marks.
    fn json(&mut self, bytes: u64) -> Json {
        match bytes.checked_sub(2) {
            Some(inner) => Json(format!("\"{}\"", self.text(inner))),
            None => Json("0".repeat(size(bytes))),
        }
    }

    /// JSON that is no words: it has its size, and takes no part in what is to be fewer.
    fn hidden(bytes: u64) -> Json {
        Self { fewer: 0 }.json(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::log::{Author, Commitment, Hash, Role};

    fn part() -> impl Strategy<Value = PartBody> {
        let words = || "(\\PC|[a-z ]{0,30}){0,12}";
        let sealed = || prop::option::of("[a-z]{0,9}");
        let name = || prop::option::of("[a-z]{1,5}");
        let text = |t: String| BlockBody::Text(t);
        let media = prop::sample::select(vec![Media::Image, Media::Audio, Media::File]);
        prop_oneof![
            words().prop_map(move |t| PartBody::Block(text(t))),
            "[ \n]{0,4}".prop_map(move |t| PartBody::Block(text(t))),
            (media, "\\[[0-9]{0,40}\\]")
                .prop_map(|(m, j)| PartBody::Block(BlockBody::Media(m, Json(j)))),
            (words(), sealed(), sealed()).prop_map(|(text, signature, encrypted)| {
                PartBody::Reasoning {
                    text: if encrypted.is_some() {
                        String::new()
                    } else {
                        text
                    },
                    signature,
                    encrypted,
                }
            }),
            (name(), "[a-z]{1,5}", words(), name()).prop_map(|(id, name, arguments, native)| {
                PartBody::Call {
                    id,
                    name,
                    arguments,
                    native,
                }
            }),
            (
                name(),
                name(),
                words(),
                any::<Option<bool>>(),
                any::<bool>()
            )
                .prop_map(|(call, name, text, error, interim)| PartBody::Result {
                    call,
                    name,
                    content: vec![Block {
                        body: BlockBody::Text(text),
                        extra: Fields::new(),
                    }],
                    shape: Shape::Text,
                    error,
                    interim,
                    native: None,
                }),
        ]
    }

    proptest! {
        /// What is left of a message is seen as the message was, but for what its words alone tell.
        #[test]
        fn a_message_without_words_has_its_skeleton(
            bodies in prop::collection::vec(part(), 0..4),
        ) {
            let part = |body| Part { body, extra: Fields::new() };
            let parts = bodies.into_iter().map(part).collect();
            let said = Message::new(Role::Assistant, Author::Model, parts);
            let seen = skeleton::skeleton(&said, &[]);
            let entry = Appended {
                skeleton: seen.clone(),
                content: Commitment { digest: Hash::ZERO, bytes: 0 },
                continues: None,
                same_source: None,
                produced_by: None,
            };
            let left = skeleton::skeleton(&without_words(&entry), &[]);
            prop_assert_eq!(&seen.parts, &left.parts);
            // A part of a few bytes has no room for its marks and for fewer units; of signed reasoning
            // no one tells how much was words.
            let parts = u64::try_from(seen.parts.len()).unwrap();
            prop_assert!(has_signed(&seen) || seen.utf16.abs_diff(left.utf16) <= 4 * parts, "{seen:?} {left:?}");
        }
    }
}
