//! Taking in entries that were sealed elsewhere: an own export comes back bit for bit.
//!
//! The entries are gone through twice, so that nothing is written where something does not fit, and a
//! few are held at a time.

use std::borrow::Cow;
use std::ops::ControlFlow;

use crate::log::{Body, ConversationId, ForkPoint, Hash, Head, RequestReason, Seq, entry::Sealed};
use crate::store::{Batch, Level, Listed, Name, Payload, Record, StoreError};

use super::conversation::{Conversation, Store};
use super::error::{Error, Refusal};

/// Entries of one stored batch, and their bytes.
const BATCH_ENTRIES: usize = 1 << 12;
const BATCH_BYTES: usize = 8 << 20;
/// How many entries of the store's log are read ahead to be compared.
const AHEAD: u64 = 1 << 10;

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

/// Entries of a log from its first one on, which can be gone through again.
pub trait Entries {
    /// Shows each in order, until one is refused.
    ///
    /// # Errors
    /// What `show` said, or a failure to read them.
    fn each(
        &self,
        show: &mut dyn FnMut(Cow<'_, Adopted>) -> Result<(), Error>,
    ) -> Result<(), Error>;
}

impl Entries for [Adopted] {
    fn each(
        &self,
        show: &mut dyn FnMut(Cow<'_, Adopted>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.iter().try_for_each(|entry| show(Cow::Borrowed(entry)))
    }
}

fn diverged(detail: impl Into<String>) -> Error {
    Refusal::new(RequestReason::SourceDiverged, detail).into()
}

/// The entries of one log among those that come: all, or of a fork's lineage those up to where the
/// next one left it.
struct Piece {
    id: ConversationId,
    /// As what it is listed.
    name: Name,
    /// The newest entry that the store has of it.
    held: Option<Head>,
}

impl Store {
    /// Takes a log in, from its first entry on, under its own id: created where it is absent (as
    /// `name`, else under its name at birth), continued where the store holds a prefix of it. The log
    /// of a fork begins with the entries that it shares: those it was forked from are created as far as
    /// they are shared, under their names at birth, and the fork goes where they are.
    /// Gives the conversation, under the name that it has here, and how many entries were written.
    ///
    /// A few MiB are written at a time. Taking in again what was cut off goes on where it ended.
    ///
    /// # Errors
    /// `source-diverged` when the entries are no chain, or the store's log is not their prefix.
    pub fn adopt(
        &self,
        entries: &(impl Entries + ?Sized),
        name: Option<&str>,
    ) -> Result<(Conversation, u64), Error> {
        let pieces = self.planned(entries, name)?;
        let (Some(root), Some(last)) = (pieces.first(), pieces.last()) else {
            return Err(diverged("there are no entries"));
        };
        let (conversation, name) = (last.id, last.name.clone());
        let mut taking = Taking {
            store: self,
            root: root.id,
            pieces: &pieces,
            redacted: Vec::new(),
            written: None,
            records: Vec::new(),
            bytes: 0,
            batches: 0,
            added: 0,
        };
        entries.each(&mut |entry| taking.take(entry))?;
        let added = taking.finish()?;
        pieces.iter().for_each(|piece| self.forget(piece.id));
        let chat = self.by_id(Listed { name, conversation })?;
        Ok((chat, added))
    }

    /// Looks at everything before anything is written.
    fn planned(
        &self,
        entries: &(impl Entries + ?Sized),
        name: Option<&str>,
    ) -> Result<Vec<Piece>, Error> {
        let mut looking = Looking {
            store: self,
            pieces: Vec::new(),
            prev: Hash::ZERO,
            next: Seq(0),
            before: None,
            ahead: Vec::new(),
        };
        entries.each(&mut |entry| looking.look(&entry.sealed))?;
        let mut pieces = looking.pieces;
        self.named(&mut pieces, name)?;
        Ok(pieces)
    }

    /// Settles as what each log is listed.
    fn named(&self, pieces: &mut [Piece], name: Option<&str>) -> Result<(), Error> {
        let count = pieces.len();
        let mut namespace: Option<Vec<String>> = None;
        for (at, piece) in pieces.iter_mut().enumerate() {
            let is_last = at.saturating_add(1) == count;
            let mut own = match name.filter(|_| is_last) {
                Some(name) => self.full_name(name),
                None => self.own_name(piece.name.clone()),
            };
            let listed = self.listed(piece.id)?;
            if count > 1 {
                // A lineage is of one namespace: that of the root, where it is here.
                let here = listed.as_ref().map(|name| name.namespace.clone());
                own.namespace = namespace.take().or(here).unwrap_or(own.namespace);
                namespace = Some(own.namespace.clone());
                let taken = self.backend().find(&own)?.filter(|id| *id != piece.id);
                if let Some(conversation) = taken.filter(|_| piece.held.is_none()) {
                    let name = own;
                    return Err(StoreError::NameTaken { name, conversation }.into());
                }
            }
            // What is here has a name already.
            piece.name = listed.unwrap_or(own);
        }
        Ok(())
    }

