//! Lists of `LangChain` messages.

use super::message;
use super::repair;
use crate::formats::dialect::Dialect;
use crate::formats::json::Writer;
use crate::formats::media;
use crate::formats::openai_chat::{map_user_part, split_results};
use crate::formats::render::{Mapped, keep_mapped, map_result};
use crate::formats::settings::Tool;
use crate::formats::wire::{Origin, Repairs, Wire, write_list};
use crate::log::{Json, Message, Part, PartBody, Seq};

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
        wires.retain_mut(|wire| keep_mapped(wire, map_part, repairs));
        if !as_is {
            wires = repair::repair(wires, repairs);
        }
        write_list(body, "messages", &wires, write_wire)
    }
}

pub(super) fn write_wire(wire: &Wire<'_>) -> Json {
    wire.written(message::write)
}

fn map_part(part: &Part, origin: Origin) -> Mapped {
    match &part.body {
        PartBody::Result { native: None, .. } => {
            map_result(part, media::to_openai, origin == Origin::Foreign)
        }
        _ => map_user_part(part, origin),
    }
}
