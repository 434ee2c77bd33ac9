//! `report`: records what came back from a call.

use std::io::Read as _;

use ctxlog::audit::Selector;
use ctxlog::engine::Conversation;
use ctxlog::formats::{Usage, anthropic, json, openai_chat};
use ctxlog::log::{Head, Iteration, Json, Seq};
use serde::Serialize;

use crate::cli::errors::{Failure, NO};
use crate::cli::{Context, stores};

const REPORT: &str = "\
EXAMPLES
  ctxlog report --call last --input 812 --output 96
  ctxlog report --call it:27 --failure 'status 529: overloaded'
  jq .usage response.json | ctxlog report --call last";

#[derive(clap::Args, Debug)]
#[command(after_help = REPORT)]
pub struct Args {
    /// The call: s:N, it:N or last
    #[arg(long, default_value = "last")]
    pub call: String,
    /// Input tokens that were neither read from nor written to a cache
    #[arg(long, value_name = "N")]
    pub input: Option<u64>,
    /// Output tokens
    #[arg(long, value_name = "N")]
    pub output: Option<u64>,
    /// Input tokens read from a cache
    #[arg(long, value_name = "N")]
    pub cache_read: Option<u64>,
    /// Input tokens written to a cache
    #[arg(long, value_name = "N")]
    pub cache_write: Option<u64>,
    /// The call failed, in the provider's words
    #[arg(long, value_name = "TEXT")]
    pub failure: Option<String>,
}

#[derive(Serialize)]
struct Reported {
    schema: &'static str,
    conversation: String,
    call: Seq,
    seq: Seq,
    head: Option<Head>,
}

pub fn run(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
    let usage = match flags(args) {
        None if args.failure.is_none() => Some(read()?),
        usage => usage,
    };
    let store = stores::existing(cx)?;
    let chat = stores::conversation(cx, &store)?;
    let call = which(&chat, &args.call)?;
    let ack = chat.report(call, usage, args.failure.as_deref(), None)?;
    let done = Reported {
        schema: "ctxlog.report/1",
        conversation: chat.name().to_owned(),
        call,
        seq: ack.last,
        head: chat.head()?,
    };
    if cx.json {
        cx.out.json(&done)?;
    } else {
        cx.out.line(&format!("{}  of {call}", done.seq))?;
    }
    Ok(0)
}

fn flags(args: &Args) -> Option<Usage> {
    let usage = Usage {
        input: args.input,
        output: args.output,
        cache_read: args.cache_read,
        cache_write: args.cache_write,
    };
    (usage != Usage::default()).then_some(usage)
}

/// Usage as a provider writes it, or a whole answer that holds it.
fn read() -> Result<Usage, Failure> {
    let help = "give the provider's usage object, or --input and --output, or --failure";
    let invalid = |what: String| Failure::usage("invalid-usage", what, help);
    let mut text = String::new();
    let read = std::io::stdin().lock().read_to_string(&mut text);
    read.map_err(|e| invalid(format!("stdin cannot be read: {e}")))?;
    let whole = json::object(&Json(text.trim().to_owned()))
        .ok_or_else(|| invalid("stdin holds no JSON object".to_owned()))?;
    let within = json::field(&whole, "usage").cloned();
    let usage = within.unwrap_or_else(|| json::write_object(&whole));
    let read = [anthropic::usage(&usage), openai_chat::usage(&usage)];
    let found = read
        .into_iter()
        .flatten()
        .find(|u| u.input.is_some() || u.output.is_some());
    found.ok_or_else(|| invalid("the JSON on stdin names no tokens".to_owned()))
}

/// The entry of the call that is meant.
fn which(chat: &Conversation, text: &str) -> Result<Seq, Failure> {
    if text == "last" {
        let last = chat.with_projection(|p| p.sent().last().map(|s| s.fact.seq))?;
        return last.ok_or_else(|| {
            let message = format!("'{}' has no call yet", chat.name());
            Failure::new(
                NO,
                "nothing-matches",
                message,
                "file one with `ctxlog call`",
            )
        });
    }
    match text.parse()? {
        selector @ (Selector::Entry(_) | Selector::Iteration(Iteration(_))) => {
            Ok(selector.resolve(chat)?.seq)
        }
        _ => {
            let message = format!("'{text}' is no call");
            Err(Failure::usage(
                "invalid-selector",
                message,
                "give it as s:N, it:N or last",
            ))
        }
    }
}
