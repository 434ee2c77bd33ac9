//! The story as text.

use ctxlog::audit::{StayEnd, Why};
use ctxlog::log::{Author, MessageId};

use super::{Again, Change, Line, Lost, Mattered, Tale, Visit};
use crate::cli::human::{Look, escape, number, table, things};

/// Columns that a message's id, author and size take in front of its words.
const LEAD: usize = 28;

pub(super) fn lines(tale: &Tale, look: Look) -> Vec<String> {
    let mut out = head(tale, look);
    out.extend(status(tale, look));
    out.extend(refusals(tale, look));
    if let Some(lost) = &tale.lost {
        out.extend(why(lost, look));
        out.extend(change(&lost.change, look));
        if let Some(mattered) = &lost.mattered {
            out.extend(story(lost, mattered, look));
        }
    }
    out.push(String::new());
    out.push(look.bold("Try next"));
    out.extend(tale.next.iter().map(|argv| format!("  {}", shell(argv))));
    out
}

fn head(tale: &Tale, look: Look) -> Vec<String> {
    let name = look.bold(&tale.conversation);
    let wrote = match tale.added {
        0 => "It was here already: nothing was added.".to_owned(),
        n => format!("Wrote {}, each hashed over the one before.", things_of(n)),
    };
    vec![
        format!("{name}: a shop's support agent answers one customer"),
        format!("replayed call by call through {}", tale.strategy),
        wrote,
    ]
}

fn things_of(entries: u64) -> String {
    match entries {
        1 => "1 entry".to_owned(),
        n => format!("{} entries", number(n)),
    }
}

fn section(title: &str, look: Look) -> Vec<String> {
    vec![String::new(), look.bold(title)]
}

fn status(tale: &Tale, look: Look) -> Vec<String> {
    let s = &tale.status;
    let mut out = section("The window now", look);
    let limit = s
        .limit
        .map_or_else(String::new, |l| format!(" of {}", number(l)));
    out.push(format!(
        "  {}{limit} tokens ({}) in {}",
        number(s.tokens),
        s.method,
        things(s.messages, "message"),
    ));
    out.push(format!(
        "  after {}: {} gone from the window, all {} in the log",
        things(s.iteration.0, "model call"),
        things(s.gone, "message"),
        number(s.logged),
    ));
    let room = look.width.saturating_sub(28);
    out.push(format!(
        "  messages a call  {}",
        look.sparkline(&s.growth, room)
    ));
    out
}

fn refusals(tale: &Tale, look: Look) -> Vec<String> {
    let mut out = section("What a strategy wanted gone, and what refused", look);
    for visit in &tale.visits {
        out.push(visited(visit, look));
        let rows: Vec<Vec<String>> = visit
            .refused
            .iter()
            .map(|r| {
                let reason = format!("    {}", look.loud(r.reason.name()));
                vec![reason, ids(&r.messages), r.sentence.to_owned()]
            })
            .collect();
        out.extend(table(&rows, &[]));
        if let Some(since) = visit.unchanged_since {
            let text = format!("    other refusals unchanged since {since}");
            out.push(look.dim(&text));
        }
    }
    out
}

fn visited(visit: &Visit, look: Look) -> String {
    let left = match visit.left {
        0 => "nothing could leave".to_owned(),
        n => format!(
            "{} left",
            things(u64::try_from(n).unwrap_or(u64::MAX), "message")
        ),
    };
    format!(
        "  {}  {} -> {} tokens, limit {}: {left} ({})",
        look.id(&visit.iteration.to_string()),
        number(visit.before),
        number(visit.after),
        number(visit.limit),
        visit.outcome,
    )
}

/// Ids, runs of neighbours joined.
fn ids(messages: &[MessageId]) -> String {
    let names: Vec<String> = messages.iter().map(ToString::to_string).collect();
    match names.as_slice() {
        [first, .., last] if names.len() > 3 => format!("{first} to {last} ({})", names.len()),
        _ => names.join(" "),
    }
}

fn why(lost: &Lost, look: Look) -> Vec<String> {
    let Line {
        message, tokens, ..
    } = &lost.what;
    let title = format!("Why {message} is gone");
    let mut out = section(&title, look);
    let words = look.preview(&lost.what.words, 40);
    let id = look.id(&message.to_string());
    out.push(format!(
        "  {id}  tool result, {} tokens  {words}",
        number(*tokens)
    ));
    let why = &lost.why;
    let rows: Vec<Vec<String>> = facts(why)
        .into_iter()
        .map(|(name, fact)| vec![format!("  {name}"), fact])
        .collect();
    out.extend(table(&rows, &[]));
    out
}

