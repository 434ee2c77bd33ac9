//! The rules of `LangGraph`'s agents.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{hard, list, soft, text};
use crate::formats::Problem;

pub(super) fn lint(body: &Value) -> Vec<Problem> {
    let Some(messages) = body.get("messages").and_then(Value::as_array) else {
        return vec![hard("L2", None, "'messages' must be an array")];
    };
    let messages: Vec<Said<'_>> = messages.iter().map(Said::of).collect();
    let mut problems = Vec::new();
    if messages.is_empty() {
        let what = "no message: a model refuses an empty list; send one of a person";
        problems.push(soft("L6", None, what));
    }
    let mut ids: BTreeMap<String, usize> = BTreeMap::new();
    for (index, said) in messages.iter().enumerate() {
        shape(index, said, &mut problems);
        if let Some(id) = said.fields.get("id").filter(|id| !id.is_null()) {
            let id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
            if let Some(first) = ids.insert(id.clone(), index) {
                let what = format!(
                    "the id '{id}' is that of message {first}, whose place this one takes; leave it out"
                );
                problems.push(hard("L3", Some(index), what));
            }
        }
    }
    pairing(&messages, &mut problems);
    problems
}

/// A message in any of the three spellings.
struct Said<'a> {
    /// What it is: `human`, `ai`, …; `None` where its type is unknown.
    kind: Option<&'static str>,
    fields: &'a Value,
    dump: bool,
}

const KINDS: [(&str, &str); 6] = [
    ("human", "HumanMessage"),
    ("ai", "AIMessage"),
    ("system", "SystemMessage"),
    ("tool", "ToolMessage"),
    ("function", "FunctionMessage"),
    ("chat", "ChatMessage"),
];

impl<'a> Said<'a> {
    fn of(message: &'a Value) -> Self {
        let named = text(message, "type");
        let class = list(message, "id").last().and_then(Value::as_str);
        let (name, fields, dump) = match (message.get("kwargs"), message.get("data")) {
            (Some(fields), _) if named == "constructor" => {
                (class.unwrap_or_default(), fields, false)
            }
            (_, Some(fields)) if fields.is_object() => (named, fields, false),
            _ => (named, message, true),
        };
        let name = name.strip_suffix("Chunk").unwrap_or(name);
        let kind = KINDS
            .iter()
            .find(|(kind, class)| name == *kind || name == *class);
        Self {
            kind: kind.map(|(kind, _)| *kind),
            fields,
            dump,
        }
    }

    /// The calls that an agent answers; the raw ones of the provider where there are no others.
    fn calls(&self) -> Vec<Option<&'a str>> {
        if self.kind != Some("ai") {
            return Vec::new();
        }
        let own = list(self.fields, "tool_calls");
        let raw = self.fields.get("additional_kwargs");
        let raw = raw.map(|beside| list(beside, "tool_calls"));
        let calls = match raw {
            Some(raw) if own.is_empty() => raw,
            _ => own,
        };
        let id = |call: &'a Value| call.get("id").and_then(Value::as_str);
        calls.iter().map(id).collect()
    }
}

/// L2: the type and its fields.
fn shape(index: usize, said: &Said<'_>, problems: &mut Vec<Problem>) {
    let mut broken = |what: String| problems.push(hard("L2", Some(index), what));
    let fields = said.fields;
    let Some(kind) = said.kind else {
        return broken("its type is none of human, ai, system, tool, function, chat".to_owned());
    };
    if !fields.get("content").is_some_and(is_content) {
        broken("content must be a string, or a list of strings and objects".to_owned());
    }
    let is_text = |name: &str| fields.get(name).is_some_and(Value::is_string);
    let is_object = |value: &Value| value.is_object();
    for (name, formed) in [
        (
            "name",
            fields
                .get("name")
                .is_none_or(|v| v.is_null() || v.is_string()),
        ),
        (
            "additional_kwargs",
            fields.get("additional_kwargs").is_none_or(is_object),
        ),
        (
            "response_metadata",
            fields.get("response_metadata").is_none_or(is_object),
        ),
    ] {
        if !formed {
            broken(format!("'{name}' has a form that is not read"));
        }
    }
    match kind {
        "ai" => calls(fields, &mut broken),
        "tool" => {
            let call = fields.get("tool_call_id");
            if !call.is_some_and(|id| id.is_string() || id.is_number()) {
                broken("a tool's message names no call: it needs a 'tool_call_id'".to_owned());
            }
            let status = fields.get("status");
            if status
                .is_some_and(|s| !["success", "error"].contains(&s.as_str().unwrap_or_default()))
            {
                broken("'status' is neither 'success' nor 'error'".to_owned());
            }
        }
        "function" if !is_text("name") => broken("a function's message needs a 'name'".to_owned()),
        "chat" if !is_text("role") => broken("a chat's message needs a 'role'".to_owned()),
        "chat" => role(index, said, problems),
        _ => {}
    }
}

