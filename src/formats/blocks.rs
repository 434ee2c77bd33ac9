//! Content as agent frameworks write it: a text, or a list of blocks that name their type, in any
//! provider's terms.

use super::json::Writer;
use super::record;
use super::{json, mark, marked};
use crate::log::{Block, BlockBody, Fields, Json, Media, Part, PartBody, Shape};

/// The mark of a text that stood in a list as a bare string.
const BARE: &str = "bare";

/// Takes the content out of a message's fields. What is neither text, list nor null stays.
pub(crate) fn take_content(fields: &mut Fields, name: &str) -> (Vec<Part>, Shape) {
    take(fields, name, part, Part::text)
}

/// The same of a result.
pub(crate) fn take_blocks(fields: &mut Fields, name: &str) -> (Vec<Block>, Shape) {
    let block = |whole: &Json| record::block(part(whole), whole);
    take(fields, name, block, record::words)
}

fn take<T>(
    fields: &mut Fields,
    name: &str,
    block: impl Fn(&Json) -> T,
    words: impl Fn(String) -> T,
) -> (Vec<T>, Shape) {
    if let Some(text) = json::take_as(fields, name, json::string) {
        return (vec![words(text)], Shape::Text);
    }
    if let Some(blocks) = json::take_as(fields, name, json::array) {
        return (blocks.iter().map(block).collect(), Shape::List);
    }
    let null = |value: &Json| json::is_null(value).then_some(());
    match json::take_as(fields, name, null) {
        Some(()) => (Vec::new(), Shape::Null),
        None => (Vec::new(), Shape::Absent),
    }
}

/// Reads a block.
pub(crate) fn part(whole: &Json) -> Part {
    if let Some(text) = json::string(whole) {
        let extra = vec![mark(BARE)];
        return Part {
            extra,
            ..Part::text(text)
        };
    }
    let mut fields = json::object(whole).unwrap_or_default();
    let kind = json::text_field(&fields, "type").unwrap_or_default();
    let body = match kind.as_str() {
        "text" | "input_text" | "output_text" => json::take_as(&mut fields, "text", json::string)
            .map(|text| PartBody::Block(BlockBody::Text(text))),
        "thinking" => reasoning(&mut fields, "thinking"),
        "reasoning" => reasoning(&mut fields, "reasoning"),
        "redacted_thinking" | "redacted_reasoning" => {
            json::take_as(&mut fields, "data", json::string).map(|sealed| PartBody::Reasoning {
                text: String::new(),
                signature: None,
                encrypted: Some(sealed),
            })
        }
        _ => media(&kind).map(|kind| {
            fields.clear(); // it is kept whole
            PartBody::Block(BlockBody::Media(kind, whole.clone()))
        }),
    };
    let Some(body) = body else {
        return record::opaque(&kind, whole);
    };
    if kind == "text" {
        json::take(&mut fields, "type");
    }
    Part {
        body,
        extra: fields,
    }
}

/// Writes a part as [`part`] read it; `None` of what is no block of a content.
pub(crate) fn write(part: &Part) -> Option<Json> {
    let mut out = Writer::default();
    match &part.body {
        PartBody::Block(body) => return Some(write_block(body, &part.extra)),
        PartBody::Reasoning {
            text,
            signature,
            encrypted,
        } => {
            // Without its type it stood beside the content.
            match json::text_field(&part.extra, "type")?.as_str() {
                "redacted_thinking" | "redacted_reasoning" => {
                    out.text("data", encrypted.as_deref().unwrap_or_default());
                }
                "thinking" => {
                    out.text("thinking", text);
                }
                _ => {
                    out.text("reasoning", text);
                }
            }
            if let Some(signature) = signature {
                out.text("signature", signature);
            }
        }
        PartBody::Call { .. } | PartBody::Result { .. } => return None,
    }
    Some(out.fields(&part.extra).finish())
}

/// Writes a block as [`take_content`] read it.
fn write_block(body: &BlockBody, extra: &Fields) -> Json {
    let mut out = Writer::default();
    match body {
        BlockBody::Text(text) if marked(extra, BARE) => json::quoted(text),
        BlockBody::Text(text) if json::field(extra, "type").is_some() => {
            out.text("text", text).fields(extra).finish()
        }
        body => super::write_block(body, extra),
    }
}

