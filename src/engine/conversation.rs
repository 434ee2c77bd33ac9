//! Stores and conversations as a library user holds them.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::log::{
    Body, By, Commitment, ConversationId, Door, Entry, Head, Identity, Kind, MessageId, Opened,
    Provenance, RequestReason, Seq, entry, entry::CodecError, payload, payload::Secret,
};
use crate::planted::{Bug, planted};
use crate::store::{Backend, Level, Listed, Name, SledOptions, SledStore, StoreError};
use crate::strategy::{self, Strategy};
use crate::window::{Pace, Projection};

use super::budget::Budget;
use super::content::intact;
use super::environment::{Environment, System};
use super::error::{Error, Refusal};
use super::known::{Known, State};
use super::lineage::Lineage;
use super::memory::{Held, Memory, Weight};
use super::namespace::Namespace;
use super::past::unchained;
use super::stage::{Meta, Stage};
use super::summarizer::{InFlight, Summarizer};

/// A store of conversations.
#[derive(Clone, Debug)]
pub struct Store {
    pub(super) backend: Arc<Lineage>,
    environment: Arc<dyn Environment>,
    pub(super) memory: Arc<Memory<Inner>>,
    by: By,
    level: Level,
    /// Who writes summaries.
    summarizer: Option<Arc<dyn Summarizer>>,
    /// Where this handle's conversations are; without it those of all are shown, and names are of the
    /// default one.
    pub(super) scope: Option<Namespace>,
    /// When snapshots are due, of a log of which nothing was read yet.
    pace: Pace,
}

/// Shows an entry's stored bytes; says whether to go on, or what is wrong with them.
type ShowBytes<'a> = &'a mut dyn FnMut(&[u8]) -> Result<ControlFlow<()>, CodecError>;

/// A tool call: conversation, message and part.
pub(super) type Call = (ConversationId, Seq, u32);

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

impl Conversation {
    /// What a request that wrote these entries is answered.
    pub(super) fn acknowledged(&self, first: Seq, last: Seq) -> Ack {
        Ack {
            first,
            last,
            level: self.store.level(),
            repeated: false,
        }
    }
}

