//! Session files of Codex: a line is an item of OpenAI Responses (`response_item`, the conversation),
//! an event for the screen, the settings of a turn, or the session's own record.
//!
//! * Items are messages, as in [`openai_responses`].
//! * A count of tokens is what a call returned. Older versions write it before the call's items,
//!   newer ones behind them: a count while the newest call has one announces the next call.
//! * `compacted` is [`Step::Compacted`](super::Step::Compacted). What the source puts in the place
//!   of all before (`replacement_history`) becomes one message, in its order.
//! * A rollback of turns is [`Step::Rewound`](super::Step::Rewound): from a person's words on.
//! * Other events repeat what items say; they and everything else are notes.
//! * A sub-agent's session names the session that spawned it, and the call; where it does not, the call is
//!   the one whose result names the agent, by its session or its path. A forked one names the session it
//!   left, and tells again what it took over.

use super::detect::{PieceReader, Sniff};
use super::input::Piece;
use super::record::{self, Story, instant};
use super::{Begins, Starter, Transcript, Usage, json, openai_responses};
use crate::log::{Author, BlockBody, Fields, Json, Message, Micros, Part, PartBody, Role, Source};

/// The format's name.
pub const FORMAT: &str = "codex-rollout";

/// The kinds of lines.
const KINDS: [&str; 5] = [
    "session_meta",
    "response_item",
    "event_msg",
    "turn_context",
    "compacted",
];

/// What messages begin with that Codex puts in the user's role by itself.
const INJECTED: [&str; 4] = [
    "<environment_context>",
    "<user_instructions>",
    "<turn_aborted>",
    "<user_shell_command>",
];

/// The format.
pub(crate) struct CodexRollout;

impl PieceReader for CodexRollout {
    fn name(&self) -> &'static str {
        FORMAT
    }

    fn sniff(&self, record: &Fields) -> Sniff {
        let first = |json: &Json| match json::array(json) {
            Some(lines) => lines.first().and_then(json::object),
            None => json::object(json),
        };
        let case = json::field(record, "case").and(json::field(record, "data"));
        Sniff::is(is_line(record) || case.and_then(first).is_some_and(|line| is_line(&line)))
    }

    fn read(&self, pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
        read(pieces)
    }

    fn given(&self, messages: &[&Message]) -> Option<Json> {
        Some(openai_responses::write_item(messages.first()?))
    }

    fn agents_of(&self, result: &Message) -> Vec<String> {
        spawned(result)
    }
}

fn is_line(line: &Fields) -> bool {
    let kind = json::text_field(line, "type").unwrap_or_default();
    let payload = json::field(line, "payload").and_then(json::object);
    KINDS.contains(&kind.as_str()) && payload.is_some()
}

/// Reads a session file; cases of a documentation (`{case, data}`) are a conversation each.
fn read(pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
    let mut session = Session::new();
    let mut cases = Vec::new();
    for Piece { place, value, .. } in pieces {
        session.story.at(&place);
        match value.map(|json| (json::object(&json), json)) {
            Err(damage) => session.story.damaged(&place, damage),
            Ok((Some(mut fields), _)) if json::field(&fields, "case").is_some() => {
                let mut case = Session::new();
                case.story.at(&place);
                case.story
                    .identify(json::take_as(&mut fields, "case", json::string));
                let data = json::take(&mut fields, "data").unwrap_or(Json("null".into()));
                let lines = json::array(&data).unwrap_or_else(|| vec![data]);
                lines.iter().for_each(|line| case.value(line));
                case.story.leftovers(&fields);
                cases.push(case.finish());
            }
            Ok((_, json)) => session.value(&json),
        }
    }
    if !session.story.is_empty() {
        cases.insert(0, session.finish());
    }
    cases
}

struct Session {
    story: Story,
    begins: Begins,
    named: bool,
    /// The newest settings, to tell a change.
    settings: Option<Json>,
    model: Option<String>,
    /// Whether the newest call still waits for a count of its tokens.
    counting: bool,
    /// All tokens so far; the same again is no new call.
    total: Option<Json>,
    /// The messages since the newest compaction that no rollback took, and which of them begin turns.
    path: Vec<(usize, bool)>,
}

impl Session {
    fn new() -> Self {
        Self {
            story: Story::new(FORMAT),
            begins: Begins::Own,
            named: false,
            settings: None,
            model: None,
            counting: false,
            total: None,
            path: Vec::new(),
        }
    }

