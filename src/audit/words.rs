//! What a claim says against what it stands for, and a content against the one before, word by word.

use std::collections::BTreeSet;

use serde::Serialize;
use similar::{Algorithm, ChangeTag, TextDiff};

use super::window::{Measured, said};
use crate::engine::{Conversation, Error};
use crate::log::{MessageId, Ranges, Seq};

/// Texts with more words are compared line by line: comparing takes the product of what differs.
const WORDS_MAX: usize = 1 << 14;

/// How a stretch of words relates to the text it is compared with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// Both texts have it.
    Same,
    /// Only the text before has it.
    Gone,
    /// Only the text after has it.
    New,
}

/// A stretch of words.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Stretch {
    /// Which text has it.
    pub mark: Mark,
    /// The words.
    pub text: String,
}

/// The words of a message against others.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct WordDiff {
    /// The message.
    pub message: Seq,
    /// What it stands for; itself where it has another content.
    pub against: Vec<Seq>,
    /// The same as ranges; not part of the JSON.
    #[serde(skip)]
    pub ranges: Ranges,
    /// The words, in order. Together the same and the gone ones are the text before, the same and
    /// the new ones the text after.
    pub words: Vec<Stretch>,
}

/// Compares two texts word by word; very long ones line by line.
#[must_use]
pub fn compare(before: &str, after: &str) -> Vec<Stretch> {
    let many = |text: &str| text.split_whitespace().nth(WORDS_MAX).is_some();
    let mut config = TextDiff::configure();
    config.algorithm(Algorithm::Myers);
    let diff = if many(before) || many(after) {
        config.diff_lines(before, after)
    } else {
        config.diff_words(before, after)
    };
    let mut stretches: Vec<Stretch> = Vec::new();
    for change in diff.iter_all_changes() {
        let mark = match change.tag() {
            ChangeTag::Equal => Mark::Same,
            ChangeTag::Delete => Mark::Gone,
            ChangeTag::Insert => Mark::New,
        };
        match stretches.last_mut().filter(|last| last.mark == mark) {
            Some(last) => last.text.push_str(change.value()),
            None => stretches.push(Stretch {
                mark,
                text: change.value().to_owned(),
            }),
        }
    }
    stretches
}

/// What claims of one window that the other does not hold say against what they stand for, and what
/// changed messages say against what they said.
pub(super) fn words<'a>(
    (first, before): (&Conversation, &'a [Measured]),
    (second, after): (&Conversation, &'a [Measured]),
    changed: &BTreeSet<MessageId>,
) -> Result<Vec<WordDiff>, Error> {
    let held =
        |window: &[Measured]| -> BTreeSet<MessageId> { window.iter().map(Measured::id).collect() };
    let (old, new) = (held(before), held(after));
    let claims = |window: &'a [Measured], other: BTreeSet<MessageId>| {
        let claims = window.iter();
        claims.filter(move |m| !m.stands_for.is_empty() && !other.contains(&m.id()))
    };
    let mut found = Vec::new();
    for claim in claims(before, new) {
        found.push(against_sources(first, claim)?);
    }
    for claim in claims(after, old) {
        found.push(against_sources(second, claim)?);
    }
    for id in changed {
        let of = |chat, window: &[Measured]| {
            let message = window.iter().find(|m| m.id() == *id);
            message.map_or(Ok(String::new()), |m| m.words(chat))
        };
        found.push(WordDiff {
            message: id.seq(),
            against: vec![id.seq()],
            ranges: Ranges(vec![(id.seq(), id.seq())]),
            words: compare(&of(first, before)?, &of(second, after)?),
        });
    }
    Ok(found)
}

/// A claim against the messages it stands for, as they were when it came.
fn against_sources(chat: &Conversation, claim: &Measured) -> Result<WordDiff, Error> {
    let seq = claim.id().seq();
    let outline = chat.outline_after(Seq(seq.0.saturating_sub(1)))?;
    let mut texts = Vec::new();
    for source in &claim.stands_for {
        if let Some(placed) = outline.get(MessageId(*source)) {
            texts.push(said(&chat.content(placed.form, placed.payload)?));
        }
    }
    Ok(WordDiff {
        message: seq,
        against: claim.stands_for.clone(),
        ranges: claim.sources.clone(),
        words: compare(&texts.join("\n"), &claim.words(chat)?),
    })
}
