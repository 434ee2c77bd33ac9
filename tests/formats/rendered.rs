//! Laws of what is sent to OpenAI Responses and to Mistral, over every recorded file and over
//! conversations that are drawn.

use ctxlog::audit::Selector;
use ctxlog::engine::Store;
use ctxlog::formats::lint::lint;
use ctxlog::formats::{Link, Profile, Step, mistral_chat, openai_responses};
use ctxlog::log::{Fields, Json, Message, Role};
use proptest::prelude::*;
use serde_json::Value;

use super::common::{Log, has_own_call, log_of, settings};
use super::driver::{draw, each, hard, is_legal, list, own, some_of};

const OWN: [Profile; 2] = [Profile::OpenAiResponses, Profile::Mistral];

#[test]
fn as_is_gives_recorded_requests_back() {
    for profile in OWN {
        let mut compared = 0;
        each(profile, |record, transcript, place| {
            let Some(request) = record.get("request") else {
                return;
            };
            let log = log_of(transcript, false);
            let settings = settings(transcript);
            let (rendered, body) = draw(profile, &log.items(), &settings, transcript.format, true);
            assert_eq!(&body, request, "{place}");
            assert_eq!(rendered.repairs, [], "{place}");
            compared += 1;
        });
        println!("{profile:?}: {compared} requests");
    }
}

#[test]
fn the_window_of_a_recorded_call_is_its_request() {
    for profile in OWN {
        each(profile, |record, transcript, place| {
            let Some(request) = record.get("request") else {
                return;
            };
            let store = Store::in_memory();
            let named = |id: &str| Some(id.to_owned());
            store
                .import_among(&named, "c", transcript.clone(), vec![], &mut |_| {})
                .unwrap_or_else(|error| panic!("{place}: {error}"));
            let chat = store.existing("c").unwrap();
            let called = |step: &&Step| matches!(step, Step::Called { .. });
            let calls = transcript.steps.iter().filter(called).count();
            let own = has_own_call(transcript);
            let at = if own {
                format!("it:{calls}")
            } else {
                "@".to_owned()
            };
            let at: Selector = at.parse().unwrap();
            let at = at.resolve(&chat).unwrap().seq;
            let rendered = chat.load_after(at).unwrap().render(profile, true);
            let body: Value = serde_json::from_str(&rendered.body).unwrap();
            assert_eq!(&body, request, "{place}");
        });
    }
}

#[test]
fn as_is_gives_recorded_answers_back() {
    each(Profile::OpenAiResponses, |record, transcript, place| {
        let response = record.get("response").unwrap_or(record);
        let Some(output) = response.get("output").and_then(Value::as_array) else {
            return;
        };
        // What the provider put in the place of all before is filed as that.
        if output.iter().any(|item| item["type"] == "compaction") {
            return;
        }
        let log = log_of(transcript, true);
        let (rendered, body) = own(Profile::OpenAiResponses, &log, true);
        assert!(list(&body).ends_with(output), "{place}");
        assert_eq!(rendered.repairs, [], "{place}");
    });
    each(Profile::Mistral, |record, transcript, place| {
        let Some(answer) = record["response"].pointer("/choices/0/message") else {
            return;
        };
        let (rendered, body) = own(Profile::Mistral, &log_of(transcript, true), true);
        assert_eq!(list(&body).last(), Some(answer), "{place}");
        assert_eq!(rendered.repairs, [], "{place}");
    });
}

/// What lint calls soft and rendering takes care of all the same.
fn is_minded(problem: &ctxlog::formats::Problem) -> bool {
    problem.hard || (problem.rule == "R1" && problem.message.starts_with("a further output"))
}

