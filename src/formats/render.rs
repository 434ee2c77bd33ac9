//! From a window to a provider's request body.

use super::json::{self, Writer};
use super::wire::{Origin, Repairs, Slot, Wire, gather};
use super::{Item, Profile, Repair, settings};
use crate::log::{BlockBody, Fields, Json, Part, PartBody, Role, Seq};

/// The output limit an Anthropic request gets where its settings name none: the field is required.
pub const DEFAULT_MAX_TOKENS: u64 = 4096;

/// Goes up when the same window renders to other bytes: a call records which version made its body.
pub const RENDERER_VERSION: u32 = 1;

/// A request body, and what was changed so that the provider takes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rendered {
    /// The body, JSON text.
    pub body: String,
    /// The changes: repairs for the provider's rules under the rule's name, under `map` what
    /// another provider's content lost on its way into this format, and under `text` halves of
    /// surrogate pairs, which no text can hold.
    pub repairs: Vec<Repair>,
    /// For each member of the body's list of messages the entry that introduced it (its first part).
    pub places: Vec<Seq>,
}

/// Renders the items of a window, in window order, as a request body.
///
/// `settings` are the request's other fields; those of the profile's own format (by
/// `settings_format`) are kept as they are, of another format the model, the tools and the output
/// limit are mapped and the rest is left out. `model` replaces the settings' model.
///
/// With `as_is`, messages that came from the profile's format are given back equal as JSON, and
/// others are mapped without repairs. Without it every hard rule of the profile is made to hold;
/// nothing is changed where none is broken. Calls and results belong together by
/// [`Item::answers`], never by the text of their ids.
#[must_use]
pub fn render(
    profile: Profile,
    items: &[Item<'_>],
    settings: &Fields,
    settings_format: &str,
    model: Option<&str>,
    as_is: bool,
) -> Rendered {
    let mut repairs = Repairs::default();
    let dialect = profile.dialect();
    let wires = gather(items, dialect);
    let request = Request {
        settings,
        format: settings_format,
        model,
        as_is,
    };
    let mut body = Writer::default();
    settings::write(&mut body, dialect, &request, &mut repairs);
    let places = dialect.write_messages(&mut body, wires, as_is, &mut repairs);
    let body = body.finish().0;
    let body = if as_is {
        body
    } else {
        whole_text(body, &mut repairs)
    };
    let repairs = repairs.0;
    Rendered {
        body,
        repairs,
        places,
    }
}

/// What a request says beside its messages.
pub(crate) struct Request<'a> {
    pub(crate) settings: &'a Fields,
    /// Whose words they are.
    pub(crate) format: &'a str,
    /// Stands for the settings' model.
    pub(crate) model: Option<&'a str>,
    pub(crate) as_is: bool,
}

/// Providers read the body as text, which has no place for half of a surrogate pair.
fn whole_text(body: String, repairs: &mut Repairs) -> String {
    // Escapes are rare in bodies that are long: look before copying.
    if !body.contains("\\ud") && !body.contains("\\uD") {
        return body;
    }
    let mended = json::mend_surrogates(&body);
    if mended != body {
        repairs.add_to_body("text", "wrote halves of surrogate pairs as U+FFFD");
    }
    mended
}

