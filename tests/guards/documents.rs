//! The documents say what the code says.

use std::collections::BTreeSet;

use ctxlog::log::{AttemptOutcome, GroupReason, LeftReason, RequestReason, VisitOutcome};

use super::{read, sources};

macro_rules! rows {
    ($set:ident) => {
        $set::ALL
            .iter()
            .map(|m| (m.code(), m.name(), m.sentence(), m.remedy()))
            .map(|(code, name, sentence, remedy)| {
                format!("| {code} | `{name}` | {sentence} | {remedy} |")
            })
            .collect::<Vec<_>>()
    };
}

/// The lines of a page's section, from its heading to the next.
fn section<'a>(page: &'a str, marked: &str) -> Vec<&'a str> {
    let begins = |line: &&str| line.starts_with(marked);
    let lines = page.lines().skip_while(move |l| !begins(l)).skip(1);
    lines.take_while(|l| !l.starts_with("## ")).collect()
}

fn table<'a>(page: &'a str, marked: &str) -> Vec<&'a str> {
    let rows = section(page, marked).into_iter();
    rows.filter(|l| l.starts_with("| ") && !l.starts_with("| code") && !l.starts_with("| ---"))
        .collect()
}

#[test]
fn the_page_of_reasons_has_exactly_the_members_of_the_closed_sets() {
    let page = read("docs/REASONS.md");
    for (set, rows, at_least) in [
        ("`GroupReason`", rows!(GroupReason), 13),
        ("`VisitOutcome`", rows!(VisitOutcome), 10),
        ("`AttemptOutcome`", rows!(AttemptOutcome), 8),
        ("`LeftReason`", rows!(LeftReason), 10),
        ("`RequestReason`", rows!(RequestReason), 18),
    ] {
        assert!(rows.len() >= at_least, "{set}");
        assert_eq!(table(&page, set), rows, "{set}");
    }
}

#[test]
fn the_code_map_names_exactly_the_modules_of_the_library() {
    let library = read("src/lib.rs");
    let page = read("docs/ARCHITECTURE.md");
    let modules: BTreeSet<&str> = library
        .lines()
        .filter_map(|l| l.strip_prefix("pub mod ")?.strip_suffix(';'))
        .collect();
    let mapped: BTreeSet<&str> = page
        .lines()
        .filter_map(|l| l.strip_prefix("### `")?.strip_suffix('`'))
        .collect();
    assert!(modules.len() >= 8);
    assert_eq!(mapped, modules);
    assert!(page.lines().count() <= 400);
}

#[test]
fn the_code_map_names_every_file_of_a_layer() {
    let page = read("docs/ARCHITECTURE.md");
    let mut named = 0;
    for part in page.split("\n### `").skip(1) {
        let (layer, text) = part.split_once('`').unwrap();
        let Ok(source) = std::fs::read_to_string(super::root().join(format!("src/{layer}/mod.rs")))
        else {
            continue; // one file, or the binary's
        };
        let modules = source.lines().filter_map(|l| {
            let l = l.strip_prefix("pub ").unwrap_or(l);
            l.strip_prefix("mod ")?.strip_suffix(';')
        });
        for module in modules {
            let (file, folder) = (format!("`{module}`"), format!("`{module}/`"));
            let known = text.contains(&file) || text.contains(&folder);
            assert!(known, "the code map of '{layer}' does not name '{module}'");
            named += 1;
        }
    }
    assert!(named >= 45, "only {named} files were looked for");
}

#[test]
fn every_layer_of_the_code_map_states_an_invariant() {
    let page = read("docs/ARCHITECTURE.md");
    let parts: Vec<&str> = page.split("\n### ").skip(1).collect();
    assert!(parts.len() >= 9);
    for part in parts {
        assert!(part.contains("**Invariant:**"), "{part}");
    }
}

/// Rule ids (`C3`, `A12`) that stand as string literals in sources.
fn rules_in(directory: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in sources(directory) {
        let source = read(&file);
        for literal in source.split('"').skip(1).step_by(2) {
            let digits = literal
                .strip_prefix(['A', 'B', 'C', 'G'])
                .unwrap_or_default();
            if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
                found.insert(literal.to_owned());
            }
        }
    }
    found
}

#[test]
fn the_page_of_provider_rules_lists_exactly_the_rules_that_lint_checks() {
    let page = read("docs/PROVIDERS.md");
    let listed: BTreeSet<String> = page
        .lines()
        .filter_map(|l| l.strip_prefix("| ")?.split(" | ").next())
        .filter(|r| r.starts_with(['A', 'B', 'C', 'G']))
        .map(str::to_owned)
        .collect();
    let checked = rules_in("src/formats/lint");
    assert!(checked.len() >= 24, "{checked:?}");
    assert_eq!(listed, checked);
    let repaired = rules_in("src/formats");
    assert!(repaired.is_subset(&listed), "{repaired:?}");
}

/// The commands of the first block of shell in a section.
fn commands<'a>(page: &'a str, heading: &str) -> Vec<&'a str> {
    let lines = section(page, heading).into_iter();
    let block = lines.skip_while(|l| !l.starts_with("```sh")).skip(1);
    let block = block.take_while(|l| !l.starts_with("```"));
    block
        .map(|l| l.split('#').next().unwrap_or_default().trim())
        .filter(|l| !l.is_empty())
        .collect()
}

/// Whether a line holds the words of a command in their order, whatever stands between.
fn holds(line: &str, command: &str) -> bool {
    let mut words = line.split_whitespace();
    command
        .split_whitespace()
        .all(|word| words.any(|w| w == word))
}

#[test]
fn the_quick_start_has_two_commands_and_both_are_run_before_a_merge() {
    let page = read("README.md");
    let commands = commands(&page, "## Quick start");
    assert_eq!(commands.len(), 2, "{commands:?}");
    let script = read(".ci/run");
    for command in commands {
        let run = script.lines().any(|line| holds(line, command));
        assert!(run, ".ci/run does not run '{command}'");
    }
    assert!(holds(
        "X=1 cargo run --locked --release -- demo",
        "cargo run --release -- demo"
    ));
    assert!(!holds("cargo build --release", "cargo run --release"));
}

#[test]
fn the_strategies_of_the_readme_are_those_that_are_built() {
    let page = read("README.md");
    let listed: Vec<&str> = section(&page, "## Strategies")
        .into_iter()
        .filter_map(|l| l.strip_prefix("| `")?.split('`').next())
        .collect();
    assert_eq!(listed, ctxlog::strategy::NAMES);
    for name in listed {
        let known = ["", ":keep=1", ":limit=1", ":max=256", ":after=1"]
            .iter()
            .any(|o| ctxlog::strategy::parse(&format!("{name}{o}")).is_ok());
        assert!(known, "{name}");
    }
}

#[test]
fn links_between_the_documents_lead_somewhere() {
    let mut links = 0;
    let pages = ["README.md", "CHANGELOG.md"].map(str::to_owned);
    let docs = super::under("docs")
        .into_iter()
        .filter(|p| super::has_extension(p, "md"));
    for path in pages.into_iter().chain(docs) {
        let page = read(&path);
        for target in page.split("](").skip(1).filter_map(|t| t.split(')').next()) {
            if target.contains("://") {
                continue;
            }
            let file = target.split('#').next().unwrap_or_default();
            let beside = super::root().join(&path).with_file_name(file);
            assert!(beside.exists(), "{path} links to {target}");
            links += 1;
        }
    }
    assert!(links >= 8, "only {links} links were followed");
}
