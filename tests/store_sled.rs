//! The faults of sled and of machines that a store in a directory must stand: each test fails
//! without the remedy it names.

#![allow(
    clippy::cast_possible_truncation,
    clippy::items_after_statements,
    reason = "tests make small numbers into bytes, and say what a thing is where it is used"
)]

mod store_support;

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use ctxlog::log::{Head, Seq};
use ctxlog::store::{Backend, Level, Record, SledStore, StoreError};
use store_support::directory::*;
use store_support::*;

#[test]
fn what_was_written_is_there_after_opening_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    furnish(&store);
    let before = contents(&store).unwrap();
    assert!(before.len() > 40);
    drop(store);
    for _ in 0..20 {
        let store = SledStore::open_existing(dir.path()).unwrap();
        assert_eq!(contents(&store).unwrap(), before);
        assert_eq!(store.check(None).unwrap().len(), 0);
        assert_eq!(
            store.durable_head(id(1)).unwrap(),
            store.head(id(1)).unwrap()
        );
    }
}

#[test]
fn the_last_handle_brings_buffered_appends_to_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    let other = store.clone();
    let batch = birth(
        id(1),
        name(&["t"], "a"),
        (0..500).map(|seq| record(seq, &[40])).collect(),
    );
    store.append(batch, Level::Buffered).unwrap();
    drop(store);
    assert_eq!(
        other.head(id(1)).unwrap().unwrap().seq,
        Seq(499),
        "a clone keeps the store open"
    );
    drop(other);
    let store = SledStore::open(dir.path()).unwrap();
    assert_eq!(read(&store, id(1), 0, 999).unwrap().len(), 500);
}

#[test]
fn a_buffered_append_becomes_durable_within_half_a_second() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    let conversation = conversation(&store, 1, 1);
    let old = store.head(conversation).unwrap().unwrap();
    for level in [Level::Buffered, Level::Flushed] {
        let before = store.durable_head(conversation).unwrap().unwrap();
        let newer = record(before.seq.0 + 1, &[]);
        let started = Instant::now();
        store
            .append(next(conversation, before, vec![newer.clone()]), level)
            .unwrap();
        assert_eq!(store.head(conversation).unwrap(), Some(head_of(&newer)));
        if started.elapsed() < Duration::from_millis(100) {
            assert_eq!(
                store.durable_head(conversation).unwrap(),
                Some(before),
                "not yet"
            );
        }
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(
            store.durable_head(conversation).unwrap(),
            Some(head_of(&newer))
        );
    }
    let head = store.head(conversation).unwrap().unwrap();
    assert_ne!(head, old);
    let newer = record(head.seq.0 + 1, &[]);
    store
        .append(
            next(conversation, head, vec![newer.clone()]),
            Level::Buffered,
        )
        .unwrap();
    store.sync(Level::Synced).unwrap();
    assert_eq!(
        store.durable_head(conversation).unwrap(),
        Some(head_of(&newer))
    );
}

#[test]
fn a_half_written_snapshot_does_not_brick_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    furnish(&store);
    let before = contents(&store).unwrap();
    let sled = store.sled_dir();
    drop(store);
    drop(SledStore::open(dir.path()).unwrap()); // now there is a whole snapshot
    let whole = fs::read(&snapshots(dir.path())[0]).unwrap();
    let half = sled.join("snap.FFFFFFFFFFFFFFFF.generating");
    for length in [0, 5, 20, whole.len() / 2, whole.len() - 1] {
        fs::write(&half, &whole[..length]).unwrap();
        let store = SledStore::open(dir.path()).unwrap();
        assert!(!half.exists());
        assert!(
            !dir.path().join("set-aside-1").exists(),
            "the whole snapshot was good enough"
        );
        assert_eq!(contents(&store).unwrap(), before);
    }
}

#[test]
fn no_value_is_large_enough_for_sleds_unsynced_files() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    let sizes = [
        0,
        100,
        4_000,
        4_090,
        4_100,
        20_000,
        131_052,
        200_000,
        1 << 20,
        5 << 20,
    ];
    let mut head: Option<Head> = None;
    for round in 0..4 {
        for (number, size) in (0_u64..).zip(sizes) {
            let mut record = record(round * 10 + number, &[]);
            record.payloads = [size, 50, size / 2]
                .map(|size| Some(noise(size, number as u8)))
                .into();
            record.entry = entry(record.seq.0, size.min(1 << 20), 1);
            let newest = head_of(&record);
            let batch = match head {
                None => birth(id(1), name(&["t"], "a"), vec![record]),
                Some(head) => next(id(1), head, vec![record]),
            };
            store.append(batch, Level::Flushed).unwrap();
            head = Some(newest);
            store
                .put_blob(id(1), newest.hash, &payload(size, 3).bytes)
                .unwrap();
            store
                .put_derived(id(1), &size.to_string(), &payload(size, 4).bytes)
                .unwrap();
        }
    }
    let sled = store.sled_dir();
    assert_eq!(fs::read_dir(sled.join("blobs")).unwrap().count(), 0);
    drop(store);
    let stored = stored(dir.path());
    assert!(stored.len() > 10_000);
    assert!(stored.values().all(|value| value.len() <= 4096));
    assert!(stored.values().any(|value| value.len() == 4096));
    assert_eq!(fs::read_dir(sled.join("blobs")).unwrap().count(), 0);
}

