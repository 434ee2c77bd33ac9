//! `export`: the log, a bundle, a request body, or a page to look at, to stdout or a file.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use ctxlog::audit::{self, ExportError, PageOptions, Paged, Selector};
use ctxlog::engine::{Conversation, Store};
use ctxlog::formats::Profile;

use super::{verify, window};
use crate::cli::args::bytes;
use crate::cli::errors::{Failure, INTEGRITY};
use crate::cli::progress::Progress;
use crate::cli::{Context, human, output, stores};

/// What an export is written as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    Ctxlog,
    Request(Profile),
    Html,
    Bundle,
}

impl ValueEnum for Target {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<Target>> = LazyLock::new(|| {
            let requests = Profile::ALL.iter().copied().map(Target::Request);
            let all = std::iter::once(Target::Ctxlog).chain(requests);
            all.chain([Target::Html, Target::Bundle]).collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            Self::Ctxlog => (
                "ctxlog",
                "The whole log with its stored bytes, as JSON Lines",
            ),
            Self::Request(profile) => (profile.name(), profile.title()),
            Self::Html => (
                "html",
                "One HTML page that works offline: lives, reasons, the window at each call",
            ),
            Self::Bundle => (
                "bundle",
                "The whole log behind a line that says what it holds: `verify --bundle` checks it elsewhere",
            ),
        };
        Some(PossibleValue::new(name).help(help))
    }
}

const EXPORT: &str = "\
EXAMPLES
  ctxlog export -c chat -o chat.ctxlog.jsonl
  ctxlog export -c chat --format openai-chat --at it:27
  ctxlog export -c chat --format html -o chat.html
  ctxlog export -c chat --format html --no-words -o chat.html    ids, sizes and reasons only
  ctxlog export -c chat --format bundle -o chat.bundle.jsonl     then: ctxlog verify --bundle FILE
  ctxlog export -c chat --format bundle --checkpoint elsewhere/ctxlog.note    it carries the note
  ctxlog export -c chat --salvage -o rest.jsonl    what can be trusted of a damaged log";

#[derive(clap::Args, Debug)]
#[command(after_help = EXPORT)]
pub struct Args {
    /// What to write
    #[arg(long, value_enum, default_value_t = Target::Ctxlog)]
    pub format: Target,
    /// The moment, for a request body
    #[arg(long, value_name = "SEL", default_value = "@")]
    pub at: String,
    /// Repair nothing in the request body
    #[arg(long)]
    pub as_is: bool,
    /// Leave the words of messages out of a page
    #[arg(long)]
    pub no_words: bool,
    /// Bytes of each message's words that a page holds
    #[arg(long, value_name = "BYTES", default_value = "64KiB", value_parser = bytes)]
    pub max_words: usize,
    /// Write to this file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Checkpoints that were kept elsewhere, for a bundle to carry ('-': stdin)
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Option<PathBuf>,
    /// Export what can be trusted of a damaged log
    #[arg(long)]
    pub salvage: bool,
}

pub fn run(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
    let at: Selector = args.at.parse()?;
    if args.checkpoint.is_some() && (args.salvage || args.format != Target::Bundle) {
        let message = "only a bundle carries checkpoints";
        return Err(Failure::usage(
            "invalid-option",
            message,
            "add --format bundle",
        ));
    }
    if args.salvage {
        return salvage(cx, args);
    }
    let store = stores::existing(cx)?;
    let chat = stores::conversation(cx, &store)?;
    let profile = match args.format {
        Target::Ctxlog => return log(cx, args, &chat).map(|()| 0),
        Target::Html => return page(cx, args, &chat).map(|()| 0),
        Target::Bundle => return bundle(cx, args, &store, &chat).map(|()| 0),
        Target::Request(profile) => profile,
    };
    let place = at.resolve(&chat)?;
    window::differs(&audit::window(&chat, place)?)?;
    let rendered = chat.load_after(place.seq)?.render(profile, args.as_is);
    let Some(path) = &args.output else {
        return window::body(cx, &rendered);
    };
    window::repairs(cx, &rendered);
    to_file(path, &mut |out| Ok(writeln!(out, "{}", rendered.body)?))?;
    Ok(0)
}

fn log(cx: &mut Context, args: &Args, chat: &Conversation) -> Result<(), Failure> {
    lines(cx, args, &mut |out| audit::export(chat, out))
}

/// The log as it was found to hang together: one that does not is not given to others as whole.
fn bundle(
    cx: &mut Context,
    args: &Args,
    store: &Store,
    chat: &Conversation,
) -> Result<(), Failure> {
    let listed = stores::listed(cx, store)?;
    let mut progress = Progress::new(cx.progress, "verifying");
    let mut verified = audit::verify(store, &listed, &mut |done, total| progress.at(done, total))?;
    drop(progress);
    let carried = match &args.checkpoint {
        Some(path) => verify::spoken_of(store, &listed, path, &mut verified)?,
        None => None,
    };
    if !verified.ok {
        return Err(verify::failure(&verified));
    }
    let carried = carried.as_deref();
    lines(cx, args, &mut |out| {
        audit::bundle(chat, &verified, carried, out)
    })
}

