//! What a strategy makes of a window, and what the guard lets happen of it.

use std::collections::{BTreeMap, BTreeSet};

use super::decide::{BLANK, Model};
use super::fold::Moment;
use super::guard::{Fate, Group, Units, Wish, after, amount};
use crate::log::{
    Body, Change, Count, GroupReason, Left, LeftReason, MessageId, Ranges, Reading, Refused, Seq,
    Settings, Skeleton, StandIn, StandInKind, Trigger, Unit, VisitOutcome, Visited,
};

/// The method of the guess "a quarter of the UTF-16 length".
const ESTIMATE: &str = "estimate:utf16/4";
/// The method of the guess by script.
const SCRIPT: &str = "estimate:script";

/// A strategy of the chain: its resolved spec, and its parameters by name.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) spec: String,
    options: BTreeMap<String, String>,
}

impl Rule {
    pub(super) fn parse(spec: &str) -> Self {
        let options = spec.split_once(':').map_or("", |(_, options)| options);
        let pair = |option: &str| {
            let (key, value) = option.split_once('=')?;
            Some((key.to_owned(), value.to_owned()))
        };
        Self {
            spec: spec.to_owned(),
            options: options.split(',').filter_map(pair).collect(),
        }
    }

    pub(super) fn name(&self) -> &str {
        self.spec.split(':').next().unwrap_or_default()
    }

    pub(super) fn text(&self, option: &str) -> &str {
        self.options.get(option).map_or("", String::as_str)
    }

    pub(super) fn has(&self, option: &str) -> bool {
        self.options.contains_key(option)
    }

    pub(super) fn number(&self, option: &str) -> u64 {
        self.text(option).parse().unwrap_or(0)
    }

    /// `low=0.8` as 800.
    fn thousandths(&self, option: &str) -> u64 {
        let (whole, rest) = self
            .text(option)
            .split_once('.')
            .unwrap_or((self.text(option), ""));
        let digits = format!("{whole}{rest:0<3}");
        digits.parse().unwrap_or(0)
    }

    /// The unit of a strategy that counts.
    fn unit(&self) -> Unit {
        match self.text("unit") {
            "group" => Unit::Group,
            "request" => Unit::Request,
            _ => Unit::Message,
        }
    }

    /// Keeping nothing and a budget of nothing are not possible, nor is a low-water mark outside
    /// the budget.
    pub(super) fn is_possible(&self) -> bool {
        match self.name() {
            "sliding-window" | "buffer" => self.number("keep") > 0,
            "expire" => self.number("after") > 0,
            "clear-tool-results" => self.number("limit").max(self.number("age")) > 0,
            "truncate-outputs" => self.number("max") >= 256,
            "head-tail" => self.number("window") > 0,
            "make-room" => self.number("limit") > 0,
            "summarize-oldest" => self.number("limit").min(self.number("summary-max")) > 0,
            "token-budget" => {
                self.number("limit") > 0 && (1..=1_000).contains(&self.thousandths("low"))
            }
            _ => true,
        }
    }

    /// Whether it looks at counted tokens, so that messages carry their counts.
    pub(super) fn counts_tokens(&self) -> bool {
        match self.name() {
            "token-budget" | "summarize-oldest" => {
                !["estimate", "script"].contains(&self.text("measure"))
            }
            "clear-tool-results" => self.has("limit"),
            _ => false,
        }
    }

    /// Whether what it let leave comes back when it is referred to.
    pub(super) fn returns(&self) -> bool {
        self.name() == "expire" && self.text("return") == "true"
    }

    /// Whether it looks after every append as well.
    pub(super) fn on_append(&self) -> bool {
        self.name() == "buffer"
    }

    /// Whether it makes outputs smaller and lets nothing leave.
    fn shrinks(&self) -> bool {
        ["clear-tool-results", "truncate-outputs"].contains(&self.name())
    }

    /// Whether it is a user's, whose plans nobody can foresee.
    fn is_foreign(&self) -> bool {
        let known = [
            "sliding-window",
            "head-tail",
            "buffer",
            "token-budget",
            "make-room",
            "expire",
            "summarize-oldest",
        ];
        !known.contains(&self.name()) && !self.shrinks()
    }
}

