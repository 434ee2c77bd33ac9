//! Sessions of Claude Code into a store in memory: how fast, and how much memory a long one takes.

use std::fmt::Write as _;

use serde_json::json;

use crate::child::Work;
use crate::compare::alone;
use crate::content::{Kind, recorded};
use crate::ours;
use crate::setup::Setup;
use crate::stats::{float, timed};
use crate::table::{Goal, Table, Unit};

/// Messages that are made at a time.
const CHUNK: u64 = 20;

pub fn run(setup: &Setup, table: &mut Table) {
    speed(setup, table);
    memory(setup, table);
}

fn speed(setup: &Setup, table: &mut Table) {
    let files = recorded("claude-code");
    let length = |file: &std::path::PathBuf| file.metadata().expect("a file").len();
    let bytes: u64 = files.iter().map(length).sum();
    if bytes == 0 {
        return; // only recorded sessions say anything
    }
    let mut speeds = Vec::new();
    for round in 0..setup.sizes.rounds {
        setup.round("imports", round, setup.sizes.rounds);
        let (took, ()) = timed(|| files.iter().for_each(|file| ours::import(file)));
        speeds.push(float(bytes) / took.as_secs_f64() / 1e6);
    }
    let megabytes = bytes / 1_000_000;
    let measure = format!(
        "import of {} recorded sessions, {megabytes} MB",
        files.len()
    );
    let goal = Goal::AtLeast(50.0);
    table
        .rows
        .push(alone(&measure, Unit::MegabytesPerSecond, goal, &speeds));
}

/// A long session of recorded words, and the memory of a process that imports it.
fn memory(setup: &Setup, table: &mut Table) {
    let dir = setup.dir();
    let (file, mut text) = (dir.path().join("session.jsonl"), String::new());
    let most = usize::try_from(setup.sizes.big_bytes / 10).expect("a size");
    let (mut n, mut from) = (0_u64, 0);
    while text.len() < most {
        for said in setup.source.stretch(Kind::Text, 0, from, CHUNK) {
            let model = n % 2 == 1;
            let role = if model { "assistant" } else { "user" };
            let parent = n.checked_sub(1).map(|before| format!("u{before}"));
            let content = json!([{"type": "text", "text": said.message.words()}]);
            let message = json!({"id": format!("m{n}"), "role": role, "content": content});
            let line = json!({
                "type": role, "uuid": format!("u{n}"), "parentUuid": parent,
                "sessionId": "s", "message": message,
            });
            writeln!(text, "{line}").expect("a string takes all");
            n += 1;
        }
        from += CHUNK;
    }
    std::fs::write(&file, &text).expect("a file");
    let size = float(u64::try_from(text.len()).expect("a size")) / 1_048_576.0;
    drop(text);
    let peaks: Vec<f64> = (0..setup.sizes.cold)
        .map(|_| Work::Import.run(&file).peak_mib / size)
        .collect();
    let measure = format!("memory of importing one session of {size:.0} MiB, in times its size");
    table
        .rows
        .push(alone(&measure, Unit::Times, Goal::AtMost(4.0), &peaks));
}
