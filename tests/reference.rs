//! What three other systems do, item by item, and what breaks in them, where no other test shows it:
//! `docs/REFERENCE-SYSTEMS.md` says which test shows which item.

#[path = "common/talk.rs"]
mod talk;

use ctxlog::audit::{status, why};
use ctxlog::engine::{Content, Conversation, Options, Store};
use ctxlog::log::{
    Author, Body, GroupReason, LeftReason, Message, MessageId, Micros, Part, PartBody,
    RequestReason, Role, Seq, StandInKind, Trigger, Unit, Usage, VisitOutcome, Visited,
};
use ctxlog::strategy::{parse, presets};
use talk::{chat, reason, refuses, talk, there, visits};

/// The window as the places of these messages.
fn window(chat: &Conversation, ids: &[MessageId]) -> Vec<usize> {
    there(chat, ids)
}

/// The words of a message as it is now.
fn says(chat: &Conversation, id: MessageId) -> String {
    let head = chat.head().unwrap().unwrap().seq;
    match chat.message_at(id, head).unwrap() {
        Content::Message(message) => message.words(),
        Content::Redacted => panic!("{id} is redacted"),
    }
}

/// A call of a tool and its result, of so many letters.
fn tool(chat: &Conversation, name: &str, out: &str) -> MessageId {
    let calls = vec![Part::call("c", name, "{}")];
    chat.append(Message::calls(calls)).unwrap();
    chat.append(Message::tool("c", out)).unwrap().message()
}

fn called(chat: &Conversation) -> Vec<Visited> {
    let call = chat.call().unwrap();
    visits(chat, &call)
}

fn left(visit: &Visited) -> usize {
    visit.change.left.len()
}

/// The notices of the window now.
fn notices(chat: &Conversation) -> Vec<MessageId> {
    let of = |p: &ctxlog::window::Projection| {
        let there = p.messages().iter().filter(|m| m.visible() && m.notice);
        there.map(|m| m.id).collect()
    };
    chat.with_projection(of).unwrap()
}

#[test]
fn the_first_and_the_last_stay_and_three_times_is_as_once() {
    let given = chat("sisu:window=3");
    let ids = talk(&given, "S A A A A A");
    let visits = called(&given);
    assert_eq!(window(&given, &ids), [0, 3, 4, 5]);
    assert_eq!(visits[0].change.left[0].reason, LeftReason::BeyondKeep);
    for _ in 0..2 {
        assert!(called(&given).is_empty());
    }
    assert_eq!(window(&given, &ids), [0, 3, 4, 5]);
    // The default of 12, and one more than that: nothing leaves, and nothing is filed.
    let full = chat("sisu");
    let ids = talk(&full, "S A A A A A A A A A A A A");
    assert!(called(&full).is_empty());
    assert_eq!(window(&full, &ids).len(), 13);
    // A window of one: the first and the last.
    let one = chat("sisu:window=1");
    let ids = talk(&one, "A A A");
    called(&one);
    assert_eq!(window(&one, &ids), [0, 2]);
    assert_eq!(refuses(&one, ids[0]), Some(GroupReason::ProtectedHead));
}

#[test]
fn a_pair_reaches_over_the_edge_and_the_request_stays() {
    let given = chat("sisu:window=3");
    let ids = talk(&given, "S U Aa,b Ra Rb A");
    called(&given);
    assert_eq!(window(&given, &ids), [0, 1, 2, 3, 4, 5]);
    assert_eq!(refuses(&given, ids[1]), Some(GroupReason::CurrentRequest));
    let given = chat("sisu:window=3");
    let ids = talk(&given, "S U A U Aa,b Ra Rb A");
    called(&given);
    assert_eq!(window(&given, &ids), [0, 3, 4, 5, 6, 7]);
}

