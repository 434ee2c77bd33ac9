//! What the readers of recorded requests share: steps, calls, answers, leftovers.

use super::input::{Damage, Piece};
use super::json::{self, Writer};
use super::{Begins, Link, Step, Transcript, Usage};
use crate::log::{
    Author, Block, BlockBody, Fields, Json, Media, Message, Micros, Part, PartBody, Role, Shape,
    Source,
};

/// A note above this size is told in pieces.
const NOTE_BYTES: usize = 4 << 20;

/// Builds the steps of one transcript.
#[derive(Clone, Debug)]
pub(crate) struct Story {
    transcript: Transcript,
    messages: usize,
    place: String,
    /// When what is noted happened.
    time: Option<Micros>,
    /// The first item of the model message that is still told item by item.
    head: Option<usize>,
    /// Whether the newest call has no item of an answer yet.
    waits: bool,
}

impl Story {
    pub(crate) fn new(format: &'static str) -> Self {
        let transcript = Transcript {
            format,
            ..Transcript::default()
        };
        Self {
            transcript,
            messages: 0,
            place: String::new(),
            time: None,
            head: None,
            waits: false,
        }
    }

    /// What follows stands here, as `file:line`.
    pub(crate) fn at(&mut self, place: &str) {
        place.clone_into(&mut self.place);
    }

    /// What is noted from here on happened then.
    pub(crate) fn time(&mut self, at: Option<Micros>) {
        self.time = at;
    }

    pub(crate) fn identify(&mut self, id: Option<String>) {
        self.transcript.id = id;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.transcript.steps.is_empty()
    }

    /// How many steps it has.
    pub(crate) const fn len(&self) -> usize {
        self.transcript.steps.len()
    }

    pub(crate) fn finish(self) -> Transcript {
        self.transcript
    }

    pub(crate) fn configured(&mut self, settings: Fields) {
        if settings.is_empty() {
            return;
        }
        let model = json::text_field(&settings, "model");
        self.transcript
            .steps
            .push(Step::Configured { model, settings });
    }

    /// Adds the messages of one source message of the history; what a model wrote came from a
    /// call of its own.
    pub(crate) fn history(&mut self, messages: Vec<Message>) {
        self.history_at(messages, None);
    }

    /// The same, of a source that says when.
    pub(crate) fn history_at(&mut self, messages: Vec<Message>, at: Option<Micros>) {
        if messages
            .iter()
            .any(|m| m.author == Author::Model && m.role == Role::Assistant)
        {
            self.called(None);
        }
        self.messages(messages, at);
    }

    /// Adds a message that hangs together with an earlier one.
    pub(crate) fn linked(&mut self, message: Message, at: Option<Micros>, link: Link) {
        let step = Step::Message { message, at, link };
        self.transcript.steps.push(step);
        self.messages = self.messages.saturating_add(1);
    }

    pub(crate) fn messages(&mut self, messages: Vec<Message>, at: Option<Micros>) {
        let first = self.messages;
        for (n, message) in messages.into_iter().enumerate() {
            let link = if n == 0 {
                Link::None
            } else {
                Link::SameSource(first)
            };
            self.linked(message, at, link);
        }
    }

    /// Adds one item of a source that writes a model message as several: what the model wrote
    /// without anything between came from one call, and continues its first item.
    pub(crate) fn item(&mut self, message: Message, at: Option<Micros>) {
        let by_model = message.author == Author::Model && message.role == Role::Assistant;
        if by_model && self.answers_nothing() {
            self.called_at(None, at);
        }
        let head = self.head.filter(|_| by_model);
        let link = head.map_or(Link::None, Link::Continues);
        let number = self.messages;
        let step = Step::Message { message, at, link };
        self.transcript.steps.push(step);
        self.messages = self.messages.saturating_add(1);
        self.head = by_model.then(|| head.unwrap_or(number));
        self.waits = false;
    }

    /// Whether what the model says now is the answer to a call that is not told yet.
    pub(crate) const fn answers_nothing(&self) -> bool {
        self.head.is_none() && !self.waits
    }

