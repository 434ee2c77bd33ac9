//! `verify`: does the log hang together? Chain, payloads, windows, laws; and what that cannot show.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde::Serialize;

use crate::engine::{Error, Store};
use crate::log::{
    Body, ConversationId, Hash, Head, Kind, Provenance, Seq, entry, entry::Sealed, payload,
    payload::Secret,
};
use crate::store::{Listed, StoreError};
use crate::window::Projection;

use super::laws::{LAWS, Laws};

/// What became of payloads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Payloads {
    /// They match their commitment.
    pub intact: u64,
    /// They were destroyed on purpose.
    pub redacted: u64,
    /// They are damaged or lost.
    pub lost: u64,
}

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

/// Verifies one conversation. `progress` hears how many entries are done, and of how many.
///
/// # Errors
/// When the store cannot be read at all; damage is in the answer.
pub fn verify(
    store: &Store,
    listed: &Listed,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Verified, Error> {
    let mut check = Check::new(store, listed);
    check.store_level()?;
    let head = match store.backend().head(listed.conversation) {
        Ok(head) => head,
        Err(error) => {
            check.bad(damaged_seq(&error), error.to_string());
            None
        }
    };
    check.entries(head, progress);
    check.laws.at_end(&check.state);
    Ok(check.finish(head))
}

fn damaged_seq(error: &StoreError) -> Option<Seq> {
    match error {
        StoreError::Damaged { seq, .. } => *seq,
        _ => None,
    }
}

struct Check<'a> {
    store: &'a Store,
    listed: &'a Listed,
    state: Projection,
    laws: Laws,
    secret: Option<Secret>,
    head: Option<Head>,
    payloads: Payloads,
    windows: Windows,
    chain_broken: Option<String>,
    first_bad: Option<Seq>,
    problems: Vec<String>,
    entries: u64,
}

impl<'a> Check<'a> {
    fn new(store: &'a Store, listed: &'a Listed) -> Self {
        Self {
            store,
            listed,
            state: Projection::default(),
            laws: Laws::default(),
            secret: None,
            head: None,
            payloads: Payloads::default(),
            windows: Windows::default(),
            chain_broken: None,
            first_bad: None,
            problems: Vec::new(),
            entries: 0,
        }
    }

    fn id(&self) -> ConversationId {
        self.listed.conversation
    }

    fn bad(&mut self, seq: Option<Seq>, what: String) {
        self.first_bad = match (self.first_bad, seq) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.problems.push(what);
    }

    /// Head records, names, framing.
    fn store_level(&mut self) -> Result<(), Error> {
        for problem in self.store.backend().check(Some(self.id()))? {
            self.bad(damaged_seq(&problem), problem.to_string());
        }
        Ok(())
    }

    fn entries(&mut self, head: Option<Head>, progress: &mut dyn FnMut(u64, u64)) {
        let Some(head) = head else { return };
        let total = head.seq.0.saturating_add(1);
        let backend = self.store.backend();
        let read = backend.entries(self.id(), Seq(0), head.seq, &mut |seq, bytes| {
            progress(seq.0, total);
            match entry::open(bytes) {
                Ok(sealed) => self.entry(seq, &sealed),
                Err(error) => {
                    self.break_chain(seq, format!("entry {seq}: {error}"));
                    ControlFlow::Break(())
                }
            }
        });
        if let Err(error) = read {
            let seq = damaged_seq(&error).unwrap_or_else(|| self.next());
            self.break_chain(seq, error.to_string());
        }
        if self.chain_broken.is_none() && self.head != Some(head) {
            let read = self
                .head
                .map_or_else(|| "nothing".to_owned(), |h| h.seq.to_string());
            let what = format!("the head record says {}, the log ends at {read}", head.seq);
            self.break_chain(self.next(), what);
        }
    }

    fn next(&self) -> Seq {
        self.head.map_or(Seq(0), |h| h.seq.next())
    }

    fn break_chain(&mut self, seq: Seq, what: String) {
        self.chain_broken
            .get_or_insert_with(|| format!("broken at {seq}"));
        self.bad(Some(seq), what);
    }

    fn entry(&mut self, seq: Seq, sealed: &Sealed) -> ControlFlow<()> {
        if let Some(what) = self.misplaced(seq, sealed) {
            self.break_chain(seq, format!("entry {seq}: {what}"));
            return ControlFlow::Break(());
        }
        self.head = Some(sealed.head());
        self.entries = self.entries.saturating_add(1);
        self.payloads_of(sealed);
        self.laws.before(&self.state, &sealed.entry);
        self.state.apply(&sealed.entry);
        self.laws.after(&self.state, &sealed.entry);
        self.window_of(sealed);
        ControlFlow::Continue(())
    }

