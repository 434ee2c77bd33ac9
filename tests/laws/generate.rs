//! Conversations nobody would write by hand, and the world they happen in.

use std::ops::ControlFlow;
use std::sync::Arc;

use ctxlog::engine::{Conversation, Error, Options, Seeded, Store};
use ctxlog::log::entry::Sealed;
use ctxlog::log::{
    Author, Block, BlockBody, Entry, Fields, Json, Message, MessageId, Micros, OpenCalls, Part,
    PartBody, RequestReason, Role, Seq, Shape, Usage,
};
use ctxlog::store::{Backend, MemoryStore};
use ctxlog::strategy;
use proptest::collection::vec;
use proptest::prelude::*;

/// Words of every kind that broke someone.
const WORDS: &[&str] = &[
    "",
    "   \n",
    "Where is order 4411?",
    "ok",
    "👩‍👩‍👧‍👦🧑🏽‍🚀",
    "漢字かな交じり文と한글",
    "\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}",
    "[dropped history — 3 earlier message(s)]",
    "{\"status\": \"pending\"}",
    "\u{feff}\u{202e}rtl\u{0}",
];

#[derive(Clone, Copy, Debug)]
pub struct Words(pub usize);

impl Words {
    pub fn text(self) -> String {
        match self.0 {
            n if n < WORDS.len() => WORDS[n].to_owned(),
            n if n == WORDS.len() => "long ".repeat(900),
            _ => "large🙂".repeat(7_000),
        }
    }
}

pub fn words() -> impl Strategy<Value = Words> {
    prop_oneof![30 => 0..WORDS.len(), 3 => Just(WORDS.len()), 1 => Just(WORDS.len() + 1)]
        .prop_map(Words)
}

/// How a script's tool calls are named.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ids {
    One,
    PerTurn,
    Unique,
    Absent,
}

#[derive(Clone, Debug)]
pub enum Op {
    Say(Role, Author, Words),
    Nothing(Author),
    Reason(bool),
    Calls {
        count: usize,
        words: Option<Words>,
    },
    Continue {
        call: bool,
    },
    /// Results of calls counted back from the newest.
    Results {
        back: Vec<usize>,
        interim: bool,
        words: Option<Words>,
        out: Words,
    },
    Unknown,
    Native {
        answered: bool,
    },
    Call {
        usage: Option<u64>,
        failed: bool,
    },
    Settings(usize),
    Restore(usize),
    Undo(usize),
    Reopen,
    Note,
}

pub fn say() -> impl Strategy<Value = Op> {
    let who = prop_oneof![
        4 => Just((Role::User, Author::Person)), 4 => Just((Role::Assistant, Author::Model)),
        1 => Just((Role::System, Author::Application)), 1 => Just((Role::Developer, Author::Application)),
        1 => Just((Role::User, Author::Application)),
    ];
    (who, words()).prop_map(|((role, author), words)| Op::Say(role, author, words))
}

pub fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => say(),
        1 => prop_oneof![Just(Author::Model), Just(Author::Person), Just(Author::Tool)].prop_map(Op::Nothing),
        1 => any::<bool>().prop_map(Op::Reason),
        8 => (1..=8_usize, proptest::option::of(words())).prop_map(|(count, words)| Op::Calls { count, words }),
        1 => any::<bool>().prop_map(|call| Op::Continue { call }),
        9 => (vec(0..10_usize, 1..6), prop::bool::weighted(0.2), proptest::option::weighted(0.2, words()), words())
            .prop_map(|(back, interim, words, out)| Op::Results { back, interim, words, out }),
        1 => Just(Op::Unknown),
        1 => any::<bool>().prop_map(|answered| Op::Native { answered }),
        10 => (proptest::option::of(0..4_000_u64), prop::bool::weighted(0.1)).prop_map(|(usage, failed)| Op::Call { usage, failed }),
        1 => (0..3_usize).prop_map(Op::Settings),
        3 => any::<usize>().prop_map(Op::Restore),
        3 => any::<usize>().prop_map(Op::Undo),
        1 => Just(Op::Reopen),
        1 => Just(Op::Note),
    ]
}

