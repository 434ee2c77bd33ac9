//! Snapshots: outlines as bytes, and when one is due. Where the snapshots of a log lie and what
//! they say follows from the log alone, so whoever folds it makes the same ones, and one that is
//! lost can be made again.

use std::collections::BTreeMap;

use crate::log::{Entry, Hash, Iteration, MessageId, Seq};
use crate::planted::{Bug, planted};

use super::outline::{Asked, Outline, Placed};
use super::state::Projection;

const VERSION: u8 = 1;

/// An outline as it is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// The hash of the entry after which it was taken: of another history, it is not used.
    pub hash: Hash,
    /// The outline.
    pub outline: Outline,
}

mod flag {
    pub(super) const PLACE: u8 = 1;
    pub(super) const FORM: u8 = 2;
    pub(super) const PAYLOAD: u8 = 4;
    pub(super) const ENTERED: u8 = 8;
    pub(super) const PINNED: u8 = 16;
    pub(super) const SYNTHETIC: u8 = 32;
}

fn put(out: &mut Vec<u8>, mut n: u64) {
    while let Some(more) = n.checked_shr(7).filter(|more| *more > 0) {
        out.push(low_byte(n) | 0x80);
        n = more;
    }
    out.push(low_byte(n));
}

fn low_byte(n: u64) -> u8 {
    u8::try_from(n & 0x7f).unwrap_or(0)
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// A cursor over what [`Snapshot::encode`] wrote; `None` where the bytes are no such thing.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn number(&mut self) -> Option<u64> {
        let mut n = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            n |= bits.checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(n);
            }
        }
        None
    }

    /// A number of things that take at least a byte each.
    fn count(&mut self) -> Option<u64> {
        let n = self.number()?;
        (n <= count(self.0.len())).then_some(n)
    }

    fn take(&mut self, n: u64) -> Option<&[u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(n).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    /// What [`put_seq`] wrote.
    fn seq(&mut self, to: &mut Option<Seq>) -> Option<()> {
        *to = self.number()?.checked_sub(1).map(Seq);
        Some(())
    }
}

fn put_seq(out: &mut Vec<u8>, seq: Option<Seq>) {
    put(out, seq.map_or(0, |s| s.0.saturating_add(1)));
}

impl Snapshot {
    /// The bytes it is kept as: about one for an ordinary message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let outline = &self.outline;
        let mut out = vec![VERSION];
        out.extend(self.hash.0);
        put_seq(&mut out, outline.at);
        put(&mut out, outline.iteration.0);
        put(&mut out, outline.calls);
        put_seq(&mut out, outline.settings);
        put_seq(&mut out, outline.redacted);
        put(&mut out, count(outline.asked.len()));
        for asked in &outline.asked {
            put(&mut out, count(asked.strategy.len()));
            out.extend(asked.strategy.as_bytes());
            put(&mut out, asked.visits);
            put(&mut out, asked.newest.0);
        }
        put_seq(&mut out, outline.touched.forgotten);
        put(&mut out, count(outline.touched.newest.len()));
        outline
            .touched
            .newest
            .iter()
            .for_each(|seq| put(&mut out, seq.0));
        let mut synthetic: BTreeMap<Seq, Vec<(Seq, u32)>> = BTreeMap::new();
        for (call, result) in &outline.synthetic {
            synthetic.entry(*result).or_default().push(*call);
        }
        put(&mut out, count(outline.items.len()));
        let mut before = 0;
        for item in outline.items.values() {
            let id = item.id.seq();
            let calls = synthetic.get(&id).map_or(&[][..], Vec::as_slice);
            put_item(&mut out, before, item, calls);
            before = id.0;
        }
        out
    }

    /// Reads what [`Self::encode`] wrote; `None` where the bytes are anything else.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut bytes = Bytes(bytes);
        if bytes.byte()? != VERSION {
            return None;
        }
        let hash = Hash(bytes.take(32)?.try_into().ok()?);
        let mut outline = Outline::default();
        bytes.seq(&mut outline.at)?;
        outline.iteration = Iteration(bytes.number()?);
        outline.calls = bytes.number()?;
        bytes.seq(&mut outline.settings)?;
        bytes.seq(&mut outline.redacted)?;
        for _ in 0..bytes.count()? {
            let length = bytes.number()?;
            outline.asked.push(Asked {
                strategy: std::str::from_utf8(bytes.take(length)?).ok()?.to_owned(),
                visits: bytes.number()?,
                newest: Seq(bytes.number()?),
            });
        }
        bytes.seq(&mut outline.touched.forgotten)?;
        for _ in 0..bytes.count()? {
            outline.touched.newest.push(Seq(bytes.number()?));
        }
        let mut items = Vec::new();
        let mut before = 0;
        for _ in 0..bytes.count()? {
            let (item, calls) = read_item(&mut bytes, before)?;
            let id = item.id.seq();
            outline
                .synthetic
                .extend(calls.into_iter().map(|call| (call, id)));
            before = id.0;
            items.push((item.id, item));
        }
        outline.items = items.into_iter().collect();
        bytes.0.is_empty().then_some(Self { hash, outline })
    }
}

