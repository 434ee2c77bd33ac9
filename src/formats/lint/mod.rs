//! Which provider rules a request body breaks.
//!
//! Works on JSON alone and knows nothing of logs, windows or the writers, so that it can judge
//! them. The rules and where they are known from: `docs/PROVIDERS.md`.

mod anthropic;
mod bedrock;
mod gemini;
mod langchain;
mod mistral;
mod openai_chat;
mod responses;
mod vercel;

use serde_json::Value;

use super::{Problem, Profile};

/// The rules of a provider that a request body breaks, in the order of the body's messages. A hard
/// problem is one the provider refuses the request for.
#[must_use]
pub fn lint(profile: Profile, body: &Value) -> Vec<Problem> {
    let mut problems = match profile {
        Profile::OpenAiChat => openai_chat::lint(body),
        Profile::OpenAiResponses => responses::lint(body),
        Profile::Anthropic => anthropic::lint(body),
        Profile::Bedrock => bedrock::lint(body),
        Profile::Gemini => gemini::lint(body),
        Profile::Mistral => mistral::lint(body),
        Profile::LangChain => langchain::lint(body),
        Profile::VercelUi => vercel::lint(body),
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

/// The field of one of two spellings; null is none.
fn named<'a>(value: &'a Value, names: [&str; 2]) -> Option<&'a Value> {
    let mut found = names.iter().filter_map(|name| value.get(name));
    found.find(|field| !field.is_null())
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
