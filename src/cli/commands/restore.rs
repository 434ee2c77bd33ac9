//! `restore`: brings a message back, or undoes a visit or edit.

use ctxlog::audit::Selector;
use ctxlog::log::{Head, Seq};
use serde::Serialize;

use crate::cli::errors::Failure;
use crate::cli::{Context, entry, stores};

#[derive(clap::Args, Debug)]
#[command(
    after_help = "EXAMPLES\n  ctxlog restore m18     its whole group comes back, at its place\n  ctxlog restore s:209   what entry 209 did is undone; that is an entry too"
)]
pub struct Args {
    /// A message that left (m18), or a visit or edit to undo (s:209)
    pub what: String,
}

#[derive(Serialize)]
struct Restored {
    schema: &'static str,
    conversation: String,
    /// The entry that records it.
    seq: Seq,
    /// The messages that came back.
    entered: Vec<String>,
    head: Option<Head>,
}

pub fn run(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
    let selector: Selector = args.what.parse()?;
    if matches!(selector, Selector::Head(_) | Selector::Iteration(_)) {
        let message = format!("'{}' is neither a message nor one entry", args.what);
        let help = "give a message (m18), or the visit or edit to undo (s:209 or a hash prefix)";
        return Err(Failure::usage("invalid-selector", message, help));
    }
    let store = stores::existing(cx)?;
    let chat = stores::conversation(cx, &store)?;
    let ack = match selector {
        Selector::Message(id) => chat.restore(id)?,
        other => chat.undo(other.resolve(&chat)?.seq)?,
    };
    let written = chat.entry(ack.last)?;
    let entered = written
        .body
        .change()
        .map(|c| c.entered.clone())
        .unwrap_or_default();
    let entered = chat.with_projection(|p| p.ids_in(&entered))?;
    let done = Restored {
        schema: "ctxlog.restore/1",
        conversation: chat.name().to_owned(),
        seq: ack.last,
        entered: entered.iter().map(ToString::to_string).collect(),
        head: chat.head()?,
    };
    if cx.json {
        cx.out.json(&done)?;
        return Ok(0);
    }
    let what = written
        .body
        .change()
        .map(entry::changed)
        .unwrap_or_default();
    let undo = cx.look.id(&format!(
        "ctxlog restore {}{}",
        done.seq,
        super::status::choice(cx, &chat)
    ));
    cx.text(&format!("{}  {what}", done.seq), 2)?;
    cx.text(&format!("undo with {undo}"), 2)?;
    Ok(0)
}
