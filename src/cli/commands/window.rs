//! `window`: the exact window at a moment.

use ctxlog::audit::{self, Blame, Cause, Selector, ShownMessage, ShownWindow};
use ctxlog::engine::Conversation;
use ctxlog::formats::Rendered;
use serde::Serialize;

use super::diff::{cause, who};
use crate::cli::args::Body;
use crate::cli::errors::{Failure, INTEGRITY};
use crate::cli::human::{self, Look, number};
use crate::cli::{Context, output, stores};

const WINDOW: &str = "\
EXAMPLES
  ctxlog window                               the window now, a line per message
  ctxlog window --at it:27 --format text      all words that call 27 was sent
  ctxlog window --at it:27 --format anthropic > request.json
  ctxlog window --at it:27 --long             with the entry that put each message there

What had to change for the provider's rules to hold is listed on stderr; --as-is changes nothing.";

#[derive(clap::Args, Debug)]
#[command(after_help = WINDOW)]
pub struct Args {
    /// The moment
    #[arg(long, value_name = "SEL", default_value = "@")]
    pub at: String,
    /// What to print: a request body, or all words
    #[arg(long, value_enum)]
    pub format: Option<Body>,
    /// Repair nothing in the request body
    #[arg(long, requires = "format")]
    pub as_is: bool,
    /// Also the entry that put each message there
    #[arg(long)]
    pub long: bool,
}

pub fn run(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
    let selector: Selector = args.at.parse()?;
    let store = stores::existing(cx)?;
    let chat = stores::conversation(cx, &store)?;
    let place = selector.resolve(&chat)?;
    let shown = audit::window(&chat, place)?;
    differs(&shown)?;
    match args.format.and_then(Body::profile) {
        Some(profile) => {
            let loaded = chat.load_after(place.seq)?;
            body(cx, &loaded.render(profile, args.as_is))
        }
        None => show(cx, &chat, &shown, args.format.is_some(), args.long),
    }
}

/// A window that is not the recorded one is told before anything else.
pub fn differs(shown: &ShownWindow) -> Result<(), Failure> {
    if !shown.differs() {
        return Ok(());
    }
    let recorded = shown
        .recorded_digest
        .map_or_else(String::new, |d| d.to_string());
    let at = shown.at;
    let message = format!(
        "the log gives a window with the digest {} at {}, but that call recorded {recorded}",
        shown.digest, at.iteration
    );
    let help =
        "do not trust this window; `ctxlog verify` says where the log stops to hang together";
    Err(Failure::new(INTEGRITY, "window-differs", message, help))
}

/// A request body on stdout, what had to change for it on stderr.
pub fn body(cx: &mut Context, rendered: &Rendered) -> Result<u8, Failure> {
    repairs(cx, rendered);
    cx.out.body(&rendered.body)?;
    Ok(0)
}

pub fn repairs(cx: &Context, rendered: &Rendered) {
    for repair in &rendered.repairs {
        if cx.json {
            let repair = serde_json::json!({
                "rule": repair.rule, "message": repair.message, "seq": repair.seq,
            });
            let line = serde_json::json!({ "repair": repair }).to_string();
            output::note(&human::escape_json(&line));
        } else {
            let place = repair
                .seq
                .map_or_else(String::new, |s| format!(" m{}", s.0));
            let text = format!("repair {}{place}: {}", repair.rule, repair.message);
            output::note(&human::escape(&text));
        }
    }
}

/// A window with what put each message there.
#[derive(Serialize)]
struct Long<'a> {
    #[serde(flatten)]
    window: &'a ShownWindow,
    #[serde(skip_serializing_if = "Option::is_none")]
    long: Option<Vec<Blame>>,
}

/// The window as JSON, as all its words, or as a line per message.
pub fn show(
    cx: &mut Context,
    chat: &Conversation,
    shown: &ShownWindow,
    whole: bool,
    long: bool,
) -> Result<u8, Failure> {
    let blame = if long {
        Some(audit::blame(chat, shown)?)
    } else {
        None
    };
    if cx.json {
        cx.out.json(&Long {
            window: shown,
            long: blame,
        })?;
        return Ok(0);
    }
    let blame = blame.as_deref();
    if whole {
        for line in text(cx.look, shown, blame) {
            cx.out.line(&line)?;
        }
    } else {
        cx.text(&heading(cx.look, shown), 2)?;
        rows(cx, shown, blame)?;
        cx.text(&digest(cx.look, shown), 2)?;
        cx.out.flush()?;
        let option = super::status::choice(cx, chat);
        let at = shown.at.seq;
        output::note(&format!(
            "all words: ctxlog window --at {at} --format text{option}"
        ));
    }
    Ok(0)
}

