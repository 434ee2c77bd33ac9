//! Groups, and the one function that decides what becomes of them.

use std::collections::{BTreeMap, BTreeSet};

use super::decide::Model;
use super::fold::Moment;
use crate::log::{GroupReason, LeftReason, MessageId, Ranges, Reading, Role, Seq, Visited};

/// A group of the window.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its messages in the window, in window order.
    pub ids: Vec<u64>,
    /// The place of its newest message; groups are ordered by it.
    pub newest: u64,
    /// Whether it counts for nothing: it is all system envelope or notices.
    pub aside: bool,
    /// The run of its newest message, from 1; 0 before the first.
    pub run: usize,
}

impl Moment {
    /// The groups of the window: components over the edges between messages, in the order of their
    /// newest message's place.
    #[must_use]
    pub fn groups(&self) -> Vec<Group> {
        let mut names: BTreeMap<u64, u64> = self.messages.iter().map(|m| (m.id, m.id)).collect();
        loop {
            let before = names.clone();
            for m in &self.messages {
                for edge in &m.edges {
                    let (Some(a), Some(b)) = (names.get(&m.id), names.get(edge)) else {
                        continue;
                    };
                    let name = *a.min(b);
                    names.insert(m.id, name);
                    names.insert(*edge, name);
                }
            }
            if names == before {
                break;
            }
        }
        let mut members: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for id in &self.window {
            let name = names.get(id).copied().unwrap_or(*id);
            members.entry(name).or_default().push(*id);
        }
        let place = |id: &u64| self.get(*id).map_or(0, |m| m.place);
        let mut groups: Vec<Group> = members
            .into_values()
            .map(|ids| {
                let newest = ids.iter().map(place).max().unwrap_or(0);
                Group {
                    newest,
                    aside: ids.iter().all(|id| self.is_aside(*id)),
                    run: self.runs.iter().filter(|run| **run <= newest).count(),
                    ids,
                }
            })
            .collect();
        groups.sort_by_key(|g| g.newest);
        groups
    }

    /// Why the log itself does not let a group leave, the first in the order of precedence. What is
    /// paused, streaming or observed does not exist yet.
    pub(super) fn holds(&self, group: &Group) -> Option<GroupReason> {
        let any = |holds: &dyn Fn(u64) -> bool| group.ids.iter().any(|id| holds(*id));
        if any(&|id| self.in_request(id)) {
            return Some(GroupReason::CurrentRequest);
        }
        if any(&|id| self.in_envelope(id)) {
            return Some(GroupReason::SystemEnvelope);
        }
        if any(&|id| self.open.iter().any(|(message, _)| *message == id)) {
            return Some(GroupReason::UnresolvedToolCall);
        }
        // What was restored may not leave until one call has seen it.
        let calls = self.calls.len();
        let held = |id| {
            self.get(id)
                .is_some_and(|m| m.pinned || m.restored == Some(calls))
        };
        any(&held).then_some(GroupReason::Pinned)
    }

    /// Whether a group is a notice.
    pub(super) fn is_notice(&self, group: &Group) -> bool {
        let mut all = group.ids.iter().filter_map(|id| self.get(*id));
        all.all(|m| m.notice)
    }

    /// Message ids as ranges over every message ever logged.
    pub(super) fn ranges(&self, ids: &BTreeSet<u64>) -> Ranges {
        let mut ranges: Vec<(Seq, Seq)> = Vec::new();
        let mut before = false;
        for id in self.messages.iter().map(|m| m.id) {
            let named = ids.contains(&id);
            match ranges.last_mut().filter(|_| before) {
                Some((_, last)) if named => *last = Seq(id),
                _ if named => ranges.push((Seq(id), Seq(id))),
                _ => {}
            }
            before = named;
        }
        Ranges(ranges)
    }
}

/// What a group holds of a measure: units by name with their sizes. One that groups share goes only
/// with the last of them.
pub(super) type Units = Vec<(usize, u64)>;

/// What a strategy wants of the groups.
#[derive(Clone)]
pub(super) struct Wish {
    pub before: Reading,
    pub limit: u64,
    pub target: u64,
    /// Per group: what it holds of what is measured.
    pub units: Vec<Units>,
    pub keep: BTreeSet<usize>,
    pub head: BTreeSet<usize>,
    /// Groups that hold the newest result of a tool in use.
    pub pins: BTreeSet<usize>,
    /// The only groups that are asked; none: all of them.
    pub only: Option<BTreeSet<usize>>,
    /// Whether notices stay unless a new one takes their place, and whether one does.
    pub notice: bool,
    pub absorbs: bool,
    /// The messages that a summary was made of: of what could leave, nothing else does.
    pub sources: Option<BTreeSet<u64>>,
    /// Whether every group is asked, also when the target is met.
    pub ask_all: bool,
    pub reason: LeftReason,
}

/// What becomes of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Leaves(LeftReason),
    Refuses(GroupReason),
    NotNeeded,
}

impl Model {
    /// The guard: candidates from the oldest on until the target is met. A group that may not leave
    /// says the first reason that holds: the log's own, then the strategy's.
    pub(super) fn decide(&self, groups: &[Group], wish: &Wish) -> Vec<Fate> {
        let mut fates = vec![Fate::NotNeeded; groups.len()];
        if wish.absorbs {
            for (i, group) in groups.iter().enumerate() {
                if self.now.is_notice(group) && self.now.holds(group).is_none() {
                    set(&mut fates, i, Fate::Leaves(LeftReason::NoticeAbsorbed));
                }
            }
        }
        for (i, group) in groups.iter().enumerate() {
            let named = wish.only.as_ref().is_none_or(|only| only.contains(&i));
            if !named || matches!(fates.get(i), Some(Fate::Leaves(_))) {
                continue;
            }
            if !wish.ask_all && after(wish, &fates) <= wish.target {
                break;
            }
            let fate = match self.now.holds(group).or(self.kept(group, i, wish)) {
                Some(reason) => Fate::Refuses(reason),
                None => Fate::Leaves(wish.reason),
            };
            set(&mut fates, i, fate);
        }
        self.open_on_user(groups, wish, fates)
    }

