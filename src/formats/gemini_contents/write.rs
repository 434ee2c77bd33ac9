//! Contents of a request body.

use std::collections::HashMap;

use super::content::{write, write_instruction};
use super::read::{INSTRUCTION, content, instruction};
use super::repair;
use crate::formats::attachment::{Attachment, as_text, text_block};
use crate::formats::dialect::Dialect;
use crate::formats::json::{self, Writer};
use crate::formats::render::{Mapped, adapt, map_body, map_call, marker, plain_words};
use crate::formats::settings::Tool;
use crate::formats::wire::{Key, Origin, Repairs, Slot, Wire, hoist, write_list};
use crate::formats::{MARK, adk_session, gemini_cli, marked, record};
use crate::log::{
    Block, BlockBody, Fields, Json, Media, Message, Part, PartBody, Role, Seq, Shape,
};

/// Requests of `generateContent`.
pub(crate) struct GenerateContent;

impl Dialect for GenerateContent {
    fn format(&self) -> &'static str {
        super::FORMAT
    }

    fn title(&self) -> &'static str {
        "A Gemini generateContent request"
    }

    fn kin(&self) -> &'static [&'static str] {
        &[gemini_cli::FORMAT, adk_session::FORMAT]
    }

    fn joins_same_source(&self) -> bool {
        true
    }

    fn read(&self, source: &Json, first: &Message) -> Option<Vec<Message>> {
        let told = first.role == Role::System;
        let name = INSTRUCTION.iter().find(|name| marked(&first.extra, name));
        match name.filter(|_| told) {
            Some(name) => Some(vec![instruction(name, source)]),
            None => content(source, super::FORMAT),
        }
    }

    /// The address names the model.
    fn model_field(&self) -> Option<&'static str> {
        None
    }

    fn message_fields(&self) -> &'static [&'static str] {
        &["contents"]
    }

    fn write_mapped(&self, body: &mut Writer, limit: Option<u64>, tools: &[Tool]) {
        if let Some(limit) = limit {
            let mut config = Writer::default();
            config.field("maxOutputTokens", &limit.to_string());
            body.field("generationConfig", &config.finish().0);
        }
        let declared = |tool: &Tool| {
            let mut out = Writer::default();
            tool.describe(&mut out);
            if let Some(schema) = &tool.schema {
                out.field("parametersJsonSchema", &schema.0);
            }
            out.finish()
        };
        let tools: Vec<Json> = tools.iter().map(declared).collect();
        if !tools.is_empty() {
            let mut out = Writer::default();
            out.field("functionDeclarations", &json::write_array(&tools).0);
            body.field("tools", &json::write_array(&[out.finish()]).0);
        }
    }

    fn write_messages(
        &self,
        body: &mut Writer,
        mut wires: Vec<Wire<'_>>,
        as_is: bool,
        repairs: &mut Repairs,
    ) -> Vec<Seq> {
        for wire in &mut wires {
            let map = match wire.role {
                Role::System | Role::Developer => map_instruction,
                _ => map_part,
            };
            adapt(wire, map, repairs);
            match wire.origin {
                Origin::Same => {}
                Origin::Kin => without_record(wire),
                Origin::Made | Origin::Foreign => frame(wire, repairs),
            }
        }
        name_responses(&mut wires);
        if !as_is {
            repair::clean(&mut wires, repairs);
        }
        let (system, mut wires) = hoist(wires, |w| field_of(w).is_some(), "G9", repairs);
        if !as_is {
            wires = repair::repair(wires, repairs);
        }
        write_system(body, &system);
        write_list(body, "contents", &wires, write_wire)
    }
}

fn write_wire(wire: &Wire<'_>) -> Json {
    wire.written(|role, parts, shape, extra| match (wire.origin, role) {
        (Origin::Made | Origin::Foreign, Role::Other(_)) => write(&Role::User, parts, shape, extra),
        _ => write(role, parts, shape, extra),
    })
}