#[test]
fn every_request_of_a_tool_loop_is_within_the_cap() {
    let chat = chat("sisu");
    let mut ids = talk(&chat, "S");
    for _ in 0..6 {
        ids.extend(talk(&chat, "U A"));
    }
    ids.extend(talk(&chat, "U"));
    for _ in 0..11 {
        let call = chat.call().unwrap();
        // The head, the request, the last 12, and one group over the edge.
        assert!(call.window.items.len() <= 15, "{}", call.window.items.len());
        assert!(call.window.contains(ids[13]), "the request");
        tool(&chat, "t", "out");
    }
}

#[test]
fn what_cannot_be_is_refused_when_it_is_set() {
    for spec in [
        "sisu:window=0",
        "sisu:window=-2",
        "sisu:window=NaN",
        "sisu:window=2.5",
        "sisu:window=Infinity",
        "sliding-window",
        "agentfootprint:keep=0",
        "agentfootprint:keep=1.5",
        "agentfootprint:keep=null",
        "agentfootprint:keep=2,pin-results=-1",
        "agentfootprint:keep=2,pin-results=1.5",
        "agentfootprint-budget",
        "agentfootprint-budget:limit=0",
        "agentfootprint-budget:limit=-1",
        "entelix:keep=0",
        "entelix",
        "expire",
        "expire:after=0",
        "expire:after=1,unit=day",
        "expire:after=1,return=yes",
        "truncate-outputs",
        "truncate-outputs:max=255",
        "clear-tool-results",
        "clear-tool-results:limit=0",
        "clear-tool-results:age=0",
        "clear-tool-results:limit=1,age=1",
        "clear-tool-results:limit=1,except=+",
        "sliding-window:keep=1,notice=loud",
        "plan",
    ] {
        let error = parse(spec).unwrap_err().to_string();
        assert!(error.len() > 20, "{spec}: {error}");
    }
    for spec in [
        "agentfootprint:keep=1",
        "agentfootprint:keep=1000000000000000",
    ] {
        assert!(parse(spec).is_ok());
    }
    assert!(parse("sliding-window:keep=1,pin-results=0").is_ok(), "off");
}

#[test]
fn a_preset_is_written_out_and_may_be_changed() {
    let resolved = |spec: &str| parse(spec).unwrap().spec();
    assert_eq!(resolved("sisu"), "head-tail:window=12,head=1,unit=message");
    assert_eq!(
        resolved("agentfootprint:keep=2"),
        "sliding-window:keep=2,unit=group,pin-results=2,notice=auto"
    );
    assert_eq!(
        resolved("agentfootprint:keep=2,pin-results=0,notice=off"),
        "sliding-window:keep=2,unit=group"
    );
    assert_eq!(
        resolved("agentfootprint-budget:limit=9"),
        "token-budget:limit=9,low=1,keep=6,measure=reported,pin-results=2,notice=auto"
    );
    assert_eq!(resolved("entelix:keep=3"), "buffer:keep=3,unit=message");
    assert_eq!(presets().count(), 4);
}

#[test]
fn a_pinned_message_stays_where_the_order_would_drop_it() {
    let chat = chat("sisu:window=2");
    let ids = talk(&chat, "S U A U A U");
    chat.pin(ids[1]).unwrap();
    let visits = called(&chat);
    assert_eq!(window(&chat, &ids), [0, 1, 4, 5]);
    assert_eq!(refuses(&chat, ids[1]), Some(GroupReason::Pinned));
    assert!(visits[0].shortfall.is_some());
    assert_eq!(reason(chat.pin(ids[1])), RequestReason::NothingMatches);
    assert_eq!(reason(chat.pin(ids[2])), RequestReason::NothingMatches);
    let unpinned = chat.unpin(ids[1]).unwrap();
    assert_eq!(reason(chat.unpin(ids[1])), RequestReason::NothingMatches);
    // A pin is an edit like any other: undone, it is there again.
    chat.undo(unpinned.last).unwrap();
    called(&chat);
    assert_eq!(window(&chat, &ids), [0, 1, 4, 5]);
    chat.unpin(ids[1]).unwrap();
    called(&chat);
    assert_eq!(window(&chat, &ids), [0, 4, 5]);
}

