//! Any bytes, read as `sharegpt`, import without a panic and verify.
#![no_main]

ctxlog_fuzz::target!("sharegpt");
