//! Files as the disk sees them.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a folder of a store") {
        let path = entry.expect("a file of a store").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// The bytes that the disk holds for a folder.
pub fn allocated(dir: &Path) -> u64 {
    let blocks = |path: &PathBuf| fs::metadata(path).expect("a file of a store").blocks();
    files(dir).iter().map(|path| blocks(path) * 512).sum()
}

/// Makes the system forget what it holds of a closed store in memory. Only of these files: other
/// work on the machine keeps its own.
pub fn evict(dir: &Path) {
    for path in files(dir) {
        let file = File::open(&path).expect("a file of a store");
        // Pages that are not written yet would stay.
        file.sync_all().expect("a sync of a store's file");
        fadvise(&file, 0, None, Advice::DontNeed).expect("advice about a store's file");
    }
}
