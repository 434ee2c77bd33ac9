//! Checkpoints, copies, compaction, completions and manual pages.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::time::SystemTime;

use ctxlog::store::SledStore;
use serde_json::Value;

use super::shapes::Verified;
use super::support::Place;

/// A place with a store, and a checkpoint of it in `kept`.
fn kept() -> Place {
    let place = Place::furnished();
    let note = place.run(&["checkpoint"]).done().out;
    place.write("kept", note);
    place
}

#[test]
fn a_checkpoint_fits_its_log_and_says_what_came_since() {
    let place = kept();
    let verify = ["verify", "--checkpoint", "kept", "--json"];
    let at_once: Value = place.run(&verify).done().json();
    assert_eq!(at_once["checkpoint"]["ok"], true);
    assert_eq!(at_once["checkpoint"]["after"], 0);
    place.run(&["append", "--text", "more"]).done();
    let later: Value = place.run(&verify).done().json();
    assert_eq!(later["checkpoint"]["after"], 1);
    let gaps = later["not_covered"].to_string();
    assert!(gaps.contains("the entry after s:"), "{gaps}");
    assert!(gaps.contains("no public key was given"), "{gaps}");
    let human = place.run(&["verify", "--checkpoint", "kept"]).done().out;
    assert!(human.contains("consistent   1 newer"), "{human}");
    let none: Verified = place.run(&["verify", "--json"]).done().json();
    assert!(none.checkpoint.is_none());
    assert!(none.not_covered[0].starts_with("no checkpoint is kept"));
    let held: Verified = place.run(&verify).done().json();
    let held = held.checkpoint.unwrap();
    assert_eq!((held.ok, held.notes, held.after), (true, 1, 1));
    assert_eq!((held.broken, held.signed_by), (None, None));
    assert!(held.entries > 0);
}

#[test]
fn a_checkpoint_of_all_is_one_note_for_each() {
    let place = kept();
    place
        .run(&["append", "-c", "other", "--text", "hello"])
        .done();
    let notes = place.run(&["checkpoint"]).done().out;
    assert_eq!(notes.split("\n\n").count(), 2, "{notes}");
    let lines: Vec<Value> = place.run(&["checkpoint", "--json"]).done().lines();
    let joined: Vec<&str> = lines.iter().map(|l| l["note"].as_str().unwrap()).collect();
    assert_eq!(joined.join("\n"), notes);
    assert_eq!(lines[0]["schema"], "ctxlog.checkpoint/1");
    let verified = place
        .feed(&["verify", "--checkpoint", "-", "--json"], &notes)
        .done();
    let lines: Vec<Value> = verified.lines();
    assert!(lines.iter().all(|l| l["checkpoint"]["ok"] == true));
    // One that came since is no matter; of the one that is asked about, a checkpoint has to speak.
    place.run(&["verify", "--checkpoint", "kept"]).done();
    let asked = ["verify", "-c", "other", "--checkpoint", "kept"];
    place.run(&asked).failed(3, "unknown-conversation");
}

#[test]
fn what_a_checkpoint_does_not_fit_exits_with_3() {
    let place = kept();
    let note = std::fs::read_to_string(place.path("kept")).unwrap();
    let lines: Vec<&str> = note.lines().collect();
    let [origin, entries, hash] = lines[..] else {
        panic!("{note}");
    };
    let told = |text: String, code: &str, words: &str| {
        place.write("other", text);
        let run = place.run(&["verify", "--checkpoint", "other"]);
        let (message, _) = run.failed(3, code);
        assert!(message.contains(words), "{message}");
    };
    let more = entries.parse::<u64>().unwrap() + 5;
    let zeros = "A".repeat(43);
    told(
        format!("{origin}\n{more}\n{hash}\n"),
        "damaged",
        "shortened",
    );
    told(
        format!("{origin}\n{entries}\n{zeros}=\n"),
        "damaged",
        "rewritten",
    );
    told(
        format!("{note}\n{origin}\n3\n{zeros}=\n"),
        "damaged",
        "split history",
    );
    let unknown = format!("ctxlog/{}\n{entries}\n{hash}\n", "0".repeat(32));
    told(unknown, "unknown-conversation", "no such log is here");
    told(
        format!("example.org/log\n{entries}\n{hash}\n"),
        "invalid-checkpoint",
        "line 1",
    );
    told("\u{1b}[31m".into(), "invalid-checkpoint", "line 1");
    place
        .run(&["verify", "--checkpoint", "absent"])
        .failed(2, "io");
}

