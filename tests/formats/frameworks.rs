//! The traps of Gemini's, Bedrock's and the frameworks' formats, one example each.

use ctxlog::formats::input::RECORD_LIMIT;
use ctxlog::formats::{Begins, Format, Link, Step, Transcript, detect};
use ctxlog::log::{Author, BlockBody, Message, Part, PartBody, Role};

fn read(format: &str, text: &str) -> Vec<Transcript> {
    let found: Vec<_> = ctxlog::formats::input::pieces(text.as_bytes(), "f", RECORD_LIMIT)
        .map(Result::unwrap)
        .collect();
    assert_eq!(detect(&found).unwrap().name(), format);
    let format = Format::from_name(format).unwrap();
    format
        .read(&mut text.as_bytes(), "f", RECORD_LIMIT)
        .unwrap()
}

fn one(format: &str, text: &str) -> Transcript {
    let mut read = read(format, text);
    assert_eq!(read.len(), 1, "{read:?}");
    read.remove(0)
}

/// The steps in a few words: a message's role (`+` where it continues another), what was called and came
/// back, what left, notes (`!` where they warn).
fn told(transcript: &Transcript) -> String {
    let word = |step: &Step| match step {
        Step::Message { message, link, .. } => match link {
            Link::Continues(_) => format!("+{}", message.role.name()),
            _ => message.role.name().to_owned(),
        },
        Step::Called { .. } => "call".to_owned(),
        Step::Returned { failure, .. } => match failure {
            Some(words) => format!("failed({words})"),
            None => "back".to_owned(),
        },
        Step::Compacted { summary, .. } => format!("compacted({})", summary.words()),
        Step::Rewound { gone, .. } => format!("gone{gone:?}"),
        Step::Configured { .. } => "set".to_owned(),
        Step::Noted { what, warn, .. } => format!("{what}{}", if *warn { "!" } else { "" }),
        Step::Cleared { .. } => "cleared".to_owned(),
    };
    let words: Vec<String> = transcript.steps.iter().map(word).collect();
    words.join(" ")
}

fn messages(transcript: &Transcript) -> Vec<&Message> {
    let mut found = Vec::new();
    for step in &transcript.steps {
        if let Step::Message { message, .. } = step {
            found.push(message);
        }
    }
    found
}

/// A part in a few words.
fn shown(part: &Part) -> String {
    match &part.body {
        PartBody::Block(BlockBody::Text(text)) => format!("'{text}'"),
        PartBody::Block(BlockBody::Media(kind, _)) => format!("{kind:?}"),
        PartBody::Block(BlockBody::Opaque(kind, _)) => format!("<{kind}>"),
        PartBody::Reasoning {
            text, signature, ..
        } => format!("thought '{text}' {}", signature.as_deref().unwrap_or("-")),
        PartBody::Call {
            id,
            name,
            arguments,
            native,
        } => format!(
            "{}{name}#{}({arguments})",
            if native.is_some() { "native " } else { "" },
            id.as_deref().unwrap_or("-")
        ),
        PartBody::Result {
            call,
            name,
            content,
            error,
            native,
            ..
        } => {
            let words: Vec<String> = content
                .iter()
                .map(|block| match &block.body {
                    BlockBody::Text(text) => text.clone(),
                    other => format!("{other:?}"),
                })
                .collect();
            format!(
                "{}{}#{}={}{}",
                if native.is_some() { "native " } else { "" },
                name.as_deref().unwrap_or_default(),
                call.as_deref().unwrap_or("-"),
                if native.is_some() {
                    String::new()
                } else {
                    words.join("|")
                },
                match error {
                    Some(true) => " failed",
                    _ => "",
                }
            )
        }
    }
}

fn parts(message: &Message) -> String {
    let parts: Vec<String> = message.parts.iter().map(shown).collect();
    parts.join(", ")
}

fn all(transcript: &Transcript) -> Vec<String> {
    messages(transcript).into_iter().map(parts).collect()
}

