//! What one column holds: read from the fold of a log and from its visits.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use super::quotes::{Quote, Quotes, holds};
use super::{Alternative, Changed, How, OutOfSight, Story, count};
use crate::engine::{Content, Conversation, Error, Retold};
use crate::log::{AttemptOutcome, Body, Iteration, MessageId, Seq, Visited};
use crate::window::{ESTIMATE, MessageState, Projection, estimate, overhead};

/// What a log's messages are called in the conversation that is asked about.
pub(super) struct Names {
    /// From the log's entries to those of the conversation.
    names: BTreeMap<Seq, Seq>,
    /// The entries of each message step in the log.
    steps: Vec<Vec<Seq>>,
}

impl Names {
    pub fn new(names: BTreeMap<Seq, Seq>, told: &Retold) -> Self {
        let steps = told.messages.clone();
        Self { names, steps }
    }

    /// Those of a replay, by the keys it filed its steps under.
    pub fn of_replay(chat: &Conversation, told: &Retold) -> Result<Self, Error> {
        let steps = told.transcript.steps.iter().enumerate();
        let messages = steps.filter(|(_, s)| matches!(s, crate::formats::Step::Message { .. }));
        let keys = messages.map(|(n, _)| crate::engine::import_key(n));
        let filed: Vec<Option<(Seq, u32)>> =
            chat.with_projection(|p| keys.map(|key| p.by_key(&key)).collect())?;
        let (mut names, mut steps) = (BTreeMap::new(), Vec::new());
        for (filed, own) in filed.into_iter().zip(&told.messages) {
            let (first, entries) = filed.unwrap_or_default();
            let alike = usize::try_from(entries).is_ok_and(|n| n == own.len());
            let mut seqs = Vec::new();
            for n in 0..entries {
                let seq = Seq(first.0.saturating_add(n.into()));
                // Split otherwise than it was: all are pieces of the first.
                let at = usize::try_from(n).ok().filter(|_| alike);
                let name = at.and_then(|at| own.get(at)).or_else(|| own.first());
                names.extend(name.map(|name| (seq, *name)));
                seqs.push(seq);
            }
            steps.push(seqs);
        }
        Ok(Self { names, steps })
    }

    fn of(&self, id: MessageId) -> Option<MessageId> {
        self.names.get(&id.seq()).copied().map(MessageId)
    }
}

/// One column: what a log's own fold and visits say.
pub(super) fn column(
    chat: &Conversation,
    name: &str,
    names: &Names,
    quotes: &Quotes,
) -> Result<Alternative, Error> {
    let mut column = chat.with_projection(|p| folded(p, name, names))?;
    let last = chat.head()?.map_or(Seq(0), |h| h.seq);
    let mut refused = Vec::new();
    let visited = |_: Seq, kind| kind == Some(crate::log::Kind::Visited);
    let whole = (Seq(0), last);
    let store = chat.store();
    store.entries_of(chat.id(), whole, &visited, &mut |entry| {
        if let Body::Visited(visit) = &entry.body {
            count_visit(&mut column, visit);
            let of = visit.refused.iter();
            refused.extend(of.map(|r| (r.reason, r.messages.clone())));
        }
        ControlFlow::Continue(())
    })?;
    column.refused = chat.with_projection(|p| {
        let mut sums = BTreeMap::new();
        for (reason, messages) in &refused {
            let sum: &mut u64 = sums.entry(reason.name()).or_default();
            *sum = sum.saturating_add(count(p.ids_in(messages).len()));
        }
        sums
    })?;
    column.out_of_sight = out_of_sight(chat, names, quotes)?;
    Ok(column)
}

fn count_visit(column: &mut Alternative, visit: &Visited) {
    column.visits = column.visits.saturating_add(1);
    if let Some(invalidated) = &visit.invalidated
        && invalidated.amount > 0
    {
        column.rereads = column.rereads.saturating_add(1);
        column.reread = column.reread.saturating_add(invalidated.amount);
    }
    for attempt in &visit.attempts {
        let sum = match attempt.outcome {
            AttemptOutcome::Ok => &mut column.summaries,
            _ => &mut column.summaries_failed,
        };
        *sum = sum.saturating_add(1);
    }
}

