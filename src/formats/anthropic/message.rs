//! One Anthropic message and its neutral form.

use crate::formats::json::{self, Writer};
use crate::formats::{mark, record, value_or_text, without_marks, write_block};
use crate::log::{
    Author, Block, BlockBody, Fields, Json, Media, Message, Part, PartBody, Role, Shape, Source,
};

/// The mark of a message that stood in a request's `system` field.
pub const IN_SYSTEM_FIELD: &str = "system";

/// Reads a message `{role, content, …}`; `None` when it is no object.
///
/// A user message that holds results becomes a tool's message with the results and, where it
/// holds more, a person's message with the rest; every message after the first shares the first
/// one's source. What cannot be written back equal as JSON is kept whole in the first one's
/// [`Source::verbatim`].
#[must_use]
pub fn read_message(message: &Json, format: &str) -> Option<Vec<Message>> {
    let mut extra = json::object(message)?;
    let role = json::take_as(&mut extra, "role", json::string).unwrap_or_default();
    let (parts, shape) = take_parts(&mut extra);
    let role = read_role(role);
    let mut messages = record::apart(Message {
        author: record::author_of(&role),
        role,
        parts,
        shape,
        extra,
        source: Some(Source {
            format: format.to_owned(),
            ..Source::default()
        }),
    });
    keep_verbatim(&mut messages, message);
    Some(messages)
}

/// Reads a request's `system` text (a string or a list of blocks) as a message.
#[must_use]
pub fn read_system(system: &Json, format: &str) -> Message {
    let mut fields = vec![("content".to_owned(), system.clone())];
    let (parts, shape) = take_parts(&mut fields);
    let verbatim = (!fields.is_empty()).then(|| system.clone());
    Message {
        role: Role::System,
        author: Author::Application,
        parts,
        shape,
        extra: vec![mark(IN_SYSTEM_FIELD)],
        source: Some(Source {
            format: format.to_owned(),
            verbatim,
            ..Source::default()
        }),
    }
}

/// Writes the messages of one source message back as it was.
#[must_use]
pub fn write_message(messages: &[&Message]) -> Json {
    let first = messages.first();
    let shape = if let [one] = messages {
        one.shape
    } else {
        Shape::List
    };
    let parts: Vec<&Part> = messages.iter().flat_map(|m| &m.parts).collect();
    let role = first.map_or("user", |m| role_name(&m.role));
    let extra: Fields = messages.iter().flat_map(|m| m.extra.clone()).collect();
    write(role, &parts, shape, &extra)
}

/// The role's name on this wire: results come from the user's side.
pub(crate) fn role_name(role: &Role) -> &str {
    match role {
        Role::Tool => "user",
        Role::Developer => "system",
        other => other.name(),
    }
}

/// Writes a message of these parts.
pub(crate) fn write(role: &str, parts: &[&Part], shape: Shape, extra: &Fields) -> Json {
    let mut out = Writer::default();
    out.text("role", role);
    if let Some(content) = write_content(parts, shape) {
        out.field("content", &content.0);
    }
    out.fields(&without_marks(extra)).finish()
}

/// The content as the shape says, or as a list where the parts do not fit that shape.
pub(crate) fn write_content(parts: &[&Part], shape: Shape) -> Option<Json> {
    match (shape, parts) {
        (Shape::Absent, []) => None,
        (Shape::Null, []) => Some(Json("null".into())),
        (Shape::Text, []) => Some(json::quoted("")),
        (
            Shape::Text,
            [
                Part {
                    body: PartBody::Block(BlockBody::Text(text)),
                    extra,
                },
            ],
        ) if extra.is_empty() => Some(json::quoted(text)),
        _ => {
            let blocks: Vec<Json> = parts.iter().map(|p| write_part(p)).collect();
            Some(json::write_array(&blocks))
        }
    }
}

/// Takes `content` out of a message's fields. What is neither text, list nor null stays.
fn take_parts(fields: &mut Fields) -> (Vec<Part>, Shape) {
    match json::field(fields, "content") {
        None => (Vec::new(), Shape::Absent),
        Some(content) if json::is_null(content) => {
            json::take(fields, "content");
            (Vec::new(), Shape::Null)
        }
        Some(_) => {
            if let Some(text) = json::take_as(fields, "content", json::string) {
                return (vec![Part::text(text)], Shape::Text);
            }
            match json::take_as(fields, "content", json::array) {
                Some(blocks) => (blocks.iter().map(read_part).collect(), Shape::List),
                None => (Vec::new(), Shape::Absent),
            }
        }
    }
}

/// Roles of other providers mean nothing here. They get a name that is not the role's: a log knows
/// roles by their names.
fn read_role(name: String) -> Role {
    match Role::from_name(&name) {
        Role::Tool | Role::Developer => Role::Other(format!("other:{name}")),
        known => known,
    }
}

fn keep_verbatim(messages: &mut [Message], source: &Json) {
    let all: Vec<&Message> = messages.iter().collect();
    if json::equal(&write_message(&all), source) {
        return;
    }
    if let Some(Message {
        source: Some(kept), ..
    }) = messages.first_mut()
    {
        kept.verbatim = Some(source.clone());
    }
}

fn read_part(block: &Json) -> Part {
    let Some(mut fields) = json::object(block) else {
        return opaque("", block);
    };
    let kind = json::text_field(&fields, "type").unwrap_or_default();
    let body = match kind.as_str() {
        "text" => text_body(&mut fields),
        "thinking" => thinking(&mut fields),
        "redacted_thinking" => redacted(&mut fields),
        "tool_use" => call(&mut fields, None),
        // Of tools the provider runs there are more kinds than are known here: each is a call.
        _ if kind.ends_with("_tool_use") => call(&mut fields, Some(kind.clone())),
        "tool_result" => Some(result(&mut fields)),
        "image" | "document" => return media(&kind, block),
        _ if kind.ends_with("_tool_result") => return native_result(&kind, &fields, block),
        _ => None,
    };
    let Some(body) = body else {
        return opaque(&kind, block);
    };
    json::take(&mut fields, "type");
    Part {
        body,
        extra: fields,
    }
}

