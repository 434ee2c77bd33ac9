//! Append and visit in a long conversation against a short one, ctxlog with itself.

use ctxlog::engine::Conversation;
use ctxlog::store::Level;

use crate::compare::{Comparison, Peer};
use crate::content::{Kind, Said};
use crate::ours;
use crate::setup::Setup;
use crate::stats::{rate, timed};
use crate::table::{Goal, Table, Unit, number};

/// The short conversation, in messages.
const SHORT: u64 = 1_000;
/// How many messages are made at a time; a million at once would fill the memory.
const CHUNK: u64 = 1_000;

/// What ctxlog may keep in memory, in MiB: all that it knows of the long conversation. Within less
/// it is given up when another is used, and read again: see docs/PERFORMANCE.md.
const BUDGET: usize = 4096;

/// What the windows are kept to: so many groups, and a steady budget.
const STRATEGIES: [&str; 2] = ["sliding-window:keep=20", "token-budget:limit=8000,keep=6"];

pub fn run(setup: &Setup, table: &mut Table) {
    for spec in STRATEGIES {
        run_with(spec, setup, table);
    }
}

fn run_with(spec: &str, setup: &Setup, table: &mut Table) {
    let (dir, stretch) = (setup.dir(), setup.sizes.stretch);
    let store = ours::open_within(&dir.path().join("ours"), BUDGET).with_level(Level::Buffered);
    let length = setup.sizes.length;
    let conversation =
        |name: &str, length| conversation(setup, ours::under(&store, name, spec), length);
    let long = conversation("long", length);
    // Both append the same words: texts differ in length, and so in what they cost.
    let speed = |chat: &Conversation, round: u64| {
        let from = length + round * stretch;
        let said = setup.source.stretch(Kind::Text, 0, from, stretch);
        let (took, ()) = timed(|| {
            append(chat, said);
            ours::sync(&store);
        });
        rate(stretch, took)
    };
    let comparison = Comparison {
        measure: &format!(
            "append and visit at {} messages, buffered, {spec}",
            number(length)
        ),
        unit: Unit::PerSecond,
        // A round takes some 10 ms, so there are many.
        rounds: setup.sizes.synced_rounds,
    };
    let short = |round: u64| {
        let chat = conversation(&format!("short {round}"), SHORT);
        speed(&chat, round)
    };
    let name = format!("the same at {}", number(SHORT));
    let peers = vec![Peer::new(&name, Goal::RatioAtLeast(0.8), short)];
    let ours = |round: u64| speed(&long, round);
    comparison.run(setup, table, ours, peers);
}

fn append(chat: &Conversation, said: Vec<Said>) {
    for one in said {
        chat.append(one.message).expect("an append");
        ours::visit(chat);
    }
}

fn conversation(setup: &Setup, chat: Conversation, length: u64) -> Conversation {
    let mut from = 0;
    while from < length {
        let count = CHUNK.min(length - from);
        append(&chat, setup.source.stretch(Kind::Text, 0, from, count));
        from += count;
        setup.step("appended to the conversation", from, length);
    }
    ours::sync(chat.store());
    chat
}
