//! Summaries: what fails changes nothing, and what came meanwhile stays.

use std::collections::BTreeSet;

use super::{Found, demand};
use crate::log::{AttemptOutcome, MessageId, Seq, StandInKind, VisitOutcome, Visited};
use crate::testkit::case::{Case, Step};

/// Whether a visit got a summary that was to stand for something.
fn answered(v: &Visited) -> bool {
    let last = v.attempts.last().map(|a| a.outcome);
    last == Some(AttemptOutcome::Ok) && v.outcome != VisitOutcome::Late
}

/// A visit whose summariser failed, or answered nothing, or too much, or too late, leaves the window as
/// it was: the same messages with the same contents.
pub(super) fn failure_neutrality(case: &Case<'_>) -> Found {
    for (step, v) in case.run()?.visits() {
        let Step { before, after, .. } = step;
        let asked = !v.attempts.is_empty() || v.outcome == VisitOutcome::Late;
        if asked && !answered(v) {
            demand!(
                before.window == after.window && before.hash() == after.hash(),
                "{}: {} changed the window",
                step.entry.seq,
                v.outcome
            );
        }
    }
    Ok(())
}

/// What entered the window after a visit's base is there after it, and a summary stands for nothing
/// but what was asked about.
pub(super) fn late_arrivals(case: &Case<'_>) -> Found {
    for (step, v) in case.run()?.visits() {
        if v.attempts.is_empty() {
            continue;
        }
        let entered = |id: &&u64| step.before.get(**id).is_some_and(|m| m.entered > v.base.0);
        let late = step.before.window.iter().filter(entered);
        let mut lost = late.filter(|id| !step.after.window.contains(id));
        if let Some(id) = lost.next() {
            let (seq, base) = (step.entry.seq, v.base);
            return Err(format!("{seq}: m{id} came after {base} and is gone").into());
        }
        let claims = v.change.stand_ins.iter();
        let claims = claims.filter(|s| s.kind == StandInKind::Claim);
        let sources: BTreeSet<u64> = super::visits::named(step.before, claims.map(|s| &s.sources));
        let asked = |id: &u64| {
            let id = MessageId(Seq(*id));
            v.attempts.iter().any(|a| a.sources.contains(id))
        };
        let mut unread = sources.iter().filter(|id| !asked(id));
        if let Some(id) = unread.next() {
            let seq = step.entry.seq;
            return Err(format!("{seq} stands for m{id}, which nobody was shown").into());
        }
    }
    Ok(())
}
