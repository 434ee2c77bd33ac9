//! The faults of sled and of machines that a store in a directory must stand: each test fails
//! without the remedy it names.

mod store_support;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ctxlog::log::{ConversationId, Head, Seq};
use ctxlog::store::{Level, SledStore, Store, StoreError};
use store_support::*;

/// A store with four logs: small entries, payloads inside and apart, destroyed ones, blobs,
/// derived data, a fork.
fn furnish(store: &SledStore) {
    for number in 0..3 {
        let conversation = conversation(store, number, 6);
        let head = store.head(conversation).unwrap().unwrap();
        let record = record(6, &[10, 9_000, 5_000, 300]);
        store
            .append(next(conversation, head, vec![record]), Level::Synced)
            .unwrap();
        store
            .put_derived(conversation, "snapshot", &payload(6_000, 1).bytes)
            .unwrap();
        store
            .put_blob(
                conversation,
                ctxlog::log::Hash([4; 32]),
                &payload(9_000, 2).bytes,
            )
            .unwrap();
    }
    let mut long = record(3, &[1]);
    long.entry = entry(3, 10_000, 9);
    store
        .append(
            birth(id(3), name(&["t", "u"], "fork"), vec![long]),
            Level::Synced,
        )
        .unwrap();
    store
        .destroy_payload(id(0), Seq(1), 0, Level::Synced)
        .unwrap();
    store
        .destroy_payload(id(0), Seq(6), 1, Level::Synced)
        .unwrap();
}

fn furnish_fork(store: &SledStore) {
    let mut long = record(3, &[1]);
    long.entry = entry(3, 10_000, 9);
    store
        .append(
            birth(id(3), name(&["t", "u"], "fork"), vec![long]),
            Level::Synced,
        )
        .unwrap();
}

/// Everything there is to read.
fn contents(store: &SledStore) -> Result<BTreeMap<String, Vec<u8>>, StoreError> {
    let mut all = BTreeMap::new();
    for listed in store.list(&[])? {
        let conversation = listed.conversation;
        let head = store.head(conversation)?;
        all.insert(
            format!("{:?}", listed.name),
            format!("{conversation} {head:?}").into_bytes(),
        );
        let from = if conversation == id(3) { 3 } else { 0 };
        for (seq, bytes) in read(store, conversation, from, u64::MAX)? {
            all.insert(format!("{conversation} {seq}"), bytes);
            for index in 0..5 {
                if let Some(payload) = store.payload(conversation, Seq(seq), index)? {
                    all.insert(format!("{conversation} {seq} {index}"), payload.bytes);
                }
            }
        }
        let blob = store.blob(conversation, ctxlog::log::Hash([4; 32]))?;
        all.insert(format!("{conversation} blob"), blob.unwrap_or_default());
        let derived = store.derived(conversation, "snapshot")?;
        all.insert(
            format!("{conversation} derived"),
            derived.unwrap_or_default(),
        );
    }
    Ok(all)
}

/// Names and bytes of everything below a path.
fn tree(path: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    if path.is_file() {
        found.insert(path.to_owned(), Some(fs::read(path).unwrap()));
        return found;
    }
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.insert(path.clone(), None);
        }
        found.extend(tree(&path));
    }
    found
}

/// A copy of a closed store.
fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).unwrap();
    for (path, bytes) in tree(from) {
        let target = to.join(path.strip_prefix(from).unwrap());
        match bytes {
            None => fs::create_dir_all(target).unwrap(),
            Some(bytes) => fs::write(target, bytes).unwrap(),
        }
    }
}

