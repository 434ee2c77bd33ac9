//! Tests of what only the inside can bring about: a disk that refuses to sync.

use std::fs::File;

use super::*;
use crate::store::Record;

/// A file whose every sync fails.
fn device() -> File {
    let device = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .unwrap();
    assert!(device.sync_data().is_err(), "the fault is there");
    device
}

/// A store whose journal, or else sled's file, answers every sync with an error.
fn unsyncable(dir: &Path, journal: bool) -> SledStore {
    drop(SledStore::open(dir).unwrap());
    let directory = Directory::lock(dir).unwrap();
    let engine = open::engine(&directory, 1 << 20).unwrap_or_else(|e| panic!("{e}"));
    let tally = open::verify(&engine, &directory).unwrap();
    let synced = Synced {
        tally,
        ..Synced::default()
    };
    let (engine, journal) = if journal {
        (engine, Journal::onto(device()))
    } else {
        let journal = Journal::new(directory.journal(), 0);
        (engine.with_sync_file(device()), journal)
    };
    let shared = share(engine, &directory, synced, Some(journal)).unwrap();
    SledStore::run(shared, directory, None).unwrap()
}

/// A new store without the thread that brings into the tree what nobody waits for.
fn without_a_thread(dir: &Path) -> (Directory, Shared) {
    let directory = Directory::lock(dir).unwrap();
    let engine = open::engine(&directory, 1 << 20).unwrap_or_else(|e| panic!("{e}"));
    let tally = open::establish(&engine, &directory).unwrap();
    let synced = Synced {
        tally,
        ..Synced::default()
    };
    let journal = Journal::new(directory.journal(), 0);
    let shared = share(engine, &directory, synced, Some(journal)).unwrap();
    (directory, shared)
}

