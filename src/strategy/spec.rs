//! Strategy specs: `name:key=value,…`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::presets::written_out;
use super::{
    Buffer, ClearToolResults, Expire, HeadTail, SlidingWindow, Strategy, SummarizeOldest,
    TokenBudget, TruncateOutputs,
};
use crate::window::AgeUnit;

/// Strategies that a spec can name.
pub const NAMES: &[&str] = &[
    "sliding-window",
    "head-tail",
    "buffer",
    "token-budget",
    "clear-tool-results",
    "truncate-outputs",
    "expire",
    "summarize-oldest",
];

/// The units that lifetimes are given in.
pub(super) const AGE_UNITS: &[(&str, AgeUnit)] = &[
    ("call", AgeUnit::Call),
    ("entry", AgeUnit::Entry),
    ("time", AgeUnit::Time),
];

/// The name of one of several values.
pub(super) fn name_of<T: PartialEq>(names: &'static [(&'static str, T)], value: T) -> &'static str {
    names
        .iter()
        .find(|(_, v)| *v == value)
        .map_or("", |(name, _)| name)
}

/// A spec that names no strategy, or an option with a value it cannot have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SpecError {
    /// No such strategy.
    #[error("there is no strategy '{name}'; there are {}", NAMES.join(", "))]
    Name {
        /// The name given.
        name: String,
    },
    /// An option has a value it cannot have.
    #[error("{strategy}: {option}={value} is not possible; it takes {takes}")]
    Value {
        /// The strategy.
        strategy: String,
        /// The option.
        option: String,
        /// The value given.
        value: String,
        /// What it takes.
        takes: String,
    },
    /// A required option is missing.
    #[error("{strategy}: {option} is required")]
    Missing {
        /// The strategy.
        strategy: String,
        /// The option.
        option: String,
    },
    /// A spec that cannot name a strategy in a log.
    #[error("the spec {spec:?} is {problem}: it names the strategy in the log and in scripts")]
    Form {
        /// How it begins.
        spec: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// An option the strategy does not have, or one given twice, or a text without `=`.
    #[error("{strategy}: '{text}' is no option here, or is given twice")]
    Unknown {
        /// The strategy.
        strategy: String,
        /// The text.
        text: String,
    },
}

impl SpecError {
    /// An option's value that is not possible; for strategies of one's own too.
    #[must_use]
    pub fn option(strategy: &str, option: &str, value: &str, takes: &str) -> Self {
        Self::Value {
            strategy: strategy.to_owned(),
            option: option.to_owned(),
            value: value.to_owned(),
            takes: takes.to_owned(),
        }
    }
}

/// The most bytes of a spec. Every visit repeats it.
const LONGEST: usize = 1 << 10;

/// Whether a spec can name a strategy: one line of moderate length.
///
/// # Errors
/// When it cannot, and why.
pub fn check_form(spec: &str) -> Result<(), SpecError> {
    let problem = if spec.is_empty() {
        "empty"
    } else if spec.len() > LONGEST {
        "longer than 1024 bytes"
    } else if spec.chars().any(char::is_control) {
        "not one line of text"
    } else if spec.trim() != spec {
        "one that begins or ends with a blank"
    } else {
        return Ok(());
    };
    Err(SpecError::Form {
        spec: spec.chars().take(40).collect(),
        problem,
    })
}

/// The options of a spec, taken one by one so that leftovers are found.
#[derive(Clone, Debug)]
pub struct Options {
    strategy: String,
    left: BTreeMap<String, String>,
}

