//! How an imported conversation begins: by itself, as a fork of another, or by another's tool call.

use super::repeated::repeated;
use super::{Told, Warning, key};
use crate::engine::content::Content;
use crate::engine::conversation::{Call, Conversation, Store};
use crate::engine::error::Error;
use crate::formats::{Begins, Starter, Step, agents_of};
use crate::log::{Author, Body, PartKind, PartSkeleton, Seq};
use crate::window::MessageState;

/// A conversation to import into.
pub(super) struct Begun {
    pub(super) chat: Conversation,
    /// What is imported before the steps that the transcript still holds.
    pub(super) first: Vec<Step>,
    /// What the log has of the transcript, as the conversation that it was forked from.
    pub(super) passed: Passed,
    /// What a person should be told of how it begins.
    pub(super) warning: Option<Warning>,
}

/// Steps that are not imported, since the log has them: how many, and the entries of their messages.
#[derive(Default)]
pub(super) struct Passed {
    pub(super) steps: usize,
    pub(super) messages: Vec<Seq>,
}

impl Begun {
    const fn at_first(chat: Conversation) -> Self {
        Self {
            chat,
            first: Vec::new(),
            passed: Passed {
                steps: 0,
                messages: Vec::new(),
            },
            warning: None,
        }
    }
}

/// The conversation of a name, made as its transcript says that it begins.
pub(super) fn begin(
    door: &Store,
    named: &dyn Fn(&str) -> Option<String>,
    name: &str,
    told: &mut Told<'_>,
) -> Result<Begun, Error> {
    let other = |id: &String| named(id).map(|name| door.existing(&name)).transpose();
    let known = door.backend().find(&door.full_name(name))?.is_some();
    let chat = match told.begins {
        Begins::Forked { .. } if known => return again(door.conversation(name)?, told),
        Begins::Forked { of } => return forked(door, other(of)?, (name, of), told),
        Begins::Own => door.conversation(name)?,
        _ if known => door.conversation(name)?,
        Begins::Branch { of, shared } => match other(of)? {
            Some(parent) => match end_of_steps(&parent, *shared)? {
                Some(at) => parent.fork_closing(at, name)?,
                None => door.conversation(name)?,
            },
            None => door.conversation(name)?,
        },
        Begins::Started { by, call } => {
            let call = match other(by)? {
                Some(chat) => chat.call_that_started(call)?,
                None => None,
            };
            door.conversation_started(name, call)?
        }
    };
    Ok(Begun::at_first(chat))
}

/// A fork whose file tells its parent's beginning again, and that is there.
fn again(chat: Conversation, told: &mut Told<'_>) -> Result<Begun, Error> {
    let Some(point) = chat.forked()? else {
        return Ok(Begun::at_first(chat)); // it was imported without its parent
    };
    let (passed, first) = repeated(&chat, Some(point.at), told.steps)?;
    Ok(Begun {
        first,
        passed,
        ..Begun::at_first(chat)
    })
}

/// A fork whose file tells its parent's beginning again.
fn forked(
    door: &Store,
    parent: Option<Conversation>,
    (name, of): (&str, &str),
    told: &mut Told<'_>,
) -> Result<Begun, Error> {
    let alone = |first, what: &str| -> Result<Begun, Error> {
        let what = format!("it was forked from '{of}', {what}; it begins by itself");
        let place = name.to_owned();
        Ok(Begun {
            first,
            warning: Some(Warning { place, what }),
            ..Begun::at_first(door.conversation(name)?)
        })
    };
    let Some(parent) = parent else {
        return alone(Vec::new(), "which was not imported with it");
    };
    let (passed, first) = repeated(&parent, None, told.steps)?;
    match end_of_steps(&parent, passed.steps)? {
        Some(at) => Ok(Begun {
            first,
            passed,
            ..Begun::at_first(parent.fork_closing(at, name)?)
        }),
        None => alone(first, "and begins with no message of it"),
    }
}

/// The last entry of the first `steps` steps of an import and of the visits that they asked for.
fn end_of_steps(chat: &Conversation, steps: usize) -> Result<Option<Seq>, Error> {
    let Some(last) = steps.checked_sub(1) else {
        return Ok(None);
    };
    let filed = chat.with_projection(|p| {
        let next = p.by_key(&key(steps)).map(|(first, _)| first);
        (p.by_key(&key(last)), next)
    })?;
    let (Some((first, entries)), next) = filed else {
        return Ok(None);
    };
    if let Some(before) = next.and_then(|next| next.0.checked_sub(1)) {
        return Ok(Some(Seq(before)));
    }
    let mut end = Seq(first.0.saturating_add(u64::from(entries)).saturating_sub(1));
    let head = chat.head()?.map_or(end, |head| head.seq);
    while end < head && matches!(chat.entry(end.next())?.body, Body::Visited(_)) {
        end = end.next();
    }
    Ok(Some(end))
}

impl Conversation {
    fn call_that_started(&self, starter: &Starter) -> Result<Option<Call>, Error> {
        match starter {
            Starter::Call(id) => self.call_named(id),
            Starter::Agent(names) => self.call_of_agent(names),
        }
    }

    /// The newest tool call with this id of the provider's.
    fn call_named(&self, id: &str) -> Result<Option<Call>, Error> {
        let called = |message: &MessageState| {
            let parts = &message.skeleton()?.parts;
            let named = |part: &PartSkeleton| {
                part.kind == PartKind::Call && part.label.as_deref() == Some(id)
            };
            let at = u32::try_from(parts.iter().position(named)?).ok()?;
            Some((self.id(), message.id.seq(), at))
        };
        self.with_projection(|p| p.messages().iter().rev().find_map(called))
    }

    /// The tool call whose result names the sub-agent so.
    fn call_of_agent(&self, names: &[String]) -> Result<Option<Call>, Error> {
        let answered = |message: &MessageState| {
            let form = message.forms.first()?;
            let call = form.skeleton.parts.iter().find_map(|part| part.answers)?;
            (form.skeleton.author == Author::Tool).then_some((form.given, call))
        };
        let results: Vec<(Seq, (Seq, u32))> =
            self.with_projection(|p| p.messages().iter().filter_map(answered).collect())?;
        for (given, (message, part)) in results {
            if let Content::Message(words) = self.content(given, 0)?
                && agents_of(&words).iter().any(|agent| names.contains(agent))
            {
                return Ok(Some((self.id(), message, part)));
            }
        }
        Ok(None)
    }
}
