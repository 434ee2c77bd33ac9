//! Reading.

use std::collections::HashMap;

use super::FORMAT;
use super::message::{INVALID, OUTER, write_message};
use crate::formats::blocks::{self, take_content};
use crate::formats::detect::{PieceReader, Sniff};
use crate::formats::input::Piece;
use crate::formats::record::{self, Story};
use crate::formats::{Link, Step, Transcript, Usage, json, mark};
use crate::log::{Author, Fields, Json, Message, Micros, Part, PartBody, Role, Shape, Source};

/// The id of a `remove` that takes away all.
const ALL: &str = "__remove_all__";

/// The format.
pub(crate) struct LangChain;

impl PieceReader for LangChain {
    fn name(&self) -> &'static str {
        FORMAT
    }

    fn sniff(&self, record: &Fields) -> Sniff {
        let state = json::field(record, "values").and_then(json::object);
        let messages = json::field(state.as_ref().unwrap_or(record), "messages");
        let messages = messages.and_then(json::array).unwrap_or_default();
        let mut messages = messages.iter().filter_map(json::object);
        Sniff::is(is_message(record) || messages.any(|message| is_message(&message)))
    }

    fn read(&self, pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
        read(pieces)
    }

    fn given(&self, messages: &[&Message]) -> Option<Json> {
        Some(write_message(messages.first()?))
    }
}

/// What a message is, by the class or the type it names.
fn kind_of(name: &str) -> Option<&'static str> {
    let name = name.strip_suffix("Chunk").unwrap_or(name);
    let kinds = [
        ("human", "HumanMessage"),
        ("ai", "AIMessage"),
        ("system", "SystemMessage"),
        ("tool", "ToolMessage"),
        ("function", "FunctionMessage"),
        ("chat", "ChatMessage"),
        ("remove", "RemoveMessage"),
    ];
    let found = kinds
        .iter()
        .find(|(kind, class)| name == *kind || name == *class);
    found.map(|(kind, _)| *kind)
}

fn is_message(fields: &Fields) -> bool {
    let has = |name: &str| json::field(fields, name).is_some();
    let kind = json::text_field(fields, "type").unwrap_or_default();
    if kind == "constructor" {
        return has("kwargs") && class(fields).is_some_and(|class| kind_of(&class).is_some());
    }
    let dumped = has("additional_kwargs") || has("response_metadata") || has("tool_call_id");
    let given = has("data") || (dumped && has("content")) || (kind == "remove" && has("id"));
    given && kind_of(&kind).is_some()
}

/// What a message is, in whatever spelling.
pub(super) fn kind_of_message(outer: &Fields) -> Option<&'static str> {
    let named = json::text_field(outer, "type")?;
    match class(outer) {
        Some(class) if named == "constructor" => kind_of(&class),
        _ => kind_of(&named),
    }
}

/// The class that a constructor names.
fn class(fields: &Fields) -> Option<String> {
    let path = json::array(json::field(fields, "id")?)?;
    json::string(path.last()?)
}

fn read(pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
    let mut told = Vec::new();
    let mut bare = Reading::new("");
    let mut state: Option<(String, Fields)> = None;
    for Piece { place, value, .. } in pieces {
        bare.story.at(&place);
        let json = match value {
            Ok(json) => json,
            Err(damage) => {
                bare.story.damaged(&place, damage);
                continue;
            }
        };
        match (json::object(&json), json::array(&json)) {
            (Some(fields), _) if is_message(&fields) => bare.add(&json, None),
            (Some(fields), _) => told.push(conversation(&place, fields)),
            (None, Some(event)) => match streamed(&event) {
                // Each state holds what the one before it held.
                Some(("values", fields)) => state = Some((place, fields)),
                Some((mode, _)) => bare.story.noted(mode, Some(json), false),
                None => {
                    let what = "a list that is no event of a stream";
                    bare.story.noted(what, Some(json), true);
                }
            },
            (None, None) => {
                let what = "this is no record: not a JSON object";
                bare.story.noted(what, Some(json), true);
            }
        }
    }
    told.extend(state.map(|(place, fields)| conversation(&place, fields)));
    if !bare.story.is_empty() {
        told.push(bare.story.finish());
    }
    told
}

