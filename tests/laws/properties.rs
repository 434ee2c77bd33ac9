//! One property test per law.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use ctxlog::audit::{Why, export, import_lines, verify, why};
use ctxlog::engine::Store;
use ctxlog::formats::lint::lint;
use ctxlog::formats::{Profile, render};
use ctxlog::log::entry::{self, Sealed};
use ctxlog::log::{
    Body, GroupReason, Hash, Head, Iteration, LeftReason, MessageId, RequestReason, Seq, Unit,
    VisitOutcome,
};
use ctxlog::store::{Backend, Batch, Level, Listed, MemoryStore, Name, Record};
use ctxlog::window::{Conservation, Projection};
use proptest::prelude::*;

use crate::generate::{Ids, Op, Said, Script, Words, World, op, refused, script, source, spec};
use crate::oracle::{Moment, moments};

fn config(cases: u32) -> ProptestConfig {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let config = ProptestConfig {
        max_shrink_iters: 4_000,
        ..ProptestConfig::default()
    };
    if asked {
        config
    } else {
        ProptestConfig { cases, ..config }
    }
}

fn ids(window: &ctxlog::window::Window) -> Vec<u64> {
    window.items.iter().map(|i| i.id.seq().0).collect()
}

fn shown(window: &ctxlog::window::Window) -> Vec<(u64, u64, u64)> {
    window
        .items
        .iter()
        .map(|i| (i.place.0, i.id.seq().0, i.form.0))
        .collect()
}

fn listed(world: &World) -> Listed {
    world
        .store
        .list()
        .unwrap()
        .into_iter()
        .find(|l| l.conversation == world.chat.id())
        .unwrap()
}

/// The messages that ranges name, among those of a moment.
fn named(moment: &Moment, ranges: &ctxlog::log::Ranges) -> BTreeSet<u64> {
    moment
        .messages
        .iter()
        .map(|m| m.id)
        .filter(|id| ranges.contains(MessageId(Seq(*id))))
        .collect()
}

