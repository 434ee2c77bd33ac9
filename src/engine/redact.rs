//! Redaction: words are destroyed, with their salts, wherever they went. The chain, the windows and
//! their digests stay as they are; what is gone is only what could be shown.
//!
//! Each log that shows the words says first which payloads go; then they are destroyed, then the blobs
//! that nothing mentions any more. So a crash in between leaves a log that says what it lacks, and
//! asking again finishes it.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use serde_json::Value;

use crate::log::{
    Author, Body, ConversationId, Entry, Hash, Kind, MessageId, Redacted, RequestReason, Seq,
    StandInKind, payload,
};
use crate::planted::{Bug, planted};
use crate::store::{Backend as _, Listed};

use super::append::Options;
use super::beside::Beside;
use super::content::Content;
use super::conversation::{Conversation, Store};
use super::error::{Error, Refusal};
use super::recall::quoted_in;

/// What is to be redacted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Redact {
    /// A message, in every form it had, and whatever quotes or summarises it.
    Message(MessageId),
    /// All words of the conversation.
    Conversation,
}

/// What some words are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Words {
    /// A message, as it was said.
    Message,
    /// Another form of one.
    Form,
    /// A summary or replacement that stands for messages.
    Claim,
    /// A recall that quotes one.
    Quote,
    /// What a source or a provider said beside it that holds its words.
    Note,
    /// Settings, notes, and what a source or a provider said beside.
    Other,
}

impl Words {
    /// The name people and tools see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Form => "form",
            Self::Claim => "claim",
            Self::Quote => "quote",
            Self::Note => "note",
            Self::Other => "other",
        }
    }
}

/// A payload that goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Goes {
    /// The entry.
    pub seq: Seq,
    /// The payload's index in it.
    pub index: u32,
    /// What it is.
    pub what: Words,
    /// Whether it is still there.
    pub held: bool,
}

/// What goes of one log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogRedaction {
    /// The log.
    pub log: Listed,
    /// The payloads that its entry will name, or named already.
    pub goes: Vec<Goes>,
    /// Of a whole conversation: everything up to this entry.
    pub up_to: Option<Seq>,
    /// The entry that says so already, where an earlier redaction was cut off.
    pub filed: Option<Seq>,
}

/// What a redaction reaches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Redaction {
    /// What was asked for.
    pub asked: Redact,
    /// Every log that shows some of it: this one, its forks, and what it shares with others.
    pub logs: Vec<LogRedaction>,
    /// Blobs that are destroyed with their last mention.
    pub blobs: u64,
    /// Notes near and behind the message that do not hold its words as they are, and stay.
    pub notes_kept: u64,
}

impl Redaction {
    /// Whether there is anything left to do.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let done = |log: &LogRedaction| log.filed.is_some() && log.goes.iter().all(|g| !g.held);
        self.logs.iter().all(|log| log.goes.is_empty() || done(log))
    }
}

impl Conversation {
    /// What a redaction would reach. Nothing is written.
    ///
    /// # Errors
    /// `nothing-matches` when there is no such message; a failure where a log cannot be read.
    pub fn plan_redaction(&self, asked: Redact) -> Result<Redaction, Error> {
        let logs = self.family()?;
        self.reaches(asked, &logs)
    }

    /// Destroys words and salts: of a message all forms, every summary and recall that holds some of
    /// it, over generations, in this log and in all that share it; and blobs that nothing mentions any
    /// more. Snapshots hold no words. Asking again finishes what was cut off, and files nothing twice.
    ///
    /// # Errors
    /// As [`Conversation::plan_redaction`]; a failure where something cannot be written.
    pub fn redact(&self, asked: Redact) -> Result<Redaction, Error> {
        loop {
            let logs = self.family()?;
            let done = self.redact_in(&logs, asked)?;
            // A fork that was made meanwhile shares what went, and has to say so too.
            if self.family()?.len() == logs.len() {
                return Ok(done);
            }
        }
    }

