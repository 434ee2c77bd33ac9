//! One file per command.

pub mod append;
pub mod bisect;
pub mod call;
pub mod context;
pub mod diff;
pub mod export;
pub mod fork;
pub mod grep;
pub mod import;
pub mod lint;
pub mod log;
pub mod ls;
pub mod pin;
pub mod recall;
pub mod redact;
pub mod replace;
pub mod report;
pub mod restore;
pub mod self_test;
pub mod show;
pub mod status;
pub mod verify;
pub mod why;
pub mod window;
