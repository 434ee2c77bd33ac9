//! What may be said on the command line.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use ctxlog::engine::{Budget, Namespace};
use ctxlog::formats::{Format, Profile};
use ctxlog::testkit::{self, crash::Work};

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
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Provider {
    OpenaiChat,
    Anthropic,
}

impl Provider {
    pub const fn profile(self) -> Profile {
        match self {
            Self::OpenaiChat => Profile::OpenAiChat,
            Self::Anthropic => Profile::Anthropic,
        }
    }
}

/// How a window is shown.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// All words of all messages
    Text,
    /// An OpenAI Chat Completions request
    OpenaiChat,
    /// An Anthropic Messages request
    Anthropic,
}

impl Body {
    pub const fn profile(self) -> Option<Profile> {
        match self {
            Self::Text => None,
            Self::OpenaiChat => Some(Profile::OpenAiChat),
            Self::Anthropic => Some(Profile::Anthropic),
        }
    }
}

/// What a file to import may be.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    Auto,
    OpenaiChat,
    Anthropic,
    ClaudeCode,
    Ctxlog,
}

impl Source {
    /// The format; `None` where it is to be found out.
    pub const fn format(self) -> Option<Format> {
        match self {
            Self::Auto => None,
            Self::OpenaiChat => Some(Format::OpenAiChat),
            Self::Anthropic => Some(Format::Anthropic),
            Self::ClaudeCode => Some(Format::ClaudeCode),
            Self::Ctxlog => Some(Format::Ctxlog),
        }
    }
}

/// What an export is written as.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The whole log with its stored bytes, as JSON Lines
    Ctxlog,
    /// The window as an OpenAI Chat Completions request
    OpenaiChat,
    /// The window as an Anthropic Messages request
    Anthropic,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Write a sample conversation and look at it
    #[command(after_help = "EXAMPLES\n  ctxlog demo\n  ctxlog --store /tmp/demo demo")]
    Demo,
    /// Turn transcripts into logs
    #[command(after_help = IMPORT)]
    Import(Import),
    /// Add a message (JSON on stdin, or --text)
    #[command(after_help = APPEND)]
    Append(Append),
    /// Take the window to send to the model, and file the call
    #[command(after_help = CALL)]
    Call(Call),
    /// Record what came back from a call
    #[command(after_help = REPORT)]
    Report(Report),
    /// List the conversations
    #[command(after_help = "EXAMPLES\n  ctxlog ls\n  ctxlog ls --json | jq -r .conversation")]
    Ls,
    /// Show the window now: its categories, what left, what refused
    #[command(after_help = "EXAMPLES\n  ctxlog status\n  ctxlog status -c support-4411 --all")]
    Status(Status),
    /// List the entries
    #[command(after_help = LOG)]
    Log(Log),
    /// Show one entry in full
    #[command(
        after_help = "EXAMPLES\n  ctxlog show e81d\n  ctxlog show s:209\n  ctxlog show m18   the entry that introduced m18, with its words"
    )]
    Show(Show),
    /// Show the exact window at a moment, as text or as a provider's request
    #[command(after_help = WINDOW)]
    Window(Window),
    /// Explain a message: when it entered, who saw it, why it left, how to bring it back
    #[command(
        after_help = "EXAMPLES\n  ctxlog why m18\n  ctxlog why m18 --at it:27   as things stood then"
    )]
    Why(Why),
    /// Bring a message back, or undo a visit or edit
    #[command(
        after_help = "EXAMPLES\n  ctxlog restore m18     its whole group comes back, at its place\n  ctxlog restore s:209   what entry 209 did is undone; that is an entry too"
    )]
    Restore(Restore),
    /// Put words in the place of messages of the window (words on stdin, or --text)
    #[command(after_help = REPLACE)]
    Replace(Replace),
    /// Let messages leave the window; without any, all that may
    #[command(after_help = CLEAR)]
    Clear(Clear),
    /// Show the model again what a message said: it comes back, or is quoted
    #[command(
        after_help = "EXAMPLES\n  ctxlog recall m18   what left comes back; what a summary stands for is quoted beside it"
    )]
    Recall(Recall),
    /// Keep a message of the window from leaving
    #[command(
        after_help = "EXAMPLES\n  ctxlog pin m18     its whole group stays until it is unpinned, or an undo takes it"
    )]
    Pin(Pin),
    /// End a pin
    #[command(after_help = "EXAMPLES\n  ctxlog unpin m18")]
    Unpin(Pin),
    /// Say which rules of a provider a window breaks
    #[command(
        after_help = "EXAMPLES\n  ctxlog lint --provider anthropic\n  ctxlog lint --provider openai-chat it:27"
    )]
    Lint(Lint),
    /// Check that the log hangs together
    #[command(after_help = VERIFY)]
    Verify(Verify),
    /// Write the log, or a request body, to stdout or a file
    #[command(after_help = EXPORT)]
    Export(Export),
    /// Measure the reliability figures on this machine's own disk
    #[command(after_help = SELF_TEST)]
    SelfTest(SelfTest),
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

