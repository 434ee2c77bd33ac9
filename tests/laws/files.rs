//! The laws over every recorded transcript of the formats that are read here.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ctxlog::audit::{export, import_lines, verify, why};
use ctxlog::engine::{Conversation, Store};
use ctxlog::formats::input::{Piece, RECORD_LIMIT, pieces};
use ctxlog::formats::lint::lint;
use ctxlog::formats::{Profile, Rendered, Transcript, detect, render};
use ctxlog::log::{
    Author, Body, Entry, GroupReason, MessageId, PartKind, Provenance, Seq, Visited,
};
use ctxlog::strategy;
use ctxlog::testkit::{Case, Law, Script, generate, laws};
use ctxlog::window::Projection;
use proptest::collection::vec;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::Value;

use crate::data::{data, folders};

const CHAINS: [&str; 4] = [
    "",
    "sliding-window:keep=4",
    "head-tail:window=6",
    "token-budget:limit=4000,keep=3",
];

fn files(folder: &str) -> Vec<PathBuf> {
    data(folder).unwrap_or_default()
}

fn read(file: &Path) -> Vec<Transcript> {
    let bytes = std::fs::read(file).unwrap();
    let pieces = pieces(bytes.as_slice(), "f", RECORD_LIMIT).take(200);
    let pieces: Vec<Piece> = pieces.map(Result::unwrap).collect();
    let format = detect(&pieces).unwrap();
    format
        .read(&mut bytes.as_slice(), "f", RECORD_LIMIT)
        .unwrap()
}

/// Formats that others stand for, too: those with a test of their own here.
const OWN: [&str; 3] = ["openai-chat", "anthropic-messages", "claude-code"];

/// The folders of all other formats.
fn others() -> Vec<String> {
    let folders = folders().unwrap_or_default();
    let names = folders
        .iter()
        .map(|f| f.file_name().unwrap().to_str().unwrap().to_owned());
    names.filter(|name| !OWN.contains(&name.as_str())).collect()
}

fn profile(folder: &str) -> Profile {
    if folder == "openai-chat" {
        Profile::OpenAiChat
    } else {
        Profile::Anthropic
    }
}

pub(super) fn chain(spec: &str) -> Vec<std::sync::Arc<dyn strategy::Strategy>> {
    let specs = spec.split(';').filter(|s| !s.is_empty());
    specs.map(|s| strategy::parse(s).unwrap()).collect()
}

fn imported(transcript: &Transcript, spec: &str) -> Conversation {
    let store = Store::in_memory();
    let take = || {
        store
            .import("t", transcript, chain(spec), &mut |_| {})
            .unwrap()
    };
    let first = take();
    assert_eq!(first.added, first.entries);
    assert_eq!(take().added, 0, "importing again adds nothing");
    let chat = store.existing("t").unwrap();
    assert_eq!(chat.head().unwrap(), first.head);
    chat
}

fn entries(chat: &Conversation) -> Vec<Entry> {
    let mut out = Vec::new();
    let head = chat.head().unwrap().unwrap().seq;
    chat.store()
        .entries(chat.id(), Seq(0), head, &mut |s| {
            out.push(s.entry);
            ControlFlow::Continue(())
        })
        .unwrap();
    out
}

fn rendered(chat: &Conversation, at: Seq, profile: Profile, as_is: bool) -> Rendered {
    let loaded = chat.load(chat.window_after(at).unwrap()).unwrap();
    render(
        profile,
        &loaded.rendered_items(),
        &loaded.settings,
        &loaded.settings_format,
        loaded.model.as_deref(),
        as_is,
    )
}

fn hard(profile: Profile, body: &Value) -> BTreeSet<&'static str> {
    lint(profile, body)
        .into_iter()
        .filter(|p| p.hard)
        .map(|p| p.rule)
        .collect()
}

fn body(rendered: &Rendered) -> Value {
    serde_json::from_str(&rendered.body).unwrap()
}

