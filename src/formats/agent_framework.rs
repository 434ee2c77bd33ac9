//! Runs of Microsoft's Agent Framework: a record with the `messages` of one, each a role and a list of
//! contents. The system prompt is not among them.

use super::detect::{PieceReader, Sniff};
use super::input::Piece;
use super::record::{self, Story};
use super::{Transcript, json, mark, marked, without_marks};
use crate::log::{
    Author, Block, BlockBody, Fields, Json, Media, Message, Part, PartBody, Role, Shape, Source,
};

/// The format's name.
pub const FORMAT: &str = "agent-framework";

/// The format.
pub(crate) struct AgentFramework;

impl PieceReader for AgentFramework {
    fn name(&self) -> &'static str {
        FORMAT
    }

    fn sniff(&self, record: &Fields) -> Sniff {
        let messages = json::field(record, "messages").and_then(json::array);
        let first = messages.and_then(|messages| messages.first().and_then(json::object));
        Sniff::is(is_message(record) || first.is_some_and(|message| is_message(&message)))
    }

    fn read(&self, pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
        read(pieces)
    }

    fn given(&self, messages: &[&Message]) -> Option<Json> {
        Some(write_message(messages.first()?))
    }
}

fn is_message(fields: &Fields) -> bool {
    let contents = json::field(fields, "contents").and_then(json::array);
    role(fields).is_some() && contents.is_some()
}

/// A role is an object with its value, or a string in newer versions.
fn role(fields: &Fields) -> Option<String> {
    let role = json::field(fields, "role")?;
    let inner = json::object(role).and_then(|role| json::text_field(&role, "value"));
    inner.or_else(|| json::string(role))
}

fn read(pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
    let mut told = Vec::new();
    let mut bare = Story::new(FORMAT);
    for piece in pieces {
        match bare.record(piece) {
            Some(record) if is_message(&record.fields) => message(&mut bare, &record.json),
            Some(record) => told.push(run(record.fields, &record.place)),
            None => {}
        }
    }
    bare.finish_into(&mut told);
    told
}

fn run(mut record: Fields, place: &str) -> Transcript {
    let mut story = Story::new(FORMAT);
    story.at(place);
    let id = json::field(&record, "id").filter(|id| !json::is_null(id));
    story.identify(id.map(|id| json::string(id).unwrap_or_else(|| id.0.clone())));
    let config = json::field(&record, "config").and_then(json::object);
    let agent = config.and_then(|config| json::object(json::field(&config, "assistant")?));
    story.configured(agent.unwrap_or_default());
    match json::take_as(&mut record, "messages", json::array) {
        Some(messages) => messages.iter().for_each(|m| message(&mut story, m)),
        None => story.noted("a record without messages", None, true),
    }
    story.leftovers(&record);
    story.finish()
}

fn message(story: &mut Story, json: &Json) {
    match read_message(json) {
        Some(message) => story.history(vec![message]),
        None => story.noted("a message without a role", Some(json.clone()), true),
    }
}

fn read_message(json: &Json) -> Option<Message> {
    let mut around = json::object(json)?;
    let role = Role::from_name(&role(&around)?);
    let contents = json::take_as(&mut around, "contents", json::array);
    let author = match role {
        Role::User => Author::Person,
        Role::Assistant => Author::Model,
        Role::Tool => Author::Tool,
        _ => Author::Application,
    };
    let parts: Vec<Part> = contents.iter().flatten().map(part).collect();
    let mut message = Message::new(role, author, parts);
    let id = json::text_field(&around, "message_id");
    around.retain(|(_, value)| !json::is_null(value));
    message.source = Some(Source {
        format: FORMAT.to_owned(),
        id,
        around,
        verbatim: None,
    });
    Some(message)
}

