//! Lists of messages that frameworks keep: what `LangChain` and the AI SDK are given.

use std::collections::HashSet;

use ctxlog::formats::lint::lint;
use ctxlog::formats::{Format, Profile, Step, Transcript};
use ctxlog::log::{Message, Part, PartBody, Role};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::common::Log;
use super::counts::every;
use super::driver::{each, hard, is_legal, own, some_of};

const BOTH: [Profile; 2] = [Profile::LangChain, Profile::VercelUi];

/// The messages that stand at the end of a transcript.
fn standing(transcript: &Transcript) -> Log {
    let (mut log, mut gone) = (Log::default(), Vec::new());
    for step in &transcript.steps {
        match step {
            Step::Message { message, link, .. } => log.push(message.clone(), *link),
            Step::Rewound { gone: left, .. } => gone.extend(left.iter().copied()),
            _ => {}
        }
    }
    let mut number = 0..;
    log.messages
        .retain(|_| !gone.contains(&number.next().unwrap()));
    log
}

/// The list of a record.
fn messages(record: &Value) -> &Value {
    let within = &record["values"]["messages"];
    record.get("messages").unwrap_or(within)
}

#[test]
fn as_is_gives_recorded_lists_back() {
    for profile in BOTH {
        each(profile, |record, transcript, place| {
            let (rendered, body) = own(profile, &standing(transcript), true);
            assert_eq!(&body["messages"], messages(record), "{place}");
            assert_eq!(rendered.repairs, [], "{place}");
        });
    }
}

#[test]
fn recorded_lists_are_repaired_where_they_are_broken_and_only_there() {
    let mut broken = Vec::new();
    for profile in BOTH {
        each(profile, |record, transcript, place| {
            let messages = messages(record);
            let problems = hard(profile, &json!({ "messages": messages }));
            let (rendered, body) = own(profile, &standing(transcript), false);
            assert_eq!(hard(profile, &body), Vec::<String>::new(), "{place}");
            if problems.is_empty() {
                assert_eq!(rendered.repairs, [], "{place}");
                assert_eq!(&body["messages"], messages, "{place}");
            } else {
                assert_ne!(rendered.repairs, [], "{place}");
                broken.extend(problems);
            }
        });
    }
    // One run waits for a person: its call has no result yet.
    assert!(
        broken.iter().all(|p| p.starts_with("L1 at Some(1)")),
        "{broken:?}"
    );
    assert!(broken.len() < 2, "{broken:?}");
}

/// The calls of a log by name, and whether each has a final result.
fn calls(log: &Log) -> Vec<(String, bool)> {
    let is_final = |part: &Part| {
        matches!(
            part.body,
            PartBody::Result {
                interim: false,
                native: None,
                ..
            }
        )
    };
    let mut answered = HashSet::new();
    for logged in &log.messages {
        let parts = logged.message.parts.iter().zip(&logged.answers);
        answered.extend(
            parts
                .filter(|(part, _)| is_final(part))
                .filter_map(|(_, a)| *a),
        );
    }
    let mut found = Vec::new();
    for logged in &log.messages {
        for (part, at) in logged.message.parts.iter().zip(0..) {
            if let PartBody::Call {
                name, native: None, ..
            } = &part.body
            {
                found.push((name.clone(), answered.contains(&(logged.seq, at))));
            }
        }
    }
    found.sort(); // what continues a message stands with it
    found
}

/// Whether a log holds what no list can say: calls that no model made, results without a call.
fn says_more(log: &Log) -> bool {
    log.messages.iter().any(|logged| {
        let parts = logged.message.parts.iter().zip(&logged.answers);
        let by_model = logged.message.role == Role::Assistant;
        parts.into_iter().any(|(part, answers)| match part.body {
            PartBody::Call { .. } => !by_model,
            PartBody::Result { .. } => answers.is_none(),
            _ => false,
        })
    })
}

