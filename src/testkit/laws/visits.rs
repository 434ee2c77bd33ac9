//! Laws on what visits do and say.

use std::collections::{BTreeMap, BTreeSet};

use super::windows::items;
use super::{Found, counted, demand};
use crate::log::{
    AttemptOutcome, Body, Commitment, Entry, GroupReason, Hash, LeftReason, MessageId, Ranges,
    Reading, Seq, Skeleton, StandInKind, Trigger, Unit, VisitOutcome, Visited,
};
use crate::strategy::visit;
use crate::testkit::case::{Case, Step};
use crate::testkit::model::Moment;
use crate::testkit::script::{Ids, Op, Script, Words};
use crate::testkit::world::{Failure, Recorded};
use crate::window::{COUNT, ESTIMATE, Measure, Projection, SCRIPT};

/// Renaming the ids of any log changes no window, group or proposal; and naming all calls alike from
/// the start changes nothing where each batch is answered, or closed by a call, before the next.
pub(super) fn occurrence(case: &Case<'_>) -> Found {
    let run = case.run()?;
    let chain = case.chain()?;
    let (mut given, mut alike) = (Projection::default(), Projection::default());
    for entry in &run.entries {
        if matches!(entry.body, Body::Visited(_) | Body::Called(_)) {
            for (position, strategy) in (0..).zip(&chain) {
                let look = |state| {
                    let chat = &run.world.chat;
                    let mut words = Recorded { chat, state };
                    visit(
                        state,
                        strategy.as_ref(),
                        position,
                        Trigger::Call,
                        &mut words,
                    )
                };
                let same = look(&given) == look(&alike);
                demand!(
                    same,
                    "before {}: {} looks at call ids",
                    entry.seq,
                    strategy.spec()
                );
            }
        }
        given.apply(entry);
        alike.apply(&renamed(entry));
        demand!(
            given.window() == alike.window(),
            "the window after {} depends on call ids",
            entry.seq
        );
        let (a, b) = (given.group_views(&[]), alike.group_views(&[]));
        demand!(a == b, "the groups after {} depend on call ids", entry.seq);
    }
    named_alike(case)
}

fn renamed(entry: &Entry) -> Entry {
    let mut entry = entry.clone();
    if let Body::Appended(appended) = &mut entry.body {
        let labels = appended
            .skeleton
            .parts
            .iter_mut()
            .filter_map(|p| p.label.as_mut());
        labels.for_each(|label| *label = "x".into());
    }
    entry
}

fn named_alike(case: &Case<'_>) -> Found {
    let run = |ids| -> Result<_, Failure> {
        let world = case.run_of(&Script {
            ids,
            open_calls: crate::log::OpenCalls::Close,
            ops: in_batches(&case.script.ops),
            ..case.script.clone()
        })?;
        let mut seen = Vec::new();
        for entry in world.entries()? {
            let window = items(&world.chat.window_after(entry.seq)?);
            seen.push((window, answers(&entry), visited(entry)));
        }
        Ok(seen)
    };
    let (unique, one) = (run(Ids::Unique)?, run(Ids::One)?);
    let differs = unique.iter().zip(&one).position(|(a, b)| a != b);
    let same = unique.len() == one.len() && differs.is_none();
    demand!(
        same,
        "naming all calls alike changes what happens at entry {differs:?}"
    );
    Ok(())
}

/// A visit, without the ids in what it put in the place of others.
fn visited(entry: Entry) -> Option<Visited> {
    let Body::Visited(mut visited) = entry.body else {
        return None;
    };
    for stand_in in &mut visited.change.stand_ins {
        let parts = stand_in.skeleton.parts.iter_mut();
        parts.for_each(|p| p.label = None);
        stand_in.content = NO_CONTENT;
    }
    // They are over commitments, and those over the words with their ids.
    for attempt in &mut visited.attempts {
        (attempt.digest, attempt.prompt) = (Hash::ZERO, Hash::ZERO);
    }
    Some(*visited)
}

const NO_CONTENT: Commitment = Commitment {
    digest: Hash::ZERO,
    bytes: 0,
};

