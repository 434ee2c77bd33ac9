//! Any bytes, read as `bedrock-converse`, import without a panic and verify.
#![no_main]

ctxlog_fuzz::target!("bedrock-converse");
