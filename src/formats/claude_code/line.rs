//! One line of a session file, as far as the reader looks into it.

use crate::formats::anthropic::usage;
use crate::formats::{Usage, json};
use crate::log::{Fields, Json, Micros};

/// A line: its fields in order, and those the reader decides by.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the marks a line has")]
pub(super) struct Line {
    file: String,
    /// Its number in the file, from 1.
    pub(super) number: u64,
    /// The whole line.
    pub(super) raw: Json,
    pub(super) fields: Fields,
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

impl Line {
    /// Reads a line; `None` when it is no JSON object.
    pub(super) fn read(file: &str, number: u64, raw: &Json) -> Option<Self> {
        let fields = json::object(raw)?;
        let kind = json::text_field(&fields, "type").unwrap_or_else(|| "untyped".to_owned());
        let message = object_at(&fields, "message");
        let reply = message
            .filter(|_| kind == "assistant")
            .map(|m| Reply::read(&m));
        let reply = reply.unwrap_or_default();
        let synthetic =
            reply.model.as_deref() == Some("<synthetic>") || flag(&fields, "isApiErrorMessage");
        Some(Self {
            file: file.to_owned(),
            number,
            raw: raw.clone(),
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

    /// All fields but the message, in order.
    pub(super) fn around(&self) -> Fields {
        let message = self.fields.iter().rposition(|(name, _)| name == "message");
        let others = self
            .fields
            .iter()
            .enumerate()
            .filter(|(i, _)| Some(*i) != message);
        others.map(|(_, field)| field.clone()).collect()
    }

    /// The fields of these names, in order.
    pub(super) fn pick(&self, names: &[&str]) -> Fields {
        self.fields
            .iter()
            .filter(|(name, _)| names.contains(&name.as_str()))
            .cloned()
            .collect()
    }

    /// The line of a sub-agent that a `progress` line tells of, with the call that started it; and
    /// this line without its words.
    pub(super) fn told(&self) -> Option<(Self, Option<String>, Json)> {
        let mut data = object_at(&self.fields, "data").filter(|_| self.kind == "progress")?;
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
        let line = Self::read(&self.file, self.number, &json::write_object(&inner))?;
        let mut rest = self.fields.clone();
        rest.retain(|(name, _)| name != "data");
        rest.push(("data".to_owned(), json::write_object(&data)));
        let call = call.and_then(json::string);
        Some((line, call, json::write_object(&rest)))
    }

    /// The sub-agent whose answer a line of results holds, and the call it answers.
    pub(super) fn answered(&self) -> Option<(String, String)> {
        let agent = json::text_field(&object_at(&self.fields, "toolUseResult")?, "agentId")?;
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
    fn read(message: &Fields) -> Self {
        let blocks = json::field(message, "content")
            .and_then(json::array)
            .unwrap_or_default();
        Self {
            id: json::text_field(message, "id"),
            model: json::text_field(message, "model"),
            usage: json::field(message, "usage").and_then(usage),
            calls: blocks.iter().filter_map(call_id).collect(),
        }
    }
}

fn call_id(block: &Json) -> Option<String> {
    let fields = json::object(block)?;
    let is_call = json::text_field(&fields, "type").as_deref() == Some("tool_use");
    if is_call {
        json::text_field(&fields, "id")
    } else {
        None
    }
}

fn object_at(fields: &Fields, name: &str) -> Option<Fields> {
    json::object(json::field(fields, name)?)
}

fn flag(fields: &Fields, name: &str) -> bool {
    json::field(fields, name).and_then(json::boolean) == Some(true)
}
