//! Sessions of the Agent Development Kit: events that hold a content of Gemini's each, by several
//! agents; and sets of cases to evaluate, where the results of tools are mostly left out.
//!
//! A session's own compaction hides the events of a stretch of time behind a summary, and a rewind
//! those from an invocation on.

use super::detect::{PieceReader, Sniff};
use super::gemini_contents;
use super::input::Piece;
use super::record::{self, Story, instant};
use super::{Step, Transcript, json};
use crate::log::{Author, Fields, Json, Message, Micros, Part, Role};

/// The format's name.
pub const FORMAT: &str = "adk-session";

/// The format.
pub(crate) struct AdkSession;

impl PieceReader for AdkSession {
    fn name(&self) -> &'static str {
        FORMAT
    }

    fn sniff(&self, record: &Fields) -> Sniff {
        let has = |name: &str| json::field(record, name).is_some();
        let events = json::field(record, "events").and_then(json::array);
        let first = events.as_ref().map(|events| events.first());
        let shown = match first {
            None => false,
            Some(None) => has("app_name") || has("appName"),
            Some(Some(event)) => json::object(event).is_some_and(|event| {
                json::field(&event, "author").is_some() && either(&event, INVOCATION).is_some()
            }),
        };
        let within = json::field(record, "evalset").and_then(json::object);
        let set = within.as_ref().unwrap_or(record);
        Sniff::is(shown || either(set, CASES).is_some())
    }

    fn read(&self, pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
        record::each(FORMAT, pieces, |place, mut fields| {
            let set = json::take_as(&mut fields, "evalset", json::object);
            match set {
                Some(set) => cases(place, set, fields),
                None if either(&fields, CASES).is_some() => cases(place, fields, Fields::new()),
                None => record::one(FORMAT, place, |story| session(story, fields)),
            }
        })
    }
}

