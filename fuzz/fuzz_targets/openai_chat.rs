//! Any bytes, read as `openai-chat`, import without a panic and verify.
#![no_main]

ctxlog_fuzz::target!("openai-chat");
