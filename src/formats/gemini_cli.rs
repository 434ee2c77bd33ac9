//! Sessions of the Gemini CLI. A message of the model holds its tool calls with their results; notices of
//! the program stand among the messages.
//!
//! Older sessions are one object, written anew each time they grow. Newer ones are lines: what the session
//! is, then messages, each written anew when it grows; a `$set` whose messages take the place of all
//! before, as a compression does; a `$rewindTo` that takes a message away with all behind it.
//!
//! A sub-agent has a file of its own, which says that it is one (`kind`). Its session's id is the name of
//! the folder that the file lies in; the call is the one whose `agentId` names the agent.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::detect::{PieceReader, Sniff};
use super::gemini_contents;
use super::input::Piece;
use super::record::{self, Story, instant};
use super::{Begins, Link, Starter, Step, Transcript, Usage, json};
use crate::log::{Author, Block, Fields, Json, Message, Micros, Part, PartBody, Role, Shape};

/// The format's name.
pub const FORMAT: &str = "gemini-cli";

/// The format.
pub(crate) struct GeminiCli;

impl PieceReader for GeminiCli {
    fn name(&self) -> &'static str {
        FORMAT
    }

    fn sniff(&self, record: &Fields) -> Sniff {
        let has = |name: &str| json::field(record, name).is_some();
        Sniff::is(has("sessionId") && has("projectHash") && (has("messages") || has("startTime")))
    }

    fn read(&self, pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
        read(pieces)
    }

    fn agents_of(&self, result: &Message) -> Vec<String> {
        let around = record::around(result);
        json::text_field(&around, "agentId").into_iter().collect()
    }
}

fn read(pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
    let mut told = Vec::new();
    let mut session = Session::new();
    for Piece { place, value, .. } in pieces {
        let read = value.map(|json| (json::object(&json), json));
        let begins = matches!(&read, Ok((Some(fields), _)) if session.begins_another(fields));
        if begins {
            told.push(std::mem::replace(&mut session, Session::new()).finish());
        }
        session.story.at(&place);
        match read {
            Ok((Some(fields), json)) => session.record(fields, json, &place),
            Ok((None, json)) => {
                let what = "this is no record: not a JSON object";
                session.story.noted(what, Some(json), true);
            }
            Err(damage) => session.story.damaged(&place, damage),
        }
    }
    if !session.story.is_empty() {
        told.push(session.finish());
    }
    told
}

/// How a sub-agent's session began, by where its file lies.
fn started(place: &str, id: Option<&String>) -> Begins {
    let folder = Path::new(place).parent().and_then(Path::file_name);
    match (folder.and_then(|name| name.to_str()), id) {
        (Some(by), Some(id)) => Begins::Started {
            by: by.to_owned(),
            call: Starter::Agent(vec![id.clone()]),
        },
        _ => Begins::Own,
    }
}

/// A message of the session's list: what of it was told.
#[derive(Default)]
struct Held {
    id: Option<String>,
    numbers: Vec<usize>,
    content: Option<Json>,
    thoughts: usize,
    /// The calls told, and those of them whose results were.
    calls: HashSet<String>,
    answered: HashSet<String>,
    usage: bool,
}

struct Session {
    story: Story,
    begins: Begins,
    id: Option<String>,
    held: Vec<Held>,
    places: HashMap<String, usize>,
    /// The message that the newest call gave.
    newest: Option<usize>,
}

impl Session {
    fn new() -> Self {
        Self {
            story: Story::new(FORMAT),
            begins: Begins::Own,
            id: None,
            held: Vec::new(),
            places: HashMap::new(),
            newest: None,
        }
    }

    fn finish(self) -> Transcript {
        Transcript {
            begins: self.begins,
            ..self.story.finish()
        }
    }

    fn begins_another(&self, record: &Fields) -> bool {
        let id = json::text_field(record, "sessionId");
        self.id.is_some() && id.is_some() && id != self.id
    }

