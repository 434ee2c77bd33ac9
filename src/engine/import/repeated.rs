//! What a fork's own file tells again of the conversation that it left.

use std::borrow::Cow;

use super::begin::Passed;
use super::key;
use crate::engine::append::same_parts;
use crate::engine::content::Content;
use crate::engine::conversation::Conversation;
use crate::engine::error::Error;
use crate::formats::Step;
use crate::log::{Body, Message, Seq};

/// Takes from `steps` what the import in this log has, as far as both say the same messages, whatever
/// their sources say around them: a copy has times of its own. Of an earlier import only the log up to
/// `end` counts. Gives what was passed, and steps that were taken and are to be imported all the same:
/// what stood before the first message (the fork's own record), damage, and what follows the last one.
pub(super) fn repeated(
    log: &Conversation,
    end: Option<Seq>,
    steps: &mut dyn Iterator<Item = Cow<'_, Step>>,
) -> Result<(Passed, Vec<Step>), Error> {
    let mut passed = Passed::default();
    let (mut kept, mut behind) = (Vec::new(), Vec::new());
    for step in steps {
        let step = step.into_owned();
        let Step::Message { message, .. } = &step else {
            behind.push(step);
            continue;
        };
        let filed = match next_message(log, passed.steps, end)? {
            Some(filed) if filed.says(log, message)? => filed,
            _ => {
                behind.push(step);
                break;
            }
        };
        let began = !passed.messages.is_empty();
        let stays = |step: &Step| matches!(step, Step::Noted { warn, .. } if *warn || !began);
        kept.extend(behind.drain(..).filter(stays));
        passed.messages.push(filed.first);
        passed.steps = filed.step.saturating_add(1);
    }
    kept.append(&mut behind);
    Ok((passed, kept))
}

/// A message that an import filed.
struct Filed {
    step: usize,
    first: Seq,
    entries: u32,
}

/// The first message that was filed for a step from this number on.
fn next_message(log: &Conversation, from: usize, end: Option<Seq>) -> Result<Option<Filed>, Error> {
    for step in from.. {
        let filed = log.with_projection(|p| p.by_key(&key(step)))?;
        let Some((first, entries)) = filed.filter(|(first, _)| end.is_none_or(|end| *first <= end))
        else {
            break;
        };
        if matches!(log.entry(first)?.body, Body::Appended(_)) {
            return Ok(Some(Filed {
                step,
                first,
                entries,
            }));
        }
    }
    Ok(None)
}

impl Filed {
    /// Whether it says what a message of another source says. What was redacted may have.
    fn says(&self, log: &Conversation, message: &Message) -> Result<bool, Error> {
        let mut stored = Vec::new();
        let mut seq = self.first;
        for _ in 0..self.entries {
            match log.content(seq, 0)? {
                Content::Message(words) => stored.push(*words),
                Content::Redacted => return Ok(true),
            }
            seq = seq.next();
        }
        Ok(match stored.as_mut_slice() {
            [one] => {
                one.source.clone_from(&message.source);
                one == message
            }
            many => same_parts(many, message),
        })
    }
}
