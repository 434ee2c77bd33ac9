//! Which format a file is of.

use std::io::{self, BufRead};

use super::input::{Piece, pieces};
use super::json;
use super::{
    PackedTranscript, Transcript, adk_session, agent_framework, anthropic, bedrock_converse,
    chatgpt_export, claude_code, codex_exec_stream, codex_rollout, gemini_cli, gemini_contents,
    inspect_log, langchain, langgraph_checkpoints, letta_af, mini_swe_traj, mistral_chat,
    oasst_tree, openai_chat, openai_responses, openhands_events, sharegpt, sweagent_traj,
    vercel_uimessages, webui_export,
};
use crate::log::{Fields, Json, Message};

/// How sure a record makes that its file is of a format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Sniff {
    /// It shows nothing of the kind.
    No,
    /// It may be, and may be of another.
    Maybe,
    /// It is.
    Is,
}

impl Sniff {
    pub(crate) const fn is(sure: bool) -> Self {
        if sure { Self::Is } else { Self::No }
    }
}

/// A format that transcripts are read from.
pub trait Reader: Sync {
    /// The name people and tools see.
    fn name(&self) -> &'static str;

    /// What a record shows, a JSON object that stands alone in the file or in its one array.
    fn sniff(&self, record: &Fields) -> Sniff;

    /// Reads a file called `name`, whose records may have up to `limit` bytes. What cannot be read
    /// becomes a note.
    ///
    /// # Errors
    /// When `input` cannot be read.
    fn read(
        &self,
        input: &mut dyn BufRead,
        name: &str,
        limit: usize,
    ) -> io::Result<Vec<Transcript>>;

    /// The same, packed: for files that are long.
    ///
    /// # Errors
    /// As [`Reader::read`].
    fn packed(
        &self,
        input: &mut dyn BufRead,
        name: &str,
        limit: usize,
    ) -> io::Result<Vec<PackedTranscript>> {
        let read = self.read(input, name, limit)?;
        Ok(read.into_iter().map(PackedTranscript::from).collect())
    }

    /// A source message as the source gave it, from the messages that it became, as they were read.
    /// `None` where they do not keep enough.
    fn given(&self, _messages: &[&Message]) -> Option<Json> {
        None
    }

    /// The names of the sub-agent that a message of a tool is the answer of, where a sub-agent in a file
    /// of its own is told by them ([`Starter::Agent`](super::Starter::Agent)).
    fn agents_of(&self, _result: &Message) -> Vec<String> {
        Vec::new()
    }
}

/// A format whose records are JSON values that stand by themselves, whatever stands between them.
pub(crate) trait PieceReader: Sync {
    /// As [`Reader::name`].
    fn name(&self) -> &'static str;

    /// As [`Reader::sniff`].
    fn sniff(&self, record: &Fields) -> Sniff;

    /// Reads the pieces of a file. What cannot be read becomes a note.
    fn read(&self, pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript>;

    /// As [`Reader::given`].
    fn given(&self, _messages: &[&Message]) -> Option<Json> {
        None
    }

    /// As [`Reader::agents_of`].
    fn agents_of(&self, _result: &Message) -> Vec<String> {
        Vec::new()
    }
}

impl<T: PieceReader> Reader for T {
    fn name(&self) -> &'static str {
        PieceReader::name(self)
    }

    fn sniff(&self, record: &Fields) -> Sniff {
        PieceReader::sniff(self, record)
    }

    fn read(
        &self,
        input: &mut dyn BufRead,
        name: &str,
        limit: usize,
    ) -> io::Result<Vec<Transcript>> {
        let mut failed = None;
        let mut whole = pieces(input, name, limit).map_while(|piece| match piece {
            Ok(piece) => Some(piece),
            Err(error) => {
                failed = Some(error);
                None
            }
        });
        let read = PieceReader::read(self, &mut whole);
        drop(whole);
        failed.map_or(Ok(read), Err)
    }

    fn given(&self, messages: &[&Message]) -> Option<Json> {
        PieceReader::given(self, messages)
    }

    fn agents_of(&self, result: &Message) -> Vec<String> {
        PieceReader::agents_of(self, result)
    }
}

/// All formats. Where a record shows several, the first that is sure has it; so those that others
/// are made of stand last.
const READERS: &[&dyn Reader] = &[
    &claude_code::ClaudeCode,
    &codex_rollout::CodexRollout,
    &codex_exec_stream::CodexExecStream,
    &oasst_tree::OasstTree,
    &chatgpt_export::ChatgptExport,
    &webui_export::WebuiExport,
    &agent_framework::AgentFramework,
    &inspect_log::InspectLog,
    &mini_swe_traj::MiniSweTraj,
    &sweagent_traj::SweagentTraj,
    &sharegpt::ShareGpt,
    &mistral_chat::MistralChat,
    &openai_responses::OpenAiResponses,
    &gemini_cli::GeminiCli,
    &adk_session::AdkSession,
    &openhands_events::OpenHandsEvents,
    &letta_af::LettaAf,
    &langgraph_checkpoints::LangGraphCheckpoints,
    &langchain::LangChain,
    &vercel_uimessages::VercelUiMessages,
    &gemini_contents::GeminiContents,
    &bedrock_converse::BedrockConverse,
    &anthropic::Anthropic,
    &openai_chat::OpenAiChat,
];

