//! The world a script happens in: a store, a conversation in it, and what was seen on the way.

mod forked;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::make_room::MakeRoom;
use super::script::{Ids, Op, Said, Script, Words, model_of, settings};
use super::summaries::Scripted;
use crate::audit::{SelectError, Span};
use crate::engine::{Content, Conversation, Error, Options, Redact, Replacement, Seeded, Store};
use crate::formats::Transcript;
use crate::log::entry::Sealed;
use crate::log::{
    Author, Block, BlockBody, Entry, Fields, Hash, Json, Media, Message, MessageId, Micros, Part,
    PartBody, RequestReason, Role, Seq, Shape, Skeleton, Usage,
};
use crate::store::{Backend, Listed, MemoryStore};
use crate::strategy::{self, SlidingWindow, Strategy};
use crate::tokens::Encoding;
use crate::window::{Pace, Projection, Window};

/// Anything that kept a check from its answer, or that is the answer.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The only conversation of a world, unless it is given a name.
const NAME: &str = "a";

/// An operation with its picks made: what exactly is asked of the engine.
#[derive(Clone, PartialEq, Debug)]
pub enum Request {
    /// A message is appended.
    Append(Message, Box<Options>),
    /// A call is filed; usage or a failure is reported for it.
    Call {
        /// Options of the call.
        options: Box<Options>,
        /// Input tokens reported.
        usage: Option<u64>,
        /// Whether it failed.
        failed: bool,
    },
    /// The strategies look on demand.
    Visit(Box<Options>),
    /// Request settings are put in force.
    Settings(Json),
    /// A message is restored.
    Restore(MessageId),
    /// An entry is undone.
    Undo(Seq),
    /// A message is pinned.
    Pin(MessageId),
    /// A pin is taken away.
    Unpin(MessageId),
    /// Messages of the window are replaced.
    Replace(Box<Replacement>, Message),
    /// A replacement is asked for.
    Ask(Box<Replacement>),
    /// The content of a replacement that was asked for.
    Asked(Seq, Message),
    /// Messages are cleared; `None`: all that may leave.
    Clear(Option<Vec<MessageId>>),
    /// A message is recalled.
    Recall(MessageId),
    /// Other strategies are asked for.
    Strategies(Vec<Arc<dyn Strategy>>),
    /// The window after an entry is asked for.
    Window(Seq),
    /// A range of entries is asked for, by its two ends.
    Range(String),
    /// The conversation is forked, and goes on as the fork, under these strategies.
    Fork {
        /// After which entry.
        at: Seq,
        /// Whether open calls are answered as interrupted.
        close: bool,
        /// Under which name.
        name: String,
        /// The strategies by their specs.
        specs: Vec<String>,
    },
    /// Words are destroyed.
    Redact(Redact),
    /// The store is opened anew.
    Reopen,
    /// The application notes something.
    Note,
}

impl PartialEq for dyn Strategy {
    fn eq(&self, other: &Self) -> bool {
        self.spec() == other.spec()
    }
}

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It was done.
    Done,
    /// It was refused, and nothing was written.
    Refused(RequestReason),
}

/// A store, a conversation in it, and what is remembered of its tool calls.
#[derive(Debug)]
pub struct World {
    /// Where the bytes are.
    pub backend: Arc<dyn Backend>,
    /// The engine over it.
    pub store: Store,
    /// The conversation.
    pub chat: Conversation,
    /// Requests that were refused, by reason.
    pub refused: BTreeMap<RequestReason, u64>,
    /// The window after each operation, as it was shown then.
    pub shown: Vec<Window>,
    /// Every call with the digest of the window it was given.
    pub sent: Vec<(Seq, Hash)>,
    /// Who writes summaries.
    pub summaries: Scripted,
    name: String,
    chain: Vec<Arc<dyn Strategy>>,
    environment: Arc<Seeded>,
    ids: Ids,
    times: Vec<i64>,
    calls: Vec<(Option<String>, String)>,
    done: usize,
    /// What the names of its forks are made of, so that no other world in the store has them.
    seed: u64,
    forks: usize,
}

