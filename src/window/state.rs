//! What the fold knows: every message ever logged with its lives, and the window now.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use crate::log::{
    Author, Commitment, Count, Door, GroupReason, Hash, Iteration, LeftReason, MessageId, Micros,
    OpenCalls, Provenance, Ranges, Reading, Seq, Settings, Skeleton, Trigger, VisitOutcome,
};

use crate::planted::{Bug, planted};

use super::bind::{CallInfo, Label};
use super::claim::Questions;
use super::consolidated::Consolidated;
use super::group::Groups;
use super::index::{ByPlace, GroupIndex, Share};
use super::keys::Keys;
use super::measure::Totals;
use super::ordered::Ordered;
use super::outline::Touched;
use super::recall::Memo;
use super::stretch::Stretches;
use super::view::Item;

/// An entry's place in time: its number, its iteration and its wall time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fact {
    /// The entry.
    pub seq: Seq,
    /// Its iteration: the first call that can see its effect.
    pub iteration: Iteration,
    /// Its wall time as reported.
    pub at: Option<Micros>,
}

/// How a stay ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LifeEnd {
    /// The entry that ended it.
    pub by: Fact,
    /// Why.
    pub reason: LeftReason,
    /// The claim or newer result that stands for the message, if one does.
    pub stand_in: Option<MessageId>,
    /// The strategy that decided it; `None` for edits.
    pub strategy: Option<usize>,
}

/// One stay of a message in the window.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Life {
    /// The entry that began it.
    pub entered: Fact,
    /// How it ended.
    pub left: Option<LifeEnd>,
}

impl Life {
    /// Whether the message was in the window after entry `n`.
    #[must_use]
    pub fn contains(&self, n: Seq) -> bool {
        let last = u64::from(planted(Bug::LivesHoldTheirEnd));
        let before = Seq(n.0.saturating_sub(last));
        self.entered.seq <= n && self.left.as_ref().is_none_or(|l| before < l.by.seq)
    }

    /// How many calls saw it, of those whose number is at most `last`.
    #[must_use]
    pub fn calls(&self, last: Iteration) -> u64 {
        let end = self.left.as_ref().map_or(u64::MAX, |l| l.by.iteration.0);
        end.min(last.0.saturating_add(1))
            .saturating_sub(self.entered.iteration.0)
    }
}

/// A content of a message, in force from an entry on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Form {
    /// The entry from which on it is in force.
    pub since: Fact,
    /// The entry that gave the content; earlier than `since` when a form came back.
    pub given: Seq,
    /// The payload's index in that entry.
    pub payload: u32,
    /// Why it replaced the one before; `None` for the first.
    pub reason: Option<LeftReason>,
    /// The content's commitment.
    pub content: Commitment,
    /// The content without its words.
    pub skeleton: Skeleton,
}

/// A standing run of equal refusals by one strategy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusalSpan {
    /// The strategy, as an index into [`Projection::strategies`].
    pub strategy: usize,
    /// Why.
    pub reason: GroupReason,
    /// The strategy's visits that found it so: positions in [`Projection::visits_of`], inclusive;
    /// open at the end while it stands.
    pub first: usize,
    /// The last such visit; `None` while it stands.
    pub last: Option<usize>,
}

