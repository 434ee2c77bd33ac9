//! One entry in a line.

use ctxlog::audit::outcome;
use ctxlog::engine::{Content, Conversation};
use ctxlog::log::{
    Body, Change, Entry, PartKind, Ranges, Reading, Seq, Skeleton, Unit, Visited, entry::Sealed,
};

use super::human::{self, Look, number};

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
        Body::Opened(b) => format!("'{}'", b.name),
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
            chain
                .chain(settings)
                .chain(open)
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
        Body::Edited(b) => changed(&b.change),
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
        Body::Noted(_) => ("#", "note"),
        _ => ("?", "unknown"),
    }
}

/// A message by its id, its author and what it holds.
pub fn message(seq: Seq, skeleton: &Skeleton) -> String {
    let mut out = format!("m{} {}", seq.0, skeleton.author.name());
    for part in &skeleton.parts {
        let name = part.name.as_deref().unwrap_or("a tool");
        match part.kind {
            PartKind::Call => out.push_str(&format!(" calls {name}")),
            PartKind::Result => {
                let of = part.name.as_deref().or(part.label.as_deref());
                out.push_str(&format!(" result of {}", of.unwrap_or("a call")));
                out.push_str(
                    &part
                        .answers
                        .map_or_else(String::new, |(s, _)| format!(" in m{}", s.0)),
                );
            }
            PartKind::Text => {}
            other => out.push_str(&format!(" {other}")),
        }
    }
    if let Some(tokens) = &skeleton.tokens {
        out.push_str(&format!("  {} tok", number(tokens.amount)));
    }
    out
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
    if !visit.refused.is_empty() {
        said.push(format!("refused: {}", refusals(visit)));
    }
    said.push(visit.strategy.clone());
    said.retain(|s| !s.is_empty());
    said.join("  ")
}

/// What newly refused at a visit, with the reasons.
pub fn refusals(visit: &Visited) -> String {
    let one = |r: &ctxlog::log::Refused| format!("{} {}", ids(&r.messages), r.reason);
    visit.refused.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// What a visit or edit changed.
pub fn changed(change: &Change) -> String {
    let mut said = Vec::new();
    said.extend(
        change
            .left
            .iter()
            .map(|l| format!("{} {}", ids(&l.messages), l.reason)),
    );
    for stand_in in &change.stand_ins {
        said.push(format!(
            "{} {} by a {}",
            ids(&stand_in.sources),
            stand_in.reason,
            stand_in.kind
        ));
    }
    if !change.entered.is_empty() {
        said.push(format!("{} back", ids(&change.entered)));
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

/// Message ranges as ids.
pub fn ids(ranges: &Ranges) -> String {
    let one = |(first, last): &(Seq, Seq)| {
        if first == last {
            format!("m{}", first.0)
        } else {
            format!("m{}..m{}", first.0, last.0)
        }
    };
    ranges.0.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// The words that an entry brought, where it brought a message.
pub fn words(chat: &Conversation, entry: &Entry) -> Option<String> {
    let brings = match &entry.body {
        Body::Appended(_) => true,
        other => other.change().is_some_and(|c| !c.stand_ins.is_empty()),
    };
    brings.then(|| match chat.content(entry.seq, 0) {
        Ok(Content::Message(message)) => message.words(),
        Ok(Content::Redacted) => "[redacted]".to_owned(),
        Err(error) => format!("[{error}]"),
    })
}

/// The line of an entry in the log.
pub fn line(look: Look, chat: &Conversation, sealed: &Sealed) -> String {
    let entry = &sealed.entry;
    let told = tell(entry);
    let head = [
        format!("{:<7}", entry.seq.to_string()),
        sealed.hash.short(),
        format!("{:<6}", entry.iteration.to_string()),
        format!("{:<13}", told.word),
    ];
    let used = human::columns_of(&head.join("  ")).saturating_add(2);
    let mut what = told.what;
    if let Some(words) = words(chat, entry) {
        what = format!("{what}  \"{}\"", human::escape(words.trim()));
    }
    let [seq, hash, iteration, word] = head;
    let word = match word.chars().next() {
        Some('-' | '~' | '=') => look.bad(&word),
        Some('!') => look.loud(&word),
        Some('+' | '^') => look.good(&word),
        _ => word,
    };
    let text = look.preview(&what, used);
    format!(
        "{}  {}  {iteration}  {word}  {text}",
        look.bold(&seq),
        look.dim(&hash)
    )
    .trim_end()
    .to_owned()
}