/// A store whose summaries this one writes.
fn summarized(
    backend: &Arc<dyn Backend>,
    environment: &Arc<Seeded>,
    summaries: &Scripted,
) -> Store {
    Store::on(Arc::clone(backend))
        .with_environment(environment.clone())
        .with_summarizer(summaries.clone())
}

/// The strategies of a script: by spec one of `own`, else the kit's, else one that ctxlog brings.
pub(super) fn chain(
    script: &Script,
    own: &[Arc<dyn Strategy>],
) -> Result<Vec<Arc<dyn Strategy>>, Failure> {
    let resolve = |spec: &String| -> Result<Arc<dyn Strategy>, Failure> {
        if let Some(strategy) = own.iter().find(|s| s.spec() == *spec) {
            return Ok(Arc::clone(strategy));
        }
        match MakeRoom::named(spec) {
            Some(strategy) => Ok(Arc::new(strategy)),
            None => Ok(strategy::parse(spec)?),
        }
    };
    script.chain.iter().map(resolve).collect()
}

impl World {
    /// An empty conversation in memory, with a script's strategies and ways, and nothing done.
    ///
    /// # Errors
    /// When a strategy is unknown or impossible.
    pub fn new(script: &Script, own: &[Arc<dyn Strategy>]) -> Result<Self, Failure> {
        Self::on(Arc::new(MemoryStore::new()), NAME, script, own, 1)
    }

    /// A conversation of this name on a backend; made there if it does not exist. The seed gives ids
    /// and salts.
    ///
    /// # Errors
    /// When a strategy is unknown or impossible, or the backend fails.
    pub fn on(
        backend: Arc<dyn Backend>,
        name: &str,
        script: &Script,
        own: &[Arc<dyn Strategy>],
        seed: u64,
    ) -> Result<Self, Failure> {
        let environment = Arc::new(Seeded::new(seed, Micros(0)));
        let summaries = Scripted::default();
        let store = summarized(&backend, &environment, &summaries);
        let chain = chain(script, own)?;
        let chat = store
            .conversation(name)?
            .with_open_calls(script.open_calls)?
            .with_strategies(chain.clone())?;
        Ok(Self {
            backend,
            store,
            chat,
            refused: BTreeMap::new(),
            shown: Vec::new(),
            sent: Vec::new(),
            summaries,
            name: name.to_owned(),
            chain,
            environment,
            ids: script.ids,
            times: script.times.clone(),
            calls: Vec::new(),
            done: 0,
            seed,
            forks: 0,
        })
    }

    /// A script done from beginning to end, in memory.
    ///
    /// # Errors
    /// When an operation fails, which is another thing than being refused.
    pub fn run(script: &Script, own: &[Arc<dyn Strategy>]) -> Result<Self, Failure> {
        let mut world = Self::new(script, own)?;
        world.perform_all(&script.ops)?;
        Ok(world)
    }

    /// A source with compactions, cleared results and branches that were left, taken in as it was,
    /// and then gone on with.
    ///
    /// # Errors
    /// As [`World::run`]; also when importing it again adds something.
    pub fn run_imported(
        source: &[Said],
        script: &Script,
        own: &[Arc<dyn Strategy>],
    ) -> Result<Self, Failure> {
        let mut world = Self::imported(source, script, own)?;
        world.perform_all(&script.ops)?;
        Ok(world)
    }

