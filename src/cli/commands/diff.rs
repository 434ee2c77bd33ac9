//! `diff`: what changed between two windows, each change with the entry that made it.

use ctxlog::audit::{self, Came, Cause, Diff, Gone, Mark, Selector, WordDiff};
use ctxlog::engine::{Conversation, Store};
use ctxlog::log::{MessageId, Ranges, Seq};

use crate::cli::errors::{Failure, NO};
use crate::cli::human::{self, number, things};
use crate::cli::{Context, stores};

const DIFF: &str = "\
EXAMPLES
  ctxlog diff it:18 it:19             what changed between two calls
  ctxlog diff @-9 @ --words           also what a summary says against what it stands for
  ctxlog diff main@it:30 other@       between two conversations
  ctxlog diff it:18 @ --exit-code     exit code 1 where anything changed

A window of another conversation is NAME@ and a selector: other@it:3, other@ (its head), other@-3.
Conversations that share a beginning are compared message by message; others share nothing.";

#[derive(clap::Args, Debug)]
#[command(after_help = DIFF)]
pub struct Args {
    /// The first moment
    #[arg(value_name = "A")]
    pub from: String,
    /// The second moment
    #[arg(value_name = "B", default_value = "@")]
    pub to: String,
    /// Also the words of summaries and new contents, word by word
    #[arg(long)]
    pub words: bool,
    /// Exit with 1 where the windows differ
    #[arg(long)]
    pub exit_code: bool,
}

pub fn run(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
    let store = stores::existing(cx)?;
    let (first, from) = named(cx, &store, &args.from)?;
    let (second, to) = named(cx, &store, &args.to)?;
    let (from, to) = (from.resolve(&first)?, to.resolve(&second)?);
    let diff = audit::diff((&first, from), (&second, to), args.words)?;
    if cx.json {
        cx.out.json(&diff)?;
    } else {
        show(cx, &diff, (&first, &second))?;
        if !args.words && has_words(&diff) {
            let option = super::status::choice(cx, &first);
            let (a, b) = (
                super::status::shell(&args.from),
                super::status::shell(&args.to),
            );
            let command = cx.look.id(&format!("ctxlog diff {a} {b} --words{option}"));
            cx.text(&format!("words  {command}"), 7)?;
        }
    }
    let says_no = args.exit_code && !diff.same;
    Ok(if says_no { NO } else { 0 })
}

/// The conversation and the moment that a text names: `NAME@SEL`, or a selector alone.
fn named(cx: &Context, store: &Store, text: &str) -> Result<(Conversation, Selector), Failure> {
    // A name may hold an '@' itself: the longest that there is, counts.
    let parts = text.match_indices('@').map(|(at, _)| text.split_at(at));
    let parts: Vec<(&str, &str)> = parts.filter(|(name, _)| !name.is_empty()).collect();
    let known = |(name, _): &&(&str, &str)| stores::called(store, name).is_ok();
    let known = parts.iter().rev().find(known);
    let Some((name, selector)) = known.or(parts.first()).copied() else {
        return Ok((stores::conversation(cx, store)?, text.parse()?));
    };
    let selector = match selector.strip_prefix('@').unwrap_or(selector) {
        "" | "@" => Selector::Head(0),
        back if back.starts_with('-') => format!("@{back}").parse()?,
        other => other.parse()?,
    };
    Ok((stores::called(store, name)?, selector))
}

fn has_words(diff: &Diff) -> bool {
    !diff.formed.is_empty() || diff.entered.iter().any(|c| !c.stands_for.is_empty())
}

