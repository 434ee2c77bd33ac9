//! `verify`: does the log hang together? Chain, payloads, windows, laws; and what that cannot show.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::mpsc;
use std::thread;

use serde::Serialize;

use crate::engine::{Error, Store};
use crate::log::{Body, Entry, Hash, Head, Kind, Provenance, Redacted, Seq};
use crate::store::{Backend, Listed, StoreError};
use crate::window::Passing;

use super::chain::{Chain, Link, Lot, Payloads, Reader};
use super::checkpoint::{Held, NONE_KEPT};
use super::laws::{LAWS, Laws};

/// How many lots of entries may have been read and wait to be folded.
const AHEAD: usize = 4;

/// Recorded windows against replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Windows {
    /// Calls that went through us.
    pub recorded: u64,
    /// Calls read from a source.
    pub inferred: u64,
    /// Calls of a replay through strategies.
    pub simulated: u64,
    /// Calls whose recorded digest equals the replayed one.
    pub equal: u64,
}

/// The result for one conversation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Verified {
    /// `ctxlog.verify/1`.
    pub schema: &'static str,
    /// The conversation's name.
    pub conversation: String,
    /// Whether all holds.
    pub ok: bool,
    /// Entries that were read and hang together.
    pub entries: u64,
    /// `ok`, or where the chain breaks and how.
    pub chain: String,
    /// Payloads against their commitments.
    pub payloads: Payloads,
    /// Recorded digests against replay.
    pub windows: Windows,
    /// Each law: `ok`, or `broken at s:N`.
    pub laws: BTreeMap<&'static str, String>,
    /// What checkpoints kept elsewhere say of it; `None` where none was given.
    pub checkpoint: Option<Held>,
    /// Entries of a source that took envelope or request; no law binds them.
    pub inferred_exceptions: u64,
    /// What no check here can show.
    pub not_covered: Vec<String>,
    /// The first bad entry.
    pub first_bad: Option<Seq>,
    /// What is wrong, in order of discovery.
    pub problems: Vec<String>,
    /// The head the log was read up to.
    pub head: Option<Head>,
}

/// Logs of fewer entries are verified before other threads have begun to help.
const LONG: u64 = 4_096;

/// Who does the work on a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hands {
    /// This thread alone.
    One,
    /// One thread reads, one hashes, this one checks the chain and folds: none is far ahead of another.
    Three,
}

impl Hands {
    fn of(recorded: Head) -> Self {
        if recorded.seq.0 < LONG {
            Self::One
        } else {
            Self::Three
        }
    }
}