/// Everything the fold knows of one message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MessageState {
    /// Its id.
    pub id: MessageId,
    /// Where it stands in window order.
    pub place: Seq,
    /// The entry that introduced it.
    pub logged: Fact,
    /// How that entry is known.
    pub provenance: Provenance,
    /// The door it came through.
    pub door: Door,
    /// Its contents; the last is in force. Never empty.
    pub forms: Vec<Form>,
    /// The message it continues.
    pub continues: Option<Seq>,
    /// The message it shared one source message with.
    pub same_source: Option<Seq>,
    /// The call that produced it.
    pub produced_by: Option<Seq>,
    /// Whether it, or what it continues, holds a call that something outside it has to answer.
    pub(super) waits: bool,
    /// Of a claim: what it stands for.
    pub sources: Ranges,
    /// Of a claim: why its sources left for it.
    pub stands_for: Option<LeftReason>,
    /// Of a claim: how many claims deep it is, 1 where it was made of messages alone. Kept, because
    /// what it was made of may be the whole log.
    pub(super) generation: u64,
    /// Whether it is a notice: it says that others left, and counts for nothing.
    pub notice: bool,
    /// Its stays in the window.
    pub lives: Vec<Life>,
    /// Absences that ended no stay, each with the entry from which on it held: of a late result
    /// that did not enter, of a synthetic result that was superseded while it was away.
    pub absences: Vec<(Seq, LifeEnd)>,
    /// Whether someone pinned it.
    pub pinned: bool,
    /// The iteration at which it was last restored; it may not leave before that call.
    pub restored: Option<Iteration>,
    /// Refusals, oldest first.
    pub refusals: Vec<RefusalSpan>,
    /// What its group's tally counts of it.
    pub(super) share: Share,
}

impl MessageState {
    /// The content in force.
    #[must_use]
    pub fn form(&self) -> Option<&Form> {
        self.forms.last()
    }

    /// The content in force after entry `n`.
    #[must_use]
    pub fn form_at(&self, n: Seq) -> Option<&Form> {
        self.forms.iter().rev().find(|f| f.since.seq <= n)
    }

    /// The skeleton in force.
    #[must_use]
    pub fn skeleton(&self) -> Option<&Skeleton> {
        self.form().map(|f| &f.skeleton)
    }

    /// Whether it is in the window.
    #[must_use]
    pub fn visible(&self) -> bool {
        self.lives.last().is_some_and(|l| l.left.is_none())
    }

    /// Whether it was in the window after entry `n`.
    #[must_use]
    pub fn visible_at(&self, n: Seq) -> bool {
        self.lives.iter().any(|l| l.contains(n))
    }

    /// Why it is not in the window, when it is not: by which entry it left, or (a late result) by
    /// which entry its call had left.
    #[must_use]
    pub fn absent(&self) -> Option<&LifeEnd> {
        if self.visible() {
            return None;
        }
        let left = self.lives.last().and_then(|l| l.left.as_ref());
        match (left, self.absences.last()) {
            (Some(left), Some((since, _))) if *since < left.by.seq => Some(left),
            (_, Some((_, end))) => Some(end),
            (left, None) => left,
        }
    }

    /// Why it was not in the window after entry `n`; `None` when it was, or was not logged yet.
    #[must_use]
    pub fn absent_at(&self, n: Seq) -> Option<&LifeEnd> {
        if self.visible_at(n) {
            return None;
        }
        let left = self.lives.iter().filter_map(|l| l.left.as_ref());
        let ends = left.map(|end| (end.by.seq, end));
        let others = self.absences.iter().map(|(since, end)| (*since, end));
        let past = ends.chain(others).filter(|(since, _)| *since <= n);
        past.max_by_key(|(since, _)| *since).map(|(_, end)| end)
    }

    /// Whether its stay began later than where it stands: it was brought back, or stands for others.
    pub(super) fn is_late(&self) -> bool {
        let entered = self.lives.last().map(|life| life.entered.seq);
        entered.is_some_and(|seq| seq > self.place)
    }

    /// Who wrote it.
    #[must_use]
    pub fn author(&self) -> Author {
        self.forms
            .first()
            .map_or(Author::Engine, |f| f.skeleton.author)
    }
}

/// A filed model call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sent {
    /// The `called` entry.
    pub fact: Fact,
    /// The digest it recorded.
    pub window: Hash,
    /// How many messages it recorded.
    pub messages: u64,
    /// How it is known.
    pub provenance: Provenance,
}

/// A serving usage report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReturnInfo {
    /// The digest of the window that was measured.
    pub window: Hash,
    /// Its length.
    pub messages: u64,
    /// Input tokens, cached ones included.
    pub input: u64,
}

