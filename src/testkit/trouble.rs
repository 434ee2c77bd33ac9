//! Why a harness could not measure.

use std::io;
use std::path::Path;

use crate::engine::Error;
use crate::store::StoreError;

/// Why there is no figure. A broken figure is none of these: it is a figure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Trouble {
    /// A request failed that had to be accepted.
    #[error(transparent)]
    Engine(#[from] Error),
    /// A store failed that had to work.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The machine failed beside the store.
    #[error("{what}: {source}")]
    Io {
        /// What was being done, and where.
        what: String,
        /// The system's words.
        source: io::Error,
    },
    /// The harness did not do what it is for: a fault was not delivered, a child ended by itself.
    #[error("{0}")]
    Harness(String),
}

impl Trouble {
    /// A failure of the machine at a path, for `map_err`.
    pub fn at(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let what = format!("{what} {}", path.display());
        |source| Self::Io { what, source }
    }

    /// A failure of the harness itself.
    #[must_use]
    pub fn harness(words: impl Into<String>) -> Self {
        Self::Harness(words.into())
    }
}
