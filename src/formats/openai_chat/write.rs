//! OpenAI chat messages of a request body.

use std::borrow::Cow;

use super::message;
use super::repair;
use crate::formats::dialect::Dialect;
use crate::formats::json::{self, Writer};
use crate::formats::media;
use crate::formats::render::{Mapped, adapt, map_block, map_result};
use crate::formats::settings::Tool;
use crate::formats::wire::{Origin, Repairs, Slot, Wire};
use crate::log::{BlockBody, Json, Message, Part, PartBody, Role, Seq};

/// Chat Completions requests.
pub(crate) struct Chat;

impl Dialect for Chat {
    fn format(&self) -> &'static str {
        super::FORMAT
    }

    fn title(&self) -> &'static str {
        "An OpenAI Chat Completions request"
    }

    fn read(&self, source: &Json, _: &Message) -> Option<Vec<Message>> {
        message::read_message(source).map(|message| vec![message])
    }

    fn message_fields(&self) -> &'static [&'static str] {
        &["messages"]
    }

    fn write_mapped(&self, body: &mut Writer, limit: Option<u64>, tools: &[Tool]) {
        if let Some(limit) = limit {
            body.field("max_tokens", &limit.to_string());
        }
        write_tools(body, tools);
    }

    fn write_messages(
        &self,
        body: &mut Writer,
        wires: Vec<Wire<'_>>,
        as_is: bool,
        repairs: &mut Repairs,
    ) -> Vec<Seq> {
        let mut wires: Vec<Wire<'_>> = wires.into_iter().flat_map(split_results).collect();
        for wire in &mut wires {
            let map = match wire.role {
                Role::User => map_user_part,
                _ => map_part,
            };
            adapt(wire, map, repairs);
        }
        if !as_is {
            wires = repair::repair(wires, repairs);
        }
        let written: Vec<Json> = wires.iter().map(write_wire).collect();
        body.field("messages", &json::write_array(&written).0);
        wires.iter().map(|w| w.seq).collect()
    }
}

/// Tools as functions.
pub(crate) fn write_tools(body: &mut Writer, tools: &[Tool]) {
    let function = |tool: &Tool| {
        let mut function = Writer::default();
        tool.describe(&mut function);
        if let Some(schema) = &tool.schema {
            function.field("parameters", &schema.0);
        }
        let function = function.finish();
        let mut out = Writer::default();
        out.text("type", "function").field("function", &function.0);
        out.finish()
    };
    let tools: Vec<Json> = tools.iter().map(function).collect();
    if !tools.is_empty() {
        body.field("tools", &json::write_array(&tools).0);
    }
}

fn write_wire(wire: &Wire<'_>) -> Json {
    match wire.verbatim {
        Some(verbatim) => verbatim.clone(),
        None => message::write(&wire.role, &wire.parts(), wire.shape, &wire.extra),
    }
}

/// Every result is a message of its own here.
pub(crate) fn split_results(mut wire: Wire<'_>) -> Vec<Wire<'_>> {
    let results = wire.slots.iter().filter(|s| s.is_client_result()).count();
    if results == 0 || (wire.slots.len() == 1 && wire.role == Role::Tool) {
        return vec![wire];
    }
    let (results, others): (Vec<_>, Vec<_>) = std::mem::take(&mut wire.slots)
        .into_iter()
        .partition(Slot::is_client_result);
    let mut wires: Vec<Wire<'_>> = results
        .into_iter()
        .map(|slot| wire.beside(Role::Tool, vec![slot]))
        .collect();
    if !others.is_empty() {
        wire.slots = others;
        wire.touch();
        if wire.role == Role::Tool {
            wire.role = Role::User;
        }
        // An assistant's calls stand before the results.
        let at = if wire.role == Role::Assistant {
            0
        } else {
            wires.len()
        };
        wires.insert(at, wire);
    }
    wires
}

pub(crate) fn map_user_part(part: &Part, origin: Origin) -> Mapped {
    match &part.body {
        PartBody::Block(body) => map_body(body, part, media::to_openai),
        _ => map_part(part, origin),
    }
}

fn map_part(part: &Part, origin: Origin) -> Mapped {
    match &part.body {
        PartBody::Block(body) => map_body(body, part, text_only),
        PartBody::Reasoning {
            signature: None,
            encrypted: None,
            ..
        } if origin == Origin::Made => Mapped::Kept,
        PartBody::Reasoning { .. } => Mapped::Dropped("left out another provider's reasoning"),
        PartBody::Call { native: None, .. } => Mapped::Kept,
        PartBody::Call { name, .. } => {
            let text = format!("[the provider ran {name}; its result is not shown here]");
            Mapped::Changed(
                Part::text(text),
                "put a text where another provider ran a tool",
            )
        }
        PartBody::Result {
            native: Some(_), ..
        } => Mapped::Dropped("left out the result of a tool that another provider ran"),
        PartBody::Result { .. } => map_result(part, text_only, origin == Origin::Foreign),
    }
}

fn map_body(body: &BlockBody, part: &Part, place: fn(&Json) -> Option<Json>) -> Mapped {
    match map_block(body, place) {
        Some((body, what)) => Mapped::Changed(
            Part {
                body: PartBody::Block(body),
                extra: part.extra.clone(),
            },
            what,
        ),
        None => Mapped::Kept,
    }
}

/// Media of a role that takes none; a document that is text is text.
fn text_only(block: &Json) -> Option<Json> {
    media::to_openai(block).filter(|mapped| {
        let fields = json::object(mapped).unwrap_or_default();
        json::text_field(&fields, "type").as_deref() == Some("text")
    })
}

/// Removes the [`crate::formats::MARK`] of an older spelling.
pub(super) fn modernise(part: &mut Cow<'_, Part>) {
    part.to_mut()
        .extra
        .retain(|(name, _)| name != crate::formats::MARK);
}
