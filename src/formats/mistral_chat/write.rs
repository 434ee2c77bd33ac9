//! Mistral chat messages of a request body.

use super::read::{self, THINKING};
use super::repair;
use crate::formats::dialect::Dialect;
use crate::formats::json::{self, Writer};
use crate::formats::openai_chat::{split_results, write_tools};
use crate::formats::render::{Mapped, adapt, map_body, map_other};
use crate::formats::settings::Tool;
use crate::formats::wire::{Origin, Repairs, Wire, write_list};
use crate::formats::{mark, media};
use crate::log::{Json, Message, Part, PartBody, Role, Seq};

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
        write_list(body, "messages", &wires, |wire| wire.written(read::write))
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
        PartBody::Block(_) => map_body(part, media::to_mistral).bare(),
        _ => map_part(part, origin),
    }
}

fn map_part(part: &Part, origin: Origin) -> Mapped {
    match &part.body {
        PartBody::Block(_) => map_body(part, text_only).bare(),
        _ => map_other(part, origin, text_only),
    }
}

fn text_only(block: &Json) -> Option<Json> {
    media::text_only(media::to_mistral(block))
}
