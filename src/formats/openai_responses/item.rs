//! One item of OpenAI Responses and its neutral form.

use crate::formats::json::{self, Writer};
use crate::formats::{MARK, mark, marked, without_marks, write_block};
use crate::log::{
    Author, Block, BlockBody, Fields, Json, Media, Message, Part, PartBody, Role, Shape, Source,
};

/// The [`mark`] of the message that was a request's instructions.
pub(super) const INSTRUCTIONS: &str = "instructions";
/// The [`mark`] of the message that was a request's whole input.
pub(super) const INPUT: &str = "input";
/// The [`mark`] of reasoning whose words are its content; of others the mark is `summary`.
const CONTENT: &str = "content";
/// The kind of the item that stands for everything before it.
pub(crate) const COMPACTION: &str = "compaction";
/// The kind of an item whose content is on the provider's server.
pub(crate) const REFERENCE: &str = "item_reference";

/// The kind of a tool that is a function.
pub(super) const FUNCTION: &str = "function";
/// The kind of a call of a function.
pub(super) const FUNCTION_CALL: &str = "function_call";

/// A call that the client runs, by its item's kind: the name of the tool where the item has none,
/// and the field of its arguments.
const CALLS: [(&str, Option<&str>, &str); 7] = [
    (FUNCTION_CALL, None, "arguments"),
    ("custom_tool_call", None, "input"),
    ("local_shell_call", Some("local_shell"), "action"),
    ("shell_call", Some("shell"), "action"),
    ("apply_patch_call", Some("apply_patch"), "operation"),
    ("computer_call", Some("computer"), "action"),
    ("tool_search_call", Some("tool_search"), "arguments"),
];

/// What answers them, in the same order, and the field of the result.
const RESULTS: [(&str, &str); 7] = [
    ("function_call_output", "output"),
    ("custom_tool_call_output", "output"),
    ("local_shell_call_output", "output"),
    ("shell_call_output", "output"),
    ("apply_patch_call_output", "output"),
    ("computer_call_output", "output"),
    ("tool_search_output", "tools"),
];

/// Reads an item; `None` when it is no object. What cannot be written back equal as JSON is kept
/// whole in its [`Source::verbatim`].
#[must_use]
pub fn read_item(item: &Json) -> Option<Message> {
    let mut fields = json::object(item)?;
    let kind = json::text_field(&fields, "type").unwrap_or_else(|| "message".to_owned());
    let id = json::text_field(&fields, "id");
    // A tool search runs at the provider unless it says otherwise.
    let here = !kind.starts_with("tool_search")
        || json::text_field(&fields, "execution").as_deref() == Some("client");
    let call = CALLS.iter().find(|(known, ..)| *known == kind && here);
    let result = RESULTS.iter().find(|(known, _)| *known == kind && here);
    let read = match (kind.as_str(), call, result) {
        ("message", ..) => Some(words(fields)),
        ("reasoning", ..) => Some(reasoning(fields)),
        (_, Some((_, name, given)), _) => called(&mut fields, &kind, *name, given),
        (_, _, Some((_, given))) => Some(answered(fields, &kind, given)),
        _ => None,
    };
    let mut read = read.unwrap_or_else(|| opaque(kind, item));
    let mut source = Source {
        format: super::FORMAT.to_owned(),
        id,
        ..Source::default()
    };
    if !json::equal(&write_item(&read), item) {
        source.verbatim = Some(item.clone());
    }
    read.source = Some(source);
    Some(read)
}

fn words(mut extra: Fields) -> Message {
    let role = json::take_as(&mut extra, "role", json::string).unwrap_or_default();
    let role = Role::from_name(&role);
    let (blocks, shape) = take_content(&mut extra, "content");
    let author = match role {
        Role::User => Author::Person,
        Role::Assistant => Author::Model,
        _ => Author::Application,
    };
    let part = |block: Block| Part {
        body: PartBody::Block(block.body),
        extra: block.extra,
    };
    Message {
        parts: blocks.into_iter().map(part).collect(),
        shape,
        extra,
        ..Message::new(role, author, Vec::new())
    }
}

