//! Items of a Responses request body.

use super::answers;
use super::item::{self, INPUT, INSTRUCTIONS, plain_text};
use super::repair;
use crate::formats::dialect::Dialect;
use crate::formats::json::{self, Writer};
use crate::formats::render::{Mapped, adapt, map_body, map_other};
use crate::formats::settings::Tool;
use crate::formats::wire::{Origin, Repairs, Slot, Wire, write_list};
use crate::formats::{MARK, codex_rollout, marked, media};
use crate::log::{BlockBody, Fields, Json, Message, Part, PartBody, Role, Seq};

/// Responses requests.
pub(crate) struct Responses;

impl Dialect for Responses {
    fn format(&self) -> &'static str {
        super::FORMAT
    }

    fn title(&self) -> &'static str {
        "An OpenAI Responses request"
    }

    fn kin(&self) -> &'static [&'static str] {
        &[codex_rollout::FORMAT]
    }

    /// What Codex notes of a turn are no fields of a request.
    fn knows(&self, format: &str) -> bool {
        format == super::FORMAT
    }

    fn joins_continued(&self) -> bool {
        false
    }

    fn read(&self, source: &Json, first: &Message) -> Option<Vec<Message>> {
        let text = [INSTRUCTIONS, INPUT]
            .into_iter()
            .find(|field| marked(&first.extra, field));
        let read = match text {
            Some(field) => item::read_text(field, source),
            None => item::read_item(source),
        };
        read.map(|message| vec![message])
    }

    fn message_fields(&self) -> &'static [&'static str] {
        &["input"]
    }

    fn write_mapped(&self, body: &mut Writer, limit: Option<u64>, tools: &[Tool]) {
        if let Some(limit) = limit {
            body.field("max_output_tokens", &limit.to_string());
        }
        let tool = |tool: &Tool| {
            let mut out = Writer::default();
            out.text("type", item::FUNCTION);
            tool.describe(&mut out);
            // Other providers' schemas are not written for the strict mode that is the default here.
            out.field("parameters", tool.schema_or_none());
            out.field("strict", "false").finish()
        };
        let tools: Vec<Json> = tools.iter().map(tool).collect();
        if !tools.is_empty() {
            body.field("tools", &json::write_array(&tools).0);
        }
    }

    fn write_messages(
        &self,
        body: &mut Writer,
        wires: Vec<Wire<'_>>,
        as_is: bool,
        repairs: &mut Repairs,
    ) -> Vec<Seq> {
        let settings = json::object(&body.finish()).unwrap_or_default();
        let mut wires: Vec<Wire<'_>> = wires
            .into_iter()
            .flat_map(|wire| as_items(wire, repairs))
            .collect();
        answer_in_kind(&mut wires);
        if json::field(&settings, INSTRUCTIONS).is_none()
            && let Some(instructions) = take_instructions(&mut wires)
        {
            body.field(INSTRUCTIONS, &instructions.0);
        }
        if !as_is {
            wires = repair::repair(wires, is_chained(&settings), repairs);
        }
        if let [one] = wires.as_slice()
            && marked(&one.extra, INPUT)
            && let Some(text) = write_text(one)
        {
            body.field("input", &text.0);
            return vec![one.seq];
        }
        write_list(body, "input", &wires, write_wire)
    }
}

/// Whether the provider puts what it holds of the conversation before these items.
fn is_chained(settings: &Fields) -> bool {
    let is_set = |name: &&str| json::field(settings, name).is_some_and(|v| !json::is_null(v));
    ["previous_response_id", "conversation"].iter().any(is_set)
}

fn write_wire(wire: &Wire<'_>) -> Json {
    match wire.verbatim {
        Some(verbatim) if !is_text(wire) => verbatim.clone(),
        _ => item::write(&wire.role, &wire.parts(), wire.shape, &wire.extra),
    }
}

/// Whether its source was a text and no item.
fn is_text(wire: &Wire<'_>) -> bool {
    let marks = [INSTRUCTIONS, INPUT];
    marks.iter().any(|field| marked(&wire.extra, field))
}

/// The text that stands for a message.
fn write_text(wire: &Wire<'_>) -> Option<Json> {
    let parts = wire.parts();
    let text = plain_text(&parts).map(json::quoted);
    wire.verbatim.cloned().or(text)
}

/// Takes the instructions that a request had beside its items; further ones stand among the items.
fn take_instructions(wires: &mut Vec<Wire<'_>>) -> Option<Json> {
    let at = wires.iter().position(|w| marked(&w.extra, INSTRUCTIONS))?;
    let text = write_text(wires.get(at)?)?;
    wires.remove(at);
    Some(text)
}

