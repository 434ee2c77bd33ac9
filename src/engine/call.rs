//! Calling: strategies visit, then the call is filed, in one batch.

use crate::formats::{Profile, RENDERER_VERSION, Rendered};
use crate::log::{
    Author, Body, By, Called, Door, Hash, Iteration, Json, Message, MessageId, OpenCalls,
    Provenance, RenderedBody, RequestReason, Role, Seq, Skeleton, Trigger,
};
use crate::planted::{Bug, planted};
use crate::strategy::{self, Consolidation, Outlook, Visit, visit};
use crate::window::{CallInfo, Form, MessageState, Projection, Window};
use std::sync::MutexGuard;

use super::append::{
    Links, Options, append_bound, encoding, file_settings, skeleton, store_content,
};
use super::consolidate::{Concluding, TRIES, file_conclusion, is_stale};
use super::content::{Content, LoadPlan, LoadedWindow, Words};
use super::conversation::{Conversation, Work, counts};
use super::error::Error;
use super::fork::interrupted;
use super::known::State;
use super::stage::{Meta, Stage};
use super::summarizer::{self, Summarizer};

/// What a closed call's synthetic result says.
pub(super) const INTERRUPTED: &str = "[interrupted: no result was recorded for this call]";

/// A filed model call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// The `called` entry.
    pub id: Seq,
    /// Its number among the calls.
    pub iteration: Iteration,
    /// The window to send.
    pub window: Window,
    /// The visits filed with it.
    pub visits: Vec<Seq>,
    /// The synthetic results filed with it.
    pub closed: Vec<Seq>,
    /// The request body, where one was asked for.
    pub rendered: Option<Rendered>,
    /// Whether the idempotency key had been seen, so that nothing was written now.
    pub repeated: bool,
    /// A strategy wants a summary and nobody was asked: there is no summariser, or it is being asked
    /// already. See [`Conversation::plan_consolidation`].
    pub due: bool,
    /// What summarisers said that failed.
    pub failures: Vec<String>,
}

/// What a call is to be sent as, beside its window.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Request {
    /// The model that is called.
    pub model: Option<String>,
    /// Everything of the request but its messages: the format's name, and JSON text in its terms.
    pub settings: Option<(String, Json)>,
    /// The provider to render the body for, where one is wanted.
    pub profile: Option<Profile>,
}

/// A call that is about to be filed.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub model: Option<String>,
    pub profile: Option<Profile>,
    pub policy: OpenCalls,
    pub visits: bool,
    /// How visits are known.
    pub provenance: Provenance,
}

/// What is done about a summary that a strategy wants.
pub(super) enum Ask<'a> {
    /// Nothing.
    Nobody,
    /// The looks end there; whoever files asks someone, and goes on behind that strategy.
    Later,
    /// It is asked for on the spot.
    Now(&'a dyn Summarizer),
}

/// The looks of a chain, as far as they got.
#[derive(Clone, Debug, Default)]
pub(super) struct Looks {
    /// The visits that were filed.
    pub visits: Vec<Seq>,
    /// The strategy that looks next.
    pub next: u32,
    /// The summary that they wait for.
    pub wanted: Option<Consolidation>,
    /// Whether a summary is due that nobody was asked for.
    pub due: bool,
    /// What summarisers said that failed.
    pub failures: Vec<String>,
}

impl Conversation {
    /// Takes the window to send: open calls are closed (or refused), every strategy visits, and
    /// the call is filed.
    ///
    /// # Errors
    /// Refused as `open-calls` where that is configured, and as `policy-conflict` when a configured
    /// strategy is not known here.
    pub fn call(&self) -> Result<Call, Error> {
        self.call_with(&Options::default(), None)
    }

    /// Takes the window to send, with options and the model's name.
    ///
    /// # Errors
    /// As [`Conversation::call`]; also `stale-head` and `idempotency-conflict`.
    pub fn call_with(&self, options: &Options, model: Option<&str>) -> Result<Call, Error> {
        let request = Request {
            model: model.map(str::to_owned),
            ..Request::default()
        };
        self.call_request(options, &request)
    }