#[test]
fn a_second_handle_is_told_that_the_store_is_busy() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    conversation(&store, 1, 1);
    let busy =
        |opened: Result<SledStore, StoreError>| matches!(opened, Err(StoreError::Busy { .. }));
    assert!(busy(SledStore::open(dir.path())));
    assert!(busy(SledStore::open_existing(dir.path())));
    conversation(&store, 2, 1);
    drop(store);
    unseal(dir.path());
    // A program that uses sled's files without our lock.
    let stranger = open_sled(&dir.path().join("sled"));
    assert!(busy(SledStore::open(dir.path())));
    drop(stranger);
    SledStore::open(dir.path()).unwrap();
}

#[test]
fn a_store_can_be_opened_again_as_soon_as_it_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..60 {
        let store = SledStore::open(dir.path()).unwrap();
        conversation(&store, number, 20);
    }
    assert_eq!(
        SledStore::open(dir.path())
            .unwrap()
            .list(&[])
            .unwrap()
            .len(),
        60
    );
}

#[test]
fn a_directory_that_is_not_ours_is_left_untouched() {
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("other");
    type Setup = (&'static str, fn(&Path));
    let setups: &[Setup] = &[
        ("a file", |p| fs::write(p, "text").unwrap()),
        ("other files", |p| {
            fs::create_dir(p).unwrap();
            fs::write(p.join("notes.txt"), "text").unwrap();
        }),
        ("a bare sled directory", |p| drop(open_sled(p))),
        ("a directory with sled in it", |p| {
            drop(open_sled(&p.join("sled")));
        }),
        ("a marker of something else", |p| {
            fs::create_dir(p).unwrap();
            fs::write(p.join("CTXLOG"), "something else\n").unwrap();
        }),
        ("a marker with more in it", |p| {
            fs::create_dir(p).unwrap();
            fs::write(p.join("CTXLOG"), "ctxlog store\nformat 3\nand more\n").unwrap();
        }),
        ("an empty marker", |p| {
            fs::create_dir(p).unwrap();
            fs::write(p.join("CTXLOG"), "").unwrap();
        }),
        ("format 0", |p| {
            fs::create_dir(p).unwrap();
            fs::write(p.join("CTXLOG"), "ctxlog store\nformat 0\n").unwrap();
        }),
        ("a marker that is a directory", |p| {
            fs::create_dir_all(p.join("CTXLOG")).unwrap();
        }),
    ];
    for (what, setup) in setups {
        setup(&other);
        let before = tree(&other);
        for opened in [SledStore::open(&other), SledStore::open_existing(&other)] {
            let refused = matches!(
                opened,
                Err(StoreError::NotAStore { .. } | StoreError::Io { .. })
            );
            assert!(refused, "{what}: {opened:?}");
        }
        assert_eq!(tree(&other), before, "{what}");
        let _ = fs::remove_dir_all(&other).or_else(|_| fs::remove_file(&other));
    }
}

#[test]
fn a_newer_store_is_left_untouched_and_says_its_format() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    conversation(&store, 1, 3);
    drop(store);
    fs::write(
        dir.path().join("CTXLOG"),
        "ctxlog store\nformat 4\nwith: something new\n",
    )
    .unwrap();
    let before = tree(dir.path());
    for opened in [
        SledStore::open(dir.path()),
        SledStore::open_existing(dir.path()),
    ] {
        assert!(matches!(
            opened,
            Err(StoreError::Newer {
                found: 4,
                supported: 3,
                ..
            })
        ));
    }
    assert_eq!(tree(dir.path()), before);
}

#[test]
fn an_older_store_is_left_untouched_and_says_what_reads_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    conversation(&store, 1, 3);
    drop(store);
    fs::write(dir.path().join("CTXLOG"), "ctxlog store\nformat 2\n").unwrap();
    let before = tree(dir.path());
    for opened in [
        SledStore::open(dir.path()),
        SledStore::open_existing(dir.path()),
        SledStore::salvage(dir.path()),
    ] {
        let refused = opened.unwrap_err();
        let older = matches!(
            refused,
            StoreError::Older {
                found: 2,
                supported: 3,
                ..
            }
        );
        assert!(older, "{refused:?}");
        assert!(refused.to_string().contains("Export its logs"), "{refused}");
    }
    assert_eq!(tree(dir.path()), before);
}