/// One wire message an item: words that stand together, and every other part by itself.
fn as_items<'a>(mut wire: Wire<'a>, repairs: &mut Repairs) -> Vec<Wire<'a>> {
    if wire.origin == Origin::Same && (wire.verbatim.is_some() || wire.slots.len() <= 1) {
        return vec![wire];
    }
    let said = !wire.slots.is_empty();
    if wire.origin == Origin::Kin && wire.retain(|slot| !is_snapshot(&slot.part)) > 0 {
        repairs.add("map", wire.seq, "left out a snapshot that is no item");
    }
    let map = match wire.role {
        Role::Assistant => map_model_part,
        _ => map_part,
    };
    adapt_foreign(&mut wire, map, repairs);
    if said && wire.slots.is_empty() {
        return Vec::new();
    }
    // Words beside results are a user's.
    let speaker = match &wire.role {
        Role::Tool if wire.slots.iter().any(Slot::is_client_result) => Role::User,
        role => role.clone(),
    };
    let voice = |slot| voice(&wire, &speaker, slot);
    let voices: Vec<Option<Role>> = wire.slots.iter().map(voice).collect();
    let first = voices.first().cloned().flatten();
    if voices.iter().all(|v| v.is_some() && *v == first) && first.is_none_or(|r| r == wire.role) {
        return vec![wire];
    }
    split(wire, voices)
}

fn adapt_foreign(wire: &mut Wire<'_>, map: fn(&Part, Origin) -> Mapped, repairs: &mut Repairs) {
    if !matches!(wire.origin, Origin::Same | Origin::Kin) {
        adapt(wire, map, repairs);
    }
}

/// What Codex keeps for itself among a history.
fn is_snapshot(part: &Part) -> bool {
    item::kind_of(part).as_deref() == Some("ghost_snapshot")
}

/// Who says a part that is words; `None` where it is an item by itself.
fn voice(wire: &Wire<'_>, speaker: &Role, slot: &Slot<'_>) -> Option<Role> {
    if item::kind_of(&slot.part).is_some() {
        return None;
    }
    // What took the place of a whole history holds words of both sides.
    let model = wire.origin == Origin::Kin
        && wire.role == Role::User
        && json::text_field(&slot.part.extra, MARK).as_deref() == Some("output_text");
    let said_by = if model { &Role::Assistant } else { speaker };
    Some(said_by.clone())
}

fn split<'a>(mut wire: Wire<'a>, voices: Vec<Option<Role>>) -> Vec<Wire<'a>> {
    let mut out: Vec<Wire<'a>> = Vec::new();
    let mut before: Option<Role> = None;
    for (slot, voice) in std::mem::take(&mut wire.slots).into_iter().zip(voices) {
        match out
            .last_mut()
            .filter(|_| voice.is_some() && voice == before)
        {
            Some(last) => last.slots.push(slot),
            None => {
                let result = slot.is_client_result();
                let alone = if result { Role::Tool } else { Role::Assistant };
                out.push(wire.beside(voice.clone().unwrap_or(alone), vec![slot]));
            }
        }
        before = voice;
    }
    let mapped = !matches!(wire.origin, Origin::Same | Origin::Kin);
    let is_words = |w: &&mut Wire<'_>| w.parts().iter().all(|p| item::kind_of(p).is_none());
    out.iter_mut()
        .filter(|w| mapped && is_words(w))
        .for_each(Wire::reshape);
    out
}

/// A result that has no kind of its own is of the kind that its call wants.
fn answer_in_kind(wires: &mut [Wire<'_>]) {
    let kinds = answers::call_kinds(wires);
    for wire in wires {
        let mut changed = false;
        for slot in &mut wire.slots {
            let wanted = slot.answers.and_then(|call| kinds.get(&call));
            let unmarked = slot.is_client_result() && json::field(&slot.part.extra, MARK).is_none();
            if let Some(kind) = wanted.filter(|kind| unmarked && *kind != item::FUNCTION_CALL) {
                changed |= answers::say_in_kind(slot.part.to_mut(), kind);
            }
        }
        if changed {
            wire.touch();
        }
    }
}

/// A part of the model's words, which hold no media.
fn map_model_part(part: &Part, origin: Origin) -> Mapped {
    match &part.body {
        PartBody::Block(BlockBody::Opaque(kind, whole)) if kind == "refusal" => {
            let fields = json::object(whole).unwrap_or_default();
            match json::text_field(&fields, "refusal") {
                Some(_) => Mapped::Kept,
                None => map_words(part, |_| None),
            }
        }
        PartBody::Block(_) => map_words(part, words_only),
        _ => map_part(part, origin),
    }
}

fn words_only(block: &Json) -> Option<Json> {
    media::text_only(media::to_responses(block))
}

fn map_words(part: &Part, place: fn(&Json) -> Option<Json>) -> Mapped {
    map_body(part, place).bare()
}

fn map_part(part: &Part, origin: Origin) -> Mapped {
    match &part.body {
        PartBody::Block(_) => map_words(part, media::to_responses),
        PartBody::Reasoning {
            encrypted: Some(_), ..
        } if origin == Origin::Made => Mapped::Kept,
        PartBody::Reasoning { .. } => {
            Mapped::Dropped("left out reasoning that this provider did not seal")
        }
        _ => map_other(part, origin, media::to_responses),
    }
}
