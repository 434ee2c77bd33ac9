//! Outlines: which messages a window holds, without the table of lives. An outline goes from one
//! entry to the next by what the entry itself says, so a window of the past needs a snapshot and
//! the entries behind it alone.

use std::collections::BTreeMap;

use crate::log::{
    Appended, Author, Body, Change, Configured, Entry, Iteration, MessageId, PartKind,
    PartSkeleton, Ranges, Seq, StandIn, StandInKind, Visited,
};
use crate::planted::{Bug, planted};

use super::state::Projection;

/// One message of an outline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed {
    /// Where it stands.
    pub place: Seq,
    /// The message.
    pub id: MessageId,
    /// The entry that gave its present content.
    pub form: Seq,
    /// The content's payload index in that entry.
    pub payload: u32,
    /// The entry that began its present stay.
    pub entered: Seq,
    /// Whether someone pinned it.
    pub pinned: bool,
}

/// How often a strategy had asked the groups.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    /// The strategy's spec.
    pub strategy: String,
    /// Its visits that asked.
    pub visits: u64,
    /// The newest of them.
    pub newest: Seq,
}

/// Entries by which a message that was not in the window may have become another: it came back, got
/// another content, or lost its place to a real result. Few logs have many.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Touched {
    /// The newest of them, ascending.
    pub(super) newest: Vec<Seq>,
    /// The newest that is not listed any more.
    pub(super) forgotten: Option<Seq>,
}

impl Touched {
    /// As many are listed.
    const LISTED: usize = 32;

    /// Those after an entry; `None` where not all of them are known.
    #[must_use]
    pub fn since(&self, seq: Seq) -> Option<&[Seq]> {
        if self.forgotten.is_some_and(|forgotten| forgotten > seq) {
            return None;
        }
        let from = self.newest.partition_point(|touched| *touched <= seq);
        self.newest.get(from..)
    }

    /// Looks at an entry before it is applied; `visible` says which messages the window holds.
    pub(super) fn note(&mut self, entry: &Entry, visible: impl Fn(Seq) -> bool) {
        let seq = entry.seq;
        let touches = match &entry.body {
            Body::Appended(a) => {
                let answered = a.skeleton.parts.iter().filter_map(answered);
                let mut calls = answered.map(|(call, _)| call);
                calls.any(|call| call < seq && !visible(call))
            }
            body => body.change().is_some_and(|c| {
                let form = |s: &StandIn| {
                    let single = match s.sources.0.as_slice() {
                        [(first, last)] if first == last => visible(*first),
                        _ => false,
                    };
                    s.kind == StandInKind::Form && !single
                };
                !c.entered.is_empty()
                    || c.reverted.iter().any(|(message, _)| !visible(*message))
                    || c.stand_ins.iter().any(form)
            }),
        };
        if !touches {
            return;
        }
        if self.newest.len() >= Self::LISTED {
            self.forgotten = Some(self.newest.remove(0));
        }
        self.newest.push(seq);
    }
}

/// Whether an outline could follow an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Step {
    /// It stands after the entry now.
    Taken,
    /// The entry brings back what only the whole fold knows. The outline is of no use any more.
    Unclear,
}

/// Which messages a window holds, where, and in which form.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outline {
    /// The entry after which the window stood so; `None` before the first entry.
    pub at: Option<Seq>,
    /// The iteration of that entry.
    pub iteration: Iteration,
    /// The iteration that the next entry belongs to, less one: the calls so far.
    pub calls: u64,
    /// The entry that filed the request settings in force.
    pub settings: Option<Seq>,
    /// The newest entry that says that words were destroyed.
    pub redacted: Option<Seq>,
    /// The first entry of an unknown kind that changes windows: from it on nothing can be shown.
    pub unsupported: Option<Seq>,
    /// The strategies that asked the groups, in the order of their first such visit.
    pub asked: Vec<Asked>,
    /// The entries by which messages outside the window may have changed.
    pub touched: Touched,
    pub(super) items: BTreeMap<MessageId, Placed>,
    /// Calls whose final result is one that the engine made and the window holds, with the message.
    pub(super) synthetic: BTreeMap<(Seq, u32), Seq>,
}

