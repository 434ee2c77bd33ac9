//! Which call a result answers, and into which messages one with results is split.

use super::decide::Model;
use crate::log::{
    Author, Message, Part, PartBody, PartKind, PartSkeleton, RequestReason, Role, Seq,
};

/// Per part: the call that it answers.
pub(super) type Answers = Vec<Option<(Seq, u32)>>;

/// How a call stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It has no final result.
    Open,
    /// Only the engine answered it.
    Synthetic,
    /// It has its final result.
    Answered,
}

/// A call that was ever made.
struct Made {
    at: (Seq, u32),
    label: Option<String>,
    name: Option<String>,
    native: bool,
    standing: Standing,
}

impl Model {
    /// A result answers the newest message with an open call of its id, there the first such call; a
    /// final one closes it also for the results beside it, an interim one does not. A final result may also answer, in the same
    /// order, a call that only the engine answered: it supersedes that. Where a result gives no id,
    /// the tool's name is compared. An id that no call has is unknown; a call that is answered is
    /// answered once.
    pub(super) fn bind(&self, message: &Message) -> Result<Answers, RequestReason> {
        let mut calls = self.made();
        let mut answers = Answers::new();
        let mut closed = Vec::new();
        let next = Seq(self.next());
        for (i, part) in (0_u32..).zip(&message.parts) {
            let answer = match &part.body {
                PartBody::Call {
                    id, name, native, ..
                } => {
                    calls.push(Made {
                        at: (next, i),
                        label: id.clone(),
                        name: Some(name.clone()),
                        native: native.is_some(),
                        standing: Standing::Open,
                    });
                    None
                }
                PartBody::Result {
                    call,
                    name,
                    interim,
                    native,
                    ..
                } => {
                    let fits = |m: &Made| {
                        let same = match call {
                            Some(_) => m.label == *call,
                            None => m.label.is_none() && m.name == *name,
                        };
                        same && m.native == native.is_some()
                    };
                    let taken = |m: &Made| closed.contains(&m.at);
                    let newest = |standing| {
                        let free = |m: &&Made| fits(m) && m.standing == standing && !taken(m);
                        calls
                            .iter()
                            .filter(free)
                            .map(|m| m.at)
                            .max_by_key(|(s, i)| (*s, std::cmp::Reverse(*i)))
                    };
                    let open = newest(Standing::Open);
                    let late = newest(Standing::Synthetic).filter(|_| !interim);
                    let found = open.or(late);
                    if found.is_none() {
                        return Err(if calls.iter().any(fits) {
                            RequestReason::DuplicateResult
                        } else {
                            RequestReason::UnknownCall
                        });
                    }
                    closed.extend(found.filter(|_| !interim));
                    found
                }
                _ => None,
            };
            answers.push(answer);
        }
        Ok(answers)
    }

    fn made(&self) -> Vec<Made> {
        let mut calls = Vec::new();
        for m in &self.now.messages {
            for (i, p) in (0_u32..).zip(m.parts()) {
                if p.kind != PartKind::Call {
                    continue;
                }
                let at = (Seq(m.id), i);
                calls.push(Made {
                    at,
                    label: p.label.clone(),
                    name: p.name.clone(),
                    native: p.is(PartSkeleton::NATIVE),
                    standing: self.standing(at),
                });
            }
        }
        calls
    }

    fn standing(&self, call: (Seq, u32)) -> Standing {
        let answers = |p: &PartSkeleton| p.answers == Some(call) && !p.is(PartSkeleton::INTERIM);
        let mut newest_first = self.now.messages.iter().rev();
        match newest_first.find(|m| m.parts().iter().any(answers)) {
            None => Standing::Open,
            Some(m) if m.author == Author::Engine => Standing::Synthetic,
            Some(_) => Standing::Answered,
        }
    }

    /// A source message that holds results and other content becomes results (by the tool), then the
    /// rest; results of the provider's own tools stay where they stand. Results whose calls are in
    /// the window and late ones share no message, nor do late ones of different groups: a message
    /// enters and leaves whole.
    pub(super) fn pieces(&self, message: &Message, answers: &Answers) -> Vec<(Message, Answers)> {
        type Parts = Vec<(Part, Option<(Seq, u32)>)>;
        let all = message.parts.iter().cloned().zip(answers.iter().copied());
        let client = |p: &Part| matches!(p.body, PartBody::Result { native: None, .. });
        let (results, rest): (Parts, Parts) = all.partition(|(p, _)| client(p));
        let away = |call: &Option<(Seq, u32)>| {
            let message = call.and_then(|(s, _)| self.now.get(s.0))?;
            message.out.as_ref()?;
            self.now.group(message.id).first().copied()
        };
        let mut apart: Vec<(Option<u64>, Parts)> = Vec::new();
        for (part, call) in results {
            let whereabouts = away(&call);
            match apart.iter_mut().find(|(w, _)| *w == whereabouts) {
                Some((_, parts)) => parts.push((part, call)),
                None => apart.push((whereabouts, vec![(part, call)])),
            }
        }
        let (role, author) = (message.role.clone(), message.author);
        let tool = if rest.is_empty() {
            (role.clone(), author)
        } else {
            (Role::Tool, Author::Tool)
        };
        let results = apart.into_iter().map(|(_, parts)| (tool.clone(), parts));
        let spoken = !rest.is_empty() || message.parts.is_empty();
        let rest = spoken.then_some(((role, author), rest));
        let piece = |((role, author), parts): ((Role, Author), Parts)| {
            let (parts, answers): (Vec<Part>, Answers) = parts.into_iter().unzip();
            (Message::new(role, author, parts), answers)
        };
        results.chain(rest).map(piece).collect()
    }
}
