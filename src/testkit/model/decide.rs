//! What every request must do: which entries it writes, or why it is refused.
//!
//! A prediction is made of entries as the log would hold them, save what nobody can foresee: hashes,
//! salts and times. Each rule says in its own words what the design demands.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::fold::Moment;
use super::fork::interruption;
use super::look::Rule;
use super::predicted::Predicted;
use crate::engine::Options;
use crate::log::skeleton::skeleton;
use crate::log::{
    Appended, Author, Body, By, Called, Commitment, Configured, ConversationId, Door, Entry, Hash,
    Iteration, Json, Kind, Message, Micros, Noted, OpenCalls, PartSkeleton, Provenance,
    RequestReason, Returned, Seq, Settings, Trigger, Usage, Visited,
};
use crate::testkit::script::model_of;
use crate::testkit::summaries::Answers;
use crate::testkit::world::Request;
use crate::tokens::Encoding;

/// What the log says in the place of a result that never came.
pub(super) const INTERRUPTED: &str = "[interrupted: no result was recorded for this call]";
/// A content that nobody can foresee.
pub(super) const BLANK: Commitment = Commitment {
    digest: Hash::ZERO,
    bytes: 0,
};

/// A naive engine: the log as a plain list, the fold of it, and the words that requests gave.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub(super) log: Vec<Arc<Entry>>,
    pub(super) now: Arc<Moment>,
    pub(super) keyed: BTreeMap<String, Message>,
    /// The settings that were asked for, by the entry.
    pub(super) settings: Vec<(u64, Json)>,
    /// Replacements that were asked for, by the entry: what they mean, and whether in place.
    pub(super) asks: BTreeMap<u64, (Vec<u64>, bool)>,
    /// Asks whose content came, by which entry.
    pub(super) answered: BTreeMap<u64, u64>,
    /// The words of contents, by the entry and the payload that gave them.
    pub(super) words: BTreeMap<(u64, u32), Arc<Message>>,
    /// What is quoted by messages that are recalls.
    pub(super) quotes: BTreeMap<u64, BTreeSet<u64>>,
    /// Payloads that are not there any more.
    pub(super) gone: BTreeSet<(u64, u32)>,
    /// How the summariser answers, and what happens while it is asked.
    pub(super) answers: Answers,
    pub(super) meanwhile: Vec<Request>,
}

impl Model {
    /// The model of a log that is empty so far.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What stands now; its digest is [`Moment::hash`].
    #[must_use]
    pub fn now(&self) -> &Moment {
        &self.now
    }

    /// Takes in words that an entry gave.
    pub fn read(&mut self, given: Seq, payload: u32, words: Message) {
        self.note_quotes(given, &words);
        self.words.insert((given.0, payload), Arc::new(words));
    }

    /// How a summariser answers that the next request asks, and what happens while it is asked.
    pub fn summaries(&mut self, answers: Answers, meanwhile: Vec<Request>) {
        (self.answers, self.meanwhile) = (answers, meanwhile);
    }

    /// Takes in what the log got, and what was asked for where that is known.
    ///
    /// # Errors
    /// When an entry is not the next one, or a call recorded another window than this one.
    pub fn observe(&mut self, asked: Option<&Request>, entries: &[Entry]) -> Result<(), String> {
        if let Some(Request::Fork { at, .. }) = asked
            && !entries.is_empty()
        {
            let mut fork = self.cut(at.0);
            for entry in entries {
                let own = (0..super::fold::messages_of(&entry.body)).map(|i| (entry.seq.0, i));
                let read = own.filter_map(|place| Some((place, self.words.get(&place)?.clone())));
                fork.words.extend(read);
            }
            *self = fork;
        }
        let asks = match asked {
            Some(Request::Ask(what)) => self.means(what).ok().map(|ids| (ids, what.in_place)),
            _ => None,
        };
        let first = self.next();
        for entry in entries {
            let (next, iteration) = (self.next(), self.iteration());
            if entry.seq.0 != next || entry.iteration != iteration {
                return Err(format!(
                    "{} of {} was filed where {} of {iteration} is next",
                    entry.seq,
                    entry.iteration,
                    Seq(next)
                ));
            }
            if let Body::Called(called) = &entry.body {
                let window = Hash(self.now.hash());
                if called.window != window {
                    let (seq, recorded) = (entry.seq, called.window);
                    return Err(format!(
                        "the call {seq} recorded {recorded}; the window is {window}"
                    ));
                }
            }
            self.push(entry.clone());
        }
        match asked.filter(|_| !entries.is_empty()) {
            Some(Request::Append(message, options)) => {
                let key = options.key.clone();
                self.keyed.extend(key.map(|key| (key, message.clone())));
            }
            Some(Request::Settings(json)) => self.settings.push((first, json.clone())),
            Some(Request::Ask(_)) => {
                let entry = self.next().saturating_sub(1);
                self.asks.extend(asks.map(|meant| (entry, meant)));
            }
            Some(Request::Asked(ask, _)) => drop(self.answered.insert(ask.0, first)),
            _ => {}
        }
        Ok(())
    }

