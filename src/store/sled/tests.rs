//! Tests of what only the inside can bring about: a disk that refuses to sync.

use std::fs::File;

use super::*;
use crate::store::Record;

/// A store whose sync goes to a device that answers every sync with an error.
fn unsyncable(dir: &Path) -> SledStore {
    drop(SledStore::open(dir).unwrap());
    let directory = Directory::lock(dir).unwrap();
    let device = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .unwrap();
    assert!(device.sync_data().is_err(), "the fault is there");
    let engine = open::engine(&directory, 1 << 20).unwrap_or_else(|e| panic!("{e}"));
    let tally = open::verify(&engine, &directory).unwrap();
    SledStore::run(engine.with_sync_file(device), directory, tally, None).unwrap()
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
    let store = unsyncable(dir.path());
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

/// sled's flush finds nothing to do and says so; the sync is asked for all the same.
#[cfg(target_os = "linux")]
#[test]
fn syncing_asks_the_disk_even_when_sled_has_nothing_to_flush() {
    let dir = tempfile::tempdir().unwrap();
    let store = unsyncable(dir.path());
    store.sync(Level::Flushed).unwrap();
    assert!(matches!(
        store.sync(Level::Synced),
        Err(StoreError::Indeterminate { .. })
    ));
}

#[cfg(target_os = "linux")]
#[test]
fn a_failed_sync_in_the_background_poisons_the_handle() {
    let dir = tempfile::tempdir().unwrap();
    let store = unsyncable(dir.path());
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
    let directory = Directory::lock(dir.path()).unwrap();
    let engine = open::engine(&directory, 1 << 20).unwrap_or_else(|e| panic!("{e}"));
    let tally = open::establish(&engine, &directory).unwrap();
    let shared = Shared::new(
        engine,
        Media::new(directory.blobs()),
        tally,
        directory.receipt().unwrap(),
    );
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
        let record: Arc<[u8]> = vec![0; 8].into();
        let accepted = shared.append(claim, vec![record], Level::Buffered);
        assert_eq!(matches!(accepted, Err(StoreError::Stale { .. })), stale);
        assert_eq!(accepted.is_ok(), !stale);
        if !stale {
            head = Some(newest);
        }
    }
    assert_eq!(shared.span(conversation).unwrap().map(|s| s.head), head);
    assert_eq!(shared.durable(conversation).unwrap(), None);
    shared.write(Vec::new(), Level::Synced).unwrap();
    assert_eq!(shared.durable(conversation).unwrap(), head);
    assert_eq!(
        directory.synced().unwrap().map(|tally| tally.groups),
        Some(1),
        "one group"
    );
    let found = check::check(&shared.engine, shared.gate_of(), Some(conversation));
    assert_eq!(found.len(), 0, "{found:?}");
}

/// What is in the tree when the writing of a record alone was cut off: nothing but the tally, or the
/// record too.
#[test]
fn a_record_that_was_cut_off_is_taken_back_and_one_that_was_synced_is_missed() {
    for with_record in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let store = SledStore::open(dir.path()).unwrap();
        store.append(batch(None), Level::Synced).unwrap();
        let conversation = ConversationId([3; 16]);
        let head = store.head(conversation).unwrap();
        drop(store);
        let cut = |head: Option<Head>, synced: bool| {
            let directory = Directory::lock(dir.path()).unwrap();
            let engine = open::engine(&directory, 1 << 20).unwrap_or_else(|e| panic!("{e}"));
            let before = open::verify(&engine, &directory).unwrap();
            let span = tail::read_span(&engine, conversation).unwrap();
            let newest = batch(head).records.remove(0);
            let to = frame::Span {
                first: Seq(0),
                head: Head {
                    seq: newest.seq,
                    hash: newest.hash,
                },
            };
            let tally = before.moved(conversation, span, to).counted();
            let key = keys::entry(conversation, newest.seq);
            engine.put(tally.ahead(before, &key)).unwrap();
            if with_record {
                let mut changes = Vec::new();
                frame::write_content(&key, &record::encode(&newest), &mut changes);
                engine.put(changes.remove(0)).unwrap();
            }
            if synced {
                directory.receipt().unwrap().write(tally).unwrap();
            }
        };
        cut(head, false);
        let store = SledStore::open(dir.path()).unwrap();
        assert_eq!(store.check(None).unwrap().len(), 0);
        assert_eq!(store.head(conversation).unwrap(), head);
        store.append(batch(head), Level::Synced).unwrap();
        drop(store);
        let store = SledStore::open(dir.path()).unwrap();
        assert_eq!(store.check(None).unwrap().len(), 0);
        let head = store.head(conversation).unwrap();
        assert_eq!(head.map(|head| head.seq), Some(Seq(1)));
        drop(store);
        cut(head, true);
        let refused = SledStore::open(dir.path()).unwrap_err();
        assert!(
            refused.to_string().contains("at least one log is older"),
            "{refused}"
        );
    }
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
