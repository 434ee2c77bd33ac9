//! A window with its words and sizes, as `ctxlog window` and others show it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde::Serialize;
use serde_json::{Value, json};

use crate::engine::{Content, Conversation, Error, ItemEntries};
use crate::log::{Author, Body, Count, Entry, Hash, Ranges, Role, Seq, Skeleton, StandInKind};
use crate::tokens::Encoding;
use crate::window::{Item, Outline, Placed, Tokens, Window, grouped, is_message};

use super::export::neutral_json;
use super::select::Place;
use super::why::Moment;

/// How large a window is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Size {
    /// Messages.
    pub messages: u64,
    /// Groups.
    pub groups: u64,
    /// Tokens with the method that counted them; known request settings included.
    pub tokens: Count,
}

/// One message of a shown window.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ShownMessage {
    /// Its id.
    pub id: String,
    /// The entry that introduced it.
    pub seq: Seq,
    /// Who it speaks as.
    pub role: Role,
    /// Who wrote it.
    pub author: Author,
    /// Its content in neutral form; `[{"type": "redacted"}]` where its words were destroyed.
    pub parts: Value,
    /// The entry that put it here: the beginning of its present stay.
    pub entered: Moment,
    /// Whether someone pinned it.
    pub pinned: bool,
    /// The entry that gave its present content.
    pub form: Seq,
    /// Of a claim: the exact messages it stands for.
    pub stands_for: Vec<Seq>,
    /// The same as ranges; not part of the JSON.
    #[serde(skip)]
    pub sources: Ranges,
    /// All its words joined; not part of the JSON, where they stand in `parts`.
    #[serde(skip)]
    pub words: String,
    /// Its tokens by the window's method; not part of the JSON.
    #[serde(skip)]
    pub tokens: u64,
}

/// A window with its words.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ShownWindow {
    /// `ctxlog.window/1`.
    pub schema: &'static str,
    /// The conversation's name.
    pub conversation: String,
    /// The entry after which it stood so.
    pub at: Moment,
    /// Its digest, computed now from the log.
    pub digest: Hash,
    /// The digest the call recorded, where the window of a call was asked for.
    pub recorded_digest: Option<Hash>,
    /// How large it is.
    pub size: Size,
    /// Its messages, in order.
    pub messages: Vec<ShownMessage>,
}

impl ShownWindow {
    /// Whether the log gives another window than the call recorded.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.recorded_digest
            .is_some_and(|recorded| recorded != self.digest)
    }
}

/// The window at a place.
///
/// # Errors
/// When the log or its words are damaged; `unsupported-entry` behind an unknown kind that changes
/// windows.
pub fn window(chat: &Conversation, place: Place) -> Result<ShownWindow, Error> {
    let outline = chat.outline_after(place.seq)?;
    window_of(chat, place, &outline, &mut Counted::default())
}

/// Contents that two windows hold alike, with their tokens: reading and counting them is most of what a
/// window costs.
#[derive(Default)]
pub(super) struct Counted {
    /// Contents given by this entry or before are the same in both windows; `None` where none are.
    shared: Option<Seq>,
    read: BTreeMap<(Seq, u32), (Encoding, Skeleton, Content)>,
}

impl Counted {
    pub(super) fn shared(shared: Option<Seq>) -> Self {
        Self {
            shared,
            ..Self::default()
        }
    }

    /// The content of an item, and its skeleton with the token count supplied where the log has none.
    fn read(
        &mut self,
        chat: &Conversation,
        item: &Placed,
        form: &Skeleton,
        encoding: Encoding,
    ) -> Result<(Skeleton, Content), Error> {
        let key = (item.form, item.payload);
        if let Some((by, skeleton, content)) = self.read.get(&key)
            && *by == encoding
        {
            return Ok((skeleton.clone(), content.clone()));
        }
        let content = chat.content(item.form, item.payload)?;
        let mut skeleton = form.clone();
        let counted = skeleton.tokens.as_ref();
        if let Content::Message(message) = &content
            && counted.is_none_or(|c| c.method != encoding.method())
        {
            skeleton.tokens = encoding.count(&message.words()).or(skeleton.tokens);
        }
        if Some(item.form) <= self.shared {
            let kept = (encoding, skeleton.clone(), content.clone());
            self.read.insert(key, kept);
        }
        Ok((skeleton, content))
    }
}