fn part(content: &Json) -> Part {
    let mut extra = json::object(content).unwrap_or_default();
    let kind = json::take_as(&mut extra, "type", json::string).unwrap_or_default();
    let text = |extra: &mut Fields| json::take_as(extra, "text", json::string);
    let body = match kind.as_str() {
        "text" => text(&mut extra).map(|text| PartBody::Block(BlockBody::Text(text))),
        "text_reasoning" => text(&mut extra).map(|text| PartBody::Reasoning {
            text,
            signature: None,
            encrypted: json::take_as(&mut extra, "protected_data", json::string),
        }),
        "function_call" => call(&mut extra),
        "function_result" => Some(result(&mut extra)),
        _ => None,
    };
    if let Some(body) = body {
        // A field without a value says nothing.
        extra.retain(|(_, value)| !json::is_null(value));
        return Part { body, extra };
    }
    let whole = content.clone();
    let mime = json::text_field(&extra, "media_type").unwrap_or_default();
    let media = match mime.split('/').next() {
        Some("image") => Media::Image,
        Some("audio") => Media::Audio,
        Some("video") => Media::Video,
        _ => Media::File,
    };
    let body = match kind.as_str() {
        "data" | "uri" => BlockBody::Media(media, whole),
        _ => BlockBody::Opaque(kind, whole),
    };
    Part {
        body: PartBody::Block(body),
        extra: Fields::new(),
    }
}

fn call(extra: &mut Fields) -> Option<PartBody> {
    let name = json::take_as(extra, "name", json::string)?;
    let arguments = json::take(extra, "arguments").filter(|a| !json::is_null(a));
    if arguments
        .as_ref()
        .is_some_and(|a| json::string(a).is_none())
    {
        extra.push(mark(JSON));
    }
    Some(PartBody::Call {
        id: json::take_as(extra, "call_id", json::string),
        name,
        arguments: arguments
            .map(|a| json::string(&a).unwrap_or(a.0))
            .unwrap_or_default(),
        native: None,
    })
}

/// A result is any JSON value; where the tool failed, what it says of that is all there is.
fn result(extra: &mut Fields) -> PartBody {
    let given = json::take(extra, "result").filter(|result| !json::is_null(result));
    let failure = json::text_field(extra, "exception");
    let is_json = given
        .as_ref()
        .is_some_and(|given| json::string(given).is_none());
    let words = given.map(|given| json::string(&given).unwrap_or(given.0));
    let words = words.or_else(|| failure.clone());
    let shape = if words.is_some() {
        Shape::Text
    } else {
        Shape::Null
    };
    let block = |text| Block {
        body: BlockBody::Text(text),
        extra: is_json.then(|| mark(JSON)).into_iter().collect(),
    };
    PartBody::Result {
        call: json::take_as(extra, "call_id", json::string),
        name: None,
        content: words.map(block).into_iter().collect(),
        shape,
        error: failure.map(|_| true),
        interim: false,
        native: None,
    }
}

/// The mark of what is JSON in the source, not a text.
const JSON: &str = "json";

/// A message without its fields that are null: they are not kept.
fn write_message(message: &Message) -> Json {
    let contents: Vec<Json> = message.parts.iter().map(write_part).collect();
    let mut out = json::Writer::default();
    out.field("contents", &json::write_array(&contents).0);
    out.fields(&record::around(message)).finish()
}

fn write_part(part: &Part) -> Json {
    let mut out = json::Writer::default();
    let given = |out: &mut json::Writer, name: &str, text: &str, extra: &Fields| {
        if marked(extra, JSON) {
            out.field(name, text);
        } else {
            out.text(name, text);
        }
    };
    match &part.body {
        PartBody::Block(BlockBody::Text(text)) => _ = out.text("type", "text").text("text", text),
        PartBody::Block(BlockBody::Media(_, whole) | BlockBody::Opaque(_, whole)) => {
            return whole.clone();
        }
        PartBody::Reasoning {
            text, encrypted, ..
        } => {
            out.text("type", "text_reasoning").text("text", text);
            if let Some(sealed) = encrypted {
                out.text("protected_data", sealed);
            }
        }
        PartBody::Call {
            id,
            name,
            arguments,
            ..
        } => {
            out.text("type", "function_call").text("name", name);
            if let Some(id) = id {
                out.text("call_id", id);
            }
            if !arguments.is_empty() {
                given(&mut out, "arguments", arguments, &part.extra);
            }
        }
        PartBody::Result { call, content, .. } => {
            out.text("type", "function_result");
            if let Some(call) = call {
                out.text("call_id", call);
            }
            let failure = json::text_field(&part.extra, "exception");
            for block in content {
                if let BlockBody::Text(text) = &block.body
                    && failure.as_ref() != Some(text)
                {
                    given(&mut out, "result", text, &block.extra);
                }
            }
        }
    }
    out.fields(&without_marks(&part.extra)).finish()
}
