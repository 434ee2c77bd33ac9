//! Sharp corners of what is sent to OpenAI Responses.

use ctxlog::formats::lint::lint;
use ctxlog::formats::{Link, Profile, Repair, anthropic, openai_responses, render};
use ctxlog::log::{Json, Message, Part, PartBody};
use serde_json::{Value, json};

use super::common::{Log, log_of, settings};
use super::driver::{draw, hard, list, own};

const PROFILE: Profile = Profile::OpenAiResponses;

fn read(items: &Value) -> Log {
    let mut log = Log::default();
    let mut head = None;
    for item in items.as_array().unwrap() {
        let message = openai_responses::read_item(&Json(item.to_string())).unwrap();
        let by_model = message.role == ctxlog::log::Role::Assistant;
        let link = head
            .filter(|_| by_model)
            .map_or(Link::None, Link::Continues);
        let at = log.messages.len();
        head = by_model.then(|| head.unwrap_or(at));
        log.push(message, link);
    }
    log
}

fn rules(repairs: &[Repair]) -> Vec<&'static str> {
    repairs.iter().map(|repair| repair.rule).collect()
}

/// What a bare request body becomes, repaired and as it is.
fn requested(body: &Value) -> (Value, Value) {
    let read = ctxlog::formats::Format::from_name("openai-responses").unwrap();
    let text = body.to_string();
    let transcripts = read.read(&mut text.as_bytes(), "f", 1 << 20).unwrap();
    let (log, settings) = (log_of(&transcripts[0], true), settings(&transcripts[0]));
    let draw = |as_is| {
        draw(
            PROFILE,
            &log.items(),
            &settings,
            openai_responses::FORMAT,
            as_is,
        )
        .1
    };
    (draw(false), draw(true))
}

