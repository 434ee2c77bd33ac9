//! The guard: the one function every proposal passes. It refuses by name.
//!
//! A strategy gives an order of candidates and a target; the guard walks them until the target is
//! met and accounts for every group: it leaves, it refuses, or the target was met without it.

use std::collections::{BTreeMap, BTreeSet};

use crate::log::{GroupReason, Iteration, LeftReason, MessageId, Role, Seq};

use super::state::{MessageState, Projection};

/// A group of the window now, as strategies see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupView {
    /// Its messages that are in the window, in window order.
    pub messages: Vec<MessageId>,
    /// Positions of those messages in the window.
    pub positions: Vec<usize>,
    /// The place of its newest message: groups are ordered by it.
    pub newest: Seq,
    /// Whether it is all system envelope.
    pub envelope: bool,
    /// The run its newest message belongs to, from 1; 0 before the first.
    pub run: u64,
    /// Its size in tokens, by the frame's method.
    pub tokens: u64,
}

/// What a strategy wants cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cut {
    /// Groups (positions in the frame) in the order in which they should leave.
    pub order: Vec<usize>,
    /// Groups the strategy keeps: they refuse as `inside-keep-window`.
    pub keep: BTreeSet<usize>,
    /// Groups the strategy keeps for holding the head: they refuse as `protected-head`.
    pub head: BTreeSet<usize>,
    /// Per group: how much of the measure goes when it leaves.
    pub sizes: Vec<u64>,
    /// Whether a size is that of the group's run, and goes only with the run's last group.
    pub by_run: bool,
    /// The measure before.
    pub before: u64,
    /// The measure to get down to.
    pub target: u64,
    /// Whether every candidate is asked, also when the target is met: then the target is that
    /// nothing outside `keep` remains.
    pub ask_all: bool,
    /// Why groups leave.
    pub reason: LeftReason,
}

/// What becomes of a group at a visit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It leaves.
    Leaves(LeftReason),
    /// It may not leave.
    Refuses(GroupReason),
    /// The target was met without it.
    NotNeeded,
}

/// What the guard made of a cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Per group of the frame.
    pub fates: Vec<Fate>,
    /// The measure after.
    pub after: u64,
    /// By how much the target was missed; 0 when it was met.
    pub shortfall: u64,
}

impl Decision {
    /// Whether anything leaves.
    #[must_use]
    pub fn frees(&self) -> bool {
        self.fates.iter().any(|f| matches!(f, Fate::Leaves(_)))
    }
}

impl Projection {
    /// The groups of the window now, in the order of their newest message's place. `tokens` gives
    /// each item's size.
    #[must_use]
    pub fn group_views(&self, tokens: &[u64]) -> Vec<GroupView> {
        let mut by_root: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (position, item) in self.items.iter().enumerate() {
            by_root
                .entry(self.groups.root(item.index))
                .or_default()
                .push(position);
        }
        let mut views: Vec<GroupView> = by_root
            .into_values()
            .map(|positions| self.group_view(positions, tokens))
            .collect();
        views.sort_unstable_by_key(|g| (g.newest, g.positions.last().copied()));
        views
    }

    fn group_view(&self, positions: Vec<usize>, tokens: &[u64]) -> GroupView {
        let items = || positions.iter().filter_map(|&p| self.items.get(p));
        let newest = items().map(|i| i.place).max().unwrap_or_default();
        let envelope = items().all(|i| {
            self.messages
                .get(i.index)
                .is_some_and(|m| self.in_envelope(m))
        });
        let runs = self.runs.partition_point(|r| *r <= newest);
        GroupView {
            messages: items().map(|i| i.id).collect(),
            newest,
            envelope,
            run: u64::try_from(runs).unwrap_or(u64::MAX),
            tokens: positions
                .iter()
                .filter_map(|&p| tokens.get(p).copied())
                .fold(0, u64::saturating_add),
            positions,
        }
    }

