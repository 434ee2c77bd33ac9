//! Reasoning that a provider signed.

use ctxlog::engine::{Conversation, Options, Redact, Replacement};
use ctxlog::formats::Profile;
use ctxlog::log::Message;
use serde_json::{Value, json};

use crate::support::{Says, blocks, every_cut, read_anthropic, sends, sound, view};
use crate::talk::{chat, talk};

/// A model message of reasoning, words where some are given, and calls; and as it has to be sent.
fn thinks(mark: &str, text: Option<&str>, calls: &[&str]) -> (Message, Value) {
    let mut content = vec![json!({
        "type": "thinking", "thinking": format!("about {mark}"), "signature": format!("sig {mark}"),
    })];
    content.extend(text.map(|text| json!({"type": "text", "text": text})));
    let call = |id: &&str| json!({"type": "tool_use", "id": id, "name": "tool", "input": {}});
    content.extend(calls.iter().map(call));
    let message = json!({"role": "assistant", "content": content});
    (read_anthropic(&message.to_string()), message)
}

/// The messages of the body that hold reasoning.
fn thinking(chat: &Conversation) -> Vec<Value> {
    let (messages, _) = sends(chat, Profile::Anthropic);
    let holds = |m: &Value| m.to_string().contains(r#""type":"thinking""#);
    messages.into_iter().filter(holds).collect()
}

fn what_is_signed_stays_whole_or_leaves(spec: &str) {
    let chat = chat(spec).with_summarizer(Says("They used tools."));
    let given: Vec<(Message, Value)> = (0..6)
        .map(|n| thinks(&format!("{n}"), Some("so"), &["a", "b"]))
        .collect();
    talk(&chat, "S U");
    let mut last = None;
    for (message, _) in &given {
        last = Some(chat.append(message.clone()).unwrap().message());
        for id in ["a", "b"] {
            chat.append(Message::tool(id, &"out and out ".repeat(60)))
                .unwrap();
        }
        chat.call().unwrap();
        let sent = thinking(&chat);
        let whole = |m: &Value| given.iter().any(|g| g.1 == *m);
        assert!(sent.iter().all(whole), "{spec}: {sent:?}");
        sound(&chat);
    }
    let before = thinking(&chat);
    let at = view(&chat).iter().position(|id| Some(*id) == last);
    let at = i64::try_from(at.unwrap()).unwrap();
    let one = Replacement::range(at, at + 1).in_place();
    if chat.replace(&one, Message::model("So.")).is_ok() {
        assert_eq!(thinking(&chat), before[..before.len() - 1], "{spec}");
    } else {
        // Its calls have results that would answer nothing.
        assert_eq!(thinking(&chat), before, "{spec}");
    }
    sound(&chat);
}

/// B110. A call was removed beside signed reasoning, or two turns were merged, and the signature no
/// longer held.
#[test]
fn signed_reasoning_is_sent_with_its_whole_message_or_not_at_all() {
    for spec in every_cut() {
        let chat = chat(&spec);
        let given = [
            thinks("one", None, &["a", "b"]),
            thinks("two", Some("so"), &["c"]),
            thinks("three", Some("well"), &[]),
            thinks("four", None, &["d", "e"]),
        ];
        let wire: Vec<&Value> = given.iter().map(|g| &g.1).collect();
        talk(&chat, "S U");
        for (message, results) in given.iter().map(|g| &g.0).zip(["Ra Rb", "Rc", "", "Rd"]) {
            chat.append(message.clone()).unwrap();
            talk(&chat, results);
            // `e` gets no result: its call is closed, not removed.
            chat.call().unwrap();
            let sent = thinking(&chat);
            assert!(sent.iter().all(|m| wire.contains(&m)), "{spec}: {sent:?}");
            sound(&chat);
        }
        talk(&chat, "A U A U");
        chat.call().unwrap();
        let sent = thinking(&chat);
        assert!(sent.iter().all(|m| wire.contains(&m)), "{spec}: {sent:?}");
    }
    // A summary takes it whole. What replaces results touches no message beside them, and a message in
    // another form has nothing of what was signed.
    for spec in [
        "summarize-oldest:limit=100,keep=1,measure=estimate",
        "summarize-oldest:limit=100,keep=2,measure=estimate",
        "clear-tool-results:limit=1,keep=1",
        "truncate-outputs:max=256",
    ] {
        what_is_signed_stays_whole_or_leaves(spec);
    }
    // Two in a row stay two, each with its own.
    let chat = chat("");
    talk(&chat, "U");
    let (one, two) = (
        thinks("one", Some("x"), &[]),
        thinks("two", Some("y"), &["a"]),
    );
    chat.append(one.0).unwrap();
    chat.append(two.0).unwrap();
    talk(&chat, "Ra U");
    assert_eq!(thinking(&chat), [one.1, two.1.clone()]);
    words_redacted_beside_it_take_it_out();
}

/// What was signed goes with the words of its message, and with those of a message that continues it;
/// the reasoning of other turns stays as it was.
fn words_redacted_beside_it_take_it_out() {
    for redacted in 0..3 {
        let chat = chat("");
        talk(&chat, "U");
        let turns = [
            thinks("one", Some("x"), &["a"]),
            thinks("two", Some("y"), &[]),
        ];
        let first = chat.append(turns[0].0.clone()).unwrap().message();
        talk(&chat, "Ra U");
        let second = chat.append(turns[1].0.clone()).unwrap().message();
        let more = Options {
            continues: Some(second),
            ..Options::default()
        };
        let more = chat
            .append_with(Message::model("and so on"), &more)
            .unwrap();
        talk(&chat, "U");
        let id = [first, second, more.message()][redacted];
        chat.redact(Redact::Message(id)).unwrap();
        let sent = thinking(&chat);
        if redacted == 0 {
            assert_eq!(sent.len(), 1, "{sent:?}");
            assert!(sent[0].to_string().contains("sig two"), "{sent:?}");
        } else {
            assert_eq!(sent, [turns[0].1.clone()], "{redacted}");
        }
        sound(&chat);
        let (messages, _) = sends(&chat, Profile::Anthropic);
        assert!(Value::from(messages).to_string().contains("[redacted]"));
    }
}

/// B111. Long reasoning was clipped with the rest.
#[test]
fn reasoning_is_never_shortened() {
    for long in [20_000, 200_000] {
        let mark = "\u{6f22}x \"q\" \u{1f600}".repeat(long / 10);
        let (message, wire) = thinks(&mark, Some("so"), &["a"]);
        for spec in [
            "",
            "token-budget:limit=10,keep=2",
            "sliding-window:keep=2",
            "truncate-outputs:max=256",
            "clear-tool-results:limit=1,keep=0;truncate-outputs:max=256",
        ] {
            let chat = chat(spec);
            talk(&chat, "U");
            chat.append(message.clone()).unwrap();
            chat.append(Message::tool("a", &mark)).unwrap();
            chat.call().unwrap();
            assert_eq!(thinking(&chat), std::slice::from_ref(&wire), "{spec}");
            sound(&chat);
        }
    }
}

/// B113. Calls were pruned and left a message of reasoning alone.
#[test]
fn no_turn_is_left_with_reasoning_alone() {
    let smaller = [
        "clear-tool-results:age=1,keep=0",
        "truncate-outputs:max=256",
    ];
    for spec in every_cut().into_iter().chain(smaller.map(str::to_owned)) {
        let chat = chat(&spec);
        talk(&chat, "S U");
        for (n, end) in ["Ra A U", "A", "Ra", "U", "A U A U A"].iter().enumerate() {
            let (message, _) = thinks(&n.to_string(), None, &["a"]);
            chat.append(message).unwrap();
            if let Some(rest) = end.strip_prefix("Ra") {
                let out = Message::tool("a", &"out ".repeat(200));
                chat.append(out).unwrap();
                talk(&chat, rest);
            } else {
                talk(&chat, end);
            }
            chat.call().unwrap();
            // Messages of one side in a row are one turn.
            let (messages, _) = sends(&chat, Profile::Anthropic);
            for turn in messages.chunk_by(|a, b| a["role"] == b["role"]) {
                let other = |(_, b): &(&str, &Value)| b["type"] != "thinking";
                assert!(blocks(turn).iter().any(other), "{spec}: {turn:?}");
            }
        }
        sound(&chat);
    }
}
