//! Any bytes, read as `openhands-events`, import without a panic and verify.
#![no_main]

ctxlog_fuzz::target!("openhands-events");
