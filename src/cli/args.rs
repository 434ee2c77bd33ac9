//! What may be said on the command line.

use std::path::PathBuf;
use std::sync::LazyLock;

use clap::builder::{NonEmptyStringValueParser, PossibleValue};
use clap::{Args, Parser, Subcommand, ValueEnum};
use ctxlog::engine::{Budget, Namespace};
use ctxlog::formats::Profile;

use super::commands::{
    append, bisect, call, checkpoint, compact, completions, context, diff, export, fork, grep,
    import, lint, log, pin, recall, redact, replace, report, restore, scan, self_test, show,
    simulate, status, verify, why, window,
};

/// Git for context windows: what the model saw, what left, and why.
#[derive(Parser, Debug)]
#[command(name = "ctxlog", version, max_term_width = 100, after_help = TOP)]
pub struct Cli {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Option<Command>,
}

const TOP: &str = "\
EXAMPLES
  ctxlog demo                          write a sample conversation and look at it
  ctxlog import session.jsonl          turn a transcript into a log
  ctxlog                               the window now (the same as `ctxlog status`)
  ctxlog why m18                       when m18 entered, who saw it, why it left
  ctxlog window --at it:27             the exact window that call 27 was sent

SELECTORS
  @ the head   @-3 three entries before   it:27 what call 27 was sent   s:209 after entry 209
  m18 after the entry that introduced it   e81d the entry whose hash begins so

EXIT CODES
  0 done, answered   1 nothing matched, or no   2 usage or I/O   3 integrity failure   4 refused
  255 our bug";

/// Options of every command.
#[derive(Args, Debug)]
pub struct Common {
    /// Where the logs are
    #[arg(
        long,
        global = true,
        env = "CTXLOG_STORE",
        default_value = ".ctxlog",
        value_name = "PATH"
    )]
    pub store: PathBuf,
    /// Whose conversations: a tenant and further segments, parted by ':'
    #[arg(
        long,
        global = true,
        env = "CTXLOG_NAMESPACE",
        value_name = "NAMESPACE",
        value_parser = namespace
    )]
    pub namespace: Option<Namespace>,
    /// Which conversation; may be left out where there is only one
    #[arg(short, long, global = true, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub conversation: Option<String>,
    /// How much memory to take for caches
    #[arg(
        long,
        global = true,
        env = "CTXLOG_MEMORY",
        default_value = "256MiB",
        value_name = "SIZE",
        value_parser = budget
    )]
    pub memory: Budget,
    /// Answer in JSON: one object, or JSON Lines for lists
    #[arg(long, global = true)]
    pub json: bool,
    /// When to use colours
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub color: Color,
    /// Show no progress bars
    #[arg(long, global = true)]
    pub no_progress: bool,
}

/// When to use colours.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Color {
    Auto,
    Always,
    Never,
}

/// A provider whose request bodies are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Provider(pub Profile);

impl ValueEnum for Provider {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<Provider>> =
            LazyLock::new(|| Profile::ALL.iter().copied().map(Provider).collect());
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()).help(self.0.title()))
    }
}

/// How a window is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// All words of all messages.
    Text,
    /// A request.
    Request(Profile),
}

impl Body {
    pub const fn profile(self) -> Option<Profile> {
        match self {
            Self::Text => None,
            Self::Request(profile) => Some(profile),
        }
    }
}

impl ValueEnum for Body {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<Body>> = LazyLock::new(|| {
            let requests = Profile::ALL.iter().copied().map(Body::Request);
            std::iter::once(Body::Text).chain(requests).collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Text => Some(PossibleValue::new("text").help("All words of all messages")),
            Self::Request(profile) => Provider(*profile).to_possible_value(),
        }
    }
}

