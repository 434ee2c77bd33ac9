//! The live loop from a shell.

use super::shapes::{Appended, PinDone, Window};
use super::support::{Place, calling};

#[test]
fn a_conversation_begins_with_its_first_message() {
    let place = Place::new();
    place
        .run(&["append", "--text", "x", "--json"])
        .failed(2, "which-conversation");
    let first: Appended = place
        .run(&["append", "-c", "a", "--text", "x", "--json"])
        .done()
        .json();
    assert_eq!(
        (first.message.as_str(), first.seq, first.repeated),
        ("m1", 1, false)
    );
    let next: Appended = place
        .feed(&["append", "--json"], &calling("find"))
        .done()
        .json();
    assert_eq!(
        (next.conversation.as_str(), next.message.as_str()),
        ("a", "m2")
    );
}

#[test]
fn results_and_words_of_one_message_become_two() {
    let place = Place::new();
    place.run(&["append", "-c", "a", "--text", "x"]).done();
    let block = |t: &str| format!(r#"{{"type":"{t}""#);
    let call = format!(
        r#"{{"role":"assistant","content":[{},"id":"t1","name":"f","input":{{}}}}]}}"#,
        block("tool_use")
    );
    place.feed(&["append"], &call).done();
    let both = format!(
        r#"{{"role":"user","content":[{},"tool_use_id":"t1","content":"r"}},{},"text":"and?"}}]}}"#,
        block("tool_result"),
        block("text")
    );
    let done: Appended = place.feed(&["append", "--json"], &both).done().json();
    assert_eq!(done.messages, ["m3", "m4"]);
    let body: serde_json::Value = place
        .run(&["window", "--format", "anthropic", "--as-is"])
        .done()
        .json();
    assert_eq!(
        body["messages"][2],
        serde_json::from_str::<serde_json::Value>(&both).unwrap()
    );
}

#[test]
fn a_call_gives_the_body_and_a_report_belongs_to_it() {
    let place = Place::furnished();
    let run = place
        .run(&["call", "--format", "openai-chat", "--model", "gpt-4.1"])
        .done();
    assert_eq!(run.json::<serde_json::Value>()["model"], "gpt-4.1");
    let window: Window = place.run(&["call", "--json"]).done().json();
    assert_eq!(
        window.recorded_digest.as_deref(),
        Some(window.digest.as_str())
    );
    let usage = r#"{"usage":{"prompt_tokens":10,"completion_tokens":2}}"#;
    let told: serde_json::Value = place.feed(&["report", "--json"], usage).done().json();
    assert_eq!(told["call"].as_u64(), Some(window.at.seq));
    place
        .run(&["report", "--call", "it:1", "--failure", "overloaded"])
        .done();
    let newest: serde_json::Value = place.run(&["show", "@", "--json"]).done().json();
    assert_eq!(
        (
            newest["body"]["failed"].as_bool(),
            newest["content"]["failure"].as_str()
        ),
        (Some(true), Some("overloaded"))
    );
    place
        .feed(&["report", "--json"], "{}")
        .failed(2, "invalid-usage");
    place
        .run(&["report", "--call", "s:1", "--input", "3", "--json"])
        .failed(1, "nothing-matches");
    place
        .run(&["report", "--call", "it:99", "--input", "3", "--json"])
        .failed(1, "range-out-of-bounds");
}

#[test]
fn a_key_writes_once_and_an_expected_head_is_held_to() {
    let place = Place::furnished();
    let keyed = ["append", "--text", "hello", "--key", "k", "--json"];
    let first: Appended = place.run(&keyed).done().json();
    let again: Appended = place.run(&keyed).done().json();
    assert!(again.repeated && again.seq == first.seq && again.head == first.head);
    place
        .run(&["append", "--text", "other", "--key", "k", "--json"])
        .failed(4, "idempotency-conflict");
    place
        .run(&["append", "--text", "late", "--expect", "s:2", "--json"])
        .failed(4, "stale-head");
    place
        .run(&["append", "--text", "late", "--expect", "head"])
        .failed(2, "invalid-selector");
    let head = format!("s:{}", first.head.seq);
    place
        .run(&["append", "--text", "in time", "--expect", &head])
        .done();
}

#[test]
fn a_chain_that_is_set_stays() {
    let place = Place::furnished();
    place
        .run(&["call", "--strategy", "sliding-window:keep=2"])
        .done();
    place
        .run(&["call", "--strategy", "head-tail", "--json"])
        .failed(4, "policy-conflict");
    place
        .run(&["call", "--strategy", "no-such", "--json"])
        .failed(2, "invalid-option");
    place
        .run(&["call", "--strategy", "token-budget", "--json"])
        .failed(2, "invalid-option");
}

#[test]
fn what_is_no_message_is_refused_and_nothing_is_created() {
    let place = Place::new();
    for input in ["", "not json", "[]", "{\"content\":\"x\"}", "{\"role\":7}"] {
        place
            .feed(&["append", "-c", "a", "--json"], input)
            .failed(2, "invalid-message");
    }
    assert!(!place.store().exists());
}

#[test]
fn a_pin_keeps_a_message_until_it_is_taken_away() {
    let place = Place::new();
    for text in ["one", "two", "three"] {
        let said = ["append", "-c", "a", "--role", "assistant", "--text", text];
        place.run(&said).done();
    }
    let pinned: PinDone = place.run(&["pin", "m1", "--json"]).done().json();
    assert_eq!((pinned.message.as_str(), pinned.pinned), ("m1", true));
    assert_eq!(pinned.head.seq, pinned.seq);
    place
        .run(&["pin", "m1", "--json"])
        .failed(1, "nothing-matches");
    place
        .run(&["pin", "it:1", "--json"])
        .failed(2, "invalid-selector");
    let strategy = ["call", "--strategy", "sliding-window:keep=1", "--json"];
    place.run(&strategy).done();
    let window: Window = place.run(&["window", "--json"]).done().json();
    let kept: Vec<_> = window
        .messages
        .iter()
        .map(|m| (m.id.as_str(), m.pinned))
        .collect();
    assert_eq!(kept, [("m1", true), ("m3", false)]);
    let told = place.run(&["why", "m1"]).done().out;
    assert!(
        told.contains("pinned: A person or the application pinned it"),
        "{told}"
    );
    let unpinned: PinDone = place.run(&["unpin", "m1", "--json"]).done().json();
    assert!(!unpinned.pinned);
    let log = place.run(&["log"]).done().out;
    assert!(
        log.contains("m1 pinned") && log.contains("m1 unpinned"),
        "{log}"
    );
    place.run(&["call"]).done();
    let window: Window = place.run(&["window", "--json"]).done().json();
    assert_eq!(window.messages.len(), 1);
    place
        .run(&["unpin", "m1", "--json"])
        .failed(1, "nothing-matches");
}

#[test]
fn a_cut_output_is_told_and_can_be_brought_back() {
    let place = Place::new();
    place.run(&["append", "-c", "a", "--text", "x"]).done();
    place.feed(&["append"], &calling("find")).done();
    let long = "row of output ".repeat(60);
    let result = ["append", "--result-of", "call_0", "--text", &long];
    place.run(&result).done();
    let chain = [
        "--strategy",
        "truncate-outputs:max=400",
        "--strategy",
        "agentfootprint:keep=4",
    ];
    place
        .run(&[&["call", "--json"][..], &chain].concat())
        .done();
    let show = place.run(&["show", "s:5"]).done().out;
    assert!(
        show.contains("replace") && show.contains("bytes cut]"),
        "{show}"
    );
    assert!(show.contains("from m3 on"), "{show}");
    let why = place.run(&["why", "m3"]).done().out;
    assert!(why.contains("form     it:1  s:5  replaced"), "{why}");
    let status: serde_json::Value = place.run(&["status", "--json"]).done().json();
    let pressure = &status["pressure"][0];
    assert_eq!(pressure["strategy"], "truncate-outputs:max=400,unit=bytes");
    assert_eq!(
        (&pressure["overflow"], &pressure["outcome"]),
        (&1.into(), &"done".into())
    );
    place.run(&["restore", "s:5"]).done();
    let window = place.run(&["window", "--format", "text"]).done().out;
    assert!(window.contains(long.trim()), "{window}");
    place.run(&["verify"]).done();
}

#[test]
fn a_namespace_has_names_of_its_own() {
    let place = Place::new();
    let of = |namespace: &'static str, words: &[&'static str]| {
        let scope = ["--namespace", namespace];
        place.run(&[words, &scope].concat())
    };
    let say = ["append", "-c", "a", "--text", "x"];
    of("acme", &say).done();
    of(r"acme:eu\:west", &say).done();
    place
        .run(&["status", "-c", "a"])
        .failed(2, "which-conversation");
    place.run(&say).done();
    place.run(&["status", "-c", "a"]).done();
    let lines = |ran: super::support::Ran| ran.done().out.lines().count();
    assert_eq!(lines(place.run(&["ls", "--json"])), 3);
    assert_eq!(lines(of("acme", &["ls", "--json"])), 2);
    assert_eq!(lines(of(r"acme:eu\:west", &["ls", "--json"])), 1);
    let listed = place.run(&["ls"]).done().out;
    assert!(listed.contains("acme") && listed.contains(r"acme:eu\:west"));
    let (message, _) = place.run(&["status"]).failed(2, "which-conversation");
    assert!(message.contains(r"a  in acme:eu\:west"), "{message}");
    of("other", &["status", "-c", "a"]).failed(1, "nothing-matches");
    of(":acme", &["ls"]).failed(2, "usage");
}
