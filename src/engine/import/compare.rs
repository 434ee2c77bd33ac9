//! Importing again: whether what the source says now is what the log holds.

use super::{Import, cleared_words, compacted_words, key, object, returned_words, rewound_words};
use crate::engine::content::intact;
use crate::engine::conversation::Conversation;
use crate::engine::error::{Error, Refusal};
use crate::engine::known::State;
use crate::formats::{Step, json};
use crate::log::{Body, Configured, Edited, Fields, Json, RequestReason, Seq, Usage, payload};

/// Whether an earlier import of this log went through strategies; `None` where there was none.
/// Strategies that were set by hand after an import do not count.
pub(super) fn was_simulated(chat: &Conversation) -> Result<Option<bool>, Error> {
    let Some((first, _)) = chat.with_projection(|p| p.by_key(&key(0)))? else {
        return Ok(None);
    };
    for seq in 0..first.0 {
        if let Body::Configured(Configured {
            strategies: Some(chain),
            ..
        }) = chat.entry(Seq(seq))?.body
            && !chain.is_empty()
        {
            return Ok(Some(true));
        }
    }
    Ok(Some(false))
}

impl Import<'_, '_> {
    /// Compares a step with what an earlier import wrote for it.
    pub(super) fn compare(
        &mut self,
        state: &State,
        n: usize,
        step: &Step,
        first: Seq,
        entries: u32,
    ) -> Result<(), Error> {
        let same = match step {
            Step::Message { message, .. } => {
                self.messages.push(first);
                self.chat.holds(state, message, first, entries)?
            }
            Step::Compacted { summary, rest, .. } if self.simulated => {
                self.same_text(first, 0, Some(compacted_words(summary, rest)))?
            }
            Step::Compacted { summary, rest, .. } => {
                self.chat.holds(state, summary, first, 1)?
                    && self.same_edit(first, object(rest), true)?
            }
            Step::Cleared { calls, marker, .. } => {
                let words = cleared_words(calls, marker);
                self.same_edit(first, Some(words), false)?
            }
            Step::Rewound { gone, .. } => {
                self.same_edit(first, Some(rewound_words(gone)), false)?
            }
            Step::Configured { settings, .. } => {
                let words = json::write_object(settings);
                self.same_text(first, 0, Some(words))?
            }
            Step::Returned {
                usage,
                failure,
                rest,
                ..
            } => self.same_return(first, *usage, failure.as_deref(), rest)?,
            Step::Noted { content, .. } => self.same_text(first, 0, content.clone())?,
            Step::Called { model, .. } => {
                matches!(self.chat.entry(first)?.body, Body::Called(c) if c.model == *model)
            }
        };
        if same {
            return Ok(());
        }
        let detail = format!(
            "step {n} of the source is not what '{}' holds as {first}",
            self.chat.name()
        );
        Err(Refusal::new(RequestReason::SourceDiverged, detail).into())
    }

    fn same_return(
        &self,
        seq: Seq,
        usage: Option<Usage>,
        failure: Option<&str>,
        rest: &Fields,
    ) -> Result<bool, Error> {
        let words = returned_words(failure, object(rest).as_ref());
        match self.chat.entry(seq)?.body {
            Body::Returned(r) if r.usage == usage && r.failed == failure.is_some() => {
                self.same_text(seq, 0, words.map(Json))
            }
            Body::Noted(_) => Ok(true), // a return before any call
            _ => Ok(false),
        }
    }

    /// Whether an edit, or the note of one that was not applied, says this. `always`: imports have
    /// kept the words of this kind of edit ever since; of the others older ones did not.
    fn same_edit(&self, seq: Seq, words: Option<Json>, always: bool) -> Result<bool, Error> {
        match self.chat.entry(seq)?.body {
            Body::Edited(Edited { rest: None, .. }) => Ok(!always || words.is_none()),
            Body::Edited(edited) => {
                let index = u32::try_from(edited.change.stand_ins.len()).unwrap_or(u32::MAX);
                self.same_text(seq, index, words)
            }
            Body::Noted(_) => self.same_text(seq, 0, words),
            _ => Ok(false),
        }
    }

    fn same_text(&self, seq: Seq, index: u32, text: Option<Json>) -> Result<bool, Error> {
        let backend = self.chat.store().backend();
        let stored = backend.payload(self.chat.id(), seq, index)?;
        let commitments = self.chat.entry(seq)?.body.commitments();
        let at = usize::try_from(index).ok();
        if let (Some(stored), Some(to)) = (&stored, at.and_then(|at| commitments.get(at))) {
            intact(seq, stored, to)?;
        }
        Ok(match (stored, text) {
            (Some(stored), Some(text)) => stored.bytes == payload::encode_text(&text.0),
            (Some(_), None) => false,
            (None, None) => true,
            // Redacted, or never there: a note may have had no content.
            (None, Some(_)) => !commitments.is_empty(),
        })
    }
}
