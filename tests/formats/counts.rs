//! The counts of the page beside the recorded files. Where ours differ, docs/FORMATS.md says why, and
//! [`DIFFERENT`] by how much.

use std::collections::BTreeMap;
use std::path::Path;

use ctxlog::formats::input::{RECORD_LIMIT, pieces};
use ctxlog::formats::{Begins, Format, Link, Step, Transcript, detect, json};
use ctxlog::log::{Json, PartBody};

use super::files::{data, folders};

/// Conversations, messages and calls.
type Counts = (usize, usize, usize);

/// Files whose counts differ, with ours and the reason as docs/FORMATS.md has it.
const DIFFERENT: &[(&str, Counts, &str)] = &[
    (
        "claude-code/agentcmd-individual-lines.jsonl",
        (8, 21, 15),
        LINES,
    ),
    ("claude-code/ccl-devdocs-lines.jsonl", (18, 53, 18), LINES),
    (
        "claude-code/ccl-representative-messages.jsonl",
        (4, 11, 2),
        LINES,
    ),
    (
        "claude-code/entire-a64c933a.jsonl",
        (2, 610, 218),
        "a sub-agent told in progress lines is a conversation",
    ),
    (
        "codex-exec-stream/agentcmd-stream-output-2.jsonl",
        (1, 4, 1),
        RAN,
    ),
    (
        "codex-exec-stream/agentcmd-stream-output-4.jsonl",
        (1, 5, 1),
        RAN,
    ),
    (
        "codex-rollout/agentcmd-individual-lines.jsonl",
        (1, 7, 3),
        EVENTS,
    ),
    ("codex-rollout/ccl-devdocs-cases.jsonl", (7, 14, 6), EVENTS),
    (
        "inspect-log/inspect-utility-workflow-generate.json",
        (5, 15, 0),
        "events without a sample are a conversation for each call",
    ),
    (
        "mini-swe-traj/pr816-ds-chat-dev-sqlfluff-sqlfluff-1763.json",
        (1, 201, 100),
        EXIT,
    ),
    (
        "mini-swe-traj/pr816-ds-chat-test-1-100-django-django-13265.json",
        (1, 313, 156),
        EXIT,
    ),
    (
        "mini-swe-traj/pr816-ds-chat-test-1-100-django-django-15790.json",
        (1, 113, 56),
        EXIT,
    ),
    (
        "mini-swe-traj/pr816-ds-lite-dev-pvlib-pvlib-python-1854.json",
        (1, 113, 56),
        EXIT,
    ),
    (
        "mini-swe-traj/pr816-ds-reasoner-dev-sqlfluff-sqlfluff-1733.json",
        (1, 290, 144),
        EXIT,
    ),
    (
        "sharegpt/lf-dpo-zh-demo.json",
        (120, 381, 0),
        "both endings are messages",
    ),
    (
        "openai-chat/pydantic-a.jsonl",
        (81, 303, 75),
        "a call without a name is none",
    ),
    (
        "chatgpt-export/librechat-chatgpt-export.json",
        (2, 21, 4),
        "a word to a tool is a call of it",
    ),
    (
        "bedrock-converse/pydantic-a.jsonl",
        (47, 179, 33),
        "calls of a tool that the provider runs",
    ),
    ("gemini-cli/entire-114fcee3.json", (1, 15, 7), NOTICES),
    ("gemini-cli/entire-14e52a66.json", (1, 8, 1), NOTICES),
    ("gemini-cli/entire-15e9bccc.json", (1, 7, 2), NOTICES),
    ("gemini-cli/entire-5031c97c.json", (1, 13, 6), NOTICES),
    ("gemini-cli/entire-fb1968c9.json", (1, 10, 3), NOTICES),
    (
        "langgraph-checkpoints/tau-history-a0.json",
        (1, 16, 2),
        STATES,
    ),
    (
        "langgraph-checkpoints/tau-history-a1.json",
        (1, 16, 3),
        STATES,
    ),
    (
        "langgraph-checkpoints/tau-history-a2.json",
        (1, 17, 5),
        STATES,
    ),
    (
        "letta-af/letta-test-agent.json",
        (1, 16, 11),
        "decisions about calls are no messages",
    ),
    (
        "openhands-events/ohtab-mi5tpdrd.jsonl",
        (1, 5, 1),
        "a call without a name is none",
    ),
];
const RAN: &str = "a command that ran is a call and its result";
const EVENTS: &str = "events that repeat items are no messages, items are";
const EXIT: &str = "the message of the role 'exit' is none";
const STATES: &str = "messages of every state count, once each";
const NOTICES: &str = "notices of the program are no messages";
const LINES: &str = "lines of one session are one conversation";

/// Files that show nothing of the format whose folder they lie in, and what they are read as.
pub const READ_AS: &[(&str, &str)] = &[("mini-swe-traj/mini-github-issue.json", "openai-chat")];

