//! Where the recorded transcripts are, and the pages beside them.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    std::env::var_os("CTXLOG_DATA").map_or_else(beside, PathBuf::from)
}

/// The recorded transcripts of a folder, where this machine has them. Where they are required, their
/// absence is a failure.
pub fn data(folder: &str) -> Option<Vec<PathBuf>> {
    let Ok(entries) = std::fs::read_dir(root().join(folder)) else {
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

/// The folders of recorded transcripts, one a format, where this machine has them.
pub fn folders() -> Option<Vec<PathBuf>> {
    let mut folders = data("")?;
    folders.retain(|folder| folder.is_dir());
    Some(folders)
}

/// A page that lies beside the transcripts, where this machine has it.
pub fn page(name: &str) -> Option<String> {
    let page = std::fs::read_to_string(root().with_file_name("spec").join(name));
    if page.is_err() {
        println!("skipped: no page {name}");
    }
    page.ok()
}
