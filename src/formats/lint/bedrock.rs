//! The rules of Bedrock's Converse.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{blank, hard, list, messages, soft, text};
use crate::formats::Problem;

/// What a block may hold, one of them.
const HELD: [&str; 11] = [
    "text",
    "toolUse",
    "toolResult",
    "image",
    "document",
    "video",
    "audio",
    "reasoningContent",
    "cachePoint",
    "guardContent",
    "citationsContent",
];

pub(super) fn lint(body: &Value) -> Vec<Problem> {
    let messages = match messages("B1", body) {
        Ok(messages) => messages,
        Err(problems) => return problems,
    };
    let mut problems = Vec::new();
    if list(body, "system")
        .iter()
        .any(|block| text_of(block) == Some(""))
    {
        problems.push(hard("B6", None, "a text of 'system' is empty"));
    }
    for (index, message) in messages.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|b| messages.get(b));
        let role = text(message, "role");
        order(index, role, before, &mut problems);
        content(index, message, &mut problems);
        calls(index, role, message, &mut problems);
        if role == "user" {
            answers(index, message, before, &mut problems);
        }
    }
    if let Some(last) = messages.last().filter(|m| text(m, "role") == "assistant") {
        for call in blocks(last, "toolUse") {
            let what = format!("call '{}' has no result", text(call, "toolUseId"));
            problems.push(hard("B4", messages.len().checked_sub(1), what));
        }
    }
    let tools = |m: &&Value| {
        ["toolUse", "toolResult"]
            .iter()
            .any(|key| !blocks(m, key).is_empty())
    };
    if body.get("toolConfig").is_none() && messages.iter().any(|m| tools(&m)) {
        let what = "messages that call tools, or answer calls, need a 'toolConfig'";
        problems.push(hard("B8", None, what));
    }
    problems
}

/// B1, B2: the user begins, and the two roles alternate.
fn order(index: usize, role: &str, before: Option<&Value>, problems: &mut Vec<Problem>) {
    let mut broken = |rule, what: String| problems.push(hard(rule, Some(index), what));
    if before.is_none() && role != "user" {
        broken("B1", "the first message is not the user's".to_owned());
    }
    if before.is_some_and(|before| text(before, "role") == role) {
        broken("B2", format!("two messages of role {role} in a row"));
    }
    if !["user", "assistant"].contains(&role) {
        broken("B2", format!("'{role}' is no role"));
    }
}

/// B6: every message says something, no text is empty, every block holds one thing.
fn content(index: usize, message: &Value, problems: &mut Vec<Problem>) {
    let mut broken = |what: &str| problems.push(hard("B6", Some(index), what));
    let content = list(message, "content");
    let said = |block: &&Value| text_of(block).is_none_or(|text| !blank(text));
    if !content.iter().any(|block| said(&block)) {
        broken("a message without content");
    }
    let mut white = false;
    for block in content {
        let results = block.get("toolResult").map(|r| list(r, "content"));
        let inner = results.unwrap_or_default().iter();
        let texts: Vec<&str> = inner.chain([block]).filter_map(text_of).collect();
        if texts.contains(&"") {
            broken("an empty text");
        }
        white |= texts.iter().any(|text| blank(text));
        let held = HELD.iter().filter(|name| block.get(**name).is_some());
        let held = held.count();
        if held > 1 || block.as_object().is_none_or(serde_json::Map::is_empty) {
            broken("a block holds not one thing");
        }
    }
    if white {
        let what = "some models take no text of white space alone: leave it out";
        problems.push(soft("B6", Some(index), what));
    }
}

/// A block's text; an empty one where it is no string.
fn text_of(block: &Value) -> Option<&str> {
    let text = block.get("text")?;
    Some(text.as_str().unwrap_or_default())
}

fn is_token(text: &str, also: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c) || also.contains(c);
    !text.is_empty() && text.len() <= 64 && text.chars().all(fits)
}

/// B3: only the assistant calls, only the user answers. B7: calls and results are well-formed.
fn calls(index: usize, role: &str, message: &Value, problems: &mut Vec<Problem>) {
    let mut broken = |rule, what: String| problems.push(hard(rule, Some(index), what));
    let calls = blocks(message, "toolUse");
    let results = blocks(message, "toolResult");
    if role != "assistant" && !calls.is_empty() {
        broken("B3", "a call that is not the assistant's".to_owned());
    }
    if role != "user" && !results.is_empty() {
        broken("B3", "a result that is not the user's".to_owned());
    }
    let mut seen = BTreeSet::new();
    for call in calls {
        let (id, name) = (text(call, "toolUseId"), text(call, "name"));
        if !is_token(id, ".:") || !is_token(name, "") {
            let what = "id and name of a call are 1 to 64 letters, digits, '_' or '-'";
            broken("B7", format!("{what}, not '{id}' and '{name}'"));
        }
        if !seen.insert(id) {
            broken("B7", format!("two calls have the id '{id}'"));
        }
        if !call.get("input").is_some_and(Value::is_object) {
            broken("B7", format!("the input of call '{id}' is no object"));
        }
    }
    let mut values = results.iter().flat_map(|result| list(result, "content"));
    if values.any(|block| block.get("json").is_some_and(|json| !json.is_object())) {
        broken("B7", "JSON of a result is no object".to_owned());
    }
}

/// The blocks under a key, without those of tools that the provider runs itself.
fn blocks<'a>(message: &'a Value, key: &str) -> Vec<&'a Value> {
    let blocks = list(message, "content").iter();
    let found = blocks.filter_map(|block| block.get(key));
    found
        .filter(|block| text(block, "type").is_empty())
        .collect()
}

/// B3, B4, B5: a user's message against the calls before it.
fn answers(index: usize, message: &Value, before: Option<&Value>, problems: &mut Vec<Problem>) {
    let calls = before
        .map(|before| blocks(before, "toolUse"))
        .unwrap_or_default();
    let results = blocks(message, "toolResult");
    let ids = |blocks: &[&Value]| -> BTreeSet<String> {
        let ids = blocks
            .iter()
            .map(|block| text(block, "toolUseId").to_owned());
        ids.collect()
    };
    let (asked, given) = (ids(&calls), ids(&results));
    if results.len() > calls.len() || given.difference(&asked).next().is_some() {
        let what = "results that the message before holds no call for";
        problems.push(hard("B3", Some(index), what));
    }
    for id in asked.difference(&given) {
        let what = format!("no result of call '{id}'");
        problems.push(hard("B4", Some(index), what));
    }
    let others = list(message, "content").len().saturating_sub(results.len());
    if !results.is_empty() && others > 0 {
        let what = "some models take no words beside results: send them after the model's answer";
        problems.push(soft("B5", Some(index), what));
    }
}
