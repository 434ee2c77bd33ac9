//! A store that fails on purpose: a cache over a simulated medium, with faults that are planned
//! for the nth call of a verb and counted when they happen.
//!
//! ```
//! use std::sync::Arc;
//! use ctxlog::testkit::fault::{Fault, FaultStore, Verb};
//! use ctxlog::{Message, Store};
//!
//! # fn main() -> Result<(), ctxlog::Error> {
//! let medium = FaultStore::new(7);
//! let chat = Store::on(Arc::new(medium.clone())).conversation("a")?;
//! chat.append(Message::person("kept"))?;
//! medium.plan_next(Verb::Append, Fault::SyncError, 0);
//! assert!(chat.append(Message::person("lost")).is_err()); // its outcome is unknown
//! let reopened = medium.power_cut(0);
//! assert_eq!(medium.deliveries().len(), 1); // the fault was there
//! let chat = Store::on(Arc::new(reopened)).existing("a")?;
//! assert_eq!(chat.window()?.items.len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! The model. A write is seen by its process at once and waits in a cache. `Buffered` promises
//! nothing, `Flushed` that a killed process does not take it along, `Synced` that it is on the
//! medium. A seeded background write moves the oldest of what waits at any time. [`FaultStore::kill`]
//! keeps what was flushed, [`FaultStore::power_cut`] what is on the medium and as much more, oldest
//! first, as it is told. Either ends the life of all handles; the new handle that it gives sees
//! what survived and nothing else.
//!
//! After a failed sync the system calls the pages clean: what waited is gone, what was flushed
//! included, although later syncs succeed.
//!
//! Within the contract of [`Backend`](crate::store::Backend) are errors, and crashes that lose an
//! unsynced tail; they must leave every law standing. Beyond it is a medium that lies
//! ([`Fault::lies`]): lost, torn, overtaking and repeated writes, a sync that did nothing, bit rot.
//! Those must be told, by a typed error or by `verify` at the right entry. One of them no log can
//! tell: where the newest synced entries are lost as a whole, what is left is a shorter log that
//! verifies. Whoever kept the acknowledgements knows.

mod backend;
mod medium;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::medium::Medium;
use crate::log::{ConversationId, Seq};
use crate::store::MemoryStore;

/// Makes a closed set with names.
macro_rules! named {
    ($(#[$doc:meta])* $type:ident: $($variant:ident = $name:literal, $sentence:literal;)+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $type { $(#[doc = $sentence] $variant,)+ }

        impl $type {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The one of this name.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.name() == name)
            }
        }
    };
}

named! {
    /// A verb of [`Backend`](crate::store::Backend).
    Verb:
    Append = "append", "Appends a batch.";
    Head = "head", "Reads a head.";
    DurableHead = "durable-head", "Reads a durable head.";
    Entries = "entries", "Reads a range of entries.";
    Payload = "payload", "Reads a payload.";
    DestroyPayload = "destroy-payload", "Destroys a payload.";
    List = "list", "Lists conversations.";
    Find = "find", "Finds a conversation by its name.";
    PutBlob = "put-blob", "Stores a blob.";
    Blob = "blob", "Reads a blob.";
    SweepBlobs = "sweep-blobs", "Destroys blobs that nothing mentions.";
    PutDerived = "put-derived", "Stores derived data.";
    Derived = "derived", "Reads derived data.";
    DerivedBefore = "derived-before", "Reads the last derived data up to a name.";
    Sync = "sync", "Brings what was acknowledged to a level.";
    Check = "check", "Looks for damage.";
}

named! {
    /// What a store or its medium can do wrong.
    Fault:
    ReadError = "read-error", "A read answers with an input/output error.";
    ErrorNotApplied = "error-not-applied", "A write answers with an error and was not done.";
    ErrorApplied = "error-applied", "A write answers with an error and was done.";
    NoSpace = "no-space", "From this call on the medium takes only so many bytes more.";
    SyncError = "sync-error", "A sync answers with an error, and what waited for it is gone although later syncs succeed.";
    LostWrite = "lost-write", "A write is acknowledged and never reaches the medium.";
    TornWrite = "torn-write", "A write reaches the medium with its last value cut.";
    LateWrite = "late-write", "A write that nobody synced reaches the medium after the next one.";
    TwiceWritten = "twice-written", "A write reaches the medium again after the next one.";
    LostSync = "lost-sync", "A sync is acknowledged and did nothing.";
    RottenEntry = "rotten-entry", "A bit of a stored entry flips.";
    RottenPayload = "rotten-payload", "A bit of a stored payload flips.";
    RottenBlob = "rotten-blob", "A bit of a stored blob flips.";
}

impl Verb {
    /// Whether it writes.
    #[must_use]
    pub const fn writes(self) -> bool {
        self.changes() || matches!(self, Self::Sync)
    }

    /// Whether it changes what is stored.
    #[must_use]
    pub const fn changes(self) -> bool {
        matches!(
            self,
            Self::Append
                | Self::DestroyPayload
                | Self::PutBlob
                | Self::SweepBlobs
                | Self::PutDerived
        )
    }