fn snapshots(store: &Path) -> Vec<PathBuf> {
    let found = tree(&store.join("sled")).into_keys();
    found
        .filter(|p| {
            p.file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with("snap.")
        })
        .collect()
}

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
fn an_unreadable_snapshot_is_set_aside_and_everything_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    furnish(&store);
    let before = contents(&store).unwrap();
    drop(store);
    drop(SledStore::open(dir.path()).unwrap());
    let path = snapshots(dir.path()).remove(0);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(&path, &bytes).unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    let aside = dir
        .path()
        .join("set-aside-1")
        .join(path.file_name().unwrap());
    assert_eq!(fs::read(aside).unwrap(), bytes, "set aside, not deleted");
    assert_eq!(contents(&store).unwrap(), before);
    assert!(
        !dir.path().join("CTXLOG.unchecked").exists(),
        "the check was made and found all well"
    );
    conversation(&store, 77, 2);
}

#[test]
fn a_store_that_owes_a_check_is_refused_while_the_check_finds_damage() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    furnish(&store);
    drop(store);
    let (key, value) = stored(dir.path())
        .into_iter()
        .find(|(key, _)| key[0] == b'L')
        .unwrap();
    overwrite(dir.path(), &key, Some(flipped(&value, 9)));
    let owed = dir.path().join("CTXLOG.unchecked");
    fs::write(&owed, "").unwrap();
    let refused = SledStore::open(dir.path()).unwrap_err();
    assert!(matches!(refused, StoreError::Damaged { .. }), "{refused}");
    assert!(owed.exists());
    let store = SledStore::salvage(dir.path()).unwrap();
    assert_eq!(
        read(&store, id(2), 0, 99).unwrap().len(),
        7,
        "the rest can be read"
    );
    assert_eq!(store.check(None).unwrap().len(), 1);
    let batch = birth(id(99), name(&["t"], "z"), vec![record(0, &[])]);
    assert!(matches!(
        store.append(batch.clone(), Level::Synced),
        Err(StoreError::Damaged { .. })
    ));
    assert!(store.put_derived(id(2), "d", b"x").is_err());
    assert!(
        store
            .destroy_payload(id(2), Seq(0), 0, Level::Synced)
            .is_err()
    );
    drop(store);
    overwrite(dir.path(), &key, Some(value));
    SledStore::open(dir.path())
        .unwrap()
        .append(batch, Level::Synced)
        .unwrap();
    assert!(!owed.exists());
}

#[test]
fn a_store_that_was_set_back_as_a_whole_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (path, older) = (dir.path().join("store"), dir.path().join("older"));
    let store = SledStore::open(&path).unwrap();
    let conversation = conversation(&store, 1, 3);
    drop(store);
    copy(&path.join("sled"), &older);
    let store = SledStore::open(&path).unwrap();
    let head = store.head(conversation).unwrap().unwrap();
    store
        .append(
            next(conversation, head, vec![record(3, &[])]),
            Level::Synced,
        )
        .unwrap();
    drop(store);
    copy(&older, &path.join("sled"));
    assert!(
        SledStore::open(&path)
            .unwrap_err()
            .to_string()
            .contains("as it was when")
    );
    unseal(&path);
    let refused = SledStore::open(&path).unwrap_err();
    assert!(
        refused.to_string().contains("newest 1 of the writes"),
        "{refused}"
    );
    let store = SledStore::salvage(&path).unwrap();
    assert_eq!(store.check(None).unwrap().len(), 1);
    assert_eq!(read(&store, conversation, 0, 9).unwrap().len(), 3);
}

