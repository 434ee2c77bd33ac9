//! What a format keeps of its messages is enough to give them back.

use std::collections::HashSet;

use ctxlog::formats::{Format, Link, MARK, Step, Transcript, given};
use ctxlog::log::{Json, Message, Role};
use serde_json::Value;

use super::counts::read;
use super::files::data;
use super::fixtures::FIXTURES;

/// The formats whose messages are given back, and the fields of a source message that are told apart
/// from it: answers in a tree are messages themselves, an agent's notes on a call are what came back
/// from it, and of a record of a session only the message is given.
const GIVING: &[(&str, &[&str])] = &[
    ("agent-framework", &[]),
    ("anthropic", &[]),
    ("bedrock-converse", &[]),
    ("chatgpt-export", &[]),
    ("claude-code", &[]),
    ("codex-rollout", &[]),
    ("gemini-contents", &[]),
    ("inspect-log", &[]),
    ("langchain", &[]),
    ("langgraph-checkpoints", &[]),
    ("letta-af", &[]),
    ("mini-swe-traj", &["extra"]),
    ("mistral-chat", &[]),
    ("oasst-tree", &["replies"]),
    ("openai-chat", &[]),
    ("openai-responses", &[]),
    ("sharegpt", &[]),
    ("sweagent-traj", &[]),
    ("vercel-uimessages", &[]),
    ("webui-export", &["children"]),
];

/// Every object of a value, without these fields and without fields that are null.
fn objects(value: &Value, apart: &[&str], found: &mut HashSet<String>) -> Value {
    match value {
        Value::Array(list) => list.iter().map(|v| objects(v, apart, found)).collect(),
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(k, v)| (k.clone(), objects(v, apart, found)));
            let fields: Vec<(String, Value)> = fields.collect();
            let kept = |(k, v): &(String, Value)| !v.is_null() && !apart.contains(&k.as_str());
            let value = Value::Object(fields.into_iter().filter(kept).collect());
            found.insert(value.to_string());
            if let (Some(role), Some(content)) = (value.get("role"), value.get("content")) {
                // An answer of a provider has more beside them.
                found.insert(serde_json::json!({"role": role, "content": content}).to_string());
            }
            value
        }
        other => other.clone(),
    }
}

fn plain(json: &Json, apart: &[&str]) -> String {
    let value: Value = serde_json::from_str(&json.0).unwrap();
    objects(&value, apart, &mut HashSet::new()).to_string()
}

/// The messages of a transcript that have a source, those of one source message together.
fn by_source(transcript: &Transcript) -> Vec<Vec<&Message>> {
    let mut groups: Vec<Vec<&Message>> = Vec::new();
    for step in &transcript.steps {
        let Step::Message { message, link, .. } = step else {
            continue;
        };
        // Instructions of a request stand in a field of it.
        let fields = [
            "anthropic",
            "openai-responses",
            "bedrock-converse",
            "gemini-contents",
        ];
        let in_field = fields.contains(&transcript.format) && message.role == Role::System;
        if message.source.is_none() || in_field {
            continue; // a prompt, or words that no message of the source is
        }
        let step = message.extra.iter().find(|(name, _)| name == MARK);
        let step = step.and_then(|(_, mark)| mark.0.trim_matches('"').parse::<u32>().ok());
        let further = step.is_some_and(|step| step > 0) || matches!(link, Link::SameSource(_));
        match groups.last_mut().filter(|_| further) {
            Some(group) => group.push(message),
            None => groups.push(vec![message]),
        }
    }
    groups
}

/// The text with the texts that lie beside its messages put back.
fn whole(text: &str) -> String {
    let mut whole = text.to_owned();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        let value = value.unwrap();
        let samples = value["samples"].as_array().cloned().unwrap_or_default();
        for sample in samples.iter().chain([&value]) {
            for (name, text) in sample["attachments"].as_object().into_iter().flatten() {
                whole = whole.replace(&format!("\"attachment://{name}\""), &text.to_string());
            }
        }
    }
    whole
}

/// Every message that has a source is given, and stands so in the source.
fn is_given(text: &str, transcripts: &[Transcript], apart: &[&str], place: &str) -> usize {
    let mut found = HashSet::new();
    let whole = whole(text);
    for value in serde_json::Deserializer::from_str(&whole).into_iter::<Value>() {
        objects(&value.unwrap(), apart, &mut found);
    }
    let (mut count, mut lost) = (0, Vec::new());
    for group in transcripts.iter().flat_map(by_source) {
        let json = given(&group).unwrap_or_else(|| panic!("{place}: {group:?}"));
        if !found.contains(&plain(&json, apart)) {
            lost.push(format!("{place}: {:.2000}", json.0));
        }
        count += group.len();
    }
    assert!(lost.is_empty(), "{}\n{}", lost.len(), lost[0]);
    count
}

#[test]
fn what_was_read_of_a_fixture_is_given_back() {
    for (format, apart) in GIVING {
        let (_, text) = FIXTURES.iter().find(|(f, _)| f == format).unwrap();
        let read = Format::from_name(format).unwrap();
        let read = read.read(&mut text.as_bytes(), "f", 1 << 20).unwrap();
        assert!(is_given(text, &read, apart, format) > 0, "{format}");
    }
}

#[test]
fn what_was_read_of_recorded_files_is_given_back() {
    for (format, apart) in GIVING {
        let folder = match *format {
            "anthropic" => "anthropic-messages",
            format => format,
        };
        let mut count = 0;
        for file in data(folder).unwrap_or_default() {
            let Ok(text) = std::fs::read_to_string(&file) else {
                continue;
            };
            let place = file.display().to_string();
            let whole = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
            if whole.into_iter().any(|value| value.is_err()) {
                continue; // damaged: what is left of it is read by other laws
            }
            count += is_given(&text, &read(&file).1, apart, &place);
        }
        println!("{format}: {count} messages given back");
    }
}

/// Which formats do not give, so that the page of formats says so.
#[test]
fn the_page_names_the_formats_whose_messages_are_not_given_back() {
    let page = include_str!("../../docs/FORMATS.md");
    let (_, section) = page.split_once("## What is given back").unwrap();
    let section = section.split("\n## ").next().unwrap();
    for format in Format::all() {
        let gives = GIVING.iter().any(|(name, _)| *name == format.name());
        let named = section.contains(&format!("`{}`", format.name()));
        assert_eq!(named, !gives, "{}", format.name());
    }
}
