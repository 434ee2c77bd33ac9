//! What `codex exec --json` prints: an event a line. A command, a change of files or a tool of a
//! server is one item there, from its start to its end, and becomes a call and its result. The
//! stream does not hold what the person asked.

use std::collections::HashSet;

use super::Transcript;
use super::codex_rollout::usage;
use super::detect::{PieceReader, Sniff};
use super::input::Piece;
use super::json::{self, Writer};
use super::record::Story;
use crate::log::{
    Author, Block, BlockBody, Fields, Json, Message, Part, PartBody, Role, Shape, Source,
};

/// The format's name.
pub const FORMAT: &str = "codex-exec-stream";

/// The format.
pub(crate) struct CodexExecStream;

impl PieceReader for CodexExecStream {
    fn name(&self) -> &'static str {
        FORMAT
    }

    fn sniff(&self, record: &Fields) -> Sniff {
        let kind = json::text_field(record, "type").unwrap_or_default();
        let has = |name: &str| json::field(record, name).is_some();
        let event = match kind.as_str() {
            "thread.started" => has("thread_id"),
            "turn.completed" => has("usage"),
            "turn.failed" => has("error"),
            kind => kind.starts_with("item.") && has("item"),
        };
        Sniff::is(event)
    }

    fn read(&self, pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
        read(pieces)
    }
}

fn read(pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
    let mut told = Vec::new();
    let mut thread = Thread::new();
    for Piece { place, value, .. } in pieces {
        let event = match value {
            Ok(event) => event,
            Err(damage) => {
                thread.story.damaged(&place, damage);
                continue;
            }
        };
        let Some(fields) = json::object(&event) else {
            thread.story.at(&place);
            let what = "this is no record: not a JSON object";
            thread.story.noted(what, Some(event), true);
            continue;
        };
        if let Some(id) = json::text_field(&fields, "thread_id") {
            // Damage before the first thread belongs to it.
            if thread.begun {
                told.push(std::mem::replace(&mut thread, Thread::new()).story.finish());
            }
            thread.begun = true;
            thread.story.identify(Some(id));
        }
        thread.story.at(&place);
        thread.event(&event, fields);
    }
    if !thread.story.is_empty() {
        told.push(thread.story.finish());
    }
    told
}

struct Thread {
    story: Story,
    begun: bool,
    /// Whether the model was called in this turn.
    called: bool,
    /// The items that began and did not end.
    open: HashSet<String>,
}

impl Thread {
    fn new() -> Self {
        Self {
            story: Story::new(FORMAT),
            begun: false,
            called: false,
            open: HashSet::new(),
        }
    }

    fn event(&mut self, event: &Json, mut fields: Fields) {
        let kind = json::take_as(&mut fields, "type", json::string).unwrap_or_default();
        let item = json::take_as(&mut fields, "item", json::object);
        match (kind.as_str(), item) {
            ("item.started", Some(item)) if Tool::of(&item).is_some() => self.started(&item),
            ("item.completed", Some(item)) => self.completed(event, item),
            ("turn.completed", _) => {
                let usage = json::field(&fields, "usage").and_then(usage);
                self.returned(usage, None, fields);
            }
            ("turn.failed", _) => {
                let error = json::field(&fields, "error").and_then(json::object);
                let words = error.and_then(|error| json::text_field(&error, "message"));
                let words = words.unwrap_or_else(|| "the turn failed".to_owned());
                self.returned(None, Some(words), fields);
            }
            _ => {
                let warn = kind == "error" || kind.is_empty();
                self.story.noted(kind, Some(event.clone()), warn);
            }
        }
    }

    /// A turn is one or more calls; what it came to is told of the newest.
    fn returned(&mut self, usage: Option<super::Usage>, failure: Option<String>, rest: Fields) {
        if !self.called {
            self.story.called(None);
        }
        self.called = false;
        self.story.returned(usage, failure, rest, None);
    }

    fn started(&mut self, item: &Fields) {
        if let Some(tool) = Tool::of(item) {
            self.open.extend(tool.id.clone());
            self.said(vec![tool.call()], item, Fields::new());
        }
    }

