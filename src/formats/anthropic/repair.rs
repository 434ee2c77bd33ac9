//! Makes the hard rules of Anthropic Messages hold. Most bind turns: consecutive messages of one
//! role count as one.

use std::collections::{BTreeSet, HashMap};

use super::message::IN_SYSTEM_FIELD;
use crate::formats::openai_chat::opener;
use crate::formats::pair::{Rules, Side, orphans, pair, results_apart, side, turns};
use crate::formats::wire::{Key, Repairs, Slot, Wire, name_calls, unique_ids};
use crate::formats::{json, marked};
use crate::log::{Block, BlockBody, Json, PartBody, Role, Shape};

const RULES: Rules = Rules {
    answered: "A4",
    asked: "A5",
    once: "A6",
    first: "A7",
    must_be_first: true,
    closes_the_last: true,
};

/// What must go before anything else is looked at: unknown roles, unreadable blocks, results
/// without calls, blank text, empty messages.
pub(super) fn clean(wires: &mut Vec<Wire<'_>>, repairs: &mut Repairs) {
    wires.retain(|wire| {
        let known = !matches!(wire.role, Role::Other(_));
        if let Role::Other(name) = &wire.role {
            repairs.add(
                "A1",
                wire.seq,
                format!("left out a message of unknown role '{name}'"),
            );
        }
        known
    });
    *wires = std::mem::take(wires)
        .into_iter()
        .flat_map(|wire| results_apart(wire, "A5", repairs))
        .collect();
    wires.iter_mut().for_each(|wire| unreadable(wire, repairs));
    orphans(wires, "A5", repairs);
    wires.iter_mut().for_each(|wire| blank_text(wire, repairs));
    let spare = spare(wires);
    let mut n = 0_usize;
    wires.retain(|wire| {
        let keep = Some(n) == spare || !is_empty(wire);
        n = n.saturating_add(1);
        if !keep {
            repairs.add("A9", wire.seq, "left out an empty message");
        }
        keep
    });
}

fn is_empty(wire: &Wire<'_>) -> bool {
    let system_text = wire.shape == Shape::Text && marked(&wire.extra, IN_SYSTEM_FIELD);
    wire.slots.iter().all(|slot| {
        matches!(&slot.part.body, PartBody::Block(BlockBody::Text(t)) if blank(t)) && !system_text
    })
}

