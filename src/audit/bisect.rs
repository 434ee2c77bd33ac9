//! `bisect`: the first call whose window fails a test, by halving.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::log::Iteration;

/// What a test says of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It passes.
    Good,
    /// It fails.
    Bad,
    /// It cannot be tested.
    Skip,
}

/// A search for the first bad call, between one that is known to be good and one that is known to be
/// bad. It is right where every call behind a bad one is bad.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bisection {
    good: u64,
    bad: u64,
    skipped: BTreeSet<u64>,
}

impl Bisection {
    /// A search. `good` may be 0: before the first call nothing failed.
    #[must_use]
    pub const fn new(good: Iteration, bad: Iteration) -> Self {
        Self {
            good: good.0,
            bad: bad.0,
            skipped: BTreeSet::new(),
        }
    }

    /// The last call that is known to be good.
    #[must_use]
    pub const fn good(&self) -> Iteration {
        Iteration(self.good)
    }

    /// The first call that is known to be bad.
    #[must_use]
    pub const fn bad(&self) -> Iteration {
        Iteration(self.bad)
    }

    /// The call to test next: the one nearest to the middle that was not skipped. `None`: nothing is
    /// left to test.
    #[must_use]
    pub fn next(&self) -> Option<Iteration> {
        let room = self.bad.saturating_sub(self.good);
        let middle = self.good.saturating_add(room / 2);
        let fits = |n: &u64| *n > self.good && *n < self.bad && !self.skipped.contains(n);
        (0..=room)
            .flat_map(|away| [middle.saturating_add(away), middle.saturating_sub(away)])
            .find(fits)
            .map(Iteration)
    }

    /// Goes on by what a test said.
    pub fn tell(&mut self, call: Iteration, verdict: Verdict) {
        match verdict {
            Verdict::Good => self.good = self.good.max(call.0.min(self.bad.saturating_sub(1))),
            Verdict::Bad => self.bad = self.bad.min(call.0.max(self.good.saturating_add(1))),
            Verdict::Skip => {
                self.skipped.insert(call.0);
            }
        }
    }

    /// How many tests are left, at most one more or less.
    #[must_use]
    pub fn steps(&self) -> u32 {
        let untested = self.bad.saturating_sub(self.good).saturating_sub(1);
        let skipped = self.skipped.range(self.good..self.bad).count();
        let skipped = u64::try_from(skipped).unwrap_or(u64::MAX);
        untested
            .saturating_sub(skipped)
            .checked_ilog2()
            .map_or(0, |log| log.saturating_add(1))
    }

    /// The calls that may be the first bad one: it alone, where nothing between was skipped.
    pub fn candidates(&self) -> impl Iterator<Item = Iteration> {
        (self.good.saturating_add(1)..=self.bad).map(Iteration)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(mut search: Bisection, test: impl Fn(u64) -> Verdict) -> (Bisection, u32) {
        let mut tests = 0;
        while let Some(call) = search.next() {
            search.tell(call, test(call.0));
            tests += 1;
        }
        (search, tests)
    }

    proptest! {
        #[test]
        fn it_finds_the_first_failing_call_of_any_monotone_test(calls in 1_u64..5_000, first in 1_u64..5_000) {
            let first = first.min(calls);
            let search = Bisection::new(Iteration(0), Iteration(calls));
            let steps = search.steps();
            let (found, tests) = run(search, |n| if n < first { Verdict::Good } else { Verdict::Bad });
            prop_assert_eq!(found.bad(), Iteration(first));
            prop_assert_eq!(found.candidates().collect::<Vec<_>>(), [Iteration(first)]);
            prop_assert!(tests <= steps, "{tests} tests, {steps} announced");
        }

        #[test]
        fn what_was_skipped_leaves_the_first_bad_call_among_the_candidates(
            calls in 1_u64..200, first in 1_u64..200, skipped in prop::collection::btree_set(1_u64..200, 0..60)
        ) {
            let first = first.min(calls);
            let (found, _) = run(Bisection::new(Iteration(0), Iteration(calls)), |n| match n {
                n if skipped.contains(&n) && n != calls => Verdict::Skip,
                n if n < first => Verdict::Good,
                _ => Verdict::Bad,
            });
            let candidates: Vec<u64> = found.candidates().map(|n| n.0).collect();
            prop_assert!(candidates.contains(&first));
            // All but the last are calls that could not be tested.
            prop_assert!(candidates.iter().rev().skip(1).all(|n| skipped.contains(n)));
        }

        #[test]
        fn no_answers_lead_it_astray(good in 0_u64..50, bad in 0_u64..50, answers in prop::collection::vec((0_u64..60, 0..3_u8), 0..40)) {
            let mut search = Bisection::new(Iteration(good), Iteration(bad));
            for (call, verdict) in answers {
                let verdict = [Verdict::Good, Verdict::Bad, Verdict::Skip][usize::from(verdict)];
                search.tell(Iteration(call), verdict);
                prop_assert!(search.next().is_none_or(|n| n > search.good() && n < search.bad()));
            }
        }
    }
}