    fn said(&mut self, parts: Vec<Part>, item: &Fields, extra: Fields) {
        self.called = true;
        let mut message = Message::new(Role::Assistant, Author::Model, parts);
        message.extra = extra;
        self.add(message, item);
    }

    fn add(&mut self, mut message: Message, item: &Fields) {
        message.source = Some(Source {
            format: FORMAT.to_owned(),
            id: json::text_field(item, "id"),
            ..Source::default()
        });
        self.story.item(message, None);
    }

    fn completed(&mut self, event: &Json, item: Fields) {
        if let Some(tool) = Tool::of(&item) {
            if !tool.id.as_ref().is_some_and(|id| self.open.remove(id)) {
                self.said(vec![tool.call()], &item, Fields::new());
            }
            let message = Message::new(Role::Tool, Author::Tool, vec![tool.result()]);
            return self.add(message, &item);
        }
        let kind = json::text_field(&item, "type").unwrap_or_default();
        let mut extra = item.clone();
        for known in ["id", "type"] {
            json::take(&mut extra, known);
        }
        let text = json::take_as(&mut extra, "text", json::string);
        match (kind.as_str(), text) {
            ("agent_message", Some(text)) => self.said(vec![Part::text(text)], &item, extra),
            ("reasoning", Some(text)) => {
                let body = PartBody::Reasoning {
                    text,
                    signature: None,
                    encrypted: None,
                };
                self.said(vec![Part { body, extra }], &item, Fields::new());
            }
            ("error" | "", _) => {
                self.story.noted(kind, Some(event.clone()), true);
            }
            _ => {
                let whole = json::write_object(&item);
                let body = PartBody::Block(BlockBody::Opaque(kind, whole));
                let extra = Fields::new();
                self.said(vec![Part { body, extra }], &item, Fields::new());
            }
        }
    }
}

/// An item that is a call and its result.
struct Tool {
    id: Option<String>,
    name: String,
    arguments: String,
    /// What is left of the item.
    rest: Fields,
}

impl Tool {
    fn of(item: &Fields) -> Option<Self> {
        let kind = json::text_field(item, "type")?;
        let mut rest = item.clone();
        json::take(&mut rest, "type");
        let id = json::take_as(&mut rest, "id", json::string);
        let given = |rest: &mut Fields, name: &str| {
            let mut out = Writer::default();
            if let Some(value) = json::take(rest, name) {
                out.field(name, &value.0);
            }
            out.finish().0
        };
        let (name, arguments) = match kind.as_str() {
            "command_execution" => (kind, given(&mut rest, "command")),
            "file_change" => (kind, given(&mut rest, "changes")),
            "mcp_tool_call" => {
                let name = json::take_as(&mut rest, "tool", json::string).unwrap_or(kind);
                let arguments = json::take(&mut rest, "arguments");
                (name, arguments.map(|json| json.0).unwrap_or_default())
            }
            _ => return None,
        };
        Some(Self {
            id,
            name,
            arguments,
            rest,
        })
    }

    fn call(&self) -> Part {
        let server = self.rest.iter().filter(|(name, _)| name == "server");
        Part {
            body: PartBody::Call {
                id: self.id.clone(),
                name: self.name.clone(),
                arguments: self.arguments.clone(),
                native: None,
            },
            extra: server.cloned().collect(),
        }
    }

    fn result(mut self) -> Part {
        let words = ["aggregated_output", "result"];
        let output = words
            .iter()
            .find_map(|name| json::take(&mut self.rest, name))
            .filter(|json| !json::is_null(json));
        let text = output.map(|json| json::string(&json).unwrap_or(json.0));
        let shape = match text {
            Some(_) => Shape::Text,
            None => Shape::Absent,
        };
        let block = |text| Block {
            body: BlockBody::Text(text),
            extra: Fields::new(),
        };
        let failed = json::text_field(&self.rest, "status").map(|status| status == "failed");
        Part {
            body: PartBody::Result {
                call: self.id,
                name: Some(self.name),
                content: text.map(block).into_iter().collect(),
                shape,
                error: failed,
                interim: false,
                native: None,
            },
            extra: self.rest,
        }
    }
}
