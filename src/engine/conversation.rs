//! Stores and conversations as a library user holds them.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::log::{
    Body, By, ConversationId, Door, Entry, Hash, Head, Identity, Iteration, MessageId, Opened,
    Provenance, RequestReason, Seq, entry, entry::Sealed, payload, payload::Secret,
};
use crate::planted::{Bug, planted};
use crate::store::{Backend, Level, Listed, Name, StoreError};
use crate::strategy::{self, Strategy};
use crate::window::{Fold, Projection, Window};

use super::content::intact;
use super::environment::{Environment, System};
use super::error::{Error, Refusal};
use super::stage::{Meta, Stage};

/// The tenant of conversations whose caller names none.
const TENANT: &str = "default";

/// A store of conversations.
#[derive(Clone, Debug)]
pub struct Store {
    backend: Arc<dyn Backend>,
    environment: Arc<dyn Environment>,
    open: Arc<Mutex<HashMap<ConversationId, Arc<Inner>>>>,
    by: By,
    level: Level,
}

/// What an accepted request wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ack {
    /// The first entry it wrote.
    pub first: Seq,
    /// The last entry it wrote.
    pub last: Seq,
    /// How much the acknowledgement promises.
    pub level: Level,
    /// Whether the request's idempotency key had been seen, so that nothing was written now.
    pub repeated: bool,
}

impl Ack {
    /// The message the request added, for requests that add one.
    #[must_use]
    pub const fn message(&self) -> MessageId {
        MessageId(self.last)
    }
}

#[derive(Debug)]
struct Inner {
    id: ConversationId,
    name: Name,
    state: Mutex<State>,
}

/// What a conversation knows of its log.
#[derive(Debug)]
pub(super) struct State {
    pub projection: Projection,
    pub head: Option<Head>,
    pub secret: Secret,
    pub chain: Vec<Arc<dyn Strategy>>,
    /// The fold may be ahead of the store: read the log again before using it.
    stale: bool,
}

/// One log: append to it, call with its window, ask about it. Clones are the same conversation.
#[derive(Clone, Debug)]
pub struct Conversation {
    store: Store,
    inner: Arc<Inner>,
}

