//! Messages of a request body.

use super::message::{write, write_parts};
use super::read::{SYSTEM, message, system};
use super::repair;
use crate::formats::attachment::{Attachment, as_text, ending_of, text_block};
use crate::formats::dialect::Dialect;
use crate::formats::json::{self, Writer};
use crate::formats::marked;
use crate::formats::render::{Mapped, adapt, map_body, map_call, map_result};
use crate::formats::settings::Tool;
use crate::formats::wire::{Origin, Repairs, Wire, hoist, write_list};
use crate::log::{Json, Message, Part, PartBody, Role, Seq};

/// Converse requests.
pub(crate) struct Converse;

impl Dialect for Converse {
    fn format(&self) -> &'static str {
        super::FORMAT
    }

    fn title(&self) -> &'static str {
        "A Bedrock Converse request"
    }

    fn joins_same_source(&self) -> bool {
        true
    }

    fn read(&self, source: &Json, first: &Message) -> Option<Vec<Message>> {
        if first.role == Role::System && marked(&first.extra, SYSTEM) {
            return Some(vec![system(source)?]);
        }
        message(source)
    }

    /// The address names the model.
    fn model_field(&self) -> Option<&'static str> {
        None
    }

    fn message_fields(&self) -> &'static [&'static str] {
        &["messages"]
    }

    fn write_mapped(&self, body: &mut Writer, limit: Option<u64>, tools: &[Tool]) {
        if let Some(limit) = limit {
            let mut config = Writer::default();
            config.field("maxTokens", &limit.to_string());
            body.field("inferenceConfig", &config.finish().0);
        }
        let tools: Vec<Json> = tools.iter().map(write_tool).collect();
        if !tools.is_empty() {
            let mut config = Writer::default();
            config.field("tools", &json::write_array(&tools).0);
            body.field("toolConfig", &config.finish().0);
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
            let map = match wire.role {
                Role::User | Role::Tool => map_user_part,
                _ => map_part,
            };
            adapt(wire, map, repairs);
        }
        if !as_is {
            repair::clean(&mut wires, repairs);
        }
        let own = |wire: &Wire<'_>| wire.origin == Origin::Same && marked(&wire.extra, SYSTEM);
        let (system, mut wires) = hoist(wires, own, "B2", repairs);
        if !as_is {
            wires = repair::repair(wires, repairs);
            declare(body, &wires, repairs);
        }
        write_system(body, &system);
        write_list(body, "messages", &wires, |wire| wire.written(write))
    }
}

/// A tool with a schema, which is required; nothing is described in no words.
pub(super) fn write_tool(tool: &Tool) -> Json {
    let mut spec = Writer::default();
    let name = json::string(&tool.name).map(|name| json::quoted(&repair::fitting_name(&name)));
    spec.field("name", &name.as_ref().unwrap_or(&tool.name).0);
    let words = tool.description.as_ref().and_then(json::string);
    if let Some(words) = words.filter(|words| !words.trim().is_empty()) {
        spec.text("description", &words);
    }
    let mut schema = Writer::default();
    schema.field("json", tool.schema_or_none());
    spec.field("inputSchema", &schema.finish().0);
    let mut out = Writer::default();
    out.field("toolSpec", &spec.finish().0).finish()
}

/// B8: messages that call tools need tools.
fn declare(body: &mut Writer, wires: &[Wire<'_>], repairs: &mut Repairs) {
    if body.has("toolConfig") {
        return;
    }
    let mut names: Vec<&String> = Vec::new();
    for slot in wires.iter().flat_map(|w| &w.slots) {
        if let PartBody::Call {
            name, native: None, ..
        } = &slot.part.body
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    if names.is_empty() {
        return;
    }
    let tool = |name: &&String| Tool {
        name: json::quoted(name),
        description: None,
        schema: None,
    };
    let tools: Vec<Tool> = names.iter().map(tool).collect();
    Converse.write_mapped(body, None, &tools);
    let message = "declared the tools that the messages call: the settings declare none";
    repairs.add_to_body("B8", message);
}

fn write_system(body: &mut Writer, system: &[Wire<'_>]) {
    if let [
        Wire {
            verbatim: Some(verbatim),
            ..
        },
    ] = system
    {
        body.field(SYSTEM, &verbatim.0);
        return;
    }
    let parts: Vec<&Part> = system.iter().flat_map(Wire::parts).collect();
    if !parts.is_empty() {
        body.field(SYSTEM, &write_parts(&parts).0);
    }
}

/// Only a user's message holds media.
fn map_user_part(part: &Part, origin: Origin) -> Mapped {
    match &part.body {
        PartBody::Block(_) => map_body(part, media),
        _ => map_part(part, origin),
    }
}

fn map_part(part: &Part, origin: Origin) -> Mapped {
    let foreign = origin == Origin::Foreign;
    match &part.body {
        PartBody::Block(_) => map_body(part, as_text),
        PartBody::Reasoning {
            signature,
            encrypted,
            ..
        } => {
            if foreign || (signature.is_none() && encrypted.is_none()) {
                return Mapped::Dropped("left out reasoning without this provider's signature");
            }
            Mapped::Kept
        }
        PartBody::Call { native: None, .. } => map_call(part),
        PartBody::Result { native: None, .. } => map_result(part, media, foreign),
        PartBody::Call { .. } | PartBody::Result { .. } => {
            Mapped::Dropped("left out a tool that another provider ran")
        }
    }
}

/// A media block in Bedrock's terms.
fn media(block: &Json) -> Option<Json> {
    let fields = json::object(block)?;
    let kinds = ["image", "document", "video"];
    let mut own = kinds.iter().filter_map(|kind| json::field(&fields, kind));
    if own.any(|held| json::object(held).is_some()) {
        return Some(block.clone());
    }
    let mut source = Writer::default();
    let mime = match Attachment::read(block)? {
        Attachment::Words(words) => return Some(text_block(&words)),
        Attachment::Bytes { mime, data } => {
            source.text("bytes", &data);
            mime
        }
        Attachment::Link { url, mime } => {
            let mut place = Writer::default();
            place.text(
                "uri",
                Some(url.as_str()).filter(|url| url.starts_with("s3://"))?,
            );
            source.field("s3Location", &place.finish().0);
            mime?
        }
    };
    let format = ending_of(&mime)?;
    let kind = match mime.split_once('/')?.0 {
        "image" => "image",
        "video" => "video",
        "audio" => return None,
        _ => "document",
    };
    let mut held = Writer::default();
    held.text("format", format);
    if kind == "document" {
        held.text("name", &document_name(block));
    }
    held.field("source", &source.finish().0);
    let mut out = Writer::default();
    Some(out.field(kind, &held.finish().0).finish())
}

/// Documents of a request have names of their own.
fn document_name(block: &Json) -> String {
    let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = block.0.bytes().fold(0x811c_9dc5, mix);
    format!("document {hash:08x}")
}
