//! Calls and their outputs among items: which output stands for a call, in what words, and where.

use std::collections::{HashMap, HashSet};

use super::item::{self, kind_of};
use super::repair::{is_own, whole_item};
use crate::formats::json::{self, Writer};
use crate::formats::mark;
use crate::formats::wire::{Key, Repairs, Slot, Wire, placeholder, winners};
use crate::log::{Block, BlockBody, Fields, Json, Message, Part, PartBody, Role, Shape};

/// The kind of a call that only a picture answers.
const COMPUTER: &str = "computer_call";

/// The kinds of the client's calls.
pub(super) fn call_kinds(wires: &[Wire<'_>]) -> HashMap<Key, String> {
    let slots = wires.iter().flat_map(|w| &w.slots);
    let calls = slots.filter(|s| s.is_client_call());
    calls
        .filter_map(|s| Some((s.key, kind_of(&s.part)?)))
        .collect()
}

/// Says a result as the output of a call of this kind; says whether it can be.
pub(super) fn say_in_kind(part: &mut Part, call: &str) -> bool {
    let Some(kind) = item::answer_to(call).filter(|_| takes_words(call)) else {
        return false;
    };
    let words = Message::new(Role::Tool, crate::log::Author::Tool, vec![part.clone()]).words();
    let PartBody::Result {
        content,
        shape,
        error,
        ..
    } = &mut part.body
    else {
        return false;
    };
    let failed = *error == Some(true);
    let body = match call {
        "shell_call" => Some(shell_output(&words, failed)),
        "local_shell_call" | "apply_patch_call" => Some(BlockBody::Text(words)),
        _ => None,
    };
    if let Some(body) = body {
        *shape = match body {
            BlockBody::Text(_) => Shape::Text,
            _ => Shape::List,
        };
        let extra = Fields::new();
        *content = vec![Block { body, extra }];
    }
    if call == "apply_patch_call" {
        let status = if failed { "failed" } else { "completed" };
        part.extra.push(("status".to_owned(), json::quoted(status)));
    }
    part.extra.push(mark(kind));
    true
}

/// Whether words can be the output of a call of this kind: of a computer it is a picture, and what
/// answers a search for tools may be the output of a function.
fn takes_words(call: &str) -> bool {
    ![COMPUTER, "tool_search_call", item::FUNCTION_CALL].contains(&call)
}

fn shell_output(words: &str, failed: bool) -> BlockBody {
    let (code, stdout, stderr) = if failed {
        ("1", "", words)
    } else {
        ("0", words, "")
    };
    let mut outcome = Writer::default();
    outcome.text("type", "exit").field("exit_code", code);
    let mut out = Writer::default();
    out.text("stdout", stdout)
        .text("stderr", stderr)
        .field("outcome", &outcome.finish().0);
    BlockBody::Opaque(String::new(), out.finish())
}

/// What closes a call of this kind whose output the window does not hold; a call of a computer
/// cannot be closed.
fn closing(call: Key, kind: &str) -> Option<Wire<'static>> {
    let mut slot = placeholder(call);
    let part = slot.part.to_mut();
    if let PartBody::Result { error, .. } = &mut part.body {
        *error = Some(true);
    }
    say_in_kind(part, kind);
    let can = kind != COMPUTER;
    can.then(|| Wire::made(call.0, Role::Tool, vec![slot], Shape::List))
}

/// The ids of calls in items that are kept whole, by whether a client has to answer; what of them a
/// client would have to answer and did not, or answered without a call, goes.
pub(super) fn whole_pairs(
    wires: &mut Vec<Wire<'_>>,
    chained: bool,
    repairs: &mut Repairs,
) -> HashSet<String> {
    let mut calls: HashSet<String> = HashSet::new();
    let mut gone: Vec<(usize, &'static str)> = Vec::new();
    let mut open: HashMap<String, usize> = HashMap::new();
    for (n, wire) in wires.iter().enumerate() {
        let Some((kind, whole)) = whole_item(wire) else {
            continue;
        };
        let id = call_id(whole);
        if is_call(kind, whole) {
            if id.is_empty() || is_nameless(kind, whole) {
                gone.push((n, "R2"));
            } else if calls.contains(&id) {
                gone.push((n, "R3"));
            } else {
                open.insert(id.clone(), n);
                calls.insert(id);
            }
        } else if kind.ends_with("_call") && !id.is_empty() {
            calls.insert(id);
        } else if kind.ends_with("_call_output") {
            if id.is_empty() || !(chained || calls.contains(&id)) {
                gone.push((n, "R1"));
            }
            open.remove(&id);
        }
    }
    gone.extend(open.values().map(|n| (*n, "R2")));
    gone.sort_unstable();
    for (n, rule) in &gone {
        let what = "left out half of a call that is kept as its source wrote it";
        repairs.add(
            rule,
            wires.get(*n).map_or(crate::log::Seq(0), |w| w.seq),
            what,
        );
    }
    let mut at = 0_usize;
    wires.retain(|_| {
        let here = at;
        at = at.saturating_add(1);
        gone.binary_search_by_key(&here, |(n, _)| *n).is_err()
    });
    calls
}

fn call_id(whole: &Json) -> String {
    let fields = json::object(whole).unwrap_or_default();
    json::text_field(&fields, "call_id").unwrap_or_default()
}

/// Whether an item is a call that the client answers.
fn is_call(kind: &str, whole: &Json) -> bool {
    let fields = json::object(whole).unwrap_or_default();
    let by_client = json::text_field(&fields, "execution").as_deref() == Some("client");
    item::is_call(kind) && (kind != "tool_search_call" || by_client)
}

/// Whether a call does not say what it calls.
fn is_nameless(kind: &str, whole: &Json) -> bool {
    let fields = json::object(whole).unwrap_or_default();
    item::is_named(kind) && json::text_field(&fields, "name").is_none()
}

/// R1, R2: every call has one output behind it, and every output its call.
pub(super) fn pair<'a>(
    wires: Vec<Wire<'a>>,
    chained: bool,
    repairs: &mut Repairs,
) -> Vec<Wire<'a>> {
    let mut outputs = Outputs::of(&wires, chained);
    let mut wires: Vec<Option<Wire<'a>>> = wires.into_iter().map(Some).collect();
    for place in &mut wires {
        outputs.keep(place, repairs);
    }
    let mut out = Vec::new();
    // What answers a turn's run of calls stands behind all of them.
    let mut behind: Vec<Wire<'a>> = Vec::new();
    let mut turn = None;
    for wire in wires.into_iter().flatten() {
        if turn.replace(wire.head()) != Some(wire.head()) {
            out.append(&mut behind);
        }
        match call_of(&wire) {
            Some(call) => match outputs.answer(call) {
                Answer::There => out.push(wire),
                Answer::Behind(answer) => {
                    let (rule, what) = match answer.slots.first() {
                        Some(slot) if slot.key == call => {
                            ("R2", "closed a call that has no output here")
                        }
                        _ => ("R1", "moved an output behind its call"),
                    };
                    repairs.add(rule, answer.seq, what);
                    behind.push(*answer);
                    out.push(wire);
                }
                Answer::Impossible => {
                    repairs.add("R2", wire.seq, "left out a call that no text can answer");
                }
            },
            None => {
                out.append(&mut behind);
                out.push(wire);
            }
        }
    }
    out.append(&mut behind);
    out
}

