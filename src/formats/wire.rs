//! Messages on their way to a request body: the items of a window, joined as one wire message
//! where they came from one, with parts that repairs may change.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::dialect::Dialect;
use super::json::{self, Writer};
use super::{Item, Repair};
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
    /// The message it continues, where that is not joined with it.
    pub(crate) continues: Option<Seq>,
    /// That message is not in the window.
    pub(crate) severed: bool,
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
    fn new(item: &Item<'a>, dialect: &dyn Dialect) -> Self {
        let message = item.message;
        let mut wire = Self {
            seq: item.seq,
            role: message.role.clone(),
            slots: Vec::new(),
            shape: message.shape,
            extra: Cow::Borrowed(&message.extra),
            origin: origin(message, dialect),
            verbatim: None,
            continues: item.continues,
            severed: false,
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
            continues: self.continues,
            severed: self.severed,
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
            continues: None,
            severed: false,
            touched: false,
            members: Vec::new(),
        }
    }

    /// The first message of the model's turn that it is of.
    pub(crate) fn head(&self) -> Seq {
        self.continues.unwrap_or(self.seq)
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

    /// The message as its source wrote it, where that still says the same; else as `write` does.
    pub(crate) fn written(
        &self,
        write: impl FnOnce(&Role, &[&Part], Shape, &Fields) -> Json,
    ) -> Json {
        match self.verbatim {
            Some(verbatim) => verbatim.clone(),
            None => write(&self.role, &self.parts(), self.shape, &self.extra),
        }
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

fn origin(message: &Message, dialect: &dyn Dialect) -> Origin {
    match message.source.as_ref().map(|s| s.format.as_str()) {
        None => Origin::Made,
        Some(format) if format == dialect.format() => Origin::Same,
        Some(format) if dialect.kin().contains(&format) => Origin::Kin,
        Some(_) => Origin::Foreign,
    }
}

/// Joins items into wire messages: what continues a message with it, and, where the
/// dialect has it so, results with the words that stood behind them. A joined message stands where its first item stands.
pub(crate) fn gather<'a>(items: &[Item<'a>], dialect: &dyn Dialect) -> Vec<Wire<'a>> {
    let mut wires: Vec<Wire<'a>> = Vec::new();
    let mut places: HashMap<Seq, usize> = HashMap::new();
    for item in items {
        let same_source = item.same_source.filter(|_| dialect.joins_same_source());
        let continued = item.continues.filter(|_| dialect.joins_continued());
        let head = continued.or(same_source);
        let place = match head.and_then(|h| places.get(&h).copied()) {
            None => wires.len().checked_sub(1).map(|last| (last, false)),
            found => found.map(|place| (place, true)),
        };
        let wire = place.and_then(|(p, linked)| Some((p, linked, wires.get_mut(p)?)));
        match wire {
            Some((place, linked, wire)) if fits(wire, item, linked, dialect) => {
                wire.add(item);
                if origin(item.message, dialect) == Origin::Foreign {
                    wire.origin = Origin::Foreign;
                }
                wire.shape = Shape::List;
                places.insert(item.seq, place);
            }
            _ => {
                let mut wire = Wire::new(item, dialect);
                wire.severed = item.continues.is_some_and(|h| !places.contains_key(&h));
                places.insert(item.seq, wires.len());
                wires.push(wire);
            }
        }
    }
    wires
        .iter_mut()
        .for_each(|wire| find_verbatim(wire, dialect));
    wires
}

/// Messages of the profile's own format and others are read differently and stay apart; the dialect
/// says which of its own are one.
fn fits(wire: &Wire<'_>, item: &Item<'_>, linked: bool, dialect: &dyn Dialect) -> bool {
    let mapped = |origin| matches!(origin, Origin::Made | Origin::Foreign);
    let origin = origin(item.message, dialect);
    let words_after_results = wire.role == Role::Tool && item.message.role == Role::User;
    let sides = wire.role == item.message.role || (item.continues.is_none() && words_after_results);
    if mapped(wire.origin) || mapped(origin) {
        return linked && mapped(wire.origin) && mapped(origin) && sides;
    }
    if wire.origin != origin {
        return false;
    }
    let last = wire.members.last();
    let continues = linked && sides;
    last.is_some_and(|last| dialect.goes_on(last, item.message, continues))
}

