//! Reading and rendering the recorded transcripts.

mod common;

use common::data::data;
use common::{Log, has_own_call, log_of, pieces_of, settings};
use ctxlog::formats::json;
use ctxlog::formats::lint::lint;
use ctxlog::formats::{Profile, Rendered, Step, Transcript, anthropic, openai_chat, render};
use ctxlog::log::Json;
use serde_json::Value;

const CHAT: (&str, Profile, &str) = ("openai-chat", Profile::OpenAiChat, openai_chat::FORMAT);
const CLAUDE: (&str, Profile, &str) = ("anthropic-messages", Profile::Anthropic, anthropic::FORMAT);

fn read(profile: Profile, file: &std::path::Path) -> Vec<Transcript> {
    match profile {
        Profile::OpenAiChat => openai_chat::read(pieces_of(file)),
        _ => anthropic::read(pieces_of(file)),
    }
}

fn body(rendered: &Rendered) -> Value {
    serde_json::from_str(&rendered.body).unwrap()
}

/// The source's records as JSON values.
fn records(file: &std::path::Path) -> Vec<Value> {
    let parse = |json: Json| serde_json::from_str(&json.0).unwrap();
    pieces_of(file)
        .into_iter()
        .map(|p| parse(p.value.unwrap()))
        .collect()
}

/// The messages a record sent, and the one it got.
fn sent(record: &Value) -> (Vec<Value>, Option<Value>) {
    let request = record.get("request").unwrap_or(record);
    let list = request.get("messages").or_else(|| record.get("traj"));
    let messages = list.and_then(Value::as_array).cloned().unwrap_or_default();
    let response = record.get("response").unwrap_or(&Value::Null);
    let answer = response.pointer("/choices/0/message").cloned().or_else(|| {
        let content = response.get("content")?;
        Some(serde_json::json!({"role": response["role"], "content": content}))
    });
    (messages, answer)
}

fn of_format(record: &Value, folder: &str) -> bool {
    record.get("format").is_none_or(|f| f == folder)
}

fn hard(profile: Profile, body: &Value) -> Vec<String> {
    let problems = lint(profile, body).into_iter().filter(|p| p.hard);
    problems
        .map(|p| format!("{} at {:?}: {}", p.rule, p.index, p.message))
        .collect()
}

/// Every transcript of a format with its record.
fn each(of: (&str, Profile, &str), mut check: impl FnMut(&Value, &Transcript, &str)) {
    for folder in [of.0, "rejected-requests"] {
        let Some(files) = data(folder) else { return };
        for file in files {
            let transcripts = read(of.1, &file);
            let records = records(&file);
            assert_eq!(records.len(), transcripts.len(), "{}", file.display());
            for (n, (record, transcript)) in records.iter().zip(&transcripts).enumerate() {
                if of_format(record, of.0) {
                    check(record, transcript, &format!("{}#{n}", file.display()));
                }
            }
        }
    }
}

fn draw(
    profile: Profile,
    log: &Log,
    transcript: &Transcript,
    format: &str,
    as_is: bool,
) -> Rendered {
    render(
        profile,
        &log.items(),
        &settings(transcript),
        format,
        None,
        as_is,
    )
}

#[test]
fn as_is_gives_openai_chat_messages_and_settings_back() {
    as_is_messages(CHAT);
}

#[test]
fn as_is_gives_anthropic_messages_and_settings_back() {
    as_is_messages(CLAUDE);
}

fn as_is_messages(of: (&str, Profile, &str)) {
    each(of, |record, transcript, place| {
        let (request, answer) = sent(record);
        let alone = draw(of.1, &log_of(transcript, false), transcript, of.2, true);
        let body_alone = body(&alone);
        assert_eq!(
            body_alone["messages"],
            Value::from(request.clone()),
            "{place}"
        );
        if let Some(Value::Object(fields)) = record.get("request") {
            for (name, value) in fields {
                assert_eq!(body_alone.get(name), Some(value), "{place} {name}");
            }
        }
        let whole = draw(of.1, &log_of(transcript, true), transcript, of.2, true);
        let answered = answer.filter(|_| record.get("response").is_some());
        let all: Vec<Value> = request.into_iter().chain(answered).collect();
        assert_eq!(body(&whole)["messages"], Value::from(all), "{place}");
        assert_eq!((alone.repairs, whole.repairs), (vec![], vec![]), "{place}");
    });
}

fn lint_agrees_with_the_provider(of: (&str, Profile, &str)) {
    let mut accepted = 0;
    each(of, |record, _, place| {
        let Some(request) = record.get("request") else {
            return;
        };
        if record.get("status").and_then(Value::as_u64) == Some(200) {
            assert_eq!(hard(of.1, request), Vec::<String>::new(), "{place}");
            accepted += 1;
        }
    });
    println!("{accepted} accepted requests");
}

#[test]
fn lint_finds_nothing_hard_in_accepted_openai_chat_requests() {
    lint_agrees_with_the_provider(CHAT);
}

#[test]
fn lint_finds_nothing_hard_in_accepted_anthropic_requests() {
    lint_agrees_with_the_provider(CLAUDE);
}

