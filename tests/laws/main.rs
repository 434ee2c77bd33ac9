//! The laws of the core, each a property test named after it, over conversations built from every
//! shape that is known to have broken some system; the corners that examples pin; the recorded
//! transcripts; the golden log.
//!
//! `PROPTEST_CASES` sets how many conversations each law is tried on.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "numbers of entries, small here"
)]
#![allow(
    clippy::default_trait_access,
    clippy::format_collect,
    clippy::items_after_statements,
    clippy::redundant_closure_for_method_calls,
    reason = "shorter to read in tests"
)]

mod corners;
#[path = "../common/data.rs"]
mod data;
mod files;
mod forks;
mod golden;
mod passing;
mod past;
mod properties;
mod summarized;
#[path = "../common/talk.rs"]
mod talk;
mod verify;
mod work;