/// What a measure without a reading comes to.
pub(super) enum Due {
    No,
    Unmeasurable(VisitOutcome),
    Yes(Box<Wish>),
}

impl Model {
    /// One look: nothing, or a visit. A strategy that engages stands down while nothing would leave
    /// and nothing left at its previous visit either.
    pub(super) fn look(
        &self,
        position: u32,
        rule: &Rule,
        own: &[&Visited],
    ) -> Result<Option<Visited>, String> {
        let groups = self.now.groups();
        let previous = self.previous(rule, |_| true);
        if rule.is_foreign() {
            let filed = own
                .iter()
                .find(|v| v.position == position && v.strategy == rule.spec);
            let checked = filed.map(|visit| {
                self.lawful(&groups, visit)?;
                Ok(completed(
                    &self.now,
                    visit,
                    self.blank_visit(position, rule, visit.before.clone()),
                ))
            });
            return checked.transpose();
        }
        if rule.shrinks() {
            return self.shrink(position, rule, &groups, own);
        }
        let due = match rule.name() {
            "token-budget" => self.budget(rule, &groups),
            "expire" => self.expired(rule, &groups),
            _ => self.newest(rule, &groups),
        };
        let wish = match due {
            Due::No => return Ok(None),
            Due::Unmeasurable(outcome) => {
                return Ok(self.unmeasurable(position, rule, previous, outcome));
            }
            Due::Yes(wish) => *wish,
        };
        let (wish, fates, stood_down) = self.with_pins(rule, &groups, wish);
        let noticed = self.noticed(rule, &groups, &wish, &fates);
        let (fates, after, notice) = match noticed {
            Some((fates, after, notice)) => (fates, after, Some(notice)),
            None => {
                let after = after(&wish, &fates);
                (fates, after, None)
            }
        };
        let frees = fates.iter().any(|f| matches!(f, Fate::Leaves(_)));
        if !frees && previous.is_some_and(|(_, v)| v.change == Change::default() && asked(v)) {
            return Ok(None);
        }
        let mut visit = self.blank_visit(position, rule, wish.before.clone());
        visit.limit = wish.limit;
        visit.target = wish.target;
        end(&mut visit, after);
        self.account(&groups, &fates, &mut visit);
        visit.stood_down = self.now.ranges(&stood_down);
        visit
            .change
            .stand_ins
            .extend(notice.map(|skeleton| StandIn {
                kind: StandInKind::Notice,
                reason: wish.reason,
                sources: Ranges::default(),
                skeleton,
                content: BLANK,
            }));
        Ok(Some(visit))
    }

    /// A strategy's newest visit of this kind.
    pub(super) fn previous(
        &self,
        rule: &Rule,
        kind: fn(&Visited) -> bool,
    ) -> Option<(Seq, &Visited)> {
        self.log.iter().rev().find_map(|e| {
            let visit = e.body.visit()?;
            (visit.strategy == rule.spec && kind(visit)).then_some((e.seq, visit))
        })
    }

    pub(super) fn blank_visit(&self, position: u32, rule: &Rule, before: Reading) -> Visited {
        Visited {
            strategy: rule.spec.clone(),
            position,
            base: Seq(self.next().saturating_sub(1)),
            trigger: Trigger::Call,
            after: before.clone(),
            before,
            limit: 0,
            target: 0,
            outcome: VisitOutcome::Done,
            shortfall: None,
            refused: Vec::new(),
            released: Ranges::default(),
            stood_down: Ranges::default(),
            unchanged_since: self.previous(rule, asked).map(|(seq, _)| seq),
            first_changed: None,
            invalidated: None,
            attempts: Vec::new(),
            change: Change::default(),
        }
    }

    /// A measure that has no reading is said once; nothing was measured, so nothing is compared.
    pub(super) fn unmeasurable(
        &self,
        position: u32,
        rule: &Rule,
        previous: Option<(Seq, &Visited)>,
        outcome: VisitOutcome,
    ) -> Option<Visited> {
        if previous.is_some_and(|(_, v)| v.outcome == outcome) {
            return None;
        }
        let before = Reading {
            unit: Unit::Token,
            method: "none".into(),
            amount: 0,
        };
        let mut visit = self.blank_visit(position, rule, before);
        visit.outcome = outcome;
        Some(visit)
    }

