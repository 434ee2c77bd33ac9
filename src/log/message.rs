//! Conversation content in a neutral form that keeps what the source said.
//!
//! A message is read from a source format and can be written back to it equal as JSON; what this
//! model does not name is kept as JSON text beside it.

use serde::{Deserialize, Serialize};

use super::codes::codes;

/// Who a message speaks as, on the wire.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub enum Role {
    /// Instructions.
    System,
    /// Instructions, under OpenAI's newer name.
    Developer,
    /// The user's side: a person, or an application on their behalf.
    User,
    /// The model's side.
    Assistant,
    /// The result of a tool.
    Tool,
    /// A role this model does not know; kept, never rendered except as it was.
    Other(String),
}

impl Role {
    /// The name people and tools see.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::System => "system",
            Self::Developer => "developer",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::Other(name) => name,
        }
    }

    /// The role with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name {
            "system" => Self::System,
            "developer" => Self::Developer,
            "user" => Self::User,
            "assistant" => Self::Assistant,
            "tool" => Self::Tool,
            other => Self::Other(other.to_owned()),
        }
    }

    /// Whether messages of this role are instructions.
    #[must_use]
    pub const fn is_instruction(&self) -> bool {
        matches!(self, Self::System | Self::Developer)
    }
}

codes! {
    /// Who wrote a message. Set by the door it came through; nothing looks at text to find it.
    Author {
        /// A human.
        Person = 1, "person";
        /// A model.
        Model = 2, "model";
        /// A tool.
        Tool = 3, "tool";
        /// The application: system prompts, injected text, compaction summaries of a source.
        Application = 4, "application";
        /// ctxlog itself: synthetic results, notices.
        Engine = 5, "engine";
        /// A strategy: claims.
        Strategy = 6, "strategy";
    }
}

/// JSON text, kept exactly as it was given (key order, spacing, escapes, big numbers).
#[derive(Clone, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Json(pub String);

/// Named JSON values in source order; names may repeat, as they may in JSON.
pub type Fields = Vec<(String, Json)>;

/// How the source wrote a content: these mean the same to a reader and not to a provider.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum Shape {
    /// No such field.
    Absent,
    /// `null`.
    Null,
    /// A string.
    Text,
    /// A list of blocks.
    #[default]
    List,
}

/// What kind of media a block holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Media {
    /// A picture.
    Image,
    /// Sound.
    Audio,
    /// Moving pictures.
    Video,
    /// A document or other file.
    File,
}

/// Content that may stand in a message or inside a tool result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BlockBody {
    /// Words.
    Text(String),
    /// Media: the whole block as its source format wrote it.
    Media(Media, Json),
    /// An item only its provider understands, kept whole; the name is the source's type.
    Opaque(String, Json),
}

/// A block with the fields this model does not name. Media and opaque blocks hold everything in
/// their body and leave `extra` empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// The content.
    pub body: BlockBody,
    /// Other fields of a text block (`cache_control`, `citations`, …).
    pub extra: Fields,
}

/// What a part of a message is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PartBody {
    /// Text, media or an opaque item.
    Block(BlockBody),
    /// A model's reasoning. `signature` binds it to the message it stands in; `encrypted` is a
    /// provider's sealed form.
    Reasoning {
        /// The words; may be empty beside a signature.
        text: String,
        /// The provider's signature over it, byte for byte.
        signature: Option<String>,
        /// Redacted or encrypted content, byte for byte.
        encrypted: Option<String>,
    },
    /// A call of a tool.
    Call {
        /// The provider's id: a label, unique only among calls open at one time.
        id: Option<String>,
        /// The tool's name.
        name: String,
        /// The arguments, exactly as given; JSON text as a rule, but a source may hold anything.
        arguments: String,
        /// The source's block type where the provider itself runs the call (`server_tool_use`).
        native: Option<String>,
    },
    /// The result of a call.
    Result {
        /// The id of the call it answers, where the source gives one.
        call: Option<String>,
        /// The tool's name, where the source gives one.
        name: Option<String>,
        /// What came back.
        content: Vec<Block>,
        /// How the source wrote `content`.
        shape: Shape,
        /// The source's error mark, where it has one.
        error: Option<bool>,
        /// Whether a final result is still to come.
        interim: bool,
        /// The source's block type where the provider itself ran the call. Then `content` is one
        /// opaque block holding the whole.
        native: Option<String>,
    },
}

/// One part of a message, with the fields this model does not name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// What it is.
    pub body: PartBody,
    /// Other fields of the part in the source.
    pub extra: Fields,
}

