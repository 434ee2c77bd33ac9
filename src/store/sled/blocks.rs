//! Blocks as they are read: looked up, unpacked, and the newest used kept.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::at;
use super::block::{self, Block, Codec};
use super::engine::{ContentError, Engine};
use super::keys;
use super::scan::Contents;
use super::tail::place;
use crate::log::{ConversationId, Seq};
use crate::store::StoreError;

/// The memory of the blocks that are kept, in bytes.
const KEPT_BYTES: usize = 4 << 20;
/// A larger block is not kept.
const LARGE_BYTES: usize = KEPT_BYTES / 8;

/// What of a block is wanted unpacked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Want {
    /// The heads, which hold the entries: most of a block is words.
    Heads,
    /// Everything.
    Words,
}

/// Where a block is.
type Place = (ConversationId, Seq);

/// Unpacked blocks, and what unpacks them.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    kept: Mutex<Kept>,
    /// One for each thread that reads at once.
    codecs: Mutex<Vec<Codec>>,
}

#[derive(Debug, Default)]
struct Kept {
    blocks: BTreeMap<Place, (u64, Arc<Block>)>,
    bytes: usize,
    /// Counts uses, so that the one used longest ago is known.
    uses: u64,
    /// Counts rewritings: what was read before one of them may be what it destroyed.
    rewritten: u64,
}

impl Blocks {
    /// The block that an entry lies in, where it is kept. What is kept stays right: records leave no
    /// block, and a rewritten one is forgotten.
    pub(super) fn kept_holding(
        &self,
        conversation: ConversationId,
        seq: Seq,
        want: Want,
    ) -> Result<Option<Arc<Block>>, StoreError> {
        let kept = self.kept().holding(conversation, seq);
        if let Some(block) = kept.as_ref().filter(|_| want == Want::Words) {
            let unpacked = self.with_codec(|codec| block.unpack_words(codec));
            unpacked.ok_or_else(|| flawed(conversation, block.first(), seq))?;
        }
        Ok(kept)
    }

    /// The block that an entry lies in; `None` where it lies in none.
    pub(super) fn holding(
        &self,
        engine: &Engine,
        conversation: ConversationId,
        seq: Seq,
        want: Want,
    ) -> Result<Option<Arc<Block>>, StoreError> {
        let rewritten = self.kept().rewritten;
        if let Some(block) = self.kept_holding(conversation, seq, want)? {
            return Ok(Some(block));
        }
        let (from, to) = (
            keys::owned(keys::BLOCK, conversation),
            keys::after(&keys::block(conversation, seq)),
        );
        let last = engine.last_key(&from, &to)?;
        let Some(first) = last.as_deref().and_then(keys::seq) else {
            return Ok(None);
        };
        let block = self.read(engine, conversation, [first, seq], want)?;
        let block = block.map(Arc::new);
        if let Some(block) = &block {
            self.kept().keep(conversation, block, rewritten);
        }
        Ok(block.filter(|block| seq < block.end()))
    }

    /// The block that begins with an entry; `None` where none does.
    pub(super) fn beginning(
        &self,
        engine: &Engine,
        conversation: ConversationId,
        first: Seq,
        want: Want,
    ) -> Result<Option<Arc<Block>>, StoreError> {
        let rewritten = self.kept().rewritten;
        let block = self.read(engine, conversation, [first, first], want)?;
        let block = block.map(Arc::new);
        if let Some(block) = &block {
            self.kept().keep(conversation, block, rewritten);
        }
        Ok(block)
    }

