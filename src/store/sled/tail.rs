//! The ends of logs: where the next record goes, and what is not yet packed.

use std::collections::VecDeque;
use std::sync::Arc;

use super::block::{self, Prospect};
use super::engine::{ContentError, Engine};
use super::frame::{self, First, Span};
use super::keys;
use crate::log::{ConversationId, Seq};
use crate::store::StoreError;

/// The records of a log that are in no block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Singles {
    /// How many.
    pub(super) count: usize,
    /// Their bytes.
    pub(super) bytes: usize,
    /// Whether one is damaged, so that they cannot be packed.
    pub(super) stuck: bool,
}

/// The end of a log. What it says of the tree changes only when a group was applied.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// The log with all that was accepted.
    pub(super) span: Option<Span>,
    /// The log as it is in the tree.
    pub(super) written: Option<Span>,
    /// The records between the two.
    pub(super) waiting: VecDeque<Arc<[u8]>>,
    pub(super) singles: Singles,
    pub(super) prospect: Prospect,
}

impl Tail {
    pub(super) fn record(&self, seq: Seq) -> Option<Arc<[u8]>> {
        let waiting = u64::try_from(self.waiting.len()).ok()?;
        let behind = self.span?.head.seq.0.checked_add(1)?;
        let index = seq.0.checked_sub(behind.checked_sub(waiting)?)?;
        self.waiting.get(usize::try_from(index).ok()?).cloned()
    }
}

/// Records that are in no block, and the keys of their values.
pub(super) struct Unpacked {
    pub(super) records: Vec<Vec<u8>>,
    pub(super) keys: Vec<Vec<u8>>,
}

/// The records of a log before `end` that are in no block; `None` where one is damaged.
pub(super) fn unpacked(
    engine: &Engine,
    conversation: ConversationId,
    end: Seq,
    count: usize,
) -> Result<Option<Unpacked>, StoreError> {
    let mut singles = Unpacked {
        records: Vec::with_capacity(count),
        keys: Vec::with_capacity(count),
    };
    if count == 0 {
        return Ok(Some(singles));
    }
    let whole = u64::try_from(count).ok();
    let Some(first) = whole.and_then(|count| end.0.checked_sub(count)) else {
        return Ok(None);
    };
    let from = keys::entry(conversation, Seq(first));
    for found in engine.scan(&from, &keys::entry(conversation, end))? {
        let (key, value) = found?;
        if let Some((base, 0)) = keys::content(&key) {
            let record = match frame::read_first(&key, &value) {
                Some(First::Whole(record)) => Ok(Some(record.to_vec())),
                _ => engine.content(base),
            };
            match record {
                Ok(Some(record)) => singles.records.push(record),
                Ok(None) | Err(ContentError::Flawed(_)) => return Ok(None),
                Err(ContentError::Store(error)) => return Err(error),
            }
        }
        singles.keys.push(key.to_vec());
    }
    Ok((singles.records.len() == count).then_some(singles))
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
    let missing = "the head record names an entry that is missing";
    let beyond = "there is an entry beyond the head record";
    let wrong = |seq, reason: &str| Err(place(conversation, Some(seq), reason.to_owned()));
    let head = span.map(|span| span.head.seq);
    let mut next = span.map_or(Seq(0), |span| span.first);
    let owned = keys::owned(keys::BLOCK, conversation);
    let last = engine.last_key(&owned, &keys::after(&owned))?;
    if let Some(first) = last.as_deref().and_then(keys::seq) {
        let end = block_end(engine, conversation, first)?;
        next = end.unwrap_or(next);
        if head.is_none_or(|head| end.is_some_and(|end| end > head.next())) {
            return wrong(first, beyond);
        }
    }
    let mut singles = Singles::default();
    let owned = keys::owned(keys::LOG, conversation);
    for found in engine.scan(&owned, &keys::after(&owned))? {
        let (key, value) = found?;
        singles.bytes = singles.bytes.saturating_add(value.len());
        match (keys::content(&key), keys::seq(&key)) {
            (Some((_, 0)), Some(seq)) if head.is_none_or(|head| seq > head) => {
                return wrong(seq, beyond);
            }
            (Some((_, 0)), Some(seq)) if seq == next => next = seq.next(),
            (Some((_, 0)), _) => return wrong(next, "the entry is missing"),
            _ => continue, // counted with its first value
        }
        singles.count = singles.count.saturating_add(1);
    }
    match head {
        Some(head) if next <= head => wrong(head, missing),
        _ => Ok(Tail {
            span,
            written: span,
            singles,
            ..Tail::default()
        }),
    }
}

/// The number behind the last entry of a block, from its first value.
pub(super) fn block_end(
    engine: &Engine,
    conversation: ConversationId,
    first: Seq,
) -> Result<Option<Seq>, StoreError> {
    let key = keys::block(conversation, first);
    let value = engine.value(&key)?;
    let start = value
        .as_deref()
        .and_then(|value| match frame::read_first(&key, value)? {
            First::Whole(start) | First::Chunked { start, .. } => block::count(start),
        });
    let Some(count) = start else {
        let reason = "the block that the entry begins is damaged".to_owned();
        return Err(place(conversation, Some(first), reason));
    };
    Ok(first.0.checked_add(count).map(Seq))
}

/// Damage at a place.
pub(super) fn place(conversation: ConversationId, seq: Option<Seq>, reason: String) -> StoreError {
    StoreError::Damaged {
        conversation: Some(conversation),
        seq,
        reason,
    }
}