    /// How many messages it has.
    pub(crate) const fn messages_told(&self) -> usize {
        self.messages
    }

    /// The source went back: these messages are no longer on its path.
    pub(crate) fn rewound(&mut self, gone: Vec<usize>, at: Option<Micros>) {
        self.head = None;
        self.waits = false;
        self.transcript.steps.push(Step::Rewound { gone, at });
    }

    /// The source replaced all that stood before by a summary.
    pub(crate) fn compacted(&mut self, summary: Message, rest: Fields, at: Option<Micros>) {
        self.head = None;
        self.waits = false;
        let step = Step::Compacted { summary, rest, at };
        self.transcript.steps.push(step);
    }

    pub(crate) fn called(&mut self, model: Option<String>) {
        self.called_at(model, None);
    }

    pub(crate) fn called_at(&mut self, model: Option<String>, at: Option<Micros>) {
        self.head = None;
        self.waits = true;
        self.transcript.steps.push(Step::Called { model, at });
    }

    /// How many messages it holds: the number of the next one.
    pub(crate) const fn count(&self) -> usize {
        self.messages
    }

    pub(crate) fn push(&mut self, step: Step) {
        self.transcript.steps.push(step);
    }

    pub(crate) fn returned(
        &mut self,
        usage: Option<Usage>,
        failure: Option<String>,
        rest: Fields,
        at: Option<Micros>,
    ) {
        self.transcript.steps.push(Step::Returned {
            usage,
            failure,
            rest,
            at,
        });
    }

    pub(crate) fn noted(&mut self, what: impl Into<String>, content: Option<Json>, warn: bool) {
        let (what, place) = (what.into(), self.place.clone());
        self.transcript.steps.push(Step::Noted {
            what,
            place,
            content,
            at: self.time,
            warn,
        });
    }

    /// Notes the fields of a record that are no conversation.
    pub(crate) fn leftovers(&mut self, fields: &Fields) {
        if !fields.is_empty() {
            self.noted("record", Some(json::write_object(fields)), false);
        }
    }

    /// Notes a field that is no conversation: whole, or a note an element where that is large.
    pub(crate) fn kept(&mut self, what: &str, value: Json) {
        if json::is_null(&value) {
            return;
        }
        match json::array(&value).filter(|_| value.0.len() > NOTE_BYTES) {
            Some(elements) => {
                for element in elements {
                    self.noted(what, Some(element), false);
                }
            }
            None => self.noted(what, Some(value), false),
        }
    }

    pub(crate) fn damaged(&mut self, place: &str, damage: Damage) {
        let text = damage.text.as_deref().filter(|text| !text.is_empty());
        let what = if damage.unfinished {
            super::UNFINISHED.to_owned()
        } else {
            damage.reason
        };
        self.at(place);
        self.noted(what, text.map(json::quoted), true);
    }
}

/// A piece that is a JSON object.
pub(crate) struct Record {
    pub place: String,
    pub fields: Fields,
    /// The whole of it.
    pub json: Json,
}

impl Story {
    /// What stands here now is a piece: its record, or `None` where it is damaged or no object, which is
    /// noted.
    pub(crate) fn record(&mut self, Piece { place, value, .. }: Piece) -> Option<Record> {
        self.at(&place);
        match value.map(|json| (json::object(&json), json)) {
            Ok((Some(fields), json)) => Some(Record {
                place,
                fields,
                json,
            }),
            Ok((None, json)) => {
                self.noted("this is no record: not a JSON object", Some(json), true);
                None
            }
            Err(damage) => {
                self.damaged(&place, damage);
                None
            }
        }
    }

    /// Adds the transcript to others, where it holds anything.
    pub(crate) fn finish_into(self, told: &mut Vec<Transcript>) {
        if !self.is_empty() {
            told.push(self.finish());
        }
    }

    /// Adds what it holds to the first of some transcripts; without any it stands alone.
    pub(crate) fn finish_on_first(self, told: &mut Vec<Transcript>) {
        let steps = self.finish();
        match told.first_mut() {
            Some(first) => first.steps.extend(steps.steps),
            None => told.push(steps),
        }
    }
}

