//! Strategies that make tool outputs smaller: which of them, what a marker says, and what a cut must
//! leave as it was.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::decide::{BLANK, Model};
use super::guard::{Fate, Group, Wish};
use super::look::{Rule, asked, end};
use super::pins::refused_for_pins;
use crate::log::{
    Block, BlockBody, Change, LeftReason, Message, PartBody, PartKind, PartSkeleton, Reading, Seq,
    Shape, StandIn, StandInKind, Unit, VisitOutcome, Visited,
};

/// A message with outputs that are wanted smaller: its group, and which of its parts.
struct Target {
    group: usize,
    id: u64,
    parts: Vec<usize>,
}

impl Model {
    /// One look of a strategy that makes outputs smaller.
    pub(super) fn shrink(
        &self,
        position: u32,
        rule: &Rule,
        groups: &[Group],
        own: &[&Visited],
    ) -> Result<Option<Visited>, String> {
        let by_tokens = rule.has("limit");
        let tokens = self.tokens(if by_tokens { "auto" } else { "estimate" });
        let previous = self.previous(rule, |_| true);
        let (method, items, total) = match tokens {
            Ok(tokens) => tokens,
            Err(outcome) => return Ok(self.unmeasurable(position, rule, previous, outcome)),
        };
        let targets = self.targets(rule, groups);
        let keep = self.newest_outputs(rule, groups);
        let outside = targets.iter().filter(|t| !keep.contains(&t.group)).count();
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let before = if by_tokens {
            counted(Unit::Token, &method, total)
        } else if rule.name() == "clear-tool-results" {
            counted(Unit::Message, "count:over-age", count(outside))
        } else {
            counted(Unit::Message, "count:oversized", count(outside))
        };
        let limit = if by_tokens { rule.number("limit") } else { 0 };
        if before.amount <= limit {
            return Ok(None);
        }
        let (fates, stood_down) = self.asked_for(rule, groups, &targets, &keep);
        let allowed = |t: &&Target| fates.get(t.group) == Some(&Fate::NotNeeded);
        let allowed: Vec<&Target> = targets.iter().filter(allowed).collect();
        let size = |t: &Target| items.get(&t.id).copied().unwrap_or(0);
        let old: u64 = allowed.iter().map(|t| size(t)).fold(0, u64::saturating_add);
        let least = rule.number("at-least").max(1);
        let mut forms = Vec::new();
        let (mut made, mut old_of_made) = (Vec::new(), 0_u64);
        if !by_tokens || old >= least {
            for target in &allowed {
                // Of words that are gone nothing is made.
                if let Some(form) = self.form(rule, target, position, own)? {
                    forms.push(form);
                    made.push(target.id);
                    old_of_made = old_of_made.saturating_add(size(target));
                }
            }
        }
        let new: u64 = forms.iter().map(|f| tokens_of(f, &before.method)).sum();
        if by_tokens && (forms.is_empty() || old_of_made.saturating_sub(new) < least) {
            forms.clear();
        }
        let fruitless = previous.is_some_and(|(_, v)| v.change == Change::default() && asked(v));
        if forms.is_empty() && fruitless {
            return Ok(None);
        }
        let mut visit = self.blank_visit(position, rule, before.clone());
        (visit.limit, visit.target) = (limit, limit);
        let after = match before.unit {
            _ if forms.is_empty() => before.amount,
            Unit::Token => before
                .amount
                .saturating_sub(old_of_made)
                .saturating_add(new),
            _ => before.amount.saturating_sub(count(forms.len())),
        };
        end(&mut visit, after);
        if by_tokens && forms.is_empty() && !allowed.is_empty() {
            visit.outcome = VisitOutcome::NoProgress;
        }
        self.account(groups, &fates, &mut visit);
        visit.stood_down = self.now.ranges(&stood_down);
        let place = |id: &u64| self.now.get(*id).map(|m| Seq(m.place));
        let changed = made.iter().filter(|_| !forms.is_empty());
        visit.first_changed = changed.filter_map(place).min();
        visit.change.stand_ins = forms;
        Ok(Some(visit))
    }

