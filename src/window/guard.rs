//! The guard: the one function every proposal passes. It refuses by name.
//!
//! A strategy gives an order of candidates and a target; the guard walks them until the target is
//! met and accounts for every group: it leaves, it refuses, or the target was met without it. Where
//! candidates go oldest first, groups that something in the log holds are passed over without being
//! asked: they refuse all the same.

use std::collections::{BTreeMap, BTreeSet};

use crate::log::{GroupReason, LeftReason, MessageId, Role, Seq, Unit};

use super::index::{GroupAt, Rank};
use super::measure::Total;
use super::output::{Age, Expired};
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
    /// Whether it stands aside and is not counted: it is all system envelope, or a notice.
    pub aside: bool,
    /// The run its newest message belongs to, from 1; 0 before the first.
    pub run: u64,
    /// Its size in tokens, by the frame's method.
    pub tokens: u64,
}

/// In which order groups are asked to leave.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// All of them, the oldest first; costs those that leave.
    #[default]
    Oldest,
    /// Those whose lifetime is over, the oldest first; costs those. Each of them counts 1.
    Expired(Age),
    /// These (positions in the frame's groups); costs the window.
    Given(Vec<usize>),
}

impl FromIterator<usize> for Order {
    fn from_iter<I: IntoIterator<Item = usize>>(groups: I) -> Self {
        Self::Given(groups.into_iter().collect())
    }
}

/// What a strategy keeps: such groups refuse as `inside-keep-window`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Keep {
    /// Groups that hold one of the newest so many units, the envelope aside: groups, messages, or
    /// the groups of requests.
    Newest(u64, Unit),
    /// These (positions in the frame's groups); costs the window.
    Groups(BTreeSet<usize>),
}

impl FromIterator<usize> for Keep {
    fn from_iter<I: IntoIterator<Item = usize>>(groups: I) -> Self {
        Self::Groups(groups.into_iter().collect())
    }
}

/// How much of the measure goes when a group leaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sizes {
    /// What it holds of a unit: tokens by the frame's method, messages, or 1.
    Of(Unit),
    /// So much, per group of the frame; costs the window.
    Given(Vec<u64>),
}

/// What a strategy wants cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cut {
    /// Groups in the order in which they should leave.
    pub order: Order,
    /// What the strategy keeps.
    pub keep: Keep,
    /// How many of the first messages of the conversation the strategy keeps: groups that hold one
    /// refuse as `protected-head`.
    pub head: u64,
    /// How much of the measure goes when a group leaves.
    pub sizes: Sizes,
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
    /// The newest result of so many tools in use is held, as `last-tool-result`.
    pub pin_results: u64,
    /// What becomes of notices.
    pub notices: Notices,
    /// Only groups all of whose messages are named leave; any other that could refuses as
    /// `above-base`: what leaves was decided on an earlier head. None: all of them may.
    pub only: Option<BTreeSet<MessageId>>,
}

/// What a cut makes of notices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Notices {
    /// They are candidates like others, and none is written.
    #[default]
    Ordinary,
    /// They stay until one absorbs them; one is written where something leaves.
    Kept,
    /// They leave, because a new one takes their place.
    Absorbed,
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

/// Behind every group.
pub(super) const END: Rank = (Seq(u64::MAX), MessageId(Seq(u64::MAX)));
/// Before every group.
pub(super) const START: Rank = (Seq(0), MessageId(Seq(0)));

/// The groups a strategy keeps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Kept {
    /// Those from here on, the envelope aside.
    From(Rank),
    /// Those with these roots.
    Roots(BTreeSet<usize>),
}

impl Kept {
    fn holds(&self, group: GroupAt) -> bool {
        match self {
            Self::From(rank) => *rank <= group.rank,
            Self::Roots(roots) => roots.contains(&group.root),
        }
    }
}

impl Default for Kept {
    fn default() -> Self {
        Self::From(END)
    }
}

/// The groups that were asked.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    /// Those before here.
    Before(Rank),
    /// Those with these roots.
    Roots(BTreeSet<usize>),
}

impl Default for Asked {
    fn default() -> Self {
        Self::Before(START)
    }
}

impl Asked {
    fn holds(&self, group: GroupAt) -> bool {
        match self {
            Self::Before(rank) => group.rank < *rank,
            Self::Roots(roots) => roots.contains(&group.root),
        }
    }
}

