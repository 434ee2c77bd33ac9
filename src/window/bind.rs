//! Binding results to calls: by occurrence, never by id text alone.

use std::collections::{BTreeSet, HashMap};

use crate::log::{Message, PartBody, PartSkeleton, Seq};

use crate::planted::{Bug, planted};

use super::state::Projection;

/// A call's state: a call part of a message.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CallInfo {
    /// The provider's id.
    pub label: Option<String>,
    /// The tool.
    pub name: String,
    /// Whether the provider itself runs it.
    pub native: bool,
    /// Whether an interim result came.
    pub interim: bool,
    /// The message that holds its final result, and whether the engine made that.
    pub result: Option<(Seq, bool)>,
}

/// What calls and results are paired by: ids are labels, unique only among open calls. Where a
/// source gives no id, the tool's name serves.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Label {
    pub(super) native: bool,
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
}

impl Label {
    pub(super) fn new(native: bool, id: Option<&str>, name: Option<&str>) -> Self {
        let name = if id.is_some() { None } else { name };
        Self {
            native,
            id: id.map(str::to_owned),
            name: name.map(str::to_owned),
        }
    }
}

impl CallInfo {
    /// A call part that nothing answered yet.
    pub(super) fn of(part: &PartSkeleton) -> Self {
        Self {
            label: part.label.clone(),
            name: part.name.clone().unwrap_or_default(),
            native: part.is(PartSkeleton::NATIVE),
            interim: false,
            result: None,
        }
    }

    pub(super) fn key(&self) -> Label {
        Label::new(self.native, self.label.as_deref(), Some(&self.name))
    }
}

/// Per part of a message: the call (message, part) that a result part answers. Empty where none of its
/// parts is a result.
pub type Binding = Vec<Option<(Seq, u32)>>;

/// Why a result part cannot be bound.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BindError {
    /// No call of this id was ever filed.
    #[error("part {part} answers the call '{label}', which is not open")]
    Unknown {
        /// The part's position.
        part: u32,
        /// The id (or name) it gives.
        label: String,
    },
    /// The call has its final result already.
    #[error("part {part} is a second result of the call '{label}'; {} holds the first", holder(*.result))]
    Duplicate {
        /// The part's position.
        part: u32,
        /// The id (or name) it gives.
        label: String,
        /// The message that holds the first result; `None`: this very message.
        result: Option<Seq>,
    },
}

impl Projection {
    /// Binds each result part of a message that would be entry `seq`: to the newest message with
    /// an open call of its id, there to the first such call. A final result also binds, in the same
    /// order, to calls that only synthetic results closed, which it supersedes. Parts that cannot be bound give
    /// their error beside the rest.
    #[must_use]
    pub fn bind(&self, message: &Message, seq: Seq) -> (Binding, Vec<BindError>) {
        let mut taken: Vec<(Seq, u32)> = Vec::new();
        let mut answered: Vec<Label> = Vec::new();
        let mut own: Vec<(Label, (Seq, u32))> = Vec::new();
        let mut errors = Vec::new();
        let mut binding = Vec::new();
        let result = |p: &crate::log::Part| matches!(p.body, PartBody::Result { .. });
        if !message.parts.iter().any(result) {
            return (binding, errors);
        }
        for (position, part) in (0_u32..).zip(&message.parts) {
            let bound = match &part.body {
                PartBody::Call {
                    id, name, native, ..
                } => {
                    let label = Label::new(native.is_some(), id.as_deref(), Some(name));
                    own.push((label, (seq, position)));
                    None
                }
                PartBody::Result {
                    call,
                    name,
                    native,
                    interim,
                    ..
                } => {
                    let label = Label::new(native.is_some(), call.as_deref(), name.as_deref());
                    match self.find_call(&label, &own, &taken, *interim) {
                        Ok(call) => {
                            if !*interim {
                                taken.push(call);
                                answered.push(label);
                            }
                            Some(call)
                        }
                        Err(first) => {
                            let here = answered.contains(&label);
                            errors.push(unbound(position, &label, first, here));
                            None
                        }
                    }
                }
                _ => None,
            };
            binding.push(bound);
        }
        (binding, errors)
    }

    fn find_call(
        &self,
        label: &Label,
        own: &[(Label, (Seq, u32))],
        taken: &[(Seq, u32)],
        interim: bool,
    ) -> Result<(Seq, u32), Option<Seq>> {
        if let Some((_, call)) = own.iter().find(|(l, c)| l == label && !taken.contains(c)) {
            return Ok(*call);
        }
        if planted(Bug::IdIsAnsweredOnce) && self.closed.contains_key(label) {
            let closed = self.closed.get(label).and_then(|call| self.calls.get(call));
            return Err(closed.and_then(|c| c.result).map(|(first, _)| first));
        }
        if let Some(call) = newest_free(self.open.get(label), taken) {
            return Ok(call);
        }
        let late = self.interrupted.get(label).filter(|_| !interim);
        if let Some(call) = newest_free(late, taken) {
            return Ok(call);
        }
        let closed = self.closed.get(label).and_then(|call| self.calls.get(call));
        Err(closed.and_then(|c| c.result).map(|(first, _)| first))
    }
}

/// Takes a call out of the open or interrupted ones of its label.
pub(super) fn remove_from(
    calls: &mut HashMap<Label, BTreeSet<(Seq, u32)>>,
    label: &Label,
    call: (Seq, u32),
) {
    if let Some(of_label) = calls.get_mut(label) {
        of_label.remove(&call);
        if of_label.is_empty() {
            calls.remove(label);
        }
    }
}

/// Of the newest message that holds one of these calls, untaken: its first such call.
fn newest_free(calls: Option<&BTreeSet<(Seq, u32)>>, taken: &[(Seq, u32)]) -> Option<(Seq, u32)> {
    let free = |call: &&(Seq, u32)| !taken.contains(call);
    let calls = calls?;
    if planted(Bug::OldestCallIsAnswered) {
        return calls.iter().find(free).copied();
    }
    let (newest, _) = calls.iter().rev().find(free)?;
    calls.range((*newest, 0)..).find(free).copied()
}

/// `result` is the message that holds the call's final result, `here` whether an earlier part of the
/// same message is one.
fn unbound(part: u32, label: &Label, result: Option<Seq>, here: bool) -> BindError {
    let text = label.id.as_ref().or(label.name.as_ref());
    let label = text.cloned().unwrap_or_default();
    if here || result.is_some() {
        let result = result.filter(|_| !here);
        BindError::Duplicate {
            part,
            label,
            result,
        }
    } else {
        BindError::Unknown { part, label }
    }
}

fn holder(message: Option<Seq>) -> String {
    message.map_or_else(|| "the same message".to_owned(), |seq| seq.to_string())
}