impl Options {
    fn new(strategy: &str, text: &str) -> Result<Self, SpecError> {
        let mut left: BTreeMap<String, String> = BTreeMap::new();
        for pair in text.split(',').filter(|p| !p.is_empty()) {
            // What follows a comma in a path is no option.
            if let Some(command) = left.get("command").filter(|_| !pair.contains('=')) {
                let path = format!("{command},{pair}");
                let takes = "a path without a comma";
                return Err(SpecError::option(strategy, "command", &path, takes));
            }
            let unknown = || SpecError::Unknown {
                strategy: strategy.to_owned(),
                text: pair.to_owned(),
            };
            let (key, value) = pair.split_once('=').ok_or_else(unknown)?;
            let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
            if left.insert(key, value).is_some() {
                return Err(unknown());
            }
        }
        Ok(Self {
            strategy: strategy.to_owned(),
            left,
        })
    }

    fn take<T>(
        &mut self,
        option: &str,
        takes: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, SpecError> {
        let Some(value) = self.left.remove(option) else {
            return Ok(None);
        };
        match read(&value) {
            Some(read) => Ok(Some(read)),
            None => Err(SpecError::option(&self.strategy, option, &value, takes)),
        }
    }

    pub(super) fn optional(&mut self, option: &str) -> Result<Option<u64>, SpecError> {
        self.take(option, "a whole number", |v| v.parse().ok())
    }

    pub(super) fn required(&mut self, option: &str) -> Result<u64, SpecError> {
        let missing = self.missing(option);
        self.optional(option)?.ok_or(missing)
    }

    pub(super) fn missing(&self, option: &str) -> SpecError {
        SpecError::Missing {
            strategy: self.strategy.clone(),
            option: option.to_owned(),
        }
    }

    /// A text, such as a path.
    pub(super) fn text(&mut self, option: &str) -> Result<Option<String>, SpecError> {
        self.take(option, "a text", |v| (!v.is_empty()).then(|| v.to_owned()))
    }

    /// Names joined by `+`.
    pub(super) fn names(&mut self, option: &str) -> Result<Vec<String>, SpecError> {
        let read = |text: &str| Some(text.split('+').map(str::to_owned).collect());
        let names = self.take(option, "names joined by +", read)?;
        Ok(names.unwrap_or_default())
    }

    pub(super) fn or(&mut self, option: &str, default: u64) -> Result<u64, SpecError> {
        Ok(self.optional(option)?.unwrap_or(default))
    }

    pub(super) fn thousandths(&mut self, option: &str, default: u64) -> Result<u64, SpecError> {
        let read = |text: &str| {
            let (whole, part) = text.split_once('.').unwrap_or((text, ""));
            let digits = |t: &str| t.len() <= 3 && t.bytes().all(|b| b.is_ascii_digit());
            if !digits(part) || !digits(whole) || (whole.is_empty() && part.is_empty()) {
                return None;
            }
            let whole: u64 = if whole.is_empty() {
                0
            } else {
                whole.parse().ok()?
            };
            let part: u64 = format!("{part:0<3}").parse().ok()?;
            whole.checked_mul(1_000)?.checked_add(part)
        };
        let takes = "a number with at most three decimals";
        Ok(self.take(option, takes, read)?.unwrap_or(default))
    }

    pub(super) fn named<T: Copy>(
        &mut self,
        option: &str,
        names: &[(&str, T)],
        default: T,
    ) -> Result<T, SpecError> {
        let takes = names.iter().map(|(n, _)| *n).collect::<Vec<_>>().join(", ");
        let read = |v: &str| names.iter().find(|(n, _)| *n == v).map(|(_, t)| *t);
        Ok(self.take(option, &takes, read)?.unwrap_or(default))
    }

    fn done(self) -> Result<(), SpecError> {
        match self.left.into_iter().next() {
            None => Ok(()),
            Some((key, value)) => Err(SpecError::Unknown {
                strategy: self.strategy,
                text: format!("{key}={value}"),
            }),
        }
    }
}

pub(super) fn at_least_one(strategy: &str, option: &str, value: u64) -> Result<(), SpecError> {
    if value == 0 {
        return Err(SpecError::option(
            strategy,
            option,
            "0",
            "a whole number from 1",
        ));
    }
    Ok(())
}

/// An option's value in a spec, as it is written there.
#[must_use]
pub fn option<'a>(spec: &'a str, option: &str) -> Option<&'a str> {
    let (_, options) = spec.split_once(':')?;
    let mut pairs = options.split(',').filter_map(|o| o.split_once('='));
    pairs.find(|(key, _)| *key == option).map(|(_, v)| v)
}