    /// The source alone.
    pub(super) fn imported(
        source: &[Said],
        script: &Script,
        own: &[Arc<dyn Strategy>],
    ) -> Result<Self, Failure> {
        let backend: Arc<dyn Backend> = Arc::new(MemoryStore::new());
        let environment = Arc::new(Seeded::new(1, Micros(0)));
        let store = Store::on(Arc::clone(&backend)).with_environment(environment);
        let transcript = Transcript {
            format: "claude-code",
            id: None,
            steps: source.iter().map(Said::step).collect(),
            ..Transcript::default()
        };
        let take = || store.import(NAME, &transcript, Vec::new(), &mut |_| {});
        take()?;
        if take()?.added != 0 {
            return Err("importing the same transcript again added entries".into());
        }
        let mut world = Self::on(backend, NAME, script, own, 2)?;
        let calls = source.iter().filter_map(|said| match said {
            Said::Calls(ids) => Some(ids),
            _ => None,
        });
        let named = |i: &usize| (Some(format!("t{i}")), "tool".to_owned());
        world.calls.extend(calls.flatten().map(named));
        Ok(world)
    }

    /// A transcript replayed through the script's strategies, call by call, and then gone on with.
    ///
    /// # Errors
    /// As [`World::run`].
    pub fn run_replayed(
        transcript: &Transcript,
        script: &Script,
        own: &[Arc<dyn Strategy>],
    ) -> Result<Self, Failure> {
        let mut world = Self::replayed(transcript, script, own)?;
        world.perform_all(&script.ops)?;
        Ok(world)
    }

    /// The transcript alone.
    pub(super) fn replayed(
        transcript: &Transcript,
        script: &Script,
        own: &[Arc<dyn Strategy>],
    ) -> Result<Self, Failure> {
        let backend: Arc<dyn Backend> = Arc::new(MemoryStore::new());
        let environment = Arc::new(Seeded::new(1, Micros(0)));
        let store = summarized(&backend, &environment, &Scripted::default());
        store.import(NAME, transcript, chain(script, own)?, &mut |_| {})?;
        Self::on(backend, NAME, script, own, 2)
    }

    /// A script in the middle of which the conversation is forked at earlier places, once or more, and
    /// goes on as the fork.
    ///
    /// # Errors
    /// As [`World::run`].
    pub fn run_forked(script: &Script, own: &[Arc<dyn Strategy>]) -> Result<Self, Failure> {
        let mut world = Self::new(script, own)?;
        let forks = script.pick("forks", 3).saturating_add(1);
        let length = script.ops.len().saturating_add(1);
        let place = |n: usize| script.pick(&format!("fork {n} after"), length);
        let mut places: Vec<usize> = (0..forks).map(place).collect();
        places.sort_unstable();
        let mut places = places.into_iter().enumerate().peekable();
        for done in 0..length {
            while let Some((n, _)) = places.next_if(|(_, place)| *place <= done) {
                let at = world.back_from_head(script.pick(&format!("fork {n} at"), 40))?;
                world = world.forked(at, &format!("fork {n}"))?;
            }
            if let Some(op) = script.ops.get(done) {
                world.perform(op)?;
            }
        }
        Ok(world)
    }

    /// Does everything in order.
    ///
    /// # Errors
    /// As [`World::perform`].
    pub fn perform_all(&mut self, ops: &[Op]) -> Result<(), Failure> {
        ops.iter().try_for_each(|op| self.perform(op).map(drop))
    }

    /// Does one thing.
    ///
    /// # Errors
    /// When it fails, and when a refusal wrote something or does not say why.
    pub fn perform(&mut self, op: &Op) -> Result<Answer, Failure> {
        self.perform_seen(op, |_, _, _| Ok(()))
    }

    /// Does one thing, and shows what exactly was asked and what became of it.
    ///
    /// # Errors
    /// As [`World::perform`], and when `seen` does.
    pub fn perform_seen(
        &mut self,
        op: &Op,
        seen: impl FnOnce(&Self, &Request, Answer) -> Result<(), Failure>,
    ) -> Result<Answer, Failure> {
        let answer = match self.resolve(op)? {
            Some(request) => {
                let told = |e: Failure| Failure::from(format!("{op}: {e}"));
                let answer = self.ask(&request).map_err(told)?;
                seen(self, &request, answer).map_err(told)?;
                answer
            }
            None => Answer::Done,
        };
        self.done = self.done.saturating_add(1);
        self.shown.push(self.chat.window()?);
        Ok(answer)
    }

