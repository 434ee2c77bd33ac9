//! `self-test`: the figures as people and programs see them.

use std::collections::BTreeSet;

use super::support::Place;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure {
    schema: String,
    number: String,
    name: String,
    goal: String,
    value: String,
    verdict: String,
    seed: u64,
    seconds: f64,
    command: Option<String>,
    shown: Option<String>,
}

/// Names that lie in the place, without the store.
fn left(place: &Place) -> Vec<String> {
    let entries = std::fs::read_dir(place.path(".")).unwrap();
    entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn each_figure_is_a_line_and_nothing_is_left_behind() {
    let place = Place::new();
    let run = place.run(&[
        "self-test",
        "--json",
        "--seed",
        "7",
        "--only",
        "1c",
        "--only",
        "1b",
    ]);
    let lines: Vec<Figure> = run.done().lines();
    let [opens, power] = lines.as_slice() else {
        panic!("{} lines", lines.len())
    };
    assert_eq!(
        (opens.schema.as_str(), opens.number.as_str()),
        ("ctxlog.self-test/1", "1c")
    );
    assert_eq!((opens.verdict.as_str(), opens.seed), ("holds", 7));
    assert_eq!(opens.goal, "0 after at least 20 kills");
    assert!(
        opens.value.starts_with("0 after 2") && opens.seconds > 0.0,
        "{}",
        opens.value
    );
    assert!(opens.name.contains("kill while opening"));
    assert!(opens.command.is_none() && opens.shown.is_none());
    assert_eq!(
        (power.number.as_str(), power.verdict.as_str()),
        ("1b", "not-covered")
    );
    assert_eq!(
        power.command.as_deref(),
        Some("cargo test --test power_loss")
    );
    assert_eq!(left(&place), [""; 0]);
}

#[test]
fn people_see_a_table_and_what_it_does_not_cover() {
    let place = Place::new();
    std::fs::create_dir(place.path("disk")).unwrap();
    let run = place
        .run(&["self-test", "--only", "10", "--only", "7b", "--dir", "disk"])
        .done();
    let lines: Vec<&str> = run.out.lines().collect();
    assert!(lines[0].starts_with("figure  what "), "{}", run.out);
    assert!(
        lines[1].starts_with("10 ") && lines[1].ends_with(" holds"),
        "{}",
        run.out
    );
    assert!(
        lines[2].starts_with("not covered: 7b, a really full disk"),
        "{}",
        run.out
    );
    assert!(
        lines[3].starts_with("the same instants again: --seed "),
        "{}",
        run.out
    );
    assert_eq!(lines.len(), 4);
    assert_eq!(left(&place), ["disk"]);
    assert_eq!(std::fs::read_dir(place.path("disk")).unwrap().count(), 0);
}

#[test]
fn a_figure_that_does_not_exist_is_named_with_those_that_do() {
    let place = Place::new();
    let run = place.run(&["self-test", "--only", "99"]);
    let (message, help) = run.failed(2, "invalid-option");
    assert!(message.contains("no figure '99'"), "{message}");
    assert!(help.contains("1, 1c, 2, 3, 4, 5, 7, 9, 10"), "{help}");
    let nowhere = place.run(&["self-test", "--only", "1", "--dir", "absent/here"]);
    nowhere.failed(2, "io");
    assert_eq!(left(&place), [""; 0]);
}

/// The help says what each size does, and speaks of no child.
#[test]
fn the_help_shows_sizes_and_examples_and_hides_the_child() {
    let help = Place::new().run(&["self-test", "--help"]).done().out;
    let words: BTreeSet<&str> = help.split_whitespace().collect();
    for word in ["EXAMPLES", "short:", "ci:", "release:", "10,000", "--seed"] {
        assert!(words.contains(word), "{word} is missing in\n{help}");
    }
    assert!(!words.contains("--child"));
}

/// Stopped half way with its whole group, as by Ctrl-C, or killed alone: nothing is left behind.
#[cfg(unix)]
#[test]
fn a_run_that_is_stopped_leaves_nothing_behind() {
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    for (signal, group) in [("-TERM", "-"), ("-KILL", "")] {
        let place = Place::new();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ctxlog"));
        command.env_remove("CTXLOG_FIGURES");
        command.args([
            "self-test",
            "--only",
            "1",
            "--size",
            "ci",
            "--no-progress",
            "--dir",
        ]);
        command.arg(place.path(".")).process_group(0);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut run = command.spawn().unwrap();
        let until = |holds: &dyn Fn() -> bool, what: &str| {
            let began = Instant::now();
            while !holds() {
                assert!(
                    began.elapsed() < Duration::from_secs(30),
                    "{signal}: {what}"
                );
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        let inside = || {
            let dir = left(&place).pop().map(|name| place.path(&name).join("1"));
            dir.and_then(|dir| dir.read_dir().ok())
                .is_some_and(|d| d.count() > 0)
        };
        until(&inside, "it does not begin");
        let whom = format!("{group}{}", run.id());
        let sent = Command::new("kill").args([signal, "--", &whom]).status();
        assert!(sent.unwrap().success());
        assert!(!run.wait().unwrap().success());
        until(&|| left(&place).is_empty(), "its directory stays");
    }
}
