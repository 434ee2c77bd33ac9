//! Calls and their results.

use ctxlog::audit::why;
use ctxlog::engine::Conversation;
use ctxlog::formats::Profile;
use ctxlog::log::{
    GroupReason, Message, MessageId, OpenCalls, Part, PartBody, RequestReason, Role, VisitOutcome,
};
use ctxlog::window::Conservation;

use crate::support::{
    PROFILES, blocks, claims, compacts, compacts_to, every_cut, fate, hard_problems, imported,
    logged, read_anthropic, says, sends, sound, steps, view, words,
};
use crate::talk::{chat, message, reason, refuses, talk, there, visits};

/// Of each of these sets of messages all or none are in the window.
fn whole(chat: &Conversation, ids: &[MessageId], sets: &[&[usize]], what: &str) {
    let there = there(chat, ids);
    for set in sets {
        let held = set.iter().filter(|n| there.contains(n)).count();
        assert!([0, set.len()].contains(&held), "{what}: {there:?}");
    }
}

/// B01. A trim fell between a call and its result, and the result was sent alone.
#[test]
fn trimming_never_leaves_a_result_without_its_call() {
    for spec in every_cut() {
        let chat = chat(&spec);
        let ids = talk(&chat, "S U Aa Ra U A U Ab,c Rb Rc A U");
        chat.call().unwrap();
        whole(&chat, &ids, &[&[2, 3], &[7, 8, 9]], &spec);
        sound(&chat);
    }
    // A pair that is larger than the budget and may not leave: it stays, and the visit says so.
    let chat = chat("token-budget:limit=20,keep=1,measure=estimate");
    let mut ids = talk(&chat, "S U A U Aa");
    let result = chat.append(Message::tool("a", &"x".repeat(400))).unwrap();
    ids.push(result.message());
    let call = chat.call().unwrap();
    assert_eq!(there(&chat, &ids), [0, 3, 4, 5]);
    let visit = &visits(&chat, &call)[0];
    assert_eq!(visit.outcome, VisitOutcome::Short);
    assert!(visit.shortfall.is_some_and(|s| s > 80), "{visit:?}");
    assert_eq!(refuses(&chat, ids[5]), Some(GroupReason::InsideKeepWindow));
    sound(&chat);
}

/// B03. A list that was trimmed to its newest began with a tool result.
#[test]
fn a_window_never_opens_on_a_tool_result() {
    for spec in every_cut() {
        for said in ["U Aa Ra U", "U A Aa,b Ra Rb U", "S U A U Aa Ra Ab Rb Ac Rc"] {
            let chat = chat(&spec);
            talk(&chat, said);
            let window = chat.call().unwrap().window;
            let first = window.items.iter().find_map(|item| {
                let of = |p: &ctxlog::window::Projection| {
                    let skeleton = p.message(item.id)?.skeleton()?.clone();
                    (!skeleton.role.is_instruction()).then_some(skeleton.role)
                };
                chat.with_projection(of).unwrap()
            });
            assert_ne!(first, Some(Role::Tool), "{spec}: {said}");
            for &profile in PROFILES {
                let (messages, _) = sends(&chat, profile);
                let of_model = messages.iter().find(|m| m["role"] != "system").unwrap();
                assert_ne!(of_model["role"], "tool", "{spec}: {said}");
                let first = &of_model["content"][0]["type"];
                assert_ne!(first, "tool_result", "{spec}: {said}");
            }
        }
    }
}

/// B05. A summary took a call and left its result: every later request was refused, for good.
#[test]
fn no_compaction_leaves_a_conversation_that_every_later_request_fails_on() {
    let said = steps("S U Aa Ra A U Ab,c Rb Rc A U");
    for cut in 1..=said.len() {
        let mut all = said.clone();
        all.insert(cut, compacts());
        let chat = imported(all);
        sound(&chat);
        let before = logged(&chat).len();
        talk(&chat, "U");
        for _ in 0..3 {
            chat.call().unwrap();
            talk(&chat, "Ax Rx A U");
            sound(&chat);
        }
        // What came late of a call that the summary stands for is covered with it, and comes back
        // with it.
        let summary = claims(&chat)[0];
        let apart = logged(&chat).into_iter().filter(|id| {
            let late = *id > summary && before > cut && id.0 < logged(&chat)[before].0;
            late && fate(&chat, *id) == Conservation::Covered
        });
        let apart: Vec<_> = apart.collect();
        assert_eq!(!apart.is_empty(), [3, 7, 8].contains(&cut), "cut at {cut}");
        chat.undo(summary.seq()).unwrap();
        assert!(apart.iter().all(|id| view(&chat).contains(id)));
        sound(&chat);
    }
    // The same where a strategy let the call go.
    let chat = chat("sliding-window:keep=1");
    let call = talk(&chat, "Aa")[0];
    chat.call().unwrap();
    talk(&chat, "A A");
    let visit = chat.call().unwrap().visits[0];
    let late = talk(&chat, "Ra")[0];
    assert_eq!(there(&chat, &[call, late]), [0_usize; 0]);
    let answer = why(&chat, late, chat.head().unwrap().unwrap().seq).unwrap();
    assert_eq!((answer.status, answer.lives.len()), ("evicted", 0));
    sound(&chat);
    chat.undo(visit).unwrap();
    assert_eq!(there(&chat, &[call, late]), [0, 1]);
    sound(&chat);
}

