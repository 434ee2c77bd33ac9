//! The figures that can be measured on anybody's disk, one line each.

#![allow(
    clippy::unnecessary_wraps,
    reason = "all checks have one form, also those that can always be measured"
)]

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::campaign::{
    Tampering, Work, every_law, laws_figure, replay_figure, tampering_figure, try_scripts,
};
use super::concurrency::{self, concurrency};
use super::cost::{self, cost};
use super::crash::{self, Plan};
use super::simulate::simulate_seeds;
use super::{Failure, Figure, Trouble, outcomes};

/// How much is done for a figure.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Size {
    /// All of them together in about half a minute.
    Short,
    /// What every change is tested with.
    Ci,
    /// What a release is tested with: hours.
    Release,
}

impl Size {
    /// The one of three numbers that is this size's.
    #[must_use]
    pub const fn of(self, short: u64, ci: u64, release: u64) -> u64 {
        match self {
            Self::Short => short,
            Self::Ci => ci,
            Self::Release => release,
        }
    }
}

/// How the checks of a suite are run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// How much is done.
    pub size: Size,
    /// From which everything random is drawn.
    pub seed: u64,
    /// An empty directory on the disk that is tested.
    pub dir: PathBuf,
    /// The `ctxlog` binary, which some checks start as a child of theirs.
    pub program: PathBuf,
}

/// Hears how much of a check is done, and of how much.
pub type Progress<'a> = &'a mut (dyn FnMut(u64, u64) + Send);

/// A figure that can be measured here.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// Its number in the reliability table.
    pub number: &'static str,
    /// What is measured.
    pub name: &'static str,
    /// Measures it; an error where it cannot be measured. A figure that is broken is an answer.
    pub run: Run,
}

/// A figure that needs more than a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elsewhere {
    /// Its number in the reliability table.
    pub number: &'static str,
    /// What is measured.
    pub name: &'static str,
    /// Why not here.
    pub why: &'static str,
    /// What measures it, in the sources of ctxlog.
    pub command: &'static str,
}

/// All figures that can be measured here, in the order of the table.
pub const SUITE: &[Trial] = &[
    trial("1", "acknowledged entries lost under SIGKILL", kills),
    trial(
        "1c",
        "directories that do not open after a kill while opening",
        opens,
    ),
    trial("2", "violations in simulated faults", simulated),
    trial("3", "tampering detected and located", tampering),
    trial("4", "replay determinism", replay),
    trial("5", "laws broken", laws),
    trial(
        "7",
        "fault outcomes: every store call under every fault",
        faults,
    ),
    trial("9", "many writers and readers at once", writers),
    trial("10", "what a synced append costs", cost_of_safety),
];

