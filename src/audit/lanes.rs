//! `lanes`: the lives of all messages as columns, without a word of them. What the viewer draws, and
//! small enough to be handed out whole: contents are asked for one by one.

use serde::Serialize;

use crate::engine::{Conversation, Error};
use crate::log::{GroupReason, Head, LeftReason, MessageId, Seq, Skeleton};
use crate::window::{LifeEnd, MessageState, Projection, RefusalSpan, Tokens};

use super::status::{category, token_limit};

/// What a message counts as; [`MessageColumns::kind`] is a position in it.
pub const KINDS: [&str; 7] = [
    "system",
    "person",
    "model",
    "tool",
    "summary",
    "notice",
    "application",
];

/// Every message, ascending by id.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct MessageColumns {
    /// The entry that introduced it: its id is `m` and this.
    pub seq: Vec<Seq>,
    /// Where it stands in window order; equal places stand by id.
    pub place: Vec<Seq>,
    /// A position in [`KINDS`].
    pub kind: Vec<usize>,
    /// Tokens of its first content.
    pub tokens: Vec<u64>,
}

/// Contents after the first, by message.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct FormColumns {
    /// The message, as a position in [`MessageColumns`].
    pub message: Vec<usize>,
    /// The entry from which on it was in force.
    pub since: Vec<Seq>,
    /// The entry that gave it.
    pub given: Vec<Seq>,
    /// Its tokens.
    pub tokens: Vec<u64>,
    /// Why it took the place of the one before: a code of `reasons`, 0 where none is known.
    pub reason: Vec<u8>,
}

/// Stays in the window, by message and in order.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct LifeColumns {
    /// The message, as a position in [`MessageColumns`].
    pub message: Vec<usize>,
    /// The entry that began it.
    pub entered: Vec<Seq>,
    /// The entry that ended it; 0 while it lasts.
    pub left: Vec<Seq>,
    /// Why it ended: a code of `reasons`; 0 while it lasts.
    pub reason: Vec<u8>,
    /// The strategy that ended it, counted from 1 in `strategies`; 0 where none did.
    pub strategy: Vec<usize>,
    /// What stands for it: the seq of a message; 0 where nothing does.
    pub stand_in: Vec<Seq>,
}

/// Absences that ended no stay, by message: of a late result that did not enter, for one.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct AbsenceColumns {
    /// The message, as a position in [`MessageColumns`].
    pub message: Vec<usize>,
    /// The entry from which on it held.
    pub since: Vec<Seq>,
    /// The entry that took away what it belongs to.
    pub by: Vec<Seq>,
    /// Why: a code of `reasons`.
    pub reason: Vec<u8>,
    /// What stands for it: the seq of a message; 0 where nothing does.
    pub stand_in: Vec<Seq>,
}

/// Runs of equal refusals, by message.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct RefusalColumns {
    /// The message, as a position in [`MessageColumns`].
    pub message: Vec<usize>,
    /// The strategy that wanted it gone, counted from 1 in `strategies`.
    pub strategy: Vec<usize>,
    /// Why it stayed: a code of `refusal_reasons`.
    pub reason: Vec<u8>,
    /// The first visit that found it so.
    pub first: Vec<Seq>,
    /// The last visit that found it so.
    pub last: Vec<Seq>,
}

/// Model calls: iteration N is at N - 1.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct CallColumns {
    /// The entry.
    pub seq: Vec<Seq>,
    /// How many messages it was sent.
    pub messages: Vec<u64>,
}

/// Visits of strategies.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct VisitColumns {
    /// The entry.
    pub seq: Vec<Seq>,
    /// The strategy, counted from 1 in `strategies`.
    pub strategy: Vec<usize>,
    /// 1 where it asked the groups, 0 where it could not measure or came too late.
    pub asked: Vec<u8>,
}

/// A member of a closed set: its code, its name, and what it means.
pub type Sentence = (u8, &'static str, &'static str);

/// A conversation as lanes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Lanes {
    /// `ctxlog.lanes/1`.
    pub schema: &'static str,
    /// The conversation's name.
    pub conversation: String,
    /// The entry that all of this is as of.
    pub head: Option<Head>,
    /// What counted the tokens: one method for all of them.
    pub method: String,
    /// The smallest token limit of the strategies in force.
    pub limit: Option<u64>,
    /// [`KINDS`].
    pub kinds: [&'static str; 7],
    /// Why something left.
    pub reasons: Vec<Sentence>,
    /// Why something might not leave.
    pub refusal_reasons: Vec<Sentence>,
    /// Every strategy that ever visited.
    pub strategies: Vec<String>,
    /// Every message.
    pub messages: MessageColumns,
    /// Their contents after the first.
    pub forms: FormColumns,
    /// Their stays in the window.
    pub lives: LifeColumns,
    /// Their absences beside those.
    pub absences: AbsenceColumns,
    /// What refused to let them leave.
    pub refusals: RefusalColumns,
    /// The model calls.
    pub calls: CallColumns,
    /// The visits.
    pub visits: VisitColumns,
    /// Messages whose words were destroyed, by seq.
    pub redacted: Vec<Seq>,
}

