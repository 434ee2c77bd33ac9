//! Any bytes, read as `codex-exec-stream`, import without a panic and verify.
#![no_main]

ctxlog_fuzz::target!("codex-exec-stream");
