//! `status`: the window now, and what happened to the rest.

use ctxlog::audit::{self, Amount, Status, Totals};
use ctxlog::engine::Conversation;
use ctxlog::log::Seq;
use serde::Serialize;

use crate::cli::errors::Failure;
use crate::cli::human::{self, number, percent};
use crate::cli::{Context, entry, stores};

#[derive(clap::Args, Debug, Default)]
#[command(after_help = "EXAMPLES\n  ctxlog status\n  ctxlog status -c support-4411 --all")]
pub struct Args {
    /// Also totals: tokens call by call, what left, lifetimes, refusals by reason, cost, bytes
    #[arg(long)]
    pub all: bool,
}

pub fn run(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
    let store = stores::existing(cx)?;
    let chat = stores::conversation(cx, &store)?;
    let status = audit::status(&chat)?;
    let totals = if args.all {
        Some(audit::totals(&chat)?)
    } else {
        None
    };
    if cx.json {
        let all = All {
            status: &status,
            totals,
        };
        cx.out.json(&all)?;
        return Ok(0);
    }
    heading(cx, &status)?;
    if let Some(fork) = status.fork {
        let parent = human::escape(&stores::name_of(&store.list()?, fork.parent));
        cx.text(&format!("fork of      {parent} after {}", fork.at), 13)?;
    }
    picture(cx, &status)?;
    so_far(cx, &status)?;
    last_change(cx, &chat, &status)?;
    if let Some(totals) = &totals {
        sums(cx, totals)?;
        details(cx, &status)?;
    }
    Ok(0)
}

/// A status, with the totals where they were asked for.
#[derive(Serialize)]
struct All<'a> {
    #[serde(flatten)]
    status: &'a Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    totals: Option<Totals>,
}

/// What the conversation came to: tokens call by call, what left, what came back, what it takes.
fn sums(cx: &mut Context, t: &Totals) -> Result<(), Failure> {
    if let (Some(median), Some((peak, at))) = (t.median, t.peak) {
        let method = human::escape(&t.method);
        let (median, peak) = (number(median), number(peak));
        cx.text(
            &format!("tokens       a call: median {median}, peak {peak} ({at})  by {method}"),
            13,
        )?;
        let line = cx
            .look
            .sparkline(&t.sent, cx.look.width.saturating_sub(14).min(80));
        cx.out.line(&format!("             {line}"))?;
    }
    let amount = |a: &Amount| {
        format!(
            "{}, {} tok",
            human::things(a.messages, "message"),
            number(a.tokens)
        )
    };
    let (evicted, stood_for) = (amount(&t.evicted), amount(&t.stood_for));
    cx.text(
        &format!("left         evicted {evicted}; stood for {stood_for}"),
        13,
    )?;
    if t.replaced.forms > 0 {
        let (before, after) = (number(t.replaced.before), number(t.replaced.after));
        let forms = human::things(t.replaced.forms, "new content");
        cx.text(
            &format!("replaced     {forms}, {before} -> {after} tok"),
            13,
        )?;
    }
    let restored = human::things(t.restored, "message");
    let always = human::things(t.always, "message");
    cx.text(
        &format!("stayed       {always} seen by every call; {restored} came back after leaving"),
        13,
    )?;
    if t.over_limit > 0 {
        let visits = human::things(t.over_limit, "visit");
        cx.text(&format!("over limit   {visits} ended above the limit"), 13)?;
    }
    let s = &t.stored;
    let (entries, payloads) = (number(s.entry_bytes), number(s.payload_bytes));
    cx.text(
        &format!(
            "bytes        {entries} of {} and {payloads} of words, before the store packs them",
            things_of(s.entries)
        ),
        13,
    )
}

fn things_of(entries: u64) -> String {
    let end = if entries == 1 { "entry" } else { "entries" };
    format!("{} {end}", number(entries))
}

