//! `context`: what the model saw when it wrote a message, and what it no longer saw.

use ctxlog::audit::{self, Context as Answer, Missing, ShownMessage};
use ctxlog::engine::Conversation;
use ctxlog::log::{MessageId, Seq};

use super::diff::cause;
use crate::cli::errors::{Failure, NO};
use crate::cli::human::{self, number, things};
use crate::cli::{Context, entry, stores};

#[derive(clap::Args, Debug)]
#[command(
    after_help = "EXAMPLES\n  ctxlog context m70          the window that the call behind m70 was sent, and what was not in it\n  ctxlog context m70 --all    also what had left long before\n\nA message that no call produced (a person's, a tool's, a summary) is told with the first call that saw it."
)]
pub struct Args {
    /// The message, as in m18
    pub message: String,
    /// All that had left by then: reads the whole log up to the call
    #[arg(long)]
    pub all: bool,
}

/// So many entries that took something are shown unless all are asked for.
const SHOWN: usize = 12;

pub fn run(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
    let help = "messages are m and a number, as in m18; see them with `ctxlog window` or `log`";
    let id = entry::message_id(&args.message, help)?;
    let store = stores::existing(cx)?;
    let chat = stores::conversation(cx, &store)?;
    let answer = audit::context(&chat, id, args.all)?;
    if let Some(window) = &answer.window {
        super::window::differs(window)?;
    }
    let code = if answer.call.is_some() { 0 } else { NO };
    if cx.json {
        cx.out.json(&answer)?;
        return Ok(code);
    }
    let Some(window) = &answer.window else {
        cx.text(&format!("no call produced {id}, and none saw it so far"), 2)?;
        return Ok(code);
    };
    heading(cx, id, &answer)?;
    for message in &window.messages {
        saw(cx, message)?;
    }
    missing(cx, &chat, &answer, args.all)?;
    if answer.looked_from > Seq(0) {
        let option = super::status::choice(cx, &chat);
        let command = cx.look.id(&format!("ctxlog context {id} --all{option}"));
        let from = answer.looked_from;
        cx.text(
            &format!("what left before {from} is not told: {command}"),
            2,
        )?;
    }
    cx.text(&format!("digest {}", window.digest), 2)?;
    Ok(code)
}

fn heading(cx: &mut Context, id: MessageId, answer: &Answer) -> Result<(), Failure> {
    let (Some(call), Some(window)) = (answer.call, &answer.window) else {
        return Ok(());
    };
    let how = if answer.produced_by.is_some() {
        format!("{id} was written by call {}", call.iteration)
    } else {
        format!(
            "no call produced {id}; the first that saw it is {}",
            call.iteration
        )
    };
    let how = cx.look.bold(&how);
    let model = answer
        .model
        .as_deref()
        .map_or_else(String::new, |m| format!("   {}", human::escape(m)));
    let size = &window.size;
    let tokens = number(size.tokens.amount);
    let method = human::escape(&size.tokens.method);
    cx.text(
        &format!(
            "{how}   {}{model}   {}   {tokens} tok by {method}",
            call.seq,
            things(size.messages, "message")
        ),
        2,
    )?;
    cx.text(&cx.look.bold("saw"), 2)
}

fn saw(cx: &mut Context, message: &ShownMessage) -> Result<(), Failure> {
    let stands = match message.stands_for.as_slice() {
        [] => String::new(),
        _ => format!("[stands for {}] ", message.sources),
    };
    let head = format!(
        "  {:<6} {:<11} {:>7} tok",
        message.id,
        message.author.name(),
        number(message.tokens)
    );
    let used = human::columns_of(&head).saturating_add(2);
    let words = cx
        .look
        .preview(&format!("{stands}{}", message.words.trim()), used);
    cx.out.line(format!("{head}  {words}").trim_end())
}

fn missing(
    cx: &mut Context,
    chat: &Conversation,
    answer: &Answer,
    all_of: bool,
) -> Result<(), Failure> {
    let many = |m: &Missing| u64::try_from(m.messages.len()).unwrap_or(u64::MAX);
    let all = answer.missing.iter().map(many).fold(0, u64::saturating_add);
    if all == 0 {
        return cx.text("nothing had left", 2);
    }
    let head = cx
        .look
        .bold(&format!("no longer saw {}", things(all, "message")));
    cx.text(&head, 2)?;
    let earlier = answer.missing.len().saturating_sub(SHOWN);
    let (earlier, newest) = answer
        .missing
        .split_at_checked(if all_of { 0 } else { earlier })
        .unwrap_or_default();
    if !earlier.is_empty() {
        let many = earlier.iter().map(many).fold(0, u64::saturating_add);
        let entries = number(u64::try_from(earlier.len()).unwrap_or(u64::MAX));
        let text = format!(
            "  {} by {entries} earlier entries: --all",
            things(many, "message")
        );
        cx.text(&cx.look.dim(&text), 4)?;
    }
    for part in newest {
        let ids = cx
            .look
            .loud(&audit::ranges(chat, &part.messages)?.to_string());
        let count = things(many(part), "message");
        cx.text(&format!("  {ids}  {count}  {}", cause(&part.by)), 4)?;
    }
    Ok(())
}
