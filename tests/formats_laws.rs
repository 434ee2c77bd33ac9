//! Laws of rendering, over conversations that no provider would have let happen.

mod common;

use common::Log;
use ctxlog::formats::lint::lint;
use ctxlog::formats::{Link, Profile, Rendered, anthropic, openai_chat, render};
use ctxlog::log::{Author, BlockBody, Json, Media, Message, Part, PartBody, Role, Shape};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::Value;

const PROFILES: &[Profile] = Profile::ALL;

fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-c]{1,3}",
        1 => Just(String::new()),
        1 => Just(" \n".to_owned()),
    ]
}

fn call_part() -> impl Strategy<Value = Part> {
    let id = prop_oneof![4 => (0..3_u8).prop_map(|n| Some(format!("c{n}"))), 1 => Just(None),
        1 => Just(Some(String::new()))];
    (
        id,
        prop_oneof![
            Just("{}"),
            Just(""),
            Just("[1]"),
            Just("oops"),
            Just(r#"{"a": 1}"#)
        ],
    )
        .prop_map(|(id, arguments)| {
            let mut part = Part::call("", "t", arguments);
            if let PartBody::Call { id: place, .. } = &mut part.body {
                *place = id;
            }
            part
        })
}

fn reasoning() -> impl Strategy<Value = Part> {
    (
        words(),
        prop::option::of(Just("s".to_owned())),
        prop::option::of(Just("e".to_owned())),
    )
        .prop_map(|(text, signature, encrypted)| Part {
            body: PartBody::Reasoning {
                text,
                signature,
                encrypted,
            },
            extra: vec![],
        })
}

fn native() -> impl Strategy<Value = Part> {
    (0..2_u8, any::<bool>()).prop_map(|(n, call)| {
        let kind = "web_search_tool_result";
        let whole = format!(r#"{{"type":"{kind}","tool_use_id":"n{n}","content":[]}}"#);
        let block = ctxlog::log::Block {
            body: BlockBody::Opaque(kind.into(), Json(whole)),
            extra: vec![],
        };
        let body = if call {
            PartBody::Call {
                id: Some(format!("n{n}")),
                name: "web_search".into(),
                arguments: "{}".into(),
                native: Some("server_tool_use".into()),
            }
        } else {
            PartBody::Result {
                call: Some(format!("n{n}")),
                name: None,
                content: vec![block],
                shape: Shape::List,
                error: None,
                interim: false,
                native: Some(kind.into()),
            }
        };
        Part {
            body,
            extra: vec![],
        }
    })
}

fn media() -> impl Strategy<Value = Part> {
    prop::sample::select(vec![
        r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}"#,
        r#"{"type":"image","source":{"type":"file","file_id":"f"}}"#,
        r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}"#,
        r#"{"type":"image_url","image_url":{"url":"x"}}"#,
        r#"{"type":"document","source":{"type":"text","data":"words","media_type":"text/plain"}}"#,
        r#"{"type":"strange"}"#,
        "7",
    ])
    .prop_map(|json| Part {
        body: PartBody::Block(BlockBody::Media(Media::Image, Json(json.into()))),
        extra: vec![],
    })
}

