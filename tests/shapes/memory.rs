//! Long memory: lifetimes, erasure, refusals.

use std::sync::Arc;

use ctxlog::audit::{export, verify, why};
use ctxlog::engine::{Conversation, Options, Redact, Store};
use ctxlog::log::{GroupReason, Message, Micros, OpenCalls};
use ctxlog::store::MemoryStore;

use crate::support::{PROFILES, every_cut, intact, sound, view};
use crate::talk::{chain, chat, message, refuses, talk, there, visits};

/// B115. What had been deleted lived on in tables that replays were made from.
#[test]
fn a_destroyed_payload_is_nowhere_and_everything_else_still_verifies() {
    // One that lies in its payload, and one that is large enough to lie apart.
    for times in [1, 20_000] {
        let backend = MemoryStore::new();
        let store = Store::on(Arc::new(backend.clone()));
        let chat = store.conversation("a").unwrap();
        let chat = chat
            .with_strategies(chain("sliding-window:keep=2"))
            .unwrap();
        talk(&chat, "S U A");
        let secret = chat.append(Message::person("hunter2 ".repeat(times)));
        let secret = secret.unwrap().message();
        talk(&chat, "A");
        let call = chat.call().unwrap();
        assert!(view(&chat).contains(&secret));
        let (before, head) = (call.window.digest, chat.head().unwrap());
        chat.redact(Redact::Message(secret)).unwrap();

        assert_eq!(chat.window().unwrap().digest, before, "no window changes");
        let newest = chat.head().unwrap().map(|h| h.seq);
        assert_eq!(newest, head.map(|h| h.seq.next()), "one entry says so");
        let mut out = Vec::new();
        export(&chat, &mut out).unwrap();
        assert!(!String::from_utf8(out).unwrap().contains("hunter2"));
        for &profile in PROFILES {
            let body = chat.render(&call.window, profile).unwrap().body;
            assert!(!body.contains("hunter2") && body.contains("[redacted]"));
        }
        let listed = &store.list().unwrap()[0];
        let verified = verify(&store, listed, &mut |_, _| {}).unwrap();
        assert!(verified.ok, "{:?}", verified.problems);
        assert_eq!((verified.payloads.redacted, verified.payloads.lost), (1, 0));
        assert!(!format!("{backend:?}").contains("hunter2"));
        talk(&chat, "A A U");
        chat.call().unwrap();
        intact(&chat);
    }
}

/// The calls and entries that a message lived through, and what the clock says of it.
fn lived(chat: &Conversation) -> (u64, u64, Option<u64>, &'static str) {
    let first = chat.with_projection(|p| p.messages()[0].id).unwrap();
    let story = why(chat, first, chat.head().unwrap().unwrap().seq).unwrap();
    let life = &story.lives[0];
    assert!(life.left.is_some());
    (life.calls, life.entries, life.wall_ms, life.clock)
}

/// B116. A lifetime in minutes was too long for a fast session and too short for a slow one.
#[test]
fn lifetimes_are_told_in_calls_and_in_time_and_neither_is_made_from_the_other() {
    let live = |step: i64| {
        let chat = chat("sliding-window:keep=6");
        for n in 0..10_i64 {
            let at = Options {
                at: Some(Micros(1_000_000_000_000 + n * step)),
                ..Options::default()
            };
            chat.append_with(message("A"), &at).unwrap();
            chat.call_with(&at, None).unwrap();
        }
        sound(&chat);
        lived(&chat)
    };
    let minute = 60_000_000;
    let (fast, slow, back) = (live(800_000), live(4 * minute), live(-minute));
    assert_eq!((fast.0, fast.1), (6, slow.1));
    assert_eq!((fast.0, fast.1), (slow.0, slow.1));
    assert_eq!((fast.0, fast.1), (back.0, back.1), "counted, not clocked");
    assert_eq!((fast.2, slow.2), (Some(6 * 800), Some(6 * 240_000)));
    assert_eq!((fast.3, slow.3, back.3), ("ok", "ok", "went-back"));
    // A lifetime that is set in calls ends alike in both; one in minutes goes by the minutes alone.
    // Its end is an entry.
    let left = |spec: &str, step: i64| {
        let chat = chat(spec);
        let at = |n: i64| Options {
            at: Some(Micros(n * step)),
            ..Options::default()
        };
        chat.append_with(message("U"), &at(0)).unwrap();
        let id = chat.append_with(message("A"), &at(0)).unwrap().message();
        for n in 1..=6_i64 {
            let call = chat.call_with(&at(n), None).unwrap();
            if !chat.window().unwrap().contains(id) {
                assert_eq!(call.visits.len(), 1, "{spec}");
                return Some(n);
            }
            chat.append_with(message("X"), &at(n)).unwrap();
        }
        None
    };
    for step in [800_000, 4 * minute] {
        assert_eq!(left("expire:after=3", step), Some(4));
    }
    let (fast, slow) = (800_000, 2 * minute);
    assert_eq!(left("expire:after=300,unit=time", fast), None);
    assert_eq!(left("expire:after=300,unit=time", slow), Some(4));
}

/// B118. One group that rightly refused made the whole compaction fail, for good.
#[test]
fn a_refuser_is_stepped_over_and_stops_nothing() {
    for spec in every_cut() {
        let chat = chat(&spec).with_open_calls(OpenCalls::Keep).unwrap();
        let ids = talk(&chat, "S A Aa A A A A A A A A A A");
        let call = chat.call().unwrap();
        assert!(view(&chat).contains(&ids[2]), "{spec}");
        for visit in visits(&chat, &call) {
            assert!(!visit.change.left.is_empty(), "{spec}: {visit:?}");
            assert!(visit.after.amount < visit.before.amount);
        }
        assert!(there(&chat, &ids).len() < ids.len() || call.visits.is_empty());
        sound(&chat);
    }
    let chat = chat("sliding-window:keep=1")
        .with_open_calls(OpenCalls::Keep)
        .unwrap();
    let ids = talk(&chat, "A Aa A A A");
    chat.call().unwrap();
    assert_eq!(there(&chat, &ids), [1, 4]);
    // The same with what was brought back and no call has seen yet.
    chat.restore(ids[0]).unwrap();
    let more = talk(&chat, "A A");
    chat.call().unwrap();
    assert_eq!(there(&chat, &ids), [0, 1]);
    assert_eq!(there(&chat, &more), [1]);
    assert_eq!(refuses(&chat, ids[0]), Some(GroupReason::Pinned));
}
