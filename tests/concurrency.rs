//! The law of concurrency: accepted appends are distinct entries, nothing is lost, doubled or
//! unreachable, and readers always see windows that replay.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ctxlog::engine::{Error, Options, Store};
use ctxlog::log::{Author, Message, MessageId, RequestReason, Role, Seq};
use ctxlog::store::{Level, MemoryStore, SledStore};
use ctxlog::strategy::SlidingWindow;

const THREADS: usize = 8;
const MESSAGES: usize = 40;

/// Runs a test on a store in memory and on one in a directory.
fn each(test: impl Fn(&Store)) {
    test(&Store::in_memory());
    let dir = tempfile::tempdir().unwrap();
    let backend = SledStore::open(dir.path().join("store")).unwrap();
    test(&Store::on(Arc::new(backend)).with_level(Level::Buffered));
}

fn verified(store: &Store) {
    for listed in store.list().unwrap() {
        let verified = ctxlog::audit::verify(store, &listed, &mut |_, _| {}).unwrap();
        assert!(verified.ok, "{:?}", verified.problems);
    }
}

/// Appends and calls from one thread; gives the messages that were acknowledged.
fn write(store: &Store, name: &str, thread: usize) -> Vec<(MessageId, String)> {
    let chat = store.conversation(name).unwrap();
    let one = |n| {
        let words = format!("thread {thread}, message {n}");
        let message = chat.append(Message::person(words.clone())).unwrap();
        if n % 3 == 0 {
            let call = chat.call().unwrap();
            // Another thread may have appended since: the window is the call's all the same.
            let then = chat.window_at(call.iteration).unwrap();
            assert_eq!(then.digest, call.window.digest);
        }
        (message.message(), words)
    };
    (0..MESSAGES).map(one).collect()
}

/// Reads windows until told to stop: each has to be the one that its call recorded.
fn read(store: &Store, name: &str, stop: &AtomicBool) {
    let chat = store.conversation(name).unwrap();
    while !stop.load(Ordering::Relaxed) {
        let newest = chat.with_projection(|p| p.sent().last().cloned()).unwrap();
        if let Some(sent) = newest {
            let window = chat.window_after(sent.fact.seq).unwrap();
            assert_eq!(window.digest, sent.window);
            let some = window.items.first().map(|i| i.id).unwrap();
            assert!(chat.why(some).unwrap().seen_by.calls > 0);
        }
    }
}

/// Writes `names` from eight threads while two read; gives what each thread was acknowledged.
fn write_and_read(store: &Store, names: &[&str]) -> Vec<(usize, Vec<(MessageId, String)>)> {
    let stop = AtomicBool::new(false);
    let name = |thread: usize| names[thread % names.len()];
    thread::scope(|scope| {
        for name in [name(0), name(1)] {
            scope.spawn(|| read(store, name, &stop));
        }
        let writers: Vec<_> = (0..THREADS)
            .map(|t| scope.spawn(move || write(store, name(t), t)))
            .collect();
        let written: Vec<_> = writers
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect();
        stop.store(true, Ordering::Relaxed);
        (0..).zip(written.into_iter().map(Result::unwrap)).collect()
    })
}

fn is_all_there(store: &Store, name: &str, written: &[&Vec<(MessageId, String)>]) {
    let chat = store.existing(name).unwrap();
    let head = chat.head().unwrap().unwrap().seq;
    let ids: BTreeSet<MessageId> = written
        .iter()
        .copied()
        .flatten()
        .map(|(id, _)| *id)
        .collect();
    assert_eq!(ids.len(), written.iter().map(|w| w.len()).sum::<usize>());
    let logged: BTreeSet<MessageId> = chat
        .with_projection(|p| p.messages().iter().map(|m| m.id).collect())
        .unwrap();
    assert_eq!(ids, logged);
    for one in written {
        assert!(one.is_sorted_by_key(|(id, _)| *id), "one thread's order");
        for (id, words) in *one {
            let said = chat.message_at(*id, head).unwrap();
            let said = said.into_message(Role::User, Author::Engine).words();
            assert_eq!(&said, words);
        }
    }
}

