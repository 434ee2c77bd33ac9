//! Words that stand beside messages: notes of what an importer could not place, what a source said of an
//! edit, what a provider gave with an answer. Nothing says which message they are of, but that they
//! hold its words.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::log::{Appended, BlockBody, Body, Door, Entry, Kind, Message, PartBody, Seq, payload};
use crate::store::Backend as _;
use crate::window::COMPACTED;

use super::content::Content;
use super::conversation::Conversation;
use super::error::Error;

/// So many characters of a text are no coincidence.
const CHARS_MIN: usize = 12;
/// How far before a message a note of the same record of its source may stand.
const NEAR: u64 = 256;

/// What is looked for beside a message.
pub(super) struct Beside {
    /// Its texts.
    texts: Vec<String>,
    /// Its id in the source.
    source: Option<String>,
    produced_by: Option<Seq>,
    said: Seq,
    /// The message that keeps the text of the source message which this one is a part of.
    head: Option<Seq>,
    /// Notes that hold something else.
    pub others: u64,
}

impl Beside {
    /// Of a message that is still there; of one that is gone nothing can be found any more.
    pub fn of(chat: &Conversation, says: &Entry) -> Result<Self, Error> {
        let mut beside = Self {
            texts: Vec::new(),
            source: None,
            produced_by: None,
            said: says.seq,
            head: None,
            others: 0,
        };
        if let Body::Appended(Appended {
            produced_by,
            same_source,
            continues,
            ..
        }) = &says.body
        {
            beside.produced_by = *produced_by;
            beside.head = same_source.or(*continues);
            if let Content::Message(message) = chat.content_of(says, 0)? {
                beside.source = message.source.as_ref().and_then(|source| source.id.clone());
                beside.texts = texts(&message);
            }
        }
        Ok(beside)
    }

    /// Where to begin to look.
    pub const fn from(&self) -> Seq {
        Seq(self.said.0.saturating_sub(NEAR))
    }

    /// The payloads of an entry that hold such words beside messages.
    pub fn held_by(&mut self, chat: &Conversation, entry: &Entry) -> Result<Vec<u32>, Error> {
        if matches!(entry.body, Body::Appended(_)) {
            let held = entry.seq < self.said && self.is_source_kept(chat, entry)?;
            return Ok(held.then_some(0).into_iter().collect());
        }
        let Some(index) = self.place(entry) else {
            return Ok(Vec::new());
        };
        let backend = &chat.store().backend;
        let Some(found) = backend.payload(chat.id(), entry.seq, index)? else {
            return Ok(Vec::new());
        };
        let text = payload::decode_text(&found.bytes)?;
        // Notes of ctxlog's own hold ids, and those of an application what it wrote itself.
        let is_note = entry.body.kind() == Some(Kind::Noted) && entry.by.door == Door::Import;
        if self.is_summary(entry) || self.holds(&text) {
            return Ok(vec![index]);
        }
        self.others = self.others.saturating_add(u64::from(is_note));
        Ok(Vec::new())
    }

    /// Whether an earlier message keeps the text of a source message that held these words too: where one
    /// became several, the first of them has it.
    fn is_source_kept(&self, chat: &Conversation, entry: &Entry) -> Result<bool, Error> {
        let Content::Message(message) = chat.content_of(entry, 0)? else {
            return Ok(false);
        };
        let kept = message.source.as_ref().and_then(|s| s.verbatim.as_ref());
        let Some(kept) = kept else {
            return Ok(false);
        };
        let own = texts(&message);
        let mut others = self.texts.clone();
        others.retain(|text| !own.contains(text));
        let told = serde_json::from_str(&kept.0).is_ok_and(|value| tells(&value, &others, None));
        Ok(told || self.head == Some(entry.seq))
    }

    /// The payload of an entry that may hold such words.
    fn place(&self, entry: &Entry) -> Option<u32> {
        match &entry.body {
            Body::Noted(n) if n.content.is_some() => Some(0),
            Body::Edited(e) if e.rest.is_some() => u32::try_from(e.change.stand_ins.len()).ok(),
            Body::Returned(r) if r.rest.is_some() && Some(r.call) == self.produced_by => Some(0),
            _ => None,
        }
    }

    /// A summary that the source made of all before it, and that a simulation noted.
    fn is_summary(&self, entry: &Entry) -> bool {
        matches!(&entry.body, Body::Noted(n) if n.what == COMPACTED) && entry.seq > self.said
    }

    fn holds(&self, text: &str) -> bool {
        match serde_json::from_str::<Value>(text) {
            Ok(value) => tells(&value, &self.texts, self.source.as_deref()),
            Err(_) => self.texts.iter().any(|own| text.contains(own)),
        }
    }
}

/// Whether one of these texts stands in a value, or an object of it is the source's own by its id.
fn tells(value: &Value, texts: &[String], source: Option<&str>) -> bool {
    match value {
        Value::String(text) => texts.iter().any(|own| text.contains(own)),
        Value::Array(each) => each.iter().any(|one| tells(one, texts, source)),
        Value::Object(fields) => {
            let id = fields.get("uuid").and_then(Value::as_str);
            let same = id.is_some() && id == source;
            same || fields.values().any(|one| tells(one, texts, source))
        }
        _ => false,
    }
}

/// The texts of a message that can be told again elsewhere, each once.
fn texts(message: &Message) -> Vec<String> {
    let mut found = BTreeSet::new();
    let mut add = |text: &str| {
        let text = text.trim();
        if text.chars().count() >= CHARS_MIN {
            found.insert(text.to_owned());
        }
    };
    let block = |body: &BlockBody, add: &mut dyn FnMut(&str)| {
        if let BlockBody::Text(text) = body {
            add(text);
        }
    };
    for part in &message.parts {
        match &part.body {
            PartBody::Block(body) => block(body, &mut add),
            PartBody::Reasoning { text, .. } => add(text),
            PartBody::Call { arguments, .. } => add(arguments),
            PartBody::Result { content, .. } => {
                content.iter().for_each(|b| block(&b.body, &mut add));
            }
        }
    }
    found.into_iter().collect()
}
