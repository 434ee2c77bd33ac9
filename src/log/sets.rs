//! The closed sets of reasons and outcomes. Each member has a stable code (stored), a stable name
//! (shown), one plain sentence and a remedy.

use super::codes::codes;

macro_rules! closed_set {
    ($(#[$doc:meta])* $set:ident { $($variant:ident = $code:literal, $name:literal, $sentence:literal, $remedy:literal;)+ }) => {
        codes! { $(#[$doc])* $set { $(#[doc = $sentence] $variant = $code, $name;)+ } }

        impl $set {
            /// What it means, in one plain sentence.
            #[must_use]
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$variant => $sentence,)+ }
            }

            /// What to do about it.
            #[must_use]
            pub const fn remedy(self) -> &'static str {
                match self { $(Self::$variant => $remedy,)+ }
            }
        }
    };
}

closed_set! {
    /// Why a group may not leave the window. The order is the order of precedence.
    GroupReason {
        CurrentRequest = 1, "current-request", "It holds a person's message of the newest run.", "Wait until the run has settled.";
        SystemEnvelope = 2, "system-envelope", "It holds a system or developer message from before the first person message.", "The envelope never leaves; shorten it in the application.";
        PausedTool = 3, "paused-tool", "It holds a tool call that work is paused on.", "Answer or abandon the call.";
        PendingCheckIn = 4, "pending-check-in", "It holds a call that waits for a person.", "Answer or abandon the check-in.";
        UnresolvedToolCall = 5, "unresolved-tool-call", "It holds a tool call without a final result.", "Append the result, or end the run by name.";
        OpenStream = 6, "open-stream", "It holds a reply that is still streaming.", "End the stream.";
        Unobserved = 7, "unobserved", "It holds content that no active observation covers.", "Observe it first.";
        Pinned = 8, "pinned", "A person or the application pinned it, or it was restored and no call has seen it yet.", "Unpin it, or make a call.";
        LastToolResult = 9, "last-tool-result", "It holds the newest result of a tool in use.", "Lower pin-results.";
        ProtectedHead = 10, "protected-head", "It holds the first message, which this strategy keeps.", "Set head=0.";
        InsideKeepWindow = 11, "inside-keep-window", "It is among the newest that this strategy keeps.", "Lower keep or window.";
        AboveBase = 12, "above-base", "It entered, or came free to leave, after the base the decision was computed on.", "Visit again.";
        IllegalOpener = 13, "illegal-opener", "It was put back so that the window opens on a user message.", "None is needed.";
    }
}

closed_set! {
    /// How a visit ended.
    VisitOutcome {
        Done = 1, "done", "The target was met.", "None is needed.";
        Short = 2, "short", "What may not leave exceeds the target.", "Raise the limit, or see the refusals for what holds the window.";
        NoProgress = 3, "no-progress", "The visit freed less than the minimum and backs off.", "Raise the limit, or see the refusals for what holds the window.";
        Unmeasurable = 4, "unmeasurable", "The measure the strategy asked for has no reading.", "Report usage, or use measure=auto.";
        StaleMeasurement = 5, "stale-measurement", "The only reading belongs to another window.", "Report usage, or use measure=auto.";
        SummarizerFailed = 6, "summarizer-failed", "The summariser failed.", "See the attempt; the window is unchanged.";
        EmptySummary = 7, "empty-summary", "The summariser answered nothing.", "See the attempt; the window is unchanged.";
        ReplacementNotSmaller = 8, "replacement-not-smaller", "The stand-in is not smaller than what it would stand for.", "The window is unchanged.";
        OnlyExistingSummary = 9, "only-existing-summary", "All that could be summarised is one summary.", "The window is unchanged.";
        Late = 10, "late", "The sources changed since the plan.", "Plan again.";
    }
}

impl VisitOutcome {
    /// Whether the visit asked the groups: one that could not measure, or came too late, asked none,
    /// and what it does not say of their refusals still stands.
    #[must_use]
    pub const fn asked(self) -> bool {
        !matches!(
            self,
            Self::Unmeasurable | Self::StaleMeasurement | Self::Late
        )
    }
}

