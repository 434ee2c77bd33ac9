//! Laws on what questions answer.

use super::snapshots::same_reasons;
use super::{Found, counted, demand};
use crate::audit::{Stay, Why, why};
use crate::log::{
    Body, Change, Iteration, LeftReason, Message, MessageId, RequestReason, Seq, StandInKind,
};
use crate::testkit::case::{Case, Run};
use crate::testkit::model::Moment;

/// Every message, asked about at every entry, is told as the naive fold saw it.
pub(super) fn explain(case: &Case<'_>) -> Found {
    let run = case.run()?;
    told_throughout(run)?;
    same_reasons(&run.world, run.world.chat.name(), run.entries.len())?;
    // Contents also go back while their message is away, as it is after some more rounds.
    let world = case.fresh()?;
    for round in 0..4 {
        // What is refused (an open call, say) leaves the log as it is.
        let _ = world.chat.append(Message::person(format!("round {round}")));
        let _ = world.chat.append(Message::model("done"));
        let _ = world.chat.call();
    }
    let mut undone = false;
    for entry in world.entries()? {
        let change = entry.body.change();
        let forms = |c: &Change| c.stand_ins.iter().any(|s| s.kind == StandInKind::Form);
        if change.is_some_and(forms) {
            undone |= world.chat.undo(entry.seq).is_ok();
        }
    }
    if undone {
        told_throughout(&Run::of(world)?)?;
    }
    Ok(())
}

fn told_throughout(run: &Run) -> Found {
    for (entry, moment) in run.entries.iter().zip(&run.moments) {
        for m in &run.end()?.messages {
            let answer = why(&run.world.chat, MessageId(Seq(m.id)), entry.seq)?;
            told(moment, m.id, entry.seq.0, &answer)
                .map_err(|e| format!("why m{} at {}: {e}; {answer:?}", m.id, entry.seq))?;
        }
    }
    let beyond = Seq(counted(run.entries.len()));
    let reason = match why(&run.world.chat, MessageId(Seq(0)), beyond) {
        Err(error) => error.refusal().map(|r| r.reason),
        Ok(_) => None,
    };
    demand!(
        reason == Some(RequestReason::RangeOutOfBounds),
        "why answers beyond the head: {reason:?}"
    );
    Ok(())
}