/// The page's counts by file.
fn expected() -> Option<BTreeMap<String, Counts>> {
    let text = page_of_files()?;
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(" | ").collect();
        let file = cells.first()?.strip_prefix("| ")?;
        let counts = cells.get(7)?;
        let numbers: Vec<usize> = counts.split(" / ").map_while(|n| n.parse().ok()).collect();
        match numbers[..] {
            [conversations, messages, calls, ..] if file.contains('/') => {
                Some((file.to_owned(), (conversations, messages, calls)))
            }
            _ => None,
        }
    };
    Some(text.lines().filter_map(row).collect())
}

fn page_of_files() -> Option<String> {
    let folders = data("")?;
    let page = folders.iter().find(|f| f.ends_with("README.md"))?;
    Some(std::fs::read_to_string(page).unwrap())
}

/// What a file holds: each source message once, also where branches share it.
fn counted(transcripts: &[Transcript]) -> Counts {
    let mut counts = (0, 0, 0);
    for transcript in transcripts {
        let own = match transcript.begins {
            Begins::Branch { shared, .. } => shared,
            _ => 0,
        };
        let before = counts.1;
        for step in &transcript.steps[own..] {
            let (message, again) = match step {
                Step::Message { message, link, .. } => {
                    (message, matches!(link, Link::SameSource(_)))
                }
                Step::Compacted { summary, .. } => (summary, false),
                _ => continue,
            };
            counts.1 += usize::from(!again);
            let is_call = |body: &PartBody| matches!(body, PartBody::Call { native: None, .. });
            counts.2 += message.parts.iter().filter(|p| is_call(&p.body)).count();
        }
        // Branches are counted with their conversation.
        counts.0 += usize::from(own == 0 && counts.1 > before);
    }
    counts
}

pub fn read(file: &Path) -> (Format, Vec<Transcript>) {
    read_bytes(file, &std::fs::read(file).unwrap())
}

fn read_bytes(file: &Path, bytes: &[u8]) -> (Format, Vec<Transcript>) {
    let found: Vec<_> = pieces(bytes, "f", RECORD_LIMIT)
        .take(200)
        .map(Result::unwrap)
        .collect();
    let format = detect(&found).unwrap_or_else(|| panic!("{}: no format", file.display()));
    let read = format.read(&mut &*bytes, "f", RECORD_LIMIT);
    (format, read.unwrap())
}

/// The parts of a file that are of one format each: the whole of it, or each record where records
/// name formats that differ.
pub fn parts(file: &Path) -> Vec<(Format, Vec<Transcript>)> {
    let bytes = std::fs::read(file).unwrap();
    let mut records = Vec::new();
    for piece in pieces(bytes.as_slice(), "f", RECORD_LIMIT) {
        let record = piece.unwrap().value.ok();
        let named = record.as_ref().and_then(json::object);
        let named = named.and_then(|fields| json::text_field(&fields, "format"));
        records.extend(named.and_then(|name| Some((Format::from_name(&name)?, record?))));
    }
    if records.iter().all(|(format, _)| *format == records[0].0) {
        return vec![read_bytes(file, &bytes)];
    }
    let read = |(named, record): (Format, Json)| {
        let (format, transcripts) = read_bytes(file, record.0.as_bytes());
        assert_eq!(format, named, "{}", file.display());
        (format, transcripts)
    };
    records.into_iter().map(read).collect()
}

/// Every recorded transcript of every format, with its number in its file and the file's place.
pub fn every(mut check: impl FnMut(Format, (usize, &Transcript), &str)) {
    for folder in folders().unwrap_or_default() {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        for file in data(&name).unwrap() {
            for (format, transcripts) in parts(&file) {
                let place = file.display().to_string();
                let told = transcripts.iter().enumerate();
                told.for_each(|one| check(format, one, &place));
            }
        }
    }
}

#[test]
fn every_file_holds_what_the_page_beside_it_counts() {
    let Some(expected) = expected() else { return };
    assert!(expected.len() > 100, "the page has a row a file");
    let mut wrong = Vec::new();
    for (name, counts) in &expected {
        let (folder, file) = name.split_once('/').unwrap();
        let file = data(folder)
            .unwrap()
            .into_iter()
            .find(|f| f.ends_with(file));
        let parts = parts(&file.unwrap_or_else(|| panic!("no {name}")));
        let transcripts: Vec<Transcript> = parts.into_iter().flat_map(|(_, told)| told).collect();
        let ours = counted(&transcripts);
        let different = DIFFERENT.iter().find(|(file, ..)| file == name);
        let expected = different.map_or(*counts, |(_, ours, _)| *ours);
        if ours != expected {
            wrong.push(format!("{name}: {ours:?}, not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_difference_is_explained() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/FORMATS.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    for (file, format) in READ_AS {
        assert!(docs.contains(file), "no word of {file}");
        assert!(docs.contains(&format!("read as `{format}`")), "{file}");
    }
    for (file, _, why) in DIFFERENT {
        assert!(
            docs.contains(file),
            "docs/FORMATS.md says nothing of {file}"
        );
        assert!(docs.contains(why), "docs/FORMATS.md does not say '{why}'");
    }
}
