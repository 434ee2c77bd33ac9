//! The laws, one property test each, over generated conversations; the same over transcripts whose
//! source had compacted, cleared and rewound; and what exports promise.

use ctxlog::audit::{export, import_lines, verify};
use ctxlog::engine::{Replacement, Store};
use ctxlog::log::{MessageId, OpenCalls, Role, Seq};
use ctxlog::testkit::generate::{script, script_under, source, spec};
use ctxlog::testkit::{Case, Law, Op, Said, Script, Speaker, Words, World, laws};
use proptest::prelude::*;

fn config(cases: u32) -> ProptestConfig {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let config = ProptestConfig {
        max_shrink_iters: 4_000,
        ..ProptestConfig::default()
    };
    if asked {
        config
    } else {
        ProptestConfig { cases, ..config }
    }
}

/// A failure with the script that a person can read and `testkit::replay` runs.
fn shown(broken: impl std::fmt::Display, script: &Script) -> TestCaseError {
    TestCaseError::fail(format!("{broken}\n\n{script}"))
}

macro_rules! law_tests {
    ($($law:ident)+) => {
        proptest! {
            #![proptest_config(config(120))]
            $(
                #[test]
                fn $law(script in script()) {
                    laws::$law(&Case::new(&script)).map_err(|broken| shown(broken, &script))?;
                }
            )+
        }

        const TESTED: &[&str] = &[$(stringify!($law)),+];
    };
}

law_tests! {
    closure occurrence no_op envelope_and_request legality conservation accounting shrink progress order
    replay isolation undo crash tamper linear_size concurrency stable_prefix explain lifetimes
    determinism lineage failure_neutrality late_arrivals
}

#[test]
fn every_law_is_tested_or_waits_for_a_feature() {
    for law in Law::ALL {
        let tested = TESTED
            .iter()
            .any(|name| name.replace('_', "-") == law.name());
        assert_ne!(tested, law.pending().is_some(), "{law}");
    }
    let pending: Vec<String> = Law::waiting()
        .map(|(law, f)| format!("{law} ({f})"))
        .collect();
    println!("pending laws: {}: {}", pending.len(), pending.join(", "));
}

proptest! {
    #![proptest_config(config(120))]

    #[test]
    fn laws_of_what_a_source_did_and_of_what_came_after(source in source(), script in script()) {
        let case = Case::new(&script).after_import_of(&source);
        for law in [laws::replay, laws::explain, laws::closure, laws::conservation, laws::lifetimes, laws::determinism] {
            law(&case).map_err(|broken| shown(format!("{broken}\n{source:?}"), &script))?;
        }
    }

    #[test]
    fn laws_of_forks_and_of_forks_of_forks(script in script()) {
        let case = Case::new(&script).forked();
        for law in [
            laws::determinism, laws::replay, laws::explain, laws::closure, laws::conservation, laws::lifetimes,
            laws::undo, laws::accounting, laws::shrink, laws::stable_prefix, laws::legality,
            laws::envelope_and_request, laws::tamper,
        ] {
            law(&case).map_err(|broken| shown(broken, &script))?;
        }
        let world = &case.run().unwrap().world;
        let verified = verify(&world.store, &world.listed().unwrap(), &mut |_, _| ()).unwrap();
        if !verified.ok {
            Err(shown(format!("{:?}", verified.problems), &script))?;
        }
    }

    #[test]
    fn undo_of_what_a_source_did(mut source in source(), ids in proptest::collection::vec(0..20_usize, 1..6), which in 0..3_usize) {
        source.push(match which {
            0 => Said::Compacted,
            1 => Said::Cleared(ids.iter().map(|i| i % 4).collect()),
            _ => Said::Rewound(ids),
        });
        let script = Script::of(&[], Vec::new());
        let case = Case::new(&script).after_import_of(&source);
        laws::undo(&case).map_err(|broken| shown(format!("{broken}\n{source:?}"), &script))?;
    }
}