/// What the guard made of a cut.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    /// The groups that leave, in window order.
    pub(super) leaving: BTreeMap<Rank, (usize, LeftReason)>,
    /// Groups that were about to leave, and were put back for the window's opener.
    pub(super) put_back: BTreeMap<Rank, usize>,
    pub(super) asked: Asked,
    pub(super) kept: Kept,
    head: BTreeSet<usize>,
    /// Groups that hold the newest result of a tool in use.
    pub(super) pins: BTreeSet<usize>,
    spares_notices: bool,
    only: Option<BTreeSet<MessageId>>,
    /// Where only groups whose lifetime is over are asked: which those are.
    pub(super) expired: Option<Expired>,
    /// How many groups the guard looked at.
    looked: usize,
    /// The measure after.
    pub after: u64,
    /// By how much the target was missed; 0 when it was met.
    pub shortfall: u64,
}

impl Decision {
    /// What is said of groups that are asked and do not leave.
    pub(super) fn asking(asked: Asked, kept: Kept, pins: BTreeSet<usize>) -> Self {
        Self {
            asked,
            kept,
            pins,
            ..Self::default()
        }
    }

    /// Whether anything leaves.
    #[must_use]
    pub fn frees(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// How many groups the guard looked at to come to it.
    #[must_use]
    pub const fn looked(&self) -> usize {
        self.looked
    }

    pub(super) fn fate(&self, state: &Projection, group: GroupAt) -> Fate {
        if let Some((_, reason)) = self.leaving.get(&group.rank) {
            return Fate::Leaves(*reason);
        }
        if self.put_back.contains_key(&group.rank) {
            return Fate::Refuses(GroupReason::IllegalOpener);
        }
        if !self.asked.holds(group) || !self.is_expired(state, group) {
            return Fate::NotNeeded;
        }
        let refusal = self.refusal(state, group);
        refusal.map_or(Fate::NotNeeded, Fate::Refuses)
    }

    /// Whether a group is asked as far as lifetimes matter.
    fn is_expired(&self, state: &Projection, group: GroupAt) -> bool {
        let aside = || state.index.tally(group.root).aside();
        let expired = self.expired.as_ref();
        expired.is_none_or(|expired| expired.holds(group) && !aside())
    }

    /// The first reason why a group may not leave, if one holds.
    pub(super) fn refusal(&self, state: &Projection, group: GroupAt) -> Option<GroupReason> {
        let tally = state.index.tally(group.root);
        let kept = self.kept.holds(group) || (self.spares_notices && tally.is_notice());
        let reasons = [
            (self.pins.contains(&group.root), GroupReason::LastToolResult),
            (self.head.contains(&group.root), GroupReason::ProtectedHead),
            (kept, GroupReason::InsideKeepWindow),
        ];
        let of_strategy = reasons.into_iter().find(|(holds, _)| *holds);
        let held = tally.reasons().next();
        let held = held.or_else(|| of_strategy.map(|(_, reason)| reason));
        held.or_else(|| {
            self.came_later(state, group)
                .then_some(GroupReason::AboveBase)
        })
    }

    /// Whether a group holds something that was not there when it was decided what leaves.
    fn came_later(&self, state: &Projection, group: GroupAt) -> bool {
        let Some(only) = &self.only else { return false };
        let mut members = state.visible_members(group.root);
        members.any(|m| !only.contains(&m.id))
    }

    /// Whether `pin-results` alone holds some group that was asked.
    #[must_use]
    pub fn pins_hold(&self, state: &Projection) -> bool {
        !self.pinned_messages(state).is_empty()
    }

    /// The messages of the groups that were asked and that `pin-results` alone holds, ascending.
    #[must_use]
    pub fn pinned_messages(&self, state: &Projection) -> BTreeSet<MessageId> {
        let groups = self.pins.iter().filter_map(|root| state.index.at(*root));
        let asked = groups.filter(|g| self.asked.holds(*g) && self.is_expired(state, *g));
        let held = asked.filter(|g| self.refusal(state, *g) == Some(GroupReason::LastToolResult));
        held.flat_map(|g| state.visible_members(g.root).map(|m| m.id))
            .collect()
    }

    /// The messages that leave, in no particular order.
    pub fn leaving<'a>(
        &'a self,
        state: &'a Projection,
    ) -> impl Iterator<Item = (LeftReason, &'a MessageState)> {
        let groups = self.leaving.values();
        groups.flat_map(|&(root, reason)| {
            let members = state.visible_members(root);
            members.map(move |message| (reason, message))
        })
    }
}