    /// `sliding-window` and `head-tail`: engages when more are there than it keeps, the envelope
    /// aside; wants everything outside the newest (and the head) to leave. What the head adds to the
    /// newest is kept on top of them. `make-room`, the test kit's, keeps fewer than its limit.
    fn newest(&self, rule: &Rule, groups: &[Group]) -> Due {
        let newest = if rule.name() == "head-tail" {
            "window"
        } else {
            "keep"
        };
        let count = rule.number(newest);
        let units = self.units(groups, rule.unit());
        let keep = self.newest_groups(groups, &units, rule.unit(), count);
        let head = self.head_groups(groups, rule.number("head"));
        let before = amount(&units, |_| true);
        let both = amount(&units, |i| keep.contains(&i) || head.contains(&i));
        let beside = both.saturating_sub(amount(&units, |i| keep.contains(&i)));
        let limit = match rule.name() {
            "make-room" => rule.number("limit"),
            _ => count.saturating_add(beside),
        };
        if before <= limit {
            return Due::No;
        }
        Due::Yes(Box::new(Wish {
            before: Reading {
                unit: rule.unit(),
                method: "count".into(),
                amount: before,
            },
            limit,
            target: limit,
            pins: self.pins(rule, groups, &keep),
            units,
            keep,
            head,
            only: None,
            notice: rule.text("notice") == "auto",
            absorbs: false,
            sources: None,
            ask_all: true,
            reason: LeftReason::BeyondKeep,
        }))
    }

    /// Per group outside the envelope: its units, named so that newer ones have larger names. The
    /// groups of a run share that run.
    fn units(&self, groups: &[Group], unit: Unit) -> Vec<Units> {
        let one = |name: usize| (name, 1);
        let of = |(i, group): (usize, &Group)| match unit {
            _ if group.aside => Units::new(),
            Unit::Message => {
                let window = self.now.window.iter().enumerate();
                let own = window.filter(|(_, id)| group.ids.contains(id));
                own.map(|(at, _)| one(at)).collect()
            }
            Unit::Request => vec![one(group.run)],
            _ => vec![one(i)],
        };
        groups.iter().enumerate().map(of).collect()
    }

    /// The groups that hold one of the first messages of the conversation, whatever their role.
    fn head_groups(&self, groups: &[Group], reach: u64) -> BTreeSet<usize> {
        let reach = usize::try_from(reach).unwrap_or(usize::MAX);
        let said = self.now.messages.iter().take(reach);
        let first: Vec<u64> = said.map(|m| m.id).collect();
        let holds = |g: &Group| g.ids.iter().any(|id| first.contains(id));
        let all = groups.iter().enumerate();
        all.filter(|(_, g)| holds(g)).map(|(i, _)| i).collect()
    }

