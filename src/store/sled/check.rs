//! Looks at every value and at how they hang together. Reports all it finds, and goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use super::at;
use super::block::{self, Codec};
use super::engine::{ContentError, Engine, Flaw, damaged};
use super::frame::{self, Span};
use super::keys;
use super::record::{Encoded, Parts};
use super::scan::Contents;
use super::tail::{last_block, place, read_span};
use crate::log::{ConversationId, Seq};
use crate::store::{Listed, StoreError};

/// Everything that is wrong with one log, or with the whole store.
pub(super) fn check(
    engine: &Engine,
    gate: &Mutex<()>,
    only: Option<ConversationId>,
) -> Vec<StoreError> {
    let gate = || gate.lock().unwrap_or_else(PoisonError::into_inner);
    let mut check = Check {
        engine,
        found: Vec::new(),
    };
    let owners = match only {
        Some(conversation) => BTreeSet::from([conversation]),
        None => check.owners(),
    };
    for conversation in owners {
        // Held for one log at a time, so that appends do not wait for the whole store.
        let _gate = gate();
        check.log(conversation);
    }
    let _gate = gate();
    check.names(only);
    if only.is_none() {
        check.strays();
    }
    check.found
}

/// What is wrong with one log beside what reading its records tells.
pub(super) fn check_beside(engine: &Engine, gate: &Mutex<()>, listed: &Listed) -> Vec<StoreError> {
    let _gate = gate.lock().unwrap_or_else(PoisonError::into_inner);
    let mut check = Check {
        engine,
        found: Vec::new(),
    };
    let conversation = listed.conversation;
    match read_span(engine, conversation) {
        Ok(Some(span)) if check.ends_with(conversation, &span) => check.derived(conversation),
        _ => check.log(conversation),
    }
    if !check.is_named(listed) {
        check.names(Some(conversation));
    }
    check.found
}

/// How far the entries of a log were looked at.
struct Walk {
    conversation: ConversationId,
    span: Option<Span>,
    /// The entry that is to come next, where that is known.
    due: Option<Seq>,
    newest: Option<Seq>,
}

struct Check<'a> {
    engine: &'a Engine,
    found: Vec<StoreError>,
}

