//! `show`: one entry in full.

use std::ops::ControlFlow;

use ctxlog::audit::{self, Selector};
use ctxlog::engine::Conversation;
use ctxlog::log::entry::Sealed;
use ctxlog::log::{Body, Key, Visited};
use serde_json::Value;

use crate::cli::errors::Failure;
use crate::cli::{Context, args, entry, human, stores};

pub fn run(cx: &mut Context, args: &args::Show) -> Result<u8, Failure> {
    let selector: Selector = args.entry.parse()?;
    let store = stores::existing(cx)?;
    let chat = stores::conversation(cx, &store)?;
    let seq = selector.resolve(&chat)?.seq;
    let mut found = None;
    store.entries(chat.id(), seq, seq, &mut |sealed| {
        found = Some(sealed);
        ControlFlow::Break(())
    })?;
    let Some(sealed) = found else {
        return Err(Failure::bug(format!(
            "{seq} is within the log and has no entry"
        )));
    };
    let content = audit::readable(&chat, &sealed.entry)?;
    if cx.json {
        cx.out.json(&json(&sealed, content))?;
        return Ok(0);
    }
    facts(cx, &sealed)?;
    if let Body::Visited(visit) = &sealed.entry.body {
        visited(cx, visit)?;
    }
    // What is asked of an edit, or what a source says of its own.
    if let Some(rest) = chat.edit_rest(seq)? {
        fact(cx, "asked", &rest.0)?;
    }
    words(cx, &chat, &sealed, content)?;
    Ok(0)
}

/// The entry as `log` gives it, with its key and its words.
fn json(sealed: &Sealed, content: Option<Value>) -> Value {
    let mut value = audit::entry_json(sealed);
    if let Some(fields) = value.as_object_mut() {
        let key = sealed.entry.key.as_ref().map(|k: &Key| k.text.clone());
        fields.insert("schema".to_owned(), Value::from("ctxlog.show/1"));
        fields.insert("key".to_owned(), Value::from(key));
        fields.insert("content".to_owned(), content.unwrap_or_default());
    }
    value
}

fn fact(cx: &mut Context, name: &str, value: &str) -> Result<(), Failure> {
    let name = cx.look.dim(&format!("{name:<11}"));
    cx.text(&format!("{name}{}", human::escape(value)), 11)
}

fn facts(cx: &mut Context, sealed: &Sealed) -> Result<(), Failure> {
    let e = &sealed.entry;
    let told = entry::tell(e);
    let word = told.word.get(2..).unwrap_or_default().to_owned();
    let at =
        e.at.map_or_else(|| "at an unknown time".to_owned(), |t| t.to_string());
    let by = match e.by.principal.as_str() {
        "" => e.by.door.to_string(),
        principal => format!("{} {principal}", e.by.door),
    };
    fact(cx, "entry", &format!("{}   {}", e.seq, sealed.hash))?;
    fact(cx, "previous", &e.prev.to_string())?;
    fact(cx, "kind", &word)?;
    cx.out
        .line(&format!("{}{}", cx.look.dim("what       "), told.what))?;
    fact(cx, "when", &format!("{}   {at}", e.iteration))?;
    fact(cx, "by", &format!("{by}   {}", e.provenance))?;
    if let Some(key) = &e.key {
        fact(cx, "key", &key.text)?;
    }
    Ok(())
}

fn visited(cx: &mut Context, visit: &Visited) -> Result<(), Failure> {
    let (before, after) = (entry::size(&visit.before), entry::size(&visit.after));
    let methods = format!(
        "{} before, {} after",
        visit.before.method, visit.after.method
    );
    fact(cx, "strategy", &visit.strategy)?;
    fact(cx, "trigger", visit.trigger.name())?;
    fact(
        cx,
        "measured",
        &format!("{before} -> {after}   ({methods})"),
    )?;
    let short = visit
        .shortfall
        .map_or_else(String::new, |s| format!("   {s} short"));
    fact(
        cx,
        "limit",
        &format!("{}   aimed at {}{short}", visit.limit, visit.target),
    )?;
    fact(
        cx,
        "outcome",
        &format!("{}: {}", visit.outcome, visit.outcome.sentence()),
    )?;
    for refused in &visit.refused {
        let (ids, reason) = (entry::ids(&refused.messages), refused.reason);
        fact(
            cx,
            "refused",
            &format!("{ids}   {reason}: {}", reason.sentence()),
        )?;
    }
    if !visit.stood_down.is_empty() {
        let ids = entry::ids(&visit.stood_down);
        let why = "asked although pin-results holds them: it had held up the visit before";
        fact(cx, "stood down", &format!("{ids}   {why}"))?;
    }
    if let Some(place) = visit.first_changed {
        let what = "a prompt cache has to be read anew from there on";
        fact(cx, "changed", &format!("from m{} on   {what}", place.0))?;
    }
    if let Some(seq) = visit.unchanged_since {
        fact(
            cx,
            "unchanged",
            &format!("what {seq} says of other groups still holds"),
        )?;
    }
    Ok(())
}

fn words(
    cx: &mut Context,
    chat: &Conversation,
    sealed: &Sealed,
    content: Option<Value>,
) -> Result<(), Failure> {
    let text = match entry::words(chat, &sealed.entry) {
        Some(words) => words,
        None => match content {
            Some(content) => serde_json::to_string_pretty(&content).unwrap_or_default(),
            None => return Ok(()),
        },
    };
    cx.out.line("")?;
    cx.out.line(&human::escape_lines(&text))
}