#[test]
#[cfg(feature = "sign")]
fn a_checkpoint_may_be_signed_and_the_signature_asked_for() {
    let place = kept();
    place.run(&["checkpoint", "--new-key", "key"]).done();
    for taken in ["key", "key.pub"] {
        let before = std::fs::read(place.path(taken)).unwrap();
        place
            .run(&["checkpoint", "--new-key", "key"])
            .failed(2, "io");
        assert_eq!(std::fs::read(place.path(taken)).unwrap(), before);
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = place.path("key").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let signed = place.run(&["checkpoint", "--sign", "key"]).done().out;
    place.write("signed", &signed);
    let text = std::fs::read_to_string(place.path("key.pub")).unwrap();
    for key in ["key.pub", text.trim()] {
        let with_key = [
            "verify",
            "--checkpoint",
            "signed",
            "--public-key",
            key,
            "--json",
        ];
        let verified: Value = place.run(&with_key).done().json();
        assert_eq!(verified["checkpoint"]["signed_by"], "ctxlog");
    }
    place
        .run(&["verify", "--checkpoint", "kept", "--public-key", "key.pub"])
        .failed(3, "bad-signature");
    let forged = signed.replacen('\n', "\n1", 1);
    place.write("forged", forged);
    place
        .run(&[
            "verify",
            "--checkpoint",
            "forged",
            "--public-key",
            "key.pub",
        ])
        .failed(3, "bad-signature");
    place
        .run(&[
            "verify",
            "--checkpoint",
            "signed",
            "--public-key",
            "nonsense",
        ])
        .failed(2, "invalid-key");
    place
        .run(&["checkpoint", "--sign", "key.pub"])
        .failed(2, "invalid-key");
}

/// All files below a directory with their bytes and times; directories with theirs.
fn seen(dir: &Path) -> BTreeMap<String, (Vec<u8>, SystemTime)> {
    let mut found = BTreeMap::new();
    let mut due = vec![dir.to_owned()];
    while let Some(path) = due.pop() {
        let of = path.metadata().unwrap();
        let bytes = if of.is_dir() {
            let all = std::fs::read_dir(&path).unwrap();
            due.extend(all.map(|e| e.unwrap().path()));
            Vec::new()
        } else {
            std::fs::read(&path).unwrap()
        };
        found.insert(path.display().to_string(), (bytes, of.modified().unwrap()));
    }
    found
}

#[test]
fn a_copy_is_verified_and_the_directory_stays_as_it_is() {
    let place = kept();
    let before = seen(&place.store());
    std::fs::create_dir(place.path("room")).unwrap();
    let arguments = [
        "verify",
        "--copy",
        "--copy-to",
        "room",
        "--checkpoint",
        "kept",
    ];
    let run = place.run(&arguments).done();
    assert!(run.err.contains("copying"), "{}", run.err);
    assert!(run.out.contains("consistent"), "{}", run.out);
    assert_eq!(seen(&place.store()), before);
    let left = std::fs::read_dir(place.path("room")).unwrap().count();
    assert_eq!(left, 0, "the copy is removed");
    let arguments = ["verify", "--copy", "--copy-to", "absent"];
    place.run(&arguments).failed(2, "io");
    assert_eq!(seen(&place.store()), before);
}

#[test]
#[cfg(unix)]
fn a_copy_is_taken_of_a_directory_that_nobody_may_write_to() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = kept();
    let mode = |bits| std::fs::Permissions::from_mode(bits);
    std::fs::set_permissions(place.store(), mode(0o500)).unwrap();
    let verified: Value = place.run(&["verify", "--copy", "--json"]).done().json();
    std::fs::set_permissions(place.store(), mode(0o700)).unwrap();
    assert_eq!(verified["ok"], true);
}

#[test]
fn a_copy_is_taken_of_a_store_in_use_and_says_so() {
    let place = kept();
    let open = SledStore::open_existing(place.store()).unwrap();
    place.run(&["verify"]).failed(4, "store-busy");
    let verified: Value = place.run(&["verify", "--copy", "--json"]).done().json();
    assert!(
        verified["not_covered"]
            .to_string()
            .contains("another process")
    );
    // The lock is still the holder's.
    place.run(&["verify"]).failed(4, "store-busy");
    drop(open);
    let verified: Value = place.run(&["verify", "--copy", "--json"]).done().json();
    assert!(
        !verified["not_covered"]
            .to_string()
            .contains("another process")
    );
}

