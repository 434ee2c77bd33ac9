//! What is left in a directory, against what was promised.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use crate::audit;
use crate::engine::{Content, Conversation, Store};
use crate::log::{Hash, Message, Seq};
use crate::store::{Level, Listed, SledStore};
use crate::testkit::Trouble;

use super::child::Acked;

/// What a look at a directory found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Survey {
    /// Entries that had to be there.
    pub promised: u64,
    /// Those of them that are not, or not as they were.
    pub lost: u64,
    /// What does not hang together, in words.
    pub problems: Vec<String>,
    /// What was appended and read back: promised from now on.
    pub probes: Vec<Acked>,
}

/// Opens the store at `dir`, looks for everything that was promised, verifies every log, appends to
/// each and reads that back. A store that does not open has lost all.
pub fn survey(dir: &Path, promised: &[Acked]) -> Survey {
    let entries = promised.iter().map(Acked::entries);
    let mut survey = Survey {
        promised: entries.fold(0, u64::saturating_add),
        ..Survey::default()
    };
    match SledStore::open(dir) {
        Ok(backend) => look(&Store::on(Arc::new(backend)), promised, &mut survey),
        Err(error) => {
            survey.lost = survey.promised;
            survey
                .problems
                .push(format!("the store does not open: {error}"));
        }
    }
    survey
}

fn look(store: &Store, promised: &[Acked], survey: &mut Survey) {
    match store.backend().check(None) {
        Ok(found) => survey
            .problems
            .extend(found.iter().map(ToString::to_string)),
        Err(error) => survey.problems.push(error.to_string()),
    }
    let listed = store.list().unwrap_or_else(|error| {
        survey.problems.push(error.to_string());
        Vec::new()
    });
    let mut of_log: BTreeMap<&str, Vec<&Acked>> = BTreeMap::new();
    for ack in promised {
        of_log.entry(&ack.log).or_default().push(ack);
    }
    for (log, acks) in of_log {
        let there = listed.iter().find(|l| l.name.name == log);
        let hashes = there
            .map(|l| hashes(store, l, &acks, survey))
            .unwrap_or_default();
        for ack in acks {
            if hashes.get(&ack.last) != Some(&ack.hash) {
                survey.lost = survey.lost.saturating_add(ack.entries());
                survey
                    .problems
                    .push(format!("lost: {} of {log}, {:?}", ack.last, ack.level));
            }
        }
    }
    // A store without a log must take one.
    let listed = if listed.is_empty() {
        first_log(store, survey)
    } else {
        listed
    };
    for one in listed {
        match verify_and_probe(store, &one, survey) {
            Ok(probe) => survey.probes.push(probe),
            Err(error) => survey
                .problems
                .push(format!("'{}': {error}", one.name.name)),
        }
    }
}

fn first_log(store: &Store, survey: &mut Survey) -> Vec<Listed> {
    let made = store.conversation("first").and_then(|_| store.list());
    made.unwrap_or_else(|error| {
        survey
            .problems
            .push(format!("a first log cannot be made: {error}"));
        Vec::new()
    })
}

/// The hashes of a log's entries, as far as acknowledgements speak of them.
fn hashes(
    store: &Store,
    listed: &Listed,
    acks: &[&Acked],
    survey: &mut Survey,
) -> HashMap<Seq, Hash> {
    let from = acks.iter().map(|a| a.first).min().unwrap_or_default();
    let to = acks.iter().map(|a| a.last).max().unwrap_or_default();
    let mut hashes = HashMap::new();
    let read = store.entries(listed.conversation, from, to, &mut |sealed| {
        let head = sealed.head();
        hashes.insert(head.seq, head.hash);
        ControlFlow::Continue(())
    });
    survey.problems.extend(read.err().map(|e| e.to_string()));
    hashes
}

/// Verifies a log, appends to it, and reads the appended back.
fn verify_and_probe(store: &Store, listed: &Listed, survey: &mut Survey) -> Result<Acked, Trouble> {
    let name = &listed.name.name;
    let verified = audit::verify(store, listed, &mut |_, _| {})?;
    if !verified.ok {
        survey
            .problems
            .push(format!("'{name}' does not verify: {:?}", verified.problems));
    }
    let chat = store.by_id(listed.clone())?;
    let words = format!("after {:?}", verified.head);
    let ack = chat.append(Message::person(words.clone()))?;
    let head = chat.head()?.filter(|head| head.seq == ack.last);
    let stored = store.backend().head(listed.conversation)?;
    let (Some(head), true) = (head, head == stored) else {
        return Err(Trouble::harness(
            "the head is not the entry that was appended",
        ));
    };
    if !says(&chat, ack.last, &words)? {
        return Err(Trouble::harness("what was appended reads differently"));
    }
    let (first, last, hash) = (ack.first, ack.last, head.hash);
    Ok(Acked {
        log: name.clone(),
        first,
        last,
        hash,
        level: Level::Synced,
    })
}

fn says(chat: &Conversation, seq: Seq, words: &str) -> Result<bool, Trouble> {
    Ok(match chat.content(seq, 0)? {
        Content::Message(message) => message.words() == words,
        Content::Redacted => false,
    })
}
