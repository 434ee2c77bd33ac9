//! `head-tail`: keeps the first message and the last N.

use crate::log::Unit;
use crate::window::Cut;

use super::spec::at_least_one;
use super::{Common, Frame, KeepUnit, Options, Plan, SpecError, Strategy};

/// Keeps the first `head` messages and the newest `window` units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadTail {
    window: u64,
    head: u64,
    unit: KeepUnit,
    common: Common,
}

impl HeadTail {
    /// Keeps the first message and the newest `window` messages; at least 1.
    #[must_use]
    pub const fn new(window: u64) -> Self {
        Self {
            window,
            head: 1,
            unit: KeepUnit::Message,
            common: Common::OFF,
        }
    }

    /// Keeps the first `head` messages; 0 keeps none for being first.
    #[must_use]
    pub const fn head(mut self, head: u64) -> Self {
        self.head = head;
        self
    }

    /// Sets what all strategies have in common.
    #[must_use]
    pub const fn common(mut self, common: Common) -> Self {
        self.common = common;
        self
    }

    pub(super) fn from_options(options: &mut Options) -> Result<Self, SpecError> {
        let window = options.or("window", 12)?;
        let head = options.or("head", 1)?;
        let unit = options.named("unit", KeepUnit::NAMES, KeepUnit::Message)?;
        let common = Common::from_options(options)?;
        Ok(Self {
            window,
            head,
            unit,
            common,
        })
    }
}

impl Strategy for HeadTail {
    fn spec(&self) -> String {
        let (unit, common) = (self.unit.name(), self.common.suffix());
        format!(
            "head-tail:window={},head={},unit={unit}{common}",
            self.window, self.head
        )
    }

    fn check(&self) -> Result<(), SpecError> {
        at_least_one("head-tail", "window", self.window)
    }

    fn unit(&self) -> Unit {
        self.unit.unit()
    }

    fn plan(&self, frame: &Frame<'_>) -> Plan {
        // The head is kept beside the tail, not out of it, so it counts on top of the limit.
        let unit = self.unit.unit();
        let beside = frame.state().head_beside(self.head, self.window, unit);
        let limit = self.window.saturating_add(beside);
        let cut = Cut {
            keep: frame.newest(self.window, self.unit),
            head: self.head,
            ask_all: true,
            ..frame.cut(self.unit, limit)
        };
        Plan::counted(self.unit, limit, self.common.on(cut))
    }
}
