//! The fields of an export's line that are there to be read, held against the bytes that count: whoever
//! opens the file with a viewer sees those fields alone.

use serde_json::{Value, json};

use crate::engine::Adopted;
use crate::log::{Body, CodecError, Hash, payload, payload::Secret};
use crate::store::StoreError;

use super::export::{entry_json, neutral_json};

/// Fields that count by themselves.
const COUNTED: [&str; 3] = ["stored", "payloads", "blobs"];

/// Gives a blob.
type Blob<'a> = &'a dyn Fn(Hash) -> Result<Option<Vec<u8>>, StoreError>;

/// What is read so far.
#[derive(Default)]
pub(super) struct Readable {
    secret: Option<Secret>,
}

impl Readable {
    /// What a line says that its entry does not.
    pub(super) fn differs(&mut self, line: &str, read: &Adopted, blob: Blob<'_>) -> Option<String> {
        let Ok(Value::Object(mut said)) = serde_json::from_str(line) else {
            return Some("it is no object".to_owned());
        };
        COUNTED.iter().for_each(|field| drop(said.remove(*field)));
        let content = said.remove("content");
        let Value::Object(meant) = entry_json(&read.sealed) else {
            return None;
        };
        let names = || meant.keys().chain(said.keys());
        let wrong = names().find(|name| meant.get(*name) != said.get(*name));
        if let Some(name) = wrong {
            return Some(format!("its field '{name}' is not what the entry says"));
        }
        if matches!(read.sealed.entry.body, Body::Opened(_)) {
            let first = read.payloads.first().and_then(Option::as_ref);
            self.secret = first.and_then(|found| payload::decode_secret(&found.bytes).ok());
        }
        let meant = self.content(read, blob);
        (content.map(without_source) != meant)
            .then(|| "its field 'content' is not what the words are".to_owned())
    }

    /// What is shown of the words.
    fn content(&self, read: &Adopted, blob: Blob<'_>) -> Option<Value> {
        match &read.sealed.entry.body {
            Body::Appended(_) => Some(self.message(read, 0, blob)),
            Body::Visited(_) | Body::Edited(_) => {
                let change = read.sealed.entry.body.change()?;
                let each = (0..change.stand_ins.len()).map(|index| self.message(read, index, blob));
                let each: Vec<Value> = each.collect();
                (!each.is_empty()).then(|| Value::from(each))
            }
            Body::Configured(_) | Body::Returned(_) | Body::Noted(_) => {
                let found = read.payloads.first()?.as_ref()?;
                let text = payload::decode_text(&found.bytes).ok()?;
                Some(serde_json::from_str(&text).unwrap_or(Value::from(text)))
            }
            _ => None,
        }
    }

    fn message(&self, read: &Adopted, index: usize, blob: Blob<'_>) -> Value {
        let Some(found) = read.payloads.get(index).and_then(Option::as_ref) else {
            return json!({ "redacted": true });
        };
        let secret = self.secret.unwrap_or(Secret([0; 32]));
        let mut fetch = |address: Hash| blob(address).map_err(|_| CodecError::Field("blob").into());
        let message = payload::decode_message(&found.bytes, &secret, &mut fetch);
        message.map_or(Value::Null, |message| neutral_json(&message))
    }
}

/// What a source gave beside its words is joined from other entries, and is not held against them.
fn without_source(mut content: Value) -> Value {
    let drop_of = |value: &mut Value| {
        if let Some(fields) = value.as_object_mut() {
            fields.remove("source");
        }
    };
    match &mut content {
        Value::Array(each) => each.iter_mut().for_each(drop_of),
        one => drop_of(one),
    }
    content
}
