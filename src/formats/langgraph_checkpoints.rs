//! Histories of a `LangGraph` thread: snapshots of its state, the newest first as a rule, each with all of
//! its messages and the snapshot it came from.
//!
//! A snapshot's steps are what it has that its parent had not: messages that left or changed are gone,
//! others were added. Two snapshots of one parent are a fork; the newest snapshot ends the thread's own
//! path.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use super::detect::{PieceReader, Sniff};
use super::input::Piece;
use super::record::{Story, instant};
use super::tree::{self, Node};
use super::{Step, Transcript, json, langchain};
use crate::log::{Fields, Json, Message, Micros};

/// The format's name.
pub const FORMAT: &str = "langgraph-checkpoints";

/// The format.
pub(crate) struct LangGraphCheckpoints;

impl PieceReader for LangGraphCheckpoints {
    fn name(&self) -> &'static str {
        FORMAT
    }

    fn sniff(&self, record: &Fields) -> Sniff {
        let has = |name: &str| json::field(record, name).is_some();
        let named = configured(record, "config", "checkpoint_id").is_some();
        Sniff::is(named && (has("values") || has("checkpoint")))
    }

    fn read(&self, pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
        read(pieces)
    }

    fn given(&self, messages: &[&Message]) -> Option<Json> {
        Some(langchain::write_message(messages.first()?))
    }
}

fn configured(snapshot: &Fields, config: &str, name: &str) -> Option<String> {
    let config = json::object(json::field(snapshot, config)?)?;
    json::text_field(&json::object(json::field(&config, "configurable")?)?, name)
}

struct Snapshot {
    id: String,
    parent: Option<String>,
    place: String,
    at: Option<Micros>,
    messages: Vec<Json>,
    /// All of it but the messages.
    rest: Fields,
}

/// A thread's snapshots, oldest first.
struct Thread {
    id: String,
    snapshots: Vec<Snapshot>,
}

fn read(pieces: &mut dyn Iterator<Item = Piece>) -> Vec<Transcript> {
    let mut notes = Story::new(FORMAT);
    let mut threads: Vec<Thread> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for piece in pieces {
        let Some(record) = notes.record(piece) else {
            continue;
        };
        let Some((id, snapshot)) = snapshot(record.fields, record.place) else {
            notes.noted("this is no snapshot", Some(record.json), true);
            continue;
        };
        let next = threads.len();
        let at = *places.entry(id.clone()).or_insert(next);
        if at == next {
            let snapshots = Vec::new();
            threads.push(Thread { id, snapshots });
        }
        if let Some(thread) = threads.get_mut(at) {
            thread.snapshots.push(snapshot);
        }
    }
    let mut told: Vec<Transcript> = threads.into_iter().flat_map(tell).collect();
    notes.finish_into(&mut told);
    told
}

/// A snapshot with its thread's name.
fn snapshot(mut fields: Fields, place: String) -> Option<(String, Snapshot)> {
    let id = configured(&fields, "config", "checkpoint_id")?;
    let thread = configured(&fields, "config", "thread_id").unwrap_or_default();
    let within = configured(&fields, "config", "checkpoint_ns").filter(|ns| !ns.is_empty());
    let thread = within.map_or_else(|| thread.clone(), |ns| format!("{thread}/{ns}"));
    let at = json::field(&fields, "created_at").and_then(instant);
    let parent = configured(&fields, "parent_config", "checkpoint_id");
    let mut messages = take_messages(&mut fields, "values", "messages");
    if messages.is_none()
        && let Some(mut checkpoint) = json::take_as(&mut fields, "checkpoint", json::object)
    {
        messages = take_messages(&mut checkpoint, "channel_values", "messages");
        fields.push(("checkpoint".to_owned(), json::write_object(&checkpoint)));
    }
    let snapshot = Snapshot {
        id,
        parent,
        place,
        at,
        messages: messages.unwrap_or_default(),
        rest: fields,
    };
    Some((thread, snapshot))
}

/// Takes a list out of an object that stands in a field.
fn take_messages(fields: &mut Fields, holder: &str, name: &str) -> Option<Vec<Json>> {
    let at = fields.iter().position(|(field, _)| field == holder)?;
    let (_, value) = fields.get_mut(at)?;
    let mut inner = json::object(value)?;
    let list = json::take_as(&mut inner, name, json::array)?;
    *value = json::write_object(&inner);
    Some(list)
}

fn tell(thread: Thread) -> Vec<Transcript> {
    let Thread { id, mut snapshots } = thread;
    snapshots.reverse();
    snapshots.sort_by_key(|snapshot| snapshot.at);
    let leaf = snapshots.last().map(|newest| newest.id.clone());
    let nodes = Differences::new(snapshots).nodes();
    tree::tell(
        FORMAT,
        Some(&id).filter(|id| !id.is_empty()).map(String::as_str),
        nodes,
        leaf.as_deref(),
    )
}

