//! Bad input, through every reader and into a log: a clear note each, and nothing lost silently.

use std::io::{BufReader, Read};

use ctxlog::audit::verify;
use ctxlog::engine::{Imported, Store};
use ctxlog::formats::input::pieces;
use ctxlog::formats::{
    Profile, Step, Transcript, anthropic, claude_code, given, lint, openai_chat,
};
use ctxlog::log::{Json, Message, Part, Seq};
use proptest::prelude::*;

const LIMIT: usize = 64 << 20;

/// What each reader makes of a file.
fn readings(text: &[u8]) -> [Vec<Transcript>; 3] {
    let cut = || pieces(text, "f", LIMIT).map(Result::unwrap);
    [
        openai_chat::read(cut()),
        anthropic::read(cut()),
        claude_code::read(text, "f", LIMIT).unwrap(),
    ]
}

/// Imports every transcript into a store of its own; checks the logs and that a second import adds
/// nothing.
fn imported(transcripts: &[Transcript]) -> (Store, Vec<Imported>) {
    let store = Store::in_memory();
    let mut out = Vec::new();
    for (n, transcript) in transcripts.iter().enumerate() {
        let import = || {
            let name = format!("t{n}");
            store
                .import(&name, transcript, Vec::new(), &mut |_| {})
                .unwrap()
        };
        out.push(import());
        assert_eq!(import().added, 0, "{transcript:?}");
    }
    for listed in store.list().unwrap() {
        let verified = verify(&store, &listed, &mut |_, _| {}).unwrap();
        assert_eq!(verified.problems, Vec::<String>::new());
    }
    (store, out)
}

fn warnings(imported: &[Imported]) -> Vec<String> {
    let all = imported.iter().flat_map(|i| &i.warnings);
    all.map(|w| format!("{} {}", w.place, w.what)).collect()
}

/// Everything a transcript says, as one text.
fn everything(transcripts: &[Transcript]) -> String {
    let steps = transcripts.iter().flat_map(|t| &t.steps);
    steps.map(said).collect::<Vec<_>>().join(" ")
}

fn said(step: &Step) -> String {
    match step {
        Step::Message { message, .. }
        | Step::Compacted {
            summary: message, ..
        } => {
            let verbatim = message.source.as_ref().and_then(|s| s.verbatim.as_ref());
            let given = given(&[message]);
            [
                format!("{message:?}"),
                texts(verbatim),
                texts(given.as_ref()),
            ]
            .join(" ")
        }
        Step::Configured { settings, .. } => fields(settings),
        Step::Returned { failure, rest, .. } => format!("{failure:?} {}", fields(rest)),
        Step::Noted {
            content: Some(content),
            ..
        } => {
            let text = serde_json::from_str::<String>(&content.0);
            text.unwrap_or_else(|_| content.0.clone())
        }
        _ => String::new(),
    }
}

fn texts(json: Option<&Json>) -> String {
    json.map(|json| json.0.clone()).unwrap_or_default()
}

fn fields(fields: &[(String, Json)]) -> String {
    let fields = fields
        .iter()
        .map(|(name, value)| format!("{name} {}", value.0));
    fields.collect::<Vec<_>>().join(" ")
}

fn nested(depth: usize) -> String {
    format!("{}7{}", "[".repeat(depth), "]".repeat(depth))
}

#[test]
fn an_empty_file_is_no_transcript() {
    for text in ["", "\n", " \n\t\r\n", "\u{feff}", "\u{feff}\n"] {
        for read in readings(text.as_bytes()) {
            assert_eq!(read, [], "{text:?}");
        }
    }
}

#[test]
fn what_is_no_transcript_is_told_and_kept() {
    let deep = nested(10_000);
    let bad: Vec<(Vec<u8>, String)> = vec![
        (
            b"\x7fELF\x02\x01\x01\x00\xff\xfe\n".to_vec(),
            "\x7fELF\x02\x01\x01\0\\xff\\xfe".into(),
        ),
        (b"\xff\xfe{\0}\0\n".to_vec(), "\\xff\\xfe{\0}\0".into()),
        (b"not json at all\n".to_vec(), "not json at all".into()),
        (
            b"{\"role\":\"user\",\"content\":\"\xf0\x9f\"}\n".to_vec(),
            "\"\\xf0\\x9f\"}".into(),
        ),
        (
            b"{\"role\":\"user\",\"content\":\"cut\n".to_vec(),
            "\"cut".into(),
        ),
        (
            b"{\"role\":\"user\",\"content\":}\n".to_vec(),
            "\"content\":}".into(),
        ),
        (b"{'role':'user'}\n".to_vec(), "{'role':'user'}".into()),
        (
            b"{\"role\":\"user\",\"content\":NaN}\n".to_vec(),
            "NaN".into(),
        ),
        (b"nul\n".to_vec(), "nul".into()),
        (format!("{{\"a\":{deep}}}\n").into_bytes(), deep.clone()),
        (format!("{deep}\n").into_bytes(), deep.clone()),
    ];
    for (text, kept) in bad {
        for (n, read) in readings(&text).iter().enumerate() {
            let shown = String::from_utf8_lossy(&text);
            let shown = shown.get(..60).unwrap_or(&shown);
            let (_, imported) = imported(read);
            assert!(!warnings(&imported).is_empty(), "reader {n}: {shown}");
            // A file that is one array holds its elements.
            let kept = if n < 2 && text.starts_with(b"[") {
                &kept[1..kept.len() - 1]
            } else {
                &kept
            };
            assert!(everything(read).contains(kept), "reader {n}: {shown}");
        }
    }
}

