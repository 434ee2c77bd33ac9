//! Taking in entries that were sealed elsewhere: an own export comes back bit for bit.

use std::ops::ControlFlow;

use crate::log::{Body, Hash, RequestReason, Seq, entry::Sealed};
use crate::store::{Name, Payload};
use crate::window::Projection;

use super::conversation::{Conversation, Store};
use super::error::{Error, Refusal};
use super::stage::Stage;

/// An entry from elsewhere with its payloads (`None`: redacted there) and the blobs it brings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Adopted {
    /// The entry.
    pub sealed: Sealed,
    /// Its payloads.
    pub payloads: Vec<Option<Payload>>,
    /// Blobs of its lineage.
    pub blobs: Vec<(Hash, Vec<u8>)>,
}

fn diverged(detail: impl Into<String>) -> Error {
    Refusal::new(RequestReason::SourceDiverged, detail).into()
}

impl Store {
    /// Takes a log in, from its first entry on, under its own id: created where it is absent (as
    /// `name`, else under its name at birth), continued where the store holds a prefix of it.
    /// Gives the conversation and how many entries were written.
    ///
    /// # Errors
    /// `source-diverged` when the entries are no chain, or the store's log is not their prefix.
    pub fn adopt(
        &self,
        entries: Vec<Adopted>,
        name: Option<&str>,
    ) -> Result<(Conversation, u64), Error> {
        let (id, birth) = birth(&entries)?;
        chained(&entries)?;
        let name = match name {
            Some(name) => self.full_name(name),
            None => self.own_name(birth),
        };
        if self.backend().head(id)?.is_some() {
            self.may_know(id)?;
        }
        let known = self.common_prefix(&entries)?;
        for (address, bytes) in entries.iter().flat_map(|e| &e.blobs) {
            self.backend().put_blob(id, *address, bytes)?;
        }
        // What is new comes in without them: nothing of it is ever there to be destroyed.
        let held = entries.iter().take(known);
        let redacted: Vec<(Seq, u32)> = held.flat_map(redactions).collect();
        let mut state = Projection::default();
        entries
            .iter()
            .take(known)
            .for_each(|e| state.apply(&e.sealed.entry));
        let head = known
            .checked_sub(1)
            .and_then(|i| entries.get(i))
            .map(|e| e.sealed.head());
        let mut stage = Stage::new(id, self.environment(), &mut state, head);
        let added = entries.len().saturating_sub(known);
        for entry in entries.into_iter().skip(known) {
            stage.adopt(entry.sealed, entry.payloads);
        }
        let birth = (known == 0).then(|| name.clone());
        if let Some((batch, _)) = stage.batch(birth) {
            self.backend().append(batch, self.level())?;
        } else {
            self.backend().sync(self.level())?;
        }
        for (seq, index) in redacted {
            self.backend()
                .destroy_payload(id, seq, index, self.level())?;
        }
        self.forget(id);
        let chat = self.by_id(crate::store::Listed {
            name,
            conversation: id,
        })?;
        Ok((chat, u64::try_from(added).unwrap_or(u64::MAX)))
    }

    /// How many of these entries the store holds already.
    fn common_prefix(&self, entries: &[Adopted]) -> Result<usize, Error> {
        let Some(first) = entries.first() else {
            return Ok(0);
        };
        let id = first.sealed.entry.conversation;
        let Some(head) = self.backend().head(id)? else {
            return Ok(0);
        };
        let mut known: usize = 0;
        let mut differs = None;
        self.entries(id, Seq(0), head.seq, &mut |held| {
            match entries.get(known) {
                None => return ControlFlow::Break(()),
                Some(given) if given.sealed.hash == held.hash => {
                    known = known.saturating_add(1);
                }
                Some(_) => {
                    differs = Some(held.entry.seq);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        match differs {
            Some(seq) => Err(diverged(format!("entry {seq} is not the one held here"))),
            None => Ok(known),
        }
    }
}

fn birth(entries: &[Adopted]) -> Result<(crate::log::ConversationId, Name), Error> {
    let first = entries
        .first()
        .ok_or_else(|| diverged("there are no entries"))?;
    match &first.sealed.entry.body {
        Body::Opened(o) => Ok((
            first.sealed.entry.conversation,
            Name {
                namespace: o.namespace.clone(),
                name: o.name.clone(),
            },
        )),
        _ => Err(diverged("the first entry does not open a log")),
    }
}

fn chained(entries: &[Adopted]) -> Result<(), Error> {
    let mut prev = Hash::ZERO;
    let mut next = Seq(0);
    let id = entries.first().map(|e| e.sealed.entry.conversation);
    for adopted in entries {
        let entry = &adopted.sealed.entry;
        if entry.seq != next || entry.prev != prev || Some(entry.conversation) != id {
            return Err(diverged(format!(
                "{next} does not continue the entry before it"
            )));
        }
        prev = adopted.sealed.hash;
        next = next.next();
    }
    Ok(())
}

fn redactions(adopted: &Adopted) -> Vec<(Seq, u32)> {
    let seq = adopted.sealed.entry.seq;
    let payloads = (0_u32..).zip(&adopted.payloads);
    payloads
        .filter(|(_, p)| p.is_none())
        .map(|(index, _)| (seq, index))
        .collect()
}
