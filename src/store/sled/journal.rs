//! The journal: what was accepted and is not in sled's tree yet, in a file of its own.
//!
//! One write and one sync make a group of appends durable, whatever number of logs it is for; sled
//! would need several values and two syncs for each. The file is allocated ahead and written over, so
//! that a sync has no change of the file system to wait for. What it holds comes into the tree in
//! larger pieces, and is then written over.
//!
//! | page | what it holds |
//! | --- | --- |
//! | 0 | head: `ctxlog journal 1`, a random number, sealed |
//! | 1 and 2 | mark: the group up to which all is in the tree, sealed; the larger one counts |
//! | from 3 on | groups, each from the start of a page on, in a ring |
//!
//! A group is its magic, a checksum, its number, the number up to which groups were synced when it was
//! written, its length, and its body. The checksum covers the random number and the place too, so that
//! neither an older file's groups nor a message that looks like one are taken for it.
//!
//! Nothing is written over before the mark on the disk says that it is in the tree. So after a crash
//! every group between the mark and the last one that was synced has to be there, or there is damage.
//! What follows that was not synced, and the disk may hold any part of it: it counts up to the first
//! group that is missing.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::directory::{io, sync_dir};
use super::frame;
use super::keys;
use super::ring::{FIRST, PAGE, Ring, Room};
use crate::store::StoreError;

const MAGIC: &[u8; 16] = b"ctxlog journal 1";
const GROUP: [u8; 4] = *b"cxlg";
/// Magic, random number, checksum.
const HEAD_BYTES: usize = 36;
/// Magic, checksum, number, number of the last that was synced, length of the body.
const HEADER_BYTES: usize = 28;
/// How much is written at once of a file that is made longer.
const BLANK_BYTES: u64 = 256 << 10;

/// The journal of an open store. Its file is made with the first group, and removed when all that it
/// holds is in the tree and the store is closed.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    open: Option<Open>,
    /// The newest group, and the newest that is on the disk.
    newest: u64,
    synced: u64,
}

#[derive(Debug)]
struct Open {
    file: File,
    nonce: [u8; 16],
    ring: Ring,
    /// The page of the mark that is written next.
    mark_page: u64,
}

/// What a journal that was left behind holds.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// The bodies of its groups, by number: those behind the mark that follow one another.
    pub(super) groups: BTreeMap<u64, Vec<u8>>,
    /// What is wrong with it.
    pub(super) damage: Option<String>,
}

impl Journal {
    /// The journal that will lie at `path`, whose groups go on behind this number.
    pub(super) fn new(path: PathBuf, newest: u64) -> Self {
        Self {
            path,
            open: None,
            newest,
            synced: newest,
        }
    }

    /// The newest group that is on the disk.
    pub(super) fn synced(&self) -> u64 {
        self.synced
    }

    /// Hands a group to the system, whose last request is this. `settled`: the request up to which
    /// all is in the tree; false where the file is full of what is not, and nothing was done.
    pub(super) fn write(
        &mut self,
        body: &mut Body,
        request: u64,
        settled: u64,
    ) -> Result<bool, StoreError> {
        if self.open.is_none() {
            let created = create(&self.path, self.newest);
            self.open = Some(created.map_err(|e| io("creating", &self.path, e))?);
        }
        let Some(open) = &mut self.open else {
            return Ok(false);
        };
        let failed = |e| io("writing", &self.path, e);
        let bytes = u64::try_from(body.0.len()).unwrap_or(u64::MAX);
        let start = loop {
            match open.ring.room(bytes, settled) {
                Room::At(start) => break start,
                Room::Full => return Ok(false),
                Room::Extend(length) => open.extend(length).map_err(failed)?,
                Room::Mark(group) => open.mark(group).map_err(failed)?,
            }
        };
        let number = self.newest.saturating_add(1);
        let group = body.seal(&open.nonce, start, number, self.synced);
        write_at(&mut open.file, start, group).map_err(failed)?;
        open.ring.put(number, request, start, bytes);
        self.newest = number;
        Ok(true)
    }

    /// Brings every group to the disk.
    pub(super) fn sync(&mut self) -> Result<(), StoreError> {
        if let Some(open) = &self.open {
            let synced = open.file.sync_data();
            synced.map_err(|e| io("syncing", &self.path, e))?;
        }
        self.synced = self.newest;
        Ok(())
    }

