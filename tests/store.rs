//! What every store must do: each test runs on the store in memory, on the one that fails on purpose
//! (where nothing is planned), and on the one in a directory.

#![allow(
    clippy::cast_possible_truncation,
    clippy::items_after_statements,
    reason = "tests make small numbers into bytes, and say what a thing is where it is used"
)]

mod store_support;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ctxlog::log::{Hash, Head, Seq};
use ctxlog::store::{
    BLOB_BYTES_MAX, Backend, ENTRY_BYTES_MAX, Level, MemoryStore, NAME_BYTES_MAX, Record,
    SledStore, StoreError,
};
use proptest::prelude::*;
use store_support::*;

/// Runs a test on each store, given also a way to close and open it again.
fn each(test: impl Fn(&dyn Backend)) {
    test(&MemoryStore::new());
    #[cfg(feature = "testkit")]
    test(&ctxlog::testkit::fault::FaultStore::new(1).with_background(30));
    let dir = tempfile::tempdir().unwrap();
    test(&SledStore::open(dir.path()).unwrap());
}

#[test]
fn an_append_becomes_the_head_at_every_level() {
    each(|store| {
        let mut head = None;
        for (seq, level) in (0..).zip([
            Level::Synced,
            Level::Buffered,
            Level::Flushed,
            Level::Synced,
        ]) {
            let record = record(seq, &[10]);
            let newest = head_of(&record);
            let batch = match head {
                None => birth(id(1), name(&["t"], "a"), vec![record]),
                Some(head) => next(id(1), head, vec![record]),
            };
            store.append(batch, level).unwrap();
            assert_eq!(store.head(id(1)).unwrap(), Some(newest));
            head = Some(newest);
        }
        assert_eq!(store.durable_head(id(1)).unwrap(), head);
        assert_eq!(store.head(id(2)).unwrap(), None);
        assert_eq!(store.durable_head(id(2)).unwrap(), None);
    });
}

#[test]
fn an_append_at_another_head_is_stale_and_writes_nothing() {
    each(|store| {
        let conversation = conversation(store, 1, 3);
        let head = store.head(conversation).unwrap().unwrap();
        let before = read(store, conversation, 0, 99).unwrap();
        let other_hash = Head {
            seq: head.seq,
            hash: Hash([9; 32]),
        };
        let older = Head {
            seq: Seq(1),
            hash: record(1, &[50]).hash,
        };
        for (expected, seq) in [(other_hash, 3), (older, 2)] {
            let refused = store.append(
                next(conversation, expected, vec![record(seq, &[])]),
                Level::Synced,
            );
            assert!(matches!(refused, Err(StoreError::Stale { head: Some(h) }) if h == head));
        }
        let again = birth(conversation, name(&["t"], "other"), vec![record(0, &[])]);
        assert!(
            matches!(store.append(again, Level::Synced), Err(StoreError::Stale { head: Some(h) }) if h == head)
        );
        let unborn = next(id(9), head, vec![record(3, &[])]);
        assert!(matches!(
            store.append(unborn, Level::Synced),
            Err(StoreError::Stale { head: None })
        ));
        assert_eq!(read(store, conversation, 0, 99).unwrap(), before);
        assert_eq!(store.find(&name(&["t"], "other")).unwrap(), None);
        assert_eq!(store.list(&[]).unwrap().len(), 1);
    });
}

#[test]
fn a_taken_name_is_refused_and_says_who_has_it() {
    each(|store| {
        let first = conversation(store, 1, 1);
        let batch = birth(id(2), name(&["t"], "c1"), vec![record(0, &[])]);
        let refused = store.append(batch, Level::Synced);
        assert!(
            matches!(refused, Err(StoreError::NameTaken { conversation, .. }) if conversation == first)
        );
        assert_eq!(store.head(id(2)).unwrap(), None);
        assert!(read(store, id(2), 0, 9).unwrap().is_empty());
    });
}

