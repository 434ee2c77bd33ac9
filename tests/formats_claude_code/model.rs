//! What the tests know about session files without the reader: lines, paths, windows.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ctxlog::formats::claude_code::{read, write_line};
use ctxlog::formats::input::RECORD_LIMIT;
use ctxlog::formats::{Link, Step, Transcript};
use ctxlog::log::Message;
use serde_json::{Value, json};

pub fn transcripts(text: &str) -> Vec<Transcript> {
    read(text.as_bytes(), "f.jsonl", RECORD_LIMIT).unwrap()
}

/// Every JSON value of the file, glued ones apart.
pub fn values(text: &str) -> Vec<Value> {
    let values = |line| serde_json::Deserializer::from_str(line).into_iter::<Value>();
    text.lines().flat_map(values).map(Result::unwrap).collect()
}

pub fn counted(values: impl IntoIterator<Item = Value>) -> BTreeMap<String, usize> {
    let mut out = BTreeMap::new();
    for value in values {
        *out.entry(value.to_string()).or_default() += 1;
    }
    out
}

/// The source lines that the transcripts' messages and summaries came from.
pub fn lines_given_back(transcripts: &[Transcript]) -> Vec<Value> {
    let mut groups: Vec<Vec<&Message>> = Vec::new();
    for step in transcripts.iter().flat_map(|t| &t.steps) {
        match step {
            Step::Message {
                message,
                link: Link::SameSource(_),
                ..
            } => {
                groups.last_mut().unwrap().push(message);
            }
            Step::Message { message, .. }
            | Step::Compacted {
                summary: message, ..
            } => {
                groups.push(vec![message]);
            }
            _ => {}
        }
    }
    let back = |group: Vec<&Message>| {
        serde_json::from_str(&write_line(&group).expect("read from a session file").0).unwrap()
    };
    groups.into_iter().map(back).collect()
}

/// The content of the notes.
pub fn noted(transcripts: &[Transcript]) -> Vec<Value> {
    let steps = transcripts.iter().flat_map(|t| &t.steps);
    let content = steps.filter_map(|step| match step {
        Step::Noted {
            content: Some(json),
            ..
        } => Some(serde_json::from_str(&json.0).unwrap()),
        _ => None,
    });
    content.collect()
}

/// Where and what the warnings are.
pub fn warnings(transcripts: &[Transcript]) -> Vec<String> {
    let steps = transcripts.iter().flat_map(|t| &t.steps);
    let told = steps.filter_map(|step| match step {
        Step::Noted {
            what,
            place,
            warn: true,
            ..
        } => Some(format!("{place} {what}")),
        _ => None,
    });
    told.collect()
}

pub fn begins_with(whole: &[Transcript], part: &[Transcript]) -> bool {
    part.len() <= whole.len()
        && part.iter().zip(whole).all(|(part, whole)| {
            (part.id == whole.id || part.id.is_none()) && whole.steps.starts_with(&part.steps)
        })
}

/// What a window holds, told by uuid.
#[derive(Default)]
pub struct Window {
    /// By message number: the uuid, and whether it stands in the window.
    messages: Vec<(String, bool)>,
}

impl Window {
    pub fn take(&mut self, step: &Step) {
        match step {
            Step::Message { message, .. } => self.messages.push((uuid(message), true)),
            Step::Rewound { gone, .. } => {
                for number in gone {
                    assert!(self.messages[*number].1, "{number} leaves twice");
                    self.messages[*number].1 = false;
                }
            }
            Step::Compacted { .. } => self.messages.iter_mut().for_each(|m| m.1 = false),
            _ => {}
        }
    }

    pub fn present(&self) -> BTreeSet<String> {
        self.messages
            .iter()
            .filter(|m| m.1)
            .map(|m| m.0.clone())
            .collect()
    }
}

fn uuid(message: &Message) -> String {
    message.source.as_ref().unwrap().id.clone().unwrap()
}