#[test]
fn gemini_speaks_in_two_spellings_of_which_each_is_kept() {
    let text = r#"{"contents":[{"parts":[{"text":"hi"},{"inline_data":{"mime_type":"image/png","data":"x"}}]},
        {"role":"model","parts":[{"text":"hm","thought":true},{"functionCall":{"name":"a","args":{"n":1.0}},"thoughtSignature":"\u0041"},
        {"function_call":{"name":"b","args":{}},"thought_signature":"y"}]},
        {"role":"user","parts":[{"functionResponse":{"name":"a","response":{"r":1}}},
        {"function_response":{"name":"b","response":{"r":2}}},{"text":"go on"}]}]}"#;
    let read = one("gemini-contents", text);
    assert_eq!(told(&read), "user call assistant tool user");
    assert_eq!(
        all(&read),
        [
            "'hi', Image",
            r#"thought 'hm' -, a#-({"n":1.0}), b#-({})"#,
            r#"a#-={"r":1}, b#-={"r":2}"#,
            "'go on'"
        ]
    );
    let extra = |part: usize| &messages(&read)[1].parts[part].extra;
    assert_eq!(extra(1)[0].0, "thoughtSignature");
    assert_eq!(extra(1)[0].1.0, r#""\u0041""#, "byte for byte");
    assert!(extra(2).iter().any(|(name, _)| name == "thought_signature"));
    assert!(matches!(
        &read.steps[4],
        Step::Message {
            link: Link::SameSource(2),
            ..
        }
    ));
}

#[test]
fn geminis_own_tools_empty_texts_and_lone_metadata_are_kept_whole() {
    let text = r#"{"candidates":[{"content":{"role":"model","parts":[{"executableCode":{"code":"1"}},
        {"codeExecutionResult":{"outcome":"OUTCOME_OK"}},{"toolCall":{"id":"t"}},{"videoMetadata":{"fps":1}},{"text":""}]},
        "finishReason":"STOP"}],"modelVersion":"g","usageMetadata":{"promptTokenCount":10,"cachedContentTokenCount":4,
        "candidatesTokenCount":2,"thoughtsTokenCount":3}}"#;
    let read = one("gemini-contents", text);
    assert_eq!(told(&read), "call assistant back");
    assert_eq!(
        all(&read),
        ["<executableCode>, <codeExecutionResult>, <toolCall>, <videoMetadata>, ''"]
    );
    let Step::Returned {
        usage: Some(usage), ..
    } = &read.steps[2]
    else {
        panic!("{read:?}");
    };
    assert_eq!(
        (usage.input, usage.output, usage.cache_read),
        (Some(6), Some(5), Some(4))
    );
    let Step::Called { model, .. } = &read.steps[0] else {
        panic!("{read:?}");
    };
    assert_eq!(model.as_deref(), Some("g"));
}

#[test]
fn gemini_cli_expands_calls_and_keeps_notices_apart() {
    let text = r#"{"sessionId":"s","projectHash":"p","messages":[{"id":"a","type":"user","content":"go"},
        {"id":"b","timestamp":"2026-01-10T07:58:33.038Z","type":"gemini","content":"","model":"m","tokens":{"input":9,"output":2,"cached":4,"thoughts":1},
        "thoughts":[{"subject":"S","description":"D"}],"toolCalls":[
        {"id":"1","name":"w","args":{},"status":"success","result":[{"functionResponse":{"id":"1","name":"w","response":{"output":"ok"}}}]},
        {"id":"2","name":"r","args":{},"status":"cancelled","result":[{"functionResponse":{"id":"2","name":"r","response":{"error":"no"}}}]},
        {"id":"3","name":"x","args":{},"status":"executing"}]},
        {"id":"c","type":"gemini","content":"done"},{"id":"d","type":"info","content":"Request cancelled."}]}"#;
    let read = one("gemini-cli", text);
    assert_eq!(
        told(&read),
        "record user call assistant back tool tool call assistant info"
    );
    assert_eq!(
        all(&read),
        [
            "'go'",
            "thought 'S\nD' -, w#1({}), r#2({}), x#3({})",
            r#"w#1={"output":"ok"}"#,
            r#"r#2={"error":"no"} failed"#,
            "'done'"
        ]
    );
}