fn heading(cx: &mut Context, s: &Status) -> Result<(), Failure> {
    let look = cx.look;
    let head = s
        .head
        .map_or_else(String::new, |h| format!("{} {}", h.seq, h.hash.short()));
    let tokens = match s.limit {
        Some(limit) => {
            let share = percent(s.tokens, limit);
            format!("{} / {} tok ({share})", number(s.tokens), number(limit))
        }
        None => format!("{} tok", number(s.tokens)),
    };
    let (name, messages) = (
        human::escape(&s.conversation),
        human::things(s.messages, "message"),
    );
    let name = look.bold(&name);
    cx.text(
        &format!("{name} @ {head}   {}   {tokens}   {messages}", s.iteration),
        13,
    )
}

const fn letter(category: &str) -> char {
    match category.as_bytes() {
        b"system" => 'S',
        b"person" => 'P',
        b"model" => 'M',
        b"tool" => 'T',
        b"summary" => 'U',
        b"notice" => 'N',
        _ => 'A',
    }
}

fn picture(cx: &mut Context, s: &Status) -> Result<(), Failure> {
    let used = s
        .categories
        .iter()
        .map(|c| c.tokens)
        .fold(0, u64::saturating_add);
    let whole = s.limit.unwrap_or(0).max(used).max(1);
    let shares: Vec<(char, u64)> = s
        .categories
        .iter()
        .map(|c| (letter(c.name), c.tokens))
        .collect();
    let mut rows: Vec<Vec<String>> = Vec::new();
    for c in &s.categories {
        let name = format!("{} {}", letter(c.name), c.name);
        let tokens = format!("{} tok", number(c.tokens));
        rows.push(vec![
            name,
            number(c.messages),
            tokens,
            percent(c.tokens, whole),
        ]);
    }
    if let Some(limit) = s.limit {
        let free = limit.saturating_sub(used);
        let tokens = format!("{} tok", number(free));
        rows.push(vec![
            ". free".to_owned(),
            String::new(),
            tokens,
            percent(free, whole),
        ]);
    }
    let legend = human::table(&rows, &[1, 2, 3]);
    let grid = human::grid(&shares, whole);
    for n in 0..legend.len().max(grid.len()) {
        let cells = grid.get(n).map_or("          ", String::as_str);
        let words = legend.get(n).map_or("", String::as_str);
        cx.out.line(format!("  {cells}   {words}").trim_end())?;
    }
    cx.out.line(
        &cx.look
            .dim(&format!("  counted by {}{}", s.method, beside(s))),
    )
}

/// What of the count is no message, and what is in no count.
fn beside(s: &Status) -> String {
    let overhead = match s.overhead {
        0 => String::new(),
        n => format!(", request settings {} tok", number(n)),
    };
    let media = match s.uncounted {
        0 => String::new(),
        n => format!(", {} not counted", human::things(n, "media part")),
    };
    overhead + &media
}

fn so_far(cx: &mut Context, s: &Status) -> Result<(), Failure> {
    let left = s.gone.saturating_add(s.covered);
    let refused = s.refusals.values().copied().fold(0, u64::saturating_add);
    let of = human::things(s.logged, "message");
    let (gone, covered) = (number(s.gone), number(s.covered));
    cx.text(&format!(
        "left so far  {} of {of}  ({gone} evicted, {covered} stood for)   refused {}   visits {}",
        number(left),
        number(refused),
        number(s.visits)
    ), 13)?;
    if s.growth.len() > 1 {
        let peak = s.growth.iter().copied().max().unwrap_or(0);
        let line = cx
            .look
            .sparkline(&s.growth, cx.look.width.saturating_sub(40).min(60));
        let peak = human::things(peak, "message");
        cx.out
            .line(&format!("growth       {line}  peak {peak} a call"))?;
    }
    Ok(())
}