fn turn() -> Value {
    json!([
        {"role": "user", "content": "go"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed+/="},
        {"type": "message", "id": "msg_1", "role": "assistant",
            "content": [{"type": "output_text", "text": "so", "annotations": []}]},
        {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f", "arguments": "{ }"},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
    ])
}

#[test]
fn an_input_that_is_a_text_and_instructions_go_back_where_they_stood() {
    for body in [
        json!({"model": "m", "instructions": "be brief", "input": "hi", "store": false}),
        json!({"model": "m", "instructions": "", "input": [{"role": "user", "content": "hi"}]}),
        json!({"model": "m", "instructions": null, "input": ""}),
    ] {
        let (repaired, as_is) = requested(&body);
        assert_eq!(as_is, body);
        assert_eq!(repaired, body);
    }
}

#[test]
fn a_text_that_was_the_whole_input_is_an_item_among_others() {
    let text = r#"{"model":"m","instructions":"be brief","input":"hi"}"#;
    let reader = ctxlog::formats::Format::from_name("openai-responses").unwrap();
    let read = reader.read(&mut text.as_bytes(), "f", 1 << 20).unwrap();
    let mut log = log_of(&read[0], true);
    log.push(Message::model("hello"), Link::None);
    log.push(Message::system("now in French"), Link::None);
    let (rendered, body) = own(PROFILE, &log, false);
    assert_eq!(body["instructions"], "be brief");
    let expected = json!([{"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hello"}, {"role": "system", "content": "now in French"}]);
    assert_eq!(body["input"], expected);
    assert_eq!(rendered.repairs, []);
}

#[test]
fn half_of_a_surrogate_pair_in_instructions_comes_back_as_it_was() {
    let text = r#"{"model":"m","instructions":"a\ud83d","input":"b\ud83d"}"#;
    let reader = ctxlog::formats::Format::from_name("openai-responses").unwrap();
    let read = reader.read(&mut text.as_bytes(), "f", 1 << 20).unwrap();
    let log = log_of(&read[0], true);
    let items = log.items();
    let as_is = render(
        PROFILE,
        &items,
        &vec![],
        openai_responses::FORMAT,
        None,
        true,
    );
    assert_eq!(
        as_is.body,
        r#"{"instructions":"a\ud83d","input":"b\ud83d"}"#
    );
    let sent = render(
        PROFILE,
        &items,
        &vec![],
        openai_responses::FORMAT,
        None,
        false,
    );
    assert_eq!(rules(&sent.repairs), ["text"]);
}

#[test]
fn what_reasoning_is_bound_to_stays_with_it_or_goes_without_ids() {
    let whole = read(&turn());
    let (rendered, body) = own(PROFILE, &whole, false);
    assert_eq!((&body["input"], rendered.repairs), (&turn(), vec![]));
    // What follows the reasoning left: it goes, and the call is sent without its id.
    let mut cut = read(&turn());
    cut.messages.remove(2);
    cut.messages[2].message.parts[0]
        .extra
        .retain(|(name, _)| name != "id");
    let (rendered, body) = own(PROFILE, &cut, false);
    let kinds: Vec<_> = list(&body).iter().map(|i| i["type"].clone()).collect();
    assert_eq!(
        kinds,
        [
            Value::Null,
            "function_call".into(),
            "function_call_output".into()
        ]
    );
    assert_eq!(rules(&rendered.repairs), ["R4"]);
    // The reasoning left: what came of it is sent without ids, and nothing else is lost.
    let mut cut = read(&turn());
    cut.messages.remove(1);
    let (rendered, body) = own(PROFILE, &cut, false);
    let mut expected = turn();
    expected.as_array_mut().unwrap().remove(1);
    for n in [1, 2] {
        expected[n].as_object_mut().unwrap().remove("id");
    }
    assert_eq!(body["input"], expected);
    assert_eq!(rules(&rendered.repairs), ["R5", "R5"]);
}

#[test]
fn behind_an_earlier_response_an_output_may_stand_alone() {
    let output = json!([{"type": "function_call_output", "call_id": "a", "output": "1"}]);
    for name in ["previous_response_id", "conversation"] {
        let body = json!({"model": "m", name: "x_1", "input": output});
        assert_eq!(requested(&body), (body.clone(), body.clone()));
        let problems = lint(PROFILE, &body);
        assert_eq!(problems.len(), 1);
        assert!(!problems[0].hard && problems[0].message.contains(name));
    }
    let (repaired, _) = requested(&json!({"model": "m", "conversation": null, "input": output}));
    assert_eq!(list(&repaired)[0]["content"], "[the window is empty]");
}

#[test]
fn a_repeated_call_id_gets_one_of_its_own_and_its_output_follows() {
    let calls = json!([
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "1"},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
        {"type": "custom_tool_call", "call_id": "a", "name": "g", "input": "2"},
        {"type": "custom_tool_call_output", "call_id": "a", "output": "2"},
        {"type": "local_shell_call", "call_id": "a", "action": {"type": "exec"}},
        {"type": "local_shell_call_output", "id": "a", "output": "3"},
    ]);
    let (rendered, body) = own(PROFILE, &read(&calls), false);
    let mut expected = calls;
    for (n, field, id) in [
        (2, "call_id", "a_2"),
        (3, "call_id", "a_2"),
        (4, "call_id", "a_3"),
        (5, "id", "a_3"),
    ] {
        expected[n][field] = id.into();
    }
    assert_eq!(body["input"], expected);
    assert_eq!(rules(&rendered.repairs), ["R3", "R3", "R1", "R1"]);
}

#[test]
fn a_call_is_closed_in_the_words_of_its_kind() {
    let calls = json!([
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "b", "name": "g", "input": ""},
        {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
        {"type": "apply_patch_call", "call_id": "d", "operation": {"type": "delete_file"}},
        {"type": "local_shell_call", "call_id": "e", "action": {"type": "exec"}},
        {"type": "computer_call", "call_id": "f", "action": {"type": "click"}},
        {"type": "tool_search_call", "call_id": "g", "execution": "client", "arguments": {}},
    ]);
    let (rendered, body) = own(PROFILE, &read(&calls), false);
    let no = "[no result was recorded for this call]";
    let outputs: Vec<Value> = list(&body).into_iter().skip(6).collect();
    let expected = json!([
        {"type": "function_call_output", "call_id": "a", "output": no},
        {"type": "custom_tool_call_output", "call_id": "b", "output": no},
        {"type": "shell_call_output", "call_id": "c", "output":
            [{"stdout": "", "stderr": no, "outcome": {"type": "exit", "exit_code": 1}}]},
        {"type": "apply_patch_call_output", "call_id": "d", "output": no, "status": "failed"},
        {"type": "local_shell_call_output", "call_id": "e", "output": no},
        {"type": "function_call_output", "call_id": "g", "output": no},
    ]);
    assert_eq!(Value::from(outputs), expected);
    assert_eq!(rules(&rendered.repairs), ["R2"; 7]);
    assert_eq!(
        list(&body)
            .iter()
            .filter(|i| i["type"] == "computer_call")
            .count(),
        0
    );
}

#[test]
fn an_output_before_its_call_moves_and_a_further_one_goes() {
    let mut log = read(&turn());
    let mut items = log.items();
    items.swap(3, 4);
    let (rendered, body) = draw(PROFILE, &items, &vec![], openai_responses::FORMAT, false);
    assert_eq!(body["input"], turn());
    assert_eq!(rules(&rendered.repairs), ["R1"]);
    log.push(Message::tool("a", "again"), Link::None);
    log.messages[5].answers = log.messages[4].answers.clone();
    let (rendered, body) = own(PROFILE, &log, false);
    assert_eq!(body["input"], turn());
    assert_eq!(rules(&rendered.repairs), ["R1"]);
}

#[test]
fn a_codex_session_is_sent_as_items_and_its_settings_are_mapped() {
    let line = |payload: Value| json!({"type": "response_item", "payload": payload}).to_string();
    let context = json!({"type": "turn_context",
        "payload": {"model": "gpt", "cwd": "/x", "approval_policy": "never"}});
    let items = turn();
    let mut text = context.to_string() + "\n";
    for item in items.as_array().unwrap() {
        text += &(line(item.clone()) + "\n");
    }
    let history = json!({"type": "compacted", "payload": {"message": "", "replacement_history": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "u"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "m"}]},
        {"type": "ghost_snapshot", "ghost_commit": {}},
        {"type": "compaction", "encrypted_content": "sealed"}]}});
    let codex = |text: &str| {
        let reader = ctxlog::formats::Format::from_name("codex-rollout").unwrap();
        reader
            .read(&mut text.as_bytes(), "f", 1 << 20)
            .unwrap()
            .remove(0)
    };
    let transcript = codex(&text);
    let log = log_of(&transcript, true);
    let (rendered, body) = draw(
        PROFILE,
        &log.items(),
        &settings(&transcript),
        transcript.format,
        false,
    );
    assert_eq!(body, json!({"model": "gpt", "input": items}));
    assert_eq!(rendered.repairs, []);
    let transcript = codex(&history.to_string());
    let ctxlog::formats::Step::Compacted { summary, .. } = &transcript.steps[0] else {
        panic!("{transcript:?}")
    };
    let log = Log::of([summary.clone()]);
    let (rendered, body) = draw(PROFILE, &log.items(), &vec![], transcript.format, false);
    let expected = json!([
        {"role": "user", "content": [{"type": "input_text", "text": "u"}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "m"}]},
        {"type": "compaction", "encrypted_content": "sealed"}]);
    assert_eq!(body["input"], expected);
    assert_eq!(rules(&rendered.repairs), ["map"]);
}

