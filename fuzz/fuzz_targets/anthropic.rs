//! Any bytes, read as `anthropic`, import without a panic and verify.
#![no_main]

ctxlog_fuzz::target!("anthropic");
