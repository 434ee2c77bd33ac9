//! `buffer`: keeps the newest on every append.

use crate::log::Unit;

use super::spec::at_least_one;
use super::{Common, Frame, KeepUnit, Options, Plan, SpecError, Strategy};

/// Keeps the newest `keep` messages (or groups, or requests), and looks after every append as well
/// as at calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffer {
    keep: u64,
    unit: KeepUnit,
    common: Common,
}

impl Buffer {
    /// Keeps the newest `keep` messages; at least 1.
    #[must_use]
    pub const fn new(keep: u64) -> Self {
        Self {
            keep,
            unit: KeepUnit::Message,
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
        Ok(Self {
            keep: options.required("keep")?,
            unit: options.named("unit", KeepUnit::NAMES, KeepUnit::Message)?,
            common: Common::from_options(options)?,
        })
    }
}

impl Strategy for Buffer {
    fn spec(&self) -> String {
        let (unit, common) = (self.unit.name(), self.common.suffix());
        format!("buffer:keep={},unit={unit}{common}", self.keep)
    }

    fn check(&self) -> Result<(), SpecError> {
        at_least_one("buffer", "keep", self.keep)
    }

    fn unit(&self) -> Unit {
        self.unit.unit()
    }

    fn on_append(&self) -> bool {
        true
    }

    fn most_messages(&self) -> Option<u64> {
        (self.unit == KeepUnit::Message).then_some(self.keep)
    }

    fn plan(&self, frame: &Frame<'_>) -> Plan {
        Plan::newest(frame, self.keep, self.unit, self.common)
    }
}
