//! Windows of the past: what they cost, as counted reads; that snapshots stay small; and what is held
//! in memory.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ctxlog::audit::{LOOK_BACK, Place, context, diff};
use ctxlog::engine::{Budget, Conversation, Store};
use ctxlog::log::{ConversationId, Hash, Head, Iteration, Message, MessageId, Seq, Unit};
use ctxlog::store::{Backend, Batch, Level, Listed, MemoryStore, Name, Payload, StoreError};
use ctxlog::strategy::{Frame, Plan, Strategy, parse};
use ctxlog::testkit::generate::script;
use ctxlog::testkit::{Op, Script, World};
use proptest::prelude::*;

/// A store in memory that counts the entries it shows.
#[derive(Debug, Default)]
pub struct Counting {
    store: MemoryStore,
    shown: AtomicU64,
}

impl Counting {
    pub fn shown_by<T>(&self, work: impl FnOnce() -> T) -> (T, u64) {
        let before = self.shown.load(Ordering::SeqCst);
        let done = work();
        (done, self.shown.load(Ordering::SeqCst) - before)
    }
}

type Res<T> = Result<T, StoreError>;
type Id = ConversationId;

impl Backend for Counting {
    fn append(&self, batch: Batch, level: Level) -> Res<()> {
        self.store.append(batch, level)
    }
    fn head(&self, of: Id) -> Res<Option<Head>> {
        self.store.head(of)
    }
    fn first(&self, of: Id) -> Res<Option<Seq>> {
        self.store.first(of)
    }
    fn durable_head(&self, of: Id) -> Res<Option<Head>> {
        self.store.durable_head(of)
    }
    fn entries(
        &self,
        of: Id,
        from: Seq,
        to: Seq,
        show: &mut dyn FnMut(Seq, &[u8]) -> ControlFlow<()>,
    ) -> Res<()> {
        self.store.entries(of, from, to, &mut |seq, bytes| {
            self.shown.fetch_add(1, Ordering::SeqCst);
            show(seq, bytes)
        })
    }
    fn payload(&self, of: Id, seq: Seq, index: u32) -> Res<Option<Payload>> {
        self.store.payload(of, seq, index)
    }
    fn destroy_payload(&self, of: Id, seq: Seq, index: u32, level: Level) -> Res<()> {
        self.store.destroy_payload(of, seq, index, level)
    }
    fn list(&self, prefix: &[String]) -> Res<Vec<Listed>> {
        self.store.list(prefix)
    }
    fn find(&self, name: &Name) -> Res<Option<Id>> {
        self.store.find(name)
    }
    fn put_blob(&self, of: Id, at: Hash, bytes: &[u8]) -> Res<()> {
        self.store.put_blob(of, at, bytes)
    }
    fn blob(&self, of: Id, at: Hash) -> Res<Option<Vec<u8>>> {
        self.store.blob(of, at)
    }
    fn sweep_blobs(&self, of: Id, keep: &dyn Fn(&Hash) -> bool) -> Res<u64> {
        self.store.sweep_blobs(of, keep)
    }
    fn put_derived(&self, of: Id, name: &str, bytes: &[u8]) -> Res<()> {
        self.store.put_derived(of, name, bytes)
    }
    fn derived(&self, of: Id, name: &str) -> Res<Option<Vec<u8>>> {
        self.store.derived(of, name)
    }
    fn derived_before(&self, of: Id, prefix: &str, name: &str) -> Res<Option<(String, Vec<u8>)>> {
        self.store.derived_before(of, prefix, name)
    }
    fn sync(&self, level: Level) -> Res<()> {
        self.store.sync(level)
    }
    fn check(&self, of: Option<Id>) -> Res<Vec<StoreError>> {
        self.store.check(of)
    }
}

/// Turns of a question, an answer and a call.
fn talk(chat: &Conversation, turns: usize) {
    for turn in 0..turns {
        chat.append(Message::person(format!("question {turn}")))
            .unwrap();
        chat.call().unwrap();
        chat.append(Message::model(format!("answer {turn}")))
            .unwrap();
    }
}

