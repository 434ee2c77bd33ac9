//! The rules of Anthropic Messages. Most bind turns: consecutive messages of one role count as
//! one.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{blank, hard, messages, soft, text};
use crate::formats::Problem;

/// Consecutive messages of one role.
struct Turn<'a> {
    role: &'a str,
    blocks: Vec<&'a Value>,
    /// The place of its first message.
    index: usize,
}

impl Turn<'_> {
    fn ids(&self, kind: &str, field: &str) -> Vec<&str> {
        self.blocks
            .iter()
            .filter(|b| text(b, "type") == kind)
            .map(|b| text(b, field))
            .collect()
    }

    fn only_results(&self) -> bool {
        self.role == "user" && self.blocks.iter().all(|b| text(b, "type") == "tool_result")
    }
}

pub(super) fn lint(body: &Value) -> Vec<Problem> {
    let messages = match messages("A2", body) {
        Ok(messages) => messages,
        Err(problems) => return problems,
    };
    let mut problems = Vec::new();
    if messages.len() > 100_000 {
        problems.push(hard("A1", None, "more than 100,000 messages"));
    }
    let last = messages.len().saturating_sub(1);
    for (index, message) in messages.iter().enumerate() {
        shape(index, message, index == last, &mut problems);
    }
    let system = body
        .get("system")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    blank_blocks(None, &system.iter().collect::<Vec<_>>(), &mut problems);
    let turns = turns(messages);
    for (at, turn) in turns.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|b| turns.get(b));
        results(turn, before, &mut problems);
        if turn.role == "assistant" {
            let later = turns.get(at.saturating_add(1)..).unwrap_or_default();
            assistant(turn, later, &mut problems);
        }
        mid_system(turn, before, turns.get(at.saturating_add(1)), &mut problems);
    }
    soft_rules(body, &turns, &mut problems);
    problems
}

fn blocks_of(message: &Value) -> Vec<&Value> {
    message
        .get("content")
        .and_then(Value::as_array)
        .map(|b| b.iter().collect())
        .unwrap_or_default()
}

fn turns(messages: &[Value]) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let role = text(message, "role");
        let blocks = match message.get("content") {
            Some(whole @ Value::String(_)) => vec![whole],
            _ => blocks_of(message),
        };
        match turns.last_mut() {
            Some(turn) if turn.role == role => turn.blocks.extend(blocks),
            _ => turns.push(Turn {
                role,
                blocks,
                index,
            }),
        }
    }
    turns
}

/// A1 and A9: each message by itself.
fn shape(index: usize, message: &Value, last: bool, problems: &mut Vec<Problem>) {
    let role = text(message, "role");
    if !["user", "assistant", "system"].contains(&role) {
        problems.push(hard("A1", Some(index), format!("'{role}' is no role here")));
    }
    let spare = last && role == "assistant";
    match message.get("content") {
        Some(Value::String(words)) if words.is_empty() && spare => {}
        Some(Value::String(words)) if blank(words) => {
            problems.push(hard("A9", Some(index), "the text is blank"));
        }
        Some(Value::String(_)) => {}
        Some(Value::Array(blocks)) if !blocks.is_empty() || spare => {
            let blocks = blocks_of(message);
            blank_blocks(Some(index), &blocks, problems);
            for block in blocks {
                block_shape(index, role, block, problems);
            }
        }
        _ => problems.push(hard("A9", Some(index), "the message has no content")),
    }
}

/// A block with its type's fields, in a message of a side that may hold it.
fn block_shape(index: usize, role: &str, block: &Value, problems: &mut Vec<Problem>) {
    let kind = text(block, "type");
    let needed: &[&str] = match kind {
        "" => &["type"],
        "thinking" => &["thinking"],
        "redacted_thinking" => &["data"],
        "text" => &["text"],
        _ if kind.ends_with("tool_use") => &["id", "name"],
        _ if kind.ends_with("tool_result") => &["tool_use_id"],
        _ => &[],
    };
    for field in needed
        .iter()
        .filter(|f| !block.get(**f).is_some_and(Value::is_string))
    {
        let what = format!("a block of type '{kind}' has no '{field}'");
        problems.push(hard("A9", Some(index), what));
    }
    let models = kind.ends_with("_tool_result") || kind.ends_with("tool_use");
    if models && role != "assistant" {
        let what = format!("a block of type '{kind}' in a message that is not the model's");
        problems.push(hard("A4", Some(index), what));
    }
}

fn blank_blocks(index: Option<usize>, blocks: &[&Value], problems: &mut Vec<Problem>) {
    for block in blocks {
        match text(block, "type") {
            "text" if blank(text(block, "text")) => {
                problems.push(hard("A9", index, "a text block is blank"));
            }
            "tool_result" => match block.get("content").and_then(Value::as_array) {
                // Recordings show both outcomes.
                Some(inner) if inner.is_empty() => {
                    let what = "the content of a result is an empty list";
                    problems.push(soft("A9", index, what));
                }
                Some(inner) => blank_blocks(index, &inner.iter().collect::<Vec<_>>(), problems),
                None => {}
            },
            _ => {}
        }
    }
}

