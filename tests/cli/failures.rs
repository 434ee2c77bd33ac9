//! Exit codes, errors, and what happens when the world is in the way.

use std::io::Read as _;

use super::shapes::Verified;
use super::support::Place;

#[test]
fn reading_creates_no_store_and_says_what_to_do() {
    let place = Place::new();
    for command in ["status", "ls", "log", "window", "verify", "export", "call"] {
        let (_, help) = place.run(&[command]).failed(2, "no-store");
        assert!(
            help.contains("ctxlog demo") && help.contains("ctxlog import FILE"),
            "{help}"
        );
        place.run(&[command, "--json"]).failed(2, "no-store");
    }
    place.run(&["why", "m1"]).failed(2, "no-store");
    assert!(!place.store().exists());
}

#[test]
fn wrong_usage_is_told_in_the_form_that_was_asked_for() {
    let place = Place::new();
    place.run(&["why"]).failed(2, "usage");
    place.run(&["why", "--json"]).failed(2, "usage");
    place
        .run(&["window", "--as-is", "--json"])
        .failed(2, "usage");
    place
        .run(&["import", "x", "--max-record", "5parsecs", "--json"])
        .failed(2, "usage");
    place.run(&["ls", "--memory", "9KiB"]).failed(2, "usage");
    let help = place.run(&["help", "why"]).done();
    assert!(help.out.contains("EXAMPLES"), "{}", help.out);
}

#[test]
fn any_budget_of_memory_answers_the_same() {
    let place = Place::furnished();
    let answer = place.run(&["status", "--json"]).done().out;
    for memory in ["1MiB", "64MiB", "3GB"] {
        let within = place.run(&["status", "--json", "--memory", memory]).done();
        assert_eq!(within.out, answer, "{memory}");
    }
    let mut command = place.command(&["status"]);
    let status = command.env("CTXLOG_MEMORY", "little").status().unwrap();
    assert_eq!(status.code(), Some(2));
}

#[test]
fn every_command_has_help_with_examples() {
    let place = Place::new();
    for command in [
        "demo", "import", "append", "call", "report", "ls", "status", "log", "show", "window",
        "why", "fork", "restore", "replace", "clear", "recall", "pin", "unpin", "lint", "verify",
        "export",
    ] {
        let help = place.run(&[command, "--help"]).done();
        assert!(
            help.out.contains(&format!("EXAMPLES\n  ctxlog {command}"))
                || help.out.contains(&format!("ctxlog {command}")) && help.out.contains("EXAMPLES"),
            "{command}: {}",
            help.out
        );
        assert_eq!(help.err, "");
    }
}

#[test]
fn the_help_names_every_strategy_and_preset() {
    let place = Place::new();
    let presets: Vec<&str> = ctxlog::strategy::presets().map(|p| p.0).collect();
    for command in ["import", "call"] {
        let help = place.run(&[command, "--help"]).done().out;
        let listed = |name: &str| help.split([' ', ',', ':']).any(|word| word == name);
        for name in ctxlog::strategy::NAMES
            .iter()
            .copied()
            .chain(presets.iter().copied())
        {
            assert!(listed(name), "{command} --help does not name {name}");
        }
    }
}

#[test]
fn selectors_that_name_nothing_exit_with_1_and_nonsense_with_2() {
    let place = Place::furnished();
    for (arguments, exit, code) in [
        (["window", "--at", "it:99"], 1, "range-out-of-bounds"),
        (["window", "--at", "s:99"], 1, "range-out-of-bounds"),
        (["window", "--at", "@-99"], 1, "range-out-of-bounds"),
        (["window", "--at", "m99"], 1, "nothing-matches"),
        (["window", "--at", "ffffffffffff"], 1, "nothing-matches"),
        (["window", "--at", "yesterday"], 2, "invalid-selector"),
        (["window", "--at", "abc"], 2, "invalid-selector"),
        (["log", "s:5..s:2", "--no-progress"], 2, "range-inverted"),
        (["why", "m99", "--no-progress"], 1, "nothing-matches"),
        (["why", "it:1", "--no-progress"], 2, "invalid-selector"),
        (["restore", "@", "--no-progress"], 2, "invalid-selector"),
        (["restore", "s:1", "--no-progress"], 1, "nothing-matches"),
        (["status", "-c", "nobody"], 1, "nothing-matches"),
    ] {
        place.run(&arguments).failed(exit, code);
        place
            .run(&[&arguments[..], &["--json"]].concat())
            .failed(exit, code);
    }
}

#[test]
fn where_there_are_several_conversations_the_error_lists_them() {
    let place = Place::furnished();
    place
        .run(&["append", "-c", "b\u{1b}[31m\nc", "--text", "x"])
        .done();
    let (message, _) = place.run(&["log"]).failed(2, "which-conversation");
    assert!(
        message.contains("\n  chat") && message.contains("b\\u{1b}[31m\\nc"),
        "{message}"
    );
    place.run(&["log", "-c", "chat"]).done();
}

#[test]
fn a_store_that_is_open_elsewhere_is_busy() {
    let place = Place::furnished();
    let held = ctxlog::Store::open(place.store()).unwrap();
    for arguments in [&["status"][..], &["append", "--text", "x"], &["verify"]] {
        let (message, help) = place
            .run(&[arguments, &["--json"]].concat())
            .failed(4, "store-busy");
        assert!(
            message.contains(".ctxlog") && help.contains("process"),
            "{message} {help}"
        );
    }
    drop(held);
    place.run(&["status"]).done();
}

