//! `ShareGPT` and its relatives: `conversations` of `{from, value}`, or `messages` whose content is a
//! list of `{type, value}` or that have `images` beside them. Calls have no ids: an observation
//! answers the calls before it. A record with two endings (`chosen`, `rejected`) is a conversation
//! and its fork.

use super::detect::{PieceReader, Sniff};
use super::input::Piece;
use super::record::{self, Record, Story};
use super::{Begins, Transcript, json};
use crate::log::{
    Author, Block, BlockBody, Fields, Json, Message, Part, PartBody, Role, Shape, Source,
};

/// The format's name.
pub const FORMAT: &str = "sharegpt";

/// The format.
pub(crate) struct ShareGpt;

impl PieceReader for ShareGpt {
    fn name(&self) -> &'static str {
        FORMAT
    }

    fn sniff(&self, record: &Fields) -> Sniff {
        let first = |list: &str| json::array(json::field(record, list)?)?.into_iter().next();
        let of = |list: &str| first(list).and_then(|first| json::object(&first));
        let has = |fields: &Fields, name: &str| json::field(fields, name).is_some();
        let turns = |first: Fields| has(&first, "from") && has(&first, "value");
        let media = ["images", "videos", "audios"]
            .iter()
            .any(|m| has(record, m));
        let valued = |first: Fields| {
            let content = json::array(json::field(&first, "content")?)?;
            let part = content.first().and_then(json::object)?;
            Some(has(&part, "type") && has(&part, "value"))
        };
        let messages = of("messages");
        let by_media = media && messages.is_some();
        let by_value = messages.and_then(valued).unwrap_or_default();
        Sniff::is(of("conversations").is_some_and(turns) || by_media || by_value)
    }

    fn read(&self, pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
        read(pieces)
    }

    fn given(&self, messages: &[&Message]) -> Option<Json> {
        Some(write_message(messages.first()?))
    }
}

fn read(pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
    let mut told = Vec::new();
    let mut notes = Story::new(FORMAT);
    for (number, piece) in (1_usize..).zip(pieces) {
        if let Some(Record { place, fields, .. }) = notes.record(piece) {
            told.extend(record(fields, number, &place));
        }
    }
    notes.finish_into(&mut told);
    told
}

/// A conversation, and its other ending where it has one.
fn record(mut record: Fields, number: usize, place: &str) -> Vec<Transcript> {
    let mut talk = Talk::new(place);
    let id = json::field(&record, "id").filter(|id| !json::is_null(id));
    let id = id.map(|id| json::string(id).unwrap_or_else(|| id.0.clone()));
    json::take(&mut record, "id");
    let tools = json::take(&mut record, "tools").filter(|tools| !json::is_null(tools));
    let tools = tools.map(|tools| ("tools".to_owned(), tools));
    talk.story.configured(tools.into_iter().collect());
    let system = |json: &Json| json::string(json).filter(|text| !text.is_empty());
    if let Some(system) = json::take_as(&mut record, "system", system) {
        talk.story
            .messages(vec![sourced(Message::system(system))], None);
    }
    let turns = ["conversations", "messages"]
        .iter()
        .find_map(|name| json::take_as(&mut record, name, json::array));
    match turns {
        Some(turns) => turns.iter().for_each(|turn| talk.turn(turn)),
        None => talk
            .story
            .noted("a record without conversations", None, true),
    }
    let ending = |record: &mut Fields, name| json::take(record, name).filter(|e| !json::is_null(e));
    let chosen = ending(&mut record, "chosen");
    let rejected = ending(&mut record, "rejected");
    // A fork has to name what it leaves.
    let numbered = rejected.is_some().then(|| format!("record-{number}"));
    let id = id.or(numbered);
    talk.story.identify(id.clone());
    let shared = talk.story.clone();
    chosen.iter().for_each(|ending| talk.ending(ending));
    talk.story.leftovers(&record);
    let mut told = vec![talk.story.finish()];
    if let (Some(id), Some(rejected)) = (id, rejected) {
        told.push(other_ending(shared, id, &rejected, place));
    }
    told
}

fn other_ending(shared: Story, id: String, rejected: &Json, place: &str) -> Transcript {
    let mut talk = Talk::new(place);
    talk.story = shared;
    talk.story.identify(Some(format!("{id}#rejected")));
    let before = talk.story.len();
    talk.ending(rejected);
    Transcript {
        begins: Begins::Branch {
            of: id,
            shared: before,
        },
        ..talk.story.finish()
    }
}