fn changes_only_what_is_broken(
    profile: Profile,
    log: &Log,
    settings: &Fields,
) -> Result<bool, TestCaseError> {
    let (_, as_is) = draw(profile, &log.items(), settings, profile.name(), true);
    let (rendered, repaired) = draw(profile, &log.items(), settings, profile.name(), false);
    prop_assert_eq!(hard(profile, &repaired), Vec::<String>::new());
    let broken = lint(profile, &as_is).iter().any(is_minded);
    // An item whose turn begins outside the window may lack its reasoning, which no body shows.
    let severed = rendered.repairs.iter().any(|repair| repair.rule == "R5");
    if !broken && !severed {
        prop_assert_eq!(&rendered.repairs, &vec![]);
        prop_assert_eq!(&repaired, &as_is);
    } else {
        prop_assert!(!rendered.repairs.is_empty());
    }
    Ok(!broken)
}

#[test]
fn recorded_requests_are_repaired_where_they_are_broken_and_only_there() {
    for profile in OWN {
        each(profile, |_, transcript, place| {
            for whole in [false, true] {
                let log = log_of(transcript, whole);
                let done = changes_only_what_is_broken(profile, &log, &settings(transcript));
                done.unwrap_or_else(|error| panic!("{place}: {error}"));
            }
        });
    }
}

/// Items and messages of one turn, or a single odd one.
fn episode(
    usual: &'static [&'static [&'static str]],
    odd: &'static [&'static str],
) -> impl Strategy<Value = Vec<&'static str>> {
    prop_oneof![
        9 => prop::sample::select(usual).prop_map(<[&str]>::to_vec),
        1 => prop::sample::select(odd).prop_map(|one| vec![one]),
    ]
}

