//! Any bytes, read as `anthropic`, import without a panic and verify.
#![no_main]

use ctxlog::formats::anthropic::read;
use ctxlog_fuzz::{import, records};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| import(read(records(data))));
