//! Groups: connected components of messages that must stay or leave together.

use std::collections::HashMap;

use crate::log::Seq;

/// A union-find over message positions that also lists each component's members.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    parent: Vec<usize>,
    /// Of a root with others: its members, ascending; else empty.
    members: Vec<Vec<usize>>,
}

impl Groups {
    /// Adds the next position as a group of its own.
    pub fn push(&mut self) {
        let next = self.parent.len();
        self.parent.push(next);
        self.members.push(Vec::new());
    }

    /// The group a position belongs to, named by one of its positions.
    #[must_use]
    pub fn root(&self, mut at: usize) -> usize {
        // Union by size keeps chains logarithmic, so no compression (and no `&mut`) is needed.
        while let Some(&up) = self.parent.get(at) {
            if up == at {
                break;
            }
            at = up;
        }
        at
    }

    /// Makes two positions one group. Positions that do not exist are ignored.
    pub fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        if a == b || a >= self.parent.len() || b >= self.parent.len() {
            return;
        }
        let size = |at: usize| self.members(at).len();
        let (small, large) = if size(a) < size(b) { (a, b) } else { (b, a) };
        if size(large) == 1 {
            // Most often: a call and its result.
            self.merge(small, large, vec![a.min(b), a.max(b)]);
            return;
        }
        let moved = self.take_members(small);
        let mut members = self.take_members(large);
        // Most groups grow at their end.
        let sorted = members.last() < moved.first();
        members.extend(moved);
        if !sorted {
            members.sort_unstable();
        }
        self.merge(small, large, members);
    }

    fn merge(&mut self, small: usize, large: usize, members: Vec<usize>) {
        if let Some(slot) = self.members.get_mut(large) {
            *slot = members;
        }
        if let Some(parent) = self.parent.get_mut(small) {
            *parent = large;
        }
    }

    fn take_members(&mut self, root: usize) -> Vec<usize> {
        let members = self.members.get_mut(root).map(std::mem::take);
        let members = members.unwrap_or_default();
        if members.is_empty() {
            vec![root]
        } else {
            members
        }
    }

    /// The positions of a group, ascending; of the group that `at` belongs to.
    #[must_use]
    pub fn members(&self, at: usize) -> &[usize] {
        let root = self.root(at);
        match self.members.get(root) {
            None => &[],
            Some(alone) if alone.is_empty() => {
                self.parent.get(root).map_or(&[], std::slice::from_ref)
            }
            Some(members) => members,
        }
    }
}

/// The groups among some messages, each given with the messages that its own entry ties it to:
/// positions, each group ascending, groups in the order of their newest message's position.
#[must_use]
pub fn grouped(messages: &[(Seq, Vec<Seq>)]) -> Vec<Vec<usize>> {
    let mut groups = Groups::default();
    messages.iter().for_each(|_| groups.push());
    let positions: HashMap<Seq, usize> = messages.iter().map(|(seq, _)| *seq).zip(0..).collect();
    for (at, (_, ties)) in messages.iter().enumerate() {
        let others = ties.iter().filter_map(|seq| positions.get(seq));
        others.for_each(|other| groups.join(at, *other));
    }
    let mut out: Vec<Vec<usize>> = (0..messages.len())
        .filter(|&i| groups.root(i) == i)
        .map(|i| groups.members(i).to_vec())
        .collect();
    out.sort_unstable_by_key(|members| members.last().copied());
    out
}

#[cfg(test)]
mod tests {
    use super::Groups;

    #[test]
    fn joined_positions_share_members_in_order() {
        let mut g = Groups::default();
        (0..5).for_each(|_| g.push());
        g.join(4, 1);
        g.join(1, 0);
        g.join(0, 99);
        assert_eq!(g.members(4), &[0, 1, 4]);
        assert_eq!(g.members(2), &[2]);
        assert_eq!(g.root(0), g.root(4));
        assert_ne!(g.root(0), g.root(3));
    }
}