/// A filed visit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VisitInfo {
    /// The `visited` entry.
    pub fact: Fact,
    /// The strategy, as an index into [`Projection::strategies`].
    pub strategy: usize,
    /// What made it look.
    pub trigger: Trigger,
    /// How it ended.
    pub outcome: VisitOutcome,
    /// Whether anything left, or got another content.
    pub freed: bool,
    /// Whether the window was over the strategy's limit still.
    pub over: bool,
    /// Whether it names attempts of a summariser.
    pub attempted: bool,
}

/// What became of a message: exactly one of these holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Conservation {
    /// In the window.
    Visible,
    /// Its newest visit or edit let it leave.
    Gone,
    /// A live claim or newer result stands for it.
    Covered,
}

/// The fold of a log: `fold(entries[0..=n])` is this, applied n + 1 times.
#[derive(Clone, Debug, Default)]
pub struct Projection {
    /// The newest entry applied.
    pub(super) head: Option<Fact>,
    /// Every message, ascending by id.
    pub(super) messages: Vec<MessageState>,
    /// Their ids, apart so that one is found without touching the messages.
    pub(super) seqs: Vec<Seq>,
    pub(super) stretches: Stretches,
    pub(super) groups: Groups,
    pub(super) index: GroupIndex,
    /// The window, in window order; the digest after each item, as far as it was asked for; and what
    /// the items come to.
    pub(super) items: Ordered<Item>,
    pub(super) digests: Vec<Hash>,
    pub(super) totals: Totals,
    /// How many of the first items the newest call was sent, as they stand still.
    pub(super) sent_items: usize,
    /// What visits cost a prompt cache so far, apart by method.
    pub(super) invalidated: Vec<Reading>,
    /// Call parts by (message, part).
    pub(super) calls: HashMap<(Seq, u32), CallInfo, ByPlace>,
    /// Calls without a final result, by label.
    pub(super) open: HashMap<Label, BTreeSet<(Seq, u32)>>,
    pub(super) open_parts: BTreeSet<(Seq, u32)>,
    /// Calls that only synthetic results closed, by label: late real results still bind
    /// to them.
    pub(super) interrupted: HashMap<Label, BTreeSet<(Seq, u32)>>,
    /// Closed calls by label: the newest, for duplicate results.
    pub(super) closed: HashMap<Label, (Seq, u32)>,
    /// Per tool: the message with its newest final result, as an index into `messages`.
    pub(super) answered: HashMap<String, usize>,
    /// The filed model calls; iteration N is at N - 1.
    pub(super) sent: Vec<Sent>,
    /// Calls before those, in a fold that forgets.
    pub(super) calls_forgotten: u64,
    pub(super) reading: Option<ReturnInfo>,
    /// The first entry by which a message has other words than were said, here or in the source that
    /// is simulated.
    pub(super) parted: Option<Seq>,
    /// The specs of all strategies that ever visited.
    pub(super) strategies: Vec<String>,
    pub(super) visits: Vec<VisitInfo>,
    /// Per strategy: its visits that asked, as indices into `visits`.
    pub(super) visits_of: Vec<Vec<usize>>,
    /// Per strategy: its newest visit, as an index into `visits`.
    pub(super) newest_visit: Vec<usize>,
    /// Messages with a standing refusal, by strategy.
    pub(super) standing: Vec<BTreeSet<usize>>,
    /// Per strategy: what its newest visit went by. Derived, and may be absent.
    pub(super) memos: Vec<Option<Memo>>,
    /// Per strategy: what summarisers were asked.
    pub(super) questions: Vec<Questions>,
    /// The newest entry that changed the window.
    pub(super) changed_at: Option<Seq>,
    /// Configuration in force.
    pub(super) chain: Vec<String>,
    pub(super) settings: Vec<(Seq, Settings)>,
    /// The newest entry that says that words were destroyed.
    pub(super) redacted: Option<Seq>,
    pub(super) open_calls: Option<OpenCalls>,
    pub(super) consolidation: Option<String>,
    /// The newest consolidation or mark.
    pub(super) consolidated: Option<Consolidated>,
    /// The first person message.
    pub(super) first_person: Option<Seq>,
    /// The first person message of each run.
    pub(super) runs: Vec<Seq>,
    /// The person messages of the newest run.
    pub(super) request: Vec<usize>,
    /// Messages that were restored and may not leave before the next call.
    pub(super) restored: Vec<usize>,
    pub(super) run_open: bool,
    pub(super) unsettled: bool,
    /// The first entry of an unknown kind that changes windows.
    pub(super) unsupported: Option<Seq>,
    /// Idempotency keys: the first entry and how many entries the request wrote.
    pub(super) keys: Keys,
    pub(super) touched: Touched,
    /// Visits and edits that were undone, each with the newest edit that did.
    pub(super) undone: BTreeMap<Seq, Seq>,
    /// Stays that ended without a stand-in, for totals.
    pub(super) evictions: u64,
    /// Refusals ever listed.
    pub(super) refusals: u64,
}

