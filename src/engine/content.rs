//! Reading words back: messages, settings, notes.

use std::collections::BTreeSet;

use crate::formats::{self, Profile, Rendered, render};
use crate::log::{
    Author, Body, Commitment, ConversationId, Entry, Fields, Json, Message, MessageId, Part,
    PartBody, Role, Seq, Settings, payload,
    payload::{PayloadError, Secret},
};
use crate::store::{Backend, Payload, StoreError};
use crate::window::{Item, Outline, Placed, Projection, Window};

use super::conversation::Conversation;
use super::error::Error;
use super::past::ItemEntries;

/// A content, or the reason why its words are gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// The words.
    Message(Box<Message>),
    /// They were redacted.
    Redacted,
}

impl Content {
    /// The words, or a text that says they were redacted.
    #[must_use]
    pub fn into_message(self, role: Role, author: Author) -> Message {
        match self {
            Self::Message(message) => *message,
            Self::Redacted => Message::new(role, author, vec![Part::text("[redacted]")]),
        }
    }
}

/// A message of a window with its words and the edges its entry decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadedItem {
    /// The message.
    pub id: MessageId,
    /// Its present content.
    pub message: Message,
    /// The message it continues.
    pub continues: Option<Seq>,
    /// The message it shared one source message with.
    pub same_source: Option<Seq>,
    /// Per part: the call that a result part answers.
    pub answers: Vec<Option<(Seq, u32)>>,
}

/// A window with its words: what a call was, or would be, sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadedWindow {
    /// The window.
    pub window: Window,
    /// Its messages, in order.
    pub items: Vec<LoadedItem>,
    /// The format the request settings are written in; empty where there are none.
    pub settings_format: String,
    /// The request settings' fields.
    pub settings: Fields,
    /// The model.
    pub model: Option<String>,
}

impl LoadedWindow {
    /// The request body a client would send. With `as_is` the provider's rules are not made to
    /// hold; without it, what was changed for them is listed.
    #[must_use]
    pub fn render(&self, profile: Profile, as_is: bool) -> Rendered {
        let (items, model) = (self.rendered_items(), self.model.as_deref());
        render(
            profile,
            &items,
            &self.settings,
            &self.settings_format,
            model,
            as_is,
        )
    }

    /// The items as rendering takes them.
    #[must_use]
    pub fn rendered_items(&self) -> Vec<formats::Item<'_>> {
        self.items
            .iter()
            .map(|i| formats::Item {
                seq: i.id.seq(),
                message: &i.message,
                continues: i.continues,
                same_source: i.same_source,
                answers: &i.answers,
            })
            .collect()
    }
}

impl Conversation {
    /// The words that an entry gave at a payload index.
    ///
    /// # Errors
    /// When they are damaged or lost.
    pub fn content(&self, given: Seq, index: u32) -> Result<Content, Error> {
        self.content_by(given, index, &|| self.secret())
    }

    pub(super) fn content_with(
        &self,
        given: Seq,
        index: u32,
        secret: &Secret,
    ) -> Result<Content, Error> {
        self.content_by(given, index, &|| Ok(*secret))
    }

    fn content_by(&self, given: Seq, index: u32, secret: SecretOf<'_>) -> Result<Content, Error> {
        match self.committed(given, index)? {
            Some(to) => self.words(secret, &|_, _| None).message(given, index, &to),
            None => Ok(Content::Redacted),
        }
    }

    /// The words that an entry at hand gave at a payload index.
    pub(crate) fn content_of(&self, entry: &Entry, index: u32) -> Result<Content, Error> {
        let commitments = entry.body.commitments();
        let at = usize::try_from(index).ok();
        let Some(to) = at.and_then(|at| commitments.get(at)) else {
            return Ok(Content::Redacted);
        };
        self.words(&|| self.secret(), &|_, _| None)
            .message(entry.seq, index, to)
    }

