//! Bodies for Gemini's generateContent.

use ctxlog::formats::lint::lint;
use ctxlog::formats::{Link, Profile, anthropic, openai_chat, render};
use ctxlog::log::{BlockBody, Json, Media, Message, Part, PartBody};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::bodies::{Groups, Own, body, laid_out, live, numbered};
use super::common::{Log, log_of};
use super::counts::read;
use super::files::data;

const OWN: Own = Own {
    profile: Profile::Gemini,
    list: "contents",
    answer: "/candidates/0/content",
    also: &["G9"],
};

#[test]
fn recorded_requests_come_back_as_they_were() {
    OWN.gives_recorded_requests_back();
}

#[test]
fn recorded_requests_are_repaired_where_they_are_broken_and_only_there() {
    OWN.repairs_recorded_requests_where_they_are_broken();
}

#[test]
fn recorded_files_of_every_format_make_sound_bodies() {
    OWN.takes_recorded_files_of_every_format();
}

const SOUND: &[&[&str]] = &[
    &[r#"{"role":"user","parts":[{"text":"hi"}]}"#],
    &[
        r#"{"role":"user","parts":[{"text":""},{"inlineData":{"mimeType":"image/png","data":"AA=="}}]}"#,
    ],
    &[r#"{"parts":[{"fileData":{"fileUri":"u"},"videoMetadata":{"fps":1}}]}"#],
    &[
        r#"{"role":"user","parts":[{"inline_data":{"mime_type":"image/png","data":"AA=="}},{"videoMetadata":{"fps":1}}],"x":1}"#,
    ],
    &[
        r#"{"role":"model","parts":[{"text":"t","thought":true,"thoughtSignature":"s"},{"text":"k","thoughtSignature":"s","thought":false}]}"#,
    ],
    &[
        r#"{"role":"model","parts":[{"executableCode":{"language":"PYTHON","code":"1"}},{"codeExecutionResult":{"output":"1"}},{"text":"k","inlineData":null}]}"#,
    ],
    &[
        r#"{"role":"user","parts":[{"text":"do"}]}"#,
        r#"{"role":"model","parts":[{"functionCall":{"name":"f","args":{"a": 1}},"thoughtSignature":"s"},{"functionCall":{"name":"f","args":{}}},{"functionCall":{"name":"g","args":null}}]}"#,
        r#"{"role":"function","parts":[{"functionResponse":{"name":"f","response":{"output":"1"}}},{"functionResponse":{"name":"g","response":{}}},{"functionResponse":{"name":"f","response":{"r":[1, 2]}}}]}"#,
    ],
    &[
        r#"{"role":"user","parts":[{"text":"do"}]}"#,
        r#"{"role":"model","parts":[{"function_call":{"name":"f","id":"a","args":{},"x":1},"thought_signature":"s"}]}"#,
        r#"{"role":"model","parts":[{"text":"and"},{"functionCall":{"name":"g","id":"b"}}]}"#,
        r#"{"role":"user","parts":[{"text":"first"},{"functionResponse":{"name":"g","id":"b","response":{"error":"no"},"parts":[{"inlineData":{"mimeType":"image/png","data":"AA=="}}]}}]}"#,
        r#"{"role":"user","parts":[{"function_response":{"name":"f","response":{},"willContinue":false}},{"text":"last"}]}"#,
    ],
    &[
        r#"{"role":"user","parts":[{"text":"look"}]}"#,
        r#"{"role":"model","parts":[{"toolCall":{"id":"n"},"thoughtSignature":"s"},{"toolResponse":{"id":"n"}}]}"#,
    ],
];
const ODD: &[&str] = &[
    r#"{"role":"user"}"#,
    r#"{"role":"user","parts":[]}"#,
    r#"{"role":"system","parts":[{"text":"x"}]}"#,
    r#"{"role":"model","parts":[{}, {"text":null,"functionCall":null}]}"#,
    r#"{"role":"user","parts":[{"thought":true},"bare",null,5]}"#,
    r#"{"role":"model","parts":[{"functionCall":{}}]}"#,
    // With an id: of two contents in a row that call one name without, a log takes the newer one's first.
    r#"{"role":"model","parts":[{"functionCall":{"name":"f","id":"o","args":[1]}}]}"#,
    r#"{"role":"model","parts":[{"functionCall":{"name":"f","id":"a"}},{"functionCall":{"name":"f","id":"a"}}]}"#,
    r#"{"role":"model","parts":[{"functionResponse":{"name":"f","response":{}}}]}"#,
    r#"{"role":"user","parts":[{"functionCall":{"name":"f"}}]}"#,
    r#"{"role":"user","parts":[{"functionResponse":{"response":{}}}]}"#,
    r#"{"role":"user","parts":[{"functionResponse":{"name":"f","id":"a","response":"words"}}]}"#,
    r#"{"role":"user","parts":[{"functionResponse":{"name":"g","id":"a","parts":[{"text":"x"}]}}]}"#,
    r#"{"role":"user","parts":[{"text":"x","functionResponse":{"name":"f"}},{"inlineData":{"data":""},"text":"y"}]}"#,
    r#"{"role":"model","parts":[{"text":"x","text":"y"}]}"#,
];
const INSTRUCTIONS: &[&str] = &[
    "",
    r#""systemInstruction":{"parts":[{"text":"s"}],"role":"user"},"#,
    r#""system_instruction":{"parts":[{"text":"s"},{"text":""}]},"#,
    r#""systemInstruction":"s","#,
    r#""systemInstruction":{"parts":{"text":"s"}},"#,
];

fn contents() -> impl Strategy<Value = Value> {
    let episode = prop_oneof![
        12 => prop::sample::select(SOUND).prop_map(<[&str]>::to_vec),
        1 => prop::sample::select(ODD).prop_map(|odd| vec![odd]),
    ];
    let episodes = prop::collection::vec(episode, 1..6);
    (episodes, prop::sample::select(INSTRUCTIONS)).prop_map(|(episodes, instruction)| {
        let contents = episodes.concat().join(",");
        let settings = r#""generationConfig":{"maxOutputTokens":5}"#;
        let body = format!(r#"{{{settings},{instruction}"contents":[{contents}]}}"#);
        serde_json::from_str(&body).unwrap()
    })
}

/// Messages of any source, in any order.
fn mixed() -> impl Strategy<Value = Groups> {
    let own = contents().prop_map(|body| {
        let read = OWN.read(body.to_string().as_bytes());
        let log = log_of(&read[0], true);
        log.messages
            .into_iter()
            .map(|m| m.message)
            .collect::<Vec<_>>()
    });
    let chat = prop::sample::select(vec![
        r#"{"role":"system","content":"be good"}"#,
        r#"{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"[1]"}}]}"#,
        r#"{"role":"tool","tool_call_id":"c","content":"{\"a\":1}"}"#,
        r#"{"role":"tool","tool_call_id":"c","content":"plain"}"#,
        r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}"#,
        r#"{"role":"user","content":""}"#,
    ])
    .prop_map(|text| vec![openai_chat::read_message(&Json(text.into())).unwrap()]);
    let claude = prop::sample::select(vec![
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"s"},{"type":"tool_use","id":"t","name":"g","input":{}}]}"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","is_error":true,"content":[{"type":"text","text":"r"},{"type":"image","source":{"type":"url","url":"https://x/y.png"}}]},{"type":"text","text":"and"}]}"#,
    ])
    .prop_map(|text| anthropic::read_message(&Json(text.into()), anthropic::FORMAT).unwrap());
    let live = prop::sample::select(vec![
        Message::calls(vec![Part::call("c", "", "{}"), Part::call("c", "f", "")]),
        Message::tool("c", "done"),
        Message::model(""),
        Message::person("go on"),
    ])
    .prop_map(|message| vec![message]);
    let group = prop_oneof![2 => own, 1 => chat, 1 => claude, 1 => live];
    prop::collection::vec(group, 0..5)
}

