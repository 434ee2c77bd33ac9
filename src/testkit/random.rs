//! Seeded choices: the same seed gives the same ones, on every machine.

/// A source of choices (splitmix64). For tests; anybody can guess what it gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Random(u64);

impl Random {
    /// A source that gives the same for the same seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 where that is 0.
    pub const fn below(&mut self, end: u64) -> u64 {
        match self.draw().checked_rem(end) {
            Some(n) => n,
            None => 0,
        }
    }

    /// Whether something of this many in a hundred happens.
    pub const fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// An index into something of this length; `None` where that is empty.
    pub fn index(&mut self, length: usize) -> Option<usize> {
        let end = u64::try_from(length).unwrap_or(u64::MAX);
        let at = usize::try_from(self.below(end)).ok()?;
        (at < length).then_some(at)
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        of.get(self.index(of.len())?).copied()
    }
}
