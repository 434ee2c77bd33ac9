//! The laws by name: what each says, and which of them wait for a feature.

use std::fmt;

/// Makes the list of laws: variant, name, statement, and the feature it waits for, if it does.
macro_rules! laws {
    ($($variant:ident = $name:literal, $statement:literal, $pending:expr;)+) => {
        /// A law of the log and its windows.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Law { $(#[doc = $statement] $variant,)+ }

        impl Law {
            /// Every law.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// What it says.
            #[must_use]
            pub const fn statement(self) -> &'static str {
                match self { $(Self::$variant => $statement,)+ }
            }

            /// The feature that has to exist before it can be checked; `None`: it is checked.
            #[must_use]
            pub const fn pending(self) -> Option<&'static str> {
                match self { $(Self::$variant => $pending,)+ }
            }
        }
    };
}

laws! {
    Closure = "closure", "For every group the window holds all of it or none.", None;
    Occurrence = "occurrence", "Renaming all call ids to one constant changes nothing.", None;
    NoOp = "no-op", "A window that needs no change is returned unchanged.", None;
    EnvelopeAndRequest = "envelope-and-request", "The system envelope and the current request are in every window.", None;
    Legality = "legality", "Every rendered window passes every hard rule of its provider.", None;
    Conservation = "conservation", "Every message is exactly one of visible, gone, covered.", None;
    Accounting = "accounting", "Every visit accounts for every group.", None;
    Shrink = "shrink", "A stand-in is smaller than what it stands for.", None;
    Progress = "progress", "A visit frees something, or says why not and is not repeated until something changed.", None;
    FailureNeutrality = "failure-neutrality", "A failing, empty or late summariser leaves the window equal.", None;
    LateArrivals = "late-arrivals", "Entries appended after a consolidation's base survive its commit.", None;
    Order = "order", "Permuting timestamps changes no order.", None;
    Replay = "replay", "Folding the log up to n gives the window that was shown at n.", None;
    Isolation = "isolation", "Appending to one conversation never changes a view of another.", None;
    Undo = "undo", "Undoing gives the view before, is itself an entry, and can be undone.", None;
    Crash = "crash", "After a crash the acknowledged prefix is there and the next append is readable.", None;
    Tamper = "tamper", "A change that does not recompute every later hash is detected and located.", None;
    LinearSize = "linear-size", "Stored bytes grow linearly in new content.", None;
    Concurrency = "concurrency", "Accepted appends are distinct entries, losers are told, nothing is unreachable.", None;
    StablePrefix = "stable-prefix", "Between visits the rendered prefix is stable; each visit reports the first changed position.", None;
    Lineage = "lineage", "Redacting a message reaches every derived claim, blob and snapshot.", None;
    Explain = "explain", "Why answers for every message ever logged and every moment.", None;
    Lifetimes = "lifetimes", "Counted lifetimes equal the difference of admission and leaving.", None;
    Determinism = "determinism", "The same inputs give the same log bytes.", None;
}

impl Law {
    /// The law of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|law| law.name() == name)
    }

    /// The laws that wait for a feature.
    pub fn waiting() -> impl Iterator<Item = (Self, &'static str)> {
        Self::ALL
            .iter()
            .filter_map(|law| Some((*law, law.pending()?)))
    }

    /// Whether it also binds what an importer read from a source, which knows no such laws.
    #[must_use]
    pub const fn binds_sources(self) -> bool {
        matches!(
            self,
            Self::Closure
                | Self::Conservation
                | Self::Replay
                | Self::Explain
                | Self::Lifetimes
                | Self::Determinism
        )
    }

    pub(super) fn broken(self, detail: impl ToString) -> Broken {
        Broken {
            law: self,
            detail: detail.to_string(),
        }
    }
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A law that does not hold.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the law '{law}' is broken: {detail}")]
pub struct Broken {
    /// The law.
    pub law: Law,
    /// Where and how.
    pub detail: String,
}
