//! Makes the hard rules of `LangGraph`'s agents hold.

use std::collections::{HashMap, HashSet};

use super::message::{BESIDE, INVALID, OUTER, arguments_object};
use super::write::write_wire;
use crate::formats::json;
use crate::formats::marked;
use crate::formats::wire::{
    Key, Origin, Repairs, Slot, Wire, name_calls, placeholder, set_call, unique_ids,
};
use crate::log::{BlockBody, Fields, Json, PartBody, Role, Shape};

pub(super) fn repair<'a>(wires: Vec<Wire<'a>>, repairs: &mut Repairs) -> Vec<Wire<'a>> {
    let mut wires = wires;
    leave_orphans(&mut wires, repairs);
    name_results(&mut wires, repairs);
    wires.retain_mut(|wire| is_read(wire, repairs));
    separate_ids(&mut wires, repairs);
    close_calls(wires, repairs)
}

/// L5: what answers nothing here would seem to answer whatever call has its id. A list of `LangChain`'s
/// own stays as it is.
fn leave_orphans(wires: &mut Vec<Wire<'_>>, repairs: &mut Repairs) {
    let calls = wires.iter().flat_map(|w| &w.slots);
    let calls: HashSet<Key> = calls
        .filter(|s| s.is_client_call())
        .map(|s| s.key)
        .collect();
    wires.retain(|wire| {
        let own = matches!(wire.origin, Origin::Same | Origin::Kin);
        let orphan = |slot: &Slot<'_>| {
            slot.is_client_result() && slot.answers.is_none_or(|call| !calls.contains(&call))
        };
        let leaves = !own && wire.slots.iter().any(orphan);
        if leaves {
            let what = "left out a result whose call the window does not hold";
            repairs.add("L5", wire.seq, what);
        }
        !leaves
    });
}