/// Verifies one conversation. `progress` hears how many entries are done, and of how many.
///
/// The fold forgets what left the window, so that the memory this takes is that of the window. A log
/// that names something again that was forgotten is read once more, and that is remembered then.
///
/// # Errors
/// When the store cannot be read at all; damage is in the answer.
pub fn verify(
    store: &Store,
    listed: &Listed,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Verified, Error> {
    verify_by(None, store, listed, progress)
}

/// The same, by so many hands; by as many as its length asks for where nobody says.
pub(super) fn verify_by(
    hands: Option<Hands>,
    store: &Store,
    listed: &Listed,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Verified, Error> {
    let mut remember = BTreeSet::new();
    loop {
        let state = Passing::default().remembering(remember.clone());
        let mut check = Check::new(store, listed, state);
        let head = check.pass(hands, store.backend(), progress)?;
        let named = check.state.named();
        if named.is_empty() {
            check.destroyed.ask_forks(store, listed);
            return Ok(check.finish(head));
        }
        remember.extend(named);
    }
}

fn damaged_seq(error: &StoreError) -> Option<Seq> {
    match error {
        StoreError::Damaged { seq, .. } => *seq,
        _ => None,
    }
}

struct Check<'a> {
    listed: &'a Listed,
    state: Passing,
    laws: Laws,
    chain: Chain,
    /// Where the chain ends before its head record.
    chain_broken: Option<String>,
    /// Whether the store failed to show the whole log.
    broken: bool,
    payloads: Payloads,
    destroyed: Destroyed,
    windows: Windows,
    first_bad: Option<Seq>,
    problems: Vec<String>,
    entries: u64,
}

impl<'a> Check<'a> {
    fn new(store: &Store, listed: &'a Listed, state: Passing) -> Self {
        Self {
            listed,
            state,
            laws: Laws::default(),
            chain: Chain::of(store, listed.conversation),
            chain_broken: None,
            broken: false,
            payloads: Payloads::default(),
            destroyed: Destroyed::default(),
            windows: Windows::default(),
            first_bad: None,
            problems: Vec::new(),
            entries: 0,
        }
    }

    /// Goes through the log once; gives the head it had.
    fn pass(
        &mut self,
        hands: Option<Hands>,
        backend: &dyn Backend,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Option<Head>, Error> {
        let conversation = self.listed.conversation;
        for problem in backend.check_beside(self.listed)? {
            self.damage(&problem);
        }
        let head = match backend.head(conversation) {
            Ok(head) => head,
            Err(error) => {
                self.damage(&error);
                None
            }
        };
        if let Some(head) = head {
            let hands = hands.unwrap_or_else(|| Hands::of(head));
            let read = match hands {
                Hands::One => self.read(backend, head, progress),
                Hands::Three => self.read_ahead(backend, head, progress)?,
            };
            self.broken = read.is_err();
            if self.chain_broken.is_none() {
                self.ends(head, read);
            }
        }
        if self.broken {
            // Reading ended at the first damage; this tells of the rest.
            for problem in backend.check(Some(conversation))? {
                self.damage(&problem);
            }
        }
        self.laws.at_end(self.state.state());
        Ok(head)
    }

    fn bad(&mut self, seq: Option<Seq>, what: String) {
        self.first_bad = match (self.first_bad, seq) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        if !self.problems.contains(&what) {
            self.problems.push(what);
        }
    }

    fn damage(&mut self, error: &StoreError) {
        self.bad(damaged_seq(error), error.to_string());
    }

    /// Folds the log up to its head record.
    fn read(
        &mut self,
        backend: &dyn Backend,
        recorded: Head,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), StoreError> {
        let reader = Reader::new(backend, self.listed.conversation, true);
        reader.read(recorded.seq, &mut |mut lot| {
            self.lot(&mut lot, recorded, progress);
            lot
        })
    }

    /// The same, with two more threads. Lots go round, so that each thread frees what it took: that is
    /// a quarter of the work.
    fn read_ahead(
        &mut self,
        backend: &dyn Backend,
        recorded: Head,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Result<(), StoreError>, Error> {
        let (give_back, used) = mpsc::channel();
        let reader = Reader::new(backend, self.listed.conversation, false);
        let (give, lots) = mpsc::sync_channel::<Lot>(AHEAD);
        let (give_hashed, hashed) = mpsc::sync_channel::<Lot>(AHEAD);
        // Whoever no longer listens to another has ended by a panic, which tells more.
        let hash = move || {
            for mut lot in lots {
                lot.hash();
                let _ = give_hashed.send(lot);
            }
        };
        let read = move || {
            reader.read(recorded.seq, &mut |lot| {
                let _ = give.send(lot);
                used.try_recv().unwrap_or_default()
            })
        };
        let read = thread::scope(|scope| {
            let named = |name: &str| thread::Builder::new().name(name.to_owned());
            named("ctxlog-hash").spawn_scoped(scope, hash)?;
            let reader = named("ctxlog-read").spawn_scoped(scope, read)?;
            for mut lot in hashed {
                self.lot(&mut lot, recorded, progress);
                let _ = give_back.send(lot); // the last ones are not needed any more
            }
            Ok(reader.join())
        });
        let read = read.map_err(|source| StoreError::Io {
            what: "starting a thread to verify".into(),
            source,
        })?;
        Ok(read.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }

    fn lot(&mut self, lot: &mut Lot, recorded: Head, progress: &mut dyn FnMut(u64, u64)) {
        let total = recorded.seq.0.saturating_add(1);
        for link in &mut lot.links {
            progress(link.seq.0, total);
            self.link(link);
        }
    }

    /// The end of what was read: is it the end of the log?
    fn ends(&mut self, recorded: Head, read: Result<(), StoreError>) {
        let next = self.chain.next();
        if let Err(error) = read {
            let seq = damaged_seq(&error).unwrap_or(next);
            return self.break_chain(seq, error.to_string());
        }
        if self.chain.head != Some(recorded) {
            let newest = self.chain.head.map(|head| head.seq.to_string());
            let newest = newest.unwrap_or_else(|| "nothing".to_owned());
            let said = recorded.seq;
            let what = format!("the head record says {said}, the log ends at {newest}");
            self.break_chain(next, what);
        }
    }

    fn break_chain(&mut self, seq: Seq, what: String) {
        self.chain_broken = Some(format!("broken at {seq}"));
        self.bad(Some(seq), what);
    }

    /// Takes the next entry, unless the chain is broken before it.
    fn link(&mut self, link: &mut Link) {
        if self.chain_broken.is_some() {
            return;
        }
        let seq = link.seq;
        let followed = match &mut link.entry {
            Ok(entry) => self.chain.follow(seq, entry, link.hash).map(|()| entry),
            Err(what) => Err(what.as_str()),
        };
        let entry = match followed {
            Ok(entry) => entry,
            Err(what) => {
                let what = format!("entry {seq}: {what}");
                return self.break_chain(seq, what);
            }
        };
        self.entries = self.entries.saturating_add(1);
        self.payloads = self.payloads.and(link.payloads);
        self.destroyed.pass(entry, &link.absent);
        for what in link.lost.drain(..) {
            self.bad(Some(seq), what);
        }
        self.laws.before(self.state.state(), entry);
        self.state.absorb(entry);
        self.laws.after(self.state.state(), entry);
        self.window_of(entry);
        for message in self.state.forget() {
            self.laws.forgotten(&message);
        }
    }

    fn window_of(&mut self, entry: &Entry) {
        let Body::Called(called) = &entry.body else {
            return;
        };
        let counter = match entry.provenance {
            Provenance::Inferred => &mut self.windows.inferred,
            Provenance::Simulated => &mut self.windows.simulated,
            Provenance::Recorded | Provenance::Synthetic => &mut self.windows.recorded,
        };
        *counter = counter.saturating_add(1);
        let state = self.state.state();
        let settings = state.settings();
        let settings = settings.map_or(Hash::ZERO, |(_, s)| s.content.digest);
        let same = called.window == state.digest()
            && called.messages == state.window_len()
            && called.settings == settings;
        if same {
            self.windows.equal = self.windows.equal.saturating_add(1);
        } else {
            let seq = entry.seq;
            self.bad(
                Some(seq),
                format!("the window that call {seq} recorded is not the replayed one"),
            );
        }
    }

    /// Holds what is not there against what the log says was redacted.
    fn redactions(&mut self) {
        if self.chain_broken.is_some() {
            return; // what could say so may lie behind that
        }
        let Destroyed { absent, .. } = &self.destroyed;
        let unsaid = absent.iter().filter(|place| !self.destroyed.says(**place));
        let unsaid: Vec<Seq> = unsaid.map(|(seq, _)| *seq).collect();
        for seq in unsaid {
            self.payloads.redacted = self.payloads.redacted.saturating_sub(1);
            self.payloads.lost = self.payloads.lost.saturating_add(1);
            let what =
                format!("the payload of {seq} is gone, and no entry says that it was redacted");
            self.bad(Some(seq), what);
        }
    }

    fn finish(mut self, recorded: Option<Head>) -> Verified {
        self.redactions();
        let mut laws = BTreeMap::new();
        for &law in LAWS {
            let verdict = match self.laws.broken_at(law) {
                None => "ok".to_owned(),
                Some(seq) => {
                    self.bad(Some(seq), format!("the law '{law}' is broken at {seq}"));
                    format!("broken at {seq}")
                }
            };
            laws.insert(law, verdict);
        }
        let newest = recorded.map_or_else(|| "the head".to_owned(), |h| h.seq.to_string());
        let mut not_covered = vec![
            format!(
                "{NONE_KEPT}: a log that was shortened together with its head record, or rewritten whole up to {newest}, looks like this one"
            ),
            "whether what was logged is what was said: times, usage and authors are as reported"
                .to_owned(),
        ];
        for (by, seq) in self.destroyed.unfinished() {
            not_covered.push(format!(
                "the redaction {by} is not finished: words of {seq} are still there. Redact again to finish it"
            ));
        }
        if let Some(seq) = self.state.state().unsupported() {
            not_covered.push(format!(
                "windows from {seq} on: the entry's kind is not known here"
            ));
        }
        Verified {
            schema: "ctxlog.verify/1",
            conversation: self.listed.name.name.clone(),
            ok: self.problems.is_empty(),
            entries: self.entries,
            chain: self.chain_broken.unwrap_or_else(|| "ok".to_owned()),
            payloads: self.payloads,
            windows: self.windows,
            laws,
            checkpoint: None,
            inferred_exceptions: self.laws.inferred_exceptions,
            not_covered,
            first_bad: self.first_bad,
            problems: self.problems,
            head: self.chain.head,
        }
    }
}

/// What a log lacks, and what it says that it lacks.
#[derive(Default)]
struct Destroyed {
    /// Payloads that are not there, in order.
    absent: Vec<(Seq, u32)>,
    /// The first entry whose payloads are there, but for one that opens a log.
    held: Option<Seq>,
    /// The entries that say so.
    said: Vec<(Seq, Redacted)>,
    /// What forks say of what they share, each up to where it left.
    forks: Vec<(Seq, Redacted)>,
}

impl Destroyed {
    fn pass(&mut self, entry: &Entry, absent: &[u32]) {
        let seq = entry.seq;
        self.absent.extend(absent.iter().map(|index| (seq, *index)));
        match &entry.body {
            Body::Redacted(said) => self.said.push((seq, said.clone())),
            Body::Opened(_) => {}
            body if self.held.is_none() && body.commitments().len() > absent.len() => {
                self.held = Some(seq);
            }
            _ => {}
        }
    }

    fn says(&self, (seq, index): (Seq, u32)) -> bool {
        let forks = self.forks.iter().filter(|(last, _)| seq <= *last);
        let said = self.said.iter().chain(forks);
        said.map(|(_, said)| said)
            .any(|said| said.names(seq, index))
    }

    /// Looks, where this log does not say what became of a payload, at what its forks say: of a log that
    /// came as the beginning of a fork, no more is here than what they share.
    fn ask_forks(&mut self, store: &Store, listed: &Listed) {
        if self.absent.iter().all(|place| self.says(*place)) {
            return;
        }
        let id = listed.conversation;
        // What cannot be read says nothing.
        for other in store.list().unwrap_or_default() {
            let line = store.line(other.conversation).ok().flatten();
            let Some((line, left)) = line.and_then(|line| {
                let shared = line.ancestors().find(|(owner, _)| *owner == id);
                shared.map(|(_, last)| (line, last))
            }) else {
                continue;
            };
            let own = line.left().map_or(Seq(0), |left| left.at.next());
            let head = store.backend().head(other.conversation).ok().flatten();
            let to = head.map_or(own, |head| head.seq);
            let redacted = |_: Seq, kind| kind == Some(Kind::Redacted);
            let forks = &mut self.forks;
            let _ = store.entries_of(other.conversation, (own, to), &redacted, &mut |entry| {
                if let Body::Redacted(said) = &entry.body {
                    forks.push((left, said.clone()));
                }
                ControlFlow::Continue(())
            });
        }
    }

    /// Entries that say more than was done, each with one whose words are still there.
    fn unfinished(&self) -> Vec<(Seq, Seq)> {
        let held = |place: &&(Seq, u32)| self.absent.binary_search(place).is_err();
        let one = |said: &Redacted| {
            let whole = self.held.filter(|held| Some(*held) <= said.up_to);
            whole.or_else(|| said.payloads.iter().find(held).map(|(seq, _)| *seq))
        };
        let said = self.said.iter();
        said.filter_map(|(by, said)| Some((*by, one(said)?)))
            .collect()
    }
}