#[test]
fn strategies_of_a_chain_see_what_the_one_before_left() {
    let chat = chat("head-tail:window=4;sliding-window:keep=2");
    let ids = talk(&chat, "S A A A A A A");
    let visits = called(&chat);
    let before: Vec<u64> = visits.iter().map(|v| v.before.amount).collect();
    assert_eq!(before, [6, 4]);
    assert_eq!(
        visits.iter().map(|v| v.position).collect::<Vec<_>>(),
        [0, 1]
    );
    assert_eq!(window(&chat, &ids), [0, 5, 6]);
    // A second list is refused, and the first stays.
    let other = chat
        .clone()
        .with_strategies(talk::chain("sliding-window:keep=9"));
    assert_eq!(reason(other), RequestReason::PolicyConflict);
}

#[test]
fn a_buffer_keeps_its_cap_on_every_append() {
    let given = chat("entelix:keep=3");
    let ids = talk(&given, "A A A A A");
    assert_eq!(window(&given, &ids), [2, 3, 4]);
    let visit = given.entry(ids[4].seq().next()).unwrap();
    let Body::Visited(visit) = visit.body else {
        panic!("{visit:?}")
    };
    assert_eq!(visit.trigger, Trigger::Append);
    // The acknowledgement names the message, whatever was filed behind it.
    let ack = given.append(Message::model("say")).unwrap();
    assert_eq!(given.entry(ack.last).unwrap().body.code(), 4);
    // Five messages of a person in a row are one request.
    let asked = chat("entelix:keep=3");
    let ids = talk(&asked, "U U U U U");
    assert_eq!(window(&asked, &ids).len(), 5);
    // A pair is never split, and what the cap cannot take it says.
    let paired = chat("entelix:keep=2");
    let mut ids = talk(&paired, "U Aa Ra A");
    assert_eq!(window(&paired, &ids), [0, 1, 2, 3], "over the edge");
    ids.extend(talk(&paired, "A"));
    assert_eq!(window(&paired, &ids), [0, 3, 4]);
    // A repeated key writes nothing more.
    let keyed = chat("entelix:keep=2");
    talk(&keyed, "A A");
    let options = Options {
        key: Some("once".to_owned()),
        ..Options::default()
    };
    let said = keyed.append_with(Message::model("say"), &options).unwrap();
    let head = keyed.head().unwrap();
    let again = keyed.append_with(Message::model("say"), &options).unwrap();
    assert_eq!((again.last, again.repeated), (said.last, true));
    assert_eq!(keyed.head().unwrap(), head);
    // So does the conversation when it is opened anew.
    let opened = Store::on(std::sync::Arc::new(ctxlog::store::MemoryStore::new()));
    let chat = opened.conversation("a").unwrap();
    drop(chat.with_strategies(talk::chain("buffer:keep=1")).unwrap());
    let chat = opened.existing("a").unwrap();
    let ids = talk(&chat, "A A");
    assert_eq!(window(&chat, &ids), [1]);
}

const SAID: &str = "word ";

#[test]
fn the_notice_says_it_byte_for_byte() {
    let chat = chat("sliding-window:keep=1,notice=auto");
    for _ in 0..3 {
        chat.append(Message::model(SAID.repeat(40))).unwrap();
    }
    let visits = called(&chat);
    let notice = notices(&chat);
    assert_eq!(notice.len(), 1);
    assert_eq!(
        says(&chat, notice[0]),
        "[dropped history — 2 earlier message(s) were dropped from this window at iteration 1 by \
         the 'sliding-window' window strategy. Nothing was summarized: those turns are simply not \
         being re-sent. They are retained verbatim in this run's commit log.]"
    );
    let stand_in = &visits[0].change.stand_ins[0];
    assert_eq!(stand_in.kind, StandInKind::Notice);
    assert!(stand_in.sources.is_empty(), "it stands for nothing");
    let seen = (&stand_in.skeleton.role, stand_in.skeleton.author);
    assert_eq!(seen, (&Role::User, Author::Engine));
    // Nobody counts it: what is kept is kept, and nothing more is due.
    assert_eq!(visits[0].after.amount, 1);
    assert!(called(&chat).is_empty());
    // Undone, it is gone and what left is back.
    chat.undo(notice[0].seq()).unwrap();
    assert_eq!(notices(&chat), []);
    assert_eq!(chat.window().unwrap().items.len(), 3);
}

