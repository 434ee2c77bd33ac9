//! `import`: names, notes, bad input, and every recorded transcript.

use super::shapes::{Imported, Verified};
use super::support::Place;
use crate::data::data;

const TWO: &str = "{\"id\":\"x\",\"messages\":[{\"role\":\"user\",\"content\":\"1\"}]}\n\
                   {\"id\":\"y\",\"messages\":[{\"role\":\"user\",\"content\":\"2\"}]}\n";
const BARE: &str =
    "{\"role\":\"user\",\"content\":\"1\"}\n{\"role\":\"assistant\",\"content\":\"2\"}\n";

fn names(place: &Place, arguments: &[&str]) -> Vec<String> {
    let run = place
        .run(&[&["import", "--json"], arguments].concat())
        .done();
    run.lines::<Imported>()
        .into_iter()
        .map(|l| l.conversation)
        .collect()
}

#[test]
fn conversations_are_named_after_their_file_and_id() {
    let place = Place::new();
    place.write("two.jsonl", TWO);
    place.write("bare.jsonl", BARE);
    assert_eq!(
        names(&place, &["two.jsonl", "bare.jsonl"]),
        ["two/x", "two/y", "bare"]
    );
    assert_eq!(names(&place, &["two.jsonl", "--as", "p"]), ["p/x", "p/y"]);
    assert_eq!(names(&place, &["bare.jsonl", "--as", "p"]), ["p"]);
    assert_eq!(
        names(&place, &["bare.jsonl", "two.jsonl", "--as", "q"]),
        ["q/bare", "q/two/x", "q/two/y"]
    );
}

#[test]
fn equal_names_are_numbered_and_noted() {
    let place = Place::new();
    place.write("same.jsonl", TWO.replace("\"y\"", "\"x\""));
    let run = place.run(&["import", "same.jsonl", "--json"]).done();
    let lines: Vec<Imported> = run.lines();
    assert_eq!(
        (
            lines[0].conversation.as_str(),
            lines[1].conversation.as_str()
        ),
        ("same/x", "same/x/2")
    );
    assert!(
        run.err.contains("the name 'same/x' is taken"),
        "{}",
        run.err
    );
    let again: Vec<Imported> = place
        .run(&["import", "same.jsonl", "--json"])
        .done()
        .lines();
    assert!(again.iter().all(|l| l.added == 0));
}

#[test]
fn a_grown_file_adds_what_is_new_and_a_changed_one_is_refused() {
    let place = Place::new();
    place.write("a.jsonl", BARE);
    place.run(&["import", "a.jsonl"]).done();
    place.write(
        "a.jsonl",
        format!("{BARE}{{\"role\":\"user\",\"content\":\"3\"}}\n"),
    );
    let grown: Imported = place.run(&["import", "a.jsonl", "--json"]).done().json();
    assert_eq!((grown.added, grown.messages), (1, 3));
    place.write("a.jsonl", BARE.replace('1', "other"));
    place
        .run(&["import", "a.jsonl", "--json"])
        .failed(4, "source-diverged");
}

#[test]
fn strategies_replay_the_transcript_call_by_call() {
    let place = Place::new();
    let turn = |n: u32| {
        format!(
            "{{\"role\":\"user\",\"content\":\"q{n}\"}}\n{{\"role\":\"assistant\",\"content\":\"a{n}\"}}\n"
        )
    };
    place.write("a.jsonl", (0..6).map(turn).collect::<String>());
    let line: Imported = place
        .run(&[
            "import",
            "a.jsonl",
            "--strategy",
            "sliding-window:keep=2",
            "--json",
        ])
        .done()
        .json();
    assert_eq!((line.messages, line.iterations), (12, 6));
    assert!(line.evicted > 0 && line.visits > 0 && line.refused > 0);
    let verified: Verified = place.run(&["verify", "--json"]).done().json();
    assert_eq!((verified.windows.simulated, verified.windows.equal), (6, 6));
}

