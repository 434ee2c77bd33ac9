//! Sharp corners, each an example: what other systems do there, and what broke them. The comments
//! give the numbers of the acceptance lists (S) and of the broken shapes (B) they come from.

use std::sync::Arc;

use ctxlog::audit::why;
use ctxlog::engine::{Call, Conversation, Error, Options, Store};
use ctxlog::formats::{Step, Transcript};
use ctxlog::log::*;
use ctxlog::store::{Backend, MemoryStore};
use ctxlog::strategy::parse;
use ctxlog::window::Conservation;

use ctxlog::testkit::result;

use crate::refused;

fn chat(spec: &str) -> Conversation {
    let chat = Store::in_memory().conversation("a").unwrap();
    let chain = spec
        .split(';')
        .filter(|s| !s.is_empty())
        .map(|s| parse(s).unwrap())
        .collect();
    chat.with_strategies(chain).unwrap()
}

/// One message a word: `S` system, `U` person, `A` model, `Aa,b` model that calls a and b, `Ra`
/// result of a, `Ia` interim result of a, `X` application.
fn message(word: &str) -> Message {
    let (kind, rest) = word.split_at(1);
    match kind {
        "S" => Message::system("instructions"),
        "U" => Message::person("ask"),
        "A" if rest.is_empty() => Message::model("say"),
        "A" => Message::calls(
            rest.split(',')
                .map(|id| Part::call(id, "tool", "{}"))
                .collect(),
        ),
        "R" => Message::tool(rest, "out"),
        "I" => Message::new(
            Role::Tool,
            Author::Tool,
            vec![result(Some(rest), "tool", true, "pending")],
        ),
        _ => Message::new(
            Role::User,
            Author::Application,
            vec![Part::text("injected")],
        ),
    }
}

fn talk(chat: &Conversation, words: &str) -> Vec<MessageId> {
    words
        .split_whitespace()
        .map(|w| chat.append(message(w)).unwrap().message())
        .collect()
}

/// Which of these messages are in the window.
fn there(chat: &Conversation, ids: &[MessageId]) -> Vec<usize> {
    let window = chat.window().unwrap();
    (0..ids.len())
        .filter(|i| window.contains(ids[*i]))
        .collect()
}

fn visits(chat: &Conversation, call: &Call) -> Vec<Visited> {
    let body = |v: &Seq| match chat.entry(*v).unwrap().body {
        Body::Visited(v) => v,
        other => panic!("{other:?}"),
    };
    call.visits.iter().map(body).collect()
}

/// The reason why a message may not leave, by its newest refusal.
fn refuses(chat: &Conversation, id: MessageId) -> Option<GroupReason> {
    let head = chat.head().unwrap().unwrap().seq;
    why(chat, id, head)
        .unwrap()
        .refusals
        .last()
        .map(|r| r.reason)
}

fn reason(result: Result<impl std::fmt::Debug, Error>) -> RequestReason {
    result.unwrap_err().refusal().unwrap().reason
}

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
fn no_cut_falls_between_a_call_and_its_results() {
    // S0.15, B01, B03, B11, S2.45
    let chat = chat("head-tail:window=3");
    let ids = talk(&chat, "S U A U Aa,b Ra Rb A");
    chat.append(Message::person("more")).unwrap();
    chat.call().unwrap();
    assert_eq!(there(&chat, &ids), [0, 4, 5, 6, 7]);
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
    // A person's message between call and result is not of the group, and B20: an id comes again.
    assert_eq!(lengths("Aa U Ra Aa Ra"), [1, 2, 2]);
}

#[test]
fn a_result_without_a_call_and_a_second_result_are_refused_by_name() {
    // S2.14, B21, B28
    let chat = chat("");
    assert_eq!(
        reason(chat.append(message("Ra"))),
        RequestReason::UnknownCall
    );
    talk(&chat, "Aa Ra");
    assert_eq!(
        reason(chat.append(message("Ra"))),
        RequestReason::DuplicateResult
    );
    talk(&chat, "Aa Ra");
    assert_eq!(chat.window().unwrap().items.len(), 4);
}

