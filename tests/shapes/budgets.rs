//! Loops, budgets, counting.

use ctxlog::engine::{Conversation, Store};
use ctxlog::formats::{Profile, Transcript};
use ctxlog::log::{
    Author, BlockBody, Json, Media, Message, Part, PartBody, Reading, Role, Usage, VisitOutcome,
    Visited,
};
use ctxlog::strategy::TokenBudget;
use ctxlog::window::{Measure, NoReading};

use crate::support::{PROFILES, calls, entries, imported, outcomes, sends, sound, steps, view};
use crate::talk::{chain, chat, talk, there, visits};

fn tokens(chat: &Conversation, measure: Measure) -> u64 {
    let tokens = chat.with_projection(|p| p.tokens(measure)).unwrap();
    tokens.unwrap().total
}

fn used(input: u64) -> Usage {
    Usage {
        input: Some(input),
        ..Usage::default()
    }
}

/// B55. Usage from before a compaction fired the next one.
#[test]
fn a_reading_of_another_window_never_triggers() {
    let chat = chat("token-budget:limit=100,keep=0,measure=reported");
    let ids = talk(&chat, "A A");
    let first = chat.call().unwrap();
    let outcome = visits(&chat, &first)[0].outcome;
    assert_eq!(outcome, VisitOutcome::Unmeasurable);
    chat.returned(first.id, Some(used(0))).unwrap();
    let second = chat.call().unwrap();
    assert!(second.visits.is_empty(), "said once");
    chat.returned(second.id, Some(used(500))).unwrap();
    let third = chat.call().unwrap();
    assert_eq!(visits(&chat, &third)[0].before.amount, 500);
    assert_eq!(there(&chat, &ids), [0_usize; 0]);
    let fourth = chat.call().unwrap();
    let outcome = visits(&chat, &fourth)[0].outcome;
    assert_eq!(outcome, VisitOutcome::StaleMeasurement);

    // Nor when the window has grown past the length of the one that was measured.
    for _ in 0..5 {
        talk(&chat, "A");
        assert!(chat.call().unwrap().visits.is_empty(), "said once");
        let reading = chat.with_projection(|p| p.tokens(Measure::Reported));
        assert_eq!(reading.unwrap(), Err(NoReading::Stale));
    }

    // Where a fallback is named it counts what is there now, and cuts nothing more.
    let chat = self::chat("token-budget:limit=100,low=0.5,keep=1,measure=auto");
    talk(&chat, "A A A A");
    let first = chat.call().unwrap();
    assert!(first.visits.is_empty());
    chat.returned(first.id, Some(used(90))).unwrap();
    chat.append(Message::model("word ".repeat(30))).unwrap();
    let cut = chat.call().unwrap();
    assert!(visits(&chat, &cut)[0].before.amount > 100);
    let view = view(&chat);
    for _ in 0..5 {
        let call = chat.call().unwrap();
        assert!(call.visits.is_empty(), "{:?}", visits(&chat, &call));
    }
    assert_eq!(self::view(&chat), view);
    sound(&chat);
}

/// B56. One turn that had to stay was over the limit alone, and every turn compacted again.
#[test]
fn a_visit_that_frees_nothing_is_filed_once_and_stands_down() {
    for spec in [
        "token-budget:limit=50,keep=1,measure=estimate",
        "token-budget:limit=50,keep=3,measure=tiktoken",
        "token-budget:limit=50,keep=0,measure=auto",
    ] {
        let chat = chat(spec);
        let long = chat.append(Message::person("word ".repeat(200))).unwrap();
        let first = chat.call().unwrap();
        let visit = &visits(&chat, &first)[0];
        assert_eq!(visit.outcome, VisitOutcome::Short, "{spec}");
        for _ in 0..20 {
            assert!(chat.call().unwrap().visits.is_empty(), "{spec}");
        }
        // Something that may leave: it is asked again, and leaves.
        talk(&chat, "A A A A A");
        let again = chat.call().unwrap();
        assert_eq!(again.visits.len(), 1, "{spec}");
        assert!(!visits(&chat, &again)[0].change.left.is_empty());
        assert!(view(&chat).contains(&long.message()));
        for _ in 0..20 {
            let call = chat.call().unwrap();
            let freed = visits(&chat, &call)
                .iter()
                .any(|v| !v.change.left.is_empty());
            assert!(!freed, "{spec}");
        }
        assert!(outcomes(&chat).len() <= 3, "{spec}: {:?}", outcomes(&chat));
        sound(&chat);
    }
}

