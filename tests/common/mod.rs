//! A small driver: lays the messages of a transcript out as the items of a window.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod data;

use std::path::Path;

use ctxlog::formats::input::{Piece, pieces};
use ctxlog::formats::{Item, Link, Step, Transcript};
use ctxlog::log::{Message, Part, PartBody, Seq};

/// The pieces of a file.
pub fn pieces_of(file: &Path) -> Vec<Piece> {
    let text = std::fs::read(file).unwrap();
    pieces(text.as_slice(), "file", 1 << 30)
        .map(Result::unwrap)
        .collect()
}

/// A message with what a log knows about it.
pub struct Logged {
    pub seq: Seq,
    pub message: Message,
    pub continues: Option<Seq>,
    pub same_source: Option<Seq>,
    pub answers: Vec<Option<(Seq, u32)>>,
}

/// Messages as a log would hold them, results bound to the newest open call of their id.
#[derive(Default)]
pub struct Log {
    pub messages: Vec<Logged>,
    open: Vec<((Seq, u32), Option<String>, String)>,
}

impl Log {
    pub fn of(messages: impl IntoIterator<Item = Message>) -> Self {
        let mut log = Self::default();
        messages.into_iter().for_each(|m| log.push(m, Link::None));
        log
    }

    pub fn push(&mut self, message: Message, link: Link) {
        let seq = Seq(10 + self.messages.len() as u64);
        let linked = |n: usize| Some(self.messages[n].seq);
        let (continues, same_source) = match link {
            Link::None => (None, None),
            Link::Continues(n) => (linked(n), None),
            Link::SameSource(n) => (None, linked(n)),
        };
        let answers = message
            .parts
            .iter()
            .zip(0..)
            .map(|(p, n)| self.bind(seq, n, p))
            .collect();
        self.messages.push(Logged {
            seq,
            message,
            continues,
            same_source,
            answers,
        });
    }

    fn bind(&mut self, seq: Seq, at: u32, part: &Part) -> Option<(Seq, u32)> {
        match &part.body {
            PartBody::Call { id, name, .. } => {
                self.open.push(((seq, at), id.clone(), name.clone()));
                None
            }
            PartBody::Result {
                call,
                name,
                interim,
                ..
            } => {
                let asked = |(_, id, called): &((Seq, u32), Option<String>, String)| match call {
                    Some(call) => id.as_ref() == Some(call),
                    None => id.is_none() && Some(called) == name.as_ref(),
                };
                // The first such call of the newest message that has one.
                let newest = self.open.iter().rfind(|open| asked(open))?.0.0;
                let first = |open: &((Seq, u32), _, _)| asked(open) && open.0.0 == newest;
                let found = self.open.iter().position(first)?;
                let key = self.open[found].0;
                if !interim {
                    self.open.remove(found);
                }
                Some(key)
            }
            _ => None,
        }
    }

    pub fn items(&self) -> Vec<Item<'_>> {
        self.messages.iter().map(item).collect()
    }
}

fn item(logged: &Logged) -> Item<'_> {
    Item {
        seq: logged.seq,
        message: &logged.message,
        continues: logged.continues,
        same_source: logged.same_source,
        answers: &logged.answers,
    }
}

/// The messages of a transcript: up to its last call that was answered or not (the request), or
/// all.
pub fn log_of(transcript: &Transcript, whole: bool) -> Log {
    let last_call = transcript
        .steps
        .iter()
        .rposition(|s| matches!(s, Step::Called { .. }));
    let end = match last_call {
        Some(n) if !whole && has_own_call(transcript) => n,
        _ => transcript.steps.len(),
    };
    let mut log = Log::default();
    for step in &transcript.steps[..end] {
        if let Step::Message { message, link, .. } = step {
            log.push(message.clone(), *link);
        }
    }
    log
}

/// Whether the transcript is the record of a call, not only of a history.
pub fn has_own_call(transcript: &Transcript) -> bool {
    transcript
        .steps
        .iter()
        .any(|s| matches!(s, Step::Returned { .. }))
}

/// The request settings of a transcript.
pub fn settings(transcript: &Transcript) -> Vec<(String, ctxlog::log::Json)> {
    let found = transcript.steps.iter().find_map(|s| match s {
        Step::Configured { settings, .. } => Some(settings.clone()),
        _ => None,
    });
    found.unwrap_or_default()
}
