//! Transcripts in about the room of their words.
//!
//! A step has many small parts, which take three times the room that its line of a file takes. Between
//! reading and filing nobody looks into it, so meanwhile it is one piece of bytes.

use super::{Begins, Step, Transcript};
use crate::log::entry::{decode, encode_tight};

/// A [`Transcript`] whose steps are packed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PackedTranscript {
    /// As [`Transcript::format`].
    pub format: &'static str,
    /// As [`Transcript::id`].
    pub id: Option<String>,
    /// As [`Transcript::begins`].
    pub begins: Begins,
    /// As [`Transcript::steps`].
    pub steps: PackedSteps,
}

/// Steps as bytes: each is made a step again when it is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PackedSteps {
    steps: Vec<Box<[u8]>>,
    largest: usize,
}

impl PackedSteps {
    /// Adds a step.
    pub fn push(&mut self, step: &Step) {
        self.largest = self.largest.max(step.largest());
        // Nothing limits it, so it does not fail; where it did, no step could be read back.
        let bytes = encode_tight(&[], step, usize::MAX).unwrap_or_default();
        self.steps.push(bytes.into_boxed_slice());
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The steps from the n-th on, from 0.
    pub fn skip(&self, n: usize) -> impl ExactSizeIterator<Item = Step> {
        let steps = self.steps.get(n..).unwrap_or_default();
        steps.iter().map(|bytes| unpack(bytes))
    }

    /// The steps.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Step> {
        self.skip(0)
    }

    /// The largest of what stores would have to take in one piece, in bytes.
    pub(crate) const fn largest(&self) -> usize {
        self.largest
    }

    /// The steps; the room of each is free again when it was taken.
    pub(crate) fn into_steps(self) -> impl Iterator<Item = Step> {
        self.steps.into_iter().map(|bytes| unpack(&bytes))
    }
}

/// A step of its bytes, which were made here. If they told none, that would show as a note.
fn unpack(bytes: &[u8]) -> Step {
    decode(bytes).unwrap_or_else(|error| Step::Noted {
        what: format!("a step that was lost while it was packed: {error}"),
        place: String::new(),
        content: None,
        at: None,
        warn: true,
    })
}

impl FromIterator<Step> for PackedSteps {
    fn from_iter<I: IntoIterator<Item = Step>>(steps: I) -> Self {
        let mut packed = Self::default();
        steps.into_iter().for_each(|step| packed.push(&step));
        packed
    }
}

impl From<Transcript> for PackedTranscript {
    fn from(whole: Transcript) -> Self {
        Self {
            format: whole.format,
            id: whole.id,
            begins: whole.begins,
            steps: whole.steps.into_iter().collect(),
        }
    }
}

impl From<PackedTranscript> for Transcript {
    fn from(packed: PackedTranscript) -> Self {
        Self {
            format: packed.format,
            id: packed.id,
            begins: packed.begins,
            steps: packed.steps.into_steps().collect(),
        }
    }
}
