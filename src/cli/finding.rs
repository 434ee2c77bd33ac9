//! Which files are meant where a folder or a pattern is named.

use std::path::{Path, PathBuf};

use super::errors::Failure;

/// A file to import.
pub struct Given {
    pub path: PathBuf,
    /// What its conversations are called after, where a folder was named: its path in there.
    pub stem: Option<String>,
}

impl Given {
    /// Whether it was named itself, and not found in a folder: then it has to be a transcript.
    pub const fn is_named(&self) -> bool {
        self.stem.is_none()
    }
}

/// The files that are meant, folders and patterns opened, each once. A folder means all files in it and
/// below, except what is hidden.
pub fn files(named: &[PathBuf]) -> Result<Vec<Given>, Failure> {
    let mut found = Vec::new();
    for path in named {
        if path.is_dir() {
            below(path, &mut found)?;
        } else if path.exists() || !is_pattern(path) {
            let (path, stem) = (path.clone(), None);
            found.push(Given { path, stem });
        } else {
            for path in matching(path)? {
                if path.is_dir() {
                    below(&path, &mut found)?;
                } else {
                    found.push(Given { path, stem: None });
                }
            }
        }
    }
    Ok(found)
}

fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?', '['])
}

/// The paths of a pattern that the shell left as it is.
fn matching(pattern: &Path) -> Result<Vec<PathBuf>, Failure> {
    let text = pattern.to_string_lossy();
    let help = "quote what a shell would change, or name the folder";
    let paths = glob::glob(&text).map_err(|error| {
        let message = format!("'{text}' is no pattern: {error}");
        Failure::usage("no-pattern", message, help)
    })?;
    let mut found = Vec::new();
    for path in paths {
        found.push(path.map_err(|e| Failure::file("read", e.path(), e.error()))?);
    }
    if found.is_empty() {
        return Err(Failure::usage(
            "io",
            format!("no file is like '{text}'"),
            help,
        ));
    }
    Ok(found)
}

/// The files of a folder in the order of their names. Links to folders are not followed, so there are
/// no circles.
fn below(folder: &Path, found: &mut Vec<Given>) -> Result<(), Failure> {
    let mut due = vec![folder.to_owned()];
    let mut files = Vec::new();
    while let Some(dir) = due.pop() {
        let entries = std::fs::read_dir(&dir).map_err(|e| Failure::file("read", &dir, &e))?;
        for entry in entries {
            let entry = entry.map_err(|e| Failure::file("read", &dir, &e))?;
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            let path = entry.path();
            let kind = entry
                .file_type()
                .map_err(|e| Failure::file("read", &path, &e))?;
            if kind.is_dir() {
                due.push(path);
            } else if path.is_file() {
                files.push(path);
            }
        }
    }
    files.sort();
    found.extend(files.into_iter().map(|path| {
        let within = path
            .strip_prefix(folder)
            .unwrap_or(&path)
            .with_extension("");
        let names = within.iter().map(|name| name.to_string_lossy());
        let stem = names.collect::<Vec<_>>().join("/");
        Given {
            path,
            stem: Some(stem),
        }
    }));
    Ok(())
}
