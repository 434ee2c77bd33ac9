//! The test kit: the laws of a window as property tests, for strategies of one's own and for ctxlog
//! itself.

mod figures;

pub use figures::Figure;
