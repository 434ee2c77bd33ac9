//! Sharp corners of what is sent to Mistral.

use ctxlog::formats::{Link, Profile, Repair, anthropic, mistral_chat, openai_chat};
use ctxlog::log::{Json, Message, Part, PartBody};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::common::Log;
use super::driver::{draw, list, own};

const PROFILE: Profile = Profile::Mistral;

fn rules(repairs: &[Repair]) -> Vec<&'static str> {
    repairs.iter().map(|repair| repair.rule).collect()
}

fn roles(body: &Value) -> Vec<String> {
    let role = |message: &Value| message["role"].as_str().unwrap().to_owned();
    list(body).iter().map(role).collect()
}

fn called(id: &str) -> Message {
    Message::calls(vec![Part::call(id, "t", "{}")])
}

#[test]
fn ids_of_others_become_nine_letters_and_digits_and_results_follow() {
    let log = Log::of([
        Message::person("go"),
        Message::calls(vec![
            Part::call("call_a", "t", "1"),
            Part::call("toolu_b", "t", "2"),
        ]),
        Message::tool("toolu_b", "2"),
        Message::tool("call_a", "1"),
    ]);
    let (rendered, body) = own(PROFILE, &log, false);
    let calls = body["messages"][1]["tool_calls"].as_array().unwrap();
    let ids: Vec<&str> = calls
        .iter()
        .map(|call| call["id"].as_str().unwrap())
        .collect();
    for id in &ids {
        assert!(
            id.len() == 9 && id.chars().all(|c| c.is_ascii_alphanumeric()),
            "{id}"
        );
    }
    assert_ne!(ids[0], ids[1]);
    for (n, text) in [(2, "2"), (3, "1")] {
        let result = &body["messages"][n];
        let call = calls
            .iter()
            .find(|call| call["id"] == result["tool_call_id"])
            .unwrap();
        assert_eq!(call["function"]["arguments"], text);
        assert_eq!(result["content"], text);
    }
    assert_eq!(rules(&rendered.repairs), ["M5"; 4]);
    let (_, as_is) = own(PROFILE, &log, true);
    assert_eq!(as_is["messages"][1]["tool_calls"][0]["id"], "call_a");
}

#[test]
fn ids_of_its_own_stay_whatever_they_are() {
    let read = |text: Value| mistral_chat::read_message(&Json(text.to_string())).unwrap();
    let log = Log::of([
        Message::person("go"),
        read(json!({"role": "assistant", "content": "", "tool_calls":
            [{"id": "an-id-of-13", "function": {"name": "t", "arguments": "{}"}}]})),
        read(json!({"role": "tool", "tool_call_id": "an-id-of-13", "content": "x"})),
    ]);
    let (rendered, body) = own(PROFILE, &log, false);
    assert_eq!(rendered.repairs, []);
    assert_eq!(body["messages"][1]["tool_calls"][0]["id"], "an-id-of-13");
}

#[test]
fn the_models_last_message_is_a_prefix_and_no_other_is() {
    let log = Log::of([Message::person("go"), Message::model("so")]);
    let (rendered, body) = own(PROFILE, &log, false);
    let said = json!({"role": "assistant", "content": "so", "prefix": true});
    assert_eq!(body["messages"][1], said);
    assert_eq!(rules(&rendered.repairs), ["M3"]);
    let read = mistral_chat::read_message(&Json(said.to_string())).unwrap();
    let log = Log::of([Message::person("go"), read, Message::person("on")]);
    let (rendered, body) = own(PROFILE, &log, false);
    assert_eq!(
        body["messages"][1],
        json!({"role": "assistant", "content": "so"})
    );
    assert_eq!(rules(&rendered.repairs), ["M3"]);
}

