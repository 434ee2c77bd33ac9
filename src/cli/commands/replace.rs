//! `replace` and `clear`: takes messages out of the window by position or name.

use std::io::Read as _;

use clap::ValueEnum;
use ctxlog::engine::{Ack, Conversation, Replacement};
use ctxlog::log::{Head, Message, MessageId, PartKind, Ranges, Role, Seq, StandInKind};
use serde::Serialize;
use serde_json::Value;

use crate::cli::errors::Failure;
use crate::cli::{Context, entry, stores};

const REPLACE: &str = "\
EXAMPLES
  echo 'They agreed on Monday.' | ctxlog replace 0..-2   all but the last two messages
  ctxlog replace 3..9 --role assistant --gaps --text 'Several tries failed.'
  ctxlog replace -1 --in-place --text 'The file is empty.'   another content of the last message
  ctxlog replace 0..-4 --ask                 what is meant is settled now, the words come later:
  ctxlog replace --asked s:209 < summary.txt

Positions count from 0, in the order of `ctxlog window`; the end is exclusive; negative ones count
from the window's end. A call and its results are replaced together or not at all. The system
prompt, the current request, open calls and what is pinned stay. `ctxlog restore s:N` undoes it.";

#[derive(clap::Args, Debug)]
#[command(after_help = REPLACE)]
pub struct Args {
    /// Positions of the window: A..B, A.. or one, as in 0..-2
    #[arg(allow_hyphen_values = true, required_unless_present = "asked")]
    pub range: Option<String>,
    /// Only messages in this role; may be given several times
    #[arg(long, value_name = "ROLE")]
    pub role: Vec<String>,
    /// Only messages with a part of this kind (text, image, call, result, reasoning, …); may be
    /// given several times
    #[arg(long, value_name = "KIND")]
    pub tag: Vec<String>,
    /// Messages that stay may stand between those that are replaced
    #[arg(long)]
    pub gaps: bool,
    /// The words are another content of the one message that is meant
    #[arg(long)]
    pub in_place: bool,
    /// Settle what is meant; the words come later, with --asked
    #[arg(long, conflicts_with_all = ["asked", "text"])]
    pub ask: bool,
    /// Give the words of what was asked for in this entry
    #[arg(long, value_name = "s:N", conflicts_with_all = ["range", "role", "tag", "gaps", "in_place"])]
    pub asked: Option<String>,
    /// The words; otherwise they are read from stdin
    #[arg(long)]
    pub text: Option<String>,
    /// Who the words speak as, where they are a message of their own
    #[arg(long = "as", value_enum, default_value = "user", value_name = "ROLE")]
    pub speaks: Speaks,
}

/// Who words that stand for others speak as.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speaks {
    User,
    Assistant,
}

const CLEAR: &str = "\
EXAMPLES
  ctxlog clear            everything that may leave does: the window begins anew
  ctxlog clear m12 m18    these, each with its whole group

The system prompt, the current request, open calls and what is pinned stay; the log keeps all.
`ctxlog restore s:N` brings back what entry N cleared.";

#[derive(clap::Args, Debug)]
#[command(after_help = CLEAR)]
pub struct Clear {
    /// The messages (m18); all that may leave otherwise
    pub messages: Vec<String>,
}

#[derive(Serialize)]
struct Edited {
    schema: &'static str,
    conversation: String,
    /// The entry that records it.
    seq: Seq,
    /// The message that stands for the others, or that got another content.
    message: Option<String>,
    /// The messages it stands for, or that left.
    of: Vec<String>,
    /// What was asked for, and what of it stays and why.
    request: Option<Value>,
    head: Option<Head>,
}

pub fn run(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
    let what = args.range.as_deref().map(|range| meant(args, range));
    let what = what.transpose()?;
    let asked = args.asked.as_deref().map(ask).transpose()?;
    let with = (!args.ask).then(|| content(args)).transpose()?;
    let store = stores::existing(cx)?;
    let chat = stores::conversation(cx, &store)?;
    let ack = match (what, asked, with) {
        (Some(what), None, None) => chat.ask_replacement(&what)?,
        (Some(what), None, Some(with)) => chat.replace(&what, with)?,
        (_, Some(ask), Some(with)) => chat.replace_asked(ask, with)?,
        _ => {
            let message = "neither a range nor --asked was given";
            return Err(Failure::usage("usage", message, RANGES));
        }
    };
    told(cx, &chat, ack, "ctxlog.replace/1")
}

pub fn clear(cx: &mut Context, args: &Clear) -> Result<u8, Failure> {
    let help = "messages are m and a number, as in m18; without any, all that may leave does";
    let messages: Vec<MessageId> = args
        .messages
        .iter()
        .map(|text| entry::message_id(text, help))
        .collect::<Result<_, _>>()?;
    let store = stores::existing(cx)?;
    let chat = stores::conversation(cx, &store)?;
    let ack = if messages.is_empty() {
        chat.clear()?
    } else {
        chat.clear_messages(&messages)?
    };
    told(cx, &chat, ack, "ctxlog.clear/1")
}

const RANGES: &str =
    "a range is A..B, A.. or one position, from 0; B is exclusive; -1 is the last message";

