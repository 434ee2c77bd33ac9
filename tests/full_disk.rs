//! A file system that is really full: a typed error, no panic, no hang, nothing acknowledged lost,
//! what is there can be read; and once there is space again, all goes on.
//!
//! On ext4 in a loop device, and on a file system in memory. It needs root, and is skipped
//! elsewhere.

#![cfg(unix)]

#[path = "common/disk.rs"]
mod disk;
#[path = "common/figure.rs"]
mod figure;

use std::cell::Cell;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use ctxlog::audit;
use ctxlog::engine::{Content, Conversation, Error, Store};
use ctxlog::log::payload::PayloadError;
use ctxlog::log::{Hash, Message, RequestReason, Seq};
use ctxlog::store::{Backend, Level, SledStore, StoreError};
use ctxlog::testkit::crash::{Acked, Plan, kill_loop, survey};
use ctxlog::testkit::{Draw, Figure};
use disk::{Mounted, allowed, make};
use figure::{record, seed};
use tempfile::TempDir;

const MIB: u64 = 24;

/// A small file system with a file on it that can be given up.
struct Disk {
    mounted: Mounted,
    _room: TempDir,
}

impl Disk {
    fn ext4() -> Self {
        let room = tempfile::tempdir().unwrap();
        let image = room.path().join("image");
        make(&image, MIB, &[]).unwrap();
        let mounted = Mounted::image(&image, &room.path().join("disk")).unwrap();
        Self {
            mounted,
            _room: room,
        }
    }

    fn memory() -> Self {
        let room = tempfile::tempdir().unwrap();
        let mounted = Mounted::memory(MIB, &room.path().join("disk")).unwrap();
        Self {
            mounted,
            _room: room,
        }
    }

    fn store(&self) -> PathBuf {
        self.mounted.path().join("store")
    }

    fn filler(&self) -> PathBuf {
        self.mounted.path().join("filler")
    }

    /// Takes all space but about so many bytes.
    fn fill(&self, but: usize) {
        let mut file = File::options()
            .create(true)
            .append(true)
            .open(self.filler())
            .unwrap();
        // Only a sync finds the space for what was written.
        for block in [vec![7; 1 << 20], vec![7; 4096]] {
            while file
                .write_all(&block)
                .and_then(|()| file.sync_data())
                .is_ok()
            {}
        }
        let size = file.metadata().unwrap().len();
        file.set_len(size.saturating_sub(but as u64)).unwrap();
        file.sync_all().unwrap();
    }

    fn make_space(&self) {
        fs::remove_file(self.filler()).unwrap();
        File::open(self.mounted.path()).unwrap().sync_all().unwrap();
    }
}

/// What the work gives; a panic of it is one here, and so is a hang.
fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = mpsc::channel();
    let worker = thread::spawn(move || done.send(work()));
    let given = wait.recv_timeout(Duration::from_secs(60));
    assert!(
        !matches!(given, Err(mpsc::RecvTimeoutError::Timeout)),
        "{what} hangs"
    );
    worker
        .join()
        .unwrap_or_else(|_| panic!("{what} panicked"))
        .ok();
    given.unwrap()
}

fn ack(chat: &Conversation, first: Seq, level: Level) -> Acked {
    let head = chat.head().unwrap().unwrap();
    let (log, last, hash): (String, Seq, Hash) = (chat.name().to_owned(), head.seq, head.hash);
    Acked {
        log,
        first,
        last,
        hash,
        level,
    }
}

/// Appends until the store says no.
fn append_until_full(
    chat: &Conversation,
    level: Level,
    draw: &mut Draw,
) -> (Vec<(Acked, String)>, Error) {
    let mut acks = Vec::new();
    for _ in 0..100_000 {
        let size = if draw.one_in(10) { 80_000 } else { 2_000 };
        let words = draw.words(size);
        match chat.append(Message::person(words.clone())) {
            Ok(done) => acks.push((ack(chat, done.first, level), words)),
            Err(error) => return (acks, error),
        }
    }
    panic!("the disk does not get full");
}