impl Projection {
    /// The newest entry applied.
    #[must_use]
    pub const fn head(&self) -> Option<Fact> {
        self.head
    }

    /// The iteration that the next entry belongs to.
    #[must_use]
    pub fn next_iteration(&self) -> Iteration {
        let sent = u64::try_from(self.sent.len()).unwrap_or(u64::MAX);
        Iteration(sent.saturating_add(self.calls_forgotten).saturating_add(1))
    }

    /// Every message ever logged, ascending by id.
    #[must_use]
    pub fn messages(&self) -> &[MessageState] {
        &self.messages
    }

    /// A message.
    #[must_use]
    pub fn message(&self, id: MessageId) -> Option<&MessageState> {
        self.messages.get(self.index_of(id.seq())?)
    }

    pub(super) fn index_of(&self, seq: Seq) -> Option<usize> {
        let at = self.logged_before(seq);
        (self.seqs.get(at) == Some(&seq)).then_some(at)
    }

    /// How many messages were logged before an entry. Most that is asked for is recent, so the
    /// search widens from the end.
    pub(super) fn logged_before(&self, seq: Seq) -> usize {
        let mut width: usize = 1;
        loop {
            let from = self.seqs.len().saturating_sub(width);
            let recent = self.seqs.get(from..).unwrap_or_default();
            if from == 0 || recent.first().is_some_and(|first| *first < seq) {
                return from.saturating_add(recent.partition_point(|s| *s < seq));
            }
            width = width.saturating_mul(4);
        }
    }

    /// The positions of the messages from `first` to `last`. Most ranges name one message or a few.
    pub(super) fn logged_between(&self, first: Seq, last: Seq) -> Range<usize> {
        let from = self.logged_before(first);
        let rest = self.seqs.get(from..).unwrap_or_default();
        let mut width: usize = 1;
        while rest.get(width).is_some_and(|seq| *seq <= last) {
            width = width.saturating_mul(4);
        }
        let near = rest.get(..width).unwrap_or(rest);
        from..from.saturating_add(near.partition_point(|seq| *seq <= last))
    }

    /// The filed model calls; iteration N is at N - 1.
    #[must_use]
    pub fn sent(&self) -> &[Sent] {
        &self.sent
    }

    /// The iteration that entry `n` belongs to: 1 + the calls before it.
    #[must_use]
    pub fn iteration_of(&self, n: Seq) -> Iteration {
        let before = self.sent.partition_point(|s| s.fact.seq < n);
        Iteration(u64::try_from(before).unwrap_or(u64::MAX).saturating_add(1))
    }

    /// The call of an iteration.
    #[must_use]
    pub fn call(&self, iteration: Iteration) -> Option<&Sent> {
        self.sent
            .get(usize::try_from(iteration.0.checked_sub(1)?).ok()?)
    }

    /// The model call that this entry filed.
    #[must_use]
    pub fn call_filed_as(&self, seq: Seq) -> Option<&Sent> {
        let at = self.sent.binary_search_by_key(&seq, |s| s.fact.seq).ok()?;
        self.sent.get(at)
    }

    /// The specs of all strategies that ever visited.
    #[must_use]
    pub fn strategies(&self) -> &[String] {
        &self.strategies
    }