const SESSION: &str = r#"{"sessionId":"s","projectHash":"p","startTime":"2026-09-10T18:13:00Z","messages":[],"kind":"main"}
{"id":"a","timestamp":"2026-09-10T18:13:01Z","type":"user","content":"go"}
{"id":"b","type":"gemini","content":"","thoughts":[{"subject":"S","description":"D"}],"tokens":null}
{"id":"b","type":"gemini","content":"hm","thoughts":[{"subject":"S","description":"D"}],"tokens":{"input":9,"output":2},"toolCalls":[{"id":"1","name":"w","args":{},"status":"executing"}]}
{"id":"b","type":"gemini","content":"hm","thoughts":[{"subject":"S","description":"D"}],"tokens":{"input":9,"output":2},"toolCalls":[{"id":"1","name":"w","args":{},"status":"success","result":[{"functionResponse":{"id":"1","name":"w","response":{}}}]}]}
{"$set":{"lastUpdated":"2026-09-10T18:14:00Z"}}
{"id":"c","type":"info","content":"note"}
{"id":"c","type":"info","content":"note"}
{"id":"d","type":"user","content":"more"}
{"$rewindTo":"d"}
{"id":"e","type":"user","content":"else"}
{"$set":{"messages":[{"id":"x","type":"user","content":"summary"},{"id":"e","type":"user","content":"else"}]}}
{"id":"f","type":"gemini","content":"yes","model":"m"}
{"id":"f","type":"gemini","content":"no","model":"m"}
{"$rewindTo":"nowhere"}
"#;

#[test]
fn gemini_cli_lines_write_messages_anew_and_say_what_left() {
    let read = one("gemini-cli", SESSION);
    assert_eq!(read.id.as_deref(), Some("s"));
    assert_eq!(
        told(&read),
        "record user call assistant +assistant back tool $set info user gone[4] user gone[0, 1, 2, 3] user \
         call assistant gone[7] call assistant gone[5, 6, 8]"
    );
    assert_eq!(
        all(&read),
        [
            "'go'",
            "thought 'S\nD' -",
            "'hm', w#1({})",
            "w#1={}",
            "'more'",
            "'else'",
            "'summary'",
            "'yes'",
            "'no'"
        ]
    );
    let authors: Vec<Author> = messages(&read).iter().map(|m| m.author).collect();
    assert_eq!(authors[5], Author::Person);
    assert_eq!(
        authors[6],
        Author::Application,
        "a compression put it there"
    );
    for (end, _) in SESSION.match_indices('\n') {
        let part = one("gemini-cli", &SESSION[..end]);
        assert_eq!(part.steps[..], read.steps[..part.steps.len()], "{end}");
    }
}

#[test]
fn adk_events_have_several_authors_and_say_what_was_hidden() {
    let event = |id: &str, who: &str, at: u32, rest: &str| {
        format!(
            r#"{{"id":"{id}","invocation_id":"i{at}","author":"{who}","timestamp":{at}.5,{rest}}}"#
        )
    };
    let said = |role: &str, text: &str| {
        format!(r#""content":{{"role":"{role}","parts":[{{"text":"{text}"}}]}}"#)
    };
    let events = [
        event("a", "user", 1, &said("user", "one")),
        event("b", "planner", 2, &said("model", "two")),
        event("c", "writer", 3, r#""content":null,"error_message":"lost""#),
        event("d", "writer", 4, r#""actions":{"state_delta":{}}"#),
        event(
            "e",
            "user",
            5,
            r#""actions":{"compaction":{"start_timestamp":0.5,"end_timestamp":1.5,
            "compacted_content":{"role":"model","parts":[{"text":"sum"}]}}}"#,
        ),
        event("f", "writer", 6, &said("model", "three")),
        event(
            "g",
            "user",
            7,
            r#""actions":{"rewind_before_invocation_id":"i6"}"#,
        ),
        event(
            "h",
            "user",
            8,
            r#""actions":{"compaction":{"start_timestamp":0.5,"end_timestamp":2.5,
            "compacted_content":{"role":"model","parts":[{"text":"all"}]}}}"#,
        ),
    ];
    let text = format!(r#"{{"id":"s","events":[{}]}}"#, events.join(",\n"));
    let read = one("adk-session", &text);
    assert_eq!(
        told(&read),
        "record user call assistant call failed(lost) event gone[0] assistant call assistant gone[3] event compacted(all)"
    );
    let authors: Vec<Author> = messages(&read).iter().map(|m| m.author).collect();
    let (person, model, application) = (Author::Person, Author::Model, Author::Application);
    assert_eq!(authors, [person, model, application, model]);
}

