//! Files: none too long, none forgotten, nothing of one machine in them.

use std::collections::BTreeSet;

use super::{code, read, root, sources, under};

#[test]
fn no_source_is_longer_than_800_lines_without_its_tests() {
    let files = sources("src");
    assert!(files.len() >= 60, "only {} files", files.len());
    for file in files {
        let source = read(&file);
        let end = source.find("#[cfg(test)]").unwrap_or(source.len());
        let lines = source[..end].lines().count();
        assert!(lines <= 800, "{file} has {lines} lines");
    }
}

/// What may stand in a source outside of string literals.
const LETTERS: &str = "…→‖µ";

/// Characters of a source that are neither ASCII, nor on the short list, nor within a string.
fn strangers(source: &str) -> Vec<char> {
    let mut found = Vec::new();
    for line in source.lines() {
        // A raw string holds quotes that end nothing.
        let line = match (line.split_once("r#\""), line.rsplit_once("\"#")) {
            (Some((head, _)), Some((_, tail))) => format!("{head}{tail}"),
            _ => line.to_owned(),
        };
        let mut inside = false;
        let mut before = ' ';
        for c in line.chars() {
            inside ^= c == '"' && before != '\\';
            if !c.is_ascii() && !inside && !LETTERS.contains(c) {
                found.push(c);
            }
            before = c;
        }
    }
    found
}

#[test]
fn sources_are_ascii_outside_of_strings() {
    // Tests hold texts of all kinds, also in raw strings, which this look does not tell apart.
    let folders = ["src", "benches", "fuzz/fuzz_targets"];
    let files: Vec<String> = folders.iter().flat_map(|f| sources(f)).collect();
    assert!(files.len() >= 80, "only {} files", files.len());
    for file in files {
        let found = strangers(&code(&read(&file)));
        assert!(found.is_empty(), "{file} holds {found:?}");
    }
    assert_eq!(strangers("let \u{fc}ber = \"\u{fc}\";"), ['\u{fc}']);
    assert_eq!(
        strangers("let \u{fc} = r#\"{\"a\":\"\u{e9}\"}\"#;"),
        ['\u{fc}']
    );
}

/// What would tie the repository to one machine.
fn ties(text: &str) -> Vec<&'static str> {
    const TIES: [&str; 5] = [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("/ho", "me/"),
        concat!("C:\\", "Users"),
        concat!("127.0.", "0.1"),
    ];
    TIES.into_iter().filter(|t| text.contains(t)).collect()
}

#[test]
fn no_file_names_a_path_or_a_host_of_one_machine() {
    let mut read_files = 0;
    for file in under(".") {
        let Ok(text) = std::fs::read_to_string(root().join(&file)) else {
            continue; // bytes
        };
        let found = ties(&text);
        assert!(found.is_empty(), "{file} holds {found:?}");
        read_files += 1;
    }
    assert!(read_files >= 100, "only {read_files} files were read");
    assert_eq!(ties(concat!("see /wo", "rk/x")).len(), 1);
}

#[test]
fn every_dependency_comes_from_the_public_registry() {
    let lock = read("Cargo.lock");
    let sources: BTreeSet<&str> = lock
        .lines()
        .filter_map(|l| l.strip_prefix("source = "))
        .collect();
    let public = "\"registry+https://github.com/rust-lang/crates.io-index\"";
    assert_eq!(sources, BTreeSet::from([public]));
}

/// The modules that a source declares.
fn declared(source: &str) -> BTreeSet<String> {
    let lines = source.lines().map(str::trim);
    let names = lines.filter_map(|l| l.trim_start_matches("pub ").strip_prefix("mod "));
    names
        .filter_map(|n| n.strip_suffix(';'))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_file_of_tests_and_benches_belongs_to_a_binary() {
    let files: Vec<String> = ["tests", "benches"]
        .iter()
        .flat_map(|f| sources(f))
        .collect();
    assert!(files.len() >= 40, "only {} files", files.len());
    let all: Vec<BTreeSet<String>> = files.iter().map(|f| declared(&read(f))).collect();
    for file in &files {
        let parts: Vec<&str> = file.split('/').skip(1).collect();
        let wanted = match parts.as_slice() {
            [_] | [_, "main.rs"] => continue, // a binary of its own
            [.., folder, "mod.rs"] => (*folder).to_owned(),
            [.., name] => name.trim_end_matches(".rs").to_owned(),
            [] => continue,
        };
        let known = all.iter().any(|modules| modules.contains(&wanted));
        assert!(known, "{file} is part of no binary");
    }
}

/// The values of a key in a Cargo file, in the sections of this name.
fn values(cargo: &str, section: &str, key: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for part in cargo.split("[[").filter(|p| p.starts_with(section)) {
        let lines = part.lines().take_while(|l| !l.starts_with("[["));
        let quoted = lines.filter_map(|l| l.strip_prefix(key)?.split('"').nth(1));
        found.extend(quoted.take(1).map(str::to_owned));
    }
    found
}

#[test]
fn benches_and_fuzz_targets_are_those_of_the_cargo_files() {
    let named = |folder: &str| -> BTreeSet<String> {
        let files = sources(folder).into_iter();
        files
            .map(|f| {
                f.rsplit('/')
                    .next()
                    .unwrap()
                    .trim_end_matches(".rs")
                    .to_owned()
            })
            .collect()
    };
    let benches = values(&read("Cargo.toml"), "bench]]", "name = ");
    let roots: BTreeSet<String> = sources("benches")
        .iter()
        .filter_map(|f| f.strip_prefix("benches/")?.strip_suffix("/main.rs"))
        .map(str::to_owned)
        .collect();
    assert!(!benches.is_empty());
    assert_eq!(roots, benches);
    let targets = values(&read("fuzz/Cargo.toml"), "bin]]", "name = ");
    assert!(targets.len() >= 3);
    assert_eq!(named("fuzz/fuzz_targets"), targets);
    let script = read(".ci/run");
    assert!(script.contains("for target in $(cargo fuzz list)"));
}
