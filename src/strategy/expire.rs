//! `expire`: evicts after a lifetime.

use crate::log::{LeftReason, Reading, Unit};
use crate::window::{Age, AgeUnit, Cut, Order};

use super::spec::{AGE_UNITS, at_least_one, name_of};
use super::{Common, Frame, KeepUnit, Options, Plan, SpecError, Strategy};

/// The method of its readings: it counts the groups whose lifetime is over.
pub(super) const OVER_AGE: &str = "count:over-age";

/// Lets a group leave when its youngest message has been in the window for so long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expire {
    age: Age,
    returns: bool,
    common: Common,
}

impl Expire {
    /// A lifetime of `after` calls, at least 1: a group is sent so many times.
    #[must_use]
    pub const fn new(after: u64) -> Self {
        Self {
            age: Age {
                after,
                unit: AgeUnit::Call,
            },
            returns: false,
            common: Common::OFF,
        }
    }

    /// Counts lifetimes in another unit: entries, or seconds by the times that entries report. A
    /// group without a time, or behind one that is too young, does not expire by time.
    #[must_use]
    pub const fn unit(mut self, unit: AgeUnit) -> Self {
        self.age.unit = unit;
        self
    }

    /// Brings a group back when a message by a person or the model refers to one of its messages by
    /// its id, as in `m18`. It stays until one call has seen it, and for its lifetime from then on.
    #[must_use]
    pub const fn returning(mut self) -> Self {
        self.returns = true;
        self
    }

    /// Sets what all strategies have in common.
    #[must_use]
    pub const fn common(mut self, common: Common) -> Self {
        self.common = common;
        self
    }

    pub(super) fn from_options(options: &mut Options) -> Result<Self, SpecError> {
        let after = options.required("after")?;
        let unit = options.named("unit", AGE_UNITS, AgeUnit::Call)?;
        let returns = options.named("return", &[("true", true), ("false", false)], false)?;
        Ok(Self {
            age: Age { after, unit },
            returns,
            common: Common::from_options(options)?,
        })
    }
}

impl Strategy for Expire {
    fn spec(&self) -> String {
        let (unit, common) = (name_of(AGE_UNITS, self.age.unit), self.common.suffix());
        let returns = if self.returns { ",return=true" } else { "" };
        format!(
            "expire:after={},unit={unit}{returns}{common}",
            self.age.after
        )
    }

    fn check(&self) -> Result<(), SpecError> {
        at_least_one("expire", "after", self.age.after)
    }

    fn returns(&self) -> bool {
        self.returns
    }

    fn asks_every_group(&self) -> bool {
        false
    }

    fn unit(&self) -> Unit {
        Unit::Group
    }

    fn plan(&self, frame: &Frame<'_>) -> Plan {
        let before = frame.state().count_over_age(self.age);
        if before == 0 {
            return Plan::NotDue;
        }
        let cut = Cut {
            order: Order::Expired(self.age),
            before,
            ask_all: true,
            reason: LeftReason::OverAge,
            ..frame.cut(KeepUnit::Group, 0)
        };
        Plan::Due {
            before: Reading {
                unit: Unit::Group,
                method: OVER_AGE.into(),
                amount: before,
            },
            limit: 0,
            cut: self.common.on(cut),
        }
    }
}