pub fn long(counting: &Arc<Counting>, name: &str, turns: usize) -> Conversation {
    let backend: Arc<dyn Backend> = Arc::clone(counting) as _;
    let chat = Store::on(backend).conversation(name).unwrap();
    let chat = chat
        .with_strategies(vec![parse("sliding-window:keep=10").unwrap()])
        .unwrap();
    talk(&chat, turns);
    chat
}

/// Snapshots: how many, and their bytes with their names.
fn snapshots(backend: &dyn Backend, id: Id) -> (usize, usize) {
    let (mut many, mut bytes) = (0, 0);
    let mut until = Some(u64::MAX);
    while let Some(n) = until {
        let name = format!("window/{n:016x}");
        let Some((name, found)) = backend.derived_before(id, "window/", &name).unwrap() else {
            break;
        };
        many += 1;
        bytes += name.len() + found.len();
        let at = u64::from_str_radix(name.trim_start_matches("window/"), 16).unwrap();
        until = at.checked_sub(1);
    }
    (many, bytes)
}

fn entry_bytes(backend: &dyn Backend, id: Id) -> usize {
    let mut bytes = 0;
    let mut count = |_: Seq, entry: &[u8]| {
        bytes += entry.len();
        ControlFlow::Continue(())
    };
    backend
        .entries(id, Seq(0), Seq(u64::MAX), &mut count)
        .unwrap();
    bytes
}

/// What the window of a call costs at most, in entries that are looked at: the way to the call, the
/// tail behind a snapshot, the window itself.
const AT_MOST: u64 = 250;

#[test]
fn a_past_window_costs_the_window_and_not_the_log() {
    for turns in [600, 2_400] {
        let counting = Arc::new(Counting::default());
        let written = long(&counting, "a", turns);
        let backend: Arc<dyn Backend> = Arc::clone(&counting) as _;
        let (chat, shown) = counting.shown_by(|| {
            let store = Store::on(backend);
            store.list().unwrap();
            store.existing("a").unwrap()
        });
        assert_eq!(shown, 0, "naming a conversation folds nothing");
        for iteration in (1..=turns as u64).step_by(61).map(Iteration) {
            let (outline, shown) = counting.shown_by(|| chat.outline_at(iteration).unwrap());
            assert!(
                shown <= AT_MOST,
                "{shown} entries for {iteration} of {turns}"
            );
            let (window, shown) = counting.shown_by(|| chat.window_at(iteration).unwrap());
            assert!(
                shown <= AT_MOST,
                "{shown} entries for {iteration} of {turns}"
            );
            let ids: Vec<_> = window.items.iter().map(|i| i.id).collect();
            let placed: Vec<_> = outline.items().iter().map(|i| i.id).collect();
            assert_eq!(ids, placed);
            assert_eq!(window, written.window_at(iteration).unwrap());
        }
    }
}

#[test]
fn why_costs_the_stay_and_not_the_log() {
    for turns in [600, 2_400] {
        let counting = Arc::new(Counting::default());
        let written = long(&counting, "a", turns);
        let ids =
            written.with_projection(|p| p.messages().iter().map(|m| m.id).collect::<Vec<_>>());
        for id in ids.unwrap().into_iter().step_by(37) {
            let backend: Arc<dyn Backend> = Arc::clone(&counting) as _;
            let chat = Store::on(backend).existing("a").unwrap();
            let (told, shown) = counting.shown_by(|| chat.why(id).unwrap());
            assert!(
                shown <= 3 * AT_MOST,
                "{shown} entries for {id} of {turns} turns"
            );
            assert_eq!(told, written.why(id).unwrap());
            assert!(!told.lives.is_empty());
        }
    }
}

