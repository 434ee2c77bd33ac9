//! Damage: whatever happens to the bytes of a store, nothing panics and nothing is lost without a
//! word.

#![allow(
    clippy::cast_possible_truncation,
    clippy::items_after_statements,
    reason = "tests make small numbers into bytes, and say what a thing is where it is used"
)]

mod store_support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use ctxlog::log::{ConversationId, Seq};
use ctxlog::store::{Backend, Level, Record, SledStore, StoreError};
use ctxlog::testkit::Draw;
use store_support::directory::*;
use store_support::*;

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
        .find(|(key, _)| key[0] == b'C')
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
        if key[0] != b'T' {
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
    drop(open_sled(&sled));
    let replaced = SledStore::open(dir.path()).unwrap_err();
    assert!(matches!(replaced, StoreError::Damaged { .. }), "{replaced}");
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
        b'C' => (Some(owner()), Some(seq())),
        b'H' if owner() == id(3) => (Some(owner()), Some(Seq(3))),
        b'H' if owner() == id(4) => (Some(owner()), Some(Seq(39))),
        b'H' => (Some(owner()), Some(Seq(6))),
        b'D' => (Some(owner()), None),
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
        stored.keys().map(|key| key[0]).collect::<BTreeSet<_>>(),
        b"CDEHIMNT".iter().copied().collect()
    );
    (dir, stored)
}

/// Whether reading a log through, with what lies beside it, notices damage.
fn one_pass(store: &SledStore, conversation: ConversationId) -> bool {
    let Ok(listed) = store.list(&[]) else {
        return true;
    };
    let Some(listed) = listed.iter().find(|l| l.conversation == conversation) else {
        return true; // its name leads elsewhere
    };
    let beside = store.check_beside(listed).unwrap();
    // A fork begins at a number of its own.
    let reads = (0..16).map(|from| read_records(store, conversation, from, u64::MAX));
    let shown = reads.filter(|read| read.as_ref().map_or(true, |shown| !shown.is_empty()));
    let read = shown.into_iter().next();
    !beside.is_empty() || !matches!(read, Some(Ok(_)))
}

