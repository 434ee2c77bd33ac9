//! Windows of the past: from the newest snapshot before a moment and the entries behind it, without
//! folding the log. Snapshots are derived data: one that is missing, damaged or of another history
//! is passed over, and where none serves, the log is folded and they are made again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use crate::log::{
    Body, Commitment, ConversationId, Entry, Hash, Head, Iteration, RequestReason, Seq, Skeleton,
    StandInKind, entry,
};
use crate::planted::{Bug, planted};
use crate::window::{Item, Outline, Placed, Snapshot, Step, Taken, Window};

use super::conversation::{Conversation, Store};
use super::error::Error;
use super::known::Folded;

/// What the names of snapshots begin with; the entry's number follows, in 16 hexadecimal digits.
pub(super) const SNAPSHOT: &str = "window/";
/// Entries are read on through gaps up to so many that are not asked for.
const GAP: u64 = 16;
/// As many items are read at a time, so that a store finds their words where it found their entries.
const AT_ONCE: usize = 64;
/// How far from a guess a call is looked for at first.
const REACH: u64 = 16;
/// So many entries behind the newest snapshot, snapshots are taken to be missing where their bytes
/// are so many times those of the next.
const TAIL_ENTRIES: u64 = 4096;
const TAIL_TIMES: usize = 400;

pub(super) fn snapshot_name(at: Seq) -> String {
    format!("{SNAPSHOT}{:016x}", at.0)
}

pub(super) fn snapshot_at(name: &str) -> Option<Seq> {
    let digits = name.strip_prefix(SNAPSHOT)?;
    u64::from_str_radix(digits, 16).ok().map(Seq)
}

impl Store {
    /// Keeps snapshots. One that cannot be kept is made again when it is missed.
    pub(super) fn keep(&self, id: ConversationId, taken: &[Taken]) {
        for snapshot in taken {
            let name = snapshot_name(snapshot.at);
            let _ = self.backend().put_derived(id, &name, &snapshot.bytes);
        }
    }

    /// The newest snapshot of this log's own history that was taken at entry `n` or before it. One
    /// that cannot be read is none.
    pub(super) fn snapshot_before(&self, id: ConversationId, n: Seq) -> Option<Snapshot> {
        let mut until = n;
        loop {
            let name = snapshot_name(until);
            let found = self.backend().derived_before(id, SNAPSHOT, &name);
            let (name, bytes) = found.ok()??;
            let at = snapshot_at(&name)?;
            let read = Snapshot::decode(&bytes).filter(|s| s.outline.at == Some(at));
            if let Some(snapshot) = read
                && (self.hash_of(id, at) == Some(snapshot.hash)
                    || planted(Bug::SnapshotPastItsForkPoint)
                        && self.is_an_ancestors(id, &snapshot))
            {
                return Some(snapshot);
            }
            until = Seq(at.0.checked_sub(1)?);
        }
    }

    /// Whether a snapshot is one that a log this one was forked from took, at whatever place.
    fn is_an_ancestors(&self, id: ConversationId, snapshot: &Snapshot) -> bool {
        let Ok(Some(line)) = self.line(id) else {
            return false;
        };
        let hash = |owner| self.hash_of(owner, snapshot.outline.at?);
        line.ancestors()
            .any(|(owner, _)| hash(owner) == Some(snapshot.hash))
    }

    pub(super) fn hash_of(&self, id: ConversationId, seq: Seq) -> Option<Hash> {
        let mut found = None;
        let read = self.entries(id, seq, seq, &mut |sealed| {
            found = Some(sealed.hash);
            ControlFlow::Break(())
        });
        read.ok().and(found)
    }
}

/// An entry that does not stand behind the one before it, or that the one behind it does not name.
pub(crate) fn unchained(conversation: ConversationId, seq: Seq) -> Error {
    Error::DamagedEntry {
        conversation,
        seq,
        reason: "it does not hang together with the entry beside it".to_owned(),
    }
}

impl Conversation {
    /// The window now.
    ///
    /// # Errors
    /// `unsupported-entry` when the log holds an unknown kind that changes windows.
    pub fn window(&self) -> Result<Window, Error> {
        if let Some(mut state) = self.held() {
            supported(state.projection.unsupported(), state.head.map(|h| h.seq))?;
            state.projection.settle(); // so that what is hashed now is kept
            return Ok(state.projection.window());
        }
        let head = self.head()?.map_or(Seq(0), |h| h.seq);
        self.window_of(&self.outline_after(head)?)
    }

    /// The window after entry `n`.
    ///
    /// # Errors
    /// `range-out-of-bounds` beyond the head; `unsupported-entry` behind an unknown kind that
    /// changes windows.
    pub fn window_after(&self, n: Seq) -> Result<Window, Error> {
        if let Some(state) = self.held() {
            within(n, state.head)?;
            supported(state.projection.unsupported(), Some(n))?;
            return Ok(state.projection.window_at(n));
        }
        self.window_of(&self.outline_after(n)?)
    }

