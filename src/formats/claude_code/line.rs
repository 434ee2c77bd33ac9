//! One line of a session file, as far as the reader looks into it.

use std::rc::Rc;

use super::FORMAT;
use crate::formats::anthropic::{read_message, usage};
use crate::formats::{Usage, json};
use crate::log::{Author, BlockBody, Fields, Json, Message, Micros, Part, PartBody};

/// A line: its fields in order, and those the reader decides by.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the marks a line has")]
pub(super) struct Line<'a> {
    file: Rc<str>,
    /// Its number in the file, from 1.
    pub(super) number: u64,
    /// The whole line.
    raw: &'a str,
    fields: Fields,
    /// What its message was read as, without what the line says of it.
    read: Option<Vec<Message>>,
    pub(super) kind: String,
    pub(super) subtype: Option<String>,
    pub(super) uuid: Option<String>,
    /// `parentUuid`, or `logicalParentUuid` where a compaction set that to null.
    pub(super) parent: Option<String>,
    pub(super) session: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) sidechain: bool,
    pub(super) meta: bool,
    pub(super) summary: bool,
    /// The client wrote it in the model's place.
    pub(super) synthetic: bool,
    pub(super) at: Option<Micros>,
    pub(super) reply: Reply,
}

/// What an assistant line says about the API message it is a block of.
#[derive(Debug, Default)]
pub(super) struct Reply {
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    pub(super) usage: Option<Usage>,
    /// Ids of the calls in it.
    pub(super) calls: Vec<String>,
}

impl<'a> Line<'a> {
    /// Reads a line; `None` when it is no JSON object.
    pub(super) fn read(file: &Rc<str>, number: u64, raw: &'a str) -> Option<Self> {
        let fields = json::object_in(raw)?;
        let kind = json::text_field(&fields, "type").unwrap_or_else(|| "untyped".to_owned());
        let read = json::field(&fields, "message").and_then(|m| read_message(m, FORMAT));
        let reply = read.as_deref().filter(|_| kind == "assistant");
        let reply = reply.map(Reply::of).unwrap_or_default();
        let synthetic =
            reply.model.as_deref() == Some("<synthetic>") || flag(&fields, "isApiErrorMessage");
        Some(Self {
            file: Rc::clone(file),
            number,
            raw,
            read,
            subtype: json::text_field(&fields, "subtype"),
            uuid: json::text_field(&fields, "uuid"),
            parent: json::text_field(&fields, "parentUuid")
                .or_else(|| json::text_field(&fields, "logicalParentUuid")),
            session: json::text_field(&fields, "sessionId"),
            agent: json::text_field(&fields, "agentId"),
            sidechain: flag(&fields, "isSidechain"),
            meta: flag(&fields, "isMeta"),
            summary: flag(&fields, "isCompactSummary"),
            at: json::text_field(&fields, "timestamp").and_then(|t| Micros::parse(&t)),
            synthetic,
            kind,
            reply,
            fields,
        })
    }

    /// The whole line, as it is kept.
    pub(super) fn whole(&self) -> Json {
        Json(self.raw.to_owned())
    }

    /// The line's messages with their authors and source; `None` when it holds none. They take the
    /// line's fields with them.
    pub(super) fn take_messages(&mut self) -> Option<Vec<Message>> {
        let mut messages = self.read.take()?;
        json::take(&mut self.fields, "message");
        for message in &mut messages {
            message.author = self.author(message.author);
            let source = message.source.get_or_insert_default();
            source.id.clone_from(&self.uuid);
            source.around = std::mem::take(&mut self.fields);
        }
        Some(messages)
    }

    /// The author by the line's marks. What stands on a line that is neither a user's nor an
    /// assistant's was put there by the client.
    fn author(&self, author: Author) -> Author {
        let by_client = self.meta || self.summary || self.synthetic || !self.is_turn();
        match author {
            Author::Person | Author::Model if by_client => Author::Application,
            other => other,
        }
    }

