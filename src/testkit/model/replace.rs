//! What takes messages out of the window by name: replacing and clearing.

use std::collections::BTreeSet;

use super::decide::{BLANK, Model};
use super::guard::Group;
use crate::engine::Replacement;
use crate::log::{
    Author, Block, BlockBody, Body, Change, EditAction, Edited, Left, LeftReason, Message, Part,
    PartBody, PartKind, PartSkeleton, RequestReason, Role, Seq, Shape, StandIn, StandInKind,
};

use RequestReason::{EmptyMessage, InvalidOption, NothingMatches, SplitPair};

/// Per part: the call that it answers.
type Answers = Vec<Option<(Seq, u32)>>;

/// What a request means: the messages, in window order.
pub(super) type Meant = Result<Vec<u64>, RequestReason>;

impl Model {
    /// The messages that a replacement means: those of the range that match and that the log does not
    /// hold. The range must be one; something must be left of it; whole groups, unless the message
    /// only gets another content; and without gaps, unless they are allowed.
    pub(super) fn means(&self, what: &Replacement) -> Meant {
        let window = &self.now.window;
        let length = i128::try_from(window.len()).unwrap_or(i128::MAX);
        let from_start = |at: i64| match i128::from(at) {
            at if at < 0 => length.saturating_add(at),
            at => at,
        };
        let (start, end) = (
            from_start(what.of.start),
            what.of.end.map_or(length, from_start),
        );
        if ![start, end].iter().all(|at| (0..=length).contains(at)) {
            return Err(RequestReason::RangeOutOfBounds);
        }
        if end < start {
            return Err(RequestReason::RangeInverted);
        }
        let groups = self.now.groups();
        let numbered = (0_i128..)
            .zip(window)
            .filter(|(at, _)| *at >= start && *at < end);
        let chosen: Vec<u64> = numbered
            .map(|(_, id)| *id)
            .filter(|id| self.matches(what, *id) && !self.is_held(&groups, *id))
            .collect();
        if chosen.is_empty() {
            return Err(NothingMatches);
        }
        if !what.in_place && !whole(&groups, &chosen) {
            return Err(SplitPair);
        }
        let at = |id: &u64| window.iter().position(|w| w == id).unwrap_or(0);
        let reach = chosen.iter().map(at).max().unwrap_or(0);
        let reach = reach.saturating_sub(chosen.iter().map(at).min().unwrap_or(0));
        if !what.of.gaps && reach >= chosen.len() {
            return Err(InvalidOption);
        }
        Ok(chosen)
    }

    fn matches(&self, what: &Replacement, id: u64) -> bool {
        let Some(shown) = self.now.get(id).and_then(|m| m.skeletons.last()) else {
            return false;
        };
        let (roles, tags) = (&what.of.roles, &what.of.tags);
        let role = roles.is_empty() || roles.contains(&shown.role);
        let tagged = |tag: &PartKind| shown.parts.iter().any(|p| p.kind == *tag);
        role && (tags.is_empty() || tags.iter().any(tagged))
    }

    fn is_held(&self, groups: &[Group], id: u64) -> bool {
        let group = groups.iter().find(|g| g.ids.contains(&id));
        group.is_none_or(|g| self.now.holds(g).is_some())
    }

    /// A replacement: content first, for one without any is none; then the range.
    pub(super) fn replace(
        &mut self,
        what: &Replacement,
        with: &Message,
    ) -> Result<(), RequestReason> {
        says(with)?;
        let meant = self.means(what)?;
        self.put(&meant, what.in_place, with)
    }

    /// An ask changes nothing.
    pub(super) fn ask(&mut self, what: &Replacement) -> Result<(), RequestReason> {
        self.means(what)?;
        self.edited(EditAction::Replace, Change::default());
        Ok(())
    }

    /// The content of the newest ask, once: it means what it meant, which must all be there, free and
    /// whole groups still.
    pub(super) fn asked(&mut self, ask: u64, with: &Message) -> Result<(), RequestReason> {
        says(with)?;
        let newest = self.asks.last_key_value();
        let pending = newest.filter(|(seq, _)| **seq == ask && !self.answered.contains_key(seq));
        // What it means may have been destroyed with all words.
        let pending = pending.filter(|(seq, _)| !self.gone.contains(&(**seq, 0)));
        let (meant, in_place) = pending.map(|(_, m)| m.clone()).ok_or(NothingMatches)?;
        let groups = self.now.groups();
        let free = |id: &u64| self.now.window.contains(id) && !self.is_held(&groups, *id);
        if !meant.iter().all(free) {
            return Err(NothingMatches);
        }
        if !in_place && !whole(&groups, &meant) {
            return Err(SplitPair);
        }
        self.put(&meant, in_place, with)
    }