#[test]
fn instructions_move_no_further_than_the_order_demands() {
    let cases: [(Vec<Message>, &[&str], &[&str]); 6] = [
        // Behind a model's turn, with its results: before that turn.
        (
            vec![
                Message::person("a"),
                called("abcdefghi"),
                Message::tool("abcdefghi", "r"),
                Message::system("s"),
                Message::system("t"),
                Message::person("b"),
            ],
            &["user", "system", "system", "assistant", "tool", "user"],
            &["M2", "M2"],
        ),
        // At the end: before the words they follow.
        (
            vec![Message::person("a"), Message::system("s")],
            &["system", "user"],
            &["M3"],
        ),
        (
            vec![
                Message::model("a"),
                Message::person("b"),
                Message::system("s"),
            ],
            &["system", "assistant", "user"],
            &["M3"],
        ),
        // Between a user's words and the model's they stay.
        (
            vec![
                Message::person("a"),
                Message::system("s"),
                Message::model("b"),
                Message::person("c"),
            ],
            &["user", "system", "assistant", "user"],
            &[],
        ),
        (vec![Message::system("s")], &["system", "user"], &["M3"]),
        (
            vec![Message::model("s")],
            &["user", "assistant"],
            &["M1", "M3"],
        ),
    ];
    for (messages, order, broken) in cases {
        let (rendered, body) = own(PROFILE, &Log::of(messages), false);
        assert_eq!(roles(&body), order);
        assert_eq!(rules(&rendered.repairs), broken);
    }
    let words = |n: usize, body: &Value| body["messages"][n]["content"].clone();
    let log = Log::of([
        Message::person("a"),
        Message::model("b"),
        Message::system("1"),
        Message::system("2"),
        Message::person("c"),
    ]);
    let (_, body) = own(PROFILE, &log, false);
    assert_eq!((words(1, &body), words(2, &body)), ("1".into(), "2".into()));
}

#[test]
fn another_providers_content_is_said_in_mistrals_words() {
    let claude =
        |text: &str| anthropic::read_message(&Json(text.into()), anthropic::FORMAT).unwrap();
    let chat = |text: &str| openai_chat::read_message(&Json(text.into())).unwrap();
    let mut log = Log::of([chat(r#"{"role":"developer","content":"s","name":"n"}"#)]);
    for message in claude(
        r#"{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}},
        {"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"AA=="}}]}"#,
    ) {
        log.push(message, Link::None);
    }
    for message in claude(
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"s"},
        {"type":"tool_use","id":"toolu_1","name":"a.b","input":{}}]}"#,
    ) {
        log.push(message, Link::None);
    }
    log.push(Message::tool("toolu_1", "r"), Link::None);
    let (rendered, body) = draw(PROFILE, &log.items(), &vec![], "anthropic", false);
    assert_eq!(
        body["messages"][0],
        json!({"role": "system", "content": "s"})
    );
    let expected = json!([
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
        {"type": "document_url", "document_url": "data:application/pdf;base64,AA=="}]);
    assert_eq!(body["messages"][1]["content"], expected);
    assert_eq!(
        body["messages"][2]["tool_calls"][0]["function"]["name"],
        "a_b"
    );
    assert_eq!(
        rules(&rendered.repairs),
        ["map", "map", "map", "M5", "M5", "M5"]
    );
    let tools = r#"[{"type":"function","function":{"name":"a.b"}}]"#;
    let settings = vec![("tools".to_owned(), Json(tools.into()))];
    let (_, body) = draw(PROFILE, &[], &settings, "openai-chat", false);
    let tool = json!([{"type": "function", "function":
        {"name": "a_b", "parameters": {"type": "object", "properties": {}}}}]);
    assert_eq!(body["tools"], tool);
}

#[test]
fn what_the_application_saw_the_model_think_is_a_block_of_thinking() {
    let thought = Part {
        body: PartBody::Reasoning {
            text: "hm".into(),
            signature: None,
            encrypted: None,
        },
        extra: vec![],
    };
    let log = Log::of([
        Message::person("go"),
        Message::calls(vec![thought, Part::text("so")]),
        Message::person("on"),
    ]);
    let (rendered, body) = own(PROFILE, &log, false);
    let thinking = json!({"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]});
    let words = json!({"type": "text", "text": "so"});
    assert_eq!(body["messages"][1]["content"], json!([thinking, words]));
    assert_eq!(rendered.repairs, []);
}

proptest! {
    #[test]
    fn ids_made_anew_are_nine_characters_and_differ(
        places in prop::collection::btree_set((0..u64::from(u32::MAX), 0..40_usize), 1..6),
    ) {
        let last = places.iter().map(|(_, part)| *part).max().unwrap_or(0);
        let mut log = Log::of([Message::person("go")]);
        let calls = (0..=last).map(|n| Part::call(&format!("call_{n}"), "t", "{}"));
        log.push(Message::calls(calls.collect()), Link::None);
        log.messages[1].seq = ctxlog::log::Seq(places.first().unwrap().0 + 11);
        let (_, body) = own(PROFILE, &log, false);
        let calls = body["messages"][1]["tool_calls"].as_array().unwrap();
        let ids: std::collections::BTreeSet<&str> =
            calls.iter().map(|call| call["id"].as_str().unwrap()).collect();
        prop_assert_eq!(ids.len(), last + 1);
        prop_assert!(ids.iter().all(|id| id.len() == 9));
    }
}
