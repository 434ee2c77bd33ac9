//! Logs of Inspect evaluations: a conversation for each sample and epoch. Large texts lie beside the
//! messages (`attachments`) and are put back. `events` are a finer log of the same: what they say of a
//! message's call (when, usage) goes with it, and they are kept as notes. A file of events alone holds
//! a conversation for each call that does not go on from the one before it.

use std::collections::HashMap;

use super::detect::{PieceReader, Sniff};
use super::input::Piece;
use super::record::{self, Record, Story, instant};
use super::{Transcript, Usage, json};
use crate::log::{
    Author, Block, BlockBody, Fields, Json, Media, Message, Micros, Part, PartBody, Role, Shape,
    Source,
};

/// The format's name.
pub const FORMAT: &str = "inspect-log";

/// How a text that lies elsewhere is named, before its 32 hexadecimal digits.
const ATTACHMENT: &str = "\"attachment://";
const DIGITS: usize = 32;

/// How often over the texts of a sample may be put back: a hostile file may name one again and again.
const EXPANSION: usize = 8;

/// The format.
pub(crate) struct InspectLog;

impl PieceReader for InspectLog {
    fn name(&self) -> &'static str {
        FORMAT
    }

    fn sniff(&self, record: &Fields) -> Sniff {
        let has = |name: &str| json::field(record, name).is_some();
        let sample = has("epoch") && has("messages") && has("id");
        let log = has("eval") && (has("samples") || has("plan"));
        Sniff::is(log || sample || is_events(record))
    }

    fn read(&self, pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
        read(pieces)
    }

    fn given(&self, messages: &[&Message]) -> Option<Json> {
        Some(write_message(messages.first()?))
    }
}

/// Whether it has a list of events that say what they are.
fn is_events(record: &Fields) -> bool {
    let events = json::field(record, "events").and_then(json::array);
    let first = events.and_then(|events| events.first().and_then(json::object));
    first.is_some_and(|first| json::field(&first, "event").is_some())
}

fn read(pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
    let mut told = Vec::new();
    let mut notes = Story::new(FORMAT);
    for piece in pieces {
        let Some(Record {
            place,
            fields: mut log,
            ..
        }) = notes.record(piece)
        else {
            continue;
        };
        match json::take_as(&mut log, "samples", json::array) {
            Some(samples) => told.extend(samples.iter().map(|s| sample(s, &place))),
            None if json::field(&log, "messages").is_some() => {
                told.push(sample(&json::write_object(&log), &place));
                continue;
            }
            None => told.extend(events_alone(&mut log, &place)),
        }
        notes.leftovers(&log);
    }
    // What is said of the whole log stands with its first sample.
    notes.finish_on_first(&mut told);
    told.retain(|transcript| !transcript.steps.is_empty());
    told
}

fn sample(json: &Json, place: &str) -> Transcript {
    let mut story = Story::new(FORMAT);
    story.at(place);
    let Some(mut sample) = json::object(json) else {
        story.noted("a sample that is no object", Some(json.clone()), true);
        return story.finish();
    };
    let named = |name: &str| {
        let value = json::field(&sample, name).filter(|value| !json::is_null(value))?;
        Some(json::string(value).unwrap_or_else(|| value.0.clone()))
    };
    let epoch = named("epoch").map(|epoch| format!("-{epoch}"));
    story.identify(named("id").map(|id| id + &epoch.unwrap_or_default()));
    let calls = calls(json::field(&sample, "events"));
    let mut texts = Texts::new(&sample, json.0.len());
    match json::take_as(&mut sample, "messages", json::array) {
        Some(messages) => {
            for message in &messages {
                let whole = texts.put_back(message, &mut story);
                add(&mut story, &whole, &calls);
            }
        }
        None => story.noted("a sample without messages", None, true),
    }
    if let Some(events) = json::take(&mut sample, "events") {
        story.kept("events", events);
    }
    if let Some(attachments) = json::take(&mut sample, "attachments") {
        story.kept("attachments", attachments);
    }
    story.leftovers(&sample);
    story.finish()
}

/// What an event says of the call that a message came from.
#[derive(Default)]
struct Told {
    usage: Option<Usage>,
    at: Option<Micros>,
}

