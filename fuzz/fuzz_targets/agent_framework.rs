//! Any bytes, read as `agent-framework`, import without a panic and verify.
#![no_main]

ctxlog_fuzz::target!("agent-framework");