/// Chain, payloads, windows, laws; and the export leads to the same head.
pub(super) fn hangs_together(chat: &Conversation, place: &str) {
    let listed = chat.store().list().unwrap().remove(0);
    let verified = verify(chat.store(), &listed, &mut |_, _| {}).unwrap();
    assert!(verified.ok, "{place}: {:?}", verified.problems);
    let mut text = Vec::new();
    export(chat, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let elsewhere = Store::in_memory();
    let (copy, _) = import_lines(
        &elsewhere,
        &mut text.lines().map(|l| Ok(l.to_owned())),
        None,
    )
    .unwrap();
    assert_eq!(copy.head().unwrap(), chat.head().unwrap(), "{place}");
}

/// Runs, envelope and request by their definition, message by message.
#[derive(Default)]
struct Said {
    persons: Vec<u64>,
    instructions: Vec<u64>,
    run: Option<u64>,
    /// Of the newest model or tool message: whether it leaves the log settled.
    settled: Option<bool>,
    spoken: bool,
    waiting: HashMap<u64, bool>,
    /// What the source itself took away: no law binds it.
    taken: HashSet<u64>,
}

impl Said {
    fn hear(&mut self, entry: &Entry, fold: &Projection) {
        if let (Body::Edited(e), Provenance::Inferred) = (&entry.body, entry.provenance) {
            let left = e.change.left.iter().flat_map(|l| fold.ids_in(&l.messages));
            let covered = e
                .change
                .stand_ins
                .iter()
                .flat_map(|s| fold.ids_in(&s.sources));
            self.taken.extend(left.chain(covered).map(|id| id.seq().0));
        }
        let Body::Appended(a) = &entry.body else {
            return;
        };
        let (n, parts) = (entry.seq.0, &a.skeleton.parts);
        if a.skeleton.role.is_instruction() && self.persons.is_empty() {
            self.instructions.push(n);
        }
        match a.skeleton.author {
            Author::Person => {
                self.persons.push(n);
                if self.run.is_none() || (self.settled.unwrap_or(true) && !self.spoken) {
                    self.run = Some(n);
                }
                self.spoken = true;
            }
            Author::Model => {
                let answered = |i: u32| parts.iter().any(|p| p.answers == Some((Seq(n), i)));
                let own = (0_u32..)
                    .zip(parts)
                    .any(|(i, p)| p.kind == PartKind::Call && !answered(i));
                let earlier = a.continues.is_some_and(|s| self.waiting[&s.0]);
                self.waiting.insert(n, own || earlier);
                (self.settled, self.spoken) = (Some(!own && !earlier), false);
            }
            Author::Tool => (self.settled, self.spoken) = (Some(false), false),
            _ => {}
        }
    }

    /// What has to be in every window.
    fn kept(&self) -> impl Iterator<Item = u64> + '_ {
        let from = self.run.unwrap_or(u64::MAX);
        let request = self.persons.iter().filter(move |p| **p >= from);
        let kept = self.instructions.iter().chain(request).copied();
        kept.filter(|id| !self.taken.contains(id))
    }
}

/// Every group of the window left, refuses, or was not needed.
fn accounts(
    before: &Projection,
    standing: &mut BTreeMap<MessageId, GroupReason>,
    v: &Visited,
    place: &str,
) {
    for id in before.ids_in(&v.released) {
        standing.remove(&id);
    }
    for r in &v.refused {
        standing.extend(
            before
                .ids_in(&r.messages)
                .into_iter()
                .map(|id| (id, r.reason)),
        );
    }
    let left: BTreeSet<MessageId> = v
        .change
        .left
        .iter()
        .flat_map(|l| before.ids_in(&l.messages))
        .collect();
    standing.retain(|id, _| !left.contains(id));
    let window = before.window();
    for group in before.groups_of(&window) {
        let ids: Vec<MessageId> = group.iter().map(|p| window.items[*p].id).collect();
        let leaving = ids.iter().filter(|id| left.contains(id)).count();
        let refusing = ids.iter().filter(|id| standing.contains_key(id)).count();
        let spared = (leaving, refusing) == (0, 0) && v.after.amount <= v.target;
        let whole = [(ids.len(), 0), (0, ids.len())].contains(&(leaving, refusing));
        assert!(
            spared || whole,
            "{place}: {ids:?}: {leaving} left, {refusing} refuse"
        );
    }
}

