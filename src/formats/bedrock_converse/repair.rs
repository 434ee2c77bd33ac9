//! Makes the hard rules of Bedrock's Converse hold. The provider joins nothing: messages of one role in
//! a row become one here.

use std::collections::{HashMap, HashSet};

use super::read::{BLOCKS, JSON_BLOCK};
use crate::formats::json;
use crate::formats::openai_chat::opener;
use crate::formats::pair::{Rules, Side, orphans, pair, results_apart, side};
use crate::formats::render::{Mapped, map_call};
use crate::formats::wire::{
    Origin, Repairs, Slot, Wire, beginning, is_blank_text, name_calls, unique_ids,
};
use crate::formats::{MARK, marked, record};
use crate::log::{Block, BlockBody, Json, Part, PartBody, Role, Shape};

const RULES: Rules = Rules {
    answered: "B4",
    asked: "B3",
    once: "B3",
    first: "B4",
    must_be_first: false,
    closes_the_last: true,
};

/// What must go before anything else is looked at: roles that mean nothing, blocks that cannot be read,
/// results without calls, blank texts, empty messages.
pub(super) fn clean(wires: &mut Vec<Wire<'_>>, repairs: &mut Repairs) {
    wires.retain(|wire| {
        let Role::Other(name) = &wire.role else {
            return true;
        };
        let what = format!("left out a message of unknown role '{name}'");
        repairs.add("B2", wire.seq, what);
        false
    });
    *wires = std::mem::take(wires)
        .into_iter()
        .flat_map(|wire| results_apart(wire, "B3", repairs))
        .collect();
    for wire in wires.iter_mut() {
        unreadable(wire, repairs);
        well_formed(wire, repairs);
        if wire.role != Role::Assistant && wire.retain(|s| !s.is_client_call()) > 0 {
            repairs.add("B3", wire.seq, "left out calls that no model made");
        }
    }
    orphans(wires, "B3", repairs);
    wires.iter_mut().for_each(|wire| blank_text(wire, repairs));
    wires.retain(|wire| {
        let keep =
            wire.role.is_instruction() || !wire.parts().iter().all(|part| is_blank_text(part));
        if !keep {
            repairs.add("B6", wire.seq, "left out an empty message");
        }
        keep
    });
}

/// B6: blocks that hold nothing that can be read, or two things.
fn unreadable(wire: &mut Wire<'_>, repairs: &mut Repairs) {
    let seq = wire.seq;
    let gone = wire.retain(|slot| match &slot.part.body {
        PartBody::Block(BlockBody::Opaque(kind, _)) => {
            !["", "text", "toolUse", "toolResult"].contains(&kind.as_str())
        }
        _ => true,
    });
    if gone > 0 {
        let what = format!("left out {gone} blocks that the provider cannot read");
        repairs.add("B6", seq, what);
    }
    let mut several = false;
    for slot in &mut wire.slots {
        if let Some(part) = one_thing(&slot.part) {
            *slot.part.to_mut() = part;
            several = true;
        }
    }
    if several {
        wire.touch();
        repairs.add("B6", seq, "left out what a block held beside its content");
    }
}

/// A block that holds two things, with the first alone.
fn one_thing(part: &Part) -> Option<Part> {
    let own = match &part.body {
        PartBody::Block(BlockBody::Media(..) | BlockBody::Opaque(..)) => return one_of_whole(part),
        PartBody::Block(BlockBody::Text(_)) => "text",
        PartBody::Reasoning { .. } => "reasoningContent",
        PartBody::Call { .. } => "toolUse",
        PartBody::Result { .. } => "toolResult",
    };
    let other = |name: &str| name != own && BLOCKS.contains(&name);
    if !part.extra.iter().any(|(name, _)| other(name)) {
        return None;
    }
    let mut part = part.clone();
    part.extra.retain(|(name, _)| !other(name));
    Some(part)
}

fn one_of_whole(part: &Part) -> Option<Part> {
    let PartBody::Block(BlockBody::Media(_, whole) | BlockBody::Opaque(_, whole)) = &part.body
    else {
        return None;
    };
    let mut fields = json::object(whole)?;
    let held = |name: &&&str| json::field(&fields, name).is_some();
    let others: Vec<&str> = BLOCKS.iter().filter(held).skip(1).copied().collect();
    if others.is_empty() {
        return None;
    }
    fields.retain(|(name, _)| !others.contains(&name.as_str()));
    let whole = json::write_object(&fields);
    let body = match &part.body {
        PartBody::Block(BlockBody::Media(kind, _)) => BlockBody::Media(*kind, whole),
        PartBody::Block(BlockBody::Opaque(kind, _)) => BlockBody::Opaque(kind.clone(), whole),
        _ => return None,
    };
    Some(record::plain(PartBody::Block(body)))
}

/// B7: names that the provider takes; inputs and the JSON of results are objects.
fn well_formed(wire: &mut Wire<'_>, repairs: &mut Repairs) {
    let mut changed = Vec::new();
    for slot in &mut wire.slots {
        let what = match &slot.part.body {
            PartBody::Call { native: None, .. } => fitting_call(slot),
            PartBody::Result { native: None, .. } => texts_for_values(slot),
            _ => None,
        };
        changed.extend(what.map(|what| (slot.key.0, what)));
    }
    if !changed.is_empty() {
        wire.touch();
    }
    for (seq, what) in changed {
        repairs.add("B7", seq, what);
    }
}

