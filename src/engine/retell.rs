//! A log told again as the steps an importer would give, so that it can be replayed elsewhere.
//!
//! What the conversation's own strategies and the engine did is left out: a replay makes it anew. A
//! message comes back with its first words, also where another content stands for it now. Edits of an
//! importer's source are told as the steps they came from; other edits become notes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use super::content::Content;
use super::conversation::Conversation;
use super::error::Error;
use super::wordless::without_words;
use crate::formats::{Format, Link, Step, Transcript, json};
use crate::log::{
    Appended, Author, Body, Door, EditAction, Edited, Entry, Fields, Json, Message, Noted,
    PartBody, Provenance, Returned, Seq, Settings, StandInKind,
};

/// A log as steps.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Retold {
    /// The steps.
    pub transcript: Transcript,
    /// The entries of each message step, in order: several where a message was split.
    pub messages: Vec<Vec<Seq>>,
    /// Edits that became notes: a replay does not apply them.
    pub edits: u64,
    /// Usage that belongs to an earlier call than the newest, which a step cannot say.
    pub late_usage: u64,
    /// Usage of calls that were sent less than all there was: it measures no other window.
    pub own_usage: u64,
    /// Messages whose words are redacted, by their number among the message steps.
    pub redacted: BTreeSet<usize>,
    /// Entries of a kind that is not known here.
    pub unknown: u64,
}

impl Conversation {
    /// Tells the log again as the steps an importer would give.
    ///
    /// # Errors
    /// When the log or its words cannot be read.
    pub fn retell(&self) -> Result<Retold, Error> {
        let Some(head) = self.head()? else {
            return Ok(Retold::default());
        };
        let mut teller = Teller {
            chat: self,
            told: Retold::default(),
            ordinals: BTreeMap::new(),
            last_call: None,
            open: None,
            quoted: None,
        };
        let mut failed = None;
        self.store()
            .entries(
                self.id(),
                Seq(0),
                head.seq,
                &mut |sealed| match teller.entry(&sealed.entry) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(error) => {
                        failed = Some(error);
                        ControlFlow::Break(())
                    }
                },
            )?;
        failed.map_or(Ok(teller.told), Err)
    }
}

/// The message that was told last, while more entries of it may follow.
struct Open {
    first: Seq,
    last: Seq,
    /// How many entries are known to follow; without a key nothing tells.
    left: Option<u32>,
}

struct Teller<'a> {
    chat: &'a Conversation,
    told: Retold,
    /// The message step of each message entry.
    ordinals: BTreeMap<Seq, usize>,
    last_call: Option<Seq>,
    open: Option<Open>,
    /// The first recall's quote: calls behind it were sent a message that no replay has.
    quoted: Option<Seq>,
}

