//! Redaction: words are gone wherever they went, in every log that shares them, and nothing else is.
//! What has to go is reckoned by the model, from its own reading of the log.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::{Found, counted, demand};
use crate::audit::verify;
use crate::engine::{Content, Conversation, Redact, Store};
use crate::log::{
    BlockBody, Body, ConversationId, Entry, Hash, Head, Message, PartBody, Seq, payload,
};
use crate::testkit::case::Case;
use crate::testkit::model::{Model, messages_of};
use crate::testkit::script::{Op, Script, Speaker, Words};
use crate::testkit::world::{Answer, Failure, Request, World};
use crate::window::Window;

/// A payload, by the log that has its entry.
type Place = (ConversationId, u64, u32);

/// Of a text so many characters are looked for, and no shorter one.
const NEEDLE: (usize, usize) = (12, 48);

/// Redacting reaches all that was made of the words, in this log and in all that share it, and leaves
/// the rest: chains, windows and every other word.
pub(super) fn lineage(case: &Case<'_>) -> Found {
    let mut world = case.begin()?;
    let mut family = Family::default();
    family.read(&world)?;
    let script = case.script;
    for (n, op) in script.ops.iter().cloned().chain(after(script)).enumerate() {
        let redacts = matches!(op, Op::Redact(_) | Op::RedactAll);
        if redacts && script.pick(&format!("snapshots {n}"), 2) == 0 {
            world.take_snapshots(3)?;
        }
        let before = redacts.then(|| Held::of(&world, &family)).transpose()?;
        let mut asked = None;
        world.perform_seen(&op, |_, request, answer| {
            if let (Request::Redact(what), Answer::Done) = (request, answer) {
                asked = Some(*what);
            }
            Ok(())
        })?;
        if let (Some(before), Some(asked)) = (before, asked) {
            let told = |e: Failure| Failure::from(format!("'{op}', operation {n}: {e}"));
            before.is_gone(&world, &mut family, asked).map_err(told)?;
        }
        family.read(&world)?;
    }
    Ok(())
}

/// What is done after a script, so that each has something that was quoted, shared and destroyed.
fn after(script: &Script) -> Vec<Op> {
    let pick = |what: &str| script.pick(what, 1_000);
    let large = Words {
        text: "as large as what lies beside the log ".to_owned(),
        times: 2_000,
    };
    // Said twice, it lies there once.
    let large = vec![Op::Say(Speaker::Person, large); 2];
    let large = if script.pick("large", 4) == 0 {
        large
    } else {
        Vec::new()
    };
    let all = !large.is_empty() || script.pick("redact all", 8) == 0;
    let mut ops = large;
    ops.extend([
        Op::Recall(pick("recall")),
        Op::Redact(pick("redact")),
        Op::Fork {
            back: script.pick("fork", 20),
            close: true,
        },
        Op::Recall(pick("recall in a fork")),
        Op::Redact(pick("redact in a fork")),
    ]);
    ops.extend(all.then_some(Op::RedactAll));
    ops
}

/// All logs of a store, each as the model knows it.
#[derive(Default)]
struct Family {
    logs: BTreeMap<ConversationId, Model>,
}

impl Family {
    /// Reads what is new.
    fn read(&mut self, world: &World) -> Found {
        let mut listed = world.store.list()?;
        // A fork is known through the log that it left, which is older.
        let first = |id| world.store.backend().first(id);
        listed.sort_by_key(|l| first(l.conversation).ok().flatten());
        for listed in listed {
            let id = listed.conversation;
            let chat = world.store.by_id(listed)?;
            let mut model = match self.logs.remove(&id) {
                Some(model) => model,
                None => self.born(&chat)?,
            };
            let new = entries(&chat, Seq(model.next()))?;
            for entry in &new {
                for index in 0..messages_of(&entry.body) {
                    if let Content::Message(words) = chat.content(entry.seq, index)? {
                        model.read(entry.seq, index, *words);
                    }
                }
            }
            model.observe(None, &new)?;
            model.lose(&model.said_gone());
            self.logs.insert(id, model);
        }
        Ok(())
    }

    /// A log that was not there before: nothing, or what it shares.
    fn born(&self, chat: &Conversation) -> Result<Model, Failure> {
        let Some(point) = chat.forked()? else {
            return Ok(Model::new());
        };
        let parent = self.logs.get(&point.parent).ok_or("a fork of no log")?;
        Ok(parent.cut(point.at.0))
    }

    /// The payloads that must go.
    fn goes(&self, of: ConversationId, asked: Redact) -> Result<BTreeSet<Place>, Failure> {
        let own = self.logs.get(&of).ok_or("no such log")?;
        let mut all = BTreeSet::new();
        for model in self.logs.values() {
            let shared = shared(own, model);
            let goes = match asked {
                Redact::Message(id) if shared.contains(&id.0.0) => model.goes_with(id.0.0),
                Redact::Message(_) => BTreeSet::new(),
                Redact::Conversation => {
                    let made = shared.iter().flat_map(|seq| model.goes_with(*seq));
                    let words = places(model).filter(|(_, seq, _)| shared.contains(seq));
                    made.chain(words.map(|(_, seq, i)| (seq, i))).collect()
                }
            };
            let owned = places(model).filter(|(_, seq, i)| goes.contains(&(*seq, *i)));
            all.extend(owned);
        }
        Ok(all)
    }
}

