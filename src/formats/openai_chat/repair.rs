//! Makes the hard rules of OpenAI chat hold.

use std::collections::{HashMap, HashSet};

use super::message::{FUNCTION, FUNCTION_CALL};
use super::write::modernise;
use crate::formats::json;
use crate::formats::marked;
use crate::formats::wire::{
    Key, Repairs, Slot, Wire, name_calls, placeholder, unique_ids, winners,
};
use crate::log::{BlockBody, Part, PartBody, Role, Shape};

pub(super) fn repair<'a>(wires: Vec<Wire<'a>>, repairs: &mut Repairs) -> Vec<Wire<'a>> {
    let mut wires = wires;
    wires.iter_mut().for_each(|wire| clean(wire, repairs));
    wires.retain(|wire| keeps_role(wire, repairs));
    one_spelling(&mut wires);
    wires.iter_mut().for_each(|wire| fill_content(wire));
    wires.retain(|wire| says_something(wire, repairs));
    let mut wires = pair(wires, RULES, repairs);
    let mut ids = HashMap::new();
    for wire in wires.iter_mut().filter(|w| w.role == Role::Assistant) {
        unique_ids([wire], &mut ids, "C5", is_older, repairs);
    }
    name_calls(&mut wires, &ids, "C4", repairs);
    if wires.is_empty() {
        wires.push(opener("C1", repairs));
    }
    wires
}

/// The one message of a body that would have none.
pub(crate) fn opener<'a>(rule: &'static str, repairs: &mut Repairs) -> Wire<'a> {
    let seq = crate::log::Seq(0);
    repairs.add_to_body(rule, "the window holds no message; put one that says so");
    let part = std::borrow::Cow::Owned(Part::text("[the window is empty]"));
    let slot = Slot {
        key: (seq, 0),
        part,
        answers: None,
    };
    Wire::made(seq, Role::User, vec![slot], Shape::Text)
}

fn is_older(slot: &Slot<'_>) -> bool {
    marked(&slot.part.extra, FUNCTION_CALL) || marked(&slot.part.extra, FUNCTION)
}

/// Removes fields whose value the provider refuses.
fn clean(wire: &mut Wire<'_>, repairs: &mut Repairs) {
    let seq = wire.seq;
    let calls = wire
        .slots
        .iter()
        .any(|s| s.is_client_call() && !is_older(s));
    let named = wire.slots.iter().any(|s| {
        matches!(
            &s.part.body,
            PartBody::Result {
                call: Some(_),
                native: None,
                ..
            }
        )
    });
    let content = wire.shape != Shape::Absent;
    for (name, rule, was_read) in [
        ("tool_calls", "C6", calls),
        ("content", "C8", content),
        ("tool_call_id", "C4", named),
    ] {
        // Beside a value that was read it is a duplicate, which the reader of JSON passes over.
        if !was_read && wire.strip(name) {
            let what = format!("left out a '{name}' that the provider cannot read");
            repairs.add(rule, seq, what);
        }
    }
    if wire.verbatim.is_some_and(|v| !arguments_are_text(v)) {
        wire.touch();
        repairs.add("C9", seq, "wrote the arguments of calls as strings");
    }
    if wire.role != Role::Assistant && wire.retain(|s| !s.is_client_call()) > 0 {
        repairs.add("C3", seq, "left out calls that no model made");
    }
}

fn arguments_are_text(message: &crate::log::Json) -> bool {
    let fields = json::object(message).unwrap_or_default();
    let calls = json::field(&fields, "tool_calls")
        .and_then(json::array)
        .unwrap_or_default();
    calls.iter().all(|call| {
        let fields = json::object(call).unwrap_or_default();
        let custom = json::field(&fields, "custom").is_some();
        let (field, name) = if custom {
            ("custom", "input")
        } else {
            ("function", "arguments")
        };
        let function = json::field(&fields, field)
            .and_then(json::object)
            .unwrap_or_default();
        json::text_field(&function, name).is_some()
    })
}

