//! The page on reference systems: no item of theirs is missing, and what is said to show one exists.

use std::collections::BTreeSet;

use super::{data, read, sources};

/// The systems and weaknesses, and how many items each has.
const ITEMS: [(&str, u32); 6] = [
    ("S0", 45),
    ("S2", 151),
    ("S4", 100),
    ("W0", 21),
    ("W2", 30),
    ("W4", 32),
];

/// What rows may wait for.
const FEATURES: [&str; 10] = [
    "consolidation",
    "replacement",
    "memory views",
    "recall",
    "redaction",
    "streams",
    "identity and owners",
    "caches",
    "entity and episodic memory",
    "run control",
];

/// A row of the page: item, what ctxlog does, and the tests that show it.
struct Row {
    item: String,
    text: String,
    tests: Vec<String>,
}

fn rows(page: &str) -> Vec<Row> {
    let cells = |line: &str| -> Option<Vec<String>> {
        let row = line.strip_prefix("| ")?.strip_suffix('|')?;
        Some(row.split('|').map(|c| c.trim().to_owned()).collect())
    };
    let item = |cell: &String| {
        let (system, number) = cell.split_once('.').unwrap_or_default();
        ITEMS.iter().any(|(s, _)| *s == system) && number.parse::<u32>().is_ok()
    };
    let rows = page.lines().filter_map(cells);
    let rows = rows.filter(|cells| cells.first().is_some_and(item));
    rows.map(|cells| Row {
        item: cells[0].clone(),
        text: cells[1].clone(),
        tests: cells[2]
            .split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect(),
    })
    .collect()
}

/// The names of all tests that run: functions behind `#[test]`, and the laws that a macro makes tests
/// of.
fn tests() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in sources("tests").into_iter().chain(sources("src")) {
        found.extend(tests_of(&read(&file)));
    }
    found
}

fn tests_of(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let (mut is_test, mut ignored) = (false, false);
    for line in source.lines().map(str::trim_start) {
        if line.starts_with("#[test]") {
            (is_test, ignored) = (true, false);
        } else if line.starts_with("#[ignore") {
            ignored = true;
        } else if let Some(function) = line.strip_prefix("fn ") {
            let name = function.split('(').next().unwrap_or_default();
            found.extend((is_test && !ignored).then(|| name.to_owned()));
            is_test = false;
        }
    }
    if let Some((_, list)) = source.split_once("\nlaw_tests! {") {
        let list = list.split('}').next().unwrap_or_default();
        found.extend(list.split_whitespace().map(str::to_owned));
    }
    found
}

#[test]
fn every_item_of_the_reference_systems_is_shown_or_answered() {
    let rows = rows(&read("docs/REFERENCE-SYSTEMS.md"));
    let items: Vec<&str> = rows.iter().map(|r| r.item.as_str()).collect();
    let all = ITEMS
        .iter()
        .flat_map(|(s, n)| (1..=*n).map(move |i| format!("{s}.{i}")));
    assert_eq!(items, all.collect::<Vec<_>>(), "each once, in order");
    let tests = tests();
    assert!(tests.len() > 300, "only {} tests", tests.len());
    for row in &rows {
        for test in &row.tests {
            assert!(
                tests.contains(test),
                "{}: no test is named {test}",
                row.item
            );
        }
        match row.text.strip_prefix("pending: ") {
            Some(feature) => {
                assert!(FEATURES.contains(&feature), "{}: {feature}", row.item);
                assert!(row.tests.is_empty(), "{} is shown and waits", row.item);
            }
            None => {
                let answered = row.text.len() > 40;
                assert!(
                    !row.tests.is_empty() || answered,
                    "{} says nothing",
                    row.item
                );
            }
        }
    }
    let pending = rows
        .iter()
        .filter(|r| r.text.starts_with("pending: "))
        .count();
    println!("pending items: {pending} of {}", rows.len());

    let planted =
        "#[test]\nfn a() {\n#[test]\n#[ignore]\nfn b() {\nfn c() {\nlaw_tests! {\n    d e\n}";
    assert_eq!(tests_of(planted), ["a", "d", "e"]);
}

/// The names of tests that ended well, in what `cargo test` printed; without their modules.
fn passed(output: &str) -> BTreeSet<&str> {
    let ended = |line: &str| line.ends_with(" ... ok");
    let lines = output.lines().filter(|line| ended(line));
    let paths = lines.filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... ok"));
    paths.filter_map(|path| path.rsplit("::").next()).collect()
}

/// What a whole run printed is given by `.ci/run`: a test cannot see whether others ran.
#[test]
fn every_test_that_shows_an_item_ran() {
    let planted = "test a::b ... ok\ntest a::c ... ignored\ntest d ... FAILED\ntest e ... ok";
    assert_eq!(passed(planted), BTreeSet::from(["b", "e"]));
    let Some(file) = std::env::var_os("CTXLOG_TEST_OUTPUT") else {
        println!("skipped: CTXLOG_TEST_OUTPUT names no output of a whole run");
        return;
    };
    let output = std::fs::read_to_string(file).unwrap();
    let passed = passed(&output);
    for row in rows(&read("docs/REFERENCE-SYSTEMS.md")) {
        for test in &row.tests {
            assert!(passed.contains(test.as_str()), "{}: {test}", row.item);
        }
    }
}

#[test]
fn the_items_are_those_of_the_page_they_come_from() {
    let Some(page) = data::page("reference-systems.md") else {
        return;
    };
    for (system, count) in ITEMS {
        let mark = format!("- **{system}.");
        let items = page.lines().filter_map(|l| l.strip_prefix(&mark));
        let numbers = items.filter_map(|l| {
            let digits = l.split(|c: char| !c.is_ascii_digit()).next()?;
            digits.parse::<u32>().ok()
        });
        let all: Vec<u32> = (1..=count).collect();
        assert_eq!(numbers.collect::<Vec<_>>(), all, "{system}");
    }
}
