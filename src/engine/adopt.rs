//! Taking in entries that were sealed elsewhere: an own export comes back bit for bit.

use std::ops::{ControlFlow, Range};

use crate::log::{Body, ConversationId, ForkPoint, Hash, RequestReason, Seq, entry::Sealed};
use crate::store::{Listed, Name, Payload, StoreError};
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

/// The entries of one log among those that came: all, or of a fork's lineage those up to where the
/// next one left it.
struct Piece {
    id: ConversationId,
    birth: Name,
    entries: Range<usize>,
}

/// What becomes of a piece: as what it is listed, and how many of its entries are there.
struct Plan {
    piece: Piece,
    name: Name,
    known: usize,
}

impl Store {
    /// Takes a log in, from its first entry on, under its own id: created where it is absent (as
    /// `name`, else under its name at birth), continued where the store holds a prefix of it. The log
    /// of a fork begins with the entries that it shares: those it was forked from are created as far as
    /// they are shared, under their names at birth, and the fork goes where they are.
    /// Gives the conversation and how many entries were written.
    ///
    /// # Errors
    /// `source-diverged` when the entries are no chain, or the store's log is not their prefix.
    pub fn adopt(
        &self,
        entries: Vec<Adopted>,
        name: Option<&str>,
    ) -> Result<(Conversation, u64), Error> {
        let plans = self.planned(pieces(&entries)?, &entries, name)?;
        let (root, last) = match (plans.first(), plans.last()) {
            (Some(root), Some(last)) => (root.piece.id, (last.piece.id, last.name.clone())),
            _ => return Err(diverged("there are no entries")),
        };
        for (address, bytes) in entries.iter().flat_map(|e| &e.blobs) {
            self.backend().put_blob(root, *address, bytes)?;
        }
        let (mut state, mut added) = (Projection::default(), 0_u64);
        let mut entries = entries.into_iter();
        for plan in plans {
            let all = plan.piece.entries.len();
            let held: Vec<Adopted> = entries.by_ref().take(plan.known).collect();
            let new = entries.by_ref().take(all.saturating_sub(plan.known));
            let new: Vec<Adopted> = new.collect();
            added = added.saturating_add(u64::try_from(new.len()).unwrap_or(u64::MAX));
            self.take_in(plan, &held, new, &mut state)?;
        }
        let (conversation, name) = last;
        let chat = self.by_id(Listed { name, conversation })?;
        Ok((chat, added))
    }

    /// Looks at everything before anything is written.
    fn planned(
        &self,
        pieces: Vec<Piece>,
        entries: &[Adopted],
        name: Option<&str>,
    ) -> Result<Vec<Plan>, Error> {
        let count = pieces.len();
        let mut plans: Vec<Plan> = Vec::with_capacity(count);
        for (at, piece) in pieces.into_iter().enumerate() {
            let held = self.backend().head(piece.id)?.is_some();
            if held {
                self.may_know(piece.id)?;
            }
            let is_last = at.saturating_add(1) == count;
            let mut own = match name.filter(|_| is_last) {
                Some(name) => self.full_name(name),
                None => self.own_name(piece.birth.clone()),
            };
            if count > 1 {
                // A lineage is of one namespace: that of the root, where it is here.
                own.namespace = match plans.first() {
                    Some(root) => root.name.namespace.clone(),
                    None => self.listed_namespace(piece.id)?.unwrap_or(own.namespace),
                };
                let taken = self.backend().find(&own)?.filter(|id| *id != piece.id);
                if let Some(conversation) = taken.filter(|_| !held) {
                    let name = own;
                    return Err(StoreError::NameTaken { name, conversation }.into());
                }
            }
            let given = entries.get(piece.entries.clone()).unwrap_or_default();
            let known = self.common_prefix(piece.id, given)?;
            plans.push(Plan {
                piece,
                name: own,
                known,
            });
        }
        Ok(plans)
    }

