//! Puts results where most providers want them: in the user turn behind their calls. Consecutive
//! messages of one side are one turn.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::wire::{Key, Repairs, Slot, Wire, placeholder, winners};
use crate::log::{Role, Shape};

/// Which side of the conversation a wire message counts to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Model,
    User,
    System,
}

pub(crate) fn side(wire: &Wire<'_>) -> Side {
    match wire.role {
        Role::Assistant => Side::Model,
        Role::System | Role::Developer => Side::System,
        _ => Side::User,
    }
}

/// The turns of wire messages.
pub(crate) fn turns(wires: &[Wire<'_>]) -> Vec<(Side, Range<usize>)> {
    let mut turns: Vec<(Side, Range<usize>)> = Vec::new();
    for (n, wire) in wires.iter().enumerate() {
        let end = n.saturating_add(1);
        match turns.last_mut() {
            Some((last, range)) if *last == side(wire) => range.end = end,
            _ => turns.push((side(wire), n..end)),
        }
    }
    turns
}

/// What a provider wants of calls and results, by the names of its rules.
pub(crate) struct Rules {
    /// Every call has its result in the very next user turn.
    pub(crate) answered: &'static str,
    /// A result answers a call of the turn before it, and stands on the user's side.
    pub(crate) asked: &'static str,
    /// A call has one result.
    pub(crate) once: &'static str,
    /// Results stand before anything else.
    pub(crate) first: &'static str,
    /// Whether they have to, or may stand anywhere in their turn.
    pub(crate) must_be_first: bool,
    /// Whether calls that nothing follows need results, too.
    pub(crate) closes_the_last: bool,
}

/// Results stand on the user's side.
pub(crate) fn results_apart<'a>(
    mut wire: Wire<'a>,
    rule: &'static str,
    repairs: &mut Repairs,
) -> Vec<Wire<'a>> {
    if side(&wire) == Side::User || !wire.slots.iter().any(Slot::is_client_result) {
        return vec![wire];
    }
    repairs.add(
        rule,
        wire.seq,
        "moved results out of a message that is not the user's",
    );
    let (results, others): (Vec<_>, Vec<_>) = std::mem::take(&mut wire.slots)
        .into_iter()
        .partition(Slot::is_client_result);
    let results = wire.beside(Role::Tool, results);
    wire.slots = others;
    wire.touch();
    vec![wire, results]
}

/// Results whose call the window does not hold.
pub(crate) fn orphans(wires: &mut [Wire<'_>], rule: &'static str, repairs: &mut Repairs) {
    let calls: HashSet<Key> = wires
        .iter()
        .flat_map(|w| &w.slots)
        .filter(|s| s.is_client_call())
        .map(|s| s.key)
        .collect();
    for wire in wires {
        let held = |slot: &Slot<'_>| slot.answers.is_some_and(|call| calls.contains(&call));
        let gone = wire.retain(|slot| !slot.is_client_result() || held(slot));
        if gone > 0 {
            let what = format!("left out {gone} results whose calls the window does not hold");
            repairs.add(rule, wire.seq, what);
        }
    }
}

/// A turn's wire messages, with the calls the user turn must answer first.
struct Turn<'a> {
    side: Side,
    wires: Vec<Wire<'a>>,
    /// The client calls of this turn.
    calls: Vec<Key>,
    /// The calls of the turn before.
    due: Vec<Key>,
}

/// A result taken from where it stood.
struct Taken<'a> {
    slot: Slot<'a>,
    order: usize,
    turn: usize,
    first: bool,
}

/// Puts the results of a turn's calls first in the next user turn, where they are not as they have to
/// be.
pub(crate) fn pair<'a>(
    wires: Vec<Wire<'a>>,
    rules: &Rules,
    repairs: &mut Repairs,
) -> Vec<Wire<'a>> {
    let winners = winners(wires.iter().flat_map(|w| &w.slots));
    let mut turns = split(wires);
    let ordered: Vec<bool> = turns
        .iter()
        .map(|turn| in_order(turn, &winners, rules))
        .collect();
    let mut taken: HashMap<Key, Taken<'a>> = HashMap::new();
    let mut order = 0_usize;
    for (n, turn) in turns
        .iter_mut()
        .enumerate()
        .filter(|(n, _)| ordered.get(*n) == Some(&false))
    {
        let mut first = true;
        for wire in &mut turn.wires {
            for slot in take_results(wire, &mut first) {
                order = order.saturating_add(1);
                let (slot, first) = slot;
                match slot
                    .answers
                    .filter(|call| winners.get(call) == Some(&slot.key))
                {
                    Some(call) => {
                        taken.insert(
                            call,
                            Taken {
                                slot,
                                order,
                                turn: n,
                                first,
                            },
                        );
                    }
                    None => {
                        let what = "left out a further result of a call that has one";
                        repairs.add(rules.once, slot.key.0, what);
                    }
                }
            }
        }
        turn.wires.retain(|w| !w.slots.is_empty());
    }
    let mut out = Vec::new();
    for (n, turn) in turns.into_iter().enumerate() {
        let next = n.saturating_add(1);
        out.extend(turn.wires);
        let wanting = match ordered.get(next) {
            Some(in_order) => !in_order,
            None => rules.closes_the_last,
        };
        if !turn.calls.is_empty() && wanting {
            out.push(results(&turn.calls, next, &mut taken, rules, repairs));
        }
    }
    let mut late: Vec<Taken<'_>> = taken.into_values().collect();
    late.sort_by_key(|t| t.order);
    for late in late {
        repairs.add(
            rules.asked,
            late.slot.key.0,
            "left out a result that stands before its call",
        );
    }
    out
}

