//! Mistral chat messages of a request body.

use super::read::{self, THINKING};
use super::repair;
use crate::formats::dialect::Dialect;
use crate::formats::json::{self, Writer};
use crate::formats::openai_chat::{split_results, write_tools};
use crate::formats::render::{Mapped, adapt, map_block, map_result};
use crate::formats::settings::Tool;
use crate::formats::wire::{Origin, Repairs, Wire};
use crate::formats::{mark, media};
use crate::log::{BlockBody, Fields, Json, Message, Part, PartBody, Role, Seq};

/// Chat completion requests.
pub(crate) struct ChatCompletion;

impl Dialect for ChatCompletion {
    fn format(&self) -> &'static str {
        super::FORMAT
    }

    fn title(&self) -> &'static str {
        "A Mistral chat completions request"
    }

    fn read(&self, source: &Json, _: &Message) -> Option<Vec<Message>> {
        read::read_message(source).map(|message| vec![message])
    }

    fn message_fields(&self) -> &'static [&'static str] {
        &["messages"]
    }

    fn write_mapped(&self, body: &mut Writer, limit: Option<u64>, tools: &[Tool]) {
        if let Some(limit) = limit {
            body.field("max_tokens", &limit.to_string());
        }
        let named = |tool: &Tool| Tool {
            name: json::quoted(&repair::tool_name(
                &json::string(&tool.name).unwrap_or_default(),
            )),
            schema: Some(Json(tool.schema_or_none().to_owned())),
            ..tool.clone()
        };
        write_tools(body, &tools.iter().map(named).collect::<Vec<_>>());
    }

    fn write_messages(
        &self,
        body: &mut Writer,
        wires: Vec<Wire<'_>>,
        as_is: bool,
        repairs: &mut Repairs,
    ) -> Vec<Seq> {
        let mut wires: Vec<Wire<'_>> = wires
            .into_iter()
            .flat_map(split_results)
            .filter_map(|wire| mapped(wire, repairs))
            .collect();
        if !as_is {
            wires = repair::repair(wires, repairs);
        }
        let written: Vec<Json> = wires.iter().map(write_wire).collect();
        body.field("messages", &json::write_array(&written).0);
        wires.iter().map(|w| w.seq).collect()
    }
}

fn write_wire(wire: &Wire<'_>) -> Json {
    match wire.verbatim {
        Some(verbatim) => verbatim.clone(),
        None => read::write(&wire.role, &wire.parts(), wire.shape, &wire.extra),
    }
}

/// A message in Mistral's terms; `None` where nothing of it can be.
fn mapped<'a>(mut wire: Wire<'a>, repairs: &mut Repairs) -> Option<Wire<'a>> {
    if wire.origin == Origin::Same {
        return Some(wire);
    }
    let said = !wire.slots.is_empty();
    let map = match wire.role {
        Role::User => map_user_part,
        _ => map_part,
    };
    adapt(&mut wire, map, repairs);
    for slot in &mut wire.slots {
        if matches!(slot.part.body, PartBody::Reasoning { .. }) {
            slot.part.to_mut().extra.push(mark(THINKING));
        }
    }
    if wire.role == Role::Developer {
        wire.role = Role::System;
    }
    (!said || !wire.slots.is_empty()).then_some(wire)
}

fn map_user_part(part: &Part, origin: Origin) -> Mapped {
    match &part.body {
        PartBody::Block(body) => map_body(body, media::to_mistral),
        _ => map_part(part, origin),
    }
}

fn map_part(part: &Part, origin: Origin) -> Mapped {
    match &part.body {
        PartBody::Block(body) => map_body(body, text_only),
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

fn map_body(body: &BlockBody, place: fn(&Json) -> Option<Json>) -> Mapped {
    match map_block(body, place) {
        Some((body, what)) => Mapped::Changed(
            Part {
                body: PartBody::Block(body),
                extra: Fields::new(),
            },
            what,
        ),
        None => Mapped::Kept,
    }
}

/// Media of a role that takes none; a document that is text is text.
fn text_only(block: &Json) -> Option<Json> {
    media::to_mistral(block).filter(|mapped| {
        let fields = json::object(mapped).unwrap_or_default();
        json::text_field(&fields, "type").as_deref() == Some("text")
    })
}