    /// What must become of a request. `own` are the visits that were filed with it: what a user's
    /// strategy wants is data here, what the guard allows is not; and of outputs that were cut, how
    /// they were cut.
    ///
    /// # Errors
    /// When such a visit is one that the guard must not let happen.
    pub fn predict(&self, request: &Request, own: &[&Visited]) -> Result<Predicted, String> {
        let mut then = self.clone();
        Ok(match then.does(request, own)? {
            Err(reason) => Predicted::Refused(reason),
            Ok(()) => {
                let before = match request {
                    Request::Fork { at, .. } => usize::try_from(at.next().0).unwrap_or(usize::MAX),
                    _ => self.log.len(),
                };
                let new = then.log.iter().skip(before);
                Predicted::Done(new.map(|e| Entry::clone(e)).collect())
            }
        })
    }

    /// Does what was asked, or says why not.
    pub(super) fn does(
        &mut self,
        request: &Request,
        own: &[&Visited],
    ) -> Result<Result<(), RequestReason>, String> {
        let then = self;
        Ok(match request {
            Request::Append(message, options) => then.append(message, options, own)?,
            Request::Call {
                options,
                usage,
                failed,
            } => then.call(options, own)?.map(|called| {
                if called && (*failed || usage.is_some()) {
                    then.report(*usage, *failed);
                }
            }),
            Request::Visit(options) => then.visit(options, own)?,
            Request::Settings(json) => {
                then.set(json);
                Ok(())
            }
            Request::Restore(message) => then.restore(message.0.0),
            Request::Undo(entry) => then.undo(entry.0),
            Request::Pin(message) => then.pin(message.0.0, true),
            Request::Unpin(message) => then.pin(message.0.0, false),
            Request::Replace(what, with) => then.replace(what, with),
            Request::Ask(what) => then.ask(what),
            Request::Asked(ask, with) => then.asked(ask.0, with),
            Request::Clear(which) => {
                let which: Option<Vec<u64>> = which
                    .as_ref()
                    .map(|ids| ids.iter().map(|id| id.0.0).collect());
                then.clear(which.as_deref())
            }
            Request::Recall(message) => then.recall(message.0.0, own)?,
            Request::Strategies(chain) => {
                then.configure(&chain.iter().map(|s| s.spec()).collect::<Vec<_>>())
            }
            // A window that the log does not reach yet is out of bounds.
            Request::Window(at) if at.0 >= then.next() => Err(RequestReason::RangeOutOfBounds),
            Request::Range(range) => then.range(range),
            Request::Fork {
                at, close, specs, ..
            } => then.fork(at.0, *close, specs),
            Request::Redact(what) => then.redact(*what),
            Request::Window(_) | Request::Reopen => Ok(()),
            Request::Note => {
                then.note();
                Ok(())
            }
        })
    }

    /// A message. A person's message without parts is refused (a model's is kept: it happened). An
    /// idempotency key that is known answers for what it wrote, or conflicts where that was another
    /// message. A stale head is refused, then results that answer no call. What is accepted may be
    /// several entries.
    fn append(
        &mut self,
        message: &Message,
        options: &Options,
        own: &[&Visited],
    ) -> Result<Result<(), RequestReason>, String> {
        let said = self.said(message, options);
        if said == Ok(true) {
            self.bring_back(message);
            self.look_all(Trigger::Append, own, options.at)?;
        }
        Ok(said.map(drop))
    }

