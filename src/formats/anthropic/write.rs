//! Anthropic messages of a request body.

use super::message::{self, IN_SYSTEM_FIELD};
use super::repair;
use crate::formats::json::{self, Writer};
use crate::formats::marked;
use crate::formats::media;
use crate::formats::render::{Mapped, adapt, map_block, map_result};
use crate::formats::wire::{Origin, Repairs, Wire};
use crate::log::{BlockBody, Json, Part, PartBody, Role, Seq, Shape};

/// Writes `system` and `messages` of a body; gives for each message the entry that introduced it.
pub(crate) fn write_messages(
    body: &mut Writer,
    mut wires: Vec<Wire<'_>>,
    as_is: bool,
    repairs: &mut Repairs,
) -> Vec<Seq> {
    for wire in &mut wires {
        adapt(wire, map_part, repairs);
    }
    if !as_is {
        repair::clean(&mut wires, repairs);
    }
    let (system, mut wires) = hoist(wires, as_is, repairs);
    if !as_is {
        wires = repair::repair(wires, repairs);
    }
    if let Some(system) = write_system(&system) {
        body.field("system", &system.0);
    }
    let written: Vec<Json> = wires.iter().map(write_wire).collect();
    body.field("messages", &json::write_array(&written).0);
    wires.iter().map(|w| w.seq).collect()
}

fn write_wire(wire: &Wire<'_>) -> Json {
    match wire.verbatim {
        Some(verbatim) => verbatim.clone(),
        None => {
            let role = message::role_name(&wire.role);
            message::write(role, &wire.parts(), wire.shape, &wire.extra)
        }
    }
}

fn write_system(system: &[Wire<'_>]) -> Option<Json> {
    match system {
        [] => None,
        [
            Wire {
                verbatim: Some(verbatim),
                ..
            },
        ] => Some((*verbatim).clone()),
        [one] => message::write_content(&one.parts(), one.shape),
        several => {
            // An empty text may stand alone; as a block of a list it may not.
            let parts: Vec<&Part> = several
                .iter()
                .flat_map(Wire::parts)
                .filter(|p| !is_blank_text(p))
                .collect();
            message::write_content(&parts, Shape::List)
        }
    }
}

fn is_blank_text(part: &Part) -> bool {
    matches!(&part.body, PartBody::Block(BlockBody::Text(text)) if text.trim().is_empty())
}

/// Parts instructions from the conversation: what stood in the `system` field, what another
/// provider would let stand anywhere, and (unless as it is) what stands where A16 forbids it.
fn hoist<'a>(
    wires: Vec<Wire<'a>>,
    as_is: bool,
    repairs: &mut Repairs,
) -> (Vec<Wire<'a>>, Vec<Wire<'a>>) {
    let roles: Vec<Role> = wires.iter().map(|w| w.role.clone()).collect();
    let (mut system, mut others): (Vec<Wire<'a>>, Vec<Wire<'a>>) = (Vec::new(), Vec::new());
    for (n, wire) in wires.into_iter().enumerate() {
        if !wire.role.is_instruction() {
            others.push(wire);
            continue;
        }
        let field = marked(&wire.extra, IN_SYSTEM_FIELD);
        let own = matches!(wire.origin, Origin::Same | Origin::Kin);
        let next = roles
            .iter()
            .skip(n.saturating_add(1))
            .find(|r| !r.is_instruction());
        let legal = others.last().is_some_and(|w| w.role != Role::Assistant)
            && next.is_none_or(|r| *r == Role::Assistant);
        if !field && own && (as_is || legal) {
            others.push(wire);
            continue;
        }
        if !others.is_empty() {
            repairs.add("A16", wire.seq, "moved instructions into the system field");
        }
        system.push(wire);
    }
    (system, others)
}

fn map_part(part: &Part, origin: Origin) -> Mapped {
    let foreign = origin == Origin::Foreign;
    match &part.body {
        PartBody::Block(body) => match map_block(body, media::to_anthropic) {
            Some((body, what)) => Mapped::Changed(
                Part {
                    body: PartBody::Block(body),
                    extra: part.extra.clone(),
                },
                what,
            ),
            None => Mapped::Kept,
        },
        PartBody::Reasoning {
            signature,
            encrypted,
            ..
        } => {
            let sealed = signature.is_some() || encrypted.is_some();
            if sealed && !foreign {
                Mapped::Kept
            } else {
                Mapped::Dropped("left out reasoning without this provider's signature")
            }
        }
        PartBody::Call { native: None, .. } => map_call(part),
        PartBody::Result { native: None, .. } => map_result(part, media::to_anthropic, foreign),
        PartBody::Call { .. } | PartBody::Result { .. } if foreign => {
            Mapped::Dropped("left out a tool that another provider ran")
        }
        PartBody::Call { .. } | PartBody::Result { .. } => Mapped::Kept,
    }
}

/// Arguments must be an object here.
fn map_call(part: &Part) -> Mapped {
    let PartBody::Call { arguments, .. } = &part.body else {
        return Mapped::Kept;
    };
    let shallow = json::depth(arguments) <= json::MAX_DEPTH;
    if shallow && json::object(&Json(arguments.clone())).is_some() {
        return Mapped::Kept;
    }
    let mut mapped = part.clone();
    let blank = arguments.trim().is_empty();
    if let PartBody::Call { arguments, .. } = &mut mapped.body {
        let mut wrapped = Writer::default();
        if !blank {
            wrapped.text("arguments", arguments);
        }
        *arguments = wrapped.finish().0;
    }
    Mapped::Changed(mapped, "wrapped arguments that are no object")
}
