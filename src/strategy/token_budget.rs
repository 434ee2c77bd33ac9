//! `token-budget`: drops the oldest above the limit, down to the low-water mark.

use crate::log::{LeftReason, Unit};
use crate::window::{Cut, Measure};

use super::spec::at_least_one;
use super::{Common, Frame, Options, Plan, SpecError, Strategy};

/// Thousandths: `low=0.8` is 800. A float would not compare equal in a log.
const WHOLE: u64 = 1_000;

/// Drops the oldest groups when the window's tokens exceed `limit`, down to `low` of it, and keeps
/// the newest `keep` groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TokenBudget {
    limit: u64,
    low_thousandths: u64,
    keep: u64,
    measure: Measure,
    common: Common,
}

impl TokenBudget {
    /// A budget of `limit` tokens (at least 1), with `low=0.8`, `keep=6` and `measure=auto`.
    #[must_use]
    pub const fn new(limit: u64) -> Self {
        Self {
            limit,
            low_thousandths: 800,
            keep: 6,
            measure: Measure::Auto,
            common: Common::OFF,
        }
    }

    /// Keeps the newest `keep` groups.
    #[must_use]
    pub const fn keep(mut self, keep: u64) -> Self {
        self.keep = keep;
        self
    }

    /// Drops down to this many thousandths of the limit, 1 to 1000.
    #[must_use]
    pub const fn low_thousandths(mut self, low: u64) -> Self {
        self.low_thousandths = low;
        self
    }

    /// Measures otherwise.
    #[must_use]
    pub const fn measure(mut self, measure: Measure) -> Self {
        self.measure = measure;
        self
    }

    /// Sets what all strategies have in common.
    #[must_use]
    pub const fn common(mut self, common: Common) -> Self {
        self.common = common;
        self
    }

    pub(super) fn from_options(options: &mut Options) -> Result<Self, SpecError> {
        let limit = options.required("limit")?;
        let low_thousandths = options.thousandths("low", 800)?;
        let keep = options.or("keep", 6)?;
        let measure = options.named("measure", Measure::NAMES, Measure::Auto)?;
        Ok(Self {
            limit,
            low_thousandths,
            keep,
            measure,
            common: Common::from_options(options)?,
        })
    }

    const fn target(&self) -> u64 {
        // limit * low / 1000 without overflow
        let whole = (self.limit / WHOLE).saturating_mul(self.low_thousandths);
        whole.saturating_add((self.limit % WHOLE).saturating_mul(self.low_thousandths) / WHOLE)
    }
}

fn thousandths(n: u64) -> String {
    let digits = format!("{}.{:03}", n / WHOLE, n % WHOLE);
    let short = digits.trim_end_matches('0').trim_end_matches('.');
    short.to_owned()
}

impl Strategy for TokenBudget {
    fn spec(&self) -> String {
        let low = thousandths(self.low_thousandths);
        let (limit, keep, measure) = (self.limit, self.keep, self.measure.name());
        let common = self.common.suffix();
        format!("token-budget:limit={limit},low={low},keep={keep},measure={measure}{common}")
    }

    fn check(&self) -> Result<(), SpecError> {
        let name = "token-budget";
        at_least_one(name, "limit", self.limit)?;
        if self.low_thousandths == 0 || self.low_thousandths > WHOLE {
            let given = thousandths(self.low_thousandths);
            return Err(SpecError::option(
                name,
                "low",
                &given,
                "a number from 0.001 to 1",
            ));
        }
        Ok(())
    }

    fn measure(&self) -> Option<Measure> {
        Some(self.measure)
    }

    fn unit(&self) -> Unit {
        Unit::Token
    }

    fn plan(&self, frame: &Frame<'_>) -> Plan {
        Plan::above(frame, self.limit, |tokens| {
            let cut = Cut {
                reason: LeftReason::OverBudget,
                ..frame.cut_tokens(self.keep, tokens.amount, self.target())
            };
            Plan::Due {
                before: tokens.reading(),
                limit: self.limit,
                cut: self.common.on(cut),
            }
        })
    }
}