    fn listed(&self, id: ConversationId) -> Result<Option<Name>, Error> {
        let mut all = self.backend().list(&[])?.into_iter();
        let listed = all.find(|listed| listed.conversation == id);
        Ok(listed.map(|listed| listed.name))
    }
}

/// The first time through: are the entries a chain, and is what the store has of it its beginning?
/// Each log but the first has to begin where it says that it left the one before.
struct Looking<'a> {
    store: &'a Store,
    pieces: Vec<Piece>,
    prev: Hash,
    next: Seq,
    before: Option<ForkPoint>,
    /// Hashes of the store's log, the next one last.
    ahead: Vec<Hash>,
}

impl Looking<'_> {
    fn look(&mut self, sealed: &Sealed) -> Result<(), Error> {
        let entry = &sealed.entry;
        let begins = (self.before).is_none_or(|point| point.parent != entry.conversation);
        if entry.seq != self.next || entry.prev != self.prev {
            return Err(discontinued(self.next));
        }
        if begins {
            let Body::Opened(opened) = &entry.body else {
                return Err(match self.before {
                    None => diverged("the first entry does not open a log"),
                    Some(_) => discontinued(self.next),
                });
            };
            if opened.fork != self.before {
                return Err(discontinued(self.next));
            }
            let birth = Name {
                namespace: opened.namespace.clone(),
                name: opened.name.clone(),
            };
            self.begin(entry.conversation, birth)?;
        }
        self.compare(sealed)?;
        self.before = Some(ForkPoint {
            parent: entry.conversation,
            at: self.next,
        });
        self.prev = sealed.hash;
        self.next = self.next.next();
        Ok(())
    }

    fn begin(&mut self, id: ConversationId, name: Name) -> Result<(), Error> {
        let backend = self.store.backend();
        let held = backend.head(id)?;
        if held.is_some() {
            self.store.may_know(id)?;
            if backend.first(id)? != Some(self.next) {
                let first = self.next;
                return Err(diverged(format!(
                    "the log held here does not begin with {first}"
                )));
            }
        }
        self.ahead.clear();
        self.pieces.push(Piece { id, name, held });
        Ok(())
    }

    fn compare(&mut self, sealed: &Sealed) -> Result<(), Error> {
        let seq = sealed.entry.seq;
        let Some(piece) = self.pieces.last() else {
            return Ok(());
        };
        if piece.held.is_none_or(|head| head.seq < seq) {
            return Ok(());
        }
        if self.ahead.is_empty() {
            let end = piece.held.map_or(seq, |head| head.seq);
            let to = Seq(seq.0.saturating_add(AHEAD)).min(end);
            let ahead = &mut self.ahead;
            self.store.entries(piece.id, seq, to, &mut |held| {
                ahead.push(held.hash);
                ControlFlow::Continue(())
            })?;
            ahead.reverse();
        }
        if self.ahead.pop() == Some(sealed.hash) {
            return Ok(());
        }
        Err(diverged(format!("entry {seq} is not the one held here")))
    }
}

/// The second time through: what is new is written.
struct Taking<'a> {
    store: &'a Store,
    root: ConversationId,
    pieces: &'a [Piece],
    /// Payloads that were redacted elsewhere and may still be here.
    redacted: Vec<(ConversationId, Seq, u32)>,
    /// Whose records these are, and the head that they continue.
    written: Option<(ConversationId, Option<Head>)>,
    records: Vec<Record>,
    bytes: usize,
    batches: u64,
    added: u64,
}

impl Taking<'_> {
    fn take(&mut self, entry: Cow<'_, Adopted>) -> Result<(), Error> {
        let id = entry.sealed.entry.conversation;
        for (address, bytes) in &entry.blobs {
            self.store.backend().put_blob(self.root, *address, bytes)?;
        }
        let held = self.piece(id).and_then(|piece| piece.held);
        if self.written.is_none_or(|(of, _)| of != id) {
            self.write(Level::Buffered)?;
            self.written = Some((id, held));
        }
        if held.is_some_and(|head| entry.sealed.entry.seq <= head.seq) {
            let gone = redactions(&entry).into_iter();
            self.redacted
                .extend(gone.map(|(seq, index)| (id, seq, index)));
            return Ok(());
        }
        let Adopted {
            sealed, payloads, ..
        } = entry.into_owned();
        // What is new comes in without them: nothing of it is ever there to be destroyed.
        let words = payloads.iter().flatten().map(|p| p.bytes.len());
        self.bytes = words.fold(self.bytes, usize::saturating_add);
        self.bytes = self.bytes.saturating_add(sealed.bytes.len());
        self.records.push(Record {
            seq: sealed.entry.seq,
            hash: sealed.hash,
            entry: sealed.bytes,
            payloads,
        });
        self.added = self.added.saturating_add(1);
        if self.records.len() >= BATCH_ENTRIES || self.bytes >= BATCH_BYTES {
            self.write(Level::Buffered)?;
        }
        Ok(())
    }

    fn piece(&self, id: ConversationId) -> Option<&Piece> {
        self.pieces.iter().find(|piece| piece.id == id)
    }

    fn write(&mut self, level: Level) -> Result<(), Error> {
        let (Some((conversation, expected)), Some(last)) = (self.written, self.records.last())
        else {
            return Ok(());
        };
        let head = Head {
            seq: last.seq,
            hash: last.hash,
        };
        let name = self.piece(conversation).map(|piece| piece.name.clone());
        let batch = Batch {
            conversation,
            expected,
            birth: name.filter(|_| expected.is_none()),
            records: std::mem::take(&mut self.records),
        };
        self.bytes = 0;
        self.written = Some((conversation, Some(head)));
        self.batches = self.batches.saturating_add(1);
        Ok(self.store.backend().append(batch, level)?)
    }

    fn finish(mut self) -> Result<u64, Error> {
        let (backend, level) = (self.store.backend(), self.store.level());
        self.write(level)?;
        if self.batches != 1 {
            backend.sync(level)?;
        }
        for piece in self.pieces {
            let own = self.redacted.iter().filter(|(id, ..)| *id == piece.id);
            let places: Vec<(Seq, u32)> = own.map(|(_, seq, index)| (*seq, *index)).collect();
            backend.destroy_payloads(piece.id, &places, level)?;
        }
        Ok(self.added)
    }
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