/// Reads an entry of the log that an outline goes along; `None` where there is none.
pub type Look<'a, E> = &'a mut dyn FnMut(Seq) -> Result<Option<Entry>, E>;

impl Outline {
    /// The outline of the window now.
    #[must_use]
    pub fn of(p: &Projection) -> Self {
        let at = p.head().map(|h| h.seq);
        let mut outline = Self {
            at,
            iteration: at.map_or(Iteration(0), |n| p.iteration_of(n)),
            calls: p.next_iteration().0.saturating_sub(1),
            settings: p.settings().map(|(seq, _)| *seq),
            redacted: p.redacted,
            unsupported: p.unsupported(),
            asked: asked(p),
            touched: p.touched.clone(),
            ..Self::default()
        };
        // In window order, which is nearly that of ids: a map is made of all at once in less time.
        let mut items = Vec::with_capacity(p.items.len());
        for item in p.items.iter() {
            let Some(message) = p.message(item.id) else {
                continue;
            };
            let (Some(form), Some(life)) = (message.form(), message.lives.last()) else {
                continue;
            };
            let placed = Placed {
                place: item.place,
                id: item.id,
                form: form.given,
                payload: form.payload,
                entered: life.entered.seq,
                pinned: message.pinned,
            };
            items.push((item.id, placed));
            if message.author() != Author::Engine {
                continue;
            }
            let parts = message.forms.first().map(|f| f.skeleton.parts.as_slice());
            for key in parts.into_iter().flatten().filter_map(answered) {
                let info = p.call_part(key.0, key.1);
                if info.is_some_and(|c| c.result == Some((item.id.seq(), true))) {
                    outline.synthetic.insert(key, item.id.seq());
                }
            }
        }
        outline.items = items.into_iter().collect();
        outline
    }

    /// How many messages the window holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether the window holds no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// A message of the window.
    #[must_use]
    pub fn get(&self, id: MessageId) -> Option<&Placed> {
        self.items.get(&id)
    }

    /// The calls that only this message by the engine answers, where it is one.
    pub fn stands_in_for(&self, id: MessageId) -> impl Iterator<Item = (Seq, u32)> {
        let calls = self.synthetic.iter();
        calls.filter_map(move |(call, result)| (*result == id.seq()).then_some(*call))
    }

    /// The messages, in window order.
    #[must_use]
    pub fn items(&self) -> Vec<Placed> {
        let mut items: Vec<Placed> = self.items.values().copied().collect();
        items.sort_by_key(|i| (i.place, i.id)); // nearly sorted, which this sort makes use of
        items
    }

    /// Goes on to the next entry. `look` reads an earlier one, where that decides.
    ///
    /// # Errors
    /// When `look` fails; the outline is of no use then.
    pub fn apply<E>(&mut self, entry: &Entry, look: Look<'_, E>) -> Result<Step, E> {
        self.at = Some(entry.seq);
        self.iteration = Iteration(self.calls.saturating_add(1));
        let items = &self.items;
        let visible = |seq| items.contains_key(&MessageId(seq));
        self.touched.note(entry, visible);
        match &entry.body {
            Body::Opened(_) | Body::Noted(_) | Body::Returned(_) => {}
            Body::Redacted(_) => self.redacted = Some(entry.seq),
            Body::Called(_) => self.calls = self.calls.saturating_add(1),
            Body::Configured(c) => self.configured(entry.seq, c),
            Body::Appended(a) => self.appended(entry.seq, a, look)?,
            Body::Visited(v) => {
                self.visited(entry.seq, v);
                return Ok(self.changed(entry.seq, &v.change));
            }
            Body::Edited(e) => return Ok(self.changed(entry.seq, &e.change)),
            Body::Unknown { .. } => {
                if entry.must_understand {
                    self.unsupported.get_or_insert(entry.seq);
                }
            }
        }
        Ok(Step::Taken)
    }