    /// What the guard says of the groups with outputs that are wanted smaller, and the pins that
    /// stood down.
    fn asked_for(
        &self,
        rule: &Rule,
        groups: &[Group],
        targets: &[Target],
        keep: &BTreeSet<usize>,
    ) -> (Vec<Fate>, BTreeSet<u64>) {
        let named: BTreeSet<usize> = targets.iter().map(|t| t.group).collect();
        let fates = |pins: BTreeSet<usize>| -> Vec<Fate> {
            let wish = Wish {
                before: Reading {
                    unit: Unit::Group,
                    method: String::new().into(),
                    amount: 0,
                },
                limit: 0,
                target: 0,
                units: Vec::new(),
                keep: keep.clone(),
                head: BTreeSet::new(),
                pins,
                only: None,
                notice: false,
                absorbs: false,
                sources: None,
                ask_all: true,
                reason: LeftReason::Cleared,
            };
            let fate = |(i, g): (usize, &Group)| {
                let held = named
                    .contains(&i)
                    .then(|| self.now.holds(g).or(self.kept(g, i, &wish)));
                held.flatten().map_or(Fate::NotNeeded, Fate::Refuses)
            };
            groups.iter().enumerate().map(fate).collect()
        };
        let with = fates(self.pins(rule, groups, keep));
        let free = |f: &Vec<Fate>| {
            targets
                .iter()
                .any(|t| f.get(t.group) == Some(&Fate::NotNeeded))
        };
        let pinned = refused_for_pins(groups, &with);
        if free(&with) || !self.held_up_before(rule, &pinned, false) {
            return (with, BTreeSet::new());
        }
        (fates(BTreeSet::new()), pinned)
    }

    /// The messages whose outputs are wanted smaller, in window order: those that a client's tool
    /// gave, of a size worth it, not cleared before, not of tools that are spared, old enough.
    fn targets(&self, rule: &Rule, groups: &[Group]) -> Vec<Target> {
        let mut targets = self.outputs(rule, groups);
        if rule.has("age") {
            let over = |t: &Target| {
                let group = groups.get(t.group);
                group.is_some_and(|g| self.is_over(g, rule.number("age"), "call"))
            };
            targets.retain(over);
        }
        targets
    }

    fn outputs(&self, rule: &Rule, groups: &[Group]) -> Vec<Target> {
        let least = rule.number("max").saturating_add(1).max(256);
        let spared: Vec<&str> = rule.text("except").split('+').collect();
        let mut found = Vec::new();
        for id in &self.now.window {
            let (Some(m), Some(group)) = (
                self.now.get(*id),
                groups.iter().position(|g| g.ids.contains(id)),
            ) else {
                continue;
            };
            let cleared = m
                .given
                .last()
                .is_some_and(|(_, why)| *why == Some(LeftReason::Cleared));
            let shown = m.skeletons.last().map(|s| s.parts.as_slice());
            let parts = shown.unwrap_or_default().iter().zip(m.parts()).enumerate();
            let wanted = parts.filter(|(_, (now, first))| {
                let client = now.kind == PartKind::Result && !now.is(PartSkeleton::NATIVE);
                let tool = self.tool(first);
                let is_spared = tool.is_some_and(|t| spared.contains(&t.as_str()));
                client && now.bytes >= least && !is_spared
            });
            let parts: Vec<usize> = wanted.map(|(at, _)| at).collect();
            if !cleared && !parts.is_empty() {
                found.push(Target {
                    group,
                    id: *id,
                    parts,
                });
            }
        }
        found
    }

    /// The newest groups with outputs, as many as are kept.
    fn newest_outputs(&self, rule: &Rule, groups: &[Group]) -> BTreeSet<usize> {
        let count = usize::try_from(rule.number("keep")).unwrap_or(usize::MAX);
        let mut newest = BTreeSet::new();
        for target in self.outputs(rule, groups).into_iter().rev() {
            if newest.len() < count {
                newest.insert(target.group);
            }
        }
        newest
    }

    /// The smaller form of a message. What a marker says is known; how text was cut is taken from the
    /// visit and checked.
    fn form(
        &self,
        rule: &Rule,
        target: &Target,
        position: u32,
        own: &[&Visited],
    ) -> Result<Option<StandIn>, String> {
        let id = target.id;
        let unknown = || format!("no words of m{id}");
        let message = self.now.get(id).ok_or_else(unknown)?;
        let (_, given, _) = message.forms.last().ok_or_else(unknown)?;
        let (payload, _) = message.given.last().ok_or_else(unknown)?;
        if self.gone.contains(&(*given, *payload)) {
            return Ok(None);
        }
        let words = self.words.get(&(*given, *payload)).ok_or_else(unknown)?;
        let answers: Vec<_> = message.parts().iter().map(|p| p.answers).collect();
        let (reason, skeleton) = if rule.name() == "clear-tool-results" {
            let cleared = cleared(id, words, &target.parts);
            (LeftReason::Cleared, self.counted(&cleared, &answers))
        } else {
            let form = self.cut_as_filed(rule, target, words, position, own)?;
            (LeftReason::Replaced, self.counted(&form, &answers))
        };
        Ok(Some(StandIn {
            kind: StandInKind::Form,
            reason,
            sources: self.now.ranges(&BTreeSet::from([id])),
            skeleton,
            content: BLANK,
        }))
    }

