//! What a strategy's visit went by, so that its next one looks only at groups whose fate may be
//! another. Derived: where it is missing, every group is looked at.

use std::collections::BTreeMap;

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
    /// Groups that were put back for the window's opener.
    put_back: Vec<usize>,
    /// The entry that filed the visit.
    filed: Option<Seq>,
}

/// A group whose fate a visit tells.
#[derive(Clone, Debug)]
pub struct Verdict<'a> {
    /// What becomes of it.
    pub fate: Fate,
    /// Its messages in the window for which that may be new, ascending by id; all of them when it
    /// leaves.
    pub messages: Vec<&'a MessageState>,
}

/// Groups to look at, by rank: each with its root and the messages of it that changed.
type Suspects<'a> = BTreeMap<Rank, (usize, Vec<&'a MessageState>)>;

impl Decision {
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
            put_back: self.put_back.values().copied().collect(),
            filed: None,
        })
    }
}

impl Projection {
    /// Keeps what a visit went by, once it was filed.
    pub fn remember(&mut self, strategy: &str, filed: Seq, memo: Option<Memo>) {
        let Some(slot) = (self.strategy_named(strategy)).and_then(|at| self.memos.get_mut(at))
        else {
            return;
        };
        *slot = memo.map(|memo| Memo {
            filed: Some(filed),
            ..memo
        });
    }

    /// The fates that may differ from what the strategy's previous visit (`before`) found, those of
    /// all groups where that is not known.
    #[must_use]
    pub fn verdicts(
        &self,
        decision: &Decision,
        strategy: Option<usize>,
        before: Option<Seq>,
    ) -> Vec<Verdict<'_>> {
        let memo = strategy.and_then(|s| self.memos.get(s)?.as_ref());
        let memo = memo.filter(|m| before.is_some() && m.filed == before);
        let suspects = memo.and_then(|memo| self.suspects(decision, memo));
        let Some(suspects) = suspects else {
            let all = self.index.all().map(|group| Verdict {
                fate: decision.fate(self, group),
                messages: self.visible_members(group.root).collect(),
            });
            return all.collect();
        };
        let verdicts = suspects.into_iter().map(|(rank, (root, changed))| {
            let fate = decision.fate(self, GroupAt { rank, root });
            let messages = self.accountable(root, changed, fate, strategy);
            Verdict { fate, messages }
        });
        verdicts.collect()
    }

    /// The messages of a group that a visit has to speak of: those that changed, where the visit
    /// before said of the others what holds still. It said the same of each of them.
    fn accountable<'a>(
        &'a self,
        root: usize,
        changed: Vec<&'a MessageState>,
        fate: Fate,
        strategy: Option<usize>,
    ) -> Vec<&'a MessageState> {
        let told = match fate {
            Fate::Leaves(_) => return self.visible_members(root).collect(),
            Fate::Refuses(reason) => Some(reason),
            Fate::NotNeeded => None,
        };
        let is_changed = |m: &MessageState| changed.binary_search_by_key(&m.id, |c| c.id).is_ok();
        let other = self.visible_members(root).find(|m| !is_changed(m));
        let standing = other.map(|m| strategy.and_then(|s| self.standing_refusal(s, m)));
        if standing.is_none_or(|standing| standing == told) {
            return changed;
        }
        self.visible_members(root).collect()
    }

    /// The groups that changed, that a boundary passed, or that leave or are put back.
    fn suspects(&self, decision: &Decision, memo: &Memo) -> Option<Suspects<'_>> {
        let now = decision.memo(self)?;
        let mut changed = self.index.touched_since(memo.touched)?.to_vec();
        changed.sort_unstable();
        changed.dedup();
        let mut suspects = Suspects::new();
        for index in changed {
            if let Some(group) = self.group_at(index)
                && let Some(message) = self.messages.get(index)
            {
                let (_, changed) = suspects
                    .entry(group.rank)
                    .or_insert((group.root, Vec::new()));
                changed.extend(message.visible().then_some(message));
            }
        }
        let back = memo.put_back.iter();
        let back = back.filter_map(|message| self.group_at(*message));
        let passed = [(memo.kept, now.kept), (memo.asked, now.asked)];
        let passed = passed.into_iter().filter(|(a, b)| a != b);
        let passed = passed.flat_map(|(a, b)| self.index.within(a.min(b), a.max(b)));
        let leaving = decision.leaving.iter();
        let leaving = leaving.map(|(&rank, &(root, _))| GroupAt { rank, root });
        let put_back = decision.put_back.iter();
        let put_back = put_back.map(|(&rank, &root)| GroupAt { rank, root });
        for group in back.chain(passed).chain(leaving).chain(put_back) {
            let of = (group.root, Vec::new());
            suspects.entry(group.rank).or_insert(of);
        }
        Some(suspects)
    }
}
