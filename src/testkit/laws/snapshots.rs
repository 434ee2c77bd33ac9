//! Windows of the past read from snapshots, and without them.

use std::sync::Arc;

use super::{Found, demand};
use crate::audit::why;
use crate::engine::Store;
use crate::log::Seq;
use crate::testkit::world::{Failure, World};
use crate::window::{Outline, Pace, Projection, Window};

/// Every window of a log, by the fold.
fn folded(world: &World) -> Result<Vec<(Window, Outline)>, Failure> {
    let mut fold = Projection::default();
    let mut all = Vec::new();
    for entry in world.entries()? {
        fold.apply(&entry);
        all.push((fold.window(), Outline::of(&fold)));
    }
    Ok(all)
}

/// Opened anew, the log gives the same windows without being folded as a whole: with no snapshot,
/// with some, with damaged ones among them, with those of another history, and with one after every
/// entry.
pub(super) fn with_and_without_snapshots(world: &World, name: &str) -> Found {
    let all = folded(world)?;
    let look = |what: &str| same(world, name, &all, what);
    look("without snapshots")?;
    for every in [5, 2] {
        take(world, name, every)?;
        look(&format!("with a snapshot every {every} entries"))?;
    }
    let id = world.chat.id();
    let last = u64::try_from(all.len()).unwrap_or(0);
    let newest = format!("window/{last:016x}");
    let found = world.backend.derived_before(id, "window/", &newest)?;
    demand!(found.is_some() || last < 2, "no snapshot was kept");
    if let Some((name, mut bytes)) = found {
        bytes.iter_mut().skip(1).take(1).for_each(|b| *b ^= 1);
        world.backend.put_derived(id, &name, &bytes)?;
        look("with a snapshot of another history")?;
        bytes.truncate(bytes.len() / 2);
        world.backend.put_derived(id, &name, &bytes)?;
        look("with a damaged snapshot")?;
    }
    take(world, name, 1)?;
    look("with a snapshot after every entry")
}

/// Why each message is in the window or not, now and at a few moments, each asked of a log of which
/// nothing is held, with snapshots among its entries.
pub(super) fn same_reasons(world: &World, name: &str, entries: usize) -> Found {
    take(world, name, 5)?;
    let ids: Vec<_> = world
        .chat
        .with_projection(|p| p.messages().iter().map(|m| m.id).collect())?;
    let last = u64::try_from(entries).unwrap_or(0).saturating_sub(1);
    for id in ids {
        let born = id.seq().0;
        for n in [last, born.saturating_add(last) / 2, born / 2] {
            let chat = anew(world).existing(name)?;
            let (told, known) = (why(&chat, id, Seq(n))?, why(&world.chat, id, Seq(n))?);
            demand!(told == known, "{id} at s:{n}: {told:?}, not {known:?}");
        }
    }
    Ok(())
}

fn anew(world: &World) -> Store {
    Store::on(Arc::clone(&world.backend))
}

/// Folds the log, so that the snapshots are taken that are due at this pace.
fn take(world: &World, name: &str, every: u64) -> Result<(), Failure> {
    // What is kept already is not taken again up to there: the rule is the same for all who fold.
    let chat = anew(world).with_pace(Pace::every(every)).existing(name)?;
    chat.take_snapshots()?;
    Ok(())
}

fn same(world: &World, name: &str, all: &[(Window, Outline)], what: &str) -> Found {
    let chat = anew(world).existing(name)?;
    for (seq, (window, outline)) in (0..).map(Seq).zip(all) {
        let read = chat.outline_after(seq)?;
        demand!(
            read == *outline,
            "after {seq}, {what}: {read:?}, not {outline:?}"
        );
        let read = chat.window_after(seq)?;
        demand!(read == *window, "after {seq}, {what}: another window");
    }
    let calls = chat.calls()?;
    for iteration in (1..=calls.saturating_add(1)).map(crate::log::Iteration) {
        let filed = world
            .chat
            .with_projection(|p| p.call(iteration).map(|s| s.fact.seq))?;
        demand!(
            chat.call_filed(iteration)? == filed,
            "{iteration} is another entry than {filed:?}"
        );
    }
    Ok(())
}
