//! What the engine takes from outside: the clock, and randomness for ids and salts. Injected, so
//! that the same inputs give the same log bytes.

use std::cell::RefCell;
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

    /// The same for one of many salts: it may come out of a supply that was drawn before.
    ///
    /// # Errors
    /// As [`Environment::random`].
    fn salt(&self) -> std::io::Result<[u8; 32]> {
        self.random()
    }
}

/// The system's clock and randomness. Each thread draws salts ahead, 32 at a time: asking the system
/// for each took longer than encoding a message. Ids and secrets are never drawn ahead.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

/// Salts that were drawn ahead. One that is given is wiped here.
struct Supply {
    salts: [[u8; 32]; 32],
    left: usize,
}

impl Supply {
    const EMPTY: Self = Self {
        salts: [[0; 32]; 32],
        left: 0,
    };

    fn draw(&mut self) -> std::io::Result<[u8; 32]> {
        if self.left == 0 {
            fill(self.salts.as_flattened_mut())?;
            self.left = self.salts.len();
        }
        self.left = self.left.saturating_sub(1);
        let salt = self.salts.get_mut(self.left).map(std::mem::take);
        salt.ok_or_else(|| std::io::Error::other("no salt is left"))
    }
}

fn fill(bytes: &mut [u8]) -> std::io::Result<()> {
    getrandom::fill(bytes).map_err(|e| std::io::Error::other(e.to_string()))
}

impl Environment for System {
    fn now(&self) -> Option<Micros> {
        Some(Micros(chrono::Utc::now().timestamp_micros()))
    }

    fn random(&self) -> std::io::Result<[u8; 32]> {
        let mut bytes = [0; 32];
        fill(&mut bytes)?;
        Ok(bytes)
    }

    fn salt(&self) -> std::io::Result<[u8; 32]> {
        thread_local! {
            static SUPPLY: RefCell<Supply> = const { RefCell::new(Supply::EMPTY) };
        }
        // A thread that is ending may have given up its supply.
        let drawn = SUPPLY.try_with(|supply| supply.borrow_mut().draw());
        drawn.unwrap_or_else(|_| self.random())
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