/// Distances wrap, so that whatever a log says can be written.
fn put_item(out: &mut Vec<u8>, before: u64, item: &Placed, calls: &[(Seq, u32)]) {
    let id = item.id.seq().0;
    let set = |yes: bool, flag: u8| if yes { flag } else { 0 };
    let flags = set(item.place.0 != id, flag::PLACE)
        | set(item.form.0 != id, flag::FORM)
        | set(item.payload != 0, flag::PAYLOAD)
        | set(item.entered.0 != id, flag::ENTERED)
        | set(item.pinned, flag::PINNED)
        | set(!calls.is_empty(), flag::SYNTHETIC);
    let step = id.wrapping_sub(before);
    put(out, step.saturating_mul(2) | u64::from(flags != 0));
    if flags == 0 {
        return;
    }
    out.push(flags);
    if flags & flag::PLACE != 0 {
        put(out, id.wrapping_sub(item.place.0));
    }
    if flags & flag::FORM != 0 {
        put(out, item.form.0.wrapping_sub(id));
    }
    if flags & flag::PAYLOAD != 0 {
        put(out, u64::from(item.payload));
    }
    if flags & flag::ENTERED != 0 {
        put(out, item.entered.0.wrapping_sub(id));
    }
    if flags & flag::SYNTHETIC != 0 {
        put(out, count(calls.len()));
        for (message, part) in calls {
            put(out, id.wrapping_sub(message.0));
            put(out, u64::from(*part));
        }
    }
}

fn read_item(bytes: &mut Bytes<'_>, before: u64) -> Option<(Placed, Vec<(Seq, u32)>)> {
    let step = bytes.number()?;
    let id = before.checked_add(step >> 1)?;
    let flags = if step & 1 == 0 { 0 } else { bytes.byte()? };
    let mut item = Placed {
        place: Seq(id),
        id: MessageId(Seq(id)),
        form: Seq(id),
        payload: 0,
        entered: Seq(id),
        pinned: flags & flag::PINNED != 0,
    };
    if flags & flag::PLACE != 0 {
        item.place = Seq(id.wrapping_sub(bytes.number()?));
    }
    if flags & flag::FORM != 0 {
        item.form = Seq(id.wrapping_add(bytes.number()?));
    }
    if flags & flag::PAYLOAD != 0 {
        item.payload = u32::try_from(bytes.number()?).ok()?;
    }
    if flags & flag::ENTERED != 0 {
        item.entered = Seq(id.wrapping_add(bytes.number()?));
    }
    let mut calls = Vec::new();
    if flags & flag::SYNTHETIC != 0 {
        for _ in 0..bytes.count()? {
            let message = Seq(id.wrapping_sub(bytes.number()?));
            calls.push((message, u32::try_from(bytes.number()?).ok()?));
        }
    }
    Some((item, calls))
}

/// A snapshot to keep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken {
    /// The entry after which it was taken.
    pub at: Seq,
    /// [`Snapshot::encode`] of it.
    pub bytes: Vec<u8>,
}

/// When snapshots of a log are due. Their cost is counted against the entries' bytes, so that all
/// of them together stay below a sixteenth of the log, whatever it holds.
#[derive(Clone, Debug)]
pub struct Pace {
    /// At least so many entries lie between two, unless something came back.
    entries_min: u64,
    /// Entry bytes that one byte of a snapshot has to be earned with; of the regular ones and of
    /// all.
    regular: u64,
    least: u64,
    /// Since the last one.
    entries: u64,
    bytes: u64,
    /// Entry bytes that no snapshot was paid with.
    earned: u64,
    /// About how many bytes the next one takes.
    estimate: u64,
    /// Something came back that an outline cannot follow, and no snapshot was taken since.
    owed: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self::new(128, 24, 16)
    }
}

impl Pace {
    /// What a snapshot takes in a store beside its own bytes: its key and its checksums.
    const BESIDE: u64 = 64;

    const fn new(entries_min: u64, regular: u64, least: u64) -> Self {
        Self {
            entries_min,
            regular,
            least,
            entries: 0,
            bytes: 0,
            earned: 0,
            estimate: 0,
            owed: false,
        }
    }

    /// Snapshots after every so many entries, whatever they cost: for looking at every way to read
    /// a short log.
    #[must_use]
    pub const fn every(entries: u64) -> Self {
        Self::new(entries, 0, 0)
    }