#[derive(Debug)]
pub(super) struct Inner {
    id: ConversationId,
    pub(super) name: Name,
    state: Mutex<State>,
    /// The lineage's secret, once it was read.
    secret: OnceLock<Secret>,
    weight: Weight,
    /// Summaries that are being written.
    in_flight: InFlight,
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
        Self::open_within(path, Budget::default())
    }

    /// Opens the store in this directory with a memory budget of one's own: for sled's cache and for
    /// the conversations that are held.
    ///
    /// # Errors
    /// As [`Store::open`].
    ///
    /// ```no_run
    /// use ctxlog::engine::{Budget, Store};
    ///
    /// let store = Store::open_within(".ctxlog", Budget::of(64 << 20)?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_within(path: impl AsRef<Path>, budget: Budget) -> Result<Self, Error> {
        let options = SledOptions::default().with_cache_bytes(budget.cache_bytes());
        let backend = SledStore::open_with(path, options)?;
        Ok(Self::on(Arc::new(backend)).with_memory(budget.held_bytes()))
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
            backend: Arc::new(Lineage::new(backend)),
            environment: Arc::new(System),
            memory: Arc::default(),
            pace: Pace::default(),
            by: By {
                door: Door::Library,
                principal: String::new(),
            },
            level: Level::Synced,
            summarizer: None,
            scope: None,
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

    /// Lets someone write the summaries that strategies want. Without, a call says that one is due,
    /// and the caller may see to it: [`Conversation::plan_consolidation`].
    #[must_use]
    pub fn with_summarizer(mut self, summarizer: impl Summarizer + 'static) -> Self {
        self.summarizer = Some(Arc::new(summarizer));
        self
    }

    /// Lets nobody write summaries.
    #[must_use]
    pub fn without_summarizer(mut self) -> Self {
        self.summarizer = None;
        self
    }

    pub(super) fn summarizer(&self) -> Option<Arc<dyn Summarizer>> {
        self.summarizer.clone()
    }

    /// Holds conversations in memory up to about so many bytes, for all handles of this store; the
    /// default is [`Budget::held_bytes`] of the default budget. Beyond it those that were not used for
    /// the longest time are given up, and read again from the store when they are written to next. One
    /// that is in use stays, however large it is. A backend's own cache comes on top;
    /// [`Store::open_within`] divides one budget among both.
    #[must_use]
    pub fn with_memory(self, bytes: usize) -> Self {
        self.memory.set_budget(bytes);
        self
    }

    /// About how many bytes the conversations take that are held.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// Takes snapshots at another pace.
    #[cfg(feature = "testkit")]
    #[must_use]
    pub(crate) fn with_pace(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    /// Where the bytes live.
    #[must_use]
    pub fn backend(&self) -> &dyn Backend {
        self.backend.as_ref()
    }

    /// The same, shared: forks are whole in it.
    #[cfg(feature = "testkit")]
    pub(crate) fn shared_backend(&self) -> Arc<dyn Backend> {
        self.backend.clone()
    }

    pub(super) fn environment(&self) -> &dyn Environment {
        self.environment.as_ref()
    }

    pub(super) const fn by(&self) -> &By {
        &self.by
    }

    pub(super) const fn pace(&self) -> &Pace {
        &self.pace
    }

    pub(super) const fn level(&self) -> Level {
        self.level
    }

    /// All conversations, sorted by name; of a handle [`Store::within`] a namespace, those in it and
    /// in namespaces within it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn list(&self) -> Result<Vec<Listed>, Error> {
        let path = self.scope.as_ref().map(Namespace::path);
        Ok(self.backend.list(&path.unwrap_or_default())?)
    }

    /// The conversation of this name, created where there is none.
    ///
    /// # Errors
    /// When the store fails or the log is damaged.
    pub fn conversation(&self, name: &str) -> Result<Conversation, Error> {
        self.conversation_started(name, None)
    }

    /// The conversation of this name, made where there is none as one that a tool call started.
    pub(super) fn conversation_started(
        &self,
        name: &str,
        by: Option<Call>,
    ) -> Result<Conversation, Error> {
        let name = self.full_name(name);
        match self.backend.find(&name)? {
            Some(id) => self.load(id, name),
            None => self.create(name, by),
        }
    }

    /// The conversation of this name.
    ///
    /// # Errors
    /// `nothing-matches` where there is none.
    pub fn existing(&self, name: &str) -> Result<Conversation, Error> {
        let name = self.full_name(name);
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
        if self.scope.is_some() && self.backend.find(&listed.name)? != Some(listed.conversation) {
            return Err(absent(listed.conversation));
        }
        if !self.is_ours(&listed.name) {
            return Err(absent(listed.conversation));
        }
        self.load(listed.conversation, listed.name)
    }

    pub(super) fn create(
        &self,
        name: Name,
        started_by: Option<Call>,
    ) -> Result<Conversation, Error> {
        let id = self.new_id()?;
        let secret = Secret(self.environment.random().map_err(Error::Randomness)?);
        let mut state = State::empty(secret, self.pace.clone());
        let meta = Meta {
            at: self.environment.now(),
            by: self.by.clone(),
            // An importer read it from the source that a tool call started this.
            provenance: match started_by {
                Some(_) => Provenance::Inferred,
                None => Provenance::Recorded,
            },
            key: None,
        };
        let mut stage = Stage::new(id, self.environment(), &mut state.projection, None)
            .with_pace(&mut state.pace);
        let secret = stage.content(payload::encode_secret(&secret))?;
        let opened = Opened {
            namespace: name.namespace.clone(),
            name: name.name.clone(),
            identity: Identity::Explicit,
            fork: None,
            started_by,
            secret,
        };
        stage.file(Body::Opened(opened), meta)?;
        let taken = stage.taken();
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
        self.keep(id, &taken);
        state.head = Some(head);
        Ok(self.share(id, name, state))
    }

    /// An identity that nobody has.
    pub(super) fn new_id(&self) -> Result<ConversationId, Error> {
        let random = self.environment.random().map_err(Error::Randomness)?;
        Ok(ConversationId(first_half(random)))
    }

    fn share(&self, id: ConversationId, name: Name, state: State) -> Conversation {
        let inner = Inner {
            id,
            name,
            state: Mutex::new(state),
            secret: OnceLock::new(),
            weight: self.memory.weight(),
            in_flight: InFlight::default(),
        };
        Conversation {
            store: self.clone(),
            inner: self.memory.share(id, inner),
        }
    }

    pub(super) fn load(&self, id: ConversationId, name: Name) -> Result<Conversation, Error> {
        if let Some(inner) = self.memory.get(id) {
            let store = self.clone();
            return Ok(Conversation { store, inner });
        }
        let head = self.backend.head(id)?.ok_or_else(|| absent(id))?;
        let mut state = State::empty(Secret([0; 32]), self.pace.clone());
        state.fold = Known::Unread; // until something needs it
        state.head = Some(head);
        Ok(self.share(id, name, state))
    }

    /// Drops what is held in memory of a log whose entries came from elsewhere.
    pub(super) fn forget(&self, id: ConversationId) {
        self.memory.forget(id);
    }

    /// The secret of a log's lineage, which its first own entry commits to.
    pub(super) fn secret(
        &self,
        id: ConversationId,
        to: Option<(Seq, Commitment)>,
    ) -> Result<Secret, Error> {
        let first = to.as_ref().map_or(Seq(0), |(first, _)| *first);
        let held = self.backend.payload(id, first, 0)?;
        if let (Some(held), Some((_, to))) = (&held, &to) {
            intact(first, held, to)?;
        }
        Ok(match held {
            Some(found) => payload::decode_secret(&found.bytes)?,
            // Redacted: no new blob can be addressed, and the old ones went with it.
            None => Secret([0; 32]),
        })
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
        self.may_know(id)?;
        self.opened(id, from, to, &mut |bytes| Ok(show(entry::open(bytes)?)))
    }

    /// Shows those of the entries `from..=to` whose kind is wanted; the others are checked and not
    /// decoded.
    ///
    /// # Errors
    /// As [`Store::entries`].
    pub(crate) fn entries_of(
        &self,
        id: ConversationId,
        (from, to): (Seq, Seq),
        wanted: &dyn Fn(Seq, Option<Kind>) -> bool,
        show: &mut dyn FnMut(&Entry) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let mut seq = from;
        self.opened(id, from, to, &mut |bytes| {
            let entry = entry::open_if(bytes, |kind| wanted(seq, kind))?;
            seq = seq.next();
            Ok(entry.map_or(ControlFlow::Continue(()), |entry| show(&entry)))
        })
    }

    fn opened(
        &self,
        id: ConversationId,
        from: Seq,
        to: Seq,
        show: ShowBytes<'_>,
    ) -> Result<(), Error> {
        let mut damaged = None;
        self.backend.entries(id, from, to, &mut |seq, bytes| {
            show(bytes).unwrap_or_else(|error| {
                damaged = Some(Error::DamagedEntry {
                    conversation: id,
                    seq,
                    reason: error.to_string(),
                });
                ControlFlow::Break(())
            })
        })?;
        damaged.map_or(Ok(()), Err)
    }
}