fn opaque() -> impl Strategy<Value = Part> {
    prop::sample::select(vec![
        "refusal",
        "text",
        "tool_use",
        "tool_result",
        "compaction",
        "x",
        "",
    ])
    .prop_map(|kind| {
        let whole = Json(format!(r#"{{"type":"{kind}"}}"#));
        Part {
            body: PartBody::Block(BlockBody::Opaque(kind.into(), whole)),
            extra: vec![],
        }
    })
}

fn result_part() -> impl Strategy<Value = Part> {
    let block = words().prop_map(|text| ctxlog::log::Block {
        body: BlockBody::Text(text),
        extra: vec![],
    });
    let shape = prop::sample::select(vec![Shape::Text, Shape::List, Shape::Null, Shape::Absent]);
    (
        prop::option::of(0..3_u8),
        prop::collection::vec(block, 0..3),
        shape,
        any::<bool>(),
    )
        .prop_map(|(n, content, shape, interim)| {
            let body = PartBody::Result {
                call: n.map(|n| format!("c{n}")),
                name: Some("t".into()),
                content,
                shape,
                error: None,
                interim,
                native: None,
            };
            Part {
                body,
                extra: vec![],
            }
        })
}

fn any_part() -> impl Strategy<Value = Part> {
    prop_oneof![
        3 => words().prop_map(Part::text),
        3 => call_part(),
        3 => result_part(),
        1 => reasoning(),
        1 => native(),
        1 => media(),
        1 => opaque(),
    ]
}

/// A message as live conversations have them.
fn usual() -> impl Strategy<Value = Message> {
    prop_oneof![
        2 => words().prop_map(Message::person),
        1 => words().prop_map(Message::system),
        1 => words().prop_map(Message::model),
        3 => (prop::option::of(words()), prop::collection::vec(call_part(), 1..4)).prop_map(|(text, calls)| {
            Message::calls(text.map(Part::text).into_iter().chain(calls).collect())
        }),
        4 => prop::collection::vec(result_part(), 1..3)
            .prop_map(|parts| Message::new(Role::Tool, Author::Tool, parts)),
    ]
}

/// Any message at all.
fn any_message() -> impl Strategy<Value = Message> {
    let role = prop::sample::select(vec![
        Role::System,
        Role::Developer,
        Role::User,
        Role::Assistant,
        Role::Assistant,
        Role::Tool,
        Role::Other("odd".into()),
    ]);
    let shape = prop::sample::select(vec![Shape::Text, Shape::List, Shape::Null, Shape::Absent]);
    (role, prop::collection::vec(any_part(), 0..5), shape).prop_map(|(role, parts, shape)| {
        let mut message = Message::new(role, Author::Application, parts);
        message.shape = shape;
        message
    })
}

/// A message as a source of either provider may hold it, by way of its reader.
fn sourced() -> impl Strategy<Value = Vec<Message>> {
    let block = prop::sample::select(vec![
        r#"{"type":"text","text":"hi"}"#,
        r#"{"type":"text","text":" "}"#,
        r#"{"type":"text","text":"x","text":""}"#,
        r#"{"type":"text"}"#,
        r#"{"type":"tool_use","id":"c0","name":"t","input":{}}"#,
        r#"{"type":"tool_use","id":"c1","name":"t","input":{}}"#,
        r#"{"type":"tool_use","id":7,"name":"t","input":{}}"#,
        r#"{"type":"tool_use","name":"t"}"#,
        r#"{"type":"tool_use","id":"c1"}"#,
        r#"{"type":"tool_result","tool_use_id":"c0","content":"ok"}"#,
        r#"{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":""}]}"#,
        r#"{"type":"tool_result","tool_use_id":"c1"}"#,
        r#"{"type":"tool_result"}"#,
        r#"{"type":"thinking","thinking":"","signature":"s"}"#,
        r#"{"type":"thinking","signature":"s"}"#,
        r#"{"type":"server_tool_use","id":"n","name":"s","input":{}}"#,
        r#"{"type":"web_search_tool_result","tool_use_id":"n","content":[]}"#,
        r#""bare""#,
        "null",
        "[]",
    ]);
    let blocks = prop::collection::vec(block, 0..5).prop_map(|b| format!("[{}]", b.join(",")));
    let content = prop_oneof![
        4 => blocks,
        2 => prop::sample::select(vec![r#""hi""#, r#""""#, r#"" ""#, "null", "5"]).prop_map(str::to_owned)];
    let role = prop::sample::select(vec![
        "user",
        "assistant",
        "assistant",
        "user",
        "system",
        "tool",
        "odd",
    ]);
    let claude = (role, content).prop_map(|(role, content)| {
        let json = Json(format!(r#"{{"role":"{role}","content":{content}}}"#));
        anthropic::read_message(&json, anthropic::FORMAT).unwrap()
    });
    let chat = prop::sample::select(vec![
        r#"{"role":"user","content":"hi"}"#,
        r#"{"role":"user","content":null}"#,
        r#"{"role":"user","content":[]}"#,
        r#"{"role":"developer"}"#,
        r#"{"role":"odd","content":"x"}"#,
        r#"{"content":"x"}"#,
        r#"{"role":"assistant","content":null}"#,
        r#"{"role":"assistant","content":null,"reasoning_content":"r"}"#,
        r#"{"role":"assistant","content":"","tool_calls":[]}"#,
        r#"{"role":"assistant","content":"","tool_calls":[5]}"#,
        r#"{"role":"assistant","content":null,"refusal":"no"}"#,
        r#"{"role":"assistant","tool_calls":[{"id":"c0","type":"function","function":{"name":"t","arguments":"{}"}}]}"#,
        r#"{"role":"assistant","tool_calls":[{"id":"c0","function":{"name":"t","arguments":{}}},{"id":"c0","type":"custom","custom":{"name":"t","input":"x"}}]}"#,
        r#"{"role":"assistant","content":null,"function_call":{"name":"t","arguments":"{}"}}"#,
        r#"{"role":"function","name":"t","content":"ok"}"#,
        r#"{"role":"tool","tool_call_id":"c0","content":"ok"}"#,
        r#"{"role":"tool","tool_call_id":"c1","content":[]}"#,
        r#"{"role":"tool","content":"ok"}"#,
        r#"{"role":"tool","tool_call_id":5,"name":"t","content":null}"#,
    ])
    .prop_map(|json| vec![openai_chat::read_message(&Json(json.into())).unwrap()]);
    prop_oneof![claude, chat]
}

/// Some messages that belong together, now and then a single odd one.
fn episode(
    usual: &'static [&'static [&'static str]],
    odd: &'static [&'static str],
) -> impl Strategy<Value = Vec<String>> {
    prop_oneof![
        19 => prop::sample::select(usual).prop_map(|e| e.iter().map(|&m| m.to_owned()).collect()),
        1 => prop::sample::select(odd).prop_map(|m| vec![m.to_owned()]),
    ]
}

const CHAT_EPISODES: &[&[&str]] = &[
    &[r#"{"role":"user","content":"hi","name":"n"}"#],
    &[r#"{"role":"developer","content":[{"type":"text","text":"","cache_control":{}}]}"#],
    &[r#"{"role":"assistant","content":"","tool_calls":null,"audio":null}"#],
    &[r#"{"role":"assistant","content":null,"refusal":"no"}"#],
    &[r#"{"content":"k","role":"assistant","reasoning":"r","reasoning_details":[1]}"#],
    &[r#"{"role":"function","name":"f","content":"ok"}"#],
    &[
        r#"{"role":"assistant","function_call":{"name":"f","arguments":"{}"},"content":null}"#,
        r#"{"role":"function","name":"f","content":"ok"}"#,
    ],
    &[
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","index":-1,"type":"function","function":{"name":"t","arguments":"{ }"}},{"id":"b","type":"custom","custom":{"name":"t","input":"x"}}]}"#,
        r#"{"role":"tool","tool_call_id":"b","name":"t","content":[]}"#,
        r#"{"role":"tool","tool_call_id":"a","content":null}"#,
    ],
];
const CHAT_ODDITIES: &[&str] = &[
    r#"{"role":"assistant","content":[],"content":"k"}"#,
    r#"{"role":"user","content":""}"#,
    r#"{"role":"user","content":[7]}"#,
    r#"{"role":"assistant"}"#,
    r#"{"role":"assistant","content":[]}"#,
    r#"{"role":"tool","tool_call_id":"a","content":"x"}"#,
];
const CLAUDE_EPISODES: &[&[&str]] = &[
    &[r#"{"role":"user","content":"hi"}"#],
    &[r#"{"role":"assistant","content":[{"type":"text","text":"k","citations":null}]}"#],
    &[
        r#"{"role":"user","content":[{"type":"text","text":"s"}]}"#,
        r#"{"role":"system","content":"now"}"#,
        r#"{"role":"assistant","content":"k"}"#,
    ],
    &[
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"s"},{"type":"tool_use","id":"a","name":"t","input":{ }},{"type":"tool_use","id":"b","name":"t","input":{},"caller":{}}]}"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"b"},{"type":"tool_result","tool_use_id":"a","content":"","is_error":true},{"type":"text","text":"and"}]}"#,
    ],
    &[
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"t","input":{}}]}"#,
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"b","name":"t","input":{}}]}"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[]}]}"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"b","content":null}]}"#,
    ],
    &[
        r#"{"role":"assistant","content":[{"type":"server_tool_use","id":"n","name":"s","input":{}},{"type":"web_search_tool_result","tool_use_id":"n","content":[]},{"type":"text","text":"k"}]}"#,
    ],
    &[
        r#"{"role":"user","content":[{"type":"container_upload","file_id":"f"},{"type":"image","source":{}}]}"#,
    ],
];
const CLAUDE_ODDITIES: &[&str] = &[
    r#"{"role":"assistant","content":""}"#,
    r#"{"role":"assistant","content":[]}"#,
    r#"{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"},{"type":"text","text":"k"}],"x":1}"#,
    r#"{"role":"assistant","content":[{"type":"server_tool_use","id":"n","name":"s","input":{}}]}"#,
    r#"{"role":"system","content":"x"}"#,
    r#"{"role":"user","content":[{"type":"text","text":"a","text":"b"}]}"#,
    r#"{"role":"user","content":" "}"#,
];

fn conversation(
    message: impl Strategy<Value = Vec<Message>>,
) -> impl Strategy<Value = Vec<(Vec<Message>, bool)>> {
    prop::collection::vec((message, prop::bool::weighted(0.1)), 0..12)
}

fn log_of(groups: &[(Vec<Message>, bool)]) -> Log {
    let mut log = Log::default();
    let mut last_model = None;
    for (messages, continues) in groups {
        let first = log.messages.len();
        for (n, message) in messages.iter().enumerate() {
            let continued = last_model.filter(|_| *continues && message.role == Role::Assistant);
            let link = match (n, continued) {
                (0, Some(before)) => Link::Continues(before),
                (0, None) => Link::None,
                _ => Link::SameSource(first),
            };
            if message.role == Role::Assistant {
                last_model = Some(log.messages.len());
            }
            log.push(message.clone(), link);
        }
    }
    log
}

fn drawn(profile: Profile, log: &Log, as_is: bool) -> (Rendered, Value) {
    let format = match profile {
        Profile::OpenAiChat => openai_chat::FORMAT,
        _ => anthropic::FORMAT,
    };
    let rendered = render(profile, &log.items(), &vec![], format, Some("m"), as_is);
    let body = serde_json::from_str(&rendered.body).expect("a body is JSON");
    (rendered, body)
}

fn hard(profile: Profile, body: &Value) -> Vec<String> {
    let problems = lint(profile, body).into_iter().filter(|p| p.hard);
    problems
        .map(|p| format!("{} at {:?}: {}", p.rule, p.index, p.message))
        .collect()
}

fn is_legal(groups: &[(Vec<Message>, bool)]) -> Result<(), TestCaseError> {
    let log = log_of(groups);
    for profile in PROFILES.iter().copied() {
        let (rendered, body) = drawn(profile, &log, false);
        let problems = hard(profile, &body);
        prop_assert!(
            problems.is_empty(),
            "{profile:?} {problems:?}\n{body:#}\n{:?}",
            rendered.repairs
        );
        let again = drawn(profile, &log, false).0;
        prop_assert_eq!(&again, &rendered, "rendering is deterministic");
    }
    Ok(())
}

fn one(message: Message) -> Vec<Message> {
    vec![message]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, max_global_rejects: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_live_conversations_hold_renders_legally(groups in conversation(usual().prop_map(one))) {
        is_legal(&groups)?;
    }

    #[test]
    fn what_nobody_should_log_renders_legally(groups in conversation(any_message().prop_map(one))) {
        is_legal(&groups)?;
    }

    #[test]
    fn what_sources_hold_renders_legally(groups in conversation(sourced())) {
        is_legal(&groups)?;
    }

    #[test]
    fn nothing_is_changed_where_no_rule_is_broken(
        chat in prop::collection::vec(episode(CHAT_EPISODES, CHAT_ODDITIES), 0..6),
        claude in prop::collection::vec(episode(CLAUDE_EPISODES, CLAUDE_ODDITIES), 0..6),
        profile in prop::sample::select(vec![Profile::OpenAiChat, Profile::Anthropic]),
    ) {
        let read = |text: &String| {
            let json = Json(text.clone());
            let messages = match profile {
                Profile::OpenAiChat => openai_chat::read_message(&json).map(|m| vec![m]),
                _ => anthropic::read_message(&json, anthropic::FORMAT),
            };
            (messages.unwrap(), false)
        };
        let episodes = if profile == Profile::OpenAiChat { &chat } else { &claude };
        let log = log_of(&episodes.iter().flatten().map(read).collect::<Vec<_>>());
        let (_, as_is) = drawn(profile, &log, true);
        let problems = lint(profile, &as_is);
        let moved = |p: &&ctxlog::formats::Problem| p.hard || (p.rule == "A16" && !p.message.starts_with("only newer"));
        prop_assume!(!problems.iter().any(|p| moved(&p)));
        let (repaired, body) = drawn(profile, &log, false);
        prop_assert_eq!(&body["messages"], &as_is["messages"]);
        prop_assert_eq!(repaired.repairs, vec![]);
    }

    #[test]
    fn renaming_every_call_to_one_id_changes_no_pairing(groups in conversation(usual().prop_map(one))) {
        let log = log_of(&groups);
        let mut renamed = log_of(&groups);
        for logged in &mut renamed.messages {
            for part in &mut logged.message.parts {
                match &mut part.body {
                    PartBody::Call { id, .. } => *id = Some("same".into()),
                    PartBody::Result { call, .. } => *call = Some("same".into()),
                    _ => {}
                }
            }
        }
        for profile in PROFILES.iter().copied() {
            let shape = |log: &Log| {
                let mut body = drawn(profile, log, false).1;
                without_ids(&mut body);
                body
            };
            prop_assert_eq!(shape(&log), shape(&renamed));
        }
    }
}

/// Checks a window against every longer one that only got whole groups at its end: where what
/// came needed no repair, the longer one's messages begin with the shorter one's. Says how often
/// that was so.
fn begins_alike(groups: &[(Vec<Message>, bool)]) -> Result<usize, TestCaseError> {
    let whole = log_of(groups);
    let mut compared = 0;
    // The last message of a list of UI messages grows.
    for profile in PROFILES.iter().copied().filter(|p| *p != Profile::VercelUi) {
        let (long, long_body) = drawn(profile, &whole, false);
        for end in 0..whole.messages.len() {
            let first_new = whole.messages[end].seq;
            let reaches_back = |m: &common::Logged| {
                let calls = m.answers.iter().flatten().map(|(seq, _)| *seq);
                let others = [m.continues, m.same_source].into_iter().flatten();
                calls.chain(others).any(|seq| seq < first_new)
            };
            if whole.messages[end..].iter().any(reaches_back) {
                continue;
            }
            let mut log = log_of(groups);
            log.messages.truncate(end);
            let (short, short_body) = drawn(profile, &log, false);
            if long.repairs != short.repairs {
                continue;
            }
            let messages = |body: &Value| body["messages"].as_array().cloned().unwrap_or_default();
            let (short, long) = (messages(&short_body), messages(&long_body));
            prop_assert!(
                long.starts_with(&short),
                "{profile:?} at {end}:\n{short:#?}\n{long:#?}"
            );
            compared += 1;
        }
    }
    Ok(compared)
}

#[test]
fn a_window_that_grew_at_its_end_begins_with_the_messages_it_had() {
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let compared = std::cell::Cell::new(0);
    let read = |texts: Vec<Vec<String>>, read: fn(&Json) -> Vec<Message>| {
        let texts = texts.into_iter().flatten().map(Json);
        texts.map(|text| (read(&text), false)).collect::<Vec<_>>()
    };
    let chat = prop::collection::vec(episode(CHAT_EPISODES, CHAT_ODDITIES), 0..6);
    let chat =
        chat.prop_map(move |t| read(t, |json| one(openai_chat::read_message(json).unwrap())));
    let claude = prop::collection::vec(episode(CLAUDE_EPISODES, CLAUDE_ODDITIES), 0..6);
    let claude = claude.prop_map(move |t| {
        read(t, |json| {
            anthropic::read_message(json, anthropic::FORMAT).unwrap()
        })
    });
    let live = conversation(usual().prop_map(one));
    let drafts = prop_oneof![live, conversation(sourced()), chat, claude];
    let law = |groups: Vec<(Vec<Message>, bool)>| {
        compared.set(compared.get() + begins_alike(&groups)?);
        Ok(())
    };
    runner.run(&drafts, law).unwrap();
    assert!(
        compared.get() > 300,
        "{} windows were compared",
        compared.get()
    );
}

#[test]
fn results_before_their_calls_are_told_in_their_order() {
    let calls: Vec<Part> = (0..12)
        .map(|n| Part::call(&format!("c{n}"), "t", "{}"))
        .collect();
    let results = (0..12).map(|n| Message::tool(&format!("c{n}"), "r"));
    let log = Log::of([Message::calls(calls)].into_iter().chain(results));
    let mut items = log.items();
    items.rotate_left(1);
    for profile in PROFILES.iter().copied() {
        let draw = || render(profile, &items, &vec![], "", Some("m"), false);
        let first = draw();
        let told: Vec<_> = first.repairs.iter().filter_map(|r| r.seq).collect();
        // In lists that frameworks keep, a result may stand anywhere.
        let anywhere = [Profile::LangChain, Profile::VercelUi].contains(&profile);
        assert!(anywhere || told.len() >= 12, "{told:?}");
        for _ in 0..10 {
            assert_eq!(draw(), first, "{profile:?}");
        }
    }
}

fn without_ids(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for name in [
                "id",
                "call_id",
                "tool_call_id",
                "tool_use_id",
                "toolUseId",
                "toolCallId",
            ] {
                fields.remove(name);
            }
            fields.values_mut().for_each(without_ids);
        }
        Value::Array(values) => values.iter_mut().for_each(without_ids),
        _ => {}
    }
}

#[test]
fn a_persons_words_between_call_and_result_stand_after_the_batch() {
    let log = Log::of([
        Message::person("go"),
        Message::calls(vec![Part::call("a", "t", "{}"), Part::call("b", "t", "{}")]),
        Message::tool("b", "2"),
        Message::person("wait"),
        Message::tool("a", "1"),
    ]);
    let (rendered, body) = drawn(Profile::OpenAiChat, &log, false);
    let roles: Vec<_> = body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "tool", "tool", "user"]);
    assert_eq!(rendered.repairs.len(), 1);
    assert_eq!(
        (rendered.repairs[0].rule, rendered.repairs[0].seq),
        ("C3", Some(log.messages[4].seq))
    );
    let (rendered, body) = drawn(Profile::Anthropic, &log, false);
    assert_eq!(body["messages"][2]["content"][1]["tool_use_id"], "a");
    assert_eq!(body["messages"][3]["content"], "wait");
    assert_eq!(
        rendered.repairs.iter().map(|r| r.rule).collect::<Vec<_>>(),
        ["A7"]
    );
}

