//! The test kit as a user meets it: strategies of one's own, one that is right and several that are
//! wrong in the ways that come easily. Uses the public kit alone, so that it also builds without
//! ctxlog's default features.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ctxlog::log::{LeftReason, Micros, Reading, RequestReason, Unit};
use ctxlog::strategy::{Frame, KeepUnit, Plan, SlidingWindow, Strategy};
use ctxlog::testkit::{
    Effort, Law, Problem, Rejected, check_strategy, check_strategy_with, replay,
};
use ctxlog::window::{Cut, Order, Sizes};

/// Makes a strategy out of its spec and its plan.
macro_rules! strategy {
    ($(#[$doc:meta])* $name:ident, $spec:literal, |$self:ident, $frame:ident| $plan:block) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        struct $name;

        impl Strategy for $name {
            fn spec(&self) -> String {
                $spec.into()
            }

            fn unit(&self) -> Unit {
                Unit::Group
            }

            fn plan(&$self, $frame: &Frame<'_>) -> Plan $plan
        }
    };
}

strategy! {
    /// Lets the oldest go above eight groups, down to four, so that it does not cut at every call.
    HighAndLow, "high-and-low:high=8,low=4", |self, frame| {
        Plan::counted(KeepUnit::Group, 8, frame.cut(KeepUnit::Group, 4))
    }
}

strategy! {
    /// Lets nothing go, whatever others in its chain do.
    Never, "never", |self, _frame| { Plan::NotDue }
}

strategy! {
    /// Never asks every second group, and does not say that it keeps them.
    Forgetful, "forgetful", |self, frame| {
        let cut = frame.cut(KeepUnit::Group, 2);
        let order = frame.oldest_first().into_iter().step_by(2).collect();
        Plan::counted(KeepUnit::Group, 2, Cut { order, ..cut })
    }
}

strategy! {
    /// Takes the ids that providers give to tool calls for names.
    ByCallId, "by-call-id", |self, frame| {
        let cut = frame.cut(KeepUnit::Group, 2);
        let named = |group: usize| {
            let messages = frame.groups()[group].messages.iter();
            let parts = messages.filter_map(|id| frame.state().message(*id)?.skeleton()).flat_map(|s| &s.parts);
            parts.filter_map(|p| p.label.as_deref()).any(|label| label.starts_with('c'))
        };
        let mut order = frame.oldest_first();
        order.sort_by_key(|group| !named(*group));
        Plan::counted(KeepUnit::Group, 2, Cut { order: Order::Given(order), ..cut })
    }
}

strategy! {
    /// Believes the clock.
    ByClock, "by-clock", |self, frame| {
        let cut = frame.cut(KeepUnit::Group, 2);
        let at = |group: usize| {
            let newest = frame.groups()[group].messages.iter().filter_map(|id| frame.state().message(*id));
            newest.filter_map(|m| m.logged.at).max().unwrap_or(Micros(0)).0
        };
        let mut order = frame.oldest_first();
        order.sort_by_key(|group| at(*group));
        Plan::counted(KeepUnit::Group, 2, Cut { order: Order::Given(order), ..cut })
    }
}

strategy! {
    /// Remembers how often it was asked.
    EveryThirdTime, "every-third-time", |self, frame| {
        static LOOKS: AtomicU64 = AtomicU64::new(0);
        if LOOKS.fetch_add(1, Ordering::Relaxed) % 3 == 2 {
            Plan::counted(KeepUnit::Group, 2, frame.cut(KeepUnit::Group, 2))
        } else {
            Plan::NotDue
        }
    }
}

strategy! {
    /// Cuts whenever it is asked, whether or not its limit is reached.
    Restless, "restless", |self, frame| {
        let before = ctxlog::window::count(Unit::Group, frame.count(KeepUnit::Group));
        Plan::Due { before, limit: 6, cut: frame.cut(KeepUnit::Group, 3) }
    }
}

strategy! {
    /// Says groups and counts messages.
    Miscounting, "miscounting", |self, frame| {
        let cut = frame.cut(KeepUnit::Group, 3);
        let sizes = Sizes::Given(frame.sizes(Unit::Message));
        Plan::counted(KeepUnit::Group, 3, Cut { sizes, ..cut })
    }
}

strategy! {
    /// Says that a summary stands for what it lets go, and has made none.
    Pretending, "pretending", |self, frame| {
        let cut = frame.cut(KeepUnit::Group, 3);
        Plan::counted(KeepUnit::Group, 3, Cut { reason: LeftReason::Summarized, ..cut })
    }
}

strategy! {
    /// Says groups and tells its readings in messages.
    Confusing, "confusing", |self, frame| {
        Plan::counted(KeepUnit::Message, 3, frame.cut(KeepUnit::Message, 3))
    }
}

/// Guesses, and gives its guess out for the estimate.
#[derive(Debug, Default)]
struct Guessing;

impl Strategy for Guessing {
    fn spec(&self) -> String {
        "guessing".into()
    }
    fn unit(&self) -> Unit {
        Unit::Token
    }
    fn plan(&self, frame: &Frame<'_>) -> Plan {
        let Ok(tokens) = frame.tokens() else {
            return Plan::NotDue;
        };
        let amount = frame.count(KeepUnit::Group) * 10;
        let before = Reading {
            unit: Unit::Token,
            method: tokens.method.clone(),
            amount,
        };
        if amount <= 30 {
            return Plan::NotDue;
        }
        let cut = Cut {
            sizes: Sizes::Given(vec![10; frame.groups().len()]),
            before: amount,
            ..frame.cut(KeepUnit::Group, 30)
        };
        Plan::Due {
            before,
            limit: 30,
            cut,
        }
    }
}

strategy! {
    /// Is sure that there is a third group.
    Presuming, "presuming", |self, frame| {
        let third = frame.groups()[2].run;
        let keep = (0..frame.groups().len()).filter(|g| frame.groups()[*g].run > third).collect();
        Plan::counted(KeepUnit::Group, 3, Cut { keep, ..frame.cut(KeepUnit::Group, 3) })
    }
}

fn rejected(strategy: impl Strategy + 'static) -> Box<Rejected> {
    check_strategy(strategy).unwrap_err()
}

/// The law that a strategy was rejected for, after the printed script was read and run again.
fn law_broken_by<S: Strategy + Default + 'static>() -> Law {
    let rejected = rejected(S::default());
    let said = rejected.to_string();
    let Problem::Broken(broken) = &rejected.problem else {
        panic!("{said}");
    };
    assert!(
        said.contains(broken.law.name()) && said.contains(&rejected.spec),
        "{said}"
    );
    let script = rejected.script.as_ref().unwrap();
    assert!(script.ops.len() <= 16, "a person has to read this:\n{said}");
    let again = replay(&script.to_string(), &[Arc::new(S::default())]);
    assert!(
        matches!(again, Err(Problem::Broken(_))),
        "{again:?}\n{said}"
    );
    broken.law
}

#[test]
fn a_strategy_that_obeys_the_laws_is_accepted() {
    let accepted = check_strategy(HighAndLow).unwrap();
    assert!(accepted.transitions > 2_000, "{accepted:?}");
    assert!(
        accepted.reached.leavings.values().sum::<u64>() > 50,
        "{accepted:?}"
    );
    check_strategy(Never).unwrap();
}

#[test]
fn ctxlogs_own_strategies_are_accepted() {
    let effort = Effort {
        cases: 20,
        ..Effort::default()
    };
    for spec in [
        "sliding-window:keep=2",
        "head-tail:window=3",
        "token-budget:limit=40,keep=1",
    ] {
        let strategy = ctxlog::strategy::parse(spec).unwrap();
        check_strategy_with(strategy, effort).unwrap();
    }
}

#[test]
fn a_strategy_that_leaves_groups_out_is_rejected() {
    assert_eq!(law_broken_by::<Forgetful>(), Law::Accounting);
}

#[test]
fn a_strategy_that_looks_at_call_ids_is_rejected() {
    assert_eq!(law_broken_by::<ByCallId>(), Law::Occurrence);
}

#[test]
fn a_strategy_that_believes_the_clock_is_rejected() {
    assert_eq!(law_broken_by::<ByClock>(), Law::Order);
}

#[test]
fn a_strategy_that_remembers_is_rejected() {
    let rejected = rejected(EveryThirdTime);
    let Problem::Broken(broken) = &rejected.problem else {
        panic!("{rejected}");
    };
    assert_eq!(broken.law, Law::Determinism, "{rejected}");
}

#[test]
fn a_strategy_that_cuts_within_its_limit_is_rejected() {
    assert_eq!(law_broken_by::<Restless>(), Law::Accounting);
}

#[test]
fn a_strategy_that_says_one_unit_and_counts_another_is_rejected() {
    assert_eq!(law_broken_by::<Miscounting>(), Law::Accounting);
}

#[test]
fn a_strategy_that_says_what_is_not_so_is_rejected() {
    assert_eq!(law_broken_by::<Pretending>(), Law::Accounting);
    assert_eq!(law_broken_by::<Confusing>(), Law::Accounting);
    assert_eq!(law_broken_by::<Guessing>(), Law::Accounting);
}

#[test]
fn a_strategy_that_panics_is_rejected_with_its_words() {
    let rejected = rejected(Presuming);
    let Problem::Panicked(words) = &rejected.problem else {
        panic!("{rejected}");
    };
    assert!(words.contains("out of bounds"), "{rejected}");
    assert!(rejected.script.unwrap().ops.len() <= 3);
}

/// Names itself otherwise each time.
#[derive(Debug)]
struct Numbered(AtomicU64);
impl Strategy for Numbered {
    fn spec(&self) -> String {
        format!("numbered:{}", self.0.fetch_add(1, Ordering::Relaxed))
    }
    fn unit(&self) -> Unit {
        Unit::Group
    }
    fn plan(&self, _: &Frame<'_>) -> Plan {
        Plan::NotDue
    }
}

#[test]
fn impossible_parameters_and_a_spec_that_changes_are_rejected_before_anything_is_tried() {
    let impossible = rejected(SlidingWindow::new(0));
    assert!(matches!(impossible.problem, Problem::Unusable(_)) && impossible.script.is_none());
    let changing = rejected(Numbered(AtomicU64::new(0)));
    assert!(
        matches!(changing.problem, Problem::Unusable(_)),
        "{changing}"
    );
}

/// A spec of any form; it may panic.
#[derive(Debug)]
struct Named(Option<&'static str>);
impl Strategy for Named {
    fn spec(&self) -> String {
        self.0.expect("no name was given").into()
    }
    fn unit(&self) -> Unit {
        Unit::Group
    }
    fn plan(&self, _: &Frame<'_>) -> Plan {
        Plan::NotDue
    }
}

/// Scripts and logs name a strategy by its spec, so one that no line can hold is told before
/// anything is tried, by the kit and by the engine alike; a panic is told as one.
#[test]
fn a_spec_that_cannot_name_a_strategy_is_rejected() {
    let long: &'static str = Box::leak("x".repeat(1_025).into_boxed_str());
    for spec in [
        "",
        " padded",
        "padded ",
        "two\nlines",
        "a\rb",
        "\u{1b}[31m",
        long,
    ] {
        let unusable = rejected(Named(Some(spec)));
        assert!(
            matches!(unusable.problem, Problem::Unusable(_)),
            "{unusable}"
        );
        let chat = ctxlog::engine::Store::in_memory()
            .conversation("a")
            .unwrap();
        let refused = chat.with_strategy(Named(Some(spec))).unwrap_err();
        let reason = refused.refusal().map(|r| r.reason);
        assert_eq!(reason, Some(RequestReason::InvalidOption), "{spec:?}");
    }
    let nameless = rejected(Named(None));
    assert!(
        matches!(&nameless.problem, Problem::Panicked(words) if words.contains("no name")),
        "{nameless}"
    );
}

#[test]
fn the_same_seed_tries_the_same_conversations() {
    let effort = Effort {
        cases: 20,
        seed: 7,
        ..Effort::default()
    };
    let tried = || check_strategy_with(Arc::new(HighAndLow), effort).unwrap();
    assert_eq!(tried(), tried());
    let other = Effort { seed: 8, ..effort };
    assert_ne!(
        tried(),
        check_strategy_with(Arc::new(HighAndLow), other).unwrap()
    );
}

#[test]
fn a_script_that_cannot_be_read_says_where() {
    let error = replay("say person \"hello\"\nsay nobody \"hello\"", &[]).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("line 2") && said.contains("nobody"), "{said}");
    // What is read from anywhere asks for no more than a person would write.
    for line in ["calls 3000000", "say person \"a\" x 70000", "settings -1"] {
        let error = replay(line, &[]).unwrap_err();
        assert!(error.to_string().contains("no number that fits"), "{error}");
    }
}
