//! The naive fold: plain vectors, every question answered by scanning from the start. Shares no code
//! with the real fold; `log` gives it the entries' plain data only.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::log::{
    Appended, Author, Body, Change, Commitment, Entry, GroupReason, LeftReason, PartKind,
    PartSkeleton, Ranges, Seq, Skeleton, StandIn, StandInKind, VisitOutcome, Visited,
};

/// How a message is out of the window.
#[derive(Clone, Debug, PartialEq)]
pub struct Out {
    /// The entry that let it leave.
    pub by: u64,
    /// Why.
    pub reason: LeftReason,
    /// The claim or newer result that stands for it.
    pub stand_in: Option<u64>,
}

/// A message ever logged.
#[derive(Clone, Debug)]
pub struct Message {
    /// The entry that introduced it.
    pub id: u64,
    /// Where it stands in a window.
    pub place: u64,
    /// Who wrote it.
    pub author: Author,
    /// Whether it is of the system envelope.
    pub instruction: bool,
    /// The messages it cannot be without.
    pub edges: Vec<u64>,
    /// Of a claim: what it stands for, and why that left.
    pub sources: Option<(Vec<u64>, LeftReason)>,
    /// Its contents: since which entry, given by which entry, the commitment.
    pub forms: Vec<(u64, u64, Commitment)>,
    /// Per content: all of it but the words.
    pub skeletons: Vec<Arc<Skeleton>>,
    /// Per content: its payload's position in the entry that gave it, and why it took the place of
    /// the one before.
    pub given: Vec<(u32, Option<LeftReason>)>,
    /// Whether it says that others left, and so counts for nothing.
    pub notice: bool,
    /// Whether someone pinned it.
    pub pinned: bool,
    /// The entry that brought it into the window last.
    pub entered: u64,
    /// How it is out of the window; `None`: it is in it.
    pub out: Option<Out>,
    /// How it was out of the window before it came back last.
    pub was_out: Option<Out>,
    /// Calls before the entry that last brought it back.
    pub restored: Option<usize>,
}

/// A standing or ended refusal: strategy, reason, first and last visit that found it.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The strategy that was refused.
    pub strategy: String,
    /// Why.
    pub reason: GroupReason,
    /// The first visit that found it.
    pub first: u64,
    /// The last one.
    pub last: u64,
    /// How many did.
    pub visits: u64,
    /// Whether it still stands.
    pub standing: bool,
}

/// What stood after one entry.
#[derive(Clone, Debug, Default)]
pub struct Moment {
    /// Every message so far, in the order of the log.
    pub messages: Vec<Message>,
    /// Ids in window order.
    pub window: Vec<u64>,
    /// The window's digest.
    pub digest: [u8; 32],
    /// The person messages that began a run.
    pub runs: Vec<u64>,
    /// The calls so far with their windows.
    pub calls: Vec<(u64, BTreeSet<u64>)>,
    /// What the newest call was sent, as far as the window still begins so: the place, the message and
    /// the entry that gave its content.
    pub cached: Vec<(u64, u64, u64)>,
    /// Calls without a final result: message and part.
    pub open: BTreeSet<(u64, u32)>,
    /// Refusals by message.
    pub refusals: BTreeMap<u64, Vec<Span>>,
    /// The newest entry that changed the window.
    pub changed: u64,
}

/// What stood after every entry.
#[must_use]
pub fn moments(entries: &[Entry]) -> Vec<Moment> {
    let mut now = Moment::default();
    entries
        .iter()
        .map(|e| {
            now.step(e);
            now.digest = now.hash();
            now.clone()
        })
        .collect()
}

/// How many messages an entry gives words of.
#[must_use]
pub fn messages_of(body: &Body) -> u32 {
    let contents = match body {
        Body::Appended(_) => 1,
        body => body.change().map_or(0, |c| c.stand_ins.len()),
    };
    u32::try_from(contents).unwrap_or(u32::MAX)
}

/// The call that a part answers for good.
pub(super) fn settles(p: &PartSkeleton) -> Option<(Seq, u32)> {
    p.answers.filter(|_| !p.is(PartSkeleton::INTERIM))
}

impl Message {
    /// Its parts, as they were logged.
    #[must_use]
    pub fn parts(&self) -> &[PartSkeleton] {
        self.skeletons.first().map_or(&[], |s| &s.parts)
    }

    /// Whether it is what a source or strategy put in the place of others, or says of them.
    const fn is_claim(&self) -> bool {
        self.sources.is_some()
    }
}