/// Writes lines of a log, one an entry, and says how many on stderr.
fn lines(
    cx: &mut Context,
    args: &Args,
    write: &mut dyn FnMut(&mut dyn Write) -> Result<u64, ExportError>,
) -> Result<(), Failure> {
    let Some(path) = &args.output else {
        return match write(&mut cx.out) {
            // The reader has gone: that is its own business.
            Err(ExportError::Io(e)) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            done => done.map(|_| ()).map_err(Failure::from),
        };
    };
    let mut lines = 0;
    to_file(path, &mut |out| {
        lines = write(out)?;
        Ok(())
    })?;
    if !cx.json {
        let entries = if lines == 1 { "entry" } else { "entries" };
        output::note(&format!(
            "{} {entries} to {}",
            human::number(lines),
            path.display()
        ));
    }
    Ok(())
}

fn page(cx: &mut Context, args: &Args, chat: &Conversation) -> Result<(), Failure> {
    let options = PageOptions {
        words: !args.no_words,
        most: args.max_words,
    };
    let paged = match &args.output {
        None => match audit::page(chat, options, &mut cx.out) {
            Err(ExportError::Io(e)) if e.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
            done => done?,
        },
        Some(path) => {
            let mut paged = Paged::default();
            to_file(path, &mut |out| {
                paged = audit::page(chat, options, out)?;
                Ok(())
            })?;
            paged
        }
    };
    if let Some(path) = args.output.as_ref().filter(|_| !cx.json) {
        let size = path.metadata().map_or(0, |m| m.len());
        output::note(&format!(
            "{}, {}, {} to {}",
            human::things(paged.messages, "message"),
            human::things(paged.calls, "call"),
            human::things(size, "byte"),
            path.display()
        ));
    }
    // What is not in the page is told to whoever asks for JSON as well.
    if paged.shortened > 0 {
        output::note(&format!(
            "the page holds {} of each message; {} of {} are left out: give --max-words to have more",
            human::things(count(args.max_words), "byte"),
            human::things(paged.left_out, "byte"),
            human::things(paged.shortened, "content"),
        ));
    }
    if paged.redacted > 0 {
        let messages = human::things(paged.redacted, "message");
        output::note(&format!(
            "{messages} redacted: nothing of their words is in the page"
        ));
    }
    Ok(())
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// The prefix of a damaged log that hangs together.
fn salvage(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
    if args.format != Target::Ctxlog {
        let message = "what can be saved of a damaged log is saved as a log";
        return Err(Failure::usage(
            "invalid-option",
            message,
            "leave --format out",
        ));
    }
    let store = stores::salvaged(cx)?;
    let listed = stores::listed(cx, &store)?;
    let trusted = audit::trusted_prefix(&store, &listed)?;
    log(cx, args, &trusted.conversation)?;
    let (ends, head) = (trusted.ends, trusted.head.seq);
    if ends.is_none() && trusted.lost.is_empty() {
        return Ok(0);
    }
    let lost: Vec<String> = trusted.lost.iter().map(ToString::to_string).collect();
    let rest = ends.map(|why| format!("; the rest cannot be trusted: {why}"));
    let words =
        (!lost.is_empty()).then(|| format!("; lost words, saved as redacted: {}", lost.join(", ")));
    let message = format!(
        "saved s:0..{head} of '{}'{}{}",
        listed.name.name,
        rest.unwrap_or_default(),
        words.unwrap_or_default()
    );
    let help = "import what was saved into a new store with `ctxlog --store NEW import FILE`";
    Err(Failure::new(INTEGRITY, "damaged", message, help))
}

type Writing<'a> = &'a mut dyn FnMut(&mut dyn Write) -> Result<(), ExportError>;

/// Writes a file whole or not at all; a device or pipe is written as it comes.
fn to_file(path: &Path, write: Writing<'_>) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::file("write", path, &e);
    if path.metadata().is_ok_and(|m| !m.is_file()) {
        let mut out = BufWriter::new(File::create(path).map_err(failed)?);
        write(&mut out)?;
        return out.flush().map_err(failed);
    }
    let mut name = path
        .file_name()
        .map(std::ffi::OsStr::to_owned)
        .unwrap_or_default();
    name.push(".part");
    let part: PathBuf = path.with_file_name(name);
    let mut out = BufWriter::new(File::create(&part).map_err(failed)?);
    let written = write(&mut out).map_err(Failure::from).and_then(|()| {
        let file = out.into_inner().map_err(|e| failed(e.into_error()))?;
        file.sync_all().map_err(failed)
    });
    let done = written.and_then(|()| std::fs::rename(&part, path).map_err(failed));
    if done.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    done
}