/// Where a message came from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Source {
    /// The format's name (`openai-chat`, `anthropic`, `claude-code`, …).
    pub format: String,
    /// The source's own id of the message (a uuid), where it has one.
    pub id: Option<String>,
    /// Fields that stood around the message in its record (a session line's `cwd`, `version`, …).
    pub around: Fields,
    /// The whole source message, kept only where the neutral form could not give it back.
    pub verbatim: Option<Json>,
}

/// One message: the payload of an `appended` entry, and of claims and new forms.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// Who it speaks as.
    pub role: Role,
    /// Who wrote it.
    pub author: Author,
    /// Its content, in order.
    pub parts: Vec<Part>,
    /// How the source wrote `content`.
    pub shape: Shape,
    /// Other fields of the message in the source.
    pub extra: Fields,
    /// Where it came from; absent when the application made it.
    pub source: Option<Source>,
}

impl Part {
    /// A text part.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            body: PartBody::Block(BlockBody::Text(text.into())),
            extra: Fields::new(),
        }
    }

    /// A call of a client tool.
    #[must_use]
    pub fn call(id: &str, name: &str, arguments: &str) -> Self {
        let body = PartBody::Call {
            id: Some(id.to_owned()),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            native: None,
        };
        Self {
            body,
            extra: Fields::new(),
        }
    }

    /// A final text result of a client tool.
    #[must_use]
    pub fn result(call: &str, text: &str) -> Self {
        let block = Block {
            body: BlockBody::Text(text.to_owned()),
            extra: Fields::new(),
        };
        let body = PartBody::Result {
            call: Some(call.to_owned()),
            name: None,
            content: vec![block],
            shape: Shape::Text,
            error: None,
            interim: false,
            native: None,
        };
        Self {
            body,
            extra: Fields::new(),
        }
    }
}

impl Message {
    /// A message without a source.
    #[must_use]
    pub fn new(role: Role, author: Author, parts: Vec<Part>) -> Self {
        let one_text = matches!(
            parts.as_slice(),
            [Part { body: PartBody::Block(BlockBody::Text(_)), extra }] if extra.is_empty()
        );
        let shape = if one_text { Shape::Text } else { Shape::List };
        Self {
            role,
            author,
            parts,
            shape,
            extra: Fields::new(),
            source: None,
        }
    }

    /// The application's instructions.
    #[must_use]
    pub fn system(text: impl Into<String>) -> Self {
        Self::new(Role::System, Author::Application, vec![Part::text(text)])
    }

    /// A person's words.
    #[must_use]
    pub fn person(text: impl Into<String>) -> Self {
        Self::new(Role::User, Author::Person, vec![Part::text(text)])
    }

    /// A model's words.
    #[must_use]
    pub fn model(text: impl Into<String>) -> Self {
        Self::new(Role::Assistant, Author::Model, vec![Part::text(text)])
    }

    /// A model's calls of tools, with optional words before them.
    #[must_use]
    pub fn calls(parts: Vec<Part>) -> Self {
        Self::new(Role::Assistant, Author::Model, parts)
    }

    /// A tool's final result.
    #[must_use]
    pub fn tool(call: &str, text: &str) -> Self {
        Self::new(Role::Tool, Author::Tool, vec![Part::result(call, text)])
    }

    /// All its words joined, for people and counters: text, reasoning, arguments, results. Media are
    /// named, not spelled out.
    #[must_use]
    pub fn words(&self) -> String {
        let mut out = String::new();
        self.each_words(&mut |text| {
            if !out.is_empty() {
                out.push('\n');
            }
            out.push_str(text);
        });
        out
    }

    /// The length of its words in UTF-16.
    pub(super) fn words_utf16(&self) -> u64 {
        let (mut units, mut lines) = (0_usize, 0_usize);
        self.each_words(&mut |text| {
            units = units.saturating_add(utf16(text));
            lines = lines.saturating_add(1);
        });
        let units = units.saturating_add(lines.saturating_sub(1));
        u64::try_from(units).unwrap_or(u64::MAX)
    }

    /// Tokens of its words, guessed per script: see [`eighths`].
    pub(super) fn words_by_script(&self) -> u64 {
        let (mut sum, mut lines) = (0_usize, 0_usize);
        self.each_words(&mut |text| {
            sum = sum.saturating_add(eighths(text));
            lines = lines.saturating_add(1);
        });
        let breaks = lines.saturating_sub(1).saturating_mul(LETTER);
        let sum = sum.saturating_add(breaks);
        u64::try_from(sum.div_ceil(8)).unwrap_or(u64::MAX)
    }

