//! The test kit: the laws of a window as property tests, for strategies of one's own and for ctxlog
//! itself.

pub mod concurrency;
pub mod cost;
pub mod crash;
mod draw;
mod figures;
mod suite;
mod trouble;

pub use draw::Draw;
pub use figures::Figure;
pub use suite::{Check, ELSEWHERE, Elsewhere, Progress, SUITE, Settings, Size};
pub use trouble::Trouble;