fn keeps_role(wire: &Wire<'_>, repairs: &mut Repairs) -> bool {
    if let Role::Other(name) = &wire.role {
        repairs.add(
            "C2",
            wire.seq,
            format!("left out a message of unknown role '{name}'"),
        );
        return false;
    }
    if wire.role == Role::Tool && !wire.slots.iter().any(Slot::is_client_result) {
        repairs.add(
            "C4",
            wire.seq,
            "left out a tool's message that holds no result",
        );
        return false;
    }
    true
}

/// A call and its result are both of the older kind or both of the newer.
fn one_spelling(wires: &mut [Wire<'_>]) {
    let slots = || wires.iter().flat_map(|w| &w.slots);
    let older: HashSet<Key> = slots()
        .filter(|s| s.is_client_call() && is_older(s))
        .map(|s| s.key)
        .collect();
    let mixed: HashSet<Key> = slots()
        .filter(|s| s.is_client_result())
        .filter_map(|s| s.answers.map(|call| (call, is_older(s))))
        .filter(|(call, result_older)| older.contains(call) != *result_older)
        .map(|(call, _)| call)
        .collect();
    for wire in wires {
        for slot in &mut wire.slots {
            let call = if slot.is_client_call() {
                Some(slot.key)
            } else {
                slot.answers
            };
            if call.is_some_and(|call| mixed.contains(&call)) && is_older(slot) {
                modernise(&mut slot.part);
                wire.verbatim = None;
            }
        }
    }
}

/// Gives an assistant message that has only reasoning an empty text.
fn fill_content(wire: &mut Wire<'_>) {
    let only_reasoning = !wire.slots.is_empty()
        && wire
            .slots
            .iter()
            .all(|s| matches!(s.part.body, PartBody::Reasoning { .. }));
    if wire.role == Role::Assistant && only_reasoning && has_no_content(wire) {
        wire.shape = Shape::Text;
        wire.touch();
    }
}

fn has_blocks(wire: &Wire<'_>) -> usize {
    let is_block = |s: &&Slot<'_>| match &s.part.body {
        PartBody::Block(BlockBody::Opaque(kind, _)) => {
            kind != "refusal" || wire.shape == Shape::List
        }
        PartBody::Block(_) => true,
        _ => false,
    };
    wire.slots.iter().filter(is_block).count()
}

fn has_no_content(wire: &Wire<'_>) -> bool {
    has_blocks(wire) == 0 && matches!(wire.shape, Shape::Null | Shape::Absent)
}

/// C7 and C8: messages without content.
fn says_something(wire: &Wire<'_>, repairs: &mut Repairs) -> bool {
    let rule = match wire.role {
        Role::Assistant => {
            let beside = ["refusal", "audio", "function_call"].iter().any(|name| {
                json::field(&wire.extra, name).is_some_and(|value| !json::is_null(value))
            });
            let refusal = wire.slots.iter().any(|s| {
                matches!(&s.part.body, PartBody::Block(BlockBody::Opaque(k, _)) if k == "refusal")
            });
            let calls = wire.slots.iter().any(Slot::is_client_call);
            let silent = has_no_content(wire) && !(beside || refusal || calls);
            silent.then_some("C7")
        }
        Role::User | Role::System | Role::Developer => {
            let empty = has_blocks(wire) == 0 && wire.shape != Shape::Text;
            empty.then_some("C8")
        }
        _ => None,
    };
    if let Some(rule) = rule {
        repairs.add(rule, wire.seq, "left out a message without content");
    }
    rule.is_none()
}

/// The names of the rules that bind calls and results.
#[derive(Clone, Copy)]
pub(crate) struct PairRules {
    /// Every call has its result right behind it.
    pub(crate) answered: &'static str,
    /// Every result has its call.
    pub(crate) called: &'static str,
    /// A call has one result.
    pub(crate) once: &'static str,
}

const RULES: PairRules = PairRules {
    answered: "C3",
    called: "C4",
    once: "C5",
};