/// The messages whose calls an entry answers.
fn answers(entry: &Entry) -> BTreeSet<Seq> {
    let Body::Appended(appended) = &entry.body else {
        return BTreeSet::new();
    };
    let parts = appended.skeleton.parts.iter();
    parts.filter_map(|p| Some(p.answers?.0)).collect()
}

/// The operations in which an id adds nothing to the place: every batch of calls is followed by some
/// of its results and a call that closes the rest; a call made while it is open is answered first.
fn in_batches(ops: &[Op]) -> Vec<Op> {
    let closing = Op::Call {
        usage: None,
        failed: false,
    };
    let mut out = Vec::new();
    let mut answers = ops.iter().filter_map(|op| match op {
        Op::Results { back, out, .. } => Some((back.len(), out)),
        _ => None,
    });
    for op in ops {
        match op {
            Op::Say(..) | Op::Reason { .. } | Op::Call { .. } => out.push(op.clone()),
            Op::Calls { count, .. } => {
                out.push(op.clone());
                let results = |back, out: &Words| Op::Results {
                    back,
                    interim: false,
                    words: None,
                    out: out.clone(),
                };
                if let Some((answered, words)) = answers.next() {
                    let within = Op::Calls {
                        count: 1,
                        words: None,
                    };
                    out.extend([within, results(vec![0], words)]);
                    // In the order of the calls: which tool a result is of goes by that as well.
                    let first = |answered: usize| (0..answered).map(|n| count.saturating_sub(n));
                    out.push(results(first(answered.min(*count)).collect(), words));
                }
                out.push(closing.clone());
            }
            _ => {}
        }
    }
    out
}

/// A call that lets nothing leave and closes nothing is sent the window as it was, and files nothing
/// but itself and what its strategies said.
pub(super) fn no_op(case: &Case<'_>) -> Found {
    let mut world = case.fresh()?;
    for _ in 0..3 {
        let (before, head) = (world.chat.window()?, world.head()?);
        let Ok(call) = world.chat.call() else {
            return Ok(()); // open calls, and a policy that refuses
        };
        let mut quiet = call.closed.is_empty();
        for seq in &call.visits {
            let entry = world.chat.entry(*seq)?;
            quiet &= entry
                .body
                .change()
                .is_none_or(|c| c.left.is_empty() && c.stand_ins.is_empty());
        }
        let same = before.items == call.window.items && before.digest == call.window.digest;
        demand!(
            !quiet || same,
            "the call {} changed a window that needed no change",
            call.id
        );
        let filed = counted(call.visits.len().saturating_add(call.closed.len())).saturating_add(1);
        let grew = call.id.0.saturating_sub(head.0);
        demand!(
            grew == filed,
            "the call {} filed {grew} entries and names {filed}",
            call.id
        );
    }
    let window = world.chat.window()?;
    world.reopen()?;
    demand!(
        world.chat.window()? == window,
        "opening the store anew changed the window"
    );
    Ok(())
}

/// Every visit says where every message of the window stands: it left, it refused, or the target
/// was met without it; and its numbers are those of the windows.
pub(super) fn accounting(case: &Case<'_>) -> Found {
    let chain = case.chain()?;
    for (step, visited) in case.run()?.visits() {
        let own = chain.iter().find(|s| s.spec() == visited.strategy);
        let every = own.is_none_or(|s| s.asks_every_group());
        account(&step, visited, every).map_err(|e| format!("{}: {e}", step.entry.seq))?;
    }
    measures(case)
}

/// A visit counts in its strategy's unit, and tokens by a method are what the method gives.
fn measures(case: &Case<'_>) -> Found {
    let chain = case.chain()?;
    let mut fold = Projection::default();
    for entry in &case.run()?.entries {
        let visited = match &entry.body {
            Body::Visited(visited) if !blind(visited) => Some(visited),
            _ => None,
        };
        let own = visited.and_then(|v| Some((v, chain.iter().find(|s| s.spec() == v.strategy)?)));
        if let Some((v, strategy)) = own {
            let (unit, said) = (strategy.unit(), v.before.unit);
            demand!(
                unit == said,
                "{}: it counts in {unit} and says {said}",
                entry.seq
            );
            tokens_are(&fold, strategy.measure(), &v.before, entry.seq)?;
        }
        fold.apply(entry);
        if let Some((v, strategy)) = own {
            tokens_are(&fold, strategy.measure(), &v.after, entry.seq)?;
        }
    }
    Ok(())
}

