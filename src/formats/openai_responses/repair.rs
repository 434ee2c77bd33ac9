//! Makes the hard rules of OpenAI Responses hold, over wire messages that are one item each.

use std::collections::{HashMap, HashSet};

use super::answers;
use super::item::{self, kind_of};
use crate::formats::json;
use crate::formats::openai_chat::opener;
use crate::formats::wire::{
    Naming, Origin, Repairs, Slot, Wire, name_calls, name_uniquely, numbered,
};
use crate::log::{BlockBody, Part, PartBody, Role, Seq};

pub(super) fn repair<'a>(
    mut wires: Vec<Wire<'a>>,
    chained: bool,
    repairs: &mut Repairs,
) -> Vec<Wire<'a>> {
    wires.retain(|wire| keeps_role(wire, repairs));
    let known = answers::whole_pairs(&mut wires, chained, repairs);
    let mut wires = answers::pair(wires, chained, repairs);
    let mut ids = HashMap::new();
    let naming = Naming {
        rule: "R3",
        taken: known,
        keeps: |_, _| true,
        choices: numbered,
    };
    name_uniquely(&mut wires, &mut ids, naming, |_| false, repairs);
    name_calls(&mut wires, &ids, "R1", repairs);
    wires.iter_mut().for_each(name_by_id);
    clean_ids(&mut wires, repairs);
    let mut wires = bind_reasoning(wires, repairs);
    if wires.is_empty() {
        wires.push(opener("R7", repairs));
    }
    wires
}

/// R8: only these four speak; results are items of their own.
fn keeps_role(wire: &Wire<'_>, repairs: &mut Repairs) -> bool {
    let words = wire.parts().iter().all(|part| kind_of(part).is_none());
    let odd = matches!(wire.role, Role::Other(_) | Role::Tool);
    if words && odd {
        let what = format!("left out a message of unknown role '{}'", wire.role.name());
        repairs.add("R8", wire.seq, what);
    }
    !(words && odd)
}

/// The output of a local shell names its call by its own id.
fn name_by_id(wire: &mut Wire<'_>) {
    for slot in &mut wire.slots {
        let PartBody::Result {
            call: Some(call), ..
        } = &slot.part.body
        else {
            continue;
        };
        let call = json::quoted(call);
        let named =
            is_named_by_id(&slot.part) && json::field(&slot.part.extra, "call_id").is_none();
        if named && json::field(&slot.part.extra, "id") != Some(&call) {
            let extra = &mut slot.part.to_mut().extra;
            json::take(extra, "id");
            extra.push(("id".to_owned(), call));
        }
    }
}

fn is_named_by_id(part: &Part) -> bool {
    kind_of(part).as_deref() == Some("local_shell_call_output")
        && json::field(&part.extra, "id").is_some()
}

/// The provider's id of an item; not where it is the id of a call.
fn id_of(wire: &Wire<'_>) -> Option<String> {
    let id = match wire.slots.as_slice() {
        [slot] => match &slot.part.body {
            PartBody::Block(BlockBody::Opaque(_, whole)) if kind_of(&slot.part).is_some() => {
                json::text_field(&json::object(whole)?, "id")
            }
            PartBody::Block(_) => json::text_field(&wire.extra, "id"),
            _ if is_named_by_id(&slot.part) => None,
            _ => json::text_field(&slot.part.extra, "id"),
        },
        _ => json::text_field(&wire.extra, "id"),
    };
    id.filter(|id| !id.is_empty())
}

/// Takes the provider's id away; the item says the same without it.
fn strip_id(wire: &mut Wire<'_>) {
    let name = "id";
    if let [slot] = wire.slots.as_mut_slice() {
        let part = slot.part.to_mut();
        let item = kind_of(part).is_some();
        match &mut part.body {
            PartBody::Block(BlockBody::Opaque(_, whole)) if item => {
                let mut fields = json::object(whole).unwrap_or_default();
                fields.retain(|(field, _)| field != name);
                *whole = json::write_object(&fields);
            }
            PartBody::Block(_) => {}
            _ => part.extra.retain(|(field, _)| field != name),
        }
    }
    wire.strip(name);
    wire.touch();
}

fn kind(wire: &Wire<'_>) -> Option<String> {
    match wire.slots.as_slice() {
        [slot] => kind_of(&slot.part),
        _ => None,
    }
}

/// Whether its id is what it says, or what another item answers.
fn is_referred_to(wire: &Wire<'_>) -> bool {
    let kind = kind(wire).unwrap_or_default();
    [item::REFERENCE, "mcp_approval_request"].contains(&kind.as_str())
}

