//! Any bytes, read as `langgraph-checkpoints`, import without a panic and verify.
#![no_main]

ctxlog_fuzz::target!("langgraph-checkpoints");
