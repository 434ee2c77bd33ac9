//! The same world, gone on in a fork.

use std::sync::Arc;

use super::{Failure, Request, World, summarized};
use crate::engine::{Error, Store};
use crate::log::{RequestReason, Seq};
use crate::testkit::summaries::Scripted;
use crate::window::Pace;

impl World {
    /// The conversation forked at an entry, as a world of its own in the same store. Where the place
    /// splits a call from its result, the call is closed; where that cannot be, the head is the place.
    ///
    /// # Errors
    /// When it fails, which is another thing than being refused.
    pub fn forked(&self, at: Seq, name: &str) -> Result<Self, Failure> {
        let head = self.head()?;
        if at.0.is_multiple_of(2) {
            // Snapshots of the parent, also behind the place: none of those may serve the fork.
            let often = Store::on(Arc::clone(&self.backend)).with_pace(Pace::every(2));
            often.by_id(self.listed()?)?.take_snapshots()?;
        }
        let split = |error: &Error| {
            let refusal = error.refusal();
            refusal.is_some_and(|refusal| refusal.reason == RequestReason::ForkSplitsPair)
        };
        let mut refused = self.refused.clone();
        let mut count = || {
            let count = refused.entry(RequestReason::ForkSplitsPair).or_default();
            *count = count.saturating_add(1);
        };
        let (fork, at) = match self.chat.fork(at, name) {
            Err(error) if split(&error) => {
                count();
                match self.chat.fork_closing(at, name) {
                    Err(error) if split(&error) => (self.chat.fork(head, name)?, head),
                    closed => (closed?, at),
                }
            }
            fork => (fork?, at),
        };
        let backend = self.store.shared_backend();
        let summaries = Scripted::default();
        let store = summarized(&backend, &self.environment, &summaries);
        let chat = store.existing(fork.name())?;
        let mut sent = self.sent.clone();
        sent.retain(|(call, _)| *call <= at);
        Ok(Self {
            backend,
            chat: chat.with_strategies(self.chain.clone())?,
            store,
            refused,
            shown: Vec::new(),
            sent,
            summaries,
            name: name.to_owned(),
            chain: self.chain.clone(),
            environment: Arc::clone(&self.environment),
            ids: self.ids,
            times: self.times.clone(),
            calls: self.calls.clone(),
            done: self.done,
            seed: self.seed,
            forks: 0,
        })
    }

    /// A fork so many entries before the head, under a name that no other has.
    pub(super) fn fork_at(&mut self, back: usize, close: bool) -> Result<Request, Error> {
        self.forks = self.forks.saturating_add(1);
        Ok(Request::Fork {
            at: self.back_from_head(back)?,
            close,
            name: format!("{}~{}.{}", self.name, self.seed, self.forks),
            specs: self.chain.iter().map(|s| s.spec()).collect(),
        })
    }

    /// Forks the conversation, and goes on as the fork.
    pub(super) fn go_on_in_fork(&mut self, at: Seq, close: bool, name: &str) -> Result<(), Error> {
        let fork = if close {
            self.chat.fork_closing(at, name)
        } else {
            self.chat.fork(at, name)
        }?;
        self.chat = fork.with_strategies(self.chain.clone())?;
        self.backend = self.store.shared_backend();
        name.clone_into(&mut self.name);
        self.sent.retain(|(call, _)| *call <= at);
        self.shown.retain(|window| window.at <= Some(at));
        Ok(())
    }
}
