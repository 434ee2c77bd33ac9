//! `simulate`: what other strategies would have done to a conversation, side by side.

use std::collections::BTreeSet;

use ctxlog::audit::{self, Alternative, Chain, Simulated, Story};
use ctxlog::log::MessageId;
use serde::Serialize;

use crate::cli::args::strategies;
use crate::cli::errors::Failure;
use crate::cli::human::{self, number, things};
use crate::cli::progress::Progress;
use crate::cli::{Context, stores, summaries};

const SIMULATE: &str = concat!(
    "\
EXAMPLES
  ctxlog simulate --strategy sliding-window:keep=20
  ctxlog simulate --strategy token-budget:limit=8000 --strategy token-budget:limit=16000
  ctxlog simulate --strategy 'clear-tool-results:age=5 + token-budget:limit=8000'
  ctxlog simulate --strategy buffer:keep=12 --messages      where they differ, message by message

Each --strategy is one alternative; ' + ' with spaces around it joins a chain. Nothing is written and no
model is called: a summary is made only where the alternative names a command=.",
    strategies!()
);

#[derive(clap::Args, Debug)]
#[command(after_help = SIMULATE)]
pub struct Args {
    /// An alternative, `name:key=value,…`, a chain joined by ' + '; may be given several times
    #[arg(long, value_name = "SPEC", required = true)]
    pub strategy: Vec<String>,
    /// List the messages that the alternatives treat differently
    #[arg(long)]
    pub messages: bool,
}

/// What the alternatives say of one message, in the order of the columns.
#[derive(Serialize)]
struct Differing<'a> {
    message: String,
    stories: Vec<&'a [Story]>,
}

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    simulated: &'a Simulated,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages_differing: Option<Vec<Differing<'a>>>,
}

pub fn run(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
    let chains = args.strategy.iter().map(|spec| chain(spec));
    let chains = chains.collect::<Result<Vec<_>, _>>()?;
    let store = stores::existing(cx)?;
    let chat = stores::conversation(cx, &store)?;
    let mut progress = Progress::new(cx.progress, "replaying");
    let simulated = audit::simulate(&chat, &chains, &mut |done, of| progress.at(done, of))?;
    drop(progress);
    let messages_differing = args.messages.then(|| differing(&simulated));
    if cx.json {
        cx.out.json(&Answer {
            simulated: &simulated,
            messages_differing,
        })?;
        return Ok(0);
    }
    heading(cx, &simulated)?;
    table(cx, &simulated)?;
    chart(cx, &simulated)?;
    sights(cx, &simulated)?;
    if let Some(differing) = messages_differing {
        messages(cx, &differing)?;
    }
    notes(cx, &simulated)?;
    Ok(0)
}

/// The links of a chain; one that begins or ends with a plus has an empty one there.
fn links(spec: &str) -> Vec<String> {
    let parts = format!(" {spec} ");
    parts
        .split(" + ")
        .map(|link| link.trim().to_owned())
        .collect()
}

/// An alternative from its text.
fn chain(spec: &str) -> Result<Chain, Failure> {
    let links = links(spec);
    if let Some(at) = links.iter().position(String::is_empty) {
        let nth = at.saturating_add(1);
        let message = format!("link {nth} of the chain '{spec}' is empty");
        let help = "a chain is two strategies or more with ' + ' between them";
        return Err(Failure::usage("invalid-option", message, help));
    }
    let strategies = links.iter().map(|link| ctxlog::strategy::parse(link));
    let strategies = strategies.collect::<Result<Vec<_>, _>>()?;
    let summarizer = summaries::command(&strategies)?;
    Ok(Chain {
        strategies,
        summarizer,
    })
}

/// Column n, as the table, the chart and the lists call it.
fn mark(n: usize) -> String {
    let letters = ('A'..='Z').nth(n.saturating_sub(1));
    match n {
        0 => "recorded".to_owned(),
        n => letters.map_or_else(|| format!("#{n}"), |c| c.to_string()),
    }
}

fn heading(cx: &mut Context, s: &Simulated) -> Result<(), Failure> {
    let name = cx.look.bold(&human::escape(&s.conversation));
    let (messages, calls) = (things(s.messages, "message"), things(s.calls, "call"));
    let method = s.method;
    cx.text(
        &format!("{name}  {messages}, {calls} replayed; tokens by {method}"),
        2,
    )?;
    for (n, column) in s.alternatives.iter().enumerate().skip(1) {
        let line = format!("  {:<9} {}", mark(n), human::escape(&column.name));
        cx.text(&line, 12)?;
    }
    cx.out.line("")
}

