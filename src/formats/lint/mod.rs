//! Which provider rules a request body breaks.
//!
//! Works on JSON alone and knows nothing of logs, windows or the writers, so that it can judge
//! them. The rules and where they are known from: `docs/PROVIDERS.md`.

mod anthropic;
mod bedrock;
mod gemini;
mod mistral;
mod openai_chat;
mod responses;

use serde_json::Value;

use super::{Problem, Profile};

/// Whose rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Rules {
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
}

impl From<Profile> for Rules {
    fn from(profile: Profile) -> Self {
        match profile {
            Profile::OpenAiChat => Self::OpenAiChat,
            Profile::Anthropic => Self::Anthropic,
        }
    }
}

/// The rules of a provider that a request body breaks, in the order of the body's messages. A hard
/// problem is one the provider refuses the request for.
#[must_use]
pub fn lint(rules: impl Into<Rules>, body: &Value) -> Vec<Problem> {
    let mut problems = match rules.into() {
        Rules::OpenAiChat => openai_chat::lint(body),
        Rules::OpenAiResponses => responses::lint(body),
        Rules::Anthropic => anthropic::lint(body),
        Rules::Bedrock => bedrock::lint(body),
        Rules::Gemini => gemini::lint(body),
        Rules::Mistral => mistral::lint(body),
    };
    problems.sort_by_key(|p| p.index);
    problems
}

fn hard(rule: &'static str, index: Option<usize>, message: impl Into<String>) -> Problem {
    Problem {
        rule,
        hard: true,
        message: message.into(),
        index,
    }
}

fn soft(rule: &'static str, index: Option<usize>, message: impl Into<String>) -> Problem {
    Problem {
        rule,
        hard: false,
        message: message.into(),
        index,
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    let list = value.get(field).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

/// The field of one of two spellings.
fn named<'a>(value: &'a Value, [one, other]: [&str; 2]) -> Option<&'a Value> {
    value.get(one).or_else(|| value.get(other))
}

fn blank(text: &str) -> bool {
    text.chars().all(char::is_whitespace)
}

/// The messages of a body; a problem of this rule where there are none.
fn messages<'a>(rule: &'static str, body: &'a Value) -> Result<&'a [Value], Vec<Problem>> {
    match body.get("messages").and_then(Value::as_array) {
        Some(list) if !list.is_empty() => Ok(list),
        _ => Err(vec![hard(
            rule,
            None,
            "'messages' must be a non-empty array",
        )]),
    }
}