impl Moment {
    /// A message by its id.
    #[must_use]
    pub fn get(&self, id: u64) -> Option<&Message> {
        self.messages.iter().find(|m| m.id == id)
    }

    /// One entry more. The digest is left as it was: see [`Moment::hash`].
    pub(super) fn step(&mut self, e: &Entry) {
        let n = e.seq.0;
        let shown = self.shown();
        match &e.body {
            Body::Appended(a) => self.append(n, a),
            Body::Called(_) => self.calls.push((n, self.window.iter().copied().collect())),
            Body::Visited(v) => {
                let before = self.window.clone();
                self.change(n, &v.change);
                self.refuse(n, v, &before);
            }
            Body::Edited(edit) => self.change(n, &edit.change),
            _ => {}
        }
        let mut visible: Vec<(u64, u64)> = self
            .messages
            .iter()
            .filter(|m| m.out.is_none())
            .map(|m| (m.place, m.id))
            .collect();
        visible.sort_unstable();
        self.window = visible.into_iter().map(|(_, id)| id).collect();
        let now = self.shown();
        if now != shown {
            self.changed = n;
        }
        if matches!(e.body, Body::Called(_)) {
            self.cached = now;
        } else {
            let still = self.cached.iter().zip(&now);
            let still = still.take_while(|(sent, now)| sent == now).count();
            self.cached.truncate(still);
        }
        let window: BTreeSet<u64> = self.window.iter().copied().collect();
        for (id, spans) in &mut self.refusals {
            if !window.contains(id) {
                spans.iter_mut().for_each(|s| s.standing = false);
            }
        }
    }

    /// The window: the place of each message, the message, the entry that gave its content.
    fn shown(&self) -> Vec<(u64, u64, u64)> {
        let shown = |id: &u64| {
            let m = self.get(*id)?;
            Some((m.place, m.id, m.forms.last()?.1))
        };
        self.window.iter().filter_map(shown).collect()
    }

    fn append(&mut self, n: u64, a: &Appended) {
        let parts = &a.skeleton.parts;
        let edges: Vec<u64> = parts
            .iter()
            .filter_map(|p| p.answers)
            .map(|(s, _)| s.0)
            .chain(a.continues.map(|s| s.0))
            .collect();
        let out = edges
            .iter()
            .filter(|s| **s != n)
            .find_map(|s| self.get(*s).and_then(|m| m.out.clone()));
        let older = self.superseded(parts);
        if a.skeleton.author == Author::Person && self.begins_run() {
            self.runs.push(n);
        }
        let spoken = |m: &Message| m.author == Author::Person && !m.is_claim();
        let instruction = a.skeleton.role.is_instruction()
            && a.skeleton.author != Author::Person
            && !self.messages.iter().any(spoken);
        self.messages.push(Message {
            id: n,
            place: n,
            author: a.skeleton.author,
            instruction,
            edges,
            sources: None,
            forms: vec![(n, n, a.content)],
            skeletons: vec![Arc::new(a.skeleton.clone())],
            given: vec![(0, None)],
            notice: false,
            pinned: false,
            entered: n,
            out,
            was_out: None,
            restored: None,
        });
        let out = Out {
            by: n,
            reason: LeftReason::Superseded,
            stand_in: Some(n),
        };
        self.leave(&older, &out, true);
        self.open = self.open_calls();
    }

    /// Synthetic results whose call a real one now answers.
    fn superseded(&self, new: &[PartSkeleton]) -> Vec<u64> {
        let newest_answer = |call: (Seq, u32)| {
            let answers = |m: &&Message| m.parts().iter().any(|p| settles(p) == Some(call));
            self.messages.iter().rev().find(answers)
        };
        new.iter()
            .filter_map(settles)
            .filter_map(newest_answer)
            .filter(|m| m.author == Author::Engine)
            .map(|m| m.id)
            .collect()
    }

    fn open_calls(&self) -> BTreeSet<(u64, u32)> {
        let mut open = BTreeSet::new();
        for m in self.messages.iter().filter(|m| !m.is_claim()) {
            for (i, p) in (0_u32..).zip(m.parts()) {
                if p.kind == PartKind::Call {
                    open.insert((m.id, i));
                } else if let Some((Seq(s), i)) = settles(p) {
                    open.remove(&(s, i));
                }
            }
        }
        open
    }

