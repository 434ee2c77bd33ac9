//! The rules of OpenAI Responses. R5 (an item replayed without its reasoning) does not show in a request:
//! nothing says that there was any.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{hard, list, soft, text};
use crate::formats::Problem;

/// Who speaks.
const ROLES: [&str; 4] = ["system", "developer", "user", "assistant"];
/// Calls that the client answers, with those of tool searches that it runs.
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
    let set = |name: &&&str| body.get(**name).is_some_and(|value| !value.is_null());
    let chain = ["previous_response_id", "conversation"].iter().find(set);
    if let Some(name) = chain {
        let what = format!(
            "'{name}' is set: the model also sees what the provider holds, and items that are in both are refused; unset it to send these items alone"
        );
        problems.push(soft("R3", Some(0), what));
    }
    calls(items, chain.is_some(), &mut problems);
    ids(items, &mut problems);
    compacted(items, &mut problems);
    for (index, item) in items.iter().enumerate() {
        let role = text(item, "role");
        if is_message(item) && !ROLES.contains(&role) {
            let what = format!("no message is of role '{role}'");
            problems.push(hard("R8", Some(index), what));
        }
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

fn is_message(item: &Value) -> bool {
    ["", "message"].contains(&text(item, "type"))
}

/// R9: what stands before a compaction item is in it.
fn compacted(items: &[Value], problems: &mut Vec<Problem>) {
    let newest = items.iter().rposition(|i| text(i, "type") == "compaction");
    let Some(index) = newest.filter(|index| *index > 0) else {
        return;
    };
    let what = format!("the {index} items before this compaction item are in it; leave them out");
    problems.push(soft("R9", Some(index), what));
}

/// Whether an item is a call that the client answers.
fn is_call(item: &Value) -> bool {
    let kind = text(item, "type");
    CALLS.contains(&kind) || (kind == "tool_search_call" && text(item, "execution") == "client")
}

/// The call that an item answers.
fn answered(item: &Value) -> Option<&str> {
    let kind = text(item, "type");
    let search = kind == "tool_search_output" && text(item, "execution") == "client";
    // The output of a local shell may name its call by its own id.
    let own = kind == "local_shell_call_output" && text(item, "call_id").is_empty();
    let field = if own { "id" } else { "call_id" };
    (search || kind.ends_with("_call_output")).then(|| text(item, field))
}

/// R1, R2: calls and their outputs.
fn calls(items: &[Value], chained: bool, problems: &mut Vec<Problem>) {
    let mut open: BTreeMap<&str, usize> = BTreeMap::new();
    let mut known: BTreeSet<&str> = BTreeSet::new();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    let mut calling = true;
    for (index, item) in items.iter().enumerate() {
        let (kind, id) = (text(item, "type"), text(item, "call_id"));
        if is_call(item) {
            let named = ["function_call", "custom_tool_call"].contains(&kind);
            if id.is_empty() || (named && item.get("name").is_none_or(|n| !n.is_string())) {
                problems.push(hard(
                    "R2",
                    Some(index),
                    "a call without a call_id or a name",
                ));
            } else if !known.insert(id) {
                let what = format!("two calls of call_id '{id}'");
                problems.push(hard("R3", Some(index), what));
            }
            if !calling && !open.is_empty() {
                let what = "a call between others and their outputs, which not every endpoint takes; put the outputs before it";
                problems.push(soft("R2", Some(index), what));
            }
            open.insert(id, index);
            calling = true;
        } else if kind.ends_with("_call") && !id.is_empty() {
            known.insert(id); // a search for tools, which a function's output may answer
        } else if let Some(id) = answered(item) {
            if id.is_empty() || !(known.contains(id) || chained) {
                let what = format!("an output of '{id}' without its call");
                problems.push(hard("R1", Some(index), what));
            } else if known.contains(id) && !done.insert(id) {
                let what = format!("a further output of '{id}'; leave it out");
                problems.push(soft("R1", Some(index), what));
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
        let others = ["item_reference", "local_shell_call_output"];
        let reference = others.contains(&text(item, "type"));
        if !id.is_empty() && !reference && !seen.insert(id) {
            problems.push(hard("R3", Some(index), format!("two items of id '{id}'")));
        }
    }
}
