//! `grep`: which messages hold a text, in any content they had, and at which calls the model could see
//! it. The log is read through once; what is held is the window and the messages that match.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range};

use serde::Serialize;

use super::cause::Cause;
use super::walk::{Did, walk};
use super::why::Moment;
use crate::engine::{Content, Conversation, Error};
use crate::log::{
    Author, Body, Entry, Iteration, MessageId, Role, Seq, Skeleton, StandIn, StandInKind,
};
use crate::window::{Outline, is_message};

/// Characters that are shown before and after what was found.
const AROUND: usize = 40;
/// Characters of what was found that are shown.
const FOUND: usize = 200;

/// What is looked for.
pub struct Sought<'a> {
    /// Finds the text in the words of a message.
    pub find: &'a dyn Fn(&str) -> Option<Range<usize>>,
    /// Which contents are looked at, by what is known of them without their words.
    pub of: &'a dyn Fn(&Skeleton) -> bool,
}

impl std::fmt::Debug for Sought<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sought").finish_non_exhaustive()
    }
}

/// Calls that could see the text in a message, one after another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Sight {
    /// The first of them.
    pub first: Iteration,
    /// The last of them.
    pub last: Iteration,
    /// The entry that ended it; absent where the newest call saw it still and nothing took it since.
    pub ended: Option<Cause>,
}

/// Where the text was found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Excerpt {
    /// Words before it.
    pub before: String,
    /// The text itself.
    pub found: String,
    /// Words behind it.
    pub after: String,
}

/// A message that holds the text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Hit {
    /// `ctxlog.grep/1`.
    pub schema: &'static str,
    /// The message.
    pub message: String,
    /// The entry that introduced it.
    pub entered: Moment,
    /// Who it speaks as.
    pub role: Role,
    /// Who wrote it.
    pub author: Author,
    /// The entries whose contents of it hold the text.
    pub forms: Vec<Seq>,
    /// The text in the first of them.
    pub excerpt: Excerpt,
    /// When the model could see it there.
    pub seen: Vec<Sight>,
    /// How many calls could.
    pub calls: u64,
    /// The first call that answered without it, after one that saw it.
    pub first_without: Option<Iteration>,
    /// Whether the window now shows it.
    pub visible: bool,
}

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The messages that hold the text, in the order of the log.
    pub hits: Vec<Hit>,
    /// Contents that were looked at.
    pub looked_at: u64,
    /// Contents whose words are gone.
    pub redacted: u64,
    /// Calls in the log.
    pub calls: u64,
    /// When the model could see the text in any message.
    pub seen: Vec<(Iteration, Iteration)>,
    /// The first call that could see it in none, after one that could.
    pub first_without: Option<Iteration>,
}

