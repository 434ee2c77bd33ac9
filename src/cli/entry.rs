//! One entry in a line.

use ctxlog::audit::{Selector, outcome};
use ctxlog::engine::{Content, Conversation};
use ctxlog::log::{
    Body, Change, Entry, MessageId, PartKind, PartSkeleton, Provenance, Reading, Seq, Skeleton,
    StandInKind, Unit, Visited, entry::Sealed,
};

use super::errors::Failure;
use super::human::{self, Look, number};

/// Narrower terminals do without the hashes.
const HASH_WIDTH_MIN: usize = 60;

/// What an entry is about, for people.
pub struct Told {
    /// The kind or outcome, with its sign.
    pub word: String,
    /// What it is about.
    pub what: String,
}

/// Tells an entry.
pub fn tell(entry: &Entry) -> Told {
    let (sign, word) = word(&entry.body);
    let what = match &entry.body {
        Body::Opened(b) => match b.fork {
            Some(fork) => format!("'{}', a fork after {}", b.name, fork.at),
            None => format!("'{}'", b.name),
        },
        Body::Configured(b) => {
            let chain = b.strategies.iter().flatten().cloned();
            let settings = b.settings.iter().map(|s| {
                let model = s.model.as_deref().unwrap_or("no model named");
                format!("{} settings, {model}", s.format)
            });
            let open = b
                .open_calls
                .iter()
                .map(|policy| format!("open calls: {policy}"));
            let due = (b.consolidation.iter()).map(|policy| format!("consolidates: {policy}"));
            chain
                .chain(settings)
                .chain(open)
                .chain(due)
                .collect::<Vec<_>>()
                .join("; ")
        }
        Body::Appended(b) => message(entry.seq, &b.skeleton),
        Body::Called(b) => {
            let model = b.model.as_deref().unwrap_or_default();
            let window = human::things(b.messages, "message");
            format!("{window}  {}  {model}", b.window.short())
        }
        Body::Returned(b) => returned(b),
        Body::Visited(b) => visited(b),
        Body::Edited(b) if entry.provenance == Provenance::Inferred => {
            format!("{}: {}", human::INFERRED, changed(&b.change))
        }
        Body::Edited(b) => changed(&b.change),
        Body::Redacted(b) => {
            let payloads = u64::try_from(b.payloads.len()).unwrap_or(u64::MAX);
            let payloads = human::things(payloads, "payload");
            match (b.asked, b.up_to) {
                (Some(message), _) => format!("m{}  {payloads}", message.0),
                (None, Some(_)) => "the whole conversation".to_owned(),
                (None, None) => format!("{payloads} shared with the parent"),
            }
        }
        Body::Noted(b) => format!("{}  {}", b.what, b.place),
        _ => "this version does not know its kind".to_owned(),
    };
    let word = format!("{sign} {word}");
    Told {
        word,
        what: human::escape(what.trim_end()),
    }
}

fn word(body: &Body) -> (&'static str, &'static str) {
    match outcome(body) {
        Some("evict") => return ("-", "evict"),
        Some("replace") => return ("~", "replace"),
        Some("consolidate") => return ("=", "consolidate"),
        Some("refuse") => return ("!", "refuse"),
        Some(action) => return ("^", action),
        None => {}
    }
    match body {
        Body::Opened(_) => ("*", "opened"),
        Body::Configured(_) => ("*", "configured"),
        Body::Appended(_) => ("+", "append"),
        Body::Called(_) => (">", "call"),
        Body::Returned(_) => ("<", "return"),
        Body::Redacted(_) => ("x", "redact"),
        Body::Noted(_) => ("#", "note"),
        _ => ("?", "unknown"),
    }
}

/// A message by its id, its author and what it holds.
pub fn message(seq: Seq, skeleton: &Skeleton) -> String {
    let mut said = vec![format!("m{} {}", seq.0, skeleton.author.name())];
    said.extend(skeleton.parts.iter().filter_map(part));
    let tokens = skeleton
        .tokens
        .as_ref()
        .map(|t| format!("  {} tok", number(t.amount)));
    said.join(" ") + &tokens.unwrap_or_default()
}

/// What a part is, where it is not plain text.
fn part(part: &PartSkeleton) -> Option<String> {
    match part.kind {
        PartKind::Call => Some(format!(
            "calls {}",
            part.name.as_deref().unwrap_or("a tool")
        )),
        PartKind::Result => {
            let of = part
                .name
                .as_deref()
                .or(part.label.as_deref())
                .unwrap_or("a call");
            let place = part.answers.map(|(seq, _)| format!(" in m{}", seq.0));
            Some(format!("result of {of}{}", place.unwrap_or_default()))
        }
        PartKind::Text => None,
        other => Some(other.to_string()),
    }
}

