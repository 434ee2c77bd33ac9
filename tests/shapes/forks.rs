//! Going back and going on elsewhere, by forks.

use ctxlog::engine::Conversation;
use ctxlog::log::{Iteration, Message, Seq};
use ctxlog::strategy::Strategy;

use crate::support::{entries, intact, logged, sound, view, words};
use crate::talk::{chat, reason, talk};

fn head(chat: &Conversation) -> Seq {
    chat.head().unwrap().unwrap().seq
}

fn turns(chat: &Conversation, many: usize) {
    for _ in 0..many {
        talk(chat, "U");
        chat.call().unwrap();
        talk(chat, "A");
    }
}

/// B85. A fork copied what a compaction had left: 15 messages of more than 100.
#[test]
fn a_fork_holds_the_whole_log_and_not_only_the_window() {
    let chat = chat("sliding-window:keep=6");
    turns(&chat, 50);
    chat.call().unwrap();
    assert!(view(&chat).len() < 10);
    let fork = chat.fork(head(&chat), "b").unwrap();
    assert_eq!(logged(&fork), logged(&chat));
    assert_eq!(view(&fork), view(&chat));
    for id in logged(&chat) {
        assert_eq!(words(&fork, id), words(&chat, id));
    }
    let early = chat.before_call(Iteration(3)).unwrap();
    let whole = chat.fork(early, "c").unwrap();
    assert_eq!(
        view(&whole),
        logged(&whole),
        "from before anything had left"
    );
    sound(&fork);
}

/// B90. A write at an earlier place was read by the branch that had been forked there.
#[test]
fn a_write_on_one_branch_changes_no_view_of_another() {
    let root = chat("sliding-window:keep=3");
    turns(&root, 4);
    let place = root.before_call(Iteration(3)).unwrap();
    let one = root.fork(place, "one").unwrap();
    let two = one.fork(place, "two").unwrap();
    let all = [root, one, two];
    for writer in 0..all.len() {
        let before: Vec<_> = all.iter().map(|c| c.window().unwrap()).collect();
        turns(&all[writer], 2);
        let visible = *view(&all[writer]).last().unwrap();
        all[writer].pin(visible).unwrap();
        for (n, (chat, before)) in all.iter().zip(before).enumerate() {
            assert_eq!(n == writer, chat.window().unwrap() != before);
            intact(chat);
        }
    }
}

/// Of B81: What a rolled back turn had compacted and said was there again after a restart.
#[test]
fn a_fork_to_before_a_compaction_knows_nothing_of_it() {
    let chat = chat("");
    turns(&chat, 3);
    let before = view(&chat);
    let at = head(&chat);
    let strategy: Vec<std::sync::Arc<dyn Strategy>> = crate::talk::chain("sliding-window:keep=1");
    let chat = chat.with_strategies(strategy).unwrap();
    turns(&chat, 2);
    assert_ne!(view(&chat)[0], before[0]);
    let fork = chat.fork(at, "b").unwrap();
    let again = chat.store().existing("b").unwrap();
    for fork in [fork, again] {
        assert_eq!(view(&fork), before);
        assert_eq!(logged(&fork), before);
        sound(&fork);
    }
}

/// Of B86: Going back could not cross a compaction.
#[test]
fn going_back_by_calls_crosses_what_left_and_what_stands_for_it() {
    let chat = chat("sliding-window:keep=2,notice=auto");
    turns(&chat, 12);
    for iteration in (1..=12).map(Iteration) {
        let at = chat.before_call(iteration).unwrap();
        let fork = chat.fork(at, &iteration.to_string()).unwrap();
        let call = fork.call().unwrap();
        assert_eq!(call.iteration, iteration);
        assert_eq!(
            call.window.items.len(),
            chat.window_at(iteration).unwrap().items.len()
        );
        sound(&fork);
    }
}

/// Of B91: Going on from an earlier place, the newest number stood still.
#[test]
fn each_branch_has_a_head_of_its_own() {
    let chat = chat("");
    turns(&chat, 4);
    let fork = chat.fork(Seq(5), "b").unwrap();
    let (mut last, parent) = (head(&fork), head(&chat));
    assert_eq!(last, Seq(6));
    for _ in 0..4 {
        let ack = fork.append(Message::person("more")).unwrap();
        assert_eq!(ack.first, last.next());
        last = ack.last;
    }
    assert_eq!(head(&fork), last);
    assert_eq!(head(&chat), parent);
}

/// Of B93: Going back before the first event lost what the creation had set.
#[test]
fn a_fork_before_the_first_message_has_all_that_the_creation_gave() {
    let chat = chat("sliding-window:keep=4");
    let created = head(&chat);
    turns(&chat, 4);
    let fork = chat.fork(created, "b").unwrap();
    assert!(view(&fork).is_empty());
    let specs = |chat: &Conversation| chat.with_projection(|p| p.chain().to_vec()).unwrap();
    assert_eq!(specs(&fork), specs(&chat));
    turns(&fork, 8);
    assert!(
        view(&fork).len() < 10,
        "the strategies of the creation are at work"
    );
    sound(&fork);
}

/// Of B95: An edit without a branch deleted everything below.
#[test]
fn an_edited_message_is_said_in_a_fork_and_the_rest_stays_where_it_was() {
    let chat = chat("");
    let ids = talk(&chat, "U A U A U A");
    let before = Seq(ids[2].seq().0 - 1);
    let fork = chat.fork(before, "edited").unwrap();
    let said = fork.append(Message::person("asked otherwise")).unwrap();
    assert_eq!(view(&fork), [ids[0], ids[1], said.message()]);
    assert_eq!(view(&chat), ids);
    let listed = chat.store().list().unwrap();
    assert_eq!(listed.len(), 2);
    assert_eq!(
        entries(&fork)[..ids[2].seq().0 as usize],
        entries(&chat)[..ids[2].seq().0 as usize]
    );
}

/// W4.19. A fork between a call and its result made a child that could not be compacted, and did not
/// know its parent.
#[test]
fn no_fork_splits_a_call_from_its_result_and_each_knows_its_parent() {
    let chat = chat("sliding-window:keep=1");
    let ids = talk(&chat, "U Aa Ra A");
    let refused = chat.fork(ids[1].seq(), "b");
    assert_eq!(reason(refused), ctxlog::log::RequestReason::ForkSplitsPair);
    let fork = chat.fork_closing(ids[1].seq(), "b").unwrap();
    talk(&fork, "A U A");
    fork.call().unwrap();
    sound(&fork);
    assert_eq!(fork.forked().unwrap().map(|f| f.parent), Some(chat.id()));
}