    /// Makes the picks of an operation. `None`: there is nothing to do it to.
    ///
    /// # Errors
    /// When the conversation cannot be read.
    pub fn resolve(&mut self, op: &Op) -> Result<Option<Request>, Failure> {
        self.summaries.take(op);
        if let Some(request) = self.refused_as_a_rule(op)? {
            return Ok(Some(request));
        }
        let said = |message| Some(Request::Append(message, Box::new(self.options())));
        Ok(match op {
            Op::Say(speaker, words) => {
                let (role, author) = speaker.role();
                said(Message::new(role, author, vec![Part::text(words.whole())]))
            }
            Op::Nothing(speaker) => {
                let (role, author) = speaker.role();
                said(Message::new(role, author, Vec::new()))
            }
            Op::Reason { signed } => said(reasoning(*signed)),
            Op::Media(thousands) => said(image(*thousands)),
            Op::Unknown => said(Message::tool("never-called", "late")),
            Op::Native { answered } => said(native(*answered)),
            Op::Results {
                back,
                interim,
                words,
                out,
            } => self
                .results(back, *interim, words.as_ref(), out)
                .and_then(said),
            Op::Calls { count, words } => {
                let mut parts: Vec<Part> = words.iter().map(|w| Part::text(w.whole())).collect();
                parts.extend(self.new_calls(*count));
                let options = Box::new(self.options());
                Some(Request::Append(Message::calls(parts), options))
            }
            Op::Continue { call } => self.continues(*call)?,
            Op::Call { usage, failed } => Some(Request::Call {
                options: Box::new(self.options()),
                usage: *usage,
                failed: *failed,
            }),
            Op::Visit => Some(Request::Visit(Box::new(self.options()))),
            Op::Behind(n, words) => {
                let mut options = self.options();
                options.expected = Some(self.back_from_head(*n)?);
                Some(Request::Append(
                    Message::person(words.whole()),
                    Box::new(options),
                ))
            }
            Op::Keyed(n, words) => {
                let mut options = self.options();
                options.key = Some(format!("key {n}"));
                Some(Request::Append(
                    Message::person(words.whole()),
                    Box::new(options),
                ))
            }
            Op::Settings(size) => Some(Request::Settings(settings(*size))),
            Op::Fork { back, close } => Some(self.fork_at(*back, *close)?),
            Op::Reopen => Some(Request::Reopen),
            Op::Note => Some(Request::Note),
            Op::Summaries(_) | Op::Meanwhile(_) => None,
            // What is refused as a rule was resolved before, as far as there is anything to ask.
            Op::Policy | Op::Impossible | Op::Beyond(_) | Op::Inverted(_) => None,
            edit => self.resolve_edit(edit)?,
        })
    }

    /// Requests that ask for what cannot be.
    fn refused_as_a_rule(&self, op: &Op) -> Result<Option<Request>, Failure> {
        Ok(match op {
            Op::Policy if self.chain.is_empty() => None,
            Op::Policy => Some(Request::Strategies(vec![Arc::new(SlidingWindow::new(99))])),
            Op::Impossible => Some(Request::Strategies(vec![Arc::new(SlidingWindow::new(0))])),
            Op::Beyond(n) => {
                let n = u64::try_from(*n).unwrap_or(0).saturating_add(1);
                Some(Request::Window(Seq(self.head()?.0.saturating_add(n))))
            }
            Op::Inverted(n) => {
                let later = self.back_from_head(*n)?.next();
                Some(Request::Range(format!("s:{}..s:0", later.0)))
            }
            _ => None,
        })
    }

