//! Any bytes, read as `langchain`, import without a panic and verify.
#![no_main]

ctxlog_fuzz::target!("langchain");
