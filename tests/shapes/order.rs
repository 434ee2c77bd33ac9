//! Roles and order.

use ctxlog::audit::why;
use ctxlog::engine::{Conversation, Options, Store};
use ctxlog::formats::{Link, Step};
use ctxlog::log::{Author, LeftReason, Message, MessageId, Micros, Part, Role};

use crate::support::{
    PROFILES, claims, compacts_to, every_cut, imported, logged, sends, sound, steps,
    taken_elsewhere, view, words,
};
use crate::talk::{chat, message, refuses, talk, there};

/// The first message of the window that is no instruction of the envelope.
fn opener(chat: &Conversation) -> Option<MessageId> {
    let of = |p: &ctxlog::window::Projection, id: &MessageId| {
        p.message(*id).is_some_and(|m| !p.in_envelope(m))
    };
    let view = view(chat);
    chat.with_projection(|p| view.into_iter().find(|id| of(p, id)))
        .unwrap()
}

fn role(chat: &Conversation, id: MessageId) -> Role {
    let role = |p: &ctxlog::window::Projection| p.message(id)?.skeleton().map(|s| s.role.clone());
    chat.with_projection(role).unwrap().unwrap()
}

/// Whether a message is of the newest groups that a budget keeps: it need not be asked to stay.
fn kept(chat: &Conversation, spec: &str, id: MessageId) -> bool {
    let keep = spec.strip_prefix("token-budget:").and_then(|options| {
        let keep = options.split(',').find_map(|o| o.strip_prefix("keep="))?;
        keep.parse::<usize>().ok()
    });
    let window = chat.window().unwrap();
    let groups = chat.with_projection(|p| p.groups_of(&window)).unwrap();
    let newest = groups.iter().rev().take(keep.unwrap_or(0));
    newest.flatten().any(|at| window.items[*at].id == id)
}

/// B38. A limited history began with the model's message.
#[test]
fn a_cut_opens_on_the_user_or_says_what_held_the_opener() {
    let mut moved = 0;
    for spec in every_cut() {
        for said in [
            "U A U A",
            "S U A U A U A",
            "U A A U A A U A",
            "U Aa Ra A U A U",
        ] {
            let chat = chat(&spec);
            talk(&chat, said);
            if chat.call().unwrap().visits.is_empty() {
                continue;
            }
            let first = opener(&chat).unwrap();
            let gone = logged(&chat).len() - view(&chat).len();
            if gone > 0 && role(&chat, first) != Role::User {
                // Letting leaders go has to reach a user message, or none goes.
                let leaders = view(&chat).into_iter().skip_while(|id| *id < first);
                let mut leaders = leaders.take_while(|id| role(&chat, *id) != Role::User);
                let held = |id| refuses(&chat, id).is_some() || kept(&chat, &spec, id);
                assert!(leaders.any(held), "{spec}: {said}");
            }
            let reason = |id: &MessageId| {
                let absent = |p: &ctxlog::window::Projection| p.message(*id)?.absent().cloned();
                chat.with_projection(absent).unwrap().map(|a| a.reason)
            };
            let openers = logged(&chat).iter().filter_map(reason).collect::<Vec<_>>();
            moved += usize::from(openers.contains(&LeftReason::Opener));
            sound(&chat);
        }
    }
    assert!(moved > 0, "some answer has to go with its question");
}

/// B40. Messages with one time changed places and split a pair; times that clients gave made it
/// worse.
#[test]
fn times_that_are_equal_or_go_back_change_no_order() {
    let said = "S U Aa Ra A U Ab,c Rc Rb A U";
    let plain = chat("head-tail:window=4");
    talk(&plain, said);
    plain.call().unwrap();
    let wild = |n: i64| [9, 0, 5, i64::MIN, i64::MAX][usize::try_from(n).unwrap() % 5];
    let times: [fn(i64) -> i64; 4] = [|_| 7, |n| -n, |n| n % 3, wild];
    for time in times {
        let chat = chat("head-tail:window=4");
        for (word, n) in said.split_whitespace().zip(0..) {
            let at = Options {
                at: Some(Micros(time(n))),
                ..Options::default()
            };
            chat.append_with(message(word), &at).unwrap();
        }
        chat.call().unwrap();
        assert_eq!(logged(&chat), logged(&plain));
        assert_eq!(view(&chat), view(&plain));
        sound(&chat);
        // The times of a source, too.
        let timed = |(word, n): (&str, i64)| Step::Message {
            message: message(word),
            at: Some(Micros(time(n))),
            link: Link::None,
        };
        let source = imported(said.split_whitespace().zip(0..).map(timed).collect());
        let texts = |chat: &Conversation| {
            let ids = logged(chat).into_iter();
            ids.map(|id| words(chat, id)).collect::<Vec<_>>()
        };
        assert_eq!(texts(&source), texts(&plain));
        sound(&source);
    }
}