fn folded(p: &Projection, name: &str, names: &Names) -> Alternative {
    let tokens = tokens(p);
    let mut sorted = tokens.clone();
    sorted.sort_unstable();
    let mut stories: BTreeMap<MessageId, Vec<Story>> = BTreeMap::new();
    let mut changes = Vec::new();
    let mut lifetimes = Vec::new();
    for message in p.messages() {
        let calls = |life: &crate::window::Life| life.calls(last_call(p));
        let ended = message.lives.iter().filter(|l| l.left.is_some());
        lifetimes.extend(ended.map(calls));
        let Some(id) = names.of(message.id) else {
            continue;
        };
        changes.extend(changed(id, message));
        stories.entry(id).or_default().push(story(message));
    }
    lifetimes.sort_unstable();
    changes.sort_by_key(|(seq, change)| (*seq, change.message));
    Alternative {
        name: name.to_owned(),
        strategies: p.chain().to_vec(),
        peak: sorted.last().copied().unwrap_or(0),
        median: middle(&sorted).unwrap_or(0),
        tokens,
        over_budget: over_budget(p, &[]),
        visits: 0,
        refused: BTreeMap::new(),
        rereads: 0,
        reread: 0,
        summaries: 0,
        summaries_due: None,
        summaries_failed: 0,
        lifetime: middle(&lifetimes),
        changes: changes.into_iter().map(|(_, change)| change).collect(),
        out_of_sight: Vec::new(),
        stories,
    }
}

fn last_call(p: &Projection) -> Iteration {
    Iteration(count(p.sent().len()))
}

fn middle(sorted: &[u64]) -> Option<u64> {
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}

/// Calls that were filed while a strategy's newest visit had left the window over its limit, made
/// for that call, or while a summary was due.
pub(super) fn over_budget(p: &Projection, due: &[Iteration]) -> u64 {
    let mut over: BTreeMap<(Iteration, usize), bool> = BTreeMap::new();
    for visit in p.visits() {
        over.insert((visit.fact.iteration, visit.strategy), visit.over);
    }
    let last = last_call(p);
    let calls = over.iter().filter(|((it, _), over)| **over && *it <= last);
    let calls = calls.map(|((it, _), _)| *it).chain(due.iter().copied());
    let calls: BTreeSet<Iteration> = calls.collect();
    count(calls.len())
}

/// Tokens of each call's window. A stay and a content are each in force from one call until another, so
/// each adds where it begins and takes where it ends.
fn tokens(p: &Projection) -> Vec<u64> {
    let calls = p.sent().len();
    let mut steps: Vec<i128> = vec![0; calls.saturating_add(1)];
    let mut add = |from: Iteration, size: i128| {
        let at = usize::try_from(from.0.saturating_sub(1)).unwrap_or(usize::MAX);
        if let Some(step) = steps.get_mut(at) {
            *step = step.saturating_add(size);
        }
    };
    for message in p.messages() {
        for life in &message.lives {
            let end = life.left.as_ref().map(|left| left.by);
            let mut forms = message.forms.iter().peekable();
            while let Some(form) = forms.next() {
                let next = forms.peek().map(|form| form.since);
                let from = form.since.iteration.max(life.entered.iteration);
                let ends = [next, end].into_iter().flatten().map(|f| f.iteration);
                let until = ends.min();
                if until.is_some_and(|until| until <= from) {
                    continue;
                }
                let size = i128::from(estimate(&form.skeleton));
                add(from, size);
                until
                    .into_iter()
                    .for_each(|until| add(until, size.saturating_neg()));
            }
        }
    }
    let mut sum = 0_i128;
    let calls = p.sent().iter().zip(steps);
    let of_call = |(sent, step): (&crate::window::Sent, i128)| {
        sum = sum.saturating_add(step);
        let settings = p.settings_at(sent.fact.seq).map(|(_, settings)| settings);
        let fixed = overhead(settings, ESTIMATE);
        u64::try_from(sum).unwrap_or(0).saturating_add(fixed)
    };
    calls.map(of_call).collect()
}

