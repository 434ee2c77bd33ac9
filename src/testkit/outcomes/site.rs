//! A store in which requests are made under a fault, and what is demanded of it afterwards.

use std::sync::Arc;

use super::Told;
use crate::audit;
use crate::engine::{Adopted, Conversation, Error, LoadedWindow, Options, Redact, Seeded, Store};
use crate::formats::{Link, Step, Transcript};
use crate::log::{
    Author, ConversationId, Hash, Json, Message, MessageId, Micros, Part, Role, Seq, entry, payload,
};
use crate::store::{Backend, Level, Listed};
use crate::strategy::SlidingWindow;
use crate::testkit::fault::{Delivery, Fault, FaultStore, Verb};
use crate::testkit::ledger::{End, Kept, Ledger};

/// What a request came to.
pub(super) enum Answer {
    /// Acknowledged at this level; `None`: it only read.
    Done(Option<Level>),
    /// A typed error.
    Failed,
}

pub(super) struct Site {
    pub(super) medium: FaultStore,
    environment: Arc<Seeded>,
    store: Store,
    chat: Conversation,
    id: ConversationId,
    level: Level,
    ledger: Ledger,
    /// The window before the fault, with its words.
    before: LoadedWindow,
    /// The log with a payload of entry 2 redacted elsewhere.
    redacted: Vec<Adopted>,
    /// The entries that mention blobs.
    mentions: Vec<Seq>,
    /// A payload was asked to be destroyed, and that was acknowledged.
    destroying: bool,
    destroyed: bool,
}

/// A text that is stored as a blob.
fn large(letter: &str) -> Message {
    let text = letter.repeat(payload::BLOB_BYTES_MIN.saturating_add(10));
    Message::new(Role::User, Author::Person, vec![Part::text(text)])
}

fn failed(error: &Error) -> String {
    error.to_string()
}

fn store_on(medium: &FaultStore, environment: &Arc<Seeded>, level: Level) -> Store {
    let store = Store::on(Arc::new(medium.clone())).with_level(level);
    store.with_environment(Arc::<Seeded>::clone(environment))
}

impl Site {
    /// Two conversations, all of them on the medium.
    pub(super) fn prepare(fault: Fault) -> Result<Self, String> {
        // A late write is one that nobody synced.
        let level = match fault {
            Fault::LateWrite => Level::Buffered,
            _ => Level::Synced,
        };
        let medium = FaultStore::new(1);
        let environment = Arc::new(Seeded::new(1, Micros(0)));
        let store = store_on(&medium, &environment, level);
        let chat = fill(&store).map_err(|e| failed(&e))?;
        let redacted = redacted(&chat)?;
        // The log says so already, and the words are still there: what is left is to destroy them.
        let mut announced = redacted.clone();
        for entry in &mut announced {
            let seq = entry.sealed.entry.seq;
            for (index, payload) in (0_u32..).zip(&mut entry.payloads) {
                if payload.is_none() {
                    let held = medium.view().payload(chat.id(), seq, index);
                    *payload = held.map_err(|e| e.to_string())?;
                }
            }
        }
        store
            .adopt(announced.as_slice(), None)
            .map_err(|e| failed(&e))?;
        let chat = store.existing("a").map_err(|e| failed(&e))?;
        medium.sync(Level::Synced).map_err(|e| e.to_string())?;
        let mut ledger = Ledger::default();
        ledger.observe(&medium.view()).map_err(|(_, what)| what)?;
        ledger.promise(Level::Synced);
        let id = chat.id();
        let window = chat.window().and_then(|w| chat.load(w));
        let before = window.map_err(|e| failed(&e))?;
        Ok(Self {
            environment,
            store,
            chat,
            id,
            level,
            ledger,
            before,
            redacted,
            mentions: vec![Seq(3)],
            destroying: false,
            destroyed: false,
            medium,
        })
    }

