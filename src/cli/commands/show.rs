//! `show`: one entry in full.

use std::ops::ControlFlow;

use ctxlog::audit::{self, Selector};
use ctxlog::engine::{Content, Conversation};
use ctxlog::log::entry::Sealed;
use ctxlog::log::{Attempt, Body, Entry, Hash, Key, MessageId, Seq, StandInKind, Visited};
use serde_json::Value;

use crate::cli::errors::Failure;
use crate::cli::{Context, entry, human, stores};

#[derive(clap::Args, Debug)]
#[command(
    after_help = "EXAMPLES\n  ctxlog show e81d\n  ctxlog show s:209\n  ctxlog show m18   the entry that introduced m18, with its words"
)]
pub struct Args {
    /// Which entry: a hash prefix, s:209, m18, @
    pub entry: String,
}

pub fn run(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
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
    let claim = Claim::of(&chat, &sealed.entry)?;
    if cx.json {
        cx.out.json(&json(&sealed, content, claim.as_ref()))?;
        return Ok(0);
    }
    facts(cx, &sealed)?;
    if let Body::Visited(visit) = &sealed.entry.body {
        visited(cx, visit)?;
    }
    if let Some(claim) = &claim {
        claim.facts(cx)?;
    }
    // What is asked of an edit, or what a source says of its own.
    if let Some(rest) = chat.edit_rest(seq)? {
        fact(cx, "asked", &rest.0)?;
    }
    words(cx, &chat, &sealed, content)?;
    if let Some(claim) = &claim {
        claim.show(cx)?;
    }
    Ok(0)
}

/// The entry as `log` gives it, with its key and its words.
fn json(sealed: &Sealed, content: Option<Value>, claim: Option<&Claim>) -> Value {
    let mut value = audit::entry_json(sealed);
    if let Some(fields) = value.as_object_mut() {
        let key = sealed.entry.key.as_ref().map(|k: &Key| k.text.clone());
        fields.insert("schema".to_owned(), Value::from("ctxlog.show/1"));
        fields.insert("key".to_owned(), Value::from(key));
        fields.insert("content".to_owned(), content.unwrap_or_default());
        if let Some(claim) = claim {
            fields.insert("generation".to_owned(), Value::from(claim.generation));
            let originals = claim.originals.iter().map(Original::json);
            fields.insert("originals".to_owned(), originals.collect());
        }
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
    for attempt in &visit.attempts {
        fact(cx, "asked", &asked(attempt))?;
    }
    for refused in &visit.refused {
        let (ids, reason) = (&refused.messages, refused.reason);
        fact(
            cx,
            "refused",
            &format!("{ids}   {reason}: {}", reason.sentence()),
        )?;
    }
    if !visit.stood_down.is_empty() {
        let ids = &visit.stood_down;
        let why = "asked although pin-results holds them: it had held up the visit before";
        fact(cx, "stood down", &format!("{ids}   {why}"))?;
    }
    if let Some(place) = visit.first_changed {
        let what = "a prompt cache has to be read anew from there on";
        fact(cx, "changed", &format!("from m{} on   {what}", place.0))?;
    }
    if let Some(cost) = &visit.invalidated {
        let (size, method) = (entry::size(cost), &cost.method);
        let what = format!("{size} that the newest call had sent   ({method})");
        fact(cx, "cache cost", &what)?;
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

/// A question to a summariser, and what came of it.
fn asked(attempt: &Attempt) -> String {
    let mut said = vec![match attempt.summarizer.as_str() {
        "" => "nobody".to_owned(),
        name => name.to_owned(),
    }];
    said.push(format!("about {}", attempt.sources));
    said.push(format!(
        "{}: {}",
        attempt.outcome,
        attempt.outcome.sentence()
    ));
    if attempt.answered > 0 {
        let cut = if attempt.clipped { ", cut" } else { "" };
        said.push(format!("{} bytes{cut}", human::number(attempt.answered)));
    }
    said.extend(attempt.model.as_ref().map(|m| format!("model {m}")));
    if let Some(usage) = attempt.usage {
        for (name, amount) in [("in", usage.total_input()), ("out", usage.output)] {
            said.extend(amount.map(|a| format!("{name} {}", human::number(a))));
        }
    }
    if attempt.prompt != Hash::ZERO {
        said.push(format!("prompt {}", attempt.prompt.short()));
    }
    said.join("   ")
}

/// A message that something stands for, as it was then.
struct Original {
    id: MessageId,
    about: String,
    words: String,
}

impl Original {
    fn json(&self) -> Value {
        serde_json::json!({"id": self.id.to_string(), "about": self.about, "words": self.words})
    }
}

/// What stands for several messages, with those.
struct Claim {
    generation: u64,
    /// Sizes in UTF-16 of the originals and of what stands for them.
    sizes: (u64, u64),
    originals: Vec<Original>,
}

impl Claim {
    fn of(chat: &Conversation, entry: &Entry) -> Result<Option<Self>, Failure> {
        let stand_ins = entry.body.change().map(|c| c.stand_ins.iter());
        let mut claims = stand_ins.into_iter().flatten();
        let Some(claim) = claims.find(|s| s.kind == StandInKind::Claim) else {
            return Ok(None);
        };
        let before = Seq(entry.seq.0.saturating_sub(1));
        let (generation, about) = chat.with_projection(|p| {
            let about = |id: MessageId| {
                let form = p.message(id).and_then(|m| m.form_at(before));
                let about = form.map(|f| (entry::message(id.seq(), &f.skeleton), f.skeleton.utf16));
                (id, about.unwrap_or_default())
            };
            let ids = p.ids_in(&claim.sources).into_iter();
            let about: Vec<(MessageId, (String, u64))> = ids.map(about).collect();
            (p.generation(MessageId(entry.seq)), about)
        })?;
        let mut sizes = (0_u64, claim.skeleton.utf16);
        let mut originals = Vec::new();
        for (id, (about, utf16)) in about {
            sizes.0 = sizes.0.saturating_add(utf16);
            let words = match chat.message_at(id, before)? {
                Content::Message(message) => message.words(),
                Content::Redacted => "[redacted]".to_owned(),
            };
            originals.push(Original { id, about, words });
        }
        Ok(Some(Self {
            generation,
            sizes,
            originals,
        }))
    }

    fn facts(&self, cx: &mut Context) -> Result<(), Failure> {
        let (of, to) = (human::number(self.sizes.0), human::number(self.sizes.1));
        let what = human::things(
            u64::try_from(self.originals.len()).unwrap_or(u64::MAX),
            "message",
        );
        let share = self.sizes.1.saturating_mul(100).checked_div(self.sizes.0);
        let share = share.map_or_else(String::new, |s| format!(", {s} %"));
        let text = format!("{what}, {of} -> {to} UTF-16 units{share}");
        fact(cx, "stands for", &text)?;
        let deep = match self.generation {
            0 | 1 => "made of messages alone".to_owned(),
            n => format!("summaries of summaries, {n} deep"),
        };
        fact(cx, "generation", &format!("{}   {deep}", self.generation))
    }

    /// The originals, opened.
    fn show(&self, cx: &mut Context) -> Result<(), Failure> {
        for original in &self.originals {
            cx.out.line("")?;
            let about = human::escape(&original.about);
            cx.out
                .line(&cx.look.dim(&format!("--- original {about}")))?;
            cx.out.line(&human::escape_lines(&original.words))?;
        }
        Ok(())
    }
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
