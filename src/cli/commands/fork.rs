//! `fork`: a conversation that goes on from an earlier moment of another.

use ctxlog::audit::{self, Place, Selector, Size};
use ctxlog::log::{Head, Iteration, Seq};
use serde::Serialize;

use crate::cli::errors::Failure;
use crate::cli::human::{self, number, things};
use crate::cli::{Context, stores};

const FORK: &str = "\
EXAMPLES
  ctxlog fork it:26 --as keep-orders    just before call 26 and what left at it
  ctxlog fork @ --as second             from here on, two ways
  ctxlog fork s:209 --as try --close    calls without a result are answered as interrupted

Nothing is copied and the parent stays as it is; both are called by their names with -c.";

#[derive(clap::Args, Debug)]
#[command(after_help = FORK)]
pub struct Args {
    /// Where to leave the parent: after an entry (s:209, m18, a hash prefix, @), before a call (it:26)
    #[arg(value_name = "SEL")]
    pub at: String,
    /// The new conversation's name
    #[arg(
        long = "as",
        short = 'n',
        value_name = "NAME",
        value_parser = clap::builder::NonEmptyStringValueParser::new()
    )]
    pub name: String,
    /// Answer tool calls that have no result there as interrupted
    #[arg(long)]
    pub close: bool,
}

#[derive(Serialize)]
struct Forked {
    schema: &'static str,
    conversation: String,
    id: String,
    /// The parent's name.
    parent: String,
    /// The last entry that both share.
    at: Seq,
    /// The iteration that the fork goes on with.
    iteration: Iteration,
    /// Calls that were answered as interrupted.
    closed: u64,
    /// The fork's window.
    window: Size,
    head: Option<Head>,
}

pub fn run(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
    let selector: Selector = args.at.parse()?;
    let store = stores::existing(cx)?;
    let parent = stores::conversation(cx, &store)?;
    let at = match selector {
        Selector::Iteration(n) => parent.before_call(n)?,
        other => other.resolve(&parent)?.seq,
    };
    let fork = if args.close {
        parent.fork_closing(at, &args.name)?
    } else {
        parent.fork(at, &args.name)?
    };
    let head = fork.head()?;
    let seq = head.map_or(at, |head| head.seq);
    let shown = audit::window(&fork, Place { seq, call: None })?;
    let done = Forked {
        schema: "ctxlog.fork/1",
        conversation: fork.name().to_owned(),
        id: fork.id().to_string(),
        parent: parent.name().to_owned(),
        at,
        iteration: shown.at.iteration,
        closed: seq.0.saturating_sub(at.0).saturating_sub(1),
        window: shown.size,
        head,
    };
    if cx.json {
        cx.out.json(&done)?;
        return Ok(0);
    }
    told(cx, &done, parent.head()?)?;
    Ok(0)
}

fn told(cx: &mut Context, done: &Forked, parent: Option<Head>) -> Result<(), Failure> {
    let look = cx.look;
    let short = |head: Option<Head>| head.map_or_else(String::new, |head| head.hash.short());
    let (name, from) = (
        human::escape(&done.conversation),
        human::escape(&done.parent),
    );
    let size = format!(
        "{} tok, {}",
        number(done.window.tokens.amount),
        things(done.window.messages, "message")
    );
    let closed = match done.closed {
        0 => String::new(),
        n => format!(", {} answered as interrupted", things(n, "call")),
    };
    let (name, from) = (look.bold(&name), look.bold(&from));
    let (at, iteration) = (done.at, done.iteration);
    cx.text(
        &format!("{name} leaves {from} after {at}, in {iteration}: {size}{closed}"),
        2,
    )?;
    cx.text(
        &format!(
            "{from} stays at {}; {name} is at {}",
            short(parent),
            short(done.head)
        ),
        2,
    )?;
    let choice = format!(" -c {}", super::status::shell(&done.conversation));
    let next = look.id(&format!("ctxlog window{choice}"));
    let call = look.id(&format!("ctxlog call{choice}"));
    cx.text(&format!("next: {next}   {call}"), 6)
}
