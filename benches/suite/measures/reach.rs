//! What agents do with a history: look at what a call saw a while ago, and decide what to send.

use std::hint::black_box;

use ctxlog::engine::Conversation;
use ctxlog::log::Iteration;
use ctxlog::store::Level;

use crate::compare::{Comparison, Peer};
use crate::content::Kind;
use crate::ours;
use crate::setup::Setup;
use crate::stats::{median_ms, timed};
use crate::table::{Goal, Table, Unit, number};

pub fn run(setup: &Setup, table: &mut Table) {
    let dir = setup.dir();
    let path = dir.path().join("ours");
    let count = setup.sizes.synced;
    let calls = {
        let store = ours::open(&path, Level::Buffered);
        let chat = ours::with_strategy(&store, "history");
        let said = setup.source.stretch(Kind::Text, 0, 0, count);
        let (_, calls) = ours::converse(&chat, said);
        ours::sync(&store);
        calls
    };
    let comparison = Comparison {
        measure: &format!("reach a quarter back, {} messages", number(count)),
        unit: Unit::Millis,
        rounds: setup.sizes.rounds,
    };
    let peers = ["session", "saver"].map(|work| {
        let figure = move |round| setup.python.figure(work, "reach_ms", round);
        Peer::that_may_fail(&setup.python.name(work), Goal::None, figure)
    });
    let reach = |_| {
        let store = ours::open(&path, Level::Synced);
        let reach = || {
            let chat = store.existing("history").expect("a conversation");
            let window = chat
                .window_at(Iteration(1 + calls * 3 / 4))
                .expect("a window");
            black_box(chat.load(window).expect("words of a window"));
        };
        median_ms(&[timed(reach).0])
    };
    comparison.run(setup, table, reach, Vec::from(peers));
    visit(setup, table);
}

/// The history that both are given to look at, in messages.
pub const HISTORY: u64 = 1_000;

fn visit(setup: &Setup, table: &mut Table) {
    let dir = setup.dir();
    let store = ours::open(&dir.path().join("ours"), Level::Buffered);
    let chat = ours::with_strategy(&store, "history");
    ours::converse(&chat, setup.source.stretch(Kind::Text, 0, 0, HISTORY));
    let comparison = Comparison {
        measure: &format!("a visit at {} messages", number(HISTORY)),
        unit: Unit::Micros,
        rounds: setup.sizes.rounds,
    };
    let figure = |round| setup.python.figure("trim", "us", round);
    let peers = vec![Peer::that_may_fail(
        &setup.python.name("trim"),
        Goal::None,
        figure,
    )];
    let ours = |round| visits(setup, &chat, round);
    comparison.run(setup, table, ours, peers);
}

/// The median visit, in microseconds, each after one more message.
fn visits(setup: &Setup, chat: &Conversation, round: u64) -> f64 {
    let count = setup.sizes.questions.next_multiple_of(20);
    let said = setup
        .source
        .stretch(Kind::Text, 0, HISTORY + round * count, count);
    let mut times = Vec::new();
    for one in said {
        chat.append(one.message).expect("an append");
        times.push(timed(|| ours::visit(chat)).0);
    }
    median_ms(&times) * 1e3
}
