//! A fold for whoever passes through a log once: it forgets what left the window, so that the memory
//! it takes is that of the window, however long the log.
//!
//! What was forgotten can be named again: restored, answered late, given another form. A passing
//! fold cannot follow that; it notes the name, and whoever wants to know passes through the log once
//! more with a fold that remembers what was named.

use std::collections::{BTreeMap, BTreeSet};

use crate::log::{Body, Change, Entry, Seq, StandInKind};

use super::group::Groups;
use super::index::{GroupIndex, Share};
use super::keys::Keys;
use super::ordered::Ordered;
use super::state::{MessageState, Projection};
use super::stretch::Stretches;
use super::view::edges;

/// Messages are forgotten when so many more are held than could not be forgotten the time before.
const AT_ONCE: usize = 256;

/// A fold that forgets.
#[derive(Clone, Debug)]
pub struct Passing {
    state: Projection,
    remember: BTreeSet<Seq>,
    forgotten: Seqs,
    named: BTreeSet<Seq>,
    /// How many messages may be held before something is forgotten.
    bound: usize,
    at_once: usize,
}

impl Default for Passing {
    fn default() -> Self {
        Self::every(AT_ONCE)
    }
}

impl Passing {
    /// A fold that forgets whenever it holds so many messages that it might.
    #[must_use]
    pub fn every(messages: usize) -> Self {
        Self {
            state: Projection::default(),
            remember: BTreeSet::new(),
            forgotten: Seqs::default(),
            named: BTreeSet::new(),
            bound: messages,
            at_once: messages,
        }
    }

    /// Keeps the groups of these messages.
    #[must_use]
    pub fn remembering(mut self, messages: BTreeSet<Seq>) -> Self {
        self.remember = messages;
        self
    }

    /// The fold of the entries so far, without the messages that were forgotten. It says of the
    /// window and its messages, and of what was not forgotten, what a whole fold says; ordinals of
    /// visits, past windows and totals are not to be had from it.
    #[must_use]
    pub const fn state(&self) -> &Projection {
        &self.state
    }

    /// What was named after it was forgotten: where there is any, this fold is of no use.
    #[must_use]
    pub const fn named(&self) -> &BTreeSet<Seq> {
        &self.named
    }

    /// Applies the next entry.
    pub fn apply(&mut self, entry: &Entry) {
        self.name(entry);
        self.state.apply(entry);
    }

    /// Applies the next entry, whose skeleton nobody reads afterwards: it is not copied.
    pub(crate) fn absorb(&mut self, entry: &mut Entry) {
        self.name(entry);
        self.state.absorb(entry);
    }

    /// Notes what an entry names that was forgotten.
    fn name(&mut self, entry: &Entry) {
        let (forgotten, named) = (&self.forgotten, &mut self.named);
        name(&entry.body, &mut |first, last| {
            named.extend(forgotten.within(first, last));
        });
    }

    /// Forgets what left the window, where there is enough of it; gives what was forgotten.
    pub fn forget(&mut self) -> Vec<MessageState> {
        if self.state.messages.len() < self.bound {
            return Vec::new();
        }
        let keeps = self.keeps();
        let gone = self.state.forget(&keeps);
        gone.iter().for_each(|m| self.forgotten.insert(m.id.seq()));
        let held = self.state.messages.len();
        self.bound = held.saturating_mul(2).saturating_add(self.at_once);
        gone
    }

    /// Which messages stay, by position: a group stays as a whole.
    fn keeps(&self) -> Vec<bool> {
        let state = &self.state;
        let stays = |m: &MessageState| m.visible() || self.remember.contains(&m.id.seq());
        let mut roots = BTreeSet::new();
        for (index, message) in state.messages.iter().enumerate() {
            if stays(message) {
                roots.insert(state.groups.root(index));
            }
        }
        let of = |index| roots.contains(&state.groups.root(index));
        (0..state.messages.len()).map(of).collect()
    }
}

/// Calls `with` for the messages, as ranges, whose state decides what an entry does, wherever they
/// are. What leaves, is refused or covered only matters in the window.
fn name(body: &Body, with: &mut dyn FnMut(Seq, Seq)) {
    if let Body::Appended(a) = body {
        let answers = a.skeleton.parts.iter().filter_map(|p| p.answers);
        let answers = answers.map(|(seq, _)| seq);
        answers.chain(a.continues).for_each(|seq| with(seq, seq));
    }
    let Some(change) = body.change() else { return };
    let Change {
        stand_ins,
        entered,
        reverted,
        pinned,
        unpinned,
        ..
    } = change;
    let forms = stand_ins.iter().filter(|s| s.kind == StandInKind::Form);
    let ranges = forms.map(|s| &s.sources).chain([entered, pinned, unpinned]);
    let ranges = ranges.flat_map(|ranges| ranges.0.iter().copied());
    let reverted = reverted.iter().map(|(message, _)| (*message, *message));
    ranges
        .chain(reverted)
        .for_each(|(first, last)| with(first, last));
}

