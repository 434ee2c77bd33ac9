//! What of a log is worth recalling: choices among messages, as values. They file nothing and delete
//! nothing; whoever recalls decides by them.

use crate::log::{MessageId, Micros};

/// A message that could be recalled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The message; a larger id is newer.
    pub id: MessageId,
    /// When it was last used, where that is known.
    pub used: Option<Micros>,
    /// Its size in tokens.
    pub tokens: u64,
}

/// Why a candidate was not chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PassedOver {
    /// It does not fit into what is left of the budget.
    OverBudget,
    /// As many as were asked for are chosen.
    OverMaxEntries,
    /// Its score is below the floor.
    BelowFloor,
}

impl PassedOver {
    /// The name people and tools see. A strategy's `over-budget` says why something left a window;
    /// this one why something is not recalled.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OverBudget => "over-budget",
            Self::OverMaxEntries => "over-max-entries",
            Self::BelowFloor => "below-floor",
        }
    }
}

/// What was chosen, and what was not and why.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Picked {
    /// The chosen, oldest first.
    pub chosen: Vec<MessageId>,
    /// The others, newest first.
    pub passed: Vec<(MessageId, PassedOver)>,
}

/// A budget for what is recalled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budgeted {
    /// Tokens there are.
    pub tokens: u64,
    /// Tokens of them that are kept free.
    pub reserve: u64,
    /// With less than this left at the start nothing is chosen.
    pub least: u64,
    /// How many are chosen at most.
    pub most: Option<usize>,
}

impl Budgeted {
    /// So many tokens, of which 256 are kept free; nothing is chosen where less than 100 are left.
    #[must_use]
    pub const fn new(tokens: u64) -> Self {
        Self {
            tokens,
            reserve: 256,
            least: 100,
            most: None,
        }
    }

    /// Chooses the newest first; what does not fit is passed over, and smaller ones are tried.
    #[must_use]
    pub fn pick(&self, candidates: &[Candidate]) -> Picked {
        let mut left = self.tokens.saturating_sub(self.reserve);
        if left < self.least {
            left = 0;
        }
        let open = left > 0;
        choose(candidates, |chosen, candidate| {
            if self.most.is_some_and(|most| chosen >= most) {
                return Some(PassedOver::OverMaxEntries);
            }
            match left.checked_sub(candidate.tokens).filter(|_| open) {
                Some(rest) => {
                    left = rest;
                    None
                }
                None => Some(PassedOver::OverBudget),
            }
        })
    }
}

/// The newest so many; 20 where nobody says otherwise.
#[must_use]
pub fn newest(candidates: &[Candidate], count: Option<usize>) -> Picked {
    let count = count.unwrap_or(20);
    choose(candidates, |chosen, _| {
        (chosen >= count).then_some(PassedOver::OverMaxEntries)
    })
}

/// What of a message is left by its age: 1 when it was used now, half of it after each half-life.
/// Times that go back make nothing younger; one that is not known makes nothing old.
#[must_use]
pub fn score(used: Option<Micros>, now: Micros, half_life: Micros) -> f64 {
    let Some(used) = used else { return 1.0 };
    let amount = |micros: i64| {
        let micros = u64::try_from(micros).unwrap_or(0);
        let half = |n: u64| f64::from(u32::try_from(n & 0xFFFF_FFFF).unwrap_or(u32::MAX));
        half(micros >> 32).mul_add(4_294_967_296.0, half(micros))
    };
    let (age, half) = (amount(now.0.saturating_sub(used.0)), amount(half_life.0));
    if half > 0.0 {
        (-age / half).exp2()
    } else {
        1.0
    }
}

/// Those whose score is at the floor or above it; 0.1 where nobody says otherwise. All are measured
/// at one time.
#[must_use]
pub fn fresh(
    candidates: &[Candidate],
    now: Micros,
    half_life: Micros,
    floor: Option<f64>,
) -> Picked {
    let floor = floor.unwrap_or(0.1);
    choose(candidates, |_, candidate| {
        let stale = score(candidate.used, now, half_life) < floor;
        stale.then_some(PassedOver::BelowFloor)
    })
}

/// Asks the newest first; `passes` gets how many are chosen so far.
fn choose(
    candidates: &[Candidate],
    mut passes: impl FnMut(usize, &Candidate) -> Option<PassedOver>,
) -> Picked {
    let mut newest_first: Vec<&Candidate> = candidates.iter().collect();
    newest_first.sort_by_key(|c| std::cmp::Reverse(c.id));
    let mut picked = Picked::default();
    for candidate in newest_first {
        match passes(picked.chosen.len(), candidate) {
            Some(why) => picked.passed.push((candidate.id, why)),
            None => picked.chosen.push(candidate.id),
        }
    }
    picked.chosen.reverse();
    picked
}