#[test]
fn a_batch_that_contradicts_itself_is_refused() {
    each(|store| {
        let conversation = conversation(store, 1, 2);
        let head = store.head(conversation).unwrap().unwrap();
        let mut unnamed = birth(id(2), name(&["t"], "x"), vec![record(0, &[])]);
        unnamed.birth = None;
        let mut renamed = next(conversation, head, vec![record(2, &[])]);
        renamed.birth = Some(name(&["t"], "x"));
        let batches = [
            unnamed,
            renamed,
            next(conversation, head, vec![]),
            next(conversation, head, vec![record(3, &[])]),
            next(conversation, head, vec![record(2, &[]), record(2, &[])]),
            next(conversation, head, vec![record(2, &[]), record(4, &[])]),
            birth(
                id(2),
                name(&["t"], "x"),
                vec![record(u64::MAX, &[]), record(u64::MAX, &[])],
            ),
        ];
        for batch in batches {
            let refused = store.append(batch, Level::Synced);
            assert!(
                matches!(refused, Err(StoreError::Malformed { .. })),
                "{refused:?}"
            );
        }
        assert_eq!(store.head(conversation).unwrap(), Some(head));
        assert_eq!(store.head(id(2)).unwrap(), None);
    });
}

#[test]
fn what_exceeds_a_limit_is_refused_by_name() {
    each(|store| {
        let too_large = |outcome: Result<(), StoreError>, part: &str| {
            assert!(
                matches!(&outcome, Err(StoreError::TooLarge { what, .. }) if *what == part),
                "{outcome:?}"
            );
        };
        let mut big = record(0, &[]);
        big.entry = vec![0; ENTRY_BYTES_MAX as usize + 1];
        too_large(
            store.append(birth(id(1), name(&["t"], "a"), vec![big]), Level::Synced),
            "an entry",
        );
        let long = name(&["t"], &"n".repeat(NAME_BYTES_MAX as usize));
        too_large(
            store.append(birth(id(1), long, vec![record(0, &[])]), Level::Synced),
            "a name",
        );
        let blob = vec![0; BLOB_BYTES_MAX as usize + 1];
        too_large(store.put_blob(id(1), Hash([1; 32]), &blob), "a blob");
        too_large(store.put_derived(id(1), "x", &blob), "derived data");
        too_large(
            store.put_derived(id(1), &"n".repeat(2000), b""),
            "the name of derived data",
        );
        assert_eq!(store.head(id(1)).unwrap(), None);
    });
}