    /// Whether a message was filed.
    fn said(&mut self, message: &Message, options: &Options) -> Result<bool, RequestReason> {
        if message.parts.is_empty() && message.author == Author::Person {
            return Err(RequestReason::EmptyMessage);
        }
        if self.repeats(options, Some(message))? {
            return Ok(false);
        }
        self.expects(options)?;
        let answers = self.bind(message)?;
        let pieces = self.pieces(message, &answers);
        let count = u32::try_from(pieces.len()).unwrap_or(u32::MAX);
        let first = self.next();
        for (message, answers) in pieces {
            let continues = options.continues.map(|m| m.0);
            let same_source = (self.next() > first).then_some(Seq(first));
            self.say(&message, &answers, continues, same_source, options.at);
        }
        self.sign(first, options, count);
        Ok(true)
    }

    /// The request's key stands on one entry, and says how many the request wrote.
    fn sign(&mut self, at: u64, options: &Options, entries: u32) {
        let Some(text) = options.key.clone() else {
            return;
        };
        if let Some(entry) = self.log.iter_mut().find(|e| e.seq.0 == at) {
            Arc::make_mut(entry).key = Some(crate::log::Key {
                text: text.clone(),
                entries,
            });
        }
    }

    /// A key is honoured for ever: whether this very request (an append of this message, or a call)
    /// was accepted under it.
    fn repeats(&self, options: &Options, message: Option<&Message>) -> Result<bool, RequestReason> {
        let Some(text) = &options.key else {
            return Ok(false);
        };
        let used = |e: &&Arc<Entry>| e.key.as_ref().is_some_and(|k| k.text == *text);
        let Some(entry) = self.log.iter().find(used) else {
            return Ok(false);
        };
        let same = match (message, &entry.body) {
            // What was destroyed cannot be compared any more, and counts as equal.
            (Some(_), Body::Appended(_)) if self.is_gone(entry) => true,
            (Some(message), Body::Appended(_)) => self.keyed.get(text) == Some(message),
            (None, Body::Called(_)) => true,
            _ => false,
        };
        if same {
            Ok(true)
        } else {
            Err(RequestReason::IdempotencyConflict)
        }
    }

    /// Whether words are gone that a request under the entry's key gave.
    fn is_gone(&self, entry: &Entry) -> bool {
        let entries = entry.key.as_ref().map_or(0, |key| u64::from(key.entries));
        let until = entry.seq.0.saturating_add(entries);
        (entry.seq.0..until).any(|seq| self.gone.contains(&(seq, 0)))
    }

    /// A request that expects head h is accepted at a newer one when everything after h was filed by
    /// the engine itself: visits, usage, notes.
    fn expects(&self, options: &Options) -> Result<(), RequestReason> {
        let own = |e: &Entry| match e.body.kind() {
            Some(Kind::Edited) => e.by.door == Door::Engine,
            kind => [Kind::Visited, Kind::Returned, Kind::Noted]
                .map(Some)
                .contains(&kind),
        };
        let stale = |expected: Seq| {
            let after = |e: &&Arc<Entry>| e.seq > expected;
            expected.0 >= self.next() || self.log.iter().filter(after).any(|e| !own(e))
        };
        if options.expected.is_some_and(stale) {
            return Err(RequestReason::StaleHead);
        }
        Ok(())
    }

    /// One message as one entry. What a model wrote was produced by the newest call; a continuation
    /// names none, its call is that of the message it continues.
    pub(super) fn say(
        &mut self,
        message: &Message,
        answers: &[Option<(Seq, u32)>],
        continues: Option<Seq>,
        same_source: Option<Seq>,
        at: Option<Micros>,
    ) {
        let mut skeleton = skeleton(message, answers);
        if self.chain().iter().any(Rule::counts_tokens) {
            skeleton.tokens = self.encoding().count(&message.words());
        }
        self.words
            .insert((self.next(), 0), Arc::new(message.clone()));
        let newest = self.now.calls.last().map(|(call, _)| Seq(*call));
        let wrote = message.author == Author::Model && continues.is_none();
        let body = Body::Appended(Appended {
            produced_by: newest.filter(|_| wrote),
            skeleton,
            continues,
            same_source,
            content: BLANK,
        });
        self.file(body, at);
    }

