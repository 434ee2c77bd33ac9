//! Forks of a simulation's conversations, and words that were destroyed in them.

use std::collections::BTreeSet;

use super::{Sim, full, text};
use crate::engine::Redact;
use crate::log::{Body, ConversationId, Entry, MessageId};
use crate::store::Backend as _;
use crate::testkit::Request;
use crate::testkit::ledger::Kept;

impl Sim<'_> {
    /// The log that a client is on.
    pub(super) fn log_of(&self, client: usize) -> Option<ConversationId> {
        self.clients.get(client).map(|c| c.world.chat.id())
    }

    /// The logs that have the entries of one.
    pub(super) fn owners(&self, log: ConversationId) -> BTreeSet<ConversationId> {
        let kept = self.ledger.logs.get(&log);
        kept.map_or_else(|| BTreeSet::from([log]), Kept::owners)
    }

    /// Whether the log that a client was on, its conversation or a fork of it, is one to go on with.
    pub(super) fn is_there(&self, client: usize, conversation: &str) -> Result<bool, String> {
        let Some(at) = self.clients.get(client) else {
            return Ok(false);
        };
        let name = at.world.chat.name();
        let fork = name.strip_prefix(conversation);
        let is_of = fork.is_some_and(|fork| fork.is_empty() || fork.starts_with('~'));
        let found = self.medium.find(&full(name)).map_err(text)?;
        let same = found == Some(at.world.chat.id());
        Ok(is_of && same && self.ledger.logs.contains_key(&at.world.chat.id()))
    }

    /// What a client's log says went and is there still is asked for again, and goes.
    pub(super) fn finish_redactions(&mut self, client: usize) -> Result<(), String> {
        let Some(id) = self.log_of(client) else {
            return Ok(());
        };
        let Some(kept) = self.ledger.logs.get(&id) else {
            return Ok(());
        };
        let said = kept.log.iter().filter_map(|entry| match &entry.body {
            Body::Redacted(said) => Some(said),
            _ => None,
        });
        let asked = said.filter_map(|said| match (said.asked, said.up_to) {
            (Some(message), _) => Some(Redact::Message(MessageId(message))),
            (None, Some(_)) => Some(Redact::Conversation),
            (None, None) => None, // that is for the parent to ask for
        });
        let asked: Vec<Redact> = asked.filter(|_| !kept.unfinished.is_empty()).collect();
        for what in &asked {
            self.ask(client, &Request::Redact(*what))?;
        }
        let Some(kept) = self.ledger.logs.get(&id) else {
            return Ok(());
        };
        let left = &kept.unfinished;
        if left.is_empty() || kept.log.iter().any(of_parent) {
            return Ok(());
        }
        Err(format!("asked for again, these are there still: {left:?}"))
    }
}

/// Whether an entry says of a fork's parent what was destroyed before the fork was made.
fn of_parent(entry: &Entry) -> bool {
    match &entry.body {
        Body::Redacted(said) => said.asked.is_none() && said.up_to.is_none(),
        _ => false,
    }
}
