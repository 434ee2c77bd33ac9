//! The law tamper, on the disk: a bit flipped in any stored value, written through sled, is named
//! by the entry it belongs to.

#![cfg(feature = "cli")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use ctxlog::audit;
use ctxlog::engine::{Error, Store};
use ctxlog::log::{Iteration, Message, MessageId, Part, Seq};
use ctxlog::strategy::SlidingWindow;
use ctxlog::testkit::World;
use ctxlog::testkit::tamper::{Alteration, Altered};
use serde_json::Value;

/// A log with every kind of value: single records, blocks, and blobs in chunks.
fn write_store(path: &Path) {
    let store = Store::open(path).unwrap();
    let chat = store.conversation("tampered").unwrap();
    let chat = chat.with_strategy(SlidingWindow::new(2)).unwrap();
    chat.append(Message::system("Be brief.")).unwrap();
    for n in 0..4 {
        chat.append(Message::person(format!("question {n}")))
            .unwrap();
        let call = chat.call().unwrap();
        chat.append(Message::calls(vec![Part::call("c", "look", "{}")]))
            .unwrap();
        chat.append(Message::tool("c", &noise(n, 7_000))).unwrap();
        chat.returned(call.id, None).unwrap();
        chat.call().unwrap();
        chat.append(Message::model(format!("answer {n}"))).unwrap();
    }
    chat.append(Message::person("blob ".repeat(20_000)))
        .unwrap();
}

/// Letters that do not shrink much, so that they fill more than one value.
fn noise(seed: u64, length: usize) -> String {
    let mut bytes = vec![0; length];
    let hash = blake3::Hasher::new()
        .update(&seed.to_be_bytes())
        .finalize_xof();
    { hash }.fill(&mut bytes);
    bytes
        .iter()
        .map(|byte| char::from(b' ' + byte % 90))
        .collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A process that another test starts shares this one's locks for a moment, until it has begun its
/// own program: so a lock that was just let go may still be held.
fn open_sled(path: &Path) -> sled::Db {
    let config = sled::Config::new()
        .path(path.join("sled"))
        .flush_every_ms(None);
    for _ in 0..100 {
        match config.open() {
            Err(sled::Error::Io(error)) if error.to_string().contains("acquire lock") => {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            opened => return opened.unwrap(),
        }
    }
    panic!("{} stays locked", path.display());
}

fn keys(path: &Path) -> Vec<Vec<u8>> {
    open_sled(path)
        .iter()
        .keys()
        .map(|k| k.unwrap().to_vec())
        .collect()
}

fn flip(path: &Path, key: &[u8], at: usize) {
    let db = open_sled(path);
    let mut value = db.get(key).unwrap().unwrap().to_vec();
    let bit = at % (value.len() * 8);
    value[bit / 8] ^= 1 << (bit % 8);
    db.insert(key, value).unwrap();
    db.flush().unwrap();
}

/// The exit code of `verify --json`, and what it printed on stdout and stderr.
fn verify(path: &Path) -> (Option<i32>, Vec<Value>, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_ctxlog"))
        .args(["--store", path.to_str().unwrap(), "--json", "verify"])
        .output()
        .unwrap();
    let lines = String::from_utf8(out.stdout).unwrap();
    let lines = lines
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    (
        out.status.code(),
        lines,
        String::from_utf8_lossy(&out.stderr).into_owned(),
    )
}

#[test]
fn a_bit_flipped_in_any_stored_value_is_named_by_its_entry() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    write_store(&whole);
    let (code, lines, stderr) = verify(&whole);
    assert_eq!(
        (code, lines[0]["ok"].as_bool()),
        (Some(0), Some(true)),
        "{stderr}"
    );
    let scratch = dir.path().join("keys");
    copy(&whole, &scratch);
    let keys = keys(&scratch);
    // Fences, the keys of two bytes, belong to no entry.
    let of_entries = keys.iter().filter(|key| key.len() != 2).count();
    assert!(of_entries > 8, "{of_entries} keys");
    let broken = dir.path().join("broken");
    for (n, key) in keys.iter().enumerate() {
        for bit in [n * 7_919 + 13, n * 104_729 + 5, 0] {
            copy(&whole, &broken);
            flip(&broken, key, bit);
            let name = String::from_utf8_lossy(&key[..1]).into_owned();
            assert_told(&broken, &format!("key {n} ({name})"), key.len() != 2);
        }
    }
    for blob in blobs(&whole) {
        copy(&whole, &broken);
        let path = broken.join(blob.strip_prefix(&whole).unwrap());
        let mut bytes = fs::read(&path).unwrap();
        let at = bytes.len() / 2;
        bytes[at] ^= 4;
        fs::write(&path, bytes).unwrap();
        assert_told(&broken, "a blob", true);
    }
}

/// `verify` tells of the damage, by its entry where it is an entry's; and the store is removed.
fn assert_told(broken: &Path, what: &str, of_entry: bool) {
    let (code, lines, stderr) = verify(broken);
    assert_eq!(code, Some(3), "{what}: {lines:?} {stderr}");
    let named = lines.iter().any(|l| l["first_bad"].is_u64());
    assert!(
        named || !of_entry,
        "{what} is not named: {lines:?} {stderr}"
    );
    assert!(!stderr.contains("panicked"), "{stderr}");
    fs::remove_dir_all(broken).unwrap();
}

/// The files of blobs; there is at least one.
fn blobs(store: &Path) -> Vec<std::path::PathBuf> {
    let lineages = fs::read_dir(store.join("blobs")).unwrap();
    let files = lineages.flat_map(|l| fs::read_dir(l.unwrap().path()).unwrap());
    let files: Vec<_> = files.map(|f| f.unwrap().path()).collect();
    assert!(!files.is_empty());
    files
}

#[test]
fn a_store_that_another_sled_program_opened_and_left_alone_still_verifies() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    write_store(&path);
    drop(open_sled(&path));
    let (code, lines, stderr) = verify(&path);
    assert_eq!(code, Some(0), "{lines:?} {stderr}");
}

/// Whoever writes has read every entry, and an entry that does not hang on the one before is no log to
/// build on. Nor is a window shown that would need it.
#[test]
fn a_log_whose_chain_is_broken_is_not_built_on() {
    let script = "say person \"one\"\nsay model \"two\"\nsay person \"three\"\ncall";
    let world = World::run(&script.parse().unwrap(), &[]).unwrap();
    for at in 1..=3 {
        for alteration in [Alteration::Splice(at), Alteration::Swap(at, at + 1)] {
            let altered = Altered::new(world.backend.clone(), world.chat.id(), alteration).unwrap();
            let store = Store::on(Arc::new(altered));
            let chat = || store.existing("a").unwrap();
            for used in [
                chat().window().map(drop),
                chat().outline_at(Iteration(1)).map(drop),
                chat().append(Message::model("next")).map(drop),
                chat().with_projection(|_| ()),
                audit::why(&chat(), MessageId(Seq(at)), Seq(4)).map(drop),
            ] {
                let error = used.expect_err("a broken chain");
                assert!(
                    matches!(error, Error::DamagedEntry { seq, .. } if seq.0 >= at),
                    "{error}"
                );
            }
        }
    }
}
