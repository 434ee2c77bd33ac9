//! Tool output in the window: where it is, how large, how old, and which of it may get a smaller
//! form. Kept in order while entries are folded, so that a look costs what it finds.

use std::collections::{BTreeMap, BTreeSet};

use crate::log::{LeftReason, MessageId, PartKind, PartSkeleton, Seq};

use super::guard::{Asked, Decision, END, Kept};
use super::index::{GroupAt, Rank};
use super::ordered::Ordered;
use super::state::{Fact, MessageState, Projection};

/// Outputs of fewer bytes are not worth a marker: it would hardly be smaller.
pub const OUTPUT_BYTES_MIN: u64 = 256;

/// What a lifetime is counted in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AgeUnit {
    /// Calls that saw it.
    #[default]
    Call,
    /// Entries filed since.
    Entry,
    /// Seconds, by the times that entries report.
    Time,
}

/// A lifetime.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Age {
    /// How long; at least 1.
    pub after: u64,
    /// In what.
    pub unit: AgeUnit,
}

/// Tool outputs of the window by place and by size.
#[derive(Clone, Debug, Default)]
pub(super) struct Outputs {
    by_rank: BTreeMap<Rank, usize>,
    by_size: BTreeSet<(u64, Rank)>,
}

impl Outputs {
    /// The largest output of a message changed its size; 0: there is none.
    pub fn changed(&mut self, rank: Rank, message: usize, before: u64, now: u64) {
        if before > 0 {
            self.by_rank.remove(&rank);
            self.by_size.remove(&(before, rank));
        }
        if now > 0 {
            self.by_rank.insert(rank, message);
            self.by_size.insert((now, rank));
        }
    }
}

/// The bytes of the largest output that a message shows; 0 where there is none worth a smaller form.
pub(super) fn largest_output(message: &MessageState) -> u64 {
    let Some(form) = message.form() else { return 0 };
    if form.reason == Some(LeftReason::Cleared) {
        return 0;
    }
    let outputs = form.skeleton.parts.iter().filter(|p| is_output(p));
    let largest = outputs.map(|p| p.bytes).max().unwrap_or(0);
    if largest < OUTPUT_BYTES_MIN {
        return 0;
    }
    largest
}

/// Whether a part is output of a tool that a client ran. What the provider ran itself is bound to
/// the message it stands in.
fn is_output(part: &PartSkeleton) -> bool {
    part.kind == PartKind::Result && !part.is(PartSkeleton::NATIVE)
}

/// The groups whose lifetime is over: those that are counted and stand before a rank, but for some
/// that came later than where they stand.
#[derive(Clone, Debug, Default)]
pub(super) struct Expired {
    pub until: Rank,
    pub young: BTreeSet<usize>,
    count: usize,
}

impl Expired {
    pub fn holds(&self, group: GroupAt) -> bool {
        group.rank < self.until && !self.young.contains(&group.root)
    }
}

/// How many come before the first of which something does not hold; it holds of none behind that.
fn first_that_is_not(groups: &Ordered<GroupAt>, holds: impl Fn(&GroupAt) -> bool) -> usize {
    let (mut from, mut to) = (0, groups.len());
    while from < to {
        let middle = from.midpoint(to);
        if groups.get(middle).is_some_and(&holds) {
            from = middle.saturating_add(1);
        } else {
            to = middle;
        }
    }
    from
}

/// Which tool outputs a strategy gives a smaller form.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// Those larger than this, in bytes.
    pub larger_than: u64,
    /// Those of groups that are as old.
    pub age: Option<Age>,
    /// Not those of these tools.
    pub except: Vec<String>,
    /// Not those of the newest so many groups that hold one.
    pub keep: u64,
    /// Not the newest result of so many tools in use.
    pub pin_results: u64,
}

/// What the guard says of the outputs that a strategy wants smaller.
#[derive(Clone, Debug)]
pub struct Smaller {
    /// The messages that may get a smaller form, in window order, with the parts that are wanted.
    pub messages: Vec<(MessageId, Vec<usize>)>,
    /// How many messages hold what is wanted, those that refuse included.
    pub wanted: u64,
    /// Which groups refuse.
    pub decision: Decision,
}

