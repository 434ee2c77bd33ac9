//! `simulate`, as people and programs see it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::support::Place;

const ASKED: [&str; 5] = [
    "simulate",
    "--strategy",
    "sliding-window:keep=1",
    "--strategy",
    "clear-tool-results:age=1,keep=1 + token-budget:limit=9000",
];

fn bytes(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let files = files
        .into_iter()
        .map(|f| (f.clone(), std::fs::read(f).unwrap()));
    let within = folders.iter().flat_map(|f| bytes(f));
    files.chain(within).collect()
}

#[test]
fn alternatives_stand_beside_what_was_recorded() {
    let place = Place::furnished();
    let answer: Value = place.run(&[&ASKED[..], &["--json"]].concat()).done().json();
    assert_eq!(answer["schema"], "ctxlog.simulate/1");
    assert_eq!(answer["calls"], 4);
    let columns = answer["alternatives"].as_array().unwrap();
    let names: Vec<&str> = columns
        .iter()
        .map(|c| c["name"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 3);
    assert_eq!(names[0], "as recorded");
    assert!(names[2].starts_with("clear-tool-results:") && names[2].contains(" + token-budget:"));
    for column in columns {
        assert_eq!(column["tokens"].as_array().unwrap().len(), 4);
    }
    // One more group than the recorded chain, which keeps two, lets go.
    let left = |n: usize| columns[n]["changes"].as_array().unwrap().clone();
    assert!(left(1).len() > left(0).len());
    assert_eq!(
        (&left(0)[0]["message"], &left(0)[0]["how"]),
        (&"m5".into(), &"left".into())
    );
    assert!(answer.get("messages_differing").is_none());
}

#[test]
fn asking_changes_no_entry() {
    let place = Place::furnished();
    // Opening a store is allowed to tidy; that is over with the first asking.
    let log = |place: &Place| place.run(&["log", "--json"]).done().out;
    let (before, _) = (log(&place), place.run(&ASKED).done());
    let files = bytes(&place.store());
    place.run(&ASKED).done();
    assert_eq!(log(&place), before);
    place.run(&["verify"]).done();
    let again = bytes(&place.store());
    assert!(files.keys().eq(again.keys()), "no file is added");
    assert!(files == again, "the store's bytes are as they were");
}

#[test]
fn the_table_keeps_within_the_width_and_drops_columns_from_the_end() {
    let place = Place::furnished();
    for (width, columns) in [(80_usize, "refused"), (120, "lifetime"), (40, "left")] {
        for locale in ["C.UTF-8", "C"] {
            let mut command = place.command(&[&ASKED[..], &["--messages"]].concat());
            let output = command
                .env("COLUMNS", width.to_string())
                .env("LC_ALL", locale)
                .output()
                .unwrap();
            assert_eq!(output.status.code(), Some(0));
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(locale != "C" || text.is_ascii(), "{text}");
            let mut lines = text.lines();
            let titles = lines
                .find(|l| l.contains("left  ") || l.ends_with("left"))
                .unwrap();
            assert!(titles.contains(columns) && titles.len() <= width, "{text}");
            // A word that is wider than a line stays whole, so that it can be pasted.
            let breaks = |l: &&str| l.split(' ').all(|word| word.len() <= width - 12);
            let long = text
                .lines()
                .filter(breaks)
                .find(|l| l.chars().count() > width);
            assert_eq!(long, None, "{width}");
            for mark in ["recorded", "A", "B"] {
                assert!(
                    text.lines().any(|l| l.trim_start().starts_with(mark)),
                    "{text}"
                );
            }
            assert!(
                text.contains("m5  recorded: left it:4 beyond-keep"),
                "{text}"
            );
        }
    }
}

#[test]
fn what_is_no_strategy_is_told_before_anything_is_read() {
    let place = Place::new();
    let wrong = place.run(&["simulate", "--strategy", "buffer:keep=2 + nothing-known"]);
    assert_eq!(wrong.code, 2, "{}", wrong.err);
    assert!(wrong.err.contains("nothing-known"), "{}", wrong.err);
    assert_eq!(place.run(&["simulate"]).code, 2);
    assert!(!place.store().exists());
}

#[test]
fn a_chain_with_an_empty_link_is_told_which() {
    let place = Place::new();
    for (spec, nth) in [
        ("", 1),
        (" ", 1),
        ("buffer:keep=2 +", 2),
        ("+ buffer:keep=2", 1),
        ("buffer:keep=2 +  + buffer:keep=3", 2),
    ] {
        let wrong = place.run(&["simulate", "--strategy", spec]);
        assert_eq!(wrong.code, 2, "{spec}: {}", wrong.err);
        let said = format!("link {nth} of the chain");
        assert!(wrong.err.contains(&said), "{spec}: {}", wrong.err);
    }
}

/// A summariser that fails is told of: its column would look like one that had nothing to do.
#[test]
fn attempts_at_a_summary_that_fail_are_told() {
    let place = Place::furnished();
    let spec = "summarize-oldest:limit=9,keep=2,command=/nobody/there";
    let asked = place.run(&["simulate", "--strategy", spec]).done();
    assert!(
        asked.out.contains("at a summary came to nothing"),
        "{}",
        asked.out
    );
    let spec = "summarize-oldest:limit=9,keep=2";
    let asked = place.run(&["simulate", "--strategy", spec]).done();
    assert!(
        asked.out.contains("A: a summary was due at"),
        "{}",
        asked.out
    );
}