/// The entries of a log, as far as another one has the same.
fn shared(one: &Model, other: &Model) -> BTreeSet<u64> {
    let both = one.entries().zip(other.entries());
    let same = both.take_while(|(a, b)| a.conversation == b.conversation);
    same.map(|(entry, _)| entry.seq.0).collect()
}

/// Every payload of a log but the secrets.
fn places(model: &Model) -> impl Iterator<Item = Place> {
    let words = model
        .entries()
        .filter(|e| !matches!(e.body, Body::Opened(_)));
    words.flat_map(|e| {
        let indexes = (0..).zip(e.body.commitments());
        indexes.map(|(index, _)| (e.conversation, e.seq.0, index))
    })
}

fn entries(chat: &Conversation, from: Seq) -> Result<Vec<Entry>, Failure> {
    let mut all = Vec::new();
    let to = chat.head()?.map_or(Seq(0), |head| head.seq);
    let store = chat.store();
    store.entries(chat.id(), from, to, &mut |sealed| {
        all.push(sealed.entry);
        ControlFlow::Continue(())
    })?;
    Ok(all)
}

/// A payload as it is stored, with the blobs that it mentions.
struct Stored {
    bytes: Vec<u8>,
    blobs: BTreeMap<Hash, Vec<u8>>,
}

impl Stored {
    fn holds(&self, text: &[u8]) -> bool {
        let has = |bytes: &[u8]| bytes.windows(text.len()).any(|w| w == text);
        has(&self.bytes) || self.blobs.values().any(|blob| has(blob))
    }
}

/// What a store holds, and what it shows.
struct Held {
    payloads: BTreeMap<Place, Stored>,
    heads: BTreeMap<ConversationId, Option<Head>>,
    windows: Vec<(ConversationId, Seq, Window)>,
}

impl Held {
    fn of(world: &World, family: &Family) -> Result<Self, Failure> {
        let backend = world.store.backend();
        let mut held = Self {
            payloads: BTreeMap::new(),
            heads: BTreeMap::new(),
            windows: Vec::new(),
        };
        for (id, model) in &family.logs {
            held.heads.insert(*id, backend.head(*id)?);
            for place in places(model) {
                if held.payloads.contains_key(&place) {
                    continue;
                }
                let (owner, seq, index) = place;
                let Some(found) = backend.payload(owner, Seq(seq), index)? else {
                    continue;
                };
                let mut blobs = BTreeMap::new();
                // What is no message mentions none.
                for address in payload::blobs_of(&found.bytes).unwrap_or_default() {
                    blobs.extend(backend.blob(owner, address)?.map(|blob| (address, blob)));
                }
                let bytes = found.bytes;
                held.payloads.insert(place, Stored { bytes, blobs });
            }
        }
        held.windows = windows(&world.store, family)?;
        Ok(held)
    }

    /// Nothing but what has to go is gone, from wherever it was.
    fn is_gone(&self, world: &World, family: &mut Family, asked: Redact) -> Found {
        let goes = family.goes(world.chat.id(), asked)?;
        let needles = self.needles(family, &goes);
        let told: BTreeMap<ConversationId, bool> = family
            .logs
            .iter()
            .map(|(id, model)| (*id, places(model).any(|place| goes.contains(&place))))
            .collect();
        // Without a fold, and with it.
        let cold = Store::on(Arc::clone(&world.backend));
        for store in [&cold, &world.store] {
            let now = windows(store, family)?;
            demand!(now == self.windows, "a window is another one");
        }
        let heads = heads(world, family)?;
        for (id, head) in &heads {
            let same = self.heads.get(id) == Some(head);
            let says = told.get(id) == Some(&true);
            demand!(
                same || says,
                "a log says that words went which it never had"
            );
        }
        family.read(world)?;
        let now = Self::of(world, family)?;
        for place in self.payloads.keys() {
            let gone = !now.payloads.contains_key(place);
            let (_, seq, index) = place;
            demand!(
                gone == goes.contains(place),
                "the payload {index} of s:{seq} is {}",
                if gone { "gone" } else { "there still" }
            );
        }
        now.has_none_of(world, &needles)?;
        now.left_no_blob(world, self)?;
        verified(world, family)?;
        world.chat.redact(asked)?;
        demand!(
            self::heads(world, family)? == heads && world.chat.plan_redaction(asked)?.is_done(),
            "asking again files something"
        );
        Ok(())
    }

