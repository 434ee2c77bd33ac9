//! `sliding-window`: keeps the newest.

use std::collections::BTreeSet;

use crate::log::{LeftReason, Unit};
use crate::window::{Cut, count};

use super::spec::at_least_one;
use super::{Frame, KeepUnit, Options, Plan, SpecError, Strategy};

/// Keeps the newest `keep` groups (or messages, or requests).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlidingWindow {
    keep: u64,
    unit: KeepUnit,
}

impl SlidingWindow {
    /// Keeps the newest `keep` groups; at least 1.
    #[must_use]
    pub const fn new(keep: u64) -> Self {
        Self {
            keep,
            unit: KeepUnit::Group,
        }
    }

    /// Counts in another unit.
    #[must_use]
    pub const fn unit(mut self, unit: KeepUnit) -> Self {
        self.unit = unit;
        self
    }

    pub(super) fn from_options(options: &mut Options) -> Result<Self, SpecError> {
        let keep = options.required("keep")?;
        let unit = options.named("unit", KeepUnit::NAMES, KeepUnit::Group)?;
        Ok(Self::new(keep).unit(unit))
    }
}

impl Strategy for SlidingWindow {
    fn spec(&self) -> String {
        format!(
            "sliding-window:keep={},unit={}",
            self.keep,
            self.unit.name()
        )
    }

    fn check(&self) -> Result<(), SpecError> {
        at_least_one("sliding-window", "keep", self.keep)
    }

    fn unit(&self) -> Unit {
        self.unit.unit()
    }

    fn plan(&self, frame: &Frame<'_>) -> Plan {
        let before = frame.count(self.unit);
        if before <= self.keep {
            return Plan::NotDue;
        }
        let unit = self.unit.unit();
        let cut = Cut {
            order: frame.oldest_first(),
            keep: frame.newest(self.keep, self.unit),
            head: BTreeSet::new(),
            sizes: frame.sizes(unit),
            by_run: self.unit == KeepUnit::Request,
            before,
            target: self.keep,
            ask_all: true,
            reason: LeftReason::BeyondKeep,
        };
        Plan::Due {
            before: count(unit, before),
            limit: self.keep,
            cut,
        }
    }
}
