//! Any bytes, read as `claude-code`, import without a panic and verify.
#![no_main]

ctxlog_fuzz::target!("claude-code");
