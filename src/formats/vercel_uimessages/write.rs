//! Lists of UI messages.

use std::collections::{HashMap, HashSet};

use super::message::{self, STEP_START, Said, role_name};
use super::read::{Told, read_message};
use super::repair;
use crate::formats::dialect::Dialect;
use crate::formats::json::{self, Writer};
use crate::formats::media;
use crate::formats::openai_chat::map_user_part;
use crate::formats::render::{Mapped, keep_mapped, map_block, map_body};
use crate::formats::settings::Tool;
use crate::formats::wire::{Key, Origin, Repairs, Slot, Wire, winners, write_list};
use crate::formats::{MARK, marked};
use crate::log::{Json, Message, Part, PartBody, Role, Seq, Shape};

/// Lists of UI messages.
pub(crate) struct UiMessages;

impl Dialect for UiMessages {
    fn format(&self) -> &'static str {
        super::FORMAT
    }

    fn title(&self) -> &'static str {
        "A list of UI messages of the AI SDK"
    }

    fn goes_on(&self, before: &Message, next: &Message, _continues: bool) -> bool {
        let id = |message: &Message| message.source.as_ref().and_then(|s| s.id.clone());
        let step = |message: &Message| json::text_field(&message.extra, MARK)?.parse::<u64>().ok();
        let ordered = step(before).zip(step(next)).is_some_and(|(a, b)| a < b);
        ordered && id(before) == id(next)
    }

    fn read(&self, source: &Json, _: &Message) -> Option<Vec<Message>> {
        let told = read_message(source)?.into_iter();
        let messages = told.filter_map(|told| match told {
            Told::Message(message) => Some(message),
            Told::Shown(_) => None,
        });
        Some(messages.collect())
    }

    fn model_field(&self) -> Option<&'static str> {
        None // a list of messages says nothing of the model
    }

    fn message_fields(&self) -> &'static [&'static str] {
        &["messages"]
    }

    fn write_mapped(&self, _body: &mut Writer, _limit: Option<u64>, _tools: &[Tool]) {}

    fn write_messages(
        &self,
        body: &mut Writer,
        wires: Vec<Wire<'_>>,
        as_is: bool,
        repairs: &mut Repairs,
    ) -> Vec<Seq> {
        let mut wires = wires;
        wires.retain_mut(|wire| keep_mapped(wire, map_part, repairs));
        let results = take_results(&mut wires, repairs);
        let mut list = join(wires);
        name_messages(&mut list, as_is, repairs);
        if !as_is {
            list = repair::repair(list, &results, repairs);
        }
        write_list(body, "messages", &list, |wire| write_wire(wire, &results))
    }
}

/// The results of calls in the list, by the call.
pub(super) type Results<'a> = HashMap<Key, Slot<'a>>;

pub(super) fn is_own(wire: &Wire<'_>) -> bool {
    matches!(wire.origin, Origin::Same | Origin::Kin)
}

/// Whether a message of the list is one of the assistant.
fn is_answer(wire: &Wire<'_>) -> bool {
    matches!(wire.role, Role::Assistant | Role::Tool)
}

/// Takes the results out of the messages: each goes into the part of its call.
fn take_results<'a>(wires: &mut Vec<Wire<'a>>, repairs: &mut Repairs) -> Results<'a> {
    let winners = winners(wires.iter().flat_map(|w| &w.slots));
    let mut calls: HashMap<Key, usize> = HashMap::new();
    for (n, wire) in wires.iter().enumerate().filter(|(_, w)| is_answer(w)) {
        let own = wire.slots.iter().filter(|s| s.is_client_call());
        calls.extend(own.map(|slot| (slot.key, n)));
    }
    wires.retain(|wire| {
        let empty = wire.role == Role::Tool && wire.slots.is_empty();
        if empty {
            repairs.add("V3", wire.seq, "left out a message without parts");
        }
        !empty
    });
    let mut results = Results::new();
    let (mut gained, mut lost) = (Vec::new(), Vec::new());
    for (n, wire) in wires.iter_mut().enumerate() {
        if !wire.slots.iter().any(Slot::is_client_result) {
            continue;
        }
        let (found, others): (Vec<_>, Vec<_>) = std::mem::take(&mut wire.slots)
            .into_iter()
            .partition(Slot::is_client_result);
        wire.slots = others;
        if wire.role == Role::Tool && !wire.slots.is_empty() && !is_own(wire) {
            wire.role = Role::User; // words that stood behind results
        }
        for slot in found {
            let known = slot
                .answers
                .and_then(|call| Some((call, *calls.get(&call)?)));
            match known {
                Some((call, place)) if winners.get(&call) == Some(&slot.key) => {
                    gained.extend((place != n).then_some(place));
                    results.insert(call, slot);
                }
                known => lost.push((n, slot.key.0, known.is_some())),
            }
        }
    }
    for place in gained {
        if let Some(wire) = wires.get_mut(place) {
            wire.verbatim = None; // it says that nothing came of the call
        }
    }
    for (n, seq, known) in lost {
        // The source's text has it still.
        if wires.get(n).is_none_or(|wire| wire.verbatim.is_none()) {
            let what = if known {
                "left out a further result of a call that has one"
            } else {
                "left out a result whose call the window does not hold"
            };
            repairs.add("V5", seq, what);
        }
    }
    // What held nothing but results is told.
    wires.retain(|wire| {
        wire.role != Role::Tool || !wire.slots.is_empty() || wire.verbatim.is_some()
    });
    results
}

