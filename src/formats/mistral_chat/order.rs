//! Makes Mistral's rules of order hold: who follows whom, and who is last.

use crate::formats::json;
use crate::formats::openai_chat::opener;
use crate::formats::wire::{Repairs, Slot, Wire};
use crate::log::{Json, Part, Role, Shape};

/// The field that marks a last message that the model goes on from.
const PREFIX: &str = "prefix";

/// M1, M2, M3.
pub(super) fn order<'a>(wires: Vec<Wire<'a>>, repairs: &mut Repairs) -> Vec<Wire<'a>> {
    let mut wires = instructions_first(wires, repairs);
    last_is_no_instruction(&mut wires, repairs);
    if let [only] = wires.as_slice()
        && only.role == Role::Assistant
    {
        let what = "a message alone is no model's; put a user's before it";
        let before = opening(only, "[no message before this one is in the window]");
        repairs.add("M1", only.seq, what);
        wires.insert(0, before);
    }
    prefix_last(&mut wires, repairs);
    if wires.is_empty() {
        wires.push(opener("M1", repairs));
    }
    wires
}

/// A user's message that no item stands for.
fn opening<'a>(beside: &Wire<'_>, words: &str) -> Wire<'a> {
    let part = std::borrow::Cow::Owned(Part::text(words));
    let slot = Slot {
        key: (beside.seq, 0),
        part,
        answers: None,
    };
    Wire::made(beside.seq, Role::User, vec![slot], Shape::Text)
}

const fn is_turn(role: &Role) -> bool {
    matches!(role, Role::Assistant | Role::Tool)
}

/// M2: instructions stand before the model's turn that they would follow.
fn instructions_first<'a>(wires: Vec<Wire<'a>>, repairs: &mut Repairs) -> Vec<Wire<'a>> {
    let mut out: Vec<Wire<'a>> = Vec::new();
    // Where the model's turn at the end begins.
    let mut turn = 0_usize;
    for wire in wires {
        if wire.role != Role::System {
            let at_turn = out.last().is_some_and(|w| is_turn(&w.role));
            if !at_turn {
                turn = out.len();
            }
            out.push(wire);
            continue;
        }
        if out.last().is_some_and(|w| is_turn(&w.role)) {
            let what = "moved instructions before the model's turn that they stood behind";
            repairs.add("M2", wire.seq, what);
            out.insert(turn.min(out.len()), wire);
            turn = turn.saturating_add(1);
        } else {
            out.push(wire);
        }
    }
    out
}

/// M3: instructions at the end stand before the user's words that they follow.
fn last_is_no_instruction(wires: &mut Vec<Wire<'_>>, repairs: &mut Repairs) {
    let is_system = |w: &Wire<'_>| w.role == Role::System;
    let Some(user) = wires.iter().rposition(|w| !is_system(w)) else {
        if let Some(last) = wires.last() {
            let what = "the window holds only instructions; put a user's message behind them";
            repairs.add("M3", last.seq, what);
            let opening = opening(last, "[the window is empty]");
            wires.push(opening);
        }
        return;
    };
    let last = wires.split_off(user.saturating_add(1));
    if last.is_empty() {
        return;
    }
    // A model's turn has none behind it, so that these are a user's words.
    let turn_end = wires.iter().rposition(|w| is_turn(&w.role));
    let words = wires.iter().rposition(|w| w.role != Role::User);
    let mut at = words.map_or(0, |n| n.saturating_add(1));
    if turn_end.is_some() && turn_end == words {
        let before = wires.get(..at).unwrap_or_default();
        let begins = before.iter().rposition(|w| !is_turn(&w.role));
        at = begins.map_or(0, |n| n.saturating_add(1));
    }
    for wire in &last {
        let what = "moved instructions from the end before what they stood behind";
        repairs.add("M3", wire.seq, what);
    }
    wires.splice(at..at, last);
}

/// M3: only a last message has a prefix, and a model's message that is last has one.
fn prefix_last(wires: &mut [Wire<'_>], repairs: &mut Repairs) {
    let last = wires.len().saturating_sub(1);
    for (n, wire) in wires.iter_mut().enumerate() {
        let set = json::field(&wire.extra, PREFIX).and_then(json::boolean) == Some(true);
        if n < last && set && wire.strip(PREFIX) {
            let what = "took 'prefix' away from a message that is not the last";
            repairs.add("M3", wire.seq, what);
        }
        if n == last && wire.role == Role::Assistant && !set {
            wire.strip(PREFIX);
            let extra = wire.extra.to_mut();
            extra.push((PREFIX.to_owned(), Json("true".to_owned())));
            wire.touch();
            let what = "wrote 'prefix' on the model's last message: the answer goes on from it";
            repairs.add("M3", wire.seq, what);
        }
    }
}