    /// What an entry committed to at a payload index.
    fn committed(&self, given: Seq, index: u32) -> Result<Option<Commitment>, Error> {
        let commitments = self.entry(given)?.body.commitments();
        let at = usize::try_from(index).ok();
        Ok(at.and_then(|at| commitments.get(at).copied()))
    }

    fn words<'a>(&'a self, secret: SecretOf<'a>, staged: Staged<'a>) -> Words<'a> {
        Words {
            backend: self.store().backend(),
            conversation: self.id(),
            secret,
            staged,
        }
    }

    /// The JSON text that an entry gave at a payload index; `None` when it was redacted.
    ///
    /// # Errors
    /// When it is damaged or lost.
    pub fn text(&self, given: Seq, index: u32) -> Result<Option<Json>, Error> {
        let found = self.store().backend().payload(self.id(), given, index)?;
        if let (Some(found), Some(to)) = (&found, self.committed(given, index)?) {
            intact(given, found, &to)?;
        }
        found
            .map(|p| payload::decode_text(&p.bytes).map(Json))
            .transpose()
            .map_err(Error::from)
    }

    /// The words of a message as they were after entry `n`.
    ///
    /// # Errors
    /// `nothing-matches` when there was no such message.
    pub fn message_at(&self, id: MessageId, n: Seq) -> Result<Content, Error> {
        // In the window then: its entries say where its words are.
        if self.held().is_none()
            && let Ok(outline) = self.outline_after(n)
            && let Some(item) = outline.get(id)
        {
            return self.content(item.form, item.payload);
        }
        let form = {
            let state = self.lock()?;
            let message = state.projection.message(id);
            let form = message.and_then(|m| m.form_at(n));
            form.map(|f| (f.given, f.payload, f.content))
        };
        match form {
            Some((given, index, to)) => self
                .words(&|| self.secret(), &|_, _| None)
                .message(given, index, &to),
            None => {
                let detail = format!("there is no message {id} at {n} in '{}'", self.name());
                Err(Error::refused(
                    crate::log::RequestReason::NothingMatches,
                    detail,
                ))
            }
        }
    }

    /// A window with its words and the settings in force at it.
    ///
    /// # Errors
    /// When words are damaged or lost.
    pub fn load(&self, window: Window) -> Result<LoadedWindow, Error> {
        let held = self
            .held()
            .map(|state| LoadPlan::of(&state.projection, window.clone()));
        let plan = match held {
            Some(plan) => plan,
            None => self.plan_for(window)?,
        };
        plan.read(&self.words(&|| self.secret(), &|_, _| None))
    }

    /// The window after entry `n` with its words and the settings in force.
    ///
    /// # Errors
    /// As [`Conversation::window_after`]; when words are damaged or lost.
    pub fn load_after(&self, n: Seq) -> Result<LoadedWindow, Error> {
        if self.held().is_some() {
            return self.load(self.window_after(n)?);
        }
        let outline = self.outline_after(n)?;
        let placed = outline.items();
        let plans = self.plans(&placed)?;
        let items = placed.iter().zip(&plans);
        let items = items.map(|(i, plan)| Item::new(i.place, i.id, i.form, plan.committed));
        let window = Window::new(outline.at, items.collect());
        let settings = self.settings_of(&outline)?;
        let plan = LoadPlan {
            window,
            items: plans,
            settings,
        };
        plan.read(&self.words(&|| self.secret(), &|_, _| None))
    }

    /// What has to be read for a window: by its entries alone, unless it holds what the window at
    /// its moment did not.
    fn plan_for(&self, window: Window) -> Result<LoadPlan, Error> {
        let outline = match window.at {
            Some(n) => self.outline_after(n)?,
            None => Outline::default(),
        };
        let placed = window.items.iter().map(|i| outline.get(i.id).copied());
        let Some(placed) = placed.collect::<Option<Vec<_>>>() else {
            return Ok(LoadPlan::of(&self.lock()?.projection, window));
        };
        Ok(LoadPlan {
            items: self.plans(&placed)?,
            settings: self.settings_of(&outline)?,
            window,
        })
    }

    fn plans(&self, placed: &[Placed]) -> Result<Vec<Plan>, Error> {
        let mut plans = Vec::with_capacity(placed.len());
        self.each_item(placed, &mut |item, entries| {
            plans.push(Plan::read(item, entries)?);
            Ok(())
        })?;
        Ok(plans)
    }

    /// The request settings in force at an outline, and the entry that filed them.
    pub(crate) fn settings_of(&self, outline: &Outline) -> Result<Option<(Seq, Settings)>, Error> {
        let Some(seq) = outline.settings else {
            return Ok(None);
        };
        Ok(match self.entry(seq)?.body {
            Body::Configured(c) => c.settings.map(|s| (seq, s)),
            _ => None,
        })
    }

    /// The request body for a window, with the provider's rules made to hold.
    ///
    /// # Errors
    /// When words are damaged or lost.
    pub fn render(&self, window: &Window, profile: Profile) -> Result<Rendered, Error> {
        Ok(self.load(window.clone())?.render(profile, false))
    }
}

