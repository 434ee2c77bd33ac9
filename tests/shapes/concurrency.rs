//! Concurrency, growth, speed.

use std::sync::Arc;

use ctxlog::engine::{Conversation, Options, Store};
use ctxlog::log::{
    Author, BlockBody, Door, Json, Media, Message, Part, PartBody, RequestReason, Role, Seq, Usage,
};
use ctxlog::store::{Backend, MemoryStore};

use crate::support::{
    claims, compacts, entries, imported, intact, logged, says, sound, steps, stored_bytes, view,
};
use crate::talk::{chat, message, reason, talk};

/// One way of writing.
type Attempt<'a> = &'a dyn Fn(&Conversation) -> Result<(), ctxlog::Error>;

/// B100. Two workers that knew the same head both succeeded, and one's work became unreachable.
#[test]
fn two_writers_that_knew_the_same_head_do_not_both_win() {
    let backend: Arc<dyn Backend> = Arc::new(MemoryStore::new());
    let (one, two) = (Store::on(Arc::clone(&backend)), Store::on(backend));
    let (one, two) = (
        one.conversation("a").unwrap(),
        two.conversation("a").unwrap(),
    );
    for round in 0..10 {
        let (first, second) = if round % 2 == 0 {
            (&one, &two)
        } else {
            (&two, &one)
        };
        // Each in its own way of writing.
        let attempts: [Attempt<'_>; 3] = [
            &|chat| chat.append(message("A")).map(drop),
            &|chat| chat.call().map(drop),
            &|chat| chat.note("what", None).map(drop),
        ];
        for attempt in attempts {
            talk(first, "U");
            assert_eq!(reason(attempt(second)), RequestReason::StaleHead);
            attempt(second).unwrap();
            // The other side has to look again, too; then it goes on.
            assert_eq!(reason(attempt(first)), RequestReason::StaleHead);
            assert_eq!(first.head().unwrap(), second.head().unwrap());
        }
    }
    let known = one.head().unwrap().unwrap();
    assert_eq!(two.head().unwrap(), Some(known));
    assert_eq!(
        entries(&one).len() as u64,
        known.seq.0 + 1,
        "all are reachable"
    );
    assert_eq!(view(&two).len(), 40);
    sound(&one);
}

/// B101. A compaction in the background moved the version, and the person's next message was refused
/// as stale.
#[test]
fn what_the_engine_files_meanwhile_makes_no_message_stale() {
    let expects = |seq: Seq| Options {
        expected: Some(seq),
        ..Options::default()
    };
    for n in 0..4 {
        let chat = chat("sliding-window:keep=1");
        talk(&chat, "U A U");
        let call = chat.call().unwrap();
        let reply = talk(&chat, "A")[0];
        let known = reply.seq();
        for _ in 0..n {
            let usage = Usage {
                input: Some(9),
                ..Usage::default()
            };
            chat.returned(call.id, Some(usage)).unwrap();
            chat.note("background", None).unwrap();
        }
        chat.append_with(message("U"), &expects(known)).unwrap();
        let stale = chat.append_with(message("U"), &expects(known));
        assert_eq!(reason(stale), RequestReason::StaleHead, "content came");
        let known = chat.head().unwrap().unwrap().seq;
        let call = chat.call_with(&expects(known), None).unwrap();
        let stale = chat.append_with(message("U"), &expects(known));
        assert_eq!(reason(stale), RequestReason::StaleHead, "a call came");
        if let Some(visit) = call.visits.first() {
            let known = chat.head().unwrap().unwrap().seq;
            chat.undo(*visit).unwrap();
            let stale = chat.append_with(message("U"), &expects(known));
            assert_eq!(reason(stale), RequestReason::StaleHead, "an edit came");
        }
        let early = chat.append_with(message("U"), &expects(Seq(999)));
        assert_eq!(reason(early), RequestReason::StaleHead, "from the future");
        sound(&chat);
    }
}

