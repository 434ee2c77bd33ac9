//! A conversation as the memories that others know: a buffer, a running summary, and a buffer that is
//! consolidated when a policy says so. They hold nothing themselves: all of it is in the log.

use std::fmt;

use crate::log::{Message, MessageId, Micros, Ranges, RequestReason, Seq};
use crate::strategy::{Buffer, ConsolidationPolicy, Due, Signals};
use crate::window::{Consolidated, Projection};

use super::content::Content;
use super::conversation::{Ack, Conversation};
use super::error::Error;
use super::summarizer::Summarizer;

/// The messages of a conversation's window, and when they are due to be consolidated.
///
/// ```
/// use ctxlog::engine::{BufferMemory, Store};
/// use ctxlog::log::Message;
///
/// let chat = Store::in_memory().conversation("a")?;
/// let buffer = BufferMemory::bounded(chat, 2)?;
/// for words in ["one", "two", "three"] {
///     buffer.append(Message::model(words))?;
/// }
/// let words: Vec<String> = buffer.messages()?.iter().map(Message::words).collect();
/// assert_eq!(words, ["two", "three"]);
/// # Ok::<(), ctxlog::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct BufferMemory {
    chat: Conversation,
    policy: Option<ConsolidationPolicy>,
}

impl BufferMemory {
    /// The buffer that a conversation is.
    #[must_use]
    pub const fn new(chat: Conversation) -> Self {
        Self { chat, policy: None }
    }

    /// The same, keeping the newest messages, so many of them, on every append.
    ///
    /// # Errors
    /// As [`Conversation::with_strategies`].
    pub fn bounded(chat: Conversation, messages: u64) -> Result<Self, Error> {
        Ok(Self::new(chat.with_strategy(Buffer::new(messages))?))
    }

    /// Asks this policy from here on. It is in the log; the buffer never summarises by itself.
    ///
    /// # Errors
    /// As [`Conversation::with_consolidation`].
    pub fn with_consolidation_policy(self, policy: ConsolidationPolicy) -> Result<Self, Error> {
        Ok(Self {
            chat: self.chat.with_consolidation(&policy)?,
            policy: Some(policy),
        })
    }

    /// The conversation.
    #[must_use]
    pub const fn conversation(&self) -> &Conversation {
        &self.chat
    }

    /// The policy that is asked.
    #[must_use]
    pub const fn policy(&self) -> Option<&ConsolidationPolicy> {
        self.policy.as_ref()
    }

    /// Appends a message.
    ///
    /// # Errors
    /// As [`Conversation::append`].
    pub fn append(&self, message: Message) -> Result<Ack, Error> {
        self.chat.append(message)
    }

    /// The messages of the window now, in order: instructions at its beginning, notices and what
    /// stands for others aside. They are those that a policy counts.
    ///
    /// # Errors
    /// When the log cannot be read, or words are damaged.
    pub fn messages(&self) -> Result<Vec<Message>, Error> {
        words_of(&self.chat, &self.said()?)
    }

    /// Whether the buffer is due to be consolidated, and why, by the policy that was given here, else the
    /// one in force in the log; without a policy it never is, and the answer says so.
    ///
    /// # Errors
    /// `policy-conflict` where the policy in force is one of somebody's own that is not known here.
    pub fn should_consolidate(&self) -> Result<Due, Error> {
        self.should_consolidate_with(&Signals::new())
    }

    /// As [`BufferMemory::should_consolidate`], with what the caller knows.
    ///
    /// # Errors
    /// As [`BufferMemory::should_consolidate`].
    pub fn should_consolidate_with(&self, signals: &Signals) -> Result<Due, Error> {
        if let Some(policy) = &self.policy {
            return self.chat.should_consolidate(policy, signals);
        }
        let Some(spec) = self.chat.consolidation()? else {
            return Ok(Due::no_policy());
        };
        let Some(policy) = ConsolidationPolicy::parse(&spec) else {
            let detail = format!("the consolidation policy [{spec}] is not known here");
            return Err(Error::refused(RequestReason::PolicyConflict, detail));
        };
        self.chat.should_consolidate(&policy, signals)
    }

    /// Files that it was consolidated at this time.
    ///
    /// # Errors
    /// When the store fails.
    pub fn mark_consolidated(&self, at: Micros) -> Result<Ack, Error> {
        self.chat.mark_consolidated(at)
    }

