//! The `claude-code` reader against real session files and hand-made lines.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use ctxlog::formats::claude_code::{read, write_line};
use ctxlog::formats::input::RECORD_LIMIT;
use ctxlog::formats::{Link, Step, Transcript};
use ctxlog::log::{Author, Message};
use serde_json::{Value, json};

// ---- the files ----

fn session_files() -> Vec<(String, String)> {
    let data = std::env::var_os("CTXLOG_DATA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data"),
        PathBuf::from,
    );
    let Ok(entries) = std::fs::read_dir(data.join("claude-code")) else {
        println!("skipped: no transcripts");
        return Vec::new();
    };
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    files.sort();
    files
}

fn transcripts(text: &str) -> Vec<Transcript> {
    read(text.as_bytes(), "f.jsonl", RECORD_LIMIT).unwrap()
}

/// Every JSON value of the file, glued ones apart.
fn values(text: &str) -> Vec<Value> {
    let values = |line| serde_json::Deserializer::from_str(line).into_iter::<Value>();
    text.lines().flat_map(values).map(Result::unwrap).collect()
}

fn counted(values: impl IntoIterator<Item = Value>) -> BTreeMap<String, usize> {
    let mut out = BTreeMap::new();
    for value in values {
        *out.entry(value.to_string()).or_default() += 1;
    }
    out
}

/// The source lines that the transcripts' messages and summaries came from.
fn lines_given_back(transcripts: &[Transcript]) -> Vec<Value> {
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

#[test]
fn every_line_with_a_message_is_given_back() {
    for (name, text) in session_files() {
        let lines = values(&text)
            .into_iter()
            .filter(|v| v.get("message").is_some());
        assert_eq!(
            counted(lines_given_back(&transcripts(&text))),
            counted(lines),
            "{name}"
        );
    }
}

#[test]
fn every_other_line_is_noted() {
    for (name, text) in session_files() {
        let lines = values(&text)
            .into_iter()
            .filter(|v| v.get("message").is_none());
        let read = transcripts(&text);
        let notes = read
            .iter()
            .flat_map(|t| &t.steps)
            .filter_map(|step| match step {
                Step::Noted {
                    content: Some(json),
                    ..
                } => Some(serde_json::from_str(&json.0).unwrap()),
                _ => None,
            });
        assert_eq!(counted(notes), counted(lines), "{name}");
    }
}

fn begins_with(whole: &[Transcript], part: &[Transcript]) -> bool {
    part.len() <= whole.len()
        && part.iter().zip(whole).all(|(part, whole)| {
            (part.id == whole.id || part.id.is_none()) && whole.steps.starts_with(&part.steps)
        })
}

#[test]
fn a_file_that_grew_begins_with_the_steps_it_had() {
    for (name, text) in session_files() {
        let whole = transcripts(&text);
        let ends: Vec<usize> = text.match_indices('\n').map(|(i, _)| i + 1).collect();
        let stride = (ends.len() * text.len() / 20_000_000).max(1) * 2 - 1;
        for end in ends.iter().step_by(stride) {
            assert!(
                begins_with(&whole, &transcripts(&text[..*end])),
                "{name} to byte {end}"
            );
        }
    }
}

// ---- windows ----

/// What a window holds, told by uuid.
#[derive(Default)]
struct Window {
    /// By message number: the uuid, and whether it stands in the window.
    messages: Vec<(String, bool)>,
}

impl Window {
    fn take(&mut self, step: &Step) {
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

    fn present(&self) -> BTreeSet<String> {
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
fn path(lines: &[Value], leaf: &str) -> BTreeSet<String> {
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
    with_results(lines, with_blocks(lines, out))
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
fn difference(a: &BTreeSet<String>, b: &BTreeSet<String>) -> Vec<String> {
    a.symmetric_difference(b).cloned().collect()
}

/// The message line a compaction summarises up to: by its logical parent, else by file order.
fn leaf_of<'a>(lines: &'a [Value], boundary: &'a Value) -> &'a str {
    let logical = boundary["logicalParentUuid"].as_str();
    if let Some(leaf) = logical.filter(|leaf| lines.iter().any(|v| v["uuid"] == *leaf)) {
        return leaf;
    }
    let before = lines.iter().take_while(|v| *v != boundary);
    before.filter(|v| v["message"].is_object()).last().unwrap()["uuid"]
        .as_str()
        .unwrap()
}

/// Checks the window before each compaction and the last one; tells how many were checked.
fn check_windows(name: &str, text: &str) -> usize {
    let lines = values(text);
    let mut boundaries = lines.iter().filter(|v| v["subtype"] == "compact_boundary");
    let mut window = Window::default();
    let mut checked = 1;
    for step in &transcripts(text)[0].steps {
        if matches!(step, Step::Compacted { .. }) {
            let leaf = leaf_of(&lines, boundaries.next().unwrap());
            let wrong = difference(&window.present(), &path(&lines, leaf));
            assert!(wrong.is_empty(), "{name}, before {leaf}: {wrong:?}");
            checked += 1;
        }
        window.take(step);
    }
    assert!(
        boundaries.next().is_none(),
        "{name}: a compaction is missing"
    );
    let leaf = lines
        .iter()
        .rev()
        .find(|v| v["message"].is_object())
        .unwrap();
    let wrong = difference(
        &window.present(),
        &path(&lines, leaf["uuid"].as_str().unwrap()),
    );
    assert!(wrong.is_empty(), "{name}, at its end: {wrong:?}");
    checked
}

#[test]
fn a_window_holds_the_messages_on_the_path_to_it_and_no_others() {
    let sessions: Vec<_> = session_files()
        .into_iter()
        .filter(|(name, _)| name.starts_with("entire-"))
        .collect();
    let checked: usize = sessions
        .iter()
        .map(|(name, text)| check_windows(name, text))
        .sum();
    assert!(
        sessions.is_empty() || checked > sessions.len(),
        "no compaction was seen"
    );
}

#[test]
fn a_call_stands_before_each_model_message_and_nowhere_else() {
    for (name, text) in session_files() {
        for transcript in transcripts(&text) {
            let (mut calls, mut returns, mut answers) = (0, 0, 0);
            for step in &transcript.steps {
                match step {
                    Step::Called { .. } => {
                        assert_eq!(calls, answers, "{name}: a call without an answer");
                        calls += 1;
                    }
                    Step::Message {
                        message,
                        link: Link::None,
                        ..
                    } if message.author == Author::Model => {
                        answers += 1;
                        assert_eq!(calls, answers, "{name}: an answer without a call");
                    }
                    Step::Returned { usage, .. } => {
                        assert!(usage.is_some());
                        returns += 1;
                        assert_eq!(returns, calls, "{name}: what returned is of another call");
                    }
                    _ => {}
                }
            }
            assert!(
                calls - returns <= 1,
                "{name}: {calls} calls, {returns} returned"
            );
        }
    }
}