    fn finish(self) -> Transcript {
        Transcript {
            begins: self.begins,
            ..self.story.finish()
        }
    }

    fn value(&mut self, line: &Json) {
        let Some(mut around) = json::object(line) else {
            let what = "this is no record: not a JSON object";
            return self.story.noted(what, Some(line.clone()), true);
        };
        let kind = json::text_field(&around, "type").unwrap_or_default();
        let at = json::field(&around, "timestamp").and_then(instant);
        self.story.time(at);
        let payload = json::take_as(&mut around, "payload", json::object);
        match (kind.as_str(), payload) {
            ("session_meta", Some(payload)) => self.meta(line, &payload),
            ("turn_context", Some(payload)) => self.context(payload),
            ("response_item", Some(payload)) => self.item(line, &payload, around, at),
            ("event_msg", Some(payload)) => self.event(line, payload, at),
            ("compacted", Some(payload)) => self.compacted(payload, at),
            ("", _) => self
                .story
                .noted("a line without a type", Some(line.clone()), true),
            _ => self.story.noted(kind, Some(line.clone()), false),
        }
    }

    fn meta(&mut self, line: &Json, meta: &Fields) {
        if !self.named {
            self.story.identify(json::text_field(meta, "id"));
            self.begins = begins(meta);
            self.named = true;
        }
        self.story.noted("session_meta", Some(line.clone()), false);
    }

    fn context(&mut self, context: Fields) {
        self.counting = false;
        let whole = json::write_object(&context);
        if self.settings.as_ref() != Some(&whole) {
            self.model = json::text_field(&context, "model");
            self.settings = Some(whole);
            self.story.configured(context);
        }
    }

    fn item(&mut self, line: &Json, payload: &Fields, around: Fields, at: Option<Micros>) {
        let kind = json::text_field(payload, "type").unwrap_or_default();
        let item = json::write_object(payload);
        let message = openai_responses::read_item(&item).filter(|_| kind != "ghost_snapshot");
        let Some(mut message) = message else {
            return self.story.noted(kind, Some(line.clone()), false);
        };
        if message.author == Author::Person && is_injected(&message) {
            message.author = Author::Application;
        }
        if let Some(source) = &mut message.source {
            FORMAT.clone_into(&mut source.format);
            source.around = around;
        }
        let by_model = message.author == Author::Model && message.role == Role::Assistant;
        if by_model && self.story.answers_nothing() {
            self.called(at);
        }
        if message.role == Role::User {
            self.counting = false;
        }
        let turn = message.author == Author::Person;
        let number = self.story.messages_told();
        openai_responses::tell(&mut self.story, message, at);
        if self.story.messages_told() > number {
            self.path.push((number, turn));
        } else {
            self.path.clear(); // it stands for all before
        }
    }

    fn called(&mut self, at: Option<Micros>) {
        self.story.called_at(self.model.clone(), at);
        self.counting = true;
    }

    fn event(&mut self, line: &Json, mut event: Fields, at: Option<Micros>) {
        let kind = json::take_as(&mut event, "type", json::string).unwrap_or_default();
        let info = json::field(&event, "info").and_then(json::object);
        match (kind.as_str(), info) {
            ("token_count", Some(info)) => {
                let total = json::field(&info, "total_token_usage").cloned();
                if total.is_some() && total == self.total {
                    return self.story.noted(kind, Some(line.clone()), false);
                }
                self.total = total;
                if !self.counting {
                    self.called(at);
                }
                self.counting = false;
                let usage = json::field(&info, "last_token_usage").and_then(usage);
                self.story.returned(usage, None, event, at);
            }
            ("thread_rolled_back", _) => {
                self.story.noted(kind, Some(line.clone()), false);
                let turns = json::field(&event, "num_turns").and_then(json::integer);
                self.rolled_back(turns.unwrap_or_default(), at);
            }
            ("turn_aborted", _) => {
                self.counting = false;
                self.story.noted(kind, Some(line.clone()), false);
            }
            _ => self.story.noted(kind, Some(line.clone()), false),
        }
    }

