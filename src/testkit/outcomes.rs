//! Every verb of a store meets every fault: the request that uses the verb must succeed or give a
//! typed error, and after opening again the log must verify, or tell where it is damaged.

mod site;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use self::site::{Answer, Site};
use super::Figure;
use super::fault::{Fault, Verb};
use super::ledger::End;

/// What one try of a cell came to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Told {
    /// The request succeeded, and all is there.
    Well,
    /// A typed error, and all that was acknowledged is there.
    Error,
    /// `verify` names the damaged entry.
    Verify,
    /// Only whoever kept the acknowledgements can tell: what is there is whole, and shorter.
    Acknowledgement,
}

impl Told {
    const fn letter(self) -> char {
        match self {
            Self::Well => 'o',
            Self::Error => 'e',
            Self::Verify => 'v',
            Self::Acknowledgement => 'a',
        }
    }
}

/// One verb under one fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cell {
    /// The verb.
    pub verb: Verb,
    /// The fault.
    pub fault: Fault,
    /// How often the fault happened.
    pub delivered: u64,
    /// What is wrong; empty where the cell holds.
    pub problems: Vec<String>,
    told: BTreeSet<Told>,
}

impl Cell {
    /// Whether the fault happened, and every outcome was one that may be.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.delivered > 0 && self.problems.is_empty()
    }
}

/// Every verb under every fault that it can meet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcomes {
    /// The cells, verb by verb.
    pub cells: Vec<Cell>,
    /// How often a request was made under a fault.
    pub tries: u64,
}

/// Runs every cell: with several places and sizes of the fault, and several ends of the process.
#[must_use]
pub fn outcomes() -> Outcomes {
    let pairs = Verb::ALL
        .iter()
        .flat_map(|verb| Fault::ALL.iter().map(move |fault| (*verb, *fault)));
    let mut tries = 0_u64;
    let cells = pairs
        .filter(|(verb, fault)| fault.meets(*verb))
        .map(|(verb, fault)| cell(verb, fault, &mut tries));
    Outcomes {
        cells: cells.collect(),
        tries,
    }
}

/// Which variants of a fault are tried.
fn details(fault: Fault) -> Vec<u64> {
    match fault {
        Fault::RottenEntry | Fault::RottenPayload | Fault::RottenBlob => {
            (0..7_u64).map(|n| n.wrapping_mul(1_000_003)).collect()
        }
        Fault::NoSpace => vec![0, 300, 70_000],
        _ => vec![0],
    }
}

/// How the process ends: what is left to be lost is lost, or is not.
const ENDS: [(End, usize); 4] = [
    (End::Cut, 0),
    (End::Cut, usize::MAX),
    (End::Killed, 0),
    (End::Closed, 0),
];

/// Some of what a lying medium did shows only at the next write, some only without one.
fn variants(fault: Fault) -> impl Iterator<Item = (u64, (End, usize), bool)> {
    let follows: &[bool] = if fault.lies() {
        &[true, false]
    } else {
        &[true]
    };
    details(fault).into_iter().flat_map(move |detail| {
        let ends = ENDS.iter().map(move |end| (detail, *end));
        ends.flat_map(|(detail, end)| follows.iter().map(move |follow| (detail, end, *follow)))
    })
}

/// A request that fails without a fault would prove nothing.
fn works(verb: Verb) -> Option<String> {
    let mut site = Site::prepare(Fault::ReadError).ok()?;
    let calls = site.medium.calls(verb);
    match site.request(verb) {
        Ok(Answer::Done(_)) if site.medium.calls(verb) > calls => None,
        Ok(Answer::Done(_)) => Some("the request does not use the verb".to_owned()),
        _ => Some("the request fails without a fault".to_owned()),
    }
}