proptest! {
    #![proptest_config(config(120))]

    #[test]
    fn closure(script in script()) {
        let world = World::run(&script);
        keeps_groups_whole(&world)?;
    }

    #[test]
    fn occurrence(ops in proptest::collection::vec(batch(), 1..14), chain in proptest::collection::vec(spec(), 0..=2)) {
        let run = |ids: Ids| {
            let script = Script {
                chain: chain.clone(), ids, policy: ctxlog::log::OpenCalls::Close,
                ops: ops.iter().flatten().cloned().collect(), times: vec![0],
            };
            let world = World::run(&script);
            let windows: Vec<_> = world.entries().iter().map(|e| shown(&world.chat.window_after(e.seq).unwrap())).collect();
            let visits: Vec<_> = world.entries().into_iter().filter_map(|e| match e.body {
                Body::Visited(v) => Some(v),
                _ => None,
            }).collect();
            (windows, visits)
        };
        prop_assert_eq!(run(Ids::Unique), run(Ids::One));
    }

    #[test]
    fn occurrence_of_any_log(script in script()) {
        let entries = World::run(&script).entries();
        let renamed = entries.iter().cloned().map(|mut e| {
            if let Body::Appended(a) = &mut e.body {
                a.skeleton.parts.iter_mut().filter(|p| p.label.is_some()).for_each(|p| p.label = Some("x".into()));
            }
            e
        });
        let renamed: Vec<_> = renamed.collect();
        let (as_given, as_one) = (Projection::fold(&entries), Projection::fold(&renamed));
        for e in &entries {
            let one = as_one.window_at(e.seq);
            prop_assert_eq!(as_given.window_at(e.seq), one.clone());
            prop_assert_eq!(as_given.groups_of(&one), as_one.groups_of(&one));
        }
    }

    #[test]
    fn no_op(script in script()) {
        let mut world = World::run(&script);
        let mut calls: Vec<_> = Vec::new();
        for _ in 0..4 {
            let (before, head) = (world.chat.window().unwrap(), world.chat.head().unwrap().unwrap().seq);
            let Ok(call) = world.chat.call() else { return Ok(()) };
            let quiet = call.visits.iter().all(|v| match world.chat.entry(*v).unwrap().body {
                Body::Visited(v) => v.change.left.is_empty(),
                _ => false,
            });
            if quiet && call.closed.is_empty() {
                prop_assert_eq!(&before.items, &call.window.items);
                prop_assert_eq!(before.digest, call.window.digest);
            }
            let filed = call.id.0 - head.0;
            prop_assert_eq!(filed, 1 + call.visits.len() as u64 + call.closed.len() as u64);
            calls.push(call);
        }
        // What could be done was done at the first call, what was held for one call at the second,
        // and each fruitless look was filed once.
        prop_assert!(calls[3].visits.is_empty(), "visits go on: {:?}", calls[3]);
        world.reopen();
        prop_assert_eq!(world.chat.window().unwrap().digest, calls[3].window.digest);
    }

    #[test]
    fn envelope_and_request(script in script()) {
        let world = World::run(&script);
        let entries = world.entries();
        let all = moments(&entries);
        for (before, entry) in all.iter().zip(entries.iter().skip(1)) {
            let after = &all[entry.seq.0 as usize];
            if let Body::Visited(_) = entry.body {
                for id in before.window.iter().filter(|id| before.in_envelope(**id) || before.in_request(**id)) {
                    prop_assert!(after.window.contains(id), "{} took m{id}", entry.seq);
                }
            }
            if let Body::Called(_) = entry.body {
                for m in after.messages.iter().filter(|m| after.in_envelope(m.id) || after.in_request(m.id)) {
                    prop_assert!(after.window.contains(&m.id), "m{} is not in call {}", m.id, entry.seq);
                }
            }
        }
    }

    #[test]
    fn legality(script in script()) {
        let world = World::run(&script);
        for sent in world.chat.with_projection(|p| p.sent().to_vec()).unwrap() {
            let loaded = world.chat.load(world.chat.window_after(sent.fact.seq).unwrap()).unwrap();
            for profile in [Profile::OpenAiChat, Profile::Anthropic] {
                let items = loaded.rendered_items();
                let body = render(profile, &items, &loaded.settings, &loaded.settings_format, Some("m"), false).body;
                let value: serde_json::Value = serde_json::from_str(&body).unwrap();
                let hard: Vec<_> = lint(profile, &value).into_iter().filter(|p| p.hard).collect();
                prop_assert!(hard.is_empty(), "{profile:?} at {}: {hard:?}\n{body}", sent.fact.seq);
            }
        }
    }

    #[test]
    fn conservation(script in script()) {
        let world = World::run(&script);
        let entries = world.entries();
        let mut fold = Projection::default();
        for (entry, moment) in entries.iter().zip(moments(&entries)) {
            fold.apply(entry);
            for m in &moment.messages {
                let id = MessageId(Seq(m.id));
                let state = match fold.conservation(id) {
                    Some(Conservation::Visible) => "visible",
                    Some(Conservation::Gone) => "evicted",
                    Some(Conservation::Covered) => "covered",
                    None => "lost",
                };
                prop_assert_eq!(Some(state), moment.fate(m.id), "m{} after {}", m.id, entry.seq);
                prop_assert_eq!(state == "visible", moment.window.contains(&m.id));
            }
        }
    }

    #[test]
    fn accounting(script in script()) {
        let world = World::run(&script);
        let entries = world.entries();
        let all = moments(&entries);
        for (before, entry) in all.iter().zip(entries.iter().skip(1)) {
            let after = &all[entry.seq.0 as usize];
            if let Body::Visited(v) = &entry.body {
                account(before, after, v).map_err(|e| TestCaseError::fail(format!("{}: {e}\n{v:?}", entry.seq)))?;
            }
        }
    }

    #[test]
    fn order(script in script(), times in proptest::collection::vec(any::<i32>(), 1..9)) {
        let other = Script { times: times.into_iter().map(i64::from).collect(), ..script.clone() };
        let (one, two) = (World::run(&script), World::run(&other));
        prop_assert_eq!(one.entries().len(), two.entries().len());
        for entry in one.entries() {
            let (a, b) = (one.chat.window_after(entry.seq).unwrap(), two.chat.window_after(entry.seq).unwrap());
            prop_assert_eq!(a, b);
        }
    }

    #[test]
    fn replay(script in script()) {
        let mut world = World::new(&script);
        let mut windows: Vec<(Seq, ctxlog::window::Window)> = Vec::new();
        for op in &script.ops {
            world.perform(op);
            let at = world.chat.head().unwrap().unwrap().seq;
            windows.push((at, world.chat.window().unwrap()));
        }
        replays(&world)?;
        world.reopen();
        for (at, window) in windows {
            prop_assert_eq!(world.chat.window_after(at).unwrap(), window);
        }
    }

    #[test]
    fn undo_of_what_a_source_did(mut source in source(), ids in proptest::collection::vec(0..20_usize, 1..6), which in 0..3_usize) {
        source.push(match which {
            0 => Said::Compacted,
            1 => Said::Cleared(ids.iter().map(|i| i % 4).collect()),
            _ => Said::Rewound(ids),
        });
        let script = Script {
            chain: Vec::new(), ids: Ids::One, policy: ctxlog::log::OpenCalls::Keep,
            ops: Vec::new(), times: vec![0],
        };
        let world = World::run_imported(&source, &script);
        let last = world.entries().last().unwrap().clone();
        let changes = last.body.change().is_some_and(|c| !c.left.is_empty() || !c.stand_ins.is_empty());
        if changes {
            undoes(&world, last.seq)?;
        }
        replays(&world)?;
    }

    #[test]
    fn laws_of_what_a_source_did_and_of_what_came_after(source in source(), script in script()) {
        let mut world = World::run_imported(&source, &script);
        replays(&world)?;
        explains(&world)?;
        keeps_groups_whole(&world)?;
        let window = world.chat.window().unwrap();
        world.reopen();
        prop_assert_eq!(world.chat.window().unwrap(), window);
    }

    #[test]
    fn isolation(one in script(), two in script()) {
        let backend = Arc::new(MemoryStore::new());
        let mut a = World::named("a", &one, backend.clone(), 1);
        let mut b = World::named("b", &two, backend, 2);
        let view = |w: &World| (w.chat.head().unwrap(), w.chat.window().unwrap(), w.sealed().len());
        for i in 0..one.ops.len().max(two.ops.len()) {
            let still = view(&b);
            one.ops.get(i).into_iter().for_each(|op| a.perform(op));
            prop_assert_eq!(view(&b), still);
            let still = view(&a);
            two.ops.get(i).into_iter().for_each(|op| b.perform(op));
            prop_assert_eq!(view(&a), still);
        }
        prop_assert_eq!(World::run(&one).sealed(), a.sealed());
    }

    #[test]
    fn undo(script in script(), pick in any::<prop::sample::Index>()) {
        let mut world = World::run(&script);
        let entries = world.entries();
        // What undoes to the exact view before is what nothing but the engine's own came after.
        let quiet = |e: &&ctxlog::log::Entry| match &e.body {
            Body::Called(_) | Body::Returned(_) | Body::Noted(_) | Body::Configured(_) => true,
            Body::Visited(v) => v.change.left.is_empty(),
            _ => false,
        };
        let after = entries.iter().rev().take_while(quiet).count();
        let Some(last) = entries.len().checked_sub(after + 1) else { return Ok(()) };
        if pick.index(2) == 0 {
            world.reopen();
        }
        let entry = &entries[last];
        let changed = entry.body.change().is_some_and(|c| !c.left.is_empty() || !c.entered.is_empty());
        if !changed {
            return Ok(());
        }
        undoes(&world, entry.seq)?;
    }

    #[test]
    fn explain(script in script()) {
        let world = World::run(&script);
        let entries = world.entries();
        explains(&world)?;
        let beyond = why(&world.chat, MessageId(Seq(0)), Seq(entries.len() as u64)).unwrap_err();
        prop_assert!(refused(&beyond, RequestReason::RangeOutOfBounds));
    }

    #[test]
    fn lifetimes(script in script()) {
        let world = World::run(&script);
        let entries = world.entries();
        let all = moments(&entries);
        let head = entries.len() as u64 - 1;
        for m in &all.last().unwrap().messages {
            let answer = why(&world.chat, MessageId(Seq(m.id)), Seq(head)).unwrap();
            let mut stays = Vec::new();
            let mut since: Option<u64> = None;
            for (n, moment) in all.iter().enumerate() {
                match (since, moment.window.contains(&m.id)) {
                    (None, true) => since = Some(n as u64),
                    (Some(from), false) => {
                        stays.push((from, n as u64, true));
                        since = None;
                    }
                    _ => {}
                }
            }
            stays.extend(since.map(|from| (from, head, false)));
            prop_assert_eq!(answer.lives.len(), stays.len());
            for (life, (from, to, ended)) in answer.lives.iter().zip(stays) {
                prop_assert_eq!(life.entered.seq.0, from);
                prop_assert_eq!(life.left.as_ref().map(|l| l.by.seq.0), ended.then_some(to));
                prop_assert_eq!(life.entries, to - from);
                let calls = entries.iter().filter(|e| matches!(e.body, Body::Called(_)) && from < e.seq.0 && e.seq.0 <= to).count();
                prop_assert_eq!(life.calls, calls as u64);
                let clock = life.left.as_ref().map(|l| (entries[from as usize].at, entries[l.by.seq.0 as usize].at));
                match clock {
                    Some((Some(a), Some(b))) if b >= a => prop_assert_eq!(life.wall_ms, Some((b.0 - a.0) as u64 / 1_000)),
                    Some((Some(_), Some(_))) => prop_assert_eq!((life.wall_ms, life.clock), (None, "went-back")),
                    _ => prop_assert_eq!(life.wall_ms, None),
                }
            }
        }
    }

    #[test]
    fn determinism(script in script()) {
        let (one, two) = (World::run(&script), World::run(&script));
        prop_assert_eq!(exported(&one), exported(&two));
    }
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn tamper(script in script(), at in any::<prop::sample::Index>(), byte in any::<prop::sample::Index>(), flip in 1..=255_u8, checksum in any::<bool>()) {
        let world = World::run(&script);
        let mut sealed = world.sealed();
        let k = at.index(sealed.len());
        let position = byte.index(sealed[k].bytes.len());
        let target = &mut sealed[k].bytes;
        target[position] ^= flip;
        if checksum && position < target.len() - entry::CHECKSUM_BYTES {
            *target = entry::with_checksum(entry::hashed(target));
        }
        let store = Store::on(rebuilt(&world, &sealed));
        let verified = verify(&store, &listed(&world), &mut |_, _| {}).unwrap();
        prop_assert!(!verified.ok);
        let first = verified.first_bad.map(|s| s.0);
        // An entry that still reads is found out by the next one, or by the head.
        let found = first == Some(k as u64) || (checksum && first == Some(k as u64 + 1));
        prop_assert!(found, "{k} was changed, {first:?} named: {:?}", verified.problems);
    }

    #[test]
    fn tamper_with_an_export(script in script(), at in any::<prop::sample::Index>(), byte in any::<prop::sample::Index>()) {
        let world = World::run(&script);
        let text = exported(&world);
        let mut lines: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let k = at.index(lines.len());
        let field = if byte.index(2) == 0 || lines[k]["payloads"].as_array().unwrap().is_empty() { "/stored" } else { "/payloads/0/bytes" };
        let place = lines[k].pointer_mut(field).unwrap();
        let mut base = place.as_str().unwrap().as_bytes().to_vec();
        let position = byte.index(base.len().saturating_sub(4).max(1));
        base[position] = if base[position] == b'A' { b'B' } else { b'A' };
        *place = String::from_utf8(base).unwrap().into();
        let mut changed = lines.iter().map(|l| Ok(l.to_string()));
        let empty = Store::in_memory();
        let error = import_lines(&empty, &mut changed, None).err();
        prop_assert!(error.is_some(), "{k} was changed unseen, of {}", lines.len());
        let said = error.map(|e| e.to_string()).unwrap_or_default();
        prop_assert!(said.contains(&format!("line {}:", k + 1)), "{k}: {said}");
        prop_assert!(empty.list().unwrap().is_empty(), "half an import: {said}");
    }

    #[test]
    fn an_export_comes_back_as_the_same_log(script in script()) {
        let world = World::run(&script);
        let text = exported(&world);
        let store = Store::in_memory();
        let take = || import_lines(&store, &mut text.lines().map(|l| Ok(l.to_owned())), None).unwrap();
        let (chat, added) = take();
        prop_assert_eq!(chat.head().unwrap(), world.chat.head().unwrap());
        prop_assert_eq!(added as usize, world.sealed().len());
        prop_assert_eq!(take().1, 0);
        let listed = store.list().unwrap().remove(0);
        let verified = verify(&store, &listed, &mut |_, _| {}).unwrap();
        prop_assert!(verified.ok, "{:?}", verified.problems);
    }

    #[test]
    fn linear_size(op in proptest::collection::vec(op(), 4..10), chain in proptest::collection::vec(spec(), 1..=2)) {
        let grown = |rounds: usize| {
            let ops: Vec<Op> = op.iter().filter(|o| !matches!(o, Op::Undo(_) | Op::Restore(_) | Op::Reopen)).cloned()
                .chain([Op::Say(ctxlog::log::Role::Assistant, ctxlog::log::Author::Model, Words(3)), Op::Call { usage: None, failed: false }])
                .collect();
            let ops = std::iter::repeat_n(ops, rounds).flatten().collect();
            let script = Script { chain: chain.clone(), ids: Ids::One, policy: ctxlog::log::OpenCalls::Close, ops, times: vec![0] };
            World::run(&script).sealed().iter().map(|s| s.bytes.len()).sum::<usize>()
        };
        let (one, two) = (grown(12), grown(24));
        prop_assert!(two <= one * 5 / 2, "{one} bytes became {two}");
    }
}