impl Check<'_> {
    fn report(
        &mut self,
        conversation: ConversationId,
        seq: Option<Seq>,
        reason: impl Into<String>,
    ) {
        self.found.push(place(conversation, seq, reason.into()));
    }

    /// Whoever has a value of any kind.
    fn owners(&mut self) -> BTreeSet<ConversationId> {
        let mut owners = BTreeSet::new();
        for tag in [keys::BLOCK, keys::DERIVED, keys::HEAD] {
            let end = keys::after(&[tag]);
            let mut from = vec![tag];
            while let Some(key) = self.first_key(&from, &end) {
                // A key too short to have an owner is a stray; `strays` reports it.
                from = match keys::owner(&key) {
                    Some(owner) => {
                        owners.insert(owner);
                        keys::after(&keys::owned(tag, owner))
                    }
                    None => [&key[..], &[0]].concat(),
                };
                if from >= end {
                    break;
                }
            }
        }
        owners
    }

    fn first_key(&mut self, from: &[u8], end: &[u8]) -> Option<Vec<u8>> {
        let found = self
            .engine
            .scan(from, end)
            .and_then(|mut scan| scan.next().transpose());
        match found {
            Ok(found) => found.map(|(key, _)| key.to_vec()),
            Err(error) => {
                self.found.push(error);
                None
            }
        }
    }

    fn log(&mut self, conversation: ConversationId) {
        let span = read_span(self.engine, conversation);
        let newest = self.entries(conversation, span.as_ref().ok().and_then(Option::as_ref));
        match span {
            Err(StoreError::Damaged { reason, .. }) => self.report(conversation, newest, reason),
            Err(error) => self.found.push(error),
            Ok(None) if newest.is_some() => {
                self.report(conversation, newest, "there are entries and no head record");
            }
            Ok(_) => {}
        }
        self.derived(conversation);
    }

    fn derived(&mut self, conversation: ConversationId) {
        let derived = keys::owned(keys::DERIVED, conversation);
        self.contents(&derived, conversation, |check, _, content| {
            if let Err(flaw) = content {
                check.report(conversation, None, format!("derived data: {flaw}"));
            }
        });
    }

    /// Whether nothing of a log lies before its span or behind it. What lies within is read by
    /// number.
    fn ends_with(&mut self, conversation: ConversationId, span: &Span) -> bool {
        let blocks = keys::owned(keys::BLOCK, conversation);
        let end = keys::after(&blocks);
        let first = self.first_key(&blocks, &end);
        let last = self.engine.last_key(&blocks, &end).ok().flatten();
        let last = last.as_deref().and_then(keys::seq);
        let last = last.and_then(|last| last_block(self.engine, conversation, last).ok());
        first.as_deref().and_then(keys::seq) == Some(span.first)
            && last.is_some_and(|last| last.end == span.head.seq.next())
    }

    /// Whether the name a log was listed by leads to it.
    fn is_named(&self, listed: &Listed) -> bool {
        let key = keys::name(&listed.name);
        let Ok(Some(value)) = self.engine.value(&key) else {
            return false;
        };
        frame::unseal(&key, &value).and_then(keys::array) == Some(listed.conversation.0)
    }

    /// Counts the entries against the head record. Says which is the newest that is there.
    fn entries(&mut self, conversation: ConversationId, span: Option<&Span>) -> Option<Seq> {
        let mut walk = Walk {
            conversation,
            span: span.copied(),
            due: span.map(|span| span.first),
            newest: None,
        };
        let mut codec = Codec::default();
        let blocks = keys::owned(keys::BLOCK, conversation);
        self.contents(&blocks, conversation, |check, key, content| {
            if let Some(first) = keys::seq(key) {
                check.block(&mut walk, first, content, &mut codec);
            }
        });
        if let Some(span) = span {
            let due = walk.due.unwrap_or(span.first);
            self.gap(conversation, due, span.head.seq.next());
        }
        walk.newest
    }

    fn block(
        &mut self,
        walk: &mut Walk,
        first: Seq,
        content: Result<&[u8], Flaw>,
        codec: &mut Codec,
    ) {
        let unpacked = content.and_then(|content| {
            block::unpack(first, content, codec).ok_or("it cannot be unpacked")
        });
        match unpacked {
            Ok(block) => {
                self.step(walk, first, Seq(block.end().0.saturating_sub(1)));
                for (seq, record) in (first.0..).map(Seq).zip(block.records()) {
                    self.record(walk, seq, record);
                }
            }
            Err(flaw) => {
                let last = self.last_of_block(walk, first);
                self.step(walk, first, last);
                let reason = format!("the block of the entries {first} to {last}: {flaw}");
                self.report(walk.conversation, Some(first), reason);
            }
        }
    }

    /// The last entry of a block that does not say so itself: what follows it begins behind.
    fn last_of_block(&mut self, walk: &Walk, first: Seq) -> Seq {
        let behind = keys::after(&keys::block(walk.conversation, first));
        let blocks = keys::after(&keys::owned(keys::BLOCK, walk.conversation));
        let next = self.first_key(&behind, &blocks);
        let next = next.as_deref().and_then(keys::seq);
        let last = next.map(|next| Seq(next.0.saturating_sub(1)));
        let head = walk.span.map(|span| span.head.seq);
        last.or(head).unwrap_or(first).max(first)
    }

    /// The next entries of a log are there, from one to another.
    fn step(&mut self, walk: &mut Walk, first: Seq, last: Seq) {
        if let Some(due) = walk.due {
            self.gap(walk.conversation, due, first);
            if first < due {
                let reason = "the entry is there twice";
                self.report(walk.conversation, Some(first), reason);
            }
        }
        if walk
            .span
            .is_some_and(|span| first < span.first || last > span.head.seq)
        {
            let seq = walk
                .span
                .map_or(first, |span| first.max(span.head.seq.next()));
            let seq = if last > first { seq.min(last) } else { first };
            let reason = "the entry lies outside the head record";
            self.report(walk.conversation, Some(seq), reason);
        }
        walk.due = Some(walk.due.unwrap_or_default().max(last.next()));
        walk.newest = walk.newest.max(Some(last));
    }

    /// Reports the entries from `due` up to `next` as missing: one finding for the whole gap.
    fn gap(&mut self, conversation: ConversationId, due: Seq, next: Seq) {
        let count = next.0.saturating_sub(due.0);
        if count > 0 {
            self.report(
                conversation,
                Some(due),
                format!("{count} entries are missing from here"),
            );
        }
    }

    fn record(&mut self, walk: &Walk, seq: Seq, record: Parts<'_>) {
        if Encoded::read(record).is_none() {
            self.report(
                walk.conversation,
                Some(seq),
                "the entry's lengths contradict",
            );
        }
    }

    /// Visits every content below `prefix`, put together from its values in key order.
    fn contents(
        &mut self,
        prefix: &[u8],
        conversation: ConversationId,
        mut visit: impl FnMut(&mut Self, &[u8], Result<&[u8], Flaw>),
    ) {
        let contents = match Contents::scan(self.engine, prefix, &keys::after(prefix)) {
            Ok(contents) => contents,
            Err(error) => return self.found.push(error),
        };
        for found in contents {
            match found {
                Ok(content) => visit(self, &content.base, content.result()),
                Err(error) => {
                    let error = ContentError::Store(error);
                    self.found.push(at(conversation, None, "", error));
                }
            }
        }
    }

    /// Every name must lead to a log, and every log must have one name.
    fn names(&mut self, only: Option<ConversationId>) {
        let mut named: BTreeMap<ConversationId, u32> = BTreeMap::new();
        let scan = match self.engine.scan(&[keys::NAME], &keys::after(&[keys::NAME])) {
            Ok(scan) => scan,
            Err(error) => return self.found.push(error),
        };
        for found in scan {
            match found {
                Ok((key, value)) => self.name(&key, &value, only, &mut named),
                Err(error) => self.found.push(error),
            }
        }
        let heads = match only {
            Some(conversation) => BTreeSet::from([conversation]),
            None => self.heads(),
        };
        for conversation in heads {
            let count = named.get(&conversation).copied().unwrap_or(0);
            if count != 1 && self.has_head(conversation) {
                let reason = format!("{count} names lead to this conversation, not one");
                self.report(conversation, Some(Seq(0)), reason);
            }
        }
    }

    fn name(
        &mut self,
        key: &[u8],
        value: &[u8],
        only: Option<ConversationId>,
        named: &mut BTreeMap<ConversationId, u32>,
    ) {
        let Some(name) = keys::read_name(key) else {
            return;
        }; // a stray
        // Also of a damaged value: most often it is the checksum or a bit elsewhere that is wrong.
        let claimed = value
            .first_chunk::<16>()
            .map(|bytes| ConversationId(*bytes));
        let whole = frame::unseal(key, value).is_some_and(|body| body.len() == 16);
        if only.is_some() && claimed != only {
            return;
        }
        let owner = claimed.filter(|owner| self.has_head(*owner));
        match owner {
            Some(owner) if whole => {
                let count = named.entry(owner).or_default();
                *count = count.saturating_add(1);
            }
            _ => {
                let wrong = if whole {
                    "leads to no conversation"
                } else {
                    "is damaged"
                };
                let reason = format!("the record of the name '{}' {wrong}", name.name);
                let (conversation, seq) = (owner, Some(Seq(0)));
                self.found.push(StoreError::Damaged {
                    conversation,
                    seq,
                    reason,
                });
            }
        }
    }

    fn heads(&mut self) -> BTreeSet<ConversationId> {
        match self.engine.scan(&[keys::HEAD], &keys::after(&[keys::HEAD])) {
            // What ends a scan early is reported by `owners`, which reads the same keys.
            Ok(scan) => scan
                .flatten()
                .filter_map(|(key, _)| keys::owner(&key))
                .collect(),
            Err(error) => {
                self.found.push(error);
                BTreeSet::new()
            }
        }
    }

    fn has_head(&self, conversation: ConversationId) -> bool {
        matches!(self.engine.value(&keys::head(conversation)), Ok(Some(_)))
    }

    /// Keys that ctxlog does not write, and the record that every store begins with.
    fn strays(&mut self) {
        let scan = match self.engine.scan(&[], &[u8::MAX; 64]) {
            Ok(scan) => scan,
            Err(error) => return self.found.push(error),
        };
        let (mut made, mut fences) = (false, 0_usize);
        for found in scan {
            let (key, value) = match found {
                Ok(found) => found,
                Err(error) => return self.found.push(error),
            };
            let known = match key.first() {
                Some(&keys::HEAD) => key.len() == keys::head(ConversationId([0; 16])).len(),
                Some(&keys::NAME) => keys::read_name(&key).is_some(),
                _ if keys::is_fence(&key) => {
                    let whole = frame::unseal(&key, &value).is_some_and(<[u8]>::is_empty);
                    fences = fences.saturating_add(usize::from(whole));
                    true
                }
                Some(&keys::MADE) => {
                    made = key.len() == 1 && frame::unseal(&key, &value).is_some();
                    made
                }
                Some(&keys::TALLY) => key.len() == 1, // looked into by `tally::verify`
                Some(&keys::RESERVED) => key.len() == 1 && frame::unseal(&key, &value).is_some(),
                _ => keys::content(&key).is_some(),
            };
            if !known {
                let reason = format!("the value under the key {:02x?} is not ctxlog's", &key[..]);
                self.found.push(damaged(reason));
            }
        }
        if fences != keys::fences().count() {
            self.found.push(damaged(
                "the fences between the keys are damaged; that costs speed, and no data".into(),
            ));
        }
        if !made {
            self.found.push(damaged(
                "the record that every store begins with is missing".into(),
            ));
        }
    }
}
