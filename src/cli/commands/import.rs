//! `import`: transcripts become logs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use ctxlog::Strategy;
use ctxlog::engine::{CommandSummarizer, Conversation, Imported, Store, Warning};
use ctxlog::formats::{Format, PackedTranscript};
use ctxlog::log::{Body, Head, Seq};
use serde::Serialize;

use crate::cli::args::{bytes, strategies};
use crate::cli::errors::Failure;
use crate::cli::finding::{self, Given};
use crate::cli::human::{self, Look, number};
use crate::cli::naming::Names;
use crate::cli::notes::Notes;
use crate::cli::progress::Progress;
use crate::cli::reading::{Found, Kind, OWN, Source};
use crate::cli::{Context, output, stores, summaries};

/// Failures that say that a file is no transcript.
const NO_TRANSCRIPT: [&str; 3] = ["unknown-format", "no-conversation", "empty-file"];

/// What a file to import may be.
const AUTO: &str = "auto";

/// A record's size above which it is skipped, unless another is given.
const RECORD: usize = 64 << 20;

/// The names that `--format` takes.
fn written() -> PossibleValuesParser {
    let formats = Format::all().map(Format::name);
    let names = [AUTO].into_iter().chain(formats).chain([OWN]);
    PossibleValuesParser::new(names)
}

