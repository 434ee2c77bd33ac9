//! What the tests of shapes share: every strategy at every limit, what must hold of any log
//! whatever was done to it, and logs made from a source's steps.

use ctxlog::audit::{export, import_lines, verify};
use ctxlog::engine::{Conversation, Store, SummarizeError, Summarizer, Summary};
use ctxlog::formats::input::pieces;
use ctxlog::formats::{Link, Profile, Step, Transcript, anthropic, claude_code, lint};
use ctxlog::log::{
    Author, Body, Entry, Message, MessageId, Part, PartBody, Role, Seq, VisitOutcome,
};
use ctxlog::strategy::Prompt;
use ctxlog::window::{Conservation, Window};
use serde_json::Value;

use crate::talk::message;

/// Every strategy that drops something, at every limit that matters for a conversation of a few
/// short messages.
pub fn every_cut() -> Vec<String> {
    let mut specs = Vec::new();
    for keep in 1..=8 {
        for unit in ["group", "message", "request"] {
            specs.push(format!("sliding-window:keep={keep},unit={unit}"));
        }
        for head in [0, 1] {
            specs.push(format!("head-tail:window={keep},head={head}"));
        }
    }
    for limit in 1..=12 {
        for keep in [0, 1, 3] {
            let budget = format!("token-budget:limit={limit},keep={keep},measure=estimate");
            specs.push(budget);
        }
    }
    specs.push("head-tail:window=6;sliding-window:keep=3".to_owned());
    for keep in 1..=4 {
        specs.push(format!(
            "sliding-window:keep={keep},pin-results=2,notice=auto"
        ));
    }
    specs
}

/// What must hold of a conversation whatever was done to it: its log verifies; in the windows that
/// its calls were sent, and in the one now, every result has its call and every answered call its
/// results; each renders legally for every provider.
pub fn sound(chat: &Conversation) {
    intact(chat);
    let sent = chat.with_projection(|p| p.sent().to_vec()).unwrap();
    for call in sent {
        sound_window(chat, &chat.window_after(call.fact.seq).unwrap());
    }
    sound_window(chat, &chat.window().unwrap());
}

/// The log verifies.
pub fn intact(chat: &Conversation) {
    let listed = chat.store().list().unwrap();
    let listed = listed.iter().find(|l| l.conversation == chat.id()).unwrap();
    let verified = verify(chat.store(), listed, &mut |_, _| {}).unwrap();
    assert_eq!(verified.problems, Vec::<String>::new());
    assert!(verified.ok);
}

fn sound_window(chat: &Conversation, window: &Window) {
    let loaded = chat.load(window.clone()).unwrap();
    for item in &loaded.items {
        for call in item.answers.iter().flatten() {
            let held = window.contains(MessageId(call.0));
            assert!(held, "{} without its call, {}", item.id, call.0);
        }
        for (part, n) in item.message.parts.iter().zip(0..) {
            if matches!(part.body, PartBody::Call { .. }) {
                answered(chat, window, item.id, n);
            }
        }
    }
    for &profile in Profile::ALL {
        let rendered = loaded.render(profile, false);
        let problems = hard_problems(profile, &rendered.body);
        assert!(problems.is_empty(), "{problems:?} in {}", rendered.body);
    }
}

/// A call of a window has the result there that was logged by then.
fn answered(chat: &Conversation, window: &Window, id: MessageId, part: u32) {
    let info = chat
        .with_projection(|p| p.call_part(id.seq(), part).cloned())
        .unwrap()
        .unwrap();
    if let Some((result, _)) = info.result.filter(|(seq, _)| Some(*seq) <= window.at) {
        assert!(window.contains(MessageId(result)), "{id} without {result}");
    }
}

/// The rules of a provider that a body breaks and would be refused for.
pub fn hard_problems(profile: Profile, body: &str) -> Vec<String> {
    let body = serde_json::from_str(body).unwrap();
    let problems = lint::lint(profile, &body).into_iter();
    let hard = problems.filter(|p| p.hard);
    hard.map(|p| format!("{}: {}", p.rule, p.message)).collect()
}

