//! Wide windows: what a random call was sent, with its words, and why a random message is where it
//! is, where a window holds about two thousand messages.

use std::hint::black_box;

use ctxlog::engine::Conversation;
use ctxlog::log::{Iteration, MessageId};
use ctxlog::store::Level;

use crate::compare::alone;
use crate::content::Kind;
use crate::ours;
use crate::setup::Setup;
use crate::stats::{Draw, float, median_ms, timed};
use crate::table::{Goal, Table, Unit, number};

/// How many groups the strategy keeps, and how many messages there are at most.
const KEEP: u64 = 1_500;
const MESSAGES: u64 = 8_000;
/// As many are made at a time; whole rounds of the traffic.
const CHUNK: u64 = 1_000;

pub fn run(setup: &Setup, table: &mut Table) {
    let dir = setup.dir();
    let path = dir.path().join("ours");
    let messages = setup.sizes.length.min(MESSAGES);
    let (ids, calls) = {
        let store = ours::open(&path, Level::Buffered);
        let chat = ours::keeping(&store, "wide", KEEP);
        let (mut ids, mut calls) = (Vec::new(), 0);
        for from in (0..messages).step_by(usize::try_from(CHUNK).expect("it is small")) {
            setup.step("messages of a wide window", from, messages);
            let said = setup.source.stretch(Kind::Text, 0, from, CHUNK);
            let (more, called) = ours::converse(&chat, said);
            ids.extend(more);
            calls += called;
        }
        ours::sync(&store);
        (ids, calls)
    };
    let store = ours::open(&path, Level::Synced);
    let chat = store.existing("wide").expect("a conversation");
    let newest = chat.window_at(Iteration(calls)).expect("a window");
    let length = u64::try_from(newest.items.len()).expect("a length");
    let mut draw = Draw::new(5);
    let mut row = |what: &str, most: f64, ask: &dyn Fn(&mut Draw)| {
        let round = |_| {
            let times: Vec<_> = (0..setup.sizes.questions)
                .map(|_| timed(|| ask(&mut draw)).0)
                .collect();
            median_ms(&times)
        };
        let medians: Vec<f64> = (0..setup.sizes.rounds).map(round).collect();
        let measure = format!("{what}, windows of {} messages, warm", number(length));
        table
            .rows
            .push(alone(&measure, Unit::Millis, Goal::AtMost(most), &medians));
    };
    row(
        "content of a wide window",
        1.0 + 0.003 * float(length),
        &|draw| {
            load(&chat, Iteration(1 + calls / 2 + draw.below(calls / 2)));
        },
    );
    row("why of a message", 1.0, &|draw| {
        why(&chat, *draw.pick(&ids));
    });
}

fn load(chat: &Conversation, call: Iteration) {
    let filed = chat.call_at(call).expect("a call");
    black_box(chat.load_after(filed).expect("words of a window"));
}

fn why(chat: &Conversation, message: MessageId) {
    black_box(chat.why(message).expect("an answer"));
}
