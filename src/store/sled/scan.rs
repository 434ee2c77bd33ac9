//! Contents in key order, each put together from its values: what is read through as a whole.

use super::engine::{Engine, Flaw, Scan};
use super::frame::{self, First};
use super::{keys, reserved};
use crate::store::StoreError;

/// After so many values the page cache is told of the last one, by asking for it so many times more:
/// sled looks at its cache's limit only when enough accesses have come together, and a scan, which
/// touches every page once, would run far beyond it.
const TELL_EVERY: u32 = 8;
const TELL_TIMES: u32 = 8;

/// The most that is reserved for a content because its first value says so.
const RESERVED_BYTES: usize = 256 << 10;

/// The contents under a range of keys. Keys that are no content's are passed over.
pub(super) struct Contents<'a> {
    engine: &'a Engine,
    scan: Scan,
    open: Option<Assembly>,
    /// Values since the cache was told.
    untold: u32,
}

impl<'a> Contents<'a> {
    /// Those from the key `from` up to but without `to`.
    pub(super) fn scan(engine: &'a Engine, from: &[u8], to: &[u8]) -> Result<Self, StoreError> {
        Ok(Self {
            engine,
            scan: engine.scan(from, to)?,
            open: None,
            untold: 0,
        })
    }

    fn tell_cache(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.untold = self.untold.saturating_add(1);
        if self.untold >= TELL_EVERY {
            self.untold = 0;
            for _ in 0..TELL_TIMES {
                self.engine.value(key)?;
            }
        }
        Ok(())
    }
}

impl Iterator for Contents<'_> {
    type Item = Result<Assembly, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(found) = self.scan.next() {
            let (key, value) = match found {
                Ok(found) => found,
                Err(error) => return Some(Err(error)),
            };
            if let Err(error) = self.tell_cache(&key) {
                return Some(Err(error));
            }
            let Some((base, number)) = keys::content(&key) else {
                continue; // a stray
            };
            if reserved::is(&key, &value) {
                continue; // its block is being written; else its entries are missing
            }
            let mut done = None;
            if self.open.as_ref().is_none_or(|open| open.base != base) {
                done = self.open.replace(Assembly::new(base));
            }
            if let Some(open) = &mut self.open {
                open.add(&key, number, &value);
            }
            if let Some(done) = done {
                return Some(Ok(done));
            }
        }
        self.open.take().map(Ok)
    }
}

/// A content in the making, from values as they come in key order.
pub(super) struct Assembly {
    pub(super) base: Vec<u8>,
    bytes: Vec<u8>,
    /// Length, checksum and number of chunks, where the first value tells them.
    chunked: Option<(usize, u32, u32)>,
    next: u32,
    flaw: Option<Flaw>,
}

impl Assembly {
    fn new(base: &[u8]) -> Self {
        Self {
            base: base.to_vec(),
            bytes: Vec::new(),
            chunked: None,
            next: 0,
            flaw: None,
        }
    }

    fn add(&mut self, key: &[u8], number: u32, value: &[u8]) {
        if number != self.next {
            self.flaw.get_or_insert("a chunk is missing");
        }
        self.next = number.saturating_add(1);
        let body = if number == 0 {
            self.first(key, value)
        } else {
            frame::unseal(key, value)
        };
        match body {
            Some(body) => self.bytes.extend(body),
            None => _ = self.flaw.get_or_insert("a checksum does not match"),
        }
    }

    fn first<'a>(&mut self, key: &[u8], value: &'a [u8]) -> Option<&'a [u8]> {
        match frame::read_first(key, value)? {
            First::Whole(content) => Some(content),
            First::Chunked {
                start,
                length,
                crc,
                chunks,
            } => {
                self.chunked = Some((length, crc, chunks));
                self.bytes.reserve_exact(length.min(RESERVED_BYTES));
                Some(start)
            }
        }
    }

    /// The content, or what is wrong with it.
    pub(super) fn result(&self) -> Result<&[u8], Flaw> {
        if let Some(flaw) = self.flaw {
            return Err(flaw);
        }
        let chunks = self.chunked.map_or(0, |(_, _, chunks)| chunks);
        if self.next != chunks.saturating_add(1) {
            return Err("it has a wrong number of chunks");
        }
        // What is one value was checked with it.
        let whole = self.chunked.is_none_or(|(length, crc, _)| {
            self.bytes.len() == length && crc32c::crc32c(&self.bytes) == crc
        });
        if whole {
            Ok(&self.bytes)
        } else {
            Err("its chunks do not fit together")
        }
    }
}
