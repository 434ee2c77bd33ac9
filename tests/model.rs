//! The real engine does what the model says, on every conversation.

use std::sync::Arc;

use ctxlog::log::{
    Body, Entry, GroupReason, Left, LeftReason, MessageId, PartKind, Provenance, RequestReason,
    Unit, VisitOutcome, Visited,
};
use ctxlog::strategy::{Frame, KeepUnit, Plan, Strategy};

use ctxlog::testkit::model::{Model, check_against_model, check_case};
use ctxlog::testkit::{Answer, Case, Request, Script, World, generate};
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
        let order = frame.oldest_first().into_iter().rev().collect();
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

const PLAIN: &str = "say model \"ok\"\nsay model \"ok\"\ncall\n";

fn world(script: &str) -> World {
    let script: Script = script.parse().unwrap();
    check_against_model(&script, &[]).unwrap();
    World::run(&script, &[]).unwrap()
}

/// The message that holds the first call of a world.
fn called(world: &World) -> MessageId {
    let calls = |e: &Entry| match &e.body {
        Body::Appended(a) => a.skeleton.parts.iter().any(|p| p.kind == PartKind::Call),
        _ => false,
    };
    MessageId(
        world
            .entries()
            .unwrap()
            .into_iter()
            .find(calls)
            .unwrap()
            .seq,
    )
}

#[test]
fn a_second_result_of_a_call_in_one_message_is_a_duplicate() {
    for ids in ["one", "unique", "absent"] {
        let world = world(&format!("ids {ids}\ncalls 1\nresults 0,0 \"ok\"\n"));
        assert_eq!(world.refused, [(RequestReason::DuplicateResult, 1)].into());
    }
}

/// A call that was interrupted leaves with its group; a real result comes late, before or after the
/// group is brought back; bringing it back is undone.
#[test]
fn what_leaves_again_leaves_for_its_groups_reason() {
    let left = format!("strategy sliding-window:keep=1,unit=group\ncalls 1\ncall\n{PLAIN}");
    let late = "results 0 \"ok\"\n";
    for before in [true, false] {
        let mut world = world(&format!("{left}{}", if before { late } else { "" }));
        let called = called(&world);
        world.ask(&Request::Restore(called)).unwrap();
        let restored = world.head().unwrap();
        if !before {
            world.perform(&late.trim().parse().unwrap()).unwrap();
        }
        world.ask(&Request::Undo(restored)).unwrap();
        let undo = world.entries().unwrap().pop().unwrap();
        let left = &undo.body.change().unwrap().left;
        assert_eq!(left.len(), 1, "one group, one reason: {left:?}");
        assert_eq!(left[0].reason, LeftReason::BeyondKeep);
        assert!(left[0].messages.contains(called));
    }
}

/// What came back by an edit has left again; a real result superseding a synthetic one meanwhile is
/// nothing that would have to be undone first.
#[test]
fn a_superseded_result_is_not_in_the_way_of_an_undo() {
    let mut world = world(&format!(
        "strategy sliding-window:keep=1,unit=group\ncalls 1\ncall\n{PLAIN}"
    ));
    let called = called(&world);
    world.ask(&Request::Restore(called)).unwrap();
    let restored = world.head().unwrap();
    for op in ["call", "call", "results 0 \"ok\""] {
        world.perform(&op.parse().unwrap()).unwrap();
    }
    assert!(!world.chat.window().unwrap().contains(called));
    let answer = world.ask(&Request::Undo(restored)).unwrap();
    assert_eq!(answer, Answer::Refused(RequestReason::NothingMatches));
}

/// What a model is asked, and what came of it, at the last operation of a script.
fn last(script: &str, last: &str) -> (Model, Request, Vec<Entry>) {
    let mut world = world(script);
    let mut model = Model::new();
    let before = world.entries().unwrap();
    model.observe(None, &before).unwrap();
    let request = world.resolve(&last.parse().unwrap()).unwrap().unwrap();
    assert_eq!(world.ask(&request).unwrap(), Answer::Done);
    let new = world.entries().unwrap().split_off(before.len());
    (model, request, new)
}