    /// Asked before the person message is added.
    fn begins_run(&self) -> bool {
        let earlier = || self.messages.iter().rev().filter(|m| !m.is_claim());
        let by_others = |m: &&Message| matches!(m.author, Author::Model | Author::Tool);
        let spoken = earlier()
            .take_while(|m| !by_others(m))
            .any(|m| m.author == Author::Person);
        let settled = earlier()
            .find(by_others)
            .is_none_or(|m| m.author == Author::Model && !self.waits(m));
        self.runs.is_empty() || (settled && !spoken)
    }

    /// Whether a model message, or one it continues, holds a call that its own message does not answer.
    fn waits(&self, message: &Message) -> bool {
        let parts = message.parts();
        let answered = |i: u32| {
            parts
                .iter()
                .any(|p| p.answers == Some((Seq(message.id), i)))
        };
        let own = (0_u32..)
            .zip(parts)
            .any(|(i, p)| p.kind == PartKind::Call && !answered(i));
        let answers = |id: u64| {
            parts
                .iter()
                .filter_map(|p| p.answers)
                .any(|(s, _)| s.0 == id)
        };
        let mut earlier = message.edges.iter().copied().filter(|e| *e < message.id);
        let continued = earlier.find(|e| !answers(*e)).and_then(|e| self.get(e));
        own || continued.is_some_and(|m| self.waits(m))
    }

    fn ids(&self, ranges: &Ranges) -> Vec<u64> {
        let inside = |id: u64| ranges.0.iter().any(|(a, b)| a.0 <= id && id <= b.0);
        self.messages
            .iter()
            .map(|m| m.id)
            .filter(|id| inside(*id))
            .collect()
    }

    fn leave(&mut self, ids: &[u64], out: &Out, also_absent: bool) {
        for m in self.messages.iter_mut().filter(|m| ids.contains(&m.id)) {
            if m.out.is_none() || also_absent {
                m.out = Some(out.clone());
                m.restored = None;
                m.pinned = false;
            }
        }
    }

    fn stands(&mut self, n: u64, payload: u32, s: &StandIn) {
        let ids: Vec<u64> = self.ids(&s.sources);
        if s.kind == StandInKind::Form {
            let mut target = self
                .messages
                .iter_mut()
                .filter(|m| ids.first() == Some(&m.id));
            target.by_ref().for_each(|m| {
                m.forms.push((n, n, s.content));
                m.skeletons.push(Arc::new(s.skeleton.clone()));
                m.given.push((payload, Some(s.reason)));
            });
            return;
        }
        let there: Vec<u64> = ids
            .iter()
            .copied()
            .filter(|id| self.window.contains(id))
            .collect();
        let place = there
            .iter()
            .filter_map(|id| self.get(*id))
            .map(|m| m.place)
            .min()
            .unwrap_or(n);
        self.leave(
            &there,
            &Out {
                by: n,
                reason: s.reason,
                stand_in: Some(n),
            },
            false,
        );
        self.messages.push(Message {
            id: n,
            place,
            author: s.skeleton.author,
            instruction: false,
            edges: Vec::new(),
            sources: Some((ids, s.reason)),
            forms: vec![(n, n, s.content)],
            skeletons: vec![Arc::new(s.skeleton.clone())],
            given: vec![(payload, None)],
            notice: s.kind == StandInKind::Notice,
            pinned: false,
            entered: n,
            out: None,
            was_out: None,
            restored: None,
        });
    }

    fn change(&mut self, n: u64, c: &Change) {
        for left in &c.left {
            let ids = self.ids(&left.messages);
            self.leave(
                &ids,
                &Out {
                    by: n,
                    reason: left.reason,
                    stand_in: None,
                },
                false,
            );
        }
        for (payload, stand_in) in (0_u32..).zip(&c.stand_ins) {
            self.stands(n, payload, stand_in);
        }
        let calls = self.calls.len();
        for id in self.ids(&c.entered) {
            let Some(m) = self.messages.iter_mut().find(|m| m.id == id) else {
                continue;
            };
            if m.out.is_some() {
                m.entered = n;
            }
            m.was_out = m.out.take().or(m.was_out.take());
            m.restored = Some(calls);
            if let Some((sources, reason)) = m.sources.clone() {
                let covered: Vec<u64> = sources
                    .iter()
                    .filter(|s| self.get(**s).is_some_and(|m| m.out.is_none()))
                    .flat_map(|s| self.group(*s))
                    .collect();
                self.leave(
                    &covered,
                    &Out {
                        by: n,
                        reason,
                        stand_in: Some(id),
                    },
                    false,
                );
            }
        }
        for (message, given) in &c.reverted {
            for m in self.messages.iter_mut().filter(|m| m.id == message.0) {
                let form = m.forms.iter().position(|f| f.1 == given.0);
                let content = form.and_then(|at| m.forms.get(at).copied());
                let skeleton = form.and_then(|at| m.skeletons.get(at).cloned());
                m.forms
                    .extend(content.map(|(_, given, content)| (n, given, content)));
                m.skeletons.extend(skeleton);
                let payload = form.and_then(|at| m.given.get(at).copied());
                m.given
                    .extend(payload.map(|(p, _)| (p, Some(LeftReason::Replaced))));
            }
        }
        let (pinned, unpinned) = (self.ids(&c.pinned), self.ids(&c.unpinned));
        for m in &mut self.messages {
            m.pinned |= pinned.contains(&m.id);
            if unpinned.contains(&m.id) {
                m.pinned = false;
                m.restored = None;
            }
        }
    }

