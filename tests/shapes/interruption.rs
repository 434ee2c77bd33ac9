//! Interruptions, parts of replies, going on after them.

use std::sync::Arc;

use ctxlog::engine::Store;
use ctxlog::formats::Profile;
use ctxlog::log::{
    Author, Message, MessageId, OpenCalls, Part, PartBody, Provenance, RequestReason, Role, Shape,
};
use ctxlog::store::Level;

use crate::failing::Failing;
use crate::support::{
    PROFILES, blocks, import_into, logged, says, sends, sound, taken_elsewhere, view, words,
};
use crate::talk::{chat, message, reason, talk, there};

/// B23. Each try that was broken off left a call open for ever, and each new try added more.
#[test]
fn tries_that_were_broken_off_leave_no_call_open() {
    let chat = chat("");
    let request = talk(&chat, "U")[0];
    let mut closed = Vec::new();
    for _ in 0..100 {
        let call = chat.call().unwrap();
        closed.extend(call.closed);
        chat.report(call.id, None, Some("aborted"), None).unwrap();
        talk(&chat, "Ac,c,c");
    }
    closed.extend(chat.call().unwrap().closed);
    assert_eq!(closed.len(), 300, "each is closed once");
    assert!(chat.call().unwrap().closed.is_empty());
    let open = chat.with_projection(|p| p.open_calls().count()).unwrap();
    assert_eq!(open, 0);
    for seq in closed {
        let entry = chat.entry(seq).unwrap();
        assert_eq!(entry.provenance, Provenance::Synthetic);
    }
    assert!(view(&chat).contains(&request));
    sound(&chat);
}

/// B25. One of two parallel calls was rejected by a person and got no answer.
#[test]
fn a_rejected_call_is_answered_by_its_rejection_within_its_batch() {
    for said in ["Aa,b Rb", "Aa,b Rb U", "Aa,b Rb X"] {
        let chat = chat("").with_open_calls(OpenCalls::Refuse).unwrap();
        talk(&chat, "U");
        talk(&chat, said);
        let refusal = chat.call();
        assert_eq!(reason(refusal), RequestReason::OpenCalls);
        let mut rejection = Message::tool("a", "the person said no");
        if let PartBody::Result { error, .. } = &mut rejection.parts[0].body {
            *error = Some(true);
        }
        let rejection = chat.append(rejection).unwrap().message();
        assert!(chat.call().unwrap().closed.is_empty());
        let group = chat.with_projection(|p| p.group_of(rejection)).unwrap();
        assert_eq!(group.len(), 3, "call, result, rejection");
        for &profile in PROFILES {
            let (messages, _) = sends(&chat, profile);
            let text = serde_json::Value::from(messages).to_string();
            assert!(text.contains("the person said no"));
        }
        sound(&chat);
    }
}

/// B26. A person spoke while a batch of calls was at work: the provider wanted three results and
/// got two.
#[test]
fn a_batch_that_a_person_broke_into_is_refused_or_closed_as_configured() {
    for answered in ["", "Ra", "Ra Rb", "Rc", "Rb Rc"] {
        let said = format!("U Aa,b,c {answered} U");
        let open = 3 - answered.split_whitespace().count();
        let refusing = chat("").with_open_calls(OpenCalls::Refuse).unwrap();
        talk(&refusing, &said);
        let head = refusing.head().unwrap();
        assert_eq!(reason(refusing.call()), RequestReason::OpenCalls);
        assert_eq!(refusing.head().unwrap(), head, "nothing is written");
        for id in ["Ra", "Rb", "Rc"]
            .iter()
            .filter(|r| !answered.contains(**r))
        {
            talk(&refusing, id);
        }
        assert!(refusing.call().unwrap().closed.is_empty());
        sound(&refusing);

        let closing = chat("").with_open_calls(OpenCalls::Close).unwrap();
        talk(&closing, &said);
        assert_eq!(closing.call().unwrap().closed.len(), open);
        sound(&closing);

        let keeping = chat("").with_open_calls(OpenCalls::Keep).unwrap();
        talk(&keeping, &said);
        assert!(keeping.call().unwrap().closed.is_empty());
        sound(&keeping);
    }
}

