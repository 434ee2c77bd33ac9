//! Logs that someone altered: a store that shows another log's bytes changed in one place, and what
//! `verify` has to say of it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::world::{Failure, World};
use crate::audit::verify;
use crate::engine::Store;
use crate::log::{ConversationId, Hash, Head, Micros, Seq, entry};
use crate::store::{Backend, Batch, Level, Listed, Name, Payload, StoreError};

/// One change to a stored log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Alteration {
    /// A bit of an entry's stored bytes is another one.
    Flip {
        /// The entry.
        at: u64,
        /// Which bit, modulo how many there are.
        bit: usize,
    },
    /// The same, and whoever did it computed the checksum anew.
    FlipWithChecksum {
        /// The entry.
        at: u64,
        /// Which bit, modulo how many the checksum covers.
        bit: usize,
    },
    /// A bit of a payload or of its salt is another one.
    FlipPayload {
        /// The entry.
        at: u64,
        /// Which bit of its first payload, salt first, modulo how many there are.
        bit: usize,
    },
    /// Two entries have changed places.
    Swap(u64, u64),
    /// An entry is missing; the later ones moved up.
    Drop(u64),
    /// An entry is there twice; the later ones moved down.
    Double(u64),
    /// An entry was replaced by another well-formed one of the same place.
    Splice(u64),
    /// The log ends before this entry; the head record is as it was.
    Truncate(u64),
    /// An entry was replaced and the chain made to fit up to another one; the rest is as it was.
    Reseal(u64, u64),
}

/// The fields of an entry's stored bytes: where each begins, and how many bytes it has. What is
/// behind them is the body.
const FIELDS: [(usize, usize); 11] = [
    (0, 4),
    (4, 1),
    (5, 1),
    (6, 1),
    (7, 1),
    (8, 16),
    (24, 8),
    (32, 8),
    (40, 8),
    (48, 32),
    (80, 8),
];

impl Alteration {
    /// A bit of every field of some entry, each with its checksum computed anew.
    pub(super) fn of_every_field(at: u64, draw: &dyn Fn(&str, usize) -> usize) -> Vec<Self> {
        let bit = |(from, bytes): &(usize, usize)| {
            let within = draw(&format!("field {from}"), bytes.saturating_mul(8));
            from.saturating_mul(8).saturating_add(within)
        };
        let fields = FIELDS.iter().map(bit);
        fields
            .map(|bit| Self::FlipWithChecksum { at, bit })
            .collect()
    }

    /// How many kinds there are.
    pub const KINDS: usize = 9;

    /// An alteration of the kind of this number, its places drawn below the bounds asked for.
    /// `None`: a log of so few entries cannot be altered so.
    #[must_use]
    pub fn drawn(kind: usize, entries: usize, draw: &dyn Fn(&str, usize) -> usize) -> Option<Self> {
        let place = |what, bound| u64::try_from(draw(what, bound)).unwrap_or(0);
        let at = place("at", entries);
        let last = u64::try_from(entries.checked_sub(1)?).unwrap_or(u64::MAX);
        let bit = draw("bit", 1 << 20);
        Some(match kind {
            0 => Self::Flip { at, bit },
            1 => Self::FlipWithChecksum { at, bit },
            2 => Self::FlipPayload { at, bit },
            3 => {
                let other = place("other", entries);
                (at != other).then_some(Self::Swap(at.min(other), at.max(other)))?
            }
            4 => Self::Drop(at),
            // A copy of the last entry lies beyond the head, where nobody reads.
            5 => Self::Double(place("at", entries.checked_sub(1).filter(|n| *n > 0)?)),
            6 => Self::Splice(at),
            7 => Self::Truncate(at),
            _ => Self::Reseal(at, at.saturating_add(place("through", 3)).min(last)),
        })
    }

    /// The entries one of which must be named as the first bad one. An entry that still reads and
    /// still hangs on the one before is found out by the one after it, or by the head.
    fn found_at(self) -> (u64, u64) {
        match self {
            Self::FlipWithChecksum { at, .. } | Self::Splice(at) => (at, at.saturating_add(1)),
            Self::Reseal(at, through) => (at, through.saturating_add(1)),
            Self::Double(at) => (at.saturating_add(1), at.saturating_add(1)),
            Self::Flip { at, .. }
            | Self::FlipPayload { at, .. }
            | Self::Swap(at, _)
            | Self::Drop(at)
            | Self::Truncate(at) => (at, at),
        }
    }
}

/// A log's stored bytes by number.
type Stored = BTreeMap<u64, Vec<u8>>;

