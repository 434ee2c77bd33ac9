//! Figure 1b: the power is cut at random instants, and nothing that was acknowledged as synced is
//! lost.
//!
//! The store lies on an ext4 file system (the inner one) in a loop device, whose image is a file of
//! another file system (the outer one). The cut is a freeze of the outer one: from one instant on,
//! whatever the inner one's kernel writes to its device waits, block by block, also in the midst of
//! a sync or of a commit of its journal. The image that is copied meanwhile is what the device held
//! at that instant, as a power cut would leave it: no write is torn by the copy, and what still sat
//! in memory, in the store or in the inner file system's cache, is gone. Freezing the outer file
//! system syncs nothing of the inner one. The model is kinder than the worst disk in one way: every
//! block that reached the device counts as kept, while a disk with a cache may also lose, out of
//! order, what came after its last flush.
//!
//! The canary is a child that acknowledges before anything is synced. It has to lose something, or
//! the cuts prove nothing.
//!
//! It needs root, loop devices, `mkfs.ext4` and `fsfreeze`, and is skipped elsewhere. `CTXLOG_CUTS`
//! sets how many cuts (10; before a release 200).

#![cfg(unix)]

#[path = "common/disk.rs"]
mod disk;
#[path = "common/figure.rs"]
mod figure;

use std::fs;
use std::path::Path;
use std::time::Duration;

use ctxlog::store::Level;
use ctxlog::testkit::crash::{Acked, Line, Running, Survey, Work, survey};
use ctxlog::testkit::{Draw, Figure};
use disk::{Mounted, allowed, make};
use figure::{number, record, seed};
use tempfile::TempDir;

const NAME: &str = "acknowledged synced entries lost in a power cut";
const MIB: u64 = 64;

/// The two file systems, and room for copies. Fields are dropped in this order.
struct Bench {
    inner: Mounted,
    outer: Mounted,
    room: TempDir,
}

impl Bench {
    /// In memory where there is a file system for it, since then a copy takes milliseconds.
    fn new() -> Self {
        let room = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let room = room.unwrap();
        let outer_image = room.path().join("outer.img");
        make(&outer_image, 4 * MIB, &["-O", "^has_journal"]).unwrap();
        let outer = Mounted::image(&outer_image, &room.path().join("outer")).unwrap();
        let image = outer.path().join("inner.img");
        make(&image, MIB, &[]).unwrap();
        let inner = Mounted::image(&image, &room.path().join("inner")).unwrap();
        Self { inner, outer, room }
    }

    /// Cuts the power of a child at work; gives what it had been told to be synced, and what is
    /// found of it.
    fn cut(&self, work: Work, draw: &mut Draw) -> (Vec<Acked>, Survey) {
        let dir = self.inner.path().join("store");
        let _ = fs::remove_dir_all(&dir);
        let program = Path::new(env!("CARGO_BIN_EXE_ctxlog"));
        let mut running = Running::start(program, work, &dir, draw.number()).unwrap();
        if !draw.one_in(5) {
            let acked = |line: &Line| matches!(line, Line::Acked(_));
            assert!(running.listen(Duration::from_secs(60), acked).unwrap());
        }
        let time = draw.time(Duration::from_millis(700));
        running.listen(time, |_| false).unwrap();
        let copy = self.room.path().join("copy.img");
        {
            let _frozen = self.outer.freeze().unwrap();
            // What it had said until then; from then on no sync can come back.
            running.listen(Duration::ZERO, |_| false).unwrap();
            fs::copy(self.outer.path().join("inner.img"), &copy).unwrap();
        }
        let acks = running.acks().iter().map(|(_, ack)| ack);
        let synced: Vec<Acked> = acks.filter(|a| a.level == Level::Synced).cloned().collect();
        running.kill().unwrap();
        let after = Mounted::image(&copy, &self.room.path().join("after")).unwrap();
        let kept = copy.with_extension("kept");
        fs::copy(&copy, &kept).unwrap();
        let survey = survey(&after.path().join("store"), &synced);
        (synced, survey)
    }
}

/// What a cut left, kept where nothing removes it.
fn evidence(bench: &Bench, cut: &str) -> String {
    let to = std::env::temp_dir().join(format!("ctxlog-power-{}-{cut}.img", std::process::id()));
    fs::copy(bench.room.path().join("copy.kept"), &to).unwrap();
    format!("{cut}; the image is kept at {}", to.display())
}

#[test]
fn nothing_synced_is_lost_in_a_power_cut_and_the_canary_loses() {
    let cuts = number("CTXLOG_CUTS", 10);
    let goal = format!("0 in {cuts} cuts");
    if let Err(why) = allowed() {
        return record(&Figure::skipped("1b", NAME, goal, why));
    }
    let mut draw = Draw::new(seed());
    let bench = Bench::new();
    let (mut acked, mut lost, mut after_an_ack) = (0, 0, 0);
    for cut in 0..cuts {
        let work = if cut % 2 == 0 {
            Work::Sync
        } else {
            Work::Append
        };
        let (synced, found) = bench.cut(work, &mut draw);
        after_an_ack += u64::from(!synced.is_empty());
        acked += found.promised;
        lost += found.lost;
        let whole = found.problems.is_empty();
        assert!(
            whole,
            "{}: {:?}",
            evidence(&bench, &cut.to_string()),
            found.problems
        );
    }
    assert!(
        after_an_ack * 2 >= cuts,
        "only {after_an_ack} cuts met a store at work"
    );
    let value = format!("{lost} of {acked} entries in {cuts} cuts");
    let figure = Figure::new("1b", NAME, goal, value, lost == 0);
    record(&figure);
    assert_eq!(figure.holds, Some(true), "{figure}");

    let mut missed = 0;
    for cut in 0..cuts {
        let (_, found) = bench.cut(Work::Lie, &mut draw);
        missed += found.lost;
        // What is left hangs together all the same.
        let others = found.problems.iter().filter(|p| !p.starts_with("lost:"));
        let others: Vec<_> = others.collect();
        let name = format!("canary-{cut}");
        assert!(others.is_empty(), "{}: {others:?}", evidence(&bench, &name));
    }
    println!("canary: {missed} entries lost that were acknowledged before their sync");
    assert!(missed > 0, "the canary lost nothing: the cuts cut nothing");
}