    /// Every reason, in order of precedence, why the log itself does not let a group leave now.
    #[must_use]
    pub fn holds(&self, group: &GroupView) -> Vec<GroupReason> {
        let members: Vec<&MessageState> = group
            .messages
            .first()
            .map(|id| self.group_of(*id))
            .unwrap_or_default()
            .into_iter()
            .filter_map(|id| self.message(id))
            .collect();
        let any = |test: &dyn Fn(&MessageState) -> bool| members.iter().any(|m| test(m));
        let now = self.next_iteration();
        let mut reasons = Vec::new();
        let mut check = |reason, holds: bool| {
            if holds {
                reasons.push(reason);
            }
        };
        check(
            GroupReason::CurrentRequest,
            any(&|m| m.visible() && self.in_request(m)),
        );
        check(
            GroupReason::SystemEnvelope,
            any(&|m| m.visible() && self.in_envelope(m)),
        );
        check(
            GroupReason::UnresolvedToolCall,
            any(&|m| self.has_open_call(m)),
        );
        check(GroupReason::Pinned, any(&|m| held(m, now)));
        reasons
    }

    fn has_open_call(&self, message: &MessageState) -> bool {
        let from = (message.id.seq(), 0);
        let to = (message.id.seq(), u32::MAX);
        self.open_parts.range(from..=to).next().is_some()
    }
}

fn held(message: &MessageState, now: Iteration) -> bool {
    message.pinned || message.restored.is_some_and(|at| now <= at)
}

/// Walks a cut through the guard.
#[must_use]
pub fn decide(state: &Projection, groups: &[GroupView], cut: &Cut) -> Decision {
    let mut walk = Walk::new(state, groups, cut);
    for &g in &cut.order {
        if !cut.ask_all && walk.left <= cut.target {
            break;
        }
        walk.ask(g, cut.reason);
    }
    if walk.fates.iter().any(|f| matches!(f, Fate::Leaves(_))) {
        walk.open_legally();
    }
    let after = walk.left;
    Decision {
        fates: walk.fates,
        after,
        shortfall: after.saturating_sub(cut.target),
    }
}

struct Walk<'a> {
    state: &'a Projection,
    groups: &'a [GroupView],
    cut: &'a Cut,
    fates: Vec<Fate>,
    /// The measure of what remains.
    left: u64,
    /// Per run: its remaining groups, the envelope aside.
    runs: BTreeMap<u64, usize>,
}

impl<'a> Walk<'a> {
    fn new(state: &'a Projection, groups: &'a [GroupView], cut: &'a Cut) -> Self {
        let mut runs: BTreeMap<u64, usize> = BTreeMap::new();
        for group in groups.iter().filter(|g| !g.envelope) {
            let remaining = runs.entry(group.run).or_default();
            *remaining = remaining.saturating_add(1);
        }
        let fates = vec![Fate::NotNeeded; groups.len()];
        Self {
            state,
            groups,
            cut,
            fates,
            left: cut.before,
            runs,
        }
    }

    fn size(&self, g: usize) -> u64 {
        self.cut.sizes.get(g).copied().unwrap_or(0)
    }

    /// The remaining groups of a group's run.
    fn run_of(&mut self, g: usize) -> Option<&mut usize> {
        let group = self.groups.get(g).filter(|group| !group.envelope)?;
        self.runs.get_mut(&group.run)
    }

    fn takes(&mut self, g: usize, reason: LeftReason) {
        self.set(g, Fate::Leaves(reason));
        let size = self.size(g);
        let last = self.run_of(g).is_none_or(|remaining| {
            *remaining = remaining.saturating_sub(1);
            *remaining == 0
        });
        if last || !self.cut.by_run {
            self.left = self.left.saturating_sub(size);
        }
    }

    /// Puts a group back where the target holds with it; says whether it did.
    fn gives_back(&mut self, g: usize) -> bool {
        let first = self.run_of(g).is_none_or(|remaining| *remaining == 0);
        let size = if first || !self.cut.by_run {
            self.size(g)
        } else {
            0
        };
        let left = self.left.saturating_add(size);
        if left > self.cut.target {
            return false;
        }
        self.left = left;
        if let Some(remaining) = self.run_of(g) {
            *remaining = remaining.saturating_add(1);
        }
        self.set(g, Fate::Refuses(GroupReason::IllegalOpener));
        true
    }

    fn set(&mut self, g: usize, fate: Fate) {
        if let Some(slot) = self.fates.get_mut(g) {
            *slot = fate;
        }
    }

