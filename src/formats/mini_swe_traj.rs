//! Trajectories of mini-swe-agent: OpenAI chat messages, each with what the agent made of it beside
//! it (`extra`). Its last message, of the role `exit`, is the agent's own: no model saw it.

use super::detect::{PieceReader, Sniff};
use super::input::Piece;
use super::record::{Story, instant};
use super::{Transcript, json, openai_chat};
use crate::log::{Author, Fields, Json, Message, Role};

/// The format's name.
pub const FORMAT: &str = "mini-swe-traj";

/// The format.
pub(crate) struct MiniSweTraj;

impl PieceReader for MiniSweTraj {
    fn name(&self) -> &'static str {
        FORMAT
    }

    fn sniff(&self, record: &Fields) -> Sniff {
        let messages = json::field(record, "messages").is_some();
        let named = json::text_field(record, "trajectory_format").unwrap_or_default();
        let info = json::field(record, "info").and_then(json::object);
        let stats = |info: Fields| json::field(&info, "model_stats").is_some();
        Sniff::is(messages && (named.starts_with("mini-swe-agent") || info.is_some_and(stats)))
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
    let mut bare = Run::new();
    for piece in pieces {
        match bare.story.record(piece) {
            Some(record) if json::field(&record.fields, "role").is_some() => {
                bare.message(&record.json);
            }
            Some(record) => told.push(run(record.fields, &record.place)),
            None => {}
        }
    }
    bare.story.finish_into(&mut told);
    told
}

fn run(mut record: Fields, place: &str) -> Transcript {
    let mut run = Run::new();
    run.story.at(place);
    run.story.identify(json::text_field(&record, "instance_id"));
    match json::take_as(&mut record, "messages", json::array) {
        Some(messages) => messages.iter().for_each(|message| run.message(message)),
        None => run.story.noted("a record without messages", None, true),
    }
    run.story.leftovers(&record);
    run.story.finish()
}

struct Run {
    story: Story,
    /// Whether the model spoke: what comes in the user's role from then on is what its commands gave.
    spoke: bool,
}

impl Run {
    fn new() -> Self {
        Self {
            story: Story::new(FORMAT),
            spoke: false,
        }
    }

    fn message(&mut self, json: &Json) {
        let Some(mut fields) = json::object(json) else {
            let what = "a message that is no object";
            return self.story.noted(what, Some(json.clone()), true);
        };
        let mut extra = json::take_as(&mut fields, "extra", json::object).unwrap_or_default();
        let at = json::field(&extra, "timestamp").and_then(instant);
        let own = json::write_object(&fields);
        let read = openai_chat::read_message(&own);
        let Some(mut message) = read.filter(|m| m.role != Role::Other("exit".to_owned())) else {
            return self.story.noted("exit", Some(json.clone()), false);
        };
        if let Some(source) = &mut message.source {
            FORMAT.clone_into(&mut source.format);
        }
        if message.author == Author::Person && self.spoke {
            message.author = Author::Application;
        }
        if message.author != Author::Model {
            if let Some(source) = &mut message.source {
                source.around = extra;
            }
            return self.story.messages(vec![message], at);
        }
        self.spoke = true;
        let response = json::take_as(&mut extra, "response", json::object);
        let model = response.as_ref().and_then(|r| json::text_field(r, "model"));
        self.story.called_at(model, at);
        self.story.messages(vec![message], at);
        let mut rest = response.unwrap_or_default();
        let usage = json::field(&rest, "usage").and_then(openai_chat::usage);
        without_message(&mut rest, &own);
        rest.append(&mut extra);
        if !rest.is_empty() {
            self.story.returned(usage, None, rest, at);
        }
    }
}

/// Takes the message out of a response where it is the one that stands in the conversation.
fn without_message(response: &mut Fields, message: &Json) {
    let choices = json::field(response, "choices").and_then(json::array);
    let Some([choice]) = choices.as_deref() else {
        return;
    };
    let Some(mut choice) = json::object(choice) else {
        return;
    };
    if json::field(&choice, "message").is_some_and(|m| json::equal(m, message)) {
        json::take(&mut choice, "message");
        json::take(response, "choices");
        response.push(("choice".to_owned(), json::write_object(&choice)));
    }
}

/// A message as it stood in the conversation. What the agent noted of a call (`extra`) is told as what
/// came back from it, and not with the message.
fn write_message(message: &Message) -> Json {
    openai_chat::write_message(message)
}
