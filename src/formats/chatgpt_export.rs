//! `conversations.json` of a ChatGPT export: a record a conversation, whose `mapping` is a tree of
//! nodes. The path to `current_node` is the conversation, other branches are forks of it.
//!
//! * What an assistant says to a recipient other than `all` is a call of that tool. It has no id, so it
//!   goes by the id of its message, which the tool's nodes below it answer.
//! * Nodes without a message are links of the tree and nothing else.

use std::collections::HashMap;

use super::detect::{PieceReader, Sniff};
use super::input::Piece;
use super::record::{self, Story, instant};
use super::tree::{self, Node};
use super::{Transcript, json};
use crate::log::{
    Author, Block, BlockBody, Fields, Json, Media, Message, Part, PartBody, Role, Shape, Source,
};

/// The format's name.
pub const FORMAT: &str = "chatgpt-export";

/// The format.
pub(crate) struct ChatgptExport;

impl PieceReader for ChatgptExport {
    fn name(&self) -> &'static str {
        FORMAT
    }

    fn sniff(&self, record: &Fields) -> Sniff {
        let mapping = json::field(record, "mapping").and_then(json::object);
        let is_node = |node: &Json| {
            json::object(node).is_some_and(|node| json::field(&node, "parent").is_some())
        };
        Sniff::is(mapping.is_some_and(|nodes| nodes.iter().any(|(_, node)| is_node(node))))
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
    for Piece { place, value, .. } in pieces {
        notes.at(&place);
        match value.map(|json| (json::object(&json), json)) {
            Err(damage) => notes.damaged(&place, damage),
            Ok((Some(record), _)) if json::field(&record, "mapping").is_some() => {
                told.extend(conversation(record, &place));
            }
            Ok((_, json)) => notes.noted("a record without a 'mapping'", Some(json), true),
        }
    }
    notes.finish_into(&mut told);
    told
}

/// A conversation and its branches; what else its record says is noted on the main path.
fn conversation(mut record: Fields, place: &str) -> Vec<Transcript> {
    let mapping = json::take_as(&mut record, "mapping", json::object).unwrap_or_default();
    let id = ["conversation_id", "id"]
        .iter()
        .find_map(|name| json::text_field(&record, name));
    let leaf = json::text_field(&record, "current_node");
    let mut notes = Story::new(FORMAT);
    notes.at(place);
    notes.leftovers(&record);
    let mut links: Vec<Link> = Vec::new();
    for (id, node) in mapping {
        match json::object(&node) {
            Some(fields) => links.push(Link::read(id, fields)),
            None => notes.noted("a node that is no object", Some(node), true),
        }
    }
    order(&mut links);
    let calls = calls(&links);
    let nodes = links
        .into_iter()
        .map(|link| link.node(place, &calls))
        .collect();
    let mut told = tree::tell(FORMAT, id.as_deref(), nodes, leaf.as_deref());
    notes.finish_on_first(&mut told);
    told
}

/// A node of the mapping.
struct Link {
    id: String,
    parent: Option<String>,
    children: Vec<String>,
    message: Option<Fields>,
    /// Other fields of the node.
    rest: Fields,
}

impl Link {
    fn read(id: String, mut fields: Fields) -> Self {
        let parent = json::take_as(&mut fields, "parent", json::string);
        let children = json::take_as(&mut fields, "children", json::array).unwrap_or_default();
        let message = json::take_as(&mut fields, "message", json::object);
        fields.retain(|(name, _)| name != "id");
        Self {
            id,
            parent,
            children: children.iter().filter_map(json::string).collect(),
            message,
            rest: fields,
        }
    }

    fn text(&self, name: &str) -> Option<String> {
        json::text_field(self.message.as_ref()?, name)
    }

    fn role(&self) -> Option<String> {
        let author = json::field(self.message.as_ref()?, "author").and_then(json::object)?;
        json::text_field(&author, "role")
    }

    /// The tool that the model speaks to.
    fn called(&self) -> Option<String> {
        let to = self.text("recipient").filter(|to| to != "all")?;
        (self.role().as_deref() == Some("assistant")).then_some(to)
    }

