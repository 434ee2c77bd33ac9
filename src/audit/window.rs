//! A window with its words and sizes, as `ctxlog window` and others show it.

use std::ops::ControlFlow;

use serde::Serialize;
use serde_json::{Value, json};

use crate::engine::{Content, Conversation, Error, ItemEntries};
use crate::log::{
    Author, Body, Count, Entry, Hash, MessageId, Ranges, Role, Seq, Settings, Skeleton, StandInKind,
};
use crate::tokens::Encoding;
use crate::window::{ESTIMATE, Item, Outline, Placed, Tokens, Window, grouped, is_message};

use super::cause::Cause;
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
    /// The entry that put it here; not part of the JSON, where [`ShownMessage::entered`] names it.
    #[serde(skip)]
    pub entered_by: Cause,
    /// The entry that gave its present content, where that is not its first; not part of the JSON.
    #[serde(skip)]
    pub formed_by: Option<Cause>,
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
    window_of(chat, place, &outline, Read::Counted)
}

/// The same, given which messages it holds, and what is to be read of them.
pub(super) fn window_of(
    chat: &Conversation,
    place: Place,
    outline: &Outline,
    read: Read,
) -> Result<ShownWindow, Error> {
    let measured = measured(chat, place, outline, read)?;
    let messages = measured.messages.into_iter();
    Ok(ShownWindow {
        schema: "ctxlog.window/1",
        conversation: chat.name().to_owned(),
        at: measured.at,
        digest: measured.digest,
        recorded_digest: recorded(chat, place)?,
        size: measured.size,
        messages: messages.map(Measured::show).collect(),
    })
}

/// A window with its sizes, whose words need not have been read.
pub(super) struct MeasuredWindow {
    pub at: Moment,
    pub digest: Hash,
    pub size: Size,
    pub messages: Vec<Measured>,
    settings: Option<Settings>,
}

impl MeasuredWindow {
    /// Whether no tokens were counted.
    pub(super) fn is_estimate(&self) -> bool {
        self.size.tokens.method == ESTIMATE
    }

    /// Gives up the counts, so that it may be compared with a window that has none.
    pub(super) fn estimate(&mut self) {
        for message in &mut self.messages {
            message.skeleton.tokens = None;
        }
        self.size.tokens = sized(&mut self.messages, self.settings.as_ref());
    }
}

/// Says of each message how large it is, and of all together.
fn sized(messages: &mut [Measured], settings: Option<&Settings>) -> Count {
    let skeletons: Vec<&Skeleton> = messages.iter().map(|m| &m.skeleton).collect();
    let tokens = Tokens::of(&skeletons, settings);
    for (message, tokens) in messages.iter_mut().zip(tokens.items) {
        message.tokens = tokens;
    }
    Count {
        method: tokens.method,
        amount: tokens.total,
    }
}

/// What is read of a window. Counting is most of what a window costs, and reading its words most of the
/// rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Read {
    /// Its entries: they say the tokens where each message carries its count, else an estimate.
    Entries,
    /// Its words too.
    Words,
    /// And the tokens of the words are counted where the entries do not say them.
    Counted,
}

