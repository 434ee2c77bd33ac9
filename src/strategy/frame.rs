//! What a strategy sees: how much the window holds, its groups with their sizes, and nothing else.

use std::cell::OnceCell;

use crate::log::{LeftReason, Unit};
use crate::planted::{Bug, planted};
use crate::window::{
    Cut, Decision, GroupView, Keep, Measure, NoReading, Notices, Order, Projection, Sizes, Total,
    decide,
};

use super::KeepUnit;

/// The window as a strategy sees it. Counting it costs nothing; listing its groups costs the window,
/// and is done when they are asked for.
#[derive(Clone, Debug)]
pub struct Frame<'a> {
    state: &'a Projection,
    measure: Measure,
    tokens: OnceCell<Result<Total, NoReading>>,
    groups: OnceCell<Vec<GroupView>>,
}

impl<'a> Frame<'a> {
    /// The window of a projection, with tokens by the given measure.
    #[must_use]
    pub fn new(state: &'a Projection, measure: Option<Measure>) -> Self {
        Self {
            state,
            measure: measure.unwrap_or(Measure::Estimate),
            tokens: OnceCell::new(),
            groups: OnceCell::new(),
        }
    }

    /// The groups, in the order of their newest message.
    #[must_use]
    pub fn groups(&self) -> &[GroupView] {
        self.groups.get_or_init(|| {
            let tokens = self.state.tokens(self.measure);
            let sizes = tokens.as_ref().map_or(&[][..], |t| t.items.as_slice());
            self.state.group_views(sizes)
        })
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
    pub fn tokens(&self) -> Result<&Total, NoReading> {
        let total = || self.state.token_total(self.measure);
        self.tokens
            .get_or_init(total)
            .as_ref()
            .map_err(|none| *none)
    }

    /// All groups, oldest first.
    #[must_use]
    pub fn oldest_first(&self) -> Vec<usize> {
        (0..self.groups().len()).collect()
    }

    /// The order of the cuts made here.
    pub(super) fn order(&self) -> Order {
        if planted(Bug::ClockOrders) {
            let first = |g: &usize| self.groups().get(*g)?.messages.first().copied();
            let mut order = self.oldest_first();
            order.sort_by_key(|g| first(g).and_then(|id| self.state.message(id)?.logged.at));
            return Order::Given(order);
        }
        Order::Oldest
    }

    /// A cut by counting: the oldest groups first, down to `target` units outside the envelope,
    /// keeping nothing. What a strategy wants otherwise it sets with `..frame.cut(...)`.
    #[must_use]
    pub fn cut(&self, unit: KeepUnit, target: u64) -> Cut {
        Cut {
            order: self.order(),
            keep: self.newest(0, unit),
            head: 0,
            sizes: Sizes::Of(unit.unit()),
            by_run: unit == KeepUnit::Request,
            before: self.count(unit),
            target,
            ask_all: false,
            reason: LeftReason::BeyondKeep,
            pin_results: 0,
            notices: Notices::Ordinary,
            only: None,
        }
    }

    /// A cut by tokens, of which the window holds `before`: the oldest groups first, down to `target`,
    /// keeping the newest `keep` groups.
    pub(super) fn cut_tokens(&self, keep: u64, before: u64, target: u64) -> Cut {
        Cut {
            keep: self.newest(keep, KeepUnit::Group),
            sizes: Sizes::Of(Unit::Token),
            before,
            ..self.cut(KeepUnit::Group, target)
        }
    }

    /// The groups that hold one of the newest `keep` units, envelope and notices aside.
    #[must_use]
    pub const fn newest(&self, keep: u64, unit: KeepUnit) -> Keep {
        Keep::Newest(keep, unit.unit())
    }

    /// How many units the window holds, envelope and notices aside.
    #[must_use]
    pub fn count(&self, unit: KeepUnit) -> u64 {
        self.state.count_outside(unit.unit())
    }

    /// Per group: its size in a unit. A group's request is one that it shares with the other groups
    /// of its run.
    #[must_use]
    pub fn sizes(&self, unit: Unit) -> Vec<u64> {
        let size = |group: &GroupView| match unit {
            Unit::Token | Unit::Byte => group.tokens,
            _ if group.aside => 0,
            Unit::Group | Unit::Request => 1,
            Unit::Message => u64::try_from(group.messages.len()).unwrap_or(u64::MAX),
        };
        self.groups().iter().map(size).collect()
    }

    /// Walks a cut through the guard.
    pub(super) fn decide(&self, cut: &Cut) -> Decision {
        let by_tokens = matches!(cut.sizes, Sizes::Of(Unit::Token | Unit::Byte));
        let tokens = if by_tokens { self.tokens().ok() } else { None };
        decide(self.state, cut, tokens, &|| self.groups())
    }
}