    /// Takes the window to send, as a request: settings that differ from those in force are filed
    /// before the call, in the same batch, and where a body is asked for, the call records its
    /// digest.
    ///
    /// # Errors
    /// As [`Conversation::call_with`].
    pub fn call_request(&self, options: &Options, request: &Request) -> Result<Call, Error> {
        let state = self.lock_at(options.expected)?;
        if let Some(mut call) = repeated_call(&state, options)? {
            self.stands(&state)?;
            drop(state);
            if let Some(profile) = request.profile {
                call.rendered = Some(self.render_for(&call.window, request, profile)?);
            }
            return Ok(call);
        }
        let draft = Draft {
            model: request.model.clone(),
            profile: request.profile,
            policy: state.projection.open_calls_policy(),
            visits: true,
            provenance: options.provenance.unwrap_or(Provenance::Recorded),
        };
        let meta = self.meta(options, None);
        let before = planted(Bug::CallIsSentTheWindowBefore).then(|| state.projection.window());
        let model = request.model.as_deref();
        let (state, mut filed) = self.passes(state, options, &meta, |chat, state, pass| {
            let changed = match &request.settings {
                Some((format, json)) if !chat.same_settings(state, format, model, json)? => {
                    Some((format, json))
                }
                _ => None,
            };
            chat.file(state, |stage, work| {
                if let Some((format, json)) = changed {
                    let meta = Meta {
                        key: None,
                        ..meta.clone()
                    };
                    file_settings(stage, format, model, json, meta)?;
                }
                file_call(stage, work, &draft, &meta, pass)
            })
        })?;
        filed.window = before.unwrap_or_else(|| state.projection.window());
        Ok(filed)
    }

    /// Lets the chain look, as often as it takes: where a strategy wants a summary, what came before
    /// is filed, someone is asked while the conversation is free for others, and the answer is filed
    /// with what comes after. `pass` files what can be filed, and gives what it made of it unless a
    /// summary is wanted.
    fn passes<'c, T>(
        &'c self,
        mut state: MutexGuard<'c, State>,
        options: &Options,
        meta: &Meta,
        mut pass: impl FnMut(&Self, &mut State, &mut Pass<'_>) -> Result<Option<T>, Error>,
    ) -> Result<(MutexGuard<'c, State>, T), Error> {
        let summarizer = self.store().summarizer();
        let mut expected = options.expected;
        let mut concluding: Option<Concluding> = None;
        let (mut looks, mut closed) = (Looks::default(), Vec::new());
        let mut faster = 0_u32;
        loop {
            let before = concluding.as_ref().map(|_| (looks.clone(), closed.clone()));
            let mut this = Pass {
                concluding: concluding.as_ref(),
                ask: if summarizer.is_some() {
                    Ask::Later
                } else {
                    Ask::Nobody
                },
                looks: &mut looks,
                closed: &mut closed,
            };
            let passed = self.accepts_head(&state, expected);
            let passed = passed.and_then(|()| {
                self.knows_strategies(&state)?;
                pass(self, &mut state, &mut this)
            });
            match passed {
                Ok(Some(done)) => return Ok((state, done)),
                Ok(None) => concluding = None,
                // Another writer was faster. Nobody said on what head this was decided, so it is
                // looked at what came.
                Err(error) if expected.is_none() && is_stale(&error) && faster < TRIES => {
                    let Some(before) = before else {
                        return Err(error); // nothing was filed yet
                    };
                    (looks, closed) = before;
                    faster = faster.saturating_add(1);
                    drop(state);
                    state = self.lock()?;
                    state.behind = false;
                    continue;
                }
                Err(error) => {
                    drop(state);
                    if let Some(concluding) = concluding {
                        // What was asked costs something, whatever becomes of the call.
                        self.files_conclusion(&concluding, meta)?;
                    }
                    return Err(error);
                }
            }
            let wanted = looks.wanted.take();
            let (Some(plan), Some(summarizer)) = (wanted, &summarizer) else {
                continue; // cannot be: looks end early only where someone can be asked
            };
            // Where nothing was filed yet, nobody has looked whether another handle wrote.
            self.is_newest(&mut state)?;
            looks.next = plan.position.saturating_add(1);
            let Some(_begun) = self.in_flight().begin(&plan.strategy) else {
                looks.due = true;
                continue;
            };
            expected = expected.and(state.head.map(|h| h.seq));
            drop(state);
            let asked = self.ask_about(&plan, summarizer.as_ref())?;
            looks.failures.extend(asked.failure.clone());
            state = self.lock_at(expected)?;
            state.behind = false; // whatever came meanwhile is looked at
            concluding = Some(Concluding {
                plan,
                asked,
                provenance: options.provenance.unwrap_or(Provenance::Recorded),
            });
        }
    }

