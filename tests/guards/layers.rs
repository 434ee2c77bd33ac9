//! Dependencies point downwards, and what is meant to be pure is.

use std::collections::BTreeSet;

use super::{code, read, sources, words};

/// Each layer, what it may use, and how many files it has at least.
const LAYERS: &[(&str, &[&str], usize)] = &[
    ("log", &[], 6),
    ("window", &["log"], 7),
    ("strategy", &["window", "log"], 6),
    ("formats", &["log"], 15),
    ("store", &["log"], 8),
    (
        "engine",
        &["formats", "strategy", "store", "window", "log", "tokens"],
        8,
    ),
    (
        "audit",
        &[
            "engine", "formats", "strategy", "store", "window", "log", "tokens",
        ],
        5,
    ),
    (
        "testkit",
        &[
            "audit", "engine", "formats", "strategy", "store", "window", "log", "tokens",
        ],
        12,
    ),
];

/// Modules without layers below them, which any layer may use.
const LEAVES: [&str; 2] = ["planted", "tokens"];

const PURE: [&str; 4] = ["log", "window", "strategy", "formats"];

/// Where a clock, randomness, a disk, a network, another thread or a terminal begins.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::env",
    "std::thread",
    "std::process",
    "std::time",
    "SystemTime",
    "Instant",
    "Utc",
    "Local",
    "getrandom",
    "rand",
    "tokio",
    "async",
    "await",
];

const TALK: &[&str] = &["println!", "eprintln!", "print!", "eprint!", "dbg!"];

/// What a reader of bytes may use of `std::io`.
const READING: &[&str] = &["BufRead", "Read", "Result", "Error", "ErrorKind"];

/// The modules of the crate that a source uses.
fn used(source: &str) -> BTreeSet<String> {
    let code = code(source);
    let paths = words(&code).filter_map(|w| w.strip_prefix("crate::"));
    let mut used: BTreeSet<String> = paths
        .filter_map(|p| p.split("::").find(|s| !s.is_empty()))
        .map(str::to_owned)
        .collect();
    // `use crate::{a::B, c::D}` would hide them.
    if code.contains("crate::{") {
        used.insert("several modules in one `use crate::{`".to_owned());
    }
    used
}

/// The words of a source that a pure layer may not use.
fn impure(source: &str) -> Vec<String> {
    let code = code(source);
    let begins = |word: &str, with: &&&str| {
        word == **with
            || word
                .strip_prefix(**with)
                .is_some_and(|r| r.starts_with("::"))
    };
    let io = |word: &str| {
        let behind = word
            .strip_prefix("std::")
            .unwrap_or(word)
            .strip_prefix("io::")?;
        let name = behind.split("::").next().unwrap_or_default();
        (!name.is_empty() && !READING.contains(&name)).then(|| word.to_owned())
    };
    let all = words(&code).map(|w| w.trim_end_matches(':'));
    all.filter_map(|word| {
        let bad = IMPURE.iter().chain(TALK).any(|w| begins(word, &w));
        if bad { Some(word.to_owned()) } else { io(word) }
    })
    .collect()
}

#[test]
fn each_layer_uses_only_layers_below_it() {
    for (layer, below, at_least) in LAYERS {
        let files = sources(&format!("src/{layer}"));
        assert!(
            files.len() >= *at_least,
            "only {} files of {layer}",
            files.len()
        );
        for file in files {
            for module in used(&read(&file)) {
                let fine =
                    module == *layer || module == "planted" || below.contains(&module.as_str());
                assert!(fine, "{file} of layer '{layer}' uses '{module}'");
            }
        }
    }
}

#[test]
fn every_module_of_the_crate_belongs_to_a_layer() {
    let library = read("src/lib.rs");
    let modules: BTreeSet<&str> = library
        .lines()
        .filter_map(|l| l.strip_prefix("pub mod ")?.strip_suffix(';'))
        .collect();
    let layers: BTreeSet<&str> = LAYERS.iter().map(|l| l.0).chain(LEAVES).collect();
    assert_eq!(modules, layers);
}

#[test]
fn the_pure_layers_know_no_clock_randomness_disk_or_terminal() {
    let mut files = 0;
    for file in PURE.iter().flat_map(|l| sources(&format!("src/{l}"))) {
        let found = impure(&read(&file));
        assert!(found.is_empty(), "{file} uses {found:?}");
        files += 1;
    }
    assert!(files >= 35, "only {files} files were read");
}

#[test]
fn the_library_never_talks_to_a_terminal() {
    let mut files = 0;
    for file in LAYERS.iter().flat_map(|l| sources(&format!("src/{}", l.0))) {
        let code = code(&read(&file));
        let talk: Vec<&str> = words(&code).filter(|w| TALK.contains(w)).collect();
        assert!(talk.is_empty(), "{file} uses {talk:?}");
        files += 1;
    }
    assert!(files >= 50, "only {files} files were read");
}

#[test]
fn a_planted_breach_is_seen() {
    assert_eq!(
        used("use crate::engine::Store;")
            .into_iter()
            .next()
            .unwrap(),
        "engine"
    );
    assert!(used("fn f(_: &crate::store::Name) {}").contains("store"));
    assert_eq!(used("use crate::{engine, store};").len(), 1);
    assert!(used("// use crate::engine::Store;").is_empty());
    for bad in [
        "let t = std::time::Instant::now();",
        "chrono::Utc::now(); use chrono::Utc; Utc::now()",
        "use std::fs;",
        "std::fs::read(p)",
        "use std::io::{self}; io::stdout()",
        "async fn f() {}",
        "println!(\"x\")",
    ] {
        assert!(!impure(bad).is_empty(), "{bad}");
    }
    for fine in [
        "use std::io::{self, BufRead};",
        "fn f() -> io::Result<()>",
        "// println!(x)",
    ] {
        assert!(impure(fine).is_empty(), "{fine}: {:?}", impure(fine));
    }
}
