//! What every command prints, for people and for programs, at 80 and at 120 columns, with and without
//! colour; and the page of all flags.
//!
//! A new command needs a line in [`CASES`]; `CTXLOG_SNAPSHOTS=write cargo test --test cli snapshots` writes
//! its file, to be read before it is committed. What no run repeats (ids, hashes, salts, times of now) is
//! masked, at its width.

#![allow(clippy::format_push_string, reason = "shorter to read in tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use super::proving::subcommands;
use super::support::Place;

/// Name of the file, and the command line after `ctxlog`. Each is run on a fresh copy of the demo.
const CASES: &[(&str, &str)] = &[
    ("append", "append --role user --text hello"),
    ("bisect", "bisect -- grep -q lookup"),
    ("call", "call"),
    ("checkpoint", "checkpoint"),
    ("clear", "clear"),
    ("compact", "compact --into new"),
    ("completions", "completions fish"),
    ("context", "context m30"),
    ("demo", "demo"),
    ("diff", "diff it:30 it:38 --words"),
    ("export", "export --at it:3 --format anthropic"),
    ("export-log", "export -o out.jsonl"),
    ("fork", "fork it:26 --as keep-orders"),
    ("grep", "grep refund"),
    (
        "import",
        "import talk.json --strategy sliding-window:keep=2",
    ),
    ("lint", "lint --provider anthropic"),
    ("log", "log @-12.."),
    ("ls", "ls"),
    ("man", "man"),
    ("pin", "pin m101"),
    ("recall", "recall m30"),
    ("redact", "redact m30 --yes"),
    ("redact-dry", "redact m30 --dry-run"),
    ("replace", "replace 2..4 --text shorter"),
    ("report", "report --input 10 --output 5"),
    ("restore", "restore m30"),
    ("self-test", "self-test --help"),
    ("scan", "scan --home home"),
    ("show", "show m30"),
    (
        "simulate",
        "simulate --strategy sliding-window:keep=4 --strategy token-budget:limit=900",
    ),
    ("status", "status"),
    ("status-all", "status --all"),
    ("unpin", "unpin m101"),
    ("verify", "verify"),
    ("verify-checkpoint", "verify --checkpoint kept"),
    ("verify-copy", "verify --copy --copy-to room"),
    ("why", "why m30"),
    ("window", "window"),
    ("window-text", "window --at it:3 --format text"),
];

/// As long as the definition of the flags, which tests of its own look at: their beginnings are kept.
const LONG: &[&str] = &["completions", "man", "self-test"];

/// What a command did, under each of the ways to look.
fn shown(demo: &Path, case: &str) -> String {
    let mut text = format!("$ ctxlog {case}\n");
    let mut json: Option<String> = None;
    for columns in ["80", "120"] {
        for color in ["never", "always"] {
            text += &format!("\n=== {columns} columns, colour {color}\n");
            text += &run(demo, case, columns, color, false);
            if case.ends_with("--help") {
                continue; // the same words
            }
            let now = run(demo, case, columns, color, true);
            if *json.get_or_insert_with(|| now.clone()) != now {
                text += "=== its JSON depends on the terminal, or differs from run to run\n";
                text += &now;
            }
        }
    }
    text += "\n=== JSON\n";
    text + &json.unwrap_or_default()
}

fn run(demo: &Path, case: &str, columns: &str, color: &str, json: bool) -> String {
    let place = Place::new();
    copy(demo, &place.store());
    place.write("talk.json", TALK);
    if case.contains("kept") {
        place.write("kept", place.run(&["checkpoint"]).done().out);
    }
    if case.starts_with("unpin") {
        place.run(&["pin", "m101"]).done();
    }
    if case.starts_with("scan") {
        let session = "home/.claude/projects/-data-shop/3f2a9c1e-5b7d-4e21-9c3a-000000000001.jsonl";
        fs::create_dir_all(place.path(session).parent().unwrap()).unwrap();
        place.write(session, SESSION);
        let file = fs::File::options().append(true).open(place.path(session));
        let then = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        file.unwrap().set_modified(then).unwrap();
    }
    fs::create_dir(place.path("room")).unwrap();
    // Before the command: what it runs itself takes all that is behind it.
    let mut arguments = vec!["--color", color];
    arguments.extend(json.then_some("--json"));
    arguments.extend(case.split(' '));
    let output = place
        .command(&arguments)
        .env("COLUMNS", columns)
        .output()
        .unwrap();
    let masked = |bytes: Vec<u8>| mask(&String::from_utf8(bytes).unwrap());
    let mut text = masked(output.stdout);
    let errors = masked(output.stderr);
    if !errors.is_empty() {
        text += &format!("--- stderr\n{errors}");
    }
    match output.status.code() {
        Some(0) => {}
        code => text += &format!("--- exit {code:?}\n"),
    }
    text
}

const SESSION: &str = r#"{"type":"user","uuid":"a","parentUuid":null,"sessionId":"s","cwd":"/data/shop","message":{"role":"user","content":"Why is the cart empty?"}}
{"type":"system","subtype":"compact_boundary","uuid":"b","parentUuid":null,"logicalParentUuid":"a","sessionId":"s"}
"#;

const TALK: &str = r#"{"messages": [
    {"role": "system", "content": "Be brief."}, {"role": "user", "content": "One?"},
    {"role": "assistant", "content": "Two."}, {"role": "user", "content": "Three?"},
    {"role": "assistant", "content": "Four."}]}"#;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The text without what differs between two runs; escapes become `\e`.
