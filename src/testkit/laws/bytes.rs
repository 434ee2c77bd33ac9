//! Laws on what is stored.

use super::{Found, demand};
use crate::audit::export;
use crate::log::{Body, Trigger};
use crate::strategy::visit;
use crate::testkit::case::Case;
use crate::testkit::script::{Op, Script, Speaker, Words};
use crate::testkit::tamper::{Alteration, noticed};
use crate::testkit::world::{Failure, World};
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
                let look = |()| visit(&fold, strategy.as_ref(), position, Trigger::Call);
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

/// Twice as many rounds of the same take about twice the bytes.
pub(super) fn linear_size(case: &Case<'_>) -> Found {
    let new = |op: &&Op| {
        !matches!(
            op,
            Op::Undo(_) | Op::Restore(_) | Op::Reopen | Op::Keyed(..)
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
    let grown = |rounds| -> Result<usize, Failure> {
        let ops = std::iter::repeat_n(&round, rounds)
            .flatten()
            .cloned()
            .collect();
        let world = case.run_of(&Script {
            ops,
            ..case.script.clone()
        })?;
        Ok(world.sealed()?.iter().map(|s| s.bytes.len()).sum())
    };
    let (one, two) = (grown(5)?, grown(10)?);
    demand!(
        two <= one.saturating_mul(5) / 2,
        "5 rounds take {one} bytes, 10 take {two}"
    );
    Ok(())
}