impl Store {
    /// Opens the store in this directory, creating it where there is none.
    ///
    /// # Errors
    /// When the directory holds something else, is of a newer format, is open elsewhere, or is
    /// damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Ok(Self::on(Arc::new(crate::store::SledStore::open(
            path.as_ref(),
        )?)))
    }

    /// A store in memory.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::on(Arc::new(crate::store::MemoryStore::new()))
    }

    /// A store on any backend.
    #[must_use]
    pub fn on(backend: Arc<dyn Backend>) -> Self {
        Self {
            backend,
            environment: Arc::new(System),
            open: Arc::default(),
            by: By {
                door: Door::Library,
                principal: String::new(),
            },
            level: Level::Synced,
        }
    }

    /// Takes clock and randomness from elsewhere.
    #[must_use]
    pub fn with_environment(mut self, environment: Arc<dyn Environment>) -> Self {
        self.environment = environment;
        self
    }

    /// Files what comes through this handle under another door and principal.
    #[must_use]
    pub fn with_door(mut self, door: Door, principal: impl Into<String>) -> Self {
        self.by = By {
            door,
            principal: principal.into(),
        };
        self
    }

    /// Acknowledges at another level; the default is [`Level::Synced`].
    #[must_use]
    pub const fn with_level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// Where the bytes live.
    #[must_use]
    pub fn backend(&self) -> &dyn Backend {
        self.backend.as_ref()
    }

    pub(super) fn environment(&self) -> &dyn Environment {
        self.environment.as_ref()
    }

    pub(super) const fn by(&self) -> &By {
        &self.by
    }

    pub(super) const fn level(&self) -> Level {
        self.level
    }

    /// All conversations, sorted by name.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn list(&self) -> Result<Vec<Listed>, Error> {
        Ok(self.backend.list(&[])?)
    }

    /// The conversation of this name, created where there is none.
    ///
    /// # Errors
    /// When the store fails or the log is damaged.
    pub fn conversation(&self, name: &str) -> Result<Conversation, Error> {
        let name = full_name(name);
        match self.backend.find(&name)? {
            Some(id) => self.load(id, name),
            None => self.create(name, None),
        }
    }

    /// The conversation of this name.
    ///
    /// # Errors
    /// `nothing-matches` where there is none.
    pub fn existing(&self, name: &str) -> Result<Conversation, Error> {
        let name = full_name(name);
        match self.backend.find(&name)? {
            Some(id) => self.load(id, name),
            None => {
                let detail = format!("there is no conversation '{}'", name.name);
                let refusal = Refusal::new(RequestReason::NothingMatches, detail);
                Err(refusal
                    .with_help("see what is there with `ctxlog ls`")
                    .into())
            }
        }
    }

    /// The conversation of this identity, under the name it is listed by.
    ///
    /// # Errors
    /// `nothing-matches` where there is none.
    pub fn by_id(&self, listed: Listed) -> Result<Conversation, Error> {
        self.load(listed.conversation, listed.name)
    }

    pub(super) fn create(
        &self,
        name: Name,
        identity: Option<ConversationId>,
    ) -> Result<Conversation, Error> {
        let random = || self.environment.random().map_err(Error::Randomness);
        let id = match identity {
            Some(id) => id,
            None => ConversationId(first_half(random()?)),
        };
        let secret = Secret(random()?);
        let mut state = State::empty(secret);
        let meta = Meta {
            at: self.environment.now(),
            by: self.by.clone(),
            provenance: Provenance::Recorded,
            key: None,
        };
        let mut stage = Stage::new(id, self.environment(), &mut state.projection, None);
        let secret = stage.content(payload::encode_secret(&secret))?;
        let opened = Opened {
            namespace: name.namespace.clone(),
            name: name.name.clone(),
            identity: Identity::Explicit,
            fork: None,
            started_by: None,
            secret,
        };
        stage.file(Body::Opened(opened), meta)?;
        let Some((batch, head)) = stage.batch(Some(name.clone())) else {
            return self.load(id, name);
        };
        match self.backend.append(batch, self.level) {
            Ok(()) => {}
            Err(StoreError::NameTaken { conversation, .. }) => {
                return self.load(conversation, name);
            }
            Err(error) => return Err(error.into()),
        }
        state.head = Some(head);
        Ok(self.share(id, name, state))
    }

    fn share(&self, id: ConversationId, name: Name, state: State) -> Conversation {
        let inner = Arc::new(Inner {
            id,
            name,
            state: Mutex::new(state),
        });
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let inner = Arc::clone(open.entry(id).or_insert(inner));
        Conversation {
            store: self.clone(),
            inner,
        }
    }

    fn load(&self, id: ConversationId, name: Name) -> Result<Conversation, Error> {
        let known = {
            let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.get(&id).map(Arc::clone)
        };
        if let Some(inner) = known {
            return Ok(Conversation {
                store: self.clone(),
                inner,
            });
        }
        let state = State::read(self, id)?;
        Ok(self.share(id, name, state))
    }

    /// Drops what is held in memory of a log whose entries came from elsewhere.
    pub(super) fn forget(&self, id: ConversationId) {
        self.open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&id);
    }

    /// Shows the decoded entries `from..=to` of a log, in order.
    ///
    /// # Errors
    /// When the store cannot be read, or an entry's bytes are damaged.
    pub fn entries(
        &self,
        id: ConversationId,
        from: Seq,
        to: Seq,
        show: &mut dyn FnMut(entry::Sealed) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let mut damaged = None;
        self.backend
            .entries(id, from, to, &mut |seq, bytes| match entry::open(bytes) {
                Ok(sealed) => show(sealed),
                Err(error) => {
                    damaged = Some(Error::DamagedEntry {
                        conversation: id,
                        seq,
                        reason: error.to_string(),
                    });
                    ControlFlow::Break(())
                }
            })?;
        damaged.map_or(Ok(()), Err)
    }
}

/// `tenant:name` would be ambiguous with names that hold colons, so a plain name lives under the
/// default tenant; typed namespaces come with identity.
pub(super) fn full_name(name: &str) -> Name {
    Name {
        namespace: vec![TENANT.to_owned()],
        name: name.to_owned(),
    }
}

fn first_half(bytes: [u8; 32]) -> [u8; 16] {
    let mut half = [0; 16];
    half.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    half
}

/// Whether an entry stands where it was found, behind the newest before it.
fn follows(id: ConversationId, newest: Option<Head>, sealed: &Sealed) -> bool {
    let (seq, prev) = newest.map_or((Seq(0), Hash::ZERO), |h| (h.seq.next(), h.hash));
    let entry = &sealed.entry;
    entry.conversation == id && entry.seq == seq && entry.prev == prev
}

impl State {
    const fn is_stale(&self) -> bool {
        self.stale
    }

    fn empty(secret: Secret) -> Self {
        Self {
            projection: Projection::default(),
            head: None,
            secret,
            chain: Vec::new(),
            stale: false,
        }
    }