#[test]
fn a_reused_id_pairs_by_occurrence() {
    let turn = |text: &str| {
        [
            Message::calls(vec![Part::call("call_0", "t", "{}")]),
            Message::tool("call_0", text),
        ]
    };
    let mut log = Log::of(
        [Message::person("go")]
            .into_iter()
            .chain(turn("1"))
            .chain(turn("2")),
    );
    let (rendered, body) = drawn(Profile::OpenAiChat, &log, false);
    assert_eq!(rendered.repairs, []);
    assert_eq!(body["messages"][4]["content"], "2");
    // The first result leaves: its call is closed, and the second result stays where it belongs.
    log.messages.remove(2);
    let (rendered, body) = drawn(Profile::OpenAiChat, &log, false);
    assert_eq!(
        body["messages"][2]["content"],
        "[no result was recorded for this call]"
    );
    assert_eq!(body["messages"][4]["content"], "2");
    assert_eq!(rendered.repairs.len(), 1);
}

#[test]
fn a_later_block_joins_the_message_it_continues() {
    let mut log = Log::of([Message::person("go"), Message::model("I will")]);
    log.push(
        Message::calls(vec![Part::call("a", "t", "{}")]),
        Link::Continues(1),
    );
    log.push(Message::tool("a", "1"), Link::None);
    log.push(
        Message::calls(vec![Part::call("b", "t", "{}")]),
        Link::Continues(2),
    );
    log.push(Message::tool("b", "2"), Link::None);
    // Items of Responses are not joined.
    let joining = |p: &Profile| *p != Profile::OpenAiResponses;
    for profile in PROFILES.iter().copied().filter(joining) {
        for as_is in [true, false] {
            let (_, body) = drawn(profile, &log, as_is);
            if !as_is {
                assert_eq!(hard(profile, &body), Vec::<String>::new());
            }
            let count = match profile {
                Profile::VercelUi => 2, // all that the model did in a row is one UI message
                Profile::Bedrock if !as_is => 3, // calls in a row are one turn
                _ => 4,
            };
            let list = body.get("messages").or_else(|| body.get("contents"));
            let list = list.and_then(Value::as_array).unwrap();
            assert_eq!(list.len(), count, "{body:#}");
        }
    }
}