/// What Gemini would take a call's response to be: by id and name, in order.
fn pairs(body: &Value) -> Vec<(Value, String)> {
    let mut calls: Vec<Value> = Vec::new();
    let mut pairs = Vec::new();
    for part in OWN
        .messages(body)
        .iter()
        .flat_map(|c| c["parts"].as_array().unwrap())
    {
        if let Some(call) = part.get("functionCall") {
            calls.push(call.clone());
        }
        if let Some(response) = part.get("functionResponse") {
            let fits = |call: &Value| {
                let id = |value: &Value| value["id"].as_str().unwrap_or_default().to_owned();
                let (asked, given) = (id(call), id(response));
                let ids = asked.is_empty() || given.is_empty() || asked == given;
                call["name"] == response["name"] && ids
            };
            let at = calls.iter().position(fits).unwrap();
            let said = response["response"]["output"].as_str().unwrap();
            pairs.push((calls.remove(at)["args"]["n"].clone(), said.to_owned()));
        }
    }
    pairs
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_body_comes_back_as_it_is_and_sound_ones_unchanged(body in contents()) {
        OWN.keeps_what_is_sound(&body);
    }

    #[test]
    fn any_messages_make_a_sound_body(groups in mixed(), mask in any::<u32>()) {
        let log = laid_out(groups);
        let items = log.items();
        let kept = items.iter().zip(0_u32..).filter(|(_, n)| mask >> (n % 32) & 1 == 1);
        let some: Vec<_> = kept.map(|(item, _)| *item).collect();
        for items in [&items, &some] {
            OWN.is_taken(&log, items, &live(""), "");
        }
    }

    #[test]
    fn a_response_is_that_of_its_call_whatever_the_ids(
        calls in prop::collection::vec((0..2_usize, prop::sample::select(vec![None, Some(""), Some("a"), Some("b")])), 1..5),
        order in Just((0..5_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let answered: Vec<usize> = order.into_iter().filter(|n| *n < calls.len()).collect();
        let log = numbered(&calls, &answered);
        let rendered = OWN.is_taken(&log, &log.items(), &live(""), "");
        for (n, said) in pairs(&body(&rendered)) {
            prop_assert_eq!(format!("r{}", n), said);
        }
    }
}

#[test]
fn a_window_that_grew_at_its_end_begins_with_the_messages_it_had() {
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let compared = std::cell::Cell::new(0);
    let law = |groups| {
        let log = laid_out(groups);
        compared.set(compared.get() + OWN.begins_as_it_began(&log));
        Ok(())
    };
    runner.run(&mixed(), law).unwrap();
    assert!(compared.get() > 200, "{} were compared", compared.get());
}

fn drawn(log: &Log, format: &'static str) -> (Vec<&'static str>, Value) {
    let rendered = OWN.draw(&log.items(), &live(format), false);
    let rules = rendered.repairs.iter().map(|r| r.rule).collect();
    (rules, body(&rendered))
}

#[test]
fn a_call_that_the_window_begins_with_stands_behind_words_of_the_user() {
    let log = Log::of([
        Message::calls(vec![Part::call("a", "f", "{}")]),
        Message::tool("a", "1"),
    ]);
    let (rules, body) = drawn(&log, "");
    assert_eq!(rules, ["G3"]);
    let expected = json!([
        {"role": "user", "parts": [{"text": "[what stood before this is not in the window]"}]},
        {"role": "model", "parts": [{"functionCall": {"id": "a", "name": "f", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"id": "a", "name": "f", "response": {"output": "1"}}}]},
    ]);
    assert_eq!(body["contents"], expected);
}

#[test]
fn a_call_is_closed_where_the_user_goes_on_and_left_open_at_the_end() {
    let call = || Message::calls(vec![Part::call("a", "f", "{}")]);
    let (rules, body) = drawn(&Log::of([Message::person("go"), call()]), "");
    assert_eq!((rules, OWN.messages(&body).len()), (vec![], 2));
    let log = Log::of([Message::person("go"), call(), Message::person("well?")]);
    let (rules, body) = drawn(&log, "");
    assert_eq!(rules, ["G4"]);
    let closed = &body["contents"][2]["parts"][0]["functionResponse"];
    let said = "[no result was recorded for this call]";
    assert_eq!(
        closed,
        &json!({"id": "a", "name": "f", "response": {"output": said}})
    );
}

#[test]
fn what_cleared_a_result_is_a_response_too() {
    let text = r#"{"contents":[{"role":"user","parts":[{"text":"x"}]},
        {"role":"model","parts":[{"functionCall":{"name":"f"}}]},
        {"role":"user","parts":[{"functionResponse":{"name":"f","response":{"a":1}}}]}]}"#;
    let mut log = log_of(&OWN.read(text.as_bytes())[0], true);
    if let PartBody::Result { content, .. } = &mut log.messages[2].message.parts[0].body {
        content[0].body = BlockBody::Text("[cleared]".to_owned());
    }
    let (rules, body) = drawn(&log, OWN.format());
    assert_eq!(rules, [""; 0]);
    let response = &body["contents"][2]["parts"][0]["functionResponse"];
    assert_eq!(response["response"], json!({"output": "[cleared]"}));
}