/// B28. A client saw a call in a stream and answered it; the call itself was never kept.
#[test]
fn a_result_binds_only_to_a_call_that_was_logged() {
    let chat = chat("sliding-window:keep=1");
    talk(&chat, "U Aa Ra A");
    chat.call().unwrap();
    let head = chat.head().unwrap();
    for word in ["Rb", "Ib"] {
        let result = chat.append(message(word));
        assert_eq!(reason(result), RequestReason::UnknownCall);
    }
    // One that is known does not bring in one that is not.
    talk(&chat, "Ac");
    let both = Message {
        parts: vec![Part::result("c", "out"), Part::result("b", "out")],
        ..message("Rc")
    };
    assert_eq!(reason(chat.append(both)), RequestReason::UnknownCall);
    assert_eq!(chat.head().unwrap().unwrap().seq, head.unwrap().seq.next());
    let open = chat.with_projection(|p| p.open_calls().count()).unwrap();
    assert_eq!(open, 1, "c is still open");
    talk(&chat, "Rc");
    sound(&chat);
}

/// B30. A write failed or was put off: the store held a result whose call it had never got, and the
/// run in memory held both.
#[test]
fn a_failed_write_fails_the_step_and_leaves_no_half_of_a_pair() {
    let backend = Arc::new(Failing::default());
    let store = Store::on(Arc::clone(&backend) as _);
    let chat = store.conversation("a").unwrap();
    talk(&chat, "U");
    for (call, result) in [("Aa", "Ra"), ("Ab", "Rb"), ("Ac", "Rc")] {
        backend.fail(true);
        assert!(chat.append(message(call)).is_err(), "the step fails");
        backend.fail(false);
        // Memory is not ahead of the store: the call is not there, so nothing can answer it.
        let early = chat.append(message(result));
        assert_eq!(reason(early), RequestReason::UnknownCall);
        talk(&chat, call);
        backend.fail(true);
        assert!(chat.append(message(result)).is_err());
        assert!(chat.call().is_err(), "no call goes out unfiled");
        backend.fail(false);
        // The retry is not skipped.
        talk(&chat, result);
        assert!(chat.call().unwrap().closed.is_empty());
        sound(&chat);
    }
    let cold = Store::on(Arc::clone(&backend) as _).existing("a").unwrap();
    assert_eq!(view(&cold), view(&chat));
    assert_eq!(view(&cold).len(), 7);
}

/// B31. A turn of reasoning alone was kept as empty text and a silent command as an empty result:
/// both were refused ever after.
#[test]
fn reasoning_alone_is_not_sent_and_an_empty_result_is() {
    let reasoning = PartBody::Reasoning {
        text: "hm".to_owned(),
        signature: Some("sig".to_owned()),
        encrypted: None,
    };
    let reasoning = Part {
        body: reasoning,
        extra: Vec::new(),
    };
    let chat = chat("");
    talk(&chat, "U");
    let thought = chat.append(Message::calls(vec![reasoning])).unwrap();
    talk(&chat, "U Aa");
    let empty = chat.append(Message::tool("a", "")).unwrap().message();
    talk(&chat, "Ab");
    let mut nothing = message("Rb");
    if let PartBody::Result { content, shape, .. } = &mut nothing.parts[0].body {
        content.clear();
        *shape = Shape::List;
    }
    chat.append(nothing).unwrap();
    talk(&chat, "A U");
    for &profile in PROFILES {
        let (messages, repairs) = sends(&chat, profile);
        let text = serde_json::Value::from(messages.clone()).to_string();
        assert!(!text.contains("hm"), "{text}");
        assert!(!repairs.is_empty(), "that it was left out is said");
        let result =
            |(role, b): &(&str, &serde_json::Value)| *role == "tool" || b["type"] == "tool_result";
        let results = blocks(&messages).into_iter().filter(result).count();
        assert_eq!(results, 2, "{text}");
    }
    assert!(view(&chat).contains(&thought.message()) && view(&chat).contains(&empty));
    sound(&chat);
}

/// B33. The model said nothing after a tool, and its empty turn broke the next request.
#[test]
fn an_empty_reply_is_logged_and_not_sent() {
    let said = |parts: Vec<Part>, shape| Message {
        shape,
        ..Message::new(Role::Assistant, Author::Model, parts)
    };
    let empty = [
        said(Vec::new(), Shape::List),
        said(Vec::new(), Shape::Null),
        said(Vec::new(), Shape::Absent),
        said(vec![Part::text("")], Shape::Text),
        said(vec![Part::text("")], Shape::List),
        said(vec![Part::text(" \n")], Shape::List),
    ];
    for reply in empty {
        for behind in ["U", "X U", "Ab Rb U"] {
            let chat = chat("");
            talk(&chat, "S U Aa Ra");
            let id = chat.append(reply.clone()).unwrap().message();
            talk(&chat, behind);
            chat.call().unwrap();
            assert!(view(&chat).contains(&id));
            sound(&chat);
            let (messages, repairs) = sends(&chat, Profile::Anthropic);
            assert!(repairs.contains(&"A9"), "{reply:?}");
            let turns = blocks(&messages);
            assert!(turns.iter().all(|(_, b)| b["text"] != "" && *b != ""));
        }
    }
    let nobody = Message::new(Role::User, Author::Person, Vec::new());
    let nothing = chat("").append(nobody);
    assert_eq!(reason(nothing), RequestReason::EmptyMessage);
}

