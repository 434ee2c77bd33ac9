//! Measures: sizes that say what was counted and how. They compare only when both are equal.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::log::{
    Count, MessageId, PartKind, Reading, Seq, Settings, Skeleton, Unit, VisitOutcome,
};

use super::state::{MessageState, Projection};
use super::view::Item;

/// The method of groups, messages and requests: they are counted.
pub const COUNT: &str = "count";
/// The method of token counts by OpenAI's `o200k_base` encoding.
pub const TIKTOKEN: &str = "tiktoken:o200k_base";
/// The method of the guess "a quarter of the UTF-16 length", rounded up.
pub const ESTIMATE: &str = "estimate:utf16/4";
/// The method of the guess by each character's script: Latin, other alphabets, Chinese, Japanese and
/// Korean, emoji.
pub const SCRIPT: &str = "estimate:script";

/// What a strategy wants tokens measured by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Measure {
    /// A serving reading, else counted tokens, else the estimate.
    #[default]
    Auto,
    /// Only a reading that serves the window.
    Reported,
    /// Counted tokens, else the estimate.
    Tiktoken,
    /// The estimate.
    Estimate,
    /// The estimate per script: nearer than the other where a text is not English.
    Script,
}

impl Measure {
    /// The names `measure=` takes.
    pub const NAMES: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("reported", Self::Reported),
        ("tiktoken", Self::Tiktoken),
        ("estimate", Self::Estimate),
        ("script", Self::Script),
    ];

    /// Whether it wants messages to carry what a tokenizer counted.
    #[must_use]
    pub const fn counts(self) -> bool {
        !matches!(self, Self::Estimate | Self::Script)
    }

    /// The name `measure=` takes.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(_, m)| *m == self)
            .map_or("auto", |(name, _)| name)
    }
}

/// The estimate for a message.
#[must_use]
pub fn estimate(skeleton: &Skeleton) -> u64 {
    skeleton.utf16.div_ceil(4)
}

fn narrow(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}

/// What a message's size is taken from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    /// Its own count, else the estimate.
    Count,
    /// The estimate.
    Utf16,
    /// The estimate per script.
    Script,
}

fn size(message: &MessageState, by: By) -> u64 {
    message.skeleton().map_or(0, |s| size_of_content(s, by))
}

fn size_of_content(skeleton: &Skeleton, by: By) -> u64 {
    match (by, counted(skeleton)) {
        (By::Count, Some(count)) => count.amount,
        (By::Count, None) | (By::Utf16, _) => estimate(skeleton),
        (By::Script, _) => skeleton.by_script,
    }
}

/// Parts of a content that no method counts.
#[must_use]
pub fn media(skeleton: &Skeleton) -> u64 {
    let parts = skeleton.parts.iter().filter(|p| p.is_media()).count();
    u64::try_from(parts).unwrap_or(u64::MAX)
}

fn counted(skeleton: &Skeleton) -> Option<&Count> {
    skeleton.tokens.as_ref()
}

/// The window's tokens by one method, item by item.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tokens {
    /// The total's method.
    pub method: String,
    /// The window's total, fixed overhead included.
    pub total: u64,
    /// Per item of the window.
    pub items: Vec<u64>,
    /// As [`Total::uncounted`].
    pub uncounted: u64,
}

/// Why a measure has no reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoReading {
    /// Nothing was ever reported.
    None,
    /// What was reported belongs to another window.
    Stale,
}

impl From<NoReading> for VisitOutcome {
    fn from(none: NoReading) -> Self {
        match none {
            NoReading::None => Self::Unmeasurable,
            NoReading::Stale => Self::StaleMeasurement,
        }
    }
}

/// What the window comes to, kept while it changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    estimate: u128,
    script: u128,
    media: u64,
    said: Said,
    counted: Vec<Counted>,
}

/// Messages that are neither notices nor stand for others: how many, the bytes of their text, and
/// their parts that are no text.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    messages: u64,
    bytes: u64,
    others: u64,
}

