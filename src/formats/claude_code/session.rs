//! The conversations of a session file: where each line belongs.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::FORMAT;
use super::branch::{NodeId, Place, ROOT};
use super::conversation::{Conversation, warning};
use super::line::Line;
use crate::formats::{Begins, PackedSteps, PackedTranscript, Starter, Step, json};
use crate::log::{Author, BlockBody, Json, Message, PartBody};

/// Conversations of one session and kind: its main line, or one agent's sidechains.
type Kind = (Option<String>, bool, Option<String>);

/// Where a line stands.
#[derive(Clone, Copy, Debug)]
struct Spot {
    conversation: usize,
    place: Place,
    /// The step of its first message.
    step: Option<usize>,
}

/// Everything read so far.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    file: Rc<str>,
    conversations: Vec<Conversation>,
    /// The kind of each conversation.
    kinds: Vec<Kind>,
    /// The newest conversation of each kind.
    newest: HashMap<Kind, usize>,
    names: HashSet<String>,
    /// Lines by session and uuid.
    spots: HashMap<(Option<String>, String), Spot>,
    /// Parents that were told to be missing.
    missing: HashSet<(Option<String>, String)>,
    /// The call that started a sub-agent, by session and agent.
    started: HashMap<(Option<String>, String), String>,
    /// Notes from before the first conversation.
    early: PackedSteps,
}

impl Sessions {
    pub(super) fn new(file: &str) -> Self {
        Self {
            file: file.into(),
            ..Self::default()
        }
    }

    /// The transcripts, in order of their first lines.
    pub(super) fn finish(self) -> Vec<PackedTranscript> {
        if self.conversations.is_empty() && !self.early.is_empty() {
            return vec![PackedTranscript {
                format: FORMAT,
                steps: self.early,
                ..PackedTranscript::default()
            }];
        }
        // Of a sub-agent with a file of its own, the session's file knows the call by the agent.
        let apart =
            |session: &Option<String>| !self.newest.contains_key(&(session.clone(), false, None));
        let started = |(session, sidechain, agent): &Kind| {
            let (by, agent) = (session.clone()?, agent.clone()?);
            let known = self.started.get(&(Some(by.clone()), agent.clone()));
            let named = || apart(session).then(|| Starter::Agent(vec![agent.clone()]));
            let call = known.cloned().map(Starter::Call).or_else(named)?;
            sidechain.then_some(Begins::Started { by, call })
        };
        let begins: Vec<Option<Begins>> = self.kinds.iter().map(started).collect();
        let told = self.conversations.into_iter().zip(begins);
        told.map(|(conversation, begins)| PackedTranscript {
            begins: begins.unwrap_or_default(),
            ..conversation.transcript
        })
        .collect()
    }

    /// Something that could not be read; `text` is kept as a JSON string.
    pub(super) fn damage(&mut self, number: u64, what: &str, text: Option<&str>) {
        let place = format!("{}:{number}", self.file);
        self.note(warning(
            &place,
            what.to_owned(),
            text.map(json::quoted),
            None,
        ));
    }

    fn note(&mut self, step: Step) {
        match self.conversations.first_mut() {
            Some(first) => first.push(step),
            None => self.early.push(&step),
        }
    }

    /// Takes in a text that is a JSON object; says whether it is one.
    pub(super) fn object(&mut self, number: u64, text: &str) -> bool {
        let line = Line::read(&self.file, number, text);
        line.map(|line| self.take(line)).is_some()
    }

    /// A line, and what it tells of a sub-agent.
    fn take(&mut self, line: Line<'_>) {
        if let Some((agent, call)) = line.answered() {
            self.started.insert((line.session.clone(), agent), call);
        }
        let Some((text, call, rest)) = line.told() else {
            return self.line(line, None);
        };
        let Some(told) = Line::read(&self.file, line.number, &text.0) else {
            return self.line(line, None);
        };
        if let (Some(agent), Some(call)) = (told.agent.clone(), call) {
            let key = (line.session.clone(), agent);
            self.started.entry(key).or_insert(call);
        }
        self.line(line, Some(rest));
        self.line(told, None);
    }

    /// A line; of an event `rest` is kept where it is not the whole.
    fn line(&mut self, mut line: Line<'_>, rest: Option<Json>) {
        let messages = line.take_messages();
        let line = &line;
        if line.session.is_none() && line.uuid.is_none() && messages.is_none() {
            return self.note(note(line, rest));
        }
        let key = line
            .uuid
            .as_ref()
            .map(|uuid| (line.session.clone(), uuid.clone()));
        let before = key.as_ref().and_then(|key| self.spots.get(key)).copied();
        if let (Some(before), Some(messages)) = (before, &messages)
            && self.repeats(line, before, messages)
        {
            return;
        }
        let by_person = before.is_none() && messages.as_deref().is_some_and(is_by_person);
        let mut spot = self.find(line, by_person);
        let Some(conversation) = self.conversations.get_mut(spot.conversation) else {
            return;
        };
        match messages {
            Some(messages) => {
                let (node, step) = converse(conversation, line, messages, spot.place);
                spot.place = Place { node, known: true };
                spot.step = Some(step);
            }
            None => conversation.event(line, note(line, rest)),
        }
        if let Some(key) = key {
            self.spots.entry(key).or_insert(spot);
        }
    }

