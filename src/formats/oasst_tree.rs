//! Trees of Open Assistant: a record a tree with nested `replies`, or one list of nodes that name
//! their parents. Siblings are alternatives, the best `rank` first.

use super::detect::{PieceReader, Sniff};
use super::input::Piece;
use super::record::{self, Story, instant};
use super::tree::{self, Node};
use super::{Transcript, json};
use crate::log::{Fields, Json, Message, Role, Source};

/// The format's name.
pub const FORMAT: &str = "oasst-tree";

/// The format.
pub(crate) struct OasstTree;

impl PieceReader for OasstTree {
    fn name(&self) -> &'static str {
        FORMAT
    }

    fn sniff(&self, record: &Fields) -> Sniff {
        let has = |name: &str| json::field(record, name).is_some();
        Sniff::is(is_tree(record) || (has("user_message_id") && has("text") && has("role")))
    }

    fn read(&self, pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
        read(pieces)
    }

    fn given(&self, messages: &[&Message]) -> Option<Json> {
        Some(write_message(messages.first()?))
    }
}

fn is_tree(record: &Fields) -> bool {
    json::field(record, "message_tree_id").is_some() && json::field(record, "prompt").is_some()
}

/// Reads trees and nodes. What cannot be read becomes a note.
fn read(pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
    let mut told = Vec::new();
    let mut notes = Story::new(FORMAT);
    let mut flat: Vec<Node> = Vec::new();
    for piece in pieces {
        let Some(record) = notes.record(piece) else {
            continue;
        };
        if is_tree(&record.fields) {
            told.extend(tree(record.fields, &record.place));
            continue;
        }
        match node(record.fields, &record.place, None) {
            Some((node, _)) => flat.push(node),
            None => notes.noted("this is no message of a tree", Some(record.json), true),
        }
    }
    told.extend(tree::tell(FORMAT, None, flat, None));
    notes.finish_into(&mut told);
    told
}

/// A tree of nested replies; what else its record says is noted on its main path.
fn tree(mut record: Fields, place: &str) -> Vec<Transcript> {
    let id = json::take_as(&mut record, "message_tree_id", json::string);
    let mut nodes = Vec::new();
    let mut waiting: Vec<(Json, Option<String>)> = Vec::new();
    waiting.extend(json::take(&mut record, "prompt").map(|prompt| (prompt, None)));
    let mut notes = Story::new(FORMAT);
    notes.at(place);
    notes.leftovers(&record);
    while let Some((json, parent)) = waiting.pop() {
        match json::object(&json).and_then(|fields| node(fields, place, parent)) {
            Some((node, replies)) => {
                // The last one waiting is the next one read.
                let under = |reply| (reply, Some(node.id.clone()));
                waiting.extend(replies.into_iter().rev().map(under));
                nodes.push(node);
            }
            None => notes.noted("this is no message of a tree", Some(json), true),
        }
    }
    let mut told = tree::tell(FORMAT, id.as_deref(), nodes, None);
    notes.finish_on_first(&mut told);
    told
}

/// A node and its replies in order of preference.
fn node(mut fields: Fields, place: &str, parent: Option<String>) -> Option<(Node, Vec<Json>)> {
    let id = ["message_id", "user_message_id"]
        .iter()
        .find_map(|name| json::text_field(&fields, name))?;
    let parent = parent
        .or_else(|| json::text_field(&fields, "parent_id"))
        .or_else(|| json::text_field(&fields, "parent_message_id"));
    let role = json::take_as(&mut fields, "role", json::string)?;
    let text = json::take_as(&mut fields, "text", json::string)?;
    let mut replies = json::take_as(&mut fields, "replies", json::array).unwrap_or_default();
    replies.sort_by_key(|reply| {
        let rank = json::object(reply).and_then(|r| json::integer(json::field(&r, "rank")?));
        rank.unwrap_or(u64::MAX)
    });
    let mut message = match role.as_str() {
        "assistant" => Message::model(text),
        "prompter" => Message::person(text),
        _ => return None,
    };
    let at = json::field(&fields, "created_date").and_then(instant);
    message.source = Some(Source {
        format: FORMAT.to_owned(),
        id: Some(id.clone()),
        around: fields,
        verbatim: None,
    });
    let mut story = Story::new(FORMAT);
    story.at(place);
    story.history_at(vec![message], at);
    let steps = story.finish().steps;
    let place = place.to_owned();
    Some((
        Node {
            id,
            parent,
            place,
            steps,
        },
        replies,
    ))
}

/// A node without its replies, which are nodes themselves.
fn write_message(message: &Message) -> Json {
    let role = match message.role {
        Role::Assistant => "assistant",
        _ => "prompter",
    };
    let mut out = json::Writer::default();
    out.text("text", &message.words()).text("role", role);
    out.fields(&record::around(message)).finish()
}
