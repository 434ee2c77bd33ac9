//! Conversations in files of their own that belong to one another: forks and sub-agents.

use ctxlog::audit;
use ctxlog::engine::{Conversation, Imported, Store};
use ctxlog::formats::{Begins, Format, Starter, Transcript};
use ctxlog::log::{Body, MessageId};
use ctxlog::strategy::parse;
use proptest::prelude::*;

fn read(format: &str, name: &str, text: &str) -> Transcript {
    let format = Format::from_name(format).unwrap();
    let mut read = format.read(&mut text.as_bytes(), name, 1 << 20).unwrap();
    assert_eq!(read.len(), 1, "{read:?}");
    read.remove(0)
}

/// Imports a session under its id, among those that the store holds.
fn import(store: &Store, transcript: &Transcript, specs: &[&str]) -> Imported {
    let named = |id: &str| store.existing(id).is_ok().then(|| id.to_owned());
    let chain = specs.iter().map(|spec| parse(spec).unwrap()).collect();
    let name = transcript.id.as_deref().unwrap();
    store
        .import_among(&named, name, transcript.clone(), chain, &mut |_| {})
        .unwrap()
}

fn verifies(store: &Store) {
    for listed in store.list().unwrap() {
        let verified = audit::verify(store, &listed, &mut |_, _| {}).unwrap();
        assert!(verified.ok, "{verified:?}");
    }
}

fn said(chat: &Conversation) -> Vec<String> {
    let items = chat.load(chat.window().unwrap()).unwrap().items;
    items.iter().map(|item| item.message.words()).collect()
}

/// A Codex session: its own record, then what others wrote at that hour, a letter each. Those in capitals
/// are the model's.
fn session(record: &str, hour: u32, letters: &[&str]) -> Transcript {
    let line = |kind: &str, payload: &str| {
        let at = format!("2026-01-02T{hour:02}:00:00Z");
        format!("{{\"timestamp\":\"{at}\",\"type\":\"{kind}\",\"payload\":{payload}}}\n")
    };
    let mut lines = vec![line("session_meta", record)];
    for letter in letters {
        let by_model = letter.chars().all(char::is_uppercase);
        let (role, kind) = if by_model {
            ("assistant", "output_text")
        } else {
            ("user", "input_text")
        };
        let item = format!(
            r#"{{"type":"message","role":"{role}","content":[{{"type":"{kind}","text":"{letter}"}}]}}"#
        );
        lines.push(line("response_item", &item));
        let event = format!(r#"{{"type":"agent_message","message":"{letter}"}}"#);
        lines.push(line("event_msg", &event));
    }
    let text = lines.concat();
    read("codex-rollout", "f", &text)
}

const LEFT: &str = r#"{"id":"a"}"#;
const FORKED: &str = r#"{"id":"b","forked_from_id":"a"}"#;

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// A fork shares what both begin with, however long that is; the rest is its own.
    #[test]
    fn a_forked_session_shares_what_its_file_tells_again(
        shared in prop::collection::vec(prop::sample::select(&["x", "Y"][..]), 0..5),
        left in prop::collection::vec(prop::sample::select(&["l", "L"][..]), 0..4),
        own in prop::collection::vec(prop::sample::select(&["o", "O"][..]), 0..4),
        more in prop::collection::vec(prop::sample::select(&["m", "M"][..]), 0..3),
        replayed in any::<bool>(),
    ) {
        let specs: &[&str] = if replayed { &["sliding-window:keep=100"] } else { &[] };
        let store = Store::in_memory();
        let parent = session(LEFT, 1, &[shared.clone(), left.clone()].concat());
        let all = [shared.clone(), own].concat();
        let fork = session(FORKED, 2, &all);
        import(&store, &parent, specs);
        let before = store.existing("a").unwrap().head().unwrap();
        let imported = import(&store, &fork, specs);
        let chat = store.existing("b").unwrap();
        prop_assert_eq!(said(&chat), all.clone());
        let point = chat.forked().unwrap();
        prop_assert_eq!(point.is_some(), !shared.is_empty());
        prop_assert_eq!(imported.warnings.len(), usize::from(shared.is_empty()));
        if let Some(point) = point {
            let parent = store.existing("a").unwrap();
            prop_assert_eq!(point.parent, parent.id());
            prop_assert_eq!(said(&parent), [shared.clone(), left.clone()].concat());
            let then = parent.load_after(point.at).unwrap().items;
            prop_assert_eq!(then.len(), shared.len());
        }
        prop_assert_eq!(store.existing("a").unwrap().head().unwrap(), before);

        // Both grow, the parent first; what is there stays.
        prop_assert_eq!(import(&store, &fork, specs).added, 0);
        let grown = session(LEFT, 1, &[shared, left, vec!["g"]].concat());
        prop_assert!(import(&store, &grown, specs).added > 0);
        prop_assert_eq!(import(&store, &fork, specs).added, 0);
        let all = [all, more].concat();
        import(&store, &session(FORKED, 2, &all), specs);
        prop_assert_eq!(said(&store.existing("b").unwrap()), all);
        verifies(&store);
    }
}

