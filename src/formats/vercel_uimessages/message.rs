//! Writing one UI message: its steps, with the results of calls inside the parts of the calls.

use crate::formats::json::{self, Writer};
use crate::formats::{MARK, marked};
use crate::log::{Block, BlockBody, Fields, Json, Message, Part, PartBody, Role};

/// The mark of a result that is JSON, not words.
pub const JSON_OUTPUT: &str = "json";
/// The part that begins a step, and the mark of the part behind it.
pub(super) const STEP_START: &str = "step-start";

/// The parts of a message that none of its messages hold (what is shown and never sent, marks of steps
/// where nothing begins), each with its place, behind the number of the others. Never written out.
pub(super) const BESIDE: &str = "ctxlog:beside";

/// A part, and what came of it where it is a call.
#[derive(Clone, Copy)]
pub(super) struct Said<'p> {
    pub(super) part: &'p Part,
    pub(super) result: Option<&'p Part>,
    /// Whether a step begins with it.
    pub(super) starts: bool,
}

/// Writes a message back as it was, from the messages that it became.
#[must_use]
pub fn write_message(messages: &[&Message]) -> Json {
    let (mut said, mut steps) = (Vec::new(), messages.iter().peekable());
    while let Some(step) = steps.next() {
        let results = steps.next_if(|next| next.role == Role::Tool);
        let mut results = results.iter().flat_map(|r| &r.parts).peekable();
        for part in &step.parts {
            said.push(Said {
                part,
                result: results.next_if(|result| answers(result, part)),
                starts: marked(&part.extra, STEP_START),
            });
        }
    }
    let first = messages.first();
    let role = first.map_or("assistant", |message| role_name(&message.role));
    let none = Fields::new();
    write(role, first.map_or(&none, |message| &message.extra), &said)
}

fn answers(result: &Part, part: &Part) -> bool {
    match (&result.body, &part.body) {
        (
            PartBody::Result { call, .. },
            PartBody::Call {
                id, native: None, ..
            },
        ) => call == id,
        _ => false,
    }
}

pub(super) fn role_name(role: &Role) -> &str {
    match role {
        Role::User => "user",
        Role::System | Role::Developer => "system",
        Role::Assistant | Role::Tool => "assistant",
        Role::Other(name) => name.strip_prefix("other:").unwrap_or(name),
    }
}

