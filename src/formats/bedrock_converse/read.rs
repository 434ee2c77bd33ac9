//! Reading.

use super::FORMAT;
use super::message::{write_message, write_parts};
use crate::formats::detect::{PieceReader, Sniff};
use crate::formats::input::Piece;
use crate::formats::record::{self, Records, Story};
use crate::formats::{Transcript, Usage, json, mark};
use crate::log::{
    Author, Block, BlockBody, Fields, Json, Media, Message, Micros, Part, PartBody, Role, Shape,
    Source,
};

/// The mark of a result's block that holds JSON, not words.
pub const JSON_BLOCK: &str = "json";

/// The field of a request that holds instructions, and the mark of a message that stood there.
pub(super) const SYSTEM: &str = "system";

/// The fields that a block may be.
pub(super) const BLOCKS: [&str; 11] = [
    "text",
    "toolUse",
    "toolResult",
    "image",
    "document",
    "video",
    "audio",
    "reasoningContent",
    "cachePoint",
    "guardContent",
    "citationsContent",
];

/// The format.
pub(crate) struct BedrockConverse;

impl PieceReader for BedrockConverse {
    fn name(&self) -> &'static str {
        FORMAT
    }

    fn sniff(&self, record: &Fields) -> Sniff {
        let endpoint = json::text_field(record, "endpoint").unwrap_or_default();
        if endpoint.ends_with("/converse") || endpoint.ends_with("/converse-stream") {
            return Sniff::Is;
        }
        let within = |name: &str| json::object(json::field(record, name)?);
        let answer = within("response").is_some_and(|answer| self.is_response(&answer));
        if answer || self.is_response(record) {
            return Sniff::Is;
        }
        let request = within("request");
        let request = request.as_ref().unwrap_or(record);
        let messages = json::field(request, "messages").and_then(json::array);
        let messages = messages.unwrap_or_default();
        let shown = messages.iter().filter_map(json::object);
        let shown = shown.map(|message| shown_by(&message)).max();
        shown.unwrap_or_else(|| shown_by(record))
    }

    fn read(&self, pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
        record::read(self, pieces)
    }

    fn given(&self, messages: &[&Message]) -> Option<Json> {
        Some(super::write_message(messages))
    }
}

/// Blocks without a type, of one field each; text alone may be another's.
fn shown_by(message: &Fields) -> Sniff {
    let blocks = json::field(message, "content").and_then(json::array);
    let kind = |block: &Json| match json::object(block)?.as_slice() {
        [(name, _)] => BLOCKS.iter().find(|block| *block == name).copied(),
        _ => None,
    };
    let kinds: Option<Vec<&str>> = blocks.unwrap_or_default().iter().map(kind).collect();
    match kinds.as_deref() {
        None | Some([]) => Sniff::No,
        Some(kinds) if kinds.iter().all(|kind| *kind == "text") => Sniff::Maybe,
        Some(_) => Sniff::Is,
    }
}

impl Records for BedrockConverse {
    const FORMAT: &'static str = FORMAT;

    fn model(&self, _: &Fields, endpoint: &str) -> Option<String> {
        let (_, after) = endpoint.split_once("/model/")?;
        let (model, _) = after.split_once("/converse")?;
        Some(model.replace("%3A", ":").replace("%2F", "/"))
    }

    fn message(&self, json: &Json) -> Option<Vec<Message>> {
        message(json)
    }

    fn before(&self, request: &mut Fields) -> Vec<Message> {
        let told = json::take_as(request, SYSTEM, system);
        told.into_iter().collect()
    }

    fn is_response(&self, fields: &Fields) -> bool {
        let output = json::field(fields, "output").and_then(json::object);
        output.is_some_and(|output| json::field(&output, "message").is_some())
    }

    fn answer(&self, story: &mut Story, mut response: Fields, at: Option<Micros>) {
        let usage = json::field(&response, "usage").and_then(usage_of);
        let mut output = json::take_as(&mut response, "output", json::object).unwrap_or_default();
        let answer = json::take_as(&mut output, "message", message);
        let missing = answer.is_none();
        story.messages(answer.unwrap_or_default(), at);
        if !output.is_empty() {
            response.push(("output".to_owned(), json::write_object(&output)));
        }
        story.returned(usage, None, response, at);
        if missing {
            story.noted("the response holds no answer", None, true);
        }
    }
}

fn usage_of(usage: &Json) -> Option<Usage> {
    let fields = json::object(usage)?;
    let count = |name: &str| json::field(&fields, name).and_then(json::integer);
    Some(Usage {
        input: count("inputTokens"),
        output: count("outputTokens"),
        cache_read: count("cacheReadInputTokens"),
        cache_write: count("cacheWriteInputTokens"),
    })
}

fn source() -> Source {
    Source {
        format: FORMAT.to_owned(),
        ..Source::default()
    }
}

/// Reads a request's instructions; `None` when there are none.
pub(super) fn system(given: &Json) -> Option<Message> {
    let blocks = json::array(given).filter(|blocks| !blocks.is_empty())?;
    let parts: Vec<Part> = blocks.iter().map(part).collect();
    let again = write_parts(&parts.iter().collect::<Vec<_>>());
    let verbatim = (!json::equal(&again, given)).then(|| given.clone());
    Some(Message {
        role: Role::System,
        author: Author::Application,
        parts,
        shape: Shape::List,
        extra: vec![mark(SYSTEM)],
        source: Some(Source {
            verbatim,
            ..source()
        }),
    })
}