/// The difference for people, with the conversations that it is of.
pub fn show(
    cx: &mut Context,
    diff: &Diff,
    chats: (&Conversation, &Conversation),
) -> Result<(), Failure> {
    heading(cx, diff)?;
    let backward =
        diff.from.conversation == diff.to.conversation && diff.from.at.seq > diff.to.at.seq;
    if backward {
        cx.text(
            "the second window is the earlier one: each entry is the one that is not there yet",
            2,
        )?;
    }
    let gone = diff.left.iter().map(as_came).collect::<Vec<_>>();
    for gone in together(&gone) {
        moved(cx, '-', &gone, chats.0)?;
    }
    for came in together(&diff.entered) {
        moved(cx, '+', &came, chats.1)?;
    }
    for formed in &diff.formed {
        let (before, after) = formed.tokens;
        let id = MessageId(formed.message);
        let text = format!("new content, {} -> {} tok", number(before), number(after));
        let line = format!("~ {id:<10} {text}");
        change(cx, Some('~'), &line, &formed.by)?;
    }
    stayed(cx, diff, chats.1)?;
    cache(cx, diff)?;
    for words in diff.words.iter().flatten() {
        word_by_word(cx, words)?;
    }
    Ok(())
}

fn heading(cx: &mut Context, diff: &Diff) -> Result<(), Failure> {
    let (from, to) = (&diff.from, &diff.to);
    let other = from.conversation != to.conversation;
    let name = |side: &audit::Side| match (&side.call, other) {
        (Some(call), false) => call.to_string(),
        (None, false) => side.at.seq.to_string(),
        (Some(call), true) => format!("{}@{call}", human::escape(&side.conversation)),
        (None, true) => format!("{}@{}", human::escape(&side.conversation), side.at.seq),
    };
    let head = cx
        .look
        .bold(&format!("window {} -> {}", name(from), name(to)));
    let size = |side: &audit::Side| number(side.size.tokens.amount);
    let sizes = match diff.tokens {
        Some(_) if diff.same => format!(
            "{} tok by {}",
            size(to),
            human::escape(&to.size.tokens.method)
        ),
        Some(by) => {
            let method = human::escape(&to.size.tokens.method);
            let sign = if by < 0 { "-" } else { "+" };
            let by = number(by.unsigned_abs());
            format!(
                "{} -> {} tok ({sign}{by}) by {method}",
                size(from),
                size(to)
            )
        }
        None => format!(
            "{} tok by {} -> {} tok by {}: incomparable",
            size(from),
            human::escape(&from.size.tokens.method),
            size(to),
            human::escape(&to.size.tokens.method),
        ),
    };
    let same = if diff.same {
        "   the same messages"
    } else {
        ""
    };
    cx.text(&format!("{head}   {sizes}{same}"), 2)
}

fn count(messages: &[Seq]) -> String {
    things(u64::try_from(messages.len()).unwrap_or(u64::MAX), "message")
}

fn change(cx: &mut Context, sign: Option<char>, line: &str, by: &Cause) -> Result<(), Failure> {
    let look = cx.look;
    let line = match sign {
        Some('-') => look.bad(line),
        Some('+') => look.good(line),
        _ => look.loud(line),
    };
    cx.text(&format!("{line}  {}", cause(by)), 4)
}

/// The entry that did it, why, and who.
pub fn cause(by: &Cause) -> String {
    let mut said = vec![by.iteration.to_string(), place(by), by.kind.to_owned()];
    said.extend(by.reason.map(|r| r.name().to_owned()));
    said.extend(by.stand_in.map(|s| format!("by {}", MessageId(s))));
    said.push(who(by));
    said.extend(by.inferred.then(|| human::INFERRED.to_owned()));
    said.join(" ")
}

/// The entry; where another conversation has another one of that number, as a selector of both.
fn place(by: &Cause) -> String {
    match &by.conversation {
        Some(name) => format!("{}@{}", human::escape(name), by.seq),
        None => by.seq.to_string(),
    }
}

/// Who filed it: a strategy by its name, else the door.
pub fn who(by: &Cause) -> String {
    let strategy = by.strategy.as_deref();
    let name = strategy.map(|spec| spec.split(':').next().unwrap_or(spec));
    human::escape(name.unwrap_or(&by.by))
}

fn as_came(gone: &Gone) -> Came {
    Came {
        messages: gone.messages.clone(),
        tokens: gone.tokens,
        stands_for: Vec::new(),
        sources: Ranges::default(),
        by: gone.by.clone(),
    }
}