/// Undoing gives the view before, is itself one entry, and can be undone.
fn undoes(world: &World, entry: Seq) -> Result<(), TestCaseError> {
    let (before, view) = (
        world.chat.window_after(Seq(entry.0 - 1)).unwrap(),
        world.chat.window().unwrap(),
    );
    let head = world.chat.head().unwrap().unwrap().seq.0;
    let undone = world.chat.undo(entry).unwrap();
    prop_assert_eq!(undone.last.0, head + 1, "undoing is itself one entry");
    prop_assert_eq!(shown(&world.chat.window().unwrap()), shown(&before));
    let again = world.chat.undo(undone.last).unwrap();
    prop_assert_eq!(shown(&world.chat.window().unwrap()), shown(&view));
    world.chat.undo(again.last).unwrap();
    prop_assert_eq!(shown(&world.chat.window().unwrap()), shown(&before));
    let error = world.chat.undo(again.last).unwrap_err();
    prop_assert!(refused(&error, RequestReason::NothingMatches), "{}", error);
    Ok(())
}

/// Every prefix of the log folds to the window that the naive model and the conversation show.
fn replays(world: &World) -> Result<(), TestCaseError> {
    let entries = world.entries();
    let truth = moments(&entries);
    let mut fold = Projection::default();
    for (entry, moment) in entries.iter().zip(&truth) {
        fold.apply(entry);
        prop_assert_eq!(&ids(&fold.window()), &moment.window, "after {}", entry.seq);
        prop_assert_eq!(fold.digest().0, moment.digest, "after {}", entry.seq);
        prop_assert_eq!(
            fold.runs().iter().map(|s| s.0).collect::<Vec<_>>(),
            moment.runs.clone()
        );
        prop_assert_eq!(world.chat.window_after(entry.seq).unwrap(), fold.window());
        if let Body::Called(called) = &entry.body {
            prop_assert_eq!(called.window.0, moment.digest);
            prop_assert_eq!(called.messages, moment.window.len() as u64);
        }
        let groups: BTreeSet<BTreeSet<u64>> = moment
            .window
            .iter()
            .map(|id| {
                moment
                    .group(*id)
                    .into_iter()
                    .filter(|m| moment.window.contains(m))
                    .collect()
            })
            .collect();
        let window = fold.window();
        let items = |g: &Vec<usize>| g.iter().map(|i| window.items[*i].id.seq().0).collect();
        prop_assert_eq!(
            fold.groups_of(&window)
                .iter()
                .map(items)
                .collect::<BTreeSet<BTreeSet<u64>>>(),
            groups.clone()
        );
        let views = fold.group_views(&[]);
        prop_assert_eq!(
            views
                .iter()
                .map(|g| g.messages.iter().map(|m| m.seq().0).collect())
                .collect::<BTreeSet<BTreeSet<u64>>>(),
            groups
        );
    }
    let verified = verify(&world.store, &listed(world), &mut |_, _| {}).unwrap();
    prop_assert!(verified.ok, "{:?}", verified.problems);
    Ok(())
}