/// Writes content as [`take_content`] read it.
pub(crate) fn write_content(out: &mut Writer, name: &str, parts: &[&Part], shape: Shape) {
    let words = |part: &Part| match &part.body {
        PartBody::Block(BlockBody::Text(text)) if part.extra.is_empty() => Some(json::quoted(text)),
        _ => None,
    };
    let blocks = parts.iter().filter_map(|part| write(part));
    let blocks: Vec<Json> = blocks.collect();
    write_blocks(
        out,
        name,
        blocks,
        parts.iter().find_map(|p| words(p)),
        shape,
    );
}

/// Writes a result's content as [`take_blocks`] read it.
pub(crate) fn write_result(out: &mut Writer, name: &str, content: &[Block], shape: Shape) {
    let words = |block: &Block| match &block.body {
        BlockBody::Text(text) if block.extra.is_empty() => Some(json::quoted(text)),
        _ => None,
    };
    let blocks = content.iter().map(|b| write_block(&b.body, &b.extra));
    let blocks: Vec<Json> = blocks.collect();
    write_blocks(out, name, blocks, content.iter().find_map(words), shape);
}

fn write_blocks(
    out: &mut Writer,
    name: &str,
    blocks: Vec<Json>,
    words: Option<Json>,
    shape: Shape,
) {
    let written = match (shape, blocks.len(), words) {
        (Shape::Absent, 0, _) => return,
        (Shape::Null, 0, _) => Json("null".to_owned()),
        (Shape::Text, 0, _) => json::quoted(""),
        (Shape::Text, 1, Some(words)) => words,
        _ => json::write_array(&blocks),
    };
    out.field(name, &written.0);
}

fn media(kind: &str) -> Option<Media> {
    match kind {
        "image" | "image_url" | "input_image" => Some(Media::Image),
        "audio" | "input_audio" => Some(Media::Audio),
        "video" => Some(Media::Video),
        "file" | "document" | "input_file" => Some(Media::File),
        _ => None,
    }
}

fn reasoning(fields: &mut Fields, name: &str) -> Option<PartBody> {
    Some(PartBody::Reasoning {
        text: json::take_as(fields, name, json::string)?,
        signature: json::take_as(fields, "signature", json::string),
        encrypted: None,
    })
}

/// Reads a call as OpenAI writes it, or the same without its `function` around name and arguments.
/// A call without a name is none.
pub(crate) fn call(whole: &Json) -> Part {
    let read = || {
        let mut fields = json::object(whole)?;
        let id = json::take_as(&mut fields, "id", json::string);
        let function = json::take_as(&mut fields, "function", json::object);
        let mut inner = function.unwrap_or_else(|| std::mem::take(&mut fields));
        let name = json::take_as(&mut inner, "name", json::string).filter(|n| !n.is_empty())?;
        let text = |given: &Json| json::string(given).or_else(|| Some(given.0.clone()));
        let arguments = json::take_as(&mut inner, "arguments", text);
        fields.extend(inner);
        let body = PartBody::Call {
            id,
            name,
            arguments: arguments.unwrap_or_default(),
            native: None,
        };
        Some(Part {
            body,
            extra: fields,
        })
    };
    read().unwrap_or_else(|| record::opaque("tool_call", whole))
}

/// Writes a call as [`call`] read it, as OpenAI does; `None` of what is none.
pub(crate) fn write_call(part: &Part) -> Option<Json> {
    let PartBody::Call {
        id,
        name,
        arguments,
        ..
    } = &part.body
    else {
        return None;
    };
    let mut function = Writer::default();
    let function = function
        .text("name", name)
        .text("arguments", arguments)
        .finish();
    let mut out = Writer::default();
    if let Some(id) = id {
        out.text("id", id);
    }
    out.field("function", &function.0);
    Some(out.fields(&part.extra).finish())
}

/// A result of a client's tool.
pub(crate) fn result(
    call: Option<String>,
    name: Option<String>,
    (content, shape): (Vec<Block>, Shape),
    error: Option<bool>,
) -> Part {
    record::plain(PartBody::Result {
        call,
        name,
        content,
        shape,
        error,
        interim: false,
        native: None,
    })
}