fn batch(head: Option<Head>) -> Batch {
    let seq = head.map_or(Seq(0), |head| head.seq.next());
    let record = Record {
        seq,
        hash: Hash([1; 32]),
        entry: vec![2; 80],
        payloads: Vec::new(),
    };
    let name = Name {
        namespace: vec!["t".into()],
        name: "a".into(),
    };
    let birth = head.is_none().then_some(name);
    Batch {
        conversation: ConversationId([3; 16]),
        expected: head,
        birth,
        records: vec![record],
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_failed_sync_is_indeterminate_and_poisons_the_handle() {
    let dir = tempfile::tempdir().unwrap();
    let store = unsyncable(dir.path(), true);
    store.append(batch(None), Level::Flushed).unwrap();
    let conversation = ConversationId([3; 16]);
    let head = store.head(conversation).unwrap();
    let unknown = store.append(batch(head), Level::Synced);
    assert!(
        matches!(unknown, Err(StoreError::Indeterminate { .. })),
        "{unknown:?}"
    );
    assert_eq!(
        store.durable_head(conversation).unwrap(),
        None,
        "nothing was ever synced"
    );
    let head = store.head(conversation).unwrap();
    for level in [Level::Buffered, Level::Flushed, Level::Synced] {
        let refused = store.append(batch(head), level);
        assert!(
            matches!(refused, Err(StoreError::Poisoned { .. })),
            "{refused:?}"
        );
        assert!(matches!(
            store.sync(level),
            Err(StoreError::Poisoned { .. })
        ));
    }
    assert_eq!(store.head(conversation).unwrap(), head, "reading goes on");
    drop(store);
    assert!(
        !dir.path().join("CTXLOG.closed").exists(),
        "no seal over what may not be there"
    );
    let store = SledStore::open(dir.path()).unwrap();
    assert_eq!(
        store.durable_head(conversation).unwrap(),
        store.head(conversation).unwrap()
    );
}

#[cfg(target_os = "linux")]
#[test]
fn syncing_brings_what_was_only_flushed_to_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let store = unsyncable(dir.path(), true);
    store.append(batch(None), Level::Flushed).unwrap();
    store.sync(Level::Flushed).unwrap();
    assert!(matches!(
        store.sync(Level::Synced),
        Err(StoreError::Indeterminate { .. })
    ));
}

/// What the journal has on the disk survives a tree that cannot be written.
#[cfg(target_os = "linux")]
#[test]
fn a_tree_that_cannot_be_synced_costs_nothing_that_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let conversation = ConversationId([3; 16]);
    let store = unsyncable(dir.path(), false);
    store.append(batch(None), Level::Synced).unwrap();
    let head = store.head(conversation).unwrap();
    assert_eq!(store.durable_head(conversation).unwrap(), head);
    let destroyed = store.destroy_payload(conversation, Seq(0), 0, Level::Synced);
    assert!(
        matches!(destroyed, Err(StoreError::Indeterminate { .. })),
        "{destroyed:?}"
    );
    assert_eq!(store.head(conversation).unwrap(), head, "reading goes on");
    drop(store);
    assert!(dir.path().join("CTXLOG.journal").exists());
    for _ in 0..2 {
        let store = SledStore::open(dir.path()).unwrap();
        assert_eq!(store.head(conversation).unwrap(), head);
        assert_eq!(store.durable_head(conversation).unwrap(), head);
        assert_eq!(store.check(None).unwrap().len(), 0);
        drop(store);
        assert!(!dir.path().join("CTXLOG.journal").exists());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_journal_that_is_gone_or_damaged_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let store = unsyncable(dir.path(), false);
    store.append(batch(None), Level::Synced).unwrap();
    assert!(
        store
            .destroy_payload(ConversationId([3; 16]), Seq(0), 0, Level::Synced)
            .is_err()
    );
    drop(store);
    let path = dir.path().join("CTXLOG.journal");
    let whole = std::fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    flipped[3 * 4096 + 100] ^= 4;
    for (journal, what) in [
        (None, "gone"),
        (Some(flipped), "group 1 is damaged"),
        (Some(vec![]), "head"),
    ] {
        match journal {
            None => std::fs::remove_file(&path).unwrap(),
            Some(bytes) => std::fs::write(&path, bytes).unwrap(),
        }
        let refused = SledStore::open(dir.path()).unwrap_err();
        assert!(refused.to_string().contains(what), "{refused}");
        let salvaged = SledStore::salvage(dir.path()).unwrap();
        let found = salvaged.check(None).unwrap();
        assert!(
            found.iter().any(|f| f.to_string().contains(what)),
            "{found:?}"
        );
    }
    std::fs::write(&path, whole).unwrap();
    let salvaged = SledStore::salvage(dir.path()).unwrap();
    assert_eq!(
        salvaged
            .head(ConversationId([3; 16]))
            .unwrap()
            .map(|head| head.seq),
        Some(Seq(0))
    );
    drop(salvaged);
    assert!(path.exists(), "salvage changes nothing");
    drop(SledStore::open(dir.path()).unwrap());
    assert!(!path.exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_failed_sync_in_the_background_poisons_the_handle() {
    let dir = tempfile::tempdir().unwrap();
    let store = unsyncable(dir.path(), true);
    store.append(batch(None), Level::Buffered).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    let head = store.head(ConversationId([3; 16])).unwrap();
    let refused = store.append(batch(head), Level::Buffered);
    assert!(
        matches!(refused, Err(StoreError::Poisoned { .. })),
        "{refused:?}"
    );
}

#[test]
fn one_group_takes_many_appends_and_each_has_its_own_outcome() {
    let dir = tempfile::tempdir().unwrap();
    let (directory, shared) = without_a_thread(dir.path());
    let conversation = ConversationId([3; 16]);
    let mut head = None;
    for number in 0..200_u64 {
        let seq = head.map_or(Seq(0), |head: Head| head.seq.next());
        let newest = Head {
            seq,
            hash: Hash([1; 32]),
        };
        // Every tenth expects a head that the one before it in the same group moved away.
        let stale = number % 10 == 9;
        let birth = head.is_none().then(|| Name {
            namespace: vec!["t".into()],
            name: "a".into(),
        });
        let other = Head {
            hash: Hash([9; 32]),
            ..newest
        };
        let claim = Claim {
            conversation,
            expected: if stale { Some(other) } else { head },
            birth,
            first: seq,
            newest,
        };
        let record = Arc::new(vec![0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0]);
        let accepted = shared.append(claim, vec![record], Level::Buffered);
        assert_eq!(matches!(accepted, Err(StoreError::Stale { .. })), stale);
        assert_eq!(accepted.is_ok(), !stale);
        if !stale {
            head = Some(newest);
        }
    }
    assert_eq!(shared.span(conversation).unwrap().map(|s| s.head), head);
    assert_eq!(shared.durable(conversation).unwrap(), None);
    shared.sync(Level::Synced).unwrap();
    assert_eq!(shared.durable(conversation).unwrap(), head);
    assert_eq!(
        directory.synced().unwrap().map(|synced| synced.group),
        Some(1),
        "one group"
    );
    shared.settle().unwrap();
    let found = check::check(&shared.engine, shared.gate_of(), Some(conversation));
    assert_eq!(found.len(), 0, "{found:?}");
}

/// Who writes the tree also writes late appends to the journal, and must not wait for room there: only
/// they themselves would make it.
#[test]
fn whoever_writes_the_tree_does_not_wait_for_room_in_the_journal() {
    let dir = tempfile::tempdir().unwrap();
    let (_directory, shared) = without_a_thread(dir.path());
    let shared = Arc::new(shared);
    let conversation = ConversationId([3; 16]);
    let mut record = batch(None).records.remove(0);
    record.entry = vec![7; 1 << 20];
    let record = Arc::new(record::encode(&record));
    let head_at = |seq: u64| Head {
        seq: Seq(seq),
        hash: Hash([1; 32]),
    };
    let claim = |seq: u64| Claim {
        conversation,
        expected: seq.checked_sub(1).map(head_at),
        birth: (seq == 0).then(|| Name {
            namespace: vec!["t".into()],
            name: "a".into(),
        }),
        first: Seq(0),
        newest: head_at(seq),
    };
    // No thread brings anything into the tree here, so that the journal fills up.
    for seq in 0..7 {
        let level = Level::Synced;
        shared
            .append(claim(seq), vec![Arc::clone(&record)], level)
            .unwrap();
    }
    let large = vec![Arc::clone(&record), Arc::clone(&record)];
    let both = Claim {
        newest: head_at(8),
        ..claim(7)
    };
    shared.append(both, large, Level::Buffered).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(350));
    let (done, wait) = std::sync::mpsc::channel();
    let writer = Arc::clone(&shared);
    std::thread::spawn(move || {
        writer.note_beside_the_tree();
        let _ = done.send(());
    });
    let in_time = wait.recv_timeout(std::time::Duration::from_secs(20));
    assert!(in_time.is_ok(), "it waits for itself");
    assert_eq!(shared.durable(conversation).unwrap(), Some(head_at(6)));
    // Whoever does not write the tree makes room.
    shared.sync(Level::Synced).unwrap();
    assert_eq!(shared.durable(conversation).unwrap(), Some(head_at(8)));
    let found = check::check(&shared.engine, shared.gate_of(), Some(conversation));
    assert_eq!(found.len(), 0, "{found:?}");
}

/// What is in the tree when bringing many blocks into it was cut off before the first of them.
#[test]
fn keys_that_a_crash_left_ahead_of_their_blocks_are_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let conversation = ConversationId([3; 16]);
    let store = SledStore::open(dir.path()).unwrap();
    store.append(batch(None), Level::Synced).unwrap();
    let head = store.head(conversation).unwrap();
    drop(store);
    {
        let directory = Directory::lock(dir.path()).unwrap();
        let engine = open::engine(&directory, 1 << 20).unwrap_or_else(|e| panic!("{e}"));
        let tally = open::verify(&engine, &directory).unwrap();
        let ahead = (1..99).map(|seq| keys::block(conversation, Seq(seq)));
        let mut changes: Vec<_> = ahead
            .map(|key| (key.clone(), Some(reserved::value(&key))))
            .collect();
        changes.push(reserved::note(&[conversation]));
        changes.push(tally.counted().change());
        engine.apply(changes).unwrap();
        engine.sync().unwrap();
    }
    let salvaged = SledStore::salvage(dir.path()).unwrap();
    assert_eq!(salvaged.check(None).unwrap().len(), 0);
    drop(salvaged);
    let store = SledStore::open(dir.path()).unwrap();
    assert_eq!(store.check(None).unwrap().len(), 0);
    assert_eq!(store.engine().value(&[keys::RESERVED]).unwrap(), None);
    let left = store.engine().value(&keys::block(conversation, Seq(5)));
    assert_eq!(left.unwrap(), None);
    store.append(batch(head), Level::Synced).unwrap();
    drop(store);
    let store = SledStore::open(dir.path()).unwrap();
    assert_eq!(store.check(None).unwrap().len(), 0);
    let head = store.head(conversation).unwrap();
    assert_eq!(head.map(|head| head.seq), Some(Seq(1)));
}

/// Between the keys of many blocks and their values: their records still wait and are read from there.
#[test]
fn whoever_reads_on_while_keys_are_ahead_of_their_blocks_reads_what_waits() {
    let dir = tempfile::tempdir().unwrap();
    let conversation = ConversationId([3; 16]);
    let store = SledStore::open(dir.path()).unwrap();
    store.append(batch(None), Level::Synced).unwrap();
    store.shared().settle().unwrap();
    let head = store.head(conversation).unwrap();
    let ahead = keys::block(conversation, Seq(1));
    let value = reserved::value(&ahead);
    store.engine().put(&ahead, value).unwrap();
    store.append(batch(head), Level::Buffered).unwrap();
    let mut shown = Vec::new();
    let mut show = |seq: Seq, _: &[u8]| {
        shown.push(seq);
        std::ops::ControlFlow::Continue(())
    };
    let read = store.entries(conversation, Seq(0), Seq(1), &mut show);
    assert!(read.is_ok(), "{read:?}");
    assert_eq!(shown, [Seq(0), Seq(1)]);
}

#[test]
fn a_panic_inside_sled_becomes_damage_in_its_words() {
    let panics = || -> ::sled::Result<()> { panic!("page {} is gone", 7) };
    let caught = engine::guarded("reading", panics).unwrap_err();
    assert!(matches!(caught, StoreError::Damaged { .. }));
    assert!(
        caught
            .to_string()
            .contains("sled panicked while reading: page 7 is gone"),
        "{caught}"
    );
}