/// Every message, asked about at every entry, is told as the naive model saw it.
fn explains(world: &World) -> Result<(), TestCaseError> {
    let entries = world.entries();
    let all = moments(&entries);
    let end = all.last().unwrap();
    for (n, moment) in all.iter().enumerate() {
        for m in &end.messages {
            let answer = why(&world.chat, MessageId(Seq(m.id)), Seq(n as u64)).unwrap();
            explained(moment, m.id, n as u64, &answer)
                .map_err(|e| TestCaseError::fail(format!("m{} at {n}: {e}\n{answer:?}", m.id)))?;
        }
    }
    Ok(())
}

/// No window holds a part of a group; results that real ones superseded aside.
fn keeps_groups_whole(world: &World) -> Result<(), TestCaseError> {
    for moment in moments(&world.entries()) {
        for id in &moment.window {
            for member in moment.group(*id) {
                let Some(m) = moment.get(member) else {
                    continue;
                };
                let replaced = m
                    .out
                    .as_ref()
                    .is_some_and(|o| o.reason == LeftReason::Superseded);
                prop_assert!(m.out.is_none() || replaced, "m{member} is away from m{id}");
            }
        }
    }
    Ok(())
}

/// Sequences in which every batch is answered, or closed by a call, before the next one begins: in
/// those, an id adds nothing to the place.
fn batch() -> impl Strategy<Value = Vec<Op>> {
    let words = || (0..7_usize).prop_map(Words);
    let calls = (1..=8_usize, 0..=8_usize, words()).prop_map(|(count, answered, out)| {
        let back = (0..count.min(answered)).collect::<Vec<_>>();
        let results = Op::Results {
            back: back.clone(),
            interim: false,
            words: None,
            out,
        };
        let mut ops = vec![Op::Calls { count, words: None }];
        ops.extend((!back.is_empty()).then_some(results));
        ops.push(Op::Call {
            usage: None,
            failed: false,
        });
        ops
    });
    prop_oneof![3 => calls, 1 => crate::generate::say().prop_map(|op| vec![op])]
}

