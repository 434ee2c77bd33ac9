//! Forks: what they share they share, and nothing that is done to one is seen in another.

use std::sync::Arc;

use ctxlog::audit;
use ctxlog::engine::{Conversation, Error, Namespace, Redact, Store};
use ctxlog::log::{
    Author, BlockBody, Iteration, Json, Media, Message, Part, PartBody, RequestReason, Role, Seq,
};
use ctxlog::store::{Backend, Listed, MemoryStore, Name};
use ctxlog::strategy::parse;

fn reason(result: Result<Conversation, Error>) -> Option<RequestReason> {
    result.err()?.refusal().map(|refusal| refusal.reason)
}

fn on(backend: &Arc<MemoryStore>) -> Store {
    Store::on(Arc::clone(backend) as Arc<dyn Backend>)
}

fn turns(chat: &Conversation, turns: usize) {
    for turn in 0..turns {
        let said = format!("question {turn} of {}", chat.name());
        chat.append(Message::person(said)).unwrap();
        chat.call().unwrap();
        chat.append(Message::model("an answer")).unwrap();
    }
}

fn head(chat: &Conversation) -> Seq {
    chat.head().unwrap().unwrap().seq
}

fn verified(store: &Store, chat: &Conversation) -> audit::Verified {
    let listed = store.list().unwrap();
    let listed = listed.iter().find(|l| l.conversation == chat.id()).unwrap();
    audit::verify(store, listed, &mut |_, _| ()).unwrap()
}

fn windows(chat: &Conversation) -> Vec<ctxlog::window::Window> {
    let all = (0..=head(chat).0).map(|n| chat.window_after(Seq(n)).unwrap());
    all.collect()
}

/// A root of so many turns, a fork of it, a fork of that, and so on, each a few entries before the
/// head of the one before.
fn generations(store: &Store, first: usize, many: usize) -> Vec<Conversation> {
    let root = store.conversation("0").unwrap();
    let root = root
        .with_strategies(vec![parse("sliding-window:keep=4").unwrap()])
        .unwrap();
    turns(&root, first);
    let mut all = vec![root];
    for n in 1..=many {
        let parent = all.last().unwrap();
        let fork = parent
            .fork(Seq(head(parent).0 - 4), &n.to_string())
            .unwrap();
        turns(&fork, 3);
        all.push(fork);
    }
    all
}

#[test]
fn a_fork_of_a_fork_is_whole_and_verifies() {
    let backend = Arc::new(MemoryStore::new());
    let all = generations(&on(&backend), 200, 5);
    let held: Vec<_> = all.iter().map(windows).collect();
    let store = on(&backend);
    for (fork, held) in all.iter().zip(&held) {
        let again = store.existing(fork.name()).unwrap();
        assert_eq!(&windows(&again), held, "{}", fork.name());
        let verified = verified(&store, fork);
        assert!(verified.ok, "{:?}", verified.problems);
        assert_eq!(verified.entries, head(fork).0 + 1);
        assert_eq!(verified.windows.equal, verified.windows.recorded);
    }
    for (parent, fork) in all.iter().zip(all.iter().skip(1)) {
        let point = fork.forked().unwrap().unwrap();
        assert_eq!(point.parent, parent.id());
        let shared = usize::try_from(point.at.0).unwrap();
        assert_eq!(windows(fork)[..=shared], windows(parent)[..=shared]);
        assert_ne!(fork.window().unwrap(), parent.window().unwrap());
    }
}

#[test]
fn what_is_forked_before_its_parents_own_entries_is_a_fork_of_who_has_them() {
    let store = Store::in_memory();
    let all = generations(&store, 20, 3);
    let early = all[3].fork(Seq(5), "early").unwrap();
    let point = early.forked().unwrap().unwrap();
    assert_eq!((point.parent, point.at), (all[0].id(), Seq(5)));
    assert!(verified(&store, &early).ok);
}

