//! The test kit: the laws of a window as property tests, for strategies of one's own and for ctxlog
//! itself.

mod case;
mod check;
pub mod fault;
mod figures;
pub mod generate;
mod law;
pub mod laws;
mod ledger;
pub mod model;
mod outcomes;
mod random;
mod reached;
mod script;
pub mod simulate;
pub mod tamper;
mod text;
mod world;

pub use case::{Case, Run};
pub use check::{Accepted, Effort, Problem, Rejected, check_strategy, check_strategy_with, replay};
pub use figures::Figure;
pub use law::{Broken, Law};
pub use outcomes::{Cell, Outcomes, outcomes};
pub use random::Random;
pub use reached::{PENDING, Reached};
pub use script::{Ids, Op, Said, Script, Speaker, Words};
pub use text::ScriptError;
pub use world::{Answer, Failure, Request, World, result};
