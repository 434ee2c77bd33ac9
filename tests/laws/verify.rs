//! Many logs are verified as each of them is.

use std::ops::ControlFlow;
use std::sync::Arc;

use ctxlog::audit::{Verified, verify, verify_each};
use ctxlog::engine::Store;
use ctxlog::log::Message;
use ctxlog::store::{Listed, MemoryStore};
use proptest::prelude::*;

/// A store of logs with so many messages and calls each, in the order they are listed in.
fn store_of(lengths: &[usize]) -> (Store, Vec<Listed>) {
    let store = Store::on(Arc::new(MemoryStore::new()));
    for (log, length) in lengths.iter().enumerate() {
        let chat = store.conversation(&format!("log {log}")).unwrap();
        for message in 0..*length {
            chat.append(Message::person(format!("{log} {message}")))
                .unwrap();
            chat.call().unwrap();
        }
    }
    let listed = store.list().unwrap();
    (store, listed)
}

proptest! {
    #[test]
    fn many_logs_are_verified_as_each_is(
        lengths in prop::collection::vec(0_usize..20, 1..20), gone in any::<prop::sample::Index>(), stop in 1_usize..30
    ) {
        let (store, mut listed) = store_of(&lengths);
        // One that is not there: its answer says so, and the others are not touched by it.
        let lost = gone.index(listed.len());
        listed[lost].conversation.0[0] ^= 1;
        let expected: Vec<Verified> = listed
            .iter()
            .map(|one| verify(&store, one, &mut |_, _| {}).unwrap())
            .collect();
        let (mut answers, mut progress) = (Vec::new(), Vec::new());
        verify_each(
            &store,
            &listed,
            &mut |done, of| progress.push((done, of)),
            &mut |one, answer| {
                answers.push((one.clone(), answer.unwrap()));
                if answers.len() == stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            },
        )
        .unwrap();
        let wanted: Vec<_> = listed.iter().cloned().zip(expected).take(stop).collect();
        prop_assert_eq!(answers, wanted);
        prop_assert!(progress.is_sorted());
        prop_assert!(progress.iter().all(|(done, of)| done <= of));
    }
}