impl Projection {
    /// The groups of the window now, in the order of their newest message's place. `tokens` gives
    /// each item's size.
    #[must_use]
    pub fn group_views(&self, tokens: &[u64]) -> Vec<GroupView> {
        let mut by_root: BTreeMap<usize, Vec<(usize, &MessageState)>> = BTreeMap::new();
        for (position, item) in self.items.iter().enumerate() {
            if let Some(message) = self.messages.get(item.index) {
                let root = self.groups.root(item.index);
                by_root.entry(root).or_default().push((position, message));
            }
        }
        let views = by_root.into_values();
        let mut views: Vec<GroupView> = views.map(|m| self.group_view(&m, tokens)).collect();
        views.sort_unstable_by_key(|g| (g.newest, g.positions.last().copied()));
        views
    }

    fn group_view(&self, members: &[(usize, &MessageState)], tokens: &[u64]) -> GroupView {
        let messages = || members.iter().map(|(_, m)| *m);
        let newest = messages().map(|m| m.place).max().unwrap_or_default();
        let sizes = members.iter().filter_map(|(p, _)| tokens.get(*p).copied());
        GroupView {
            messages: messages().map(|m| m.id).collect(),
            newest,
            aside: messages().all(|m| m.notice || self.in_envelope(m)),
            run: self.run_of(newest),
            tokens: sizes.fold(0, u64::saturating_add),
            positions: members.iter().map(|(p, _)| *p).collect(),
        }
    }

    /// Every reason, in order of precedence, why the log itself does not let a group leave now.
    #[must_use]
    pub fn holds(&self, group: &GroupView) -> Vec<GroupReason> {
        let root = self.root_of(group);
        root.map_or_else(Vec::new, |r| self.index.tally(r).reasons().collect())
    }

    fn root_of(&self, group: &GroupView) -> Option<usize> {
        let first = group.messages.first()?;
        Some(self.groups.root(self.index_of(first.seq())?))
    }

    /// How many units the window holds outside the envelope: groups, messages or requests.
    #[must_use]
    pub fn count_outside(&self, unit: Unit) -> u64 {
        let [groups, messages, requests] = self.index.counts();
        let counted = match unit {
            Unit::Message => messages,
            Unit::Request => requests,
            Unit::Group | Unit::Token | Unit::Byte => groups,
        };
        u64::try_from(counted).unwrap_or(u64::MAX)
    }

    /// Where the groups begin that hold one of the newest so many units.
    fn newest_from(&self, count: u64, unit: Unit) -> Rank {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count == 0 {
            return END;
        }
        let from = match unit {
            Unit::Message => self.newest_message(count),
            Unit::Request => self.index.newest_run(count).map(|run| {
                let run = usize::try_from(run).ok();
                let begins = run.and_then(|run| self.runs.get(run.checked_sub(1)?));
                begins.map_or(START, |seq| (*seq, MessageId(Seq(0))))
            }),
            Unit::Group | Unit::Token | Unit::Byte => self.index.newest_group(count),
        };
        from.unwrap_or(END)
    }

    /// The `count`-th newest message of a group outside the envelope; the oldest where there are
    /// fewer.
    fn newest_message(&self, count: usize) -> Option<Rank> {
        let [_, messages, _] = self.index.counts();
        let at = self.items.len().checked_sub(count.min(messages))?;
        let rank = |item: &super::view::Item| (item.place, item.id);
        let from = self.items.get(at).map(rank)?;
        if self.index.aside_ends_before(from) {
            return Some(from);
        }
        // The envelope reaches into the newest messages: there was no question yet.
        let envelope = |i: &&super::view::Item| {
            let tally = self.index.tally(self.groups.root(i.index));
            !tally.aside()
        };
        let newest = self.items.iter().rev().filter(envelope);
        newest.take(count).last().map(rank)
    }

    /// The roots of the groups that hold one of the first messages of the conversation, while it is
    /// in the window.
    fn head_roots(&self, head: u64) -> BTreeSet<usize> {
        if head == 0 {
            return BTreeSet::new();
        }
        let head = usize::try_from(head).unwrap_or(usize::MAX);
        let first = self.messages.iter().take(head).enumerate();
        let visible = first.filter(|(_, m)| m.visible());
        visible.map(|(i, _)| self.groups.root(i)).collect()
    }

