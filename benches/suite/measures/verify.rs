//! A large store: opening it, verifying it, and the memory that both take. Each is done in a child
//! process, which begins with nothing in memory.

use crate::child::Work;
use crate::compare::{Comparison, Peer, alone};
use crate::disk;
use crate::setup::Setup;
use crate::stats::float;
use crate::table::{Goal, Row, Table, Unit, number};

/// What ctxlog may keep in memory by its own choice, sled's page cache and folds together: as much as
/// it is given.
const BUDGET_MIB: usize = 64;
/// What a process may take that only verifies.
const VERIFY_MIB: f64 = 128.0;

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
    let goal = Goal::AtMost(VERIFY_MIB);
    let row = alone(&measure, Unit::Mebibytes, goal, &peaks);
    table.rows.push(row);
    one_conversation(setup, table);
}

/// What is verified of a log may not grow with it.
fn one_conversation(setup: &Setup, table: &mut Table) {
    let one = &setup.pair().one;
    let peak = |_| Work::Verify.run(&one.dir).peak_mib;
    let peaks: Vec<f64> = (0..setup.sizes.rounds).map(peak).collect();
    let entries = number(setup.sizes.long_entries);
    let measure = format!("memory of verify, {entries} entries in one conversation");
    let goal = Goal::AtMost(VERIFY_MIB);
    let row = alone(&measure, Unit::Mebibytes, goal, &peaks);
    table.rows.push(row);
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
    let peak = |_| Work::Touch(count, BUDGET_MIB).run(&big.ours).peak_mib;
    let peaks: Vec<f64> = (0..setup.sizes.rounds).map(peak).collect();
    let measure = format!(
        "memory, {} open, {} conversations touched, budget {BUDGET_MIB} MiB",
        megabytes(big.bytes),
        number(count)
    );
    let budget = u32::try_from(BUDGET_MIB).expect("a size");
    let goal = Goal::AtMost(f64::from(budget) + 64.0);
    let row: Row = alone(&measure, Unit::Mebibytes, goal, &peaks);
    table.rows.push(row);
}
