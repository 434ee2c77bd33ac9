//! Any bytes, read as `mini-swe-traj`, import without a panic and verify.
#![no_main]

ctxlog_fuzz::target!("mini-swe-traj");
