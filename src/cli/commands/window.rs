//! `window`: the exact window at a moment.

use ctxlog::audit::{self, Selector, ShownMessage, ShownWindow};
use ctxlog::engine::Conversation;
use ctxlog::formats::Rendered;

use crate::cli::args::Body;
use crate::cli::errors::{Failure, INTEGRITY};
use crate::cli::human::{self, number};
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

/// The window as JSON, as all its words, or as a line per message.
pub fn show(
    cx: &mut Context,
    chat: &Conversation,
    shown: &ShownWindow,
    whole: bool,
    long: bool,
) -> Result<u8, Failure> {
    if cx.json {
        cx.out.json(shown)?;
        return Ok(0);
    }
    heading(cx, shown)?;
    if whole {
        for message in &shown.messages {
            let head = cx.look.bold(&format!("--- {}", about(message)));
            let entry = if long {
                cx.look.dim(&put_there(message))
            } else {
                String::new()
            };
            cx.out.line(format!("{head}{entry}").trim_end())?;
            cx.out.line(&human::escape_lines(&message.words))?;
        }
    } else {
        rows(cx, shown, long)?;
    }
    digest(cx, shown)?;
    if !whole {
        cx.out.flush()?;
        let option = super::status::choice(cx, chat);
        let at = shown.at.seq;
        output::note(&format!(
            "all words: ctxlog window --at {at} --format text{option}"
        ));
    }
    Ok(0)
}

fn heading(cx: &mut Context, shown: &ShownWindow) -> Result<(), Failure> {
    let size = &shown.size;
    let (tokens, method) = (
        number(size.tokens.amount),
        human::escape(&size.tokens.method),
    );
    let head = cx.look.bold(&format!("window after {}", shown.at.seq));
    cx.text(
        &format!(
            "{head}   {}   {}   {}   {tokens} tok by {method}",
            shown.at.iteration,
            human::things(size.messages, "message"),
            human::things(size.groups, "group"),
        ),
        2,
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

fn put_there(message: &ShownMessage) -> String {
    let form = if message.form == message.seq {
        String::new()
    } else {
        format!(" form {}", message.form)
    };
    format!(
        "  by {} since {}{form}",
        message.entered.seq, message.entered.iteration
    )
}

fn rows(cx: &mut Context, shown: &ShownWindow, long: bool) -> Result<(), Failure> {
    let rows: Vec<Vec<String>> = shown
        .messages
        .iter()
        .map(|m| {
            let mut row = vec![
                m.id.clone(),
                m.author.name().to_owned(),
                number(m.tokens),
                format!("since {}", m.entered.iteration),
            ];
            if long {
                row.push(put_there(m).trim().to_owned());
            }
            row
        })
        .collect();
    let lines = human::table(&rows, &[2]);
    for (line, message) in lines.iter().zip(&shown.messages) {
        let used = human::columns_of(line).saturating_add(2);
        let stands = match message.stands_for.len() {
            0 => String::new(),
            n => format!("[stands for {n}] "),
        };
        let words = cx
            .look
            .preview(&format!("{stands}{}", message.words.trim()), used);
        cx.out.line(format!("{line}  {words}").trim_end())?;
    }
    Ok(())
}

fn digest(cx: &mut Context, shown: &ShownWindow) -> Result<(), Failure> {
    let equal = match shown.recorded_digest {
        Some(_) => cx.look.good("  equals the digest that the call recorded"),
        None => String::new(),
    };
    cx.text(&format!("digest {}{equal}", shown.digest), 2)
}
