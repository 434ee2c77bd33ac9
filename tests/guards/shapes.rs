//! Every shape that broke other systems has a test that is named after it, or says what it waits for.

use std::collections::BTreeMap;

use super::{data, read, sources};

#[path = "../shapes/list.rs"]
mod list;

/// The number of a test's shape and its name, of each test of a source that has one: a comment that
/// begins with the number, `#[test]`, and the function.
fn numbered(source: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut comment: Option<&str> = None;
    for line in source.lines() {
        match (line.strip_prefix("/// "), line.strip_prefix("fn ")) {
            (Some(text), _) => comment = comment.or(Some(text)),
            (None, Some(function)) => {
                let name = function.split('(').next().unwrap_or_default();
                found.extend(
                    comment
                        .take()
                        .and_then(number)
                        .map(|n| (n, name.to_owned())),
                );
            }
            (None, None) if line == "#[test]" => {}
            (None, None) => comment = None,
        }
    }
    found
}

/// The number that a text begins with.
fn number(text: &str) -> Option<String> {
    let (number, _) = text.split_once(". ")?;
    let digits = number.strip_prefix('B')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| number.to_owned())
}

#[test]
fn every_shape_has_one_test_or_says_what_it_waits_for() {
    let files = sources("tests/shapes");
    let mut tests: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (number, name) in files.iter().flat_map(|f| numbered(&read(f))) {
        tests.entry(number).or_default().push(name);
    }
    for (number, test, waits) in list::SHAPES {
        let names = tests.remove(*number).unwrap_or_default();
        if *test == list::PENDING {
            assert_eq!(
                names,
                Vec::<String>::new(),
                "{number} is said to be pending"
            );
            assert!(
                waits.contains(": "),
                "{number}: a feature, and what it is to show"
            );
        } else {
            assert_eq!(names, [*test], "{number}");
        }
        assert!(
            waits.is_empty() || waits.contains(": "),
            "{number}: {waits}"
        );
    }
    assert_eq!(
        tests,
        BTreeMap::new(),
        "tests of shapes that are not in the list"
    );
    let order: Vec<u32> = list::SHAPES
        .iter()
        .map(|s| s.0[1..].parse().unwrap())
        .collect();
    assert!(order.is_sorted_by(|a, b| a < b), "each once, in order");
    assert_eq!((order[0], order[order.len() - 1]), (1, 118));
    assert_eq!(order.len(), 71);

    let planted = "/// B7. A symptom,\n/// told.\n#[test]\nfn a() {\n/// B8. Another.\nfn b() {\n/// C\nfn c() {";
    let seen = [("B7", "a"), ("B8", "b")].map(|(n, t)| (n.to_owned(), t.to_owned()));
    assert_eq!(numbered(planted), seen);
}

/// A test that is named in the list and does not run would be no test.
#[test]
fn every_test_of_a_shape_is_run() {
    let mut tests = 0;
    for file in sources("tests/shapes") {
        let source = read(&file);
        for (number, name) in numbered(&source) {
            let head = format!("#[test]\nfn {name}() {{");
            assert!(
                source.contains(&head),
                "{number} in {file} is no plain test"
            );
            tests += 1;
        }
        assert!(!source.contains("#[ignore"), "{file} leaves a test out");
    }
    assert!(tests >= 60, "only {tests} tests");
}

#[test]
fn the_list_of_shapes_is_that_of_the_page_they_come_from() {
    let Some(page) = data::page("broken-shapes.md") else {
        return;
    };
    let items = page.lines().filter_map(|l| l.strip_prefix("- **"));
    let numbers: Vec<&str> = items.filter_map(|l| l.split("**").next()).collect();
    let listed: Vec<&str> = list::SHAPES.iter().map(|s| s.0).collect();
    assert_eq!(numbers, listed);
}