    fn verdict(&self, g: usize) -> Option<GroupReason> {
        let group = self.groups.get(g)?;
        let kept = self
            .cut
            .keep
            .contains(&g)
            .then_some(GroupReason::InsideKeepWindow);
        let head = self
            .cut
            .head
            .contains(&g)
            .then_some(GroupReason::ProtectedHead);
        self.state.holds(group).first().copied().or(head).or(kept)
    }

    fn ask(&mut self, g: usize, reason: LeftReason) {
        match self.verdict(g) {
            Some(refusal) => self.set(g, Fate::Refuses(refusal)),
            None => self.takes(g, reason),
        }
    }

    fn leaves(&self, g: usize) -> bool {
        matches!(self.fates.get(g), Some(Fate::Leaves(_)))
    }

    /// Makes the window open on a user message: by putting back the newest groups of the cut where
    /// the target still holds, else by letting leading unprotected groups leave too. Where neither
    /// helps, rendering repairs.
    fn open_legally(&mut self) {
        let openers = Openers::new(self.state, self.groups);
        let opener = openers.first_from(0, |g| !self.leaves(g));
        if opener.is_none_or(|at| openers.legal(at)) {
            return;
        }
        let before = (self.fates.clone(), self.left, self.runs.clone());
        if self.put_back(&openers, opener) {
            return;
        }
        (self.fates, self.left, self.runs) = before.clone();
        if !self.let_leaders_go(&openers) {
            (self.fates, self.left, self.runs) = before;
        }
    }

    fn put_back(&mut self, openers: &Openers<'_>, mut opener: Option<usize>) -> bool {
        for g in (0..self.groups.len()).rev() {
            if !self.leaves(g) {
                continue;
            }
            if !self.gives_back(g) {
                return false;
            }
            let own = openers.first_of(g);
            opener = [opener, own].into_iter().flatten().min();
            if opener.is_some_and(|at| openers.legal(at)) {
                return true;
            }
        }
        false
    }

    fn let_leaders_go(&mut self, openers: &Openers<'_>) -> bool {
        let mut from = 0;
        while let Some(at) = openers.first_from(from, |g| !self.leaves(g)) {
            if openers.legal(at) {
                return true;
            }
            let Some(g) = openers.group(at) else {
                return false;
            };
            if self.fates.get(g) != Some(&Fate::NotNeeded) {
                return false;
            }
            self.ask(g, LeftReason::Opener);
            from = at;
        }
        true
    }
}

/// What a window could open on: per position its group and whether a provider takes it as the
/// opener; envelope positions have none.
struct Openers<'a> {
    groups: &'a [GroupView],
    at: Vec<Option<(usize, bool)>>,
}

impl<'a> Openers<'a> {
    fn new(state: &Projection, groups: &'a [GroupView]) -> Self {
        let mut at = vec![None; state.items.len()];
        for (g, group) in groups.iter().enumerate() {
            for &position in &group.positions {
                let item = state.items.get(position);
                let message = item.and_then(|item| state.messages.get(item.index));
                if let (Some(slot), Some(message)) = (at.get_mut(position), message)
                    && !state.in_envelope(message)
                {
                    *slot = Some((g, message.skeleton().is_some_and(|s| s.role == Role::User)));
                }
            }
        }
        Self { groups, at }
    }

    fn group(&self, at: usize) -> Option<usize> {
        self.at.get(at).copied().flatten().map(|(g, _)| g)
    }

    fn legal(&self, at: usize) -> bool {
        self.at
            .get(at)
            .copied()
            .flatten()
            .is_some_and(|(_, user)| user)
    }

    /// The first position from `from` on whose group remains.
    fn first_from(&self, from: usize, remains: impl Fn(usize) -> bool) -> Option<usize> {
        let rest = self.at.iter().enumerate().skip(from);
        rest.filter_map(|(at, slot)| Some((at, (*slot)?.0)))
            .find(|(_, g)| remains(*g))
            .map(|(at, _)| at)
    }

    fn first_of(&self, g: usize) -> Option<usize> {
        let positions = self.groups.get(g)?.positions.iter().copied();
        positions.filter(|at| self.group(*at) == Some(g)).min()
    }
}
