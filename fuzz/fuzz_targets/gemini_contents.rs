//! Any bytes, read as `gemini-contents`, import without a panic and verify.
#![no_main]

ctxlog_fuzz::target!("gemini-contents");
