//! The model: a naive engine that shares no code with the real one. It is the specification; the
//! real one is compared with it after every step.

mod fold;

pub use fold::{Message, Moment, Out, Span, moments};