fn visit(entries: &mut [Entry]) -> &mut Visited {
    let visits = entries.iter_mut().filter_map(|e| match &mut e.body {
        Body::Visited(visit) => Some(visit),
        _ => None,
    });
    visits.last().unwrap()
}

/// The comparison bites: nothing that an entry says of a decision can be otherwise unnoticed.
#[test]
fn an_engine_that_decides_otherwise_is_noticed() {
    let script = "strategy sliding-window:keep=1,unit=group\nsay system \"s\"\nsay person \"a\"\nsay model \"b\"\n";
    let (model, request, new) = last(script, "call usage 7");
    let predicted = model.predict(&request, &[]).unwrap();
    predicted.matches(Answer::Done, &new).unwrap();
    let lies: [fn(&mut Vec<Entry>); 9] = [
        |e| drop(e.pop()),
        |e| e[0].provenance = Provenance::Inferred,
        |e| e[1].iteration.0 += 1,
        |e| visit(e).after.amount += 1,
        |e| visit(e).base.0 -= 1,
        |e| visit(e).outcome = VisitOutcome::NoProgress,
        |e| drop(visit(e).refused.pop()),
        |e| visit(e).refused[0].reason = GroupReason::Pinned,
        |e| visit(e).released = visit(e).refused[0].messages.clone(),
    ];
    for (n, lie) in lies.iter().enumerate() {
        let mut told = new.clone();
        lie(&mut told);
        assert!(predicted.matches(Answer::Done, &told).is_err(), "lie {n}");
    }
    let refused = Answer::Refused(RequestReason::OpenCalls);
    assert!(predicted.matches(refused, &[]).is_err());
    let mut told = new;
    for entry in &mut told {
        if let Body::Called(called) = &mut entry.body {
            called.window.0[0] ^= 1;
        }
    }
    assert!(
        model.clone().observe(None, &told).is_err(),
        "another window"
    );
}

/// Whatever a user's strategy wants: what the log holds stays, and groups leave whole.
#[test]
fn a_visit_that_the_guard_must_not_allow_is_noticed() {
    let lies: [fn(&mut Visited); 3] = [
        |v| v.refused[0].reason = GroupReason::InsideKeepWindow,
        |v| {
            let messages = v.refused.remove(0).messages;
            let reason = LeftReason::BeyondKeep;
            v.change.left.push(Left { reason, messages });
        },
        |v| {
            let last = v.change.left[0].messages.0.last_mut().unwrap();
            last.1.0 -= 1; // the call without its result
        },
    ];
    let script = "strategy newest-first
        say model \"a\"
        say model \"b\"
        say model \"c\"
        calls 1
        results 0 \"ok\"
        say person \"d\"";
    let script: Script = script.parse().unwrap();
    let mut world = World::run(&script, &own()).unwrap();
    let mut model = Model::new();
    let before = world.entries().unwrap();
    model.observe(None, &before).unwrap();
    let request = world.resolve(&"call".parse().unwrap()).unwrap().unwrap();
    world.ask(&request).unwrap();
    let mut new = world.entries().unwrap().split_off(before.len());
    let visit = visit(&mut new);
    model.predict(&request, &[visit]).unwrap();
    for (n, lie) in lies.iter().enumerate() {
        let mut told = visit.clone();
        lie(&mut told);
        assert!(
            model.predict(&request, &[&told]).is_err(),
            "lie {n}: {told:?}"
        );
    }
}

/// The model says so too: no request has less than one token.
#[test]
fn a_report_of_no_tokens_is_no_reading() {
    world(
        "strategy token-budget:limit=1,low=0.1,keep=0,measure=reported\ncall usage 0\nsay person \"a b c\"\ncall\n",
    );
}
