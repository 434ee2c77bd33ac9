//! Content as agent frameworks write it: a text, or a list of blocks that name their type, in any
//! provider's terms.

use super::record;
use super::{json, mark};
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