#[test]
fn refusals_of_a_fork_file_nothing() {
    let store = Store::in_memory();
    let chat = store.conversation("a").unwrap();
    chat.append(Message::person("hello")).unwrap();
    let called = chat
        .append(Message::calls(vec![
            Part::call("t1", "look", "{}"),
            Part::call("t2", "look", "{}"),
        ]))
        .unwrap();
    let one = chat.append(Message::tool("t1", "here")).unwrap();
    let two = chat.append(Message::tool("t2", "there")).unwrap();
    let before = chat.head().unwrap();
    for at in [called.last, one.last] {
        let refused = chat.fork(at, "b");
        assert_eq!(reason(refused), Some(RequestReason::ForkSplitsPair));
    }
    let beyond = two.last.next();
    assert_eq!(
        reason(chat.fork(beyond, "b")),
        Some(RequestReason::RangeOutOfBounds)
    );
    assert!(chat.fork(two.last, "a").is_err(), "the name is taken");
    assert_eq!(store.list().unwrap().len(), 1);
    let closed = chat.fork_closing(one.last, "b").unwrap();
    assert_eq!(head(&closed).0, one.last.0 + 2, "one call was open");
    assert!(verified(&store, &closed).ok);
    let loaded = closed.load_after(head(&closed)).unwrap();
    assert_eq!(loaded.items.len(), 4);
    // The real result comes after all, and takes the place of the made up one.
    closed.append(Message::tool("t2", "there")).unwrap();
    assert_eq!(closed.window().unwrap().items.len(), 4);
    assert_eq!(chat.head().unwrap(), before);
    // At the head nothing is split: no result was there yet.
    let open = chat.fork(Seq(1), "c").unwrap();
    open.append(Message::calls(vec![Part::call("t1", "look", "{}")]))
        .unwrap();
    let other = open.fork(head(&open), "d").unwrap();
    other.append(Message::tool("t1", "elsewhere")).unwrap();
    assert!(verified(&store, &other).ok);
}

#[test]
fn a_fork_before_a_call_makes_it_anew() {
    let store = Store::in_memory();
    let chat = store.conversation("a").unwrap();
    let strategy = parse("sliding-window:keep=2").unwrap();
    let chat = chat.with_strategies(vec![strategy]).unwrap();
    turns(&chat, 6);
    for n in (1..=6).map(Iteration) {
        let at = chat.before_call(n).unwrap();
        let fork = chat.fork(at, &n.to_string()).unwrap();
        let call = fork.call().unwrap();
        assert_eq!(call.iteration, n);
        let sent = chat.window_at(n).unwrap();
        let same = |w: &ctxlog::window::Window| w.items.iter().map(|i| i.id).collect::<Vec<_>>();
        assert_eq!(same(&call.window), same(&sent));
    }
    let none = chat.before_call(Iteration(7)).map(|_| chat.clone());
    assert_eq!(reason(none), Some(RequestReason::RangeOutOfBounds));
}

#[test]
fn a_fork_is_of_its_parents_namespace() {
    let store = Store::in_memory();
    let acme = store.within(Namespace::new("acme").unwrap());
    let chat = acme.conversation("a").unwrap();
    chat.append(Message::person("hello")).unwrap();
    let fork = chat.fork(Seq(1), "b").unwrap();
    assert_eq!(fork.namespace().unwrap(), chat.namespace().unwrap());
    assert!(
        store
            .within(Namespace::new("other").unwrap())
            .list()
            .unwrap()
            .is_empty()
    );
    assert_eq!(acme.existing("b").unwrap().window().unwrap().items.len(), 1);
}

#[test]
fn large_media_of_a_lineage_lie_once_and_are_read_from_every_fork() {
    let backend = Arc::new(MemoryStore::new());
    let store = on(&backend);
    let chat = store.conversation("a").unwrap();
    let image = || {
        let data = "A".repeat(200_000);
        let block =
            serde_json::json!({"type": "image", "source": {"type": "base64", "data": data}});
        let body = BlockBody::Media(Media::Image, Json(block.to_string()));
        let part = Part {
            body: PartBody::Block(body),
            extra: Vec::new(),
        };
        Message::new(Role::User, Author::Person, vec![part])
    };
    chat.append(image()).unwrap();
    let fork = chat.fork(head(&chat), "b").unwrap();
    let second = fork.fork(head(&fork), "c").unwrap();
    second.append(image()).unwrap();
    let store = on(&backend);
    for name in ["a", "b", "c"] {
        let chat = store.existing(name).unwrap();
        let loaded = chat.load_after(head(&chat)).unwrap();
        assert!(!loaded.items.is_empty());
        assert!(verified(&store, &chat).ok);
    }
    let swept = backend.sweep_blobs(chat.id(), &|_| false).unwrap();
    assert_eq!(swept, 1, "the same picture lies once, with the root");
}

