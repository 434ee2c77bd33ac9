//! Windows of random calls of a long conversation, and why random messages of it are where they
//! are: against the same in short conversations of a store of equal size.

use std::hint::black_box;
use std::time::Duration;

use ctxlog::engine::Store;
use ctxlog::store::Level;

use crate::compare::{alone, beside};
use crate::disk;
use crate::ours;
use crate::setup::Setup;
use crate::stats::{Draw, Spread, float, median_ms, timed};
use crate::table::{Goal, Table, Unit, number};

use super::long::{Long, Pair, Question};

/// The goals of one kind of question.
struct Goals {
    /// The most it may take, in milliseconds.
    most: f64,
    /// How many times as long as in a short conversation.
    flat: Goal,
}

pub fn run_windows(setup: &Setup, table: &mut Table) {
    let window = window_length(setup);
    let list = Goals {
        most: 2.0,
        flat: Goal::RatioAtMost(1.5),
    };
    let content = Goals {
        most: 1.0 + 0.003 * window,
        flat: Goal::RatioAtMost(1.5),
    };
    measure(setup, table, "list of a random window", &list, list_window);
    let name = format!("content of a random window of about {window}");
    measure(setup, table, &name, &content, load_window);
}

pub fn run_why(setup: &Setup, table: &mut Table) {
    let goals = Goals {
        most: 1.0,
        flat: Goal::None,
    };
    measure(setup, table, "why of a random message", &goals, ask_why);
}

fn list_window(store: &Store, question: Question<'_>) {
    let chat = store.existing(question.chat).expect("a conversation");
    black_box(chat.window_at(question.call).expect("a window"));
}

fn load_window(store: &Store, question: Question<'_>) {
    let chat = store.existing(question.chat).expect("a conversation");
    let window = chat.window_at(question.call).expect("a window");
    black_box(chat.load(window).expect("words of a window"));
}

fn ask_why(store: &Store, question: Question<'_>) {
    let chat = store.existing(question.chat).expect("a conversation");
    black_box(chat.why(question.message).expect("an answer"));
}

/// The median length of the windows that are asked for.
fn window_length(setup: &Setup) -> f64 {
    let one = &setup.pair().one;
    let store = ours::open(&one.dir, Level::Synced);
    let mut draw = Draw::new(7);
    let length = |_| {
        let question = one.question(&mut draw);
        let chat = store.existing(question.chat).expect("a conversation");
        let window = chat.window_at(question.call).expect("a window");
        float(u64::try_from(window.items.len()).expect("a length"))
    };
    let lengths: Vec<f64> = (0..setup.sizes.questions).map(length).collect();
    Spread::of(&lengths).median.round()
}

pub(super) type Ask = fn(&Store, Question<'_>);

fn measure(setup: &Setup, table: &mut Table, what: &str, goals: &Goals, ask: Ask) {
    let entries = number(setup.sizes.long_entries);
    let short = number(setup.sizes.short_entries);
    let pair = setup.pair();
    let both = [
        ("warm", warm(setup, pair, ask)),
        ("cold", cold(setup, pair, ask)),
    ];
    for (how, (ours, theirs)) in both {
        let measure = format!("{what}, {entries} entries, {how}");
        let goal = Goal::AtMost(goals.most);
        table.rows.push(alone(&measure, Unit::Millis, goal, &ours));
        let peer = format!("{short}-entry conversations, store of equal size");
        let row = alone(&measure, Unit::Millis, goals.flat, &ours);
        table.rows.push(beside(row, &ours, &peer, Ok(theirs)));
    }
}

/// Medians of rounds of questions to open stores whose conversations were all asked before.
pub(super) fn warm(setup: &Setup, pair: &Pair, ask: Ask) -> Medians {
    let [medians] = warm_each(setup, pair, [ask]);
    medians
}

/// Medians of rounds: of the long conversation, of the short ones.
pub(super) type Medians = (Vec<f64>, Vec<f64>);

/// The same for several questions, which take turns in each round.
pub(super) fn warm_each<const N: usize>(
    setup: &Setup,
    pair: &Pair,
    asks: [Ask; N],
) -> [Medians; N] {
    let mut draw = Draw::new(1);
    let stores = [&pair.one, &pair.many].map(|long| {
        let store = ours::open(&long.dir, Level::Synced);
        for known in &long.chats {
            let chat = store.existing(&known.name).expect("a conversation");
            chat.window().expect("a window");
        }
        (long, store)
    });
    let mut medians = asks.map(|_| Medians::default());
    for round in 0..setup.sizes.rounds {
        setup.round("questions to open stores", round, setup.sizes.rounds);
        let mut turns: Vec<_> = asks.iter().zip(&mut medians).collect();
        turns.rotate_left(usize::try_from(round).expect("few rounds") % N);
        for (ask, (ours, theirs)) in turns {
            for ((long, store), medians) in stores.iter().zip([ours, theirs]) {
                let times: Vec<Duration> = (0..setup.sizes.questions)
                    .map(|_| long.question(&mut draw))
                    .map(|question| timed(|| ask(store, question)).0)
                    .collect();
                medians.push(median_ms(&times));
            }
        }
    }
    medians
}

/// The first question to a store that was just opened, with none of its files in memory.
fn cold(setup: &Setup, pair: &Pair, ask: Ask) -> (Vec<f64>, Vec<f64>) {
    let mut draw = Draw::new(2);
    let mut first = |long: &Long| {
        disk::evict(&long.dir);
        let store = ours::open(&long.dir, Level::Synced);
        let question = long.question(&mut draw);
        timed(|| ask(&store, question)).0.as_secs_f64() * 1e3
    };
    let [mut ours, mut theirs] = [Vec::new(), Vec::new()];
    for round in 0..setup.sizes.cold {
        setup.round("questions to cold stores", round, setup.sizes.cold);
        ours.push(first(&pair.one));
        theirs.push(first(&pair.many));
    }
    (ours, theirs)
}
