//! One content and its parts, written.

use super::read::NO_DATA;
use crate::formats::json::{self, Writer};
use crate::formats::{MARK, marked, value_or_text, without_marks, write_together};
use crate::log::{Block, BlockBody, Fields, Json, Message, Part, PartBody, Role, Shape};

/// Writes the messages of one source content back as it was.
#[must_use]
pub fn write_content(messages: &[&Message]) -> Json {
    write_together(messages, write)
}

/// Writes a content of these parts.
pub(super) fn write(role: &Role, parts: &[&Part], shape: Shape, extra: &Fields) -> Json {
    let mut out = Writer::default();
    let role = match role {
        Role::Assistant => "model",
        Role::Other(name) => name.strip_prefix("other:").unwrap_or(name),
        _ if marked(extra, "function") => "function",
        _ => "user",
    };
    out.text("role", role);
    if shape != Shape::Absent || !parts.is_empty() {
        out.field("parts", &write_parts(parts).0);
    }
    out.fields(&without_marks(extra)).finish()
}

/// Writes instructions: a text, or an object of parts.
pub(super) fn write_instruction(parts: &[&Part], shape: Shape, extra: &Fields) -> Json {
    if let ([part], Shape::Text) = (parts, shape)
        && let PartBody::Block(BlockBody::Text(text)) = &part.body
    {
        return json::quoted(text);
    }
    let mut out = Writer::default();
    out.field("parts", &write_parts(parts).0);
    out.fields(&without_marks(extra)).finish()
}

fn write_parts(parts: &[&Part]) -> Json {
    let parts: Vec<Json> = parts.iter().map(|part| write_part(part)).collect();
    json::write_array(&parts)
}

fn write_part(part: &Part) -> Json {
    let mut out = Writer::default();
    let mut spelled = "";
    match &part.body {
        PartBody::Block(BlockBody::Text(text)) => {
            if !marked(&part.extra, NO_DATA) {
                out.text("text", text);
            }
        }
        PartBody::Block(BlockBody::Media(_, whole) | BlockBody::Opaque(_, whole)) => {
            return whole.clone();
        }
        PartBody::Reasoning {
            text, signature, ..
        } => {
            out.text("text", text).field("thought", "true");
            if let Some(signature) = signature {
                out.text("thoughtSignature", signature);
            }
        }
        PartBody::Call {
            id,
            name,
            arguments,
            ..
        } => {
            spelled = spelling(part, ["functionCall", "function_call"]);
            let mut inner = Writer::default();
            label(&mut inner, id.as_deref(), Some(name));
            if !arguments.is_empty() {
                inner.field("args", &value_or_text(arguments).0);
            }
            out.field(spelled, &inner.fields(&left(part, spelled)).finish().0);
        }
        PartBody::Result {
            call,
            name,
            content,
            ..
        } => {
            spelled = spelling(part, ["functionResponse", "function_response"]);
            let mut inner = Writer::default();
            label(&mut inner, call.as_deref(), name.as_deref());
            write_response(&mut inner, content);
            out.field(spelled, &inner.fields(&left(part, spelled)).finish().0);
        }
    }
    let beside = part.extra.iter();
    let beside = beside.filter(|(name, _)| name != spelled && name != MARK);
    out.fields(&beside.cloned().collect()).finish()
}

fn label(out: &mut Writer, id: Option<&str>, name: Option<&str>) {
    if let Some(id) = id {
        out.text("id", id);
    }
    if let Some(name) = name {
        out.text("name", name);
    }
}

/// The name of a part's field, as the part was read.
pub(super) fn spelling(part: &Part, [camel, snake]: [&'static str; 2]) -> &'static str {
    if marked(&part.extra, snake) {
        snake
    } else {
        camel
    }
}

/// What stood inside a part's field and has no place in a message.
fn left(part: &Part, spelled: &str) -> Fields {
    let inner = json::field(&part.extra, spelled).and_then(json::object);
    inner.unwrap_or_default()
}

/// A response is the JSON of its words; what stands behind them are parts beside it.
fn write_response(out: &mut Writer, content: &[Block]) {
    let (words, parts) = match content.split_first() {
        Some((
            Block {
                body: BlockBody::Text(text),
                extra,
            },
            parts,
        )) if extra.is_empty() => (Some(text), parts),
        _ => (None, content),
    };
    if let Some(words) = words {
        out.field("response", &response(words).0);
    }
    if !parts.is_empty() {
        let part = |block: &Block| match &block.body {
            BlockBody::Text(text) => {
                let mut out = Writer::default();
                out.text("text", text).fields(&block.extra).finish()
            }
            BlockBody::Media(_, whole) | BlockBody::Opaque(_, whole) => whole.clone(),
        };
        let parts: Vec<Json> = parts.iter().map(part).collect();
        out.field("parts", &json::write_array(&parts).0);
    }
}

/// Words that are no JSON stand for a response that was JSON.
fn response(words: &str) -> Json {
    let value = value_or_text(words);
    if value.0 == words {
        return value;
    }
    let mut out = Writer::default();
    out.field("output", &value.0).finish()
}