#[test]
fn a_fork_whose_parent_is_gone_or_shortened_says_so_and_where() {
    let backend = Arc::new(MemoryStore::new());
    let store = on(&backend);
    let all = generations(&store, 10, 1);
    let point = all[1].forked().unwrap().unwrap();
    // Only the fork's own entries are copied; then also some of the parent's.
    for kept in [None, Some(point.at.0 - 3)] {
        let copy = Arc::new(MemoryStore::new());
        let mut logs = vec![(&all[1], head(&all[1]))];
        logs.extend(kept.map(|kept| (&all[0], Seq(kept))));
        for (chat, to) in logs {
            copied(&backend, &copy, chat, to);
        }
        let store = on(&copy);
        let verified = verified(&store, &all[1]);
        assert!(!verified.ok);
        let bad = verified.first_bad.unwrap();
        assert!(bad <= point.at, "{bad}: {:?}", verified.problems);
        let said = verified.problems.join("; ");
        assert!(said.contains(&all[1].id().to_string()), "{said}");
        let again = store.existing("1").unwrap();
        assert!(again.append(Message::person("more")).is_err());
    }
}

/// The own entries of a log, up to one, in another store.
fn copied(from: &MemoryStore, to: &MemoryStore, chat: &Conversation, last: Seq) {
    let first = from.first(chat.id()).unwrap().unwrap();
    let mut records = Vec::new();
    from.records(chat.id(), first, last, &mut |seq, bytes, payload| {
        let sealed = ctxlog::log::entry::open(bytes).unwrap();
        let count = sealed.entry.body.commitments().len();
        let payloads = (0..count as u32).map(|n| Some(payload(n).unwrap()?.into_owned()));
        records.push(ctxlog::store::Record {
            seq,
            hash: sealed.hash,
            entry: bytes.to_vec(),
            payloads: payloads.collect(),
        });
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    let name = chat.namespace().unwrap().tenant().to_owned();
    let batch = ctxlog::store::Batch {
        conversation: chat.id(),
        expected: None,
        birth: Some(Name {
            namespace: vec![name],
            name: chat.name().to_owned(),
        }),
        records,
    };
    to.append(batch, ctxlog::store::Level::Synced).unwrap();
}

#[test]
fn keys_pins_and_ids_of_the_shared_part_mean_the_same() {
    let store = Store::in_memory();
    let chat = store.conversation("a").unwrap();
    let options = || ctxlog::engine::Options {
        key: Some("once".to_owned()),
        ..Default::default()
    };
    let said = chat
        .append_with(Message::person("one"), &options())
        .unwrap();
    let second = chat.append(Message::model("two")).unwrap();
    chat.pin(second.message()).unwrap();
    let fork = chat.fork(head(&chat), "b").unwrap();
    let again = fork
        .append_with(Message::person("one"), &options())
        .unwrap();
    assert!(again.repeated && again.last == said.last);
    fork.unpin(second.message()).unwrap();
    fork.clear_messages(&[second.message()]).unwrap();
    fork.restore(second.message()).unwrap();
    assert_eq!(chat.window().unwrap().items.len(), 2);
    assert!(chat.unpin(second.message()).is_ok(), "pinned there still");
    let _: Vec<Listed> = store.list().unwrap();
}

fn exported(chat: &Conversation) -> Vec<String> {
    let mut out = Vec::new();
    audit::export(chat, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn taken_in(
    store: &Store,
    lines: &[String],
    name: Option<&str>,
) -> Result<(Conversation, u64), audit::ExportError> {
    audit::import_lines(store, &mut lines.iter().cloned().map(Ok), name)
}

#[test]
fn an_export_of_a_fork_brings_its_lineage_and_verifies_elsewhere() {
    let store = Store::in_memory();
    let all = generations(&store, 20, 3);
    let lines = exported(&all[3]);
    assert_eq!(lines.len() as u64, head(&all[3]).0 + 1);
    let other = Store::in_memory();
    let (fork, added) = taken_in(&other, &lines, Some("here")).unwrap();
    assert_eq!((fork.name(), added), ("here", lines.len() as u64));
    assert_eq!(windows(&fork), windows(&all[3]));
    let listed = other.list().unwrap();
    assert_eq!(listed.len(), 4, "those it was forked from are there");
    for listed in &listed {
        let verified = audit::verify(&other, listed, &mut |_, _| ()).unwrap();
        assert!(verified.ok, "{:?}", verified.problems);
    }
    // The root there ends where it is shared; its own export goes on with it.
    let root = exported(&all[0]);
    let (_, added) = taken_in(&other, &root, None).unwrap();
    let shared = all[1].forked().unwrap().unwrap().at.0 + 1;
    assert_eq!(added, root.len() as u64 - shared);
    assert_eq!(exported(&fork), lines);
    assert_eq!(taken_in(&other, &lines, Some("here")).unwrap().1, 0);
    // Half of it first, then the rest.
    let half = Store::in_memory();
    taken_in(&half, &lines[..lines.len() / 2], None).unwrap();
    let (fork, _) = taken_in(&half, &lines, None).unwrap();
    assert_eq!(exported(&fork), lines);
    assert!(verified(&half, &fork).ok);
}

#[test]
fn an_export_of_a_fork_whose_parent_is_another_here_is_refused_whole() {
    let store = Store::in_memory();
    let all = generations(&store, 20, 1);
    let lines = exported(&all[1]);
    let other = Store::in_memory();
    let early: Vec<String> = exported(&all[0]).into_iter().take(10).collect();
    let (root, _) = taken_in(&other, &early, None).unwrap();
    root.append(Message::person("goes on otherwise")).unwrap();
    let refused = taken_in(&other, &lines, None).unwrap_err();
    assert!(
        refused.to_string().contains("is not the one held here"),
        "{refused}"
    );
    assert_eq!(other.list().unwrap().len(), 1);
    let taken = Store::in_memory();
    taken.conversation("0").unwrap();
    let refused = taken_in(&taken, &lines, None).unwrap_err();
    assert!(refused.to_string().contains("exists already"), "{refused}");
    assert_eq!(taken.list().unwrap().len(), 1);
}

#[test]
fn a_redacted_payload_of_the_shared_part_is_gone_for_all_who_share_it() {
    let store = Store::in_memory();
    let all = generations(&store, 20, 2);
    let listed = all[0]
        .with_projection(|p| p.messages()[0].id.seq())
        .unwrap();
    all[2]
        .redact(Redact::Message(ctxlog::log::MessageId(listed)))
        .unwrap();
    for chat in &all {
        let verified = verified(&store, chat);
        assert!(
            verified.ok && verified.payloads.redacted == 1,
            "{verified:?}"
        );
    }
}

/// What a fork costs, in entries that are looked at, follows from the window and not from the log.
#[test]
fn a_fork_costs_the_same_at_any_length() {
    let mut cost = Vec::new();
    for turns_made in [400, 1_600] {
        let counting = Arc::new(super::past::Counting::default());
        super::past::long(&counting, "a", turns_made);
        let backend: Arc<dyn Backend> = Arc::clone(&counting) as _;
        let chat = Store::on(backend).existing("a").unwrap();
        let at = chat.before_call(Iteration(turns_made as u64 / 2)).unwrap();
        let (fork, shown) = counting.shown_by(|| chat.fork(at, "b").unwrap());
        assert!(
            shown <= 600,
            "{shown} entries for a fork of {turns_made} turns"
        );
        let (_, seen) = counting.shown_by(|| fork.window().unwrap());
        assert!(seen <= 300, "{seen} entries for its window");
        cost.push(shown);
    }
    assert!(cost[1] <= cost[0] + 300, "{cost:?}");
}