/// B58. The tools and the system prompt were not counted, and the request overflowed.
#[test]
fn the_fixed_overhead_of_a_request_counts() {
    for measure in ["estimate", "tiktoken", "auto"] {
        let chat = chat(&format!("token-budget:limit=100,keep=0,measure={measure}"));
        let ids = talk(&chat, "A");
        assert!(chat.call().unwrap().visits.is_empty());
        let tools = format!("{{\"tools\":\"{}\"}}", "a tool ".repeat(200));
        chat.set_request("openai-chat", None, &Json(tools)).unwrap();
        let call = chat.call().unwrap();
        let visit = &visits(&chat, &call)[0];
        assert_eq!(visit.outcome, VisitOutcome::Short, "{measure}");
        let missing = visit.shortfall.unwrap();
        assert!(visit.before.amount > 200 && missing > 100, "{visit:?}");
        assert_eq!(there(&chat, &ids), [0_usize; 0]);
        sound(&chat);
    }
}

/// B60. Nothing was triggered when a large session was loaded, nor within a long loop of tools.
#[test]
fn a_loaded_session_and_every_round_of_a_loop_are_measured() {
    // 95 % full, and nobody reported usage yet.
    let session = Transcript {
        format: "claude-code",
        id: None,
        steps: steps(&"U A ".repeat(200)),
        ..Transcript::default()
    };
    for measure in ["auto", "estimate", "tiktoken"] {
        let store = Store::in_memory();
        let spec = format!("token-budget:limit=100,keep=2,measure={measure}");
        store
            .import("a", &session, chain(&spec), &mut |_| {})
            .unwrap();
        let chat = store.existing("a").unwrap();
        let call = chat.call().unwrap();
        let visit = &visits(&chat, &call)[0];
        assert!(visit.before.amount >= 400 && visit.after.amount <= 80);
        assert!(visit.before.method.contains(':'), "a count says how");
        sound(&chat);
    }
    let chat = chat("token-budget:limit=100,keep=2,measure=estimate");
    talk(&chat, "U");
    for _ in 0..40 {
        talk(&chat, "Aa");
        chat.append(Message::tool("a", &"x".repeat(100))).unwrap();
        chat.call().unwrap();
        assert!(tokens(&chat, Measure::Estimate) <= 100, "at every round");
    }
    sound(&chat);
}

/// B61. A quarter of the characters undercounts other scripts, and what was kept was three times
/// the target.
#[test]
fn what_triggers_and_what_cuts_count_the_same_way_in_every_script() {
    let scripts = [
        "\u{6f22}\u{5b57}\u{306f}\u{4e2d}\u{56fd}",
        "\u{304b}\u{306a}\u{30ab}\u{30ca}",
        "\u{d55c}\u{ad6d}\u{c5b4}",
        "\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}",
        "\u{1f600}\u{1f468}\u{200d}\u{1f469}",
        "\u{10348}\u{20000}",
        "plain words ",
    ];
    for measure in [Measure::Auto, Measure::Tiktoken, Measure::Estimate] {
        for script in scripts {
            let store = Store::in_memory();
            let budget = TokenBudget::new(400).keep(1).measure(measure);
            let chat = store.conversation("a").unwrap();
            let chat = chat.with_strategy(budget).unwrap();
            let text = script.repeat(20);
            for _ in 0..40 {
                chat.append(Message::model(text.clone())).unwrap();
            }
            let before = tokens(&chat, measure);
            let call = chat.call().unwrap();
            for visit in visits(&chat, &call) {
                assert_eq!(visit.before.amount, before);
                assert_eq!(visit.after.method, visit.before.method);
                assert_eq!(visit.after.amount, tokens(&chat, measure), "{script}");
                let met = visit.after.amount <= visit.target;
                assert!(met || view(&chat).len() == 1, "{visit:?}");
                assert_eq!(told_by(&visit.before), measure != Measure::Estimate);
            }
            // Counted, what is kept is what was aimed at, whatever the guess would have been.
            if measure != Measure::Estimate {
                let kept = view(&chat).len() as u64;
                let each = ctxlog::tokens::Encoding::O200kBase
                    .count(&text)
                    .unwrap()
                    .amount;
                assert_eq!(kept * each, tokens(&chat, measure));
                assert!(kept * each <= 400, "{script}");
            }
            sound(&chat);
        }
    }
}