    /// Whether it takes the level of its acknowledgement.
    #[must_use]
    pub const fn syncs(self) -> bool {
        matches!(self, Self::Append | Self::DestroyPayload | Self::Sync)
    }
}

impl Fault {
    /// Whether it can happen at a call of this verb.
    #[must_use]
    pub const fn meets(self, verb: Verb) -> bool {
        match self {
            Self::ReadError => !verb.writes(),
            Self::ErrorNotApplied
            | Self::ErrorApplied
            | Self::NoSpace
            | Self::LostWrite
            | Self::LateWrite
            | Self::TwiceWritten => verb.changes(),
            Self::TornWrite => {
                matches!(verb, Verb::Append | Verb::PutBlob | Verb::PutDerived)
            }
            Self::SyncError | Self::LostSync => verb.syncs(),
            Self::RottenEntry | Self::RottenPayload | Self::RottenBlob => true,
        }
    }

    /// Whether it is beyond the contract: the medium answers well and holds something else.
    #[must_use]
    pub const fn lies(self) -> bool {
        !matches!(
            self,
            Self::ReadError
                | Self::ErrorNotApplied
                | Self::ErrorApplied
                | Self::NoSpace
                | Self::SyncError
        )
    }
}

/// A fault that is to happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Planned {
    /// At a call of this verb.
    pub verb: Verb,
    /// At which of them, from 1, over the life of the medium. Where that call cannot meet the
    /// fault (a sync with nothing to lose, a read of nothing that could rot), the next that can.
    pub call: u64,
    /// What happens.
    pub fault: Fault,
    /// [`Fault::NoSpace`]: the bytes that still fit. Rot: which bit, taken modulo. Otherwise
    /// without meaning.
    pub detail: u64,
}

/// A fault that happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// As it was planned.
    pub planned: Planned,
    /// The log that it touched.
    pub conversation: Option<ConversationId>,
    /// The entry at which it shows, where it shows: the first that is lost, cut, rotten, or beyond
    /// a head record that was put back.
    pub seq: Option<Seq>,
}

/// A handle of the store that fails on purpose. Clones are the same handle.
#[derive(Clone, Debug)]
pub struct FaultStore {
    medium: Arc<Mutex<Medium>>,
    life: u64,
}

impl FaultStore {
    /// An empty store without faults. The seed decides what is written in the background, where
    /// that is asked for.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let medium = Medium::new(seed);
        Self {
            life: medium.life(),
            medium: Arc::new(Mutex::new(medium)),
        }
    }

    /// Lets this many of a hundred writes be followed by a background write of some of the oldest
    /// that wait.
    #[must_use]
    pub fn with_background(self, percent: u64) -> Self {
        self.medium().background = percent;
        self
    }

    /// Plans a fault.
    pub fn plan(&self, planned: Planned) {
        self.medium().plan(planned);
    }

    /// Plans a fault for the next call of a verb.
    pub fn plan_next(&self, verb: Verb, fault: Fault, detail: u64) {
        let mut medium = self.medium();
        let call = medium.calls(verb).saturating_add(1);
        medium.plan(Planned {
            verb,
            call,
            fault,
            detail,
        });
    }

    /// Forgets every fault that did not happen yet; says how many those were.
    pub fn unplan(&self) -> usize {
        self.medium().unplan()
    }

    /// The faults that happened, in order.
    #[must_use]
    pub fn deliveries(&self) -> Vec<Delivery> {
        self.medium().deliveries().to_vec()
    }

    /// How often a verb was called.
    #[must_use]
    pub fn calls(&self, verb: Verb) -> u64 {
        self.medium().calls(verb)
    }

    /// How many writes wait for the medium.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.medium().waiting()
    }

    /// Takes the limit off a medium that was full.
    pub fn make_room(&self) {
        self.medium().space = None;
    }

    /// Kills the process: what was flushed stays, and of what was only buffered the `keep` oldest
    /// writes. Every handle is dead; gives that of the next process.
    #[must_use]
    pub fn kill(&self, keep: usize) -> Self {
        self.next_life(|medium| medium.kill(keep))
    }

    /// Cuts the power: what is on the medium stays, and of what waited the `keep` oldest writes.
    /// Every handle is dead; gives that of the next process.
    #[must_use]
    pub fn power_cut(&self, keep: usize) -> Self {
        self.next_life(|medium| medium.power_cut(keep))
    }

    /// Closes the store in good order and opens it again. Every handle is dead; gives the next.
    #[must_use]
    pub fn reopen(&self) -> Self {
        self.next_life(Medium::close)
    }

    fn next_life(&self, end: impl FnOnce(&mut Medium)) -> Self {
        let mut medium = self.medium();
        end(&mut medium);
        Self {
            life: medium.life(),
            medium: Arc::clone(&self.medium),
        }
    }

    /// What the process sees, for harnesses: read past the verbs, so that no fault is met.
    pub(crate) fn view(&self) -> MemoryStore {
        self.medium().view()
    }

    fn medium(&self) -> MutexGuard<'_, Medium> {
        self.medium.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
