//! ctxlog's own export: any lines give an error that leaves nothing, or a log that verifies and
//! exports as itself.
#![no_main]

use ctxlog::audit::{export, import_lines, verify};
use ctxlog::engine::Store;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let store = Store::in_memory();
    let mut lines = text.lines().map(|line| Ok(line.to_owned()));
    let Ok((chat, _)) = import_lines(&store, &mut lines, None) else {
        assert!(store.list().expect("a listing").is_empty());
        return;
    };
    for listed in store.list().expect("a listing") {
        let verified = verify(&store, &listed, &mut |_, _| {}).expect("a verdict");
        assert_eq!(verified.chain, "ok", "{:?}", verified.problems);
    }
    export(&chat, &mut Vec::new()).expect("what was taken in is given back");
});
