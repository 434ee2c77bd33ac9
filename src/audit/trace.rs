//! `why` without the fold: a message's story from the entries of its stay. What it is after it left
//! follows from the list of entries that touched what was away. Where that is not enough (it came
//! back, its stay is very long, the list is cut), the fold answers.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::why::{FormOf, Lived, Moment, Refusals, Story, never_logged};
use crate::engine::{Conversation, Error};
use crate::log::{
    Appended, Body, Change, Entry, GroupReason, Kind, LeftReason, MessageId, Ranges, Seq,
    StandInKind, Trigger, Visited,
};
use crate::planted::{Bug, planted};
use crate::window::{Conservation, Fact, Life, LifeEnd, Outline, answered, is_message};

/// The most entries of a stay that are read; beyond it a fold, which is then held, costs less.
const STAY_MAX: u64 = 1 << 14;
/// The most entries that are looked at to see what came back with an entry.
const BACK_MAX: u64 = 64;
/// The longest chain of claims, each standing for the one before, that is followed.
const CHAIN_MAX: u32 = 16;

/// A message's story as of entry `n`; `None` where it takes the fold, or that is held anyway.
///
/// # Errors
/// `nothing-matches` when it was never logged; when the log cannot be read.
pub(super) fn trace(chat: &Conversation, id: MessageId, n: Seq) -> Result<Option<Story>, Error> {
    let head = chat.head()?.map_or(Seq(0), |h| h.seq);
    if chat.is_held() {
        return Ok(None);
    }
    // Of a log that no window can be shown of, the fold still tells.
    let Ok(now) = chat.outline_after(head) else {
        return Ok(None);
    };
    if id.seq() > head || !is_message(&chat.entry(id.seq())?.body) {
        return Err(never_logged(chat, id));
    }
    let then = if n == head {
        now.clone()
    } else {
        chat.outline_after(n)?
    };
    Outlines { chat, now, then }.story(id, CHAIN_MAX)
}

/// The window now and at the moment that is asked about.
struct Outlines<'a> {
    chat: &'a Conversation,
    now: Outline,
    then: Outline,
}