/// All words of a window, under a line for each message.
pub fn text(look: Look, shown: &ShownWindow, blame: Option<&[Blame]>) -> Vec<String> {
    let wrapped = |line: String| {
        if look.wraps {
            human::wrap(&line, look.width, 2)
        } else {
            line
        }
    };
    let mut lines = vec![wrapped(heading(look, shown))];
    for (at, message) in shown.messages.iter().enumerate() {
        lines.push(look.bold(&format!("--- {}", about(message))));
        if let Some(blame) = blame.and_then(|b| b.get(at)) {
            let mut told = vec![format!("    {}", cause(&blame.entered))];
            told.extend(content(message, blame));
            lines.extend(told.iter().map(|line| look.dim(line)));
        }
        lines.push(human::escape_lines(&message.words));
    }
    lines.push(wrapped(digest(look, shown)));
    lines
}

fn heading(look: Look, shown: &ShownWindow) -> String {
    let size = &shown.size;
    let (tokens, method) = (
        number(size.tokens.amount),
        human::escape(&size.tokens.method),
    );
    let head = look.bold(&format!("window after {}", shown.at.seq));
    format!(
        "{head}   {}   {}   {}   {tokens} tok by {method}",
        shown.at.iteration,
        human::things(size.messages, "message"),
        human::things(size.groups, "group"),
    )
}

fn about(message: &ShownMessage) -> String {
    let (id, author) = (&message.id, message.author.name());
    let stands_for = match u64::try_from(message.stands_for.len()).unwrap_or(u64::MAX) {
        0 => String::new(),
        count => format!(" stands for {}", human::things(count, "message")),
    };
    let pinned = if message.pinned { " pinned" } else { "" };
    format!(
        "{id} {author} {} tok{stands_for}{pinned}",
        number(message.tokens)
    )
}

/// What gave a message another content, or what a claim stands for, with sizes before and after.
fn content(message: &ShownMessage, blame: &Blame) -> Option<String> {
    let sizes = blame.before.map_or_else(String::new, |before| {
        let (before, after) = (number(before.tokens), number(message.tokens));
        format!("  {before} -> {after} tok")
    });
    if let Some(form) = &blame.form {
        return Some(format!("    content  {}{sizes}", cause(form)));
    }
    let sources = message.stands_for.as_slice();
    let many = u64::try_from(sources.len()).unwrap_or(u64::MAX);
    let many = human::things(many, "message");
    (!sources.is_empty()).then(|| format!("    stands for {} ({many}){sizes}", message.sources))
}

/// The entry that put a message there, in columns.
fn put_there(by: &Cause) -> [String; 4] {
    let (it, seq) = (by.iteration.to_string(), by.seq.to_string());
    [it, seq, by.kind.to_owned(), who(by)]
}

fn rows(cx: &mut Context, shown: &ShownWindow, blame: Option<&[Blame]>) -> Result<(), Failure> {
    let of = |at: usize| blame.and_then(|b| b.get(at));
    let rows: Vec<Vec<String>> = (shown.messages.iter().enumerate())
        .map(|(at, m)| {
            let mut row = vec![m.id.clone(), m.author.name().to_owned(), number(m.tokens)];
            match of(at) {
                None => row.push(format!("since {}", m.entered.iteration)),
                Some(blame) => row.extend(put_there(&blame.entered)),
            }
            row
        })
        .collect();
    let lines = human::table(&rows, &[2]);
    for (at, (line, message)) in lines.iter().zip(&shown.messages).enumerate() {
        let used = human::columns_of(line).saturating_add(2);
        let stands = match (message.stands_for.len(), blame) {
            (0, _) | (_, Some(_)) => String::new(),
            (n, None) => format!("[stands for {n}] "),
        };
        let words = cx
            .look
            .preview(&format!("{stands}{}", message.words.trim()), used);
        cx.out.line(format!("{line}  {words}").trim_end())?;
        if let Some(told) = of(at).and_then(|blame| content(message, blame)) {
            let told = cx.look.loud(&told);
            cx.text(&told, 6)?;
        }
    }
    Ok(())
}

fn digest(look: Look, shown: &ShownWindow) -> String {
    let equal = match shown.recorded_digest {
        Some(_) => look.good("  equals the digest that the call recorded"),
        None => String::new(),
    };
    format!("digest {}{equal}", shown.digest)
}