#[test]
fn instructions_of_others_stand_in_systeminstruction_and_results_beside_their_media() {
    let result = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[
        {"type":"text","text":"r"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}]}]}"#;
    let mut log = Log::of([
        Message::system("be good"),
        Message::person("go"),
        Message::calls(vec![Part::call("t", "f", "{}")]),
    ]);
    for message in anthropic::read_message(&Json(result.into()), anthropic::FORMAT).unwrap() {
        log.push(message, Link::None);
    }
    log.push(Message::system("be quick"), Link::None);
    let (rules, body) = drawn(&log, "");
    assert_eq!(rules, ["map", "G9"]);
    let instruction = json!({"parts": [{"text": "be good"}, {"text": "be quick"}]});
    assert_eq!(body["systemInstruction"], instruction);
    let expected = json!([
        {"functionResponse": {"id": "t", "name": "f", "response": {"output": "r"}}},
        {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
    ]);
    assert_eq!(body["contents"][2]["parts"], expected);
}

#[test]
fn media_of_every_provider_is_data_or_a_file() {
    let data = json!({"inlineData": {"mimeType": "image/png", "data": "AA=="}});
    let link = json!({"fileData": {"mimeType": "image/png", "fileUri": "https://x/y.png"}});
    let cases = [
        (
            r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}"#,
            &data,
        ),
        (
            r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}"#,
            &data,
        ),
        (
            r#"{"type":"image_url","image_url":"https://x/y.png"}"#,
            &link,
        ),
        (
            r#"{"type":"input_image","image_url":"https://x/y.png"}"#,
            &link,
        ),
        (
            r#"{"type":"file","mediaType":"image/png","url":"data:image/png;base64,AA=="}"#,
            &data,
        ),
        (
            r#"{"type":"image","mime_type":"image/png","base64":"AA=="}"#,
            &data,
        ),
        (
            r#"{"image":{"format":"png","source":{"bytes":"AA=="}}}"#,
            &data,
        ),
        (
            r#"{"inline_data":{"mime_type":"image/png","data":"AA=="}}"#,
            &json!({"inline_data": {"mime_type": "image/png", "data": "AA=="}}),
        ),
    ];
    for (block, expected) in cases {
        let media = PartBody::Block(BlockBody::Media(Media::Image, Json(block.into())));
        let part = Part {
            body: media,
            extra: vec![],
        };
        let log = Log::of([Message::new(
            ctxlog::log::Role::User,
            ctxlog::log::Author::Person,
            vec![part],
        )]);
        let (_, body) = drawn(&log, "");
        assert_eq!(&body["contents"][0]["parts"][0], expected, "{block}");
    }
}

