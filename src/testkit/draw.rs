//! Numbers drawn from a seed: the same on every machine.

use std::time::Duration;

/// A stream of numbers from a seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// The stream of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 where nothing is below it.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number().checked_rem(bound).unwrap_or(0)
    }

    /// True once in `n` on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A time shorter than `bound`, in microseconds.
    pub fn time(&mut self, bound: Duration) -> Duration {
        let micros = u64::try_from(bound.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.below(micros))
    }

    /// True so often in a hundred.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// A place in something of this length; `None` where that is empty.
    pub fn index(&mut self, length: usize) -> Option<usize> {
        let bound = u64::try_from(length).unwrap_or(u64::MAX);
        let at = usize::try_from(self.below(bound)).ok()?;
        (at < length).then_some(at)
    }

    /// One of several; `None` of none.
    pub fn one_of<'a, T>(&mut self, several: &'a [T]) -> Option<&'a T> {
        let count = u64::try_from(several.len()).unwrap_or(u64::MAX);
        let at = usize::try_from(self.below(count)).unwrap_or(0);
        several.get(at)
    }

    /// Words of about this many bytes that no other draw has.
    pub fn words(&mut self, bytes: usize) -> String {
        let mut words = format!("{:016x}", self.number());
        while words.len() < bytes {
            words.extend([' '.to_string(), format!("{:016x}", self.number())]);
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_and_bounds_are_kept() {
        let (mut one, mut two) = (Draw::new(7), Draw::new(7));
        let drawn: Vec<u64> = (0..1_000).map(|_| one.below(10)).collect();
        assert!((0..1_000).all(|n| two.below(10) == drawn[n]));
        assert!((0..10).all(|n| drawn.contains(&n)) && drawn.iter().all(|n| *n < 10));
        assert_eq!(one.below(0), 0);
        assert_eq!(one.one_of::<u8>(&[]), None);
        assert!(one.time(Duration::from_millis(3)) < Duration::from_millis(3));
        assert!(one.words(100).len() >= 100);
    }
}