/// L1: a result names its call by an id, so a call has one.
fn name_results(wires: &mut [Wire<'_>], repairs: &mut Repairs) {
    let mut ids: HashMap<Key, String> = HashMap::new();
    let calls = wires.iter().flat_map(|w| &w.slots);
    for slot in calls.filter(|s| s.is_client_call()) {
        ids.extend(id_of(slot).map(|id| (slot.key, id)));
    }
    let nameless = |slot: &&Slot<'_>| slot.is_client_call() && id_of(slot).is_none();
    if wires.iter().flat_map(|w| &w.slots).any(|s| nameless(&s)) {
        let has_id = |slot: &Slot<'_>| id_of(slot).is_some();
        unique_ids(wires.iter_mut(), &mut ids, "L1", has_id, repairs);
    }
    name_calls(wires, &ids, "L1", repairs);
}

fn id_of(slot: &Slot<'_>) -> Option<String> {
    match &slot.part.body {
        PartBody::Call { id, .. } => id.clone(),
        _ => None,
    }
}

/// L2: every message is of a type that is known, with the fields of that type. Says whether it stays.
fn is_read(wire: &mut Wire<'_>, repairs: &mut Repairs) -> bool {
    if is_sound(&write_wire(wire)) {
        return true;
    }
    if let Role::Other(name) = &wire.role {
        let what = format!("left out a message of unknown role '{name}'");
        repairs.add("L2", wire.seq, what);
        return false;
    }
    let named = |slot: &Slot<'_>| matches!(&slot.part.body, PartBody::Result { call: Some(_), .. });
    if wire.role == Role::Tool && !wire.slots.iter().any(named) {
        let what = "left out a tool's message that answers no call";
        repairs.add("L2", wire.seq, what);
        return false;
    }
    mend(wire);
    let what = "wrote a message anew: a field of it was none that LangChain reads";
    repairs.add("L2", wire.seq, what);
    true
}

/// Leaves out what is not as its type has it.
fn mend(wire: &mut Wire<'_>) {
    wire.touch();
    wire.retain(|slot| match &slot.part.body {
        PartBody::Block(BlockBody::Opaque(_, whole)) => is_block(whole),
        _ => true,
    });
    for slot in &mut wire.slots {
        if let PartBody::Result { shape, content, .. } = &mut slot.part.to_mut().body {
            content.retain(|block| match &block.body {
                BlockBody::Opaque(_, whole) => is_block(whole),
                _ => true,
            });
            if matches!(shape, Shape::Null | Shape::Absent) {
                *shape = Shape::Text;
            }
        }
    }
    let extra = wire.extra.to_mut();
    extra.retain(|(name, value)| name != "content" && has_form(name, value));
    if matches!(wire.shape, Shape::Null | Shape::Absent) {
        wire.shape = Shape::Text;
    }
}

/// Whether a field has the form that `LangChain` reads it in; others may be anything.
fn has_form(name: &str, value: &Json) -> bool {
    match name {
        "content" => json::string(value).is_some() || is_list(value, is_block),
        "tool_calls" => is_list(value, is_call),
        INVALID => is_list(value, is_invalid_call),
        BESIDE | "response_metadata" => json::object(value).is_some(),
        "usage_metadata" => json::is_null(value) || json::object(value).is_some(),
        "name" => json::is_null(value) || json::string(value).is_some(),
        "id" => !is_structure(value),
        "tool_call_id" => json::string(value).is_some() || json::number(value).is_some(),
        "status" => json::string(value).is_some_and(|s| s == "success" || s == "error"),
        _ => true,
    }
}

fn is_list(value: &Json, each: fn(&Json) -> bool) -> bool {
    json::array(value).is_some_and(|list| list.iter().all(each))
}

fn is_structure(value: &Json) -> bool {
    json::object(value).is_some() || json::array(value).is_some()
}

fn is_block(block: &Json) -> bool {
    json::string(block).is_some() || json::object(block).is_some()
}

fn is_call(call: &Json) -> bool {
    let Some(fields) = json::object(call) else {
        return false;
    };
    let args = json::field(&fields, "args").and_then(json::object);
    let texts = ["name", "id"].map(|name| json::text_field(&fields, name));
    args.is_some() && texts.iter().all(Option::is_some)
}

fn is_invalid_call(call: &Json) -> bool {
    let Some(fields) = json::object(call) else {
        return false;
    };
    let text = |name| {
        json::field(&fields, name).is_none_or(|v| json::is_null(v) || json::string(v).is_some())
    };
    ["name", "id", "args", "error"].into_iter().all(text)
}

/// Whether `LangChain` reads a message that is written so.
fn is_sound(message: &Json) -> bool {
    let outer = json::object(message).unwrap_or_default();
    let within = ["kwargs", "data"].map(|name| json::field(&outer, name).and_then(json::object));
    let dump = within.iter().all(Option::is_none);
    let fields = within.into_iter().flatten().next();
    let fields = fields.as_ref().unwrap_or(&outer);
    let has = |name: &str| json::text_field(fields, name).is_some();
    let kind = super::read::kind_of_message(&outer);
    let own = match kind {
        Some("tool") => json::field(fields, "tool_call_id").is_some(),
        Some("function") => has("name"),
        Some("chat") => has("role") && (!dump || is_known_role(fields)),
        Some(_) => true,
        None => false,
    };
    let formed = |(name, value): &(String, Json)| has_form(name, value);
    own && json::field(fields, "content").is_some() && fields.iter().all(formed)
}

/// The roles that a dump of a chat's message may have where it is given to an agent.
fn is_known_role(fields: &Fields) -> bool {
    let known = ["human", "user", "ai", "assistant", "system", "developer"];
    json::text_field(fields, "role").is_some_and(|role| known.contains(&role.as_str()))
}

/// L3: of two messages of one id the later would take the place of the earlier.
fn separate_ids(wires: &mut [Wire<'_>], repairs: &mut Repairs) {
    let mut taken: HashSet<String> = HashSet::new();
    for wire in wires {
        let Some(id) = json::field(&wire.extra, "id").filter(|id| !json::is_null(id)) else {
            continue;
        };
        let id = json::string(id).unwrap_or_else(|| id.0.clone());
        if !taken.insert(id) && wire.strip("id") {
            let what = "left out the id of a message: one before it has the same";
            repairs.add("L3", wire.seq, what);
        }
    }
}

/// L1: closes every call that no result of the list answers.
fn close_calls<'a>(wires: Vec<Wire<'a>>, repairs: &mut Repairs) -> Vec<Wire<'a>> {
    let results = wires.iter().filter(|w| !is_function(w));
    let answered: HashSet<Key> = results
        .flat_map(|w| &w.slots)
        .filter_map(|s| s.answers)
        .collect();
    let mut out = Vec::new();
    for wire in wires {
        let calls = wire.slots.iter().filter(|s| s.is_client_call());
        let open = calls.filter(|s| is_understood(s) && !answered.contains(&s.key));
        let open: Vec<(Key, Option<String>)> = open.map(|s| (s.key, id_of(s))).collect();
        out.push(wire);
        for (key, id) in open {
            repairs.add("L1", key.0, "closed a call that has no result here");
            let mut slot = placeholder(key);
            set_call(slot.part.to_mut(), id);
            out.push(Wire::made(key.0, Role::Tool, vec![slot], Shape::List));
        }
    }
    out
}

/// Whether a message is of the older kind, which answers no call.
fn is_function(wire: &Wire<'_>) -> bool {
    let outer = json::field(&wire.extra, OUTER).and_then(json::object);
    let kind = super::read::kind_of_message(outer.as_ref().unwrap_or(&wire.extra));
    kind == Some("function")
}

/// Whether a call stands among those that `LangChain` could read: only these need a result.
fn is_understood(slot: &Slot<'_>) -> bool {
    match &slot.part.body {
        PartBody::Call { arguments, .. } => {
            arguments_object(arguments).is_some() && !marked(&slot.part.extra, INVALID)
        }
        _ => false,
    }
}
