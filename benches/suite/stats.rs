//! Medians and spreads, and the numbers they are made of.

use std::time::{Duration, Instant};

/// The middle of some values, and how far they lie apart.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// Of at least one value; of an even number, the mean of the two in the middle.
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (sorted[0], sorted[sorted.len() - 1]);
        let upper = sorted.len() / 2;
        let lower = (sorted.len() - 1) / 2;
        let median = f64::midpoint(sorted[lower], sorted[upper]);
        Self { median, min, max }
    }
}

/// The median of at least one duration, in milliseconds.
pub fn median_ms(times: &[Duration]) -> f64 {
    let ms: Vec<f64> = times.iter().map(|t| t.as_secs_f64() * 1e3).collect();
    Spread::of(&ms).median
}

pub fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let began = Instant::now();
    let done = work();
    (began.elapsed(), done)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "figures are read to three digits"
)]
pub fn float(n: u64) -> f64 {
    n as f64
}

/// So many a second.
pub fn rate(count: u64, took: Duration) -> f64 {
    float(count) / took.as_secs_f64()
}

/// Numbers that are the same in every run, so that both sides of a ratio get the same.
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // The low bits of the state itself follow each other too closely.
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 20
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let at = self.below(u64::try_from(from.len()).expect("a length"));
        &from[usize::try_from(at).expect("a place in a slice")]
    }
}
