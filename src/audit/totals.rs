//! What a conversation came to: tokens call by call, what left and how much that was, what came back,
//! and what the log takes.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde::Serialize;

use super::diff::Amount;
use crate::engine::{Conversation, Error};
use crate::log::{Iteration, LeftReason, Seq, Skeleton};
use crate::tokens::Encoding;
use crate::window::{ESTIMATE, Life, MessageState, Projection, estimate, overhead};

/// Contents that took the place of others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Replaced {
    /// How many.
    pub forms: u64,
    /// Tokens of those before.
    pub before: u64,
    /// Tokens of those after.
    pub after: u64,
}

/// What the log takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Stored {
    /// Entries.
    pub entries: u64,
    /// Bytes of the entries, without what a store adds and saves.
    pub entry_bytes: u64,
    /// Bytes of the words they commit to.
    pub payload_bytes: u64,
}

/// What a conversation came to. Tokens are by one method throughout.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Totals {
    /// How tokens were counted: the tokenizer's count where every content carries it, else the
    /// estimate.
    pub method: String,
    /// Tokens of the window of each call, request settings included.
    pub sent: Vec<u64>,
    /// Their median.
    pub median: Option<u64>,
    /// The largest, and the first call that was sent so many.
    pub peak: Option<(u64, Iteration)>,
    /// Stays that ended without a stand-in.
    pub evicted: Amount,
    /// Stays that ended because something stood for the message from then on.
    pub stood_for: Amount,
    /// New contents of messages.
    pub replaced: Replaced,
    /// Messages that came back.
    pub restored: u64,
    /// Messages that every call saw.
    pub always: u64,
    /// Visits that ended above their limit.
    pub over_limit: u64,
    /// What the log takes.
    pub stored: Stored,
}

/// Adds it all up; reads the log once beside the fold.
///
/// # Errors
/// When the log cannot be read.
pub fn totals(chat: &Conversation) -> Result<Totals, Error> {
    let stored = stored(chat)?;
    chat.with_projection(|p| of_projection(p, stored))
}

fn stored(chat: &Conversation) -> Result<Stored, Error> {
    let Some(head) = chat.head()? else {
        return Ok(Stored::default());
    };
    let mut stored = Stored::default();
    let add = |to: &mut u64, n: u64| *to = to.saturating_add(n);
    chat.store()
        .entries(chat.id(), Seq(0), head.seq, &mut |sealed| {
            add(&mut stored.entries, 1);
            add(&mut stored.entry_bytes, count(sealed.bytes.len()));
            for committed in sealed.entry.body.commitments() {
                add(&mut stored.payload_bytes, committed.bytes);
            }
            ControlFlow::Continue(())
        })?;
    Ok(stored)
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// How sizes are taken.
struct By(Option<&'static str>);

impl By {
    /// The tokenizer's count, where every content carries it.
    fn of(p: &Projection) -> Self {
        let model = p.settings().and_then(|(_, s)| s.model.as_deref());
        let method = Encoding::of(model).method();
        let counted = |s: &Skeleton| s.tokens.as_ref().is_some_and(|c| c.method == method);
        let mut forms = p.messages().iter().flat_map(|m| &m.forms);
        Self(forms.all(|f| counted(&f.skeleton)).then_some(method))
    }

    const fn method(&self) -> &'static str {
        match self.0 {
            Some(method) => method,
            None => ESTIMATE,
        }
    }

    fn size(&self, skeleton: &Skeleton) -> u64 {
        let count = skeleton.tokens.as_ref().filter(|_| self.0.is_some());
        count.map_or_else(|| estimate(skeleton), |c| c.amount)
    }
}

fn of_projection(p: &Projection, stored: Stored) -> Totals {
    let by = By::of(p);
    let sent = sent(p, &by);
    let mut sorted = sent.clone();
    sorted.sort_unstable();
    let peak = sorted.last().and_then(|peak| {
        let at = sent.iter().position(|amount| amount == peak)?;
        Some((*peak, Iteration(count(at).saturating_add(1))))
    });
    let calls = count(sent.len());
    let mut totals = Totals {
        method: by.method().to_owned(),
        median: sorted.get(sorted.len() / 2).copied(),
        peak,
        sent,
        evicted: Amount::default(),
        stood_for: Amount::default(),
        replaced: Replaced::default(),
        restored: 0,
        always: 0,
        over_limit: count(p.visits().iter().filter(|v| v.over).count()),
        stored,
    };
    for message in p.messages() {
        totals.add(message, &by);
        let whole = |life: &Life| life.calls(Iteration(calls)) == calls;
        let sees_all = calls > 0 && message.logged.iteration.0 <= 1;
        if sees_all && message.lives.first().is_some_and(whole) {
            totals.always = totals.always.saturating_add(1);
        }
    }
    totals
}

impl Totals {
    fn add(&mut self, message: &MessageState, by: &By) {
        if message.lives.len() > 1 {
            self.restored = self.restored.saturating_add(1);
        }
        for end in message.lives.iter().filter_map(|life| life.left.as_ref()) {
            let form = message.form_at(end.by.seq);
            let tokens = form.map_or(0, |f| by.size(&f.skeleton));
            let sum = match end.stand_in {
                None => &mut self.evicted,
                Some(_) => &mut self.stood_for,
            };
            sum.messages = sum.messages.saturating_add(1);
            sum.tokens = sum.tokens.saturating_add(tokens);
        }
        for pair in message.forms.windows(2) {
            if let [before, after] = pair
                && after.reason != Some(LeftReason::Superseded)
            {
                let sum = &mut self.replaced;
                sum.forms = sum.forms.saturating_add(1);
                sum.before = sum.before.saturating_add(by.size(&before.skeleton));
                sum.after = sum.after.saturating_add(by.size(&after.skeleton));
            }
        }
    }
}

/// The window's tokens at each call: what each entry added and took, summed up.
fn sent(p: &Projection, by: &By) -> Vec<u64> {
    let mut changes: BTreeMap<Seq, i128> = BTreeMap::new();
    for message in p.messages() {
        for (form, from, to) in message.shown() {
            let size = i128::from(by.size(&form.skeleton));
            let mut add = |seq, by: i128| {
                let sum = changes.entry(seq).or_default();
                *sum = sum.saturating_add(by);
            };
            add(from, size);
            add(to, size.saturating_neg());
        }
    }
    let mut changes = changes.into_iter().peekable();
    let mut now: i128 = 0;
    let each = p.sent().iter().map(|call| {
        while let Some((_, by)) = changes.next_if(|(seq, _)| *seq <= call.fact.seq) {
            now = now.saturating_add(by);
        }
        let settings = p.settings_at(call.fact.seq).map(|(_, s)| s);
        let messages = u64::try_from(now).unwrap_or(0);
        messages.saturating_add(overhead(settings, by.method()))
    });
    each.collect()
}
