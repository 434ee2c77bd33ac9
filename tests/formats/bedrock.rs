//! Bodies for Bedrock's Converse.

use ctxlog::formats::lint::lint;
use ctxlog::formats::{Profile, anthropic, openai_chat, render};
use ctxlog::log::{Author, BlockBody, Json, Media, Message, Part, PartBody, Role};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::bodies::{Groups, Own, body, laid_out, live, numbered};
use super::common::{Log, log_of};

const OWN: Own = Own {
    profile: Profile::Bedrock,
    list: "messages",
    answer: "/output/message",
    also: &[],
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

/// Each begins with the user and ends with the assistant.
const SOUND: &[&[&str]] = &[
    &[
        r#"{"role":"user","content":[{"text":"hi"},{"cachePoint":{"type":"default"}}]}"#,
        r#"{"role":"assistant","content":[{"text":"k","x":1}],"y":2}"#,
    ],
    &[
        r#"{"role":"user","content":[{"document":{"format":"pdf","name":"d","source":{"bytes":"AA=="}}},{"text":"read"}]}"#,
        r#"{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"t","signature":"s","z":1},"w":2}},{"reasoningContent":{"redactedContent":"AA=="}},{"text":"k"}]}"#,
    ],
    &[
        r#"{"role":"user","content":[{"text":"do"}]}"#,
        r#"{"role":"assistant","content":[{"toolUse":{"toolUseId":"a","name":"f","input":{"a": 1},"x":1}},{"toolUse":{"toolUseId":"b.:-","name":"f","input":{}}}]}"#,
        r#"{"role":"user","content":[{"text":"well"},{"toolResult":{"toolUseId":"b.:-","content":[{"json":{"a":[1, 2]}},{"image":{"format":"png","source":{"bytes":"AA=="}}}],"status":"error"}},{"toolResult":{"toolUseId":"a","content":[]}}]}"#,
        r#"{"role":"assistant","content":[{"toolUse":{"toolUseId":"n","name":"s","input":{},"type":"server_tool_use"}},{"toolResult":{"toolUseId":"n","type":"s_result","content":[{"text":"1"}],"status":"success"}},{"text":"k"}]}"#,
    ],
    &[
        r#"{"role":"user","content":[{"guardContent":{"text":{"text":"x"}}}]}"#,
        r#"{"role":"assistant","content":[{"citationsContent":{"content":[{"text":"x"}]}},{"unheard":{"of":1}}]}"#,
    ],
];
const ODD: &[&str] = &[
    r#"{"role":"user"}"#,
    r#"{"role":"assistant","content":[]}"#,
    r#"{"role":"system","content":[{"text":"x"}]}"#,
    r#"{"content":[{"text":"x"}]}"#,
    r#"{"role":"user","content":[{"text":"x"}]}"#,
    r#"{"role":"user","content":[{"text":" "},{"text":""},{"text":5},{},null,"bare"]}"#,
    r#"{"role":"user","content":[{"text":"x","toolUse":{"toolUseId":"a","name":"f","input":{}}}]}"#,
    r#"{"role":"user","content":[{"image":{"format":"png"},"text":"y"}]}"#,
    r#"{"role":"assistant","content":[{"toolUse":{"toolUseId":"no such/id","name":"my tool","input":[1]}},{"toolUse":{"toolUseId":"a","name":"f"}},{"toolUse":{"toolUseId":"a","name":"f","input":null}}]}"#,
    r#"{"role":"assistant","content":[{"toolUse":{"toolUseId":"a"}},{"toolUse":5},{"toolResult":{"toolUseId":"a","content":[]}}]}"#,
    r#"{"role":"user","content":[{"toolResult":{"toolUseId":"a","content":[{"text":""},{"json":[1]}]}},{"toolResult":{"toolUseId":"b"}}]}"#,
    r#"{"role":"user","content":[{"toolUse":{"toolUseId":"a","name":"f","input":{}}}]}"#,
];
const INSTRUCTIONS: &[&str] = &[
    "",
    r#""system":[{"text":"s"},{"cachePoint":{"type":"default"}}],"#,
    r#""system":[{"text":"s","x":1}],"#,
    r#""system":[{"text":" "}],"#,
    r#""system":[],"#,
];

fn messages() -> impl Strategy<Value = Value> {
    let episode = prop_oneof![
        12 => prop::sample::select(SOUND).prop_map(<[&str]>::to_vec),
        1 => prop::sample::select(ODD).prop_map(|odd| vec![odd]),
    ];
    let episodes = prop::collection::vec(episode, 1..6);
    let tools = prop::sample::select(vec![r#""toolConfig":{"tools":[]},"#, ""]);
    let parts = (episodes, prop::sample::select(INSTRUCTIONS), tools);
    parts.prop_map(|(episodes, system, tools)| {
        let messages = episodes.concat().join(",");
        let settings = r#""inferenceConfig":{"maxTokens":5}"#;
        let body = format!(r#"{{{settings},{system}{tools}"messages":[{messages}]}}"#);
        serde_json::from_str(&body).unwrap()
    })
}

/// Messages of any source, in any order.
fn mixed() -> impl Strategy<Value = Groups> {
    let own = messages().prop_map(|body| {
        let read = OWN.read(body.to_string().as_bytes());
        let log = log_of(&read[0], true);
        log.messages
            .into_iter()
            .map(|m| m.message)
            .collect::<Vec<_>>()
    });
    let chat = prop::sample::select(vec![
        r#"{"role":"developer","content":"be good"}"#,
        r#"{"role":"assistant","content":"","tool_calls":[{"id":"functions.f:0|x","type":"function","function":{"name":"f.g h","arguments":"oops"}}]}"#,
        r#"{"role":"tool","tool_call_id":"functions.f:0|x","content":" "}"#,
        r#"{"role":"tool","tool_call_id":"functions.f:0|x","content":"plain"}"#,
        r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}"#,
        r#"{"role":"assistant","content":null,"reasoning_content":"r"}"#,
    ])
    .prop_map(|text| vec![openai_chat::read_message(&Json(text.into())).unwrap()]);
    let claude = prop::sample::select(vec![
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"s"},{"type":"tool_use","id":"t","name":"g","input":{}}]}"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","is_error":true,"content":[{"type":"text","text":"r"},{"type":"image","source":{"type":"url","url":"https://x/y.png"}}]},{"type":"text","text":"and"}]}"#,
        r#"{"role":"assistant","content":[{"type":"server_tool_use","id":"n","name":"s","input":{}},{"type":"web_search_tool_result","tool_use_id":"n","content":[]}]}"#,
    ])
    .prop_map(|text| anthropic::read_message(&Json(text.into()), anthropic::FORMAT).unwrap());
    let live = prop::sample::select(vec![
        Message::calls(vec![Part::call("c", "", "{}"), Part::call("c", "f", "")]),
        Message::calls(vec![
            Part::call(&"c".repeat(64), "f", "{}"),
            Part::call(&"c".repeat(64), "f", "{}"),
        ]),
        Message::tool("c", "done"),
        Message::model(" "),
        Message::person("go on"),
    ])
    .prop_map(|message| vec![message]);
    let group = prop_oneof![2 => own, 1 => chat, 1 => claude, 1 => live];
    prop::collection::vec(group, 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_body_comes_back_as_it_is_and_sound_ones_unchanged(body in messages()) {
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
    fn a_result_is_that_of_its_call_whatever_the_ids(
        calls in prop::collection::vec((0..2_usize, prop::sample::select(vec![None, Some(""), Some("a"), Some("no id")])), 1..5),
        order in Just((0..5_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let answered: Vec<usize> = order.into_iter().filter(|n| *n < calls.len()).collect();
        let log = numbered(&calls, &answered);
        let rendered = OWN.is_taken(&log, &log.items(), &live(""), "");
        let body = body(&rendered);
        let blocks = |at: usize| body["messages"][at]["content"].as_array().unwrap();
        prop_assert_eq!(blocks(2).len(), calls.len());
        for result in blocks(2) {
            let result = &result["toolResult"];
            let call = blocks(1).iter().find(|c| c["toolUse"]["toolUseId"] == result["toolUseId"]);
            let n = &call.unwrap()["toolUse"]["input"]["n"];
            prop_assert_eq!(format!("r{n}"), result["content"][0]["text"].as_str().unwrap());
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

fn drawn(log: &Log) -> (Vec<&'static str>, Value) {
    let rendered = OWN.draw(&log.items(), &live(""), false);
    let rules = rendered.repairs.iter().map(|r| r.rule).collect();
    (rules, body(&rendered))
}

#[test]
fn messages_of_one_role_are_joined_and_lose_nothing() {
    let log = Log::of([
        Message::system("be good"),
        Message::person("one"),
        Message::person("two"),
        Message::calls(vec![Part::call("a", "f", "{}"), Part::call("b", "f", "{}")]),
        Message::tool("b", "2"),
        Message::person("wait"),
        Message::tool("a", "1"),
    ]);
    let (rules, body) = drawn(&log);
    assert_eq!(rules, ["B2", "B2", "B2", "B8"]);
    let used = |id: &str| json!({"toolUse": {"toolUseId": id, "name": "f", "input": {}}});
    let result = |id: &str, text: &str| json!({"toolResult": {"toolUseId": id, "content": [{"text": text}]}});
    let expected = json!([
        {"role": "user", "content": [{"text": "one"}, {"text": "two"}]},
        {"role": "assistant", "content": [used("a"), used("b")]},
        {"role": "user", "content": [result("b", "2"), result("a", "1"), {"text": "wait"}]},
    ]);
    assert_eq!(body["messages"], expected);
    assert_eq!(body["system"], json!([{"text": "be good"}]));
    let schema = json!({"json": {"type": "object", "properties": {}}});
    let tool = json!({"toolSpec": {"name": "f", "inputSchema": schema}});
    assert_eq!(body["toolConfig"], json!({"tools": [tool]}));
}

#[test]
fn the_assistants_words_at_the_beginning_stand_behind_words_of_the_user() {
    let log = Log::of([Message::model("hello"), Message::person("hi")]);
    let rendered = OWN.draw(&log.items(), &live(""), false);
    let first = "[what stood before this is not in the window]";
    let expected = json!([
        {"role": "user", "content": [{"text": first}]},
        {"role": "assistant", "content": [{"text": "hello"}]},
        {"role": "user", "content": [{"text": "hi"}]},
    ]);
    assert_eq!(body(&rendered)["messages"], expected);
    let seqs: Vec<_> = log.messages.iter().map(|m| m.seq).collect();
    assert_eq!(rendered.places, [seqs[0], seqs[0], seqs[1]]);
    assert_eq!(
        (rendered.repairs.len(), rendered.repairs[0].rule),
        (1, "B1")
    );
}

#[test]
fn what_a_block_held_beside_its_content_is_not_sent_as_more_content() {
    let text = r#"{"messages":[{"role":"user","content":[{"text":"x","toolUse":{"toolUseId":"a","name":"f","input":{}}}]}]}"#;
    let read = OWN.read(text.as_bytes());
    let log = log_of(&read[0], true);
    let rendered = OWN.draw(&log.items(), &read[0], false);
    assert_eq!(
        body(&rendered)["messages"],
        json!([{"role": "user", "content": [{"text": "x"}]}])
    );
    assert_eq!(rendered.repairs[0].rule, "B6");
}

#[test]
fn media_of_every_provider_is_bytes_or_a_text_says_that_it_is_not_there() {
    let image = json!({"image": {"format": "png", "source": {"bytes": "AA=="}}});
    let gone = json!({"text": "[image_url left out: this provider has no place for it]"});
    let stored =
        json!({"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://b/v.mp4"}}}});
    let cases = [
        (
            r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}"#,
            &image,
        ),
        (
            r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}"#,
            &image,
        ),
        (
            r#"{"type":"image_url","image_url":{"url":"https://x/y.png"}}"#,
            &gone,
        ),
        (
            r#"{"type":"video_url","video_url":{"url":"s3://b/v.mp4"}}"#,
            &stored,
        ),
        (
            r#"{"inlineData":{"mimeType":"image/png","data":"AA=="}}"#,
            &image,
        ),
        (
            r#"{"type":"document","source":{"type":"text","data":"words","media_type":"text/plain"}}"#,
            &json!({"text": "words"}),
        ),
    ];
    for (block, expected) in cases {
        let media = PartBody::Block(BlockBody::Media(Media::Image, Json(block.into())));
        let part = Part {
            body: media,
            extra: vec![],
        };
        let log = Log::of([Message::new(Role::User, Author::Person, vec![part])]);
        assert_eq!(
            &drawn(&log).1["messages"][0]["content"][0],
            expected,
            "{block}"
        );
    }
}

#[test]
fn settings_of_another_provider_become_a_limit_and_tools() {
    let tools = r#"[{"type":"function","function":{"name":"t","description":"","parameters":{"type":"object"}}}]"#;
    let settings = vec![
        ("model".to_owned(), Json("\"gpt\"".into())),
        ("max_tokens".to_owned(), Json("7".into())),
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
    let tool = json!({"toolSpec": {"name": "t", "inputSchema": {"json": {"type": "object"}}}});
    let expected = json!({
        "inferenceConfig": {"maxTokens": 7},
        "toolConfig": {"tools": [tool]},
        "messages": [{"role": "user", "content": [{"text": "[the window is empty]"}]}],
    });
    assert_eq!(body(&drawn), expected);
}

#[test]
fn words_beside_results_are_warned_of() {
    let body = json!({"toolConfig": {}, "messages": [
        {"role": "user", "content": [{"text": "x"}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "a", "name": "f", "input": {}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "a", "content": []}}, {"text": "x"}]},
    ]});
    let problems = lint(OWN.profile, &body);
    let found: Vec<_> = problems.iter().map(|p| (p.rule, p.hard, p.index)).collect();
    assert_eq!(found, [("B5", false, Some(2))]);
    assert!(problems[0].message.contains(": "));
}
