//! The rules of providers against requests that they answered, and against those they refused.

use ctxlog::formats::lint::lint;
use ctxlog::formats::{Problem, Profile, Step};
use serde_json::{Value, json};

use super::counts::parts;
use super::files::data;

/// The folders with recorded requests, and whose rules they obey.
const FOLDERS: [(&str, Profile); 6] = [
    ("openai-chat", Profile::OpenAiChat),
    ("openai-responses", Profile::OpenAiResponses),
    ("anthropic-messages", Profile::Anthropic),
    ("bedrock-converse", Profile::Bedrock),
    ("gemini-contents", Profile::Gemini),
    ("mistral-chat", Profile::Mistral),
];

/// Endpoints that take what the rule's owner refuses.
const LENIENT: [(&str, &str); 2] = [("api.mistral.ai", "C6"), ("api.deepseek.com", "R4")];

fn records(folder: &str) -> Option<Vec<Value>> {
    let files = data(folder)?
        .into_iter()
        .filter(|f| f.extension().is_some_and(|e| e == "jsonl"));
    let text: Vec<String> = files.map(|f| std::fs::read_to_string(f).unwrap()).collect();
    let lines = text.iter().flat_map(|text| text.lines());
    Some(
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
    )
}

fn hard(rules: Profile, body: &Value) -> Vec<&'static str> {
    let problems = lint(rules, body).into_iter().filter(|p| p.hard);
    problems.map(|p| p.rule).collect()
}

#[test]
fn no_request_that_was_answered_breaks_a_hard_rule() {
    for (folder, rules) in FOLDERS {
        let Some(records) = records(folder) else {
            return;
        };
        let mut answered = 0;
        for record in records
            .iter()
            .filter(|r| r["status"] == 200 && r["request"].is_object())
        {
            let vendor = record["vendor"].as_str().unwrap_or_default();
            let found = hard(rules, &record["request"]);
            let strict = |rule: &&&str| !LENIENT.contains(&(vendor, **rule));
            let found: Vec<_> = found.iter().filter(strict).collect();
            assert!(found.is_empty(), "{folder} {}: {found:?}", record["id"]);
            answered += 1;
        }
        assert!(answered > 10, "{folder}: {answered}");
    }
}

/// What providers say of a request whose messages are in no order, and the rule that says so too.
const ORDER: [(&str, &str); 2] = [
    ("must be followed by tool messages", "C3"),
    ("No tool output found for tool call", "R2"),
];

#[test]
fn what_was_refused_for_its_order_breaks_the_rule_that_says_so() {
    let Some(refused) = records("rejected-requests") else {
        return;
    };
    let mut found = 0;
    for record in &refused {
        let format = record["format"].as_str().unwrap();
        let (_, rules) = FOLDERS.iter().find(|(f, _)| f.starts_with(format)).unwrap();
        let said = record["response"].to_string();
        let rule = ORDER.iter().find(|(words, _)| said.contains(words));
        let broken = lint(*rules, &record["request"]);
        let says_so = |problem: &Problem| match rule {
            Some((_, rule)) => problem.rule == *rule,
            // Refused for what its content is, or a setting.
            None => problem.hard,
        };
        let found_so = broken.iter().any(says_so);
        assert_eq!(found_so, rule.is_some(), "{}: {broken:?}", record["id"]);
        found += usize::from(rule.is_some());
    }
    assert_eq!((found, refused.len()), (2, 17));
}

/// A request that was refused is a conversation as any, whose call failed in the provider's words.
#[test]
fn what_was_refused_is_read_as_the_format_that_it_names() {
    for file in data("rejected-requests").into_iter().flatten() {
        let lines = std::fs::read_to_string(&file).unwrap();
        let records: Vec<Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let parts = parts(&file);
        assert_eq!(parts.len(), records.len());
        for (record, (_, told)) in records.iter().zip(parts) {
            let [transcript] = told.as_slice() else {
                panic!("{}: {} conversations", record["id"], told.len());
            };
            assert_eq!(transcript.id.as_deref(), record["id"].as_str());
            let failed = |step: &Step| matches!(step, Step::Returned { failure: Some(words), .. } if record["response"].to_string().contains(&json!(words).to_string()));
            assert!(transcript.steps.iter().any(failed), "{}", record["id"]);
            let warns = |step: &Step| matches!(step, Step::Noted { warn: true, .. });
            assert!(!transcript.steps.iter().any(warns), "{}", record["id"]);
        }
    }
}