    /// The groups that hold the newest final result of a tool that was used in the newest run: of so
    /// many of them, the newest first, as the strategy does not keep anyway.
    pub(super) fn pinned_results(&self, count: u64, kept: &Kept) -> BTreeSet<usize> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let Some(run) = self.run().filter(|_| count > 0) else {
            return BTreeSet::new();
        };
        let results = self.answered.values().copied();
        let there = |index: usize| {
            let message = self.messages.get(index)?;
            let in_use = message.visible() && message.id.seq() >= run;
            self.group_at(index).filter(|_| in_use)
        };
        let groups: BTreeMap<Rank, usize> = results
            .filter_map(there)
            .filter(|group| !kept.holds(*group))
            .map(|group| (group.rank, group.root))
            .collect();
        groups.into_values().rev().take(count).collect()
    }

    /// How many units of the head a strategy keeps beside what it keeps of the newest.
    #[must_use]
    pub fn head_beside(&self, head: u64, keep: u64, unit: Unit) -> u64 {
        let from = self.newest_from(keep, unit);
        let roots = self.head_roots(head).into_iter();
        let groups = roots.filter_map(|root| self.index.at(root));
        let beside = groups.filter(|g| g.rank < from && !self.index.tally(g.root).aside());
        let counted = match unit {
            Unit::Message => beside
                .map(|g| self.index.tally(g.root).messages())
                .fold(0, usize::saturating_add),
            Unit::Request => {
                let runs: BTreeSet<u64> = beside.map(|g| self.run_of(g.rank.0)).collect();
                runs.len()
            }
            Unit::Group | Unit::Token | Unit::Byte => beside.count(),
        };
        u64::try_from(counted).unwrap_or(u64::MAX)
    }
}

/// Walks a cut through the guard. `tokens` says how tokens are counted; `groups` gives the groups
/// that positions of the cut name.
#[must_use]
pub fn decide<'g>(
    state: &Projection,
    cut: &Cut,
    tokens: Option<&Total>,
    groups: &dyn Fn() -> &'g [GroupView],
) -> Decision {
    let root = |g: usize| state.root_of(groups().get(g)?);
    let kept = match &cut.keep {
        Keep::Newest(count, unit) => Kept::From(state.newest_from(*count, *unit)),
        Keep::Groups(kept) => Kept::Roots(kept.iter().filter_map(|g| root(*g)).collect()),
    };
    let expired = match &cut.order {
        Order::Expired(age) => Some(state.over_age(*age)),
        Order::Oldest | Order::Given(_) => None,
    };
    let sizes = match &cut.sizes {
        _ if expired.is_some() => Sized::Expired,
        Sizes::Of(unit) => Sized::Of(*unit, tokens),
        Sizes::Given(sizes) => {
            let named = sizes.iter().enumerate();
            Sized::Roots(named.filter_map(|(g, n)| Some((root(g)?, *n))).collect())
        }
    };
    let mut walk = Walk {
        state,
        cut,
        sizes,
        gone: BTreeMap::new(),
        decision: Decision {
            pins: state.pinned_results(cut.pin_results, &kept),
            kept,
            head: state.head_roots(cut.head),
            spares_notices: cut.notices != Notices::Ordinary,
            only: cut.only.clone(),
            expired,
            after: cut.before,
            ..Decision::default()
        },
    };
    if cut.notices == Notices::Absorbed {
        walk.absorb();
    }
    match &cut.order {
        Order::Oldest => walk.ask_oldest(),
        Order::Expired(_) => walk.ask_expired(),
        Order::Given(order) => {
            let order = order.iter().filter_map(|g| state.index.at(root(*g)?));
            walk.ask_given(order);
        }
    }
    // A summary opens a window as well as what it stands for.
    if walk.decision.frees() && cut.reason != LeftReason::Summarized {
        walk.open_legally();
    }
    let after = walk.decision.after;
    walk.decision.shortfall = after.saturating_sub(cut.target);
    walk.decision
}

/// [`Sizes`] by the groups' roots.
enum Sized<'a> {
    Of(Unit, Option<&'a Total>),
    /// 1 for each group whose lifetime is over.
    Expired,
    Roots(BTreeMap<usize, u64>),
}