closed_set! {
    /// How an attempt of a summariser ended.
    AttemptOutcome {
        Ok = 1, "ok", "The answer stands for its sources.", "None is needed.";
        Failed = 2, "failed", "The summariser failed.", "See what it said; it is asked again.";
        Empty = 3, "empty", "The answer held no words.", "See the prompt; it is asked again.";
        NotSmaller = 4, "not-smaller", "The answer is not smaller than its sources.", "The same sources are not asked about again.";
        InvalidXml = 5, "invalid-xml", "The answer is not of the form that was asked for.", "See the prompt; it is asked again.";
        DegenerateOutput = 6, "degenerate-output", "The answer repeats itself.", "Take another model; it is asked again.";
        LostCriticalPredicate = 7, "lost-critical-predicate", "The answer leaves out what may not be lost.", "See the prompt; it is asked again.";
        Skipped = 8, "skipped", "Nobody was asked: the same sources came back not smaller before.", "Wait until more can be summarised.";
    }
}

closed_set! {
    /// Why something left the window.
    LeftReason {
        BeyondKeep = 1, "beyond-keep", "It was older than what the strategy keeps.", "Raise keep, or restore it.";
        OverBudget = 2, "over-budget", "The window was over its limit and this was the oldest that could go.", "Raise the limit, or restore it.";
        OverAge = 3, "over-age", "Its lifetime ended.", "Raise after, or restore it.";
        Cleared = 4, "cleared", "It was cleared by name.", "Restore it.";
        Opener = 5, "opener", "The window may not open on it.", "Restore it.";
        NoticeAbsorbed = 6, "notice-absorbed", "A newer notice took its place.", "None is needed.";
        Summarized = 7, "summarized", "A summary stands for it.", "Undo the consolidation.";
        Observed = 8, "observed", "An observation stands for it.", "Undo the observation.";
        Replaced = 9, "replaced", "Another content stands for it.", "Undo the replacement.";
        Superseded = 10, "superseded", "A newer result of the same call stands for it.", "None is needed.";
    }
}

closed_set! {
    /// Why a request was not accepted. Answered, never logged.
    RequestReason {
        StaleHead = 1, "stale-head", "The log has newer content than the request expected.", "Read the head and decide again.";
        OwnerConflict = 2, "owner-conflict", "The conversation belongs to another owner.", "Use the owner's credentials.";
        InvalidOption = 3, "invalid-option", "An option has a value it cannot have.", "See the option's allowed values.";
        PolicyConflict = 4, "policy-conflict", "Other strategies are already set.", "Use those, or another conversation name.";
        EmptyMessage = 5, "empty-message", "The message has no parts.", "Give it content.";
        DuplicateResult = 6, "duplicate-result", "The call already has its final result.", "Drop the second result.";
        UnknownCall = 7, "unknown-call", "No open call has this id.", "Append the call first.";
        SplitPair = 8, "split-pair", "The range cuts between a call and its result.", "Widen the range to whole groups.";
        NothingMatches = 9, "nothing-matches", "Nothing matches.", "See what is there with ls, log or window.";
        RangeInverted = 10, "range-inverted", "The range ends before it begins.", "Swap its ends.";
        RangeOutOfBounds = 11, "range-out-of-bounds", "The range leaves the log, or the window.", "See the head with status.";
        RestoreConflict = 12, "restore-conflict", "Something live stands for it.", "Undo that first.";
        ForkSplitsPair = 13, "fork-splits-pair", "The fork would cut between a call and its result.", "Fork elsewhere, or close the calls.";
        IdempotencyConflict = 14, "idempotency-conflict", "The key was used for other content.", "Use a new key.";
        OpenCalls = 15, "open-calls", "Tool calls are still without a result.", "Append their results, or let them be closed.";
        SourceDiverged = 16, "source-diverged", "The source no longer begins with what was imported.", "Import it under another name with --as.";
        TooLarge = 17, "too-large", "It exceeds a limit.", "Raise the named limit, or split it.";
        StoreBusy = 18, "store-busy", "The store is open in another process.", "Close that process, or wait for it to end.";
        InvalidNamespace = 19, "invalid-namespace", "The namespace has no tenant, or its text cannot be read.", "Name a tenant; escape ':' and '\\' with '\\'.";
    }
}