pub fn spec() -> impl Strategy<Value = String> {
    let unit = prop_oneof![Just("group"), Just("message"), Just("request")];
    prop_oneof![
        (1..6_u64, unit.clone()).prop_map(|(k, u)| format!("sliding-window:keep={k},unit={u}")),
        (1..6_u64, 0..3_u64, unit)
            .prop_map(|(w, h, u)| format!("head-tail:window={w},head={h},unit={u}")),
        (
            1..2_000_u64,
            1..=10_u64,
            0..5_u64,
            prop_oneof![
                Just("auto"),
                Just("reported"),
                Just("estimate"),
                Just("tiktoken")
            ]
        )
            .prop_map(|(l, low, k, m)| format!(
                "token-budget:limit={l},low={},keep={k},measure={m}",
                low as f64 / 10.0
            )),
    ]
}

/// A conversation: strategies, how ids are given, what happens to open calls, what is done, when.
#[derive(Clone, Debug)]
pub struct Script {
    pub chain: Vec<String>,
    pub ids: Ids,
    pub policy: OpenCalls,
    pub ops: Vec<Op>,
    pub times: Vec<i64>,
}

pub fn script() -> impl Strategy<Value = Script> {
    let ids = prop_oneof![
        Just(Ids::One),
        Just(Ids::PerTurn),
        Just(Ids::Unique),
        Just(Ids::Absent)
    ];
    let policy = prop_oneof![6 => Just(OpenCalls::Close), 1 => Just(OpenCalls::Refuse), 1 => Just(OpenCalls::Keep)];
    let times = prop_oneof![
        Just(vec![7]),
        Just(vec![90, 80, 70, 60, 50]),
        vec(-5..5_i64, 5)
    ];
    // Whole shapes that a mixture would hardly ever give.
    let only = |role: Role, author: Author| {
        vec(
            words().prop_map(move |w| Op::Say(role.clone(), author, w)),
            1..8,
        )
    };
    let ops = prop_oneof![
        20 => vec(op(), 1..40),
        1 => only(Role::System, Author::Application),
        1 => only(Role::Assistant, Author::Model),
        1 => only(Role::Tool, Author::Tool),
    ];
    let ops = (
        ops,
        vec(
            Just(Op::Call {
                usage: None,
                failed: false,
            }),
            1..3,
        ),
    )
        .prop_map(|(mut ops, calls)| {
            ops.extend(calls);
            ops
        });
    (vec(spec(), 0..=2), ids, policy, ops, times).prop_map(|(chain, ids, policy, ops, times)| {
        Script {
            chain,
            ids,
            policy,
            ops,
            times,
        }
    })
}

/// A store, a conversation in it, and what the test remembers of its calls.
pub struct World {
    pub backend: Arc<MemoryStore>,
    pub store: Store,
    pub chat: Conversation,
    name: String,
    environment: Arc<Seeded>,
    ids: Ids,
    calls: Vec<(Option<String>, String)>,
    done: usize,
    times: Vec<i64>,
}

impl World {
    pub fn new(script: &Script) -> Self {
        Self::named("a", script, Arc::new(MemoryStore::new()), 1)
    }

    pub fn named(name: &str, script: &Script, backend: Arc<MemoryStore>, seed: u64) -> Self {
        let environment = Arc::new(Seeded::new(seed, Micros(0)));
        let store = Store::on(Arc::clone(&backend) as Arc<dyn Backend>)
            .with_environment(environment.clone());
        let chat = store
            .conversation(name)
            .unwrap()
            .with_open_calls(script.policy)
            .unwrap();
        let chain = script
            .chain
            .iter()
            .map(|s| strategy::parse(s).unwrap())
            .collect();
        let chat = chat.with_strategies(chain).unwrap();
        let times = script.times.clone();
        Self {
            backend,
            store,
            chat,
            name: name.to_owned(),
            environment,
            ids: script.ids,
            calls: Vec::new(),
            done: 0,
            times,
        }
    }

    pub fn run(script: &Script) -> Self {
        let mut world = Self::new(script);
        script.ops.iter().for_each(|op| world.perform(op));
        world
    }

    /// Does one thing. A refusal writes nothing; anything but a refusal fails the test.
    pub fn perform(&mut self, op: &Op) {
        let before = self.chat.head().unwrap();
        match self.attempt(op) {
            Ok(()) => {}
            Err(Error::Refused(refusal)) => {
                assert!(
                    !refusal.help.is_empty() && !refusal.detail.is_empty(),
                    "{refusal:?}"
                );
                assert_eq!(
                    self.chat.head().unwrap(),
                    before,
                    "{refusal:?} wrote something"
                );
            }
            Err(error) => panic!("{op:?}: {error}"),
        }
        self.done += 1;
    }