/// The lanes of a conversation at its head, from the fold in one pass.
///
/// # Errors
/// When the log has to be read again and cannot.
pub fn lanes(chat: &Conversation) -> Result<Lanes, Error> {
    let head = chat.head()?;
    let (mut lanes, words) = chat.with_projection(|p| (of(p), newest(p)))?;
    let backend = chat.store().backend();
    for (message, given, payload) in words {
        if backend.payload(chat.id(), given, payload)?.is_none() {
            lanes.redacted.push(message.seq());
        }
    }
    chat.name().clone_into(&mut lanes.conversation);
    lanes.head = head;
    Ok(lanes)
}

/// Where the present words of each message are.
fn newest(p: &Projection) -> Vec<(MessageId, Seq, u32)> {
    let forms = p.messages().iter().filter_map(|m| Some((m.id, m.form()?)));
    forms.map(|(id, f)| (id, f.given, f.payload)).collect()
}

fn of(p: &Projection) -> Lanes {
    let skeletons: Vec<&Skeleton> = (p.messages().iter())
        .flat_map(|m| m.forms.iter().map(|f| &f.skeleton))
        .collect();
    // Counts of two methods are never added: where they differ, all are the estimate.
    let tokens = Tokens::of(&skeletons, None);
    let mut lanes = Lanes {
        schema: "ctxlog.lanes/1",
        conversation: String::new(),
        head: None,
        method: tokens.method,
        limit: token_limit(p.chain()),
        kinds: KINDS,
        reasons: LeftReason::ALL.iter().copied().map(left_reason).collect(),
        refusal_reasons: GroupReason::ALL.iter().copied().map(group_reason).collect(),
        strategies: p.strategies().to_vec(),
        messages: MessageColumns::default(),
        forms: FormColumns::default(),
        lives: LifeColumns::default(),
        absences: AbsenceColumns::default(),
        refusals: RefusalColumns::default(),
        calls: CallColumns {
            seq: p.sent().iter().map(|s| s.fact.seq).collect(),
            messages: p.sent().iter().map(|s| s.messages).collect(),
        },
        visits: VisitColumns {
            seq: p.visits().iter().map(|v| v.fact.seq).collect(),
            strategy: (p.visits().iter())
                .map(|v| v.strategy.saturating_add(1))
                .collect(),
            asked: (p.visits().iter())
                .map(|v| u8::from(v.outcome.asked()))
                .collect(),
        },
        redacted: Vec::new(),
    };
    let mut sizes = tokens.items.into_iter();
    for (index, message) in p.messages().iter().enumerate() {
        let kind = category(p, message);
        let kind = KINDS.iter().position(|k| *k == kind).unwrap_or_default();
        lanes.message(index, kind, message, &mut sizes);
        for span in &message.refusals {
            lanes.refused(p, index, span);
        }
    }
    lanes
}

fn left_reason(reason: LeftReason) -> Sentence {
    (reason.code(), reason.name(), reason.sentence())
}

fn group_reason(reason: GroupReason) -> Sentence {
    (reason.code(), reason.name(), reason.sentence())
}

fn stands(end: &LifeEnd) -> Seq {
    end.stand_in.map_or(Seq(0), MessageId::seq)
}

impl Lanes {
    fn message(
        &mut self,
        index: usize,
        kind: usize,
        message: &MessageState,
        sizes: &mut impl Iterator<Item = u64>,
    ) {
        self.messages.seq.push(message.id.seq());
        self.messages.place.push(message.place);
        self.messages.kind.push(kind);
        let mut forms = message.forms.iter().zip(sizes);
        self.messages.tokens.push(forms.next().map_or(0, |f| f.1));
        for (form, tokens) in forms {
            self.forms.message.push(index);
            self.forms.since.push(form.since.seq);
            self.forms.given.push(form.given);
            self.forms.tokens.push(tokens);
            let reason = form.reason.map_or(0, LeftReason::code);
            self.forms.reason.push(reason);
        }
        for life in &message.lives {
            let end = life.left.as_ref();
            self.lives.message.push(index);
            self.lives.entered.push(life.entered.seq);
            self.lives.left.push(end.map_or(Seq(0), |e| e.by.seq));
            let reason = end.map_or(0, |e| e.reason.code());
            self.lives.reason.push(reason);
            let strategy = end.and_then(|e| e.strategy);
            let strategy = strategy.map_or(0, |s| s.saturating_add(1));
            self.lives.strategy.push(strategy);
            self.lives.stand_in.push(end.map_or(Seq(0), stands));
        }
        for (since, end) in &message.absences {
            self.absences.message.push(index);
            self.absences.since.push(*since);
            self.absences.by.push(end.by.seq);
            self.absences.reason.push(end.reason.code());
            self.absences.stand_in.push(stands(end));
        }
    }

    fn refused(&mut self, p: &Projection, index: usize, span: &RefusalSpan) {
        let newest = p.visits_of(span.strategy).saturating_sub(1);
        let visit = |ordinal| p.visit_of(span.strategy, ordinal).map(|v| v.fact.seq);
        let (Some(first), Some(last)) = (visit(span.first), visit(span.last.unwrap_or(newest)))
        else {
            return;
        };
        self.refusals.message.push(index);
        self.refusals.strategy.push(span.strategy.saturating_add(1));
        self.refusals.reason.push(span.reason.code());
        self.refusals.first.push(first);
        self.refusals.last.push(last);
    }
}
