//! The traps of each format, one example each.

use ctxlog::formats::input::RECORD_LIMIT;
use ctxlog::formats::{Begins, Format, Link, Starter, Step, Transcript, Usage};
use ctxlog::log::{Author, BlockBody, Message, PartBody, Role};

fn read(format: &str, text: &str) -> Vec<Transcript> {
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

fn messages(transcript: &Transcript) -> Vec<(&Message, Link)> {
    let message = |step| match step {
        &Step::Message {
            ref message, link, ..
        } => Some((message, link)),
        _ => None,
    };
    transcript.steps.iter().filter_map(message).collect()
}

/// The steps in a few letters: a message's role (`+` where it continues another), a call, a return, a
/// compaction, settings, a note (`!` where it warns).
fn told(transcript: &Transcript) -> String {
    let word = |step: &Step| match step {
        Step::Message { message, link, .. } => {
            let name = &message.role.name()[..1];
            match link {
                Link::Continues(_) => format!("+{name}"),
                _ => name.to_owned(),
            }
        }
        Step::Called { .. } => "call".to_owned(),
        Step::Returned { .. } => "back".to_owned(),
        Step::Compacted { .. } => "compacted".to_owned(),
        Step::Configured { .. } => "set".to_owned(),
        Step::Noted { warn, .. } => if *warn { "note!" } else { "note" }.to_owned(),
        Step::Rewound { .. } => "rewound".to_owned(),
        Step::Cleared { .. } => "cleared".to_owned(),
    };
    let words: Vec<String> = transcript.steps.iter().map(word).collect();
    words.join(" ")
}

fn words(message: &Message) -> String {
    message.words()
}

fn usages(transcript: &Transcript) -> Vec<Option<Usage>> {
    let usage = |step: &Step| match step {
        Step::Returned { usage, .. } => Some(*usage),
        _ => None,
    };
    transcript.steps.iter().filter_map(usage).collect()
}

#[test]
fn responses_items_of_one_turn_are_one_model_message() {
    let read = one(
        "openai-responses",
        r#"{"request":{"model":"m","instructions":"","input":[{"role":"user","content":"hi"},
        {"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}]},
        {"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"so","annotations":[]}]},
        {"type":"function_call","id":"fc_1","call_id":"a","name":"f","arguments":"{ }"},
        {"type":"function_call","id":"fc_2","call_id":"b","name":"g","arguments":"{}"},
        {"type":"function_call_output","call_id":"b","output":[{"type":"input_image","image_url":"https://x"}]},
        {"type":"function_call_output","call_id":"a","output":"1"}]}}"#,
    );
    assert_eq!(told(&read), "set u call a +a +a +a t t call back note!");
    let messages = messages(&read);
    let ids = messages.iter().flat_map(|(m, _)| &m.parts);
    let ids: Vec<_> = ids
        .filter_map(|part| match &part.body {
            PartBody::Call { id, arguments, .. } => Some((id.as_deref(), arguments.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(ids, [(Some("a"), "{ }"), (Some("b"), "{}")], "by call_id");
    let source = messages[3].0.source.as_ref().unwrap();
    assert_eq!(source.id.as_deref(), Some("fc_1"));
}

#[test]
fn responses_instructions_and_a_text_are_messages() {
    let text =
        r#"{"model":"m","instructions":"be brief","input":"hi","previous_response_id":"resp_1"}"#;
    let read = one("openai-responses", text);
    assert_eq!(told(&read), "set s u");
    let Step::Configured { settings, .. } = &read.steps[0] else {
        panic!()
    };
    assert_eq!(settings[1].0, "previous_response_id");
}

#[test]
fn responses_tell_who_runs_a_tool() {
    let read = one(
        "openai-responses",
        r#"{"model":"m","input":[{"type":"tool_search_call","execution":"client","call_id":"a","arguments":{"q":1}},
        {"type":"tool_search_output","execution":"client","call_id":"a","tools":[]},
        {"type":"tool_search_call","execution":"server","call_id":null,"arguments":{}},
        {"type":"local_shell_call","call_id":"s","action":{"type":"exec"}},
        {"type":"local_shell_call_output","id":"s","output":"ok"},
        {"type":"mcp_approval_request","id":"r"},{"type":"mcp_approval_response","approval_request_id":"r","approve":true},
        {"type":"item_reference","id":"msg_9"},{"type":"of_tomorrow","x":1}]}"#,
    );
    assert_eq!(
        told(&read),
        "set call a t call a +a t call a u note! call a +a"
    );
    let kinds = messages(&read);
    let kind = |n: usize| match &kinds[n].0.parts[0].body {
        PartBody::Call { name, .. } => format!("call {name}"),
        PartBody::Result { call, .. } => format!("result {}", call.as_deref().unwrap()),
        PartBody::Block(BlockBody::Opaque(kind, _)) => kind.clone(),
        other => panic!("{other:?}"),
    };
    let kinds: Vec<_> = (0..9).map(kind).collect();
    let expected = [
        "call tool_search",
        "result a",
        "tool_search_call",
        "call local_shell",
        "result s",
        "mcp_approval_request",
        "mcp_approval_response",
        "item_reference",
        "of_tomorrow",
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn a_responses_compaction_stands_for_what_was_before_where_it_was_given() {
    let input = r#"[{"role":"user","content":"a"},{"role":"assistant","content":"b"},
        {"type":"compaction","id":"cmp_1","encrypted_content":"x"},{"role":"user","content":"c"}]"#;
    let sent = one(
        "openai-responses",
        &format!(r#"{{"model":"m","input":{input}}}"#),
    );
    assert_eq!(
        told(&sent),
        "set u call a a u",
        "it was sent with all of them"
    );
    let given = one("openai-responses", &format!(r#"{{"output":{input}}}"#));
    assert_eq!(told(&given), "call u call a compacted u back");
}

#[test]
fn mistral_thinks_in_blocks() {
    let read = one(
        "mistral-chat",
        r#"{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","prefix":true,"tool_calls":[],
        "content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}],"closed":true},{"type":"text","text":"so"}]}]}"#,
    );
    let messages = messages(&read);
    assert!(
        matches!(&messages[1].0.parts[0].body, PartBody::Reasoning { text, .. } if text == "hm")
    );
    assert!(
        messages[1].0.source.as_ref().unwrap().verbatim.is_none(),
        "it is written back equal"
    );
    let given = ctxlog::formats::given(&[messages[1].0]).unwrap();
    assert!(
        given
            .0
            .contains(r#""thinking":[{"type":"text","text":"hm"}],"closed":true"#),
        "{given:?}"
    );
}

/// A line of a rollout.
fn line(kind: &str, payload: &str) -> String {
    format!(
        "{{\"timestamp\":\"2026-01-02T03:04:05Z\",\"type\":\"{kind}\",\"payload\":{payload}}}\n"
    )
}

fn item(payload: &str) -> String {
    line("response_item", payload)
}

fn tokens(total: u32) -> String {
    let info = format!(
        r#"{{"total_token_usage":{{"input_tokens":{total}}},"last_token_usage":{{"input_tokens":5,"cached_input_tokens":2}}}}"#
    );
    line(
        "event_msg",
        &format!(r#"{{"type":"token_count","info":{info}}}"#),
    )
}

const USER: &str =
    r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"go"}]}"#;
const REASONING: &str =
    r#"{"type":"reasoning","summary":[],"content":null,"encrypted_content":"x"}"#;
const CALL: &str = r#"{"type":"function_call","name":"ls","arguments":"{}","call_id":"c"}"#;
const OUTPUT: &str = r#"{"type":"function_call_output","call_id":"c","output":"a"}"#;
const SAID: &str =
    r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"ok"}]}"#;

#[test]
fn codex_counts_tokens_before_or_behind_the_items_of_a_call() {
    let older = [
        &tokens(5),
        &item(REASONING),
        &item(CALL),
        &item(OUTPUT),
        &tokens(10),
        &item(SAID),
    ];
    let newer = [
        &item(REASONING),
        &item(CALL),
        &tokens(5),
        &item(OUTPUT),
        &item(SAID),
        &tokens(10),
    ];
    let text = |lines: [&String; 6]| lines.map(String::as_str).concat();
    let older = one("codex-rollout", &(item(USER) + &text(older)));
    let newer = one("codex-rollout", &(item(USER) + &text(newer)));
    assert_eq!(told(&older), "u call back a +a t call back a");
    assert_eq!(told(&newer), "u call a +a back t call a back");
    let usage = Some(Usage {
        input: Some(3),
        output: None,
        cache_read: Some(2),
        cache_write: None,
    });
    assert_eq!(usages(&older), [usage; 2]);
    assert_eq!(usages(&newer), [usage; 2]);
    let again = one("codex-rollout", &(item(SAID) + &tokens(5) + &tokens(5)));
    assert_eq!(
        told(&again),
        "call a back note",
        "the same count again is no call"
    );
}

#[test]
fn codex_items_of_an_aborted_turn_may_come_behind_its_end() {
    let aborted = line(
        "event_msg",
        r#"{"type":"turn_aborted","reason":"interrupted"}"#,
    );
    let text = [
        item(USER),
        tokens(5),
        aborted,
        item(REASONING),
        item(CALL),
        item(OUTPUT),
        item(USER),
    ];
    assert_eq!(
        told(&one("codex-rollout", &text.concat())),
        "u call back note a +a t u"
    );
}

#[test]
fn codex_events_repeat_and_injected_words_are_no_persons() {
    let injected = USER.replace("go", "<environment_context>\\n</environment_context>");
    let event = line("event_msg", r#"{"type":"user_message","message":"go"}"#);
    let read = one("codex-rollout", &(item(&injected) + &item(USER) + &event));
    assert_eq!(told(&read), "u u note");
    let authors: Vec<_> = messages(&read).iter().map(|(m, _)| m.author).collect();
    assert_eq!(authors, [Author::Application, Author::Person]);
}

#[test]
fn codex_settings_are_told_when_they_change() {
    let context = |model: &str| {
        line(
            "turn_context",
            &format!(r#"{{"cwd":"/w","model":"{model}"}}"#),
        )
    };
    let text = [
        context("m"),
        item(SAID),
        context("m"),
        context("n"),
        item(USER),
        item(SAID),
    ];
    let read = one("codex-rollout", &text.concat());
    assert_eq!(told(&read), "set call a set u call a");
    assert!(matches!(&read.steps[4], Step::Message { .. }));
    assert!(matches!(&read.steps[5], Step::Called { model: Some(m), .. } if m == "n"));
}

#[test]
fn codex_says_what_it_put_in_the_place_of_all_before() {
    let history = format!(
        "[{USER},{{\"type\":\"message\",\"role\":\"user\",\"content\":[{{\"type\":\"input_text\",\"text\":\"so far\"}}]}}]"
    );
    let compacted = line(
        "compacted",
        &format!(r#"{{"message":"so far","replacement_history":{history}}}"#),
    );
    let read = one(
        "codex-rollout",
        &(item(USER) + &item(SAID) + &compacted + &item(USER)),
    );
    assert_eq!(told(&read), "u call a compacted u");
    let Step::Compacted { summary, rest, at } = &read.steps[3] else {
        panic!()
    };
    assert_eq!(words(summary), "go\nso far");
    assert_eq!(
        (&summary.role, summary.author),
        (&Role::User, Author::Application)
    );
    assert!(at.is_some() && rest.iter().any(|(name, _)| name == "replacement_history"));
    let plain = one(
        "codex-rollout",
        &line("compacted", r#"{"message":"so far"}"#),
    );
    assert!(
        matches!(&plain.steps[0], Step::Compacted { summary, .. } if words(summary) == "so far")
    );
    let sealed =
        r#"{"message":"","replacement_history":[{"type":"compaction","encrypted_content":"x"}]}"#;
    let sealed = one("codex-rollout", &line("compacted", sealed));
    let Step::Compacted { summary, .. } = &sealed.steps[0] else {
        panic!()
    };
    assert!(
        matches!(&summary.parts[0].body, PartBody::Block(BlockBody::Opaque(kind, _)) if kind == "compaction")
    );
}

#[test]
fn codex_takes_turns_back() {
    let back = |turns: u32| {
        let event = format!(r#"{{"type":"thread_rolled_back","num_turns":{turns}}}"#);
        line("event_msg", &event)
    };
    let injected = USER.replace("go", "<environment_context>");
    let turn = item(USER) + &item(SAID);
    let text = item(&injected) + &turn + &turn + &turn + &back(2) + &turn + &back(9) + &back(1);
    let read = one("codex-rollout", &text);
    let gone = |step: &Step| match step {
        Step::Rewound { gone, .. } => Some(gone.clone()),
        _ => None,
    };
    let gone: Vec<_> = read.steps.iter().filter_map(gone).collect();
    assert_eq!(gone, [vec![3, 4, 5, 6], vec![1, 2, 7, 8]]);
    let compacted = line("compacted", r#"{"message":"so far"}"#);
    let read = one("codex-rollout", &(turn + &compacted + &back(1)));
    assert_eq!(
        told(&read),
        "u call a compacted note",
        "what a summary stands for is not taken back"
    );
}

#[test]
fn codex_sessions_name_those_they_come_from() {
    let spawned = r#"{"id":"b","source":{"subagent":{"thread_spawn":{"parent_thread_id":"a","spawn_call_id":"c"}}}}"#;
    let spawned = one("codex-rollout", &line("session_meta", spawned));
    assert_eq!(spawned.id.as_deref(), Some("b"));
    let (by, call) = ("a".to_owned(), Starter::Call("c".to_owned()));
    assert_eq!(spawned.begins, Begins::Started { by, call });
    // The record of the session it left is repeated in a fork: the first one names it.
    let forked = line("session_meta", r#"{"id":"b","forked_from_id":"a"}"#)
        + &line("session_meta", r#"{"id":"a"}"#);
    let forked = one("codex-rollout", &forked);
    let of = "a".to_owned();
    assert_eq!(forked.begins, Begins::Forked { of });
    assert_eq!(forked.id.as_deref(), Some("b"));
}

#[test]
fn a_codex_stream_shows_calls_that_did_not_end() {
    let started = |id: &str| {
        format!(
            "{{\"type\":\"item.started\",\"item\":{{\"id\":\"{id}\",\"type\":\"command_execution\",\"command\":\"ls\"}}}}\n"
        )
    };
    let done = started("i").replace("started", "completed").replace(
        "\"command\"",
        "\"exit_code\":1,\"status\":\"failed\",\"command\"",
    );
    let failed = "{\"type\":\"turn.failed\",\"error\":{\"message\":\"no\"}}\n";
    let thread = "{\"type\":\"thread.started\",\"thread_id\":\"t\"}\n";
    let text = [thread, &started("i"), &started("j"), &done, failed].concat();
    let read = one("codex-exec-stream", &text);
    assert_eq!(told(&read), "note call a +a t back");
    let messages = messages(&read);
    let PartBody::Result { call, error, .. } = &messages[2].0.parts[0].body else {
        panic!()
    };
    assert_eq!((call.as_deref(), *error), (Some("i"), Some(true)));
    let tool = "{\"type\":\"item.completed\",\"item\":{\"id\":\"k\",\"type\":\"mcp_tool_call\",\"server\":\"s\",\"tool\":\"find\",\"arguments\":{\"q\":1},\"result\":{\"n\":2},\"status\":\"completed\"}}\n";
    let read = one("codex-exec-stream", tool);
    assert_eq!(told(&read), "call a t");
}

#[test]
fn an_agent_framework_message_may_hold_nothing_or_many_results() {
    let read = one(
        "agent-framework",
        r#"{"messages":[{"role":{"value":"assistant"},"contents":[]},{"role":"assistant","contents":[
        {"type":"function_call","call_id":"a","name":"f","arguments":"{}","exception":null},
        {"type":"function_call","call_id":"b","name":"f","arguments":"{}"}]},{"role":{"value":"tool"},"contents":[
        {"type":"function_result","call_id":"a","result":[1, 2]},
        {"type":"function_result","call_id":"b","result":null,"exception":"not found"}]}]}"#,
    );
    assert_eq!(told(&read), "call a call a t");
    let messages = messages(&read);
    assert!(messages[0].0.parts.is_empty());
    assert_eq!(words(messages[2].0), "[1, 2]\nnot found");
    let errors = messages[2].0.parts.iter().map(|part| match &part.body {
        PartBody::Result { error, .. } => *error,
        _ => panic!(),
    });
    assert_eq!(errors.collect::<Vec<_>>(), [None, Some(true)]);
}

#[test]
fn inspect_puts_texts_back_and_takes_orphans() {
    let hash = "00112233445566778899aabbccddeeff";
    let read = read(
        "inspect-log",
        &r#"{"eval":{},"samples":[{"id":"x","epoch":2,"messages":[{"role":"tool","tool_call_id":"c","function":"f",
        "content":"attachment://HASH","error":{"type":"timeout","message":"late"}},
        {"role":"assistant","content":[{"type":"reasoning","reasoning":"sealed","redacted":true},{"type":"text",
        "text":"see attachment://HASH"},{"type":"data","data":{}}]},
        {"role":"user","content":"attachment://ffffffffffffffffffffffffffffffff"}],"attachments":{"HASH":"long \"text\""}}]}"#
            .replace("HASH", hash),
    );
    assert_eq!(read[0].id.as_deref(), Some("x-2"));
    assert_eq!(told(&read[0]), "t call a note! u note note note");
    let messages = messages(&read[0]);
    assert_eq!(words(messages[0].0), "long \"text\"");
    let PartBody::Result { error, .. } = &messages[0].0.parts[0].body else {
        panic!()
    };
    assert_eq!(*error, Some(true));
    let sealed = &messages[1].0.parts[0].body;
    assert!(matches!(sealed, PartBody::Reasoning { encrypted: Some(e), .. } if e == "sealed"));
}

#[test]
fn inspect_texts_are_not_put_back_without_end() {
    let hash = "00112233445566778899aabbccddeeff";
    let name = format!(r#"{{"role":"user","content":"attachment://{hash}"}}"#);
    let names = vec![name; 1000].join(",");
    let long = "x".repeat(100_000);
    let text = format!(
        r#"{{"eval":{{}},"samples":[{{"id":1,"epoch":1,"messages":[{names}],"attachments":{{"{hash}":"{long}"}}}}]}}"#
    );
    let read = one("inspect-log", &text);
    let size: usize = messages(&read).iter().map(|(m, _)| words(m).len()).sum();
    assert!(size < 10 * text.len(), "{size} of {}", text.len());
    assert!(told(&read).contains("note!"));
}

#[test]
fn mini_swe_exit_is_no_message_and_usage_is_kept() {
    let read = one(
        "mini-swe-traj",
        r#"{"messages":[{"role":"user","content":"go"},{"role":"assistant","content":"ls","extra":{"response":{"model":"m",
        "choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"ls"}}],"usage":{"prompt_tokens":7}}}},
        {"role":"user","content":"a"},{"role":"exit","content":"bye","extra":{}}],"trajectory_format":"mini-swe-agent-1"}"#,
    );
    assert_eq!(told(&read), "u call a back u note note");
    let authors: Vec<_> = messages(&read).iter().map(|(m, _)| m.author).collect();
    assert_eq!(
        authors,
        [Author::Person, Author::Model, Author::Application]
    );
    assert_eq!(usages(&read)[0].unwrap().input, Some(7));
    let Step::Returned { rest, .. } = &read.steps[3] else {
        panic!()
    };
    let choice = rest.iter().find(|(name, _)| name == "choice").unwrap();
    assert_eq!(
        choice.1.0, r#"{"finish_reason":"stop"}"#,
        "the message stands in the conversation"
    );
}