/// A message of a source, with what stood around it.
pub(crate) fn made(
    format: &str,
    (role, author): (Role, Author),
    (parts, shape): (Vec<Part>, Shape),
    around: Fields,
) -> Message {
    let source = Source {
        format: format.to_owned(),
        id: json::text_field(&around, "id"),
        around,
        verbatim: None,
    };
    Message {
        shape,
        source: Some(source),
        ..Message::new(role, author, parts)
    }
}

/// Reads a file whose records are conversations by themselves. What is damaged is noted on the
/// conversation before it, or on the first.
pub(crate) fn each(
    format: &'static str,
    pieces: &mut dyn Iterator<Item = Piece>,
    mut read: impl FnMut(&str, Fields) -> Vec<Transcript>,
) -> Vec<Transcript> {
    let mut told: Vec<Transcript> = Vec::new();
    let mut early = Story::new(format).finish();
    for piece in pieces {
        let mut notes = Story::new(format);
        if let Some(Record { place, fields, .. }) = notes.record(piece) {
            told.extend(read(&place, fields));
            continue;
        }
        let place = told.last_mut().unwrap_or(&mut early);
        place.steps.extend(notes.finish().steps);
    }
    let alone = told.iter().all(|t| t.begins == Begins::Own);
    match told.first_mut().filter(|_| alone) {
        Some(first) => drop(first.steps.splice(0..0, early.steps)),
        // Branches count the steps they share.
        None if early.steps.is_empty() => {}
        None => told.push(early),
    }
    told
}

/// Reads a record into one conversation.
pub(crate) fn one(
    format: &'static str,
    place: &str,
    read: impl FnOnce(&mut Story),
) -> Vec<Transcript> {
    let mut story = Story::new(format);
    story.at(place);
    read(&mut story);
    vec![story.finish()]
}

/// Reads the list of a record into a conversation for each object in it. What else the record says
/// stands with the first, or alone.
pub(crate) fn several(
    format: &'static str,
    place: &str,
    (list, mut record): (Vec<Json>, Fields),
    no_object: &str,
    mut read: impl FnMut(&mut Story, Fields),
) -> Vec<Transcript> {
    let mut told = Vec::new();
    for json in list {
        told.extend(one(format, place, |story| {
            story.leftovers(&std::mem::take(&mut record));
            match json::object(&json) {
                Some(fields) => read(story, fields),
                None => story.noted(no_object, Some(json), true),
            }
        }));
    }
    if told.is_empty() {
        told.extend(one(format, place, |story| story.leftovers(&record)));
    }
    told
}

/// How a format reads what is its own; everything else is shared.
pub(crate) trait Records {
    /// The format's name.
    const FORMAT: &'static str;

    /// The field of a request that holds the conversation.
    const LIST: &'static str = "messages";

    /// Whether an object is a message that stands alone.
    fn is_message(&self, fields: &Fields) -> bool {
        json::field(fields, "role").is_some()
            && json::field(fields, Self::LIST).is_none()
            && !self.is_response(fields)
    }

    /// Adds a message of the history.
    fn tell(&self, story: &mut Story, messages: Vec<Message>) {
        story.history(messages);
    }

    /// The model that an answer came from, as the answer says, or the address it came from.
    fn model(&self, response: &Fields, _endpoint: &str) -> Option<String> {
        json::text_field(response, "model")
    }

    /// Reads a message into its neutral messages.
    fn message(&self, json: &Json) -> Option<Vec<Message>>;

    /// Takes what stands before the messages out of a request's fields.
    fn before(&self, request: &mut Fields) -> Vec<Message>;

    /// Whether an object is an answer of the provider.
    fn is_response(&self, fields: &Fields) -> bool;

    /// Adds the answer and what came with it.
    fn answer(&self, story: &mut Story, response: Fields, at: Option<Micros>);
}

