//! Saving what still verifies of a damaged log.

use std::ops::ControlFlow;

use crate::engine::{Adopted, Conversation, Error, Store};
use crate::log::{Head, RequestReason, Seq, entry, entry::Sealed, payload};
use crate::store::{Listed, PayloadAt, PayloadRef};

use super::chain::{Chain, intact};

/// The trusted prefix of a log, in a store in memory.
#[derive(Debug)]
pub struct Trusted {
    /// The prefix as a conversation of its own, under the same id.
    pub conversation: Conversation,
    /// Its newest entry.
    pub head: Head,
    /// Why it ends there; `None` where the whole log verifies.
    pub ends: Option<String>,
    /// Contents that are damaged or lost; an export shows them as redacted.
    pub lost: Vec<Seq>,
}

/// Reads a log up to the first entry that does not hang together with those before it.
///
/// # Errors
/// `nothing-matches` when not even the first entry can be trusted.
pub fn trusted_prefix(store: &Store, listed: &Listed) -> Result<Trusted, Error> {
    let mut reading = Reading {
        store,
        listed,
        chain: Chain::of(store, listed.conversation),
        lost: Vec::new(),
        entries: Vec::new(),
    };
    let ends = reading.read();
    let Some(head) = reading.chain.head else {
        let why = ends.unwrap_or_else(|| "it has no entries".to_owned());
        let detail = format!("nothing of '{}' can be trusted: {why}", listed.name.name);
        return Err(Error::refused(RequestReason::NothingMatches, detail));
    };
    let (conversation, _) =
        Store::in_memory().adopt(reading.entries.as_slice(), Some(&listed.name.name))?;
    Ok(Trusted {
        conversation,
        head,
        ends,
        lost: reading.lost,
    })
}

struct Reading<'a> {
    store: &'a Store,
    listed: &'a Listed,
    chain: Chain,
    lost: Vec<Seq>,
    entries: Vec<Adopted>,
}

impl Reading<'_> {
    /// Gives the reason why it had to end.
    fn read(&mut self) -> Option<String> {
        let (id, backend) = (self.listed.conversation, self.store.backend());
        // Where the head record itself is damaged, the entries say where the log ends.
        let head = backend.head(id).ok().flatten();
        let to = head.map_or(Seq(u64::MAX), |h| h.seq);
        let mut ends = None;
        let read = backend.records(id, Seq(0), to, &mut |seq, bytes, payload| match self
            .take(seq, bytes, payload)
        {
            Ok(()) => ControlFlow::Continue(()),
            Err(why) => {
                ends = Some(format!("{seq}: {why}"));
                ControlFlow::Break(())
            }
        });
        let ends = ends.or_else(|| read.err().map(|e| e.to_string()));
        ends.or_else(|| match head {
            Some(head) if self.chain.head != Some(head) => Some(format!(
                "the head record says {}, and its entry is not there",
                head.seq
            )),
            Some(_) => None,
            None => Some("its head record cannot be read".to_owned()),
        })
    }

    fn take(&mut self, seq: Seq, bytes: &[u8], payload: PayloadAt<'_>) -> Result<(), String> {
        let sealed = entry::open(bytes).map_err(|e| e.to_string())?;
        self.chain.follow(seq, &sealed.entry, sealed.hash)?;
        let adopted = self.contents(sealed, payload);
        self.entries.push(adopted);
        Ok(())
    }

    fn contents(&mut self, sealed: Sealed, payload: PayloadAt<'_>) -> Adopted {
        let (id, backend) = (self.listed.conversation, self.store.backend());
        let seq = sealed.entry.seq;
        let (mut payloads, mut blobs) = (Vec::new(), Vec::new());
        for (index, wanted) in (0_u32..).zip(sealed.entry.body.commitments()) {
            let found = payload(index);
            let whole = match &found {
                Ok(Some(payload)) => intact(&payload.salt, &payload.bytes, &wanted),
                Ok(None) => true,
                Err(_) => false,
            };
            if !whole {
                self.lost.push(seq);
            }
            let found = found.ok().flatten().filter(|_| whole);
            let found = found.map(PayloadRef::into_owned);
            for address in found
                .iter()
                .flat_map(|p| payload::blobs_of(&p.bytes).unwrap_or_default())
            {
                match backend.blob(id, address) {
                    Ok(Some(bytes)) => blobs.push((address, bytes)),
                    _ => self.lost.push(seq),
                }
            }
            payloads.push(found);
        }
        Adopted {
            sealed,
            payloads,
            blobs,
        }
    }
}
