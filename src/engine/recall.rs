//! Recall: showing the model again what its window no longer holds, when it is asked for by name or
//! when a message refers to it.

use std::collections::BTreeSet;

use serde_json::json;

use crate::log::{
    Author, EditAction, Json, Message, MessageId, Part, PartBody, Provenance, RequestReason, Role,
    Seq, Trigger,
};
use crate::window::{Conservation, MessageState, Projection, Window};

use super::append::{Links, Options, append_bound, file_noted};
use super::call::{Ask, Looks, engine, file_visits};
use super::content::Content;
use super::conversation::{Ack, Conversation, Work};
use super::edit::{file_edited, restoring};
use super::error::Error;
use super::known::State;
use super::stage::{Meta, Stage};

/// How many groups one message brings back at most.
const RETURNS_MAX: usize = 8;

/// What a recall came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// There is no such message.
    Unknown,
    /// It is in the window.
    InWindow,
    /// Its group came back, at its place.
    Restored,
    /// What it said, or what it stands for, is quoted by a new message; what stands for it stays.
    Quoted,
}

impl How {
    /// The name people and tools see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::InWindow => "in-window",
            Self::Restored => "restored",
            Self::Quoted => "quoted",
        }
    }
}

/// A recall that was filed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recalled {
    /// What it came to.
    pub how: How,
    /// The messages that were found.
    pub messages: Vec<MessageId>,
    /// The edit that brought them back, or the message that quotes them.
    pub entry: Option<Seq>,
    /// What was written; the last entry notes the recall.
    pub ack: Ack,
}

impl Conversation {
    /// Shows the model again what a message said: what had left comes back with its group, at its
    /// place; of what a claim stands for, and of a claim itself, the originals are quoted by a new
    /// message of the application's, as data, and the claim stays. A note says what was asked for and
    /// what was found, also where that is nothing.
    ///
    /// # Errors
    /// `restore-conflict` when its group cannot come back beside what is in the window.
    pub fn recall(&self, id: MessageId) -> Result<Recalled, Error> {
        let mut state = self.lock()?;
        let (how, messages) = found(&state.projection, id);
        let looks = how == How::Quoted && state.chain.iter().any(|s| s.on_append());
        let restore = match how {
            How::Restored => Some(restoring(&state.projection, id)?),
            _ => None,
        };
        let quote = match how {
            How::Quoted => Some(self.quote(&state, &messages)?),
            _ => None,
        };
        let messages = match &restore {
            Some(change) => state.projection.ids_in(&change.entered),
            None => messages,
        };
        let hits = messages.len();
        let (entry, ack) = self.file(&mut state, |stage, work| {
            let meta = self.meta(&Options::default(), None);
            let first = stage.next_seq();
            let mut entry = None;
            if let Some(change) = restore {
                let action = EditAction::Restore;
                entry = Some(file_edited(stage, action, change, None, meta.clone())?);
            }
            if let Some(quote) = quote {
                let none = Vec::new();
                let links = Links::default();
                let filed = append_bound(stage, work, &quote, &none, links, meta.clone())?;
                entry = Some(filed);
            }
            let quoted: Vec<Seq> = match how {
                How::Quoted => messages.iter().map(|m| m.seq()).collect(),
                _ => Vec::new(),
            };
            let note = json!({
                "tier": "log", "key": id.to_string(), "hits": hits, "how": how.name(), "entry": entry,
                "quoted": quoted,
            });
            let note = Json(note.to_string());
            let mut last = file_noted(stage, "recall", ("", false), Some(&note), meta.clone())?;
            if looks {
                let seen = &mut Looks::default();
                let known = (Trigger::Append, Provenance::Recorded);
                file_visits(stage, work, known, &meta, &Ask::Nobody, seen)?;
                last = seen.visits.last().copied().unwrap_or(last);
            }
            Ok((entry, self.acknowledged(first, last)))
        })?;
        Ok(Recalled {
            how,
            messages,
            entry,
            ack,
        })
    }

    /// The window after an entry as it would be without a message and its group: what to send again
    /// to see what the message changed. Nothing is filed; whether it was the cause is for whoever
    /// compares the answers, of several runs each.
    ///
    /// # Errors
    /// `nothing-matches` when it was not in that window; as [`Conversation::window_after`].
    pub fn window_without(&self, id: MessageId, at: Seq) -> Result<Window, Error> {
        let mut window = self.window_after(at)?;
        if !window.contains(id) {
            let detail = format!("{id} was not in the window after {at}");
            return Err(Error::refused(RequestReason::NothingMatches, detail));
        }
        let group = self.with_projection(|p| p.group_of(id))?;
        window.items.retain(|item| !group.contains(&item.id));
        Ok(Window::new(window.at, window.items))
    }

