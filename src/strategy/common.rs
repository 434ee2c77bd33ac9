//! What all strategies have in common: `pin-results` and `notice`.

use crate::window::{Cut, Notices, Wanted};

use super::{Options, SpecError};

/// The options that every strategy takes. Off unless asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Common {
    /// Of so many tools in use the newest result is held.
    pub pin_results: u64,
    /// Whether a notice tells the model of what left.
    pub notice: bool,
}

impl Common {
    /// Everything off.
    pub const OFF: Self = Self {
        pin_results: 0,
        notice: false,
    };
}

const NOTICE: &[(&str, bool)] = &[("off", false), ("auto", true)];

impl Common {
    pub(super) fn from_options(options: &mut Options) -> Result<Self, SpecError> {
        Ok(Self {
            pin_results: options.or("pin-results", 0)?,
            notice: options.named("notice", NOTICE, false)?,
        })
    }

    /// What a resolved spec says of them: nothing, while they are off.
    pub(super) fn suffix(self) -> String {
        let pins = match self.pin_results {
            0 => String::new(),
            results => format!(",pin-results={results}"),
        };
        let notice = if self.notice { ",notice=auto" } else { "" };
        pins + notice
    }

    pub(super) fn on(self, cut: Cut) -> Cut {
        Cut {
            pin_results: self.pin_results,
            notices: if self.notice {
                Notices::Kept
            } else {
                Notices::Ordinary
            },
            ..cut
        }
    }

    /// Of outputs that get smaller nothing leaves, so there is nothing for a notice to tell.
    pub(super) fn on_outputs(self, wanted: Wanted) -> Wanted {
        Wanted {
            pin_results: self.pin_results,
            ..wanted
        }
    }
}