pub(super) fn message(json: &Json) -> Option<Vec<Message>> {
    let mut extra = json::object(json)?;
    let role = json::take_as(&mut extra, "role", json::string).unwrap_or_default();
    let role = match role.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        // A log knows roles by their names, and what others call theirs means nothing here.
        other => Role::Other(format!("other:{other}")),
    };
    let blocks = json::take_as(&mut extra, "content", json::array);
    let shape = if blocks.is_some() {
        Shape::List
    } else {
        Shape::Absent
    };
    let parts: Vec<Part> = blocks.unwrap_or_default().iter().map(part).collect();
    let mut messages = record::apart(Message {
        author: record::author_of(&role),
        role,
        parts,
        shape,
        extra,
        source: Some(source()),
    });
    // What stands apart loses its order.
    let again = write_message(&messages.iter().collect::<Vec<_>>());
    if let Some(source) = messages.first_mut().and_then(|m| m.source.as_mut()) {
        source.verbatim = (!json::equal(&again, json)).then(|| json.clone());
    }
    Some(messages)
}

fn part(whole: &Json) -> Part {
    let Some(mut fields) = json::object(whole) else {
        return record::opaque("", whole);
    };
    let Some(name) = BLOCKS
        .iter()
        .find(|name| json::field(&fields, name).is_some())
    else {
        let name = fields.first().map_or("", |(name, _)| name);
        return record::opaque(name, whole);
    };
    let body = match *name {
        "text" => json::take_as(&mut fields, "text", json::string)
            .map(|text| PartBody::Block(BlockBody::Text(text))),
        "toolUse" => call(&mut fields),
        "toolResult" => result(&mut fields, whole),
        "reasoningContent" => reasoning(&mut fields),
        media => kind_of(media).map(|kind| {
            fields.clear(); // it is kept whole
            PartBody::Block(BlockBody::Media(kind, whole.clone()))
        }),
    };
    body.map_or_else(
        || record::opaque(name, whole),
        |body| Part {
            body,
            extra: fields,
        },
    )
}

fn kind_of(media: &str) -> Option<Media> {
    match media {
        "image" => Some(Media::Image),
        "audio" => Some(Media::Audio),
        "video" => Some(Media::Video),
        "document" => Some(Media::File),
        _ => None,
    }
}

/// Takes the object of a block's field. What a reader leaves of it goes back under its name.
fn within<T>(
    fields: &mut Fields,
    name: &str,
    read: impl FnOnce(&mut Fields) -> Option<T>,
) -> Option<T> {
    let mut inner = json::object(json::field(fields, name)?)?;
    let read = read(&mut inner)?;
    json::take(fields, name);
    if !inner.is_empty() {
        fields.push((name.to_owned(), json::write_object(&inner)));
    }
    Some(read)
}

fn call(fields: &mut Fields) -> Option<PartBody> {
    within(fields, "toolUse", |inner| {
        let name = json::take_as(inner, "name", json::string)?;
        Some(PartBody::Call {
            id: json::take_as(inner, "toolUseId", json::string),
            name,
            arguments: json::take(inner, "input")
                .map(|input| input.0)
                .unwrap_or_default(),
            native: json::take_as(inner, "type", json::string),
        })
    })
}

fn result(fields: &mut Fields, whole: &Json) -> Option<PartBody> {
    let native = json::object(json::field(fields, "toolResult")?)
        .and_then(|inner| json::text_field(&inner, "type"));
    if native.is_some() {
        let inner = json::object(&json::take(fields, "toolResult")?)?;
        return Some(PartBody::Result {
            call: json::text_field(&inner, "toolUseId"),
            name: None,
            content: vec![Block {
                body: BlockBody::Opaque("toolResult".to_owned(), whole.clone()),
                extra: Fields::new(),
            }],
            shape: Shape::List,
            error: status(&inner),
            interim: false,
            native,
        });
    }
    within(fields, "toolResult", |inner| {
        let call = json::take_as(inner, "toolUseId", json::string);
        let error = status(inner).inspect(|_| drop(json::take(inner, "status")));
        let blocks = json::take_as(inner, "content", json::array);
        let shape = if blocks.is_some() {
            Shape::List
        } else {
            Shape::Absent
        };
        Some(PartBody::Result {
            call,
            name: None,
            content: blocks.unwrap_or_default().iter().map(block).collect(),
            shape,
            error,
            interim: false,
            native: None,
        })
    })
}

fn status(result: &Fields) -> Option<bool> {
    match json::text_field(result, "status")?.as_str() {
        "success" => Some(false),
        "error" => Some(true),
        _ => None,
    }
}

/// A block inside a result; JSON is words there.
fn block(whole: &Json) -> Block {
    let mut fields = json::object(whole).unwrap_or_default();
    if let Some(value) = json::take(&mut fields, "json") {
        fields.push(mark(JSON_BLOCK));
        return Block {
            extra: fields,
            ..record::words(value.0)
        };
    }
    let flat = ["toolUse", "toolResult", "reasoningContent"];
    if flat.iter().any(|name| json::field(&fields, name).is_some()) {
        // No result holds these; and nothing here recurses.
        return record::block(record::opaque("", whole), whole);
    }
    record::block(part(whole), whole)
}

fn reasoning(fields: &mut Fields) -> Option<PartBody> {
    within(fields, "reasoningContent", |inner| {
        if let Some(sealed) = json::take_as(inner, "redactedContent", json::string) {
            return Some(PartBody::Reasoning {
                text: String::new(),
                signature: None,
                encrypted: Some(sealed),
            });
        }
        within(inner, "reasoningText", |words| {
            Some(PartBody::Reasoning {
                text: json::take_as(words, "text", json::string)?,
                signature: json::take_as(words, "signature", json::string),
                encrypted: None,
            })
        })
    })
}
