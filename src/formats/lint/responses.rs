//! The rules of OpenAI Responses. R5 (an item replayed without its reasoning) does not show in a request:
//! nothing says that there was any.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{hard, list, soft, text};
use crate::formats::Problem;

/// Calls that the client answers.
const CALLS: [&str; 6] = [
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "computer_call",
];

pub(super) fn lint(body: &Value) -> Vec<Problem> {
    let items = list(body, "input");
    match body.get("input") {
        Some(Value::String(_)) => return Vec::new(),
        Some(Value::Array(items)) if !items.is_empty() => {}
        _ => {
            return vec![hard(
                "R7",
                None,
                "'input' must be a string or a non-empty array",
            )];
        }
    }
    let mut problems = Vec::new();
    // Behind earlier responses the items are only the newest ones.
    let set = |name| body.get(name).is_some_and(|value| !value.is_null());
    let chained = set("previous_response_id") || set("conversation");
    calls(items, chained, &mut problems);
    ids(items, &mut problems);
    for (index, item) in items.iter().enumerate() {
        let next = items.get(index.saturating_add(1));
        if text(item, "type") == "reasoning" && !text(item, "id").is_empty() && !follows(next) {
            let what = "reasoning without the item that it was produced with";
            problems.push(hard("R4", Some(index), what));
        }
        let id = text(item, "id");
        if text(item, "type") == "function_call" && !id.is_empty() && !id.starts_with("fc") {
            problems.push(hard(
                "R6",
                Some(index),
                format!("'{id}' does not begin with fc"),
            ));
        }
    }
    problems
}

/// Whether an item can be what a reasoning item was produced with: a model's, with an id of its own.
fn follows(next: Option<&Value>) -> bool {
    next.is_some_and(|next| {
        let kind = text(next, "type");
        let others = !["", "assistant"].contains(&text(next, "role"));
        !text(next, "id").is_empty() && !others && !kind.ends_with("_output")
    })
}

/// R1, R2: calls and their outputs.
fn calls(items: &[Value], chained: bool, problems: &mut Vec<Problem>) {
    let mut open: BTreeMap<&str, usize> = BTreeMap::new();
    let mut known: BTreeSet<&str> = BTreeSet::new();
    let mut calling = true;
    for (index, item) in items.iter().enumerate() {
        let (kind, id) = (text(item, "type"), text(item, "call_id"));
        if CALLS.contains(&kind) {
            if !known.insert(id) {
                let what = format!("two calls of call_id '{id}'");
                problems.push(hard("R3", Some(index), what));
            }
            if !calling && !open.is_empty() {
                let what = "a call between others and their outputs; not every endpoint takes it";
                problems.push(soft("R2", Some(index), what));
            }
            open.insert(id, index);
            calling = true;
        } else if kind.ends_with("_call") && !id.is_empty() {
            known.insert(id); // a search for tools, which a function's output may answer
        } else if kind.ends_with("_call_output") {
            if !known.contains(id) && !chained {
                let what = format!("an output of '{id}' without its call");
                problems.push(hard("R1", Some(index), what));
            }
            open.remove(id);
            calling = false;
        } else {
            calling = open.is_empty();
        }
    }
    for (id, index) in open {
        let what = format!("no output of call '{id}'");
        problems.push(hard("R2", Some(index), what));
    }
}

/// R3: ids of items.
fn ids(items: &[Value], problems: &mut Vec<Problem>) {
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let id = text(item, "id");
        let reference = text(item, "type") == "item_reference";
        if !id.is_empty() && !reference && !seen.insert(id) {
            problems.push(hard("R3", Some(index), format!("two items of id '{id}'")));
        }
    }
}