/// Messages that were appended one after another, as one.
fn together(entered: &[Came]) -> Vec<Came> {
    let mut runs: Vec<Came> = Vec::new();
    for came in entered {
        let plain = |c: &Came| c.by.kind == "append" && c.stands_for.is_empty();
        match runs
            .last_mut()
            .filter(|last| plain(last) && plain(came) && last.by.by == came.by.by)
        {
            Some(last) => {
                last.messages.extend(&came.messages);
                last.tokens = last.tokens.saturating_add(came.tokens);
            }
            None => runs.push(came.clone()),
        }
    }
    runs
}

/// Messages that left or came, by one entry.
fn moved(cx: &mut Context, sign: char, what: &Came, chat: &Conversation) -> Result<(), Failure> {
    let (ids, tokens) = (audit::ranges(chat, &what.messages)?, number(what.tokens));
    let ids = ids.to_string();
    let stands = match what.stands_for.as_slice() {
        [] => String::new(),
        sources => format!(", stands for {} ({})", what.sources, count(sources)),
    };
    let count = count(&what.messages);
    let line = format!("{sign} {ids:<10} {count}, {tokens} tok{stands}");
    change(cx, Some(sign), &line, &what.by)
}

fn stayed(cx: &mut Context, diff: &Diff, chat: &Conversation) -> Result<(), Failure> {
    if diff.stayed.is_empty() {
        return cx.text("= nothing is in both", 2);
    }
    let tokens = diff
        .cache
        .prefix
        .tokens
        .saturating_add(diff.cache.again.tokens);
    let (ids, count) = (
        audit::ranges(chat, &diff.stayed)?.to_string(),
        count(&diff.stayed),
    );
    cx.text(
        &format!("= {ids:<10} {count}, {} tok unchanged", number(tokens)),
        4,
    )
}

/// What a provider's prompt cache makes of it.
fn cache(cx: &mut Context, diff: &Diff) -> Result<(), Failure> {
    let cache = &diff.cache;
    let amount = |a: audit::Amount| {
        format!(
            "{}, {} tok",
            things(a.messages, "message"),
            number(a.tokens)
        )
    };
    let text = if cache.settings_differ {
        let all = cache.prefix.tokens.saturating_add(cache.read.tokens);
        format!(
            "request settings differ: all {} tok have to be read anew",
            number(all)
        )
    } else {
        let (prefix, read) = (amount(cache.prefix), number(cache.read.tokens));
        let again = match cache.again.tokens {
            0 => String::new(),
            n => format!(", {} of them again", number(n)),
        };
        match cache.read.messages {
            0 => format!("common prefix {prefix}: nothing else has to be read"),
            _ => format!("common prefix {prefix}; {read} tok behind it have to be read{again}"),
        }
    };
    cx.text(&format!("cache  {text}"), 7)
}

fn word_by_word(cx: &mut Context, diff: &WordDiff) -> Result<(), Failure> {
    let (id, against) = (MessageId(diff.message), &diff.ranges);
    let head = if diff.against == [diff.message] {
        format!("--- words of {id}, before and after")
    } else {
        format!("--- words of {id} against {against}")
    };
    let head = cx.look.bold(&head);
    cx.out.line(&head)?;
    let mut text = String::new();
    for words in &diff.words {
        let (open, close) = match words.mark {
            Mark::Same => ("", ""),
            Mark::Gone => ("[-", "-]"),
            Mark::New => ("{+", "+}"),
        };
        // Spaces at the ends stay outside the marks; each line is marked by itself.
        for line in words.text.split_inclusive('\n') {
            let inner = line.trim();
            let (before, after) = line.split_at(line.len().saturating_sub(line.trim_start().len()));
            let tail = after.get(inner.len()..).unwrap_or_default();
            text.push_str(before);
            if !inner.is_empty() {
                let marked = format!("{open}{}{close}", human::escape(inner));
                text.push_str(&match words.mark {
                    Mark::Same => marked,
                    Mark::Gone => cx.look.bad(&marked),
                    Mark::New => cx.look.good(&marked),
                });
            }
            text.push_str(tail);
        }
    }
    for line in text.lines() {
        cx.text(&line.replace('\t', "    ").replace('\r', ""), 0)?;
    }
    Ok(())
}
