//! Buffered appends with a strategy's visit after each.

use std::path::Path;
use std::time::{Duration, Instant};

use ctxlog::store::Level;

use crate::compare::{Comparison, Peer};
use crate::content::{Kind, Said};
use crate::ours;
use crate::setup::Setup;
use crate::sinks::{BATCH, Bare, Sink, folder, values};
use crate::stats::{rate, timed};
use crate::table::{Goal, Table, Unit, number};

/// What a buffered append promises: no more than this is lost.
const PROMISE: Duration = Duration::from_millis(500);

pub fn run(setup: &Setup, table: &mut Table) {
    let count = setup.sizes.buffered;
    for (kind, goal) in [(Kind::Text, 0.6), (Kind::Random, 0.5)] {
        let said = |round: u64| setup.source.stretch(kind, round, 0, count);
        let bare = |round: u64| {
            let dir = setup.dir();
            rate(count, batches(&folder(dir.path(), "bare"), &said(round)))
        };
        let ours = |round: u64| {
            let dir = setup.dir();
            rate(count, visited(&dir.path().join("ours"), said(round)))
        };
        let measure = format!(
            "buffered append with a visit each, {} messages, {}",
            number(count),
            kind.name()
        );
        let comparison = Comparison {
            measure: &measure,
            unit: Unit::PerSecond,
            rounds: setup.sizes.rounds,
        };
        let name = "bare sled, batches of 64, no visit";
        let peers = vec![Peer::new(name, Goal::RatioAtLeast(goal), bare)];
        comparison.run(setup, table, ours, peers);
    }
}

fn visited(dir: &Path, said: Vec<Said>) -> Duration {
    let store = ours::open(dir, Level::Buffered);
    let chat = ours::with_strategy(&store, "visited");
    let append = || {
        for one in said {
            chat.append(one.message).expect("an append");
            ours::visit(&chat);
        }
        ours::sync(&store);
    };
    timed(append).0
}

/// Bare sled, synced whenever the promise would be broken, and in the end.
fn batches(dir: &Path, said: &[Said]) -> Duration {
    let mut bare = Bare::open(dir);
    let append = || {
        let mut synced = Instant::now();
        for (from, said) in (0..).step_by(BATCH).zip(said.chunks(BATCH)) {
            bare.apply(&values(0, from, said));
            if synced.elapsed() >= PROMISE {
                bare.sync();
                synced = Instant::now();
            }
        }
        bare.sync();
    };
    timed(append).0
}