/// The window that the outline tells.
pub(super) fn measured(
    chat: &Conversation,
    place: Place,
    outline: &Outline,
    read: Read,
) -> Result<MeasuredWindow, Error> {
    let settings = chat.settings_of(outline)?.map(|(_, settings)| settings);
    let model = settings.as_ref().and_then(|s| s.model.as_deref());
    let encoding = Encoding::of(model);
    let mut messages = Vec::with_capacity(outline.len());
    chat.each_item(&outline.items(), &mut |item, entries| {
        messages.push(Measured::read(chat, item, entries, (read, encoding))?);
        Ok(())
    })?;
    let tokens = sized(&mut messages, settings.as_ref());
    let ties: Vec<(Seq, Vec<Seq>)> = (messages.iter())
        .map(|m| (m.id().seq(), m.ties.clone()))
        .collect();
    let items = messages.iter().map(|m| m.item).collect();
    Ok(MeasuredWindow {
        at: Moment {
            seq: place.seq,
            iteration: outline.iteration,
        },
        digest: Window::new(outline.at, items).digest,
        size: Size {
            messages: count(messages.len()),
            groups: count(grouped(&ties).len()),
            tokens,
        },
        messages,
        settings,
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
pub(super) struct Measured {
    item: Item,
    payload: u32,
    /// Its content without words.
    skeleton: Skeleton,
    /// Its content, where it was read.
    content: Option<Content>,
    /// The entry that put it here.
    pub entered_by: Cause,
    /// The entry that gave its content, where that is not its first.
    pub formed_by: Option<Cause>,
    pinned: bool,
    /// The messages that its own entry ties it to.
    ties: Vec<Seq>,
    pub stands_for: Vec<Seq>,
    pub sources: Ranges,
    /// Its tokens by the window's method.
    pub tokens: u64,
}

impl Measured {
    pub(super) const fn id(&self) -> MessageId {
        self.item.id
    }

    /// The entry that gave its present content.
    pub(super) const fn form(&self) -> Seq {
        self.item.form
    }

    /// Its words.
    pub(super) fn words(&self, chat: &Conversation) -> Result<String, Error> {
        Ok(said(&chat.content(self.item.form, self.payload)?))
    }

    fn read(
        chat: &Conversation,
        item: &Placed,
        entries: &ItemEntries,
        (read, encoding): (Read, Encoding),
    ) -> Result<Self, Error> {
        let lost = || entries.lost(item.id.seq());
        let (form, committed) = entries.form(item).ok_or_else(lost)?;
        let (first, continues, _) = entries.first(item).ok_or_else(lost)?;
        let given = entries.get(item.form)?;
        let mut skeleton = form.clone();
        let content = match read {
            Read::Entries => None,
            Read::Words | Read::Counted => Some(chat.content_of(given, item.payload)?),
        };
        let counted = skeleton.tokens.as_ref();
        if read == Read::Counted
            && let Some(Content::Message(message)) = &content
            && counted.is_none_or(|c| c.method != encoding.method())
        {
            skeleton.tokens = encoding.count(&message.words()).or(skeleton.tokens);
        }
        let id = item.id;
        let answers = first.parts.iter().filter_map(|p| p.answers);
        let (sources, stands_for) = sources(chat, entries.get(id.seq())?)?;
        Ok(Self {
            item: Item::new(item.place, item.id, item.form, committed),
            payload: item.payload,
            skeleton,
            content,
            entered_by: Cause::of(entries.get(item.entered)?),
            formed_by: (item.form != id.seq()).then(|| Cause::of_form(given, id)),
            pinned: item.pinned,
            ties: answers.map(|(seq, _)| seq).chain(continues).collect(),
            stands_for,
            sources,
            tokens: 0,
        })
    }

    fn show(self) -> ShownMessage {
        let (parts, words) = match &self.content {
            Some(Content::Message(m)) => {
                let parts = neutral_json(m).get_mut("parts").map(Value::take);
                (parts.unwrap_or_default(), m.words())
            }
            _ => (json!([{ "type": "redacted" }]), "[redacted]".to_owned()),
        };
        ShownMessage {
            id: self.item.id.to_string(),
            seq: self.item.id.seq(),
            role: match self.content {
                Some(Content::Message(m)) => m.role,
                _ => self.skeleton.role,
            },
            author: self.skeleton.author,
            parts,
            entered: Moment {
                seq: self.entered_by.seq,
                iteration: self.entered_by.iteration,
            },
            pinned: self.pinned,
            form: self.item.form,
            stands_for: self.stands_for,
            sources: self.sources,
            words,
            tokens: self.tokens,
            entered_by: self.entered_by,
            formed_by: self.formed_by,
        }
    }
}

/// The words of a content, and of one that has none any more.
pub(super) fn said(content: &Content) -> String {
    match content {
        Content::Message(message) => message.words(),
        Content::Redacted => "[redacted]".to_owned(),
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