    /// The newest turns are gone, each from a person's words on.
    fn rolled_back(&mut self, turns: u64, at: Option<Micros>) {
        self.counting = false;
        let places = (0..self.path.len()).rev();
        let begins = places.filter(|at| self.path.get(*at).is_some_and(|(_, turn)| *turn));
        let newest = begins.zip(0..turns).last();
        if let Some((first, _)) = newest {
            let gone = self.path.split_off(first);
            let gone = gone.into_iter().map(|(number, _)| number).collect();
            self.story.rewound(gone, at);
        }
    }

    fn compacted(&mut self, mut payload: Fields, at: Option<Micros>) {
        self.counting = false;
        self.path.clear();
        let history = json::field(&payload, "replacement_history").and_then(json::array);
        let words = json::take_as(&mut payload, "message", json::string).unwrap_or_default();
        let parts: Vec<Part> = match history {
            Some(items) => items.iter().flat_map(parts_of).collect(),
            None => vec![Part::text(words.as_str())],
        };
        if json::field(&payload, "replacement_history").is_some() {
            payload.push(("message".to_owned(), json::quoted(&words)));
        }
        let mut summary = Message::new(Role::User, Author::Application, parts);
        summary.source = Some(Source {
            format: FORMAT.to_owned(),
            ..Source::default()
        });
        self.story.compacted(summary, payload, at);
    }
}

/// How a session's own record says that it began.
fn begins(meta: &Fields) -> Begins {
    let inner = |fields: &Fields, name: &str| json::object(json::field(fields, name)?);
    let spawn = inner(meta, "source")
        .and_then(|source| inner(&source, "subagent"))
        .and_then(|agent| inner(&agent, "thread_spawn"));
    if let Some(spawn) = spawn
        && let Some(by) = json::text_field(&spawn, "parent_thread_id")
    {
        let call = match json::text_field(&spawn, "spawn_call_id") {
            Some(call) => Starter::Call(call),
            None => {
                let path = json::text_field(&spawn, "agent_path");
                let last = path.as_deref().and_then(|path| path.rsplit('/').next());
                let names = [json::text_field(meta, "id"), last.map(str::to_owned), path];
                Starter::Agent(names.into_iter().flatten().collect())
            }
        };
        return Begins::Started { by, call };
    }
    match json::text_field(meta, "forked_from_id") {
        Some(of) => Begins::Forked { of },
        None => Begins::Own,
    }
}

/// What the output of a call that spawned an agent says of it: its session, or its path.
fn spawned(result: &Message) -> Vec<String> {
    let outputs = result.parts.iter().filter_map(|part| match &part.body {
        PartBody::Result { content, .. } => Some(content),
        _ => None,
    });
    let texts = outputs.flatten().filter_map(|block| match &block.body {
        BlockBody::Text(text) => json::object(&Json(text.clone())),
        _ => None,
    });
    let name = |output: &Fields| {
        let names = ["agent_id", "task_name"].iter();
        names
            .filter_map(|name| json::text_field(output, name))
            .collect::<Vec<_>>()
    };
    texts.flat_map(|output| name(&output)).collect()
}

fn is_injected(message: &Message) -> bool {
    let first = message.parts.first().map(|part| &part.body);
    match first {
        Some(PartBody::Block(BlockBody::Text(text))) => {
            INJECTED.iter().any(|mark| text.starts_with(mark))
        }
        _ => false,
    }
}

/// The parts that an item of a new history has in the one message that stands for it.
fn parts_of(item: &Json) -> Vec<Part> {
    match openai_responses::read_item(item) {
        Some(message) if matches!(message.role, Role::User | Role::Developer | Role::System) => {
            message.parts
        }
        Some(message) if message.author == Author::Model => {
            let words = |part: &Part| matches!(part.body, PartBody::Block(_));
            if message.parts.iter().all(words) {
                message.parts
            } else {
                vec![whole(item)]
            }
        }
        _ => vec![whole(item)],
    }
}

fn whole(item: &Json) -> Part {
    let kind = json::object(item).and_then(|fields| json::text_field(&fields, "type"));
    record::opaque(&kind.unwrap_or_default(), item)
}

/// Usage as both kinds of Codex files give it.
pub(crate) fn usage(usage: &Json) -> Option<Usage> {
    let fields = json::object(usage)?;
    let count = |name: &str| json::field(&fields, name).and_then(json::integer);
    let cache_read = count("cached_input_tokens");
    let input = count("input_tokens").map(|all| all.saturating_sub(cache_read.unwrap_or(0)));
    Some(Usage {
        input,
        output: count("output_tokens"),
        cache_read,
        cache_write: None,
    })
}