fn split(wires: Vec<Wire<'_>>) -> Vec<Turn<'_>> {
    let mut split: Vec<Turn<'_>> = Vec::new();
    for wire in wires {
        let side = side(&wire);
        if split.last().is_none_or(|turn| turn.side != side) {
            let due = split
                .last()
                .map(|turn| turn.calls.clone())
                .unwrap_or_default();
            split.push(Turn {
                side,
                wires: Vec::new(),
                calls: Vec::new(),
                due,
            });
        }
        if let Some(turn) = split.last_mut() {
            turn.calls.extend(
                wire.slots
                    .iter()
                    .filter(|s| s.is_client_call())
                    .map(|s| s.key),
            );
            turn.wires.push(wire);
        }
    }
    split
}

/// Whether a turn holds exactly the results that are due in it, where they have to be.
fn in_order(turn: &Turn<'_>, winners: &HashMap<Key, Key>, rules: &Rules) -> bool {
    let slots = || turn.wires.iter().flat_map(|w| &w.slots);
    if turn.side != Side::User {
        return turn.due.is_empty() && !slots().any(Slot::is_client_result);
    }
    let results: Vec<&Slot<'_>> = if rules.must_be_first {
        slots().take_while(|s| s.is_client_result()).collect()
    } else {
        slots().filter(|s| s.is_client_result()).collect()
    };
    let all = slots().filter(|s| s.is_client_result()).count();
    let due: HashSet<Key> = turn.due.iter().copied().collect();
    let given: HashSet<Key> = results
        .iter()
        .filter(|s| s.answers.and_then(|call| winners.get(&call)) == Some(&s.key))
        .filter_map(|s| s.answers)
        .collect();
    all == results.len() && results.len() == given.len() && given == due
}

/// Takes the results out of a wire message; each with whether only results stood before it.
fn take_results<'a>(wire: &mut Wire<'a>, first: &mut bool) -> Vec<(Slot<'a>, bool)> {
    if !wire.slots.iter().any(Slot::is_client_result) {
        *first = false;
        return Vec::new();
    }
    let mut results = Vec::new();
    let mut kept = Vec::new();
    for slot in std::mem::take(&mut wire.slots) {
        if slot.is_client_result() {
            results.push((slot, *first));
        } else {
            *first = false;
            kept.push(slot);
        }
    }
    wire.slots = kept;
    wire.touch();
    if wire.role == Role::Tool {
        wire.role = Role::User;
    }
    results
}

/// The wire message that answers these calls.
fn results<'a>(
    calls: &[Key],
    turn: usize,
    taken: &mut HashMap<Key, Taken<'a>>,
    rules: &Rules,
    repairs: &mut Repairs,
) -> Wire<'a> {
    let mut found: Vec<Taken<'a>> = calls.iter().filter_map(|call| taken.remove(call)).collect();
    found.sort_by_key(|t| t.order);
    let mut answered: HashSet<Key> = HashSet::new();
    let mut slots = Vec::new();
    for result in found {
        if result.turn != turn {
            repairs.add(
                rules.answered,
                result.slot.key.0,
                "moved a result right behind its call",
            );
        } else if !result.first {
            repairs.add(
                rules.first,
                result.slot.key.0,
                "moved a result before other content",
            );
        }
        answered.extend(result.slot.answers);
        slots.push(result.slot);
    }
    for call in calls.iter().filter(|call| !answered.contains(call)) {
        repairs.add(
            rules.answered,
            call.0,
            "closed a call that has no result here",
        );
        slots.push(placeholder(*call));
    }
    let seq = slots.first().map_or(crate::log::Seq(0), |s| s.key.0);
    Wire::made(seq, Role::Tool, slots, Shape::List)
}
