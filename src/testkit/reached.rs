//! Which members of the closed sets a run reached, how often, and which of them wait for a feature.

use std::collections::BTreeMap;
use std::fmt;

use super::case::Run;
use crate::log::{AttemptOutcome, Body, GroupReason, LeftReason, RequestReason, VisitOutcome};

/// How often each member of the closed sets was reached.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reached {
    /// Why groups did not leave.
    pub refusals: BTreeMap<GroupReason, u64>,
    /// How visits ended.
    pub outcomes: BTreeMap<VisitOutcome, u64>,
    /// How attempts of summarisers ended.
    pub attempts: BTreeMap<AttemptOutcome, u64>,
    /// Why messages left.
    pub leavings: BTreeMap<LeftReason, u64>,
    /// Why requests were not accepted.
    pub requests: BTreeMap<RequestReason, u64>,
}

/// Members whose feature does not exist yet, with the feature.
pub const PENDING: &[(&str, &str)] = &[
    ("paused-tool", "waiting"),
    ("pending-check-in", "waiting"),
    ("open-stream", "streams"),
    ("unobserved", "observation"),
    ("invalid-xml", "observation"),
    ("degenerate-output", "observation"),
    ("lost-critical-predicate", "observation"),
    ("observed", "observation"),
    ("owner-conflict", "identity and owners"),
];

fn add<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K, n: u64) {
    let count = counts.entry(key).or_default();
    *count = count.saturating_add(n);
}

impl Reached {
    /// Counts what a run reached.
    pub fn count(&mut self, run: &Run) {
        for entry in &run.entries {
            if let Body::Visited(visited) = &entry.body {
                add(&mut self.outcomes, visited.outcome, 1);
                let attempts = visited.attempts.iter();
                attempts.for_each(|a| add(&mut self.attempts, a.outcome, 1));
                visited
                    .refused
                    .iter()
                    .for_each(|r| add(&mut self.refusals, r.reason, 1));
            }
            if let Some(change) = entry.body.change() {
                change
                    .left
                    .iter()
                    .for_each(|left| add(&mut self.leavings, left.reason, 1));
                change
                    .stand_ins
                    .iter()
                    .for_each(|s| add(&mut self.leavings, s.reason, 1));
            }
        }
        let superseded = run
            .moments
            .last()
            .into_iter()
            .flat_map(|m| &m.messages)
            .filter(|m| {
                let out = m.out.as_ref();
                out.is_some_and(|out| out.reason == LeftReason::Superseded)
            });
        let superseded = u64::try_from(superseded.count()).unwrap_or(u64::MAX);
        if superseded > 0 {
            add(&mut self.leavings, LeftReason::Superseded, superseded);
        }
        for (reason, n) in &run.world.refused {
            add(&mut self.requests, *reason, *n);
        }
    }

    /// Counts a refused request that no script reaches.
    pub fn refused(&mut self, reason: RequestReason) {
        add(&mut self.requests, reason, 1);
    }

    /// Adds another run's counts.
    pub fn add(&mut self, other: &Self) {
        other
            .refusals
            .iter()
            .for_each(|(k, n)| add(&mut self.refusals, *k, *n));
        other
            .outcomes
            .iter()
            .for_each(|(k, n)| add(&mut self.outcomes, *k, *n));
        other
            .attempts
            .iter()
            .for_each(|(k, n)| add(&mut self.attempts, *k, *n));
        other
            .leavings
            .iter()
            .for_each(|(k, n)| add(&mut self.leavings, *k, *n));
        other
            .requests
            .iter()
            .for_each(|(k, n)| add(&mut self.requests, *k, *n));
    }

    /// Every member whose feature exists, with how often it was reached.
    #[must_use]
    pub fn all(&self) -> Vec<(&'static str, u64)> {
        let refusals = GroupReason::ALL
            .iter()
            .map(|k| (k.name(), self.refusals.get(k)));
        let outcomes = VisitOutcome::ALL
            .iter()
            .map(|k| (k.name(), self.outcomes.get(k)));
        let attempts = AttemptOutcome::ALL
            .iter()
            .map(|k| (k.name(), self.attempts.get(k)));
        let leavings = LeftReason::ALL
            .iter()
            .map(|k| (k.name(), self.leavings.get(k)));
        let requests = RequestReason::ALL
            .iter()
            .map(|k| (k.name(), self.requests.get(k)));
        let all = refusals
            .chain(outcomes)
            .chain(attempts)
            .chain(leavings)
            .chain(requests);
        let waits = |name: &str| PENDING.iter().any(|(pending, _)| *pending == name);
        all.filter(|(name, _)| !waits(name))
            .map(|(name, n)| (name, n.copied().unwrap_or(0)))
            .collect()
    }

    /// The members that exist and were reached fewer than so many times.
    #[must_use]
    pub fn fewer_than(&self, least: u64) -> Vec<(&'static str, u64)> {
        self.all().into_iter().filter(|(_, n)| *n < least).collect()
    }
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, n) in self.all() {
            writeln!(f, "{name:<24} {n:>9}")?;
        }
        PENDING
            .iter()
            .try_for_each(|(name, feature)| writeln!(f, "{name:<24} waits for {feature}"))
    }
}