/// Reads a spec such as `token-budget:limit=8000,keep=6`.
///
/// # Errors
/// When it names no strategy, or an option is unknown, missing or has a value it cannot have.
pub fn parse(spec: &str) -> Result<Arc<dyn Strategy>, SpecError> {
    let spec = written_out(spec);
    let (name, text) = spec.split_once(':').unwrap_or((&spec, ""));
    let mut options = Options::new(name, text)?;
    let strategy: Arc<dyn Strategy> = match name {
        "sliding-window" => Arc::new(SlidingWindow::from_options(&mut options)?),
        "head-tail" => Arc::new(HeadTail::from_options(&mut options)?),
        "buffer" => Arc::new(Buffer::from_options(&mut options)?),
        "clear-tool-results" => Arc::new(ClearToolResults::from_options(&mut options)?),
        "truncate-outputs" => Arc::new(TruncateOutputs::from_options(&mut options)?),
        "expire" => Arc::new(Expire::from_options(&mut options)?),
        "token-budget" => Arc::new(TokenBudget::from_options(&mut options)?),
        "summarize-oldest" => Arc::new(SummarizeOldest::from_options(&mut options)?),
        _ => {
            return Err(SpecError::Name {
                name: name.to_owned(),
            });
        }
    };
    options.done()?;
    strategy.check()?;
    Ok(strategy)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_resolved_spec_reads_back_as_itself() {
        for spec in [
            "sliding-window:keep=4",
            "sliding-window:keep=4,unit=request",
            "head-tail",
            "head-tail:window=6,head=0,unit=group",
            "token-budget:limit=4000,keep=3",
            "token-budget:limit=4000,low=0.5,keep=0,measure=reported",
            "token-budget:limit=1,low=1",
            "summarize-oldest:limit=8000",
            "summarize-oldest:limit=8000,keep=2,command=./summarise.sh,timeout=9,pin-results=1",
        ] {
            let resolved = parse(spec).unwrap().spec();
            assert_eq!(parse(&resolved).unwrap().spec(), resolved, "{spec}");
        }
    }

    #[test]
    fn wrong_specs_name_the_option() {
        for (spec, word) in [
            ("sliding", "no strategy 'sliding'"),
            ("sliding-window", "keep is required"),
            ("sliding-window:keep=0", "keep=0"),
            ("sliding-window:keep=-1", "keep=-1"),
            ("sliding-window:keep=1.5", "keep=1.5"),
            ("sliding-window:keep=4,keep=5", "twice"),
            ("sliding-window:keep=4,colour=red", "colour=red"),
            ("sliding-window:keep=4,unit=byte", "unit=byte"),
            ("token-budget:limit=0", "limit=0"),
            ("token-budget:limit=9,low=0", "low=0"),
            ("token-budget:limit=9,low=1.001", "low=1.001"),
            ("token-budget:limit=9,low=NaN", "low=NaN"),
            ("head-tail:window=0", "window=0"),
            ("head-tail:window", "window"),
            ("summarize-oldest", "limit is required"),
            ("summarize-oldest:limit=9,summary-max=0", "summary-max=0"),
            ("summarize-oldest:limit=9,command=", "command="),
            ("summarize-oldest:limit=9,command=a,b.sh", "without a comma"),
            ("summarize-oldest:limit=9,retain=maybe", "retain=maybe"),
        ] {
            let error = parse(spec).unwrap_err().to_string();
            assert!(error.contains(word), "{spec}: {error}");
        }
    }
}
