//! Laws on what is stored.

use super::{Found, demand};
use crate::audit::{export, verify};
use crate::log::{Body, OpenCalls, Trigger};
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

/// Rounds of the same take as many bytes late as early, whatever may never leave in between.
pub(super) fn linear_size(case: &Case<'_>) -> Found {
    let new = |op: &&Op| {
        !matches!(
            op,
            Op::Undo(_) | Op::Restore(_) | Op::Reopen | Op::Keyed(..)
        )
    };
    let own = case.script.ops.iter().filter(new).take(8);
    let mut round: Vec<Op> = own.cloned().map(shortened).collect();
    round.push(Op::Say(Speaker::Model, Words::new("so it goes")));
    round.push(Op::Call {
        usage: None,
        failed: false,
    });
    let open_calls = if case.script.pick("linear size", 2) == 0 {
        OpenCalls::Keep
    } else {
        case.script.open_calls
    };
    let mut world = case.run_of(&Script {
        open_calls,
        ops: Vec::new(),
        ..case.script.clone()
    })?;
    let mut stored = || -> Result<usize, Failure> {
        for _ in 0..ROUNDS {
            world.perform_all(&round)?;
        }
        Ok(world.sealed()?.iter().map(|s| s.bytes.len()).sum())
    };
    // The first stretch begins with nothing; a strategy that engages late makes one stretch longer
    // than the one before. What grows with the log makes each of them longer, without end.
    let mut before = (stored()?, stored()?);
    let mut grown = vec![before.1.saturating_sub(before.0)];
    while grown.len() <= LONGER {
        before = (before.1, stored()?);
        let (one, two) = (
            grown.last().copied().unwrap_or(0),
            before.1.saturating_sub(before.0),
        );
        if two.saturating_mul(100) <= one.saturating_mul(101) {
            return Ok(());
        }
        grown.push(two);
    }
    Err(format!("stretches of {ROUNDS} rounds take {grown:?} bytes").into())
}

/// How many stretches in a row have to be longer than the one before.
const LONGER: usize = 8;

/// How many rounds make a stretch whose bytes are counted.
const ROUNDS: usize = 8;

/// The same with few words: what they take is no question.
fn shortened(mut op: Op) -> Op {
    match &mut op {
        Op::Say(_, words) | Op::Behind(_, words) => words.times = words.times.min(2),
        Op::Results { words, out, .. } => {
            out.times = out.times.min(2);
            if let Some(words) = words {
                words.times = words.times.min(2);
            }
        }
        Op::Calls {
            words: Some(words), ..
        } => words.times = words.times.min(2),
        _ => {}
    }
    op
}
