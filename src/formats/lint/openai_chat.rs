//! The rules of OpenAI Chat Completions.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{hard, messages, soft, text};
use crate::formats::Problem;

const ROLES: [&str; 6] = [
    "system",
    "developer",
    "user",
    "assistant",
    "tool",
    "function",
];

pub(super) fn lint(body: &Value) -> Vec<Problem> {
    let messages = match messages("C1", body) {
        Ok(messages) => messages,
        Err(problems) => return problems,
    };
    let mut problems = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        shape(index, message, &mut problems);
        model_dependent(index, message, text(body, "model"), &mut problems);
    }
    pairing(messages, &mut problems);
    problems
}

fn shape(index: usize, message: &Value, problems: &mut Vec<Problem>) {
    let mut broken = |rule, what: String| problems.push(hard(rule, Some(index), what));
    let role = text(message, "role");
    if !ROLES.contains(&role) {
        return broken("C2", format!("'{role}' is no role"));
    }
    let calls = message.get("tool_calls").filter(|calls| !calls.is_null());
    if calls.is_some_and(|calls| calls.as_array().is_none_or(Vec::is_empty)) {
        broken("C6", "'tool_calls' is not a non-empty array".to_owned());
    }
    let content = message.get("content").unwrap_or(&Value::Null);
    match role {
        "assistant" if content.is_null() && says_nothing(message) => {
            broken(
                "C7",
                "an assistant message without calls needs content".to_owned(),
            );
        }
        "system" | "developer" | "user" if !is_content(content) => {
            broken(
                "C8",
                "content must be a string or a non-empty array".to_owned(),
            );
        }
        _ => {}
    }
    for call in calls_of(message) {
        let custom = text(call, "type") == "custom";
        let (field, arguments) = if custom {
            ("custom", "input")
        } else {
            ("function", "arguments")
        };
        let given = call.get(field).and_then(|f| f.get(arguments));
        if !given.is_some_and(Value::is_string) {
            broken(
                "C9",
                format!(
                    "the {arguments} of call '{}' are no string",
                    text(call, "id")
                ),
            );
        }
    }
}

fn says_nothing(assistant: &Value) -> bool {
    ["tool_calls", "function_call", "refusal", "audio"]
        .iter()
        .all(|field| assistant.get(field).is_none_or(Value::is_null))
}

fn is_content(content: &Value) -> bool {
    content.is_string() || content.as_array().is_some_and(|blocks| !blocks.is_empty())
}

fn calls_of(message: &Value) -> &[Value] {
    message
        .get("tool_calls")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// C10: what only some models take.
fn model_dependent(index: usize, message: &Value, model: &str, problems: &mut Vec<Problem>) {
    let role = text(message, "role");
    let refuses = ["o1-mini", "o1-preview"]
        .iter()
        .any(|m| model.starts_with(m));
    if refuses && ["system", "developer"].contains(&role) {
        let what = format!("{model} takes no message of role {role}");
        problems.push(soft("C10", Some(index), what));
    }
    let blocks = message
        .get("content")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    for kind in blocks.iter().map(|b| text(b, "type")) {
        if ["input_audio", "file", "video_url"].contains(&kind) {
            let what = format!("only some models take content of type {kind}");
            problems.push(soft("C10", Some(index), what));
        }
    }
}

/// C3, C4, C5: calls and their results.
fn pairing(messages: &[Value], problems: &mut Vec<Problem>) {
    let mut open: BTreeSet<&str> = BTreeSet::new();
    let mut answered: BTreeSet<&str> = BTreeSet::new();
    let mut caller = 0;
    for (index, message) in messages.iter().enumerate() {
        if text(message, "role") == "tool" {
            let id = text(message, "tool_call_id");
            if open.remove(id) {
                answered.insert(id);
            } else if answered.contains(id) {
                problems.push(hard(
                    "C5",
                    Some(index),
                    format!("a second result of call '{id}'"),
                ));
            } else {
                let what = format!("the result of '{id}' follows no such call");
                problems.push(hard("C4", Some(index), what));
            }
            continue;
        }
        unanswered(caller, &open, problems);
        open.clear();
        answered.clear();
        if text(message, "role") == "assistant" {
            caller = index;
            for id in calls_of(message).iter().map(|call| text(call, "id")) {
                if id.is_empty() || !open.insert(id) {
                    let what = format!("call id '{id}' is missing or not unique");
                    problems.push(hard("C5", Some(index), what));
                }
            }
        }
    }
    unanswered(caller, &open, problems);
}

fn unanswered(caller: usize, open: &BTreeSet<&str>, problems: &mut Vec<Problem>) {
    for id in open {
        let what = format!("call '{id}' has no result right after its message");
        problems.push(hard("C3", Some(caller), what));
    }
}
