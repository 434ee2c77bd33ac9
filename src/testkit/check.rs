//! All laws at once, over generated conversations, for a strategy of one's own; a failure comes back
//! as the smallest conversation found that still breaks the law.

use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use proptest::collection::vec;
use proptest::strategy::Strategy as _;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use super::case::Case;
use super::generate::{script_under, spec};
use super::law::{Broken, Law};
use super::laws::CHECKS;
use super::reached::Reached;
use super::script::Script;
use crate::strategy::{Strategy, check_form};

/// How much is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// How many conversations.
    pub cases: u32,
    /// What they are drawn from: the same seed gives the same conversations.
    pub seed: u64,
    /// How many smaller conversations are tried once a law is broken.
    pub shrinks: u32,
}

impl Default for Effort {
    fn default() -> Self {
        Self {
            cases: 128,
            seed: 0,
            shrinks: 2_000,
        }
    }
}

/// What a strategy that obeys the laws was tried on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Accepted {
    /// Conversations.
    pub cases: u32,
    /// Entries filed in them.
    pub transitions: u64,
    /// Reasons and outcomes reached.
    pub reached: Reached,
}

/// What is wrong with a strategy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Problem {
    /// It breaks a law.
    Broken(Broken),
    /// It panics: these were its words.
    Panicked(String),
    /// Its parameters are impossible, or its spec is not always the same.
    Unusable(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(broken) => broken.fmt(f),
            Self::Panicked(words) => write!(f, "it panicked: {words}"),
            Self::Unusable(why) => f.write_str(why),
        }
    }
}

/// A strategy that does not obey the laws, with a conversation that shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The strategy's spec.
    pub spec: String,
    /// What is wrong.
    pub problem: Problem,
    /// The smallest conversation found that shows it.
    pub script: Option<Script>,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "the strategy '{}' was rejected: {}",
            self.spec, self.problem
        )?;
        if let Problem::Broken(broken) = &self.problem {
            writeln!(
                f,
                "the law '{}' says: {}",
                broken.law,
                broken.law.statement()
            )?;
        }
        let Some(script) = &self.script else {
            return Ok(());
        };
        writeln!(
            f,
            "this conversation shows it; `testkit::replay` runs it again:\n"
        )?;
        write!(f, "{script}")
    }
}

// What `unwrap` prints is what a person reads.
impl fmt::Debug for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for Rejected {}

/// A deterministic source of generated values.
pub(super) fn runner(seed: u64, cases: u32, shrinks: u32) -> TestRunner {
    let config = Config {
        cases,
        max_shrink_iters: shrinks,
        failure_persistence: None,
        ..Config::default()
    };
    let seed = *blake3::hash(&seed.to_le_bytes()).as_bytes();
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    TestRunner::new_with_rng(config, rng)
}

/// Tries a strategy on generated conversations, alone and in chains with ctxlog's own, and checks
/// every law on each.
///
/// # Errors
/// What is wrong, with the smallest conversation found that shows it.
pub fn check_strategy(strategy: impl Strategy + 'static) -> Result<Accepted, Box<Rejected>> {
    check_strategy_with(Arc::new(strategy), Effort::default())
}

/// As [`check_strategy`], with more or less effort.
///
/// # Errors
/// As [`check_strategy`].
pub fn check_strategy_with(
    strategy: Arc<dyn Strategy>,
    effort: Effort,
) -> Result<Accepted, Box<Rejected>> {
    let own = [Arc::clone(&strategy)];
    let spec = guarded(|| strategy.spec());
    let spec = spec.map_err(|problem| unnamed(&format!("{strategy:?}"), problem))?;
    let rejected = |problem, script| {
        Box::new(Rejected {
            spec: spec.clone(),
            problem,
            script,
        })
    };
    guarded(|| usable(strategy.as_ref(), &spec))
        .and_then(|usable| usable.map_err(Problem::Unusable))
        .map_err(|problem| rejected(problem, None))?;
    let seen = RefCell::new(Seen::default());
    let scripts = script_under(chains(spec.clone()));
    let outcome = runner(effort.seed, effort.cases, effort.shrinks)
        .run(&scripts, |script| seen.borrow_mut().look(&script, &own));
    let seen = seen.into_inner();
    match outcome {
        Ok(()) => Ok(Accepted {
            cases: effort.cases,
            transitions: seen.transitions,
            reached: seen.reached,
        }),
        Err(TestError::Fail(reason, script)) => {
            let problem = seen
                .problem
                .unwrap_or_else(|| Problem::Unusable(reason.to_string()));
            Err(rejected(problem, Some(script)))
        }
        Err(TestError::Abort(reason)) => Err(rejected(Problem::Unusable(reason.to_string()), None)),
    }
}

