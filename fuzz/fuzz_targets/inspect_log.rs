//! Any bytes, read as `inspect-log`, import without a panic and verify.
#![no_main]

ctxlog_fuzz::target!("inspect-log");
