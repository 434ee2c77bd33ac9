//! Any bytes, read as `webui-export`, import without a panic and verify.
#![no_main]

ctxlog_fuzz::target!("webui-export");
