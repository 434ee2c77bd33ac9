//! The rules of UI messages of the AI SDK: what its own `safeValidateUIMessages` demands.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{hard, list, messages, soft, text};
use crate::formats::Problem;

pub(super) fn lint(body: &Value) -> Vec<Problem> {
    let messages = match messages("V1", body) {
        Ok(messages) => messages,
        Err(problems) => return problems,
    };
    let mut problems = Vec::new();
    let (mut ids, mut calls) = (BTreeSet::new(), BTreeSet::new());
    for (index, message) in messages.iter().enumerate() {
        shape(index, message, &mut problems);
        let mut told = |rule, what: String| problems.push(soft(rule, Some(index), what));
        let id = text(message, "id");
        if !ids.insert(id) {
            told(
                "V6",
                format!("the id '{id}' is that of an earlier message; give it its own"),
            );
        }
        let last = index.saturating_add(1) == messages.len();
        for part in list(message, "parts")
            .iter()
            .filter(|p| is_tool(text(p, "type")))
        {
            let id = text(part, "toolCallId");
            if !calls.insert(id) {
                told(
                    "V7",
                    format!("a call before it has the id '{id}', too; give it its own"),
                );
            }
            let ran = part.get("providerExecuted") == Some(&Value::Bool(true));
            if OPEN.contains(&text(part, "state")) && !last && !ran {
                told(
                    "V8",
                    format!(
                        "nothing came of call '{id}', and the conversation goes on: sending it to a model fails; give its output, or an error"
                    ),
                );
            }
        }
    }
    problems
}

/// The states of a call that nothing came of.
const OPEN: [&str; 3] = ["input-streaming", "input-available", "approval-requested"];

fn is_tool(kind: &str) -> bool {
    kind == "dynamic-tool" || kind.starts_with("tool-")
}

/// V1 to V5: a message by itself.
fn shape(index: usize, message: &Value, problems: &mut Vec<Problem>) {
    let mut broken = |rule, what: String| problems.push(hard(rule, Some(index), what));
    if !message.get("id").is_some_and(Value::is_string) {
        broken("V1", "the id of a message is a string".to_owned());
    }
    let role = text(message, "role");
    if !["system", "user", "assistant"].contains(&role) {
        broken("V2", format!("'{role}' is no role"));
    }
    let Some(parts) = message.get("parts").and_then(Value::as_array) else {
        return broken("V3", "'parts' must be an array".to_owned());
    };
    for part in parts {
        let kind = text(part, "type");
        let (rule, found) = if is_tool(kind) {
            ("V5", tool(kind, part))
        } else {
            ("V4", other(kind, part))
        };
        for what in found {
            broken(rule, format!("a part of type '{kind}': {what}"));
        }
    }
    match (parts.is_empty(), role) {
        (false, _) => {}
        (true, "assistant") => {
            let what = "no parts: AI SDK 5 refuses it; leave the message out";
            problems.push(soft("V3", Some(index), what));
        }
        (true, _) => broken("V3", "a message needs a part".to_owned()),
    }
}

/// What a field may hold.
type Form = fn(&Value) -> bool;

fn provider(value: &Value) -> bool {
    let fields = value.as_object();
    fields.is_some_and(|fields| fields.values().all(Value::is_object))
}

fn streamed(value: &Value) -> bool {
    ["streaming", "done"].map(Value::from).contains(value)
}

/// Fields that must be there, and fields that may be there.
fn fields(part: &Value, must: &[(&str, Form)], may: &[(&str, Form)]) -> Vec<String> {
    let lacks = must
        .iter()
        .filter(|(name, form)| !part.get(name).is_some_and(form))
        .map(|(name, _)| format!("'{name}' is missing or no value of its kind"));
    let odd = may
        .iter()
        .filter(|(name, form)| part.get(name).is_some_and(|value| !form(value)))
        .map(|(name, _)| format!("'{name}' is no value of its kind"));
    lacks.chain(odd).collect()
}