/// Whether words are those that an entry committed to: a store need not notice a bit that flipped.
pub(crate) fn intact(given: Seq, found: &Payload, to: &Commitment) -> Result<(), Error> {
    if payload::commit(&found.salt, &found.bytes) == *to {
        return Ok(());
    }
    let source = PayloadError::Mismatch;
    Err(Error::Payload { seq: given, source })
}

/// Payloads of entries that are staged and not stored yet.
pub(super) type Staged<'a> = &'a dyn Fn(Seq, u32) -> Option<Payload>;

/// A lineage's secret, asked for where words mention a blob: it stands at the beginning of the log, which
/// may be far from the words on the disk.
pub(super) type SecretOf<'a> = &'a dyn Fn() -> Result<Secret, Error>;

/// Where the words of a log are read.
pub(super) struct Words<'a> {
    pub backend: &'a dyn Backend,
    pub conversation: ConversationId,
    pub secret: SecretOf<'a>,
    pub staged: Staged<'a>,
}

impl Words<'_> {
    fn payload(&self, given: Seq, index: u32) -> Result<Option<Payload>, Error> {
        match (self.staged)(given, index) {
            Some(staged) => Ok(Some(staged)),
            None => Ok(self.backend.payload(self.conversation, given, index)?),
        }
    }

    pub fn message(&self, given: Seq, index: u32, to: &Commitment) -> Result<Content, Error> {
        let Some(found) = self.payload(given, index)? else {
            return Ok(Content::Redacted);
        };
        intact(given, &found, to)?;
        let mut unread = None;
        let mut fetch = |address| {
            self.backend
                .blob(self.conversation, address)
                .map_err(|error| {
                    let what = PayloadError::Store(error.to_string());
                    unread = Some(error);
                    what
                })
        };
        let mut asked = false;
        let read = payload::decode_message(&found.bytes, &Secret([0; 32]), &mut |_| {
            asked = true;
            Ok(None)
        });
        let read = if asked {
            payload::decode_message(&found.bytes, &(self.secret)()?, &mut fetch)
        } else {
            read
        };
        match read {
            Ok(message) => Ok(Content::Message(Box::new(message))),
            // A disk that does not read is no damage.
            Err(source) => Err(match unread {
                Some(error @ StoreError::Io { .. }) => error.into(),
                _ => Error::Payload { seq: given, source },
            }),
        }
    }

    /// The fields of settings; none where they were redacted.
    fn fields(&self, given: Seq, to: &Commitment) -> Result<Fields, Error> {
        let Some(found) = self.payload(given, 0)? else {
            return Ok(Fields::new());
        };
        intact(given, &found, to)?;
        let text = Json(payload::decode_text(&found.bytes)?);
        Ok(formats::json::object(&text).unwrap_or_default())
    }
}

/// What has to be read for a window.
pub(super) struct LoadPlan {
    window: Window,
    items: Vec<Plan>,
    settings: Option<(Seq, Settings)>,
}