    /// Lets every configured strategy look at the window now, as a call does, and files its visits
    /// but no call. One that is not due or stands down writes nothing. Gives the entries that were
    /// filed, in the order of the chain.
    ///
    /// Open tool calls are neither closed nor in the way: their groups stay, whatever the policy.
    ///
    /// # Errors
    /// Refused as `policy-conflict` when a configured strategy is not known here.
    ///
    /// ```
    /// use ctxlog::engine::Store;
    /// use ctxlog::log::Message;
    /// use ctxlog::strategy::SlidingWindow;
    ///
    /// let chat = Store::in_memory().conversation("a")?.with_strategy(SlidingWindow::new(1))?;
    /// chat.append(Message::person("How far is the moon?"))?;
    /// chat.append(Message::model("Quite far."))?;
    /// chat.append(Message::model("About 384,400 km."))?;
    /// assert_eq!(chat.visit()?.len(), 1);
    /// assert_eq!(chat.window()?.items.len(), 2); // the question stays: it is the current request
    /// # Ok::<(), ctxlog::engine::Error>(())
    /// ```
    pub fn visit(&self) -> Result<Vec<Seq>, Error> {
        self.visit_with(&Options::default())
    }

    /// Lets every configured strategy look at the window now, with options: the expected head, the
    /// time, how the visits are known.
    ///
    /// # Errors
    /// As [`Conversation::visit`]; also `stale-head`, and `invalid-option` for a key: a visit that
    /// is made again finds what it would have let go gone.
    pub fn visit_with(&self, options: &Options) -> Result<Vec<Seq>, Error> {
        if options.key.is_some() {
            let detail = "a visit takes no idempotency key; made again, it lets nothing more go";
            return Err(Error::refused(RequestReason::InvalidOption, detail));
        }
        let state = self.lock_at(options.expected)?;
        let provenance = options.provenance.unwrap_or(Provenance::Recorded);
        let meta = self.meta(options, None);
        let (state, visits) = self.passes(state, options, &meta, |chat, state, pass| {
            chat.file(state, |stage, work| {
                pass.begin(stage, work, &meta)?;
                let (ask, looks) = (&pass.ask, &mut *pass.looks);
                let known = (Trigger::Demand, provenance);
                file_visits(stage, work, known, &meta, ask, looks)?;
                let done = looks.wanted.is_none();
                Ok(done.then(|| std::mem::take(&mut looks.visits)))
            })
        })?;
        drop(state);
        Ok(visits)
    }

    fn render_for(
        &self,
        window: &Window,
        request: &Request,
        profile: Profile,
    ) -> Result<Rendered, Error> {
        let mut loaded = self.load(window.clone())?;
        loaded.model = request.model.clone().or(loaded.model);
        Ok(loaded.render(profile, false))
    }

    pub(super) fn knows_strategies(&self, state: &State) -> Result<(), Error> {
        if state.chain.len() != state.projection.chain().len() {
            let detail = format!(
                "'{}' is configured with [{}]; not all of them are known here",
                self.name(),
                state.projection.chain().join("; ")
            );
            return Err(Error::refused(RequestReason::PolicyConflict, detail));
        }
        Ok(())
    }

    /// The window of a filed call with its words.
    ///
    /// # Errors
    /// When words are damaged or lost.
    pub fn loaded(&self, call: &Call) -> Result<LoadedWindow, Error> {
        self.load(call.window.clone())
    }
}

/// What a call's key wrote before: the call, with the visits and synthetic results filed with it.
fn repeated_call(state: &State, options: &Options) -> Result<Option<Call>, Error> {
    let Some(key) = &options.key else {
        return Ok(None);
    };
    let projection = &state.projection;
    let Some((id, _)) = projection.by_key(key) else {
        return Ok(None);
    };
    let Some(sent) = projection.call_filed_as(id) else {
        let detail = format!("the key '{key}' wrote {id}, which is no call");
        return Err(Error::refused(RequestReason::IdempotencyConflict, detail));
    };
    // They stand right before the call: synthetic results, then visits, in one batch.
    let mut before = id;
    let visits = run_before(&mut before, projection.visits(), |v| {
        (v.fact.seq, v.trigger == Trigger::Call)
    });
    let closed = run_before(&mut before, projection.messages(), |m| {
        (m.id.seq(), m.author() == Author::Engine)
    });
    Ok(Some(Call {
        id,
        iteration: sent.fact.iteration,
        window: projection.window_at(id),
        visits,
        closed,
        rendered: None,
        repeated: true,
        due: false,
        failures: Vec::new(),
    }))
}