fn opaque(kind: &str, block: &Json) -> Part {
    let body = PartBody::Block(BlockBody::Opaque(kind.to_owned(), block.clone()));
    Part {
        body,
        extra: Fields::new(),
    }
}

fn media(kind: &str, block: &Json) -> Part {
    let kind = if kind == "image" {
        Media::Image
    } else {
        Media::File
    };
    let body = PartBody::Block(BlockBody::Media(kind, block.clone()));
    Part {
        body,
        extra: Fields::new(),
    }
}

fn text_body(fields: &mut Fields) -> Option<PartBody> {
    let text = json::take_as(fields, "text", json::string)?;
    Some(PartBody::Block(BlockBody::Text(text)))
}

fn thinking(fields: &mut Fields) -> Option<PartBody> {
    let text = json::take_as(fields, "thinking", json::string)?;
    let signature = json::take_as(fields, "signature", json::string);
    Some(PartBody::Reasoning {
        text,
        signature,
        encrypted: None,
    })
}

fn redacted(fields: &mut Fields) -> Option<PartBody> {
    let encrypted = Some(json::take_as(fields, "data", json::string)?);
    Some(PartBody::Reasoning {
        text: String::new(),
        signature: None,
        encrypted,
    })
}

fn call(fields: &mut Fields, native: Option<String>) -> Option<PartBody> {
    let name = json::take_as(fields, "name", json::string)?;
    let id = json::take_as(fields, "id", json::string);
    let arguments = json::take(fields, "input")
        .map(|input| input.0)
        .unwrap_or_default();
    Some(PartBody::Call {
        id,
        name,
        arguments,
        native,
    })
}

fn result(fields: &mut Fields) -> PartBody {
    let call = json::take_as(fields, "tool_use_id", json::string);
    let error = json::take_as(fields, "is_error", json::boolean);
    let (parts, shape) = take_parts(fields);
    let content = parts.into_iter().map(into_block).collect();
    PartBody::Result {
        call,
        name: None,
        content,
        shape,
        error,
        interim: false,
        native: None,
    }
}

/// A part inside a result: text, media and opaque items as they are, anything else kept whole.
fn into_block(part: Part) -> Block {
    match part.body {
        PartBody::Block(body) => Block {
            body,
            extra: part.extra,
        },
        _ => {
            let whole = write_part(&part);
            Block {
                body: BlockBody::Opaque(block_type(&whole), whole),
                extra: Fields::new(),
            }
        }
    }
}

fn block_type(block: &Json) -> String {
    json::object(block)
        .and_then(|f| json::text_field(&f, "type"))
        .unwrap_or_default()
}

fn native_result(kind: &str, fields: &Fields, block: &Json) -> Part {
    let whole = BlockBody::Opaque(kind.to_owned(), block.clone());
    let body = PartBody::Result {
        call: json::text_field(fields, "tool_use_id"),
        name: None,
        content: vec![Block {
            body: whole,
            extra: Fields::new(),
        }],
        shape: Shape::List,
        error: json::field(fields, "is_error").and_then(json::boolean),
        interim: false,
        native: Some(kind.to_owned()),
    };
    Part {
        body,
        extra: Fields::new(),
    }
}

/// Writes one content block.
#[must_use]
pub fn write_part(part: &Part) -> Json {
    let mut out = Writer::default();
    match &part.body {
        PartBody::Block(body) => return write_block(body, &part.extra),
        PartBody::Reasoning {
            text,
            signature,
            encrypted,
        } => match encrypted {
            Some(data) => {
                out.text("type", "redacted_thinking").text("data", data);
            }
            None => {
                out.text("type", "thinking").text("thinking", text);
                if let Some(signature) = signature {
                    out.text("signature", signature);
                }
            }
        },
        PartBody::Call {
            id,
            name,
            arguments,
            native,
        } => {
            out.text("type", native.as_deref().unwrap_or("tool_use"));
            if let Some(id) = id {
                out.text("id", id);
            }
            out.text("name", name);
            if !arguments.is_empty() {
                out.field("input", &value_or_text(arguments).0);
            }
        }
        PartBody::Result {
            native: Some(_),
            content,
            ..
        } => {
            return content
                .first()
                .map_or_else(|| Json("{}".into()), write_inner);
        }
        PartBody::Result {
            call,
            content,
            shape,
            error,
            ..
        } => {
            out.text("type", "tool_result");
            if let Some(call) = call {
                out.text("tool_use_id", call);
            }
            write_result_content(&mut out, content, *shape);
            if let Some(error) = error {
                out.field("is_error", if *error { "true" } else { "false" });
            }
        }
    }
    out.fields(&without_marks(&part.extra)).finish()
}

fn write_result_content(out: &mut Writer, content: &[Block], shape: Shape) {
    let written = match (shape, content) {
        (Shape::Absent, []) => return,
        (Shape::Null, []) => Json("null".into()),
        (Shape::Text, []) => json::quoted(""),
        (
            Shape::Text,
            [
                Block {
                    body: BlockBody::Text(text),
                    extra,
                },
            ],
        ) if extra.is_empty() => json::quoted(text),
        _ => json::write_array(&content.iter().map(write_inner).collect::<Vec<_>>()),
    };
    out.field("content", &written.0);
}

fn write_inner(block: &Block) -> Json {
    write_block(&block.body, &block.extra)
}
