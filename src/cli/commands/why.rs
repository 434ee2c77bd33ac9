//! `why`: what became of a message, and for what reason.

use ctxlog::audit::{self, FormOf, Refusals, Selector, Stay, Why};
use ctxlog::engine::{Content, Conversation, Error};
use ctxlog::log::{Body, MessageId, Seq, Skeleton, StandIn, StandInKind};

use crate::cli::errors::Failure;
use crate::cli::human::{self, things};
use crate::cli::{Context, entry, stores};

#[derive(clap::Args, Debug)]
#[command(
    after_help = "EXAMPLES\n  ctxlog why m18\n  ctxlog why m18 --at it:27   as things stood then"
)]
pub struct Args {
    /// The message, as in m18
    pub message: String,
    /// The moment the question is about
    #[arg(long, value_name = "SEL", default_value = "@")]
    pub at: String,
}

pub fn run(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
    let help = "messages are m and a number, as in m18; see them with `ctxlog window` or `log`";
    let id = entry::message_id(&args.message, help)?;
    let at: Selector = args.at.parse()?;
    let store = stores::existing(cx)?;
    let chat = stores::conversation(cx, &store)?;
    let place = at.resolve(&chat)?;
    let why = audit::why(&chat, id, place.seq)?;
    if cx.json {
        cx.out.json(&why)?;
        return Ok(0);
    }
    heading(cx, &chat, id, &why)?;
    for form in why.forms.iter().skip(1) {
        changed(cx, form)?;
    }
    for stay in &why.lives {
        lived(cx, &chat, stay)?;
    }
    counts(cx, &chat, &why)?;
    for refusal in &why.refusals {
        refused(cx, refusal)?;
    }
    undo(cx, &why)?;
    Ok(0)
}

fn row(cx: &mut Context, name: &str, text: &str) -> Result<(), Failure> {
    let name = cx.look.dim(&format!("  {name:<9}"));
    cx.text(&format!("{name}{text}"), 11)
}

fn heading(cx: &mut Context, chat: &Conversation, id: MessageId, why: &Why) -> Result<(), Failure> {
    let logged = chat.entry(id.seq())?.body;
    let first = given(&logged, id, id.seq()).map(|(_, skeleton)| skeleton);
    let about = first.map_or_else(|| id.to_string(), |s| entry::message(id.seq(), s));
    let redacted = if why.redacted { "  redacted" } else { "" };
    let status = match why.status {
        "visible" => cx.look.good("visible"),
        other => cx.look.loud(other),
    };
    let about = cx.look.bold(&human::escape(&about));
    cx.text(
        &format!(
            "{about}  {status} at {} ({}){redacted}",
            why.at.seq, why.at.iteration
        ),
        11,
    )?;
    let words = match words(chat, id, why) {
        Ok(Content::Message(message)) => message.words(),
        _ => return Ok(()),
    };
    let words = cx.look.preview(words.trim(), 13);
    row(cx, "says", &format!("\"{words}\""))
}

/// The payload of an entry that gives the content of a message, and that without its words.
fn given(body: &Body, id: MessageId, by: Seq) -> Option<(u32, &Skeleton)> {
    if let Body::Appended(a) = body {
        return (by == id.seq()).then_some((0, &a.skeleton));
    }
    let stand_ins = &body.change()?.stand_ins;
    let its = |s: &StandIn| match s.kind {
        StandInKind::Form => s.sources.0.as_slice() == [(id.seq(), id.seq())],
        StandInKind::Claim | StandInKind::Notice => by == id.seq(),
    };
    let mut indexed = (0_u32..).zip(stand_ins);
    let (payload, s) = indexed.find(|(_, s)| its(s))?;
    Some((payload, &s.skeleton))
}

/// What it says then. A content that was put back is told by the whole log.
fn words(chat: &Conversation, id: MessageId, why: &Why) -> Result<Content, Error> {
    if let Some(form) = why.forms.last()
        && let Some((payload, _)) = given(&chat.entry(form.seq)?.body, id, form.seq)
    {
        return chat.content(form.seq, payload);
    }
    chat.message_at(id, why.at.seq)
}