#[test]
fn a_range_of_entries_is_shown_in_order_and_stops_when_told() {
    each(|store| {
        let conversation = conversation(store, 1, 20);
        conversation_neighbours(store);
        let seqs = |from, to| -> Vec<u64> {
            read(store, conversation, from, to)
                .unwrap()
                .into_iter()
                .map(|(seq, _)| seq)
                .collect()
        };
        assert_eq!(seqs(0, u64::MAX), (0..20).collect::<Vec<_>>());
        assert_eq!(seqs(3, 7), (3..=7).collect::<Vec<_>>());
        assert_eq!(seqs(19, 19), vec![19]);
        for (from, to) in [(20, 30), (7, 3), (u64::MAX, u64::MAX)] {
            assert!(seqs(from, to).is_empty());
        }
        let mut shown = 0;
        let stop = &mut |_, _: &[u8]| {
            shown += 1;
            if shown == 4 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        store.entries(conversation, Seq(0), Seq(99), stop).unwrap();
        assert_eq!(shown, 4);
        for (seq, bytes) in read(store, conversation, 0, 99).unwrap() {
            assert_eq!(bytes, record(seq, &[50]).entry);
        }
    });
}

/// Logs whose keys lie just before and just behind.
fn conversation_neighbours(store: &dyn Backend) {
    conversation(store, 0, 2);
    conversation(store, 2, 2);
}

#[test]
fn a_caller_may_use_the_store_while_entries_are_shown() {
    each(|store| {
        let conversation = conversation(store, 1, 3);
        let mut seen = Vec::new();
        let show = &mut |seq: Seq, _: &[u8]| {
            store
                .destroy_payload(conversation, seq, 0, Level::Buffered)
                .unwrap();
            let head = store.head(conversation).unwrap().unwrap();
            let record = record(head.seq.0 + 1, &[]);
            store
                .append(next(conversation, head, vec![record]), Level::Buffered)
                .unwrap();
            seen.push(seq.0);
            ControlFlow::Continue(())
        };
        store.entries(conversation, Seq(0), Seq(99), show).unwrap();
        assert_eq!(seen, [0, 1, 2], "bounded by the head at the start");
    });
}

#[test]
fn a_fork_starts_at_its_own_number() {
    each(|store| {
        let records = vec![record(41, &[1]), record(42, &[2])];
        store
            .append(
                birth(id(1), name(&["t"], "fork"), records.clone()),
                Level::Synced,
            )
            .unwrap();
        assert_eq!(store.head(id(1)).unwrap(), Some(head_of(&records[1])));
        assert!(read(store, id(1), 0, 99).unwrap().is_empty());
        assert_eq!(read(store, id(1), 41, 99).unwrap().len(), 2);
        assert!(store.check(None).unwrap().is_empty());
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn records_of_all_sizes_come_back_bit_for_bit(
        records in prop::collection::vec(
            (0_usize..9000, prop::collection::vec(prop_oneof![0_usize..60, 3000_usize..5000, 0_usize..200_000], 0..5)),
            1..6,
        ),
        destroyed in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        together: bool,
    ) {
        let records: Vec<Record> = (0_u64..).zip(records).map(|(seq, (size, payloads))| {
            Record { entry: entry(seq, size, 3), ..record(seq, &payloads) }
        }).collect();
        each(|store| {
            store.append(birth(id(1), name(&["t"], "a"), records.clone()), Level::Buffered).unwrap();
            let places: Vec<_> = records.iter()
                .flat_map(|r| (0_u32..).zip(&r.payloads).map(|(i, p)| (r.seq, i, p.clone()))).collect();
            let gone: BTreeSet<usize> = if places.is_empty() {
                BTreeSet::new()
            } else {
                destroyed.iter().map(|index| index.index(places.len())).collect()
            };
            for round in 0..2 {
                let shown = read(store, id(1), 0, 99).unwrap();
                assert_eq!(shown, records.iter().map(|r| (r.seq.0, r.entry.clone())).collect::<Vec<_>>());
                for (number, (seq, index, payload)) in places.iter().enumerate() {
                    let expected = payload.clone().filter(|_| round == 0 || !gone.contains(&number));
                    assert_eq!(store.payload(id(1), *seq, *index).unwrap(), expected);
                }
                assert_eq!(store.payload(id(1), Seq(0), 99).unwrap(), None);
                assert_eq!(store.payload(id(1), Seq(99), 0).unwrap(), None);
                assert!(store.check(None).unwrap().is_empty());
                let gone: Vec<_> = gone.iter().map(|at| (places[*at].0, places[*at].1)).collect();
                if together {
                    store.destroy_payloads(id(1), &gone, Level::Synced).unwrap();
                } else {
                    for (seq, index) in gone {
                        store.destroy_payload(id(1), seq, index, Level::Synced).unwrap();
                    }
                }
            }
        });
    }

    /// A plain map is the model of names.
    #[test]
    fn names_with_odd_characters_never_collide(
        names in prop::collection::btree_set(
            (prop::collection::vec("[a/\\x00\\x01]{0,3}", 0..3), "[a/\\x00\\x01]{0,3}"), 1..25),
        prefix in prop::collection::vec("[a/\\x00\\x01]{0,2}", 0..3),
    ) {
        let names: BTreeMap<_, _> = names.into_iter().enumerate().map(|(number, (namespace, name))| {
            (ctxlog::store::Name { namespace, name }, id(u16::try_from(number).unwrap()))
        }).collect();
        each(|store| {
            for (name, conversation) in &names {
                store.append(birth(*conversation, name.clone(), vec![record(0, &[])]), Level::Buffered).unwrap();
            }
            for (name, conversation) in &names {
                assert_eq!(store.find(name).unwrap(), Some(*conversation));
            }
            let listed = store.list(&prefix).unwrap();
            let expected = names.iter().filter(|(name, _)| name.namespace.starts_with(&prefix));
            assert!(listed.iter().map(|l| (&l.name, &l.conversation)).eq(expected));
            assert_eq!(store.find(&name(&["b"], "b")).unwrap(), None);
        });
    }
}

/// What is done to a store.
#[derive(Clone, Debug)]
enum Step {
    /// Appends so many records, each with a payload of this size that shrinks or does not.
    Append(u16, u64, usize, bool, Level),
    Destroy(u16, prop::sample::Index, Level),
    Sync(Level),
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let level = || prop::sample::select(vec![Level::Buffered, Level::Flushed, Level::Synced]);
    let size = prop_oneof![4 => 0_usize..1_500, 1 => 3_000_usize..40_000];
    let count = prop_oneof![4 => 1_u64..4, 1 => 20_u64..80];
    let step = prop_oneof![
        8 => (0_u16..3, count, size, any::<bool>(), level())
            .prop_map(|(log, count, size, shrinks, level)| Step::Append(log, count, size, shrinks, level)),
        2 => (0_u16..3, any::<prop::sample::Index>(), level())
            .prop_map(|(log, at, level)| Step::Destroy(log, at, level)),
        1 => level().prop_map(Step::Sync),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..40)
}

fn do_step(store: &dyn Backend, step: &Step) {
    match step {
        Step::Append(log, count, size, shrinks, level) => {
            let head = store.head(id(*log)).unwrap();
            let first = head.map_or(0, |head| head.seq.0 + 1);
            let records = (first..first + count).map(|seq| Record {
                payloads: vec![Some(if *shrinks {
                    payload(*size, seq as u8)
                } else {
                    noise(*size, seq as u8)
                })],
                ..record(seq, &[])
            });
            let records = records.collect();
            let batch = match head {
                Some(head) => next(id(*log), head, records),
                None => birth(id(*log), name(&["t"], &log.to_string()), records),
            };
            store.append(batch, *level).unwrap();
        }
        Step::Destroy(log, at, level) => {
            let head = store.head(id(*log)).unwrap();
            let seq = at.index(head.map_or(0, |head| head.seq.0 as usize) + 1) as u64;
            // One, or a stretch of them with what lies in between left out.
            let places: Vec<(Seq, u32)> = (seq..=seq + seq % 3 * 40)
                .step_by(2)
                .map(|seq| (Seq(seq), 0))
                .collect();
            store.destroy_payloads(id(*log), &places, *level).unwrap();
        }
        Step::Sync(level) => store.sync(*level).unwrap(),
        Step::Reopen => {}
    }
}

/// Whether two stores show the same; of a long log only what is near an entry.
fn assert_same(left: &dyn Backend, right: &dyn Backend, near: Option<u64>) {
    assert_eq!(left.list(&[]).unwrap(), right.list(&[]).unwrap());
    for log in 0..3 {
        let head = left.head(id(log)).unwrap();
        assert_eq!(head, right.head(id(log)).unwrap());
        let from = near.map_or(0, |near| near.saturating_sub(30));
        let to = near.map_or(u64::MAX, |near| near + 30);
        let shown = read(left, id(log), from, to).unwrap();
        assert_eq!(shown, read(right, id(log), from, to).unwrap());
        let records = read_records(left, id(log), from, to).unwrap();
        let numbers = records.iter().map(|(seq, entry, _)| (*seq, entry.clone()));
        assert!(numbers.eq(shown.iter().cloned()));
        for (seq, _, words) in records {
            assert_eq!(words, left.payload(id(log), Seq(seq), 0).unwrap(), "{seq}");
        }
        for (seq, _) in shown {
            let [left, right] = [left, right].map(|s| s.payload(id(log), Seq(seq), 0).unwrap());
            assert_eq!(left, right, "{seq}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Whatever mix of appends, levels, destroying and opening again, and however it is packed.
    #[test]
    fn a_store_in_a_directory_shows_after_each_step_what_the_one_in_memory_does(steps in steps()) {
        let (dir, memory) = (tempfile::tempdir().unwrap(), MemoryStore::new());
        let mut store = SledStore::open(dir.path()).unwrap();
        for step in &steps {
            if matches!(step, Step::Reopen) {
                drop(store);
                store = SledStore::open_existing(dir.path()).unwrap();
            }
            do_step(&memory, step);
            do_step(&store, step);
            let near = match step {
                Step::Append(log, ..) | Step::Destroy(log, ..) => {
                    memory.head(id(*log)).unwrap().map(|head| head.seq.0)
                }
                Step::Sync(_) | Step::Reopen => None,
            };
            assert_same(&store, &memory, near);
        }
        prop_assert_eq!(format!("{:?}", store.check(None).unwrap()), "[]");
        drop(store);
        let store = SledStore::open_existing(dir.path()).unwrap();
        assert_same(&store, &memory, None);
        prop_assert_eq!(format!("{:?}", store.check(None).unwrap()), "[]");
    }
}

#[test]
fn an_entry_may_come_without_a_payload_that_was_destroyed_before() {
    each(|store| {
        let mut record = record(0, &[10, 20, 9_000]);
        record.payloads[1] = None;
        let batch = birth(id(1), name(&["t"], "a"), vec![record.clone()]);
        store.append(batch, Level::Synced).unwrap();
        for (index, payload) in (0..).zip(&record.payloads) {
            assert_eq!(&store.payload(id(1), Seq(0), index).unwrap(), payload);
        }
        assert!(store.check(None).unwrap().is_empty());
    });
}

#[test]
fn destroying_again_or_what_was_never_there_is_no_error() {
    each(|store| {
        let conversation = conversation(store, 1, 1);
        for _ in 0..2 {
            store
                .destroy_payload(conversation, Seq(0), 0, Level::Synced)
                .unwrap();
        }
        store
            .destroy_payload(conversation, Seq(0), 7, Level::Synced)
            .unwrap();
        store
            .destroy_payload(conversation, Seq(7), 0, Level::Synced)
            .unwrap();
        store
            .destroy_payload(id(5), Seq(0), 0, Level::Synced)
            .unwrap();
        let places = [(Seq(0), 0), (Seq(0), 7), (Seq(7), 0)];
        for (of, places) in [
            (conversation, &places[..]),
            (conversation, &[]),
            (id(5), &places[..]),
        ] {
            store.destroy_payloads(of, places, Level::Synced).unwrap();
        }
        assert_eq!(store.payload(conversation, Seq(0), 0).unwrap(), None);
        assert_eq!(read(store, conversation, 0, 9).unwrap().len(), 1);
    });
}

#[test]
fn blobs_belong_to_their_lineage_and_are_swept_from_it_alone() {
    each(|store| {
        let sizes = [0, 1, 4090, 4091, 4092, 4093, 8200, 300_000];
        let blob = |n: usize| payload(sizes[n], n as u8).bytes;
        for n in 0..sizes.len() {
            store
                .put_blob(id(1), Hash([n as u8; 32]), &blob(n))
                .unwrap();
            store
                .put_blob(id(2), Hash([n as u8; 32]), &blob(n))
                .unwrap();
        }
        store
            .put_blob(id(1), Hash([0; 32]), b"other bytes under a known address")
            .unwrap();
        for n in 0..sizes.len() {
            assert_eq!(
                store.blob(id(1), Hash([n as u8; 32])).unwrap(),
                Some(blob(n))
            );
        }
        assert_eq!(store.blob(id(3), Hash([0; 32])).unwrap(), None);
        assert_eq!(
            store
                .sweep_blobs(id(1), &|address| address.0[0] % 2 == 0)
                .unwrap(),
            4
        );
        for n in 0..sizes.len() {
            let kept = (n % 2 == 0).then(|| blob(n));
            assert_eq!(store.blob(id(1), Hash([n as u8; 32])).unwrap(), kept);
            assert_eq!(
                store.blob(id(2), Hash([n as u8; 32])).unwrap(),
                Some(blob(n))
            );
        }
        assert_eq!(store.sweep_blobs(id(1), &|_| false).unwrap(), 4);
        assert_eq!(store.sweep_blobs(id(1), &|_| false).unwrap(), 0);
        assert!(store.check(None).unwrap().is_empty());
    });
}

#[test]
fn derived_data_is_replaced_as_a_whole() {
    each(|store| {
        let conversation = conversation(store, 1, 1);
        for size in [10, 100_000, 5_000, 0] {
            let bytes = payload(size, 1).bytes;
            store.put_derived(conversation, "snapshot", &bytes).unwrap();
            store
                .put_derived(conversation, "snapshot-2", b"another")
                .unwrap();
            assert_eq!(
                store.derived(conversation, "snapshot").unwrap(),
                Some(bytes)
            );
            assert_eq!(
                store.derived(conversation, "snapshot-2").unwrap(),
                Some(b"another".to_vec())
            );
            assert_eq!(store.derived(conversation, "snap").unwrap(), None);
            assert_eq!(store.derived(id(2), "snapshot").unwrap(), None);
            assert!(store.check(None).unwrap().is_empty());
        }
    });
}

#[test]
fn many_threads_on_one_log_lose_and_double_nothing() {
    const THREADS: u64 = 8;
    const EACH: u64 = 60;
    each(|store| {
        let conversation = conversation(store, 1, 1);
        let lost_races = AtomicU64::new(0);
        let written = std::sync::Mutex::new(BTreeSet::new());
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (lost_races, written) = (&lost_races, &written);
                scope.spawn(move || {
                    for _ in 0..EACH {
                        let seq = append_racing(store, conversation, thread as u8, lost_races);
                        assert!(written.lock().unwrap().insert(seq), "one winner per head");
                    }
                });
            }
        });
        let shown = read(store, conversation, 0, u64::MAX).unwrap();
        assert_eq!(shown.len() as u64, THREADS * EACH + 1);
        for thread in 0..THREADS as u8 {
            let own = shown
                .iter()
                .skip(1)
                .filter(|(seq, e)| *e == entry(*seq, 100, thread))
                .count();
            assert_eq!(own as u64, EACH);
        }
        assert_eq!(
            store.head(conversation).unwrap().unwrap().seq.0,
            THREADS * EACH
        );
        assert!(store.check(None).unwrap().is_empty());
        println!(
            "{} appends, {} lost races",
            THREADS * EACH,
            lost_races.into_inner()
        );
    });
}

/// Appends one entry at whatever the head is; says at which seq.
fn append_racing(
    store: &dyn Backend,
    conversation: ctxlog::log::ConversationId,
    mark: u8,
    lost_races: &AtomicU64,
) -> u64 {
    let mut head = store.head(conversation).unwrap().unwrap();
    loop {
        let mut record = record(head.seq.0 + 1, &[30]);
        record.entry = entry(record.seq.0, 100, mark);
        record.hash = Hash(*blake3::hash(&record.entry).as_bytes());
        match store.append(next(conversation, head, vec![record]), Level::Flushed) {
            Ok(()) => return head.seq.0 + 1,
            Err(StoreError::Stale { head: Some(newer) }) => head = newer,
            Err(other) => panic!("{other}"),
        }
        lost_races.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn many_threads_on_many_logs_do_not_meet() {
    each(|store| {
        std::thread::scope(|scope| {
            for thread in 0..8 {
                scope.spawn(move || {
                    for number in 0..10 {
                        let conversation = conversation(store, thread * 100 + number, 3);
                        let lost_races = AtomicU64::new(0);
                        for _ in 0..5 {
                            append_racing(store, conversation, 1, &lost_races);
                        }
                        assert_eq!(lost_races.into_inner(), 0);
                    }
                });
            }
        });
        let listed = store.list(&["t".to_owned()]).unwrap();
        assert_eq!(listed.len(), 80);
        for listed in listed {
            assert_eq!(read(store, listed.conversation, 0, 99).unwrap().len(), 8);
        }
        assert!(store.check(None).unwrap().is_empty());
    });
}

#[test]
fn of_two_births_of_one_name_at_once_one_wins() {
    each(|store| {
        for round in 0..20 {
            let wins: usize = std::thread::scope(|scope| {
                let birth_of = |number: u16| {
                    let batch = birth(
                        id(round * 10 + number),
                        name(&["t"], &format!("n{round}")),
                        vec![record(0, &[])],
                    );
                    match store.append(batch, Level::Flushed) {
                        Ok(()) => 1,
                        Err(StoreError::NameTaken { .. }) => 0,
                        Err(other) => panic!("{other}"),
                    }
                };
                let threads: Vec<_> = (0..4).map(|n| scope.spawn(move || birth_of(n))).collect();
                threads.into_iter().map(|t| t.join().unwrap()).sum()
            });
            assert_eq!(wins, 1);
        }
        assert_eq!(store.list(&[]).unwrap().len(), 20);
        assert!(store.check(None).unwrap().is_empty());
    });
}

#[test]
fn a_store_is_shared_behind_its_trait() {
    let store: Arc<dyn Backend> = Arc::new(MemoryStore::new());
    let other = Arc::clone(&store);
    std::thread::spawn(move || conversation(other.as_ref(), 1, 2))
        .join()
        .unwrap();
    assert_eq!(
        store.head(id(1)).unwrap().map(|head| head.seq),
        Some(Seq(1))
    );
    store.sync(Level::Synced).unwrap();
}