#[test]
fn another_providers_content_becomes_items() {
    let read = |text: &str| anthropic::read_message(&Json(text.into()), anthropic::FORMAT).unwrap();
    let said = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"s"},
        {"type":"text","text":"I will"},{"type":"tool_use","id":"a","name":"t","input":{"b": 1}}]}"#;
    let back = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[
        {"type":"text","text":"r"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}]},
        {"type":"document","source":{"type":"url","url":"https://x/y.pdf"}}]}"#;
    let messages = [said, back].into_iter().flat_map(read);
    let (rendered, body) = draw(
        PROFILE,
        &Log::of(messages).items(),
        &vec![],
        "anthropic",
        false,
    );
    let expected = json!([
        {"role": "assistant", "content": "I will"},
        {"type": "function_call", "call_id": "a", "name": "t", "arguments": "{\"b\": 1}"},
        {"type": "function_call_output", "call_id": "a", "output": [
            {"type": "input_text", "text": "r"},
            {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "auto"}]},
        {"role": "user", "content": [{"type": "input_file", "file_url": "https://x/y.pdf"}]},
    ]);
    assert_eq!(body["input"], expected);
    assert_eq!(rules(&rendered.repairs), ["map"; 3]);
    let tools = r#"[{"name":"t","description":"d","input_schema":{"type":"object"}},{"type":"web_search_20250305","name":"web_search"}]"#;
    let settings = vec![
        ("max_tokens".to_owned(), Json("9".into())),
        ("tools".to_owned(), Json(tools.into())),
    ];
    let (rendered, body) = draw(PROFILE, &[], &settings, "anthropic", false);
    assert_eq!(body["max_output_tokens"], 9);
    let tool = json!([{"type": "function", "name": "t", "description": "d",
        "parameters": {"type": "object"}, "strict": false}]);
    assert_eq!(body["tools"], tool);
    assert_eq!(rules(&rendered.repairs), ["map", "R7"]);
}

