//! The half of `verify` that needs no fold: does each entry stand where it should, and are its words
//! what it committed to?

use std::ops::ControlFlow;
use std::sync::mpsc::SyncSender;

use serde::Serialize;

use crate::log::{
    Body, Commitment, ConversationId, Hash, Head, Kind, Seq, entry, entry::Sealed, payload,
    payload::Secret,
};
use crate::store::{Backend, Payload, StoreError};

use super::verify::damaged_seq;

/// How many entries are handed over at once.
const LOT: usize = 64;

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

impl Payloads {
    pub(super) const fn and(self, other: Self) -> Self {
        Self {
            intact: self.intact.saturating_add(other.intact),
            redacted: self.redacted.saturating_add(other.redacted),
            lost: self.lost.saturating_add(other.lost),
        }
    }
}

/// An entry that continues the one before it.
pub(super) struct Link {
    pub(super) sealed: Sealed,
    pub(super) payloads: Payloads,
    /// What is wrong with its payloads.
    pub(super) lost: Vec<String>,
}

/// Where the chain ends before its head record, and why.
pub(super) struct Break {
    pub(super) seq: Seq,
    pub(super) what: String,
}

/// A log, read from its first entry up to its head record.
pub(super) struct Chain<'a> {
    backend: &'a dyn Backend,
    id: ConversationId,
    recorded: Head,
    head: Option<Head>,
    /// The calls so far.
    calls: u64,
    secret: Option<Secret>,
    lot: Vec<Link>,
}

impl<'a> Chain<'a> {
    pub(super) fn new(backend: &'a dyn Backend, id: ConversationId, recorded: Head) -> Self {
        Self {
            backend,
            id,
            recorded,
            head: None,
            calls: 0,
            secret: None,
            lot: Vec::with_capacity(LOT),
        }
    }

    /// How many entries there should be.
    pub(super) fn total(&self) -> u64 {
        self.recorded.seq.0.saturating_add(1)
    }

    /// Reads it, handing over lots of entries in order; gives where it breaks.
    pub(super) fn read(mut self, to: &SyncSender<Vec<Link>>) -> Option<Break> {
        let mut broken = None;
        let backend = self.backend;
        let read = backend.entries(self.id, Seq(0), self.recorded.seq, &mut |seq, bytes| {
            let link = entry::open(bytes).map_err(|error| error.to_string());
            match link.and_then(|sealed| self.link(seq, sealed)) {
                Ok(link) => self.lot.push(link),
                Err(what) => {
                    let what = format!("entry {seq}: {what}");
                    broken = Some(Break { seq, what });
                    return ControlFlow::Break(());
                }
            }
            if self.lot.len() >= LOT {
                // Whoever no longer listens has ended by a panic, which tells more.
                let _ = to.send(std::mem::replace(&mut self.lot, Vec::with_capacity(LOT)));
            }
            ControlFlow::Continue(())
        });
        let _ = to.send(std::mem::take(&mut self.lot));
        let failed = |error: StoreError| Break {
            seq: damaged_seq(&error).unwrap_or_else(|| self.next()),
            what: error.to_string(),
        };
        broken
            .or_else(|| read.err().map(failed))
            .or_else(|| self.ends_early())
    }

    fn ends_early(&self) -> Option<Break> {
        if self.head == Some(self.recorded) {
            return None;
        }
        let read = self
            .head
            .map_or_else(|| "nothing".to_owned(), |h| h.seq.to_string());
        let said = self.recorded.seq;
        Some(Break {
            seq: self.next(),
            what: format!("the head record says {said}, the log ends at {read}"),
        })
    }

    fn next(&self) -> Seq {
        self.head.map_or(Seq(0), |h| h.seq.next())
    }

    fn link(&mut self, seq: Seq, sealed: Sealed) -> Result<Link, String> {
        if let Some(what) = self.misplaced(seq, &sealed) {
            return Err(what.to_owned());
        }
        self.head = Some(sealed.head());
        if matches!(sealed.entry.body, Body::Called(_)) {
            self.calls = self.calls.saturating_add(1);
        }
        let (mut payloads, mut lost) = (Payloads::default(), Vec::new());
        let commitments = sealed.entry.body.commitments();
        for (index, commitment) in (0_u32..).zip(commitments) {
            let counter = match self.payload(seq, index, &commitment) {
                Ok(true) => &mut payloads.intact,
                Ok(false) => &mut payloads.redacted,
                Err(what) => {
                    lost.push(format!("the payload of {seq}: {what}"));
                    &mut payloads.lost
                }
            };
            *counter = counter.saturating_add(1);
        }
        Ok(Link {
            sealed,
            payloads,
            lost,
        })
    }

    /// Why an entry cannot stand where it was found.
    fn misplaced(&self, seq: Seq, sealed: &Sealed) -> Option<&'static str> {
        let entry = &sealed.entry;
        let prev = self.head.map_or(Hash::ZERO, |h| h.hash);
        if entry.conversation != self.id {
            return Some("it belongs to another conversation");
        }
        if entry.seq != seq || seq != self.next() {
            return Some("it has another number than its place");
        }
        if entry.prev != prev {
            return Some("it does not continue the entry before");
        }
        if entry.iteration.0 != self.calls.saturating_add(1) {
            return Some("its iteration does not follow from the calls before it");
        }
        let opened = entry.body.kind() == Some(Kind::Opened);
        (opened != (seq == Seq(0))).then_some("only the first entry, and it alone, opens a log")
    }

    /// Whether a payload is there, as committed to; it may have been destroyed on purpose.
    fn payload(&mut self, seq: Seq, index: u32, to: &Commitment) -> Result<bool, String> {
        let found = self.backend.payload(self.id, seq, index);
        let Some(Payload { salt, bytes }) = found.map_err(|e| e.to_string())? else {
            return Ok(false);
        };
        if payload::commit(&salt, &bytes) != *to {
            return Err("does not match the entry's commitment".to_owned());
        }
        self.blobs(&bytes)?;
        if seq == Seq(0) {
            self.secret = payload::decode_secret(&bytes).ok();
        }
        Ok(true)
    }

    /// Looks at the blobs a payload mentions.
    fn blobs(&self, bytes: &[u8]) -> Result<(), String> {
        let addresses = payload::blobs_of(bytes).map_err(|e| e.to_string())?;
        for address in addresses {
            let found = self.backend.blob(self.id, address);
            let short = address.short();
            match found.map_err(|e| e.to_string())? {
                Some(blob) if self.secret.is_some_and(|s| s.address(&blob) == address) => {}
                Some(_) => return Err(format!("the blob {short} does not match")),
                None => return Err(format!("the blob {short} is missing")),
            }
        }
        Ok(())
    }
}
