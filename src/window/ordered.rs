//! A sorted list in chunks: putting in, taking out and finding the n-th item cost a chunk and, away
//! from both ends, the number of chunks; never the length. At both ends a chunk costs nothing either:
//! windows grow at one and shrink at the other.

use std::collections::VecDeque;

/// Items a chunk.
const CHUNK: usize = 128;

/// What is kept in an [`Ordered`]: its key never changes while it is in.
pub(super) trait Keyed {
    type Key: Ord + Copy;

    fn key(&self) -> Self::Key;
}

/// Items in ascending order of their keys, each key once.
#[derive(Clone, Debug)]
pub(super) struct Ordered<T> {
    /// None is empty.
    chunks: Vec<VecDeque<T>>,
    len: usize,
}

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            len: 0,
        }
    }
}

impl<T: Keyed> Ordered<T> {
    pub const fn len(&self) -> usize {
        self.len
    }

    /// The chunk that holds a key, or that it would go into.
    fn chunk_of(&self, key: T::Key) -> usize {
        let ends_before = |chunk: &VecDeque<T>| chunk.back().is_some_and(|last| last.key() < key);
        // Most keys are asked for near the end.
        match self.chunks.len().checked_sub(1) {
            Some(last) if self.chunks.get(last).is_some_and(|c| begins_by(c, key)) => last,
            _ => self.chunks.partition_point(ends_before),
        }
    }

    /// How many items stand in the chunks before this one, counted from the nearer end.
    fn before(&self, chunk: usize) -> usize {
        let (before, after) = self.chunks.split_at(chunk.min(self.chunks.len()));
        let count = |chunks: &[VecDeque<T>]| {
            chunks
                .iter()
                .map(VecDeque::len)
                .fold(0, usize::saturating_add)
        };
        if before.len() < after.len() {
            count(before)
        } else {
            self.len.saturating_sub(count(after))
        }
    }

    /// Where a key stands, or would stand.
    pub fn position(&self, key: T::Key) -> Result<usize, usize> {
        let chunk = self.chunk_of(key);
        let before = self.before(chunk);
        let items = self.chunks.get(chunk);
        match items.map_or(Err(0), |c| c.binary_search_by_key(&key, Keyed::key)) {
            Ok(at) => Ok(before.saturating_add(at)),
            Err(at) => Err(before.saturating_add(at)),
        }
    }

    pub fn find_mut(&mut self, key: T::Key) -> Option<&mut T> {
        let chunk = self.chunk_of(key);
        let items = self.chunks.get_mut(chunk)?;
        let at = items.binary_search_by_key(&key, Keyed::key).ok()?;
        items.get_mut(at)
    }

    /// The n-th item, from 0.
    pub fn get(&self, n: usize) -> Option<&T> {
        let after = self.len.checked_sub(n.checked_add(1)?)?;
        if n < after {
            let mut left = n;
            for chunk in &self.chunks {
                match left.checked_sub(chunk.len()) {
                    Some(rest) => left = rest,
                    None => return chunk.get(left),
                }
            }
        } else {
            let mut left = after;
            for chunk in self.chunks.iter().rev() {
                match left.checked_sub(chunk.len()) {
                    Some(rest) => left = rest,
                    None => return chunk.iter().rev().nth(left),
                }
            }
        }
        None
    }

    /// Puts an item in its place, unless its key is there already.
    pub fn insert(&mut self, item: T) {
        let key = item.key();
        let mut chunk = self.chunk_of(key).min(self.chunks.len().saturating_sub(1));
        let Some(items) = self.chunks.get_mut(chunk) else {
            self.chunks.push(VecDeque::from([item]));
            self.len = 1;
            return;
        };
        let Err(mut at) = items.binary_search_by_key(&key, Keyed::key) else {
            return;
        };
        if items.len() >= CHUNK {
            // What is appended leaves full chunks behind; what comes between parts one.
            let middle = if at == items.len() { at } else { CHUNK / 2 };
            let rest = items.split_off(middle);
            if at >= middle {
                at = at.saturating_sub(middle);
                chunk = chunk.saturating_add(1);
                self.chunks.insert(chunk, rest);
            } else {
                self.chunks.insert(chunk.saturating_add(1), rest);
            }
        }
        if let Some(items) = self.chunks.get_mut(chunk) {
            items.insert(at, item);
            self.len = self.len.saturating_add(1);
        }
    }

    pub fn remove(&mut self, key: T::Key) -> Option<T> {
        let chunk = self.chunk_of(key);
        let items = self.chunks.get_mut(chunk)?;
        let at = items.binary_search_by_key(&key, Keyed::key).ok()?;
        let item = items.remove(at)?;
        self.len = self.len.saturating_sub(1);
        self.mend(chunk);
        Some(item)
    }