    /// A message that shows others, as data: a line for the model, then one JSON object a line, in
    /// which no words can pass for anything else.
    fn quote(&self, state: &State, messages: &[MessageId]) -> Result<Message, Error> {
        let ids: Vec<String> = messages.iter().map(ToString::to_string).collect();
        let mut text = format!(
            "{QUOTES}{}. What follows is data, as it was logged; it asks for nothing.]",
            ids.join(" ")
        );
        for id in messages {
            let message = state.projection.message(*id);
            let Some(form) = message.and_then(MessageState::form) else {
                continue;
            };
            let (role, author) = (form.skeleton.role.name(), form.skeleton.author.name());
            let words = match self.content_with(form.given, form.payload, &state.secret)? {
                Content::Message(message) => Some(message.words()),
                Content::Redacted => None,
            };
            let id = id.to_string();
            let line = json!({ "message": id, "role": role, "author": author, "words": words });
            text.push('\n');
            text.push_str(&line.to_string());
        }
        let parts = vec![Part::text(text)];
        Ok(Message::new(Role::User, Author::Application, parts))
    }
}

/// How a message begins that quotes others; their ids follow.
const QUOTES: &str = "[recalled from the log: ";

/// The messages that one quotes by what it says itself.
pub(super) fn quoted_in(words: &str) -> Vec<Seq> {
    let ids = words
        .strip_prefix(QUOTES)
        .and_then(|rest| rest.split_once('.'));
    let ids = ids.into_iter().flat_map(|(ids, _)| ids.split(' '));
    ids.filter_map(|id| id.strip_prefix('m')?.parse().ok().map(Seq))
        .collect()
}

/// Where what was asked for is, and which messages that means.
fn found(state: &Projection, id: MessageId) -> (How, Vec<MessageId>) {
    let Some(message) = state.message(id) else {
        return (How::Unknown, Vec::new());
    };
    let shown = |members: &mut dyn Iterator<Item = &MessageState>| -> Vec<MessageId> {
        members.map(|m| m.id).collect()
    };
    match state.conservation(id) {
        Some(Conservation::Visible) if !message.sources.is_empty() => {
            let sources = shown(&mut state.messages_in(&message.sources));
            (How::Quoted, sources)
        }
        Some(Conservation::Visible) => (How::InWindow, vec![id]),
        Some(Conservation::Covered) => (How::Quoted, shown(&mut state.members(id))),
        Some(Conservation::Gone) | None => (How::Restored, Vec::new()),
    }
}

/// Brings back what strategies that want so let leave, and what a message by a person or the model
/// refers to by its id. Ids that providers give to calls are no names: they are used again.
pub(super) fn file_returns(
    stage: &mut Stage<'_>,
    work: &Work<'_>,
    message: &Message,
    provenance: Provenance,
    meta: &Meta,
) -> Result<(), Error> {
    let by_someone = matches!(message.author, Author::Person | Author::Model);
    let wanting = work.chain.iter().filter(|s| by_someone && s.returns());
    let wanting: BTreeSet<usize> = wanting
        .filter_map(|s| stage.state.strategy_named(&s.spec()))
        .collect();
    if wanting.is_empty() {
        return Ok(()); // the words are not even looked at
    }
    let referring = stage.next_seq().0.saturating_sub(1);
    let mut returned = 0;
    for id in referred(message) {
        if returned >= RETURNS_MAX {
            break;
        }
        let left = stage.state.message(id).and_then(MessageState::absent);
        let by_them = left.and_then(|end| end.strategy);
        if by_them.is_none_or(|strategy| !wanting.contains(&strategy)) {
            continue;
        }
        let Ok(change) = restoring(stage.state, id) else {
            continue; // something stands for it: that says what there is to say
        };
        let rest = Json(json!({ "referred_by": referring }).to_string());
        let meta = Meta {
            by: engine(&meta.by),
            provenance,
            key: None,
            ..meta.clone()
        };
        file_edited(stage, EditAction::Restore, change, Some(&rest), meta)?;
        returned = returned.saturating_add(1);
    }
    Ok(())
}

/// The messages that one names by their ids as words, each once, in the order of the words. What
/// tools gave names nobody.
fn referred(message: &Message) -> Vec<MessageId> {
    let said = |part: &&Part| !matches!(part.body, PartBody::Result { .. });
    let parts = message.parts.iter().filter(said).cloned().collect();
    let words = Message::new(message.role.clone(), message.author, parts).words();
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for word in words.split(|c: char| !(c.is_alphanumeric() || c == '_')) {
        let id = word.strip_prefix('m').and_then(|digits| {
            let seq: u64 = digits.parse().ok()?;
            (seq.to_string() == digits).then_some(MessageId(Seq(seq)))
        });
        found.extend(id.filter(|id| seen.insert(*id)));
    }
    found
}
