//! blake3 under a context of one's own, for what is hashed by the million.

use std::cell::RefCell;

use super::Hash;

/// A hasher for one context. Deriving a context's key costs as much as hashing a small entry, and
/// moving a hasher half of that: so a thread keeps one.
pub(crate) struct Derived(RefCell<blake3::Hasher>);

impl Derived {
    pub(crate) fn new(context: &str) -> Self {
        Self(RefCell::new(blake3::Hasher::new_derive_key(context)))
    }

    /// The hash of these bytes, one behind the other.
    pub(crate) fn hash(&self, parts: &[&[u8]]) -> Hash {
        let mut hasher = self.0.borrow_mut();
        hasher.reset();
        for part in parts {
            hasher.update(part);
        }
        Hash(*hasher.finalize().as_bytes())
    }
}