    /// The groups that hold one of the newest units, and notices that stand behind the first of them.
    fn newest_groups(
        &self,
        groups: &[Group],
        units: &[Units],
        unit: Unit,
        count: u64,
    ) -> BTreeSet<usize> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let all: BTreeSet<usize> = units.iter().flatten().map(|(name, _)| *name).collect();
        let newest: Vec<usize> = all.into_iter().rev().take(count).collect();
        let holds = |of: &Units| of.iter().any(|(name, _)| newest.contains(name));
        let kept = units.iter().enumerate().filter(|(_, of)| holds(of));
        let mut kept: BTreeSet<usize> = kept.map(|(i, _)| i).collect();
        let first = newest.last().and_then(|name| match unit {
            Unit::Message => self.now.window.get(*name).copied(),
            Unit::Request => name
                .checked_sub(1)
                .map_or(Some(0), |run| self.now.runs.get(run).copied()),
            _ => groups.get(*name).map(|g| g.newest),
        });
        let place = |id: u64| self.now.get(id).map_or(id, |m| m.place);
        let first = match unit {
            Unit::Message => first.map(place),
            _ => first,
        };
        let behind = |g: &Group| self.now.is_notice(g) && first.is_some_and(|f| f <= g.newest);
        let notices = groups.iter().enumerate().filter(|(_, g)| behind(g));
        kept.extend(notices.map(|(i, _)| i));
        kept
    }

    /// `expire`: wants every group to leave whose youngest message has been in the window for so
    /// many calls, or entries.
    fn expired(&self, rule: &Rule, groups: &[Group]) -> Due {
        let over = |g: &Group| !g.aside && self.is_over(g, rule.number("after"), rule.text("unit"));
        let named = groups.iter().enumerate().filter(|(_, g)| over(g));
        let only: BTreeSet<usize> = named.map(|(i, _)| i).collect();
        let before = u64::try_from(only.len()).unwrap_or(u64::MAX);
        if before == 0 {
            return Due::No;
        }
        let of = |i: usize| {
            let one = only.contains(&i).then_some((i, 1));
            one.into_iter().collect()
        };
        Due::Yes(Box::new(Wish {
            before: Reading {
                unit: Unit::Group,
                method: "count:over-age".into(),
                amount: before,
            },
            limit: 0,
            target: 0,
            units: (0..groups.len()).map(of).collect(),
            keep: BTreeSet::new(),
            head: BTreeSet::new(),
            pins: self.pins(rule, groups, &BTreeSet::new()),
            only: Some(only),
            notice: rule.text("notice") == "auto",
            absorbs: false,
            sources: None,
            ask_all: true,
            reason: LeftReason::OverAge,
        }))
    }

    /// Whether each message of a group has been in the window for so many calls, or entries.
    pub(super) fn is_over(&self, group: &Group, after: u64, unit: &str) -> bool {
        let age = |id: &u64| {
            let entered = self.now.get(*id).map_or(0, |m| m.entered);
            if unit == "entry" {
                return self.next().saturating_sub(1).saturating_sub(entered);
            }
            let seen = self.now.calls.iter().filter(|(call, _)| *call > entered);
            u64::try_from(seen.count()).unwrap_or(u64::MAX)
        };
        group.ids.iter().all(|id| age(id) >= after)
    }

    /// `token-budget`: engages when the window's tokens exceed the limit; wants the oldest to leave
    /// down to the low-water mark.
    pub(super) fn budget(&self, rule: &Rule, groups: &[Group]) -> Due {
        let limit = rule.number("limit");
        let (method, items, total) = match self.tokens(rule.text("measure")) {
            Ok(tokens) => tokens,
            Err(outcome) => return Due::Unmeasurable(outcome),
        };
        let by_group = self.units(groups, Unit::Group);
        let keep = self.newest_groups(groups, &by_group, Unit::Group, rule.number("keep"));
        if total <= limit {
            return Due::No;
        }
        let item = |id: &u64| items.get(id).copied().unwrap_or(0);
        let tokens = |g: &Group| g.ids.iter().map(item).fold(0, u64::saturating_add);
        let units = groups.iter().enumerate().map(|(i, g)| vec![(i, tokens(g))]);
        let low = limit.saturating_mul(rule.thousandths("low"));
        Due::Yes(Box::new(Wish {
            before: Reading {
                unit: Unit::Token,
                method: method.into(),
                amount: total,
            },
            limit,
            target: low.checked_div(1_000).unwrap_or(0),
            units: units.collect(),
            pins: self.pins(rule, groups, &keep),
            keep,
            head: BTreeSet::new(),
            only: None,
            notice: rule.text("notice") == "auto",
            absorbs: false,
            sources: None,
            ask_all: false,
            reason: LeftReason::OverBudget,
        }))
    }

    /// The window's tokens: the method, each message's, the total. `auto` and `reported` take a
    /// reading that serves the window, with counted tokens of what came since; where none does,
    /// `reported` has no measure, and the others count, the settings included.
    pub(super) fn tokens(
        &self,
        measure: &str,
    ) -> Result<(String, BTreeMap<u64, u64>, u64), VisitOutcome> {
        let shown: Vec<(u64, &Skeleton)> = self
            .now
            .window
            .iter()
            .filter_map(|id| Some((*id, self.now.get(*id)?.skeletons.last()?.as_ref())))
            .collect();
        let counts = self.chain().iter().any(Rule::counts_tokens);
        let by_tokenizer = !["estimate", "script"].contains(&measure);
        let counted = |(id, s): &(u64, &Skeleton)| {
            let again = counts.then(|| self.count_again(*id)).flatten();
            again.or_else(|| s.tokens.clone())
        };
        let counts: Vec<Option<Count>> = shown.iter().map(counted).collect();
        let first = counts.first().cloned().flatten().map(|c| c.method);
        let same = |c: &Option<Count>| c.as_ref().map(|c| &c.method) == first.as_ref();
        let uniform = by_tokenizer && counts.iter().all(same);
        let method = match first.filter(|_| uniform) {
            Some(method) => method,
            None if measure == "script" => SCRIPT.to_owned(),
            None => ESTIMATE.to_owned(),
        };
        let size = |(s, count): (&Skeleton, &Option<Count>)| match count {
            Some(count) if count.method == method => count.amount,
            _ if method == SCRIPT => s.by_script,
            _ => s.utf16.div_ceil(4),
        };
        let sizes = shown.iter().zip(&counts);
        let items: Vec<(u64, u64)> = sizes
            .map(|((id, s), count)| (*id, size((s, count))))
            .collect();
        let sum = |from| {
            items
                .iter()
                .skip(from)
                .fold(0, |n: u64, (_, t)| n.saturating_add(*t))
        };
        let by_id = items.iter().copied().collect();
        match self.serves() {
            Ok((length, input)) if matches!(measure, "auto" | "reported") => {
                let total = input.saturating_add(sum(length));
                Ok((format!("reported+{method}"), by_id, total))
            }
            Err(outcome) if measure == "reported" => Err(outcome),
            _ => {
                let total = sum(0).saturating_add(overhead(self.settings().as_ref(), &method));
                Ok((method, by_id, total))
            }
        }
    }

    /// The words of a message as it is now, counted by the encoding that is in force.
    fn count_again(&self, id: u64) -> Option<Count> {
        let message = self.now.get(id)?;
        let (given, payload) = (message.forms.last()?.1, message.given.last()?.0);
        let Some(words) = self.words.get(&(given, payload)) else {
            // They are gone: what was counted then stands, else what is sent in their place counts.
            let sent = self.encoding().count("[redacted]")?;
            let then = message.skeletons.last()?.tokens.clone();
            return Some(then.filter(|c| c.method == sent.method).unwrap_or(sent));
        };
        self.encoding().count(&words.words())
    }

    /// What a change from this place on costs a prompt cache: the tokens of what the newest call was
    /// sent, as far as the window still begins so, from there on.
    pub(super) fn cost(&self, place: Seq) -> Reading {
        let (method, items, _) = self.tokens("tiktoken").unwrap_or_default();
        let sent = self.now.cached.iter().filter(|(at, _, _)| *at >= place.0);
        let sizes = sent.filter_map(|(_, id, _)| items.get(id).copied());
        Reading {
            unit: Unit::Token,
            method: method.into(),
            amount: sizes.fold(0, u64::saturating_add),
        }
    }

    /// The newest reported reading serves this window when the window it was reported for is a
    /// prefix of this one: its length and its input tokens. A report of nothing is no reading: no
    /// request has less than one token.
    fn serves(&self) -> Result<(usize, u64), VisitOutcome> {
        let reading = self.log.iter().rev().find_map(|e| match &e.body {
            Body::Returned(r) => {
                let input = r.usage?.total_input().filter(|input| *input > 0);
                Some((r.call.0, input?))
            }
            _ => None,
        });
        let (call, input) = reading.ok_or(VisitOutcome::Unmeasurable)?;
        let sent = self.now.calls.iter().find(|(seq, _)| *seq == call);
        let (_, sent) = sent.ok_or(VisitOutcome::StaleMeasurement)?;
        let content = |id: &u64, at: u64| {
            let m = self.now.get(*id)?;
            let form = m.forms.iter().rfind(|form| form.0 <= at)?;
            Some((m.place, m.id, form.1))
        };
        let mut then: Vec<_> = sent.iter().map(|id| content(id, call)).collect();
        then.sort_unstable();
        let now = self.now.window.iter().map(|id| content(id, u64::MAX));
        if now.take(then.len()).eq(then.iter().copied()) {
            Ok((then.len(), input))
        } else {
            Err(VisitOutcome::StaleMeasurement)
        }
    }

    /// What a visit says of every group: what left, and of the refusals what changed since the
    /// strategy's previous visit.
    pub(super) fn account(&self, groups: &[Group], fates: &[Fate], visit: &mut Visited) {
        let now = self.now.as_ref();
        let mut left: BTreeMap<LeftReason, BTreeSet<u64>> = BTreeMap::new();
        let mut refused: BTreeMap<GroupReason, BTreeSet<u64>> = BTreeMap::new();
        let mut released = BTreeSet::new();
        for (group, fate) in groups.iter().zip(fates) {
            for id in &group.ids {
                let spans = now.refusals.get(id).into_iter().flatten();
                let standing = spans
                    .filter(|s| s.standing && s.strategy == visit.strategy)
                    .map(|s| s.reason)
                    .next_back();
                match fate {
                    Fate::Refuses(reason) if standing == Some(*reason) => continue,
                    Fate::Refuses(reason) => {
                        refused.entry(*reason).or_default().insert(*id);
                        continue;
                    }
                    Fate::Leaves(reason) => {
                        left.entry(*reason).or_default().insert(*id);
                    }
                    Fate::NotNeeded => {}
                }
                if standing.is_some() {
                    released.insert(*id);
                }
            }
        }
        let gone = left.values().flatten().filter_map(|id| now.get(*id));
        visit.first_changed = gone.map(|m| Seq(m.place)).min();
        let ranges = |ids: &BTreeSet<u64>| now.ranges(ids);
        visit.change.left = left
            .iter()
            .map(|(reason, ids)| Left {
                reason: *reason,
                messages: ranges(ids),
            })
            .collect();
        visit.refused = refused
            .iter()
            .map(|(reason, ids)| Refused {
                reason: *reason,
                messages: ranges(ids),
            })
            .collect();
        visit.released = ranges(&released);
    }
}