#[test]
fn a_session_of_the_cli_is_sent_without_what_its_record_says() {
    for file in data("gemini-cli").into_iter().flatten() {
        let (_, transcripts) = read(&file);
        for transcript in &transcripts {
            let log = log_of(transcript, true);
            let sent = body(&OWN.draw(&log.items(), transcript, false));
            for part in OWN
                .messages(&sent)
                .iter()
                .flat_map(|c| c["parts"].as_array().unwrap())
            {
                for name in part.as_object().unwrap().keys() {
                    let known = ["text", "thought", "functionCall", "functionResponse"];
                    assert!(known.contains(&name.as_str()), "{}: {part}", file.display());
                }
            }
        }
    }
}

#[test]
fn settings_of_another_provider_become_a_limit_and_declarations() {
    let tools = r#"[{"type":"function","function":{"name":"t","description":"d","parameters":{"type":"object"}}}]"#;
    let settings = vec![
        ("model".to_owned(), Json("\"gpt\"".into())),
        ("max_completion_tokens".to_owned(), Json("7".into())),
        ("tools".to_owned(), Json(tools.into())),
    ];
    let drawn = render(
        OWN.profile,
        &[],
        &settings,
        openai_chat::FORMAT,
        Some("m"),
        false,
    );
    let declared =
        json!({"name": "t", "description": "d", "parametersJsonSchema": {"type": "object"}});
    let expected = json!({
        "generationConfig": {"maxOutputTokens": 7},
        "tools": [{"functionDeclarations": [declared]}],
        "contents": [{"role": "user", "parts": [{"text": "[the window is empty]"}]}],
    });
    assert_eq!(body(&drawn), expected);
}

