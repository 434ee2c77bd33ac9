//! Conversation shapes that broke other systems, each as a test named after its symptom. The number
//! at the beginning of a test's comment is that of the shape in [`list::SHAPES`], which also says
//! what of it waits for a feature.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "numbers of messages, small here"
)]
#![allow(
    clippy::redundant_closure_for_method_calls,
    reason = "shorter to read in tests"
)]

mod budgets;
mod concurrency;
mod consolidation;
mod failing;
mod forks;
mod history;
mod interruption;
mod list;
mod memory;
mod order;
mod pairing;
mod reasoning;
mod request;
mod summaries;
mod support;
#[path = "../common/talk.rs"]
mod talk;

use std::io::Write;

/// Every run says how much is not there yet.
#[test]
fn shapes_that_wait_for_a_feature_are_counted() {
    let waits = list::SHAPES.iter().filter(|s| !s.2.is_empty());
    let (whole, parts): (Vec<_>, Vec<_>) = waits.partition(|s| s.1 == list::PENDING);
    for (number, _, what) in whole.iter().chain(&parts) {
        println!("  {number} {what}");
    }
    // Not by `println!`, which a run that passes does not show.
    let (whole, parts) = (whole.len(), parts.len());
    let told = format!("pending shapes: {whole}\npending parts of shapes: {parts}\n");
    std::io::stderr().write_all(told.as_bytes()).unwrap();
    assert!(whole + parts <= list::SHAPES.len());
}