/// An event of a stream: its mode and what came.
fn streamed(event: &[Json]) -> Option<(&'static str, Fields)> {
    let [.., mode, given] = event else {
        return None;
    };
    let modes = [
        "values",
        "updates",
        "messages",
        "custom",
        "debug",
        "checkpoints",
        "tasks",
    ];
    let mode = json::string(mode)?;
    let mode = modes.into_iter().find(|known| *known == mode)?;
    Some((mode, json::object(given).unwrap_or_default()))
}

fn conversation(place: &str, mut fields: Fields) -> Transcript {
    let mut reading = Reading::new(place);
    reading.story.identify(json::text_field(&fields, "id"));
    let mut state = json::take_as(&mut fields, "values", json::object);
    let holder = state.as_mut().unwrap_or(&mut fields);
    let messages = json::take_as(holder, "messages", json::array);
    if let Some(rest) = state.filter(|rest| !rest.is_empty()) {
        fields.push(("values".to_owned(), json::write_object(&rest)));
    }
    reading.story.leftovers(&fields);
    if messages.is_none() {
        reading.story.noted("a record without messages", None, true);
    }
    for json in messages.unwrap_or_default() {
        reading.add(&json, None);
    }
    reading.story.finish()
}

/// A list of messages as it is read: where each id stands.
pub(crate) struct Reading {
    pub(crate) story: Story,
    held: HashMap<String, Vec<usize>>,
}

impl Reading {
    fn new(place: &str) -> Self {
        let mut story = Story::new(FORMAT);
        story.at(place);
        Self {
            story,
            held: HashMap::new(),
        }
    }

    fn add(&mut self, json: &Json, at: Option<Micros>) {
        let Some(read) = message(json, FORMAT) else {
            let what = "this is no message";
            return self.story.noted(what, Some(json.clone()), true);
        };
        let number = self.story.count();
        let known = read.id.as_ref().and_then(|id| self.held.get_mut(id));
        if let (Some(known), true, Some(message)) = (known, read.is_chunk, &read.message)
            && let Some(first) = known.first().copied()
        {
            // The next piece of the same message.
            known.push(number);
            let link = Link::Continues(first);
            return self.story.linked(message.clone(), at, link);
        }
        let gone: Vec<usize> = match (&read.message, read.id.as_deref()) {
            (None, Some(ALL)) => self.held.drain().flat_map(|(_, numbers)| numbers).collect(),
            (_, Some(id)) => self.held.remove(id).unwrap_or_default(),
            (_, None) => Vec::new(),
        };
        self.leave(gone, at);
        if let Some(id) = read.id.clone().filter(|_| read.message.is_some()) {
            self.held.insert(id, vec![self.story.count()]);
        }
        read.tell(&mut self.story, at);
    }

    fn leave(&mut self, mut gone: Vec<usize>, at: Option<Micros>) {
        if !gone.is_empty() {
            gone.sort_unstable();
            self.story.push(Step::Rewound { gone, at });
        }
    }
}

/// A message of `LangChain`.
pub(crate) struct Read {
    pub(crate) id: Option<String>,
    /// `None` of a `remove`.
    pub(super) message: Option<Message>,
    model: Option<String>,
    usage: Option<Usage>,
    is_chunk: bool,
}

impl Read {
    /// Whether it says something, and is no command to remove.
    pub(crate) const fn is_said(&self) -> bool {
        self.message.is_some()
    }

    /// Adds what it says, and the call it came from.
    pub(crate) fn tell(self, story: &mut Story, at: Option<Micros>) {
        let Some(message) = self.message else { return };
        let by_model = message.author == Author::Model;
        if by_model {
            story.called_at(self.model, at);
        }
        story.messages(vec![message], at);
        if by_model && self.usage.is_some() {
            story.returned(self.usage, None, Fields::new(), at);
        }
    }
}

