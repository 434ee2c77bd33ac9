//! The laws of the core, each a property test named after it, over conversations built from every
//! shape that is known to have broken some system; the corners that examples pin; the recorded
//! transcripts; the golden log.
//!
//! `PROPTEST_CASES` sets how many conversations each law is tried on.

mod corners;
mod files;
mod generate;
mod golden;
mod oracle;
mod properties;
mod work;