#[test]
fn diff_and_context_cost_the_window_and_not_the_log() {
    let place = |seq| Place { seq, call: None };
    for turns in [600, 2_400] {
        let counting = Arc::new(Counting::default());
        let written = long(&counting, "a", turns);
        let backend: Arc<dyn Backend> = Arc::clone(&counting) as _;
        let chat = Store::on(backend).existing("a").unwrap();
        for iteration in (1..=turns as u64 - 10).step_by(97).map(Iteration) {
            let call = written.call_at(iteration).unwrap();
            let later = written.call_at(Iteration(iteration.0 + 5)).unwrap();
            let head = written.head().unwrap().unwrap().seq;
            for (a, b) in [(call, later), (later, call), (call, head), (head, call)] {
                let (told, shown) =
                    counting.shown_by(|| diff((&chat, place(a)), (&chat, place(b)), true).unwrap());
                assert!(
                    shown <= 8 * AT_MOST,
                    "{shown} entries at {a} of {turns} turns"
                );
                assert!(!told.same);
            }
            let id = MessageId(Seq(call.0 + 1)); // what that call wrote
            let (told, shown) = counting.shown_by(|| context(&chat, id, false).unwrap());
            assert!(
                shown <= LOOK_BACK + 8 * AT_MOST,
                "{shown} entries for {id} of {turns} turns"
            );
            assert!(told.window.is_some());
        }
    }
}

#[test]
fn a_diff_without_words_reads_entries_alone() {
    let place = |seq| Place { seq, call: None };
    let counting = Arc::new(Counting::default());
    let chat = long(&counting, "a", 40);
    let [early, late] = [5, 25].map(|n| chat.call_at(Iteration(n)).unwrap());
    let asked = |words| diff((&chat, place(early)), (&chat, place(late)), words);
    let told = asked(false).unwrap();
    assert!(!told.left.is_empty() && !told.entered.is_empty());
    for seq in (0..=chat.head().unwrap().unwrap().seq.0).map(Seq) {
        for (index, _) in (0..).zip(chat.entry(seq).unwrap().body.commitments()) {
            counting
                .destroy_payload(chat.id(), seq, index, Level::Buffered)
                .unwrap();
        }
    }
    assert_eq!(asked(false).unwrap(), told);
}

#[test]
fn what_came_back_costs_no_fold_either() {
    let counting = Arc::new(Counting::default());
    let written = long(&counting, "a", 800);
    for n in 0..30 {
        let away = written.with_projection(|p| {
            let away = p.messages().iter().filter(|m| !m.visible());
            away.map(|m| m.id).nth(40 * n).unwrap()
        });
        written.restore(away.unwrap()).unwrap();
        talk(&written, 20);
    }
    let backend: Arc<dyn Backend> = Arc::clone(&counting) as _;
    let chat = Store::on(backend).existing("a").unwrap();
    for iteration in (1..=1_400).step_by(7).map(Iteration) {
        let (window, shown) = counting.shown_by(|| chat.window_at(iteration).unwrap());
        assert!(shown <= AT_MOST, "{shown} entries for {iteration}");
        assert_eq!(window, written.window_at(iteration).unwrap());
    }
}

fn sixteenth(backend: &dyn Backend, id: Id, at_least: usize) {
    let (many, bytes) = snapshots(backend, id);
    let log = entry_bytes(backend, id);
    assert!(many >= at_least, "{many} snapshots of {log} bytes");
    assert!(bytes * 16 < log, "{bytes} bytes of snapshots, {log} of log");
}

