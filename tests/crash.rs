//! Figures 1 and 1c: processes are killed while they write and while they open, and nothing that was
//! acknowledged is lost. `CTXLOG_KILLS` sets how many kills (200); the larger form is
//! `ctxlog self-test --size release --only 1 --only 1c`.

#[path = "common/figure.rs"]
mod figure;

use std::path::Path;
use std::time::Duration;

use ctxlog::store::{SledStore, StoreError};
use ctxlog::testkit::crash::{Line, Plan, Running, Work, kill_loop, open_loop, survey};
use figure::{holds, number, seed};

const PROGRAM: &str = env!("CARGO_BIN_EXE_ctxlog");

fn plan(dir: &Path, seed: u64) -> Plan<'_> {
    let kills = number("CTXLOG_KILLS", 200);
    Plan {
        program: Path::new(PROGRAM),
        dir,
        seed,
        kills,
        acked: kills * 250,
    }
}

#[test]
fn nothing_acknowledged_is_lost_to_a_killed_process() {
    let dir = tempfile::tempdir().unwrap();
    let plan = plan(dir.path(), seed());
    let found = kill_loop(&plan, &mut |_, _| {}).unwrap();
    println!("{found:?}");
    holds(&found.figure(&plan), dir);
}

#[test]
fn a_kill_while_opening_leaves_a_directory_that_opens() {
    let dir = tempfile::tempdir().unwrap();
    let plan = plan(dir.path(), seed());
    let found = open_loop(&plan, &mut |_, _| {}).unwrap();
    println!("{found:?}");
    holds(&found.figure(&plan), dir);
}

#[test]
fn another_process_makes_the_store_busy_until_it_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let start = || Running::start(Path::new(PROGRAM), Work::Open, dir.path(), 0).unwrap();
    let minute = Duration::from_secs(60);
    let mut holder = start();
    assert!(holder.listen(minute, |line| *line == Line::Opened).unwrap());
    let opened = SledStore::open(dir.path());
    assert!(matches!(opened, Err(StoreError::Busy { .. })));
    assert!(holder.kill().unwrap().opened);
    let store = SledStore::open(dir.path()).unwrap();
    let second = start().listen(minute, |_| false).unwrap_err();
    assert!(
        second.to_string().contains("open in another process"),
        "{second}"
    );
    drop(store);
}

/// What the harness would say if something were lost: an entry that was promised and is not there,
/// one that is another, and a log that does not verify.
#[test]
fn a_survey_tells_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let mut running = Running::start(Path::new(PROGRAM), Work::Sync, &store, seed()).unwrap();
    let mut acks = 0;
    let enough = |line: &Line| {
        acks += u32::from(matches!(line, Line::Acked(_)));
        acks == 20
    };
    assert!(running.listen(Duration::from_secs(60), enough).unwrap());
    let killed = running.kill().unwrap();
    let promised: Vec<_> = killed.promised().cloned().collect();
    let whole = survey(&store, &promised);
    assert!(whole.problems.is_empty() && whole.lost == 0, "{whole:?}");
    assert!(whole.promised >= 20 && !whole.probes.is_empty());

    let mut altered = promised.clone();
    altered[3].hash.0[0] ^= 1;
    assert_eq!(survey(&store, &altered).lost, altered[3].entries());
    let mut beyond = promised.clone();
    beyond[3].last.0 += 1_000_000;
    assert_eq!(survey(&store, &beyond).lost, beyond[3].entries());
    beyond[3].log = "absent".to_owned();
    assert_eq!(survey(&store, &beyond).lost, beyond[3].entries());

    std::fs::remove_dir_all(store.join("sled")).unwrap();
    let gone = survey(&store, &promised);
    assert_eq!(gone.lost, gone.promised);
}
