//! Bringing what was accepted into sled's tree, packed into blocks.

use std::sync::Arc;

use super::block::{self, Block, Codec, Prospect};
use super::blocks::Want;
use super::frame::{self, Change, Span};
use super::keys;
use super::queue::{Growth, Moved};
use super::record::Parts;
use super::reserved;
use super::tally::Tally;
use super::writer::Shared;
use crate::log::{ConversationId, Head, Seq};
use crate::store::StoreError;

/// The bytes after which what was applied is synced. sled takes what it flushed for safe, and reuses
/// the space of what that replaces: were much of it flushed and not synced, a power cut could take the
/// new place of something after the old one was overwritten. sled writes up to six times what it is
/// given, so that this is less than one of its segments.
const APPLIED_BYTES: usize = 64 << 10;
/// The same where the keys are ahead: then sled writes about three times what it is given.
const AHEAD_BYTES: usize = 128 << 10;
/// The bytes of records that are packed at once.
const PIECE_BYTES: usize = 64 << 10;

/// The values of a block that is there, written anew.
pub(super) struct Rewrite {
    pub(super) changes: Vec<Change>,
    /// Whose block it is, and its first entry.
    pub(super) block: (ConversationId, Seq),
}

/// The number behind so many entries.
fn after(seq: Seq, count: usize) -> Seq {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    Seq(seq.0.saturating_add(count))
}

/// A log's last block, where it may take more and is whole.
fn small_block(
    shared: &Shared,
    id: ConversationId,
    first: Option<Seq>,
) -> Result<Option<Arc<Block>>, StoreError> {
    let Some(first) = first else {
        return Ok(None);
    };
    match shared
        .blocks
        .beginning(&shared.engine, id, first, Want::Words)
    {
        Err(StoreError::Damaged { .. }) => Ok(None), // it stays as it is
        read => read,
    }
}

/// The new keys from which it is worth to write them ahead of their values.
const RESERVED_MIN: usize = 24;
/// How many are written before they are synced. The first of them come into a leaf that is full of values,
/// and after each ten sled writes it anew with all of these: more of them at once were several segments.
const RESERVED_MAX: usize = 64;

/// What only one thread at a time has: the tree, to be written.
#[derive(Debug)]
pub(super) struct Settler {
    tally: Tally,
    pub(super) codec: Codec,
}

/// What is written together.
#[derive(Default)]
struct Pile {
    changes: Vec<Change>,
    bytes: usize,
    moved: Vec<Moved>,
    /// Blocks that were there before.
    rewritten: Vec<(ConversationId, Seq)>,
}

impl Pile {
    fn of(changes: Vec<Change>) -> Self {
        let size =
            |(key, value): &Change| key.len().saturating_add(value.as_ref().map_or(0, Vec::len));
        let bytes = changes.iter().map(size).fold(0, usize::saturating_add);
        Self {
            changes,
            bytes,
            ..Self::default()
        }
    }

    fn add(&mut self, other: Self) {
        self.changes.extend(other.changes);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.moved.extend(other.moved);
        self.rewritten.extend(other.rewritten);
    }
}

impl Settler {
    pub(super) fn new(tally: Tally) -> Self {
        let codec = Codec::default();
        Self { tally, codec }
    }

    /// Brings everything that was accepted into the tree, and this to the disk.
    pub(super) fn settle(&mut self, shared: &Shared) -> Result<(), StoreError> {
        let load = shared.queue().load();
        shared.media.sync()?; // what is written now may mention what was put before
        let mut piles = Vec::new();
        for growth in &load.grown {
            self.grow(shared, growth, &mut piles)?;
        }
        for (key, bytes) in &load.derived {
            let mut changes = shared.engine.removals(key)?;
            frame::write_content(key, bytes, &mut changes);
            piles.push(Pile::of(changes));
        }
        let reserved = self.reserve(shared, &piles)?;
        let enough = if reserved { AHEAD_BYTES } else { APPLIED_BYTES };
        let mut whole = Pile::default();
        for pile in piles {
            whole.add(pile);
            if whole.bytes >= enough {
                self.apply(shared, std::mem::take(&mut whole))?;
                shared.note_what_is_due();
            }
        }
        if reserved {
            whole.changes.push(reserved::none());
        }
        self.apply(shared, whole)?;
        shared.queue().settle(&load);
        Ok(())
    }

