//! `import`: transcripts become logs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ctxlog::Strategy;
use ctxlog::audit;
use ctxlog::engine::{Conversation, Imported, Store, Warning};
use ctxlog::formats::{Format, Transcript};
use ctxlog::log::{Body, Head, Seq};
use serde::Serialize;

use crate::cli::errors::Failure;
use crate::cli::human::{self, number};
use crate::cli::progress::Progress;
use crate::cli::reading::{Found, Source};
use crate::cli::{Context, args, output, stores};

/// The line of a conversation.
#[derive(Serialize)]
struct Line {
    schema: &'static str,
    conversation: String,
    format: &'static str,
    messages: u64,
    iterations: u64,
    entries: u64,
    visits: u64,
    evicted: u64,
    refused: u64,
    notes: u64,
    added: u64,
    head: Option<Head>,
}

impl Line {
    fn of(imported: Imported) -> Self {
        Self {
            schema: "ctxlog.import/1",
            conversation: imported.conversation,
            format: imported.format,
            messages: imported.messages,
            iterations: imported.iterations,
            entries: imported.entries,
            visits: imported.visits,
            evicted: imported.evicted,
            refused: imported.refused,
            notes: imported.notes,
            added: imported.added,
            head: imported.head,
        }
    }

    /// The line of a log that came back from an own export.
    fn of_log(chat: &Conversation, added: u64) -> Result<Self, Failure> {
        let head = chat.head()?;
        let last = head.map_or(Seq(0), |h| h.seq);
        let mut notes: u64 = 0;
        chat.store()
            .entries(chat.id(), Seq(0), last, &mut |sealed| {
                notes =
                    notes.saturating_add(u64::from(matches!(sealed.entry.body, Body::Noted(_))));
                std::ops::ControlFlow::Continue(())
            })?;
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        Ok(chat.with_projection(|p| Self {
            schema: "ctxlog.import/1",
            conversation: chat.name().to_owned(),
            format: Format::Ctxlog.name(),
            messages: count(p.messages().len()),
            iterations: count(p.sent().len()),
            entries: last.0.saturating_add(1),
            visits: count(p.visits().len()),
            evicted: p.evictions(),
            refused: p.refusals(),
            notes,
            added,
            head,
        })?)
    }
}

pub fn run(cx: &mut Context, args: &args::Import) -> Result<u8, Failure> {
    let chain = args
        .strategy
        .iter()
        .map(|spec| ctxlog::strategy::parse(spec));
    let chain = chain.collect::<Result<Vec<_>, _>>()?;
    let mut import = Import {
        args,
        chain,
        store: None,
        names: Names::default(),
        lines: Vec::new(),
    };
    let mut worst: Option<Failure> = None;
    for file in &args.files {
        let done = import.file(cx, file);
        if let Err(failure) = done {
            let fatal = import.store.is_none() && failure.code == "store-busy";
            // Other files go on; the last failure is told by the caller.
            if let Some(earlier) = worst.replace(failure) {
                earlier.say(cx.json, cx.look);
            }
            if fatal {
                break;
            }
        }
    }
    if !cx.json {
        import.show(cx)?;
    }
    worst.map_or(Ok(0), Err)
}

struct Import<'a> {
    args: &'a args::Import,
    chain: Vec<Arc<dyn Strategy>>,
    /// Opened when there is something to write.
    store: Option<Store>,
    names: Names,
    lines: Vec<Line>,
}

