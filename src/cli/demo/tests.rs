use super::*;

fn told() -> (Store, Tale) {
    let store = Store::in_memory();
    let tale = tell(&store, NAME).unwrap();
    (store, tale)
}

#[test]
fn the_sample_is_a_long_run_with_parallel_calls_and_one_big_result() {
    let (store, tale) = told();
    let chat = store.existing(NAME).unwrap();
    let calls = tale.status.iteration.0;
    assert!((30..=40).contains(&calls), "{calls} calls");
    let lost = tale.lost.unwrap();
    assert_eq!(lost.what.author, Author::Tool);
    assert!(
        (4_000..=7_000).contains(&lost.what.tokens),
        "{}",
        lost.what.tokens
    );
    let parallel = chat.with_projection(|p| {
        let many = |m: &&MessageState| m.skeleton().is_some_and(|s| s.parts.len() > 1);
        p.messages().iter().filter(many).count()
    });
    assert!(parallel.unwrap() >= 3);
}

#[test]
fn envelope_request_and_the_newest_refuse_before_the_big_result_leaves() {
    let (_, tale) = told();
    let lost = tale.lost.unwrap();
    let reasons: Vec<GroupReason> = tale
        .visits
        .iter()
        .flat_map(|v| v.refused.iter().map(|r| r.reason))
        .collect();
    let mut expected = vec![GroupReason::SystemEnvelope];
    if cfg!(feature = "tiktoken") {
        // The estimate takes the list for smaller: it leaves before anything newer is asked.
        expected.extend([GroupReason::CurrentRequest, GroupReason::InsideKeepWindow]);
    }
    for reason in expected {
        assert!(reasons.contains(&reason), "{reason} in {reasons:?}");
    }
    assert_eq!(lost.why.status, "evicted");
    assert!(lost.why.restore.is_some());
    assert!(lost.why.lives[0].left.is_some());
    assert!(
        lost.change
            .gone
            .iter()
            .any(|l| l.message == lost.what.message)
    );
}

#[test]
fn the_wrong_answer_was_given_without_the_detail_in_its_window() {
    let (store, tale) = told();
    let chat = store.existing(NAME).unwrap();
    let lost = tale.lost.unwrap();
    let mattered = lost.mattered.unwrap();
    let holds = |iteration| {
        let window = chat.window_at(iteration).unwrap();
        chat.render(&window, ctxlog::Profile::OpenAiChat)
            .unwrap()
            .body
            .contains(DETAIL)
    };
    let left = lost.visit.iteration;
    assert!(holds(Iteration(left.0 - 1)));
    assert!(!holds(left));
    assert!(left < mattered.iteration);
    assert!(!holds(mattered.iteration));
    let again = mattered.seen_again.unwrap().iteration;
    assert!(mattered.iteration < again && holds(again));
    assert!(mattered.known.contains("gift card"), "{}", mattered.known);
    assert!(mattered.known.contains("final sale"), "{}", mattered.known);
}

#[test]
fn telling_it_again_adds_nothing_and_says_the_same() {
    let (store, first) = told();
    let again = tell(&store, NAME).unwrap();
    assert!(first.added > 0);
    assert_eq!(again.added, 0);
    let value = |tale: Tale| {
        let mut value = serde_json::to_value(tale).unwrap();
        value["added"] = 0.into();
        value
    };
    assert_eq!(value(again), value(first));
}

#[test]
fn it_can_be_told_after_the_lost_result_was_brought_back() {
    let (store, first) = told();
    let lost = first.lost.unwrap().what.message;
    store.existing(NAME).unwrap().restore(lost).unwrap();
    let again = tell(&store, NAME).unwrap().lost.unwrap();
    assert_eq!(again.what.message, lost);
    assert_eq!(again.why.status, "visible");
}
