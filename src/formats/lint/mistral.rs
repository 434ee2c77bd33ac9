//! The rules of Mistral's chat completions.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{hard, list, messages, soft, text};
use crate::formats::Problem;

/// Who speaks.
const ROLES: [&str; 4] = ["system", "user", "assistant", "tool"];
/// The longest name of a tool.
const NAME_MAX: usize = 64;
/// How long the ids of calls are that every version takes.
const ID: usize = 9;

pub(super) fn lint(body: &Value) -> Vec<Problem> {
    let messages = match messages("M1", body) {
        Ok(messages) => messages,
        Err(problems) => return problems,
    };
    let mut problems = Vec::new();
    if let [only] = messages
        && ROLES.contains(&text(only, "role"))
        && !["user", "system"].contains(&text(only, "role"))
    {
        problems.push(hard(
            "M1",
            Some(0),
            "a message alone is a user's or a system's",
        ));
    }
    for (index, message) in messages.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|b| messages.get(b));
        order(
            index,
            before.map(|b| text(b, "role")),
            text(message, "role"),
            &mut problems,
        );
        shape(index, message, &mut problems);
        let last = index.saturating_add(1) == messages.len();
        ending(index, message, last, &mut problems);
    }
    pairing(messages, &mut problems);
    problems
}

/// M2: who may follow whom.
fn order(index: usize, before: Option<&str>, role: &str, problems: &mut Vec<Problem>) {
    if !ROLES.contains(&role) {
        let what = format!("no message is of role '{role}'");
        problems.push(hard("M2", Some(index), what));
        return;
    }
    let may: &[&str] = match before {
        Some("system") => &["user", "assistant", "system"],
        Some("user") => &["assistant", "system", "user"],
        Some("assistant") => &["assistant", "user", "tool"],
        Some("tool") => &["assistant", "tool", "user"],
        _ => return,
    };
    let what = || format!("'{role}' after '{}'", before.unwrap_or_default());
    if !may.contains(&role) {
        problems.push(hard("M2", Some(index), what()));
    } else if before == Some("tool") && role == "user" {
        let what = format!("{}; put an assistant's message between them", what());
        problems.push(soft("M2", Some(index), what));
    }
}

/// M5, M6, M7: a message by itself.
fn shape(index: usize, message: &Value, problems: &mut Vec<Problem>) {
    let mut broken = |rule, what: String| problems.push(hard(rule, Some(index), what));
    let empty = |content: Option<&Value>| match content {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(parts)) => parts.is_empty(),
        Some(_) => false,
    };
    let calls = list(message, "tool_calls");
    let older = message.get("function_call").is_some_and(|c| !c.is_null());
    if older || (!calls.is_empty() && text(message, "role") != "assistant") {
        let what = "calls stand in the 'tool_calls' of assistant messages";
        broken("M4", what.to_owned());
    }
    match text(message, "role") {
        "assistant" if calls.is_empty() && empty(message.get("content")) => {
            broken(
                "M6",
                "an assistant message with neither content nor calls".to_owned(),
            );
        }
        "system" if message.get("content").is_none_or(Value::is_null) => {
            broken("M7", "a system message without content".to_owned());
        }
        _ => {}
    }
    if !calls.is_empty() && !empty(message.get("content")) {
        let what = "content beside calls; older versions want it in a message of its own";
        problems.push(soft("M6", Some(index), what));
    }
    for call in calls {
        let name = call
            .get("function")
            .map(|f| text(f, "name"))
            .unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(plain) {
            let what = format!("'{name}' is no name of a tool");
            problems.push(hard("M5", Some(index), what));
        }
    }
    let answered = Some(text(message, "tool_call_id")).filter(|_| text(message, "role") == "tool");
    for id in calls.iter().map(|call| text(call, "id")).chain(answered) {
        if id.is_empty() || id == "null" {
            problems.push(hard("M5", Some(index), "a call without an id"));
        } else if id.len() != ID || !id.chars().all(|c| c.is_ascii_alphanumeric()) {
            let what = format!(
                "older versions take ids of nine letters and digits, not '{id}'; rename the call and its result"
            );
            problems.push(soft("M5", Some(index), what));
        }
    }
}

/// M3: the last message, and `prefix`.
fn ending(index: usize, message: &Value, last: bool, problems: &mut Vec<Problem>) {
    let prefix = message.get("prefix").and_then(Value::as_bool) == Some(true);
    let role = text(message, "role");
    if last && !(["user", "tool"].contains(&role) || (role == "assistant" && prefix)) {
        let what = format!("the last message is of role {role}");
        problems.push(hard("M3", Some(index), what));
    }
    if !last && prefix {
        problems.push(hard(
            "M3",
            Some(index),
            "'prefix' on a message that is not the last",
        ));
    }
}

/// M4: as many results as calls before the next assistant message and at the end, each once.
fn pairing(messages: &[Value], problems: &mut Vec<Problem>) {
    let mut open: BTreeSet<&str> = BTreeSet::new();
    let mut caller = 0;
    for (index, message) in messages.iter().enumerate() {
        match text(message, "role") {
            "tool" => {
                let id = text(message, "tool_call_id");
                if !open.remove(id) {
                    let what = format!("a result of '{id}' that no call waits for");
                    problems.push(hard("M4", Some(index), what));
                }
            }
            "assistant" => {
                unanswered(caller, &open, problems);
                open.clear();
                caller = index;
                for id in list(message, "tool_calls")
                    .iter()
                    .map(|call| text(call, "id"))
                {
                    if !open.insert(id) {
                        let what = format!("two calls of id '{id}'");
                        problems.push(hard("M4", Some(index), what));
                    }
                }
            }
            _ => {}
        }
    }
    unanswered(caller, &open, problems);
}

fn unanswered(caller: usize, open: &BTreeSet<&str>, problems: &mut Vec<Problem>) {
    if !open.is_empty() {
        let what = format!("{} of its calls have no result", open.len());
        problems.push(hard("M4", Some(caller), what));
    }
}
