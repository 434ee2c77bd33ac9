//! Any bytes, read as `chatgpt-export`, import without a panic and verify.
#![no_main]

ctxlog_fuzz::target!("chatgpt-export");
