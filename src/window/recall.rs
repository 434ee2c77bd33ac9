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
    /// Its messages in the window, ascending by id.
    pub messages: Vec<&'a MessageState>,
}

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
        let Some(slot) = (self.strategy_named(strategy)).and_then(|at| self.memos.get_mut(at)) else {
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
        let groups = memo.and_then(|memo| self.suspects(decision, memo));
        let groups = groups.unwrap_or_else(|| self.index.all().map(|g| (g.rank, g.root)).collect());
        let groups = groups.into_iter().map(|(rank, root)| GroupAt { rank, root });
        groups
            .map(|group| Verdict {
                fate: decision.fate(self, group),
                messages: self.visible_members(group.root).collect(),
            })
            .collect()
    }

    /// The groups that changed, that a boundary passed, or that leave or are put back.
    fn suspects(&self, decision: &Decision, memo: &Memo) -> Option<BTreeMap<Rank, usize>> {
        let now = decision.memo(self)?;
        let touched = self.index.touched_since(memo.touched)?;
        let changed = touched.iter().chain(&memo.put_back);
        let changed = changed.filter_map(|message| self.group_at(*message));
        let passed = [(memo.kept, now.kept), (memo.asked, now.asked)];
        let passed = passed.into_iter().filter(|(a, b)| a != b);
        let passed = passed.flat_map(|(a, b)| self.index.within(a.min(b), a.max(b)));
        let mut suspects: BTreeMap<Rank, usize> =
            changed.chain(passed).map(|g| (g.rank, g.root)).collect();
        suspects.extend(decision.leaving.iter().map(|(rank, (root, _))| (*rank, *root)));
        suspects.extend(&decision.put_back);
        Some(suspects)
    }
}