fn tokens_are(fold: &Projection, by: Option<Measure>, said: &Reading, at: Seq) -> Found {
    let counted = fold.tokens(by.unwrap_or(Measure::Estimate));
    let same = counted
        .ok()
        .filter(|t| said.unit == Unit::Token && t.method == said.method);
    if let Some(tokens) = same.filter(|t| t.total != said.amount) {
        let (amount, method, total) = (said.amount, &said.method, tokens.total);
        return Err(format!("{at}: {amount} {method} said, {total} counted").into());
    }
    Ok(())
}

/// A visit that could not measure, or came too late, and so asked nobody.
pub(super) fn blind(visited: &Visited) -> bool {
    matches!(
        visited.outcome,
        VisitOutcome::Unmeasurable | VisitOutcome::StaleMeasurement | VisitOutcome::Late
    )
}

fn account(step: &Step<'_>, v: &Visited, every: bool) -> Result<(), String> {
    let Step { before, after, .. } = *step;
    if blind(v) {
        let same = before.window == after.window;
        let changed = || "a visit that could not measure changed the window".to_owned();
        return if same { Ok(()) } else { Err(changed()) };
    }
    if v.before.amount <= v.limit {
        return Err(format!("it engaged at {} of {}", v.before.amount, v.limit));
    }
    let pretended = v.change.left.iter().find(|l| stood_for(l.reason));
    if let Some(left) = pretended.filter(|_| v.change.stand_ins.is_empty()) {
        return Err(format!(
            "it left as {}, and nothing stands for it",
            left.reason
        ));
    }
    let claims = v.change.stand_ins.iter();
    let covered = claims.filter(|s| s.kind == StandInKind::Claim);
    let covered = covered.map(|s| &s.sources);
    let left = v.change.left.iter().map(|l| &l.messages).chain(covered);
    let left = named(before, left);
    let asked_about = named(before, v.attempts.iter().map(|a| &a.sources));
    let existing = |id: &u64| {
        let claim = before.get(*id).is_some_and(|m| m.sources.is_some());
        claim && v.outcome == VisitOutcome::OnlyExistingSummary
    };
    let refusing = refusals(after, &v.strategy);
    let met = v.after.amount <= v.target;
    for id in &before.window {
        match (left.contains(id), refusing.get(id)) {
            (true, Some(reason)) => return Err(format!("m{id} left and refuses as {reason}")),
            (false, None) if asked_about.contains(id) || existing(id) => {}
            (false, None) if !met && every => return Err(format!("m{id} is not accounted for")),
            (gone, said) => right_reason(before, *id, gone, said.copied())?,
        }
    }
    adds_up(before, after, v, &left)
}

/// Whether something stands for what left so.
const fn stood_for(reason: LeftReason) -> bool {
    use LeftReason::{Observed, Replaced, Summarized, Superseded};
    matches!(reason, Summarized | Observed | Replaced | Superseded)
}

/// Which messages of a moment ranges name.
pub(super) fn named<'a>(
    moment: &Moment,
    ranges: impl Iterator<Item = &'a Ranges>,
) -> BTreeSet<u64> {
    let ranges: Vec<&Ranges> = ranges.collect();
    let ids = moment.messages.iter().map(|m| m.id);
    ids.filter(|id| ranges.iter().any(|r| r.contains(MessageId(Seq(*id)))))
        .collect()
}

/// The refusals that stand for a strategy.
pub(super) fn refusals(moment: &Moment, strategy: &str) -> BTreeMap<u64, GroupReason> {
    let mut found = BTreeMap::new();
    for (id, spans) in &moment.refusals {
        let own = spans
            .iter()
            .filter(|s| s.standing && s.strategy == strategy);
        found.extend(own.map(|s| (*id, s.reason)));
    }
    found
}

/// Whether a reason is of envelope or request, which have a law of their own.
pub(super) const fn of_envelope_or_request(reason: GroupReason) -> bool {
    matches!(
        reason,
        GroupReason::CurrentRequest | GroupReason::SystemEnvelope
    )
}