/// What becomes of a part of another provider.
pub(crate) enum Mapped {
    Kept,
    Changed(Part, &'static str),
    Dropped(&'static str),
}

impl Mapped {
    /// Without what stood beside the content of a part that changed.
    pub(crate) fn bare(mut self) -> Self {
        if let Self::Changed(part, _) = &mut self {
            part.extra.clear();
        }
        self
    }
}

/// Maps a part that is a block; `place` as for [`map_block`]. Of another part nothing changes.
pub(crate) fn map_body(part: &Part, place: impl Fn(&Json) -> Option<Json>) -> Mapped {
    let PartBody::Block(body) = &part.body else {
        return Mapped::Kept;
    };
    let Some((body, what)) = map_block(body, place) else {
        return Mapped::Kept;
    };
    let extra = part.extra.clone();
    let body = PartBody::Block(body);
    Mapped::Changed(Part { body, extra }, what)
}

/// Maps a part that is no block for a provider that takes only reasoning without a seal, and runs no
/// tools of its own: what another ran is told of in words.
pub(crate) fn map_other(part: &Part, origin: Origin, place: fn(&Json) -> Option<Json>) -> Mapped {
    match &part.body {
        PartBody::Reasoning {
            signature: None,
            encrypted: None,
            ..
        } if origin == Origin::Made => Mapped::Kept,
        PartBody::Reasoning { .. } => Mapped::Dropped("left out another provider's reasoning"),
        PartBody::Block(_) | PartBody::Call { native: None, .. } => Mapped::Kept,
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
        PartBody::Result { .. } => map_result(part, place, origin == Origin::Foreign),
    }
}

/// Maps a message of another provider for a list in which only the model calls; says whether anything of
/// it is left.
pub(crate) fn keep_mapped(
    wire: &mut Wire<'_>,
    map: fn(&Part, Origin) -> Mapped,
    repairs: &mut Repairs,
) -> bool {
    if matches!(wire.origin, Origin::Same | Origin::Kin) {
        return true;
    }
    let said_something = !wire.slots.is_empty();
    adapt(wire, map, repairs);
    if wire.role != Role::Assistant && wire.retain(|slot| !slot.is_client_call()) > 0 {
        repairs.add("map", wire.seq, "left out calls that no model made");
    }
    !said_something || !wire.slots.is_empty()
}

/// Maps the parts of a message that is not of the profile's format.
pub(crate) fn adapt(wire: &mut Wire<'_>, map: fn(&Part, Origin) -> Mapped, repairs: &mut Repairs) {
    if matches!(wire.origin, Origin::Same | Origin::Kin) {
        if wire.origin == Origin::Kin {
            wire.extra.to_mut().clear();
        }
        return;
    }
    let origin = wire.origin;
    let mut kept: Vec<Slot<'_>> = Vec::new();
    for mut slot in std::mem::take(&mut wire.slots) {
        match map(&slot.part, origin) {
            Mapped::Kept => {}
            Mapped::Changed(part, what) => {
                slot.part = std::borrow::Cow::Owned(part);
                repairs.add("map", slot.key.0, what);
            }
            Mapped::Dropped(what) => {
                repairs.add("map", slot.key.0, what);
                continue;
            }
        }
        if origin == Origin::Foreign && !slot.part.extra.is_empty() {
            slot.part.to_mut().extra.clear();
        }
        kept.push(slot);
    }
    wire.slots = kept;
    if origin == Origin::Foreign {
        wire.extra.to_mut().clear();
    }
    wire.reshape();
}

/// The text that stands for a block the provider cannot be given.
pub(crate) fn marker(kind: &str) -> String {
    let kind = if kind.is_empty() { "content" } else { kind };
    format!("[{kind} left out: this provider has no place for it]")
}

/// The words of a block of another provider that are plain text there.
pub(crate) fn plain_words(kind: &str, whole: &Json) -> Option<String> {
    let field = match kind {
        "compaction" => "content",
        "refusal" => "refusal",
        // A bare string in a list of blocks.
        "" => return json::string(whole),
        _ => return None,
    };
    json::text_field(&json::object(whole)?, field)
}

/// Maps one block; `place` converts media, `None` where it has no counterpart there.
pub(crate) fn map_block(
    body: &BlockBody,
    place: impl Fn(&Json) -> Option<Json>,
) -> Option<(BlockBody, &'static str)> {
    match body {
        BlockBody::Text(_) => None,
        BlockBody::Media(kind, whole) => match place(whole) {
            Some(same) if same == *whole => None,
            Some(mapped) => Some((
                as_block(BlockBody::Media(*kind, mapped)),
                "wrote media the provider's way",
            )),
            None => {
                let kind = json::object(whole).and_then(|f| json::text_field(&f, "type"));
                let text = marker(&kind.unwrap_or_default());
                Some((
                    BlockBody::Text(text),
                    "put a text where media has no counterpart",
                ))
            }
        },
        BlockBody::Opaque(kind, whole) => match plain_words(kind, whole) {
            Some(words) => Some((
                BlockBody::Text(words),
                "wrote another provider's block as text",
            )),
            None => Some((
                BlockBody::Text(marker(kind)),
                "put a text where a block has no counterpart",
            )),
        },
    }
}

/// Media that became a text block is text.
fn as_block(body: BlockBody) -> BlockBody {
    let BlockBody::Media(_, whole) = &body else {
        return body;
    };
    let fields = json::object(whole).unwrap_or_default();
    match (
        json::text_field(&fields, "type").as_deref(),
        json::text_field(&fields, "text"),
    ) {
        (Some("text"), Some(words)) => BlockBody::Text(words),
        _ => body,
    }
}

/// Maps the blocks inside a result.
pub(crate) fn map_result(part: &Part, place: fn(&Json) -> Option<Json>, foreign: bool) -> Mapped {
    let mut mapped = part.clone();
    let mut said = None;
    let PartBody::Result { content, shape, .. } = &mut mapped.body else {
        return Mapped::Kept;
    };
    for block in content.iter_mut() {
        if let Some((body, what)) = map_block(&block.body, place) {
            block.body = body;
            said = Some(what);
        }
        if foreign {
            block.extra.clear();
        }
    }
    *shape = match content.as_slice() {
        [] => crate::log::Shape::Text,
        [one] if one.extra.is_empty() && matches!(one.body, BlockBody::Text(_)) => {
            crate::log::Shape::Text
        }
        _ => crate::log::Shape::List,
    };
    match said {
        Some(what) => Mapped::Changed(mapped, what),
        None if mapped == *part => Mapped::Kept,
        None => Mapped::Changed(mapped, "wrote a result the provider's way"),
    }
}

/// Makes arguments an object.
pub(crate) fn map_call(part: &Part) -> Mapped {
    let PartBody::Call { arguments, .. } = &part.body else {
        return Mapped::Kept;
    };
    let shallow = json::depth(arguments) <= json::MAX_DEPTH;
    if shallow && json::object(&Json(arguments.clone())).is_some() {
        return Mapped::Kept;
    }
    let mut mapped = part.clone();
    let blank = arguments.trim().is_empty();
    if let PartBody::Call { arguments, .. } = &mut mapped.body {
        let mut wrapped = Writer::default();
        if !blank {
            wrapped.text("arguments", arguments);
        }
        *arguments = wrapped.finish().0;
    }
    Mapped::Changed(mapped, "wrapped arguments that are no object")
}