    fn put(&mut self, meant: &[u64], in_place: bool, with: &Message) -> Result<(), RequestReason> {
        let (kind, skeleton) = if in_place {
            let [one] = meant else {
                return Err(InvalidOption);
            };
            let (form, answers) = self.reworded(*one, with)?;
            (StandInKind::Form, self.counted(&form, &answers))
        } else {
            if !matches!(with.role, Role::User | Role::Assistant) {
                return Err(InvalidOption);
            }
            let claim = Message {
                author: Author::Application,
                ..with.clone()
            };
            (StandInKind::Claim, self.counted(&claim, &[]))
        };
        let stand_in = StandIn {
            kind,
            reason: LeftReason::Replaced,
            sources: self.now.ranges(&meant.iter().copied().collect()),
            skeleton,
            content: BLANK,
        };
        let change = Change {
            stand_ins: vec![stand_in],
            ..Change::default()
        };
        self.edited(EditAction::Replace, change);
        Ok(())
    }

    /// Words in the place of a message's: as the same speaker; where it is one client tool's result,
    /// as the result of the same call. What else holds calls or results takes no words.
    fn reworded(&self, id: u64, with: &Message) -> Result<(Message, Answers), RequestReason> {
        let old = self.now.get(id).and_then(|m| m.skeletons.last());
        let old = old.ok_or(NothingMatches)?;
        let is = |kind| old.parts.iter().any(|p| p.kind == kind);
        let said = |parts| Message::new(old.role.clone(), old.author, parts);
        if !is(PartKind::Call) && !is(PartKind::Result) {
            return Ok((said(with.parts.clone()), Vec::new()));
        }
        let only = old.parts.first().filter(|p| {
            let client = !p.is(PartSkeleton::NATIVE);
            old.parts.len() == 1 && p.kind == PartKind::Result && client
        });
        let result = only.ok_or(SplitPair)?;
        let mut content = Vec::new();
        for part in &with.parts {
            if let PartBody::Block(body) = &part.body {
                let extra = part.extra.clone();
                content.push(Block {
                    body: body.clone(),
                    extra,
                });
            }
        }
        let text = matches!(content.as_slice(), [b] if matches!(b.body, BlockBody::Text(_)) && b.extra.is_empty());
        let body = PartBody::Result {
            call: result.label.clone(),
            name: result.name.clone(),
            content,
            shape: if text { Shape::Text } else { Shape::List },
            error: result.is(PartSkeleton::ERROR).then_some(true),
            interim: result.is(PartSkeleton::INTERIM),
            native: None,
        };
        let part = Part {
            body,
            extra: Vec::new(),
        };
        Ok((said(vec![part]), vec![result.answers]))
    }

    /// What may leave of the groups of these messages leaves; `None`: of the window.
    pub(super) fn clear(&mut self, which: Option<&[u64]>) -> Result<(), RequestReason> {
        let there = |id: &u64| self.now.window.contains(id);
        if !which.is_none_or(|ids| ids.iter().all(there)) {
            return Err(NothingMatches);
        }
        let named = |g: &&Group| which.is_none_or(|ids| g.ids.iter().any(|id| ids.contains(id)));
        let groups = self.now.groups();
        let free = groups
            .iter()
            .filter(named)
            .filter(|g| self.now.holds(g).is_none());
        let gone: BTreeSet<u64> = free.flat_map(|g| g.ids.iter().copied()).collect();
        if gone.is_empty() {
            return Err(NothingMatches);
        }
        let left = Left {
            reason: LeftReason::Cleared,
            messages: self.now.ranges(&gone),
        };
        let change = Change {
            left: vec![left],
            ..Change::default()
        };
        self.edited(EditAction::Clear, change);
        Ok(())
    }

    /// An edit that says what was asked.
    fn edited(&mut self, action: EditAction, change: Change) {
        let body = Body::Edited(Edited {
            action,
            change,
            rest: Some(BLANK),
        });
        self.file(body, None);
    }
}

/// Whether the groups of these messages are among them as far as they are in the window.
fn whole(groups: &[Group], ids: &[u64]) -> bool {
    let named = |g: &&Group| g.ids.iter().any(|id| ids.contains(id));
    let mut cut = groups.iter().filter(named);
    cut.all(|g| g.ids.iter().all(|id| ids.contains(id)))
}

/// Whether a content says anything at all.
fn says(message: &Message) -> Result<(), RequestReason> {
    let silent = message.parts.iter().all(|part| match &part.body {
        PartBody::Block(BlockBody::Text(text)) => text.trim().is_empty(),
        _ => false,
    });
    if silent { Err(EmptyMessage) } else { Ok(()) }
}