impl Outlines<'_> {
    fn at(&self) -> Seq {
        self.then.at.unwrap_or_default()
    }

    fn story(&self, id: MessageId, chain: u32) -> Result<Option<Story>, Error> {
        let Some(trace) = self.traced(id)? else {
            return Ok(None);
        };
        let n = self.at();
        let end = trace.left.as_ref().filter(|left| left.end.by.seq <= n);
        let end = end.map(|left| left.end.clone());
        let logged = trace.logged.seq <= n;
        let visible = logged && end.is_none();
        if visible != self.then.get(id).is_some() {
            return Ok(None);
        }
        let fate = match &end {
            _ if !logged => None,
            None => Some(Conservation::Visible),
            Some(end) => match self.fate(end, chain)? {
                None => return Ok(None),
                fate => fate,
            },
        };
        let stand_in = end.as_ref().and_then(|e| e.stand_in);
        Ok(Some(Story {
            id,
            logged: trace.logged,
            at: Moment {
                seq: n,
                iteration: self.then.iteration,
            },
            next: crate::log::Iteration(self.then.calls.saturating_add(1)),
            fate,
            stand_in_there: stand_in.is_some_and(|s| self.then.get(s).is_some()),
            forms: trace.forms_until(n),
            lives: trace.lives_until(n),
            refusals: trace.refusals_until(n),
            form: self.newest_form(&trace),
            end,
        }))
    }

    /// What became of a message that left so: it is covered while what stands for it is in the window
    /// or covered itself. `None`: that takes the fold.
    fn fate(&self, end: &LifeEnd, chain: u32) -> Result<Option<Conservation>, Error> {
        let Some(stand_in) = end.stand_in else {
            return Ok(Some(Conservation::Gone));
        };
        let covered = end.reason == LeftReason::Superseded || self.then.get(stand_in).is_some();
        if covered {
            return Ok(Some(Conservation::Covered));
        }
        let Some(chain) = chain.checked_sub(1) else {
            return Ok(None);
        };
        let Some(story) = self.story(stand_in, chain)? else {
            return Ok(None);
        };
        Ok(match story.fate {
            Some(Conservation::Visible | Conservation::Covered) => Some(Conservation::Covered),
            fate => fate,
        })
    }

    fn newest_form(&self, trace: &Trace) -> (Seq, u32) {
        if let Some(placed) = self.now.get(trace.id) {
            return (placed.form, placed.payload);
        }
        let newest = trace.forms.last();
        newest.map_or((trace.id.seq(), 0), |f| (f.given, f.payload))
    }

    /// Reads the entries of a stay; `None` where they do not tell everything.
    fn traced(&self, id: MessageId) -> Result<Option<Trace>, Error> {
        let (chat, seq) = (self.chat, id.seq());
        let born = chat.outline_after(seq)?;
        let stays = self.now.get(id);
        let first = |placed: &crate::window::Placed| placed.entered == seq;
        if !born.get(id).is_some_and(first) || !stays.is_none_or(first) {
            return Ok(None);
        }
        let head = self.now.at.unwrap_or_default();
        // What is in the window still: nothing after the moment matters.
        let until = if stays.is_some() {
            self.at().max(seq)
        } else {
            head
        };
        let calls: BTreeSet<_> = born.stands_in_for(id).collect();
        let answers = !calls.is_empty();
        let last = until.min(Seq(seq.0.saturating_add(STAY_MAX)));
        let mut trace = None;
        let says = |at: Seq, kind| match kind {
            _ if at == seq => true,
            Some(Kind::Visited | Kind::Edited) => true,
            // It matters only to what the engine answered with, and a real result supersedes.
            Some(Kind::Appended) => answers,
            _ => false,
        };
        let stay = (seq, last);
        chat.store()
            .entries_of(chat.id(), stay, &says, &mut |entry| {
                let trace = trace.get_or_insert_with(|| Trace::new(id, entry, &calls));
                trace.step(entry);
                if trace.left.is_some() || trace.unclear {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })?;
        let Some(trace) = trace.filter(|t| !t.unclear) else {
            return Ok(None);
        };
        let whole = match &trace.left {
            None => stays.is_some() && last == until,
            Some(left) => self.untouched(&trace, left.end.by.seq)?,
        };
        let whole = whole && !self.came_back_over_it(&trace)?;
        Ok(whole.then_some(trace))
    }

    /// Whether nothing touched the message after it had left.
    fn untouched(&self, trace: &Trace, left: Seq) -> Result<bool, Error> {
        let Some(touched) = self.now.touched.since(left) else {
            return Ok(false);
        };
        for seq in touched {
            let body = self.chat.entry(*seq)?.body;
            let it = trace.id.seq();
            let concerns = match &body {
                Body::Appended(_) => !trace.calls.is_empty(),
                body => body.change().is_some_and(|c| {
                    let sources = |s: &crate::log::StandIn| {
                        s.kind == StandInKind::Form && names(&s.sources, it)
                    };
                    names(&c.entered, it)
                        || c.reverted.iter().any(|(message, _)| *message == it)
                        || c.stand_ins.iter().any(sources)
                }),
            };
            if concerns {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a claim may have come back during the stay: it covers its sources again.
    fn came_back_over_it(&self, trace: &Trace) -> Result<bool, Error> {
        for (by, ranges) in &trace.came_back {
            for (first, last) in &ranges.0 {
                let last = (*last).min(*by);
                if last.0.saturating_sub(first.0) > BACK_MAX {
                    return Ok(true);
                }
                let mut claim = false;
                let (store, id) = (self.chat.store(), self.chat.id());
                store.entries(id, *first, last, &mut |sealed| {
                    let body = &sealed.entry.body;
                    claim |= is_message(body) && !matches!(body, Body::Appended(_));
                    ControlFlow::Continue(())
                })?;
                if claim {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// Whether ranges name a message.
fn names(ranges: &Ranges, it: Seq) -> bool {
    let mut ranges = ranges.0.iter();
    ranges.any(|(first, last)| *first <= it && it <= *last)
}

/// A content, in force from an entry on.
struct Formed {
    since: Fact,
    given: Seq,
    payload: u32,
    reason: Option<LeftReason>,
}

struct Left {
    end: LifeEnd,
    strategy: Option<String>,
    trigger: Option<Trigger>,
}

/// A run of equal refusals; visits are counted per strategy, from the beginning of the stay.
struct Span {
    strategy: String,
    reason: GroupReason,
    first: usize,
    /// The last one that found it so; `None` while it stands.
    last: Option<usize>,
}

/// What the entries of a stay say of one message.
struct Trace {
    id: MessageId,
    /// The calls that it answers for the engine.
    calls: BTreeSet<(Seq, u32)>,
    logged: Fact,
    forms: Vec<Formed>,
    left: Option<Left>,
    spans: Vec<Span>,
    /// Visits that asked, by strategy.
    asked: Vec<(String, Vec<Fact>)>,
    /// What came back meanwhile, by which entry.
    came_back: Vec<(Seq, Ranges)>,
    /// Something happened to it that only the fold knows.
    unclear: bool,
}

const fn fact(entry: &Entry) -> Fact {
    Fact {
        seq: entry.seq,
        iteration: entry.iteration,
        at: entry.at,
    }
}

impl Trace {
    fn new(id: MessageId, entry: &Entry, calls: &BTreeSet<(Seq, u32)>) -> Self {
        let logged = fact(entry);
        let stand_ins = entry.body.change().map(|c| c.stand_ins.as_slice());
        let mut stand_ins = (0_u32..).zip(stand_ins.into_iter().flatten());
        let own = stand_ins.find(|(_, s)| s.kind != StandInKind::Form);
        let first = Formed {
            since: logged,
            given: logged.seq,
            payload: own.map_or(0, |(payload, _)| payload),
            reason: None,
        };
        Self {
            id,
            calls: calls.clone(),
            logged,
            forms: vec![first],
            left: None,
            spans: Vec::new(),
            asked: Vec::new(),
            came_back: Vec::new(),
            unclear: false,
        }
    }

    fn names_it(&self, ranges: &Ranges) -> bool {
        names(ranges, self.id.seq())
    }

    fn asked_by(&self, strategy: &str) -> &[Fact] {
        let mut asked = self.asked.iter();
        let by = asked.find(|(name, _)| name == strategy);
        by.map_or(&[], |(_, visits)| visits)
    }

    fn visits_of(&self, strategy: &str) -> usize {
        self.asked_by(strategy).len()
    }

    fn step(&mut self, entry: &Entry) {
        match &entry.body {
            Body::Appended(a) => self.appended(entry, a),
            Body::Visited(v) => self.visited(entry, v),
            Body::Edited(e) => self.changed(entry, &e.change, None),
            _ => {}
        }
    }

    fn appended(&mut self, entry: &Entry, a: &Appended) {
        let mut answers = a.skeleton.parts.iter().filter_map(answered);
        if entry.seq != self.id.seq() && answers.any(|call| self.calls.contains(&call)) {
            let newer = Some(MessageId(entry.seq));
            self.leave(entry, LeftReason::Superseded, newer, None);
        }
    }

    fn visited(&mut self, entry: &Entry, v: &Visited) {
        let ordinal = self.visits_of(&v.strategy);
        if self.names_it(&v.released) {
            self.close(&v.strategy, ordinal);
        }
        self.changed(entry, &v.change, Some(v));
        if !v.outcome.asked() {
            return;
        }
        match self.asked.iter_mut().find(|(name, _)| *name == v.strategy) {
            Some((_, visits)) => visits.push(fact(entry)),
            None => self.asked.push((v.strategy.clone(), vec![fact(entry)])),
        }
        for refused in &v.refused {
            if self.left.is_none() && self.names_it(&refused.messages) {
                self.close(&v.strategy, ordinal);
                self.spans.push(Span {
                    strategy: v.strategy.clone(),
                    reason: refused.reason,
                    first: ordinal,
                    last: None,
                });
            }
        }
    }

    /// Ends a standing refusal: `next` is the first visit it no longer holds for.
    fn close(&mut self, strategy: &str, next: usize) {
        let spans = self.spans.iter_mut();
        let mut standing = spans.filter(|s| s.last.is_none() && s.strategy == strategy);
        if let Some(span) = standing.next() {
            span.last = Some(next.saturating_sub(1));
        }
    }

    fn changed(&mut self, entry: &Entry, c: &Change, visit: Option<&Visited>) {
        let introduced = entry.seq == self.id.seq();
        for left in c.left.iter().filter(|_| !introduced) {
            if self.names_it(&left.messages) {
                self.leave(entry, left.reason, None, visit);
            }
        }
        for (payload, s) in (0_u32..).zip(&c.stand_ins) {
            let single = s.sources.0.as_slice() == [(self.id.seq(), self.id.seq())];
            match s.kind {
                StandInKind::Form if single => self.forms.push(Formed {
                    since: fact(entry),
                    given: entry.seq,
                    payload,
                    reason: Some(s.reason),
                }),
                _ if !self.names_it(&s.sources) => {}
                StandInKind::Form => self.unclear = true,
                StandInKind::Claim | StandInKind::Notice if introduced => self.unclear = true,
                StandInKind::Claim | StandInKind::Notice => {
                    self.leave(entry, s.reason, Some(MessageId(entry.seq)), visit);
                }
            }
        }
        if !c.entered.is_empty() {
            self.unclear |= self.left.is_some() && self.names_it(&c.entered);
            self.came_back.push((entry.seq, c.entered.clone()));
        }
        let it = self.id.seq();
        for (_, given) in c.reverted.iter().filter(|(message, _)| *message == it) {
            self.revert(entry, *given);
        }
    }

    fn revert(&mut self, entry: &Entry, given: Seq) {
        if let Some(form) = self.forms.iter().find(|f| f.given == given) {
            let form = Formed {
                since: fact(entry),
                reason: Some(LeftReason::Replaced),
                ..*form
            };
            self.forms.push(form);
        }
    }

    fn leave(
        &mut self,
        entry: &Entry,
        reason: LeftReason,
        stand_in: Option<MessageId>,
        visit: Option<&Visited>,
    ) {
        if self.left.is_some() {
            return;
        }
        let end = LifeEnd {
            by: fact(entry),
            reason,
            stand_in,
            strategy: None,
        };
        self.left = Some(Left {
            end,
            strategy: visit.map(|v| v.strategy.clone()),
            trigger: visit.map(|v| v.trigger),
        });
        for at in 0..self.spans.len() {
            let strategy = self.spans.get(at).map(|s| s.strategy.clone());
            let strategy = strategy.unwrap_or_default();
            let next = self.visits_of(&strategy);
            self.close(&strategy, next);
        }
    }

    fn forms_until(&self, n: Seq) -> Vec<FormOf> {
        let forms = self.forms.iter().filter(|f| f.since.seq <= n);
        forms
            .map(|f| FormOf {
                seq: f.since.seq,
                iteration: f.since.iteration,
                reason: f.reason,
            })
            .collect()
    }

    fn lives_until(&self, n: Seq) -> Vec<Lived> {
        if self.logged.seq > n {
            return Vec::new();
        }
        let left = self.left.as_ref().filter(|left| left.end.by.seq <= n);
        vec![Lived {
            life: Life {
                entered: self.logged,
                left: left.map(|left| left.end.clone()),
            },
            strategy: left.and_then(|left| left.strategy.clone()),
            trigger: left.and_then(|left| left.trigger),
        }]
    }

    fn refusals_until(&self, n: Seq) -> Vec<Refusals> {
        let spans = self.spans.iter();
        spans.filter_map(|span| self.refused(span, n)).collect()
    }

    fn refused(&self, span: &Span, n: Seq) -> Option<Refusals> {
        let asked = self.asked_by(&span.strategy);
        let until = asked.partition_point(|by| by.seq <= n);
        let visits = asked.get(..until)?;
        let first = visits.get(span.first)?;
        let ended = span.last.filter(|_| !planted(Bug::WhyNamesTheNewestVisit));
        let last = visits
            .len()
            .checked_sub(1)?
            .min(ended.unwrap_or(usize::MAX));
        let count = last.saturating_sub(span.first).saturating_add(1);
        Some(Refusals {
            reason: span.reason,
            strategy: span.strategy.clone(),
            first: (*first).into(),
            last: (*visits.get(last)?).into(),
            visits: u64::try_from(count).unwrap_or(u64::MAX),
        })
    }
}
