//! The test kit: the laws of a window as property tests, for strategies of one's own and for ctxlog
//! itself.

mod figures;
pub mod generate;
mod law;
pub mod model;
mod script;
mod text;
mod world;

pub use figures::Figure;
pub use law::{Broken, Law};
pub use script::{Ids, Op, Said, Script, Speaker, Words};
pub use text::ScriptError;
pub use world::{Answer, Request, World, result};
