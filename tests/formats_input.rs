//! Odd, damaged and hostile input; what readers make of records; which format a file is of.

mod common;

use std::path::Path;

use common::data::{data, folders};
use common::pieces_of;
use ctxlog::formats::input::{Piece, pieces};
use ctxlog::formats::{Format, Step, Transcript, Usage, anthropic, detect, openai_chat};
use ctxlog::log::{Author, Message, Micros, PartBody, Role};
use proptest::prelude::*;

fn cut(text: impl AsRef<[u8]>) -> Vec<Piece> {
    pieces(text.as_ref(), "f", 1 << 20)
        .map(Result::unwrap)
        .collect()
}

fn messages(transcript: &Transcript) -> Vec<&Message> {
    let steps = transcript.steps.iter();
    steps
        .filter_map(|s| {
            if let Step::Message { message, .. } = s {
                Some(message)
            } else {
                None
            }
        })
        .collect()
}

fn warnings(transcripts: &[Transcript]) -> Vec<(String, String)> {
    let warning = |s: &Step| match s {
        Step::Noted {
            what,
            place,
            warn: true,
            ..
        } => Some((place.clone(), what.clone())),
        _ => None,
    };
    transcripts
        .iter()
        .flat_map(|t| &t.steps)
        .filter_map(warning)
        .collect()
}

fn returned(transcript: &Transcript) -> (Option<Usage>, Option<String>, Vec<String>) {
    let found = transcript.steps.iter().find_map(|s| match s {
        Step::Returned {
            usage,
            failure,
            rest,
            ..
        } => {
            let names = rest.iter().map(|(name, _)| name.clone()).collect();
            Some((*usage, failure.clone(), names))
        }
        _ => None,
    });
    found.expect("a call that returned")
}

#[test]
fn nothing_gives_nothing() {
    for text in ["", " \n\n", "[]", "[ ]\n"] {
        assert_eq!(openai_chat::read(cut(text)), [], "{text:?}");
        assert_eq!(anthropic::read(cut(text)), [], "{text:?}");
    }
}