#[test]
fn the_notice_names_tools_where_that_is_short_enough() {
    let told = |tools: &[&str], out: usize| {
        let chat = chat("sliding-window:keep=1,notice=auto");
        for name in tools {
            tool(&chat, name, &SAID.repeat(out));
        }
        chat.append(Message::model("say")).unwrap();
        called(&chat);
        notices(&chat).first().map(|id| says(&chat, *id))
    };
    let rich = told(&["a", "b", "a", "c.d", "e:f", "g-h"], 100).unwrap();
    assert!(
        rich.ends_with(
            "log.] [results of a, b, c.d, e:f, … were among them: call the tool again where one is \
             needed, and do not rebuild ids from memory.]"
        ),
        "{rich}"
    );
    // Names that no provider takes are left out whole; with none left the bytes are the plain ones.
    let long = "x".repeat(64);
    assert!(told(&[&long, "b c"], 100).unwrap().contains(&long));
    let plain = told(&["no name", &"x".repeat(65)], 100).unwrap();
    assert!(plain.ends_with("commit log.]"), "{plain}");
    // Too long for what left: without the names; then none at all.
    let shorter = told(&["a"], 60).unwrap();
    assert!(shorter.ends_with("commit log.]"), "{shorter}");
    assert_eq!(told(&["a"], 10), None);
}

#[test]
fn a_newer_notice_takes_the_place_of_the_one_before() {
    let chat = chat("agentfootprint:keep=2");
    talk(&chat, "S U");
    let (mut removing, mut most) = (0, 0);
    for _ in 0..10 {
        tool(&chat, "t", &SAID.repeat(80));
        let visits = called(&chat);
        removing += visits.iter().map(left).sum::<usize>().min(1);
        most = most.max(chat.window().unwrap().items.len());
        assert!(notices(&chat).len() <= 1);
    }
    assert!(removing >= 8 - 2, "{removing} of 10 removed something");
    assert!(most <= 12, "{most}");
    let absorbed = chat.with_projection(|p| {
        let gone = p.messages().iter().filter_map(|m| m.absent());
        gone.filter(|end| end.reason == LeftReason::NoticeAbsorbed)
            .count()
    });
    assert!(absorbed.unwrap() >= 5);
}

#[test]
fn what_only_reads_like_a_notice_is_none() {
    let chat = chat("agentfootprint:keep=1");
    let text = "[dropped history — what does that banner mean?] Tell me.";
    let request = chat.append(Message::person(text)).unwrap().message();
    let forged = tool(&chat, "t", text);
    for _ in 0..3 {
        tool(&chat, "t", &SAID.repeat(99));
        called(&chat);
    }
    let window = chat.window().unwrap();
    assert!(window.contains(request), "authorship is a field");
    assert!(!window.contains(forged));
}

#[test]
fn the_newest_result_of_a_tool_outlives_another_tools_loop() {
    let run = |spec: &str| {
        let chat = chat(spec);
        talk(&chat, "S U");
        let ledger = tool(&chat, "ledger", "the ledger");
        let (mut removing, mut most) = (0, 0);
        for _ in 0..30 {
            tool(&chat, "probe", "out");
            removing += called(&chat).iter().map(left).sum::<usize>().min(1);
            most = most.max(chat.window().unwrap().items.len());
        }
        let there = chat.window().unwrap().contains(ledger);
        let why_not = refuses(&chat, ledger);
        (there, removing, most, why_not)
    };
    let (there, removing, most, held) = run("agentfootprint:keep=2");
    assert!(there && removing >= 20 && most <= 12, "{removing} {most}");
    assert_eq!(held, Some(GroupReason::LastToolResult));
    assert!(
        !run("sliding-window:keep=2").0,
        "without the pin it is lost"
    );
}