/// The profiles whose messages these shapes look into. That windows are legal for every profile is a law of
/// the kit.
pub const PROFILES: &[Profile] = &[Profile::OpenAiChat, Profile::Anthropic];

/// The messages of the body for the window now, and the rules that rendering repaired.
pub fn sends(chat: &Conversation, profile: Profile) -> (Vec<Value>, Vec<&'static str>) {
    let rendered = chat.render(&chat.window().unwrap(), profile).unwrap();
    let problems = hard_problems(profile, &rendered.body);
    assert!(problems.is_empty(), "{problems:?} in {}", rendered.body);
    let mut body: Value = serde_json::from_str(&rendered.body).unwrap();
    let messages = body["messages"].as_array_mut().unwrap();
    let repairs = rendered.repairs.iter().map(|r| r.rule).collect();
    (std::mem::take(messages), repairs)
}

/// The blocks of a body's messages, each with its message's role; what is no list is one block.
pub fn blocks(messages: &[Value]) -> Vec<(&str, &Value)> {
    messages
        .iter()
        .flat_map(|m| {
            let role = m["role"].as_str().unwrap();
            let content = match &m["content"] {
                Value::Array(list) => list.iter().collect(),
                whole => vec![whole],
            };
            content.into_iter().map(move |block| (role, block))
        })
        .collect()
}

/// A step of a source that says a message.
pub fn says(message: Message) -> Step {
    Step::Message {
        message,
        at: None,
        link: Link::None,
    }
}

/// The steps of a source that says a message a word.
pub fn steps(words: &str) -> Vec<Step> {
    let words = words.split_whitespace();
    words.map(|w| says(message(w))).collect()
}

/// A step of a source that replaced all before it by a summary in the user's role.
pub fn compacts() -> Step {
    compacts_to(Role::User, vec![Part::text("so far")])
}

/// A step of a source that replaced all before it by these parts.
pub fn compacts_to(role: Role, parts: Vec<Part>) -> Step {
    Step::Compacted {
        summary: Message::new(role, Author::Application, parts),
        rest: Vec::new(),
        at: None,
    }
}

/// A step of a source that called the model.
pub fn calls() -> Step {
    Step::Called {
        model: None,
        at: None,
    }
}

/// The log of a source's steps.
pub fn imported(steps: Vec<Step>) -> Conversation {
    let store = Store::in_memory();
    import_into(&store, steps);
    store.existing("a").unwrap()
}

/// Imports steps, or what is new of them, as conversation `a`; says how many entries that added.
pub fn import_into(store: &Store, steps: Vec<Step>) -> u64 {
    let transcript = Transcript {
        format: "claude-code",
        id: None,
        steps,
        ..Transcript::default()
    };
    let imported = store.import("a", &transcript, Vec::new(), &mut |_| {});
    imported.unwrap().added
}

/// The summaries of a log, oldest first.
pub fn claims(chat: &Conversation) -> Vec<MessageId> {
    chat.with_projection(|p| {
        let claims = p.messages().iter().filter(|m| m.stands_for.is_some());
        claims.map(|m| m.id).collect()
    })
    .unwrap()
}

/// The messages of the window now.
pub fn view(chat: &Conversation) -> Vec<MessageId> {
    let window = chat.window().unwrap();
    window.items.iter().map(|i| i.id).collect()
}

/// What became of a message.
pub fn fate(chat: &Conversation, id: MessageId) -> Conservation {
    chat.with_projection(|p| p.conservation(id))
        .unwrap()
        .unwrap()
}

/// All messages of a log.
pub fn logged(chat: &Conversation) -> Vec<MessageId> {
    chat.with_projection(|p| p.messages().iter().map(|m| m.id).collect())
        .unwrap()
}

/// The words of a message as they are now.
pub fn words(chat: &Conversation, id: MessageId) -> String {
    let head = chat.head().unwrap().unwrap().seq;
    let said = chat.message_at(id, head).unwrap();
    said.into_message(Role::User, Author::Engine).words()
}