    /// Why a strategy itself does not let a group leave.
    pub(super) fn kept(&self, group: &Group, at: usize, wish: &Wish) -> Option<GroupReason> {
        if wish.pins.contains(&at) {
            Some(GroupReason::LastToolResult)
        } else if wish.head.contains(&at) {
            Some(GroupReason::ProtectedHead)
        } else if wish.keep.contains(&at) || (wish.notice && self.now.is_notice(group)) {
            Some(GroupReason::InsideKeepWindow)
        } else {
            let made_of = |s: &BTreeSet<u64>| group.ids.iter().all(|id| s.contains(id));
            let later = wish.sources.as_ref().is_some_and(|s| !made_of(s));
            later.then_some(GroupReason::AboveBase)
        }
    }

    /// The window opens on a user message, the envelope aside: the newest groups of the cut are put
    /// back where the target still holds; else leading groups that nothing protects leave too; else
    /// rendering repairs.
    fn open_on_user(&self, groups: &[Group], wish: &Wish, fates: Vec<Fate>) -> Vec<Fate> {
        let cut = |f: &Fate| matches!(f, Fate::Leaves(_));
        // A summary is a user message.
        if wish.reason == LeftReason::Summarized {
            return fates;
        }
        if !fates.iter().any(cut) || self.opener(groups, &fates).is_none() {
            return fates;
        }
        let mut back = fates.clone();
        let newest_first = (0..groups.len()).rev();
        let absorbed = |i: &usize| fates.get(*i) == Some(&Fate::Leaves(LeftReason::NoticeAbsorbed));
        for i in newest_first.filter(|i| fates.get(*i).is_some_and(cut) && !absorbed(i)) {
            set(&mut back, i, Fate::Refuses(GroupReason::IllegalOpener));
            if after(wish, &back) > wish.target {
                break;
            }
            if self.opener(groups, &back).is_none() {
                return back;
            }
        }
        let mut more = fates.clone();
        while let Some(i) = self.opener(groups, &more) {
            let held = |g: &Group| self.now.holds(g).or(self.kept(g, i, wish));
            if groups.get(i).is_none_or(|g| held(g).is_some()) {
                return fates;
            }
            set(&mut more, i, Fate::Leaves(LeftReason::Opener));
        }
        more
    }

    /// The group of the message that the window would open on, where that is no user message.
    fn opener(&self, groups: &[Group], fates: &[Fate]) -> Option<usize> {
        let group_of = |id: &u64| groups.iter().position(|g| g.ids.contains(id));
        let window = self.now.window.iter();
        for id in window.filter(|id| !self.now.in_envelope(**id)) {
            let group = group_of(id)?;
            if matches!(fates.get(group), Some(Fate::Leaves(_))) {
                continue;
            }
            let user = self.now.get(*id).and_then(|m| m.skeletons.last());
            let user = user.is_some_and(|s| s.role == Role::User);
            return (!user).then_some(group);
        }
        None
    }

    /// What the guard demands of a visit by any strategy: groups leave whole, none that the log
    /// holds leaves, and one that refuses says the first reason that holds.
    pub(super) fn lawful(&self, groups: &[Group], visit: &Visited) -> Result<(), String> {
        let names = |ranges: &Ranges, id: u64| ranges.contains(MessageId(Seq(id)));
        for group in groups {
            let leaves = |id: &u64| visit.change.left.iter().any(|l| names(&l.messages, *id));
            let (some, all) = (group.ids.iter().any(leaves), group.ids.iter().all(leaves));
            let held = self.now.holds(group);
            let says = |id: &u64| visit.refused.iter().find(|r| names(&r.messages, *id));
            let said = group.ids.iter().find_map(says).map(|r| r.reason);
            let problem = if some != all {
                Some("left in part".to_owned())
            } else if some && held.is_some() {
                Some(format!("left though {held:?} holds it"))
            } else if said.is_some() && held.is_some() && said != held {
                Some(format!("refused as {said:?} though {held:?} comes first"))
            } else if some && said.is_some() {
                Some("left and refused".to_owned())
            } else {
                None
            };
            if let Some(problem) = problem {
                return Err(format!("the group {:?} {problem}", group.ids));
            }
        }
        Ok(())
    }
}

fn set(fates: &mut [Fate], at: usize, fate: Fate) {
    fates.get_mut(at).into_iter().for_each(|f| *f = fate);
}

/// How much some groups hold together.
pub(super) fn amount(units: &[Units], of: impl Fn(usize) -> bool) -> u64 {
    let those = units.iter().enumerate().filter(|(i, _)| of(*i));
    let held: BTreeMap<usize, u64> = those.flat_map(|(_, units)| units.iter().copied()).collect();
    held.into_values().fold(0, u64::saturating_add)
}

/// The measure of what remains.
pub(super) fn after(wish: &Wish, fates: &[Fate]) -> u64 {
    let stays = |i: usize| !matches!(fates.get(i), Some(Fate::Leaves(_)));
    let gone = amount(&wish.units, |_| true).saturating_sub(amount(&wish.units, stays));
    wish.before.amount.saturating_sub(gone)
}