/// Measures one figure.
type Run = fn(&Settings, Progress<'_>) -> Result<Figure, Trouble>;

const fn trial(number: &'static str, name: &'static str, run: Run) -> Trial {
    Trial { number, name, run }
}

/// The figures that cannot.
pub const ELSEWHERE: &[Elsewhere] = &[
    Elsewhere {
        number: "1b",
        name: "synced entries lost in a power cut",
        why: "needs root and a loop device",
        command: "cargo test --test power_loss",
    },
    Elsewhere {
        number: "7b",
        name: "a really full disk",
        why: "needs root and a file system of its own",
        command: "cargo test --test full_disk",
    },
];

fn kills(settings: &Settings, progress: Progress<'_>) -> Result<Figure, Trouble> {
    let size = settings.size;
    let plan = Plan {
        program: &settings.program,
        dir: &settings.dir,
        seed: settings.seed,
        kills: size.of(20, 200, 10_000),
        acked: size.of(2_000, 50_000, 5_000_000),
    };
    Ok(crash::kill_loop(&plan, progress)?.figure(&plan))
}

fn opens(settings: &Settings, progress: Progress<'_>) -> Result<Figure, Trouble> {
    let plan = Plan {
        program: &settings.program,
        dir: &settings.dir,
        seed: settings.seed,
        kills: settings.size.of(20, 200, 5_000),
        acked: 0,
    };
    Ok(crash::open_loop(&plan, progress)?.figure(&plan))
}

fn simulated(settings: &Settings, progress: Progress<'_>) -> Result<Figure, Trouble> {
    let seeds = settings.size.of(100, 2_000, 1_000_000);
    let goal = "0, and runs are identical when run twice";
    // Every tenth seed twice; all of them before a release.
    let twice = settings.size.of(10, 10, 1);
    Ok(campaign("2", goal, settings, progress, |work| {
        simulate_seeds(work, seeds, twice).map(|totals| totals.figure())
    }))
}

fn faults(_: &Settings, _: Progress<'_>) -> Result<Figure, Trouble> {
    Ok(outcomes().figure())
}

fn tampering(settings: &Settings, progress: Progress<'_>) -> Result<Figure, Trouble> {
    let how = Tampering {
        bytes: 64 << 10,
        stride: if settings.size == Size::Short { 997 } else { 1 },
        clean: settings.size.of(60, 10_000, 10_000),
    };
    let goal = "every alteration, at its place; no false alarm";
    Ok(campaign("3", goal, settings, progress, |work| {
        tampering_figure(work, how)
    }))
}

fn replay(settings: &Settings, progress: Progress<'_>) -> Result<Figure, Trouble> {
    let calls = settings.size.of(2_000, 100_000, 5_000_000);
    let goal = format!("100 % of {calls} calls");
    Ok(campaign("4", &goal, settings, progress, |work| {
        replay_figure(work, calls)
    }))
}

fn laws(settings: &Settings, progress: Progress<'_>) -> Result<Figure, Trouble> {
    let transitions = settings.size.of(5_000, 200_000, 100_000_000);
    let goal = format!("0 in {transitions} transitions");
    Ok(campaign("5", &goal, settings, progress, |work| {
        if settings.size > Size::Short {
            return laws_figure(work, transitions).map(|(figure, _)| figure);
        }
        // Too few to reach every reason often.
        let tried = try_scripts(work, transitions, &every_law)?;
        let value = format!(
            "0 in {} transitions of {} scripts",
            tried.transitions, tried.scripts
        );
        Ok(Figure::new("5", "laws broken", &*goal, value, true))
    }))
}

/// Runs a campaign on all processors. What it finds is a figure that is broken.
fn campaign(
    number: &str,
    goal: &str,
    settings: &Settings,
    progress: Progress<'_>,
    run: impl FnOnce(Work<'_>) -> Result<Figure, Failure>,
) -> Figure {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let progress = Mutex::new(progress);
    let tell = |done, total| {
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress(done, total);
    };
    let work = Work {
        seed: settings.seed,
        threads: u64::try_from(threads).unwrap_or(1),
        progress: &tell,
    };
    let name = SUITE
        .iter()
        .find(|c| c.number == number)
        .map_or("", |c| c.name);
    run(work).unwrap_or_else(|found| {
        let found = found.to_string();
        let first = found.lines().next().unwrap_or_default().to_owned();
        Figure::new(number, name, goal, first, false).showing(found)
    })
}

fn writers(settings: &Settings, progress: Progress<'_>) -> Result<Figure, Trouble> {
    let plan = concurrency::Plan {
        writers: settings.size.of(8, 8, 64),
        appends: settings.size.of(200, 1_000, 5_000),
    };
    Ok(concurrency(&plan, &settings.dir, progress)?.figure(&plan))
}

fn cost_of_safety(settings: &Settings, progress: Progress<'_>) -> Result<Figure, Trouble> {
    let plan = cost::Plan {
        dir: &settings.dir,
        seed: settings.seed,
        rounds: settings.size.of(9, 21, 101),
        appends: settings.size.of(50, 100, 1_000),
    };
    Ok(cost(&plan, progress)?.figure())
}