    /// Asks one thing of the engine.
    ///
    /// # Errors
    /// When it fails, and when a refusal wrote something or does not say why.
    pub fn ask(&mut self, request: &Request) -> Result<Answer, Failure> {
        // The store's head: another engine may have filed what this one does not know of yet.
        let id = self.chat.id();
        let before = self.backend.head(id)?;
        drop(self.summaries.happened());
        if self.summaries.waits() {
            let plain = self.store.clone().without_summarizer();
            self.summaries.of(plain.existing(&self.name)?);
        }
        let refusal = match self.attempt(request) {
            Ok(()) => {
                return match self.summaries.failed() {
                    None => Ok(Answer::Done),
                    Some(failed) => Err(failed.into()),
                };
            }
            Err(Error::Refused(refusal)) => refusal,
            Err(error) => return Err(error.into()),
        };
        if refusal.help.is_empty() || refusal.detail.is_empty() {
            return Err(format!("a refusal that does not say enough: {refusal:?}").into());
        }
        if self.backend.head(id)? != before {
            return Err(format!("a refusal that wrote something: {refusal:?}").into());
        }
        let count = self.refused.entry(refusal.reason).or_default();
        *count = count.saturating_add(1);
        Ok(Answer::Refused(refusal.reason))
    }

    fn attempt(&mut self, request: &Request) -> Result<(), Error> {
        match request {
            Request::Append(message, options) => {
                self.chat.append_with(message.clone(), options)?;
            }
            Request::Call {
                options,
                usage,
                failed,
            } => {
                let call = self.chat.call_with(options, Some("m"))?;
                self.sent.push((call.id, call.window.digest));
                let usage = usage.map(|input| Usage {
                    input: Some(input),
                    ..Usage::default()
                });
                if *failed || usage.is_some() {
                    let failure = failed.then_some("overloaded");
                    self.chat.report(call.id, usage, failure, None)?;
                }
            }
            Request::Visit(options) => drop(self.chat.visit_with(options)?),
            Request::Settings(json) => {
                let model = Some(model_of(json));
                self.chat.set_request("openai-chat", model, json)?;
            }
            Request::Restore(message) => drop(self.chat.restore(*message)?),
            Request::Undo(entry) => drop(self.chat.undo(*entry)?),
            Request::Pin(message) => drop(self.chat.pin(*message)?),
            Request::Unpin(message) => drop(self.chat.unpin(*message)?),
            Request::Replace(what, with) => drop(self.chat.replace(what, with.clone())?),
            Request::Ask(what) => drop(self.chat.ask_replacement(what)?),
            Request::Asked(ask, with) => drop(self.chat.replace_asked(*ask, with.clone())?),
            Request::Clear(None) => drop(self.chat.clear()?),
            Request::Clear(Some(messages)) => drop(self.chat.clear_messages(messages)?),
            Request::Recall(message) => drop(self.chat.recall(*message)?),
            Request::Strategies(chain) => drop(self.chat.clone().with_strategies(chain.clone())?),
            Request::Window(at) => drop(self.chat.window_after(*at)?),
            Request::Range(range) => self.select(range)?,
            Request::Fork {
                at, close, name, ..
            } => self.go_on_in_fork(*at, *close, name)?,
            Request::Redact(what) => drop(self.chat.redact(*what)?),
            Request::Reopen => self.reopen()?,
            Request::Note => drop(self.chat.note("seen", Some(&Json("{\"x\":1}".into())))?),
        }
        Ok(())
    }

    fn select(&self, range: &str) -> Result<(), Error> {
        let resolved = range
            .parse::<Span>()
            .and_then(|range| range.resolve(&self.chat));
        match resolved {
            Err(SelectError::Engine(error)) => Err(error),
            Err(error) => Err(Error::refused(
                RequestReason::NothingMatches,
                error.to_string(),
            )),
            Ok(_) => Ok(()),
        }
    }

