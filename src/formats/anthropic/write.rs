//! Anthropic messages of a request body.

use super::message::{self, IN_SYSTEM_FIELD};
use super::repair;
use crate::formats::dialect::Dialect;
use crate::formats::json::{self, Writer};
use crate::formats::media;
use crate::formats::render::{DEFAULT_MAX_TOKENS, Mapped, adapt, map_body, map_call, map_result};
use crate::formats::settings::Tool;
use crate::formats::wire::{Origin, Repairs, Wire, is_blank_text, write_list};
use crate::formats::{claude_code, marked};
use crate::log::{Fields, Json, Message, Part, PartBody, Role, Seq, Shape};

/// Messages requests.
pub(crate) struct Messages;

impl Dialect for Messages {
    fn format(&self) -> &'static str {
        super::FORMAT
    }

    fn title(&self) -> &'static str {
        "An Anthropic Messages request"
    }

    fn kin(&self) -> &'static [&'static str] {
        &[claude_code::FORMAT]
    }

    fn joins_same_source(&self) -> bool {
        true
    }

    fn read(&self, source: &Json, first: &Message) -> Option<Vec<Message>> {
        if marked(&first.extra, IN_SYSTEM_FIELD) {
            return Some(vec![message::read_system(source, super::FORMAT)]);
        }
        message::read_message(source, super::FORMAT)
    }

    fn message_fields(&self) -> &'static [&'static str] {
        &["messages"]
    }

    fn write_mapped(&self, body: &mut Writer, limit: Option<u64>, tools: &[Tool]) {
        let limit = limit.unwrap_or(DEFAULT_MAX_TOKENS);
        body.field("max_tokens", &limit.to_string());
        let tool = |tool: &Tool| {
            let mut out = Writer::default();
            tool.describe(&mut out);
            out.field("input_schema", tool.schema_or_none());
            out.finish()
        };
        let tools: Vec<Json> = tools.iter().map(tool).collect();
        if !tools.is_empty() {
            body.field("tools", &json::write_array(&tools).0);
        }
    }

    fn complete(&self, body: &mut Writer, settings: &Fields) {
        if json::field(settings, "max_tokens").is_none() {
            body.field("max_tokens", &DEFAULT_MAX_TOKENS.to_string());
        }
    }

    fn write_messages(
        &self,
        body: &mut Writer,
        mut wires: Vec<Wire<'_>>,
        as_is: bool,
        repairs: &mut Repairs,
    ) -> Vec<Seq> {
        for wire in &mut wires {
            adapt(wire, map_part, repairs);
        }
        if !as_is {
            repair::clean(&mut wires, repairs);
        }
        let (system, mut wires) = hoist(wires, as_is, repairs);
        if !as_is {
            wires = repair::repair(wires, repairs);
        }
        if let Some(system) = write_system(&system) {
            body.field("system", &system.0);
        }
        write_list(body, "messages", &wires, write_wire)
    }
}

fn write_wire(wire: &Wire<'_>) -> Json {
    wire.written(|role, parts, shape, extra| {
        message::write(message::role_name(role), parts, shape, extra)
    })
}

fn write_system(system: &[Wire<'_>]) -> Option<Json> {
    match system {
        [] => None,
        [
            Wire {
                verbatim: Some(verbatim),
                ..
            },
        ] => Some((*verbatim).clone()),
        [one] => message::write_content(&one.parts(), one.shape),
        several => {
            // An empty text may stand alone; as a block of a list it may not.
            let parts: Vec<&Part> = several
                .iter()
                .flat_map(Wire::parts)
                .filter(|p| !is_blank_text(p))
                .collect();
            message::write_content(&parts, Shape::List)
        }
    }
}

/// Parts instructions from the conversation: what stood in the `system` field, what another
/// provider would let stand anywhere, and (unless as it is) what stands where A16 forbids it.
fn hoist<'a>(
    wires: Vec<Wire<'a>>,
    as_is: bool,
    repairs: &mut Repairs,
) -> (Vec<Wire<'a>>, Vec<Wire<'a>>) {
    let roles: Vec<Role> = wires.iter().map(|w| w.role.clone()).collect();
    let (mut system, mut others): (Vec<Wire<'a>>, Vec<Wire<'a>>) = (Vec::new(), Vec::new());
    for (n, wire) in wires.into_iter().enumerate() {
        if !wire.role.is_instruction() {
            others.push(wire);
            continue;
        }
        let field = marked(&wire.extra, IN_SYSTEM_FIELD);
        let own = matches!(wire.origin, Origin::Same | Origin::Kin);
        let next = roles
            .iter()
            .skip(n.saturating_add(1))
            .find(|r| !r.is_instruction());
        let legal = others.last().is_some_and(|w| w.role != Role::Assistant)
            && next.is_none_or(|r| *r == Role::Assistant);
        if !field && own && (as_is || legal) {
            others.push(wire);
            continue;
        }
        if !others.is_empty() {
            repairs.add("A16", wire.seq, "moved instructions into the system field");
        }
        system.push(wire);
    }
    (system, others)
}

fn map_part(part: &Part, origin: Origin) -> Mapped {
    let foreign = origin == Origin::Foreign;
    match &part.body {
        PartBody::Block(_) => map_body(part, media::to_anthropic),
        PartBody::Reasoning {
            signature,
            encrypted,
            ..
        } => {
            let sealed = signature.is_some() || encrypted.is_some();
            if sealed && !foreign {
                Mapped::Kept
            } else {
                Mapped::Dropped("left out reasoning without this provider's signature")
            }
        }
        PartBody::Call { native: None, .. } => map_call(part),
        PartBody::Result { native: None, .. } => map_result(part, media::to_anthropic, foreign),
        PartBody::Call { .. } | PartBody::Result { .. } if foreign => {
            Mapped::Dropped("left out a tool that another provider ran")
        }
        PartBody::Call { .. } | PartBody::Result { .. } => Mapped::Kept,
    }
}