/// What is written is read again: the calls, and whether each has its result.
#[test]
fn written_lists_are_read_again_with_their_calls_and_results() {
    let mut seen = 0;
    every(|_, (_, transcript), place| {
        let log = standing(transcript);
        if says_more(&log) {
            return;
        }
        for profile in BOTH {
            let (_, body) = own(profile, &log, true);
            let format = Format::from_name(profile.name()).unwrap();
            let text = json!({"id": "t", "messages": body["messages"]}).to_string();
            let again = format.read(&mut text.as_bytes(), "f", 1 << 30).unwrap();
            let again = again.first().map(standing).unwrap_or_default();
            assert_eq!(calls(&again), calls(&log), "{place} {profile:?}");
        }
        seen += 1;
    });
    println!("{seen} transcripts");
}

const LANGCHAIN: &[&str] = &[
    r#"{"type":"human","content":"hi","additional_kwargs":{},"id":"1"}"#,
    r#"{"type":"human","data":{"content":[{"type":"text","text":"x"},"bare",{"type":"image_url","image_url":{"url":"u"}}],"id":"1"}}"#,
    r#"{"type":"system","content":null,"additional_kwargs":{}}"#,
    r#"{"type":"human","content":5,"response_metadata":null}"#,
    r#"{"type":"ai","content":"","additional_kwargs":{"reasoning_content":"hm","refusal":null},"tool_calls":[{"name":"f","args":{"a": 1.0},"id":"c","type":"tool_call"}],"invalid_tool_calls":[]}"#,
    r#"{"lc":1,"type":"constructor","id":["langchain","schema","messages","AIMessage"],"kwargs":{"content":[{"type":"tool_use","id":"c","name":"f","input":{}},{"type":"thinking","thinking":"t","signature":"s"}],"tool_calls":[{"name":"f","args":{},"id":"c"}]}}"#,
    r#"{"type":"ai","content":"","additional_kwargs":{"tool_calls":[{"id":"d","type":"function","function":{"name":"f","arguments":"{}"}}]}}"#,
    r#"{"type":"ai","content":"x","additional_kwargs":{},"tool_calls":[{"name":"f","args":"no","id":"c"},7],"usage_metadata":4}"#,
    r#"{"type":"ai","content":[null,7],"additional_kwargs":{},"tool_calls":{},"invalid_tool_calls":[{"name":"f","args":"{","id":"e","error":null}]}"#,
    r#"{"type":"ai","content":"x","additional_kwargs":{},"tool_calls":[{"name":"f","args":{},"id":null},{"name":"g","args":{},"id":null}]}"#,
    r#"{"type":"AIMessageChunk","data":{"content":"y","id":"3"}}"#,
    r#"{"type":"tool","content":"ok","tool_call_id":"c","status":"success","artifact":null}"#,
    r#"{"type":"tool","content":[{"type":"text","text":"no"}],"tool_call_id":"d","status":"error"}"#,
    r#"{"type":"tool","data":{"content":null,"tool_call_id":5,"status":null}}"#,
    r#"{"type":"tool","content":"ok","tool_call_id":null}"#,
    r#"{"type":"function","content":"ok","name":"f","additional_kwargs":{}}"#,
    r#"{"type":"chat","content":"ok","role":"critic","additional_kwargs":{}}"#,
    r#"{"type":"chat","data":{"content":"ok","role":"user"}}"#,
    r#"{"type":"chat","data":{"content":"ok"}}"#,
];

