//! One OpenAI chat message and its neutral form.

use crate::formats::json::{self, Writer};
use crate::formats::{mark, marked, without_marks, write_block};
use crate::log::{
    Author, Block, BlockBody, Fields, Json, Media, Message, Part, PartBody, Role, Shape, Source,
};

/// The [`mark`] of a call in the older `function_call` field.
pub(crate) const FUNCTION_CALL: &str = "function_call";
/// The [`mark`] of a result in a message of the older role `function`.
pub(crate) const FUNCTION: &str = "function";
/// The [`mark`] of reasoning in the field `reasoning`; without it, it is `reasoning_content`.
const REASONING: &str = "reasoning";
/// The [`mark`] of a call of a custom tool, whose input is plain text.
const CUSTOM: &str = "custom";

/// Reads a message; `None` when it is no object. What cannot be written back equal as JSON is kept
/// whole in its [`Source::verbatim`].
#[must_use]
pub fn read_message(message: &Json) -> Option<Message> {
    let mut extra = json::object(message)?;
    let role = json::take_as(&mut extra, "role", json::string).unwrap_or_default();
    let mut read = match role.as_str() {
        "assistant" => assistant(extra),
        "tool" => tool(extra),
        FUNCTION => function(extra),
        _ => plain(Role::from_name(&role), extra),
    };
    let mut source = Source {
        format: super::FORMAT.to_owned(),
        ..Source::default()
    };
    if !json::equal(&write_message(&read), message) {
        source.verbatim = Some(message.clone());
    }
    read.source = Some(source);
    Some(read)
}

/// Writes a message back as it was.
#[must_use]
pub fn write_message(message: &Message) -> Json {
    let parts: Vec<&Part> = message.parts.iter().collect();
    write(&message.role, &parts, message.shape, &message.extra)
}

fn plain(role: Role, mut extra: Fields) -> Message {
    let (blocks, shape) = take_content(&mut extra);
    let author = match role {
        Role::User => Author::Person,
        _ => Author::Application,
    };
    let parts = blocks.into_iter().map(part).collect();
    Message {
        role,
        author,
        parts,
        shape,
        extra,
        source: None,
    }
}

fn part(block: Block) -> Part {
    Part {
        body: PartBody::Block(block.body),
        extra: block.extra,
    }
}

fn assistant(mut extra: Fields) -> Message {
    let mut parts = Vec::new();
    let reasoning = [
        ("reasoning_content", None),
        (REASONING, Some(mark(REASONING))),
    ];
    for (field, spelling) in reasoning {
        if parts.is_empty()
            && let Some(text) = json::take_as(&mut extra, field, json::string)
        {
            let body = PartBody::Reasoning {
                text,
                signature: None,
                encrypted: None,
            };
            parts.push(Part {
                body,
                extra: spelling.into_iter().collect(),
            });
        }
    }
    let (blocks, shape) = take_content(&mut extra);
    parts.extend(blocks.into_iter().map(part));
    if shape != Shape::List
        && let Some(words) = json::take_as(&mut extra, "refusal", json::string)
    {
        let mut whole = Writer::default();
        let whole = whole
            .text("type", "refusal")
            .text("refusal", &words)
            .finish();
        parts.push(opaque_part("refusal", whole));
    }
    let calls = json::take_as(&mut extra, "tool_calls", read_calls);
    parts.extend(calls.into_iter().flatten());
    parts.extend(json::take_as(&mut extra, FUNCTION_CALL, function_call));
    let (role, author) = (Role::Assistant, Author::Model);
    Message {
        role,
        author,
        parts,
        shape,
        extra,
        source: None,
    }
}

fn opaque_part(kind: &str, whole: Json) -> Part {
    let body = PartBody::Block(BlockBody::Opaque(kind.to_owned(), whole));
    Part {
        body,
        extra: Fields::new(),
    }
}

/// The calls of a non-empty list; `None` where one of them cannot be read, so that the list stays
/// as it is.
fn read_calls(list: &Json) -> Option<Vec<Part>> {
    let calls = json::array(list)?;
    let parts: Option<Vec<Part>> = calls.iter().map(read_call).collect();
    parts.filter(|p| !p.is_empty())
}

