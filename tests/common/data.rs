//! Where the recorded transcripts are.

use std::path::{Path, PathBuf};

/// The recorded transcripts of a folder, where this machine has them. Where they are required, their
/// absence is a failure.
pub fn data(folder: &str) -> Option<Vec<PathBuf>> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    let root = std::env::var_os("CTXLOG_DATA").map_or_else(beside, PathBuf::from);
    let Ok(entries) = std::fs::read_dir(root.join(folder)) else {
        let required = std::env::var_os("CTXLOG_REQUIRE_DATA").is_some();
        assert!(!required, "the transcripts are required, and not there");
        println!("skipped: no transcripts");
        return None;
    };
    let mut files: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "no files in {folder}");
    Some(files)
}
