//! Lists of `LangChain` messages.

use super::message;
use super::repair;
use crate::formats::dialect::Dialect;
use crate::formats::json::{self, Writer};
use crate::formats::media;
use crate::formats::openai_chat::{map_user_part, split_results};
use crate::formats::render::{Mapped, adapt, map_result};
use crate::formats::settings::Tool;
use crate::formats::wire::{Origin, Repairs, Wire};
use crate::log::{Json, Message, Part, PartBody, Role, Seq};

/// Lists of messages.
pub(crate) struct Messages;

impl Dialect for Messages {
    fn format(&self) -> &'static str {
        super::FORMAT
    }

    fn title(&self) -> &'static str {
        "A list of LangChain messages"
    }

    fn kin(&self) -> &'static [&'static str] {
        &[crate::formats::langgraph_checkpoints::FORMAT]
    }

    fn goes_on(&self, _before: &Message, _next: &Message, _continues: bool) -> bool {
        false // each chunk of a message is one of the list
    }

    fn read(&self, source: &Json, _: &Message) -> Option<Vec<Message>> {
        let read = super::read::message(source, super::FORMAT)?;
        Some(read.message.into_iter().collect())
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
        let mut wires: Vec<Wire<'_>> = wires.into_iter().flat_map(split_results).collect();
        wires.retain_mut(|wire| keep_mapped(wire, repairs));
        if !as_is {
            wires = repair::repair(wires, repairs);
        }
        let written: Vec<Json> = wires.iter().map(write_wire).collect();
        body.field("messages", &json::write_array(&written).0);
        wires.iter().map(|w| w.seq).collect()
    }
}

pub(super) fn write_wire(wire: &Wire<'_>) -> Json {
    match wire.verbatim {
        Some(verbatim) => verbatim.clone(),
        None => message::write(&wire.role, &wire.parts(), wire.shape, &wire.extra),
    }
}

/// Maps a message of another provider; says whether anything of it is left.
fn keep_mapped(wire: &mut Wire<'_>, repairs: &mut Repairs) -> bool {
    if matches!(wire.origin, Origin::Same | Origin::Kin) {
        return true;
    }
    let said_something = !wire.slots.is_empty();
    adapt(wire, map_part, repairs);
    if wire.role != Role::Assistant && wire.retain(|slot| !slot.is_client_call()) > 0 {
        repairs.add("map", wire.seq, "left out calls that no model made");
    }
    !said_something || !wire.slots.is_empty()
}

fn map_part(part: &Part, origin: Origin) -> Mapped {
    match &part.body {
        PartBody::Result { native: None, .. } => {
            map_result(part, media::to_openai, origin == Origin::Foreign)
        }
        _ => map_user_part(part, origin),
    }
}