/// One of the formats that transcripts are read from.
#[derive(Clone, Copy)]
pub struct Format(&'static dyn Reader);

impl Format {
    /// Every format.
    pub fn all() -> impl Iterator<Item = Self> {
        READERS.iter().copied().map(Self)
    }

    /// The name people and tools see.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// The format with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|f| f.name() == name)
    }

    /// Reads a file called `name`, whose records may have up to `limit` bytes
    /// ([`RECORD_LIMIT`](super::input::RECORD_LIMIT) where the caller has no other wish). What
    /// cannot be read becomes a note.
    ///
    /// # Errors
    /// When `input` cannot be read.
    pub fn read(
        self,
        input: &mut dyn BufRead,
        name: &str,
        limit: usize,
    ) -> io::Result<Vec<Transcript>> {
        self.0.read(input, name, limit)
    }

    /// As [`Format::read`], packed: what is to be imported need not be held as steps beside its log.
    ///
    /// # Errors
    /// When `input` cannot be read.
    pub fn packed(
        self,
        input: &mut dyn BufRead,
        name: &str,
        limit: usize,
    ) -> io::Result<Vec<PackedTranscript>> {
        self.0.packed(input, name, limit)
    }

    pub(super) fn given(self, messages: &[&Message]) -> Option<Json> {
        self.0.given(messages)
    }

    pub(super) fn agents_of(self, result: &Message) -> Vec<String> {
        self.0.agents_of(result)
    }
}

impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Format {}

impl std::fmt::Debug for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// How many pieces are looked at before a file counts as unknown.
const ENOUGH: usize = 200;

/// The format of a file by the first of its pieces that shows one for sure, else the first that one
/// may be of. `None` where nothing shows any format.
#[must_use]
pub fn detect(pieces: &[Piece]) -> Option<Format> {
    let mut maybe = None;
    for piece in pieces.iter().take(ENOUGH) {
        let Some(record) = piece.value.as_ref().ok().and_then(json::object) else {
            continue;
        };
        let named = json::text_field(&record, "format").unwrap_or_default();
        let named = named.strip_suffix("-messages").unwrap_or(&named);
        if let Some(format) = Format::from_name(named) {
            return Some(format);
        }
        if named.contains('-') {
            continue; // of a format that is not known here
        }
        for format in Format::all() {
            match format.0.sniff(&record) {
                Sniff::Is => return Some(format),
                Sniff::Maybe => maybe = maybe.or(Some(format)),
                Sniff::No => {}
            }
        }
    }
    maybe
}

/// Which of the two wire shapes with `messages` a record is of.
pub(crate) enum Shown {
    OpenAi,
    Anthropic,
    /// Messages that both would write alike.
    Plain,
    Unknown,
}

pub(crate) fn shown(fields: &Fields) -> Shown {
    let has = |name: &str| json::field(fields, name).is_some();
    let endpoint = json::text_field(fields, "endpoint").unwrap_or_default();
    if endpoint.ends_with("/chat/completions") {
        return Shown::OpenAi;
    }
    if endpoint.ends_with("/v1/messages") {
        return Shown::Anthropic;
    }
    if has("traj") || has("choices") {
        return Shown::OpenAi;
    }
    let response = object(fields, "response").unwrap_or_default();
    if json::field(&response, "choices").is_some() {
        return Shown::OpenAi;
    }
    if is_anthropic_answer(&response) || is_anthropic_answer(fields) {
        return Shown::Anthropic;
    }
    if has("role") {
        return message(fields);
    }
    body(object(fields, "request").as_ref().unwrap_or(fields))
}

fn object(fields: &Fields, name: &str) -> Option<Fields> {
    json::object(json::field(fields, name)?)
}

fn is_anthropic_answer(fields: &Fields) -> bool {
    json::text_field(fields, "type").as_deref() == Some("message")
        && json::field(fields, "stop_reason").is_some()
}

fn body(request: &Fields) -> Shown {
    let list = |name: &str| {
        json::field(request, name)
            .and_then(json::array)
            .unwrap_or_default()
    };
    let Some(messages) = json::field(request, "messages").and_then(json::array) else {
        return Shown::Unknown;
    };
    if json::field(request, "system").is_some() {
        return Shown::Anthropic;
    }
    for tool in list("tools").iter().filter_map(json::object) {
        if json::field(&tool, "input_schema").is_some() {
            return Shown::Anthropic;
        }
        if json::field(&tool, "function").is_some() {
            return Shown::OpenAi;
        }
    }
    let mut plain = Shown::Unknown;
    for fields in messages.iter().filter_map(json::object) {
        match message(&fields) {
            Shown::Plain => plain = Shown::Plain,
            Shown::Unknown => {}
            sure => return sure,
        }
    }
    plain
}

fn message(fields: &Fields) -> Shown {
    let role = json::text_field(fields, "role").unwrap_or_default();
    let has = |name: &str| json::field(fields, name).is_some();
    if ["tool", "developer", "function"].contains(&role.as_str())
        || has("tool_calls")
        || has("function_call")
    {
        return Shown::OpenAi;
    }
    let blocks = json::field(fields, "content")
        .and_then(json::array)
        .unwrap_or_default();
    let types = blocks.iter().filter_map(block_type);
    for kind in types {
        match kind.as_str() {
            "thinking" | "redacted_thinking" | "image" | "document" => {
                return Shown::Anthropic;
            }
            // Also those of tools the provider runs, whose kinds are many.
            kind if kind.ends_with("tool_use") || kind.ends_with("tool_result") => {
                return Shown::Anthropic;
            }
            "image_url" | "input_audio" | "file" => return Shown::OpenAi,
            _ => {}
        }
    }
    match role.as_str() {
        "user" | "assistant" | "system" => Shown::Plain,
        _ => Shown::Unknown,
    }
}

fn block_type(block: &Json) -> Option<String> {
    json::text_field(&json::object(block)?, "type")
}
