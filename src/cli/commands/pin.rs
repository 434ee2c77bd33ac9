//! `pin` and `unpin`: keeps a message of the window from leaving, or no longer.

use ctxlog::log::{Head, Seq};
use serde::Serialize;

use crate::cli::errors::Failure;
use crate::cli::{Context, entry, stores};

#[derive(clap::Args, Debug)]
pub struct Args {
    /// The message (m18)
    pub message: String,
}

#[derive(Serialize)]
struct Done {
    schema: &'static str,
    conversation: String,
    /// The entry that records it.
    seq: Seq,
    message: String,
    pinned: bool,
    head: Option<Head>,
}

pub fn run(cx: &mut Context, args: &Args, pin: bool) -> Result<u8, Failure> {
    let help = "messages are m and a number, as in m18; see them with `ctxlog window` or `log`";
    let id = entry::message_id(&args.message, help)?;
    let store = stores::existing(cx)?;
    let chat = stores::conversation(cx, &store)?;
    let ack = if pin { chat.pin(id)? } else { chat.unpin(id)? };
    let done = Done {
        schema: "ctxlog.pin/1",
        conversation: chat.name().to_owned(),
        seq: ack.last,
        message: id.to_string(),
        pinned: pin,
        head: chat.head()?,
    };
    if cx.json {
        cx.out.json(&done)?;
        return Ok(0);
    }
    let what = if pin { "pinned" } else { "unpinned" };
    let undo = format!(
        "ctxlog restore {}{}",
        done.seq,
        super::status::choice(cx, &chat)
    );
    let undo = cx.look.id(&undo);
    cx.text(&format!("{}  {id} {what}", done.seq), 2)?;
    cx.text(&format!("undo with {undo}"), 2)?;
    Ok(0)
}
