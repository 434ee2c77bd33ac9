//! A whole system in one thread, thousands of times, each from a seed.

use std::collections::BTreeMap;
use std::path::Path;

use ctxlog::testkit::Figure;
use ctxlog::testkit::fault::Fault;
use ctxlog::testkit::simulate::{Run, Violation, simulate};

fn seeds() -> u64 {
    let given = std::env::var("CTXLOG_SEEDS").ok();
    given.map_or(2_000, |n| n.parse().expect("CTXLOG_SEEDS is a number"))
}

#[test]
fn probe() {
    let n = seeds();
    let start = std::time::Instant::now();
    let mut faults: BTreeMap<Fault, u64> = BTreeMap::new();
    let (mut steps, mut entries, mut told, mut shortened, mut bad) = (0, 0, 0, 0, 0);
    let mut answered = (0, 0);
    let mut ends = 0;
    for seed in 0..n {
        match simulate(seed) {
            Ok(run) => {
                steps += run.steps;
                entries += run.entries;
                told += run.told;
                ends += run.ends;
                shortened += run.shortened;
                answered.0 += run.answered.0;
                answered.1 += run.answered.1;
                for (f, k) in run.faults {
                    *faults.entry(f).or_default() += k;
                }
            }
            Err(v) => {
                bad += 1;
                if bad <= 3 {
                    println!("{v}");
                }
            }
        }
    }
    println!(
        "{bad} bad, {steps} steps, {entries} entries, {ends} ends, {told} told, {shortened} shortened, {answered:?}, {faults:?} {:?}",
        start.elapsed()
    );
}
