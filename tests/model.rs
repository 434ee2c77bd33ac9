//! The real engine does what the model says, on every conversation.

use std::sync::Arc;

use ctxlog::log::Unit;
use ctxlog::strategy::{Frame, KeepUnit, Plan, Strategy};

use ctxlog::testkit::model::{check_against_model, check_case};
use ctxlog::testkit::{Case, Script, generate};
use ctxlog::window::Cut;
use proptest::prelude::*;
use proptest::strategy::Strategy as _;

/// `PROPTEST_CASES`, else some hundred.
fn config() -> ProptestConfig {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let config = ProptestConfig {
        failure_persistence: None,
        max_shrink_iters: 4_000,
        ..ProptestConfig::default()
    };
    if asked {
        config
    } else {
        ProptestConfig {
            cases: 300,
            ..config
        }
    }
}

fn agrees(script: &Script, own: &[Arc<dyn Strategy>]) -> Result<(), TestCaseError> {
    check_against_model(script, own)
        .map(drop)
        .map_err(|e| TestCaseError::fail(format!("{e}\nthe script:\n{script}")))
}

/// A user's strategy that the model knows nothing of: wants the newest to leave first.
#[derive(Debug)]
struct NewestFirst;

impl Strategy for NewestFirst {
    fn spec(&self) -> String {
        "newest-first".into()
    }

    fn unit(&self) -> Unit {
        Unit::Group
    }

    fn plan(&self, frame: &Frame<'_>) -> Plan {
        let cut = frame.cut(KeepUnit::Group, 3);
        let order = cut.order.iter().rev().copied().collect();
        Plan::counted(KeepUnit::Group, 4, Cut { order, ..cut })
    }
}

fn own() -> [Arc<dyn Strategy>; 1] {
    [Arc::new(NewestFirst)]
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_engine_does_what_the_model_says(script in generate::script()) {
        agrees(&script, &[])?;
    }

    #[test]
    fn it_does_so_with_a_strategy_of_ones_own(
        script in generate::script_under(
            proptest::option::of(generate::spec())
                .prop_map(|other| std::iter::once(NewestFirst.spec()).chain(other).collect())
        ),
    ) {
        agrees(&script, &own())?;
    }

    #[test]
    fn a_log_of_a_source_is_folded_as_the_model_folds_it(
        source in generate::source(),
        script in generate::script(),
    ) {
        let case = Case::new(&script).after_import_of(&source);
        check_case(&case, true)
            .map_err(|e| TestCaseError::fail(format!("{e}\nthe source:\n{source:?}\nthe script:\n{script}")))?;
    }
}
