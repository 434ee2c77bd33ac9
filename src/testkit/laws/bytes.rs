//! Laws on what is stored.

use super::visits::{named, refusals};
use super::{Found, demand};
use crate::audit::{export, verify};
use crate::log::{Body, Trigger};
use crate::strategy::visit;
use crate::testkit::case::{Case, Run};
use crate::testkit::script::{Op, Script, Speaker, Words};
use crate::testkit::summaries::Answers;
use crate::testkit::tamper::{Alteration, noticed};
use crate::testkit::world::{Failure, Recorded, World};
use crate::window::Projection;

/// A log as its export, all bytes and salts included.
pub(in crate::testkit) fn exported(world: &World) -> Result<Vec<u8>, Failure> {
    let mut out = Vec::new();
    export(&world.chat, &mut out)?;
    Ok(out)
}

/// The same inputs give the same bytes, and a strategy that is asked the same says the same.
pub(super) fn determinism(case: &Case<'_>) -> Found {
    let (run, chain) = (case.run()?, case.chain()?);
    let mut fold = Projection::default();
    for entry in &run.entries {
        if matches!(entry.body, Body::Visited(_) | Body::Called(_)) {
            for (position, strategy) in (0..).zip(&chain) {
                let look = |()| {
                    let (chat, state) = (&run.world.chat, &fold);
                    let mut words = Recorded { chat, state };
                    visit(
                        state,
                        strategy.as_ref(),
                        position,
                        Trigger::Call,
                        &mut words,
                    )
                };
                let [first, second, third] = [(), (), ()].map(look);
                let same = first == second && second == third;
                demand!(
                    same,
                    "before {}: {} says one thing and another",
                    entry.seq,
                    strategy.spec()
                );
            }
        }
        fold.apply(entry);
    }
    let (one, two) = (case.fresh()?, case.fresh()?);
    let (a, b) = (exported(&one)?, exported(&two)?);
    let lines = a.split(|b| *b == b'\n').zip(b.split(|b| *b == b'\n'));
    let differs = lines.into_iter().position(|(a, b)| a != b);
    demand!(a == b, "done twice, the logs differ at entry {differs:?}");
    Ok(())
}

/// A clean log verifies; altered in one place, it does not, and the place is named.
pub(super) fn tamper(case: &Case<'_>) -> Found {
    let run = case.run()?;
    noticed(&run.world, None)?;
    if !verify(&run.world.store, &run.world.listed()?, &mut |_, _| {})?.ok {
        return Ok(()); // the chain holds; what other laws say would be taken for its places
    }
    let draw = |what: &str, bound| case.script.pick(&format!("tamper {what}"), bound);
    let at = u64::try_from(draw("at", run.entries.len())).unwrap_or(0);
    for alteration in Alteration::of_every_field(at, &draw) {
        noticed(&run.world, Some(alteration))?;
    }
    for which in 0..Alteration::KINDS {
        let draw = |what: &str, bound| case.script.pick(&format!("tamper {which} {what}"), bound);
        if let Some(alteration) = Alteration::drawn(which, run.entries.len(), &draw) {
            noticed(&run.world, Some(alteration))?;
        }
    }
    Ok(())
}

/// Entries do not grow with the log: after three times as many rounds of the same they are about as
/// large, and what is known is not told again.
pub(super) fn linear_size(case: &Case<'_>) -> Found {
    told_once(case.run()?)?;
    // Where a summariser takes a piece at a time, each piece is told: that grows with the words, which
    // are not counted here.
    let new = |op: &&Op| {
        !matches!(
            op,
            Op::Undo(_)
                | Op::Restore(_)
                | Op::Recall(_)
                | Op::Reopen
                | Op::Keyed(..)
                | Op::Summaries(Answers::Pieces)
        )
    };
    let mut round: Vec<Op> = case
        .script
        .ops
        .iter()
        .filter(new)
        .take(8)
        .cloned()
        .collect();
    round.push(Op::Say(Speaker::Model, Words::new("so it goes")));
    round.push(Op::Call {
        usage: None,
        failed: false,
    });
    let grown = |rounds| -> Result<(usize, usize), Failure> {
        let ops = std::iter::repeat_n(&round, rounds)
            .flatten()
            .cloned()
            .collect();
        let world = case.run_of(&Script {
            ops,
            ..case.script.clone()
        })?;
        let sealed = world.sealed()?;
        Ok((sealed.iter().map(|s| s.bytes.len()).sum(), sealed.len()))
    };
    let ((few, of_few), (many, of_many)) = (grown(5)?, grown(15)?);
    // Late rounds may do more: calls to answer are there only by then, budgets begin to bite.
    demand!(
        many.saturating_mul(of_few) <= few.saturating_mul(of_many).saturating_mul(2),
        "5 rounds take {few} bytes in {of_few} entries, 15 take {many} in {of_many}"
    );
    Ok(())
}

/// A refusal that stands is not listed again: a window that fills would be listed at every visit.
fn told_once(run: &Run) -> Found {
    for (step, visited) in run.visits() {
        let standing = refusals(step.before, &visited.strategy);
        for refused in &visited.refused {
            for id in named(step.before, std::iter::once(&refused.messages)) {
                demand!(
                    standing.get(&id) != Some(&refused.reason),
                    "{} lists again that m{id} refuses as {}",
                    step.entry.seq,
                    refused.reason
                );
            }
        }
    }
    Ok(())
}
