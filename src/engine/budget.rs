//! One number for the memory that a store may take.

/// What the store keeps of unpacked blocks beside sled's cache, in bytes.
const BLOCKS: usize = 4 << 20;

/// How much memory a store may take, in bytes: a quarter of it is sled's cache, 4 MiB are unpacked
/// blocks, and the rest are the conversations that are held. 256 MiB unless said otherwise.
///
/// What one request needs while it runs comes on top: the conversation in use, a window with its
/// words, what waits to be written.
///
/// ```
/// use ctxlog::engine::Budget;
///
/// let budget = Budget::of(64 << 20)?;
/// assert_eq!(budget.cache_bytes(), 16 << 20);
/// assert_eq!(budget.held_bytes(), 44 << 20);
/// # Ok::<(), ctxlog::engine::TooSmall>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget(usize);

/// A budget that no store can keep to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a store needs 1 MiB of memory at least, not {bytes} bytes")]
pub struct TooSmall {
    /// What was asked for.
    pub bytes: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self(256 << 20)
    }
}

impl Budget {
    /// The least there can be: 1 MiB.
    pub const LEAST: usize = 1 << 20;

    /// A budget of so many bytes.
    ///
    /// # Errors
    /// When they are fewer than [`Budget::LEAST`].
    pub const fn of(bytes: usize) -> Result<Self, TooSmall> {
        if bytes < Self::LEAST {
            return Err(TooSmall { bytes });
        }
        Ok(Self(bytes))
    }

    /// The bytes of sled's cache.
    #[must_use]
    pub fn cache_bytes(self) -> u64 {
        u64::try_from(self.cache()).unwrap_or(u64::MAX)
    }

    const fn cache(self) -> usize {
        self.0 / 4
    }

    /// The bytes that conversations may take which are held.
    #[must_use]
    pub const fn held_bytes(self) -> usize {
        self.0.saturating_sub(self.cache()).saturating_sub(BLOCKS)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{BLOCKS, Budget, TooSmall};

    #[test]
    fn less_than_the_least_is_no_budget() {
        assert_eq!(Budget::of(4_000), Err(TooSmall { bytes: 4_000 }));
        assert_eq!(Budget::of(256 << 20), Ok(Budget::default()));
    }

    proptest! {
        #[test]
        fn the_parts_of_a_budget_come_to_no_more_than_it(bytes in Budget::LEAST..1 << 40) {
            let budget = Budget::of(bytes).unwrap();
            let cache = usize::try_from(budget.cache_bytes()).unwrap();
            let parts = cache + budget.held_bytes();
            prop_assert!(parts <= bytes);
            prop_assert!(budget.held_bytes() == 0 || parts + BLOCKS == bytes);
        }
    }
}
