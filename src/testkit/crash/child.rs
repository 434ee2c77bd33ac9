//! What the child does until it is killed, and how it says so.

use std::fmt;
use std::io::{self, Read as _, Write};
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::engine::{Conversation, Error, Store};
use crate::log::{Hash, Message, Part, Seq};
use crate::store::{Level, SledStore, StoreError};
use crate::strategy::SlidingWindow;
use crate::testkit::{Draw, Trouble};

/// How many threads append, each to a log of its own.
const WRITERS: u64 = 4;
/// What the logs' windows keep, so that calls also file visits.
const KEEP: u64 = 6;
/// Of a hundred messages one is stored as a blob, and ten in several values.
const SIZES: [(u64, u64); 3] = [(1, 70_000), (11, 9_000), (100, 1_200)];

/// What a child does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Appends at all three levels.
    Append,
    /// Appends synced.
    Sync,
    /// Appends buffered and says synced: the canary, which a power cut must convict.
    Lie,
    /// Opens the directory and waits.
    Open,
}

impl Work {
    const NAMES: [(Self, &str); 4] = [
        (Self::Append, "append"),
        (Self::Sync, "sync"),
        (Self::Lie, "lie"),
        (Self::Open, "open"),
    ];

    /// The levels that one is drawn from, each with what is said of it.
    const fn levels(self) -> &'static [(Level, Level)] {
        use Level::{Buffered, Flushed, Synced};
        match self {
            // Syncs take longest, so fewer of them make more acknowledgements.
            Self::Append => &[
                (Buffered, Buffered),
                (Flushed, Flushed),
                (Flushed, Flushed),
                (Flushed, Flushed),
                (Synced, Synced),
            ],
            Self::Sync => &[(Synced, Synced)],
            Self::Lie => &[(Buffered, Synced)],
            Self::Open => &[],
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(work, _)| work == self);
        f.write_str(name.map_or("", |(_, name)| name))
    }
}

impl FromStr for Work {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::NAMES.iter().find(|(_, name)| *name == text);
        found
            .map(|(work, _)| *work)
            .ok_or_else(|| format!("'{text}' is no work of a child"))
    }
}

/// An acknowledgement that a child gave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Acked {
    /// The log's name.
    pub log: String,
    /// The first entry that it covers.
    pub first: Seq,
    /// The last one.
    pub last: Seq,
    /// The last one's hash, which stands for all before it.
    pub hash: Hash,
    /// What it promises.
    pub level: Level,
}

impl Acked {
    /// How many entries it covers.
    #[must_use]
    pub const fn entries(&self) -> u64 {
        self.last.0.saturating_add(1).saturating_sub(self.first.0)
    }
}

/// A line that a child says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    /// It is about to open the directory.
    Begun,
    /// It has opened it.
    Opened,
    /// The directory is open in another process.
    Busy,
    /// The store acknowledged something, and the child was told.
    Acked(Acked),
    /// It ends, for this reason.
    Failed(String),
}

const LEVELS: [(Level, &str); 3] = [
    (Level::Buffered, "buffered"),
    (Level::Flushed, "flushed"),
    (Level::Synced, "synced"),
];

fn level_name(level: Level) -> &'static str {
    LEVELS
        .iter()
        .find(|(l, _)| *l == level)
        .map_or("", |(_, name)| name)
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begun => f.write_str("begun"),
            Self::Opened => f.write_str("opened"),
            Self::Busy => f.write_str("busy"),
            Self::Failed(why) => write!(f, "failed {}", why.replace('\n', " ")),
            Self::Acked(Acked {
                log,
                first,
                last,
                hash,
                level,
            }) => {
                write!(
                    f,
                    "acked {log} {} {} {hash} {}",
                    first.0,
                    last.0,
                    level_name(*level)
                )
            }
        }
    }
}

impl Line {
    /// Reads a whole line; `None` where it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(why) = text.strip_prefix("failed ") {
            return Some(Self::Failed(why.to_owned()));
        }
        match *text.split(' ').collect::<Vec<_>>().as_slice() {
            ["begun"] => Some(Self::Begun),
            ["opened"] => Some(Self::Opened),
            ["busy"] => Some(Self::Busy),
            ["acked", log, first, last, hash, level] => Some(Self::Acked(Acked {
                log: log.to_owned(),
                first: Seq(first.parse().ok()?),
                last: Seq(last.parse().ok()?),
                hash: hash.parse().ok()?,
                level: LEVELS.iter().find(|(_, name)| *name == level)?.0,
            })),
            _ => None,
        }
    }
}

/// Lines go out whole, in one piece each, and at once.
struct Mouth<'a>(Mutex<&'a mut (dyn Write + Send)>);

impl Mouth<'_> {
    fn say(&self, line: &Line) -> Result<(), Trouble> {
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let said = out
            .write_all(format!("{line}\n").as_bytes())
            .and_then(|()| out.flush());
        said.map_err(|source| Trouble::Io {
            what: "telling the parent".to_owned(),
            source,
        })
    }
}

