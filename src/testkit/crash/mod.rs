//! A real child process on a real disk, killed at random instants.
//!
//! The child opens a store through the engine and says each acknowledgement after it was given; the
//! parent kills it, opens the directory itself, and looks for everything that was promised.

mod child;
mod running;
mod survey;

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{Draw, Figure, Trouble};
use crate::store::{Level, SledStore};

pub use child::{Acked, Line, Work, child};
pub use running::{Killed, Running};
pub use survey::{Survey, survey};

/// How often a directory is used, so that verifying all of it stays cheap.
const KILLS_A_DIRECTORY: u64 = 8;
/// How often one directory is the start of kills while opening.
const KILLS_A_TEMPLATE: u64 = 32;
/// A child that says nothing for so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// Most kills come so soon after the first acknowledgement.
const SOON: Duration = Duration::from_millis(250);
/// Every so many kills, one comes so late that buffered entries are due.
const LATE_EVERY: u64 = 12;
const LATE: Duration = Duration::from_millis(500);
/// One kill in so many comes at any instant from the start on.
const ANY_ONE_IN: u64 = 10;
/// More than a round takes of the disk, opening included.
const ROOM: usize = 16 << 20;
/// How many rounds may be in vain for each kill that counts.
const VAIN: u64 = 20;

/// How a loop of kills is run.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The `ctxlog` binary, which is started as the child.
    pub program: &'a Path,
    /// A directory of the loop's own.
    pub dir: &'a Path,
    /// From which all instants are drawn.
    pub seed: u64,
    /// How many kills count.
    pub kills: u64,
    /// How many acknowledged entries must have been promised; the loop goes on until both are
    /// reached.
    pub acked: u64,
}

/// What a loop of kills found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Kills {
    /// Kills that hit a child which had been given an acknowledgement.
    pub kills: u64,
    /// Kills that came before the first one.
    pub early: u64,
    /// Entries whose acknowledgement promised that they survive.
    pub acked: u64,
    /// Those of them that were acknowledged `buffered`, half a second before the kill.
    pub due: u64,
    /// Those of them that are gone.
    pub lost: u64,
    /// What went wrong first; the loop ended there.
    pub problem: Option<String>,
}

impl Kills {
    /// Figure 1.
    #[must_use]
    pub fn figure(&self, plan: &Plan<'_>) -> Figure {
        let goal = format!(
            "0 of at least {} over at least {} kills",
            plan.acked, plan.kills
        );
        let mut value = format!("{} of {} over {} kills", self.lost, self.acked, self.kills);
        if let Some(problem) = &self.problem {
            value = format!("{value}; {problem}");
        }
        let reached = self.kills >= plan.kills && self.acked >= plan.acked;
        let holds = reached && self.lost == 0 && self.problem.is_none();
        Figure::new(
            "1",
            "acknowledged entries lost under SIGKILL",
            goal,
            value,
            holds,
        )
    }
}

/// Kills children that append, until enough kills hit enough acknowledgements. `progress` hears how
/// many kills are done, and of how many.
///
/// # Errors
/// When no kill can be delivered, or the disk is full. That something was lost is in the answer.
pub fn kill_loop(plan: &Plan<'_>, progress: &mut dyn FnMut(u64, u64)) -> Result<Kills, Trouble> {
    let mut draw = Draw::new(plan.seed);
    let mut found = Kills::default();
    let mut dir = PathBuf::new();
    let mut kept = Vec::new();
    for round in 0.. {
        if found.kills >= plan.kills && found.acked >= plan.acked {
            break;
        }
        if round > plan.kills.saturating_mul(VAIN) {
            let words = "the kills meet too few acknowledgements; is the disk very slow?";
            return Err(Trouble::harness(words));
        }
        if round % KILLS_A_DIRECTORY == 0 {
            remove(&dir)?;
            dir = plan.dir.join(format!("kills-{round}"));
            kept.clear();
        }
        let killed = kill_once(plan.program, &dir, round, &mut draw)?;
        let mut promised: Vec<Acked> = killed.promised().cloned().collect();
        count(&mut found, &killed, &promised);
        promised.append(&mut kept);
        let survey = survey(&dir, &promised);
        found.lost = found.lost.saturating_add(survey.lost);
        if let Some(first) = survey.problems.first() {
            unless_full(plan.dir, first)?;
            let place = dir.display();
            found.problem = Some(format!(
                "seed {}, round {round}, {place}: {first}",
                plan.seed
            ));
            return Ok(found);
        }
        kept = survey.probes;
        progress(found.kills.min(plan.kills), plan.kills);
    }
    remove(&dir)?;
    if plan.kills >= LATE_EVERY && found.due == 0 {
        return Err(Trouble::harness(
            "no kill came late enough for buffered entries",
        ));
    }
    Ok(found)
}

