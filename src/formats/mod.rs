//! Transcripts in, request bodies out.
//!
//! A reader turns a transcript into [`Transcript`]s: the steps its conversation took, in source
//! order. A reader never guesses from text; what it cannot read becomes a note with file and line.
//! Steps are prefix-stable: a transcript of lines that grew begins with the steps it had before,
//! but for the note of an [`UNFINISHED`] last record.

pub mod adk_session;
pub mod agent_framework;
pub mod anthropic;
#[cfg(feature = "archives")]
pub mod archive;
mod attachment;
pub mod bedrock_converse;
mod blocks;
pub mod chatgpt_export;
pub mod claude_code;
pub mod codex_exec_stream;
pub mod codex_rollout;
mod detect;
mod dialect;
pub mod gemini_cli;
pub mod gemini_contents;
pub mod input;
pub mod inspect_log;
pub mod json;
pub mod langchain;
pub mod langgraph_checkpoints;
pub mod letta_af;
pub mod lint;
mod media;
pub mod mini_swe_traj;
pub mod mistral_chat;
pub mod oasst_tree;
pub mod openai_chat;
pub mod openai_responses;
pub mod openhands_events;
mod packed;
mod pair;
mod record;
mod render;
mod settings;
pub mod sharegpt;
pub mod sweagent_traj;
mod tree;
pub mod vercel_uimessages;
pub mod webui_export;
mod wire;

pub use detect::{Format, Reader, Sniff, detect};
pub use packed::{PackedSteps, PackedTranscript};
pub use render::{DEFAULT_MAX_TOKENS, RENDERER_VERSION, Rendered, render};

pub use crate::log::Usage;
use crate::log::skeleton::extent;
use crate::log::{BlockBody, Fields, Json, Message, Micros, Part, Role, Seq, Shape};
use serde::{Deserialize, Serialize};

/// The name of a field that readers add where a source has several spellings of one thing, so
/// that writing can choose the same again: the message field or role a part or message stood in.
/// Never written out.
pub const MARK: &str = "ctxlog:spelling";

/// What a note calls a last record that the file ends within: its writer may still be at work, and
/// it may read otherwise when the file has grown. It is the last step of its transcript, and not a
/// part of what a grown file begins with; importing tells it and files nothing for it.
pub const UNFINISHED: &str = "not complete: the file ends within this record";

pub(crate) fn mark(spelling: &str) -> (String, Json) {
    (MARK.to_owned(), json::quoted(spelling))
}

pub(crate) fn marked(extra: &Fields, spelling: &str) -> bool {
    json::text_field(extra, MARK).as_deref() == Some(spelling)
}

/// Fields without the [`MARK`] of a reader.
pub(crate) fn without_marks(extra: &Fields) -> Fields {
    let unmarked = extra.iter().filter(|(name, _)| name != MARK);
    unmarked.cloned().collect()
}

/// Writes messages that were one source message as one.
pub(crate) fn write_together(
    messages: &[&Message],
    write: impl FnOnce(&Role, &[&Part], Shape, &Fields) -> Json,
) -> Json {
    let first = messages.first();
    let role = first.map_or(&Role::User, |m| &m.role);
    let shape = first.map_or(Shape::List, |m| m.shape);
    let parts: Vec<&Part> = messages.iter().flat_map(|m| &m.parts).collect();
    let extra: Fields = messages.iter().flat_map(|m| m.extra.clone()).collect();
    write(role, &parts, shape, &extra)
}

/// A text as a value: itself where it is JSON and not nested deeper than bodies are read, else a
/// string of it.
pub(crate) fn value_or_text(text: &str) -> Json {
    match serde_json::from_str::<&serde_json::value::RawValue>(text) {
        Ok(_) if json::depth(text) <= json::MAX_DEPTH => Json(text.to_owned()),
        _ => json::quoted(text),
    }
}

