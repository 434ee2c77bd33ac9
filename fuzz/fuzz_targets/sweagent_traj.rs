//! Any bytes, read as `sweagent-traj`, import without a panic and verify.
#![no_main]

ctxlog_fuzz::target!("sweagent-traj");