/// Runs the test on each kind of disk; says whether this machine lets us make them.
fn each(test: impl Fn(&'static str, &Disk)) -> bool {
    if let Err(why) = allowed() {
        println!("skipped: {why}");
        return false;
    }
    test("ext4", &Disk::ext4());
    test("memory", &Disk::memory());
    true
}

/// Where a store that cannot go on may say so instead of answering.
fn is_refused(error: &Error) -> bool {
    matches!(error, Error::Store(StoreError::Poisoned { .. }))
}

/// An error that names the full disk.
fn names_it(error: &dyn std::fmt::Display) -> bool {
    error.to_string().contains("No space left on device")
}

/// Whatever can be read on the handle that failed is as it was; the rest is refused by name, and
/// nothing is called damaged. How much sled still reads depends on which of its pages the failed
/// write left too full: it may be all, or nothing.
fn reads_are_right_or_refused(
    store: &Store,
    chat: &Conversation,
    acks: &[(Acked, String)],
) -> usize {
    let mut right = 0;
    for (ack, words) in acks {
        match chat.content(ack.last, 0) {
            Ok(Content::Message(message)) => {
                assert_eq!(&message.words(), words);
                right += 1;
            }
            Ok(other) => panic!("{other:?}"),
            Err(Error::Payload {
                source: PayloadError::Store(error),
                ..
            }) => {
                assert!(error.contains("an earlier write failed"), "{error}");
            }
            // What only waited in memory is gone: so much was promised of it.
            Err(Error::Refused(refusal)) if ack.level == Level::Buffered => {
                assert_eq!(refusal.reason, RequestReason::RangeOutOfBounds);
            }
            Err(error) => assert!(is_refused(&error), "{error:?}"),
        }
    }
    println!(
        "{right} of {} contents are read while the disk is full",
        acks.len()
    );
    match store.list() {
        Ok(listed) if listed.is_empty() => {
            // Its name, too, only waited in memory.
            assert!(acks.iter().all(|(ack, _)| ack.level == Level::Buffered));
        }
        Ok(listed) => match audit::verify(store, &listed[0], &mut |_, _| {}) {
            Ok(verified) => assert!(verified.ok, "{:?}", verified.problems),
            Err(error) => assert!(is_refused(&error), "{error:?}"),
        },
        Err(error) => assert!(is_refused(&error), "{error:?}"),
    }
    right
}

/// Every verb that writes is refused for the write that failed, also one that must read first.
fn assert_nothing_is_written(backend: &dyn Backend, chat: &Conversation, level: Level) {
    let (id, bytes) = (chat.id(), vec![1; 100_000]);
    let refused = [
        backend.put_blob(id, Hash([1; 32]), &bytes),
        backend.sweep_blobs(id, &|_| false).map(drop),
        backend.put_derived(id, "derived", &bytes),
        backend.destroy_payload(id, Seq(1), 0, level),
        backend.sync(level),
    ];
    for outcome in refused {
        assert!(
            matches!(outcome, Err(StoreError::Poisoned { .. })),
            "{outcome:?}"
        );
    }
}

/// Appends until the store says no; gives what was acknowledged, and how much of it could still be
/// read.
fn fill_the_store(dir: &Path, level: Level, seed: u64) -> (Vec<Acked>, usize) {
    let mut draw = Draw::new(seed);
    let store = Store::on(Arc::new(SledStore::open(dir).unwrap())).with_level(level);
    let chat = store.conversation("full").unwrap();
    let (acks, error) = append_until_full(&chat, level, &mut draw);
    println!("{level:?}: {} acknowledged, then: {error}", acks.len());
    assert!(acks.len() > 10);
    let known = matches!(
        error,
        Error::Store(StoreError::Indeterminate { .. } | StoreError::Poisoned { .. })
    );
    assert!(known && names_it(&error), "{error:?}");
    let again = chat.append(Message::person("again")).unwrap_err();
    assert!(is_refused(&again), "{again:?}");
    assert_nothing_is_written(store.backend(), &chat, level);
    let right = reads_are_right_or_refused(&store, &chat, &acks);
    (acks.into_iter().map(|(ack, _)| ack).collect(), right)
}

#[test]
fn appends_to_a_full_disk_fail_by_name_and_lose_nothing() {
    let read = Cell::new(0);
    let measured = each(|kind, disk| {
        for level in [Level::Synced, Level::Flushed, Level::Buffered] {
            println!("{kind}:");
            let (dir, seed) = (disk.store(), seed());
            let _ = fs::remove_dir_all(&dir);
            disk.fill(6 << 20);
            let at = dir.clone();
            let (acks, right) = in_time("a full disk", move || fill_the_store(&at, level, seed));
            read.set(read.get() + right);
            let at = dir.clone();
            if let Err(error) = in_time("opening", move || SledStore::open(at).map(drop)) {
                assert!(
                    matches!(error, StoreError::Io { .. }) && names_it(&error),
                    "{error:?}"
                );
            }
            disk.make_space();
            // A buffered acknowledgement promises nothing here.
            let kept = if level == Level::Buffered {
                Vec::new()
            } else {
                acks
            };
            let found = in_time("surveying", move || survey(&dir, &kept));
            assert!(found.problems.is_empty(), "{:?}", found.problems);
            assert_eq!(found.lost, 0);
        }
    });
    let (goal, name) = ("0 lost, a typed error", "a really full disk (ext4, memory)");
    record(&if measured {
        Figure::new("7b", name, goal, "0 lost in 6 stores, 6 typed errors", true)
    } else {
        Figure::skipped("7b", name, goal, "it needs root and loop devices")
    });
    assert!(
        !measured || read.get() > 0,
        "nothing could be read on any full disk"
    );
}

#[test]
fn a_store_that_is_made_on_a_full_disk_is_finished_when_there_is_space() {
    each(|kind, disk| {
        for room in [0, 4_096, 20_000, 100_000, 400_000, 1_000_000] {
            disk.fill(room);
            let dir = disk.store();
            let at = dir.clone();
            let opened = in_time("opening", move || SledStore::open(at).map(drop));
            println!("{kind}, {room} bytes left: {opened:?}");
            if let Err(error) = &opened {
                assert!(
                    matches!(error, StoreError::Io { .. }) && names_it(error),
                    "{error:?}"
                );
            }
            assert!(room > 0 || opened.is_err(), "the disk is not full");
            disk.make_space();
            let at = dir.clone();
            let found = in_time("surveying", move || survey(&at, &[]));
            assert!(
                found.problems.is_empty(),
                "{kind}, {room}: {:?}",
                found.problems
            );
            fs::remove_dir_all(dir).unwrap();
        }
    });
}

#[test]
fn the_command_line_says_that_the_disk_is_full_and_goes_on_later() {
    each(|kind, disk| {
        let transcript = tempfile::NamedTempFile::new().unwrap();
        let mut draw = Draw::new(seed());
        for n in 0..800 {
            let words = draw.words(5_000); // which do not shrink to a few bytes
            let role = if n % 2 == 0 { "user" } else { "assistant" };
            let line = format!("{{\"role\":\"{role}\",\"content\":\"{n} {words}\"}}\n");
            transcript.as_file().write_all(line.as_bytes()).unwrap();
        }
        let import = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_ctxlog"));
            let file = transcript.path().display().to_string();
            command.args(["import", &file, "--format", "openai-chat", "--as", "full"]);
            command.args(["--json", "--store"]).arg(disk.store());
            let ran = in_time("importing", move || command.output().unwrap());
            let said = String::from_utf8(ran.stderr).unwrap();
            println!("{kind}: {:?} {said}", ran.status.code());
            (ran.status.code(), said)
        };
        let _ = fs::remove_dir_all(disk.store());
        disk.fill(2 << 20);
        let (code, said) = import();
        assert_eq!(code, Some(2), "{said}");
        assert!(names_it(&said), "{said}");
        disk.make_space();
        assert_eq!(import().0, Some(0));
        let store = disk.store();
        let found = in_time("surveying", move || survey(&store, &[]));
        assert!(found.problems.is_empty(), "{:?}", found.problems);
        assert!(found.probes[0].last.0 > 800);
    });
}

/// A directory that cannot be opened for want of room was not lost to a kill.
#[test]
fn a_full_disk_is_no_loss_to_kills() {
    each(|kind, disk| {
        for round in 0..4 {
            let dir = disk.mounted.path().join(format!("kills-{round}"));
            fs::create_dir(&dir).unwrap();
            disk.fill(3 << 20);
            let plan = Plan {
                program: Path::new(env!("CARGO_BIN_EXE_ctxlog")),
                dir: &dir,
                seed: seed().wrapping_add(round),
                kills: 16,
                acked: u64::MAX,
            };
            let said = kill_loop(&plan, &mut |_, _| {}).unwrap_err().to_string();
            println!("{kind}: {said}");
            assert!(names_it(&said), "{said}");
            fs::remove_dir_all(&dir).unwrap();
            disk.make_space();
        }
    });
}