fn is_reasoning(wire: &Wire<'_>) -> bool {
    kind(wire).as_deref() == Some("reasoning")
}

/// R3, R5, R6: ids that the provider refuses, and ids of items whose reasoning may have left.
fn clean_ids(wires: &mut [Wire<'_>], repairs: &mut Repairs) {
    let mut seen: HashSet<String> = HashSet::new();
    // The turns that reasoning in the window is of.
    let mut reasoned: HashSet<Seq> = HashSet::new();
    for wire in wires {
        if is_reasoning(wire) {
            reasoned.insert(wire.head());
        }
        let Some(id) = id_of(wire) else { continue };
        if kind(wire).as_deref() == Some(item::REFERENCE) {
            continue;
        }
        let function = kind(wire).as_deref() == Some(item::FUNCTION_CALL);
        let (rule, what) = if function && !id.starts_with("fc") {
            (
                "R6",
                "took away the id of a call that does not begin with fc",
            )
        } else if wire.severed && !(reasoned.contains(&wire.head()) || is_referred_to(wire)) {
            (
                "R5",
                "took away the id of an item whose turn begins outside the window",
            )
        } else if !seen.insert(id) {
            ("R3", "took away an id that an earlier item has")
        } else {
            continue;
        };
        strip_id(wire);
        repairs.add(rule, wire.seq, what);
    }
}

/// R4, R5: reasoning that has an id stands right before an item of the model with an id of its own,
/// or goes, and the items that came of it are sent without their ids.
fn bind_reasoning<'a>(wires: Vec<Wire<'a>>, repairs: &mut Repairs) -> Vec<Wire<'a>> {
    // What follows comes first.
    let mut kept: Vec<Wire<'a>> = Vec::new();
    let mut loose = Vec::new();
    for wire in wires.into_iter().rev() {
        let bound = kept.last().is_some_and(|next| may_be_of(&wire, next));
        if bound || id_of(&wire).is_none() || !is_reasoning(&wire) {
            kept.push(wire);
            continue;
        }
        loose.push(wire.seq);
        let turn = kept.iter_mut().rev();
        let turn = turn.take_while(|next| is_of(&wire, next) && !is_reasoning(next));
        for item in turn.filter(|item| id_of(item).is_some() && !is_referred_to(item)) {
            strip_id(item);
            loose.push(item.seq);
        }
    }
    kept.reverse();
    loose.sort_unstable();
    let held: HashSet<Seq> = kept.iter().map(|wire| wire.seq).collect();
    for seq in loose {
        let (rule, what) = if held.contains(&seq) {
            (
                "R5",
                "took away the id of an item whose reasoning is left out",
            )
        } else {
            (
                "R4",
                "left out reasoning without the item that it was produced with",
            )
        };
        repairs.add(rule, seq, what);
    }
    kept
}

/// Whether an item may be what reasoning was produced with.
fn may_be_of(reasoning: &Wire<'_>, next: &Wire<'_>) -> bool {
    id_of(next).is_some() && is_of(reasoning, next)
}

/// Whether the model wrote an item in the same turn, as far as the log says.
fn is_of(reasoning: &Wire<'_>, next: &Wire<'_>) -> bool {
    let other = next.continues.is_some_and(|head| head != reasoning.head());
    is_of_model(next) && !other
}

/// Whether the model, or what the provider did for it, wrote an item.
fn is_of_model(wire: &Wire<'_>) -> bool {
    let [slot] = wire.slots.as_slice() else {
        return wire.role == Role::Assistant;
    };
    match &slot.part.body {
        PartBody::Block(BlockBody::Opaque(kind, whole)) if kind_of(&slot.part).is_some() => {
            let fields = json::object(whole).unwrap_or_default();
            let role = json::text_field(&fields, "role").unwrap_or_default();
            ["", "assistant"].contains(&role.as_str()) && !kind.ends_with("_output")
        }
        PartBody::Block(_) => wire.role == Role::Assistant,
        PartBody::Result { .. } => false,
        _ => true,
    }
}

/// Whether a wire message is an item of its own provider's words, kept whole.
pub(super) fn whole_item<'w>(wire: &'w Wire<'_>) -> Option<(&'w str, &'w crate::log::Json)> {
    let [Slot { part, .. }] = wire.slots.as_slice() else {
        return None;
    };
    match &part.body {
        PartBody::Block(BlockBody::Opaque(kind, whole)) => {
            kind_of(part).is_some().then_some((kind.as_str(), whole))
        }
        _ => None,
    }
}

/// Whether an item is of the provider's own format.
pub(super) const fn is_own(wire: &Wire<'_>) -> bool {
    matches!(wire.origin, Origin::Same | Origin::Kin)
}