pub(super) fn absent(id: ConversationId) -> Error {
    let detail = format!("there is no conversation with the id {id}");
    Error::refused(RequestReason::NothingMatches, detail)
}

fn first_half(bytes: [u8; 32]) -> [u8; 16] {
    let mut half = [0; 16];
    half.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    half
}

impl Held for Inner {
    fn weight(&self) -> &Weight {
        &self.weight
    }

    fn give_up(&self) -> Option<Box<dyn Send>> {
        let mut state = self.state.try_lock().ok()?;
        if state.is_held() {
            state.fold = Known::Unread;
        }
        Some(Box::new(std::mem::take(&mut state.projection)))
    }

    fn rest(&self) -> usize {
        let names = self.name.namespace.iter().chain([&self.name.name]);
        let names = names.map(String::len).fold(0, usize::saturating_add);
        size_of::<Self>().saturating_mul(2).saturating_add(names)
    }

    /// Strategies of one's own cannot be made from their spec.
    fn renewable(&self) -> bool {
        let own = |s: &Arc<dyn Strategy>| strategy::parse(&s.spec()).is_err();
        self.state
            .try_lock()
            .is_ok_and(|state| !state.chain.iter().any(own))
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

    /// Lets someone write the summaries that strategies want, for this handle.
    #[must_use]
    pub fn with_summarizer(mut self, summarizer: impl Summarizer + 'static) -> Self {
        self.store = self.store.with_summarizer(summarizer);
        self
    }

    /// As the store lists it.
    #[must_use]
    pub fn listed(&self) -> Listed {
        Listed {
            name: self.inner.name.clone(),
            conversation: self.inner.id,
        }
    }

    pub(super) fn in_flight(&self) -> &InFlight {
        &self.inner.in_flight
    }

    /// The namespace its name is of.
    ///
    /// # Errors
    /// `invalid-namespace` where the store lists it without a tenant.
    pub fn namespace(&self) -> Result<Namespace, Error> {
        Namespace::of(&self.inner.name)
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
        let mut state = self.guard();
        if !state.is_held() {
            state.head = self.store.backend.head(self.inner.id)?;
            state.fold = Known::Unread;
        }
        Ok(state.head)
    }

    fn guard(&self) -> MutexGuard<'_, State> {
        let state = self.inner.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// The fold, if it is held.
    pub(super) fn held(&self) -> Option<MutexGuard<'_, State>> {
        Some(self.guard()).filter(|state| state.is_held())
    }

    /// Whether the fold is held, so that asking it costs nothing.
    pub(crate) fn is_held(&self) -> bool {
        self.held().is_some()
    }

