//! When a conversation is due to be consolidated, and when it was: the policy in force and the marks.

use crate::log::{Body, Configured, Micros, Noted, RequestReason};
use crate::strategy::{ConsolidationPolicy, Due, Signals, SpecError, Strategy};
use crate::window::{CONSOLIDATED, Consolidated, Projection};

use super::append::Options;
use super::conversation::{Ack, Conversation};
use super::error::{Error, Refusal};

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
        if let Some(strategy) = (state.chain.iter()).find(|s| starves(s.as_ref(), policy)) {
            let detail = format!(
                "[{spec}] is never due: [{}] drops messages before",
                strategy.spec()
            );
            let help = "keep more messages than the policy waits for";
            let refusal = Refusal::new(RequestReason::PolicyConflict, detail);
            return Err(refusal.with_help(help).into());
        }
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
        let mut state = self.lock()?;
        let before = state.projection.consolidated().and_then(|c| c.at);
        let noted = Noted {
            what: CONSOLIDATED.to_owned(),
            place: String::new(),
            warn: before.is_some_and(|before| at < before),
            content: None,
        };
        let options = Options {
            at: Some(at),
            ..Options::default()
        };
        let meta = self.meta(&options, None);
        self.file(&mut state, |stage, _| {
            let seq = stage.file(Body::Noted(noted), meta)?;
            Ok(Ack {
                first: seq,
                last: seq,
                level: self.store().level(),
                repeated: false,
            })
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

/// Whether a strategy leaves so few messages that a policy is never due.
pub(super) fn starves(strategy: &dyn Strategy, policy: &ConsolidationPolicy) -> bool {
    let left = strategy.most_messages();
    left.is_some_and(|most| !policy.can_fire_within(most))
}
