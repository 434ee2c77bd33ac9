//! Sequences of operations: whatever is done, the engine does what the model says.
#![no_main]

use ctxlog::testkit::World;
use ctxlog::testkit::generate::script_from;
use ctxlog::testkit::model::check_against_model;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let script = script_from(data);
    if script.ops.len() > 64 {
        return; // long ones find what short ones do, slower
    }
    if World::new(&script, &[]).is_err() {
        return; // a strategy that there is not, or that cannot be
    }
    if let Err(found) = check_against_model(&script, &[]) {
        panic!("{found}\n\n{script}");
    }
});