/// A role that a chat's message brings along.
fn role(index: usize, said: &Said<'_>, problems: &mut Vec<Problem>) {
    let role = text(said.fields, "role");
    let known = ["human", "user", "ai", "assistant", "system", "developer"];
    if known.contains(&role) {
        return;
    }
    let what = format!("'{role}' is no role that agents know; write the message as a person's");
    // An agent that is given dumps asks for their roles.
    let of = Some(index);
    problems.push(if said.dump {
        hard("L2", of, what)
    } else {
        soft("L2", of, what)
    });
}

fn is_content(content: &Value) -> bool {
    let of_list = |list: &Vec<Value>| list.iter().all(|b| b.is_string() || b.is_object());
    content.is_string() || content.as_array().is_some_and(of_list)
}

fn calls(fields: &Value, broken: &mut impl FnMut(String)) {
    let lists = ["tool_calls", "invalid_tool_calls"];
    for name in lists {
        if fields.get(name).is_some_and(|list| !list.is_array()) {
            broken(format!("'{name}' must be an array"));
        }
    }
    for call in list(fields, "tool_calls") {
        let id = call.get("id");
        if !call.get("name").is_some_and(Value::is_string) {
            broken("a call without a name".to_owned());
        }
        if !call.get("args").is_some_and(Value::is_object) {
            let what = "the args of a call are no object: put it among 'invalid_tool_calls'";
            broken(what.to_owned());
        }
        if !id.is_some_and(|id| id.is_string() || id.is_null()) {
            broken("the id of a call is no string".to_owned());
        }
    }
    for call in list(fields, "invalid_tool_calls") {
        let text = |name| {
            call.get(name)
                .is_none_or(|v: &Value| v.is_null() || v.is_string())
        };
        if !["name", "args", "id", "error"].into_iter().all(text) {
            broken("an invalid call holds what is no text".to_owned());
        }
    }
}

/// L1, L4, L5: calls and their results. An agent asks only whether a result names the id.
fn pairing(messages: &[Said<'_>], problems: &mut Vec<Problem>) {
    let mut answered: BTreeSet<String> = BTreeSet::new();
    let mut open: Vec<(String, usize, bool)> = Vec::new();
    for (index, said) in messages.iter().enumerate() {
        for id in said.calls() {
            open.push((id.unwrap_or_default().to_owned(), index, true));
        }
        for call in list(said.fields, "invalid_tool_calls") {
            open.push((text(call, "id").to_owned(), index, false));
        }
        if said.kind != Some("tool") {
            continue;
        }
        let Some(id) = said.fields.get("tool_call_id").map(id_text) else {
            continue;
        };
        match open.iter().rposition(|(known, ..)| *known == id) {
            Some(place) => _ = open.remove(place),
            None => {
                let what =
                    format!("a result of '{id}' that no call before it waits for; leave it out");
                problems.push(soft("L5", Some(index), what));
            }
        }
        answered.insert(id);
    }
    for (id, index, understood) in open {
        let named = answered.contains(&id);
        problems.push(match (understood, named) {
            (true, false) => {
                let what = format!("call '{id}' has no ToolMessage in the list; add one");
                hard("L1", Some(index), what)
            }
            (true, true) => {
                let what = format!(
                    "call '{id}' has no ToolMessage behind it, only another call of its id has; add one"
                );
                soft("L1", Some(index), what)
            }
            (false, _) => {
                let what = format!(
                    "the call '{id}' that could not be read has no ToolMessage: providers get it all the same; say in one what was wrong"
                );
                soft("L4", Some(index), what)
            }
        });
    }
}

fn id_text(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}