#[test]
fn sweagent_demonstrations_are_not_of_this_run_and_results_name_several_calls() {
    let read = one(
        "sweagent-traj",
        r#"{"history":[{"role":"user","content":"look","agent":"main","is_demo":true},
        {"role":"assistant","content":"ls","agent":"main","is_demo":true},{"role":"user","content":"go","agent":"main"},
        {"role":"assistant","content":"","agent":"main","thought":"t","tool_calls":[
        {"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},
        {"id":"b","type":"function","function":{"name":"f","arguments":"{}"}}]},
        {"role":"tool","content":"r","agent":"main","tool_call_ids":["a","b"]}],"trajectory":[1,2]}"#,
    );
    assert_eq!(told(&read), "u a u call a t note");
    let messages = messages(&read);
    let authors: Vec<_> = messages.iter().map(|(m, _)| m.author).collect();
    let application = Author::Application;
    assert_eq!(
        authors,
        [
            application,
            application,
            Author::Person,
            Author::Model,
            Author::Tool
        ]
    );
    let ids = messages[4].0.parts.iter().map(|part| match &part.body {
        PartBody::Result { call, content, .. } => (call.clone().unwrap(), content.len()),
        _ => panic!(),
    });
    assert_eq!(
        ids.collect::<Vec<_>>(),
        [("a".to_owned(), 1), ("b".to_owned(), 0)]
    );
    assert!(
        messages[3].0.extra.is_empty(),
        "the agent's own fields are no fields of the message"
    );
}