    fn redact_in(&self, logs: &[Self], asked: Redact) -> Result<Redaction, Error> {
        self.secret()?; // known from here on, so that words can be read while it is locked
        // Nobody appends meanwhile, here or to another log that shares the words or their blobs.
        let mut states = Vec::with_capacity(logs.len());
        for log in logs {
            log.secret()?;
            // What another handle filed is seen: what goes follows from all that there is.
            let head = self.store().backend.head(log.id())?;
            states.push(log.lock_at(head.map(|head| head.seq))?);
        }
        let mut plan = self.reaches(asked, logs)?;
        for (log, state) in logs.iter().zip(&mut states) {
            let mut parts = plan.logs.iter_mut();
            let Some(part) = parts.find(|part| part.log.conversation == log.id()) else {
                continue;
            };
            if part.filed.is_some() || part.goes.is_empty() {
                continue;
            }
            let body = Body::Redacted(part.body(asked));
            part.filed = Some(log.file(state, |stage, _| {
                stage.file(body, log.meta(&Options::default(), None))
            })?);
        }
        // Counts of words that are gone are taken anew, as after opening the store.
        let touched = |log: &Self| plan.logs.iter().any(|p| p.log.conversation == log.id());
        for (log, state) in logs.iter().zip(&mut states) {
            if touched(log) {
                state.doubt();
            }
        }
        let (backend, level) = (&self.store().backend, self.store().level());
        let mentioned_before = if planted(Bug::BlobsOutliveTheirMention) {
            self.store().mentioned(logs)?
        } else {
            BTreeSet::new()
        };
        for part in &plan.logs {
            let held = part.goes.iter().filter(|goes| goes.held);
            let mut places: Vec<(Seq, u32)> = held.map(|goes| (goes.seq, goes.index)).collect();
            places.sort_unstable();
            backend.destroy_payloads(part.log.conversation, &places, level)?;
        }
        let mut kept = self.store().mentioned(logs)?;
        if planted(Bug::BlobsOutliveTheirMention) {
            kept.extend(mentioned_before);
        }
        plan.blobs = backend.sweep_blobs(self.id(), &|address| kept.contains(address))?;
        // Also where an earlier redaction did it, and its level was another one.
        backend.sync(level)?;
        drop(states);
        Ok(plan)
    }

    /// Every log that has its first entry in common with this one, in the order of their ids.
    fn family(&self) -> Result<Vec<Self>, Error> {
        let store = self.store();
        let root = store.backend.root(self.id())?;
        let mut family = Vec::new();
        for listed in store.backend.list(&[])? {
            if store.backend.root(listed.conversation)? == root {
                family.push(store.load(listed.conversation, listed.name)?);
            }
        }
        family.sort_by_key(Self::id);
        Ok(family)
    }

    fn reaches(&self, asked: Redact, family: &[Self]) -> Result<Redaction, Error> {
        let backend = &self.store().backend;
        let mut beside = None;
        let from = match asked {
            Redact::Message(id) => {
                let says = self.says(id)?;
                beside = Some(Beside::of(self, &says)?);
                says.seq
            }
            Redact::Conversation => Seq(0),
        };
        let mut notes_kept = 0;
        let end = backend.head(self.id())?.map_or(Seq(0), |head| head.seq);
        let mut logs = Vec::new();
        for log in family {
            let Some(head) = backend.head(log.id())? else {
                continue;
            };
            let shares = backend.owner(log.id(), from)? == backend.owner(self.id(), from)?;
            if head.seq < from || !shares {
                continue;
            }
            let part = match asked {
                Redact::Message(id) => {
                    let part = log.holding(id, head.seq, beside.as_mut())?;
                    if log.id() == self.id() {
                        notes_kept = beside.as_ref().map_or(0, |beside| beside.others);
                    }
                    beside.iter_mut().for_each(|beside| beside.others = 0);
                    part
                }
                Redact::Conversation => log.all(self.last_shared(log, end)?, head.seq)?,
            };
            if !part.goes.is_empty() {
                logs.push(part);
            }
        }
        // The one that was asked for comes first.
        logs.sort_by_key(|part| part.log.conversation != self.id());
        let blobs = self.lone_blobs(&logs, family)?;
        Ok(Redaction {
            asked,
            logs,
            blobs,
            notes_kept,
        })
    }

