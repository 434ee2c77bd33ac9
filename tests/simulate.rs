//! A whole system in one thread, hundreds of times, each from a seed. `CTXLOG_SEEDS` sets how often
//! (400), `CTXLOG_FIRST_SEED` from which seed on; the larger forms are `ctxlog self-test --only 2 --size ci` and `--size release`.

use ctxlog::testkit::campaign::Work;
use ctxlog::testkit::simulate::{replay, simulate_seeds};

/// Plans that once showed a bug, with an empty line between them.
const REGRESSIONS: &str = include_str!("regressions/simulate.txt");

fn seeds() -> u64 {
    let given = std::env::var("CTXLOG_SEEDS").ok();
    given.map_or(400, |n| n.parse().expect("CTXLOG_SEEDS is a number"))
}

#[test]
fn no_seed_shows_a_violation_and_every_fault_happens() {
    let plans: Vec<&str> = REGRESSIONS
        .split("\n\n")
        .filter(|p| p.contains("steps"))
        .collect();
    assert!(plans.len() >= 2, "{} plans", plans.len());
    for plan in plans {
        let run = replay(plan).unwrap_or_else(|e| panic!("{e}"));
        let run = run.unwrap_or_else(|violation| panic!("{violation}"));
        assert!(run.steps > 0);
    }
    let seeds = seeds();
    let work = Work {
        seed: std::env::var("CTXLOG_FIRST_SEED")
            .map_or(0, |n| n.parse().expect("CTXLOG_FIRST_SEED is a number")),
        threads: std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
        progress: &|_, _| {},
    };
    let totals = simulate_seeds(work, seeds, 10).unwrap();
    let figure = totals.figure();
    println!(
        "{figure}\n{} entries; {} acknowledged, {} typed errors; {} forks and {} redactions; {} damaged logs told by verify, {} \
         shortened ones by the acknowledgements; faults: {:?}",
        totals.entries,
        totals.answered.0,
        totals.answered.1,
        totals.edits.0,
        totals.edits.1,
        totals.told,
        totals.shortened,
        totals.faults
    );
    let shown: Vec<String> = totals.violations.iter().map(ToString::to_string).collect();
    assert_eq!(totals.violated, 0, "{}", shown.join("\n"));
    assert!(
        totals.unlike.is_empty(),
        "two runs differ: {:?}",
        totals.unlike
    );
    assert_eq!(figure.holds, Some(true));
    let (forks, redactions) = totals.edits;
    assert!(forks >= seeds / 10 && redactions >= seeds / 10);
    let least = seeds / 200;
    assert!(
        totals.rarest() >= least,
        "a fault happened less than {least} times"
    );
    assert!(seeds < 1_000 || totals.told >= 20 && totals.shortened >= 1);
}
