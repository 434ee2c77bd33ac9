//! The real engine against the model, step by step.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::decide::Model;
use super::fold::messages_of;
use crate::engine::Content;
use crate::log::{Entry, Message, Seq, Visited};
use crate::strategy::Strategy;
use crate::testkit::case::Case;
use crate::testkit::script::Script;
use crate::testkit::world::{Answer, Failure, Request, World};
use crate::window::{Conservation, MessageState};

/// Does a script on the real engine and on the model. After every operation the answer, the entries,
/// the window with its digest, the groups, runs and open calls must be the same. Gives the number of
/// entries that were compared.
///
/// # Errors
/// The operation and what differs; also when an operation fails.
pub fn check_against_model(script: &Script, own: &[Arc<dyn Strategy>]) -> Result<u64, Failure> {
    let mut world = World::new(script, own)?;
    let mut model = Model::new();
    model.observe(None, &world.entries()?)?;
    for (line, op) in (1_u32..).zip(&script.ops) {
        world
            .perform_seen(op, |world, request, answer| {
                step(&mut model, world, request, answer)
            })
            .map_err(|e| format!("operation {line}: {e}"))?;
    }
    Ok(model.next())
}

/// The check of a case: against the model step by step; where it goes on after an import, the fold of
/// the whole log, for what a source did is no request that could be predicted.
///
/// # Errors
/// What differs; also when an operation fails.
pub fn check_case(case: &Case<'_>, imported: bool) -> Result<(), Failure> {
    if !imported {
        return check_against_model(case.script, case.own()).map(drop);
    }
    let run = case.run()?;
    let mut model = Model::new();
    model.observe(None, &run.entries)?;
    same_window(&model, &run.world)
}

fn step(
    model: &mut Model,
    world: &World,
    request: &Request,
    answer: Answer,
) -> Result<(), Failure> {
    let from = match (request, answer) {
        (Request::Fork { at, .. }, Answer::Done) => at.next().0,
        _ => model.next(),
    };
    let new = entries_from(world, from)?;
    let visits: Vec<&Visited> = new.iter().filter_map(|e| e.body.visit()).collect();
    for entry in &new {
        for (payload, words) in words_of(world, entry)? {
            model.read(entry.seq, payload, words);
        }
    }
    let summaries = &world.summaries;
    model.summaries(summaries.answers(), summaries.happened());
    let predicted = model.predict(request, &visits)?;
    predicted.matches(answer, &new)?;
    model.observe(Some(request), &new)?;
    if let (Request::Redact(_), Answer::Done) = (request, answer) {
        let said = model.said_gone();
        model.lose(&said);
    }
    if matches!(request, Request::Redact(_) | Request::Fork { .. }) {
        same("what is gone", model.gone(), &gone_of(world)?)?;
    }
    same_window(model, world)
}

/// The payloads of a world's log that are not there.
pub(in crate::testkit) fn gone_of(world: &World) -> Result<BTreeSet<(u64, u32)>, Failure> {
    let mut gone = BTreeSet::new();
    for entry in world.entries()? {
        for (index, _) in (0..).zip(entry.body.commitments()) {
            let held = world
                .store
                .backend()
                .payload(world.chat.id(), entry.seq, index)?;
            if held.is_none() {
                gone.insert((entry.seq.0, index));
            }
        }
    }
    Ok(gone)
}

/// The messages that an entry gave.
fn words_of(world: &World, entry: &Entry) -> Result<Vec<(u32, Message)>, Failure> {
    let mut out = Vec::new();
    for payload in 0..messages_of(&entry.body) {
        if let Content::Message(words) = world.chat.content(entry.seq, payload)? {
            out.push((payload, *words));
        }
    }
    Ok(out)
}

fn entries_from(world: &World, from: u64) -> Result<Vec<Entry>, Failure> {
    let mut new = Vec::new();
    let head = world.head()?;
    if head.0 >= from {
        let (store, id) = (&world.store, world.chat.id());
        store.entries(id, Seq(from), head, &mut |sealed| {
            new.push(sealed.entry);
            ControlFlow::Continue(())
        })?;
    }
    Ok(new)
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, model: &T, engine: &T) -> Result<(), Failure> {
    if model == engine {
        return Ok(());
    }
    Err(format!("{what} differ\nmodel: {model:?}\nengine: {engine:?}").into())
}

fn same_window(model: &Model, world: &World) -> Result<(), Failure> {
    let now = model.now();
    let window = world.chat.window()?;
    let ids: Vec<u64> = window.items.iter().map(|i| i.id.0.0).collect();
    same("windows", &now.window, &ids)?;
    same("digests", &now.hash(), &window.digest.0)?;
    let (groups, runs, open, fates) = world.chat.with_projection(|p| {
        let ids = |of: Vec<usize>| -> Vec<u64> {
            let items = of.into_iter().filter_map(|at| window.items.get(at));
            items.map(|i| i.id.0.0).collect()
        };
        let groups = p.groups_of(&window).into_iter().map(ids);
        let open = p.open_calls().map(|((seq, part), _)| (seq.0, part));
        let runs = p.runs().iter().map(|seq| seq.0);
        let mut groups: Vec<Vec<u64>> = groups.collect();
        groups.sort_unstable();
        let fate = |m: &MessageState| {
            let fate = p.conservation(m.id).map(|fate| match fate {
                Conservation::Visible => "visible",
                Conservation::Covered => "covered",
                Conservation::Gone => "evicted",
            });
            (m.id.0.0, fate)
        };
        let fates: Vec<_> = p.messages().iter().map(fate).collect();
        (groups, runs.collect::<Vec<_>>(), open.collect(), fates)
    })?;
    let mut by_model: Vec<Vec<u64>> = now.groups().into_iter().map(|g| g.ids).collect();
    by_model.sort_unstable();
    same("groups", &by_model, &groups)?;
    same("runs", &now.runs, &runs)?;
    same("open calls", &now.open, &open)?;
    let by_model: Vec<_> = now
        .messages
        .iter()
        .map(|m| (m.id, now.fate(m.id)))
        .collect();
    same("whereabouts", &by_model, &fates)
}
