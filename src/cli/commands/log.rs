//! `log`: the entries.

use std::ops::ControlFlow;

use ctxlog::audit::{self, Span};
use ctxlog::log::entry::Sealed;

use crate::cli::errors::Failure;
use crate::cli::human::number;
use crate::cli::{Context, entry, output, stores};

const LOG: &str = "\
EXAMPLES
  ctxlog log                the whole log
  ctxlog log it:27          what happened up to call 27, since the call before
  ctxlog log it:10..20
  ctxlog log @-9..          the newest ten entries
  ctxlog log --json | jq 'select(.outcome == \"evict\")'";

#[derive(clap::Args, Debug)]
#[command(after_help = LOG)]
pub struct Args {
    /// A..B, it:10..20 or one selector; all entries otherwise
    pub range: Option<String>,
}

pub fn run(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
    let span: Span = args.range.as_deref().unwrap_or("..").parse()?;
    let store = stores::existing(cx)?;
    let chat = stores::conversation(cx, &store)?;
    let (first, last) = span.resolve(&chat)?;
    let mut failed = None;
    let show = |cx: &mut Context, sealed: &Sealed| {
        if cx.json {
            return cx.out.json(&audit::entry_json(sealed));
        }
        cx.out.line(&entry::line(cx.look, &chat, sealed))
    };
    store.entries(chat.id(), first, last, &mut |sealed| {
        failed = show(cx, &sealed).err();
        if failed.is_some() || cx.out.is_closed() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    if let Some(failure) = failed {
        return Err(failure);
    }
    let all = chat.head()?.map_or(0, |h| h.seq.0.saturating_add(1));
    let shown = last.0.saturating_sub(first.0).saturating_add(1);
    if !cx.json && shown < all {
        cx.out.flush()?;
        output::note(&format!("{} of {} entries", number(shown), number(all)));
    }
    Ok(0)
}
