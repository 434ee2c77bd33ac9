//! What the core costs, against the bare store in the same run.
//!
//! `cargo bench --bench core`; read the figures as ratios, disks and machines differ.

#![allow(
    missing_docs,
    reason = "criterion's macros make functions without them"
)]

use std::fmt::Write as _;
use std::fs::File;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

use ctxlog::engine::{Conversation, Store};
use ctxlog::log::{Message, MessageId, Part, Seq};
use ctxlog::store::{Level, SledStore};
use ctxlog::strategy::SlidingWindow;

/// About a kilobyte of words, never twice the same.
fn words(n: u64) -> String {
    let mut text = format!("message {n}: ");
    let mut x = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    while text.len() < 1_000 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        write!(text, "{x:x} ").expect("a string takes text");
    }
    text
}

fn store_in(dir: &tempfile::TempDir, level: Level) -> Store {
    let backend = SledStore::open(dir.path().join("store")).expect("a fresh store opens");
    Store::on(Arc::new(backend)).with_level(level)
}

fn synced_append(c: &mut Criterion) {
    let mut group = c.benchmark_group("synced append of 1 kB");
    group.throughput(Throughput::Elements(1));

    let dir = tempfile::tempdir().expect("a temporary directory");
    let chat = store_in(&dir, Level::Synced)
        .conversation("bench")
        .expect("a conversation");
    let mut n = 0;
    group.bench_function("ctxlog", |b| {
        b.iter(|| {
            n += 1;
            chat.append(Message::person(words(n))).expect("an append")
        });
    });

    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = sled::Config::new()
        .path(dir.path())
        .cache_capacity(64 << 20)
        .flush_every_ms(None)
        .mode(sled::Mode::LowSpace)
        .open()
        .expect("a fresh tree opens");
    let file = File::open(dir.path().join("db")).expect("sled's file");
    let mut n = 0_u64;
    group.bench_function("bare sled, flush and fdatasync", |b| {
        b.iter(|| {
            n += 1;
            db.insert(n.to_be_bytes(), words(n).into_bytes())
                .expect("an insert");
            db.flush().expect("a flush");
            file.sync_data().expect("a sync");
        });
    });

    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut file = File::create(dir.path().join("raw")).expect("a file");
    let mut n = 0_u64;
    group.bench_function("raw file, write and fdatasync", |b| {
        b.iter(|| {
            n += 1;
            std::io::Write::write_all(&mut file, words(n).as_bytes()).expect("a write");
            file.sync_data().expect("a sync");
        });
    });
    group.finish();
}

/// A log of `messages` messages under `sliding-window:keep=200`, a call and its result in turn.
fn long_log(store: &Store, messages: u64) -> Conversation {
    let chat = store
        .conversation(&format!("log of {messages}"))
        .and_then(|c| c.with_strategy(SlidingWindow::new(200)))
        .expect("a conversation");
    for n in 0..messages / 2 {
        turn(&chat, n);
    }
    chat
}

/// One round of a tool loop: a call of the model with its visit, a tool call, its result.
fn turn(chat: &Conversation, n: u64) {
    if n.is_multiple_of(10) {
        chat.append(Message::person(words(n))).expect("an append");
    }
    chat.call().expect("a call");
    if n % 10 == 9 {
        chat.append(Message::model(words(n))).expect("an append");
        return;
    }
    chat.append(Message::calls(vec![Part::call("c", "look", "{}")]))
        .expect("an append");
    chat.append(Message::tool("c", &words(n)))
        .expect("an append");
}

fn append_with_visit(c: &mut Criterion) {
    let mut group = c.benchmark_group("buffered turn (call, visit, two messages), window of 200");
    group.throughput(Throughput::Elements(2));
    group.sample_size(20);
    for messages in [100, 10_000, 100_000] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let store = store_in(&dir, Level::Buffered);
        let chat = long_log(&store, messages);
        let mut n = messages;
        group.bench_function(BenchmarkId::from_parameter(messages), |b| {
            b.iter(|| {
                n += 1;
                turn(&chat, n);
            });
        });
    }
    group.finish();
}

fn why_and_verify(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = store_in(&dir, Level::Buffered);
    let chat = long_log(&store, 10_000);
    let ids: Vec<MessageId> = chat
        .with_projection(|p| p.messages().iter().map(|m| m.id).collect())
        .expect("a projection");
    let head = chat.head().expect("a head").map_or(Seq(0), |h| h.seq);
    let mut at = 0;
    c.bench_function("why, one of 10,000 messages", |b| {
        b.iter(|| {
            at = (at + 7_919) % ids.len();
            black_box(ctxlog::audit::why(&chat, ids[at], head).expect("an answer"))
        });
    });
    let listed = store.list().expect("a listing").remove(0);
    let mut group = c.benchmark_group("verify");
    group.throughput(Throughput::Elements(head.0 + 1));
    group.sample_size(10);
    group.bench_function("10,000 messages", |b| {
        b.iter(|| {
            let verified = ctxlog::audit::verify(&store, &listed, &mut |_, _| {});
            let verified = verified.expect("a verdict");
            assert!(verified.ok, "{:?}", verified.problems);
            verified
        });
    });
    group.finish();
}

criterion_group!(benches, synced_append, append_with_visit, why_and_verify);
criterion_main!(benches);
