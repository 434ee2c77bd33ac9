//! A strategy of one's own, for the kit itself: it leaves the guard room above what it cuts to, so
//! that the guard is also asked what ctxlog's own strategies never ask.

use crate::log::Unit;
use crate::strategy::{Frame, KeepUnit, Plan, SpecError, Strategy};
use crate::window::Cut;

/// Above `limit` messages lets everything go but the newest `keep`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MakeRoom {
    limit: u64,
    keep: u64,
}

impl MakeRoom {
    const NAME: &'static str = "make-room";

    /// At most `limit` messages outside the envelope, at least 1; the newest `keep` stay.
    #[must_use]
    pub const fn new(limit: u64, keep: u64) -> Self {
        Self { limit, keep }
    }

    /// The strategy with this spec, `make-room:limit=L,keep=K`, if it is one.
    pub(super) fn named(spec: &str) -> Option<Self> {
        let options = spec.strip_prefix(Self::NAME)?.strip_prefix(":limit=")?;
        let (limit, keep) = options.split_once(",keep=")?;
        Some(Self::new(limit.parse().ok()?, keep.parse().ok()?))
    }
}

impl Strategy for MakeRoom {
    fn spec(&self) -> String {
        format!("{}:limit={},keep={}", Self::NAME, self.limit, self.keep)
    }

    fn check(&self) -> Result<(), SpecError> {
        if self.limit == 0 {
            return Err(SpecError::option(
                Self::NAME,
                "limit",
                "0",
                "a whole number from 1",
            ));
        }
        Ok(())
    }

    fn unit(&self) -> Unit {
        Unit::Message
    }

    fn plan(&self, frame: &Frame<'_>) -> Plan {
        let cut = Cut {
            keep: frame.newest(self.keep, KeepUnit::Message),
            ask_all: true,
            ..frame.cut(KeepUnit::Message, self.limit)
        };
        Plan::counted(KeepUnit::Message, self.limit, cut)
    }
}