    pub fn options(&self) -> Options {
        let at = self.times[self.done % self.times.len()];
        Options {
            at: Some(Micros(at * 1_000_000)),
            ..Options::default()
        }
    }

    pub fn append(&self, message: Message) -> Result<MessageId, Error> {
        self.chat
            .append_with(message, &self.options())
            .map(|a| a.message())
    }

    fn attempt(&mut self, op: &Op) -> Result<(), Error> {
        match op {
            Op::Say(role, author, words) => {
                self.append(Message::new(
                    role.clone(),
                    *author,
                    vec![Part::text(words.text())],
                ))?;
            }
            Op::Nothing(author) => {
                let role = if *author == Author::Person {
                    Role::User
                } else {
                    Role::Assistant
                };
                self.append(Message::new(role, *author, Vec::new()))?;
            }
            Op::Reason(signed) => {
                let signature = signed.then(|| "c2ln".to_owned());
                let body = PartBody::Reasoning {
                    text: "Let me think.".into(),
                    signature,
                    encrypted: None,
                };
                let part = Part {
                    body,
                    extra: Fields::new(),
                };
                self.append(Message::new(Role::Assistant, Author::Model, vec![part]))?;
            }
            Op::Calls { count, words } => self.calls(*count, *words)?,
            Op::Continue { call } => self.continues(*call)?,
            Op::Results {
                back,
                interim,
                words,
                out,
            } => self.results(back, *interim, *words, *out)?,
            Op::Unknown => {
                self.append(Message::tool("never-called", "late"))?;
            }
            Op::Native { answered } => self.native(*answered)?,
            Op::Call { usage, failed } => self.call(*usage, *failed)?,
            Op::Settings(size) => {
                let text = format!("{{\"system\":\"{}\"}}", "tools ".repeat(size * 400));
                self.chat
                    .set_request("openai-chat", Some("m"), &Json(text))?;
            }
            Op::Restore(n) => {
                if let Some(id) = self.pick_message(*n) {
                    self.chat.restore(id)?;
                }
            }
            Op::Undo(n) => {
                let head = self.chat.head()?.map_or(0, |h| h.seq.0);
                // Towards the head: that is where there is something to undo.
                let back = *n as u64 % (head + 1).min(12);
                self.chat.undo(Seq(head - back))?;
            }
            Op::Reopen => self.reopen(),
            Op::Note => {
                self.chat.note("seen", Some(&Json("{\"x\":1}".into())))?;
            }
        }
        Ok(())
    }

    pub fn reopen(&mut self) {
        let backend = Arc::clone(&self.backend) as Arc<dyn Backend>;
        self.store = Store::on(backend).with_environment(self.environment.clone());
        self.chat = self.store.existing(&self.name).unwrap();
    }

    fn label(&self, position: usize) -> Option<String> {
        match self.ids {
            Ids::One => Some("c".to_owned()),
            Ids::PerTurn => Some(format!("call_{position}")),
            Ids::Unique => Some(format!("call-{}", self.calls.len() + position)),
            Ids::Absent => None,
        }
    }

    fn new_calls(&mut self, count: usize) -> Vec<Part> {
        let calls: Vec<_> = (0..count)
            .map(|i| (self.label(i), format!("tool{}", i % 3)))
            .collect();
        let part = |(id, name): &(Option<String>, String)| Part {
            body: PartBody::Call {
                id: id.clone(),
                name: name.clone(),
                arguments: "{}".into(),
                native: None,
            },
            extra: Fields::new(),
        };
        let parts = calls.iter().map(part).collect();
        self.calls.extend(calls);
        parts
    }

    fn calls(&mut self, count: usize, words: Option<Words>) -> Result<(), Error> {
        let mut parts: Vec<Part> = words.iter().map(|w| Part::text(w.text())).collect();
        parts.extend(self.new_calls(count));
        self.append(Message::calls(parts)).map(|_| ())
    }