/// B35. What was appended behind a record that had been cut off was glued to it, and both were lost.
#[test]
fn what_follows_a_torn_tail_is_not_glued_to_it() {
    // On a machine that stalls the background sync may come first: then no tail may be torn off.
    let shorter = (0..5).map(|_| torn_stores_that_lost_something());
    assert!(shorter.into_iter().any(|n| n > 0));
}

/// Opens and goes on with a store whose journal was cut at 24 places; says how many had lost entries.
fn torn_stores_that_lost_something() -> usize {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let live = Store::open(&path).unwrap().with_level(Level::Flushed);
    let whole = talk(&live.conversation("a").unwrap(), "S U A U A U A U A");
    // As a power cut leaves it: nothing was closed, and nothing of this was promised to survive.
    let image = dir.path().join("image");
    copy(&path, &image);
    drop(live);
    let bytes = std::fs::read(image.join("CTXLOG.journal")).unwrap();
    let written = bytes.iter().rposition(|b| *b != 0).unwrap() + 1;
    let (mut opened, mut shorter) = (0, 0);
    for back in 0..24 {
        let torn = dir.path().join(format!("torn{back}"));
        copy(&image, &torn);
        let mut bytes = bytes.clone();
        bytes[written - back * 700..].fill(0);
        std::fs::write(torn.join("CTXLOG.journal"), &bytes).unwrap();
        // What was synced after all may not be missing: then the store says so and opens not.
        let Ok(store) = Store::open(&torn) else {
            continue;
        };
        let chat = store.existing("a").unwrap();
        let before = logged(&chat);
        assert!(whole.starts_with(&before), "{back}: a prefix");
        (opened, shorter) = (
            opened + 1,
            shorter + usize::from(before.len() < whole.len()),
        );
        talk(&chat, "U A");
        let now = logged(&chat);
        assert_eq!(now.len(), before.len() + 2);
        drop((chat, store));
        let store = Store::open(&torn).unwrap();
        let chat = store.existing("a").unwrap();
        assert_eq!(logged(&chat), now, "{back}");
        assert_eq!(words(&chat, now[now.len() - 2]), "ask");
        assert_eq!(words(&chat, now[now.len() - 1]), "say");
        sound(&chat);
    }
    println!("{opened} of 24 torn stores opened, {shorter} of them without their last entries");
    shorter
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// B36. What a person said while a turn was at work was put behind an older turn's result, or taken
/// for the answer to a question that was asked later.
#[test]
fn words_said_during_a_turn_belong_to_it_and_answer_no_tool() {
    let chat = chat("sliding-window:keep=1");
    let ids = talk(&chat, "U A U Aa U Ra U");
    chat.call().unwrap();
    assert_eq!(there(&chat, &ids), [2, 4, 6]);
    let run = chat.with_projection(|p| p.run()).unwrap();
    assert_eq!(run, Some(ids[2].seq()), "they steer, they begin no run");

    let chat = self::chat("");
    talk(&chat, "U Aold Rold A U Anew");
    chat.append(Message::person("steering")).unwrap();
    let open = chat.with_projection(|p| p.open_calls().count()).unwrap();
    assert_eq!(open, 1, "words answer no call");
    talk(&chat, "Rnew Ax Rx");
    for &profile in PROFILES {
        let (messages, _) = sends(&chat, profile);
        let at = |what: &str| {
            let found = messages.iter().position(|m| m.to_string().contains(what));
            found.unwrap_or_else(|| panic!("{what} in {messages:?}"))
        };
        let steering = at("steering");
        assert!(at(r#""new""#) < steering && steering < at(r#""x""#));
        assert!(at(r#""old""#) < at(r#""new""#));
    }
    sound(&chat);
    assert_eq!(view(&taken_elsewhere(&chat)), view(&chat));
    // As a source tells it: what is new of a longer file stands behind what was there.
    let store = Store::in_memory();
    let mut said = crate::support::steps("U Aold Rold U");
    import_into(&store, said.clone());
    said.push(says(message("A")));
    assert_eq!(import_into(&store, said), 1);
    let last: MessageId = *logged(&store.existing("a").unwrap()).last().unwrap();
    assert_eq!(view(&store.existing("a").unwrap()).last(), Some(&last));
}