    /// Passes an entry that the projection has applied. Gives the snapshot that is due after it.
    pub fn pass(
        &mut self,
        entry: &Entry,
        hash: Hash,
        bytes: usize,
        p: &Projection,
    ) -> Option<Taken> {
        let bytes = count(bytes);
        self.entries = self.entries.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        self.earned = self.earned.saturating_add(bytes);
        let back = |c: &crate::log::Change| !c.entered.is_empty() || !c.reverted.is_empty();
        self.owed |= entry.body.change().is_some_and(back);
        let window = p.window_len().saturating_add(64);
        let affords = |p: u64, have: u64| have >= p.saturating_mul(self.estimate.max(window));
        let due = self.entries >= self.entries_min && affords(self.regular, self.bytes);
        let owed = self.owed && affords(self.least, self.earned);
        // Behind an entry that changes windows in an unknown way there is nothing to show.
        if !(due || owed) || p.unsupported().is_some() {
            return None;
        }
        let mut outline = Outline::of(p);
        if planted(Bug::SnapshotIsOneEntryLate) {
            outline.at = Some(Seq(entry.seq.0.checked_sub(1)?));
            return self.take(entry.prev, outline);
        }
        self.take(hash, outline)
    }

    fn take(&mut self, hash: Hash, outline: Outline) -> Option<Taken> {
        let at = outline.at?;
        let bytes = Snapshot { hash, outline }.encode();
        let size = count(bytes.len()).saturating_add(Self::BESIDE);
        self.estimate = size;
        let price = size.saturating_mul(self.least);
        let regular = self.bytes >= size.saturating_mul(self.regular);
        if self.earned < price || !(regular || self.owed) {
            return None;
        }
        self.earned = self.earned.saturating_sub(price);
        self.entries = 0;
        self.bytes = 0;
        self.owed = false;
        Some(Taken { at, bytes })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn placed() -> impl Strategy<Value = Placed> {
        let near = prop_oneof![3 => Just(0_u64), 1 => 0..u64::from(u32::MAX)];
        (
            1_u64..1 << 40,
            near.clone(),
            near.clone(),
            0_u32..3,
            near,
            any::<bool>(),
        )
            .prop_map(|(id, place, form, payload, entered, pinned)| Placed {
                place: Seq(id.wrapping_sub(place)),
                id: MessageId(Seq(id)),
                form: Seq(id.wrapping_add(form)),
                payload,
                entered: Seq(id.wrapping_add(entered)),
                pinned,
            })
    }

    fn outlines() -> impl Strategy<Value = Outline> {
        let seq = || prop::option::of((0_u64..1 << 50).prop_map(Seq));
        let touched = prop::collection::vec(any::<u32>(), 0..5);
        let asked = prop::collection::vec((".{0,9}", any::<u32>()), 0..3);
        let items = prop::collection::vec(placed(), 0..20);
        (seq(), seq(), any::<u32>(), asked, touched, items).prop_map(
            |(at, settings, calls, asked, touched, items)| {
                let mut outline = Outline {
                    at,
                    settings,
                    calls: calls.into(),
                    iteration: Iteration(u64::from(calls) + 1),
                    ..Outline::default()
                };
                outline.redacted = at.filter(|at| Some(*at) > settings);
                outline.touched.forgotten = settings;
                outline.touched.newest = touched.into_iter().map(|n| Seq(n.into())).collect();
                outline.asked = (asked.into_iter())
                    .map(|(strategy, n)| Asked {
                        strategy,
                        visits: n.into(),
                        newest: Seq(n.into()),
                    })
                    .collect();
                for (part, item) in (0_u32..).zip(items) {
                    outline.items.insert(item.id, item);
                    if item.pinned {
                        let call = (Seq(item.id.seq().0 / 2), part);
                        outline.synthetic.insert(call, item.id.seq());
                    }
                }
                outline
            },
        )
    }

    proptest! {
        #[test]
        fn a_snapshot_reads_back_as_it_was_and_cut_short_as_nothing(
            outline in outlines(), hash in any::<[u8; 32]>(), cut in any::<prop::sample::Index>()
        ) {
            let snapshot = Snapshot { hash: Hash(hash), outline };
            let bytes = snapshot.encode();
            prop_assert_eq!(Snapshot::decode(&bytes[..cut.index(bytes.len())]), None);
            prop_assert_eq!(Snapshot::decode(&bytes), Some(snapshot));
        }

        #[test]
        fn no_bytes_stop_the_reader(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Snapshot::decode(&bytes);
            bytes.insert(0, VERSION);
            if let Some(read) = Snapshot::decode(&bytes) {
                prop_assert!(read.outline.len() <= bytes.len());
            }
        }
    }
}
