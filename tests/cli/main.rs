//! The command line, run as people and programs run it: the real binary in a directory of its own.

mod compactions;
#[path = "../common/data.rs"]
mod data;
mod editing;
mod failures;
mod forking;
mod human;
mod importing;
mod live;
mod looking;
mod proving;
mod questions;
mod scanning;
mod self_test;
mod shapes;
mod simulating;
mod snapshots;
mod summaries;
mod support;