    /// Every visit.
    #[must_use]
    pub fn visits(&self) -> &[VisitInfo] {
        &self.visits
    }

    /// A strategy's newest visit, whether it could measure or not.
    #[must_use]
    pub fn newest_visit(&self, strategy: usize) -> Option<&VisitInfo> {
        self.visits.get(*self.newest_visit.get(strategy)?)
    }

    /// The `ordinal`-th of a strategy's visits that asked the groups.
    #[must_use]
    pub fn visit_of(&self, strategy: usize, ordinal: usize) -> Option<&VisitInfo> {
        self.visits
            .get(*self.visits_of.get(strategy)?.get(ordinal)?)
    }

    /// How often a strategy visited and asked the groups.
    #[must_use]
    pub fn visits_of(&self, strategy: usize) -> usize {
        self.visits_of.get(strategy).map_or(0, Vec::len)
    }

    /// How many of a strategy's visits that asked had been filed after entry `n`.
    #[must_use]
    pub fn visits_until(&self, strategy: usize, n: Seq) -> usize {
        let seq = |at: usize| self.visits.get(at).map_or(Seq(u64::MAX), |v| v.fact.seq);
        let visits = self.visits_of.get(strategy);
        visits.map_or(0, |v| v.partition_point(|at| seq(*at) <= n))
    }

    /// The configured chain of strategies.
    #[must_use]
    pub fn chain(&self) -> &[String] {
        &self.chain
    }

    /// The request settings in force and the entry that filed them.
    #[must_use]
    pub fn settings(&self) -> Option<&(Seq, Settings)> {
        self.settings.last()
    }

    /// The request settings in force after entry `n`.
    #[must_use]
    pub fn settings_at(&self, n: Seq) -> Option<&(Seq, Settings)> {
        self.settings.iter().rev().find(|(seq, _)| *seq <= n)
    }

    /// Messages of the window whose present content has no token count by this method. Where there
    /// are none, asking costs nothing.
    pub fn uncounted(&self, method: &str) -> impl Iterator<Item = MessageId> {
        let none = self.totals.all_counted_by(method, self.items.len());
        let items = self.items.iter().filter(move |_| !none);
        let messages = items.filter_map(|i| self.messages.get(i.index));
        messages.filter_map(move |m| {
            let count = m.form()?.skeleton.tokens.as_ref();
            count.is_none_or(|c| c.method != method).then_some(m.id)
        })
    }

    /// What happens to open tool calls.
    #[must_use]
    pub fn open_calls_policy(&self) -> OpenCalls {
        self.open_calls.unwrap_or(OpenCalls::Close)
    }

    /// The messages of the window that are not system envelope.
    pub fn outside_envelope(&self) -> impl Iterator<Item = MessageId> {
        let messages = self.items.iter().filter_map(|i| self.messages.get(i.index));
        messages.filter(|m| !self.in_envelope(m)).map(|m| m.id)
    }

    /// The result part (message, part) of the newest answered client call with this id.
    #[must_use]
    pub fn result_of_label(&self, id: &str) -> Option<(Seq, u32)> {
        let call = self.closed.get(&Label::new(false, Some(id), None))?;
        let (result, _) = self.calls.get(call)?.result?;
        let parts = &self
            .message(MessageId(result))?
            .forms
            .first()?
            .skeleton
            .parts;
        let at = parts.iter().position(|p| p.answers == Some(*call))?;
        Some((result, u32::try_from(at).ok()?))
    }

    /// Calls without a final result, in order.
    pub fn open_calls(&self) -> impl Iterator<Item = ((Seq, u32), &CallInfo)> {
        self.open_parts
            .iter()
            .filter_map(|key| Some((*key, self.calls.get(key)?)))
    }

    /// A call part.
    #[must_use]
    pub fn call_part(&self, message: Seq, part: u32) -> Option<&CallInfo> {
        self.calls.get(&(message, part))
    }

    /// The first person message of the newest run: it and later person messages are the request.
    #[must_use]
    pub fn run(&self) -> Option<Seq> {
        self.runs.last().copied()
    }