/// V4: a part that is no call.
fn other(kind: &str, part: &Value) -> Vec<String> {
    let string: Form = Value::is_string;
    let any: Form = |_| true;
    let must: &[(&str, Form)] = match kind {
        "text" | "reasoning" => &[("text", string)],
        "file" | "reasoning-file" => &[("mediaType", string), ("url", string)],
        "source-url" => &[("sourceId", string), ("url", string)],
        "source-document" => &[
            ("sourceId", string),
            ("mediaType", string),
            ("title", string),
        ],
        "custom" => &[("kind", string)],
        "steering-message" => &[("id", string), ("parts", Value::is_array)],
        "step-start" => &[],
        _ if kind.starts_with("data-") => &[("data", any)],
        _ => return vec!["the AI SDK knows no such part".to_owned()],
    };
    let may: &[(&str, Form)] = match kind {
        "text" => &[("state", streamed), ("providerMetadata", provider)],
        "reasoning" => &[
            ("state", streamed),
            ("id", string),
            ("providerMetadata", provider),
        ],
        "file" => &[("filename", string), ("providerMetadata", provider)],
        "source-url" => &[("title", string), ("providerMetadata", provider)],
        "source-document" => &[("filename", string), ("providerMetadata", provider)],
        "step-start" | "steering-message" => &[],
        _ if kind.starts_with("data-") => &[("id", string)],
        _ => &[("providerMetadata", provider)],
    };
    fields(part, must, may)
}

/// V5: a call, whose state says which fields it has.
fn tool(kind: &str, part: &Value) -> Vec<String> {
    let string: Form = Value::is_string;
    let mut found = fields(
        part,
        &[("toolCallId", string)],
        &[
            ("title", string),
            ("toolMetadata", Value::is_object),
            ("providerExecuted", Value::is_boolean),
            ("callProviderMetadata", provider),
            ("dynamic", |value| *value == Value::Bool(false)),
        ],
    );
    if kind == "dynamic-tool" {
        found.extend(fields(part, &[("toolName", string)], &[]));
    }
    let state = text(part, "state");
    let any: Form = |_| true;
    let never: Form = |_| false;
    let (input, output, error): (&[(&str, Form)], Form, Form) = match state {
        "input-streaming" => (&[], never, never),
        "input-available" | "approval-requested" | "approval-responded" | "output-denied" => {
            (&[("input", any)], never, never)
        }
        "output-available" => (&[("input", any), ("output", any)], any, never),
        "output-error" => (&[("errorText", string)], never, string),
        _ => {
            found.push(format!("'{state}' is no state"));
            return found;
        }
    };
    found.extend(fields(
        part,
        input,
        &[("output", output), ("errorText", error)],
    ));
    let beside: &[(&str, Form)] = match state {
        "input-streaming" => &[("rawInput", string)],
        "output-available" => &[
            ("preliminary", Value::is_boolean),
            ("resultProviderMetadata", provider),
        ],
        "output-error" => &[("resultProviderMetadata", provider)],
        _ => &[],
    };
    found.extend(fields(part, &[], beside));
    if !approval_fits(state, part.get("approval")) {
        found.push(format!("its approval does not fit the state '{state}'"));
    }
    found
}

fn approval_fits(state: &str, approval: Option<&Value>) -> bool {
    let Some(approval) = approval else {
        return !["approval-requested", "approval-responded", "output-denied"].contains(&state);
    };
    let string: Form = Value::is_string;
    let odd = fields(
        approval,
        &[("id", string)],
        &[("reason", string), ("signature", string)],
    );
    let approved = approval.get("approved");
    let answer = match state {
        "approval-requested" => approved.is_none() && approval.get("reason").is_none(),
        "approval-responded" => approved.is_some_and(Value::is_boolean),
        "output-available" | "output-error" => approved == Some(&Value::Bool(true)),
        "output-denied" => approved == Some(&Value::Bool(false)),
        _ => false,
    };
    odd.is_empty() && answer
}