fn read_call(call: &Json) -> Option<Part> {
    let mut extra = json::object(call)?;
    let id = json::take_as(&mut extra, "id", json::string);
    let custom = json::text_field(&extra, "type").as_deref() == Some(CUSTOM);
    let field = if custom { CUSTOM } else { FUNCTION };
    let body = json::take_as(&mut extra, field, |f| {
        named_call(f, if custom { "input" } else { "arguments" }, id.clone())
    })?;
    json::take(&mut extra, "type");
    if custom {
        extra.push(mark(CUSTOM));
    }
    Some(Part { body, extra })
}

fn named_call(function: &Json, arguments: &str, id: Option<String>) -> Option<PartBody> {
    let fields = json::object(function)?;
    let name = json::text_field(&fields, "name")?;
    let given = json::field(&fields, arguments);
    let arguments = given.map(|a| json::string(a).unwrap_or_else(|| a.0.clone()));
    let arguments = arguments.unwrap_or_default();
    Some(PartBody::Call {
        id,
        name,
        arguments,
        native: None,
    })
}

fn function_call(call: &Json) -> Option<Part> {
    let body = named_call(call, "arguments", None)?;
    let named = matches!(&body, PartBody::Call { name, .. } if !name.is_empty());
    named.then(|| Part {
        body,
        extra: vec![mark(FUNCTION_CALL)],
    })
}

fn tool(mut extra: Fields) -> Message {
    let call = json::take_as(&mut extra, "tool_call_id", json::string);
    result(call, Fields::new(), extra)
}

fn function(extra: Fields) -> Message {
    result(None, vec![mark(FUNCTION)], extra)
}

fn result(call: Option<String>, spelling: Fields, mut extra: Fields) -> Message {
    let name = json::take_as(&mut extra, "name", json::string);
    let (content, shape) = take_content(&mut extra);
    let body = PartBody::Result {
        call,
        name,
        content,
        shape,
        error: None,
        interim: false,
        native: None,
    };
    let parts = vec![Part {
        body,
        extra: spelling,
    }];
    Message {
        role: Role::Tool,
        author: Author::Tool,
        parts,
        shape,
        extra,
        source: None,
    }
}

/// Takes `content` out of a message's fields. What is neither text, list nor null stays.
fn take_content(fields: &mut Fields) -> (Vec<Block>, Shape) {
    let Some(content) = json::field(fields, "content") else {
        return (Vec::new(), Shape::Absent);
    };
    if json::is_null(content) {
        json::take(fields, "content");
        return (Vec::new(), Shape::Null);
    }
    if let Some(text) = json::take_as(fields, "content", json::string) {
        let text = Block {
            body: BlockBody::Text(text),
            extra: Fields::new(),
        };
        return (vec![text], Shape::Text);
    }
    match json::take_as(fields, "content", json::array) {
        Some(blocks) => (blocks.iter().map(read_block).collect(), Shape::List),
        None => (Vec::new(), Shape::Absent),
    }
}

fn read_block(block: &Json) -> Block {
    let mut fields = json::object(block).unwrap_or_default();
    let kind = json::text_field(&fields, "type").unwrap_or_default();
    let body = match kind.as_str() {
        "text" => match json::take_as(&mut fields, "text", json::string) {
            Some(text) => {
                json::take(&mut fields, "type");
                return Block {
                    body: BlockBody::Text(text),
                    extra: fields,
                };
            }
            None => BlockBody::Opaque(kind, block.clone()),
        },
        "image_url" => BlockBody::Media(Media::Image, block.clone()),
        "input_audio" => BlockBody::Media(Media::Audio, block.clone()),
        "video_url" => BlockBody::Media(Media::Video, block.clone()),
        "file" => BlockBody::Media(Media::File, block.clone()),
        _ => BlockBody::Opaque(kind, block.clone()),
    };
    Block {
        body,
        extra: Fields::new(),
    }
}

