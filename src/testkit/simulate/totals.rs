//! Many simulations, counted together.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Run, Violation, simulate};
use crate::testkit::campaign::Work;
use crate::testkit::fault::Fault;
use crate::testkit::{Failure, Figure};

/// How many violations are kept to be shown.
const SHOWN_MAX: usize = 3;

/// What many simulations came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// How many seeds were simulated.
    pub seeds: u64,
    /// How many of them twice.
    pub twice: u64,
    /// Seeds whose second run was another than the first.
    pub unlike: Vec<u64>,
    /// How many violations there were.
    pub violated: u64,
    /// The first of them.
    pub violations: Vec<Violation>,
    /// Steps that were made.
    pub steps: u64,
    /// Entries that were written.
    pub entries: u64,
    /// How often a process ended.
    pub ends: u64,
    /// Requests that were acknowledged, and that failed with a typed error.
    pub answered: (u64, u64),
    /// How often a conversation was forked, and words were destroyed.
    pub edits: (u64, u64),
    /// How often each fault happened.
    pub faults: BTreeMap<Fault, u64>,
    /// Damaged logs that `verify` named.
    pub told: u64,
    /// Logs that a lying medium made shorter than was acknowledged.
    pub shortened: u64,
}

/// Simulates so many seeds from the one of the work on, every `twice`-th of them twice (0: none).
///
/// # Errors
/// When a thread of the harness itself fails; a violation is part of what it came to.
pub fn simulate_seeds(work: Work<'_>, seeds: u64, twice: u64) -> Result<Totals, Failure> {
    let next = AtomicU64::new(0);
    let each = work.shared(|_| {
        let mut totals = Totals::default();
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= seeds {
                return Ok(totals);
            }
            let again = n.checked_rem(twice) == Some(0);
            totals.simulate(work.seed.wrapping_add(n), again);
            (work.progress)(n.saturating_add(1), seeds);
        }
    })?;
    let mut totals = Totals::default();
    each.into_iter().for_each(|of_thread| totals.add(of_thread));
    totals.unlike.sort_unstable();
    Ok(totals)
}

impl Totals {
    fn simulate(&mut self, seed: u64, again: bool) {
        self.seeds = self.seeds.saturating_add(1);
        match simulate(seed) {
            Ok(run) => {
                if again {
                    self.twice = self.twice.saturating_add(1);
                    let same = simulate(seed).is_ok_and(|second| second == run);
                    self.unlike.extend((!same).then_some(seed));
                }
                self.count(run);
            }
            Err(violation) => {
                self.violated = self.violated.saturating_add(1);
                if self.violations.len() < SHOWN_MAX {
                    self.violations.push(*violation);
                }
            }
        }
    }

    fn count(&mut self, run: Run) {
        self.add(Self {
            steps: run.steps,
            entries: run.entries,
            ends: run.ends,
            answered: run.answered,
            edits: run.edits,
            faults: run.faults,
            told: run.told,
            shortened: run.shortened,
            ..Self::default()
        });
    }

    /// Adds what other seeds came to.
    pub fn add(&mut self, other: Self) {
        let pairs = [
            (&mut self.seeds, other.seeds),
            (&mut self.twice, other.twice),
            (&mut self.violated, other.violated),
            (&mut self.steps, other.steps),
            (&mut self.entries, other.entries),
            (&mut self.ends, other.ends),
            (&mut self.answered.0, other.answered.0),
            (&mut self.answered.1, other.answered.1),
            (&mut self.edits.0, other.edits.0),
            (&mut self.edits.1, other.edits.1),
            (&mut self.told, other.told),
            (&mut self.shortened, other.shortened),
        ];
        for (sum, more) in pairs {
            *sum = sum.saturating_add(more);
        }
        for (fault, more) in other.faults {
            let sum = self.faults.entry(fault).or_default();
            *sum = sum.saturating_add(more);
        }
        self.unlike.extend(other.unlike);
        self.violations.extend(other.violations);
        self.violations.truncate(SHOWN_MAX);
    }

    /// How often the fault happened that happened least often.
    #[must_use]
    pub fn rarest(&self) -> u64 {
        let counts = Fault::ALL
            .iter()
            .map(|f| self.faults.get(f).copied().unwrap_or_default());
        counts.min().unwrap_or_default()
    }

    /// The figure of the reliability table.
    #[must_use]
    pub fn figure(&self) -> Figure {
        let faults = self
            .faults
            .values()
            .fold(0_u64, |sum, n| sum.saturating_add(*n));
        let value = format!(
            "{} in {} seeds ({} steps, {faults} faults, {} ends of a process); {} of {} run twice \
             differ",
            self.violated,
            self.seeds,
            self.steps,
            self.ends,
            self.unlike.len(),
            self.twice,
        );
        let shown: Vec<String> = self.violations.iter().map(ToString::to_string).collect();
        let figure = Figure::new(
            "2",
            "violations in simulated faults",
            "0, and runs are identical when run twice",
            value,
            self.violated == 0 && self.unlike.is_empty() && self.seeds > 0,
        );
        figure.showing(shown.join("\n\n"))
    }
}