/// The visit of a user's strategy: what it wanted is as it says, all else follows.
fn completed(now: &Moment, wanted: &Visited, mut visit: Visited) -> Visited {
    visit.limit = wanted.limit;
    visit.target = wanted.target;
    visit.refused.clone_from(&wanted.refused);
    visit.released.clone_from(&wanted.released);
    visit.change.left.clone_from(&wanted.change.left);
    if asked(wanted) {
        end(&mut visit, wanted.after.amount);
    } else {
        visit.outcome = wanted.outcome;
    }
    let left = |id: u64| {
        let ranges = wanted.change.left.iter().map(|l| &l.messages);
        ranges.into_iter().any(|r| r.contains(MessageId(Seq(id))))
    };
    let gone = now
        .messages
        .iter()
        .filter(|m| m.out.is_none() && left(m.id));
    visit.first_changed = gone.map(|m| Seq(m.place)).min();
    visit
}

/// How a visit ended: the target was met, or by how much it was missed.
pub(super) fn end(visit: &mut Visited, after: u64) {
    let shortfall = after.saturating_sub(visit.target);
    visit.after.amount = after;
    (visit.outcome, visit.shortfall) = match shortfall {
        0 => (VisitOutcome::Done, None),
        _ => (VisitOutcome::Short, Some(shortfall)),
    };
}

/// Whether a visit that ended so asked any group.
pub(super) fn asked(visit: &Visited) -> bool {
    use VisitOutcome::{Late, StaleMeasurement, Unmeasurable};
    !matches!(visit.outcome, Unmeasurable | StaleMeasurement | Late)
}

/// Tokens of the settings in force by a method; by the estimate a quarter of their bytes.
fn overhead(settings: Option<&Settings>, method: &str) -> u64 {
    let Some(settings) = settings else { return 0 };
    match settings.overhead.as_ref().filter(|c| c.method == method) {
        Some(counted) => counted.amount,
        None if [ESTIMATE, SCRIPT].contains(&method) => {
            settings.content.bytes.saturating_sub(1).div_ceil(4)
        }
        None => 0,
    }
}
