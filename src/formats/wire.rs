//! Messages on their way to a request body: the items of a window, joined as one wire message
//! where they came from one, with parts that repairs may change.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::{Item, Profile, Repair, anthropic, openai_chat};
use crate::log::{BlockBody, Fields, Json, Message, Part, PartBody, Role, Seq, Shape};
use crate::planted::{Bug, planted};

/// A part by its message and position.
pub(crate) type Key = (Seq, u32);

/// How a message's source format relates to the profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// It is the profile's own format.
    Same,
    /// Its messages are the profile's, inside another record.
    Kin,
    /// The application made it.
    Made,
    /// Another provider's.
    Foreign,
}

/// A part in a wire message.
#[derive(Clone, Debug)]
pub(crate) struct Slot<'a> {
    pub(crate) key: Key,
    pub(crate) part: Cow<'a, Part>,
    /// The call it answers.
    pub(crate) answers: Option<Key>,
}

/// One message of a request body.
#[derive(Clone, Debug)]
pub(crate) struct Wire<'a> {
    pub(crate) seq: Seq,
    pub(crate) role: Role,
    pub(crate) slots: Vec<Slot<'a>>,
    pub(crate) shape: Shape,
    pub(crate) extra: Cow<'a, Fields>,
    pub(crate) origin: Origin,
    /// The source's text, while it still says what the slots say.
    pub(crate) verbatim: Option<&'a Json>,
    touched: bool,
    members: Vec<&'a Message>,
}

impl Slot<'_> {
    pub(crate) fn is_client_call(&self) -> bool {
        matches!(self.part.body, PartBody::Call { native: None, .. })
    }

    pub(crate) fn is_client_result(&self) -> bool {
        matches!(self.part.body, PartBody::Result { native: None, .. })
    }

    pub(crate) fn is_interim(&self) -> bool {
        matches!(self.part.body, PartBody::Result { interim: true, .. })
    }
}

impl<'a> Wire<'a> {
    fn new(item: &Item<'a>, profile: Profile) -> Self {
        let message = item.message;
        let mut wire = Self {
            seq: item.seq,
            role: message.role.clone(),
            slots: Vec::new(),
            shape: message.shape,
            extra: Cow::Borrowed(&message.extra),
            origin: origin(message, profile),
            verbatim: None,
            touched: false,
            members: Vec::new(),
        };
        wire.add(item);
        wire
    }

    fn add(&mut self, item: &Item<'a>) {
        for (part, at) in item.message.parts.iter().zip(0_u32..) {
            let answers = usize::try_from(at).ok().and_then(|n| item.answers.get(n));
            let answers = answers.copied().flatten();
            self.slots.push(Slot {
                key: (item.seq, at),
                part: Cow::Borrowed(part),
                answers,
            });
        }
        self.members.push(item.message);
    }

    /// A wire message that stands beside this one, of other slots.
    pub(crate) fn beside(&self, role: Role, slots: Vec<Slot<'a>>) -> Self {
        let seq = slots.first().map_or(self.seq, |s| s.key.0);
        Self {
            origin: self.origin,
            ..Self::made(seq, role, slots, Shape::List)
        }
    }

    /// A wire message that no item stands for.
    pub(crate) fn made(seq: Seq, role: Role, slots: Vec<Slot<'a>>, shape: Shape) -> Self {
        Self {
            seq,
            role,
            slots,
            shape,
            extra: Cow::Owned(Fields::new()),
            origin: Origin::Made,
            verbatim: None,
            touched: false,
            members: Vec::new(),
        }
    }

    /// The source's text no longer says what this says.
    pub(crate) fn touch(&mut self) {
        self.verbatim = None;
        self.touched = true;
    }

    /// Whether repairs left nothing of it.
    pub(crate) fn is_emptied(&self) -> bool {
        self.touched && self.slots.is_empty()
    }

    pub(crate) fn parts(&self) -> Vec<&Part> {
        self.slots.iter().map(|s| s.part.as_ref()).collect()
    }

