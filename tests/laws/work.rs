//! Appending and visiting cost the change, not the log: time per message stays level while a log
//! grows to many thousand messages. Medians over many messages, compared with a wide margin, so
//! that a busy machine does not decide.

use std::time::{Duration, Instant};

use ctxlog::engine::{Options, Store};
use ctxlog::log::{Iteration, Message, Part};
use ctxlog::strategy::parse;

const ROUNDS: usize = 1_500;
const MARGIN: u32 = 6;

fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

/// Times of rounds of one conversation; the late ones against the early ones.
fn stays_level(what: &str, times: &[Duration]) {
    let tenth = times.len() / 10;
    // The first tenth fills the window.
    let (early, late) = (
        median(&times[tenth..2 * tenth]),
        median(&times[times.len() - tenth..]),
    );
    println!("{what}: {early:?} a round early, {late:?} late");
    assert!(late <= early * MARGIN, "{what}: {early:?} became {late:?}");
}

fn rounds(
    spec: &str,
    keyed: bool,
    mut round: impl FnMut(&ctxlog::engine::Conversation, usize),
) -> Vec<Duration> {
    let chat = Store::in_memory().conversation("a").unwrap();
    let chat = chat.with_strategies(vec![parse(spec).unwrap()]).unwrap();
    chat.append(Message::system("S")).unwrap();
    chat.append(Message::person("U")).unwrap();
    (0..ROUNDS)
        .map(|n| {
            let start = Instant::now();
            round(&chat, n);
            let key = keyed.then(|| format!("call {n}"));
            chat.call_with(
                &Options {
                    key,
                    ..Options::default()
                },
                None,
            )
            .unwrap();
            start.elapsed()
        })
        .collect()
}

#[test]
fn a_long_tool_loop_costs_the_same_per_call_to_its_end() {
    for spec in [
        "sliding-window:keep=100",
        "head-tail:window=200",
        "token-budget:limit=2000,measure=estimate",
    ] {
        let times = rounds(spec, true, |chat, _| {
            chat.append(Message::calls(vec![Part::call("c", "t", "{}")]))
                .unwrap();
            chat.append(Message::tool("c", "out")).unwrap();
        });
        stays_level(spec, &times);
    }
}

#[test]
fn turns_with_a_question_each_cost_the_same_to_the_last() {
    let times = rounds("sliding-window:keep=20,unit=request", false, |chat, _| {
        chat.append(Message::model("answer")).unwrap();
        chat.append(Message::person("ask")).unwrap();
    });
    stays_level("requests", &times);
}

#[test]
fn explaining_costs_the_message_and_not_the_log() {
    let chat = Store::in_memory().conversation("a").unwrap();
    let chat = chat
        .with_strategies(vec![parse("sliding-window:keep=20").unwrap()])
        .unwrap();
    let mut times = Vec::new();
    for n in 0..ROUNDS {
        let id = chat.append(Message::model("say")).unwrap().message();
        chat.call().unwrap();
        let at = chat.head().unwrap().unwrap().seq;
        let start = Instant::now();
        let answer = ctxlog::audit::why(&chat, id, at).unwrap();
        times.push(start.elapsed());
        assert_eq!(
            answer.seen_by.first_iteration,
            Some(Iteration(n as u64 + 1))
        );
    }
    stays_level("why", &times);
}