#[test]
fn lint_finds_the_call_without_result_that_was_refused() {
    each(CHAT, |record, transcript, place| {
        if !record["id"]
            .as_str()
            .is_some_and(|id| id.starts_with("wait-user-input#e8155728"))
        {
            return;
        }
        let problems = hard(Profile::OpenAiChat, &record["request"]);
        assert!(
            problems.iter().any(|p| p.starts_with("C3 at Some(1)")),
            "{place}: {problems:?}"
        );
        let rendered = draw(
            Profile::OpenAiChat,
            &log_of(transcript, false),
            transcript,
            CHAT.2,
            false,
        );
        let rules: Vec<_> = rendered.repairs.iter().map(|r| r.rule).collect();
        assert_eq!(rules, ["C3"], "{place}");
        assert_eq!(
            hard(Profile::OpenAiChat, &body(&rendered)),
            Vec::<String>::new()
        );
        assert!(transcript.steps.iter().any(
            |s| matches!(s, Step::Returned { failure: Some(f), .. } if f.contains("tool_call_id"))
        ));
    });
}

fn repairs_only_what_is_broken(of: (&str, Profile, &str)) {
    each(of, |record, transcript, place| {
        for whole in [false, true] {
            let log = log_of(transcript, whole);
            if log.messages.is_empty() {
                continue;
            }
            let as_is = draw(of.1, &log, transcript, of.2, true);
            let repaired = draw(of.1, &log, transcript, of.2, false);
            assert_eq!(
                hard(of.1, &body(&repaired)),
                Vec::<String>::new(),
                "{place}"
            );
            if hard(of.1, &body(&as_is)).is_empty() {
                assert_eq!(repaired.repairs, [], "{place}");
                assert_eq!(
                    body(&repaired)["messages"],
                    body(&as_is)["messages"],
                    "{place}"
                );
            } else {
                assert_ne!(repaired.repairs, [], "{place} {record}");
            }
        }
    });
}

#[test]
fn openai_chat_is_repaired_where_it_is_broken_and_only_there() {
    repairs_only_what_is_broken(CHAT);
}

#[test]
fn anthropic_is_repaired_where_it_is_broken_and_only_there() {
    repairs_only_what_is_broken(CLAUDE);
}

fn crosses_over(of: (&str, Profile, &str), to: Profile) {
    each(of, |_, transcript, place| {
        let log = log_of(transcript, true);
        let rendered = draw(to, &log, transcript, of.2, false);
        let body = body(&rendered);
        assert_eq!(
            hard(to, &body),
            Vec::<String>::new(),
            "{place} {:?}",
            rendered.repairs
        );
        let tools = |s: &[(String, Json)]| {
            let is_tool = |t: &Json| t.0.contains("\"function\":");
            s.iter().any(|(n, v)| {
                n == "tools" && v.0 != "[]" && json::array(v).unwrap().iter().all(is_tool)
            })
        };
        if to == Profile::Anthropic && tools(&settings(transcript)) {
            assert!(body["tools"][0]["input_schema"].is_object(), "{place}");
        }
        assert_eq!(
            body["model"].is_string(),
            settings(transcript).iter().any(|s| s.0 == "model")
        );
    });
}

#[test]
fn openai_chat_transcripts_render_legally_for_anthropic() {
    crosses_over(CHAT, Profile::Anthropic);
}

#[test]
fn anthropic_transcripts_render_legally_for_openai_chat() {
    crosses_over(CLAUDE, Profile::OpenAiChat);
}

/// The history up to any point: what a strategy or an interruption may leave.
fn every_prefix_and_suffix_is_legal(of: (&str, Profile, &str)) {
    each(of, |_, transcript, place| {
        let log = log_of(transcript, true);
        let items = log.items();
        for cut in 0..items.len() {
            for part in [&items[..cut], &items[cut..]] {
                for to in Profile::ALL.iter().copied() {
                    let rendered = render(to, part, &vec![], of.2, None, false);
                    assert_eq!(
                        hard(to, &body(&rendered)),
                        Vec::<String>::new(),
                        "{place} {cut}"
                    );
                }
            }
        }
    });
}

#[test]
fn every_cut_through_openai_chat_renders_legally() {
    every_prefix_and_suffix_is_legal(CHAT);
}

#[test]
fn every_cut_through_anthropic_renders_legally() {
    every_prefix_and_suffix_is_legal(CLAUDE);
}

#[test]
fn every_call_of_a_trajectory_is_an_iteration() {
    each(CHAT, |record, transcript, place| {
        let (messages, _) = sent(record);
        let assistants = messages.iter().filter(|m| m["role"] == "assistant").count();
        let called = transcript
            .steps
            .iter()
            .filter(|s| matches!(s, Step::Called { .. }))
            .count();
        assert_eq!(
            called,
            assistants + usize::from(has_own_call(transcript)),
            "{place}"
        );
        let warned = |s: &&Step| matches!(s, Step::Noted { warn: true, .. });
        let omitted =
            record.get("status").is_some_and(|s| s == 200) && record["response"].is_null();
        let warnings = transcript.steps.iter().filter(warned).count();
        assert_eq!(warnings, usize::from(omitted), "{place}");
        if record.get("traj").is_some() {
            let id = format!("{}-{}", record["task_id"], record["trial"]);
            assert_eq!(transcript.id.as_deref(), Some(id.as_str()));
        }
    });
}