#[test]
fn the_request_is_in_every_window_of_a_long_tool_loop() {
    // S2.18, S2.38, B48, B53, B60
    let specs = (1..=6).map(|k| format!("token-budget:limit=1,keep={k}"));
    for spec in specs.chain([
        "sliding-window:keep=2".into(),
        "head-tail:window=2,head=0".into(),
    ]) {
        let chat = chat(&spec);
        let ids = talk(&chat, "S U A U");
        for _ in 0..10 {
            let call = chat.call().unwrap();
            assert!(
                call.window.contains(ids[3]) && call.window.contains(ids[0]),
                "{spec}"
            );
            talk(&chat, "Aa,a Ra Ra");
        }
        let call = chat.call().unwrap();
        assert!(
            !call.window.contains(ids[1]),
            "{spec}: an earlier request may go (S2.37)"
        );
        assert_eq!(
            refuses(&chat, ids[3]),
            Some(GroupReason::CurrentRequest),
            "{spec}"
        );
    }
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
fn a_refuser_is_stepped_over_and_stops_nothing() {
    // S2.41 as DESIGN has it, B118
    let chat = chat("sliding-window:keep=1")
        .with_open_calls(OpenCalls::Keep)
        .unwrap();
    let ids = talk(&chat, "A Aa A A A");
    chat.call().unwrap();
    assert_eq!(there(&chat, &ids), [1, 4]);
}

#[test]
fn a_visit_that_frees_nothing_is_filed_once_with_its_reasons() {
    // S2.39, S2.42, S2.61, B45, B56
    let chat = chat("sliding-window:keep=1");
    let ids = talk(&chat, "U A");
    let call = chat.call().unwrap();
    let visit = &visits(&chat, &call)[0];
    assert_eq!(
        (visit.outcome, visit.shortfall),
        (VisitOutcome::Short, Some(1))
    );
    assert_eq!(refuses(&chat, ids[0]), Some(GroupReason::CurrentRequest));
    assert_eq!(refuses(&chat, ids[1]), Some(GroupReason::InsideKeepWindow));
    for _ in 0..3 {
        assert!(chat.call().unwrap().visits.is_empty());
    }
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
fn windows_open_on_a_user_message_where_the_target_allows() {
    // S2.64, B38, B46: answers go with the questions that would have opened the window
    let chat = chat("token-budget:limit=24,low=0.8,keep=1,measure=estimate");
    let long = |m: Message| chat.append(m).unwrap().message();
    let text = "x".repeat(32);
    let ids = [
        long(Message::system("")),
        long(Message::person(text.clone())),
        long(Message::model(text.clone())),
        long(Message::person(text.clone())),
        long(Message::model(text)),
        long(Message::person("now")),
    ];
    chat.call().unwrap();
    assert_eq!(there(&chat, &ids), [0, 3, 4, 5]);
    let opener = chat
        .with_projection(|p| p.message(ids[2]).unwrap().absent.clone().unwrap().reason)
        .unwrap();
    assert!([LeftReason::Opener, LeftReason::OverBudget].contains(&opener));
}

#[test]
fn a_synthetic_result_leaves_with_its_call_and_yields_to_the_real_one() {
    // B06, B08, B23
    let chat = chat("sliding-window:keep=1");
    let ids = talk(&chat, "Aa,a,a");
    let call = chat.call().unwrap();
    assert_eq!(call.closed.len(), 3, "each call is closed once");
    assert!(chat.call().unwrap().closed.is_empty());
    let late = talk(&chat, "Ra Ra Ra");
    assert_eq!(
        reason(chat.append(message("Ra"))),
        RequestReason::DuplicateResult
    );
    let fate = |seq: &Seq| {
        chat.with_projection(|p| p.conservation(MessageId(*seq)))
            .unwrap()
    };
    assert!(
        call.closed
            .iter()
            .all(|s| fate(s) == Some(Conservation::Covered))
    );
    assert_eq!(there(&chat, &late), [0, 1, 2]);
    talk(&chat, "A A");
    chat.call().unwrap();
    assert_eq!((there(&chat, &ids), there(&chat, &late)), (vec![], vec![]));
    assert_eq!(
        reason(chat.restore(MessageId(call.closed[0]))),
        RequestReason::RestoreConflict
    );
    chat.restore(late[1]).unwrap();
    assert_eq!(
        (there(&chat, &ids), there(&chat, &late)),
        (vec![0], vec![0, 1, 2])
    );
}

#[test]
fn a_late_result_whose_call_left_does_not_enter_and_comes_back_with_it() {
    // B05, B10
    let chat = chat("sliding-window:keep=1");
    let call = talk(&chat, "Aa")[0];
    chat.call().unwrap();
    talk(&chat, "A A");
    let visit = chat.call().unwrap().visits[0];
    let late = talk(&chat, "Ra")[0];
    assert_eq!(there(&chat, &[call, late]), [0_usize; 0]);
    let answer = why(&chat, late, chat.head().unwrap().unwrap().seq).unwrap();
    assert_eq!((answer.status, answer.lives.len()), ("evicted", 0));
    chat.undo(visit).unwrap();
    assert_eq!(there(&chat, &[call, late]), [0, 1]);
}

#[test]
fn an_interim_result_closes_nothing() {
    // B13
    let chat = chat("sliding-window:keep=1");
    let ids = talk(&chat, "Aa Ia A A");
    let call = chat.call().unwrap();
    assert!(call.closed.is_empty());
    assert_eq!(there(&chat, &ids), [0, 1, 3]);
    assert_eq!(
        refuses(&chat, ids[1]),
        Some(GroupReason::UnresolvedToolCall)
    );
    let rest = talk(&chat, "Ra A");
    chat.call().unwrap();
    assert_eq!(there(&chat, &ids), [0_usize; 0]);
    assert_eq!(there(&chat, &rest), [1]);
}

#[test]
fn a_call_that_the_provider_runs_and_has_not_answered_may_not_leave() {
    // B16
    let chat = chat("sliding-window:keep=1");
    let body = PartBody::Call {
        id: Some("s".into()),
        name: "search".into(),
        arguments: "{}".into(),
        native: Some("server_tool_use".into()),
    };
    let call = chat
        .append(Message::calls(vec![Part {
            body,
            extra: Fields::new(),
        }]))
        .unwrap()
        .message();
    talk(&chat, "A A");
    assert!(
        chat.call().unwrap().closed.is_empty(),
        "nobody here can answer it"
    );
    assert_eq!(refuses(&chat, call), Some(GroupReason::UnresolvedToolCall));
}

#[test]
fn a_call_with_open_tool_calls_is_refused_where_that_is_configured() {
    // B26, B25: a rejection is a result like any other
    let chat = chat("").with_open_calls(OpenCalls::Refuse).unwrap();
    talk(&chat, "Aa,b,c Ra Rb U");
    assert_eq!(reason(chat.call()), RequestReason::OpenCalls);
    talk(&chat, "Rc");
    assert!(chat.call().unwrap().closed.is_empty());
}

#[test]
fn steering_belongs_to_the_request_and_a_failed_call_ends_no_run() {
    // B36, B68
    let chat = chat("sliding-window:keep=1");
    let ids = talk(&chat, "U A U Aa U Ra U");
    let call = chat.call().unwrap();
    assert_eq!(there(&chat, &ids), [2, 4, 6]);
    let before = chat.window().unwrap();
    chat.report(call.id, None, Some("overloaded"), None)
        .unwrap();
    assert_eq!(
        chat.window().unwrap().items,
        before.items,
        "no error text enters the window"
    );
    talk(&chat, "U");
    chat.call().unwrap();
    assert_eq!(there(&chat, &ids), [2, 4, 6]);
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
fn nothing_that_was_said_is_lost_for_being_empty() {
    // B31, B33
    let chat = chat("");
    let empty = chat
        .append(Message::new(Role::Assistant, Author::Model, Vec::new()))
        .unwrap()
        .message();
    assert!(chat.window().unwrap().contains(empty));
    let nobody = Message::new(Role::User, Author::Person, Vec::new());
    assert!(refused(
        &chat.append(nobody).unwrap_err(),
        RequestReason::EmptyMessage
    ));
}

#[test]
fn a_reading_of_another_window_never_triggers() {
    // B55, S2.84, S2.86, S2.87
    let chat = chat("token-budget:limit=100,keep=0,measure=reported");
    let ids = talk(&chat, "A A");
    let first = chat.call().unwrap();
    assert_eq!(visits(&chat, &first)[0].outcome, VisitOutcome::Unmeasurable);
    let nothing = Usage {
        input: Some(0),
        ..Usage::default()
    };
    chat.returned(first.id, Some(nothing)).unwrap();
    let second = chat.call().unwrap();
    assert!(second.visits.is_empty(), "said once");
    chat.returned(
        second.id,
        Some(Usage {
            input: Some(500),
            ..Usage::default()
        }),
    )
    .unwrap();
    let third = chat.call().unwrap();
    assert_eq!(visits(&chat, &third)[0].before.amount, 500);
    assert_eq!(there(&chat, &ids), [0_usize; 0]);
    let fourth = chat.call().unwrap();
    assert_eq!(
        visits(&chat, &fourth)[0].outcome,
        VisitOutcome::StaleMeasurement
    );
}

#[test]
fn the_fixed_overhead_of_a_request_counts() {
    // B58
    let chat = chat("token-budget:limit=100,keep=0,measure=estimate");
    let ids = talk(&chat, "A");
    assert!(chat.call().unwrap().visits.is_empty());
    chat.set_request(
        "openai-chat",
        None,
        &Json(format!("{{\"tools\":\"{}\"}}", "x".repeat(800))),
    )
    .unwrap();
    let call = chat.call().unwrap();
    let visit = &visits(&chat, &call)[0];
    assert_eq!(visit.outcome, VisitOutcome::Short);
    assert!(
        visit.before.amount > 200 && visit.shortfall.is_some_and(|s| s > 100),
        "{visit:?}"
    );
    assert_eq!(there(&chat, &ids), [0_usize; 0]);
}

#[test]
fn a_budget_cuts_down_to_its_low_water_mark_and_then_rests() {
    // B108
    let chat = chat("token-budget:limit=100,low=0.5,keep=1,measure=estimate");
    let mut visited = 0;
    for _ in 0..40 {
        chat.append(Message::model("x".repeat(40))).unwrap();
        let call = chat.call().unwrap();
        for visit in visits(&chat, &call) {
            assert!(visit.after.amount <= 50 && visit.outcome == VisitOutcome::Done);
            visited += 1;
        }
    }
    assert!(
        (4..=6).contains(&visited),
        "{visited} visits for 40 messages"
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
fn two_writers_that_knew_the_same_head_do_not_both_win() {
    // B100
    let backend: Arc<dyn Backend> = Arc::new(MemoryStore::new());
    let (one, two) = (Store::on(Arc::clone(&backend)), Store::on(backend));
    let (one, two) = (
        one.conversation("a").unwrap(),
        two.conversation("a").unwrap(),
    );
    talk(&one, "U");
    assert_eq!(reason(two.append(message("A"))), RequestReason::StaleHead);
    talk(&two, "A");
    assert_eq!(two.window().unwrap().items.len(), 2);
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
        vec![
            result(Some("a"), "tool", false, "1"),
            result(Some("b"), "tool", false, "2"),
        ],
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

/// A source that compacted twice; the second summary stands for the first and what came since.
fn compacted_twice() -> Conversation {
    let say = |m| Step::Message {
        message: m,
        at: None,
        link: Default::default(),
    };
    let summary = || Step::Compacted {
        summary: Message::new(Role::User, Author::Application, vec![Part::text("so far")]),
        rest: Vec::new(),
        at: None,
    };
    let mut steps: Vec<Step> = "S U Aa Ra A".split(' ').map(|w| say(message(w))).collect();
    steps.push(summary());
    steps.extend("U A".split(' ').map(|w| say(message(w))));
    steps.push(summary());
    let store = Store::in_memory();
    let transcript = Transcript {
        format: "claude-code",
        id: None,
        steps,
    };
    store
        .import("a", &transcript, Vec::new(), &mut |_| {})
        .unwrap();
    store.existing("a").unwrap()
}

#[test]
fn a_second_compaction_loses_nothing_and_undoes_in_order() {
    // B80, B81
    let chat = compacted_twice();
    let claims = chat
        .with_projection(|p| {
            p.messages()
                .iter()
                .filter(|m| m.stands_for.is_some())
                .map(|m| m.id)
                .collect::<Vec<_>>()
        })
        .unwrap();
    let view = |chat: &Conversation| {
        chat.window()
            .unwrap()
            .items
            .iter()
            .map(|i| i.id)
            .collect::<Vec<_>>()
    };
    let (first, second) = (claims[0], claims[1]);
    assert_eq!(view(&chat).len(), 2, "the envelope and the newest summary");
    assert_eq!(
        reason(chat.undo(first.seq())),
        RequestReason::RestoreConflict
    );
    let compacted = view(&chat);
    let undone = chat.undo(second.seq()).unwrap().last;
    assert!(view(&chat).contains(&first) && !view(&chat).contains(&second));
    chat.undo(first.seq()).unwrap();
    assert_eq!(view(&chat).len(), 7);
    chat.undo(undone).unwrap();
    assert!(view(&chat).contains(&second));
    assert!(!view(&chat).contains(&first), "{compacted:?}");
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
    let chat = compacted_twice();
    let transcript = Transcript {
        format: "claude-code",
        id: None,
        steps: vec![Step::Called {
            model: None,
            at: None,
        }],
    };
    let chain = vec![parse("sliding-window:keep=1").unwrap()];
    let error = chat
        .store()
        .import("a", &transcript, chain, &mut |_| {})
        .unwrap_err();
    assert!(refused(&error, RequestReason::PolicyConflict));
}