#[test]
fn cases_of_adk_hold_calls_without_results() {
    let text = r#"{"eval_set_id":"s","eval_cases":[{"eval_id":"e","conversation":[{"user_content":{"parts":[{"text":"go"}],"role":"user"},
        "final_response":{"parts":[{"function_call":null,"text":null}],"role":"model"},
        "intermediate_data":{"tool_uses":[{"id":null,"args":{},"name":"a"},{"id":null,"args":{},"name":"a"}],"intermediate_responses":[["x",[{"text":"hm"}]]]}}]}]}"#;
    let read = one("adk-session", text);
    assert_eq!(read.id.as_deref(), Some("e"));
    assert_eq!(all(&read), ["'go'", "a#-({}), a#-({})", "'hm'", "''"]);
    assert!(told(&read).ends_with("calls of tools whose results the source left out"));
}

#[test]
fn blocks_of_bedrock_are_what_their_one_field_says() {
    let text = r#"{"system":[{"text":"s"},{"cachePoint":{"type":"default"}}],"messages":[
        {"role":"user","content":[{"text":"hi"},{"document":{"name":"d","format":"txt","source":{"bytes":"eA=="}}}]},
        {"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"hm","signature":"sig"}}},
        {"reasoningContent":{"redactedContent":"x"}},{"toolUse":{"toolUseId":"n","name":"code","input":{},"type":"server_tool_use"}},
        {"toolResult":{"toolUseId":"n","content":[],"type":"r"}},{"toolUse":{"toolUseId":"c","name":"add","input":{"a": 1}}}]},
        {"role":"user","content":[{"toolResult":{"toolUseId":"c","content":[{"json":{"a": 1}},{"text":"t"}],"status":"error"}},{"text":"so"}]}]}"#;
    let read = one("bedrock-converse", text);
    assert_eq!(told(&read), "system user call assistant tool user");
    assert_eq!(
        all(&read),
        [
            "'s', <cachePoint>",
            "'hi', File",
            r#"thought 'hm' sig, thought '' -, native code#n({}), native #n=, add#c({"a": 1})"#,
            r#"#c={"a": 1}|t failed"#,
            "'so'"
        ]
    );
}

