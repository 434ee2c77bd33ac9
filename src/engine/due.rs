//! When a conversation is due to be consolidated, and when it was: the policy in force and the marks.

use std::sync::Arc;

use crate::log::{Configured, Micros, RequestReason};
use crate::strategy::{ConsolidationPolicy, Due, Signals, SpecError, Strategy};
use crate::window::{CONSOLIDATED, Consolidated, Projection};

use super::append::{Options, file_noted};
use super::conversation::{Ack, Conversation};
use super::error::{Error, Refusal};
use super::known::State;

impl Conversation {
    /// Sets when the conversation is to be consolidated. The log says so; who consolidates asks
    /// [`Conversation::should_consolidate`]. Setting the same policy again writes nothing.
    ///
    /// # Errors
    /// `policy-conflict` when another one is set already ([`Conversation::supersede_consolidation`]),
    /// or a strategy in force drops messages before the policy can ever be due; `invalid-option` when
    /// a parameter is not possible.
    pub fn with_consolidation(self, policy: &ConsolidationPolicy) -> Result<Self, Error> {
        self.set_consolidation(policy, false)?;
        Ok(self)
    }

    /// Sets another consolidation policy in the place of the one in force.
    ///
    /// # Errors
    /// As [`Conversation::with_consolidation`], another policy aside.
    pub fn supersede_consolidation(&self, policy: &ConsolidationPolicy) -> Result<(), Error> {
        self.set_consolidation(policy, true)
    }

    fn set_consolidation(
        &self,
        policy: &ConsolidationPolicy,
        supersede: bool,
    ) -> Result<(), Error> {
        let impossible = |e: SpecError| Error::refused(RequestReason::InvalidOption, e.to_string());
        policy.check().map_err(impossible)?;
        let spec = policy.to_string();
        let mut state = self.lock()?;
        let set = state.projection.consolidation_policy().map(str::to_owned);
        if set.as_deref() == Some(spec.as_str()) {
            return self.stands(&state);
        }
        if let Some(set) = set.filter(|_| !supersede) {
            let detail = format!(
                "'{}' is consolidated by [{set}]; [{spec}] does not supersede it",
                self.name()
            );
            return Err(Error::refused(RequestReason::PolicyConflict, detail));
        }
        not_starved(policy, &state.chain)?;
        let configured = Configured {
            consolidation: Some(spec),
            ..Configured::default()
        };
        self.configure(&mut state, configured, None)
    }

    /// The consolidation policy in force, by its spec.
    ///
    /// # Errors
    /// When the log has to be read again and cannot.
    pub fn consolidation(&self) -> Result<Option<String>, Error> {
        self.with_projection(|p| p.consolidation_policy().map(str::to_owned))
    }

    /// Whether the conversation is due to be consolidated, and why. The messages are those of the
    /// window, instructions at its beginning, notices and what stands for others aside. The time is
    /// now, and the last consolidation what the log says, unless the signals say otherwise. Nothing
    /// is written, so it may be asked after every append.
    ///
    /// # Errors
    /// When the log has to be read again and cannot.
    pub fn should_consolidate(
        &self,
        policy: &ConsolidationPolicy,
        signals: &Signals,
    ) -> Result<Due, Error> {
        let now = self.store().environment().now();
        let answer = |p: &Projection| {
            let (messages, bytes, uncounted) = p.to_consolidate();
            let signals = signals.clone().messages(messages, bytes, uncounted);
            policy.due(&signals.or(now, p.consolidated()))
        };
        self.with_projection(answer)
    }

    /// Files that the conversation was consolidated at this time. The newest mark counts, also where
    /// it says an earlier time than the one before; its entry then carries a warning.
    ///
    /// # Errors
    /// When the store fails.
    pub fn mark_consolidated(&self, at: Micros) -> Result<Ack, Error> {
        self.mark(Some(at))
    }

    /// Files that the conversation was consolidated now.
    ///
    /// # Errors
    /// When the store fails.
    pub fn mark_consolidated_now(&self) -> Result<Ack, Error> {
        self.mark(self.store().environment().now())
    }

    fn mark(&self, at: Option<Micros>) -> Result<Ack, Error> {
        let mut state = self.lock()?;
        let before = state.projection.consolidated().and_then(|c| c.at);
        let warn = at.zip(before).is_some_and(|(at, before)| at < before);
        let options = Options {
            at,
            ..Options::default()
        };
        let meta = self.meta(&options, None);
        self.file(&mut state, |stage, _| {
            let seq = file_noted(stage, CONSOLIDATED, ("", warn), None, meta)?;
            Ok(self.acknowledged(seq, seq))
        })
    }

    /// When the conversation was consolidated last: the newest mark or consolidation of the log.
    ///
    /// # Errors
    /// When the log has to be read again and cannot.
    pub fn last_consolidated(&self) -> Result<Option<Consolidated>, Error> {
        self.with_projection(Projection::consolidated)
    }
}

/// Whether the policy in force can be due beside these strategies.
pub(super) fn none_starves(state: &State, chain: &[Arc<dyn Strategy>]) -> Result<(), Error> {
    let spec = state.projection.consolidation_policy();
    let policy = spec.and_then(ConsolidationPolicy::parse);
    policy.map_or(Ok(()), |policy| not_starved(&policy, chain))
}

/// Whether a policy can be due beside these strategies: one that drops messages before it may not.
fn not_starved(policy: &ConsolidationPolicy, chain: &[Arc<dyn Strategy>]) -> Result<(), Error> {
    let starves = |strategy: &&Arc<dyn Strategy>| {
        let left = strategy.most_messages();
        left.is_some_and(|most| !policy.can_fire_within(most))
    };
    let Some(strategy) = chain.iter().find(starves) else {
        return Ok(());
    };
    let detail = format!(
        "[{policy}] is never due: [{}] drops messages before",
        strategy.spec()
    );
    let refusal = Refusal::new(RequestReason::PolicyConflict, detail);
    let help = "keep more messages than the policy waits for";
    Err(refusal.with_help(help).into())
}