/// Writes a message of these parts. A tool's message holds one result.
pub(crate) fn write(role: &Role, parts: &[&Part], shape: Shape, extra: &Fields) -> Json {
    if let [
        Part {
            body:
                PartBody::Result {
                    call,
                    name,
                    content,
                    shape,
                    ..
                },
            extra: spelling,
        },
    ] = parts
    {
        return write_result(
            call.as_deref(),
            name.as_deref(),
            content,
            *shape,
            spelling,
            extra,
        );
    }
    let mut out = Writer::default();
    out.text("role", role.name());
    let refusal = (shape != Shape::List).then_some("refusal");
    let blocks: Vec<(&BlockBody, &Fields)> = parts
        .iter()
        .filter_map(|part| match &part.body {
            PartBody::Block(BlockBody::Opaque(kind, _)) if Some(kind.as_str()) == refusal => None,
            PartBody::Block(body) => Some((body, &part.extra)),
            _ => None,
        })
        .collect();
    write_content(&mut out, &blocks, shape);
    for part in parts {
        write_beside(&mut out, part, refusal);
    }
    let calls: Vec<Json> = parts.iter().filter_map(|part| write_call(part)).collect();
    if !calls.is_empty() {
        out.field("tool_calls", &json::write_array(&calls).0);
    }
    out.fields(&without_marks(extra)).finish()
}

/// Parts that are fields of the message: reasoning, a refusal, a call of the older kind.
fn write_beside(out: &mut Writer, part: &Part, refusal: Option<&str>) {
    match &part.body {
        PartBody::Reasoning { text, .. } => {
            let older = marked(&part.extra, REASONING);
            out.text(
                if older {
                    REASONING
                } else {
                    "reasoning_content"
                },
                text,
            );
        }
        PartBody::Block(BlockBody::Opaque(kind, whole)) if Some(kind.as_str()) == refusal => {
            let fields = json::object(whole).unwrap_or_default();
            if let Some(words) = json::field(&fields, "refusal") {
                out.field("refusal", &words.0);
            }
        }
        PartBody::Call {
            name, arguments, ..
        } if marked(&part.extra, FUNCTION_CALL) => {
            out.field(
                FUNCTION_CALL,
                &write_function(name, "arguments", arguments).0,
            );
        }
        _ => {}
    }
}

fn write_function(name: &str, field: &str, arguments: &str) -> Json {
    let mut function = Writer::default();
    function.text("name", name).text(field, arguments).finish()
}

fn write_call(part: &Part) -> Option<Json> {
    let PartBody::Call {
        id,
        name,
        arguments,
        ..
    } = &part.body
    else {
        return None;
    };
    if marked(&part.extra, FUNCTION_CALL) {
        return None;
    }
    let (kind, field) = if marked(&part.extra, CUSTOM) {
        (CUSTOM, "input")
    } else {
        (FUNCTION, "arguments")
    };
    let mut out = Writer::default();
    if let Some(id) = id {
        out.text("id", id);
    }
    out.text("type", kind)
        .field(kind, &write_function(name, field, arguments).0);
    Some(out.fields(&without_marks(&part.extra)).finish())
}

fn write_result(
    call: Option<&str>,
    name: Option<&str>,
    content: &[Block],
    shape: Shape,
    spelling: &Fields,
    extra: &Fields,
) -> Json {
    let mut out = Writer::default();
    out.text(
        "role",
        if marked(spelling, FUNCTION) {
            FUNCTION
        } else {
            "tool"
        },
    );
    if let Some(call) = call {
        out.text("tool_call_id", call);
    }
    if let Some(name) = name {
        out.text("name", name);
    }
    let blocks: Vec<_> = content.iter().map(|b| (&b.body, &b.extra)).collect();
    write_content(&mut out, &blocks, shape);
    out.fields(&without_marks(extra)).finish()
}

fn write_content(out: &mut Writer, blocks: &[(&BlockBody, &Fields)], shape: Shape) {
    let written = match (shape, blocks) {
        (Shape::Absent, []) => return,
        (Shape::Null, []) => Json("null".into()),
        (Shape::Text, []) => json::quoted(""),
        (Shape::Text, [(BlockBody::Text(text), extra)]) if extra.is_empty() => json::quoted(text),
        _ => {
            let blocks: Vec<Json> = blocks
                .iter()
                .map(|(body, e)| write_block(body, e))
                .collect();
            json::write_array(&blocks)
        }
    };
    out.field("content", &written.0);
}
