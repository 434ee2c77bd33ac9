//! Blobs: large contents, each in a file of its own beside sled.
//!
//! In sled a large content takes nearly twice its size, and is read back in pieces of a page. A file
//! takes its size, or less where it can be compressed. Its name is its lineage and its address, which
//! its checksum covers, so that a file under another name is damaged. It is on the disk before any
//! entry that may mention it is written, so that what a power cut leaves of it is nobody's.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::at;
use super::block::Codec;
use super::directory::{io, sync_dir};
use super::engine::{ContentError, damaged};
use super::keys;
use crate::log::{ConversationId, Hash};
use crate::store::{BLOB_BYTES_MAX, StoreError};

/// Codec and raw length in front, checksum behind.
const HEAD_BYTES: usize = 5;
const FRAME_BYTES: u64 = 9;
/// What the name of a file that is not synced yet ends with.
const NEW: &str = ".new";
/// How many files may be open and wait for their sync.
const UNSYNCED_MAX: usize = 64;

/// The blobs of a store.
#[derive(Debug)]
pub(super) struct Media {
    dir: PathBuf,
    unsynced: Mutex<Unsynced>,
    /// Held by whoever syncs, so that who finds nothing to sync knows that all is synced.
    syncing: Mutex<()>,
}

/// What was written or removed since the last sync.
#[derive(Debug, Default)]
struct Unsynced {
    /// Where each will lie, and a handle of it.
    files: Vec<(PathBuf, Arc<File>)>,
    dirs: BTreeSet<PathBuf>,
    /// Lineages whose directory's own name was or will be synced.
    known: BTreeSet<ConversationId>,
}

impl Media {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            unsynced: Mutex::default(),
            syncing: Mutex::default(),
        }
    }

    fn unsynced(&self) -> MutexGuard<'_, Unsynced> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, lineage: ConversationId) -> PathBuf {
        self.dir.join(lineage.to_string())
    }

    fn path(&self, lineage: ConversationId, address: Hash) -> PathBuf {
        self.of(lineage).join(address.to_string())
    }

    /// Writes a blob that is not there, or not whole. What leads to one that is there is synced all
    /// the same: who wrote it may have been killed before that.
    pub(super) fn put(
        &self,
        lineage: ConversationId,
        address: Hash,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        let (dir, path) = (self.of(lineage), self.path(lineage, address));
        let file = match self.get(lineage, address) {
            Ok(Some(_)) => None,
            Ok(None) | Err(ContentError::Flawed(_)) => {
                fs::create_dir_all(&dir).map_err(|e| io("creating", &dir, e))?;
                let framed = frame(&keys::blob(lineage, address), bytes);
                let new = new(&path);
                let written =
                    File::create(&new).and_then(|mut file| file.write_all(&framed).map(|()| file));
                Some(written.map_err(|e| io("writing", &new, e))?)
            }
            Err(ContentError::Store(error)) => return Err(error),
        };
        let mut unsynced = self.unsynced();
        if unsynced.known.insert(lineage) {
            let above = [self.dir.parent(), Some(&self.dir)].into_iter().flatten();
            unsynced.dirs.extend(above.map(Path::to_owned));
        }
        unsynced.dirs.insert(dir);
        unsynced
            .files
            .extend(file.map(|file| (path, Arc::new(file))));
        let many = unsynced.files.len() >= UNSYNCED_MAX;
        drop(unsynced);
        if many { self.sync() } else { Ok(()) }
    }

    /// A blob, whole.
    pub(super) fn get(
        &self,
        lineage: ConversationId,
        address: Hash,
    ) -> Result<Option<Vec<u8>>, ContentError> {
        let (key, path) = (keys::blob(lineage, address), self.path(lineage, address));
        let waits = {
            let unsynced = self.unsynced();
            unsynced.files.iter().any(|(file, _)| *file == path)
        };
        // One that waits has its name as soon as it is synced.
        let new = waits.then(|| new(&path));
        for path in new.iter().chain([&path]) {
            if let Some(framed) = read(path)? {
                let flaw = ContentError::Flawed("its checksum does not match");
                return unframe(&key, &framed).map(Some).ok_or(flaw);
            }
        }
        Ok(None)
    }

    /// The addresses of a lineage's blobs, ascending; also of what a crash left of one.
    pub(super) fn addresses(&self, lineage: ConversationId) -> Result<Vec<Hash>, StoreError> {
        let names = names(&self.of(lineage))?;
        let addresses = names
            .iter()
            .filter_map(|name| name.strip_suffix(NEW).unwrap_or(name).parse().ok());
        let mut addresses: Vec<Hash> = addresses.collect();
        addresses.dedup();
        Ok(addresses)
    }

    /// What is wrong with the blobs of one lineage, or of all.
    pub(super) fn check(
        &self,
        only: Option<ConversationId>,
    ) -> Result<Vec<StoreError>, StoreError> {
        let mut found = Vec::new();
        let lineages = match only {
            Some(lineage) => vec![lineage.to_string()],
            None => names(&self.dir)?,
        };
        for name in lineages {
            let Ok(lineage) = name.parse() else {
                found.push(stray(&self.dir.join(name)));
                continue;
            };
            for name in names(&self.of(lineage))? {
                if name.ends_with(NEW) {
                    continue; // it waits, or a crash left it
                }
                let Ok(address) = name.parse() else {
                    found.push(stray(&self.of(lineage).join(name)));
                    continue;
                };
                if let Err(error) = self.get(lineage, address) {
                    found.push(at(lineage, None, &format!("the blob {address}"), error));
                }
            }
        }
        Ok(found)
    }

    /// What lies among a lineage's blobs and is none. No blob is read.
    pub(super) fn strays(&self, lineage: ConversationId) -> Result<Vec<StoreError>, StoreError> {
        let names = names(&self.of(lineage))?.into_iter();
        let is_blob = |name: &str| name.ends_with(NEW) || name.parse::<Hash>().is_ok();
        let strays = names.filter(|name| !is_blob(name));
        Ok(strays
            .map(|name| stray(&self.of(lineage).join(name)))
            .collect())
    }

    /// Destroys a blob.
    pub(super) fn remove(&self, lineage: ConversationId, address: Hash) -> Result<(), StoreError> {
        let path = self.path(lineage, address);
        self.unsynced().files.retain(|(file, _)| *file != path);
        for path in [new(&path), path] {
            match fs::remove_file(&path) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(io("removing", &path, e)),
                _ => {}
            }
        }
        self.unsynced().dirs.insert(self.of(lineage));
        Ok(())
    }

    /// Brings what was written and removed to the disk.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        let _one = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let (files, dirs) = {
            let mut unsynced = self.unsynced();
            (unsynced.files.clone(), std::mem::take(&mut unsynced.dirs))
        };
        for (path, file) in &files {
            file.sync_data().map_err(|e| io("syncing", path, e))?;
            match fs::rename(new(path), path) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(io("naming", path, e)),
                _ => {} // or it was removed meanwhile
            }
        }
        // Only now: until a file has its name, readers look for the one it had.
        let done = |file: &Arc<File>| files.iter().any(|(_, synced)| Arc::ptr_eq(synced, file));
        self.unsynced().files.retain(|(_, file)| !done(file));
        dirs.iter().try_for_each(|dir| sync_dir(dir))
    }
}