/// Puts the results of a message's calls right behind it.
pub(crate) fn pair<'a>(
    wires: Vec<Wire<'a>>,
    rules: PairRules,
    repairs: &mut Repairs,
) -> Vec<Wire<'a>> {
    let winners = winners(wires.iter().flat_map(|w| &w.slots).filter(|s| !is_older(s)));
    let places: HashMap<Key, usize> = wires
        .iter()
        .enumerate()
        .filter(|(_, w)| is_result(w))
        .filter_map(|(n, w)| w.slots.first().map(|s| (s.key, n)))
        .collect();
    let mut run_ends = vec![0; wires.len()];
    let mut end = wires.len();
    for (n, wire) in wires.iter().enumerate().rev() {
        if !is_result(wire) {
            end = n;
        }
        if let Some(place) = run_ends.get_mut(n) {
            *place = end;
        }
    }
    let mut wires: Vec<Option<Wire<'a>>> = wires.into_iter().map(Some).collect();
    let mut out = Vec::new();
    for n in 0..wires.len() {
        let Some(wire) = wires.get_mut(n).and_then(Option::take) else {
            continue;
        };
        if is_result(&wire) {
            unpaired(&wire, &winners, rules, repairs);
            continue;
        }
        let calls: Vec<Key> = wire
            .slots
            .iter()
            .filter(|s| s.is_client_call() && !is_older(s) && wire.role == Role::Assistant)
            .map(|s| s.key)
            .collect();
        let run_end = run_ends.get(n.saturating_add(1)).copied().unwrap_or(n);
        out.push(wire);
        let found = found(&calls, &winners, &places);
        answer(
            (&calls, &found),
            run_end,
            &mut wires,
            &mut out,
            rules.answered,
            repairs,
        );
    }
    out
}

fn is_result(wire: &Wire<'_>) -> bool {
    wire.role == Role::Tool && !wire.slots.iter().any(is_older)
}

fn unpaired(wire: &Wire<'_>, winners: &HashMap<Key, Key>, rules: PairRules, repairs: &mut Repairs) {
    let slot = wire.slots.first();
    let winner = slot
        .and_then(|s| s.answers)
        .and_then(|call| winners.get(&call));
    if winner.is_some() && winner != slot.map(|s| &s.key).as_ref().copied() {
        repairs.add(
            rules.once,
            wire.seq,
            "left out a further result of a call that has one",
        );
    } else {
        repairs.add(
            rules.called,
            wire.seq,
            "left out a result whose call the window does not hold",
        );
    }
}

/// Where the results of these calls stand, in the order in which they stand.
fn found(calls: &[Key], winners: &HashMap<Key, Key>, places: &HashMap<Key, usize>) -> Vec<usize> {
    let results = calls.iter().filter_map(|call| winners.get(call));
    let mut found: Vec<usize> = results.filter_map(|r| places.get(r).copied()).collect();
    found.sort_unstable();
    found
}

/// Adds the results of these calls that were found, and closes the rest.
fn answer<'a>(
    (calls, found): (&[Key], &[usize]),
    run_end: usize,
    wires: &mut [Option<Wire<'a>>],
    out: &mut Vec<Wire<'a>>,
    rule: &'static str,
    repairs: &mut Repairs,
) {
    let mut answered: HashSet<Key> = HashSet::new();
    for place in found {
        let Some(wire) = wires.get_mut(*place).and_then(Option::take) else {
            continue;
        };
        if *place >= run_end {
            repairs.add(rule, wire.seq, "moved a result right behind its call");
        }
        answered.extend(wire.slots.iter().filter_map(|s| s.answers));
        out.push(wire);
    }
    for call in calls.iter().filter(|call| !answered.contains(call)) {
        repairs.add(rule, call.0, "closed a call that has no result here");
        out.push(Wire::made(
            call.0,
            Role::Tool,
            vec![placeholder(*call)],
            Shape::List,
        ));
    }
}