impl Import<'_> {
    fn file(&mut self, cx: &mut Context, file: &std::path::Path) -> Result<(), Failure> {
        let source = Source::new(file)?;
        let limit = self.args.max_record;
        let format = match self.args.format.format() {
            Some(format) => format,
            None => source.detect(limit)?,
        };
        if format == Format::Ctxlog {
            return self.logs(cx, &source);
        }
        let Found {
            conversations,
            notes,
        } = source.read(format, limit)?;
        let named = self.names.of(&source, &conversations, self.args);
        tell(cx, notes.into_iter().chain(named.notes));
        let mut failed: Option<Failure> = None;
        for (name, transcript) in named.names.iter().zip(&conversations) {
            match self.conversation(cx, name, transcript) {
                Ok((imported, warnings)) => {
                    tell(cx, warnings.into_iter().map(|w| placed(&source, w)));
                    self.push(cx, Line::of(imported))?;
                }
                Err(failure) => {
                    if let Some(earlier) = failed.replace(failure) {
                        earlier.say(cx.json, cx.look);
                    }
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn store(&mut self, cx: &Context) -> Result<Store, Failure> {
        if self.store.is_none() {
            self.store = Some(stores::created(cx)?);
        }
        self.store
            .clone()
            .ok_or_else(|| Failure::bug("the store is not open"))
    }

    fn conversation(
        &mut self,
        cx: &Context,
        name: &str,
        transcript: &Transcript,
    ) -> Result<(Imported, Vec<Warning>), Failure> {
        let store = self.store(cx)?;
        let mut progress = Progress::new(cx.progress, "importing");
        let steps = u64::try_from(transcript.steps.len()).unwrap_or(u64::MAX);
        let mut imported = store.import(name, transcript, self.chain.clone(), &mut |done| {
            progress.at(u64::try_from(done).unwrap_or(u64::MAX), steps);
        })?;
        let warnings = std::mem::take(&mut imported.warnings);
        Ok((imported, warnings))
    }

    /// Own exports come back under their own ids.
    fn logs(&mut self, cx: &mut Context, source: &Source) -> Result<(), Failure> {
        if !self.chain.is_empty() {
            let message = format!("{} is a log already and is not replayed", source.shown);
            return Err(Failure::usage(
                "invalid-option",
                message,
                "import it without --strategy",
            ));
        }
        let logs = source.logs(self.args.max_record)?;
        let several = logs.len() > 1 || self.args.files.len() > 1;
        for log in logs {
            let first = log
                .first()
                .map_or(0, |(number, _)| number.saturating_sub(1));
            let name = match &self.args.name {
                Some(name) if several => Some(format!("{name}/{}", birth_name(&log))),
                name => name.clone(),
            };
            let store = self.store(cx)?;
            let mut lines = log.into_iter().map(|(_, line)| Ok(line));
            let taken = audit::import_lines(&store, &mut lines, name.as_deref());
            let (chat, added) = taken.map_err(|e| at(source, first, e))?;
            self.push(cx, Line::of_log(&chat, added)?)?;
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Context, line: Line) -> Result<(), Failure> {
        if cx.json {
            cx.out.json(&line)?;
        } else {
            self.lines.push(line);
        }
        Ok(())
    }

    fn show(&self, cx: &mut Context) -> Result<(), Failure> {
        let titles = [
            "conversation",
            "messages",
            "calls",
            "entries",
            "left",
            "refused",
            "notes",
            "added",
        ];
        let mut rows = vec![titles.map(str::to_owned).to_vec()];
        for line in &self.lines {
            let counts = [
                line.messages,
                line.iterations,
                line.entries,
                line.evicted,
                line.refused,
            ];
            let mut row = vec![human::escape(&line.conversation)];
            row.extend(
                counts
                    .into_iter()
                    .chain([line.notes, line.added])
                    .map(number),
            );
            rows.push(row);
        }
        for (n, row) in human::table(&rows, &[1, 2, 3, 4, 5, 6, 7])
            .iter()
            .enumerate()
        {
            let row = if n == 0 {
                cx.look.dim(row)
            } else {
                row.clone()
            };
            if !self.lines.is_empty() {
                cx.out.line(&row)?;
            }
        }
        let added = self
            .lines
            .iter()
            .map(|l| l.added)
            .fold(0, u64::saturating_add);
        let count = u64::try_from(self.lines.len()).unwrap_or(u64::MAX);
        let what = human::things(count, "conversation");
        let entries = if added == 1 { "entry" } else { "entries" };
        let (added, store) = (number(added), cx.store.display());
        cx.out
            .line(&format!("{what}, {added} {entries} added to {store}"))
    }
}

/// The name a log had at birth.
fn birth_name(log: &[(u64, String)]) -> String {
    let first = log
        .first()
        .and_then(|(_, line)| serde_json::from_str::<serde_json::Value>(line).ok());
    let name = first
        .as_ref()
        .and_then(|v| v.pointer("/body/name"))
        .and_then(|v| v.as_str());
    name.unwrap_or("log").to_owned()
}

/// A line's error with the file and the line in it.
fn at(source: &Source, before: u64, error: audit::ExportError) -> Failure {
    match error {
        audit::ExportError::Line { line, what } => {
            let place = format!("{}:{}", source.shown, before.saturating_add(line));
            let failure = Failure::from(audit::ExportError::Line {
                line,
                what: what.clone(),
            });
            Failure {
                message: format!("{place}: {what}"),
                ..failure
            }
        }
        other => other.into(),
    }
}

/// A warning with the file in its place.
fn placed(source: &Source, warning: Warning) -> (String, String) {
    let place = if warning.place.starts_with(&source.shown) {
        warning.place
    } else {
        format!("{}: {}", source.shown, warning.place)
    };
    (place, warning.what)
}

/// Tells notes on stderr: every one, equal ones together.
fn tell(cx: &Context, notes: impl IntoIterator<Item = (String, String)>) {
    if cx.json {
        for (place, message) in notes {
            let line = serde_json::json!({ "note": { "place": place, "message": message } });
            output::note(&human::escape_json(&line.to_string()));
        }
        return;
    }
    let mut order: Vec<String> = Vec::new();
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (place, what) in notes {
        if !places.contains_key(&what) {
            order.push(what.clone());
        }
        places.entry(what).or_default().push(place);
    }
    for what in order {
        let at = places.remove(&what).unwrap_or_default();
        let times = if at.len() > 1 {
            format!(" ({} times)", at.len())
        } else {
            String::new()
        };
        let text = format!("note: {}: {what}{times}", at.join(", "));
        output::note(&human::escape(&text));
    }
}

/// The names given so far, with the file each was given for.
#[derive(Default)]
struct Names(BTreeMap<String, PathBuf>);

struct Named {
    names: Vec<String>,
    notes: Vec<(String, String)>,
}

impl Names {
    /// Names the conversations of a file.
    fn of(&mut self, source: &Source, found: &[Transcript], args: &args::Import) -> Named {
        let (identity, several) = (source.identity(), found.len() > 1);
        let (mut names, mut notes) = (Vec::new(), Vec::new());
        for (n, transcript) in found.iter().enumerate() {
            let id = match &transcript.id {
                Some(id) => Some(id.clone()),
                None if several => Some(n.saturating_add(1).to_string()),
                None => None,
            };
            let within = |base: &str| {
                id.as_ref()
                    .map_or(base.to_owned(), |id| format!("{base}/{id}"))
            };
            let wanted = match &args.name {
                None => within(&source.stem),
                Some(name) if args.files.len() > 1 => format!("{name}/{}", within(&source.stem)),
                Some(name) if several => within(name),
                Some(name) => name.clone(),
            };
            let free = self.free(&wanted, &names, &identity);
            if free != wanted {
                let what = format!("the name '{wanted}' is taken; this conversation is '{free}'");
                notes.push((source.shown.clone(), what));
            }
            names.push(free);
        }
        self.0
            .extend(names.iter().map(|name| (name.clone(), identity.clone())));
        Named { names, notes }
    }

    /// The name, numbered where another conversation of this file or another file has it.
    fn free(&self, wanted: &str, here: &[String], identity: &PathBuf) -> String {
        let taken = |name: &String| {
            here.contains(name) || self.0.get(name).is_some_and(|file| file != identity)
        };
        let numbered = (2_u64..).map(|n| format!("{wanted}/{n}"));
        let mut tried = std::iter::once(wanted.to_owned()).chain(numbered);
        tried
            .find(|name| !taken(name))
            .unwrap_or_else(|| wanted.to_owned())
    }
}
