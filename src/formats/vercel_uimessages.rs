//! UI messages of the AI SDK: records of a list, or bare. A message of the assistant holds many steps:
//! each is a message of the model, with the results of its calls behind it.

use super::detect::{PieceReader, Sniff};
use super::input::Piece;
use super::record::{self, Story};
use super::{Transcript, json, mark};
use crate::log::{
    Author, Block, BlockBody, Fields, Json, Message, Part, PartBody, Role, Shape, Source,
};

/// The format's name.
pub const FORMAT: &str = "vercel-uimessages";

/// The mark of a result that is JSON, not words.
pub const JSON_OUTPUT: &str = "json";

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
    let Some(mut fields) = json::object(&whole) else {
        return story.noted("a message that is no object", Some(whole), true);
    };
    let role = json::take_as(&mut fields, "role", json::string).unwrap_or_default();
    let parts = json::take_as(&mut fields, "parts", json::array).unwrap_or_default();
    let source = Source {
        format: FORMAT.to_owned(),
        id: json::text_field(&fields, "id").filter(|id| !id.is_empty()),
        around: fields,
        verbatim: None,
    };
    if role == "assistant" {
        return Steps::new(story, source).tell(&parts);
    }
    let role = match role.as_str() {
        "user" => Role::User,
        "system" => Role::System,
        // A log knows roles by their names, and what others call theirs means nothing here.
        other => Role::Other(format!("other:{other}")),
    };
    let (shown, parts): (Vec<&Json>, Vec<&Json>) = parts.iter().partition(|part| is_shown(part));
    let mut message = Message::new(
        role.clone(),
        record::author_of(&role),
        parts.into_iter().map(part).collect(),
    );
    message.shape = Shape::List;
    message.source = Some(source);
    story.messages(vec![message], None);
    shown.into_iter().for_each(|part| note(story, part));
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

fn note(story: &mut Story, part: &Json) {
    story.noted(kind_of(part), Some(part.clone()), false);
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
struct Steps<'a> {
    story: &'a mut Story,
    source: Source,
    said: Vec<Part>,
    results: Vec<Part>,
    told: bool,
}

impl<'a> Steps<'a> {
    const fn new(story: &'a mut Story, source: Source) -> Self {
        Self {
            story,
            source,
            said: Vec::new(),
            results: Vec::new(),
            told: false,
        }
    }

    fn tell(mut self, parts: &[Json]) {
        for whole in parts {
            let kind = kind_of(whole);
            if kind == "step-start" {
                self.end();
            } else if is_shown(whole) {
                note(self.story, whole);
            } else if kind == "dynamic-tool" || kind.starts_with("tool-") {
                self.tool(&kind, whole);
            } else {
                if !self.results.is_empty() {
                    self.end();
                }
                self.said.push(part(whole));
            }
        }
        self.end();
        if !self.told {
            self.model(Vec::new());
        }
    }

    /// A call, and what came of it.
    fn tool(&mut self, kind: &str, whole: &Json) {
        let mut fields = json::object(whole).unwrap_or_default();
        let name = match kind.strip_prefix("tool-") {
            Some(name) => Some(name.to_owned()),
            None => json::take_as(&mut fields, "toolName", json::string),
        };
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return self.said.push(record::opaque(kind, whole));
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
        self.said.push(Part {
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
            let mut message = Message::new(Role::Tool, Author::Tool, results);
            message.source = Some(self.source.clone());
            self.story.messages(vec![message], None);
        }
    }

    fn model(&mut self, parts: Vec<Part>) {
        let mut message = Message::new(Role::Assistant, Author::Model, parts);
        message.shape = Shape::List;
        message.source = Some(self.source.clone());
        // The first step says what the whole message says.
        self.source.around.clear();
        self.told = true;
        self.story.history(vec![message]);
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
