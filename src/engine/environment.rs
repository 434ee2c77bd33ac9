//! What the engine takes from outside: the clock, and randomness for ids and salts. Injected, so
//! that the same inputs give the same log bytes.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::log::Micros;

/// A clock and a source of randomness.
pub trait Environment: Send + Sync + std::fmt::Debug {
    /// The wall time now, if there is a clock.
    fn now(&self) -> Option<Micros>;

    /// 32 bytes nobody can guess.
    ///
    /// # Errors
    /// When the system has none to give.
    fn random(&self) -> std::io::Result<[u8; 32]>;
}

/// The system's clock and randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Environment for System {
    fn now(&self) -> Option<Micros> {
        Some(Micros(chrono::Utc::now().timestamp_micros()))
    }

    fn random(&self) -> std::io::Result<[u8; 32]> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|e| std::io::Error::other(e.to_string()))?;
        Ok(bytes)
    }
}

/// A deterministic environment for tests and samples: its clock ticks one second a reading from a
/// given start, its randomness is a hash of a seed and a counter. Guessable: never for real logs.
#[derive(Debug)]
pub struct Seeded {
    seed: [u8; 32],
    start: Micros,
    readings: AtomicU64,
    draws: AtomicU64,
}

impl Seeded {
    /// An environment that gives the same for the same seed and start.
    #[must_use]
    pub fn new(seed: u64, start: Micros) -> Self {
        let seed = *blake3::hash(&seed.to_le_bytes()).as_bytes();
        Self {
            seed,
            start,
            readings: AtomicU64::new(0),
            draws: AtomicU64::new(0),
        }
    }
}

impl Environment for Seeded {
    fn now(&self) -> Option<Micros> {
        let n = self.readings.fetch_add(1, Ordering::Relaxed);
        let step = i64::try_from(n)
            .unwrap_or(i64::MAX)
            .saturating_mul(1_000_000);
        Some(Micros(self.start.0.saturating_add(step)))
    }

    fn random(&self) -> std::io::Result<[u8; 32]> {
        let n = self.draws.fetch_add(1, Ordering::Relaxed);
        Ok(*blake3::keyed_hash(&self.seed, &n.to_le_bytes()).as_bytes())
    }
}
