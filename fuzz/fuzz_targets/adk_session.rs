//! Any bytes, read as `adk-session`, import without a panic and verify.
#![no_main]

ctxlog_fuzz::target!("adk-session");