#[test]
fn stdin_is_a_file_too() {
    let place = Place::new();
    let line: Imported = place.feed(&["import", "-", "--json"], BARE).done().json();
    assert_eq!(
        (line.conversation.as_str(), line.format.as_str()),
        ("stdin", "openai-chat")
    );
}

#[test]
fn damaged_lines_are_noted_with_file_and_line() {
    let place = Place::new();
    let bad = "{\"role\":\"user\",\"content\":\"cut\n";
    place.write("a.jsonl", format!("{BARE}{bad}{bad}{BARE}"));
    let run = place.run(&["import", "a.jsonl"]).done();
    assert!(
        run.err.contains("note: a.jsonl:3, 4: not JSON"),
        "{}",
        run.err
    );
    assert!(run.err.contains("(2 times)"), "{}", run.err);
    let json = place
        .run(&["--store", "other", "import", "a.jsonl", "--json"])
        .done();
    let places: Vec<String> = json
        .err
        .lines()
        .map(|l| {
            let value: serde_json::Value = serde_json::from_str(l).unwrap();
            value["note"]["place"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(places, ["a.jsonl:3", "a.jsonl:4"]);
    assert_eq!(json.json::<Imported>().messages, 4);
}

#[test]
fn bad_files_are_refused_by_name_and_write_nothing() {
    let place = Place::new();
    place.write("empty", "");
    place.write(
        "binary",
        (0_u32..4000)
            .map(|n| (n * 7 % 251) as u8)
            .collect::<Vec<_>>(),
    );
    place.write(
        "truncated",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"",
    );
    place.write(
        "nested",
        format!("{}{}", "[".repeat(10_000), "]".repeat(10_000)),
    );
    place.write("other", "{\"foo\":1}");
    for (file, code) in [
        ("empty", "empty-file"),
        ("binary", "no-conversation"),
        ("truncated", "no-conversation"),
        ("nested", "no-conversation"),
        ("other", "unknown-format"),
        ("absent", "io"),
    ] {
        let (message, help) = place.run(&["import", file, "--json"]).failed(2, code);
        assert!(message.contains(file) && !help.is_empty(), "{message}");
    }
    // A folder passes over what is no transcript, and here there is nothing else.
    place
        .run(&["import", ".", "--json"])
        .failed(2, "no-conversation");
    for format in ["openai-chat", "anthropic", "claude-code"] {
        for file in ["empty", "binary", "truncated", "nested"] {
            let run = place.run(&["import", file, "--format", format, "--json"]);
            run.failed(2, "no-conversation");
        }
    }
    assert!(!place.store().exists(), "nothing is written");
}

#[test]
fn a_record_beyond_the_limit_is_refused_with_the_limit_and_the_flag() {
    let place = Place::new();
    let large = format!(
        "{{\"role\":\"user\",\"content\":\"{}\"}}\n",
        "x".repeat(3 << 20)
    );
    place.write("large", &large);
    place.write("partly", format!("{BARE}{large}"));
    for format in ["auto", "openai-chat", "anthropic", "claude-code", "ctxlog"] {
        let run = place.run(&[
            "import",
            "large",
            "--max-record",
            "1MiB",
            "--format",
            format,
            "--json",
        ]);
        let (message, help) = run.failed(4, "too-large");
        assert!(
            message.contains("1048576") && help.contains("--max-record"),
            "{message} {help}"
        );
    }
    assert!(!place.store().exists());
    let run = place
        .run(&["import", "partly", "--max-record", "1MiB"])
        .done();
    assert!(
        ["partly:3", "1048576", "--max-record"]
            .iter()
            .all(|w| run.err.contains(w)),
        "{}",
        run.err
    );
    place.run(&["import", "large"]).done();
}

#[test]
fn other_files_go_on_when_one_fails() {
    let place = Place::new();
    place.write("bad", "");
    place.write("good.jsonl", BARE);
    let run = place.run(&["import", "bad", "good.jsonl", "--json"]);
    run.failed(2, "empty-file");
    assert_eq!(run.json::<Imported>().conversation, "good");
}

#[test]
fn every_recorded_transcript_imports_once() {
    let place = Place::new();
    for folder in ["openai-chat", "anthropic-messages", "claude-code"] {
        let Some(files) = data(folder) else {
            return;
        };
        let files: Vec<&str> = files.iter().map(|f| f.to_str().unwrap()).collect();
        let run = |place: &Place| {
            place
                .run(&[&["import", "--json"], files.as_slice()].concat())
                .done()
        };
        let first: Vec<Imported> = run(&place).lines();
        let again: Vec<Imported> = run(&place).lines();
        assert!(!first.is_empty() && first.len() == again.len());
        for (first, again) in first.iter().zip(&again) {
            assert_eq!(first.conversation, again.conversation);
            assert_eq!(
                (again.added, &again.head),
                (0, &first.head),
                "{}",
                again.conversation
            );
            assert_eq!(first.added, first.entries);
        }
    }
    let all: Vec<Verified> = place.run(&["verify", "--json"]).done().lines();
    assert!(all.len() > 300);
    assert!(
        all.iter()
            .all(|v| v.ok && v.windows.equal == v.windows.inferred)
    );
}

/// A session and its sub-agent, a file each, as two clients write them.
const APART: [[&str; 2]; 3] = [
    [
        r#"{"type":"user","uuid":"a","parentUuid":null,"sessionId":"t","message":{"role":"user","content":"Go."}}
{"type":"assistant","uuid":"b","parentUuid":"a","sessionId":"t","message":{"id":"m","role":"assistant","content":[{"type":"tool_use","id":"c","name":"Task","input":{}}]}}
{"type":"user","uuid":"r","parentUuid":"b","sessionId":"t","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"Seen."}]},"toolUseResult":{"agentId":"x"}}
"#,
        r#"{"type":"user","uuid":"q","parentUuid":null,"sessionId":"t","isSidechain":true,"agentId":"x","message":{"role":"user","content":"Look."}}
{"type":"assistant","uuid":"s","parentUuid":"q","sessionId":"t","isSidechain":true,"agentId":"x","message":{"id":"n","role":"assistant","content":[{"type":"text","text":"Seen."}]}}
"#,
    ],
    [
        r#"{"type":"session_meta","payload":{"id":"t","cwd":"/w"}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Go."}]}}
{"type":"response_item","payload":{"type":"function_call","name":"spawn_agent","arguments":"{}","call_id":"c"}}
"#,
        r#"{"type":"session_meta","payload":{"id":"x","source":{"subagent":{"thread_spawn":{"parent_thread_id":"t","spawn_call_id":"c"}}}}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Look."}]}}
"#,
    ],
    [
        r#"{"type":"session_meta","payload":{"id":"t","cwd":"/w"}}
{"type":"response_item","payload":{"type":"function_call","name":"spawn_agent","arguments":"{}","call_id":"c"}}
{"type":"response_item","payload":{"type":"function_call_output","call_id":"c","output":"{\"agent_id\":\"x\"}"}}
"#,
        r#"{"type":"session_meta","payload":{"id":"x","source":{"subagent":{"thread_spawn":{"parent_thread_id":"t"}}}}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Look."}]}}
"#,
    ],
];

#[test]
fn a_sub_agent_in_a_file_of_its_own_names_the_call_that_started_it_in_any_order() {
    for [session, agent] in APART {
        for (first, second) in [("a", "b"), ("b", "a")] {
            let place = Place::new();
            std::fs::create_dir(place.path("in")).unwrap();
            place.write(&format!("in/{first}.jsonl"), session);
            place.write(&format!("in/{second}.jsonl"), agent);
            for added in [true, false] {
                let run = place.run(&["import", "in", "--json"]).done();
                let lines: Vec<Imported> = run.lines();
                assert_eq!(lines.len(), 2);
                assert!(lines.iter().all(|line| (line.added > 0) == added));
            }
            let listed: Vec<serde_json::Value> = place.run(&["ls", "--json"]).done().lines();
            let of = |file: &str| {
                let its = |line: &&serde_json::Value| {
                    line["conversation"].as_str().unwrap().starts_with(file)
                };
                listed.iter().find(its).unwrap()
            };
            let by = &of(second)["started_by"];
            assert_eq!(by["conversation"], of(first)["conversation"]);
            let log: Vec<super::shapes::Entry> = place
                .run(&["log", "-c", by["conversation"].as_str().unwrap(), "--json"])
                .done()
                .lines();
            let called = log
                .iter()
                .find(|e| Some(format!("m{}", e.seq).as_str()) == by["message"].as_str());
            assert_eq!(called.unwrap().body["skeleton"]["parts"][0]["label"], "c");
            assert!(of(first)["started_by"].is_null());
        }
    }
}

/// A Codex session, and what its file repeats of the one it left.
fn codex(record: &str, words: &[&str]) -> String {
    let item = |word: &&str| {
        let content = serde_json::json!([{"type": "input_text", "text": word}]);
        let item = serde_json::json!({"type": "message", "role": "user", "content": content});
        serde_json::json!({"type": "response_item", "payload": item}).to_string()
    };
    let meta = format!(r#"{{"type":"session_meta","payload":{record}}}"#);
    let lines: Vec<String> = [meta].into_iter().chain(words.iter().map(item)).collect();
    lines.join("\n") + "\n"
}

#[test]
fn a_forked_session_is_a_fork_in_any_order_of_files_and_says_so_where_the_other_is_not_there() {
    let left = codex(r#"{"id":"t"}"#, &["Go.", "More."]);
    let fork = codex(r#"{"id":"x","forked_from_id":"t"}"#, &["Go.", "Else."]);
    for (first, second) in [("a", "b"), ("b", "a")] {
        let place = Place::new();
        std::fs::create_dir(place.path("in")).unwrap();
        place.write(&format!("in/{first}.jsonl"), &left);
        place.write(&format!("in/{second}.jsonl"), &fork);
        for added in [true, false] {
            let run = place.run(&["import", "in", "--json"]).done();
            let lines: Vec<Imported> = run.lines();
            assert_eq!(
                lines.iter().map(|line| line.messages).collect::<Vec<_>>(),
                [2, 2]
            );
            assert!(lines.iter().all(|line| (line.added > 0) == added));
        }
        let listed: Vec<serde_json::Value> = place.run(&["ls", "--json"]).done().lines();
        let name = |line: &serde_json::Value| line["conversation"].as_str().unwrap().to_owned();
        let fork = listed
            .iter()
            .find(|line| name(line).starts_with(second))
            .unwrap();
        assert!(
            fork["parent"].as_str().unwrap().starts_with(first),
            "{fork}"
        );
    }
    let place = Place::new();
    place.write("x.jsonl", &fork);
    let run = place.run(&["import", "x.jsonl"]).done();
    let expected = "forked from 't', which was not imported with it; it begins by itself";
    assert!(run.err.contains(expected), "{}", run.err);
}

#[test]
fn a_packed_log_is_imported_and_other_archives_are_not() {
    let packed = |name: &str, text: &str| {
        let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        let options = zip::write::SimpleFileOptions::default();
        zip.start_file(name, options).unwrap();
        std::io::Write::write_all(&mut zip, text.as_bytes()).unwrap();
        zip.finish().unwrap().into_inner()
    };
    let sample = r#"{"id":"q","epoch":1,"messages":[{"role":"user","content":"Hi."}]}"#;
    let place = Place::new();
    std::fs::create_dir(place.path("in")).unwrap();
    std::fs::write(
        place.path("in/log.eval"),
        packed("samples/q_epoch_1.json", sample),
    )
    .unwrap();
    std::fs::write(place.path("in/other.zip"), packed("a.json", sample)).unwrap();
    let lines: Vec<Imported> = place.run(&["import", "in", "--json"]).done().lines();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0].format, "inspect-log");
    let run = place.run(&["import", "in/other.zip"]);
    assert!(run.err.contains("holds no log of Inspect"), "{}", run.err);
    let run = place.run(&["import", "in/log.eval", "--max-record", "9", "--as", "x"]);
    assert!(
        run.err.contains("samples/q_epoch_1.json in it has"),
        "{}",
        run.err
    );
}