/// Reads pieces into transcripts: one per record, or one of all bare messages that stand together.
pub(crate) fn read<F: Records>(
    format: &F,
    pieces: impl IntoIterator<Item = Piece>,
) -> Vec<Transcript> {
    let mut transcripts = Vec::new();
    let mut story = Story::new(F::FORMAT);
    let (mut holds_record, mut bare) = (false, false);
    for Piece { place, value, .. } in pieces {
        let record = match value {
            Ok(record) => record,
            Err(damage) => {
                story.damaged(&place, damage);
                continue;
            }
        };
        let fields = json::object(&record);
        let is_message = fields.as_ref().is_some_and(|f| format.is_message(f));
        // Damage noted before the first record belongs to that record's transcript.
        if holds_record && !(bare && is_message) {
            transcripts.push(std::mem::replace(&mut story, Story::new(F::FORMAT)).finish());
        }
        bare = is_message;
        holds_record = true;
        story.at(&place);
        match fields {
            Some(_) if is_message => history_message(format, &mut story, &record),
            Some(fields) => read_record(format, &mut story, fields),
            None => story.noted("this is no record: not a JSON object", Some(record), true),
        }
    }
    if !story.is_empty() {
        transcripts.push(story.finish());
    }
    transcripts
}

fn history_message<F: Records>(format: &F, story: &mut Story, message: &Json) {
    match format.message(message) {
        Some(messages) => format.tell(story, messages),
        None => story.noted("a message that is no object", Some(message.clone()), true),
    }
}

fn read_record<F: Records>(format: &F, story: &mut Story, mut fields: Fields) {
    story.identify(record_id(&fields));
    if let Some(other) = json::text_field(&fields, "format")
        && other != F::FORMAT
        && !other.starts_with(F::FORMAT)
    {
        let what = format!(
            "a record of format '{other}', not {}; it was not read",
            F::FORMAT
        );
        return story.noted(what, Some(json::write_object(&fields)), true);
    }
    if format.is_response(&fields) {
        story.called(format.model(&fields, ""));
        return format.answer(story, fields, None);
    }
    if let Some(messages) = json::take_as(&mut fields, "traj", json::array) {
        messages
            .iter()
            .for_each(|m| history_message(format, story, m));
        return story.leftovers(&fields);
    }
    if json::field(&fields, "request")
        .and_then(json::object)
        .is_some()
    {
        return read_exchange(format, story, fields);
    }
    if json::field(&fields, F::LIST).is_some() {
        return read_body_record(format, story, fields);
    }
    if json::field(&fields, "response").is_some() {
        return read_exchange(format, story, fields);
    }
    let what = format!(
        "a record without {}, request or response; it was not read as {}",
        F::LIST,
        F::FORMAT
    );
    story.noted(what, Some(json::write_object(&fields)), true);
}

fn record_id(fields: &Fields) -> Option<String> {
    let named = |name| {
        let value = json::field(fields, name).filter(|value| !json::is_null(value))?;
        Some(json::string(value).unwrap_or_else(|| value.0.trim().to_owned()))
    };
    if json::field(fields, "traj").is_some()
        && let (Some(task), Some(trial)) = (named("task_id"), named("trial"))
    {
        return Some(format!("{task}-{trial}"));
    }
    named("id").or_else(|| named("task_id"))
}

/// A record of request and answer.
fn read_exchange<F: Records>(format: &F, story: &mut Story, mut record: Fields) {
    let request = json::take_as(&mut record, "request", json::object).unwrap_or_default();
    let model = json::text_field(&request, "model");
    read_body(format, story, request);
    finish_exchange(format, story, record, model);
}

