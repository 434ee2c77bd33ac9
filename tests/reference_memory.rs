//! Measures, what a change costs a prompt cache, when to consolidate, and the memories over a
//! conversation: items of the reference systems that no other test shows.

use ctxlog::audit::{export, import_lines, status};
use ctxlog::engine::{Conversation, Store};
use ctxlog::log::{
    Author, Block, BlockBody, Body, Json, Media, Message, Micros, Part, PartBody, Reading,
    RequestReason, Role, Seq, Unit, Usage, Visited,
};
use ctxlog::strategy::{Because, Consolidate, ConsolidationPolicy, Due, Signals, parse};
use ctxlog::window::{Comparison, ESTIMATE, Measure, SCRIPT, compare};

fn chat(spec: &str) -> Conversation {
    let chat = Store::in_memory().conversation("a").unwrap();
    match spec {
        "" => chat,
        spec => chat.with_strategies(vec![parse(spec).unwrap()]).unwrap(),
    }
}

fn visit_of(chat: &Conversation, seq: Seq) -> Visited {
    match chat.entry(seq).unwrap().body {
        Body::Visited(visit) => *visit,
        other => panic!("{seq} is {other:?}"),
    }
}

fn cost(visit: &Visited) -> (u64, &str) {
    let cost = visit.invalidated.as_ref().unwrap();
    (cost.amount, cost.method.as_ref())
}

#[test]
fn a_cut_costs_what_was_sent_behind_it_and_what_was_never_sent_costs_nothing() {
    let chat = chat("sliding-window:keep=1");
    chat.append(Message::system("ssss")).unwrap();
    chat.append(Message::person("pppp pppp")).unwrap();
    chat.append(Message::model("mmmm mmmm mmmm")).unwrap();
    chat.append(Message::model("nnnn")).unwrap();
    // Nothing was sent before: no cache holds anything.
    let first = chat.call().unwrap();
    assert_eq!(cost(&visit_of(&chat, first.visits[0])), (0, ESTIMATE));
    chat.append(Message::model("oooo oooo")).unwrap();
    chat.append(Message::model("q")).unwrap();
    let second = chat.call().unwrap();
    let visit = visit_of(&chat, second.visits[0]);
    // `nnnn` was sent, and leaves; the two behind it were not sent yet.
    assert_eq!(cost(&visit), (1, ESTIMATE));
    let json = serde_json::to_value(&visit).unwrap();
    assert_eq!(json["invalidated"]["amount"], 1);
    assert_eq!(status(&chat).unwrap().invalidated[0].amount, 1);
}

#[test]
fn the_second_change_between_two_calls_costs_only_what_the_first_left() {
    let chain = ["sliding-window:keep=2", "sliding-window:keep=1"].map(|s| parse(s).unwrap());
    let chat = Store::in_memory()
        .conversation("a")
        .unwrap()
        .with_strategies(chain.into())
        .unwrap();
    chat.append(Message::person("pppp")).unwrap();
    chat.call().unwrap();
    for _ in 0..2 {
        chat.append(Message::model("mmmm")).unwrap();
    }
    chat.call().unwrap();
    chat.append(Message::model("mmmm")).unwrap();
    let call = chat.call().unwrap();
    let costs: Vec<u64> = call
        .visits
        .iter()
        .map(|seq| cost(&visit_of(&chat, *seq)).0)
        .collect();
    assert_eq!(costs.iter().sum::<u64>(), costs[0], "{costs:?}");
}

#[test]
fn readings_of_two_methods_are_incomparable() {
    let reading = |unit, method: &'static str, amount| Reading {
        unit,
        method: method.into(),
        amount,
    };
    let a = reading(Unit::Token, ESTIMATE, 4);
    assert_eq!(
        compare(&a, &reading(Unit::Token, ESTIMATE, 5)),
        Comparison::Less
    );
    assert_eq!(compare(&a, &a), Comparison::Equal);
    for other in [
        reading(Unit::Token, SCRIPT, 4),
        reading(Unit::Byte, ESTIMATE, 4),
    ] {
        assert_eq!(compare(&a, &other), Comparison::Incomparable);
    }
}

fn picture() -> Part {
    Part {
        body: PartBody::Block(BlockBody::Media(
            Media::Image,
            Json("{\"url\":\"x\"}".into()),
        )),
        extra: Vec::new(),
    }
}

