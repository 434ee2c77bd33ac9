//! The peers that store bytes: a raw file, bare sled, and a table of messages in SQLite.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use super::content::Said;

/// A message of a conversation, as a peer stores it.
pub struct Value<'a> {
    pub chat: u64,
    pub n: u64,
    pub json: &'a str,
}

/// Messages of a conversation from the given number on.
pub fn values(chat: u64, from: u64, said: &[Said]) -> Vec<Value<'_>> {
    (from..)
        .zip(said)
        .map(|(n, one)| Value {
            chat,
            n,
            json: &one.json,
        })
        .collect()
}

/// How many messages are given to bare sled at a time, where it need not wait for the disk.
pub const BATCH: usize = 64;

/// Somewhere bytes are stored.
pub trait Sink: Send {
    /// Writes some values, together.
    fn apply(&mut self, group: &[Value<'_>]);

    /// Brings everything written to the disk.
    fn sync(&mut self);
}

/// What the disk allows: the bytes one after the other.
pub struct Raw(File);

impl Raw {
    pub fn create(dir: &Path) -> Self {
        Self(File::create(dir.join("raw")).expect("a raw file"))
    }
}

impl Sink for Raw {
    fn apply(&mut self, group: &[Value<'_>]) {
        let bytes: Vec<u8> = group.iter().flat_map(|v| v.json.bytes()).collect();
        self.0.write_all(&bytes).expect("a write to a raw file");
    }

    fn sync(&mut self) {
        self.0.sync_data().expect("a sync of a raw file");
    }
}

/// sled by itself: a value a message, with the cache and mode that ctxlog gives it. Its flush does
/// not reach the disk (it calls `sync_file_range`), so its file is synced as well.
pub struct Bare {
    tree: sled::Db,
    file: File,
}

impl Bare {
    pub fn open(dir: &Path) -> Self {
        let tree = sled::Config::new()
            .path(dir)
            .cache_capacity(64 << 20)
            .flush_every_ms(Some(500))
            .mode(sled::Mode::LowSpace)
            .open()
            .expect("bare sled opens");
        let file = File::options().write(true).open(dir.join("db"));
        let file = file.expect("the file of bare sled");
        Self { tree, file }
    }

    /// Reads every value; says how many bytes they have.
    pub fn scan(&self) -> u64 {
        let lengths = self.tree.iter().map(|pair| pair.expect("a value").1.len());
        u64::try_from(lengths.sum::<usize>()).expect("a length")
    }
}

impl Sink for Bare {
    fn apply(&mut self, group: &[Value<'_>]) {
        let mut batch = sled::Batch::default();
        for value in group {
            let key = [value.chat.to_be_bytes(), value.n.to_be_bytes()].concat();
            batch.insert(key, value.json.as_bytes());
        }
        self.tree.apply_batch(batch).expect("a batch");
    }

    fn sync(&mut self) {
        self.tree.flush().expect("a flush");
        self.file.sync_data().expect("a sync of sled's file");
    }
}

/// A plain table of messages; a group is a transaction, which is on the disk when it is committed.
pub struct Sqlite(rusqlite::Connection);

impl Sqlite {
    pub fn create(dir: &Path) -> Self {
        let base = rusqlite::Connection::open(dir.join("messages.db")).expect("SQLite opens");
        base.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             CREATE TABLE messages (
               id INTEGER PRIMARY KEY, conversation INTEGER NOT NULL, number INTEGER NOT NULL,
               content TEXT NOT NULL, UNIQUE (conversation, number));",
        )
        .expect("a table of messages");
        Self(base)
    }
}

impl Sink for Sqlite {
    fn apply(&mut self, group: &[Value<'_>]) {
        let transaction = self.0.transaction().expect("a transaction");
        {
            let insert = "INSERT INTO messages (conversation, number, content) VALUES (?, ?, ?)";
            let mut insert = transaction.prepare_cached(insert).expect("an insert");
            let number = |n: u64| i64::try_from(n).expect("a small number");
            for value in group {
                let row = (number(value.chat), number(value.n), value.json);
                insert.execute(row).expect("a row");
            }
        }
        transaction.commit().expect("a commit");
    }

    /// A commit is synced already.
    fn sync(&mut self) {}
}

/// Makes a folder for a sink inside another.
pub fn folder(dir: &Path, name: &str) -> std::path::PathBuf {
    let folder = dir.join(name);
    fs::create_dir_all(&folder).expect("a folder for a peer");
    folder
}