#[test]
fn a_pin_moves_on_and_ends_with_the_request() {
    let chat = chat("sliding-window:keep=1,pin-results=1");
    talk(&chat, "U");
    let first = tool(&chat, "t", "one");
    let second = tool(&chat, "t", "two");
    talk(&chat, "A");
    called(&chat);
    let window = chat.window().unwrap();
    assert!(!window.contains(first) && window.contains(second));
    assert_eq!(refuses(&chat, second), Some(GroupReason::LastToolResult));
    talk(&chat, "U");
    called(&chat);
    assert!(!chat.window().unwrap().contains(second), "a new request");
    // Of a batch every tool is in use; the ceiling takes the newest.
    let batch = self::chat("sliding-window:keep=1,pin-results=1");
    talk(&batch, "U");
    let old = tool(&batch, "old", "out");
    let calls = ["a", "b", "c"].map(|id| Part::call(id, id, "{}"));
    batch.append(Message::calls(calls.to_vec())).unwrap();
    let results = talk(&batch, "Ra Rb Rc A");
    called(&batch);
    let window = batch.window().unwrap();
    assert!(results.iter().all(|id| window.contains(*id)));
    assert!(!window.contains(old), "the ceiling is one");
}

#[test]
fn a_pin_that_is_in_the_way_stands_down_for_one_visit() {
    let chat = chat("token-budget:limit=60,low=1,keep=0,measure=estimate,pin-results=2");
    talk(&chat, "U");
    let big = tool(&chat, "big", &SAID.repeat(60));
    let held = called(&chat);
    assert_eq!(held[0].outcome, VisitOutcome::Short);
    assert!(chat.window().unwrap().contains(big));
    // One small group leaves each time and does not help: size counts, not that anything left.
    talk(&chat, "A");
    let freed = called(&chat);
    assert!(!freed[0].stood_down.is_empty());
    assert_eq!(freed[0].outcome, VisitOutcome::Done);
    assert!(!chat.window().unwrap().contains(big));
    // A strategy that counts: two looks that free nothing.
    let counting = self::chat("sliding-window:keep=1,pin-results=1");
    talk(&counting, "U");
    let pinned = tool(&counting, "t", "out");
    talk(&counting, "A");
    assert_eq!(called(&counting)[0].outcome, VisitOutcome::Short);
    let second = called(&counting);
    assert_eq!(left(&second[0]), 1);
    assert!(!counting.window().unwrap().contains(pinned));
}

#[test]
fn old_outputs_become_markers_and_their_calls_stay() {
    let chat = chat("clear-tool-results:limit=100,keep=1,except=notes");
    talk(&chat, "S U");
    let spared = tool(&chat, "notes", &SAID.repeat(60));
    let old = tool(&chat, "search", &SAID.repeat(60));
    let small = tool(&chat, "search", "ok");
    let newest = tool(&chat, "search", &SAID.repeat(60));
    let before = chat.window().unwrap();
    let visits = called(&chat);
    let form = &visits[0].change.stand_ins[0];
    assert_eq!(visits[0].change.stand_ins.len(), 1);
    assert_eq!(
        (form.kind, form.reason),
        (StandInKind::Form, LeftReason::Cleared)
    );
    assert_eq!(
        says(&chat, old),
        format!("[output cleared: 300 bytes, kept in the log as {old}]")
    );
    for kept in [spared, newest] {
        assert_eq!(says(&chat, kept), SAID.repeat(60));
    }
    assert_eq!(says(&chat, small), "ok");
    let ids = |w: &ctxlog::window::Window| w.items.iter().map(|i| i.id).collect::<Vec<_>>();
    assert_eq!(ids(&chat.window().unwrap()), ids(&before), "nothing left");
    assert_eq!(visits[0].first_changed, Some(old.seq()));
    // The words are in the log, and come back with the visit undone.
    let then = chat.message_at(old, old.seq()).unwrap();
    let original = then.into_message(Role::Tool, Author::Tool).words();
    assert_eq!(original, SAID.repeat(60));
    let head = chat.head().unwrap().unwrap().seq;
    assert_eq!(why(&chat, old, head).unwrap().forms.len(), 2);
    let visit = chat.with_projection(|p| p.visits()[0].fact.seq).unwrap();
    chat.undo(visit).unwrap();
    assert_eq!(says(&chat, old), SAID.repeat(60));
}

