//! Consolidation: planning a summary, asking for it, and filing what came of it. Nothing is locked
//! while someone is asked.

use crate::log::{Message, Provenance, RequestReason, Seq, Trigger};
use crate::strategy::{Consolidation, INSTRUCTIONS, Outlook, Prompt, Prompts, conclude, visit};

use super::append::Options;
use super::call::{file_visit, supply_counts, with_words};
use super::content::Content;
use super::conversation::{Conversation, Work};
use super::error::Error;
use super::stage::{Meta, Stage};
use super::summarizer::{self, Asked, SummarizeError, Summarizer, Summary};

/// How often an answer is filed anew where others write.
pub(super) const TRIES: u32 = 16;

/// Whether someone else wrote first.
pub(super) fn is_stale(error: &Error) -> bool {
    matches!(error, Error::Refused(r) if r.reason == RequestReason::StaleHead)
}

/// A plan with its answer, to be filed.
#[derive(Debug)]
pub(super) struct Concluding {
    pub plan: Consolidation,
    pub asked: Asked,
    pub provenance: Provenance,
}

/// Files what becomes of an answer.
pub(super) fn file_conclusion(
    stage: &mut Stage<'_>,
    work: &Work<'_>,
    concluding: &Concluding,
    meta: &Meta,
) -> Result<Seq, Error> {
    let Concluding {
        plan,
        asked,
        provenance,
    } = concluding;
    let at = usize::try_from(plan.position).ok();
    let strategy = at.and_then(|at| work.chain.get(at));
    let Some(strategy) = strategy.filter(|s| s.spec() == plan.strategy) else {
        let detail = format!("[{}] is not a strategy in force here", plan.strategy);
        return Err(Error::refused(RequestReason::PolicyConflict, detail));
    };
    supply_counts(stage, work)?;
    stage.state.settle();
    let visit = with_words(stage, work, |state, words| {
        conclude(state, strategy.as_ref(), plan, &asked.answered, words)
    })?;
    file_visit(stage, work, visit, *provenance, meta)
}

impl Conversation {
    /// What a strategy of the chain wants summarised now; `None` while nothing is due. Nothing is
    /// filed, and nobody is asked: for callers that call a model themselves. The plan may be kept
    /// for as long as it takes, also by another process: [`Conversation::commit_consolidation`] says
    /// whether it still holds.
    ///
    /// # Errors
    /// Refused as `policy-conflict` when a configured strategy is not known here.
    ///
    /// ```
    /// use ctxlog::engine::{Store, Summary};
    /// use ctxlog::log::Message;
    /// use ctxlog::strategy::SummarizeOldest;
    ///
    /// let strategy = SummarizeOldest::new(100).keep(1);
    /// let chat = Store::in_memory().conversation("a")?.with_strategy(strategy)?;
    /// for n in 0..20 {
    ///     chat.append(Message::person(format!("Question {n}, and quite a long one at that.")))?;
    ///     chat.append(Message::model("An answer."))?;
    /// }
    /// chat.append(Message::person("Well?"))?;
    /// let plan = chat.plan_consolidation()?.expect("the window is too large");
    /// let prompt = chat.consolidation_prompt(&plan)?;
    /// assert!(prompt.text.contains("Question 0"));
    /// // Here a model is called with the prompt, and appends go on meanwhile.
    /// let visit = chat.commit_consolidation(&plan, Ok(Summary::new("They asked and answered.")))?;
    /// assert_eq!(chat.window()?.items.len(), 2); // the summary and the question
    /// # Ok::<(), ctxlog::engine::Error>(())
    /// ```
    pub fn plan_consolidation(&self) -> Result<Option<Consolidation>, Error> {
        let mut state = self.lock()?;
        self.knows_strategies(&state)?;
        self.file(&mut state, |stage, work| {
            supply_counts(stage, work)?;
            stage.state.settle();
            for (position, strategy) in (0_u32..).zip(work.chain) {
                let outlook = with_words(stage, work, |state, words| {
                    visit(state, strategy.as_ref(), position, Trigger::Demand, words)
                })?;
                if let Outlook::Consolidation(plan) = outlook {
                    return Ok(Some(*plan));
                }
            }
            Ok(None)
        })
    }

