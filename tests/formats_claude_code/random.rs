//! Laws over random session files.

use std::collections::BTreeSet;

use ctxlog::formats::Step;
use ctxlog::formats::claude_code::read;
use ctxlog::formats::input::RECORD_LIMIT;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use crate::lines::{calls, event, file, result, user, with};
use crate::model::{
    Window, begins_with, counted, difference, lines_given_back, noted, path, transcripts, values,
    warnings,
};

#[derive(Clone, Copy, Debug)]
enum Kind {
    Person,
    Answer,
    /// A further block of the message it hangs on.
    Block,
    Result,
    Note,
    Summary,
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        4 => Just(Kind::Person),
        4 => Just(Kind::Answer),
        3 => Just(Kind::Block),
        4 => Just(Kind::Result),
        2 => Just(Kind::Note),
        1 => Just(Kind::Summary),
    ]
}

/// A line's kind and which of the lines before it it hangs on; `None`: the newest.
type Draft = (Kind, Option<Index>);

fn drafts() -> impl Strategy<Value = Vec<Draft>> {
    let parent = prop_oneof![2 => Just(None), 1 => any::<Index>().prop_map(Some)];
    prop::collection::vec((kinds(), parent), 1..30)
}

fn text<'a>(line: &'a Value, name: &str) -> &'a str {
    line[name].as_str().unwrap_or_default()
}

fn pick<'a>(lines: &[&'a Value], at: Option<Index>) -> Option<&'a Value> {
    match at {
        Some(index) if !lines.is_empty() => Some(lines[index.index(lines.len())]),
        _ => lines.last().copied(),
    }
}

/// The lines this draft adds, hanging on one of `open`.
fn draw(number: usize, (kind, at): Draft, open: &[&Value]) -> Vec<Value> {
    let uuid = format!("u{number}");
    let models: Vec<&Value> = open
        .iter()
        .copied()
        .filter(|line| line["type"] == "assistant")
        .collect();
    let on = pick(open, at).map_or("", |line| text(line, "uuid"));
    let call = pick(&models, at);
    match (kind, call) {
        (Kind::Person, _) => vec![user(&uuid, on, &uuid)],
        (Kind::Block, Some(head)) => {
            let id = text(&head["message"], "id");
            vec![calls(&uuid, text(head, "uuid"), id, &format!("c{number}"))]
        }
        (Kind::Result, Some(call)) => {
            let id = text(&call["message"]["content"][0], "id");
            vec![result(&uuid, text(call, "uuid"), id)]
        }
        (Kind::Note, _) => vec![event(&uuid, on, "local_command")],
        (Kind::Summary, _) => {
            let boundary = event(&format!("k{number}"), "", "compact_boundary");
            let summary = user(&uuid, &format!("k{number}"), "so far");
            vec![
                with(boundary, "logicalParentUuid", json!(on)),
                with(summary, "isCompactSummary", json!(true)),
            ]
        }
        (Kind::Answer | Kind::Block | Kind::Result, _) => {
            vec![calls(
                &uuid,
                on,
                &format!("m{number}"),
                &format!("c{number}"),
            )]
        }
    }
}

/// A file that never returns to what it left: every line hangs on the path as it is then.
/// Returns the lines, and the line the window belongs to.
fn tidy(drafts: &[Draft]) -> (Vec<Value>, String) {
    let mut lines = vec![user("root", "", "go")];
    let mut leaf = "root".to_owned();
    for (number, draft) in drafts.iter().enumerate() {
        let on_path: BTreeSet<String> = path(&lines, &leaf);
        let start = lines
            .iter()
            .rposition(|line| line["isCompactSummary"] == json!(true));
        let summary = start.map(|at| text(&lines[at], "uuid").to_owned());
        let is_open = |line: &&Value| {
            let uuid = text(line, "uuid");
            on_path.contains(uuid) || Some(uuid) == summary.as_deref()
        };
        let open: Vec<&Value> = lines.iter().filter(is_open).collect();
        let added = draw(number, *draft, &open);
        let newest = added.last().unwrap().clone();
        let is_result = newest["message"]["content"][0]["type"] == "tool_result";
        let id = &newest["message"]["id"];
        let is_block = id.is_string() && lines.iter().any(|line| line["message"]["id"] == *id);
        if newest["message"].is_object() && !is_result && !is_block {
            text(&newest, "uuid").clone_into(&mut leaf);
        }
        lines.extend(added);
    }
    (lines, leaf)
}

/// The window at the end of a file of one conversation without damage.
fn last_window(lines: &[Value]) -> BTreeSet<String> {
    let transcripts = transcripts(&file(lines));
    assert_eq!((transcripts.len(), warnings(&transcripts)), (1, Vec::new()));
    let mut window = Window::default();
    transcripts[0]
        .steps
        .iter()
        .for_each(|step| window.take(step));
    window.present()
}

