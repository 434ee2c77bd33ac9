//! `summarize-oldest`: a summary stands for the oldest span.

use crate::log::{LeftReason, Unit};
use crate::window::{Cut, Measure, Notices};

use super::spec::at_least_one;
use super::{Common, Frame, Options, Plan, SpecError, Strategy};

const NAME: &str = "summarize-oldest";
/// The most bytes of a summary, unless said otherwise.
const SUMMARY_MAX: u64 = 8_000;

/// Lets a summary stand for all that may leave, the newest `keep` groups aside, when the window's
/// tokens exceed `limit`. Who writes the summary is not its business: see
/// [`crate::engine::Summarizer`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SummarizeOldest {
    limit: u64,
    keep: u64,
    measure: Measure,
    summary_max: u64,
    common: Common,
    command: Option<String>,
    timeout: Option<u64>,
}

impl SummarizeOldest {
    /// Engages above `limit` tokens (at least 1), with `keep=6`, `measure=auto` and
    /// `summary-max=8000`.
    #[must_use]
    pub const fn new(limit: u64) -> Self {
        Self {
            limit,
            keep: 6,
            measure: Measure::Auto,
            summary_max: SUMMARY_MAX,
            common: Common::OFF,
            command: None,
            timeout: None,
        }
    }

    /// Keeps the newest `keep` groups.
    #[must_use]
    pub const fn keep(mut self, keep: u64) -> Self {
        self.keep = keep;
        self
    }

    /// Measures otherwise.
    #[must_use]
    pub const fn measure(mut self, measure: Measure) -> Self {
        self.measure = measure;
        self
    }

    /// Takes so many bytes of a summary at most (at least 1); a longer one is cut.
    #[must_use]
    pub const fn summary_max(mut self, bytes: u64) -> Self {
        self.summary_max = bytes;
        self
    }

    /// Sets what all strategies have in common.
    #[must_use]
    pub const fn common(mut self, common: Common) -> Self {
        self.common = common;
        self
    }

    /// Says which command writes the summaries, so that the log says it. It changes no decision, and
    /// nothing runs it but who is told to: `ctxlog call` and `import`, or
    /// [`crate::engine::CommandSummarizer`].
    #[must_use]
    pub fn command(mut self, path: impl Into<String>) -> Self {
        self.command = Some(path.into());
        self
    }

    pub(super) fn from_options(options: &mut Options) -> Result<Self, SpecError> {
        let limit = options.required("limit")?;
        let keep = options.or("keep", 6)?;
        let measure = options.named("measure", Measure::NAMES, Measure::Auto)?;
        let summary_max = options.or("summary-max", SUMMARY_MAX)?;
        let timeout = options.optional("timeout")?;
        Ok(Self {
            limit,
            keep,
            measure,
            summary_max,
            command: options.text("command")?,
            timeout,
            common: Common::from_options(options)?,
        })
    }
}

impl Strategy for SummarizeOldest {
    fn spec(&self) -> String {
        let (limit, keep, measure) = (self.limit, self.keep, self.measure.name());
        let max = self.summary_max;
        let command = self.command.as_deref();
        let command = command.map_or_else(String::new, |c| format!(",command={c}"));
        let timeout = self.timeout;
        let timeout = timeout.map_or_else(String::new, |t| format!(",timeout={t}"));
        let common = self.common.suffix();
        format!(
            "{NAME}:limit={limit},keep={keep},measure={measure},summary-max={max}{command}{timeout}{common}"
        )
    }

    fn check(&self) -> Result<(), SpecError> {
        at_least_one(NAME, "limit", self.limit)?;
        at_least_one(NAME, "summary-max", self.summary_max)?;
        at_least_one(NAME, "timeout", self.timeout.unwrap_or(1))?;
        let command = self.command.as_deref().unwrap_or("x");
        if command.is_empty() || command.contains(',') || command.trim() != command {
            let takes = "a path without a comma, and without blanks at its ends";
            return Err(SpecError::option(NAME, "command", command, takes));
        }
        Ok(())
    }

    fn measure(&self) -> Option<Measure> {
        Some(self.measure)
    }

    fn unit(&self) -> Unit {
        Unit::Token
    }

    fn plan(&self, frame: &Frame<'_>) -> Plan {
        Plan::above(frame, self.limit, |tokens| {
            // Each summary costs a model call and the prompt cache behind it: so it takes all there is.
            let cut = Cut {
                ask_all: true,
                reason: LeftReason::Summarized,
                ..frame.cut_tokens(self.keep, tokens.amount, self.limit)
            };
            Plan::Consolidate {
                before: tokens.reading(),
                limit: self.limit,
                cut: Cut {
                    // What the engine says of what left is no part of the conversation.
                    notices: Notices::Kept,
                    ..self.common.on(cut)
                },
                summary_max: self.summary_max,
            }
        })
    }
}
