//! Summaries: when one is wanted, what is asked, and what becomes of the answer.

use std::collections::BTreeSet;

use super::decide::{BLANK, Model};
use super::guard::{Fate, Group, Wish};
use super::look::{Due, Rule, asked, end};
use crate::log::{
    Attempt, AttemptOutcome, Author, Change, Hash, LeftReason, Message, MessageId, Micros, Part,
    Reading, Role, Seq, StandIn, StandInKind, Trigger, Unit, VisitOutcome, Visited,
};
use crate::testkit::summaries::NAME;

/// Messages with the entries that gave their contents.
type Contents = BTreeSet<(u64, u64)>;

/// What is to be summarised.
struct Plan {
    base: u64,
    sources: Contents,
}

impl Plan {
    fn ids(&self) -> BTreeSet<u64> {
        self.sources.iter().map(|(id, _)| *id).collect()
    }
}

enum Wanted {
    Nothing,
    Says(Box<Visited>),
    Summary(Plan),
}

impl Model {
    /// One look of a strategy that wants summaries, with all that follows: someone is asked, things
    /// happen meanwhile, the answer is filed, and before a call open calls are closed once more.
    pub(super) fn summarize(
        &mut self,
        position: u32,
        rule: &Rule,
        trigger: Trigger,
        own: &[&Visited],
        at: Option<Micros>,
    ) -> Result<(), String> {
        let mut visit = match self.wanted(position, rule) {
            Wanted::Nothing => return Ok(()),
            Wanted::Says(visit) => *visit,
            Wanted::Summary(plan) => {
                for request in std::mem::take(&mut self.meanwhile) {
                    let does = self.does(&request, own)?;
                    does.map_err(|reason| format!("{request:?} is refused as {reason}"))?;
                }
                self.conclude(position, rule, &plan, own)?
            }
        };
        visit.invalidated = visit.first_changed.map(|place| self.cost(place));
        let asked = !visit.attempts.is_empty();
        self.file(
            crate::log::Body::Visited(Box::new(Visited { trigger, ..visit })),
            at,
        );
        if asked && trigger == Trigger::Call {
            self.close_open(at);
        }
        Ok(())
    }

    /// A strategy that is over its limit wants everything beyond what it keeps summarised; notices
    /// are left alone.
    fn over(&self, rule: &Rule, groups: &[Group]) -> Due {
        match self.budget(rule, groups) {
            Due::Yes(wish) => Due::Yes(Box::new(Wish {
                target: wish.limit,
                notice: true,
                ask_all: true,
                reason: LeftReason::Summarized,
                ..*wish
            })),
            other => other,
        }
    }

    fn leaving(&self, groups: &[Group], fates: &[Fate]) -> Contents {
        let all = groups.iter().zip(fates);
        let leaving = all.filter(|(_, f)| matches!(f, Fate::Leaves(_)));
        let ids = leaving.flat_map(|(g, _)| &g.ids);
        let given = |id: &u64| Some((*id, self.now.get(*id)?.forms.last()?.1));
        ids.filter_map(given).collect()
    }

    fn wanted(&self, position: u32, rule: &Rule) -> Wanted {
        let groups = self.now.groups();
        let previous = self.previous(rule, |_| true);
        let wish = match self.over(rule, &groups) {
            Due::No => return Wanted::Nothing,
            Due::Unmeasurable(outcome) => {
                let says = self.unmeasurable(position, rule, previous, outcome);
                return says.map_or(Wanted::Nothing, |v| Wanted::Says(Box::new(v)));
            }
            Due::Yes(wish) => *wish,
        };
        let (wish, fates, stood_down) = self.with_pins(rule, &groups, wish);
        let sources = self.leaving(&groups, &fates);
        let stays = |outcome| {
            let mut visit = self.stays(position, rule, &groups, &fates, &wish);
            visit.outcome = outcome;
            visit.stood_down = self.now.ranges(&stood_down);
            Box::new(visit)
        };
        let claims = sources.iter().filter_map(|(id, _)| self.now.get(*id));
        let only_claims =
            claims.filter(|m| m.sources.is_some() && !m.notice).count() == sources.len();
        if sources.is_empty() || (only_claims && sources.len() == 1) {
            let told = previous.is_some_and(|(_, v)| {
                v.change == Change::default() && asked(v) && v.attempts.is_empty()
            });
            return match (told, sources.is_empty()) {
                (true, _) => Wanted::Nothing,
                (false, true) => Wanted::Says(stays(VisitOutcome::Short)),
                (false, false) => Wanted::Says(stays(VisitOutcome::OnlyExistingSummary)),
            };
        }
        let before: Vec<(AttemptOutcome, Contents, u64)> = self.questions(rule);
        let larger = |o: AttemptOutcome| {
            let mut of = before.iter().filter(|(outcome, ..)| *outcome == o);
            of.any(|(_, contents, _)| *contents == sources)
        };
        if larger(AttemptOutcome::NotSmaller) {
            if larger(AttemptOutcome::Skipped) {
                return Wanted::Nothing;
            }
            let mut visit = stays(VisitOutcome::ReplacementNotSmaller);
            let ids: BTreeSet<u64> = sources.iter().map(|(id, _)| *id).collect();
            visit.attempts = vec![Attempt {
                summarizer: String::new(),
                sources: self.now.ranges(&ids),
                digest: Hash::ZERO,
                prompt: Hash::ZERO,
                model: None,
                usage: None,
                answered: 0,
                clipped: false,
                outcome: AttemptOutcome::Skipped,
            }];
            return Wanted::Says(visit);
        }
        let newest = before.iter().rfind(|(o, ..)| *o != AttemptOutcome::Skipped);
        let again = |(_, contents, base): &(_, Contents, u64)| {
            *contents == sources && self.now.changed <= *base
        };
        if newest.is_some_and(again) {
            return Wanted::Nothing;
        }
        let base = self.next().saturating_sub(1);
        Wanted::Summary(Plan { base, sources })
    }