    fn configured(&mut self, seq: Seq, c: &Configured) {
        if c.settings.is_some() {
            self.settings = Some(seq);
        }
    }

    fn visited(&mut self, seq: Seq, v: &Visited) {
        if !v.outcome.asked() {
            return;
        }
        match self.asked.iter_mut().find(|a| a.strategy == v.strategy) {
            Some(asked) => {
                asked.visits = asked.visits.saturating_add(1);
                asked.newest = seq;
            }
            None => self.asked.push(Asked {
                strategy: v.strategy.clone(),
                visits: 1,
                newest: seq,
            }),
        }
    }

    fn appended<E>(&mut self, seq: Seq, a: &Appended, look: Look<'_, E>) -> Result<(), E> {
        let superseded = self.note_results(seq, a, look)?;
        if !self.partner_is_away(seq, a, look)? {
            self.enter(seq, seq, 0);
        }
        for old in superseded {
            self.leave(old);
        }
        Ok(())
    }

    /// Whether it answers or continues a message that was logged and is not in the window.
    fn partner_is_away<E>(&self, seq: Seq, a: &Appended, look: Look<'_, E>) -> Result<bool, E> {
        let answers = a.skeleton.parts.iter().filter_map(|p| p.answers);
        for partner in answers.map(|(message, _)| message).chain(a.continues) {
            let known = partner >= seq || self.items.contains_key(&MessageId(partner));
            if !known && look(partner)?.is_some_and(|e| is_message(&e.body)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Notes which calls only the engine has answered. Gives the messages by the engine that a newer
    /// result stands for from here on.
    fn note_results<E>(
        &mut self,
        seq: Seq,
        a: &Appended,
        look: Look<'_, E>,
    ) -> Result<Vec<Seq>, E> {
        let mut superseded = Vec::new();
        for (position, part) in a.skeleton.parts.iter().enumerate() {
            let Some(call) = answered(part) else { continue };
            superseded.extend(self.synthetic.remove(&call));
            if a.skeleton.author != Author::Engine {
                continue;
            }
            let earlier = a.skeleton.parts.get(..position).unwrap_or_default();
            let is_call = if call.0 == seq {
                holds_call(earlier, call.1)
            } else {
                matches!(look(call.0)?.map(|e| e.body), Some(Body::Appended(a))
                    if call.0 < seq && holds_call(&a.skeleton.parts, call.1))
            };
            if is_call {
                self.synthetic.insert(call, seq);
            }
        }
        if planted(Bug::OutlineForgetsSupersession) {
            superseded.clear();
        }
        Ok(superseded)
    }

    fn enter(&mut self, seq: Seq, place: Seq, payload: u32) {
        let id = MessageId(seq);
        self.items.insert(
            id,
            Placed {
                place,
                id,
                form: seq,
                payload,
                entered: seq,
                pinned: false,
            },
        );
    }

    fn leave(&mut self, seq: Seq) {
        if self.items.remove(&MessageId(seq)).is_some() {
            self.synthetic.retain(|_, result| *result != seq);
        }
    }

    /// The message by the engine that alone answers a call and is in the window.
    #[must_use]
    pub fn stand_in_of(&self, call: (Seq, u32)) -> Option<Seq> {
        self.synthetic.get(&call).copied()
    }

    /// The messages of the window that ranges name.
    #[must_use]
    pub fn within(&self, ranges: &Ranges) -> Vec<Seq> {
        let mut found = Vec::new();
        for (first, last) in ranges.0.iter().filter(|(first, last)| first <= last) {
            let range = MessageId(*first)..=MessageId(*last);
            found.extend(self.items.range(range).map(|(id, _)| id.seq()));
        }
        found
    }

    fn changed(&mut self, seq: Seq, c: &Change) -> Step {
        for left in &c.left {
            for gone in self.within(&left.messages) {
                self.leave(gone);
            }
        }
        let mut introduced = false;
        for (payload, stand_in) in (0_u32..).zip(&c.stand_ins) {
            let step = match stand_in.kind {
                StandInKind::Form => self.new_form(seq, stand_in, payload),
                StandInKind::Claim | StandInKind::Notice => {
                    self.claim(seq, stand_in, payload, introduced);
                    introduced = true;
                    Step::Taken
                }
            };
            if step == Step::Unclear {
                return step;
            }
        }
        // Where a message stood, in which form, and what it covers again: not known here.
        let reverted = |(message, _): &(Seq, Seq)| self.items.contains_key(&MessageId(*message));
        if !c.entered.is_empty() || c.reverted.iter().any(reverted) {
            return Step::Unclear;
        }
        self.pin(&c.pinned, true);
        self.pin(&c.unpinned, false);
        Step::Taken
    }

    fn pin(&mut self, ranges: &Ranges, pinned: bool) {
        for seq in self.within(ranges) {
            if let Some(item) = self.items.get_mut(&MessageId(seq)) {
                item.pinned = pinned;
            }
        }
    }

    /// A form has one source. Of a longer range the fold takes the first message, in the window or
    /// not, which is not known here.
    fn new_form(&mut self, seq: Seq, s: &StandIn, payload: u32) -> Step {
        match s.sources.0.as_slice() {
            [] => Step::Taken,
            [(first, last)] if first == last => {
                if let Some(item) = self.items.get_mut(&MessageId(*first)) {
                    item.form = seq;
                    item.payload = payload;
                }
                Step::Taken
            }
            _ => Step::Unclear,
        }
    }

    /// One claim or notice an entry enters; sources of a second one leave all the same.
    fn claim(&mut self, seq: Seq, s: &StandIn, payload: u32, introduced: bool) {
        let sources = self.within(&s.sources);
        let place = sources
            .iter()
            .filter_map(|seq| self.items.get(&MessageId(*seq)))
            .map(|i| i.place)
            .min();
        for gone in sources {
            self.leave(gone);
        }
        if !introduced {
            self.enter(seq, place.unwrap_or(seq), payload);
        }
    }
}

fn asked(p: &Projection) -> Vec<Asked> {
    let mut found: Vec<(Seq, Asked)> = Vec::new();
    for (at, strategy) in p.strategies().iter().enumerate() {
        let visits = p.visits_of(at);
        let visit = |ordinal| p.visit_of(at, ordinal).map(|v| v.fact.seq);
        let newest = visits.checked_sub(1).and_then(visit);
        if let (Some(first), Some(newest)) = (visit(0), newest) {
            let asked = Asked {
                strategy: strategy.clone(),
                visits: u64::try_from(visits).unwrap_or(u64::MAX),
                newest,
            };
            found.push((first, asked));
        }
    }
    found.sort_by_key(|(first, _)| *first);
    found.into_iter().map(|(_, asked)| asked).collect()
}

/// The call that a part is a final result of.
#[must_use]
pub fn answered(part: &PartSkeleton) -> Option<(Seq, u32)> {
    let last = part.kind == PartKind::Result && !part.is(PartSkeleton::INTERIM);
    part.answers.filter(|_| last)
}

fn holds_call(parts: &[PartSkeleton], position: u32) -> bool {
    let part = usize::try_from(position).ok().and_then(|at| parts.get(at));
    part.is_some_and(|p| p.kind == PartKind::Call)
}

/// Whether an entry introduces a message.
#[must_use]
pub fn is_message(body: &Body) -> bool {
    let introduces = |c: &Change| c.stand_ins.iter().any(|s| s.kind != StandInKind::Form);
    matches!(body, Body::Appended(_)) || body.change().is_some_and(introduces)
}