#[test]
fn media_are_told_as_not_counted_and_what_holds_them_compares_with_nothing_else() {
    let chat = chat("");
    chat.append(Message::person("look")).unwrap();
    let total = |c: &Conversation| {
        c.with_projection(|p| p.token_total(Measure::Estimate).unwrap())
            .unwrap()
    };
    let before = total(&chat);
    assert_eq!(before.compare(&total(&chat)), Comparison::Equal);
    let parts = vec![Part::text("here"), picture()];
    chat.append(Message::new(Role::User, Author::Person, parts))
        .unwrap();
    chat.append(Message::calls(vec![Part::call("c", "shot", "{}")]))
        .unwrap();
    let mut result = Message::tool("c", "");
    if let PartBody::Result { content, .. } = &mut result.parts[0].body {
        content.push(Block {
            body: BlockBody::Media(Media::Image, Json("{\"url\":\"y\"}".into())),
            extra: Vec::new(),
        });
    }
    chat.append(result).unwrap();
    let after = total(&chat);
    assert_eq!(after.uncounted, 2);
    assert_eq!(before.compare(&after), Comparison::Incomparable);
    assert_eq!(status(&chat).unwrap().uncounted, 2);
    // A provider counted them: nothing of what it said is missing.
    let call = chat.call().unwrap();
    let usage = Usage {
        input: Some(900),
        ..Usage::default()
    };
    chat.returned(call.id, Some(usage)).unwrap();
    let served = chat
        .with_projection(|p| p.token_total(Measure::Auto).unwrap())
        .unwrap();
    assert_eq!((served.amount, served.uncounted), (900, 0));
}

#[test]
#[cfg(feature = "tiktoken")]
fn tokens_are_counted_by_the_encoding_of_the_model_that_is_named() {
    let words = "Fahrvergnügen, 東京タワー, déjà-vu.";
    let budget = || chat("token-budget:limit=100000,measure=tiktoken");
    let total = |c: &Conversation| {
        c.with_projection(|p| p.token_total(Measure::Tiktoken).unwrap())
            .unwrap()
    };
    let old = budget();
    old.append(Message::person(words)).unwrap();
    old.call().unwrap();
    assert_eq!(total(&old).method, "tiktoken:o200k_base");
    // The model becomes known after the words were counted: they are counted again.
    old.set_request("openai-chat", Some("gpt-4"), &Json("{}".into()))
        .unwrap();
    old.append(Message::model(words)).unwrap();
    old.call().unwrap();
    let total = total(&old);
    assert_eq!(total.method, "tiktoken:cl100k_base");
    let one = ctxlog::tokens::Encoding::Cl100kBase.count(words).unwrap();
    assert!(total.amount >= 2 * one.amount);
}

#[test]
#[cfg(feature = "tiktoken")]
fn the_estimate_by_script_is_nearer_to_the_tokens_than_a_quarter_of_the_length() {
    for words in [
        "我们今天下午三点在会议室讨论新的产品计划，请大家准时参加。",
        "今日の午後三時に会議室で新しい製品について話し合います。",
        "오늘 오후 세 시에 회의실에서 새로운 제품 계획을 논의합니다.",
        "วันนี้เราจะประชุมเรื่องแผนผลิตภัณฑ์ใหม่เวลาบ่ายสามโมง",
        "🎉🚀😀👍🏽🔥💡✅❤️",
    ] {
        let chat = chat("");
        chat.append(Message::person(words)).unwrap();
        let by = |measure| {
            let total = chat.with_projection(|p| p.token_total(measure).unwrap().amount);
            total.unwrap()
        };
        let tokens = ctxlog::tokens::Encoding::O200kBase
            .count(words)
            .unwrap()
            .amount;
        let far = |guess: u64| guess.abs_diff(tokens);
        let (script, quarter) = (by(Measure::Script), by(Measure::Estimate));
        assert!(
            far(script) < far(quarter),
            "{words}: {tokens} tokens, by script {script}, by length {quarter}"
        );
    }
    let chat = chat("");
    chat.append(Message::person("We meet at three o'clock."))
        .unwrap();
    let both = chat
        .with_projection(|p| [Measure::Script, Measure::Estimate].map(|m| p.token_total(m)))
        .unwrap()
        .map(|total| total.unwrap().amount);
    assert_eq!(
        both[0], both[1],
        "of alphabets that words are split by both say the same"
    );
}

