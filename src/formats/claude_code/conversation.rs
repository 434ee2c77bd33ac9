//! One conversation of a session file: turns its lines into steps.

use std::collections::HashMap;

use super::branch::{NodeId, Place, Tree};
use super::line::{Line, Reply};
use crate::formats::{Link, PackedSteps, PackedTranscript, Step, Usage};
use crate::log::{Author, Fields, Json, Message, Micros, PartBody};
use crate::planted::{Bug, planted};

/// What the source shows the model in place of a cleared result.
const CLEARED: &str = "[Old tool result content cleared]";

/// The first line of a model message: later lines of the same `message.id` continue it.
#[derive(Clone, Copy, Debug)]
struct Head {
    node: NodeId,
    message: usize,
}

/// A call whose answer may still get further lines.
#[derive(Debug)]
struct OpenCall {
    id: Option<String>,
    usage: Option<Usage>,
    at: Option<Micros>,
}

/// A conversation while it is read. Steps are decided by the lines before them only, so a file
/// that grew begins with the steps it had.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) transcript: PackedTranscript,
    pub(super) tree: Tree,
    messages: usize,
    heads: HashMap<String, Head>,
    /// The newest line that called with this id.
    calls: HashMap<String, NodeId>,
    open: Option<OpenCall>,
    /// A compaction that still waits for its summary line.
    boundary: Option<Fields>,
    newest_step: usize,
}

/// How a message line hangs together with what is known.
#[derive(Debug, Default)]
struct Ties {
    head: Option<Head>,
    bound: Vec<NodeId>,
    /// It answers calls.
    results: bool,
}

impl Ties {
    /// It belongs to lines before it and begins no branch.
    const fn follows(&self) -> bool {
        self.results || self.head.is_some()
    }
}

impl Conversation {
    pub(super) fn new(id: Option<String>, early: PackedSteps) -> Self {
        let transcript = PackedTranscript {
            format: super::FORMAT,
            id,
            steps: early,
            ..PackedTranscript::default()
        };
        Self {
            transcript,
            tree: Tree::new(),
            messages: 0,
            heads: HashMap::new(),
            calls: HashMap::new(),
            open: None,
            boundary: None,
            newest_step: 0,
        }
    }

    pub(super) fn push(&mut self, step: Step) {
        self.transcript.steps.push(&step);
    }

    /// A line that carries no message. `note` is its record.
    pub(super) fn event(&mut self, line: &Line, note: Step) {
        match line.subtype.as_deref() {
            Some("compact_boundary") => {
                self.settle();
                self.boundary = Some(line.pick(&["logicalParentUuid", "compactMetadata"]));
            }
            Some("stop_hook_summary" | "turn_duration") => self.settle(),
            _ => {}
        }
        self.push(note);
        if line.subtype.as_deref() == Some("microcompact_boundary") {
            self.cleared(line);
        }
    }

    fn cleared(&mut self, line: &Line) {
        match line.cleared_calls() {
            Some(calls) => {
                let marker = CLEARED.to_owned();
                self.push(Step::Cleared {
                    calls,
                    marker,
                    at: line.at,
                });
            }
            None => {
                self.warn(
                    line,
                    "microcompactMetadata.compactedToolIds is no list of strings",
                );
            }
        }
    }

    /// The summary that stands for everything before it.
    pub(super) fn summary(&mut self, line: &Line, summary: Message, place: Place) -> NodeId {
        self.settle();
        let rest = self.boundary.take().unwrap_or_default();
        self.newest_step = self.transcript.steps.len();
        self.push(Step::Compacted {
            summary,
            rest,
            at: line.at,
        });
        let node = self.tree.nearest_on_path(place.node);
        self.tree.cover(Place { node, ..place }, self.messages)
    }

    /// The messages of one line.
    pub(super) fn line(&mut self, line: &Line, messages: Vec<Message>, place: Place) -> NodeId {
        let ties = self.ties(line, &messages);
        if !ties.results && !self.is_open(&line.reply) {
            self.settle();
        }
        let gone = self.is_straggler(&ties, &messages, place);
        let place = self.stand(line, &ties, place, gone);
        self.begin_call(line, &ties, &messages);
        let numbers = self.append(line.at, messages, ties.head.map(|head| head.message));
        if gone {
            self.push(Step::Rewound {
                gone: numbers.clone(),
                at: line.at,
            });
        }
        self.enter(line, ties, place, numbers, gone)
    }

    fn ties(&self, line: &Line, messages: &[Message]) -> Ties {
        let head = line
            .reply
            .id
            .as_ref()
            .and_then(|id| self.heads.get(id))
            .copied();
        let mut bound: Vec<NodeId> = head.iter().map(|h| h.node).collect();
        let mut results = false;
        for id in results_of(messages) {
            results = true;
            bound.extend(id.and_then(|id| self.calls.get(id)).copied());
        }
        Ties {
            head,
            bound,
            results,
        }
    }

    fn is_open(&self, reply: &Reply) -> bool {
        reply.id.is_some() && self.open.as_ref().is_some_and(|open| open.id == reply.id)
    }

    /// Whether the line belongs to a branch that was left: all it is bound to is gone, or it
    /// hangs there and no person wrote it.
    fn is_straggler(&self, ties: &Ties, messages: &[Message], place: Place) -> bool {
        if !ties.bound.is_empty() {
            return ties.bound.iter().all(|b| self.tree.is_gone(*b));
        }
        self.tree.is_gone(place.node) && !messages.iter().any(|m| m.author == Author::Person)
    }