#[test]
fn a_source_text_is_not_given_back_once_its_message_has_changed() {
    let source = r#"{"role":"user","content":[{"type":"text","text":"secret"},
        {"type":"tool_result","tool_use_id":"a","content":"1"}]}"#;
    let mut read = anthropic::read_message(&Json(source.into()), anthropic::FORMAT).unwrap();
    assert!(read[0].source.as_ref().unwrap().verbatim.is_some());
    let whole = log_of(&[(read.clone(), false)]);
    let expected: Value = serde_json::from_str(source).unwrap();
    assert_eq!(
        drawn(Profile::Anthropic, &whole, true).1["messages"][0],
        expected
    );
    read.pop();
    let part = log_of(&[(read, false)]);
    assert!(
        !drawn(Profile::Anthropic, &part, true)
            .0
            .body
            .contains("secret")
    );
}

#[test]
fn a_session_lines_own_fields_are_not_sent() {
    let line = r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","content":
        [{"type":"thinking","thinking":"x","signature":"s"},{"type":"text","text":"k"}],"usage":{}}"#;
    let read = anthropic::read_message(&Json(line.into()), "claude-code").unwrap();
    let log = log_of(&[(vec![Message::person("hi")], false), (read, false)]);
    for as_is in [true, false] {
        let (rendered, body) = drawn(Profile::Anthropic, &log, as_is);
        let expected: Value = serde_json::from_str(
            r#"{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"s"},
                {"type":"text","text":"k"}]}"#,
        )
        .unwrap();
        assert_eq!(body["messages"][1], expected);
        assert_eq!(rendered.repairs, []);
    }
}