    /// A journal whose file is this one.
    #[cfg(test)]
    pub(super) fn onto(file: File) -> Self {
        let mut ring = Ring::default();
        ring.extended(1 << 20);
        let open = Open {
            file,
            nonce: [0; 16],
            ring,
            mark_page: 1,
        };
        let open = Some(open);
        Self {
            open,
            ..Self::new(PathBuf::new(), 0)
        }
    }

    /// Removes the file: all that it holds is in the tree, and this on the disk.
    pub(super) fn remove(&mut self) -> Result<(), StoreError> {
        self.open = None;
        match fs::remove_file(&self.path) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(io("removing", &self.path, e)),
            _ => Ok(()),
        }
    }
}

/// A group in the making.
#[derive(Debug, Default)]
pub(super) struct Body(Vec<u8>);

impl Body {
    /// The memory of our own that is kept, in bytes.
    const KEPT_BYTES: usize = 1 << 20;

    /// Empties it, with room for the header in front.
    pub(super) fn clear(&mut self) -> &mut Vec<u8> {
        self.0.clear();
        self.0.shrink_to(Self::KEPT_BYTES);
        self.0.resize(HEADER_BYTES, 0);
        &mut self.0
    }

    /// The whole group, for where it will lie.
    fn seal(&mut self, nonce: &[u8; 16], start: u64, number: u64, synced: u64) -> &[u8] {
        let length = frame::length(self.0.len().saturating_sub(HEADER_BYTES));
        if let Some((header, body)) = self.0.split_first_chunk_mut::<HEADER_BYTES>() {
            let rest = [
                &number.to_be_bytes()[..],
                &synced.to_be_bytes(),
                &length.to_be_bytes(),
            ];
            let rest = rest.concat();
            let crc = checksum(nonce, start, &rest, body).to_be_bytes();
            let parts = GROUP.iter().chain(&crc).chain(&rest);
            header
                .iter_mut()
                .zip(parts)
                .for_each(|(to, from)| *to = *from);
        }
        &self.0
    }
}

fn checksum(nonce: &[u8; 16], start: u64, rest: &[u8], body: &[u8]) -> u32 {
    let placed = crc32c::crc32c_append(crc32c::crc32c(nonce), &start.to_be_bytes());
    crc32c::crc32c_append(crc32c::crc32c_append(placed, rest), body)
}

impl Open {
    /// Makes the file longer, with blocks of its own that it need not ask for later.
    fn extend(&mut self, length: u64) -> std::io::Result<()> {
        blank(&mut self.file, length)?;
        self.file.sync_all()?;
        self.ring.extended(length);
        Ok(())
    }

    /// Says on the disk up to which group all is in the tree.
    fn mark(&mut self, group: u64) -> std::io::Result<()> {
        let page = self.mark_page;
        write_mark(&mut self.file, page, &self.nonce, group)?;
        self.file.sync_data()?;
        self.mark_page = 3_u64.saturating_sub(page);
        self.ring.marked(group);
        Ok(())
    }
}

fn write_mark(file: &mut File, page: u64, nonce: &[u8; 16], group: u64) -> std::io::Result<()> {
    let body = [&nonce[..], &group.to_be_bytes()].concat();
    let mark = frame::seal(&page.to_be_bytes(), body);
    write_at(file, page.saturating_mul(PAGE), &mark)
}

fn write_at(file: &mut File, start: u64, bytes: &[u8]) -> std::io::Result<()> {
    file.seek(SeekFrom::Start(start))?;
    file.write_all(bytes)
}

/// Writes zeroes from the file's end up to a length: unlike a hole, they need no change of the file
/// system when they are written over.
fn blank(file: &mut File, length: u64) -> std::io::Result<()> {
    let mut at = file.seek(SeekFrom::End(0))?;
    let blanks = vec![0; usize::try_from(BLANK_BYTES).unwrap_or_default()];
    while at < length {
        let size = usize::try_from(length.saturating_sub(at).min(BLANK_BYTES)).unwrap_or_default();
        file.write_all(blanks.get(..size).unwrap_or_default())?;
        at = at.saturating_add(BLANK_BYTES);
    }
    Ok(())
}

/// Makes the file, for groups behind this one: under another name until it is whole.
fn create(path: &Path, newest: u64) -> std::io::Result<Open> {
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce).map_err(|e| std::io::Error::other(e.to_string()))?;
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let opened = File::options()
        .create(true)
        .truncate(true)
        .read(true)
        .write(true)
        .open(&new);
    let mut file = opened?;
    file.write_all(&frame::seal(&[], [&MAGIC[..], &nonce].concat()))?;
    let mut ring = Ring::default();
    let length = match ring.room(1, 0) {
        Room::Extend(length) => length,
        _ => FIRST,
    };
    blank(&mut file, length)?;
    write_mark(&mut file, 1, &nonce, newest)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    if let Some(dir) = path.parent() {
        sync_dir(dir).map_err(std::io::Error::other)?;
    }
    ring.extended(length);
    Ok(Open {
        file,
        nonce,
        ring,
        mark_page: 2,
    })
}