fn call_of(wire: &Wire<'_>) -> Option<Key> {
    let call = wire.slots.first().filter(|slot| slot.is_client_call());
    call.map(|slot| slot.key)
}

/// What answers a call.
enum Answer<'a> {
    /// An output behind it.
    There,
    /// This, which has to be put behind it.
    Behind(Box<Wire<'a>>),
    Impossible,
}

/// The outputs of a list of items.
struct Outputs<'a> {
    winners: HashMap<Key, Key>,
    kinds: HashMap<Key, String>,
    chained: bool,
    /// The calls that were met on the way, also those in items that are kept whole.
    met: HashSet<Key>,
    met_whole: HashSet<String>,
    /// The calls with an output behind them.
    there: HashSet<Key>,
    /// Outputs that stand before their calls.
    early: HashMap<Key, Wire<'a>>,
}

impl<'a> Outputs<'a> {
    fn of(wires: &[Wire<'a>], chained: bool) -> Self {
        Self {
            winners: winners(wires.iter().flat_map(|w| &w.slots)),
            kinds: call_kinds(wires),
            chained,
            met: HashSet::new(),
            met_whole: HashSet::new(),
            there: HashSet::new(),
            early: HashMap::new(),
        }
    }

    /// Looks at the next item; takes it away where it is an output that cannot stay there.
    fn keep(&mut self, place: &mut Option<Wire<'a>>, repairs: &mut Repairs) {
        let Some(wire) = place.as_ref() else { return };
        self.met.extend(call_of(wire));
        let whole = whole_item(wire).filter(|(kind, _)| kind.ends_with("_call"));
        let id = whole.map(|(_, whole)| call_id(whole));
        self.met_whole.extend(id.filter(|id| !id.is_empty()));
        let Some(slot) = wire.slots.first().filter(|s| s.is_client_result()) else {
            return;
        };
        let call = slot.answers.filter(|call| self.kinds.contains_key(call));
        let Some(call) = call else {
            if !self.may_be_alone(wire, slot) {
                let what = "left out an output whose call the window does not hold";
                repairs.add("R1", wire.seq, what);
                *place = None;
            }
            return;
        };
        let first = self.winners.get(&call) == Some(&slot.key);
        if !first || !self.fits(call, slot) {
            let what = "left out a further output of a call, or one of the wrong kind";
            repairs.add("R1", wire.seq, what);
            *place = None;
        } else if self.met.contains(&call) {
            self.there.insert(call);
        } else if let Some(wire) = place.take() {
            self.early.insert(call, wire);
        }
    }

    /// Whether an output may stand without a call that the log knows: the provider holds the call, or it
    /// is in an item that is kept whole.
    fn may_be_alone(&self, wire: &Wire<'_>, slot: &Slot<'_>) -> bool {
        let PartBody::Result { call: Some(id), .. } = &slot.part.body else {
            return false;
        };
        (self.chained && !id.is_empty()) || (is_own(wire) && self.met_whole.contains(id))
    }

    fn fits(&self, call: Key, slot: &Slot<'_>) -> bool {
        let kind = kind_of(&slot.part).unwrap_or_default();
        let computer = self.kinds.get(&call).is_some_and(|kind| kind == COMPUTER);
        !computer || item::answer_to(COMPUTER) == Some(&kind)
    }

    fn answer(&mut self, call: Key) -> Answer<'a> {
        if self.there.contains(&call) {
            return Answer::There;
        }
        let kind = self
            .kinds
            .get(&call)
            .map(String::as_str)
            .unwrap_or_default();
        let answer = self.early.remove(&call).or_else(|| closing(call, kind));
        answer.map_or(Answer::Impossible, |wire| Answer::Behind(Box::new(wire)))
    }
}
