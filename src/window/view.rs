//! The window as a value: its items in order, and its digest.

use crate::log::{Commitment, Derived, Hash, MessageId, Seq};

use crate::planted::{Bug, planted};

use super::group::grouped;
use super::index::Rank;
use super::ordered::Keyed;
use super::state::{Form, MessageState, Projection};

const WINDOW_CONTEXT: &str = "ctxlog window v1";

impl MessageState {
    /// Each stretch of entries after which a content of the message is in the window: the first of them,
    /// and the first after which it is not. A content may be shown several times, or never.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (&Form, Seq, Seq)> {
        let forms = self.forms.iter().enumerate();
        forms.flat_map(|(at, form)| {
            let next = self.forms.get(at.saturating_add(1));
            let end = next.map_or(Seq(u64::MAX), |f| f.since.seq);
            self.lives.iter().filter_map(move |life| {
                let from = form.since.seq.max(life.entered.seq);
                let left = life.left.as_ref().map(|l| l.by.seq);
                let to = end.min(left.unwrap_or(Seq(u64::MAX)));
                (from < to).then_some((form, from, to))
            })
        })
    }
}

/// One message of a window.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// Where it stands.
    pub place: Seq,
    /// The message.
    pub id: MessageId,
    /// The entry that gave its present content.
    pub form: Seq,
    /// The content's commitment.
    pub content: Commitment,
    /// Its position in [`Projection::messages`], in windows that a projection holds itself.
    pub(super) index: usize,
}

/// Where a projection keeps a message says nothing of the window.
impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        let of = |i: &Self| (i.place, i.id, i.form, i.content);
        of(self) == of(other)
    }
}

impl Eq for Item {}

impl Item {
    /// An item of a window that no projection holds.
    #[must_use]
    pub const fn new(place: Seq, id: MessageId, form: Seq, content: Commitment) -> Self {
        let index = usize::MAX;
        Self {
            place,
            id,
            form,
            content,
            index,
        }
    }
}

impl Keyed for Item {
    type Key = Rank;

    fn key(&self) -> Rank {
        (self.place, self.id)
    }
}

/// The digest after one more item.
#[must_use]
pub fn digest_step(before: Hash, item: &Item) -> Hash {
    thread_local! {
        static HASHER: Derived = Derived::new(WINDOW_CONTEXT);
    }
    let form = if planted(Bug::DigestOmitsForm) {
        item.id.seq()
    } else {
        item.form
    };
    // One piece of input is hashed faster than five.
    let mut input = [0; 88];
    let rest = put(&mut input, before.0);
    let seqs = [item.place, item.id.seq(), form].map(|seq| seq.0.to_le_bytes());
    let rest = seqs.into_iter().fold(rest, put);
    put(rest, item.content.digest.0);
    HASHER.with(|h| h.hash(&[&input]))
}

/// Writes a field; gives what is behind it.
fn put<const N: usize>(to: &mut [u8], field: [u8; N]) -> &mut [u8] {
    match to.split_first_chunk_mut() {
        Some((place, rest)) => {
            *place = field;
            rest
        }
        None => &mut [],
    }
}

/// A window: immutable, tagged with the entry after which it stood so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Window {
    /// The entry after which the window stood so; `None` before the first entry.
    pub at: Option<Seq>,
    /// Its messages, in order.
    pub items: Vec<Item>,
    /// Its digest.
    pub digest: Hash,
}

impl Window {
    /// A window of these items, in order.
    #[must_use]
    pub fn new(at: Option<Seq>, items: Vec<Item>) -> Self {
        let digest = items.iter().fold(Hash::ZERO, digest_step);
        Self { at, items, digest }
    }

    /// Whether a message is in it.
    #[must_use]
    pub fn contains(&self, id: MessageId) -> bool {
        self.items.iter().any(|i| i.id == id)
    }
}

impl Projection {
    /// The window now.
    #[must_use]
    pub fn window(&self) -> Window {
        Window {
            at: self.head.map(|h| h.seq),
            items: self.items.iter().copied().collect(),
            digest: self.digest(),
        }
    }

    /// The digest of the window now. What was not hashed before ([`Projection::settle`]) is hashed
    /// now.
    #[must_use]
    pub fn digest(&self) -> Hash {
        self.digest_of_first(self.items.len()).unwrap_or(Hash::ZERO)
    }