#[test]
fn eight_threads_on_one_conversation_lose_and_double_nothing() {
    each(|store| {
        let chat = store.conversation("one").unwrap();
        chat.with_strategy(SlidingWindow::new(5)).unwrap();
        let written = write_and_read(store, &["one"]);
        is_all_there(
            store,
            "one",
            &written.iter().map(|(_, w)| w).collect::<Vec<_>>(),
        );
        verified(store);
    });
}

#[test]
fn eight_threads_on_four_conversations_lose_and_double_nothing() {
    each(|store| {
        let names = ["a", "b", "c", "d"];
        let written = write_and_read(store, &names);
        for (at, name) in names.iter().enumerate() {
            let own = written.iter().filter(|(t, _)| t % names.len() == at);
            is_all_there(store, name, &own.map(|(_, w)| w).collect::<Vec<_>>());
        }
        verified(store);
    });
}

#[test]
fn of_appends_that_expect_one_head_exactly_one_is_accepted() {
    each(|store| {
        let chat = store.conversation("race").unwrap();
        let head = chat.append(Message::person("go")).unwrap().last;
        let attempt = |thread: usize| {
            let options = Options {
                expected: Some(head),
                ..Options::default()
            };
            let message = Message::person(format!("thread {thread}"));
            match chat.append_with(message, &options) {
                Ok(_) => true,
                Err(Error::Refused(refusal)) if refusal.reason == RequestReason::StaleHead => false,
                Err(error) => panic!("{error}"),
            }
        };
        let accepted: usize = thread::scope(|scope| {
            let tries = (0..THREADS).map(|t| scope.spawn(move || attempt(t)));
            let tries: Vec<_> = tries.collect();
            let won = tries.into_iter().map(|t| usize::from(t.join().unwrap()));
            won.sum()
        });
        assert_eq!(accepted, 1);
        assert_eq!(chat.head().unwrap().unwrap().seq, Seq(head.0 + 1));
        verified(store);
    });
}

#[test]
fn a_key_that_eight_threads_use_at_once_writes_once() {
    each(|store| {
        let chat = store.conversation("keyed").unwrap();
        let attempt = || {
            let options = Options {
                key: Some("once".to_owned()),
                ..Options::default()
            };
            chat.append_with(Message::person("hello"), &options)
                .unwrap()
        };
        let acks: Vec<_> = thread::scope(|scope| {
            let tries: Vec<_> = (0..THREADS).map(|_| scope.spawn(attempt)).collect();
            tries.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert_eq!(acks.iter().filter(|a| !a.repeated).count(), 1);
        assert!(acks.iter().all(|a| a.last == acks[0].last));
        assert_eq!(chat.window().unwrap().items.len(), 1);
    });
}

#[test]
fn engines_that_do_not_know_of_each_other_lose_by_name_and_write_nothing_twice() {
    let shared = MemoryStore::new();
    let engine = || Store::on(Arc::new(shared.clone()));
    engine().conversation("shared").unwrap();
    let append = |thread: usize| {
        let chat = engine().existing("shared").unwrap();
        for n in 0..MESSAGES {
            let message = || Message::person(format!("thread {thread}, message {n}"));
            while let Err(error) = chat.append(message()) {
                let Error::Refused(refusal) = error else {
                    panic!("{error}")
                };
                assert_eq!(refusal.reason, RequestReason::StaleHead);
            }
        }
    };
    thread::scope(|scope| {
        let append = &append;
        (0..THREADS).for_each(|t| drop(scope.spawn(move || append(t))));
    });
    let store = engine();
    let window = store.existing("shared").unwrap().window().unwrap();
    assert_eq!(window.items.len(), THREADS * MESSAGES);
    verified(&store);
}