#[test]
fn a_damaged_store_is_as_damaged_in_a_copy() {
    let place = kept();
    let db = place.store().join("sled").join("db");
    let mut bytes = std::fs::read(&db).unwrap();
    let middle = bytes.len() / 2;
    bytes[..middle].fill(0x55);
    std::fs::write(&db, bytes).unwrap();
    let before = seen(&place.store());
    let run = place.run(&["verify", "--copy"]);
    assert_eq!(run.code, 3, "{}{}", run.out, run.err);
    assert_eq!(seen(&place.store()), before);
}

/// Whether bytes stand in others, as they are or within what is packed there.
fn holds(bytes: &[u8], what: &[u8]) -> bool {
    let stands = |in_these: &[u8]| in_these.windows(what.len()).any(|w| w == what);
    let frames = bytes.windows(4).enumerate();
    let mut frames = frames.filter(|(_, w)| *w == zstd::zstd_safe::MAGICNUMBER.to_le_bytes());
    stands(bytes)
        || frames.any(|(at, _)| {
            let mut unpacked = Vec::new();
            // What only looks like a frame ends early.
            let _ = zstd::Decoder::new(&bytes[at..])
                .and_then(|frame| frame.take(1 << 20).read_to_end(&mut unpacked));
            stands(&unpacked)
        })
}

#[test]
fn compacting_leaves_destroyed_words_behind() {
    let place = Place::furnished();
    let secret = blake3::hash(b"a secret").to_hex().to_string();
    let blob = format!("large {}", secret.repeat(2_000));
    place.run(&["append", "--text", &secret]).done();
    place
        .feed(
            &["append"],
            &serde_json::json!({ "role": "user", "content": blob }).to_string(),
        )
        .done();
    place
        .run(&["append", "-c", "second", "--text", "kept words"])
        .done();
    place.write("kept", place.run(&["checkpoint"]).done().out);
    let heads = |store: &str| -> Vec<Value> {
        place
            .run(&["--store", store, "ls", "--json"])
            .done()
            .lines()
    };
    let lying = |dir: &str| {
        let files = seen(&place.path(dir));
        let mut all = files.values().map(|(bytes, _)| bytes);
        all.any(|bytes| holds(bytes, secret.as_bytes()))
    };
    // Once redacted, the place may have been used again, or not.
    assert!(lying(".ctxlog"), "else this shows nothing");
    let before = heads(".ctxlog");
    let newest = before[0]["head"]["seq"].as_u64().unwrap();
    for seq in [newest - 1, newest] {
        let message = format!("m{seq}");
        place
            .run(&["redact", &message, "-c", "chat", "--yes"])
            .done();
    }
    let before = heads(".ctxlog");
    let done: Value = place
        .run(&["compact", "--into", "new", "--json"])
        .done()
        .json();
    assert_eq!(done["schema"], "ctxlog.compact/1");
    assert_eq!(done["conversations"], 2);
    assert!(!lying("new"));
    assert_eq!(heads("new"), before, "same ids, names and hashes");
    let verified = place
        .run(&["--store", "new", "verify", "--checkpoint", "kept", "--json"])
        .done();
    let lines: Vec<Value> = verified.lines();
    assert!(lines.iter().all(|l| l["checkpoint"]["ok"] == true));
    assert_eq!(lines[0]["payloads"]["redacted"], 2);
    assert_eq!(heads(".ctxlog"), before, "the old store is as it was");
    // The new store goes on.
    place
        .run(&["--store", "new", "append", "-c", "chat", "--text", "on"])
        .done();
}

/// Forks go over after their parents, whatever their names, with their own entries only.
#[test]
fn compacting_takes_forks_of_forks_along() {
    let place = Place::furnished();
    for (of, name) in [("chat", "beside"), ("beside", "a fork of it")] {
        place.run(&["fork", "@", "-c", of, "--as", name]).done();
        place.run(&["append", "-c", name, "--text", name]).done();
    }
    place.run(&["append", "-c", "chat", "--text", "on"]).done();
    place.write("kept", place.run(&["checkpoint"]).done().out);
    let done: Value = place
        .run(&["compact", "--into", "new", "--json"])
        .done()
        .json();
    assert_eq!(done["conversations"], 3);
    let windows = |store: &str| {
        ["chat", "beside", "a fork of it"].map(|name| {
            let run = ["--store", store, "window", "-c", name, "--json"];
            place.run(&run).done().out
        })
    };
    assert_eq!(windows("new"), windows(".ctxlog"));
    let verify = ["--store", "new", "verify", "--checkpoint", "kept", "--json"];
    let lines: Vec<Value> = place.run(&verify).done().lines();
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().all(|l| l["checkpoint"]["after"] == 0));
}