    /// The whole prompt for a plan, for a model that takes it in one piece.
    ///
    /// # Errors
    /// When words are damaged or lost.
    pub fn consolidation_prompt(&self, plan: &Consolidation) -> Result<Prompt, Error> {
        let mut prompts = Prompts::new(plan, &self.words_of(plan)?, INSTRUCTIONS, None);
        let prompt = prompts.next(None).ok().flatten();
        let nothing =
            || Error::refused(RequestReason::NothingMatches, "the plan names no messages");
        prompt.ok_or_else(nothing)
    }

    /// The prompts for a plan, one after the other, for a model that takes `window` bytes: each after
    /// the first is asked for with the answer to the one before.
    ///
    /// # Errors
    /// When words are damaged or lost.
    pub fn consolidation_prompts(
        &self,
        plan: &Consolidation,
        instructions: &str,
        window: Option<u64>,
    ) -> Result<Prompts, Error> {
        Ok(Prompts::new(
            plan,
            &self.words_of(plan)?,
            instructions,
            window,
        ))
    }

    /// Asks a summariser about a plan, in pieces where it takes less. Nothing is filed.
    ///
    /// # Errors
    /// When words are damaged or lost; a summariser that fails is no error.
    pub fn ask_about(
        &self,
        plan: &Consolidation,
        summarizer: &dyn Summarizer,
    ) -> Result<Asked, Error> {
        Ok(summarizer::ask(plan, &self.words_of(plan)?, summarizer))
    }

    /// Files what came of a plan whose one prompt was answered, or not. Where its messages are as they
    /// were planned, the summary stands for them, and for nothing that came since; else the visit
    /// says why the window stays as it is. Gives the visit's entry.
    ///
    /// # Errors
    /// Refused as `policy-conflict` when the plan's strategy is not in force here; as `stale-head`
    /// when the plan was made on a head that this log does not have.
    pub fn commit_consolidation(
        &self,
        plan: &Consolidation,
        answer: Result<Summary, SummarizeError>,
    ) -> Result<Seq, Error> {
        let prompt = self.consolidation_prompt(plan)?;
        let mut asked = Asked::default();
        asked.take(plan, "caller", &prompt, answer);
        self.commit_asked(plan, &asked)
    }

    /// The same for whatever was asked.
    ///
    /// # Errors
    /// As [`Conversation::commit_consolidation`].
    pub fn commit_asked(&self, plan: &Consolidation, asked: &Asked) -> Result<Seq, Error> {
        // A plan that was made on a newer head was made through another handle.
        let mut state = self.lock_at(Some(plan.base))?;
        if state.head.is_none_or(|head| head.seq < plan.base) {
            let detail = format!("the plan was made on {}, which is not there", plan.base);
            return Err(Error::refused(RequestReason::StaleHead, detail));
        }
        self.knows_strategies(&state)?;
        let meta = self.meta(&Options::default(), None);
        let concluding = Concluding {
            plan: plan.clone(),
            asked: asked.clone(),
            provenance: Provenance::Recorded,
        };
        self.file(&mut state, |stage, work| {
            file_conclusion(stage, work, &concluding, &meta)
        })
    }

    /// Files what came of a plan by itself, whoever else writes meanwhile.
    pub(super) fn files_conclusion(
        &self,
        concluding: &Concluding,
        meta: &Meta,
    ) -> Result<Seq, Error> {
        let mut tries = 0_u32;
        loop {
            let mut state = self.lock()?;
            state.behind = false;
            let filed = self.file(&mut state, |stage, work| {
                file_conclusion(stage, work, concluding, meta)
            });
            tries = tries.saturating_add(1);
            match filed {
                Err(error) if is_stale(&error) && tries < TRIES => {}
                other => return other,
            }
        }
    }

    /// The words of what is to be summarised, as they were planned.
    fn words_of(&self, plan: &Consolidation) -> Result<Vec<Option<Message>>, Error> {
        let secret = self.secret()?;
        let words = plan.sources.iter().map(|source| {
            Ok(
                match self.content_with(source.form, source.payload, &secret)? {
                    Content::Message(message) => Some(*message),
                    Content::Redacted => None,
                },
            )
        });
        words.collect()
    }
}