    /// Why an entry cannot stand where it was found.
    fn misplaced(&self, seq: Seq, sealed: &Sealed) -> Option<&'static str> {
        let entry = &sealed.entry;
        let prev = self.head.map_or(Hash::ZERO, |h| h.hash);
        if entry.conversation != self.id() {
            return Some("it belongs to another conversation");
        }
        if entry.seq != seq || seq != self.next() {
            return Some("it has another number than its place");
        }
        if entry.prev != prev {
            return Some("it does not continue the entry before");
        }
        if entry.iteration != self.state.next_iteration() {
            return Some("its iteration does not follow from the calls before it");
        }
        let opened = entry.body.kind() == Some(Kind::Opened);
        (opened != (seq == Seq(0))).then_some("only the first entry, and it alone, opens a log")
    }

    fn payloads_of(&mut self, sealed: &Sealed) {
        let seq = sealed.entry.seq;
        let commitments = sealed.entry.body.commitments();
        for (index, commitment) in (0_u32..).zip(commitments) {
            match self.store.backend().payload(self.id(), seq, index) {
                Ok(None) => self.payloads.redacted = self.payloads.redacted.saturating_add(1),
                Ok(Some(found)) => {
                    let same = payload::commit(&found.salt, &found.bytes) == commitment;
                    let blobs = if same {
                        self.blobs_of(&found.bytes)
                    } else {
                        None
                    };
                    if !same {
                        self.lose(seq, "does not match the entry's commitment".to_owned());
                    } else if let Some(what) = blobs {
                        self.lose(seq, what);
                    } else {
                        self.payloads.intact = self.payloads.intact.saturating_add(1);
                    }
                    if seq == Seq(0) && same {
                        self.secret = payload::decode_secret(&found.bytes).ok();
                    }
                }
                Err(error) => self.lose(seq, error.to_string()),
            }
        }
    }

    fn lose(&mut self, seq: Seq, what: String) {
        self.payloads.lost = self.payloads.lost.saturating_add(1);
        self.bad(Some(seq), format!("the payload of {seq}: {what}"));
    }

    /// What is wrong with the blobs a payload mentions.
    fn blobs_of(&self, bytes: &[u8]) -> Option<String> {
        let addresses = match payload::blobs_of(bytes) {
            Ok(addresses) => addresses,
            Err(error) => return Some(error.to_string()),
        };
        addresses.into_iter().find_map(|address| {
            match self.store.backend().blob(self.id(), address) {
                Ok(Some(blob)) => {
                    let same = self.secret.is_some_and(|s| s.address(&blob) == address);
                    (!same).then(|| format!("the blob {} does not match", address.short()))
                }
                Ok(None) => Some(format!("the blob {} is missing", address.short())),
                Err(error) => Some(error.to_string()),
            }
        })
    }

    fn window_of(&mut self, sealed: &Sealed) {
        let Body::Called(called) = &sealed.entry.body else {
            return;
        };
        let counter = match sealed.entry.provenance {
            Provenance::Inferred => &mut self.windows.inferred,
            Provenance::Simulated => &mut self.windows.simulated,
            Provenance::Recorded | Provenance::Synthetic => &mut self.windows.recorded,
        };
        *counter = counter.saturating_add(1);
        let settings = self
            .state
            .settings()
            .map_or(Hash::ZERO, |(_, s)| s.content.digest);
        let same = called.window == self.state.digest()
            && called.messages == self.state.window_len()
            && called.settings == settings;
        if same {
            self.windows.equal = self.windows.equal.saturating_add(1);
        } else {
            let seq = sealed.entry.seq;
            self.bad(
                Some(seq),
                format!("the window that call {seq} recorded is not the replayed one"),
            );
        }
    }

    fn finish(mut self, recorded: Option<Head>) -> Verified {
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
                "no checkpoint is kept elsewhere: a log that was shortened together with its head record, or rewritten whole up to {newest}, looks like this one"
            ),
            "whether what was logged is what was said: times, usage and authors are as reported"
                .to_owned(),
        ];
        if let Some(seq) = self.state.unsupported() {
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
            inferred_exceptions: self.laws.inferred_exceptions,
            not_covered,
            first_bad: self.first_bad,
            problems: self.problems,
            head: self.head,
        }
    }
}