/// B06. Results made up after an interruption stayed when their calls had left.
#[test]
fn a_synthetic_result_leaves_with_its_call_and_yields_to_the_real_one() {
    for spec in every_cut() {
        let chat = chat(&spec);
        let mut ids = talk(&chat, "S U A U Aa,b,c Ra");
        let closed = chat.call().unwrap().closed;
        assert_eq!(closed.len(), 2, "{spec}");
        ids.extend(closed.iter().map(|seq| MessageId(*seq)));
        for said in ["A U A", "U A", "Ad", "U"] {
            talk(&chat, said);
            chat.call().unwrap();
            whole(&chat, &ids, &[&[4, 5, 6, 7]], &spec);
        }
        sound(&chat);
    }
    let chat = chat("sliding-window:keep=1");
    let ids = talk(&chat, "Aa,a,a");
    let call = chat.call().unwrap();
    assert_eq!(call.closed.len(), 3, "each call is closed once");
    assert!(chat.call().unwrap().closed.is_empty());
    let late = talk(&chat, "Ra Ra Ra");
    let again = chat.append(message("Ra"));
    assert_eq!(reason(again), RequestReason::DuplicateResult);
    let covered = |seq| fate(&chat, MessageId(seq)) == Conservation::Covered;
    assert!(call.closed.iter().all(|seq| covered(*seq)));
    assert_eq!(there(&chat, &late), [0, 1, 2]);
    talk(&chat, "A A");
    chat.call().unwrap();
    assert_eq!((there(&chat, &ids), there(&chat, &late)), (vec![], vec![]));
    let synthetic = chat.restore(MessageId(call.closed[0]));
    assert_eq!(reason(synthetic), RequestReason::RestoreConflict);
    chat.restore(late[1]).unwrap();
    assert_eq!(there(&chat, &ids), [0]);
    assert_eq!(there(&chat, &late), [0, 1, 2]);
    sound(&chat);
}

/// B08. A call whose request had been refused for its size got no result; a compaction kept it, and
/// going on saw nothing to do.
#[test]
fn a_call_that_got_no_result_is_seen_by_name_and_sent_closed() {
    for spec in every_cut() {
        let chat = chat(&spec).with_open_calls(OpenCalls::Keep).unwrap();
        let ids = talk(&chat, "S U A U Aa");
        let refused = chat.call().unwrap();
        let failure = Some("prompt is too long");
        chat.report(refused.id, None, failure, None).unwrap();
        talk(&chat, "A A A A A A A A A");
        let call = chat.call().unwrap();
        assert!(call.closed.is_empty());
        assert!(call.window.contains(ids[4]), "{spec}");
        for visit in visits(&chat, &call) {
            if visit.outcome == VisitOutcome::Short {
                let reason = refuses(&chat, ids[4]);
                assert_eq!(reason, Some(GroupReason::UnresolvedToolCall), "{spec}");
            }
        }
        for (&profile, rule) in PROFILES.iter().zip(["C3", "A4"]) {
            assert!(sends(&chat, profile).1.contains(&rule), "{spec}");
        }
        // Told to close it, the next call says which result it made.
        let chat = chat.with_open_calls(OpenCalls::Close).unwrap();
        assert_eq!(chat.call().unwrap().closed.len(), 1);
        assert!(chat.call().unwrap().closed.is_empty());
        sound(&chat);
    }
}

