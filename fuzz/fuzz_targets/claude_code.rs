//! Any bytes, read as `claude-code`, import without a panic and verify.
#![no_main]

use ctxlog::formats::claude_code::read;
use ctxlog_fuzz::{LIMIT, import};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| import(read(data, "fuzz", LIMIT).expect("memory reads")));
