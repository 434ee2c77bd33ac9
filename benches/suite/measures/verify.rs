//! A large store: opening it, verifying it, and the memory that both take. Each is done in a child
//! process, which begins with nothing in memory.

use crate::child::Work;
use crate::compare::{Comparison, Peer, alone};
use crate::disk;
use crate::setup::Setup;
use crate::stats::float;
use crate::table::{Goal, Row, Table, Unit, number};

/// What ctxlog may keep in memory by its own choice: the page cache it gives sled. There is no
/// setting for it yet.
const BUDGET_MIB: f64 = 64.0;

fn megabytes(bytes: u64) -> String {
    format!("{} MB of content", number(bytes.div_ceil(1_000_000)))
}

pub fn run_verify(setup: &Setup, table: &mut Table) {
    let big = setup.big();
    let content = float(big.bytes) / 1e6;
    let mut peaks = Vec::new();
    let verify = |_| {
        let report = Work::Verify.run(&big.ours);
        peaks.push(report.peak_mib);
        content / report.seconds
    };
    let scan = |_| content / Work::ScanBare.run(&big.bare).seconds;
    let size = megabytes(big.bytes);
    let comparison = Comparison {
        measure: &format!("verify, {size}"),
        unit: Unit::MegabytesPerSecond,
        rounds: setup.sizes.rounds,
    };
    let name = "bare sled, a scan";
    let peers = vec![Peer::new(name, Goal::RatioAtLeast(0.5), scan)];
    comparison.run(setup, table, verify, peers);
    let measure = format!("memory of verify, {size}");
    let goal = Goal::AtMost(128.0);
    table
        .rows
        .push(alone(&measure, Unit::Mebibytes, goal, &peaks));
}

pub fn run_open(setup: &Setup, table: &mut Table) {
    let big = setup.big();
    for (how, is_cold) in [("warm", false), ("cold", true)] {
        let open = |work: Work, dir: &std::path::Path| {
            if is_cold {
                disk::evict(dir);
            }
            work.run(dir).seconds * 1e3
        };
        let comparison = Comparison {
            measure: &format!("open, {}, {how}", megabytes(big.bytes)),
            unit: Unit::Millis,
            rounds: setup.sizes.rounds,
        };
        let bare = |_| open(Work::OpenBare, &big.bare);
        let peers = vec![Peer::new("bare sled", Goal::RatioAtMost(1.2), bare)];
        comparison.run(setup, table, |_| open(Work::Open, &big.ours), peers);
    }
}

pub fn run_memory(setup: &Setup, table: &mut Table) {
    let big = setup.big();
    let count = setup.sizes.conversations;
    let peak = |_| Work::Touch(count).run(&big.ours).peak_mib;
    let peaks: Vec<f64> = (0..setup.sizes.rounds).map(peak).collect();
    let measure = format!(
        "memory, {} open, {} conversations touched",
        megabytes(big.bytes),
        number(count)
    );
    let goal = Goal::AtMost(BUDGET_MIB + 64.0);
    let row: Row = alone(&measure, Unit::Mebibytes, goal, &peaks);
    table.rows.push(row);
}
