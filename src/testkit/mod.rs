//! The test kit: the laws of a window as property tests, for strategies of your own and for ctxlog
//! itself.
//!
//! A strategy proposes what should leave a window; the guard refuses what may not. What is left to
//! get wrong is a lot: to leave a group out, to look at ids or clocks, to count one thing and say
//! another, to act when nothing is due. Three lines tell:
//!
//! ```
//! use ctxlog::log::Unit;
//! use ctxlog::strategy::{Frame, KeepUnit, Plan, Strategy};
//!
//! /// Lets the oldest groups go above `high` of them, down to `low`.
//! #[derive(Debug)]
//! struct HighAndLow {
//!     high: u64,
//!     low: u64,
//! }
//!
//! impl Strategy for HighAndLow {
//!     fn spec(&self) -> String {
//!         format!("high-and-low:high={},low={}", self.high, self.low)
//!     }
//!
//!     fn unit(&self) -> Unit {
//!         Unit::Group
//!     }
//!
//!     fn plan(&self, frame: &Frame<'_>) -> Plan {
//!         Plan::counted(KeepUnit::Group, self.high, frame.cut(KeepUnit::Group, self.low))
//!     }
//! }
//!
//! // In a test of your own: `#[test] fn my_strategy_obeys_the_laws() {`
//! let tried = ctxlog::testkit::check_strategy(HighAndLow { high: 8, low: 4 }).unwrap();
//! assert!(tried.transitions > 1_000);
//!
//! // What cuts down to more than its limit is never done, and that shows:
//! let wrong = ctxlog::testkit::check_strategy(HighAndLow { high: 4, low: 8 }).unwrap_err();
//! println!("{wrong}"); // the law, what broke it, and a script of a few lines that shows it
//! ```
//!
//! A failure prints the smallest conversation found, as a script: one thing a line. [`replay`] runs
//! it again. The pieces are public too: [`generate`] makes scripts, [`World`] runs them, [`laws`] has
//! one check per law, [`model`] is the naive engine that the real one is compared with. [`Law`] lists
//! the laws, with those that wait for a feature. [`fault`] is a store that fails on purpose,
//! [`outcomes()`] has every call of a store meet every fault, [`simulate`] runs a whole system on it.

pub mod campaign;
mod case;
mod check;
pub mod concurrency;
pub mod cost;
pub mod crash;
mod draw;
pub mod fault;
mod figures;
pub mod generate;
mod law;
pub mod laws;
mod ledger;
mod make_room;
pub mod model;
mod outcomes;
mod pick;
mod reached;
mod requests;
mod script;
pub mod simulate;
mod suite;
pub mod summaries;
pub mod tamper;
mod text;
mod trouble;
mod world;

pub use case::{Case, Run};
pub use check::{Accepted, Effort, Problem, Rejected, check_strategy, check_strategy_with, replay};
pub use draw::Draw;
pub use figures::Figure;
pub use law::{Broken, Law};
pub use make_room::MakeRoom;
pub use outcomes::{Cell, Outcomes, outcomes};
pub use reached::{PENDING, Reached};
pub use script::{Ids, Op, Said, Script, Speaker, Words};
pub use suite::{ELSEWHERE, Elsewhere, Progress, SUITE, Settings, Size, Trial};
pub use text::ScriptError;
pub use trouble::Trouble;
pub use world::{Answer, Failure, Request, World, result};