/// The unbroken run of entries that ends right before `before`, which becomes its first. `of` is
/// ascending; `entry` gives an item's entry and whether it can belong to the run.
fn run_before<T>(before: &mut Seq, of: &[T], entry: impl Fn(&T) -> (Seq, bool)) -> Vec<Seq> {
    let earlier = of.partition_point(|item| entry(item).0 < *before);
    let mut found = Vec::new();
    for item in of.get(..earlier).unwrap_or_default().iter().rev() {
        let (seq, belongs) = entry(item);
        if !belongs || seq.next() != *before {
            break;
        }
        *before = seq;
        found.push(seq);
    }
    found.reverse();
    found
}

/// Closes open calls, lets every strategy visit, files the call. The request's key goes on the
/// call itself: what is filed before it is the engine's.
pub(super) fn file_call(
    stage: &mut Stage<'_>,
    work: &Work<'_>,
    draft: &Draft,
    meta: &Meta,
    pass: &mut Pass<'_>,
) -> Result<Option<Call>, Error> {
    let key = meta.key.clone();
    let meta = Meta {
        key: None,
        ..meta.clone()
    };
    pass.begin(stage, work, &meta)?;
    pass.closed
        .extend(close_open_calls(stage, work, draft, &meta)?);
    if draft.visits {
        let looks = &mut *pass.looks;
        let known = (Trigger::Call, draft.provenance);
        file_visits(stage, work, known, &meta, &pass.ask, looks)?;
        if looks.wanted.is_some() {
            return Ok(None);
        }
    }
    let looks = std::mem::take(pass.looks);
    stage.state.settle();
    let rendered = draft.profile.map(|p| render_staged(stage, work, draft, p));
    let rendered = rendered.transpose()?;
    let called = Called {
        window: stage.state.digest(),
        messages: stage.state.window_len(),
        settings: stage
            .state
            .settings()
            .map_or(Hash::ZERO, |(_, s)| s.content.digest),
        model: draft.model.clone(),
        body: draft
            .profile
            .zip(rendered.as_ref())
            .map(|(p, r)| digest_of(p, r)),
    };
    let iteration = stage.iteration();
    let meta = Meta {
        key,
        provenance: draft.provenance,
        ..meta
    };
    let id = stage.file(Body::Called(called), meta)?;
    let window = Window {
        at: Some(id),
        items: Vec::new(),
        digest: stage.state.digest(),
    };
    Ok(Some(Call {
        id,
        iteration,
        window,
        visits: looks.visits,
        closed: std::mem::take(pass.closed),
        rendered,
        repeated: false,
        due: looks.due,
        failures: looks.failures,
    }))
}

/// The body for the window that the call is about to be filed with; some of its messages may be
/// staged only.
fn render_staged(
    stage: &Stage<'_>,
    work: &Work<'_>,
    draft: &Draft,
    profile: Profile,
) -> Result<Rendered, Error> {
    let words = Words {
        backend: work.store.backend(),
        conversation: work.lineage,
        secret: &|| Ok(work.secret),
        staged: &|seq, index| stage.payload(seq, index).cloned(),
    };
    let mut loaded = LoadPlan::of(stage.state, stage.state.window()).read(&words)?;
    loaded.model = draft.model.clone().or(loaded.model);
    Ok(loaded.render(profile, false))
}

fn digest_of(profile: Profile, rendered: &Rendered) -> RenderedBody {
    RenderedBody {
        profile: profile.name().to_owned(),
        renderer: RENDERER_VERSION,
        digest: Hash(*blake3::hash(rendered.body.as_bytes()).as_bytes()),
    }
}

/// The words of messages for strategies that make them smaller, some of them staged only.
struct StagedWords<'a, 's> {
    stage: &'a Stage<'s>,
    work: &'a Work<'a>,
    /// Why words could not be read.
    failed: Option<Error>,
}

impl StagedWords<'_, '_> {
    /// The words of a message as it is now; `None` where there is no such message.
    fn of(stage: &Stage<'_>, work: &Work<'_>, id: MessageId) -> Result<Option<Content>, Error> {
        let form = stage.state.message(id).and_then(MessageState::form);
        Self::read(stage, work, form)
    }

