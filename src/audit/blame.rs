//! `window --long`: for each message of a window, the entry that put it there and the one that gave its
//! content, and what had stood there before.

use std::collections::BTreeMap;

use serde::Serialize;

use super::cause::Cause;
use super::diff::Amount;
use super::window::{ShownMessage, ShownWindow};
use crate::engine::{Content, Conversation, Error};
use crate::log::{MessageId, Seq, Skeleton, skeleton};
use crate::tokens::Encoding;
use crate::window::{Outline, Tokens};

/// Why a message of a window is there, as it is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Blame {
    /// The message.
    pub message: Seq,
    /// The entry that began its present stay.
    pub entered: Cause,
    /// The entry that gave its content, where that is not its first.
    pub form: Option<Cause>,
    /// What stood there before: of a claim its sources, of another content the one before it. Tokens are
    /// by the window's method; absent where that is not to be had.
    pub before: Option<Amount>,
}

/// Asks of each message of a window by what entries it is there as it is.
///
/// # Errors
/// When the log or its words are damaged.
pub fn blame(chat: &Conversation, shown: &ShownWindow) -> Result<Vec<Blame>, Error> {
    let method = &shown.size.tokens.method;
    let mut asked = Asked {
        chat,
        outlines: BTreeMap::new(),
        method,
        encoding: Encoding::of_method(method),
    };
    shown.messages.iter().map(|m| asked.about(m)).collect()
}

struct Asked<'a> {
    chat: &'a Conversation,
    /// Windows that were looked at.
    outlines: BTreeMap<Seq, Outline>,
    method: &'a str,
    encoding: Option<Encoding>,
}

impl Asked<'_> {
    fn about(&mut self, message: &ShownMessage) -> Result<Blame, Error> {
        let form = message.formed_by.clone();
        let before = match (&form, message.stands_for.as_slice()) {
            (Some(cause), _) => self.stood(cause.seq, &[message.seq])?,
            (None, []) => None,
            (None, sources) => self.stood(message.seq, sources)?,
        };
        Ok(Blame {
            message: message.seq,
            entered: message.entered_by.clone(),
            form,
            before,
        })
    }

    /// What messages came to just before an entry, as far as they were in the window.
    fn stood(&mut self, by: Seq, messages: &[Seq]) -> Result<Option<Amount>, Error> {
        let before = Seq(by.0.saturating_sub(1));
        if !self.outlines.contains_key(&before) {
            let outline = self.chat.outline_after(before)?;
            self.outlines.insert(before, outline);
        }
        let Some(outline) = self.outlines.get(&before) else {
            return Ok(None);
        };
        let mut skeletons = Vec::new();
        for seq in messages {
            if let Some(placed) = outline.get(MessageId(*seq)) {
                let content = self.chat.content(placed.form, placed.payload)?;
                let Content::Message(message) = content else {
                    return Ok(None);
                };
                skeletons.push(self.counted(&message));
            }
        }
        let all: Vec<&Skeleton> = skeletons.iter().collect();
        let tokens = Tokens::of(&all, None);
        if skeletons.is_empty() || tokens.method != self.method {
            return Ok(None);
        }
        Ok(Some(Amount {
            messages: u64::try_from(skeletons.len()).unwrap_or(u64::MAX),
            tokens: tokens.total,
        }))
    }

    fn counted(&self, message: &crate::log::Message) -> Skeleton {
        let mut skeleton = skeleton::skeleton(message, &[]);
        let count = self.encoding.and_then(|e| e.count(&message.words()));
        skeleton.tokens = count;
        skeleton
    }
}
