//! Makes hold what the AI SDK demands of UI messages.

use std::collections::HashMap;

use super::message::keep_beside;
use super::write::{Results, is_own, name_messages, write_wire};
use crate::formats::json;
use crate::formats::openai_chat::opener;
use crate::formats::wire::{Repairs, Slot, Wire, unique_ids};
use crate::log::{BlockBody, Fields, Json, Part, PartBody, Role};

pub(super) fn repair<'a>(
    list: Vec<Wire<'a>>,
    results: &Results<'a>,
    repairs: &mut Repairs,
) -> Vec<Wire<'a>> {
    let mut list = list;
    list.retain(|wire| keeps_role(wire, repairs));
    let named = |slot: &Slot<'a>| matches!(&slot.part.body, PartBody::Call { id: Some(_), .. });
    let mut ids = HashMap::new();
    let nameless = |slot: &Slot<'a>| slot.is_client_call() && !named(slot);
    if list.iter().flat_map(|w| &w.slots).any(nameless) {
        unique_ids(list.iter_mut(), &mut ids, "V5", named, repairs);
    }
    for wire in list.iter_mut().filter(|w| is_own(w)) {
        let written = json::object(&write_wire(wire, results)).unwrap_or_default();
        if !is_sound(&written) {
            mend(wire);
            let what = "wrote a message anew: a part of it was none that the AI SDK reads";
            repairs.add("V4", wire.seq, what);
        }
    }
    list.retain(|wire| says_something(wire, results, repairs));
    if list.is_empty() {
        list.push(opener("V1", repairs));
        name_messages(&mut list, false, repairs);
    }
    list
}

fn keeps_role(wire: &Wire<'_>, repairs: &mut Repairs) -> bool {
    if let Role::Other(name) = &wire.role {
        let what = format!("left out a message of unknown role '{name}'");
        repairs.add("V2", wire.seq, what);
        return false;
    }
    true
}

/// V3: messages of others than the assistant have a part.
fn says_something(wire: &Wire<'_>, results: &Results<'_>, repairs: &mut Repairs) -> bool {
    if wire.role == Role::Assistant || wire.role == Role::Tool {
        return true;
    }
    let written = json::object(&write_wire(wire, results)).unwrap_or_default();
    let parts = json::field(&written, "parts").and_then(json::array);
    let empty = parts.is_none_or(|parts| parts.is_empty());
    if empty {
        repairs.add("V3", wire.seq, "left out a message without parts");
    }
    !empty
}

/// Whether the AI SDK reads the parts of a message that is written so.
fn is_sound(message: &Fields) -> bool {
    let parts = json::field(message, "parts").and_then(json::array);
    parts.is_some_and(|parts| parts.iter().all(is_part))
}

/// Leaves out what is not as its type has it. States are written anew by what there is.
fn mend(wire: &mut Wire<'_>) {
    wire.touch();
    wire.retain(|slot| match &slot.part.body {
        PartBody::Block(BlockBody::Text(_)) | PartBody::Reasoning { .. } => true,
        PartBody::Block(BlockBody::Media(_, whole) | BlockBody::Opaque(_, whole)) => is_part(whole),
        PartBody::Result { content, .. } => content.iter().all(|block| match &block.body {
            BlockBody::Media(_, whole) | BlockBody::Opaque(_, whole) => is_part(whole),
            BlockBody::Text(_) => true,
        }),
        PartBody::Call { .. } => true,
    });
    for slot in &mut wire.slots {
        if slot
            .part
            .extra
            .iter()
            .any(|(name, value)| !has_form(name, value))
            || is_call(slot)
        {
            mend_fields(slot.part.to_mut());
        }
    }
    wire.extra.to_mut().retain(|(name, _)| name != "parts");
    keep_beside(wire.extra.to_mut(), is_part);
}

fn is_call(slot: &Slot<'_>) -> bool {
    matches!(&slot.part.body, PartBody::Call { .. })
}

fn mend_fields(part: &mut Part) {
    let call = matches!(&part.body, PartBody::Call { .. });
    part.extra.retain(|(name, value)| has_form(name, value));
    let state = json::text_field(&part.extra, "state").unwrap_or_default();
    let approval = json::field(&part.extra, "approval");
    let approved = approval.is_some_and(is_approval);
    let odd = match (call, state.as_str()) {
        (true, "approval-requested" | "approval-responded" | "output-denied") => !approved,
        (true, "input-streaming") => {
            json::field(&part.extra, "rawInput").is_some_and(|raw| json::string(raw).is_none())
        }
        (true, _) => false,
        (false, _) => !matches!(state.as_str(), "streaming" | "done"),
    };
    if odd {
        part.extra.retain(|(name, _)| name != "state");
    }
    if !approved {
        part.extra.retain(|(name, _)| name != "approval");
    }
}