    fn read(
        stage: &Stage<'_>,
        work: &Work<'_>,
        form: Option<&Form>,
    ) -> Result<Option<Content>, Error> {
        let Some(form) = form else {
            return Ok(None);
        };
        let words = Words {
            backend: work.store.backend(),
            conversation: work.lineage,
            secret: &|| Ok(work.secret),
            staged: &|seq, index| stage.payload(seq, index).cloned(),
        };
        words
            .message(form.given, form.payload, &form.content)
            .map(Some)
    }
}

/// The words of a message as it was appended, unless they were redacted.
pub(super) fn as_it_came(
    stage: &Stage<'_>,
    work: &Work<'_>,
    id: MessageId,
) -> Result<Option<Message>, Error> {
    let form = stage.state.message(id).and_then(|m| m.forms.first());
    Ok(match StagedWords::read(stage, work, form)? {
        Some(Content::Message(message)) => Some(*message),
        _ => None,
    })
}

impl strategy::Words for StagedWords<'_, '_> {
    fn message(&mut self, id: MessageId) -> Option<Message> {
        match Self::of(self.stage, self.work, id) {
            Ok(Some(Content::Message(message))) => Some(*message),
            Ok(_) => None,
            Err(error) => {
                self.failed = Some(error);
                None
            }
        }
    }

    fn skeleton(&self, message: &Message, answers: &[Option<(Seq, u32)>]) -> Skeleton {
        let encoding = encoding(self.stage.state);
        skeleton(self.work, encoding, message, &answers.to_vec())
    }
}

/// Counts the tokens of messages that were logged before any strategy looked at tokens, or while the
/// request settings named a model of another encoding.
pub(super) fn supply_counts(stage: &mut Stage<'_>, work: &Work<'_>) -> Result<(), Error> {
    if !work.counts || !cfg!(feature = "tiktoken") {
        return Ok(());
    }
    let encoding = encoding(stage.state);
    let others: Vec<MessageId> = stage.state.uncounted(encoding.method()).collect();
    for id in others {
        let Some(words) = StagedWords::of(stage, work, id)? else {
            continue;
        };
        let words = words.into_message(Role::User, Author::Engine).words();
        if let Some(count) = encoding.count(&words) {
            stage.state.supply_count(id, count);
        }
    }
    Ok(())
}

/// Lets the strategies look that did not yet, each at the window that the one before left: after an
/// append those that look then, else all.
pub(super) fn file_visits(
    stage: &mut Stage<'_>,
    work: &Work<'_>,
    (trigger, provenance): (Trigger, Provenance),
    meta: &Meta,
    ask: &Ask<'_>,
    looks: &mut Looks,
) -> Result<(), Error> {
    supply_counts(stage, work)?;
    let from = usize::try_from(looks.next).unwrap_or(usize::MAX);
    for (position, strategy) in (0_u32..).zip(work.chain).skip(from) {
        if trigger == Trigger::Append && !strategy.on_append() {
            continue;
        }
        if counts(strategy.as_ref()) {
            // Whether a reading serves the window is told by its digest.
            stage.state.settle();
        }
        let outlook = with_words(stage, work, |state, words| {
            visit(state, strategy.as_ref(), position, trigger, words)
        })?;
        match (outlook, ask) {
            (Outlook::NotDue | Outlook::StandsDown, _) => {}
            (Outlook::Visit(visit), _) => {
                looks
                    .visits
                    .push(file_visit(stage, work, *visit, provenance, meta)?);
            }
            (Outlook::Consolidation(_), Ask::Nobody) => looks.due = true,
            (Outlook::Consolidation(plan), Ask::Later) => {
                looks.wanted = Some(*plan);
                return Ok(());
            }
            (Outlook::Consolidation(plan), Ask::Now(summarizer)) => {
                let words = staged_words(stage, work, &plan)?;
                let asked = summarizer::ask(&plan, &words, *summarizer);
                looks.failures.extend(asked.failure.clone());
                let concluding = Concluding {
                    plan: *plan,
                    asked,
                    provenance,
                };
                looks
                    .visits
                    .push(file_conclusion(stage, work, &concluding, meta)?);
            }
        }
    }
    Ok(())
}

