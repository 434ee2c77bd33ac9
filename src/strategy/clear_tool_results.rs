//! `clear-tool-results`: replaces old tool outputs by a marker.

use crate::log::{Reading, Unit, VisitOutcome};
use crate::window::{Age, AgeUnit, Measure, Wanted};

use super::expire::OVER_AGE;
use super::{Common, Frame, Options, Plan, Shrink, SpecError, Strategy, To};

/// When it is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum When {
    /// Above so many tokens.
    Above(u64),
    /// When outputs were sent so many times.
    Older(u64),
}

/// Puts a marker in the place of tool outputs, the newest aside; calls and results stay in place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClearToolResults {
    when: When,
    keep: u64,
    except: Vec<String>,
    at_least: u64,
    common: Common,
}

impl ClearToolResults {
    const fn due(when: When) -> Self {
        Self {
            when,
            keep: 3,
            except: Vec::new(),
            at_least: 0,
            common: Common::OFF,
        }
    }

    /// Clears when the window exceeds `limit` tokens (at least 1); keeps the newest 3 outputs.
    #[must_use]
    pub const fn above(limit: u64) -> Self {
        Self::due(When::Above(limit))
    }

    /// Clears outputs that were sent `calls` times, at least 1; keeps the newest 3.
    #[must_use]
    pub const fn older(calls: u64) -> Self {
        Self::due(When::Older(calls))
    }

    /// Keeps the outputs of the newest `keep` groups that hold one.
    #[must_use]
    pub const fn keep(mut self, keep: u64) -> Self {
        self.keep = keep;
        self
    }

    /// Never clears what these tools gave.
    #[must_use]
    pub fn except(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.except = tools.into_iter().map(Into::into).collect();
        self
    }

    /// Clears nothing unless that frees at least so many tokens: what a prompt cache has to read
    /// anew costs too.
    #[must_use]
    pub const fn at_least(mut self, tokens: u64) -> Self {
        self.at_least = tokens;
        self
    }

    /// Sets what all strategies have in common.
    #[must_use]
    pub const fn common(mut self, common: Common) -> Self {
        self.common = common;
        self
    }

    pub(super) fn from_options(options: &mut Options) -> Result<Self, SpecError> {
        let (limit, age) = (options.optional("limit")?, options.optional("age")?);
        let when = match (limit, age) {
            (Some(limit), None) => When::Above(limit),
            (None, Some(age)) => When::Older(age),
            (None, None) => return Err(options.missing("limit or age")),
            (Some(_), Some(age)) => {
                let takes = "either limit= or age=";
                return Err(SpecError::option(
                    Self::NAME,
                    "age",
                    &age.to_string(),
                    takes,
                ));
            }
        };
        Ok(Self {
            when,
            keep: options.or("keep", 3)?,
            except: options.names("except")?,
            at_least: options.or("at-least", 0)?,
            common: Common::from_options(options)?,
        })
    }

    const NAME: &'static str = "clear-tool-results";

    fn wanted(&self) -> Wanted {
        let age = match self.when {
            When::Above(_) => None,
            When::Older(after) => Some(Age {
                after,
                unit: AgeUnit::Call,
            }),
        };
        self.common.on_outputs(Wanted {
            age,
            except: self.except.clone(),
            keep: self.keep,
            ..Wanted::default()
        })
    }
}

impl Strategy for ClearToolResults {
    fn spec(&self) -> String {
        let when = match self.when {
            When::Above(limit) => format!("limit={limit}"),
            When::Older(age) => format!("age={age}"),
        };
        let except = match self.except.as_slice() {
            [] => String::new(),
            tools => format!(",except={}", tools.join("+")),
        };
        let at_least = match self.at_least {
            0 => String::new(),
            tokens => format!(",at-least={tokens}"),
        };
        let (name, keep, common) = (Self::NAME, self.keep, self.common.suffix());
        format!("{name}:{when},keep={keep}{except}{at_least}{common}")
    }

    fn check(&self) -> Result<(), SpecError> {
        let (option, value) = match self.when {
            When::Above(limit) => ("limit", limit),
            When::Older(age) => ("age", age),
        };
        super::spec::at_least_one(Self::NAME, option, value)?;
        let possible = |n: &String| !n.is_empty() && !n.contains(['+', ',', '=']);
        match self.except.iter().find(|n| !possible(n)) {
            Some(name) => {
                let takes = "tools, joined by +";
                Err(SpecError::option(Self::NAME, "except", name, takes))
            }
            None => Ok(()),
        }
    }

    fn measure(&self) -> Option<Measure> {
        matches!(self.when, When::Above(_)).then_some(Measure::Auto)
    }

    fn asks_every_group(&self) -> bool {
        false
    }

    fn unit(&self) -> Unit {
        match self.when {
            When::Above(_) => Unit::Token,
            When::Older(_) => Unit::Message,
        }
    }

    fn plan(&self, frame: &Frame<'_>) -> Plan {
        let (before, limit) = match self.when {
            When::Above(limit) => match frame.tokens() {
                Ok(tokens) => (tokens.reading(), limit),
                Err(none) => return Plan::Unmeasurable(VisitOutcome::from(none)),
            },
            When::Older(_) => {
                let before = Reading {
                    unit: Unit::Message,
                    method: OVER_AGE.into(),
                    amount: frame.state().smaller(&self.wanted()).wanted,
                };
                (before, 0)
            }
        };
        if before.amount <= limit {
            return Plan::NotDue;
        }
        Plan::Shrink {
            before,
            limit,
            shrink: Shrink {
                wanted: self.wanted(),
                to: To::Marker,
                at_least: self.at_least,
            },
        }
    }
}