#[test]
fn one_log_that_was_set_back_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    let conversation = conversation(&store, 1, 3);
    furnish_fork(&store);
    drop(store);
    let before = stored(dir.path());
    let store = SledStore::open(dir.path()).unwrap();
    let head = store.head(conversation).unwrap().unwrap();
    store
        .append(
            next(conversation, head, vec![record(3, &[])]),
            Level::Synced,
        )
        .unwrap();
    drop(store);
    for (key, _) in stored(dir.path()) {
        if key[0] == b'H' || !before.contains_key(&key) {
            overwrite(dir.path(), &key, before.get(&key).cloned());
        }
    }
    let refused = SledStore::open(dir.path()).unwrap_err();
    assert!(
        refused.to_string().contains("at least one log is older"),
        "{refused}"
    );
    assert_eq!(
        SledStore::salvage(dir.path())
            .unwrap()
            .check(None)
            .unwrap()
            .len(),
        1
    );
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
            let mut record = record(round * 10 + number, &[size, 50, size / 2]);
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
    let stranger = sled::open(dir.path().join("sled")).unwrap();
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
        ("a bare sled directory", |p| drop(sled::open(p).unwrap())),
        ("a directory with sled in it", |p| {
            drop(sled::open(p.join("sled")).unwrap())
        }),
        ("a marker of something else", |p| {
            fs::create_dir(p).unwrap();
            fs::write(p.join("CTXLOG"), "something else\n").unwrap();
        }),
        ("a marker with more in it", |p| {
            fs::create_dir(p).unwrap();
            fs::write(p.join("CTXLOG"), "ctxlog store\nformat 1\nand more\n").unwrap();
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
            fs::create_dir_all(p.join("CTXLOG")).unwrap()
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
        "ctxlog store\nformat 2\nwith: something new\n",
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
                found: 2,
                supported: 1,
                ..
            })
        ));
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
        |cut, sample| _ = fs::copy(sample.join("sled/db"), cut.join("sled/db")).unwrap(),
        |cut, _| fs::write(cut.join("CTXLOG.new"), "ctxlog st").unwrap(),
        |cut, _| fs::write(cut.join("CTXLOG.new"), "ctxlog store\nformat 1\n").unwrap(),
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
fn a_store_whose_files_are_gone_is_damaged_not_empty() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    conversation(&store, 1, 3);
    let sled = store.sled_dir();
    drop(store);
    fs::remove_dir_all(&sled).unwrap();
    let gone = SledStore::open(dir.path()).unwrap_err();
    assert!(matches!(gone, StoreError::Damaged { .. }), "{gone}");
    assert!(!sled.exists());
    drop(sled::open(&sled).unwrap());
    let replaced = SledStore::open(dir.path()).unwrap_err();
    assert!(matches!(replaced, StoreError::Damaged { .. }), "{replaced}");
}

/// Every key with its value, read through sled itself.
fn stored(store: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    unseal(store);
    let tree = sled::open(store.join("sled")).unwrap();
    tree.iter()
        .map(|found| found.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap())
        .collect()
}

/// As after a kill: nothing is known about sled's file, so that it is handed to sled.
fn unseal(store: &Path) {
    let _ = fs::remove_file(store.join("CTXLOG.closed"));
}

fn overwrite(store: &Path, key: &[u8], value: Option<Vec<u8>>) {
    let tree = sled::open(store.join("sled")).unwrap();
    match value {
        Some(value) => tree.insert(key, value).unwrap(),
        None => tree.remove(key).unwrap(),
    };
    tree.flush().unwrap();
    drop(tree);
    unseal(store);
}

fn flipped(value: &[u8], bit: usize) -> Vec<u8> {
    let mut value = value.to_vec();
    let bit = bit % (value.len() * 8);
    value[bit / 8] ^= 1 << (bit % 8);
    value
}

/// The place that a finding names.
fn place(error: &StoreError) -> (Option<ConversationId>, Option<Seq>) {
    match error {
        StoreError::Damaged {
            conversation, seq, ..
        } => (*conversation, *seq),
        other => panic!("{other}"),
    }
}

/// Where a check should find fault with a key.
fn expected_place(key: &[u8]) -> (Option<ConversationId>, Option<Seq>) {
    let owner = || ConversationId(key[1..17].try_into().unwrap());
    let seq = || Seq(u64::from_be_bytes(key[17..25].try_into().unwrap()));
    match key[0] {
        b'L' | b'P' => (Some(owner()), Some(seq())),
        b'H' => (
            Some(owner()),
            Some(Seq(if owner() == id(3) { 3 } else { 6 })),
        ),
        b'B' | b'D' => (Some(owner()), None),
        b'N' => (None, Some(Seq(0))),
        _ => (None, None),
    }
}

