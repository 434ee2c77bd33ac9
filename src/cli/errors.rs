//! How commands fail: an exit code, a code for programs, a sentence and a way out for people.

use std::io::Write;
use std::path::Path;

use ctxlog::Error;
use ctxlog::audit::{ExportError, SelectError};
use ctxlog::engine::Refusal;
use ctxlog::log::RequestReason;
use ctxlog::store::StoreError;
use ctxlog::strategy::SpecError;

use super::human::{self, Look};

/// Nothing matched, or the answer to a yes-or-no question is no.
pub const NO: u8 = 1;
/// Wrong usage, or the machine failed.
pub const USAGE: u8 = 2;
/// Something does not hang together.
pub const INTEGRITY: u8 = 3;
/// It worked and said no.
pub const REFUSED: u8 = 4;
/// Our bug.
pub const BUG: u8 = 255;

/// What to do about damage.
const SALVAGE: &str = "nothing was changed; `ctxlog verify` says what is trusted, and \
     `ctxlog export --salvage -c NAME -o FILE` saves that much for an import into a new store";

/// A command that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    pub exit: u8,
    pub code: String,
    pub message: String,
    pub help: String,
}

impl Failure {
    pub fn new(exit: u8, code: &str, message: impl Into<String>, help: impl Into<String>) -> Self {
        let (message, help) = (message.into(), help.into());
        Self {
            exit,
            code: code.to_owned(),
            message,
            help,
        }
    }

    pub fn usage(code: &str, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::new(USAGE, code, message, help)
    }

    pub fn integrity(message: impl Into<String>) -> Self {
        Self::new(INTEGRITY, "damaged", message, SALVAGE)
    }

    /// Reading or writing a file failed.
    pub fn file(doing: &str, path: &Path, error: &std::io::Error) -> Self {
        let message = format!("cannot {doing} {}: {error}", path.display());
        Self::usage("io", message, "check the path and its permissions")
    }

    /// Says it on stderr. That it cannot be said there either is nobody's business.
    pub fn say(&self, json: bool, look: Look) {
        let mut err = std::io::stderr().lock();
        if json {
            let error = serde_json::json!({
                "code": self.code, "message": self.message, "help": self.help,
            });
            let line = serde_json::json!({ "error": error }).to_string();
            let _ = writeln!(err, "{}", human::escape_json(&line));
            return;
        }
        let head = look.bad(&format!("error[{}]:", self.code));
        let message = human::escape_lines(&self.message);
        let end = if message.ends_with(['.', '!', '?']) {
            ""
        } else {
            "."
        };
        let _ = writeln!(err, "{head} {message}{end}");
        if !self.help.is_empty() {
            let _ = writeln!(
                err,
                "{} {}",
                look.bold("help:"),
                human::escape_lines(&self.help)
            );
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let exit = match refusal.reason {
            RequestReason::NothingMatches | RequestReason::RangeOutOfBounds => NO,
            RequestReason::InvalidOption | RequestReason::RangeInverted => USAGE,
            _ => REFUSED,
        };
        Self::new(exit, refusal.reason.name(), refusal.detail, refusal.help)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let error = match Error::from(error) {
            Error::Store(error) => error,
            refused => return refused.into(),
        };
        let message = error.to_string();
        match error {
            StoreError::NotAStore { .. } => {
                let help = "give the right directory with --store; this one was left untouched";
                Self::usage("not-a-store", message, help)
            }
            StoreError::Newer { .. } => Self::usage(
                "newer-format",
                message,
                "install a newer ctxlog; nothing was touched",
            ),
            StoreError::Older { .. } => Self::usage(
                "older-format",
                message,
                "export it with the ctxlog that wrote it; nothing was touched",
            ),
            StoreError::Damaged { .. } => Self::integrity(message),
            StoreError::NameTaken { .. } => {
                Self::new(REFUSED, "name-taken", message, "use another name")
            }
            StoreError::Indeterminate { .. } | StoreError::Poisoned { .. } => Self::usage(
                "indeterminate",
                message,
                "look at the head with `ctxlog status`",
            ),
            StoreError::Io { .. } => {
                Self::usage("io", message, "check the disk and the store's permissions")
            }
            StoreError::Malformed { .. } => Self::bug(message),
            _ => Self::usage("store", message, ""),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::Refused(refusal) => refusal.into(),
            Error::Store(error) => error.into(),
            Error::DamagedEntry { .. } | Error::Payload { .. } => Self::integrity(message),
            Error::Redacted { .. } => Self::new(
                NO,
                "redacted",
                message,
                "the words are gone; the log still verifies",
            ),
            Error::UnsupportedEntry { seq } => {
                let help = format!("install a newer ctxlog, or ask about an entry before {seq}");
                Self::new(REFUSED, "unsupported-entry", message, help)
            }
            Error::Randomness(_) => Self::usage("io", message, "check the system's randomness"),
            _ => Self::bug(message),
        }
    }
}

impl From<SelectError> for Failure {
    fn from(error: SelectError) -> Self {
        let message = error.to_string();
        match error {
            SelectError::Engine(error) => error.into(),
            SelectError::Ambiguous { .. } => {
                Self::usage("ambiguous-selector", message, "give more digits, or s:N")
            }
            _ => {
                let help = "selectors are @, @-3, it:27, s:209, m18 and hash prefixes; \
                            ranges are A..B and it:10..20";
                Self::usage("invalid-selector", message, help)
            }
        }
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        let message = error.to_string();
        match error {
            ExportError::Engine(error) => error.into(),
            ExportError::Io(error) => error.into(),
            _ => {
                let help = "nothing was written; export the log again from its store";
                Self::new(INTEGRITY, "damaged-export", message, help)
            }
        }
    }
}

impl From<SpecError> for Failure {
    fn from(error: SpecError) -> Self {
        let help = "a strategy is name:key=value,…, as in token-budget:limit=8000,keep=6";
        Self::usage(RequestReason::InvalidOption.name(), error.to_string(), help)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::usage(
            "io",
            format!("reading or writing failed: {error}"),
            "check the disk",
        )
    }
}

impl Failure {
    /// Something that cannot happen did.
    pub fn bug(message: impl AsRef<str>) -> Self {
        let message = format!("this is our bug, not yours: {}", message.as_ref());
        let help = "please report it with the command you gave; every append is whole or absent, \
                    so the log is as it was or one step further";
        Self::new(BUG, "bug", message, help)
    }
}
