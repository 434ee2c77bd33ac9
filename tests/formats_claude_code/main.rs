//! The `claude-code` reader against real session files, hand-made lines and random ones.

mod files;
mod lines;
mod model;
mod random;