/// One furnished store, and what lies in it.
fn sample() -> (tempfile::TempDir, BTreeMap<Vec<u8>, Vec<u8>>) {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    furnish(&store);
    assert!(store.check(None).unwrap().is_empty());
    drop(store);
    let stored = stored(dir.path());
    assert_eq!(
        stored
            .keys()
            .map(|key| key[0])
            .collect::<std::collections::BTreeSet<_>>(),
        b"BDHLMNPT".iter().copied().collect()
    );
    (dir, stored)
}

#[test]
fn a_flipped_bit_in_any_value_is_found_and_placed() {
    let (dir, stored) = sample();
    let mut trials = 0;
    for (number, (key, value)) in stored.iter().enumerate() {
        for bit in [number * 7919 + 3, 0, value.len() * 8 - 1] {
            overwrite(dir.path(), key, Some(flipped(value, bit)));
            if matches!(key[0], b'M' | b'T') {
                let opened = SledStore::open(dir.path());
                assert!(matches!(opened, Err(StoreError::Damaged { .. })));
            }
            let store = SledStore::salvage(dir.path()).unwrap();
            let found = store.check(None).unwrap();
            let (owner, seq) = expected_place(key);
            let hit = found
                .iter()
                .map(place)
                .any(|(o, s)| s == seq && (owner.is_none() || o == owner));
            assert!(hit, "bit {bit} of {key:02x?}: {found:?}");
            if let Some(owner) = owner {
                assert!(!store.check(Some(owner)).unwrap().is_empty());
            }
            trials += 1;
        }
        overwrite(dir.path(), key, Some(value.clone()));
    }
    assert!(trials > 3 * 50, "{trials}");
    assert!(
        SledStore::open(dir.path())
            .unwrap()
            .check(None)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_removed_or_misplaced_value_is_found() {
    let (dir, stored) = sample();
    let keys: Vec<_> = stored.keys().collect();
    for (key, after) in keys.iter().zip(keys.iter().cycle().skip(1)) {
        // The whole of a blob or of derived data may be absent, a part of it may not.
        let whole_may_go = matches!(key[0], b'B' | b'D') && !after.starts_with(key);
        for value in [None, Some(stored[*after].clone())] {
            if value.is_none() && whole_may_go && key.len() < 50 {
                continue;
            }
            let removed = value.is_none();
            overwrite(dir.path(), key, value);
            let store = SledStore::salvage(dir.path()).unwrap();
            let found = store.check(None).unwrap();
            assert!(!found.is_empty(), "removed: {removed}, {key:02x?}");
        }
        overwrite(dir.path(), key, Some(stored[*key].clone()));
    }
    assert!(
        SledStore::open(dir.path())
            .unwrap()
            .check(None)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_log_shorter_or_longer_than_its_head_record_is_damage_to_readers_and_writers() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    let conversation = conversation(&store, 1, 5);
    let head = store.head(conversation).unwrap().unwrap();
    drop(store);
    let all = stored(dir.path());
    let entry_key = |seq: u64| {
        all.keys()
            .filter(|k| k[0] == b'L')
            .nth(seq as usize)
            .unwrap()
            .clone()
    };
    let continued = || next(conversation, head, vec![record(5, &[])]);
    for lost in [4, 2, 0] {
        overwrite(dir.path(), &entry_key(lost), None);
        let store = SledStore::open(dir.path()).unwrap();
        let broken = read(&store, conversation, 0, 99).unwrap_err();
        assert_eq!(place(&broken), (Some(conversation), Some(Seq(lost))));
        let found = store.check(Some(conversation)).unwrap();
        assert_eq!(
            found.iter().map(place).collect::<Vec<_>>(),
            [(Some(conversation), Some(Seq(lost)))]
        );
        if lost == 4 {
            assert!(matches!(
                store.append(continued(), Level::Synced),
                Err(StoreError::Damaged { .. })
            ));
        }
        drop(store);
        overwrite(
            dir.path(),
            &entry_key(lost),
            Some(all[&entry_key(lost)].clone()),
        );
    }
    let mut beyond = entry_key(4);
    *beyond.last_mut().unwrap() = 5;
    overwrite(dir.path(), &beyond, Some(all[&entry_key(4)].clone()));
    let store = SledStore::open(dir.path()).unwrap();
    assert!(matches!(
        store.append(continued(), Level::Synced),
        Err(StoreError::Damaged { .. })
    ));
    assert_eq!(
        store.check(None).unwrap().len(),
        2,
        "outside the head record, and a wrong checksum"
    );
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
    let records = (0..200).map(|seq| record(seq, &[20_000])).collect();
    store
        .append(birth(id(1), name(&["t"], "a"), records), Level::Buffered)
        .unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for seq in 0..200_u64 {
                store
                    .destroy_payload(id(1), Seq(seq), 0, Level::Buffered)
                    .unwrap();
                let version = payload(9_000 + seq as usize, seq as u8).bytes;
                store.put_derived(id(1), "d", &version).unwrap();
            }
        });
        for seq in (0..200_u64).cycle().take(2_000) {
            let found = store.payload(id(1), Seq(seq), 0).unwrap();
            assert!(found.is_none_or(|p| p == payload(20_000, seq as u8)));
            if let Some(bytes) = store.derived(id(1), "d").unwrap() {
                let seq = bytes.len() - 9_000;
                assert_eq!(bytes, payload(9_000 + seq, seq as u8).bytes);
            }
        }
    });
    assert!(store.payload(id(1), Seq(199), 0).unwrap().is_none());
}