fn fitting_call(slot: &mut Slot<'_>) -> Option<&'static str> {
    let mut what = None;
    if let Mapped::Changed(part, _) = map_call(&slot.part) {
        *slot.part.to_mut() = part;
        what = Some("wrapped arguments that are no object");
    }
    let PartBody::Call { name, id, .. } = &slot.part.body else {
        return what;
    };
    let (fitting, valid) = (fitting_name(name), id.as_deref().is_none_or(is_id));
    if fitting == *name && valid {
        return what;
    }
    if fitting != *name {
        what = Some("gave a call a name that the provider takes");
    }
    if let PartBody::Call { name, id, .. } = &mut slot.part.to_mut().body {
        *name = fitting;
        // It is given one of its own.
        *id = id.take().filter(|_| valid);
    }
    what
}

/// A name of letters, digits, `_` and `-`, at most 64.
pub(super) fn fitting_name(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let fitting: String = name
        .chars()
        .map(|c| if fits(c) { c } else { '_' })
        .take(64)
        .collect();
    if fitting.is_empty() {
        "unnamed".to_owned()
    } else {
        fitting
    }
}

fn is_id(id: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
    !id.is_empty() && id.len() <= 64 && id.bytes().all(fits)
}

/// JSON in a result is an object; another value is a text.
fn texts_for_values(slot: &mut Slot<'_>) -> Option<&'static str> {
    let value = |block: &Block| {
        let BlockBody::Text(words) = &block.body else {
            return false;
        };
        marked(&block.extra, JSON_BLOCK) && json::object(&Json(words.clone())).is_none()
    };
    let PartBody::Result { content, .. } = &slot.part.body else {
        return None;
    };
    if !content.iter().any(value) {
        return None;
    }
    if let PartBody::Result { content, .. } = &mut slot.part.to_mut().body {
        for block in content.iter_mut().filter(|block| value(block)) {
            block.extra.retain(|(name, _)| name != MARK);
        }
    }
    Some("wrote JSON of a result that is no object as a text")
}

/// B6: empty texts, also inside results. White space is taken beside words; of other sources it goes.
fn blank_text(wire: &mut Wire<'_>, repairs: &mut Repairs) {
    let own = wire.origin == Origin::Same;
    let blank = |text: &str| text.is_empty() || (!own && text.trim().is_empty());
    let blank_block = |block: &Block| match &block.body {
        BlockBody::Text(text) => !marked(&block.extra, JSON_BLOCK) && blank(text),
        BlockBody::Opaque(kind, _) => kind == "text",
        BlockBody::Media(..) => false,
    };
    let mut gone = wire.retain(|slot| match &slot.part.body {
        PartBody::Block(BlockBody::Text(text)) => !blank(text),
        _ => true,
    });
    for slot in &mut wire.slots {
        let PartBody::Result {
            content,
            native: None,
            ..
        } = &slot.part.body
        else {
            continue;
        };
        if !content.iter().any(blank_block) {
            continue;
        }
        gone = gone.saturating_add(1);
        if let PartBody::Result { content, shape, .. } = &mut slot.part.to_mut().body {
            content.retain(|block| !blank_block(block));
            *shape = Shape::List;
        }
    }
    if gone > 0 {
        wire.touch();
        repairs.add("B6", wire.seq, "left out empty text");
    }
}

/// Everything that depends on the order of messages.
pub(super) fn repair<'a>(wires: Vec<Wire<'a>>, repairs: &mut Repairs) -> Vec<Wire<'a>> {
    let wires = pair(wires, &RULES, repairs);
    let mut wires = join(wires, repairs);
    if let Some(first) = wires.first().filter(|w| side(w) == Side::Model) {
        wires.insert(0, beginning(first.seq, "B1", repairs));
    }
    let mut ids = HashMap::new();
    for wire in wires.iter_mut().filter(|w| side(w) == Side::Model) {
        repeated_ids(wire);
        unique_ids([wire], &mut ids, "B7", |_| false, repairs);
    }
    name_calls(&mut wires, &ids, "B3", repairs);
    if wires.is_empty() {
        wires.push(opener("B1", repairs));
    }
    wires
}

/// Takes ids away that another call of the message has. One made of them could be too long.
fn repeated_ids(wire: &mut Wire<'_>) {
    let mut seen = HashSet::new();
    for slot in &mut wire.slots {
        let PartBody::Call {
            id: Some(id),
            native: None,
            ..
        } = &slot.part.body
        else {
            continue;
        };
        if seen.insert(id.clone()) {
            continue;
        }
        if let PartBody::Call { id, .. } = &mut slot.part.to_mut().body {
            *id = None;
        }
    }
}

/// B2: joins the messages of one side that stand in a row. In what is joined, results stand before
/// other content.
fn join<'a>(wires: Vec<Wire<'a>>, repairs: &mut Repairs) -> Vec<Wire<'a>> {
    let mut joined: Vec<Wire<'a>> = Vec::new();
    for mut wire in wires {
        let Some(last) = joined.last_mut().filter(|last| side(last) == side(&wire)) else {
            joined.push(wire);
            continue;
        };
        let what = "joined a message with the one before it, which has its role";
        repairs.add("B2", wire.seq, what);
        last.slots.append(&mut wire.slots);
        last.shape = Shape::List;
        last.extra.to_mut().extend(wire.extra.into_owned());
        last.touch();
        if side(last) == Side::User {
            last.slots.sort_by_key(|slot| !slot.is_client_result());
        }
    }
    joined
}
