//! The newest results of tools in use, and what a visit tells the model of what left.

use std::collections::BTreeSet;

use super::decide::Model;
use super::guard::{Fate, Group, Wish, after};
use super::look::{Rule, asked};
use crate::log::skeleton::skeleton;
use crate::log::{
    Author, Change, GroupReason, LeftReason, Message, Part, PartKind, PartSkeleton, Role, Skeleton,
    Unit,
};

impl Model {
    /// The tool that a result is of: the one that its call names.
    pub(super) fn tool(&self, result: &PartSkeleton) -> Option<String> {
        let named = || result.name.clone();
        let Some((message, part)) = result.answers else {
            return named();
        };
        let parts = self.now.get(message.0).map(|m| m.parts().to_vec());
        let at = usize::try_from(part).ok()?;
        let call = parts.unwrap_or_default().into_iter().nth(at)?;
        call.name.filter(|name| !name.is_empty())
    }

    /// The groups that hold the newest final result of a tool: of tools used since the newest run
    /// began, the newest first, as many as are pinned, those aside that the strategy keeps anyway.
    pub(super) fn pins(
        &self,
        rule: &Rule,
        groups: &[Group],
        keep: &BTreeSet<usize>,
    ) -> BTreeSet<usize> {
        let count = usize::try_from(rule.number("pin-results")).unwrap_or(usize::MAX);
        let Some(run) = self.now.runs.last() else {
            return BTreeSet::new();
        };
        let mut seen = BTreeSet::new();
        let mut holders = BTreeSet::new();
        for m in self.now.messages.iter().rev() {
            if m.author == Author::Engine {
                continue;
            }
            let last = |p: &&PartSkeleton| {
                p.kind == PartKind::Result && p.answers.is_some() && !p.is(PartSkeleton::INTERIM)
            };
            for tool in m.parts().iter().filter(last).filter_map(|p| self.tool(p)) {
                if seen.insert(tool) && m.id >= *run {
                    holders.extend(groups.iter().position(|g| g.ids.contains(&m.id)));
                }
            }
        }
        let free = holders.into_iter().rev().filter(|i| !keep.contains(i));
        free.take(count).collect()
    }

    /// What the guard says, with pins; without them where they keep the strategy from getting
    /// anywhere and did so at its visit before. Then also which messages they would have held.
    pub(super) fn with_pins(
        &self,
        rule: &Rule,
        groups: &[Group],
        wish: Wish,
    ) -> (Wish, Vec<Fate>, BTreeSet<u64>) {
        let fates = self.decide(groups, &wish);
        let pinned = refused_for_pins(groups, &fates);
        let leaves = |f: &Fate| matches!(f, Fate::Leaves(_));
        let budget = !wish.ask_all;
        let over = budget && after(&wish, &fates) > wish.limit;
        let nowhere = over || !fates.iter().any(leaves);
        if !nowhere || !self.held_up_before(rule, &pinned, budget) {
            return (wish, fates, BTreeSet::new());
        }
        let without = Wish {
            pins: BTreeSet::new(),
            ..wish.clone()
        };
        let free = self.decide(groups, &without);
        let mut gone = groups.iter().zip(&free).filter(|(_, f)| leaves(f));
        if gone.any(|(g, _)| g.ids.iter().any(|id| pinned.contains(id))) {
            (without, free, pinned)
        } else {
            (wish, fates, BTreeSet::new())
        }
    }

    /// Whether the strategy's visit before got nowhere either and named one of these pins.
    pub(super) fn held_up_before(&self, rule: &Rule, pinned: &BTreeSet<u64>, budget: bool) -> bool {
        let Some((_, before)) = self.previous(rule, asked) else {
            return false;
        };
        let over = budget && before.after.amount > before.limit;
        let named = |id: &u64| {
            let spans = self.now.refusals.get(id).into_iter().flatten();
            let mut own = spans.filter(|s| s.standing && s.strategy == rule.spec);
            own.any(|s| s.reason == GroupReason::LastToolResult)
        };
        (over || before.change == Change::default()) && pinned.iter().any(named)
    }