fn exported(world: &World) -> String {
    let mut out = Vec::new();
    export(&world.chat, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// A store that holds these entries as they are, with the payloads and blobs of the world's.
fn rebuilt(world: &World, sealed: &[Sealed]) -> Arc<dyn Backend> {
    let id = world.chat.id();
    let originals = world.sealed();
    let records = originals.iter().zip(sealed).map(|(original, changed)| {
        let payloads = (0..original.entry.body.commitments().len() as u32)
            .map(|i| world.backend.payload(id, original.entry.seq, i).unwrap());
        Record {
            seq: original.entry.seq,
            hash: original.hash,
            entry: changed.bytes.clone(),
            payloads: payloads.collect(),
        }
    });
    let birth = Some(Name {
        namespace: vec!["default".into()],
        name: "a".into(),
    });
    let batch = Batch {
        conversation: id,
        expected: None,
        birth,
        records: records.collect(),
    };
    let store = MemoryStore::new();
    for line in exported(world).lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        for blob in line["blobs"].as_array().unwrap() {
            let address: Hash = blob["address"].as_str().unwrap().parse().unwrap();
            store
                .put_blob(
                    id,
                    address,
                    &world.backend.blob(id, address).unwrap().unwrap(),
                )
                .unwrap();
        }
    }
    store.append(batch, Level::Buffered).unwrap();
    Arc::new(store)
}

/// Every group left, refused, or was not needed; what is protected refused; counts add up.
fn account(before: &Moment, after: &Moment, v: &ctxlog::log::Visited) -> Result<(), String> {
    if matches!(
        v.outcome,
        VisitOutcome::Unmeasurable | VisitOutcome::StaleMeasurement
    ) {
        return if before.window == after.window {
            Ok(())
        } else {
            Err("it changed the window".into())
        };
    }
    let left: BTreeSet<u64> = v
        .change
        .left
        .iter()
        .flat_map(|l| named(before, &l.messages))
        .collect();
    let mut reasons: BTreeMap<u64, GroupReason> = BTreeMap::new();
    for (id, spans) in &after.refusals {
        reasons.extend(
            spans
                .iter()
                .filter(|s| s.standing && s.strategy == v.strategy)
                .map(|s| (*id, s.reason)),
        );
    }
    let met = v.after.amount <= v.target;
    for id in &before.window {
        let group: Vec<u64> = before
            .group(*id)
            .into_iter()
            .filter(|m| before.window.contains(m))
            .collect();
        let leaving = group.iter().filter(|m| left.contains(m)).count();
        let refusing = group.iter().filter(|m| reasons.contains_key(m)).count();
        match (leaving, refusing) {
            (l, 0) if l == group.len() => {}
            (0, r) if r == group.len() => {}
            (0, 0) if met && v.target > 0 => {}
            other => return Err(format!("{group:?}: {other:?} left and refused")),
        }
        let protected = protection(before, &group);
        match (protected, reasons.get(id)) {
            (Some(reason), Some(said)) if reason != *said => {
                return Err(format!("m{id} refuses as {said}, not {reason}"));
            }
            (Some(reason), None) if leaving > 0 => {
                return Err(format!("m{id} left in spite of {reason}"));
            }
            _ => {}
        }
    }
    adds_up(before, after, v, &left)
}

/// What is gone is what was named, and the measures are those of the windows.
fn adds_up(
    before: &Moment,
    after: &Moment,
    v: &ctxlog::log::Visited,
    left: &BTreeSet<u64>,
) -> Result<(), String> {
    let gone: BTreeSet<u64> = before
        .window
        .iter()
        .filter(|id| !after.window.contains(id))
        .copied()
        .collect();
    if gone != *left {
        return Err(format!("{gone:?} are gone, {left:?} named"));
    }
    let first = before
        .window
        .iter()
        .find(|id| gone.contains(id))
        .map(|id| before.get(*id).unwrap().place);
    if v.first_changed.map(|s| s.0) != first {
        return Err(format!("first changed is {first:?}"));
    }
    let short = v.after.amount.saturating_sub(v.target);
    if (v.outcome == VisitOutcome::Short) != (short > 0) || v.shortfall.unwrap_or(0) != short {
        return Err("outcome and shortfall disagree".into());
    }
    for (moment, reading) in [(before, &v.before), (after, &v.after)] {
        let counted = counted(moment, reading.unit);
        if counted.is_some_and(|c| c != reading.amount) {
            return Err(format!("{reading:?} is {counted:?}"));
        }
    }
    Ok(())
}

/// The first reason why the log itself holds a group.
fn protection(m: &Moment, group: &[u64]) -> Option<GroupReason> {
    let whole = m.group(group[0]);
    if group.iter().any(|id| m.in_request(*id)) {
        return Some(GroupReason::CurrentRequest);
    }
    if group.iter().any(|id| m.in_envelope(*id)) {
        return Some(GroupReason::SystemEnvelope);
    }
    if m.open.iter().any(|(id, _)| whole.contains(id)) {
        return Some(GroupReason::UnresolvedToolCall);
    }
    let restored = |id: &u64| {
        m.get(*id)
            .and_then(|m| m.restored)
            .is_some_and(|at| m.calls.len() as u64 <= at)
    };
    group.iter().any(restored).then_some(GroupReason::Pinned)
}

/// Groups, messages or requests outside the envelope.
fn counted(m: &Moment, unit: Unit) -> Option<u64> {
    let mut groups: BTreeSet<BTreeSet<u64>> = BTreeSet::new();
    for id in &m.window {
        groups.insert(
            m.group(*id)
                .into_iter()
                .filter(|g| m.window.contains(g))
                .collect(),
        );
    }
    groups.retain(|g| !g.iter().all(|id| m.in_envelope(*id)));
    let place = |id: &u64| m.get(*id).unwrap().place;
    let run = |g: &BTreeSet<u64>| {
        m.runs
            .iter()
            .filter(|r| **r <= g.iter().map(place).max().unwrap())
            .count()
    };
    match unit {
        Unit::Group => Some(groups.len() as u64),
        Unit::Message => Some(groups.iter().map(BTreeSet::len).sum::<usize>() as u64),
        Unit::Request => Some(groups.iter().map(run).collect::<BTreeSet<_>>().len() as u64),
        _ => None,
    }
}

/// Compares an answer with what the naive model saw.
pub fn explained(moment: &Moment, id: u64, n: u64, answer: &Why) -> Result<(), String> {
    let check = |what: &str, equal: bool| {
        if equal {
            Ok(())
        } else {
            Err(format!("{what} differs"))
        }
    };
    let status = moment.fate(id).unwrap_or("not-yet");
    check("status", answer.status == status)?;
    let saw: Vec<u64> = (1..)
        .zip(&moment.calls)
        .filter(|(_, (_, w))| w.contains(&id))
        .map(|(i, _)| i)
        .collect();
    check("seen_by.calls", answer.seen_by.calls == saw.len() as u64)?;
    check(
        "first",
        answer.seen_by.first_iteration == saw.first().copied().map(Iteration),
    )?;
    check(
        "last",
        answer.seen_by.last_iteration == saw.last().copied().map(Iteration),
    )?;
    let before = moment.calls.iter().filter(|(at, _)| *at < n).count() as u64;
    let here = (answer.at.seq.0, answer.at.iteration.0);
    check("at", here == (n, before + 1))?;
    let missed = moment
        .calls
        .iter()
        .filter(|(at, w)| *at > id && !w.contains(&id))
        .count();
    check("missed_by", answer.missed_by.calls == missed as u64)?;
    let message = moment.get(id);
    check(
        "forms",
        answer.forms.len() == message.map_or(0, |m| m.forms.len()),
    )?;
    let out = message.and_then(|m| m.out.as_ref());
    let covering = out.filter(|_| status == "covered").and_then(|o| o.stand_in);
    check(
        "stands_for_it",
        answer.stands_for_it.map(|s| s.0) == covering,
    )?;
    let left = answer.lives.last().and_then(|l| l.left.as_ref());
    if let (Some(left), Some(out)) = (left, out.filter(|o| o.reason != LeftReason::Superseded)) {
        check("left", left.by.seq.0 == out.by && left.reason == out.reason)?;
    }
    check(
        "restore",
        answer.restore.is_some()
            == (status == "evicted" || (status == "covered" && answer.restore.is_some())),
    )?;
    let spans = moment.refusals.get(&id).map_or(&[][..], Vec::as_slice);
    check("refusals", answer.refusals.len() == spans.len())?;
    for (said, span) in answer.refusals.iter().zip(spans) {
        let same = said.reason == span.reason
            && said.strategy == span.strategy
            && said.first.seq.0 == span.first
            && said.last.seq.0 == span.last
            && said.visits == span.visits;
        check("a refusal", same)?;
    }
    Ok(())
}

/// `missed_by` counts the calls filed after the message that did not see it.
#[test]
fn missed_calls_are_those_after_logging_that_did_not_see_it() {
    let script = Script {
        chain: vec!["sliding-window:keep=1".into()],
        ids: Ids::One,
        policy: ctxlog::log::OpenCalls::Close,
        ops: Vec::new(),
        times: vec![0],
    };
    let world = World::new(&script);
    world.append(ctxlog::log::Message::model("old")).unwrap();
    world.append(ctxlog::log::Message::person("ask")).unwrap();
    (0..3).for_each(|_| drop(world.chat.call().unwrap()));
    let old = world.chat.with_projection(|p| p.messages()[0].id).unwrap();
    let head: Head = world.chat.head().unwrap().unwrap();
    let answer = why(&world.chat, old, head.seq).unwrap();
    assert_eq!((answer.seen_by.calls, answer.missed_by.calls), (0, 3));
    let mut n = 0;
    world
        .store
        .entries(world.chat.id(), Seq(0), head.seq, &mut |_| {
            n += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(n, head.seq.0 + 1);
}
