//! Rounds in which ctxlog and its peers do the same work in turn, so that a slow phase of the
//! machine is a slow phase of both sides of a ratio.

use super::setup::Setup;
use super::stats::Spread;
use super::table::{Against, Beside, Goal, Row, Table, Unit};

/// Does the work of a round and says its figure, or why it cannot.
pub type Round<'a> = Box<dyn FnMut(u64) -> Result<f64, String> + 'a>;

/// Who ctxlog is compared with.
pub struct Peer<'a> {
    pub name: String,
    pub goal: Goal,
    pub round: Round<'a>,
}

impl<'a> Peer<'a> {
    pub fn new(name: &str, goal: Goal, mut round: impl FnMut(u64) -> f64 + 'a) -> Self {
        Self::that_may_fail(name, goal, move |n| Ok(round(n)))
    }

    pub fn that_may_fail(
        name: &str,
        goal: Goal,
        round: impl FnMut(u64) -> Result<f64, String> + 'a,
    ) -> Self {
        Self {
            name: name.to_owned(),
            goal,
            round: Box::new(round),
        }
    }
}

/// What is compared, and how often.
pub struct Comparison<'a> {
    pub measure: &'a str,
    pub unit: Unit,
    pub rounds: u64,
}

impl Comparison<'_> {
    /// Runs the rounds and adds a row a peer.
    pub fn run(
        &self,
        setup: &Setup,
        table: &mut Table,
        mut ours: impl FnMut(u64) -> f64,
        mut peers: Vec<Peer<'_>>,
    ) {
        let mut own = Vec::new();
        let mut theirs: Vec<Result<Vec<f64>, String>> = peers.iter().map(|_| Ok(vec![])).collect();
        for round in 0..self.rounds {
            setup.round(self.measure, round, self.rounds);
            // Who comes first changes from round to round.
            let turns = peers.len() + 1;
            let first = usize::try_from(round).expect("few rounds") % turns;
            for turn in (first..turns).chain(0..first) {
                let Some(peer) = turn.checked_sub(1) else {
                    own.push(ours(round));
                    continue;
                };
                if let Ok(figures) = &mut theirs[peer] {
                    match (peers[peer].round)(round) {
                        Ok(figure) => figures.push(figure),
                        Err(why) => theirs[peer] = Err(why),
                    }
                }
            }
        }
        for (peer, theirs) in peers.into_iter().zip(theirs) {
            let row = alone(self.measure, self.unit, peer.goal, &own);
            table.rows.push(beside(row, &own, &peer.name, theirs));
        }
    }
}

/// A row of our own figure, with none beside it yet.
pub fn alone(measure: &str, unit: Unit, goal: Goal, ours: &[f64]) -> Row {
    Row {
        measure: measure.to_owned(),
        unit,
        ours: Spread::of(ours),
        peer: None,
        goal,
    }
}

/// A row of two series, whose values of one round belong together; or why there is no second.
pub fn beside(row: Row, ours: &[f64], name: &str, theirs: Result<Vec<f64>, String>) -> Row {
    let against = |theirs: Vec<f64>| {
        let ratios: Vec<f64> = ours.iter().zip(&theirs).map(|(o, t)| o / t).collect();
        Against {
            theirs: Spread::of(&theirs),
            ratio: Spread::of(&ratios),
        }
    };
    Row {
        peer: Some(Beside {
            name: name.to_owned(),
            figures: theirs.map(against),
        }),
        ..row
    }
}