/// The calls by the id of the message that each gave.
fn calls(events: Option<&Json>) -> HashMap<String, Told> {
    let events = events.and_then(json::array).unwrap_or_default();
    let read = |event: &Json| {
        let event = json::object(event)?;
        let output = json::object(json::field(&event, "output")?)?;
        let choices = json::array(json::field(&output, "choices")?)?;
        let choice = json::object(choices.first()?)?;
        let message = json::object(json::field(&choice, "message")?)?;
        let at = ["completed", "timestamp"];
        let told = Told {
            usage: json::field(&output, "usage").and_then(usage),
            at: at
                .iter()
                .find_map(|n| json::field(&event, n).and_then(instant)),
        };
        Some((json::text_field(&message, "id")?, told))
    };
    events.iter().filter_map(read).collect()
}

fn usage(usage: &Json) -> Option<Usage> {
    let fields = json::object(usage)?;
    let count = |name: &str| json::field(&fields, name).and_then(json::integer);
    let (read, write) = (
        count("input_tokens_cache_read"),
        count("input_tokens_cache_write"),
    );
    let output = count("output_tokens");
    let cached = read.unwrap_or(0).saturating_add(write.unwrap_or(0));
    // Providers differ in whether cached tokens are input tokens; the total has each once.
    let known = cached.saturating_add(output.unwrap_or(0));
    let total = count("total_tokens").and_then(|total| total.checked_sub(known));
    Some(Usage {
        input: total.or_else(|| count("input_tokens")),
        output,
        cache_read: read,
        cache_write: write,
    })
}

fn add(story: &mut Story, json: &Json, calls: &HashMap<String, Told>) {
    let Some(message) = read_message(json) else {
        return story.noted("a message that is no object", Some(json.clone()), true);
    };
    let source = message.source.as_ref();
    let told = source
        .and_then(|s| s.id.as_ref())
        .and_then(|id| calls.get(id));
    if message.author != Author::Model {
        return story.messages(vec![message], None);
    }
    let model = source.and_then(|source| json::text_field(&source.around, "model"));
    let at = told.and_then(|told| told.at);
    story.called_at(model, at);
    story.messages(vec![message], at);
    if let Some(Told {
        usage: Some(usage),
        at,
    }) = told
    {
        story.returned(Some(*usage), None, Fields::new(), *at);
    }
}

/// The texts that lie beside the messages, each as JSON.
struct Texts {
    texts: HashMap<String, Json>,
    /// How many bytes may still be put back.
    left: usize,
}

impl Texts {
    fn new(sample: &Fields, size: usize) -> Self {
        let texts = json::field(sample, "attachments").and_then(json::object);
        Self {
            texts: texts.unwrap_or_default().into_iter().collect(),
            left: size.saturating_mul(EXPANSION),
        }
    }

    /// The message with every text that is only a name replaced by what it names.
    fn put_back(&mut self, message: &Json, story: &mut Story) -> Json {
        let mut out = String::new();
        let mut rest = message.0.as_str();
        while let Some((before, after)) = rest.split_once(ATTACHMENT) {
            out.push_str(before);
            let named = after.split_at_checked(DIGITS);
            let named = named.filter(|(_, after)| after.starts_with('"'));
            let text = named.and_then(|(name, _)| self.texts.get(name));
            let text = text.filter(|text| text.0.len() <= self.left);
            if let (Some((_, after)), Some(text)) = (named, text) {
                out.push_str(&text.0);
                self.left = self.left.saturating_sub(text.0.len());
                rest = after.strip_prefix('"').unwrap_or(after);
            } else {
                if named.is_some() {
                    let what = "a text lies in an attachment that is not here, or too often";
                    story.noted(what, None, true);
                }
                out.push_str(ATTACHMENT);
                rest = after;
            }
        }
        out.push_str(rest);
        Json(out)
    }
}

fn read_message(json: &Json) -> Option<Message> {
    let mut around = json::object(json)?;
    let role = json::take_as(&mut around, "role", json::string).unwrap_or_default();
    let role = Role::from_name(&role);
    let id = json::take_as(&mut around, "id", json::string);
    let (mut parts, shape) = content(json::take(&mut around, "content"));
    let author = match role {
        Role::User => Author::Person,
        Role::Assistant => Author::Model,
        Role::Tool => Author::Tool,
        _ => Author::Application,
    };
    if role == Role::Tool {
        parts = vec![result(parts, shape, &mut around)];
    } else if let Some(calls) = json::take_as(&mut around, "tool_calls", json::array) {
        parts.extend(calls.iter().map(call));
    }
    let mut message = Message {
        shape,
        ..Message::new(role, author, parts)
    };
    message.source = Some(Source {
        format: FORMAT.to_owned(),
        id,
        around,
        verbatim: None,
    });
    record::keep_whole(&mut message, json, write_message);
    Some(message)
}