/// What refuses is told the first reason that holds; what the log itself holds does not leave.
fn right_reason(m: &Moment, id: u64, gone: bool, said: Option<GroupReason>) -> Result<(), String> {
    let held = protection(m, id);
    if held.is_some_and(of_envelope_or_request) {
        return Ok(());
    }
    let of_log = |r| {
        of_envelope_or_request(r)
            || matches!(r, GroupReason::UnresolvedToolCall | GroupReason::Pinned)
    };
    match (held, said) {
        (Some(held), None) if gone => Err(format!("m{id} left in spite of {held}")),
        (Some(held), Some(said)) if said != held => {
            Err(format!("m{id} refuses as {said}, not as {held}"))
        }
        (None, Some(said)) if of_log(said) => {
            Err(format!("m{id} refuses as {said}, which does not hold"))
        }
        _ => Ok(()),
    }
}

/// The first reason why the log itself holds a message's group.
pub(super) fn protection(m: &Moment, id: u64) -> Option<GroupReason> {
    let group = m.group(id);
    let inside = || group.iter().filter(|id| m.window.contains(id));
    let restored = |id: &u64| {
        m.get(*id)
            .and_then(|m| m.restored)
            .is_some_and(|at| m.calls.len() <= at)
            || m.get(*id).is_some_and(|m| m.pinned)
    };
    if inside().any(|id| m.in_request(*id)) {
        Some(GroupReason::CurrentRequest)
    } else if inside().any(|id| m.in_envelope(*id)) {
        Some(GroupReason::SystemEnvelope)
    } else if m.open.iter().any(|(id, _)| group.contains(id)) {
        Some(GroupReason::UnresolvedToolCall)
    } else {
        inside().any(restored).then_some(GroupReason::Pinned)
    }
}

/// What is gone is what was named, and the measures are those of the windows.
fn adds_up(
    before: &Moment,
    after: &Moment,
    v: &Visited,
    left: &BTreeSet<u64>,
) -> Result<(), String> {
    let gone = before.window.iter().filter(|id| !after.window.contains(id));
    let gone: BTreeSet<u64> = gone.copied().collect();
    if !gone.is_subset(left) {
        return Err(format!("{gone:?} are gone, {left:?} named"));
    }
    let short = v.after.amount.saturating_sub(v.target);
    let fell_short = match v.outcome {
        VisitOutcome::NoProgress
        | VisitOutcome::SummarizerFailed
        | VisitOutcome::EmptySummary
        | VisitOutcome::ReplacementNotSmaller
        | VisitOutcome::OnlyExistingSummary => short > 0,
        outcome => outcome == VisitOutcome::Short,
    };
    if fell_short != (short > 0) || v.shortfall.unwrap_or(0) != short {
        return Err(format!(
            "{}, {:?} above the target, where {short} are",
            v.outcome, v.shortfall
        ));
    }
    for (moment, reading) in [(before, &v.before), (after, &v.after)] {
        if let Some(n) = count(moment, reading).filter(|n| *n != reading.amount) {
            return Err(format!(
                "{} {} said, {n} counted",
                reading.amount, reading.method
            ));
        }
    }
    Ok(())
}

/// Groups, messages or requests, envelope and notices aside.
fn count(m: &Moment, reading: &Reading) -> Option<u64> {
    if reading.method != COUNT {
        return None;
    }
    let window: BTreeSet<u64> = m.window.iter().copied().collect();
    let group = |id: &u64| m.group(*id).intersection(&window).copied().collect();
    let mut groups: BTreeSet<BTreeSet<u64>> = window.iter().map(group).collect();
    groups.retain(|g| !g.iter().all(|id| m.is_aside(*id)));
    let newest = |g: &BTreeSet<u64>| g.iter().filter_map(|id| m.get(*id)).map(|m| m.place).max();
    let run = |g: &BTreeSet<u64>| m.runs.iter().filter(|r| Some(**r) <= newest(g)).count();
    match reading.unit {
        Unit::Group => Some(counted(groups.len())),
        Unit::Message => Some(counted(groups.iter().map(BTreeSet::len).sum())),
        Unit::Request => Some(counted(
            groups.iter().map(run).collect::<BTreeSet<_>>().len(),
        )),
        _ => None,
    }
}