    /// Keeps the slots that `keep` wants; says how many went.
    pub(crate) fn retain(&mut self, keep: impl FnMut(&Slot<'a>) -> bool) -> usize {
        let before = self.slots.len();
        self.slots.retain(keep);
        let gone = before.saturating_sub(self.slots.len());
        if gone > 0 {
            self.touch();
        }
        gone
    }

    /// Removes a field beside the content; says whether it was there.
    pub(crate) fn strip(&mut self, name: &str) -> bool {
        let found = self
            .extra
            .iter()
            .any(|(n, value)| n == name && value.0.trim() != "null");
        if found {
            self.extra.to_mut().retain(|(n, _)| n != name);
            self.touch();
        }
        found
    }

    /// The shape that says the same in the fewest words; for messages that have no own.
    pub(crate) fn reshape(&mut self) {
        let mut blocks = self.slots.iter().filter_map(|s| match &s.part.body {
            PartBody::Block(body) => Some((body, &s.part.extra)),
            _ => None,
        });
        self.shape = match (blocks.next(), blocks.next()) {
            (None, _) if self.slots.is_empty() => Shape::Text,
            (None, _) => Shape::Null,
            (Some((BlockBody::Text(_), extra)), None) if extra.is_empty() => Shape::Text,
            _ => Shape::List,
        };
        self.touch();
    }
}

fn origin(message: &Message, profile: Profile) -> Origin {
    match (message.source.as_ref().map(|s| s.format.as_str()), profile) {
        (None, _) => Origin::Made,
        (Some(openai_chat::FORMAT), Profile::OpenAiChat)
        | (Some(anthropic::FORMAT), Profile::Anthropic) => Origin::Same,
        (Some("claude-code"), Profile::Anthropic) => Origin::Kin,
        (Some(_), _) => Origin::Foreign,
    }
}

/// Joins items into wire messages: what continues a message with it, and on Anthropic results with
/// the words that stood behind them. A joined message stands where its first item stands.
pub(crate) fn gather<'a>(items: &[Item<'a>], profile: Profile) -> Vec<Wire<'a>> {
    let mut wires: Vec<Wire<'a>> = Vec::new();
    let mut places: HashMap<Seq, usize> = HashMap::new();
    for item in items {
        let head = item.continues.or(match profile {
            Profile::Anthropic => item.same_source,
            Profile::OpenAiChat => None,
        });
        let place = head.and_then(|h| places.get(&h).copied());
        match place.and_then(|p| wires.get_mut(p).map(|w| (p, w))) {
            Some((place, wire)) if fits(wire, item, profile) => {
                wire.add(item);
                if origin(item.message, profile) == Origin::Foreign {
                    wire.origin = Origin::Foreign;
                }
                wire.shape = Shape::List;
                places.insert(item.seq, place);
            }
            _ => {
                places.insert(item.seq, wires.len());
                wires.push(Wire::new(item, profile));
            }
        }
    }
    wires.iter_mut().for_each(find_verbatim);
    wires
}

/// Messages of the profile's own format and others are read differently and stay apart.
fn fits(wire: &Wire<'_>, item: &Item<'_>, profile: Profile) -> bool {
    let mapped = |origin| matches!(origin, Origin::Made | Origin::Foreign);
    let origin = origin(item.message, profile);
    let alike = wire.origin == origin || (mapped(wire.origin) && mapped(origin));
    let words_after_results = wire.role == Role::Tool && item.message.role == Role::User;
    let sides = wire.role == item.message.role || (item.continues.is_none() && words_after_results);
    alike && sides
}

/// The kept source text counts only while reading it gives exactly these messages: an item may
/// have left, or have another content now.
fn find_verbatim(wire: &mut Wire<'_>) {
    let Some(first) = wire.members.first() else {
        return;
    };
    let Some(source) = &first.source else { return };
    let Some(verbatim) = source
        .verbatim
        .as_ref()
        .filter(|_| wire.origin == Origin::Same)
    else {
        return;
    };
    let again = match source.format.as_str() {
        openai_chat::FORMAT => openai_chat::read_message(verbatim).map(|m| vec![m]),
        _ if super::marked(&first.extra, anthropic::IN_SYSTEM_FIELD) => {
            Some(vec![anthropic::read_system(verbatim, anthropic::FORMAT)])
        }
        _ => anthropic::read_message(verbatim, anthropic::FORMAT),
    };
    let same = |again: &Message, now: &&Message| {
        (&again.role, &again.parts, again.shape, &again.extra)
            == (&now.role, &now.parts, now.shape, &now.extra)
    };
    if again.is_some_and(|again| {
        again.len() == wire.members.len()
            && again.iter().zip(&wire.members).all(|(a, b)| same(a, b))
    }) {
        wire.verbatim = Some(verbatim);
    }
}

/// The changes made, in the order they were made.
#[derive(Debug, Default)]
pub(crate) struct Repairs(pub(crate) Vec<Repair>);

impl Repairs {
    pub(crate) fn add(&mut self, rule: &'static str, seq: Seq, message: impl Into<String>) {
        self.0.push(Repair {
            rule,
            message: message.into(),
            seq: Some(seq),
        });
    }
}