    fn record(&mut self, mut fields: Fields, whole: Json, place: &str) {
        if json::field(&fields, "sessionId").is_some() {
            let messages = json::take_as(&mut fields, "messages", json::array);
            self.id = json::text_field(&fields, "sessionId");
            self.story.identify(self.id.clone());
            if json::text_field(&fields, "kind").as_deref() == Some("subagent") {
                self.begins = started(place, self.id.as_ref());
            }
            self.story.leftovers(&fields);
            return self.replace(messages.unwrap_or_default());
        }
        if let Some(to) = json::text_field(&fields, "$rewindTo") {
            return self.rewind(&to);
        }
        if let Some(mut patch) = json::take_as(&mut fields, "$set", json::object) {
            let messages = json::take_as(&mut patch, "messages", json::array);
            if !patch.is_empty() {
                let patch = json::write_object(&patch);
                self.story.noted("$set", Some(patch), false);
            }
            if let Some(messages) = messages {
                self.replace(messages);
            }
            return;
        }
        if json::field(&fields, "type").is_some() {
            return self.message(fields, whole, false);
        }
        self.story
            .noted("this is no message of a session", Some(whole), true);
    }

    /// A message goes with all behind it; of one that is nowhere, all go.
    fn rewind(&mut self, to: &str) {
        let from = self.places.get(to).copied().unwrap_or(0);
        let gone = self.held.split_off(from.min(self.held.len()));
        for id in gone.iter().filter_map(|held| held.id.as_ref()) {
            self.places.remove(id);
        }
        self.leave(gone);
    }

    fn leave(&mut self, gone: Vec<Held>) {
        self.newest = None;
        let mut gone: Vec<usize> = gone.into_iter().flat_map(|held| held.numbers).collect();
        gone.sort_unstable();
        if !gone.is_empty() {
            self.story.push(Step::Rewound { gone, at: None });
        }
    }

    /// These messages take the place of all. What a person said stood there before; what is new where
    /// others left was put there.
    fn replace(&mut self, messages: Vec<Json>) {
        let read: Vec<(Option<Fields>, Json)> = messages
            .into_iter()
            .map(|json| (json::object(&json), json))
            .collect();
        let mut old: HashMap<String, Held> = HashMap::new();
        let mut gone = Vec::new();
        let stay: HashSet<String> = read
            .iter()
            .filter_map(|(fields, _)| json::text_field(fields.as_ref()?, "id"))
            .collect();
        self.places.clear();
        for held in std::mem::take(&mut self.held) {
            match held.id.clone().filter(|id| stay.contains(id)) {
                Some(id) => drop(old.insert(id, held)),
                None => gone.push(held),
            }
        }
        let put = gone.iter().any(|held| !held.numbers.is_empty());
        self.leave(gone);
        for (fields, whole) in read {
            let Some(fields) = fields else {
                let what = "a message that is no object";
                self.story.noted(what, Some(whole), true);
                continue;
            };
            let id = json::text_field(&fields, "id");
            if let Some(held) = id.and_then(|id| old.remove(&id)) {
                self.hold(held);
            }
            self.message(fields, whole, put);
        }
    }

    fn hold(&mut self, held: Held) {
        if let Some(id) = &held.id {
            self.places.insert(id.clone(), self.held.len());
        }
        self.held.push(held);
    }

    /// A message, or what it has that it had not when it was written before.
    fn message(&mut self, mut fields: Fields, whole: Json, put: bool) {
        let at = json::field(&fields, "timestamp").and_then(instant);
        let kind = json::text_field(&fields, "type").unwrap_or_default();
        let id = json::text_field(&fields, "id");
        let place = id.as_ref().and_then(|id| self.places.get(id)).copied();
        let place = place.unwrap_or_else(|| {
            self.hold(Held {
                id,
                ..Held::default()
            });
            self.held.len().saturating_sub(1)
        });
        let Some(held) = self.held.get_mut(place) else {
            return;
        };
        let told = Told {
            newest: self.newest == Some(place),
            story: &mut self.story,
            held,
            at,
        };
        match kind.as_str() {
            "user" => told.user(fields, put),
            "gemini" => {
                if told.answer(&mut fields) {
                    self.newest = Some(place);
                }
            }
            _ if told.held.content.as_ref() == Some(&whole) => {}
            _ => {
                told.story.noted(kind, Some(whole.clone()), false);
                told.held.content = Some(whole);
            }
        }
    }
}

/// A message as it is told, with what was told of it.
struct Told<'a> {
    story: &'a mut Story,
    held: &'a mut Held,
    at: Option<Micros>,
    newest: bool,
}

