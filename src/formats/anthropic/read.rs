//! Anthropic Messages transcripts.

use super::message::{read_message, read_system};
use crate::formats::detect::{self, PieceReader, Shown, Sniff};
use crate::formats::input::Piece;
use crate::formats::json;
use crate::formats::record::{self, Records, Story};
use crate::formats::{Transcript, Usage};
use crate::log::{Fields, Json, Message, Micros};

/// The format.
pub(crate) struct Anthropic;

impl PieceReader for Anthropic {
    fn name(&self) -> &'static str {
        super::FORMAT
    }

    fn sniff(&self, record: &Fields) -> Sniff {
        Sniff::is(matches!(detect::shown(record), Shown::Anthropic))
    }

    fn read(&self, pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
        read(pieces)
    }

    fn given(&self, messages: &[&Message]) -> Option<Json> {
        Some(super::write_message(messages))
    }
}

/// Reads recorded requests with or without their answers, bare request bodies, bare answers, and
/// bare messages. What cannot be read becomes a note.
pub fn read(pieces: impl IntoIterator<Item = Piece>) -> Vec<Transcript> {
    record::read(&Anthropic, pieces)
}

impl Records for Anthropic {
    const FORMAT: &'static str = super::FORMAT;

    fn message(&self, json: &Json) -> Option<Vec<Message>> {
        read_message(json, super::FORMAT)
    }

    fn before(&self, request: &mut Fields) -> Vec<Message> {
        let system = json::take(request, "system");
        system
            .iter()
            .map(|system| read_system(system, super::FORMAT))
            .collect()
    }

    fn is_response(&self, fields: &Fields) -> bool {
        let has = |name| json::field(fields, name).is_some();
        has("content") && (has("stop_reason") || has("usage"))
    }

    fn answer(&self, story: &mut Story, mut response: Fields, at: Option<Micros>) {
        let usage = json::field(&response, "usage").and_then(usage);
        let answer = record::take_answer(&mut response);
        match read_message(&answer, super::FORMAT) {
            Some(messages) => story.messages(messages, at),
            None => story.noted("the response holds no answer", Some(answer), true),
        }
        story.returned(usage, None, response, at);
    }
}

/// Usage as an answer gives it.
#[must_use]
pub fn usage(usage: &Json) -> Option<Usage> {
    let fields = json::object(usage)?;
    let count = |name: &str| json::field(&fields, name).and_then(json::integer);
    Some(Usage {
        input: count("input_tokens"),
        output: count("output_tokens"),
        cache_read: count("cache_read_input_tokens"),
        cache_write: count("cache_creation_input_tokens"),
    })
}
