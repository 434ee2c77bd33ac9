//! The fold's one step.
//!
//! It is total: an entry that names things that are not there changes nothing about them. Laws on
//! what an entry may say are checked where entries are made and by `verify`, never here.

use std::collections::BTreeSet;

use crate::log::{
    Appended, Author, Body, Called, Change, Configured, Entry, LeftReason, MessageId, PartKind,
    PartSkeleton, Provenance, Ranges, Returned, Seq, Skeleton, StandIn, StandInKind, Visited,
};

use crate::planted::{Bug, planted};

use super::bind::{CallInfo, remove_from};
use super::consolidated::{CLEARED, COMPACTED, CONSOLIDATED};
use super::index::Share;
use super::measure::add_apart;
use super::state::{
    Fact, Form, Life, LifeEnd, MessageState, Projection, RefusalSpan, ReturnInfo, Sent, VisitInfo,
};
use super::view::edges;

/// A fold of many entries at once: windows between the first and the last are not hashed.
#[derive(Clone, Debug, Default)]
pub struct Fold(Projection);

impl Fold {
    /// Applies the next entry.
    pub fn apply(&mut self, entry: &Entry) {
        self.0.step(entry);
    }

    /// Applies the next entry, which nobody reads afterwards: what is kept of it is not copied.
    pub(crate) fn absorb(&mut self, entry: &mut Entry) {
        self.0.step_with(entry);
    }

    /// What the entries said so far; digests are not computed.
    pub(crate) const fn so_far(&self) -> &Projection {
        &self.0
    }

    /// What the entries said.
    #[must_use]
    pub fn finish(mut self) -> Projection {
        self.0.settle();
        self.0
    }
}