impl Told<'_> {
    /// What was told of it no longer stands.
    fn take_back(&mut self) {
        let gone = std::mem::take(&mut self.held.numbers);
        let id = self.held.id.take();
        *self.held = Held {
            id,
            ..Held::default()
        };
        self.story.push(Step::Rewound { gone, at: self.at });
    }

    fn add(&mut self, message: Message, at: Option<Micros>, link: Link) {
        self.held.numbers.push(self.story.count());
        self.story.linked(message, at, link);
    }

    fn user(mut self, mut fields: Fields, put: bool) {
        let given = json::field(&fields, "content").cloned();
        if !self.held.numbers.is_empty() {
            if self.held.content == given {
                return;
            }
            self.take_back();
        }
        self.held.content = given;
        let (parts, shape) = content(&mut fields);
        let author = if put {
            Author::Application
        } else {
            Author::Person
        };
        let message = record::made(FORMAT, (Role::User, author), (parts, shape), fields);
        self.add(message, self.at, Link::None);
    }

    /// What the model said and called; then the results, a message each. Whether it came from a call that
    /// was not told before.
    fn answer(mut self, fields: &mut Fields) -> bool {
        let given = json::field(fields, "content").cloned();
        let thoughts = json::take_as(fields, "thoughts", json::array).unwrap_or_default();
        let calls = json::take_as(fields, "toolCalls", json::array).unwrap_or_default();
        let calls: Vec<(String, Json)> = calls.into_iter().enumerate().map(named).collect();
        if !self.held.numbers.is_empty() && !self.is_grown(given.as_ref(), &thoughts, &calls) {
            self.take_back();
        }
        let first = self.held.numbers.first().copied();
        let before = self.held.thoughts;
        let mut parts: Vec<Part> = thoughts.iter().skip(before).map(thought).collect();
        let (words, shape) = content(fields);
        if first.is_none() || self.held.content != given {
            parts.extend(words);
        }
        let mut results = Vec::new();
        for (name, json) in calls {
            let (call, answers) = tool_call(&json);
            if self.held.calls.insert(name.clone()) {
                parts.push(call);
            }
            if !answers.is_empty() && self.held.answered.insert(name) {
                results.extend(answers);
            }
        }
        self.held.content = given;
        self.held.thoughts = thoughts.len();
        if first.is_none() || !parts.is_empty() {
            if first.is_none() {
                let model = json::text_field(fields, "model");
                self.story.called_at(model, self.at);
            }
            let link = first.map_or(Link::None, Link::Continues);
            let message = record::made(
                FORMAT,
                (Role::Assistant, Author::Model),
                (parts, shape),
                fields.clone(),
            );
            self.add(message, self.at, link);
        }
        self.spent(fields, first.is_none());
        for (result, at) in results {
            self.add(result, at, Link::None);
        }
        first.is_none()
    }

    /// Whether it still says what was told of it.
    fn is_grown(&self, given: Option<&Json>, thoughts: &[Json], calls: &[(String, Json)]) -> bool {
        let said = self.held.content.as_ref();
        let empty = said.is_none_or(|said| json::string(said).is_some_and(|text| text.is_empty()));
        let names: HashSet<&String> = calls.iter().map(|(name, _)| name).collect();
        (empty || said == given)
            && self.held.thoughts <= thoughts.len()
            && self.held.calls.iter().all(|name| names.contains(name))
    }

    /// What the answer took, once it is said.
    fn spent(&mut self, fields: &Fields, called: bool) {
        let tokens = json::field(fields, "tokens");
        let Some(usage) = tokens.and_then(usage_of).filter(|_| !self.held.usage) else {
            return;
        };
        self.held.usage = true;
        if called || self.newest {
            self.story
                .returned(Some(usage), None, Fields::new(), self.at);
        } else {
            self.story.noted("tokens", tokens.cloned(), false);
        }
    }
}

/// A call by its id, else by its place.
fn named((at, call): (usize, Json)) -> (String, Json) {
    let id = json::object(&call).and_then(|fields| json::text_field(&fields, "id"));
    (id.unwrap_or_else(|| format!("#{at}")), call)
}