#[test]
fn clearing_too_little_is_not_worth_it() {
    let chat = chat("clear-tool-results:limit=50,keep=0,at-least=500");
    talk(&chat, "U");
    let out = tool(&chat, "t", &SAID.repeat(60));
    let visits = called(&chat);
    assert_eq!(visits[0].outcome, VisitOutcome::NoProgress);
    assert_eq!(says(&chat, out), SAID.repeat(60));
    assert!(called(&chat).is_empty(), "it backs off");
    tool(&chat, "t", &SAID.repeat(600));
    assert_eq!(called(&chat)[0].change.stand_ins.len(), 2);
}

#[test]
fn outputs_that_were_sent_often_enough_are_cleared() {
    let chat = chat("clear-tool-results:age=2,keep=0");
    talk(&chat, "U");
    let out = tool(&chat, "t", &SAID.repeat(60));
    for _ in 0..2 {
        assert!(called(&chat).is_empty());
        assert_eq!(says(&chat, out), SAID.repeat(60));
    }
    assert_eq!(called(&chat)[0].before.method, "count:over-age");
    assert!(says(&chat, out).starts_with("[output cleared"));
}

#[test]
fn outputs_are_cut_to_their_limit_and_nothing_else_is() {
    let chat = chat("truncate-outputs:max=400");
    let long = SAID.repeat(400);
    let asked = chat.append(Message::person(long.clone())).unwrap();
    let call = Part::call("c", "t", &format!("{{\"text\":\"{long}\"}}"));
    let made = chat
        .append(Message::calls(vec![Part::text(&*long), call]))
        .unwrap();
    let rows = "{\"id\": 9007199254740993, \"html\": \"<b>\"}, ".repeat(60);
    let json = format!("[{rows}{{\"last\": 1.50}}]");
    let out = chat.append(Message::tool("c", &json)).unwrap().message();
    let text = tool(&chat, "t", &"\u{1f680}".repeat(400));
    let fits = tool(&chat, "t", "{\"id\":9007199254740993,\"html\":\"<b>\"}");
    let before = [asked.message(), made.message()].map(|id| says(&chat, id));
    called(&chat);
    assert_eq!(
        [asked.message(), made.message()].map(|id| says(&chat, id)),
        before
    );
    let cut = says(&chat, out);
    assert!(cut.len() <= 400 && cut.starts_with("[{\"id\": 9007199254740993, \"html\": \"<b>\"}"));
    assert!(
        serde_json::from_str::<serde_json::Value>(&cut).is_ok(),
        "{cut}"
    );
    let cut = says(&chat, text);
    assert!(cut.len() <= 400 && cut.starts_with('\u{1f680}') && cut.ends_with("bytes cut]"));
    assert_eq!(
        says(&chat, fits),
        "{\"id\":9007199254740993,\"html\":\"<b>\"}"
    );
    assert!(called(&chat).is_empty(), "once");
}

#[test]
fn a_failed_or_refused_step_keeps_no_other_from_its_work() {
    // The first of a chain can free nothing; the second cuts all the same.
    let chat = chat("sliding-window:keep=9;truncate-outputs:max=300");
    talk(&chat, "U");
    let out = tool(&chat, "t", &SAID.repeat(200));
    called(&chat);
    assert!(says(&chat, out).len() <= 300);
}