/// Compares an answer with what the naive fold saw.
fn told(moment: &Moment, id: u64, n: u64, answer: &Why) -> Result<(), String> {
    let check = |what: &str, equal: bool| {
        if equal {
            Ok(())
        } else {
            Err(format!("{what} differs"))
        }
    };
    let status = moment.fate(id).unwrap_or("not-yet");
    check("status", answer.status == status)?;
    saw(moment, id, n, answer)?;
    let message = moment.get(id);
    check(
        "forms",
        answer.forms.len() == message.map_or(0, |m| m.forms.len()),
    )?;
    let out = message.and_then(|m| m.out.as_ref());
    let covering = out
        .filter(|_| status == "covered")
        .and_then(|out| out.stand_in);
    check(
        "stands_for_it",
        answer.stands_for_it.map(|s| s.0) == covering,
    )?;
    let left = answer.lives.last().and_then(|life| life.left.as_ref());
    if let (Some(left), Some(out)) = (left, out.filter(|o| o.reason != LeftReason::Superseded)) {
        check("left", left.by.seq.0 == out.by && left.reason == out.reason)?;
    }
    let way_back = answer.restore.is_some();
    check(
        "restore",
        way_back == (status == "evicted") || (status == "covered" && way_back),
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

/// The calls that saw a message, and those after it that did not.
fn saw(moment: &Moment, id: u64, n: u64, answer: &Why) -> Result<(), String> {
    let check = |what: &str, equal: bool| {
        if equal {
            Ok(())
        } else {
            Err(format!("{what} differs"))
        }
    };
    let numbered = (1..).zip(&moment.calls);
    let saw: Vec<u64> = numbered
        .filter(|(_, (_, w))| w.contains(&id))
        .map(|(i, _)| i)
        .collect();
    let missed = moment
        .calls
        .iter()
        .filter(|(at, w)| *at > id && !w.contains(&id))
        .count();
    let before = moment.calls.iter().filter(|(at, _)| *at < n).count();
    let iteration = counted(before).saturating_add(1);
    check(
        "at",
        (answer.at.seq.0, answer.at.iteration.0) == (n, iteration),
    )?;
    check("seen_by.calls", answer.seen_by.calls == counted(saw.len()))?;
    let (first, last) = (saw.first().copied(), saw.last().copied());
    check(
        "first_iteration",
        answer.seen_by.first_iteration == first.map(Iteration),
    )?;
    check(
        "last_iteration",
        answer.seen_by.last_iteration == last.map(Iteration),
    )?;
    check("missed_by", answer.missed_by.calls == counted(missed))
}

/// The lives of every message are the stretches of moments that hold it, and their lengths are
/// differences of entries and calls; wall time is told only where the clock went forward.
pub(super) fn lifetimes(case: &Case<'_>) -> Found {
    let run = case.run()?;
    let Some(head) = run.entries.last() else {
        return Ok(());
    };
    for m in &run.end()?.messages {
        let answer = why(&run.world.chat, MessageId(Seq(m.id)), head.seq)?;
        let stays = stays(run, m.id);
        demand!(
            answer.lives.len() == stays.len(),
            "m{} has {} lives of {}",
            m.id,
            answer.lives.len(),
            stays.len()
        );
        for (life, stay) in answer.lives.iter().zip(stays) {
            measured(run, life, stay, head.seq.0)
                .map_err(|e| format!("m{}: {e}; {life:?}", m.id))?;
        }
    }
    Ok(())
}

/// From which entry, and up to which, the naive fold has a message in the window.
fn stays(run: &Run, id: u64) -> Vec<(u64, Option<u64>)> {
    let mut stays: Vec<(u64, Option<u64>)> = Vec::new();
    for (entry, moment) in run.entries.iter().zip(&run.moments) {
        let open = stays.last_mut().filter(|(_, to)| to.is_none());
        match (open, moment.window.contains(&id)) {
            (None, true) => stays.push((entry.seq.0, None)),
            (Some((_, to)), false) => *to = Some(entry.seq.0),
            _ => {}
        }
    }
    stays
}

fn measured(
    run: &Run,
    life: &Stay,
    (from, to): (u64, Option<u64>),
    head: u64,
) -> Result<(), String> {
    let check = |what: &str, equal: bool| {
        if equal {
            Ok(())
        } else {
            Err(format!("{what} is wrong"))
        }
    };
    let end = to.unwrap_or(head);
    check("its beginning", life.entered.seq.0 == from)?;
    check("its end", life.left.as_ref().map(|l| l.by.seq.0) == to)?;
    check(
        "its number of entries",
        life.entries == end.saturating_sub(from),
    )?;
    let within = |seq: u64| from < seq && seq <= end;
    let calls = run
        .entries
        .iter()
        .filter(|e| matches!(e.body, Body::Called(_)) && within(e.seq.0));
    check("its number of calls", life.calls == counted(calls.count()))?;
    let at = |seq: u64| {
        run.entries
            .iter()
            .find(|e| e.seq.0 == seq)
            .and_then(|e| e.at)
    };
    let passed = to.and_then(|to| Some(at(to)?.0.saturating_sub(at(from)?.0)));
    match passed {
        Some(micros) if micros < 0 => check(
            "its wall time",
            life.wall_ms.is_none() && life.clock == "went-back",
        ),
        Some(micros) => check(
            "its wall time",
            life.wall_ms == u64::try_from(micros / 1_000).ok(),
        ),
        None => check("its wall time", life.wall_ms.is_none()),
    }
}