impl Said {
    fn of(message: &MessageState) -> Self {
        let counts = !message.notice && message.stands_for.is_none();
        let parts = message.skeleton().filter(|_| counts);
        let parts = parts.into_iter().flat_map(|s| &s.parts);
        let mut said = Self {
            messages: u64::from(counts),
            ..Self::default()
        };
        for part in parts {
            if part.kind == PartKind::Text {
                said.bytes = said.bytes.saturating_add(part.bytes);
            } else {
                said.others = said.others.saturating_add(1);
            }
        }
        said
    }

    fn change(&mut self, by: Self, change: fn(u64, u64) -> u64) {
        self.messages = change(self.messages, by.messages);
        self.bytes = change(self.bytes, by.bytes);
        self.others = change(self.others, by.others);
    }
}

/// What one method counted.
#[derive(Clone, Debug)]
struct Counted {
    method: String,
    items: usize,
    amount: u128,
}

impl Totals {
    /// A message entered the window.
    pub fn add(&mut self, message: &MessageState) {
        if let Some(skeleton) = message.skeleton() {
            self.add_content(skeleton);
        }
        self.said.change(Said::of(message), u64::saturating_add);
    }

    /// How many messages were said, the bytes of their text, and their other parts; without these.
    pub fn said_without<'a>(
        &self,
        without: impl Iterator<Item = &'a MessageState>,
    ) -> (u64, u64, u64) {
        let mut said = self.said;
        without.for_each(|m| said.change(Said::of(m), u64::saturating_sub));
        (said.messages, said.bytes, said.others)
    }

    fn add_content(&mut self, skeleton: &Skeleton) {
        let estimate = u128::from(estimate(skeleton));
        self.estimate = self.estimate.saturating_add(estimate);
        self.script = self.script.saturating_add(skeleton.by_script.into());
        self.media = self.media.saturating_add(media(skeleton));
        let Some(count) = counted(skeleton) else {
            return;
        };
        let amount = u128::from(count.amount);
        match self.of(&count.method) {
            Some(counted) => {
                counted.items = counted.items.saturating_add(1);
                counted.amount = counted.amount.saturating_add(amount);
            }
            None => self.counted.push(Counted {
                method: count.method.clone(),
                items: 1,
                amount,
            }),
        }
    }

    /// A message left it, or is about to be counted anew.
    pub fn take(&mut self, message: &MessageState) {
        self.said.change(Said::of(message), u64::saturating_sub);
        let Some(skeleton) = message.skeleton() else {
            return;
        };
        let estimate = u128::from(estimate(skeleton));
        self.estimate = self.estimate.saturating_sub(estimate);
        self.script = self.script.saturating_sub(skeleton.by_script.into());
        self.media = self.media.saturating_sub(media(skeleton));
        if let Some(count) = counted(skeleton)
            && let Some(counted) = self.of(&count.method)
        {
            counted.items = counted.items.saturating_sub(1);
            counted.amount = counted.amount.saturating_sub(u128::from(count.amount));
        }
    }

    /// Changes what a message says, counting it anew where it is in the window.
    pub fn swap(
        &mut self,
        message: &mut MessageState,
        visible: bool,
        change: impl FnOnce(&mut MessageState),
    ) {
        if visible {
            self.take(message);
        }
        change(message);
        if visible {
            self.add(message);
        }
    }

    fn of(&mut self, method: &str) -> Option<&mut Counted> {
        self.counted.iter_mut().find(|c| c.method == method)
    }

    /// Whether each of so many items was counted by this method.
    pub fn all_counted_by(&self, method: &str, items: usize) -> bool {
        items == 0 || self.uniform(items).is_some_and(|(by, _)| by == method)
    }

    /// The method that counted all of so many items, and what they come to by it.
    fn uniform(&self, items: usize) -> Option<(&str, u128)> {
        let all = self.counted.iter().find(|c| c.items == items)?;
        (items > 0).then_some((all.method.as_str(), all.amount))
    }
}

/// The window's tokens as one number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Total {
    /// Its method.
    pub method: Cow<'static, str>,
    /// The fixed overhead included.
    pub amount: u64,
    /// Parts that are not in it, since their tokens cannot be told from text: pictures, sound, files.
    /// Of a reported total, those that came since.
    pub uncounted: u64,
    by: By,
}

