//! OpenAI chat messages of a request body.

use std::borrow::Cow;

use super::message;
use super::repair;
use crate::formats::dialect::Dialect;
use crate::formats::json::{self, Writer};
use crate::formats::media;
use crate::formats::render::{Mapped, adapt, map_body, map_other};
use crate::formats::settings::Tool;
use crate::formats::wire::{Origin, Repairs, Slot, Wire, write_list};
use crate::log::{Json, Message, Part, PartBody, Role, Seq};

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
        write_list(body, "messages", &wires, |wire| {
            wire.written(message::write)
        })
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
        PartBody::Block(_) => map_body(part, media::to_openai),
        _ => map_part(part, origin),
    }
}

fn map_part(part: &Part, origin: Origin) -> Mapped {
    match &part.body {
        PartBody::Block(_) => map_body(part, text_only),
        _ => map_other(part, origin, text_only),
    }
}

fn text_only(block: &Json) -> Option<Json> {
    media::text_only(media::to_openai(block))
}

/// Removes the [`crate::formats::MARK`] of an older spelling.
pub(super) fn modernise(part: &mut Cow<'_, Part>) {
    part.to_mut()
        .extra
        .retain(|(name, _)| name != crate::formats::MARK);
}
