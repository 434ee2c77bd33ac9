//! `grep`: which messages hold a text, and at which calls the model could see it.

use ctxlog::audit::{self, Found, Hit, Sight, Sought};
use ctxlog::log::{Iteration, Seq, Skeleton};
use regex::RegexBuilder;

use super::diff::cause;
use crate::cli::errors::{Failure, NO};
use crate::cli::human::{self, number, things};
use crate::cli::progress::Progress;
use crate::cli::{Context, stores};

const GREP: &str = "\
EXAMPLES
  ctxlog grep 'order 4411'           who said it, which calls could see it, which answered without
  ctxlog grep -i refund --in tool    in what tools said, in any case
  ctxlog grep -E 'card ending \\d{4}'
  ctxlog grep secret --json | jq -r .message

Looked at are the words of every message in every content it ever had, summaries and notices
included; not request settings, notes, or what came back of failed calls.";

#[derive(clap::Args, Debug)]
#[command(after_help = GREP)]
pub struct Args {
    /// The text
    pub text: String,
    /// In capitals or not
    #[arg(short, long)]
    pub ignore_case: bool,
    /// The text is a regular expression
    #[arg(short = 'E', long)]
    pub regex: bool,
    /// The text is meant as it is; the default
    #[arg(short = 'F', long, conflicts_with = "regex")]
    pub fixed: bool,
    /// Only in messages of this author or role: person, model, tool, application, system, user, …
    #[arg(long = "in", value_name = "ROLE")]
    pub of: Option<String>,
}

/// What `--in` takes.
const WHO: &[&str] = &[
    "person",
    "model",
    "tool",
    "application",
    "engine",
    "strategy",
    "system",
    "developer",
    "user",
    "assistant",
];

pub fn run(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
    if args.text.is_empty() {
        let help = "give some text; `ctxlog log` lists everything";
        return Err(Failure::usage(
            "invalid-option",
            "no text to look for",
            help,
        ));
    }
    if let Some(who) = args.of.as_deref().filter(|who| !WHO.contains(who)) {
        let help = format!("there are {}", WHO.join(", "));
        let message = format!("'{who}' is neither an author nor a role");
        return Err(Failure::usage("invalid-option", message, help));
    }
    let pattern = if args.regex {
        args.text.clone()
    } else {
        regex::escape(&args.text)
    };
    let regex = RegexBuilder::new(&pattern)
        .case_insensitive(args.ignore_case)
        .build()
        .map_err(|error| {
            let help = "regular expressions are those of the Rust crate regex; without -E the text is taken as it is";
            Failure::usage("invalid-option", error.to_string(), help)
        })?;
    let store = stores::existing(cx)?;
    let chat = stores::conversation(cx, &store)?;
    let find = |words: &str| regex.find(words).map(|m| m.range());
    let of = |s: &Skeleton| {
        let who = args.of.as_deref();
        who.is_none_or(|who| who == s.author.name() || who == s.role.name())
    };
    let sought = Sought {
        find: &find,
        of: &of,
    };
    let mut progress = Progress::new(cx.progress, "looking");
    let found = audit::grep(&chat, &sought, &mut |done, all| progress.at(done, all))?;
    drop(progress);
    for hit in &found.hits {
        if cx.json {
            cx.out.json(hit)?;
        } else {
            tell(cx, hit)?;
        }
        if cx.out.is_closed() {
            break;
        }
    }
    if !cx.json {
        summary(cx, &found)?;
    }
    Ok(if found.hits.is_empty() { NO } else { 0 })
}

fn tell(cx: &mut Context, hit: &Hit) -> Result<(), Failure> {
    let look = cx.look;
    let head = format!("{} {}", hit.message, hit.author.name());
    let now = if hit.visible { "" } else { "  not visible now" };
    let head = look.bold(&head);
    let forms = match hit.forms.as_slice() {
        [only] if Seq(only.0) == hit.entered.seq => String::new(),
        forms => {
            let forms: Vec<String> = forms.iter().map(ToString::to_string).collect();
            format!("  in the content of {}", forms.join(" "))
        }
    };
    cx.text(
        &format!(
            "{head}  {}  {}{forms}{now}",
            hit.entered.iteration, hit.entered.seq
        ),
        9,
    )?;
    says(cx, hit)?;
    if hit.seen.is_empty() {
        return cx.text("  seen   by no call", 9);
    }
    for sight in &hit.seen {
        seen(cx, sight)?;
    }
    if let Some(first) = hit.first_without {
        let loud = look.loud(&format!("{first} answered without it"));
        cx.text(&format!("  then   {loud}"), 9)?;
    }
    Ok(())
}

/// The text with what stands around it, on one line.
fn says(cx: &mut Context, hit: &Hit) -> Result<(), Failure> {
    let look = cx.look;
    let found = human::escape(&hit.excerpt.found);
    let (found, rest) = (look.preview(&found, 11), human::columns_of(&found));
    let room = look.width.saturating_sub(rest.saturating_add(9));
    let dots = if look.ascii { "..." } else { "\u{2026}" };
    let before: String = human::escape(&hit.excerpt.before).chars().rev().collect();
    let cut: String = human::fit(&before, room / 2, "").chars().rev().collect();
    let room = room.saturating_sub(human::columns_of(&cut));
    let after = human::fit(&human::escape(&hit.excerpt.after), room, dots);
    let found = if look.color { look.loud(&found) } else { found };
    cx.out.line(&format!("  says   {cut}{found}{after}"))
}

fn range(first: Iteration, last: Iteration) -> String {
    if first == last {
        first.to_string()
    } else {
        format!("{first}..{}", last.0)
    }
}

fn seen(cx: &mut Context, sight: &Sight) -> Result<(), Failure> {
    let calls = sight.last.0.saturating_sub(sight.first.0).saturating_add(1);
    let ended = match &sight.ended {
        Some(by) => format!("  left {}", cause(by)),
        None => String::new(),
    };
    let range = range(sight.first, sight.last);
    cx.text(
        &format!("  seen   {range}  {}{ended}", things(calls, "call")),
        9,
    )
}

fn summary(cx: &mut Context, found: &Found) -> Result<(), Failure> {
    let many = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let hits = things(many(found.hits.len()), "message");
    let redacted = match found.redacted {
        0 => String::new(),
        n => format!(", {} redacted", number(n)),
    };
    let looked = things(found.looked_at, "content");
    cx.text(&format!("{hits} of {looked} looked at{redacted}"), 2)?;
    if found.hits.len() < 2 || found.seen.is_empty() {
        return Ok(());
    }
    let ranges: Vec<String> = found.seen.iter().map(|(a, b)| range(*a, *b)).collect();
    let without = match found.first_without {
        Some(first) => format!("; {first} is the first that answered without it"),
        None => "; every call since could see one of them".to_owned(),
    };
    cx.text(
        &format!("seen in any of them at {}{without}", ranges.join(" ")),
        2,
    )
}
