//! Exports of chat front ends: LibreChat (a record a conversation, its messages nested or a list that
//! names parents) and Chatbot-UI (a `history` of conversations).

use super::detect::{PieceReader, Sniff};
use super::input::Piece;
use super::record::{self, Story, instant};
use super::tree::{self, Node};
use super::{Transcript, json, openai_chat};
use crate::log::{Fields, Json, Message, Source};

/// The format's name.
pub const FORMAT: &str = "webui-export";

/// What a message answers that answers none.
const NO_PARENT: &str = "00000000-0000-0000-0000-000000000000";

/// The format.
pub(crate) struct WebuiExport;

impl PieceReader for WebuiExport {
    fn name(&self) -> &'static str {
        FORMAT
    }

    fn sniff(&self, record: &Fields) -> Sniff {
        Sniff::is(is_libre(record) || is_chatbot(record))
    }

    fn read(&self, pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
        read(pieces)
    }

    fn given(&self, messages: &[&Message]) -> Option<Json> {
        Some(write_message(messages.first()?))
    }
}

fn is_libre(record: &Fields) -> bool {
    let has = |name: &str| json::field(record, name).is_some();
    has("conversationId") && has("messages") && (has("recursive") || has("branches"))
}

/// A `history` of conversations with messages.
fn is_chatbot(record: &Fields) -> bool {
    let history = json::field(record, "history").and_then(json::array);
    let first = history
        .as_deref()
        .and_then(<[Json]>::first)
        .and_then(json::object);
    first.is_some_and(|c| json::field(&c, "messages").is_some() && json::field(&c, "id").is_some())
}

fn read(pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
    let mut told = Vec::new();
    let mut notes = Story::new(FORMAT);
    for Piece { place, value, .. } in pieces {
        notes.at(&place);
        match value.map(|json| (json::object(&json), json)) {
            Err(damage) => notes.damaged(&place, damage),
            Ok((Some(record), _)) if is_libre(&record) => told.extend(libre(record, &place)),
            Ok((Some(mut record), _)) if is_chatbot(&record) => {
                let history = json::take_as(&mut record, "history", json::array);
                for conversation in history.unwrap_or_default() {
                    match json::object(&conversation) {
                        Some(fields) => told.push(chatbot(fields, &place)),
                        None => notes.noted("this is no conversation", Some(conversation), true),
                    }
                }
                notes.leftovers(&record);
            }
            Ok((_, json)) => notes.noted("this is no conversation", Some(json), true),
        }
    }
    notes.finish_into(&mut told);
    told
}

/// A conversation of LibreChat. Its options are the settings of its first call.
fn libre(mut record: Fields, place: &str) -> Vec<Transcript> {
    let id = json::text_field(&record, "conversationId");
    let messages = json::take_as(&mut record, "messages", json::array).unwrap_or_default();
    let options = json::take_as(&mut record, "options", json::object).unwrap_or_default();
    let mut notes = Story::new(FORMAT);
    notes.at(place);
    notes.leftovers(&record);
    let mut nodes: Vec<Node> = Vec::new();
    // The last one waiting is the next one read.
    let alone = |message| (message, None);
    let mut waiting: Vec<(Json, Option<String>)> = messages.into_iter().rev().map(alone).collect();
    while let Some((json, parent)) = waiting.pop() {
        match json::object(&json).and_then(|fields| node(fields, parent, place)) {
            Some((node, children)) => {
                let under = |child| (child, Some(node.id.clone()));
                waiting.extend(children.into_iter().rev().map(under));
                nodes.push(node);
            }
            None => notes.noted("a message without id or text", Some(json), true),
        }
    }
    let mut settings = Story::new(FORMAT);
    settings.configured(options);
    if let Some(first) = nodes.first_mut() {
        first.steps.splice(0..0, settings.finish().steps);
    }
    let mut told = tree::tell(FORMAT, id.as_deref(), nodes, None);
    notes.finish_on_first(&mut told);
    told
}

fn node(mut fields: Fields, parent: Option<String>, place: &str) -> Option<(Node, Vec<Json>)> {
    let id = json::text_field(&fields, "messageId")?;
    let text = json::take_as(&mut fields, "text", json::string)?;
    let children = json::take_as(&mut fields, "children", json::array).unwrap_or_default();
    let named = json::text_field(&fields, "parentMessageId").filter(|p| p != NO_PARENT);
    let truth = |name: &str| json::field(&fields, name).and_then(json::boolean);
    let person = truth("isCreatedByUser")?;
    let failed = truth("error") == Some(true) && !person;
    let model = json::text_field(&fields, "model");
    let at = json::field(&fields, "createdAt").and_then(instant);
    let mut story = Story::new(FORMAT);
    story.at(place);
    if !person {
        story.called(model);
    }
    if failed {
        // The front end's words about a call that failed; no model said them.
        story.returned(None, Some(text), fields, at);
    } else {
        let mut message = if person {
            Message::person(text)
        } else {
            Message::model(text)
        };
        message.source = Some(Source {
            format: FORMAT.to_owned(),
            id: Some(id.clone()),
            around: fields,
            verbatim: None,
        });
        story.messages(vec![message], at);
    }
    let (place, steps) = (place.to_owned(), story.finish().steps);
    let node = Node {
        id,
        parent: parent.or(named),
        place,
        steps,
    };
    Some((node, children))
}

/// A conversation of Chatbot-UI: messages as OpenAI chat has them, behind a prompt.
fn chatbot(mut record: Fields, place: &str) -> Transcript {
    let mut story = Story::new(FORMAT);
    story.at(place);
    let id = json::field(&record, "id").cloned();
    let id = id.map(|id| json::string(&id).unwrap_or_else(|| id.0.trim().to_owned()));
    story.identify(id.filter(|id| !id.is_empty()));
    let messages = json::take_as(&mut record, "messages", json::array).unwrap_or_default();
    let prompt = json::take_as(&mut record, "prompt", json::string);
    if let Some(prompt) = prompt.filter(|prompt| !prompt.is_empty()) {
        story.messages(vec![Message::system(prompt)], None);
    }
    for message in messages {
        match openai_chat::read_message(&message) {
            Some(read) => story.history(vec![read]),
            None => story.noted("a message that is no object", Some(message), true),
        }
    }
    story.leftovers(&record);
    story.finish()
}

/// A message of LibreChat without those that answer it, which are messages themselves.
fn write_message(message: &Message) -> Json {
    let mut out = json::Writer::default();
    out.text("text", &message.words());
    out.fields(&record::around(message)).finish()
}
