//! The law of concurrency (figure 9): accepted appends are distinct entries, nothing is lost, doubled
//! or unreachable, and readers always see windows that replay. The larger forms are
//! `ctxlog self-test --only 9 --size ci` and `--size release`.

#[path = "common/figure.rs"]
mod figure;

use std::sync::Arc;
use std::thread;

use ctxlog::engine::{Options, Store};
use ctxlog::log::{Message, RequestReason, Seq};
use ctxlog::store::{Level, MemoryStore, SledStore};
use ctxlog::testkit::concurrency::{Plan, concurrency};
use figure::holds;

#[test]
fn many_writers_and_readers_lose_and_double_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let plan = Plan {
        writers: 8,
        appends: 250,
    };
    let began = std::time::Instant::now();
    let mut progress = |done, all| println!("{done} of {all}: {:.1?}", began.elapsed());
    let found = concurrency(&plan, dir.path(), &mut progress).unwrap();
    // Two kinds of store, three arrangements; and the races were races.
    assert_eq!(found.appends, 2 * 3 * 8 * 250);
    assert!(found.stale > 50 && found.reads > 20, "{found:?}");
    holds(&found.figure(&plan), dir);
}

#[test]
fn a_key_that_eight_threads_use_at_once_writes_once() {
    let dir = tempfile::tempdir().unwrap();
    let backend = SledStore::open(dir.path().join("store")).unwrap();
    for store in [
        Store::in_memory(),
        Store::on(Arc::new(backend)).with_level(Level::Buffered),
    ] {
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
            let tries: Vec<_> = (0..8).map(|_| scope.spawn(attempt)).collect();
            tries.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert_eq!(acks.iter().filter(|a| !a.repeated).count(), 1);
        assert!(acks.iter().all(|a| a.last == acks[0].last));
        assert_eq!(chat.window().unwrap().items.len(), 1);
    }
}

/// A handle that is behind another one reads the log again where the caller knows a newer head.
#[test]
fn a_head_that_another_handle_filed_may_be_expected() {
    let shared = MemoryStore::new();
    let chat = || {
        let store = Store::on(Arc::new(shared.clone()));
        store.conversation("shared").unwrap()
    };
    let (one, other) = (chat(), chat());
    let head = other.append(Message::person("hello")).unwrap().last;
    let options = Options {
        expected: Some(head),
        ..Options::default()
    };
    let next = one.append_with(Message::model("hi"), &options).unwrap();
    assert_eq!(next.last, head.next());
    let beyond = Options {
        expected: Some(Seq(99)),
        ..Options::default()
    };
    let refused = one.append_with(Message::person("?"), &beyond).unwrap_err();
    assert_eq!(refused.refusal().unwrap().reason, RequestReason::StaleHead);
}