/// A field's two spellings.
type Names = [&'static str; 2];

const INVOCATION: Names = ["invocation_id", "invocationId"];
const CASES: Names = ["eval_cases", "evalCases"];

fn either(fields: &Fields, names: Names) -> Option<&Json> {
    let told = |name: &&str| json::field(fields, name).filter(|value| !json::is_null(value));
    names.iter().find_map(told)
}

fn take_either<T>(
    fields: &mut Fields,
    names: Names,
    read: impl Fn(&Json) -> Option<T>,
) -> Option<T> {
    names
        .iter()
        .find_map(|name| json::take_as(fields, name, &read))
}

/// A message that is still on the session's path.
struct Held {
    /// `None` of a summary that stands for all before it.
    number: Option<usize>,
    at: Option<Micros>,
    invocation: Option<String>,
}

fn session(story: &mut Story, mut fields: Fields) {
    story.identify(json::text_field(&fields, "id"));
    let events = json::take_as(&mut fields, "events", json::array);
    story.leftovers(&fields);
    if events.is_none() {
        story.noted("a session without events", None, true);
    }
    let mut held = Vec::new();
    for json in events.unwrap_or_default() {
        match json::object(&json) {
            Some(fields) => event(story, &mut held, fields, &json),
            None => story.noted("an event that is no object", Some(json), true),
        }
    }
}

fn event(story: &mut Story, held: &mut Vec<Held>, mut fields: Fields, whole: &Json) {
    let at = json::field(&fields, "timestamp").and_then(instant);
    let actions = json::field(&fields, "actions").and_then(json::object);
    let actions = actions.unwrap_or_default();
    let rewind: Names = ["rewind_before_invocation_id", "rewindBeforeInvocationId"];
    if let Some(invocation) = either(&actions, rewind).and_then(json::string) {
        rewound(story, held, &invocation, at);
    }
    if let Some(compaction) = either(&actions, ["compaction", "compaction"])
        && compacted(story, held, compaction, whole, at)
    {
        return;
    }
    let author = json::text_field(&fields, "author").unwrap_or_default();
    let invocation = either(&fields, INVOCATION).and_then(json::string);
    let content = json::take_as(&mut fields, "content", |c| said(c, &author));
    let Some(messages) = content else {
        return without_content(story, fields, whole, at);
    };
    let first = story.count();
    told(story, messages, fields, at);
    held.extend((first..story.count()).map(|number| Held {
        number: Some(number),
        at,
        invocation: invocation.clone(),
    }));
}

/// The messages of a content by its author. A content without a role is by whom its event is.
fn said(json: &Json, author: &str) -> Option<Vec<Message>> {
    let mut fields = json::object(json)?;
    let by_user = author == "user";
    let mut content = None;
    if either(&fields, ["role", "role"]).is_none() && !by_user {
        json::take(&mut fields, "role");
        fields.push(("role".to_owned(), json::quoted("model")));
        content = Some(json::write_object(&fields));
    }
    let mut messages = gemini_contents::content(content.as_ref().unwrap_or(json), FORMAT)?;
    for message in &mut messages {
        if message.author == Author::Person && !by_user {
            message.author = Author::Application;
        }
    }
    Some(messages)
}

/// Adds the messages of an event; what else it says stands around them.
fn told(story: &mut Story, mut messages: Vec<Message>, fields: Fields, at: Option<Micros>) {
    let by_model = messages.iter().any(|m| m.author == Author::Model);
    let model = either(&fields, ["model_version", "modelVersion"]).and_then(json::string);
    let usage: Names = ["usage_metadata", "usageMetadata"];
    let usage = either(&fields, usage).and_then(gemini_contents::usage_of);
    let failure = failure(&fields);
    if let Some(source) = messages.first_mut().and_then(|m| m.source.as_mut()) {
        source.id = json::text_field(&fields, "id");
        source.around = fields;
    }
    if by_model {
        story.called_at(model, at);
    }
    story.messages(messages, at);
    if by_model && (usage.is_some() || failure.is_some()) {
        story.returned(usage, failure, Fields::new(), at);
    }
}

fn failure(event: &Fields) -> Option<String> {
    let words = either(event, ["error_message", "errorMessage"]);
    let code = either(event, ["error_code", "errorCode"]);
    words.or(code).and_then(json::string)
}

fn without_content(story: &mut Story, event: Fields, whole: &Json, at: Option<Micros>) {
    match failure(&event) {
        Some(words) => {
            story.called_at(None, at);
            story.returned(None, Some(words), event, at);
        }
        None => story.noted("event", Some(whole.clone()), false),
    }
}

/// The events from an invocation on are no longer on the path.
fn rewound(story: &mut Story, held: &mut Vec<Held>, invocation: &str, at: Option<Micros>) {
    let from = held
        .iter()
        .position(|held| held.invocation.as_deref() == Some(invocation));
    let Some(from) = from else { return };
    let gone = held.split_off(from);
    let gone = gone.into_iter().filter_map(|held| held.number).collect();
    story.push(Step::Rewound { gone, at });
}

/// The events of a stretch of time are behind a summary: all that stood before, or some of it.
fn compacted(
    story: &mut Story,
    held: &mut Vec<Held>,
    compaction: &Json,
    whole: &Json,
    at: Option<Micros>,
) -> bool {
    let Some(said) = json::object(compaction) else {
        return false;
    };
    let time = |names| either(&said, names).and_then(instant);
    let start = time(["start_timestamp", "startTimestamp"]);
    let end = time(["end_timestamp", "endTimestamp"]);
    let content = either(&said, ["compacted_content", "compactedContent"]);
    let (Some(start), Some(end), Some(content)) = (start, end, content) else {
        return false;
    };
    let mut messages = gemini_contents::content(content, FORMAT).unwrap_or_default();
    messages.truncate(1);
    let Some(mut summary) = messages.pop() else {
        return false;
    };
    summary.author = Author::Application;
    let rest = vec![("event".to_owned(), whole.clone())];
    let within = |held: &Held| held.at.is_some_and(|at| start <= at && at <= end);
    let invocation = None;
    if held.iter().all(within) {
        held.clear();
        story.push(Step::Compacted { summary, rest, at });
        let (number, at) = (None, Some(end));
        held.push(Held {
            number,
            at,
            invocation,
        });
        return true;
    }
    let gone = held.extract_if(.., |held| held.number.is_some() && within(held));
    let gone = gone.filter_map(|held| held.number).collect();
    story.push(Step::Rewound { gone, at });
    if let Some(source) = summary.source.as_mut() {
        source.around = rest;
    }
    let number = Some(story.count());
    story.messages(vec![summary], at);
    let at = Some(end);
    held.push(Held {
        number,
        at,
        invocation,
    });
    true
}

/// The conversations of a set of cases.
fn cases(place: &str, mut set: Fields, mut record: Fields) -> Vec<Transcript> {
    let cases = take_either(&mut set, CASES, json::array).unwrap_or_default();
    record.extend(set);
    let what = "a case that is no object";
    record::several(FORMAT, place, (cases, record), what, case)
}

fn case(story: &mut Story, mut fields: Fields) {
    let id: Names = ["eval_id", "evalId"];
    story.identify(either(&fields, id).and_then(json::string));
    let conversation = json::take_as(&mut fields, "conversation", json::array);
    story.leftovers(&fields);
    let mut unanswered = false;
    for json in conversation.unwrap_or_default() {
        match json::object(&json) {
            Some(fields) => unanswered |= invocation(story, fields),
            None => story.noted("an invocation that is no object", Some(json), true),
        }
    }
    if unanswered {
        let what = "calls of tools whose results the source left out";
        story.noted(what, None, false);
    }
}

/// A person's words, what the model called, and its answer. Whether results were left out.
fn invocation(story: &mut Story, mut fields: Fields) -> bool {
    let at = either(&fields, ["creation_timestamp", "creationTimestamp"]).and_then(instant);
    let user = take_either(&mut fields, ["user_content", "userContent"], |c| {
        said(c, "user")
    });
    let last = take_either(&mut fields, ["final_response", "finalResponse"], |c| {
        said(c, "")
    });
    let between: Names = ["intermediate_data", "intermediateData"];
    let mut between = take_either(&mut fields, between, json::object).unwrap_or_default();
    let mut list = |names| take_either(&mut between, names, json::array).unwrap_or_default();
    let uses = list(["tool_uses", "toolUses"]);
    let responses = list(["tool_responses", "toolResponses"]);
    let words = list(["intermediate_responses", "intermediateResponses"]);
    let events = list(["invocation_events", "invocationEvents"]);
    if !between.is_empty() {
        fields.push(("intermediate_data".to_owned(), json::write_object(&between)));
    }
    told(story, user.unwrap_or_default(), fields, at);
    let unanswered = uses.len() > responses.len();
    together(story, Role::Assistant, "functionCall", &uses, at);
    together(story, Role::Tool, "functionResponse", &responses, at);
    for json in words {
        spoken(story, json, at);
    }
    for json in events {
        match json::object(&json) {
            Some(fields) => event(story, &mut Vec::new(), fields, &json),
            None => story.noted("an event that is no object", Some(json), true),
        }
    }
    told(story, last.unwrap_or_default(), Fields::new(), at);
    unanswered
}

/// One message of these calls, or of these responses.
fn together(story: &mut Story, role: Role, field: &str, data: &[Json], at: Option<Micros>) {
    if data.is_empty() {
        return;
    }
    let part = |data: &Json| {
        let whole = json::Writer::default().field(field, &data.0).finish();
        gemini_contents::part(&whole)
    };
    let parts: Vec<Part> = data.iter().map(part).collect();
    let author = record::author_of(&role);
    let mut message = Message::new(role, author, parts);
    message.source = Some(gemini_contents::source(FORMAT));
    story.history_at(vec![message], at);
}

/// What an agent said before its answer: its name and parts.
fn spoken(story: &mut Story, json: Json, at: Option<Micros>) {
    let given = json::array(&json).unwrap_or_default();
    let [author, parts] = given.as_slice() else {
        return story.noted("an intermediate response", Some(json), false);
    };
    let around = vec![("author".to_owned(), author.clone())];
    let content = json::Writer::default().field("parts", &parts.0).finish();
    told(story, said(&content, "").unwrap_or_default(), around, at);
}