    /// The request of the engine that uses a verb; where none does yet, the verb itself.
    pub(super) fn request(&mut self, verb: Verb) -> Result<Answer, String> {
        let (written, read) = (Some(self.level), None);
        let chat = &self.chat;
        let fresh = store_on(&self.medium, &self.environment, self.level);
        let answer: Result<Option<Level>, Error> = match verb {
            Verb::Append => chat.append(Message::model("next")).map(|_| written),
            Verb::Head => fresh.existing("a").map(|_| read),
            Verb::DurableHead => said_again(chat).map(|()| written),
            Verb::Entries => chat.entry(Seq(1)).map(|_| read),
            Verb::Payload | Verb::Blob => return self.words(),
            Verb::DestroyPayload => {
                let adopted = fresh.adopt(self.redacted.as_slice(), None);
                (self.destroying, self.destroyed) = (true, adopted.is_ok());
                adopted.map(|_| written)
            }
            Verb::List => fresh.list().map(|_| read),
            Verb::Find => fresh.conversation("a").map(|_| read),
            Verb::PutBlob => {
                self.mentions.push(self.next());
                chat.append(large("y")).map(|_| written)
            }
            Verb::Sync => import(&fresh).map(|()| written),
            Verb::Check => audit::verify(&fresh, &listed(chat), &mut |_, _| {}).map(|_| read),
            Verb::SweepBlobs | Verb::PutDerived | Verb::Derived | Verb::DerivedBefore => {
                self.verb(verb)
            }
        };
        Ok(match answer {
            Ok(level) => Answer::Done(level),
            Err(_) => Answer::Failed,
        })
    }

    /// The verbs that no request uses yet.
    fn verb(&self, verb: Verb) -> Result<Option<Level>, Error> {
        let mentioned = self.blobs()?;
        match verb {
            Verb::SweepBlobs => {
                let keep = |address: &Hash| mentioned.contains(address);
                self.medium.sweep_blobs(self.id, &keep)?;
            }
            Verb::PutDerived => self.medium.put_derived(self.id, "cache", b"newer")?,
            Verb::DerivedBefore => drop(self.medium.derived_before(self.id, "c", "cache")?),
            _ => drop(self.medium.derived(self.id, "cache")?),
        }
        Ok(None)
    }

    /// The blobs that the log mentions.
    fn blobs(&self) -> Result<Vec<Hash>, Error> {
        let words = self.medium.view().payload(self.id, Seq(3), 0)?;
        let blobs = words.map(|p| payload::blobs_of(&p.bytes)).transpose()?;
        Ok(blobs.unwrap_or_default())
    }

    /// Reads words: they are those that were written, or it fails.
    fn words(&self) -> Result<Answer, String> {
        match self.chat.load(self.before.window.clone()) {
            Err(_) => Ok(Answer::Failed),
            Ok(found) if found == self.before => Ok(Answer::Done(None)),
            Ok(_) => Err("words were given that nobody wrote".to_owned()),
        }
    }

    fn next(&self) -> Seq {
        self.ledger.logs.get(&self.id).map_or(Seq(0), Kept::next)
    }

    /// One more message.
    pub(super) fn follow(&self) -> Answer {
        match self.chat.append(Message::model("after")) {
            Ok(_) => Answer::Done(Some(self.level)),
            Err(_) => Answer::Failed,
        }
    }

    /// Notes what was written and promised.
    pub(super) fn observe(&mut self, answer: &Answer, fault: Fault) -> Result<(), String> {
        let seen = self.ledger.observe(&self.medium.view());
        // A rotten entry is no more what was written; what it was is noted already.
        if let Err((_, problem)) = seen
            && fault != Fault::RottenEntry
        {
            return Err(problem);
        }
        if let Answer::Done(Some(level)) = answer {
            self.ledger.promise(*level);
        }
        Ok(())
    }

    /// Ends the process and opens the store again.
    pub(super) fn reopen(&mut self, end: End, keep: usize) -> Result<(), String> {
        self.medium = match end {
            End::Cut => self.medium.power_cut(keep),
            End::Killed => self.medium.kill(keep),
            End::Closed => self.medium.reopen(),
        };
        self.medium.make_room();
        self.store = store_on(&self.medium, &self.environment, Level::Synced);
        let dead = self.chat.append(Message::model("from a dead process"));
        match dead {
            Err(_) => Ok(()),
            Ok(_) => Err("a dead handle wrote".to_owned()),
        }
    }