    /// Opens the store anew: nothing is left in memory but what the backend holds.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn reopen(&mut self) -> Result<(), Error> {
        let backend = Arc::clone(&self.backend);
        let store = summarized(&backend, &self.environment, &self.summaries);
        let chat = store.existing(&self.name)?;
        // Both or none: where it fails, the handles from before are still there.
        self.chat = chat.with_strategies(self.chain.clone())?;
        self.store = store;
        Ok(())
    }

    /// The conversation as a program finds it that has just opened the store: nothing of it is held.
    ///
    /// # Errors
    /// When it cannot be found.
    pub fn anew(&self) -> Result<Conversation, Error> {
        Store::on(Arc::clone(&self.backend)).existing(&self.name)
    }

    /// Folds the log and keeps a snapshot every so many entries.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn take_snapshots(&self, every: u64) -> Result<(), Error> {
        let store = Store::on(Arc::clone(&self.backend)).with_pace(Pace::every(every));
        store.existing(&self.name)?.take_snapshots()
    }

    /// Options with the time of the operation that is next.
    #[must_use]
    pub fn options(&self) -> Options {
        let turn = self.done.checked_rem(self.times.len()).unwrap_or(0);
        let seconds = self.times.get(turn).copied().unwrap_or(0);
        Options {
            at: Some(Micros(seconds.saturating_mul(1_000_000))),
            ..Options::default()
        }
    }

    /// The newest entry's number.
    ///
    /// # Errors
    /// When the log has to be read again and cannot.
    pub fn head(&self) -> Result<Seq, Error> {
        Ok(self.chat.head()?.map_or(Seq(0), |head| head.seq))
    }

    pub(super) fn back_from_head(&self, n: usize) -> Result<Seq, Error> {
        let head = self.head()?.0;
        let n = u64::try_from(n).unwrap_or(0);
        let back = n.checked_rem(head.saturating_add(1)).unwrap_or(0);
        Ok(Seq(head.saturating_sub(back)))
    }

    fn label(&self, position: usize) -> Option<String> {
        match self.ids {
            Ids::One => Some("c".to_owned()),
            Ids::PerTurn => Some(format!("call_{position}")),
            Ids::Unique => Some(format!(
                "call-{}",
                self.calls.len().saturating_add(position)
            )),
            Ids::Absent => None,
        }
    }

    fn new_calls(&mut self, count: usize) -> Vec<Part> {
        let tool = |i: usize| format!("tool{}", i.checked_rem(3).unwrap_or(0));
        let calls: Vec<_> = (0..count).map(|i| (self.label(i), tool(i))).collect();
        let parts = calls
            .iter()
            .map(|(id, name)| call(id.as_deref(), name, None))
            .collect();
        self.calls.extend(calls);
        parts
    }

    fn continues(&mut self, call: bool) -> Result<Option<Request>, Failure> {
        let newest = self.chat.with_projection(|p| {
            let by_model = |m: &&crate::window::MessageState| m.author() == Author::Model;
            p.messages().iter().rev().find(by_model).map(|m| m.id)
        })?;
        let parts = if call {
            self.new_calls(1)
        } else {
            vec![Part::text("and so on")]
        };
        let mut options = self.options();
        options.continues = newest;
        Ok(Some(Request::Append(
            Message::calls(parts),
            Box::new(options),
        )))
    }

    fn results(
        &self,
        back: &[usize],
        interim: bool,
        words: Option<&Words>,
        out: &Words,
    ) -> Option<Message> {
        let newest_first = || self.calls.iter().rev();
        let picked = back.iter().filter_map(|b| newest_first().nth(*b));
        let mut parts: Vec<Part> = picked
            .map(|(id, name)| result(id.as_deref(), name, interim, &out.whole()))
            .collect();
        if parts.is_empty() {
            return None;
        }
        let (role, author) = match words {
            Some(_) => (Role::User, Author::Person),
            None => (Role::Tool, Author::Tool),
        };
        parts.extend(words.map(|w| Part::text(w.whole())));
        Some(Message::new(role, author, parts))
    }

    /// The log as it is stored.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn sealed(&self) -> Result<Vec<Sealed>, Error> {
        let mut all = Vec::new();
        self.store
            .entries(self.chat.id(), Seq(0), self.head()?, &mut |sealed| {
                all.push(sealed);
                ControlFlow::Continue(())
            })?;
        Ok(all)
    }

    /// The log's entries.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn entries(&self) -> Result<Vec<Entry>, Error> {
        Ok(self
            .sealed()?
            .into_iter()
            .map(|sealed| sealed.entry)
            .collect())
    }

    /// The conversation as the store lists it.
    ///
    /// # Errors
    /// When it does not.
    pub fn listed(&self) -> Result<Listed, Failure> {
        let all = self.store.list()?;
        let own = all.into_iter().find(|l| l.conversation == self.chat.id());
        own.ok_or_else(|| "the store does not list the conversation".into())
    }
}