fn sourced(mut message: Message) -> Message {
    message.source = Some(Source {
        format: FORMAT.to_owned(),
        ..Source::default()
    });
    message
}

struct Talk {
    story: Story,
    /// The names of the calls that nothing answered yet.
    open: Vec<String>,
}

impl Talk {
    fn new(place: &str) -> Self {
        let mut story = Story::new(FORMAT);
        story.at(place);
        Self {
            story,
            open: Vec::new(),
        }
    }

    /// An ending is a turn, or a list of them.
    fn ending(&mut self, ending: &Json) {
        match json::array(ending) {
            Some(turns) => turns.iter().for_each(|turn| self.turn(turn)),
            None => self.turn(ending),
        }
    }

    fn turn(&mut self, json: &Json) {
        let Some(mut around) = json::object(json) else {
            // An ending may be words alone.
            if let Some(words) = json::string(json) {
                return self.story.history(vec![sourced(Message::model(words))]);
            }
            let what = "a turn that is no object";
            return self.story.noted(what, Some(json.clone()), true);
        };
        let who = ["from", "role"]
            .iter()
            .find_map(|name| json::text_field(&around, name));
        let (role, author) = speaker(who.as_deref().unwrap_or_default());
        let calls = who.as_deref() == Some("function_call");
        let content = ["value", "content"]
            .iter()
            .find_map(|name| json::take(&mut around, name));
        let content = content.unwrap_or(Json("null".into()));
        let (mut parts, shape) = read_content(&content, calls);
        if role == Role::Tool {
            parts = self.results(parts);
        }
        let before = self.open.len();
        self.open
            .extend(parts.iter().filter_map(|part| match &part.body {
                PartBody::Call { name, .. } => Some(name.clone()),
                _ => None,
            }));
        // Whoever speaks without calling does not wait for results any more.
        if role != Role::Tool && self.open.len() == before {
            self.open.clear();
        }
        let mut message = Message {
            shape,
            ..Message::new(role, author, parts)
        };
        message.source = Some(Source {
            format: FORMAT.to_owned(),
            around,
            ..Source::default()
        });
        record::keep_whole(&mut message, json, write_message);
        self.story.history(vec![message]);
    }

    /// What an observation says is the result of the calls before it: one each where it is a list that
    /// names as many calls, else one of the first.
    fn results(&mut self, parts: Vec<Part>) -> Vec<Part> {
        let open = std::mem::take(&mut self.open);
        let each = match parts.as_slice() {
            [
                Part {
                    body: PartBody::Block(BlockBody::Text(text)),
                    ..
                },
            ] => one_each(text, open.len()),
            _ => None,
        };
        let mut names = open.into_iter();
        match each {
            Some(each) => {
                let results = each.into_iter().zip(names);
                let result = |((text, extra), name)| {
                    let block = Block {
                        body: BlockBody::Text(text),
                        extra: Fields::new(),
                    };
                    result(vec![block], Some(name), extra)
                };
                results.map(result).collect()
            }
            None => {
                let (blocks, others): (Vec<Part>, Vec<Part>) = parts
                    .into_iter()
                    .partition(|part| matches!(part.body, PartBody::Block(_)));
                let blocks = blocks.into_iter().filter_map(|part| match part.body {
                    PartBody::Block(body) => Some(Block {
                        body,
                        extra: part.extra,
                    }),
                    _ => None,
                });
                let whole = result(blocks.collect(), names.next(), Fields::new());
                self.open.extend(names);
                std::iter::once(whole).chain(others).collect()
            }
        }
    }
}

fn speaker(who: &str) -> (Role, Author) {
    match who {
        "human" | "user" => (Role::User, Author::Person),
        "gpt" | "assistant" | "chatgpt" | "bing" | "bard" | "model" | "function_call" => {
            (Role::Assistant, Author::Model)
        }
        "observation" | "tool" => (Role::Tool, Author::Tool),
        "system" => (Role::System, Author::Application),
        other => (Role::from_name(other), Author::Application),
    }
}

/// The parts of a value, a text or a list of `{type, value}`.
fn read_content(content: &Json, calls: bool) -> (Vec<Part>, Shape) {
    if let Some(text) = json::string(content) {
        let parts = calls.then(|| read_calls(&text)).flatten();
        return (parts.unwrap_or_else(|| vec![Part::text(text)]), Shape::Text);
    }
    match json::array(content) {
        Some(list) => (list.iter().flat_map(read_part).collect(), Shape::List),
        None if json::is_null(content) => (Vec::new(), Shape::Null),
        None => (vec![record::opaque("", content)], Shape::List),
    }
}

