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
<<<<<<< HEAD
    /// Keeps the newest `keep` groups; at least 1.
    #[must_use]
    pub const fn new(keep: u64) -> Self {
        Self {
            keep,
            unit: KeepUnit::Group,
=======
    /// Keeps the newest `keep` groups.
    ///
    /// # Errors
    /// When `keep` is 0.
    pub fn new(keep: u64) -> Result<Self, SpecError> {
        Self::checked(keep, KeepUnit::Group)
    }

    fn checked(keep: u64, unit: KeepUnit) -> Result<Self, SpecError> {
        if keep == 0 {
            return Err(SpecError::option(
                "sliding-window",
                "keep",
                "0",
                "a whole number from 1",
            ));
>>>>>>> laws
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
<<<<<<< HEAD
        let unit = options.named("unit", KeepUnit::NAMES, KeepUnit::Group)?;
        Ok(Self::new(keep).unit(unit))
=======
        Self::checked(
            keep,
            options.named("unit", KeepUnit::NAMES, KeepUnit::Group)?,
        )
>>>>>>> laws
    }
}

impl Strategy for SlidingWindow {
    fn spec(&self) -> String {
        format!(
            "sliding-window:keep={},unit={}",
            self.keep,
            self.unit.name()
        )
<<<<<<< HEAD
    }

    fn check(&self) -> Result<(), SpecError> {
        at_least_one("sliding-window", "keep", self.keep)
=======
>>>>>>> laws
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