    /// Puts what waits of a log into blocks. Its head moves only to where an append ends.
    fn grow(
        &mut self,
        shared: &Shared,
        growth: &Growth,
        piles: &mut Vec<Pile>,
    ) -> Result<(), StoreError> {
        let id = growth.conversation;
        let (mut small, mut prospect) = (growth.last, growth.prospect);
        let (mut from, mut name) = (growth.from, growth.birth.as_ref());
        let mut next = from.map_or(growth.first, |span| span.head.seq.next());
        let (mut start, mut bytes) = (0_usize, 0_usize);
        for (index, one) in growth.waiting.iter().enumerate() {
            bytes = bytes.saturating_add(one.record.len());
            let behind = index.saturating_add(1);
            let enough = bytes >= PIECE_BYTES || behind == growth.waiting.len();
            let Some(hash) = one.end.filter(|_| enough) else {
                continue;
            };
            let piece = growth.waiting.get(start..behind).unwrap_or_default();
            (start, bytes) = (behind, 0);
            let new = piece.iter().map(|one| Parts::of(&one.record));
            // Only what the tree has is packed anew, and not what is still to be written.
            let before = small_block(shared, id, small.take())?;
            let mut changes = Vec::new();
            let last = match &before {
                None => self.pack(id, next, new.collect(), &mut prospect, &mut changes),
                Some(block) => {
                    let (records, key) = (block.records().chain(new).collect(), block.first());
                    changes = shared.engine.removals(&keys::block(id, key))?;
                    self.pack(id, key, records, &mut prospect, &mut changes)
                }
            };
            next = after(next, piece.len());
            let seq = Seq(next.0.saturating_sub(1));
            let to = Span {
                first: growth.first,
                head: Head { seq, hash },
            };
            if let Some(key) = name.take() {
                let owner = frame::seal(key, id.0.to_vec());
                changes.push((key.clone(), Some(owner)));
            }
            changes.push(frame::write_span(keys::head(id), to));
            piles.push(Pile {
                moved: vec![Moved {
                    conversation: id,
                    from,
                    to,
                    count: piece.len(),
                    last,
                    prospect,
                }],
                rewritten: before.iter().map(|block| (id, block.first())).collect(),
                ..Pile::of(changes)
            });
            from = Some(to);
        }
        Ok(())
    }

    /// Adds the values of the blocks of some records, of which this is the first entry. Gives the last
    /// block where it is small.
    fn pack(
        &mut self,
        id: ConversationId,
        first: Seq,
        records: Vec<Parts<'_>>,
        prospect: &mut Prospect,
        changes: &mut Vec<Change>,
    ) -> Option<Seq> {
        let (mut seq, mut last) = (first, None);
        let mut rest = records.iter().copied();
        for count in block::cut(records.iter().map(Parts::len)) {
            let part = rest.by_ref().take(count);
            let (content, bytes) = block::pack(part, prospect, &mut self.codec);
            frame::write_content(&keys::block(id, seq), &content, changes);
            last = block::takes_more(bytes).then_some(seq);
            seq = after(seq, count);
        }
        last
    }

    /// Writes the keys of all new blocks ahead of their values, in order, since a batch has none. Says
    /// whether it was worth it.
    fn reserve(&mut self, shared: &Shared, piles: &[Pile]) -> Result<bool, StoreError> {
        let mut ahead = Vec::new();
        let mut owners = Vec::new();
        for pile in piles.iter().filter(|pile| pile.rewritten.is_empty()) {
            let keys = pile.changes.iter().map(|(key, _)| key);
            ahead.extend(keys.filter(|key| key.first() == Some(&keys::BLOCK)));
            owners.extend(pile.moved.iter().map(|moved| moved.conversation));
        }
        if ahead.len() < RESERVED_MIN {
            return Ok(false);
        }
        owners.dedup();
        self.apply(shared, Pile::of(vec![reserved::note(&owners)]))?;
        for keys in ahead.chunks(RESERVED_MAX) {
            let put = |key: &&Vec<u8>| shared.engine.put(key, reserved::value(key));
            keys.iter().try_for_each(put)?;
            shared.engine.sync()?;
        }
        Ok(true)
    }

    /// Writes changes, and brings them to the disk.
    fn apply(&mut self, shared: &Shared, pile: Pile) -> Result<(), StoreError> {
        let Pile {
            mut changes,
            moved,
            rewritten,
            ..
        } = pile;
        if changes.is_empty() {
            return Ok(());
        }
        self.tally = self.tally.counted();
        for Moved {
            conversation,
            from,
            to,
            ..
        } in &moved
        {
            self.tally = self.tally.moved(*conversation, *from, *to);
        }
        changes.push(self.tally.change());
        {
            let _gate = shared.gate();
            let applied = shared.engine.apply(changes);
            let forget = |(owner, first)| shared.blocks.forget(owner, first);
            rewritten.into_iter().for_each(forget);
            applied?;
        }
        {
            let mut queue = shared.queue();
            moved.iter().for_each(|moved| queue.moved(moved));
        }
        shared.engine.sync()?;
        shared.receipt().tree(self.tally)
    }

    /// Has the values of a record rewritten. All that was accepted is in the tree by then.
    pub(super) fn rewrite(&mut self, shared: &Shared, rewrite: Rewrite) -> Result<(), StoreError> {
        let pile = Pile {
            rewritten: vec![rewrite.block],
            ..Pile::of(rewrite.changes)
        };
        self.apply(shared, pile)
    }
}