/// Reasoning: its summary, or the words themselves where the provider shows them. A list of one
/// text is taken out of the item; of another kind it stays there too.
fn reasoning(mut extra: Fields) -> Message {
    json::take(&mut extra, "type");
    let encrypted = json::take_as(&mut extra, "encrypted_content", json::string);
    let content = texts(&extra, CONTENT).filter(|t| !t.is_empty());
    let (field, kind) = match content {
        Some(_) => (CONTENT, "reasoning_text"),
        None => ("summary", "summary_text"),
    };
    let text = content.or_else(|| texts(&extra, field)).unwrap_or_default();
    let again = write_texts(kind, &text);
    if json::take_as(&mut extra, field, |given| {
        json::equal(given, &again).then_some(())
    })
    .is_some()
    {
        extra.push(mark(field));
    }
    let body = PartBody::Reasoning {
        text,
        signature: None,
        encrypted,
    };
    by_model(vec![Part { body, extra }])
}

/// The words of a list of texts.
fn texts(item: &Fields, name: &str) -> Option<String> {
    let list = json::array(json::field(item, name)?)?;
    let texts: Option<Vec<String>> = list
        .iter()
        .map(|text| json::text_field(&json::object(text)?, "text"))
        .collect();
    Some(texts?.join("\n\n"))
}

/// A list of one text, or of none.
fn write_texts(kind: &str, text: &str) -> Json {
    let mut block = Writer::default();
    let block = block.text("type", kind).text("text", text).finish();
    json::write_array((!text.is_empty()).then_some(&block))
}

fn by_model(parts: Vec<Part>) -> Message {
    let mut message = Message::calls(parts);
    message.shape = Shape::List;
    message
}

fn called(fields: &mut Fields, kind: &str, name: Option<&str>, given: &str) -> Option<Message> {
    let named = json::text_field(fields, "name");
    let taken = name.map(str::to_owned).or_else(|| named.clone())?;
    let arguments = json::take(fields, given);
    if name.is_none() {
        json::take(fields, "name");
    }
    json::take(fields, "type");
    let body = PartBody::Call {
        id: json::take_as(fields, "call_id", json::string),
        name: taken,
        arguments: arguments
            .map(|a| json::string(&a).unwrap_or(a.0))
            .unwrap_or_default(),
        native: None,
    };
    let mut extra = std::mem::take(fields);
    extra.push(mark(kind));
    Some(by_model(vec![Part { body, extra }]))
}

fn answered(mut extra: Fields, kind: &str, given: &str) -> Message {
    // A local shell's output names its call in its own id.
    let mut call = json::take_as(&mut extra, "call_id", json::string);
    if call.is_none() && kind == "local_shell_call_output" {
        call = json::text_field(&extra, "id");
    }
    json::take(&mut extra, "type");
    let (content, shape) = take_content(&mut extra, given);
    let body = PartBody::Result {
        call,
        name: None,
        content,
        shape,
        error: None,
        interim: false,
        native: None,
    };
    extra.push(mark(kind));
    Message {
        shape,
        ..Message::new(Role::Tool, Author::Tool, vec![Part { body, extra }])
    }
}

/// An item that only the provider understands. Its role says who it speaks as; without one it is
/// what the provider did in the model's turn, but for the answer to a request for approval.
fn opaque(kind: String, item: &Json) -> Message {
    let role = json::object(item).and_then(|fields| json::text_field(&fields, "role"));
    let role = role.map(|role| Role::from_name(&role));
    let (role, author) = match role {
        Some(Role::User) => (Role::User, Author::Person),
        Some(Role::Assistant) => (Role::Assistant, Author::Model),
        Some(other) => (other, Author::Application),
        None if kind == "mcp_approval_response" => (Role::User, Author::Person),
        None if kind == COMPACTION => (Role::Assistant, Author::Application),
        None => (Role::Assistant, Author::Model),
    };
    let body = PartBody::Block(BlockBody::Opaque(kind, item.clone()));
    let extra = Fields::new();
    Message::new(role, author, vec![Part { body, extra }])
}

/// Takes a content out of an item's fields. What is neither text, list nor null is one opaque block.
fn take_content(fields: &mut Fields, name: &str) -> (Vec<Block>, Shape) {
    let Some(content) = json::take(fields, name) else {
        return (Vec::new(), Shape::Absent);
    };
    let block = |body| Block {
        body,
        extra: Fields::new(),
    };
    if json::is_null(&content) {
        return (Vec::new(), Shape::Null);
    }
    if let Some(text) = json::string(&content) {
        return (vec![block(BlockBody::Text(text))], Shape::Text);
    }
    match json::array(&content) {
        Some(blocks) => (blocks.iter().map(read_block).collect(), Shape::List),
        None => {
            let body = BlockBody::Opaque(name.to_owned(), content);
            (vec![block(body)], Shape::Text)
        }
    }
}