fn openhands(events: &[&str]) -> String {
    let line = |(n, event): (usize, &&str)| {
        format!(r#"{{"id":"{n}","timestamp":"2026-06-16T05:39:48.701247",{event}}}"#)
    };
    let lines: Vec<String> = events.iter().enumerate().map(line).collect();
    lines.join("\n")
}

const WRITTEN: &str = r#""kind":"MessageEvent","source":"agent","llm_message":{"role":"assistant","content":[],"tool_calls":[{"id":"c","type":"function","function":{"name":"ls","arguments":"{}"}}]}"#;
const ACTED: &str = r#""kind":"ActionEvent","source":"agent","thought":[],"action":{},"tool_name":"ls","tool_call_id":"c","llm_response_id":"r1","tool_call":{"id":"c","type":"function","function":{"name":"ls","arguments":"{}"}}"#;
const OBSERVED: &str = r#""kind":"ObservationEvent","source":"environment","observation":{"stdout":"x"},"tool_name":"ls","tool_call_id":"c","action_id":"a""#;
const RESULT: &str = r#""kind":"MessageEvent","source":"environment","llm_message":{"role":"tool","tool_call_id":"c","name":"ls","content":[{"type":"text","text":"x"}]}"#;
const ASKED: &str = r#""kind":"MessageEvent","source":"user","llm_message":{"role":"user","content":[{"type":"text","text":"go"}]}"#;

#[test]
fn openhands_tells_calls_and_results_twice_and_they_count_once() {
    let read_all = |events: &[&str]| told(&one("openhands-events", &openhands(events)));
    assert_eq!(
        read_all(&[ASKED, WRITTEN, ACTED, OBSERVED, RESULT, WRITTEN, RESULT]),
        "user call assistant ActionEvent ObservationEvent tool call assistant tool"
    );
    // A run that died between them and was taken up again.
    assert_eq!(
        read_all(&[WRITTEN, ACTED, OBSERVED, ASKED]),
        "call assistant ActionEvent ObservationEvent tool user"
    );
    // Actions alone: ids may come again.
    assert_eq!(
        read_all(&[ACTED, OBSERVED, ACTED, OBSERVED]),
        "call assistant tool +assistant tool"
    );
    assert_eq!(
        read_all(&[ACTED, WRITTEN, OBSERVED]),
        "call assistant MessageEvent tool"
    );
    let state =
        r#""kind":"ConversationStateUpdateEvent","source":"environment","key":"k","value":1"#;
    assert_eq!(
        read_all(&[state, OBSERVED]),
        "ConversationStateUpdateEvent tool"
    );
}

#[test]
fn openhands_actions_of_one_response_are_one_message() {
    let action = |id: &str, response: &str| {
        format!(
            r#""kind":"ActionEvent","source":"agent","thought":[{{"type":"text","text":"t"}}],"action":{{}},"tool_name":"ls","tool_call_id":"{id}",
            "tool_call":{{"id":"{id}","name":"ls","arguments":"{{}}","origin":"completion"}},"llm_response_id":"{response}""#
        )
        .replace('\n', "")
    };
    let failed = r#""kind":"AgentErrorEvent","source":"agent","error":"no","tool_name":"ls","tool_call_id":"b""#;
    let (a, b, c) = (action("a", "1"), action("b", "1"), action("c", "2"));
    let read = one("openhands-events", &openhands(&[&a, &b, failed, &c]));
    assert_eq!(told(&read), "call assistant +assistant tool call assistant");
    assert_eq!(
        all(&read),
        [
            "'t', ls#a({})",
            "'t', ls#b({})",
            "ls#b=no failed",
            "'t', ls#c({})"
        ]
    );
    let Step::Message { at, .. } = &read.steps[1] else {
        panic!("{read:?}");
    };
    assert!(at.is_some(), "a time without a zone");
}

#[test]
fn openhands_condensations_take_events_out_of_the_window() {
    let some = r#""kind":"Condensation","source":"environment","forgotten_event_ids":["1","7"],"summary":"S""#;
    let rest = r#""kind":"Condensation","source":"environment","forgotten_event_ids":["0","2"],"summary":"T""#;
    let read = one("openhands-events", &openhands(&[ASKED, ASKED, some, rest]));
    assert_eq!(
        told(&read),
        "user user Condensation gone[1] user compacted(T)"
    );
    let none = r#""kind":"Condensation","source":"environment","forgotten_event_ids":["0"],"summary":null"#;
    let read = one("openhands-events", &openhands(&[ASKED, none]));
    assert_eq!(told(&read), "user Condensation gone[0]");
}

#[test]
fn openhands_steps_are_prefix_stable() {
    let log = openhands(&[
        ASKED, WRITTEN, ACTED, OBSERVED, RESULT, ACTED, OBSERVED, ASKED,
    ]);
    let whole = one("openhands-events", &log);
    for (end, _) in log.match_indices('\n') {
        let part = one("openhands-events", &log[..end]);
        assert_eq!(part.steps[..], whole.steps[..part.steps.len()], "{end}");
    }
}

#[test]
fn letta_answers_all_calls_at_once_and_approvals_are_no_messages() {
    let text = r#"{"agents":[{"id":"agent-0","name":"n","in_context_message_ids":["m1","m4","m5"],"messages":[
        {"id":"m0","role":"system","content":[{"type":"text","text":"old"}]},
        {"id":"m1","role":"system","content":[{"type":"text","text":"new"}]},
        {"id":"m2","role":"user","content":[{"type":"text","text":"go"}]},
        {"id":"m3","role":"approval","content":[{"type":"reasoning","is_native":true,"reasoning":"hm","signature":"s"}],
        "tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"},"type":"function"},{"id":"b","function":{"name":"g","arguments":"{}"},"type":"function"}],"tool_call_id":"a"},
        {"id":"m3b","role":"approval","approvals":[{"tool_call_id":"a","status":"success","func_response":"1"}]},
        {"id":"m4","role":"tool","tool_call_id":"a","tool_returns":[{"tool_call_id":"b","status":"error","func_response":"2"},{"tool_call_id":"a","status":"success","func_response":"1"}]},
        {"id":"m5","role":"assistant","content":[{"type":"text","text":"done"}]}]}]}"#;
    let read = one("letta-af", text);
    assert_eq!(
        told(&read),
        "record system system user call assistant approval tool call assistant gone[0, 2, 3]"
    );
    assert_eq!(
        all(&read)[3..],
        [
            "thought 'hm' s, f#a({}), g#b({})",
            "#b=2 failed, #a=1",
            "'done'"
        ]
    );
    let old = r#"{"name":"n","in_context_message_indices":[2,0],"messages":[{"role":"system","content":[{"type":"text","text":"s"}]},
        {"role":"user","content":[{"type":"text","text":"go"}]},{"role":"tool","content":[{"type":"text","text":"ok"}],"tool_call_id":"x"}]}"#;
    let read = one("letta-af", old);
    assert_eq!(told(&read), "record system user tool gone[1]");
}

