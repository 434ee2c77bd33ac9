//! The real engine does what the model says, on every conversation.

use ctxlog::testkit::model::{check_against_model, check_imported};
use ctxlog::testkit::{Script, generate};
use proptest::prelude::*;

fn cases() -> u32 {
    let set = std::env::var("PROPTEST_CASES").ok();
    set.and_then(|n| n.parse().ok()).unwrap_or(300)
}

fn agrees(script: &Script) -> Result<(), TestCaseError> {
    check_against_model(script, &[])
        .map(drop)
        .map_err(|e| TestCaseError::fail(format!("{e}\nthe script:\n{script}")))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, max_shrink_iters: 4_000, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn the_engine_does_what_the_model_says(script in generate::script()) {
        agrees(&script)?;
    }

    #[test]
    fn a_log_of_a_source_is_folded_as_the_model_folds_it(
        source in generate::source(),
        script in generate::script(),
    ) {
        check_imported(&source, &script, &[])
            .map_err(|e| TestCaseError::fail(format!("{e}\nthe source:\n{source:?}\nthe script:\n{script}")))?;
    }
}