/// A source message as its source gave it, from the messages that it became, as they were read: the
/// first of them names the source. `None` where they had no source, or their format does not keep
/// enough of it.
#[must_use]
pub fn given(messages: &[&Message]) -> Option<Json> {
    let source = messages.first()?.source.as_ref()?;
    match &source.verbatim {
        Some(whole) => Some(whole.clone()),
        None => Format::from_name(&source.format)?.given(messages),
    }
}

/// The names of the sub-agent that this message of a tool is the answer of, as its source has them.
#[must_use]
pub fn agents_of(result: &Message) -> Vec<String> {
    let format = result.source.as_ref().map(|source| source.format.as_str());
    let format = format.and_then(Format::from_name);
    format.map_or_else(Vec::new, |format| format.agents_of(result))
}

/// A block as both providers write it; media and opaque blocks are kept whole in their own terms.
pub(crate) fn write_block(body: &BlockBody, extra: &Fields) -> Json {
    match body {
        BlockBody::Text(text) => {
            let mut out = json::Writer::default();
            out.text("type", "text")
                .text("text", text)
                .fields(extra)
                .finish()
        }
        BlockBody::Media(_, whole) | BlockBody::Opaque(_, whole) => whole.clone(),
    }
}

/// A conversation as its source tells it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Transcript {
    /// The source format's name.
    pub format: &'static str,
    /// The record's own id in the source; names the conversation. `None` where the source has
    /// none, or none yet: a session file that holds only notes without a session.
    pub id: Option<String>,
    /// How it begins.
    pub begins: Begins,
    /// What happened, in source order.
    pub steps: Vec<Step>,
}

/// How a transcript begins, in terms of others: of the same file, which stand before it, or of files of
/// their own.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Begins {
    /// By itself.
    #[default]
    Own,
    /// As a branch of another: it has that one's first `shared` steps, and goes on by its own.
    Branch {
        /// The other's id.
        of: String,
        /// How many steps.
        shared: usize,
    },
    /// As a fork of another whose beginning its own file tells again. How much that is, the file does
    /// not say: it shares the messages that both begin with.
    Forked {
        /// The other's id.
        of: String,
    },
    /// By a tool call of another.
    Started {
        /// The other's id.
        by: String,
        /// Which call.
        call: Starter,
    },
}

impl Begins {
    /// The id of the other that it begins in.
    #[must_use]
    pub fn other(&self) -> Option<&str> {
        match self {
            Self::Own => None,
            Self::Branch { of, .. } | Self::Forked { of } => Some(of),
            Self::Started { by, .. } => Some(by),
        }
    }
}

/// The tool call that started a sub-agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Starter {
    /// The one with this id of the provider's.
    Call(String),
    /// The one whose result names the agent so ([`agents_of`]), in one of these ways.
    Agent(Vec<String>),
}

/// How a message hangs together with an earlier one. Numbers count a transcript's message steps
/// from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Link {
    /// It stands for itself.
    #[default]
    None,
    /// A later block of the same model message.
    Continues(usize),
    /// The words that stood after results in one source message.
    SameSource(usize),
}

/// One thing that happened in a transcript.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Step {
    /// The request settings of the calls from here on: every field of a request but the messages
    /// (for `anthropic` the system text is a message, not a setting).
    Configured {
        /// The model's name.
        model: Option<String>,
        /// The fields, in source order.
        settings: Fields,
    },
    /// A message was added.
    Message {
        /// The message.
        message: Message,
        /// Its time, where the source has one.
        at: Option<Micros>,
        /// How it hangs together with an earlier one.
        link: Link,
    },
    /// The model was called with the window as it stands.
    Called {
        /// The model's name, where the source says it at the call.
        model: Option<String>,
        /// Its time.
        at: Option<Micros>,
    },
    /// What came back from the newest call, beside its messages.
    Returned {
        /// Usage as the provider gave it.
        usage: Option<Usage>,
        /// The failure in the provider's words; a failed call has no answer.
        failure: Option<String>,
        /// The answer's other fields, in source order.
        rest: Fields,
        /// Its time.
        at: Option<Micros>,
    },
    /// The source replaced all that stood before by a summary.
    Compacted {
        /// The summary; its author is the application.
        summary: Message,
        /// What the source says about it.
        rest: Fields,
        /// Its time.
        at: Option<Micros>,
    },
    /// The source cleared the results of these calls (newest occurrence of each id).
    Cleared {
        /// Provider ids of the calls.
        calls: Vec<String>,
        /// The text that stands in their place.
        marker: String,
        /// Its time.
        at: Option<Micros>,
    },
    /// The source went back: these messages (message-step numbers) are no longer on its path.
    Rewound {
        /// The messages that left.
        gone: Vec<usize>,
        /// Its time.
        at: Option<Micros>,
    },
    /// Something that is not conversation; kept.
    Noted {
        /// What it is: the source's own type, or what is wrong with it.
        what: String,
        /// Where: `file:line`.
        place: String,
        /// The source's text. Damaged input is kept as a JSON string.
        content: Option<Json>,
        /// Its time.
        at: Option<Micros>,
        /// Whether a person should be told (damage, loss), or it is routine.
        warn: bool,
    },
}

