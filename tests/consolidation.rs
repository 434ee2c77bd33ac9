//! Summaries, over generated conversations: with summarisers that fail, answer nothing, too much, too
//! late, or in instructions, and with everything that may happen while one is asked.

use ctxlog::testkit::generate::summarized;
use ctxlog::testkit::model::check_against_model;
use ctxlog::testkit::{Case, Script, laws};
use proptest::prelude::*;

fn config(cases: u32) -> ProptestConfig {
    let config = ProptestConfig {
        max_shrink_iters: 400,
        ..ProptestConfig::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_some() {
        config
    } else {
        ProptestConfig { cases, ..config }
    }
}

fn shown(broken: impl std::fmt::Display, script: &Script) -> TestCaseError {
    TestCaseError::fail(format!("{broken}\n\n{script}"))
}

proptest! {
    #![proptest_config(config(250))]

    #[test]
    fn every_entry_is_what_the_model_says(script in summarized()) {
        check_against_model(&script, &[]).map_err(|e| shown(e, &script))?;
    }
}

proptest! {
    #![proptest_config(config(120))]

    #[test]
    fn every_law_holds(script in summarized()) {
        laws::all(&Case::new(&script)).map_err(|e| shown(e, &script))?;
    }
}
