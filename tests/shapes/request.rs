//! The system prompt and the current request.

use ctxlog::engine::Conversation;
use ctxlog::log::{GroupReason, Message, MessageId, VisitOutcome};

use crate::support::{
    PROFILES, Says, claims, compacts, entries, every_cut, imported, logged, outcomes, sends, sound,
    steps, view,
};
use crate::talk::{chat, refuses, talk, there, visits};

/// B45. Where protected messages used the whole target, the cut quietly did nothing.
#[test]
fn a_target_that_protected_messages_use_up_is_told_with_what_is_missing() {
    for spec in every_cut() {
        let chat = chat(&spec);
        talk(&chat, "S U Aa Ra Aa Ra Aa Ra Aa Ra");
        talk(&chat, "S X A");
        chat.call().unwrap();
        for (outcome, shortfall) in outcomes(&chat) {
            let short = outcome == VisitOutcome::Short;
            assert!(short || outcome == VisitOutcome::Done, "{spec}");
            assert_eq!(shortfall.is_some_and(|s| s > 0), short, "{spec}");
        }
        // Over its limit after a visit and no visit said so: that would be the quiet nothing.
        for spec in spec.split(';').filter(|s| s.starts_with("token-budget")) {
            let limit: u64 = spec["token-budget:limit=".len()..]
                .split(',')
                .next()
                .unwrap()
                .parse()
                .unwrap();
            let size = chat
                .with_projection(|p| p.tokens(ctxlog::window::Measure::Estimate))
                .unwrap();
            let told = outcomes(&chat).iter().any(|o| o.0 == VisitOutcome::Short);
            assert!(told || size.unwrap().total <= limit, "{spec}");
        }
        sound(&chat);
    }
    let chat = chat("sliding-window:keep=1");
    let ids = talk(&chat, "U A");
    let call = chat.call().unwrap();
    let visit = &visits(&chat, &call)[0];
    assert_eq!(visit.outcome, VisitOutcome::Short);
    assert_eq!(visit.shortfall, Some(1));
    assert_eq!(refuses(&chat, ids[0]), Some(GroupReason::CurrentRequest));
    assert_eq!(refuses(&chat, ids[1]), Some(GroupReason::InsideKeepWindow));
}

/// B48. Dropping the oldest dropped the request itself, and nothing told of it.
#[test]
fn the_request_is_in_every_window_of_a_long_tool_loop_and_every_visit_is_told() {
    for spec in every_cut() {
        let chat = chat(&spec);
        let ids = talk(&chat, "S U A U");
        // Long where the cut is at work all the time, short elsewhere.
        let long = ["keep=2,unit=m", "window=3,head=0", "limit=5,keep=1"];
        let rounds = if long.iter().any(|l| spec.contains(l)) {
            60
        } else {
            8
        };
        for _ in 0..rounds {
            let call = chat.call().unwrap();
            let holds = |n: usize| call.window.contains(ids[n]);
            assert!(holds(0) && holds(3), "{spec}");
            talk(&chat, "Aa,a Ra Ra");
        }
        chat.call().unwrap();
        if spec.starts_with("sliding-window:keep=2,unit=g")
            || spec.starts_with("token-budget:limit=3")
        {
            assert!(!view(&chat).contains(&ids[1]), "an earlier request may go");
            let reason = refuses(&chat, ids[3]);
            assert_eq!(reason, Some(GroupReason::CurrentRequest), "{spec}");
        }
        every_leaving_is_told(&chat);
        sound(&chat);
    }
}

/// What is not in the window left by an entry that names it, with a reason.
fn every_leaving_is_told(chat: &Conversation) {
    let all = entries(chat);
    let view = view(chat);
    for id in logged(chat).into_iter().filter(|id| !view.contains(id)) {
        let end = chat
            .with_projection(|p| p.message(id).unwrap().absent().cloned())
            .unwrap()
            .unwrap();
        let entry = all.iter().find(|e| e.seq == end.by.seq).unwrap();
        let change = entry.body.change().unwrap();
        let told = |l: &&ctxlog::log::Left| l.messages.contains(id);
        let left = change.left.iter().find(told);
        assert_eq!(left.map(|l| l.reason), Some(end.reason), "{id}");
    }
}

