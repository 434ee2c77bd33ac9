//! What all measures of a run share: sizes, content, the place for their stores, progress.

use std::cell::OnceCell;
use std::io::{IsTerminal, Write};
use std::time::Instant;

use tempfile::TempDir;

use super::content::Source;
use super::measures::big::Big;
use super::measures::long::Pair;
use super::options::Options;
use super::python::Python;

/// How large a run is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// Shows that every measure still runs; its figures say nothing.
    Smoke,
    Short,
    Full,
}

impl Size {
    pub fn from_name(name: &str) -> Result<Self, String> {
        match name {
            "smoke" => Ok(Self::Smoke),
            "short" => Ok(Self::Short),
            "full" => Ok(Self::Full),
            other => Err(format!("--size {other}: it is smoke, short or full")),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Short => "short",
            Self::Full => "full",
        }
    }
}

/// How much each measure does. Counts are of messages unless named otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub rounds: u64,
    /// Rounds of synced appends: many short ones, since a disk has phases.
    pub synced_rounds: u64,
    /// Synced appends of a round; also the conversation in which a message is reached.
    pub synced: u64,
    /// Synced appends of each of the 32 writers in a round.
    pub writer: u64,
    /// Buffered appends of a round.
    pub buffered: u64,
    /// The long conversation that appends and visits are measured at.
    pub length: u64,
    /// Appends and visits at a length, in a round.
    pub stretch: u64,
    /// Entries of the long conversation whose windows are taken.
    pub long_entries: u64,
    /// Entries of the conversations beside it, together as many.
    pub short_entries: u64,
    /// Questions of a round to open conversations.
    pub questions: u64,
    /// Questions to a store that was just opened.
    pub cold: u64,
    /// Content of the big store, in bytes.
    pub big_bytes: u64,
    /// Conversations of the big store.
    pub conversations: u64,
    /// Content of the stores whose bytes are counted; beside it one of a tenth.
    pub disk: u64,
    /// Messages given to `SqliteSaver`, whose time grows with their square, and how often.
    pub saver: u64,
    pub saver_rounds: u64,
}

const SMOKE: Sizes = Sizes {
    rounds: 2,
    synced_rounds: 2,
    synced: 20,
    writer: 3,
    buffered: 200,
    length: 1_000,
    stretch: 100,
    long_entries: 1_000,
    short_entries: 100,
    questions: 5,
    cold: 1,
    big_bytes: 500_000,
    conversations: 20,
    disk: 500,
    saver: 20,
    saver_rounds: 1,
};

const SHORT: Sizes = Sizes {
    rounds: 3,
    synced_rounds: 7,
    synced: 1_000,
    writer: 200,
    buffered: 8_000,
    length: 20_000,
    stretch: 500,
    long_entries: 50_000,
    short_entries: 10_000,
    questions: 100,
    cold: 3,
    big_bytes: 20_000_000,
    conversations: 1_000,
    disk: 10_000,
    saver: 300,
    saver_rounds: 1,
};

const FULL: Sizes = Sizes {
    rounds: 5,
    synced_rounds: 15,
    synced: 1_000,
    writer: 200,
    buffered: 50_000,
    length: 1_000_000,
    stretch: 1_000,
    long_entries: 1_000_000,
    short_entries: 10_000,
    questions: 500,
    cold: 5,
    big_bytes: 1_000_000_000,
    conversations: 1_000,
    disk: 100_000,
    saver: 2_000,
    saver_rounds: 1,
};

/// What all measures of a run share.
pub struct Setup {
    pub options: Options,
    pub sizes: Sizes,
    pub source: Source,
    pub python: Python,
    root: TempDir,
    began: Instant,
    big: OnceCell<Big>,
    pair: OnceCell<Pair>,
}

impl Setup {
    pub fn new(options: Options) -> Self {
        let sizes = match options.size {
            Size::Smoke => SMOKE,
            Size::Short => SHORT,
            Size::Full => FULL,
        };
        std::fs::create_dir_all(&options.dir).expect("the folder for temporary stores");
        let root = tempfile::Builder::new()
            .prefix("bench-")
            .tempdir_in(&options.dir);
        let root = root.expect("a folder for temporary stores");
        let source = Source::read();
        let python = Python::new(&options, &sizes, &source, root.path());
        Self {
            options,
            sizes,
            source,
            python,
            root,
            began: Instant::now(),
            big: OnceCell::new(),
            pair: OnceCell::new(),
        }
    }

    /// A folder of a measure's own, removed when it is dropped.
    pub fn dir(&self) -> TempDir {
        tempfile::tempdir_in(self.root.path()).expect("a folder for a store")
    }

    /// The large store and bare sled with the same content, made when they are first wanted.
    pub fn big(&self) -> &Big {
        self.big.get_or_init(|| Big::build(self))
    }

    /// The store of one long conversation and the one of many short ones.
    pub fn pair(&self) -> &Pair {
        self.pair.get_or_init(|| Pair::build(self))
    }

    /// Says what is being done now.
    pub fn progress(&self, what: &str) {
        let seconds = self.began.elapsed().as_secs();
        if std::io::stderr().is_terminal() {
            eprintln!("\r\x1b[K[{seconds:>4} s] {what}");
        } else {
            eprintln!("[{seconds:>4} s] {what}");
        }
    }

    /// Says how far it is, where a terminal shows it.
    pub fn step(&self, what: &str, done: u64, of: u64) {
        if std::io::stderr().is_terminal() {
            let seconds = self.began.elapsed().as_secs();
            eprint!("\r\x1b[K[{seconds:>4} s]   {what} {done}/{of}");
            std::io::stderr().flush().expect("a terminal");
        }
    }

    pub fn round(&self, measure: &str, round: u64, of: u64) {
        self.step(&format!("{measure}: round"), round + 1, of);
    }

    pub fn done(&self) {
        self.progress("measured");
    }

    /// What the figures were measured on.
    pub fn caption(&self) -> String {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        format!(
            "Size {}, {} rounds ({} of synced appends), {cores} cores. \"text\": {}. \"random\": 1,024 printable characters a \
             message, drawn evenly. Peers in Python: {}.",
            self.options.size.name(),
            self.sizes.rounds,
            self.sizes.synced_rounds,
            self.source.caption(),
            self.python.caption(),
        )
    }
}
