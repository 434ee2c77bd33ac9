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