    fn node(self, place: &str, calls: &HashMap<String, String>) -> Node {
        let mut story = Story::new(FORMAT);
        story.at(place);
        let called = self.called();
        let (id, parent) = (self.id, self.parent);
        if let Some(fields) = self.message {
            let whole = json::write_object(&fields);
            let slug = json::field(&fields, "metadata").and_then(json::object);
            let model = slug.and_then(|m| json::text_field(&m, "model_slug"));
            let at = json::field(&fields, "create_time").and_then(instant);
            let mut message = message(fields, &id, called.as_deref(), calls.get(&id));
            record::keep_whole(&mut message, &whole, write_message);
            if let Some(source) = message.source.as_mut().filter(|_| !self.rest.is_empty()) {
                source.around.extend(self.rest);
                source.verbatim = Some(whole);
            }
            if message.author == Author::Model {
                story.called(model);
            }
            story.messages(vec![message], at);
        }
        let (place, steps) = (place.to_owned(), story.finish().steps);
        Node {
            id,
            parent,
            place,
            steps,
        }
    }
}

/// Siblings in the order of their parent's list; the mapping itself has none.
fn order(links: &mut [Link]) {
    let mut places: HashMap<String, usize> = HashMap::new();
    for link in links.iter() {
        for (place, child) in link.children.iter().enumerate() {
            places.insert(child.clone(), place);
        }
    }
    links.sort_by_key(|link| places.get(&link.id).copied().unwrap_or(usize::MAX));
}

/// For each node of a tool the call it answers: the nearest one above it.
fn calls(links: &[Link]) -> HashMap<String, String> {
    let by_id: HashMap<&str, &Link> = links.iter().map(|link| (link.id.as_str(), link)).collect();
    let mut found: HashMap<String, String> = HashMap::new();
    let tools = links
        .iter()
        .filter(|link| link.role().as_deref() == Some("tool"));
    for tool in tools {
        // Only other results of the call stand between.
        let mut above = tool.parent.as_deref();
        let mut left = links.len();
        while let Some(link) = above.and_then(|id| by_id.get(id)).filter(|_| left > 0) {
            left = left.saturating_sub(1);
            if link.called().is_some() {
                found.insert(tool.id.clone(), link.id.clone());
                break;
            }
            if link.message.is_some() && link.role().as_deref() != Some("tool") {
                break;
            }
            above = link.parent.as_deref();
        }
    }
    found
}

fn message(
    mut fields: Fields,
    id: &str,
    called: Option<&str>,
    answers: Option<&String>,
) -> Message {
    let author = json::take_as(&mut fields, "author", json::object).unwrap_or_default();
    let role = json::text_field(&author, "role").unwrap_or_default();
    let content = json::take(&mut fields, "content");
    let inner = content.as_ref().and_then(json::object).unwrap_or_default();
    let kind = json::text_field(&inner, "content_type").unwrap_or_default();
    let (role, writer) = match role.as_str() {
        "assistant" => (Role::Assistant, Author::Model),
        "tool" => (Role::Tool, Author::Tool),
        "user" if kind == "user_editable_context" => (Role::User, Author::Application),
        "user" => (Role::User, Author::Person),
        other => (Role::from_name(other), Author::Application),
    };
    let blocks = blocks(&kind, inner, content);
    let parts = match (&role, called) {
        (Role::Assistant, Some(tool)) => vec![call(id, tool, &blocks)],
        (Role::Tool, _) => vec![result(&author, blocks, answers)],
        _ => blocks.into_iter().map(part).collect(),
    };
    let mut message = Message::new(role, writer, parts);
    let mut around: Fields = author
        .into_iter()
        .filter(|(name, _)| name != "role")
        .collect();
    if !around.is_empty() {
        around = vec![("author".to_owned(), json::write_object(&around))];
    }
    around.extend(fields.into_iter().filter(|(name, _)| name != "id"));
    message.source = Some(Source {
        format: FORMAT.to_owned(),
        id: Some(id.to_owned()),
        around,
        verbatim: None,
    });
    message
}

fn part(block: Block) -> Part {
    match block.body {
        BlockBody::Opaque(kind, whole) if kind == "thoughts" || kind == "reasoning_recap" => {
            let text = reasoning(&whole);
            Part {
                body: PartBody::Reasoning {
                    text,
                    signature: None,
                    encrypted: None,
                },
                extra: vec![("content".to_owned(), whole)],
            }
        }
        body => Part {
            body: PartBody::Block(body),
            extra: block.extra,
        },
    }
}

/// The words of `thoughts` and of what recalls them.
fn reasoning(whole: &Json) -> String {
    let fields = json::object(whole).unwrap_or_default();
    let thoughts = json::field(&fields, "thoughts").and_then(json::array);
    let told = |thought: &Json| {
        let fields = json::object(thought)?;
        json::text_field(&fields, "content").or_else(|| json::text_field(&fields, "summary"))
    };
    let told: Vec<String> = thoughts.iter().flatten().filter_map(told).collect();
    if told.is_empty() {
        return json::text_field(&fields, "content").unwrap_or_default();
    }
    told.join("\n\n")
}