/// The fields of a request stand in the record itself. Where an answer or its circumstances stand
/// beside them, it is a record of a call; else it is a request that may not have been sent yet.
fn read_body_record<F: Records>(format: &F, story: &mut Story, mut record: Fields) {
    let Some(kwargs) = json::take_as(&mut record, "kwargs", json::object) else {
        if json::field(&record, "response").is_none() {
            return read_body(format, story, record);
        }
        let (around, request): (Fields, Fields) = record
            .into_iter()
            .partition(|(name, _)| AROUND.contains(&name.as_str()));
        let model = json::text_field(&request, "model");
        read_body(format, story, request);
        return finish_exchange(format, story, around, model);
    };
    let mut request: Fields = Vec::new();
    for name in [F::LIST, "tools"] {
        if let Some(value) = json::take(&mut record, name) {
            request.push((name.to_owned(), value));
        }
    }
    // Parameters repeat the tools.
    for (name, value) in kwargs {
        if !json::field(&request, &name).is_some_and(|known| json::equal(known, &value)) {
            request.push((name, value));
        }
    }
    read_body(format, story, request);
    finish_exchange(format, story, record, None);
}

/// Fields of a record that are no fields of a request.
const AROUND: [&str; 8] = [
    "id",
    "source",
    "vendor",
    "endpoint",
    "status",
    "response",
    "timestamp",
    "format",
];

fn read_body<F: Records>(format: &F, story: &mut Story, mut request: Fields) {
    let before = format.before(&mut request);
    let messages = json::take(&mut request, F::LIST);
    story.configured(request);
    for message in before {
        story.messages(vec![message], None);
    }
    match messages.as_ref().map(|m| (m, json::array(m))) {
        Some((_, Some(list))) => list.iter().for_each(|m| history_message(format, story, m)),
        Some((other, None)) => {
            let what = format!("'{}' is no array", F::LIST);
            story.noted(what, Some(other.clone()), true);
        }
        None => {}
    }
}

fn finish_exchange<F: Records>(
    format: &F,
    story: &mut Story,
    mut record: Fields,
    model: Option<String>,
) {
    let response = json::take(&mut record, "response");
    let status = json::field(&record, "status").and_then(json::integer);
    let at = json::field(&record, "timestamp").and_then(instant);
    let answered = response
        .as_ref()
        .and_then(json::object)
        .filter(|f| !f.is_empty());
    let endpoint = json::text_field(&record, "endpoint").unwrap_or_default();
    let said = answered.clone().unwrap_or_default();
    let spoken_by = || format.model(&said, &endpoint);
    story.called(model.or_else(spoken_by));
    match (answered, response) {
        (Some(fields), _) if status.is_some_and(|s| s >= 400) || is_failure(format, &fields) => {
            story.returned(None, Some(failure(&fields, status)), fields, at);
        }
        (Some(fields), _) => format.answer(story, fields, at),
        (None, response) if status.is_some_and(|s| s >= 400) => {
            let words = response.as_ref().and_then(json::string);
            let words = words.unwrap_or_else(|| failure(&Fields::new(), status));
            let other = response.filter(|r| !json::is_null(r) && json::string(r).is_none());
            let rest = other.map(|r| ("response".to_owned(), r));
            story.returned(None, Some(words), rest.into_iter().collect(), at);
        }
        (None, response) => {
            story.returned(None, None, Fields::new(), at);
            let text = response.filter(|r| !json::is_null(r));
            story.noted("the source left the answer out", text, true);
        }
    }
    story.leftovers(&record);
}

fn is_failure<F: Records>(format: &F, response: &Fields) -> bool {
    !format.is_response(response)
        && json::field(response, "error").is_some_and(|e| !json::is_null(e))
}

fn failure(response: &Fields, status: Option<u64>) -> String {
    let error = json::field(response, "error");
    let inner = error
        .and_then(json::object)
        .and_then(|e| json::text_field(&e, "message"));
    let plain = error.and_then(json::string);
    let words = inner
        .or(plain)
        .or_else(|| json::text_field(response, "message"));
    words.unwrap_or_else(|| match status {
        Some(status) if response.is_empty() => format!("status {status}"),
        _ => json::write_object(response).0,
    })
}

/// An instant: RFC 3339 text, or seconds since 1970.
pub(crate) fn instant(json: &Json) -> Option<Micros> {
    if let Some(text) = json::string(json) {
        return Micros::parse(&text);
    }
    let seconds = json::number(json).filter(|s| s.is_finite() && s.abs() < 1e11)?;
    // Shifting the decimal point in the text avoids the rounding and the cast of a float.
    let text = format!("{seconds:.6}").replace('.', "");
    text.parse().ok().map(Micros)
}