/// B10. The results that made a compaction due were folded into the summary's message as results
/// without a call.
#[test]
fn a_summary_takes_the_batch_that_made_it_due_whole_and_holds_no_live_result() {
    for batch in ["Aa Ra", "Aa,b Ra Rb", "Aa Ra Ab Rb"] {
        let mut all = steps(&format!("S U {batch}"));
        all.push(compacts());
        let chat = imported(all);
        let summary = claims(&chat)[0];
        assert_eq!(view(&chat).last(), Some(&summary));
        let covered = |id: &MessageId| fate(&chat, *id) == Conservation::Covered;
        let count = logged(&chat).iter().filter(|id| covered(id)).count();
        assert_eq!(count, batch.split(' ').count() + 1, "the request too");
        sound(&chat);
    }
    // A source that did it all the same: the log keeps what it said, no request is sent it.
    let mut all = steps("U Aa");
    let parts = vec![Part::text("so far"), Part::result("a", "out")];
    all.push(compacts_to(Role::User, parts));
    all.extend(steps("A U"));
    let chat = imported(all);
    assert!(words(&chat, claims(&chat)[0]).contains("out"));
    for &profile in PROFILES {
        let (messages, _) = sends(&chat, profile);
        let of_result = |(role, block): &(&str, &serde_json::Value)| {
            *role == "tool" || block["type"] == "tool_result"
        };
        assert!(!blocks(&messages).iter().any(of_result));
    }
}

/// B11. A search for a cut was content when one of several results had found its call.
#[test]
fn every_result_of_a_window_has_its_call_there_however_far_the_calls_are_apart() {
    for spec in every_cut() {
        for results in ["Ra Rb", "Rb Ra"] {
            let chat = chat(&spec).with_open_calls(OpenCalls::Keep).unwrap();
            let ids = talk(&chat, &format!("S U Ab A A X A Aa {results} A U A"));
            chat.call().unwrap();
            let (a, b) = if results == "Ra Rb" { (8, 9) } else { (9, 8) };
            whole(&chat, &ids, &[&[7, a], &[2, b]], &spec);
            sound(&chat);
        }
        // One message answers both.
        let chat = chat(&spec).with_open_calls(OpenCalls::Keep).unwrap();
        let mut ids = talk(&chat, "S U Ab A A X A Aa");
        let both = Message {
            parts: vec![Part::result("a", "out"), Part::result("b", "out")],
            ..message("Ra")
        };
        ids.push(chat.append(both).unwrap().message());
        talk(&chat, "A U A");
        chat.call().unwrap();
        whole(&chat, &ids, &[&[2, 7, 8]], &spec);
        sound(&chat);
    }
}

/// B13. An interim answer with the call's id made a call that was still at work look answered, and
/// it was folded away.
#[test]
fn an_interim_result_closes_nothing() {
    for spec in every_cut() {
        let chat = chat(&spec);
        let ids = talk(&chat, "S U A U Aa Ia A A A A Ia A A A");
        let call = chat.call().unwrap();
        assert!(call.closed.is_empty());
        assert_eq!(refuses_open(&chat, ids[4]), Ok(()), "{spec}");
        whole(&chat, &ids, &[&[4, 5, 10]], &spec);
        talk(&chat, "Ra");
        for late in ["Ra", "Ia"] {
            let again = chat.append(message(late));
            assert_eq!(reason(again), RequestReason::DuplicateResult);
        }
        sound(&chat);
    }
    let chat = chat("sliding-window:keep=1");
    let ids = talk(&chat, "Aa Ia A A");
    chat.call().unwrap();
    assert_eq!(there(&chat, &ids), [0, 1, 3]);
    let refusal = refuses(&chat, ids[1]);
    assert_eq!(refusal, Some(GroupReason::UnresolvedToolCall));
    let rest = talk(&chat, "Ra A");
    chat.call().unwrap();
    assert_eq!(there(&chat, &ids), [0_usize; 0]);
    assert_eq!(there(&chat, &rest), [1]);
}

/// An open call is in the window, and where it was asked it refuses by name.
fn refuses_open(chat: &Conversation, id: MessageId) -> Result<(), String> {
    if !view(chat).contains(&id) {
        return Err(format!("{id} is gone"));
    }
    match refuses(chat, id) {
        None | Some(GroupReason::UnresolvedToolCall) => Ok(()),
        Some(other) => Err(format!("{id} refuses as {other}")),
    }
}

