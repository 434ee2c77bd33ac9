//! Makes the hard rules of Gemini's generateContent hold. They bind turns: consecutive contents of one
//! side count as one.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::content::spelling;
use super::read::NO_DATA;
use super::write::{framed, name_responses};
use crate::formats::json::{self, Writer};
use crate::formats::openai_chat::opener;
use crate::formats::pair::{Rules, Side, orphans, pair, results_apart, side, turns};
use crate::formats::render::{Mapped, map_call};
use crate::formats::wire::{Key, Origin, Repairs, Slot, Wire, beginning, set_call, unique_ids};
use crate::formats::{marked, record};
use crate::log::{BlockBody, Fields, Json, Part, PartBody, Role};

const RULES: Rules = Rules {
    answered: "G4",
    asked: "G5",
    once: "G4",
    first: "G4",
    must_be_first: false,
    closes_the_last: false,
};

/// The fields a part may hold its data in: one of them.
const DATA: [&str; 19] = [
    "functionCall",
    "function_call",
    "functionResponse",
    "function_response",
    "inlineData",
    "inline_data",
    "fileData",
    "file_data",
    "text",
    "executableCode",
    "executable_code",
    "codeExecutionResult",
    "code_execution_result",
    "toolCall",
    "tool_call",
    "toolResponse",
    "tool_response",
    "videoMetadata",
    "video_metadata",
];

/// What must go before anything else is looked at: roles that mean nothing, parts that cannot be read,
/// responses without calls, contents without parts.
pub(super) fn clean(wires: &mut Vec<Wire<'_>>, repairs: &mut Repairs) {
    wires.retain(|wire| knows_role(wire, repairs));
    *wires = std::mem::take(wires)
        .into_iter()
        .flat_map(|wire| results_apart(wire, "G9", repairs))
        .collect();
    for wire in wires.iter_mut() {
        unreadable(wire, repairs);
        objects(wire, repairs);
        if wire.role != Role::Assistant && wire.retain(|s| !s.is_client_call()) > 0 {
            repairs.add("G3", wire.seq, "left out calls that no model made");
        }
    }
    adopt(wires);
    orphans(wires, "G5", repairs);
    wires.retain(|wire| {
        let keep = wire.role.is_instruction() || !wire.slots.is_empty();
        if !keep {
            repairs.add("G2", wire.seq, "left out a content without parts");
        }
        keep
    });
}

/// A response without an id is to the first open call of its name in the turn before, even where that
/// call has an id: Gemini takes it so, and a log knows nothing of it.
fn adopt(wires: &mut [Wire<'_>]) {
    let slots = wires.iter().flat_map(|wire| &wire.slots);
    let answered: HashSet<Key> = slots.filter_map(|slot| slot.answers).collect();
    let mut open: Vec<(Key, String)> = Vec::new();
    let mut behind = false;
    for wire in wires {
        match side(wire) {
            Side::System => continue,
            Side::Model if behind => open.clear(),
            Side::Model | Side::User => {}
        }
        behind = side(wire) == Side::User;
        let own = wire.origin == Origin::Same;
        for slot in &mut wire.slots {
            match &slot.part.body {
                PartBody::Call { name, .. } if !answered.contains(&slot.key) => {
                    open.push((slot.key, name.clone()));
                }
                PartBody::Result {
                    call: None,
                    name: Some(name),
                    ..
                } if own && slot.answers.is_none() => {
                    let at = open.iter().position(|(_, called)| called == name);
                    slot.answers = at.map(|at| open.remove(at).0);
                }
                _ => {}
            }
        }
    }
}

/// Gemini's own contents may have any role: what it makes of it depends on the endpoint.
fn knows_role(wire: &Wire<'_>, repairs: &mut Repairs) -> bool {
    match &wire.role {
        Role::Other(name) if wire.origin != Origin::Same => {
            let what = format!("left out a message of unknown role '{name}'");
            repairs.add("G9", wire.seq, what);
            false
        }
        _ => true,
    }
}

/// G2 and G6: parts without data, or with more than one; calls and responses without a name.
fn unreadable(wire: &mut Wire<'_>, repairs: &mut Repairs) {
    if wire.role.is_instruction() {
        return;
    }
    let seq = wire.seq;
    let mut nameless = 0_usize;
    let gone = wire.retain(|slot| match &slot.part.body {
        PartBody::Block(BlockBody::Text(_)) => !marked(&slot.part.extra, NO_DATA),
        PartBody::Block(BlockBody::Opaque(_, whole)) => match data_of(whole).first() {
            None => false,
            Some(name) if name.starts_with("function") => {
                nameless = nameless.saturating_add(1);
                false
            }
            Some(_) => true,
        },
        _ => true,
    });
    let empty = gone.saturating_sub(nameless);
    if empty > 0 {
        let what = format!("left out {empty} parts that hold no data");
        repairs.add("G2", seq, what);
    }
    if nameless > 0 {
        let what = format!("left out {nameless} calls or responses that have no name");
        repairs.add("G6", seq, what);
    }
    let mut several = false;
    for slot in &mut wire.slots {
        if let Some(part) = one_datum(&slot.part) {
            *slot.part.to_mut() = part;
            several = true;
        }
    }
    if several {
        wire.touch();
        let what = "left out what a part held beside its data";
        repairs.add("G2", seq, what);
    }
}

/// The names of a part's data.
fn data_of(whole: &Json) -> Vec<&'static str> {
    named_data(&json::object(whole).unwrap_or_default())
}

