//! How tests measure figures: seeds, sizes, and the table of a run.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::Path;

use ctxlog::testkit::Figure;
use tempfile::TempDir;

/// A number from the environment.
pub fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |n| n.parse().unwrap())
}

/// The seed of this run: another one each time, unless `CTXLOG_SEED` gives one. Printed.
pub fn seed() -> u64 {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let seed = number("CTXLOG_SEED", u64::from(now.subsec_nanos()));
    println!("seed: CTXLOG_SEED={seed}");
    seed
}

/// Notes the figure in the table of the run.
pub fn record(figure: &Figure) {
    println!("{figure}");
    if let Some(file) = std::env::var_os("CTXLOG_FIGURES") {
        figure.record(Path::new(&file)).unwrap();
    }
}

/// Notes the figure, and demands that it holds; else what it was measured on is kept.
pub fn holds(figure: &Figure, dir: TempDir) {
    record(figure);
    if figure.holds == Some(true) {
        return;
    }
    let kept = dir.keep();
    panic!("{figure}\nkept: {}", kept.display());
}