    /// When it was consolidated last.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn last_consolidated(&self) -> Result<Option<Consolidated>, Error> {
        self.chat.last_consolidated()
    }

    /// Lets the messages leave that may, with whole groups; what stands for others stays. All of them
    /// are in the log. The current request and open calls stay, and what is pinned.
    ///
    /// # Errors
    /// `nothing-matches` when none may leave.
    pub fn clear(&self) -> Result<Ack, Error> {
        self.chat.clear_messages(&self.said()?)
    }

    fn said(&self) -> Result<Vec<MessageId>, Error> {
        self.chat
            .with_projection(|p| p.said().map(|m| m.id).collect())
    }

    /// The same buffer, consolidated when its policy says so by the strategies of the conversation
    /// that let a summary stand for messages, as [`SummarizeOldest`](crate::strategy::SummarizeOldest):
    /// they say what of the window is summarised, this summariser writes it. A visit that files a
    /// summary is the consolidation, and its mark: one entry. What the summariser did is recorded
    /// there, also where it failed.
    ///
    /// Only this memory has the summariser. A call through a handle that has one too summarises when
    /// a strategy's limit says so, whatever the policy.
    ///
    /// ```
    /// use ctxlog::engine::{BufferMemory, Store, Summarizer, Summary, SummarizeError};
    /// use ctxlog::log::Message;
    /// use ctxlog::strategy::{ConsolidationPolicy, Prompt, SummarizeOldest};
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
    /// let chat = Store::in_memory().conversation("a")?;
    /// let buffer = BufferMemory::new(chat.with_strategy(SummarizeOldest::new(1).keep(0))?);
    /// let buffer = buffer.with_consolidation_policy(ConsolidationPolicy::OnMessageCount(3))?;
    /// let memory = buffer.summarized_by(Brief);
    /// memory.append(Message::model("Good morning. ".repeat(40)))?;
    /// memory.append(Message::model("Good morning to you too. ".repeat(40)))?;
    /// memory.append(Message::model("How are you?"))?;
    /// assert!(memory.summary().current_summary()?.unwrap().contains("They greeted"));
    /// assert!(memory.buffer().messages()?.is_empty());
    /// # Ok::<(), ctxlog::Error>(())
    /// ```
    pub fn summarized_by(
        self,
        summarizer: impl Summarizer + 'static,
    ) -> ConsolidatingMemory<impl Fn(&Conversation) -> Result<bool, Error>> {
        let asks = self.chat.clone().with_summarizer(summarizer);
        let consolidate = move |_: &Conversation| {
            let newest = |chat: &Conversation| {
                let summaries = |p: &Projection| p.consolidated().filter(|c| !c.marked);
                chat.with_projection(|p| summaries(p).map(|c| c.seq))
            };
            let before = newest(&asks)?;
            let visits = asks.visit()?;
            let newest = newest(&asks)?.filter(|_| !visits.is_empty());
            Ok(newest.is_some() && newest != before)
        };
        ConsolidatingMemory::new(self, consolidate)
    }
}

/// What stands for others in a conversation, as one running summary.
#[derive(Clone, Debug)]
pub struct SummaryMemory {
    chat: Conversation,
}

/// A text that stands, or stood, for others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SummaryPart {
    /// The message it is.
    pub id: MessageId,
    /// The entry that gave it.
    pub given: Seq,
    /// That entry's time.
    pub at: Option<Micros>,
    /// The messages it stands for, exactly.
    pub sources: Ranges,
    /// Whether it is in the window now.
    pub live: bool,
    /// Its words.
    pub text: String,
}

impl SummaryMemory {
    /// The running summary of a conversation.
    #[must_use]
    pub const fn new(chat: Conversation) -> Self {
        Self { chat }
    }

    /// The conversation.
    #[must_use]
    pub const fn conversation(&self) -> &Conversation {
        &self.chat
    }

    /// What stands for others now: the texts in window order, a blank line between them. `None` where
    /// nothing does.
    ///
    /// # Errors
    /// When the log cannot be read, or words are damaged.
    pub fn current_summary(&self) -> Result<Option<String>, Error> {
        let live = |p: &Projection| {
            let window = p.window();
            let claims = window.items.iter().filter_map(|i| p.message(i.id));
            let claims = claims.filter(|m| m.stands_for.is_some());
            claims.map(|m| m.id).collect::<Vec<_>>()
        };
        let live = self.chat.with_projection(live)?;
        let texts = words_of(&self.chat, &live)?;
        let texts: Vec<String> = texts.iter().map(Message::words).collect();
        Ok((!texts.is_empty()).then(|| texts.join("\n\n")))
    }

