//! Which messages of a conversation are on its path.
//!
//! A session file is a tree: each line names the line before it. Only lines that carry a message
//! are nodes here; what hangs on a note hangs on the message line before that note. Most places
//! where a line has two children are no forks: a result beside the next block of the same model
//! message, a chain of progress lines beside a result. A node is therefore *bound* to the lines it
//! belongs with (the first block of its model message; the calls it answers) and stays as long as
//! one of them stays.

use std::collections::BTreeSet;

/// The number of a node; 0 is the root, which stands before the first message.
pub(super) type NodeId = usize;

/// The place before the first message.
pub(super) const ROOT: NodeId = 0;

/// Where a line hangs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The message line at or before the line it names.
    pub(super) node: NodeId,
    /// Whether the file says so. Otherwise the line was joined in file order, and no fork before
    /// it takes it away: that would build on a guess.
    pub(super) known: bool,
}

/// A line that carries a message.
#[derive(Debug, Default)]
struct Node {
    parent: NodeId,
    children: Vec<NodeId>,
    /// Lines of abandoned branches that stayed because they are bound to this one.
    held: Vec<NodeId>,
    bound: Vec<NodeId>,
    /// Message-step numbers; a summary has none.
    messages: Vec<usize>,
    /// Whether a model wrote it.
    answer: bool,
    gone: bool,
}

/// The message lines of one conversation.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    tip: NodeId,
    /// Message numbers below this are covered by a summary, nodes below `summary` stand before it.
    floor: usize,
    summary: NodeId,
}

impl Tree {
    /// A conversation without messages.
    pub(super) fn new() -> Self {
        Self {
            nodes: vec![Node::default()],
            tip: ROOT,
            floor: 0,
            summary: ROOT,
        }
    }

    /// The newest node on the path: where a line stands that names no line we know.
    pub(super) const fn tip(&self) -> NodeId {
        self.tip
    }

    /// Whether no message line was added yet.
    pub(super) const fn is_empty(&self) -> bool {
        self.nodes.len() < 2
    }

    /// Whether this node left the path.
    pub(super) fn is_gone(&self, id: NodeId) -> bool {
        self.nodes.get(id).is_some_and(|n| n.gone)
    }

    /// Whether this node stands before the newest summary.
    pub(super) const fn is_covered(&self, id: NodeId) -> bool {
        id < self.summary
    }

    /// Adds a line. One that hangs on an abandoned branch is `gone` at once.
    pub(super) fn add(
        &mut self,
        place: Place,
        bound: Vec<NodeId>,
        messages: Vec<usize>,
        gone: bool,
    ) -> NodeId {
        let id = self.nodes.len();
        self.nodes.push(Node {
            parent: place.node,
            bound,
            messages,
            gone,
            ..Node::default()
        });
        if !gone {
            self.tip = id;
            let parent = self.nodes.get_mut(place.node);
            if let Some(parent) = parent.filter(|_| place.known) {
                parent.children.push(id);
            }
        }
        id
    }

    /// Adds a summary that covers every message numbered below `floor`.
    pub(super) fn cover(&mut self, place: Place, floor: usize) -> NodeId {
        let id = self.add(place, Vec::new(), Vec::new(), false);
        self.floor = floor;
        self.summary = id;
        id
    }

    /// The nearest node at or before `id` that is on the path.
    pub(super) fn nearest_on_path(&mut self, id: NodeId) -> NodeId {
        let mut walked = Vec::new();
        let mut at = id;
        while let Some(node) = self.nodes.get(at).filter(|n| n.gone) {
            walked.push(at);
            at = node.parent;
        }
        // What is gone stays gone, so later walks may take the short way.
        for id in walked {
            if let Some(node) = self.nodes.get_mut(id) {
                node.parent = at;
            }
        }
        at
    }

    /// Says that a model wrote this node.
    pub(super) fn mark_answer(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.get_mut(id) {
            node.answer = true;
        }
    }

    /// Whether a model wrote anything that hangs below `parent`.
    pub(super) fn answers_below(&self, parent: NodeId) -> bool {
        let below = |id: NodeId| {
            self.nodes
                .get(id)
                .map_or(&[][..], |n| n.children.as_slice())
        };
        let mut open = below(parent).to_vec();
        while let Some(id) = open.pop() {
            if self.nodes.get(id).is_some_and(|n| n.answer) {
                return true;
            }
            open.extend(below(id));
        }
        false
    }