    /// The words that a visit gave a message, after a look at what it may not have done.
    fn cut_as_filed(
        &self,
        rule: &Rule,
        target: &Target,
        words: &Message,
        position: u32,
        own: &[&Visited],
    ) -> Result<Arc<Message>, String> {
        let id = target.id;
        let mut filed = own
            .iter()
            .filter(|v| v.position == position && v.strategy == rule.spec);
        let visit = filed
            .next()
            .ok_or_else(|| format!("m{id} is too large and was not cut"))?;
        let names = |s: &StandIn| s.sources.0.as_slice() == [(Seq(id), Seq(id))];
        let at = visit.change.stand_ins.iter().position(names);
        let at = at.ok_or_else(|| format!("m{id} is too large and was not cut"))?;
        let seq = visit.base.0.saturating_add(1);
        let payload = u32::try_from(at).map_err(|e| e.to_string())?;
        let cut = self.words.get(&(seq, payload));
        let cut = cut.ok_or_else(|| format!("no words of the cut m{id}"))?;
        let max = usize::try_from(rule.number("max")).unwrap_or(usize::MAX);
        for (part, (old, new)) in words.parts.iter().zip(&cut.parts).enumerate() {
            let wanted = target.parts.contains(&part);
            let fair = if wanted {
                is_fair(old, new, max)
            } else {
                old == new
            };
            if !fair {
                return Err(format!(
                    "part {part} of m{id} was cut as it may not be: {new:?}"
                ));
            }
        }
        if words.parts.len() != cut.parts.len()
            || words.role != cut.role
            || words.author != cut.author
        {
            return Err(format!("m{id} was cut into another message"));
        }
        Ok(Arc::clone(cut))
    }
}

fn counted(unit: Unit, method: &str, amount: u64) -> Reading {
    Reading {
        unit,
        method: method.to_owned().into(),
        amount,
    }
}

/// What a form comes to by a method.
fn tokens_of(form: &StandIn, method: &str) -> u64 {
    let counted = form.skeleton.tokens.as_ref();
    let counted = counted.filter(|c| method.ends_with(&c.method));
    counted.map_or_else(|| form.skeleton.utf16.div_ceil(4), |c| c.amount)
}

/// A message with a marker in the place of these outputs.
fn cleared(id: u64, words: &Message, parts: &[usize]) -> Message {
    let mut message = words.clone();
    for at in parts {
        let Some(PartBody::Result { content, shape, .. }) =
            message.parts.get_mut(*at).map(|p| &mut p.body)
        else {
            continue;
        };
        let bytes: usize = content.iter().map(|b| length(&b.body)).sum();
        let text = format!("[output cleared: {bytes} bytes, kept in the log as m{id}]");
        *content = vec![Block {
            body: BlockBody::Text(text),
            extra: Vec::new(),
        }];
        *shape = Shape::Text;
    }
    message
}

fn length(body: &BlockBody) -> usize {
    match body {
        BlockBody::Text(text) => text.len(),
        BlockBody::Media(_, json) | BlockBody::Opaque(_, json) => json.0.len(),
    }
}

/// Whether a result was cut and nothing else happened to it: it fits, it is of the same call, and
/// JSON is JSON again.
fn is_fair(old: &crate::log::Part, new: &crate::log::Part, max: usize) -> bool {
    let content = |part: &crate::log::Part| match &part.body {
        PartBody::Result { content, .. } => content.clone(),
        _ => Vec::new(),
    };
    let json = |content: &[Block]| match content {
        [
            Block {
                body: BlockBody::Text(text),
                ..
            },
        ] => {
            let value = serde_json::from_str::<serde_json::Value>(text);
            value.is_ok_and(|v| v.is_array() || v.is_object())
        }
        _ => false,
    };
    let (before, after) = (content(old), content(new));
    let mut same = new.clone();
    if let PartBody::Result { content, .. } = &mut same.body {
        content.clone_from(&before);
    }
    let bytes: usize = after.iter().map(|b| length(&b.body)).sum();
    same == *old && bytes <= max && (!json(&before) || json(&after))
}