    /// Every text that ever stood for others, oldest first.
    ///
    /// # Errors
    /// When the log cannot be read, or words are damaged.
    pub fn history(&self) -> Result<Vec<SummaryPart>, Error> {
        let claims = self.chat.with_projection(|p| {
            let claims = p.messages().iter().filter(|m| m.stands_for.is_some());
            let part = |m: &crate::window::MessageState| SummaryPart {
                id: m.id,
                given: m.logged.seq,
                at: m.logged.at,
                sources: m.sources.clone(),
                live: m.visible(),
                text: String::new(),
            };
            claims.map(part).collect::<Vec<_>>()
        })?;
        let ids: Vec<MessageId> = claims.iter().map(|c| c.id).collect();
        let texts = words_of(&self.chat, &ids)?;
        let with = |(part, text): (SummaryPart, Message)| SummaryPart {
            text: text.words(),
            ..part
        };
        Ok(claims.into_iter().zip(texts).map(with).collect())
    }
}

/// A buffer that is consolidated when its policy says so, by whoever is given to do it.
pub struct ConsolidatingMemory<C> {
    buffer: BufferMemory,
    consolidate: C,
}

impl<C> fmt::Debug for ConsolidatingMemory<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsolidatingMemory")
            .field("buffer", &self.buffer)
            .finish_non_exhaustive()
    }
}

/// What came of an append that may consolidate.
#[derive(Debug)]
pub struct Remembered<E> {
    /// The message was accepted, whatever came of the rest: it is not to be appended again.
    pub ack: Ack,
    /// Whether it was due, and why.
    pub due: Due,
    /// Where it was due: whether anything was consolidated, or why that failed. It is tried again
    /// after the next append.
    pub consolidated: Option<Result<bool, E>>,
}

impl<E, C: Fn(&Conversation) -> Result<bool, E>> ConsolidatingMemory<C> {
    /// A buffer that `consolidate` is called for when its policy says so, after an append. It is given
    /// the conversation, may let strategies visit or edit it, and says whether it consolidated
    /// anything.
    #[must_use]
    pub const fn new(buffer: BufferMemory, consolidate: C) -> Self {
        Self {
            buffer,
            consolidate,
        }
    }

    /// The buffer. What is appended through it alone is consolidated with what comes next here.
    #[must_use]
    pub const fn buffer(&self) -> &BufferMemory {
        &self.buffer
    }

    /// The running summary.
    #[must_use]
    pub fn summary(&self) -> SummaryMemory {
        SummaryMemory::new(self.buffer.chat.clone())
    }

    /// Lets the messages and what stands for others leave as far as they may, by one entry. All of
    /// them are in the log.
    ///
    /// # Errors
    /// As [`Conversation::clear`].
    pub fn clear(&self) -> Result<Ack, Error> {
        self.buffer.chat.clear()
    }

    /// Appends a message; where the policy then says so, consolidates, and marks that.
    ///
    /// # Errors
    /// As [`Conversation::append`]. That consolidating failed is none: the message was appended.
    pub fn append(&self, message: Message) -> Result<Remembered<E>, Error> {
        let chat = &self.buffer.chat;
        let ack = self.buffer.append(message)?;
        let due = self.buffer.should_consolidate()?;
        let mut consolidated = None;
        if due.due {
            let before = chat.last_consolidated()?;
            let done = (self.consolidate)(chat);
            // What the log shows as a consolidation needs no mark beside it.
            if matches!(done, Ok(true)) && chat.last_consolidated()? == before {
                chat.mark_consolidated_now()?;
            }
            consolidated = Some(done);
        }
        Ok(Remembered {
            ack,
            due,
            consolidated,
        })
    }
}

/// The words of messages as they are now.
fn words_of(chat: &Conversation, ids: &[MessageId]) -> Result<Vec<Message>, Error> {
    let forms = chat.with_projection(|p| {
        let form = |id: &MessageId| {
            let message = p.message(*id)?;
            let form = message.form()?;
            let role = form.skeleton.role.clone();
            Some((form.given, form.payload, role, message.author()))
        };
        ids.iter().filter_map(form).collect::<Vec<_>>()
    })?;
    let words = |(given, payload, role, author)| {
        let content: Content = chat.content(given, payload)?;
        Ok(content.into_message(role, author))
    };
    forms.into_iter().map(words).collect()
}