    /// Texts that nothing holds but what has to go.
    fn needles(&self, family: &Family, goes: &BTreeSet<Place>) -> BTreeSet<Vec<u8>> {
        let mut texts = BTreeSet::new();
        for model in family.logs.values() {
            let places = places(model).filter(|place| goes.contains(place));
            for (_, seq, index) in places {
                texts.extend(model.words_of(seq, index).into_iter().flat_map(texts_of));
            }
        }
        let mut stay = self
            .payloads
            .iter()
            .filter(|(place, _)| !goes.contains(place));
        texts.retain(|text| !stay.clone().any(|(_, stored)| stored.holds(text)));
        let _ = stay.next();
        texts
    }

    /// No payload, blob, entry or snapshot holds one of these texts.
    fn has_none_of(&self, world: &World, needles: &BTreeSet<Vec<u8>>) -> Found {
        let found = |what: &str, text: &[u8]| {
            let text = String::from_utf8_lossy(text).into_owned();
            Failure::from(format!("{what} still says {text:?}"))
        };
        for text in needles {
            let has = |bytes: &[u8]| bytes.windows(text.len()).any(|w| w == text.as_slice());
            if let Some(((_, seq, i), _)) = self.payloads.iter().find(|(_, p)| p.holds(text)) {
                return Err(found(&format!("the payload {i} of s:{seq}"), text));
            }
            for id in self.heads.keys() {
                let backend = world.store.backend();
                let mut at = None;
                backend.entries(*id, Seq(0), Seq(u64::MAX), &mut |seq, bytes| {
                    at = at.or(has(bytes).then_some(seq));
                    ControlFlow::Continue(())
                })?;
                if let Some(seq) = at {
                    return Err(found(&format!("the entry {seq}"), text));
                }
                let mut name = format!("window/{:016x}", u64::MAX);
                while let Some((at, bytes)) = backend.derived_before(*id, "window/", &name)? {
                    if has(&bytes) {
                        return Err(found(&format!("the snapshot {at}"), text));
                    }
                    let place = at.rsplit('/').next().unwrap_or_default();
                    let place = u64::from_str_radix(place, 16)?;
                    let Some(before) = place.checked_sub(1) else {
                        break;
                    };
                    name = format!("window/{before:016x}");
                }
            }
        }
        Ok(())
    }

    /// What no payload mentions any more is not there.
    fn left_no_blob(&self, world: &World, before: &Self) -> Found {
        let mentioned = |held: &Self| -> BTreeSet<Hash> {
            let all = held.payloads.values();
            all.flat_map(|p| p.blobs.keys().copied()).collect()
        };
        let (then, now) = (mentioned(before), mentioned(self));
        for address in then.difference(&now) {
            let blob = world.store.backend().blob(world.chat.id(), *address)?;
            demand!(blob.is_none(), "a blob outlives its last mention");
        }
        Ok(())
    }
}

fn heads(
    world: &World,
    family: &Family,
) -> Result<BTreeMap<ConversationId, Option<Head>>, Failure> {
    let of = |id: &ConversationId| Ok((*id, world.store.backend().head(*id)?));
    family.logs.keys().map(of).collect()
}

/// Some windows of every log: the last, and others as many as a person would look at.
fn windows(store: &Store, family: &Family) -> Result<Vec<(ConversationId, Seq, Window)>, Failure> {
    let mut all = Vec::new();
    for listed in store.list()? {
        let id = listed.conversation;
        let Some(last) = family.logs.get(&id).and_then(|m| m.next().checked_sub(1)) else {
            continue;
        };
        let chat = store.by_id(listed)?;
        let step = usize::try_from(last / 6)?.saturating_add(1);
        for seq in (0..=last).rev().step_by(step).map(Seq) {
            all.push((id, seq, chat.window_after(seq)?));
        }
    }
    Ok(all)
}

/// Every log verifies, and says of exactly what is not there that it was redacted.
fn verified(world: &World, family: &Family) -> Found {
    for listed in world.store.list()? {
        let verified = verify(&world.store, &listed, &mut |_, _| {})?;
        let name = &listed.name.name;
        // What strategies may do is the business of other laws.
        demand!(
            verified.chain == "ok" && verified.payloads.lost == 0,
            "'{name}' does not verify: {:?}",
            verified.problems
        );
        let gone = family
            .logs
            .get(&listed.conversation)
            .map(|m| m.gone().len());
        demand!(
            gone.map(counted) == Some(verified.payloads.redacted),
            "'{name}' lacks {} payloads, not {gone:?}",
            verified.payloads.redacted
        );
    }
    Ok(())
}

/// What of a message's words is long enough to be looked for.
fn texts_of(message: &Message) -> Vec<Vec<u8>> {
    let text = |body: &BlockBody| match body {
        BlockBody::Text(text) => Some(text.clone()),
        _ => None,
    };
    let parts = message.parts.iter().flat_map(|part| match &part.body {
        PartBody::Block(block) => text(block).into_iter().collect(),
        PartBody::Result { content, .. } => content.iter().filter_map(|b| text(&b.body)).collect(),
        _ => Vec::new(),
    });
    let (least, most) = NEEDLE;
    let long = parts.filter(|text| text.chars().count() >= least);
    long.map(|text| text.chars().take(most).collect::<String>().into_bytes())
        .collect()
}
