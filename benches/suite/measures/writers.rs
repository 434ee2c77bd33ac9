//! Synced appends of 32 writers at a time.

use std::sync::Barrier;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

use ctxlog::engine::Conversation;
use ctxlog::store::Level;

use crate::compare::{Comparison, Peer};
use crate::content::{Kind, Said};
use crate::ours;
use crate::setup::Setup;
use crate::sinks::{Bare, Raw, Sink, Sqlite, Value, folder};
use crate::stats::rate;
use crate::table::{Goal, Table, Unit};

const WRITERS: u64 = 32;
/// The most appends that a peer's writer brings to the disk with one sync; ctxlog's has as many.
const GROUP_MAX: usize = 256;

pub fn run(setup: &Setup, table: &mut Table) {
    compare(setup, table, Kind::Text, false);
    compare(setup, table, Kind::Random, false);
    compare(setup, table, Kind::Text, true);
}

/// What each writer appends in a round.
fn shares(setup: &Setup, kind: Kind, one: bool, round: u64) -> Vec<Vec<Said>> {
    let each = setup.sizes.writer.next_multiple_of(4);
    let share = |writer| {
        let mut said = setup.source.stretch(kind, writer, round * each, each);
        if one {
            // No writer can wait for another's call: words alone.
            said.retain(|said| said.message.parts.iter().all(is_text));
        }
        said
    };
    (0..WRITERS).map(share).collect()
}

fn compare(setup: &Setup, table: &mut Table, kind: Kind, one: bool) {
    let dir = setup.dir();
    let store = ours::open(&dir.path().join("ours"), Level::Synced);
    let chat = |n: u64| {
        store
            .conversation(&format!("writer {n}"))
            .expect("a conversation")
    };
    let chats: Vec<Conversation> = (0..WRITERS)
        .map(|n| chat(if one { 0 } else { n }))
        .collect();
    let mut raw = Raw::create(&folder(dir.path(), "raw"));
    let mut bare = Bare::open(&folder(dir.path(), "bare"));
    let mut sqlite = Sqlite::create(&folder(dir.path(), "sqlite"));

    let said = |round| shares(setup, kind, one, round);
    let goal = Goal::RatioAtLeast(if kind == Kind::Text { 0.8 } else { 0.7 });
    let theirs = |sink: &mut dyn Sink, round| grouped(sink, &said(round), round);
    let mut peers = vec![
        Peer::new("raw file, same groups", Goal::None, |round| {
            theirs(&mut raw, round)
        }),
        Peer::new("bare sled, same groups", goal, |round| {
            theirs(&mut bare, round)
        }),
        Peer::new("SQLite table, same groups", Goal::None, |round| {
            theirs(&mut sqlite, round)
        }),
    ];
    if kind == Kind::Text && !one {
        let figure = |round| setup.python.figure("session", "writers", round);
        let name = setup.python.name("session");
        peers.push(Peer::that_may_fail(&name, Goal::RatioAtLeast(8.0), figure));
    }
    let whose = if one {
        "one conversation"
    } else {
        "a conversation each"
    };
    let comparison = Comparison {
        measure: &format!("synced append, 32 writers, {whose}, {}", kind.name()),
        unit: Unit::PerSecond,
        rounds: setup.sizes.synced_rounds,
    };
    let ours = |round: u64| together(&chats, said(round));
    comparison.run(setup, table, ours, peers);
}

fn is_text(part: &ctxlog::Part) -> bool {
    matches!(part.body, ctxlog::log::PartBody::Block(_))
}

fn total<T>(shares: &[Vec<T>]) -> u64 {
    let sum: usize = shares.iter().map(Vec::len).sum();
    u64::try_from(sum).expect("a count")
}

/// Runs a thread a share, lets all begin at once, and says how many appends a second there were.
fn race<T: Send>(shares: Vec<Vec<T>>, work: impl Fn(usize, Vec<T>) + Sync) -> f64 {
    let count = total(&shares);
    let line = Barrier::new(shares.len() + 1);
    let began = std::thread::scope(|scope| {
        for (writer, share) in shares.into_iter().enumerate() {
            let (line, work) = (&line, &work);
            scope.spawn(move || {
                line.wait();
                work(writer, share);
            });
        }
        let began = Instant::now();
        line.wait();
        began
    });
    rate(count, began.elapsed())
}

fn together(chats: &[Conversation], shares: Vec<Vec<Said>>) -> f64 {
    race(shares, |writer, said| {
        for one in said {
            chats[writer].append(one.message).expect("an append");
        }
    })
}

struct Request<'a> {
    value: Value<'a>,
    done: SyncSender<()>,
}

/// The same through one thread that takes what waits, writes it together, and syncs it once.
fn grouped(sink: &mut dyn Sink, shares: &[Vec<Said>], round: u64) -> f64 {
    let (requests, waiting) = sync_channel::<Request<'_>>(GROUP_MAX);
    let borrowed: Vec<Vec<&Said>> = shares.iter().map(|s| s.iter().collect()).collect();
    std::thread::scope(|scope| {
        scope.spawn(move || write_groups(sink, &waiting));
        let speed = race(borrowed, |writer, said| {
            let (done, told) = sync_channel(1);
            let from = round << 32;
            for (n, one) in (from..).zip(said) {
                let chat = u64::try_from(writer).expect("few writers");
                let value = Value {
                    chat,
                    n,
                    json: &one.json,
                };
                let done = done.clone();
                requests.send(Request { value, done }).expect("a writer");
                told.recv().expect("an answer");
            }
        });
        drop(requests);
        speed
    })
}

fn write_groups(sink: &mut dyn Sink, waiting: &Receiver<Request<'_>>) {
    while let Ok(first) = waiting.recv() {
        let rest = waiting.try_iter().take(GROUP_MAX - 1);
        let (values, done): (Vec<_>, Vec<_>) = std::iter::once(first)
            .chain(rest)
            .map(|r| (r.value, r.done))
            .unzip();
        sink.apply(&values);
        sink.sync();
        for one in done {
            one.send(()).expect("a caller that waits");
        }
    }
}