fn facts(why: &Why) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    for stay in &why.lives {
        let e = &stay.entered;
        let calls = things(stay.calls, "call");
        facts.push((
            "entered",
            format!("{} {}, seen by {calls}", e.iteration, e.seq),
        ));
        if let Some(left) = &stay.left {
            facts.push(("left", departure(left)));
            facts.push(("", left.reason.sentence().to_owned()));
        }
    }
    for r in &why.refusals {
        let (first, last) = (r.first.iteration, r.last.iteration);
        let visits = things(r.visits, "visit");
        let fact = format!("{} at {first} to {last} ({visits})", r.reason);
        facts.push(("refused", fact));
    }
    facts.push(("missed by", things(why.missed_by.calls, "call")));
    facts
}

fn departure(left: &StayEnd) -> String {
    let (it, seq) = (left.by.iteration, left.by.seq);
    let strategy = left.strategy.as_deref().unwrap_or("an edit");
    format!("{it} {seq}, {}, by {strategy}", left.reason)
}

fn change(change: &Change, look: Look) -> Vec<String> {
    let (from, to) = (&change.from, &change.to);
    let title = format!("The window of {} against {}", to.iteration, from.iteration);
    let mut out = section(&title, look);
    let same = from.messages.saturating_sub(change.gone.len());
    let gone = change.gone.iter().map(|l| line('-', l, look));
    let new = change.new.iter().map(|l| line('+', l, look));
    out.extend(gone.chain(new));
    let same = u64::try_from(same).unwrap_or(u64::MAX);
    out.push(format!("  = {} unchanged", things(same, "message")));
    out
}

fn line(sign: char, line: &Line, look: Look) -> String {
    let id = line.message.to_string();
    let who = who(line.author);
    let words = look.preview(line.words.trim(), LEAD);
    let painted = if sign == '-' {
        look.bad("-")
    } else {
        look.good("+")
    };
    format!(
        "  {painted} {id:<5}{who:<9}{:>6}  {words}",
        number(line.tokens)
    )
}

fn who(author: Author) -> &'static str {
    match author {
        Author::Person => "customer",
        Author::Model => "agent",
        Author::Tool => "tool",
        Author::Application | Author::Engine | Author::Strategy => "shop",
    }
}

/// Where the loss mattered, and where the detail came back.
fn story(lost: &Lost, mattered: &Mattered, look: Look) -> Vec<String> {
    let (it, gone) = (mattered.iteration, lost.what.message);
    let mut out = section(&format!("Where it mattered: call {it}"), look);
    out.extend(mattered.question.iter().flat_map(|q| quote(q, look)));
    out.extend(quote(&mattered.answer, look));
    out.push(format!("  but {gone} had said:"));
    out.extend(wrapped(&mattered.known, look));
    let since = lost.visit.iteration;
    out.push(match &mattered.seen_again {
        Some(Again { iteration, message }) => format!(
            "  No call from {since} on saw \"{}\" again before {iteration} ({message}).",
            mattered.detail
        ),
        None => format!("  No call from {since} on saw \"{}\".", mattered.detail),
    });
    out
}

fn quote(line: &Line, look: Look) -> Vec<String> {
    let id = look.id(&line.message.to_string());
    let mut out = vec![format!("  {id} {}:", who(line.author))];
    out.extend(wrapped(line.words.trim(), look));
    out
}

/// Words broken at spaces and commas, indented.
fn wrapped(text: &str, look: Look) -> Vec<String> {
    let room = look.width.min(100).saturating_sub(6).max(20);
    let (mut lines, mut current) = (Vec::new(), String::new());
    for word in escape(text).split_inclusive([' ', ',']) {
        let long = current.chars().count().saturating_add(word.chars().count()) > room;
        if long && !current.is_empty() {
            lines.push(std::mem::take(&mut current));
        }
        current.push_str(word);
    }
    lines.push(current);
    let line = |l: String| format!("    {}", l.trim_end());
    lines.into_iter().map(line).collect()
}

/// A command as a shell takes it.
fn shell(argv: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+%".contains(c);
    let word = |w: &String| {
        if !w.is_empty() && w.chars().all(plain) {
            w.clone()
        } else {
            format!("'{}'", w.replace('\'', "'\\''"))
        }
    };
    argv.iter().map(word).collect::<Vec<_>>().join(" ")
}
