//! What the requests of one provider look like. A new profile is one type with [`Dialect`], its rules in
//! `lint`, and a line in [`Profile::dialect`].

use super::json::Writer;
use super::settings::Tool;
use super::wire::{Repairs, Wire};
use super::{
    Profile, anthropic, bedrock_converse, gemini_contents, langchain, mistral_chat, openai_chat,
    openai_responses, vercel_uimessages,
};
use crate::log::{Fields, Json, Message, Seq};

/// How a request body is written.
pub(crate) trait Dialect: Sync {
    /// The format whose messages and settings are its own.
    fn format(&self) -> &'static str;

    /// What its bodies are, for people.
    fn title(&self) -> &'static str;

    /// Formats whose messages and settings are its own, inside other records.
    fn kin(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether later blocks of a message are written as one message with it.
    fn joins_continued(&self) -> bool {
        true
    }

    /// Whether results and the words behind them are one message, where their source had them in one.
    fn joins_same_source(&self) -> bool {
        false
    }

    /// Whether a message of its own format belongs to one source message with the message before it.
    /// `continues`: the log says that it is a later block of that one.
    fn goes_on(&self, _before: &Message, _next: &Message, continues: bool) -> bool {
        continues
    }

    /// The messages that a source's text gives, which is kept with the first of them: it is written
    /// again as it stands while it still says the same.
    fn read(&self, source: &Json, first: &Message) -> Option<Vec<Message>>;

    /// The field that names the model; `None` where a body does not name it.
    fn model_field(&self) -> Option<&'static str> {
        Some("model")
    }

    /// The fields of a body that hold messages.
    fn message_fields(&self) -> &'static [&'static str];

    /// What another provider's settings say in this one's terms: the most tokens of an answer, and the
    /// tools that the client runs.
    fn write_mapped(&self, body: &mut Writer, limit: Option<u64>, tools: &[Tool]);

    /// What its own settings lack and a request must have.
    fn complete(&self, _body: &mut Writer, _settings: &Fields) {}

    /// Writes the messages; gives for each one of the body's list the entry that introduced it. Unless
    /// `as_is`, every hard rule is made to hold.
    fn write_messages(
        &self,
        body: &mut Writer,
        wires: Vec<Wire<'_>>,
        as_is: bool,
        repairs: &mut Repairs,
    ) -> Vec<Seq>;

    /// Whether messages or settings of a format are its own, if inside another record.
    fn knows(&self, format: &str) -> bool {
        self.format() == format || self.kin().contains(&format)
    }
}

impl Profile {
    pub(crate) fn dialect(self) -> &'static dyn Dialect {
        match self {
            Self::OpenAiChat => &openai_chat::Chat,
            Self::OpenAiResponses => &openai_responses::Responses,
            Self::Anthropic => &anthropic::Messages,
            Self::Bedrock => &bedrock_converse::Converse,
            Self::Gemini => &gemini_contents::GenerateContent,
            Self::Mistral => &mistral_chat::ChatCompletion,
            Self::LangChain => &langchain::Messages,
            Self::VercelUi => &vercel_uimessages::UiMessages,
        }
    }

    /// The name people and tools see.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.dialect().format()
    }

    /// What its bodies are, in a few words.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.dialect().title()
    }
}
