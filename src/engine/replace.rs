//! Replacing and clearing: edits by a person or the application that take messages out of the
//! window, as exact whole groups.
//!
//! What the log itself holds (the envelope, the current request, open calls, pins) stays, whoever
//! asks: it is passed over, and the entry says why. What was asked for is kept beside what it came
//! to, as the edit's `rest`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use serde_json::{Value, json};

use crate::log::{
    Author, Block, BlockBody, Body, Change, EditAction, GroupReason, Json, Left, LeftReason,
    Message, MessageId, Part, PartBody, PartKind, PartSkeleton, Ranges, RequestReason, Role, Seq,
    Shape, Skeleton, StandIn, StandInKind,
};
use crate::window::{Binding, Chosen, Projection, Selection, Skip, Unchosen};

use super::append::{encoding, skeleton, store_content};
use super::conversation::{Ack, Conversation};
use super::error::{Error, Refusal};
use super::known::State;

/// What is to be replaced.
///
/// Positions are those of the window now; the end is exclusive; negative ones count from the
/// window's end. What is resolved are messages, so that nothing that comes later is ever meant.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Replacement {
    /// Which messages.
    pub of: Selection,
    /// Whether the content becomes another form of the one message that is meant, which keeps its
    /// place, its group and its id; else it stands for all of them as a message of its own.
    pub in_place: bool,
}

impl Replacement {
    /// Of the messages from a position of the window up to another; `None` is through the last.
    #[must_use]
    pub fn range(start: i64, end: impl Into<Option<i64>>) -> Self {
        Self {
            of: Selection {
                start,
                end: end.into(),
                ..Selection::default()
            },
            in_place: false,
        }
    }

    /// Only messages in one of these roles.
    #[must_use]
    pub fn roles(mut self, roles: impl IntoIterator<Item = Role>) -> Self {
        self.of.roles.extend(roles);
        self
    }

    /// Only messages that hold a part of one of these kinds.
    #[must_use]
    pub fn tags(mut self, tags: impl IntoIterator<Item = PartKind>) -> Self {
        self.of.tags.extend(tags);
        self
    }

    /// Messages that stay may stand between those that are replaced.
    #[must_use]
    pub const fn with_gaps(mut self) -> Self {
        self.of.gaps = true;
        self
    }

    /// The content becomes another form of the one message that is meant.
    #[must_use]
    pub const fn in_place(mut self) -> Self {
        self.in_place = true;
        self
    }

    fn as_asked(&self) -> Value {
        let roles: Vec<&str> = self.of.roles.iter().map(Role::name).collect();
        let tags: Vec<&str> = self.of.tags.iter().map(|t| t.name()).collect();
        json!({
            "start": self.of.start, "end": self.of.end, "roles": roles, "tags": tags,
            "gaps": self.of.gaps, "in_place": self.in_place,
        })
    }
}

impl Conversation {
    /// Puts a content in the place of messages of the window: one message that stands for them, where
    /// the oldest of them stood, or another form of the one that is meant. The message speaks as user
    /// or assistant and its author is the application: it is nobody's request. It may be larger than
    /// what it stands for. One entry; undoing it brings back what there was.
    ///
    /// # Errors
    /// `empty-message` when the content says nothing; `range-out-of-bounds`, `range-inverted`;
    /// `nothing-matches` when nothing is left of the range; `split-pair` when it would cut a group,
    /// naming the messages to add; `invalid-option` when what matches has gaps that were not allowed,
    /// and when the content is none that can stand there.
    ///
    /// ```
    /// use ctxlog::engine::{Replacement, Store};
    /// use ctxlog::log::Message;
    ///
    /// let chat = Store::in_memory().conversation("a")?;
    /// chat.append(Message::person("How far is the moon?"))?;
    /// chat.append(Message::model("About 384,400 km, that is …"))?;
    /// chat.append(Message::person("And the sun?"))?;
    /// chat.append(Message::model("About 150 million km."))?;
    /// chat.replace(&Replacement::range(0, -2), Message::person("The moon: 384,400 km."))?;
    /// assert_eq!(chat.window()?.items.len(), 3);
    /// # Ok::<(), ctxlog::engine::Error>(())
    /// ```
    pub fn replace(&self, what: &Replacement, with: Message) -> Result<Ack, Error> {
        says_something(&with)?;
        let mut state = self.lock()?;
        let (chosen, rest) = resolve(&state.projection, what)?;
        self.put(&mut state, &chosen.messages, what.in_place, with, &rest)
    }

