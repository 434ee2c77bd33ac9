//! A prediction, and its comparison with what came.

use super::decide::BLANK;
use crate::log::{Body, ConversationId, Entry, Hash, RequestReason};
use crate::testkit::world::Answer;

/// What must become of a request.
#[derive(Clone, PartialEq, Debug)]
pub enum Predicted {
    /// It is refused, and nothing is written.
    Refused(RequestReason),
    /// It writes these entries; contents, hashes and unknown times are blank.
    Done(Vec<Entry>),
}

impl Predicted {
    /// Compares with what the engine answered and the log got.
    ///
    /// # Errors
    /// What differs, as a text for a person.
    pub fn matches(&self, answer: Answer, entries: &[Entry]) -> Result<(), String> {
        let predicted = match (self, answer) {
            (Self::Refused(reason), Answer::Refused(answered)) if *reason == answered => &[][..],
            (Self::Done(predicted), Answer::Done) => predicted,
            (Self::Refused(reason), answer) => {
                return Err(format!("refused as {reason} by the model; {answer:?}"));
            }
            (Self::Done(_), Answer::Refused(reason)) => {
                return Err(format!("done by the model; refused as {reason}"));
            }
        };
        if predicted.len() != entries.len() {
            let kinds = |es: &[Entry]| {
                let kinds = es.iter().filter_map(|e| Some(e.body.kind()?.name()));
                kinds.collect::<Vec<_>>().join(", ")
            };
            let (by_model, filed) = (kinds(predicted), kinds(entries));
            return Err(format!(
                "the model files [{by_model}], the log got [{filed}]"
            ));
        }
        for (predicted, entry) in predicted.iter().zip(entries) {
            let entry = blanked(entry, predicted.at.is_some());
            if *predicted != entry {
                let (model, log) = difference(predicted, &entry);
                return Err(format!("{} differs\nmodel: {model}\nlog: {log}", entry.seq));
            }
        }
        Ok(())
    }
}

/// An entry without what nobody can foresee.
fn blanked(entry: &Entry, timed: bool) -> Entry {
    let mut entry = entry.clone();
    entry.conversation = ConversationId([0; 16]);
    entry.prev = Hash::ZERO;
    entry.at = entry.at.filter(|_| timed);
    match &mut entry.body {
        Body::Appended(a) => a.content = BLANK,
        Body::Called(c) => c.window = Hash::ZERO,
        Body::Configured(c) => c.settings.iter_mut().for_each(|s| s.content = BLANK),
        Body::Returned(r) => r.rest = r.rest.map(|_| BLANK),
        Body::Visited(v) => {
            let stand_ins = v.change.stand_ins.iter_mut();
            stand_ins.for_each(|s| s.content = BLANK);
            // They are over commitments, which salts went into.
            let attempts = v.attempts.iter_mut();
            attempts.for_each(|a| (a.digest, a.prompt) = (Hash::ZERO, Hash::ZERO));
        }
        Body::Edited(e) => {
            let stand_ins = e.change.stand_ins.iter_mut();
            stand_ins.for_each(|s| s.content = BLANK);
            e.rest = e.rest.map(|_| BLANK);
        }
        Body::Opened(o) => {
            o.name.clear();
            o.secret = BLANK;
            o.fork
                .iter_mut()
                .for_each(|f| f.parent = ConversationId([0; 16]));
        }
        Body::Noted(n) => n.content = n.content.map(|_| BLANK),
        _ => {}
    }
    entry
}

/// Where the texts of two values differ, from the first line to the last that does.
fn difference(a: &Entry, b: &Entry) -> (String, String) {
    let lines = |e: &Entry| -> Vec<String> {
        let text = format!("{e:#?}");
        text.lines().map(|l| l.trim().to_owned()).collect()
    };
    let (a, b) = (lines(a), lines(b));
    let same = |(x, y): &(&String, &String)| x == y;
    let front = a.iter().zip(&b).take_while(same).count();
    let back = a.iter().rev().zip(b.iter().rev()).take_while(same).count();
    let context = front.saturating_sub(3);
    let shown = |lines: &[String]| {
        let most = lines.len().saturating_sub(context);
        let count = lines
            .len()
            .saturating_sub(back)
            .saturating_sub(context)
            .saturating_add(3);
        let shown = lines.iter().skip(context).take(count.min(most));
        shown.map(String::as_str).collect::<Vec<_>>().join(" ")
    };
    (shown(&a), shown(&b))
}