    /// What is demanded of every log; gives what tells of damage, where there is any.
    pub(super) fn judge(
        &self,
        fault: Fault,
        end: End,
        delivered: &[Delivery],
    ) -> Result<Option<Told>, String> {
        let mut worst = None;
        for kept in self.ledger.logs.values() {
            let verified = audit::verify(&self.store, &kept.listed, &mut |_, _| {});
            let verified = verified.map_err(|e| format!("verify: {e}"))?;
            let name = &kept.listed.name.name;
            if verified.ok {
                let left = self
                    .whole(kept)
                    .map_err(|e| format!("'{name}' verifies, but {e}"))?;
                if left < kept.promised(end) {
                    worst = worst.max(Some(Told::Acknowledgement));
                }
            } else {
                self.placed(kept, verified.first_bad, delivered)?;
                self.no_wrong_answer(kept)?;
                worst = worst.max(Some(Told::Verify));
            }
        }
        if worst != Some(Told::Verify) && self.came_back()? {
            worst = worst.max(Some(Told::Acknowledgement));
        }
        if worst.is_some() && !fault.lies() {
            return Err(format!(
                "a store that keeps its contract lost something: {worst:?}"
            ));
        }
        Ok(worst)
    }

    /// Whether a payload is there whose destruction was acknowledged.
    fn came_back(&self) -> Result<bool, String> {
        let found = self.medium.payload(self.id, Seq(2), 0);
        Ok(self.destroyed && found.map_err(|e| e.to_string())?.is_some())
    }

    /// A log that verifies: every entry is one that was written, its window is the one there was,
    /// and it goes on.
    fn whole(&self, kept: &Kept) -> Result<usize, String> {
        let id = kept.listed.conversation;
        let left = self.ledger.survived(id, &self.medium)?;
        if left == 0 {
            return Ok(0);
        }
        let chat = self
            .store
            .by_id(kept.listed.clone())
            .map_err(|e| failed(&e))?;
        let window = chat.window().map_err(|e| failed(&e))?;
        if Some(window.digest) != kept.digest(left) {
            return Err("its window is another".to_owned());
        }
        if id == self.id && window.at == self.before.window.at && !self.destroying {
            let loaded = chat.load(window).map_err(|e| failed(&e))?;
            if loaded != self.before {
                return Err("its words are others".to_owned());
            }
        }
        chat.append(Message::model("on")).map_err(|e| failed(&e))?;
        let verified = audit::verify(&self.store, &kept.listed, &mut |_, _| {});
        let verified = verified.map_err(|e| failed(&e))?;
        if !verified.ok {
            return Err(format!("not after one more entry: {:?}", verified.problems));
        }
        Ok(left)
    }

    /// Damage is named where it is.
    fn placed(
        &self,
        kept: &Kept,
        found: Option<Seq>,
        delivered: &[Delivery],
    ) -> Result<(), String> {
        let of_log = delivered
            .iter()
            .filter(|d| d.conversation == Some(kept.listed.conversation));
        let right = |d: &Delivery| match d.seq {
            Some(seq) => found == Some(seq),
            None => found.is_some_and(|f| self.mentions.contains(&f)),
        };
        if of_log.clone().any(right) {
            return Ok(());
        }
        let at: Vec<Option<Seq>> = of_log.map(|d| d.seq).collect();
        Err(format!("verify says {found:?}, the damage is at {at:?}"))
    }

    /// A damaged log answers with an error, or with what is right.
    fn no_wrong_answer(&self, kept: &Kept) -> Result<(), String> {
        let Ok(chat) = self.store.by_id(kept.listed.clone()) else {
            return Ok(());
        };
        let Ok(window) = chat.window() else {
            return Ok(());
        };
        let left = window.at.map_or(0, |at| at.0.saturating_add(1));
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        if Some(window.digest) != kept.digest(left) {
            return Err("a damaged log gave a window there never was".to_owned());
        }
        if kept.listed.conversation != self.id {
            return Ok(());
        }
        match chat.load(self.before.window.clone()) {
            Ok(loaded) if loaded != self.before && !self.destroying => {
                Err("a damaged log gave words that nobody wrote".to_owned())
            }
            _ => Ok(()),
        }
    }
}