#[test]
fn another_providers_content_is_mapped_and_its_losses_are_listed() {
    let claude = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"s"},
        {"type":"tool_use","id":"a","name":"t","input":{"b": 1}}]}"#;
    let result = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[
        {"type":"text","text":"r"},{"type":"image","source":{"type":"url","url":"https://x"}}]},
        {"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}]}"#;
    let read = |json: &str| {
        (
            anthropic::read_message(&Json(json.into()), anthropic::FORMAT).unwrap(),
            false,
        )
    };
    let log = log_of(&[read(claude), read(result)]);
    let (rendered, body) = drawn(Profile::OpenAiChat, &log, false);
    let expected: Value = serde_json::from_str(
        r#"[{"role":"assistant","content":null,"tool_calls":
            [{"id":"a","type":"function","function":{"name":"t","arguments":"{\"b\": 1}"}}]},
          {"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"r"},
            {"type":"text","text":"[image left out: this provider has no place for it]"}]},
          {"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}]"#,
    )
    .unwrap();
    assert_eq!(body["messages"], expected);
    assert!(rendered.repairs.iter().all(|r| r.rule == "map"));
    assert_eq!(rendered.repairs.len(), 3, "{:?}", rendered.repairs);
}

#[test]
fn settings_of_another_provider_are_mapped() {
    let tools = r#"[{"type":"function","function":{"name":"t","description":"d","parameters":{"type":"object"}}}]"#;
    let settings = vec![
        ("model".to_owned(), Json("\"gpt\"".into())),
        ("tools".to_owned(), Json(tools.into())),
        ("temperature".to_owned(), Json("0".into())),
        ("max_completion_tokens".to_owned(), Json("7".into())),
    ];
    let rendered = render(
        Profile::Anthropic,
        &[],
        &settings,
        openai_chat::FORMAT,
        Some("claude"),
        false,
    );
    let body: Value = serde_json::from_str(&rendered.body).unwrap();
    assert_eq!(body["model"], "claude");
    assert_eq!(body["max_tokens"], 7);
    assert_eq!(body["tools"][0]["input_schema"]["type"], "object");
    assert_eq!(body["tools"][0]["name"], "t");
    assert!(body.get("temperature").is_none());
    let plain = render(Profile::Anthropic, &[], &vec![], "", None, false);
    let body: Value = serde_json::from_str(&plain.body).unwrap();
    assert_eq!(body["max_tokens"], ctxlog::formats::DEFAULT_MAX_TOKENS);
}