fn count(found: &mut Kills, killed: &Killed, promised: &[Acked]) {
    if killed.acks.is_empty() {
        found.early = found.early.saturating_add(1);
    } else {
        found.kills = found.kills.saturating_add(1);
    }
    for ack in promised {
        found.acked = found.acked.saturating_add(ack.entries());
        if ack.level == Level::Buffered {
            found.due = found.due.saturating_add(ack.entries());
        }
    }
}

fn kill_once(program: &Path, dir: &Path, round: u64, draw: &mut Draw) -> Result<Killed, Trouble> {
    let mut running = Running::start(program, Work::Append, dir, draw.number())?;
    let anywhere = draw.one_in(ANY_ONE_IN);
    let mut time = draw.time(SOON);
    if !anywhere {
        if !running.listen(PATIENCE, |line| matches!(line, Line::Acked(_)))? {
            return Err(Trouble::harness("the child acknowledged nothing"));
        }
        if round % LATE_EVERY == 5 {
            time = time.saturating_add(LATE);
        }
    }
    running.listen(time, |_| false)?;
    running.kill()
}

/// What a loop of kills while opening found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OpenKills {
    /// Kills that hit a child while it was opening a directory.
    pub kills: u64,
    /// Kills that came after it had opened it.
    pub late: u64,
    /// Directories that did not open afterwards, or not with everything in them.
    pub broken: u64,
    /// What went wrong first; the loop ended there.
    pub problem: Option<String>,
}

impl OpenKills {
    /// Figure 1c.
    #[must_use]
    pub fn figure(&self, plan: &Plan<'_>) -> Figure {
        let goal = format!("0 after at least {} kills", plan.kills);
        let mut value = format!("{} after {} kills", self.broken, self.kills);
        if let Some(problem) = &self.problem {
            value = format!("{value}; {problem}");
        }
        let holds = self.kills >= plan.kills && self.broken == 0;
        let name = "directories that do not open after a kill while opening";
        Figure::new("1c", name, goal, value, holds)
    }
}

/// How a directory was left before it is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Start {
    /// By a killed process: there is a tail to recover.
    Killed,
    /// Closed.
    Closed,
    /// There is none.
    Absent,
}

const STARTS: [Start; 3] = [Start::Killed, Start::Closed, Start::Absent];

/// A directory as it was left, what was promised of it, and how long opening it takes.
struct Template {
    start: Start,
    dir: PathBuf,
    promised: Vec<Acked>,
    opens_in: Duration,
}