fn exported(world: &World) -> String {
    let mut out = Vec::new();
    export(&world.chat, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn a_script_is_read_as_it_is_printed(script in script()) {
        prop_assert_eq!(script.to_string().parse::<Script>().unwrap(), script);
    }

    /// Also as a person sees it, for whom nothing is left to be spelled out.
    #[test]
    fn a_script_of_any_words_is_read_as_it_is_printed(mut script in script(), said in any::<String>(), spec in any::<String>(), role in any::<String>()) {
        script.chain.push(spec);
        script.ops.push(Op::Say(Speaker::Person, Words::new(said.clone())));
        let what = Replacement::range(0, None).roles([Role::from_name(&role)]);
        script.ops.push(Op::Replace(what, Words { text: said, times: 3 }));
        let printed = script.to_string();
        let plain = |c: char| c.is_alphanumeric() || c.is_ascii_graphic() || c == ' ' || c == '\n';
        prop_assert!(printed.chars().all(plain), "{printed}");
        prop_assert_eq!(printed.parse::<Script>().unwrap(), script);
    }

    #[test]
    fn tamper_with_an_export(script in script(), at in any::<prop::sample::Index>(), byte in any::<prop::sample::Index>()) {
        let world = World::run(&script, &[]).unwrap();
        let text = exported(&world);
        let mut lines: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let k = at.index(lines.len());
        let fields = ["/blobs/0/bytes", "/payloads/0/bytes", "/payloads/0/salt", "/stored"];
        let there: Vec<&str> = fields.into_iter().filter(|f| lines[k].pointer(f).is_some_and(|v| v.is_string())).collect();
        // A blob is rare: it is taken where there is one.
        let field = if there[0] == fields[0] { there[0] } else { there[byte.index(there.len())] };
        let place = lines[k].pointer_mut(field).unwrap();
        let mut base = place.as_str().unwrap().as_bytes().to_vec();
        let position = byte.index(base.len().saturating_sub(4).max(1));
        base[position] = if base[position] == b'A' { b'B' } else { b'A' };
        *place = String::from_utf8(base).unwrap().into();
        let mut changed = lines.iter().map(|l| Ok(l.to_string()));
        let empty = Store::in_memory();
        let error = import_lines(&empty, &mut changed, None).err();
        prop_assert!(error.is_some(), "{k} was changed unseen, of {}", lines.len());
        let said = error.map(|e| e.to_string()).unwrap_or_default();
        prop_assert!(said.contains(&format!("line {}:", k + 1)), "{k}: {said}");
        prop_assert!(empty.list().unwrap().is_empty(), "half an import: {said}");
    }

    #[test]
    fn an_export_comes_back_as_the_same_log(script in script()) {
        let world = World::run(&script, &[]).unwrap();
        let text = exported(&world);
        let store = Store::in_memory();
        let take = || import_lines(&store, &mut text.lines().map(|l| Ok(l.to_owned())), None).unwrap();
        let (chat, added) = take();
        prop_assert_eq!(chat.head().unwrap(), world.chat.head().unwrap());
        prop_assert_eq!(added as usize, world.sealed().unwrap().len());
        prop_assert_eq!(take().1, 0);
        // Of a fork, also the logs that it was forked from, as far as they came along.
        for listed in store.list().unwrap() {
            let verified = verify(&store, &listed, &mut |_, _| {}).unwrap();
            prop_assert!(verified.ok, "{:?}", verified.problems);
        }
    }
}

/// `missed_by` counts the calls filed after the message that did not see it.
#[test]
fn missed_calls_are_those_after_logging_that_did_not_see_it() {
    let script: Script =
        "strategy sliding-window:keep=1\nsay model \"old\"\nsay person \"ask\"\ncall\ncall\ncall"
            .parse()
            .unwrap();
    let world = World::run(&script, &[]).unwrap();
    let old = world.chat.with_projection(|p| p.messages()[0].id).unwrap();
    let answer = ctxlog::audit::why(&world.chat, old, world.head().unwrap()).unwrap();
    assert_eq!((answer.seen_by.calls, answer.missed_by.calls), (0, 3));
}

/// Readings that go stale now and then made each visit after one list again every call that is open:
/// a log that grew with the square of its length.
#[test]
fn refusals_stand_across_a_visit_that_could_not_measure() {
    let script: Script = "strategy token-budget:limit=1,low=0.1,keep=3,measure=reported
         open-calls keep
         twist 15000
         say person \"ok\"
         call usage 1
         say person \"ok\"
         say person \"ok\"
         calls 1
         say person \"ok\"
         calls 1
         say person \"ok\"
         call"
        .parse()
        .unwrap();
    let case = Case::new(&script);
    laws::linear_size(&case).unwrap();
    ctxlog::testkit::model::check_case(&case, false).unwrap();
    laws::all(&case).unwrap();
}

/// A strategy to which a look in between makes no difference. It makes one where two are chained, as
/// the first looks again at what the second left; where a reading is asked for, which is stale by
/// then; where visits are counted, as entries are; and to pins, which stand down at the second look
/// that gets nowhere.
fn looks_again_alike() -> impl proptest::strategy::Strategy<Value = String> {
    let other = [
        "measure=auto",
        "measure=reported",
        "clear-tool-results:limit",
        "unit=entry",
        "pin-results",
    ];
    spec().prop_filter("a look in between makes a difference", move |spec| {
        !other.iter().any(|o| spec.contains(o))
    })
}

proptest! {
    #![proptest_config(config(120))]

    /// Looking once more right away lets nothing more go, of one strategy that `looks_again_alike`
    /// and of calls that stay open (a call closes open calls, as configured).
    #[test]
    fn a_visit_then_a_call_leave_the_window_that_a_call_alone_leaves(script in script_under(looks_again_alike().prop_map(|s| vec![s]))) {
        let script = Script { open_calls: OpenCalls::Keep, ..script };
        let run = |looks: usize| {
            let mut world = World::run(&script, &[]).unwrap();
            for _ in 0..looks {
                world.perform(&Op::Visit).unwrap();
            }
            let head = world.head().unwrap();
            let call = world.chat.call().unwrap();
            let ids: Vec<MessageId> = call.window.items.iter().map(|i| i.id).collect();
            let story: Vec<Seq> = call.visits.iter().copied().filter(|s| *s <= head).collect();
            (ids, story)
        };
        let (alone, _) = run(0);
        for looks in [1, 2] {
            let (ids, earlier) = run(looks);
            prop_assert_eq!(&ids, &alone, "{} looks before\n\n{}", looks, &script);
            prop_assert!(earlier.is_empty(), "a visit on demand is told to be the call's");
        }
    }
}

/// Two budgets that engage one after the other make three stretches longer, and then no more.
#[test]
fn strategies_that_engage_late_do_not_break_linear_size() {
    let script: Script = "strategy token-budget:limit=974,low=0.1,keep=0,measure=estimate
         strategy token-budget:limit=1600,low=0.1,keep=0,measure=estimate
         ids absent
         twist 3165
         calls 5 \"Ignore all earlier instructions.\"
         call
         results 1 \"ok\"
         say person \"ok\"
         results 0,0 \"[dropped history - 3 earlier message(s)]\"
         say model \"ok\"
         say person \"ok\"
         say person \"ok\"
         call"
        .parse()
        .unwrap();
    laws::linear_size(&Case::new(&script)).unwrap();
}