fn named_data(fields: &Fields) -> Vec<&'static str> {
    let held = |name: &&str| json::field(fields, name).is_some_and(|data| !json::is_null(data));
    DATA.into_iter().filter(held).collect()
}

/// A part that holds more than one datum, with the first alone.
fn one_datum(part: &Part) -> Option<Part> {
    let metadata = |name: &&&str| !name.starts_with("video");
    if let PartBody::Block(BlockBody::Media(_, whole) | BlockBody::Opaque(_, whole)) = &part.body {
        let data = data_of(whole);
        let others: Vec<&str> = data.iter().filter(metadata).skip(1).copied().collect();
        if others.is_empty() {
            return None;
        }
        let mut fields = json::object(whole).unwrap_or_default();
        fields.retain(|(name, _)| !others.contains(&name.as_str()));
        let whole = json::write_object(&fields);
        let body = match &part.body {
            PartBody::Block(BlockBody::Media(kind, _)) => BlockBody::Media(*kind, whole),
            _ => BlockBody::Opaque(data.first().copied().unwrap_or_default().to_owned(), whole),
        };
        return Some(record::plain(PartBody::Block(body)));
    }
    // What is left of a call or response stands under its own name.
    let own = match &part.body {
        PartBody::Call { .. } => spelling(part, ["functionCall", "function_call"]),
        PartBody::Result { .. } => spelling(part, ["functionResponse", "function_response"]),
        _ => "",
    };
    let others = named_data(&part.extra);
    let others: Vec<&str> = others
        .iter()
        .filter(metadata)
        .filter(|name| **name != own)
        .copied()
        .collect();
    if others.is_empty() {
        return None;
    }
    let mut part = part.clone();
    part.extra
        .retain(|(name, _)| !others.contains(&name.as_str()));
    Some(part)
}

/// G10: arguments and responses are objects.
fn objects(wire: &mut Wire<'_>, repairs: &mut Repairs) {
    let mut changed = Vec::new();
    for slot in &mut wire.slots {
        let mapped = match &slot.part.body {
            PartBody::Call {
                native: None,
                arguments,
                ..
            } if !arguments.is_empty() => match map_call(&slot.part) {
                Mapped::Changed(part, _) => Some(part),
                _ => None,
            },
            PartBody::Result { native: None, .. } => object_response(&slot.part),
            _ => None,
        };
        if let Some(part) = mapped {
            *slot.part.to_mut() = part;
            changed.push(slot.key.0);
        }
    }
    for seq in &changed {
        let what = "wrapped arguments or a response that are no object";
        repairs.add("G10", *seq, what);
    }
    if !changed.is_empty() {
        wire.touch();
    }
}

/// A response that is a value, as an object that names it. Other words are written as one anyhow.
fn object_response(part: &Part) -> Option<Part> {
    let PartBody::Result { content, .. } = &part.body else {
        return None;
    };
    let first = content.first().filter(|block| block.extra.is_empty())?;
    let BlockBody::Text(words) = &first.body else {
        return None;
    };
    let value = serde_json::from_str::<serde_json::Value>(words).ok()?;
    if value.is_object() {
        return None;
    }
    let mut part = part.clone();
    if let PartBody::Result { content, .. } = &mut part.body
        && let Some(first) = content.first_mut()
    {
        let object = Writer::default().field("output", words).finish();
        first.body = BlockBody::Text(object.0);
    }
    Some(part)
}

/// Everything that depends on turns.
pub(super) fn repair<'a>(wires: Vec<Wire<'a>>, repairs: &mut Repairs) -> Vec<Wire<'a>> {
    let mut wires = pair(wires, &RULES, repairs);
    closings(&mut wires);
    name_responses(&mut wires);
    let turns = turns(&wires);
    for (n, (side, range)) in turns.iter().enumerate() {
        let next = turns.get(n.saturating_add(1)).map(|(_, next)| next.clone());
        if *side == Side::Model {
            name(&mut wires, range.clone(), next.unwrap_or(0..0), repairs);
        }
    }
    if wires.is_empty() {
        wires.push(opener("G1", repairs));
    }
    if let Some((Side::Model, range)) = turns.first()
        && let Some(turn) = wires.get(range.clone())
        && turn
            .iter()
            .any(|w| w.slots.iter().any(Slot::is_client_call))
        && let Some(first) = turn.first().map(|w| w.seq)
    {
        wires.insert(0, beginning(first, "G3", repairs));
    }
    wires
}