/// Whether tokens were counted rather than guessed.
fn told_by(reading: &Reading) -> bool {
    reading.method.contains("tiktoken:")
}

/// B63. Pictures were spelled out to whoever counted or summarised: two million tokens.
#[test]
fn media_are_named_and_never_spelled_out_to_counters() {
    let data = "iVBORw0KGgo".repeat(20_000);
    let image = Json(format!(
        r#"{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{data}"}}}}"#
    ));
    let part = Part {
        body: PartBody::Block(BlockBody::Media(Media::Image, image)),
        extra: Vec::new(),
    };
    let picture = Message::new(Role::User, Author::Person, vec![Part::text("look"), part]);
    assert!(picture.words().len() < 100, "{}", picture.words().len());
    for measure in ["estimate", "tiktoken", "auto"] {
        let chat = chat(&format!("token-budget:limit=1000,keep=0,measure={measure}"));
        for _ in 0..20 {
            chat.append(picture.clone()).unwrap();
            talk(&chat, "A");
        }
        let call = chat.call().unwrap();
        assert!(call.visits.is_empty(), "{:?}", visits(&chat, &call));
        // The provider sees them, whole.
        let (messages, _) = sends(&chat, Profile::Anthropic);
        let body = serde_json::Value::from(messages).to_string();
        assert_eq!(body.matches(&data).count(), 20);
        // What they really cost is known once it is reported.
        chat.returned(call.id, Some(used(30_000))).unwrap();
        let next = chat.call().unwrap();
        assert_eq!(next.visits.len(), usize::from(measure == "auto"));
        sound(&chat);
    }
}

/// B68. Each failed try put its error's text into the next request.
#[test]
fn failed_calls_are_logged_outside_of_the_window() {
    for said in ["U", "S U A U", "U Aa Ra", "U Aa"] {
        let chat = chat("sliding-window:keep=2");
        talk(&chat, said);
        chat.call().unwrap();
        let (view, digest) = (view(&chat), chat.window().unwrap().digest);
        for _ in 0..30 {
            let call = chat.call().unwrap();
            assert_eq!(call.window.digest, digest, "every try is sent the same");
            let why = "prompt is too long: 1000001 tokens";
            chat.report(call.id, None, Some(why), None).unwrap();
        }
        assert_eq!(self::view(&chat), view);
        for &profile in PROFILES {
            let body = serde_json::Value::from(sends(&chat, profile).0).to_string();
            assert!(!body.contains("too long"));
        }
        // A failed call ends no run: what a person says now is steering.
        let run = chat.with_projection(|p| p.run()).unwrap();
        talk(&chat, "U");
        assert_eq!(chat.with_projection(|p| p.run()).unwrap(), run);
        let failed = entries(&chat)
            .into_iter()
            .filter(|e| matches!(&e.body, ctxlog::log::Body::Returned(r) if r.failed));
        assert_eq!(failed.count(), 30);
        sound(&chat);
    }
}

/// B108. The cut moved at every turn, so that the provider's cache never served.
#[test]
fn a_budget_cuts_down_to_its_low_water_mark_and_then_rests() {
    let chat = chat("token-budget:limit=100,low=0.5,keep=1,measure=estimate");
    let mut visited: Vec<Visited> = Vec::new();
    let mut before = Vec::new();
    for _ in 0..40 {
        chat.append(Message::model("x".repeat(40))).unwrap();
        let call = chat.call().unwrap();
        let cut = visits(&chat, &call);
        let now = view(&chat);
        assert_eq!(now.starts_with(&before), cut.is_empty(), "a stable prefix");
        for visit in &cut {
            assert!(visit.after.amount <= 50 && visit.outcome == VisitOutcome::Done);
            let first = before.first().map(|id: &ctxlog::MessageId| id.seq());
            assert_eq!(visit.first_changed, first, "where the cache ends");
        }
        visited.extend(cut);
        before = now;
    }
    let count = visited.len();
    assert!((4..=6).contains(&count), "{count} visits for 40 messages");
    // A source's calls, replayed, are no different.
    let mut all = Vec::new();
    for _ in 0..40 {
        all.extend(steps("U A"));
        all.push(calls());
    }
    sound(&imported(all));
    sound(&chat);
}