/// Reads a journal that a crash left behind; `None` where there is none. `synced`: the group that was
/// synced last, as far as is known.
pub(super) fn read(path: &Path, synced: u64) -> Result<Option<Left>, StoreError> {
    let file = match File::open(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|e| io("opening", path, e))?,
    };
    let left = Reader::new(file).and_then(|reader| reader.read(synced));
    left.map(Some).map_err(|e| io("reading", path, e))
}

/// One group as it lies there.
struct Found {
    number: u64,
    synced: u64,
    body: Vec<u8>,
}

struct Reader {
    file: File,
    length: u64,
}

impl Reader {
    fn new(file: File) -> std::io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self { file, length })
    }

    fn read(mut self, synced: u64) -> std::io::Result<Left> {
        let head = self.at(0, HEAD_BYTES)?;
        let nonce =
            frame::unseal(&[], &head).and_then(|head| keys::array(head.strip_prefix(MAGIC)?));
        let Some(nonce) = nonce else {
            let damage = Some("its head is damaged".to_owned());
            return Ok(Left {
                damage,
                ..Left::default()
            });
        };
        let mark = self.mark(&nonce)?;
        let (mut found, mut start) = (BTreeMap::new(), FIRST);
        while start < self.length {
            if let Some(group) = self.group(&nonce, start)? {
                found.insert(group.number, group);
            }
            start = start.saturating_add(PAGE);
        }
        Ok(follow(found, mark, synced))
    }

    fn at(&mut self, start: u64, length: usize) -> std::io::Result<Vec<u8>> {
        self.file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        Read::by_ref(&mut self.file)
            .take(length)
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The group up to which all is in the tree.
    fn mark(&mut self, nonce: &[u8; 16]) -> std::io::Result<u64> {
        let mut mark = 0;
        for page in [1_u64, 2] {
            let bytes = self.at(page.saturating_mul(PAGE), 16 + 8 + 4)?;
            let number = frame::unseal(&page.to_be_bytes(), &bytes)
                .and_then(|body| keys::array(body.strip_prefix(nonce)?));
            mark = mark.max(number.map_or(0, u64::from_be_bytes));
        }
        Ok(mark)
    }

    /// The group that begins on a page; `None` where none does, or not all of it is there.
    fn group(&mut self, nonce: &[u8; 16], start: u64) -> std::io::Result<Option<Found>> {
        let header = self.at(start, HEADER_BYTES)?;
        let Some((crc, rest)) = header
            .strip_prefix(&GROUP)
            .and_then(|h| h.split_first_chunk::<4>())
        else {
            return Ok(None);
        };
        let number = |from, to| Some(u64::from_be_bytes(keys::array(rest.get(from..to)?)?));
        let length = rest
            .get(16..20)
            .and_then(keys::array)
            .map(u32::from_be_bytes);
        let (Some(group), Some(synced), Some(length)) = (number(0, 8), number(8, 16), length)
        else {
            return Ok(None);
        };
        if u64::from(length) > self.length.saturating_sub(start) {
            return Ok(None);
        }
        let mut body = self.at(
            start,
            usize::try_from(length)
                .unwrap_or(0)
                .saturating_add(HEADER_BYTES),
        )?;
        let body = body.split_off(HEADER_BYTES.min(body.len()));
        let whole = checksum(nonce, start, rest, &body) == u32::from_be_bytes(*crc);
        Ok(whole.then_some(Found {
            number: group,
            synced,
            body,
        }))
    }
}