/// A range of positions with what limits it.
fn meant(args: &Args, range: &str) -> Result<Replacement, Failure> {
    let invalid = || {
        let message = format!("'{range}' is no range of positions");
        Failure::usage("invalid-selector", message, RANGES)
    };
    let number = |text: &str| text.parse::<i64>().map_err(|_| invalid());
    let (start, end) = match range.split_once("..") {
        Some((start, end)) => {
            let start = if start.is_empty() { 0 } else { number(start)? };
            let end = (!end.is_empty()).then(|| number(end)).transpose()?;
            (start, end)
        }
        None => {
            let at = number(range)?;
            (at, at.checked_add(1).filter(|end| *end != 0))
        }
    };
    let mut what = Replacement::range(start, end)
        .roles(args.role.iter().map(|name| Role::from_name(name)))
        .tags(
            args.tag
                .iter()
                .map(|name| tag(name))
                .collect::<Result<Vec<_>, _>>()?,
        );
    what.of.gaps = args.gaps;
    what.in_place = args.in_place;
    Ok(what)
}

fn tag(name: &str) -> Result<PartKind, Failure> {
    let kind = PartKind::ALL.iter().find(|kind| kind.name() == name);
    kind.copied().ok_or_else(|| {
        let known: Vec<&str> = PartKind::ALL.iter().map(|kind| kind.name()).collect();
        let help = format!("a message has parts of these kinds: {}", known.join(", "));
        Failure::usage(
            "invalid-option",
            format!("'{name}' is no kind of part"),
            help,
        )
    })
}

fn ask(text: &str) -> Result<Seq, Failure> {
    let seq = text.strip_prefix("s:").and_then(|n| n.parse().ok());
    seq.map(Seq).ok_or_else(|| {
        let message = format!("'{text}' is no entry");
        let help = "give the entry that `ctxlog replace --ask` wrote, as in s:209";
        Failure::usage("invalid-selector", message, help)
    })
}

/// The words that take the place: --text, or all of stdin.
fn content(args: &Args) -> Result<Message, Failure> {
    let text = match &args.text {
        Some(text) => text.clone(),
        None => {
            let mut text = String::new();
            let read = std::io::stdin().lock().read_to_string(&mut text);
            read.map_err(|e| {
                let message = format!("stdin cannot be read as text: {e}");
                Failure::usage(
                    "invalid-message",
                    message,
                    "give the words on stdin, or --text",
                )
            })?;
            text.trim_end_matches(['\n', '\r']).to_owned()
        }
    };
    Ok(match args.speaks {
        Speaks::User => Message::person(text),
        Speaks::Assistant => Message::model(text),
    })
}

fn told(
    cx: &mut Context,
    chat: &Conversation,
    ack: Ack,
    schema: &'static str,
) -> Result<u8, Failure> {
    let written = chat.entry(ack.last)?;
    let change = written.body.change().cloned().unwrap_or_default();
    let stand_in = change.stand_ins.first();
    let named = change.left.iter().map(|l| &l.messages);
    let named = named.chain(stand_in.map(|s| &s.sources));
    let of = chat.with_projection(|p| {
        let ids = named.flat_map(|ranges| p.ids_in(ranges));
        ids.map(|id| id.to_string()).collect::<Vec<_>>()
    })?;
    let request = chat.edit_rest(ack.last)?;
    let request: Option<Value> = request.and_then(|json| serde_json::from_str(&json.0).ok());
    let done = Edited {
        schema,
        conversation: chat.name().to_owned(),
        seq: ack.last,
        message: stand_in.and_then(|s| match s.kind {
            StandInKind::Form => of.first().cloned(),
            _ => Some(ack.message().to_string()),
        }),
        of,
        request,
        head: chat.head()?,
    };
    if cx.json {
        cx.out.json(&done)?;
        return Ok(0);
    }
    let name = super::status::choice(cx, chat);
    if done.of.is_empty() {
        let next = cx
            .look
            .id(&format!("ctxlog replace --asked {}{name}", done.seq));
        cx.text(
            &format!("{}  {}", done.seq, resolved(done.request.as_ref())),
            2,
        )?;
        cx.text(&format!("give the words with {next}"), 2)?;
        return Ok(0);
    }
    let what = entry::changed(&change);
    cx.text(&format!("{}  {what}", done.seq), 2)?;
    for stayed in stayed(done.request.as_ref()) {
        cx.text(&format!("stays: {stayed}"), 2)?;
    }
    let undo = cx.look.id(&format!("ctxlog restore {}{name}", done.seq));
    cx.text(&format!("undo with {undo}"), 2)?;
    Ok(0)
}

/// What an ask means, in a line.
fn resolved(request: Option<&Value>) -> String {
    let ids = request.and_then(|r| r.get("resolved")?.as_array());
    let ids = ids.into_iter().flatten().map(|id| format!("m{id}"));
    format!("means {}", ids.collect::<Vec<_>>().join(" "))
}

/// What was in question and stays, with the reasons.
fn stayed(request: Option<&Value>) -> Vec<String> {
    let skipped = request.and_then(|r| r.get("skipped")?.as_array());
    let one = |skip: &Value| {
        let ids: Ranges = serde_json::from_value(skip.get("messages")?.clone()).ok()?;
        Some(format!("{ids} {}", skip.get("why")?.as_str()?))
    };
    skipped.into_iter().flatten().filter_map(one).collect()
}
