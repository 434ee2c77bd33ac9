//! Any bytes, read as `oasst-tree`, import without a panic and verify.
#![no_main]

ctxlog_fuzz::target!("oasst-tree");
