//! One file per command.

pub mod append;
pub mod call;
pub mod export;
pub mod import;
pub mod lint;
pub mod log;
pub mod ls;
pub mod pin;
pub mod recall;
pub mod replace;
pub mod report;
pub mod restore;
pub mod self_test;
pub mod show;
pub mod simulate;
pub mod status;
pub mod verify;
pub mod why;
pub mod window;