/// B16. Calls that the provider itself runs were not seen as calls, and left without their result.
#[test]
fn a_call_that_the_provider_runs_and_has_not_answered_may_not_leave() {
    for kind in ["server_tool_use", "mcp_tool_use", "some_later_tool_use"] {
        let block = format!(r#"{{"type":"{kind}","id":"s","name":"search","input":{{}}}}"#);
        let read = read_anthropic(&format!(r#"{{"role":"assistant","content":[{block}]}}"#));
        let native =
            |p: &Part| matches!(&p.body, PartBody::Call { native: Some(n), .. } if n == kind);
        assert!(read.parts.iter().any(native), "{kind} is a call");
        for spec in every_cut() {
            let chat = chat(&spec);
            let call = chat.append(read.clone()).unwrap().message();
            talk(&chat, "A A A A A A A A A");
            let closed = chat.call().unwrap().closed;
            assert!(closed.is_empty(), "nobody here can answer it");
            assert_eq!(refuses_open(&chat, call), Ok(()), "{kind}, {spec}");
        }
        // With its result in the same message it is as free as any other.
        let answer = format!(
            r#"{{"type":"{}","tool_use_id":"s","content":[]}}"#,
            kind.replace("_use", "_result")
        );
        let both = format!(r#"{{"role":"assistant","content":[{block},{answer}]}}"#);
        let chat = chat("sliding-window:keep=1");
        let call = chat.append(read_anthropic(&both)).unwrap().message();
        sound(&chat);
        talk(&chat, "A A");
        chat.call().unwrap();
        assert!(!view(&chat).contains(&call), "{kind}");
        // Alone and left behind, a provider refuses it: lint says so, and rendering leaves it out.
        let alone = format!(
            r#"{{"messages":[{{"role":"user","content":"a"}},{{"role":"assistant","content":[{block}]}},{{"role":"user","content":"b"}}]}}"#
        );
        let broken = hard_problems(Profile::Anthropic, &alone);
        assert!(broken.iter().any(|p| p.starts_with("A15")), "{broken:?}");
        let chat = self::chat("");
        chat.append(read.clone()).unwrap();
        talk(&chat, "U");
        assert!(sends(&chat, Profile::Anthropic).1.contains(&"A15"));
    }
}

/// B18. A filter meant for the past also ran on the turn in progress: it kept a result without its
/// call, and took messages from the run's own record.
#[test]
fn a_filter_of_the_past_spares_the_turn_in_progress_and_the_record() {
    for spec in every_cut() {
        let chat = chat(&spec);
        talk(&chat, "S U A U A U A");
        let mut run = talk(&chat, "U");
        for round in 1..=4 {
            let call = chat.call().unwrap();
            assert!(call.window.contains(run[0]), "{spec}");
            run.extend(talk(&chat, "Aa Ra"));
            // What has just come is there until the next visit, and the record is never shorter.
            let newest = [run[run.len() - 2], run[run.len() - 1]];
            assert!(newest.iter().all(|id| view(&chat).contains(id)));
            assert_eq!(logged(&chat).len(), 8 + 2 * round);
        }
        let said: Vec<_> = logged(&chat).iter().map(|id| words(&chat, *id)).collect();
        let round = ["tool\n{}", "out"];
        assert_eq!(said[8..], round.repeat(4), "{spec}");
        sound(&chat);
    }
}

/// B20. An id that came again on a later turn made the whole request illegal.
#[test]
fn an_id_that_comes_again_makes_no_request_illegal() {
    let mut said = "S U".to_owned();
    let mut before: Vec<String> = Vec::new();
    let chat = chat("");
    talk(&chat, "S U");
    for turn in [
        "At Rt A U",
        "At Rt",
        "At,t Rt Rt",
        "At Rt A",
        "U At,t,t Rt Rt Rt",
    ] {
        talk(&chat, turn);
        said.push_str(turn);
        let mut now = Vec::new();
        for &profile in PROFILES {
            let (messages, repairs) = sends(&chat, profile);
            // In one batch they are told apart, and that is said.
            let twice = said.contains("t,t");
            assert_eq!(repairs.iter().any(|r| ["C5", "A8"].contains(r)), twice);
            now.push(serde_json::Value::from(messages).to_string());
        }
        // What was sent before is sent the same.
        for (before, now) in before.iter().zip(&now) {
            assert!(
                now.starts_with(before.trim_end_matches(']')),
                "{before} {now}"
            );
        }
        before = now;
        sound(&chat);
    }
}

/// B21. A provider that repeated one id got hundreds of results for one call.
#[test]
fn a_second_result_is_refused_and_a_second_call_is_not() {
    let chat = chat("");
    let alone = chat.append(message("Ra"));
    assert_eq!(reason(alone), RequestReason::UnknownCall);
    for round in 1..=100 {
        talk(&chat, "Aa Ra");
        for _ in 0..2 {
            let again = chat.append(message("Ra"));
            assert_eq!(reason(again), RequestReason::DuplicateResult);
        }
        assert_eq!(view(&chat).len(), 2 * round);
    }
    sound(&chat);
    // A source that logged them all the same: they are kept, and not sent.
    let mut all = steps("U Aa Ra");
    all.extend((0..50).map(|_| says(message("Ra"))));
    let chat = imported(all);
    assert_eq!(logged(&chat).len(), 53);
    for &profile in PROFILES {
        let (messages, _) = sends(&chat, profile);
        assert!(messages.len() <= 3, "{messages:?}");
    }
}