/// The same nested value in the places of a message where a source may put any JSON.
fn places(deep: &str) -> Vec<(usize, String)> {
    let line = |message: &str| {
        format!(r#"{{"type":"user","uuid":"u","sessionId":"s","message":{message}}}"#)
    };
    let content = format!(r#"{{"role":"user","content":{deep}}}"#);
    let block = format!(r#"{{"role":"user","content":[{{"type":"x","y":{deep}}}]}}"#);
    let input = format!(
        r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"c","name":"t","input":{deep}}}]}}"#
    );
    let result = format!(
        r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"c","content":{deep}}}]}}"#
    );
    let arguments = format!(
        r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"c","type":"function","function":{{"name":"t","arguments":{deep}}}}}]}}"#
    );
    let tool = format!(r#"{{"role":"tool","tool_call_id":"c","content":{deep}}}"#);
    let body = |m: &str| format!(r#"{{"model":"m","messages":[{m}]}}"#);
    vec![
        (0, content.clone()),
        (0, arguments.clone()),
        (0, tool.clone()),
        (0, body(&block)),
        (0, body(&arguments)),
        (1, content.clone()),
        (1, input.clone()),
        (1, body(&result)),
        (1, format!(r#"{{"system":{deep},"messages":[]}}"#)),
        (2, line(&content)),
        (2, line(&input)),
        (2, line(&result)),
    ]
}

#[test]
fn nesting_is_kept_wherever_it_stands() {
    for depth in [1, 20, 90, 101, 10_000] {
        let deep = nested(depth);
        for (reader, text) in places(&deep) {
            let text = format!("{text}\n");
            let read = &readings(text.as_bytes())[reader];
            let (store, imported) = imported(read);
            let told = warnings(&imported);
            if depth > 100 {
                assert_eq!(told.len(), 1, "{depth} {reader}: {told:?}");
                assert!(told[0].contains("deep; the limit is 100"), "{told:?}");
            }
            assert!(everything(read).contains(&deep), "{depth} {reader}");
            renders_legally(&store);
        }
    }
}

#[test]
fn arguments_that_are_text_may_hold_any_nesting() {
    let deep = nested(10_000);
    let call = Message::calls(vec![Part::call("c", "t", &deep)]);
    let result = Message::tool("c", &deep);
    let store = Store::in_memory();
    let chat = store.conversation("a").unwrap();
    for message in [Message::person("go"), call, result, Message::person("on")] {
        chat.append(message).unwrap();
    }
    renders_legally(&store);
}

/// The windows of all logs render for every provider without breaking a hard rule.
fn renders_legally(store: &Store) {
    for listed in store.list().unwrap() {
        let chat = store.by_id(listed).unwrap();
        let window = chat.window().unwrap();
        if window.items.is_empty() {
            continue;
        }
        for profile in Profile::ALL.iter().copied() {
            let body = chat.render(&window, profile).unwrap().body;
            let body: serde_json::Value = serde_json::from_str(&body).unwrap();
            let broken: Vec<_> = lint::lint(profile, &body)
                .into_iter()
                .filter(|p| p.hard)
                .collect();
            assert!(broken.is_empty(), "{profile:?} {broken:?} in {body}");
        }
    }
}

#[test]
fn odd_messages_are_logged_as_they_are_and_render_legally() {
    let odd = [
        r#"{"role":"user","content":"\ud83d and \ude00"}"#,
        r#"{"role":"user","content":[{"type":"text","text":"a","\ud83d":1}]}"#,
        r#"{"role":"wizard","content":"abracadabra"}"#,
        r#"{"role":7,"content":"seven"}"#,
        r#"{"role":"user"}"#,
        r#"{"role":"user","content":{"not":"a list"}}"#,
        r#"{"role":"user","content":"first","content":"second"}"#,
        r#"{"role":"user","content":[{"type":"text","text":"once","text":"twice"}]}"#,
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"t","input":{"k":1,"k":2}}]}"#,
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"d","name":"t","input":{}},{"type":"tool_use","id":"d","name":"t","input":{}}]}"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"never","content":"lost"}]}"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"e","type":"function","function":{"name":"t","name":"u","arguments":"{}","arguments":"[1]"}}]}"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"f","type":"function","function":{"name":"t","arguments":"{}"}},{"id":"f","type":"function","function":{"name":"t","arguments":"{}"}}]}"#,
        r#"{"role":"tool","tool_call_id":"never","content":"lost"}"#,
        r#"{"role":"tool","content":"no id"}"#,
        r#"{"role":"assistant","content":"","tool_calls":"none"}"#,
    ];
    let all = odd.join("\n") + "\n";
    for text in odd.iter().map(|text| format!("{text}\n")).chain([all]) {
        for read in &readings(text.as_bytes())[..2] {
            let (store, _) = imported(read);
            // What the text says stands in the log, names and values alike.
            let kept = everything(read);
            for word in text
                .split(|c: char| !c.is_ascii_alphanumeric())
                .filter(|w| w.len() > 3)
            {
                let escape = word.starts_with("ud83d") || word.starts_with("ude00");
                assert!(
                    escape || kept.contains(word) || is_layout(word),
                    "{word} of {text} in {kept}"
                );
            }
            renders_legally(&store);
        }
    }
}