    /// The window that a call was sent.
    ///
    /// # Errors
    /// `range-out-of-bounds` when there was no such call.
    pub fn window_at(&self, iteration: Iteration) -> Result<Window, Error> {
        self.window_after(self.call_at(iteration)?)
    }

    /// The entry that filed a call.
    ///
    /// # Errors
    /// `range-out-of-bounds` when there was no such call.
    pub fn call_at(&self, iteration: Iteration) -> Result<Seq, Error> {
        match self.call_filed(iteration)? {
            Some(seq) => Ok(seq),
            None => {
                let calls = self.calls()?;
                let detail = format!("there is no {iteration}; the log has {calls} calls");
                Err(Error::refused(RequestReason::RangeOutOfBounds, detail))
            }
        }
    }

    /// The entry that filed a call, if there was such a call: found between entries by their
    /// iteration.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn call_filed(&self, iteration: Iteration) -> Result<Option<Seq>, Error> {
        if let Some(state) = self.held() {
            return Ok(state.projection.call(iteration).map(|s| s.fact.seq));
        }
        let Some(head) = self.head()? else {
            return Ok(None);
        };
        // What every log begins with is known, and need not be read from a far end of it.
        let mut first = Point {
            seq: Seq(0),
            iteration: Iteration(1),
            is_call: false,
        };
        let mut last = Point::of(&self.newest(head)?);
        if last.iteration < iteration || iteration < first.iteration {
            return Ok(None);
        }
        // `first` is of the iteration or before it; what follows `last` is not asked about. In turn a guess
        // and a look beside what was seen last: halves of a long log are far from each other on the disk.
        let (mut guess, mut reach, mut is_first) = (true, REACH, true);
        while last.iteration > iteration && first.seq.next() < last.seq {
            let room = last.seq.0.saturating_sub(first.seq.0);
            let beside = reach.min(room / 2);
            let step = match (guess, is_first) {
                (true, _) => share(&first, &last, iteration),
                (false, true) => beside,
                (false, false) => room.saturating_sub(beside),
            };
            let step = step.clamp(1, room.saturating_sub(1).max(1));
            let point = Point::of(&self.entry(Seq(first.seq.0.saturating_add(step)))?);
            if !guess {
                reach = reach.saturating_mul(2);
            }
            guess = !guess;
            is_first = point.iteration <= iteration;
            *(if is_first { &mut first } else { &mut last }) = point;
        }
        let found = if last.iteration <= iteration {
            last
        } else {
            first
        };
        let filed = found.iteration == iteration && found.is_call;
        Ok(filed.then_some(found.seq))
    }

    /// How many calls were filed.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn calls(&self) -> Result<u64, Error> {
        if let Some(state) = self.held() {
            return Ok(state.projection.next_iteration().0.saturating_sub(1));
        }
        let Some(head) = self.head()? else {
            return Ok(0);
        };
        let newest = self.newest(head)?;
        let filed = u64::from(matches!(newest.body, Body::Called(_)));
        let before = newest.iteration.0.saturating_sub(1);
        Ok(before.saturating_add(filed))
    }

    /// The entry that the head record names.
    fn newest(&self, head: Head) -> Result<Entry, Error> {
        if self.store().hash_of(self.id(), head.seq) != Some(head.hash) {
            return Err(unchained(self.id(), head.seq));
        }
        self.entry(head.seq)
    }

    /// Which messages the window held after entry `n`: without words and digests, so it is found
    /// fast in a log of any length.
    ///
    /// # Errors
    /// `range-out-of-bounds` beyond the head; `unsupported-entry` behind an unknown kind that
    /// changes windows; a failure where the log is damaged.
    pub fn outline_after(&self, n: Seq) -> Result<Outline, Error> {
        let head = self.head()?;
        within(n, head)?;
        let outline = self.followed(n, head)?;
        supported(outline.unsupported, Some(n))?;
        Ok(outline)
    }

    /// The same of an entry that this handle need not have seen.
    pub(super) fn outline_stored(&self, n: Seq) -> Result<Outline, Error> {
        let head = self.store().backend().head(self.id())?;
        within(n, head)?;
        let outline = self.followed(n, head)?;
        supported(outline.unsupported, Some(n))?;
        Ok(outline)
    }

    /// Which messages the window of a call held.
    ///
    /// # Errors
    /// `range-out-of-bounds` when there was no such call, and as [`Conversation::outline_after`].
    pub fn outline_at(&self, iteration: Iteration) -> Result<Outline, Error> {
        self.outline_after(self.call_at(iteration)?)
    }

    fn followed(&self, n: Seq, head: Option<Head>) -> Result<Outline, Error> {
        let snapshot = self.store().snapshot_before(self.id(), n);
        let (mut outline, mut newest) = match snapshot {
            Some(Snapshot { hash, outline }) => {
                let at = outline.at.map(|seq| Head { seq, hash });
                (outline, at)
            }
            None => (Outline::default(), None),
        };
        let from = newest.map_or(Seq(0), |h| h.seq.next());
        let (mut entries, mut bytes) = (0_u64, 0_usize);
        let (mut clear, mut failed) = (true, None);
        let mut look = |seq| self.entry(seq).map(Some);
        // One entry more: it names the last one's hash.
        let to = n.next();
        self.store().entries(self.id(), from, to, &mut |sealed| {
            let prev = newest.map_or(Hash::ZERO, |h: Head| h.hash);
            if sealed.entry.prev != prev || !self.store().belongs(self.id(), &sealed.entry) {
                failed = Some(unchained(self.id(), sealed.entry.seq));
                return ControlFlow::Break(());
            }
            if sealed.entry.seq > n {
                return ControlFlow::Break(());
            }
            newest = Some(sealed.head());
            entries = entries.saturating_add(1);
            bytes = bytes.saturating_add(sealed.bytes.len());
            match outline.apply(&sealed.entry, &mut look) {
                Ok(Step::Taken) => return ControlFlow::Continue(()),
                Ok(Step::Unclear) => clear = false,
                Err(error) => failed = Some(error),
            }
            ControlFlow::Break(())
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        if head.is_some_and(|head| head.seq == n && newest != Some(head)) && clear {
            return Err(unchained(self.id(), n));
        }
        let hash = newest.map_or(Hash::ZERO, |h| h.hash);
        let overdue = |outline: &Outline| {
            let outline = outline.clone();
            let next = Snapshot { hash, outline }.encode().len();
            entries > TAIL_ENTRIES && bytes > next.saturating_mul(TAIL_TIMES)
        };
        if clear && outline.at == Some(n) && !overdue(&outline) {
            return Ok(outline);
        }
        self.folded(n)
    }

    /// Folds the log and keeps every snapshot that is due and missing.
    ///
    /// # Errors
    /// When the log is damaged, or cannot be read.
    pub fn take_snapshots(&self) -> Result<(), Error> {
        let head = self.head()?.map_or(Seq(0), |h| h.seq);
        self.folded(head).map(drop)
    }

    /// The outline by folding the log up to there; missing snapshots are made on the way.
    fn folded(&self, n: Seq) -> Result<Outline, Error> {
        let (store, id) = (self.store(), self.id());
        let mut taken = Vec::new();
        let folded = Folded::read(store, id, n, &mut |snapshot| taken.push(snapshot))?;
        if folded.newest.map(|h| h.seq) != Some(n) {
            let first_bad = folded.newest.map_or(Seq(0), |h| h.seq.next());
            return Err(unchained(id, first_bad));
        }
        taken.retain(|snapshot| {
            let held = store.backend().derived(id, &snapshot_name(snapshot.at));
            !held.is_ok_and(|held| held.as_ref() == Some(&snapshot.bytes))
        });
        store.keep(id, &taken);
        Ok(Outline::of(&folded.projection))
    }

    fn window_of(&self, outline: &Outline) -> Result<Window, Error> {
        let mut items = Vec::with_capacity(outline.len());
        self.each_item(&outline.items(), &mut |placed, entries| {
            let content = entries.form(placed).map(|(_, content)| content);
            let content = content.ok_or_else(|| entries.lost(placed.form))?;
            let Placed {
                place, id, form, ..
            } = *placed;
            items.push(Item::new(place, id, form, content));
            Ok(())
        })?;
        Ok(Window::new(outline.at, items))
    }

    /// Shows the items with the entries that say what they are: the one that introduced each, the one
    /// that gave its content, the one by which it came into the window.
    pub(crate) fn each_item(
        &self,
        items: &[Placed],
        show: &mut dyn FnMut(&Placed, &ItemEntries) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for some in items.chunks(AT_ONCE) {
            let seqs = some.iter().flat_map(|i| [i.id.seq(), i.form, i.entered]);
            let entries = ItemEntries {
                conversation: self.id(),
                entries: self.some_entries(&seqs.collect())?,
            };
            some.iter().try_for_each(|item| show(item, &entries))?;
        }
        Ok(())
    }

    /// Entries by their numbers, read in as few scans as there are gaps. Each is believed when the
    /// one behind it names its hash.
    fn some_entries(&self, wanted: &BTreeSet<Seq>) -> Result<BTreeMap<Seq, Entry>, Error> {
        let mut found = BTreeMap::new();
        let mut seqs = wanted.iter().copied().peekable();
        while let Some(first) = seqs.next() {
            let mut last = first;
            while let Some(next) = seqs.next_if(|s| s.0.saturating_sub(last.0) <= GAP) {
                last = next;
            }
            self.scan(first, last, wanted, &mut found)?;
        }
        Ok(found)
    }

    fn scan(
        &self,
        first: Seq,
        last: Seq,
        wanted: &BTreeSet<Seq>,
        found: &mut BTreeMap<Seq, Entry>,
    ) -> Result<(), Error> {
        let id = self.id();
        let mut before: Option<(Seq, Hash)> = None;
        let mut failed = None;
        let mut show = |seq: Seq, bytes: &[u8]| -> Result<(), Error> {
            if let Some((seq, hash)) = before.take()
                && entry::prev_of(bytes) != Some(hash)
            {
                return Err(unchained(id, seq));
            }
            if seq > last || !wanted.contains(&seq) {
                return Ok(());
            }
            let (entry, hash) = entry::open_hashed(bytes).map_err(|error| Error::DamagedEntry {
                conversation: id,
                seq,
                reason: error.to_string(),
            })?;
            if entry.seq != seq || !self.store().belongs(id, &entry) {
                return Err(unchained(id, seq));
            }
            before = Some((seq, hash));
            found.insert(seq, entry);
            Ok(())
        };
        let backend = self.store().backend();
        backend.entries(id, first, last.next(), &mut |seq, bytes| {
            failed = show(seq, bytes).err();
            if failed.is_some() || seq > last {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        failed.map_or(Ok(()), Err)
    }
}

/// The entries that say what some items of a window are.
pub(crate) struct ItemEntries {
    conversation: ConversationId,
    entries: BTreeMap<Seq, Entry>,
}

impl ItemEntries {
    /// An entry that was asked for.
    ///
    /// # Errors
    /// When it is missing.
    pub(crate) fn get(&self, seq: Seq) -> Result<&Entry, Error> {
        self.entries.get(&seq).ok_or_else(|| self.lost(seq))
    }

    pub(crate) fn lost(&self, seq: Seq) -> Error {
        Error::DamagedEntry {
            conversation: self.conversation,
            seq,
            reason: "it is missing, or does not hold what a window shows of it".to_owned(),
        }
    }

    /// The content in force, without its words.
    pub(crate) fn form(&self, item: &Placed) -> Option<(&Skeleton, Commitment)> {
        let body = &self.entries.get(&item.form)?.body;
        if let Body::Appended(a) = body {
            return Some((&a.skeleton, a.content));
        }
        let at = usize::try_from(item.payload).ok()?;
        let stand_in = body.change()?.stand_ins.get(at)?;
        Some((&stand_in.skeleton, stand_in.content))
    }

    /// The first content, whose edges the message keeps; what it continues and shares a source with.
    pub(crate) fn first(&self, item: &Placed) -> Option<(&Skeleton, Option<Seq>, Option<Seq>)> {
        let body = &self.entries.get(&item.id.seq())?.body;
        if let Body::Appended(a) = body {
            return Some((&a.skeleton, a.continues, a.same_source));
        }
        let mut stand_ins = body.change()?.stand_ins.iter();
        let own = stand_ins.find(|s| s.kind != StandInKind::Form)?;
        Some((&own.skeleton, None, None))
    }
}

/// What is asked of an entry in the search for a call.
struct Point {
    seq: Seq,
    iteration: Iteration,
    is_call: bool,
}

impl Point {
    fn of(entry: &Entry) -> Self {
        Self {
            seq: entry.seq,
            iteration: entry.iteration,
            is_call: matches!(entry.body, Body::Called(_)),
        }
    }
}

/// How far behind one entry the end of an iteration is if calls come evenly up to another.
fn share(first: &Point, last: &Point, iteration: Iteration) -> u64 {
    let room = last.seq.0.saturating_sub(first.seq.0);
    let between = last.iteration.0.saturating_sub(first.iteration.0);
    let calls = iteration.0.saturating_sub(first.iteration.0);
    let [calls, between] = [calls, between].map(|n| u128::from(n.saturating_add(1)));
    let share = u128::from(room).saturating_mul(calls);
    let share = share.checked_div(between).unwrap_or(0);
    u64::try_from(share).unwrap_or(u64::MAX)
}

fn within(n: Seq, head: Option<Head>) -> Result<(), Error> {
    let head = head.map_or(Seq(0), |h| h.seq);
    if n > head {
        let detail = format!("{n} is beyond the head, {head}");
        return Err(Error::refused(RequestReason::RangeOutOfBounds, detail));
    }
    Ok(())
}

fn supported(unsupported: Option<Seq>, n: Option<Seq>) -> Result<(), Error> {
    match unsupported {
        Some(seq) if Some(seq) <= n => Err(Error::UnsupportedEntry { seq }),
        _ => Ok(()),
    }
}