/// B41. Call, result and text of one time came back in another order.
#[test]
fn what_is_stored_at_one_time_comes_back_in_its_order() {
    let dir = tempfile::tempdir().unwrap();
    let orders = [
        "U Aa Ra A",
        "Aa U Ra A A",
        "U Aa,b Rb Ra A U",
        "Aa Ra Aa Ra Aa Ra A",
    ];
    let at = Options {
        at: Some(Micros(1)),
        ..Options::default()
    };
    let fill = |chat: &Conversation, said: &str| -> Vec<MessageId> {
        let words = said.split_whitespace();
        let append = |w| chat.append_with(message(w), &at).unwrap().message();
        words.map(append).collect()
    };
    let store = Store::open(dir.path()).unwrap();
    let kept: Vec<_> = orders
        .iter()
        .map(|said| fill(&store.conversation(said).unwrap(), said))
        .collect();
    drop(store);
    let store = Store::open(dir.path()).unwrap();
    for (said, ids) in orders.iter().zip(kept) {
        let chat = store.existing(said).unwrap();
        assert_eq!(view(&chat), ids);
        let roles: Vec<Role> = ids.iter().map(|id| role(&chat, *id)).collect();
        let given: Vec<Role> = said.split_whitespace().map(|w| message(w).role).collect();
        assert_eq!(roles, given);
        assert_eq!(view(&taken_elsewhere(&chat)), ids);
        sound(&chat);
    }
}

/// B43. A summary left an order that one provider takes and another refuses.
#[test]
fn an_order_that_a_summary_leaves_is_legal_for_every_provider() {
    let roles = [Role::User, Role::Assistant, Role::System, Role::Developer];
    for role in roles {
        for (before, after) in [
            ("U A", "Aa Ra A U"),
            ("S U A", "Aa Ra"),
            ("U Aa", "Ra Ab Rb"),
            ("S U Aa Ra", "A A"),
            ("U", ""),
            ("S", "Aa Ra"),
        ] {
            let mut all = steps(before);
            all.push(compacts_to(role.clone(), vec![Part::text("so far")]));
            all.extend(steps(after));
            let chat = imported(all);
            assert_eq!(claims(&chat).len(), 1);
            sound(&chat);
            chat.call().unwrap();
            sound(&chat);
            for &profile in PROFILES {
                let rendered = chat.render(&chat.window().unwrap(), profile).unwrap();
                assert!(rendered.body.contains("so far"), "{}", rendered.body);
                assert!(!sends(&chat, profile).0.is_empty() || role.is_instruction());
            }
        }
    }
}

/// B46. The rule that a list begins with a user message archived the system message.
#[test]
fn the_rule_of_the_opener_begins_behind_the_envelope() {
    for limit in 1..=40 {
        for keep in [0, 1, 2, 5] {
            let spec = format!("token-budget:limit={limit},keep={keep},measure=estimate");
            let chat = chat(&spec);
            let system = talk(&chat, "S")[0];
            let developer = Message::new(
                Role::Developer,
                Author::Application,
                vec![Part::text("more instructions")],
            );
            let developer = chat.append(developer).unwrap().message();
            for _ in 0..10 {
                talk(&chat, "U A");
                chat.call().unwrap();
                let view = view(&chat);
                assert_eq!(view[..2], [system, developer], "{spec}");
            }
            sound(&chat);
        }
    }
    // Answers go with the questions that would have opened the window.
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
    let head = chat.head().unwrap().unwrap().seq;
    let story = why(&chat, ids[2], head).unwrap();
    let end = story.lives[0].left.as_ref().unwrap();
    assert!([LeftReason::Opener, LeftReason::OverBudget].contains(&end.reason));
}