/// Writes a message of these parts.
pub(super) fn write(role: &str, fields: &Fields, said: &[Said<'_>]) -> Json {
    let mut parts: Vec<Json> = Vec::new();
    let mut said = said.iter().peekable();
    while let Some(one) = said.next() {
        if one.starts {
            parts.push(step_start());
        }
        // What the provider ran is kept whole as its result.
        let native = said.next_if(|next| is_kept_by(one.part, next.part));
        let part = native.map_or(one.part, |native| native.part);
        parts.push(match &part.body {
            PartBody::Call { .. } => write_call(part, one.result),
            _ => write_part(part),
        });
    }
    put_beside(&mut parts, fields);
    let mut out = Writer::default();
    if !role.is_empty() {
        out.text("role", role);
    }
    out.field("parts", &json::write_array(&parts).0);
    out.fields(&without_mark(fields)).finish()
}

fn step_start() -> Json {
    let mut out = Writer::default();
    out.text("type", STEP_START).finish()
}

/// Whether a part is the result of a call that the provider ran.
fn is_kept_by(call: &Part, result: &Part) -> bool {
    match (&call.body, &result.body) {
        (
            PartBody::Call {
                id,
                native: Some(_),
                ..
            },
            PartBody::Result {
                call,
                native: Some(_),
                ..
            },
        ) => id == call,
        _ => false,
    }
}

fn without_mark(fields: &Fields) -> Fields {
    let kept = fields
        .iter()
        .filter(|(name, _)| name != MARK && name != BESIDE);
    kept.cloned().collect()
}

/// The field of what stands beside these many parts.
pub(super) fn beside(parts: usize, others: &[(usize, Json)]) -> (String, Json) {
    let mut list = vec![Json(parts.to_string())];
    list.extend(
        others
            .iter()
            .flat_map(|(place, part)| [Json(place.to_string()), part.clone()]),
    );
    (BESIDE.to_owned(), json::write_array(&list))
}

/// What a field of [`BESIDE`] says.
fn read_beside(fields: &Fields) -> Option<(usize, Vec<(usize, Json)>)> {
    let number = |json: &Json| usize::try_from(json::integer(json)?).ok();
    let list = json::field(fields, BESIDE).and_then(json::array)?;
    let (count, others) = list.split_first()?;
    let pair = |pair: &[Json]| match pair {
        [place, part] => Some((number(place)?, part.clone())),
        _ => None,
    };
    let others = others.chunks(2).map(pair).collect::<Option<Vec<_>>>()?;
    Some((number(count)?, others))
}

/// Puts what stood beside the parts in its place, while these are all that there were.
fn put_beside(parts: &mut Vec<Json>, fields: &Fields) {
    let Some((_, others)) = read_beside(fields).filter(|(count, _)| *count == parts.len()) else {
        return;
    };
    for (place, part) in others {
        parts.insert(place.min(parts.len()), part);
    }
}

/// Keeps of what stood beside the parts what is `kept`.
pub(super) fn keep_beside(fields: &mut Fields, kept: fn(&Json) -> bool) {
    let Some((count, others)) = read_beside(fields) else {
        return;
    };
    let (mut left, mut gone) = (Vec::new(), 0_usize);
    for (place, part) in others {
        if kept(&part) {
            left.push((place.saturating_sub(gone), part));
        } else {
            gone = gone.saturating_add(1);
        }
    }
    fields.retain(|(name, _)| name != BESIDE);
    fields.push(beside(count, &left));
}

/// Writes a part that is no call.
fn write_part(part: &Part) -> Json {
    let mut out = Writer::default();
    match &part.body {
        PartBody::Block(BlockBody::Text(text)) => out.text("type", "text").text("text", text),
        PartBody::Block(BlockBody::Media(_, whole) | BlockBody::Opaque(_, whole)) => {
            return whole.clone();
        }
        PartBody::Reasoning { text, .. } => out.text("type", "reasoning").text("text", text),
        PartBody::Result { content, .. } => {
            let whole = content.iter().find_map(|block| match &block.body {
                BlockBody::Media(_, whole) | BlockBody::Opaque(_, whole) => Some(whole.clone()),
                BlockBody::Text(_) => None,
            });
            return whole.unwrap_or_else(|| Json("{}".to_owned()));
        }
        PartBody::Call { .. } => return write_call(part, None),
    };
    out.fields(&without_mark(&part.extra)).finish()
}

/// The states of a call that nothing came of yet.
const OPEN: [&str; 4] = [
    "input-streaming",
    "input-available",
    "approval-requested",
    "approval-responded",
];

/// Writes a call with what came of it. The state says what there is, whatever it was before.
fn write_call(part: &Part, result: Option<&Part>) -> Json {
    let PartBody::Call {
        id,
        name,
        arguments,
        ..
    } = &part.body
    else {
        return write_part(part);
    };
    let kept = without_mark(&part.extra);
    let own = json::text_field(&kept, "type");
    let state = json::text_field(&kept, "state").unwrap_or_default();
    let granted = json::field(&kept, "approval").and_then(approved);
    let mut out = Writer::default();
    match own.as_deref() {
        Some("dynamic-tool") | None => out.text("type", "dynamic-tool").text("toolName", name),
        Some(kind) => out.text("type", kind),
    };
    if let Some(id) = id {
        out.text("toolCallId", id);
    }
    let now = match result {
        Some(result) => write_outcome(&mut out, result, &state, granted),
        None if OPEN.contains(&state.as_str()) => &state,
        None if granted.is_some() => "approval-responded",
        None => "input-available",
    };
    out.text("state", now);
    write_input(&mut out, arguments, &kept, own.is_some(), now);
    let fits = |name: &str| match name {
        "approval" => approval_fits(now, granted),
        "output" | "errorText" | "preliminary" => false,
        _ => true,
    };
    let rest = kept.into_iter().filter(|(name, _)| fits(name));
    out.fields(&rest.collect()).finish()
}

/// What an approval says, where it was answered.
fn approved(approval: &Json) -> Option<bool> {
    let fields = json::object(approval)?;
    json::field(&fields, "approved").and_then(json::boolean)
}

/// Whether an approval may stand beside a state.
fn approval_fits(state: &str, granted: Option<bool>) -> bool {
    match state {
        "approval-requested" => granted.is_none(),
        "approval-responded" => granted.is_some(),
        "output-available" | "output-error" => granted == Some(true),
        "output-denied" => granted == Some(false),
        _ => false,
    }
}

/// Writes what came of a call; gives the state that says so.
fn write_outcome(
    out: &mut Writer,
    result: &Part,
    state: &str,
    granted: Option<bool>,
) -> &'static str {
    let PartBody::Result {
        content,
        error,
        interim,
        ..
    } = &result.body
    else {
        return "input-available";
    };
    if *error == Some(true) {
        if state == "output-denied" && granted == Some(false) {
            return "output-denied";
        }
        out.text("errorText", &words_of(content));
        return "output-error";
    }
    let json_output = match content.as_slice() {
        [
            Block {
                body: BlockBody::Text(text),
                extra,
            },
        ] if marked(extra, JSON_OUTPUT) => Some(text.as_str()).filter(|text| is_json(text)),
        _ => None,
    };
    match json_output {
        Some(output) => out.field("output", output),
        None => out.text("output", &words_of(content)),
    };
    if *interim {
        out.field("preliminary", "true");
    }
    "output-available"
}

/// The words of a result: there is one output.
pub(super) fn words_of(content: &[Block]) -> String {
    let words = content.iter().filter_map(|block| match &block.body {
        BlockBody::Text(text) => Some(text.as_str()),
        BlockBody::Media(..) | BlockBody::Opaque(..) => None,
    });
    words.collect::<Vec<_>>().join("\n")
}

fn write_input(out: &mut Writer, arguments: &str, kept: &Fields, own: bool, state: &str) {
    // Of a call that is not whole yet, or was none, the raw text stands for the input.
    let raw = json::field(kept, "rawInput").filter(|_| own);
    let raw = raw.map(|raw| json::string(raw).unwrap_or_else(|| raw.0.clone()));
    let optional = matches!(state, "input-streaming" | "output-error");
    if optional && raw.as_deref() == Some(arguments) {
        return;
    }
    match arguments.trim() {
        "" if json::field(kept, "input").is_some() || (own && optional) => {}
        "" => _ = out.field("input", "{}"),
        _ if is_json(arguments) => _ = out.field("input", arguments),
        _ => _ = out.text("input", arguments),
    }
}

/// Whether a text is JSON that a body may hold.
fn is_json(text: &str) -> bool {
    json::depth(text) <= json::MAX_DEPTH
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}