/// The last message may be an assistant's empty one.
fn spare(wires: &[Wire<'_>]) -> Option<usize> {
    let (last, before) = wires.split_last()?;
    // Behind calls it would be content behind calls (A14).
    let turn = before
        .iter()
        .rev()
        .filter(|w| side(w) != Side::System && !is_empty(w));
    let calls = turn
        .take_while(|w| w.role == Role::Assistant)
        .any(|w| w.slots.iter().any(Slot::is_client_call));
    let empty = match (last.shape, last.slots.as_slice()) {
        (Shape::List, []) => true,
        (Shape::Text, [slot]) => {
            matches!(&slot.part.body, PartBody::Block(BlockBody::Text(t)) if t.is_empty())
        }
        _ => false,
    };
    (!calls && empty && last.role == Role::Assistant).then_some(before.len())
}

fn blank(text: &str) -> bool {
    text.chars().all(char::is_whitespace)
}

/// Blocks that have the type of a text, call or result and not its fields; calls no model made.
fn unreadable(wire: &mut Wire<'_>, repairs: &mut Repairs) {
    let seq = wire.seq;
    if wire.shape == Shape::Absent && wire.strip("content") {
        repairs.add(
            "A9",
            seq,
            "left out a 'content' that the provider cannot read",
        );
    }
    // A reader puts results first; the source may not have.
    if wire.verbatim.is_some_and(results_behind_words) {
        wire.touch();
        repairs.add("A7", seq, "moved results before other content");
    }
    let model = wire.role == Role::Assistant;
    let gone = wire.retain(|slot| match &slot.part.body {
        PartBody::Block(BlockBody::Opaque(kind, _)) => !is_part_type(kind),
        PartBody::Call { .. } => model,
        PartBody::Result {
            native: Some(_),
            content,
            ..
        } => model && content.first().is_some_and(is_native_block),
        _ => true,
    });
    if gone > 0 {
        repairs.add(
            "A4",
            seq,
            format!("left out {gone} blocks that the provider cannot read"),
        );
    }
}

/// Whether a block is the whole of a native result: its words alone are not written.
fn is_native_block(block: &Block) -> bool {
    matches!(&block.body, BlockBody::Opaque(kind, _) if kind.ends_with("_tool_result"))
}

fn results_behind_words(message: &Json) -> bool {
    let fields = json::object(message).unwrap_or_default();
    let blocks = json::field(&fields, "content")
        .and_then(json::array)
        .unwrap_or_default();
    let is_result = |block: &Json| {
        let fields = json::object(block).unwrap_or_default();
        json::text_field(&fields, "type").as_deref() == Some("tool_result")
    };
    blocks.iter().skip_while(|b| is_result(b)).any(is_result)
}

fn is_part_type(kind: &str) -> bool {
    ["", "text", "thinking", "redacted_thinking"].contains(&kind)
        || kind.ends_with("tool_use")
        || kind.ends_with("tool_result")
}

/// A9: blank text blocks, also inside results.
fn blank_text(wire: &mut Wire<'_>, repairs: &mut Repairs) {
    let mut gone = 0_usize;
    if wire.shape == Shape::List || wire.slots.len() > 1 {
        gone = wire.retain(|slot| match &slot.part.body {
            PartBody::Block(BlockBody::Text(text)) => !blank(text),
            _ => true,
        });
    }
    for slot in &mut wire.slots {
        let PartBody::Result {
            content,
            shape: Shape::List,
            native: None,
            ..
        } = &slot.part.body
        else {
            continue;
        };
        let is_blank = |body: &BlockBody| match body {
            BlockBody::Text(text) => blank(text),
            BlockBody::Opaque(kind, _) => is_part_type(kind),
            BlockBody::Media(..) => false,
        };
        if !content.iter().any(|b| is_blank(&b.body)) {
            continue;
        }
        gone = gone.saturating_add(1);
        if let PartBody::Result { content, shape, .. } = &mut slot.part.to_mut().body {
            content.retain(|b| !is_blank(&b.body));
            if content.is_empty() {
                *shape = Shape::Text;
            }
        }
    }
    if gone > 0 {
        wire.touch();
        repairs.add("A9", wire.seq, "left out blank text");
    }
}

/// Everything that depends on turns.
pub(super) fn repair<'a>(mut wires: Vec<Wire<'a>>, repairs: &mut Repairs) -> Vec<Wire<'a>> {
    native_pairs(&mut wires, repairs);
    calls_last(&mut wires, repairs);
    trailing_thinking(&mut wires, repairs);
    let mut wires = pair(wires, &RULES, repairs);
    let mut ids = HashMap::new();
    for (_, range) in turns(&wires)
        .into_iter()
        .filter(|(side, _)| *side == Side::Model)
    {
        let turn = wires.get_mut(range).into_iter().flatten();
        unique_ids(turn, &mut ids, "A8", |_| false, repairs);
    }
    name_calls(&mut wires, &ids, "A5", repairs);
    if wires.is_empty() {
        wires.push(opener("A2", repairs));
    }
    wires
}

