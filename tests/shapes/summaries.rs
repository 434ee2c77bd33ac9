//! What summaries stand for, and what a failure leaves. Until strategies consolidate, the summaries
//! are those that sources made themselves.

use std::sync::Arc;

use ctxlog::engine::{Conversation, Store};
use ctxlog::formats::Step;
use ctxlog::log::{MessageId, Part, Role};
use ctxlog::window::Conservation;

use crate::failing::Failing;
use crate::support::{
    calls, claims, compacts, compacts_to, entries, fate, import_into, imported, logged, sound,
    steps, view, words,
};
use crate::talk::{chain, message, talk};

/// The exact messages that a summary stands for.
fn sources(chat: &Conversation, claim: MessageId) -> Vec<MessageId> {
    let sources = |p: &ctxlog::window::Projection| p.ids_in(&p.message(claim).unwrap().sources);
    chat.with_projection(sources).unwrap()
}

/// B65. A compaction put back what an earlier one had taken out, and the window grew.
#[test]
fn a_summary_draws_on_what_is_in_the_window_alone() {
    for gone in [
        vec![1],
        vec![0, 1],
        vec![4, 5],
        vec![1, 2, 3],
        vec![0, 1, 2, 3, 4, 5],
    ] {
        let mut all = steps("U Aa Ra A U A");
        all.push(Step::Rewound {
            gone: gone.clone(),
            at: None,
        });
        let before = imported(all.clone());
        let left = view(&before);
        all.push(compacts());
        let chat = imported(all);
        let claim = claims(&chat)[0];
        // A half of a pair does not leave: its group is not wholly off the path.
        assert_eq!(sources(&chat, claim).len(), left.len(), "{gone:?}");
        assert_eq!(view(&chat), [claim]);
        sound(&chat);
        chat.undo(claim.seq()).unwrap();
        assert_eq!(view(&chat), left, "what had gone before stays gone");
        sound(&chat);
    }
}

/// B66. Summaries of summaries grew from generation to generation.
#[test]
fn a_summary_of_a_summary_stands_alone_and_names_what_it_stands_for() {
    let mut all = steps("S");
    for _ in 0..20 {
        all.extend(steps("U Aa Ra A"));
        all.push(compacts());
    }
    let chat = imported(all);
    let claims = claims(&chat);
    assert_eq!(claims.len(), 20);
    assert_eq!(view(&chat)[1..], claims[19..], "one is in the window");
    for (n, pair) in claims.windows(2).enumerate() {
        let named = sources(&chat, pair[1]);
        assert!(named.contains(&pair[0]), "generation {n}");
        assert_eq!(named.len(), 5, "the one before, and what came since");
        assert_eq!(fate(&chat, pair[0]), Conservation::Covered);
    }
    sound(&chat);
    // Each generation can be gone back to, down to the messages.
    for claim in claims.iter().rev() {
        chat.undo(claim.seq()).unwrap();
    }
    assert_eq!(view(&chat).len(), 81);
    sound(&chat);
}

/// B70. All was summarised again at every turn, and the summary was sent beside what it was made of.
#[test]
fn a_range_is_sent_or_its_summary_and_never_both() {
    let mut all = steps("S");
    for turn in 1..=40 {
        all.extend(steps("U"));
        all.push(calls());
        all.extend(steps("Aa Ra"));
        all.push(calls());
        all.extend(steps("A"));
        if turn % 5 == 0 {
            all.push(compacts());
        }
    }
    let chat = imported(all);
    let claims = claims(&chat);
    assert_eq!(claims.len(), 8);
    let mut covered = Vec::new();
    for claim in &claims {
        covered.extend(sources(&chat, *claim));
    }
    let count = covered.len();
    covered.sort_unstable();
    covered.dedup();
    assert_eq!(covered.len(), count, "nothing is summarised twice");
    let sent = chat.with_projection(|p| p.sent().to_vec()).unwrap();
    assert_eq!(sent.len(), 80);
    for call in sent {
        let window = chat.window_after(call.fact.seq).unwrap();
        for claim in claims.iter().filter(|c| window.contains(**c)) {
            let both = sources(&chat, *claim);
            assert!(!both.iter().any(|id| window.contains(*id)), "{claim}");
        }
    }
    sound(&chat);
}