/// Looks for a text in every content that a message ever had, summaries and notices included. Request
/// settings, notes and failures of calls are not looked at. `progress` is told how many entries of how
/// many are done.
///
/// # Errors
/// When the log or its words are damaged; `unsupported-entry` where an unknown kind changes windows.
pub fn grep(
    chat: &Conversation,
    sought: &Sought<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Found, Error> {
    let head = chat.head()?.map_or(Seq(0), |h| h.seq);
    let entries = head.0.saturating_add(1);
    let mut search = Search::default();
    walk(
        chat,
        Outline::default(),
        head,
        &mut |entry, did, outline| {
            search.entry(chat, sought, entry)?;
            search.see(entry, did, outline);
            progress(entry.seq.0.saturating_add(1), entries);
            Ok(ControlFlow::Continue(()))
        },
    )?;
    Ok(search.found())
}

/// A message that matches, while the log is read.
struct Match {
    hit: Hit,
    /// The contents that hold the text: entry and payload.
    forms: BTreeSet<(Seq, u32)>,
    /// The call from which on the model can see it, while it can.
    since: Option<Iteration>,
}

#[derive(Default)]
struct Search {
    matches: BTreeMap<MessageId, Match>,
    looked_at: u64,
    redacted: u64,
    calls: u64,
}

impl Search {
    /// Looks at the contents that an entry gave.
    fn entry(
        &mut self,
        chat: &Conversation,
        sought: &Sought<'_>,
        entry: &Entry,
    ) -> Result<(), Error> {
        if let Body::Appended(a) = &entry.body {
            let id = MessageId(entry.seq);
            return self.content(chat, sought, entry, (id, 0, &a.skeleton));
        }
        let stand_ins = entry.body.change().map(|c| c.stand_ins.as_slice());
        for (payload, s) in (0_u32..).zip(stand_ins.unwrap_or_default()) {
            if let Some(id) = message_of(chat, entry, s)? {
                self.content(chat, sought, entry, (id, payload, &s.skeleton))?;
            }
        }
        Ok(())
    }

    fn content(
        &mut self,
        chat: &Conversation,
        sought: &Sought<'_>,
        entry: &Entry,
        (id, payload, skeleton): (MessageId, u32, &Skeleton),
    ) -> Result<(), Error> {
        if !(sought.of)(skeleton) {
            return Ok(());
        }
        self.looked_at = self.looked_at.saturating_add(1);
        let Content::Message(message) = chat.content_of(entry, payload)? else {
            self.redacted = self.redacted.saturating_add(1);
            return Ok(());
        };
        let words = message.words();
        let Some(at) = (sought.find)(&words) else {
            return Ok(());
        };
        let found = self.matches.entry(id).or_insert_with(|| Match {
            hit: Hit {
                schema: "ctxlog.grep/1",
                message: id.to_string(),
                entered: Moment {
                    seq: id.seq(),
                    iteration: entry.iteration,
                },
                role: message.role,
                author: skeleton.author,
                forms: Vec::new(),
                excerpt: excerpt(&words, at),
                seen: Vec::new(),
                calls: 0,
                first_without: None,
                visible: false,
            },
            forms: BTreeSet::new(),
            since: None,
        });
        found.hit.forms.push(entry.seq);
        found.forms.insert((entry.seq, payload));
        Ok(())
    }

    /// Notes which matches came into sight by an entry, and which went out of it.
    fn see(&mut self, entry: &Entry, did: &Did, outline: &Outline) {
        self.calls = outline.calls;
        if self.matches.is_empty() {
            return;
        }
        let left = did.left.iter().map(|(id, cause)| (*id, Some(cause)));
        let others = did.entered.iter().chain(&did.formed);
        for (id, cause) in left.chain(others.map(|id| (*id, None))) {
            let Some(found) = self.matches.get_mut(&id) else {
                continue;
            };
            let placed = outline.get(id).map(|p| (p.form, p.payload));
            let shows = placed.is_some_and(|form| found.forms.contains(&form));
            match (shows, found.since) {
                (true, None) => found.since = Some(Iteration(self.calls.saturating_add(1))),
                (false, Some(since)) => {
                    found.since = None;
                    let cause = cause.cloned();
                    let cause = cause.unwrap_or_else(|| Cause::of_form(entry, id));
                    found.seen(since, self.calls, Some(cause));
                }
                _ => {}
            }
        }
    }

    fn found(self) -> Found {
        let calls = self.calls;
        let mut hits = Vec::new();
        for (_, mut found) in self.matches {
            if let Some(since) = found.since {
                found.hit.visible = true;
                found.seen(since, calls, None);
            }
            let first = found.hit.seen.first().map(|s| s.last);
            found.hit.first_without = next(first, calls);
            hits.push(found.hit);
        }
        let seen = union(&hits);
        Found {
            first_without: next(seen.first().map(|(_, last)| *last), calls),
            hits,
            looked_at: self.looked_at,
            redacted: self.redacted,
            calls,
            seen,
        }
    }
}

impl Match {
    /// Calls from `since` to the newest saw it, where there was one.
    fn seen(&mut self, since: Iteration, calls: u64, ended: Option<Cause>) {
        let Some(more) = calls.checked_sub(since.0) else {
            return;
        };
        self.hit.calls = self.hit.calls.saturating_add(more).saturating_add(1);
        let last = Iteration(calls);
        let before = self.hit.seen.last_mut();
        match before.filter(|s| s.last.0.saturating_add(1) == since.0) {
            // It was away between two calls: none answered without it.
            Some(sight) => (sight.last, sight.ended) = (last, ended),
            None => self.hit.seen.push(Sight {
                first: since,
                last,
                ended,
            }),
        }
    }
}

/// The message whose content a stand-in is: of a form for several, the first of them.
fn message_of(chat: &Conversation, entry: &Entry, s: &StandIn) -> Result<Option<MessageId>, Error> {
    if s.kind != StandInKind::Form {
        return Ok(Some(MessageId(entry.seq)));
    }
    let mut found = None;
    for (first, last) in &s.sources.0 {
        if first == last {
            return Ok(Some(MessageId(*first)));
        }
        let store = chat.store();
        store.entries(chat.id(), *first, (*last).min(entry.seq), &mut |sealed| {
            found = is_message(&sealed.entry.body).then_some(MessageId(sealed.entry.seq));
            match found {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            }
        })?;
        if found.is_some() {
            break;
        }
    }
    Ok(found)
}

fn next(last: Option<Iteration>, calls: u64) -> Option<Iteration> {
    last.filter(|last| last.0 < calls)
        .map(|last| Iteration(last.0.saturating_add(1)))
}

/// Ranges of calls that saw any of the messages.
fn union(hits: &[Hit]) -> Vec<(Iteration, Iteration)> {
    let sights = hits.iter().flat_map(|h| &h.seen);
    let mut all: Vec<_> = sights.map(|s| (s.first, s.last)).collect();
    all.sort_unstable();
    let mut union: Vec<(Iteration, Iteration)> = Vec::new();
    for (first, last) in all {
        match union.last_mut() {
            Some(before) if first.0 <= before.1.0.saturating_add(1) => {
                before.1 = before.1.max(last);
            }
            _ => union.push((first, last)),
        }
    }
    union
}

fn excerpt(words: &str, at: Range<usize>) -> Excerpt {
    let part = |range: Range<usize>| words.get(range).unwrap_or_default();
    let (before, after) = (part(0..at.start), part(at.end..words.len()));
    let mut near: Vec<char> = before.chars().rev().take(AROUND).collect();
    near.reverse();
    Excerpt {
        before: near.into_iter().collect(),
        found: part(at).chars().take(FOUND).collect(),
        after: after.chars().take(AROUND).collect(),
    }
}