impl Projection {
    /// Folds a whole log.
    pub fn fold<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut fold = Fold::default();
        entries.into_iter().for_each(|e| fold.apply(e));
        fold.finish()
    }

    /// Applies the next entry. The window is hashed when a call was filed with it, or when someone
    /// asks for its digest.
    pub fn apply(&mut self, entry: &Entry) {
        self.step(entry);
        if matches!(entry.body, Body::Called(_)) {
            self.settle();
        }
    }

    /// Applies the next entry, which nobody reads afterwards: what is kept of it is not copied.
    pub(crate) fn absorb(&mut self, entry: &mut Entry) {
        self.step_with(entry);
        if matches!(entry.body, Body::Called(_)) {
            self.settle();
        }
    }

    fn step(&mut self, entry: &Entry) {
        self.begin(entry);
        self.go_on(entry, None);
    }

    fn step_with(&mut self, entry: &mut Entry) {
        self.begin(entry);
        let own = match &mut entry.body {
            Body::Appended(a) => Some(a.skeleton.take()),
            _ => None,
        };
        self.go_on(entry, own);
    }

    fn begin(&mut self, entry: &Entry) {
        self.head = Some(fact(entry));
        let mut touched = std::mem::take(&mut self.touched);
        touched.note(entry, |seq| {
            let message = self.message(MessageId(seq));
            message.is_some_and(MessageState::visible)
        });
        self.touched = touched;
        if let Some(key) = &entry.key {
            self.keys.note(&key.text, (entry.seq, key.entries));
        }
    }

    /// `own` is the skeleton of a message that was taken out of its entry.
    fn go_on(&mut self, entry: &Entry, own: Option<Skeleton>) {
        let fact = fact(entry);
        match &entry.body {
            Body::Opened(_) => {}
            Body::Redacted(_) => self.redacted = Some(entry.seq),
            Body::Noted(n) => {
                if n.what == CONSOLIDATED {
                    self.consolidated_by(fact, true);
                } else if n.what == COMPACTED || n.what == CLEARED {
                    self.parted.get_or_insert(fact.seq);
                }
            }
            Body::Configured(c) => self.configured(fact, c),
            Body::Appended(a) => {
                let skeleton = own.unwrap_or_else(|| a.skeleton.clone());
                self.appended(entry, a, skeleton);
            }
            Body::Called(c) => self.called(entry, fact, c),
            Body::Returned(r) => self.returned(entry, r),
            Body::Visited(v) => self.visited(entry, fact, v),
            Body::Edited(e) => {
                self.changed(entry, fact, &e.change, None);
            }
            Body::Unknown { .. } => {
                if entry.must_understand {
                    self.unsupported.get_or_insert(entry.seq);
                }
            }
        }
        self.settle_groups();
    }

    fn configured(&mut self, fact: Fact, c: &Configured) {
        if let Some(chain) = &c.strategies {
            self.chain.clone_from(chain);
        }
        if let Some(settings) = &c.settings {
            self.settings.push((fact.seq, settings.clone()));
        }
        if c.open_calls.is_some() {
            self.open_calls = c.open_calls;
        }
        if c.consolidation.is_some() {
            self.consolidation.clone_from(&c.consolidation);
        }
    }

    fn called(&mut self, entry: &Entry, fact: Fact, c: &Called) {
        self.sent_items = self.items.len();
        self.sent.push(Sent {
            fact,
            window: c.window,
            messages: c.messages,
            provenance: entry.provenance,
        });
        // A call has seen what was restored before it.
        let now = self.next_iteration();
        let mut restored = std::mem::take(&mut self.restored);
        restored.retain(|index| {
            self.index.note(*index);
            let restored = self.messages.get(*index).and_then(|m| m.restored);
            restored.is_some_and(|at| now <= at)
        });
        self.restored = restored;
    }

    fn returned(&mut self, entry: &Entry, r: &Returned) {
        // A report of nothing is no measure: a request has at least one token.
        let reported = r.usage.as_ref().and_then(crate::log::Usage::total_input);
        let Some(input) = reported.filter(|input| *input > 0) else {
            return;
        };
        let Ok(at) = self.sent.binary_search_by_key(&r.call, |s| s.fact.seq) else {
            return;
        };
        let Some(sent) = self.sent.get(at) else {
            return;
        };
        if entry.provenance != Provenance::Simulated || self.is_whole(sent) {
            self.reading = Some(ReturnInfo {
                window: sent.window,
                messages: sent.messages,
                input,
            });
        }
    }

    /// Whether a call was sent all there was, as it was said: a simulated window is the source's only
    /// while nothing has left it, on either side, and nothing has another content.
    pub(crate) fn is_whole(&self, sent: &Sent) -> bool {
        let call = sent.fact.seq;
        let logged = u64::try_from(self.logged_before(call));
        logged == Ok(sent.messages) && self.parted.is_none_or(|seq| seq > call)
    }

    fn appended(&mut self, entry: &Entry, a: &Appended, skeleton: Skeleton) {
        let fact = fact(entry);
        let author = skeleton.author;
        let form = Form {
            since: fact,
            given: fact.seq,
            payload: 0,
            reason: None,
            content: a.content,
            skeleton,
        };
        let mut message = new_message(entry, fact, form);
        message.continues = a.continues;
        message.same_source = a.same_source;
        message.produced_by = a.produced_by;
        let index = self.push_message(message);
        let superseded = self.note_calls(index, fact.seq, author);
        self.note_run(index, author);
        match self.absent_partner(index) {
            Some(end) => self.never_enters(index, fact, end),
            None => self.enter(index, fact),
        }
        for old in superseded {
            self.supersede(old, fact);
        }
    }

    /// A newer result of the same call stands for the synthetic one from here on.
    fn supersede(&mut self, old: Seq, fact: Fact) {
        let Some(index) = self.index_of(old) else {
            return;
        };
        let end = LifeEnd {
            by: fact,
            reason: LeftReason::Superseded,
            stand_in: Some(MessageId(fact.seq)),
            strategy: None,
        };
        if self.messages.get(index).is_some_and(MessageState::visible) {
            self.leave_all(&[index], &end);
        } else {
            self.never_enters(index, fact, end);
        }
    }

    /// A late result, or a late block of a message, whose partner is not in the window does not
    /// enter: it is gone or covered by the same entry.
    fn absent_partner(&self, index: usize) -> Option<LifeEnd> {
        let message = self.messages.get(index)?;
        edges(message).find_map(|seq| {
            let partner = self.messages.get(self.index_of(seq)?)?;
            if partner.visible() {
                None
            } else {
                partner.absent().cloned()
            }
        })
    }

    fn push_message(&mut self, message: MessageState) -> usize {
        let index = self.messages.len();
        self.groups.push();
        let partners: Vec<Seq> = edges(&message).collect();
        self.seqs.push(message.id.seq());
        self.messages.push(message);
        for seq in partners {
            let Some(other) = self.index_of(seq) else {
                continue;
            };
            let parts = [index, other].map(|at| self.groups.root(at));
            if parts[0] != parts[1] {
                // What is joined to a larger group may refuse for another reason from now on.
                let [a, b] = parts.map(|root| self.groups.members(root));
                let smaller = if a.len() < b.len() { a } else { b };
                smaller.iter().for_each(|member| self.index.note(*member));
                self.groups.join(index, other);
                self.index.join(parts, self.groups.root(index));
            }
        }
        self.index.note(index);
        index
    }

    /// Files calls and closes the ones that results answer. Gives the synthetic results that a
    /// late real one supersedes.
    fn note_calls(&mut self, index: usize, seq: Seq, author: Author) -> Vec<Seq> {
        let mut superseded = Vec::new();
        for position in 0_u32.. {
            let Some(part) = self.part(index, position) else {
                break;
            };
            match part.kind {
                PartKind::Call => {
                    let info = CallInfo::of(part);
                    self.note_call((seq, position), info);
                }
                PartKind::Result => {
                    let interim = part.is(PartSkeleton::INTERIM);
                    if let Some(key) = part.answers {
                        let synthetic = author == Author::Engine;
                        superseded.extend(self.note_result(seq, key, interim, synthetic));
                    }
                }
                _ => {}
            }
        }
        superseded
    }

    /// A part of a message's first content.
    fn part(&self, index: usize, position: u32) -> Option<&PartSkeleton> {
        let first = self.messages.get(index)?.forms.first()?;
        first.skeleton.parts.get(usize::try_from(position).ok()?)
    }

    fn note_call(&mut self, key: (Seq, u32), info: CallInfo) {
        self.open.entry(info.key()).or_default().insert(key);
        self.open_parts.insert(key);
        self.calls.insert(key, info);
    }

    fn note_result(
        &mut self,
        seq: Seq,
        key: (Seq, u32),
        interim: bool,
        synthetic: bool,
    ) -> Option<Seq> {
        let index = self.index_of(key.0);
        let info = self.calls.get_mut(&key)?;
        if interim {
            info.interim = true;
            return None;
        }
        let before = info.result.replace((seq, synthetic));
        let newest = self.messages.len().saturating_sub(1);
        if !synthetic && !info.name.is_empty() {
            match self.answered.get_mut(&info.name) {
                Some(index) => *index = newest,
                None => drop(self.answered.insert(info.name.clone(), newest)),
            }
        }
        let label = info.key();
        self.open_parts.remove(&key);
        index.into_iter().for_each(|index| self.index.note(index));
        remove_from(&mut self.open, &label, key);
        if synthetic {
            let interrupted = self.interrupted.entry(label.clone()).or_default();
            interrupted.insert(key);
        } else if !self.interrupted.is_empty() {
            remove_from(&mut self.interrupted, &label, key);
        }
        self.closed.insert(label, key);
        before
            .filter(|(_, was_synthetic)| *was_synthetic)
            .map(|(seq, _)| seq)
    }

    /// Runs. A person message begins one when the log is settled and no person
    /// has spoken since, or when none has begun yet.
    fn note_run(&mut self, index: usize, author: Author) {
        let waits = self.waits_for_tools(index);
        let seq = self.messages.get_mut(index).map(|message| {
            message.waits = waits;
            message.id.seq()
        });
        match author {
            Author::Person => {
                self.first_person = self.first_person.or(seq);
                if !self.run_open && (!self.unsettled || self.runs.is_empty()) {
                    self.runs.extend(seq);
                    self.run_open = true;
                    let over = self.request.drain(..);
                    over.for_each(|index| self.index.note(index));
                }
                self.request.push(index);
            }
            Author::Model => {
                self.unsettled = waits;
                self.run_open &= self.unsettled;
            }
            Author::Tool => self.unsettled = true,
            Author::Application | Author::Engine | Author::Strategy => {}
        }
    }

    /// Whether a message, with the blocks it continues, holds a call that something outside it has
    /// to answer. A call the provider ran and answered within the message is none.
    fn waits_for_tools(&self, index: usize) -> bool {
        let Some(message) = self.messages.get(index) else {
            return false;
        };
        let parts = message
            .forms
            .first()
            .map_or(&[][..], |f| f.skeleton.parts.as_slice());
        let within = |call: (Seq, u32)| parts.iter().any(|p| p.answers == Some(call));
        let waits = (0_u32..).zip(parts).any(|(position, part)| {
            part.kind == PartKind::Call && !within((message.id.seq(), position))
        });
        let earlier = message.continues.filter(|seq| *seq < message.id.seq());
        let earlier = earlier.and_then(|seq| self.messages.get(self.index_of(seq)?));
        waits || earlier.is_some_and(|m| m.waits)
    }

    fn enter(&mut self, index: usize, fact: Fact) {
        let Some(message) = self.messages.get_mut(index) else {
            return;
        };
        if message.visible() {
            return;
        }
        // Most messages have one life.
        message.lives.reserve_exact(1);
        message.lives.push(Life {
            entered: fact,
            left: None,
        });
        self.stretches.enter(index);
        self.index.note(index);
        self.insert_item(index);
    }

    /// Notes an absence that ends no stay.
    fn never_enters(&mut self, index: usize, since: Fact, end: LifeEnd) {
        if let Some(message) = self.messages.get_mut(index) {
            message.absences.push((since.seq, end));
        }
    }

    /// Messages of the window leave it together.
    fn leave_all(&mut self, indices: &[usize], end: &LifeEnd) {
        for &index in indices {
            self.leave(index, end);
        }
    }

    /// A message leaves the window; whether it was in it.
    fn leave(&mut self, index: usize, end: &LifeEnd) -> bool {
        self.remove_item(index);
        let Some(message) = self.messages.get_mut(index) else {
            return false;
        };
        let Some(life) = message.lives.last_mut().filter(|l| l.left.is_none()) else {
            return false;
        };
        self.stretches.leave(index, end.by.seq);
        let evicted = u64::from(end.stand_in.is_none());
        life.left = Some(end.clone());
        message.pinned = false;
        message.restored = None;
        self.index.note(index);
        self.evictions = self.evictions.saturating_add(evicted);
        self.close_refusals(index);
        true
    }

    fn visited(&mut self, entry: &Entry, fact: Fact, v: &Visited) {
        let strategy = self.strategy_index(&v.strategy);
        let ordinal = self.visits_of(strategy);
        // What left or was released stood until the visit before this one.
        self.each_in(&v.released, |p, index| {
            p.close_refusal(strategy, index, ordinal);
        });
        let freed = self.changed(entry, fact, &v.change, Some(strategy));
        if let Some(cost) = &v.invalidated {
            add_apart(&mut self.invalidated, cost);
        }
        self.visits.push(VisitInfo {
            fact,
            strategy,
            trigger: v.trigger,
            outcome: v.outcome,
            freed,
            over: v.after.amount > v.limit,
            attempted: !v.attempts.is_empty(),
        });
        if let Some(questions) = self.questions.get_mut(strategy) {
            questions.note(v);
        }
        let position = self.visits.len().saturating_sub(1);
        if let Some(newest) = self.newest_visit.get_mut(strategy) {
            *newest = position;
        }
        // A visit that asked nobody says nothing of refusals: they stand as before.
        if !v.outcome.asked() {
            return;
        }
        if let Some(visits) = self.visits_of.get_mut(strategy) {
            visits.push(position);
        }
        for refused in &v.refused {
            let span = RefusalSpan {
                strategy,
                reason: refused.reason,
                first: ordinal,
                last: None,
            };
            self.each_in(&refused.messages, |p, index| p.refuse(index, &span));
        }
    }

    fn refuse(&mut self, index: usize, span: &RefusalSpan) {
        if !self.messages.get(index).is_some_and(MessageState::visible) {
            return;
        }
        self.close_refusal(span.strategy, index, span.first);
        self.refusals = self.refusals.saturating_add(1);
        if let Some(message) = self.messages.get_mut(index) {
            message.refusals.reserve_exact(1);
            message.refusals.push(span.clone());
        }
        if let Some(standing) = self.standing.get_mut(span.strategy) {
            standing.insert(index);
        }
    }

    fn strategy_index(&mut self, spec: &str) -> usize {
        if let Some(at) = self.strategies.iter().position(|s| s == spec) {
            return at;
        }
        self.strategies.push(spec.to_owned());
        self.visits_of.push(Vec::new());
        self.newest_visit.push(usize::MAX);
        self.standing.push(BTreeSet::new());
        self.memos.push(None);
        self.questions.push(super::claim::Questions::default());
        self.strategies.len().saturating_sub(1)
    }

    /// Ends a standing refusal: `next` is the ordinal of the first visit it no longer holds for.
    fn close_refusal(&mut self, strategy: usize, index: usize, next: usize) {
        let removed = self
            .standing
            .get_mut(strategy)
            .is_some_and(|s| s.remove(&index));
        if !removed {
            return;
        }
        let Some(message) = self.messages.get_mut(index) else {
            return;
        };
        let open = message.refusals.iter_mut().rev();
        if let Some(span) = open
            .into_iter()
            .find(|r| r.strategy == strategy && r.last.is_none())
        {
            span.last = Some(next.saturating_sub(1));
        }
    }

    fn close_refusals(&mut self, index: usize) {
        for strategy in 0..self.strategies.len() {
            let next = self.visits_of(strategy);
            self.close_refusal(strategy, index, next);
        }
    }

    /// The positions of the messages that ranges name.
    pub(crate) fn indices_in(&self, ranges: &Ranges) -> impl Iterator<Item = usize> {
        let spans = ranges.0.iter();
        spans.flat_map(|(first, last)| self.logged_between(*first, *last))
    }

    /// Does something with each message that ranges name.
    fn each_in(&mut self, ranges: &Ranges, act: impl Fn(&mut Self, usize)) {
        for (first, last) in &ranges.0 {
            for index in self.logged_between(*first, *last) {
                act(self, index);
            }
        }
    }

    fn visible_in(&self, ranges: &Ranges) -> Vec<usize> {
        let visible = |i: &usize| self.messages.get(*i).is_some_and(MessageState::visible);
        self.indices_in(ranges).filter(visible).collect()
    }

    /// Applies a change; says whether anything left.
    fn changed(&mut self, entry: &Entry, fact: Fact, c: &Change, strategy: Option<usize>) -> bool {
        let mut freed = false;
        self.undone.extend(c.undoes.map(|of| (of, fact.seq)));
        for left in &c.left {
            let end = LifeEnd {
                by: fact,
                reason: left.reason,
                stand_in: None,
                strategy,
            };
            for (first, last) in &left.messages.0 {
                for index in self.logged_between(*first, *last) {
                    freed |= self.leave(index, &end);
                }
            }
        }
        for (payload, stand_in) in (0_u32..).zip(&c.stand_ins) {
            freed |= stand_in.kind != StandInKind::Notice;
            self.stand_in(entry, fact, stand_in, payload, strategy);
        }
        self.each_in(&c.entered, |p, index| p.come_back(index, fact));
        for (message, given) in &c.reverted {
            self.revert(*message, *given, fact);
        }
        self.each_in(&c.pinned, |p, index| {
            if let Some(message) = p.messages.get_mut(index) {
                message.pinned = true;
                p.index.note(index);
            }
        });
        self.each_in(&c.unpinned, |p, index| {
            if let Some(message) = p.messages.get_mut(index) {
                message.pinned = false;
                message.restored = None;
                p.index.note(index);
            }
        });
        freed
    }

    /// A message comes back at its place; a claim that comes back covers its sources again.
    fn come_back(&mut self, index: usize, fact: Fact) {
        self.enter(index, fact);
        let Some(message) = self.messages.get_mut(index) else {
            return;
        };
        message.restored = Some(fact.iteration);
        self.restored.push(index);
        self.index.note(index);
        let Some(reason) = message.stands_for else {
            return;
        };
        let (id, sources) = (message.id, message.sources.clone());
        let covered = self.whole_groups(self.visible_in(&sources));
        let end = LifeEnd {
            by: fact,
            reason,
            stand_in: Some(id),
            strategy: None,
        };
        self.leave_all(&covered, &end);
    }

    /// The messages of the window that belong to the groups of these. What joined a source's group
    /// while a claim was away goes with it when the claim comes back.
    fn whole_groups(&self, indices: Vec<usize>) -> Vec<usize> {
        let members = indices.iter().flat_map(|i| self.groups.members(*i));
        let visible = |i: &usize| self.messages.get(*i).is_some_and(MessageState::visible);
        let whole: BTreeSet<usize> = members.copied().filter(visible).collect();
        whole.into_iter().collect()
    }

    fn stand_in(
        &mut self,
        entry: &Entry,
        fact: Fact,
        s: &StandIn,
        payload: u32,
        strategy: Option<usize>,
    ) {
        let form = Form {
            since: fact,
            given: fact.seq,
            payload,
            reason: Some(s.reason),
            content: s.content,
            skeleton: s.skeleton.clone(),
        };
        if s.kind == StandInKind::Form {
            self.parted.get_or_insert(fact.seq);
            let first = self.indices_in(&s.sources).next();
            if let Some(index) = first {
                self.new_form(index, form);
            }
            return;
        }
        if s.kind == StandInKind::Claim {
            self.consolidated_by(fact, false);
        }
        let claim = MessageId(fact.seq);
        let sources = self.visible_in(&s.sources);
        let place = sources
            .iter()
            .filter_map(|i| self.messages.get(*i))
            .map(|m| m.place)
            .min();
        let end = LifeEnd {
            by: fact,
            reason: s.reason,
            stand_in: Some(claim),
            strategy,
        };
        self.leave_all(&sources, &end);
        if self.index_of(fact.seq).is_some() {
            return; // one claim or notice an entry: the entry's seq is its id
        }
        let mut message = new_message(
            entry,
            fact,
            Form {
                reason: None,
                ..form
            },
        );
        message.place = place.unwrap_or(fact.seq);
        message.sources = s.sources.clone();
        if s.kind == StandInKind::Claim {
            message.stands_for = Some(s.reason);
            let made_of = self.messages_in(&s.sources).map(|m| m.generation);
            message.generation = made_of.max().unwrap_or(0).saturating_add(1);
        }
        message.notice = s.kind == StandInKind::Notice;
        let index = self.push_message(message);
        self.enter(index, fact);
    }

    fn new_form(&mut self, index: usize, form: Form) {
        let Some(message) = self.messages.get_mut(index) else {
            return;
        };
        if planted(Bug::AwayMessagesKeepTheirForm) && !message.visible() {
            return;
        }
        let visible = message.visible();
        self.totals.swap(message, visible, |m| m.forms.push(form));
        self.index.note(index);
        if visible {
            self.refresh_item(index);
        }
    }

    fn revert(&mut self, message: Seq, given: Seq, fact: Fact) {
        let Some(index) = self.index_of(message) else {
            return;
        };
        let Some(state) = self.messages.get(index) else {
            return;
        };
        let Some(form) = state.forms.iter().find(|f| f.given == given) else {
            return;
        };
        let form = Form {
            since: fact,
            reason: Some(LeftReason::Replaced),
            ..form.clone()
        };
        self.new_form(index, form);
    }
}

const fn fact(entry: &Entry) -> Fact {
    Fact {
        seq: entry.seq,
        iteration: entry.iteration,
        at: entry.at,
    }
}

fn new_message(entry: &Entry, fact: Fact, form: Form) -> MessageState {
    MessageState {
        id: MessageId(fact.seq),
        place: fact.seq,
        logged: fact,
        provenance: entry.provenance,
        door: entry.by.door,
        forms: vec![form],
        continues: None,
        same_source: None,
        produced_by: None,
        waits: false,
        sources: Ranges::default(),
        stands_for: None,
        generation: 0,
        notice: false,
        lives: Vec::new(),
        absences: Vec::new(),
        pinned: false,
        restored: None,
        refusals: Vec::new(),
        share: Share::default(),
    }
}