impl Projection {
    /// How long a message has been in the window, by what happened since it entered; `None` where
    /// the times do not say.
    fn age_since(&self, entered: Fact, unit: AgeUnit) -> Option<u64> {
        match unit {
            AgeUnit::Call => Some(self.next_iteration().0.saturating_sub(entered.iteration.0)),
            AgeUnit::Entry => Some(self.head?.seq.0.saturating_sub(entered.seq.0)),
            AgeUnit::Time => {
                let passed = self.head?.at?.0.checked_sub(entered.at?.0)?;
                u64::try_from(passed).ok().map(|micros| micros / 1_000_000)
            }
        }
    }

    /// Whether what was logged with this entry, and so whatever stands behind it, is too young.
    fn is_young(&self, place: Seq, age: Age) -> bool {
        let logged = self.message(MessageId(place)).map(|m| m.logged);
        let since = logged.and_then(|fact| self.age_since(fact, age.unit));
        since.is_some_and(|since| since < age.after)
    }

    /// Whether the youngest message of a group in the window is as old.
    fn is_over(&self, root: usize, age: Age) -> bool {
        let entered = |m: &MessageState| m.lives.last().map(|life| life.entered);
        let since = |fact| self.age_since(fact, age.unit);
        let mut members = self.visible_members(root);
        members.all(|m| {
            let age_of = entered(m).and_then(since);
            age_of.is_some_and(|n| n >= age.after)
        })
    }

    /// The groups whose lifetime is over, those that something holds included.
    pub(super) fn over_age(&self, age: Age) -> Expired {
        let groups = self.index.counted();
        let old = |g: &GroupAt| !self.is_young(g.rank.0, age);
        let count = match age.unit {
            // Times may go back: the first that is young is the end.
            AgeUnit::Time => groups.iter().take_while(|g| old(g)).count(),
            AgeUnit::Call | AgeUnit::Entry => first_that_is_not(groups, old),
        };
        let until = groups.get(count).map_or(END, |g| g.rank);
        let not_over = |g: &GroupAt| !self.is_over(g.root, age);
        let young: BTreeSet<usize> = match age.unit {
            AgeUnit::Time => {
                let all = groups.iter().take(count).copied();
                all.filter(not_over).map(|g| g.root).collect()
            }
            // Whatever came where it stands is as old as its place.
            AgeUnit::Call | AgeUnit::Entry => {
                let late = self.index.late_before(until);
                late.filter(not_over).map(|g| g.root).collect()
            }
        };
        Expired {
            until,
            count: count.saturating_sub(young.len()),
            young,
        }
    }

    /// How many groups' lifetime is over.
    #[must_use]
    pub fn count_over_age(&self, age: Age) -> u64 {
        u64::try_from(self.over_age(age).count).unwrap_or(u64::MAX)
    }

    /// The tool that a result part is of.
    fn tool_of<'a>(&'a self, message: &'a MessageState, part: usize) -> Option<&'a str> {
        let part = message.forms.first()?.skeleton.parts.get(part)?;
        let called = part.answers.and_then(|call| self.calls.get(&call));
        let name = called.map(|c| c.name.as_str()).or(part.name.as_deref());
        name.filter(|n| !n.is_empty())
    }

    /// The tools whose results a message holds, in order.
    pub fn tools_of<'a>(&'a self, message: &'a MessageState) -> impl Iterator<Item = &'a str> {
        let parts = message.forms.first().map(|f| f.skeleton.parts.as_slice());
        let parts = parts.unwrap_or_default().iter().enumerate();
        let results = parts.filter(|(_, p)| p.kind == PartKind::Result);
        results.filter_map(|(at, _)| self.tool_of(message, at))
    }