#[test]
fn opening_an_existing_store_makes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let absent = dir.path().join("a/b");
    let opened = SledStore::open_existing(&absent).unwrap_err();
    assert!(
        opened.to_string().contains("there is no store here"),
        "{opened}"
    );
    let empty = SledStore::open_existing(dir.path()).unwrap_err();
    assert!(matches!(empty, StoreError::NotAStore { .. }));
    assert!(tree(dir.path()).is_empty());
    SledStore::open(&absent).unwrap();
    SledStore::open_existing(&absent).unwrap();
}

/// Creation does these steps in this order; whatever was done when it was cut off, the next open
/// finishes it.
#[test]
fn a_creation_that_was_cut_off_is_finished_by_the_next_open() {
    let dir = tempfile::tempdir().unwrap();
    let sample = dir.path().join("sample");
    drop(SledStore::open(&sample).unwrap());
    let cut = dir.path().join("cut");
    type Step = fn(&Path, &Path);
    let steps: &[Step] = &[
        |cut, _| fs::create_dir(cut).unwrap(),
        |cut, _| fs::write(cut.join("CTXLOG.lock"), "").unwrap(),
        |cut, _| fs::create_dir_all(cut.join("sled/blobs")).unwrap(),
        |cut, _| fs::write(cut.join("sled/conf"), "").unwrap(),
        |cut, sample| _ = fs::copy(sample.join("sled/conf"), cut.join("sled/conf")).unwrap(),
        |cut, _| fs::write(cut.join("sled/db"), "").unwrap(),
        |cut, sample| {
            fs::write(
                cut.join("sled/db"),
                &fs::read(sample.join("sled/db")).unwrap()[..70],
            )
            .unwrap();
        },
        |cut, sample| {
            // sled's threads write out of order: what comes later is there, what comes before not.
            let mut db = fs::read(sample.join("sled/db")).unwrap();
            db[96..130].fill(0);
            fs::write(cut.join("sled/db"), db).unwrap();
        },
        |cut, sample| _ = fs::copy(sample.join("sled/db"), cut.join("sled/db")).unwrap(),
        |cut, _| fs::write(cut.join("CTXLOG.new"), "ctxlog st").unwrap(),
        |cut, _| fs::write(cut.join("CTXLOG.new"), "ctxlog store\nformat 3\n").unwrap(),
        |cut, _| fs::rename(cut.join("CTXLOG.new"), cut.join("CTXLOG")).unwrap(),
    ];
    for done in 1..=steps.len() {
        let _ = fs::remove_dir_all(&cut);
        steps[..done].iter().for_each(|step| step(&cut, &sample));
        if done < steps.len() {
            assert!(
                SledStore::open_existing(&cut).is_err(),
                "{done}: not a store yet"
            );
        }
        let store = SledStore::open(&cut).unwrap_or_else(|e| panic!("after {done} steps: {e}"));
        conversation(&store, 1, 2);
        drop(store);
        let store = SledStore::open_existing(&cut).unwrap();
        assert_eq!(read(&store, id(1), 0, 9).unwrap().len(), 2);
    }
}

#[test]
fn a_check_beside_appends_raises_no_false_alarm() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..150 {
                let conversation = conversation(&store, number, 3);
                let head = store.head(conversation).unwrap().unwrap();
                let batch = next(conversation, head, vec![record(3, &[20_000, 10])]);
                store.append(batch, Level::Buffered).unwrap();
                store
                    .put_derived(conversation, "d", &payload(9_000, 1).bytes)
                    .unwrap();
                store
                    .destroy_payload(conversation, Seq(3), 0, Level::Buffered)
                    .unwrap();
            }
            done.store(true, std::sync::atomic::Ordering::Release);
        });
        let mut checks = 0;
        while !done.load(std::sync::atomic::Ordering::Acquire) {
            assert_eq!(format!("{:?}", store.check(None).unwrap()), "[]");
            checks += 1;
        }
        assert!(checks > 0);
    });
}

#[test]
fn readers_beside_rewriting_see_one_version_or_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    // Entries of several chunks: their tables change, and with them their checksums.
    let long = |seq| Record {
        entry: entry(seq, 20_000, 1),
        ..record(seq, &[20_000])
    };
    let records = (0..200).map(long).collect();
    store
        .append(birth(id(1), name(&["t"], "a"), records), Level::Buffered)
        .unwrap();
    let version = |seq: usize| payload(90_000 + seq, seq as u8).bytes;
    store.put_derived(id(1), "d", &version(0)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for seq in 0..200_u64 {
                store
                    .destroy_payload(id(1), Seq(seq), 0, Level::Buffered)
                    .unwrap();
                store
                    .put_derived(id(1), "d", &version(seq as usize))
                    .unwrap();
            }
        });
        for seq in (0..200_u64).cycle().take(2_000) {
            let found = store.payload(id(1), Seq(seq), 0).unwrap();
            assert!(found.is_none_or(|p| p == payload(20_000, seq as u8)));
            let bytes = store.derived(id(1), "d").unwrap().unwrap();
            assert!(bytes == version(bytes.len() - 90_000));
        }
    });
    assert!(store.payload(id(1), Seq(199), 0).unwrap().is_none());
    let shown = read(&store, id(1), 0, 999).unwrap();
    assert!(
        shown
            .into_iter()
            .all(|(seq, bytes)| bytes == long(seq).entry)
    );
}