/// The records that sessions have of themselves are kept with the fork: its own, and what it names.
#[test]
fn a_fork_keeps_its_own_record() {
    let store = Store::in_memory();
    import(&store, &session(LEFT, 1, &["x", "Y"]), &[]);
    import(&store, &session(FORKED, 2, &["x", "Y", "o"]), &[]);
    let chat = store.existing("b").unwrap();
    let at = chat.forked().unwrap().unwrap().at;
    let (mut notes, mut seq) = (Vec::new(), at.next());
    while seq <= chat.head().unwrap().unwrap().seq {
        if let Body::Noted(noted) = chat.entry(seq).unwrap().body {
            let text = chat.text(seq, 0).unwrap().unwrap().0;
            notes.push((noted.what, text));
        }
        seq = seq.next();
    }
    assert_eq!(notes[0].0, "session_meta");
    assert!(notes[0].1.contains("forked_from_id"), "{notes:?}");
}

#[test]
fn a_fork_without_the_session_it_left_begins_by_itself_and_says_so() {
    let store = Store::in_memory();
    let imported = import(&store, &session(FORKED, 2, &["x", "Y"]), &[]);
    assert_eq!(said(&store.existing("b").unwrap()), ["x", "Y"]);
    let [warning] = &imported.warnings[..] else {
        panic!("{:?}", imported.warnings);
    };
    assert_eq!(
        (warning.place.as_str(), warning.what.as_str()),
        (
            "b",
            "it was forked from 'a', which was not imported with it; it begins by itself"
        )
    );
    // It stays so when the other comes later.
    import(&store, &session(LEFT, 1, &["x"]), &[]);
    assert_eq!(
        import(&store, &session(FORKED, 2, &["x", "Y"]), &[]).added,
        0
    );
    assert_eq!(store.existing("b").unwrap().forked().unwrap(), None);
}

/// A result behind the fork point stays with the one that has it; the other's call is answered as
/// interrupted, until its own file has the result.
#[test]
fn a_fork_within_a_call_has_its_own_result() {
    let line =
        |kind: &str, payload: &str| format!("{{\"type\":\"{kind}\",\"payload\":{payload}}}\n");
    let call = r#"{"type":"function_call","name":"f","arguments":"{}","call_id":"c"}"#;
    let result = |text: &str| {
        let output =
            format!(r#"{{"type":"function_call_output","call_id":"c","output":"{text}"}}"#);
        line("response_item", &output)
    };
    let user = r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"go"}]}"#;
    let begun = line("response_item", user) + &line("response_item", call);
    let left = line("session_meta", LEFT) + &begun + &result("one");
    let fork = line("session_meta", FORKED) + &begun + &result("two");
    let store = Store::in_memory();
    import(&store, &read("codex-rollout", "f", &left), &[]);
    let fork = read("codex-rollout", "f", &fork);
    import(&store, &fork, &[]);
    assert_eq!(import(&store, &fork, &[]).added, 0);
    let last = |name: &str| said(&store.existing(name).unwrap()).pop().unwrap();
    assert_eq!((last("a"), last("b")), ("one".to_owned(), "two".to_owned()));
    verifies(&store);
}