/// Joins the messages of other formats that stand together into one of the assistant, with a mark where
/// each but the first begins.
fn join(wires: Vec<Wire<'_>>) -> Vec<Wire<'_>> {
    let mut list: Vec<Wire<'_>> = Vec::new();
    for mut wire in wires {
        let is_step = |wire: &Wire<'_>| is_answer(wire) && !is_own(wire);
        let before = list.last_mut().filter(|before| is_step(before));
        let Some(before) = before.filter(|_| is_step(&wire)) else {
            list.push(wire);
            continue;
        };
        if let Some(first) = wire.slots.first_mut() {
            let mark = crate::formats::mark(STEP_START);
            first.part.to_mut().extra.push(mark);
        }
        before.slots.append(&mut wire.slots);
    }
    list
}

/// Gives every message that has no id one of its own, by the entry that introduced it. A later piece of
/// a message that was cut in two is another one.
pub(super) fn name_messages(list: &mut [Wire<'_>], as_is: bool, repairs: &mut Repairs) {
    let mut taken: HashSet<String> = list.iter().filter_map(id_of).collect();
    let mut seen: HashSet<String> = HashSet::new();
    for wire in list {
        let step = json::text_field(&wire.extra, MARK);
        let piece = step.is_some_and(|step| step != "0");
        let again = match id_of(wire) {
            Some(id) => !seen.insert(id) && piece,
            None => false,
        };
        let named = id_of(wire).is_some();
        let own = is_own(wire);
        if !again && (named || (own && as_is)) {
            continue;
        }
        if own && !again {
            repairs.add("V1", wire.seq, "gave a message an id of its own");
        }
        let base = format!("m{}", wire.seq.0);
        let numbered = (2_u64..).map(|n| format!("{base}-{n}"));
        let mut names = std::iter::once(base.clone()).chain(numbered);
        let name = names.find(|name| !taken.contains(name)).unwrap_or(base);
        let extra = wire.extra.to_mut();
        extra.retain(|(field, _)| field != "id");
        extra.push(("id".to_owned(), json::quoted(&name)));
        wire.verbatim = None;
        taken.insert(name);
    }
}

pub(super) fn id_of(wire: &Wire<'_>) -> Option<String> {
    json::text_field(&wire.extra, "id")
}

pub(super) fn write_wire(wire: &Wire<'_>, results: &Results<'_>) -> Json {
    if let Some(verbatim) = wire.verbatim {
        return verbatim.clone();
    }
    let mut said: Vec<Said<'_>> = Vec::new();
    let (mut before, mut answered) = (None, false);
    for slot in &wire.slots {
        let result = results.get(&slot.key).map(|slot| slot.part.as_ref());
        // A step that ends in no result is told from the next one by a mark only.
        let new_step = before.is_some_and(|seq| seq != slot.key.0);
        let starts =
            marked(&slot.part.extra, STEP_START) || (new_step && is_own(wire) && !answered);
        if new_step {
            answered = false;
        }
        answered |= result.is_some();
        before = Some(slot.key.0);
        said.push(Said {
            part: slot.part.as_ref(),
            result,
            starts,
        });
    }
    message::write(role_name(&wire.role), &wire.extra, &said)
}

fn map_part(part: &Part, origin: Origin) -> Mapped {
    match &part.body {
        PartBody::Block(_) => map_body(part, file),
        PartBody::Result { native: None, .. } => map_output(part),
        _ => map_user_part(part, origin),
    }
}

/// The output of a call is one value.
fn map_output(part: &Part) -> Mapped {
    let mut mapped = part.clone();
    let PartBody::Result { content, shape, .. } = &mut mapped.body else {
        return Mapped::Kept;
    };
    let mut what = match content.as_slice() {
        [] | [_] => None,
        _ => Some("wrote the blocks of a result as one text"),
    };
    for block in content.iter_mut() {
        if let Some((body, said)) = map_block(&block.body, |_| None) {
            block.body = body;
            what = Some(said);
        }
        block.extra.clear();
    }
    *shape = Shape::Text;
    match what {
        Some(what) => Mapped::Changed(mapped, what),
        None => Mapped::Kept,
    }
}

/// Media as a part of a file.
fn file(block: &Json) -> Option<Json> {
    let mapped = media::to_openai(block)?;
    let fields = json::object(&mapped)?;
    let kind = json::text_field(&fields, "type")?;
    let inner = json::field(&fields, &kind).and_then(json::object);
    let inner = inner.unwrap_or_default();
    let text = |name: &str| json::text_field(&inner, name);
    let (media, url) = match kind.as_str() {
        "text" => return Some(mapped),
        "image_url" | "video_url" => {
            let kind = if kind == "image_url" {
                "image/*"
            } else {
                "video/*"
            };
            let url = text("url")?;
            (media_of(&url).unwrap_or_else(|| kind.to_owned()), url)
        }
        "input_audio" => {
            let media = format!("audio/{}", text("format")?);
            let url = format!("data:{media};base64,{}", text("data")?);
            (media, url)
        }
        "file" => {
            let url = text("file_data")?;
            (media_of(&url)?, url)
        }
        _ => return None,
    };
    let mut out = Writer::default();
    out.text("type", "file").text("mediaType", &media);
    if let Some(name) = text("filename") {
        out.text("filename", &name);
    }
    Some(out.text("url", &url).finish())
}

/// The type of media that a data URL names.
fn media_of(url: &str) -> Option<String> {
    let (media, _) = url.strip_prefix("data:")?.split_once([';', ','])?;
    (!media.is_empty()).then(|| media.to_owned())
}
