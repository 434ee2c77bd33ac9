//! Which format a file is of.

use super::input::Piece;
use super::json;
use crate::log::{Fields, Json};

/// A format that transcripts are read from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Format {
    /// OpenAI Chat Completions.
    OpenAiChat,
    /// Anthropic Messages.
    Anthropic,
    /// Sessions of Claude Code.
    ClaudeCode,
    /// ctxlog's own export.
    Ctxlog,
}

impl Format {
    /// Every member.
    pub const ALL: &'static [Self] = &[
        Self::OpenAiChat,
        Self::Anthropic,
        Self::ClaudeCode,
        Self::Ctxlog,
    ];

    /// The name people and tools see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenAiChat => super::openai_chat::FORMAT,
            Self::Anthropic => super::anthropic::FORMAT,
            Self::ClaudeCode => super::claude_code::FORMAT,
            Self::Ctxlog => "ctxlog",
        }
    }

    /// The format with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|f| f.name() == name)
    }
}

/// How many pieces are looked at before a file counts as unknown.
const ENOUGH: usize = 200;

/// The format of a file by the first of its pieces that shows one. Where pieces show messages that
/// both providers would write alike, it is `openai-chat`; `None` where nothing shows any format.
#[must_use]
pub fn detect(pieces: &[Piece]) -> Option<Format> {
    let mut plain = None;
    for piece in pieces.iter().take(ENOUGH) {
        let Some(fields) = piece.value.as_ref().ok().and_then(json::object) else {
            continue;
        };
        match sniff(&fields) {
            Sniff::Is(format) => return Some(format),
            Sniff::Plain => plain = Some(Format::OpenAiChat),
            Sniff::Unknown => {}
        }
    }
    plain
}

enum Sniff {
    Is(Format),
    /// Messages, of either provider.
    Plain,
    Unknown,
}

fn sniff(fields: &Fields) -> Sniff {
    let has = |name: &str| json::field(fields, name).is_some();
    let text = |name: &str| json::text_field(fields, name).unwrap_or_default();
    if text("schema").starts_with("ctxlog.") {
        return Sniff::Is(Format::Ctxlog);
    }
    if let Some(format) = named(&text("format"), &text("endpoint")) {
        return format;
    }
    let around = ["uuid", "sessionId", "leafUuid", "messageId", "parentUuid"];
    if has("type") && around.iter().any(|name| has(name)) {
        return Sniff::Is(Format::ClaudeCode);
    }
    if has("traj") || has("choices") {
        return Sniff::Is(Format::OpenAiChat);
    }
    let response = object(fields, "response").unwrap_or_default();
    if json::field(&response, "choices").is_some() {
        return Sniff::Is(Format::OpenAiChat);
    }
    if is_anthropic_answer(&response) || is_anthropic_answer(fields) {
        return Sniff::Is(Format::Anthropic);
    }
    if has("role") {
        return message(fields);
    }
    body(object(fields, "request").as_ref().unwrap_or(fields))
}

/// What a record says about itself.
fn named(format: &str, endpoint: &str) -> Option<Sniff> {
    let format = format.strip_suffix("-messages").unwrap_or(format);
    if let Some(known) = Format::from_name(format) {
        return Some(Sniff::Is(known));
    }
    if !format.is_empty() {
        return Some(Sniff::Unknown);
    }
    match endpoint {
        "" => None,
        _ if endpoint.ends_with("/chat/completions") => Some(Sniff::Is(Format::OpenAiChat)),
        _ if endpoint.ends_with("/v1/messages") => Some(Sniff::Is(Format::Anthropic)),
        _ => None,
    }
}

fn object(fields: &Fields, name: &str) -> Option<Fields> {
    json::object(json::field(fields, name)?)
}

fn is_anthropic_answer(fields: &Fields) -> bool {
    json::text_field(fields, "type").as_deref() == Some("message")
        && json::field(fields, "stop_reason").is_some()
}

fn body(request: &Fields) -> Sniff {
    let list = |name: &str| {
        json::field(request, name)
            .and_then(json::array)
            .unwrap_or_default()
    };
    let Some(messages) = json::field(request, "messages").and_then(json::array) else {
        return Sniff::Unknown;
    };
    if json::field(request, "system").is_some() {
        return Sniff::Is(Format::Anthropic);
    }
    for tool in list("tools").iter().filter_map(json::object) {
        if json::field(&tool, "input_schema").is_some() {
            return Sniff::Is(Format::Anthropic);
        }
        if json::field(&tool, "function").is_some() {
            return Sniff::Is(Format::OpenAiChat);
        }
    }
    let shown = messages
        .iter()
        .filter_map(json::object)
        .map(|m| message(&m));
    let mut plain = Sniff::Unknown;
    for sniffed in shown {
        match sniffed {
            Sniff::Is(_) => return sniffed,
            Sniff::Plain => plain = Sniff::Plain,
            Sniff::Unknown => {}
        }
    }
    plain
}

fn message(fields: &Fields) -> Sniff {
    let role = json::text_field(fields, "role").unwrap_or_default();
    let has = |name: &str| json::field(fields, name).is_some();
    if ["tool", "developer", "function"].contains(&role.as_str())
        || has("tool_calls")
        || has("function_call")
    {
        return Sniff::Is(Format::OpenAiChat);
    }
    let blocks = json::field(fields, "content")
        .and_then(json::array)
        .unwrap_or_default();
    let types = blocks.iter().filter_map(block_type);
    for kind in types {
        match kind.as_str() {
            "thinking" | "redacted_thinking" | "image" | "document" => {
                return Sniff::Is(Format::Anthropic);
            }
            // Also those of tools the provider runs, whose kinds are many.
            kind if kind.ends_with("tool_use") || kind.ends_with("tool_result") => {
                return Sniff::Is(Format::Anthropic);
            }
            "image_url" | "input_audio" | "file" => return Sniff::Is(Format::OpenAiChat),
            _ => {}
        }
    }
    match role.as_str() {
        "user" | "assistant" | "system" => Sniff::Plain,
        _ => Sniff::Unknown,
    }
}

fn block_type(block: &Json) -> Option<String> {
    json::text_field(&json::object(block)?, "type")
}
