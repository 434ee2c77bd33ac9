//! What people type: strategy specs, selectors, spans, scripts. Any text gives an error or something
//! that reads back as itself.
#![no_main]

use ctxlog::audit::{Selector, Span};
use ctxlog::strategy::parse;
use ctxlog::testkit::Script;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(strategy) = parse(text) {
        let spec = strategy.spec();
        let again = parse(&spec).expect("a resolved spec reads back");
        assert_eq!(again.spec(), spec);
    }
    if let Ok(selector) = text.parse::<Selector>() {
        let again: Selector = selector.to_string().parse().expect("a selector reads back");
        assert_eq!(again, selector);
    }
    let _ = text.parse::<Span>();
    if let Ok(script) = text.parse::<Script>() {
        let again: Script = script.to_string().parse().expect("a script reads back");
        assert_eq!(again, script);
    }
});