/// Walks a log once, entry by entry, and checks every call and every visit.
fn walk(chat: &Conversation, place: &str) {
    let entries = entries(chat);
    let mut fold = Projection::default();
    let mut said = Said::default();
    let mut standing: BTreeMap<String, BTreeMap<MessageId, GroupReason>> = BTreeMap::new();
    let mut seen: HashMap<u64, (u64, u64, u64)> = HashMap::new();
    let mut missed: HashMap<u64, u64> = HashMap::new();
    let mut calls = 0;
    for entry in &entries {
        if let Body::Visited(v) = &entry.body {
            accounts(
                &fold,
                standing.entry(v.strategy.clone()).or_default(),
                v,
                place,
            );
        }
        fold.apply(entry);
        said.hear(entry, &fold);
        if !matches!(entry.body, Body::Called(_)) {
            continue;
        }
        calls += 1;
        let window: HashSet<u64> = chat
            .window_after(entry.seq)
            .unwrap()
            .items
            .iter()
            .map(|i| i.id.seq().0)
            .collect();
        let lost: Vec<u64> = said.kept().filter(|id| !window.contains(id)).collect();
        assert!(
            lost.is_empty(),
            "{place}, call {calls}: {lost:?} are not in it"
        );
        for message in fold.messages() {
            let id = message.id.seq().0;
            if window.contains(&id) {
                let slot = seen.entry(id).or_insert((0, calls, calls));
                *slot = (slot.0 + 1, slot.1, calls);
            } else {
                *missed.entry(id).or_default() += 1;
            }
            let answer = why(chat, message.id, entry.seq).unwrap();
            let (count, first, last) = seen.get(&id).copied().unwrap_or_default();
            let told = answer.seen_by;
            assert_eq!(told.calls, count, "{place}: m{id} at call {calls}");
            assert_eq!(
                told.first_iteration.map_or(0, |i| i.0),
                first,
                "{place}: m{id}"
            );
            assert_eq!(
                told.last_iteration.map_or(0, |i| i.0),
                last,
                "{place}: m{id}"
            );
            assert_eq!(
                answer.missed_by.calls,
                missed.get(&id).copied().unwrap_or(0),
                "{place}: m{id}"
            );
            assert_eq!(
                answer.status == "visible",
                window.contains(&id),
                "{place}: m{id}"
            );
        }
    }
}

pub(super) fn every(folder: &str, mut check: impl FnMut(&Transcript, &Path, usize)) {
    for file in files(folder) {
        for (n, transcript) in read(&file).iter().enumerate() {
            check(transcript, &file, n);
        }
    }
}

fn imports_under_every_strategy(folder: &str) {
    every(folder, |transcript, file, n| {
        for spec in CHAINS {
            let place = format!("{}#{n} [{spec}]", file.display());
            let chat = imported(transcript, spec);
            hangs_together(&chat, &place);
            walk(&chat, &place);
            if spec.is_empty() {
                continue;
            }
            for sent in chat.with_projection(|p| p.sent().to_vec()).unwrap() {
                for profile in Profile::ALL.iter().copied() {
                    let broken = hard(
                        profile,
                        &body(&rendered(&chat, sent.fact.seq, profile, false)),
                    );
                    assert!(
                        broken.is_empty(),
                        "{place} at {}: {profile:?} {broken:?}",
                        sent.fact.seq
                    );
                }
            }
        }
    });
}

/// The laws that a replayed transcript can show; the others are about what is done beside it.
pub(super) const OF_REPLAYS: [Law; 15] = [
    Law::Determinism,
    Law::Closure,
    Law::Occurrence,
    Law::NoOp,
    Law::EnvelopeAndRequest,
    Law::Legality,
    Law::Conservation,
    Law::Accounting,
    Law::Progress,
    Law::Replay,
    Law::Undo,
    Law::Crash,
    Law::StablePrefix,
    Law::Explain,
    Law::Lifetimes,
];

/// The naive fold keeps what stood after each entry, so its cost grows with the square of a log;
/// longer transcripts are cut to this many steps.
const STEPS: usize = 160;

/// Each transcript under a chain of strategies drawn at random, with the public check of each law.
fn obeys_the_kit(folder: &str) {
    obeys_the_kit_in(folder, usize::MAX);
}

fn obeys_the_kit_in(folder: &str, of_a_file: usize) {
    let seed = std::env::var("CTXLOG_SEED").map_or_else(
        |_| {
            SystemTime::UNIX_EPOCH
                .elapsed()
                .unwrap()
                .subsec_nanos()
                .into()
        },
        |n| n.parse::<u64>().unwrap(),
    );
    println!("seed: CTXLOG_SEED={seed}");
    let bytes = *blake3::hash(&seed.to_le_bytes()).as_bytes();
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let chains = vec(generate::spec(), 1..=2);
    let mut tried = 0;
    every(folder, |transcript, file, n| {
        if n >= of_a_file {
            return;
        }
        let mut transcript = transcript.clone();
        transcript.steps.truncate(STEPS);
        let mut script = Script::of(&[], Vec::new());
        script.chain = chains.new_tree(&mut runner).unwrap().current();
        script.twist = seed.wrapping_add(n as u64) % 100_000;
        let case = Case::new(&script).after_replay_of(&transcript);
        let checks = laws::CHECKS.iter().filter(|c| OF_REPLAYS.contains(&c.law));
        for check in checks {
            let place = format!("{}#{n}, CTXLOG_SEED={seed}", file.display());
            check
                .run(&case)
                .unwrap_or_else(|broken| panic!("{place}: {broken}\n{script}"));
        }
        tried += 1;
    });
    println!("{tried} transcripts of {folder} under drawn strategies");
}