    /// Folds a whole log from the store.
    fn read(store: &Store, id: ConversationId) -> Result<Self, Error> {
        let Some(head) = store.backend.head(id)? else {
            let detail = format!("there is no conversation with the id {id}");
            return Err(Error::refused(RequestReason::NothingMatches, detail));
        };
        let (mut fold, mut newest) = (Fold::default(), None);
        let mut secret = None;
        store.entries(id, Seq(0), head.seq, &mut |sealed| {
            if !follows(id, newest, &sealed) {
                return ControlFlow::Break(());
            }
            if let Body::Opened(opened) = &sealed.entry.body {
                secret = Some(opened.secret);
            }
            let cut_off = sealed.head() == head && matches!(sealed.entry.body, Body::Visited(_));
            if !(planted(Bug::LastVisitIsNotRead) && cut_off) {
                fold.apply(&sealed.entry);
            }
            newest = Some(sealed.head());
            ControlFlow::Continue(())
        })?;
        if newest != Some(head) {
            return Err(Error::DamagedEntry {
                conversation: id,
                seq: newest.map_or(Seq(0), |h| h.seq.next()),
                reason: format!("the chain ends before its head record, {}", head.seq),
            });
        }
        let held = store.backend.payload(id, Seq(0), 0)?;
        if let (Some(held), Some(to)) = (&held, &secret) {
            intact(Seq(0), held, to)?;
        }
        let mut state = Self::empty(match held {
            Some(found) => payload::decode_secret(&found.bytes)?,
            // Redacted: no new blob can be addressed, and the old ones went with it.
            None => Secret([0; 32]),
        });
        state.projection = fold.finish();
        state.head = Some(head);
        state.resolve_chain();
        Ok(state)
    }

    /// Strategies named by the log itself. One that this build does not know stays away: replay
    /// needs none, and a call says that it is missing.
    fn resolve_chain(&mut self) {
        let specs = self.projection.chain().to_vec();
        self.chain = specs
            .iter()
            .filter_map(|spec| strategy::parse(spec).ok())
            .collect();
    }
}

/// What a conversation is asked to do with its log, under its lock.
impl Conversation {
    /// Its identity.
    #[must_use]
    pub fn id(&self) -> ConversationId {
        self.inner.id
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name.name
    }

    /// The store it lives in.
    #[must_use]
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// The newest entry.
    ///
    /// # Errors
    /// When the log has to be read again and cannot.
    pub fn head(&self) -> Result<Option<Head>, Error> {
        Ok(self.lock()?.head)
    }