impl Projection {
    /// Forgets the messages at the positions that are not kept, and all that is derived from them.
    fn forget(&mut self, keeps: &[bool]) -> Vec<MessageState> {
        let kept = |index: usize| keeps.get(index).copied().unwrap_or(false);
        // Where what is kept lies from now on.
        let mut to: BTreeMap<usize, usize> = BTreeMap::new();
        let (mut messages, mut gone) = (Vec::new(), Vec::new());
        for (index, message) in std::mem::take(&mut self.messages).into_iter().enumerate() {
            if kept(index) {
                to.insert(index, messages.len());
                messages.push(message);
            } else {
                gone.push(message);
            }
        }
        self.messages = messages;
        self.seqs = self.messages.iter().map(|m| m.id.seq()).collect();
        let moved = |old: &usize| to.get(old).copied();
        for list in [&mut self.request, &mut self.restored] {
            *list = list.iter().filter_map(moved).collect();
        }
        for standing in &mut self.standing {
            *standing = standing.iter().filter_map(moved).collect();
        }
        let mut items = Ordered::default();
        for item in self.items.iter() {
            if let Some(index) = moved(&item.index) {
                items.insert(super::view::Item { index, ..*item });
            }
        }
        self.items = items;
        self.forget_calls();
        self.regroup();
        gone
    }

    /// Forgets call parts of messages that are not there any more, and the past but for its end.
    fn forget_calls(&mut self) {
        let seqs = std::mem::take(&mut self.seqs);
        let there = |call: &(Seq, u32)| seqs.binary_search(&call.0).is_ok();
        self.calls.retain(|call, _| there(call));
        self.open_parts.retain(there);
        for by_label in [&mut self.open, &mut self.interrupted] {
            by_label.retain(|_, calls| {
                calls.retain(there);
                !calls.is_empty()
            });
        }
        self.closed.retain(|_, call| there(call));
        self.seqs = seqs;
        self.keys = Keys::default();
        self.visits.clear();
        self.visits_of.iter_mut().for_each(Vec::clear);
        self.newest_visit.fill(usize::MAX);
        self.memos.fill(None);
        let newest = self.settings.pop();
        self.settings = newest.into_iter().collect();
        let calls = std::mem::take(&mut self.sent).len();
        let calls = u64::try_from(calls).unwrap_or(u64::MAX);
        self.calls_forgotten = self.calls_forgotten.saturating_add(calls);
    }

    /// Finds groups and their index anew from the messages that are there.
    fn regroup(&mut self) {
        self.groups = Groups::default();
        self.index = GroupIndex::default();
        self.stretches = Stretches::default();
        for index in 0..self.messages.len() {
            self.groups.push();
            self.index.note(index);
            let Some(message) = self.messages.get_mut(index) else {
                continue;
            };
            message.share = Share::default();
            message.refusals.retain(|refusal| refusal.last.is_none());
            if message.visible() {
                self.stretches.enter(index);
            }
            let partners: Vec<Seq> = edges(message).collect();
            for partner in partners {
                if let Some(partner) = self.index_of(partner) {
                    self.groups.join(index, partner);
                }
            }
        }
        self.settle_groups();
    }
}

/// Numbers of entries, a bit each.
#[derive(Clone, Debug, Default)]
struct Seqs(Vec<u64>);

impl Seqs {
    /// Where an entry's bit is; `None` beyond what memory can address.
    fn place(seq: Seq) -> Option<(usize, u64)> {
        let word = usize::try_from(seq.0 / 64).ok()?;
        Some((word, 1_u64.checked_shl(u32::try_from(seq.0 % 64).ok()?)?))
    }

    /// Numbers are those of entries that were read, so what this takes is bounded by the log.
    fn insert(&mut self, seq: Seq) {
        let Some((word, bit)) = Self::place(seq) else {
            return;
        };
        if word >= self.0.len() {
            self.0.resize(word.saturating_add(1), 0);
        }
        if let Some(word) = self.0.get_mut(word) {
            *word |= bit;
        }
    }

    /// Those of a range, its ends included.
    fn within(&self, first: Seq, last: Seq) -> impl Iterator<Item = Seq> + '_ {
        let words = u64::try_from(self.0.len()).unwrap_or(u64::MAX);
        let end = words.saturating_mul(64).min(last.0.saturating_add(1));
        let holds = |seq: &Seq| {
            let place = Self::place(*seq);
            place.is_some_and(|(word, bit)| self.0.get(word).is_some_and(|w| w & bit != 0))
        };
        (first.0..end).map(Seq).filter(holds)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::Seqs;
    use crate::log::Seq;

    proptest! {
        #[test]
        fn numbers_are_found_in_the_ranges_that_hold_them(
            numbers in prop::collection::btree_set(0_u64..300, 0..40), first in 0_u64..300, last: u64
        ) {
            let mut seqs = Seqs::default();
            numbers.iter().for_each(|n| seqs.insert(Seq(*n)));
            for last in [last, last % 300] {
                let found: BTreeSet<u64> = seqs.within(Seq(first), Seq(last)).map(|s| s.0).collect();
                let expected = numbers.iter().copied().filter(|n| (first..=last).contains(n));
                prop_assert_eq!(found, expected.collect());
            }
        }
    }
}