fn cell(verb: Verb, fault: Fault, tries: &mut u64) -> Cell {
    let mut cell = Cell {
        verb,
        fault,
        delivered: 0,
        problems: works(verb).into_iter().collect(),
        told: BTreeSet::new(),
    };
    for (detail, (end, keep), follow) in variants(fault) {
        *tries = tries.saturating_add(1);
        let tried = catch_unwind(AssertUnwindSafe(|| {
            attempt(verb, fault, detail, (end, keep), follow)
        }));
        let problem = match tried {
            Ok(Ok((delivered, told))) => {
                cell.delivered = cell.delivered.saturating_add(delivered);
                cell.told.extend((delivered > 0).then_some(told));
                continue;
            }
            Ok(Err(problem)) => problem,
            Err(_) => "a panic".to_owned(),
        };
        let what = format!("variant {detail}, {end:?} with {keep} kept, {follow}: {problem}");
        cell.problems.push(what);
    }
    cell
}

/// Makes the request under the fault, ends the process, opens again; gives how often the fault
/// happened and what told of it.
fn attempt(
    verb: Verb,
    fault: Fault,
    detail: u64,
    (end, keep): (End, usize),
    follow: bool,
) -> Result<(u64, Told), String> {
    let mut site = Site::prepare(fault)?;
    site.medium.plan_next(verb, fault, detail);
    let answer = site.request(verb)?;
    site.observe(&answer, fault)?;
    if follow {
        let after = site.follow();
        site.observe(&after, fault)?;
    }
    site.medium.unplan();
    site.reopen(end, keep)?;
    let delivered = site.medium.deliveries();
    let damage = site.judge(fault, end, &delivered)?;
    let told = match (damage, answer) {
        (Some(told), _) => told,
        (None, Answer::Failed) => Told::Error,
        (None, Answer::Done(_)) => Told::Well,
    };
    Ok((u64::try_from(delivered.len()).unwrap_or(u64::MAX), told))
}

impl Outcomes {
    /// The cells that do not hold, each with its reasons, a line each.
    #[must_use]
    pub fn broken(&self) -> Vec<String> {
        let broken = self.cells.iter().filter(|c| !c.holds());
        let lines = broken.flat_map(|c| {
            let place = format!("{} under {}", c.verb.name(), c.fault.name());
            let mut lines: Vec<String> =
                c.problems.iter().map(|p| format!("{place}: {p}")).collect();
            if c.delivered == 0 {
                lines.push(format!("{place}: the fault never happened"));
            }
            lines
        });
        lines.collect()
    }

    /// A table that a person can read: a line a verb, a column a fault.
    #[must_use]
    pub fn matrix(&self) -> String {
        let mut out = String::new();
        for (n, fault) in (1..).zip(Fault::ALL) {
            let _ = writeln!(out, "{n:>2} {}", fault.name()); // a string takes everything
        }
        let _ = write!(out, "{:<16}", "");
        for (n, _) in (1..).zip(Fault::ALL) {
            let _ = write!(out, "{n:>5}");
        }
        for verb in Verb::ALL {
            let _ = write!(out, "\n{:<16}", verb.name());
            for fault in Fault::ALL {
                let _ = write!(out, "{:>5}", self.letters(*verb, *fault));
            }
        }
        out.push_str(
            "\no: done, all is there; e: a typed error, all that was acknowledged is there; \
             v: verify names the damaged entry; a: the newest is gone as a whole, which only the \
             acknowledgements tell; -: cannot meet; X: broken\n",
        );
        out
    }

    fn letters(&self, verb: Verb, fault: Fault) -> String {
        let cell = self
            .cells
            .iter()
            .find(|c| (c.verb, c.fault) == (verb, fault));
        match cell {
            None => "-".to_owned(),
            Some(cell) if !cell.holds() => "X".to_owned(),
            Some(cell) => cell.told.iter().map(|t| t.letter()).collect(),
        }
    }

    /// The figure of the reliability table.
    #[must_use]
    pub fn figure(&self) -> Figure {
        let hold = self.cells.iter().filter(|c| c.holds()).count();
        let delivered = self
            .cells
            .iter()
            .fold(0_u64, |sum, c| sum.saturating_add(c.delivered));
        let all = self.cells.len();
        Figure::new(
            "7",
            "fault outcomes: every store call under every fault it can meet",
            "100 % of cells",
            format!(
                "{hold} of {all} cells, {delivered} faults in {} tries",
                self.tries
            ),
            hold == all && all > 0,
        )
    }
}