#[test]
fn openai_chat_files_obey_the_kit_under_drawn_strategies() {
    obeys_the_kit("openai-chat");
}

#[test]
fn anthropic_files_obey_the_kit_under_drawn_strategies() {
    obeys_the_kit("anthropic-messages");
}

#[test]
fn claude_code_files_obey_the_kit_under_drawn_strategies() {
    obeys_the_kit("claude-code");
}

/// So many transcripts of a file are drawn for: the others of a file are much like them.
const OF_A_FILE: usize = 12;

#[test]
fn files_of_other_formats_obey_the_kit_under_drawn_strategies() {
    for folder in others() {
        obeys_the_kit_in(&folder, OF_A_FILE);
    }
}

#[test]
fn files_of_other_formats_obey_every_law_under_every_strategy() {
    for folder in others() {
        imports_under_every_strategy(&folder);
    }
}

#[test]
fn openai_chat_files_obey_every_law_under_every_strategy() {
    imports_under_every_strategy("openai-chat");
}

#[test]
fn anthropic_files_obey_every_law_under_every_strategy() {
    imports_under_every_strategy("anthropic-messages");
}

#[test]
fn claude_code_files_obey_every_law_under_every_strategy() {
    imports_under_every_strategy("claude-code");
}

/// A record's messages, history and answer, read as plain JSON.
fn source_messages(record: &Value) -> Vec<Value> {
    let list = |v: &Value| v.as_array().cloned();
    let history = record
        .pointer("/request/messages")
        .and_then(list)
        .or_else(|| record.get("traj").and_then(list))
        .or_else(|| record.get("messages").and_then(list))
        .unwrap_or_default();
    let response = record.get("response").unwrap_or(&Value::Null);
    let chat = response.pointer("/choices/0/message").cloned();
    let block = response
        .get("content")
        .filter(|_| response.get("role").is_some())
        .map(|content| serde_json::json!({ "role": response["role"], "content": content }));
    history.into_iter().chain(chat.or(block)).collect()
}

fn gives_the_source_back(folder: &str) {
    for file in files(folder) {
        let bytes = std::fs::read(&file).unwrap();
        let values: Vec<Value> = match serde_json::from_slice::<Value>(&bytes) {
            Ok(Value::Array(records)) => records,
            Ok(one) => vec![one],
            Err(_) => bytes
                .split(|b| *b == b'\n')
                .filter(|l| !l.is_empty())
                .map(|l| serde_json::from_slice(l).unwrap())
                .collect(),
        };
        let transcripts = read(&file);
        assert_eq!(values.len(), transcripts.len(), "{}", file.display());
        for (n, (record, transcript)) in values.iter().zip(&transcripts).enumerate() {
            let place = format!("{}#{n}", file.display());
            let chat = imported(transcript, "");
            let head = chat.head().unwrap().unwrap().seq;
            let profile = profile(folder);
            let as_is = rendered(&chat, head, profile, true);
            let source = Value::from(source_messages(record));
            assert_eq!(body(&as_is)["messages"], source, "{place}");
            assert!(as_is.repairs.is_empty(), "{place}: {:?}", as_is.repairs);
            let repaired = rendered(&chat, head, profile, false);
            if hard(profile, &body(&as_is)).is_empty() {
                assert!(
                    repaired.repairs.is_empty(),
                    "{place}: {:?}",
                    repaired.repairs
                );
                assert_eq!(body(&repaired), body(&as_is), "{place}");
            } else {
                assert!(!repaired.repairs.is_empty(), "{place}");
            }
            assert!(hard(profile, &body(&repaired)).is_empty(), "{place}");
        }
    }
}

#[test]
fn openai_chat_files_come_back_as_they_were() {
    gives_the_source_back("openai-chat");
}

#[test]
fn anthropic_files_come_back_as_they_were() {
    gives_the_source_back("anthropic-messages");
}

/// Every JSON value of a session file, glued ones apart.
fn lines(text: &str) -> Vec<Value> {
    let values = |line| serde_json::Deserializer::from_str(line).into_iter::<Value>();
    text.lines()
        .flat_map(|l| values(l).map_while(Result::ok).collect::<Vec<_>>())
        .collect()
}