#[test]
fn a_group_leaves_when_its_lifetime_is_over() {
    let chat = chat("expire:after=2");
    let ids = talk(&chat, "S U A Aa Ra");
    for _ in 0..2 {
        let call = chat.call().unwrap();
        assert!(call.window.contains(ids[2]), "it is sent twice");
    }
    let visits = called(&chat);
    assert_eq!(visits[0].change.left[0].reason, LeftReason::OverAge);
    assert_eq!(window(&chat, &ids), [0, 1], "the envelope and the request");
    assert_eq!(visits[0].before.amount, 3, "the request's is over too");
    assert_eq!(refuses(&chat, ids[1]), Some(GroupReason::CurrentRequest));
    // What comes back has a new life.
    chat.restore(ids[2]).unwrap();
    for _ in 0..2 {
        chat.call().unwrap();
        assert!(chat.window().unwrap().contains(ids[2]));
    }
    called(&chat);
    assert!(!chat.window().unwrap().contains(ids[2]));
}

#[test]
fn a_lifetime_may_be_in_entries_or_in_time() {
    let by_entries = chat("expire:after=3,unit=entry");
    let ids = talk(&by_entries, "A A A");
    assert!(called(&by_entries).is_empty());
    talk(&by_entries, "A");
    called(&by_entries);
    assert!(!by_entries.window().unwrap().contains(ids[0]));

    let by_time = chat("expire:after=60,unit=time");
    let at = |seconds: i64| Options {
        at: Some(Micros(seconds * 1_000_000)),
        ..Options::default()
    };
    let say = |seconds| {
        let said = by_time.append_with(Message::model("say"), &at(seconds));
        said.unwrap().message()
    };
    by_time.append_with(Message::person("ask"), &at(0)).unwrap();
    let (old, back, young) = (say(0), say(-90), say(50));
    by_time.call_with(&at(59), None).unwrap();
    assert!(by_time.window().unwrap().contains(old), "59 seconds");
    by_time.append_with(Message::model("say"), &at(61)).unwrap();
    by_time.call_with(&at(61), None).unwrap();
    let window = by_time.window().unwrap();
    assert!(!window.contains(old) && !window.contains(back));
    assert!(window.contains(young));
    // A clock that went back lets nothing leave early.
    by_time
        .append_with(Message::model("say"), &at(-500))
        .unwrap();
    by_time.call_with(&at(-500), None).unwrap();
    assert!(by_time.window().unwrap().contains(young));
}

#[test]
fn a_budget_goes_by_reported_tokens_and_says_by_how_much_it_is_over() {
    let chat = chat("agentfootprint-budget:limit=100,keep=1");
    talk(&chat, "A A A");
    let first = chat.call().unwrap();
    assert_eq!(visits(&chat, &first)[0].outcome, VisitOutcome::Unmeasurable);
    let usage = |input, cache| Usage {
        input: Some(input),
        cache_read: Some(cache),
        ..Usage::default()
    };
    chat.returned(first.id, Some(usage(1, 99))).unwrap();
    assert!(
        chat.call().unwrap().visits.is_empty(),
        "100 is not over 100"
    );
    let third = chat.call().unwrap();
    chat.returned(third.id, Some(usage(1, 149))).unwrap();
    let visit = &called(&chat)[0];
    assert_eq!((visit.before.unit, visit.before.amount), (Unit::Token, 150));
    assert!(
        visit.before.method.starts_with("reported"),
        "cache reads count"
    );
    let status = status(&chat).unwrap();
    let pressure = &status.pressure[0];
    assert_eq!((pressure.limit, pressure.overflow), (100, 50));
    assert_eq!(pressure.strategy, visit.strategy);
}