fn flip(bytes: &mut [u8], bit: usize) {
    let bit = bit.checked_rem(bytes.len().saturating_mul(8)).unwrap_or(0);
    if let Some(byte) = bytes.get_mut(bit / 8) {
        *byte ^= 1 << (bit % 8);
    }
}

/// A well-formed entry of the same place that is not the same.
fn spliced(bytes: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut other = entry::open(bytes)?.entry;
    let at = other.at.map_or(0, |at| at.0);
    other.at = Some(Micros(at.saturating_add(1)));
    Ok(entry::seal(other)?.bytes)
}

fn altered(stored: &Stored, alteration: Alteration) -> Result<Stored, Failure> {
    let mut out = stored.clone();
    let of = |n: u64| stored.get(&n).ok_or("there is no such entry");
    match alteration {
        Alteration::Flip { at, bit } => flip(out.entry(at).or_default(), bit),
        Alteration::FlipWithChecksum { at, bit } => {
            let mut hashed = entry::hashed(of(at)?).to_vec();
            flip(&mut hashed, bit);
            out.insert(at, entry::with_checksum(&hashed));
        }
        Alteration::FlipPayload { .. } => {}
        Alteration::Swap(a, b) => {
            out.insert(a, of(b)?.clone());
            out.insert(b, of(a)?.clone());
        }
        Alteration::Drop(at) => {
            out.retain(|n, _| *n < at);
            let moved = stored.range(at.saturating_add(1)..);
            out.extend(moved.map(|(n, bytes)| (n.saturating_sub(1), bytes.clone())));
        }
        Alteration::Double(at) => {
            let moved = stored
                .range(at..)
                .map(|(n, bytes)| (n.saturating_add(1), bytes.clone()));
            out.extend(moved);
        }
        Alteration::Splice(at) => drop(out.insert(at, spliced(of(at)?)?)),
        Alteration::Truncate(at) => out.retain(|n, _| *n < at),
        Alteration::Reseal(at, through) => {
            let mut before = entry::open(&spliced(of(at)?)?)?;
            out.insert(at, before.bytes.clone());
            for n in at.saturating_add(1)..=through {
                let mut next = entry::open(of(n)?)?.entry;
                next.prev = before.hash;
                before = entry::seal(next)?;
                out.insert(n, before.bytes.clone());
            }
        }
    }
    Ok(out)
}

/// A store that shows one conversation altered. Reads only.
#[derive(Debug)]
pub struct Altered {
    inner: Arc<dyn Backend>,
    conversation: ConversationId,
    stored: Stored,
    alteration: Alteration,
    /// The head record, where it was altered as well.
    head: Option<Head>,
}

impl Altered {
    /// Shows a log of this store with an alteration.
    ///
    /// # Errors
    /// When the log cannot be read, or holds no such entry.
    pub fn new(
        inner: Arc<dyn Backend>,
        conversation: ConversationId,
        alteration: Alteration,
    ) -> Result<Self, Failure> {
        let mut stored = Stored::new();
        inner.entries(conversation, Seq(0), Seq(u64::MAX), &mut |seq, bytes| {
            stored.insert(seq.0, bytes.to_vec());
            ControlFlow::Continue(())
        })?;
        Ok(Self {
            stored: altered(&stored, alteration)?,
            inner,
            conversation,
            alteration,
            head: None,
        })
    }

    /// The same by somebody who wrote the head record anew as well, so that it is that of the altered
    /// log: what no look at the store alone can tell.
    ///
    /// # Errors
    /// When the last entry cannot be read, or there is none.
    pub fn with_its_head(mut self) -> Result<Self, Failure> {
        let (_, last) = self.stored.last_key_value().ok_or("no entry is left")?;
        self.head = Some(entry::open(last)?.head());
        Ok(self)
    }

    fn read_only() -> StoreError {
        StoreError::Malformed {
            reason: "an altered store is only read".to_owned(),
        }
    }
}

impl Backend for Altered {
    fn append(&self, _: Batch, _: Level) -> Result<(), StoreError> {
        Err(Self::read_only())
    }

    fn head(&self, conversation: ConversationId) -> Result<Option<Head>, StoreError> {
        match self.head {
            Some(head) if conversation == self.conversation => Ok(Some(head)),
            _ => self.inner.head(conversation),
        }
    }

    fn first(&self, conversation: ConversationId) -> Result<Option<Seq>, StoreError> {
        self.inner.first(conversation)
    }

    fn durable_head(&self, conversation: ConversationId) -> Result<Option<Head>, StoreError> {
        self.inner.durable_head(conversation)
    }