fn read_block(block: &Json) -> Block {
    let mut fields = json::object(block).unwrap_or_default();
    let kind = json::text_field(&fields, "type").unwrap_or_default();
    if ["input_text", "output_text", "text"].contains(&kind.as_str())
        && let Some(text) = json::take_as(&mut fields, "text", json::string)
    {
        json::take(&mut fields, "type");
        fields.push(mark(&kind));
        return Block {
            body: BlockBody::Text(text),
            extra: fields,
        };
    }
    let body = match kind.as_str() {
        "input_image" | "computer_screenshot" => BlockBody::Media(Media::Image, block.clone()),
        "input_audio" => BlockBody::Media(Media::Audio, block.clone()),
        "input_file" => BlockBody::Media(Media::File, block.clone()),
        _ => BlockBody::Opaque(kind, block.clone()),
    };
    Block {
        body,
        extra: Fields::new(),
    }
}

/// Writes an item back as it was, of a message that is one item.
#[must_use]
pub fn write_item(message: &Message) -> Json {
    let parts: Vec<&Part> = message.parts.iter().collect();
    write(&message.role, &parts, message.shape, &message.extra)
}

/// What a source held, of the message that it became: an item, or a text that stood for one.
#[must_use]
pub fn write_given(message: &Message) -> Json {
    let text = [INSTRUCTIONS, INPUT]
        .iter()
        .any(|m| marked(&message.extra, m));
    let parts: Vec<&Part> = message.parts.iter().collect();
    let text = plain_text(&parts).filter(|_| text);
    text.map_or_else(|| write_item(message), json::quoted)
}

/// Reads a text that stands for a whole message of a request: its instructions, or its input.
pub(super) fn read_text(field: &str, given: &Json) -> Option<Message> {
    let text = json::string(given)?;
    let mut message = match field {
        INSTRUCTIONS => Message::system(text.as_str()),
        _ => Message::person(text.as_str()),
    };
    message.extra.push(mark(field));
    message.source = Some(Source {
        format: super::FORMAT.to_owned(),
        verbatim: (!json::equal(&json::quoted(&text), given)).then(|| given.clone()),
        ..Source::default()
    });
    Some(message)
}

/// The text that is all a message says.
pub(super) fn plain_text<'a>(parts: &[&'a Part]) -> Option<&'a str> {
    match parts {
        [
            Part {
                body: PartBody::Block(BlockBody::Text(text)),
                extra,
            },
        ] if extra.is_empty() => Some(text),
        _ => None,
    }
}

/// The kind of item that a part is, where it is one by itself.
pub(super) fn kind_of(part: &Part) -> Option<String> {
    let marked = || json::text_field(&part.extra, MARK);
    match &part.body {
        PartBody::Block(BlockBody::Opaque(kind, _)) => is_item(kind).then(|| kind.clone()),
        PartBody::Block(_) => None,
        PartBody::Reasoning { .. } => Some("reasoning".to_owned()),
        PartBody::Call { .. } => Some(marked().unwrap_or_else(|| FUNCTION_CALL.to_owned())),
        PartBody::Result { .. } => {
            Some(marked().unwrap_or_else(|| "function_call_output".to_owned()))
        }
    }
}

/// Whether an opaque block of this kind is an item, and no content of one.
fn is_item(kind: &str) -> bool {
    // A content that is no list is one block of this name.
    let whole = ["content", "output", "tools"].contains(&kind);
    let content = whole || kind.starts_with("input_") || ["refusal", "text", ""].contains(&kind);
    !content && !kind.ends_with("_text")
}

/// Whether items of this kind are calls that a client answers, if no one says otherwise.
pub(super) fn is_call(kind: &str) -> bool {
    CALLS.iter().any(|(known, ..)| *known == kind)
}

/// Whether calls of this kind name their tool.
pub(super) fn is_named(kind: &str) -> bool {
    let named = |(known, name, _): &(&str, Option<&str>, _)| *known == kind && name.is_none();
    CALLS.iter().any(named)
}

/// The kind of item that answers a call of this kind.
pub(super) fn answer_to(call: &str) -> Option<&'static str> {
    let at = CALLS.iter().position(|(known, ..)| *known == call)?;
    RESULTS.get(at).map(|(kind, _)| *kind)
}

