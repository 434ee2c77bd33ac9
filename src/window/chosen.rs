//! Which messages of the window an edit is about: a range of positions, filters, whole groups.

use std::collections::BTreeSet;

use crate::log::{GroupReason, MessageId, PartKind, Role, Seq};

use super::state::{MessageState, Projection};

/// Messages of the window, by position.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selection {
    /// The first position; negative ones count from the window's end.
    pub start: i64,
    /// The position behind the last; `None` is through the last message.
    pub end: Option<i64>,
    /// Only messages in one of these roles; none named: in any.
    pub roles: Vec<Role>,
    /// Only messages that hold a part of one of these kinds; none named: any message.
    pub tags: Vec<PartKind>,
    /// Whether messages that stay may stand between those that match.
    pub gaps: bool,
}

/// Why a message in question is not among the chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Skip {
    /// It has another role.
    Role,
    /// It holds no part of a kind that was asked for.
    Tag,
    /// Its group may not leave.
    Held(GroupReason),
}

impl Skip {
    /// The name people and tools see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Role => "role",
            Self::Tag => "tag",
            Self::Held(reason) => reason.name(),
        }
    }
}

/// What a selection came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Chosen {
    /// The messages, in window order. Never empty.
    pub messages: Vec<MessageId>,
    /// Those in question that are not chosen, in window order.
    pub skipped: Vec<(MessageId, Skip)>,
}

/// Why a selection chooses nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unchosen {
    /// This end is not in a window of so many messages.
    OutOfBounds(i64, usize),
    /// It ends before it begins.
    Inverted,
    /// Nothing is left of it.
    Nothing(Vec<(MessageId, Skip)>),
    /// These belong to groups of which others are chosen.
    Split(Vec<MessageId>),
    /// This one stays between those that match, and gaps are not allowed.
    Gap(MessageId),
}

impl Selection {
    /// The range of positions in a window of so many messages.
    fn positions(&self, length: usize) -> Result<std::ops::Range<usize>, Unchosen> {
        let at = |given: i64| {
            let from_end = || length.checked_sub(usize::try_from(given.unsigned_abs()).ok()?);
            let at = if given < 0 {
                from_end()
            } else {
                usize::try_from(given).ok()
            };
            let within = at.filter(|at| *at <= length);
            within.ok_or(Unchosen::OutOfBounds(given, length))
        };
        let (start, end) = (at(self.start)?, self.end.map_or(Ok(length), at)?);
        if end < start {
            return Err(Unchosen::Inverted);
        }
        Ok(start..end)
    }

    /// Why a message does not match.
    fn skips(&self, message: &MessageState) -> Option<Skip> {
        let shown = message.skeleton()?;
        let tagged = || shown.parts.iter().any(|p| self.tags.contains(&p.kind));
        if !self.roles.is_empty() && !self.roles.contains(&shown.role) {
            return Some(Skip::Role);
        }
        (!self.tags.is_empty() && !tagged()).then_some(Skip::Tag)
    }
}

impl Projection {
    /// The messages that a selection means now, each with its whole group, unless `alone` says that
    /// none leaves. What the log itself does not let leave is skipped.
    ///
    /// # Errors
    /// Why it means nothing that could be chosen.
    pub fn choose(&self, selection: &Selection, alone: bool) -> Result<Chosen, Unchosen> {
        let range = selection.positions(self.items.len())?;
        let items = self.items.iter().skip(range.start).take(range.len());
        let (mut matching, mut skipped) = (Vec::new(), Vec::new());
        for message in items.filter_map(|item| self.messages.get(item.index)) {
            match selection.skips(message) {
                Some(skip) => skipped.push((message.id, skip)),
                None => matching.push(message.id),
            }
        }
        let chosen = self.choose_of(&matching, skipped)?;
        if !alone {
            self.in_whole_groups(&chosen.messages)?;
        }
        if !selection.gaps {
            self.without_gaps(&chosen.messages)?;
        }
        Ok(chosen)
    }

    /// Of some messages of the window those whose groups may leave, in window order.
    ///
    /// # Errors
    /// When none may.
    pub fn choose_of(
        &self,
        messages: &[MessageId],
        mut skipped: Vec<(MessageId, Skip)>,
    ) -> Result<Chosen, Unchosen> {
        let mut chosen: Vec<MessageId> = Vec::new();
        for id in messages {
            match self.held(*id) {
                Some(reason) => skipped.push((*id, Skip::Held(reason))),
                None => chosen.push(*id),
            }
        }
        skipped.sort_by_key(|(id, _)| self.rank(*id));
        chosen.sort_by_key(|id| self.rank(*id));
        if chosen.is_empty() {
            return Err(Unchosen::Nothing(skipped));
        }
        Ok(Chosen {
            messages: chosen,
            skipped,
        })
    }

    /// # Errors
    /// When members of their groups are in the window and not among them, naming those.
    pub fn in_whole_groups(&self, messages: &[MessageId]) -> Result<(), Unchosen> {
        let named: BTreeSet<MessageId> = messages.iter().copied().collect();
        let members = named.iter().flat_map(|id| self.members(*id));
        let missing: BTreeSet<MessageId> = members
            .filter(|m| m.visible() && !named.contains(&m.id))
            .map(|m| m.id)
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Unchosen::Split(missing.into_iter().collect()))
    }

    /// # Errors
    /// When another message of the window stands between them.
    pub fn without_gaps(&self, messages: &[MessageId]) -> Result<(), Unchosen> {
        let named: BTreeSet<MessageId> = messages.iter().copied().collect();
        let ids = self.items.iter().map(|item| item.id);
        let from_first = ids.skip_while(|id| !named.contains(id));
        let mut between = None;
        let mut seen = 0;
        for id in from_first {
            if named.contains(&id) {
                seen = usize::saturating_add(seen, 1);
                if let Some(gap) = between {
                    return Err(Unchosen::Gap(gap));
                }
            } else {
                between = between.or(Some(id));
            }
            if seen == named.len() {
                break;
            }
        }
        Ok(())
    }

    /// The first reason why the log itself does not let a message's group leave now.
    #[must_use]
    pub fn held(&self, id: MessageId) -> Option<GroupReason> {
        let root = self.groups.root(self.index_of(id.seq())?);
        self.index.tally(root).reasons().next()
    }

    /// Whether a visit or edit was undone by an edit that is not itself undone.
    #[must_use]
    pub fn is_undone(&self, entry: Seq) -> bool {
        let (mut at, mut undone) = (entry, false);
        // A log that was made up may say that an entry undoes a later one.
        while let Some(by) = self.undone.get(&at).filter(|by| **by > at) {
            (at, undone) = (*by, !undone);
        }
        undone
    }

    fn rank(&self, id: MessageId) -> Option<super::index::Rank> {
        self.message(id).map(|m| (m.place, m.id))
    }
}
