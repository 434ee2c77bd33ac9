//! Who writes summaries: a trait, and what it answers. ctxlog calls no model of its own accord; it
//! asks whoever the caller named.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use crate::log::{Attempt, AttemptOutcome, Hash, Message, Usage};
use crate::strategy::{Answered, Consolidation, INSTRUCTIONS, Prompt, Prompts, boundary};

/// The most bytes of a name that are recorded.
const NAME_BYTES_MAX: usize = 1024;
/// Who does not even say its name.
const UNNAMED: &str = "a summariser";

/// Writes summaries.
///
/// ```
/// use ctxlog::engine::{Store, SummarizeError, Summarizer, Summary};
/// use ctxlog::strategy::{Prompt, SummarizeOldest};
///
/// #[derive(Debug)]
/// struct Brief;
///
/// impl Summarizer for Brief {
///     fn name(&self) -> String {
///         "brief".into()
///     }
///
///     fn summarize(&self, prompt: &Prompt) -> Result<Summary, SummarizeError> {
///         // Here a model is called with `prompt.text`.
///         Ok(Summary::new("They greeted each other."))
///     }
/// }
///
/// let store = Store::in_memory().with_summarizer(Brief);
/// let chat = store.conversation("a")?.with_strategy(SummarizeOldest::new(8_000))?;
/// # Ok::<(), ctxlog::engine::Error>(())
/// ```
pub trait Summarizer: Send + Sync + Debug {
    /// Who it is; recorded with every question.
    fn name(&self) -> String;

    /// How many bytes of prompt it takes; a longer span is asked about in pieces.
    fn window(&self) -> Option<u64> {
        None
    }

    /// What it is told to do, where that is not [`INSTRUCTIONS`]. `{bytes}` is replaced by the most
    /// bytes that a summary may have. That the span is data, and where it begins and ends, is said
    /// in any case.
    fn instructions(&self) -> Option<String> {
        None
    }

    /// Answers a question. It may take its time: nothing waits for it but the call that wants it.
    ///
    /// # Errors
    /// When it cannot: the window stays as it is.
    fn summarize(&self, prompt: &Prompt) -> Result<Summary, SummarizeError>;
}

/// A summary.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Its words.
    pub text: String,
    /// The model that wrote it, where it is known.
    pub model: Option<String>,
    /// What it cost, where it is known.
    pub usage: Option<Usage>,
}

impl Summary {
    /// A summary of which nothing more is known.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }
}

/// Why there is no summary.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct SummarizeError(String);

impl SummarizeError {
    /// With a reason that a person reads.
    #[must_use]
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// What came of asking, and what the summariser said when it failed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Asked {
    /// The questions and the summary, as they are recorded.
    pub answered: Answered,
    /// Why the last question failed. It is shown, not recorded: a summariser may say anything.
    pub failure: Option<String>,
}

/// Asks about a span, in pieces where the summariser takes less. `words`: those of its messages.
pub(super) fn ask(
    plan: &Consolidation,
    words: &[Option<Message>],
    summarizer: &dyn Summarizer,
) -> Asked {
    let mut asked = Asked::default();
    // It is somebody else's code: whatever it does, the call goes on.
    let known = guarded(|| {
        let (own, window) = (summarizer.instructions(), summarizer.window());
        (summarizer.name(), own, window)
    });
    let (name, own, window) = match known {
        Ok(known) => known,
        Err(panicked) => {
            let whole = crate::strategy::whole_span(plan);
            asked.take(plan, UNNAMED, &whole, Err(panicked));
            return asked;
        }
    };
    let instructions = own.as_deref().unwrap_or(INSTRUCTIONS);
    let mut prompts = Prompts::new(plan, words, instructions, window);
    let mut so_far: Option<String> = None;
    loop {
        let prompt = match prompts.next(so_far.as_deref()) {
            Ok(Some(prompt)) => prompt,
            Ok(None) => break,
            Err(narrow) => {
                let whole = crate::strategy::whole_span(plan);
                let none = Err(SummarizeError::new(narrow.to_string()));
                asked.take(plan, &name, &whole, none);
                break;
            }
        };
        let answer = guarded(|| summarizer.summarize(&prompt)).and_then(|answer| answer);
        asked.take(plan, &name, &prompt, answer);
        if asked.answered.summary.is_none() {
            break;
        }
        so_far.clone_from(&asked.answered.summary);
    }
    asked
}

fn guarded<T>(ask: impl FnOnce() -> T) -> Result<T, SummarizeError> {
    catch_unwind(AssertUnwindSafe(ask)).map_err(|_| SummarizeError::new("it panicked"))
}

/// A name as it is recorded: a summariser may say anything, and an entry has an end.
fn recorded(name: &str) -> String {
    let end = boundary(name, NAME_BYTES_MAX);
    name.get(..end).unwrap_or_default().to_owned()
}

impl Asked {
    /// Takes in an answer to a prompt.
    pub(super) fn take(
        &mut self,
        plan: &Consolidation,
        summarizer: &str,
        prompt: &Prompt,
        answer: Result<Summary, SummarizeError>,
    ) {
        let mut attempt = Attempt {
            summarizer: recorded(summarizer),
            sources: prompt.sources.clone(),
            digest: plan.digest,
            prompt: if prompt.text.is_empty() {
                Hash::ZERO
            } else {
                prompt.digest()
            },
            model: None,
            usage: None,
            answered: 0,
            clipped: false,
            outcome: AttemptOutcome::Failed,
        };
        self.answered.summary = None;
        match answer {
            Err(SummarizeError(why)) => self.failure = Some(why),
            Ok(Summary {
                mut text,
                model,
                usage,
            }) => {
                attempt.answered = u64::try_from(text.len()).unwrap_or(u64::MAX);
                let most = usize::try_from(plan.summary_max).unwrap_or(usize::MAX);
                attempt.clipped = text.len() > most;
                text.truncate(boundary(&text, most));
                let model = model.as_deref().map(recorded);
                let author = model.as_ref().unwrap_or(&attempt.summarizer);
                self.answered.author.clone_from(author);
                (attempt.model, attempt.usage) = (model, usage);
                if text.trim().is_empty() {
                    attempt.outcome = AttemptOutcome::Empty;
                    self.failure = Some("it answered nothing".to_owned());
                } else {
                    attempt.outcome = AttemptOutcome::Ok;
                    self.answered.summary = Some(text);
                }
            }
        }
        self.answered.attempts.push(attempt);
    }
}

/// Which strategies of a conversation are waiting for an answer: one at a time is asked for each.
#[derive(Debug, Default)]
pub(super) struct InFlight(Mutex<BTreeSet<String>>);

impl InFlight {
    /// Begins a question; none where one is under way.
    pub fn begin(&self, strategy: &str) -> Option<Begun<'_>> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.insert(strategy.to_owned()).then(|| Begun {
            of: self,
            strategy: strategy.to_owned(),
        })
    }
}

/// A question that is under way, until this is dropped.
#[derive(Debug)]
pub(super) struct Begun<'a> {
    of: &'a InFlight,
    strategy: String,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        let mut waiting = self.of.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.remove(&self.strategy);
    }
}