/// A file whose lines hang anywhere, with damage strewn in.
fn wild(drafts: &[Draft], marks: &[u8]) -> Vec<String> {
    let mut lines: Vec<Value> = Vec::new();
    let mut out = Vec::new();
    for ((number, draft), mark) in drafts.iter().enumerate().zip(marks.iter().cycle()) {
        let open: Vec<&Value> = lines.iter().collect();
        for line in draw(number, *draft, &open) {
            let line = match mark {
                0 => with(line, "parentUuid", json!("nowhere")),
                1 => with(line, "isSidechain", json!(true)),
                2 => with(line, "sessionId", json!("other")),
                3 => with(line, "uuid", json!("u0")),
                4 => with(line, "parentUuid", Value::Null),
                5 => with(line, "sessionId", Value::Null),
                6 => with(
                    line,
                    "message",
                    json!({"role": "user", "content": [1, "x", null]}),
                ),
                _ => line,
            };
            out.push(match mark {
                7 => format!("{line}{line}"),
                8 => line.to_string().chars().take(40).collect(),
                _ => line.to_string(),
            });
            lines.push(line);
        }
    }
    out
}

proptest! {
    #[test]
    fn a_window_holds_the_path_and_what_belongs_with_it(drafts in drafts()) {
        let (lines, leaf) = tidy(&drafts);
        let (present, path) = (last_window(&lines), path(&lines, &leaf));
        prop_assert!(present.is_superset(&path), "{leaf}: {:?} in\n{}",
            difference(&present, &path), file(&lines));
    }

    #[test]
    fn a_window_holds_nothing_beside_the_path_where_no_batch_blurs_it(drafts in drafts()) {
        let plain = |(kind, _): &Draft| !matches!(kind, Kind::Block | Kind::Result);
        let drafts: Vec<Draft> = drafts.into_iter().filter(plain).collect();
        let (lines, leaf) = tidy(&drafts);
        let wrong = difference(&last_window(&lines), &path(&lines, &leaf));
        prop_assert!(wrong.is_empty(), "{leaf}: {wrong:?} in\n{}", file(&lines));
    }

    #[test]
    fn a_random_file_that_grew_begins_with_the_steps_it_had(
        drafts in drafts(), marks in prop::collection::vec(0_u8..20, 1..30),
    ) {
        let lines = wild(&drafts, &marks);
        let whole = transcripts(&(lines.join("\n") + "\n"));
        for end in 0..=lines.len() {
            let part: String = lines[..end].iter().flat_map(|line| [line, "\n"]).collect();
            prop_assert!(begins_with(&whole, &transcripts(&part)), "{part}");
        }
    }

    #[test]
    fn a_random_file_that_grew_by_any_byte_begins_with_the_steps_it_had(
        drafts in drafts(), marks in prop::collection::vec(0_u8..20, 1..30), at in any::<Index>(),
    ) {
        let text = wild(&drafts, &marks).join("\n") + "\n";
        let whole = transcripts(&text);
        let end = at.index(text.len());
        let mut part = read(&text.as_bytes()[..end], "f.jsonl", RECORD_LIMIT).unwrap();
        for transcript in &mut part {
            if transcript.steps.last().is_some_and(Step::is_unfinished) {
                transcript.steps.pop();
            }
            prop_assert!(!transcript.steps.iter().any(Step::is_unfinished));
        }
        part.retain(|t| !t.steps.is_empty());
        prop_assert!(begins_with(&whole, &part), "{end} of {text}");
    }

    #[test]
    fn no_line_of_a_random_file_is_lost(
        drafts in drafts(), marks in prop::collection::vec(0_u8..20, 1..30),
    ) {
        let lines: Vec<String> =
            wild(&drafts, &marks).into_iter().filter(|line| line.ends_with('}')).collect();
        let text = lines.join("\n");
        let read = transcripts(&text);
        let kept = lines_given_back(&read).into_iter().chain(noted(&read));
        prop_assert_eq!(counted(kept), counted(values(&text)));
        let ids: BTreeSet<_> = read.iter().map(|t| &t.id).collect();
        prop_assert_eq!(ids.len(), read.len(), "names repeat");
        for transcript in &read {
            let mut window = Window::default();
            transcript.steps.iter().for_each(|step| window.take(step));
        }
    }

    #[test]
    fn no_bytes_stop_the_reader(bytes in prop::collection::vec(prop_oneof![
        prop::sample::select(b"{}[]\",:\\\n 1a".to_vec()), any::<u8>()], 0..200)) {
        prop_assert!(read(bytes.as_slice(), "f", RECORD_LIMIT).is_ok());
        prop_assert!(read(bytes.as_slice(), "f", 8).is_ok());
    }
}
