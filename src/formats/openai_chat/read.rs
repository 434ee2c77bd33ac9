//! OpenAI chat transcripts.

use super::message::read_message;
use crate::formats::detect::{self, PieceReader, Shown, Sniff};
use crate::formats::input::Piece;
use crate::formats::json;
use crate::formats::record::{self, Records, Story};
use crate::formats::{Transcript, Usage};
use crate::log::{Fields, Json, Message, Micros};

/// The format.
pub(crate) struct OpenAiChat;

impl PieceReader for OpenAiChat {
    fn name(&self) -> &'static str {
        super::FORMAT
    }

    fn sniff(&self, record: &Fields) -> Sniff {
        match detect::shown(record) {
            Shown::OpenAi => Sniff::Is,
            Shown::Plain => Sniff::Maybe,
            Shown::Anthropic | Shown::Unknown => Sniff::No,
        }
    }

    fn read(&self, pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
        read(pieces)
    }

    fn given(&self, messages: &[&Message]) -> Option<Json> {
        Some(super::write_message(messages.first()?))
    }
}

/// Reads records with a trajectory (`traj`), recorded requests with or without their answers, bare
/// request bodies, bare answers, and bare messages. What cannot be read becomes a note.
pub fn read(pieces: impl IntoIterator<Item = Piece>) -> Vec<Transcript> {
    record::read(&OpenAiChat, pieces)
}

impl Records for OpenAiChat {
    const FORMAT: &'static str = super::FORMAT;

    fn message(&self, json: &Json) -> Option<Vec<Message>> {
        read_message(json).map(|message| vec![message])
    }

    fn before(&self, _: &mut Fields) -> Vec<Message> {
        Vec::new()
    }

    fn is_response(&self, fields: &Fields) -> bool {
        json::field(fields, "choices").is_some()
    }

    fn answer(&self, story: &mut Story, response: Fields, at: Option<Micros>) {
        answer(story, response, at, read_message);
    }
}

/// Adds an answer whose message `read` reads.
pub(crate) fn answer(
    story: &mut Story,
    mut response: Fields,
    at: Option<Micros>,
    read: fn(&Json) -> Option<Message>,
) {
    let at = at.or_else(|| record::seconds(&response, "created"));
    let usage = json::field(&response, "usage").and_then(usage);
    let choices = json::take_as(&mut response, "choices", json::array).unwrap_or_default();
    let mut choices = choices.into_iter();
    let missing = match choices.next() {
        Some(first) => !answer_choice(story, &mut response, &first, at, read),
        None => true,
    };
    story.returned(usage, None, response, at);
    if missing {
        story.noted("the response holds no answer", None, true);
    }
    for other in choices {
        story.noted("another choice of the same answer", Some(other), false);
    }
}

/// Adds the message of the chosen answer; its other fields go to the response's.
fn answer_choice(
    story: &mut Story,
    response: &mut Fields,
    choice: &Json,
    at: Option<Micros>,
    read: fn(&Json) -> Option<Message>,
) -> bool {
    let mut fields = json::object(choice).unwrap_or_default();
    let answer = json::take_as(&mut fields, "message", read);
    let found = answer.is_some();
    story.messages(answer.into_iter().collect(), at);
    let rest = if fields.is_empty() {
        choice.clone()
    } else {
        json::write_object(&fields)
    };
    if !found || !fields.is_empty() {
        response.push(("choice".to_owned(), rest));
    }
    found
}

/// Usage as an answer gives it.
#[must_use]
pub fn usage(usage: &Json) -> Option<Usage> {
    let fields = json::object(usage)?;
    let count = |name: &str| json::field(&fields, name).and_then(json::integer);
    let details = json::field(&fields, "prompt_tokens_details").and_then(json::object);
    let detail = |name: &str| {
        details
            .as_ref()
            .and_then(|d| json::field(d, name))
            .and_then(json::integer)
    };
    let cache_read = detail("cached_tokens").or_else(|| count("cache_read_input_tokens"));
    let cache_write = detail("cache_write_tokens").or_else(|| count("cache_creation_input_tokens"));
    let cached = cache_read
        .unwrap_or(0)
        .saturating_add(cache_write.unwrap_or(0));
    let input = count("prompt_tokens").map(|all| all.saturating_sub(cached));
    Some(Usage {
        input,
        output: count("completion_tokens"),
        cache_read,
        cache_write,
    })
}