/// Where a blob lies until it is synced.
fn new(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(NEW);
    PathBuf::from(name)
}

/// A file of a size that a blob's can have.
fn read(path: &Path) -> Result<Option<Vec<u8>>, ContentError> {
    let missing = |e: &std::io::Error| e.kind() == ErrorKind::NotFound;
    let length = match fs::metadata(path) {
        Err(e) if missing(&e) => return Ok(None),
        found => found.map_err(|e| io("reading", path, e))?.len(),
    };
    if length > BLOB_BYTES_MAX.saturating_add(FRAME_BYTES) {
        return Err(ContentError::Flawed("it is larger than a blob can be"));
    }
    match fs::read(path) {
        Err(e) if missing(&e) => Ok(None), // it went between the two looks
        framed => Ok(Some(framed.map_err(|e| io("reading", path, e))?)),
    }
}

fn stray(path: &Path) -> StoreError {
    damaged(format!("{} is no file of ctxlog's", path.display()))
}

/// The names in a directory, ascending; none where it does not exist.
fn names(dir: &Path) -> Result<Vec<String>, StoreError> {
    let listed = match fs::read_dir(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed.map_err(|e| io("reading", dir, e))?,
    };
    let mut names = Vec::new();
    for found in listed {
        let found = found.map_err(|e| io("reading", dir, e))?;
        names.push(found.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    Ok(names)
}

fn frame(key: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut codec = Codec::default();
    let (kind, body) = codec.shrink(bytes, bytes.len() / 16);
    let mut framed = Vec::with_capacity(body.len().saturating_add(HEAD_BYTES).saturating_add(4));
    framed.push(kind);
    framed.extend(super::frame::length(bytes.len()).to_be_bytes());
    framed.extend(body);
    let crc = crc32c::crc32c_append(crc32c::crc32c(key), &framed);
    framed.extend(crc.to_be_bytes());
    framed
}

fn unframe(key: &[u8], framed: &[u8]) -> Option<Vec<u8>> {
    let (framed, crc) = framed.split_last_chunk::<4>()?;
    let found = crc32c::crc32c_append(crc32c::crc32c(key), framed);
    if found != u32::from_be_bytes(*crc) {
        return None;
    }
    let (kind, rest) = framed.split_first()?;
    let (size, body) = rest.split_first_chunk::<4>()?;
    let size = u32::from_be_bytes(*size);
    if u64::from(size) > BLOB_BYTES_MAX {
        return None;
    }
    let size = usize::try_from(size).ok()?;
    Codec::default().expand(*kind, body, size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINEAGE: ConversationId = ConversationId([7; 16]);
    const ADDRESS: Hash = Hash([9; 32]);

    fn media() -> (tempfile::TempDir, Media) {
        let room = tempfile::tempdir().unwrap();
        let media = Media::new(room.path().join("blobs"));
        (room, media)
    }

    fn contents() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..2_000),
            (any::<u8>(), 0_usize..70_000).prop_map(|(byte, size)| vec![byte; size]),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn a_blob_is_given_back_bit_for_bit_and_no_flipped_bit_is(
            bytes in contents(), bit in any::<prop::sample::Index>(), short in any::<prop::sample::Index>()
        ) {
            let (_room, media) = media();
            media.put(LINEAGE, ADDRESS, &bytes).unwrap();
            media.sync().unwrap();
            prop_assert_eq!(media.get(LINEAGE, ADDRESS).unwrap(), Some(bytes.clone()));
            let path = media.path(LINEAGE, ADDRESS);
            let whole = fs::read(&path).unwrap();
            let mut flipped = whole.clone();
            let bit = bit.index(flipped.len() * 8);
            flipped[bit / 8] ^= 1 << (bit % 8);
            for damaged in [&flipped[..], &whole[..short.index(whole.len())]] {
                fs::write(&path, damaged).unwrap();
                prop_assert!(matches!(media.get(LINEAGE, ADDRESS), Err(ContentError::Flawed(_))));
                prop_assert_eq!(media.check(Some(LINEAGE)).unwrap().len(), 1);
            }
            media.put(LINEAGE, ADDRESS, &bytes).unwrap();
            prop_assert_eq!(media.get(LINEAGE, ADDRESS).unwrap(), Some(bytes));
            prop_assert_eq!(media.check(None).unwrap().len(), 0);
        }
    }

    #[test]
    fn a_file_under_another_name_and_one_of_nobody_are_told() {
        let (_room, media) = media();
        media.put(LINEAGE, ADDRESS, b"some words").unwrap();
        media.sync().unwrap();
        let other = Hash([1; 32]);
        fs::copy(media.path(LINEAGE, ADDRESS), media.path(LINEAGE, other)).unwrap();
        fs::write(media.of(LINEAGE).join("notes"), "mine").unwrap();
        fs::create_dir(media.dir.join("else")).unwrap();
        assert!(matches!(
            media.get(LINEAGE, other),
            Err(ContentError::Flawed(_))
        ));
        assert_eq!(media.check(Some(LINEAGE)).unwrap().len(), 2);
        assert_eq!(media.check(None).unwrap().len(), 3);
        assert_eq!(media.addresses(LINEAGE).unwrap(), [other, ADDRESS]);
    }

    #[test]
    fn what_was_removed_is_gone_and_removing_it_again_is_no_error() {
        let (_room, media) = media();
        media.put(LINEAGE, ADDRESS, &vec![3; 100_000]).unwrap();
        media.sync().unwrap();
        assert!(fs::metadata(media.path(LINEAGE, ADDRESS)).unwrap().len() < 1_000);
        media.remove(LINEAGE, ADDRESS).unwrap();
        media.remove(LINEAGE, ADDRESS).unwrap();
        media.sync().unwrap();
        assert_eq!(media.get(LINEAGE, ADDRESS).unwrap(), None);
        assert_eq!(media.addresses(LINEAGE).unwrap(), []);
    }

    #[test]
    fn a_blob_has_its_name_once_it_is_synced_and_is_read_before() {
        let (room, media) = media();
        media.put(LINEAGE, ADDRESS, b"words").unwrap();
        assert!(!media.path(LINEAGE, ADDRESS).exists());
        assert_eq!(media.get(LINEAGE, ADDRESS).unwrap().unwrap(), b"words");
        // Whoever comes after a crash takes nothing that was not synced for a blob.
        let after = Media::new(room.path().join("blobs"));
        assert_eq!(after.get(LINEAGE, ADDRESS).unwrap(), None);
        assert_eq!(after.check(None).unwrap().len(), 0);
        assert_eq!(after.addresses(LINEAGE).unwrap(), [ADDRESS]);
        media.sync().unwrap();
        assert!(media.path(LINEAGE, ADDRESS).exists());
        assert_eq!(after.get(LINEAGE, ADDRESS).unwrap().unwrap(), b"words");
        media.put(LINEAGE, ADDRESS, b"words").unwrap();
        media.remove(LINEAGE, ADDRESS).unwrap();
        media.put(LINEAGE, ADDRESS, b"words").unwrap();
        media.remove(LINEAGE, ADDRESS).unwrap();
        media.sync().unwrap();
        assert_eq!(after.get(LINEAGE, ADDRESS).unwrap(), None);
    }
}