/// Reads a message in any of its spellings; `None` when it is none.
pub(crate) fn message(json: &Json, format: &str) -> Option<Read> {
    let mut outer = json::object(json)?;
    let class = class(&outer);
    let named = json::text_field(&outer, "type")?;
    let constructed = json::take_as(&mut outer, "kwargs", json::object);
    let (spelling, name, mut fields) = match constructed {
        Some(kwargs) => ("lc-constructor", class?, kwargs),
        None => match json::take_as(&mut outer, "data", json::object) {
            Some(data) => ("messages_to_dict", named, data),
            None => ("model_dump", named, std::mem::take(&mut outer)),
        },
    };
    let kind = kind_of(&name)?;
    let id = json::text_field(&fields, "id");
    let model = json::field(&fields, "response_metadata").and_then(json::object);
    let model = model.and_then(|said| {
        json::text_field(&said, "model_name").or_else(|| json::text_field(&said, "model"))
    });
    let usage = json::field(&fields, "usage_metadata").and_then(usage_of);
    let message = (kind != "remove").then(|| {
        let (role, author, parts, shape) = said(kind, &mut fields);
        let mut extra = vec![mark(spelling)];
        if !outer.is_empty() {
            extra.push((OUTER.to_owned(), json::write_object(&outer)));
        }
        extra.extend(fields);
        let mut message = Message {
            shape,
            extra,
            ..Message::new(role, author, parts)
        };
        let again = write_message(&message);
        message.source = Some(Source {
            format: format.to_owned(),
            id: id.clone(),
            verbatim: (!json::equal(&again, json)).then(|| json.clone()),
            ..Source::default()
        });
        message
    });
    Some(Read {
        id,
        message,
        model,
        usage,
        is_chunk: name.ends_with("Chunk"),
    })
}

/// Usage as `LangChain` counts it: what was cached within the input.
fn usage_of(usage: &Json) -> Option<Usage> {
    let fields = json::object(usage)?;
    let count = |fields: &Fields, name: &str| json::field(fields, name).and_then(json::integer);
    let details = json::field(&fields, "input_token_details").and_then(json::object);
    let detail = |name: &str| details.as_ref().and_then(|details| count(details, name));
    let (cache_read, cache_write) = (detail("cache_read"), detail("cache_creation"));
    let cached = cache_read
        .unwrap_or(0)
        .saturating_add(cache_write.unwrap_or(0));
    Some(Usage {
        input: count(&fields, "input_tokens").map(|all| all.saturating_sub(cached)),
        output: count(&fields, "output_tokens"),
        cache_read,
        cache_write,
    })
}

fn said(kind: &str, fields: &mut Fields) -> (Role, Author, Vec<Part>, Shape) {
    match kind {
        "ai" => {
            let (parts, shape) = answer(fields);
            (Role::Assistant, Author::Model, parts, shape)
        }
        "tool" | "function" => (Role::Tool, Author::Tool, vec![result(fields)], Shape::List),
        _ => {
            let role = match (kind, json::text_field(fields, "role").as_deref()) {
                ("human", _) | ("chat", Some("user" | "human")) => Role::User,
                ("system", _) | ("chat", Some("system")) => Role::System,
                ("chat", Some("assistant" | "ai")) => Role::Assistant,
                // A log knows roles by their names, and what others call theirs means nothing here.
                (_, other) => Role::Other(format!("other:{}", other.unwrap_or_default())),
            };
            let author = record::author_of(&role);
            let (parts, shape) = take_content(fields, "content");
            (role, author, parts, shape)
        }
    }
}

fn result(fields: &mut Fields) -> Part {
    let call = json::take_as(fields, "tool_call_id", json::string);
    let name = json::take_as(fields, "name", json::string);
    let error = match json::text_field(fields, "status").as_deref() {
        Some("success") => Some(false),
        Some("error") => Some(true),
        _ => None,
    };
    let content = blocks::take_blocks(fields, "content");
    blocks::result(call, name, content, error)
}

/// Reasoning, words and calls. Where the content repeats a call in a provider's own block, the call
/// stands at that place.
fn answer(fields: &mut Fields) -> (Vec<Part>, Shape) {
    let mut beside = json::take_as(fields, "additional_kwargs", json::object);
    let mut parts: Vec<Part> = beside.as_mut().map(reasoning).unwrap_or_default();
    let mut calls: Vec<Option<Part>> = calls(fields, beside.as_mut())
        .into_iter()
        .map(Some)
        .collect();
    if let Some(beside) = beside {
        fields.push(("additional_kwargs".to_owned(), json::write_object(&beside)));
    }
    let mut places: HashMap<String, usize> = HashMap::new();
    for (at, call) in calls.iter().enumerate() {
        if let Some(PartBody::Call { id: Some(id), .. }) = call.as_ref().map(|call| &call.body) {
            places.entry(id.clone()).or_insert(at);
        }
    }
    let blocks = json::take_as(fields, "content", json::array);
    let shape = match blocks {
        Some(blocks) => {
            for whole in &blocks {
                let repeated = repeats(whole).and_then(|(id, own)| match places.get(&id) {
                    Some(at) => calls.get_mut(*at).map(Option::take),
                    None => Some(Some(own)),
                });
                match repeated {
                    Some(call) => parts.extend(call),
                    None => parts.push(blocks::part(whole)),
                }
            }
            Shape::List
        }
        None => {
            let (words, shape) = take_content(fields, "content");
            parts.extend(words);
            shape
        }
    };
    parts.extend(calls.into_iter().flatten());
    (parts, shape)
}

