//! Laws on logs that share a store, or a moment.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::bytes::exported;
use super::{Found, demand};
use crate::audit::verify;
use crate::engine::Store;
use crate::log::entry::Sealed;
use crate::log::{Hash, Head, Message, Seq, payload};
use crate::store::{Backend, Batch, Level, MemoryStore, Name, Payload, Record};
use crate::testkit::case::Case;
use crate::testkit::script::{Op, Script};
use crate::testkit::world::{Failure, Request, World};
use crate::window::{Projection, Window};

/// What happens in one conversation of a store shows in no other, and leaves no trace in its log.
pub(super) fn isolation(case: &Case<'_>) -> Found {
    let mut other = case.script.clone();
    other.ops.reverse();
    let backend: Arc<dyn Backend> = Arc::new(MemoryStore::new());
    let on = |name, script: &Script, seed| {
        World::on(Arc::clone(&backend), name, script, case.own(), seed)
    };
    let (mut a, mut b) = (on("a", case.script, 1)?, on("b", &other, 2)?);
    let view = |w: &World| -> Result<_, Failure> {
        Ok((
            w.chat.head()?,
            w.chat.window()?,
            w.backend.head(w.chat.id())?,
        ))
    };
    for (one, two) in case.script.ops.iter().zip(&other.ops) {
        let still = view(&b)?;
        a.perform(one)?;
        demand!(
            view(&b)? == still,
            "'{one}' in one conversation changed a view of another"
        );
        let still = view(&a)?;
        b.perform(two)?;
        demand!(
            view(&a)? == still,
            "'{two}' in one conversation changed a view of another"
        );
    }
    for (world, name, script, seed) in [(&a, "a", case.script, 1), (&b, "b", &other, 2)] {
        let alone = || -> Result<_, Failure> {
            let mut world =
                World::on(Arc::new(MemoryStore::new()), name, script, case.own(), seed)?;
            world.perform_all(&script.ops)?;
            exported(&world)
        };
        let once = alone()?;
        demand!(
            exported(world)? == once || alone()? != once, // else it is no neighbour's doing
            "a neighbour in the store left a trace in the log of '{name}'"
        );
    }
    forks_are_apart(case)
}

type View = (Option<Head>, [Window; 2]);

/// Whether an operation elsewhere changed no view. A redaction is said in every log that shows the
/// words, so those logs grow, and their windows stay what they are.
fn is_still(op: &Op, before: &View, now: &View) -> bool {
    let [(_, [before_window, _]), (_, [window, _])] = [before, now];
    let windows = before_window.items == window.items && before_window.digest == window.digest;
    match op {
        Op::Redact(_) | Op::RedactAll => windows,
        _ => before == now,
    }
}

/// What is seen of a conversation: its head, its window, and one of an earlier place.
fn view(world: &World, script: &Script) -> Result<View, Failure> {
    let back = script.pick("view", 30);
    let earlier = world.chat.window_after(world.back_from_head(back)?)?;
    Ok((world.chat.head()?, [world.chat.window()?, earlier]))
}

/// A conversation, forks of it and forks of those: what happens in one shows in no other.
fn forks_are_apart(case: &Case<'_>) -> Found {
    let script = case.script;
    let mut worlds = vec![World::new(script, case.own())?];
    let most = script.pick("worlds", 4).saturating_add(2);
    for (n, op) in script.ops.iter().enumerate() {
        let pick = |what: &str, bound| script.pick(&format!("{what} {n}"), bound);
        let one = pick("world", worlds.len());
        if worlds.len() < most && pick("fork", 4) == 0 {
            let parent = worlds.get(one).ok_or("no world")?;
            let at = parent.back_from_head(pick("at", 30))?;
            let fork = parent.forked(at, &format!("fork {n}"))?;
            worlds.push(fork);
        }
        let views = |worlds: &[World]| -> Result<Vec<_>, Failure> {
            worlds.iter().map(|world| view(world, script)).collect()
        };
        let still = views(&worlds)?;
        if let Some(world) = worlds.get_mut(one) {
            world.perform(op)?;
        }
        for (number, (before, now)) in still.iter().zip(views(&worlds)?).enumerate() {
            demand!(
                number == one || is_still(op, before, &now),
                "'{op}' in one fork changed a view of another"
            );
        }
    }
    Ok(())
}

/// Every prefix of a log is a crash that could have happened: it opens, verifies, shows the window
/// of its last entry, and takes the next append.
pub(super) fn crash(case: &Case<'_>) -> Found {
    let run = case.run()?;
    let cut = case
        .script
        .pick("crash", run.entries.len())
        .saturating_add(1);
    let store = Store::on(prefix(&run.world, cut)?);
    let chat = store.existing("a")?;
    let last = run
        .entries
        .get(cut.saturating_sub(1))
        .ok_or("an empty log")?;
    demand!(
        chat.head()?.map(|h| h.seq) == Some(last.seq),
        "cut after {}, another head is shown",
        last.seq
    );
    let window = run.world.chat.window_after(last.seq)?;
    // Once from the entries alone, and once as the log is folded for the next append.
    let shown = [chat.window()?, chat.with_projection(Projection::window)?];
    demand!(
        shown.iter().all(|shown| *shown == window),
        "cut after {}, another window is shown",
        last.seq
    );
    let ack = chat.append(Message::person("and now?"))?;
    demand!(
        ack.first == last.seq.next(),
        "cut after {}, the next append is {}",
        last.seq,
        ack.first
    );
    let mut all = store.list()?.into_iter();
    let listed = all.find(|l| l.conversation == chat.id());
    let listed = listed.ok_or("it is not listed")?;
    let verified = verify(&store, &listed, &mut |_, _| {})?;
    demand!(
        verified.chain == "ok",
        "cut after {}: {:?}",
        last.seq,
        verified.problems
    );
    Ok(())
}

