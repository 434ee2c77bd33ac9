//! Reading.

use super::FORMAT;
use super::content::{write_content, write_instruction};
use crate::formats::detect::{PieceReader, Sniff};
use crate::formats::input::Piece;
use crate::formats::record::{self, Records, Story};
use crate::formats::{Transcript, Usage, json, mark};
use crate::log::{
    Author, BlockBody, Fields, Json, Message, Micros, Part, PartBody, Role, Shape, Source,
};

/// The mark of a part that holds no data: the empty text that it is read as was not there.
pub(super) const NO_DATA: &str = "no data";

/// The two spellings of the field of a request's instructions.
pub(super) const INSTRUCTION: [&str; 2] = ["systemInstruction", "system_instruction"];

/// The format.
pub(crate) struct GeminiContents;

impl PieceReader for GeminiContents {
    fn name(&self) -> &'static str {
        FORMAT
    }

    fn sniff(&self, record: &Fields) -> Sniff {
        let endpoint = json::text_field(record, "endpoint").unwrap_or_default();
        let within = |name: &str| json::object(json::field(record, name)?);
        let request = within("request");
        let is_request = |fields: &Fields| list(fields, "contents").iter().any(is_content);
        let answer = within("response").is_some_and(|answer| self.is_response(&answer));
        Sniff::is(
            endpoint.ends_with("enerateContent")
                || is_request(request.as_ref().unwrap_or(record))
                || answer
                || self.is_response(record)
                || (self.is_message(record) && holds_parts(record)),
        )
    }

    fn read(&self, pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
        record::read(self, pieces)
    }

    fn given(&self, messages: &[&Message]) -> Option<Json> {
        Some(super::write_content(messages))
    }
}

fn list(fields: &Fields, name: &str) -> Vec<Json> {
    json::field(fields, name)
        .and_then(json::array)
        .unwrap_or_default()
}

fn is_content(json: &Json) -> bool {
    json::object(json).is_some_and(|fields| holds_parts(&fields))
}

/// Other formats have parts too, which name their type.
fn holds_parts(fields: &Fields) -> bool {
    let parts = list(fields, "parts");
    let typed =
        |part: &Json| json::object(part).is_none_or(|part| json::field(&part, "type").is_some());
    !parts.is_empty() && !parts.iter().any(typed)
}

impl Records for GeminiContents {
    const FORMAT: &'static str = FORMAT;
    const LIST: &'static str = "contents";

    fn is_message(&self, fields: &Fields) -> bool {
        json::field(fields, "parts").and_then(json::array).is_some()
            && json::field(fields, Self::LIST).is_none()
            && !self.is_response(fields)
    }

    fn model(&self, response: &Fields, endpoint: &str) -> Option<String> {
        let said = ["modelVersion", "model_version"];
        let said = said.iter().find_map(|n| json::text_field(response, n));
        said.or_else(|| {
            let (_, after) = endpoint.rsplit_once("/models/")?;
            Some(after.split_once(':')?.0.to_owned())
        })
    }

    fn message(&self, json: &Json) -> Option<Vec<Message>> {
        content(json, FORMAT)
    }

    fn before(&self, request: &mut Fields) -> Vec<Message> {
        let taken = INSTRUCTION.iter().find_map(|name| {
            let given = json::take_as(request, name, |v| (!json::is_null(v)).then(|| v.clone()))?;
            Some(instruction(name, &given))
        });
        taken.into_iter().collect()
    }

    fn is_response(&self, fields: &Fields) -> bool {
        let has = |name: &str| json::field(fields, name).is_some();
        has("candidates") || (has("promptFeedback") && !has("contents"))
    }

    fn answer(&self, story: &mut Story, mut response: Fields, at: Option<Micros>) {
        let at = at.or_else(|| json::field(&response, "createTime").and_then(record::instant));
        let usage = ["usageMetadata", "usage_metadata"];
        let usage = usage.iter().find_map(|n| json::field(&response, n));
        let usage = usage.and_then(usage_of);
        let candidates = json::take_as(&mut response, "candidates", json::array);
        let mut candidates = candidates.unwrap_or_default().into_iter();
        let mut chosen = candidates.next().and_then(|c| json::object(&c));
        let answer = chosen
            .as_mut()
            .and_then(|chosen| json::take_as(chosen, "content", |c| content(c, FORMAT)));
        let missing = answer.is_none();
        story.messages(answer.unwrap_or_default(), at);
        if let Some(rest) = chosen.filter(|rest| !rest.is_empty()) {
            response.push(("candidate".to_owned(), json::write_object(&rest)));
        }
        story.returned(usage, None, response, at);
        if missing {
            story.noted("the response holds no answer", None, true);
        }
        for other in candidates {
            story.noted("another candidate of the same answer", Some(other), false);
        }
    }
}

