//! ctxlog as the measures use it.

use std::fs::File;
use std::io::BufReader;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use ctxlog::engine::{Budget, Conversation, Store};
use ctxlog::formats::Format;
use ctxlog::formats::input::RECORD_LIMIT;
use ctxlog::log::{Author, Iteration, MessageId, OpenCalls};
use ctxlog::store::{Level, SledOptions, SledStore};
use ctxlog::strategy;

use super::content::Said;

/// How many groups the strategy of the measures keeps.
pub const KEEP: u64 = 20;

pub fn open(dir: &Path, level: Level) -> Store {
    Store::open(dir).expect("our store opens").with_level(level)
}

/// The page cache and the folds that ctxlog may keep in memory with this budget, in MiB: a quarter
/// of it is sled's.
pub fn open_within(dir: &Path, budget_mib: usize) -> Store {
    let budget = Budget::of(budget_mib << 20).expect("a budget");
    Store::open_within(dir, budget).expect("our store opens")
}

/// A store that is opened as `ctxlog verify` does.
pub fn open_for_one_pass(dir: &Path) -> Store {
    let backend = SledStore::open_existing_with(dir, SledOptions::for_one_pass());
    Store::on(Arc::new(backend.expect("our store opens")))
}

/// A conversation whose strategies may look at any time, also between a call and its result.
pub fn with_strategy(store: &Store, name: &str) -> Conversation {
    keeping(store, name, KEEP)
}

/// The same with another window.
pub fn keeping(store: &Store, name: &str, groups: u64) -> Conversation {
    under(store, name, &format!("sliding-window:keep={groups}"))
}

/// The same under another strategy.
pub fn under(store: &Store, name: &str, spec: &str) -> Conversation {
    let strategy = strategy::parse(spec).expect("a strategy");
    store
        .conversation(name)
        .and_then(|chat| chat.with_strategies(vec![strategy]))
        .and_then(|chat| chat.with_open_calls(OpenCalls::Keep))
        .expect("a conversation with a strategy")
}

/// Lets the strategies look once.
pub fn visit(chat: &Conversation) {
    chat.visit().expect("a visit");
}

/// Appends what was said as an agent does: a call of the model, with its visit, before each of its
/// messages. Says what the messages became, and how many calls there were.
pub fn converse(chat: &Conversation, said: Vec<Said>) -> (Vec<MessageId>, u64) {
    let mut calls = 0;
    let mut ids = Vec::new();
    for said in said {
        if said.message.author == Author::Model {
            chat.call().expect("a call");
            calls += 1;
        }
        let ack = chat.append(said.message).expect("an append");
        ids.push(ack.message());
    }
    (ids, calls)
}

/// Goes on from before a call, as another conversation.
pub fn fork(store: &Store, name: &str, call: Iteration, fork: &str) -> Conversation {
    let chat = store.existing(name).expect("a conversation");
    let at = chat.before_call(call).expect("a call");
    chat.fork_closing(at, fork).expect("a fork")
}

/// Brings everything to the disk.
pub fn sync(store: &Store) {
    store.backend().sync(Level::Synced).expect("a sync");
}

/// Imports what a file holds into a store in memory, without strategies.
pub fn import(file: &Path) {
    let mut input = BufReader::new(File::open(file).expect("a transcript"));
    let format = Format::from_name("claude-code").expect("a format");
    let read = format.packed(&mut input, "f", RECORD_LIMIT);
    let store = Store::in_memory();
    for (n, transcript) in read.expect("a readable file").into_iter().enumerate() {
        let name = format!("c{n}");
        let imported = store.import_among(&|_| None, &name, transcript, Vec::new(), &mut |_| {});
        imported.expect("an import");
    }
}

/// Verifies every conversation of a store, which must be well.
pub fn verify(store: &Store) {
    let listed = store.list().expect("a listing");
    assert!(!listed.is_empty(), "nothing is verified");
    ctxlog::audit::verify_each(store, &listed, &mut |_, _| {}, &mut |_, verified| {
        let verified = verified.expect("a verdict");
        let name = &verified.conversation;
        assert!(verified.ok, "{name}: {:?}", verified.problems);
        ControlFlow::Continue(())
    })
    .expect("threads to verify");
}
