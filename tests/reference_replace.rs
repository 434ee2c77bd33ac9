//! Replacing a range, clearing, recalling and returning, as other systems do it and where they break.

#[path = "common/talk.rs"]
mod talk;

use ctxlog::audit::why;
use ctxlog::engine::{Content, Conversation, Replacement};
use ctxlog::log::{
    Author, Body, Change, EditAction, LeftReason, Message, MessageId, Part, PartKind,
    RequestReason, Role, Seq, StandInKind,
};
use serde_json::{Value, json};
use talk::{chat, reason, talk, there};

/// Five messages of which none is held: the request before them left its answer open no more.
fn five(chat: &Conversation) -> Vec<MessageId> {
    talk(chat, "A A A A A")
}

fn window(chat: &Conversation) -> Vec<MessageId> {
    let window = chat.window().unwrap();
    window.items.iter().map(|i| i.id).collect()
}

fn says(chat: &Conversation, id: MessageId) -> String {
    let head = chat.head().unwrap().unwrap().seq;
    match chat.message_at(id, head).unwrap() {
        Content::Message(message) => message.words(),
        Content::Redacted => panic!("{id} is redacted"),
    }
}

fn rest(chat: &Conversation, entry: Seq) -> Value {
    let text = chat.edit_rest(entry).unwrap().unwrap();
    serde_json::from_str(&text.0).unwrap()
}

fn words(text: &str) -> Message {
    Message::person(text)
}

#[test]
fn a_range_is_replaced_by_one_message_and_its_end_is_exclusive() {
    let chat = chat("");
    let ids = five(&chat);
    let before = chat.head().unwrap().unwrap().seq;
    let ack = chat
        .replace(&Replacement::range(0, -2), words("so far"))
        .unwrap();
    let claim = ack.message();
    assert_eq!(window(&chat), [claim, ids[3], ids[4]]);
    assert_eq!(says(&chat, claim), "so far");
    // One entry: the exact sources, the range as it was asked for and what it came to.
    let entry = chat.entry(ack.last).unwrap();
    assert_eq!(ack.last, before.next());
    let Body::Edited(edited) = &entry.body else {
        panic!("{entry:?}");
    };
    assert_eq!(edited.action, EditAction::Replace);
    let [stand_in] = edited.change.stand_ins.as_slice() else {
        panic!("{edited:?}");
    };
    assert_eq!(
        (stand_in.kind, stand_in.reason),
        (StandInKind::Claim, LeftReason::Replaced)
    );
    assert_eq!(stand_in.sources.0, [(ids[0].seq(), ids[2].seq())]);
    let rest = rest(&chat, ack.last);
    assert_eq!(
        (&rest["asked"]["start"], &rest["asked"]["end"]),
        (&json!(0), &json!(-2))
    );
    assert_eq!(
        (&rest["of"], &rest["resolved"]),
        (&json!(5), &json!(&ids[..3]))
    );
    // It is nobody's request, whoever asked for it, and may leave like others.
    let author = chat.with_projection(|p| p.message(claim).unwrap().author());
    assert_eq!(author.unwrap(), Author::Application);
    // What it stands for is there byte for byte, and comes back by undoing it.
    assert_eq!(says(&chat, ids[1]), "say");
    let covered = reason(chat.restore(ids[1]));
    assert_eq!(covered, RequestReason::RestoreConflict);
    chat.undo(ack.last).unwrap();
    assert_eq!(window(&chat), ids);
}

#[test]
fn positions_count_from_either_end_and_are_never_clamped() {
    let chat = chat("");
    let ids = five(&chat);
    let head = chat.head().unwrap();
    for (start, end, why) in [
        (0, Some(-9), RequestReason::RangeOutOfBounds),
        (-6, None, RequestReason::RangeOutOfBounds),
        (0, Some(6), RequestReason::RangeOutOfBounds),
        (3, Some(1), RequestReason::RangeInverted),
        (-1, Some(-3), RequestReason::RangeInverted),
        (2, Some(2), RequestReason::NothingMatches),
        (5, None, RequestReason::NothingMatches),
    ] {
        let refused = chat.replace(&Replacement::range(start, end), words("x"));
        assert_eq!(reason(refused), why, "{start}..{end:?}");
    }
    assert_eq!(
        chat.head().unwrap(),
        head,
        "a refused request writes nothing"
    );
    let claim = chat
        .replace(&Replacement::range(-4, -1), words("x"))
        .unwrap();
    assert_eq!(window(&chat), [ids[0], claim.message(), ids[4]]);
}