    /// A line whose uuid was there before: one that says the same again is noted only, since the
    /// model saw it once. One that says something else is taken with a warning.
    fn repeats(&mut self, line: &Line, before: Spot, messages: &[Message]) -> bool {
        let Some(conversation) = self.conversations.get_mut(before.conversation) else {
            return false;
        };
        let same = before
            .step
            .is_some_and(|step| conversation.says(step, messages));
        let uuid = line.uuid.as_deref().unwrap_or_default();
        if same {
            let what = format!("repeats the line {uuid}; not taken again");
            conversation.push(warning(&line.place(), what, Some(line.whole()), line.at));
        } else {
            conversation.warn(
                line,
                &format!("another line {uuid} was there before; both are kept"),
            );
        }
        same
    }

    /// Where the line hangs. A person's line with nothing of its kind before it begins a
    /// conversation; what names a line that is not there joins the newest of its kind.
    fn find(&mut self, line: &Line, by_person: bool) -> Spot {
        let kind = (line.session.clone(), line.sidechain, line.agent.clone());
        let parent = line
            .parent
            .as_ref()
            .map(|parent| (line.session.clone(), parent.clone()));
        let spot = parent.as_ref().and_then(|key| self.spots.get(key)).copied();
        if let Some(spot) = spot.filter(|s| self.kinds.get(s.conversation) == Some(&kind)) {
            return Spot { step: None, ..spot };
        }
        let is_root = parent.is_none() || spot.is_some();
        let newest = self.newest.get(&kind).copied();
        let joined = newest.filter(|newest| !(by_person && is_root && self.has_begun(*newest)));
        let conversation = joined.unwrap_or_else(|| self.begin(line, kind));
        if let Some(parent) = parent.filter(|_| spot.is_none()) {
            self.miss(line, conversation, parent);
        }
        let node = self
            .conversations
            .get(conversation)
            .map_or(ROOT, |c| c.tree.tip());
        Spot {
            conversation,
            place: Place { node, known: false },
            step: None,
        }
    }

    fn has_begun(&self, conversation: usize) -> bool {
        self.conversations
            .get(conversation)
            .is_some_and(|c| !c.tree.is_empty())
    }

    fn begin(&mut self, line: &Line, kind: Kind) -> usize {
        let is_main = !line.sidechain && line.agent.is_none() && !self.newest.contains_key(&kind);
        let id = if is_main {
            line.session.clone()
        } else {
            Some(self.root_name(line))
        };
        self.names.extend(id.clone());
        let conversation = self.conversations.len();
        let early = std::mem::take(&mut self.early);
        self.conversations.push(Conversation::new(id, early));
        self.kinds.push(kind.clone());
        self.newest.insert(kind, conversation);
        conversation
    }

    /// `session#root`, where the root is its first line.
    fn root_name(&self, line: &Line) -> String {
        let session = line.session.as_deref().unwrap_or_default();
        let root = line.uuid.as_ref().or(line.agent.as_ref());
        let name = root.map(|root| format!("{session}#{root}"));
        let free = name.filter(|name| !self.names.contains(name));
        free.unwrap_or_else(|| format!("{session}#line-{}", line.number))
    }

    /// Tells once that a line's parent is not there.
    fn miss(&mut self, line: &Line, conversation: usize, parent: (Option<String>, String)) {
        let what = format!("its parent {} is not in the file before it", parent.1);
        if self.missing.insert(parent)
            && let Some(conversation) = self.conversations.get_mut(conversation)
        {
            conversation.warn(line, &what);
        }
    }
}

/// Whether the messages are a person's, and no answer to calls.
fn is_by_person(messages: &[Message]) -> bool {
    messages.iter().all(|m| m.author == Author::Person)
}

/// The record of a line without a readable message.
fn note(line: &Line, rest: Option<Json>) -> Step {
    let content = rest.or_else(|| Some(line.whole()));
    if line.message().is_some() {
        let what = format!("{}: its message is no object", line.what());
        return warning(&line.place(), what, content, line.at);
    }
    Step::Noted {
        what: line.what(),
        place: line.place(),
        content,
        at: line.at,
        warn: false,
    }
}

/// Adds the line's messages; returns their node and the step of the first.
fn converse(
    conversation: &mut Conversation,
    line: &Line,
    mut messages: Vec<Message>,
    place: Place,
) -> (NodeId, usize) {
    if messages.iter().any(holds_bare_value) {
        conversation.warn(
            line,
            "a content block that is no object; it is kept as it is",
        );
    }
    let node = match messages.pop() {
        Some(summary) if line.summary && messages.is_empty() => {
            conversation.summary(line, summary, place)
        }
        last => {
            messages.extend(last);
            conversation.line(line, messages, place)
        }
    };
    (node, conversation.newest_step())
}

/// Whether something in its content is no block, as a bare string in a list.
fn holds_bare_value(message: &Message) -> bool {
    let bare = |body: &BlockBody| matches!(body, BlockBody::Opaque(kind, json) if kind.is_empty() && json::object(json).is_none());
    message.parts.iter().any(|part| match &part.body {
        PartBody::Block(body) => bare(body),
        PartBody::Result { content, .. } => content.iter().any(|block| bare(&block.body)),
        _ => false,
    })
}