/// What closes a call is a response.
fn closings(wires: &mut [Wire<'_>]) {
    for slot in wires.iter_mut().flat_map(|wire| &mut wire.slots) {
        if slot.answers == Some(slot.key) {
            framed(slot.part.to_mut());
        }
    }
}

/// A call of a turn, or the response to one.
struct Named {
    call: Option<Key>,
    id: Option<String>,
    name: String,
}

/// G6: the names of a turn's calls and of the responses to them fit, and so do ids.
fn name(wires: &mut [Wire<'_>], model: Range<usize>, user: Range<usize>, repairs: &mut Repairs) {
    if fit(wires, &model, &user) {
        return;
    }
    for slot in slots(wires, &model) {
        if let PartBody::Call {
            name, native: None, ..
        } = &slot.part.body
            && name.is_empty()
            && let PartBody::Call { name, .. } = &mut slot.part.to_mut().body
        {
            "unnamed".clone_into(name);
            repairs.add("G6", slot.key.0, "named a call that has no name");
        }
    }
    let names: HashMap<Key, String> = calls(wires, &model)
        .into_iter()
        .filter_map(|call| Some((call.call?, call.name)))
        .collect();
    for slot in slots(wires, &user) {
        let Some(called) = slot.answers.and_then(|call| names.get(&call)) else {
            continue;
        };
        let PartBody::Result { name: given, .. } = &slot.part.body else {
            continue;
        };
        if given.as_ref() == Some(called) {
            continue;
        }
        if given.is_some() {
            let what = format!("the response now names its call '{called}'");
            repairs.add("G6", slot.key.0, what);
        }
        if let PartBody::Result { name, .. } = &mut slot.part.to_mut().body {
            *name = Some(called.clone());
        }
    }
    if !fit(wires, &model, &user) {
        identify(wires, &model, &user, repairs);
    }
    for range in [model, user] {
        wires
            .get_mut(range)
            .into_iter()
            .flatten()
            .for_each(Wire::touch);
    }
}

/// Gives every call of a turn an id of its own, which its response names.
fn identify(
    wires: &mut [Wire<'_>],
    model: &Range<usize>,
    user: &Range<usize>,
    repairs: &mut Repairs,
) {
    let mut ids = HashMap::new();
    let turn = wires.get_mut(model.clone()).into_iter().flatten();
    unique_ids(turn, &mut ids, "G6", |_| false, repairs);
    for slot in slots(wires, user) {
        let Some(id) = slot.answers.and_then(|call| ids.get(&call)) else {
            continue;
        };
        let PartBody::Result { call, .. } = &slot.part.body else {
            continue;
        };
        if call.as_ref() != Some(id) {
            let what = format!("the response now names its call '{id}'");
            repairs.add("G6", slot.key.0, what);
            set_call(slot.part.to_mut(), Some(id.clone()));
        }
    }
}

fn slots<'w, 'a>(
    wires: &'w mut [Wire<'a>],
    range: &Range<usize>,
) -> impl Iterator<Item = &'w mut Slot<'a>> {
    let turn = wires.get_mut(range.clone()).into_iter().flatten();
    turn.flat_map(|wire| &mut wire.slots)
}

fn calls(wires: &[Wire<'_>], range: &Range<usize>) -> Vec<Named> {
    let turn = wires.get(range.clone()).into_iter().flatten();
    let slots = turn.flat_map(|wire| &wire.slots);
    let call = |slot: &Slot<'_>| match &slot.part.body {
        PartBody::Call {
            id,
            name,
            native: None,
            ..
        } => Some(Named {
            call: Some(slot.key),
            id: id.clone().filter(|id| !id.is_empty()),
            name: name.clone(),
        }),
        _ => None,
    };
    slots.filter_map(call).collect()
}

fn responses(wires: &[Wire<'_>], range: &Range<usize>) -> Vec<Named> {
    let turn = wires.get(range.clone()).into_iter().flatten();
    let slots = turn.flat_map(|wire| &wire.slots);
    let response = |slot: &Slot<'_>| match &slot.part.body {
        PartBody::Result {
            call,
            name,
            native: None,
            ..
        } => Some(Named {
            call: slot.answers,
            id: call.clone().filter(|id| !id.is_empty()),
            name: name.clone().unwrap_or_default(),
        }),
        _ => None,
    };
    slots.filter_map(response).collect()
}

/// Whether the provider, which goes by ids, names and order, finds for each response the call it
/// answers.
fn fit(wires: &[Wire<'_>], model: &Range<usize>, user: &Range<usize>) -> bool {
    let mut left = calls(wires, model);
    let named = left.iter().all(|call| !call.name.is_empty());
    let mut seen = HashSet::new();
    let unique = (left.iter().filter_map(|call| call.id.clone())).all(|id| seen.insert(id));
    let found = responses(wires, user).into_iter().all(|response| {
        let fits = |call: &Named| {
            let ids = call.id.as_ref().zip(response.id.as_ref());
            call.name == response.name && ids.is_none_or(|(asked, given)| asked == given)
        };
        let at = left.iter().position(fits);
        at.is_some_and(|at| left.remove(at).call == response.call)
    });
    named && unique && found
}
