//! Bugs to plant on purpose, so that the tests can be tested.
//!
//! In a build with `--cfg planted` one bug at a time can be chosen at run time; in every other build
//! there is none, and the question is answered when the code is compiled. Each bug is a mistake
//! that a log like this one has been seen to make somewhere.

/// Makes the list of bugs: variant, name, what has to see it, what goes wrong.
macro_rules! bugs {
    ($($variant:ident = $name:literal, $law:literal, $sentence:literal;)+) => {
        /// A bug that can be planted.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Bug { $(#[doc = $sentence] $variant,)+ }

        impl Bug {
            /// Every bug.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The name of the check that has to see it: the law that it breaks, one beside the laws
            /// (`model`, `simulated-faults`, `import`), or `canary`: every check.
            #[must_use]
            pub const fn law(self) -> &'static str {
                match self { $(Self::$variant => $law,)+ }
            }

            /// What goes wrong, in one plain sentence.
            #[must_use]
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$variant => $sentence,)+ }
            }
        }
    };
}

bugs! {
    GroupIsAPair = "group-is-a-pair", "closure", "Of a group that leaves, the messages after the second stay.";
    RestoreForgetsTheGroup = "restore-forgets-the-group", "closure", "Restoring brings back the message alone.";
    LateResultsStayTogether = "late-results-stay-together", "closure", "One message holds late results of groups that left apart.";
    OldestCallIsAnswered = "oldest-call-is-answered", "occurrence", "A result answers the oldest open call of its id.";
    IdIsAnsweredOnce = "id-is-answered-once", "occurrence", "An id that was answered once is taken to be answered for ever.";
    SameStrategiesAreFiledAgain = "same-strategies-are-filed-again", "no-op", "Setting the strategies that are set writes an entry.";
    SteeringMayLeave = "steering-may-leave", "envelope-and-request", "Of the current request only the first message is held.";
    RepeatedIdsAreSent = "repeated-ids-are-sent", "legality", "Calls with the same id are sent as they are.";
    SupersededIsGone = "superseded-is-gone", "conservation", "What a real result stands for now is told to be gone.";
    SecondSummaryDropsTheFirst = "second-summary-drops-the-first", "conservation", "When a second summary is made, what the first kept is gone.";
    OneReasonIsRecorded = "one-reason-is-recorded", "accounting", "A visit records the refusals of one reason only.";
    NoticesAreAlwaysWritten = "notices-are-always-written", "shrink", "A notice is written that is longer than what it tells of.";
    LargerSummariesAreTaken = "larger-summaries-are-taken", "shrink", "A summary stands for messages that are smaller than it.";
    FailuresAreSummaries = "failures-are-summaries", "failure-neutrality", "What a summariser says that failed stands for the messages.";
    SummaryTakesWhatCameLater = "summary-takes-what-came-later", "late-arrivals", "A summary stands for what could leave when it was committed, whatever it was made of.";
    NeverStandsDown = "never-stands-down", "progress", "A visit that frees nothing is filed again at every call.";
    ClockOrders = "clock-orders", "order", "The oldest is what has the earliest wall time.";
    DigestOmitsForm = "digest-omits-form", "replay", "A window's digest does not say which content a message has.";
    LivesHoldTheirEnd = "lives-hold-their-end", "replay", "In the table of lives a message is there still after the entry by which it left.";
    CallIsSentTheWindowBefore = "call-is-sent-the-window-before", "replay", "A call hands out the window from before its visits.";
    OutlineForgetsSupersession = "outline-forgets-supersession", "replay", "From a snapshot on, what a real result stands for stays in the window.";
    SnapshotIsOneEntryLate = "snapshot-is-one-entry-late", "replay", "A snapshot is kept as that of the entry before the one after which it was taken.";
    SnapshotPastItsForkPoint = "snapshot-past-its-fork-point", "replay", "A snapshot of the parent serves a fork that left it earlier.";
    LogsShareTheirPayloads = "logs-share-their-payloads", "isolation", "Payloads are found by their entry's number alone, among logs that are no forks.";
    UndoForgetsWhatEntered = "undo-forgets-what-entered", "undo", "Undoing leaves in the window what the entry had brought in.";
    LastVisitIsNotRead = "last-visit-is-not-read", "crash", "Opening a log that ends with a visit passes it over.";
    HashOmitsKind = "hash-omits-kind", "tamper", "An entry's hash does not cover its kind.";
    HashOmitsParent = "hash-omits-parent", "tamper", "An entry's hash does not cover the hash before it.";
    EveryRefusalIsListedAgain = "every-refusal-is-listed-again", "linear-size", "A visit lists all refusals, not those that changed.";
    TwoWritersWin = "two-writers-win", "concurrency", "The store does not compare heads.";
    LastChangeIsNamedFirst = "last-change-is-named-first", "stable-prefix", "A visit names the last changed position as the first.";
    WhyNamesTheNewestVisit = "why-names-the-newest-visit", "explain", "A refusal that ended is told to stand until the newest visit.";
    WhyEndsAtTheFork = "why-ends-at-the-fork", "explain", "Of a fork, what left in it is told to have left where it was forked.";
    AwayMessagesKeepTheirForm = "away-messages-keep-their-form", "explain", "The fold ignores a replacement of a message that is not in the window.";
    LivesAreCountedFromLogging = "lives-are-counted-from-logging", "lifetimes", "The life of a restored message begins when it was first logged.";
    ClockNeverGoesBack = "clock-never-goes-back", "lifetimes", "A clock that went back gives a length all the same.";
    ClockIsTheSystems = "clock-is-the-systems", "determinism", "Entries without a time get the system's, whatever clock was injected.";
    RedactionTakesTheHash = "redaction-takes-the-hash", "lineage", "With the words goes what the entry committed to.";
    ClaimsOutliveTheirSources = "claims-outlive-their-sources", "lineage", "A summary of a message stays when the message is redacted.";
    BlobsOutliveTheirMention = "blobs-outlive-their-mention", "lineage", "A blob that only redacted words mentioned stays.";
    ForksForgetWhatWent = "forks-forget-what-went", "lineage", "A fork of a place before a redaction does not say that it lacks the words.";
    InterimIsNoAnswer = "interim-is-no-answer", "model", "A call that has an interim result is closed as if it had none.";
    SyncIsNotAwaited = "sync-is-not-awaited", "simulated-faults", "What is acknowledged as synced was only buffered.";
    RepeatedIdsAreCounted = "repeated-ids-are-counted", "import", "Each line of an answer with the same id is counted as a call.";
    StoreTakesNothing = "store-takes-nothing", "canary", "The store takes nothing at all: whatever looks has to see it.";
}

/// Bugs whose feature does not exist yet: what goes wrong, and the feature.
pub const PENDING: &[(&str, &str)] = &[];

#[cfg(planted)]
mod chosen {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::Bug;

    static CHOSEN: AtomicUsize = AtomicUsize::new(usize::MAX);

    /// Plants one bug for the whole process, or none.
    pub fn plant(bug: Option<Bug>) {
        let at = bug.and_then(|bug| Bug::ALL.iter().position(|b| *b == bug));
        CHOSEN.store(at.unwrap_or(usize::MAX), Ordering::SeqCst);
    }

    pub(crate) fn planted(bug: Bug) -> bool {
        Bug::ALL.get(CHOSEN.load(Ordering::SeqCst)) == Some(&bug)
    }
}

#[cfg(planted)]
pub use chosen::plant;
#[cfg(planted)]
pub(crate) use chosen::planted;

/// Whether this bug is planted now.
#[cfg(not(planted))]
pub(crate) const fn planted(_: Bug) -> bool {
    false
}