    /// A model call: open calls are closed or the request is refused; each strategy of the chain
    /// looks at the window that the one before left; the call is filed with what stands then.
    /// Whether anything was filed.
    fn call(
        &mut self,
        options: &Options,
        own: &[&Visited],
    ) -> Result<Result<bool, RequestReason>, String> {
        match self.repeats(options, None).and_then(|repeats| {
            self.expects(options)?;
            Ok(repeats)
        }) {
            Ok(false) => {}
            Ok(true) => return Ok(Ok(false)),
            Err(reason) => return Ok(Err(reason)),
        }
        if self.open_calls() == OpenCalls::Refuse && !self.unanswered().is_empty() {
            return Ok(Err(RequestReason::OpenCalls));
        }
        self.close_open(options.at);
        self.look_all(Trigger::Call, own, options.at)?;
        let messages = u64::try_from(self.now.window.len()).unwrap_or(u64::MAX);
        let settings = self.settings().map_or(Hash::ZERO, |s| s.content.digest);
        let body = Body::Called(Called {
            window: Hash::ZERO,
            messages,
            settings,
            model: Some("m".into()),
            body: None,
        });
        self.file(body, options.at);
        let call = self.next().saturating_sub(1);
        self.sign(call, options, 1);
        Ok(Ok(true))
    }

    /// A visit on demand: the strategies look as at a call, and nothing else is done.
    fn visit(
        &mut self,
        options: &Options,
        own: &[&Visited],
    ) -> Result<Result<(), RequestReason>, String> {
        if let Err(reason) = self.expects(options) {
            return Ok(Err(reason));
        }
        self.look_all(Trigger::Demand, own, options.at)?;
        Ok(Ok(()))
    }

    /// Each strategy of the chain looks at the window that the one before left; after an append,
    /// those that look then.
    pub(super) fn look_all(
        &mut self,
        trigger: Trigger,
        own: &[&Visited],
        at: Option<Micros>,
    ) -> Result<(), String> {
        for (position, rule) in (0_u32..).zip(self.chain()) {
            if trigger == Trigger::Append && !rule.on_append() {
                continue;
            }
            if rule.name() == "summarize-oldest" {
                self.summarize(position, &rule, trigger, own, at)?;
                continue;
            }
            if let Some(mut visit) = self.look(position, &rule, own)? {
                visit.invalidated = visit.first_changed.map(|place| self.cost(place));
                self.file(Body::Visited(Box::new(Visited { trigger, ..visit })), at);
            }
        }
        Ok(())
    }

    /// Open calls are closed, where that is what happens to them.
    pub(super) fn close_open(&mut self, at: Option<Micros>) {
        if self.open_calls() == OpenCalls::Close {
            for (call, part) in self.unanswered() {
                self.close(call, &part, at);
            }
        }
    }

    /// Calls of messages in the window that a client has to answer and that have neither a final nor
    /// an interim result, in the order of the window.
    fn unanswered(&self) -> Vec<((Seq, u32), PartSkeleton)> {
        let answered = |call| {
            let mut all = self
                .now
                .messages
                .iter()
                .flat_map(super::fold::Message::parts);
            all.any(|p| p.answers == Some(call))
        };
        let mut out = Vec::new();
        for m in self.now.window.iter().filter_map(|id| self.now.get(*id)) {
            for (i, p) in (0_u32..).zip(m.parts()) {
                let call = (Seq(m.id), i);
                let client = !p.is(PartSkeleton::NATIVE);
                if self.now.open.contains(&(m.id, i)) && client && !answered(call) {
                    out.push((call, p.clone()));
                }
            }
        }
        out
    }

    /// The engine's own final result, an error, for a call that was interrupted.
    fn close(&mut self, call: (Seq, u32), part: &PartSkeleton, at: Option<Micros>) {
        let message = interruption(part);
        self.say(&message, &[Some(call)], None, None, at);
    }

    /// What came back from the newest call.
    fn report(&mut self, usage: Option<u64>, failed: bool) {
        let Some((call, _)) = self.now.calls.last() else {
            return;
        };
        let usage = usage.map(|input| Usage {
            input: Some(input),
            ..Usage::default()
        });
        let body = Body::Returned(Returned {
            call: Seq(*call),
            failed,
            usage,
            rest: failed.then_some(BLANK),
        });
        self.file(body, None);
    }

    /// Request settings; equal ones are filed once.
    fn set(&mut self, json: &Json) {
        let newest = self.settings.last();
        if newest.is_some_and(|(by, set)| set == json && !self.gone.contains(&(*by, 0))) {
            return;
        }
        let model = model_of(json);
        let settings = Settings {
            model: Some(model.into()),
            format: "openai-chat".into(),
            content: BLANK,
            overhead: Encoding::of(Some(model)).count(&json.0),
        };
        let configured = Configured {
            settings: Some(settings),
            ..Configured::default()
        };
        self.file(Body::Configured(configured), None);
    }