/// Names that a reader takes as the shape of a message.
fn is_layout(word: &str) -> bool {
    let known = [
        "role",
        "content",
        "type",
        "text",
        "user",
        "assistant",
        "tool_use",
        "tool",
        "name",
        "input",
        "null",
        "calls",
        "call",
        "function",
        "arguments",
        "result",
        "use",
        "tool_result",
    ];
    known.contains(&word)
}

#[test]
fn repeated_names_in_a_message_are_given_back_as_they_were() {
    let texts = [
        r#"{"role":"user","role":"assistant","content":"a"}"#,
        r#"{"role":"user","content":"a","content":"b"}"#,
        r#"{"role":"user","content":[{"type":"text","text":"a","text":"b"}]}"#,
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"1","id":"2","name":"t","input":{}}]}"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"a","text":"b"}]}]}"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"e","type":"function","function":{"name":"t","name":"u","arguments":"{}"}}]}"#,
        r#"{"role":"tool","tool_call_id":"a","tool_call_id":"b","content":"r"}"#,
    ];
    for text in texts {
        for read in &readings(text.as_bytes())[..2] {
            let Some(Step::Message { message, .. }) = read[0]
                .steps
                .iter()
                .find(|s| matches!(s, Step::Message { .. }))
            else {
                panic!("{text} is no message");
            };
            let verbatim = message.source.as_ref().and_then(|s| s.verbatim.clone());
            let back = verbatim.or_else(|| given(&[message]));
            assert_eq!(back, Some(Json(text.to_owned())));
        }
    }
}

#[test]
fn every_id_of_a_record_is_kept() {
    let text = r#"{"id":"one","id":"two","request":{"messages":[{"role":"user","content":"a"}]},"response":"refused: no","status":500}"#;
    for read in &readings(text.as_bytes())[..2] {
        assert_eq!(read[0].id.as_deref(), Some("two"));
        let kept = everything(read);
        for word in ["one", "two", "refused: no"] {
            assert!(kept.contains(word), "{word} in {kept}");
        }
    }
}

#[test]
fn a_bracket_line_beyond_the_limit_costs_no_memory_at_all() {
    let brackets = std::io::repeat(b'[').take(8 << 20);
    let input = BufReader::new((&b"{\"a\":"[..]).chain(brackets).chain(&b"\n"[..]));
    let read: Vec<_> = pieces(input, "f", 1 << 10).map(Result::unwrap).collect();
    assert_eq!(read.len(), 1);
    let damage = read[0].value.as_ref().unwrap_err();
    assert!(damage.text.is_none() && damage.unfinished && damage.reason.contains("limit of 1024"));
}

#[test]
fn a_hundred_thousand_tiny_records_are_a_hundred_thousand_transcripts() {
    let text = "{\"messages\":[]}\n{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}\n"
        .repeat(50_000);
    let read = openai_chat::read(pieces(text.as_bytes(), "f", LIMIT).map(Result::unwrap));
    assert_eq!(read.len(), 100_000);
}

#[test]
fn a_hundred_thousand_tiny_messages_are_one_log() {
    let text = "{\"role\":\"user\",\"content\":\"a\"}\n".repeat(100_000);
    let read = openai_chat::read(pieces(text.as_bytes(), "f", LIMIT).map(Result::unwrap));
    let store = Store::in_memory();
    let import = || {
        store
            .import("a", &read[0], Vec::new(), &mut |_| {})
            .unwrap()
    };
    assert_eq!(import().messages, 100_000);
    assert_eq!(import().added, 0);
    let chat = store.existing("a").unwrap();
    assert_eq!(chat.head().unwrap().unwrap().seq, Seq(100_001));
}

proptest! {
    #[test]
    fn no_bytes_stop_an_import(bytes in prop::collection::vec(prop_oneof![
        prop::sample::select(vec![
            &b"{\"role\":\"user\",\"content\":"[..], b"\"a\"}", b"\n", b"{\"messages\":[", b"]}", b"[", b"]", b",",
            b"{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"t\",\"input\":{}}]}",
            b"{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"r\"}", b"\xff", b"\\ud83d", b"\"", b"{", b"}",
            b"{\"type\":\"user\",\"uuid\":\"u\",\"sessionId\":\"s\",\"message\":{\"role\":\"user\",\"content\":\"x\"}}",
        ])], 0..24)) {
        let text = bytes.concat();
        for read in readings(&text) {
            let (store, _) = imported(&read);
            renders_legally(&store);
        }
    }
}
