//! Two stores of equal size: one long conversation, and many short ones.

use std::path::PathBuf;

use ctxlog::engine::Store;
use ctxlog::log::{Iteration, MessageId, Seq};
use ctxlog::store::Level;
use tempfile::TempDir;

use crate::content::Kind;
use crate::ours;
use crate::setup::Setup;
use crate::stats::Draw;

/// How many messages are made at a time; it is whole rounds of the traffic.
const CHUNK: u64 = 20;
/// How many messages of a conversation are asked for.
const IDS_MAX: usize = 10_000;

/// A conversation of a store, and what can be asked of it.
#[derive(Debug)]
pub struct Known {
    pub name: String,
    pub calls: u64,
    pub ids: Vec<MessageId>,
}

/// A closed store on the disk.
#[derive(Debug)]
pub struct Long {
    pub dir: PathBuf,
    pub chats: Vec<Known>,
}

/// A question about a conversation.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    pub chat: &'a str,
    pub call: Iteration,
    pub message: MessageId,
}

/// The two stores.
#[derive(Debug)]
pub struct Pair {
    pub one: Long,
    pub many: Long,
    _dir: Option<TempDir>,
}

impl Pair {
    pub fn build(setup: &Setup) -> Self {
        let dir = setup.dir();
        let (total, each) = (setup.sizes.long_entries, setup.sizes.short_entries);
        let one = Long::build(setup, dir.path().join("one"), 1, total);
        let many = Long::build(setup, dir.path().join("many"), total / each, each);
        Self {
            one,
            many,
            _dir: Some(dir),
        }
    }

    /// Forks at random places of the conversations, in the same stores: as many in each.
    pub fn forked(&self, forks: u64) -> Self {
        let mut draw = Draw::new(3);
        let mut of = |long: &Long| {
            let store = ours::open(&long.dir, Level::Buffered);
            let chats = (0..forks)
                .map(|n| long.fork(&store, n, &mut draw))
                .collect();
            ours::sync(&store);
            let dir = long.dir.clone();
            Long { dir, chats }
        };
        let (one, many) = (of(&self.one), of(&self.many));
        Self {
            one,
            many,
            _dir: None,
        }
    }
}

impl Long {
    fn fork(&self, store: &Store, n: u64, draw: &mut Draw) -> Known {
        let parent = draw.pick(&self.chats);
        // Some calls before the fork are asked about, so it has some.
        let calls = parent.calls / 10 + draw.below(parent.calls - parent.calls / 10);
        let (name, call) = (format!("fork {n}"), Iteration(calls + 1));
        let fork = ours::fork(store, &parent.name, call, &name);
        let at = fork.head().expect("a head").map_or(Seq(0), |h| h.seq);
        let before = |id: &&MessageId| id.seq() < at;
        let ids = parent.ids.iter().filter(before).copied().collect();
        Known { name, calls, ids }
    }

    fn build(setup: &Setup, dir: PathBuf, chats: u64, entries: u64) -> Self {
        let store = ours::open(&dir, Level::Buffered);
        let build = |n| {
            setup.step("built of the conversations", n, chats);
            Known::build(setup, &store, n, entries)
        };
        let chats = (0..chats).map(build).collect();
        ours::sync(&store);
        drop(store);
        // The first open after a load reads the whole log, which no later one does.
        drop(ours::open(&dir, Level::Synced));
        Self { dir, chats }
    }

    pub fn question(&self, draw: &mut Draw) -> Question<'_> {
        let chat = draw.pick(&self.chats);
        Question {
            chat: &chat.name,
            call: Iteration(1 + draw.below(chat.calls)),
            message: *draw.pick(&chat.ids),
        }
    }
}

impl Known {
    fn build(setup: &Setup, store: &Store, n: u64, entries: u64) -> Self {
        let name = format!("conversation {n}");
        let chat = ours::with_strategy(store, &name);
        let (mut calls, mut ids, mut from) = (0, Vec::new(), 0);
        let newest = || chat.head().expect("a head").map_or(Seq(0), |h| h.seq);
        while newest().0 + 1 < entries {
            let said = setup.source.stretch(Kind::Text, n, from, CHUNK);
            let (more, called) = ours::converse(&chat, said);
            calls += called;
            ids.extend(more);
            from += CHUNK;
            if from.is_multiple_of(1_000) {
                setup.step("entries of the conversation", newest().0, entries);
            }
        }
        // Of a long conversation every so many, from all of it.
        let every = ids.len().div_ceil(IDS_MAX);
        let ids = ids.into_iter().step_by(every).collect();
        Self { name, calls, ids }
    }
}
