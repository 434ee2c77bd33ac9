//! Agent files of Letta: agents with their messages, newer ones by id, older ones alone in the file.
//!
//! Which messages the agent sees is a list of its own: all others left the window some time. A message of
//! the role `approval` with calls is the model's, one with decisions is nobody's.

use std::collections::HashSet;

use super::blocks::{self, take_content};
use super::detect::{PieceReader, Sniff};
use super::input::Piece;
use super::record::{self, Story, instant};
use super::{MARK, Step, Transcript, json, mark};
use crate::log::{Author, Fields, Json, Message, Part, PartBody, Role, Shape};

/// The format's name.
pub const FORMAT: &str = "letta-af";

/// The format.
pub(crate) struct LettaAf;

impl PieceReader for LettaAf {
    fn name(&self) -> &'static str {
        FORMAT
    }

    fn sniff(&self, record: &Fields) -> Sniff {
        let agents = json::field(record, "agents").and_then(json::array);
        let agents = agents.unwrap_or_default();
        let mut agents = agents.iter().filter_map(json::object);
        Sniff::is(is_agent(record) || agents.any(|agent| is_agent(&agent)))
    }

    fn read(&self, pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
        record::each(FORMAT, pieces, file)
    }

    fn given(&self, messages: &[&Message]) -> Option<Json> {
        Some(write_message(messages.first()?))
    }
}

fn is_agent(fields: &Fields) -> bool {
    let has = |name: &str| json::field(fields, name).is_some();
    has("messages") && (has(INDICES) || has(IDS))
}

const INDICES: &str = "in_context_message_indices";
const IDS: &str = "in_context_message_ids";

fn file(place: &str, mut fields: Fields) -> Vec<Transcript> {
    let Some(agents) = json::take_as(&mut fields, "agents", json::array) else {
        return record::one(FORMAT, place, |story| agent(story, fields));
    };
    let what = "an agent that is no object";
    record::several(FORMAT, place, (agents, fields), what, agent)
}

fn agent(story: &mut Story, mut fields: Fields) {
    // Ids are counted anew in each file.
    let named = ["name", "id"];
    let named = named
        .iter()
        .find_map(|name| json::text_field(&fields, name));
    story.identify(named);
    let model = json::take_as(&mut fields, "llm_config", json::object);
    story.configured(model.unwrap_or_default());
    let messages = json::take_as(&mut fields, "messages", json::array).unwrap_or_default();
    let seen = Seen::take(&mut fields);
    story.leftovers(&fields);
    let mut gone = Vec::new();
    for (at, json) in messages.into_iter().enumerate() {
        let first = story.count();
        let Some(fields) = json::object(&json) else {
            story.noted("a message that is no object", Some(json), true);
            continue;
        };
        let left = seen.as_ref().is_some_and(|seen| seen.lacks(at, &fields));
        message(story, fields, json);
        if left {
            gone.extend(first..story.count());
        }
    }
    if !gone.is_empty() {
        story.push(Step::Rewound { gone, at: None });
    }
}

/// Which messages are in the agent's window.
enum Seen {
    Places(HashSet<u64>),
    Ids(HashSet<String>),
}

impl Seen {
    fn take(agent: &mut Fields) -> Option<Self> {
        if let Some(ids) = json::take_as(agent, IDS, json::array) {
            return Some(Self::Ids(ids.iter().filter_map(json::string).collect()));
        }
        let places = json::take_as(agent, INDICES, json::array)?;
        let places = places.iter().filter_map(json::integer).collect();
        Some(Self::Places(places))
    }

    fn lacks(&self, at: usize, message: &Fields) -> bool {
        match self {
            Self::Places(places) => u64::try_from(at).is_ok_and(|at| !places.contains(&at)),
            Self::Ids(ids) => json::text_field(message, "id").is_none_or(|id| !ids.contains(&id)),
        }
    }
}