    /// Finds the place on the path where the line stands, and abandons what stood there if it
    /// opens a branch.
    fn stand(&mut self, line: &Line, ties: &Ties, place: Place, gone: bool) -> Place {
        if gone {
            return place;
        }
        let near = self.tree.nearest_on_path(place.node);
        // A line that the client made itself ("no response requested") is no retry of what no
        // model answered: a person's words beside it stay.
        let retries = !line.synthetic || self.tree.answers_below(near);
        if !ties.follows() && retries {
            if near != place.node {
                self.warn(
                    line,
                    "back on a branch that was left; its messages stay gone",
                );
            } else if self.tree.is_covered(near) {
                self.warn(line, "back before the newest summary; the summary stays");
            }
            if self.boundary.take().is_some() {
                self.warn(
                    line,
                    "a compact boundary without a summary; what it ended stays",
                );
            }
            let left = self.tree.leave(near);
            if !left.is_empty() {
                self.push(Step::Rewound {
                    gone: left,
                    at: line.at,
                });
            }
        }
        Place {
            node: near,
            ..place
        }
    }

    /// Tells the call whose answer this line is the first of.
    fn begin_call(&mut self, line: &Line, ties: &Ties, messages: &[Message]) {
        let Reply {
            id, model, usage, ..
        } = &line.reply;
        if messages.first().is_none_or(|m| m.author != Author::Model) {
            return;
        }
        if ties.head.is_none() || planted(Bug::RepeatedIdsAreCounted) {
            self.open = Some(OpenCall {
                id: id.clone(),
                usage: *usage,
                at: line.at,
            });
            let (model, at) = (model.clone(), line.at);
            return self.push(Step::Called { model, at });
        }
        // Each block repeats the usage so far; the newest says most.
        if let Some(open) = self.open.as_mut().filter(|open| open.id == *id) {
            open.usage = usage.or(open.usage);
            open.at = line.at.or(open.at);
        }
    }

    fn append(
        &mut self,
        at: Option<Micros>,
        messages: Vec<Message>,
        head: Option<usize>,
    ) -> Vec<usize> {
        let first = self.messages;
        self.newest_step = self.transcript.steps.len();
        let mut numbers = Vec::new();
        for message in messages {
            let link = match (numbers.is_empty(), head) {
                (true, Some(head)) => Link::Continues(head),
                (true, None) => Link::None,
                (false, _) => Link::SameSource(first),
            };
            numbers.push(self.messages);
            self.messages = self.messages.saturating_add(1);
            self.push(Step::Message { message, at, link });
        }
        numbers
    }

    /// Files the line in the tree and remembers what later lines can be bound to.
    fn enter(
        &mut self,
        line: &Line,
        ties: Ties,
        place: Place,
        numbers: Vec<usize>,
        gone: bool,
    ) -> NodeId {
        let first = numbers.first().copied();
        let node = self.tree.add(place, ties.bound, numbers, gone);
        if line.reply.id.is_some() && !line.synthetic {
            self.tree.mark_answer(node);
        }
        if let (Some(id), Some(message)) = (&line.reply.id, first) {
            self.heads
                .entry(id.clone())
                .or_insert(Head { node, message });
        }
        for id in &line.reply.calls {
            self.calls.insert(id.clone(), node);
        }
        node
    }

    /// The newest answer is complete: nothing that follows belongs to it.
    fn settle(&mut self) {
        if let Some(OpenCall {
            usage: Some(usage),
            at,
            ..
        }) = self.open.take()
        {
            let (failure, rest) = (None, Fields::new());
            self.push(Step::Returned {
                usage: Some(usage),
                failure,
                rest,
                at,
            });
        }
    }

    /// The first message step of the newest line.
    pub(super) const fn newest_step(&self) -> usize {
        self.newest_step
    }

    /// Whether the message step at `step` and those after it have the same content as these.
    pub(super) fn says(&self, step: usize, messages: &[Message]) -> bool {
        let there = self.transcript.steps.skip(step).take(messages.len());
        let same = |(message, step): (&Message, Step)| match step {
            Step::Message { message: old, .. } | Step::Compacted { summary: old, .. } => {
                old.role == message.role && old.parts == message.parts
            }
            _ => false,
        };
        there.len() == messages.len() && messages.iter().zip(there).all(same)
    }

    pub(super) fn warn(&mut self, line: &Line, what: &str) {
        self.push(warning(&line.place(), what.to_owned(), None, line.at));
    }
}

/// A note that a person should be told.
pub(super) fn warning(
    place: &str,
    what: String,
    content: Option<Json>,
    at: Option<Micros>,
) -> Step {
    Step::Noted {
        what,
        place: place.to_owned(),
        content,
        at,
        warn: true,
    }
}

/// The call ids that a tool's messages answer; `None` for a result without one. A model message
/// may hold results of tools its provider ran: those tie nothing.
fn results_of(messages: &[Message]) -> impl Iterator<Item = Option<&String>> {
    messages
        .iter()
        .filter(|m| m.author == Author::Tool)
        .flat_map(|m| &m.parts)
        .filter_map(|part| match &part.body {
            PartBody::Result { call, .. } => Some(call.as_ref()),
            _ => None,
        })
}