#[test]
fn status_says_how_far_estimates_were_from_what_was_reported() {
    let chat = chat("");
    let ask = |words: &str, reported: (u64, u64)| {
        chat.append(Message::person(words)).unwrap();
        let call = chat.call().unwrap();
        let usage = Usage {
            input: Some(reported.0),
            cache_read: Some(reported.1),
            ..Usage::default()
        };
        chat.returned(call.id, Some(usage)).unwrap();
    };
    ask(&"a".repeat(400), (100, 0)); // the estimate says 100
    ask(&"b".repeat(400), (10, 90)); // 200; cached tokens are tokens
    ask(&"c".repeat(400), (240, 0)); // 300
    let status = status(&chat).unwrap();
    let of = |method| status.accuracy.iter().find(|a| a.method == method).unwrap();
    let by = of(ESTIMATE);
    assert_eq!((by.calls, by.median.to_string()), (3, "1.250".to_owned()));
    assert_eq!(by.worst.to_string(), "2.000");
    let json = serde_json::to_value(&status).unwrap();
    assert_eq!(json["accuracy"].as_array().unwrap().len(), 2);
    assert_eq!(json["accuracy"][0]["worst"], 2.0);
}

/// What a policy says of a conversation, with nothing told beside it.
fn due(chat: &Conversation, policy: &ConsolidationPolicy) -> Due {
    chat.should_consolidate(policy, &Signals::new()).unwrap()
}

#[test]
fn a_policy_goes_by_the_messages_and_their_text_and_tells_what_it_did_not_count() {
    let chat = chat("");
    let (count, bytes) = (
        ConsolidationPolicy::OnMessageCount(3),
        ConsolidationPolicy::OnBytes(12),
    );
    assert_eq!(due(&chat, &count).why[0].because, Because::Empty);
    chat.append(Message::system("instructions count for nothing"))
        .unwrap();
    assert!(!due(&chat, &bytes).due);
    chat.append(Message::person("你好世界")).unwrap();
    assert!(due(&chat, &bytes).due, "twelve bytes");
    assert!(!due(&chat, &count).due);
    chat.append(Message::calls(vec![Part::call("c", "t", "{\"long\":1}")]))
        .unwrap();
    chat.append(Message::tool("c", "a result is no text"))
        .unwrap();
    let said = due(&chat, &bytes);
    let Because::Measured {
        reading,
        uncounted,
        threshold,
    } = &said.why[0].because
    else {
        panic!("{said:?}")
    };
    assert_eq!((reading.amount, *threshold, *uncounted), (12, 12, 2));
    assert_eq!(due(&chat, &count).why[0].policy, "messages=3");
    assert!(due(&chat, &count).due);
    let never = ConsolidationPolicy::Never;
    let all = ConsolidationPolicy::AllOf(vec![count.clone(), never.clone()]);
    let any = ConsolidationPolicy::AnyOf(vec![never, count]);
    assert!(!due(&chat, &all).due && due(&chat, &any).due);
    // Nothing was written by asking.
    assert_eq!(chat.head().unwrap().unwrap().seq, Seq(4));
}

#[test]
fn token_signals_come_together_or_not_at_all() {
    let chat = chat("");
    chat.append(Message::person("u")).unwrap();
    let policy = ConsolidationPolicy::OnTokens(500);
    assert_eq!(due(&chat, &policy).why[0].because, Because::Unmeasurable);
    let told = |used| {
        let signals = Signals::new().tokens(used, 1_000);
        chat.should_consolidate(&policy, &signals).unwrap().due
    };
    assert!(!told(499) && told(500));
}

#[derive(Debug)]
struct Oldest;

/// Written against what signals gave when there were fewer of them.
impl Consolidate for Oldest {
    fn spec(&self) -> String {
        "oldest".to_owned()
    }

    fn due(&self, signals: &Signals) -> bool {
        signals.message_count() > 1
    }
}

#[test]
fn a_policy_of_ones_own_is_asked_with_what_it_knows() {
    let chat = chat("");
    let own = ConsolidationPolicy::Custom(std::sync::Arc::new(Oldest));
    chat.append(Message::person("u")).unwrap();
    assert!(!due(&chat, &own).due);
    chat.append(Message::model("a")).unwrap();
    assert!(due(&chat, &own).due);
    assert_eq!(due(&chat, &own).why[0].policy, "oldest");
    let chat = chat.with_consolidation(&own).unwrap();
    assert_eq!(chat.consolidation().unwrap().as_deref(), Some("oldest"));
}