#[test]
fn a_directory_that_holds_something_else_is_left_alone() {
    let place = Place::new();
    std::fs::create_dir(place.path("mine")).unwrap();
    place.write("mine/thesis.txt", "years of work");
    for command in [
        &["status"][..],
        &["append", "-c", "a", "--text", "x"],
        &["demo"],
    ] {
        place
            .run(&[&["--store", "mine"], command].concat())
            .failed(2, "not-a-store");
    }
    let names: Vec<_> = std::fs::read_dir(place.path("mine"))
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(names, ["thesis.txt"]);
}

#[test]
fn a_store_that_cannot_be_opened_is_told_once_however_much_there_is_to_import() {
    let place = Place::new();
    std::fs::create_dir(place.path("mine")).unwrap();
    place.write("mine/thesis.txt", "years of work");
    let record = "{\"request\":{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}}\n";
    place.write("a.jsonl", record.repeat(3));
    place.write("b.jsonl", record);
    let ran = place.run(&["--store", "mine", "import", "a.jsonl", "b.jsonl"]);
    assert_eq!(ran.code, 2);
    assert_eq!(ran.err.matches("not-a-store").count(), 1, "{}", ran.err);
}

#[test]
fn an_address_is_refused_as_a_store_and_makes_no_directory() {
    let place = Place::new();
    for command in [
        &["ls"][..],
        &["append", "-c", "a", "--text", "x"],
        &["demo"],
    ] {
        let address = ["--store", "http://localhost:8080"];
        let (message, _) = place
            .run(&[&address[..], command, &["--json"]].concat())
            .failed(2, "invalid-option");
        assert!(message.contains("http://localhost:8080"), "{message}");
    }
    assert!(!place.path("http:").exists());
}

#[test]
fn a_conversation_has_a_name() {
    let place = Place::new();
    place
        .run(&["append", "-c", "", "--text", "x", "--json"])
        .failed(2, "usage");
    assert!(!place.store().exists());
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::new();
    let turn = r#"{"role":"user","content":"again and again"}"#;
    let turns = format!("{turn}\n").repeat(3000);
    place.write("a.jsonl", turns);
    place.run(&["import", "a.jsonl"]).done();
    for arguments in [
        &["log", "--json"][..],
        &["log"],
        &["export"],
        &["window", "--format", "text"],
    ] {
        let mut child = place.command(arguments).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut [0; 16]).unwrap();
        drop(out);
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {err}");
        assert!(!err.contains("error"), "{err}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn an_output_that_cannot_be_written_is_an_error() {
    let place = Place::furnished();
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let status = place.command(&["log"]).stdout(full).status().unwrap();
    assert_eq!(status.code(), Some(2));
}

/// Flips a bit of the entry that follows the one of this hash, within its block, and of nothing else.
fn damage(place: &Place, hash: &str) {
    let db = sled::Config::new()
        .path(place.store().join("sled"))
        .flush_every_ms(None)
        .open()
        .unwrap();
    let wanted: Vec<u8> = (0..hash.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&hash[i..i + 2], 16).unwrap())
        .collect();
    let mut damaged = 0;
    for pair in db.scan_prefix(b"C") {
        let (key, value) = pair.unwrap();
        // As docs/FORMAT.md has it: a content of one value, and in it a block.
        let (body, _) = value.split_last_chunk::<4>().unwrap();
        let (0, [1, words, sizes @ ..]) = (body[0], &body[1..]) else {
            continue;
        };
        let size = |at: usize| u32::from_be_bytes(sizes[at..at + 4].try_into().unwrap());
        let (packed, rest) = sizes[16..].split_at(size(12) as usize);
        let mut heads = zstd::bulk::decompress(packed, size(4) as usize).unwrap();
        // The entry after it holds its hash as `prev`.
        let Some(at) = heads.windows(32).position(|window| window == wanted) else {
            continue;
        };
        heads[at] ^= 1;
        let packed = zstd::bulk::compress(&heads, 1).unwrap();
        let length = u32::try_from(packed.len()).unwrap().to_be_bytes();
        let mut value = [&[0, 1, *words], &sizes[..12], &length, &packed, rest].concat();
        assert!(value.len() < 4_092, "it still fits one value");
        let crc = crc32c::crc32c_append(crc32c::crc32c(&key), &value);
        value.extend(crc.to_be_bytes());
        db.insert(key, value).unwrap();
        damaged += 1;
    }
    assert!(damaged > 0);
    db.flush().unwrap();
}

#[test]
fn a_damaged_entry_is_named_and_what_is_before_it_can_be_saved() {
    let place = Place::furnished();
    let all: Vec<super::shapes::Entry> = place.run(&["log", "--json"]).done().lines();
    damage(&place, &all[7].hash); // entry 8 holds the hash of entry 7
    let run = place.run(&["verify", "--json"]);
    let (message, help) = run.failed(3, "damaged");
    assert!(!run.err.contains("panicked"), "{}", run.err);
    assert!(
        message.contains("s:8") && help.contains("--salvage"),
        "{message} {help}"
    );
    let verified: Verified = run.json();
    assert_eq!((verified.ok, verified.first_bad), (false, Some(8)));
    let human = place.run(&["verify"]);
    assert!(
        human.out.contains("trusted    s:0..s:7") && human.out.contains("suspect"),
        "{}",
        human.out
    );
    for arguments in [&["status"][..], &["log"], &["why", "m1"], &["window"]] {
        place.run(arguments).failed(3, "damaged");
    }
    let saved = place.run(&["export", "--salvage", "-o", "rest.jsonl", "--json"]);
    let (message, _) = saved.failed(3, "damaged");
    assert!(message.contains("s:0..s:7"), "{message}");
    place
        .run(&["--store", "new", "import", "rest.jsonl"])
        .done();
    let whole: Verified = place
        .run(&["--store", "new", "verify", "--json"])
        .done()
        .json();
    assert!(whole.ok);
    assert_eq!(whole.head.unwrap().hash, all[7].hash);
}
