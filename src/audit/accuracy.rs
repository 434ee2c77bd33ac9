//! How near counted and guessed tokens came to what providers reported.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde::{Serialize, Serializer};

use crate::engine::{Conversation, Error};
use crate::log::{Body, Kind, Provenance, Seq, Skeleton};
use crate::tokens::Encoding;
use crate::window::{ESTIMATE, MessageState, Projection, SCRIPT, estimate, media, overhead};

/// A share in thousandths; shown and serialised as a number, `1.034`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ratio(pub u32);

impl Ratio {
    fn of(part: u64, whole: u64) -> Option<Self> {
        let thousandths = u128::from(part).saturating_mul(1_000);
        let ratio = thousandths.checked_div(u128::from(whole))?;
        Some(Self(u32::try_from(ratio).unwrap_or(u32::MAX)))
    }

    /// How far it is from one, by factor: a half is as far as a double.
    fn distance(self) -> u32 {
        self.0
            .max(1_000_000_u32.checked_div(self.0).unwrap_or(u32::MAX))
    }
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1_000, self.0 % 1_000)
    }
}

impl Serialize for Ratio {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_f64(f64::from(self.0) / 1_000.0)
    }
}

/// A method against what was reported, of the calls where both are known.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Accuracy {
    /// The method.
    pub method: String,
    /// Calls where it measured all that the provider did, and the provider said how much that was.
    pub calls: u64,
    /// Its tokens to those reported, cached ones included: the median.
    pub median: Ratio,
    /// The one farthest from 1.
    pub worst: Ratio,
}

/// What the window came to, or by how much that changed.
#[derive(Clone, Copy, Default)]
struct Sums {
    items: i128,
    counted_items: i128,
    counted: i128,
    utf16: i128,
    script: i128,
    media: i128,
}

impl Sums {
    fn of(skeleton: &Skeleton, method: &str) -> Self {
        let count = skeleton.tokens.as_ref().filter(|c| c.method == method);
        Self {
            items: 1,
            counted_items: i128::from(count.is_some()),
            counted: count.map_or(0, |c| c.amount.into()),
            utf16: estimate(skeleton).into(),
            script: skeleton.by_script.into(),
            media: media(skeleton).into(),
        }
    }

    fn add(&mut self, other: &Self, sign: i128) {
        let add = |to: &mut i128, n: i128| *to = to.saturating_add(n.saturating_mul(sign));
        add(&mut self.items, other.items);
        add(&mut self.counted_items, other.counted_items);
        add(&mut self.counted, other.counted);
        add(&mut self.utf16, other.utf16);
        add(&mut self.script, other.script);
        add(&mut self.media, other.media);
    }
}

/// Each method against what was reported; only of calls that a provider got. Calls whose window held
/// media are left out: nobody here counts those, and a part is not compared with the whole.
///
/// # Errors
/// When the log cannot be read.
pub fn accuracy(chat: &Conversation) -> Result<Vec<Accuracy>, Error> {
    let Some(head) = chat.head()? else {
        return Ok(Vec::new());
    };
    let mut reported: BTreeMap<Seq, u64> = BTreeMap::new();
    let returned = |_, kind| kind == Some(Kind::Returned);
    let span = (Seq(0), head.seq);
    chat.store()
        .entries_of(chat.id(), span, &returned, &mut |entry| {
            if let Body::Returned(r) = &entry.body
                && let Some(input) = r.usage.and_then(|u| u.total_input())
                && input > 0
            {
                reported.insert(r.call, input);
            }
            ControlFlow::Continue(())
        })?;
    if reported.is_empty() {
        return Ok(Vec::new());
    }
    chat.with_projection(|p| against(p, &reported))
}

fn against(p: &Projection, reported: &BTreeMap<Seq, u64>) -> Vec<Accuracy> {
    let model = p.settings().and_then(|(_, s)| s.model.as_deref());
    let tokenizer = Encoding::of(model).method();
    let mut changes = changes(p.messages(), tokenizer).into_iter().peekable();
    let mut now = Sums::default();
    let mut ratios: BTreeMap<&str, Vec<Ratio>> = BTreeMap::new();
    for sent in p.sent() {
        let call = sent.fact.seq;
        while let Some((_, change)) = changes.next_if(|(seq, _)| *seq <= call) {
            now.add(&change, 1);
        }
        let Some(input) = reported.get(&call) else {
            continue;
        };
        if now.media > 0 || sent.provenance == Provenance::Simulated {
            continue;
        }
        let settings = p.settings_at(call).map(|(_, s)| s);
        let all_counted = now.items > 0 && now.items == now.counted_items;
        let measured = [
            (tokenizer, now.counted, all_counted),
            (ESTIMATE, now.utf16, true),
            (SCRIPT, now.script, true),
        ];
        for (method, sum, _) in measured.into_iter().filter(|(_, _, known)| *known) {
            let sum = u64::try_from(sum).unwrap_or(0);
            let all = sum.saturating_add(overhead(settings, method));
            ratios
                .entry(method)
                .or_default()
                .extend(Ratio::of(all, *input));
        }
    }
    ratios.into_iter().filter_map(summary).collect()
}

/// By how much each entry changed what the window comes to, as far as it did.
fn changes(messages: &[MessageState], tokenizer: &str) -> BTreeMap<Seq, Sums> {
    let mut changes: BTreeMap<Seq, Sums> = BTreeMap::new();
    for message in messages {
        for (form, from, to) in message.shown() {
            let size = Sums::of(&form.skeleton, tokenizer);
            changes.entry(from).or_default().add(&size, 1);
            changes.entry(to).or_default().add(&size, -1);
        }
    }
    changes
}

fn summary((method, mut ratios): (&str, Vec<Ratio>)) -> Option<Accuracy> {
    ratios.sort_unstable();
    let worst = ratios.iter().copied().max_by_key(|r| r.distance())?;
    Some(Accuracy {
        method: method.to_owned(),
        calls: u64::try_from(ratios.len()).unwrap_or(u64::MAX),
        median: *ratios.get(ratios.len() / 2)?,
        worst,
    })
}
