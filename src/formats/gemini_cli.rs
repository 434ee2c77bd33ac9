//! Sessions of the Gemini CLI: one object a session, written anew each time it grows. A message of the
//! model holds its tool calls with their results; notices of the program stand among the messages.

use std::io::{self, BufRead};

use super::detect::{Reader, Sniff, by_pieces};
use super::gemini_contents;
use super::record::{self, Story, instant};
use super::{Transcript, Usage, json};
use crate::log::{
    Author, Block, Fields, Json, Message, Micros, Part, PartBody, Role, Shape, Source,
};

/// The format's name.
pub const FORMAT: &str = "gemini-cli";

/// The format.
pub(crate) struct GeminiCli;

impl Reader for GeminiCli {
    fn name(&self) -> &'static str {
        FORMAT
    }

    fn sniff(&self, record: &Fields) -> Sniff {
        let has = |name: &str| json::field(record, name).is_some();
        Sniff::is(has("sessionId") && has("projectHash") && has("messages"))
    }

    fn read(
        &self,
        input: &mut dyn BufRead,
        name: &str,
        limit: usize,
    ) -> io::Result<Vec<Transcript>> {
        by_pieces(input, name, limit, |pieces| {
            record::each(FORMAT, pieces, |place, fields| {
                record::one(FORMAT, place, |story| session(story, fields))
            })
        })
    }
}

fn session(story: &mut Story, mut fields: Fields) {
    story.identify(json::text_field(&fields, "sessionId"));
    let messages = json::take_as(&mut fields, "messages", json::array);
    story.leftovers(&fields);
    if messages.is_none() {
        story.noted("a session without messages", None, true);
    }
    for json in messages.unwrap_or_default() {
        match json::object(&json) {
            Some(fields) => message(story, fields, json),
            None => story.noted("a message that is no object", Some(json), true),
        }
    }
}

fn message(story: &mut Story, mut fields: Fields, whole: Json) {
    let at = json::field(&fields, "timestamp").and_then(instant);
    let kind = json::text_field(&fields, "type").unwrap_or_default();
    match kind.as_str() {
        "user" => {
            let (parts, shape) = content(&mut fields);
            let message = made(Role::User, Author::Person, parts, shape, fields);
            story.history_at(vec![message], at);
        }
        "gemini" => answer(story, fields, at),
        _ => story.noted(kind, Some(whole), false),
    }
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

fn made(role: Role, author: Author, parts: Vec<Part>, shape: Shape, around: Fields) -> Message {
    let source = Source {
        format: FORMAT.to_owned(),
        id: json::text_field(&around, "id"),
        around,
        verbatim: None,
    };
    Message {
        shape,
        source: Some(source),
        ..Message::new(role, author, parts)
    }
}

/// What the model said and called; then the results, a message each.
fn answer(story: &mut Story, mut fields: Fields, at: Option<Micros>) {
    story.called_at(json::text_field(&fields, "model"), at);
    let usage = json::field(&fields, "tokens").and_then(usage_of);
    let thoughts = json::take_as(&mut fields, "thoughts", json::array).unwrap_or_default();
    let mut parts: Vec<Part> = thoughts.iter().map(thought).collect();
    let (words, shape) = content(&mut fields);
    parts.extend(words);
    let mut results = Vec::new();
    let calls = json::take_as(&mut fields, "toolCalls", json::array).unwrap_or_default();
    for json in calls {
        let (call, answers) = tool_call(&json);
        parts.push(call);
        results.extend(answers);
    }
    let message = made(Role::Assistant, Author::Model, parts, shape, fields);
    story.messages(vec![message], at);
    story.returned(usage, None, Fields::new(), at);
    for (result, at) in results {
        story.messages(vec![result], at);
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
        let message = made(Role::Tool, Author::Tool, vec![answer], Shape::List, around);
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