    /// A chain is set once: an impossible parameter is refused, then any other chain.
    pub(super) fn configure(&mut self, specs: &[String]) -> Result<(), RequestReason> {
        if !specs.iter().all(|s| Rule::parse(s).is_possible()) {
            return Err(RequestReason::InvalidOption);
        }
        let set: Vec<String> = self.chain().into_iter().map(|rule| rule.spec).collect();
        if set == specs {
            return Ok(());
        }
        if !set.is_empty() {
            return Err(RequestReason::PolicyConflict);
        }
        let configured = Configured {
            strategies: Some(specs.to_vec()),
            ..Configured::default()
        };
        self.file(Body::Configured(configured), None);
        Ok(())
    }

    /// A range `s:a..s:b`: both ends must be in the log, and the first not after the second.
    fn range(&self, range: &str) -> Result<(), RequestReason> {
        let ends = range.split("..").map(|end| end.strip_prefix("s:"));
        let ends: Option<Vec<u64>> = ends.map(|end| end?.parse().ok()).collect();
        match ends.as_deref() {
            Some([a, b]) if *a >= self.next() || *b >= self.next() => {
                Err(RequestReason::RangeOutOfBounds)
            }
            Some([a, b]) if a > b => Err(RequestReason::RangeInverted),
            Some([_, _]) => Ok(()),
            _ => Err(RequestReason::NothingMatches),
        }
    }

    fn note(&mut self) {
        let body = Body::Noted(Noted {
            what: "seen".into(),
            place: String::new(),
            warn: false,
            content: Some(BLANK),
        });
        self.file(body, None);
    }

    /// The log.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.log.iter().map(AsRef::as_ref)
    }

    /// The words of a content, where they are there.
    #[must_use]
    pub fn words_of(&self, given: u64, payload: u32) -> Option<&Message> {
        self.words.get(&(given, payload)).map(AsRef::as_ref)
    }

    /// The number of the next entry.
    pub(in crate::testkit) fn next(&self) -> u64 {
        u64::try_from(self.log.len()).unwrap_or(u64::MAX)
    }

    /// The first call that can see what comes next.
    fn iteration(&self) -> Iteration {
        let calls = u64::try_from(self.now.calls.len()).unwrap_or(u64::MAX);
        Iteration(calls.saturating_add(1))
    }

    /// One entry more. What the engine adds to a request of its own accord came through its own door.
    pub(super) fn file(&mut self, body: Body, at: Option<Micros>) {
        self.file_through(None, body, at);
    }

    /// One entry more, through a door of its own.
    pub(super) fn file_through(&mut self, through: Option<Door>, body: Body, at: Option<Micros>) {
        let (provenance, door) = match &body {
            Body::Appended(a) if a.skeleton.author == Author::Engine => {
                (Provenance::Synthetic, Door::Engine)
            }
            Body::Visited(_) => (Provenance::Recorded, Door::Engine),
            _ => (Provenance::Recorded, Door::Library),
        };
        let principal = String::new();
        self.push(Entry {
            conversation: ConversationId([0; 16]),
            seq: Seq(self.next()),
            iteration: self.iteration(),
            at,
            prev: Hash::ZERO,
            provenance,
            must_understand: body.kind().is_some_and(Kind::must_understand),
            by: By {
                door: through.unwrap_or(door),
                principal,
            },
            key: None,
            body,
        });
    }

    pub(super) fn push(&mut self, entry: Entry) {
        Arc::make_mut(&mut self.now).step(&entry);
        self.log.push(Arc::new(entry));
    }

    /// The newest thing that the log's configurations say.
    fn configured<T>(&self, of: impl Fn(&Configured) -> Option<T>) -> Option<T> {
        self.log.iter().rev().find_map(|e| match &e.body {
            Body::Configured(c) => of(c),
            _ => None,
        })
    }

    pub(super) fn chain(&self) -> Vec<Rule> {
        let specs = self
            .configured(|c| c.strategies.clone())
            .unwrap_or_default();
        specs.iter().map(|s| Rule::parse(s)).collect()
    }

    fn open_calls(&self) -> OpenCalls {
        self.configured(|c| c.open_calls)
            .unwrap_or(OpenCalls::Close)
    }

    /// What tokens are counted by: the model that the settings in force name decides it.
    pub(super) fn encoding(&self) -> Encoding {
        let settings = self.settings();
        Encoding::of(settings.as_ref().and_then(|s| s.model.as_deref()))
    }

    pub(super) fn settings(&self) -> Option<Settings> {
        self.configured(|c| c.settings.clone())
    }
}
