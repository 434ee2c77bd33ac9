//! `append`: adds a message.

use std::io::Read as _;

use clap::ValueEnum;
use ctxlog::engine::Options;
use ctxlog::formats::input::Piece;
use ctxlog::formats::{anthropic, detect, openai_chat};
use ctxlog::log::{Author, Head, Json, Message, MessageId, Part, Role, Seq};
use serde::Serialize;

use crate::cli::errors::Failure;
use crate::cli::{Context, human, stores};

const APPEND: &str = "\
EXAMPLES
  ctxlog append -c chat --role system --text 'You are a support agent.'
  ctxlog append -c chat --text 'Where is order 4411?'
  echo '{\"role\":\"assistant\",\"content\":\"On its way.\"}' | ctxlog append -c chat
  ctxlog append -c chat --result-of call_1 --text 'shipped on Monday'

The store and the conversation are created where they are absent.";

/// How a message is written.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spelling {
    /// As OpenAI Chat Completions have it
    OpenaiChat,
    /// As Anthropic Messages have it
    Anthropic,
}

#[derive(clap::Args, Debug)]
#[command(after_help = APPEND)]
pub struct Args {
    /// Who it speaks as, with --text
    #[arg(long, value_enum, requires = "text")]
    pub role: Option<Speaker>,
    /// The words; without it a JSON message is read from stdin
    #[arg(long, value_name = "TEXT")]
    pub text: Option<String>,
    /// The words are the result of this call
    #[arg(
        long,
        value_name = "CALL_ID",
        requires = "text",
        conflicts_with = "role"
    )]
    pub result_of: Option<String>,
    /// How the JSON message is written; found out from its shape otherwise
    #[arg(long, value_enum, conflicts_with = "text")]
    pub format: Option<Spelling>,
    /// Refuse when there is newer content after this entry
    #[arg(long, value_name = "s:N")]
    pub expect: Option<String>,
    /// Idempotency key: the same request under the same key is written once
    #[arg(long)]
    pub key: Option<String>,
}

/// Who a message speaks as.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speaker {
    System,
    Developer,
    User,
    Assistant,
}

#[derive(Serialize)]
struct Appended {
    schema: &'static str,
    conversation: String,
    /// The message; the last one, where results and words became two.
    message: String,
    messages: Vec<String>,
    seq: Seq,
    head: Option<Head>,
    /// Whether the key had been seen, so that nothing was written now.
    repeated: bool,
}

pub fn run(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
    let message = match &args.text {
        Some(text) => words(args, text),
        None => read(args.format)?,
    };
    let options = Options {
        expected: stores::expected(args.expect.as_deref())?,
        key: args.key.clone(),
        ..Options::default()
    };
    let store = stores::created(cx)?;
    let chat = match &cx.conversation {
        Some(name) => store.conversation(name)?,
        None if store.list()?.is_empty() => {
            let message = "a new conversation needs a name";
            return Err(Failure::usage(
                "which-conversation",
                message,
                "give one with -c NAME",
            ));
        }
        None => stores::conversation(cx, &store)?,
    };
    let ack = chat.append_with(message, &options)?;
    let ids = (ack.first.0..=ack.last.0)
        .map(|n| MessageId(Seq(n)).to_string())
        .collect();
    let done = Appended {
        schema: "ctxlog.append/1",
        conversation: chat.name().to_owned(),
        message: ack.message().to_string(),
        messages: ids,
        seq: ack.last,
        head: chat.head()?,
        repeated: ack.repeated,
    };
    if cx.json {
        cx.out.json(&done)?;
        return Ok(0);
    }
    let again = if done.repeated {
        "  (the key was known: nothing written)"
    } else {
        ""
    };
    let (ids, name) = (done.messages.join(" "), human::escape(&done.conversation));
    cx.out
        .line(&format!("{}  {name}{again}", cx.look.id(&ids)))?;
    Ok(0)
}

fn words(args: &Args, text: &str) -> Message {
    if let Some(call) = &args.result_of {
        return Message::tool(call, text);
    }
    match args.role.unwrap_or(Speaker::User) {
        Speaker::System => Message::system(text),
        Speaker::Developer => {
            Message::new(Role::Developer, Author::Application, vec![Part::text(text)])
        }
        Speaker::User => Message::person(text),
        Speaker::Assistant => Message::model(text),
    }
}

fn invalid(what: impl Into<String>) -> Failure {
    let help =
        "give one message as JSON, as in {\"role\": \"user\", \"content\": \"…\"}, or --text";
    Failure::usage("invalid-message", what, help)
}

fn read(format: Option<Spelling>) -> Result<Message, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().lock().read_to_string(&mut text);
    read.map_err(|e| invalid(format!("stdin cannot be read: {e}")))?;
    let value: serde_json::Value = serde_json::from_str(&text)
        .map_err(|e| invalid(format!("stdin holds no JSON message: {e}")))?;
    if value
        .get("role")
        .and_then(serde_json::Value::as_str)
        .is_none()
    {
        return Err(invalid("the JSON on stdin has no role"));
    }
    let json = Json(text.trim().to_owned());
    let anthropic = match format {
        Some(spelling) => spelling == Spelling::Anthropic,
        None => {
            let piece = Piece {
                place: "stdin:1".to_owned(),
                in_array: false,
                value: Ok(json.clone()),
            };
            detect(&[piece]).is_some_and(|format| format.name() == anthropic::FORMAT)
        }
    };
    let read = if anthropic {
        anthropic::read_message(&json, anthropic::FORMAT).and_then(joined)
    } else {
        openai_chat::read_message(&json)
    };
    read.ok_or_else(|| invalid("the JSON on stdin is no message"))
}

/// Results and words of one source message as one message again, so that they are appended in one
/// batch; the engine parts them as the reader did.
fn joined(messages: Vec<Message>) -> Option<Message> {
    let mut messages = messages.into_iter();
    let first = messages.next()?;
    let Some(words) = messages.next() else {
        return Some(first);
    };
    let parts = first.parts.into_iter().chain(words.parts).collect();
    Some(Message {
        parts,
        shape: first.shape,
        extra: first.extra,
        source: first.source,
        ..words
    })
}
