//! What a strategy sees: the groups of the window with their sizes, and nothing else.

use std::collections::BTreeSet;

use crate::log::{LeftReason, MessageId, Unit};
use crate::planted::{Bug, planted};
use crate::window::{Cut, GroupView, Measure, NoReading, Projection, Tokens};

use super::KeepUnit;

/// The window as a strategy sees it.
#[derive(Clone, Debug)]
pub struct Frame<'a> {
    state: &'a Projection,
    tokens: Result<Tokens, NoReading>,
    groups: Vec<GroupView>,
}

impl<'a> Frame<'a> {
    /// The window of a projection, with tokens by the given measure.
    #[must_use]
    pub fn new(state: &'a Projection, measure: Option<Measure>) -> Self {
        let tokens = state.tokens(measure.unwrap_or(Measure::Estimate));
        let sizes = tokens.as_ref().map_or(&[][..], |t| t.items.as_slice());
        let groups = state.group_views(sizes);
        Self {
            state,
            tokens,
            groups,
        }
    }

    /// The groups, in the order of their newest message.
    #[must_use]
    pub fn groups(&self) -> &[GroupView] {
        &self.groups
    }

    /// The projection the frame was taken from.
    #[must_use]
    pub const fn state(&self) -> &Projection {
        self.state
    }

    /// The window's tokens.
    ///
    /// # Errors
    /// When the strategy's measure has no reading.
    pub const fn tokens(&self) -> Result<&Tokens, NoReading> {
        match &self.tokens {
            Ok(tokens) => Ok(tokens),
            Err(none) => Err(*none),
        }
    }

    /// All groups, oldest first.
    #[must_use]
    pub fn oldest_first(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.groups.len()).collect();
        if planted(Bug::ClockOrders) {
            let first = |g: &usize| self.groups.get(*g)?.messages.first().copied();
            order.sort_by_key(|g| first(g).and_then(|id| self.state.message(id)?.logged.at));
        }
        order
    }

    /// A cut by counting: the oldest groups first, down to `target` units outside the envelope,
    /// keeping nothing. What a strategy wants otherwise it sets with `..frame.cut(...)`.
    #[must_use]
    pub fn cut(&self, unit: KeepUnit, target: u64) -> Cut {
        Cut {
            order: self.oldest_first(),
            keep: BTreeSet::new(),
            head: BTreeSet::new(),
            sizes: self.sizes(unit.unit()),
            by_run: unit == KeepUnit::Request,
            before: self.count(unit),
            target,
            ask_all: false,
            reason: LeftReason::BeyondKeep,
        }
    }

    /// The groups that hold one of the newest `keep` units, the envelope aside.
    #[must_use]
    pub fn newest(&self, keep: u64, unit: KeepUnit) -> BTreeSet<usize> {
        let keep_units = usize::try_from(keep).unwrap_or(usize::MAX);
        let outside = self.groups.iter().enumerate().filter(|(_, g)| !g.envelope);
        match unit {
            KeepUnit::Group => outside.rev().map(|(i, _)| i).take(keep_units).collect(),
            KeepUnit::Message => {
                let newest = self.newest_messages(keep_units);
                let holds = |g: &GroupView| g.messages.iter().any(|m| newest.contains(m));
                outside.filter(|(_, g)| holds(g)).map(|(i, _)| i).collect()
            }
            KeepUnit::Request => {
                let runs: BTreeSet<u64> = outside.clone().map(|(_, g)| g.run).collect();
                let newest: BTreeSet<u64> = runs.into_iter().rev().take(keep_units).collect();
                outside
                    .filter(|(_, g)| newest.contains(&g.run))
                    .map(|(i, _)| i)
                    .collect()
            }
        }
    }

    fn newest_messages(&self, keep: usize) -> BTreeSet<MessageId> {
        let mut positions: Vec<(usize, MessageId)> = self
            .groups
            .iter()
            .filter(|g| !g.envelope)
            .flat_map(|g| g.positions.iter().copied().zip(g.messages.iter().copied()))
            .collect();
        positions.sort_unstable();
        positions
            .into_iter()
            .rev()
            .take(keep)
            .map(|(_, id)| id)
            .collect()
    }

    /// The groups that hold one of the first `head` messages of the conversation, while it is in
    /// the window.
    #[must_use]
    pub fn head(&self, head: u64) -> BTreeSet<usize> {
        let first = usize::try_from(head).unwrap_or(usize::MAX);
        let ids: BTreeSet<MessageId> = self
            .state
            .messages()
            .iter()
            .take(first)
            .map(|m| m.id)
            .collect();
        let holds = |g: &GroupView| g.messages.iter().any(|m| ids.contains(m));
        self.groups
            .iter()
            .enumerate()
            .filter(|(_, g)| holds(g))
            .map(|(i, _)| i)
            .collect()
    }

    /// How many units the window holds outside the envelope.
    #[must_use]
    pub fn count(&self, unit: KeepUnit) -> u64 {
        self.count_of(&(0..self.groups.len()).collect(), unit)
    }

    /// How much these groups hold, as [`Frame::count`] counts.
    #[must_use]
    pub fn count_of(&self, groups: &BTreeSet<usize>, unit: KeepUnit) -> u64 {
        let chosen = || {
            groups
                .iter()
                .filter_map(|&g| self.groups.get(g))
                .filter(|g| !g.envelope)
        };
        let counted = match unit {
            KeepUnit::Group => chosen().count(),
            KeepUnit::Message => chosen()
                .map(|g| g.messages.len())
                .fold(0, usize::saturating_add),
            KeepUnit::Request => chosen().map(|g| g.run).collect::<BTreeSet<u64>>().len(),
        };
        u64::try_from(counted).unwrap_or(u64::MAX)
    }

    /// Per group: its size in a unit. A group's request is one that it shares with the other groups
    /// of its run.
    #[must_use]
    pub fn sizes(&self, unit: Unit) -> Vec<u64> {
        let size = |group: &GroupView| match unit {
            Unit::Token | Unit::Byte => group.tokens,
            _ if group.envelope => 0,
            Unit::Group | Unit::Request => 1,
            Unit::Message => u64::try_from(group.messages.len()).unwrap_or(u64::MAX),
        };
        self.groups.iter().map(size).collect()
    }
}