const UI_PARTS: &[&str] = &[
    r#"{"type":"text","text":"hi"}"#,
    r#"{"type":"text","text":"","state":"done","providerMetadata":{"a":{"b":1}}}"#,
    r#"{"type":"text"}"#,
    r#"{"type":"text","text":"x","state":"odd","providerMetadata":null}"#,
    r#"{"type":"reasoning","text":"hm","id":"r"}"#,
    r#"{"type":"file","mediaType":"image/png","url":"data:"}"#,
    r#"{"type":"file","mediaType":"image/png"}"#,
    r#"{"type":"step-start"}"#,
    r#"{"type":"step-start"}"#,
    r#"{"type":"data-x","data":1}"#,
    r#"{"type":"source-url","sourceId":"s","url":"u"}"#,
    r#"{"type":"source-url"}"#,
    r#"{"type":"strange"}"#,
    "7",
    r#"{"type":"tool-f","toolCallId":"a","state":"output-available","input":{"n": 1.0},"output":"x"}"#,
    r#"{"type":"tool-f","toolCallId":"b","state":"output-available","input":{},"output":{"n":[1]},"preliminary":true}"#,
    r#"{"type":"dynamic-tool","toolName":"g","toolCallId":"b","state":"output-error","input":null,"rawInput":"{","errorText":"no"}"#,
    r#"{"type":"tool-f","toolCallId":"c","state":"output-denied","input":{},"approval":{"id":"1","approved":false,"reason":"why"}}"#,
    r#"{"type":"tool-f","toolCallId":"d","state":"approval-requested","input":{},"approval":{"id":"2"}}"#,
    r#"{"type":"tool-f","toolCallId":"d","state":"approval-responded","input":{},"approval":{"id":"2","approved":true}}"#,
    r#"{"type":"tool-f","toolCallId":"e","state":"input-streaming","rawInput":"{\"n"}"#,
    r#"{"type":"tool-f","toolCallId":"e","state":"input-available"}"#,
    r#"{"type":"tool-f","state":"output-available","input":{},"output":null}"#,
    r#"{"type":"tool-f","toolCallId":"f","state":"odd","input":{},"approval":{}}"#,
    r#"{"type":"tool-web","toolCallId":"w","state":"output-available","providerExecuted":true,"input":{},"output":{}}"#,
    r#"{"type":"tool-web","toolCallId":"v","state":"input-available","providerExecuted":true,"input":{}}"#,
    r#"{"type":"tool-","toolCallId":"v","state":"input-available","input":{}}"#,
];

fn ui_message() -> impl Strategy<Value = String> {
    let parts = prop::collection::vec(prop::sample::select(UI_PARTS), 0..7);
    let role = prop::sample::select(vec![
        "user",
        "assistant",
        "assistant",
        "assistant",
        "system",
        "odd",
    ]);
    let id = prop::sample::select(vec![
        r#""id":"i","#,
        r#""id":"j","#,
        r#""id":"","#,
        "",
        r#""id":7,"#,
    ]);
    (id, role, parts).prop_map(|(id, role, parts)| {
        format!(
            r#"{{{id}"role":"{role}","metadata":{{"k":1}},"parts":[{}]}}"#,
            parts.join(",")
        )
    })
}