/// What stands in a content of a kind that is text.
fn blocks(kind: &str, mut inner: Fields, content: Option<Json>) -> Vec<Block> {
    let field = match kind {
        "text" | "multimodal_text" => {
            let parts = json::field(&inner, "parts").and_then(json::array);
            return parts.unwrap_or_default().iter().map(block).collect();
        }
        "code" | "execution_output" | "tether_quote" | "system_error" => "text",
        "tether_browsing_display" => "result",
        _ => "",
    };
    match (json::take_as(&mut inner, field, json::string), content) {
        (Some(text), _) => vec![Block {
            body: BlockBody::Text(text),
            extra: inner,
        }],
        (None, Some(content)) => vec![Block {
            body: BlockBody::Opaque(kind.to_owned(), content),
            extra: Fields::new(),
        }],
        (None, None) => Vec::new(),
    }
}

/// An element of `parts`: words, or an object that points to a file.
fn block(part: &Json) -> Block {
    let fields = json::object(part).unwrap_or_default();
    let kind = json::text_field(&fields, "content_type").unwrap_or_default();
    let body = match (json::string(part), kind.as_str()) {
        (Some(text), _) => BlockBody::Text(text),
        (None, "image_asset_pointer") => BlockBody::Media(Media::Image, part.clone()),
        (None, "audio_asset_pointer") => BlockBody::Media(Media::Audio, part.clone()),
        (None, _) => BlockBody::Opaque(kind, part.clone()),
    };
    Block {
        body,
        extra: Fields::new(),
    }
}

fn call(id: &str, tool: &str, blocks: &[Block]) -> Part {
    let words = |block: &Block| match &block.body {
        BlockBody::Text(text) => text.clone(),
        BlockBody::Media(_, whole) | BlockBody::Opaque(_, whole) => whole.0.clone(),
    };
    let words: Vec<String> = blocks.iter().map(words).collect();
    let mut part = Part::call(id, tool, &words.join("\n"));
    part.extra = blocks
        .iter()
        .flat_map(|block| block.extra.clone())
        .collect();
    part
}

fn result(author: &Fields, content: Vec<Block>, answers: Option<&String>) -> Part {
    let shape = match content.as_slice() {
        [one] if matches!(one.body, BlockBody::Text(_)) && one.extra.is_empty() => Shape::Text,
        _ => Shape::List,
    };
    Part {
        body: PartBody::Result {
            call: answers.cloned(),
            name: json::text_field(author, "name"),
            content,
            shape,
            error: None,
            interim: false,
            native: None,
        },
        extra: Fields::new(),
    }
}

/// The message of a node, where its content is a text or parts; what has another content is kept whole.
fn write_message(message: &Message) -> Json {
    let around = record::around(message);
    let beside = json::field(&around, "author").and_then(json::object);
    let mut author = json::Writer::default();
    author.text("role", message.role.name());
    let author = author.fields(&beside.unwrap_or_default()).finish();
    let mut out = json::Writer::default();
    if let Some(id) = message
        .source
        .as_ref()
        .and_then(|source| source.id.as_ref())
    {
        out.text("id", id);
    }
    out.field("author", &author.0);
    out.field("content", &write_content(&message.parts).0);
    out.fields(&around).finish()
}

fn write_content(parts: &[Part]) -> Json {
    let result = |part: &Part| match &part.body {
        PartBody::Result { content, .. } => content.clone(),
        PartBody::Block(body) => vec![Block {
            body: body.clone(),
            extra: part.extra.clone(),
        }],
        _ => Vec::new(),
    };
    let blocks: Vec<Block> = parts.iter().flat_map(result).collect();
    let mut out = json::Writer::default();
    match blocks.as_slice() {
        [
            Block {
                body: BlockBody::Text(text),
                extra,
            },
        ] if !extra.is_empty() => out.text("text", text).fields(extra).finish(),
        blocks => {
            let mut words = true;
            let written: Vec<Json> = blocks
                .iter()
                .map(|block| match &block.body {
                    BlockBody::Text(text) => json::quoted(text),
                    BlockBody::Media(_, whole) | BlockBody::Opaque(_, whole) => {
                        words = false;
                        whole.clone()
                    }
                })
                .collect();
            out.text(
                "content_type",
                if words { "text" } else { "multimodal_text" },
            );
            out.field("parts", &json::write_array(&written).0).finish()
        }
    }
}