/// The groups behind the mark that follow one another; all that were synced have to be among them.
fn follow(found: BTreeMap<u64, Found>, mark: u64, synced: u64) -> Left {
    let known = found.values().filter(|group| group.number > mark);
    let synced = known.map(|group| group.synced).fold(synced, u64::max);
    let mut left = Left::default();
    let mut next = mark.saturating_add(1);
    for (number, group) in found.into_iter().filter(|(number, _)| *number > mark) {
        if number != next && left.damage.is_none() && next <= synced {
            left.damage = Some(format!("its group {next} is damaged or missing"));
        }
        // Behind a hole: worth something only where it is one of damage, to who saves what is left.
        if number == next || left.damage.is_some() {
            left.groups.insert(number, group.body);
            next = number.saturating_add(1);
        } else {
            break;
        }
    }
    if left.damage.is_none() && next <= synced {
        left.damage = Some(format!("its group {next} is damaged or missing"));
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A group's body of its own.
    fn body(number: u64, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        let mut hasher = blake3::Hasher::new();
        hasher.update(&number.to_be_bytes());
        hasher.finalize_xof().fill(&mut bytes);
        bytes
    }

    struct Written {
        _room: tempfile::TempDir,
        path: PathBuf,
        newest: u64,
        synced: u64,
        sizes: Vec<usize>,
    }

    /// Groups of these sizes, each with whether it is synced and how many of those before it are not
    /// in the tree.
    fn written(groups: &[(usize, bool, u64)]) -> Written {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("journal");
        let mut journal = Journal::new(path.clone(), 0);
        let mut made = Body::default();
        for (number, (size, sync, behind)) in (1..).zip(groups) {
            made.clear().extend(body(number, *size));
            let mut settled = number.saturating_sub(1 + behind);
            while !journal.write(&mut made, number, settled).unwrap() {
                settled += 1;
                assert!(settled < number, "the rest is always enough");
            }
            if *sync {
                journal.sync().unwrap();
            }
        }
        let (newest, synced) = (journal.newest, journal.synced);
        let sizes = groups.iter().map(|(size, ..)| *size).collect();
        Written {
            _room: room,
            path,
            newest,
            synced,
            sizes,
        }
    }

    fn groups() -> impl Strategy<Value = Vec<(usize, bool, u64)>> {
        let size = prop_oneof![4 => 1_usize..6_000, 1 => 1_usize..300_000];
        prop::collection::vec((size, any::<bool>(), 0_u64..20), 1..40)
    }

    fn is_right(left: &Left, sizes: &[usize]) -> bool {
        left.groups.iter().all(|(number, found)| {
            let size = usize::try_from(number - 1)
                .ok()
                .and_then(|index| sizes.get(index));
            size.is_some_and(|size| *found == body(*number, *size))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn what_was_left_is_read_back_up_to_the_newest_group(groups in groups()) {
            let written = written(&groups);
            let left = read(&written.path, written.synced).unwrap().unwrap();
            prop_assert_eq!(&left.damage, &None);
            prop_assert!(is_right(&left, &written.sizes));
            prop_assert_eq!(left.groups.keys().next_back(), Some(&written.newest));
            let numbers: Vec<u64> = left.groups.into_keys().collect();
            prop_assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1));
        }

        /// As damage does it, and as a power cut does, which keeps any of the pages that were not synced.
        #[test]
        fn no_group_that_was_synced_goes_without_a_word_and_none_is_wrong(
            groups in groups(), at in any::<prop::sample::Index>(), blank in any::<bool>(), bit in 0_u8..8
        ) {
            let written = written(&groups);
            let before = read(&written.path, written.synced).unwrap().unwrap();
            let mut bytes = fs::read(&written.path).unwrap();
            let at = at.index(bytes.len());
            if blank {
                let page = at / 4096 * 4096;
                let end = bytes.len().min(page + 4096);
                bytes[page..end].fill(0);
            } else {
                bytes[at] ^= 1 << bit;
            }
            fs::write(&written.path, &bytes).unwrap();
            let left = read(&written.path, written.synced).unwrap().unwrap();
            prop_assert!(is_right(&left, &written.sizes));
            // With an older mark more is read, which the tree has already.
            let needed = before.groups.keys().filter(|number| **number <= written.synced);
            let is_whole = needed.clone().all(|number| left.groups.contains_key(number));
            prop_assert!(is_whole || left.damage.is_some(), "{:?} of {:?}", left.groups.keys(), needed);
        }
    }

    #[test]
    fn an_older_file_and_a_message_that_looks_like_a_group_are_not_taken_for_one() {
        let older = written(&[(100, true, 9), (100, true, 9), (100, true, 9)]);
        let newer = written(&[(100, true, 9)]);
        let (old, mut new) = (
            fs::read(&older.path).unwrap(),
            fs::read(&newer.path).unwrap(),
        );
        let second = usize::try_from(FIRST + PAGE).unwrap();
        new[second..].copy_from_slice(&old[second..]);
        fs::write(&newer.path, new).unwrap();
        let left = read(&newer.path, 1).unwrap().unwrap();
        assert_eq!((left.groups.len(), left.damage), (1, None));
    }
}