fn returned(body: &ctxlog::log::Returned) -> String {
    let usage = body.usage.unwrap_or_default();
    let mut said = vec![body.call.to_string()];
    let input = usage.total_input();
    for (name, amount) in [
        ("in", input),
        ("cached", usage.cache_read),
        ("out", usage.output),
    ] {
        said.extend(amount.map(|a| format!("{name} {}", number(a))));
    }
    if body.failed {
        said.push("failed".to_owned());
    }
    said.join("  ")
}

/// A size with its unit.
pub fn size(reading: &Reading) -> String {
    let unit = match reading.unit {
        Unit::Token => "tok",
        Unit::Group => "groups",
        Unit::Message => "messages",
        Unit::Request => "requests",
        Unit::Byte => "bytes",
    };
    format!("{} {unit}", number(reading.amount))
}

fn visited(visit: &Visited) -> String {
    let (before, after) = (number(visit.before.amount), size(&visit.after));
    let mut said = vec![changed(&visit.change), format!("{before} -> {after}")];
    said.push(format!("limit {}", number(visit.limit)));
    if visit.outcome.name() != "done" {
        said.push(visit.outcome.to_string());
    }
    if let Some(cost) = visit.invalidated.as_ref().filter(|c| c.amount > 0) {
        said.push(format!("cache {} anew", size(cost)));
    }
    if !visit.refused.is_empty() {
        said.push(format!("refused: {}", refusals(visit)));
    }
    said.push(visit.strategy.clone());
    said.retain(|s| !s.is_empty());
    said.join("  ")
}

/// What newly refused at a visit, with the reasons.
pub fn refusals(visit: &Visited) -> String {
    let one = |r: &ctxlog::log::Refused| format!("{} {}", r.messages, r.reason);
    visit.refused.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// What a visit or edit changed.
pub fn changed(change: &Change) -> String {
    let mut said = Vec::new();
    said.extend(
        change
            .left
            .iter()
            .map(|l| format!("{} {}", l.messages, l.reason)),
    );
    for stand_in in &change.stand_ins {
        let (of, reason) = (&stand_in.sources, stand_in.reason);
        said.push(match stand_in.kind {
            StandInKind::Notice => "with a notice".to_owned(),
            kind => format!("{of} {reason} by a {kind}"),
        });
    }
    for (what, ranges) in [("pinned", &change.pinned), ("unpinned", &change.unpinned)] {
        said.extend((!ranges.is_empty()).then(|| format!("{ranges} {what}")));
    }
    if !change.entered.is_empty() {
        said.push(format!("{} back", change.entered));
    }
    said.extend(
        change
            .reverted
            .iter()
            .map(|(m, to)| format!("m{} as {to} gave it", m.0)),
    );
    said.extend(change.undoes.map(|seq| format!("undoes {seq}")));
    said.join(", ")
}

/// The words that an entry brought: a message's, or those of what stands for some.
pub fn words(chat: &Conversation, entry: &Entry) -> Option<String> {
    let brings = match &entry.body {
        Body::Appended(_) => 1,
        other => other.change().map_or(0, |c| c.stand_ins.len()),
    };
    let words = |payload| match chat.content(entry.seq, payload) {
        Ok(Content::Message(message)) => message.words(),
        Ok(Content::Redacted) => "[redacted]".to_owned(),
        Err(error) => format!("[{error}]"),
    };
    let all: Vec<String> = (0_u32..).take(brings).map(words).collect();
    (!all.is_empty()).then(|| all.join("\n"))
}

/// The line of an entry in the log.
pub fn line(look: Look, chat: &Conversation, sealed: &Sealed) -> String {
    let entry = &sealed.entry;
    let told = tell(entry);
    let mut head = vec![format!("{:<7}", entry.seq.to_string())];
    if look.width >= HASH_WIDTH_MIN {
        head.push(sealed.hash.short());
    }
    head.push(format!("{:<6}", entry.iteration.to_string()));
    head.push(format!("{:<13}", told.word));
    let head = head.join("  ");
    let used = human::columns_of(&head).saturating_add(2);
    let mut what = told.what;
    if let Some(words) = words(chat, entry) {
        what = format!("{what}  \"{}\"", human::escape(words.trim()));
    }
    let head = match told.word.chars().next() {
        Some('-' | '~' | '=') => look.bad(&head),
        Some('!') => look.loud(&head),
        Some('+' | '^') => look.good(&head),
        _ => head,
    };
    format!("{head}  {}", look.preview(&what, used))
        .trim_end()
        .to_owned()
}

/// The message that an argument names; `help` is for one that names none.
pub fn message_id(text: &str, help: &str) -> Result<MessageId, Failure> {
    match text.parse()? {
        Selector::Message(id) => Ok(id),
        _ => {
            let message = format!("'{text}' is no message");
            Err(Failure::usage("invalid-selector", message, help))
        }
    }
}
