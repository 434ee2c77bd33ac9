//! What people see.

use super::support::Place;

/// A content that tries to move the cursor, change colours and turn text around.
const HOSTILE: &str = "a\u{1b}[31mred\u{1b}]0;title\u{7}\r\n\u{9b}2J\u{202e}evil\u{0}";

fn furnished(text: &str) -> Place {
    let place = Place::new();
    let message = serde_json::json!({ "role": "user", "content": text }).to_string();
    place.feed(&["append", "-c", "chat"], &message).done();
    place.run(&["call"]).done();
    place
}

fn commands() -> Vec<Vec<&'static str>> {
    [
        "status",
        "status --all",
        "log",
        "show m1",
        "show @",
        "window",
        "window --long",
        "window --format text",
        "why m1",
        "diff s:0 @",
        "diff s:0 @ --words",
        "context m1",
        "grep e",
        "verify",
        "ls",
        "lint --provider anthropic",
    ]
    .iter()
    .map(|c| c.split(' ').collect())
    .collect()
}

#[test]
fn no_content_reaches_a_terminal_as_a_command() {
    let place = furnished(HOSTILE);
    for command in commands() {
        for json in [false, true] {
            let mut arguments = command.clone();
            arguments.extend(json.then_some("--json"));
            let run = place.run(&arguments).done();
            let harmless = |c: char| c == '\n' || !(c.is_control() || c == '\u{202e}');
            assert!(run.out.chars().all(harmless), "{command:?}: {:?}", run.out);
            assert!(run.err.chars().all(harmless), "{command:?}: {:?}", run.err);
        }
    }
    let body = place.run(&["window", "--format", "openai-chat"]).done();
    let body: serde_json::Value = body.json();
    assert_eq!(body["messages"][0]["content"], HOSTILE, "the body is exact");
}

#[test]
fn colours_come_only_when_asked_for_or_to_a_terminal() {
    let place = furnished("hello");
    assert!(!place.run(&["status"]).done().out.contains('\u{1b}'));
    assert!(
        place
            .run(&["status", "--color", "always"])
            .done()
            .out
            .contains('\u{1b}')
    );
    let forced = |name: &str, arguments: &[&str]| {
        let output = place.command(arguments).env(name, "1").output().unwrap();
        output.stdout.contains(&0x1b)
    };
    assert!(forced("CLICOLOR_FORCE", &["status"]));
    assert!(!forced("NO_COLOR", &["status"]));
    let json = place.run(&["status", "--color", "always", "--json"]).done();
    assert!(!json.out.contains('\u{1b}'), "JSON is never coloured");
}

#[test]
fn narrow_terminals_get_lines_that_fit() {
    let place = furnished(&"words and ".repeat(50));
    for (columns, width) in [("44", 44), ("80", 80), ("120", 120)] {
        for command in commands()
            .into_iter()
            .filter(|c| !c.contains(&"text") && !c.contains(&"show") && !c.contains(&"--long"))
        {
            let output = place
                .command(&command)
                .env("COLUMNS", columns)
                .output()
                .unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            for line in text.lines() {
                // A digest or a name is one word and stays whole.
                let whole = line.split(' ').any(|w| w.chars().count() > 20);
                assert!(
                    whole || line.chars().count() <= width,
                    "{command:?} at {width}: {line}"
                );
            }
        }
    }
}

#[test]
fn without_unicode_nothing_of_ours_needs_it() {
    let place = Place::furnished();
    for command in commands() {
        let output = place
            .command(&command)
            .env("LC_ALL", "C")
            .env("COLUMNS", "50")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.is_ascii(), "{command:?}: {text}");
    }
}

#[test]
fn why_reads_as_a_story() {
    let place = Place::furnished();
    let out = place.run(&["why", "m5"]).done().out;
    for (start, words) in [
        ("m5 model calls find", "evicted at"),
        ("  says", "find"),
        ("  entered  it:2  s:5", ""),
        ("  left     it:4", "evict, beyond-keep after 2 calls"),
        ("  measured 4 groups by count, limit 2", "3 groups left"),
        ("  seen by  2 model calls, it:2 to it:3", ""),
        ("  missed by 1 model call", ""),
        ("  refused", "inside-keep-window"),
        ("  undo     ctxlog restore m5 -c chat", ""),
    ] {
        let found = out
            .lines()
            .any(|l| l.starts_with(start) && l.contains(words));
        assert!(found, "{start} … {words}\n{out}");
    }
}

#[test]
fn the_log_has_a_line_with_a_sign_for_every_entry() {
    let place = Place::furnished();
    let out = place.run(&["log"]).done().out;
    for (seq, words) in [
        ("s:0 ", "* opened       'chat'"),
        ("s:1 ", "+ append       m1 application  \"You help.\""),
        ("s:3 ", "* configured   sliding-window:keep=2"),
        ("s:4 ", "> call         2 messages"),
        ("s:6 ", "m6 tool result of call_0 in m5  \"done\""),
    ] {
        let line = out.lines().find(|l| l.starts_with(seq)).unwrap();
        assert!(line.contains(words), "{line}");
    }
    assert!(
        out.lines()
            .any(|l| l.contains("- evict        m5..m6 beyond-keep")),
        "{out}"
    );
    assert!(out.lines().any(|l| l.contains("! refuse")), "{out}");
}

#[test]
fn status_pictures_the_window_and_says_what_to_ask_next() {
    let place = Place::furnished();
    let out = place.run(&["status"]).done().out;
    assert!(out.starts_with("chat @ s:"), "{out}");
    assert!(
        out.contains("left so far  2 of 8 messages  (2 evicted, 0 stood for)"),
        "{out}"
    );
    assert!(
        out.contains("last change  it:4 evict m5..m6 beyond-keep"),
        "{out}"
    );
    assert!(out.contains("next         ctxlog why m6"), "{out}");
    assert!(
        place
            .run(&["status", "--all"])
            .done()
            .out
            .contains("refused           1  current-request")
    );
}

#[test]
fn the_demo_can_be_asked_at_once() {
    let place = Place::new();
    place.run(&["demo"]).done();
    place.run(&["verify"]).done();
    let first = place.run(&["ls", "--json"]).done().out;
    place.run(&["demo"]).done();
    assert_eq!(
        place.run(&["ls", "--json"]).done().out,
        first,
        "a second time adds nothing"
    );
}