const IMPORT: &str = concat!(
    "\
EXAMPLES
  ctxlog import session.jsonl
  ctxlog import chats/*.json --strategy token-budget:limit=8000,keep=6
  ctxlog import ~/.claude/projects        every session in the folder and below
  curl -s https://… | ctxlog import - --format openai-chat --as incident-7
  ctxlog import log.ctxlog.jsonl          an own export or bundle comes back under the same id

Importing again adds only what is new. With strategies the transcript is replayed call by call.",
    strategies!()
);

#[derive(clap::Args, Debug)]
#[command(after_help = IMPORT)]
pub struct Args {
    /// Transcripts, folders of them, or patterns; `-` is stdin
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// What the files are
    #[arg(long, value_parser = written(), default_value = AUTO)]
    pub format: String,
    /// Replay through this strategy, `name:key=value,…`; may be given several times
    #[arg(long, value_name = "SPEC")]
    pub strategy: Vec<String>,
    /// Name of the conversation; where there are several, what their names begin with
    #[arg(long = "as", value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: Option<String>,
    /// Skip records larger than this
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = bytes)]
    pub max_record: usize,
}

impl Args {
    /// These files, replayed through these strategies.
    pub fn of(files: Vec<PathBuf>, strategy: Vec<String>) -> Self {
        Self {
            files,
            format: AUTO.to_owned(),
            strategy,
            name: None,
            max_record: RECORD,
        }
    }
}

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
            format: OWN,
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

pub fn run(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
    let chain = args
        .strategy
        .iter()
        .map(|spec| ctxlog::strategy::parse(spec));
    let chain = chain.collect::<Result<Vec<_>, _>>()?;
    let summarizer = summaries::command(&chain)?;
    let files = finding::files(&args.files)?;
    let mut import = Import {
        args,
        several: files.len() > 1,
        passed: Vec::new(),
        imported: 0,
        chain,
        summarizer,
        store: None,
        closed: false,
        names: Names::default(),
        known: BTreeMap::new(),
        waits: files.len() > 1,
        lines: Vec::new(),
    };
    let worst = import.all(cx, &files);
    let nothing = import.passed(cx);
    if !cx.json {
        import.show(cx)?;
    }
    worst.or(nothing).map_or(Ok(0), Err)
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

struct Import<'a> {
    args: &'a Args,
    /// Whether there is more than one file.
    several: bool,
    /// Files of folders that are no transcripts.
    passed: Vec<String>,
    /// How many conversations were imported.
    imported: u64,
    chain: Vec<Arc<dyn Strategy>>,
    summarizer: Option<CommandSummarizer>,
    /// Opened when there is something to write.
    store: Option<Store>,
    /// Whether the store could not be opened, so that nothing more can be imported.
    closed: bool,
    names: Names,
    /// What the conversations of files are called, by their transcripts' ids.
    known: BTreeMap<String, String>,
    /// Whether a file waits for others that what it holds began in.
    waits: bool,
    lines: Vec<Line>,
}

/// What became of a file.
#[derive(PartialEq)]
enum Done {
    Imported,
    /// What it holds began in a conversation that is not known yet.
    Later,
}

impl Import<'_> {
    /// All files, those that others began in first; the last failure.
    fn all(&mut self, cx: &mut Context, files: &[Given]) -> Option<Failure> {
        let mut worst: Option<Failure> = None;
        let mut progress = Progress::new(cx.progress && files.len() > 1, "importing files");
        let mut due: Vec<&Given> = files.iter().collect();
        while !due.is_empty() {
            let mut later = Vec::new();
            for (n, file) in due.iter().enumerate() {
                let before = files.len().saturating_sub(due.len());
                progress.at(count(before.saturating_add(n)), count(files.len()));
                match self.given(cx, file) {
                    Ok(Done::Imported) => {}
                    Ok(Done::Later) => later.push(*file),
                    // Other files go on, unless there is nowhere to write; the last failure is
                    // told by the caller.
                    Err(failure) => {
                        if let Some(earlier) = worst.replace(failure) {
                            earlier.say(cx.json, cx.look);
                        }
                        if self.closed {
                            return worst;
                        }
                    }
                }
            }
            // Where nothing came to be known, what is waited for is in no file.
            self.waits = later.len() < due.len();
            due = later;
        }
        worst
    }

    /// Whether something in a file began in a conversation of another that is still to come.
    fn is_early(&self, conversations: &[PackedTranscript]) -> bool {
        let here = |id| conversations.iter().any(|t| t.id.as_deref() == Some(id));
        let mut others = conversations.iter().filter_map(|t| t.begins.other());
        self.waits && others.any(|id| !here(id) && !self.known.contains_key(id))
    }

    /// A file; one that was found in a folder and is no transcript is passed over.
    fn given(&mut self, cx: &mut Context, given: &Given) -> Result<Done, Failure> {
        let source = match &given.stem {
            Some(stem) => Source::in_folder(&given.path, stem),
            None => Source::new(&given.path)?,
        };
        match self.file(cx, &source) {
            Err(failure) if !given.is_named() && NO_TRANSCRIPT.contains(&failure.code.as_str()) => {
                self.passed.push(source.shown);
                Ok(Done::Imported)
            }
            done => done,
        }
    }

    /// Tells which files of folders were passed over; a failure where there was nothing else.
    fn passed(&self, cx: &Context) -> Option<Failure> {
        let mut notes = Notes::new("");
        let what = "no transcript of a format that is known here; passed over";
        let passed = self.passed.iter();
        notes.extend(passed.map(|file| (file.clone(), what.to_owned())));
        notes.tell(cx);
        (self.imported == 0).then(|| {
            let message = "no transcript is there".to_owned();
            Failure::usage(
                "no-conversation",
                message,
                "name the files, or a folder that holds them",
            )
        })
    }

    fn file(&mut self, cx: &mut Context, source: &Source) -> Result<Done, Failure> {
        let limit = self.args.max_record;
        let kind = match self.args.format.as_str() {
            OWN => Kind::Log,
            name => match Format::from_name(name) {
                Some(format) => Kind::Transcript(format),
                None => source.detect(limit)?,
            },
        };
        let Kind::Transcript(format) = kind else {
            return self.logs(cx, source).map(|()| Done::Imported);
        };
        let Found {
            conversations,
            notes: found_notes,
        } = source.read(format, limit)?;
        if self.is_early(&conversations) {
            return Ok(Done::Later);
        }
        let named = self
            .names
            .of(source, &conversations, self.args, self.several);
        let mut notes = Notes::new(&source.shown);
        notes.extend(found_notes.into_iter().chain(named.notes));
        let mut failed: Option<Failure> = None;
        // Those of this file first, whatever others have the same ids.
        let mut here = BTreeMap::new();
        for (transcript, name) in conversations.iter().zip(&named.names) {
            if let Some(id) = &transcript.id {
                here.entry(id.clone()).or_insert_with(|| name.clone());
            }
        }
        let mut known = std::mem::take(&mut self.known);
        let of = |id: &str| here.get(id).or_else(|| known.get(id)).cloned();
        for (name, transcript) in named.names.iter().zip(conversations) {
            match self.conversation(cx, &of, name, transcript) {
                Ok((imported, warnings)) => {
                    notes.extend(warnings.into_iter().map(|w| (w.place, w.what)));
                    self.push(cx, Line::of(imported))?;
                }
                Err(failure) => {
                    if let Some(earlier) = failed.replace(failure) {
                        earlier.say(cx.json, cx.look);
                    }
                    if self.closed {
                        break;
                    }
                }
            }
        }
        notes.tell(cx);
        for (id, name) in here {
            known.entry(id).or_insert(name);
        }
        self.known = known;
        failed.map_or(Ok(Done::Imported), Err)
    }

    fn store(&mut self, cx: &Context) -> Result<Store, Failure> {
        if self.store.is_none() {
            let opened = stores::created(cx);
            self.closed = opened.is_err();
            self.store = Some(opened?);
        }
        self.store
            .clone()
            .ok_or_else(|| Failure::bug("the store is not open"))
    }

    fn conversation(
        &mut self,
        cx: &Context,
        of: &dyn Fn(&str) -> Option<String>,
        name: &str,
        transcript: PackedTranscript,
    ) -> Result<(Imported, Vec<Warning>), Failure> {
        let mut store = self.store(cx)?;
        if let Some(summarizer) = &self.summarizer {
            store = store.with_summarizer(summarizer.clone());
        }
        let mut progress = Progress::new(cx.progress && !self.several, "importing");
        let steps = u64::try_from(transcript.steps.len()).unwrap_or(u64::MAX);
        let mut tell = |done| progress.at(u64::try_from(done).unwrap_or(u64::MAX), steps);
        let chain = self.chain.clone();
        let mut imported = store.import_among(of, name, transcript, chain, &mut tell)?;
        let mut warnings = std::mem::take(&mut imported.warnings);
        if let Some(first) = imported.due.first() {
            let calls = human::things(count(imported.due.len()), "call");
            warnings.push(Warning {
                place: first.to_string(),
                what: format!(
                    "a summary was due at {calls} and nobody was asked: command= makes them"
                ),
            });
        }
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
        let mut progress = Progress::new(cx.progress, "reading");
        let logs = source.logs(self.args.max_record, &mut |at, of| progress.at(at, of))?;
        drop(progress);
        let several = logs.len() > 1 || self.several;
        for log in logs {
            let name = match &self.args.name {
                Some(name) if several => Some(format!("{name}/{}", log.birth_name())),
                name => name.clone(),
            };
            let store = self.store(cx)?;
            let (chat, added) = store.adopt(&log, name.as_deref())?;
            if let Some(asked) = name.filter(|asked| asked != chat.name()) {
                let (here, asked) = (human::escape(chat.name()), human::escape(&asked));
                output::note(&format!(
                    "this log is here already, as '{here}'; it was not named '{asked}'"
                ));
            }
            self.push(cx, Line::of_log(&chat, added)?)?;
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Context, line: Line) -> Result<(), Failure> {
        self.imported = self.imported.saturating_add(1);
        if cx.json {
            cx.out.json(&line)?;
        } else {
            self.lines.push(line);
        }
        Ok(())
    }

    fn show(&self, cx: &mut Context) -> Result<(), Failure> {
        if self.lines.is_empty() {
            return Ok(());
        }
        for row in self.table(cx.look) {
            cx.out.line(&row)?;
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

impl Import<'_> {
    /// A row per conversation; the name comes last, since it may be long and has to be whole.
    fn table(&self, look: Look) -> Vec<String> {
        const TITLES: [&str; 7] = [
            "messages", "calls", "entries", "left", "refused", "notes", "added",
        ];
        // Narrow terminals show fewer counts.
        let shown = |n: &usize| look.width >= 80 || [0, 1, 6].contains(n);
        let pick = |cells: [String; 7], name: String| -> Vec<String> {
            let counts = (0..)
                .zip(cells)
                .filter(|(n, _)| shown(n))
                .map(|(_, cell)| cell);
            counts.chain([name]).collect()
        };
        let mut rows = vec![pick(TITLES.map(str::to_owned), "conversation".to_owned())];
        for l in &self.lines {
            let counts = [
                l.messages,
                l.iterations,
                l.entries,
                l.evicted,
                l.refused,
                l.notes,
                l.added,
            ];
            rows.push(pick(counts.map(number), human::escape(&l.conversation)));
        }
        let last = rows.first().map_or(0, Vec::len).saturating_sub(1);
        let right: Vec<usize> = (0..last).collect();
        let mut lines = human::table(&rows, &right);
        if let Some(titles) = lines.first_mut() {
            *titles = look.dim(titles);
        }
        lines
    }
}
