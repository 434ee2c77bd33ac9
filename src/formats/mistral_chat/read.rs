//! Reading, and writing what was read.

use std::borrow::Cow;

use super::FORMAT;
use crate::formats::detect::{PieceReader, Shown, Sniff, shown};
use crate::formats::input::Piece;
use crate::formats::json::{self, Writer};
use crate::formats::openai_chat::{self, OpenAiChat};
use crate::formats::record::{self, Records, Story};
use crate::formats::{Transcript, mark, marked, without_marks};
use crate::log::{BlockBody, Fields, Json, Media, Message, Micros, Part, PartBody, Role, Shape};

/// The kind of a block of thinking, and the [`mark`] of reasoning that stood in one.
pub(super) const THINKING: &str = "thinking";

/// The format.
pub(crate) struct MistralChat;

impl PieceReader for MistralChat {
    fn name(&self) -> &'static str {
        FORMAT
    }

    /// What only Mistral writes: the vendor's name, thinking as a list, `prefix`, documents.
    fn sniff(&self, record: &Fields) -> Sniff {
        let vendor = json::text_field(record, "vendor").unwrap_or_default();
        if vendor.contains("mistral") && matches!(shown(record), Shown::OpenAi | Shown::Plain) {
            return Sniff::Is;
        }
        let body = json::field(record, "request").and_then(json::object);
        let body = body.as_ref().unwrap_or(record);
        let messages = json::field(body, "messages").and_then(json::array);
        let messages = messages.unwrap_or_default();
        let mut inner = messages.iter().filter_map(json::object);
        Sniff::is(is_own(body) || inner.any(|message| is_own(&message)))
    }

    fn read(&self, pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
        read(pieces)
    }

    fn given(&self, messages: &[&Message]) -> Option<Json> {
        Some(write_message(messages.first()?))
    }
}

/// Whether no other provider has such a message.
fn is_own(message: &Fields) -> bool {
    let has = |name: &str| json::field(message, name).is_some();
    let blocks = json::field(message, "content").and_then(json::array);
    let own = |block: Fields| match json::text_field(&block, "type").as_deref() {
        Some(THINKING) => json::field(&block, THINKING).is_some_and(|t| json::array(t).is_some()),
        Some("document_url") => true,
        _ => false,
    };
    let blocks = blocks.unwrap_or_default();
    has("role") && (has("prefix") || blocks.iter().filter_map(json::object).any(own))
}

/// Reads recorded requests with or without their answers, bare request bodies and bare messages.
pub fn read(pieces: impl IntoIterator<Item = Piece>) -> Vec<Transcript> {
    record::read(&MistralChat, pieces)
}

impl Records for MistralChat {
    const FORMAT: &'static str = FORMAT;

    fn message(&self, json: &Json) -> Option<Vec<Message>> {
        read_message(json).map(|message| vec![message])
    }

    fn before(&self, _: &mut Fields) -> Vec<Message> {
        Vec::new()
    }

    fn is_response(&self, fields: &Fields) -> bool {
        OpenAiChat.is_response(fields)
    }

    fn answer(&self, story: &mut Story, response: Fields, at: Option<Micros>) {
        openai_chat::answer(story, response, at, read_message);
    }
}

/// Reads a message; `None` when it is no object. What cannot be written back equal as JSON is kept
/// whole in its source's `verbatim`.
#[must_use]
pub fn read_message(json: &Json) -> Option<Message> {
    let mut message = openai_chat::read_message(json)?;
    for part in &mut message.parts {
        own_block(part);
    }
    let equal = json::equal(&write_message(&message), json);
    if let Some(source) = &mut message.source {
        FORMAT.clone_into(&mut source.format);
        source.verbatim = (!equal).then(|| json.clone());
    }
    Some(message)
}

/// Writes a message back as it was.
#[must_use]
pub fn write_message(message: &Message) -> Json {
    let parts: Vec<&Part> = message.parts.iter().collect();
    write(&message.role, &parts, message.shape, &message.extra)
}

/// Writes a message of these parts. A tool's message holds one result.
pub(super) fn write(role: &Role, parts: &[&Part], shape: Shape, extra: &Fields) -> Json {
    let parts: Vec<Cow<'_, Part>> = parts.iter().map(|part| in_block(part)).collect();
    let parts: Vec<&Part> = parts.iter().map(Cow::as_ref).collect();
    openai_chat::write(role, &parts, shape, extra)
}

/// Thinking as the block that it is in a content.
fn in_block(part: &Part) -> Cow<'_, Part> {
    match &part.body {
        PartBody::Reasoning { text, .. } if marked(&part.extra, THINKING) => {
            let whole = write_thinking(text, &part.extra);
            let body = PartBody::Block(BlockBody::Opaque(THINKING.to_owned(), whole));
            let extra = Fields::new();
            Cow::Owned(Part { body, extra })
        }
        _ => Cow::Borrowed(part),
    }
}

fn own_block(part: &mut Part) {
    let PartBody::Block(BlockBody::Opaque(kind, whole)) = &part.body else {
        return;
    };
    if kind == "document_url" {
        part.body = PartBody::Block(BlockBody::Media(Media::File, whole.clone()));
    } else if kind == THINKING
        && let Some((text, extra)) = thinking(whole)
    {
        let (signature, encrypted) = (json::text_field(&extra, "signature"), None);
        part.body = PartBody::Reasoning {
            text,
            signature,
            encrypted,
        };
        part.extra = extra;
    }
}

/// The words of a block of thinking, and its other fields. A list of one text is taken out of the
/// block; of several it stays there too.
fn thinking(whole: &Json) -> Option<(String, Fields)> {
    let mut extra = json::object(whole)?;
    let given = json::field(&extra, THINKING)?;
    let words = |block| json::text_field(&json::object(block)?, "text");
    let texts: Option<Vec<String>> = json::array(given)?.iter().map(words).collect();
    let text = texts?.concat();
    if json::equal(given, &write_texts(&text)) {
        json::take(&mut extra, THINKING);
    }
    json::take(&mut extra, "type");
    extra.push(mark(THINKING));
    Some((text, extra))
}

/// A list of one text, or of none.
fn write_texts(text: &str) -> Json {
    let mut words = Writer::default();
    let words = words.text("type", "text").text("text", text).finish();
    json::write_array((!text.is_empty()).then_some(&words))
}

fn write_thinking(text: &str, extra: &Fields) -> Json {
    let mut out = Writer::default();
    out.text("type", THINKING);
    if json::field(extra, THINKING).is_none() {
        out.field(THINKING, &write_texts(text).0);
    }
    out.fields(&without_marks(extra)).finish()
}