    fn refuse(&mut self, n: u64, v: &Visited, before: &[u64]) {
        let unasked = matches!(
            v.outcome,
            VisitOutcome::Unmeasurable | VisitOutcome::StaleMeasurement | VisitOutcome::Late
        );
        let released = self.ids(&v.released);
        for (id, spans) in &mut self.refusals {
            for s in spans
                .iter_mut()
                .filter(|s| s.standing && s.strategy == v.strategy)
            {
                if released.contains(id) || !before.contains(id) {
                    s.standing = false;
                }
            }
        }
        // What could not measure asked nobody, and changes nothing about who refuses.
        if unasked {
            return;
        }
        for r in &v.refused {
            for id in self.ids(&r.messages) {
                let spans = self.refusals.entry(id).or_default();
                spans
                    .iter_mut()
                    .filter(|s| s.strategy == v.strategy)
                    .for_each(|s| s.standing = false);
                spans.push(Span {
                    strategy: v.strategy.clone(),
                    reason: r.reason,
                    first: n,
                    last: n,
                    visits: 0,
                    standing: true,
                });
            }
        }
        for s in self
            .refusals
            .values_mut()
            .flatten()
            .filter(|s| s.standing && s.strategy == v.strategy)
        {
            (s.last, s.visits) = (n, s.visits.saturating_add(1));
        }
    }

    /// Everything reachable over edges, in either direction.
    #[must_use]
    pub fn group(&self, id: u64) -> BTreeSet<u64> {
        let mut group = BTreeSet::from([id]);
        loop {
            let more: Vec<u64> = self
                .messages
                .iter()
                .flat_map(|m| m.edges.iter().map(move |e| (m.id, *e)))
                .flat_map(|(a, b)| [(a, b), (b, a)])
                .filter(|(a, b)| group.contains(a) && !group.contains(b))
                .map(|(_, b)| b)
                .collect();
            if more.is_empty() {
                return group;
            }
            group.extend(more);
        }
    }

    /// `visible`, `covered` or `evicted`; `None` where it is not logged.
    #[must_use]
    pub fn fate(&self, id: u64) -> Option<&'static str> {
        let Some(out) = &self.get(id)?.out else {
            return Some("visible");
        };
        Some(match out.stand_in {
            Some(_) if out.reason == LeftReason::Superseded => "covered",
            Some(stand_in) if self.fate(stand_in) != Some("evicted") => "covered",
            _ => "evicted",
        })
    }

    /// Whether it is of the current request.
    #[must_use]
    pub fn in_request(&self, id: u64) -> bool {
        let person = self.get(id).is_some_and(|m| m.author == Author::Person);
        person && self.runs.last().is_some_and(|run| *run <= id)
    }

    /// Whether it counts for nothing: it is of the system envelope, or a notice.
    #[must_use]
    pub fn is_aside(&self, id: u64) -> bool {
        self.in_envelope(id) || self.get(id).is_some_and(|m| m.notice)
    }

    /// Whether it is of the system envelope.
    #[must_use]
    pub fn in_envelope(&self, id: u64) -> bool {
        self.get(id).is_some_and(|m| m.instruction)
    }

    /// The window's digest.
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        let mut digest = [0; 32];
        for id in &self.window {
            let Some(m) = self.get(*id) else { continue };
            let Some((_, given, content)) = m.forms.last() else {
                continue;
            };
            let mut bytes = digest.to_vec();
            for number in [m.place, *id, *given] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            bytes.extend_from_slice(&content.digest.0);
            digest = blake3::derive_key("ctxlog window v1", &bytes);
        }
        digest
    }
}