#[test]
fn sharegpt_observations_answer_the_calls_before_them() {
    let read = one(
        "sharegpt",
        r#"{"conversations":[{"from":"gpt","value":"hello"},{"from":"human","value":"add"},
        {"from":"function_call","value":"[{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\", \"arguments\": {}}]"},
        {"from":"observation","value":"[{\"tool_call_id\": \"x\", \"content\": \"1\"}, {\"tool_call_id\": \"y\", \"content\": \"2\"}]"},
        {"from":"function_call","value":"{\"name\": \"h\", \"arguments\": {}}"},{"from":"observation","value":"[3]"},
        {"from":"function_call","value":"no JSON"}],"system":"be brief"}"#,
    );
    assert_eq!(told(&read), "s call a u call a t call a t call a");
    let messages = messages(&read);
    let results = |n: usize| -> Vec<_> {
        let parts = messages[n].0.parts.iter();
        parts
            .map(|part| match &part.body {
                PartBody::Result { name, .. } => name.clone().unwrap(),
                _ => panic!(),
            })
            .collect()
    };
    assert_eq!(results(4), ["f", "g"]);
    assert_eq!(
        (words(messages[4].0).as_str(), words(messages[6].0).as_str()),
        ("1\n2", "[3]")
    );
    assert_eq!(results(6), ["h"]);
    let PartBody::Call { arguments, .. } = &messages[3].0.parts[0].body else {
        panic!()
    };
    assert_eq!(arguments, "{\"a\": 1}");
}

#[test]
fn a_sharegpt_record_with_two_endings_is_a_conversation_and_its_fork() {
    let read = read(
        "sharegpt",
        r#"[{"conversations":[{"from":"human","value":"a"}],"chosen":{"from":"gpt","value":"b"},"rejected":{"from":"gpt","value":"c"}},
        {"conversations":[{"from":"human","value":"d"}],"chosen":"e","rejected":"f"}]"#,
    );
    let ids: Vec<_> = read.iter().map(|t| t.id.as_deref().unwrap()).collect();
    assert_eq!(
        ids,
        [
            "record-1",
            "record-1#rejected",
            "record-2",
            "record-2#rejected"
        ]
    );
    assert_eq!(told(&read[1]), "u call a");
    let (of, shared) = ("record-1".to_owned(), 1);
    assert_eq!(read[1].begins, Begins::Branch { of, shared });
    let last = |t: &Transcript| words(messages(t).last().unwrap().0);
    let last: Vec<_> = read.iter().map(last).collect();
    assert_eq!(last, ["b", "c", "e", "f"]);
}