fn list(profile: Profile) -> BoxedStrategy<String> {
    let join =
        |messages: Vec<String>| format!(r#"{{"id":"t","messages":[{}]}}"#, messages.join(","));
    match profile {
        Profile::LangChain => {
            let message = prop::sample::select(LANGCHAIN).prop_map(str::to_owned);
            prop::collection::vec(message, 0..9).prop_map(join).boxed()
        }
        _ => prop::collection::vec(ui_message(), 0..5)
            .prop_map(join)
            .boxed(),
    }
}

/// A list is given back as it was; it is made legal, and stays as it is where it was; and so is
/// whatever is left of it.
fn holds(profile: Profile, text: &str, seed: u64) -> Result<(), TestCaseError> {
    let format = Format::from_name(profile.name()).unwrap();
    let read = format.read(&mut text.as_bytes(), "f", 1 << 20).unwrap();
    let source: Value = serde_json::from_str(text).unwrap();
    let mut log = Log::default();
    for step in read.iter().flat_map(|t| &t.steps) {
        if let Step::Message { message, link, .. } = step {
            log.push(message.clone(), *link); // what an id replaces, too
        }
    }
    let (as_is, body) = own(profile, &log, true);
    prop_assert_eq!(&body["messages"], &source["messages"]);
    prop_assert_eq!(as_is.repairs, vec![]);
    let (repaired, after) = own(profile, &log, false);
    // A call that another's result seems to answer is closed, too.
    let broken = lint(profile, &body);
    let broken = broken.iter().any(|p| p.hard || p.rule == "L1");
    prop_assert_eq!(hard(profile, &after), Vec::<String>::new(), "{:#}", after);
    if broken {
        prop_assert_ne!(repaired.repairs, vec![]);
    } else {
        prop_assert_eq!(&after, &body);
        prop_assert_eq!(repaired.repairs, vec![]);
    }
    is_legal(
        profile,
        &some_of(&log.items(), seed),
        profile.name(),
        "a part",
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_list_of_langchain_is_given_back_and_made_legal(text in list(Profile::LangChain), seed in any::<u64>()) {
        holds(Profile::LangChain, &text, seed)?;
    }

    #[test]
    fn any_list_of_ui_messages_is_given_back_and_made_legal(text in list(Profile::VercelUi), seed in any::<u64>()) {
        holds(Profile::VercelUi, &text, seed)?;
    }
}

#[test]
fn what_a_model_did_in_a_row_is_one_ui_message_of_steps() {
    let log = Log::of([
        Message::person("go"),
        Message::calls(vec![
            Part::text("I will"),
            Part::call("a", "f", "{\"n\": 1}"),
        ]),
        Message::tool("a", "one"),
        Message::calls(vec![Part::call("b", "f", "{oops")]),
        Message::person("and?"),
    ]);
    let (rendered, body) = own(Profile::VercelUi, &log, false);
    assert_eq!(rendered.repairs, []);
    let expected = json!([
        {"id": "m10", "role": "user", "parts": [{"type": "text", "text": "go"}]},
        {"id": "m11", "role": "assistant", "parts": [
            {"type": "text", "text": "I will"},
            {"type": "dynamic-tool", "toolName": "f", "toolCallId": "a", "state": "output-available",
                "input": {"n": 1}, "output": "one"},
            {"type": "step-start"},
            {"type": "dynamic-tool", "toolName": "f", "toolCallId": "b", "state": "input-available",
                "input": "{oops"},
        ]},
        {"id": "m14", "role": "user", "parts": [{"type": "text", "text": "and?"}]},
    ]);
    assert_eq!(body["messages"], expected);
    let places: Vec<u64> = rendered.places.iter().map(|seq| seq.0).collect();
    assert_eq!(places, [10, 11, 14]);
}

#[test]
fn the_state_of_a_call_says_what_came_of_it() {
    let text = r#"{"id":"t","messages":[{"id":"i","role":"assistant","parts":[{"type":"tool-f","toolCallId":"d",
        "state":"approval-requested","input":{},"approval":{"id":"2"}}]}]}"#;
    let format = Format::from_name("vercel-uimessages").unwrap();
    let read = format.read(&mut text.as_bytes(), "f", 1 << 20).unwrap();
    let mut log = standing(&read[0]);
    log.push(Message::tool("d", "done"), ctxlog::formats::Link::None);
    let (rendered, body) = own(Profile::VercelUi, &log, false);
    assert_eq!(rendered.repairs, []);
    let part = json!({"type": "tool-f", "toolCallId": "d", "state": "output-available", "input": {},
        "output": "done"});
    assert_eq!(
        body["messages"],
        json!([{"id": "i", "role": "assistant", "parts": [part]}])
    );
}

#[test]
fn a_call_that_langchain_cannot_read_needs_no_result_and_one_without_id_gets_one() {
    let mut nameless = Part::call("", "g", "");
    if let PartBody::Call { id, .. } = &mut nameless.body {
        *id = None;
    }
    let log = Log::of([Message::calls(vec![
        Part::call("a", "f", "{oops"),
        nameless,
    ])]);
    let (rendered, body) = own(Profile::LangChain, &log, false);
    let said = json!({"type": "ai", "content": "", "additional_kwargs": {}, "response_metadata": {},
        "tool_calls": [{"name": "g", "args": {}, "id": "call_10_1", "type": "tool_call"}],
        "invalid_tool_calls": [{"name": "f", "args": "{oops", "id": "a", "error": null,
            "type": "invalid_tool_call"}]});
    assert_eq!(body["messages"][0], said);
    assert_eq!(body["messages"][1]["tool_call_id"], "call_10_1");
    let rules: Vec<&str> = rendered.repairs.iter().map(|r| r.rule).collect();
    assert_eq!(rules, ["L1", "L1"]);
    assert_eq!(rendered.places.len(), 2);
}