    /// The entry that says a message.
    fn says(&self, id: MessageId) -> Result<Entry, Error> {
        let says = |entry: &Entry| match &entry.body {
            Body::Appended(_) => true,
            body => body
                .change()
                .is_some_and(|c| c.stand_ins.iter().any(|s| s.kind != StandInKind::Form)),
        };
        match self.entry(id.seq()) {
            Ok(entry) if says(&entry) => Ok(entry),
            Err(error) if error.refusal().is_none() => Err(error),
            _ => {
                let detail = format!("there is no message {id}");
                let refusal = Refusal::new(RequestReason::NothingMatches, detail);
                Err(refusal
                    .with_help("see the messages with `ctxlog log`")
                    .into())
            }
        }
    }

    /// The last of the entries up to `end` that another log of the family has as well.
    fn last_shared(&self, log: &Self, end: Seq) -> Result<Seq, Error> {
        if log.id() == self.id() {
            return Ok(end);
        }
        let backend = &self.store().backend;
        let (mut shared, mut other) = (Seq(0), end.next());
        while shared.next() < other {
            let middle = Seq(shared.0.midpoint(other.0));
            let head = backend.head(log.id())?.map(|head| head.seq);
            let same = backend.owner(log.id(), middle)? == backend.owner(self.id(), middle)?;
            if same && head >= Some(middle) {
                shared = middle;
            } else {
                other = middle;
            }
        }
        Ok(shared)
    }

    /// What of this log holds words of a message.
    fn holding(
        &self,
        id: MessageId,
        head: Seq,
        mut beside: Option<&mut Beside>,
    ) -> Result<LogRedaction, Error> {
        let mut tainted = BTreeSet::from([id.seq()]);
        let mut found = Vec::new();
        let mut said = Vec::new();
        let wanted = |_, kind: Option<Kind>| {
            use Kind::{Appended, Edited, Noted, Redacted, Returned, Visited};
            matches!(
                kind,
                Some(Appended | Edited | Noted | Redacted | Returned | Visited)
            )
        };
        let mut failed = None;
        let from = beside.as_ref().map_or(id.seq(), |beside| beside.from());
        let stretch = (from, head);
        self.store()
            .entries_of(self.id(), stretch, &wanted, &mut |entry| {
                let mut look = || {
                    let mut more = self.taints(entry, &mut tainted)?;
                    if let Some(beside) = &mut beside {
                        let mut held = beside.held_by(self, entry)?;
                        held.retain(|index| !more.iter().any(|(known, _)| known == index));
                        more.extend(held.into_iter().map(|index| (index, Words::Note)));
                    }
                    Ok(more)
                };
                match look() {
                    Ok(more) => {
                        found.extend(more.into_iter().map(|(i, what)| (entry.seq, i, what)));
                    }
                    Err(error) => {
                        failed = Some(error);
                        return ControlFlow::Break(());
                    }
                }
                if let Body::Redacted(r) = &entry.body {
                    said.push((entry.seq, r.clone()));
                }
                ControlFlow::Continue(())
            })?;
        if let Some(error) = failed {
            return Err(error);
        }
        // What an earlier redaction of it named and did not come to: once its words are gone, nothing else
        // tells what stood beside it.
        for (_, earlier) in said.iter().filter(|(_, r)| r.asked == Some(id.seq())) {
            let named = earlier.payloads.iter();
            let new =
                named.filter(|(seq, index)| !found.iter().any(|f| (f.0, f.1) == (*seq, *index)));
            let new: Vec<_> = new
                .map(|(seq, index)| (*seq, *index, Words::Note))
                .collect();
            found.extend(new);
        }
        found.sort_unstable();
        let goes = self.still(found)?;
        Ok(LogRedaction {
            log: self.listed(),
            filed: filed(&said, &goes),
            up_to: None,
            goes,
        })
    }