    /// The parts of a message that hold wanted output.
    fn wanted_parts(&self, message: &MessageState, wanted: &Wanted) -> Vec<usize> {
        let parts = message.skeleton().map(|s| s.parts.as_slice());
        let parts = parts.unwrap_or_default().iter().enumerate();
        let least = wanted.larger_than.saturating_add(1).max(OUTPUT_BYTES_MIN);
        let large = parts.filter(|(_, p)| is_output(p) && p.bytes >= least);
        let spared = |at: usize| {
            let tool = self.tool_of(message, at);
            tool.is_some_and(|tool| wanted.except.iter().any(|e| e == tool))
        };
        large.map(|(at, _)| at).filter(|at| !spared(*at)).collect()
    }

    /// The messages with wanted output, in window order.
    fn wanted(&self, wanted: &Wanted) -> Vec<(&MessageState, Vec<usize>)> {
        let outputs = &self.index.outputs;
        let of = |index: usize| {
            let message = self.messages.get(index)?;
            let parts = self.wanted_parts(message, wanted);
            (!parts.is_empty()).then_some((message, parts))
        };
        if wanted.larger_than >= OUTPUT_BYTES_MIN {
            let from = (wanted.larger_than.saturating_add(1), super::guard::START);
            let large = outputs.by_size.range(from..);
            let mut ranks: Vec<Rank> = large.map(|(_, rank)| *rank).collect();
            ranks.sort_unstable();
            let indices = ranks.iter().filter_map(|r| outputs.by_rank.get(r));
            return indices.filter_map(|i| of(*i)).collect();
        }
        let all = outputs.by_rank.iter();
        let old = all.take_while(|(rank, _)| !wanted.age.is_some_and(|a| self.is_young(rank.0, a)));
        old.filter_map(|(_, index)| of(*index)).collect()
    }

    /// The groups of the newest wanted outputs.
    fn newest_outputs(&self, wanted: &Wanted) -> BTreeSet<usize> {
        let count = usize::try_from(wanted.keep).unwrap_or(usize::MAX);
        let mut roots = BTreeSet::new();
        for (_, &index) in self.index.outputs.by_rank.iter().rev() {
            if roots.len() >= count {
                break;
            }
            let message = self.messages.get(index);
            if message.is_some_and(|m| !self.wanted_parts(m, wanted).is_empty()) {
                roots.insert(self.groups.root(index));
            }
        }
        roots
    }

    /// The messages that may get a smaller form.
    pub fn messages_of<'a>(
        &'a self,
        smaller: &'a Smaller,
    ) -> impl Iterator<Item = &'a MessageState> {
        let ids = smaller.messages.iter().map(|(id, _)| *id);
        ids.filter_map(|id| self.message(id))
    }

    /// Asks the guard which of the wanted outputs may get a smaller form.
    #[must_use]
    pub fn smaller(&self, wanted: &Wanted) -> Smaller {
        let kept = Kept::Roots(self.newest_outputs(wanted));
        let mut found = self.wanted(wanted);
        let root = |m: &MessageState| self.index_of(m.id.seq()).map(|i| self.groups.root(i));
        if let Some(age) = wanted.age {
            let young = |m: &MessageState| root(m).is_none_or(|r| !self.is_over(r, age));
            found.retain(|(m, _)| !young(m));
        }
        let roots = found.iter().filter_map(|(m, _)| root(m)).collect();
        let pins = self.pinned_results(wanted.pin_results, &kept);
        let decision = Decision::asking(Asked::Roots(roots), kept, pins);
        let may = |m: &MessageState| {
            let group = root(m).and_then(|r| self.index.at(r));
            group.is_some_and(|g| decision.refusal(self, g).is_none())
        };
        let free = found.iter().filter(|(m, _)| may(m));
        let messages = free.map(|(m, parts)| (m.id, parts.clone())).collect();
        let outside = |m: &MessageState| {
            let kept_or_none =
                root(m).is_none_or(|r| matches!(&decision.kept, Kept::Roots(k) if k.contains(&r)));
            !kept_or_none
        };
        let wanted = found.iter().filter(|(m, _)| outside(m)).count();
        Smaller {
            messages,
            wanted: u64::try_from(wanted).unwrap_or(u64::MAX),
            decision,
        }
    }
}
