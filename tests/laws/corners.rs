//! Sharp corners, each an example: what other systems do there. The comments give the numbers of the
//! acceptance lists they come from. Shapes that broke other systems are in `tests/shapes`.

use ctxlog::engine::{Options, Store};
use ctxlog::formats::{Step, Transcript};
use ctxlog::log::*;
use ctxlog::strategy::parse;
use ctxlog::window::Conservation;

use crate::talk::{chat, message, reason, refuses, talk, there, visits};

#[test]
fn head_tail_keeps_the_first_and_the_last_twelve_unless_told_otherwise() {
    // S0.7, S0.8, S0.10, S2.2
    assert_eq!(
        parse("head-tail").unwrap().spec(),
        "head-tail:window=12,head=1,unit=message"
    );
    for (n, gone) in [(12, 0), (13, 0), (14, 1), (20, 7)] {
        let chat = chat("head-tail");
        let ids = talk(&chat, &"A ".repeat(n));
        let call = chat.call().unwrap();
        assert_eq!(n - there(&chat, &ids).len(), gone);
        assert_eq!(call.visits.len(), usize::from(gone > 0));
    }
}

#[test]
fn head_tail_keeps_the_system_prompt_beside_the_tail_and_settles() {
    // S0.9, S0.11
    let chat = chat("head-tail:window=3");
    let ids = talk(&chat, "S A A A A A");
    let first = chat.call().unwrap();
    assert_eq!(there(&chat, &ids), [0, 3, 4, 5]);
    assert_eq!(visits(&chat, &first)[0].after.amount, 3);
    assert!(chat.call().unwrap().visits.is_empty() && chat.call().unwrap().visits.is_empty());
}

#[test]
fn a_window_of_one_keeps_the_first_and_the_last_group_whole() {
    // S0.12
    let chat = chat("head-tail:window=1");
    let ids = talk(&chat, "A A A Aa,b Ra Rb");
    chat.call().unwrap();
    assert_eq!(there(&chat, &ids), [0, 3, 4, 5]);
}

#[test]
fn the_first_message_is_kept_whatever_its_role_and_a_late_system_message_is_not() {
    // S0.13, S0.14, S2.17
    let chat = chat("head-tail:window=2");
    let ids = talk(&chat, "U A S A U A U");
    chat.call().unwrap();
    assert_eq!(there(&chat, &ids), [0, 5, 6]);
    assert_eq!(refuses(&chat, ids[0]), Some(GroupReason::ProtectedHead));
}

#[test]
fn a_large_message_counts_as_one() {
    // S0.16
    let chat = chat("head-tail:window=2,head=0");
    chat.append(Message::model("x".repeat(1 << 20))).unwrap();
    let ids = talk(&chat, "A");
    assert!(chat.call().unwrap().visits.is_empty());
    assert_eq!(there(&chat, &ids), [0]);
}

#[test]
fn groups_are_batches_and_single_messages() {
    // S2.12, S2.13, S2.15
    let lengths = |words: &str| {
        let chat = chat("");
        talk(&chat, words);
        let window = chat.window().unwrap();
        chat.with_projection(|p| {
            p.groups_of(&window)
                .iter()
                .map(Vec::len)
                .collect::<Vec<_>>()
        })
        .unwrap()
    };
    assert_eq!(lengths("U Aa Ra Ab Rb Ac Rc"), [1, 2, 2, 2]);
    assert_eq!(lengths("U U A"), [1, 1, 1]);
    assert!(lengths("").is_empty());
    // A person's message between call and result is not of the group, and an id comes again.
    assert_eq!(lengths("Aa U Ra Aa Ra"), [1, 2, 2]);
}

#[test]
fn the_first_reason_of_the_order_is_named() {
    // S2.19, S2.23, S2.28, S2.43: a group that is kept and open, and one that is kept and the request
    let chat = chat("sliding-window:keep=3")
        .with_open_calls(OpenCalls::Keep)
        .unwrap();
    let ids = talk(&chat, "S A Aa,b Ra U A");
    chat.call().unwrap();
    assert_eq!(there(&chat, &ids), [0, 2, 3, 4, 5]);
    let found: Vec<_> = [0, 2, 3, 4, 5]
        .iter()
        .map(|i| refuses(&chat, ids[*i]))
        .collect();
    use GroupReason::*;
    assert_eq!(
        found,
        [
            SystemEnvelope,
            UnresolvedToolCall,
            UnresolvedToolCall,
            CurrentRequest,
            InsideKeepWindow
        ]
        .map(Some)
    );
}

#[test]
fn who_spoke_decides_the_request_and_not_what_was_said() {
    // S2.34, S2.35, S2.36
    let chat = chat("sliding-window:keep=1");
    let ids = talk(&chat, "U A X A");
    assert_eq!(
        chat.with_projection(|p| p.run()).unwrap(),
        Some(ids[0].seq())
    );
    let ids = talk(&chat, "U Aa");
    chat.append(Message::tool("a", "ask")).unwrap();
    chat.call().unwrap();
    assert_eq!(
        chat.with_projection(|p| p.run()).unwrap(),
        Some(ids[0].seq())
    );
    let none = self::chat("sliding-window:keep=1");
    let ids = talk(&none, "A X A A");
    none.call().unwrap();
    assert_eq!(there(&none, &ids), [3]);
}