/// The message lines on the path to `leaf` back to the newest summary before it, with the other
/// blocks of their messages and the results of their calls.
pub fn path(lines: &[Value], leaf: &str) -> BTreeSet<String> {
    let by_uuid: HashMap<&str, &Value> = lines
        .iter()
        .filter_map(|v| Some((v["uuid"].as_str()?, v)))
        .collect();
    let mut out = BTreeSet::new();
    let mut at = by_uuid.get(leaf);
    while let Some(line) = at {
        if line["isCompactSummary"] == json!(true) {
            break;
        }
        if line["message"].is_object() {
            out.insert(line["uuid"].as_str().unwrap().to_owned());
        }
        let parent = line["parentUuid"]
            .as_str()
            .or(line["logicalParentUuid"].as_str());
        at = parent.and_then(|parent| by_uuid.get(parent));
    }
    with_results(lines, with_blocks(lines, with_spared(lines, out)))
}

/// With what a line that the client made itself stands beside, where no model answered it: such a
/// line is no retry, so a person's words beside it stay.
fn with_spared(lines: &[Value], mut out: BTreeSet<String>) -> BTreeSet<String> {
    let made = |v: &&Value| v["message"]["model"] == "<synthetic>";
    let on_path = |v: &&Value| v["uuid"].as_str().is_some_and(|u| out.contains(u));
    let beside: Vec<&Value> = lines.iter().filter(on_path).filter(made).collect();
    let mut spared = BTreeSet::new();
    for line in beside {
        let earlier = lines.iter().take_while(|v| *v != line);
        let mut below: BTreeSet<&str> = BTreeSet::new();
        let mut answered = false;
        for other in earlier {
            let parent = other["parentUuid"].as_str();
            let sibling = parent == line["parentUuid"].as_str();
            if sibling || parent.is_some_and(|p| below.contains(p)) {
                below.extend(other["uuid"].as_str());
                answered |= other["type"] == "assistant" && !made(&other);
            }
        }
        if !answered {
            let messages = lines.iter().filter(|v| v["message"].is_object());
            let uuids = messages.filter_map(|v| v["uuid"].as_str());
            spared.extend(uuids.filter(|u| below.contains(u)).map(str::to_owned));
        }
    }
    out.extend(spared);
    out
}

fn strings(blocks: &Value, kind: &str, name: &str) -> Vec<String> {
    let blocks = blocks.as_array().cloned().unwrap_or_default();
    let of_kind = blocks.iter().filter(|b| b["type"] == kind);
    of_kind
        .filter_map(|b| Some(b[name].as_str()?.to_owned()))
        .collect()
}

/// Adds every line that shares one of the values `of` tells with a line on the path.
fn with_shared(
    lines: &[Value],
    path: BTreeSet<String>,
    of: impl Fn(&Value) -> Vec<String>,
    to: impl Fn(&Value) -> Vec<String>,
) -> BTreeSet<String> {
    let uuid = |v: &Value| v["uuid"].as_str().unwrap_or_default().to_owned();
    let on_path = lines.iter().filter(|v| path.contains(&uuid(v)));
    let known: BTreeSet<String> = on_path.flat_map(of).collect();
    let joined = lines
        .iter()
        .filter(|v| to(v).iter().any(|value| known.contains(value)));
    path.iter().cloned().chain(joined.map(uuid)).collect()
}

fn with_blocks(lines: &[Value], path: BTreeSet<String>) -> BTreeSet<String> {
    let id = |v: &Value| {
        v["message"]["id"]
            .as_str()
            .map(str::to_owned)
            .into_iter()
            .collect()
    };
    with_shared(lines, path, id, id)
}

fn with_results(lines: &[Value], path: BTreeSet<String>) -> BTreeSet<String> {
    let calls = |v: &Value| strings(&v["message"]["content"], "tool_use", "id");
    let results = |v: &Value| strings(&v["message"]["content"], "tool_result", "tool_use_id");
    with_shared(lines, path, calls, results)
}

/// What only one of the sets holds.
pub fn difference(a: &BTreeSet<String>, b: &BTreeSet<String>) -> Vec<String> {
    a.symmetric_difference(b).cloned().collect()
}
