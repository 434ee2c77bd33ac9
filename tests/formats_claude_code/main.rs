//! The `claude-code` reader against real session files, hand-made lines and random ones.

#[path = "../common/data.rs"]
mod data;
mod files;
mod lines;
mod model;
mod random;
