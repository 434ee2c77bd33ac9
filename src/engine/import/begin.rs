//! How an imported conversation begins: by itself, as a fork of another, or by another's tool call.

use super::key;
use crate::engine::content::Content;
use crate::engine::conversation::{Call, Conversation, Store};
use crate::engine::error::Error;
use crate::formats::{Begins, claude_code};
use crate::log::{Author, Body, PartKind, PartSkeleton, Seq};
use crate::window::MessageState;

/// The conversation of a name, made as its transcript says that it begins.
pub(super) fn begin(
    door: &Store,
    named: &dyn Fn(&str) -> Option<String>,
    name: &str,
    begins: &Begins,
) -> Result<Conversation, Error> {
    let other = |id: &String| named(id).map(|name| door.existing(&name)).transpose();
    match begins {
        Begins::Own => door.conversation(name),
        Begins::Branch { of, shared } => {
            let known = door.backend().find(&door.full_name(name))?.is_some();
            match (known, other(of)?) {
                (false, Some(parent)) => match end_of_steps(&parent, *shared)? {
                    Some(at) => parent.fork_closing(at, name),
                    None => door.conversation(name),
                },
                _ => door.conversation(name),
            }
        }
        Begins::Started { by, call } => {
            let call = match other(by)? {
                Some(chat) => match chat.call_named(call)? {
                    None => chat.call_of_agent(call)?,
                    named => named,
                },
                None => None,
            };
            door.conversation_started(name, call)
        }
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

    /// The tool call whose result is the answer of a sub-agent with this id.
    fn call_of_agent(&self, agent: &str) -> Result<Option<Call>, Error> {
        let answered = |message: &MessageState| {
            let form = message.forms.first()?;
            let call = form.skeleton.parts.iter().find_map(|part| part.answers)?;
            (form.skeleton.author == Author::Tool).then_some((form.given, call))
        };
        let results: Vec<(Seq, (Seq, u32))> =
            self.with_projection(|p| p.messages().iter().filter_map(answered).collect())?;
        for (given, (message, part)) in results {
            if let Content::Message(words) = self.content(given, 0)?
                && claude_code::agent_of(&words).as_deref() == Some(agent)
            {
                return Ok(Some((self.id(), message, part)));
            }
        }
        Ok(None)
    }
}