/// A15: calls the provider ran and their results belong in one turn.
fn native_pairs(wires: &mut Vec<Wire<'_>>, repairs: &mut Repairs) {
    let turns = turns(wires);
    for (n, (_, range)) in turns
        .iter()
        .enumerate()
        .filter(|(_, (s, _))| *s == Side::Model)
    {
        let later = turns.iter().skip(n.saturating_add(1));
        let running = later.clone().all(|(side, range)| {
            let held = wires.get(range.clone()).unwrap_or_default();
            let mut slots = held.iter().flat_map(|w| &w.slots);
            *side == Side::User && slots.all(Slot::is_client_result)
        });
        let paired = paired(wires.get(range.clone()).unwrap_or_default(), running);
        for wire in wires.get_mut(range.clone()).into_iter().flatten() {
            let gone = wire.retain(|slot| match &slot.part.body {
                PartBody::Call {
                    native: Some(_), ..
                }
                | PartBody::Result {
                    native: Some(_), ..
                } => paired.contains(&slot.key),
                _ => true,
            });
            if gone > 0 {
                let what = format!("left out {gone} unpaired blocks of a tool the provider ran");
                repairs.add("A15", wire.seq, what);
            }
        }
    }
    wires.retain(|w| !w.is_emptied());
}

/// Native calls and results of one turn that belong together, by the provider's own id that both
/// carry; while the turn is still running also the calls without a result.
fn paired(turn: &[Wire<'_>], running: bool) -> BTreeSet<Key> {
    let mut open: HashMap<&str, Key> = HashMap::new();
    let mut paired = BTreeSet::new();
    for slot in turn.iter().flat_map(|w| &w.slots) {
        match &slot.part.body {
            PartBody::Call {
                id,
                native: Some(_),
                ..
            } => {
                open.insert(id.as_deref().unwrap_or_default(), slot.key);
            }
            PartBody::Result {
                call,
                native: Some(_),
                ..
            } => {
                if let Some(call) = open.remove(call.as_deref().unwrap_or_default()) {
                    paired.extend([call, slot.key]);
                }
            }
            _ => {}
        }
    }
    if running {
        paired.extend(open.into_values());
    }
    paired
}

/// A14: within a turn, nothing but calls follows the first call.
fn calls_last(wires: &mut Vec<Wire<'_>>, repairs: &mut Repairs) {
    for (_, range) in turns(wires)
        .into_iter()
        .filter(|(side, _)| *side == Side::Model)
    {
        let Some(turn) = wires.get_mut(range) else {
            continue;
        };
        let slots = || {
            turn.iter()
                .flat_map(|w| &w.slots)
                .filter(|s| !s.is_client_result())
        };
        let first_call = slots().position(Slot::is_client_call);
        let last_other = slots()
            .collect::<Vec<_>>()
            .iter()
            .rposition(|s| !s.is_client_call());
        if first_call.is_none_or(|call| last_other.is_none_or(|other| other < call)) {
            continue;
        }
        let mut calls = Vec::new();
        for wire in turn.iter_mut() {
            let (moved, kept) = std::mem::take(&mut wire.slots)
                .into_iter()
                .partition::<Vec<_>, _>(Slot::is_client_call);
            calls.extend(moved);
            wire.slots = kept;
            wire.shape = Shape::List;
            wire.touch();
        }
        if let Some(last) = turn.last_mut() {
            last.slots.extend(calls);
            repairs.add(
                "A14",
                last.seq,
                "moved the calls of a turn behind its other content",
            );
        }
    }
    wires.retain(|w| !w.is_emptied());
}

/// A13: a turn does not end with thinking.
fn trailing_thinking(wires: &mut Vec<Wire<'_>>, repairs: &mut Repairs) {
    for (_, range) in turns(wires)
        .into_iter()
        .filter(|(side, _)| *side == Side::Model)
    {
        for wire in wires.get_mut(range).into_iter().flatten().rev() {
            let is_thinking = |s: &Slot<'_>| matches!(s.part.body, PartBody::Reasoning { .. });
            let mut gone = false;
            while wire.slots.last().is_some_and(is_thinking) {
                wire.slots.pop();
                gone = true;
            }
            if gone {
                wire.touch();
                repairs.add("A13", wire.seq, "left out thinking at the end of a turn");
            }
            if !wire.slots.is_empty() {
                break;
            }
        }
    }
    wires.retain(|w| !w.is_emptied());
}
