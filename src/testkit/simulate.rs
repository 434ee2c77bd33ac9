//! A whole system in one deterministic thread: clients on conversations that they share, over one
//! store that fails on purpose. Everything follows from a seed.
//!
//! After every step what a client sees is compared with a plain record of what was written. After
//! every end of a process the store is opened again: every entry is there that an acknowledgement
//! promised, under the same hash; every log verifies; its window is the one there was; the next
//! append works. Where the medium lied, the lie is told: by `verify` at the right entry, or, where
//! the newest entries are gone as a whole, by the acknowledgements alone.
//!
//! ```
//! let run = ctxlog::testkit::simulate::simulate(42).unwrap();
//! assert!(run.entries > 0);
//! ```

mod against;
mod execute;
mod plan;
mod sources;
mod totals;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use self::execute::execute;
pub use self::plan::{Plan, Step};
pub use self::totals::{Totals, simulate_seeds};
use super::ScriptError;
use super::check::words_of;
use super::fault::Fault;
use crate::log::Hash;

/// What a simulation came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// Of everything that was answered and everything that is stored in the end. Two runs of one
    /// plan give the same.
    pub digest: Hash,
    /// Steps that were made.
    pub steps: u64,
    /// Entries that were written.
    pub entries: u64,
    /// Requests that were acknowledged, and that failed with a typed error.
    pub answered: (u64, u64),
    /// How often a conversation was forked, and words were destroyed.
    pub edits: (u64, u64),
    /// How often a process ended.
    pub ends: u64,
    /// How often each fault happened.
    pub faults: BTreeMap<Fault, u64>,
    /// Logs whose damage `verify` named.
    pub told: u64,
    /// Logs that a lying medium made shorter than was acknowledged, which only the acknowledgements
    /// tell.
    pub shortened: u64,
}

/// Something that may never happen, with the smallest plan found that shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Violation {
    /// What happened.
    pub what: String,
    /// At which step of the plan, from 1; beyond the last: at its end.
    pub step: usize,
    /// The plan.
    pub plan: Plan,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "step {} of seed {}: {}",
            self.step, self.plan.seed, self.what
        )?;
        writeln!(
            f,
            "this plan shows it; `testkit::simulate::replay` runs it again:\n"
        )?;
        write!(f, "{}", self.plan)
    }
}

// What `unwrap` prints is what a person reads.
impl fmt::Debug for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for Violation {}

/// Simulates what follows from a seed.
///
/// # Errors
/// What may never happen, shrunk.
pub fn simulate(seed: u64) -> Result<Run, Box<Violation>> {
    simulate_plan(&Plan::of(seed))
}

/// Simulates a plan.
///
/// # Errors
/// What may never happen, shrunk.
pub fn simulate_plan(plan: &Plan) -> Result<Run, Box<Violation>> {
    attempt(plan).map_err(|violation| Box::new(shrink(violation)))
}

/// Simulates a printed plan, as it stands.
///
/// # Errors
/// The line that is no plan, and what may never happen.
pub fn replay(text: &str) -> Result<Result<Run, Box<Violation>>, ScriptError> {
    Ok(attempt(&text.parse()?).map_err(Box::new))
}

/// A panic is a violation like any other.
fn attempt(plan: &Plan) -> Result<Run, Violation> {
    let violation = |(step, what)| Violation {
        what,
        step,
        plan: plan.clone(),
    };
    match catch_unwind(AssertUnwindSafe(|| execute(plan))) {
        Ok(outcome) => outcome.map_err(violation),
        Err(panic) => Err(violation((
            0,
            format!("a panic: {}", words_of(panic.as_ref())),
        ))),
    }
}

/// How many plans are tried to find a smaller one.
const SHRINKS_MAX: usize = 600;

/// Leaves out steps, many at a time and then few, as long as something is wrong still.
fn shrink(mut worst: Violation) -> Violation {
    worst.plan.steps.truncate(worst.step.max(1));
    if let Err(same) = attempt(&worst.plan) {
        worst = same;
    }
    let (mut tries, mut chunk) = (0_usize, worst.plan.steps.len().div_ceil(2).max(1));
    loop {
        let (mut at, mut smaller) = (0_usize, false);
        while at < worst.plan.steps.len() && tries < SHRINKS_MAX {
            let mut plan = worst.plan.clone();
            let end = at.saturating_add(chunk).min(plan.steps.len());
            plan.steps.drain(at..end);
            tries = tries.saturating_add(1);
            match attempt(&plan) {
                Err(found) => (worst, smaller) = (found, true),
                Ok(_) => at = end,
            }
        }
        if tries >= SHRINKS_MAX || (chunk == 1 && !smaller) {
            return worst;
        }
        chunk = if smaller { chunk } else { chunk.div_ceil(2) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::Op;
    use crate::testkit::fault::Verb;

    /// A plan in which an acknowledged synced write is lost, taken for one in which none is.
    fn losing(seed: u64) -> Plan {
        let mut plan = Plan::of(seed);
        let lost = Step::Fault {
            verb: Verb::Append,
            fault: Fault::LostSync,
            call: 1,
            detail: 0,
        };
        let said = "client 0 do say person \"kept?\"";
        let said = format!("seed 0\nsteps\n{said}")
            .parse::<Plan>()
            .unwrap()
            .steps;
        let level = Step::Level(0, crate::store::Level::Synced);
        plan.trusted = true;
        plan.background = 0;
        // Whoever went on in a fork is alone there, and faster.
        let fork = |step: &Step| {
            let op = match step {
                Step::Do { op, .. } => Some(op),
                _ => None,
            };
            matches!(op, Some(Op::Fork { .. }))
        };
        plan.steps
            .retain(|step| !matches!(step, Step::Fault { .. }) && !fork(step));
        plan.steps.truncate(10);
        plan.steps.extend([level, Step::Reopen, lost]);
        // Another client may have been faster the first time.
        plan.steps.extend(said.iter().cloned().chain(said.clone()));
        plan.steps.push(Step::Cut(0));
        plan
    }

    #[test]
    fn a_store_that_loses_an_acknowledged_synced_write_makes_the_simulator_red() {
        for seed in 0..20 {
            let plan = losing(seed);
            let violation = simulate_plan(&plan).expect_err("the canary sings");
            assert!(violation.what.contains("were promised"), "{violation}");
            assert!(violation.plan.steps.len() <= plan.steps.len());
            let again = replay(&violation.plan.to_string()).unwrap().unwrap_err();
            assert_eq!(again, violation, "the shrunk plan shows the same");
            let honest = Plan {
                trusted: false,
                ..plan
            };
            let shortened = simulate_plan(&honest).unwrap().shortened;
            assert!(shortened >= 1, "the acknowledgements tell");
        }
    }

    #[test]
    fn a_printed_plan_reads_back_as_itself() {
        for seed in 0..100 {
            let plan = Plan::of(seed);
            assert_eq!(plan.to_string().parse(), Ok(plan));
        }
        let wrong = "seed 1\nsteps\nclient 0 do dance"
            .parse::<Plan>()
            .unwrap_err();
        assert_eq!(wrong.line, 3);
    }
}
