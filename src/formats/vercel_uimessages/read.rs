//! Reading.

use std::collections::HashSet;

use super::FORMAT;
use super::message::{JSON_OUTPUT, STEP_START, beside, write_message};
use crate::formats::detect::{PieceReader, Sniff};
use crate::formats::input::Piece;
use crate::formats::record::{self, Story};
use crate::formats::{Transcript, json, mark};
use crate::log::{
    Author, Block, BlockBody, Fields, Json, Message, Part, PartBody, Role, Shape, Source,
};

/// The format.
pub(crate) struct VercelUiMessages;

impl PieceReader for VercelUiMessages {
    fn name(&self) -> &'static str {
        FORMAT
    }

    fn sniff(&self, record: &Fields) -> Sniff {
        let messages = json::field(record, "messages").and_then(json::array);
        let messages = messages.unwrap_or_default();
        let mut messages = messages.iter().filter_map(json::object);
        Sniff::is(is_message(record) || messages.any(|message| is_message(&message)))
    }

    fn read(&self, pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
        read(pieces)
    }

    fn given(&self, messages: &[&Message]) -> Option<Json> {
        Some(write_message(messages))
    }
}

/// Its parts name their type.
fn is_message(fields: &Fields) -> bool {
    let role = json::text_field(fields, "role").unwrap_or_default();
    let known = ["system", "user", "assistant"].contains(&role.as_str());
    let parts = json::field(fields, "parts").and_then(json::array);
    let typed = |part: &Json| json::object(part).is_some_and(|p| json::field(&p, "type").is_some());
    known && parts.is_some_and(|parts| parts.iter().any(typed))
}

fn read(pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
    let mut told = Vec::new();
    let mut bare = Story::new(FORMAT);
    for Piece { place, value, .. } in pieces {
        bare.at(&place);
        match value.map(|json| (json::object(&json), json)) {
            Ok((Some(fields), json)) if json::field(&fields, "parts").is_some() => {
                message(&mut bare, json);
            }
            Ok((Some(fields), _)) => {
                told.extend(record::one(FORMAT, &place, |story| {
                    conversation(story, fields);
                }));
            }
            Ok((None, json)) => {
                bare.noted("this is no record: not a JSON object", Some(json), true);
            }
            Err(damage) => bare.damaged(&place, damage),
        }
    }
    if !bare.is_empty() {
        told.push(bare.finish());
    }
    told
}

fn conversation(story: &mut Story, mut fields: Fields) {
    let named = ["id", "chatId"];
    let named = named
        .iter()
        .find_map(|name| json::text_field(&fields, name));
    story.identify(named);
    let messages = json::take_as(&mut fields, "messages", json::array);
    story.leftovers(&fields);
    if messages.is_none() {
        story.noted("a record without messages", None, true);
    }
    for json in messages.unwrap_or_default() {
        message(story, json);
    }
}

fn message(story: &mut Story, whole: Json) {
    let Some(told) = read_message(&whole) else {
        return story.noted("a message that is no object", Some(whole), true);
    };
    for told in told {
        match told {
            Told::Message(message) if message.role == Role::Assistant => {
                story.history(vec![message]);
            }
            Told::Message(message) => story.messages(vec![message], None),
            Told::Shown(part) => story.noted(kind_of(&part), Some(part), false),
        }
    }
}

/// What a message of the list tells.
pub(super) enum Told {
    Message(Message),
    /// A part that is shown to people and never sent.
    Shown(Json),
}

/// Reads a message of the list; `None` when it is no object. What cannot be written back equal as JSON
/// is kept whole with the first of its messages.
pub(super) fn read_message(whole: &Json) -> Option<Vec<Told>> {
    let mut fields = json::object(whole)?;
    let role = json::take_as(&mut fields, "role", json::string).unwrap_or_default();
    let parts = json::take_as(&mut fields, "parts", json::array).unwrap_or_default();
    let mut told = match role.as_str() {
        "assistant" => Steps::new(fields).tell(&parts),
        _ => of_others(&role, fields, &parts),
    };
    let messages = told.iter().filter_map(|told| match told {
        Told::Message(message) => Some(message),
        Told::Shown(_) => None,
    });
    let messages: Vec<&Message> = messages.collect();
    let same = !has_alike_calls(&messages) && json::equal(&write_message(&messages), whole);
    let first = told.iter_mut().find_map(|told| match told {
        Told::Message(message) => message.source.as_mut(),
        Told::Shown(_) => None,
    });
    if let Some(first) = first.filter(|_| !same) {
        first.verbatim = Some(whole.clone());
    }
    Some(told)
}