const IMPORT: &str = concat!(
    "\
EXAMPLES
  ctxlog import session.jsonl
  ctxlog import chats/*.json --strategy token-budget:limit=8000,keep=6
  curl -s https://… | ctxlog import - --format openai-chat --as incident-7
  ctxlog import log.ctxlog.jsonl          an own export comes back under the same id

Importing again adds only what is new. With strategies the transcript is replayed call by call.",
    strategies!()
);

#[derive(Args, Debug)]
pub struct Import {
    /// Transcripts; `-` is stdin
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// What the files are
    #[arg(long, value_enum, default_value_t = Source::Auto)]
    pub format: Source,
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

const APPEND: &str = "\
EXAMPLES
  ctxlog append -c chat --role system --text 'You are a support agent.'
  ctxlog append -c chat --text 'Where is order 4411?'
  echo '{\"role\":\"assistant\",\"content\":\"On its way.\"}' | ctxlog append -c chat
  ctxlog append -c chat --result-of call_1 --text 'shipped on Monday'

The store and the conversation are created where they are absent.";

#[derive(Args, Debug)]
pub struct Append {
    /// Who it speaks as, with --text
    #[arg(long, value_enum, requires = "text")]
    pub role: Option<Role>,
    /// The words; without it a JSON message is read from stdin
    #[arg(long, value_name = "TEXT")]
    pub text: Option<String>,
    /// The words are the result of this call
    #[arg(
        long,
        value_name = "CALL_ID",
        requires = "text",
        conflicts_with = "role"
    )]
    pub result_of: Option<String>,
    /// How the JSON message is written; found out from its shape otherwise
    #[arg(long, value_enum, conflicts_with = "text")]
    pub format: Option<Provider>,
    /// Refuse when there is newer content after this entry
    #[arg(long, value_name = "s:N")]
    pub expect: Option<String>,
    /// Idempotency key: the same request under the same key is written once
    #[arg(long)]
    pub key: Option<String>,
}

/// Who a message speaks as.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    System,
    Developer,
    User,
    Assistant,
}

const CALL: &str = concat!(
    "\
EXAMPLES
  ctxlog call -c chat --format openai-chat --model gpt-4.1 > request.json
  ctxlog call -c chat --strategy token-budget:limit=8000,keep=6
  ctxlog call -c chat --json | jq .digest

The strategies visit and the call is filed, in one step. --strategy sets the chain on first use.",
    strategies!()
);

#[derive(Args, Debug)]
pub struct Call {
    /// The model that is called
    #[arg(long)]
    pub model: Option<String>,
    /// A file with the request's other fields as a JSON object, in the terms of --format; changed
    /// ones are logged with the call
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// The strategies in force from here on, `name:key=value,…`; may be given several times
    #[arg(long, value_name = "SPEC")]
    pub strategy: Vec<String>,
    /// What to print: a request body, or all words
    #[arg(long, value_enum)]
    pub format: Option<Body>,
    /// Refuse when the head is not this entry
    #[arg(long, value_name = "s:N")]
    pub expect: Option<String>,
    /// Idempotency key
    #[arg(long)]
    pub key: Option<String>,
}

const REPORT: &str = "\
EXAMPLES
  ctxlog report --call last --input 812 --output 96
  ctxlog report --call it:27 --failure 'status 529: overloaded'
  jq .usage response.json | ctxlog report --call last";

#[derive(Args, Debug)]
pub struct Report {
    /// The call: s:N, it:N or last
    #[arg(long, default_value = "last")]
    pub call: String,
    /// Input tokens that were neither read from nor written to a cache
    #[arg(long, value_name = "N")]
    pub input: Option<u64>,
    /// Output tokens
    #[arg(long, value_name = "N")]
    pub output: Option<u64>,
    /// Input tokens read from a cache
    #[arg(long, value_name = "N")]
    pub cache_read: Option<u64>,
    /// Input tokens written to a cache
    #[arg(long, value_name = "N")]
    pub cache_write: Option<u64>,
    /// The call failed, in the provider's words
    #[arg(long, value_name = "TEXT")]
    pub failure: Option<String>,
}

#[derive(Args, Debug, Default)]
pub struct Status {
    /// Also the refusals by reason, the strategies and the lifetimes
    #[arg(long)]
    pub all: bool,
}

const LOG: &str = "\
EXAMPLES
  ctxlog log                the whole log
  ctxlog log it:27          what happened up to call 27, since the call before
  ctxlog log it:10..20
  ctxlog log @-9..          the newest ten entries
  ctxlog log --json | jq 'select(.outcome == \"evict\")'";

#[derive(Args, Debug)]
pub struct Log {
    /// A..B, it:10..20 or one selector; all entries otherwise
    pub range: Option<String>,
}

#[derive(Args, Debug)]
pub struct Show {
    /// Which entry: a hash prefix, s:209, m18, @
    pub entry: String,
}

const WINDOW: &str = "\
EXAMPLES
  ctxlog window                               the window now, a line per message
  ctxlog window --at it:27 --format text      all words that call 27 was sent
  ctxlog window --at it:27 --format anthropic > request.json
  ctxlog window --at it:27 --long             with the entry that put each message there

What had to change for the provider's rules to hold is listed on stderr; --as-is changes nothing.";

#[derive(Args, Debug)]
pub struct Window {
    /// The moment
    #[arg(long, value_name = "SEL", default_value = "@")]
    pub at: String,
    /// What to print: a request body, or all words
    #[arg(long, value_enum)]
    pub format: Option<Body>,
    /// Repair nothing in the request body
    #[arg(long, requires = "format")]
    pub as_is: bool,
    /// Also the entry that put each message there
    #[arg(long)]
    pub long: bool,
}

#[derive(Args, Debug)]
pub struct Why {
    /// The message, as in m18
    pub message: String,
    /// The moment the question is about
    #[arg(long, value_name = "SEL", default_value = "@")]
    pub at: String,
}

#[derive(Args, Debug)]
pub struct Restore {
    /// A message that left (m18), or a visit or edit to undo (s:209)
    pub what: String,
}

const REPLACE: &str = "\
EXAMPLES
  echo 'They agreed on Monday.' | ctxlog replace 0..-2   all but the last two messages
  ctxlog replace 3..9 --role assistant --gaps --text 'Several tries failed.'
  ctxlog replace -1 --in-place --text 'The file is empty.'   another content of the last message
  ctxlog replace 0..-4 --ask                 what is meant is settled now, the words come later:
  ctxlog replace --asked s:209 < summary.txt

Positions count from 0, in the order of `ctxlog window`; the end is exclusive; negative ones count
from the window's end. A call and its results are replaced together or not at all. The system
prompt, the current request, open calls and what is pinned stay. `ctxlog restore s:N` undoes it.";

#[derive(Args, Debug)]
pub struct Replace {
    /// Positions of the window: A..B, A.. or one, as in 0..-2
    #[arg(allow_hyphen_values = true, required_unless_present = "asked")]
    pub range: Option<String>,
    /// Only messages in this role; may be given several times
    #[arg(long, value_name = "ROLE")]
    pub role: Vec<String>,
    /// Only messages with a part of this kind (text, image, call, result, reasoning, …); may be
    /// given several times
    #[arg(long, value_name = "KIND")]
    pub tag: Vec<String>,
    /// Messages that stay may stand between those that are replaced
    #[arg(long)]
    pub gaps: bool,
    /// The words are another content of the one message that is meant
    #[arg(long)]
    pub in_place: bool,
    /// Settle what is meant; the words come later, with --asked
    #[arg(long, conflicts_with_all = ["asked", "text"])]
    pub ask: bool,
    /// Give the words of what was asked for in this entry
    #[arg(long, value_name = "s:N", conflicts_with_all = ["range", "role", "tag", "gaps", "in_place"])]
    pub asked: Option<String>,
    /// The words; otherwise they are read from stdin
    #[arg(long)]
    pub text: Option<String>,
    /// Who the words speak as, where they are a message of their own
    #[arg(long = "as", value_enum, default_value = "user", value_name = "ROLE")]
    pub speaks: Speaks,
}

/// Who words that stand for others speak as.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speaks {
    User,
    Assistant,
}

const CLEAR: &str = "\
EXAMPLES
  ctxlog clear            everything that may leave does: the window begins anew
  ctxlog clear m12 m18    these, each with its whole group

The system prompt, the current request, open calls and what is pinned stay; the log keeps all.
`ctxlog restore s:N` brings back what entry N cleared.";

#[derive(Args, Debug)]
pub struct Clear {
    /// The messages (m18); all that may leave otherwise
    pub messages: Vec<String>,
}

#[derive(Args, Debug)]
pub struct Recall {
    /// The message (m18); a summary's own id quotes what it stands for
    pub message: String,
}

#[derive(Args, Debug)]
pub struct Pin {
    /// The message (m18)
    pub message: String,
}

#[derive(Args, Debug)]
pub struct Lint {
    /// Whose rules
    #[arg(long, value_enum)]
    pub provider: Provider,
    /// The moment
    #[arg(value_name = "SEL", default_value = "@")]
    pub at: String,
}

const VERIFY: &str = "\
EXAMPLES
  ctxlog verify                all conversations
  ctxlog verify -c chat --json
  ctxlog verify --salvage      read a damaged store from a copy of its files

Exit code 3 when something does not hang together. The last lines say what no check can show.";

#[derive(Args, Debug)]
pub struct Verify {
    /// Read a copy of the store's files; done by itself where the store cannot be opened
    #[arg(long)]
    pub salvage: bool,
}

const EXPORT: &str = "\
EXAMPLES
  ctxlog export -c chat -o chat.ctxlog.jsonl
  ctxlog export -c chat --format openai-chat --at it:27
  ctxlog export -c chat --salvage -o rest.jsonl    what can be trusted of a damaged log";

#[derive(Args, Debug)]
pub struct Export {
    /// What to write
    #[arg(long, value_enum, default_value_t = Target::Ctxlog)]
    pub format: Target,
    /// The moment, for a request body
    #[arg(long, value_name = "SEL", default_value = "@")]
    pub at: String,
    /// Repair nothing in the request body
    #[arg(long)]
    pub as_is: bool,
    /// Write to this file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Export what can be trusted of a damaged log
    #[arg(long)]
    pub salvage: bool,
}

const SELF_TEST: &str = "\
EXAMPLES
  ctxlog self-test                          all figures, in about half a minute
  ctxlog self-test --dir /mnt/data          on the disk that /mnt/data is on
  ctxlog self-test --only 1 --only 1c       these figures alone
  ctxlog self-test --size release --json    what a release is tested with, a line per figure

A process is killed again and again while it writes, logs are written by many threads at once; then
all that was acknowledged has to be there. It is done in a fresh directory, which is removed
afterwards, also of a run that is stopped, unless a figure is broken. Exit code 3 when one is.";

#[derive(Args, Debug)]
pub struct SelfTest {
    /// How much is done for a figure
    #[arg(long, value_enum, default_value_t = Size::Short)]
    pub size: Size,
    /// Measure only the figure of this number; may be given several times
    #[arg(long, value_name = "NUMBER")]
    pub only: Vec<String>,
    /// What everything random is drawn from; another one each time unless given
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Where the fresh directory is made; beside the store otherwise
    #[arg(long, value_name = "PATH")]
    pub dir: Option<PathBuf>,
    /// Do the work of a child that is going to be killed, on the store at --dir
    #[arg(long, hide = true, requires = "dir", requires = "seed")]
    pub child: Option<Work>,
    /// Wait for the end of stdin, then remove the fresh directory that --dir is
    #[arg(long, hide = true, requires = "dir", conflicts_with = "child")]
    pub clear_up: bool,
}

/// How much is done for a figure.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// Half a minute: 20 kills, 8 writers x 200 appends
    Short,
    /// Some minutes, what every change is tested with: 200 kills, 8 writers x 1,000 appends
    Ci,
    /// Hours, what a release is tested with: 10,000 kills, 64 writers x 5,000 appends
    Release,
}

impl From<Size> for testkit::Size {
    fn from(size: Size) -> Self {
        match size {
            Size::Short => Self::Short,
            Size::Ci => Self::Ci,
            Size::Release => Self::Release,
        }
    }
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
fn bytes(text: &str) -> Result<usize, String> {
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