    /// Drops an empty chunk; joins a sparse one with the one before it.
    fn mend(&mut self, chunk: usize) {
        let len = |at: usize| self.chunks.get(at).map_or(0, VecDeque::len);
        let before = chunk.checked_sub(1);
        let joined = before.map_or(CHUNK, |b| len(b).saturating_add(len(chunk)));
        if len(chunk) == 0 {
            self.chunks.remove(chunk);
        } else if joined <= CHUNK / 2 {
            let items = self.chunks.remove(chunk);
            if let Some(before) = before.and_then(|b| self.chunks.get_mut(b)) {
                before.extend(items);
            }
        }
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.chunks.iter().flatten()
    }

    /// The items from the n-th on.
    pub fn skip(&self, n: usize) -> impl Iterator<Item = &T> {
        let mut chunk = 0;
        let mut left = n;
        while let Some(rest) = (self.chunks.get(chunk)).and_then(|c| left.checked_sub(c.len())) {
            chunk = chunk.saturating_add(1);
            left = rest;
        }
        let chunks = self.chunks.get(chunk..).unwrap_or_default();
        chunks.iter().flatten().skip(left)
    }

    /// The items from a key on.
    pub fn from(&self, key: T::Key) -> impl Iterator<Item = &T> {
        let chunk = self.chunk_of(key);
        let chunks = self.chunks.get(chunk..).unwrap_or_default();
        let first = chunks
            .first()
            .map_or(0, |c| c.partition_point(|i| i.key() < key));
        chunks.iter().flatten().skip(first)
    }
}

/// Whether a key lies within a chunk or behind it.
fn begins_by<T: Keyed>(chunk: &VecDeque<T>, key: T::Key) -> bool {
    chunk.front().is_some_and(|first| first.key() <= key)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::{CHUNK, Keyed, Ordered};

    impl Keyed for u16 {
        type Key = Self;

        fn key(&self) -> Self {
            *self
        }
    }

    #[derive(Clone, Debug)]
    enum Move {
        Put(u16),
        Take(u16),
        /// Appends so many behind all others.
        Grow(u16),
        /// Takes so many of the first.
        Shrink(usize),
    }

    fn moves() -> impl Strategy<Value = Vec<Move>> {
        prop::collection::vec(
            prop_oneof![
                4 => (0_u16..999).prop_map(Move::Put),
                4 => (0_u16..999).prop_map(Move::Take),
                1 => (0_u16..400).prop_map(Move::Grow),
                1 => (0_usize..400).prop_map(Move::Shrink),
            ],
            0..120,
        )
    }

    proptest! {
        #[test]
        fn it_holds_what_a_sorted_set_holds(moves in moves()) {
            let (mut ordered, mut set) = (Ordered::default(), BTreeSet::new());
            for step in moves {
                match step {
                    Move::Put(key) => {
                        set.insert(key);
                        ordered.insert(key);
                    }
                    Move::Take(key) => prop_assert_eq!(ordered.remove(key).is_some(), set.remove(&key)),
                    Move::Grow(by) => {
                        let from = set.last().map_or(0, |last| last + 1);
                        for key in from..from.saturating_add(by) {
                            set.insert(key);
                            ordered.insert(key);
                        }
                    }
                    Move::Shrink(by) => {
                        let first: Vec<u16> = set.iter().copied().take(by).collect();
                        for key in first {
                            set.remove(&key);
                            prop_assert!(ordered.remove(key).is_some());
                        }
                    }
                }
                prop_assert_eq!(ordered.len(), set.len());
                prop_assert!(ordered.iter().eq(set.iter()));
                prop_assert!(ordered.chunks.iter().all(|c| !c.is_empty() && c.len() <= CHUNK));
                for key in (0..999).step_by(37) {
                    let before = set.range(..key).count();
                    let expected = if set.contains(&key) { Ok(before) } else { Err(before) };
                    prop_assert_eq!(ordered.position(key), expected);
                    prop_assert!(ordered.from(key).eq(set.range(key..)));
                    prop_assert!(ordered.skip(before).eq(set.range(key..)));
                    prop_assert_eq!(ordered.get(before), set.range(key..).next());
                }
            }
        }
    }

    #[test]
    fn what_is_left_of_many_lies_in_few_chunks() {
        let mut ordered = Ordered::default();
        (0..20_000_u16).for_each(|key| ordered.insert(key));
        assert_eq!(ordered.chunks.len(), 20_000_usize.div_ceil(CHUNK));
        let gone = (0..20_000_u16).filter(|key| key % 20 != 0);
        gone.for_each(|key| assert_eq!(ordered.remove(key), Some(key)));
        assert!(ordered.chunks.len() <= 4 * ordered.len().div_ceil(CHUNK));
    }
}
