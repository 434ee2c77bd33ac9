//! Forks at random places of a long conversation, and what looks back or sideways there: against the
//! same in short conversations of a store of equal size, and against the window at such a place.

use std::hint::black_box;
use std::time::Duration;

use ctxlog::audit::{Place, blame, context, diff, window};
use ctxlog::engine::{Conversation, Store};
use ctxlog::log::Iteration;
use ctxlog::store::Level;

use crate::compare::{alone, beside};
use crate::ours;
use crate::setup::Setup;
use crate::stats::{Draw, median_ms, timed};
use crate::table::{Goal, Table, Unit, number};

use super::long::{Pair, Question};
use super::window::{Ask, warm_each};

/// How many forks are asked about in each store.
const FORKS: u64 = 20;
/// How many calls lie between the two windows that are compared.
const APART: u64 = 10;

/// The questions; the first is the one that the others are held against.
const QUESTIONS: [(&str, Ask); 5] = [
    ("window", show_window),
    ("context", ask_context),
    ("window --long", ask_blame),
    ("diff", ask_diff),
    ("why", ask_why),
];

pub fn run(setup: &Setup, table: &mut Table) {
    let pair = setup.pair();
    let entries = number(setup.sizes.long_entries);
    let short = number(setup.sizes.short_entries);
    let peer = format!("{short}-entry conversations, store of equal size");
    let flat = Goal::RatioAtMost(1.5);
    let mut row = |measure: &str, goal, ours: &[f64], peer: &str, theirs| {
        let row = alone(measure, Unit::Millis, goal, ours);
        table.rows.push(beside(row, ours, peer, Ok(theirs)));
    };
    let (ours, theirs) = forking(setup, pair);
    let measure = format!("fork at a random call of {entries} entries, not synced");
    row(&measure, flat, &ours, &peer, theirs);
    let forks = pair.forked(FORKS);
    let mut windows: Option<Vec<f64>> = None;
    let asked = warm_each(setup, &forks, QUESTIONS.map(|(_, ask)| ask));
    for ((name, _), (ours, theirs)) in QUESTIONS.into_iter().zip(asked) {
        let measure = format!("{name} in a fork of {entries} entries");
        row(&measure, flat, &ours, &peer, theirs);
        match &windows {
            None => windows = Some(ours),
            Some(there) => row(
                &measure,
                Goal::None,
                &ours,
                "the window there",
                there.clone(),
            ),
        }
    }
}

/// Medians of rounds of forks.
fn forking(setup: &Setup, pair: &Pair) -> (Vec<f64>, Vec<f64>) {
    let mut draw = Draw::new(4);
    let stores = [&pair.one, &pair.many].map(|long| (long, ours::open(&long.dir, Level::Buffered)));
    let [mut ours, mut theirs] = [Vec::new(), Vec::new()];
    for round in 0..setup.sizes.rounds {
        setup.round("forks", round, setup.sizes.rounds);
        for ((long, store), medians) in stores.iter().zip([&mut ours, &mut theirs]) {
            let mut fork = |n: u64| {
                let question = long.question(&mut draw);
                let name = format!("round {round} fork {n}");
                timed(|| black_box(ours::fork(store, question.chat, question.call, &name))).0
            };
            let times: Vec<Duration> = (0..setup.sizes.questions).map(&mut fork).collect();
            medians.push(median_ms(&times));
        }
    }
    (ours, theirs)
}

fn chat(store: &Store, question: Question<'_>) -> Conversation {
    store.existing(question.chat).expect("a conversation")
}

fn place(chat: &Conversation, call: Iteration) -> Place {
    Place {
        seq: chat.call_at(call).expect("a call"),
        call: Some(call),
    }
}

fn show_window(store: &Store, question: Question<'_>) {
    let chat = chat(store, question);
    black_box(window(&chat, place(&chat, question.call)).expect("a window"));
}

fn ask_context(store: &Store, question: Question<'_>) {
    black_box(context(&chat(store, question), question.message, false).expect("an answer"));
}

fn ask_blame(store: &Store, question: Question<'_>) {
    let chat = chat(store, question);
    let shown = window(&chat, place(&chat, question.call)).expect("a window");
    black_box(blame(&chat, &shown).expect("an answer"));
}

fn ask_diff(store: &Store, question: Question<'_>) {
    let chat = chat(store, question);
    let earlier = Iteration(question.call.0.saturating_sub(APART).max(1));
    let (from, to) = (place(&chat, earlier), place(&chat, question.call));
    black_box(diff((&chat, from), (&chat, to), false).expect("an answer"));
}

fn ask_why(store: &Store, question: Question<'_>) {
    black_box(
        chat(store, question)
            .why(question.message)
            .expect("an answer"),
    );
}
