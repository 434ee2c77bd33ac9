//! The test kit: the laws of a window as property tests, for strategies of one's own and for ctxlog
//! itself.

mod case;
mod check;
mod figures;
pub mod generate;
mod law;
pub mod laws;
pub mod model;
mod reached;
mod script;
pub mod tamper;
mod text;
mod world;

pub use case::{Case, Run};
pub use check::{Accepted, Effort, Problem, Rejected, check_strategy, check_strategy_with, replay};
pub use figures::Figure;
pub use law::{Broken, Law};
pub use reached::{PENDING, Reached};
pub use script::{Ids, Op, Said, Script, Speaker, Words};
pub use text::ScriptError;
pub use world::{Answer, Failure, Request, World, result};