/// The same, given which messages it holds.
pub(super) fn window_of(
    chat: &Conversation,
    place: Place,
    outline: &Outline,
    counted: &mut Counted,
) -> Result<ShownWindow, Error> {
    let (recorded, settings) = (recorded(chat, place)?, chat.settings_of(outline)?);
    let model = settings.as_ref().and_then(|(_, s)| s.model.as_deref());
    let encoding = Encoding::of(model);
    let mut seen = Vec::with_capacity(outline.len());
    chat.each_item(&outline.items(), &mut |item, entries| {
        seen.push(Seen::read(chat, item, entries, (encoding, counted))?);
        Ok(())
    })?;
    let skeletons: Vec<&Skeleton> = seen.iter().map(|s| &s.skeleton).collect();
    let tokens = Tokens::of(&skeletons, settings.as_ref().map(|(_, s)| s));
    let ties: Vec<(Seq, Vec<Seq>)> = (seen.iter())
        .map(|s| (s.item.id.seq(), s.ties.clone()))
        .collect();
    let items = seen.iter().map(|s| s.item).collect();
    let digest = Window::new(outline.at, items).digest;
    let size = Size {
        messages: count(seen.len()),
        groups: count(grouped(&ties).len()),
        tokens: Count {
            method: tokens.method,
            amount: tokens.total,
        },
    };
    let shown = seen.into_iter().zip(tokens.items);
    Ok(ShownWindow {
        schema: "ctxlog.window/1",
        conversation: chat.name().to_owned(),
        at: Moment {
            seq: place.seq,
            iteration: outline.iteration,
        },
        digest,
        recorded_digest: recorded,
        size,
        messages: shown.map(|(seen, tokens)| seen.show(tokens)).collect(),
    })
}

/// The digest that a call recorded.
fn recorded(chat: &Conversation, place: Place) -> Result<Option<Hash>, Error> {
    if place.call.is_none() {
        return Ok(None);
    }
    Ok(match chat.entry(place.seq)?.body {
        Body::Called(called) => Some(called.window),
        _ => None,
    })
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// What is read of one message of a window.
struct Seen {
    item: Item,
    /// Its content without words; with its token count.
    skeleton: Skeleton,
    content: Content,
    entered: Moment,
    pinned: bool,
    /// The messages that its own entry ties it to.
    ties: Vec<Seq>,
    stands_for: Vec<Seq>,
    sources: Ranges,
}

impl Seen {
    fn read(
        chat: &Conversation,
        item: &Placed,
        entries: &ItemEntries,
        (encoding, counted): (Encoding, &mut Counted),
    ) -> Result<Self, Error> {
        let id = item.id.seq();
        let lost = || entries.lost(id);
        let (form, committed) = entries.form(item).ok_or_else(lost)?;
        let (first, continues, _) = entries.first(item).ok_or_else(lost)?;
        let (skeleton, content) = counted.read(chat, item, form, encoding)?;
        let entered = entries.get(item.entered)?;
        let answers = first.parts.iter().filter_map(|p| p.answers);
        let (sources, stands_for) = sources(chat, entries.get(id)?)?;
        Ok(Self {
            item: Item::new(item.place, item.id, item.form, committed),
            skeleton,
            content,
            entered: Moment {
                seq: entered.seq,
                iteration: entered.iteration,
            },
            pinned: item.pinned,
            ties: answers.map(|(seq, _)| seq).chain(continues).collect(),
            stands_for,
            sources,
        })
    }

    fn show(self, tokens: u64) -> ShownMessage {
        let (parts, words) = match &self.content {
            Content::Redacted => (json!([{ "type": "redacted" }]), "[redacted]".to_owned()),
            Content::Message(m) => {
                let parts = neutral_json(m).get_mut("parts").map(Value::take);
                (parts.unwrap_or_default(), m.words())
            }
        };
        ShownMessage {
            id: self.item.id.to_string(),
            seq: self.item.id.seq(),
            role: match self.content {
                Content::Message(m) => m.role,
                Content::Redacted => self.skeleton.role,
            },
            author: self.skeleton.author,
            parts,
            entered: self.entered,
            pinned: self.pinned,
            form: self.item.form,
            stands_for: self.stands_for,
            sources: self.sources,
            words,
            tokens,
        }
    }
}

/// The messages that the claim of an entry stands for: those that its ranges name.
fn sources(chat: &Conversation, entry: &Entry) -> Result<(Ranges, Vec<Seq>), Error> {
    let stand_ins = entry.body.change().map(|c| c.stand_ins.as_slice());
    let mut stand_ins = stand_ins.into_iter().flatten();
    let Some(claim) = stand_ins.find(|s| s.kind != StandInKind::Form) else {
        return Ok(Default::default());
    };
    let mut found = Vec::new();
    for (first, last) in &claim.sources.0 {
        let last = (*last).min(entry.seq);
        let store = chat.store();
        store.entries(chat.id(), *first, last, &mut |sealed| {
            if is_message(&sealed.entry.body) {
                found.push(sealed.entry.seq);
            }
            ControlFlow::Continue(())
        })?;
    }
    Ok((claim.sources.clone(), found))
}