fn changed(cx: &mut Context, form: &FormOf) -> Result<(), Failure> {
    let reason = form.reason.map_or("changed", ctxlog::log::LeftReason::name);
    row(
        cx,
        "form",
        &format!("{}  {}  {reason}", form.iteration, form.seq),
    )
}

fn lived(cx: &mut Context, chat: &Conversation, stay: &Stay) -> Result<(), Failure> {
    let entered = &stay.entered;
    let at = entered
        .at
        .as_ref()
        .map_or_else(String::new, |t| format!("  {t}"));
    row(
        cx,
        "entered",
        &format!("{}  {}{at}", entered.iteration, entered.seq),
    )?;
    let Some(left) = &stay.left else {
        return Ok(());
    };
    let (by, reason) = (&left.by, left.reason);
    let at = by
        .at
        .as_ref()
        .map_or_else(String::new, |t| format!("  {t}"));
    let how = cx.look.loud(&format!("{}, {reason}", left.kind));
    let stayed = things(stay.calls, "call");
    let known = if left.inferred {
        format!("  {}", human::INFERRED)
    } else {
        String::new()
    };
    row(
        cx,
        "left",
        &format!(
            "{}  {}  {how} after {stayed}{at}{known}",
            by.iteration, by.seq
        ),
    )?;
    row(cx, "", reason.sentence())?;
    let changed = chat.entry(by.seq)?;
    if let Body::Visited(visit) = &changed.body {
        let (before, after) = (entry::size(&visit.before), entry::size(&visit.after));
        let (limit, method) = (visit.limit, human::escape(&visit.before.method));
        row(
            cx,
            "measured",
            &format!("{before} by {method}, limit {limit}; {after} left"),
        )?;
        if !visit.refused.is_empty() {
            let text = cx.look.preview(&entry::refusals(visit), 24);
            row(cx, "instead", &format!("would not go: {text}"))?;
        }
        row(cx, "strategy", &human::escape(&visit.strategy))?;
    }
    Ok(())
}

fn counts(cx: &mut Context, chat: &Conversation, why: &Why) -> Result<(), Failure> {
    let seen = &why.seen_by;
    let between = match (seen.first_iteration, seen.last_iteration) {
        (Some(first), Some(last)) if first != last => format!(", {first} to {last}"),
        (Some(only), _) => format!(", {only}"),
        _ => String::new(),
    };
    row(
        cx,
        "seen by",
        &format!("{}{between}", things(seen.calls, "model call")),
    )?;
    if why.missed_by.calls > 0 {
        row(
            cx,
            "missed by",
            &format!(" {}", things(why.missed_by.calls, "model call")),
        )?;
    }
    match why.stands_for_it {
        Some(seq) => {
            let claim = MessageId(seq);
            let says = match chat.message_at(claim, why.at.seq) {
                Ok(Content::Message(message)) => {
                    let words = cx.look.preview(message.words().trim(), 32);
                    format!(": \"{words}\"")
                }
                _ => String::new(),
            };
            row(cx, "covered", &format!("{claim} stands for it{says}"))
        }
        None => Ok(()),
    }
}

fn refused(cx: &mut Context, refusal: &Refusals) -> Result<(), Failure> {
    let (first, last) = (refusal.first.iteration, refusal.last.iteration);
    let when = if first == last {
        first.to_string()
    } else {
        format!("{first} to {last}")
    };
    let visits = things(refusal.visits, "visit");
    let reason = refusal.reason;
    row(
        cx,
        "refused",
        &format!("{when}  {visits}  {reason}: {}", reason.sentence()),
    )
}

fn undo(cx: &mut Context, why: &Why) -> Result<(), Failure> {
    let Some(argv) = &why.restore else {
        return Ok(());
    };
    let words: Vec<String> = argv.iter().map(|w| super::status::shell(w)).collect();
    let command = cx.look.id(&words.join(" "));
    row(cx, "undo", &command)
}
