//! Any bytes, read as `codex-rollout`, import without a panic and verify.
#![no_main]

ctxlog_fuzz::target!("codex-rollout");
