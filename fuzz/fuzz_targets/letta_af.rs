//! Any bytes, read as `letta-af`, import without a panic and verify.
#![no_main]

ctxlog_fuzz::target!("letta-af");
