//! Makes the steps of a plan, and compares.

mod lineage;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Run;
use super::against::Against;
use super::plan::{Plan, Step};
use super::sources;
use crate::audit::{self, ExportError};
use crate::engine::{Error, Store};
use crate::log::{Body, ConversationId, Hash, Message, Micros, RequestReason, Seq};
use crate::store::{Backend, Level, Listed, MemoryStore, Name, StoreError};
use crate::testkit::fault::{Delivery, Fault, FaultStore, Planned};
use crate::testkit::ledger::{End, Kept, Ledger};
use crate::testkit::model::moments;
use crate::testkit::{Answer, Failure, Op, Request, World};

/// After so many answers that a handle is of no use any more, the process is ended.
const PATIENCE: u64 = 4;

struct Client {
    conversation: usize,
    world: World,
    level: Level,
    /// The newest keyed request whose outcome is unknown.
    unsettled: Option<Request>,
}

struct Sim<'a> {
    plan: &'a Plan,
    medium: FaultStore,
    ledger: Ledger,
    against: Against,
    clients: Vec<Client>,
    /// Per conversation: how many of its logs were given up as damaged.
    damaged: Vec<u64>,
    /// The same of the imported and of the taken log.
    imports: u64,
    taken: u64,
    lives: u64,
    /// Answers in a row by a handle that is of no use.
    useless: u64,
    failed_syncs: usize,
    /// The client that asks does not know all of its log.
    behind: bool,
    /// What clients saw: entries of a log, and the digest of its window.
    seen: BTreeMap<ConversationId, Vec<(usize, Hash)>>,
    trace: blake3::Hasher,
    run: Run,
}

/// What a request came to.
pub(super) enum Outcome {
    Done,
    Refused(RequestReason),
    /// A failure that its type names.
    Failed(String),
}

