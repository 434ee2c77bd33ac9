//! A fold that forgets what left the window.

use std::collections::BTreeSet;

use ctxlog::audit::{LAWS, Laws};
use ctxlog::engine::{Conversation, Store};
use ctxlog::log::{Entry, Message, MessageId, Seq};
use ctxlog::strategy::SlidingWindow;
use ctxlog::testkit::World;
use ctxlog::testkit::generate::script;
use ctxlog::window::{MessageState, Passing, Projection};
use proptest::prelude::*;

/// What both folds must say of a message: all but refusals that ended, which no law asks for.
fn told<'a>(p: &'a Projection, m: &'a MessageState) -> impl PartialEq + std::fmt::Debug + 'a {
    let standing: Vec<_> = (0..p.strategies().len())
        .map(|s| p.standing_refusal(s, m))
        .collect();
    (
        (m.id, m.place, m.logged, &m.forms, &m.lives, &m.absences),
        (m.pinned, m.restored, p.in_envelope(m), p.in_request(m)),
        (p.group_of(m.id), standing),
    )
}

fn agree(passing: &Projection, whole: &Projection) -> Result<(), TestCaseError> {
    prop_assert_eq!(passing.window(), whole.window());
    prop_assert_eq!(passing.next_iteration(), whole.next_iteration());
    prop_assert_eq!(passing.settings(), whole.settings());
    prop_assert_eq!(passing.unsupported(), whole.unsupported());
    prop_assert_eq!(passing.strategies(), whole.strategies());
    for strategy in 0..whole.strategies().len() {
        let of = |p: &Projection| p.standing(strategy).map(|m| m.id).collect::<Vec<_>>();
        prop_assert_eq!(of(passing), of(whole));
    }
    for message in passing.messages() {
        let same = whole.message(message.id);
        prop_assert_eq!(Some(told(passing, message)), same.map(|m| told(whole, m)));
    }
    Ok(())
}

/// Passes through a log; gives what was named after it was forgotten.
fn pass(
    entries: &[Entry],
    every: usize,
    remember: BTreeSet<Seq>,
) -> Result<BTreeSet<Seq>, TestCaseError> {
    let mut passing = Passing::every(every).remembering(remember);
    let mut whole = Projection::default();
    let (mut laws, mut laws_of_whole) = (Laws::default(), Laws::default());
    let mut gone = BTreeSet::new();
    for entry in entries {
        laws.before(passing.state(), entry);
        laws_of_whole.before(&whole, entry);
        passing.apply(entry);
        whole.apply(entry);
        if !passing.named().is_empty() {
            continue;
        }
        laws.after(passing.state(), entry);
        laws_of_whole.after(&whole, entry);
        agree(passing.state(), &whole)?;
        for message in passing.forget() {
            laws.forgotten(&message);
            prop_assert!(gone.insert(message.id));
            let away = whole.message(message.id).is_some_and(|m| !m.visible());
            prop_assert!(away, "{:?} is forgotten in the window", message.id);
        }
        agree(passing.state(), &whole)?;
    }
    if passing.named().is_empty() {
        laws.at_end(passing.state());
        laws_of_whole.at_end(&whole);
        for &law in LAWS {
            prop_assert_eq!(laws.broken_at(law), laws_of_whole.broken_at(law), "{}", law);
        }
        prop_assert_eq!(laws.inferred_exceptions, laws_of_whole.inferred_exceptions);
        let held = passing.state().messages().iter().map(|m| m.id);
        gone.extend(held);
        let all: BTreeSet<MessageId> = whole.messages().iter().map(|m| m.id).collect();
        prop_assert_eq!(gone, all, "each message is held or was given back");
    }
    Ok(passing.named().clone())
}

proptest! {
    #[test]
    fn a_fold_that_forgets_says_of_the_window_what_a_whole_one_says(
        script in script(), every in prop_oneof![Just(0_usize), 1_usize..9]
    ) {
        let world = World::run(&script, &[]).unwrap();
        let entries = world.entries().unwrap();
        let mut remember = BTreeSet::new();
        loop {
            let named = pass(&entries, every, remember.clone())?;
            if named.is_empty() {
                break;
            }
            prop_assert!(named.is_disjoint(&remember), "what is remembered is not forgotten");
            remember.extend(named);
        }
    }
}

fn talk(turns: usize) -> Conversation {
    let chat = Store::in_memory().conversation("a").unwrap();
    let chat = chat.with_strategy(SlidingWindow::new(4)).unwrap();
    for turn in 0..turns {
        chat.append(Message::person(format!("question {turn}")))
            .unwrap();
        chat.call().unwrap();
        chat.append(Message::model(format!("answer {turn}")))
            .unwrap();
    }
    chat
}

fn entries(chat: &Conversation) -> Vec<Entry> {
    let mut entries = Vec::new();
    let head = chat.head().unwrap().unwrap();
    chat.store()
        .entries(chat.id(), Seq(0), head.seq, &mut |sealed| {
            entries.push(sealed.entry);
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    entries
}

#[test]
fn what_is_held_does_not_grow_with_the_log() {
    let mut most = 0;
    let mut passing = Passing::every(16);
    for entry in entries(&talk(500)) {
        passing.apply(&entry);
        passing.forget();
        most = most.max(passing.state().messages().len());
    }
    assert!(passing.named().is_empty());
    assert!(most < 64, "{most} messages were held");
}

#[test]
fn what_was_forgotten_and_comes_back_is_named() {
    let chat = talk(50);
    let first = chat.with_projection(|p| p.messages()[0].id).unwrap();
    chat.restore(first).unwrap();
    let mut passing = Passing::every(16);
    for entry in entries(&chat) {
        passing.apply(&entry);
        passing.forget();
    }
    assert_eq!(passing.named(), &BTreeSet::from([first.seq()]));
}