    /// The first person message of each run.
    #[must_use]
    pub fn runs(&self) -> &[Seq] {
        &self.runs
    }

    /// The first person message: instructions before it are the envelope.
    #[must_use]
    pub const fn first_person(&self) -> Option<Seq> {
        self.first_person
    }

    /// The first entry of an unknown kind that changes windows; windows from there on cannot be
    /// shown.
    #[must_use]
    pub const fn unsupported(&self) -> Option<Seq> {
        self.unsupported
    }

    /// What an idempotency key wrote: its first entry and how many.
    #[must_use]
    pub fn by_key(&self, key: &str) -> Option<(Seq, u32)> {
        self.keys.get(key)
    }

    /// A strategy's position in [`Projection::strategies`], if it ever visited.
    #[must_use]
    pub fn strategy_named(&self, spec: &str) -> Option<usize> {
        self.strategies.iter().position(|s| s == spec)
    }

    /// The reason a strategy's newest visit found for a message, while it stands.
    #[must_use]
    pub fn standing_refusal(&self, strategy: usize, message: &MessageState) -> Option<GroupReason> {
        let spans = message.refusals.iter().rev();
        spans
            .into_iter()
            .find(|r| r.strategy == strategy && r.last.is_none())
            .map(|r| r.reason)
    }

    /// The messages with a standing refusal by a strategy, ascending.
    pub fn standing(&self, strategy: usize) -> impl Iterator<Item = &MessageState> {
        let indices = self.standing.get(strategy).into_iter().flatten();
        indices.filter_map(|&i| self.messages.get(i))
    }

    /// How many stays in the window have ended without a stand-in.
    #[must_use]
    pub const fn evictions(&self) -> u64 {
        self.evictions
    }

    /// About how many bytes of memory it takes. Counted from lengths, so that asking costs nothing.
    #[must_use]
    pub fn bytes(&self) -> usize {
        // What an allocation takes beside what was asked for, and what maps leave free.
        const BESIDE: usize = 24;
        let of = |n: usize, each: usize| n.saturating_mul(each.saturating_add(BESIDE));
        let form = size_of::<Form>().saturating_add(size_of::<crate::log::PartSkeleton>());
        // A list that grew one by one has room for four; a group is a list and a place in another.
        let message = size_of::<MessageState>()
            .saturating_add(form)
            .saturating_add(size_of::<[Life; 4]>())
            .saturating_add(6 * BESIDE)
            .saturating_add(64);
        let call = size_of::<CallInfo>().saturating_add(size_of::<[Label; 3]>());
        let refusals = usize::try_from(self.refusals).unwrap_or(usize::MAX);
        [
            of(self.messages.len(), message),
            of(self.calls.len(), call),
            of(
                self.items.len(),
                size_of::<Item>().saturating_add(size_of::<Hash>()),
            ),
            of(self.sent.len(), size_of::<Sent>()),
            of(self.visits.len(), size_of::<VisitInfo>()),
            of(refusals, size_of::<RefusalSpan>()),
            of(self.keys.len(), BESIDE),
            of(self.undone.len(), size_of::<(Seq, Seq)>()),
            of(self.settings.len(), size_of::<(Seq, Settings)>()),
        ]
        .into_iter()
        .fold(0, usize::saturating_add)
    }

    /// How many message refusals were ever listed.
    #[must_use]
    pub const fn refusals(&self) -> u64 {
        self.refusals
    }

    /// The members of a message's group, ascending, whether in the window or not.
    #[must_use]
    pub fn group_of(&self, id: MessageId) -> Vec<MessageId> {
        self.members(id).map(|m| m.id).collect()
    }

    /// As [`Projection::group_of`], the messages themselves.
    pub fn members(&self, id: MessageId) -> impl Iterator<Item = &MessageState> {
        let index = self.index_of(id.seq());
        let members = index.map(|index| self.groups.members(index));
        let members = members.into_iter().flatten();
        members.filter_map(|&i| self.messages.get(i))
    }