fn read_part(part: &Json) -> Vec<Part> {
    let mut extra = json::object(part).unwrap_or_default();
    let kind = json::text_field(&extra, "type").unwrap_or_default();
    let value = json::take_as(&mut extra, "value", json::string);
    json::take(&mut extra, "type");
    match (kind.as_str(), value) {
        ("text", Some(text)) => vec![Part {
            extra,
            ..Part::text(text)
        }],
        ("reasoning", Some(text)) => {
            let body = PartBody::Reasoning {
                text,
                signature: None,
                encrypted: None,
            };
            vec![Part { body, extra }]
        }
        ("tool_call" | "function_call", Some(text)) => {
            read_calls(&text).unwrap_or_else(|| vec![record::opaque(&kind, part)])
        }
        _ => vec![record::opaque(&kind, part)],
    }
}

/// Calls as JSON text: one, or a list. `None` where it is something else.
fn read_calls(text: &str) -> Option<Vec<Part>> {
    let whole = Json(text.to_owned());
    let calls = json::array(&whole).unwrap_or_else(|| vec![whole]);
    let parts: Option<Vec<Part>> = calls.iter().map(read_call).collect();
    parts.filter(|parts| !parts.is_empty())
}

fn read_call(call: &Json) -> Option<Part> {
    let mut extra = json::object(call)?;
    let name = json::take_as(&mut extra, "name", json::string)?;
    let arguments = json::take(&mut extra, "arguments");
    let body = PartBody::Call {
        id: json::take_as(&mut extra, "id", json::string),
        name,
        arguments: arguments.map(|a| a.0).unwrap_or_default(),
        native: None,
    };
    Some(Part { body, extra })
}

/// The results of several calls in one text: a list of as many objects that each name a call.
fn one_each(text: &str, calls: usize) -> Option<Vec<(String, Fields)>> {
    let list = json::array(&Json(text.to_owned()))?;
    let read = |result: &Json| {
        let mut extra = json::object(result)?;
        json::field(&extra, "tool_call_id")?;
        Some((json::take_as(&mut extra, "content", json::string)?, extra))
    };
    let results: Option<Vec<(String, Fields)>> = list.iter().map(read).collect();
    results.filter(|results| calls > 0 && results.len() == calls)
}

fn result(content: Vec<Block>, name: Option<String>, extra: Fields) -> Part {
    Part {
        body: PartBody::Result {
            call: None,
            name,
            content,
            shape: Shape::Text,
            error: None,
            interim: false,
            native: None,
        },
        extra,
    }
}

/// A turn of words. What is read out of a text (calls, several results) is kept whole.
fn write_message(message: &Message) -> Json {
    let around = record::around(message);
    let spelled = json::field(&around, "from").is_some();
    let name = if spelled { "value" } else { "content" };
    let text = |body: &BlockBody| match body {
        BlockBody::Text(text) => Some(json::quoted(text)),
        _ => None,
    };
    let words = match message.parts.as_slice() {
        [
            Part {
                body: PartBody::Block(body),
                ..
            },
        ] => text(body),
        [
            Part {
                body: PartBody::Result { content, .. },
                ..
            },
        ] => match content.as_slice() {
            [block] => text(&block.body),
            _ => None,
        },
        _ => None,
    };
    let blocks = || {
        let block = |part: &Part| {
            let mut out = json::Writer::default();
            match &part.body {
                PartBody::Block(BlockBody::Text(text)) => {
                    out.text("type", "text").text("value", text)
                }
                PartBody::Reasoning { text, .. } => {
                    out.text("type", "reasoning").text("value", text)
                }
                PartBody::Block(BlockBody::Media(_, whole) | BlockBody::Opaque(_, whole)) => {
                    return whole.clone();
                }
                PartBody::Call { .. } | PartBody::Result { .. } => &mut out,
            };
            out.fields(&part.extra).finish()
        };
        json::write_array(&message.parts.iter().map(block).collect::<Vec<Json>>())
    };
    let content = match message.shape {
        Shape::List => blocks(),
        _ => words.unwrap_or_else(|| Json("null".to_owned())),
    };
    let mut out = json::Writer::default();
    out.field(name, &content.0).fields(&around).finish()
}