    fn listed_namespace(&self, id: ConversationId) -> Result<Option<Vec<String>>, Error> {
        let mut all = self.backend().list(&[])?.into_iter();
        let listed = all.find(|listed| listed.conversation == id);
        Ok(listed.map(|listed| listed.name.namespace))
    }

    /// Writes what is new of a piece.
    fn take_in(
        &self,
        plan: Plan,
        held: &[Adopted],
        new: Vec<Adopted>,
        state: &mut Projection,
    ) -> Result<(), Error> {
        let id = plan.piece.id;
        // What is new comes in without them: nothing of it is ever there to be destroyed.
        let redacted: Vec<(Seq, u32)> = held.iter().flat_map(redactions).collect();
        held.iter().for_each(|e| state.apply(&e.sealed.entry));
        let head = held.last().map(|e| e.sealed.head());
        let mut stage = Stage::new(id, self.environment(), state, head);
        for entry in new {
            stage.adopt(entry.sealed, entry.payloads);
        }
        let birth = head.is_none().then_some(plan.name);
        if stage.size().0 > 0
            && let Some((batch, _)) = stage.batch(birth)
        {
            self.backend().append(batch, self.level())?;
        } else {
            self.backend().sync(self.level())?;
        }
        for (seq, index) in redacted {
            self.backend()
                .destroy_payload(id, seq, index, self.level())?;
        }
        self.forget(id);
        Ok(())
    }

    /// How many of these entries, which follow each other, the store's log holds already.
    fn common_prefix(&self, id: ConversationId, entries: &[Adopted]) -> Result<usize, Error> {
        let (Some(first), Some(head)) = (entries.first(), self.backend().head(id)?) else {
            return Ok(0);
        };
        let mut known: usize = 0;
        let mut differs = None;
        let first = first.sealed.entry.seq;
        if self.backend().first(id)? != Some(first) {
            return Err(diverged(format!(
                "the log held here does not begin with {first}"
            )));
        }
        self.entries(id, first, head.seq, &mut |held| {
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

/// Divides entries among the logs they are of. They have to be a chain, and each log but the first has
/// to begin where it says that it left the one before.
fn pieces(entries: &[Adopted]) -> Result<Vec<Piece>, Error> {
    let mut pieces: Vec<Piece> = Vec::new();
    let (mut prev, mut next) = (Hash::ZERO, Seq(0));
    let mut before: Option<ForkPoint> = None;
    for (at, adopted) in entries.iter().enumerate() {
        let entry = &adopted.sealed.entry;
        let begins = before.is_none_or(|point| point.parent != entry.conversation);
        if entry.seq != next || entry.prev != prev {
            return Err(discontinued(next));
        }
        if begins {
            let Body::Opened(opened) = &entry.body else {
                return Err(match before {
                    None => diverged("the first entry does not open a log"),
                    Some(_) => discontinued(next),
                });
            };
            if opened.fork != before {
                return Err(discontinued(next));
            }
            pieces.push(Piece {
                id: entry.conversation,
                birth: Name {
                    namespace: opened.namespace.clone(),
                    name: opened.name.clone(),
                },
                entries: at..at,
            });
        }
        if let Some(piece) = pieces.last_mut() {
            piece.entries.end = at.saturating_add(1);
        }
        before = Some(ForkPoint {
            parent: entry.conversation,
            at: next,
        });
        prev = adopted.sealed.hash;
        next = next.next();
    }
    Ok(pieces)
}

fn discontinued(seq: Seq) -> Error {
    diverged(format!("{seq} does not continue the entry before it"))
}

fn redactions(adopted: &Adopted) -> Vec<(Seq, u32)> {
    let seq = adopted.sealed.entry.seq;
    let payloads = (0_u32..).zip(&adopted.payloads);
    payloads
        .filter(|(_, p)| p.is_none())
        .map(|(index, _)| (seq, index))
        .collect()
}
