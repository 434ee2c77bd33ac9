//! Smaller forms of tool outputs: the visit of a strategy that evicts nothing and makes smaller.

use crate::log::{
    Block, BlockBody, Change, Fields, LeftReason, Message, MessageId, PartBody, Ranges, Reading,
    Shape, Source, StandIn, StandInKind, Unit, VisitOutcome, Visited,
};
use crate::window::{Decision, MessageState, Smaller, Wanted};

use super::Frame;
use super::clamp::clamp_blocks;
use super::visit::{BLANK, Look, Outlook, Visit, Words, fruitless};

/// What a strategy makes of tool outputs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shrink {
    /// Which outputs.
    pub wanted: Wanted,
    /// What they become.
    pub to: To,
    /// Nothing happens unless it frees so many tokens, where tokens are what is measured.
    pub at_least: u64,
}

/// What a tool output becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum To {
    /// A marker that says how large it was and where it is kept.
    Marker,
    /// Its beginning, of at most so many bytes; JSON stays JSON.
    Bytes(u64),
}

impl To {
    const fn reason(self) -> LeftReason {
        match self {
            Self::Marker => LeftReason::Cleared,
            Self::Bytes(_) => LeftReason::Replaced,
        }
    }

    /// A message with these of its outputs made smaller.
    fn applied(self, id: MessageId, message: &Message, parts: &[usize]) -> Message {
        let mut small = message.clone();
        for at in parts {
            let Some(part) = small.parts.get_mut(*at) else {
                continue;
            };
            if let PartBody::Result { content, shape, .. } = &mut part.body {
                match self {
                    Self::Marker => (*content, *shape) = (marker(id, content), Shape::Text),
                    Self::Bytes(max) => {
                        let max = usize::try_from(max).unwrap_or(usize::MAX);
                        *content = clamp_blocks(content, max);
                    }
                }
            }
        }
        // What a source wrote of it is that of the message as it was.
        small.source = message.source.as_ref().map(|s| Source {
            format: s.format.clone(),
            id: s.id.clone(),
            ..Source::default()
        });
        small
    }
}

fn marker(id: MessageId, content: &[Block]) -> Vec<Block> {
    let bytes = content.iter().map(|b| b.body.bytes());
    let bytes = bytes.fold(0, usize::saturating_add);
    let text = format!("[output cleared: {bytes} bytes, kept in the log as {id}]");
    vec![Block {
        body: BlockBody::Text(text),
        extra: Fields::new(),
    }]
}

/// New forms with what they come to.
#[derive(Default)]
struct Forms {
    stand_ins: Vec<StandIn>,
    contents: Vec<Message>,
    /// Tokens before and after, of the messages that got a form.
    before: u64,
    after: u64,
}

impl Look<'_> {
    /// The visit of a strategy that makes outputs smaller.
    pub(super) fn shrinks(
        self,
        frame: &Frame<'_>,
        before: Reading,
        limit: u64,
        shrink: &Shrink,
        words: &mut dyn Words,
    ) -> Outlook {
        let (smaller, stood_down) = self.smaller(&shrink.wanted);
        let possible = tokens_of(self.state.messages_of(&smaller), frame);
        let too_little = |freed: u64| before.unit == Unit::Token && freed < shrink.at_least.max(1);
        let forms = if too_little(possible) {
            Forms::default()
        } else {
            self.forms(frame, &smaller, shrink.to, words)
        };
        let in_vain = too_little(forms.before.saturating_sub(forms.after));
        let forms = if in_vain { Forms::default() } else { forms };
        if forms.contents.is_empty() && self.previous().is_some_and(fruitless) {
            return Outlook::StandsDown;
        }
        let after = match before.unit {
            Unit::Token => before
                .amount
                .saturating_sub(forms.before)
                .saturating_add(forms.after),
            _ => {
                let made = u64::try_from(forms.contents.len()).unwrap_or(u64::MAX);
                before.amount.saturating_sub(made)
            }
        };
        let gave_up = in_vain && !smaller.messages.is_empty();
        let body = self.made(&smaller.decision, before, limit, after, gave_up);
        let first = forms.stand_ins.iter().filter_map(|s| {
            let (first, _) = s.sources.0.first()?;
            self.state.message(MessageId(*first)).map(|m| m.place)
        });
        let body = Visited {
            stood_down,
            first_changed: first.min(),
            change: Change {
                stand_ins: forms.stand_ins,
                ..Change::default()
            },
            ..body
        };
        Outlook::Visit(Box::new(Visit {
            body,
            memo: None,
            contents: forms.contents,
        }))
    }

    /// What the guard says, with pins or, where they held up the visit before too, without.
    fn smaller(&self, wanted: &Wanted) -> (Smaller, Ranges) {
        let smaller = self.state.smaller(wanted);
        let pinned = smaller.decision.pinned_messages(self.state);
        if !smaller.messages.is_empty() || !self.held_up_before(&pinned, false) {
            return (smaller, Ranges::default());
        }
        let free = self.state.smaller(&Wanted {
            pin_results: 0,
            ..wanted.clone()
        });
        (free, self.state.ranges(&pinned))
    }

    fn forms(&self, frame: &Frame<'_>, smaller: &Smaller, to: To, words: &mut dyn Words) -> Forms {
        let mut forms = Forms::default();
        for (id, parts) in &smaller.messages {
            let (Some(state), Some(message)) = (self.state.message(*id), words.message(*id)) else {
                continue; // redacted: there is nothing to make smaller
            };
            let small = to.applied(*id, &message, parts);
            let answers = state.forms.first().into_iter();
            let answers = answers.flat_map(|f| f.skeleton.parts.iter().map(|p| p.answers));
            let skeleton = words.skeleton(&small, &answers.collect::<Vec<_>>());
            if let Ok(tokens) = frame.tokens() {
                forms.before = forms.before.saturating_add(tokens.size(state));
                forms.after = forms.after.saturating_add(tokens.size_of(&skeleton));
            }
            forms.stand_ins.push(StandIn {
                kind: StandInKind::Form,
                reason: to.reason(),
                sources: self.state.ranges([id]),
                skeleton,
                content: BLANK,
            });
            forms.contents.push(small);
        }
        forms
    }

    /// The body of a visit under which nothing leaves.
    fn made(
        &self,
        decision: &Decision,
        before: Reading,
        limit: u64,
        after: u64,
        gave_up: bool,
    ) -> Visited {
        let shortfall = after.saturating_sub(limit);
        let outcome = match (gave_up, shortfall) {
            (true, _) => VisitOutcome::NoProgress,
            (false, 0) => VisitOutcome::Done,
            (false, _) => VisitOutcome::Short,
        };
        let told = self.told(decision);
        Visited {
            after: Reading {
                amount: after,
                ..before.clone()
            },
            before,
            limit,
            target: limit,
            outcome,
            shortfall: (shortfall > 0).then_some(shortfall),
            refused: told.refused,
            released: told.released,
            ..self.blank()
        }
    }
}

fn tokens_of<'a>(messages: impl Iterator<Item = &'a MessageState>, frame: &Frame<'_>) -> u64 {
    let tokens = frame.tokens().ok();
    let sizes = messages.map(|m| tokens.map_or(0, |t| t.size(m)));
    sizes.fold(0, u64::saturating_add)
}