/// A new form is smaller than the one before, a notice than what it tells of, and a summary, by the
/// visit's own measure, than what it stands for.
pub(super) fn shrink(case: &Case<'_>) -> Found {
    for (step, v) in case.run()?.visits() {
        for stand_in in &v.change.stand_ins {
            let told = match stand_in.kind {
                StandInKind::Notice => {
                    named(step.before, v.change.left.iter().map(|l| &l.messages))
                }
                _ => named(step.before, std::iter::once(&stand_in.sources)),
            };
            let shown = told
                .iter()
                .filter_map(|id| step.before.get(*id)?.skeletons.last());
            let method = &v.before.method;
            let size = |s: &Skeleton| match &s.tokens {
                _ if stand_in.kind != StandInKind::Claim => Some(s.utf16),
                _ if method.ends_with(SCRIPT) => Some(s.by_script),
                _ if method.ends_with(ESTIMATE) => Some(s.utf16.div_ceil(4)),
                Some(count) if method.ends_with(&count.method) => Some(count.amount),
                _ => None,
            };
            let before = shown.map(|s| size(s)).sum::<Option<u64>>();
            // What was counted by another encoding was counted anew for the visit: the log does not say.
            let (Some(before), Some(after)) = (before, size(&stand_in.skeleton)) else {
                continue;
            };
            demand!(
                after < before,
                "{}: {:?} of {after} for {before}",
                step.entry.seq,
                stand_in.kind
            );
        }
    }
    Ok(())
}

/// A visit frees something or says why not, and one that freed nothing is not repeated while nothing
/// is newly free to leave.
pub(super) fn progress(case: &Case<'_>) -> Found {
    let mut fruitless: BTreeMap<String, Seq> = BTreeMap::new();
    let mut skipped = BTreeSet::new();
    for (step, v) in case.run()?.visits() {
        let before = step.before.window.iter();
        let left = before.into_iter().any(|id| !step.after.window.contains(id));
        let mut forms = v.change.stand_ins.iter().map(|s| s.kind);
        let frees = left || forms.any(|k| k == StandInKind::Form);
        let why = v.outcome != VisitOutcome::Done;
        demand!(
            frees || why,
            "{} freed nothing and says that it was done",
            step.entry.seq
        );
        // Someone was asked, or it is said that nobody is asked again.
        let asked = !v.attempts.is_empty();
        if let Some(skip) = v
            .attempts
            .iter()
            .find(|a| a.outcome == AttemptOutcome::Skipped)
        {
            demand!(
                skipped.insert((v.strategy.clone(), skip.digest)),
                "{} says again that nobody is asked",
                step.entry.seq
            );
        }
        if let Some(earlier) = fruitless
            .get(&v.strategy)
            .filter(|_| !frees && !blind(v) && !asked)
        {
            return Err(
                format!("{} frees nothing, as {earlier} did before", step.entry.seq).into(),
            );
        }
        if frees || blind(v) || asked {
            fruitless.remove(&v.strategy);
        } else {
            fruitless.insert(v.strategy.clone(), step.entry.seq);
        }
    }
    settles(case)
}

/// Calls without news come to rest: what could be done is done at the first, what was held for one
/// call at the second, what was pinned for a tool after two fruitless ones, and each fruitless look is
/// filed once.
///
/// To a strategy that counts lifetimes calls are news: it is left out.
fn settles(case: &Case<'_>) -> Found {
    let lifetimes = |spec: &String| spec.starts_with("expire:") || spec.contains(":age=");
    if case.script.chain.iter().any(lifetimes) {
        return Ok(());
    }
    let world = case.fresh()?;
    for look in 1..=8 {
        let last = look == 8;
        let Ok(call) = world.chat.call() else {
            return Ok(()); // open calls, and a policy that refuses
        };
        demand!(
            !last || call.visits.is_empty(),
            "visits go on at {} with nothing new",
            call.id
        );
    }
    Ok(())
}