/// By uuid: the message an export gives for a line, and the messages of the log it became.
fn exported_lines(chats: &[Conversation]) -> Vec<HashMap<String, (Value, Vec<u64>)>> {
    let one = |chat: &Conversation| {
        let mut text = Vec::new();
        export(chat, &mut text).unwrap();
        let mut found: HashMap<String, (Value, Vec<u64>)> = HashMap::new();
        for line in String::from_utf8(text).unwrap().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let contents = match &line["content"] {
                Value::Array(several) => several.clone(),
                one => vec![one.clone()],
            };
            for content in contents {
                if let Some(uuid) = content.pointer("/source/uuid").and_then(Value::as_str) {
                    let slot = found
                        .entry(uuid.to_owned())
                        .or_insert((content["source"]["message"].clone(), Vec::new()));
                    slot.1.push(line["seq"].as_u64().unwrap());
                }
            }
        }
        found
    };
    chats.iter().map(one).collect()
}

#[test]
fn claude_code_lines_are_found_by_their_uuid_with_their_message() {
    let mut compared = 0;
    for file in files("claude-code") {
        let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
        let chats: Vec<_> = read(&file).iter().map(|t| imported(t, "")).collect();
        let found = exported_lines(&chats);
        let mut known = HashSet::new();
        for line in lines(&text).iter().filter(|l| l["message"].is_object()) {
            let Some(uuid) = line["uuid"]
                .as_str()
                .filter(|u| known.insert((*u).to_owned()))
            else {
                continue;
            };
            let place = format!("{} {uuid}", file.display());
            let given = found
                .iter()
                .find_map(|f| f.get(uuid))
                .unwrap_or_else(|| panic!("{place}: not in the export"));
            assert_eq!(given.0, line["message"], "{place}");
            compared += 1;
        }
    }
    println!("{compared} lines");
}

/// The uuids of message lines on the way to a compaction, back to the one before it.
fn path_to(lines: &[Value], boundary: usize) -> Vec<&str> {
    let by_uuid: HashMap<&str, usize> = lines
        .iter()
        .enumerate()
        .rev()
        .filter_map(|(i, l)| Some((l["uuid"].as_str()?, i)))
        .collect();
    let parent = |i: usize, field: &str| {
        lines[i][field]
            .as_str()
            .and_then(|u| by_uuid.get(u))
            .copied()
            .filter(|p| *p < i)
    };
    let same = |i: &usize| {
        lines[*i]["sessionId"] == lines[boundary]["sessionId"] && lines[*i]["isSidechain"] != true
    };
    let mut out = Vec::new();
    let mut at = boundary;
    let next = |i: usize| {
        parent(i, "logicalParentUuid")
            .or_else(|| parent(i, "parentUuid"))
            .or_else(|| (0..i).rev().find(same))
    };
    while let Some(i) = next(at) {
        if lines[i]["isCompactSummary"] == true || lines[i]["subtype"] == "compact_boundary" {
            break;
        }
        if lines[i]["message"].is_object() {
            out.extend(lines[i]["uuid"].as_str());
        }
        at = i;
    }
    out
}

#[test]
fn the_window_before_a_compaction_holds_every_message_on_the_path_to_it() {
    let (mut compactions, mut messages) = (0, 0);
    for file in files("claude-code") {
        let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
        let lines = lines(&text);
        let chats: Vec<_> = read(&file).iter().map(|t| imported(t, "")).collect();
        let found = exported_lines(&chats);
        for (i, line) in lines
            .iter()
            .enumerate()
            .filter(|(_, l)| l["isCompactSummary"] == true)
        {
            let uuid = line["uuid"].as_str().unwrap();
            let at = found.iter().position(|f| f.contains_key(uuid)).unwrap();
            let summary = found[at][uuid].1[0];
            let window = chats[at].window_after(Seq(summary - 1)).unwrap();
            let window: HashSet<u64> = window.items.iter().map(|i| i.id.seq().0).collect();
            let boundary = (0..i)
                .rev()
                .find(|b| lines[*b]["subtype"] == "compact_boundary")
                .unwrap_or(i);
            for uuid in path_to(&lines, boundary) {
                let missing: Vec<_> = found[at][uuid]
                    .1
                    .iter()
                    .filter(|m| !window.contains(m))
                    .collect();
                assert!(
                    missing.is_empty(),
                    "{}: {uuid} is not in the window before {summary}",
                    file.display()
                );
                messages += 1;
            }
            compactions += 1;
        }
    }
    println!("{compactions} compactions, {messages} messages before them");
}
