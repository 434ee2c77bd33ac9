//! Claims and what they were made of: generations, and what summarisers were asked before.

use std::collections::BTreeMap;

use crate::log::{AttemptOutcome, Hash, MessageId, Seq, Visited};

use super::state::Projection;

/// What a strategy's visits asked summarisers, as far as it matters to the next one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Questions {
    /// The newest question: what the messages were, and the head they were looked at.
    newest: Option<(Hash, Seq)>,
    /// What came back not smaller; whether a visit said since that nobody is asked again.
    latched: BTreeMap<Hash, bool>,
}

impl Questions {
    pub(super) fn note(&mut self, visited: &Visited) {
        let Some(last) = visited.attempts.last() else {
            return;
        };
        match last.outcome {
            AttemptOutcome::Skipped => {
                self.latched.insert(last.digest, true);
            }
            AttemptOutcome::NotSmaller => {
                self.latched.entry(last.digest).or_default();
                self.newest = Some((last.digest, visited.base));
            }
            _ => self.newest = Some((last.digest, visited.base)),
        }
    }

    /// Whether these messages, as they are, came back not smaller before; and whether that was said.
    #[must_use]
    pub fn latched(&self, sources: &Hash) -> Option<bool> {
        self.latched.get(sources).copied()
    }
}

impl Projection {
    /// What a strategy's visits asked summarisers.
    #[must_use]
    pub fn questions(&self, strategy: usize) -> Option<&Questions> {
        self.questions.get(strategy)
    }

    /// Whether the strategy's newest question was about the same messages, and the window has not
    /// changed since it was asked.
    #[must_use]
    pub fn asked_already(&self, strategy: usize, sources: &Hash) -> bool {
        let newest = self.questions(strategy).and_then(|q| q.newest.as_ref());
        newest.is_some_and(|(digest, base)| digest == sources && self.changed_at <= Some(*base))
    }

    /// How many summaries of summaries a message is: 0 of what is none, 1 of one that was made of
    /// messages alone.
    #[must_use]
    pub fn generation(&self, id: MessageId) -> u64 {
        self.message(id).map_or(0, |m| m.generation)
    }
}