    /// The payloads of an entry that hold words of tainted messages.
    fn taints(
        &self,
        entry: &Entry,
        tainted: &mut BTreeSet<Seq>,
    ) -> Result<Vec<(u32, Words)>, Error> {
        let mut found = Vec::new();
        match &entry.body {
            Body::Appended(_) => {
                if tainted.contains(&entry.seq) {
                    found.push((0, Words::Message));
                } else if self.quotes(entry, tainted)? {
                    found.push((0, Words::Quote));
                    tainted.insert(entry.seq);
                }
            }
            body => {
                let stand_ins = body.change().map(|change| change.stand_ins.iter());
                for (index, stand_in) in (0_u32..).zip(stand_ins.into_iter().flatten()) {
                    let is_form = stand_in.kind == StandInKind::Form;
                    let own = !is_form && tainted.contains(&entry.seq);
                    let of = tainted
                        .iter()
                        .any(|m| stand_in.sources.contains(MessageId(*m)));
                    let left_out = planted(Bug::ClaimsOutliveTheirSources) && !own && !is_form;
                    if (own || of) && !left_out {
                        found.push((index, if is_form { Words::Form } else { Words::Claim }));
                    }
                    if of && !is_form {
                        tainted.insert(entry.seq);
                    }
                }
            }
        }
        Ok(found)
    }

    /// Whether a message is a recall that quotes one of these.
    fn quotes(&self, entry: &Entry, messages: &BTreeSet<Seq>) -> Result<bool, Error> {
        let backend = &self.store().backend;
        let quoted = match self.recall_of(entry)? {
            Noted::Nothing => return Ok(false),
            Noted::By(note) => match backend.payload(entry.conversation, note, 0)? {
                Some(payload) => quoted_by(&payload::decode_text(&payload.bytes)?),
                // All words went, or are to go where that was cut off: then so are these.
                None => return Ok(backend.payload(self.id(), entry.seq, 0)?.is_some()),
            },
            Noted::Elsewhere => match self.content_of(entry, 0)? {
                Content::Message(message) => quoted_in(&message.words()),
                Content::Redacted => return Ok(false),
            },
        };
        Ok(quoted.iter().any(|seq| messages.contains(seq)))
    }

    /// Whether an entry is a recall, by the note behind it.
    pub(super) fn is_recall(&self, entry: &Entry) -> Result<bool, Error> {
        Ok(matches!(self.recall_of(entry)?, Noted::By(_)))
    }