/// The part of these tests that runs in a process of its own; does nothing unless told to.
#[test]
fn child() {
    let Ok(path) = std::env::var("CTXLOG_TEST_CHILD") else {
        return;
    };
    let store = match SledStore::open(&path) {
        Err(StoreError::Busy { .. }) => return println!("busy"),
        opened => opened.unwrap(),
    };
    println!("open");
    if std::env::var("CTXLOG_TEST_HOLD").is_ok() {
        let _ = std::io::stdin().lines().next();
        return;
    }
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || append_for_ever(store, id(thread)));
        }
    });
}

/// Appends, and prints every acknowledgement.
fn append_for_ever(store: &SledStore, conversation: ConversationId) {
    loop {
        let head = store.head(conversation).unwrap();
        let seq = head.map_or(0, |head| head.seq.0 + 1);
        let records = vec![record(seq, &[100]), record(seq + 1, &[6_000])];
        let batch = match head {
            None => birth(
                conversation,
                name(&["t"], &conversation.to_string()),
                records,
            ),
            Some(head) => next(conversation, head, records),
        };
        store.append(batch, Level::Flushed).unwrap();
        let line = format!("acked {conversation} {}\n", seq + 1);
        std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
    }
}

fn start_child(path: &Path, hold: bool) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
    command
        .env("CTXLOG_TEST_CHILD", path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    if hold {
        command.env("CTXLOG_TEST_HOLD", "1");
    }
    command.spawn().unwrap()
}

#[test]
fn another_process_makes_the_store_busy_until_it_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut holder = start_child(dir.path(), true);
    let mut lines = BufReader::new(holder.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    assert!(lines.any(|line| line.ends_with("open")));
    assert!(matches!(
        SledStore::open(dir.path()),
        Err(StoreError::Busy { .. })
    ));
    holder.kill().unwrap();
    holder.wait().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    let second = start_child(dir.path(), true).wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&second.stdout).contains("busy"));
    drop(store);
}