/// A session that called for a sub-agent, and what the call's result says of the agent.
fn spawning(output: &str) -> Transcript {
    let output = serde_json::Value::from(output);
    let text = format!(
        r#"{{"type":"session_meta","payload":{{"id":"t"}}}}
{{"type":"response_item","payload":{{"type":"function_call","name":"f","arguments":"{{}}","call_id":"other"}}}}
{{"type":"response_item","payload":{{"type":"function_call_output","call_id":"other","output":"{{}}"}}}}
{{"type":"response_item","payload":{{"type":"function_call","name":"spawn_agent","arguments":"{{}}","call_id":"c"}}}}
{{"type":"response_item","payload":{{"type":"function_call_output","call_id":"c","output":{output}}}}}
"#
    );
    read("codex-rollout", "f", &text)
}

/// What the tool call that started an agent is called by its provider.
fn started_by(store: &Store, agent: &str) -> Option<(String, String)> {
    let (by, message, part) = store.existing(agent).unwrap().started_by().unwrap()?;
    let mut listed = store.list().unwrap().into_iter();
    let listed = listed.find(|listed| listed.conversation == by).unwrap();
    let name = listed.name.name.clone();
    let chat = store.by_id(listed).unwrap();
    let called = chat.with_projection(|p| {
        let skeleton = p.message(MessageId(message)).unwrap().skeleton().cloned();
        skeleton.unwrap().parts[part as usize].label.clone()
    });
    Some((name, called.unwrap().unwrap()))
}

#[test]
fn a_codex_agent_that_does_not_say_the_call_is_known_by_the_result() {
    let spawn = |more: &str| {
        let meta = format!(
            r#"{{"type":"session_meta","payload":{{"id":"x","source":{{"subagent":{{"thread_spawn":{{"parent_thread_id":"t"{more}}}}}}}}}}}
{{"type":"response_item","payload":{{"type":"message","role":"user","content":[{{"type":"input_text","text":"Look."}}]}}}}
"#
        );
        read("codex-rollout", "f", &meta)
    };
    let path = r#","agent_path":"/main/look""#;
    let by = |name: &str| Some(("t".to_owned(), name.to_owned()));
    for (output, more, expected) in [
        (r#"{"agent_id":"x","nickname":"Ada"}"#, "", by("c")),
        (r#"{"task_name":"look"}"#, path, by("c")),
        (r#"{"task_name":"/main/look"}"#, path, by("c")),
        (r#"{"agent_id":"y"}"#, "", None),
        ("x", "", None),
        (
            r#"{"agent_id":"x"}"#,
            r#","spawn_call_id":"other""#,
            by("other"),
        ),
    ] {
        let store = Store::in_memory();
        import(&store, &spawning(output), &[]);
        import(&store, &spawn(more), &[]);
        assert_eq!(started_by(&store, "x"), expected, "{output} {more}");
        verifies(&store);
    }
}

#[test]
fn a_gemini_agent_lies_in_the_folder_of_its_session() {
    let text = |id: &str, more: &str, messages: &str| {
        format!(
            "{{\"sessionId\":\"{id}\",\"projectHash\":\"p\",\"startTime\":\"s\"{more}}}\n{messages}"
        )
    };
    let answer = r#"{"id":"2","type":"gemini","content":"","toolCalls":[
 {"id":"other","name":"ls","args":{},"status":"success","result":[{"functionResponse":{"id":"other","name":"ls","response":{}}}]},
 {"id":"c","name":"look","args":{},"status":"success","agentId":"x7","result":[{"functionResponse":{"id":"c","name":"look","response":{}}}]}]}"#;
    let go = r#"{"id":"1","type":"user","content":"go"}"#;
    let main = text("s-1", "", &format!("{go}\n{}\n", answer.replace('\n', "")));
    let agent = text("x7", r#","kind":"subagent""#, &format!("{go}\n"));
    let alone = read("gemini-cli", "x7.jsonl", &agent);
    assert_eq!(alone.begins, Begins::Own, "its session is not said");
    let agent = read("gemini-cli", "tmp/p/chats/s-1/x7.jsonl", &agent);
    let (by, call) = ("s-1".to_owned(), Starter::Agent(vec!["x7".to_owned()]));
    assert_eq!(agent.begins, Begins::Started { by, call });
    let store = Store::in_memory();
    import(
        &store,
        &read("gemini-cli", "tmp/p/chats/m.jsonl", &main),
        &[],
    );
    import(&store, &agent, &[]);
    let by = ("s-1".to_owned(), "c".to_owned());
    assert_eq!(started_by(&store, "x7"), Some(by));
}
