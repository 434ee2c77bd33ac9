//! The groups of the window now, kept in order while entries are folded: what each is held by, which
//! are free to leave, and which changed. A strategy's look then costs what it changes, not the window.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use crate::log::{GroupReason, MessageId, PartKind, Seq};

use super::ordered::{Keyed, Ordered};
use super::output::{Outputs, largest_output};
use super::state::{MessageState, Projection};

/// Where a message stands in window order: its place, then its id. A group stands where its newest
/// message in the window does.
pub(super) type Rank = (Seq, MessageId);

/// A group of the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct GroupAt {
    pub rank: Rank,
    pub root: usize,
}

impl Keyed for GroupAt {
    type Key = Rank;

    fn key(&self) -> Rank {
        self.rank
    }
}

/// What one message adds to its group's tally, in the order of its counters; and how large the
/// largest tool output is that it shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Share([bool; 7], u64);

/// What is known of a group without asking its members.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Tally {
    /// Members in the window; of them, those of the envelope and of the current request.
    visible: u32,
    envelope: u32,
    request: u32,
    /// Members in the window that are notices, and members that came later than where they stand:
    /// they were brought back, or stand for others.
    notices: u32,
    late: u32,
    /// Members with a call without a final result, and members that are pinned, wherever they are.
    open: u32,
    held: u32,
    /// The newest member in the window.
    newest: Option<Rank>,
    /// How the index lists it.
    filed: Option<Filed>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Filed {
    rank: Rank,
    run: u64,
    /// Its messages, where it is counted.
    outside: Option<u32>,
    notice: bool,
    late: bool,
    free: bool,
}

/// How many groups of the window belong to a run, the envelope aside.
#[derive(Clone, Copy, Debug)]
struct RunGroups {
    run: u64,
    groups: usize,
}

impl Keyed for RunGroups {
    type Key = u64;

    fn key(&self) -> u64 {
        self.run
    }
}

impl Tally {
    /// Every reason, in order of precedence, why the log itself does not let the group leave now.
    pub fn reasons(&self) -> impl Iterator<Item = GroupReason> + use<> {
        let holds = [
            (self.request, GroupReason::CurrentRequest),
            (self.envelope, GroupReason::SystemEnvelope),
            (self.open, GroupReason::UnresolvedToolCall),
            (self.held, GroupReason::Pinned),
        ];
        holds.into_iter().filter(|(n, _)| *n > 0).map(|(_, r)| r)
    }

    /// Its messages in the window.
    pub fn messages(&self) -> usize {
        wide(self.visible)
    }

    /// Whether it stands aside and is not counted: all its messages in the window are envelope or
    /// notices.
    pub const fn aside(&self) -> bool {
        self.envelope.saturating_add(self.notices) >= self.visible
    }

    /// Whether all its messages in the window are notices.
    pub const fn is_notice(&self) -> bool {
        self.notices >= self.visible
    }

    const fn is_empty(&self) -> bool {
        self.visible == 0 && self.open == 0 && self.held == 0
    }

    fn counters(&mut self) -> [&mut u32; 7] {
        [
            &mut self.visible,
            &mut self.envelope,
            &mut self.request,
            &mut self.held,
            &mut self.open,
            &mut self.notices,
            &mut self.late,
        ]
    }

    fn add(&mut self, share: Share) {
        for (sum, n) in self.counters().into_iter().zip(share.0.map(u32::from)) {
            *sum = sum.saturating_add(n);
        }
    }

    fn take(&mut self, share: Share) {
        for (sum, n) in self.counters().into_iter().zip(share.0.map(u32::from)) {
            *sum = sum.saturating_sub(n);
        }
    }
}

fn wide(messages: u32) -> usize {
    usize::try_from(messages).unwrap_or(usize::MAX)
}

/// Spreads places of messages and their parts, which nobody else chooses, over a table.
pub(super) type ByPlace = BuildHasherDefault<PlaceHasher>;

