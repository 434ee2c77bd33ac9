//! `sliding-window`: keeps the newest.

use crate::log::Unit;

use super::spec::at_least_one;
use super::{Common, Frame, KeepUnit, Options, Plan, SpecError, Strategy};

/// Keeps the newest `keep` groups (or messages, or requests).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlidingWindow {
    keep: u64,
    unit: KeepUnit,
    common: Common,
}

impl SlidingWindow {
    /// Keeps the newest `keep` groups; at least 1.
    #[must_use]
    pub const fn new(keep: u64) -> Self {
        Self {
            keep,
            unit: KeepUnit::Group,
            common: Common::OFF,
        }
    }

    /// Counts in another unit.
    #[must_use]
    pub const fn unit(mut self, unit: KeepUnit) -> Self {
        self.unit = unit;
        self
    }

    /// Sets what all strategies have in common.
    #[must_use]
    pub const fn common(mut self, common: Common) -> Self {
        self.common = common;
        self
    }

    pub(super) fn from_options(options: &mut Options) -> Result<Self, SpecError> {
        let keep = options.required("keep")?;
        let unit = options.named("unit", KeepUnit::NAMES, KeepUnit::Group)?;
        let common = Common::from_options(options)?;
        Ok(Self::new(keep).unit(unit).common(common))
    }
}

impl Strategy for SlidingWindow {
    fn spec(&self) -> String {
        format!(
            "sliding-window:keep={},unit={}{}",
            self.keep,
            self.unit.name(),
            self.common.suffix()
        )
    }

    fn check(&self) -> Result<(), SpecError> {
        at_least_one("sliding-window", "keep", self.keep)
    }

    fn unit(&self) -> Unit {
        self.unit.unit()
    }

    fn plan(&self, frame: &Frame<'_>) -> Plan {
        Plan::newest(frame, self.keep, self.unit, self.common)
    }
}
