//! Appending and visiting cost the change, not the log nor the window: what a look of a strategy
//! asks is counted in the shapes that are worst for it; and processor time per message stays level
//! while a log grows to many thousand messages, by medians with a wide margin, so that what else the
//! machine does decides nothing.

use std::time::Duration;

use ctxlog::engine::{Conversation, Options, Store};
use ctxlog::log::{Iteration, Message, OpenCalls, Part};
use ctxlog::strategy::{Frame, Plan, Strategy, parse};
use ctxlog::window::{Projection, decide};

const ROUNDS: usize = 1_500;
const MARGIN: u32 = 6;

/// The processor time of this thread so far: waiting for a processor is not in it.
fn spent() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap(),
        u32::try_from(time.tv_nsec).unwrap(),
    )
}

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

fn rounds(spec: &str, keyed: bool, mut round: impl FnMut(&Conversation, usize)) -> Vec<Duration> {
    let chat = Store::in_memory().conversation("a").unwrap();
    let chat = chat.with_strategies(vec![parse(spec).unwrap()]).unwrap();
    chat.append(Message::system("S")).unwrap();
    chat.append(Message::person("U")).unwrap();
    (0..ROUNDS)
        .map(|n| {
            let start = spent();
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
            spent().saturating_sub(start)
        })
        .collect()
}

#[test]
fn a_long_tool_loop_costs_the_same_per_call_to_its_end() {
    for spec in [
        "sliding-window:keep=100",
        "sliding-window:keep=100,pin-results=2,notice=auto",
        "buffer:keep=200",
        "expire:after=100",
        "clear-tool-results:age=5,keep=3",
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

/// Each summary is made of the one before: what that stands for in the end is the whole log.
#[test]
fn summaries_of_summaries_cost_the_same_to_the_last() {
    let summary = || Ok(ctxlog::engine::Summary::new("short"));
    let spec = "summarize-oldest:limit=300,keep=1,measure=estimate";
    let times = rounds(spec, false, |chat, _| {
        for _ in 0..8 {
            chat.append(Message::model("a longer answer ".repeat(20)))
                .unwrap();
        }
        let plan = chat.plan_consolidation().unwrap().unwrap();
        chat.commit_consolidation(&plan, summary()).unwrap();
    });
    stays_level(spec, &times);
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
        let start = spent();
        let answer = ctxlog::audit::why(&chat, id, at).unwrap();
        times.push(spent().saturating_sub(start));
        assert_eq!(
            answer.seen_by.first_iteration,
            Some(Iteration(n as u64 + 1))
        );
    }
    stays_level("why", &times);
}

/// How many groups and messages a look of this strategy asks now.
fn asked(p: &Projection, strategy: &dyn Strategy) -> usize {
    let frame = Frame::new(p, strategy.measure());
    let (decision, made) = match strategy.plan(&frame) {
        Plan::Due { cut, .. } | Plan::Consolidate { cut, .. } => {
            let decision = decide(p, &cut, frame.tokens().ok(), &|| frame.groups());
            (decision, 0)
        }
        Plan::Shrink { shrink, .. } => {
            let smaller = p.smaller(&shrink.wanted);
            (smaller.decision, smaller.messages.len())
        }
        Plan::NotDue | Plan::Unmeasurable(_) => return 0,
    };
    let index = p.strategy_named(&strategy.spec());
    let fruitless = index
        .and_then(|s| p.newest_visit(s))
        .is_some_and(|v| !v.freed);
    if fruitless && !decision.frees() && made == 0 {
        return decision.looked(); // it stands down
    }
    let before = index.and_then(|s| p.visit_of(s, p.visits_of(s).checked_sub(1)?));
    let verdicts = p.verdicts(&decision, index, before.map(|v| v.fact.seq));
    decision.looked() + made + verdicts.len()
}

/// A conversation that only its own shape makes hard: what is said in each round, and how many
/// rounds come before any is counted.
struct Shape {
    name: &'static str,
    before: usize,
    round: fn(&Conversation, usize),
}

fn say(chat: &Conversation, message: Message) {
    chat.append(message).unwrap();
}

fn call(chat: &Conversation) {
    say(chat, Message::calls(vec![Part::call("c", "t", "{}")]));
}

const SHAPES: &[Shape] = &[
    Shape {
        name: "nothing holds anything",
        before: 600,
        round: |chat, _| say(chat, Message::model("say")),
    },
    Shape {
        name: "open calls of one id",
        before: 600,
        round: |chat, _| call(chat),
    },
    Shape {
        name: "one request that goes on",
        before: 600,
        round: |chat, _| say(chat, Message::person("and")),
    },
    Shape {
        name: "open calls between the person's messages, and what may go between both",
        before: 600,
        round: |chat, n| match n % 3 {
            0 => call(chat),
            1 => say(chat, Message::person("and")),
            _ => say(chat, Message::model("say")),
        },
    },
    Shape {
        name: "one call with many results",
        before: 600,
        round: |chat, n| {
            if n == 0 {
                let calls = (0..2_000).map(|_| Part::call("c", "t", "{}")).collect();
                say(chat, Message::calls(calls));
            } else {
                say(chat, Message::tool("c", "out"));
            }
        },
    },
    Shape {
        name: "large outputs of one tool, some of them held",
        before: 600,
        round: |chat, n| {
            call(chat);
            let out = Message::tool("c", &"out ".repeat(90 + n % 7));
            if n == 100 {
                let id = chat.append(out).unwrap().message();
                chat.pin(id).unwrap();
            } else {
                say(chat, out);
            }
        },
    },
    Shape {
        name: "a long envelope",
        before: 1_000,
        round: |chat, n| {
            let system = n < 600;
            let message = if system {
                Message::system("S")
            } else {
                Message::model("say")
            };
            say(chat, message);
        },
    },
];

#[test]
fn a_look_asks_what_changed_in_every_worst_shape() {
    for spec in [
        "sliding-window:keep=2",
        "sliding-window:keep=300",
        "sliding-window:keep=40,unit=message",
        "sliding-window:keep=40,unit=request",
        "head-tail:window=20,head=1",
        "token-budget:limit=200,keep=3,measure=estimate",
        "buffer:keep=40",
        "sliding-window:keep=2,pin-results=2,notice=auto",
        "token-budget:limit=200,keep=3,measure=estimate,pin-results=2,notice=auto",
        "expire:after=30,unit=entry",
        "expire:after=30,unit=call,pin-results=2",
        "clear-tool-results:age=3,keep=3",
        "truncate-outputs:max=300",
    ] {
        let strategy = parse(spec).unwrap();
        for shape in SHAPES {
            let chat = Store::in_memory().conversation("a").unwrap();
            let chat = chat.with_open_calls(OpenCalls::Keep).unwrap();
            let chat = chat.with_strategies(vec![strategy.clone()]).unwrap();
            let mut work = 0;
            let rounds = 200;
            for n in 0..shape.before + rounds {
                (shape.round)(&chat, n);
                if n >= shape.before {
                    let of = |p: &Projection| asked(p, strategy.as_ref());
                    work += chat.with_projection(of).unwrap();
                }
                chat.visit().unwrap();
            }
            assert!(
                work <= 8 * rounds,
                "{}, {spec}: {work} asked in {rounds} rounds",
                shape.name
            );
        }
    }
}