/// The field that instructions stood in.
fn field_of(wire: &Wire<'_>) -> Option<&'static str> {
    let own = wire.origin == Origin::Same;
    let mut names = INSTRUCTION.into_iter();
    names.find(|name| own && marked(&wire.extra, name))
}

fn write_system(body: &mut Writer, system: &[Wire<'_>]) {
    let said = system.iter().find_map(field_of);
    let [camel, snake] = INSTRUCTION;
    // A setting of that name holds nothing that could be read.
    let name = said.unwrap_or(if body.has(camel) { snake } else { camel });
    match system {
        [] => {}
        [one] => match one.verbatim {
            Some(verbatim) => drop(body.field(name, &verbatim.0)),
            None if one.slots.is_empty() && field_of(one).is_none() => {}
            None => {
                let shape = if field_of(one).is_some() {
                    one.shape
                } else {
                    Shape::List
                };
                let json = write_instruction(&one.parts(), shape, &one.extra);
                body.field(name, &json.0);
            }
        },
        several => {
            let parts: Vec<&Part> = several.iter().flat_map(Wire::parts).collect();
            let json = write_instruction(&parts, Shape::List, &Fields::new());
            body.field(name, &json.0);
        }
    }
}

fn map_part(part: &Part, origin: Origin) -> Mapped {
    match &part.body {
        PartBody::Block(_) => map_body(part, media),
        PartBody::Reasoning { encrypted, .. } => {
            if origin == Origin::Foreign || encrypted.is_some() {
                return Mapped::Dropped("left out another provider's reasoning");
            }
            Mapped::Kept
        }
        PartBody::Call {
            native: None,
            arguments,
            ..
        } if arguments.is_empty() => Mapped::Kept,
        PartBody::Call { native: None, .. } => map_call(part),
        PartBody::Result { native: None, .. } => Mapped::Kept,
        PartBody::Call { .. } | PartBody::Result { .. } => {
            Mapped::Dropped("left out a tool that another provider ran")
        }
    }
}

/// Instructions are texts.
fn map_instruction(part: &Part, origin: Origin) -> Mapped {
    match &part.body {
        PartBody::Block(_) => map_body(part, as_text),
        PartBody::Reasoning { .. } => Mapped::Dropped("left out reasoning among instructions"),
        _ => map_part(part, origin),
    }
}

/// A media block in Gemini's terms.
fn media(block: &Json) -> Option<Json> {
    let fields = json::object(block)?;
    let own = ["inlineData", "inline_data", "fileData", "file_data"];
    let mut own = own.iter().filter_map(|name| json::field(&fields, name));
    if own.any(|data| json::object(data).is_some()) {
        return Some(block.clone());
    }
    let mut inner = Writer::default();
    let name = match Attachment::read(block)? {
        Attachment::Words(words) => return Some(text_block(&words)),
        Attachment::Bytes { mime, data } => {
            inner.text("mimeType", &mime).text("data", &data);
            "inlineData"
        }
        Attachment::Link { url, mime } => {
            if let Some(mime) = mime {
                inner.text("mimeType", &mime);
            }
            inner.text("fileUri", &url);
            "fileData"
        }
    };
    let mut out = Writer::default();
    Some(out.field(name, &inner.finish().0).finish())
}

/// What a part may hold beside its data; a record says more beside it.
const BESIDE: [&str; 15] = [
    MARK,
    "thought",
    "thoughtSignature",
    "thought_signature",
    "videoMetadata",
    "video_metadata",
    "mediaResolution",
    "media_resolution",
    "partMetadata",
    "part_metadata",
    "functionCall",
    "function_call",
    "functionResponse",
    "function_response",
    "text",
];

/// A record says more, and may leave out what a tool gave.
fn without_record(wire: &mut Wire<'_>) {
    let known = |name: &str| BESIDE.contains(&name);
    for slot in &mut wire.slots {
        if !slot.part.extra.iter().all(|(name, _)| known(name)) {
            slot.part.to_mut().extra.retain(|(name, _)| known(name));
        }
        let silent =
            matches!(&slot.part.body, PartBody::Result { content, .. } if content.is_empty());
        if silent && let PartBody::Result { content, .. } = &mut slot.part.to_mut().body {
            content.push(record::words("{}"));
        }
    }
}

/// Results as responses, which are objects; media stand beside them. No text is put where there is
/// none, but in a message that holds nothing else.
fn frame(wire: &mut Wire<'_>, repairs: &mut Repairs) {
    let mut media: Vec<Slot<'_>> = Vec::new();
    for slot in wire.slots.iter_mut().filter(|s| s.is_client_result()) {
        let (beside, what) = framed(slot.part.to_mut());
        for part in beside {
            repairs.add("map", slot.key.0, "put media of a result beside it");
            media.push(Slot {
                key: slot.key,
                part: std::borrow::Cow::Owned(part),
                answers: None,
            });
        }
        if let Some(what) = what {
            repairs.add("map", slot.key.0, what);
        }
    }
    if !media.is_empty() && wire.role == Role::Tool {
        wire.role = Role::User;
    }
    wire.slots.extend(media);
    let nothing = |slot: &Slot<'_>| matches!(&slot.part.body, PartBody::Block(BlockBody::Text(text)) if text.is_empty());
    if !wire.slots.iter().all(nothing) {
        wire.retain(|slot| !nothing(slot));
    }
}

/// Responses that were not Gemini's name what they answer: the tool, and the id where there is one.
pub(super) fn name_responses(wires: &mut [Wire<'_>]) {
    let mut calls: HashMap<Key, (Option<String>, String)> = HashMap::new();
    for slot in wires.iter().flat_map(|wire| &wire.slots) {
        if let PartBody::Call { id, name, .. } = &slot.part.body {
            calls.insert(slot.key, (id.clone(), name.clone()));
        }
    }
    let made = |wire: &&mut Wire<'_>| matches!(wire.origin, Origin::Made | Origin::Foreign);
    let slots = wires.iter_mut().filter(made).flat_map(|w| &mut w.slots);
    for slot in slots.filter(|slot| slot.is_client_result()) {
        let called = slot.answers.and_then(|call| calls.get(&call));
        if let Some((id, called)) = called
            && let PartBody::Result { call, name, .. } = &mut slot.part.to_mut().body
        {
            name.get_or_insert_with(|| called.clone());
            if call.as_ref().is_none_or(String::is_empty) {
                call.clone_from(id);
            }
        }
    }
}

/// Writes a result's words as a response; gives its media, and says what it lost.
pub(super) fn framed(part: &mut Part) -> (Vec<Part>, Option<&'static str>) {
    let (mut texts, mut beside, mut lost) = (Vec::new(), Vec::new(), None);
    let PartBody::Result {
        content,
        shape,
        error,
        ..
    } = &mut part.body
    else {
        return (beside, None);
    };
    for block in std::mem::take(content) {
        let (kind, whole) = match block.body {
            BlockBody::Text(text) => {
                texts.push(text);
                continue;
            }
            BlockBody::Opaque(kind, whole) => {
                lost = Some("put a text where a block of a result has no counterpart");
                texts.push(plain_words(&kind, &whole).unwrap_or_else(|| marker(&kind)));
                continue;
            }
            BlockBody::Media(kind, whole) => (kind, whole),
        };
        match (media(&whole), as_text(&whole)) {
            (_, Some(text)) => texts.extend(json::text_field(
                &json::object(&text).unwrap_or_default(),
                "text",
            )),
            (Some(data), None) => beside.push(media_part(kind, data)),
            (None, None) => {
                lost = Some("put a text where media of a result has no counterpart");
                texts.push(marker(""));
            }
        }
    }
    *content = vec![response(&texts.join("\n"), *error == Some(true))];
    *shape = Shape::Text;
    (beside, lost)
}

fn media_part(kind: Media, whole: Json) -> Part {
    record::plain(PartBody::Block(BlockBody::Media(kind, whole)))
}

/// An object stays as it is; other words are named.
fn response(text: &str, failed: bool) -> Block {
    let shallow = json::depth(text) < json::MAX_DEPTH;
    let object = shallow && json::object(&Json(text.to_owned())).is_some();
    let mut out = Writer::default();
    let words = match (object, failed) {
        (true, false) => text.to_owned(),
        (true, true) => out.field("error", text).finish().0,
        (false, true) => out.text("error", text).finish().0,
        (false, false) => out.text("output", text).finish().0,
    };
    record::words(words)
}