impl Total {
    /// It as a reading.
    #[must_use]
    pub fn reading(&self) -> Reading {
        Reading {
            unit: Unit::Token,
            method: self.method.clone(),
            amount: self.amount,
        }
    }

    /// A message's size, counted as the total was.
    #[must_use]
    pub fn size(&self, message: &MessageState) -> u64 {
        size(message, self.by)
    }

    /// A content's size, counted as the total was.
    #[must_use]
    pub fn size_of(&self, skeleton: &Skeleton) -> u64 {
        size_of_content(skeleton, self.by)
    }
}

impl Projection {
    /// Measures the window now. Items are counted by one method throughout: the tokenizer's where
    /// every message carries its count, else the estimate.
    ///
    /// # Errors
    /// With [`Measure::Reported`], when no reading serves this window.
    pub fn tokens(&self, measure: Measure) -> Result<Tokens, NoReading> {
        let total = self.token_total(measure)?;
        let messages = self.items.iter().filter_map(|i| self.messages.get(i.index));
        Ok(Tokens {
            items: messages.map(|m| size(m, total.by)).collect(),
            method: total.method.into_owned(),
            total: total.amount,
            uncounted: total.uncounted,
        })
    }

    /// Measures the window now without listing its items; costs what came since the newest reading,
    /// or nothing.
    ///
    /// # Errors
    /// As [`Projection::tokens`].
    pub fn token_total(&self, measure: Measure) -> Result<Total, NoReading> {
        let (method, sum, by) = self.item_total(measure);
        let served = match measure {
            Measure::Auto => self.served().ok(),
            Measure::Reported => Some(self.served()?),
            Measure::Tiktoken | Measure::Estimate | Measure::Script => None,
        };
        let settings = self.settings().map(|(_, s)| s);
        let since = |from| narrow(self.sum_between(from, self.items.len(), sum, by));
        Ok(match served {
            Some((from, input)) => Total {
                method: format!("reported+{method}").into(),
                amount: input.saturating_add(since(from)),
                uncounted: self.media_from(from),
                by,
            },
            None => Total {
                amount: narrow(sum).saturating_add(overhead(settings, &method)),
                uncounted: self.totals.media,
                method,
                by,
            },
        })
    }

    /// What the items come to, without what a request holds beside them: by which method, how much,
    /// and what each one's size is taken from.
    fn item_total(&self, measure: Measure) -> (Cow<'static, str>, u128, By) {
        if measure == Measure::Script {
            return (Cow::Borrowed(SCRIPT), self.totals.script, By::Script);
        }
        let uniform = self.totals.uniform(self.items.len());
        match uniform.filter(|_| measure.counts()) {
            Some((method, sum)) => (Cow::Owned(method.to_owned()), sum, By::Count),
            None => (Cow::Borrowed(ESTIMATE), self.totals.estimate, By::Utf16),
        }
    }

    /// Media of the items from the `from`-th on.
    fn media_from(&self, from: usize) -> u64 {
        if self.totals.media == 0 {
            return 0;
        }
        let of = |item: &Item| self.messages.get(item.index)?.skeleton().map(media);
        let since = self.items.skip(from).filter_map(of);
        since.fold(0, u64::saturating_add)
    }

    /// What a change from this place on costs a provider's prompt cache: the tokens of the items from
    /// there on that the newest call was sent, as far as the window still begins as it was sent.
    /// Counted tokens where every message carries its count, else the estimate. Costs the items
    /// that are counted, or the others where they are fewer.
    #[must_use]
    pub fn invalidated_from(&self, place: Seq) -> Reading {
        let (method, all, by) = self.item_total(Measure::Tiktoken);
        let (Ok(first) | Err(first)) = self.items.position((place, MessageId(Seq(0))));
        Reading {
            unit: Unit::Token,
            method,
            amount: narrow(self.sum_between(first, self.sent_items, all, by)),
        }
    }