/// The call that a block of content is in a provider's terms, with its id.
fn repeats(block: &Json) -> Option<(String, Part)> {
    let mut fields = json::object(block)?;
    let kind = json::text_field(&fields, "type")?;
    let (id, arguments) = match kind.as_str() {
        "tool_use" => ("id", "input"),
        "tool_call" => ("id", "args"),
        "function_call" => ("call_id", "arguments"),
        _ => return None,
    };
    let id = json::take_as(&mut fields, id, json::string)?;
    let name = json::take_as(&mut fields, "name", json::string)?;
    let arguments = json::take(&mut fields, arguments);
    let arguments = arguments.map(|given| json::string(&given).unwrap_or(given.0));
    let body = PartBody::Call {
        id: Some(id.clone()),
        name,
        arguments: arguments.unwrap_or_default(),
        native: None,
    };
    let part = Part {
        body,
        extra: fields,
    };
    Some((id, part))
}

fn reasoning(beside: &mut Fields) -> Vec<Part> {
    let said = |text: String, extra: Fields| Part {
        body: PartBody::Reasoning {
            text,
            signature: None,
            encrypted: None,
        },
        extra,
    };
    if let Some(text) = json::take_as(beside, "reasoning_content", json::string) {
        return vec![said(text, Fields::new())];
    }
    let item = json::take_as(beside, "reasoning", |given| {
        json::object(given).map(|_| given.clone())
    });
    let part = |item: Json| {
        let fields = json::object(&item).unwrap_or_default();
        let summary = json::field(&fields, "summary").and_then(json::array);
        let texts: Vec<String> = summary
            .unwrap_or_default()
            .iter()
            .filter_map(|block| json::text_field(&json::object(block)?, "text"))
            .collect();
        said(texts.join("\n\n"), vec![("reasoning".to_owned(), item)])
    };
    item.map(part).into_iter().collect()
}

/// The calls as `LangChain` read them, then those it could not; else as the provider wrote them.
fn calls(fields: &mut Fields, beside: Option<&mut Fields>) -> Vec<Part> {
    let list = |given: &Json| json::array(given).filter(|list| !list.is_empty());
    let understood = json::take_as(fields, "tool_calls", list).unwrap_or_default();
    let invalid = json::take_as(fields, INVALID, list).unwrap_or_default();
    let mut calls: Vec<Part> = understood
        .iter()
        .map(|call| tool_call(call, false))
        .collect();
    calls.extend(invalid.iter().map(|call| tool_call(call, true)));
    match beside {
        Some(beside) if calls.is_empty() => {
            let raw = json::take_as(beside, "tool_calls", list).unwrap_or_default();
            let older = json::take_as(beside, "function_call", |given| {
                json::object(given).map(|_| given.clone())
            });
            raw.iter().chain(older.iter()).map(blocks::call).collect()
        }
        _ => calls,
    }
}

fn tool_call(whole: &Json, invalid: bool) -> Part {
    let read = || {
        let mut fields = json::object(whole)?;
        let name = json::take_as(&mut fields, "name", json::string)?;
        let id = json::take_as(&mut fields, "id", json::string);
        let given = json::take(&mut fields, "args").filter(|args| !json::is_null(args));
        let arguments = match given {
            Some(args) if invalid => json::string(&args).unwrap_or(args.0),
            Some(args) => args.0,
            None => String::new(),
        };
        if invalid {
            fields.push(mark(INVALID));
        }
        let body = PartBody::Call {
            id,
            name,
            arguments,
            native: None,
        };
        Some(Part {
            body,
            extra: fields,
        })
    };
    read().unwrap_or_else(|| record::opaque("tool_call", whole))
}
