//! The test kit: the laws of a window as property tests, for strategies of one's own and for ctxlog
//! itself.

pub mod fault;
mod figures;
mod random;

pub use figures::Figure;
pub use random::Random;