    /// What the items `from..to` come to, where all come to `all`: summed where fewer are.
    fn sum_between(&self, from: usize, to: usize, all: u128, by: By) -> u128 {
        let size = |item: &Item| {
            let message = self.messages.get(item.index);
            message.map_or(0, |m| u128::from(size(m, by)))
        };
        let add = |sum: u128, item: &Item| sum.saturating_add(size(item));
        let wanted = to.saturating_sub(from);
        if wanted <= self.items.len() / 2 {
            return self.items.skip(from).take(wanted).fold(0, add);
        }
        let before = self.items.iter().take(from).fold(0, add);
        let others = self.items.skip(to).fold(before, add);
        all.saturating_sub(others)
    }

    /// A reading of window D serves window W when D is a prefix of W: gives D's length and tokens.
    fn served(&self) -> Result<(usize, u64), NoReading> {
        let Some(reading) = self.reading else {
            return Err(NoReading::None);
        };
        let length = usize::try_from(reading.messages).map_err(|_| NoReading::Stale)?;
        if self.digest_of_first(length) == Some(reading.window) {
            Ok((length, reading.input))
        } else {
            Err(NoReading::Stale)
        }
    }
}

impl Tokens {
    /// The tokens of a window of these messages under these settings: counted where every message
    /// carries its count, else estimated.
    #[must_use]
    pub fn of(skeletons: &[&Skeleton], settings: Option<&Settings>) -> Self {
        let mut totals = Totals::default();
        skeletons.iter().for_each(|s| totals.add_content(s));
        let uniform = totals.uniform(skeletons.len());
        let by = if uniform.is_some() {
            By::Count
        } else {
            By::Utf16
        };
        let (method, sum) = uniform.unwrap_or((ESTIMATE, totals.estimate));
        let sum = narrow(sum);
        let items = skeletons.iter().map(|s| size_of_content(s, by));
        Self {
            total: sum.saturating_add(overhead(settings, method)),
            items: items.collect(),
            method: method.to_owned(),
            uncounted: totals.media,
        }
    }
}

/// Tokens that request settings cost (tool schemas, parameters, what else every request holds), by the
/// same method. For the estimates their bytes stand for UTF-16, which they exceed only outside ASCII;
/// the first byte is the payload's tag.
#[must_use]
pub fn overhead(settings: Option<&Settings>, method: &str) -> u64 {
    let Some(settings) = settings else {
        return 0;
    };
    match settings.overhead.as_ref().filter(|c| c.method == method) {
        Some(counted) => counted.amount,
        None if [ESTIMATE, SCRIPT].contains(&method) => {
            settings.content.bytes.saturating_sub(1).div_ceil(4)
        }
        None => 0,
    }
}

/// How two readings stand to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparison {
    /// The first is less.
    Less,
    /// They are equal.
    Equal,
    /// The first is more.
    Greater,
    /// Something else was counted, or otherwise: neither says anything of the other.
    Incomparable,
}

/// Compares two readings, which only those of one unit and one method allow.
#[must_use]
pub fn compare(a: &Reading, b: &Reading) -> Comparison {
    if a.unit != b.unit || a.method != b.method {
        return Comparison::Incomparable;
    }
    match a.amount.cmp(&b.amount) {
        Ordering::Less => Comparison::Less,
        Ordering::Equal => Comparison::Equal,
        Ordering::Greater => Comparison::Greater,
    }
}

impl Total {
    /// Compares it with another; also what they do not cover has to be the same.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Comparison {
        if self.uncounted != other.uncounted {
            return Comparison::Incomparable;
        }
        compare(&self.reading(), &other.reading())
    }
}

/// Adds a reading to that of its unit and method; others stay apart.
pub(super) fn add_apart(sums: &mut Vec<Reading>, one: &Reading) {
    let like = |sum: &&mut Reading| compare(sum, one) != Comparison::Incomparable;
    match sums.iter_mut().find(like) {
        Some(sum) => sum.amount = sum.amount.saturating_add(one.amount),
        None => sums.push(one.clone()),
    }
}

/// A count of things, as a reading.
#[must_use]
pub fn count(unit: Unit, amount: u64) -> Reading {
    Reading {
        unit,
        method: COUNT.into(),
        amount,
    }
}