/// For each rule a body that breaks it and no other.
#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn each_hard_rule_is_found_alone() {
    let call = |id: &str| json!({"functionCall": {"name": "f", "id": id}});
    let response = |id: &str| json!({"functionResponse": {"name": "f", "id": id}});
    let content = |role: &str, parts: Vec<Value>| json!({"role": role, "parts": parts});
    let said = |role: &str| content(role, vec![json!({"text": "x"})]);
    let gemini = |contents: Vec<Value>| (Profile::Gemini, json!({"contents": contents}));
    let item = |value: Value| value;
    let input = |items: Vec<Value>| (Profile::OpenAiResponses, json!({"input": items}));
    let ask = || json!({"role": "user", "content": "x"});
    let block = |role: &str, content: Vec<Value>| json!({"role": role, "content": content});
    let used = |id: &str| json!({"toolUse": {"toolUseId": id, "name": "f", "input": {}}});
    let result = |id: &str| json!({"toolResult": {"toolUseId": id, "content": []}});
    let words = || json!({"text": "x"});
    let bedrock = |messages: Vec<Value>| {
        let body = json!({"messages": messages, "toolConfig": {"tools": []}});
        (Profile::Bedrock, body)
    };
    let mistral = |messages: Vec<Value>| (Profile::Mistral, json!({"messages": messages}));
    let calls = |ids: &[&str]| {
        let calls: Vec<Value> = ids
            .iter()
            .map(|id| json!({"id": id, "function": {"name": "f", "arguments": "{}"}}))
            .collect();
        json!({"role": "assistant", "tool_calls": calls})
    };
    let tool = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "x"});
    let id = "abcdefghi";
    let cases = [
        ("G1", gemini(vec![])),
        ("G2", gemini(vec![json!({"role": "user", "parts": []})])),
        (
            "G2",
            gemini(vec![content("user", vec![json!({"thought": true})])]),
        ),
        (
            "G3",
            gemini(vec![
                content("model", vec![call("a")]),
                content("user", vec![response("a")]),
            ]),
        ),
        (
            "G4",
            gemini(vec![
                said("user"),
                content("model", vec![call("a"), call("b")]),
                content("user", vec![response("a")]),
            ]),
        ),
        ("G5", gemini(vec![content("user", vec![response("a")])])),
        (
            "G6",
            gemini(vec![
                said("user"),
                content("model", vec![call("a")]),
                content("user", vec![response("b")]),
            ]),
        ),
        (
            "G2",
            gemini(vec![content(
                "user",
                vec![json!({"text": "x", "fileData": {}})],
            )]),
        ),
        ("G3", gemini(vec![content("user", vec![call("a")])])),
        (
            "G6",
            gemini(vec![
                said("user"),
                content("model", vec![call("a"), call("a")]),
            ]),
        ),
        (
            "G6",
            gemini(vec![
                said("user"),
                content("model", vec![json!({"functionCall": {}})]),
            ]),
        ),
        (
            "G10",
            gemini(vec![
                said("user"),
                content(
                    "model",
                    vec![json!({"functionCall": {"name": "f", "args": []}})],
                ),
            ]),
        ),
        ("R7", input(vec![])),
        (
            "R1",
            input(vec![item(
                json!({"type": "function_call_output", "call_id": "c", "output": ""}),
            )]),
        ),
        (
            "R2",
            input(vec![
                ask(),
                item(
                    json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": ""}),
                ),
            ]),
        ),
        (
            "R3",
            input(vec![
                item(json!({"type": "message", "id": "m", "role": "assistant"})),
                item(json!({"type": "message", "id": "m", "role": "assistant"})),
            ]),
        ),
        (
            "R4",
            input(vec![
                ask(),
                item(json!({"type": "reasoning", "id": "rs_1"})),
                ask(),
            ]),
        ),
        (
            "R6",
            input(vec![
                item(json!({"type": "function_call", "id": "x", "call_id": "c", "name": "f"})),
                item(json!({"type": "function_call_output", "call_id": "c"})),
            ]),
        ),
        (
            "R8",
            input(vec![ask(), item(json!({"role": "tool", "content": "x"}))]),
        ),
        (
            "R2",
            input(vec![
                item(json!({"type": "shell_call", "action": {}})),
                ask(),
            ]),
        ),
        ("B1", bedrock(vec![block("assistant", vec![words()])])),
        (
            "B2",
            bedrock(vec![
                block("user", vec![words()]),
                block("user", vec![words()]),
            ]),
        ),
        ("B3", bedrock(vec![block("user", vec![result("a")])])),
        (
            "B4",
            bedrock(vec![
                block("user", vec![words()]),
                block("assistant", vec![used("a")]),
                block("user", vec![words()]),
            ]),
        ),
        (
            "B2",
            bedrock(vec![
                block("user", vec![words()]),
                block("system", vec![words()]),
            ]),
        ),
        (
            "B4",
            bedrock(vec![
                block("user", vec![words()]),
                block("assistant", vec![used("a")]),
            ]),
        ),
        ("B6", bedrock(vec![block("user", vec![])])),
        (
            "B6",
            bedrock(vec![block("user", vec![words(), json!({"text": ""})])]),
        ),
        (
            "B6",
            bedrock(vec![block("user", vec![json!({"text": "\n"})])]),
        ),
        (
            "B7",
            bedrock(vec![
                block("user", vec![words()]),
                block("assistant", vec![used("a b")]),
                block("user", vec![result("a b")]),
            ]),
        ),
        (
            "B8",
            (
                Profile::Bedrock,
                json!({"messages": [
                    block("user", vec![words()]),
                    block("assistant", vec![used("a")]),
                    block("user", vec![result("a")]),
                ]}),
            ),
        ),
        ("M1", mistral(vec![])),
        (
            "M2",
            mistral(vec![
                ask(),
                json!({"role": "assistant", "content": "x"}),
                json!({"role": "system", "content": "x"}),
                ask(),
            ]),
        ),
        (
            "M3",
            mistral(vec![ask(), json!({"role": "assistant", "content": "x"})]),
        ),
        (
            "M2",
            mistral(vec![json!({"role": "developer", "content": "x"}), ask()]),
        ),
        (
            "M4",
            mistral(vec![
                json!({"role": "user", "content": "x", "function_call": {}}),
                ask(),
            ]),
        ),
        ("M4", mistral(vec![ask(), calls(&[id]), ask()])),
        ("M4", mistral(vec![ask(), calls(&[id]), tool(id), tool(id)])),
        ("M5", mistral(vec![ask(), calls(&["null"]), tool("null")])),
        (
            "M6",
            mistral(vec![
                ask(),
                json!({"role": "assistant", "content": ""}),
                ask(),
            ]),
        ),
        ("M7", mistral(vec![json!({"role": "system"}), ask()])),
    ];
    for (rule, (rules, body)) in cases {
        let mut found = hard(rules, &body);
        found.dedup();
        assert_eq!(found, [rule], "{body}");
    }
}