/// A message as it stood, with the texts that lay beside put back.
fn write_message(message: &Message) -> Json {
    let mut out = json::Writer::default();
    out.text("role", message.role.name());
    if let Some(id) = message
        .source
        .as_ref()
        .and_then(|source| source.id.as_ref())
    {
        out.text("id", id);
    }
    let mut calls = Vec::new();
    let mut blocks: Vec<Json> = Vec::new();
    let mut shape = message.shape;
    for part in &message.parts {
        match &part.body {
            PartBody::Result {
                call,
                name,
                content,
                shape: own,
                ..
            } => {
                shape = *own;
                for (field, value) in [("tool_call_id", call), ("function", name)] {
                    if let Some(value) = value {
                        out.text(field, value);
                    }
                }
                blocks.extend(
                    content
                        .iter()
                        .map(|b| super::write_block(&b.body, &b.extra)),
                );
            }
            PartBody::Call { .. } => calls.push(write_call(part)),
            PartBody::Block(body) => blocks.push(super::write_block(body, &part.extra)),
            PartBody::Reasoning { .. } => blocks.push(write_reasoning(part)),
        }
    }
    match (shape, blocks.as_slice()) {
        (Shape::Absent, _) => {}
        (Shape::Null, _) => _ = out.field("content", "null"),
        (Shape::Text, _) => _ = out.text("content", &text_of(message)),
        (Shape::List, blocks) => _ = out.field("content", &json::write_array(blocks).0),
    }
    if !calls.is_empty() {
        out.field("tool_calls", &json::write_array(&calls).0);
    }
    out.fields(&record::around(message)).finish()
}

/// The content of a message that is one text.
fn text_of(message: &Message) -> String {
    let text = |body: &BlockBody| match body {
        BlockBody::Text(text) => Some(text.clone()),
        _ => None,
    };
    let found = message.parts.iter().find_map(|part| match &part.body {
        PartBody::Block(body) => text(body),
        PartBody::Result { content, .. } => content.iter().find_map(|b| text(&b.body)),
        _ => None,
    });
    found.unwrap_or_default()
}

fn write_call(part: &Part) -> Json {
    let mut out = json::Writer::default();
    if let PartBody::Call {
        id,
        name,
        arguments,
        ..
    } = &part.body
    {
        if let Some(id) = id {
            out.text("id", id);
        }
        out.text("function", name);
        if !arguments.is_empty() {
            out.field("arguments", arguments);
        }
    }
    out.fields(&part.extra).finish()
}

fn write_reasoning(part: &Part) -> Json {
    let mut out = json::Writer::default();
    out.text("type", "reasoning");
    if let PartBody::Reasoning {
        text,
        signature,
        encrypted,
    } = &part.body
    {
        out.text("reasoning", encrypted.as_ref().unwrap_or(text));
        if let Some(signature) = signature {
            out.text("signature", signature);
        }
    }
    out.fields(&part.extra).finish()
}

fn content(content: Option<Json>) -> (Vec<Part>, Shape) {
    let Some(content) = content else {
        return (Vec::new(), Shape::Absent);
    };
    if let Some(text) = json::string(&content) {
        return (vec![Part::text(text)], Shape::Text);
    }
    match json::array(&content) {
        Some(list) => (list.iter().map(part).collect(), Shape::List),
        None if json::is_null(&content) => (Vec::new(), Shape::Null),
        None => (vec![whole(String::new(), &content)], Shape::List),
    }
}

fn whole(kind: String, json: &Json) -> Part {
    let body = match kind.as_str() {
        "image" => BlockBody::Media(Media::Image, json.clone()),
        "audio" => BlockBody::Media(Media::Audio, json.clone()),
        "video" => BlockBody::Media(Media::Video, json.clone()),
        "document" => BlockBody::Media(Media::File, json.clone()),
        _ => BlockBody::Opaque(kind, json.clone()),
    };
    Part {
        body: PartBody::Block(body),
        extra: Fields::new(),
    }
}

