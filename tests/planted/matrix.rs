//! The checks, as columns, and what they see on scripts drawn from fixed seeds.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread;

use ctxlog::engine::Store;
use ctxlog::formats::claude_code;
use ctxlog::formats::input::RECORD_LIMIT;
use ctxlog::testkit::generate::{script, source};
use ctxlog::testkit::laws::CHECKS;
use ctxlog::testkit::model::check_case;
use ctxlog::testkit::simulate::{self, Plan};
use ctxlog::testkit::{Case, Said, Script};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// What is looked at: a script, and the same after a transcript that was imported, for laws that
/// bind sources too. Each is run once for all checks.
pub struct Subject<'a> {
    seed: u64,
    plain: Case<'a>,
    imported: Case<'a>,
    forked: Case<'a>,
}

impl<'a> Subject<'a> {
    /// Every third case goes on after an import, for what binds sources; and whether this one does.
    fn case(&self, binds_sources: bool) -> (&Case<'a>, bool) {
        let imported = binds_sources && self.seed.is_multiple_of(3);
        let case = if imported {
            &self.imported
        } else if binds_sources && self.seed % 3 == 1 {
            &self.forked
        } else {
            &self.plain
        };
        (case, imported)
    }
}

/// Looks for one thing; tells what is wrong.
pub type Look = Box<dyn Fn(&Subject<'_>) -> Result<(), String> + Send + Sync>;

/// Per column that saw something: the number of the first seed, from 1, and what was seen.
pub type Seen = BTreeMap<&'static str, (u64, String)>;

/// Every check with its name: one a law, and what stands beside the laws.
pub fn columns() -> Vec<(&'static str, Look)> {
    let mut columns: Vec<(&'static str, Look)> = Vec::new();
    for check in CHECKS {
        let look = move |subject: &Subject<'_>| {
            let (case, _) = subject.case(check.law.binds_sources());
            check.run(case).map_err(|broken| broken.to_string())
        };
        columns.push((check.law.name(), Box::new(look)));
    }
    columns.push(("model", Box::new(model)));
    columns.push(("simulated-faults", Box::new(simulated_faults)));
    columns.push(("import", Box::new(import)));
    columns
}

fn model(subject: &Subject<'_>) -> Result<(), String> {
    let (case, imported) = subject.case(true);
    check_case(case, imported).map_err(|e| e.to_string())
}

/// The plan of the seed, not shrunk: that it is seen is enough.
fn simulated_faults(subject: &Subject<'_>) -> Result<(), String> {
    let plan = Plan::of(subject.seed).to_string();
    let run = simulate::replay(&plan).map_err(|e| e.to_string())?;
    run.map(drop).map_err(|violation| violation.what)
}

/// Answers of which each block is a line of its own, all with the answer's id: one call each.
fn import(subject: &Subject<'_>) -> Result<(), String> {
    let answers = subject.plain.script.pick("answers", 4) + 1;
    let mut lines: Vec<String> = Vec::new();
    let mut parent = "null".to_owned();
    let mut line = |kind: &str, message: String| {
        let uuid = format!("\"u{}\"", lines.len());
        lines.push(format!(
            r#"{{"type":"{kind}","uuid":{uuid},"parentUuid":{parent},"isSidechain":false,"sessionId":"s","message":{message}}}"#
        ));
        parent = uuid;
    };
    for answer in 0..answers {
        line("user", r#"{"role":"user","content":"and?"}"#.to_owned());
        for block in 0..=subject.plain.script.pick(&format!("blocks {answer}"), 3) {
            line(
                "assistant",
                format!(
                    r#"{{"id":"a{answer}","type":"message","role":"assistant","model":"m","content":[{{"type":"text","text":"{block}"}}],"usage":{{"input_tokens":7,"output_tokens":{block}}}}}"#
                ),
            );
        }
    }
    let text = lines.join("\n");
    let read = claude_code::read(text.as_bytes(), "session", RECORD_LIMIT);
    let read = read.map_err(|e| e.to_string())?;
    let transcript = read.first().ok_or("no conversation is read")?;
    let store = Store::in_memory();
    let imported = store.import("a", transcript, Vec::new(), &mut |_| {});
    let imported = imported.map_err(|e| e.to_string())?;
    if imported.iterations == answers as u64 {
        return Ok(());
    }
    Err(format!(
        "{answers} answers are {} calls",
        imported.iterations
    ))
}

fn drawn(seed: u64) -> (Script, Vec<Said>) {
    let bytes = *blake3::hash(&seed.to_le_bytes()).as_bytes();
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let script = script().new_tree(&mut runner).unwrap().current();
    (script, source().new_tree(&mut runner).unwrap().current())
}

/// Runs every check on so many seeds, each until it sees something.
pub fn look(seeds: u64) -> Seen {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let (columns, seen) = (columns(), Mutex::new(Seen::new()));
    thread::scope(|scope| {
        for first in 0..threads {
            let (columns, seen) = (&columns, &seen);
            scope.spawn(move || {
                for seed in (1..=seeds).skip(first).step_by(threads) {
                    look_at(seed, columns, seen);
                }
            });
        }
    });
    seen.into_inner().unwrap()
}

fn look_at(seed: u64, columns: &[(&'static str, Look)], seen: &Mutex<Seen>) {
    let earlier = |name| seen.lock().unwrap().get(name).is_some_and(|s| s.0 < seed);
    let (script, source) = drawn(seed);
    let subject = Subject {
        seed,
        plain: Case::new(&script),
        imported: Case::new(&script).after_import_of(&source),
        forked: Case::new(&script).forked(),
    };
    for (name, look) in columns.iter().filter(|(name, _)| !earlier(name)) {
        let outcome = catch_unwind(AssertUnwindSafe(|| look(&subject)));
        let found = match outcome {
            Ok(Ok(())) => continue,
            Ok(Err(found)) => found,
            Err(_) => "it panicked".to_owned(),
        };
        let mut seen = seen.lock().unwrap();
        let first = seen.entry(name).or_insert((seed, String::new()));
        if seed <= first.0 {
            *first = (seed, found);
        }
    }
}