fn last_change(cx: &mut Context, chat: &Conversation, s: &Status) -> Result<(), Failure> {
    let Some(seq) = s.last_change else {
        return Ok(());
    };
    let changed = chat.entry(seq)?;
    let told = entry::tell(&changed);
    let word = told.word.get(2..).unwrap_or_default().to_owned();
    let what = changed
        .body
        .change()
        .map(entry::changed)
        .unwrap_or_default();
    let text = format!("{} {word} {}", changed.iteration, human::escape(&what));
    cx.out
        .line(&format!("last change  {}", cx.look.preview(&text, 13)))?;
    let gone = chat.with_projection(|p| {
        let by = |m: &&ctxlog::window::MessageState| {
            m.absent().is_some_and(|a| a.by.seq == seq) && m.stands_for.is_none()
        };
        p.messages().iter().rev().find(by).map(|m| m.id)
    })?;
    if let Some(id) = gone {
        let command = cx.look.id(&format!("ctxlog why {id}{}", choice(cx, chat)));
        cx.text(&format!("next         {command}"), 13)?;
    }
    Ok(())
}

/// The option that names the conversation, where one was needed.
pub fn choice(cx: &Context, chat: &Conversation) -> String {
    match cx.conversation {
        Some(_) => format!(" -c {}", shell(chat.name())),
        None => String::new(),
    }
}

/// A word as a shell takes it.
pub fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=+,%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", human::escape(word).replace('\'', "'\\''"))
}

fn details(cx: &mut Context, s: &Status) -> Result<(), Failure> {
    for strategy in &s.strategies {
        cx.out
            .line(&format!("strategy     {}", human::escape(strategy)))?;
    }
    for p in &s.pressure {
        let (before, after) = (number(p.before.amount), entry::size(&p.after));
        let over = match p.overflow {
            0 => String::new(),
            n => format!(", {} over", number(n)),
        };
        let limit = number(p.limit);
        let (strategy, outcome) = (human::escape(&p.strategy), p.outcome);
        cx.text(
            &format!("pressure     {before} against {limit}{over} -> {after}  {outcome}  {} {}  {strategy}", p.iteration, p.seq),
            13,
        )?;
    }
    if let Some(spent) = s.summaries {
        let asked = human::things(spent.attempts, "question");
        let (ok, input, output) = (number(spent.ok), number(spent.input), number(spent.output));
        let unknown = match spent.unreported {
            0 => String::new(),
            n => format!(", {} without a reported cost", number(n)),
        };
        cx.text(
            &format!("summaries    {asked}, {ok} answered: {input} tok in, {output} out{unknown}"),
            13,
        )?;
    }
    for a in &s.accuracy {
        let (method, calls) = (human::escape(&a.method), human::things(a.calls, "call"));
        cx.text(
            &format!("accuracy     {method} came to {} of what was reported (median of {calls}), at worst {}", a.median, a.worst),
            13,
        )?;
    }
    for cost in s.invalidated.iter().filter(|cost| cost.amount > 0) {
        let (size, method) = (entry::size(cost), human::escape(&cost.method));
        cx.text(
            &format!(
                "cache cost   {size} sent before had to be read anew after visits  ({method})"
            ),
            13,
        )?;
    }
    if let Some((shortest, median, longest)) = s.lifetimes {
        let calls = |n: u64| human::things(n, "call");
        let (a, b, c) = (calls(shortest), calls(median), calls(longest));
        cx.text(
            &format!("lifetime     of what left: shortest {a}, median {b}, longest {c}"),
            13,
        )?;
    }
    for (reason, count) in &s.refusals {
        cx.out
            .line(&format!("refused      {:>6}  {reason}", number(*count)))?;
    }
    if let Some(head) = s.head {
        let entries = Seq(head.seq.0.saturating_add(1)).0;
        cx.text(
            &format!(
                "log          {} entries, head {}",
                number(entries),
                head.hash
            ),
            13,
        )?;
    }
    Ok(())
}