/// B103. Every checkpoint held the whole state: one thread had 17 GB.
#[test]
fn a_log_grows_with_what_is_new_and_not_with_what_is_there() {
    for spec in [
        "",
        "sliding-window:keep=1000",
        "token-budget:limit=1,keep=1000",
        "sliding-window:keep=4",
    ] {
        let grown = |turns: usize| {
            let chat = chat(spec);
            for _ in 0..turns {
                talk(&chat, "U Aa Ra A");
                chat.call().unwrap();
            }
            intact(&chat);
            stored_bytes(&chat)
        };
        let (one, two, four) = (grown(50), grown(100), grown(200));
        let (first, second) = (two - one, four - two);
        assert!(second <= first * 21 / 10, "{spec}: {one}, {two}, {four}");
    }
}

fn picture(mark: &str) -> Message {
    let data = mark.repeat(300_000 / mark.len());
    let image = Json(format!(
        r#"{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{data}"}}}}"#
    ));
    let part = Part {
        body: PartBody::Block(BlockBody::Media(Media::Image, image)),
        extra: Vec::new(),
    };
    Message::new(Role::User, Author::Person, vec![part])
}

/// B105. Each of 47 compactions held the whole history again, pictures included: 2 GB.
#[test]
fn a_compaction_copies_nothing_of_what_it_stands_for() {
    for (pictures, distinct) in [(["one", "one", "one"], 1), (["one", "two", "three"], 3)] {
        let mut all = steps("S U A");
        for n in 0..47 {
            if let Some(mark) = pictures.get(n) {
                all.push(says(picture(mark)));
            }
            all.extend(steps("U A"));
            all.push(compacts());
        }
        let chat = imported(all);
        assert_eq!(claims(&chat).len(), 47);
        let bytes = stored_bytes(&chat);
        assert!(bytes < 47 * 4_000, "{bytes} bytes beside the pictures");
        intact(&chat);
        for claim in claims(&chat).iter().rev() {
            chat.undo(claim.seq()).unwrap();
        }
        assert!(stored_bytes(&chat) < 47 * 8_000, "nor do edits");
        let body = chat.render(&chat.window().unwrap(), ctxlog::Profile::Anthropic);
        assert!(
            body.unwrap().body.len() > 900_000,
            "they are all there again"
        );
        let swept = chat.store().backend().sweep_blobs(chat.id(), &|_| false);
        assert_eq!(swept.unwrap(), distinct, "each is stored once");
    }
}

/// B106. Live objects were written into a file by accident: they were 99 % of it.
#[test]
fn what_is_too_large_for_an_entry_is_refused_by_name_and_not_written() {
    let huge = "x".repeat(17 << 20);
    let chat = chat("");
    talk(&chat, "U");
    let head = chat.head().unwrap();
    let keyed = Options {
        key: Some(huge.clone()),
        ..Options::default()
    };
    let call = |id: &str, name: &str| Message::calls(vec![Part::call(id, name, "{}")]);
    let door = chat.store().clone().with_door(Door::Library, huge.clone());
    let other = door.conversation("a").unwrap();
    let attempts: [&dyn Fn() -> Result<(), ctxlog::Error>; 6] = [
        &|| chat.append_with(message("A"), &keyed).map(drop),
        &|| chat.call_with(&keyed, None).map(drop),
        &|| chat.call_with(&Options::default(), Some(&huge)).map(drop),
        &|| chat.append(call(&huge, "tool")).map(drop),
        &|| chat.append(call("a", &huge)).map(drop),
        &|| other.append(message("A")).map(drop),
    ];
    for attempt in attempts {
        assert_eq!(reason(attempt()), RequestReason::TooLarge);
        assert_eq!(chat.head().unwrap(), head, "nothing is written");
    }
    let store = Store::in_memory();
    let named = store.conversation(&"n".repeat(5_000));
    assert_eq!(reason(named), RequestReason::TooLarge);
    assert_eq!(store.list().unwrap().len(), 0);
    // A note of what nobody should keep.
    let note = Json(format!("\"{}\"", "x".repeat(65 << 20)));
    assert_eq!(
        reason(chat.note("objects", Some(&note))),
        RequestReason::TooLarge
    );
    talk(&chat, "A");
    assert_eq!(logged(&chat).len(), 2);
    sound(&chat);
}
