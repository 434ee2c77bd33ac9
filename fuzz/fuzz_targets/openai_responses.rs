//! Any bytes, read as `openai-responses`, import without a panic and verify.
#![no_main]

ctxlog_fuzz::target!("openai-responses");