    /// Asks for a replacement whose content comes later: what is meant is resolved now, and changes
    /// nothing yet. The entry it gives is what [`Conversation::replace_asked`] names; no other
    /// request is ever taken for the content. A later one takes its place.
    ///
    /// # Errors
    /// As [`Conversation::replace`].
    pub fn ask_replacement(&self, what: &Replacement) -> Result<Ack, Error> {
        let mut state = self.lock()?;
        let (_, rest) = resolve(&state.projection, what)?;
        self.file_edit(&mut state, EditAction::Replace, |_, _| {
            Ok((Change::default(), Some(Json(rest.to_string()))))
        })
    }

    /// Gives the content of a replacement that was asked for: it stands for the messages that were
    /// meant then, whatever came since.
    ///
    /// # Errors
    /// `nothing-matches` when the entry asked for no replacement, when it was done or another one was
    /// asked for since, or when not all that was meant may leave still; else as
    /// [`Conversation::replace`].
    pub fn replace_asked(&self, ask: Seq, with: Message) -> Result<Ack, Error> {
        says_something(&with)?;
        let mut state = self.lock()?;
        let (messages, in_place) = self.asked(ask)?;
        self.is_pending(ask, state.head.map_or(ask, |head| head.seq))?;
        let visible = |id: &MessageId| {
            let message = state.projection.message(*id);
            message.is_some_and(crate::window::MessageState::visible)
        };
        if let Some(gone) = messages.iter().find(|id| !visible(id)) {
            return Err(nothing(format!(
                "{gone}, which {ask} means, left the window"
            )));
        }
        let chosen = state.projection.choose_of(&messages, Vec::new());
        let chosen = chosen.map_err(|e| unchosen(&state.projection, e))?;
        if let Some((id, skip)) = chosen.skipped.first() {
            let detail = format!("{id}, which {ask} means, may not leave: {}", skip.name());
            return Err(nothing(detail));
        }
        if !in_place {
            let whole = state.projection.in_whole_groups(&chosen.messages);
            whole.map_err(|e| unchosen(&state.projection, e))?;
        }
        self.put(
            &mut state,
            &chosen.messages,
            in_place,
            with,
            &json!({ "ask": ask }),
        )
    }

    /// What an entry asked to have replaced.
    fn asked(&self, ask: Seq) -> Result<(Vec<MessageId>, bool), Error> {
        let none = || nothing(format!("{ask} asks for no replacement"));
        let entry = self.entry(ask)?;
        if !asks(&entry.body) {
            return Err(none());
        }
        let text = self.text(ask, 0)?.ok_or_else(none)?;
        let rest: Value = serde_json::from_str(&text.0).map_err(|_| none())?;
        let ids = rest.get("resolved").cloned().unwrap_or_default();
        let ids: Vec<MessageId> = serde_json::from_value::<Vec<Seq>>(ids)
            .map_err(|_| none())?
            .into_iter()
            .map(MessageId)
            .collect();
        let in_place = rest.pointer("/asked/in_place").and_then(Value::as_bool);
        Ok((ids, in_place.unwrap_or(false)))
    }