#[test]
fn marks_are_in_the_log_and_the_newest_counts_whatever_time_it_says() {
    let store = Store::in_memory();
    let chat = store.conversation("a").unwrap();
    chat.append(Message::person("u")).unwrap();
    let hour = 3_600_000_000;
    let policy = ConsolidationPolicy::AtMostOncePer(std::time::Duration::from_secs(3_600));
    let at = |now, signals: Signals| {
        let signals = signals.at(Micros(now));
        chat.should_consolidate(&policy, &signals).unwrap().due
    };
    assert_eq!(chat.last_consolidated().unwrap(), None);
    assert!(at(9 * hour, Signals::new()), "before any mark");
    chat.mark_consolidated(Micros(9 * hour)).unwrap();
    assert!(!at(9 * hour + 1, Signals::new()));
    assert!(at(10 * hour, Signals::new()));
    let told = Signals::new().last_consolidated(Micros(7 * hour));
    assert!(at(9 * hour, told), "for that question only");
    assert!(!at(9 * hour, Signals::new()));
    let ahead = chat.mark_consolidated(Micros(20 * hour)).unwrap();
    assert!(!at(15 * hour, Signals::new()), "a mark ahead blocks");
    let back = chat.mark_consolidated(Micros(hour)).unwrap();
    let warned = |seq| match chat.entry(seq).unwrap().body {
        Body::Noted(noted) => noted.warn,
        other => panic!("{other:?}"),
    };
    assert!(!warned(ahead.first) && warned(back.first));
    // Another process reads the same.
    let last = || chat.last_consolidated().unwrap().unwrap();
    assert_eq!((last().at, last().marked), (Some(Micros(hour)), true));
    let mut log = Vec::new();
    export(&chat, &mut log).unwrap();
    let log = String::from_utf8(log).unwrap();
    let mut lines = log.lines().map(|l| Ok(l.to_owned()));
    let (again, _) = import_lines(&Store::in_memory(), &mut lines, None).unwrap();
    assert_eq!(again.last_consolidated().unwrap(), Some(last()));
}

#[test]
fn a_second_policy_supersedes_the_first_only_by_name() {
    let chat = chat("");
    let (one, two) = (
        ConsolidationPolicy::OnMessageCount(3),
        ConsolidationPolicy::OnBytes(9),
    );
    assert_eq!(chat.consolidation().unwrap(), None);
    let chat = chat.with_consolidation(&one).unwrap();
    let head = chat.head().unwrap();
    let chat = chat.with_consolidation(&one).unwrap();
    assert_eq!(chat.head().unwrap(), head, "set again, nothing is written");
    let refused = chat.clone().with_consolidation(&two).unwrap_err();
    assert_eq!(reason(&refused), RequestReason::PolicyConflict);
    chat.supersede_consolidation(&two).unwrap();
    assert_eq!(chat.consolidation().unwrap().as_deref(), Some("bytes=9"));
    for impossible in [
        ConsolidationPolicy::OnMessageCount(0),
        ConsolidationPolicy::OnTokens(1_001),
        ConsolidationPolicy::AllOf(Vec::new()),
    ] {
        let refused = chat.supersede_consolidation(&impossible).unwrap_err();
        assert_eq!(reason(&refused), RequestReason::InvalidOption);
    }
}

#[test]
fn a_policy_that_waits_for_more_messages_than_are_kept_is_a_conflict() {
    let chat = chat("buffer:keep=4");
    let waits = |n| ConsolidationPolicy::OnMessageCount(n);
    let refused = chat.clone().with_consolidation(&waits(5)).unwrap_err();
    assert_eq!(reason(&refused), RequestReason::PolicyConflict);
    let never = ConsolidationPolicy::AllOf(vec![waits(5), ConsolidationPolicy::OnBytes(1)]);
    assert!(chat.clone().with_consolidation(&never).is_err());
    // Whichever comes first.
    let other = Store::in_memory().conversation("a").unwrap();
    let other = other.with_consolidation(&waits(5)).unwrap();
    let refused = other.with_strategies(vec![parse("buffer:keep=4").unwrap()]);
    assert_eq!(reason(&refused.unwrap_err()), RequestReason::PolicyConflict);
    let either = ConsolidationPolicy::AnyOf(vec![waits(5), waits(4)]);
    chat.with_consolidation(&either).unwrap();
}

fn reason(error: &ctxlog::Error) -> RequestReason {
    error.refusal().unwrap().reason
}