/// Usage as an answer gives it. Thoughts are not among the candidates' tokens, nor what a tool of the
/// provider read among the prompt's.
pub(crate) fn usage_of(usage: &Json) -> Option<Usage> {
    let fields = json::object(usage)?;
    let count = |camel: &str, snake: &str| {
        let found = json::field(&fields, camel).or_else(|| json::field(&fields, snake));
        found.and_then(json::integer)
    };
    let add = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    };
    let cache_read = count("cachedContentTokenCount", "cached_content_token_count");
    let prompt = count("promptTokenCount", "prompt_token_count")
        .map(|all| all.saturating_sub(cache_read.unwrap_or(0)));
    let tools = count("toolUsePromptTokenCount", "tool_use_prompt_token_count");
    let written = count("candidatesTokenCount", "candidates_token_count");
    let thoughts = count("thoughtsTokenCount", "thoughts_token_count");
    Some(Usage {
        input: add(prompt, tools),
        output: add(written, thoughts),
        cache_read,
        cache_write: None,
    })
}

pub(super) fn instruction(name: &str, given: &Json) -> Message {
    let mut extra = json::object(given).unwrap_or_default();
    let parts = json::take_as(&mut extra, "parts", json::array);
    let words = json::string(given);
    let shape = if words.is_some() {
        Shape::Text
    } else {
        Shape::List
    };
    let parts = match (parts, words) {
        (Some(parts), _) => parts.iter().map(part).collect(),
        (None, Some(words)) => vec![Part::text(words)],
        (None, None) => {
            extra.clear();
            vec![record::opaque("", given)]
        }
    };
    let again = write_instruction(&parts.iter().collect::<Vec<_>>(), shape, &extra);
    extra.push(mark(name));
    let verbatim = (!json::equal(&again, given)).then(|| given.clone());
    Message {
        role: Role::System,
        author: Author::Application,
        parts,
        shape,
        extra,
        source: Some(Source {
            verbatim,
            ..source(FORMAT)
        }),
    }
}

pub(crate) fn source(format: &str) -> Source {
    Source {
        format: format.to_owned(),
        ..Source::default()
    }
}

/// Reads a content `{role, parts}`; `None` when it is no object. A content without a role is the
/// user's.
pub(crate) fn content(json: &Json, format: &str) -> Option<Vec<Message>> {
    let mut extra = json::object(json)?;
    let given = json::take_as(&mut extra, "role", json::string);
    let role = match given.as_deref() {
        None | Some("user") => Role::User,
        Some("function") => {
            extra.push(mark("function"));
            Role::User
        }
        Some("model") => Role::Assistant,
        // A log knows roles by their names, and what others call theirs means nothing here.
        Some(other) => Role::Other(format!("other:{other}")),
    };
    let parts = json::take_as(&mut extra, "parts", json::array);
    let shape = if parts.is_some() {
        Shape::List
    } else {
        Shape::Absent
    };
    let parts: Vec<Part> = parts.unwrap_or_default().iter().map(part).collect();
    let mut messages = record::apart(Message {
        author: record::author_of(&role),
        role,
        parts,
        shape,
        extra,
        source: Some(source(format)),
    });
    // What stands apart loses its order, and a content may lack its role.
    let again = write_content(&messages.iter().collect::<Vec<_>>());
    if let Some(source) = messages.first_mut().and_then(|m| m.source.as_mut()) {
        source.verbatim = (!json::equal(&again, json)).then(|| json.clone());
    }
    Some(messages)
}