#[test]
fn roles_and_tags_must_both_hold_and_what_is_skipped_says_why() {
    let given = chat("");
    let ids = talk(&given, "S X A Aa Ra X A U");
    let what = Replacement::range(0, None)
        .roles([Role::User, Role::Assistant])
        .tags([PartKind::Text])
        .with_gaps();
    let ack = given.replace(&what, words("talk")).unwrap();
    // The calls stay with their result, the envelope and the request are held.
    let claim = ack.message();
    assert_eq!(window(&given), [ids[0], claim, ids[3], ids[4], ids[7]]);
    let told = rest(&given, ack.last);
    let skipped = |why: &str| {
        let all = told["skipped"].as_array().unwrap().iter();
        let mut of = all.filter(|s| s["why"] == why);
        of.next().map(|s| s["messages"][0][0].clone())
    };
    assert_eq!(skipped("role"), Some(json!(ids[0])));
    assert_eq!(skipped("tag"), Some(json!(ids[3])));
    assert_eq!(skipped("current-request"), Some(json!(ids[7])));
    // A filter that takes a call without its result is refused, and says what to add.
    let results = Replacement::range(0, None).roles([Role::Tool]);
    let refused = given.replace(&results, words("x")).unwrap_err();
    let refusal = refused.refusal().unwrap();
    assert_eq!(refusal.reason, RequestReason::SplitPair);
    assert!(refusal.help.contains(&ids[3].to_string()), "{refusal:?}");
    // Nothing of such a kind.
    let images = Replacement::range(0, None).tags([PartKind::Image]);
    let nothing = reason(given.replace(&images, words("x")));
    assert_eq!(nothing, RequestReason::NothingMatches);
}

#[test]
fn a_match_with_gaps_is_one_message_where_they_are_allowed() {
    let given = chat("");
    let ids = talk(&given, "X A X A X");
    let what = Replacement::range(0, None).roles([Role::Assistant]);
    assert_eq!(
        reason(given.replace(&what, words("x"))),
        RequestReason::InvalidOption
    );
    let ack = given.replace(&what.with_gaps(), words("x")).unwrap();
    assert_eq!(window(&given), [ids[0], ack.message(), ids[2], ids[4]]);
}

#[test]
fn the_envelope_the_request_open_calls_and_pins_stay_whoever_asks() {
    let given = chat("");
    let ids = talk(&given, "S A A U Aa");
    given.pin(ids[1]).unwrap();
    let ack = given
        .replace(&Replacement::range(0, None), words("x"))
        .unwrap();
    assert_eq!(
        window(&given),
        [ids[0], ids[1], ack.message(), ids[3], ids[4]]
    );
    let only = reason(given.replace(&Replacement::range(-2, None), words("x")));
    assert_eq!(only, RequestReason::NothingMatches);
}

#[test]
fn a_replacement_says_something_and_speaks_as_user_or_assistant() {
    let given = chat("");
    five(&given);
    let range = Replacement::range(0, 2);
    let nothing = Message::new(Role::User, Author::Person, Vec::new());
    for empty in [nothing, words(" \n")] {
        assert_eq!(
            reason(given.replace(&range, empty)),
            RequestReason::EmptyMessage
        );
    }
    for odd in [
        Message::system("x"),
        Message::calls(vec![Part::call("a", "t", "{}")]),
    ] {
        assert_eq!(
            reason(given.replace(&range, odd)),
            RequestReason::InvalidOption
        );
    }
    // It may be larger than what it stands for: someone wanted it so.
    given
        .replace(&range, Message::model("long ".repeat(99)))
        .unwrap();
}

#[test]
fn one_message_gets_another_content_and_keeps_its_id() {
    let given = chat("");
    let ids = talk(&given, "Aa Ra A U");
    let result = Replacement::range(1, 2).in_place();
    let ack = given.replace(&result, words("the file is empty")).unwrap();
    assert_eq!(window(&given), ids);
    assert_eq!(says(&given, ids[1]), "the file is empty");
    let shown = given.with_projection(|p| p.message(ids[1]).unwrap().skeleton().unwrap().clone());
    let shown = shown.unwrap();
    assert_eq!(shown.role, Role::Tool);
    assert_eq!(shown.parts[0].answers, Some((ids[0].seq(), 0)));
    // A call's words are its arguments: no text takes their place.
    let call = Replacement::range(0, 1).in_place();
    assert_eq!(
        reason(given.replace(&call, words("x"))),
        RequestReason::SplitPair
    );
    let two = Replacement::range(1, 3).in_place();
    assert_eq!(
        reason(given.replace(&two, words("x"))),
        RequestReason::InvalidOption
    );
    given.undo(ack.last).unwrap();
    assert_eq!(says(&given, ids[1]), "out");
}