/// A message of a state, as its path knows it.
#[derive(Clone)]
struct Held {
    key: String,
    text: Json,
    number: usize,
}

/// What each snapshot has that its parent had not.
struct Differences {
    snapshots: Vec<Snapshot>,
    children: HashMap<usize, Vec<usize>>,
    steps: Vec<Option<Vec<Step>>>,
}

/// A snapshot still to be compared: with its parent's state and how many messages the path has.
struct Left {
    at: usize,
    held: Rc<Vec<Held>>,
    count: usize,
}

impl Differences {
    fn new(mut snapshots: Vec<Snapshot>) -> Self {
        let mut places: HashMap<String, usize> = HashMap::new();
        for (at, snapshot) in snapshots.iter().enumerate() {
            places.entry(snapshot.id.clone()).or_insert(at);
        }
        let mut children: HashMap<usize, Vec<usize>> = HashMap::new();
        for (at, snapshot) in snapshots.iter_mut().enumerate() {
            // Who names itself, or nobody here, begins.
            let parent = snapshot
                .parent
                .as_ref()
                .and_then(|parent| places.get(parent));
            match parent.filter(|parent| **parent != at) {
                Some(parent) => children.entry(*parent).or_default().push(at),
                None => snapshot.parent = None,
            }
        }
        let steps = snapshots.iter().map(|_| None).collect();
        Self {
            snapshots,
            children,
            steps,
        }
    }

    fn nodes(mut self) -> Vec<Node> {
        let is_root = |at: &usize| self.snapshots.get(*at).is_some_and(|s| s.parent.is_none());
        let roots: Vec<usize> = (0..self.snapshots.len()).filter(is_root).collect();
        // What only hangs on itself has no root: it begins with its first.
        for root in roots.into_iter().chain(0..self.snapshots.len()) {
            if self.steps.get(root).is_none_or(Option::is_some) {
                continue;
            }
            if let Some(first) = self.snapshots.get_mut(root) {
                first.parent = None;
            }
            self.compare_from(root);
        }
        let steps = self.steps.into_iter().map(Option::unwrap_or_default);
        let told = self.snapshots.into_iter().zip(steps);
        told.map(|(snapshot, steps)| Node {
            id: snapshot.id,
            parent: snapshot.parent,
            place: snapshot.place,
            steps,
        })
        .collect()
    }

    fn compare_from(&mut self, root: usize) {
        let mut left = VecDeque::from([Left {
            at: root,
            held: Rc::default(),
            count: 0,
        }]);
        while let Some(Left { at, held, count }) = left.pop_front() {
            let (Some(snapshot), Some(place)) =
                (self.snapshots.get_mut(at), self.steps.get_mut(at))
            else {
                continue;
            };
            if place.is_some() {
                continue;
            }
            let (steps, held, count) = compare(snapshot, &held, count);
            let held = Rc::new(held);
            *place = Some(steps);
            for child in self.children.get(&at).into_iter().flatten() {
                left.push_back(Left {
                    at: *child,
                    held: Rc::clone(&held),
                    count,
                });
            }
        }
    }
}

fn compare(snapshot: &mut Snapshot, held: &[Held], count: usize) -> (Vec<Step>, Vec<Held>, usize) {
    let mut story = Story::new(FORMAT);
    story.at(&snapshot.place);
    let before: HashMap<&str, &Held> = held.iter().map(|h| (h.key.as_str(), h)).collect();
    let mut now: Vec<Held> = Vec::new();
    let mut fresh = Vec::new();
    let mut times: HashMap<String, usize> = HashMap::new();
    for text in std::mem::take(&mut snapshot.messages) {
        let Some(read) = langchain::message(&text, FORMAT).filter(langchain::Read::is_said) else {
            story.noted("this is no message", Some(text), true);
            continue;
        };
        let name = read.id.clone().unwrap_or_else(|| text.0.clone());
        let time = times.entry(name.clone()).or_default();
        let key = format!("{name}\n{time}");
        *time = time.saturating_add(1);
        match before.get(key.as_str()).filter(|h| h.text == text) {
            Some(same) => now.push((*same).clone()),
            None => {
                let number = count.saturating_add(fresh.len());
                fresh.push(read);
                now.push(Held { key, text, number });
            }
        }
    }
    let kept: HashMap<&str, usize> = now.iter().map(|h| (h.key.as_str(), h.number)).collect();
    let left = |h: &&Held| kept.get(h.key.as_str()) != Some(&h.number);
    let gone: Vec<usize> = held.iter().filter(left).map(|h| h.number).collect();
    let at = snapshot.at;
    if !gone.is_empty() {
        story.push(Step::Rewound { gone, at });
    }
    let count = count.saturating_add(fresh.len());
    for read in fresh {
        read.tell(&mut story, at);
    }
    let rest = json::write_object(&std::mem::take(&mut snapshot.rest));
    story.noted("checkpoint", Some(rest), false);
    (story.finish().steps, now, count)
}
