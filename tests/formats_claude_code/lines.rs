//! One test per thing that a session file can do.

use ctxlog::formats::UNFINISHED;
use ctxlog::formats::claude_code::{read, write_line};
use ctxlog::formats::{Link, Step, Transcript, Usage};
use ctxlog::log::{Author, Message, Micros, PartBody, Role};
use serde_json::{Value, json};

use crate::model::{Window, lines_given_back, noted, transcripts, warnings};

fn line(kind: &str, uuid: &str, parent: &str, message: Value) -> Value {
    let parent = if parent.is_empty() {
        Value::Null
    } else {
        parent.into()
    };
    json!({"type": kind, "uuid": uuid, "parentUuid": parent, "isSidechain": false,
           "sessionId": "s", "timestamp": "2026-01-01T00:00:00.001Z", "message": message})
}

pub fn user(uuid: &str, parent: &str, text: &str) -> Value {
    line(
        "user",
        uuid,
        parent,
        json!({"role": "user", "content": text}),
    )
}

pub fn result(uuid: &str, parent: &str, call: &str) -> Value {
    let block = json!({"type": "tool_result", "tool_use_id": call, "content": "done"});
    line(
        "user",
        uuid,
        parent,
        json!({"role": "user", "content": [block]}),
    )
}

fn assistant(uuid: &str, parent: &str, id: &str, block: Value, output: u64) -> Value {
    let usage = json!({"input_tokens": 7, "output_tokens": output,
                       "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2});
    let message = json!({"id": id, "type": "message", "role": "assistant", "model": "claude",
                         "content": [block], "stop_reason": null, "usage": usage});
    line("assistant", uuid, parent, message)
}

fn says(uuid: &str, parent: &str, id: &str) -> Value {
    assistant(uuid, parent, id, json!({"type": "text", "text": uuid}), 1)
}

pub fn calls(uuid: &str, parent: &str, id: &str, call: &str) -> Value {
    let block = json!({"type": "tool_use", "id": call, "name": "Bash", "input": {}});
    assistant(uuid, parent, id, block, 9)
}

pub fn event(uuid: &str, parent: &str, subtype: &str) -> Value {
    let parent = if parent.is_empty() {
        Value::Null
    } else {
        parent.into()
    };
    json!({"type": "system", "subtype": subtype, "uuid": uuid, "parentUuid": parent,
           "sessionId": "s", "isSidechain": false})
}

pub fn with(mut line: Value, name: &str, value: Value) -> Value {
    line[name] = value;
    line
}

pub fn file(lines: &[Value]) -> String {
    lines
        .iter()
        .flat_map(|line| [line.to_string(), "\n".to_owned()])
        .collect()
}

fn read_lines(lines: &[Value]) -> Vec<Transcript> {
    transcripts(&file(lines))
}

fn one(lines: &[Value]) -> Transcript {
    let mut transcripts = read_lines(lines);
    assert_eq!(transcripts.len(), 1);
    transcripts.remove(0)
}

/// The steps in a short form: `C` called, `R9` returned with 9 output tokens, a message by its
/// author's first letter and uuid, `->` what it continues, `-[2]` rewound, `N` noted.
fn story(transcript: &Transcript) -> String {
    let steps: Vec<String> = transcript.steps.iter().map(shown).collect();
    steps.join(" ")
}

fn shown(step: &Step) -> String {
    match step {
        Step::Called { .. } => "C".to_owned(),
        Step::Returned { usage, .. } => format!("R{}", usage.unwrap().output.unwrap()),
        Step::Message { message, link, .. } => {
            let link = match link {
                Link::None => String::new(),
                Link::Continues(n) => format!("->{n}"),
                Link::SameSource(n) => format!("={n}"),
            };
            format!("{}:{}{link}", &message.author.name()[..1], uuid(message))
        }
        Step::Compacted { summary, .. } => format!("S:{}", uuid(summary)),
        Step::Cleared { calls, .. } => format!("X:{}", calls.join(",")),
        Step::Rewound { gone, .. } => format!("-{gone:?}"),
        Step::Noted { warn, .. } => if *warn { "W" } else { "N" }.to_owned(),
        Step::Configured { .. } => "?".to_owned(),
    }
}

fn uuid(message: &Message) -> &str {
    message.source.as_ref().unwrap().id.as_deref().unwrap()
}

#[test]
fn a_message_line_becomes_a_message_with_everything_around_it() {
    let source = with(user("u", "", "hello"), "cwd", json!("/home"));
    let transcript = one(std::slice::from_ref(&source));
    assert_eq!(
        (transcript.format, transcript.id.as_deref()),
        ("claude-code", Some("s"))
    );
    let [
        Step::Message {
            message,
            at,
            link: Link::None,
        },
    ] = transcript.steps.as_slice()
    else {
        panic!("{:?}", transcript.steps);
    };
    assert_eq!(*at, Micros::parse("2026-01-01T00:00:00.001Z"));
    assert_eq!(
        (&message.role, message.author),
        (&Role::User, Author::Person)
    );
    assert_eq!(message.words(), "hello");
    let written: Value = serde_json::from_str(&write_line(&[message]).unwrap().0).unwrap();
    assert_eq!(written, source);
    assert_eq!(write_line(&[&Message::person("hello")]), None);
}

#[test]
fn blocks_of_one_model_message_are_one_call_also_with_results_between() {
    let transcript = one(&[
        user("u", "", "go"),
        says("a1", "u", "m1"),
        calls("a2", "a1", "m1", "c1"),
        result("r1", "a2", "c1"),
        calls("a3", "a2", "m1", "c2"),
        result("r2", "a3", "c2"),
        says("b", "r2", "m2"),
        event("e", "b", "turn_duration"),
    ]);
    assert_eq!(
        story(&transcript),
        "p:u C m:a1 m:a2->1 t:r1 m:a3->1 t:r2 R9 C m:b R1 N"
    );
    let Step::Returned { usage, failure, .. } = &transcript.steps[7] else {
        panic!()
    };
    let counts = Usage {
        input: Some(7),
        output: Some(9),
        cache_read: Some(3),
        cache_write: Some(2),
    };
    assert_eq!((*usage, failure), (Some(counts), &None));
    let Step::Called { model, at } = &transcript.steps[1] else {
        panic!()
    };
    assert_eq!(model.as_deref(), Some("claude"));
    assert!(at.is_some());
}

#[test]
fn results_and_words_on_one_line_are_two_messages_of_one_source() {
    let content = json!([{"type": "tool_result", "tool_use_id": "c1", "content": "x"},
                         {"type": "text", "text": "and now?"}]);
    for content in [content.clone(), json!([content[1], content[0], "bare"])] {
        let source = line(
            "user",
            "r",
            "a",
            json!({"role": "user", "content": content}),
        );
        let lines = [
            user("u", "", "go"),
            calls("a", "u", "m", "c1"),
            source.clone(),
        ];
        let transcripts = read_lines(&lines);
        assert!(
            story(&transcripts[0]).ends_with("t:r p:r=2"),
            "{}",
            story(&transcripts[0])
        );
        assert_eq!(lines_given_back(&transcripts)[2], source);
    }
}

#[test]
fn authors_are_told_by_marks_and_never_by_text() {
    let synthetic = |name: &str, value: Value| with(says("a", "u", "m"), name, value);
    let mut no_model = says("a", "u", "m");
    no_model["message"]["model"] = json!("<synthetic>");
    for line in [no_model, synthetic("isApiErrorMessage", json!(true))] {
        assert_eq!(story(&one(&[user("u", "", "go"), line])), "p:u a:a");
    }
    let meta = with(user("u", "", "<caveat>"), "isMeta", json!(true));
    assert_eq!(story(&one(&[meta])), "a:u");
    assert_eq!(
        story(&one(&[user("u", "", "[Request interrupted by user]")])),
        "p:u"
    );
    let unknown = line(
        "attachment",
        "u",
        "",
        json!({"role": "assistant", "content": "x"}),
    );
    assert_eq!(story(&one(&[unknown])), "a:u");
}

#[test]
fn a_summary_stands_for_all_before_it_and_carries_the_boundarys_metadata() {
    let boundary = json!({"type": "system", "subtype": "compact_boundary", "uuid": "k",
        "parentUuid": null, "logicalParentUuid": "a", "sessionId": "s", "isSidechain": false,
        "compactMetadata": {"trigger": "auto", "preTokens": 155_885}});
    let summary = with(user("z", "k", "so far"), "isCompactSummary", json!(true));
    let lines = [
        user("u", "", "go"),
        says("a", "u", "m"),
        boundary,
        summary,
        says("b", "z", "n"),
    ];
    let transcripts = read_lines(&lines);
    assert_eq!(story(&transcripts[0]), "p:u C m:a R1 N S:z C m:b");
    let Step::Compacted { summary, rest, .. } = &transcripts[0].steps[5] else {
        panic!()
    };
    assert_eq!(summary.author, Author::Application);
    let said: Vec<_> = rest
        .iter()
        .map(|(name, value)| (name.as_str(), value.0.as_str()))
        .collect();
    let metadata = (
        "compactMetadata",
        r#"{"preTokens":155885,"trigger":"auto"}"#,
    );
    assert_eq!(said, [metadata, ("logicalParentUuid", "\"a\"")]);
    assert_eq!(lines_given_back(&transcripts)[2], lines[3]);
    assert!(warnings(&transcripts).is_empty());
}

#[test]
fn a_boundary_whose_summary_is_missing_takes_nothing_away() {
    let boundary = with(
        event("k", "", "compact_boundary"),
        "logicalParentUuid",
        json!("u"),
    );
    let transcripts = read_lines(&[user("u", "", "go"), boundary, user("v", "k", "on")]);
    assert_eq!(story(&transcripts[0]), "p:u N W p:v");
}

#[test]
fn a_microcompaction_clears_the_results_of_its_calls() {
    let clear = |ids: Value| {
        let line = event("k", "r", "microcompact_boundary");
        with(
            line,
            "microcompactMetadata",
            json!({"compactedToolIds": ids}),
        )
    };
    let before = [
        user("u", "", "go"),
        calls("a", "u", "m", "c1"),
        result("r", "a", "c1"),
    ];
    let transcript = one(&[before.as_slice(), &[clear(json!(["c1"]))]].concat());
    assert_eq!(story(&transcript), "p:u C m:a t:r N X:c1");
    let Some(Step::Cleared { marker, .. }) = transcript.steps.last() else {
        panic!()
    };
    assert_eq!(marker, "[Old tool result content cleared]");
    let damaged = one(&[before.as_slice(), &[clear(json!([1]))]].concat());
    assert_eq!(story(&damaged), "p:u C m:a t:r N W");
}

#[test]
fn a_persons_second_try_abandons_the_first() {
    let transcript = one(&[
        user("u", "", "go"),
        says("a", "u", "m"),
        user("v", "a", "wrong"),
        says("b", "v", "n"),
        user("w", "a", "right"),
        says("c", "w", "o"),
    ]);
    assert_eq!(
        story(&transcript),
        "p:u C m:a R1 p:v C m:b R1 -[2, 3] p:w C m:c"
    );
}

#[test]
fn a_retried_answer_abandons_the_first() {
    let transcript = one(&[
        user("u", "", "go"),
        says("a", "u", "m"),
        says("b", "u", "n"),
        user("v", "b", "k"),
    ]);
    assert_eq!(story(&transcript), "p:u C m:a R1 -[1] C m:b R1 p:v");
}

#[test]
fn parallel_calls_and_progress_are_no_fork() {
    let progress = json!({"type": "progress", "uuid": "p", "parentUuid": "a1", "sessionId": "s",
                          "isSidechain": false});
    let transcript = one(&[
        user("u", "", "go"),
        calls("a1", "u", "m", "c1"),
        progress,
        result("r1", "a1", "c1"),
        calls("a2", "a1", "m", "c2"),
        calls("a3", "a2", "m", "c3"),
        result("r3", "a3", "c3"),
        result("r2", "a2", "c2"),
        says("b", "r1", "n"),
        says("c", "r3", "o"),
    ]);
    let expected = "p:u C m:a1 N t:r1 m:a2->1 m:a3->1 t:r3 t:r2 R9 C m:b R1 C m:c";
    assert_eq!(story(&transcript), expected);
}

#[test]
fn going_back_to_a_batch_keeps_its_blocks_and_results() {
    let transcript = one(&[
        user("u", "", "go"),
        calls("a1", "u", "m", "c1"),
        calls("a2", "a1", "m", "c2"),
        result("r2", "a2", "c2"),
        result("r1", "a1", "c1"),
        says("b", "r2", "n"),
        user("v", "a1", "again"),
    ]);
    assert!(
        story(&transcript).ends_with("-[5] p:v"),
        "{}",
        story(&transcript)
    );
}

#[test]
fn what_arrives_on_an_abandoned_branch_leaves_at_once() {
    let transcript = one(&[
        user("u", "", "go"),
        user("v", "u", "first"),
        calls("a", "v", "m", "c1"),
        user("w", "u", "second"),
        result("r", "a", "c1"),
        says("b", "r", "n"),
        says("c", "w", "o"),
    ]);
    assert_eq!(
        story(&transcript),
        "p:u p:v C m:a R9 -[1, 2] p:w t:r -[4] C m:b -[5] R1 C m:c"
    );
}

#[test]
fn a_person_who_returns_to_an_abandoned_branch_is_warned_of() {
    let transcripts = read_lines(&[
        user("u", "", "go"),
        user("v", "u", "first"),
        user("w", "u", "second"),
        user("x", "v", "back"),
    ]);
    assert_eq!(story(&transcripts[0]), "p:u p:v -[1] p:w W -[2] p:x");
}

#[test]
fn sessions_sidechains_and_further_roots_are_transcripts_of_their_own() {
    let side = |line, agent: &str| {
        with(
            with(line, "isSidechain", json!(true)),
            "agentId",
            json!(agent),
        )
    };
    let transcripts = read_lines(&[
        user("u", "", "go"),
        side(user("t1", "", "task"), "x"),
        side(user("t2", "u", "task"), "y"),
        side(says("b1", "t1", "m1"), "x"),
        says("a", "u", "m"),
        side(says("b2", "t2", "m2"), "y"),
        with(user("o", "", "other"), "sessionId", json!("o")),
        user("u2", "", "anew"),
        says("a2", "u2", "n"),
    ]);
    let found: Vec<_> = transcripts
        .iter()
        .map(|t| (t.id.as_deref().unwrap(), story(t)))
        .collect();
    let expected = [
        ("s", "p:u C m:a"),
        ("s#t1", "p:t1 C m:b1"),
        ("s#t2", "p:t2 C m:b2"),
        ("o", "p:o"),
        ("s#u2", "p:u2 C m:a2"),
    ];
    assert_eq!(found, expected.map(|(id, story)| (id, story.to_owned())));
}

#[test]
fn a_line_whose_parent_is_missing_joins_in_file_order_and_is_told_once() {
    let transcripts = read_lines(&[
        user("u", "gone", "go"),
        says("a", "u", "m"),
        user("v", "gone", "more"),
        user("w", "a", "fork"),
    ]);
    // What was joined by a guess does not leave by a fork before it.
    assert_eq!(story(&transcripts[0]), "W p:u C m:a R1 p:v p:w");
    assert_eq!(
        warnings(&transcripts),
        ["f.jsonl:1 its parent gone is not in the file before it"]
    );
}

#[test]
fn a_line_that_repeats_one_is_noted_and_another_under_its_uuid_is_kept() {
    let repeat = with(says("a", "u", "m"), "version", json!("2"));
    let lines = [
        user("u", "", "go"),
        says("a", "u", "m"),
        repeat.clone(),
        user("u", "", "other words"),
    ];
    let transcripts = read_lines(&lines);
    assert_eq!(story(&transcripts[0]), "p:u C m:a W W R1 p:u");
    assert_eq!(noted(&transcripts), [repeat]);
}

#[test]
fn glued_objects_are_both_read() {
    let text = format!(
        "{}{}\n{}",
        user("u", "", "go"),
        says("a", "u", "m"),
        user("v", "a", "on")
    );
    let transcripts = transcripts(&text);
    assert_eq!(story(&transcripts[0]), "p:u W C m:a R1 p:v");
    assert_eq!(
        warnings(&transcripts),
        ["f.jsonl:1 several JSON values on one line; each is read"]
    );
}

#[test]
fn damage_is_kept_with_its_place_and_stops_nothing() {
    for (bad, kept) in [
        ("{\"type\":\"user\",\"mess", "{\"type\":\"user\",\"mess"),
        ("[1]", "[1]"),
        ("\"bare\"", "\"bare\""),
        ("{\"a\":1} tail", "tail"),
    ] {
        let text = format!(
            "{}\n\n{bad}\r\n{}\n",
            user("u", "", "go"),
            user("v", "u", "on")
        );
        let transcripts = transcripts(&text);
        assert_eq!(lines_given_back(&transcripts).len(), 2, "{bad}");
        let warned = warnings(&transcripts);
        assert!(
            warned.len() == 1 && warned[0].starts_with("f.jsonl:3 "),
            "{bad}: {warned:?}"
        );
        assert!(noted(&transcripts).contains(&json!(kept)), "{bad}");
    }
}

#[test]
fn a_last_line_that_is_still_being_written_says_so() {
    let text = format!("{}\n{{\"type\":", user("u", "", "go"));
    assert_eq!(
        warnings(&transcripts(&text)),
        [format!("f.jsonl:2 {UNFINISHED}")]
    );
    assert_eq!(
        warnings(&transcripts(&(text + "\n"))),
        ["f.jsonl:2 not JSON"]
    );
    // A whole line counts without its end.
    assert!(warnings(&transcripts(&user("u", "", "go").to_string())).is_empty());
}

#[test]
fn a_text_that_was_cut_within_a_character_keeps_its_words() {
    for content in [
        r#""hi \ud83d there""#,
        r#"[{"type":"text","text":"hi \ud83d there"}]"#,
        r#"[{"type":"tool_result","tool_use_id":"c","content":"hi \ud83d there"}]"#,
    ] {
        let message = format!(r#"{{"role":"user","content":{content}}}"#);
        let text = format!(r#"{{"type":"user","uuid":"u","sessionId":"s","message":{message}}}"#);
        let transcript = &transcripts(&text)[0];
        let Some(Step::Message { message: read, .. }) = transcript.steps.last() else {
            panic!()
        };
        assert_eq!(read.words(), "hi \u{fffd} there");
        let written = write_line(&[read]).unwrap().0;
        assert!(
            written.ends_with(&format!("\"message\":{message}}}")),
            "{written}"
        );
    }
}

#[test]
fn bytes_that_are_no_text_are_kept_readably() {
    let text = b"{\"a\":\"\xff\xc3\xa9\"}\n{\"type\":\"x\"}";
    let transcripts = read(text.as_slice(), "f", 1000).unwrap();
    assert_eq!(
        noted(&transcripts),
        [json!("{\"a\":\"\\xff\u{e9}\"}"), json!({"type": "x"})]
    );
    assert_eq!(
        warnings(&transcripts),
        ["f:1 not UTF-8; bad bytes are written \\xNN"]
    );
}

#[test]
fn a_line_beyond_a_limit_is_skipped_by_name() {
    let long = user("u", "", &"x".repeat(2000));
    let text = format!("{long}\n{}\n{}\n", user("v", "u", "on"), "[".repeat(101));
    let transcripts = read(text.as_bytes(), "f", 400).unwrap();
    let warned = warnings(&transcripts);
    assert!(warned[0].contains("limit of 400 bytes") && warned[0].starts_with("f:1 "));
    assert_eq!(warned[2], "f:3 nested 101 deep; the limit is 100");
    assert_eq!(lines_given_back(&transcripts).len(), 1);
    let transcripts = read(text.as_bytes(), "f", 3000).unwrap();
    assert_eq!(story(&transcripts[0]), "p:u p:v W");
}

#[test]
fn a_message_that_is_no_object_is_noted_and_a_null_one_is_routine() {
    let bad = line("user", "u", "", json!("words"));
    let null = line("user", "v", "u", Value::Null);
    let transcripts = read_lines(&[bad.clone(), null.clone()]);
    assert_eq!(story(&transcripts[0]), "W N");
    assert_eq!(noted(&transcripts), [bad, null]);
    assert_eq!(
        warnings(&transcripts),
        ["f.jsonl:1 user: its message is no object"]
    );
}

#[test]
fn a_bare_string_among_the_blocks_is_kept_and_told() {
    let content = json!(["bare", {"type": "text", "text": "x"}]);
    let source = line("user", "u", "", json!({"role": "user", "content": content}));
    let transcripts = read_lines(std::slice::from_ref(&source));
    assert_eq!(story(&transcripts[0]), "W p:u");
    assert_eq!(lines_given_back(&transcripts), [source]);
}

#[test]
fn notes_without_a_session_stand_in_the_first_transcript() {
    let snapshot = json!({"type": "file-history-snapshot", "messageId": "u"});
    let alone = one(std::slice::from_ref(&snapshot));
    assert_eq!((alone.id.as_deref(), story(&alone)), (None, "N".to_owned()));
    let other = with(user("o", "", "other"), "sessionId", json!("o"));
    let queue = json!({"type": "queue-operation", "operation": "enqueue", "sessionId": "o"});
    let both = read_lines(&[
        snapshot.clone(),
        user("u", "", "go"),
        other,
        snapshot,
        queue,
    ]);
    assert_eq!(
        both.iter().map(story).collect::<Vec<_>>(),
        ["N p:u N", "p:o N"]
    );
    assert!(transcripts("\n \n").is_empty());
}

#[test]
fn order_is_the_files_and_never_the_clocks() {
    let late = with(
        user("u", "", "go"),
        "timestamp",
        json!("2030-01-01T00:00:00Z"),
    );
    assert_eq!(story(&one(&[late, user("v", "u", "on")])), "p:u p:v");
}

#[test]
fn a_window_told_by_the_steps_holds_no_abandoned_message() {
    let transcript = one(&[
        user("u", "", "go"),
        user("v", "u", "a"),
        user("w", "u", "b"),
    ]);
    let mut window = Window::default();
    transcript.steps.iter().for_each(|step| window.take(step));
    assert_eq!(window.present().into_iter().collect::<Vec<_>>(), ["u", "w"]);
}

#[test]
fn a_results_tool_ids_are_read_from_the_line() {
    let lines = [
        user("u", "", "go"),
        calls("a", "u", "m", "c1"),
        result("r", "a", "c1"),
    ];
    let transcript = one(&lines);
    let Some(Step::Message { message, .. }) = transcript.steps.last() else {
        panic!()
    };
    let PartBody::Result { call, .. } = &message.parts[0].body else {
        panic!()
    };
    assert_eq!(
        (call.as_deref(), message.author),
        (Some("c1"), Author::Tool)
    );
}