    /// A new branch begins at `parent`: abandons what hung there and returns the numbers of the
    /// messages that left, in order. What is bound to a line that stays is kept.
    pub(super) fn leave(&mut self, parent: NodeId) -> Vec<usize> {
        let below = self.detach_below(parent);
        let mut stays = BTreeSet::new();
        let mut gone = Vec::new();
        // Bound lines are older, so one pass in order of age decides.
        for &id in &below {
            match self.holder(id, &below, &stays) {
                Some(holder) => {
                    stays.insert(id);
                    self.hold(holder, id);
                }
                None => gone.extend(self.abandon(id)),
            }
        }
        gone
    }

    /// Takes everything that hangs below `parent` off the tree, but for what `parent` holds.
    fn detach_below(&mut self, parent: NodeId) -> BTreeSet<NodeId> {
        let mut below = BTreeSet::new();
        let mut open = match self.nodes.get_mut(parent) {
            Some(node) => std::mem::take(&mut node.children),
            None => Vec::new(),
        };
        while let Some(id) = open.pop() {
            below.insert(id);
            if let Some(node) = self.nodes.get_mut(id) {
                open.append(&mut node.children);
                open.append(&mut node.held);
            }
        }
        below
    }

    /// A line that stays and that this one is bound to.
    fn holder(
        &self,
        id: NodeId,
        below: &BTreeSet<NodeId>,
        stays: &BTreeSet<NodeId>,
    ) -> Option<NodeId> {
        let stands = |b: &NodeId| !self.is_gone(*b) && (!below.contains(b) || stays.contains(b));
        self.nodes.get(id)?.bound.iter().copied().find(stands)
    }

    fn hold(&mut self, holder: NodeId, id: NodeId) {
        if let Some(node) = self.nodes.get_mut(holder) {
            node.held.push(id);
        }
    }

    fn abandon(&mut self, id: NodeId) -> Vec<usize> {
        let floor = self.floor;
        let Some(node) = self.nodes.get_mut(id) else {
            return Vec::new();
        };
        node.gone = true;
        node.messages
            .iter()
            .copied()
            .filter(|n| *n >= floor)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{NodeId, Place, ROOT, Tree};

    fn after(node: NodeId) -> Place {
        Place { node, known: true }
    }

    #[test]
    fn a_second_child_abandons_the_first_and_all_below_it() {
        let mut tree = Tree::new();
        let a = tree.add(after(ROOT), vec![], vec![0], false);
        let b = tree.add(after(a), vec![], vec![1], false);
        let c = tree.add(after(b), vec![], vec![2], false);
        assert_eq!(tree.leave(a), vec![1, 2]);
        let d = tree.add(after(a), vec![], vec![3], false);
        assert_eq!(tree.nearest_on_path(c), a);
        assert_eq!(tree.leave(a), vec![3]);
        assert!(tree.is_gone(d));
    }

    #[test]
    fn a_result_and_a_later_block_stay_while_their_call_stays() {
        let mut tree = Tree::new();
        let call = tree.add(after(ROOT), vec![], vec![0], false);
        let result = tree.add(after(call), vec![call], vec![1], false);
        let block = tree.add(after(call), vec![call], vec![2], false);
        tree.add(after(block), vec![block], vec![3], false);
        tree.add(after(result), vec![], vec![4], false);
        assert_eq!(tree.leave(call), vec![4]);
        assert_eq!(tree.leave(ROOT), vec![0, 1, 2, 3]);
    }

    #[test]
    fn covered_messages_do_not_leave_again() {
        let mut tree = Tree::new();
        let a = tree.add(after(ROOT), vec![], vec![0], false);
        let b = tree.add(after(a), vec![], vec![1], false);
        let summary = tree.cover(after(b), 2);
        tree.add(after(summary), vec![], vec![2], false);
        assert!(tree.is_covered(a));
        assert_eq!(tree.leave(a), vec![2]);
    }

    #[test]
    fn what_was_joined_by_a_guess_is_not_abandoned() {
        let mut tree = Tree::new();
        let a = tree.add(after(ROOT), vec![], vec![0], false);
        let guess = Place {
            node: a,
            known: false,
        };
        tree.add(guess, vec![], vec![1], false);
        tree.add(after(a), vec![], vec![2], false);
        assert_eq!(tree.leave(a), vec![2]);
    }
}