/// Kills children that open a directory, up to three in a row, and opens it then. `progress` hears
/// how many kills are done, and of how many.
///
/// # Errors
/// When no kill can be delivered, or the disk is full. That a directory does not open is in the answer.
pub fn open_loop(
    plan: &Plan<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<OpenKills, Trouble> {
    let mut draw = Draw::new(plan.seed);
    let mut found = OpenKills::default();
    let mut templates = Vec::new();
    let mut fresh_at = 0;
    for round in 0.. {
        if found.kills >= plan.kills {
            break;
        }
        if round > plan.kills.saturating_mul(VAIN) {
            return Err(Trouble::harness("the kills come too late to hit an open"));
        }
        if found.kills >= fresh_at {
            templates = new_templates(plan, &mut draw)?;
            fresh_at = fresh_at.saturating_add(KILLS_A_TEMPLATE);
        }
        let Some(template) = draw.one_of(&templates) else {
            break;
        };
        let dir = plan.dir.join("opened");
        if template.start != Start::Absent {
            copy(&template.dir, &dir)?;
        }
        for _ in 0..=draw.below(3) {
            let killed = kill_opening(plan.program, &dir, template, &mut draw);
            match killed {
                Ok(true) => found.late = found.late.saturating_add(1),
                Ok(false) => found.kills = found.kills.saturating_add(1),
                // Also a child that cannot open what another left is told here.
                Err(Trouble::Harness(why)) => return broken(found, plan, &dir, &why),
                Err(trouble) => return Err(trouble),
            }
        }
        let survey = survey(&dir, &template.promised);
        if let Some(first) = survey.problems.first() {
            return broken(found, plan, &dir, first);
        }
        remove(&dir)?;
        progress(found.kills.min(plan.kills), plan.kills);
    }
    templates.iter().try_for_each(|t| remove(&t.dir))?;
    Ok(found)
}

fn broken(found: OpenKills, plan: &Plan<'_>, dir: &Path, what: &str) -> Result<OpenKills, Trouble> {
    unless_full(plan.dir, what)?;
    let problem = format!(
        "seed {}, kill {}, {}: {what}",
        plan.seed,
        found.kills,
        dir.display()
    );
    Ok(OpenKills {
        broken: found.broken.saturating_add(1),
        problem: Some(problem),
        ..found
    })
}

/// On a full disk a directory need not open, and a kill has no part in it: what was seen there is no
/// figure.
fn unless_full(dir: &Path, seen: &str) -> Result<(), Trouble> {
    let file = dir.join("room");
    let room = fs::write(&file, vec![1; ROOM]).and_then(|()| fs::File::open(&file)?.sync_all());
    let removed = fs::remove_file(&file);
    let of_room =
        |e: &io::Error| matches!(e.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
    match room {
        Err(source) if of_room(&source) => Err(Trouble::Io {
            what: format!("{seen}; and there is no room for {ROOM} bytes more"),
            source,
        }),
        _ => removed.map_err(Trouble::at("removing", &file)),
    }
}

/// Whether the kill came too late.
fn kill_opening(
    program: &Path,
    dir: &Path,
    template: &Template,
    draw: &mut Draw,
) -> Result<bool, Trouble> {
    let mut running = Running::start(program, Work::Open, dir, 0)?;
    if !running.listen(PATIENCE, |line| *line == Line::Begun)? {
        return Err(Trouble::harness("the child does not begin"));
    }
    running.listen(draw.time(template.opens_in), |line| *line == Line::Opened)?;
    Ok(running.kill()?.opened)
}

/// Directories to begin from, each with the time that opening it takes without a kill.
fn new_templates(plan: &Plan<'_>, draw: &mut Draw) -> Result<Vec<Template>, Trouble> {
    let left = plan.dir.join("killed");
    remove(&left)?;
    let mut running = Running::start(plan.program, Work::Append, &left, draw.number())?;
    running.listen(PATIENCE, |line| matches!(line, Line::Acked(_)))?;
    running.listen(LATE.saturating_add(draw.time(SOON)), |_| false)?;
    let promised: Vec<Acked> = running.kill()?.promised().cloned().collect();
    let closed = plan.dir.join("closed");
    copy(&left, &closed)?;
    drop(SledStore::open(&closed)?);
    STARTS
        .into_iter()
        .map(|start| {
            let dir = match start {
                Start::Killed => left.clone(),
                Start::Closed => closed.clone(),
                Start::Absent => plan.dir.join("absent"),
            };
            let promised = if start == Start::Absent {
                Vec::new()
            } else {
                promised.clone()
            };
            let opens_in = time_to_open(plan, &dir, start)?;
            Ok(Template {
                start,
                dir,
                promised,
                opens_in,
            })
        })
        .collect()
}

fn time_to_open(plan: &Plan<'_>, template: &Path, start: Start) -> Result<Duration, Trouble> {
    let dir = plan.dir.join("timed");
    if start != Start::Absent {
        copy(template, &dir)?;
    }
    let mut running = Running::start(plan.program, Work::Open, &dir, 0)?;
    running.listen(PATIENCE, |line| *line == Line::Begun)?;
    let began = Instant::now();
    if !running.listen(PATIENCE, |line| *line == Line::Opened)? {
        return Err(Trouble::harness("the child does not open the directory"));
    }
    let took = began.elapsed();
    drop(running);
    remove(&dir)?;
    Ok(took)
}

/// Removes a directory, if it is there.
fn remove(dir: &Path) -> Result<(), Trouble> {
    if !dir.exists() {
        return Ok(());
    }
    fs::remove_dir_all(dir).map_err(Trouble::at("removing", dir))
}

/// Copies a directory over another, which is removed first.
///
/// # Errors
/// When a file cannot be read or written.
pub fn copy(from: &Path, to: &Path) -> Result<(), Trouble> {
    remove(to)?;
    fs::create_dir_all(to).map_err(Trouble::at("creating", to))?;
    for entry in fs::read_dir(from).map_err(Trouble::at("reading", from))? {
        let entry = entry.map_err(Trouble::at("reading", from))?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &target)?;
        } else {
            fs::copy(&path, &target).map_err(Trouble::at("copying", &path))?;
        }
    }
    Ok(())
}