/// For every call the one result that stands for it: the first final one, else the newest interim
/// one.
pub(crate) fn winners<'w, 'a: 'w>(
    slots: impl IntoIterator<Item = &'w Slot<'a>>,
) -> HashMap<Key, Key> {
    let mut winners: HashMap<Key, (Key, bool)> = HashMap::new();
    for slot in slots {
        let Some(call) = slot.answers.filter(|_| slot.is_client_result()) else {
            continue;
        };
        match winners.get(&call) {
            Some((_, false)) => {}
            _ => {
                winners.insert(call, (slot.key, slot.is_interim()));
            }
        }
    }
    winners
        .into_iter()
        .map(|(call, (result, _))| (call, result))
        .collect()
}

/// What closes a call whose result the window does not hold.
pub(crate) fn placeholder(call: Key) -> Slot<'static> {
    let mut part = Part::result("", "[no result was recorded for this call]");
    set_call(&mut part, None);
    Slot {
        key: call,
        part: Cow::Owned(part),
        answers: Some(call),
    }
}

pub(crate) fn set_call(part: &mut Part, id: Option<String>) {
    if let PartBody::Result { call, .. } = &mut part.body {
        *call = id;
    }
}

/// Gives every client call of these wire messages an id that is unique among them, keeping the
/// first of each, and tells the ids.
pub(crate) fn unique_ids<'w, 'a: 'w>(
    wires: impl IntoIterator<Item = &'w mut Wire<'a>>,
    ids: &mut HashMap<Key, String>,
    rule: &'static str,
    skip: impl Fn(&Slot<'a>) -> bool,
    repairs: &mut Repairs,
) {
    let mut wires: Vec<&mut Wire<'a>> = wires.into_iter().collect();
    let given = |slot: &Slot<'a>| match &slot.part.body {
        PartBody::Call {
            id: Some(id),
            native: None,
            ..
        } if !id.is_empty() => Some(id.clone()),
        _ => None,
    };
    let all: HashSet<String> = wires
        .iter()
        .flat_map(|w| &w.slots)
        .filter_map(given)
        .collect();
    let mut taken: HashSet<String> = HashSet::new();
    for wire in &mut wires {
        let mut changed = false;
        for slot in wire
            .slots
            .iter_mut()
            .filter(|s| s.is_client_call() && !skip(s))
        {
            let before = given(slot);
            let id = match &before {
                Some(id) if !taken.contains(id) || planted(Bug::RepeatedIdsAreSent) => id.clone(),
                _ => fresh_id(before.as_deref(), slot.key, |id| {
                    taken.contains(id) || all.contains(id)
                }),
            };
            if before.as_ref() != Some(&id) {
                changed = true;
                if let PartBody::Call { id: place, .. } = &mut slot.part.to_mut().body {
                    *place = Some(id.clone());
                }
                repairs.add(
                    rule,
                    slot.key.0,
                    format!("gave a call the id '{id}' of its own"),
                );
            }
            ids.insert(slot.key, id.clone());
            taken.insert(id);
        }
        if changed {
            wire.touch();
        }
    }
}

fn fresh_id(before: Option<&str>, key: Key, known: impl Fn(&str) -> bool) -> String {
    let base = before.map_or_else(|| format!("call_{}_{}", key.0.0, key.1), str::to_owned);
    let numbered = (2_u64..).map(|n| format!("{base}_{n}"));
    let mut choices = before
        .is_none()
        .then(|| base.clone())
        .into_iter()
        .chain(numbered);
    choices.find(|id| !known(id)).unwrap_or(base)
}

/// Writes the id of its call into every result.
pub(crate) fn name_calls(
    wires: &mut [Wire<'_>],
    ids: &HashMap<Key, String>,
    rule: &'static str,
    repairs: &mut Repairs,
) {
    for wire in wires {
        let mut changed = false;
        for slot in &mut wire.slots {
            let PartBody::Result {
                call, native: None, ..
            } = &slot.part.body
            else {
                continue;
            };
            let Some(id) = slot.answers.and_then(|key| ids.get(&key)) else {
                continue;
            };
            if call.as_ref() == Some(id) {
                continue;
            }
            let given = call.is_some();
            set_call(slot.part.to_mut(), Some(id.clone()));
            changed = true;
            if given {
                repairs.add(
                    rule,
                    slot.key.0,
                    format!("the result now names its call '{id}'"),
                );
            }
        }
        if changed {
            wire.touch();
        }
    }
}
