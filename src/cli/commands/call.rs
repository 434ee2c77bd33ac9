//! `call`: takes the window to send, and files the call.

use std::path::{Path, PathBuf};

use ctxlog::audit::{self, Place};
use ctxlog::engine::{Options, Request};
use ctxlog::formats::{Profile, json};
use ctxlog::log::Json;
use ctxlog::strategy;

use super::window;
use crate::cli::args::{Body, strategies};
use crate::cli::errors::Failure;
use crate::cli::{Context, output, stores, summaries};

const CALL: &str = concat!(
    "\
EXAMPLES
  ctxlog call -c chat --format openai-chat --model gpt-4.1 > request.json
  ctxlog call -c chat --strategy token-budget:limit=8000,keep=6
  ctxlog call -c chat --json | jq .digest

The strategies visit and the call is filed, in one step. --strategy sets the chain on first use.",
    strategies!()
);

#[derive(clap::Args, Debug)]
#[command(after_help = CALL)]
pub struct Args {
    /// The model that is called
    #[arg(long)]
    pub model: Option<String>,
    /// A file with the request's other fields as a JSON object, in the terms of --format; changed
    /// ones are logged with the call
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// The strategies in force from here on, `name:key=value,…`; may be given several times
    #[arg(long, value_name = "SPEC")]
    pub strategy: Vec<String>,
    /// What to print: a request body, or all words
    #[arg(long, value_enum)]
    pub format: Option<Body>,
    /// Refuse when the head is not this entry
    #[arg(long, value_name = "s:N")]
    pub expect: Option<String>,
    /// Idempotency key
    #[arg(long)]
    pub key: Option<String>,
}

pub fn run(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
    let chain = args.strategy.iter().map(|spec| strategy::parse(spec));
    let chain = chain.collect::<Result<Vec<_>, _>>()?;
    let summarizer = summaries::command(&chain)?;
    let options = Options {
        expected: stores::expected(args.expect.as_deref())?,
        key: args.key.clone(),
        ..Options::default()
    };
    let store = stores::existing(cx)?;
    let mut chat = stores::conversation(cx, &store)?;
    if !chain.is_empty() {
        chat = chat.with_strategies(chain)?;
    }
    if let Some(summarizer) = summarizer {
        chat = chat.with_summarizer(summarizer);
    }
    let profile = args.format.and_then(Body::profile);
    let settings = args.settings.as_deref().map(|path| settings(path, profile));
    let request = Request {
        model: args.model.clone(),
        settings: settings.transpose()?,
        profile,
    };
    let call = chat.call_request(&options, &request)?;
    summaries::tell(&call);
    if let Some(rendered) = &call.rendered {
        return window::body(cx, rendered);
    }
    let place = Place {
        seq: call.id,
        call: Some(call.iteration),
    };
    let shown = audit::window(&chat, place)?;
    if !cx.json {
        let visits = if call.visits.is_empty() && call.due {
            "nothing left"
        } else if call.visits.is_empty() {
            "no strategy was due"
        } else {
            "strategies visited"
        };
        output::note(&format!(
            "filed {} as {}; {visits}",
            call.iteration, call.id
        ));
    }
    window::show(cx, &chat, &shown, args.format.is_some(), false)
}

/// Request settings from a file: a JSON object, in the terms of the body's format.
fn settings(path: &Path, profile: Option<Profile>) -> Result<(String, Json), Failure> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| Failure::file("reading", path, &error))?;
    let text = Json(text.trim().to_owned());
    if json::object(&text).is_none() {
        return Err(Failure::usage(
            "bad-settings",
            format!("{} holds no JSON object", path.display()),
            "give the request's fields but its messages, such as {\"max_tokens\": 1024}",
        ));
    }
    let format = profile.map_or("openai-chat", Profile::name);
    Ok((format.to_owned(), text))
}