    /// Shows its words line by line; none is empty.
    fn each_words(&self, show: &mut dyn FnMut(&str)) {
        let mut show = |text: &str| {
            if !text.is_empty() {
                show(text);
            }
        };
        self.parts.iter().for_each(|p| p.body.words(&mut show));
    }
}

/// Eighths of a token of a character whose words tokenizers know: about four make one.
const LETTER: usize = 2;

/// What a text takes in eighths of a token, by the script of each character: where words are parted by
/// spaces, and of digits and signs, two; Thai, Lao, Burmese and Khmer three; Chinese, Japanese and
/// Korean six; emoji and what joins or colours them twelve.
fn eighths(text: &str) -> usize {
    if text.is_ascii() {
        return text.len().saturating_mul(LETTER);
    }
    let of_char = |c: char| match u32::from(c) {
        0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF => 3,
        0x1100..=0x11FF | 0x2E80..=0xA4CF | 0xAC00..=0xD7FF | 0xF900..=0xFAFF => 6,
        0xFF00..=0xFFEF | 0x2_0000..=0x3_FFFF => 6,
        0x200D | 0x2300..=0x2BFF | 0xFE00..=0xFE0F | 0x1_F000..=0x1_FAFF => 12,
        _ => LETTER,
    };
    let (mut sum, mut rest) = (0_usize, text);
    // Most characters of most texts are ASCII, and those are passed a stretch at a time.
    while let Some((ascii, other)) = rest
        .bytes()
        .position(|b| !b.is_ascii())
        .and_then(|n| rest.split_at_checked(n))
    {
        let mut chars = other.chars();
        let eighths = chars.next().map_or(0, of_char);
        sum = sum
            .saturating_add(ascii.len().saturating_mul(LETTER))
            .saturating_add(eighths);
        rest = chars.as_str();
    }
    sum.saturating_add(rest.len().saturating_mul(LETTER))
}

/// The length of a text in UTF-16: a unit a character, two where UTF-8 takes four bytes.
fn utf16(text: &str) -> usize {
    if text.is_ascii() {
        return text.len(); // most texts; found faster than characters are counted
    }
    let of_chunk = |chunk: &[u8]| {
        let units = |b: &u8| u8::from(b & 0xC0 != 0x80).wrapping_add(u8::from(*b >= 0xF0));
        // At most 2 a byte: a chunk's sum fits.
        usize::from(chunk.iter().map(units).fold(0, u8::wrapping_add))
    };
    let chunks = text.as_bytes().chunks(64).map(of_chunk);
    chunks.fold(0, usize::saturating_add)
}

impl BlockBody {
    /// The bytes of its words, media and opaque items as they were written.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Media(_, json) | Self::Opaque(_, json) => json.0.len(),
        }
    }

    fn words(&self, show: &mut dyn FnMut(&str)) {
        show(match self {
            Self::Text(text) => text,
            Self::Media(Media::Image, _) => "[image]",
            Self::Media(Media::Audio, _) => "[audio]",
            Self::Media(Media::Video, _) => "[video]",
            Self::Media(Media::File, _) => "[file]",
            Self::Opaque(_, json) => &json.0,
        });
    }
}

impl PartBody {
    fn words(&self, show: &mut dyn FnMut(&str)) {
        match self {
            Self::Block(block) => block.words(show),
            Self::Reasoning { text, .. } => show(text),
            Self::Call {
                name, arguments, ..
            } => {
                show(name);
                show(arguments);
            }
            Self::Result { content, .. } => content.iter().for_each(|b| b.body.words(show)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Message, Part, eighths};

    proptest! {
        #[test]
        fn a_text_takes_what_its_characters_take(text in "(\\PC|[a-z ]{0,9}|[\u{e00}-\u{e7f}一-龥😀-😎ﾊ]){0,40}") {
            let each = text.chars().map(|c| eighths(&c.to_string()));
            prop_assert_eq!(eighths(&text), each.sum::<usize>());
        }

        #[test]
        fn words_are_as_long_in_utf16_as_they_are(texts in prop::collection::vec("(\\PC|[a-z]{0,90}){0,40}", 0..4)) {
            let parts = texts.into_iter().map(Part::text).collect();
            let message = Message::calls(parts);
            let units = message.words().encode_utf16().count();
            prop_assert_eq!(message.words_utf16(), u64::try_from(units).unwrap());
        }
    }
}