fn mask(text: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    let mut escape = false;
    for c in text.chars().chain(['\n']) {
        if escape {
            out.push(c);
            escape = c != 'm';
            continue;
        }
        if c.is_ascii_alphanumeric() || "+/=:._-".contains(c) {
            word.push(c);
            continue;
        }
        out += &masked(&word);
        word.clear();
        escape = c == '\u{1b}';
        match c {
            '\u{1b}' => out += "\\e",
            c => out.push(c),
        }
    }
    out.pop();
    sizes(&out)
}

/// The text without sizes of files, which differ with what their contents pack to.
fn sizes(text: &str) -> String {
    let mut out = String::new();
    let number = |c: char| c.is_ascii_digit() || c == '.';
    for part in text.split_inclusive(" KiB") {
        match part.strip_suffix(" KiB") {
            Some(before) => out += &format!("{}N KiB", before.trim_end_matches(number)),
            None => out += part,
        }
    }
    for field in ["\"bytes_before\":", "\"bytes_after\":"] {
        if let Some((before, after)) = out.split_once(field) {
            out = format!("{before}{field}0{}", after.trim_start_matches(number));
        }
    }
    out
}

/// A word as it is, or a mask of its width where it is a hash, an id, bytes or a time of now.
fn masked(word: &str) -> String {
    let hex = |w: &str| w.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
    let bare = word.trim_end_matches(['.', ':']);
    if [8, 32, 64].contains(&bare.len()) && hex(bare) {
        return word.replace(bare, &"h".repeat(bare.len()));
    }
    if let Some(id) = word.strip_prefix("ctxlog/")
        && id.len() == 32
    {
        return format!("ctxlog/{}", "h".repeat(32));
    }
    // Within JSON it stands behind an escaped line end.
    if [44, 45].contains(&word.len()) && word.ends_with('=') {
        return word.chars().take(word.len() - 44).collect::<String>() + &"B".repeat(44);
    }
    // The demo's own times are of 2025 and early 2026, at whole seconds.
    if word.len() == 27 && word.ends_with('Z') && word.contains('.') {
        return "NOW".to_owned();
    }
    if word == env!("CARGO_BIN_EXE_ctxlog") {
        return "ctxlog".to_owned();
    }
    if word.contains("ctxlog-copy-") {
        return "COPY".to_owned();
    }
    word.to_owned()
}

/// The first lines of each section, cut to a width.
fn beginnings(text: &str) -> String {
    let cut = |line: &str| line.chars().take(200).collect::<String>() + "\n";
    let section = |part: &str| part.lines().take(8).map(cut).collect::<String>();
    let sections: Vec<String> = text.split("\n=== ").map(section).collect();
    sections.join("\n=== ")
}

fn file(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/snapshots");
    dir.join(format!("{name}.txt"))
}

fn writes() -> bool {
    std::env::var_os("CTXLOG_SNAPSHOTS").is_some_and(|v| v == "write")
}

/// Compares with a file of the repository, or writes it.
fn agrees(path: &Path, text: &str) -> bool {
    if writes() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        return true;
    }
    let wanted = fs::read_to_string(path).unwrap_or_default();
    if wanted == text {
        return true;
    }
    let differs = wanted.lines().zip(text.lines()).find(|(a, b)| a != b);
    eprintln!(
        "{} is not what is printed now:\n{differs:#?}",
        path.display()
    );
    false
}

#[test]
fn every_command_prints_what_its_snapshot_says() {
    let demo = Place::new();
    demo.run(&["demo"]).done();
    let mut wrong = Vec::new();
    for (name, case) in CASES {
        let mut text = shown(&demo.store(), case);
        if LONG.contains(name) {
            text = beginnings(&text);
        }
        if !agrees(&file(name), &text) {
            wrong.push(*name);
        }
    }
    assert!(
        wrong.is_empty(),
        "{wrong:?}: look, then CTXLOG_SNAPSHOTS=write"
    );
}

#[test]
fn every_command_has_a_snapshot() {
    for command in subcommands(&Place::new()) {
        let told = CASES
            .iter()
            .any(|(_, case)| case.split(' ').next() == Some(&command));
        assert!(
            told,
            "'{command}' needs a line in CASES of tests/cli/snapshots.rs"
        );
    }
}

#[test]
fn every_snapshot_is_of_a_case() {
    let dir = file("x").parent().unwrap().to_owned();
    for found in fs::read_dir(dir).unwrap() {
        let found = found.unwrap().path();
        if found.extension().is_none_or(|e| e != "txt") {
            continue; // of other tests
        }
        let name = found.file_stem().unwrap().to_str().unwrap();
        assert!(
            CASES.iter().any(|(n, _)| *n == name),
            "{name} is of no case"
        );
    }
}

/// `docs/CLI.md` is what `--help` says, command by command.
#[test]
fn the_page_of_flags_is_what_help_says() {
    let place = Place::new();
    let mut page = "# Command line\n\nWritten from the definition of the flags by \
        `CTXLOG_SNAPSHOTS=write cargo test --test cli the_page_of_flags`; the same as `--help`, as the \
        manual pages (`ctxlog man`) and as completions (`ctxlog completions`).\n"
        .to_owned();
    let mut put = |title: &str, arguments: &[&str]| {
        let output = place
            .command(arguments)
            .env("COLUMNS", "100")
            .output()
            .unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        page += &format!(
            "\n## {title}\n\n```text\n{}\n```\n",
            lines.join("\n").trim_end()
        );
    };
    put("`ctxlog`", &["--help"]);
    for command in subcommands(&place) {
        put(&format!("`ctxlog {command}`"), &[&command, "--help"]);
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/CLI.md");
    assert!(agrees(&path, &page), "look, then CTXLOG_SNAPSHOTS=write");
}