/// The entries of a log.
pub fn entries(chat: &Conversation) -> Vec<Entry> {
    let head = chat.head().unwrap().unwrap().seq;
    (0..=head.0).map(|n| chat.entry(Seq(n)).unwrap()).collect()
}

/// How every visit of a log ended, with its shortfall.
pub fn outcomes(chat: &Conversation) -> Vec<(VisitOutcome, Option<u64>)> {
    let visits = entries(chat).into_iter().filter_map(|e| match e.body {
        Body::Visited(v) => Some((v.outcome, v.shortfall)),
        _ => None,
    });
    visits.collect()
}

/// The log as lines of an export.
pub fn exported(chat: &Conversation) -> String {
    let mut out = Vec::new();
    export(chat, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The same log, from its export, in another store.
pub fn taken_elsewhere(chat: &Conversation) -> Conversation {
    let text = exported(chat);
    let mut lines = text.lines().map(|l| Ok(l.to_owned()));
    import_lines(&Store::in_memory(), &mut lines, None)
        .unwrap()
        .0
}

/// Bytes of a log's entries and payloads as stored, media that lie apart not included.
pub fn stored_bytes(chat: &Conversation) -> usize {
    let backend = chat.store().backend();
    entries(chat)
        .iter()
        .map(|entry| {
            let contents = entry.body.commitments().len() as u32;
            let payloads = (0..contents)
                .filter_map(|n| backend.payload(chat.id(), entry.seq, n).unwrap())
                .map(|p| p.bytes.len() + p.salt.len());
            payloads.sum::<usize>() + stored(chat, entry.seq).len()
        })
        .sum()
}

/// An entry's stored bytes.
pub fn stored(chat: &Conversation, seq: Seq) -> Vec<u8> {
    let mut found = Vec::new();
    let mut show = |_, bytes: &[u8]| {
        found = bytes.to_vec();
        std::ops::ControlFlow::Continue(())
    };
    let backend = chat.store().backend();
    backend.entries(chat.id(), seq, seq, &mut show).unwrap();
    found
}

/// The log of a Claude Code session: a line for each (role, uuid, uuid of the line before).
pub fn session(lines: &[(&str, String, String)]) -> Conversation {
    let line = |(role, uuid, parent): &(&str, String, String)| {
        let content = serde_json::json!([{"type": "text", "text": uuid}]);
        let message = serde_json::json!({"id": uuid, "role": role, "content": content});
        let parent = (!parent.is_empty()).then_some(parent);
        let line = serde_json::json!({
            "type": role, "uuid": uuid, "parentUuid": parent, "isSidechain": false,
            "sessionId": "s", "timestamp": "2026-01-01T00:00:00.001Z", "message": message,
        });
        format!("{line}\n")
    };
    let text: String = lines.iter().map(line).collect();
    let read = claude_code::read(text.as_bytes(), "f", 1 << 20).unwrap();
    assert_eq!(read.len(), 1, "one conversation");
    let store = Store::in_memory();
    let imported = store.import("a", &read[0], Vec::new(), &mut |_| {});
    imported.unwrap();
    store.existing("a").unwrap()
}

/// A message as Anthropic writes it.
pub fn read_anthropic(message: &str) -> Message {
    let cut = pieces(message.as_bytes(), "f", 1 << 30).map(Result::unwrap);
    let transcripts = anthropic::read(cut);
    let message = transcripts[0].steps.iter().find_map(|s| match s {
        Step::Message { message, .. } => Some(message.clone()),
        _ => None,
    });
    message.unwrap()
}

/// A summariser that says this.
#[derive(Debug)]
pub struct Says(pub &'static str);

impl Summarizer for Says {
    fn name(&self) -> String {
        "says".into()
    }

    fn summarize(&self, _: &Prompt) -> Result<Summary, SummarizeError> {
        Ok(Summary::new(self.0))
    }
}
