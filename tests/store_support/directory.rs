//! A furnished store in a directory, and ways to look at its files and to harm them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ctxlog::log::{Hash, Seq};
use ctxlog::store::{Backend, Level, SledStore, StoreError};

use super::*;

/// A store with five logs: small entries and long ones, payloads, destroyed ones, blobs, derived
/// data, a fork, and blocks of both codecs.
pub fn furnish(store: &SledStore) {
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
            .put_blob(conversation, Hash([4; 32]), &payload(9_000, 2).bytes)
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
    let packed = (0..40).map(|seq| match seq {
        0..20 => record(seq, &[2_000]),
        _ => Record {
            payloads: vec![Some(noise(2_000, seq as u8))],
            ..record(seq, &[])
        },
    });
    let batch = birth(id(4), name(&["t"], "packed"), packed.collect());
    store.append(batch, Level::Synced).unwrap();
    store
        .destroy_payload(id(4), Seq(1), 0, Level::Synced)
        .unwrap();
    store
        .destroy_payload(id(0), Seq(1), 0, Level::Synced)
        .unwrap();
    store
        .destroy_payload(id(0), Seq(6), 1, Level::Synced)
        .unwrap();
}

pub fn furnish_fork(store: &SledStore) {
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
pub fn contents(store: &SledStore) -> Result<BTreeMap<String, Vec<u8>>, StoreError> {
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
        let blob = store.blob(conversation, Hash([4; 32]))?;
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
pub fn tree(path: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
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
pub fn copy(from: &Path, to: &Path) {
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

pub fn snapshots(store: &Path) -> Vec<PathBuf> {
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

/// Every key with its value, read through sled itself.
pub fn stored(store: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    unseal(store);
    let tree = open_sled(&store.join("sled"));
    tree.iter()
        .map(|found| found.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap())
        .collect()
}

/// As after a kill: nothing is known about sled's file, so that it is handed to sled.
pub fn unseal(store: &Path) {
    let _ = fs::remove_file(store.join("CTXLOG.closed"));
}

/// Opens sled's own files. A process that another test starts shares this one's locks for a moment,
/// until it has begun its own program: so a lock that was just let go may still be held.
pub fn open_sled(path: &Path) -> sled::Db {
    for _ in 0..100 {
        match sled::open(path) {
            Err(sled::Error::Io(error)) if error.to_string().contains("acquire lock") => {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            opened => return opened.unwrap(),
        }
    }
    panic!("{} stays locked", path.display());
}

pub fn overwrite(store: &Path, key: &[u8], value: Option<Vec<u8>>) {
    let tree = open_sled(&store.join("sled"));
    match value {
        Some(value) => tree.insert(key, value).unwrap(),
        None => tree.remove(key).unwrap(),
    };
    tree.flush().unwrap();
    drop(tree);
    unseal(store);
}

pub fn flipped(value: &[u8], bit: usize) -> Vec<u8> {
    let mut value = value.to_vec();
    let bit = bit % (value.len() * 8);
    value[bit / 8] ^= 1 << (bit % 8);
    value
}
