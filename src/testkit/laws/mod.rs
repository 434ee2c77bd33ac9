//! One check per law. Each looks for what its law alone says, so that a failure names the law that
//! is broken.

mod bytes;
mod explain;
mod lineage;
mod sharing;
mod snapshots;
mod summaries;
mod visits;
mod windows;

use super::case::Case;
use super::law::{Broken, Law};
use super::world::Failure;

/// The outcome of looking: what breaks the law, or what kept from looking.
type Found = Result<(), Failure>;

/// Fails with a text unless a condition holds.
macro_rules! demand {
    ($holds:expr, $($text:tt)+) => {
        if !$holds {
            return Err(format!($($text)+).into());
        }
    };
}
use demand;

/// A length in memory as a number that does not depend on the machine.
fn counted(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// A law with its check.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// The law.
    pub law: Law,
    look: fn(&Case<'_>) -> Found,
}

impl Check {
    /// Checks the law on a case.
    ///
    /// # Errors
    /// Where and how the law is broken.
    pub fn run(&self, case: &Case<'_>) -> Result<(), Broken> {
        (self.look)(case).map_err(|failure| self.law.broken(failure))
    }
}

macro_rules! checks {
    ($($name:ident = $law:ident, $look:path;)+) => {
        /// Every law that can be checked today, with its check.
        pub const CHECKS: &[Check] = &[$(Check { law: Law::$law, look: $look },)+];

        $(
            #[doc = concat!("Checks the law of [`Law::", stringify!($law), "`] on a case.")]
            ///
            /// # Errors
            /// Where and how it is broken.
            pub fn $name(case: &Case<'_>) -> Result<(), Broken> {
                Check { law: Law::$law, look: $look }.run(case)
            }
        )+
    };
}

// Determinism comes first: where it does not hold, nothing else means much.
checks! {
    determinism = Determinism, bytes::determinism;
    closure = Closure, windows::closure;
    occurrence = Occurrence, visits::occurrence;
    no_op = NoOp, visits::no_op;
    envelope_and_request = EnvelopeAndRequest, windows::envelope_and_request;
    legality = Legality, windows::legality;
    conservation = Conservation, windows::conservation;
    accounting = Accounting, visits::accounting;
    shrink = Shrink, visits::shrink;
    progress = Progress, visits::progress;
    failure_neutrality = FailureNeutrality, summaries::failure_neutrality;
    late_arrivals = LateArrivals, summaries::late_arrivals;
    order = Order, windows::order;
    replay = Replay, windows::replay;
    isolation = Isolation, sharing::isolation;
    undo = Undo, windows::undo;
    crash = Crash, sharing::crash;
    tamper = Tamper, bytes::tamper;
    linear_size = LinearSize, bytes::linear_size;
    concurrency = Concurrency, sharing::concurrency;
    stable_prefix = StablePrefix, windows::stable_prefix;
    lineage = Lineage, lineage::lineage;
    explain = Explain, explain::explain;
    lifetimes = Lifetimes, explain::lifetimes;
}

/// Checks every law that can be checked today.
///
/// # Errors
/// The first law that is broken, and how.
pub fn all(case: &Case<'_>) -> Result<(), Broken> {
    CHECKS.iter().try_for_each(|check| check.run(case))
}