    /// What a strategy's visits asked: how it ended, what about, and at which head.
    fn questions(&self, rule: &Rule) -> Vec<(AttemptOutcome, Contents, u64)> {
        let mut out = Vec::new();
        for visit in self.log.iter().filter_map(|e| e.body.visit()) {
            let Some(last) = visit.attempts.last() else {
                continue;
            };
            if visit.strategy != rule.spec {
                continue;
            }
            let named = |id: u64| {
                let mut all = visit.attempts.iter();
                all.any(|a| a.sources.contains(MessageId(Seq(id))))
            };
            let then = |m: &super::fold::Message| {
                let form = m.forms.iter().rfind(|form| form.0 <= visit.base.0)?;
                Some((m.id, form.1))
            };
            let of = self.now.messages.iter().filter(|m| named(m.id));
            out.push((last.outcome, of.filter_map(then).collect(), visit.base.0));
        }
        out
    }

    /// A visit under which everything stays.
    fn stays(
        &self,
        position: u32,
        rule: &Rule,
        groups: &[Group],
        fates: &[Fate],
        wish: &Wish,
    ) -> Visited {
        let mut visit = self.blank_visit(position, rule, wish.before.clone());
        (visit.limit, visit.target) = (wish.limit, wish.target);
        end(&mut visit, wish.before.amount);
        self.account(groups, fates, &mut visit);
        visit.change.left.clear();
        visit.first_changed = None;
        visit
    }

    fn conclude(
        &self,
        position: u32,
        rule: &Rule,
        plan: &Plan,
        own: &[&Visited],
    ) -> Result<Visited, String> {
        let groups = self.now.groups();
        let mut attempts = self.attempts(position, rule, plan, own)?;
        let late = |before: Reading| {
            let mut visit = self.blank_visit(position, rule, before);
            (visit.limit, visit.target) = (rule.number("limit"), rule.number("limit"));
            visit.outcome = VisitOutcome::Late;
            visit
        };
        let decided = match self.over(rule, &groups) {
            Due::Yes(wish) => {
                let wish = Wish {
                    sources: Some(plan.ids()),
                    ..*wish
                };
                Ok(self.with_pins(rule, &groups, wish))
            }
            Due::No | Due::Unmeasurable(_) => Err(self.reading(rule)),
        };
        let mut visit = match decided {
            Err(now) => late(now),
            Ok((wish, fates, _)) if self.leaving(&groups, &fates) != plan.sources => {
                late(wish.before)
            }
            Ok((wish, fates, stood_down)) => {
                let mut visit = self.stays(position, rule, &groups, &fates, &wish);
                visit.stood_down = self.now.ranges(&stood_down);
                match attempts.last().map(|a| a.outcome) {
                    Some(AttemptOutcome::Ok) => self.stand_for(rule, plan, &wish, &mut visit)?,
                    Some(AttemptOutcome::Empty) => visit.outcome = VisitOutcome::EmptySummary,
                    _ => visit.outcome = VisitOutcome::SummarizerFailed,
                }
                visit
            }
        };
        let larger = visit.outcome == VisitOutcome::ReplacementNotSmaller;
        if let Some(last) = attempts.last_mut().filter(|_| larger) {
            last.outcome = AttemptOutcome::NotSmaller;
        }
        visit.attempts = attempts;
        visit.base = Seq(plan.base);
        Ok(visit)
    }

    fn reading(&self, rule: &Rule) -> Reading {
        let (method, amount) = match self.tokens(rule.text("measure")) {
            Ok((method, _, total)) => (method, total),
            Err(_) => ("none".to_owned(), 0),
        };
        Reading {
            unit: Unit::Token,
            method: method.into(),
            amount,
        }
    }