/// The instant in a response field that counts seconds since 1970.
pub(crate) fn seconds(response: &Fields, name: &str) -> Option<Micros> {
    json::field(response, name).and_then(instant)
}

/// `{role: "assistant", content: …}` of a response that has them at its top.
pub(crate) fn take_answer(response: &mut Fields) -> Json {
    let role = json::take(response, "role").unwrap_or_else(|| json::quoted("assistant"));
    let mut answer = Writer::default();
    answer.field("role", &role.0);
    if let Some(content) = json::take(response, "content") {
        answer.field("content", &content.0);
    }
    answer.finish()
}

/// A message of one source, from which results stand apart: those that a user's message holds become
/// a tool's message, and what else it holds a message behind it. The second shares the first's source.
pub(crate) fn apart(message: Message) -> Vec<Message> {
    let is_result = |part: &Part| matches!(part.body, PartBody::Result { native: None, .. });
    if message.role != Role::User || !message.parts.iter().any(is_result) {
        return vec![message];
    }
    let (results, words): (Vec<_>, Vec<_>) = message.parts.into_iter().partition(is_result);
    let beside = Message {
        parts: words,
        shape: message.shape,
        extra: Fields::new(),
        source: message.source.clone().map(|source| Source {
            around: Fields::new(),
            ..source
        }),
        ..Message::new(Role::User, message.author, Vec::new())
    };
    let first = Message {
        role: Role::Tool,
        author: Author::Tool,
        parts: results,
        ..message
    };
    let words = (!beside.parts.is_empty()).then_some(beside);
    std::iter::once(first).chain(words).collect()
}

/// Who speaks in a role, where nothing else says so.
pub(crate) fn author_of(role: &Role) -> Author {
    match role {
        Role::User => Author::Person,
        Role::Assistant => Author::Model,
        Role::Tool => Author::Tool,
        Role::System | Role::Developer | Role::Other(_) => Author::Application,
    }
}

/// A part with nothing beside its body.
pub(crate) fn plain(body: PartBody) -> Part {
    Part {
        body,
        extra: Fields::new(),
    }
}

/// A part that only its provider understands.
pub(crate) fn opaque(kind: &str, whole: &Json) -> Part {
    plain(PartBody::Block(BlockBody::Opaque(
        kind.to_owned(),
        whole.clone(),
    )))
}

/// What a part is inside a result: parts that are no blocks are kept whole.
pub(crate) fn block(part: Part, whole: &Json) -> Block {
    match part.body {
        PartBody::Block(body) => Block {
            body,
            extra: part.extra,
        },
        _ => Block {
            body: BlockBody::Opaque(String::new(), whole.clone()),
            extra: Fields::new(),
        },
    }
}

/// A text block.
pub(crate) fn words(text: impl Into<String>) -> Block {
    Block {
        body: BlockBody::Text(text.into()),
        extra: Fields::new(),
    }
}

/// The kind of media of a MIME type.
pub(crate) fn media_kind(mime: &str) -> Media {
    match mime.split_once('/') {
        Some(("image", _)) => Media::Image,
        Some(("audio", _)) => Media::Audio,
        Some(("video", _)) => Media::Video,
        _ => Media::File,
    }
}

/// What stood around a message in its record.
pub(crate) fn around(message: &Message) -> Fields {
    message
        .source
        .as_ref()
        .map_or_else(Fields::new, |source| source.around.clone())
}

/// Keeps a source message whole where writing the message that it became does not give it back.
pub(crate) fn keep_whole(message: &mut Message, whole: &Json, write: fn(&Message) -> Json) {
    let again = write(message);
    if let Some(source) = message
        .source
        .as_mut()
        .filter(|_| !json::equal(&again, whole))
    {
        source.verbatim = Some(whole.clone());
    }
}
