//! Every verb of a store under every fault that it can meet.

use std::sync::Arc;

use ctxlog::Store;
use ctxlog::audit::{export, import_lines, verify};
use ctxlog::engine::{Error, Options, Redact, Seeded};
use ctxlog::log::{Json, Message, Micros, OpenCalls, Seq};
use ctxlog::store::{Backend, Level, StoreError};
use ctxlog::testkit::fault::{Fault, FaultStore, Planned, Verb};
use ctxlog::testkit::outcomes;

#[test]
fn every_store_call_under_every_fault_gives_a_typed_outcome_and_a_log_that_verifies() {
    let outcomes = outcomes();
    let figure = outcomes.figure();
    println!("{}\n{figure}", outcomes.matrix());
    let broken = outcomes.broken();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert_eq!(figure.holds, Some(true));
    assert!(outcomes.cells.len() >= 90, "{} cells", outcomes.cells.len());
}

fn on(medium: &FaultStore) -> Store {
    Store::on(Arc::new(medium.clone())).with_environment(Arc::new(Seeded::new(1, Micros(0))))
}

fn keyed(key: &str) -> Options {
    Options {
        key: Some(key.to_owned()),
        ..Options::default()
    }
}

/// The handle still shows the entry after its sync failed; opened again, the store does not.
#[test]
fn a_repeated_request_is_not_acknowledged_where_its_entry_is_lost() {
    let medium = FaultStore::new(1);
    let chat = on(&medium).conversation("a").unwrap();
    let chat = chat.with_open_calls(OpenCalls::Keep).unwrap();
    medium.plan_next(Verb::Append, Fault::SyncError, 0);
    let lost = chat.append_with(Message::person("lost"), &keyed("k"));
    assert!(matches!(
        lost,
        Err(Error::Store(StoreError::Indeterminate { .. }))
    ));
    let again = chat.append_with(Message::person("lost"), &keyed("k"));
    assert!(
        matches!(again, Err(Error::Store(StoreError::Poisoned { .. }))),
        "{again:?}"
    );
    assert!(chat.clone().with_open_calls(OpenCalls::Keep).is_err());
    let chat = on(&medium.power_cut(usize::MAX)).existing("a").unwrap();
    let ack = chat
        .append_with(Message::person("lost"), &keyed("k"))
        .unwrap();
    assert!(!ack.repeated, "it had never been stored");
}

/// What was buffered first and is asked for again at a higher level is brought there.
#[test]
fn a_repeated_request_reaches_the_level_that_its_answer_promises() {
    let medium = FaultStore::new(1);
    let store = on(&medium);
    let buffered = store.clone().with_level(Level::Buffered);
    let chat = buffered.conversation("a").unwrap();
    chat.append_with(Message::person("said"), &keyed("k"))
        .unwrap();
    chat.call_with(&keyed("c"), None).unwrap();
    assert!(medium.waiting() > 0);
    let chat = on(&medium).existing("a").unwrap();
    assert!(chat.call_with(&keyed("c"), None).unwrap().repeated);
    assert_eq!(medium.waiting(), 0);
    let chat = on(&medium.power_cut(0)).existing("a").unwrap();
    assert!(
        chat.append_with(Message::person("said"), &keyed("k"))
            .unwrap()
            .repeated
    );
}

#[test]
fn words_with_a_flipped_bit_are_an_error_wherever_they_are_read() {
    let settings = Json("{\"system\":\"Be brief.\"}".to_owned());
    for detail in 0..4 * 8 * 40_u64 {
        let medium = FaultStore::new(1);
        let chat = on(&medium).conversation("a").unwrap();
        chat.append(Message::person("Where is order 4411?"))
            .unwrap();
        chat.set_request("openai-chat", None, &settings).unwrap();
        chat.note("seen", Some(&settings)).unwrap();
        let whole = chat.load(chat.window().unwrap()).unwrap();
        medium.plan_next(Verb::List, Fault::RottenPayload, detail);
        on(&medium).list().unwrap();
        let rotten = medium.deliveries()[0].seq.unwrap();
        let reads: Vec<bool> = vec![
            on(&medium)
                .existing("a")
                .and_then(|c| c.with_projection(|_| ()))
                .is_err(),
            chat.content(Seq(1), 0).is_err(),
            chat.load(whole.window.clone()).is_err(),
            chat.text(Seq(3), 0).is_err(),
            export(&chat, &mut Vec::new()).is_err(),
        ];
        let at = |n: u64| rotten == Seq(n);
        assert_eq!(
            reads,
            [at(0), at(1), at(1) || at(2), at(3), true],
            "{detail}: {rotten}"
        );
    }
}