/// Writes the item that these parts are.
pub(super) fn write(role: &Role, parts: &[&Part], shape: Shape, extra: &Fields) -> Json {
    match parts {
        [
            Part {
                body: PartBody::Block(BlockBody::Opaque(kind, whole)),
                extra: beside,
            },
        ] if is_item(kind) && beside.is_empty() && shape == Shape::List && extra.is_empty() => {
            whole.clone()
        }
        [part] if !matches!(part.body, PartBody::Block(_)) => write_single(part),
        _ => write_words(role, parts, shape, extra),
    }
}

fn write_single(part: &Part) -> Json {
    let mut out = Writer::default();
    let kind = kind_of(part).unwrap_or_default();
    out.text("type", &kind);
    match &part.body {
        PartBody::Block(_) => {}
        PartBody::Reasoning {
            text, encrypted, ..
        } => {
            // Reasoning from elsewhere is a summary.
            let kept = json::field(&part.extra, "summary").is_some();
            if marked(&part.extra, CONTENT) {
                out.field(CONTENT, &write_texts("reasoning_text", text).0);
            } else if !kept {
                out.field("summary", &write_texts("summary_text", text).0);
            }
            if let Some(sealed) = encrypted {
                out.text("encrypted_content", sealed);
            }
        }
        PartBody::Call {
            id,
            name,
            arguments,
            ..
        } => {
            if let Some(id) = id {
                out.text("call_id", id);
            }
            match CALLS.iter().find(|(known, ..)| *known == kind) {
                Some((_, Some(_), given)) => {
                    let whole = Json(arguments.clone());
                    let object = json::object(&whole).is_some();
                    out.field(
                        given,
                        &if object {
                            whole
                        } else {
                            json::quoted(arguments)
                        }
                        .0,
                    );
                }
                Some((_, None, given)) => {
                    out.text("name", name).text(given, arguments);
                }
                None => {}
            }
        }
        PartBody::Result {
            call,
            content,
            shape,
            ..
        } => {
            let named_by_id = json::text_field(&part.extra, "id") == *call;
            if let Some(call) = call.as_ref().filter(|_| !named_by_id) {
                out.text("call_id", call);
            }
            let given = RESULTS.iter().find(|(known, _)| *known == kind);
            let blocks: Vec<_> = content.iter().map(|b| (&b.body, &b.extra)).collect();
            let given = given.map_or("output", |(_, given)| given);
            write_content(&mut out, given, &blocks, *shape, "input_text");
        }
    }
    out.fields(&without_marks(&part.extra)).finish()
}

fn write_words(role: &Role, parts: &[&Part], shape: Shape, extra: &Fields) -> Json {
    let mut out = Writer::default();
    out.text("role", role.name());
    let blocks = parts.iter().filter_map(|part| match &part.body {
        PartBody::Block(body) => Some((body, &part.extra)),
        _ => None,
    });
    let blocks: Vec<_> = blocks.collect();
    let plain = match role {
        Role::Assistant => "output_text",
        _ => "input_text",
    };
    write_content(&mut out, "content", &blocks, shape, plain);
    out.fields(&without_marks(extra)).finish()
}

fn write_content(
    out: &mut Writer,
    name: &str,
    blocks: &[(&BlockBody, &Fields)],
    shape: Shape,
    plain: &str,
) {
    let written = match (shape, blocks) {
        (Shape::Absent, []) => return,
        (Shape::Null, []) => Json("null".into()),
        (Shape::Text, []) => json::quoted(""),
        (Shape::Text, [(BlockBody::Text(text), extra)]) if extra.is_empty() => json::quoted(text),
        (Shape::Text, [(BlockBody::Opaque(_, whole), _)]) => whole.clone(),
        _ => {
            let blocks = blocks
                .iter()
                .map(|(body, extra)| write_one(body, extra, plain));
            json::write_array(&blocks.collect::<Vec<_>>())
        }
    };
    out.field(name, &written.0);
}

fn write_one(body: &BlockBody, extra: &Fields, plain: &str) -> Json {
    let BlockBody::Text(text) = body else {
        return write_block(body, extra);
    };
    let kind = json::text_field(extra, MARK).unwrap_or_else(|| plain.to_owned());
    let mut out = Writer::default();
    out.text("type", &kind).text("text", text);
    out.fields(&without_marks(extra)).finish()
}
