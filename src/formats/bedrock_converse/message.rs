//! One message and its blocks, written.

use super::read::JSON_BLOCK;
use crate::formats::json::{self, Writer};
use crate::formats::{marked, value_or_text, without_marks, write_together};
use crate::log::{Block, BlockBody, Fields, Json, Message, Part, PartBody, Role, Shape};

/// Writes the messages of one source message back as it was.
#[must_use]
pub fn write_message(messages: &[&Message]) -> Json {
    write_together(messages, write)
}

/// Writes a message of these parts.
pub(super) fn write(role: &Role, parts: &[&Part], shape: Shape, extra: &Fields) -> Json {
    let mut out = Writer::default();
    let role = match role {
        Role::Assistant => "assistant",
        Role::Other(name) => name.strip_prefix("other:").unwrap_or(name),
        _ => "user",
    };
    out.text("role", role);
    if shape != Shape::Absent || !parts.is_empty() {
        out.field("content", &write_parts(parts).0);
    }
    out.fields(&without_marks(extra)).finish()
}

/// Writes a list of blocks.
pub(super) fn write_parts(parts: &[&Part]) -> Json {
    let blocks: Vec<Json> = parts.iter().map(|part| write_part(part)).collect();
    json::write_array(&blocks)
}

fn write_part(part: &Part) -> Json {
    let (name, inner) = match &part.body {
        PartBody::Block(body) => return write_body(body, &part.extra),
        PartBody::Result {
            native: Some(_),
            content,
            ..
        } => {
            let whole = content.first().map(write_block);
            return whole.unwrap_or_else(|| Json("{}".to_owned()));
        }
        PartBody::Reasoning { .. } => ("reasoningContent", reasoning(part)),
        PartBody::Call { .. } => ("toolUse", call(part)),
        PartBody::Result { .. } => ("toolResult", result(part)),
    };
    let mut out = Writer::default();
    out.field(name, &inner.0);
    out.fields(&without_marks(&part.extra)).finish()
}

/// What stood inside a block's field and has no place in a message.
fn left(extra: &Fields, name: &str) -> Fields {
    let inner = json::field(extra, name).and_then(json::object);
    inner.unwrap_or_default()
}

fn reasoning(part: &Part) -> Json {
    let mut inner = Writer::default();
    let left_inside = left(&part.extra, "reasoningContent");
    if let PartBody::Reasoning {
        text,
        signature,
        encrypted,
    } = &part.body
    {
        if let Some(sealed) = encrypted {
            inner.text("redactedContent", sealed);
        } else {
            let mut words = Writer::default();
            words.text("text", text);
            if let Some(signature) = signature {
                words.text("signature", signature);
            }
            words.fields(&left(&left_inside, "reasoningText"));
            inner.field("reasoningText", &words.finish().0);
        }
    }
    inner.fields(&left_inside).finish()
}

fn call(part: &Part) -> Json {
    let mut inner = Writer::default();
    if let PartBody::Call {
        id,
        name,
        arguments,
        native,
    } = &part.body
    {
        if let Some(id) = id {
            inner.text("toolUseId", id);
        }
        inner.text("name", name);
        if !arguments.is_empty() {
            inner.field("input", &value_or_text(arguments).0);
        }
        if let Some(kind) = native {
            inner.text("type", kind);
        }
    }
    inner.fields(&left(&part.extra, "toolUse")).finish()
}

fn result(part: &Part) -> Json {
    let mut inner = Writer::default();
    if let PartBody::Result {
        call,
        content,
        shape,
        error,
        ..
    } = &part.body
    {
        if let Some(call) = call {
            inner.text("toolUseId", call);
        }
        if *shape != Shape::Absent || !content.is_empty() {
            let blocks: Vec<Json> = content.iter().map(write_block).collect();
            inner.field("content", &json::write_array(&blocks).0);
        }
        if let Some(error) = error {
            inner.text("status", if *error { "error" } else { "success" });
        }
    }
    inner.fields(&left(&part.extra, "toolResult")).finish()
}

fn write_block(block: &Block) -> Json {
    write_body(&block.body, &block.extra)
}

/// Words may be JSON, by their mark; words that took the place of JSON are a text.
fn write_body(body: &BlockBody, extra: &Fields) -> Json {
    let mut out = Writer::default();
    match body {
        BlockBody::Text(text) => {
            let value = value_or_text(text);
            if marked(extra, JSON_BLOCK) && value.0 == *text {
                out.field("json", text);
            } else {
                out.text("text", text);
            }
            out.fields(&without_marks(extra)).finish()
        }
        BlockBody::Media(_, whole) | BlockBody::Opaque(_, whole) => whole.clone(),
    }
}