#[test]
fn an_ask_means_what_it_meant_and_takes_no_ordinary_request() {
    let given = chat("");
    let mut ids = talk(&given, "Aa A A A A");
    let ask = given.ask_replacement(&Replacement::range(1, -2)).unwrap();
    assert_eq!(window(&given), ids, "an ask changes nothing");
    assert_eq!(
        given.entry(ask.last).unwrap().body.change(),
        Some(&Change::default())
    );
    // A result comes, and a person says something: neither is the content, and neither is meant.
    ids.extend(talk(&given, "Ra U"));
    let done = given.replace_asked(ask.last, words("so far")).unwrap();
    let claim = done.message();
    assert_eq!(
        window(&given),
        [ids[0], claim, ids[3], ids[4], ids[5], ids[6]]
    );
    // Once, and of two asks the newer.
    let again = reason(given.replace_asked(ask.last, words("x")));
    assert_eq!(again, RequestReason::NothingMatches);
    let first = given.ask_replacement(&Replacement::range(2, 4)).unwrap();
    let second = given.ask_replacement(&Replacement::range(2, 3)).unwrap();
    let superseded = reason(given.replace_asked(first.last, words("x")));
    assert_eq!(superseded, RequestReason::NothingMatches);
    let no_ask = reason(given.replace_asked(done.last, words("x")));
    assert_eq!(no_ask, RequestReason::NothingMatches);
    // What was meant left meanwhile.
    given.clear_messages(&[ids[3]]).unwrap();
    let gone = reason(given.replace_asked(second.last, words("x")));
    assert_eq!(gone, RequestReason::NothingMatches);
}

#[test]
fn a_replacement_of_a_replacement_is_undone_in_order() {
    let given = chat("");
    let ids = five(&given);
    let inner = given
        .replace(&Replacement::range(0, 2), words("inner"))
        .unwrap();
    let outer = given
        .replace(&Replacement::range(0, 2), words("outer"))
        .unwrap();
    assert_eq!(window(&given), [outer.message(), ids[3], ids[4]]);
    let conflict = given.undo(inner.last).unwrap_err();
    let refusal = conflict.refusal().unwrap();
    assert_eq!(refusal.reason, RequestReason::RestoreConflict);
    assert!(
        refusal.help.contains(&outer.last.to_string()),
        "{refusal:?}"
    );
    given.undo(outer.last).unwrap();
    assert_eq!(window(&given), [inner.message(), ids[2], ids[3], ids[4]]);
    given.undo(inner.last).unwrap();
    assert_eq!(window(&given), ids);
}

#[test]
fn clearing_leaves_the_envelope_and_the_request_and_can_be_undone() {
    let given = chat("");
    let ids = talk(&given, "S U A Aa Ra A U");
    let ack = given.clear().unwrap();
    assert_eq!(there(&given, &ids), [0, 6]);
    let answer = why(&given, ids[3], ack.last).unwrap();
    assert_eq!(
        answer.lives[0].left.as_ref().unwrap().reason,
        LeftReason::Cleared
    );
    // Appending starts again; nothing more may leave; the window from before can be had.
    assert_eq!(reason(given.clear()), RequestReason::NothingMatches);
    let next = talk(&given, "A");
    assert_eq!(window(&given), [ids[0], ids[6], next[0]]);
    let before = given.window_after(Seq(ack.last.0 - 1)).unwrap();
    assert_eq!(before.items.len(), 7);
    given.undo(ack.last).unwrap();
    assert_eq!(there(&given, &ids).len(), 7);
}

#[test]
fn cleared_messages_take_their_groups_along() {
    let given = chat("");
    let ids = talk(&given, "X A Aa Ra A U");
    let ack = given.clear_messages(&[ids[3], ids[5]]).unwrap();
    assert_eq!(there(&given, &ids), [0, 1, 4, 5]);
    let rest = rest(&given, ack.last);
    assert_eq!(rest["skipped"][0]["why"], "current-request");
    let held = reason(given.clear_messages(&[ids[5]]));
    assert_eq!(held, RequestReason::NothingMatches);
    let away = reason(given.clear_messages(&[ids[3]]));
    assert_eq!(away, RequestReason::NothingMatches);
}