/// What `--strategy` takes. Said here once; a test holds it to what can be parsed.
macro_rules! strategies {
    () => {
        "

STRATEGIES
  sliding-window      keep=N [unit=group|message|request]      keeps the newest
  head-tail           [window=12] [head=1] [unit=message]      the first and the newest
  buffer              keep=N [unit=message]                    the newest, after every append too
  token-budget        limit=N [low=0.8] [keep=6] [measure=auto|reported|tiktoken|estimate]
  clear-tool-results  limit=N or age=CALLS [keep=3] [except=TOOL+TOOL] [at-least=0]
  truncate-outputs    max=BYTES                                tool outputs; JSON stays JSON
  expire              after=N [unit=call|entry|time] [return=false]  time is in seconds
  summarize-oldest    limit=N [keep=6] [measure=auto] [summary-max=8000] [command=PATH] [timeout=120]
  all of them         [pin-results=0] [notice=off|auto]
  presets             sisu, agentfootprint, agentfootprint-budget, entelix: the numbers of these

A SPEC is name:key=value,key=value. Several are applied in the order given."
    };
}
pub(super) use strategies;

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Write a sample conversation and look at it
    #[command(after_help = "EXAMPLES\n  ctxlog demo\n  ctxlog --store /tmp/demo demo")]
    Demo,
    /// Turn transcripts into logs
    Import(import::Args),
    /// Find the sessions of known agents on this computer, and import one
    Scan(scan::Args),
    /// Add a message (JSON on stdin, or --text)
    Append(append::Args),
    /// Take the window to send to the model, and file the call
    Call(call::Args),
    /// Record what came back from a call
    Report(report::Args),
    /// List the conversations
    #[command(after_help = "EXAMPLES\n  ctxlog ls\n  ctxlog ls --json | jq -r .conversation")]
    Ls,
    /// Show the window now: its categories, what left, what refused
    Status(status::Args),
    /// List the entries
    Log(log::Args),
    /// Show one entry in full
    Show(show::Args),
    /// Show the exact window at a moment, as text or as a provider's request
    Window(window::Args),
    /// Explain a message: when it entered, who saw it, why it left, how to bring it back
    Why(why::Args),
    /// Go on from an earlier moment, as a conversation of its own
    Fork(fork::Args),
    /// Show what the model saw when it wrote a message, and what it no longer saw
    Context(context::Args),
    /// Find a text: who said it, which calls could see it, which answered without it
    Grep(grep::Args),
    /// Show what changed between two windows, each change with its entry
    Diff(diff::Args),
    /// Find the first call whose window fails a test of your own
    Bisect(bisect::Args),
    /// What other strategies would have done to the same conversation, side by side
    Simulate(simulate::Args),
    /// Bring a message back, or undo a visit or edit
    Restore(restore::Args),
    /// Put words in the place of messages of the window (words on stdin, or --text)
    Replace(replace::Args),
    /// Let messages leave the window; without any, all that may
    Clear(replace::Clear),
    /// Show the model again what a message said: it comes back, or is quoted
    Recall(recall::Args),
    /// Keep a message of the window from leaving
    #[command(
        after_help = "EXAMPLES\n  ctxlog pin m18     its whole group stays until it is unpinned, or an undo takes it"
    )]
    Pin(pin::Args),
    /// End a pin
    #[command(after_help = "EXAMPLES\n  ctxlog unpin m18")]
    Unpin(pin::Args),
    /// Destroy the words of a message, or of all, wherever they went
    Redact(redact::Args),
    /// Say which rules of a provider a window breaks
    Lint(lint::Args),
    /// Check that the log hangs together
    Verify(verify::Args),
    /// Print a commitment to each head, to keep elsewhere
    Checkpoint(checkpoint::Args),
    /// Write all logs anew into another directory, without what was destroyed
    Compact(compact::Args),
    /// Write the log, or a request body, to stdout or a file
    Export(export::Args),
    /// Measure the reliability figures on this machine's own disk
    SelfTest(self_test::Args),
    /// Write what a shell completes
    Completions(completions::Args),
    /// Write the manual pages
    Man(completions::ManArgs),
}

/// A namespace from its text.
fn namespace(text: &str) -> Result<Namespace, String> {
    text.parse()
        .map_err(|error: ctxlog::Error| error.to_string())
}

fn budget(text: &str) -> Result<Budget, String> {
    Budget::of(bytes(text)?).map_err(|e| e.to_string())
}

/// A number of bytes, as in `1000`, `64MiB` or `1GB`.
pub fn bytes(text: &str) -> Result<usize, String> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at_checked(end).unwrap_or((text, ""));
    let factor: usize = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "kb" => 1_000,
        "m" | "mib" => 1 << 20,
        "mb" => 1_000_000,
        "g" | "gib" => 1 << 30,
        "gb" => 1_000_000_000,
        _ => return Err("units are KiB, MiB, GiB, KB, MB and GB".to_owned()),
    };
    let number: usize = digits
        .parse()
        .map_err(|_| "a whole number has to come first".to_owned())?;
    match number.checked_mul(factor) {
        Some(0) | None => Err("that is no size there can be".to_owned()),
        Some(bytes) => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, expected) in [
            ("1000", Some(1000)),
            ("64MiB", Some(64 << 20)),
            ("1 kb", Some(1000)),
            ("2g", Some(2 << 30)),
            ("0", None),
            ("MiB", None),
            ("5 parsecs", None),
            ("99999999999999999999", None),
            ("99999999999GiB", None),
        ] {
            assert_eq!(bytes(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }
}
