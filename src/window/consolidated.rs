//! When the conversation was consolidated, by what it is, and what there is to consolidate.

use crate::log::{Micros, Reading, Seq};

use super::state::{Fact, MessageState, Projection};

/// What a note says that marks a consolidation.
pub const CONSOLIDATED: &str = "ctxlog:consolidated";

/// What a note says of a compaction of the source's that a simulation did not apply.
pub const COMPACTED: &str = "compacted";
/// What a note says of outputs that the source cleared and a simulation did not.
pub const CLEARED: &str = "cleared";

/// A consolidation, or the mark of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Consolidated {
    /// The entry.
    pub seq: Seq,
    /// Its time: of a mark the one that was told.
    pub at: Option<Micros>,
    /// Whether someone marked it.
    pub marked: bool,
}

impl Projection {
    /// When to consolidate, as it was configured.
    #[must_use]
    pub fn consolidation_policy(&self) -> Option<&str> {
        self.consolidation.as_deref()
    }

    /// The newest consolidation, or mark of one.
    #[must_use]
    pub const fn consolidated(&self) -> Option<Consolidated> {
        self.consolidated
    }

    /// The window's messages outside the envelope, in order, without notices and what stands for
    /// others.
    pub fn said(&self) -> impl Iterator<Item = &MessageState> {
        let messages = self.items.iter().filter_map(|i| self.messages.get(i.index));
        let said = |m: &&MessageState| !m.notice && m.stands_for.is_none();
        messages.filter(said).filter(|m| !self.in_envelope(m))
    }

    /// What there is to consolidate: the window's messages outside the envelope, without notices and
    /// what stands for others, the bytes of their text, and their parts that are no text.
    #[must_use]
    pub fn to_consolidate(&self) -> (u64, u64, u64) {
        let said = |p: Seq| self.items.iter().take_while(move |i| i.place < p);
        let before = self.first_person.map_or(Seq(u64::MAX), |p| p);
        let messages = said(before).filter_map(|i| self.messages.get(i.index));
        self.totals
            .said_without(messages.filter(|m| self.in_envelope(m)))
    }

    pub(super) fn consolidated_by(&mut self, fact: Fact, marked: bool) {
        self.consolidated = Some(Consolidated {
            seq: fact.seq,
            at: fact.at,
            marked,
        });
    }

    /// What visits cost a prompt cache so far, where they changed what a call had been sent: apart by
    /// method, since what two methods counted is never added.
    #[must_use]
    pub fn invalidated(&self) -> &[Reading] {
        &self.invalidated
    }
}
