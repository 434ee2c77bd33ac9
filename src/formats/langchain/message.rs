//! Writing one message of `LangChain`, in the spelling it was read from; others as dumps of the model.

use crate::formats::json::{self, Writer};
use crate::formats::{MARK, blocks, marked};
use crate::log::{Fields, Json, Message, Part, PartBody, Role, Shape};

/// The mark of a call whose arguments `LangChain` could not read.
pub const INVALID: &str = "invalid_tool_calls";
/// What stands around the fields of a message: the constructor's or the dictionary's own. Never a
/// field of the message.
pub(super) const OUTER: &str = "ctxlog:outer";

/// Writes a message back as it was.
#[must_use]
pub fn write_message(message: &Message) -> Json {
    let parts: Vec<&Part> = message.parts.iter().collect();
    write(&message.role, &parts, message.shape, &message.extra)
}

/// Writes a message of these parts. A tool's message holds one result.
pub(super) fn write(role: &Role, parts: &[&Part], shape: Shape, extra: &Fields) -> Json {
    let spelling = json::text_field(extra, MARK);
    let outer = json::field(extra, OUTER).and_then(json::object);
    let fields: Fields = extra
        .iter()
        .filter(|(name, _)| name != MARK && name != OUTER)
        .cloned()
        .collect();
    let own = spelling.is_some();
    let mut out = Writer::default();
    if !own {
        made(&mut out, role);
    }
    match parts {
        [
            Part {
                body: PartBody::Result { .. },
                ..
            },
        ] => write_result(&mut out, parts),
        _ => write_said(&mut out, parts, shape, own),
    }
    write_beside(&mut out, role, parts, &fields, own);
    let message = out.fields(&fields).finish();
    let Some(mut outer) = outer else {
        return message;
    };
    let within = match spelling.as_deref() {
        Some("lc-constructor") => "kwargs",
        _ => "data",
    };
    outer.push((within.to_owned(), message));
    json::write_object(&outer)
}

/// What a dump says of a message that no source gave.
fn made(out: &mut Writer, role: &Role) {
    out.text("type", kind_of(role));
    if let Role::Other(name) = role {
        out.text("role", name.strip_prefix("other:").unwrap_or(name));
    }
    out.field("response_metadata", "{}");
}

fn kind_of(role: &Role) -> &'static str {
    match role {
        Role::User => "human",
        Role::Assistant => "ai",
        Role::System | Role::Developer => "system",
        Role::Tool => "tool",
        Role::Other(_) => "chat",
    }
}

fn write_result(out: &mut Writer, parts: &[&Part]) {
    for part in parts {
        let PartBody::Result {
            call,
            name,
            content,
            shape,
            error,
            ..
        } = &part.body
        else {
            continue;
        };
        blocks::write_result(out, "content", content, *shape);
        for (field, value) in [("tool_call_id", call), ("name", name)] {
            if let Some(value) = value {
                out.text(field, value);
            }
        }
        match error {
            Some(true) => _ = out.text("status", "error"),
            Some(false) => _ = out.text("status", "success"),
            None => {}
        }
    }
}

fn write_said(out: &mut Writer, parts: &[&Part], shape: Shape, own: bool) {
    let blocks: Vec<&Part> = parts.iter().copied().filter(|p| is_block(p)).collect();
    let shape = match shape {
        Shape::Null | Shape::Absent if !own => Shape::Text,
        shape => shape,
    };
    blocks::write_content(out, "content", &blocks, shape);
    let (mut understood, mut invalid): (Vec<Json>, Vec<Json>) = (Vec::new(), Vec::new());
    for part in parts {
        if let Some((call, valid)) = write_call(part, own) {
            if valid {
                understood.push(call);
            } else {
                invalid.push(call);
            }
        }
    }
    for (name, calls) in [("tool_calls", understood), (INVALID, invalid)] {
        if !calls.is_empty() {
            out.field(name, &json::write_array(&calls).0);
        }
    }
}

/// What stands beside the content, in no terms of `LangChain`: as it was, with the reasoning that stood
/// in it.
fn write_beside(out: &mut Writer, role: &Role, parts: &[&Part], fields: &Fields, own: bool) {
    let mut beside = match json::field(fields, BESIDE).and_then(json::object) {
        None if !own => Some(Fields::new()),
        found => found,
    };
    if !own && *role == Role::Developer {
        // How the library itself says it.
        let role = ("__openai_role__".to_owned(), json::quoted("developer"));
        beside.get_or_insert_default().push(role);
    }
    let reasoning = write_reasoning(parts);
    if !reasoning.is_empty() {
        beside.get_or_insert_default().extend(reasoning);
    }
    if let Some(beside) = beside {
        out.field(BESIDE, &json::write_object(&beside).0);
    }
}

/// What stands beside the content, in no terms of `LangChain`.
pub(super) const BESIDE: &str = "additional_kwargs";

/// Whether a part stands in the content.
fn is_block(part: &Part) -> bool {
    match &part.body {
        PartBody::Block(_) => true,
        PartBody::Reasoning { .. } => json::field(&part.extra, "type").is_some(),
        PartBody::Call { .. } | PartBody::Result { .. } => false,
    }
}

/// Reasoning that stands beside the content: the provider's item, or words.
fn write_reasoning(parts: &[&Part]) -> Fields {
    let mut words: Vec<&str> = Vec::new();
    let mut item = None;
    for part in parts.iter().filter(|p| !is_block(p)) {
        if let PartBody::Reasoning { text, .. } = &part.body {
            match json::field(&part.extra, "reasoning") {
                Some(whole) => item = Some(whole.clone()),
                None => words.push(text),
            }
        }
    }
    let words = (!words.is_empty()).then(|| json::quoted(&words.join("\n\n")));
    let words = words.map(|words| ("reasoning_content".to_owned(), words));
    let item = item.map(|item| ("reasoning".to_owned(), item));
    words.into_iter().chain(item).collect()
}

/// A call, and whether its arguments are an object, as `LangChain` wants them.
fn write_call(part: &Part, own: bool) -> Option<(Json, bool)> {
    let PartBody::Call {
        id,
        name,
        arguments,
        native: None,
    } = &part.body
    else {
        return None;
    };
    let object = arguments_object(arguments);
    let valid = object.is_some() && !marked(&part.extra, INVALID);
    let mut out = Writer::default();
    out.text("name", name);
    match object.filter(|_| valid) {
        Some(object) => out.field("args", &object),
        None => out.text("args", arguments),
    };
    match id {
        Some(id) => out.text("id", id),
        None => out.field("id", "null"),
    };
    if !own {
        out.text(
            "type",
            if valid {
                "tool_call"
            } else {
                "invalid_tool_call"
            },
        );
    }
    if !own && !valid {
        out.field("error", "null");
    }
    let extra: Fields = part
        .extra
        .iter()
        .filter(|(name, _)| name != MARK)
        .cloned()
        .collect();
    Some((out.fields(&extra).finish(), valid))
}

/// The arguments as the object they are; none given are an empty one.
pub(super) fn arguments_object(arguments: &str) -> Option<String> {
    if arguments.trim().is_empty() {
        return Some("{}".to_owned());
    }
    let whole = Json(arguments.to_owned());
    let shallow = json::depth(arguments) <= json::MAX_DEPTH;
    (shallow && json::object(&whole).is_some()).then(|| arguments.to_owned())
}