    /// Supplies the token count of a message's present content where the log has none, or one by
    /// another method: derived from the words, so it may come from anywhere, and it changes no window.
    pub fn supply_count(&mut self, id: MessageId, count: Count) {
        let Some(index) = self.index_of(id.seq()) else {
            return;
        };
        let Some(message) = self.messages.get_mut(index) else {
            return;
        };
        let visible = message.visible();
        self.totals.swap(message, visible, |message| {
            if let Some(form) = message.forms.last_mut() {
                form.skeleton.tokens = Some(count);
            }
        });
    }

    /// Ids in ascending order as ranges: a range names every message between its ends.
    #[must_use]
    pub fn ranges<'a>(&self, ids: impl IntoIterator<Item = &'a MessageId>) -> Ranges {
        let mut out: Vec<(Seq, Seq)> = Vec::new();
        let mut previous: Option<usize> = None;
        for (index, id) in ids
            .into_iter()
            .filter_map(|id| Some((self.index_of(id.seq())?, id)))
        {
            let adjacent = previous.is_some_and(|p| p.checked_add(1) == Some(index));
            match out.last_mut() {
                Some(last) if adjacent => last.1 = id.seq(),
                _ => out.push((id.seq(), id.seq())),
            }
            previous = Some(index);
        }
        Ranges(out)
    }

    /// The messages that ranges name.
    #[must_use]
    pub fn ids_in(&self, ranges: &Ranges) -> Vec<MessageId> {
        self.messages_in(ranges).map(|m| m.id).collect()
    }

    /// As [`Projection::ids_in`], the messages themselves.
    pub fn messages_in(&self, ranges: &Ranges) -> impl Iterator<Item = &MessageState> {
        self.indices_in(ranges)
            .filter_map(|index| self.messages.get(index))
    }

    /// What became of a message by the newest entry: exactly one of the three.
    #[must_use]
    pub fn conservation(&self, id: MessageId) -> Option<Conservation> {
        let superseded = |end: &LifeEnd| end.reason == LeftReason::Superseded;
        if planted(Bug::SupersededIsGone) && self.message(id)?.absent().is_some_and(superseded) {
            return Some(Conservation::Gone);
        }
        self.conservation_at(id, self.head?.seq)
    }

    /// What had become of a message after entry `n`; `None` before it was logged.
    ///
    /// A message is covered while what stands for it is in the window or is covered itself; when a
    /// claim left without a stand-in, its sources are gone with it. A newer result of the same call
    /// stands for the synthetic one wherever it is: the group comes back without the latter.
    #[must_use]
    pub fn conservation_at(&self, id: MessageId, n: Seq) -> Option<Conservation> {
        let mut message = self.message(id).filter(|m| m.id.seq() <= n)?;
        let mut covered = false;
        // A log that was made up may let stand-ins stand for each other: then nothing does.
        for _ in 0..=self.messages.len() {
            if message.visible_at(n) {
                return Some(if covered {
                    Conservation::Covered
                } else {
                    Conservation::Visible
                });
            }
            let Some(end) = message.absent_at(n) else {
                break;
            };
            if end.reason == LeftReason::Superseded {
                return Some(Conservation::Covered);
            }
            let Some(stand_in) = end.stand_in.and_then(|s| self.message(s)) else {
                break;
            };
            if covered && planted(Bug::SecondSummaryDropsTheFirst) {
                break;
            }
            message = stand_in;
            covered = true;
        }
        Some(Conservation::Gone)
    }

    /// Whether a message belongs to the system envelope.
    #[must_use]
    pub fn in_envelope(&self, message: &MessageState) -> bool {
        let before = self.first_person.is_none_or(|p| message.id.seq() < p);
        before
            && message
                .forms
                .first()
                .is_some_and(|f| f.skeleton.role.is_instruction())
    }

    /// Whether a message belongs to the current request.
    #[must_use]
    pub fn in_request(&self, message: &MessageState) -> bool {
        if planted(Bug::SteeringMayLeave) {
            return self.run() == Some(message.id.seq());
        }
        message.author() == Author::Person && self.run().is_some_and(|r| message.id.seq() >= r)
    }
}
