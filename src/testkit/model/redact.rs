//! Which words go with a message, and what is said of it: its other forms, what was made of it over
//! generations, and whoever quotes any of that.

use std::collections::BTreeSet;

use super::decide::Model;
use crate::engine::Redact;
use crate::log::{Author, Body, Message, PartBody, Redacted, RequestReason, Seq};

/// How a recall begins, up to the ids of what it quotes.
const QUOTES: &str = "[recalled from the log:";

impl Model {
    /// Words are destroyed. An entry says so, unless earlier ones say it of all that goes.
    pub(super) fn redact(&mut self, what: Redact) -> Result<(), RequestReason> {
        let body = match what {
            Redact::Message(id) => {
                self.now.get(id.0.0).ok_or(RequestReason::NothingMatches)?;
                let goes = self.goes_with(id.0.0);
                Redacted {
                    asked: Some(id.0),
                    up_to: None,
                    payloads: goes.into_iter().map(|(seq, i)| (Seq(seq), i)).collect(),
                }
            }
            Redact::Conversation => Redacted {
                asked: None,
                up_to: self.next().checked_sub(1).map(Seq),
                payloads: Vec::new(),
            },
        };
        let goes = self.named_by(&body);
        if goes.iter().any(|place| !self.is_said(*place)) {
            self.file(Body::Redacted(body), None);
        }
        self.lose(&goes);
        Ok(())
    }

    /// The payloads of this log that hold words of a message, or words that were made of them.
    #[must_use]
    pub fn goes_with(&self, message: u64) -> BTreeSet<(u64, u32)> {
        let mut of = BTreeSet::from([message]);
        for m in &self.now.messages {
            let made_of = m.sources.iter().flat_map(|(sources, _)| sources);
            let quotes = self.quotes.get(&m.id).into_iter().flatten();
            if made_of.chain(quotes).any(|id| of.contains(id)) {
                of.insert(m.id);
            }
        }
        let messages = self.now.messages.iter().filter(|m| of.contains(&m.id));
        let forms = messages.flat_map(|m| m.forms.iter().zip(&m.given));
        forms
            .map(|((_, by, _), (payload, _))| (*by, *payload))
            .collect()
    }

    /// The payloads of this log that an entry says were destroyed.
    fn named_by(&self, said: &Redacted) -> BTreeSet<(u64, u32)> {
        let mut all = BTreeSet::new();
        for e in &self.log {
            let whole = said.up_to.is_some_and(|up_to| e.seq <= up_to);
            if whole && !matches!(e.body, Body::Opened(_)) {
                let payloads = e.body.commitments();
                all.extend((0..).zip(&payloads).map(|(i, _)| (e.seq.0, i)));
            }
        }
        all.extend(said.payloads.iter().map(|(seq, i)| (seq.0, *i)));
        all
    }

    /// Whether an entry says that a payload was destroyed.
    fn is_said(&self, place: (u64, u32)) -> bool {
        let said = self.log.iter().filter_map(|e| match &e.body {
            Body::Redacted(said) => Some(self.named_by(said)),
            _ => None,
        });
        let mut said = said;
        said.any(|named| named.contains(&place))
    }

    /// What the log says was destroyed.
    #[must_use]
    pub fn said_gone(&self) -> BTreeSet<(u64, u32)> {
        let said = self.log.iter().filter_map(|e| match &e.body {
            Body::Redacted(said) => Some(self.named_by(said)),
            _ => None,
        });
        said.flatten().collect()
    }

    /// These payloads are not there any more.
    pub fn lose(&mut self, places: &BTreeSet<(u64, u32)>) {
        for place in places {
            self.words.remove(place);
            self.gone.insert(*place);
        }
    }

    /// The payloads that are not there any more.
    #[must_use]
    pub const fn gone(&self) -> &BTreeSet<(u64, u32)> {
        &self.gone
    }

    /// A recall says itself what it quotes.
    pub(super) fn note_quotes(&mut self, given: Seq, words: &Message) {
        let [part] = words.parts.as_slice() else {
            return;
        };
        let PartBody::Block(crate::log::BlockBody::Text(text)) = &part.body else {
            return;
        };
        let said = text
            .strip_prefix(QUOTES)
            .and_then(|rest| rest.split_once('.'));
        if let Some((ids, _)) = said.filter(|_| words.author == Author::Application) {
            let ids = ids.split_whitespace();
            let ids = ids.filter_map(|id| id.strip_prefix('m')?.parse().ok());
            self.quotes.insert(given.0, ids.collect());
        }
    }
}
