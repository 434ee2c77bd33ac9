//! A log that goes on from an earlier moment of another.

use super::decide::{BLANK, INTERRUPTED, Model};
use super::fold::settles;
use crate::log::{
    Appended, Author, Block, BlockBody, Body, ConversationId, Entry, ForkPoint, Identity, Message,
    Opened, Part, PartBody, PartSkeleton, Redacted, RequestReason, Role, Seq, Shape,
    skeleton::skeleton,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// An open call: its message and the part in it, and what is known of it.
type Call = ((Seq, u32), PartSkeleton);

impl Model {
    /// What was known after an entry.
    #[must_use]
    pub fn cut(&self, at: u64) -> Self {
        let mut cut = Self {
            keyed: self.keyed.clone(),
            answers: self.answers,
            ..Self::default()
        };
        let until = |seq: &u64| *seq <= at;
        cut.settings.clone_from(&self.settings);
        cut.settings.retain(|(seq, _)| until(seq));
        cut.asks = self.asks.clone();
        cut.asks.retain(|seq, _| until(seq));
        cut.answered = self.answered.clone();
        cut.answered.retain(|_, by| until(by));
        cut.quotes = self.quotes.clone();
        cut.quotes.retain(|seq, _| until(seq));
        cut.words = self.words.clone();
        cut.words.retain(|(seq, _), _| until(seq));
        cut.gone.clone_from(&self.gone);
        cut.gone.retain(|(seq, _)| until(seq));
        for entry in self.log.iter().filter(|e| until(&e.seq.0)) {
            cut.push(Entry::clone(entry));
        }
        cut
    }

    /// A fork, and what is filed in it first. It may not part a call from its result, unless the call
    /// can be answered as interrupted. The strategies that are not set where it begins are set again.
    pub(super) fn fork(
        &mut self,
        at: u64,
        close: bool,
        specs: &[String],
    ) -> Result<(), RequestReason> {
        if at >= self.next() {
            return Err(RequestReason::RangeOutOfBounds);
        }
        let mut fork = self.cut(at);
        let open = fork.open_in_window();
        let native = |part: &PartSkeleton| part.is(PartSkeleton::NATIVE);
        let parted =
            |(call, part): &Call| (!close || native(part)) && self.is_answered_behind(*call, at);
        if open.iter().any(parted) {
            return Err(RequestReason::ForkSplitsPair);
        }
        fork.file(Body::Opened(birth(at)), None);
        let gone = self.said_behind(at);
        if gone.up_to.is_some() || !gone.payloads.is_empty() {
            fork.file(Body::Redacted(gone), None);
        }
        for (call, part) in open.iter().filter(|(_, part)| close && !native(part)) {
            fork.interrupted(*call, part);
        }
        fork.configure(specs)?;
        *self = fork;
        Ok(())
    }

    /// What was said behind an entry to be gone of what there is up to it.
    fn said_behind(&self, at: u64) -> Redacted {
        let behind = self.log.iter().filter(|e| e.seq.0 > at);
        let said: Vec<&Redacted> = behind
            .filter_map(|e| match &e.body {
                Body::Redacted(said) => Some(said),
                _ => None,
            })
            .collect();
        let up_to = said.iter().filter_map(|said| said.up_to).max();
        let up_to = up_to.map(|up_to| up_to.min(Seq(at)));
        let payloads = said.iter().flat_map(|said| said.payloads.iter().copied());
        let shared = payloads.filter(|(seq, _)| seq.0 <= at && Some(*seq) > up_to);
        let shared: BTreeSet<(Seq, u32)> = shared.collect();
        Redacted {
            asked: None,
            up_to,
            payloads: shared.into_iter().collect(),
        }
    }

    /// Calls of the window that have no final result.
    fn open_in_window(&self) -> Vec<Call> {
        let open = self
            .now
            .open
            .iter()
            .filter(|(m, _)| self.now.window.contains(m));
        let part = |(m, i): &(u64, u32)| {
            let parts = self.now.get(*m)?.parts();
            Some(((Seq(*m), *i), parts.get(usize::try_from(*i).ok()?)?.clone()))
        };
        open.filter_map(part).collect()
    }

    /// Whether a call gets its final result behind an entry, while it is in the window.
    fn is_answered_behind(&self, call: (Seq, u32), at: u64) -> bool {
        let mut then = self.cut(at);
        for entry in self.log.iter().filter(|e| e.seq.0 > at) {
            if let Body::Appended(a) = &entry.body
                && a.skeleton.parts.iter().any(|p| settles(p) == Some(call))
            {
                return true;
            }
            then.push(Entry::clone(entry));
            if !then.now.window.contains(&call.0.0) {
                return false;
            }
        }
        false
    }

    fn interrupted(&mut self, call: (Seq, u32), part: &PartSkeleton) {
        let message = interruption(part);
        let seen = skeleton(&message, &[Some(call)]);
        self.words.insert((self.next(), 0), Arc::new(message));
        let body = Body::Appended(Appended {
            skeleton: seen,
            continues: None,
            same_source: None,
            produced_by: None,
            content: BLANK,
        });
        self.file(body, None);
    }
}

fn birth(at: u64) -> Opened {
    Opened {
        namespace: vec!["default".to_owned()],
        name: String::new(),
        identity: Identity::Explicit,
        fork: Some(ForkPoint {
            parent: ConversationId([0; 16]),
            at: Seq(at),
        }),
        started_by: None,
        secret: BLANK,
    }
}

/// The engine's own final result, an error, for a call that was interrupted.
pub(super) fn interruption(part: &PartSkeleton) -> Message {
    let said = Block {
        body: BlockBody::Text(INTERRUPTED.to_owned()),
        extra: Vec::new(),
    };
    let body = PartBody::Result {
        call: part.label.clone(),
        name: part.name.clone(),
        content: vec![said],
        shape: Shape::Text,
        error: Some(true),
        interim: false,
        native: None,
    };
    let part = Part {
        body,
        extra: Vec::new(),
    };
    Message::new(Role::Tool, Author::Engine, vec![part])
}