    /// The digest of the window's first items; `None` when there are not so many.
    pub(super) fn digest_of_first(&self, length: usize) -> Option<Hash> {
        let more = length.saturating_sub(self.digests.len());
        let settled = length.min(self.digests.len());
        let digest = match settled.checked_sub(1) {
            None => Hash::ZERO,
            Some(last) => self.digests.get(last).copied()?,
        };
        let rest = self.items.skip(settled).take(more);
        (length <= self.items.len()).then(|| rest.fold(digest, digest_step))
    }

    /// How many messages the window holds now.
    #[must_use]
    pub fn window_len(&self) -> u64 {
        u64::try_from(self.items.len()).unwrap_or(u64::MAX)
    }

    /// The window after entry `n`, read from the table of lives.
    #[must_use]
    pub fn window_at(&self, n: Seq) -> Window {
        if self.head.is_none_or(|h| h.seq <= n) {
            return self.window();
        }
        let logged = self.logged_before(n.next());
        let logged = self.messages.get(..logged).unwrap_or_default();
        let mut items: Vec<Item> = self
            .stretches
            .after(logged, n)
            .filter(|(_, m)| m.visible_at(n))
            .filter_map(|(index, m)| item_of(index, m, n))
            .collect();
        items.sort_unstable_by_key(|i| (i.place, i.id));
        Window::new(Some(n), items)
    }

    /// The groups of a window: positions of its items, each group ascending, groups in the order
    /// of their newest item's place.
    #[must_use]
    pub fn groups_of(&self, window: &Window) -> Vec<Vec<usize>> {
        let ties = |item: &Item| self.message(item.id).map(|m| edges(m).collect());
        let messages: Vec<(Seq, Vec<Seq>)> = window
            .items
            .iter()
            .map(|item| (item.id.seq(), ties(item).unwrap_or_default()))
            .collect();
        grouped(&messages)
    }

    pub(super) fn insert_item(&mut self, index: usize) {
        let Some(head) = self.head else { return };
        let Some(message) = self.messages.get(index) else {
            return;
        };
        let Some(item) = item_of(index, message, head.seq) else {
            return;
        };
        self.totals.add(message);
        self.changed_at = Some(head.seq);
        self.changed_from(item.key());
        self.items.insert(item);
    }

    pub(super) fn remove_item(&mut self, index: usize) {
        let Some(message) = self.messages.get(index) else {
            return;
        };
        let rank = (message.place, message.id);
        if self.items.remove(rank).is_some() {
            self.totals.take(message);
            self.changed_at = self.head.map(|h| h.seq);
            self.changed_from(rank);
        }
    }

    /// A message of the window has another content.
    pub(super) fn refresh_item(&mut self, index: usize) {
        let Some(message) = self.messages.get(index) else {
            return;
        };
        let rank = (message.place, message.id);
        let Some(form) = message.form() else { return };
        let (given, content) = (form.given, form.content);
        if let Some(item) = self.items.find_mut(rank) {
            item.form = given;
            item.content = content;
            self.changed_at = self.head.map(|h| h.seq);
            self.changed_from(rank);
        }
    }

    /// Items from here on are not those that were hashed, nor those that were sent.
    fn changed_from(&mut self, rank: Rank) {
        if self.digests.is_empty() && self.sent_items == 0 {
            return;
        }
        let (Ok(at) | Err(at)) = self.items.position(rank);
        self.digests.truncate(at);
        self.sent_items = self.sent_items.min(at);
    }

    /// Computes the digests that are missing. Apart from the step, so that what nobody asks for is
    /// not hashed.
    pub fn settle(&mut self) {
        let mut digest = self.digests.last().copied().unwrap_or(Hash::ZERO);
        for item in self.items.skip(self.digests.len()) {
            digest = digest_step(digest, item);
            self.digests.push(digest);
        }
    }
}

/// The messages that a message's own entry ties it to.
pub(super) fn edges(message: &MessageState) -> impl Iterator<Item = Seq> + '_ {
    let answers = message
        .forms
        .first()
        .into_iter()
        .flat_map(|f| f.skeleton.parts.iter())
        .filter_map(|p| p.answers)
        .map(|(seq, _)| seq);
    answers.chain(message.continues)
}

fn item_of(index: usize, message: &MessageState, n: Seq) -> Option<Item> {
    let form = message.form_at(n)?;
    Some(Item {
        place: message.place,
        id: message.id,
        form: form.given,
        content: form.content,
        index,
    })
}
