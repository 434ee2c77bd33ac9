//! The model: a naive engine that shares no code with the real one. It is the specification; the
//! real one is compared with it after every step.
//!
//! It uses the words of [`crate::log`] and nothing of `window`, `strategy` and `engine`: a plain list
//! of entries, every question answered by scanning it. `fold` says what stands after an entry,
//! `decide` what a request must do, `bind` which call a result answers, `look` what a strategy's
//! visit comes to, `pins` which results are held and what a notice says, `outputs` which outputs get
//! smaller, `summary` what is summarised and what becomes of the answer, `edit` what restoring and undoing give back,
//! `replace` what is replaced and cleared, `recall` what is shown again, `redact` which words go,
//! `fork` what goes on from an earlier moment.

mod bind;
mod check;
mod decide;
mod edit;
mod fold;
mod fork;
mod guard;
mod look;
mod outputs;
mod pins;
mod predicted;
mod recall;
mod redact;
mod replace;
mod summary;

pub use check::{check_against_model, check_case};
pub use decide::Model;
pub use fold::{Message, Moment, Out, Span, messages_of, moments};
pub use guard::Group;
pub use predicted::Predicted;