    /// The note of a recall that a message of the application's is the answer to: it stands behind it
    /// in the log that has the message. A fork of just there does not share it.
    fn recall_of(&self, entry: &Entry) -> Result<Noted, Error> {
        match &entry.body {
            Body::Appended(a) if a.skeleton.author == Author::Application => {}
            _ => return Ok(Noted::Nothing),
        }
        let (owner, next) = (entry.conversation, entry.seq.next());
        let mut found = if owner == self.id() {
            Noted::Nothing
        } else {
            Noted::Elsewhere // an ancestor that was brought here as far as it is shared
        };
        self.store().entries(owner, next, next, &mut |sealed| {
            found = match &sealed.entry.body {
                Body::Noted(n) if n.what == "recall" && n.content.is_some() => Noted::By(next),
                _ => Noted::Nothing,
            };
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// All payloads up to an entry, and what is made of them behind it.
    fn all(&self, up_to: Seq, head: Seq) -> Result<LogRedaction, Error> {
        let mut found = Vec::new();
        let mut said = Vec::new();
        let mut tainted = BTreeSet::new();
        let mut failed = None;
        let stretch = (Seq(0), head);
        self.store()
            .entries_of(self.id(), stretch, &|_, _| true, &mut |entry| {
                if let Body::Redacted(r) = &entry.body {
                    said.push((entry.seq, r.clone()));
                }
                if entry.seq > up_to {
                    match self.taints(entry, &mut tainted) {
                        Ok(more) => {
                            found.extend(more.into_iter().map(|(i, what)| (entry.seq, i, what)));
                        }
                        Err(error) => {
                            failed = Some(error);
                            return ControlFlow::Break(());
                        }
                    }
                    return ControlFlow::Continue(());
                }
                tainted.insert(entry.seq);
                let (secrets, what) = match &entry.body {
                    Body::Opened(_) => return ControlFlow::Continue(()),
                    Body::Appended(_) => (entry.body.commitments().len(), Words::Message),
                    body => {
                        let stands = body.change().is_some_and(|c| !c.stand_ins.is_empty());
                        let what = if stands { Words::Claim } else { Words::Other };
                        (body.commitments().len(), what)
                    }
                };
                let indexes = 0..u32::try_from(secrets).unwrap_or(u32::MAX);
                found.extend(indexes.map(|index| (entry.seq, index, what)));
                ControlFlow::Continue(())
            })?;
        if let Some(error) = failed {
            return Err(error);
        }
        let goes = self.still(found)?;
        Ok(LogRedaction {
            log: self.listed(),
            filed: filed(&said, &goes),
            up_to: Some(up_to),
            goes,
        })
    }

    fn still(&self, found: Vec<(Seq, u32, Words)>) -> Result<Vec<Goes>, Error> {
        let backend = &self.store().backend;
        let mut goes = Vec::with_capacity(found.len());
        for (seq, index, what) in found {
            let held = backend.payload(self.id(), seq, index)?.is_some();
            goes.push(Goes {
                seq,
                index,
                what,
                held,
            });
        }
        Ok(goes)
    }

    /// How many blobs go with these payloads.
    fn lone_blobs(&self, logs: &[LogRedaction], family: &[Self]) -> Result<u64, Error> {
        let backend = &self.store().backend;
        let mut mentioned = BTreeSet::new();
        for (log, goes) in logs
            .iter()
            .flat_map(|log| log.goes.iter().map(move |g| (log, g)))
        {
            let held = backend.payload(log.log.conversation, goes.seq, goes.index)?;
            let held = held
                .map(|held| payload::blobs_of(&held.bytes))
                .transpose()?;
            mentioned.extend(held.into_iter().flatten());
        }
        if mentioned.is_empty() {
            return Ok(0);
        }
        let going: BTreeSet<(ConversationId, Seq, u32)> = logs
            .iter()
            .flat_map(|log| log.goes.iter().map(move |g| (log, g)))
            .map(|(log, g)| Ok((backend.owner(log.log.conversation, g.seq)?, g.seq, g.index)))
            .collect::<Result<_, Error>>()?;
        self.store().each_mention(family, &mut |place, address| {
            if !going.contains(&place) {
                mentioned.remove(&address);
            }
        })?;
        Ok(u64::try_from(mentioned.len()).unwrap_or(u64::MAX))
    }
}

impl Store {
    /// Those of these payloads of a log that its forks say were destroyed.
    pub(crate) fn said_by_forks(
        &self,
        id: ConversationId,
        places: &[(Seq, u32)],
    ) -> Result<BTreeSet<(Seq, u32)>, Error> {
        let mut found = BTreeSet::new();
        for listed in self.backend.list(&[])? {
            let fork = listed.conversation;
            let Some(last) = self.line(fork)?.and_then(|line| {
                let mut shared = line.ancestors().filter(|(owner, _)| *owner == id);
                shared.next().map(|(_, last)| last)
            }) else {
                continue;
            };
            let head = self.backend.head(fork)?.map_or(last, |head| head.seq);
            let stretch = (last.next(), head);
            let wanted = |_, kind: Option<Kind>| kind == Some(Kind::Redacted);
            self.entries_of(fork, stretch, &wanted, &mut |entry| {
                if let Body::Redacted(said) = &entry.body {
                    let shared = places.iter().filter(|(seq, _)| *seq <= last);
                    found.extend(shared.filter(|(seq, i)| said.names(*seq, *i)));
                }
                ControlFlow::Continue(())
            })?;
        }
        Ok(found)
    }

    /// The blobs that the payloads of some logs mention.
    fn mentioned(&self, logs: &[Conversation]) -> Result<BTreeSet<Hash>, Error> {
        let mut found = BTreeSet::new();
        self.each_mention(logs, &mut |_, address| {
            found.insert(address);
        })?;
        Ok(found)
    }

    /// Shows each blob that a payload of these logs mentions, with the payload's place.
    fn each_mention(
        &self,
        logs: &[Conversation],
        show: &mut dyn FnMut((ConversationId, Seq, u32), Hash),
    ) -> Result<(), Error> {
        for log in logs {
            let Some(head) = self.backend.head(log.id())? else {
                continue;
            };
            let first = self.backend.first(log.id())?.unwrap_or(Seq(0));
            let mut failed: Option<Error> = None;
            self.backend
                .records(log.id(), first, head.seq, &mut |seq, bytes, payload| {
                    let mut look = || -> Result<(), Error> {
                        let entry = crate::log::entry::decode_entry(bytes)?;
                        for (index, _) in (0_u32..).zip(entry.body.commitments()) {
                            let held = payload(index)?;
                            let held = held
                                .map(|held| payload::blobs_of(&held.bytes))
                                .transpose()?;
                            for address in held.into_iter().flatten() {
                                show((log.id(), seq, index), address);
                            }
                        }
                        Ok(())
                    };
                    match look() {
                        Ok(()) => ControlFlow::Continue(()),
                        Err(error) => {
                            failed = Some(error);
                            ControlFlow::Break(())
                        }
                    }
                })?;
            if let Some(error) = failed {
                return Err(error);
            }
        }
        Ok(())
    }
}

/// What a recall quotes, by its note.
fn quoted_by(note: &str) -> Vec<Seq> {
    let note: Value = serde_json::from_str(note).unwrap_or_default();
    let ids = note.get("quoted").and_then(Value::as_array);
    let ids = ids.into_iter().flatten().filter_map(Value::as_u64);
    ids.map(Seq).collect()
}

/// The note behind a message that may be a recall.
enum Noted {
    /// There is none: it is no recall.
    Nothing,
    /// This entry of the log that has the message.
    By(Seq),
    /// It is not in this store.
    Elsewhere,
}

/// The newest of the entries that say so, where together they name all that goes.
fn filed(said: &[(Seq, Redacted)], goes: &[Goes]) -> Option<Seq> {
    let named = |goes: &Goes| {
        let mut said = said.iter();
        said.any(|(_, said)| said.names(goes.seq, goes.index))
    };
    let newest = said.last().map(|(seq, _)| *seq);
    newest.filter(|_| goes.iter().all(named))
}

impl LogRedaction {
    /// What the log says of it.
    fn body(&self, asked: Redact) -> Redacted {
        let behind = |goes: &&Goes| self.up_to.is_none_or(|up_to| goes.seq > up_to);
        let named = self.goes.iter().filter(behind);
        Redacted {
            asked: match asked {
                Redact::Message(id) => Some(id.seq()),
                Redact::Conversation => None,
            },
            up_to: self.up_to,
            payloads: named.map(|goes| (goes.seq, goes.index)).collect(),
        }
    }
}