#[test]
fn langchain_is_one_conversation_in_three_spellings() {
    let calls = r#""tool_calls":[{"name":"f","args":{"a": 1},"id":"c","type":"tool_call"}],
        "invalid_tool_calls":[{"name":"g","args":"{oops","id":"d","error":"e"}],"additional_kwargs":{"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]}"#;
    let fields = [
        r#""content":"hi","response_metadata":{}"#.to_owned(),
        format!(r#""content":"",{calls}"#),
        r#""content":"ok","tool_call_id":"c","status":"error""#.to_owned(),
    ];
    let kinds = [
        ("human", "HumanMessage"),
        ("ai", "AIMessage"),
        ("tool", "ToolMessage"),
    ];
    let expected = ["'hi'", r#"'', f#c({"a": 1}), g#d({oops)"#, "#c=ok failed"];
    let spell = |spelling: &dyn Fn((&str, &str), &String) -> String| {
        let messages: Vec<String> = kinds
            .iter()
            .zip(&fields)
            .map(|(k, f)| spelling(*k, f))
            .collect();
        one(
            "langchain",
            &format!(r#"{{"id":"t","messages":[{}]}}"#, messages.join(",")),
        )
    };
    for read in [
        spell(&|(kind, _), fields| format!(r#"{{"type":"{kind}",{fields}}}"#)),
        spell(&|(kind, _), fields| format!(r#"{{"type":"{kind}","data":{{{fields}}}}}"#)),
        spell(&|(_, class), fields| {
            format!(
                r#"{{"lc":1,"type":"constructor","id":["langchain","schema","messages","{class}"],"kwargs":{{{fields}}}}}"#
            )
        }),
    ] {
        assert_eq!(told(&read), "record user call assistant tool");
        assert_eq!(all(&read), expected);
    }
}

#[test]
fn langchain_ids_replace_remove_and_go_on() {
    let text = r#"[{"type":"human","data":{"content":"a","id":"1"}},{"type":"human","data":{"content":"b","id":"2"}},
        {"type":"human","data":{"content":"c","id":"1"}},{"type":"remove","data":{"content":"","id":"2"}},
        {"type":"AIMessageChunk","data":{"content":"x","id":"3"}},{"type":"AIMessageChunk","data":{"content":"y","id":"3"}},
        {"type":"remove","data":{"content":"","id":"__remove_all__"}}]"#;
    let read = one("langchain", text);
    assert_eq!(
        told(&read),
        "user user gone[0] user gone[1] call assistant +assistant gone[2, 3, 4]"
    );
}

#[test]
fn langchain_content_repeats_calls_in_place() {
    let text = r#"{"messages":[{"type":"ai","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"tool_use","id":"c","name":"f","input":{}},
        {"type":"text","text":"so"}],"additional_kwargs":{},"tool_calls":[{"name":"f","args":{},"id":"c"},{"name":"g","args":{},"id":"d"}],
        "usage_metadata":{"input_tokens":10,"output_tokens":2,"input_token_details":{"cache_read":4}}}]}"#;
    let read = one("langchain", text);
    assert_eq!(told(&read), "call assistant back");
    assert_eq!(all(&read), ["thought 'hm' s, f#c({}), 'so', g#d({})"]);
}

#[test]
fn langchain_states_of_a_stream_end_in_the_last_one() {
    let text = r#"[["values",{"messages":[{"type":"human","data":{"content":"a"}}]}],
        ["updates",{"x":1}],
        ["values",{"messages":[{"type":"human","data":{"content":"a"}},{"type":"ai","data":{"content":"b"}}],"__interrupt__":[]}]]"#;
    let format = Format::from_name("langchain").unwrap();
    let read = format
        .read(&mut text.as_bytes(), "f", RECORD_LIMIT)
        .unwrap();
    assert_eq!(all(&read[0]), ["'a'", "'b'"]);
    assert_eq!(told(&read[1]), "updates");
}

fn snapshot(id: u32, parent: Option<u32>, messages: &[(&str, &str)]) -> String {
    let parent = parent.map_or("null".to_owned(), |p| {
        format!(r#"{{"configurable":{{"thread_id":"t","checkpoint_id":"{p}"}}}}"#)
    });
    let messages: Vec<String> = messages
        .iter()
        .map(|(id, text)| {
            format!(r#"{{"type":"human","data":{{"content":"{text}","id":"{id}"}}}}"#)
        })
        .collect();
    format!(
        r#"{{"values":{{"messages":[{}]}},"config":{{"configurable":{{"thread_id":"t","checkpoint_id":"{id}"}}}},
        "parent_config":{parent},"created_at":"2026-01-01T00:00:0{id}+00:00"}}"#,
        messages.join(",")
    )
}

#[test]
fn checkpoints_are_differences_along_the_chain_and_two_children_are_a_fork() {
    let (a, b, c, changed) = (("a", "1"), ("b", "2"), ("c", "3"), ("b", "4"));
    let snapshots = [
        snapshot(6, Some(5), &[b, c]),
        snapshot(5, Some(2), &[a, b, c]),
        snapshot(4, Some(3), &[]),
        snapshot(3, Some(2), &[a, changed]),
        snapshot(2, Some(1), &[a, b]),
        snapshot(1, None, &[a]),
    ];
    for newest_first in [true, false] {
        let mut snapshots = snapshots.to_vec();
        if !newest_first {
            snapshots.reverse();
        }
        let read = read(
            "langgraph-checkpoints",
            &format!("[{}]", snapshots.join(",\n")),
        );
        let [main, fork] = read.as_slice() else {
            panic!("{read:?}");
        };
        assert_eq!(main.id.as_deref(), Some("t"));
        assert_eq!(
            told(main),
            "user checkpoint user checkpoint user checkpoint gone[0] checkpoint"
        );
        assert_eq!(fork.id.as_deref(), Some("t#3"));
        let begins = Begins::Branch {
            of: "t".to_owned(),
            shared: 4,
        };
        assert_eq!(fork.begins, begins);
        assert_eq!(
            told(fork),
            "user checkpoint user checkpoint gone[1] user checkpoint gone[0, 2] checkpoint"
        );
    }
}

#[test]
fn checkpoints_that_hang_on_each_other_are_read() {
    let snapshots = [
        snapshot(3, Some(3), &[("a", "1")]),
        snapshot(2, Some(1), &[("a", "1")]),
        snapshot(1, Some(2), &[("a", "1"), ("b", "2")]),
    ];
    let read = read("langgraph-checkpoints", &snapshots.join("\n"));
    let told: Vec<String> = read.iter().map(told).collect();
    assert_eq!(
        told,
        ["user checkpoint", "user user checkpoint gone[1] checkpoint"]
    );
}

#[test]
fn one_message_of_the_ai_sdk_is_many_steps() {
    let text = r#"[{"id":"u","role":"user","parts":[{"type":"text","text":"go"},{"type":"file","mediaType":"image/png","url":"data:"},{"type":"data-x","data":1}]},
        {"id":"","role":"assistant","parts":[{"type":"step-start"},{"type":"reasoning","text":"hm"},{"type":"tool-f","toolCallId":"a","state":"output-available","input":{},"output":"x"},
        {"type":"dynamic-tool","toolName":"g","toolCallId":"b","state":"output-error","input":{"n": 1},"errorText":"no"},{"type":"text","text":"then"},
        {"type":"step-start"},{"type":"step-start"},{"type":"tool-web","toolCallId":"w","state":"output-available","providerExecuted":true,"input":{},"output":{}},
        {"type":"source-url","url":"u"},{"type":"text","text":"so"},{"type":"step-start"},
        {"type":"tool-f","toolCallId":"c","state":"output-denied","input":{},"approval":{"id":"1","approved":false,"reason":"why"}},
        {"type":"tool-f","toolCallId":"d","state":"approval-requested","input":{},"approval":{"id":"2"}},
        {"type":"tool-f","toolCallId":"e","state":"input-streaming","rawInput":"{\"n"}]},{"id":"z","role":"assistant","parts":[{"type":"text","text":"end"}]}]"#;
    let read = one("vercel-uimessages", text);
    assert_eq!(
        told(&read),
        "user data-x call assistant tool call assistant source-url call assistant call assistant tool call assistant"
    );
    assert_eq!(
        all(&read),
        [
            "'go', Image",
            r#"thought 'hm' -, f#a({}), g#b({"n": 1})"#,
            "f#a=x, g#b=no failed",
            "'then'",
            "native web#w({}), native web#w=, 'so'",
            r#"f#c({}), f#d({}), f#e({"n)"#,
            "f#c=why failed",
            "'end'"
        ]
    );
    assert_eq!(messages(&read)[0].role, Role::User);
}

/// The JSON strings of a text that are values, as they are written.
fn values(text: &str) -> std::collections::BTreeSet<&str> {
    let (mut found, mut rest) = (std::collections::BTreeSet::new(), text);
    while let Some((_, after)) = rest.split_once('"') {
        let mut escaped = false;
        let end = after.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let Some((value, after)) = end.and_then(|end| after.split_at_checked(end)) else {
            break;
        };
        rest = &after[1..];
        if !rest.trim_start().starts_with(':') {
            found.insert(value);
        }
    }
    found
}

/// What the names of kinds, roles and states became in the neutral form.
const NAMES: &[&str] = &[
    "user",
    "model",
    "assistant",
    "system",
    "tool",
    "human",
    "ai",
    "constructor",
    "text",
    "message",
    "reasoning",
    "thinking",
    "success",
    "error",
    "cancelled",
    "function",
    "step-start",
];

/// The formats that are looked at here.
const OURS: [&str; 9] = [
    "adk-session",
    "bedrock-converse",
    "gemini-cli",
    "gemini-contents",
    "langchain",
    "langgraph-checkpoints",
    "letta-af",
    "openhands-events",
    "vercel-uimessages",
];

#[test]
fn no_text_of_a_recorded_file_is_lost() {
    let mut lost = Vec::new();
    for folder in OURS {
        for file in super::files::data(folder).unwrap_or_default() {
            let text = std::fs::read_to_string(&file).unwrap();
            let (_, transcripts) = super::counts::read(&file);
            let kept = format!("{transcripts:?}");
            let inner = |text: &str| {
                let shown = format!("{text:?}");
                shown[1..shown.len() - 1].to_owned()
            };
            for value in values(&text).into_iter().take(3_000) {
                let said: String = serde_json::from_str(&format!("\"{value}\"")).unwrap();
                let found = kept.contains(&inner(value)) || kept.contains(&inner(&said));
                if !found && !NAMES.contains(&value) {
                    lost.push(format!("{}: {value:.80}", file.display()));
                }
            }
        }
    }
    assert!(lost.is_empty(), "{}\n{}", lost.len(), lost.join("\n"));
}