fn is_approval(approval: &Json) -> bool {
    let fields = json::object(approval).unwrap_or_default();
    let optional = |name: &str, is: fn(&Json) -> bool| json::field(&fields, name).is_none_or(is);
    json::text_field(&fields, "id").is_some()
        && optional("approved", |v| json::boolean(v).is_some())
        && optional("reason", |v| json::string(v).is_some())
        && optional("signature", |v| json::string(v).is_some())
        && (json::field(&fields, "approved").is_some() || json::field(&fields, "reason").is_none())
}

/// Whether a field of a part has the form that it is read in; others may be anything.
fn has_form(name: &str, value: &Json) -> bool {
    match name {
        "text" | "title" | "filename" | "url" | "mediaType" | "toolCallId" | "toolName"
        | "sourceId" | "errorText" | "id" => json::string(value).is_some(),
        "providerExecuted" | "preliminary" => json::boolean(value).is_some(),
        "dynamic" => json::boolean(value) == Some(false),
        "toolMetadata" => json::object(value).is_some(),
        "inputEncoding" => json::string(value).is_some_and(|e| e == "json" || e == "text"),
        "providerMetadata" | "callProviderMetadata" | "resultProviderMetadata" => {
            let of_objects = |f: Fields| f.iter().all(|(_, v)| json::object(v).is_some());
            json::object(value).is_some_and(of_objects)
        }
        _ => true,
    }
}

/// Whether a part is one that the AI SDK reads.
fn is_part(part: &Json) -> bool {
    let Some(fields) = json::object(part) else {
        return false;
    };
    let kind = json::text_field(&fields, "type").unwrap_or_default();
    let has = |names: &[&str]| {
        names
            .iter()
            .all(|name| json::field(&fields, name).is_some())
    };
    let formed = fields.iter().all(|(name, value)| has_form(name, value));
    let state = json::field(&fields, "state");
    let shown =
        state.is_none_or(|s| json::string(s).is_some_and(|s| s == "streaming" || s == "done"));
    match kind.as_str() {
        "text" | "reasoning" => formed && shown && has(&["text"]),
        "file" | "reasoning-file" => formed && has(&["mediaType", "url"]),
        "source-url" => formed && has(&["sourceId", "url"]),
        "source-document" => formed && has(&["sourceId", "mediaType", "title"]),
        "step-start" => true,
        "custom" => formed && has(&["kind"]),
        "steering-message" => {
            formed
                && has(&["id"])
                && json::field(&fields, "parts")
                    .and_then(json::array)
                    .is_some()
        }
        "dynamic-tool" => formed && has(&["toolName"]) && is_tool(&fields),
        kind if kind.starts_with("tool-") => formed && is_tool(&fields),
        kind if kind.starts_with("data-") => formed && has(&["data"]),
        _ => false,
    }
}

/// Whether the fields of a call fit its state.
fn is_tool(fields: &Fields) -> bool {
    let has = |name: &str| json::field(fields, name).is_some();
    let approval = json::field(fields, "approval");
    let answer = approval.and_then(|approval| {
        let fields = json::object(approval)?;
        json::boolean(json::field(&fields, "approved")?)
    });
    let formed = approval.is_none_or(is_approval);
    let (may, input, output, error) = match json::text_field(fields, "state").as_deref() {
        Some("input-streaming") => {
            let raw = json::field(fields, "rawInput");
            let text = raw.is_none_or(|raw| json::string(raw).is_some());
            (approval.is_none() && text, false, false, false)
        }
        Some("input-available") => (approval.is_none(), true, false, false),
        Some("approval-requested") => (approval.is_some() && answer.is_none(), true, false, false),
        Some("approval-responded") => (answer.is_some(), true, false, false),
        Some("output-available") => (
            approval.is_none() || answer == Some(true),
            true,
            true,
            false,
        ),
        Some("output-error") => (
            approval.is_none() || answer == Some(true),
            false,
            false,
            true,
        ),
        Some("output-denied") => (answer == Some(false), true, false, false),
        _ => return false,
    };
    has("toolCallId")
        && formed
        && may
        && (!input || has("input"))
        && has("output") == output
        && has("errorText") == error
}