    fn entries(
        &self,
        conversation: ConversationId,
        from: Seq,
        to: Seq,
        show: &mut dyn FnMut(Seq, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        if conversation != self.conversation {
            return self.inner.entries(conversation, from, to, show);
        }
        let head = self.head(conversation)?.map_or(0, |head| head.seq.0);
        for n in from.0..=to.0.min(head) {
            let Some(bytes) = self.stored.get(&n) else {
                return Err(StoreError::Damaged {
                    conversation: Some(conversation),
                    seq: Some(Seq(n)),
                    reason: "the entry is missing".to_owned(),
                });
            };
            if show(Seq(n), bytes).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn payload(
        &self,
        conversation: ConversationId,
        seq: Seq,
        index: u32,
    ) -> Result<Option<Payload>, StoreError> {
        let mut payload = self.inner.payload(conversation, seq, index)?;
        match (&mut payload, self.alteration) {
            (Some(payload), Alteration::FlipPayload { at, bit }) if seq.0 == at && index == 0 => {
                let bits = payload
                    .bytes
                    .len()
                    .saturating_add(payload.salt.len())
                    .saturating_mul(8);
                let bit = bit.checked_rem(bits).unwrap_or(0);
                match bit.checked_sub(payload.salt.len().saturating_mul(8)) {
                    Some(bit) => flip(&mut payload.bytes, bit),
                    None => flip(&mut payload.salt, bit),
                }
            }
            _ => {}
        }
        Ok(payload)
    }

    fn destroy_payload(
        &self,
        _: ConversationId,
        _: Seq,
        _: u32,
        _: Level,
    ) -> Result<(), StoreError> {
        Err(Self::read_only())
    }

    fn list(&self, prefix: &[String]) -> Result<Vec<Listed>, StoreError> {
        self.inner.list(prefix)
    }

    fn find(&self, name: &Name) -> Result<Option<ConversationId>, StoreError> {
        self.inner.find(name)
    }

    fn put_blob(&self, _: ConversationId, _: Hash, _: &[u8]) -> Result<(), StoreError> {
        Err(Self::read_only())
    }

    fn blob(&self, lineage: ConversationId, address: Hash) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.blob(lineage, address)
    }

    fn sweep_blobs(&self, _: ConversationId, _: &dyn Fn(&Hash) -> bool) -> Result<u64, StoreError> {
        Err(Self::read_only())
    }

    fn put_derived(&self, _: ConversationId, _: &str, _: &[u8]) -> Result<(), StoreError> {
        Err(Self::read_only())
    }

    fn derived(
        &self,
        conversation: ConversationId,
        name: &str,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.derived(conversation, name)
    }

    fn derived_before(
        &self,
        conversation: ConversationId,
        prefix: &str,
        name: &str,
    ) -> Result<Option<(String, Vec<u8>)>, StoreError> {
        self.inner.derived_before(conversation, prefix, name)
    }

    fn sync(&self, _: Level) -> Result<(), StoreError> {
        Ok(())
    }

    fn check(&self, conversation: Option<ConversationId>) -> Result<Vec<StoreError>, StoreError> {
        self.inner.check(conversation)
    }
}

/// Verifies a world's log, altered or as it is: an alteration must be noticed and its place named;
/// a clean log must raise no alarm.
///
/// # Errors
/// When it is not so.
pub fn noticed(world: &World, alteration: Option<Alteration>) -> Result<(), Failure> {
    let listed = world.listed()?;
    let Some(alteration) = alteration else {
        let verified = verify(&world.store, &listed, &mut |_, _| {})?;
        let clean = verified.chain == "ok" && verified.payloads.lost == 0;
        return if clean {
            Ok(())
        } else {
            Err(format!("a clean log raises an alarm: {:?}", verified.problems).into())
        };
    };
    let without = |at: u64| -> Result<bool, Failure> {
        Ok(world
            .backend
            .payload(listed.conversation, Seq(at), 0)?
            .is_none())
    };
    if let Alteration::FlipPayload { at, .. } = alteration
        && without(at)?
    {
        return Ok(()); // it has none
    }
    let altered = Altered::new(Arc::clone(&world.backend), listed.conversation, alteration)?;
    let verified = verify(&Store::on(Arc::new(altered)), &listed, &mut |_, _| {})?;
    let first = verified.first_bad.map(|seq| seq.0);
    let (from, to) = alteration.found_at();
    if !verified.ok && first.is_some_and(|first| from <= first && first <= to) {
        return Ok(());
    }
    Err(format!(
        "{alteration:?}: {first:?} is named as the first bad entry: {:?}",
        verified.problems
    )
    .into())
}
