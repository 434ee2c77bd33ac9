//! Bugs to plant on purpose, so that the tests can be tested.
//!
//! In a build with `--cfg planted` one bug at a time can be chosen at run time; in every other build
//! there is none, and the question is answered when the code is compiled. Each bug is a mistake
//! that a log like this one has been seen to make somewhere.

/// Makes the list of bugs: variant, name, the law it breaks, what goes wrong.
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

            /// The name of the law that it breaks.
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
    HashOmitsKind = "hash-omits-kind", "tamper", "An entry's hash does not cover its kind.";
    HashOmitsParent = "hash-omits-parent", "tamper", "An entry's hash does not cover the hash before it.";
}

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
