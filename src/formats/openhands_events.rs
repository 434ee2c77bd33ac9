//! Event logs of the `OpenHands` agent SDK: an event a line.
//!
//! Some writers tell a call and its result twice, as a message and as an action with its observation:
//! then the message counts, and the other is noted. Actions of one response are one message of the
//! model. A condensation takes events out of the window, and may put a summary there.

use std::collections::{HashMap, HashSet};

use super::blocks::{self, take_content};
use super::detect::{PieceReader, Sniff};
use super::input::Piece;
use super::record::{self, Story, instant};
use super::{Link, Step, Transcript, json};
use crate::log::{Author, Fields, Json, Message, Micros, Part, PartBody, Role, Shape};

/// The format's name.
pub const FORMAT: &str = "openhands-events";

/// The format.
pub(crate) struct OpenHandsEvents;

impl PieceReader for OpenHandsEvents {
    fn name(&self) -> &'static str {
        FORMAT
    }

    fn sniff(&self, record: &Fields) -> Sniff {
        let text = |name: &str| json::text_field(record, name).unwrap_or_default();
        let kind = text("kind");
        let known = kind.ends_with("Event") || KINDS.contains(&kind.as_str());
        let source = ["agent", "user", "environment", "hook"].contains(&text("source").as_str());
        Sniff::is(known && source && json::field(record, "timestamp").is_some())
    }

    fn read(&self, pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
        read(pieces)
    }
}

/// Kinds of events whose names do not end so.
const KINDS: [&str; 3] = [
    "Condensation",
    "CondensationRequest",
    "UserRejectObservation",
];

fn read(pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
    let mut log = EventLog {
        story: Story::new(FORMAT),
        held: HashMap::new(),
        newest: String::new(),
        written: HashMap::new(),
        acted: HashSet::new(),
        response: None,
        events: 0,
    };
    for Piece { place, value, .. } in pieces {
        log.story.at(&place);
        match value.map(|json| (json::object(&json), json)) {
            Ok((Some(fields), json)) => log.event(fields, json),
            Ok((None, json)) => {
                let what = "this is no record: not a JSON object";
                log.story.noted(what, Some(json), true);
            }
            Err(damage) => log.story.damaged(&place, damage),
        }
    }
    if log.story.is_empty() {
        return Vec::new();
    }
    vec![log.story.finish()]
}

/// What an observation says while the message with the same is to come, by the order of events.
struct Waiting {
    order: usize,
    message: Message,
    at: Option<Micros>,
}

struct EventLog {
    story: Story,
    /// The messages in the window by the event each came from.
    held: HashMap<String, Vec<usize>>,
    /// The newest event with a message.
    newest: String,
    /// Calls that a message told, which wait for the message with their result: with what the
    /// observation says meanwhile.
    written: HashMap<String, Option<Waiting>>,
    /// Calls that an action told before any message did.
    acted: HashSet<String>,
    /// The response that the newest actions are of, and its first message.
    response: Option<(String, usize)>,
    events: usize,
}

impl EventLog {
    fn event(&mut self, fields: Fields, whole: Json) {
        self.events = self.events.saturating_add(1);
        let at = json::field(&fields, "timestamp").and_then(instant);
        let kind = json::text_field(&fields, "kind").unwrap_or_default();
        match kind.as_str() {
            "SystemPromptEvent" => self.instructions(fields, at),
            "MessageEvent" => self.message(fields, whole, at),
            "ActionEvent" => self.action(fields, whole, at),
            "ObservationEvent" | "AgentErrorEvent" | "UserRejectObservation" => {
                self.observation(fields, whole, at);
            }
            "Condensation" => self.condensation(fields, whole, at),
            _ => self.story.noted(kind, Some(whole), false),
        }
    }

    fn instructions(&mut self, mut fields: Fields, at: Option<Micros>) {
        let tools = json::take(&mut fields, "tools");
        let tools = tools.map(|tools| ("tools".to_owned(), tools));
        self.story.configured(tools.into_iter().collect());
        let mut parts = Vec::new();
        for name in ["system_prompt", "dynamic_context"] {
            let given = json::take_as(&mut fields, name, |v| {
                (!json::is_null(v)).then(|| v.clone())
            });
            parts.extend(given.iter().map(blocks::part));
        }
        let message = record::made(
            FORMAT,
            (Role::System, Author::Application),
            (parts, Shape::List),
            fields,
        );
        self.add(vec![message], at);
    }