/// What the columns are called, the most telling first: narrow terminals drop from the end.
const TITLES: [&str; 12] = [
    "",
    "left",
    "peak",
    "median",
    "unseen",
    "over",
    "reread",
    "visits",
    "refused",
    "summaries",
    "due",
    "lifetime",
];

fn cells(n: usize, c: &Alternative) -> [String; 12] {
    let count = |n: usize| number(u64::try_from(n).unwrap_or(u64::MAX));
    let refused = c.refused.values().copied().fold(0, u64::saturating_add);
    [
        mark(n),
        number(c.departures()),
        number(c.peak),
        number(c.median),
        count(c.out_of_sight.len()),
        number(c.over_budget),
        number(c.reread),
        number(c.visits),
        number(refused),
        number(c.summaries),
        c.summaries_due.map_or_else(|| "-".to_owned(), number),
        c.lifetime.map_or_else(|| "-".to_owned(), number),
    ]
}

fn table(cx: &mut Context, s: &Simulated) -> Result<(), Failure> {
    let mut rows = vec![TITLES.map(str::to_owned).to_vec()];
    let columns = s.alternatives.iter().enumerate();
    rows.extend(columns.map(|(n, c)| cells(n, c).to_vec()));
    let right: Vec<usize> = (1..TITLES.len()).collect();
    let fits = |rows: &[Vec<String>]| {
        let widest = human::table(rows, &right);
        let widest = widest.iter().map(|l| human::columns_of(l)).max();
        widest.is_none_or(|w| w.saturating_add(2) <= cx.look.width)
    };
    while rows.first().is_some_and(|r| r.len() > 2) && !fits(&rows) {
        rows.iter_mut().for_each(|row| drop(row.pop()));
    }
    for (n, line) in human::table(&rows, &right).iter().enumerate() {
        let line = format!("  {line}");
        let line = if n == 0 { cx.look.dim(&line) } else { line };
        cx.out.line(&line)?;
    }
    for (n, c) in s.alternatives.iter().enumerate() {
        if c.refused.is_empty() {
            continue;
        }
        let reasons = c.refused.iter();
        let reasons: Vec<String> = reasons
            .map(|(r, n)| format!("{} {r}", number(*n)))
            .collect();
        cx.text(&format!("  {} refused: {}", mark(n), reasons.join(", ")), 4)?;
    }
    Ok(())
}

/// Tokens over calls, all on one scale.
fn chart(cx: &mut Context, s: &Simulated) -> Result<(), Failure> {
    let top = s.alternatives.iter().map(|c| c.peak).max().unwrap_or(0);
    if top == 0 {
        return Ok(());
    }
    cx.out.line("")?;
    let title = format!("  tokens over calls, the highest {}", number(top));
    let title = cx.look.dim(&title);
    cx.out.line(&title)?;
    for (n, column) in s.alternatives.iter().enumerate() {
        let room = cx.look.width.min(80).saturating_sub(13);
        let bars = cx.look.sparkline_upto(&column.tokens, room, top);
        cx.out.line(&format!("  {:<9} {bars}", mark(n)))?;
    }
    Ok(())
}

/// How many texts a column lists.
const LISTED: usize = 5;

fn sights(cx: &mut Context, s: &Simulated) -> Result<(), Failure> {
    for (n, column) in s.alternatives.iter().enumerate() {
        let unseen = &column.out_of_sight;
        if unseen.is_empty() {
            continue;
        }
        let count = things(u64::try_from(unseen.len()).unwrap_or(u64::MAX), "text");
        let mark = cx.look.bold(&mark(n));
        cx.out.line("")?;
        let label = s.quotes.label;
        cx.text(
            &format!("  {mark} {count} quoted later and not in that call's window ({label})"),
            4,
        )?;
        for sight in unseen.iter().take(LISTED) {
            let (answer, it, of) = (sight.answer, sight.iteration, sight.message);
            let start = format!("    {answer} at {it} quotes {of}: ");
            let text = cx.look.preview(&sight.text, start.len().saturating_add(2));
            cx.out.line(&format!("{start}\"{text}\""))?;
        }
        let more = unseen.len().saturating_sub(LISTED);
        if more > 0 {
            cx.out
                .line(&format!("    and {more} more: --json lists all"))?;
        }
    }
    Ok(())
}