/// The words of a projection's messages, read from the conversation whose log it is of.
#[derive(Debug)]
pub(super) struct Recorded<'a> {
    pub chat: &'a Conversation,
    pub state: &'a Projection,
}

impl strategy::Words for Recorded<'_> {
    fn message(&mut self, id: MessageId) -> Option<Message> {
        let form = self.state.message(id)?.form()?;
        match self.chat.content(form.given, form.payload).ok()? {
            Content::Message(message) => Some(*message),
            Content::Redacted => None,
        }
    }

    fn skeleton(&self, message: &Message, answers: &[Option<(Seq, u32)>]) -> Skeleton {
        let mut skeleton = crate::log::skeleton::skeleton(message, answers);
        let settings = self.state.settings().map(|(_, s)| s);
        let encoding = Encoding::of(settings.and_then(|s| s.model.as_deref()));
        skeleton.tokens = encoding.count(&message.words());
        skeleton
    }
}

fn part(body: PartBody) -> Part {
    Part {
        body,
        extra: Fields::new(),
    }
}

fn call(id: Option<&str>, name: &str, native: Option<&str>) -> Part {
    part(PartBody::Call {
        id: id.map(str::to_owned),
        name: name.to_owned(),
        arguments: "{}".into(),
        native: native.map(str::to_owned),
    })
}

/// A tool's result, final or interim.
#[must_use]
pub fn result(id: Option<&str>, name: &str, interim: bool, text: &str) -> Part {
    let block = Block {
        body: BlockBody::Text(text.to_owned()),
        extra: Fields::new(),
    };
    part(PartBody::Result {
        call: id.map(str::to_owned),
        name: Some(name.to_owned()),
        content: vec![block],
        shape: Shape::Text,
        error: None,
        interim,
        native: None,
    })
}

fn reasoning(signed: bool) -> Message {
    let thought = part(PartBody::Reasoning {
        text: "Let me think.".into(),
        signature: signed.then(|| "c2ln".to_owned()),
        encrypted: None,
    });
    Message::new(Role::Assistant, Author::Model, vec![thought])
}

/// An image of about so many thousand bytes, 8 million at most, as a source would write it.
fn image(thousands: usize) -> Message {
    let data = "iVBORw0KGgo=".repeat(thousands.min(8_000).saturating_mul(83));
    let block = format!(
        "{{\"type\":\"image_url\",\"image_url\":{{\"url\":\"data:image/png;base64,{data}\"}}}}"
    );
    let shown = part(PartBody::Block(BlockBody::Media(Media::Image, Json(block))));
    Message::new(Role::User, Author::Person, vec![shown])
}

fn native(answered: bool) -> Message {
    let kind = "web_search_tool_result";
    let block = format!("{{\"type\":\"{kind}\",\"tool_use_id\":\"srv\",\"content\":[]}}");
    let found = part(PartBody::Result {
        call: Some("srv".into()),
        name: None,
        content: vec![Block {
            body: BlockBody::Opaque(kind.to_owned(), Json(block)),
            extra: Fields::new(),
        }],
        shape: Shape::List,
        error: None,
        interim: false,
        native: Some(kind.to_owned()),
    });
    let mut parts = vec![call(Some("srv"), "search", Some("server_tool_use"))];
    parts.extend(answered.then_some(found));
    Message::calls(parts)
}
