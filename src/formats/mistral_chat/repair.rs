//! Makes the hard rules of Mistral hold: messages by themselves, calls and results.

use std::collections::{HashMap, HashSet};

use super::order;
use super::read::THINKING;
use crate::formats::json;
use crate::formats::openai_chat::{PairRules, pair};
use crate::formats::wire::{Key, Naming, Origin, Repairs, Slot, Wire, name_calls, name_uniquely};
use crate::formats::{MARK, mark, marked};
use crate::log::{Json, Part, PartBody, Role, Shape};

/// The longest name of a tool.
const NAME_MAX: usize = 64;
/// How long an id is that every version takes.
const ID: usize = 9;

pub(super) fn repair<'a>(mut wires: Vec<Wire<'a>>, repairs: &mut Repairs) -> Vec<Wire<'a>> {
    wires.iter_mut().for_each(|wire| clean(wire, repairs));
    wires.retain(|wire| keeps_role(wire, repairs));
    wires
        .iter_mut()
        .for_each(|wire| show_thinking(wire, repairs));
    wires.retain(|wire| says_something(wire, repairs));
    let rules = PairRules {
        answered: "M4",
        called: "M4",
        once: "M4",
    };
    let mut wires = pair(wires, rules, repairs);
    name(&mut wires, repairs);
    order::order(wires, repairs)
}

/// Fields that no version reads, and older words for a call.
fn clean(wire: &mut Wire<'_>, repairs: &mut Repairs) {
    let seq = wire.seq;
    if wire.role == Role::Developer {
        wire.role = Role::System;
        wire.touch();
        repairs.add("M2", seq, "wrote a developer's message as a system's");
    }
    let older = |slot: &&mut Slot<'_>| {
        let tool = slot.is_client_call() || slot.is_client_result();
        tool && json::field(&slot.part.extra, MARK).is_some()
    };
    let mut modern = false;
    for slot in wire.slots.iter_mut().filter(older) {
        slot.part.to_mut().extra.retain(|(name, _)| name != MARK);
        modern = true;
    }
    if modern {
        wire.touch();
        repairs.add("M4", seq, "wrote a call or its result in the newer words");
    }
    let calls = wire.slots.iter().any(Slot::is_client_call);
    let unread = !calls && json::field(&wire.extra, "tool_calls").is_some_and(|c| !is_empty(c));
    if unread && wire.strip("tool_calls") {
        repairs.add("M5", seq, "left out calls that the provider cannot read");
    }
    if wire.role != Role::Assistant && wire.retain(|s| !s.is_client_call()) > 0 {
        repairs.add("M4", seq, "left out calls that no model made");
    }
}

fn is_empty(list: &Json) -> bool {
    json::is_null(list) || json::array(list).is_some_and(|list| list.is_empty())
}

fn keeps_role(wire: &Wire<'_>, repairs: &mut Repairs) -> bool {
    if let Role::Other(name) = &wire.role {
        let what = format!("left out a message of unknown role '{name}'");
        repairs.add("M2", wire.seq, what);
        return false;
    }
    if wire.role == Role::Tool && !wire.slots.iter().any(Slot::is_client_result) {
        let what = "left out a tool's message that holds no result";
        repairs.add("M4", wire.seq, what);
        return false;
    }
    true
}

/// M6: thinking that stands beside the content of a message without any is its content.
fn show_thinking(wire: &mut Wire<'_>, repairs: &mut Repairs) {
    let beside = |slot: &&mut Slot<'_>| {
        let reasoning = matches!(slot.part.body, PartBody::Reasoning { .. });
        reasoning && !marked(&slot.part.extra, THINKING)
    };
    if wire.role != Role::Assistant || !is_silent(wire) {
        return;
    }
    let mut shown = false;
    for slot in wire.slots.iter_mut().filter(beside) {
        let extra = &mut slot.part.to_mut().extra;
        extra.retain(|(name, _)| name != MARK);
        extra.push(mark(THINKING));
        shown = true;
    }
    if shown {
        wire.shape = Shape::List;
        wire.touch();
        repairs.add("M6", wire.seq, "wrote thinking as content");
    }
}

