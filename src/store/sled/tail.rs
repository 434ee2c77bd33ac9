//! The ends of logs: where the next record goes, and what is not yet in the tree.

use std::collections::VecDeque;
use std::sync::Arc;

use super::block::{self, Prospect};
use super::engine::Engine;
use super::frame::{self, First, Span};
use super::keys;
use super::note::Append;
use crate::log::{ConversationId, Hash, Head, Seq};
use crate::store::StoreError;

/// A record that is not in the tree.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) record: Arc<Vec<u8>>,
    /// The log's head with it, where its append ends with it: only there may the log end.
    pub(super) end: Option<Hash>,
}

/// The end of a log.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// The log with all that was accepted.
    pub(super) span: Option<Span>,
    /// The log as the journal or the tree have it.
    pub(super) noted: Option<Span>,
    /// Its newest entry that is on the disk.
    pub(super) durable: Option<Head>,
    /// The log as the tree has it.
    pub(super) written: Option<Span>,
    /// The records between what the tree has and what was accepted.
    pub(super) waiting: VecDeque<Waiting>,
    /// The key of its name, where that is not in the tree.
    pub(super) birth: Option<Vec<u8>>,
    /// The block that the tree's part ends with, where it may take more.
    pub(super) last: Option<Seq>,
    pub(super) prospect: Prospect,
}

impl Tail {
    /// A record that is not in the tree.
    pub(super) fn record(&self, seq: Seq) -> Option<Arc<Vec<u8>>> {
        let waiting = u64::try_from(self.waiting.len()).ok()?;
        let behind = self.span?.head.seq.0.checked_add(1)?;
        let index = seq.0.checked_sub(behind.checked_sub(waiting)?)?;
        let waiting = self.waiting.get(usize::try_from(index).ok()?)?;
        Some(Arc::clone(&waiting.record))
    }

    /// Takes records that continue the log.
    pub(super) fn grow(&mut self, append: &Append) {
        let (records, head) = (&append.records, append.span.head);
        let last = records.len().saturating_sub(1);
        self.waiting
            .extend(records.iter().enumerate().map(|(index, record)| Waiting {
                record: Arc::clone(record),
                end: (index == last).then_some(head.hash),
            }));
        self.span = Some(append.span);
        if append.name.is_some() {
            self.birth.clone_from(&append.name);
        }
    }

    /// The journal or the tree have the log up to here.
    pub(super) fn note(&mut self, span: Span) {
        if self
            .noted
            .is_none_or(|noted| noted.head.seq < span.head.seq)
        {
            self.noted = Some(span);
        }
    }

    /// The log is on the disk up to here.
    pub(super) fn synced(&mut self, head: Head) {
        if self.durable.is_none_or(|durable| durable.seq < head.seq) {
            self.durable = Some(head);
        }
    }

    /// Forgets what only memory has.
    pub(super) fn give_up(&mut self) {
        let behind = |span: Option<Span>| span.map_or(0, |span| span.head.seq.0.saturating_add(1));
        let beyond = behind(self.span).saturating_sub(behind(self.noted));
        let beyond = usize::try_from(beyond).unwrap_or(usize::MAX);
        self.waiting
            .truncate(self.waiting.len().saturating_sub(beyond));
        self.span = self.noted;
    }
}

/// A log's span; damage where its value does not hold one.
pub(super) fn read_span(
    engine: &Engine,
    conversation: ConversationId,
) -> Result<Option<Span>, StoreError> {
    let key = keys::head(conversation);
    let Some(value) = engine.value(&key)? else {
        return Ok(None);
    };
    let span = frame::read_span(&key, &value);
    let reason = || "the head record is damaged".to_owned();
    span.map(Some)
        .ok_or_else(|| place(conversation, None, reason()))
}

/// The end of a log as it is in the tree. Refuses to continue a log whose head record disagrees
/// with its last entries.
pub(super) fn read(engine: &Engine, conversation: ConversationId) -> Result<Tail, StoreError> {
    let span = read_span(engine, conversation)?;
    let wrong = |seq, reason: &str| Err(place(conversation, Some(seq), reason.to_owned()));
    let owned = keys::owned(keys::BLOCK, conversation);
    let key = engine.last_key(&owned, &keys::after(&owned))?;
    let first = key.as_deref().and_then(keys::seq);
    let block = first.map(|first| last_block(engine, conversation, first));
    let block = block.transpose()?;
    match (span, block) {
        (None, None) => Ok(Tail::default()),
        (Some(span), Some(block)) if block.end == span.head.seq.next() => Ok(Tail {
            span: Some(span),
            noted: Some(span),
            durable: Some(span.head),
            written: Some(span),
            last: block::takes_more(block.bytes).then_some(block.first),
            ..Tail::default()
        }),
        (Some(span), Some(block)) if block.end > span.head.seq => {
            wrong(block.first, "there is an entry beyond the head record")
        }
        (None, Some(block)) => wrong(block.first, "there is an entry beyond the head record"),
        (Some(span), _) => {
            let reason = "the head record names an entry that is missing";
            wrong(span.head.seq, reason)
        }
    }
}

/// The last block of a log.
pub(super) struct LastBlock {
    first: Seq,
    /// The number behind its last entry.
    pub(super) end: Seq,
    /// Its size, unpacked.
    bytes: usize,
}

/// What a block's first value says of it.
pub(super) fn last_block(
    engine: &Engine,
    conversation: ConversationId,
    first: Seq,
) -> Result<LastBlock, StoreError> {
    let key = keys::block(conversation, first);
    let value = engine.value(&key)?;
    let read = value
        .as_deref()
        .and_then(|value| match frame::read_first(&key, value)? {
            First::Whole(start) | First::Chunked { start, .. } => block::size(start),
        });
    let end = read.and_then(|(count, bytes)| Some((first.0.checked_add(count).map(Seq)?, bytes)));
    let reason = || "the block that the entry begins is damaged".to_owned();
    let (end, bytes) = end.ok_or_else(|| place(conversation, Some(first), reason()))?;
    Ok(LastBlock { first, end, bytes })
}

/// Damage at a place.
pub(super) fn place(conversation: ConversationId, seq: Option<Seq>, reason: String) -> StoreError {
    StoreError::Damaged {
        conversation: Some(conversation),
        seq,
        reason,
    }
}