    /// The fold, read from the store where it is not held.
    pub(super) fn lock(&self) -> Result<MutexGuard<'_, State>, Error> {
        let mut state = self.guard();
        if !state.is_held() {
            // Read before anything is given up: where that fails, the strategies are still known.
            let read = State::read(&self.store, self.inner.id)?;
            let before = std::mem::replace(&mut *state, read);
            let went_on = before.head.is_some() && before.head != state.head;
            state.behind = before.fold == Known::Unread && went_on;
            let chain = before.chain;
            // Strategies of one's own cannot be made from their spec.
            if chain
                .iter()
                .map(|s| s.spec())
                .eq(state.projection.chain().iter().cloned())
            {
                state.chain = chain;
            }
        }
        self.note_use(&state);
        Ok(state)
    }

    /// Says that the fold is used, and how large it is now.
    fn note_use(&self, state: &State) {
        let bytes = state.bytes();
        self.store.memory.used(self.inner.id, &self.inner, bytes);
    }

    /// The lineage's secret.
    pub(super) fn secret(&self) -> Result<Secret, Error> {
        if let Some(known) = self.inner.secret.get() {
            return Ok(*known);
        }
        if let Some(state) = self.held() {
            // Known from here on without the lock, which whoever asks next may hold.
            return Ok(*self.inner.secret.get_or_init(|| state.secret));
        }
        let first = self.store.backend.first(self.id())?.unwrap_or(Seq(0));
        let Body::Opened(opened) = self.entry(first)?.body else {
            return Err(Error::DamagedEntry {
                conversation: self.id(),
                seq: first,
                reason: "it does not open the log".to_owned(),
            });
        };
        let secret = self.store.secret(self.id(), Some((first, opened.secret)))?;
        Ok(*self.inner.secret.get_or_init(|| secret))
    }

    /// The same for a request that expects a head: a head beyond the one known here may have been
    /// filed through another handle, so the log is read again.
    pub(super) fn lock_at(&self, expected: Option<Seq>) -> Result<MutexGuard<'_, State>, Error> {
        let mut state = self.lock()?;
        if expected > state.head.map(|head| head.seq) {
            state.fold = Known::Doubtful;
            drop(state);
            return self.lock();
        }
        // The caller says what it decided on; that is looked at instead.
        state.behind &= expected.is_none();
        Ok(state)
    }

    /// Runs `work` on a stage over the current log and stores what it staged. When anything fails,
    /// the fold is read again from the store before it is used.
    pub(super) fn file<T>(
        &self,
        state: &mut State,
        work: impl FnOnce(&mut Stage<'_>, &Work<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if std::mem::take(&mut state.behind) {
            return Err(stale(state.head));
        }
        let environment = self.store.environment();
        let work_on = Work {
            store: &self.store,
            secret: state.secret,
            lineage: self.inner.id,
            chain: &state.chain,
            counts: state.chain.iter().any(|s| counts(s.as_ref())),
        };
        let mut stage = Stage::new(
            self.inner.id,
            environment,
            &mut state.projection,
            state.head,
        )
        .with_pace(&mut state.pace);
        let done = work(&mut stage, &work_on);
        let staged = stage.size().0 > 0;
        let taken = stage.taken();
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
                self.store.keep(self.inner.id, &taken);
                self.note_use(state);
                Ok(value)
            }
            (Err(error), _) => {
                if staged {
                    state.fold = Known::Doubtful;
                }
                Err(error)
            }
            // Someone else filed first, through another handle.
            (Ok(_), Err(StoreError::Stale { head })) => {
                state.fold = Known::Doubtful;
                Err(stale(head))
            }
            (Ok(_), Err(error)) => {
                state.fold = Known::Doubtful;
                Err(error.into())
            }
        }
    }

    /// Refuses where the log went on through another handle.
    pub(super) fn is_newest(&self, state: &mut State) -> Result<(), Error> {
        let head = self.store.backend.head(self.inner.id)?;
        if head == state.head {
            return Ok(());
        }
        state.fold = Known::Doubtful;
        Err(stale(head))
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
        let mut state = self.lock()?;
        state.behind = false; // it is shown now
        Ok(read(&state.projection))
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
        match found {
            Some(entry) if entry.seq == seq && self.store.belongs(self.id(), &entry) => Ok(entry),
            Some(_) => Err(unchained(self.id(), seq)),
            None => {
                let detail = format!("there is no entry {seq}");
                Err(Error::refused(RequestReason::RangeOutOfBounds, detail))
            }
        }
    }
}

fn stale(head: Option<Head>) -> Error {
    let now = head.map_or_else(|| "absent".to_owned(), |h| h.seq.to_string());
    let detail = format!("another writer was faster; the head is {now}");
    Error::refused(RequestReason::StaleHead, detail)
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
    strategy
        .measure()
        .is_some_and(crate::window::Measure::counts)
}