/// Kills at ever other instants, from the first moments of opening on, in one directory that
/// grows. `CTXLOG_KILLS` sets how many (12).
#[test]
fn nothing_acknowledged_is_lost_to_a_killed_process() {
    let kills = std::env::var("CTXLOG_KILLS").map_or(12, |n| n.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let mut acked: BTreeMap<String, u64> = BTreeMap::new();
    for kill in 0..kills {
        let mut child = start_child(dir.path(), false);
        let stdout = child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            BufReader::new(stdout)
                .lines()
                .map_while(Result::ok)
                .collect::<Vec<_>>()
        });
        std::thread::sleep(Duration::from_millis(5 + (kill * 83) % 300));
        child.kill().unwrap();
        child.wait().unwrap();
        for line in reader.join().unwrap() {
            let words: Vec<_> = line.split_whitespace().collect();
            if let ["acked", conversation, seq] = words[..] {
                acked.insert(conversation.to_owned(), seq.parse().unwrap_or(0));
            }
        }
        let store = SledStore::open(dir.path()).unwrap();
        assert_eq!(
            format!("{:?}", store.check(None).unwrap()),
            "[]",
            "kill {kill}"
        );
        for (conversation, seq) in &acked {
            let conversation = conversation.parse().unwrap();
            assert!(
                store.head(conversation).unwrap().unwrap().seq.0 >= *seq,
                "kill {kill}"
            );
        }
        let head = store.head(id(0)).unwrap();
        if let Some(head) = head {
            let record = record(head.seq.0 + 1, &[1]);
            store
                .append(next(id(0), head, vec![record]), Level::Synced)
                .unwrap();
        }
    }
    let total: u64 = acked.values().sum();
    assert!(
        total > 100,
        "the kills hit a store that was being written: {total}"
    );
    println!("{kills} kills, {total} acknowledged entries, none lost");
}

/// What came of opening and reading a damaged store.
#[derive(Debug, Default)]
struct Outcomes {
    unreadable: u32,
    refused: u32,
    reported: u32,
    unharmed: u32,
}

/// Opens, checks, reads everything: no panic comes out, and what was lost or changed is reported.
fn survive(path: &Path, whole: &BTreeMap<String, Vec<u8>>, outcomes: &mut Outcomes, what: &str) {
    let store = match SledStore::open(path) {
        Ok(store) => store,
        Err(StoreError::Damaged { .. } | StoreError::Io { .. }) => {
            outcomes.refused += 1;
            match SledStore::salvage(path) {
                Ok(store) if store.check(None).unwrap().is_empty() => {
                    assert_eq!(contents(&store).unwrap(), *whole, "{what}");
                }
                Ok(_) => {}
                Err(StoreError::Damaged { .. } | StoreError::Io { .. }) => outcomes.unreadable += 1,
                Err(other) => panic!("{what}: {other}"),
            }
            return;
        }
        Err(other) => panic!("{what}: {other}"),
    };
    let found = store.check(None).unwrap();
    match contents(&store) {
        Err(_) => outcomes.reported += 1,
        Ok(now) if now == *whole => outcomes.unharmed += 1,
        Ok(now) => {
            let lost = whole
                .iter()
                .filter(|(key, value)| now.get(*key) != Some(*value));
            let lost: Vec<_> = lost.map(|(key, _)| key).collect();
            assert!(
                !found.is_empty(),
                "{what}: changed and not reported: {lost:?}"
            );
            outcomes.reported += 1;
        }
    }
}

