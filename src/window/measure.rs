//! Measures: sizes that say what was counted and how. They compare only when both are equal.

use crate::log::{Count, Reading, Settings, Skeleton, Unit};

use super::state::Projection;

/// The method of groups, messages and requests: they are counted.
pub const COUNT: &str = "count";
/// The method of token counts by OpenAI's `o200k_base` encoding.
pub const TIKTOKEN: &str = "tiktoken:o200k_base";
/// The method of the guess "a quarter of the UTF-16 length", rounded up.
pub const ESTIMATE: &str = "estimate:utf16/4";

/// What a strategy wants tokens measured by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Measure {
    /// A serving reading, else counted tokens, else the estimate.
    #[default]
    Auto,
    /// Only a reading that serves the window.
    Reported,
    /// Counted tokens, else the estimate.
    Tiktoken,
    /// The estimate.
    Estimate,
}

impl Measure {
    /// The names `measure=` takes.
    pub const NAMES: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("reported", Self::Reported),
        ("tiktoken", Self::Tiktoken),
        ("estimate", Self::Estimate),
    ];

    /// The name `measure=` takes.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(_, m)| *m == self)
            .map_or("auto", |(name, _)| name)
    }
}

/// The estimate for a message.
#[must_use]
pub fn estimate(skeleton: &Skeleton) -> u64 {
    skeleton.utf16.div_ceil(4)
}

fn counted(skeleton: &Skeleton) -> Option<&Count> {
    skeleton.tokens.as_ref()
}

/// The window's tokens by one method, item by item.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tokens {
    /// The total's method.
    pub method: String,
    /// The window's total, fixed overhead included.
    pub total: u64,
    /// Per item of the window.
    pub items: Vec<u64>,
}

/// Why a measure has no reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoReading {
    /// Nothing was ever reported.
    None,
    /// What was reported belongs to another window.
    Stale,
}

impl Projection {
    /// Measures the window now. Items are counted by one method throughout: the tokenizer's where
    /// every message carries its count, else the estimate.
    ///
    /// # Errors
    /// With [`Measure::Reported`], when no reading serves this window.
    pub fn tokens(&self, measure: Measure) -> Result<Tokens, NoReading> {
        let skeletons: Vec<&Skeleton> = self
            .items
            .iter()
            .filter_map(|i| self.messages.get(i.index)?.skeleton())
            .collect();
        let (method, items) = sizes(&skeletons, measure != Measure::Estimate);
        let served = self.served();
        let reading = match (measure, served) {
            (Measure::Auto | Measure::Reported, Ok(reading)) => Some(reading),
            (Measure::Reported, Err(none)) => return Err(none),
            _ => None,
        };
        Ok(match reading {
            Some((from, input)) => {
                let total = input.saturating_add(sum(&items, from));
                Tokens {
                    method: format!("reported+{method}"),
                    total,
                    items,
                }
            }
            None => {
                let settings = self.settings().map(|(_, s)| s);
                let total = sum(&items, 0).saturating_add(overhead(settings, &method));
                Tokens {
                    method,
                    total,
                    items,
                }
            }
        })
    }

    /// A reading of window D serves window W when D is a prefix of W: gives D's length and tokens.
    fn served(&self) -> Result<(usize, u64), NoReading> {
        let Some(reading) = self.reading else {
            return Err(NoReading::None);
        };
        let length = usize::try_from(reading.messages).map_err(|_| NoReading::Stale)?;
        let prefix = match length.checked_sub(1) {
            None => Some(crate::log::Hash::ZERO),
            Some(last) => self.digests.get(last).copied(),
        };
        if prefix == Some(reading.window) {
            Ok((length, reading.input))
        } else {
            Err(NoReading::Stale)
        }
    }
}

impl Tokens {
    /// The tokens of a window of these messages under these settings: counted where every message
    /// carries its count, else estimated.
    #[must_use]
    pub fn of(skeletons: &[&Skeleton], settings: Option<&Settings>) -> Self {
        let (method, items) = sizes(skeletons, true);
        let total = sum(&items, 0).saturating_add(overhead(settings, &method));
        Self {
            method,
            total,
            items,
        }
    }
}

/// The sizes of messages by one method throughout: the tokenizer's where each carries its count and
/// counts are wanted, else the estimate.
fn sizes(skeletons: &[&Skeleton], counts: bool) -> (String, Vec<u64>) {
    let counts: Option<Vec<&Count>> = counts
        .then(|| skeletons.iter().map(|s| counted(s)).collect())
        .flatten();
    let method = counts
        .as_ref()
        .and_then(|c| c.first())
        .map(|c| c.method.clone());
    let same = |c: &Vec<&Count>| c.iter().all(|x| Some(&x.method) == method.as_ref());
    match (counts.filter(same), method) {
        (Some(counts), Some(method)) => (method, counts.iter().map(|c| c.amount).collect()),
        _ => (
            ESTIMATE.to_owned(),
            skeletons.iter().map(|s| estimate(s)).collect(),
        ),
    }
}

fn sum(items: &[u64], from: usize) -> u64 {
    let items = items.iter().skip(from);
    items.copied().fold(0, u64::saturating_add)
}

/// Tokens that request settings cost, by the same method. For the estimate their bytes stand for
/// UTF-16, which they exceed only outside ASCII; the first byte is the payload's tag.
fn overhead(settings: Option<&Settings>, method: &str) -> u64 {
    let Some(settings) = settings else {
        return 0;
    };
    match settings.overhead.as_ref().filter(|c| c.method == method) {
        Some(counted) => counted.amount,
        None if method == ESTIMATE => settings.content.bytes.saturating_sub(1).div_ceil(4),
        None => 0,
    }
}

/// A count of things, as a reading.
#[must_use]
pub fn count(unit: Unit, amount: u64) -> Reading {
    Reading {
        unit,
        method: COUNT.to_owned(),
        amount,
    }
}