#[test]
fn what_is_no_transcript_becomes_warnings_with_places() {
    let nested = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let in_message = format!(r#"{{"messages":[{{"role":"user","content":{nested}}}]}}"#);
    let odd: [(&[u8], &str); 7] = [
        (b"\x00\x01\xff\xfe\n", "f:1"),
        (b"\n{\"messages\":[{\"role\":\"us", "f:2"),
        (b"{\"role\":\"user\",\"content\":\"\xff\"}", "f:1"),
        (b"{\"x\":1}", "f:1"),
        (b"\"text\"\n", "f:1"),
        (nested.as_bytes(), "f:1"),
        (in_message.as_bytes(), "f:1"),
    ];
    for (text, place) in odd {
        for transcripts in [openai_chat::read(cut(text)), anthropic::read(cut(text))] {
            let warnings = warnings(&transcripts);
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            assert_eq!(warnings[0].0, place, "{warnings:?}");
            assert_eq!(transcripts.len(), 1);
        }
    }
}

#[test]
fn damage_between_records_stops_neither() {
    let text = "{\"id\":\"a\",\"messages\":[]}\n{\"id\":\"b\",\"mess\n\
                {\"id\":\"c\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}\n";
    let read = openai_chat::read(cut(text));
    let ids: Vec<_> = read.iter().map(|t| t.id.as_deref()).collect();
    assert_eq!(ids, [Some("a"), Some("c")]);
    assert_eq!(
        warnings(&read),
        [(
            "f:2".into(),
            "not JSON: a string does not end on its line".into()
        )]
    );
    assert_eq!(messages(&read[1]).len(), 1);
}

#[test]
fn messages_that_cannot_be_read_are_noted_in_their_place() {
    let text = r#"{"messages":[{"role":"user","content":"a"},7,{"role":"odd","x":1},{"role":"tool","content":"r"}]}"#;
    let read = openai_chat::read(cut(text));
    assert_eq!(warnings(&read).len(), 1);
    let roles: Vec<_> = messages(&read[0]).iter().map(|m| m.role.clone()).collect();
    assert_eq!(roles, [Role::User, Role::Other("odd".into()), Role::Tool]);
    let PartBody::Result { call: None, .. } = &messages(&read[0])[2].parts[0].body else {
        panic!("a result without a call");
    };
    let read = openai_chat::read(cut(r#"{"messages":{"role":"user"}}"#));
    assert_eq!(
        warnings(&read),
        [("f:1".into(), "'messages' is no array".into())]
    );
}

#[test]
fn bare_messages_are_one_conversation_in_every_layout() {
    let list = [
        r#"{"role":"user","content":"a"}"#,
        r#"{"role":"assistant","content":"b"}"#,
    ];
    let layouts = [
        format!("[{}]", list.join(",\n ")),
        list.join("\n"),
        list.join(""),
    ];
    for text in layouts {
        for read in [openai_chat::read(cut(&text)), anthropic::read(cut(&text))] {
            assert_eq!(read.len(), 1, "{text}");
            let authors: Vec<_> = messages(&read[0]).iter().map(|m| m.author).collect();
            assert_eq!(authors, [Author::Person, Author::Model]);
            assert!(matches!(read[0].steps[1], Step::Called { .. }));
        }
    }
}

#[test]
fn a_grown_file_begins_with_the_steps_it_had() {
    let lines = [
        r#"{"role":"user","content":"a"}"#,
        r#"{"role":"assistant","content":"b"}"#,
        r#"{"role":"user","content":"c"}"#,
    ];
    let all = openai_chat::read(cut(lines.join("\n")));
    for n in 1..lines.len() {
        let before = openai_chat::read(cut(lines[..n].join("\n")));
        assert!(all[0].steps.starts_with(&before[0].steps));
    }
}

#[test]
fn a_recorded_call_has_usage_rest_and_circumstances() {
    let text = r#"{"id":"x","status":200,"timestamp":1.5,"vendor":"v",
        "request":{"model":"m","messages":[{"role":"user","content":"a"}],"n":2},
        "response":{"id":"r","created":3,"choices":[
            {"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"b"}},
            {"index":1,"message":{"role":"assistant","content":"c"}}],
          "usage":{"prompt_tokens":10,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":7}}}}"#;
    let read = openai_chat::read(cut(text));
    let (usage, failure, rest) = returned(&read[0]);
    let expected = Usage {
        input: Some(3),
        output: Some(4),
        cache_read: Some(7),
        cache_write: None,
    };
    assert_eq!((usage, failure), (Some(expected), None));
    assert_eq!(rest, ["id", "created", "usage", "choice"]);
    let kinds: Vec<_> = read[0].steps.iter().map(|s| format!("{s:?}")).collect();
    let names: Vec<_> = kinds
        .iter()
        .map(|k| k.split([' ', '{']).next().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "Configured",
            "Message",
            "Called",
            "Message",
            "Returned",
            "Noted",
            "Noted"
        ]
    );
    assert!(
        read[0]
            .steps
            .iter()
            .any(|s| matches!(s, Step::Returned { at: Some(at), .. } if *at == Micros(1_500_000)))
    );
    assert_eq!(warnings(&read), []);
}

#[test]
fn an_anthropic_answer_has_its_cache_counts() {
    let text = r#"{"role":"assistant","content":[{"type":"text","text":"b"}],"type":"message","stop_reason":"end_turn",
        "usage":{"input_tokens":3,"output_tokens":4,"cache_read_input_tokens":5,"cache_creation_input_tokens":6}}"#;
    let read = anthropic::read(cut(text));
    let usage = Usage {
        input: Some(3),
        output: Some(4),
        cache_read: Some(5),
        cache_write: Some(6),
    };
    assert_eq!(returned(&read[0]).0, Some(usage));
    assert_eq!(returned(&read[0]).2, ["type", "stop_reason", "usage"]);
    assert_eq!(messages(&read[0]).len(), 1);
}

#[test]
fn a_refused_call_has_a_failure_and_no_answer() {
    let refused = |status: &str| {
        format!(
            r#"{{"id":"x",{status}"request":{{"messages":[]}},"response":{{"error":{{"message":"no","code":1}}}}}}"#
        )
    };
    for text in [
        refused("\"status\":400,"),
        refused("\"status\":200,"),
        refused(""),
    ] {
        for read in [openai_chat::read(cut(&text)), anthropic::read(cut(&text))] {
            assert_eq!(returned(&read[0]).1.as_deref(), Some("no"), "{text}");
            assert_eq!(messages(&read[0]).len(), 0);
        }
    }
}

#[test]
fn an_answer_the_source_left_out_is_told() {
    let text = r#"{"id":"x","status":200,"request":{"messages":[]},"response":null}"#;
    for read in [openai_chat::read(cut(text)), anthropic::read(cut(text))] {
        assert_eq!(returned(&read[0]).1, None);
        assert_eq!(
            warnings(&read),
            [("f:1".into(), "the source left the answer out".into())]
        );
    }
}

const OPENAI: &str = "openai-chat";
const ANTHROPIC: &str = "anthropic";

#[test]
fn the_format_shows_in_the_records() {
    let expected = [
        ("openai-chat", OPENAI),
        ("anthropic-messages", ANTHROPIC),
        ("claude-code", "claude-code"),
    ];
    for (folder, format) in expected {
        let Some(files) = data(folder) else { return };
        for file in files {
            assert_eq!(
                detect(&pieces_of(&file)),
                Format::from_name(format),
                "{}",
                file.display()
            );
        }
    }
}

#[test]
fn the_format_shows_in_bare_values() {
    let cases = [
        (r#"{"schema":"ctxlog.log/1","seq":0}"#, None),
        (r#"{"role":"user","content":"hi"}"#, Some(OPENAI)),
        (
            r#"[{"role":"user","content":"hi"},{"role":"tool","content":"x"}]"#,
            Some(OPENAI),
        ),
        (
            r#"[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use"}]}]"#,
            Some(ANTHROPIC),
        ),
        (
            r#"{"role":"assistant","content":[{"type":"some_later_tool_use"}]}"#,
            Some(ANTHROPIC),
        ),
        (
            r#"{"role":"assistant","content":[{"type":"mcp_tool_result"}]}"#,
            Some(ANTHROPIC),
        ),
        (r#"{"system":"s","messages":[]}"#, Some(ANTHROPIC)),
        (r#"{"x":1}"#, None),
        ("7", None),
        ("", None),
    ];
    for (text, format) in cases {
        assert_eq!(detect(&cut(text)).map(Format::name), format, "{text}");
    }
    for format in Format::all() {
        assert_eq!(Format::from_name(format.name()), Some(format));
    }
}

#[test]
fn every_file_of_any_format_is_read_without_losing_a_record() {
    let Some(folders) = folders() else { return };
    for file in folders
        .iter()
        .flat_map(|f| data(f.to_str().unwrap()).unwrap())
    {
        let pieces = pieces_of(Path::new(&file));
        for read in [
            openai_chat::read(pieces.clone()),
            anthropic::read(pieces.clone()),
        ] {
            let steps: usize = read.iter().map(|t| t.steps.len()).sum();
            assert!(
                steps > 0 && read.len() <= pieces.len(),
                "{}",
                file.display()
            );
        }
    }
}

/// What a file holds for good: its transcripts without the note of an unfinished record.
fn settled(mut transcripts: Vec<Transcript>) -> Vec<Transcript> {
    for transcript in &mut transcripts {
        if transcript.steps.last().is_some_and(Step::is_unfinished) {
            transcript.steps.pop();
        }
        assert!(!transcript.steps.iter().any(Step::is_unfinished));
    }
    transcripts.retain(|t| !t.steps.is_empty());
    transcripts
}

/// Lines as logs have them, and what becomes of them in bad times.
const LINES: [&str; 14] = [
    r#"{"role":"user","content":"a"}"#,
    r#"{"role":"assistant","content":"é"}"#,
    r#"{"role":"user","content":"cut of"#,
    r#"{"role":"user","content":["#,
    r#"{"role":"user","content":"#,
    r#"{"role":"user" "content":{"x":1}}"#,
    r#"{"id":"r","messages":[{"role":"user","content":"b"}]}"#,
    r#"{"id":"s","request":{"messages":[]},"response":{"choices":[]}}{"glued":[1]}"#,
    "{\n  \"messages\": [\n    {\"role\": \"user\", \"content\": \"c\"}\n  ]\n}",
    "oops",
    "12",
    "\"text\"",
    "}",
    "",
];

proptest! {
    #[test]
    fn a_file_of_lines_that_grew_by_any_byte_begins_with_the_steps_it_had(
        lines in prop::collection::vec(prop::sample::select(LINES.to_vec()), 1..8), at in any::<prop::sample::Index>(),
    ) {
        let text = lines.join("\n");
        let start = at.index(text.len() + 1);
        for end in (start..=text.len()).take(40) {
            for read in [openai_chat::read, anthropic::read] {
                let whole = read(cut(&text));
                let before = settled(read(cut(&text.as_bytes()[..end])));
                for (before, whole) in before.iter().zip(&whole) {
                    prop_assert!(whole.steps.starts_with(&before.steps),
                        "{:?}\n{before:#?}\n{whole:#?}", &text.as_bytes()[..end].escape_ascii().to_string());
                }
                prop_assert!(before.len() <= whole.len());
            }
        }
    }

    #[test]
    fn no_json_panics_the_readers(text in "(\\{|\\}|\\[|\\]|,|:|\"(role|content|messages|request|response|choices|tool_calls|type|text|user|tool|traj|id)\"|1|null|\n){0,60}") {
        openai_chat::read(cut(&text));
        let read = anthropic::read(cut(&text));
        prop_assert!(detect(&cut(&text)).is_none() || !read.is_empty());
    }
}
