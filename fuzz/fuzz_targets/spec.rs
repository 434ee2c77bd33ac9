//! Strategy specs: any text gives an error or a strategy whose resolved spec reads back as itself.
#![no_main]

use ctxlog::strategy::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(strategy) = parse(text) {
        let spec = strategy.spec();
        assert_eq!(
            parse(&spec).expect("a resolved spec reads back").spec(),
            spec
        );
    }
});
