//! `redact`: destroys words, wherever they went.

use std::io::{IsTerminal as _, Write as _};

use ctxlog::engine::{LogRedaction, Redact, Redaction};
use ctxlog::log::{Head, Seq};
use serde::Serialize;

use crate::cli::errors::{Failure, NO};
use crate::cli::human::{escape, things};
use crate::cli::{Context, entry, stores};

const REDACT: &str = "\
EXAMPLES
  ctxlog redact m18 --dry-run    what would go, and where it is
  ctxlog redact m18              the message, its other forms, and what summarises or quotes it,
                                 notes of its source included
  ctxlog redact --all --yes      every word of the conversation

Words and salts are destroyed; that cannot be undone. The chain still verifies, and no window changes
but for what it can show. Forks lose what they share. It does not reach what was exported, backed up
or sent before.";

#[derive(clap::Args, Debug)]
#[command(after_help = REDACT)]
pub struct Args {
    /// The message (m18)
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub message: Option<String>,
    /// All words of the conversation
    #[arg(long)]
    pub all: bool,
    /// List what would go, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}

#[derive(Serialize)]
struct Redacted {
    schema: &'static str,
    conversation: String,
    message: Option<String>,
    /// Whether it was done; a dry run only says what would be.
    done: bool,
    logs: Vec<Log>,
    blobs: u64,
    /// Notes near and behind the message that do not hold its words as they are.
    notes_kept: u64,
    head: Option<Head>,
}

#[derive(Serialize)]
struct Log {
    conversation: String,
    /// The entry that says so.
    seq: Option<Seq>,
    payloads: Vec<Payload>,
}

#[derive(Serialize)]
struct Payload {
    seq: Seq,
    index: u32,
    what: &'static str,
    /// Whether it was still there.
    held: bool,
}

impl Log {
    fn of(log: &LogRedaction) -> Self {
        let payloads = log.goes.iter().map(|goes| Payload {
            seq: goes.seq,
            index: goes.index,
            what: goes.what.name(),
            held: goes.held,
        });
        Self {
            conversation: log.log.name.name.clone(),
            seq: log.filed,
            payloads: payloads.collect(),
        }
    }
}

pub fn run(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
    let asked = match &args.message {
        Some(text) => Redact::Message(entry::message_id(text, "name a message, as in m18")?),
        None => Redact::Conversation,
    };
    let store = stores::existing(cx)?;
    let chat = stores::conversation(cx, &store)?;
    let plan = chat.plan_redaction(asked)?;
    if plan.is_done() {
        let message = "it was redacted already";
        return Err(Failure::new(
            NO,
            "nothing-matches",
            message,
            "`ctxlog verify` says so as well",
        ));
    }
    if !cx.json {
        listed(cx, &plan)?;
    }
    let sure = args.dry_run || args.yes || confirmed(cx)?;
    if !sure {
        return Err(Failure::usage(
            "not-confirmed",
            "nothing was changed",
            "give --yes to redact",
        ));
    }
    let plan = if args.dry_run {
        plan
    } else {
        chat.redact(asked)?
    };
    if cx.json {
        cx.out.json(&Redacted {
            schema: "ctxlog.redact/1",
            conversation: chat.name().to_owned(),
            message: args.message.clone(),
            done: !args.dry_run,
            logs: plan.logs.iter().map(Log::of).collect(),
            blobs: plan.blobs,
            notes_kept: plan.notes_kept,
            head: chat.head()?,
        })?;
        return Ok(0);
    }
    if args.dry_run {
        cx.text(
            "nothing was changed; without --dry-run these words are destroyed",
            2,
        )?;
        return Ok(0);
    }
    for log in plan.logs.iter().filter(|log| !log.goes.is_empty()) {
        let said = log
            .filed
            .map_or_else(String::new, |seq| format!(", said by {seq}"));
        let name = escape(&log.log.name.name);
        cx.text(&format!("redacted in {name}{said}"), 2)?;
    }
    let rest = "exports, backups and what a provider was sent still hold them; the store's own files \
                may too, until their space is used again or `ctxlog compact` writes new ones";
    cx.text(&cx.look.dim(&format!("not reached  {rest}")), 13)?;
    Ok(0)
}

/// Says what goes.
fn listed(cx: &mut Context, plan: &Redaction) -> Result<(), Failure> {
    for log in plan.logs.iter().filter(|log| !log.goes.is_empty()) {
        let held = log.goes.iter().filter(|goes| goes.held).count();
        let held = things(u64::try_from(held).unwrap_or(u64::MAX), "payload");
        cx.text(
            &cx.look
                .bold(&format!("{}  {held}", escape(&log.log.name.name))),
            2,
        )?;
        for goes in log.goes.iter().take(SHOWN) {
            let state = if goes.held { "" } else { "  gone already" };
            let index = if goes.index == 0 {
                String::new()
            } else {
                format!(" [{}]", goes.index)
            };
            cx.text(
                &format!("  {:<8} {}{index}{state}", goes.what.name(), goes.seq),
                4,
            )?;
        }
        if let Some(more) = log.goes.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            let more = things(u64::try_from(more).unwrap_or(u64::MAX), "more payload");
            cx.text(&cx.look.dim(&format!("  … {more} (--json lists all)")), 4)?;
        }
    }
    if plan.blobs > 0 {
        cx.text(&format!("with them {}", things(plan.blobs, "blob")), 2)?;
    }
    if plan.notes_kept > 0 {
        let notes = things(plan.notes_kept, "note");
        let stay = format!(
            "{notes} of what was found beside messages stay: they do not hold these words as they are"
        );
        cx.text(&cx.look.dim(&stay), 2)?;
    }
    cx.text(&cx.look.dim("snapshots hold no words and stay"), 2)
}

/// So many payloads of a log are listed for people.
const SHOWN: usize = 20;

/// Asks a person at the terminal; nobody else is sure.
fn confirmed(cx: &mut Context) -> Result<bool, Failure> {
    if cx.json || !std::io::stdin().is_terminal() {
        return Ok(false);
    }
    cx.out.flush()?;
    let mut asked = std::io::stderr();
    let _ = write!(asked, "destroy these words for good? [y/N] ");
    let _ = asked.flush();
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    Ok(read.is_ok() && answer.trim().eq_ignore_ascii_case("y"))
}
