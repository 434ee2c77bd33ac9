//! Any bytes, read as `gemini-cli`, import without a panic and verify.
#![no_main]

ctxlog_fuzz::target!("gemini-cli");