const RESPONSES: &[&[&str]] = &[
    &[r#"{"role":"user","content":"hi"}"#],
    &[r#"{"role":"developer","tools":[],"type":"additional_tools"}"#],
    &[r#"{"type":"message","role":"system","content":[{"type":"input_text","text":""}]}"#],
    &[r#"{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}"#],
    &[
        r#"{"type":"message","id":"msg_ID","role":"assistant","status":"completed","content":[{"type":"output_text","text":"so","annotations":[]}]}"#,
    ],
    &[
        r#"{"type":"reasoning","id":"rs_ID","summary":[],"encrypted_content":"sealed"}"#,
        r#"{"type":"message","id":"msg_rID","role":"assistant","content":[{"type":"output_text","text":"so"}]}"#,
        r#"{"type":"function_call","id":"fc_ID","call_id":"call_ID","name":"f","arguments":"{ }"}"#,
        r#"{"type":"custom_tool_call","id":"ctc_ID","call_id":"cust_ID","name":"g","input":"x"}"#,
        r#"{"type":"custom_tool_call_output","call_id":"cust_ID","output":"1"}"#,
        r#"{"type":"function_call_output","call_id":"call_ID","output":[{"type":"input_text","text":"2"}]}"#,
    ],
    &[
        r#"{"type":"reasoning","id":"rs_ID","summary":[{"type":"summary_text","text":"hm"}],"content":null}"#,
        r#"{"type":"web_search_call","id":"ws_ID","status":"completed","action":{"type":"search"}}"#,
        r#"{"type":"message","id":"msg_wID","role":"assistant","content":[]}"#,
    ],
    &[
        r#"{"type":"reasoning","summary":[],"encrypted_content":"sealed"}"#,
        r#"{"type":"local_shell_call","id":"lsh_ID","call_id":"sh_ID","action":{"type":"exec"}}"#,
        r#"{"type":"local_shell_call_output","id":"sh_ID","output":"ok"}"#,
    ],
    &[
        r#"{"type":"computer_call","id":"cu_ID","call_id":"cua_ID","action":{"type":"click"}}"#,
        r#"{"type":"computer_call_output","call_id":"cua_ID","output":{"type":"computer_screenshot"}}"#,
    ],
    &[
        r#"{"type":"tool_search_call","call_id":"ts_ID","execution":"server","arguments":{}}"#,
        r#"{"type":"function_call_output","call_id":"ts_ID","output":"found"}"#,
    ],
    &[
        r#"{"type":"tool_search_call","call_id":"tc_ID","execution":"client","arguments":{}}"#,
        r#"{"type":"tool_search_output","call_id":"tc_ID","execution":"client","tools":[]}"#,
    ],
    &[r#"{"type":"compaction","id":"cmp_ID","encrypted_content":"sealed"}"#],
];
const RESPONSES_ODD: &[&str] = &[
    r#"{"type":"reasoning","id":"rs_same","summary":[]}"#,
    r#"{"type":"message","id":"msg_same","role":"assistant","content":"k"}"#,
    r#"{"type":"function_call","id":"x","call_id":"same","name":"f","arguments":"{}"}"#,
    r#"{"type":"function_call","call_id":"same","name":"f"}"#,
    r#"{"type":"function_call","call_id":"same"}"#,
    r#"{"type":"function_call_output","call_id":"same","output":"x"}"#,
    r#"{"type":"function_call_output","output":null}"#,
    r#"{"type":"computer_call","call_id":"c","action":{"type":"click"}}"#,
    r#"{"type":"shell_call","id":"sh","action":"ls"}"#,
    r#"{"type":"apply_patch_call","call_id":"p","operation":{}}"#,
    r#"{"type":"tool_search_call","call_id":"same","execution":"server","arguments":{}}"#,
    r#"{"type":"of_tomorrow_call","call_id":"t"}"#,
    r#"{"type":"of_tomorrow_call_output","call_id":"t_ID"}"#,
    r#"{"type":"item_reference","id":"msg_same"}"#,
    r#"{"role":"tool","content":"x"}"#,
    r#"{"content":"x"}"#,
    r#"{"role":"assistant","content":5,"id":"a","id":"b"}"#,
];
const MISTRAL: &[&[&str]] = &[
    &[r#"{"role":"user","content":"hi"}"#],
    &[
        r#"{"role":"user","content":[{"type":"document_url","document_url":"https://x"}]}"#,
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"so"}],"tool_calls":[],"prefix":false}"#,
    ],
    &[
        r#"{"role":"assistant","content":[],"tool_calls":[{"id":"aaaaaaaID","index":0,"type":"function","function":{"name":"f","arguments":"{}"}},{"id":"bbbbbbbID","function":{"name":"f","arguments":{}}}]}"#,
        r#"{"role":"tool","tool_call_id":"bbbbbbbID","name":"f","content":[]}"#,
        r#"{"role":"tool","tool_call_id":"aaaaaaaID","content":null}"#,
        r#"{"role":"assistant","content":"k"}"#,
    ],
];
const MISTRAL_ODD: &[&str] = &[
    r#"{"role":"system","content":"s"}"#,
    r#"{"role":"system","content":null}"#,
    r#"{"role":"developer","content":"s"}"#,
    r#"{"role":"odd","content":"s"}"#,
    r#"{"role":"assistant","content":"go on","prefix":true}"#,
    r#"{"role":"assistant","content":""}"#,
    r#"{"role":"assistant","content":null,"reasoning_content":"hm"}"#,
    r#"{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}"#,
    r#"{"role":"function","name":"f","content":"x"}"#,
    r#"{"role":"assistant","content":"","tool_calls":[5]}"#,
    r#"{"role":"assistant","tool_calls":[{"id":"null","function":{"name":"a.b","arguments":"{}"}}]}"#,
    r#"{"role":"user","content":"x","tool_calls":[{"id":"aaaaaaa00","function":{"name":"f","arguments":"{}"}}]}"#,
    r#"{"role":"tool","tool_call_id":"null","content":"x"}"#,
    r#"{"role":"tool","content":"x"}"#,
];

/// Turns of a profile's own format, with ids of their own.
fn turns(profile: Profile) -> BoxedStrategy<Vec<Vec<Message>>> {
    let episode = match profile {
        Profile::OpenAiResponses => episode(RESPONSES, RESPONSES_ODD).boxed(),
        _ => episode(MISTRAL, MISTRAL_ODD).boxed(),
    };
    let read = move |text: &str, n: usize| {
        let json = Json(text.replace("ID", &format!("{n:02}")));
        let read = match profile {
            Profile::OpenAiResponses => openai_responses::read_item(&json),
            _ => mistral_chat::read_message(&json),
        };
        read.unwrap()
    };
    let turns = prop::collection::vec(episode, 0..7);
    turns
        .prop_map(move |turns| {
            let turn = |(n, turn): (usize, &Vec<&str>)| turn.iter().map(|m| read(m, n)).collect();
            turns.iter().enumerate().map(turn).collect()
        })
        .boxed()
}

/// The turns as a log: what the model wrote of a turn continues its first item.
fn logged(turns: &[Vec<Message>], profile: Profile) -> Log {
    let mut log = Log::default();
    for turn in turns {
        let mut head = None;
        for message in turn {
            let by_model = message.role == Role::Assistant && profile == Profile::OpenAiResponses;
            let link = head
                .filter(|_| by_model)
                .map_or(Link::None, Link::Continues);
            let at = log.messages.len();
            head = by_model.then(|| head.unwrap_or(at));
            log.push(message.clone(), link);
        }
    }
    log
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_changed_where_no_rule_is_broken(
        responses in turns(Profile::OpenAiResponses),
        mistral in turns(Profile::Mistral),
        chained in any::<bool>(),
    ) {
        let chain = ("previous_response_id".to_owned(), Json("\"resp_1\"".into()));
        let settings = if chained { vec![chain] } else { vec![] };
        let log = logged(&responses, Profile::OpenAiResponses);
        changes_only_what_is_broken(Profile::OpenAiResponses, &log, &settings)?;
        let log = logged(&mistral, Profile::Mistral);
        changes_only_what_is_broken(Profile::Mistral, &log, &vec![])?;
    }

    #[test]
    fn any_part_of_a_conversation_renders_legally_for_all(
        responses in turns(Profile::OpenAiResponses),
        mistral in turns(Profile::Mistral),
        seed in any::<u64>(),
    ) {
        for (turns, profile) in [(responses, Profile::OpenAiResponses), (mistral, Profile::Mistral)] {
            let log = logged(&turns, profile);
            for to in Profile::ALL.iter().copied() {
                is_legal(to, &some_of(&log.items(), seed), profile.name(), "drawn");
                is_legal(to, &log.items(), profile.name(), "drawn");
            }
        }
    }

    #[test]
    fn an_item_keeps_its_id_only_with_the_reasoning_that_it_came_of(
        turns in turns(Profile::OpenAiResponses),
        seed in any::<u64>(),
    ) {
        let log = logged(&turns, Profile::OpenAiResponses);
        let some = some_of(&log.items(), seed);
        let (_, body) = draw(Profile::OpenAiResponses, &some, &vec![], openai_responses::FORMAT, false);
        let ids = |items: &[Value]| {
            let ids = items.iter().filter_map(|item| item["id"].as_str());
            ids.map(str::to_owned).collect::<Vec<_>>()
        };
        let sent = ids(&list(&body));
        for (n, turn) in turns.iter().enumerate().filter(|(_, turn)| turn.len() > 1) {
            let source = |m: &Message| m.source.as_ref().and_then(|s| s.id.clone());
            let turn: Vec<String> = turn.iter().filter_map(source).collect();
            let reasoning = format!("rs_{n:02}");
            let kept = turn.iter().any(|id| sent.contains(id));
            prop_assert!(
                !kept || !turn.contains(&reasoning) || sent.contains(&reasoning),
                "{:#}", body
            );
        }
    }

    #[test]
    fn a_window_that_grew_at_its_end_begins_with_the_messages_it_had(
        responses in turns(Profile::OpenAiResponses),
        mistral in turns(Profile::Mistral),
    ) {
        for (turns, profile) in [(responses, Profile::OpenAiResponses), (mistral, Profile::Mistral)] {
            let (long, body) = own(profile, &logged(&turns, profile), false);
            for end in 1..turns.len() {
                let (short, before) = own(profile, &logged(&turns[..end], profile), false);
                if short.repairs == long.repairs {
                    prop_assert!(list(&body).starts_with(&list(&before)), "{before:#}\n{body:#}");
                }
            }
        }
    }
}