/// The hasher of [`ByPlace`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(u64::try_from(n).unwrap_or(u64::MAX));
    }

    fn write_u64(&mut self, n: u64) {
        let mixed = (self.0 ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The groups of the window, by what strategies ask of them.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupIndex {
    /// By a group's root; only of groups with something to tell. Apart from the table, which has room
    /// for twice as many when it has grown.
    tallies: HashMap<usize, Box<Tally>, ByPlace>,
    /// Groups that are counted.
    outside: Ordered<GroupAt>,
    /// Groups that stand aside: they are all envelope, or notices.
    aside: BTreeMap<Rank, usize>,
    /// Of them, notices.
    notices: BTreeMap<Rank, usize>,
    /// Of those that are counted, groups that hold what came later than where it stands.
    late: BTreeMap<Rank, usize>,
    /// Tool outputs.
    pub outputs: Outputs,
    /// Groups that nothing in the log holds.
    free: Ordered<GroupAt>,
    runs: Ordered<RunGroups>,
    outside_messages: usize,
    /// Messages that changed since the index was last settled.
    changed: Vec<usize>,
    /// Their groups, while it is settled.
    roots: Vec<usize>,
    /// The messages that changed, in the order of the changes; those before `forgotten` are no longer
    /// listed.
    touched: Vec<usize>,
    forgotten: usize,
}

impl GroupIndex {
    /// A message changed: its group is looked at again when the step is over.
    pub fn note(&mut self, message: usize) {
        self.changed.push(message);
    }

    /// Groups `a` and `b` become one, named `root`.
    pub fn join(&mut self, [a, b]: [usize; 2], root: usize) {
        let mut joined = Tally::default();
        for group in [a, b] {
            let Some(tally) = self.tallies.remove(&group) else {
                continue;
            };
            self.unfile(tally.filed);
            let sums = [
                tally.visible,
                tally.envelope,
                tally.request,
                tally.held,
                tally.open,
                tally.notices,
                tally.late,
            ];
            for (sum, n) in joined.counters().into_iter().zip(sums) {
                *sum = sum.saturating_add(n);
            }
            joined.newest = joined.newest.max(tally.newest);
        }
        self.tallies.insert(root, Box::new(joined));
    }

    fn unfile(&mut self, filed: Option<Filed>) {
        let Some(filed) = filed else { return };
        if filed.free {
            self.free.remove(filed.rank);
        }
        let Some(messages) = filed.outside else {
            self.aside.remove(&filed.rank);
            self.notices.remove(&filed.rank);
            return;
        };
        self.outside.remove(filed.rank);
        if filed.late {
            self.late.remove(&filed.rank);
        }
        self.outside_messages = self.outside_messages.saturating_sub(wide(messages));
        if let Some(run) = self.runs.find_mut(filed.run) {
            run.groups = run.groups.saturating_sub(1);
            if run.groups == 0 {
                self.runs.remove(filed.run);
            }
        }
    }

    fn file(&mut self, root: usize, filed: Filed) {
        let rank = filed.rank;
        if filed.free {
            self.free.insert(GroupAt { rank, root });
        }
        let Some(messages) = filed.outside else {
            self.aside.insert(rank, root);
            if filed.notice {
                self.notices.insert(rank, root);
            }
            return;
        };
        self.outside.insert(GroupAt { rank, root });
        if filed.late {
            self.late.insert(rank, root);
        }
        self.outside_messages = self.outside_messages.saturating_add(wide(messages));
        match self.runs.find_mut(filed.run) {
            Some(run) => run.groups = run.groups.saturating_add(1),
            None => self.runs.insert(RunGroups {
                run: filed.run,
                groups: 1,
            }),
        }
    }

    /// How far changes have been listed.
    pub fn touched_until(&self) -> usize {
        self.forgotten.saturating_add(self.touched.len())
    }

    /// The messages that changed since; `None` when that is no longer known.
    pub fn touched_since(&self, since: usize) -> Option<&[usize]> {
        self.touched.get(since.checked_sub(self.forgotten)?..)
    }

    /// Whoever lags so far behind that more changed than there are messages in the window asks all
    /// groups: that costs no more than what it missed.
    fn forget(&mut self, messages: usize) {
        if self.touched.len() > messages.saturating_mul(4).max(1024) {
            self.forgotten = self.touched_until();
            self.touched.clear();
        }
    }

    /// The groups that nothing in the log holds, oldest first.
    pub fn free(&self) -> impl Iterator<Item = GroupAt> {
        self.free.iter().copied()
    }

    /// All groups whose ranks lie in a range, in no particular order.
    pub fn within(&self, from: Rank, before: Rank) -> impl Iterator<Item = GroupAt> {
        let outside = self.outside.from(from).copied();
        let outside = outside.take_while(move |g| g.rank < before);
        let aside = self.aside.range(from..before.max(from));
        outside.chain(aside.map(|(&rank, &root)| GroupAt { rank, root }))
    }

    /// All groups.
    pub fn all(&self) -> impl Iterator<Item = GroupAt> {
        let aside = self.aside.iter();
        let aside = aside.map(|(&rank, &root)| GroupAt { rank, root });
        self.outside.iter().copied().chain(aside)
    }

    /// The groups that are counted, in order.
    pub const fn counted(&self) -> &Ordered<GroupAt> {
        &self.outside
    }

    /// Of those that are counted and stand before a rank, groups that hold what came later than
    /// where it stands.
    pub fn late_before(&self, rank: Rank) -> impl Iterator<Item = GroupAt> {
        let late = self.late.range(..rank);
        late.map(|(&rank, &root)| GroupAt { rank, root })
    }

    /// The notices.
    pub fn notices(&self) -> impl Iterator<Item = GroupAt> {
        let notices = self.notices.iter();
        notices.map(|(&rank, &root)| GroupAt { rank, root })
    }

    /// Groups, messages and runs outside the envelope.
    pub const fn counts(&self) -> [usize; 3] {
        [self.outside.len(), self.outside_messages, self.runs.len()]
    }

    /// How many groups of a run there are, the envelope aside.
    pub fn of_run(&self, run: u64) -> usize {
        let at = self.runs.position(run).ok();
        at.and_then(|n| self.runs.get(n)).map_or(0, |r| r.groups)
    }

    /// The `n`-th newest group outside the envelope, from 1; the oldest where there are fewer.
    pub fn newest_group(&self, n: usize) -> Option<Rank> {
        let at = self.outside.len().saturating_sub(n);
        self.outside.get(at).map(|g| g.rank)
    }

    /// The `n`-th newest run with a group outside the envelope, from 1; the oldest where there are
    /// fewer.
    pub fn newest_run(&self, n: usize) -> Option<u64> {
        let at = self.runs.len().saturating_sub(n);
        self.runs.get(at).map(|r| r.run)
    }

    /// Whether all groups that stand aside stand before a rank.
    pub fn aside_ends_before(&self, rank: Rank) -> bool {
        self.aside.range(rank..).next().is_none()
    }

    /// What is known of a group.
    pub fn tally(&self, root: usize) -> Tally {
        self.tallies
            .get(&root)
            .map_or_else(Tally::default, |tally| **tally)
    }

    /// A group of the window.
    pub fn at(&self, root: usize) -> Option<GroupAt> {
        let filed = self.tallies.get(&root)?.filed?;
        let rank = filed.rank;
        Some(GroupAt { rank, root })
    }
}

impl Projection {
    /// The group of the window that a message belongs to.
    pub(super) fn group_at(&self, message: usize) -> Option<GroupAt> {
        self.index.at(self.groups.root(message))
    }

    /// A group's messages in the window, ascending by id.
    pub(super) fn visible_members(&self, root: usize) -> impl Iterator<Item = &MessageState> {
        let members = self.groups.members(root).iter();
        let messages = members.filter_map(|&i| self.messages.get(i));
        messages.filter(|m| m.visible())
    }

    /// The run that a place belongs to, from 1; 0 before the first.
    pub(super) fn run_of(&self, place: Seq) -> u64 {
        let runs = self.runs.partition_point(|r| *r <= place);
        u64::try_from(runs).unwrap_or(u64::MAX)
    }

    fn share(&self, message: &MessageState) -> Share {
        let visible = message.visible();
        let now = self.next_iteration();
        let first = message.forms.first();
        let parts = first.map_or(&[][..], |f| f.skeleton.parts.as_slice());
        let calls = parts.iter().any(|p| p.kind == PartKind::Call);
        let own = (message.id.seq(), 0)..=(message.id.seq(), u32::MAX);
        let flags = [
            visible,
            visible && self.in_envelope(message),
            visible && self.in_request(message),
            message.pinned || message.restored.is_some_and(|at| now <= at),
            calls && self.open_parts.range(own).next().is_some(),
            visible && message.notice,
            visible && message.is_late(),
        ];
        let output = if visible { largest_output(message) } else { 0 };
        Share(flags, output)
    }

    /// Brings the index up to date with the messages that a step changed.
    pub(super) fn settle_groups(&mut self) {
        let mut changed = std::mem::take(&mut self.index.changed);
        changed.sort_unstable();
        changed.dedup();
        let mut roots = std::mem::take(&mut self.index.roots);
        for &message in &changed {
            roots.extend(self.retally(message));
        }
        roots.sort_unstable();
        roots.dedup();
        for &root in &roots {
            self.refile(root);
        }
        self.index.touched.extend(&changed);
        self.index.forget(self.items.len());
        // The allocations are used again.
        changed.clear();
        roots.clear();
        (self.index.changed, self.index.roots) = (changed, roots);
    }

    /// Counts a message as it is now; gives its group.
    fn retally(&mut self, index: usize) -> Option<usize> {
        let root = self.groups.root(index);
        let share = self.share(self.messages.get(index)?);
        let message = self.messages.get_mut(index)?;
        let before = std::mem::replace(&mut message.share, share);
        let rank = (message.place, message.id);
        if before.1 != share.1 {
            self.index.outputs.changed(rank, index, before.1, share.1);
        }
        let tally = self.index.tallies.entry(root).or_default();
        tally.take(before);
        tally.add(share);
        if message.visible() {
            tally.newest = tally.newest.max(Some(rank));
        }
        Some(root)
    }

    /// Lists a group anew.
    fn refile(&mut self, root: usize) {
        let mut tally = self.index.tally(root);
        let there = |rank: Rank| self.message(rank.1).is_some_and(MessageState::visible);
        if tally.visible == 0 {
            tally.newest = None;
        } else if !tally.newest.is_some_and(there) {
            let ranks = self.visible_members(root).map(|m| (m.place, m.id));
            tally.newest = ranks.max();
        }
        let filed = tally.newest.map(|rank| Filed {
            rank,
            run: self.run_of(rank.0),
            outside: (!tally.aside()).then_some(tally.visible),
            notice: tally.is_notice(),
            late: tally.late > 0,
            free: tally.reasons().next().is_none(),
        });
        if filed != tally.filed {
            self.index.unfile(tally.filed);
            if let Some(filed) = filed {
                self.index.file(root, filed);
            }
            tally.filed = filed;
        }
        if tally.is_empty() {
            self.index.tallies.remove(&root);
        } else {
            **self.index.tallies.entry(root).or_default() = tally;
        }
    }
}