/// Whether it has neither content nor calls.
fn is_silent(wire: &Wire<'_>) -> bool {
    let unread = wire.shape == Shape::Absent
        && json::field(&wire.extra, "content").is_some_and(|content| !json::is_null(content));
    let says = |slot: &Slot<'_>| match &slot.part.body {
        PartBody::Block(crate::log::BlockBody::Text(text)) => {
            wire.shape == Shape::List || !slot.part.extra.is_empty() || !text.is_empty()
        }
        PartBody::Block(crate::log::BlockBody::Opaque(kind, _)) => {
            kind != "refusal" || wire.shape == Shape::List
        }
        PartBody::Reasoning { .. } => marked(&slot.part.extra, THINKING),
        PartBody::Call { .. } => slot.is_client_call(),
        PartBody::Block(_) | PartBody::Result { .. } => true,
    };
    !unread && !wire.slots.iter().any(says)
}

/// M6, M7: messages without content.
fn says_something(wire: &Wire<'_>, repairs: &mut Repairs) -> bool {
    let unset = matches!(wire.shape, Shape::Null | Shape::Absent)
        && json::field(&wire.extra, "content").is_none_or(json::is_null);
    let rule = match wire.role {
        Role::Assistant if is_silent(wire) => "M6",
        Role::System if unset && wire.slots.is_empty() => "M7",
        _ => return true,
    };
    repairs.add(rule, wire.seq, "left out a message without content");
    false
}

/// M5: ids and names that the provider refuses. Ids of another provider are made anew, so that every
/// version takes them.
fn name(wires: &mut [Wire<'_>], repairs: &mut Repairs) {
    let mut ids = HashMap::new();
    for wire in wires.iter_mut().filter(|w| w.role == Role::Assistant) {
        let naming = Naming {
            rule: "M5",
            taken: HashSet::new(),
            keeps: keeps_id,
            choices: nine,
        };
        name_uniquely([wire], &mut ids, naming, |_| false, repairs);
    }
    name_calls(wires, &ids, "M5", repairs);
    for wire in wires {
        let mut changed = None;
        for slot in &mut wire.slots {
            let (PartBody::Call { name, .. }
            | PartBody::Result {
                name: Some(name), ..
            }) = &slot.part.body
            else {
                continue;
            };
            let taken = tool_name(name);
            if taken != *name {
                rename(slot.part.to_mut(), &taken);
                changed = Some(taken);
            }
        }
        if let Some(name) = changed {
            wire.touch();
            let what = format!("wrote '{name}' for a name of a tool that the provider refuses");
            repairs.add("M5", wire.seq, what);
        }
    }
}

fn rename(part: &mut Part, taken: &str) {
    if let PartBody::Call { name, .. }
    | PartBody::Result {
        name: Some(name), ..
    } = &mut part.body
    {
        taken.clone_into(name);
    }
}

fn keeps_id(origin: Origin, id: &str) -> bool {
    let nine = id.len() == ID && id.chars().all(|c| c.is_ascii_alphanumeric());
    nine || (origin == Origin::Same && id != "null")
}

/// Ids of nine digits and letters: the place of the call, and those that follow.
fn nine(_: Option<&str>, (seq, part): Key) -> Box<dyn Iterator<Item = String>> {
    let place = seq.0.wrapping_mul(1 << 10).wrapping_add(part.into());
    Box::new((0..).map(move |n| in_digits(place.wrapping_add(n))))
}

fn in_digits(mut number: u64) -> String {
    let mut digits: Vec<char> = Vec::new();
    for _ in 0..ID {
        let digit = u32::try_from(number % 36).unwrap_or_default();
        digits.extend(char::from_digit(digit, 36));
        number /= 36;
    }
    digits.iter().rev().collect()
}

/// The name with a line for every character that no name may have, cut to what is taken.
pub(super) fn tool_name(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let name = name.chars().map(|c| if plain(c) { c } else { '_' });
    let name: String = name.take(NAME_MAX).collect();
    if name.is_empty() {
        "tool".to_owned()
    } else {
        name
    }
}