    /// Nothing came after an ask that did it or took its place. Costs what came after it.
    fn is_pending(&self, ask: Seq, head: Seq) -> Result<(), Error> {
        let mut later = Vec::new();
        self.store()
            .entries(self.id(), ask.next(), head, &mut |sealed| {
                if let Body::Edited(edited) = &sealed.entry.body
                    && edited.action == EditAction::Replace
                {
                    let payload = u32::try_from(edited.change.stand_ins.len());
                    let asks = asks(&sealed.entry.body);
                    later.push((sealed.entry.seq, asks, payload.unwrap_or(u32::MAX)));
                }
                ControlFlow::Continue(())
            })?;
        for (seq, asks, payload) in later {
            if asks {
                return Err(nothing(format!("{seq} took the place of {ask}")));
            }
            let rest = self.text(seq, payload)?;
            let rest: Option<Value> = rest.and_then(|r| serde_json::from_str(&r.0).ok());
            if rest.and_then(|r| r.get("ask")?.as_u64()) == Some(ask.0) {
                return Err(nothing(format!("{seq} did what {ask} asks for")));
            }
        }
        Ok(())
    }

    fn put(
        &self,
        state: &mut State,
        messages: &[MessageId],
        in_place: bool,
        with: Message,
        rest: &Value,
    ) -> Result<Ack, Error> {
        let (kind, with, answers) = if in_place {
            let [one] = messages else {
                let detail = format!(
                    "another form is that of one message; {} are meant",
                    messages.len()
                );
                return Err(Error::refused(RequestReason::InvalidOption, detail));
            };
            let old = state
                .projection
                .message(*one)
                .and_then(|m| Some((*one, m.skeleton()?)));
            let (id, old) = old.ok_or_else(|| nothing(format!("there is no {one}")))?;
            let (with, answers) = form_of(id, old, with)?;
            (StandInKind::Form, with, answers)
        } else {
            (StandInKind::Claim, claim_of(with)?, Vec::new())
        };
        let sources = messages.iter().copied().collect::<BTreeSet<_>>();
        let sources = state.projection.ranges(&sources);
        self.file_edit(state, EditAction::Replace, |stage, work| {
            let content = store_content(stage, work, &with)?;
            let change = Change {
                stand_ins: vec![StandIn {
                    kind,
                    reason: LeftReason::Replaced,
                    sources,
                    skeleton: skeleton(work, encoding(stage.state), &with, &answers),
                    content,
                }],
                ..Change::default()
            };
            Ok((change, Some(Json(rest.to_string()))))
        })
    }

    /// Lets everything leave that may: the envelope stays, the current request, open calls, what is
    /// pinned.
    ///
    /// # Errors
    /// `nothing-matches` when nothing may.
    pub fn clear(&self) -> Result<Ack, Error> {
        let mut state = self.lock()?;
        let all: Vec<MessageId> = state
            .projection
            .window()
            .items
            .iter()
            .map(|i| i.id)
            .collect();
        self.take_out(&mut state, &all, &json!("window"))
    }

    /// Lets these messages leave, each with its whole group, as far as they may.
    ///
    /// # Errors
    /// `nothing-matches` when one is not in the window, and when none may leave.
    pub fn clear_messages(&self, messages: &[MessageId]) -> Result<Ack, Error> {
        let mut state = self.lock()?;
        for id in messages {
            super::edit::visible(&state.projection, *id)?;
        }
        let groups = messages.iter().flat_map(|id| state.projection.members(*id));
        let visible: BTreeSet<MessageId> = groups.filter(|m| m.visible()).map(|m| m.id).collect();
        let visible: Vec<MessageId> = visible.into_iter().collect();
        let asked: Vec<Seq> = messages.iter().map(|id| id.seq()).collect();
        self.take_out(&mut state, &visible, &json!(asked))
    }

    fn take_out(
        &self,
        state: &mut State,
        messages: &[MessageId],
        asked: &Value,
    ) -> Result<Ack, Error> {
        let chosen = state.projection.choose_of(messages, Vec::new());
        let chosen = chosen.map_err(|e| unchosen(&state.projection, e))?;
        let rest = json!({
            "asked": asked,
            "skipped": skipped(&state.projection, &chosen.skipped),
        });
        let ids: BTreeSet<MessageId> = chosen.messages.into_iter().collect();
        let left = Left {
            reason: LeftReason::Cleared,
            messages: state.projection.ranges(&ids),
        };
        self.file_edit(state, EditAction::Clear, |_, _| {
            let change = Change {
                left: vec![left],
                ..Change::default()
            };
            Ok((change, Some(Json(rest.to_string()))))
        })
    }