impl LoadPlan {
    pub fn of(projection: &Projection, window: Window) -> Self {
        let n = window.at.unwrap_or_default();
        let items = window.items.iter();
        let items = items
            .filter_map(|i| Plan::of(projection, i.id, n))
            .collect();
        let settings = projection.settings_at(n).cloned();
        Self {
            window,
            items,
            settings,
        }
    }

    pub fn read(self, words: &Words<'_>) -> Result<LoadedWindow, Error> {
        let mut gone = BTreeSet::new();
        let items = self.items.into_iter().map(|p| p.load(words, &mut gone));
        let mut items: Vec<LoadedItem> = items.collect::<Result<_, _>>()?;
        unseal_beside(&mut items, gone);
        let (settings_format, model, settings) = match self.settings {
            None => Default::default(),
            Some((seq, s)) => {
                let fields = words.fields(seq, &s.content)?;
                (s.format, s.model, fields)
            }
        };
        Ok(LoadedWindow {
            window: self.window,
            items,
            settings_format,
            settings,
            model,
        })
    }
}

/// What has to be read for one item.
struct Plan {
    id: MessageId,
    given: Seq,
    payload: u32,
    committed: Commitment,
    role: Role,
    author: Author,
    continues: Option<Seq>,
    same_source: Option<Seq>,
    answers: Vec<Option<(Seq, u32)>>,
}

impl Plan {
    fn of(projection: &Projection, id: MessageId, n: Seq) -> Option<Self> {
        let message = projection.message(id)?;
        let form = message.form_at(n)?;
        // A new form keeps the edges of the first: they were decided at append.
        let first = message.forms.first()?;
        Some(Self {
            id,
            given: form.given,
            payload: form.payload,
            committed: form.content,
            role: form.skeleton.role.clone(),
            author: form.skeleton.author,
            continues: message.continues,
            same_source: message.same_source,
            answers: first.skeleton.parts.iter().map(|p| p.answers).collect(),
        })
    }

    /// The same by the entries that say what the item is.
    fn read(item: &Placed, entries: &ItemEntries) -> Result<Self, Error> {
        let lost = || entries.lost(item.id.seq());
        let (form, committed) = entries.form(item).ok_or_else(lost)?;
        let (first, continues, same_source) = entries.first(item).ok_or_else(lost)?;
        Ok(Self {
            id: item.id,
            given: item.form,
            payload: item.payload,
            committed,
            role: form.role.clone(),
            author: form.author,
            continues,
            same_source,
            answers: first.parts.iter().map(|p| p.answers).collect(),
        })
    }

    /// `gone` gets it where its words were redacted.
    fn load(self, words: &Words<'_>, gone: &mut BTreeSet<MessageId>) -> Result<LoadedItem, Error> {
        let content = words.message(self.given, self.payload, &self.committed)?;
        if matches!(content, Content::Redacted) {
            gone.insert(self.id);
        }
        Ok(LoadedItem {
            id: self.id,
            message: content.into_message(self.role, self.author),
            continues: self.continues,
            same_source: self.same_source,
            answers: self.answers,
        })
    }
}

/// A provider signed reasoning for its whole turn: where words of one of the messages that make up the
/// turn are gone, no other of them may be sent with what was signed.
fn unseal_beside(items: &mut [LoadedItem], mut gone: BTreeSet<MessageId>) {
    if gone.is_empty() {
        return;
    }
    // A message continues an earlier one: there and back is enough for any number of them.
    let pairs: Vec<_> = items
        .iter()
        .filter_map(|item| Some((item.id, MessageId(item.continues?))))
        .collect();
    for (one, other) in pairs.iter().rev().chain(&pairs) {
        if gone.contains(one) || gone.contains(other) {
            gone.extend([*one, *other]);
        }
    }
    for item in items.iter_mut().filter(|item| gone.contains(&item.id)) {
        item.message.parts.retain(|part| match &part.body {
            PartBody::Reasoning {
                signature,
                encrypted,
                ..
            } => signature.is_none() && encrypted.is_none(),
            _ => true,
        });
    }
}