fn message(story: &mut Story, mut fields: Fields, whole: Json) {
    let at = json::field(&fields, "created_at").and_then(instant);
    let role = json::take_as(&mut fields, "role", json::string).unwrap_or_default();
    let calls = json::take_as(&mut fields, "tool_calls", json::array).unwrap_or_default();
    let model = json::text_field(&fields, "model");
    match role.as_str() {
        "approval" if calls.is_empty() => story.noted(role, Some(whole), false),
        "assistant" | "approval" => {
            let (mut parts, shape) = take_content(&mut fields, "content");
            parts.extend(calls.iter().map(blocks::call));
            let mut message = record::made(
                FORMAT,
                (Role::Assistant, Author::Model),
                (parts, shape),
                fields,
            );
            if role == "approval" {
                message.extra.push(mark(&role));
            }
            record::keep_whole(&mut message, &whole, write_message);
            story.called_at(model, at);
            story.messages(vec![message], at);
        }
        "tool" => {
            let mut message = results(fields);
            record::keep_whole(&mut message, &whole, write_message);
            story.messages(vec![message], at);
        }
        other => {
            let (parts, shape) = take_content(&mut fields, "content");
            let role = Role::from_name(other);
            let author = record::author_of(&role);
            let mut message = record::made(FORMAT, (role, author), (parts, shape), fields);
            record::keep_whole(&mut message, &whole, write_message);
            story.messages(vec![message], at);
        }
    }
}

/// A message of results answers several calls, of which it names one; an older one answers that one.
fn results(mut fields: Fields) -> Message {
    let returns = json::take_as(&mut fields, "tool_returns", |given| {
        json::array(given).filter(|list| !list.is_empty())
    });
    let parts = match returns {
        Some(returns) => returns.iter().map(returned).collect(),
        None => {
            let call = json::take_as(&mut fields, "tool_call_id", json::string);
            let content = blocks::take_blocks(&mut fields, "content");
            vec![blocks::result(call, None, content, None)]
        }
    };
    record::made(
        FORMAT,
        (Role::Tool, Author::Tool),
        (parts, Shape::List),
        fields,
    )
}

fn returned(whole: &Json) -> Part {
    let Some(mut fields) = json::object(whole) else {
        return record::opaque("tool_return", whole);
    };
    let call = json::take_as(&mut fields, "tool_call_id", json::string);
    let error = match json::text_field(&fields, "status").as_deref() {
        Some("success") => Some(false),
        Some("error") => Some(true),
        _ => None,
    };
    let content = blocks::take_blocks(&mut fields, "func_response");
    let part = blocks::result(call, None, content, error);
    Part {
        extra: fields,
        ..part
    }
}

fn write_message(message: &Message) -> Json {
    let mut out = json::Writer::default();
    let approval = json::text_field(&message.extra, MARK);
    out.text("role", approval.as_deref().unwrap_or(message.role.name()));
    if message.role == Role::Tool {
        write_results(&mut out, &message.parts);
    } else {
        let parts: Vec<&Part> = message.parts.iter().collect();
        blocks::write_content(&mut out, "content", &parts, message.shape);
        let calls: Vec<Json> = parts
            .iter()
            .filter_map(|part| blocks::write_call(part))
            .collect();
        if !calls.is_empty() {
            out.field("tool_calls", &json::write_array(&calls).0);
        }
    }
    out.fields(&record::around(message)).finish()
}

/// The newer way names the calls one by one, and says of each whether it went well.
fn write_results(out: &mut json::Writer, parts: &[Part]) {
    let write = |out: &mut json::Writer, part: &Part, name: &str| {
        if let PartBody::Result {
            call,
            content,
            shape,
            ..
        } = &part.body
        {
            if let Some(call) = call {
                out.text("tool_call_id", call);
            }
            blocks::write_result(out, name, content, *shape);
        }
        out.fields(&part.extra);
    };
    match parts {
        [one] if one.extra.is_empty() => write(out, one, "content"),
        several => {
            let returned = |part: &Part| {
                let mut out = json::Writer::default();
                write(&mut out, part, "func_response");
                out.finish()
            };
            let returns: Vec<Json> = several.iter().map(returned).collect();
            out.field("tool_returns", &json::write_array(&returns).0);
        }
    }
}