/// A log whose message was redacted elsewhere is taken in as one batch, without its words.
#[test]
fn an_import_of_a_redacted_log_is_whole_at_every_moment() {
    let source = Store::in_memory().conversation("a").unwrap();
    let said = source.append(Message::person("secret")).unwrap().message();
    source.redact(Redact::Message(said)).unwrap();
    let mut lines = Vec::new();
    export(&source, &mut lines).unwrap();
    let lines = String::from_utf8(lines).unwrap();
    let medium = FaultStore::new(1);
    let mut given = lines.lines().map(|l| Ok(l.to_owned()));
    let (chat, added) = import_lines(&on(&medium), &mut given, None).unwrap();
    assert_eq!((added, medium.calls(Verb::DestroyPayload)), (3, 0));
    let listed = on(&medium).list().unwrap().remove(0);
    let verified = verify(chat.store(), &listed, &mut |_, _| {}).unwrap();
    assert!(verified.ok, "{:?}", verified.problems);
    assert_eq!(verified.payloads.redacted, 1);
}

fn heads(medium: &FaultStore, chat: &ctxlog::Conversation) -> (u64, u64) {
    let number = |head: Option<ctxlog::log::Head>| head.map_or(0, |h| h.seq.0 + 1);
    let id = chat.id();
    (
        number(medium.head(id).unwrap()),
        number(medium.durable_head(id).unwrap()),
    )
}

#[test]
fn each_level_promises_what_it_says_and_no_more() {
    let filled = || {
        let medium = FaultStore::new(1);
        let chat = on(&medium).conversation("a").unwrap();
        for level in [
            Level::Synced,
            Level::Flushed,
            Level::Buffered,
            Level::Buffered,
        ] {
            let chat = on(&medium).with_level(level).existing("a").unwrap();
            chat.append(Message::person("said")).unwrap();
        }
        assert_eq!(heads(&medium, &chat), (5, 2));
        (medium, chat)
    };
    for (keep, left) in [(0, 3), (1, 4), (9, 5)] {
        let (medium, chat) = filled();
        let next = medium.kill(keep);
        assert_eq!(
            heads(&next, &chat),
            (left, 2),
            "a kill keeps what was flushed"
        );
        assert!(
            medium.head(chat.id()).is_err(),
            "the dead process's handle is dead"
        );
        assert_eq!(
            heads(&next.power_cut(0), &chat),
            (2, 2),
            "the cache is no medium"
        );
    }
    for (keep, left) in [(0, 2), (1, 3), (2, 4), (9, 5)] {
        let (medium, chat) = filled();
        assert_eq!(heads(&medium.power_cut(keep), &chat), (left, left));
    }
    let (medium, chat) = filled();
    assert_eq!(
        heads(&medium.reopen(), &chat),
        (5, 5),
        "closing in good order loses nothing"
    );
}

#[test]
fn a_planned_fault_happens_once_at_its_call_and_is_counted() {
    let medium = FaultStore::new(1);
    let chat = on(&medium).conversation("a").unwrap();
    let call = medium.calls(Verb::Append) + 2;
    let planned = Planned {
        verb: Verb::Append,
        call,
        fault: Fault::ErrorApplied,
        detail: 0,
    };
    medium.plan(planned);
    chat.append(Message::person("before")).unwrap();
    assert!(medium.deliveries().is_empty());
    assert!(chat.append(Message::person("unknown")).is_err());
    let delivery = medium.deliveries()[0];
    assert_eq!((delivery.planned, delivery.seq), (planned, Some(Seq(2))));
    let poisoned = chat.append(Message::person("after")).unwrap_err();
    assert!(
        matches!(poisoned, Error::Store(StoreError::Poisoned { .. })),
        "{poisoned}"
    );
    assert_eq!(chat.window().unwrap().items.len(), 2, "reading goes on");
    assert_eq!((medium.deliveries().len(), medium.unplan()), (1, 0));
    let chat = on(&medium.power_cut(9)).existing("a").unwrap();
    assert_eq!(
        chat.window().unwrap().items.len(),
        2,
        "the head decides what was unknown"
    );
}