    fn message(&mut self, mut fields: Fields, whole: Json, at: Option<Micros>) {
        let Some(mut said) = json::take_as(&mut fields, "llm_message", json::object) else {
            let what = "a message event without a message";
            return self.story.noted(what, Some(whole), true);
        };
        let role = json::take_as(&mut said, "role", json::string).unwrap_or_default();
        match role.as_str() {
            "tool" => {
                let call = json::take_as(&mut said, "tool_call_id", json::string);
                let name = json::take_as(&mut said, "name", json::string);
                if let Some(call) = &call {
                    self.written.remove(call);
                }
                let content = blocks::take_blocks(&mut said, "content");
                let part = blocks::result(call, name, content, None);
                fields.push(("llm_message".to_owned(), json::write_object(&said)));
                self.add(vec![of_tool(part, fields)], at);
            }
            "assistant" => self.answer(said, fields, whole, at),
            _ => {
                self.give_up_waiting();
                self.words(Role::from_name(&role), said, fields, at);
            }
        }
    }

    /// What a person or the application said; an event of a person's may hold what was put behind it.
    fn words(&mut self, role: Role, mut said: Fields, mut fields: Fields, at: Option<Micros>) {
        let by = json::text_field(&fields, "source");
        let author = match (&role, by.as_deref()) {
            (Role::User, Some("user")) => Author::Person,
            _ => Author::Application,
        };
        let content = take_content(&mut said, "content");
        let behind = json::take_as(&mut fields, "extended_content", |given| {
            json::array(given).filter(|blocks| !blocks.is_empty())
        });
        if !said.is_empty() {
            fields.push(("llm_message".to_owned(), json::write_object(&said)));
        }
        let behind = behind.map(|given| {
            let parts = given.iter().map(blocks::part).collect();
            record::made(
                FORMAT,
                (Role::User, Author::Application),
                (parts, Shape::List),
                Fields::new(),
            )
        });
        let message = record::made(FORMAT, (role, author), content, fields);
        self.add(std::iter::once(message).chain(behind).collect(), at);
    }

    fn answer(&mut self, mut said: Fields, mut fields: Fields, whole: Json, at: Option<Micros>) {
        let calls = json::take_as(&mut said, "tool_calls", json::array).unwrap_or_default();
        let calls: Vec<Part> = calls.iter().map(blocks::call).collect();
        let ids: Vec<String> = calls.iter().filter_map(call_id).collect();
        if !ids.is_empty() && ids.iter().all(|id| self.acted.contains(id)) {
            for id in &ids {
                self.acted.remove(id);
            }
            return self.story.noted("MessageEvent", Some(whole), false);
        }
        self.give_up_waiting();
        let (mut parts, shape) = reasoned(&mut said, "content");
        parts.extend(calls);
        if !said.is_empty() {
            fields.push(("llm_message".to_owned(), json::write_object(&said)));
        }
        self.written.extend(ids.into_iter().map(|id| (id, None)));
        self.response = None;
        self.story.called_at(None, at);
        let message = record::made(
            FORMAT,
            (Role::Assistant, Author::Model),
            (parts, shape),
            fields,
        );
        self.add(vec![message], at);
    }

    fn action(&mut self, mut fields: Fields, whole: Json, at: Option<Micros>) {
        let id = json::text_field(&fields, "tool_call_id");
        if id.as_ref().is_some_and(|id| self.written.contains_key(id)) {
            return self.story.noted("ActionEvent", Some(whole), false);
        }
        let response = json::text_field(&fields, "llm_response_id");
        let before = self.response.take();
        let continues = before.filter(|(known, _)| Some(known) == response.as_ref());
        let (mut parts, shape) = reasoned(&mut fields, "thought");
        parts.push(action_call(&mut fields, id.clone()));
        let message = record::made(
            FORMAT,
            (Role::Assistant, Author::Model),
            (parts, shape),
            fields,
        );
        self.acted.extend(id);
        let number = self.story.count();
        match continues {
            Some((id, first)) => {
                self.response = Some((id, first));
                self.remember(&message, number);
                self.story.linked(message, at, Link::Continues(first));
            }
            None => {
                self.give_up_waiting();
                let number = self.story.count();
                self.response = response.map(|id| (id, number));
                self.story.called_at(None, at);
                self.add(vec![message], at);
            }
        }
    }

    fn observation(&mut self, mut fields: Fields, whole: Json, at: Option<Micros>) {
        let kind = json::text_field(&fields, "kind").unwrap_or_default();
        let call = json::take_as(&mut fields, "tool_call_id", json::string);
        let name = json::take_as(&mut fields, "tool_name", json::string);
        let told = ["error", "rejection_reason"];
        let told = told
            .iter()
            .find_map(|name| json::take_as(&mut fields, name, json::string));
        let part = match told {
            Some(words) => {
                let content = (vec![record::words(words)], Shape::Text);
                blocks::result(call.clone(), name, content, Some(true))
            }
            None => observed(&mut fields, call.clone(), name),
        };
        let message = of_tool(part, fields);
        if let Some(waiting) = call.as_ref().and_then(|call| self.written.get_mut(call)) {
            let order = self.events;
            *waiting = Some(Waiting { order, message, at });
            return self.story.noted(kind, Some(whole), false);
        }
        if let Some(call) = call {
            self.acted.remove(&call);
        }
        self.add(vec![message], at);
    }