/// A store that holds the first entries of a world's log, as a crash would have left it: a fork's in
/// the logs that have them. The last of these is `a`.
fn prefix(world: &World, entries: usize) -> Result<Arc<dyn Backend>, Failure> {
    let store = MemoryStore::new();
    let mut all = world.sealed()?;
    all.truncate(entries);
    let last = all.last().map(|sealed| sealed.entry.conversation);
    let mut logs: Vec<Vec<Sealed>> = Vec::new();
    for sealed in all {
        let same = |log: &&mut Vec<Sealed>| {
            let id = log.first().map(|first| first.entry.conversation);
            id == Some(sealed.entry.conversation)
        };
        match logs.last_mut().filter(same) {
            Some(log) => log.push(sealed),
            None => logs.push(vec![sealed]),
        }
    }
    for (n, log) in logs.into_iter().enumerate() {
        let id = log.first().map(|first| first.entry.conversation);
        let name = if id == last {
            "a".to_owned()
        } else {
            n.to_string()
        };
        copy(world, log, name, &store)?;
    }
    Ok(Arc::new(store))
}

/// Stores one log, whole or what there is of it.
fn copy(world: &World, log: Vec<Sealed>, name: String, store: &MemoryStore) -> Found {
    let id = log.first().ok_or("no entries")?.entry.conversation;
    let mut records = Vec::new();
    for sealed in log {
        let payloads = (0..)
            .zip(sealed.entry.body.commitments())
            .map(|(index, _)| world.backend.payload(id, sealed.entry.seq, index));
        let payloads: Vec<Option<Payload>> = payloads.collect::<Result<_, _>>()?;
        for address in blobs_of(&payloads) {
            if let Some(blob) = world.backend.blob(id, address)? {
                // Where all of a lineage look for it.
                let root = world.sealed()?.first().map_or(id, |s| s.entry.conversation);
                store.put_blob(root, address, &blob)?;
            }
        }
        records.push(Record {
            payloads,
            seq: sealed.entry.seq,
            hash: sealed.hash,
            entry: sealed.bytes,
        });
    }
    let birth = Some(Name {
        namespace: vec!["default".into()],
        name,
    });
    let batch = Batch {
        conversation: id,
        expected: None,
        birth,
        records,
    };
    store.append(batch, Level::Synced)?;
    Ok(())
}

/// The blobs that contents mention; none of what is not a message's.
fn blobs_of(payloads: &[Option<Payload>]) -> Vec<Hash> {
    let found = payloads.iter().flatten();
    let blobs = found.filter_map(|p| payload::blobs_of(&p.bytes).ok());
    blobs.flatten().collect()
}

/// Two engines that do not know of each other file in turn: accepted appends are distinct entries
/// that stay where they were acknowledged, losers are told and write nothing.
pub(super) fn concurrency(case: &Case<'_>) -> Found {
    let backend: Arc<dyn Backend> = Arc::new(MemoryStore::new());
    let on = |seed| World::on(Arc::clone(&backend), "a", case.script, case.own(), seed);
    let mut engines = [on(1)?, on(2)?];
    let mut filed: Vec<(Seq, Vec<u8>)> = Vec::new();
    for (n, op) in case.script.ops.iter().enumerate() {
        let turn = case.script.pick(&format!("turn {n}"), 2);
        let Some(world) = engines.get_mut(turn) else {
            continue;
        };
        let before = backend.head(world.chat.id())?;
        let Some(request) = world.resolve(op)? else {
            continue;
        };
        if matches!(request, Request::Reopen | Request::Fork { .. }) {
            continue; // it would let the one know of the other, or leave it
        }
        world.ask(&request)?;
        let id = world.chat.id();
        let grown = stored(backend.as_ref(), id, before)?;
        let known: BTreeSet<Seq> = filed.iter().map(|(seq, _)| *seq).collect();
        demand!(
            grown.iter().all(|(seq, _)| !known.contains(seq)),
            "'{op}' filed entries that were there"
        );
        filed.extend(grown);
        let all = stored(backend.as_ref(), id, None)?;
        let kept = filed.iter().all(|entry| all.binary_search(entry).is_ok());
        demand!(
            kept,
            "'{op}' replaced or lost entries that were acknowledged"
        );
    }
    Ok(())
}

/// The stored entries after a head.
fn stored(
    backend: &dyn Backend,
    id: crate::log::ConversationId,
    after: Option<Head>,
) -> Result<Vec<(Seq, Vec<u8>)>, Failure> {
    let mut found = Vec::new();
    let from = after.map_or(Seq(0), |head| head.seq.next());
    backend.entries(id, from, Seq(u64::MAX), &mut |seq, bytes| {
        found.push((seq, bytes.to_vec()));
        ControlFlow::Continue(())
    })?;
    Ok(found)
}