impl Teller<'_> {
    fn entry(&mut self, entry: &Entry) -> Result<(), Error> {
        let at = entry.at;
        let step = match &entry.body {
            Body::Appended(a) => return self.appended(entry, a),
            Body::Configured(c) => match &c.settings {
                Some(settings) => Some(self.configured(entry, settings)?),
                None => None,
            },
            Body::Called(c) => {
                self.last_call = Some(entry.seq);
                let model = c.model.clone();
                Some(Step::Called { model, at })
            }
            Body::Returned(r) => Some(self.returned(entry, r)?),
            Body::Edited(e) => self.edited(entry, e)?,
            Body::Noted(n) => Some(self.noted(entry, n)?),
            // What was redacted is missed where its words are read.
            Body::Opened(_) | Body::Visited(_) | Body::Redacted(_) => None,
            Body::Unknown { .. } => {
                self.told.unknown = self.told.unknown.saturating_add(1);
                None
            }
        };
        self.told.transcript.steps.extend(step);
        Ok(())
    }

    fn configured(&mut self, entry: &Entry, settings: &Settings) -> Result<Step, Error> {
        self.of_format(&settings.format);
        let text = self.chat.text(entry.seq, 0)?;
        let fields = text.as_ref().and_then(json::object).unwrap_or_default();
        Ok(Step::Configured {
            model: settings.model.clone(),
            settings: fields,
        })
    }

    /// The first format that is named is the transcript's.
    fn of_format(&mut self, name: &str) {
        let format = &mut self.told.transcript.format;
        if format.is_empty()
            && let Some(known) = Format::from_name(name)
        {
            *format = known.name();
        }
    }

    fn appended(&mut self, entry: &Entry, a: &Appended) -> Result<(), Error> {
        let made = entry.provenance == Provenance::Synthetic || a.skeleton.author == Author::Engine;
        if made {
            return Ok(()); // a replay closes calls itself
        }
        if entry.by.door != Door::Import && self.chat.is_recall(entry)? {
            // What was recalled by hand is, where a replay let it leave, not recalled there.
            self.told.edits = self.told.edits.saturating_add(1);
            self.quoted.get_or_insert(entry.seq);
            return Ok(());
        }
        let (message, lost) = match self.chat.content(entry.seq, 0)? {
            Content::Message(message) => (*message, false),
            Content::Redacted => (without_words(a), true),
        };
        if let Some(source) = &message.source {
            self.of_format(&source.format);
        }
        if self.continues_split(entry, a, &message) {
            self.join(entry.seq, message);
            let ordinal = self.told.messages.len().saturating_sub(1);
            self.told.redacted.extend(lost.then_some(ordinal));
            return Ok(());
        }
        let ordinal = self.told.messages.len();
        self.told.redacted.extend(lost.then_some(ordinal));
        let linked = |seq: Option<Seq>| seq.and_then(|s| self.ordinals.get(&s).copied());
        let link = match (linked(a.continues), linked(a.same_source)) {
            (Some(to), _) => Link::Continues(to),
            (None, Some(to)) => Link::SameSource(to),
            (None, None) => Link::None,
        };
        self.ordinals.insert(entry.seq, ordinal);
        self.told.messages.push(vec![entry.seq]);
        let left = entry.key.as_ref().map(|k| k.entries.saturating_sub(1));
        self.open = Some(Open {
            first: entry.seq,
            last: entry.seq,
            left,
        });
        self.told.transcript.steps.push(Step::Message {
            message,
            at: entry.at,
            link,
        });
        Ok(())
    }

    /// Whether an entry is a further piece of the message before it, which was split to be filed.
    fn continues_split(&self, entry: &Entry, a: &Appended, message: &Message) -> bool {
        let Some(open) = &self.open else { return false };
        let follows = entry.seq == open.last.next() && entry.key.is_none();
        if !follows || a.same_source != Some(open.first) {
            return false;
        }
        match open.left {
            Some(left) => left > 0,
            // Results come before words, and a message of words alone is never split.
            None => match self.told.transcript.steps.last() {
                Some(Step::Message { message: first, .. }) => {
                    let only = |m: &Message| m.parts.iter().all(|p| is_result(&p.body));
                    let some = |m: &Message| m.parts.iter().any(|p| is_result(&p.body));
                    only(first) && (only(message) || !some(message))
                }
                _ => false,
            },
        }
    }

    fn join(&mut self, seq: Seq, piece: Message) {
        let Some(Step::Message { message, .. }) = self.told.transcript.steps.last_mut() else {
            return;
        };
        // The words have the role and author of the whole, the results its source.
        (message.role, message.author) = (piece.role, piece.author);
        message.parts.extend(piece.parts);
        if let Some(entries) = self.told.messages.last_mut() {
            entries.push(seq);
        }
        let ordinal = self.told.messages.len().saturating_sub(1);
        self.ordinals.insert(seq, ordinal);
        if let Some(open) = &mut self.open {
            open.last = seq;
            open.left = open.left.map(|left| left.saturating_sub(1));
        }
    }

    fn returned(&mut self, entry: &Entry, r: &Returned) -> Result<Step, Error> {
        let words = match r.rest {
            Some(_) => self.chat.text(entry.seq, 0)?,
            None => None,
        };
        let words = words.as_ref().and_then(json::object).unwrap_or_default();
        let failure = json::text_field(&words, "failure");
        let newest = self.last_call == Some(r.call);
        let serves = newest && self.serves(entry, r.call)?;
        if r.usage.is_some() && !serves {
            let count = if newest {
                &mut self.told.own_usage
            } else {
                &mut self.told.late_usage
            };
            *count = count.saturating_add(1);
        }
        let failed = || "failed".to_owned();
        Ok(Step::Returned {
            usage: r.usage.filter(|_| serves),
            failure: failure.or_else(|| r.failed.then(failed)),
            rest: inner(&words, "rest"),
            at: entry.at,
        })
    }

    /// Whether what was reported for a call measures what a replay without strategies would send. What
    /// an importer read measures the source's window, whatever became of it here.
    fn serves(&self, entry: &Entry, call: Seq) -> Result<bool, Error> {
        if entry.provenance != Provenance::Recorded {
            return Ok(true);
        }
        let quoted = self.quoted.is_some_and(|quote| quote < call);
        let whole = self.chat.with_projection(|p| {
            let sent = p.sent().binary_search_by_key(&call, |s| s.fact.seq).ok();
            let sent = sent.and_then(|at| p.sent().get(at));
            sent.is_some_and(|sent| p.is_whole(sent))
        })?;
        Ok(whole && !quoted)
    }

    fn noted(&self, entry: &Entry, n: &Noted) -> Result<Step, Error> {
        let content = match n.content {
            Some(_) => self.chat.text(entry.seq, 0)?,
            None => None,
        };
        Ok(Step::Noted {
            what: n.what.clone(),
            place: n.place.clone(),
            content,
            at: entry.at,
            warn: n.warn,
        })
    }

    /// An importer's edit is the step it came from. What the engine did by itself is left out.
    fn edited(&mut self, entry: &Entry, e: &Edited) -> Result<Option<Step>, Error> {
        if entry.by.door == Door::Engine {
            return Ok(None);
        }
        if entry.by.door == Door::Import
            && entry.key.is_some()
            && let Some(step) = self.of_source(entry, e)?
        {
            return Ok(Some(step));
        }
        self.told.edits = self.told.edits.saturating_add(1);
        Ok(Some(Step::Noted {
            what: "edit not applied".to_owned(),
            place: entry.seq.to_string(),
            content: Some(json::quoted(e.action.name())),
            at: entry.at,
            warn: false,
        }))
    }

    fn of_source(&self, entry: &Entry, e: &Edited) -> Result<Option<Step>, Error> {
        let at = entry.at;
        let index = u32::try_from(e.change.stand_ins.len()).unwrap_or(u32::MAX);
        let rest = match e.rest {
            Some(_) => self.chat.text(entry.seq, index)?,
            None => None,
        };
        let rest: Fields = rest.as_ref().and_then(json::object).unwrap_or_default();
        let claim = |s: &crate::log::StandIn| s.kind == StandInKind::Claim;
        if e.action == EditAction::Replace && e.change.stand_ins.first().is_some_and(claim) {
            return Ok(match self.chat.content(entry.seq, 0)? {
                Content::Message(summary) => Some(Step::Compacted {
                    summary: *summary,
                    rest,
                    at,
                }),
                Content::Redacted => None,
            });
        }
        let list = |name| json::field(&rest, name).and_then(json::array);
        if let (Some(calls), Some(marker)) = (list("calls"), json::text_field(&rest, "marker")) {
            let calls = calls.iter().filter_map(json::string).collect();
            return Ok(Some(Step::Cleared { calls, marker, at }));
        }
        Ok(list("gone").map(|gone| Step::Rewound {
            gone: gone.iter().filter_map(position).collect(),
            at,
        }))
    }
}

fn position(json: &Json) -> Option<usize> {
    json::integer(json).and_then(|n| usize::try_from(n).ok())
}

fn inner(fields: &Fields, name: &str) -> Fields {
    let value = json::field(fields, name);
    value.and_then(json::object).unwrap_or_default()
}

const fn is_result(body: &PartBody) -> bool {
    matches!(body, PartBody::Result { native: None, .. })
}