#[test]
fn a_result_without_a_kind_is_said_in_the_kind_of_its_call() {
    let calls = json!([
        {"type": "custom_tool_call", "call_id": "a", "name": "g", "input": ""},
        {"type": "shell_call", "call_id": "b", "action": {"commands": ["ls"]}},
    ]);
    let mut log = read(&calls);
    log.push(Message::tool("a", "1"), Link::None);
    log.push(Message::tool("b", "2"), Link::None);
    let (rendered, body) = own(PROFILE, &log, false);
    let expected = json!([
        {"type": "custom_tool_call_output", "call_id": "a", "output": "1"},
        {"type": "shell_call_output", "call_id": "b",
            "output": [{"stdout": "2", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]},
    ]);
    assert_eq!(Value::from(list(&body).split_off(2)), expected);
    assert_eq!(rendered.repairs, []);
}

#[test]
fn sealed_reasoning_of_the_application_is_kept_and_other_is_not() {
    let reasoning = |encrypted: Option<&str>| Part {
        body: PartBody::Reasoning {
            text: "hm".into(),
            signature: None,
            encrypted: encrypted.map(str::to_owned),
        },
        extra: vec![],
    };
    let sealed = Message::calls(vec![reasoning(Some("x")), Part::text("so")]);
    let (rendered, body) = own(PROFILE, &Log::of([sealed]), false);
    assert_eq!(list(&body)[0]["encrypted_content"], "x");
    assert_eq!(rendered.repairs, []);
    let open = Message::calls(vec![reasoning(None), Part::text("so")]);
    let (rendered, body) = own(PROFILE, &Log::of([open]), false);
    assert_eq!(
        body["input"],
        json!([{"role": "assistant", "content": "so"}])
    );
    assert_eq!(rules(&rendered.repairs), ["map"]);
}

#[test]
fn lint_warns_of_what_the_provider_adds_and_of_what_a_compaction_holds() {
    let said = json!({"role": "user", "content": "a"});
    let compaction = json!({"type": "compaction", "id": "c", "encrypted_content": "x"});
    let body = json!({"input": [said, said, compaction, said]});
    let found = lint(PROFILE, &body);
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].rule, found[0].hard, found[0].index),
        ("R9", false, Some(2))
    );
    assert!(hard(PROFILE, &body).is_empty());
    assert_eq!(
        requested(&json!({"model": "m", "input": body["input"]})).0["input"],
        body["input"]
    );
    assert!(lint(PROFILE, &json!({"input": [compaction, said]})).is_empty());
}
