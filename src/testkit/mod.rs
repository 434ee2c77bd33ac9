//! The test kit: the laws of a window as property tests, for strategies of one's own and for ctxlog
//! itself.

pub mod fault;
mod figures;
mod ledger;
mod outcomes;
mod random;

pub use figures::Figure;
pub use outcomes::{Cell, Outcomes, outcomes};
pub use random::Random;
