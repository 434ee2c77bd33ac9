//! OpenAI Responses transcripts.

use super::item::{COMPACTION, INPUT, INSTRUCTIONS, REFERENCE, read_item, read_text};
use crate::formats::detect::{PieceReader, Sniff};
use crate::formats::input::Piece;
use crate::formats::record::{self, Records, Story};
use crate::formats::{Transcript, Usage, json};
use crate::log::{BlockBody, Fields, Json, Message, Micros, PartBody};

/// The format.
pub(crate) struct OpenAiResponses;

impl PieceReader for OpenAiResponses {
    fn name(&self) -> &'static str {
        super::FORMAT
    }

    fn sniff(&self, record: &Fields) -> Sniff {
        let inner = |name: &str| json::field(record, name).and_then(json::object);
        let endpoint = json::text_field(record, "endpoint").unwrap_or_default();
        let answered = inner("response").is_some_and(|response| self.is_response(&response));
        let body = inner("request").is_some_and(|request| is_body(&request)) || is_body(record);
        let by_shape = self.is_response(record) || answered || body || is_item(record);
        Sniff::is(endpoint.ends_with("/responses") || by_shape)
    }

    fn read(&self, pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
        read(pieces)
    }

    fn given(&self, messages: &[&Message]) -> Option<Json> {
        Some(super::write_given(messages.first()?))
    }
}

/// Reads recorded requests with or without their answers, bare request bodies, bare answers, and
/// bare items. What cannot be read becomes a note.
pub fn read(pieces: impl IntoIterator<Item = Piece>) -> Vec<Transcript> {
    record::read(&OpenAiResponses, pieces)
}

/// A request: embeddings have an `input` and a `model` too, but no list of objects.
fn is_body(fields: &Fields) -> bool {
    let has = |name: &str| json::field(fields, name).is_some();
    let items = json::field(fields, "input").and_then(json::array);
    let is_object = |items: Vec<Json>| items.first().and_then(json::object).is_some();
    has("model") && (items.is_some_and(is_object) || (has("input") && has("instructions")))
}

/// An item that no other format has: one with a call's id of its own kind, or parts named as here.
fn is_item(fields: &Fields) -> bool {
    let has = |name: &str| json::field(fields, name).is_some();
    let kind = json::text_field(fields, "type").unwrap_or_default();
    let part = || {
        let first = json::array(json::field(fields, "content")?)?
            .into_iter()
            .next()?;
        json::text_field(&json::object(&first)?, "type")
    };
    match kind.as_str() {
        "function_call" | "function_call_output" | "custom_tool_call" => has("call_id"),
        "reasoning" => has("summary"),
        "message" | "" => {
            has("role")
                && part().is_some_and(|part| part.starts_with("input_") || part == "output_text")
                && part().as_deref() != Some("input_audio")
        }
        _ => false,
    }
}

impl Records for OpenAiResponses {
    const FORMAT: &'static str = super::FORMAT;
    const LIST: &'static str = "input";

    fn is_message(&self, fields: &Fields) -> bool {
        let has = |name: &str| json::field(fields, name).is_some();
        (has("role") || has("type"))
            && !has("response")
            && !is_body(fields)
            && !self.is_response(fields)
    }

    fn message(&self, json: &Json) -> Option<Vec<Message>> {
        read_item(json).map(|message| vec![message])
    }

    /// What was sent is told as it was sent, before a compaction item as behind it.
    fn tell(&self, story: &mut Story, messages: Vec<Message>) {
        for message in messages {
            tell_sent(story, message, None);
        }
    }

    /// Instructions, and an input that is one text.
    fn before(&self, request: &mut Fields) -> Vec<Message> {
        let filled = |json: &Json| {
            read_text(INSTRUCTIONS, json).filter(|message| !message.words().is_empty())
        };
        let instructions = json::take_as(request, INSTRUCTIONS, filled);
        let input = json::take_as(request, Self::LIST, |json| read_text(INPUT, json));
        instructions.into_iter().chain(input).collect()
    }

    fn is_response(&self, fields: &Fields) -> bool {
        let has = |name: &str| json::field(fields, name).is_some();
        let output = json::field(fields, "output").and_then(json::array);
        json::text_field(fields, "object").as_deref() == Some("response")
            || (output.is_some() && !has("type") && !has("call_id"))
    }

    fn answer(&self, story: &mut Story, mut response: Fields, at: Option<Micros>) {
        let at = at.or_else(|| record::seconds(&response, "created_at"));
        let usage = json::field(&response, "usage").and_then(usage);
        let failure = json::field(&response, "error").and_then(json::object);
        let failure = failure.and_then(|error| json::text_field(&error, "message"));
        let output = json::take_as(&mut response, "output", json::array).unwrap_or_default();
        let missing = output.is_empty() && failure.is_none();
        for item in output {
            match read_item(&item) {
                Some(message) => tell(story, message, at),
                None => story.noted("an item that is no object", Some(item), true),
            }
        }
        story.returned(usage, failure, response, at);
        if missing {
            story.noted("the response holds no answer", None, true);
        }
    }
}

/// Adds an item that came in the course of a conversation.
pub(crate) fn tell(story: &mut Story, message: Message, at: Option<Micros>) {
    if opaque_kind(&message) == Some(COMPACTION) {
        return story.compacted(message, Fields::new(), at);
    }
    tell_sent(story, message, at);
}

fn tell_sent(story: &mut Story, message: Message, at: Option<Micros>) {
    if opaque_kind(&message) == Some(REFERENCE) {
        let what = "an item that is on the provider's server, not in this file";
        story.noted(what, None, true);
    }
    story.item(message, at);
}

fn opaque_kind(message: &Message) -> Option<&str> {
    message.parts.first().and_then(|part| match &part.body {
        PartBody::Block(BlockBody::Opaque(kind, _)) => Some(kind.as_str()),
        _ => None,
    })
}

/// Usage as an answer gives it.
#[must_use]
pub fn usage(usage: &Json) -> Option<Usage> {
    let fields = json::object(usage)?;
    let count = |name: &str| json::field(&fields, name).and_then(json::integer);
    let details = json::field(&fields, "input_tokens_details").and_then(json::object);
    let detail = |name| json::integer(json::field(details.as_ref()?, name)?);
    let cache_read = detail("cached_tokens");
    let input = count("input_tokens").map(|all| all.saturating_sub(cache_read.unwrap_or(0)));
    Some(Usage {
        input,
        output: count("output_tokens"),
        cache_read,
        cache_write: None,
    })
}