/// Makes a plan's steps.
///
/// # Errors
/// The step, from 1, and what may not happen.
pub(super) fn execute(plan: &Plan) -> Result<Run, (usize, String)> {
    let mut sim = Sim::new(plan).map_err(|what| (0, what))?;
    let mut number = 0_usize;
    for step in &plan.steps {
        number = number.saturating_add(1);
        sim.step(step)
            .map_err(|what| (number, format!("{step}: {what}")))?;
    }
    let last = number.saturating_add(1);
    sim.finish()
        .map_err(|what| (last, format!("at the end: {what}")))
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

impl<'a> Sim<'a> {
    fn new(plan: &'a Plan) -> Result<Self, String> {
        let medium = FaultStore::new(plan.seed).with_background(plan.background);
        let mut sim = Self {
            plan,
            medium,
            ledger: Ledger::default(),
            against: Against::default(),
            clients: Vec::new(),
            damaged: vec![0; plan.conversations.len()],
            imports: 0,
            taken: 0,
            lives: 0,
            useless: 0,
            failed_syncs: 0,
            behind: false,
            seen: BTreeMap::new(),
            trace: blake3::Hasher::new(),
            run: Run {
                digest: Hash::ZERO,
                steps: 0,
                entries: 0,
                answered: (0, 0),
                edits: (0, 0),
                ends: 0,
                faults: BTreeMap::new(),
                told: 0,
                shortened: 0,
            },
        };
        if plan.conversations.is_empty() {
            return Err("a plan without conversations".to_owned());
        }
        for client in 0..plan.clients {
            let conversation = client
                .checked_rem(plan.conversations.len())
                .unwrap_or_default();
            let world = sim.world(client, conversation)?;
            sim.clients.push(Client {
                conversation,
                world,
                level: Level::Synced,
                unsettled: None,
            });
        }
        sim.observe()?;
        sim.against.follow(&sim.ledger)?;
        sim.ledger.promise(Level::Synced);
        Ok(sim)
    }

    fn name(&self, conversation: usize) -> String {
        let damaged = self.damaged.get(conversation).copied().unwrap_or_default();
        format!("chat-{conversation}-{damaged}")
    }

    /// A client's own handles.
    fn world(&self, client: usize, conversation: usize) -> Result<World, String> {
        let script = self.plan.conversations.get(conversation);
        let script = script.ok_or("there is no such conversation")?;
        let backend: Arc<dyn Backend> = Arc::new(self.medium.clone());
        let client = u64::try_from(client).unwrap_or_default();
        let turn = self.lives.wrapping_mul(1_000).wrapping_add(client);
        let seed = self.plan.seed.wrapping_mul(1_000_003).wrapping_add(turn);
        World::on(backend, &self.name(conversation), script, &[], seed).map_err(text)
    }

    fn note(&mut self, what: &str) {
        self.trace.update(what.as_bytes());
        self.trace.update(b"\n");
    }

    fn observe(&mut self) -> Result<(), String> {
        let before = self.written();
        // A request has several calls: what one of them wrote may rot at the next, unnoted.
        while let Err((id, what)) = self.ledger.observe(self.whole().backend()) {
            match id.filter(|id| self.lied(Some(*id))) {
                Some(id) => self.give_up(id),
                None => return Err(what),
            }
        }
        let added = self.written().saturating_sub(before);
        let added = u64::try_from(added).unwrap_or(u64::MAX);
        self.run.entries = self.run.entries.saturating_add(added);
        Ok(())
    }

    /// What the medium shows, with forks made whole.
    fn whole(&self) -> Store {
        Store::on(Arc::new(self.medium.view()))
    }

    fn written(&self) -> usize {
        let logs = self.ledger.logs.values();
        logs.fold(0, |sum, kept| sum.saturating_add(kept.entries.len()))
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        self.run.steps = self.run.steps.saturating_add(1);
        self.note(&step.to_string());
        match step {
            Step::Do { client, key, op } => self.act(*client, *key, op),
            Step::Retry(client) => self.retry(*client),
            Step::Level(client, level) => {
                if let Some(client) = self.clients.get_mut(*client) {
                    client.level = *level;
                }
                Ok(())
            }
            Step::Import(client, steps) => self.import(*client, *steps),
            Step::Take(client, entries) => self.take(*client, *entries),
            Step::Fault {
                verb,
                fault,
                call,
                detail,
            } => {
                let call = self.medium.calls(*verb).saturating_add(*call);
                self.medium.plan(Planned {
                    verb: *verb,
                    call,
                    fault: *fault,
                    detail: *detail,
                });
                Ok(())
            }
            Step::Kill(keep) => self.end(End::Killed, *keep),
            Step::Cut(keep) => self.end(End::Cut, *keep),
            Step::Reopen => self.end(End::Closed, 0),
        }
    }

    /// A client does something.
    fn act(&mut self, client: usize, key: Option<u64>, op: &Op) -> Result<(), String> {
        let Some(at) = self.clients.get_mut(client) else {
            return Ok(());
        };
        let turn = i64::try_from(self.run.steps).unwrap_or_default();
        let resolved = at.levelled().and_then(|()| at.world.resolve(op));
        match resolved {
            Ok(None) => Ok(()),
            Ok(Some(mut request)) => {
                dress(&mut request, key, turn, self.plan, at.conversation);
                self.ask(client, &request)
            }
            Err(failure) => self.settle(client, None, Err(failure)),
        }
    }

    fn retry(&mut self, client: usize) -> Result<(), String> {
        let Some(at) = self.clients.get_mut(client) else {
            return Ok(());
        };
        match at.unsettled.take() {
            Some(request) => self.ask(client, &request),
            None => Ok(()),
        }
    }

    fn ask(&mut self, client: usize, request: &Request) -> Result<(), String> {
        let Some(at) = self.clients.get_mut(client) else {
            return Ok(());
        };
        let known = at.levelled().and_then(|()| Ok(at.world.chat.head()?));
        let head = match known {
            Ok(head) => head.map(|head| head.seq),
            Err(failure) => return self.settle(client, None, Err(failure)),
        };
        let id = at.world.chat.id();
        self.behind = !self.against.knows_all(id, head);
        let answer = at.world.ask(request);
        self.settle(client, Some((request, id)), answer)
    }

    /// Takes an answer for what it is, notes what it promised, and compares what the client sees.
    fn settle(
        &mut self,
        client: usize,
        request: Option<(&Request, ConversationId)>,
        answer: Result<Answer, Failure>,
    ) -> Result<(), String> {
        let outcome = match answer {
            Ok(Answer::Done) => Outcome::Done,
            Ok(Answer::Refused(reason)) => Outcome::Refused(reason),
            Err(failure) => self.typed(failure)?,
        };
        let before = self.run.entries;
        self.observe()?;
        self.predicted(client, request, &outcome)?;
        let failed = self.medium.deliveries();
        let failed = failed
            .iter()
            .filter(|d| d.planned.fault == Fault::SyncError);
        let failed = failed.count();
        if failed > self.failed_syncs {
            self.failed_syncs = failed;
            self.ledger.sync_failed();
        }
        let level = self.clients.get(client).map(|c| c.level);
        let request = request.map(|(request, _)| request);
        match (&outcome, request, level) {
            (Outcome::Done, Some(request), Some(level)) if writes(request) => {
                let chat = self.clients.get(client).map(|c| &c.world.chat);
                match chat.filter(|_| self.run.entries == before) {
                    Some(chat) => {
                        let head = chat.head().map_err(text)?.map(|head| head.seq);
                        self.ledger.promise_of(chat.id(), level, head);
                    }
                    None => self.ledger.promise(level),
                }
            }
            (Outcome::Failed(_), Some(request), _) if keyed(request) => {
                if let Some(at) = self.clients.get_mut(client) {
                    at.unsettled = Some(request.clone());
                }
            }
            _ => {}
        }
        self.count(request, &outcome);
        self.compare(client)?;
        if self.useless >= PATIENCE {
            let keep = usize::try_from(self.run.steps).unwrap_or_default();
            return self.end(End::Killed, keep.checked_rem(3).unwrap_or_default());
        }
        Ok(())
    }

    /// What a request came to is what the model says.
    fn predicted(
        &mut self,
        client: usize,
        request: Option<(&Request, ConversationId)>,
        outcome: &Outcome,
    ) -> Result<(), String> {
        let kept = request.and_then(|(_, id)| self.ledger.logs.get(&id));
        if let (Some(_), Some((request @ Request::Fork { at, .. }, parent)), Outcome::Done) =
            (kept, request, outcome)
        {
            let fork = self.log_of(client).and_then(|id| self.ledger.logs.get(&id));
            let fork = fork.ok_or("a fork that is not there")?;
            self.against.forked(parent, fork, request, *at)?;
        } else if let (Some(kept), Some((request, id))) = (kept, request) {
            let how = (outcome, self.behind);
            let answers = self.clients.get(client);
            let answers = answers.map(|c| c.world.summaries.answers());
            let answers = answers.unwrap_or_default();
            self.against.answered(id, kept, request, how, answers)?;
        }
        self.against.follow(&self.ledger)
    }

    fn count(&mut self, request: Option<&Request>, outcome: &Outcome) {
        let (forks, redactions) = &mut self.run.edits;
        match request.filter(|_| matches!(outcome, Outcome::Done)) {
            Some(Request::Fork { .. }) => *forks = forks.saturating_add(1),
            Some(Request::Redact(_)) => *redactions = redactions.saturating_add(1),
            _ => {}
        }
        let (done, failed) = &mut self.run.answered;
        match outcome {
            Outcome::Done => *done = done.saturating_add(1),
            Outcome::Failed(_) => *failed = failed.saturating_add(1),
            Outcome::Refused(_) => {}
        }
        let what = match outcome {
            Outcome::Done => "done",
            Outcome::Refused(reason) => reason.name(),
            Outcome::Failed(what) => what,
        };
        self.note(what);
    }

    /// A failure must be one of the store's, and of a kind that the medium gives cause for.
    fn typed(&mut self, failure: Failure) -> Result<Outcome, String> {
        let what = failure.to_string();
        let store = match failure.downcast::<Error>() {
            Ok(error) => match *error {
                Error::Refused(refusal) => return Ok(Outcome::Refused(refusal.reason)),
                Error::Store(error) => Some(error),
                Error::DamagedEntry { .. } | Error::Payload { .. } => None,
                _ => return Err(format!("a failure without a cause: {what}")),
            },
            Err(failure) => match failure.downcast::<StoreError>() {
                Ok(error) => Some(*error),
                Err(_) => return Err(what),
            },
        };
        match store {
            Some(StoreError::Indeterminate { .. } | StoreError::Poisoned { .. }) => {
                self.useless = self.useless.saturating_add(1);
            }
            Some(StoreError::Io { .. }) => {}
            // Damage needs a medium that lied.
            None | Some(StoreError::Damaged { .. }) if self.lied(None) => {}
            _ => return Err(format!("a failure without a cause: {what}")),
        }
        Ok(Outcome::Failed(what))
    }

    /// Whether the medium lied, to a log or at all.
    fn lied(&self, log: Option<ConversationId>) -> bool {
        let delivered = self.medium.deliveries();
        let mut lies = delivered.iter().filter(|d| d.planned.fault.lies());
        let owners = log.map(|log| self.owners(log)).unwrap_or_default();
        let of_log = |d: &Delivery| d.conversation.is_some_and(|id| owners.contains(&id));
        !self.plan.trusted && lies.any(|d| log.is_none() || of_log(d))
    }

    /// What a client sees is what was written.
    fn compare(&mut self, client: usize) -> Result<(), String> {
        let Some(at) = self.clients.get(client) else {
            return Ok(());
        };
        let id = at.world.chat.id();
        let window = match at.world.chat.window() {
            Ok(window) => window,
            Err(error) => return self.typed(error.into()).map(drop),
        };
        let Some(kept) = self.ledger.logs.get(&id) else {
            return Ok(()); // it was given up
        };
        let entries = window.at.map_or(0, |at| at.0.saturating_add(1));
        let entries = usize::try_from(entries).unwrap_or(usize::MAX);
        if kept.digest(entries) != Some(window.digest) {
            return Err(format!(
                "the window at {:?} is not that of the log",
                window.at
            ));
        }
        self.note(&window.digest.to_string());
        self.seen
            .entry(id)
            .or_default()
            .push((entries, window.digest));
        Ok(())
    }

    fn import(&mut self, client: usize, steps: usize) -> Result<(), String> {
        let name = format!("imported-{}", self.imports);
        let Some(at) = self.clients.get_mut(client) else {
            return Ok(());
        };
        let transcript = sources::transcript(steps);
        let answer = at.levelled().and_then(|()| {
            let done = at
                .world
                .store
                .import(&name, &transcript, Vec::new(), &mut |_| {});
            done.map(drop).map_err(Failure::from)
        });
        self.brought(client, answer)
    }

    fn take(&mut self, client: usize, entries: usize) -> Result<(), String> {
        let lines = sources::lines(self.taken)?;
        let Some(at) = self.clients.get_mut(client) else {
            return Ok(());
        };
        let mut lines = lines.into_iter().take(entries).map(Ok);
        let answer = at.levelled().and_then(|()| {
            match audit::import_lines(&at.world.store, &mut lines, None) {
                Ok(_) => Ok(()),
                Err(ExportError::Engine(error)) => Err(error.into()),
                Err(error) => Err(error.into()),
            }
        });
        self.brought(client, answer)
    }

    fn brought(&mut self, client: usize, answer: Result<(), Failure>) -> Result<(), String> {
        let level = self.clients.get(client).map(|c| c.level);
        let done = answer.is_ok();
        self.settle(client, None, answer.map(|()| Answer::Done))?;
        if let Some(level) = level.filter(|_| done) {
            self.ledger.promise(level);
        }
        Ok(())
    }

    /// A process ends, and the next one opens the store.
    fn end(&mut self, end: End, keep: usize) -> Result<(), String> {
        self.modelled()?;
        self.medium.unplan();
        self.medium = match end {
            End::Killed => self.medium.kill(keep),
            End::Cut => self.medium.power_cut(keep),
            End::Closed => self.medium.reopen(),
        };
        self.medium.make_room();
        self.useless = 0;
        self.lives = self.lives.saturating_add(1);
        self.run.ends = self.run.ends.saturating_add(1);
        let view = self.medium.view();
        let ids: Vec<ConversationId> = self.ledger.logs.keys().copied().collect();
        for id in ids {
            self.judge(id, end, &view)?;
        }
        self.ledger
            .restart(end, Store::on(Arc::new(view)).backend())?;
        self.against.restart(&self.ledger)?;
        self.reopen()
    }

    /// What a log is after a process ended.
    fn judge(&mut self, id: ConversationId, end: End, view: &MemoryStore) -> Result<(), String> {
        let Some(kept) = self.ledger.logs.get(&id) else {
            return Ok(());
        };
        let store = Store::on(Arc::new(view.clone()));
        let name = kept.listed.name.name.clone();
        let verified = audit::verify(&store, &kept.listed, &mut |_, _| {}).map_err(text)?;
        if !verified.ok {
            let problems = verified.problems.join("; ");
            if !self.lied(Some(id)) {
                return Err(format!("'{name}' does not verify: {problems}"));
            }
            let delivered = self.medium.deliveries();
            let owners = self.owners(id);
            let of_log = delivered
                .iter()
                .filter(|d| d.conversation.is_some_and(|id| owners.contains(&id)));
            let places: Vec<Option<Seq>> = of_log.map(|d| d.seq).collect();
            // A blob has no place of its own: it shows where it is mentioned.
            // Of a redaction whose entry was lost, the words that it named show.
            let lost = kept
                .log
                .iter()
                .any(|e| match (&e.body, verified.first_bad) {
                    (Body::Redacted(said), Some(bad)) => {
                        places.contains(&Some(e.seq)) && (0..8).any(|i| said.names(bad, i))
                    }
                    _ => false,
                });
            if !lost && !places.contains(&verified.first_bad) && !places.contains(&None) {
                let found = verified.first_bad;
                return Err(format!(
                    "'{name}': {problems}; found {found:?}, was {places:?}"
                ));
            }
            no_wrong_window(&store, kept)?;
            self.run.told = self.run.told.saturating_add(1);
            self.give_up(id);
            return Ok(());
        }
        let left = self.ledger.survived(id, store.backend())?;
        if left < kept.promised(end) {
            if !self.lied(None) {
                let promised = kept.promised(end);
                return Err(format!(
                    "'{name}' has {left} entries, {promised} were promised"
                ));
            }
            self.run.shortened = self.run.shortened.saturating_add(1);
        }
        self.note(&format!("{name}: {left} left"));
        Ok(())
    }

    /// A damaged log is not gone on with: its clients begin another.
    fn give_up(&mut self, id: ConversationId) {
        let Some(kept) = self.ledger.give_up(id) else {
            return;
        };
        let name = kept.listed.name.name;
        self.note(&format!("{name}: damaged"));
        if name == sources::taken(self.taken) {
            self.taken = self.taken.saturating_add(1);
        } else if name == format!("imported-{}", self.imports) {
            self.imports = self.imports.saturating_add(1);
        }
        for conversation in 0..self.damaged.len() {
            if self.name(conversation) == name
                && let Some(damaged) = self.damaged.get_mut(conversation)
            {
                *damaged = damaged.saturating_add(1);
            }
        }
    }

    /// Every client opens its conversation again, and says something.
    fn reopen(&mut self) -> Result<(), String> {
        for number in 0..self.clients.len() {
            let conversation = self.clients.get(number).map_or(0, |c| c.conversation);
            let name = self.name(conversation);
            if self.is_there(number, &name)? {
                let backend: Arc<dyn Backend> = Arc::new(self.medium.clone());
                if let Some(at) = self.clients.get_mut(number) {
                    at.world.backend = backend;
                    at.world
                        .reopen()
                        .map_err(|e| format!("opening again: {e}"))?;
                }
            } else {
                let world = self.world(number, conversation)?;
                if let Some(at) = self.clients.get_mut(number) {
                    (at.world, at.unsettled) = (world, None);
                }
            }
            self.observe()?;
            self.against.follow(&self.ledger)?;
            let hello = Request::Append(Message::model("here again"), Box::default());
            let level = self.clients.get_mut(number).map(|c| c.level);
            let (done, _) = self.run.answered;
            self.ask(number, &hello)?;
            if self.run.answered.0 == done && level.is_some() {
                return Err("the next append does not work".to_owned());
            }
            self.finish_redactions(number)?;
        }
        Ok(())
    }

    /// Everything that clients saw is what the naive fold makes of the same entries.
    fn modelled(&mut self) -> Result<(), String> {
        for (id, seen) in std::mem::take(&mut self.seen) {
            let Some(kept) = self.ledger.logs.get(&id) else {
                continue;
            };
            let truth = moments(&kept.log);
            for (entries, digest) in seen {
                let last = entries.checked_sub(1).and_then(|at| truth.get(at));
                if last.map(|moment| Hash(moment.digest)) != Some(digest) {
                    return Err(format!(
                        "after {entries} entries the naive fold has another window"
                    ));
                }
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Run, String> {
        self.end(End::Closed, 0)?;
        self.end(End::Cut, 0)?;
        self.modelled()?;
        for delivery in self.medium.deliveries() {
            let count = self.run.faults.entry(delivery.planned.fault).or_default();
            *count = count.saturating_add(1);
        }
        for (id, kept) in &self.ledger.logs {
            self.trace.update(&id.0);
            for (hash, digest) in &kept.entries {
                self.trace.update(&hash.0).update(&digest.0);
            }
        }
        self.run.digest = Hash(*self.trace.finalize().as_bytes());
        Ok(self.run)
    }
}

impl Client {
    /// The client's handle, at the level it wants.
    fn levelled(&mut self) -> Result<(), Failure> {
        let listed = Listed {
            name: full(self.world.chat.name()),
            conversation: self.world.chat.id(),
        };
        let store = self.world.store.clone().with_level(self.level);
        self.world.chat = store.by_id(listed)?;
        self.world.store = store;
        Ok(())
    }
}

fn full(name: &str) -> Name {
    Name {
        namespace: vec!["default".to_owned()],
        name: name.to_owned(),
    }
}

/// Gives a request its key and its time. A call under a key goes without a report, which is another
/// request and has no key.
fn dress(request: &mut Request, key: Option<u64>, turn: i64, plan: &Plan, conversation: usize) {
    // A visit takes no key.
    let visits = matches!(request, Request::Visit(_));
    if let (Request::Call { usage, failed, .. }, Some(_)) = (&mut *request, key) {
        (*usage, *failed) = (None, false);
    }
    let (Request::Append(_, options) | Request::Call { options, .. } | Request::Visit(options)) =
        request
    else {
        return;
    };
    let key = key.filter(|_| !visits);
    if let Some(key) = key {
        options.key = Some(format!("step {key}"));
    }
    let times = plan
        .conversations
        .get(conversation)
        .map(|c| c.times.as_slice());
    let times = times.unwrap_or_default();
    let at = usize::try_from(turn)
        .unwrap_or_default()
        .checked_rem(times.len());
    let seconds = at.and_then(|at| times.get(at)).copied().unwrap_or(turn);
    options.at = Some(Micros(seconds.saturating_mul(1_000_000)));
}

/// Whether a request's acknowledgement promises a level. A visit may find nothing to file.
const fn writes(request: &Request) -> bool {
    !matches!(
        request,
        Request::Window(_) | Request::Range(_) | Request::Reopen | Request::Visit(_)
    )
}

fn keyed(request: &Request) -> bool {
    match request {
        Request::Append(_, options) | Request::Call { options, .. } => options.key.is_some(),
        _ => false,
    }
}

/// A damaged log gives no window, or one there was.
fn no_wrong_window(store: &Store, kept: &Kept) -> Result<(), String> {
    let window = store
        .by_id(kept.listed.clone())
        .and_then(|chat| chat.window());
    let Ok(window) = window else {
        return Ok(());
    };
    let left = window.at.map_or(0, |at| at.0.saturating_add(1));
    if kept.digest(usize::try_from(left).unwrap_or(usize::MAX)) == Some(window.digest) {
        Ok(())
    } else {
        Err("a damaged log gave a window there never was".to_owned())
    }
}