/// B50. Requests stayed without their answers, and the model carried out a finished one again.
#[test]
fn a_finished_request_does_not_stay_when_its_answer_has_left() {
    for spec in every_cut() {
        let chat = chat(&spec);
        let mut ids = Vec::new();
        for _ in 0..9 {
            ids.extend(talk(&chat, "U A"));
            chat.call().unwrap();
            let there = there(&chat, &ids);
            for n in (0..ids.len() - 2).step_by(2).filter(|n| there.contains(n)) {
                let kept = refuses(&chat, ids[n]);
                let named = kept == Some(GroupReason::ProtectedHead);
                assert!(there.contains(&(n + 1)) || named, "{spec}: {there:?}");
            }
        }
        sound(&chat);
    }
    // Where a summary takes the answer of one that is pinned, it stands where the answer stood: the
    // request is followed by what says what became of it.
    let chat = chat("summarize-oldest:limit=100,keep=1,measure=estimate");
    let chat = chat.with_summarizer(Says("They asked, and it was done."));
    let pinned = talk(&chat, "U")[0];
    chat.pin(pinned).unwrap();
    for n in 0..9 {
        chat.append(Message::model("Done, and done well. ".repeat(40)))
            .unwrap();
        chat.append(Message::person(format!("Request {n}.")))
            .unwrap();
        chat.call().unwrap();
        let (window, claims) = (view(&chat), claims(&chat));
        let newest = claims.last().copied();
        assert_eq!(window[0], pinned);
        assert_eq!(
            window.get(1).copied(),
            newest.or(Some(window[1])),
            "round {n}"
        );
        let open = window.iter().filter(|id| claims.contains(id)).count();
        assert_eq!(open, usize::from(newest.is_some()), "one summary stands");
        sound(&chat);
    }
    assert!(claims(&chat).len() >= 3);
}

/// B51. A compaction deleted the message that had just been put in.
#[test]
fn a_message_that_has_just_come_survives_every_cut() {
    for spec in every_cut() {
        for (before, new) in [
            ("S U A U A", "U"),
            ("U Aa Ra A", "U"),
            ("S", "U"),
            ("U A", "U U U"),
        ] {
            let chat = chat(&spec);
            talk(&chat, before);
            chat.call().unwrap();
            let new = talk(&chat, new);
            for _ in 0..3 {
                let call = chat.call().unwrap();
                assert!(new.iter().all(|id| call.window.contains(*id)), "{spec}");
            }
            sound(&chat);
        }
    }
    for said in ["U", "A", "Aa", "X", "U A U"] {
        let mut all = steps("S U A U A");
        all.push(compacts());
        all.extend(steps(said));
        let chat = imported(all);
        let new: Vec<MessageId> = logged(&chat).into_iter().skip(6).collect();
        assert!(new.iter().all(|id| view(&chat).contains(id)), "{said}");
    }
}

/// B53. With tool messages behind the request, a cut emptied the list.
#[test]
fn no_cut_empties_the_list() {
    for spec in every_cut() {
        for said in [
            "S U Aa Ra",
            "U Aa Ra",
            "S",
            "X",
            "A",
            "Aa Ra",
            "S Aa Ra",
            "A A A",
            "X X",
        ] {
            let chat = chat(&spec);
            let big = said
                .contains('U')
                .then(|| Message::person("big ".repeat(500)));
            let ids = match big {
                Some(big) => {
                    let (front, rest) = said.split_once('U').unwrap();
                    let mut ids = talk(&chat, front);
                    let request = chat.append(big).unwrap().message();
                    ids.push(request);
                    ids.extend(talk(&chat, rest));
                    let call = chat.call().unwrap();
                    assert!(call.window.contains(request), "{spec}: {said}");
                    ids
                }
                None => talk(&chat, said),
            };
            let call = chat.call().unwrap();
            for &profile in PROFILES {
                let messages = sends(&chat, profile).0;
                assert!(!messages.is_empty(), "{spec}: {said}");
            }
            if spec.contains("keep=0") || spec.contains("head=0") {
                continue; // told to keep nothing: a window without a request may become empty
            }
            assert!(!call.window.items.is_empty(), "{spec}: {said} {ids:?}");
        }
    }
    let chat = chat("token-budget:limit=100,keep=0,measure=estimate");
    talk(&chat, "S");
    let big = chat.append(Message::person("big ".repeat(500))).unwrap();
    talk(&chat, "Aa Ra");
    let call = chat.call().unwrap();
    let visit = &visits(&chat, &call)[0];
    assert_eq!(visit.outcome, VisitOutcome::Short);
    assert!(visit.before.amount > 500 && visit.shortfall > Some(400));
    let refusal = refuses(&chat, big.message());
    assert_eq!(refusal, Some(GroupReason::CurrentRequest));
}