#[test]
fn compacting_writes_only_where_nothing_is() {
    let place = Place::furnished();
    place.write("file", "mine");
    std::fs::create_dir(place.path("full")).unwrap();
    place.write("full/file", "mine");
    for into in ["file", "full", ".ctxlog"] {
        place
            .run(&["compact", "--into", into])
            .failed(2, "not-empty");
    }
    assert_eq!(std::fs::read(place.path("full/file")).unwrap(), b"mine");
    std::fs::create_dir(place.path("empty")).unwrap();
    let run = place.run(&["compact", "--into", "empty/"]).done();
    assert!(
        run.out.contains("before") && run.out.contains("mv .ctxlog"),
        "{}",
        run.out
    );
    place.run(&["--store", "empty", "verify"]).done();
    // Where an earlier one was cut off, the name says so and nothing is written over it.
    std::fs::create_dir(place.path("late.unfinished")).unwrap();
    place
        .run(&["compact", "--into", "late"])
        .failed(2, "not-empty");
    assert!(!place.path("late").exists());
}

#[test]
fn compacting_a_damaged_log_leaves_nothing_new() {
    let place = Place::furnished();
    let text = "blob ".repeat(30_000);
    place
        .feed(
            &["append"],
            &serde_json::json!({ "role": "user", "content": text }).to_string(),
        )
        .done();
    let lineage = std::fs::read_dir(place.store().join("blobs"))
        .unwrap()
        .next()
        .unwrap();
    let blob = std::fs::read_dir(lineage.unwrap().path())
        .unwrap()
        .next()
        .unwrap();
    std::fs::remove_file(blob.unwrap().path()).unwrap();
    place
        .run(&["compact", "--into", "new"])
        .failed(3, "damaged");
    assert!(!place.path("new").exists() && !place.path("new.unfinished").exists());
}

/// The commands that `--help` lists.
pub fn subcommands(place: &Place) -> Vec<String> {
    let help = place.run(&["--help"]).done().out;
    let listed = help.split("Commands:\n").nth(1).unwrap();
    let lines = listed.lines().take_while(|l| !l.is_empty());
    // A description that goes on in the next line stands further right.
    let names = lines.filter(|l| l.starts_with("  ") && !l.starts_with("   "));
    let names = names.map(|l| l.split_whitespace().next().unwrap().to_owned());
    let names: Vec<String> = names.filter(|n| n != "help").collect();
    assert!(names.len() >= 20, "{names:?}");
    names
}

/// The long flags that a command's help lists.
fn flags(place: &Place, command: &str) -> Vec<String> {
    let help = place.run(&[command, "--help"]).done().out;
    let options = help
        .split("Options:\n")
        .nth(1)
        .unwrap_or_default()
        .to_owned();
    let begins = |l: &&str| l.trim_start().starts_with('-') && l.contains("--");
    let lines = options.lines().take_while(|l| !l.starts_with("EXAMPLES"));
    let flag = |l: &str| {
        let at = l.find("--").unwrap();
        let end = |c: char| !(c.is_ascii_alphanumeric() || c == '-');
        l[at..].split(end).next().unwrap().to_owned()
    };
    lines.filter(begins).map(flag).collect()
}

#[test]
fn completions_hold_every_command_and_every_flag() {
    let place = Place::new();
    let commands = subcommands(&place);
    let wanted: Vec<(String, Vec<String>)> = commands
        .iter()
        .map(|c| (c.clone(), flags(&place, c)))
        .collect();
    assert!(
        wanted.iter().all(|(_, flags)| flags.len() >= 5),
        "{wanted:?}"
    );
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = place.run(&["completions", shell]).done().out;
        for (command, flags) in &wanted {
            assert!(script.contains(command), "{shell}: {command}");
            for flag in flags {
                let bare = flag.trim_start_matches('-');
                assert!(script.contains(bare), "{shell}: {command} {flag}");
            }
        }
        let json: Value = place.run(&["completions", shell, "--json"]).done().json();
        assert_eq!(
            json["script"].as_str().unwrap().trim_end(),
            script.trim_end()
        );
    }
    place.run(&["completions", "csh"]).failed(2, "usage");
}