    /// What was asked of an edit, as JSON text: of a replacement the range, the filters and what
    /// they came to; of a clearing which messages, and which stayed and why. `None` where the entry
    /// has none, or it was redacted.
    ///
    /// # Errors
    /// When it is damaged or lost.
    pub fn edit_rest(&self, entry: Seq) -> Result<Option<Json>, Error> {
        let Body::Edited(edited) = self.entry(entry)?.body else {
            return Ok(None);
        };
        if edited.rest.is_none() {
            return Ok(None);
        }
        let payload = u32::try_from(edited.change.stand_ins.len()).unwrap_or(u32::MAX);
        self.text(entry, payload)
    }
}

/// Whether an entry asks for a replacement whose content comes later: one that changes nothing.
fn asks(body: &Body) -> bool {
    matches!(body, Body::Edited(e) if e.action == EditAction::Replace
        && e.change == Change::default() && e.rest.is_some())
}

/// What a replacement means now, with what the edit says of it.
fn resolve(state: &Projection, what: &Replacement) -> Result<(Chosen, Value), Error> {
    let chosen = state.choose(&what.of, what.in_place);
    let chosen = chosen.map_err(|e| unchosen(state, e))?;
    let resolved: Vec<Seq> = chosen.messages.iter().map(|id| id.seq()).collect();
    let rest = json!({
        "asked": what.as_asked(),
        "of": state.window_len(),
        "resolved": resolved,
        "skipped": skipped(state, &chosen.skipped),
    });
    Ok((chosen, rest))
}

fn nothing(detail: String) -> Error {
    Error::refused(RequestReason::NothingMatches, detail)
}

fn listed(ids: &[MessageId]) -> String {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    ids.join(" ")
}

fn unchosen(state: &Projection, why: Unchosen) -> Error {
    match why {
        Unchosen::OutOfBounds(at, length) => {
            let detail = format!("{at} is no position of a window of {length}");
            let refusal = Refusal::new(RequestReason::RangeOutOfBounds, detail);
            let help = "positions go from 0; negative ones count from the end; see `ctxlog window`";
            refusal.with_help(help).into()
        }
        Unchosen::Inverted => {
            let detail = "the range ends before it begins, as the window is now";
            Error::refused(RequestReason::RangeInverted, detail)
        }
        Unchosen::Nothing(skipped) if skipped.is_empty() => {
            nothing("the range holds no message".to_owned())
        }
        Unchosen::Nothing(skips) => {
            let why = by_reason(state, &skips);
            let why = why.iter().map(|(why, ids)| format!("{ids} {why}"));
            let why: Vec<String> = why.collect();
            let detail = format!("nothing that may leave matches: {}", why.join(", "));
            let refusal = Refusal::new(RequestReason::NothingMatches, detail);
            if skips
                .iter()
                .all(|(_, skip)| *skip != Skip::Held(GroupReason::Pinned))
            {
                return refusal.into();
            }
            let help = "a pin ends with `ctxlog unpin`; what came back stays with its whole group \
                        until a call has seen it";
            refusal.with_help(help).into()
        }
        Unchosen::Split(missing) => {
            let missing = listed(&missing);
            let detail = format!("it would cut {missing} off from what they belong to");
            let refusal = Refusal::new(RequestReason::SplitPair, detail);
            refusal
                .with_help(format!("widen the range so that it holds {missing}"))
                .into()
        }
        Unchosen::Gap(id) => {
            let detail = format!("{id} stays, and stands between what is replaced");
            let refusal = Refusal::new(RequestReason::InvalidOption, detail);
            refusal
                .with_help("allow gaps, or choose a range without them")
                .into()
        }
    }
}