#[test]
fn a_flipped_bit_in_any_value_is_found_and_placed() {
    let (dir, stored) = sample();
    let mut trials = 0;
    for (number, (key, value)) in stored.iter().enumerate() {
        for bit in [number * 7919 + 3, 0, value.len() * 8 - 1] {
            overwrite(dir.path(), key, Some(flipped(value, bit)));
            if matches!(&key[..], b"M" | b"T") {
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
                let seen = one_pass(&store, owner);
                assert!(seen, "read through, bit {bit} of {key:02x?} is not noticed");
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
        for value in [None, Some(stored[*after].clone())] {
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
    // Each so large that it is in a block of its own.
    let records = (0..5).map(|seq| record(seq, &[20_000])).collect();
    let conversation = id(1);
    let batch = birth(conversation, name(&["t"], "c1"), records);
    store.append(batch, Level::Synced).unwrap();
    let head = store.head(conversation).unwrap().unwrap();
    drop(store);
    let all = stored(dir.path());
    let entry_key = |seq: u64| {
        all.keys()
            .filter(|k| k[0] == b'C')
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
fn a_damaged_block_names_its_entries_and_costs_no_others() {
    let (dir, stored) = sample();
    let owned = [b"C", &id(4).0[..]].concat();
    let blocks: Vec<_> = stored.keys().filter(|k| k.starts_with(&owned)).collect();
    let firsts: Vec<u64> = blocks
        .iter()
        .filter(|key| key.len() == 25)
        .map(|key| u64::from_be_bytes(key[17..25].try_into().unwrap()))
        .collect();
    assert!(firsts.len() > 1, "{firsts:?}");
    let ends = firsts.iter().skip(1).copied().chain([40]);
    for (number, (first, end)) in firsts.iter().copied().zip(ends).enumerate() {
        for key in blocks
            .iter()
            .filter(|key| key[17..25] == first.to_be_bytes())
        {
            overwrite(dir.path(), key, Some(flipped(&stored[*key], 77)));
            let store = SledStore::open(dir.path()).unwrap();
            let found = store.check(Some(id(4))).unwrap();
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(place(&found[0]), (Some(id(4)), Some(Seq(first))));
            let covered = format!("the block of the entries s:{first} to s:{}", end - 1);
            let said = found[0].to_string();
            assert!(said.contains(&covered), "{said} does not say {covered}");
            for seq in 0..40 {
                let lost = (first..end).contains(&seq);
                let shown = read(&store, id(4), seq, seq);
                let words = store.payload(id(4), Seq(seq), 0);
                assert_eq!(
                    (shown.is_err(), words.is_err()),
                    (lost, lost),
                    "{number}: {seq}"
                );
            }
            let broken = read(&store, id(4), 0, 99).unwrap_err();
            assert_eq!(place(&broken), (Some(id(4)), Some(Seq(first))));
            drop(store);
            overwrite(dir.path(), key, Some(stored[*key].clone()));
        }
    }
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
                    let now = contents(&store).unwrap();
                    let differs = whole
                        .iter()
                        .filter(|(key, value)| now.get(*key) != Some(*value));
                    let differs: Vec<_> = differs.map(|(key, _)| key).collect();
                    assert!(
                        differs.is_empty(),
                        "{what}: changed, not reported: {differs:?}"
                    );
                    assert_eq!(now.len(), whole.len(), "{what}");
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

/// What pages a power cut keeps. `CTXLOG_SEED` draws others (7).
fn drawn() -> Draw {
    Draw::new(std::env::var("CTXLOG_SEED").map_or(7, |n| n.parse().unwrap()))
}

/// The system writes what is not synced page by page, in any order. Whichever of these pages a power
/// cut leaves as they were, all that was synced before is there, and all that is there is whole.
#[test]
fn a_power_cut_costs_only_what_was_not_synced_whichever_pages_it_takes() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name| dir.path().join(name);
    let (live, synced, later, trial) = (at("live"), at("synced"), at("later"), at("trial"));
    let store = SledStore::open(&live).unwrap();
    let conversation = conversation(&store, 1, 100);
    let mut draw = drawn();
    let (mut trials, mut lost) = (0, 0);
    for round in 0..16 {
        store.sync(Level::Synced).unwrap();
        let mut head = store.head(conversation).unwrap().unwrap();
        let safe = head.seq;
        copy(&live, &synced);
        // Less than what the store syncs by itself; or one batch that is larger.
        let (batches, records) = if round % 4 == 3 { (1, 200) } else { (5, 4) };
        for _ in 0..batches {
            let first = head.seq.0 + 1;
            let records: Vec<_> = (first..first + records)
                .map(|seq| record(seq, &[2_500]))
                .collect();
            let newest = head_of(records.last().unwrap());
            store
                .append(next(conversation, head, records), Level::Flushed)
                .unwrap();
            head = newest;
        }
        copy(&live, &later);
        let receipt = |store: &Path| fs::read(store.join("CTXLOG.synced")).unwrap();
        // Head and mark of the journal, which are synced when they are written.
        let marks =
            |store: &Path| fs::read(store.join("CTXLOG.journal")).unwrap()[..3 * 4096].to_vec();
        if receipt(&synced) != receipt(&later) || marks(&synced) != marks(&later) {
            continue; // a sync came between
        }
        for _ in 0..3 {
            copy(&later, &trial);
            let kept = keep_some_pages("CTXLOG.journal", &synced, &later, &trial, &mut draw);
            let context = format!("round {round}, pages {kept}");
            let store = SledStore::open(&trial).unwrap_or_else(|e| panic!("{context}: {e}"));
            assert_eq!(
                format!("{:?}", store.check(None).unwrap()),
                "[]",
                "{context}"
            );
            let found = store.head(conversation).unwrap().unwrap().seq;
            assert!(found >= safe, "{context}: {found} of {safe}");
            let read = read(&store, conversation, 0, 99_999).unwrap();
            assert_eq!(read.len() as u64, found.0 + 1, "{context}");
            trials += 1;
            lost += u32::from(found < head.seq);
        }
    }
    println!("{trials} power cuts, {lost} of them lost something that was not synced");
    assert!(trials >= 12 && lost * 2 > trials, "{lost} of {trials}");
}

/// What was synced is in the journal while it comes into sled, so that a cut there costs nothing.
#[test]
fn a_power_cut_while_the_tree_is_written_costs_nothing_whichever_pages_it_takes() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name| dir.path().join(name);
    let (live, synced, later, trial) = (at("live"), at("synced"), at("later"), at("trial"));
    let store = SledStore::open(&live).unwrap();
    let conversation = conversation(&store, 1, 100);
    let mut draw = drawn();
    let mut differed = 0;
    for round in 0..12 {
        assert!(store.check(None).unwrap().is_empty()); // all is in the tree
        let head = store.head(conversation).unwrap().unwrap();
        let first = head.seq.0 + 1;
        let records = (first..first + 1 + draw.below(20)).map(|seq| Record {
            payloads: vec![Some(noise(1_000, seq as u8))],
            ..record(seq, &[])
        });
        let batch = next(conversation, head, records.collect());
        store.append(batch, Level::Synced).unwrap();
        let head = store.head(conversation).unwrap().unwrap();
        copy(&live, &synced);
        assert!(store.check(None).unwrap().is_empty());
        copy(&live, &later);
        for _ in 0..3 {
            copy(&later, &trial);
            // What the cut came before: the sync of sled's file, and all that follows it.
            for before in ["CTXLOG.synced", "CTXLOG.journal"] {
                fs::copy(synced.join(before), trial.join(before)).unwrap();
            }
            let kept = keep_some_pages("sled/db", &synced, &later, &trial, &mut draw);
            let context = format!("round {round}, pages {kept}");
            let store = SledStore::open(&trial).unwrap_or_else(|e| panic!("{context}: {e}"));
            assert_eq!(store.head(conversation).unwrap(), Some(head), "{context}");
            let found = store.check(None).unwrap();
            assert!(found.is_empty(), "{context}: {found:?}");
            let read = read(&store, conversation, 0, 99_999).unwrap();
            assert_eq!(read.len() as u64, head.seq.0 + 1, "{context}");
            differed += u32::from(kept.contains('-'));
        }
    }
    assert!(differed > 20, "{differed} of 36");
}

/// Of the pages of a file that differ, keeps some in the later form and the rest in the earlier;
/// says which.
fn keep_some_pages(
    file: &str,
    synced: &Path,
    later: &Path,
    trial: &Path,
    draw: &mut Draw,
) -> String {
    let bytes = |store: &Path| fs::read(store.join(file)).unwrap();
    let (earlier, mut now) = (bytes(synced), bytes(later));
    let mut kept = String::new();
    let share = 2 + draw.below(6);
    for (number, page) in now.chunks_mut(4096).enumerate() {
        let mut old = earlier.get(number * 4096..).unwrap_or_default().to_vec();
        old.resize(page.len(), 0);
        if page == old {
            continue;
        }
        let keeps = !draw.one_in(share);
        kept.push(if keeps { '+' } else { '-' });
        if !keeps {
            page.copy_from_slice(&old);
        }
    }
    fs::write(trial.join(file), now).unwrap();
    kept
}

/// Without care sled stops at the first damaged message and zeroes all that follows: in a small
/// store, everything.
#[test]
fn one_flipped_bit_leaves_most_of_a_small_store_to_be_saved() {
    let dir = tempfile::tempdir().unwrap();
    const LOGS: u16 = 64;
    let (sample, trial) = (dir.path().join("sample"), dir.path().join("trial"));
    let store = SledStore::open(&sample).unwrap();
    for number in 0..LOGS {
        conversation(&store, number, 40);
    }
    drop(store);
    drop(SledStore::open(&sample).unwrap()); // with a snapshot
    let db = fs::read(sample.join("sled/db")).unwrap();
    let written = db.iter().rposition(|byte| *byte != 0).unwrap();
    let (mut saved, mut trials) = (0, 0);
    for n in 1..24 {
        copy(&sample, &trial);
        fs::write(
            trial.join("sled/db"),
            flipped(&db, written * n / 24 * 8 + 2),
        )
        .unwrap();
        if n % 2 == 0 {
            unseal(&trial); // as after a kill
        }
        if SledStore::open(&trial).is_ok() {
            continue; // it lay where sled reads nothing
        }
        trials += 1;
        let Ok(store) = SledStore::salvage(&trial) else {
            continue;
        };
        assert!(!store.check(None).unwrap().is_empty());
        for number in 0..LOGS {
            saved += (0..40)
                .filter(|seq| {
                    read(&store, id(number), *seq, *seq).is_ok_and(|found| found.len() == 1)
                })
                .count();
        }
    }
    assert!(trials > 5, "{trials}");
    let all = trials * 40 * usize::from(LOGS);
    assert!(saved * 2 > all, "{saved} of {all}");
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
