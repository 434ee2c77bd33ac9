//! Laws over the real session files.

use std::collections::BTreeSet;

use ctxlog::formats::input::{RECORD_LIMIT, pieces};
use ctxlog::formats::{Format, Link, Step, detect};
use ctxlog::log::Author;
use serde_json::Value;

use crate::data::data;
use crate::model::{
    Window, begins_with, counted, difference, lines_given_back, noted, path, transcripts, values,
};

fn session_files() -> Vec<(String, String)> {
    let files = data("claude-code").unwrap_or_default().into_iter();
    files
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect()
}

/// A line, and where it tells of a sub-agent also that one's line, as that one's own file has it.
fn told(mut line: Value) -> Vec<Value> {
    let tells = line["type"] == "progress" && line["data"]["type"] == "agent_progress";
    if !tells || !line["data"]["message"].is_object() {
        return vec![line];
    }
    let mut inner = line["data"]["message"].take();
    line["data"].as_object_mut().unwrap().remove("message");
    inner["sessionId"] = line["sessionId"].clone();
    inner["agentId"] = line["data"]["agentId"].clone();
    inner["isSidechain"] = true.into();
    vec![line, inner]
}

#[test]
fn every_line_with_a_message_is_given_back_and_every_other_is_noted() {
    for (name, text) in session_files() {
        let read = transcripts(&text);
        let mut seen = BTreeSet::new();
        let lines = values(&text).into_iter().flat_map(told);
        let (said, other): (Vec<_>, Vec<_>) = lines.partition(|line| {
            let repeats = line["uuid"]
                .as_str()
                .is_some_and(|uuid| !seen.insert(uuid.to_owned()));
            line["message"].is_object() && !repeats
        });
        assert_eq!(counted(lines_given_back(&read)), counted(said), "{name}");
        assert_eq!(counted(noted(&read)), counted(other), "{name}");
    }
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

#[test]
fn every_session_file_is_detected() {
    for (name, text) in session_files() {
        let pieces: Vec<_> = pieces(text.as_bytes(), &name, RECORD_LIMIT)
            .map(Result::unwrap)
            .collect();
        assert_eq!(detect(&pieces), Format::from_name("claude-code"), "{name}");
    }
}
