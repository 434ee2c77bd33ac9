//! What being safe costs: synced appends through the engine against sled itself with the same
//! syncs, in the same run and directory.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Draw, Figure, Trouble};
use crate::engine::{Conversation, Store};
use crate::log::Message;
use crate::store::SledStore;

/// The words of one message, in bytes.
const BYTES: usize = 1_000;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// A directory of the measurement's own.
    pub dir: &'a Path,
    /// From which words are drawn.
    pub seed: u64,
    /// Rounds, which alternate between the two.
    pub rounds: u64,
    /// Appends of each in a round.
    pub appends: u64,
}

/// What was measured: the median over all rounds of the time that one append takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cost {
    /// Through the engine: encoding, hashing, folding, head and tally, synced.
    pub engine: Duration,
    /// Into sled alone: one value, its flush, and a sync of its file.
    pub bare: Duration,
    /// How many times as long the engine takes, in hundredths.
    pub hundredths: u64,
}

impl Cost {
    /// Figure 10. There is no goal for a time: it depends on the disk.
    #[must_use]
    pub fn figure(&self) -> Figure {
        let [whole, rest] = [self.hundredths / 100, self.hundredths % 100];
        let value = format!(
            "{whole}.{rest:02} times ({} us against {} us)",
            self.engine.as_micros(),
            self.bare.as_micros()
        );
        let name = "a synced append of 1 kB, against bare sled with the same syncs";
        Figure::new("10", name, "published", value, true)
    }
}

/// Measures what a synced append costs. `progress` hears how many rounds are done, and of how many.
///
/// # Errors
/// When the disk fails.
pub fn cost(plan: &Plan<'_>, progress: &mut dyn FnMut(u64, u64)) -> Result<Cost, Trouble> {
    let mut draw = Draw::new(plan.seed);
    let (ours, theirs) = (plan.dir.join("engine"), plan.dir.join("bare"));
    let store = Store::on(Arc::new(SledStore::open(&ours)?));
    let chat = store.conversation("cost")?;
    let bare = Bare::open(&theirs)?;
    let (mut engine, mut alone) = (Vec::new(), Vec::new());
    for round in 0..plan.rounds {
        engine.push(time_engine(&chat, plan.appends, &mut draw)?);
        alone.push(bare.time(round, plan.appends, &mut draw)?);
        progress(round, plan.rounds);
    }
    drop((chat, store, bare));
    for dir in [&ours, &theirs] {
        fs::remove_dir_all(dir).map_err(Trouble::at("removing", dir))?;
    }
    let (engine, bare) = (median(engine), median(alone));
    let hundredths = engine
        .as_nanos()
        .saturating_mul(100)
        .checked_div(bare.as_nanos());
    let hundredths = hundredths.and_then(|h| u64::try_from(h).ok());
    let hundredths = hundredths.ok_or_else(|| Trouble::harness("bare sled took no time"))?;
    Ok(Cost {
        engine,
        bare,
        hundredths,
    })
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn each(took: Duration, appends: u64) -> Duration {
    took.checked_div(u32::try_from(appends).unwrap_or(u32::MAX))
        .unwrap_or_default()
}

fn time_engine(chat: &Conversation, appends: u64, draw: &mut Draw) -> Result<Duration, Trouble> {
    let words: Vec<_> = (0..appends)
        .map(|_| Message::model(draw.words(BYTES)))
        .collect();
    let began = Instant::now();
    for message in words {
        chat.append(message)?;
    }
    Ok(each(began.elapsed(), appends))
}

/// sled by itself, brought to the disk the way the store does it.
struct Bare {
    tree: ::sled::Db,
    file: File,
}

impl Bare {
    fn open(dir: &Path) -> Result<Self, Trouble> {
        let tree = ::sled::Config::new()
            .path(dir)
            .mode(::sled::Mode::LowSpace)
            .open();
        let tree = tree.map_err(told)?;
        let db = dir.join("db");
        let file = File::options()
            .write(true)
            .open(&db)
            .map_err(Trouble::at("opening", &db))?;
        Ok(Self { tree, file })
    }

    fn time(&self, round: u64, appends: u64, draw: &mut Draw) -> Result<Duration, Trouble> {
        let words: Vec<_> = (0..appends).map(|_| draw.words(BYTES)).collect();
        let began = Instant::now();
        for (number, words) in (0_u64..).zip(words) {
            let key = [round.to_be_bytes(), number.to_be_bytes()].concat();
            self.tree.insert(key, words.as_bytes()).map_err(told)?;
            self.tree.flush().map_err(told)?;
            self.file
                .sync_data()
                .map_err(Trouble::at("syncing", Path::new("sled")))?;
        }
        Ok(each(began.elapsed(), appends))
    }
}

fn told(error: ::sled::Error) -> Trouble {
    Trouble::harness(format!("bare sled: {error}"))
}
