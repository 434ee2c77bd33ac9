//! `truncate-outputs`: clamps oversized tool outputs.

use crate::log::{Reading, Unit};
use crate::window::{OUTPUT_BYTES_MIN, Wanted};

use super::{Common, Frame, Options, Plan, Shrink, SpecError, Strategy, To};

/// The method of its readings: it counts the messages with an output that is too large.
const OVERSIZED: &str = "count:oversized";

/// Cuts tool outputs down to `max` bytes of text. JSON stays JSON. Nothing else is touched: not what
/// persons and models said, not reasoning, not what a provider ran itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TruncateOutputs {
    max: u64,
    common: Common,
}

impl TruncateOutputs {
    const NAME: &'static str = "truncate-outputs";

    /// At most `max` bytes for each output, at least 256.
    #[must_use]
    pub const fn new(max: u64) -> Self {
        Self {
            max,
            common: Common::OFF,
        }
    }

    /// Sets what all strategies have in common.
    #[must_use]
    pub const fn common(mut self, common: Common) -> Self {
        self.common = common;
        self
    }

    pub(super) fn from_options(options: &mut Options) -> Result<Self, SpecError> {
        let max = options.required("max")?;
        options.named("unit", &[("bytes", ())], ())?;
        Ok(Self {
            max,
            common: Common::from_options(options)?,
        })
    }

    fn wanted(&self) -> Wanted {
        self.common.on_outputs(Wanted {
            larger_than: self.max,
            ..Wanted::default()
        })
    }
}

impl Strategy for TruncateOutputs {
    fn spec(&self) -> String {
        let common = self.common.suffix();
        format!("{}:max={},unit=bytes{common}", Self::NAME, self.max)
    }

    fn check(&self) -> Result<(), SpecError> {
        if self.max < OUTPUT_BYTES_MIN {
            let takes = format!("a whole number from {OUTPUT_BYTES_MIN}");
            let given = self.max.to_string();
            return Err(SpecError::option(Self::NAME, "max", &given, &takes));
        }
        Ok(())
    }

    fn asks_every_group(&self) -> bool {
        false
    }

    fn unit(&self) -> Unit {
        Unit::Message
    }

    fn plan(&self, frame: &Frame<'_>) -> Plan {
        let oversized = frame.state().smaller(&self.wanted()).wanted;
        if oversized == 0 {
            return Plan::NotDue;
        }
        Plan::Shrink {
            before: Reading {
                unit: Unit::Message,
                method: OVERSIZED.into(),
                amount: oversized,
            },
            limit: 0,
            shrink: Shrink {
                wanted: self.wanted(),
                to: To::Bytes(self.max),
                at_least: 0,
            },
        }
    }
}