/// Does a child's work on the store at `dir` and says each acknowledgement on `out` after it was
/// given. Ends when it is killed, or when nobody listens any more.
///
/// # Errors
/// When the store fails; it is also said. When `out` is closed.
pub fn child(
    work: Work,
    dir: &Path,
    seed: u64,
    out: &mut (dyn Write + Send),
) -> Result<(), Trouble> {
    let mouth = Mouth(Mutex::new(out));
    let done = work_on(work, dir, seed, &mouth);
    if let Err(error) = &done {
        let _ = mouth.say(&Line::Failed(error.to_string())); // the error is told all the same
    }
    done
}

fn work_on(work: Work, dir: &Path, seed: u64, mouth: &Mouth<'_>) -> Result<(), Trouble> {
    mouth.say(&Line::Begun)?;
    let backend = match SledStore::open(dir) {
        Err(StoreError::Busy { .. }) => return mouth.say(&Line::Busy),
        opened => opened?,
    };
    mouth.say(&Line::Opened)?;
    if work.levels().is_empty() {
        // The parent holds the other end as long as it lives.
        let _ = io::stdin().read(&mut [0]);
        return Ok(());
    }
    let store = Store::on(Arc::new(backend));
    let mut seeds = Draw::new(seed);
    let ended = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                let (store, draw) = (&store, Draw::new(seeds.number()));
                scope.spawn(move || append_for_ever(store, number, work, draw, mouth))
            })
            .collect();
        let ended: Vec<_> = writers
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect();
        ended
    });
    let died = |_| Trouble::harness("a writing thread died");
    ended.into_iter().try_for_each(|one| one.map_err(died)?)
}

/// Appends to one log until something fails.
fn append_for_ever(
    store: &Store,
    number: u64,
    work: Work,
    mut draw: Draw,
    mouth: &Mouth<'_>,
) -> Result<(), Trouble> {
    let log = format!("log-{number}");
    let mut handles = Vec::new();
    let (first, _) = *work
        .levels()
        .last()
        .unwrap_or(&(Level::Synced, Level::Synced));
    let known = store.clone().with_level(first).conversation(&log)?;
    let head = known.head()?;
    let mut next = match head {
        Some(head) if head.seq > Seq(0) => head.seq.next(),
        _ => Seq(0), // it was made just now
    };
    known.with_strategy(SlidingWindow::new(KEEP))?;
    for (level, said) in work.levels() {
        handles.push((store.clone().with_level(*level).conversation(&log)?, *said));
    }
    for turn in 0_u64.. {
        let Some((chat, level)) = draw.one_of(&handles).cloned() else {
            return Ok(());
        };
        request(&chat, turn, &mut draw)?;
        // Only this thread files in this log.
        let Some(head) = chat.head()? else { continue };
        let (last, hash) = (head.seq, head.hash);
        mouth.say(&Line::Acked(Acked {
            log: log.clone(),
            first: next,
            last,
            hash,
            level,
        }))?;
        next = last.next();
    }
    Ok(())
}

/// One request of an agent's loop: a question, a call, the model's use of a tool, its result.
fn request(chat: &Conversation, turn: u64, draw: &mut Draw) -> Result<(), Error> {
    let of = draw.below(100);
    let most = SIZES.iter().find(|(below, _)| of < *below);
    let most = most.map_or(0, |(_, bytes)| *bytes);
    // A blob is one for certain.
    let bytes = if of == 0 { most } else { draw.below(most) };
    let bytes = usize::try_from(bytes).unwrap_or(0);
    let words = draw.words(bytes);
    match turn % 4 {
        0 => chat.append(Message::person(words)).map(drop),
        1 => chat.call().map(drop),
        2 => {
            let part = Part::call("call_0", "find", r#"{"order":4411}"#);
            chat.append(Message::calls(vec![Part::text(words), part]))
                .map(drop)
        }
        // The turn before it may have been cut off by a kill.
        _ => match chat.append(Message::tool("call_0", &words)) {
            Err(Error::Refused(_)) => chat.append(Message::model(words)).map(drop),
            appended => appended.map(drop),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_said_and_half_ones_are_none() {
        let acked = Acked {
            log: "log-1".to_owned(),
            first: Seq(3),
            last: Seq(9),
            hash: Hash([7; 32]),
            level: Level::Flushed,
        };
        assert_eq!(acked.entries(), 7);
        let lines = [
            Line::Begun,
            Line::Opened,
            Line::Busy,
            Line::Failed("no space".to_owned()),
            Line::Acked(acked),
        ];
        for line in lines {
            let said = line.to_string();
            assert_eq!(Line::parse(&said), Some(line), "{said}");
        }
        let half = "acked log-1 3 9 0707";
        assert_eq!(Line::parse(half), None);
        for (work, name) in Work::NAMES {
            assert_eq!((work.to_string().as_str(), name.parse()), (name, Ok(work)));
        }
        assert!("sleep".parse::<Work>().is_err());
    }
}