    /// The blocks of a log, one behind the other, from the one that begins with an entry.
    pub(super) fn from<'a>(
        &'a self,
        engine: &'a Engine,
        conversation: ConversationId,
        first: Seq,
    ) -> Result<Run<'a>, StoreError> {
        let from = keys::block(conversation, first);
        let to = keys::after(&keys::owned(keys::BLOCK, conversation));
        Ok(Run {
            blocks: self,
            engine,
            conversation,
            contents: Contents::scan(engine, &from, &to)?.peekable(),
            codec: self.codecs().pop().unwrap_or_default(),
            memory: block::Memory::default(),
        })
    }

    /// The block that begins at `first`, for whoever asked for the entry `seq`.
    fn read(
        &self,
        engine: &Engine,
        conversation: ConversationId,
        [first, seq]: [Seq; 2],
        want: Want,
    ) -> Result<Option<Block>, StoreError> {
        let found = engine.content(&keys::block(conversation, first));
        let found = found.map_err(|error| at(conversation, Some(seq), &what(first), error))?;
        let Some(content) = found else {
            return Ok(None);
        };
        let unpack = match want {
            Want::Heads => block::unpack_heads,
            Want::Words => block::unpack,
        };
        let block = self.with_codec(|codec| unpack(first, &content, codec));
        block.map_or_else(|| Err(flawed(conversation, first, seq)), |b| Ok(Some(b)))
    }

    fn with_codec<T>(&self, work: impl FnOnce(&mut Codec) -> T) -> T {
        let mut codec = self.codecs().pop().unwrap_or_default();
        let done = work(&mut codec);
        self.codecs().push(codec);
        done
    }

    fn codecs(&self) -> MutexGuard<'_, Vec<Codec>> {
        self.codecs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block was rewritten: what it was is not kept, nor what another thread reads right now.
    pub(super) fn forget(&self, conversation: ConversationId, first: Seq) {
        let mut kept = self.kept();
        kept.rewritten = kept.rewritten.wrapping_add(1);
        kept.remove((conversation, first));
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn what(first: Seq) -> String {
    format!("the block of entries from {first} on")
}

/// A block does not unpack, which whoever asked for the entry `seq` is told.
fn flawed(conversation: ConversationId, first: Seq, seq: Seq) -> StoreError {
    let flaw = ContentError::Flawed("it cannot be unpacked");
    at(conversation, Some(seq), &what(first), flaw)
}

/// Blocks that follow one another. None is kept.
pub(super) struct Run<'a> {
    blocks: &'a Blocks,
    engine: &'a Engine,
    conversation: ConversationId,
    contents: Peekable<Contents<'a>>,
    codec: Codec,
    /// Of a block that was done with.
    memory: block::Memory,
}

impl Run<'_> {
    /// The next block, where it begins with this entry; `None` where the entry lies elsewhere. Where
    /// the next block begins before it, two hold the same entry.
    pub(super) fn beginning(&mut self, first: Seq) -> Result<Option<Arc<Block>>, StoreError> {
        let begins = match self.contents.peek() {
            Some(Ok(content)) => keys::seq(&content.base),
            Some(Err(_)) => Some(first),
            None => None,
        };
        match begins {
            Some(begins) if begins < first => {
                let reason = "the entry is there twice".to_owned();
                return Err(place(self.conversation, Some(begins), reason));
            }
            Some(begins) if begins == first => {}
            _ => return Ok(None),
        }
        let Some(content) = self.contents.next() else {
            return Ok(None);
        };
        let content = content.map_err(|error| {
            at(
                self.conversation,
                Some(first),
                "",
                ContentError::Store(error),
            )
        })?;
        let bytes = content.result().ok();
        let memory = std::mem::take(&mut self.memory);
        let (codec, unpack) = (&mut self.codec, block::unpack_into);
        match bytes.and_then(|bytes| unpack(memory, first, bytes, codec)) {
            Some(block) => Ok(Some(Arc::new(block))),
            // It may have been rewritten while it was read.
            None => {
                let (engine, conversation) = (self.engine, self.conversation);
                self.blocks
                    .beginning(engine, conversation, first, Want::Words)
            }
        }
    }

    /// A block that it gave is not needed any more.
    pub(super) fn done_with(&mut self, block: Arc<Block>) {
        if let Some(block) = Arc::into_inner(block).filter(|b| b.bytes() <= LARGE_BYTES) {
            self.memory = block.into_memory();
        }
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let codec = std::mem::take(&mut self.codec);
        self.blocks.codecs().push(codec);
    }
}

impl Kept {
    fn holding(&mut self, conversation: ConversationId, seq: Seq) -> Option<Arc<Block>> {
        let before = (conversation, Seq(0))..=(conversation, seq);
        let (_, (used, block)) = self.blocks.range_mut(before).next_back()?;
        if seq >= block.end() {
            return None;
        }
        self.uses = self.uses.wrapping_add(1);
        *used = self.uses;
        Some(Arc::clone(block))
    }

    fn keep(&mut self, conversation: ConversationId, block: &Arc<Block>, rewritten: u64) {
        if self.rewritten != rewritten || block.bytes() > LARGE_BYTES {
            return;
        }
        let place = (conversation, block.first());
        self.remove(place);
        self.uses = self.uses.wrapping_add(1);
        self.bytes = self.bytes.saturating_add(block.bytes());
        self.blocks.insert(place, (self.uses, Arc::clone(block)));
        while self.bytes > KEPT_BYTES {
            let oldest = self.blocks.iter().min_by_key(|(_, (used, _))| *used);
            let Some(place) = oldest.map(|(place, _)| *place) else {
                return;
            };
            self.remove(place);
        }
    }

    fn remove(&mut self, place: Place) {
        if let Some((_, block)) = self.blocks.remove(&place) {
            self.bytes = self.bytes.saturating_sub(block.bytes());
        }
    }
}