/// Whether two calls of one step cannot be told apart by their results.
fn has_alike_calls(messages: &[&Message]) -> bool {
    messages.iter().any(|message| {
        let ids = message.parts.iter().filter_map(|part| match &part.body {
            PartBody::Call { id, .. } => Some(id),
            _ => None,
        });
        let mut seen = HashSet::new();
        ids.into_iter().any(|id| id.is_none() || !seen.insert(id))
    })
}

fn source(fields: &Fields) -> Source {
    Source {
        format: FORMAT.to_owned(),
        id: json::text_field(fields, "id").filter(|id| !id.is_empty()),
        ..Source::default()
    }
}

fn of_others(role: &str, fields: Fields, parts: &[Json]) -> Vec<Told> {
    let role = match role {
        "user" => Role::User,
        "system" => Role::System,
        // A log knows roles by their names, and what others call theirs means nothing here.
        other => Role::Other(format!("other:{other}")),
    };
    let (mut said, mut shown) = (Vec::new(), Vec::new());
    for (place, whole) in parts.iter().enumerate() {
        if is_shown(whole) {
            shown.push((place, whole.clone()));
        } else {
            said.push(part(whole));
        }
    }
    let mut message = Message {
        shape: Shape::List,
        source: Some(source(&fields)),
        extra: fields,
        ..Message::new(role.clone(), record::author_of(&role), said)
    };
    if !shown.is_empty() {
        let count = message.parts.len();
        message.extra.push(beside(count, &shown));
    }
    let shown = shown.into_iter().map(|(_, part)| Told::Shown(part));
    std::iter::once(Told::Message(message))
        .chain(shown)
        .collect()
}

fn kind_of(part: &Json) -> String {
    let fields = json::object(part).unwrap_or_default();
    json::text_field(&fields, "type").unwrap_or_default()
}

/// Whether a part is shown to people and never sent.
fn is_shown(part: &Json) -> bool {
    let kind = kind_of(part);
    kind.starts_with("data-") || kind.starts_with("source-")
}

/// A part that is no tool's.
fn part(whole: &Json) -> Part {
    let mut fields = json::object(whole).unwrap_or_default();
    let kind = json::text_field(&fields, "type").unwrap_or_default();
    let text = |fields: &mut Fields| json::take_as(fields, "text", json::string);
    let body = match kind.as_str() {
        "text" => text(&mut fields).map(|text| PartBody::Block(BlockBody::Text(text))),
        "reasoning" => text(&mut fields).map(|text| PartBody::Reasoning {
            text,
            signature: None,
            encrypted: None,
        }),
        "file" => {
            let media = json::text_field(&fields, "mediaType").unwrap_or_default();
            fields.clear(); // it is kept whole
            let kind = record::media_kind(&media);
            Some(PartBody::Block(BlockBody::Media(kind, whole.clone())))
        }
        _ => None,
    };
    let Some(body) = body else {
        return record::opaque(&kind, whole);
    };
    json::take(&mut fields, "type");
    Part {
        body,
        extra: fields,
    }
}

/// The steps of a message of the assistant, as they are told.
struct Steps {
    told: Vec<Told>,
    /// What the whole message says; the first step says it.
    fields: Fields,
    source: Source,
    said: Vec<Part>,
    results: Vec<Part>,
    count: usize,
    /// The marks of a step that stand before the next part.
    starts: Vec<(usize, Json)>,
    /// Parts that no message holds, by their places.
    beside: Vec<(usize, Json)>,
}

impl Steps {
    fn new(fields: Fields) -> Self {
        Self {
            told: Vec::new(),
            source: source(&fields),
            fields,
            said: Vec::new(),
            results: Vec::new(),
            count: 0,
            starts: Vec::new(),
            beside: Vec::new(),
        }
    }

    fn tell(mut self, parts: &[Json]) -> Vec<Told> {
        for (place, whole) in parts.iter().enumerate() {
            let kind = kind_of(whole);
            if kind == STEP_START {
                self.end();
                self.starts.push((place, whole.clone()));
            } else if is_shown(whole) {
                self.beside.push((place, whole.clone()));
                self.told.push(Told::Shown(whole.clone()));
            } else if kind == "dynamic-tool" || kind.starts_with("tool-") {
                self.tool(&kind, whole);
            } else {
                if !self.results.is_empty() {
                    self.end();
                }
                self.say(part(whole));
            }
        }
        self.end();
        if self.count == 0 {
            self.model(Vec::new());
        }
        self.beside.append(&mut self.starts);
        self.beside.sort_by_key(|(place, _)| *place);
        let count = parts.len().saturating_sub(self.beside.len());
        let first = self.told.iter_mut().find_map(|told| match told {
            Told::Message(message) => Some(message),
            Told::Shown(_) => None,
        });
        if let Some(first) = first.filter(|_| !self.beside.is_empty()) {
            first.extra.push(beside(count, &self.beside));
        }
        self.told
    }