#[test]
fn the_keep_window_is_never_reached() {
    // S2.44, S2.59
    for groups in 1..=12 {
        for keep in 1..=8 {
            let chat = chat(&format!("sliding-window:keep={keep}"));
            let ids = talk(&chat, &"A ".repeat(groups));
            chat.call().unwrap();
            let kept: Vec<usize> = (groups.saturating_sub(keep)..groups).collect();
            assert_eq!(there(&chat, &ids), kept);
        }
    }
}

#[test]
fn blocks_of_one_model_message_settle_or_wait_as_one() {
    let chat = chat("");
    let first = talk(&chat, "U Aa Ra")[1];
    let more = Options {
        continues: Some(first),
        ..Options::default()
    };
    chat.append_with(Message::model("and words"), &more)
        .unwrap();
    let steering = talk(&chat, "U");
    assert_ne!(
        chat.with_projection(|p| p.run()).unwrap(),
        Some(steering[0].seq())
    );
    let next = talk(&chat, "A U");
    assert_eq!(
        chat.with_projection(|p| p.run()).unwrap(),
        Some(next[1].seq())
    );
}

#[test]
fn a_request_is_found_in_a_history_that_begins_with_calls() {
    let chat = chat("sliding-window:keep=1");
    let ids = talk(&chat, "Aa Ra U A");
    assert_eq!(
        chat.with_projection(|p| p.run()).unwrap(),
        Some(ids[2].seq())
    );
}

#[test]
fn requests_are_counted_until_their_last_group_left() {
    let chat = chat("sliding-window:keep=1,unit=request")
        .with_open_calls(OpenCalls::Keep)
        .unwrap();
    let ids = talk(&chat, "U Aa A U A U A");
    let call = chat.call().unwrap();
    assert_eq!(there(&chat, &ids), [1, 5, 6]);
    let visit = &visits(&chat, &call)[0];
    assert_eq!(
        (visit.before.amount, visit.after.amount, visit.outcome),
        (3, 2, VisitOutcome::Short)
    );
}

#[test]
fn a_repeated_key_gives_the_call_with_all_that_was_filed_with_it() {
    let chat = chat("sliding-window:keep=1");
    talk(&chat, "A Aa");
    let key = Options {
        key: Some("k".into()),
        ..Options::default()
    };
    let first = chat.call_with(&key, None).unwrap();
    talk(&chat, "A");
    let again = chat.call_with(&key, None).unwrap();
    assert!(again.repeated && !first.closed.is_empty() && !first.visits.is_empty());
    assert_eq!(
        (again.id, again.window, again.visits, again.closed),
        (first.id, first.window, first.visits, first.closed)
    );
}

#[test]
fn a_keyed_message_that_was_split_is_known_again() {
    let chat = chat("sliding-window:keep=1");
    talk(&chat, "Aa");
    chat.call().unwrap();
    talk(&chat, "A A");
    chat.call().unwrap();
    talk(&chat, "Ab");
    let both = Message::new(
        Role::Tool,
        Author::Tool,
        vec![Part::result("a", "1"), Part::result("b", "2")],
    );
    let key = Options {
        key: Some("k".into()),
        ..Options::default()
    };
    let first = chat.append_with(both.clone(), &key).unwrap();
    assert_eq!(
        first.last.0,
        first.first.0 + 1,
        "the late one and the other are two"
    );
    let again = chat.append_with(both, &key).unwrap();
    assert_eq!(
        (again.first, again.last, again.repeated),
        (first.first, first.last, true)
    );
    assert_eq!(
        reason(chat.append_with(message("A"), &key)),
        RequestReason::IdempotencyConflict
    );
}

#[test]
fn what_joined_a_source_while_its_claim_was_away_goes_with_it() {
    let say = |m| Step::Message {
        message: m,
        at: None,
        link: Default::default(),
    };
    let summary = Message::new(Role::User, Author::Application, vec![Part::text("so far")]);
    let steps = vec![
        say(message("U")),
        say(message("Aa")),
        Step::Compacted {
            summary,
            rest: Vec::new(),
            at: None,
        },
    ];
    let store = Store::in_memory();
    store
        .import(
            "a",
            &Transcript {
                format: "claude-code",
                id: None,
                steps,
                ..Transcript::default()
            },
            Vec::new(),
            &mut |_| {},
        )
        .unwrap();
    let chat = store.existing("a").unwrap();
    let claim = chat.with_projection(|p| p.messages()[2].id.seq()).unwrap();
    let undone = chat.undo(claim).unwrap().last;
    let late = talk(&chat, "Ra");
    chat.undo(undone).unwrap();
    assert_eq!(there(&chat, &late), [0_usize; 0]);
    let fate = chat.with_projection(|p| p.conservation(late[0])).unwrap();
    assert_eq!(fate, Some(Conservation::Covered));
}

#[test]
fn an_import_without_strategies_is_not_continued_with_some() {
    let called = Step::Called {
        model: None,
        at: None,
    };
    let transcript = Transcript {
        format: "claude-code",
        id: None,
        steps: vec![called],
        ..Transcript::default()
    };
    let store = Store::in_memory();
    let import = |chain| store.import("a", &transcript, chain, &mut |_| {});
    import(Vec::new()).unwrap();
    let chain = vec![parse("sliding-window:keep=1").unwrap()];
    assert_eq!(reason(import(chain)), RequestReason::PolicyConflict);
}