/// sled would overwrite everything behind the damage, so it may not be started.
#[test]
fn a_file_that_changed_while_it_was_closed_is_refused_untouched_and_salvaged_from_a_copy() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    furnish(&store);
    let first = store.head(id(0)).unwrap();
    drop(store);
    let db = dir.path().join("sled/db");
    let whole = fs::read(&db).unwrap();
    let written = whole.iter().rposition(|byte| *byte != 0).unwrap();
    for place in [30, written / 3, written / 2, written] {
        fs::write(&db, flipped(&whole, place * 8 + 3)).unwrap();
        let before = tree(dir.path());
        let refused = SledStore::open(dir.path()).unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("as it was when the store was closed"),
            "{refused}"
        );
        if let Ok(store) = SledStore::salvage(dir.path()) {
            assert!(!store.check(None).unwrap().is_empty());
        }
        assert_eq!(tree(dir.path()), before);
    }
    fs::write(&db, &whole[..written]).unwrap();
    assert!(SledStore::open(dir.path()).is_err(), "cut short");
    fs::write(&db, &whole).unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    assert_eq!(store.head(id(0)).unwrap(), first);
    assert!(store.check(None).unwrap().is_empty());
}

/// `CTXLOG_FLIPS` sets how many bits are flipped (160).
#[test]
fn flipped_bits_in_sleds_files_are_reported_or_harmless() {
    flip_bits(160, furnish);
}

/// So many pages that most are read only when they are asked for, from a file of many segments.
#[test]
fn flipped_bits_in_a_file_of_many_segments_are_reported_or_harmless() {
    flip_bits(40, |store| {
        furnish(store);
        for number in 10..20 {
            let records = (0..60).map(|seq| record(seq, &[2_500])).collect();
            let batch = birth(id(number), name(&["t"], &format!("c{number}")), records);
            store.append(batch, Level::Flushed).unwrap();
        }
    });
}

fn flip_bits(trials: u64, furnish: impl Fn(&SledStore)) {
    let trials = std::env::var("CTXLOG_FLIPS").map_or(trials, |n| n.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let (sample, fresh) = (dir.path().join("sample"), dir.path().join("fresh"));
    let store = SledStore::open(&sample).unwrap();
    furnish(&store);
    let whole = contents(&store).unwrap();
    drop(store);
    copy(&sample, &fresh); // all of it will be read at open
    drop(SledStore::open(&sample).unwrap()); // writes a snapshot; most pages are read when needed
    let mut outcomes = Outcomes::default();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % below).unwrap()
    };
    for number in 0..trials {
        let trial = dir.path().join("trial");
        let snapshot = number % 16 == 1;
        copy(
            if number % 3 == 0 && !snapshot {
                &fresh
            } else {
                &sample
            },
            &trial,
        );
        let file = match number % 16 {
            1 => snapshots(&trial).remove(0),
            2 => trial.join("sled/conf"),
            _ => trial.join("sled/db"),
        };
        let bytes = fs::read(&file).unwrap();
        let written = bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1;
        let bit = draw(written * 8);
        fs::write(&file, flipped(&bytes, bit)).unwrap();
        if number % 2 == 0 {
            unseal(&trial);
        }
        let what = format!("trial {number}: bit {bit} of {}", file.display());
        survive(&trial, &whole, &mut outcomes, &what);
    }
    println!("{trials} flips: {outcomes:?}");
    assert!(
        outcomes.refused + outcomes.reported > 0,
        "some flips must do harm: {outcomes:?}"
    );
}

#[test]
fn files_cut_short_are_reported_or_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let (sample, trial) = (dir.path().join("sample"), dir.path().join("trial"));
    let store = SledStore::open(&sample).unwrap();
    furnish(&store);
    let whole = contents(&store).unwrap();
    drop(store);
    let db = fs::read(sample.join("sled/db")).unwrap();
    let written = db.iter().rposition(|byte| *byte != 0).unwrap();
    let mut outcomes = Outcomes::default();
    for cut in (0..20).map(|n| written * n / 20) {
        copy(&sample, &trial);
        fs::write(trial.join("sled/db"), &db[..cut]).unwrap();
        if cut % 2 == 0 {
            unseal(&trial);
        }
        survive(&trial, &whole, &mut outcomes, &format!("cut at {cut}"));
    }
    println!("{outcomes:?}");
    assert!(outcomes.refused + outcomes.reported > 0);
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