#[test]
fn readers_beside_a_packing_writer_never_miss_an_entry() {
    const ENTRIES: u64 = 900;
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    let conversation = conversation(&store, 1, 1);
    let given = |seq: u64| match seq {
        0 => record(0, &[50]),
        seq => record(seq, &[700 + seq as usize % 40]),
    };
    let written = std::sync::atomic::AtomicU64::new(0);
    let seen = |seq: u64| {
        let shown = read(&store, conversation, seq, seq).unwrap();
        assert_eq!(shown, [(seq, given(seq).entry)]);
        let found = store.payload(conversation, Seq(seq), 0).unwrap();
        assert_eq!(found, given(seq).payloads[0], "{seq}");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for seq in 1..ENTRIES {
                let head = store.head(conversation).unwrap().unwrap();
                let level = [Level::Buffered, Level::Flushed][usize::from(seq % 3 == 0)];
                let batch = next(conversation, head, vec![given(seq)]);
                store.append(batch, level).unwrap();
                written.store(seq, std::sync::atomic::Ordering::Release);
            }
        });
        for reader in 0..2 {
            let (written, seen) = (&written, &seen);
            scope.spawn(move || {
                let mut draw = ctxlog::testkit::Draw::new(reader);
                loop {
                    let newest = written.load(std::sync::atomic::Ordering::Acquire);
                    // The newest move most.
                    seen(newest - draw.below(newest.min(70) + 1));
                    seen(draw.below(newest + 1));
                    if newest + 1 == ENTRIES {
                        break;
                    }
                }
            });
        }
    });
    (0..ENTRIES).for_each(seen);
    assert!(store.check(None).unwrap().is_empty());
    drop(store);
    let tags: std::collections::BTreeSet<u8> = stored(dir.path()).keys().map(|k| k[0]).collect();
    assert!(tags.contains(&b'C'), "nothing was packed");
}

/// A destroyed payload is gone from every place that it ever lay in, and from what is kept in memory.
#[test]
fn a_destroyed_payload_is_read_nowhere_whether_it_waits_stands_alone_or_is_packed() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    let conversation = conversation(&store, 1, 1);
    let mut gone = Vec::new();
    for seq in 1..300_u64 {
        let head = store.head(conversation).unwrap().unwrap();
        let level = [Level::Buffered, Level::Flushed][usize::from(seq % 5 == 0)];
        let batch = next(conversation, head, vec![record(seq, &[600, 600])]);
        store.append(batch, level).unwrap();
        if seq % 7 == 0 {
            let victim = [seq, seq / 2, seq.saturating_sub(20)][seq as usize / 7 % 3];
            store.payload(conversation, Seq(victim), 0).unwrap(); // so that its block is kept
            store
                .destroy_payload(conversation, Seq(victim), 0, Level::Buffered)
                .unwrap();
            gone.push(victim);
            assert_eq!(store.payload(conversation, Seq(victim), 0).unwrap(), None);
        }
    }
    let look = |store: &SledStore| {
        for seq in 1..300 {
            let [first, second] = [0, 1].map(|n| store.payload(conversation, Seq(seq), n).unwrap());
            assert_eq!(first.is_none(), gone.contains(&seq), "{seq}");
            assert_eq!(second, Some(payload(600, seq as u8)), "{seq}");
        }
        assert!(store.check(None).unwrap().is_empty());
    };
    look(&store);
    drop(store);
    look(&SledStore::open(dir.path()).unwrap());
    assert!(stored(dir.path()).keys().any(|key| key[0] == b'C'));
}

/// A log so long that entries are read from many of sled's pages.
#[test]
fn a_long_log_is_shown_whole() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    let conversation = conversation(&store, 1, 5_000);
    let mut due = 0;
    let show = &mut |seq: Seq, bytes: &[u8]| {
        assert_eq!(seq.0, due);
        assert!(entry_is_whole(bytes));
        due += 1;
        ControlFlow::Continue(())
    };
    store
        .entries(conversation, Seq(0), Seq(u64::MAX), show)
        .unwrap();
    assert_eq!(due, 5_000);
}