fn part(json: &Json) -> Part {
    let mut extra = json::object(json).unwrap_or_default();
    let kind = json::take_as(&mut extra, "type", json::string).unwrap_or_default();
    match kind.as_str() {
        "text" => match json::take_as(&mut extra, "text", json::string) {
            Some(text) => Part {
                extra,
                ..Part::text(text)
            },
            None => whole(kind, json),
        },
        "reasoning" => {
            let words = json::take_as(&mut extra, "reasoning", json::string);
            let sealed = json::field(&extra, "redacted").and_then(json::boolean) == Some(true);
            let (text, encrypted) = match (words, sealed) {
                (Some(words), true) => (String::new(), Some(words)),
                (words, _) => (words.unwrap_or_default(), None),
            };
            let signature = json::take_as(&mut extra, "signature", json::string);
            let body = PartBody::Reasoning {
                text,
                signature,
                encrypted,
            };
            Part { body, extra }
        }
        _ => whole(kind, json),
    }
}

fn call(json: &Json) -> Part {
    let mut extra = json::object(json).unwrap_or_default();
    let Some(name) = json::take_as(&mut extra, "function", json::string) else {
        return whole("tool_call".to_owned(), json);
    };
    let body = PartBody::Call {
        id: json::take_as(&mut extra, "id", json::string),
        name,
        arguments: json::take(&mut extra, "arguments")
            .map(|arguments| arguments.0)
            .unwrap_or_default(),
        native: None,
    };
    Part { body, extra }
}

fn result(parts: Vec<Part>, shape: Shape, around: &mut Fields) -> Part {
    let block = |part: Part| match part.body {
        PartBody::Block(body) => Some(Block {
            body,
            extra: part.extra,
        }),
        _ => None,
    };
    let error = json::field(around, "error").filter(|error| !json::is_null(error));
    Part {
        body: PartBody::Result {
            error: error.map(|_| true),
            call: json::take_as(around, "tool_call_id", json::string),
            name: json::take_as(around, "function", json::string),
            content: parts.into_iter().filter_map(block).collect(),
            shape,
            interim: false,
            native: None,
        },
        extra: Fields::new(),
    }
}

/// The calls of a file of events. A call whose messages begin with all of the one before goes on.
fn events_alone(log: &mut Fields, place: &str) -> Vec<Transcript> {
    let events = json::take_as(log, "events", json::array).unwrap_or_default();
    let mut told: Vec<Transcript> = Vec::new();
    let mut story = Story::new(FORMAT);
    let mut said: Vec<Json> = Vec::new();
    for json in &events {
        let event = json::object(json).unwrap_or_default();
        let is_call = json::text_field(&event, "event").as_deref() == Some("model");
        let input = json::field(&event, "input").and_then(json::array);
        let Some(input) = input.filter(|_| is_call) else {
            story.at(place);
            let kind = json::text_field(&event, "event").unwrap_or_default();
            story.noted(kind, Some(json.clone()), false);
            continue;
        };
        let goes_on = !said.is_empty() && input.starts_with(&said);
        let has_call = !said.is_empty();
        if !goes_on {
            if has_call {
                told.push(std::mem::replace(&mut story, Story::new(FORMAT)).finish());
            }
            said.clear();
            story.identify(json::text_field(&event, "uuid"));
        }
        story.at(place);
        let known = HashMap::new();
        input
            .iter()
            .skip(said.len())
            .for_each(|message| add(&mut story, message, &known));
        said = input;
        said.extend(answer(&mut story, &event));
    }
    if !story.is_empty() {
        told.push(story.finish());
    }
    told
}

/// Adds what a call gave; gives its message.
fn answer(story: &mut Story, event: &Fields) -> Option<Json> {
    let at = ["completed", "timestamp"];
    let at = at
        .iter()
        .find_map(|n| json::field(event, n).and_then(instant));
    story.called_at(json::text_field(event, "model"), at);
    let mut output = json::field(event, "output").and_then(json::object)?;
    let usage = json::field(&output, "usage").and_then(usage);
    let failure = json::text_field(event, "error").or_else(|| json::text_field(&output, "error"));
    let choices = json::take_as(&mut output, "choices", json::array);
    let first = choices.and_then(|choices| choices.first().and_then(json::object));
    let message = first.and_then(|choice| json::field(&choice, "message").cloned());
    let read = message.as_ref().and_then(read_message);
    story.messages(read.into_iter().collect(), at);
    story.returned(usage, failure, output, at);
    message
}
