//! Synced appends, one conversation, one at a time.

use std::time::Duration;

use ctxlog::store::Level;

use crate::compare::{Comparison, Peer};
use crate::content::{Kind, Said};
use crate::ours;
use crate::setup::Setup;
use crate::sinks::{Bare, Raw, Sink, Sqlite, Value, folder};
use crate::stats::{rate, timed};
use crate::table::{Goal, Table, Unit};

pub fn run(setup: &Setup, table: &mut Table) {
    for kind in Kind::ALL {
        compare(setup, table, kind);
    }
}

fn compare(setup: &Setup, table: &mut Table, kind: Kind) {
    let dir = setup.dir();
    let count = setup.sizes.synced;
    let said = |round: u64| setup.source.stretch(kind, 0, round * count, count);
    let store = ours::open(&dir.path().join("ours"), Level::Synced);
    let chat = store.conversation("one at a time").expect("a conversation");
    let mut raw = Raw::create(&folder(dir.path(), "raw"));
    let mut bare = Bare::open(&folder(dir.path(), "bare"));
    let mut sqlite = Sqlite::create(&folder(dir.path(), "sqlite"));
    let alone =
        |sink: &mut dyn Sink, round: u64| rate(count, append(sink, &said(round), round * count));

    let mut peers = vec![
        Peer::new("raw file", Goal::None, |round| alone(&mut raw, round)),
        Peer::new("bare sled", Goal::RatioAtLeast(0.9), |round| {
            alone(&mut bare, round)
        }),
        Peer::new("SQLite table", Goal::None, |round| {
            alone(&mut sqlite, round)
        }),
    ];
    if kind == Kind::Text {
        let python = |work: &'static str, goal| {
            let figure = move |round| setup.python.figure(work, "synced", round);
            Peer::that_may_fail(&setup.python.name(work), goal, figure)
        };
        peers.push(python("session", Goal::RatioAtLeast(1.0)));
        // Its time grows with the square of the messages; the goal was set at so many.
        let goal = match setup.sizes.saver {
            2_000.. => Goal::RatioAtLeast(50.0),
            _ => Goal::None,
        };
        peers.push(python("saver", goal));
    }
    let comparison = Comparison {
        measure: &format!("synced append, one at a time, {}", kind.name()),
        unit: Unit::PerSecond,
        rounds: setup.sizes.synced_rounds,
    };
    let ours = |round: u64| {
        let said = said(round);
        let (took, ()) = timed(|| {
            for one in said {
                chat.append(one.message).expect("an append");
            }
        });
        rate(count, took)
    };
    comparison.run(setup, table, ours, peers);
}

fn append(sink: &mut dyn Sink, said: &[Said], from: u64) -> Duration {
    let append = || {
        for (n, one) in (from..).zip(said) {
            let json = &one.json;
            sink.apply(&[Value { chat: 0, n, json }]);
            sink.sync();
        }
    };
    timed(append).0
}