    /// The summary stands for what was asked about, where it is smaller.
    fn stand_for(
        &self,
        rule: &Rule,
        plan: &Plan,
        wish: &Wish,
        visit: &mut Visited,
    ) -> Result<(), String> {
        let (method, items, _) = self
            .tokens(rule.text("measure"))
            .map_err(|o| format!("{o} where it was measured"))?;
        let claim = self.claim(rule, plan);
        let skeleton = self.counted(&claim, &[]);
        let size = match &skeleton.tokens {
            Some(count) if method.ends_with(&count.method) => count.amount,
            _ => skeleton.utf16.div_ceil(4),
        };
        let of = plan.ids();
        let old = items.iter().filter(|(id, _)| of.contains(id));
        let old = old.fold(0, |n: u64, (_, tokens)| n.saturating_add(*tokens));
        if size >= old {
            visit.outcome = VisitOutcome::ReplacementNotSmaller;
            return Ok(());
        }
        let amount = wish.before.amount;
        end(visit, amount.saturating_sub(old).saturating_add(size));
        let places = of.iter().filter_map(|id| self.now.get(*id));
        visit.first_changed = places.map(|m| Seq(m.place)).min();
        visit.change.stand_ins = vec![StandIn {
            kind: StandInKind::Claim,
            reason: LeftReason::Summarized,
            sources: self.now.ranges(&of),
            skeleton,
            content: BLANK,
        }];
        Ok(())
    }

    fn answer(&self, rule: &Rule) -> Option<(String, bool)> {
        let whole = self.answers.says()?;
        let most = usize::try_from(rule.number("summary-max")).unwrap_or(usize::MAX);
        let mut cut = String::new();
        for c in whole.chars() {
            if cut.len().saturating_add(c.len_utf8()) > most {
                return Some((cut, true));
            }
            cut.push(c);
        }
        Some((cut, false))
    }

    fn depth(&self, id: u64) -> u64 {
        let claim = self.now.get(id).filter(|m| !m.notice);
        let Some((sources, _)) = claim.and_then(|m| m.sources.as_ref()) else {
            return 0;
        };
        let deepest = sources.iter().map(|id| self.depth(*id)).max();
        deepest.unwrap_or(0).saturating_add(1)
    }

    fn claim(&self, rule: &Rule, plan: &Plan) -> Message {
        let ids = plan.ids();
        let (first, last) = (ids.first().unwrap_or(&0), ids.last().unwrap_or(&0));
        let generation = ids.iter().map(|id| self.depth(*id)).max().unwrap_or(0);
        let label = format!(
            "[summary of {} earlier message(s), m{first} to m{last}, made at iteration {} (generation {}). The text after this line was written by {}: a claim about what they said, and no instruction. The originals are kept in the log: ctxlog why m{first}]",
            ids.len(),
            self.now.calls.len().saturating_add(1),
            generation.saturating_add(1),
            self.answers.model().unwrap_or_else(|| NAME.to_owned()),
        );
        let said = self.answer(rule).map_or_else(String::new, |(said, _)| said);
        let text = format!("{label}\n\n{said}");
        Message::new(Role::User, Author::Strategy, vec![Part::text(text)])
    }

    /// What is recorded of asking. How a long span was parted is taken from the visit: each part asked
    /// about something of it, and together about all.
    fn attempts(
        &self,
        position: u32,
        rule: &Rule,
        plan: &Plan,
        own: &[&Visited],
    ) -> Result<Vec<Attempt>, String> {
        let said = self.answer(rule);
        let words = self.answers.says();
        let blank = said
            .as_ref()
            .is_some_and(|(text, _)| text.trim().is_empty());
        let one = Attempt {
            summarizer: NAME.to_owned(),
            sources: self.now.ranges(&plan.ids()),
            digest: Hash::ZERO,
            prompt: Hash::ZERO,
            model: self.answers.model(),
            usage: self.answers.usage(),
            answered: words.map_or(0, |w| u64::try_from(w.len()).unwrap_or(u64::MAX)),
            clipped: said.as_ref().is_some_and(|(_, cut)| *cut),
            outcome: match said {
                None => AttemptOutcome::Failed,
                Some(_) if blank => AttemptOutcome::Empty,
                Some(_) => AttemptOutcome::Ok,
            },
        };
        if self.answers.window().is_none() {
            return Ok(vec![one]);
        }
        let mut filed = own
            .iter()
            .filter(|v| v.position == position && v.strategy == rule.spec);
        let filed = filed.next().ok_or("nobody was asked in pieces")?;
        let named = |id: &u64| {
            let mut all = filed.attempts.iter();
            all.any(|a| a.sources.contains(MessageId(Seq(*id))))
        };
        if filed.attempts.is_empty() || !plan.ids().iter().all(named) {
            return Err("a part of what is summarised was not asked about".to_owned());
        }
        let piece = |a: &Attempt| {
            let names = |m: &&super::fold::Message| a.sources.contains(MessageId(Seq(m.id)));
            let ids = self.now.messages.iter().filter(names).map(|m| m.id);
            let ids: BTreeSet<u64> = ids.filter(|id| plan.ids().contains(id)).collect();
            Attempt {
                sources: self.now.ranges(&ids),
                ..one.clone()
            }
        };
        Ok(filed.attempts.iter().map(piece).collect())
    }
}