/// Gemini names types in capitals; what only looks like a type stays as it is.
#[test]
fn types_of_schemas_are_small_letters_for_others() {
    let parameters = json!({
        "type": "OBJECT",
        "properties": {
            "type": {"type": "STRING", "enum": ["OBJECT", "NUMBER"], "default": "OBJECT"},
            "list": {"type": "ARRAY", "items": {"anyOf": [{"type": "INTEGER"}, {"type": "NULL"}]}},
            "odd": {"type": "Custom"},
        },
        "required": ["type"],
    });
    let expected = json!({
        "type": "object",
        "properties": {
            "type": {"type": "string", "enum": ["OBJECT", "NUMBER"], "default": "OBJECT"},
            "list": {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
            "odd": {"type": "Custom"},
        },
        "required": ["type"],
    });
    let tools = json!([{"functionDeclarations": [{"name": "t", "parameters": parameters}]}]);
    let settings = vec![("tools".to_owned(), Json(tools.to_string()))];
    for profile in Profile::ALL.iter().copied() {
        let drawn = render(profile, &[], &settings, OWN.format(), Some("m"), false);
        let body = body(&drawn);
        let schema = match profile {
            Profile::OpenAiChat | Profile::Mistral => &body["tools"][0]["function"]["parameters"],
            Profile::OpenAiResponses => &body["tools"][0]["parameters"],
            Profile::Anthropic => &body["tools"][0]["input_schema"],
            Profile::Bedrock => &body["toolConfig"]["tools"][0]["toolSpec"]["inputSchema"]["json"],
            Profile::Gemini => {
                assert_eq!(body["tools"], tools, "its own stays as it is");
                continue;
            }
            _ => continue,
        };
        assert_eq!(schema, &expected, "{profile:?}");
    }
}

#[test]
fn warnings_say_where_and_what_to_do() {
    let call = json!({"role": "model", "parts": [{"functionCall": {"name": "f"}}]});
    let response = json!({"role": "model", "parts": [{"functionResponse": {"name": "f"}}]});
    let cases = [
        ("G2", json!([{"role": "user", "parts": [{"text": ""}]}]), 0),
        (
            "G7",
            json!([{"role": "user", "parts": [{"text": "x"}]}, call]),
            1,
        ),
        (
            "G8",
            json!([{"role": "user", "parts": [{"text": "x"}]}, {"role": "model", "parts": [{"text": "x"}]}]),
            1,
        ),
        (
            "G9",
            json!([{"role": "system", "parts": [{"text": "x"}]}]),
            0,
        ),
        (
            "G9",
            json!([{"role": "user", "parts": [{"text": "x"}]}, response]),
            1,
        ),
    ];
    for (rule, contents, at) in cases {
        let problems = lint(OWN.profile, &json!({"contents": contents}));
        let found = problems.iter().find(|p| p.rule == rule).unwrap();
        assert_eq!((found.hard, found.index), (false, Some(at)), "{rule}");
        assert!(found.message.contains(": "), "{}", found.message);
    }
    // The signature of a turn that is over is not asked for.
    let over = json!([{"role": "user", "parts": [{"text": "x"}]}, call,
        {"role": "user", "parts": [{"functionResponse": {"name": "f"}}]},
        {"role": "model", "parts": [{"text": "x"}]}, {"role": "user", "parts": [{"text": "x"}]}]);
    assert_eq!(lint(OWN.profile, &json!({"contents": over})), []);
}