#[test]
fn snapshots_are_smaller_than_a_sixteenth_of_a_long_log() {
    for (spec, restored) in [
        ("sliding-window:keep=10", 0),
        ("sliding-window:keep=10", 3),
        ("sliding-window:keep=700", 2),
        ("token-budget:limit=20000,measure=estimate", 1),
    ] {
        let store = Store::in_memory();
        let chat = store.conversation("a").unwrap();
        let chat = chat.with_strategies(vec![parse(spec).unwrap()]).unwrap();
        talk(&chat, 900);
        for round in 0..if restored == 0 { 0 } else { 60 } {
            for _ in 0..restored {
                let away = chat.with_projection(|p| {
                    let away = p.messages().iter().rev().filter(|m| !m.visible());
                    away.map(|m| m.id).nth(round)
                });
                let _ = away.unwrap().map(|id| chat.restore(id));
            }
            talk(&chat, 1);
        }
        sixteenth(store.backend(), chat.id(), 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn snapshots_are_smaller_than_a_sixteenth_of_the_log(mut script in script()) {
        // Of a fork only what is its own is counted, and little is.
        script.ops.retain(|op| !matches!(op, Op::Fork { .. }));
        let mut world = World::new(&script, &[]).unwrap();
        for _ in 0..12 {
            world.perform_all(&script.ops).unwrap();
        }
        sixteenth(world.backend.as_ref(), world.chat.id(), 0);
        lost(&script, &world);
    }

    #[test]
    fn a_call_is_found_by_few_entries_however_unevenly_calls_came(
        stretches in prop::collection::vec((0..300_u64, 1..30_u64), 1..6),
    ) {
        let counting = Arc::new(Counting::default());
        let store = Store::on(Arc::clone(&counting) as Arc<dyn Backend>);
        let written = store.conversation("a").unwrap();
        for (messages, calls) in stretches {
            for n in 0..messages {
                written.append(Message::person(format!("question {n}"))).unwrap();
            }
            for n in 0..calls {
                written.call().unwrap();
                written.append(Message::model(format!("answer {n}"))).unwrap();
            }
        }
        let entries = written.head().unwrap().unwrap().seq.0 + 1;
        let chat = Store::on(Arc::clone(&counting) as Arc<dyn Backend>).existing("a").unwrap();
        // The newest entry twice; a guess and a look beside it, in turn, until nothing is between.
        let at_most = 2 + 2 * (2 * u64::from(entries.ilog2()) + 2);
        for iteration in (0..=chat.calls().unwrap() + 1).map(Iteration) {
            let (filed, shown) = counting.shown_by(|| chat.call_filed(iteration).unwrap());
            prop_assert!(shown <= at_most, "{} of {} entries for {}", shown, entries, iteration);
            let known = written.with_projection(|p| p.call(iteration).map(|s| s.fact.seq));
            prop_assert_eq!(filed, known.unwrap());
        }
    }
}

/// Made anew by whoever folds the log, snapshots are those that the writer took, to the byte.
fn lost(script: &Script, world: &World) {
    let id = world.chat.id();
    let fresh = MemoryStore::new();
    let mut records = Vec::new();
    for sealed in world.sealed().unwrap() {
        let payloads = (0..sealed.entry.body.commitments().len() as u32)
            .map(|n| world.backend.payload(id, sealed.entry.seq, n).unwrap())
            .collect();
        records.push(ctxlog::store::Record {
            seq: sealed.entry.seq,
            hash: sealed.hash,
            entry: sealed.bytes,
            payloads,
        });
    }
    let name = Name {
        namespace: vec!["default".into()],
        name: "a".into(),
    };
    let batch = Batch {
        conversation: id,
        expected: None,
        birth: Some(name),
        records,
    };
    fresh.append(batch, Level::Synced).unwrap();
    let backend: Arc<dyn Backend> = Arc::new(fresh);
    let chat = Store::on(Arc::clone(&backend)).existing("a").unwrap();
    chat.with_projection(|_| ()).unwrap();
    let of = |backend: &dyn Backend| {
        let last = format!("window/{:016x}", u64::MAX);
        let newest = backend.derived_before(id, "window/", &last).unwrap();
        (snapshots(backend, id), newest)
    };
    assert_eq!(of(backend.as_ref()), of(world.backend.as_ref()), "{script}");
}

#[derive(Debug)]
struct Own;

impl Strategy for Own {
    fn spec(&self) -> String {
        "my-own".to_owned()
    }

    fn unit(&self) -> Unit {
        Unit::Message
    }

    fn plan(&self, _: &Frame<'_>) -> Plan {
        Plan::NotDue
    }
}

#[test]
fn folds_beyond_the_budget_are_given_up_and_read_again_when_needed() {
    let counting = Arc::new(Counting::default());
    let names: Vec<String> = (0..40).map(|n| format!("c{n}")).collect();
    let backend: Arc<dyn Backend> = Arc::clone(&counting) as _;
    let writing = Store::on(Arc::clone(&backend));
    for name in &names {
        talk(&writing.conversation(name).unwrap(), 40);
    }
    let one = writing.existing("c0").unwrap();
    let bytes = one.with_projection(|p| p.bytes()).unwrap();
    let store = Store::on(backend).with_memory(10 * bytes);
    let touch = |name: &str| {
        let chat = store.existing(name).unwrap();
        let (found, shown) = counting.shown_by(|| chat.with_projection(|p| p.window_len()));
        assert_eq!(found.unwrap(), 80);
        shown
    };
    let first: Vec<u64> = names.iter().map(|name| touch(name)).collect();
    assert!(first.iter().all(|shown| *shown > 100), "{first:?}");
    let held = names.iter().rev().take_while(|name| touch(name) == 0);
    let held = held.count();
    assert!((3..=10).contains(&held), "{held} of 40 are held");
    // One that was given up writes on where it was.
    let chat = store.existing("c0").unwrap();
    talk(&chat, 1);
    assert_eq!(chat.window().unwrap().items.len(), 82);
}

/// What is counted of a handle and its log beside the fold.
const HANDLE: usize = 10_000;

#[test]
fn what_is_held_exceeds_the_budget_by_no_more_than_the_conversation_in_use() {
    const BUDGET: usize = 400_000;
    let store = Store::in_memory().with_memory(BUDGET);
    let chats: Vec<Conversation> = (0..30)
        .map(|n| store.conversation(&format!("c{n}")).unwrap())
        .collect();
    let mut most = 0;
    for n in 0..400 {
        // Some grow by much in one request and are not touched again for long.
        let chat = &chats[n * 7 % 30];
        talk(chat, if n % 11 == 0 { 60 } else { 1 });
        let in_use = chat.with_projection(|p| p.bytes()).unwrap();
        assert!(store.held_bytes() <= BUDGET + in_use + HANDLE, "{n}");
        most = most.max(store.held_bytes());
    }
    assert!(most > BUDGET / 2, "{most}: the budget was never felt");
    drop(chats);
    // What a handle held is given back with it, where the store does not hold it either.
    let none = Store::in_memory().with_memory(0);
    for n in 0..50 {
        talk(&none.conversation(&format!("c{n}")).unwrap(), 3);
    }
    let last = none.conversation("c49").unwrap();
    let in_use = last.with_projection(|p| p.bytes()).unwrap();
    assert!(
        none.held_bytes() <= in_use + HANDLE,
        "{}",
        none.held_bytes()
    );
}

#[test]
fn a_store_opens_within_the_least_budget() {
    let dir = tempfile::tempdir().unwrap();
    let least = Budget::of(Budget::LEAST).unwrap();
    let store = Store::open_within(dir.path().join("store"), least).unwrap();
    for n in 0..20 {
        talk(&store.conversation(&format!("c{n}")).unwrap(), 20);
    }
    let chat = store.existing("c3").unwrap();
    assert_eq!(chat.window().unwrap().items.len(), 40);
    let in_use = chat.with_projection(|p| p.bytes()).unwrap();
    assert!(store.held_bytes() <= least.held_bytes() + in_use + HANDLE);
}

#[test]
fn strategies_of_ones_own_are_known_after_their_fold_was_given_up() {
    let store = Store::in_memory().with_memory(0);
    let chat = store.conversation("a").unwrap().with_strategy(Own).unwrap();
    for n in 0..5 {
        talk(&store.conversation(&format!("other {n}")).unwrap(), 3);
    }
    chat.call().unwrap();
    drop(chat);
    talk(&store.conversation("another").unwrap(), 3);
    store.existing("a").unwrap().call().unwrap();
}

#[test]
fn a_conversation_in_use_is_not_given_up_while_others_are() {
    let store = Store::in_memory().with_memory(0);
    let chat = store.conversation("a").unwrap();
    talk(&chat, 3);
    chat.with_projection(|p| {
        talk(&store.conversation("b").unwrap(), 3);
        assert_eq!(p.window_len(), 6);
    })
    .unwrap();
    assert_eq!(chat.window().unwrap().items.len(), 6);
}
