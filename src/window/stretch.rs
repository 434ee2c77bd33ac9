//! Stretches of messages and how long any of their messages stayed, so that a past window is found
//! without looking at every message ever logged.

use crate::log::Seq;

/// Messages a stretch.
const LENGTH: usize = 256;

/// What is known of one stretch.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    /// How many of its messages are in the window now.
    visible: usize,
    /// The entry by which the last stay that ended in it ended.
    until: Seq,
}

impl Stretch {
    /// Whether a message of it can have been in the window after entry `n`.
    fn may_hold(self, n: Seq) -> bool {
        self.visible > 0 || n < self.until
    }
}

/// The stretches of all messages.
#[derive(Clone, Debug, Default)]
pub(super) struct Stretches(Vec<Stretch>);

impl Stretches {
    fn of(&mut self, index: usize) -> Option<&mut Stretch> {
        let at = index / LENGTH;
        if at >= self.0.len() {
            self.0.resize(at.saturating_add(1), Stretch::default());
        }
        self.0.get_mut(at)
    }

    /// The message at this position entered the window.
    pub fn enter(&mut self, index: usize) {
        if let Some(stretch) = self.of(index) {
            stretch.visible = stretch.visible.saturating_add(1);
        }
    }

    /// The message at this position left the window by an entry.
    pub fn leave(&mut self, index: usize, by: Seq) {
        if let Some(stretch) = self.of(index) {
            stretch.visible = stretch.visible.saturating_sub(1);
            stretch.until = stretch.until.max(by);
        }
    }

    /// Of items by position, those that can have been in the window after entry `n`.
    pub fn after<'a, T>(
        &'a self,
        items: &'a [T],
        n: Seq,
    ) -> impl Iterator<Item = (usize, &'a T)> + 'a {
        let stretches = self.0.iter().zip(items.chunks(LENGTH)).zip(0_usize..);
        let held = stretches.filter(move |((stretch, _), _)| stretch.may_hold(n));
        held.flat_map(|((_, chunk), at)| (at.saturating_mul(LENGTH)..).zip(chunk))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::{LENGTH, Stretches};
    use crate::log::Seq;

    proptest! {
        #[test]
        fn what_was_in_the_window_is_found_and_long_gone_stretches_are_not(
            moves in prop::collection::vec(0..4 * LENGTH, 0..200)
        ) {
            let mut stretches = Stretches::default();
            let mut there = BTreeSet::new();
            let mut past = vec![there.clone()];
            for (index, by) in moves.iter().zip(1..) {
                if there.remove(index) {
                    stretches.leave(*index, Seq(by));
                } else {
                    there.insert(*index);
                    stretches.enter(*index);
                }
                past.push(there.clone());
            }
            let all: Vec<usize> = (0..4 * LENGTH).collect();
            for (n, there) in (0..).zip(&past) {
                let found: BTreeSet<usize> = stretches.after(&all, Seq(n)).map(|(i, _)| i).collect();
                prop_assert!(found.is_superset(there), "after {n}");
                prop_assert!(stretches.after(&all, Seq(n)).all(|(i, item)| i == *item));
            }
        }
    }

    #[test]
    fn a_stretch_whose_messages_all_left_is_passed_over_from_then_on() {
        let mut stretches = Stretches::default();
        (0..2 * LENGTH).for_each(|i| stretches.enter(i));
        (0..LENGTH).for_each(|i| stretches.leave(i, Seq(7)));
        let items = vec![(); 2 * LENGTH];
        assert_eq!(stretches.after(&items, Seq(6)).count(), 2 * LENGTH);
        assert_eq!(stretches.after(&items, Seq(7)).count(), LENGTH);
    }
}