#[test]
fn every_command_has_a_page_with_every_flag() {
    let place = Place::new();
    place.run(&["man", "pages"]).done();
    let own = std::fs::read_to_string(place.path("pages/ctxlog.1")).unwrap();
    assert_eq!(place.run(&["man"]).done().out, own);
    for command in subcommands(&place) {
        let page =
            std::fs::read_to_string(place.path(&format!("pages/ctxlog-{command}.1"))).unwrap();
        assert!(own.contains(&command.replace('-', "\\-")), "{command}");
        for flag in flags(&place, &command) {
            let written = flag.replace('-', "\\-");
            assert!(page.contains(&written), "{command} {flag}");
        }
    }
}

/// A bundle says what it holds, and what else is asked of it is answered: of which conversation, against
/// which checkpoint, kept or carried, and whether it is one at all.
#[test]
fn a_bundle_is_held_to_what_is_asked_of_it() {
    let place = Place::furnished();
    let note = place.run(&["checkpoint"]).done().out;
    place.write("kept", &note);
    place
        .run(&["export", "--format", "bundle", "-o", "plain"])
        .done();
    let carrying = [
        "export",
        "--format",
        "bundle",
        "--checkpoint",
        "kept",
        "-o",
        "carrying",
    ];
    place.run(&carrying).done();
    let verify = |more: &[&str]| place.run(&[&["verify", "--bundle"][..], more].concat());
    assert!(!verify(&["plain"]).done().out.contains("consistent"));
    assert!(
        verify(&["plain", "--checkpoint", "kept"])
            .done()
            .out
            .contains("consistent")
    );
    let carried = verify(&["carrying"]).done().out;
    assert!(
        carried.contains("consistent") && carried.contains("whoever wrote this file"),
        "{carried}"
    );
    verify(&["plain", "-c", "chat"]).done();
    verify(&["plain", "-c", "another"]).failed(1, "nothing-matches");
    verify(&["plain", "--public-key", "x"]).failed(3, "bad-signature");
    place
        .run(&["verify", "--public-key", "x"])
        .failed(2, "usage");
    // A log that was shortened, and whose bundle says no more than it holds.
    place
        .run(&["append", "--role", "user", "--text", "one more"])
        .done();
    place.write("newer", place.run(&["checkpoint"]).done().out);
    let (said, _) = verify(&["plain", "--checkpoint", "newer"]).failed(3, "damaged");
    assert!(said.contains("shortened"), "{said}");
    // A line that says to readers what its entry does not.
    let lines = std::fs::read_to_string(place.path("plain")).unwrap();
    place.write(
        "lies",
        lines.replacen("\"iteration\":2", "\"iteration\":1", 1),
    );
    let (said, _) = verify(&["lies"]).failed(3, "damaged");
    assert!(said.contains("field 'iteration'"), "{said}");
    for (name, foreign) in [("empty", ""), ("other", "{\"a\":1}\n")] {
        place.write(name, foreign);
        verify(&[name]).failed(2, "unknown-format");
    }
    place
        .run(&["export", "--checkpoint", "kept"])
        .failed(2, "invalid-option");
}

/// A log that is here already keeps its name, and that is told.
#[test]
fn a_log_that_is_here_keeps_its_name() {
    let place = Place::furnished();
    place.run(&["export", "-o", "log"]).done();
    let again = place.run(&["import", "log", "--as", "another"]).done();
    assert!(
        again.err.contains("here already, as 'chat'"),
        "{}",
        again.err
    );
    assert!(!again.out.contains("another"), "{}", again.out);
}

/// What is made of a store is made beside it: within, it would be part of the store.
#[test]
fn nothing_is_made_within_the_store() {
    let place = Place::furnished();
    let inside = place.store().join("new");
    let inside = inside.to_str().unwrap();
    place
        .run(&["compact", "--into", inside])
        .failed(2, "invalid-option");
    place
        .run(&["verify", "--copy", "--copy-to", inside])
        .failed(2, "invalid-option");
    assert!(!place.store().join("new").exists());
}