/// Lets something that is pure read words.
pub(super) fn with_words<T>(
    stage: &Stage<'_>,
    work: &Work<'_>,
    look: impl FnOnce(&Projection, &mut dyn strategy::Words) -> T,
) -> Result<T, Error> {
    let mut words = StagedWords {
        stage,
        work,
        failed: None,
    };
    let seen = look(stage.state, &mut words);
    words.failed.map_or(Ok(seen), Err)
}

/// The words of what is to be summarised.
fn staged_words(
    stage: &Stage<'_>,
    work: &Work<'_>,
    plan: &Consolidation,
) -> Result<Vec<Option<Message>>, Error> {
    with_words(stage, work, |_, words| {
        plan.messages().map(|id| words.message(id)).collect()
    })
}

/// Files a visit, with the words of its stand-ins.
pub(super) fn file_visit(
    stage: &mut Stage<'_>,
    work: &Work<'_>,
    visit: Visit,
    provenance: Provenance,
    meta: &Meta,
) -> Result<Seq, Error> {
    let Visit {
        mut body,
        memo,
        contents,
    } = visit;
    for (stand_in, content) in body.change.stand_ins.iter_mut().zip(&contents) {
        stand_in.content = store_content(stage, work, content)?;
    }
    let meta = Meta {
        by: engine(&meta.by),
        provenance,
        key: None,
        ..meta.clone()
    };
    let seq = stage.file(Body::Visited(Box::new(body)), meta)?;
    stage.state.remember(memo);
    Ok(seq)
}

/// One go at letting a chain look.
pub(super) struct Pass<'a> {
    /// The answer to what the go before waited for.
    pub concluding: Option<&'a Concluding>,
    /// What is done about a summary that is wanted.
    pub ask: Ask<'a>,
    pub looks: &'a mut Looks,
    /// The calls that were closed.
    pub closed: &'a mut Vec<Seq>,
}

impl Pass<'_> {
    /// Files what there is of an answer.
    fn begin(&mut self, stage: &mut Stage<'_>, work: &Work<'_>, meta: &Meta) -> Result<(), Error> {
        if let Some(concluding) = self.concluding {
            let visit = file_conclusion(stage, work, concluding, meta)?;
            self.looks.visits.push(visit);
        }
        Ok(())
    }
}

/// What the engine files in someone's name.
pub(super) fn engine(by: &By) -> By {
    By {
        door: Door::Engine,
        ..by.clone()
    }
}

/// Calls of the window that have neither a final nor an interim result, and that a client has to
/// answer.
fn unanswered(stage: &Stage<'_>) -> Vec<((Seq, u32), CallInfo)> {
    let visible = |seq| {
        let message = stage.state.message(MessageId(seq));
        message.is_some_and(MessageState::visible)
    };
    let open = stage.state.open_calls();
    let answered = |c: &CallInfo| c.interim && !planted(Bug::InterimIsNoAnswer);
    open.filter(|((seq, _), c)| !c.native && !answered(c) && visible(*seq))
        .map(|(key, c)| (key, c.clone()))
        .collect()
}

fn close_open_calls(
    stage: &mut Stage<'_>,
    work: &Work<'_>,
    draft: &Draft,
    meta: &Meta,
) -> Result<Vec<Seq>, Error> {
    let open = match draft.policy {
        OpenCalls::Keep => return Ok(Vec::new()),
        OpenCalls::Close | OpenCalls::Refuse => unanswered(stage),
    };
    if draft.policy == OpenCalls::Refuse && !open.is_empty() {
        let names: Vec<String> = open.iter().map(|(_, c)| c.name.clone()).collect();
        let detail = format!("{} without a result: {}", names.len(), names.join(", "));
        return Err(Error::refused(RequestReason::OpenCalls, detail));
    }
    open.iter()
        .map(|(key, call)| close(stage, work, *key, call, meta))
        .collect()
}

/// Answers a call for the tool that did not, by its place: ids may repeat.
fn close(
    stage: &mut Stage<'_>,
    work: &Work<'_>,
    key: (Seq, u32),
    call: &CallInfo,
    meta: &Meta,
) -> Result<Seq, Error> {
    let message = interrupted(call.label.clone(), call.name.clone());
    let meta = Meta {
        by: engine(&meta.by),
        provenance: Provenance::Synthetic,
        ..meta.clone()
    };
    append_bound(
        stage,
        work,
        &message,
        &vec![Some(key)],
        Links::default(),
        meta,
    )
}