/// The strategy alone, and before and after one of ctxlog's own.
fn chains(own: String) -> impl proptest::strategy::Strategy<Value = Vec<String>> {
    (vec(spec(), 0..=1), proptest::bool::ANY).prop_map(move |(mut chain, first)| {
        let at = if first { 0 } else { chain.len() };
        chain.insert(at, own.clone());
        chain
    })
}

fn usable(strategy: &dyn Strategy, spec: &str) -> Result<(), String> {
    let impossible = |e| format!("its parameters are impossible: {e}");
    strategy.check().map_err(impossible)?;
    check_form(spec).map_err(|e| e.to_string())?;
    let again = strategy.spec();
    if spec != again {
        return Err(format!(
            "its spec was '{spec}' and then '{again}': the log names it by its spec"
        ));
    }
    Ok(())
}

/// A strategy that does not get as far as to name itself.
fn unnamed(shown: &str, problem: Problem) -> Box<Rejected> {
    Box::new(Rejected {
        spec: shown.to_owned(),
        problem,
        script: None,
    })
}

/// What a user's code gives; a panic of its is a problem with it.
fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Problem> {
    catch_unwind(AssertUnwindSafe(work))
        .map_err(|panic| Problem::Panicked(words_of(panic.as_ref())))
}

/// What was seen so far. Once something is wrong, only that is looked for: the conversation that is
/// shown in the end breaks the law that was found broken first.
#[derive(Default)]
struct Seen {
    problem: Option<Problem>,
    transitions: u64,
    reached: Reached,
}

impl Seen {
    fn look(&mut self, script: &Script, own: &[Arc<dyn Strategy>]) -> Result<(), TestCaseError> {
        let only = match &self.problem {
            Some(Problem::Broken(broken)) => Some(broken.law),
            _ => None,
        };
        match examine(script, own, only) {
            Ok((transitions, reached)) => {
                self.transitions = self.transitions.saturating_add(transitions);
                self.reached.add(&reached);
                Ok(())
            }
            Err(problem) => {
                let words = problem.to_string();
                self.problem = Some(problem);
                Err(TestCaseError::fail(words))
            }
        }
    }
}

/// Checks all laws, or one, on a script; says how many entries there were and what was reached.
fn examine(
    script: &Script,
    own: &[Arc<dyn Strategy>],
    only: Option<Law>,
) -> Result<(u64, Reached), Problem> {
    let work = || -> Result<(u64, Reached), Broken> {
        let case = Case::new(script).with_strategies(own);
        let checks = CHECKS
            .iter()
            .filter(|check| only.is_none_or(|law| law == check.law));
        checks.into_iter().try_for_each(|check| check.run(&case))?;
        let mut reached = Reached::default();
        let run = case.run().map_err(|e| Law::Replay.broken(e))?;
        reached.count(run);
        Ok((
            u64::try_from(run.entries.len()).unwrap_or(u64::MAX),
            reached,
        ))
    };
    guarded(work)?.map_err(Problem::Broken)
}

/// What a panic said.
pub(super) fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "without words".to_owned())
}

/// Runs a printed script again and checks every law on it. Strategies of one's own are found by
/// their specs.
///
/// # Errors
/// When the text is no script, and what is wrong otherwise.
pub fn replay(text: &str, own: &[Arc<dyn Strategy>]) -> Result<(), Problem> {
    let script: Script = text
        .parse()
        .map_err(|e: super::text::ScriptError| Problem::Unusable(e.to_string()))?;
    examine(&script, own, None).map(drop)
}