impl Step {
    /// Whether it is the note of an [`UNFINISHED`] last record.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        matches!(self, Self::Noted { what, .. } if what == UNFINISHED)
    }

    /// The largest of what a store would have to take in one piece, in bytes.
    pub(crate) fn largest(&self) -> usize {
        match self {
            Self::Message { message, .. }
            | Self::Compacted {
                summary: message, ..
            } => {
                let (longest, inline) = extent(message);
                longest.max(inline)
            }
            Self::Configured { settings: rest, .. } | Self::Returned { rest, .. } => {
                let sizes = rest
                    .iter()
                    .map(|(name, json)| name.len().saturating_add(json.0.len()));
                sizes.fold(0, usize::saturating_add)
            }
            Self::Noted { content, .. } => content.as_ref().map_or(0, |c| c.0.len()),
            Self::Called { .. } | Self::Cleared { .. } | Self::Rewound { .. } => 0,
        }
    }
}

/// A provider, or a framework, whose rules a request body obeys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Profile {
    /// OpenAI Chat Completions.
    OpenAiChat,
    /// OpenAI Responses.
    OpenAiResponses,
    /// Anthropic Messages.
    Anthropic,
    /// Bedrock's Converse.
    Bedrock,
    /// Gemini's generateContent.
    Gemini,
    /// Mistral's chat completions.
    Mistral,
    /// Messages of `LangChain`, under the rules of `LangGraph`'s agents.
    LangChain,
    /// UI messages of the AI SDK.
    VercelUi,
}

impl Profile {
    /// Every member.
    pub const ALL: &'static [Self] = &[
        Self::OpenAiChat,
        Self::OpenAiResponses,
        Self::Anthropic,
        Self::Bedrock,
        Self::Gemini,
        Self::Mistral,
        Self::LangChain,
        Self::VercelUi,
    ];
}

/// A message of a window, as rendering sees it.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The seq of the entry that introduced it.
    pub seq: Seq,
    /// Its present content.
    pub message: &'a Message,
    /// The message it continues, if it does.
    pub continues: Option<Seq>,
    /// The message it shared one source message with, if it did.
    pub same_source: Option<Seq>,
    /// Per part: the call (message seq, part position) that a result part answers; `None` for
    /// parts that are no results and for results without a call. Decided at append; ids are labels.
    pub answers: &'a [Option<(Seq, u32)>],
}

/// Something rendering changed so that the provider's rules hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Repair {
    /// The rule (`C3`, `A4`, … of `docs/PROVIDERS.md`).
    pub rule: &'static str,
    /// What was done, in one sentence.
    pub message: String,
    /// The message it was done to.
    pub seq: Option<Seq>,
}

/// A broken provider rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The rule (`C3`, `A4`, … of `docs/PROVIDERS.md`).
    pub rule: &'static str,
    /// Whether the provider refuses the request for it; else it depends on model and endpoint.
    pub hard: bool,
    /// What is wrong, in one sentence.
    pub message: String,
    /// The place in the body's list of messages.
    pub index: Option<usize>,
}
