//! Where groups lie in the journal's file, and what of it may be written over.

use std::collections::VecDeque;

/// Every group begins on a page of its own, so that no byte of an earlier one is ever written again.
pub(super) const PAGE: u64 = 4096;
/// Behind the head page and the two pages of the mark.
pub(super) const FIRST: u64 = 3 * PAGE;
/// The size the file begins with, and the one up to which it is doubled rather than waited for.
const SMALL: u64 = 256 << 10;
const LARGE: u64 = 8 << 20;

/// A group that may still be needed.
#[derive(Clone, Copy, Debug)]
struct Live {
    group: u64,
    /// The last request that it holds.
    request: u64,
    start: u64,
}

/// What to do for a group to have a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Room {
    /// It has one, at this byte.
    At(u64),
    /// The file has to be this long.
    Extend(u64),
    /// The mark has to say that all up to this group is in the tree.
    Mark(u64),
    /// Something has to come into the tree first.
    Full,
}

/// The file, seen as a ring of pages.
#[derive(Debug)]
pub(super) struct Ring {
    length: u64,
    /// Where the next group would begin.
    next: u64,
    live: VecDeque<Live>,
}

impl Default for Ring {
    fn default() -> Self {
        Self {
            length: 0,
            next: FIRST,
            live: VecDeque::new(),
        }
    }
}

impl Ring {
    /// What a group of so many bytes needs, given the request up to which all is in the tree.
    pub(super) fn room(&self, bytes: u64, settled: u64) -> Room {
        let end = |start: u64| start.saturating_add(pages(bytes));
        let Some(oldest) = self.live.front() else {
            return if end(FIRST) <= self.length {
                Room::At(FIRST)
            } else {
                Room::Extend(self.grown(end(FIRST)))
            };
        };
        let wrapped = oldest.start >= self.next;
        let limit = if wrapped { oldest.start } else { self.length };
        if end(self.next) <= limit {
            return Room::At(self.next);
        }
        if !wrapped && end(FIRST) <= oldest.start {
            return Room::At(FIRST);
        }
        let done = self.live.iter().take_while(|live| live.request <= settled);
        match done.last() {
            Some(live) => Room::Mark(live.group),
            None if !wrapped && self.length < LARGE => Room::Extend(self.grown(end(self.next))),
            None => Room::Full,
        }
    }

    /// Doubled, and as long as it must be.
    fn grown(&self, needed: u64) -> u64 {
        let doubled = self.length.saturating_mul(2).clamp(SMALL, LARGE);
        doubled.max(needed)
    }

    pub(super) fn extended(&mut self, length: u64) {
        self.length = length;
    }

    /// A group was put where [`Self::room`] said.
    pub(super) fn put(&mut self, group: u64, request: u64, start: u64, bytes: u64) {
        self.live.push_back(Live {
            group,
            request,
            start,
        });
        self.next = start.saturating_add(pages(bytes));
    }

    /// The mark on the disk says that all up to this group is in the tree.
    pub(super) fn marked(&mut self, group: u64) {
        while self.live.front().is_some_and(|live| live.group <= group) {
            self.live.pop_front();
        }
    }
}

/// The bytes of all pages that so many bytes touch.
fn pages(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE).saturating_mul(PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Groups of any sizes, put into the tree at any times.
        #[test]
        fn no_group_lies_over_one_that_may_still_be_needed(
            steps in prop::collection::vec((1_u64..400_000, 0_u64..6, any::<bool>()), 1..120)
        ) {
            let mut ring = Ring::default();
            let (mut settled, mut group) = (0, 0);
            // What is needed as long as the mark does not say otherwise.
            let mut needed: Vec<(u64, u64, u64)> = Vec::new();
            for (bytes, lag, settle) in steps {
                group += 1;
                loop {
                    match ring.room(bytes, settled) {
                        Room::Extend(length) => {
                            prop_assert!(length > ring.length && length.is_multiple_of(PAGE));
                            ring.extended(length);
                        }
                        Room::Mark(done) => {
                            prop_assert!(done <= settled, "requests are numbered as groups here");
                            ring.marked(done);
                            needed.retain(|(group, ..)| *group > done);
                        }
                        Room::Full => {
                            prop_assert!(settled + 1 < group, "else nothing would ever free it");
                            settled = group - 1;
                        }
                        Room::At(start) => {
                            let end = start + pages(bytes);
                            prop_assert!(start >= FIRST && end <= ring.length);
                            for (_, from, to) in &needed {
                                prop_assert!(end <= *from || *to <= start);
                            }
                            needed.push((group, start, end));
                            ring.put(group, group, start, bytes);
                            break;
                        }
                    }
                }
                if settle {
                    settled = settled.max(group.saturating_sub(lag));
                }
            }
        }
    }
}
