//! Trajectories of SWE-agent: `history` is what the model saw; `trajectory`, the log of the agent's
//! steps, repeats it and is kept as a note. Demonstrations were sent to the model, and come from
//! another run: no model of this one wrote them.

use super::detect::{PieceReader, Sniff};
use super::input::Piece;
use super::record::{self, Story};
use super::{Transcript, json, openai_chat};
use crate::log::{Author, Fields, Json, Message, Part, PartBody, Role, Shape};

/// The format's name.
pub const FORMAT: &str = "sweagent-traj";

/// Fields of a message that are the agent's own.
const OWN: [&str; 6] = [
    "agent",
    "thought",
    "action",
    "is_demo",
    "message_type",
    "cache_control",
];

/// The format.
pub(crate) struct SweagentTraj;

impl PieceReader for SweagentTraj {
    fn name(&self) -> &'static str {
        FORMAT
    }

    fn sniff(&self, record: &Fields) -> Sniff {
        let history = json::field(record, "history").and_then(json::array);
        let first = history.and_then(|history| history.first().and_then(json::object));
        let agent = first.is_some_and(|first| json::field(&first, "agent").is_some());
        let steps = json::field(record, "trajectory").and_then(json::array);
        let has_history = json::field(record, "history").is_some();
        Sniff::is(agent || (has_history && steps.is_some()))
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
    for piece in pieces {
        let record = notes.record(piece);
        told.extend(record.map(|record| run(record.fields, &record.place)));
    }
    notes.finish_into(&mut told);
    told
}

fn run(mut record: Fields, place: &str) -> Transcript {
    let mut story = Story::new(FORMAT);
    story.at(place);
    let mut spoke = false;
    match json::take_as(&mut record, "history", json::array) {
        Some(history) => {
            for json in &history {
                match message(json, &mut spoke) {
                    Some(message) => story.history(vec![message]),
                    None => {
                        let what = "a message that is no object";
                        story.noted(what, Some(json.clone()), true);
                    }
                }
            }
        }
        None => story.noted("a record without a history", None, true),
    }
    if let Some(steps) = json::take(&mut record, "trajectory") {
        story.kept("trajectory", steps);
    }
    story.leftovers(&record);
    story.finish()
}

/// Reads a message. What comes in the user's role once the model `spoke` is what its commands gave.
fn message(json: &Json, spoke: &mut bool) -> Option<Message> {
    let own = |(name, _): &(String, Json)| OWN.contains(&name.as_str());
    let (around, fields): (Fields, Fields) = json::object(json)?.into_iter().partition(own);
    let mut message = openai_chat::read_message(&json::write_object(&fields))?;
    let demo = json::field(&around, "is_demo").and_then(json::boolean) == Some(true);
    if demo || (message.author == Author::Person && *spoke) {
        message.author = Author::Application;
    }
    *spoke |= message.author == Author::Model;
    if message.role == Role::Tool {
        name_calls(&mut message);
    }
    if let Some(source) = &mut message.source {
        FORMAT.clone_into(&mut source.format);
        source.around = around;
        source.verbatim = None;
    }
    record::keep_whole(&mut message, json, write_message);
    Some(message)
}

/// A tool's message names its calls in a list. Its words answer the first; the others have none.
fn name_calls(message: &mut Message) {
    let ids = |json: &Json| -> Option<Vec<String>> {
        json::array(json)?.iter().map(json::string).collect()
    };
    let Some(ids) = json::take_as(&mut message.extra, "tool_call_ids", ids) else {
        return;
    };
    let mut ids = ids.into_iter();
    if let Some(PartBody::Result { call, .. }) = message.parts.first_mut().map(|p| &mut p.body) {
        *call = ids.next();
    }
    message.parts.extend(ids.map(|id| Part {
        body: PartBody::Result {
            call: Some(id),
            name: None,
            content: Vec::new(),
            shape: Shape::Absent,
            error: None,
            interim: false,
            native: None,
        },
        extra: Fields::new(),
    }));
}

fn write_message(message: &Message) -> Json {
    let mut message = message.clone();
    let around = record::around(&message);
    if message.role == Role::Tool {
        let ids = message.parts.iter().map(|part| match &part.body {
            PartBody::Result { call, .. } => call.as_deref().map(json::quoted),
            _ => None,
        });
        // One that a `tool_call_id` names has no list of them.
        if let Some(ids) = ids.collect::<Option<Vec<Json>>>() {
            let ids = json::write_array(&ids);
            message.extra.push(("tool_call_ids".to_owned(), ids));
        }
        message.parts.truncate(1);
        if let Some(PartBody::Result { call, .. }) = message.parts.first_mut().map(|p| &mut p.body)
        {
            *call = None;
        }
    }
    let written = json::object(&openai_chat::write_message(&message)).unwrap_or_default();
    let mut out = json::Writer::default();
    out.fields(&written).fields(&around).finish()
}