/// Content is a text, a part, or a list of either.
fn content(fields: &mut Fields) -> (Vec<Part>, Shape) {
    if let Some(text) = json::take_as(fields, "content", json::string) {
        let parts = (!text.is_empty()).then(|| Part::text(text));
        return (parts.into_iter().collect(), Shape::Text);
    }
    if let Some(list) = json::take_as(fields, "content", json::array) {
        return (list.iter().map(part).collect(), Shape::List);
    }
    match json::take_as(fields, "content", |c| json::object(c).map(|_| c.clone())) {
        Some(one) => (vec![part(&one)], Shape::List),
        None => (Vec::new(), Shape::Absent),
    }
}

fn part(whole: &Json) -> Part {
    match json::string(whole) {
        Some(text) => Part::text(text),
        None => gemini_contents::part(whole),
    }
}

/// A thought has a subject and says more of it.
fn thought(json: &Json) -> Part {
    let mut extra = json::object(json).unwrap_or_default();
    let subject = json::text_field(&extra, "subject");
    let Some(more) = json::take_as(&mut extra, "description", json::string) else {
        return record::opaque("thought", json);
    };
    let text = subject.map_or_else(|| more.clone(), |subject| format!("{subject}\n{more}"));
    let body = PartBody::Reasoning {
        text,
        signature: None,
        encrypted: None,
    };
    Part { body, extra }
}

/// A call with its results; what else is said of it (how it was shown) stands around the first result,
/// or beside the call where there is none.
fn tool_call(whole: &Json) -> (Part, Vec<(Message, Option<Micros>)>) {
    let mut fields = json::object(whole).unwrap_or_default();
    let Some(name) = json::take_as(&mut fields, "name", json::string) else {
        return (record::opaque("toolCall", whole), Vec::new());
    };
    let id = json::text_field(&fields, "id");
    let arguments = json::take(&mut fields, "args").map(|args| args.0);
    let mut call = record::plain(PartBody::Call {
        id: id.clone(),
        name,
        arguments: arguments.unwrap_or_default(),
        native: None,
    });
    let at = json::field(&fields, "timestamp").and_then(instant);
    let error = match json::text_field(&fields, "status").as_deref() {
        Some("success") => Some(false),
        Some("error" | "cancelled") => Some(true),
        _ => None,
    };
    let given = json::take_as(&mut fields, "result", json::array).unwrap_or_default();
    if given.is_empty() {
        json::take(&mut fields, "id");
        call.extra = fields;
        return (call, Vec::new());
    }
    let (mut answers, mut beside) = (Vec::new(), Vec::new());
    for whole in &given {
        let part = part(whole);
        match part.body {
            PartBody::Result { .. } => answers.push(part),
            // Media that a tool read stand beside its response.
            _ => beside.push(record::block(part, whole)),
        }
    }
    if answers.is_empty() {
        answers.push(record::plain(PartBody::Result {
            call: id,
            name: None,
            content: Vec::new(),
            shape: Shape::List,
            error: None,
            interim: false,
            native: None,
        }));
    }
    for answer in &mut answers {
        complete(answer, error, std::mem::take(&mut beside));
    }
    json::take(&mut fields, "id");
    let message = |answer: Part| {
        let around = std::mem::take(&mut fields);
        let message = record::made(
            FORMAT,
            (Role::Tool, Author::Tool),
            (vec![answer], Shape::List),
            around,
        );
        (message, at)
    };
    (call, answers.into_iter().map(message).collect())
}

fn complete(answer: &mut Part, failed: Option<bool>, beside: Vec<Block>) {
    if let PartBody::Result {
        error,
        content,
        shape,
        ..
    } = &mut answer.body
    {
        *error = failed;
        if !beside.is_empty() {
            *shape = Shape::List;
            content.extend(beside);
        }
    }
}

/// Usage as a session counts it: thoughts beside the output, what was cached within the input.
fn usage_of(tokens: &Json) -> Option<Usage> {
    let fields = json::object(tokens)?;
    let count = |name: &str| json::field(&fields, name).and_then(json::integer);
    let cached = count("cached").unwrap_or(0);
    let spent = |a: u64, name: &str| a.saturating_add(count(name).unwrap_or(0));
    Some(Usage {
        input: count("input").map(|all| spent(all.saturating_sub(cached), "tool")),
        output: count("output").map(|words| spent(words, "thoughts")),
        cache_read: count("cached"),
        cache_write: None,
    })
}
