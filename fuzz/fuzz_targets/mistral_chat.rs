//! Any bytes, read as `mistral-chat`, import without a panic and verify.
#![no_main]

ctxlog_fuzz::target!("mistral-chat");