struct Walk<'a> {
    state: &'a Projection,
    cut: &'a Cut,
    sizes: Sized<'a>,
    /// Per run, where sizes are those of runs: how many of its groups leave.
    gone: BTreeMap<u64, usize>,
    decision: Decision,
}

impl Walk<'_> {
    fn met(&self) -> bool {
        !self.cut.ask_all && self.decision.after <= self.cut.target
    }

    /// Asks all groups, oldest first. Those that something holds refuse: only the free are looked
    /// at, and none behind what is kept.
    fn ask_oldest(&mut self) {
        if self.met() {
            return;
        }
        let state = self.state;
        for group in state.index.free() {
            if matches!(&self.decision.kept, Kept::From(rank) if *rank <= group.rank) {
                break;
            }
            self.ask(group, self.cut.reason);
            if self.met() {
                self.decision.asked = Asked::Before(just_behind(group.rank));
                return;
            }
        }
        self.decision.asked = Asked::Before(END);
    }

    /// Notices leave for a new one.
    fn absorb(&mut self) {
        for group in self.state.index.notices() {
            if self
                .state
                .index
                .tally(group.root)
                .reasons()
                .next()
                .is_none()
            {
                let leaving = (group.root, LeftReason::NoticeAbsorbed);
                self.decision.leaving.insert(group.rank, leaving);
                let after = self.decision.after.saturating_sub(self.size(group));
                self.decision.after = after;
            }
        }
    }

    /// Asks all groups whose lifetime is over, oldest first: of those that something holds none is
    /// looked at.
    fn ask_expired(&mut self) {
        let until = self.decision.expired.as_ref().map_or(START, |e| e.until);
        let state = self.state;
        for group in state.index.free().take_while(|g| g.rank < until) {
            if self.decision.is_expired(state, group) {
                self.ask(group, self.cut.reason);
            }
        }
        self.decision.asked = Asked::Before(until);
    }

    fn ask_given(&mut self, order: impl Iterator<Item = GroupAt>) {
        let mut asked = BTreeSet::new();
        for group in order {
            if self.met() {
                break;
            }
            if asked.insert(group.root) {
                self.ask(group, self.cut.reason);
            }
        }
        self.decision.asked = Asked::Roots(asked);
    }

    /// Lets a group leave, unless something holds it.
    fn ask(&mut self, group: GroupAt, reason: LeftReason) {
        let decision = &mut self.decision;
        decision.looked = decision.looked.saturating_add(1);
        let leaves = decision.leaving.contains_key(&group.rank);
        if leaves || decision.refusal(self.state, group).is_some() {
            return;
        }
        let leaving = (group.root, reason);
        decision.leaving.insert(group.rank, leaving);
        if self.cut.by_run && !self.state.index.tally(group.root).aside() {
            let run = self.state.run_of(group.rank.0);
            let gone = self.gone.entry(run).or_default();
            *gone = gone.saturating_add(1);
        }
        if !self.cut.by_run || self.remaining(group) == 0 {
            let after = self.decision.after.saturating_sub(self.size(group));
            self.decision.after = after;
        }
    }

    /// The remaining groups of a group's run.
    fn remaining(&self, group: GroupAt) -> usize {
        let run = self.state.run_of(group.rank.0);
        let gone = self.gone.get(&run).copied().unwrap_or(0);
        self.state.index.of_run(run).saturating_sub(gone)
    }

    fn size(&self, group: GroupAt) -> u64 {
        let aside = self.state.index.tally(group.root).aside();
        match &self.sizes {
            Sized::Roots(sizes) => sizes.get(&group.root).copied().unwrap_or(0),
            Sized::Of(Unit::Token | Unit::Byte, tokens) => {
                let members = self.state.visible_members(group.root);
                let sizes = members.map(|m| tokens.map_or(0, |t| t.size(m)));
                sizes.fold(0, u64::saturating_add)
            }
            Sized::Expired => u64::from(self.decision.is_expired(self.state, group)),
            Sized::Of(..) if aside => 0,
            Sized::Of(Unit::Message, _) => {
                let messages = self.state.index.tally(group.root).messages();
                u64::try_from(messages).unwrap_or(u64::MAX)
            }
            Sized::Of(Unit::Group | Unit::Request, _) => 1,
        }
    }

    /// The measure with a group put back, where the target holds with it.
    fn with_back(&self, group: GroupAt) -> Option<u64> {
        let size = if !self.cut.by_run || self.remaining(group) == 0 {
            self.size(group)
        } else {
            0
        };
        let after = self.decision.after.saturating_add(size);
        (after <= self.cut.target).then_some(after)
    }

    /// Puts a group back where the target holds with it; says whether it did.
    fn gives_back(&mut self, group: GroupAt) -> bool {
        let Some(after) = self.with_back(group) else {
            return false;
        };
        self.decision.after = after;
        let counted = !self.state.index.tally(group.root).aside();
        let run = counted.then(|| self.state.run_of(group.rank.0));
        if let Some(gone) = run.and_then(|run| self.gone.get_mut(&run)) {
            *gone = gone.saturating_sub(1);
        }
        self.decision.leaving.remove(&group.rank);
        self.decision.put_back.insert(group.rank, group.root);
        true
    }

    /// Makes the window open on a user message: by putting back the newest groups of the cut where
    /// the target still holds, else by letting leading unprotected groups leave too. Where neither
    /// helps, rendering repairs.
    fn open_legally(&mut self) {
        let Some((at, leader, false)) = self.opener(START) else {
            return;
        };
        // What is tried may have to be undone; mostly it can be told that there is nothing to try.
        let newest = (self.decision.leaving.iter().rev())
            .find(|(_, (_, reason))| *reason != LeftReason::NoticeAbsorbed);
        let newest = newest.map(|(&rank, &(root, _))| GroupAt { rank, root });
        if newest.is_some_and(|group| self.with_back(group).is_some()) {
            let before = (self.decision.clone(), self.gone.clone());
            if self.put_back(at) {
                return;
            }
            (self.decision, self.gone) = before;
        }
        if self.decision.fate(self.state, leader) == Fate::NotNeeded {
            let before = (self.decision.clone(), self.gone.clone());
            if !self.let_leaders_go() {
                (self.decision, self.gone) = before;
            }
        }
    }

    /// What the window opens on from here on: the first message outside the envelope whose group
    /// remains, its group, and whether a provider takes it as the opener.
    fn opener(&self, from: Rank) -> Option<(Rank, GroupAt, bool)> {
        self.state.items.from(from).find_map(|item| {
            let message = self.state.messages.get(item.index)?;
            let group = self.state.group_at(item.index)?;
            let remains = !self.decision.leaving.contains_key(&group.rank);
            let rank = (message.place, message.id);
            (remains && !self.state.in_envelope(message)).then(|| (rank, group, opens(message)))
        })
    }

    /// The first message of a group outside the envelope.
    fn first_of(&self, group: GroupAt) -> Option<(Rank, bool)> {
        let members = self.state.visible_members(group.root);
        let outside = members.filter(|m| !self.state.in_envelope(m));
        let ranks = outside.map(|m| ((m.place, m.id), opens(m)));
        ranks.min_by_key(|(rank, _)| *rank)
    }

    fn put_back(&mut self, opener: Rank) -> bool {
        let newest_first: Vec<GroupAt> = (self.decision.leaving.iter().rev())
            .filter(|(_, (_, reason))| *reason != LeftReason::NoticeAbsorbed)
            .map(|(&rank, &(root, _))| GroupAt { rank, root })
            .collect();
        let mut opener = Some((opener, false));
        for group in newest_first {
            if !self.gives_back(group) {
                return false;
            }
            let own = self.first_of(group);
            opener = [opener, own].into_iter().flatten().min_by_key(|(r, _)| *r);
            if opener.is_some_and(|(_, legal)| legal) {
                return true;
            }
        }
        false
    }

    fn let_leaders_go(&mut self) -> bool {
        let mut from = START;
        while let Some((at, group, legal)) = self.opener(from) {
            if legal {
                return true;
            }
            if self.decision.fate(self.state, group) != Fate::NotNeeded {
                return false;
            }
            self.ask(group, LeftReason::Opener);
            if !self.decision.leaving.contains_key(&group.rank) {
                return false;
            }
            from = at;
        }
        true
    }
}

/// Whether a provider takes a message as a window's opener.
fn opens(message: &MessageState) -> bool {
    message.skeleton().is_some_and(|s| s.role == Role::User)
}

/// The first rank behind this one.
const fn just_behind(rank: Rank) -> Rank {
    (rank.0, MessageId(rank.1.seq().next()))
}