#[test]
fn reminders_and_steering_are_what_they_are() {
    // A reminder per round after the first request is no envelope: the window stays bounded.
    let chat = chat("agentfootprint:keep=2");
    talk(&chat, "S U");
    let mut most = 0;
    let stop = talk(&chat, "U")[0];
    for _ in 0..30 {
        talk(&chat, "S");
        tool(&chat, "t", "out");
        called(&chat);
        most = most.max(chat.window().unwrap().items.len());
    }
    assert!(most <= 12, "{most}");
    assert!(
        chat.window().unwrap().contains(stop),
        "steering is of the request"
    );
}

#[test]
fn a_budget_takes_as_many_spans_as_it_needs_and_counts_arguments() {
    let chat = chat("token-budget:limit=100,low=1,keep=1,measure=estimate");
    talk(&chat, "U");
    let first = chat
        .append(Message::model(SAID.repeat(100)))
        .unwrap()
        .message();
    talk(&chat, "X");
    let big = format!("{{\"text\":\"{}\"}}", SAID.repeat(500));
    chat.append(Message::calls(vec![Part::call("c", "write", &big)]))
        .unwrap();
    let written = chat.append(Message::tool("c", "ok")).unwrap().message();
    talk(&chat, "A A A");
    let visit = &called(&chat)[0];
    assert!(
        visit.before.amount > 600,
        "arguments count: {}",
        visit.before.amount
    );
    assert!(visit.after.amount <= 100);
    let window = chat.window().unwrap();
    assert!(!window.contains(first) && !window.contains(written));
}

#[test]
fn one_result_after_another_of_a_batch_is_one_form_each() {
    let chat = chat("clear-tool-results:age=1,keep=0");
    talk(&chat, "U");
    let calls = ["a", "b"].map(|id| Part::call(id, id, "{}"));
    chat.append(Message::calls(calls.to_vec())).unwrap();
    let results = ["a", "b"].map(|id| Part::result(id, &SAID.repeat(60)));
    let both = chat.append(Message::new(Role::Tool, Author::Tool, results.to_vec()));
    let both = both.unwrap().message();
    called(&chat);
    let visit = &called(&chat)[0];
    assert_eq!(visit.change.stand_ins.len(), 1);
    let head = chat.head().unwrap().unwrap().seq;
    let message = chat.message_at(both, head).unwrap();
    let message = message.into_message(Role::Tool, Author::Tool);
    for (part, id) in message.parts.iter().zip(["a", "b"]) {
        let PartBody::Result { call, .. } = &part.body else {
            panic!("{part:?}")
        };
        assert_eq!(call.as_deref(), Some(id), "of the same call");
    }
    assert_eq!(message.words().matches("output cleared").count(), 2);
}

#[test]
fn a_strategy_that_never_engages_changes_no_request() {
    let run = |spec: &str| {
        let chat = chat(spec);
        talk(&chat, "S U A U Aa Ra A U");
        let call = chat.call().unwrap();
        assert!(call.visits.is_empty());
        let ids = call.window.items.iter().map(|i| i.id.seq().0);
        ids.collect::<Vec<u64>>()
    };
    let configured = run("agentfootprint:keep=99");
    let bare: Vec<u64> = run("").into_iter().map(|seq| seq + 1).collect();
    assert_eq!(configured, bare, "one entry says what is configured");
}

/// Where an entry is.
#[test]
fn a_cut_costs_what_it_cuts() {
    let bytes = |rounds: usize| {
        let chat = chat("sisu:window=6");
        talk(&chat, "S U");
        for _ in 0..rounds {
            talk(&chat, "A A");
            chat.call().unwrap();
        }
        let visit = chat.with_projection(|p| p.visits().last().unwrap().fact.seq);
        let visit = chat.entry(visit.unwrap()).unwrap();
        assert!(visit.seq > Seq(rounds as u64));
        ctxlog::log::entry::seal(visit).unwrap().bytes.len()
    };
    assert_eq!(bytes(20), bytes(400));
}
