//! A large store of many conversations, and bare sled with the same content.

use std::path::PathBuf;

use ctxlog::store::Level;
use tempfile::TempDir;

use crate::content::{Kind, Said};
use crate::ours;
use crate::setup::Setup;
use crate::sinks::{Bare, Sink, folder, values};

/// How many messages a conversation gets at its turn; it is whole rounds of the traffic.
const TURN: u64 = 20;

/// Two closed stores on the disk.
#[derive(Debug)]
pub struct Big {
    pub ours: PathBuf,
    pub bare: PathBuf,
    /// Of content, in each.
    pub bytes: u64,
    _dir: TempDir,
}

impl Big {
    pub fn build(setup: &Setup) -> Self {
        let dir = setup.dir();
        let (ours, bare) = (dir.path().join("ours"), folder(dir.path(), "bare"));
        let bytes = fill(setup, &ours, &bare);
        // The first open after a load reads the whole log, which no later one does.
        drop(ours::open(&ours, Level::Synced));
        drop(Bare::open(&bare));
        Self {
            ours,
            bare,
            bytes,
            _dir: dir,
        }
    }
}

/// Lets the conversations take turns until there is enough, and each had one.
fn fill(setup: &Setup, ours: &std::path::Path, bare: &std::path::Path) -> u64 {
    let store = ours::open(ours, Level::Buffered);
    let mut bare = Bare::open(bare);
    let conversation = |n| ours::with_strategy(&store, &format!("conversation {n}"));
    let chats: Vec<_> = (0..setup.sizes.conversations).map(conversation).collect();
    let (mut bytes, mut turn) = (0, 0);
    while bytes < setup.sizes.big_bytes {
        for (n, chat) in (0..).zip(&chats) {
            let said = setup.source.stretch(Kind::Text, n, turn * TURN, TURN);
            bytes += said.iter().map(Said::bytes).sum::<u64>();
            bare.apply(&values(n, turn * TURN, &said));
            ours::converse(chat, said);
        }
        // Unflushed, sled would take up more than twice the space; ctxlog syncs by itself.
        bare.sync();
        turn += 1;
        setup.step("bytes of the large store", bytes, setup.sizes.big_bytes);
    }
    ours::sync(&store);
    bytes
}
