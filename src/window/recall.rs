//! What a strategy's visit went by, so that its next one looks only at groups whose fate may be
//! another. Derived: where it is missing, every group is looked at.

use std::collections::BTreeSet;

use crate::log::Seq;

use super::guard::{Asked, Decision, Fate, Kept};
use super::index::{GroupAt, Rank};
use super::state::{MessageState, Projection};

/// What a visit went by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Memo {
    /// How far changes of groups had been listed.
    touched: usize,
    /// Where what is kept began, and where what was asked ended.
    kept: Rank,
    asked: Rank,
    /// Groups that were put back for the window's opener, those that `pin-results` held, and those
    /// that are younger than where they stand.
    singled_out: Vec<usize>,
    /// The entry that filed the visit.
    filed: Option<Seq>,
}

/// What a visit has to tell of a message: the fate of its group.
#[derive(Clone, Copy, Debug)]
pub struct Verdict<'a> {
    /// What becomes of it.
    pub fate: Fate,
    /// The message.
    pub message: &'a MessageState,
    /// Its position among those of its group in the window, from 0; of a group that leaves.
    pub nth: usize,
}

/// A group to look at and, where one of its messages changed, that message.
type Suspect = (Rank, usize, Option<usize>);

impl Decision {
    fn singled_out(&self) -> impl Iterator<Item = usize> {
        let young = self.expired.iter().flat_map(|e| &e.young);
        let put_back = self.put_back.values().chain(&self.pins);
        put_back.chain(young).copied()
    }

    /// What the next visit may build on; `None` where the strategy named its groups one by one.
    #[must_use]
    pub fn memo(&self, state: &Projection) -> Option<Memo> {
        let (Kept::From(kept), Asked::Before(asked)) = (&self.kept, &self.asked) else {
            return None;
        };
        Some(Memo {
            touched: state.index.touched_until(),
            kept: *kept,
            asked: *asked,
            singled_out: self.singled_out().collect(),
            filed: None,
        })
    }
}

impl Projection {
    /// Keeps what the newest visit went by, once it was filed.
    pub fn remember(&mut self, memo: Option<Memo>) {
        let Some(newest) = self.visits.last() else {
            return;
        };
        let filed = Some(newest.fact.seq);
        if let Some(slot) = self.memos.get_mut(newest.strategy) {
            *slot = memo.map(|memo| Memo { filed, ..memo });
        }
    }

    /// The fates that may differ from what the strategy's previous visit (`before`) found, those of
    /// all messages where that is not known; and of groups that leave every message's.
    #[must_use]
    pub fn verdicts(
        &self,
        decision: &Decision,
        strategy: Option<usize>,
        before: Option<Seq>,
    ) -> Vec<Verdict<'_>> {
        if let Asked::Roots(asked) = &decision.asked {
            return self.verdicts_of(decision, asked, strategy);
        }
        let memo = strategy.and_then(|s| self.memos.get(s)?.as_ref());
        let memo = memo.filter(|m| before.is_some() && m.filed == before);
        let mut out = Vec::new();
        let Some(suspects) = memo.and_then(|memo| self.suspects(decision, memo)) else {
            for group in self.index.all() {
                self.tell_all(decision.fate(self, group), group.root, &mut out);
            }
            return out;
        };
        out.reserve(suspects.len());
        for of_group in suspects.chunk_by(|a, b| a.0 == b.0) {
            if let Some(&(rank, root, _)) = of_group.first() {
                let fate = decision.fate(self, GroupAt { rank, root });
                if self.stands(fate, of_group, strategy) {
                    let changed = of_group.iter().filter_map(|s| self.messages.get(s.2?));
                    out.extend(changed.map(|message| Verdict {
                        fate,
                        message,
                        nth: 0,
                    }));
                } else {
                    self.tell_all(fate, root, &mut out);
                }
            }
        }
        out
    }

    /// The fates of the groups that were asked one by one, of those that leave or are put back, and
    /// of those that refused before: of all others there is nothing to tell.
    fn verdicts_of(
        &self,
        decision: &Decision,
        asked: &BTreeSet<usize>,
        strategy: Option<usize>,
    ) -> Vec<Verdict<'_>> {
        let leaving = decision.leaving.values().map(|(root, _)| root);
        let chosen = asked
            .iter()
            .chain(leaving)
            .chain(decision.put_back.values());
        let mut roots: BTreeSet<usize> = chosen.copied().collect();
        let standing = strategy
            .and_then(|s| self.standing.get(s))
            .into_iter()
            .flatten();
        roots.extend(standing.map(|index| self.groups.root(*index)));
        let mut out = Vec::new();
        for group in roots.iter().filter_map(|root| self.index.at(*root)) {
            self.tell_all(decision.fate(self, group), group.root, &mut out);
        }
        out
    }

    fn tell_all<'a>(&'a self, fate: Fate, root: usize, out: &mut Vec<Verdict<'a>>) {
        let messages = self.visible_members(root).zip(0..);
        out.extend(messages.map(|(message, nth)| Verdict { fate, message, nth }));
    }

    /// Whether the visit before said of a group what holds still, those of its messages aside that
    /// changed: it said the same of each.
    fn stands(&self, fate: Fate, of_group: &[Suspect], strategy: Option<usize>) -> bool {
        let told = match fate {
            Fate::Leaves(_) => return false,
            Fate::Refuses(reason) => Some(reason),
            Fate::NotNeeded => None,
        };
        let root = of_group.first().map_or(usize::MAX, |s| s.1);
        let changed = |i: usize| of_group.binary_search_by_key(&Some(i), |s| s.2).is_ok();
        let others = (self.groups.members(root).iter()).filter(|i| !changed(**i));
        let mut others = others.filter_map(|i| self.messages.get(*i));
        let other = others.find(|m| m.visible());
        let standing = |m| strategy.and_then(|s| self.standing_refusal(s, m));
        other.is_none_or(|m| standing(m) == told)
    }

    /// The groups that changed, that a boundary passed, or that leave or are put back, in order.
    fn suspects(&self, decision: &Decision, memo: &Memo) -> Option<Vec<Suspect>> {
        let now = decision.memo(self)?;
        let touched = self.index.touched_since(memo.touched)?;
        // Room for a few that a boundary passed or that leave as well.
        let mut suspects: Vec<Suspect> = Vec::with_capacity(touched.len().saturating_add(8));
        for &index in touched {
            if let Some(group) = self.group_at(index) {
                let visible = self.messages.get(index).is_some_and(MessageState::visible);
                suspects.push((group.rank, group.root, visible.then_some(index)));
            }
        }
        let back = memo.singled_out.iter().chain(&now.singled_out);
        let back = back.filter_map(|message| self.group_at(*message));
        let back = back.map(|group| (group.rank, group.root, None));
        let passed = [(memo.kept, now.kept), (memo.asked, now.asked)];
        let passed = passed.into_iter().filter(|(a, b)| a != b);
        let passed = passed.flat_map(|(a, b)| self.index.within(a.min(b), a.max(b)));
        let passed = passed.map(|group| (group.rank, group.root, None));
        let leaving = decision.leaving.iter();
        let leaving = leaving.map(|(&rank, &(root, _))| (rank, root, None));
        suspects.extend(back.chain(passed).chain(leaving));
        suspects.sort_unstable();
        suspects.dedup();
        Some(suspects)
    }
}
