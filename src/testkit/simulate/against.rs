//! Each log beside the model of it: what a request must do is said before it is looked at.

use std::collections::BTreeMap;

use super::execute::Outcome;
use crate::log::{Body, ConversationId, Entry, Seq, Visited};
use crate::testkit::ledger::{Kept, Ledger};
use crate::testkit::model::{Model, Predicted};
use crate::testkit::summaries::Answers;
use crate::testkit::{Answer, Request};

#[derive(Default)]
struct Beside {
    model: Model,
    /// What was asked for, with the number of entries there were after it.
    asked: Vec<(usize, Option<Request>)>,
}

impl Beside {
    fn entries(&self) -> usize {
        self.asked.last().map_or(0, |(entries, _)| *entries)
    }

    fn observe(
        &mut self,
        request: Option<&Request>,
        log: &[Entry],
        kept: &Kept,
    ) -> Result<(), String> {
        self.read(kept);
        let new = log.get(self.entries()..).unwrap_or_default();
        self.model.observe(request, new)?;
        self.asked.push((log.len(), request.cloned()));
        Ok(())
    }

    /// Shows the model the words of what is new.
    fn read(&mut self, kept: &Kept) {
        let new = kept.log.iter().zip(&kept.words).skip(self.entries());
        for (entry, words) in new {
            for (payload, message) in (0..).zip(words) {
                if let Some(message) = message {
                    self.model.read(entry.seq, payload, message.clone());
                }
            }
        }
    }
}

fn names_head(request: &Request) -> bool {
    match request {
        Request::Append(_, options) | Request::Call { options, .. } | Request::Visit(options) => {
            options.expected.is_some()
        }
        // What goes is said by the log, whoever knows how much of it.
        Request::Redact(_) => true,
        _ => false,
    }
}

/// The models of all logs.
#[derive(Default)]
pub(super) struct Against {
    models: BTreeMap<ConversationId, Beside>,
}

impl Against {
    /// Whether this is all of a log.
    pub(super) fn knows_all(&self, id: ConversationId, head: Option<Seq>) -> bool {
        let entries = self.models.get(&id).map_or(0, Beside::entries);
        let known = head.map_or(0, |head| head.0.saturating_add(1));
        usize::try_from(known) == Ok(entries)
    }

    /// A request came to something: it must be what the model says. A client that did not know all
    /// of the log (`behind`) may only have been told so.
    pub(super) fn answered(
        &mut self,
        id: ConversationId,
        kept: &Kept,
        request: &Request,
        (outcome, behind): (&Outcome, bool),
        answers: Answers,
    ) -> Result<(), String> {
        let Some(beside) = self.models.get_mut(&id) else {
            return Ok(());
        };
        let log = kept.log.as_slice();
        let new = log.get(beside.entries()..).unwrap_or_default();
        if behind {
            if new.is_empty() {
                return Ok(());
            }
            // Who says what was decided on knows the head, whatever the handle has seen of it.
            if !names_head(request) {
                return Err("a client wrote that did not know the head".to_owned());
            }
        }
        if matches!(outcome, Outcome::Failed(_)) && new.is_empty() {
            return Ok(()); // how an output would have been cut is not there to be looked at
        }
        let visits: Vec<&Visited> = new.iter().filter_map(|e| e.body.visit()).collect();
        beside.read(kept);
        beside.model.summaries(answers, Vec::new());
        let predicted = beside.model.predict(request, &visits)?;
        match outcome {
            Outcome::Done => predicted.matches(Answer::Done, new)?,
            Outcome::Refused(reason) => predicted.matches(Answer::Refused(*reason), new)?,
            // All of what was asked for was written, or the call without its report, or what came
            // before a summariser was asked.
            Outcome::Failed(_) => {
                cut_off(predicted, new.len()).matches(Answer::Done, new)?;
            }
        }
        beside.observe(Some(request), log, kept)
    }

    /// A log was forked: what the fork begins with must be what the model says.
    pub(super) fn forked(
        &mut self,
        parent: ConversationId,
        kept: &Kept,
        request: &Request,
        at: Seq,
    ) -> Result<(), String> {
        let Some(parent) = self.models.get(&parent) else {
            return Ok(());
        };
        let shared = usize::try_from(at.next().0).unwrap_or(usize::MAX);
        let new = kept.log.get(shared..).unwrap_or_default();
        parent
            .model
            .predict(request, &[])?
            .matches(Answer::Done, new)?;
        let mut fork = Beside {
            model: parent.model.clone(),
            asked: Vec::new(),
        };
        for (entries, request) in &parent.asked {
            fork.asked.push((shared.min(*entries), request.clone()));
            if *entries >= shared {
                break;
            }
        }
        fork.observe(Some(request), &kept.log, kept)?;
        self.models.insert(kept.listed.conversation, fork);
        Ok(())
    }

    /// Takes in what was written by anything but a request that is compared.
    pub(super) fn follow(&mut self, ledger: &Ledger) -> Result<(), String> {
        for (id, kept) in &ledger.logs {
            let beside = self.models.entry(*id).or_default();
            if kept.log.len() > beside.entries() {
                beside.observe(None, &kept.log, kept)?;
            }
            beside.model.lose(&kept.gone);
        }
        Ok(())
    }

    /// Begins again with what survived.
    pub(super) fn restart(&mut self, ledger: &Ledger) -> Result<(), String> {
        for (id, before) in std::mem::take(&mut self.models) {
            let Some(kept) = ledger.logs.get(&id) else {
                continue;
            };
            let mut beside = Beside::default();
            for (entries, request) in before.asked {
                match kept.log.get(..entries) {
                    Some(log) => beside.observe(request.as_ref(), log, kept)?,
                    None => break,
                }
            }
            self.models.insert(id, beside);
        }
        self.follow(ledger)
    }
}

/// A call and the report of it are two requests; and what a summariser answers is written apart from
/// what came before.
fn cut_off(predicted: Predicted, written: usize) -> Predicted {
    let Predicted::Done(mut entries) = predicted else {
        return predicted;
    };
    let report = entries
        .last()
        .is_some_and(|e| matches!(e.body, Body::Returned(_)));
    if report && entries.len() == written.saturating_add(1) {
        entries.pop();
    }
    let asked = |e: &Entry| e.body.visit().is_some_and(|v| !v.attempts.is_empty());
    if entries.get(written).is_some_and(asked) {
        entries.truncate(written);
    }
    Predicted::Done(entries)
}
