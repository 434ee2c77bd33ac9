//! `recall`: shows the model again what a message said.

use ctxlog::engine::How;
use ctxlog::log::{Head, Seq};
use serde::Serialize;

use crate::cli::errors::{Failure, NO};
use crate::cli::{Context, entry, stores};

#[derive(clap::Args, Debug)]
#[command(
    after_help = "EXAMPLES\n  ctxlog recall m18   what left comes back; what a summary stands for is quoted beside it"
)]
pub struct Args {
    /// The message (m18); a summary's own id quotes what it stands for
    pub message: String,
}

#[derive(Serialize)]
struct Recalled {
    schema: &'static str,
    conversation: String,
    /// The message that was asked for.
    message: String,
    /// What it came to.
    how: &'static str,
    /// The messages that were found.
    messages: Vec<String>,
    /// The edit that brought them back, or the message that quotes them.
    entry: Option<Seq>,
    head: Option<Head>,
}

pub fn run(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
    let help = "messages are m and a number, as in m18; see them with `ctxlog log`";
    let id = entry::message_id(&args.message, help)?;
    let store = stores::existing(cx)?;
    let chat = stores::conversation(cx, &store)?;
    let recalled = chat.recall(id)?;
    let done = Recalled {
        schema: "ctxlog.recall/1",
        conversation: chat.name().to_owned(),
        message: id.to_string(),
        how: recalled.how.name(),
        messages: recalled.messages.iter().map(ToString::to_string).collect(),
        entry: recalled.entry,
        head: chat.head()?,
    };
    let exit = if recalled.how == How::Unknown { NO } else { 0 };
    if cx.json {
        cx.out.json(&done)?;
        return Ok(exit);
    }
    let ids = done.messages.join(" ");
    let told = match recalled.how {
        How::Unknown => format!("there is no message {id}; that it was asked for is noted"),
        How::InWindow => format!("{id} is in the window"),
        How::Restored => format!("{ids} back in the window"),
        How::Quoted => {
            let by = done.entry.map_or(0, |seq| seq.0);
            format!("{ids} quoted by m{by}; what stands for them stays")
        }
    };
    cx.text(&told, 2)?;
    Ok(exit)
}