/// What was skipped, per reason.
fn by_reason(state: &Projection, skips: &[(MessageId, Skip)]) -> Vec<(&'static str, Ranges)> {
    let mut reasons: BTreeMap<Skip, BTreeSet<MessageId>> = BTreeMap::new();
    for (id, skip) in skips {
        reasons.entry(*skip).or_default().insert(*id);
    }
    let reasons = reasons.into_iter();
    reasons
        .map(|(skip, ids)| (skip.name(), state.ranges(&ids)))
        .collect()
}

fn skipped(state: &Projection, skips: &[(MessageId, Skip)]) -> Vec<Value> {
    let reasons = by_reason(state, skips).into_iter();
    reasons
        .map(|(why, messages)| json!({ "why": why, "messages": messages }))
        .collect()
}

/// A content without words, media or anything else stands for nothing.
fn says_something(message: &Message) -> Result<(), Error> {
    let blank = |part: &Part| matches!(&part.body, PartBody::Block(BlockBody::Text(t)) if t.trim().is_empty());
    if message.parts.iter().all(blank) {
        let detail = "the replacement says nothing; to let messages leave, clear them";
        return Err(Error::refused(RequestReason::EmptyMessage, detail));
    }
    Ok(())
}

fn impossible(detail: String) -> Error {
    Error::refused(RequestReason::InvalidOption, detail)
}

fn blocks_alone(message: &Message) -> bool {
    let block = |part: &Part| matches!(part.body, PartBody::Block(_));
    message.parts.iter().all(block)
}

/// A message that stands for others: no call, no result, no instruction, and nobody's request.
fn claim_of(with: Message) -> Result<Message, Error> {
    if !blocks_alone(&with) {
        let detail = "what stands for others holds text and media alone";
        return Err(impossible(detail.to_owned()));
    }
    if !matches!(with.role, Role::User | Role::Assistant) {
        let role = with.role.name();
        let detail = format!("what stands for others speaks as user or assistant, not as {role}");
        return Err(impossible(detail));
    }
    Ok(Message {
        author: Author::Application,
        ..with
    })
}

/// Another form of a message: role, author and what it answers stay as they are.
fn form_of(id: MessageId, old: &Skeleton, with: Message) -> Result<(Message, Binding), Error> {
    if !blocks_alone(&with) {
        let detail = "another form holds text and media alone";
        return Err(impossible(detail.to_owned()));
    }
    let bound = |p: &PartSkeleton| matches!(p.kind, PartKind::Call | PartKind::Result);
    let (parts, answers) = match old.parts.as_slice() {
        [result] if result.kind == PartKind::Result && !result.is(PartSkeleton::NATIVE) => {
            (vec![result_of(result, with.parts)], vec![result.answers])
        }
        parts if parts.iter().any(bound) => {
            let detail = format!("{id} holds calls or results, which another text would cut off");
            return Err(Error::refused(RequestReason::SplitPair, detail));
        }
        _ => (with.parts, Vec::new()),
    };
    Ok((Message::new(old.role.clone(), old.author, parts), answers))
}

/// The result of the same call, with another content.
fn result_of(old: &PartSkeleton, parts: Vec<Part>) -> Part {
    let block = |part: Part| match part.body {
        PartBody::Block(body) => Some(Block {
            body,
            extra: part.extra,
        }),
        _ => None,
    };
    let content: Vec<Block> = parts.into_iter().filter_map(block).collect();
    let text = matches!(content.as_slice(), [Block { body: BlockBody::Text(_), extra }] if extra.is_empty());
    let body = PartBody::Result {
        call: old.label.clone(),
        name: old.name.clone(),
        content,
        shape: if text { Shape::Text } else { Shape::List },
        error: old.is(PartSkeleton::ERROR).then_some(true),
        interim: old.is(PartSkeleton::INTERIM),
        native: None,
    };
    Part {
        body,
        extra: Vec::new(),
    }
}