fn changed(id: MessageId, message: &MessageState) -> Vec<(Seq, Changed)> {
    let ends = message.lives.iter().filter_map(|l| l.left.as_ref());
    let left = ends.map(|end| {
        let how = match end.stand_in {
            Some(_) => How::Covered,
            None => How::Left,
        };
        (end.by, how, end.reason)
    });
    let forms = message.forms.iter();
    let forms = forms.filter_map(|f| Some((f.since, How::Form, f.reason?)));
    let change = |(by, how, reason): (crate::window::Fact, How, _)| {
        let change = Changed {
            message: id,
            iteration: by.iteration,
            how,
            reason,
        };
        (by.seq, change)
    };
    left.chain(forms).map(change).collect()
}

fn story(message: &MessageState) -> Story {
    let stay = |life: &crate::window::Life| {
        let left = life.left.as_ref();
        let left = left.map(|end| (end.by.iteration, end.reason));
        (life.entered.iteration, left)
    };
    let form = |f: &crate::window::Form| Some((f.since.iteration, f.reason?));
    Story {
        stays: message.lives.iter().map(stay).collect(),
        forms: message.forms.iter().filter_map(form).collect(),
    }
}

/// A quote whose message the call's window did not hold as it was first said.
struct Doubt<'a> {
    quote: &'a Quote,
    answer: Seq,
    call: (Seq, Iteration),
    of: Seq,
    /// Contents that may hold the text all the same: its present form, and summaries.
    elsewhere: Vec<(Seq, u32)>,
}

fn out_of_sight(
    chat: &Conversation,
    names: &Names,
    quotes: &Quotes,
) -> Result<Vec<OutOfSight>, Error> {
    let doubts: Vec<Doubt<'_>> = chat.with_projection(|p| {
        let claims: Vec<&MessageState> = p
            .messages()
            .iter()
            .filter(|m| m.stands_for.is_some())
            .collect();
        let quotes = quotes.found.iter();
        quotes.filter_map(|q| doubt(p, names, &claims, q)).collect()
    })?;
    let mut out = Vec::new();
    for doubt in doubts {
        let mut there = false;
        for (given, payload) in &doubt.elsewhere {
            if let Content::Message(message) = chat.content(*given, *payload)? {
                there = there || holds(&message.words(), &doubt.quote.text);
            }
        }
        let name = |seq| names.of(MessageId(seq)).unwrap_or(MessageId(seq));
        if !there {
            out.push(OutOfSight {
                answer: name(doubt.answer),
                iteration: doubt.call.1,
                message: name(doubt.of),
                text: doubt.quote.text.clone(),
            });
        }
    }
    Ok(out)
}

fn doubt<'a>(
    p: &Projection,
    names: &Names,
    claims: &[&MessageState],
    quote: &'a Quote,
) -> Option<Doubt<'a>> {
    let answer = *names.steps.get(quote.by)?.first()?;
    let entries = names.steps.get(quote.of)?;
    let of = *entries.first()?;
    let before = p.sent().partition_point(|s| s.fact.seq < answer);
    let sent = p.sent().get(before.checked_sub(1)?)?;
    let call = sent.fact.seq;
    if of > call {
        return None; // an earlier block of the same answer
    }
    let states = || entries.iter().filter_map(|seq| p.message(MessageId(*seq)));
    // Restated words are first words; a message in pieces is in sight when all of it is.
    let seen = |m: &MessageState| {
        let first = m.form_at(call).is_some_and(|f| f.reason.is_none());
        m.visible_at(call) && first
    };
    if states().all(seen) {
        return None;
    }
    let there = states().chain(claims.iter().copied());
    let there = there.filter(|m| m.visible_at(call));
    let elsewhere = there.filter_map(|m| m.form_at(call).map(|f| (f.given, f.payload)));
    Some(Doubt {
        quote,
        answer,
        call: (call, sent.fact.iteration),
        of,
        elsewhere: elsewhere.collect(),
    })
}
