//! Strategies propose what should leave; they never act. The engine walks every proposal through
//! the guard, so a strategy cannot skip it.
//!
//! One of your own implements [`Strategy`]: a spec that names it, and a [`Plan`] from a [`Frame`].
//! `testkit::check_strategy` (feature `testkit`) tries it on conversations that broke others.

mod buffer;
mod clamp;
mod clear_tool_results;
mod common;
mod consolidate;
mod expire;
mod frame;
mod head_tail;
mod notice;
mod pick;
mod policy;
mod presets;
mod prompt;
mod shrink;
mod sliding_window;
mod spec;
mod summarize_oldest;
mod token_budget;
mod truncate_outputs;
mod visit;

pub use buffer::Buffer;
pub use clear_tool_results::ClearToolResults;
pub use common::Common;
pub(crate) use consolidate::whole_span;
pub use consolidate::{Answered, Consolidation, SourceForm, conclude};
pub use expire::Expire;
pub use frame::Frame;
pub use head_tail::HeadTail;
pub use pick::{Budgeted, Candidate, PassedOver, Picked, fresh, newest, score};
pub use policy::{Because, Consolidate, ConsolidationPolicy, Due, Signals, Verdict};
pub use presets::presets;
pub(crate) use prompt::boundary;
pub use prompt::{INSTRUCTIONS, Prompt, Prompts, TooNarrow};
pub use shrink::{Shrink, To};
pub use sliding_window::SlidingWindow;
pub use spec::{NAMES, Options, SpecError, check_form, option, parse};
pub use summarize_oldest::SummarizeOldest;
pub use token_budget::TokenBudget;
pub use truncate_outputs::TruncateOutputs;
pub use visit::{Outlook, Visit, Words, visit};

use crate::log::{Reading, Unit, VisitOutcome};
use crate::window::{Cut, Measure, Total, count};

/// What a strategy makes of a window.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Plan {
    /// It is not due: the window is within its limit.
    NotDue,
    /// It is due, but its measure has no reading.
    Unmeasurable(VisitOutcome),
    /// It is due, and would cut so.
    Due {
        /// The measure before.
        before: Reading,
        /// The limit it exceeds.
        limit: u64,
        /// What to cut.
        cut: Cut,
    },
    /// It is due, and would make tool outputs smaller; nothing leaves.
    Shrink {
        /// The measure before.
        before: Reading,
        /// The limit it exceeds, and what it aims at.
        limit: u64,
        /// Which outputs become what.
        shrink: Shrink,
    },
    /// It is due, and would let a summary stand for what leaves.
    Consolidate {
        /// The measure before.
        before: Reading,
        /// The limit it exceeds.
        limit: u64,
        /// What is to be summarised.
        cut: Cut,
        /// The most bytes of a summary.
        summary_max: u64,
    },
}

impl Plan {
    /// The plan of a strategy that keeps the newest and lets go of all that is older.
    pub(super) fn newest(frame: &Frame<'_>, keep: u64, unit: KeepUnit, common: Common) -> Self {
        let cut = Cut {
            keep: frame.newest(keep, unit),
            ask_all: true,
            ..frame.cut(unit, keep)
        };
        Self::counted(unit, keep, common.on(cut))
    }

    /// The plan of a strategy that is due when the window's tokens exceed `limit`.
    pub(super) fn above(frame: &Frame<'_>, limit: u64, due: impl FnOnce(&Total) -> Self) -> Self {
        match frame.tokens() {
            Ok(tokens) if tokens.amount > limit => due(tokens),
            Ok(_) => Self::NotDue,
            Err(none) => Self::Unmeasurable(VisitOutcome::from(none)),
        }
    }

    /// The plan of a strategy that counts units outside the envelope: due when there are more than
    /// `limit`.
    #[must_use]
    pub fn counted(unit: KeepUnit, limit: u64, cut: Cut) -> Self {
        if cut.before <= limit {
            return Self::NotDue;
        }
        Self::Due {
            before: count(unit.unit(), cut.before),
            limit,
            cut,
        }
    }
}

/// A window strategy. Pure: the same frame gives the same plan.
pub trait Strategy: Send + Sync + std::fmt::Debug {
    /// Its name and resolved parameters, as `name:key=value,…`; identifies it in the log. One line of
    /// at most 1024 bytes ([`check_form`]), always the same.
    fn spec(&self) -> String;

    /// Whether its parameters are possible; asked when it is set, never later.
    ///
    /// # Errors
    /// When one is not, naming it.
    fn check(&self) -> Result<(), SpecError> {
        Ok(())
    }

    /// How tokens are to be measured for it; `None` when it does not look at tokens.
    fn measure(&self) -> Option<Measure> {
        None
    }

    /// Whether it looks after every append as well; it looks at every call in any case.
    fn on_append(&self) -> bool {
        false
    }

    /// Whether what it let leave comes back when a person or the model refers to it by its id.
    fn returns(&self) -> bool {
        false
    }

    /// Whether every group is in question at its visits. Else only those are that hold what it looks
    /// for: tool output, something too old.
    fn asks_every_group(&self) -> bool {
        true
    }

    /// The most messages, instructions aside, that it leaves after every append, what the guard holds
    /// aside; `None` where it sets no such bound. Who waits for more waits in vain.
    fn most_messages(&self) -> Option<u64> {
        None
    }

    /// The unit it counts in.
    fn unit(&self) -> Unit;

    /// What it makes of the window.
    fn plan(&self, frame: &Frame<'_>) -> Plan;
}

/// The units that `unit=` takes where a strategy keeps the newest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum KeepUnit {
    /// Groups.
    #[default]
    Group,
    /// Messages.
    Message,
    /// Runs begun by a person.
    Request,
}

impl KeepUnit {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("group", Self::Group),
        ("message", Self::Message),
        ("request", Self::Request),
    ];

    fn name(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(_, u)| *u == self)
            .map_or("group", |(name, _)| name)
    }

    /// The unit that readings of it carry.
    #[must_use]
    pub const fn unit(self) -> Unit {
        match self {
            Self::Group => Unit::Group,
            Self::Message => Unit::Message,
            Self::Request => Unit::Request,
        }
    }
}