fn listed(chat: &Conversation) -> Listed {
    Listed {
        name: crate::store::Name {
            namespace: vec!["default".to_owned()],
            name: chat.name().to_owned(),
        },
        conversation: chat.id(),
    }
}

/// What the requests are made on: entry 0 opens, 1 configures, 3 mentions a blob.
fn fill(store: &Store) -> Result<Conversation, Error> {
    let other = store.conversation("b")?;
    other.append(Message::person("elsewhere"))?;
    let chat = store
        .conversation("a")?
        .with_strategy(SlidingWindow::new(3))?;
    chat.append(Message::system("You help."))?;
    chat.append(large("x"))?;
    let key = Options {
        key: Some("once".to_owned()),
        ..Options::default()
    };
    chat.append_with(Message::model("said once"), &key)?;
    chat.append(Message::calls(vec![Part::call("c", "look", "{}")]))?;
    chat.append(Message::tool("c", "found"))?;
    chat.set_request("openai-chat", Some("m"), &Json("{\"n\":1}".to_owned()))?;
    let call = chat.call()?;
    chat.returned(call.id, None)?;
    chat.note("seen", Some(&Json("{\"x\":1}".to_owned())))?;
    let backend = store.backend();
    backend.put_blob(chat.id(), Hash([7; 32]), b"mentioned by nothing")?;
    backend.put_derived(chat.id(), "cache", b"older")?;
    Ok(chat)
}

/// The same request under the same key.
fn said_again(chat: &Conversation) -> Result<(), Error> {
    let key = Options {
        key: Some("once".to_owned()),
        ..Options::default()
    };
    chat.append_with(Message::model("said once"), &key)?;
    Ok(())
}

fn import(store: &Store) -> Result<(), Error> {
    let message = |message| Step::Message {
        message,
        at: None,
        link: Link::None,
    };
    let steps = vec![
        message(Message::person("asked elsewhere")),
        Step::Called {
            model: None,
            at: None,
        },
        message(Message::model("answered elsewhere")),
    ];
    let transcript = Transcript {
        format: "openai-chat",
        id: None,
        steps,
        ..Transcript::default()
    };
    store.import("c", &transcript, Vec::new(), &mut |_| {})?;
    Ok(())
}

/// The log as another store gives it that redacted entry 2.
fn redacted(chat: &Conversation) -> Result<Vec<Adopted>, String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let mut lines = Vec::new();
    audit::export(chat, &mut lines).map_err(|e| told(&e))?;
    let lines = String::from_utf8(lines).map_err(|e| told(&e))?;
    let mut lines = lines.lines().map(|line| Ok(line.to_owned()));
    let elsewhere = Store::in_memory();
    let (chat, _) = audit::import_lines(&elsewhere, &mut lines, None).map_err(|e| told(&e))?;
    chat.redact(Redact::Message(MessageId(Seq(2))))
        .map_err(|e| told(&e))?;
    let backend = elsewhere.backend();
    let mut entries = Vec::new();
    let show = &mut |_, bytes: &[u8]| {
        entries.extend(entry::open(bytes));
        std::ops::ControlFlow::Continue(())
    };
    let read = backend.entries(chat.id(), Seq(0), Seq(u64::MAX), show);
    read.map_err(|e| e.to_string())?;
    let adopted = entries.into_iter().map(|sealed| {
        let seq = sealed.entry.seq;
        let indices = (0_u32..).zip(sealed.entry.body.commitments());
        let payloads = indices.map(|(index, _)| backend.payload(chat.id(), seq, index));
        let payloads: Result<Vec<_>, _> = payloads.collect();
        Ok(Adopted {
            sealed,
            payloads: payloads.map_err(|e| e.to_string())?,
            blobs: Vec::new(),
        })
    });
    adopted.collect()
}