/// The kept source text counts only while reading it gives exactly these messages: an item may
/// have left, or have another content now.
fn find_verbatim(wire: &mut Wire<'_>, dialect: &dyn Dialect) {
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
    let again = dialect.read(verbatim, first);
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
    /// What was done to the body, and to no message of it.
    pub(crate) fn add_to_body(&mut self, rule: &'static str, message: impl Into<String>) {
        self.0.push(Repair {
            rule,
            message: message.into(),
            seq: None,
        });
    }

    pub(crate) fn add(&mut self, rule: &'static str, seq: Seq, message: impl Into<String>) {
        self.0.push(Repair {
            rule,
            message: message.into(),
            seq: Some(seq),
        });
    }
}

/// Writes messages as a list in a field; gives for each the entry that introduced it.
pub(crate) fn write_list(
    body: &mut Writer,
    field: &str,
    wires: &[Wire<'_>],
    write: impl Fn(&Wire<'_>) -> Json,
) -> Vec<Seq> {
    let written: Vec<Json> = wires.iter().map(write).collect();
    body.field(field, &json::write_array(&written).0);
    wires.iter().map(|wire| wire.seq).collect()
}

/// Whether a part is a text without words.
pub(crate) fn is_blank_text(part: &Part) -> bool {
    matches!(&part.body, PartBody::Block(BlockBody::Text(text)) if text.trim().is_empty())
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

/// What stands before a model's message that nothing may begin with.
pub(crate) fn beginning<'a>(first: Seq, rule: &'static str, repairs: &mut Repairs) -> Wire<'a> {
    let what = "put words of the user before the model's, with which the window begins";
    repairs.add(rule, first, what);
    let part = Cow::Owned(Part::text("[what stood before this is not in the window]"));
    let slot = Slot {
        key: (first, 0),
        part,
        answers: None,
    };
    Wire::made(first, Role::User, vec![slot], Shape::Text)
}

/// Parts instructions from the conversation, for providers that have them in a field of their own;
/// `own` tells those that stood there.
pub(crate) fn hoist<'a>(
    wires: Vec<Wire<'a>>,
    own: impl Fn(&Wire<'a>) -> bool,
    rule: &'static str,
    repairs: &mut Repairs,
) -> (Vec<Wire<'a>>, Vec<Wire<'a>>) {
    let (mut system, mut others) = (Vec::new(), Vec::new());
    for wire in wires {
        if !wire.role.is_instruction() {
            others.push(wire);
            continue;
        }
        if !others.is_empty() && !own(&wire) {
            repairs.add(rule, wire.seq, "moved instructions out of the conversation");
        }
        system.push(wire);
    }
    (system, others)
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
    let naming = Naming {
        rule,
        taken: HashSet::new(),
        keeps: |_, _| true,
        choices: numbered,
    };
    name_uniquely(wires, ids, naming, skip, repairs);
}

/// How calls get ids.
pub(crate) struct Naming {
    pub(crate) rule: &'static str,
    /// Ids that no call may have.
    pub(crate) taken: HashSet<String>,
    /// Whether a call of this origin keeps this id while no other has it.
    pub(crate) keeps: fn(Origin, &str) -> bool,
    /// What it is called instead, of its id and place.
    pub(crate) choices: fn(Option<&str>, Key) -> Box<dyn Iterator<Item = String>>,
}

/// The same, by a provider's own rules for ids.
pub(crate) fn name_uniquely<'w, 'a: 'w>(
    wires: impl IntoIterator<Item = &'w mut Wire<'a>>,
    ids: &mut HashMap<Key, String>,
    naming: Naming,
    skip: impl Fn(&Slot<'a>) -> bool,
    repairs: &mut Repairs,
) {
    let Naming {
        rule,
        mut taken,
        keeps,
        choices,
    } = naming;
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
    for wire in &mut wires {
        let mut changed = false;
        let origin = wire.origin;
        for slot in wire
            .slots
            .iter_mut()
            .filter(|s| s.is_client_call() && !skip(s))
        {
            let before = given(slot);
            let id = match &before {
                Some(id)
                    if keeps(origin, id)
                        && (!taken.contains(id) || planted(Bug::RepeatedIdsAreSent)) =>
                {
                    id.clone()
                }
                _ => choices(before.as_deref(), slot.key)
                    .find(|id| !taken.contains(id) && !all.contains(id))
                    .unwrap_or_default(),
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

/// The id with a number behind it; for a call without one, its place.
pub(crate) fn numbered(before: Option<&str>, key: Key) -> Box<dyn Iterator<Item = String>> {
    let base = before.map_or_else(|| format!("call_{}_{}", key.0.0, key.1), str::to_owned);
    let bare = before.is_none().then(|| base.clone());
    let numbered = (2_u64..).map(move |n| format!("{base}_{n}"));
    Box::new(bare.into_iter().chain(numbered))
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