    /// The conversation goes on: results that no message told are told by their observations.
    fn give_up_waiting(&mut self) {
        let waiting = std::mem::take(&mut self.written);
        let mut waiting: Vec<Waiting> = waiting.into_values().flatten().collect();
        waiting.sort_by_key(|waiting| waiting.order);
        for Waiting { message, at, .. } in waiting {
            self.add(vec![message], at);
        }
    }

    fn condensation(&mut self, mut fields: Fields, whole: Json, at: Option<Micros>) {
        let forgotten = json::take_as(&mut fields, "forgotten_event_ids", json::array);
        let forgotten = forgotten.unwrap_or_default();
        let summary = json::take_as(&mut fields, "summary", json::string);
        let forgotten = forgotten.iter().filter_map(json::string);
        let mut gone: Vec<usize> = forgotten
            .flat_map(|id| self.held.remove(&id).unwrap_or_default())
            .collect();
        gone.sort_unstable();
        let summary = summary.map(|words| {
            let content = (vec![Part::text(words)], Shape::Text);
            record::made(FORMAT, (Role::User, Author::Application), content, fields)
        });
        match summary {
            Some(summary) if self.held.is_empty() && !gone.is_empty() => {
                let rest = vec![("event".to_owned(), whole)];
                self.story.push(Step::Compacted { summary, rest, at });
            }
            summary => {
                self.story.noted("Condensation", Some(whole), false);
                if !gone.is_empty() {
                    self.story.push(Step::Rewound { gone, at });
                }
                self.add(summary.into_iter().collect(), at);
            }
        }
    }

    fn add(&mut self, messages: Vec<Message>, at: Option<Micros>) {
        for (message, number) in messages.iter().zip(self.story.count()..) {
            self.remember(message, number);
        }
        self.story.messages(messages, at);
    }

    fn remember(&mut self, message: &Message, number: usize) {
        // What stands behind a message leaves with it.
        if let Some(id) = message.source.as_ref().and_then(|s| s.id.clone()) {
            self.newest = id;
        }
        let held = self.held.entry(self.newest.clone()).or_default();
        held.push(number);
    }
}

fn of_tool(part: Part, around: Fields) -> Message {
    record::made(
        FORMAT,
        (Role::Tool, Author::Tool),
        (vec![part], Shape::List),
        around,
    )
}

fn call_id(part: &Part) -> Option<String> {
    match &part.body {
        PartBody::Call { id, .. } => id.clone(),
        _ => None,
    }
}

/// Reasoning and words of the model. Where blocks of thinking stand, they say what the text beside them
/// repeats.
fn reasoned(fields: &mut Fields, content: &str) -> (Vec<Part>, Shape) {
    let thinking = json::take_as(fields, "thinking_blocks", |given| {
        json::array(given).filter(|blocks| !blocks.is_empty())
    });
    let mut parts: Vec<Part> = match thinking {
        Some(given) => given.iter().map(blocks::part).collect(),
        None => json::take_as(fields, "reasoning_content", |given| {
            json::string(given).filter(|text| !text.is_empty())
        })
        .map(|text| {
            record::plain(PartBody::Reasoning {
                text,
                signature: None,
                encrypted: None,
            })
        })
        .into_iter()
        .collect(),
    };
    let (words, shape) = take_content(fields, content);
    parts.extend(words);
    (parts, shape)
}

/// The call of an action as the model wrote it; else as the agent understood it.
fn action_call(fields: &mut Fields, id: Option<String>) -> Part {
    let written = json::take_as(fields, "tool_call", |given| {
        let part = blocks::call(given);
        matches!(part.body, PartBody::Call { .. }).then_some(part)
    });
    written.unwrap_or_else(|| {
        let name = json::text_field(fields, "tool_name").unwrap_or_default();
        let understood = json::field(fields, "action").map(|action| action.0.clone());
        record::plain(PartBody::Call {
            id,
            name,
            arguments: understood.unwrap_or_default(),
            native: None,
        })
    })
}

/// The result that an observation is: its content, or all of it.
fn observed(fields: &mut Fields, call: Option<String>, name: Option<String>) -> Part {
    let mut seen = json::take_as(fields, "observation", json::object).unwrap_or_default();
    let error = json::take_as(&mut seen, "is_error", json::boolean);
    let content = match blocks::take_blocks(&mut seen, "content") {
        (_, Shape::Absent) => {
            let words = json::write_object(&std::mem::take(&mut seen)).0;
            (vec![record::words(words)], Shape::Text)
        }
        content => content,
    };
    if !seen.is_empty() {
        fields.push(("observation".to_owned(), json::write_object(&seen)));
    }
    blocks::result(call, name, content, error)
}