    fn say(&mut self, mut part: Part) {
        // Of several marks the last begins the step.
        if self.starts.pop().is_some() {
            part.extra.push(mark(STEP_START));
        }
        self.beside.append(&mut self.starts);
        self.said.push(part);
    }

    /// A call, and what came of it.
    fn tool(&mut self, kind: &str, whole: &Json) {
        let mut fields = json::object(whole).unwrap_or_default();
        let name = match kind.strip_prefix("tool-") {
            Some(name) => Some(name.to_owned()),
            None => json::take_as(&mut fields, "toolName", json::string),
        };
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return self.say(record::opaque(kind, whole));
        };
        let id = json::take_as(&mut fields, "toolCallId", json::string);
        let ran = json::field(&fields, "providerExecuted").and_then(json::boolean);
        let native = (ran == Some(true)).then(|| kind.to_owned());
        let result = result(&mut fields, id.clone(), &name, native.as_deref(), whole);
        let given = |value: &Json| (!json::is_null(value)).then(|| value.0.clone());
        let arguments = json::take_as(&mut fields, "input", given);
        let arguments = arguments.or_else(|| {
            let raw = json::field(&fields, "rawInput")?;
            Some(json::string(raw).unwrap_or_else(|| raw.0.clone()))
        });
        let ran = native.is_some();
        let body = PartBody::Call {
            id,
            name,
            arguments: arguments.unwrap_or_default(),
            native,
        };
        self.say(Part {
            body,
            extra: fields,
        });
        match result {
            Some(result) if ran => self.said.push(result),
            result => self.results.extend(result),
        }
    }

    /// Ends a step: what the model said, and the results behind it.
    fn end(&mut self) {
        if self.said.is_empty() {
            return;
        }
        let said = std::mem::take(&mut self.said);
        self.model(said);
        let results = std::mem::take(&mut self.results);
        if !results.is_empty() {
            self.add(Message::new(Role::Tool, Author::Tool, results));
        }
    }

    fn model(&mut self, parts: Vec<Part>) {
        self.add(Message {
            shape: Shape::List,
            ..Message::new(Role::Assistant, Author::Model, parts)
        });
    }

    fn add(&mut self, mut message: Message) {
        message.source = Some(self.source.clone());
        message.extra = vec![mark(&self.count.to_string())];
        message.extra.extend(self.fields.iter().cloned());
        self.told.push(Told::Message(message));
        // The further steps say which message they are of.
        self.fields.retain(|(name, _)| name == "id");
        self.count = self.count.saturating_add(1);
    }
}

/// What came of a call, where something has.
fn result(
    fields: &mut Fields,
    call: Option<String>,
    name: &str,
    native: Option<&str>,
    whole: &Json,
) -> Option<Part> {
    let state = json::text_field(fields, "state").unwrap_or_default();
    let (blocks, error) = match state.as_str() {
        "output-available" => (vec![output(&json::take(fields, "output")?)], None),
        "output-error" => {
            let words = json::take_as(fields, "errorText", json::string);
            let words = words.into_iter().map(record::words);
            (words.collect(), Some(true))
        }
        "output-denied" => {
            let approval = json::field(fields, "approval").and_then(json::object);
            let reason = approval.and_then(|approval| json::text_field(&approval, "reason"));
            let words = reason.into_iter().map(record::words);
            (words.collect(), Some(true))
        }
        _ => return None,
    };
    let content: Vec<Block> = match native {
        None => blocks,
        Some(kind) => vec![Block {
            body: BlockBody::Opaque(kind.to_owned(), whole.clone()),
            extra: Fields::new(),
        }],
    };
    let going_on = json::field(fields, "preliminary").and_then(json::boolean);
    Some(record::plain(PartBody::Result {
        call,
        name: Some(name.to_owned()),
        content,
        shape: if native.is_some() {
            Shape::List
        } else {
            Shape::Text
        },
        error,
        interim: going_on == Some(true),
        native: native.map(str::to_owned),
    }))
}

fn output(given: &Json) -> Block {
    match json::string(given) {
        Some(text) => record::words(text),
        None => Block {
            extra: vec![mark(JSON_OUTPUT)],
            ..record::words(given.0.clone())
        },
    }
}