/// A4 to A7: the results that follow an assistant turn.
fn results(turn: &Turn<'_>, before: Option<&Turn<'_>>, problems: &mut Vec<Problem>) {
    let called: BTreeSet<&str> = match before {
        Some(before) if before.role == "assistant" => {
            before.ids("tool_use", "id").into_iter().collect()
        }
        _ => BTreeSet::new(),
    };
    let mut answered = BTreeSet::new();
    let mut other = false;
    for block in &turn.blocks {
        if text(block, "type") != "tool_result" {
            other = true;
            continue;
        }
        let id = text(block, "tool_use_id");
        let mut broken = |rule, what| problems.push(hard(rule, Some(turn.index), what));
        if turn.role != "user" || !called.contains(id) {
            broken("A5", format!("the result of '{id}' follows no such call"));
        } else if !answered.insert(id) {
            broken("A6", format!("a second result of call '{id}'"));
        } else if other {
            broken(
                "A7",
                format!("the result of '{id}' stands behind other content"),
            );
        }
    }
    if let Some(before) = before {
        for id in called.difference(&answered) {
            let what = format!("call '{id}' has no result in the next user turn");
            problems.push(hard("A4", Some(before.index), what));
        }
    }
}

/// A4 (at the end), A8, A13, A14, A15: within an assistant turn.
fn assistant(turn: &Turn<'_>, later: &[Turn<'_>], problems: &mut Vec<Problem>) {
    let mut broken = |rule, what: String| problems.push(hard(rule, Some(turn.index), what));
    let ids = turn.ids("tool_use", "id");
    if later.is_empty() {
        for id in &ids {
            broken("A4", format!("call '{id}' has no result"));
        }
    }
    let mut seen = BTreeSet::new();
    for id in ids {
        if id.is_empty() || !seen.insert(id) {
            broken(
                "A8",
                format!("call id '{id}' is missing or not unique in its turn"),
            );
        }
    }
    let kinds: Vec<&str> = turn.blocks.iter().map(|b| text(b, "type")).collect();
    if matches!(kinds.last(), Some(&("thinking" | "redacted_thinking"))) {
        broken("A13", "the turn ends with thinking".to_owned());
    }
    if kinds
        .iter()
        .skip_while(|k| **k != "tool_use")
        .any(|k| *k != "tool_use")
    {
        broken(
            "A14",
            "something other than a call follows a call".to_owned(),
        );
    }
    native_pairs(turn, later.iter().all(Turn::only_results), &mut broken);
}

fn native_pairs(turn: &Turn<'_>, running: bool, broken: &mut impl FnMut(&'static str, String)) {
    let mut open = BTreeSet::new();
    for block in &turn.blocks {
        match text(block, "type") {
            kind if kind.ends_with("_tool_use") => {
                let id = text(block, "id");
                if !open.insert(id) {
                    broken(
                        "A15",
                        format!("a second open call of the provider with id '{id}'"),
                    );
                }
            }
            "tool_result" => {}
            kind if kind.ends_with("_tool_result") => {
                let id = text(block, "tool_use_id");
                if !open.remove(id) {
                    broken("A15", format!("the {kind} of '{id}' follows no such call"));
                }
            }
            _ => {}
        }
    }
    for id in open.iter().filter(|_| !running) {
        broken(
            "A15",
            format!("the provider's own call '{id}' has no result"),
        );
    }
}

/// A16: where a system message may stand among the others.
fn mid_system(
    turn: &Turn<'_>,
    before: Option<&Turn<'_>>,
    after: Option<&Turn<'_>>,
    problems: &mut Vec<Problem>,
) {
    if turn.role != "system" {
        return;
    }
    let legal =
        before.is_some_and(|t| t.role == "user") && after.is_none_or(|t| t.role == "assistant");
    let what = if legal {
        "only newer models take a system message among the others"
    } else {
        "a system message here must follow a user turn and precede an assistant turn or the end"
    };
    problems.push(soft("A16", Some(turn.index), what));
}

/// A3, A10, A11.
fn soft_rules(body: &Value, turns: &[Turn<'_>], problems: &mut Vec<Problem>) {
    if let Some(first) = turns.first().filter(|t| t.role != "user") {
        let what = "older models want a user turn first";
        problems.push(soft("A3", Some(first.index), what));
    }
    if let Some(last) = turns.last().filter(|t| t.role == "assistant") {
        let words = last
            .blocks
            .last()
            .map_or("", |b| b.as_str().unwrap_or_else(|| text(b, "text")));
        let what = if words.ends_with(char::is_whitespace) {
            "the last assistant turn ends in white space"
        } else {
            "newer models refuse an assistant turn at the end"
        };
        problems.push(soft("A10", Some(last.index), what));
    }
    let thinking = body.get("thinking").map_or("", |t| text(t, "type"));
    if ["", "disabled"].contains(&thinking) {
        return;
    }
    let running = turns
        .iter()
        .rev()
        .take_while(|t| t.role == "assistant" || t.only_results());
    if let Some(turn) = running.filter(|t| t.role == "assistant").last() {
        let first = turn.blocks.first().map_or("", |b| text(b, "type"));
        let calls = !turn.ids("tool_use", "id").is_empty();
        if calls && !["thinking", "redacted_thinking"].contains(&first) {
            let what = "with thinking on, the running tool loop must begin with thinking";
            problems.push(soft("A11", Some(turn.index), what));
        }
    }
}
