//! The demo and the README's worked example, as a newcomer runs them.

#![cfg(all(feature = "cli", unix))]

use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_ctxlog");

fn ctxlog(arguments: &[&str], store: &std::path::Path) -> Output {
    let mut command = plain(PROGRAM);
    command.arg("--store").arg(store).args(arguments);
    command.output().unwrap()
}

/// A command whose output depends on nothing around it.
fn plain(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env_remove("CTXLOG_STORE").env("NO_COLOR", "1");
    command.env("COLUMNS", "96").env("LC_ALL", "C.UTF-8");
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    command
}

fn text(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn the_three_commands_that_the_demo_prints_work_as_they_stand() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("a store");
    let story = text(&ctxlog(&["demo"], &store));
    let commands: Vec<&str> = story
        .lines()
        .skip_while(|line| *line != "Try next")
        .skip(1)
        .map(str::trim)
        .collect();
    assert_eq!(commands.len(), 3, "{story}");
    let answers: Vec<String> = commands
        .iter()
        .map(|line| text(&plain("sh").args(["-c", line]).output().unwrap()))
        .collect();
    assert!(answers[0].contains("over-budget"), "{}", answers[0]);
    let body: serde_json::Value = serde_json::from_str(&answers[1]).unwrap();
    assert!(body["messages"].as_array().unwrap().len() > 1);
    assert!(answers[2].contains("back"), "{}", answers[2]);
}

#[test]
fn running_the_demo_twice_adds_nothing_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let first = text(&ctxlog(&["demo"], dir.path()));
    assert!(!first.contains("nothing was added"));
    let again = text(&ctxlog(&["demo"], dir.path()));
    assert!(again.contains("nothing was added"), "{again}");
    let tail = |story: &str| story.lines().skip(3).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(tail(&again), tail(&first));
}

#[test]
fn the_demo_fits_two_screens() {
    let dir = tempfile::tempdir().unwrap();
    let story = text(&ctxlog(&["demo"], dir.path()));
    assert!(
        story.lines().count() <= 72,
        "{} lines",
        story.lines().count()
    );
}

#[test]
fn the_demo_in_json_is_one_object_with_names_as_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let story = text(&ctxlog(&["demo", "--json"], dir.path()));
    assert_eq!(story.lines().count(), 1);
    let story: serde_json::Value = serde_json::from_str(&story).unwrap();
    assert_eq!(story["schema"], "ctxlog.demo/1");
    assert_eq!(
        story["lost"]["what"]["message"],
        story["lost"]["why"]["message"]
    );
    assert_eq!(story["next"].as_array().unwrap().len(), 3);
    assert_eq!(story["status"]["head"]["hash"].as_str().unwrap().len(), 64);
}

/// The blocks of the README's worked example: commands, each with what it prints.
fn example() -> Vec<(String, String)> {
    let page = include_str!("../README.md");
    let part = page
        .split("\n## ")
        .find(|p| p.starts_with("A worked example"));
    let mut blocks = part.unwrap().split("```").skip(1).step_by(2);
    let mut pairs = Vec::new();
    while let (Some(command), Some(answer)) = (blocks.next(), blocks.next()) {
        let command = command
            .strip_prefix("sh\n")
            .unwrap()
            .lines()
            .find(|l| l.starts_with("ctxlog "))
            .unwrap();
        let answer = answer.strip_prefix("text\n").unwrap();
        pairs.push((command.to_owned(), answer.to_owned()));
    }
    pairs
}

/// Short hashes differ from run to run.
fn without_hashes(text: &str) -> String {
    let hash = |w: &str| w.len() == 8 && w.bytes().all(|b| b.is_ascii_hexdigit());
    let word = |w: &str| {
        if hash(w) {
            "HASH".to_owned()
        } else {
            w.to_owned()
        }
    };
    let line = |l: &str| l.split(' ').map(word).collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
#[cfg_attr(
    not(feature = "tiktoken"),
    ignore = "the README counts with the tokenizer"
)]
fn the_worked_example_of_the_readme_is_what_the_program_prints() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let example = example();
    assert!(example.len() >= 4);
    for (command, answer) in example {
        let arguments: Vec<&str> = command.split_whitespace().skip(1).collect();
        let printed = text(&ctxlog(&arguments, &store));
        let printed = printed.replace(&store.display().to_string(), "example");
        let (printed, answer) = (without_hashes(&printed), without_hashes(&answer));
        match answer.strip_suffix("\n…") {
            Some(beginning) => assert!(printed.starts_with(beginning), "{command}\n{printed}"),
            None => assert_eq!(printed, answer, "{command}"),
        }
    }
}