    pub(super) fn lock(&self) -> Result<MutexGuard<'_, State>, Error> {
        let mut state = self
            .inner
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if state.is_stale() {
            // Read before anything is given up: where that fails, the strategies are still known.
            let read = State::read(&self.store, self.inner.id)?;
            let chain = std::mem::replace(&mut *state, read).chain;
            // Strategies of one's own cannot be made from their spec.
            if chain
                .iter()
                .map(|s| s.spec())
                .eq(state.projection.chain().iter().cloned())
            {
                state.chain = chain;
            }
        }
        Ok(state)
    }

    /// The same for a request that expects a head: a head beyond the one known here may have been
    /// filed through another handle, so the log is read again.
    pub(super) fn lock_at(&self, expected: Option<Seq>) -> Result<MutexGuard<'_, State>, Error> {
        let mut state = self.lock()?;
        if expected > state.head.map(|head| head.seq) {
            state.stale = true;
            drop(state);
            return self.lock();
        }
        Ok(state)
    }

    /// Runs `work` on a stage over the current log and stores what it staged. When anything fails,
    /// the fold is read again from the store before it is used.
    pub(super) fn file<T>(
        &self,
        state: &mut State,
        work: impl FnOnce(&mut Stage<'_>, &Work<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let environment = self.store.environment();
        let work_on = Work {
            store: &self.store,
            secret: state.secret,
            // A fork shares its parent's blobs; there are no forks yet, so each log is its lineage.
            lineage: self.inner.id,
            chain: &state.chain,
            counts: state.chain.iter().any(|s| counts(s.as_ref())),
        };
        let mut stage = Stage::new(
            self.inner.id,
            environment,
            &mut state.projection,
            state.head,
        );
        let done = work(&mut stage, &work_on);
        let staged = stage.size().0 > 0;
        let batch = stage.batch(None);
        let level = if planted(Bug::SyncIsNotAwaited) {
            Level::Buffered
        } else {
            self.store.level
        };
        let stored = match (&done, batch) {
            (Err(_), _) | (Ok(_), None) => Ok(None),
            (Ok(_), Some((batch, head))) => {
                self.store.backend.append(batch, level).map(|()| Some(head))
            }
        };
        match (done, stored) {
            (Ok(value), Ok(head)) => {
                state.head = head.or(state.head);
                Ok(value)
            }
            (Err(error), _) => {
                state.stale = staged;
                Err(error)
            }
            // Someone else filed first, through another handle.
            (Ok(_), Err(StoreError::Stale { head })) => {
                state.stale = true;
                let now = head.map_or_else(|| "absent".to_owned(), |h| h.seq.to_string());
                let detail = format!("another writer was faster; the head is {now}");
                Err(Error::refused(RequestReason::StaleHead, detail))
            }
            (Ok(_), Err(error)) => {
                state.stale = true;
                Err(error.into())
            }
        }
    }

    /// Makes an acknowledgement true that writes nothing now: what the log says may wait for the
    /// disk, or never get there when an earlier write failed.
    pub(super) fn stands(&self, state: &State) -> Result<(), Error> {
        let backend = &self.store.backend;
        if backend.durable_head(self.inner.id)? != state.head {
            backend.sync(self.store.level)?;
        }
        Ok(())
    }

    /// Reads the fold.
    ///
    /// # Errors
    /// When the log has to be read again and cannot.
    pub fn with_projection<T>(&self, read: impl FnOnce(&Projection) -> T) -> Result<T, Error> {
        Ok(read(&self.lock()?.projection))
    }

    /// The window now.
    ///
    /// # Errors
    /// `unsupported-entry` when the log holds an unknown kind that changes windows.
    pub fn window(&self) -> Result<Window, Error> {
        let mut state = self.lock()?;
        supported(&state.projection, state.head.map_or(Seq(0), |h| h.seq))?;
        state.projection.settle();
        Ok(state.projection.window())
    }

    /// The window after entry `n`.
    ///
    /// # Errors
    /// `range-out-of-bounds` beyond the head; `unsupported-entry` behind an unknown kind that
    /// changes windows.
    pub fn window_after(&self, n: Seq) -> Result<Window, Error> {
        let state = self.lock()?;
        let head = state.head.map_or(Seq(0), |h| h.seq);
        if n > head {
            let detail = format!("{n} is beyond the head, {head}");
            return Err(Error::refused(RequestReason::RangeOutOfBounds, detail));
        }
        supported(&state.projection, n)?;
        Ok(state.projection.window_at(n))
    }

    /// The window that a call was sent.
    ///
    /// # Errors
    /// `range-out-of-bounds` when there was no such call.
    pub fn window_at(&self, iteration: Iteration) -> Result<Window, Error> {
        let sent = self.with_projection(|p| p.call(iteration).map(|s| s.fact.seq))?;
        match sent {
            Some(seq) => self.window_after(seq),
            None => {
                let calls = self.with_projection(|p| p.sent().len())?;
                let detail = format!("there is no {iteration}; the log has {calls} calls");
                Err(Error::refused(RequestReason::RangeOutOfBounds, detail))
            }
        }
    }

    /// One entry.
    ///
    /// # Errors
    /// `range-out-of-bounds` when there is none; a failure when its bytes are damaged.
    pub fn entry(&self, seq: Seq) -> Result<Entry, Error> {
        let mut found = None;
        self.store.entries(self.inner.id, seq, seq, &mut |sealed| {
            found = Some(sealed.entry);
            ControlFlow::Break(())
        })?;
        found.ok_or_else(|| {
            let detail = format!("there is no entry {seq}");
            Error::refused(RequestReason::RangeOutOfBounds, detail)
        })
    }
}

/// What work on a stage may use beside it.
pub(super) struct Work<'a> {
    pub store: &'a Store,
    pub secret: Secret,
    pub lineage: ConversationId,
    pub chain: &'a [Arc<dyn Strategy>],
    /// Whether a strategy of the chain looks at counted tokens.
    pub counts: bool,
}

/// Whether a strategy looks at counted tokens.
pub(super) fn counts(strategy: &dyn Strategy) -> bool {
    !matches!(
        strategy.measure(),
        None | Some(crate::window::Measure::Estimate)
    )
}

fn supported(projection: &Projection, n: Seq) -> Result<(), Error> {
    match projection.unsupported() {
        Some(seq) if seq <= n => Err(Error::UnsupportedEntry { seq }),
        _ => Ok(()),
    }
}