/// B73. Half of all compactions stored an empty template, and the summary before was lost.
#[test]
fn a_compaction_of_nothing_takes_nothing() {
    let chat = imported(vec![compacts()]);
    assert_eq!(sources(&chat, claims(&chat)[0]), []);
    sound(&chat);
    for parts in [vec![], vec![Part::text("")], vec![Part::text("so far")]] {
        for times in 1..=3 {
            let mut all = steps("S U A");
            all.push(compacts());
            for _ in 0..times {
                all.push(compacts_to(Role::User, parts.clone()));
            }
            let chat = imported(all);
            let claims = claims(&chat);
            // What a source did is kept as it did it; nothing of it is lost, and it can be undone.
            let first = claims[0];
            assert_eq!(fate(&chat, first), Conservation::Covered);
            for claim in claims[1..].iter().rev() {
                chat.undo(claim.seq()).unwrap();
            }
            assert_eq!(view(&chat).last(), Some(&first));
            assert_eq!(words(&chat, first), "so far");
            sound(&chat);
        }
    }
}

/// B75. A store was cleared to be filled anew; filling it failed, and all was gone.
#[test]
fn a_failed_edit_leaves_everything_as_it_was() {
    let backend = Arc::new(Failing::default());
    let store = Store::on(Arc::clone(&backend) as _);
    let mut said = steps("S U Aa Ra A U A");
    import_into(&store, said.clone());
    let chat = store.existing("a").unwrap();
    let chat = chat
        .with_strategies(chain("sliding-window:keep=1"))
        .unwrap();
    talk(&chat, "U A");
    let visit = chat.call().unwrap().visits[0];
    talk(&chat, "A A U");
    said.push(compacts());
    let gone = logged(&chat)[1];
    let attempts: [&dyn Fn() -> bool; 6] = [
        &|| chat.append(message("U")).is_err(),
        &|| chat.call().is_err(),
        &|| chat.restore(gone).is_err(),
        &|| chat.undo(visit).is_err(),
        &|| chat.note("what", None).is_err(),
        &|| {
            let mut grown = said.clone();
            grown.extend(steps("U"));
            let transcript = ctxlog::formats::Transcript {
                format: "claude-code",
                id: None,
                steps: grown,
                ..ctxlog::formats::Transcript::default()
            };
            store
                .import("a", &transcript, Vec::new(), &mut |_| {})
                .is_err()
        },
    ];
    for (n, fails) in attempts.iter().enumerate() {
        let (before, head) = (view(&chat), chat.head().unwrap());
        backend.fail(true);
        assert!(fails(), "attempt {n}");
        backend.fail(false);
        assert_eq!((view(&chat), chat.head().unwrap()), (before.clone(), head));
        let cold = Store::on(Arc::clone(&backend) as _).existing("a").unwrap();
        assert_eq!(view(&cold), before);
        sound(&cold);
    }
    // Nothing is in the way of doing it after all.
    assert!(!chat.call().unwrap().visits.is_empty());
    chat.restore(gone).unwrap();
    chat.undo(visit).unwrap();
    sound(&chat);
}

/// B78. What had been taken out was marked in the store; what stood for it was not there: a silent
/// hole.
#[test]
fn no_beginning_of_a_log_has_a_hole_that_nothing_stands_for() {
    let mut all = steps("S U Aa Ra A U Ab,c Rb Rc");
    all.push(Step::Cleared {
        calls: vec!["a".to_owned()],
        marker: "[cleared]".to_owned(),
        at: None,
    });
    all.push(compacts());
    all.extend(steps("A U A"));
    all.push(compacts());
    all.extend(steps("U"));
    let chat = imported(all);
    let chat = chat
        .with_strategies(chain("sliding-window:keep=1"))
        .unwrap();
    talk(&chat, "A U A");
    chat.call().unwrap();
    for entry in entries(&chat) {
        let n = entry.seq;
        let window = chat.window_after(n).unwrap();
        for id in logged(&chat).into_iter().filter(|id| id.seq() <= n) {
            let told = chat.with_projection(|p| {
                let end = p.message(id)?.absent_at(n)?.clone();
                Some((end, p.conservation_at(id, n)?))
            });
            match told.unwrap() {
                None => assert!(window.contains(id), "{id} at {n}"),
                Some((end, fate)) => {
                    assert!(!window.contains(id) && end.by.seq <= n, "{id} at {n}");
                    assert!(end.stand_in.is_none() || fate != Conservation::Visible);
                    if let Some(stand_in) = end.stand_in {
                        assert!(stand_in.seq() <= n);
                        assert!(!words(&chat, stand_in).is_empty());
                    }
                }
            }
        }
    }
    sound(&chat);
}