    /// `file:line`.
    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.file, self.number)
    }

    /// Whether it is a turn of the conversation by its type.
    pub(super) fn is_turn(&self) -> bool {
        matches!(self.kind.as_str(), "user" | "assistant")
    }

    /// What a note about this line calls it.
    pub(super) fn what(&self) -> String {
        match &self.subtype {
            Some(subtype) => format!("{}/{subtype}", self.kind),
            None => self.kind.clone(),
        }
    }

    /// The line's message, unless it has none or null.
    pub(super) fn message(&self) -> Option<&Json> {
        json::field(&self.fields, "message").filter(|message| !json::is_null(message))
    }

    /// The fields of these names, in order.
    pub(super) fn pick(&self, names: &[&str]) -> Fields {
        self.fields
            .iter()
            .filter(|(name, _)| names.contains(&name.as_str()))
            .cloned()
            .collect()
    }

    /// The line of a sub-agent that a `progress` line tells of, as text, with the call that started it;
    /// and this line without its words.
    pub(super) fn told(&self) -> Option<(Json, Option<String>, Json)> {
        let data = json::field(&self.fields, "data").filter(|_| self.kind == "progress")?;
        let mut data = json::object(data)?;
        let told = json::text_field(&data, "type").as_deref() == Some("agent_progress");
        let mut inner = json::take_as(&mut data, "message", json::object).filter(|_| told)?;
        let agent = json::field(&data, "agentId");
        let call = json::field(&self.fields, "parentToolUseID");
        let around = [
            ("sessionId", json::field(&self.fields, "sessionId")),
            ("agentId", agent.or(call)),
            ("isSidechain", Some(&Json("true".to_owned()))),
        ];
        for (name, value) in around {
            inner.retain(|(known, _)| known != name);
            inner.extend(value.map(|value| (name.to_owned(), value.clone())));
        }
        let line = json::write_object(&inner);
        let mut rest = self.fields.clone();
        rest.retain(|(name, _)| name != "data");
        rest.push(("data".to_owned(), json::write_object(&data)));
        let call = call.and_then(json::string);
        Some((line, call, json::write_object(&rest)))
    }

    /// The sub-agent whose answer a line of results holds, and the call it answers.
    pub(super) fn answered(&self) -> Option<(String, String)> {
        let result = json::field(&self.fields, "toolUseResult")?;
        // Most results are long and name none: a name is spelled so, or with escapes.
        if !result.0.contains("agentId") && !result.0.contains("\\u") {
            return None;
        }
        let agent = json::text_field(&json::object(result)?, "agentId")?;
        let message = json::object(self.message()?)?;
        let blocks = json::field(&message, "content").and_then(json::array)?;
        let call = |block: &Json| json::text_field(&json::object(block)?, "tool_use_id");
        Some((agent, blocks.iter().find_map(call)?))
    }

    /// The calls whose results a `microcompact_boundary` cleared.
    pub(super) fn cleared_calls(&self) -> Option<Vec<String>> {
        let metadata = object_at(&self.fields, "microcompactMetadata")?;
        let ids = json::array(json::field(&metadata, "compactedToolIds")?)?;
        ids.iter().map(json::string).collect()
    }
}

impl Reply {
    /// What messages say that one API message was read as: the first has the fields that stood beside
    /// its content.
    fn of(messages: &[Message]) -> Self {
        let Some(Message { extra: fields, .. }) = messages.first() else {
            return Self::default();
        };
        let parts = messages.iter().flat_map(|m| &m.parts);
        Self {
            id: json::text_field(fields, "id"),
            model: json::text_field(fields, "model"),
            usage: json::field(fields, "usage").and_then(usage),
            calls: parts.filter_map(call_id).collect(),
        }
    }
}

fn call_id(part: &Part) -> Option<String> {
    match &part.body {
        PartBody::Call {
            id, native: None, ..
        } => id.clone(),
        // A call without a name has an id all the same.
        PartBody::Block(BlockBody::Opaque(kind, block)) if kind == "tool_use" => {
            json::text_field(&json::object(block)?, "id")
        }
        _ => None,
    }
}

fn object_at(fields: &Fields, name: &str) -> Option<Fields> {
    json::object(json::field(fields, name)?)
}

fn flag(fields: &Fields, name: &str) -> bool {
    json::field(fields, name).and_then(json::boolean) == Some(true)
}