/// The messages that two columns treat differently.
fn differing(s: &Simulated) -> Vec<Differing<'_>> {
    let ids = s.alternatives.iter().flat_map(|c| c.stories.keys());
    let ids: BTreeSet<MessageId> = ids.copied().collect();
    let of = |message: MessageId| {
        let columns = s.alternatives.iter();
        Differing {
            message: message.to_string(),
            stories: columns.map(|c| of_column(c, message)).collect(),
        }
    };
    let differs = |d: &Differing<'_>| d.stories.windows(2).any(|pair| pair.first() != pair.last());
    ids.into_iter().map(of).filter(differs).collect()
}

fn messages(cx: &mut Context, differing: &[Differing<'_>]) -> Result<(), Failure> {
    cx.out.line("")?;
    let count = u64::try_from(differing.len()).unwrap_or(u64::MAX);
    cx.out.line(&format!(
        "  {} treated differently",
        things(count, "message")
    ))?;
    for differing in differing {
        let id = cx.look.id(&differing.message);
        let each = differing.stories.iter().enumerate();
        let each = each.map(|(n, stories)| format!("{}: {}", mark(n), fates(stories)));
        let each: Vec<String> = each.collect();
        cx.text(&format!("  {id}  {}", each.join("; ")), 6)?;
    }
    Ok(())
}

/// The pieces of a message in one column.
fn of_column(column: &Alternative, message: MessageId) -> &[Story] {
    column.stories.get(&message).map_or(&[], Vec::as_slice)
}

fn fates(pieces: &[Story]) -> String {
    if pieces.is_empty() {
        return "one with the message before".to_owned();
    }
    let pieces: Vec<String> = pieces.iter().map(fate).collect();
    pieces.join(" / ")
}

fn fate(story: &Story) -> String {
    let mut words = Vec::new();
    for (n, (entered, left)) in story.stays.iter().enumerate() {
        if n > 0 {
            words.push(format!("back {entered}"));
        }
        if let Some((it, reason)) = left {
            words.push(format!("left {it} {reason}"));
        }
    }
    let forms = story.forms.iter();
    words.extend(forms.map(|(it, reason)| format!("changed {it} {reason}")));
    match (words.is_empty(), story.stays.is_empty()) {
        (true, true) => "never there".to_owned(),
        (true, false) => "stays".to_owned(),
        _ => words.join(", "),
    }
}

fn notes(cx: &mut Context, s: &Simulated) -> Result<(), Failure> {
    let out = &s.left_out;
    let mut notes = vec![
        "no model was asked: what it would have answered to these windows is not known".to_owned(),
    ];
    for (n, c) in s.alternatives.iter().enumerate() {
        let mark = mark(n);
        if let Some(due) = c.summaries_due.filter(|due| *due > 0) {
            let due = things(due, "call");
            notes.push(format!(
                "{mark}: a summary was due at {due} and none was made; command= makes them"
            ));
        }
        if c.summaries_failed > 0 {
            let failed = things(c.summaries_failed, "attempt");
            notes.push(format!(
                "{mark}: {failed} at a summary came to nothing; its windows are as they were"
            ));
        }
    }
    let counted = [
        (
            out.edits,
            "edit by hand was not applied",
            "edits by hand were not applied",
        ),
        (
            out.late_usage,
            "late report of usage was left out",
            "late reports of usage were left out",
        ),
        (
            out.own_usage,
            "report of usage was left out: its call was sent less than all there was",
            "reports of usage were left out: their calls were sent less than all there was",
        ),
        (
            out.redacted,
            "message is redacted, and is replayed at its size without its words",
            "messages are redacted, and are replayed at their sizes without their words",
        ),
        (
            out.unknown,
            "entry is of an unknown kind",
            "entries are of an unknown kind",
        ),
    ];
    for (count, one, many) in counted.into_iter().filter(|(count, ..)| *count > 0) {
        let what = if count == 1 { one } else { many };
        notes.push(format!("{} {what}", number(count)));
    }
    if s.quotes.sampled > 1 {
        let sampled = s.quotes.sampled;
        notes.push(format!(
            "quotes were looked for in one of {sampled} runs of words"
        ));
    }
    cx.out.line("")?;
    for note in notes {
        let note = cx.look.dim(&format!("  {note}"));
        cx.text(&note, 4)?;
    }
    Ok(())
}
