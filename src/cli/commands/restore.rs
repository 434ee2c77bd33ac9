//! `restore`: brings a message back, or undoes a visit or edit.

use ctxlog::audit::Selector;
use ctxlog::log::{Head, Seq};
use serde::Serialize;

use crate::cli::errors::Failure;
use crate::cli::{Context, args, entry, stores};

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

pub fn run(cx: &mut Context, args: &args::Restore) -> Result<u8, Failure> {
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
    cx.out.line(&format!("{}  {what}", done.seq))?;
    cx.out.line(&format!("undo with {undo}"))?;
    Ok(0)
}