    fn continues(&mut self, call: bool) -> Result<(), Error> {
        let newest = self.chat.with_projection(|p| {
            p.messages()
                .iter()
                .rev()
                .find(|m| m.author() == Author::Model)
                .map(|m| m.id)
        })?;
        let parts = if call {
            self.new_calls(1)
        } else {
            vec![Part::text("and so on")]
        };
        let options = Options {
            continues: newest,
            ..self.options()
        };
        self.chat
            .append_with(Message::calls(parts), &options)
            .map(|_| ())
    }

    fn results(
        &self,
        back: &[usize],
        interim: bool,
        words: Option<Words>,
        out: Words,
    ) -> Result<(), Error> {
        let picked: Vec<_> = back
            .iter()
            .filter_map(|b| self.calls.len().checked_sub(b + 1))
            .map(|i| &self.calls[i])
            .collect();
        if picked.is_empty() {
            return Ok(());
        }
        let mut parts: Vec<Part> = picked
            .into_iter()
            .map(|(id, name)| result(id.as_deref(), name, interim, &out.text()))
            .collect();
        let author = if words.is_some() {
            Author::Person
        } else {
            Author::Tool
        };
        let role = if words.is_some() {
            Role::User
        } else {
            Role::Tool
        };
        parts.extend(words.map(|w| Part::text(w.text())));
        self.append(Message::new(role, author, parts)).map(|_| ())
    }

    fn native(&self, answered: bool) -> Result<(), Error> {
        let native = Some("server_tool_use".to_owned());
        let call = PartBody::Call {
            id: Some("srv".into()),
            name: "search".into(),
            arguments: "{}".into(),
            native,
        };
        let kind = "web_search_tool_result".to_owned();
        let block = format!("{{\"type\":\"{kind}\",\"tool_use_id\":\"srv\",\"content\":[]}}");
        let found = PartBody::Result {
            call: Some("srv".into()),
            name: None,
            content: vec![Block {
                body: BlockBody::Opaque(kind.clone(), Json(block)),
                extra: Fields::new(),
            }],
            shape: Shape::List,
            error: None,
            interim: false,
            native: Some(kind),
        };
        let mut parts = vec![Part {
            body: call,
            extra: Fields::new(),
        }];
        if answered {
            parts.push(Part {
                body: found,
                extra: Fields::new(),
            });
        }
        self.append(Message::calls(parts)).map(|_| ())
    }

    fn call(&self, usage: Option<u64>, failed: bool) -> Result<(), Error> {
        let call = self.chat.call_with(&self.options(), Some("m"))?;
        let usage = usage.map(|input| Usage {
            input: Some(input),
            ..Usage::default()
        });
        if failed || usage.is_some() {
            self.chat
                .report(call.id, usage, failed.then_some("overloaded"), None)?;
        }
        Ok(())
    }

    fn pick_message(&self, n: usize) -> Option<MessageId> {
        self.chat
            .with_projection(|p| {
                let absent: Vec<_> = p
                    .messages()
                    .iter()
                    .filter(|m| !m.visible())
                    .map(|m| m.id)
                    .collect();
                let all = if absent.is_empty() || n % 7 == 0 {
                    p.messages().iter().map(|m| m.id).collect()
                } else {
                    absent
                };
                (!all.is_empty()).then(|| all[n % all.len()])
            })
            .unwrap()
    }

    pub fn sealed(&self) -> Vec<Sealed> {
        let head = self.chat.head().unwrap().unwrap().seq;
        let mut out = Vec::new();
        self.store
            .entries(self.chat.id(), Seq(0), head, &mut |s| {
                out.push(s);
                ControlFlow::Continue(())
            })
            .unwrap();
        out
    }

    pub fn entries(&self) -> Vec<Entry> {
        self.sealed().into_iter().map(|s| s.entry).collect()
    }
}

pub fn result(id: Option<&str>, name: &str, interim: bool, text: &str) -> Part {
    let content = vec![Block {
        body: BlockBody::Text(text.to_owned()),
        extra: Fields::new(),
    }];
    let body = PartBody::Result {
        call: id.map(str::to_owned),
        name: Some(name.to_owned()),
        content,
        shape: Shape::Text,
        error: None,
        interim,
        native: None,
    };
    Part {
        body,
        extra: Fields::new(),
    }
}

/// Whether an error is a refusal for this reason.
pub fn refused(error: &Error, reason: RequestReason) -> bool {
    error.refusal().is_some_and(|r| r.reason == reason)
}