/// Reads a part.
pub(crate) fn part(whole: &Json) -> Part {
    let Some(mut fields) = json::object(whole) else {
        return record::opaque("", whole);
    };
    let told = |name: &str| json::field(&fields, name).is_some_and(|v| !json::is_null(v));
    let found = |names: [&'static str; 2]| names.into_iter().find(|name| told(name));
    if let Some(name) = found(["functionCall", "function_call"]) {
        return call(&mut fields, name).unwrap_or_else(|| record::opaque(name, whole));
    }
    if let Some(name) = found(["functionResponse", "function_response"]) {
        return response(&mut fields, name).unwrap_or_else(|| record::opaque(name, whole));
    }
    let media = found(["inlineData", "inline_data"]).or_else(|| found(["fileData", "file_data"]));
    if let Some(data) = media.and_then(|name| json::object(json::field(&fields, name)?)) {
        let mime = ["mimeType", "mime_type"];
        let mime = mime.iter().find_map(|name| json::text_field(&data, name));
        let kind = record::media_kind(&mime.unwrap_or_default());
        return record::plain(PartBody::Block(BlockBody::Media(kind, whole.clone())));
    }
    if let Some(text) = json::take_as(&mut fields, "text", json::string) {
        return text_part(text, fields);
    }
    match fields.iter().find(|(_, value)| !json::is_null(value)) {
        Some((name, _)) => record::opaque(name, whole),
        // Dumps of the Python library name every field; here is none of them.
        None => {
            fields.push(mark(NO_DATA));
            text_part(String::new(), fields)
        }
    }
}

fn text_part(text: String, mut fields: Fields) -> Part {
    let thought = json::field(&fields, "thought").and_then(json::boolean);
    let body = if thought == Some(true) {
        json::take(&mut fields, "thought");
        let signature = json::take_as(&mut fields, "thoughtSignature", json::string);
        PartBody::Reasoning {
            text,
            signature,
            encrypted: None,
        }
    } else {
        PartBody::Block(BlockBody::Text(text))
    };
    Part {
        body,
        extra: fields,
    }
}

/// What is left inside a part's field stays under its name, and so does a name in the other spelling.
fn leave(fields: &mut Fields, name: &str, inner: Fields) {
    if name.contains('_') {
        fields.push(mark(name));
    }
    if !inner.is_empty() {
        fields.push((name.to_owned(), json::write_object(&inner)));
    }
}

fn call(fields: &mut Fields, field: &str) -> Option<Part> {
    let mut inner = json::object(json::field(fields, field)?)?;
    let name = json::take_as(&mut inner, "name", json::string)?;
    let id = json::take_as(&mut inner, "id", json::string);
    let given = |args: &Json| (!json::is_null(args)).then(|| args.0.clone());
    let arguments = json::take_as(&mut inner, "args", given).unwrap_or_default();
    json::take(fields, field);
    leave(fields, field, inner);
    let body = PartBody::Call {
        id,
        name,
        arguments,
        native: None,
    };
    Some(Part {
        body,
        extra: std::mem::take(fields),
    })
}

fn response(fields: &mut Fields, field: &str) -> Option<Part> {
    let mut inner = json::object(json::field(fields, field)?)?;
    let call = json::take_as(&mut inner, "id", json::string);
    let name = json::take_as(&mut inner, "name", json::string);
    let going_on = ["willContinue", "will_continue"];
    let interim = going_on
        .iter()
        .any(|n| json::field(&inner, n).and_then(json::boolean) == Some(true));
    let words = json::take(&mut inner, "response").map(|response| record::words(response.0));
    let shape = if words.is_some() {
        Shape::Text
    } else {
        Shape::Absent
    };
    let beside = json::take_as(&mut inner, "parts", json::array).unwrap_or_default();
    let shape = if beside.is_empty() {
        shape
    } else {
        Shape::List
    };
    let beside = beside
        .iter()
        .map(|whole| record::block(part_of_result(whole), whole));
    let content = words.into_iter().chain(beside).collect();
    json::take(fields, field);
    leave(fields, field, inner);
    let body = PartBody::Result {
        call,
        name,
        content,
        shape,
        error: None,
        interim,
        native: None,
    };
    Some(Part {
        body,
        extra: std::mem::take(fields),
    })
}

/// Media beside a response. Results within results are kept whole: nothing here recurses.
fn part_of_result(whole: &Json) -> Part {
    let fields = json::object(whole).unwrap_or_default();
    let nested = ["functionResponse", "function_response"];
    if nested
        .iter()
        .any(|name| json::field(&fields, name).is_some())
    {
        return record::opaque("", whole);
    }
    part(whole)
}