    /// Where a notice is shorter than what leaves: the fates that leave room for it and let the one
    /// before go, the measure after, and what is seen of it.
    pub(super) fn noticed(
        &self,
        rule: &Rule,
        groups: &[Group],
        wish: &Wish,
        fates: &[Fate],
    ) -> Option<(Vec<Fate>, u64, Skeleton)> {
        if !wish.notice {
            return None;
        }
        let by_tokens = wish.before.unit == Unit::Token;
        let takes = |notice: &Skeleton| match &notice.tokens {
            _ if !by_tokens => 0,
            Some(count) if wish.before.method.ends_with(&count.method) => count.amount,
            _ if wish.before.method == "estimate:script" => notice.by_script,
            _ => notice.utf16.div_ceil(4),
        };
        let mut room = takes(&self.notice(rule, groups, fates)?);
        for _ in 0..4 {
            let mut roomy = wish.clone();
            roomy.absorbs = true;
            roomy.before.amount = roomy.before.amount.saturating_add(room);
            let fates = self.decide(groups, &roomy);
            let notice = self.notice(rule, groups, &fates)?;
            let needs = takes(&notice);
            if needs <= room {
                let spare = room.saturating_sub(needs);
                let after = after(&roomy, &fates).saturating_sub(spare);
                let smaller = needs == 0 || after < wish.before.amount;
                return smaller.then_some((fates, after, notice));
            }
            room = needs;
        }
        None
    }

    /// What is seen of the notice of what leaves: how many messages and, where that is shorter than
    /// they were, of which tools.
    fn notice(&self, rule: &Rule, groups: &[Group], fates: &[Fate]) -> Option<Skeleton> {
        let (mut count, mut length, mut tools) = (0_u64, 0_u64, Vec::new());
        for (group, fate) in groups.iter().zip(fates) {
            if !matches!(fate, Fate::Leaves(_)) {
                continue;
            }
            let mut members: Vec<_> = group
                .ids
                .iter()
                .filter_map(|id| self.now.get(*id))
                .collect();
            members.sort_by_key(|m| m.id);
            for m in members {
                length = length.saturating_add(m.skeletons.last().map_or(0, |s| s.utf16));
                if *fate == Fate::Leaves(LeftReason::NoticeAbsorbed) || m.notice {
                    continue;
                }
                count = count.saturating_add(1);
                let results = m.parts().iter().filter(|p| p.kind == PartKind::Result);
                for tool in results.filter_map(|p| self.tool(p)) {
                    if !tools.contains(&tool) {
                        tools.push(tool);
                    }
                }
            }
        }
        if count == 0 {
            return None;
        }
        let iteration = self.now.calls.len().saturating_add(1);
        let strategy = rule.name();
        let plain = format!(
            "[dropped history — {count} earlier message(s) were dropped from this window at iteration {iteration} by the '{strategy}' window strategy. Nothing was summarized: those turns are simply not being re-sent. They are retained verbatim in this run's commit log.]"
        );
        let names: Vec<String> = tools.into_iter().filter(|t| is_plain(t)).collect();
        let more = if names.len() > 4 { ", …" } else { "" };
        let first: Vec<String> = names.iter().take(4).cloned().collect();
        let rich = format!(
            "{plain} [results of {}{more} were among them: call the tool again where one is needed, and do not rebuild ids from memory.]",
            first.join(", ")
        );
        let texts = [(!first.is_empty()).then_some(rich), Some(plain)];
        let fits = |text: &String| {
            let units = text.encode_utf16().count();
            u64::try_from(units).is_ok_and(|units| units < length)
        };
        let text = texts.into_iter().flatten().find(fits)?;
        let message = Message::new(Role::User, Author::Engine, vec![Part::text(text)]);
        Some(self.counted(&message, &[]))
    }

    /// What is seen of a content, counted as the chain's strategies want messages counted.
    pub(super) fn counted(
        &self,
        message: &Message,
        answers: &[Option<(crate::log::Seq, u32)>],
    ) -> Skeleton {
        let mut seen = skeleton(message, answers);
        if self.chain().iter().any(Rule::counts_tokens) {
            seen.tokens = self.encoding().count(&message.words());
        }
        seen
    }
}

/// The messages of groups that refuse because a newest result is pinned.
pub(super) fn refused_for_pins(groups: &[Group], fates: &[Fate]) -> BTreeSet<u64> {
    let all = groups.iter().zip(fates);
    let pinned = all.filter(|(_, f)| **f == Fate::Refuses(GroupReason::LastToolResult));
    pinned.flat_map(|(g, _)| g.ids.iter().copied()).collect()
}

/// Whether a tool's name may stand in a notice.
fn is_plain(name: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '-');
    (1..=64).contains(&name.len()) && name.chars().all(fine)
}
